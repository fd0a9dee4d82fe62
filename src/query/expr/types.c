/* Types of expressions: which stand for each other, and what a tree says of itself. */
#include "query/expr/expr_priv.h"

#include <string.h>

enum {
    INTEGER_DIGITS = 19, /* of an int64 */
    PLACES = 16          /* of a decimal that does not say how many it has */
};

gy_expr_type gy_expr_simple(int value_class, bool is_nullable)
{
    gy_expr_type type = {.is_nullable = is_nullable};
    type.is_interval = value_class == GY_EXPR_INTERVAL;
    type.kind = type.is_interval ? GY_FIELD_TEXT : (gy_field_kind)value_class;
    return type;
}

gy_expr_type gy_expr_decimal(int precision, int scale, bool is_nullable)
{
    GY_ASSERT(scale >= 0 && scale <= GY_DECIMAL_DIGITS_MAX);
    return (gy_expr_type){
        .kind = GY_FIELD_DECIMAL,
        .precision = GY_MAX(GY_MAX(GY_MIN(precision, (int)GY_DECIMAL_DIGITS_MAX), scale), 1),
        .scale = scale,
        .is_nullable = is_nullable};
}

bool gy_expr_is_number(const gy_expr_type *type)
{
    const int of = gy_expr_class(type);
    return !type->is_unknown &&
           (of == GY_FIELD_INT64 || of == GY_FIELD_DECIMAL || of == GY_FIELD_DOUBLE);
}

const gy_expr_type *gy_expr_type_of(const gy_expr *expr)
{
    return &expr->type;
}

const char *gy_expr_type_text(const gy_expr_type *type, char out[48])
{
    if (type->is_unknown || type->is_interval) {
        gy_print(out, 48, "%s", type->is_unknown ? "unknown" : "interval");
    } else if (type->kind == GY_FIELD_DECIMAL) {
        gy_print(out, 48, "decimal(%d, %d)", type->precision, type->scale);
    } else {
        gy_print(out, 48, "%s", gy_field_kind_name(type->kind));
    }
    return out;
}

bool gy_expr_is_implicit(const gy_expr_type *from, int value_class)
{
    const int of = gy_expr_class(from);
    return from->is_unknown || of == value_class ||
           (of == GY_FIELD_INT64 &&
            (value_class == GY_FIELD_DECIMAL || value_class == GY_FIELD_DOUBLE)) ||
           (of == GY_FIELD_DECIMAL && value_class == GY_FIELD_DOUBLE) ||
           (of == GY_FIELD_DATE && value_class == GY_FIELD_TIMESTAMP);
}

/* A number's digits before the point. */
static int whole_digits(const gy_expr_type *type)
{
    return type->kind == GY_FIELD_DECIMAL ? type->precision - type->scale : INTEGER_DIGITS;
}

bool gy_expr_type_common(const gy_expr_type *left, const gy_expr_type *right,
                         gy_expr_type *type)
{
    const bool is_nullable = left->is_nullable || right->is_nullable;
    if (left->is_unknown || right->is_unknown) {
        *type = left->is_unknown ? *right : *left;
        type->is_nullable = is_nullable;
        return true;
    }
    const int a = gy_expr_class(left), b = gy_expr_class(right);
    const int wider = gy_expr_is_implicit(left, b) ? b : a;
    if (!gy_expr_is_implicit(left, wider) || !gy_expr_is_implicit(right, wider)) {
        return false;
    }
    if (wider == GY_FIELD_DECIMAL) {
        const int scale = GY_MAX(left->scale, right->scale);
        const int whole = GY_MAX(whole_digits(left), whole_digits(right));
        *type = gy_expr_decimal(whole + scale, scale, is_nullable);
    } else {
        *type = gy_expr_simple(wider, is_nullable);
    }
    return true;
}

gy_status gy_expr_to_type(gy_expr_binder *in, const gy_expr **arg, const gy_expr_type *type)
{
    gy_expr_type wanted = *type;
    wanted.is_nullable = (*arg)->type.is_nullable;
    GY_ASSERT(gy_expr_is_implicit(&(*arg)->type, gy_expr_class(type)));
    return gy_expr_cast_to(in, (*arg)->place, *arg, &wanted, arg);
}

/* Of a literal the digits that it has. */
static gy_expr_type type_for(const gy_expr *arg, int value_class)
{
    if (value_class != GY_FIELD_DECIMAL) {
        return gy_expr_simple(value_class, arg->type.is_nullable);
    }
    if (gy_expr_class(&arg->type) == GY_FIELD_DECIMAL) {
        return arg->type;
    }
    int precision = INTEGER_DIGITS, scale = 0;
    if (arg->is_constant && !arg->cell.is_null) {
        bool is_number = false;
        gy_int128 value = 0;
        if (arg->type.kind == GY_FIELD_TEXT) {
            scale = -1;
            if (!gy_decimal_read(arg->cell.text, &scale, &value, &is_number)) {
                scale = GY_MAX(scale, 0);
            }
        } else if (arg->type.kind == GY_FIELD_INT64) {
            value = arg->cell.integer;
        }
        precision = GY_MAX(gy_decimal_digits(value), scale);
    }
    return gy_expr_decimal(precision, GY_MIN(scale, (int)GY_DECIMAL_DIGITS_MAX),
                           arg->type.is_nullable);
}

gy_expr_type gy_expr_natural_decimal(const gy_expr *arg)
{
    const int of = gy_expr_class(&arg->type);
    gy_expr_cell cell = arg->cell;
    if (arg->is_constant && of == GY_FIELD_DOUBLE && !cell.is_null) { /* its 15 digits */
        for (int scale = 0; scale <= GY_DECIMAL_DIGITS_MAX; scale++) {
            gy_int128 value = 0;
            if (gy_decimal_of_double(cell.real, scale, &value) &&
                gy_decimal_to_double(value, scale) == cell.real) {
                return gy_expr_decimal(gy_decimal_digits(value), scale, false);
            }
        }
    }
    if (of == GY_FIELD_DOUBLE || (of == GY_FIELD_TEXT && !arg->is_constant)) {
        return gy_expr_decimal(GY_DECIMAL_DIGITS_MAX, PLACES, arg->type.is_nullable);
    }
    return type_for(arg, GY_FIELD_DECIMAL);
}

gy_status gy_expr_to_class(gy_expr_binder *in, const gy_expr **arg, int value_class)
{
    if (!(*arg)->type.is_unknown && gy_expr_class(&(*arg)->type) == value_class) {
        return GY_OK;
    }
    const gy_expr_type type = type_for(*arg, value_class);
    return gy_expr_to_type(in, arg, &type);
}

gy_status gy_expr_unify(gy_expr_binder *in, uint32_t place, const char *what,
                        const gy_expr **args, int count, gy_expr_type *type)
{
    char left[48], right[48];
    gy_expr_type common = args[0]->type;
    for (int i = 1; i < count; i++) {
        const gy_expr_type before = common;
        if (!gy_expr_type_common(&before, &args[i]->type, &common)) {
            return gy_sql_refuse(
                in->scope->source, place, GY_TYPE, "%s types %s and %s cannot be matched", what,
                gy_expr_type_text(&before, left), gy_expr_type_text(&args[i]->type, right));
        }
    }
    if (common.is_unknown) {
        common = gy_expr_simple(GY_FIELD_TEXT, common.is_nullable);
    }
    if (common.kind == GY_FIELD_DECIMAL && !common.is_interval) { /* literals have their own */
        int scale = 0, whole = 0;
        for (int i = 0; i < count; i++) {
            const gy_expr_type own = type_for(args[i], GY_FIELD_DECIMAL);
            scale = GY_MAX(scale, own.scale);
            whole = GY_MAX(whole, own.precision - own.scale);
        }
        common = gy_expr_decimal(whole + scale, scale, common.is_nullable);
    }
    for (int i = 0; i < count; i++) {
        GY_TRY(gy_expr_to_type(in, &args[i], &common));
    }
    *type = common;
    return GY_OK;
}

gy_status gy_expr_cast(const gy_expr_scope *scope, uint32_t place, const gy_expr *expr,
                       const gy_expr_type *type, const gy_expr **cast)
{
    char from[48], to[48];
    gy_expr_binder in = {.scope = scope};
    const gy_expr *made = expr;
    if (!gy_expr_is_implicit(&expr->type, gy_expr_class(type))) {
        return gy_sql_refuse(scope->source, place, GY_TYPE, "a value of type %s is no %s",
                             gy_expr_type_text(&expr->type, from), gy_expr_type_text(type, to));
    }
    GY_TRY(gy_expr_to_type(&in, &made, type));
    *cast = made;
    return GY_OK;
}

/* ---- what a tree is ---- */

bool gy_expr_is_column(const gy_expr *expr, int *index)
{
    const bool is_column = expr->run == gy_expr_run_column;
    if (is_column && index != NULL) {
        *index = expr->index;
    }
    return is_column;
}

bool gy_expr_is_constant(const gy_expr *expr)
{
    return expr->is_constant;
}

bool gy_expr_is_null(const gy_expr *expr)
{
    return expr->is_constant && expr->cell.is_null;
}

bool gy_expr_constant_int64(const gy_expr *expr, int64_t *value)
{
    if (!expr->is_constant || expr->cell.is_null ||
        gy_expr_class(&expr->type) != GY_FIELD_INT64) {
        return false;
    }
    *value = expr->cell.integer;
    return true;
}

void gy_expr_visit_columns(const gy_expr *expr, void (*visit)(void *arg, int index), void *arg)
{
    if (gy_expr_is_column(expr, NULL)) {
        visit(arg, expr->index);
    }
    for (int i = 0; i < expr->count; i++) {
        gy_expr_visit_columns(expr->args[i], visit, arg);
    }
}

gy_status gy_expr_remap(gy_arena *arena, const gy_expr *expr, const int *map,
                        const gy_expr **out)
{
    gy_expr *made = gy_arena_alloc(arena, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = *expr;
    if (gy_expr_is_column(expr, NULL)) {
        GY_ASSERT(map[expr->index] >= 0);
        made->index = map[expr->index];
    }
    if (expr->count > 0) {
        made->args = gy_arena_alloc(arena, (size_t)expr->count * sizeof(*made->args));
        if (made->args == NULL) {
            return GY_NOMEM;
        }
    }
    for (int i = 0; i < expr->count; i++) {
        GY_TRY(gy_expr_remap(arena, expr->args[i], map, &made->args[i]));
    }
    *out = made;
    return GY_OK;
}

gy_field gy_expr_field(const gy_expr *expr, const char *name)
{
    GY_ASSERT(!expr->type.is_interval);
    const bool is_decimal = expr->type.kind == GY_FIELD_DECIMAL;
    return (gy_field){.name = name,
                      .kind = expr->type.kind,
                      .precision = is_decimal ? expr->type.precision : 0,
                      .scale = is_decimal ? expr->type.scale : 0};
}

gy_status gy_expr_column(gy_arena *arena, int index, gy_expr_type type, const gy_expr **expr)
{
    GY_ASSERT(index >= 0 && !type.is_interval && !type.is_unknown);
    gy_expr *made = gy_arena_alloc(arena, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->run = gy_expr_run_column;
    made->type = type;
    made->index = index;
    *expr = made;
    return GY_OK;
}
