/* Selections and statements. */
#include "query/sql/sql_priv.h"

#include <string.h>

/* ---- Clauses ---- */

static gy_status targets(gy_sql_reader *in, const PgQuery__SelectStmt *stmt, gy_sql_select *to)
{
    to->targets = gy_sql_new(in, stmt->n_target_list, sizeof(*to->targets));
    if (to->targets == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < stmt->n_target_list; i++) {
        const PgQuery__ResTarget *target = stmt->target_list[i]->res_target;
        GY_TRY(gy_sql_expression(in, target->val, &to->targets[i].value));
        if (target->name[0] != '\0') {
            GY_TRY(gy_sql_name_of(in, target->name, &to->targets[i].name));
        }
        if (i == 0) {
            to->place = to->targets[i].value->place;
        }
    }
    to->target_count = (uint32_t)stmt->n_target_list;
    return GY_OK;
}

/* A comma is a cross join. */
static gy_status from_list(gy_sql_reader *in, const PgQuery__SelectStmt *stmt,
                           gy_sql_select *to)
{
    for (size_t i = 0; i < stmt->n_from_clause; i++) {
        gy_sql_from *one = NULL;
        GY_TRY(gy_sql_from_of(in, stmt->from_clause[i], &one));
        if (to->from == NULL) {
            to->from = one;
            continue;
        }
        gy_sql_from *both = gy_sql_new(in, 1, sizeof(*both));
        if (both == NULL) {
            return GY_NOMEM;
        }
        *both = (gy_sql_from){.kind = GY_SQL_JOIN,
                              .place = one->place,
                              .join = GY_SQL_CROSS,
                              .left = to->from,
                              .right = one};
        to->from = both;
    }
    return GY_OK;
}

static gy_status groups(gy_sql_reader *in, const PgQuery__SelectStmt *stmt, gy_sql_select *to)
{
    to->groups = gy_sql_new(in, stmt->n_group_clause, sizeof(gy_sql_node *));
    if (to->groups == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < stmt->n_group_clause; i++) {
        GY_TRY(gy_sql_expression(in, stmt->group_clause[i], &to->groups[i]));
    }
    to->group_count = (uint32_t)stmt->n_group_clause;
    return GY_OK;
}

static gy_status orders(gy_sql_reader *in, const PgQuery__SelectStmt *stmt, gy_sql_select *to)
{
    to->order = gy_sql_new(in, stmt->n_sort_clause, sizeof(*to->order));
    if (to->order == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < stmt->n_sort_clause; i++) {
        const PgQuery__SortBy *by = stmt->sort_clause[i]->sort_by;
        if (by->sortby_dir == PG_QUERY__SORT_BY_DIR__SORTBY_USING) {
            return gy_sql_unsupported(in, by->location, "order by … using");
        }
        GY_TRY(gy_sql_expression(in, by->node, &to->order[i].value));
        to->order[i].is_descending = by->sortby_dir == PG_QUERY__SORT_BY_DIR__SORTBY_DESC;
        to->order[i].nulls = by->sortby_nulls == PG_QUERY__SORT_BY_NULLS__SORTBY_NULLS_FIRST
                                 ? GY_SQL_NULLS_FIRST
                             : by->sortby_nulls == PG_QUERY__SORT_BY_NULLS__SORTBY_NULLS_LAST
                                 ? GY_SQL_NULLS_LAST
                                 : GY_SQL_NULLS_USUAL;
    }
    to->order_count = (uint32_t)stmt->n_sort_clause;
    return GY_OK;
}

static gy_status values(gy_sql_reader *in, const PgQuery__SelectStmt *stmt, gy_sql_select *to)
{
    to->rows = gy_sql_new(in, stmt->n_values_lists, sizeof(gy_sql_node **));
    if (to->rows == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < stmt->n_values_lists; i++) {
        const PgQuery__List *list = stmt->values_lists[i]->list;
        gy_sql_node row = {.kind = GY_SQL_COALESCE};
        GY_TRY(gy_sql_items(in, &row, list->items, list->n_items));
        if (i > 0 && row.count != to->column_count) {
            return gy_sql_refuse(in->source, row.count > 0 ? row.items[0]->place : 0, GY_FORMAT,
                                 "VALUES lists must all be the same length: %u and %u",
                                 to->column_count, row.count);
        }
        to->rows[i] = row.items;
        to->column_count = row.count;
        to->place = row.count > 0 ? row.items[0]->place : 0;
    }
    to->row_count = (uint32_t)stmt->n_values_lists;
    return GY_OK;
}

static gy_status with(gy_sql_reader *in, const PgQuery__WithClause *clause, gy_sql_select *to)
{
    if (clause->recursive) {
        return gy_sql_unsupported(in, clause->location, "with recursive");
    }
    to->with = gy_sql_new(in, clause->n_ctes, sizeof(*to->with));
    if (to->with == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < clause->n_ctes; i++) {
        const PgQuery__CommonTableExpr *one = clause->ctes[i]->common_table_expr;
        gy_sql_view *view = &to->with[i];
        if (one->ctequery->node_case != PG_QUERY__NODE__NODE_SELECT_STMT) {
            return gy_sql_unsupported(in, one->location, "a WITH that changes data");
        }
        view->place = gy_sql_place(in, one->location);
        GY_TRY(gy_sql_name_of(in, one->ctename, &view->name));
        GY_TRY(gy_sql_names_of(in, one->aliascolnames, one->n_aliascolnames, &view->columns,
                               &view->column_count));
        GY_TRY(gy_sql_select_of(in, one->ctequery->select_stmt, &view->select));
    }
    to->with_count = (uint32_t)clause->n_ctes;
    return GY_OK;
}

/* ---- Selections ---- */

static const char *unsupported_of(const PgQuery__SelectStmt *stmt)
{
    const bool is_on = stmt->n_distinct_clause > 0 &&
                       stmt->distinct_clause[0]->node_case != PG_QUERY__NODE__NODE__NOT_SET;
    return is_on                        ? "distinct on"
           : stmt->into_clause != NULL  ? "select into"
           : stmt->n_window_clause > 0  ? "window functions"
           : stmt->n_locking_clause > 0 ? "for update"
           : stmt->group_distinct       ? "group by distinct"
           : stmt->limit_option == PG_QUERY__LIMIT_OPTION__LIMIT_OPTION_WITH_TIES ? "with ties"
                                                                                  : NULL;
}

static gy_status plain(gy_sql_reader *in, const PgQuery__SelectStmt *stmt, gy_sql_select *to)
{
    if (stmt->n_values_lists > 0) {
        return values(in, stmt, to);
    }
    to->is_distinct = stmt->n_distinct_clause > 0;
    GY_TRY(targets(in, stmt, to));
    GY_TRY(from_list(in, stmt, to));
    if (stmt->where_clause != NULL) {
        GY_TRY(gy_sql_expression(in, stmt->where_clause, &to->where));
    }
    GY_TRY(groups(in, stmt, to));
    return stmt->having_clause != NULL ? gy_sql_expression(in, stmt->having_clause, &to->having)
                                       : GY_OK;
}

static gy_status set_of(gy_sql_reader *in, const PgQuery__SelectStmt *stmt, gy_sql_select *to)
{
    to->set = stmt->op == PG_QUERY__SET_OPERATION__SETOP_UNION       ? GY_SQL_UNION
              : stmt->op == PG_QUERY__SET_OPERATION__SETOP_INTERSECT ? GY_SQL_INTERSECT
                                                                     : GY_SQL_EXCEPT;
    to->is_all = stmt->all;
    GY_TRY(gy_sql_select_of(in, stmt->larg, &to->left));
    GY_TRY(gy_sql_select_of(in, stmt->rarg, &to->right));
    to->place = to->left->place;
    return GY_OK;
}

static gy_status select_of(gy_sql_reader *in, const PgQuery__SelectStmt *stmt,
                           gy_sql_select *to)
{
    const char *unsupported = unsupported_of(stmt);
    if (unsupported != NULL) {
        return gy_sql_unsupported(in, -1, unsupported);
    }
    if (stmt->with_clause != NULL) {
        GY_TRY(with(in, stmt->with_clause, to));
    }
    const bool is_set = stmt->op != PG_QUERY__SET_OPERATION__SETOP_NONE &&
                        stmt->op != PG_QUERY__SET_OPERATION__SET_OPERATION_UNDEFINED;
    GY_TRY(is_set ? set_of(in, stmt, to) : plain(in, stmt, to));
    GY_TRY(orders(in, stmt, to));
    if (stmt->limit_count != NULL) {
        GY_TRY(gy_sql_expression(in, stmt->limit_count, &to->limit));
    }
    return stmt->limit_offset != NULL ? gy_sql_expression(in, stmt->limit_offset, &to->offset)
                                      : GY_OK;
}

gy_status gy_sql_select_of(gy_sql_reader *in, const PgQuery__SelectStmt *stmt,
                           gy_sql_select **out)
{
    *out = gy_sql_new(in, 1, sizeof(**out));
    if (*out == NULL) {
        return GY_NOMEM;
    }
    if (in->depth >= GY_SQL_DEPTH_MAX) {
        return gy_sql_refuse(in->source, 0, GY_LIMIT, "a query of more than %d levels",
                             GY_SQL_DEPTH_MAX);
    }
    in->depth++;
    const gy_status status = select_of(in, stmt, *out);
    in->depth--;
    return status;
}

/* ---- Statements ---- */

static gy_status view(gy_sql_reader *in, const PgQuery__ViewStmt *stmt, gy_sql_statement *out)
{
    if (stmt->n_options > 0 || stmt->query->node_case != PG_QUERY__NODE__NODE_SELECT_STMT ||
        stmt->view->schemaname[0] != '\0') {
        return gy_sql_unsupported(in, out->place, "this form of a view");
    }
    out->what = GY_SQL_CREATE_VIEW;
    out->is_replacing = stmt->replace;
    out->view.place = gy_sql_place(in, stmt->view->location);
    GY_TRY(gy_sql_name_of(in, stmt->view->relname, &out->view.name));
    GY_TRY(gy_sql_names_of(in, stmt->aliases, stmt->n_aliases, &out->view.columns,
                           &out->view.column_count));
    return gy_sql_select_of(in, stmt->query->select_stmt, &out->view.select);
}

static gy_status drop(const gy_sql_reader *in, const PgQuery__DropStmt *stmt,
                      gy_sql_statement *out)
{
    const PgQuery__Node *name = stmt->n_objects == 1 ? stmt->objects[0] : NULL;
    const bool is_view = stmt->remove_type == PG_QUERY__OBJECT_TYPE__OBJECT_VIEW &&
                         name != NULL && name->node_case == PG_QUERY__NODE__NODE_LIST &&
                         name->list->n_items == 1;
    if (!is_view) {
        return gy_sql_unsupported(in, out->place, "drop, but of one view");
    }
    out->what = GY_SQL_DROP_VIEW;
    out->may_be_missing = stmt->missing_ok;
    out->view.place = out->place;
    return gy_sql_name_of(in, name->list->items[0]->string->sval, &out->view.name);
}

/* The first word of a statement, for people. */
static gy_status unknown(const gy_sql_reader *in, const gy_sql_statement *statement)
{
    char word[32];
    size_t count = 0;
    const char *at = in->source->text + statement->place;
    while (count + 1 < sizeof(word) &&
           ((at[count] | 0x20) >= 'a' && (at[count] | 0x20) <= 'z')) {
        word[count] = (char)(at[count] | 0x20);
        count++;
    }
    word[count] = '\0';
    const char *instead =
        strcmp(word, "explain") == 0 ? "explain (the option --explain does it)"
        : strcmp(word, "copy") == 0  ? "copy (the option --output writes answers to a file)"
                                     : word;
    return gy_sql_unsupported(in, statement->place, count > 0 ? instead : "this statement");
}

gy_status gy_sql_statement_of(gy_sql_reader *in, const PgQuery__RawStmt *raw,
                              gy_sql_statement *out)
{
    const gy_sql_source *source = in->source;
    size_t begin = raw->stmt_location > 0 ? (size_t)raw->stmt_location : 0;
    const size_t end = raw->stmt_len > 0 ? begin + (size_t)raw->stmt_len : source->size;
    GY_ASSERT(begin <= end && end <= source->size);
    while (begin < end && strchr(" \t\r\n\f\v", source->text[begin]) != NULL) {
        begin++;
    }
    *out = (gy_sql_statement){.place = (uint32_t)begin, .end = (uint32_t)end};
    switch ((int)raw->stmt->node_case) { /* of 239 kinds */
    case PG_QUERY__NODE__NODE_SELECT_STMT:
        return gy_sql_select_of(in, raw->stmt->select_stmt, &out->select);
    case PG_QUERY__NODE__NODE_VIEW_STMT:
        return view(in, raw->stmt->view_stmt, out);
    case PG_QUERY__NODE__NODE_DROP_STMT:
        return drop(in, raw->stmt->drop_stmt, out);
    default:
        return unknown(in, out);
    }
}
