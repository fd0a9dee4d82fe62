/* Casts: between numbers by loops, from and to texts row by row. */
#include "query/expr/expr_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What becomes of a decimal that is too large. */
enum { FAILS, SATURATES };

/* ---- values as texts ---- */

gy_status gy_expr_keep_text(gy_expr_work *work, const char *data, size_t size,
                            gy_text_view *text)
{
    char *copy = gy_expr_text_memory(work, size);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    memcpy(copy, data, size);
    *text = (gy_text_view){copy, size};
    return GY_OK;
}

/* The fewest digits that read to the same number, with an exponent below 1e-4 and from 1e15. */
static size_t write_double(double real, char out[GY_FRAME_VALUE_BYTES])
{
    char digits[40], plain[24] = "";
    if (!isfinite(real)) {
        return gy_print(out, GY_FRAME_VALUE_BYTES, "%s",
                        isnan(real) ? "NaN"
                        : real < 0  ? "-Infinity"
                                    : "Infinity");
    }
    /* below the normal numbers fewer digits may do */
    for (int places = fabs(real) < 0x1p-1022 ? 0 : 14; places <= 16; places++) {
        gy_print(digits, sizeof(digits), "%.*e", places, real);
        if (strtod(digits, NULL) == real) { /* in the locale that printed it */
            break;
        }
    }
    size_t count = 0;
    const char *at = digits + (*digits == '-');
    for (; *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9') {
            plain[count++] = *at;
        }
    }
    const int exponent = (int)strtol(at + 1, NULL, 10);
    while (count > 1 && plain[count - 1] == '0') {
        count--;
    }
    const char *sign = *digits == '-' ? "-" : "";
    if (exponent < -4 || exponent >= 15) {
        return gy_print(out, GY_FRAME_VALUE_BYTES, "%s%c%s%.*se%c%02d", sign, plain[0],
                        count > 1 ? "." : "", (int)count - 1, plain + 1,
                        exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0) {
        return gy_print(out, GY_FRAME_VALUE_BYTES, "%s0.%.*s%.*s", sign, -exponent - 1, "0000",
                        (int)count, plain);
    }
    const int whole = GY_MIN((int)count, exponent + 1);
    return gy_print(out, GY_FRAME_VALUE_BYTES, "%s%.*s%.*s%s%.*s", sign, whole, plain,
                    exponent + 1 - whole, "000000000000000", (int)count > whole ? "." : "",
                    (int)count - whole, plain + whole);
}

gy_status gy_expr_text_of(gy_expr_work *work, const gy_expr_type *type,
                          const gy_expr_cell *cell, gy_text_view *text)
{
    char out[GY_FRAME_VALUE_BYTES + 64];
    size_t size = 0;
    const int of = gy_expr_class(type);
    if (of == GY_FIELD_TEXT) {
        *text = cell->text;
        return GY_OK;
    }
    if (of == GY_FIELD_DOUBLE) {
        size = write_double(cell->real, out);
    } else if (of == GY_FIELD_DECIMAL) {
        size = gy_decimal_write(cell->decimal, type->scale, out);
    } else if (of == GY_EXPR_INTERVAL) {
        size = gy_interval_write(cell->interval, out, sizeof(out));
    } else {
        const gy_field field = {.name = "", .kind = type->kind};
        const int32_t days = (int32_t)cell->integer;
        const uint8_t truth = of == GY_FIELD_BOOL && cell->truth;
        const gy_column column = {.field = &field,
                                  .rows = 1,
                                  .values = of == GY_FIELD_BOOL   ? (const void *)&truth
                                            : of == GY_FIELD_DATE ? (const void *)&days
                                                                  : &cell->integer};
        size = gy_frame_write(&column, 0, out);
    }
    return gy_expr_keep_text(work, out, size, text);
}

/* ---- row by row ---- */

static gy_status row_to_text(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                             gy_expr_cell *out)
{
    GY_TRY(gy_expr_text_of(work, &expr->args[0]->type, &args[0], &out->text));
    const size_t most = (size_t)expr->index; /* characters; 0: any number */
    size_t at = 0;
    for (size_t i = 0; most > 0 && i < most && at < out->text.size_bytes; i++) {
        at += gy_values_step(out->text, at);
    }
    out->text.size_bytes = most > 0 ? at : out->text.size_bytes;
    return GY_OK;
}

static gy_status fail_value(const gy_expr *expr, const gy_expr_cell *cell, const char *what)
{
    char type[48], shown[200];
    gy_printable(shown, sizeof(shown), cell->text.data, cell->text.size_bytes, "");
    return gy_fail(GY_FORMAT, "%s type %s: \"%s\"", what, gy_expr_type_text(&expr->type, type),
                   shown);
}

static gy_status read_decimal(const gy_expr *expr, const gy_expr_cell *arg, gy_expr_cell *out)
{
    int scale = expr->type.scale;
    bool is_number = false;
    gy_int128 value = 0;
    if (!gy_decimal_read(arg->text, &scale, &value, &is_number)) {
        return fail_value(expr, arg,
                          is_number ? "value out of range for" : "invalid input syntax for");
    }
    if (gy_decimal_digits(value) > expr->type.precision && value != 0) {
        return fail_value(expr, arg, "value out of range for");
    }
    out->decimal = value;
    return GY_OK;
}

static bool read_time(int of, gy_text_view text, int64_t *out)
{
    int32_t days = 0;
    int64_t micros = 0;
    if (gy_frame_read_date(text, GY_READING_CAST, &days)) {
        *out = of == GY_FIELD_DATE ? days : days * GY_MICROS_A_DAY;
        return true;
    }
    if (!gy_frame_read_timestamp(text, GY_READING_CAST, &micros)) {
        return false;
    }
    *out = of == GY_FIELD_DATE ? gy_expr_days(micros) : micros;
    return true;
}

static gy_status row_of_text(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                             gy_expr_cell *out)
{
    (void)work;
    const int of = gy_expr_class(&expr->type);
    const gy_text_view text = args[0].text;
    bool is_read = false;
    switch (of) {
    case GY_FIELD_BOOL:
        is_read = gy_frame_read_bool(text, GY_READING_CAST, &out->truth);
        break;
    case GY_FIELD_INT64:
        is_read = gy_frame_read_int64(text, GY_READING_CAST, &out->integer);
        break;
    case GY_FIELD_DOUBLE:
        is_read = gy_frame_read_double(text, GY_READING_CAST, &out->real);
        break;
    case GY_FIELD_DECIMAL:
        return read_decimal(expr, &args[0], out);
    case GY_EXPR_INTERVAL:
        is_read = gy_interval_read(text, expr->index, &out->interval);
        break;
    default:
        is_read = read_time(of, text, &out->integer);
        break;
    }
    return is_read ? GY_OK : fail_value(expr, &args[0], "invalid input syntax for");
}

static gy_status out_of_range(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *arg)
{
    char type[48];
    gy_text_view text;
    GY_TRY(gy_expr_text_of(work, &expr->args[0]->type, arg, &text));
    return gy_fail(GY_LIMIT, "%s out of range: %.*s", gy_expr_type_text(&expr->type, type),
                   (int)text.size_bytes, text.data);
}

static gy_status row_to_int64(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                              gy_expr_cell *out)
{
    gy_int128 whole = 0;
    switch (gy_expr_class(&expr->args[0]->type)) {
    case GY_FIELD_BOOL:
        out->integer = args[0].truth;
        return GY_OK;
    case GY_FIELD_DECIMAL:
        (void)gy_decimal_rescale(args[0].decimal, expr->args[0]->type.scale, 0, &whole);
        if (whole > INT64_MAX || whole < INT64_MIN) {
            return out_of_range(work, expr, &args[0]);
        }
        out->integer = (int64_t)whole;
        return GY_OK;
    default: {
        const double rounded = rint(args[0].real);
        if (!(rounded >= -0x1p63 && rounded < 0x1p63)) {
            return out_of_range(work, expr, &args[0]);
        }
        out->integer = (int64_t)rounded;
        return GY_OK;
    }
    }
}

/* From int64, double and decimal. */
static gy_status row_to_decimal(gy_expr_work *work, const gy_expr *expr,
                                const gy_expr_cell *args, gy_expr_cell *out)
{
    const gy_expr_type *from = &expr->args[0]->type;
    const bool is_double = from->kind == GY_FIELD_DOUBLE;
    gy_int128 made = 0;
    const gy_int128 value = from->kind == GY_FIELD_INT64 ? args[0].integer : args[0].decimal;
    const bool is_made =
        is_double ? gy_decimal_of_double(args[0].real, expr->type.scale, &made)
                  : gy_decimal_rescale(value, from->kind == GY_FIELD_INT64 ? 0 : from->scale,
                                       expr->type.scale, &made);
    const gy_int128 limit = expr->type.precision < GY_DECIMAL_DIGITS_MAX
                                ? gy_decimal_power(expr->type.precision)
                                : 0;
    if (!is_made || (limit != 0 && (made >= limit || made <= -limit))) {
        if (expr->op == SATURATES) {
            const gy_int128 half = (gy_int128)1 << 126, most = half - 1 + half;
            out->decimal = value < 0 ? -most : most;
            return GY_OK;
        }
        return out_of_range(work, expr, &args[0]);
    }
    out->decimal = made;
    return GY_OK;
}

static gy_status row_to_bool(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                             gy_expr_cell *out)
{
    (void)work;
    (void)expr;
    out->truth = args[0].integer != 0;
    return GY_OK;
}

static gy_status row_same(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                          gy_expr_cell *out)
{
    (void)work;
    (void)expr;
    *out = args[0];
    return GY_OK;
}

/* ---- by loops, where no row can fail ---- */

#define LOOP(from, to, value)                                                                  \
    {                                                                                          \
        to *made = values;                                                                     \
        for (int i = 0; i < work->rows; i++) {                                                 \
            const __typeof__(arg.from[0]) a = arg.from[i];                                     \
            made[i] = (value);                                                                 \
        }                                                                                      \
    }

/* What stands in rows that are not asked for may overflow. */
static gy_int128 multiply(gy_int128 a, gy_int128 unit)
{
    gy_int128 made = 0;
    (void)__builtin_mul_overflow(a, unit, &made);
    return made;
}

static gy_status run_loop(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                          gy_expr_vector *out)
{
    const gy_expr_type *from = &expr->args[0]->type;
    gy_expr_vector arg;
    void *values = gy_expr_values(work, gy_expr_class(&expr->type));
    if (values == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_expr_eval_args(work, expr, mask, &arg, out));
    if (expr->type.kind == GY_FIELD_DOUBLE && from->kind == GY_FIELD_INT64) {
        LOOP(integers, double, (double)a)
    } else if (expr->type.kind == GY_FIELD_DOUBLE) {
        LOOP(decimals, double, gy_decimal_to_double(a, from->scale))
    } else if (expr->type.kind == GY_FIELD_DECIMAL && from->kind == GY_FIELD_INT64) {
        const int64_t unit = (int64_t)gy_decimal_power(expr->type.scale);
        LOOP(integers, gy_int128, (gy_int128)a * unit)
    } else if (expr->type.kind == GY_FIELD_DECIMAL) {
        const gy_int128 unit = gy_decimal_power(expr->type.scale - from->scale);
        LOOP(decimals, gy_int128, multiply(a, unit))
    } else if (expr->type.kind == GY_FIELD_TIMESTAMP) {
        LOOP(dates, int64_t, a * GY_MICROS_A_DAY)
    } else {
        LOOP(integers, int32_t, (int32_t)gy_expr_days(a))
    }
    out->any = values;
    return GY_OK;
}

/* Whether a decimal of that type has room for all of the other's values. */
static bool has_room(const gy_expr_type *from, const gy_expr_type *to)
{
    const int scale = from->kind == GY_FIELD_INT64 ? 0 : from->scale;
    const int whole = from->kind == GY_FIELD_INT64 ? 19 : from->precision - from->scale;
    return to->scale >= scale && to->precision - to->scale >= whole &&
           (from->kind != GY_FIELD_INT64 || to->scale <= 18);
}

/* The kernel of a cast; NULL in both: there is none. */
static void choose(const gy_expr *arg, const gy_expr_type *to, gy_expr_spec *spec)
{
    const int a = gy_expr_class(&arg->type), b = gy_expr_class(to);
    const bool is_number = gy_expr_is_number(&arg->type);
    if (b == GY_FIELD_TEXT) {
        spec->row = row_to_text;
    } else if (a == GY_FIELD_TEXT) {
        spec->row = row_of_text;
    } else if (b == GY_FIELD_DOUBLE && is_number) {
        spec->run = a != GY_FIELD_DOUBLE ? run_loop : NULL;
        spec->row = row_same;
    } else if (b == GY_FIELD_DECIMAL && is_number) {
        spec->run = a != GY_FIELD_DOUBLE && has_room(&arg->type, to) ? run_loop : NULL;
        spec->row = row_to_decimal;
    } else if (b == GY_FIELD_INT64 && (is_number || a == GY_FIELD_BOOL)) {
        spec->row = row_to_int64;
    } else if (b == GY_FIELD_BOOL && a == GY_FIELD_INT64) {
        spec->row = row_to_bool;
    } else if ((a == GY_FIELD_DATE && b == GY_FIELD_TIMESTAMP) ||
               (a == GY_FIELD_TIMESTAMP && b == GY_FIELD_DATE)) {
        spec->run = run_loop;
        spec->row = row_same;
    } else if (a == b) {
        spec->row = row_same;
    }
}

static bool is_same(const gy_expr_type *a, const gy_expr_type *b)
{
    return gy_expr_class(a) == gy_expr_class(b) &&
           (gy_expr_class(a) != GY_FIELD_DECIMAL ||
            (a->precision == b->precision && a->scale == b->scale));
}

/* A literal that stands for a value of the type: what is wrong with it is said now. */
static gy_status judge_literal(gy_expr_binder *in, const gy_expr *arg, const gy_expr *made)
{
    gy_expr_cell cell;
    if (made->is_constant || !arg->is_constant || !arg->type.is_unknown) {
        return GY_OK;
    }
    const gy_status status = gy_expr_value(made, in->scope->arena, &cell);
    GY_ASSERT(status < 0);
    char said[GY_ERROR_TEXT_BYTES / 4];
    gy_print(said, sizeof(said), "%s", gy_error_text());
    return gy_sql_refuse(in->scope->source, arg->place, status, "%s", said);
}

/* `index`: characters of a text, parts of an interval. */
typedef struct cast {
    gy_expr_type type;
    int how, index;
} cast;

static gy_status cast_with(gy_expr_binder *in, uint32_t place, const gy_expr *arg,
                           const cast *to, const gy_expr **out)
{
    const gy_expr_type *type = &to->type;
    const int index = to->index;
    char from[48], into[48];
    gy_expr_spec spec = {.type = *type,
                         .count = 1,
                         .op = to->how,
                         .index = index,
                         .name = "cast",
                         .place = place};
    spec.type.is_nullable = arg->type.is_nullable;
    spec.type.is_unknown = false;
    if (is_same(&arg->type, type) && index == 0) {
        if (!arg->type.is_unknown) {
            *out = arg;
            return GY_OK;
        }
        return gy_expr_constant(in, arg->place, spec.type, arg->cell, out);
    }
    choose(arg, type, &spec);
    if (gy_expr_is_null(arg) && arg->type.is_unknown) {
        return gy_expr_constant(in, arg->place, spec.type, arg->cell, out);
    }
    if (spec.run == NULL && spec.row == NULL) {
        return gy_sql_refuse(in->scope->source, place, GY_TYPE, "cannot cast type %s to %s",
                             gy_expr_type_text(&arg->type, from),
                             gy_expr_type_text(type, into));
    }
    spec.args = gy_expr_pair(in, arg, NULL);
    if (spec.args == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_expr_make(in, &spec, out));
    return judge_literal(in, arg, *out);
}

gy_status gy_expr_cast_to(gy_expr_binder *in, uint32_t place, const gy_expr *arg,
                          const gy_expr_type *type, const gy_expr **out)
{
    return cast_with(in, place, arg, &(cast){.type = *type, .how = FAILS}, out);
}

gy_status gy_expr_output(gy_expr_binder *in, const gy_expr **arg)
{
    const cast to = {.type = gy_expr_simple(GY_FIELD_TEXT, true),
                     .how = FAILS,
                     .index = gy_expr_class(&(*arg)->type) == GY_FIELD_BOOL ? 1 : 0};
    return cast_with(in, (*arg)->place, *arg, &to, arg);
}

static gy_status rescale(gy_expr_binder *in, const gy_expr **arg, int scale, int how)
{
    const gy_expr_type *from = &(*arg)->type;
    GY_ASSERT(from->kind == GY_FIELD_DECIMAL && from->scale <= scale);
    const gy_expr_type type =
        gy_expr_decimal(from->precision - from->scale + scale, scale, from->is_nullable);
    return cast_with(in, (*arg)->place, *arg, &(cast){.type = type, .how = how}, arg);
}

gy_status gy_expr_rescale(gy_expr_binder *in, const gy_expr **arg, int scale)
{
    return rescale(in, arg, scale, SATURATES);
}

gy_status gy_expr_rescale_checked(gy_expr_binder *in, const gy_expr **arg, int scale)
{
    return rescale(in, arg, scale, FAILS);
}

/* ---- cast(x as t) ---- */

static gy_status fail_modifier(gy_expr_binder *in, const gy_sql_node *node)
{
    return gy_sql_refuse(in->scope->source, node->place, GY_FORMAT,
                         "type %s(%d): expected at most 38 digits, and a scale from 0 to them",
                         node->text, (int)node->modifiers[0]);
}

/* The type that a cast names; *index as of cast_with. */
static gy_status named_type(gy_expr_binder *in, const gy_sql_node *node, const gy_expr *arg,
                            gy_expr_type *type, int *index)
{
    static const struct {
        const char *name;
        int value_class;
    } names[] = {
        {"bool", GY_FIELD_BOOL},
        {"int2", GY_FIELD_INT64},
        {"int4", GY_FIELD_INT64},
        {"int8", GY_FIELD_INT64},
        {"int64", GY_FIELD_INT64},
        {"float4", GY_FIELD_DOUBLE},
        {"float8", GY_FIELD_DOUBLE},
        {"double", GY_FIELD_DOUBLE},
        {"numeric", GY_FIELD_DECIMAL},
        {"decimal", GY_FIELD_DECIMAL},
        {"date", GY_FIELD_DATE},
        {"timestamp", GY_FIELD_TIMESTAMP},
        {"timestamptz", GY_FIELD_TIMESTAMP},
        {"text", GY_FIELD_TEXT},
        {"varchar", GY_FIELD_TEXT},
        {"bpchar", GY_FIELD_TEXT},
        {"interval", GY_EXPR_INTERVAL},
    };
    size_t i = 0;
    while (i < GY_COUNT(names) && strcmp(names[i].name, node->text) != 0) {
        i++;
    }
    if (i == GY_COUNT(names)) {
        return gy_sql_refuse(in->scope->source, node->place, GY_UNSUPPORTED,
                             "not supported: type %s (bool, int, double, decimal(p, s), date, "
                             "timestamp, text, interval)",
                             node->text);
    }
    const int of = names[i].value_class;
    if ((of == GY_FIELD_TIMESTAMP && node->modifier_count > 0) ||
        (of == GY_EXPR_INTERVAL && node->modifier_count > 1)) {
        return gy_sql_refuse(in->scope->source, node->place, GY_UNSUPPORTED,
                             "not supported: %s of fewer digits of a second (use date_trunc)",
                             node->text);
    }
    *index = of == GY_FIELD_TEXT || of == GY_EXPR_INTERVAL
                 ? (node->modifier_count > 0 ? node->modifiers[0] : 0)
                 : 0;
    if (of != GY_FIELD_DECIMAL) {
        *type = gy_expr_simple(of, true);
        return GY_OK;
    }
    if (node->modifier_count > 0) {
        const int precision = node->modifiers[0];
        const int scale = node->modifier_count > 1 ? node->modifiers[1] : 0;
        if (precision < 1 || precision > GY_DECIMAL_DIGITS_MAX || scale < 0 ||
            scale > precision) {
            return fail_modifier(in, node);
        }
        *type = gy_expr_decimal(precision, scale, true);
        return GY_OK;
    }
    *type = gy_expr_natural_decimal(arg);
    return GY_OK;
}

gy_status gy_expr_bind_cast(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    const gy_expr *arg = NULL;
    gy_expr_type type = {.is_nullable = true};
    int index = 0;
    GY_TRY(gy_expr_bind_node(in, node->items[0], &arg));
    GY_TRY(named_type(in, node, arg, &type, &index));
    return cast_with(in, node->place, arg, &(cast){type, FAILS, index}, out);
}
