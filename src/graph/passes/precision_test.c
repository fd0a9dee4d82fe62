/* Goal: the operands of products are narrowed, each value once, and nothing else is; pins hold
 * for a product and its gradients; values are those of the rounded operands. */
#include "graph/passes/pass_test.h"

#include <math.h>

enum { ROWS = 64, WIDTH = 48, CLASSES = 10 };

typedef struct model {
    gy_graph *graph;
    gy_node x, w, v, first, second, loss, dw, dv;
} model;

/* loss = sum of softmax(relu(x w) v)^2 */
static model new_model(void)
{
    model m = {.graph = NULL};
    assert_ok(gy_graph_new(&m.graph));
    m.x = gy_graph_input(m.graph, "x", GY_F32, (int64_t[]){ROWS, ROWS}, 2);
    m.w =
        gy_graph_parameter(m.graph, "w", GY_F32, (int64_t[]){ROWS, WIDTH}, 2, gy_init_glorot());
    m.v = gy_graph_parameter(m.graph, "v", GY_F32, (int64_t[]){WIDTH, CLASSES}, 2,
                             gy_init_glorot());
    m.first = gy_op_matmul(m.x, m.w);
    m.second = gy_op_matmul(gy_op_relu(m.first), m.v);
    m.loss = gy_op_sum(gy_op_square(gy_op_softmax(m.second, -1)), 0, false);
    m.dw = gy_op_gradient(m.loss, m.w);
    m.dv = gy_op_gradient(m.loss, m.v);
    return m;
}

typedef struct counts {
    int casts, narrow, wide;
} counts;

static counts count(const gy_graph *graph)
{
    counts c = {0};
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        if (node->op == &gy_ops_row_cast) {
            c.casts++;
            assert_int_equal(node->types[0].dtype, GY_BF16);
        } else if (node->op == &gy_ops_row_matmul) {
            const gy_dtype dtype = gy_graph_type(graph, node->inputs[0])->dtype;
            assert_int_equal(gy_graph_type(graph, node->inputs[1])->dtype, dtype);
            *(dtype == GY_BF16 ? &c.narrow : &c.wide) += 1;
            assert_int_equal(node->types[0].dtype, GY_F32);
        } else if (node->types[0].rank > 0 && node->types[0].dtype != GY_U8) { /* masks */
            assert_int_equal(node->types[0].dtype, GY_F32);
        }
    }
    return c;
}

static counts count_chosen(const model *m)
{
    gy_graph *bound = bind(m->graph, 1, 4, (const gy_node[]){m->loss, m->dw, m->dv}, 3);
    gy_graph *expanded = NULL, *single = NULL, *out = NULL;
    assert_ok(gy_expand(bound, &expanded));
    assert_ok(gy_rewrite_common(expanded, &single));
    assert_ok(gy_pass_precision(single, &out));
    const counts c = count(out);
    gy_graph_free(out);
    gy_graph_free(single);
    gy_graph_free(expanded);
    gy_graph_free(bound);
    return c;
}

/* x w and its gradient t(x) d narrow, x once for both; the three with ten classes are too
 * small, but for d of x, which the sum over ten is too short for. */
GY_TEST(operands_narrow_once)
{
    model m = new_model();
    assert_ok(gy_graph_precision(m.graph, GY_BF16));
    const counts c = count_chosen(&m);
    assert_int_equal(c.narrow, 2);
    assert_int_equal(c.wide, 3);
    assert_int_equal(c.casts, 3); /* x, w, the gradient of x w */
    gy_graph_free(m.graph);
}

GY_TEST(pins_hold_for_gradients)
{
    model m = new_model();
    assert_ok(gy_pin_precision(m.second, GY_BF16));
    counts c = count_chosen(&m);
    assert_int_equal(c.narrow, 3);
    assert_int_equal(c.wide, 2);
    assert_int_equal(c.casts, 3); /* relu(x w), v, the gradient of the product */
    assert_ok(gy_graph_precision(m.graph, GY_BF16));
    assert_ok(gy_pin_precision(m.first, GY_F32));
    c = count_chosen(&m);
    assert_int_equal(c.narrow, 3);
    assert_ok(gy_pin_precision(m.second, GY_F32));
    c = count_chosen(&m);
    assert_int_equal(c.narrow, 0);
    assert_int_equal(c.casts, 0);
    gy_graph_free(m.graph);
}

/* Two products of the same operands, one pinned, are two. */
GY_TEST(pinned_products_are_not_merged_with_others)
{
    gy_graph *g = NULL, *out = NULL;
    assert_ok(gy_graph_new(&g));
    const gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){ROWS, ROWS}, 2);
    const gy_node a = gy_op_matmul(x, x), b = gy_op_matmul(x, x);
    assert_ok(gy_pin_precision(b, GY_BF16));
    gy_graph *bound = bind(g, 1, 4, (const gy_node[]){a, b}, 2);
    assert_ok(gy_compile(bound, 0, NULL, &out));
    const counts c = count(out);
    assert_int_equal(c.narrow + c.wide, 2);
    assert_int_equal(c.narrow, 1);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* What the fused graph keeps as nodes of their own are casts of what is fed and kept: all
 * others are a step of a tile's program. */
GY_TEST(casts_are_fused_into_what_makes_the_value)
{
    model m = new_model();
    gy_graph *out = NULL;
    gy_text text = {.data = NULL};
    assert_ok(gy_graph_precision(m.graph, GY_BF16));
    assert_ok(gy_pin_precision(m.second, GY_BF16));
    gy_graph *bound = bind(m.graph, 1, 4, (const gy_node[]){m.loss, m.dw, m.dv}, 3);
    assert_ok(gy_compile(bound, 0, &text, &out));
    for (int32_t i = 0; i < out->node_count; i++) {
        const gy_graph_node *node = &out->nodes[i];
        if (node->op == &gy_ops_row_cast) {
            const gy_op *maker = gy_graph_at(out, node->inputs[0])->op;
            assert_true((maker->flags & GY_OP_LEAF) != 0 || maker == &gy_ops_row_matmul);
        }
    }
    assert_non_null(strstr(gy_text_get(&text), "== precision"));
    assert_non_null(strstr(gy_text_get(&text), "w in bf16"));
    assert_non_null(strstr(gy_text_get(&text),
                           "precision: 5 products of 16-bit operands with sums in f32, 0 in "
                           "f32\n"));
    assert_non_null(strstr(gy_text_get(&text), "f32[64,10]: bf16, pinned\n"));
    assert_true(out->narrowed.narrowed == 5 && out->narrowed.products == 5);
    assert_string_equal(out->narrowed.why, "");
    gy_text_free(&text);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(m.graph);
}

/* A first convolution of three channels stays, those of sixteen and the gradients narrow. */
GY_TEST(convolutions_narrow_where_channels_are_blocks)
{
    gy_graph *g = NULL, *out = NULL;
    int narrow = 0, wide = 0;
    assert_ok(gy_graph_new(&g));
    const gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 3, 8, 8}, 4);
    const gy_node a =
        gy_graph_parameter(g, "a", GY_F32, (int64_t[]){16, 3, 3, 3}, 4, gy_init_he());
    const gy_node b =
        gy_graph_parameter(g, "b", GY_F32, (int64_t[]){32, 16, 3, 3}, 4, gy_init_he());
    const gy_node y = gy_op_conv2d(gy_op_relu(gy_op_conv2d(x, a, NULL)), b, NULL);
    const gy_node loss = gy_op_sum(gy_op_square(y), 0, false), wrt[] = {a, b};
    gy_node slopes[2];
    assert_ok(gy_op_gradients(loss, wrt, 2, slopes));
    assert_ok(gy_graph_precision(g, GY_BF16));
    gy_graph *bound = bind(g, 1, 4, (const gy_node[]){loss, slopes[0], slopes[1]}, 3);
    assert_ok(gy_compile(bound, 0, NULL, &out));
    for (int32_t i = 0; i < out->node_count; i++) {
        const gy_graph_node *node = &out->nodes[i];
        if (node->op == &gy_ops_row_conv2d || node->op == &gy_ops_row_conv2d_input_gradient ||
            node->op == &gy_ops_row_conv2d_filter_gradient) {
            assert_int_equal(node->types[0].dtype, GY_F32);
            *(gy_graph_type(out, node->inputs[0])->dtype == GY_BF16 ? &narrow : &wide) += 1;
        }
    }
    assert_int_equal(narrow, 3);
    assert_int_equal(wide, 2);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

/* The attention of `positions` and its gradient, apart or packed; what is said of them. */
static void check_attention(int64_t positions, bool is_packed, gy_dtype expected,
                            const char *said)
{
    gy_graph *g = NULL, *out = NULL;
    gy_node parts[3], slopes[3];
    gy_text text = {.data = NULL};
    const int64_t sizes[] = {2, positions, 2, 16, 16}, packed[] = {2, positions, 2, 3, 16};
    const int count = is_packed ? 1 : 3;
    assert_ok(gy_graph_new(&g));
    for (int i = 0; i < count; i++) {
        static const char *const names[] = {"q", "k", "v"};
        parts[i] = gy_graph_parameter(g, names[i], GY_F32, is_packed ? packed : sizes,
                                      is_packed ? 5 : 4, gy_init_glorot());
    }
    const gy_node y = is_packed ? gy_op_attention_packed(parts[0], NULL)
                                : gy_op_attention(parts[0], parts[1], parts[2], NULL);
    const gy_node loss = gy_op_sum(gy_op_square(y), 0, false);
    assert_ok(gy_op_gradients(loss, parts, count, slopes));
    assert_ok(gy_graph_precision(g, GY_BF16));
    gy_graph *bound = bind(g, 1, 4, slopes, count);
    assert_ok(gy_compile(bound, 0, &text, &out));
    int found = 0;
    for (int32_t i = 0; i < out->node_count; i++) {
        const gy_graph_node *node = &out->nodes[i];
        const bool is_back = node->op == &gy_ops_row_attention_gradient ||
                             node->op == &gy_ops_row_attention_packed_gradient;
        if (!is_back && node->op != &gy_ops_row_attention &&
            node->op != &gy_ops_row_attention_packed) {
            continue;
        }
        found++;
        for (int k = 0; k < node->input_count; k++) {
            const bool is_result = is_back && (k == count || k == count + 1); /* out, lse */
            assert_int_equal(gy_graph_type(out, node->inputs[k])->dtype,
                             is_result ? GY_F32 : expected);
        }
        for (int k = 0; k < node->output_count; k++) {
            assert_int_equal(node->types[k].dtype, GY_F32);
        }
    }
    assert_int_equal(found, 2);
    assert_non_null(strstr(gy_text_get(&text), said));
    gy_text_free(&text);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(g);
}

GY_TEST(attention_narrows_what_its_products_read)
{
    check_attention(32, false, GY_BF16, "f32[2,32,2,16]: bf16\n");
    check_attention(32, true, GY_BF16, "f32[2,32,2,3,16]: bf16\n");
    check_attention(31, false, GY_F32,
                    "f32[2,31,2,16]: f32, below 32 positions or heads of 16 gains nothing\n");
}

/* Slopes of q, k and v: narrowed by the pass, or by casts in the graph. */
static void run_attention(bool is_by_hand, gy_tensor *slopes[3])
{
    static const char *const names[] = {"q", "k", "v"};
    const int64_t sizes[] = {2, 32, 2, 16};
    gy_graph *g = NULL;
    gy_session *session = NULL;
    gy_node parts[3], read[3], made[3];
    assert_ok(gy_graph_new(&g));
    for (int i = 0; i < 3; i++) {
        parts[i] = gy_graph_parameter(g, names[i], GY_F32, sizes, 4, gy_init_glorot());
        read[i] = is_by_hand ? gy_op_cast(parts[i], GY_BF16) : parts[i];
    }
    const gy_node y = gy_op_attention(read[0], read[1], read[2], NULL);
    assert_ok(gy_op_gradients(gy_op_sum(gy_op_square(y), 0, false), parts, 3, made));
    if (!is_by_hand) {
        assert_ok(gy_graph_precision(g, GY_BF16));
    }
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1, .seed = 3}, &session));
    assert_ok(gy_session_run(session, NULL, 0, 2, made, 3, slopes));
    gy_session_free(session);
    gy_graph_free(g);
}

/* Those of the casts are rounded to what the casts give; nothing else differs. */
GY_TEST(attention_of_casts_is_that_of_the_pass)
{
    gy_tensor *passed[3] = {NULL}, *cast[3] = {NULL};
    run_attention(false, passed);
    run_attention(true, cast);
    for (int k = 0; k < 3; k++) {
        for (int64_t i = 0; i < gy_tensor_count(passed[k]); i++) {
            const double value = gy_tensor_get(passed[k], i);
            assert_true(fabs(value) > 0);
            assert_true(fabs(gy_tensor_get(cast[k], i) - value) <= 0x1p-8 * fabs(value));
        }
        gy_tensor_drop(passed[k]);
        gy_tensor_drop(cast[k]);
    }
}

/* The sum over ranks of the gradient of w stands between the casts where they let it. */
GY_TEST(gradients_are_exchanged_in_fewer_bytes)
{
    for (int is_asked = 0; is_asked < 2; is_asked++) {
        gy_graph *g = NULL, *out = NULL;
        assert_ok(gy_graph_new(&g));
        const gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, ROWS}, 2);
        const gy_node w =
            gy_graph_parameter(g, "w", GY_F32, (int64_t[]){ROWS, WIDTH}, 2, gy_init_glorot());
        const gy_node loss = gy_op_sum(gy_op_square(gy_op_matmul(x, w)), 0, false);
        const gy_node slope = gy_op_gradient(loss, w);
        const gy_node fetch =
            is_asked != 0 ? gy_graph_exchange_as(slope, GY_BF16)
                          : gy_op_cast(gy_op_cast(slope, GY_BF16), GY_F32); /* after the sum */
        gy_graph *bound = bind(g, 2, 4, &fetch, 1);
        assert_ok(gy_compile(bound, 0, NULL, &out));
        int sums = 0;
        for (int32_t i = 0; i < out->node_count; i++) {
            const gy_graph_node *node = &out->nodes[i];
            if (node->op == &gy_ops_row_allreduce) {
                sums++;
                assert_int_equal(node->types[0].dtype, is_asked != 0 ? GY_BF16 : GY_F32);
            }
        }
        assert_int_equal(sums, 1);
        gy_graph_free(out);
        gy_graph_free(bound);
        gy_graph_free(g);
    }
}

/* ---- values ---- */

/* x w of rounded operands in float64 is what the session gives, within the sums' tolerance. */
GY_TEST(values_are_those_of_rounded_operands)
{
    gy_random random = {.key = gy_test_seed()};
    model m = new_model();
    assert_ok(gy_graph_precision(m.graph, GY_BF16));
    gy_session *session = NULL;
    assert_ok(
        gy_session_new(m.graph, &(gy_session_options){.workers = 1, .seed = 5}, &session));
    gy_tensor *x = NULL, *rounded[2] = {NULL}, *y = NULL;
    assert_ok(gy_tensor_zeros(NULL, GY_F32, (int64_t[]){ROWS, ROWS}, 2, &x));
    for (int64_t i = 0; i < (int64_t)ROWS * ROWS; i++) {
        gy_tensor_set(x, i, 2 * gy_random_unit(&random) - 1);
    }
    const gy_feed feed = {.node = m.x, .tensor = x};
    assert_ok(gy_session_run(session, &feed, 1, 1, &m.first, 1, &y));
    gy_tensor *both[2] = {x, gy_session_parameter(session, "w")};
    for (int k = 0; k < 2; k++) {
        const int64_t sizes[] = {ROWS, k == 0 ? ROWS : WIDTH};
        assert_ok(gy_tensor_new(NULL, GY_BF16, sizes, 2, &rounded[k]));
        assert_ok(gy_tensor_copy(rounded[k], both[k]));
    }
    double beside = 0;
    for (int64_t i = 0; i < (int64_t)ROWS * WIDTH; i++) {
        double sum = 0, size = 0, exact = 0;
        for (int64_t k = 0; k < ROWS; k++) {
            const int64_t left = i / WIDTH * ROWS + k, right = k * WIDTH + i % WIDTH;
            const double term =
                gy_tensor_get(rounded[0], left) * gy_tensor_get(rounded[1], right);
            sum += term;
            size += fabs(term);
            exact += gy_tensor_get(x, left) * gy_tensor_get(both[1], right);
        }
        assert_true(fabs(gy_tensor_get(y, i) - sum) <= (ROWS + 1) * 0x1p-24 * size);
        beside = fmax(beside, fabs(gy_tensor_get(y, i) - exact));
    }
    assert_true(beside > 1e-4); /* they were rounded */
    for (int k = 0; k < 2; k++) {
        gy_tensor_drop(rounded[k]);
    }
    gy_tensor_drop(y);
    gy_tensor_drop(x);
    gy_session_free(session);
    gy_graph_free(m.graph);
}

GY_TEST(bad_precisions_are_refused)
{
    model m = new_model();
    assert_status(gy_graph_precision(m.graph, GY_F64), GY_ARG);
    assert_string_equal(gy_error_text(), "precision f64, expected f32, bf16 or f16");
    assert_status(gy_graph_precision(m.graph, (gy_dtype)99), GY_ARG);
    assert_string_equal(gy_error_text(), "precision of no type, expected f32, bf16 or f16");
    assert_status(gy_pin_precision(m.loss, GY_BF16), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "(sum, f32[]): only products of f32"));
    assert_status(gy_pin_precision(m.first, GY_I8), GY_ARG);
    gy_graph_free(m.graph);
}

GY_TEST_MAIN(NULL, NULL)
