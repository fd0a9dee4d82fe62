/* Operators and columns. */
#include "query/plan/plan_priv.h"

#include <string.h>

/* ---- Columns and types ---- */

gy_status gy_query_column_add(const gy_query_planner *planner, const char *name,
                              const gy_expr_type *type, uint32_t *column)
{
    gy_query_plan *plan = planner->plan;
    GY_TRY(
        GY_GROW("query.columns", plan->columns, plan->column_capacity, plan->column_count + 1));
    gy_query_column *made = &plan->columns[plan->column_count];
    *made = (gy_query_column){.name = name, .type = *type};
    made->type.is_nullable = true; /* outer joins above it are not known yet */
    if (type->is_unknown) {
        made->type.kind = GY_FIELD_TEXT;
    }
    *column = (uint32_t)plan->column_count++;
    return GY_OK;
}

static gy_status column_of(void *arg, const gy_sql_node *node, int *index, gy_expr_type *type)
{
    const gy_query_plan *plan = arg;
    GY_ASSERT(node->column < plan->column_count);
    *index = (int)node->column;
    *type = plan->columns[node->column].type;
    type->is_unknown = false;
    return GY_OK;
}

gy_status gy_query_type(const gy_query_planner *planner, const gy_sql_node *node,
                        gy_expr_type *type)
{
    const gy_expr_scope scope = {.source = planner->source,
                                 .arena = planner->arena,
                                 .column = column_of,
                                 .arg = planner->plan,
                                 .functions = planner->plan->functions};
    const gy_expr *expr = NULL;
    GY_TRY(gy_expr_bind(&scope, node, &expr));
    *type = *gy_expr_type_of(expr);
    return GY_OK;
}

gy_status gy_query_check_condition(const gy_query_planner *planner, const gy_sql_node *node)
{
    const gy_expr_scope scope = {.source = planner->source,
                                 .arena = planner->arena,
                                 .column = column_of,
                                 .arg = planner->plan,
                                 .functions = planner->plan->functions};
    const gy_expr *expr = NULL;
    return gy_expr_bind_condition(&scope, node, &expr);
}

/* ---- Casts ---- */

gy_sql_node *gy_query_cast(const gy_query_planner *planner, gy_sql_node *value,
                           const gy_expr_type *type)
{
    static const char *const names[] = {
        [GY_FIELD_BOOL] = "bool",     [GY_FIELD_INT64] = "int8",
        [GY_FIELD_DOUBLE] = "float8", [GY_FIELD_DECIMAL] = "numeric",
        [GY_FIELD_DATE] = "date",     [GY_FIELD_TIMESTAMP] = "timestamp",
        [GY_FIELD_TEXT] = "text"};
    gy_sql_node *const items[1] = {value};
    gy_sql_node *made =
        gy_query_make(planner, GY_SQL_CAST, value != NULL ? value->place : 0, items, 1);
    if (made != NULL) {
        made->text = names[type->kind];
        if (type->kind == GY_FIELD_DECIMAL) {
            made->modifiers[0] = type->precision;
            made->modifiers[1] = type->scale;
            made->modifier_count = 2;
        }
    }
    return made;
}

bool gy_query_is_same_type(const gy_expr_type *a, const gy_expr_type *b)
{
    return a->kind == b->kind && a->precision == b->precision && a->scale == b->scale &&
           a->is_unknown == b->is_unknown;
}

/* ---- Operators ---- */

gy_query_node *gy_query_node_new(const gy_query_planner *planner, gy_query_kind kind,
                                 gy_query_node *left, gy_query_node *right, uint32_t count)
{
    gy_query_node *made = gy_query_alloc(planner, 1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    *made = (gy_query_node){.kind = kind, .left = left, .right = right, .limit = -1};
    made->columns = gy_query_alloc(planner, count, sizeof(*made->columns));
    made->count = count;
    planner->plan->made_cells += 16 + (uint64_t)count; /* an operator is some ten columns */
    return made->columns != NULL ? made : NULL;
}

/* One whose columns are its left input's. */
static gy_query_node *over(const gy_query_planner *planner, gy_query_kind kind,
                           gy_query_node *left)
{
    gy_query_node *made = gy_query_node_new(planner, kind, left, NULL, left->count);
    if (made != NULL && left->count > 0) {
        memcpy(made->columns, left->columns, left->count * sizeof(*left->columns));
    }
    return made;
}

gy_status gy_query_filter(const gy_query_planner *planner, const gy_query_list *conditions,
                          gy_query_node **input)
{
    if (conditions->count == 0) {
        return GY_OK;
    }
    gy_query_node *made = over(planner, GY_QUERY_FILTER, *input);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->conditions = conditions->items;
    made->condition_count = conditions->count;
    *input = made;
    return GY_OK;
}

gy_status gy_query_join_nodes(const gy_query_planner *planner, gy_query_join join,
                              const gy_query_list *on, gy_query_node *right,
                              gy_query_node **left)
{
    const bool is_left_alone = join >= GY_QUERY_SEMI;
    const uint32_t count = (*left)->count + (is_left_alone ? 0 : right->count);
    gy_query_node *made = gy_query_node_new(planner, GY_QUERY_JOIN, *left, right, count);
    if (made == NULL) {
        return GY_NOMEM;
    }
    memcpy(made->columns, (*left)->columns, (*left)->count * sizeof(*made->columns));
    if (!is_left_alone) {
        memcpy(made->columns + (*left)->count, right->columns,
               right->count * sizeof(*made->columns));
    }
    made->join = join;
    if (on != NULL) {
        made->conditions = on->items;
        made->condition_count = on->count;
    }
    *left = made;
    return GY_OK;
}

gy_status gy_query_keep(const gy_query_planner *planner, const uint32_t *columns,
                        uint32_t count, gy_query_node **input)
{
    if (count == (*input)->count &&
        memcmp(columns, (*input)->columns, count * sizeof(*columns)) == 0) {
        return GY_OK;
    }
    gy_query_node *made = gy_query_node_new(planner, GY_QUERY_PROJECT, *input, NULL, count);
    gy_sql_node **values = gy_query_alloc(planner, count, sizeof(gy_sql_node *));
    if (made == NULL || values == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        made->columns[i] = columns[i];
        values[i] = gy_query_make_column(planner, columns[i], 0);
        if (values[i] == NULL) {
            return GY_NOMEM;
        }
    }
    made->values = values;
    *input = made;
    return GY_OK;
}

/* Whether the projection computes nothing of its own columns: one more may join them. */
static bool is_open(const gy_query_node *node, const gy_sql_node *value)
{
    if (node->kind != GY_QUERY_PROJECT || node->left == NULL) {
        return false;
    }
    return gy_query_uses_only(value, node->left->columns, node->left->count);
}

gy_status gy_query_compute(const gy_query_planner *planner, const char *name,
                           gy_sql_node *value, gy_query_node **input, uint32_t *column)
{
    gy_expr_type type;
    if (value->kind == GY_SQL_COLUMN &&
        gy_query_has((*input)->columns, (*input)->count, value->column)) {
        *column = value->column;
        return GY_OK;
    }
    GY_TRY(gy_query_type(planner, value, &type));
    if (type.is_interval) {
        return gy_sql_refuse(
            planner->source, value->place, GY_UNSUPPORTED,
            "not supported: intervals as a column (cast it to text, or extract a part)");
    }
    if (name == NULL) {
        gy_text text = {.data = NULL};
        gy_sql_print_node(value, &text);
        char *copy = gy_query_alloc(planner, text.size_bytes + 1, 1);
        if (copy != NULL && text.status == GY_OK) {
            memcpy(copy, gy_text_get(&text), text.size_bytes + 1);
        }
        const gy_status status = copy == NULL ? GY_NOMEM : text.status;
        gy_text_free(&text);
        GY_TRY(status);
        name = copy;
    }
    GY_TRY(gy_query_column_add(planner, name, &type, column));
    gy_query_node *old = *input;
    const bool is_more = is_open(old, value);
    gy_query_node *made = gy_query_node_new(planner, GY_QUERY_PROJECT,
                                            is_more ? old->left : old, NULL, old->count + 1);
    gy_sql_node **values = gy_query_alloc(planner, old->count + 1, sizeof(gy_sql_node *));
    if (made == NULL || values == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < old->count; i++) {
        made->columns[i] = old->columns[i];
        values[i] =
            is_more ? old->values[i] : gy_query_make_column(planner, old->columns[i], 0);
        if (values[i] == NULL) {
            return GY_NOMEM;
        }
    }
    made->columns[old->count] = *column;
    values[old->count] = value;
    made->values = values;
    *input = made;
    return GY_OK;
}
