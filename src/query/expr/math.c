/* Functions of numbers. */
#include "query/expr/expr_priv.h"

#include <math.h>

enum { INTEGER = GY_FIELD_INT64, REAL = GY_FIELD_DOUBLE, DECIMAL = GY_FIELD_DECIMAL };

#define ROW(name)                                                                              \
    static gy_status name(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,   \
                          gy_expr_cell *out)

/* ---- of any type ---- */

ROW(abs_row)
{
    (void)work;
    switch (gy_expr_class(&expr->type)) {
    case REAL:
        out->real = fabs(args[0].real);
        return GY_OK;
    case DECIMAL:
        out->decimal = args[0].decimal < 0 ? -args[0].decimal : args[0].decimal;
        return GY_OK;
    default:
        if (args[0].integer == INT64_MIN) {
            return gy_fail(GY_LIMIT, "int64 out of range: abs(%lld)",
                           (long long)args[0].integer);
        }
        out->integer = args[0].integer < 0 ? -args[0].integer : args[0].integer;
        return GY_OK;
    }
}

ROW(sign_row)
{
    (void)work;
    if (gy_expr_class(&expr->type) == REAL) {
        out->real = args[0].real > 0 ? 1 : args[0].real < 0 ? -1 : 0; /* of NaN, too */
    } else {
        out->decimal = (args[0].decimal > 0) - (args[0].decimal < 0);
    }
    return GY_OK;
}

/* ---- rounding ---- */

enum { ROUND, TRUNCATE, CEILING, FLOOR };

ROW(round_real)
{
    (void)work;
    const double x = args[0].real;
    out->real = expr->op == ROUND      ? rint(x)
                : expr->op == TRUNCATE ? trunc(x)
                : expr->op == CEILING  ? ceil(x)
                                       : floor(x);
    return GY_OK;
}

/* To `places`, which may be below zero: in units of the type's scale. */
static gy_status round_to(const gy_expr *expr, gy_int128 value, int64_t places,
                          gy_expr_cell *out)
{
    const int from = expr->args[0]->type.scale, to = expr->type.scale;
    const int64_t kept_places = GY_MAX(places, -(int64_t)GY_DECIMAL_DIGITS_MAX - 1);
    const int cut = from - (int)GY_MIN(kept_places, (int64_t)from);
    gy_int128 kept = 0;
    if (cut <= GY_DECIMAL_DIGITS_MAX) {
        const gy_int128 unit = gy_decimal_power(cut);
        const gy_int128 whole = value / unit, rest = value % unit;
        const gy_int128 up = expr->op == ROUND ? (rest >= unit - unit / 2 && rest > 0) -
                                                     (-rest >= unit - unit / 2 && rest < 0)
                             : expr->op == CEILING ? rest > 0
                             : expr->op == FLOOR   ? -(rest < 0)
                                                   : 0;
        if (__builtin_mul_overflow(whole + up, unit, &kept)) {
            return gy_fail(GY_LIMIT, "decimal of 38 digits out of range: %s", expr->name);
        }
    }
    if (!gy_decimal_rescale(kept, from, to, &out->decimal) || !gy_decimal_fits(out->decimal)) {
        return gy_fail(GY_LIMIT, "decimal of 38 digits out of range: %s", expr->name);
    }
    return GY_OK;
}

ROW(round_decimal)
{
    (void)work;
    return round_to(expr, args[0].decimal, expr->count > 1 ? args[1].integer : 0, out);
}

/* ---- of doubles ---- */

enum { SQRT, EXP, LN, LOG10, CBRT };

static gy_status fail_domain(const char *what, double x)
{
    return gy_fail(GY_NUMERIC, "%s: %.17g", what, x);
}

ROW(real_row)
{
    (void)work;
    const double x = args[0].real;
    switch (expr->op) {
    case SQRT:
        if (x < 0) {
            return fail_domain("cannot take square root of a negative number", x);
        }
        out->real = sqrt(x);
        return GY_OK;
    case EXP:
        out->real = exp(x);
        if ((isinf(out->real) && !isinf(x)) || (out->real == 0 && !isinf(x))) {
            return gy_fail(GY_LIMIT, "double out of range: exp(%.17g)", x);
        }
        return GY_OK;
    case CBRT:
        out->real = cbrt(x);
        return GY_OK;
    default:
        if (x <= 0) {
            return fail_domain(x == 0 ? "cannot take logarithm of zero"
                                      : "cannot take logarithm of a negative number",
                               x);
        }
        out->real = expr->op == LN ? log(x) : log10(x);
        return GY_OK;
    }
}

ROW(log_base)
{
    (void)work, (void)expr;
    if (args[0].real <= 0 || args[1].real <= 0) {
        return fail_domain("cannot take logarithm of a negative number or zero",
                           args[0].real <= 0 ? args[0].real : args[1].real);
    }
    if (args[0].real == 1) {
        return gy_fail(GY_NUMERIC, "division by zero: log(1, x)");
    }
    out->real = args[0].real == 2    ? log2(args[1].real)
                : args[0].real == 10 ? log10(args[1].real)
                                     : log(args[1].real) / log(args[0].real);
    return GY_OK;
}

/* ---- types ---- */

static gy_expr_type same_type(const gy_expr *const *args, int count)
{
    (void)count;
    return args[0]->type;
}

static gy_expr_type one_digit(const gy_expr *const *args, int count)
{
    (void)args, (void)count;
    return gy_expr_decimal(1, 0, true);
}

/* As many places as a constant says; else those that there are. */
static gy_expr_type rounded_type(const gy_expr *const *args, int count)
{
    const gy_expr_type *from = &args[0]->type;
    int64_t places = count > 1 ? from->scale : 0;
    if (count > 1 && gy_expr_constant_int64(args[1], &places)) {
        places = GY_MAX(GY_MIN(places, (int64_t)GY_DECIMAL_DIGITS_MAX), (int64_t)0);
    }
    return gy_expr_decimal(from->precision - from->scale + 1 + (int)places, (int)places, true);
}

/* A call takes the first line that all its arguments are of, else the first that they become.
 */
const gy_expr_function gy_expr_math[] = {
    {"abs", "i", INTEGER, abs_row, .op = 0},
    {"abs", "n", DECIMAL, abs_row, .type = same_type},
    {"abs", "d", REAL, abs_row, .op = 0},
    {"sign", "n", DECIMAL, sign_row, .type = one_digit, .is_exact = true},
    {"sign", "d", REAL, sign_row, .op = 0},
    {"round", "n", DECIMAL, round_decimal, .op = ROUND, .type = rounded_type, .is_exact = true},
    {"round", "d", REAL, round_real, .op = ROUND},
    {"round", "ni", DECIMAL, round_decimal, .op = ROUND, .type = rounded_type},
    {"trunc", "n", DECIMAL, round_decimal, .op = TRUNCATE, .type = rounded_type,
     .is_exact = true},
    {"trunc", "d", REAL, round_real, .op = TRUNCATE},
    {"trunc", "ni", DECIMAL, round_decimal, .op = TRUNCATE, .type = rounded_type},
    {"ceil", "n", DECIMAL, round_decimal, .op = CEILING, .type = rounded_type,
     .is_exact = true},
    {"ceil", "d", REAL, round_real, .op = CEILING},
    {"ceiling", "n", DECIMAL, round_decimal, .op = CEILING, .type = rounded_type,
     .is_exact = true},
    {"ceiling", "d", REAL, round_real, .op = CEILING},
    {"floor", "n", DECIMAL, round_decimal, .op = FLOOR, .type = rounded_type, .is_exact = true},
    {"floor", "d", REAL, round_real, .op = FLOOR},
    {"sqrt", "d", REAL, real_row, .op = SQRT},
    {"cbrt", "d", REAL, real_row, .op = CBRT},
    {"exp", "d", REAL, real_row, .op = EXP},
    {"ln", "d", REAL, real_row, .op = LN},
    {"log", "d", REAL, real_row, .op = LOG10},
    {"log10", "d", REAL, real_row, .op = LOG10},
    {"log", "dd", REAL, log_base, .op = 0},
    {NULL, NULL, 0, NULL, .op = 0},
};
