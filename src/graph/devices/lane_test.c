/*
 * Goal: a program that is cut between a CPU and a device, whose memory is apart and which runs
 * late, has the values of one that is not; parameters come and go with who wants them; a device
 * that is lost ends runs by name, and nothing of it is left.
 */
#include "graph/devices/devices.h"
#include "graph/random_graph.h"
#include "graph/session.h"

#include <math.h>
#include <string.h>

#include "graph/devices/late_device_test.h"
#include "graph_kit.h"
#include "gy_test.h"

enum { ROWS = 5 };

/* ---- copies ---- */

static bool is_copy(const gy_graph_node *node)
{
    return node->op == &gy_ops_row_to_device || node->op == &gy_ops_row_to_host;
}

/* Only copies cross, in the direction that they say. */
static void check_sides(const gy_graph *graph)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            const bool from = gy_graph_at(graph, node->inputs[k])->is_on_device;
            assert_int_equal(from, node->is_on_device != is_copy(node));
        }
        assert_true(!is_copy(node) ||
                    node->is_on_device == (node->op == &gy_ops_row_to_device));
    }
    for (int32_t i = 0; i < graph->root_count; i++) {
        const gy_graph_node *node = gy_graph_at(graph, graph->roots[i].value);
        assert_true(node->op == &gy_ops_row_assign || !node->is_on_device);
    }
}

typedef struct trained {
    double losses[3], parameters[RANDOM_PARAMETERS];
    int there, copies; /* nodes of its last program */
} trained;

static gy_tensor *fed(gy_random *random)
{
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_zeros(NULL, GY_F64, (int64_t[]){ROWS, RANDOM_FEATURES}, 2, &tensor));
    for (int64_t i = 0; i < ROWS * RANDOM_FEATURES; i++) {
        gy_tensor_set(tensor, i, gy_random_unit(random) - 0.5);
    }
    return tensor;
}

static void train(uint64_t seed, late_device *device, trained *out)
{
    random_graph r;
    gy_session *session;
    gy_random random = {.key = seed};
    gy_node fetches[1 + RANDOM_PARAMETERS];
    random_graph_make(&r, seed, false, 12);
    fetches[0] = r.loss;
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        const gy_node p = r.parameters[i];
        const gy_node rate = gy_graph_scalar(r.graph, GY_F64, 0.1);
        fetches[1 + i] =
            gy_op_assign(p, gy_op_sub(p, gy_op_mul(rate, gy_op_gradient(r.loss, p))));
    }
    gy_tensor *x = fed(&random), *y = fed(&random), *results[1 + RANDOM_PARAMETERS];
    const gy_feed feeds[] = {{r.x, x}, {r.y, y}};
    assert_ok(gy_graph_status(r.graph));
    assert_ok(gy_session_new(r.graph, &(gy_session_options){.workers = 2}, &session));
    if (device != NULL) {
        assert_ok(gy_session_set_device(session, &device->device));
    }
    *out = (trained){.there = 0};
    for (int step = 0; step < 3; step++) { /* the last of the loss alone */
        const int count = step < 2 ? 1 + RANDOM_PARAMETERS : 1;
        assert_ok(gy_session_run(session, feeds, 2, 0, fetches, count, results));
        out->losses[step] = gy_tensor_get(results[0], 0);
        gy_tensor_drop(results[0]);
        const gy_graph *graph = session->programs[session->program_count - 1]->graph;
        check_sides(graph);
        for (int32_t i = 0; i < graph->node_count; i++) {
            out->there += graph->nodes[i].is_on_device;
            out->copies += is_copy(&graph->nodes[i]);
        }
    }
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        const char *const names[] = {"u", "v", "w", "row"};
        gy_tensor *have = gy_session_parameter(session, names[i]);
        for (int64_t k = 0; k < gy_tensor_count(have); k++) {
            out->parameters[i] += gy_tensor_get(have, k) * (double)(k + 1);
        }
    }
    gy_session_free(session);
    gy_tensor_drop(x);
    gy_tensor_drop(y);
    gy_graph_free(r.graph);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(1, fabs(a));
}

GY_TEST(a_cut_program_has_the_same_values)
{
    const uint64_t seed = gy_test_seed();
    int there = 0, copies = 0;
    for (uint64_t i = 0; i < 30; i++) {
        trained alone, both;
        late_device device;
        gy_random random = {.key = seed + i + 1000};
        late_imagine(&random, &device);
        train(seed + i, NULL, &alone);
        train(seed + i, &device, &both);
        for (int k = 0; k < 3; k++) { /* kernels may differ, and so the order of sums */
            assert_true(is_near(alone.losses[k], both.losses[k]));
        }
        for (int k = 0; k < RANDOM_PARAMETERS; k++) {
            assert_true(is_near(alone.parameters[k], both.parameters[k]));
        }
        assert_int_equal(alone.there, 0);
        there += both.there;
        copies += both.copies;
        late_end(&device);
    }
    assert_true(there > 100 && copies > 50);
}

/* ---- parameters ---- */

/* x = x + 1, on a device that alone can add. */
GY_TEST(parameters_come_back_and_go_there)
{
    gy_random random = {.key = 1};
    late_device device;
    gy_session *session;
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_parameter(g, "x", GY_F64, (int64_t[]){4}, 1, gy_init_zeros());
    gy_node step = gy_op_assign(x, gy_op_cumsum(gy_op_exp(x), 0, false));
    gy_node seen = gy_op_cumsum(x, 0, false);
    gy_tensor *result = NULL;
    late_imagine(&random, &device);
    device.refuse = 0;
    device.device.rates.launch_s = device.device.rates.copy_s = 1e-12;
    device.device.rates.copy_bytes_s = 1e15;
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_session_set_device(session, &device.device));
    assert_ok(gy_session_run(session, NULL, 0, 0, &step, 1, &result));
    assert_int_equal(session->homes[x.index], GY_HOME_DEVICE);
    assert_int_equal(device.fills, 1); /* zeros are made there, and nothing is fetched */
    assert_int_equal(device.copies, 0);
    gy_tensor *here = gy_session_parameter(session, "x"); /* brought */
    for (int64_t i = 0; i < 4; i++) {
        assert_true(gy_tensor_get(here, i) == (double)(i + 1));
        gy_tensor_set(here, i, 10);
    }
    assert_ok(gy_session_run(session, NULL, 0, 0, &seen, 1, &result)); /* sent again */
    assert_true(gy_tensor_get(result, 3) == 40);
    assert_int_equal(device.fills, 1);
    gy_tensor_drop(result);
    const uint64_t copies = device.copies;
    assert_ok(gy_session_run(session, NULL, 0, 0, &seen, 1, &result)); /* not sent */
    assert_int_equal(device.copies, copies + 1);
    gy_tensor_drop(result);
    gy_session_free(session);
    gy_graph_free(g);
    late_end(&device);
}

/* ---- a device that is lost ---- */

GY_TEST(a_lost_device_ends_runs_by_name)
{
    for (uint64_t at = 1; at < 12; at++) {
        gy_random random = {.key = at};
        late_device device;
        gy_session *session;
        gy_graph *g = kit_graph();
        gy_node x = gy_graph_parameter(g, "x", GY_F64, (int64_t[]){4}, 1, gy_init_zeros());
        gy_node sum = gy_op_cumsum(gy_op_exp(x), 0, false);
        gy_node fetches[] = {gy_op_assign(x, sum), gy_op_softmax(sum, 0)};
        gy_tensor *results[2];
        gy_status status = GY_OK;
        late_imagine(&random, &device);
        device.refuse = 0;
        device.device.rates.launch_s = device.device.rates.copy_s = 1e-12;
        device.device.rates.copy_bytes_s = 1e15;
        device.lost_at = at;
        assert_ok(gy_session_new(g, &(gy_session_options){.workers = 2}, &session));
        assert_ok(gy_session_set_device(session, &device.device));
        for (int run = 0; run < 8 && status >= 0; run++) {
            status = gy_session_run(session, NULL, 0, 0, fetches, 2, results);
            if (status >= 0) {
                gy_tensor_drop(results[1]);
            }
        }
        assert_int_equal(status, GY_PEER);
        assert_non_null(strstr(gy_error_text(), "device late is lost"));
        assert_status(gy_session_run(session, NULL, 0, 0, fetches, 2, results), GY_PEER);
        gy_session_free(session);
        gy_graph_free(g);
        late_end(&device);
    }
}

GY_TEST_MAIN(NULL, NULL)
