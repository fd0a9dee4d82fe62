/*
 * Distribution functions and their inverses: normal, t, F, chi squared, exponential.
 *
 * Sources: incomplete beta and gamma by continued fraction and series (Press et al., "Numerical
 * Recipes", 6.2 and 6.4, after Lentz 1976); inverses by bisection and Newton steps on them.
 */
#include "dml/builtins/builtins_priv.h"

#include <math.h>
#include <string.h>

typedef enum kind { NORMAL, STUDENT, FISHER, CHI_SQUARED, EXPONENTIAL } kind;

typedef struct distribution {
    kind kind;
    double a, b; /* mean and deviation; degrees of freedom; rate */
} distribution;

enum { STEPS_MAX = 10000 };

/* The continued fraction of the incomplete beta function. */
static double beta_fraction(double a, double b, double x)
{
    static const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m < STEPS_MAX; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        for (int k = 0; k < 2; k++) {
            const double term = k == 0 ? even : odd;
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            value *= d * c;
        }
        if (fabs(d * c - 1) < 1e-16) {
            break;
        }
    }
    return value;
}

static double log_gamma(double x)
{
    int sign = 0;
    return lgamma_r(x, &sign);
}

/* The regularised incomplete beta function of x and of 1 - x, which is given to keep digits. */
static double beta_part(double a, double b, double x, double rest)
{
    if (x <= 0) {
        return 0;
    }
    if (rest <= 0) {
        return 1;
    }
    const double front =
        exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log(rest));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, rest) / b;
}

/* The regularised lower incomplete gamma function, or the upper one. */
static double gamma_part(double a, double x, bool is_upper)
{
    if (x <= 0) {
        return is_upper ? 1 : 0;
    }
    const double front = exp(a * log(x) - x - log_gamma(a));
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (int n = 1; n < STEPS_MAX && term > sum * 1e-17; n++) {
            term *= x / (a + n);
            sum += term;
        }
        return is_upper ? 1 - sum * front : sum * front;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, value = d;
    for (int n = 1; n < STEPS_MAX; n++) {
        const double term = -n * (n - a);
        b += 2;
        d = 1 / (term * d + b);
        c = b + term / c;
        value *= d * c;
        if (fabs(d * c - 1) < 1e-16) {
            break;
        }
    }
    return is_upper ? front * value : 1 - front * value;
}

/* P(X <= x), or P(X > x). */
static double cumulative(const distribution *of, double x, bool is_upper)
{
    if (isnan(x)) {
        return x;
    }
    if (of->kind == NORMAL) {
        const double z = (x - of->a) / of->b / M_SQRT2;
        return 0.5 * erfc(is_upper ? z : -z);
    }
    if (isinf(x)) {
        return (x > 0) == is_upper ? 0 : 1;
    }
    if (of->kind == STUDENT) {
        const double square = x * x, all = of->a + square;
        const double tail = 0.5 * beta_part(of->a / 2, 0.5, of->a / all, square / all);
        return (x > 0) == is_upper ? tail : 1 - tail;
    }
    if (x <= 0) {
        return is_upper ? 1 : 0;
    }
    if (of->kind == EXPONENTIAL) {
        return is_upper ? exp(-of->a * x) : -expm1(-of->a * x);
    }
    if (of->kind == CHI_SQUARED) {
        return gamma_part(of->a / 2, x / 2, is_upper);
    }
    const double all = of->a * x + of->b;
    return is_upper ? beta_part(of->b / 2, of->a / 2, of->b / all, of->a * x / all)
                    : beta_part(of->a / 2, of->b / 2, of->a * x / all, of->b / all);
}

/* The x below which lies p (above which, for is_upper): bracketed, then halved. */
static double inverse(const distribution *of, double p, bool is_upper)
{
    if (!(p >= 0 && p <= 1)) {
        return NAN;
    }
    const bool has_negative = of->kind == NORMAL || of->kind == STUDENT;
    if (p == 0 || p == 1) {
        return (p == 0) != is_upper ? (has_negative ? -INFINITY : 0) : INFINITY;
    }
    const double scale = of->kind == NORMAL ? of->b : 1,
                 middle = of->kind == NORMAL ? of->a : 0;
    double low = has_negative ? middle - scale : 0, high = middle + scale;
    while (has_negative && (cumulative(of, low, is_upper) > p) != is_upper && low > -1e300) {
        low = middle + 2 * (low - middle);
    }
    while ((cumulative(of, high, is_upper) < p) != is_upper && high < 1e300) {
        high = middle + 2 * (high - middle);
    }
    for (int i = 0; i < 2000; i++) {
        const double half = low + (high - low) / 2;
        if (half <= low || half >= high) {
            break;
        }
        if ((cumulative(of, half, is_upper) < p) != is_upper) {
            low = half;
        } else {
            high = half;
        }
    }
    return low + (high - low) / 2;
}

static gy_status positive(const gy_dml_call *call, const char *what, double value)
{
    return value > 0 ? GY_OK
                     : gy_fail(GY_ARG, "%s: %s is %g, expected a number above 0",
                               call->builtin->name, what, value);
}

/* Arguments: target, dist, mean, sd, df, df1, df2, rate, lower.tail. */
static gy_status distribution_of(const gy_dml_call *call, const char *name, distribution *of)
{
    of->a = of->b = 0;
    if (strcmp(name, "normal") == 0 || strcmp(name, "norm") == 0) {
        of->kind = NORMAL;
        of->b = 1;
        GY_TRY(gy_dml_arg_real(call, 2, &of->a));
        GY_TRY(gy_dml_arg_real(call, 3, &of->b));
        return positive(call, "sd", of->b);
    }
    if (strcmp(name, "exp") == 0) {
        of->kind = EXPONENTIAL;
        of->a = 1;
        GY_TRY(gy_dml_arg_real(call, 7, &of->a));
        return positive(call, "rate", of->a);
    }
    if (strcmp(name, "f") == 0) {
        of->kind = FISHER;
        GY_TRY(gy_dml_arg_real(call, 5, &of->a));
        GY_TRY(gy_dml_arg_real(call, 6, &of->b));
        GY_TRY(positive(call, "df1", of->a));
        return positive(call, "df2", of->b);
    }
    if (strcmp(name, "t") == 0 || strcmp(name, "chisq") == 0) {
        of->kind = name[0] == 't' ? STUDENT : CHI_SQUARED;
        GY_TRY(gy_dml_arg_real(call, 4, &of->a));
        return positive(call, "df", of->a);
    }
    return gy_fail(GY_ARG, "%s: dist: \"%.40s\" is none of normal, t, f, chisq, exp",
                   call->builtin->name, name);
}

static gy_status run(gy_dml_call *call, const char *name, bool is_inverse)
{
    distribution of = {.kind = NORMAL};
    bool is_lower = true;
    gy_dml_matrix *x = NULL, *out = NULL;
    GY_TRY(distribution_of(call, name, &of));
    GY_TRY(gy_dml_arg_boolean(call, 8, &is_lower));
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const gy_status status = gy_dml_matrix_new(x->rows, x->columns, &out);
    for (int64_t i = 0; status == GY_OK && i < gy_dml_matrix_count(x); i++) {
        out->data[i] = is_inverse ? inverse(&of, x->data[i], !is_lower)
                                  : cumulative(&of, x->data[i], !is_lower);
    }
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    if (call->args[0].kind == GY_DML_IS_MATRIX) {
        return gy_dml_give(call, out);
    }
    const double value = out->data[0];
    gy_dml_matrix_drop(out);
    return gy_dml_give_real(call, value);
}

gy_status gy_dml_run_cdf(gy_dml_call *call)
{
    const char *name = "normal";
    GY_TRY(gy_dml_arg_text(call, 1, &name));
    return run(call, name, call->builtin->name[0] == 'i');
}

/* pnorm, qt and so on: the arguments of cdf in their places. */
gy_status gy_dml_run_chance(gy_dml_call *call)
{
    static const char *const from[] = {"target", "dist", "mean", "sd",        "df",
                                       "df1",    "df2",  "rate", "lower.tail"};
    gy_dml_value args[GY_COUNT(from)];
    for (size_t i = 0; i < GY_COUNT(from); i++) {
        const int at = gy_dml_builtin_parameter(call->builtin, from[i]);
        args[i] = at >= 0 ? call->args[at] : GY_DML_NONE;
    }
    gy_dml_call inner = *call;
    inner.args = args;
    inner.count = (int)GY_COUNT(from);
    inner.builtin = gy_dml_builtin_find("cdf");
    return run(&inner, call->builtin->name + 1, call->builtin->name[0] == 'q');
}
