/*
 * Element-wise operators: those of two and three inputs, which broadcast from the right
 * (arithmetic, comparisons, select), and those of one, with cast. Integers wrap; integer
 * division cuts toward zero, by zero gives 0. NaN propagates through minimum and maximum, and
 * -0 is below +0. Gradients of one input use the output where they can, so that the input need
 * not be kept. gelu is the exact form x Phi(x) (Hendrycks and Gimpel, "Gaussian error linear
 * units", 2016).
 */
#include "ops/ops_priv.h"
#include "tensor/extreme.h"

#include <math.h>
#include <string.h>

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

#define BINARY_ROW(name, flags, gradient, placements, samples)                                 \
    GY_ELEMENTWISE_ROW(name, 2, flags, gradient, placements, samples)

BINARY_ROW(add, GY_OP_COMMUTES, add_gradient, sum_placements, smooth_samples);
BINARY_ROW(sub, 0, sub_gradient, sum_placements, smooth_samples);
BINARY_ROW(mul, GY_OP_COMMUTES, mul_gradient, mul_placements, smooth_samples);
BINARY_ROW(div, 0, div_gradient, div_placements, div_samples);
BINARY_ROW(minimum, GY_OP_COMMUTES, minimum_gradient, minimum_placements, ordered_samples);
BINARY_ROW(maximum, GY_OP_COMMUTES, maximum_gradient, maximum_placements, ordered_samples);

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

BINARY_ROW(pow, 0, pow_gradient, gy_placements_elementwise, pow_samples);

/* Derivative 0 almost everywhere; the results are u8, so none is asked for in general. */
static const gy_ops_sample compare_samples[] = {
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 3, 4), GY_IN(-1, 1, 3, 4)}},
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 3, 1, 4), GY_IN(-1, 1, 2, 1)}},
    {.input_count = 2, .inputs = {GY_IN_OF(GY_I32, -3, 3, 6, 4), GY_IN_OF(GY_I32, -3, 3, 4)}},
    {.input_count = 2, .inputs = {GY_IN_OF(GY_I64, 0, 3, 0), GY_IN_OF(GY_I64, 0, 3, 1)}},
};

BINARY_ROW(equal, GY_OP_COMMUTES, gy_gradient_zero, gy_placements_elementwise, compare_samples);
BINARY_ROW(not_equal, GY_OP_COMMUTES, gy_gradient_zero, gy_placements_elementwise,
           compare_samples);
BINARY_ROW(less, 0, gy_gradient_zero, gy_placements_elementwise, compare_samples);
BINARY_ROW(less_equal, 0, gy_gradient_zero, gy_placements_elementwise, compare_samples);
BINARY_ROW(greater, 0, gy_gradient_zero, gy_placements_elementwise, compare_samples);
BINARY_ROW(greater_equal, 0, gy_gradient_zero, gy_placements_elementwise, compare_samples);

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

/* ---- one input ---- */

static gy_status real_infer(const char *name, const gy_type *inputs, gy_type *outputs)
{
    GY_TRY(gy_need_real(name, inputs, 0));
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

static gy_status number_infer(const char *name, const gy_type *inputs, gy_type *outputs)
{
    if (!gy_dtype_is_whole(inputs[0].dtype)) {
        return real_infer(name, inputs, outputs);
    }
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

#define INFER(name, rule)                                                                      \
    static gy_status name##_infer(const gy_attributes *attributes, const gy_type *inputs,      \
                                  int input_count, gy_type *outputs)                           \
    {                                                                                          \
        (void)attributes;                                                                      \
        (void)input_count;                                                                     \
        return rule(#name, inputs, outputs);                                                   \
    }

/* Floating types alone: v is the value. */
#define REAL_FORMULA(name, value)                                                              \
    INFER(name, real_infer)                                                                    \
    static double name##_real(const double *x)                                                 \
    {                                                                                          \
        const double v = x[0];                                                                 \
        return (value);                                                                        \
    }                                                                                          \
    static gy_status name##_reference(const gy_kernel_call *call)                              \
    {                                                                                          \
        return gy_walk(call, name##_real, NULL);                                               \
    }

/* Integers too, wrapping: u is the value as unsigned. */
#define NUMBER_FORMULA(name, real_value, whole_value)                                          \
    INFER(name, number_infer)                                                                  \
    static double name##_real(const double *x)                                                 \
    {                                                                                          \
        const double v = x[0];                                                                 \
        return (real_value);                                                                   \
    }                                                                                          \
    static int64_t name##_whole(const int64_t *x)                                              \
    {                                                                                          \
        const int64_t v = x[0];                                                                \
        const uint64_t u = (uint64_t)v;                                                        \
        (void)u;                                                                               \
        return (int64_t)(whole_value);                                                         \
    }                                                                                          \
    static gy_status name##_reference(const gy_kernel_call *call)                              \
    {                                                                                          \
        return gy_walk(call, name##_real, name##_whole);                                       \
    }

static const double sqrt_half = 0.70710678118654752440;         /* 1 / sqrt 2 */
static const double two_over_sqrt_pi = 1.12837916709551257390;  /* derivative of erf at 0 */
static const double one_over_sqrt_2pi = 0.39894228040143267794; /* the normal density at 0 */

NUMBER_FORMULA(neg, -v, 0 - u)
NUMBER_FORMULA(abs, fabs(v), v < 0 ? 0 - u : u)
NUMBER_FORMULA(sign, (v > 0) - (v < 0), (v > 0) - (v < 0))
NUMBER_FORMULA(square, v *v, u *u)
NUMBER_FORMULA(relu, v < 0 ? 0 : v, v < 0 ? 0 : v)
REAL_FORMULA(exp, exp(v))
REAL_FORMULA(log, log(v))
REAL_FORMULA(sqrt, sqrt(v))
REAL_FORMULA(tanh, tanh(v))
REAL_FORMULA(sigmoid, v >= 0 ? 1 / (1 + exp(-v)) : exp(v) / (1 + exp(v)))
REAL_FORMULA(gelu, 0.5 * v * (1 + erf(v * sqrt_half)))
REAL_FORMULA(gelu_slope,
             0.5 * (1 + erf(v * sqrt_half)) + v * one_over_sqrt_2pi * exp(-v * v / 2))
REAL_FORMULA(erf, erf(v))
REAL_FORMULA(sin, sin(v))
REAL_FORMULA(cos, cos(v))
REAL_FORMULA(log1p, log1p(v))
REAL_FORMULA(floor, floor(v))
REAL_FORMULA(ceil, ceil(v))
REAL_FORMULA(round, rint(v)) /* in the rounding mode that every thread begins with */

/* ---- gradients: x, y and dy are the input, the output and the gradient that comes in ---- */

typedef struct slopes {
    gy_builder *builder;
    gy_value x, y, dy;
} slopes;

static gy_value mul(const slopes *s, gy_value a, gy_value b)
{
    return gy_build2(s->builder, &gy_ops_row_mul, a, b);
}

static gy_value scaled(const slopes *s, gy_value a, double factor)
{
    return mul(s, a, gy_build_scalar_like(s->builder, a, factor));
}

/* number - a */
static gy_value rest(const slopes *s, double number, gy_value a)
{
    return gy_build2(s->builder, &gy_ops_row_sub, gy_build_scalar_like(s->builder, a, number),
                     a);
}

/* Defines <name>_gradient from an expression over `s`. */
#define GRADIENT(name, value)                                                                  \
    static gy_status name##_gradient(gy_builder *builder, const gy_applied *node,              \
                                     const gy_value *dy, gy_value *dx)                         \
    {                                                                                          \
        const slopes one = {builder, node->inputs[0], node->outputs[0], dy[0]};                \
        const slopes *s = &one;                                                                \
        dx[0] = (value);                                                                       \
        return GY_OK;                                                                          \
    }

static gy_value sign_of(const slopes *s)
{
    return gy_build1(s->builder, &gy_ops_row_sign, s->x);
}

/* dy where y > 0 or is not a number. */
static gy_value where_open(const slopes *s)
{
    gy_value zero = gy_build_scalar_like(s->builder, s->y, 0);
    gy_value is_closed = gy_build2(s->builder, &gy_ops_row_less_equal, s->y, zero);
    return gy_build3(s->builder, &gy_ops_row_select, is_closed,
                     gy_build_scalar_like(s->builder, s->dy, 0), s->dy);
}

/* exp(-factor x^2) */
static gy_value bell(const slopes *s, double factor)
{
    gy_value square = gy_build1(s->builder, &gy_ops_row_square, s->x);
    return gy_build1(s->builder, &gy_ops_row_exp, scaled(s, square, -factor));
}

/* phi(x) (2 - x^2), the derivative of Phi(x) + x phi(x) */
static gy_value gelu_bend(const slopes *s)
{
    gy_value density = scaled(s, bell(s, 0.5), one_over_sqrt_2pi);
    return mul(s, density, rest(s, 2, gy_build1(s->builder, &gy_ops_row_square, s->x)));
}

GRADIENT(neg, gy_build1(s->builder, &gy_ops_row_neg, s->dy))
GRADIENT(abs, mul(s, s->dy, sign_of(s)))
GRADIENT(square, mul(s, s->dy, scaled(s, s->x, 2)))
GRADIENT(exp, mul(s, s->dy, s->y))
GRADIENT(log, gy_build2(builder, &gy_ops_row_div, s->dy, s->x))
GRADIENT(sqrt, gy_build2(builder, &gy_ops_row_div, scaled(s, s->dy, 0.5), s->y))
GRADIENT(tanh, mul(s, s->dy, rest(s, 1, gy_build1(builder, &gy_ops_row_square, s->y))))
GRADIENT(sigmoid, mul(s, s->dy, mul(s, s->y, rest(s, 1, s->y))))
GRADIENT(relu, where_open(s)) /* 0 at 0; x > 0 exactly where y > 0 */
GRADIENT(gelu, mul(s, s->dy, gy_build1(builder, &gy_ops_row_gelu_slope, s->x)))
GRADIENT(gelu_slope, mul(s, s->dy, gelu_bend(s)))
GRADIENT(erf, mul(s, s->dy, scaled(s, bell(s, 1), two_over_sqrt_pi)))
GRADIENT(sin, mul(s, s->dy, gy_build1(builder, &gy_ops_row_cos, s->x)))
GRADIENT(cos, mul(s, s->dy, scaled(s, gy_build1(builder, &gy_ops_row_sin, s->x), -1)))
GRADIENT(log1p, gy_build2(builder, &gy_ops_row_div, s->dy, rest(s, 1, scaled(s, s->x, -1))))

/* ---- rows ---- */

static const gy_ops_sample any_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(-3, 3, 4, 5)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN(-30, 30, 2, 1, 7)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN_SCALAR(-1, 1)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN(-1, 1, 0, 3)}, .differentiable = 1},
};

/* Not at 0, where abs, sign and relu bend. */
static const gy_ops_sample bent_samples[] = {
    {.input_count = 1, .inputs = {GY_IN_DISTINCT(-1.01, 1, 4, 5)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN(-2, -0.1, 3)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN_OF(GY_I32, -9, 9, 3, 4)}},
};

static const gy_ops_sample whole_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(-3, 3, 4, 5)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN_SCALAR(-1, 1)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN_OF(GY_I64, -99, 99, 3, 4)}},
};

static const gy_ops_sample positive_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(0.2, 4, 4, 5)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN(0.5, 1, 2, 1, 7)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN(0.5, 1, 0)}, .differentiable = 1},
};

/* Not at 0 or 1, where floor and ceil leap, nor at 1/2, where round does. */
static const gy_ops_sample step_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(0.05, 0.45, 4, 5)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN(-2.95, -2.55, 3)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN_OF(GY_F32, -9, 9, 3, 4)}},
};

static const gy_ops_sample exp_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(-3, 3, 4, 5)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN(-20, -5, 2, 1, 7)}, .differentiable = 1},
};

#define UNARY_ROW(name, flags, gradient, placements, samples)                                  \
    GY_ELEMENTWISE_ROW(name, 1, flags, gradient, placements, samples)

UNARY_ROW(neg, GY_OP_LINEAR, neg_gradient, gy_placements_linear, whole_samples);
UNARY_ROW(abs, 0, abs_gradient, gy_placements_elementwise, bent_samples);
UNARY_ROW(sign, 0, gy_gradient_zero, gy_placements_elementwise, bent_samples);
UNARY_ROW(square, 0, square_gradient, gy_placements_elementwise, whole_samples);
UNARY_ROW(exp, 0, exp_gradient, gy_placements_elementwise, exp_samples);
UNARY_ROW(log, 0, log_gradient, gy_placements_elementwise, positive_samples);
UNARY_ROW(sqrt, 0, sqrt_gradient, gy_placements_elementwise, positive_samples);
UNARY_ROW(tanh, 0, tanh_gradient, gy_placements_elementwise, any_samples);
UNARY_ROW(sigmoid, 0, sigmoid_gradient, gy_placements_elementwise, any_samples);
UNARY_ROW(relu, 0, relu_gradient, gy_placements_elementwise, bent_samples);
UNARY_ROW(gelu, 0, gelu_gradient, gy_placements_elementwise, any_samples);
UNARY_ROW(gelu_slope, 0, gelu_slope_gradient, gy_placements_elementwise, any_samples);
UNARY_ROW(erf, 0, erf_gradient, gy_placements_elementwise, any_samples);
UNARY_ROW(sin, 0, sin_gradient, gy_placements_elementwise, any_samples);
UNARY_ROW(cos, 0, cos_gradient, gy_placements_elementwise, any_samples);
UNARY_ROW(log1p, 0, log1p_gradient, gy_placements_elementwise, positive_samples);
UNARY_ROW(floor, 0, gy_gradient_zero, gy_placements_elementwise, step_samples);
UNARY_ROW(ceil, 0, gy_gradient_zero, gy_placements_elementwise, step_samples);
UNARY_ROW(round, 0, gy_gradient_zero, gy_placements_elementwise, step_samples);

/* ---- cast ---- */

static gy_status cast_infer(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, gy_type *outputs)
{
    (void)input_count;
    char text[GY_TYPE_TEXT_BYTES];
    if (!gy_dtype_is_element(attributes->cast.dtype)) {
        return gy_fail(GY_TYPE, "cast: %s to element type %d, expected one from 1 to %d",
                       gy_type_text(&inputs[0], text), (int)attributes->cast.dtype,
                       GY_DTYPE_COUNT - 1);
    }
    *outputs = gy_type_like(&inputs[0]);
    outputs->dtype = attributes->cast.dtype;
    return GY_OK;
}

static gy_status cast_reference(const gy_kernel_call *call)
{
    return gy_reference_copy(call);
}

static bool is_floating(gy_dtype dtype)
{
    return gy_dtype_is_real(dtype) || dtype == GY_F16 || dtype == GY_BF16;
}

/* Between floating types the rounding is not differentiated; through integers nothing passes.
 */
static gy_status cast_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                               gy_value *dx)
{
    dx[0] = GY_NO_VALUE;
    if (is_floating(node->attributes->cast.dtype) &&
        is_floating(builder->ops->type(builder, node->inputs[0])->dtype)) {
        dx[0] = gy_build_cast_like(builder, dy[0], node->inputs[0]);
    }
    return GY_OK;
}

static const gy_ops_sample cast_samples[] = {
    {.attributes.cast.dtype = GY_F64,
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 4)},
     .differentiable = 1},
    {.attributes.cast.dtype = GY_I32, .input_count = 1, .inputs = {GY_IN(-9, 9, 3, 4)}},
    {.attributes.cast.dtype = GY_F32,
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_U8, 0, 256, 3, 4)}},
    {.attributes.cast.dtype = GY_BF16,
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_F32, -9, 9, 8)}},
    {.attributes.cast.dtype = GY_I8,
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I64, -999, 999, 8)}},
};

/* A sum over ranks may be made behind the cast, of fewer bytes, where that was asked for. */
static int cast_placements(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, const gy_type *outputs, gy_signature *signatures)
{
    return (attributes->cast.takes_parts ? gy_placements_linear : gy_placements_elementwise)(
        attributes, inputs, input_count, outputs, signatures);
}

UNARY_ROW(cast, 0, cast_gradient, cast_placements, cast_samples);
