/* Expressions of a plan, bound to the rows of its operators. */
#include "query/run/run.h"

#include <string.h>

typedef struct columns {
    const gy_query_plan *plan;
    const gy_query_node *left, *right;
} columns;

int gy_query_index(const gy_query_node *node, uint32_t column)
{
    for (uint32_t i = 0; i < node->count; i++) {
        if (node->columns[i] == column) {
            return (int)i;
        }
    }
    return -1;
}

static gy_status column_of(void *arg, const gy_sql_node *node, int *index, gy_expr_type *type)
{
    const columns *in = arg;
    *index = gy_query_index(in->left, node->column);
    if (*index < 0 && in->right != NULL) {
        *index = gy_query_index(in->right, node->column);
        GY_ASSERT(*index >= 0);
        *index += (int)in->left->count;
    }
    GY_ASSERT(*index >= 0);
    *type = in->plan->columns[node->column].type;
    type->is_unknown = false;
    return GY_OK;
}

static gy_expr_scope scope_of(gy_query_run *run, columns *of)
{
    return (gy_expr_scope){.source = run->plan->source,
                           .arena = &run->arena,
                           .column = of->left != NULL ? column_of : NULL,
                           .arg = of,
                           .functions = run->plan->functions};
}

gy_status gy_query_bind(gy_query_run *run, const gy_query_node *left,
                        const gy_query_node *right, const gy_sql_node *node,
                        const gy_expr **expr)
{
    columns of = {.plan = run->plan, .left = left, .right = right};
    const gy_expr_scope scope = scope_of(run, &of);
    return gy_expr_bind(&scope, node, expr);
}

gy_status gy_query_bind_conditions(gy_query_run *run, const gy_query_node *node,
                                   const gy_query_node *left, const gy_query_node *right,
                                   const gy_expr **expr)
{
    GY_ASSERT(node->condition_count > 0);
    const gy_sql_node all = {.kind = GY_SQL_AND,
                             .place = node->conditions[0]->place,
                             .items = node->conditions,
                             .count = node->condition_count};
    columns of = {.plan = run->plan, .left = left, .right = right};
    const gy_expr_scope scope = scope_of(run, &of);
    return gy_expr_bind_condition(
        &scope, node->condition_count == 1 ? node->conditions[0] : &all, expr);
}

gy_status gy_query_schema_of(const gy_query_plan *plan, const uint32_t *numbers, uint32_t count,
                             gy_schema **schema)
{
    gy_field *fields = gy_alloc_zero("query.fields", (size_t)count + 1, sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        const gy_query_column *column = &plan->columns[numbers[i]];
        const bool is_decimal = column->type.kind == GY_FIELD_DECIMAL;
        fields[i] = (gy_field){.name = column->name,
                               .kind = column->type.kind,
                               .precision = is_decimal ? column->type.precision : 0,
                               .scale = is_decimal ? column->type.scale : 0};
    }
    const gy_status status = gy_schema_new(fields, (int)count, schema);
    gy_free(fields);
    return status;
}

gy_status gy_query_step_of(gy_query_run *run, const gy_query_node *node, gy_query_step *step)
{
    *step = (gy_query_step){.node = node, .meter = &run->meters[node->number]};
    if (node->kind == GY_QUERY_FILTER) {
        return gy_query_bind_conditions(run, node, node->left, NULL, &step->condition);
    }
    GY_ASSERT(node->kind == GY_QUERY_PROJECT);
    const gy_expr **values = gy_arena_alloc(&run->arena, (node->count + 1) * sizeof(*values));
    if (values == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        GY_TRY(gy_query_bind(run, node->left, NULL, node->values[i], &values[i]));
    }
    step->values = values;
    return gy_query_schema_of(run->plan, node->columns, node->count, &step->schema);
}
