/* Calls, casts and sub-queries in expressions. */
#include "query/sql/sql_priv.h"

#include <string.h>

/* The last name of a call or type: what stands before it is pg_catalog. */
static gy_status last_name(const gy_sql_reader *in, PgQuery__Node *const *names, size_t count,
                           int64_t place, const char **out)
{
    if (count == 0 || count > 2 ||
        (count == 2 && strcmp(names[0]->string->sval, "pg_catalog") != 0)) {
        return gy_sql_unsupported(in, place, "names of schemas");
    }
    return gy_sql_copy(in, names[count - 1]->string->sval, out);
}

/* f(x) filter (where c) becomes f(case when c then x end), as these aggregates leave nulls out;
 * count(*) becomes count(case when c then 1 end). */
static gy_status filter(gy_sql_reader *in, const PgQuery__FuncCall *call, gy_sql_node *to)
{
    static const char *const names[] = {"avg",   "bool_and", "bool_or", "count",
                                        "every", "max",      "min",     "sum"};
    gy_sql_node *choice = NULL;
    gy_sql_node **both = gy_sql_new(in, 2, sizeof(*both)),
                **one = gy_sql_new(in, 1, sizeof(*one));
    bool is_known = false;
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        is_known = is_known || strcmp(to->text, names[i]) == 0;
    }
    if (!is_known || to->count + (to->is_star ? 1 : 0) != 1) {
        return gy_sql_unsupported(
            in, call->location,
            "filter, but of avg, bool_and, bool_or, count, every, max, min "
            "and sum of one value");
    }
    if (both == NULL || one == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_sql_node_new(in, GY_SQL_CASE, call->location, &choice));
    GY_TRY(gy_sql_expression(in, call->agg_filter, &both[0]));
    if (to->is_star) {
        GY_TRY(gy_sql_node_new(in, GY_SQL_NUMBER, call->location, &both[1]));
        both[1]->text = "1";
        to->is_star = false;
    } else {
        both[1] = to->items[0];
    }
    choice->items = both;
    choice->count = 2;
    one[0] = choice;
    to->items = one;
    to->count = 1;
    return GY_OK;
}

gy_status gy_sql_call(gy_sql_reader *in, const PgQuery__FuncCall *call, gy_sql_node **out)
{
    const char *unsupported = call->over != NULL       ? "window functions"
                              : call->agg_within_group ? "within group"
                              : call->n_agg_order > 0  ? "order by in an aggregate"
                              : call->func_variadic    ? "variadic"
                                                       : NULL;
    if (unsupported != NULL) {
        return gy_sql_unsupported(in, call->location, unsupported);
    }
    GY_TRY(gy_sql_node_new(in, GY_SQL_CALL, call->location, out));
    GY_TRY(last_name(in, call->funcname, call->n_funcname, call->location, &(*out)->text));
    (*out)->is_distinct = call->agg_distinct;
    (*out)->is_star = call->agg_star;
    for (size_t i = 0; i < call->n_args; i++) {
        if (call->args[i]->node_case == PG_QUERY__NODE__NODE_NAMED_ARG_EXPR) {
            return gy_sql_unsupported(in, call->args[i]->named_arg_expr->location,
                                      "named arguments");
        }
    }
    GY_TRY(gy_sql_items(in, *out, call->args, call->n_args));
    return call->agg_filter != NULL ? filter(in, call, *out) : GY_OK;
}

/* The numbers behind a type's name. */
static gy_status modifiers(const gy_sql_reader *in, const PgQuery__TypeName *type,
                           gy_sql_node *to)
{
    for (size_t i = 0; i < type->n_typmods; i++) {
        const PgQuery__Node *one = type->typmods[i];
        if (i >= GY_COUNT(to->modifiers) || one->node_case != PG_QUERY__NODE__NODE_A_CONST ||
            one->a_const->val_case != PG_QUERY__A__CONST__VAL_IVAL) {
            return gy_sql_unsupported(in, type->location, "this modifier of a type");
        }
        to->modifiers[to->modifier_count++] = one->a_const->ival->ival;
    }
    return GY_OK;
}

gy_status gy_sql_cast(gy_sql_reader *in, const PgQuery__TypeCast *cast, gy_sql_node **out)
{
    const PgQuery__TypeName *type = cast->type_name;
    PgQuery__Node *value = cast->arg;
    if (type->n_array_bounds > 0 || type->setof || type->pct_type) {
        return gy_sql_unsupported(in, type->location, "arrays");
    }
    GY_TRY(gy_sql_node_new(in, GY_SQL_CAST,
                           cast->location >= 0 ? cast->location : type->location, out));
    GY_TRY(last_name(in, type->names, type->n_names, type->location, &(*out)->text));
    GY_TRY(modifiers(in, type, *out));
    return gy_sql_items(in, *out, &value, 1);
}

static gy_status kind_of(const gy_sql_reader *in, const PgQuery__SubLink *link,
                         gy_sql_kind *kind)
{
    switch ((int)link->sub_link_type) {
    case PG_QUERY__SUB_LINK_TYPE__EXISTS_SUBLINK:
        *kind = GY_SQL_EXISTS;
        return GY_OK;
    case PG_QUERY__SUB_LINK_TYPE__EXPR_SUBLINK:
        *kind = GY_SQL_SCALAR;
        return GY_OK;
    case PG_QUERY__SUB_LINK_TYPE__ANY_SUBLINK:
        *kind = link->n_oper_name == 0 ? GY_SQL_IN_SELECT : GY_SQL_ANY_SELECT;
        return GY_OK;
    case PG_QUERY__SUB_LINK_TYPE__ALL_SUBLINK:
        *kind = GY_SQL_ALL_SELECT;
        return GY_OK;
    case PG_QUERY__SUB_LINK_TYPE__ARRAY_SUBLINK:
    case PG_QUERY__SUB_LINK_TYPE__ROWCOMPARE_SUBLINK:
    case PG_QUERY__SUB_LINK_TYPE__MULTIEXPR_SUBLINK:
    case PG_QUERY__SUB_LINK_TYPE__CTE_SUBLINK:
    case PG_QUERY__SUB_LINK_TYPE__SUB_LINK_TYPE_UNDEFINED:
    default:
        return gy_sql_unsupported(in, link->location, "this form of a sub-query");
    }
}

gy_status gy_sql_sublink(gy_sql_reader *in, const PgQuery__SubLink *link, gy_sql_node **out)
{
    gy_sql_kind kind = GY_SQL_EXISTS;
    PgQuery__Node *tested = link->testexpr;
    GY_TRY(kind_of(in, link, &kind));
    if (link->subselect->node_case != PG_QUERY__NODE__NODE_SELECT_STMT) {
        return gy_sql_unsupported(in, link->location, "this form of a sub-query");
    }
    GY_TRY(gy_sql_node_new(in, kind, link->location, out));
    if (link->n_oper_name > 0) {
        GY_TRY(
            last_name(in, link->oper_name, link->n_oper_name, link->location, &(*out)->text));
    }
    if (tested != NULL) {
        GY_TRY(gy_sql_items(in, *out, &tested, 1));
    }
    return gy_sql_select_of(in, link->subselect->select_stmt, &(*out)->select);
}
