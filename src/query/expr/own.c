/* Calls of the program's own functions. */
#include "query/expr/expr_priv.h"
#include "query/functions/functions.h"

/* A value of the expressions as functions see it, and back. */
static void to_value(gy_field_kind kind, const gy_expr_cell *cell, gy_function_value *value)
{
    value->is_null = cell->is_null;
    if (cell->is_null) {
        return;
    }
    switch (kind) {
    case GY_FIELD_BOOL:
        value->truth = cell->truth;
        break;
    case GY_FIELD_DOUBLE:
        value->real = cell->real;
        break;
    case GY_FIELD_DECIMAL:
        value->decimal = cell->decimal;
        break;
    case GY_FIELD_TEXT:
        value->text = cell->text;
        break;
    case GY_FIELD_INT64:
    case GY_FIELD_DATE:
    case GY_FIELD_TIMESTAMP:
    default:
        value->integer = cell->integer;
        break;
    }
}

static void of_value(gy_field_kind kind, const gy_function_value *value, gy_expr_cell *cell)
{
    cell->is_null = value->is_null;
    if (value->is_null) {
        return;
    }
    switch (kind) {
    case GY_FIELD_BOOL:
        cell->truth = value->truth;
        break;
    case GY_FIELD_DOUBLE:
        cell->real = value->real;
        break;
    case GY_FIELD_DECIMAL:
        cell->decimal = value->decimal;
        break;
    case GY_FIELD_TEXT:
        cell->text = value->text;
        break;
    case GY_FIELD_INT64:
    case GY_FIELD_DATE:
    case GY_FIELD_TIMESTAMP:
    default:
        cell->integer = value->integer;
        break;
    }
}

static char *text_memory(void *arg, size_t size_bytes)
{
    return gy_expr_text_memory(arg, size_bytes);
}

static gy_status row_own(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                         gy_expr_cell *out)
{
    const gy_query_function *of = expr->list;
    gy_function_value values[GY_FUNCTION_PARAMETERS_MAX],
        result = {.is_null = false, .decimal = 0};
    gy_function_call call = {.function = of, .text = text_memory, .text_arg = work};
    for (int i = 0; i < expr->count; i++) {
        to_value(of->parameters[i].kind, &args[i], &values[i]);
    }
    GY_TRY(gy_query_function_end(&call, of->scalar(&call, values, &result)));
    GY_TRY(gy_query_function_check(&call, &result));
    of_value(of->result.kind, &result, out);
    return GY_OK;
}

gy_expr_type gy_expr_type_of_field(const gy_field *field)
{
    return field->kind == GY_FIELD_DECIMAL
               ? gy_expr_decimal(field->precision, field->scale, true)
               : gy_expr_simple((int)field->kind, true);
}

gy_status gy_expr_check_call(const gy_sql_source *source, const gy_sql_node *node,
                             const gy_query_function *function, const gy_expr_type *types)
{
    char given[300], text[300];
    bool fits = node->count == (uint32_t)function->parameter_count;
    for (uint32_t i = 0; i < node->count && fits; i++) {
        fits = gy_expr_is_implicit(&types[i], (int)function->parameters[i].kind);
    }
    if (fits) {
        return GY_OK;
    }
    gy_expr_types_text(types, node->count, given);
    return gy_sql_refuse(source, node->place, GY_TYPE,
                         "function %s(%s) does not exist: there is %s", node->text, given,
                         gy_query_function_text(function, text));
}

gy_status gy_expr_bind_own(gy_expr_binder *in, const gy_sql_node *node,
                           const gy_query_function *function, const gy_expr **args,
                           const gy_expr **out)
{
    const int count = (int)node->count;
    gy_expr_type *types = gy_expr_types_of(in, args, node->count);
    if (types == NULL) {
        return GY_NOMEM;
    }
    if (gy_query_function_is_aggregate(function)) {
        return gy_sql_refuse(in->scope->source, node->place, GY_FORMAT,
                             "the aggregate %s stands where a value of one row is expected",
                             function->name);
    }
    if (function->apply != NULL) {
        return gy_sql_refuse(in->scope->source, node->place, GY_FORMAT,
                             "function %s gives rows: it stands in FROM", function->name);
    }
    GY_TRY(gy_expr_check_call(in->scope->source, node, function, types));
    for (int i = 0; i < count; i++) {
        const gy_expr_type type = gy_expr_type_of_field(&function->parameters[i]);
        GY_TRY(gy_expr_to_type(in, &args[i], &type));
    }
    const gy_expr_spec spec = {.row = row_own,
                               .type = gy_expr_type_of_field(&function->result),
                               .args = args,
                               .count = count,
                               .takes_nulls = function->takes_nulls,
                               .list = function,
                               .name = function->name,
                               .place = node->place};
    return gy_expr_make(in, &spec, out);
}
