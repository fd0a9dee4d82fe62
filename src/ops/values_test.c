/*
 * Goal: plain definitions give values worked out by hand, read strided views, agree between
 * element types, and refuse what is out of range by name.
 */
#include "ops/ops.h"
#include "ops_eager.h"

#include <math.h>

#include "gy_test.h"

enum { MAX_SAMPLE_INPUTS = 6 };

static ops_eager eager;

static int open_eager(void **state)
{
    (void)state;
    ops_eager_open(&eager);
    return 0;
}

static int close_eager(void **state)
{
    (void)state;
    ops_eager_close(&eager);
    return 0;
}

#define SIZES(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

/* A leaf of the given numbers, converted to `dtype`. */
static gy_value leaf(gy_dtype dtype, const int64_t *sizes, size_t rank, const double *values)
{
    double copy[64];
    gy_view view = gy_view_of(copy, GY_F64, sizes, (int)rank);
    assert_in_range(gy_view_count(&view), 0, 64);
    memcpy(copy, values, (size_t)gy_view_count(&view) * sizeof(copy[0]));
    return ops_eager_leaf(&eager, &view, dtype);
}

#define NUMBERS(...)                                                                           \
    (const double[])                                                                           \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

static void expect_values(gy_value value, int64_t count, const double *expected)
{
    if (eager.status != GY_OK) {
        fail_msg("%s", eager.text);
    }
    gy_view view = ops_eager_of(&eager, value);
    assert_int_equal(gy_view_count(&view), count);
    for (int64_t i = 0; i < count; i++) {
        double got = ops_eager_get(&eager, value, i);
        if (!(fabs(got - expected[i]) <= 1e-12 * (1 + fabs(expected[i])))) {
            fail_msg("element %lld is %.17g, expected %.17g", (long long)i, got, expected[i]);
        }
    }
}

static gy_value apply(const gy_op *op, const gy_attributes *attributes, gy_value a, gy_value b)
{
    gy_value inputs[2] = {a, b};
    return gy_build(&eager.builder, op, attributes, inputs, b.node < 0 ? 1 : 2);
}

static gy_attributes zero(void)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    return attributes;
}

static void matmul_by_hand(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    gy_value a = leaf(GY_F64, SIZES(2, 3), NUMBERS(1, 2, 3, 4, 5, 6));
    gy_value b = leaf(GY_F64, SIZES(3, 2), NUMBERS(7, 8, 9, 10, 11, 12));
    expect_values(apply(&gy_ops_row_matmul, &attributes, a, b), 4, NUMBERS(58, 64, 139, 154));
    attributes.matmul.transpose_a = true;
    attributes.matmul.transpose_b = true; /* t(a) t(b): (3,2) (2,3) */
    expect_values(apply(&gy_ops_row_matmul, &attributes, a, b), 9,
                  NUMBERS(39, 49, 59, 54, 68, 82, 69, 87, 105));
}

static void matmul_with_bias_and_relu_by_hand(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    attributes.matmul.has_bias = true;
    attributes.matmul.activation = GY_ACTIVATION_RELU;
    gy_value a = leaf(GY_F64, SIZES(1, 2), NUMBERS(1, -1));
    gy_value b = leaf(GY_F64, SIZES(2, 2), NUMBERS(2, 3, 5, 1));
    gy_value bias = leaf(GY_F64, SIZES(2), NUMBERS(1, 10));
    gy_value inputs[3] = {a, b, bias};
    expect_values(gy_build(&eager.builder, &gy_ops_row_matmul, &attributes, inputs, 3), 2,
                  NUMBERS(0, 12));
}

/* A 3x3 image, a 2x2 filter: (1 2 3 / 4 5 6 / 7 8 9) with (1 0 / 0 -1) and then padded. */
static void conv2d_by_hand(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    attributes.conv.stride[0] = attributes.conv.stride[1] = 1;
    gy_value x = leaf(GY_F64, SIZES(1, 1, 3, 3), NUMBERS(1, 2, 3, 4, 5, 6, 7, 8, 9));
    gy_value w = leaf(GY_F64, SIZES(1, 1, 2, 2), NUMBERS(1, 2, 0, -1));
    expect_values(apply(&gy_ops_row_conv2d, &attributes, x, w), 4, NUMBERS(0, 2, 6, 8));
    attributes.conv.stride[0] = attributes.conv.stride[1] = 2;
    attributes.conv.pad[0] = attributes.conv.pad[1] = 1;
    /* windows at (-1,-1), (-1,1), (1,-1), (1,1) */
    expect_values(apply(&gy_ops_row_conv2d, &attributes, x, w), 4, NUMBERS(-1, -3, 8 - 7, 8));
    attributes.conv.pad[0] = attributes.conv.pad[1] = 0;
    attributes.conv.stride[0] = attributes.conv.stride[1] = 1;
    memcpy(attributes.conv.input_sizes, (int64_t[]){1, 1, 3, 3},
           sizeof(attributes.conv.input_sizes));
    gy_value dy = leaf(GY_F64, SIZES(1, 1, 2, 2), NUMBERS(1, 0, 0, 1));
    expect_values(apply(&gy_ops_row_conv2d_input_gradient, &attributes, dy, w), 9,
                  NUMBERS(1, 2, 0, 0, 0, 2, 0, 0, -1));
    memcpy(attributes.conv.input_sizes, (int64_t[]){1, 1, 2, 2},
           sizeof(attributes.conv.input_sizes));
    expect_values(apply(&gy_ops_row_conv2d_filter_gradient, &attributes, x, dy), 4,
                  NUMBERS(6, 8, 12, 14));
}

static void pools_by_hand(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    for (int axis = 0; axis < 2; axis++) {
        attributes.pool.window[axis] = attributes.pool.stride[axis] = 2;
    }
    gy_value x = leaf(GY_F64, SIZES(1, 1, 2, 4), NUMBERS(1, 5, -2, -3, 5, 2, -1, -4));
    gy_value dy = leaf(GY_F64, SIZES(1, 1, 1, 2), NUMBERS(10, 20));
    expect_values(apply(&gy_ops_row_max_pool, &attributes, x, GY_NO_VALUE), 2, NUMBERS(5, -1));
    /* 5 stands twice in the first window: the first one, in row 0, gets all. */
    expect_values(apply(&gy_ops_row_max_pool_gradient, &attributes, x, dy), 8,
                  NUMBERS(0, 10, 0, 0, 0, 0, 20, 0));
    gy_value v = leaf(GY_F64, SIZES(1, 1, 2, 4), NUMBERS(1, 2, 3, 4, 5, 6, 7, 8));
    expect_values(apply(&gy_ops_row_max_pool_pick, &attributes, x, v), 2, NUMBERS(2, 7));
    expect_values(apply(&gy_ops_row_average_pool, &attributes, x, GY_NO_VALUE), 2,
                  NUMBERS(13 / 4.0, -2.5));
    attributes.pool.pad[1] = 1; /* windows of columns (-1,0), (1,2), (3,4) */
    expect_values(apply(&gy_ops_row_average_pool, &attributes, x, GY_NO_VALUE), 3,
                  NUMBERS(3, 1, -3.5));
    attributes.pool.count_pad = true;
    expect_values(apply(&gy_ops_row_average_pool, &attributes, x, GY_NO_VALUE), 3,
                  NUMBERS(1.5, 1, -1.75));
}

static void softmax_and_cross_entropy_by_hand(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    attributes.axis.dim = 1;
    const double ln2 = 0.69314718055994530942;
    gy_value x = leaf(GY_F64, SIZES(2, 2), NUMBERS(0, ln2, 1000, 1000));
    expect_values(apply(&gy_ops_row_softmax, &attributes, x, GY_NO_VALUE), 4,
                  NUMBERS(1 / 3.0, 2 / 3.0, 0.5, 0.5));
    expect_values(apply(&gy_ops_row_log_softmax, &attributes, x, GY_NO_VALUE), 4,
                  NUMBERS(-log(3), ln2 - log(3), -ln2, -ln2));
    gy_value labels = leaf(GY_I32, SIZES(2), NUMBERS(0, 1));
    attributes = zero();
    expect_values(apply(&gy_ops_row_cross_entropy, &attributes, x, labels), 1,
                  NUMBERS((log(3) + ln2) / 2));
}

/* Two positions, one head of width 1, scale 1: the first sees itself alone. */
static void attention_by_hand(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    attributes.attention.is_causal = true;
    gy_value inputs[3] = {leaf(GY_F64, SIZES(1, 2, 1, 1), NUMBERS(1, 2)),
                          leaf(GY_F64, SIZES(1, 2, 1, 1), NUMBERS(3, 5)),
                          leaf(GY_F64, SIZES(1, 2, 1, 2), NUMBERS(1, 10, 2, 30))};
    gy_value out = gy_build(&eager.builder, &gy_ops_row_attention, &attributes, inputs, 3);
    const double second = 1 / (1 + exp(6 - 10.0)); /* scores 6 and 10 */
    expect_values(out, 4, NUMBERS(1, 10, 1 + second, 10 + 20 * second));
    out.output = 1;
    expect_values(out, 2, NUMBERS(3, 10 + log(1 + exp(-4))));
    attributes.attention.is_causal = false;
    attributes.attention.scale = 2;
    out = gy_build(&eager.builder, &gy_ops_row_attention, &attributes, inputs, 3);
    const double seen = 1 / (1 + exp(6 - 10.0)); /* scores 6 and 10, then 12 and 20 */
    const double far = 1 / (1 + exp(12 - 20.0));
    expect_values(out, 4, NUMBERS(1 + seen, 10 + 20 * seen, 1 + far, 10 + 20 * far));
}

static void norms_by_hand(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    attributes.norm.axis_count = 1;
    gy_value x = leaf(GY_F64, SIZES(2, 2), NUMBERS(1, 3, 10, 30));
    gy_value gain = leaf(GY_F64, SIZES(2), NUMBERS(2, 3));
    gy_value bias = leaf(GY_F64, SIZES(2), NUMBERS(10, 20));
    gy_value inputs[3] = {x, gain, bias};
    /* rows have mean 2 and 20, deviation 1 and 10 */
    expect_values(gy_build(&eager.builder, &gy_ops_row_layer_norm, &attributes, inputs, 3), 4,
                  NUMBERS(8, 23, 8, 23));
    attributes.norm.epsilon = 3; /* sqrt(1 + 3) = 2 */
    gy_value row = leaf(GY_F64, SIZES(1, 2), NUMBERS(1, 3));
    inputs[0] = row;
    expect_values(gy_build(&eager.builder, &gy_ops_row_layer_norm, &attributes, inputs, 3), 2,
                  NUMBERS(9, 21.5));
    attributes.norm.epsilon = 0;
    inputs[0] = x; /* columns: mean 5.5 and 16.5, deviation 4.5 and 13.5 */
    expect_values(gy_build(&eager.builder, &gy_ops_row_batch_norm, &attributes, inputs, 3), 4,
                  NUMBERS(8, 17, 12, 23));
}

static void reductions_by_hand(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    gy_value x = leaf(GY_F64, SIZES(2, 3), NUMBERS(1, 5, 3, 4, 2, 6));
    attributes.reduce.axes = 1;
    expect_values(apply(&gy_ops_row_sum, &attributes, x, GY_NO_VALUE), 3, NUMBERS(5, 7, 9));
    expect_values(apply(&gy_ops_row_mean, &attributes, x, GY_NO_VALUE), 3,
                  NUMBERS(2.5, 3.5, 4.5));
    expect_values(apply(&gy_ops_row_count, &attributes, x, GY_NO_VALUE), 1, NUMBERS(2));
    attributes.reduce.axes = 2;
    expect_values(apply(&gy_ops_row_prod, &attributes, x, GY_NO_VALUE), 2, NUMBERS(15, 48));
    expect_values(apply(&gy_ops_row_max, &attributes, x, GY_NO_VALUE), 2, NUMBERS(5, 6));
    expect_values(apply(&gy_ops_row_min, &attributes, x, GY_NO_VALUE), 2, NUMBERS(1, 2));
    attributes = zero();
    attributes.axis.dim = 1;
    expect_values(apply(&gy_ops_row_argmax, &attributes, x, GY_NO_VALUE), 2, NUMBERS(1, 2));
    gy_attributes all = zero();
    gy_value below = leaf(GY_I16, SIZES(3), NUMBERS(-5, -3, -4));
    expect_values(apply(&gy_ops_row_max, &all, below, GY_NO_VALUE), 1, NUMBERS(-3));
    gy_value above = leaf(GY_U32, SIZES(2), NUMBERS(4294967295.0, 4294967294.0));
    expect_values(apply(&gy_ops_row_min, &all, above, GY_NO_VALUE), 1, NUMBERS(4294967294.0));
    gy_value tied = leaf(GY_U8, SIZES(1, 4), NUMBERS(3, 9, 9, 1));
    expect_values(apply(&gy_ops_row_argmax, &attributes, tied, GY_NO_VALUE), 1, NUMBERS(1));
}

static void integers_wrap_and_division_cuts(void **state)
{
    (void)state;
    gy_attributes none = zero();
    gy_value a = leaf(GY_U8, SIZES(3), NUMBERS(200, 7, 255));
    gy_value b = leaf(GY_U8, SIZES(3), NUMBERS(100, 9, 2));
    expect_values(apply(&gy_ops_row_add, &none, a, b), 3, NUMBERS(44, 16, 1));
    expect_values(apply(&gy_ops_row_sub, &none, a, b), 3, NUMBERS(100, 254, 253));
    expect_values(apply(&gy_ops_row_mul, &none, a, b), 3, NUMBERS(32, 63, 254));
    gy_value c = leaf(GY_I32, SIZES(4), NUMBERS(7, -7, 5, -2147483648.0));
    gy_value d = leaf(GY_I32, SIZES(4), NUMBERS(2, 2, 0, -1));
    expect_values(apply(&gy_ops_row_div, &none, c, d), 4, NUMBERS(3, -3, 0, -2147483648.0));
    expect_values(apply(&gy_ops_row_abs, &none, c, GY_NO_VALUE), 4,
                  NUMBERS(7, 7, 5, -2147483648.0));
}

static void rows_are_gathered_and_scattered(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    gy_value table = leaf(GY_F64, SIZES(3, 2), NUMBERS(1, 2, 3, 4, 5, 6));
    gy_value indices = leaf(GY_I64, SIZES(3), NUMBERS(2, 0, 2));
    expect_values(apply(&gy_ops_row_gather, &attributes, table, indices), 6,
                  NUMBERS(5, 6, 1, 2, 5, 6));
    attributes.axis.depth = 4;
    expect_values(apply(&gy_ops_row_scatter_add, &attributes, table, indices), 8,
                  NUMBERS(3, 4, 0, 0, 1 + 5, 2 + 6, 0, 0));
}

static void what_is_out_of_range_is_named(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    gy_value logits = leaf(GY_F32, SIZES(2, 2), NUMBERS(1, 2, 3, 4));
    gy_value labels = leaf(GY_I32, SIZES(2), NUMBERS(1, 2));
    gy_value indices = leaf(GY_I32, SIZES(2), NUMBERS(0, -1));
    const struct {
        const gy_op *op;
        gy_value a, b;
        const char *text;
    } cases[] = {
        {&gy_ops_row_cross_entropy, logits, labels,
         "cross_entropy: label 2 at place 1, expected 0 to 1"},
        {&gy_ops_row_gather, logits, indices, "gather: index -1 at place 1, expected 0 to 1"},
        {&gy_ops_row_scatter_add, logits, indices, "scatter_add: index -1 at place 1"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        attributes.axis.depth = cases[i].op == &gy_ops_row_scatter_add ? 2 : 0;
        eager.status = GY_OK;
        gy_value y = apply(cases[i].op, &attributes, cases[i].a, cases[i].b);
        assert_int_equal(y.node, -1);
        assert_int_equal(eager.status, GY_ARG);
        assert_non_null(strstr(eager.text, cases[i].text));
    }
    eager.status = GY_OK;
    attributes.axis.depth = 2;
    attributes.axis.dtype = GY_F32;
    assert_int_equal(apply(&gy_ops_row_one_hot, &attributes, labels, GY_NO_VALUE).node, -1);
    assert_non_null(strstr(eager.text, "one_hot: label 2 at place 1, expected 0 to 1"));
}

/* A part says where its label stands in the whole, and integers are shown to the last bit. */
static void a_wrong_label_of_a_part_has_its_global_place(void **state)
{
    (void)state;
    const int64_t begin[1][GY_TENSOR_RANK_MAX] = {{10, 0}};
    const gy_type whole = {.dtype = GY_I64, .rank = 2, .sizes = {100, 2}};
    int64_t labels[4] = {0, 1, 2, INT64_MAX};
    double out[12];
    gy_attributes attributes = zero();
    attributes.axis.dim = 2;
    attributes.axis.depth = 3;
    attributes.axis.dtype = GY_F64;
    const gy_view x = gy_view_of(labels, GY_I64, (int64_t[]){2, 2}, 2);
    gy_view y = gy_view_of(out, GY_F64, (int64_t[]){2, 2, 3}, 3);
    const gy_kernel_call call = {.op = &gy_ops_row_one_hot,
                                 .attributes = &attributes,
                                 .inputs = &x,
                                 .input_count = 1,
                                 .outputs = &y,
                                 .output_count = 1,
                                 .input_offsets = begin,
                                 .input_types = &whole};
    gy_status (*const runs[2])(const gy_kernel_call *) = {
        gy_ops_row_one_hot.reference, gy_ops_kernels(&gy_ops_row_one_hot)[0]->run};
    for (int i = 0; i < 2; i++) {
        assert_status(runs[i](&call), GY_ARG);
        assert_non_null(
            strstr(gy_error_text(),
                   "one_hot: label 9223372036854775807 at place 23, expected 0 to 2"));
    }
}

/* As the fast kernel has it, and as max has it. */
/* A rank whose part of the classes has no label at all refuses a wrong one like the others. */
static void a_wrong_label_fails_on_every_part(void **state)
{
    (void)state;
    double x[6] = {1, 2, 3, 4, 5, 6}, y[3] = {7, 7, 7};
    int32_t labels[3] = {1, 3, 0};
    const gy_attributes attributes = {.axis = {.dim = 1}};
    const gy_type types[2] = {{.dtype = GY_F64, .rank = 2, .sizes = {3, 4}},
                              {.dtype = GY_I32, .rank = 1, .sizes = {3}}};
    const gy_view inputs[2] = {gy_view_of(x, GY_F64, (int64_t[]){3, 2}, 2),
                               gy_view_of(labels, GY_I32, (int64_t[]){3}, 1)};
    gy_view out = gy_view_of(y, GY_F64, (int64_t[]){3}, 1);
    const int64_t offsets[2][GY_TENSOR_RANK_MAX] = {{0, 2}}; /* classes 2 and 3 */
    const gy_kernel_call call = {.op = &gy_ops_row_pick,
                                 .attributes = &attributes,
                                 .inputs = inputs,
                                 .input_count = 2,
                                 .outputs = &out,
                                 .output_count = 1,
                                 .input_offsets = offsets,
                                 .input_types = types};
    const gy_kernel *kernel = gy_ops_kernels(&gy_ops_row_pick)[0];
    for (int round = 0; round < 2; round++) {
        labels[0] = 1;
        assert_ok(round == 0 ? gy_ops_row_pick.reference(&call) : kernel->run(&call));
        assert_true(y[0] == 0 && y[1] == 4 && y[2] == 0);
        labels[0] = 4;
        assert_status(round == 0 ? gy_ops_row_pick.reference(&call) : kernel->run(&call),
                      GY_ARG);
        assert_non_null(strstr(gy_error_text(), "pick: index 4 at place 0, expected 0 to 3"));
    }
}

static void nan_is_the_maximum(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    attributes.axis.dim = 1;
    gy_value x = leaf(GY_F64, SIZES(3, 3), NUMBERS(1, NAN, 3, NAN, 5, NAN, 7, 9, 8));
    expect_values(apply(&gy_ops_row_argmax, &attributes, x, GY_NO_VALUE), 3, NUMBERS(1, 0, 1));
    attributes = zero();
    attributes.reduce.axes = 2;
    gy_value y = apply(&gy_ops_row_max, &attributes, x, GY_NO_VALUE);
    assert_true(isnan(ops_eager_get(&eager, y, 0)) && isnan(ops_eager_get(&eager, y, 1)));
    assert_true(ops_eager_get(&eager, y, 2) == 9);
}

/* The share that is dropped is near the rate, seeds and streams differ, equal draws are equal.
 */
static void dropout_draws_by_seed_and_stream(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    attributes.dropout.rate = 0.3;
    attributes.shape.rank = 0;
    gy_attributes fill = zero();
    fill.shape.rank = 1;
    fill.shape.dtype = GY_F32;
    fill.shape.sizes[0] = 4000;
    fill.shape.value = 1;
    gy_value x = gy_build(&eager.builder, &gy_ops_row_fill, &fill, NULL, 0);
    attributes = zero();
    attributes.dropout.rate = 0.3;
    gy_value first = leaf(GY_I64, SIZES(2), NUMBERS(11, 5));
    gy_value later = leaf(GY_I64, SIZES(2), NUMBERS(11, 6));
    gy_value y = apply(&gy_ops_row_dropout, &attributes, x, first);
    gy_value again = apply(&gy_ops_row_dropout, &attributes, x, first);
    gy_value next = apply(&gy_ops_row_dropout, &attributes, x, later);
    attributes.dropout.stream = 1;
    gy_value other = apply(&gy_ops_row_dropout, &attributes, x, first);
    int dropped = 0, unlike_next = 0, unlike_other = 0;
    for (int64_t i = 0; i < 4000; i++) {
        double value = ops_eager_get(&eager, y, i);
        assert_true(value == 0 || fabs(value - 1 / 0.7) < 1e-6);
        assert_true(value == ops_eager_get(&eager, again, i));
        dropped += value == 0;
        unlike_next += value != ops_eager_get(&eager, next, i);
        unlike_other += value != ops_eager_get(&eager, other, i);
    }
    assert_in_range(dropped, 1200 - 120, 1200 + 120); /* four deviations */
    assert_in_range(unlike_next, 1680 - 140, 1680 + 140);
    assert_in_range(unlike_other, 1680 - 140, 1680 + 140);
}

/* Rows of a micro-batch draw what they draw in the whole batch. */
static void dropout_draws_from_the_first_row_on(void **state)
{
    (void)state;
    enum { ROW = 7, ROWS = 20, FIRST = 13 };
    gy_attributes fill = zero(), attributes = zero();
    fill.shape.rank = 2;
    fill.shape.dtype = GY_F64;
    fill.shape.sizes[0] = ROWS;
    fill.shape.sizes[1] = ROW;
    fill.shape.value = 1;
    gy_value whole = gy_build(&eager.builder, &gy_ops_row_fill, &fill, NULL, 0);
    fill.shape.sizes[0] = ROWS - FIRST;
    gy_value part = gy_build(&eager.builder, &gy_ops_row_fill, &fill, NULL, 0);
    attributes.dropout.rate = 0.5;
    attributes.dropout.row = ROW;
    gy_value all = apply(&gy_ops_row_dropout, &attributes, whole,
                         leaf(GY_I64, SIZES(3), NUMBERS(11, 5, 0)));
    gy_value some = apply(&gy_ops_row_dropout, &attributes, part,
                          leaf(GY_I64, SIZES(3), NUMBERS(11, 5, FIRST)));
    for (int64_t i = 0; i < (ROWS - FIRST) * ROW; i++) {
        assert_true(ops_eager_get(&eager, some, i) ==
                    ops_eager_get(&eager, all, FIRST * ROW + i));
    }
    assert_int_equal(
        apply(&gy_ops_row_dropout, &attributes, part, leaf(GY_I64, SIZES(2), NUMBERS(11, 5)))
            .node,
        -1);
    assert_non_null(strstr(eager.text, "expected i64[2] or i64[3]"));
}

/* ---- every sample again, through views with gaps and in float32 ---- */

/* The same elements in memory with gaps: the last dimension twice as long, every other taken.
 */
static gy_view with_gaps(const gy_view *dense)
{
    gy_type wide = ops_eager_type_of(dense);
    if (dense->rank == 0) {
        gy_view copy = ops_eager_view(&wide);
        assert_ok(gy_view_copy(&copy, dense));
        return copy;
    }
    wide.sizes[dense->rank - 1] *= 2;
    gy_view view = ops_eager_view(&wide);
    view.sizes[dense->rank - 1] = dense->sizes[dense->rank - 1];
    view.strides[dense->rank - 1] = 2;
    assert_ok(gy_view_copy(&view, dense));
    return view;
}

static void run_row(const gy_op *op, const gy_ops_sample *sample, const gy_view *inputs,
                    gy_view *outputs, int *output_count)
{
    gy_type types[MAX_SAMPLE_INPUTS], made[GY_OP_OUTPUTS_MAX];
    for (int i = 0; i < sample->input_count; i++) {
        types[i] = ops_eager_type_of(&inputs[i]);
    }
    assert_ok(op->infer(&sample->attributes, types, sample->input_count, made));
    *output_count = op == &gy_ops_row_fused ? sample->attributes.fused.program->output_count
                                            : op->output_count;
    for (int i = 0; i < *output_count; i++) {
        outputs[i] = ops_eager_view(&made[i]);
    }
    const gy_kernel_call call = {.op = op,
                                 .attributes = &sample->attributes,
                                 .inputs = inputs,
                                 .input_count = sample->input_count,
                                 .outputs = outputs,
                                 .output_count = *output_count};
    if (op->reference(&call) != GY_OK) {
        fail_msg("%s: %s", op->name, gy_error_text());
    }
}

static void expect_same(const gy_op *op, int s, const gy_view *a, const gy_view *b,
                        double tolerance)
{
    gy_type type = ops_eager_type_of(a);
    type.dtype = GY_F64;
    type.format = GY_FORMAT_DENSE;
    gy_view left = ops_eager_view(&type), right = ops_eager_view(&type);
    assert_ok(gy_view_copy(&left, a));
    assert_ok(gy_view_copy(&right, b));
    for (int64_t i = 0; i < gy_view_count(&left); i++) {
        double x = ((const double *)left.data)[i], y = ((const double *)right.data)[i];
        if (!(fabs(x - y) <= tolerance * (1 + fabs(x)))) {
            fail_msg("%s sample %d, element %lld: %.12g and %.12g", op->name, s, (long long)i,
                     x, y);
        }
    }
    gy_free(left.data);
    gy_free(right.data);
}

/* Float32 inputs are what the float64 run gets too, so that only the arithmetic differs. */
static void compare_sample(const gy_op *op, int s, gy_random *random)
{
    const gy_ops_sample *sample = &op->samples[s];
    gy_view single[MAX_SAMPLE_INPUTS], exact[MAX_SAMPLE_INPUTS], gapped[MAX_SAMPLE_INPUTS];
    gy_view y[GY_OP_OUTPUTS_MAX], z[GY_OP_OUTPUTS_MAX], w[GY_OP_OUTPUTS_MAX];
    int count = 0;
    for (int i = 0; i < sample->input_count; i++) {
        single[i] = ops_eager_draw(sample, i, GY_F32, random);
        gy_type type = ops_eager_type_of(&single[i]);
        type.dtype = sample->inputs[i].dtype;
        exact[i] = ops_eager_view(&type);
        assert_ok(gy_view_copy(&exact[i], &single[i]));
        gapped[i] = with_gaps(&exact[i]);
    }
    run_row(op, sample, exact, y, &count);
    run_row(op, sample, gapped, z, &count);
    run_row(op, sample, single, w, &count);
    for (int i = 0; i < count; i++) {
        expect_same(op, s, &y[i], &z[i], 0);
        expect_same(op, s, &y[i], &w[i], 2e-6);
        gy_free(y[i].data);
        gy_free(z[i].data);
        gy_free(w[i].data);
    }
    for (int i = 0; i < sample->input_count; i++) {
        gy_free(single[i].data);
        gy_free(exact[i].data);
        gy_free(gapped[i].data);
    }
}

static void strides_and_float32_change_nothing(void **state)
{
    (void)state;
    gy_random random = {.key = gy_test_seed()};
    int compared = 0;
    for (int i = 0; i < gy_ops_all_count; i++) {
        for (int s = 0; s < gy_ops_all[i]->sample_count; s++) {
            compare_sample(gy_ops_all[i], s, &random);
            compared++;
        }
    }
    printf("%d samples\n", compared);
    assert_in_range(compared, 150, 10000);
}

/* mul, add, relu of the sample program, step by step. */
static void fused_runs_its_steps(void **state)
{
    (void)state;
    const gy_ops_sample *sample = &gy_ops_row_fused.samples[0];
    gy_random random = {.key = 1};
    gy_view inputs[3], outputs[GY_OP_OUTPUTS_MAX];
    int count = 0;
    for (int i = 0; i < 3; i++) {
        inputs[i] = ops_eager_draw(sample, i, GY_F64, &random);
    }
    run_row(&gy_ops_row_fused, sample, inputs, outputs, &count);
    assert_int_equal(count, 2);
    const double *a = inputs[0].data, *b = inputs[1].data, *c = inputs[2].data;
    const double *y = outputs[0].data, *sums = outputs[1].data;
    for (int column = 0; column < 4; column++) {
        double sum = 0;
        for (int row = 0; row < 3; row++) {
            double expected = fmax(0, a[row * 4 + column] * b[column] + c[0]);
            assert_true(y[row * 4 + column] == expected);
            sum += expected;
        }
        assert_true(fabs(sums[column] - sum) < 1e-12);
    }
    for (int i = 0; i < 3; i++) {
        gy_free(inputs[i].data);
    }
    gy_free(outputs[0].data);
    gy_free(outputs[1].data);
}

/* Of what a causal row does not see, the slope overflows: 0 times it is not in the sum. */
static void unseen_slopes_are_in_no_sum(void **state)
{
    (void)state;
    gy_attributes attributes = zero();
    attributes.attention.is_causal = true;
    const gy_value ones = leaf(GY_F64, SIZES(1, 2, 1, 1), NUMBERS(1, 1));
    const gy_value v = leaf(GY_F64, SIZES(1, 2, 1, 1), NUMBERS(1, 1e200));
    const gy_value dout = leaf(GY_F64, SIZES(1, 2, 1, 1), NUMBERS(1e200, 1));
    const gy_value out = gy_build(&eager.builder, &gy_ops_row_attention, &attributes,
                                  (gy_value[]){ones, ones, v}, 3);
    const gy_value inputs[] = {ones, ones, v, out, {out.node, 1}, dout};
    const gy_applied applied = {.attributes = &attributes, .inputs = inputs, .input_count = 6};
    gy_value plain =
        gy_build(&eager.builder, &gy_ops_row_attention_gradient, &attributes, inputs, 6);
    gy_value expanded[3];
    assert_ok(gy_ops_row_attention_gradient.expand(&eager.builder, &applied, expanded));
    for (int k = 0; k < 3; k++) {
        double wanted[2];
        for (int i = 0; i < 2; i++) {
            wanted[i] = ops_eager_get(&eager, (gy_value){plain.node, k}, i);
            assert_true(isfinite(wanted[i]));
        }
        expect_values(expanded[k], 2, wanted);
    }
}

static void take_shard_takes_its_part(void **state)
{
    (void)state;
    double whole[12], part[6];
    for (int i = 0; i < 12; i++) {
        whole[i] = i;
    }
    const gy_attributes attributes = zero();
    const gy_view x = gy_view_of(whole, GY_F64, (int64_t[]){4, 3}, 2);
    gy_view y = gy_view_of(part, GY_F64, (int64_t[]){2, 3}, 2);
    const int64_t offsets[1][GY_TENSOR_RANK_MAX] = {{2, 0}};
    const gy_kernel_call call = {.op = &gy_ops_row_take_shard,
                                 .attributes = &attributes,
                                 .inputs = &x,
                                 .input_count = 1,
                                 .outputs = &y,
                                 .output_count = 1,
                                 .output_offsets = offsets};
    assert_ok(gy_ops_row_take_shard.reference(&call));
    for (int i = 0; i < 6; i++) {
        assert_true(part[i] == i + 6);
    }
    const gy_kernel_call alone = {.op = &gy_ops_row_allgather,
                                  .attributes = &attributes,
                                  .inputs = &y,
                                  .input_count = 1,
                                  .outputs = (gy_view[]){x},
                                  .output_count = 1};
    assert_status(gy_ops_row_allgather.reference(&alone), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "needs the other ranks"));
}

int main(void)
{
#define EAGER(test) cmocka_unit_test_setup_teardown(test, open_eager, close_eager)
    const struct CMUnitTest tests[] = {
        EAGER(matmul_by_hand),
        EAGER(matmul_with_bias_and_relu_by_hand),
        EAGER(conv2d_by_hand),
        EAGER(pools_by_hand),
        EAGER(softmax_and_cross_entropy_by_hand),
        EAGER(attention_by_hand),
        EAGER(unseen_slopes_are_in_no_sum),
        EAGER(norms_by_hand),
        EAGER(reductions_by_hand),
        EAGER(integers_wrap_and_division_cuts),
        EAGER(rows_are_gathered_and_scattered),
        EAGER(what_is_out_of_range_is_named),
        cmocka_unit_test(a_wrong_label_of_a_part_has_its_global_place),
        cmocka_unit_test(a_wrong_label_fails_on_every_part),
        EAGER(nan_is_the_maximum),
        EAGER(dropout_draws_by_seed_and_stream),
        EAGER(dropout_draws_from_the_first_row_on),
        cmocka_unit_test(strides_and_float32_change_nothing),
        cmocka_unit_test(fused_runs_its_steps),
        cmocka_unit_test(take_shard_takes_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
