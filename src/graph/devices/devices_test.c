/*
 * Goal: of all choices of nodes for a device the cheapest is taken; what one side makes and the
 * other reads is copied; a program so cut has the values of one that is not. Here the device is
 * the CPU, so that its copies are copies.
 */
#include "base/hash.h"
#include "graph/devices/devices.h"
#include "graph/random_graph.h"
#include "graph/session.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { GROUPS_MAX = 13, ROWS = 5 };

typedef struct imagined {
    gy_device_model model;
    uint64_t seed;   /* which operators it has kernels for */
    uint64_t refuse; /* one operator of so many has none; 0: all have */
} imagined;

static bool accepts(void *arg, const gy_kernel_query *query, const char **why)
{
    const imagined *device = arg;
    const uint64_t hash = gy_hash(query->op->name, strlen(query->op->name), device->seed);
    const bool may = device->refuse == 0 || hash % device->refuse != 0;
    *why = may ? "" : "no kernel";
    return may;
}

static void imagine(gy_random *random, imagined *device)
{
    static const double launches[] = {1e-9, 1e-7, 1e-6}, copies[] = {1e-9, 1e-7, 3e-6};
    *device = (imagined){
        .seed = gy_random_below(random, 1000),
        .refuse = gy_random_below(random, 4) * 3,
        .model = {.name = "imagined",
                  .bytes_s = 50e9,
                  .launch_s = launches[gy_random_below(random, 3)],
                  .copy_s = copies[gy_random_below(random, 3)],
                  .copy_bytes_s = 10e9,
                  .host_flops_s = 1e8,
                  .host_bytes_s = 1e8,
                  .accepts = accepts}};
    device->model.flops_s[GY_F32] = 1e10;
}

/* ---- the cheapest ---- */

typedef struct choice {
    const gy_graph *graph;
    int32_t groups[64]; /* node -> the one whose side it is on */
    int32_t first[64];  /* those of their own */
    int count;
} choice;

/* What a choice takes, as its definition says. */
static double price(const choice *c, uint32_t there)
{
    const gy_graph *graph = c->graph;
    bool side[64];
    double sum = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        for (int k = 0; k < c->count; k++) {
            side[i] = c->first[k] == c->groups[i] ? (there >> k & 1) != 0 : side[i];
        }
        const char *why;
        if (side[i] && !gy_devices_can(graph, i, &why)) {
            return INFINITY;
        }
        sum += gy_devices_seconds(graph, i, side[i]);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        bool is_read = false;
        for (int32_t j = i; j < graph->node_count; j++) {
            for (int k = 0; k < graph->nodes[j].input_count; k++) {
                is_read = is_read || (c->groups[graph->nodes[j].inputs[k].node] == i &&
                                      side[j] != side[i]);
            }
        }
        for (int32_t r = 0; r < graph->root_count && side[i]; r++) {
            is_read = is_read || (graph->nodes[graph->roots[r].value.node].op !=
                                      &gy_ops_row_assign &&
                                  c->groups[graph->roots[r].value.node] == i);
        }
        sum += is_read ? gy_devices_copy_seconds(graph, (gy_value){i, 0}) : 0;
    }
    return sum;
}

static bool list_groups(const gy_graph *graph, choice *c)
{
    *c = (choice){.graph = graph};
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        const bool is_same =
            (node->op->flags & GY_OP_VIEW) != 0 || node->op == &gy_ops_row_assign;
        if (i >= 64 || node->output_count != 1 || (!is_same && c->count == GROUPS_MAX)) {
            return false;
        }
        c->groups[i] = is_same ? c->groups[node->inputs[0].node] : i;
        if (!is_same) {
            c->first[c->count++] = i;
        }
    }
    return true;
}

static gy_graph *compiled(const gy_graph *graph, const imagined *device, const gy_node *fetches)
{
    const gy_value values[] = {{fetches[0].index, fetches[0].output},
                               {fetches[1].index, fetches[1].output}};
    const gy_mesh mesh = gy_mesh_line(NULL);
    gy_graph *bound = NULL, *out = NULL;
    assert_ok(gy_graph_status(graph));
    assert_ok(gy_bind(graph, &mesh, ROWS, values, 2, &bound));
    assert_ok(gy_compile(bound, 0, NULL, &out));
    out->device = &device->model;
    gy_graph_free(bound);
    return out;
}

static gy_graph *scheduled(random_graph *r, const imagined *device)
{
    const gy_node u = r->parameters[0];
    const gy_node update = gy_op_assign(u, gy_op_sub(u, gy_op_gradient(r->loss, u)));
    return compiled(r->graph, device, (gy_node[]){r->loss, update});
}

/* A few operators that no pass fuses, views among them, of which one is fetched and another
 * assigned. */
static gy_graph *few(gy_random *random, const imagined *device, gy_graph **made)
{
    static const int64_t sizes[] = {ROWS, ROWS};
    gy_graph *g = kit_graph();
    gy_node values[10] = {
        gy_graph_input(g, "x", GY_F64, sizes, 2),
        gy_graph_parameter(g, "p", GY_F64, sizes, 2, gy_init_zeros())};
    int count = 2;
    while (count < 8) {
        const gy_node a = values[gy_random_below(random, (uint64_t)count)];
        const gy_node b = values[gy_random_below(random, (uint64_t)count)];
        const gy_node drawn[] = {
            gy_op_matmul(a, b), gy_op_softmax(a, 1), gy_op_transpose(a, (int[]){1, 0}),
            gy_op_cumsum(a, 0, false),
            gy_op_softmax(gy_op_reshape(a, (int64_t[]){ROWS * ROWS}, 1), 0)};
        const uint64_t which = gy_random_below(random, GY_COUNT(drawn));
        values[count++] = which < 4 ? drawn[which] : gy_op_reshape(drawn[4], sizes, 2);
    }
    *made = g;
    return compiled(g, device,
                    (gy_node[]){values[7], gy_op_assign(values[1], values[5])});
}

static void check_cheapest(uint64_t seed, int *mixed)
{
    gy_graph *made;
    gy_random random = {.key = seed};
    imagined device;
    choice c;
    bool is_there[64];
    imagine(&random, &device);
    device.model.arg = &device;
    gy_graph *graph = few(&random, &device, &made);
    if (list_groups(graph, &c)) {
        double best = INFINITY;
        uint32_t taken = 0;
        for (uint32_t there = 0; there < 1u << c.count; there++) {
            best = fmin(best, price(&c, there));
        }
        assert_ok(gy_devices_choose(graph, is_there));
        for (int k = 0; k < c.count; k++) {
            taken |= is_there[c.first[k]] ? 1u << k : 0;
        }
        if (fabs(price(&c, taken) - best) > 1e-11 * (c.count + 1)) {
            fail_msg("seed %llu: %g s, the cheapest choice takes %g s",
                     (unsigned long long)seed, price(&c, taken), best);
        }
        *mixed += taken != 0 && isfinite(best);
    }
    gy_graph_free(graph);
    gy_graph_free(made);
}

GY_TEST(the_cheapest_choice_is_taken)
{
    const uint64_t seed = gy_test_seed();
    int mixed = 0;
    for (uint64_t i = 0; i < 60; i++) {
        check_cheapest(seed + i, &mixed);
    }
    assert_true(mixed >= 5);
}

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

static void train(uint64_t seed, const imagined *device, trained *out)
{
    random_graph r;
    gy_session *session;
    gy_random random = {.key = seed};
    gy_node fetches[1 + RANDOM_PARAMETERS];
    random_graph_make(&r, seed, false, 12);
    r.graph->device = device != NULL ? &device->model : NULL;
    fetches[0] = r.loss;
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        const gy_node p = r.parameters[i];
        const gy_node rate = gy_graph_scalar(r.graph, GY_F64, 0.1);
        fetches[1 + i] = gy_op_assign(
            p, gy_op_sub(p, gy_op_mul(rate, gy_op_gradient(r.loss, p))));
    }
    gy_tensor *x = fed(&random), *y = fed(&random), *results[1 + RANDOM_PARAMETERS];
    const gy_feed feeds[] = {{r.x, x}, {r.y, y}};
    assert_ok(gy_graph_status(r.graph));
    assert_ok(gy_session_new(r.graph, &(gy_session_options){.workers = 2}, &session));
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

GY_TEST(a_cut_program_has_the_same_values)
{
    const uint64_t seed = gy_test_seed();
    int there = 0, copies = 0;
    for (uint64_t i = 0; i < 30; i++) {
        trained alone, both;
        imagined device;
        gy_random random = {.key = seed + i + 1000};
        imagine(&random, &device);
        device.model.arg = &device;
        train(seed + i, NULL, &alone);
        train(seed + i, &device, &both);
        for (int k = 0; k < 3; k++) {
            assert_true(memcmp(&alone.losses[k], &both.losses[k], sizeof(double)) == 0);
        }
        for (int k = 0; k < RANDOM_PARAMETERS; k++) {
            assert_true(
                memcmp(&alone.parameters[k], &both.parameters[k], sizeof(double)) == 0);
        }
        assert_int_equal(alone.there, 0);
        there += both.there;
        copies += both.copies;
    }
    assert_true(there > 100 && copies > 50);
}

/* ---- memory ---- */

/* A limit is kept while the CPU may take what does not fit. */
GY_TEST(what_lies_there_fits)
{
    const uint64_t seed = gy_test_seed();
    for (uint64_t i = 0; i < 10; i++) {
        random_graph r;
        imagined device;
        random_graph_make(&r, seed + i, false, 12);
        imagine(&r.random, &device);
        device.refuse = 0;
        device.model.launch_s = device.model.copy_s = 1e-9;
        device.model.arg = &device;
        gy_graph *graph = scheduled(&r, &device);
        bool *is_there = gy_alloc_zero("test", (size_t)graph->node_count, sizeof(bool));
        assert_ok(gy_devices_choose(graph, is_there));
        const uint64_t most = gy_devices_bytes(graph, is_there);
        assert_true(most > 0);
        device.model.memory_bytes = most / 2;
        assert_ok(gy_devices_choose(graph, is_there));
        assert_true(gy_devices_bytes(graph, is_there) <= most / 2);
        gy_free(is_there);
        gy_graph_free(graph);
        gy_graph_free(r.graph);
    }
}

/* Parameters that lie there already cannot go back. */
GY_TEST(what_cannot_fit_is_named)
{
    random_graph r;
    gy_random random = {.key = 3};
    imagined device;
    bool is_there[512];
    random_graph_make(&r, 3, false, 4);
    imagine(&random, &device);
    device.refuse = 0;
    device.model.memory_bytes = 8;
    device.model.arg = &device;
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        r.graph->nodes[r.parameters[i].index].home = GY_HOME_DEVICE;
    }
    gy_graph *graph = scheduled(&r, &device);
    assert_true(graph->node_count < (int32_t)GY_COUNT(is_there));
    assert_status(gy_devices_choose(graph, is_there), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "device imagined has 8 B"));
    gy_graph_free(graph);
    gy_graph_free(r.graph);
}

static void explained(uint64_t refuse, gy_text *text)
{
    random_graph r;
    gy_random random = {.key = 5};
    imagined device;
    random_graph_make(&r, 5, false, 6);
    imagine(&random, &device);
    device.refuse = refuse;
    device.model.launch_s = device.model.copy_s = 1e-9;
    device.model.arg = &device;
    gy_graph *graph = scheduled(&r, &device), *out = NULL;
    assert_ok(gy_pass_devices(graph, &out));
    assert_ok(gy_graph_explain_devices(out, text));
    gy_graph_free(out);
    gy_graph_free(graph);
    gy_graph_free(r.graph);
}

GY_TEST(explain_tells_nodes_copies_and_reasons)
{
    gy_text all = {.data = NULL}, none = {.data = NULL};
    explained(0, &all);
    assert_non_null(strstr(gy_text_get(&all), "device imagined: "));
    assert_non_null(strstr(gy_text_get(&all), "  to the device: x f64[5,4], 160 B, "));
    assert_non_null(strstr(gy_text_get(&all), "  back: "));
    explained(1, &none);
    assert_non_null(strstr(gy_text_get(&none), "device imagined: 0 of "));
    assert_non_null(strstr(gy_text_get(&none), " ms: no kernel\n"));
    assert_null(strstr(gy_text_get(&none), "to the device"));
    gy_text_free(&all);
    gy_text_free(&none);
}

GY_TEST_MAIN(NULL, NULL)
