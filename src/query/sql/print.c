/* A tree as a text that reads to the same tree: each operation in parentheses. */
#include "query/sql/sql.h"

#include <string.h>

static void print_select(const gy_sql_select *select, gy_text *text);

/* ---- Names and texts ---- */

static void print_within(char quote, const char *value, gy_text *text)
{
    gy_text_add(text, "%c", quote);
    for (; *value != '\0'; value++) {
        gy_text_add(text, *value == quote ? "%c%c" : "%c", *value, quote);
    }
    gy_text_add(text, "%c", quote);
}

static void print_name(const gy_sql_name *name, gy_text *text)
{
    if (name->is_quoted) {
        print_within('"', name->text, text);
    } else {
        gy_text_add(text, "%s", name->text);
    }
}

static void print_names(const gy_sql_name *names, uint32_t count, gy_text *text)
{
    for (uint32_t i = 0; i < count; i++) {
        gy_text_add(text, i == 0 ? "(" : ", ");
        print_name(&names[i], text);
    }
    gy_text_add(text, count > 0 ? ")" : "");
}

/* ---- Expressions ---- */

static void print_items(const gy_sql_node *node, uint32_t first, const char *between,
                        gy_text *text)
{
    for (uint32_t i = first; i < node->count; i++) {
        gy_text_add(text, "%s", i == first ? "" : between);
        gy_sql_print_node(node->items[i], text);
    }
}

static void print_case(const gy_sql_node *node, gy_text *text)
{
    gy_text_add(text, "case");
    for (uint32_t i = 0; i + 1 < node->count; i += 2) {
        gy_text_add(text, " when ");
        gy_sql_print_node(node->items[i], text);
        gy_text_add(text, " then ");
        gy_sql_print_node(node->items[i + 1], text);
    }
    if (node->count % 2 == 1) {
        gy_text_add(text, " else ");
        gy_sql_print_node(node->items[node->count - 1], text);
    }
    gy_text_add(text, " end");
}

static void print_cast(const gy_sql_node *node, gy_text *text)
{
    gy_text_add(text, "cast(");
    print_items(node, 0, ", ", text);
    gy_text_add(text, " as pg_catalog.%s", node->text);
    for (int32_t i = 0; i < node->modifier_count; i++) {
        gy_text_add(text, "%s%d", i == 0 ? "(" : ", ", node->modifiers[i]);
    }
    gy_text_add(text, node->modifier_count > 0 ? "))" : ")");
}

static void print_call(const gy_sql_node *node, gy_text *text)
{
    const gy_sql_name name = {.text = node->text, .is_quoted = true};
    print_name(&name, text);
    gy_text_add(text, "(%s%s", node->is_star ? "*" : "", node->is_distinct ? "distinct " : "");
    print_items(node, 0, ", ", text);
    gy_text_add(text, ")");
}

/* Between the first item and the rest. */
static void print_test(const gy_sql_node *node, const char *is, const char *is_not,
                       const char *between, gy_text *text)
{
    gy_text_add(text, "(");
    gy_sql_print_node(node->items[0], text);
    gy_text_add(text, " %s ", node->is_not ? is_not : is);
    print_items(node, 1, between, text);
    gy_text_add(text, ")");
}

static void print_function(const char *name, const gy_sql_node *node, gy_text *text)
{
    gy_text_add(text, "%s(", name);
    print_items(node, 0, ", ", text);
    gy_text_add(text, ")");
}

static void print_operation(const gy_sql_node *node, gy_text *text)
{
    gy_text_add(text, "(");
    if (node->count == 2) {
        gy_sql_print_node(node->items[0], text);
        gy_text_add(text, " ");
    }
    gy_text_add(text, "%s ", node->text);
    gy_sql_print_node(node->items[node->count - 1], text);
    gy_text_add(text, ")");
}

static void print_list_test(const gy_sql_node *node, gy_text *text)
{
    gy_text_add(text, "(");
    gy_sql_print_node(node->items[0], text);
    gy_text_add(text, node->is_not ? " not in (" : " in (");
    print_items(node, 1, ", ", text);
    gy_text_add(text, "))");
}

static void print_sub_query(const gy_sql_node *node, const char *quantifier, gy_text *text)
{
    gy_text_add(text, "(");
    print_items(node, 0, ", ", text);
    gy_text_add(text, "%s%s%s(", node->text != NULL ? " " : "",
                node->text != NULL ? node->text : "", quantifier);
    print_select(node->select, text);
    gy_text_add(text, "))");
}

static void print_column(const gy_sql_node *node, gy_text *text)
{
    if (node->table != NULL) {
        print_within('"', node->table, text);
        gy_text_add(text, ".");
    }
    if (node->kind == GY_SQL_STAR) {
        gy_text_add(text, "*");
    } else {
        const gy_sql_name name = {.text = node->text, .is_quoted = node->is_quoted};
        print_name(&name, text);
    }
}

/* Those with a form of their own; false: the kind is none of them. */
static bool print_special(const gy_sql_node *node, gy_text *text)
{
    switch ((int)node->kind) {
    case GY_SQL_LIKE:
        print_test(node, "like", "not like", " escape ", text);
        return true;
    case GY_SQL_ILIKE:
        print_test(node, "ilike", "not ilike", " escape ", text);
        return true;
    case GY_SQL_BETWEEN:
        print_test(node, "between", "not between", " and ", text);
        return true;
    case GY_SQL_SYMMETRIC:
        print_test(node, "between symmetric", "not between symmetric", " and ", text);
        return true;
    case GY_SQL_DISTINCT:
        print_test(node, "is distinct from", "is not distinct from", "", text);
        return true;
    case GY_SQL_SCALAR:
        print_sub_query(node, "", text);
        return true;
    case GY_SQL_EXISTS:
        print_sub_query(node, "exists ", text);
        return true;
    case GY_SQL_IN_SELECT:
        print_sub_query(node, " in ", text);
        return true;
    case GY_SQL_ALL_SELECT:
        print_sub_query(node, " all ", text);
        return true;
    case GY_SQL_ANY_SELECT:
        print_sub_query(node, " any ", text);
        return true;
    default:
        return false;
    }
}

static void print_literal(const gy_sql_node *node, gy_text *text)
{
    if (node->kind == GY_SQL_TEXT) {
        print_within('\'', node->text, text);
    } else if (node->kind == GY_SQL_NUMBER && node->text[0] == '-') {
        gy_text_add(text, "(%s)", node->text);
    } else {
        gy_text_add(text, "%s", node->kind == GY_SQL_NULL ? "null" : node->text);
    }
}

void gy_sql_print_node(const gy_sql_node *node, gy_text *text)
{
    static const char *const functions[GY_SQL_KINDS] = {[GY_SQL_NULLIF] = "nullif",
                                                        [GY_SQL_COALESCE] = "coalesce",
                                                        [GY_SQL_GREATEST] = "greatest",
                                                        [GY_SQL_LEAST] = "least"};
    if (functions[node->kind] != NULL) {
        print_function(functions[node->kind], node, text);
        return;
    }
    if (print_special(node, text)) {
        return;
    }
    switch ((int)node->kind) {
    case GY_SQL_COLUMN:
    case GY_SQL_STAR:
        print_column(node, text);
        return;
    case GY_SQL_OPERATION:
        print_operation(node, text);
        return;
    case GY_SQL_AND:
    case GY_SQL_OR:
        gy_text_add(text, "(");
        print_items(node, 0, node->kind == GY_SQL_AND ? " and " : " or ", text);
        gy_text_add(text, ")");
        return;
    case GY_SQL_NOT:
        gy_text_add(text, "(not ");
        print_items(node, 0, "", text);
        gy_text_add(text, ")");
        return;
    case GY_SQL_IS_NULL:
    case GY_SQL_IS_TRUTH:
        gy_text_add(text, "(");
        print_items(node, 0, "", text);
        gy_text_add(text, " is %s%s)", node->is_not ? "not " : "",
                    node->kind == GY_SQL_IS_NULL ? "null" : node->text);
        return;
    case GY_SQL_IN:
        print_list_test(node, text);
        return;
    case GY_SQL_CASE:
        print_case(node, text);
        return;
    case GY_SQL_CAST:
        print_cast(node, text);
        return;
    case GY_SQL_CALL:
        print_call(node, text);
        return;
    default:
        print_literal(node, text);
        return;
    }
}

/* ---- Selections ---- */

static void print_from(const gy_sql_from *from, gy_text *text)
{
    static const char *const joins[] = {[GY_SQL_CROSS] = "cross join",
                                        [GY_SQL_INNER] = "join",
                                        [GY_SQL_LEFT] = "left join",
                                        [GY_SQL_RIGHT] = "right join",
                                        [GY_SQL_FULL] = "full join"};
    if (from->kind == GY_SQL_JOIN) {
        gy_text_add(text, "(");
        print_from(from->left, text);
        gy_text_add(text, " %s ", joins[from->join]);
        print_from(from->right, text);
        if (from->on != NULL) {
            gy_text_add(text, " on ");
            gy_sql_print_node(from->on, text);
        }
        gy_text_add(text, from->using_count > 0 ? " using " : "");
        print_names(from->using, from->using_count, text);
        gy_text_add(text, ")");
        return;
    }
    if (from->kind == GY_SQL_TABLE) {
        print_name(&from->name, text);
    } else if (from->kind == GY_SQL_DERIVED) {
        gy_text_add(text, "(");
        print_select(from->select, text);
        gy_text_add(text, ")");
    } else {
        print_within('"', from->call->text, text);
        for (uint32_t i = 0; i < from->call->count; i++) {
            gy_text_add(text, i > 0 ? ", " : "(");
            if (from->names[i] != NULL) {
                print_within('"', from->names[i], text);
                gy_text_add(text, " => ");
            }
            gy_sql_print_node(from->call->items[i], text);
        }
        gy_text_add(text, from->call->count > 0 ? ")" : "()");
    }
    if (from->alias.text != NULL) {
        gy_text_add(text, " as ");
        print_name(&from->alias, text);
        print_names(from->columns, from->column_count, text);
    }
}

static void print_values(const gy_sql_select *select, gy_text *text)
{
    gy_text_add(text, "values ");
    for (uint32_t i = 0; i < select->row_count; i++) {
        for (uint32_t k = 0; k < select->column_count; k++) {
            gy_text_add(text, k > 0 ? ", " : i > 0 ? ", (" : "(");
            gy_sql_print_node(select->rows[i][k], text);
        }
        gy_text_add(text, ")");
    }
}

static void print_plain(const gy_sql_select *select, gy_text *text)
{
    gy_text_add(text, select->is_distinct ? "select distinct " : "select ");
    for (uint32_t i = 0; i < select->target_count; i++) {
        gy_text_add(text, "%s", i > 0 ? ", " : "");
        gy_sql_print_node(select->targets[i].value, text);
        if (select->targets[i].name.text != NULL) {
            gy_text_add(text, " as ");
            print_name(&select->targets[i].name, text);
        }
    }
    if (select->from != NULL) {
        gy_text_add(text, " from ");
        print_from(select->from, text);
    }
    if (select->where != NULL) {
        gy_text_add(text, " where ");
        gy_sql_print_node(select->where, text);
    }
    for (uint32_t i = 0; i < select->group_count; i++) {
        gy_text_add(text, i > 0 ? ", " : " group by ");
        gy_sql_print_node(select->groups[i], text);
    }
    if (select->having != NULL) {
        gy_text_add(text, " having ");
        gy_sql_print_node(select->having, text);
    }
}

static void print_set(const gy_sql_select *select, gy_text *text)
{
    static const char *const names[] = {
        [GY_SQL_UNION] = "union", [GY_SQL_INTERSECT] = "intersect", [GY_SQL_EXCEPT] = "except"};
    gy_text_add(text, "(");
    print_select(select->left, text);
    gy_text_add(text, ") %s%s (", names[select->set], select->is_all ? " all" : "");
    print_select(select->right, text);
    gy_text_add(text, ")");
}

static void print_view(const gy_sql_view *view, gy_text *text)
{
    print_name(&view->name, text);
    print_names(view->columns, view->column_count, text);
    gy_text_add(text, " as ");
}

static void print_end(const gy_sql_select *select, gy_text *text)
{
    static const char *const nulls[] = {"", " nulls first", " nulls last"};
    for (uint32_t i = 0; i < select->order_count; i++) {
        const gy_sql_order *by = &select->order[i];
        gy_text_add(text, i > 0 ? ", " : " order by ");
        gy_sql_print_node(by->value, text);
        gy_text_add(text, "%s%s", by->is_descending ? " desc" : "", nulls[by->nulls]);
    }
    if (select->limit != NULL) {
        gy_text_add(text, " limit ");
        gy_sql_print_node(select->limit, text);
    }
    if (select->offset != NULL) {
        gy_text_add(text, " offset ");
        gy_sql_print_node(select->offset, text);
    }
}

static void print_select(const gy_sql_select *select, gy_text *text)
{
    for (uint32_t i = 0; i < select->with_count; i++) {
        gy_text_add(text, i > 0 ? ", " : "with ");
        print_view(&select->with[i], text);
        gy_text_add(text, "(");
        print_select(select->with[i].select, text);
        gy_text_add(text, ")");
    }
    gy_text_add(text, select->with_count > 0 ? " " : "");
    if (select->set != GY_SQL_NO_SET) {
        print_set(select, text);
    } else if (select->row_count > 0) {
        print_values(select, text);
    } else {
        print_plain(select, text);
    }
    print_end(select, text);
}

void gy_sql_print(const gy_sql_statement *statement, gy_text *text)
{
    switch (statement->what) {
    case GY_SQL_CREATE_VIEW:
        gy_text_add(text, statement->is_replacing ? "create or replace view " : "create view ");
        print_view(&statement->view, text);
        print_select(statement->view.select, text);
        return;
    case GY_SQL_DROP_VIEW:
        gy_text_add(text, statement->may_be_missing ? "drop view if exists " : "drop view ");
        print_name(&statement->view.name, text);
        return;
    case GY_SQL_ASK:
    default:
        print_select(statement->select, text);
        return;
    }
}
