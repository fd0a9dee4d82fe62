/*
 * Element-wise operators of one input, and cast. Gradients use the output where they can, so
 * that the input need not be kept. gelu is the exact form x Phi(x) (Hendrycks and Gimpel,
 * "Gaussian error linear units", 2016).
 */
#include "ops/ops_priv.h"

#include <math.h>
#include <string.h>

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

/* Phi(x) + x phi(x) */
static gy_value gelu_slope(const slopes *s)
{
    gy_value half = gy_build_scalar_like(s->builder, s->x, 0.5);
    gy_value erf_value = gy_build1(s->builder, &gy_ops_row_erf, scaled(s, s->x, sqrt_half));
    gy_value below = gy_build2(s->builder, &gy_ops_row_add, scaled(s, erf_value, 0.5), half);
    gy_value density = scaled(s, bell(s, 0.5), one_over_sqrt_2pi);
    return gy_build2(s->builder, &gy_ops_row_add, below, mul(s, s->x, density));
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
GRADIENT(gelu, mul(s, s->dy, gelu_slope(s)))
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

#define ROW(name, flags, gradient, placements, samples)                                        \
    GY_ELEMENTWISE_ROW(name, 1, flags, gradient, placements, samples)

ROW(neg, GY_OP_LINEAR, neg_gradient, gy_placements_linear, whole_samples);
ROW(abs, 0, abs_gradient, gy_placements_elementwise, bent_samples);
ROW(sign, 0, gy_gradient_zero, gy_placements_elementwise, bent_samples);
ROW(square, 0, square_gradient, gy_placements_elementwise, whole_samples);
ROW(exp, 0, exp_gradient, gy_placements_elementwise, exp_samples);
ROW(log, 0, log_gradient, gy_placements_elementwise, positive_samples);
ROW(sqrt, 0, sqrt_gradient, gy_placements_elementwise, positive_samples);
ROW(tanh, 0, tanh_gradient, gy_placements_elementwise, any_samples);
ROW(sigmoid, 0, sigmoid_gradient, gy_placements_elementwise, any_samples);
ROW(relu, 0, relu_gradient, gy_placements_elementwise, bent_samples);
ROW(gelu, 0, gelu_gradient, gy_placements_elementwise, any_samples);
ROW(erf, 0, erf_gradient, gy_placements_elementwise, any_samples);
ROW(sin, 0, sin_gradient, gy_placements_elementwise, any_samples);
ROW(cos, 0, cos_gradient, gy_placements_elementwise, any_samples);
ROW(log1p, 0, log1p_gradient, gy_placements_elementwise, positive_samples);
ROW(floor, 0, gy_gradient_zero, gy_placements_elementwise, step_samples);
ROW(ceil, 0, gy_gradient_zero, gy_placements_elementwise, step_samples);
ROW(round, 0, gy_gradient_zero, gy_placements_elementwise, step_samples);

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
    {.attributes.cast = {GY_F64},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 4)},
     .differentiable = 1},
    {.attributes.cast = {GY_I32}, .input_count = 1, .inputs = {GY_IN(-9, 9, 3, 4)}},
    {.attributes.cast = {GY_F32}, .input_count = 1, .inputs = {GY_IN_OF(GY_U8, 0, 256, 3, 4)}},
    {.attributes.cast = {GY_BF16}, .input_count = 1, .inputs = {GY_IN_OF(GY_F32, -9, 9, 8)}},
    {.attributes.cast = {GY_I8}, .input_count = 1, .inputs = {GY_IN_OF(GY_I64, -999, 999, 8)}},
};

ROW(cast, 0, cast_gradient, gy_placements_elementwise, cast_samples);
