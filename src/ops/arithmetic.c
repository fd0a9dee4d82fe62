/*
 * Element-wise operators of two and three inputs, broadcasting from the right: arithmetic,
 * comparisons, select. Integers wrap; integer division cuts toward zero, by zero gives 0.
 * NaN propagates through minimum and maximum, and -0 is below +0.
 */
#include "ops/ops_priv.h"
#include "tensor/extreme.h"

#include <math.h>

static gy_status binary_infer(const char *name, const gy_type *inputs, gy_type *outputs)
{
    GY_TRY(gy_need_same_dtype(name, &inputs[0], &inputs[1]));
    if (!gy_dtype_is_real(inputs[0].dtype) && !gy_dtype_is_whole(inputs[0].dtype)) {
        char texts[2][GY_TYPE_TEXT_BYTES];
        return gy_fail(GY_TYPE, "%s: %s and %s are storage types, cast them first", name,
                       gy_type_text(&inputs[0], texts[0]), gy_type_text(&inputs[1], texts[1]));
    }
    return gy_broadcast_sizes(name, &inputs[0], &inputs[1], outputs);
}

/* Defines <name>_infer and <name>_reference from the formula for doubles and for integers. */
#define FORMULA(name, result, real_value, whole_value)                                         \
    static gy_status name##_infer(const gy_attributes *attributes, const gy_type *inputs,      \
                                  int input_count, gy_type *outputs)                           \
    {                                                                                          \
        (void)attributes;                                                                      \
        (void)input_count;                                                                     \
        GY_TRY(binary_infer(#name, inputs, outputs));                                          \
        outputs->dtype = (result);                                                             \
        return GY_OK;                                                                          \
    }                                                                                          \
    static double name##_real(const double *x)                                                 \
    {                                                                                          \
        return (real_value);                                                                   \
    }                                                                                          \
    static int64_t name##_whole(const int64_t *x)                                              \
    {                                                                                          \
        return (whole_value);                                                                  \
    }                                                                                          \
    static gy_status name##_reference(const gy_kernel_call *call)                              \
    {                                                                                          \
        return gy_walk(call, name##_real, name##_whole);                                       \
    }

static int64_t wrap(uint64_t value)
{
    return (int64_t)value;
}

static int64_t divide(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? wrap(0 - (uint64_t)a) : a / b;
}

#define SAME inputs[0].dtype
FORMULA(add, SAME, x[0] + x[1], wrap((uint64_t)x[0] + (uint64_t)x[1]))
FORMULA(sub, SAME, x[0] - x[1], wrap((uint64_t)x[0] - (uint64_t)x[1]))
FORMULA(mul, SAME, x[0] * x[1], wrap((uint64_t)x[0] * (uint64_t)x[1]))
FORMULA(div, SAME, x[0] / x[1], divide(x[0], x[1]))
FORMULA(minimum, SAME, gy_minimum_f64(x[0], x[1]), GY_MIN(x[0], x[1]))
FORMULA(maximum, SAME, gy_maximum_f64(x[0], x[1]), GY_MAX(x[0], x[1]))
FORMULA(equal, GY_U8, x[0] == x[1], x[0] == x[1])
FORMULA(not_equal, GY_U8, x[0] != x[1], x[0] != x[1])
FORMULA(less, GY_U8, x[0] < x[1], x[0] < x[1])
FORMULA(less_equal, GY_U8, x[0] <= x[1], x[0] <= x[1])
FORMULA(greater, GY_U8, x[0] > x[1], x[0] > x[1])
FORMULA(greater_equal, GY_U8, x[0] >= x[1], x[0] >= x[1])

/* ---- gradients ---- */

static gy_status add_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                              gy_value *dx)
{
    dx[0] = gy_build_sum_to(builder, dy[0], node->inputs[0]);
    dx[1] = gy_build_sum_to(builder, dy[0], node->inputs[1]);
    return GY_OK;
}

static gy_status sub_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                              gy_value *dx)
{
    dx[0] = gy_build_sum_to(builder, dy[0], node->inputs[0]);
    dx[1] =
        gy_build1(builder, &gy_ops_row_neg, gy_build_sum_to(builder, dy[0], node->inputs[1]));
    return GY_OK;
}

static gy_status mul_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                              gy_value *dx)
{
    const gy_value a = node->inputs[0], b = node->inputs[1];
    dx[0] = gy_build_sum_to(builder, gy_build2(builder, &gy_ops_row_mul, dy[0], b), a);
    dx[1] = gy_build_sum_to(builder, gy_build2(builder, &gy_ops_row_mul, dy[0], a), b);
    return GY_OK;
}

/* y = a / b: da = dy / b, db = -da y. */
static gy_status div_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                              gy_value *dx)
{
    const gy_value a = node->inputs[0], b = node->inputs[1];
    gy_value quotient = gy_build2(builder, &gy_ops_row_div, dy[0], b);
    gy_value product = gy_build2(builder, &gy_ops_row_mul, quotient, node->outputs[0]);
    dx[0] = gy_build_sum_to(builder, quotient, a);
    dx[1] = gy_build1(builder, &gy_ops_row_neg, gy_build_sum_to(builder, product, b));
    return GY_OK;
}

/* y = a^b: da = dy b a^(b-1), 0 where b is 0 (a may be 0 too); db = dy y log a, 0 where a <= 0
 * (the power is not smooth in b there). */
static gy_status pow_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                              gy_value *dx)
{
    const gy_value a = node->inputs[0], b = node->inputs[1];
    gy_value one = gy_build_scalar_like(builder, a, 1);
    gy_value zero = gy_build_scalar_like(builder, a, 0);
    gy_value lower =
        gy_build2(builder, &gy_ops_row_pow, a, gy_build2(builder, &gy_ops_row_sub, b, one));
    gy_value is_constant = gy_build2(builder, &gy_ops_row_equal, b, zero);
    gy_value slope = gy_build3(builder, &gy_ops_row_select, is_constant, zero,
                               gy_build2(builder, &gy_ops_row_mul, b, lower));
    dx[0] = gy_build_sum_to(builder, gy_build2(builder, &gy_ops_row_mul, dy[0], slope), a);
    gy_value is_positive = gy_build2(builder, &gy_ops_row_greater, a, zero);
    gy_value safe = gy_build3(builder, &gy_ops_row_select, is_positive, a, one);
    gy_value growth = gy_build2(builder, &gy_ops_row_mul, node->outputs[0],
                                gy_build1(builder, &gy_ops_row_log, safe));
    dx[1] = gy_build_sum_to(builder, gy_build2(builder, &gy_ops_row_mul, dy[0], growth), b);
    return GY_OK;
}

/* All of dy to the input that `wins`, to a where they are equal. */
static gy_status choice_gradient(gy_builder *builder, const gy_applied *node, const gy_op *wins,
                                 gy_value dy, gy_value *dx)
{
    const gy_value a = node->inputs[0], b = node->inputs[1];
    gy_value is_first = gy_build2(builder, wins, a, b);
    gy_value zero = gy_build_scalar_like(builder, dy, 0);
    gy_value first = gy_build3(builder, &gy_ops_row_select, is_first, dy, zero);
    gy_value second = gy_build3(builder, &gy_ops_row_select, is_first, zero, dy);
    dx[0] = gy_build_sum_to(builder, first, a);
    dx[1] = gy_build_sum_to(builder, second, b);
    return GY_OK;
}

static gy_status minimum_gradient(gy_builder *builder, const gy_applied *node,
                                  const gy_value *dy, gy_value *dx)
{
    return choice_gradient(builder, node, &gy_ops_row_less_equal, dy[0], dx);
}

static gy_status maximum_gradient(gy_builder *builder, const gy_applied *node,
                                  const gy_value *dy, gy_value *dx)
{
    return choice_gradient(builder, node, &gy_ops_row_greater_equal, dy[0], dx);
}

/* ---- placements ---- */

/* Both partial: they may be joined part by part. (R, P) is not legal: R would count once a
 * rank. */
static int both_partial(gy_reduction reduction, const gy_type *inputs, const gy_type *outputs,
                        gy_signature *signatures)
{
    gy_signatures made = {.list = signatures};
    gy_signatures_elementwise(&made, inputs, 2, outputs);
    gy_signature *partial = gy_signatures_add(&made);
    partial->inputs[0] = partial->inputs[1] = partial->outputs[0] = gy_partial(reduction);
    return made.count;
}

#define BOTH_PARTIAL(name, reduction)                                                          \
    static int name##_placements(const gy_attributes *attributes, const gy_type *inputs,       \
                                 int input_count, const gy_type *outputs,                      \
                                 gy_signature *signatures)                                     \
    {                                                                                          \
        (void)attributes;                                                                      \
        (void)input_count;                                                                     \
        return both_partial(reduction, inputs, outputs, signatures);                           \
    }
BOTH_PARTIAL(sum, GY_SUM)
BOTH_PARTIAL(minimum, GY_MIN)
BOTH_PARTIAL(maximum, GY_MAX)

static int mul_placements(const gy_attributes *attributes, const gy_type *inputs,
                          int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)attributes;
    gy_signatures made = {.list = signatures};
    gy_signatures_elementwise(&made, inputs, input_count, outputs);
    gy_signatures_partial(&made, 0);
    gy_signatures_partial(&made, 1);
    return made.count;
}

static int div_placements(const gy_attributes *attributes, const gy_type *inputs,
                          int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)attributes;
    gy_signatures made = {.list = signatures};
    gy_signatures_elementwise(&made, inputs, input_count, outputs);
    if (gy_dtype_is_real(inputs[0].dtype)) { /* integer quotients are cut: not additive */
        gy_signatures_partial(&made, 0);
    }
    return made.count;
}

/* ---- rows ---- */

/* Same, broadcast from both sides, a scalar, an empty batch, integers. */
static const gy_ops_sample smooth_samples[] = {
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 3, 4), GY_IN(-1, 1, 3, 4)}, .differentiable = 3},
    {.input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 1, 4), GY_IN(-1, 1, 2, 1)},
     .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN_SCALAR(-1, 1), GY_IN(-1, 1, 5)}, .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 0, 4), GY_IN(-1, 1, 4)}, .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN_OF(GY_I32, -50, 50, 3, 4), GY_IN_OF(GY_I32, -9, 9, 4)}},
    {.input_count = 2, .inputs = {GY_IN_OF(GY_U8, 0, 200, 5), GY_IN_OF(GY_U8, 0, 200, 5)}},
};

static const gy_ops_sample div_samples[] = {
    {.input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 4), GY_IN(0.5, 2, 3, 4)},
     .differentiable = 3},
    {.input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 1, 4), GY_IN(-2, -0.5, 2, 1)},
     .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 5), GY_IN_SCALAR(0.5, 1)}, .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN_OF(GY_I64, -50, 50, 3, 4), GY_IN_OF(GY_I64, -3, 3, 4)}},
};

static const gy_ops_sample pow_samples[] = {
    {.input_count = 2,
     .inputs = {GY_IN(0.5, 2, 3, 4), GY_IN(-2, 2, 3, 4)},
     .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN(0.5, 2, 2, 3, 1), GY_IN(1, 3, 4)}, .differentiable = 3},
};

/* Values in disjoint grids, so that no difference is near 0. */
static const gy_ops_sample ordered_samples[] = {
    {.input_count = 2,
     .inputs = {GY_IN_DISTINCT(-1, 1, 3, 4), GY_IN_DISTINCT(-0.97, 1.03, 3, 4)},
     .differentiable = 3},
    {.input_count = 2,
     .inputs = {GY_IN_DISTINCT(-1, 1, 3, 1), GY_IN_DISTINCT(-0.9, 1.4, 2, 1, 4)},
     .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN_OF(GY_I32, -3, 3, 3, 4), GY_IN_OF(GY_I32, -3, 3, 4)}},
};

#define ROW(name, flags, gradient, placements, samples)                                        \
    GY_ELEMENTWISE_ROW(name, 2, flags, gradient, placements, samples)

ROW(add, GY_OP_COMMUTES, add_gradient, sum_placements, smooth_samples);
ROW(sub, 0, sub_gradient, sum_placements, smooth_samples);
ROW(mul, GY_OP_COMMUTES, mul_gradient, mul_placements, smooth_samples);
ROW(div, 0, div_gradient, div_placements, div_samples);
ROW(minimum, GY_OP_COMMUTES, minimum_gradient, minimum_placements, ordered_samples);
ROW(maximum, GY_OP_COMMUTES, maximum_gradient, maximum_placements, ordered_samples);

static gy_status pow_infer(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, gy_type *outputs)
{
    (void)attributes;
    (void)input_count;
    GY_TRY(gy_need_real("pow", inputs, 0));
    return binary_infer("pow", inputs, outputs);
}

static double pow_real(const double *x)
{
    return pow(x[0], x[1]);
}

static gy_status pow_reference(const gy_kernel_call *call)
{
    return gy_walk(call, pow_real, NULL);
}

ROW(pow, 0, pow_gradient, gy_placements_elementwise, pow_samples);

/* Derivative 0 almost everywhere; the results are u8, so none is asked for in general. */
static const gy_ops_sample compare_samples[] = {
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 3, 4), GY_IN(-1, 1, 3, 4)}},
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 3, 1, 4), GY_IN(-1, 1, 2, 1)}},
    {.input_count = 2, .inputs = {GY_IN_OF(GY_I32, -3, 3, 6, 4), GY_IN_OF(GY_I32, -3, 3, 4)}},
    {.input_count = 2, .inputs = {GY_IN_OF(GY_I64, 0, 3, 0), GY_IN_OF(GY_I64, 0, 3, 1)}},
};

ROW(equal, GY_OP_COMMUTES, gy_gradient_zero, gy_placements_elementwise, compare_samples);
ROW(not_equal, GY_OP_COMMUTES, gy_gradient_zero, gy_placements_elementwise, compare_samples);
ROW(less, 0, gy_gradient_zero, gy_placements_elementwise, compare_samples);
ROW(less_equal, 0, gy_gradient_zero, gy_placements_elementwise, compare_samples);
ROW(greater, 0, gy_gradient_zero, gy_placements_elementwise, compare_samples);
ROW(greater_equal, 0, gy_gradient_zero, gy_placements_elementwise, compare_samples);

/* ---- select ---- */

static gy_status select_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    (void)attributes;
    (void)input_count;
    char text[GY_TYPE_TEXT_BYTES];
    if (inputs[0].dtype != GY_U8) {
        return gy_fail(GY_TYPE, "select: condition is %s, expected u8",
                       gy_type_text(&inputs[0], text));
    }
    gy_type values;
    GY_TRY(binary_infer("select", inputs + 1, &values));
    return gy_broadcast_sizes("select", &inputs[0], &values, outputs);
}

static double select_real(const double *x)
{
    return x[0] != 0 ? x[1] : x[2];
}

static int64_t select_whole(const int64_t *x)
{
    return x[0] != 0 ? x[1] : x[2];
}

static gy_status select_reference(const gy_kernel_call *call)
{
    return gy_walk(call, select_real, select_whole);
}

static gy_status select_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    const gy_value condition = node->inputs[0];
    gy_value zero = gy_build_scalar_like(builder, dy[0], 0);
    gy_value first = gy_build3(builder, &gy_ops_row_select, condition, dy[0], zero);
    gy_value second = gy_build3(builder, &gy_ops_row_select, condition, zero, dy[0]);
    dx[0] = GY_NO_VALUE;
    dx[1] = gy_build_sum_to(builder, first, node->inputs[1]);
    dx[2] = gy_build_sum_to(builder, second, node->inputs[2]);
    return GY_OK;
}

static int select_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)attributes;
    gy_signatures made = {.list = signatures};
    gy_signatures_elementwise(&made, inputs, input_count, outputs);
    gy_signature *partial = gy_signatures_add(&made);
    partial->inputs[1] = partial->inputs[2] = partial->outputs[0] = gy_partial(GY_SUM);
    return made.count;
}

static const gy_ops_sample select_samples[] = {
    {.input_count = 3,
     .inputs = {GY_IN_OF(GY_U8, 0, 2, 3, 4), GY_IN(-1, 1, 3, 4), GY_IN(-1, 1, 3, 4)},
     .differentiable = 6},
    {.input_count = 3,
     .inputs = {GY_IN_OF(GY_U8, 0, 2, 2, 3, 1), GY_IN(-1, 1, 4), GY_IN_SCALAR(-1, 1)},
     .differentiable = 6},
    {.input_count = 3,
     .inputs = {GY_IN_OF(GY_U8, 0, 2, 4), GY_IN_OF(GY_I32, -9, 9, 4),
                GY_IN_OF(GY_I32, -9, 9, 4)}},
};

GY_ELEMENTWISE_ROW(select, 3, 0, select_gradient, select_placements, select_samples);
