/*
 * Goal: every row of the operator table that a user can want has a public constructor, and
 * those that do more than name their row give what they say.
 */
#include "base/base.h"
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

/* Rows that gradients, passes and the compiler make: no user asks for them by name. */
static const char *const inner[] = {"identity",
                                    "pin",
                                    "assign",
                                    "send",
                                    "receive",
                                    "conv2d_input_gradient",
                                    "conv2d_filter_gradient",
                                    "max_pool_gradient",
                                    "max_pool_pick",
                                    "average_pool_gradient",
                                    "cross_entropy_gradient",
                                    "attention_gradient",
                                    "attention_packed_gradient",
                                    "gelu_slope",
                                    "pick_gradient",
                                    "layer_norm_gradient",
                                    "matmul_over_rows",
                                    "reorder",
                                    "to_device",
                                    "to_host",
                                    "fused",
                                    "matmul_update",
                                    "allreduce",
                                    "reduce_scatter",
                                    "alltoall",
                                    "allgather",
                                    "take_shard"};

typedef gy_node (*unary_maker)(gy_node a);
typedef gy_node (*binary_maker)(gy_node a, gy_node b);

#define UNARY(name)                                                                            \
    {                                                                                          \
#name, gy_op_##name                                                                    \
    }
#define BINARY(name)                                                                           \
    {                                                                                          \
#name, gy_op_##name                                                                    \
    }
static const struct {
    const char *name;
    unary_maker make;
} unary[] = {UNARY(neg),  UNARY(abs),  UNARY(sign),  UNARY(square),  UNARY(exp),  UNARY(log),
             UNARY(sqrt), UNARY(tanh), UNARY(relu),  UNARY(sigmoid), UNARY(gelu), UNARY(erf),
             UNARY(sin),  UNARY(cos),  UNARY(log1p), UNARY(floor),   UNARY(ceil), UNARY(round)};
static const struct {
    const char *name;
    binary_maker make;
} binary[] = {BINARY(add),      BINARY(sub),        BINARY(mul),     BINARY(div),
              BINARY(pow),      BINARY(minimum),    BINARY(maximum), BINARY(equal),
              BINARY(less),     BINARY(less_equal), BINARY(greater), BINARY(greater_equal),
              BINARY(not_equal)};

static void mark(const char *name, bool *marks)
{
    for (int i = 0; i < gy_ops_all_count; i++) {
        marks[i] |= strcmp(gy_ops_all[i]->name, name) == 0;
    }
}

/* All nodes of the graph, by the rows that they apply. */
static void mark_graph(gy_graph *g, bool *marks)
{
    assert_ok(gy_graph_status(g));
    for (int32_t i = 0; i < g->node_count; i++) {
        mark(g->nodes[i].op->name, marks);
    }
}

GY_TEST(every_row_that_a_user_can_want_is_public)
{
    bool marks[256] = {false};
    assert_true(gy_ops_all_count <= 256);
    gy_graph *g = kit_graph();
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_zeros(NULL, GY_F32, (int64_t[]){1}, 1, &tensor));
    const int64_t square[] = {4, 4}, images[] = {2, 3, 4, 4};
    gy_node x = gy_graph_input(g, "x", GY_F32, square, 2);
    gy_node p = gy_graph_parameter(g, "p", GY_F32, square, 2, gy_init_zeros());
    gy_node labels = gy_graph_input(g, "l", GY_I32, (int64_t[]){4}, 1);
    gy_node image = gy_graph_input(g, "i", GY_F32, images, 4);
    gy_node qkv = gy_graph_input(g, "qkv", GY_F32, (int64_t[]){2, 4, 2, 3, 4}, 5);
    gy_node filters = gy_graph_input(g, "f", GY_F32, (int64_t[]){5, 3, 2, 2}, 4);
    gy_node four = gy_graph_fill(g, GY_F32, (int64_t[]){4}, 1, 1);
    const gy_window_options two = {.window = {2, 2}};
    (void)gy_graph_literal(g, tensor);
    for (size_t i = 0; i < GY_COUNT(unary); i++) {
        (void)unary[i].make(x);
    }
    for (size_t i = 0; i < GY_COUNT(binary); i++) {
        (void)binary[i].make(x, p);
    }
    (void)gy_op_select(gy_op_less(x, p), x, p);
    (void)gy_op_cast(gy_op_dropout(gy_op_matmul(x, p), 0.5), GY_F64);
    (void)gy_op_sum(x, 1, true);
    (void)gy_op_prod(x, 1, true);
    (void)gy_op_max(x, 1, true);
    (void)gy_op_min(x, 1, true);
    (void)gy_op_mean(x, 1, true);
    (void)gy_op_variance(x, 1, true);
    (void)gy_op_count(x, 1);
    (void)gy_op_argmax(x, 1);
    (void)gy_op_softmax(gy_op_log_softmax(gy_op_cumsum(x, 1, false), 1), 1);
    (void)gy_op_cross_entropy(x, labels);
    (void)gy_op_one_hot(labels, 4, -1, GY_DTYPE_NONE);
    (void)gy_op_conv2d(image, filters, NULL);
    (void)gy_op_pick(x, labels, -1);
    (void)gy_op_find(x, four, 0);
    (void)gy_op_attention(image, image, image, NULL);
    (void)gy_op_attention_packed(qkv, NULL);
    (void)gy_op_average_pool(gy_op_max_pool(image, &two), &two);
    (void)gy_op_layer_norm(x, four, four, 1, 1e-5);
    (void)gy_op_batch_norm(x, four, four, 1e-5);
    (void)gy_op_reshape(gy_op_broadcast_to(x, (int64_t[]){2, 4, 4}, 3), (int64_t[]){32}, 1);
    (void)gy_op_slice(gy_op_pad(gy_op_transpose(x, (int[]){1, 0}), 1, 1, 2), 1, 0, 3, 1);
    (void)gy_op_concat((gy_node[]){x, p}, 2, 0);
    (void)gy_op_scatter_add(gy_op_gather(x, labels, 0), labels, 0, 9);
    mark_graph(g, marks);
    for (size_t i = 0; i < GY_COUNT(inner); i++) {
        mark(inner[i], marks);
    }
    for (int i = 0; i < gy_ops_all_count; i++) {
        if (!marks[i]) {
            fail_msg("no public constructor makes %s, nor is it said to be an inner one",
                     gy_ops_all[i]->name);
        }
    }
    gy_tensor_drop(tensor);
    gy_graph_free(g);
}

/* ---- values ---- */

static void expect_values(gy_node fetch, const gy_feed *feed, const double *expected,
                          int64_t count)
{
    gy_session *session = NULL;
    gy_tensor *result = NULL;
    assert_ok(gy_graph_status(fetch.graph));
    assert_ok(gy_session_new(fetch.graph, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_session_run(session, feed, 1, 0, &fetch, 1, &result));
    assert_int_equal(gy_tensor_count(result), count);
    for (int64_t i = 0; i < count; i++) {
        const double got = gy_tensor_get(result, i);
        if (!(fabs(got - expected[i]) < 1e-6) && !(isnan(got) && isnan(expected[i]))) {
            fail_msg("element %lld is %.9g, expected %.9g", (long long)i, got, expected[i]);
        }
    }
    gy_tensor_drop(result);
    gy_session_free(session);
}

#define EXPECT(node, ...)                                                                      \
    expect_values((node), &feed, (const double[]){__VA_ARGS__},                                \
                  (int64_t)GY_COUNT(((const double[]){__VA_ARGS__})))

GY_TEST(new_operators_give_what_they_say)
{
    static const float data[] = {-1.5F, 0.5F, 2.5F, -0.25F, 3, 1};
    for (int type = 0; type < 2; type++) {
        gy_graph *g = kit_graph();
        gy_tensor *tensor = NULL;
        assert_ok(gy_tensor_from(NULL, GY_F32, (int64_t[]){2, 3}, 2, data, &tensor));
        gy_node in = gy_graph_input(g, "x", GY_F32, (int64_t[]){2, 3}, 2);
        gy_node x = gy_op_cast(in, type == 0 ? GY_F32 : GY_F64);
        const gy_feed feed = {in, tensor};
        EXPECT(gy_op_floor(x), -2, 0, 2, -1, 3, 1);
        EXPECT(gy_op_ceil(x), -1, 1, 3, 0, 3, 1);
        EXPECT(gy_op_round(x), -2, 0, 2, 0, 3, 1); /* halves to the even one */
        EXPECT(gy_op_sin(x), sin(-1.5), sin(0.5), sin(2.5), sin(-0.25), sin(3), sin(1));
        EXPECT(gy_op_cos(x), cos(-1.5), cos(0.5), cos(2.5), cos(-0.25), cos(3), cos(1));
        EXPECT(gy_op_log1p(gy_op_square(x)), log(3.25), log(1.25), log(7.25), log(1.0625),
               log(10), log(2));
        EXPECT(gy_op_cumsum(x, 1, false), -1.5, -1, 1.5, -0.25, 2.75, 3.75);
        EXPECT(gy_op_cumsum(x, -2, true), -1.75, 3.5, 3.5, -0.25, 3, 1);
        EXPECT(gy_op_prod(x, 2, false), -1.875, -0.75);
        EXPECT(gy_op_variance(x, 2, false), 4, 2.6875);
        EXPECT(gy_op_count(x, 1), 2);
        EXPECT(gy_op_argmin(x, 1), 0, 0);
        EXPECT(gy_op_pad(x, 1, 1, 2), 0, -1.5, 0.5, 2.5, 0, 0, 0, -0.25, 3, 1, 0, 0);
        EXPECT(
            gy_op_mul(x, gy_graph_fill(g, type == 0 ? GY_F32 : GY_F64, (int64_t[]){3}, 1, 2)),
            -3, 1, 5, -0.5, 6, 2);
        gy_tensor_drop(tensor);
        gy_graph_free(g);
    }
}

/* The ends of the integers, where the negative of a number is itself. */
GY_TEST(the_least_of_integers_is_found_at_their_ends)
{
    static const int64_t data[] = {3, INT64_MIN, 7, INT64_MAX};
    gy_graph *g = kit_graph();
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_from(NULL, GY_I64, (int64_t[]){4}, 1, data, &tensor));
    gy_node x = gy_graph_input(g, "x", GY_I64, (int64_t[]){4}, 1);
    const gy_feed feed = {x, tensor};
    EXPECT(gy_op_argmin(x, 0), 1);
    EXPECT(gy_op_argmin(gy_op_cast(x, GY_U8), 0), 1); /* 3, 0, 7, 255 */
    EXPECT(gy_op_argmin(gy_op_slice(x, 0, 2, 4, 1), -1), 0);
    gy_tensor_drop(tensor);
    gy_graph_free(g);
}

GY_TEST(labels_become_rows_of_one_hot)
{
    static const int32_t data[] = {2, 0};
    gy_graph *g = kit_graph();
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_from(NULL, GY_I32, (int64_t[]){2}, 1, data, &tensor));
    gy_node x = gy_graph_input(g, "x", GY_I32, (int64_t[]){2}, 1);
    const gy_feed feed = {x, tensor};
    EXPECT(gy_op_one_hot(x, 3, -1, GY_DTYPE_NONE), 0, 0, 1, 1, 0, 0);
    EXPECT(gy_op_one_hot(x, 3, 0, GY_U8), 0, 1, 0, 0, 1, 0);
    (void)gy_op_pad(x, 0, -1, 0);
    assert_status(gy_graph_status(g), GY_ARG);
    gy_tensor_drop(tensor);
    gy_graph_free(g);
}

enum { PLACES = 130, SIZE = 4, VALUES = PLACES * SIZE, BAD = 70 };

/* out and dq of causal attention over one head; element `bad` of input `which` is no number,
 * -1: of none. */
static void attend(gy_dtype dtype, int which, int bad, double out[2][VALUES])
{
    static const char *const names[] = {"q", "k", "v", "slope"};
    const int64_t sizes[] = {1, PLACES, 1, SIZE};
    gy_graph *g = kit_graph();
    gy_random random = {.key = 7};
    gy_node in[4], fetches[2];
    gy_feed feeds[4];
    for (int i = 0; i < 4; i++) {
        gy_tensor *tensor = NULL;
        in[i] = gy_graph_input(g, names[i], dtype, sizes, 4);
        assert_ok(gy_tensor_new(NULL, dtype, sizes, 4, &tensor));
        for (int k = 0; k < VALUES; k++) {
            const double value = 2 * gy_random_unit(&random) - 1;
            gy_tensor_set(tensor, k, i == which && k == bad ? NAN : value);
        }
        feeds[i] = (gy_feed){in[i], tensor};
    }
    fetches[0] = gy_op_attention(in[0], in[1], in[2],
                                 &GY_OPTIONS(gy_attention_options, .is_causal = true));
    gy_node loss = gy_op_sum(gy_op_mul(fetches[0], in[3]), 0, false);
    assert_ok(gy_op_gradients(loss, in, 1, &fetches[1]));
    gy_session *session = NULL;
    gy_tensor *results[2];
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_session_run(session, feeds, 4, 0, fetches, 2, results));
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < VALUES; k++) {
            out[i][k] = gy_tensor_get(results[i], k);
        }
        gy_tensor_drop(results[i]);
    }
    for (int i = 0; i < 4; i++) {
        gy_tensor_drop(feeds[i].tensor);
    }
    gy_session_free(session);
    gy_graph_free(g);
}

/* What a causal row does not see is not in it, not even times 0. */
GY_TEST(a_causal_row_is_of_the_keys_that_it_sees)
{
    static double whole[2][VALUES], got[2][VALUES];
    for (int way = 0; way < 4; way++) {
        const gy_dtype dtype = way % 2 == 0 ? GY_F32 : GY_F64;
        attend(dtype, -1, 0, whole);
        attend(dtype, 1 + way / 2, BAD * SIZE + 1, got); /* a key, a value */
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < BAD * SIZE; k++) {
                assert_true(fabs(got[i][k] - whole[i][k]) < 1e-5);
            }
        }
        assert_true(isnan(got[0][BAD * SIZE + 1]) && isnan(got[1][VALUES - 1]));
    }
}

GY_TEST_MAIN(NULL, NULL)
