/*
 * Goal: what is made again has the same bits, whatever the graph and however many chunks are;
 * what the forward pass made is dropped behind its chunk, and nothing else is done twice.
 */
#include "graph/random_graph.h"
#include "graph/session.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { WIDTH = RANDOM_FEATURES, LAYERS_MAX = 9, ROWS = 5, FETCHES_MAX = LAYERS_MAX + 1 };

/* ---- layers one behind another, each of what the seed says ---- */

typedef struct tower {
    gy_graph *graph;
    gy_random random;
    gy_node x, weights[LAYERS_MAX], fetches[FETCHES_MAX];
    int layers, fetch_count;
} tower;

static gy_node layer(tower *t, gy_node h, int number)
{
    char name[16];
    gy_print(name, sizeof(name), "w%d", number);
    gy_node w = gy_graph_parameter(t->graph, name, GY_F64, (int64_t[]){WIDTH, WIDTH}, 2,
                                   (gy_init){GY_INIT_UNIFORM, 1, NULL});
    t->weights[number] = w;
    gy_node inner = gy_op_matmul(h, w);
    switch (gy_random_below(&t->random, 6)) {
    case 0:
        return gy_op_tanh(inner);
    case 1:
        return gy_op_add(h, gy_op_dropout(gy_op_gelu(inner), 0.3));
    case 2:
        return gy_op_mul(gy_op_softmax(inner, 1), gy_op_sigmoid(h));
    case 3:
        return gy_op_sub(gy_op_tanh(inner), gy_op_mean(gy_op_square(h), 2, true));
    case 4:
        return gy_op_dropout(gy_op_relu(gy_op_mul(inner, gy_op_tanh(inner))), 0.1);
    default:
        return gy_op_add(gy_op_tanh(gy_op_matmul_transposed(gy_op_gelu(inner), false, w, true)),
                         h);
    }
}

static void tower_make(tower *t, uint64_t seed)
{
    *t = (tower){.random = {.key = seed}};
    assert_ok(gy_graph_new(&t->graph));
    t->layers = 2 + (int)gy_random_below(&t->random, LAYERS_MAX - 1);
    t->x = gy_graph_input(t->graph, "x", GY_F64, (int64_t[]){GY_BATCH, WIDTH}, 2);
    gy_node h = t->x;
    for (int i = 0; i < t->layers; i++) {
        h = layer(t, h, i);
    }
    t->fetches[0] = gy_op_mean(gy_op_square(h), 0, false);
    assert_ok(gy_op_gradients(t->fetches[0], t->weights, t->layers, t->fetches + 1));
    t->fetch_count = t->layers + 1;
}

static gy_tensor *rows(void)
{
    double data[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
        data[i] = sin(i);
    }
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_from(NULL, GY_F64, (int64_t[]){ROWS, WIDTH}, 2, data, &tensor));
    return tensor;
}

/* Two runs, so that dropout has drawn before; the results of the second. */
static int run(gy_graph *graph, int chunks, const gy_node *inputs, int input_count,
               const gy_node *fetches, int fetch_count, gy_tensor **results)
{
    gy_session *session = NULL;
    gy_tensor *x = rows();
    gy_feed feeds[2];
    for (int i = 0; i < input_count; i++) {
        feeds[i] = (gy_feed){inputs[i], x};
    }
    assert_ok(gy_graph_recompute(graph, chunks));
    assert_ok(gy_session_new(graph, &(gy_session_options){.workers = 2, .seed = 7}, &session));
    for (int i = 0; i < 2; i++) {
        assert_ok(
            gy_session_run(session, feeds, input_count, 0, fetches, fetch_count, results));
        for (int k = 0; k < fetch_count && i == 0; k++) {
            gy_tensor_drop(results[k]);
        }
    }
    assert_int_equal(session->program_count, 1);
    const int made = session->programs[0]->graph->recomputed;
    gy_session_free(session);
    gy_tensor_drop(x);
    return made;
}

static void assert_same_bits(uint64_t seed, int chunks, gy_tensor **held, gy_tensor **again,
                             int count)
{
    for (int i = 0; i < count; i++) {
        for (int64_t k = 0; k < gy_tensor_count(held[i]); k++) {
            const double a = gy_tensor_get(held[i], k), b = gy_tensor_get(again[i], k);
            if (memcmp(&a, &b, sizeof(a)) != 0) {
                fail_msg("seed %llu, %d chunks, result %d: %.17g held, %.17g made again",
                         (unsigned long long)seed, chunks, i, a, b);
            }
        }
        gy_tensor_drop(again[i]);
    }
}

static void drop_all(gy_tensor **list, int count)
{
    for (int i = 0; i < count; i++) {
        gy_tensor_drop(list[i]);
    }
}

GY_TEST(layers_made_again_have_the_same_bits)
{
    const uint64_t seed = gy_test_seed();
    const long trials = gy_test_cases(60);
    int made = 0, all = 0;
    for (uint64_t trial = 0; trial < (uint64_t)trials; trial++) {
        tower t;
        gy_tensor *held[FETCHES_MAX], *again[FETCHES_MAX];
        tower_make(&t, seed + trial);
        assert_int_equal(run(t.graph, 0, &t.x, 1, t.fetches, t.fetch_count, held), 0);
        const int chunks[] = {1, 2, INT_MAX};
        for (size_t i = 0; i < GY_COUNT(chunks); i++) {
            made = run(t.graph, chunks[i], &t.x, 1, t.fetches, t.fetch_count, again);
            assert_true(made <= chunks[i]);
            assert_same_bits(seed + trial, chunks[i], held, again, t.fetch_count);
        }
        all += made;
        drop_all(held, t.fetch_count);
        gy_graph_free(t.graph);
    }
    printf("%ld towers, %d chunks made again\n", trials, all);
    assert_true(all > trials);
}

/* Nothing is narrow here: any value may be read by the loss. */
GY_TEST(random_graphs_have_the_same_bits)
{
    enum { FETCHES = 1 + RANDOM_PARAMETERS };
    const uint64_t seed = gy_test_seed();
    const long trials = gy_test_cases(40);
    for (uint64_t trial = 0; trial < (uint64_t)trials; trial++) {
        random_graph r;
        gy_node fetches[FETCHES];
        gy_tensor *held[FETCHES], *again[FETCHES];
        random_graph_make(&r, seed + trial, false, 24);
        fetches[0] = r.loss;
        assert_ok(gy_op_gradients(r.loss, r.parameters, RANDOM_PARAMETERS, fetches + 1));
        const gy_node inputs[] = {r.x, r.y};
        (void)run(r.graph, 0, inputs, 2, fetches, FETCHES, held);
        (void)run(r.graph, INT_MAX, inputs, 2, fetches, FETCHES, again);
        assert_same_bits(seed + trial, INT_MAX, held, again, FETCHES);
        drop_all(held, FETCHES);
        gy_graph_free(r.graph);
    }
}

/* ---- what the pass makes ---- */

static gy_graph *compiled(gy_graph *graph, const gy_node *fetches, int count)
{
    gy_value values[FETCHES_MAX];
    gy_graph *bound = NULL, *out = NULL;
    const gy_mesh mesh = gy_mesh_line(NULL);
    for (int i = 0; i < count; i++) {
        values[i] = (gy_value){fetches[i].index, fetches[i].output};
    }
    assert_ok(gy_bind(graph, &mesh, ROWS, values, count, &bound));
    assert_ok(gy_compile(bound, 0, NULL, &out));
    gy_graph_free(bound);
    return out;
}

/* Six layers of two products and four functions: no copy stands before the loss, and the layers
 * before the last are made again. */
GY_TEST(copies_stand_behind_the_forward_pass)
{
    enum { LAYERS = 6 };
    tower t = {.layers = LAYERS};
    assert_ok(gy_graph_new(&t.graph));
    t.x = gy_graph_input(t.graph, "x", GY_F64, (int64_t[]){GY_BATCH, WIDTH}, 2);
    gy_node h = t.x;
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        gy_print(name, sizeof(name), "w%d", i);
        t.weights[i] = gy_graph_parameter(t.graph, name, GY_F64, (int64_t[]){WIDTH, WIDTH}, 2,
                                          gy_init_glorot());
        gy_node wide = gy_op_matmul_transposed(gy_op_gelu(gy_op_matmul(h, t.weights[i])), false,
                                               t.weights[i], true);
        h = gy_op_tanh(gy_op_sigmoid(gy_op_gelu(wide)));
    }
    t.fetches[0] = gy_op_mean(h, 0, false);
    assert_ok(gy_op_gradients(t.fetches[0], t.weights, LAYERS, t.fetches + 1));
    assert_ok(gy_graph_recompute(t.graph, INT_MAX));
    gy_graph *made = compiled(t.graph, t.fetches, LAYERS + 1);
    int32_t last_forward = -1, first_copy = INT32_MAX;
    int copies = 0;
    for (int32_t i = 0; i < made->node_count; i++) {
        if (made->nodes[i].mark.is_again) {
            first_copy = GY_MIN(first_copy, i);
            copies++;
        } else if (made->nodes[i].mark.chunk > 0) {
            last_forward = i;
        }
    }
    assert_true(made->recomputed >= 3 && copies >= 2 * made->recomputed);
    assert_true(first_copy > last_forward);
    gy_text text = {.data = NULL};
    assert_ok(gy_graph_explain_recompute(made, &text));
    assert_non_null(strstr(gy_text_get(&text), "chunks are made again"));
    gy_text_free(&text);
    gy_graph_free(made);
    gy_graph_free(t.graph);
}

GY_TEST(a_graph_without_gradients_stays)
{
    tower t;
    tower_make(&t, 3);
    assert_ok(gy_graph_recompute(t.graph, INT_MAX));
    gy_graph *made = compiled(t.graph, t.fetches, 1);
    assert_int_equal(made->recomputed, 0);
    for (int32_t i = 0; i < made->node_count; i++) {
        assert_false(made->nodes[i].mark.is_again);
    }
    gy_graph_free(made);
    assert_status(gy_graph_recompute(t.graph, -1), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "-1 chunks"));
    gy_graph_free(t.graph);
}

GY_TEST(every_allocation_of_the_pass_may_fail)
{
    tower t;
    gy_value values[FETCHES_MAX];
    gy_graph *bound = NULL, *placed = NULL, *out = NULL;
    const gy_mesh mesh = gy_mesh_line(NULL);
    tower_make(&t, 11);
    for (int i = 0; i < t.fetch_count; i++) {
        values[i] = (gy_value){t.fetches[i].index, t.fetches[i].output};
    }
    assert_ok(gy_graph_recompute(t.graph, INT_MAX));
    assert_ok(gy_bind(t.graph, &mesh, ROWS, values, t.fetch_count, &bound));
    assert_ok(gy_graph_compile_placed(bound, 0, GY_COMPILE_PLACED, &placed));
    const int64_t before = gy_alloc_live();
    gy_status status = GY_NOMEM;
    int64_t n = 0;
    while (status != GY_OK) {
        gy_alloc_fail_after(++n);
        status = gy_recompute_chunks(placed, &out);
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        assert_true(status == GY_OK || gy_alloc_live() == before);
    }
    printf("%d allocations\n", (int)n - 1);
    assert_true(n > 10);
    gy_graph_free(out);
    gy_graph_free(placed);
    gy_graph_free(bound);
    gy_graph_free(t.graph);
}

GY_TEST_MAIN(NULL, NULL)
