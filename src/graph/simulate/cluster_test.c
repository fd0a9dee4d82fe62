/* Goal: a description of a cluster means what it says or is refused by name; meshes that are
 * proposed have all ranks and a row for each; ranks that do not exist run nothing. */
#include "graph/simulate/simulate.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

GY_TEST(test_description)
{
    gy_virtual_cluster c;
    assert_ok(gy_virtual_cluster_parse(
        "hosts=512,gpus=8,near=450GB/s,far=400Gbit/s,near-latency=1us,far-latency=0.01ms,"
        "flops=400T,bandwidth=3.35TB/s,memory=80GB",
        &c));
    assert_int_equal(gy_virtual_cluster_ranks(&c), 4096);
    assert_true(c.near_bytes_s == 450e9 && c.far_bytes_s == 50e9);
    assert_true(fabs(c.near_latency_s - 1e-6) < 1e-18 && fabs(c.far_latency_s - 1e-5) < 1e-17);
    assert_true(c.flops_s == 400e12 && c.memory_bytes_s == 3.35e12);
    assert_true(c.memory_bytes == 80000000000);
    assert_ok(gy_virtual_cluster_parse("gpus=2,near=1.5GiB/s", &c));
    assert_true(c.hosts == 1 && c.ranks_per_host == 2 && c.near_bytes_s == 1.5 * 0x1p30);
    assert_true(c.flops_s == 0 && c.memory_bytes == 0);
}

GY_TEST(test_refused)
{
    static const struct {
        const char *text, *expected; /* in the message */
    } bad[] = {
        {"", "expected KEY=VALUE"},
        {"hosts", "'hosts': expected KEY=VALUE"},
        {"hosts=2,,gpus=2", "expected KEY=VALUE"},
        {"gpus=8,", "expected KEY=VALUE"},
        {"gpu=8", "no setting 'gpu', the nearest is gpus"},
        {"host=8", "the nearest is hosts"},
        {"flop=1T", "the nearest is flops"},
        {"near-latenzy=1us", "the nearest is near-latency"},
        {"gpus=8,gpus=8", "gpus is given twice"},
        {"hosts=0", "hosts is '0': expected 1 to 65536"},
        {"hosts=1.5", "hosts is '1.5'"},
        {"hosts=-1", "hosts is '-1'"},
        {"hosts= 2", "hosts is ' 2'"},
        {"hosts=0x10", "hosts is '0x10'"},
        {"hosts=65537", "hosts is '65537'"},
        {"hosts=1e99", "hosts is '1e99'"},
        {"hosts=", "hosts is ''"},
        {"gpus=2k", "gpus is '2k'"},
        {"gpus=1025", "1 to 1024"},
        {"hosts=65536,gpus=2,near=1GB/s,far=1GB/s", "are 131072: expected up to 65536"},
        {"near=450", "near is '450': expected a speed"},
        {"near=450GB", "near is '450GB'"},
        {"near=0GB/s", "near is '0GB/s'"},
        {"near=infGB/s", "near is 'infGB/s'"},
        {"near=1e9TB/s", "near is '1e9TB/s'"},
        {"near=450XB/s", "near is '450XB/s'"},
        {"near-latency=5", "expected a time"},
        {"near-latency=2h", "expected a time"},
        {"flops=400TB", "flops is '400TB': expected operations a second"},
        {"flops=0", "flops is '0'"},
        {"flops=nan", "flops is 'nan'"},
        {"memory=80Gbit", "memory is '80Gbit'"},
        {"memory=0", "memory is '0'"},
        {"schedule=1f1b", "no setting 'schedule'"},
        {"hosts=2", "no speed between them: expected such as far="},
        {"hosts=2,gpus=2,far=1GB/s", "expected such as near="},
    };
    for (size_t i = 0; i < GY_COUNT(bad); i++) {
        gy_virtual_cluster c = {.hosts = 77};
        const gy_status status = gy_virtual_cluster_parse(bad[i].text, &c);
        if (status != GY_ARG || strstr(gy_error_text(), bad[i].expected) == NULL) {
            fail_msg("'%s': %d, %s", bad[i].text, (int)status, gy_error_text());
        }
        assert_int_equal(c.hosts, 77); /* untouched */
    }
}

GY_TEST(test_meshes)
{
    static const int hosts[] = {1, 2, 3, 8, 512}, gpus[] = {1, 2, 6, 8};
    for (size_t i = 0; i < GY_COUNT(hosts) * GY_COUNT(gpus); i++) {
        const gy_virtual_cluster c = {.hosts = hosts[i / GY_COUNT(gpus)],
                                      .ranks_per_host = gpus[i % GY_COUNT(gpus)],
                                      .near_bytes_s = 1e9,
                                      .far_bytes_s = 1e9};
        const int ranks = gy_virtual_cluster_ranks(&c);
        for (int64_t batch = 1; batch <= 8192; batch *= 8) {
            gy_virtual_mesh meshes[GY_VIRTUAL_MESHES_MAX];
            const int count = gy_virtual_meshes(&c, batch, meshes);
            assert_true(count <= GY_VIRTUAL_MESHES_MAX && (count > 0 || batch < ranks));
            for (int k = 0; k < count; k++) {
                gy_mesh *mesh = NULL;
                assert_ok(gy_mesh_virtual(&c, meshes[k].axes, &mesh));
                assert_true(gy_mesh_row_ranks(mesh) <= batch);
                gy_mesh_free(mesh);
                for (int other = 0; other < k; other++) {
                    assert_true(meshes[other].zero != meshes[k].zero ||
                                strcmp(meshes[other].axes, meshes[k].axes) != 0);
                }
            }
            if (batch >= ranks && ranks >= 16 && gpus[i % GY_COUNT(gpus)] == 8) {
                assert_int_equal(count, GY_VIRTUAL_MESHES_MAX);
            }
        }
    }
}

/* Every division of the ranks once, in the orders that say where ranks are; no axis of size 1.
 */
GY_TEST(test_all_meshes)
{
    static const struct {
        int hosts, gpus, count;
    } cases[] = {{1, 1, 1}, {1, 8, 10}, {8, 1, 10}, {2, 4, 16}, {1, 6, 9}, {3, 2, 13}};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const gy_virtual_cluster c = {.hosts = cases[i].hosts,
                                      .ranks_per_host = cases[i].gpus,
                                      .near_bytes_s = 1e9,
                                      .far_bytes_s = 1e9};
        const int ranks = gy_virtual_cluster_ranks(&c);
        gy_virtual_mesh all[32];
        assert_int_equal(gy_virtual_meshes_all(&c, ranks, all, 32), cases[i].count);
        for (int k = 0; k < cases[i].count; k++) {
            gy_mesh *mesh = NULL;
            assert_ok(gy_mesh_virtual(&c, all[k].axes, &mesh));
            assert_int_equal(all[k].data, gy_mesh_row_ranks(mesh));
            assert_int_equal(all[k].pipe, GY_MAX(mesh->stages, 1));
            assert_int_equal(all[k].data * all[k].pipe * all[k].model, ranks);
            assert_true(ranks == 1 || strstr(all[k].axes, "=1") == NULL);
            gy_mesh_free(mesh);
            for (int other = 0; other < k; other++) {
                assert_string_not_equal(all[other].axes, all[k].axes);
            }
        }
        assert_int_equal(gy_virtual_meshes_all(&c, ranks, all, 1), cases[i].count);
        assert_true(gy_virtual_meshes_all(&c, 1, all, 32) < cases[i].count || ranks == 1);
    }
    const gy_virtual_cluster c = {
        .hosts = 2, .ranks_per_host = 4, .near_bytes_s = 1e9, .far_bytes_s = 1e8};
    static const char *const three[] = {"pipe=2,data=2,model=2", "data=2,pipe=2,model=2",
                                        "pipe=2,model=2,data=2"};
    gy_virtual_mesh all[16];
    assert_int_equal(gy_virtual_meshes_all(&c, 64, all, 16), 16);
    for (size_t i = 0, found = 0; i < GY_COUNT(three); i++, found = 0) {
        for (int k = 0; k < 16; k++) {
            found += strcmp(all[k].axes, three[i]) == 0 ? 1 : 0;
        }
        assert_int_equal(found, 1);
    }
    assert_string_equal(all[15].axes, "model=8"); /* it leaves a host */
}

/* Settings over what ranks have: they stay as many. */
GY_TEST(test_adjusted)
{
    static const struct {
        const char *text;
        int hosts, gpus;      /* 0: refused */
        const char *expected; /* in the message */
    } cases[] = {{"flops=1G", 2, 4, NULL},
                 {"hosts=4", 4, 2, NULL},
                 {"gpus=8", 1, 8, NULL},
                 {"gpus=1,far=1MB/s", 8, 1, NULL},
                 {"hosts=1,gpus=8", 1, 8, NULL},
                 {"hosts=3", 0, 0, "3 hosts of 2 ranks, and there are 8 ranks"},
                 {"hosts=9", 0, 0, "9 hosts of 1 rank, and there are 8 ranks"},
                 {"hosts=2,gpus=2", 0, 0, "expected such as hosts=2,gpus=4"},
                 {"gpu=8", 0, 0, "the nearest is gpus"}};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_virtual_cluster c = {.hosts = 2,
                                .ranks_per_host = 4,
                                .far_bytes_s = 1e9,
                                .far_latency_s = 7e-6,
                                .near_latency_s = 1e-6};
        const gy_status status = gy_virtual_cluster_adjust(cases[i].text, &c);
        assert_int_equal(status, cases[i].hosts > 0 ? GY_OK : GY_ARG);
        assert_true(status >= 0 || strstr(gy_error_text(), cases[i].expected) != NULL);
        assert_int_equal(c.hosts, cases[i].hosts > 0 ? cases[i].hosts : 2);
        assert_int_equal(c.ranks_per_host, cases[i].hosts > 0 ? cases[i].gpus : 4);
        assert_true(c.far_latency_s == 7e-6); /* what is not named stays */
    }
    gy_virtual_cluster one = {.hosts = 1, .ranks_per_host = 4};
    assert_status(gy_virtual_cluster_adjust("hosts=2", &one), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "expected such as far="));
    assert_ok(gy_virtual_cluster_of(NULL, &one));
    assert_int_equal(gy_virtual_cluster_ranks(&one), 1);
}

/* The last rank of all, in stage 0; who is where follows from the order of the axes. */
GY_TEST(test_mesh)
{
    const gy_virtual_cluster c = {
        .hosts = 512, .ranks_per_host = 8, .near_bytes_s = 4e11, .far_bytes_s = 5e10};
    gy_mesh *mesh = NULL;
    assert_ok(gy_mesh_virtual(&c, "data=128,pipe=8,model=4", &mesh));
    assert_int_equal(mesh->axes, 2);
    assert_int_equal(mesh->stages, 8);
    assert_int_equal(mesh->stage, 0);
    assert_int_equal(mesh->coordinates[0], 127);
    assert_int_equal(mesh->coordinates[1], 3);
    assert_int_equal(mesh->apart[0], 32);
    assert_int_equal(mesh->stage_apart, 4);
    assert_int_equal(mesh->apart[1], 1);
    gy_mesh_free(mesh);
    assert_status(gy_mesh_virtual(&c, "data=128", &mesh), GY_ARG);
    assert_status(gy_mesh_virtual(&c, "rows=4096", &mesh), GY_ARG);
}

GY_TEST(test_nothing_runs)
{
    const gy_virtual_cluster c = {.hosts = 1, .ranks_per_host = 2, .near_bytes_s = 1e9};
    gy_mesh *mesh = NULL;
    gy_graph *graph = NULL;
    gy_session *session = NULL;
    gy_tensor *x = NULL, *result = NULL;
    assert_ok(gy_mesh_virtual(&c, "data=2", &mesh));
    assert_ok(gy_graph_new(&graph));
    const gy_node in = gy_graph_input(graph, "x", GY_F32, (int64_t[]){GY_BATCH, 2}, 2);
    const gy_node sum = gy_op_sum(in, 0, false);
    assert_ok(gy_session_new(graph, &GY_OPTIONS(gy_session_options, .mesh = mesh, .workers = 1),
                             &session));
    assert_ok(gy_tensor_zeros(NULL, GY_F32, (int64_t[]){1, 2}, 2, &x));
    const gy_feed feed = {in, x};
    assert_int_equal(gy_session_run(session, &feed, 1, 2, &sum, 1, &result), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "ranks that do not exist"));
    gy_tensor_drop(x);
    gy_session_free(session);
    gy_graph_free(graph);
    gy_mesh_free(mesh);
}

GY_TEST_MAIN(NULL, NULL)
