/* Expressions, from the parser's tree to ours. */
#include "query/sql/sql_priv.h"

#include <stdio.h>
#include <string.h>

gy_status gy_sql_node_new(const gy_sql_reader *in, gy_sql_kind kind, int64_t place,
                          gy_sql_node **out)
{
    gy_sql_node *made = gy_sql_new(in, 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->kind = kind;
    made->place = gy_sql_place(in, place);
    *out = made;
    return GY_OK;
}

gy_status gy_sql_items(gy_sql_reader *in, gy_sql_node *to, PgQuery__Node *const *nodes,
                       size_t count)
{
    gy_sql_node **items = gy_sql_new(in, to->count + count, sizeof(*items));
    if (items == NULL) {
        return GY_NOMEM;
    }
    if (to->count > 0) {
        memcpy(items, to->items, to->count * sizeof(*items));
    }
    to->items = items;
    for (size_t i = 0; i < count; i++) {
        GY_TRY(gy_sql_expression(in, nodes[i], &items[to->count]));
        to->count++;
    }
    return GY_OK;
}

/* A node of `kind` of the `count` expressions. */
static gy_status compose(gy_sql_reader *in, gy_sql_kind kind, int64_t place,
                         PgQuery__Node *const *nodes, size_t count, gy_sql_node **out)
{
    GY_TRY(gy_sql_node_new(in, kind, place, out));
    return gy_sql_items(in, *out, nodes, count);
}

static gy_status column(const gy_sql_reader *in, const PgQuery__ColumnRef *ref,
                        gy_sql_node **out)
{
    gy_sql_name name = {.text = NULL};
    const size_t count = ref->n_fields;
    if (count > 2) {
        return gy_sql_unsupported(in, ref->location, "names of schemas");
    }
    const PgQuery__Node *last = ref->fields[count - 1];
    const bool is_star = last->node_case == PG_QUERY__NODE__NODE_A_STAR;
    GY_TRY(gy_sql_node_new(in, is_star ? GY_SQL_STAR : GY_SQL_COLUMN, ref->location, out));
    if (count == 2) {
        GY_TRY(gy_sql_name_of(in, ref->fields[0]->string->sval, &name));
        (*out)->table = name.text;
    }
    if (!is_star) {
        GY_TRY(gy_sql_name_of(in, last->string->sval, &name));
        (*out)->text = name.text;
        (*out)->is_quoted = name.is_quoted;
    }
    return GY_OK;
}

static gy_status constant(const gy_sql_reader *in, const PgQuery__AConst *value,
                          gy_sql_node **out)
{
    char digits[16];
    GY_TRY(gy_sql_node_new(in, GY_SQL_NULL, value->location, out));
    if (value->isnull) {
        return GY_OK;
    }
    switch ((int)value->val_case) {
    case PG_QUERY__A__CONST__VAL_IVAL:
        (*out)->kind = GY_SQL_NUMBER;
        snprintf(digits, sizeof(digits), "%d", value->ival->ival);
        return gy_sql_copy(in, digits, &(*out)->text);
    case PG_QUERY__A__CONST__VAL_FVAL:
        (*out)->kind = GY_SQL_NUMBER;
        return gy_sql_copy(in, value->fval->fval, &(*out)->text);
    case PG_QUERY__A__CONST__VAL_BOOLVAL:
        (*out)->kind = GY_SQL_BOOLEAN;
        (*out)->text = value->boolval->boolval ? "true" : "false";
        return GY_OK;
    case PG_QUERY__A__CONST__VAL_SVAL:
        (*out)->kind = GY_SQL_TEXT;
        return gy_sql_copy(in, value->sval->sval, &(*out)->text);
    case PG_QUERY__A__CONST__VAL_BSVAL:
        return gy_sql_unsupported(in, value->location, "bit strings");
    case PG_QUERY__A__CONST__VAL__NOT_SET:
    default:
        return gy_sql_unsupported(in, value->location, "this literal");
    }
}

/* ---- Operators ---- */

/* The single name of an operator; NULL: it has a schema. */
static const char *operator_of(const PgQuery__AExpr *expr)
{
    return expr->n_name == 1 && expr->name[0]->node_case == PG_QUERY__NODE__NODE_STRING
               ? expr->name[0]->string->sval
               : NULL;
}

static bool is_call_of(const PgQuery__Node *node, const char *name)
{
    return node->node_case == PG_QUERY__NODE__NODE_FUNC_CALL &&
           strcmp(node->func_call->funcname[node->func_call->n_funcname - 1]->string->sval,
                  name) == 0;
}

static gy_status operation(gy_sql_reader *in, const PgQuery__AExpr *expr, gy_sql_node **out)
{
    const char *name = operator_of(expr);
    PgQuery__Node *sides[2] = {expr->lexpr, expr->rexpr};
    const size_t first = expr->lexpr == NULL ? 1 : 0;
    if (name == NULL || expr->rexpr == NULL) {
        return gy_sql_unsupported(in, expr->location, "this form of an operator");
    }
    GY_TRY(compose(in, GY_SQL_OPERATION, expr->location, sides + first, 2 - first, out));
    return gy_sql_copy(in, name, &(*out)->text);
}

/* in (…), and between, whose bounds are a list too. */
static gy_status among(gy_sql_reader *in, gy_sql_kind kind, bool is_not,
                       const PgQuery__AExpr *expr, gy_sql_node **out)
{
    if (expr->rexpr == NULL || expr->rexpr->node_case != PG_QUERY__NODE__NODE_LIST) {
        return gy_sql_unsupported(in, expr->location, "this form of a list");
    }
    PgQuery__Node *tested = expr->lexpr;
    GY_TRY(compose(in, kind, expr->location, &tested, 1, out));
    (*out)->is_not = is_not;
    return gy_sql_items(in, *out, expr->rexpr->list->items, expr->rexpr->list->n_items);
}

static gy_status like(gy_sql_reader *in, gy_sql_kind kind, const PgQuery__AExpr *expr,
                      gy_sql_node **out)
{
    PgQuery__Node *sides[3] = {expr->lexpr, expr->rexpr, NULL};
    size_t count = 2;
    if (is_call_of(expr->rexpr, "like_escape") && expr->rexpr->func_call->n_args == 2) {
        sides[1] = expr->rexpr->func_call->args[0];
        sides[2] = expr->rexpr->func_call->args[1];
        count = 3;
    }
    GY_TRY(compose(in, kind, expr->location, sides, count, out));
    (*out)->is_not = operator_of(expr) != NULL && operator_of(expr)[0] == '!';
    return GY_OK;
}

static gy_status two(gy_sql_reader *in, gy_sql_kind kind, bool is_not,
                     const PgQuery__AExpr *expr, gy_sql_node **out)
{
    PgQuery__Node *sides[2] = {expr->lexpr, expr->rexpr};
    GY_TRY(compose(in, kind, expr->location, sides, 2, out));
    (*out)->is_not = is_not;
    return GY_OK;
}

static gy_status a_expr(gy_sql_reader *in, const PgQuery__AExpr *expr, gy_sql_node **out)
{
    const char *name = operator_of(expr);
    switch ((int)expr->kind) {
    case PG_QUERY__A__EXPR__KIND__AEXPR_OP:
        return operation(in, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_DISTINCT:
        return two(in, GY_SQL_DISTINCT, false, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_DISTINCT:
        return two(in, GY_SQL_DISTINCT, true, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_NULLIF:
        return two(in, GY_SQL_NULLIF, false, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_IN:
        return among(in, GY_SQL_IN, name != NULL && strcmp(name, "<>") == 0, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_LIKE:
        return like(in, GY_SQL_LIKE, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_ILIKE:
        return like(in, GY_SQL_ILIKE, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN:
        return among(in, GY_SQL_BETWEEN, false, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN:
        return among(in, GY_SQL_BETWEEN, true, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN_SYM:
        return among(in, GY_SQL_SYMMETRIC, false, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN_SYM:
        return among(in, GY_SQL_SYMMETRIC, true, expr, out);
    case PG_QUERY__A__EXPR__KIND__AEXPR_SIMILAR:
        return gy_sql_unsupported(in, expr->location, "similar to");
    case PG_QUERY__A__EXPR__KIND__AEXPR_OP_ANY:
    case PG_QUERY__A__EXPR__KIND__AEXPR_OP_ALL:
        return gy_sql_unsupported(in, expr->location, "arrays");
    case PG_QUERY__A__EXPR__KIND__A_EXPR_KIND_UNDEFINED:
    default:
        return gy_sql_unsupported(in, expr->location, "this form of an operator");
    }
}

static gy_status bool_expr(gy_sql_reader *in, const PgQuery__BoolExpr *expr, gy_sql_node **out)
{
    const gy_sql_kind kind = expr->boolop == PG_QUERY__BOOL_EXPR_TYPE__AND_EXPR  ? GY_SQL_AND
                             : expr->boolop == PG_QUERY__BOOL_EXPR_TYPE__OR_EXPR ? GY_SQL_OR
                                                                                 : GY_SQL_NOT;
    return compose(in, kind, expr->location, expr->args, expr->n_args, out);
}

static gy_status truth(gy_sql_reader *in, const PgQuery__BooleanTest *test, gy_sql_node **out)
{
    static const char *const names[] = {"true", "false", "unknown"};
    const int at = (int)test->booltesttype - (int)PG_QUERY__BOOL_TEST_TYPE__IS_TRUE;
    PgQuery__Node *tested = test->arg;
    if (at < 0 || at >= 2 * (int)GY_COUNT(names)) {
        return gy_sql_unsupported(in, test->location, "this test");
    }
    GY_TRY(compose(in, GY_SQL_IS_TRUTH, test->location, &tested, 1, out));
    (*out)->is_not = at % 2 == 1;
    (*out)->text = names[at / 2];
    return GY_OK;
}

static gy_status null_test(gy_sql_reader *in, const PgQuery__NullTest *test, gy_sql_node **out)
{
    PgQuery__Node *tested = test->arg;
    GY_TRY(compose(in, GY_SQL_IS_NULL, test->location, &tested, 1, out));
    (*out)->is_not = test->nulltesttype == PG_QUERY__NULL_TEST_TYPE__IS_NOT_NULL;
    return GY_OK;
}

/* case x when v …: each condition becomes x = v. */
static gy_status case_of(gy_sql_reader *in, const PgQuery__CaseExpr *expr, gy_sql_node **out)
{
    const size_t count = 2 * expr->n_args;
    PgQuery__Node **parts = gy_sql_new(in, count + 1, sizeof(*parts));
    if (parts == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < expr->n_args; i++) {
        parts[2 * i] = expr->args[i]->case_when->expr;
        parts[2 * i + 1] = expr->args[i]->case_when->result;
    }
    parts[count] = expr->defresult;
    GY_TRY(compose(in, GY_SQL_CASE, expr->location, parts,
                   count + (expr->defresult != NULL ? 1 : 0), out));
    for (size_t i = 0; i < expr->n_args && expr->arg != NULL; i++) {
        gy_sql_node *equal = NULL;
        PgQuery__Node *operands[2] = {expr->arg, parts[2 * i]};
        GY_TRY(compose(in, GY_SQL_OPERATION, expr->args[i]->case_when->location, operands, 2,
                       &equal));
        equal->text = "=";
        (*out)->items[2 * i] = equal;
    }
    return GY_OK;
}

/* ---- All of them ---- */

static gy_status expression(gy_sql_reader *in, const PgQuery__Node *node, gy_sql_node **out)
{
    switch ((int)node->node_case) { /* of 239 kinds */
    case PG_QUERY__NODE__NODE_COLUMN_REF:
        return column(in, node->column_ref, out);
    case PG_QUERY__NODE__NODE_A_CONST:
        return constant(in, node->a_const, out);
    case PG_QUERY__NODE__NODE_A_EXPR:
        return a_expr(in, node->a_expr, out);
    case PG_QUERY__NODE__NODE_BOOL_EXPR:
        return bool_expr(in, node->bool_expr, out);
    case PG_QUERY__NODE__NODE_NULL_TEST:
        return null_test(in, node->null_test, out);
    case PG_QUERY__NODE__NODE_BOOLEAN_TEST:
        return truth(in, node->boolean_test, out);
    case PG_QUERY__NODE__NODE_FUNC_CALL:
        return gy_sql_call(in, node->func_call, out);
    case PG_QUERY__NODE__NODE_TYPE_CAST:
        return gy_sql_cast(in, node->type_cast, out);
    case PG_QUERY__NODE__NODE_CASE_EXPR:
        return case_of(in, node->case_expr, out);
    case PG_QUERY__NODE__NODE_COALESCE_EXPR:
        return compose(in, GY_SQL_COALESCE, node->coalesce_expr->location,
                       node->coalesce_expr->args, node->coalesce_expr->n_args, out);
    case PG_QUERY__NODE__NODE_MIN_MAX_EXPR:
        return compose(in,
                       node->min_max_expr->op == PG_QUERY__MIN_MAX_OP__IS_GREATEST
                           ? GY_SQL_GREATEST
                           : GY_SQL_LEAST,
                       node->min_max_expr->location, node->min_max_expr->args,
                       node->min_max_expr->n_args, out);
    case PG_QUERY__NODE__NODE_SUB_LINK:
        return gy_sql_sublink(in, node->sub_link, out);
    case PG_QUERY__NODE__NODE_SQLVALUE_FUNCTION:
        return gy_sql_unsupported(in, node->sqlvalue_function->location,
                                  "what depends on the time of the run or on its user");
    case PG_QUERY__NODE__NODE_PARAM_REF:
        return gy_sql_unsupported(in, node->param_ref->location, "parameters");
    case PG_QUERY__NODE__NODE_ROW_EXPR:
        return gy_sql_unsupported(in, node->row_expr->location, "row values");
    case PG_QUERY__NODE__NODE_A_ARRAY_EXPR:
        return gy_sql_unsupported(in, node->a_array_expr->location, "arrays");
    case PG_QUERY__NODE__NODE_COLLATE_CLAUSE:
        return gy_sql_unsupported(in, node->collate_clause->location,
                                  "collate (text is compared by its bytes)");
    case PG_QUERY__NODE__NODE_GROUPING_SET:
        return gy_sql_unsupported(in, node->grouping_set->location,
                                  "grouping sets, rollup and cube");
    default:
        return gy_sql_unsupported(in, -1, "this expression");
    }
}

gy_status gy_sql_expression(gy_sql_reader *in, const PgQuery__Node *node, gy_sql_node **out)
{
    if (node == NULL) {
        return gy_sql_unsupported(in, -1, "an expression that is not there");
    }
    if (in->depth >= GY_SQL_DEPTH_MAX) {
        return gy_sql_refuse(in->source, 0, GY_LIMIT,
                             "an expression of more than %d levels: split it",
                             GY_SQL_DEPTH_MAX);
    }
    in->depth++;
    const gy_status status = expression(in, node, out);
    in->depth--;
    return status;
}
