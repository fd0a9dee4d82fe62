/* A tree of SQL becomes an expression: names, literals, and what is done with them. */
#include "query/expr/expr_priv.h"

#include <string.h>

void *gy_expr_new(const gy_expr_binder *in, size_t size_bytes)
{
    void *made = gy_arena_alloc(in->scope->arena, GY_MAX(size_bytes, (size_t)1));
    if (made == NULL) {
        (void)gy_fail(GY_NOMEM, "no memory for an expression");
    }
    return made;
}

const gy_expr **gy_expr_pair(gy_expr_binder *in, const gy_expr *a, const gy_expr *b)
{
    const gy_expr **args = gy_expr_new(in, 2 * sizeof(*args));
    if (args != NULL) {
        args[0] = a;
        args[1] = b;
    }
    return args;
}

/* ---- constants ---- */

/* A value as a vector of one row has it. */
static gy_status keep_value(gy_expr_binder *in, int value_class, gy_expr *expr)
{
    void *values = gy_expr_new(in, sizeof(gy_int128) * 2);
    if (values == NULL) {
        return GY_NOMEM;
    }
    const gy_expr_cell *cell = &expr->cell;
    switch (value_class) {
    case GY_FIELD_BOOL:
        *(uint64_t *)values = cell->truth;
        break;
    case GY_FIELD_DOUBLE:
        *(double *)values = cell->real;
        break;
    case GY_FIELD_DECIMAL:
        *(gy_int128 *)values = cell->decimal;
        break;
    case GY_FIELD_DATE:
        *(int32_t *)values = (int32_t)cell->integer;
        break;
    case GY_FIELD_TEXT:
        *(gy_text_view *)values = cell->text;
        break;
    case GY_EXPR_INTERVAL:
        *(gy_interval *)values = cell->interval;
        break;
    default:
        *(int64_t *)values = cell->integer;
        break;
    }
    expr->list = values;
    return GY_OK;
}

gy_status gy_expr_constant(gy_expr_binder *in, uint32_t place, gy_expr_type type,
                           gy_expr_cell cell, const gy_expr **out)
{
    gy_expr *made = gy_expr_new(in, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    if (cell.is_null) {
        cell = (gy_expr_cell){.is_null = true, .decimal = 0};
        if (gy_expr_class(&type) == GY_FIELD_TEXT) {
            cell.text = (gy_text_view){.data = ""};
        }
    }
    made->run = gy_expr_run_constant;
    made->type = type;
    made->type.is_nullable = cell.is_null;
    made->is_constant = true;
    made->cell = cell;
    made->place = place;
    GY_TRY(keep_value(in, gy_expr_class(&type), made));
    *out = made;
    return GY_OK;
}

static bool are_constant(const gy_expr *const *args, int count)
{
    for (int i = 0; i < count; i++) {
        if (!args[i]->is_constant) {
            return false;
        }
    }
    return true;
}

static bool is_any_null(const gy_expr *const *args, int count)
{
    for (int i = 0; i < count; i++) {
        if (gy_expr_is_null(args[i])) {
            return true;
        }
    }
    return false;
}

gy_status gy_expr_make(gy_expr_binder *in, const gy_expr_spec *spec, const gy_expr **out)
{
    gy_expr_cell cell = {.is_null = true, .decimal = 0};
    if (!spec->takes_nulls && is_any_null(spec->args, spec->count)) {
        return gy_expr_constant(in, spec->place, spec->type, cell, out);
    }
    gy_expr *made = gy_expr_new(in, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_expr){
        .run = spec->run != NULL ? spec->run : gy_expr_run_rows,
        .row = spec->row,
        .type = spec->type,
        .args = spec->args,
        .count = spec->count,
        .op = spec->op,
        .index = spec->index,
        .is_not = spec->is_not,
        .takes_nulls = spec->takes_nulls,
        .list = spec->list,
        .name = spec->name,
        .place = spec->place,
    };
    *out = made;
    if (!are_constant(spec->args, spec->count)) {
        return GY_OK;
    }
    /* What fails here may never be asked for: it fails when it is. */
    const gy_status status = gy_expr_value(made, in->scope->arena, &cell);
    if (status < 0) {
        return status == GY_NOMEM ? status : GY_OK;
    }
    return gy_expr_constant(in, spec->place, spec->type, cell, out);
}

gy_status gy_expr_no_operator(gy_expr_binder *in, uint32_t place, const char *name,
                              const gy_expr *const *args, int count)
{
    char left[48], right[48];
    if (count == 1) {
        return gy_sql_refuse(in->scope->source, place, GY_TYPE,
                             "operator does not exist: %s %s", name,
                             gy_expr_type_text(&args[0]->type, left));
    }
    return gy_sql_refuse(in->scope->source, place, GY_TYPE, "operator does not exist: %s %s %s",
                         gy_expr_type_text(&args[0]->type, left), name,
                         gy_expr_type_text(&args[1]->type, right));
}

/* ---- literals ---- */

static gy_status bind_number(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    const gy_text_view text = {node->text, strlen(node->text)};
    gy_expr_cell cell = {.is_null = false};
    if (gy_frame_read_int64(text, GY_READING_CAST, &cell.integer)) {
        return gy_expr_constant(in, node->place, gy_expr_simple(GY_FIELD_INT64, false), cell,
                                out);
    }
    int scale = -1;
    bool is_number = false;
    gy_int128 value = 0;
    if (!gy_decimal_read(text, &scale, &value, &is_number)) {
        if (gy_frame_read_double(text, GY_READING_CAST, &cell.real)) { /* 1e300 */
            return gy_expr_constant(in, node->place, gy_expr_simple(GY_FIELD_DOUBLE, false),
                                    cell, out);
        }
        return gy_sql_refuse(in->scope->source, node->place, GY_FORMAT,
                             "not a number, or one that no type can hold: %.60s", node->text);
    }
    cell.decimal = value;
    return gy_expr_constant(in, node->place,
                            gy_expr_decimal(gy_decimal_digits(value), scale, false), cell, out);
}

static gy_status bind_literal(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    gy_expr_cell cell = {.is_null = node->kind == GY_SQL_NULL};
    gy_expr_type type = gy_expr_simple(GY_FIELD_TEXT, cell.is_null);
    if (node->kind == GY_SQL_NUMBER) {
        return bind_number(in, node, out);
    }
    if (node->kind == GY_SQL_BOOLEAN) {
        cell.truth = strcmp(node->text, "true") == 0;
        type = gy_expr_simple(GY_FIELD_BOOL, false);
    } else {
        type.is_unknown = true;
    }
    if (node->kind == GY_SQL_TEXT) {
        const size_t size = strlen(node->text);
        size_t wrong = 0;
        if (!gy_frame_is_utf8(node->text, size, &wrong)) { /* kernels count on it */
            return gy_sql_refuse(in->scope->source, node->place, GY_FORMAT,
                                 "a text that is no UTF-8 from its byte %zu on", wrong + 1);
        }
        char *copy = gy_expr_new(in, size + 1);
        if (copy == NULL) {
            return GY_NOMEM;
        }
        memcpy(copy, node->text, size + 1);
        cell.text = (gy_text_view){copy, size};
    }
    return gy_expr_constant(in, node->place, type, cell, out);
}

/* ---- nodes ---- */

static gy_status bind_column(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    int index = 0;
    gy_expr_type type = {.is_nullable = true};
    if (in->scope->column == NULL) {
        return gy_sql_refuse(in->scope->source, node->place, GY_NOTFOUND,
                             "column \"%s\" does not exist: there are none here", node->text);
    }
    GY_TRY(in->scope->column(in->scope->arg, node, &index, &type));
    return gy_expr_column(in->scope->arena, index, type, out);
}

gy_status gy_expr_bind_items(gy_expr_binder *in, const gy_sql_node *node, const gy_expr ***args)
{
    *args = gy_expr_new(in, node->count * sizeof(**args));
    if (*args == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        GY_TRY(gy_expr_bind_node(in, node->items[i], &(*args)[i]));
    }
    return GY_OK;
}

static gy_status bind_kind(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    switch (node->kind) {
    case GY_SQL_COLUMN:
        return bind_column(in, node, out);
    case GY_SQL_NULL:
    case GY_SQL_BOOLEAN:
    case GY_SQL_NUMBER:
    case GY_SQL_TEXT:
        return bind_literal(in, node, out);
    case GY_SQL_OPERATION:
        return gy_expr_bind_operation(in, node, out);
    case GY_SQL_AND:
    case GY_SQL_OR:
    case GY_SQL_NOT:
    case GY_SQL_IS_NULL:
    case GY_SQL_IS_TRUTH:
    case GY_SQL_DISTINCT:
        return gy_expr_bind_logic(in, node, out);
    case GY_SQL_NULLIF:
    case GY_SQL_COALESCE:
    case GY_SQL_GREATEST:
    case GY_SQL_LEAST:
    case GY_SQL_CASE:
        return gy_expr_bind_choice(in, node, out);
    case GY_SQL_IN:
        return gy_expr_bind_in(in, node, out);
    case GY_SQL_BETWEEN:
    case GY_SQL_SYMMETRIC:
        return gy_expr_bind_between(in, node, out);
    case GY_SQL_LIKE:
    case GY_SQL_ILIKE:
        return gy_expr_bind_like(in, node, out);
    case GY_SQL_CAST:
        return gy_expr_bind_cast(in, node, out);
    case GY_SQL_CALL:
        return gy_expr_bind_call(in, node, out);
    case GY_SQL_STAR:
        return gy_sql_refuse(in->scope->source, node->place, GY_FORMAT,
                             "* stands where one value is expected");
    case GY_SQL_SCALAR:
    case GY_SQL_EXISTS:
    case GY_SQL_IN_SELECT:
    case GY_SQL_ALL_SELECT:
    case GY_SQL_ANY_SELECT:
    case GY_SQL_KINDS:
        break;
    }
    return gy_sql_refuse(in->scope->source, node->place, GY_UNSUPPORTED,
                         "not supported: a sub-query here");
}

gy_status gy_expr_bind_node(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    if (in->depth >= GY_EXPR_DEPTH_MAX) {
        return gy_sql_refuse(in->scope->source, node->place, GY_LIMIT,
                             "an expression of more than %d levels: split it",
                             GY_EXPR_DEPTH_MAX);
    }
    if (in->scope->other != NULL) {
        int index = 0;
        gy_expr_type type = {.is_nullable = true};
        const gy_status status = in->scope->other(in->scope->arg, node, &index, &type);
        if (status == GY_OK) {
            return gy_expr_column(in->scope->arena, index, type, out);
        }
        if (status != GY_NOTFOUND) {
            return status;
        }
    }
    in->depth++;
    const gy_status status = bind_kind(in, node, out);
    in->depth--;
    return status;
}

gy_status gy_expr_bind(const gy_expr_scope *scope, const gy_sql_node *node,
                       const gy_expr **expr)
{
    gy_expr_binder in = {.scope = scope};
    const gy_expr *made = NULL;
    GY_TRY(gy_expr_bind_node(&in, node, &made));
    *expr = made;
    return GY_OK;
}

gy_status gy_expr_bind_condition(const gy_expr_scope *scope, const gy_sql_node *node,
                                 const gy_expr **expr)
{
    char text[48];
    gy_expr_binder in = {.scope = scope};
    const gy_expr *made = NULL;
    GY_TRY(gy_expr_bind_node(&in, node, &made));
    if (!gy_expr_is_implicit(&made->type, GY_FIELD_BOOL)) {
        return gy_sql_refuse(scope->source, node->place, GY_TYPE,
                             "a condition must be of type bool, not %s",
                             gy_expr_type_text(&made->type, text));
    }
    GY_TRY(gy_expr_to_class(&in, &made, GY_FIELD_BOOL));
    *expr = made;
    return GY_OK;
}
