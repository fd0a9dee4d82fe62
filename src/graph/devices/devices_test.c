/*
 * Goal: of all choices of nodes for a device the cheapest is taken, what lies there fits, and
 * --explain says what runs where and why.
 */
#include "graph/devices/devices.h"
#include "graph/random_graph.h"
#include "graph/session.h"

#include <math.h>
#include <string.h>

#include "graph/devices/late_device_test.h"
#include "graph_kit.h"
#include "gy_test.h"
#include "ops/kernels/libraries.h"

enum { GROUPS_MAX = 13, ROWS = 5 };

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
    bool side[64] = {false};
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
            is_read =
                is_read || (graph->nodes[graph->roots[r].value.node].op != &gy_ops_row_assign &&
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

static gy_graph *compiled(const gy_graph *graph, late_device *device, const gy_node *fetches)
{
    const gy_value values[] = {{fetches[0].index, fetches[0].output},
                               {fetches[1].index, fetches[1].output}};
    const gy_mesh mesh = gy_mesh_line(NULL);
    gy_graph *bound = NULL, *out = NULL;
    assert_ok(gy_graph_status(graph));
    assert_ok(gy_bind(graph, &mesh, ROWS, values, 2, &bound));
    assert_ok(gy_compile(bound, 0, NULL, &out));
    out->device = &device->device;
    gy_graph_free(bound);
    return out;
}

static gy_graph *scheduled(random_graph *r, late_device *device)
{
    const gy_node u = r->parameters[0];
    const gy_node update = gy_op_assign(u, gy_op_sub(u, gy_op_gradient(r->loss, u)));
    return compiled(r->graph, device, (gy_node[]){r->loss, update});
}

/* A few operators that no pass fuses, views among them, of which one is fetched and another
 * assigned. */
static gy_graph *few(gy_random *random, late_device *device, gy_graph **made)
{
    static const int64_t sizes[] = {ROWS, ROWS};
    gy_graph *g = kit_graph();
    gy_node values[10] = {gy_graph_input(g, "x", GY_F64, sizes, 2),
                          gy_graph_parameter(g, "p", GY_F64, sizes, 2, gy_init_zeros())};
    int count = 2;
    while (count < 8) {
        const gy_node a = values[gy_random_below(random, (uint64_t)count)];
        const gy_node b = values[gy_random_below(random, (uint64_t)count)];
        const gy_node drawn[] = {
            gy_op_matmul(a, b), gy_op_softmax(a, 1), gy_op_transpose(a, (int[]){1, 0}),
            gy_op_cumsum(a, 0, false),
            gy_op_softmax(gy_op_reshape(a, (int64_t[]){(int64_t)ROWS * ROWS}, 1), 0)};
        const uint64_t which = gy_random_below(random, GY_COUNT(drawn));
        values[count++] = which < 4 ? drawn[which] : gy_op_reshape(drawn[4], sizes, 2);
    }
    *made = g;
    return compiled(g, device, (gy_node[]){values[7], gy_op_assign(values[1], values[5])});
}

static void check_cheapest(uint64_t seed, int *mixed)
{
    gy_graph *made;
    gy_random random = {.key = seed};
    late_device device;
    choice c;
    bool is_there[64];
    late_imagine(&random, &device);
    gy_graph *graph = few(&random, &device, &made);
    if (list_groups(graph, &c)) {
        double best = INFINITY;
        uint32_t taken = 0;
        uint64_t wanted = 1;
        for (uint32_t there = 0; there < 1u << c.count; there++) {
            best = fmin(best, price(&c, there));
        }
        assert_ok(gy_devices_choose(graph, is_there, &wanted));
        assert_int_equal(wanted, 0);
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
    late_end(&device);
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

/* One value in all elements that both sides read is made on both. */
GY_TEST(a_fill_is_not_copied)
{
    static const int64_t sizes[] = {64, 64};
    gy_random random = {.key = 1};
    late_device device;
    gy_graph *g = kit_graph(), *out = NULL;
    const gy_node p = gy_graph_parameter(g, "p", GY_F64, sizes, 2, gy_init_zeros());
    const gy_node twos = gy_graph_fill(g, GY_F64, sizes, 2, 2);
    late_imagine(&random, &device);
    device.refuse = 0;
    device.device.rates.launch_s = device.device.rates.copy_s = 1e-9;
    gy_graph *graph = compiled(g, &device, (gy_node[]){gy_op_matmul(p, twos), twos});
    assert_ok(gy_pass_devices(graph, &out));
    int fills = 0, copies = 0;
    for (int32_t i = 0; i < out->node_count; i++) {
        const gy_graph_node *node = &out->nodes[i];
        fills += node->op == &gy_ops_row_fill;
        copies += node->op == &gy_ops_row_to_device || node->op == &gy_ops_row_to_host;
        assert_true(node->op != &gy_ops_row_matmul || node->is_on_device);
    }
    assert_int_equal(fills, 2);
    assert_int_equal(copies, 1); /* the product's, which is fetched */
    gy_graph_free(out);
    gy_graph_free(graph);
    gy_graph_free(g);
    late_end(&device);
}

/* ---- memory ---- */

/* A limit is kept while the CPU may take what does not fit. */
GY_TEST(what_lies_there_fits)
{
    const uint64_t seed = gy_test_seed();
    for (uint64_t i = 0; i < 10; i++) {
        random_graph r;
        late_device device;
        random_graph_make(&r, seed + i, false, 12);
        late_imagine(&r.random, &device);
        device.refuse = 0;
        device.device.rates.launch_s = device.device.rates.copy_s = 1e-9;
        gy_graph *graph = scheduled(&r, &device);
        bool *is_there = gy_alloc_zero("test", (size_t)graph->node_count, sizeof(bool));
        uint64_t wanted = 1;
        assert_ok(gy_devices_choose(graph, is_there, &wanted));
        const uint64_t most = gy_devices_bytes(graph, is_there);
        assert_true(most > 0 && wanted == 0);
        device.device.rates.memory_bytes = most / 2;
        assert_ok(gy_devices_choose(graph, is_there, &wanted));
        assert_int_equal(wanted, most);
        assert_true(gy_devices_bytes(graph, is_there) <= most / 2);
        gy_free(is_there);
        gy_graph_free(graph);
        gy_graph_free(r.graph);
        late_end(&device);
    }
}

/* Parameters that lie there already cannot go back. */
GY_TEST(what_cannot_fit_is_named)
{
    random_graph r;
    gy_random random = {.key = 3};
    late_device device;
    bool is_there[512];
    random_graph_make(&r, 3, false, 4);
    late_imagine(&random, &device);
    device.refuse = 0;
    device.device.rates.memory_bytes = 8;
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        r.graph->nodes[r.parameters[i].index].home = GY_HOME_DEVICE;
    }
    gy_graph *graph = scheduled(&r, &device);
    assert_true(graph->node_count < (int32_t)GY_COUNT(is_there));
    uint64_t wanted = 0;
    assert_status(gy_devices_choose(graph, is_there, &wanted), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "device late has 8 B"));
    gy_graph_free(graph);
    gy_graph_free(r.graph);
    late_end(&device);
}

static gy_device_share explained(uint64_t refuse, double copy_s, gy_text *text)
{
    random_graph r;
    gy_random random = {.key = 5};
    late_device device;
    random_graph_make(&r, 5, false, 6);
    late_imagine(&random, &device);
    device.refuse = refuse;
    device.device.rates.launch_s = device.device.rates.copy_s = copy_s;
    gy_graph *graph = scheduled(&r, &device), *out = NULL;
    assert_ok(gy_pass_devices(graph, &out));
    assert_ok(gy_graph_explain_devices(out, text));
    const gy_device_share share = out->share;
    gy_graph_free(out);
    gy_graph_free(graph);
    gy_graph_free(r.graph);
    late_end(&device);
    return share;
}

GY_TEST(explain_tells_nodes_copies_and_reasons)
{
    gy_text all = {.data = NULL}, none = {.data = NULL}, far = {.data = NULL};
    char nodes[64];
    gy_device_share share = explained(0, 1e-9, &all);
    assert_true(share.there > 0 && share.there == share.nodes);
    assert_string_equal(share.why, "");
    (void)gy_print(nodes, sizeof(nodes), "device late: %d of %d nodes, ", share.there,
                   share.nodes);
    assert_non_null(strstr(gy_text_get(&all), nodes));
    assert_non_null(strstr(gy_text_get(&all), "  to the device: x f64[5,4], 160 B, "));
    assert_non_null(strstr(gy_text_get(&all), "  back: "));
    share = explained(1, 1e-9, &none);
    assert_true(share.there == 0 && share.nodes > 0);
    assert_string_equal(share.why, "no kernel");
    assert_non_null(strstr(gy_text_get(&none), "device late: 0 of "));
    assert_non_null(strstr(gy_text_get(&none), " ms: no kernel\n"));
    assert_null(strstr(gy_text_get(&none), "to the device"));
    share = explained(0, 1, &far);
    assert_int_equal(share.there, 0);
    assert_string_equal(share.why, "no faster there, with its copies");
    gy_text_free(&all);
    gy_text_free(&none);
    gy_text_free(&far);
}

/* ---- what is left to the CPU ---- */

/* Of two convolutions with a pool between them a device that refuses all runs none: those of
 * the CPU have the kernels, and values the blocks, that they have without a device. */
GY_TEST(convolutions_that_stay_have_fast_kernels)
{
    gy_random random = {.key = 1};
    late_device device;
    late_imagine(&random, &device);
    device.refuse = 1;
    gy_graph *g = kit_graph();
    const gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){ROWS, 16, 8, 8}, 4);
    const gy_node w =
        gy_graph_parameter(g, "w", GY_F32, (int64_t[]){16, 16, 3, 3}, 4, gy_init_he());
    const gy_conv_options padded = {.pad = {1, 1}};
    const gy_node y = gy_op_max_pool(gy_op_relu(gy_op_conv2d(x, w, &padded)),
                                     &(gy_window_options){.window = {2, 2}});
    const gy_node fetch = gy_op_conv2d(y, w, &padded);
    const gy_value values[] = {{fetch.index, fetch.output}};
    const gy_mesh mesh = gy_mesh_line(NULL);
    int kernels[2] = {0, 0}, reorders[2] = {0, 0};
    for (int has_device = 0; has_device < 2; has_device++) {
        gy_graph *bound = NULL, *out = NULL;
        assert_ok(gy_bind(g, &mesh, ROWS, values, 1, &bound));
        bound->device = has_device != 0 ? &device.device : NULL;
        assert_ok(gy_compile(bound, 0, NULL, &out));
        for (int32_t i = 0; i < out->node_count; i++) {
            gy_view views[GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX];
            const gy_kernel_query query = gy_graph_query(out, i, 1, views);
            const bool is_conv = out->nodes[i].op == &gy_ops_row_conv2d;
            kernels[has_device] += is_conv && gy_kernel_choose(&query) != NULL ? 1 : 0;
            reorders[has_device] += out->nodes[i].op == &gy_ops_row_reorder ? 1 : 0;
        }
        gy_graph_free(out);
        gy_graph_free(bound);
    }
    assert_int_equal(kernels[1], kernels[0]);
    assert_int_equal(reorders[1], reorders[0]);
    assert_true(kernels[0] == 2 || gy_tile_isa_level() != GY_TILE_ISA_AVX512);
    gy_graph_free(g);
    late_end(&device);
}

GY_TEST_MAIN(NULL, NULL)
