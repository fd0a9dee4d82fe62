/* Goal: the cheap facts agree with what the system itself says. */
#include "topo/topo.h"
#include "topo/topo_priv.h"

#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

GY_TEST(instruction_sets_agree_with_linux)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL) {
        printf("no /proc/cpuinfo\n");
        skip();
    }
    char line[16384] = "";
    while (fgets(line, sizeof(line), file) != NULL && strncmp(line, "flags", 5) != 0) {
    }
    fclose(file);
    if (strncmp(line, "flags", 5) != 0) {
        printf("/proc/cpuinfo has no flags\n");
        skip();
    }
    line[strcspn(line, "\n")] = ' ';
    for (int isa = 0; isa < GY_ISA_COUNT; isa++) {
        char word[64];
        snprintf(word, sizeof(word), " %s ", gy_isa_name((gy_isa)isa));
        assert_int_equal(gy_isa_has((gy_isa)isa), strstr(line, word) != NULL);
    }
}

GY_TEST(cores_follow_the_affinity)
{
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(gy_topo_cpuset_cores(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &before)) {
            CPU_SET(core, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(gy_topo_cpuset_cores(), 1);
    assert_int_equal(gy_topo_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_true(gy_topo_cores() >= 1 && gy_topo_cores() <= CPU_COUNT(&before));
}

GY_TEST(quotas_are_read)
{
    assert_true(gy_topo_parse_cpu_max("max 100000\n") == 0);
    assert_true(gy_topo_parse_cpu_max("150000 100000\n") == 1.5);
    assert_true(gy_topo_parse_cpu_max("") == 0);
    assert_true(gy_topo_parse_cpu_max("150000") == 0);
    assert_true(gy_topo_parse_cpu_max("150000 0") == 0);
    assert_true(gy_topo_quota_cores() >= 0);
}

GY_TEST(caches_are_plausible)
{
    const gy_topo_caches *caches = gy_topo_cache_sizes();
    if (caches->data_bytes[1] == 0) {
        printf("the system does not tell its caches\n");
        skip();
    }
    assert_in_range(caches->data_bytes[1], 4096, 1 << 20);
    assert_true(caches->data_bytes[2] == 0 || caches->data_bytes[2] >= caches->data_bytes[1]);
    assert_true(caches->shared_by[1] >= 1);
    char name[128];
    gy_topo_cpu_name(name, sizeof(name));
    assert_true(strlen(name) > 0);
}

GY_TEST(machine_is_described)
{
    gy_text text = {.data = NULL};
    gy_status status = gy_topo_describe(&text);
    if (status == GY_UNSUPPORTED) {
        printf("%s\n", gy_error_text());
        skip();
    }
    assert_ok(status);
    assert_non_null(strstr(gy_text_get(&text), "hardware threads "));
    assert_non_null(strstr(gy_text_get(&text), "cores "));
    gy_text_free(&text);
}

static void write_group(const char *top, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s%s", top, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* A group without a limit of its own has that of the groups around it. */
GY_TEST(the_smallest_quota_of_the_tree_counts)
{
    static const char *const folders[] = {"", "/a", "/a/b", "/c"};
    char top[] = "/tmp/gyre-topo-XXXXXX", path[256];
    assert_non_null(mkdtemp(top));
    for (size_t i = 1; i < GY_COUNT(folders); i++) {
        snprintf(path, sizeof(path), "%s%s", top, folders[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    write_group(top, "/a/cpu.max", "150000 100000\n");
    write_group(top, "/a/b/cpu.max", "max 100000\n");
    write_group(top, "/c/cpu.max", "max 100000\n");
    write_group(top, "/a/cpu.cfs_quota_us", "250000\n");
    write_group(top, "/a/cpu.cfs_period_us", "100000\n");
    write_group(top, "/a/b/cpu.cfs_quota_us", "-1\n");
    write_group(top, "/a/b/cpu.cfs_period_us", "100000\n");
    static const struct {
        const char *group;
        double quotas[2];
    } cases[] = {{"/a", {2.5, 1.5}},        {"/a/b", {2.5, 1.5}}, {"/c", {0, 0}},
                 {"/a/b/gone", {2.5, 1.5}}, {"/host", {0, 0}},    {"/", {0, 0}}};
    for (int version = 1; version <= 2; version++) {
        for (size_t i = 0; i < GY_COUNT(cases); i++) {
            assert_true(gy_topo_quota_in(top, cases[i].group, version) ==
                        cases[i].quotas[version - 1]);
        }
    }
    write_group(top, "/cpu.cfs_quota_us", "50000\n");
    write_group(top, "/cpu.cfs_period_us", "100000\n");
    assert_true(gy_topo_quota_in(top, "/host/of/container", 1) == 0.5);
    assert_true(gy_topo_quota_in(top, "/a/b", 1) == 0.5);
    static const char *const files[] = {"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"};
    for (size_t i = GY_COUNT(folders); i-- > 0;) {
        for (size_t f = 0; f < GY_COUNT(files); f++) {
            snprintf(path, sizeof(path), "%s%s/%s", top, folders[i], files[f]);
            (void)unlink(path); /* not every group has each */
        }
        snprintf(path, sizeof(path), "%s%s", top, folders[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

GY_TEST_MAIN(NULL, NULL)
