/* What rows come from: tables, sub-queries, functions, joins. */
#include "query/sql/sql_priv.h"

#include <string.h>

static gy_status take_alias(const gy_sql_reader *in, const PgQuery__Alias *alias,
                            gy_sql_from *to)
{
    if (alias == NULL) {
        return GY_OK;
    }
    GY_TRY(gy_sql_name_of(in, alias->aliasname, &to->alias));
    return gy_sql_names_of(in, alias->colnames, alias->n_colnames, &to->columns,
                           &to->column_count);
}

static gy_status table(const gy_sql_reader *in, const PgQuery__RangeVar *var, gy_sql_from *to)
{
    to->kind = GY_SQL_TABLE;
    to->place = gy_sql_place(in, var->location);
    if (var->schemaname[0] != '\0' || var->catalogname[0] != '\0') {
        return gy_sql_unsupported(in, var->location,
                                  "names of schemas (write a file's name in double quotes)");
    }
    GY_TRY(gy_sql_name_of(in, var->relname, &to->name));
    return take_alias(in, var->alias, to);
}

static gy_status derived(gy_sql_reader *in, const PgQuery__RangeSubselect *range,
                         gy_sql_from *to)
{
    to->kind = GY_SQL_DERIVED;
    if (range->lateral || range->subquery->node_case != PG_QUERY__NODE__NODE_SELECT_STMT) {
        return gy_sql_unsupported(in, -1, "lateral");
    }
    GY_TRY(gy_sql_select_of(in, range->subquery->select_stmt, &to->select));
    to->place = to->select->place;
    return take_alias(in, range->alias, to);
}

/* The arguments of a table function, some by name. */
static gy_status arguments(gy_sql_reader *in, const PgQuery__FuncCall *call, gy_sql_from *to)
{
    to->names = gy_sql_new(in, call->n_args, sizeof(*to->names));
    if (to->names == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < call->n_args; i++) {
        PgQuery__Node *argument = call->args[i];
        if (argument->node_case == PG_QUERY__NODE__NODE_NAMED_ARG_EXPR) {
            GY_TRY(gy_sql_copy(in, argument->named_arg_expr->name, &to->names[i]));
            argument = argument->named_arg_expr->arg;
        }
        GY_TRY(gy_sql_items(in, to->call, &argument, 1));
    }
    return GY_OK;
}

static gy_status function(gy_sql_reader *in, const PgQuery__RangeFunction *range,
                          gy_sql_from *to)
{
    const PgQuery__Node *first = range->n_functions == 1 ? range->functions[0] : NULL;
    const bool is_call = first != NULL && first->node_case == PG_QUERY__NODE__NODE_LIST &&
                         first->list->n_items > 0 &&
                         first->list->items[0]->node_case == PG_QUERY__NODE__NODE_FUNC_CALL;
    if (!is_call || range->lateral || range->ordinality || range->n_coldeflist > 0) {
        return gy_sql_unsupported(in, -1, "this form of a table function");
    }
    const PgQuery__FuncCall *call = first->list->items[0]->func_call;
    if (call->n_funcname != 1) {
        return gy_sql_unsupported(in, call->location, "names of schemas");
    }
    to->kind = GY_SQL_FUNCTION;
    to->place = gy_sql_place(in, call->location);
    GY_TRY(gy_sql_node_new(in, GY_SQL_CALL, call->location, &to->call));
    GY_TRY(gy_sql_copy(in, call->funcname[0]->string->sval, &to->call->text));
    GY_TRY(arguments(in, call, to));
    return take_alias(in, range->alias, to);
}

static gy_status join(gy_sql_reader *in, const PgQuery__JoinExpr *expr, gy_sql_from *to)
{
    const char *unsupported = expr->is_natural      ? "natural join (name the columns)"
                              : expr->alias != NULL ? "an alias of a join"
                              : expr->join_using_alias != NULL ? "an alias of a join"
                                                               : NULL;
    if (unsupported != NULL) {
        return gy_sql_unsupported(in, -1, unsupported);
    }
    to->kind = GY_SQL_JOIN;
    to->join = expr->jointype == PG_QUERY__JOIN_TYPE__JOIN_LEFT    ? GY_SQL_LEFT
               : expr->jointype == PG_QUERY__JOIN_TYPE__JOIN_RIGHT ? GY_SQL_RIGHT
               : expr->jointype == PG_QUERY__JOIN_TYPE__JOIN_FULL  ? GY_SQL_FULL
               : expr->quals == NULL && expr->n_using_clause == 0  ? GY_SQL_CROSS
                                                                   : GY_SQL_INNER;
    GY_TRY(gy_sql_from_of(in, expr->larg, &to->left));
    GY_TRY(gy_sql_from_of(in, expr->rarg, &to->right));
    to->place = to->left->place;
    if (expr->quals != NULL) {
        GY_TRY(gy_sql_expression(in, expr->quals, &to->on));
    }
    return gy_sql_names_of(in, expr->using_clause, expr->n_using_clause, &to->using,
                           &to->using_count);
}

static gy_status from_of(gy_sql_reader *in, const PgQuery__Node *node, gy_sql_from *to)
{
    switch ((int)node->node_case) { /* of 239 kinds */
    case PG_QUERY__NODE__NODE_RANGE_VAR:
        return table(in, node->range_var, to);
    case PG_QUERY__NODE__NODE_RANGE_SUBSELECT:
        return derived(in, node->range_subselect, to);
    case PG_QUERY__NODE__NODE_RANGE_FUNCTION:
        return function(in, node->range_function, to);
    case PG_QUERY__NODE__NODE_JOIN_EXPR:
        return join(in, node->join_expr, to);
    default:
        return gy_sql_unsupported(in, -1, "this form of FROM");
    }
}

gy_status gy_sql_from_of(gy_sql_reader *in, const PgQuery__Node *node, gy_sql_from **out)
{
    *out = gy_sql_new(in, 1, sizeof(**out));
    if (*out == NULL) {
        return GY_NOMEM;
    }
    if (in->depth >= GY_SQL_DEPTH_MAX) {
        return gy_sql_refuse(in->source, 0, GY_LIMIT, "a FROM of more than %d levels",
                             GY_SQL_DEPTH_MAX);
    }
    in->depth++;
    const gy_status status = from_of(in, node, *out);
    in->depth--;
    return status;
}
