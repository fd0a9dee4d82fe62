/* Arithmetic of int64, double and decimal. A kernel computes all rows and notes whether one
 * failed; only then it looks which of those that are asked for did. */
#include "query/expr/expr_priv.h"

#include <math.h>
#include <string.h>

enum {
    PLACES = 16,      /* of a quotient, at least */
    SCALE_MAX = 32,   /* of a product whose factors do not have as many */
    PRODUCT_FAST = 18 /* digits of factors whose product is one instruction */
};

typedef enum operation { ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO, POWER, OPERATIONS } operation;

static const char *const signs[OPERATIONS] = {"+", "-", "*", "/", "%", "^"};

/* ---- failures ---- */

static gy_status fail_zero(const gy_expr *expr, const char *left)
{
    return gy_fail(GY_NUMERIC, "division by zero: %s %s 0", left, expr->name);
}

/* The operation of one row failed: say which. */
static gy_status fail_row(gy_expr_work *work, const gy_expr *expr, const gy_expr_vector *args,
                          int row)
{
    gy_text_view texts[2] = {{.data = ""}, {.data = ""}};
    char left[GY_FRAME_VALUE_BYTES], type[48];
    for (int i = 0; i < expr->count; i++) {
        const int of = gy_expr_class(&expr->args[i]->type);
        const gy_expr_cell cell = gy_expr_cell_at(of, &args[i], row);
        GY_TRY(gy_expr_text_of(work, &expr->args[i]->type, &cell, &texts[i]));
    }
    gy_print(left, sizeof(left), "%.*s", (int)texts[0].size_bytes, texts[0].data);
    const gy_expr_cell last = gy_expr_cell_at(gy_expr_class(&expr->args[expr->count - 1]->type),
                                              &args[expr->count - 1], row);
    const int of = gy_expr_class(&expr->args[0]->type);
    const bool is_zero = of == GY_FIELD_INT64     ? last.integer == 0
                         : of == GY_FIELD_DECIMAL ? last.decimal == 0
                                                  : last.real == 0;
    if (is_zero && (expr->op == DIVIDE || expr->op == MODULO)) {
        return fail_zero(expr, left);
    }
    if (expr->count == 1) {
        return gy_fail(GY_LIMIT, "%s out of range: %s%s", gy_expr_type_text(&expr->type, type),
                       expr->name, left);
    }
    return gy_fail(GY_LIMIT, "%s out of range: %s %s %.*s",
                   expr->type.kind == GY_FIELD_DECIMAL ? "decimal of 38 digits"
                                                       : gy_expr_type_text(&expr->type, type),
                   left, expr->name, (int)texts[1].size_bytes, texts[1].data);
}

/* ---- one row ---- */

static bool do_integer(int op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case ADD:
        return !__builtin_add_overflow(a, b, out);
    case SUBTRACT:
        return !__builtin_sub_overflow(a, b, out);
    case MULTIPLY:
        return !__builtin_mul_overflow(a, b, out);
    case DIVIDE:
        if (b == 0 || (a == INT64_MIN && b == -1)) {
            return false;
        }
        *out = a / b;
        return true;
    default:
        if (b == 0) {
            return false;
        }
        *out = b == -1 ? 0 : a % b;
        return true;
    }
}

/* PostgreSQL's: a result that is infinite or zero though no side was is an error. */
static bool do_real(int op, double a, double b, double *out)
{
    switch (op) {
    case ADD:
        *out = a + b;
        break;
    case SUBTRACT:
        *out = a - b;
        break;
    case MULTIPLY:
        *out = a * b;
        return (!isinf(*out) || isinf(a) || isinf(b)) && (*out != 0 || a == 0 || b == 0);
    case DIVIDE:
        if (b == 0 && !isnan(a)) {
            return false;
        }
        *out = a / b;
        return (!isinf(*out) || isinf(a)) && (*out != 0 || a == 0 || isinf(b));
    default:
        *out = pow(a, b);
        return (!isnan(*out) || isnan(a) || isnan(b)) && !(a == 0 && b < 0) &&
               (!isinf(*out) || isinf(a) || isinf(b)) &&
               (*out != 0 || a == 0 || isinf(a) || isinf(b));
    }
    return !isinf(*out) || isinf(a) || isinf(b);
}

/* Of one scale but for products, which drop `drop` places, and quotients, which get `drop`. */
static bool do_decimal(int op, gy_int128 a, gy_int128 b, int drop, gy_int128 *out)
{
    switch (op) {
    case ADD:
        return !__builtin_add_overflow(a, b, out) && gy_decimal_fits(*out);
    case SUBTRACT:
        return !__builtin_sub_overflow(a, b, out) && gy_decimal_fits(*out);
    case MULTIPLY:
        return gy_decimal_multiply(a, b, drop, out);
    case DIVIDE:
        return b != 0 && gy_decimal_divide(a, b, drop, out);
    default:
        if (b == 0) {
            return false;
        }
        *out = a % b;
        return true;
    }
}

/* ---- kernels ---- */

/* `body` with a and b of each row. */
#define EACH(type, member, body)                                                               \
    if (args[1].is_constant) {                                                                 \
        const type b = args[1].member[0];                                                      \
        for (int i = 0; i < rows; i++) {                                                       \
            const type a = args[0].member[i];                                                  \
            body                                                                               \
        }                                                                                      \
    } else if (args[0].is_constant) {                                                          \
        const type a = args[0].member[0];                                                      \
        for (int i = 0; i < rows; i++) {                                                       \
            const type b = args[1].member[i];                                                  \
            body                                                                               \
        }                                                                                      \
    } else {                                                                                   \
        for (int i = 0; i < rows; i++) {                                                       \
            const type a = args[0].member[i], b = args[1].member[i];                           \
            body                                                                               \
        }                                                                                      \
    }

/* A loop an operation, so that its test stands outside. */
#define EACH_OPERATION(type, member, result, compute)                                          \
    switch (expr->op) {                                                                        \
    case ADD:                                                                                  \
        EACH(type, member, failed |= !compute(ADD, a, b, &(result)[i]);)                       \
        break;                                                                                 \
    case SUBTRACT:                                                                             \
        EACH(type, member, failed |= !compute(SUBTRACT, a, b, &(result)[i]);)                  \
        break;                                                                                 \
    case MULTIPLY:                                                                             \
        EACH(type, member, failed |= !compute(MULTIPLY, a, b, &(result)[i]);)                  \
        break;                                                                                 \
    default:                                                                                   \
        EACH(type, member, failed |= !compute(expr->op, a, b, &(result)[i]);)                  \
        break;                                                                                 \
    }

static bool compute_integers(const gy_expr *expr, const gy_expr_vector *args, int rows,
                             int64_t *out)
{
    bool failed = false;
    EACH_OPERATION(int64_t, integers, out, do_integer)
    return !failed;
}

static bool compute_reals(const gy_expr *expr, const gy_expr_vector *args, int rows,
                          double *out)
{
    bool failed = false;
    EACH_OPERATION(double, reals, out, do_real)
    return !failed;
}

/* Whether no row can fail, by the digits of the types alone. */
static bool is_safe(const gy_expr *expr)
{
    const gy_expr_type *a = &expr->args[0]->type, *b = &expr->args[1]->type;
    return expr->op == MULTIPLY
               ? a->precision <= PRODUCT_FAST && b->precision <= PRODUCT_FAST
               : a->precision < GY_DECIMAL_DIGITS_MAX && b->precision < GY_DECIMAL_DIGITS_MAX;
}

static bool compute_decimals(const gy_expr *expr, const gy_expr_vector *args, int rows,
                             gy_int128 *out)
{
    bool failed = false;
    const int drop = expr->index;
    if (expr->op == MULTIPLY && drop == 0 && is_safe(expr)) {
        EACH(gy_int128, decimals, out[i] = (gy_int128)(int64_t)a * (int64_t)b;)
    } else if (expr->op == ADD && is_safe(expr)) {
        EACH(gy_int128, decimals, (void)__builtin_add_overflow(a, b, &out[i]);)
    } else if (expr->op == SUBTRACT && is_safe(expr)) {
        EACH(gy_int128, decimals, (void)__builtin_sub_overflow(a, b, &out[i]);)
    } else {
        EACH(gy_int128, decimals, failed |= !do_decimal(expr->op, a, b, drop, &out[i]);)
    }
    return !failed;
}

static bool compute(const gy_expr *expr, const gy_expr_vector *args, int rows, void *out)
{
    switch ((int)expr->type.kind) {
    case GY_FIELD_INT64:
        return compute_integers(expr, args, rows, out);
    case GY_FIELD_DOUBLE:
        return compute_reals(expr, args, rows, out);
    default:
        return compute_decimals(expr, args, rows, out);
    }
}

/* Whether a row of the kernel fails. */
static bool row_fails(const gy_expr *expr, const gy_expr_vector *args, int row)
{
    union {
        int64_t integer;
        double real;
        gy_int128 decimal;
    } made;
    const int of = gy_expr_class(&expr->type);
    const gy_expr_cell a = gy_expr_cell_at(of, &args[0], row);
    const gy_expr_cell b = gy_expr_cell_at(of, &args[1], row);
    if (of == GY_FIELD_INT64) {
        return !do_integer(expr->op, a.integer, b.integer, &made.integer);
    }
    if (of == GY_FIELD_DOUBLE) {
        return !do_real(expr->op, a.real, b.real, &made.real);
    }
    return !do_decimal(expr->op, a.decimal, b.decimal, expr->index, &made.decimal);
}

static gy_status run_arithmetic(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                                gy_expr_vector *out)
{
    const int of = gy_expr_class(&expr->type);
    gy_expr_vector args[2];
    void *values = gy_expr_values(work, of);
    if (values == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < 2; i++) {
        GY_TRY(gy_expr_eval(work, expr->args[i], mask, &args[i]));
        if ((i == 1 && args[0].is_constant) || (args[i].is_constant && args[i].valid != NULL)) {
            GY_TRY(gy_expr_spread(work, of, &args[i]));
        }
        if (!args[i].is_constant) {
            GY_TRY(gy_expr_both(work, out->valid, args[i].valid, &out->valid));
        }
    }
    if (!compute(expr, args, work->rows, values)) {
        for (int row = 0; row < work->rows; row++) {
            if (gy_expr_bit(mask, row) && gy_expr_bit(out->valid, row) &&
                row_fails(expr, args, row)) {
                return fail_row(work, expr, args, row);
            }
        }
    }
    out->any = values;
    return GY_OK;
}

/* ---- minus ---- */

static gy_status negate_row(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                            gy_expr_cell *out)
{
    (void)work;
    switch (gy_expr_class(&expr->type)) {
    case GY_FIELD_DOUBLE:
        out->real = -args[0].real;
        return GY_OK;
    case GY_FIELD_DECIMAL:
        out->decimal = -args[0].decimal;
        return GY_OK;
    case GY_EXPR_INTERVAL:
        if (args[0].interval.months == INT32_MIN || args[0].interval.days == INT32_MIN ||
            args[0].interval.micros == INT64_MIN) {
            return gy_fail(GY_LIMIT, "interval out of range: its contrary");
        }
        out->interval = (gy_interval){-args[0].interval.months, -args[0].interval.days,
                                      -args[0].interval.micros};
        return GY_OK;
    default:
        if (args[0].integer == INT64_MIN) {
            return gy_fail(GY_LIMIT, "int64 out of range: -(%lld)", (long long)args[0].integer);
        }
        out->integer = -args[0].integer;
        return GY_OK;
    }
}

static gy_status bind_sign(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **args,
                           const gy_expr **out)
{
    if (args[0]->type.is_unknown) {
        GY_TRY(gy_expr_to_class(in, &args[0], GY_FIELD_DOUBLE));
    }
    if (!gy_expr_is_number(&args[0]->type) &&
        !(args[0]->type.is_interval && node->text[0] == '-')) {
        return gy_expr_no_operator(in, node->place, node->text, args, 1);
    }
    if (node->text[0] == '+') {
        *out = args[0];
        return GY_OK;
    }
    const gy_expr_spec spec = {.row = negate_row,
                               .type = args[0]->type,
                               .args = args,
                               .count = 1,
                               .name = "-",
                               .place = node->place};
    return gy_expr_make(in, &spec, out);
}

/* ---- binding ---- */

/* The type of a decimal operation; *drop is what its kernel has beside. */
static gy_expr_type decimal_type(int op, const gy_expr_type *a, const gy_expr_type *b,
                                 int *drop)
{
    const bool is_nullable = a->is_nullable || b->is_nullable;
    const int whole_a = a->precision - a->scale, whole_b = b->precision - b->scale;
    const int larger = GY_MAX(a->scale, b->scale);
    int scale = larger;
    *drop = 0;
    switch (op) {
    case MULTIPLY:
        scale = GY_MIN(a->scale + b->scale, GY_MAX(larger, (int)SCALE_MAX));
        *drop = a->scale + b->scale - scale;
        return gy_expr_decimal(whole_a + whole_b + scale, scale, is_nullable);
    case DIVIDE:
        scale = GY_MAX(larger, (int)PLACES);
        *drop = scale + b->scale - a->scale;
        return gy_expr_decimal(GY_DECIMAL_DIGITS_MAX, scale, is_nullable);
    case MODULO:
        return gy_expr_decimal(GY_MAX(whole_a, whole_b) + scale, scale, is_nullable);
    default:
        return gy_expr_decimal(GY_MAX(whole_a, whole_b) + 1 + scale, scale, is_nullable);
    }
}

/* Both sides of the class in which they are computed. */
static gy_status make_numbers(gy_expr_binder *in, int op, const gy_expr **args, bool *is_there)
{
    gy_expr_type common = {.is_nullable = true};
    *is_there = gy_expr_type_common(&args[0]->type, &args[1]->type, &common) &&
                gy_expr_is_number(&common);
    if (!*is_there) {
        return GY_OK;
    }
    const int of = op == POWER ? (int)GY_FIELD_DOUBLE : gy_expr_class(&common);
    GY_TRY(gy_expr_to_class(in, &args[0], of));
    return gy_expr_to_class(in, &args[1], of);
}

gy_status gy_expr_arithmetic(gy_expr_binder *in, uint32_t place, const char *name,
                             const gy_expr *left, const gy_expr *right, const gy_expr **out)
{
    int op = 0, drop = 0;
    while (op < OPERATIONS && strcmp(signs[op], name) != 0) {
        op++;
    }
    GY_ASSERT(op < OPERATIONS);
    const gy_expr **args = gy_expr_pair(in, left, right);
    bool is_there = false;
    if (args == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(make_numbers(in, op, args, &is_there));
    if (!is_there || (op == MODULO && args[0]->type.kind == GY_FIELD_DOUBLE)) {
        return gy_expr_no_operator(in, place, name, args, 2);
    }
    const bool is_nullable = left->type.is_nullable || right->type.is_nullable;
    gy_expr_type type = gy_expr_simple((int)args[0]->type.kind, is_nullable);
    if (type.kind == GY_FIELD_DECIMAL) {
        type = decimal_type(op, &args[0]->type, &args[1]->type, &drop);
        if (op != MULTIPLY && op != DIVIDE) {
            GY_TRY(gy_expr_rescale_checked(in, &args[0], type.scale));
            GY_TRY(gy_expr_rescale_checked(in, &args[1], type.scale));
        }
    }
    const gy_expr_spec spec = {.run = run_arithmetic,
                               .type = type,
                               .args = args,
                               .count = 2,
                               .op = op,
                               .index = drop,
                               .name = signs[op],
                               .place = place};
    return gy_expr_make(in, &spec, out);
}

static int comparison_of(const char *name)
{
    static const char *const names[] = {"=", "<>", "<", "<=", ">", ">="};
    for (int i = 0; i < (int)GY_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return strcmp(name, "!=") == 0 ? (int)GY_EXPR_UNEQUAL : -1;
}

gy_status gy_expr_bind_operation(gy_expr_binder *in, const gy_sql_node *node,
                                 const gy_expr **out)
{
    const gy_expr **args = NULL;
    const char *name = node->text;
    bool is_done = false;
    GY_ASSERT(node->count == 1 || node->count == 2);
    GY_TRY(gy_expr_bind_items(in, node, &args));
    if (node->count == 1 && (strcmp(name, "-") == 0 || strcmp(name, "+") == 0)) {
        return bind_sign(in, node, args, out);
    }
    if (node->count == 2 && comparison_of(name) >= 0) {
        return gy_expr_compare(in, node->place, (gy_expr_comparison)comparison_of(name),
                               args[0], args[1], out);
    }
    if (node->count == 2) {
        GY_TRY(gy_expr_text_operation(in, node, args, &is_done, out));
        if (!is_done) {
            GY_TRY(gy_expr_match_operation(in, node, args, &is_done, out));
        }
        if (!is_done) {
            GY_TRY(gy_expr_time_operation(in, node, args, &is_done, out));
        }
        if (is_done) {
            return GY_OK;
        }
        for (int op = 0; op < OPERATIONS; op++) {
            if (strcmp(signs[op], name) == 0) {
                return gy_expr_arithmetic(in, node->place, name, args[0], args[1], out);
            }
        }
    }
    return gy_expr_no_operator(in, node->place, name, args, (int)node->count);
}
