/*
 * Goal: a parameter that is kept cut along data is gathered before its use, dropped, and
 * gathered again where its next use is far away; a few copies are there at a time.
 */
#include "graph/passes/pass_test.h"

#include "graph_kit.h"
#include "gy_test.h"

enum { LAYERS = 6, WIDTH = 32, ROWS = 8192, RANKS = 4 };

/* Updates of a chain of layers whose matrices are cut along data, compiled for one rank. */
static gy_graph *compiled(uint32_t skip)
{
    gy_graph *g = kit_graph(), *out = NULL;
    const gy_init draw = {GY_INIT_UNIFORM, 1, NULL};
    gy_node w[LAYERS], fetches[LAYERS];
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, WIDTH}, 2), y = x;
    for (int i = 0; i < LAYERS; i++) {
        char name[8];
        snprintf(name, sizeof(name), "w%d", i);
        w[i] = gy_graph_parameter(g, name, GY_F64, (int64_t[]){WIDTH, WIDTH}, 2, draw);
        assert_ok(gy_pin(w[i], "data", (gy_placement){.kind = GY_SHARD}));
        y = gy_op_tanh(gy_op_matmul(y, w[i]));
    }
    assert_ok(gy_op_gradients(gy_op_mean(y, 0, false), w, LAYERS, fetches));
    for (int i = 0; i < LAYERS; i++) {
        fetches[i] = gy_op_assign(w[i], gy_op_sub(w[i], fetches[i]));
    }
    gy_graph *bound = bind(g, RANKS, ROWS, fetches, LAYERS);
    assert_ok(gy_compile(bound, skip, NULL, &out));
    gy_graph_free(bound);
    gy_graph_free(g);
    return out;
}

static uint32_t bit_of(const char *name)
{
    uint32_t bits = 0;
    for (int i = 0; i < gy_compile_pass_count; i++) {
        bits |= strcmp(gy_compile_passes[i].name, name) == 0 ? 1u << i : 0;
    }
    assert_true(bits != 0);
    return bits;
}

/* How often each layer's matrix is gathered. */
static void count_gathers(const gy_graph *graph, int counts[LAYERS])
{
    memset(counts, 0, LAYERS * sizeof(*counts));
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (gy_memory_is_gather(graph, i)) {
            const char *name = gy_graph_at(graph, graph->nodes[i].inputs[0])->name;
            assert_true(name[0] == 'w' && name[1] >= '0' && name[1] < '0' + LAYERS);
            counts[name[1] - '0']++;
        }
    }
}

/* The most gathered copies that are there at a time. */
static int copies_at_a_time(const gy_graph *graph)
{
    int most = 0;
    for (int32_t at = 0; at < graph->node_count; at++) {
        int now = 0;
        for (int32_t i = 0; i <= at; i++) {
            int32_t last = -1;
            for (int32_t u = i + 1; gy_memory_is_gather(graph, i) && u < graph->node_count;
                 u++) {
                for (int k = 0; k < graph->nodes[u].input_count; k++) {
                    last = graph->nodes[u].inputs[k].node == i ? u : last;
                }
            }
            now += last >= at ? 1 : 0;
        }
        most = GY_MAX(most, now);
    }
    return most;
}

/* The first layer has no gradient to hand on, and the uses of the last two are close together.
 */
GY_TEST(a_layer_is_gathered_again_going_back)
{
    int counts[LAYERS];
    gy_graph *graph = compiled(0);
    count_gathers(graph, counts);
    for (int i = 0; i < LAYERS; i++) {
        assert_int_equal(counts[i], i == 0 || i >= LAYERS - 2 ? 1 : 2);
    }
    const int few = copies_at_a_time(graph);
    gy_graph_free(graph);
    graph = compiled(bit_of("reshard"));
    count_gathers(graph, counts);
    for (int i = 0; i < LAYERS; i++) {
        assert_int_equal(counts[i], 1);
    }
    printf("%d copies at a time, %d when each is gathered once\n", few,
           copies_at_a_time(graph));
    assert_in_range(few, 2, 3);
    assert_true(copies_at_a_time(graph) >= LAYERS - 1);
    gy_graph_free(graph);
}

/* One copy is on its way while another is used: no allgather stands right before its user. */
GY_TEST(the_next_layer_is_gathered_ahead)
{
    gy_graph *graph = compiled(0);
    int found = 0;
    for (int32_t i = 1; i < graph->node_count; i++) {
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            const int32_t maker = graph->nodes[i].inputs[k].node;
            if (gy_memory_is_gather(graph, maker)) {
                bool is_ahead = false; /* a product of another layer stands between */
                for (int32_t at = maker + 1; at < i; at++) {
                    is_ahead = is_ahead || graph->nodes[at].op == &gy_ops_row_matmul;
                }
                found += is_ahead ? 1 : 0;
            }
        }
    }
    printf("%d of %d uses are gathered for ahead\n", found, 2 * LAYERS - 1);
    assert_true(found >= 2 * LAYERS - 4);
    gy_graph_free(graph);
}

GY_TEST_MAIN(NULL, NULL)
