/* What stages are made of, while a plan is cut. */
#include "query/dag/dag_priv.h"

#include <string.h>

void *gy_query_stages_take(gy_query_stages *stages, size_t count, size_t size_bytes)
{
    void *made = gy_arena_alloc(&stages->plan.arena, (count + 1) * size_bytes);
    if (made != NULL) {
        memset(made, 0, (count + 1) * size_bytes);
    }
    return made;
}

gy_status gy_query_stages_add(gy_query_stages *to, const gy_query_table *table,
                              uint32_t vertices, gy_query_stage **out)
{
    gy_query_stage *made = gy_query_stages_take(to, 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    if (to->count == to->capacity) {
        const size_t capacity = 2 * (size_t)to->capacity + 8;
        gy_query_stage **more = gy_query_stages_take(to, capacity, sizeof(gy_query_stage *));
        if (more == NULL) {
            return GY_NOMEM;
        }
        if (to->count > 0) {
            memcpy(more, to->items, to->count * sizeof(gy_query_stage *));
        }
        to->items = more;
        to->capacity = (uint32_t)capacity;
    }
    *made = (gy_query_stage){.table = table,
                             .vertices = vertices,
                             .like = GY_QUERY_NONE,
                             .sink = {.parts = 1, .ordinal = GY_QUERY_NONE}};
    to->items[to->count++] = made;
    *out = made;
    return GY_OK;
}

/* What reads an input: columns of those that arrive. */
gy_status gy_query_input_scan(gy_query_stages *stages, gy_query_input *input,
                              const uint32_t *columns, uint32_t count, double guess,
                              gy_query_node **out)
{
    gy_query_node *made = gy_query_stages_take(stages, 1, sizeof(*made));
    int *fields = gy_query_stages_take(stages, count, sizeof(*fields));
    uint32_t *copy = gy_query_stages_take(stages, count, sizeof(*copy));
    if (made == NULL || fields == NULL || copy == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        while (at < input->count && input->columns[at] != columns[i]) {
            at++;
        }
        GY_ASSERT(at < input->count);
        fields[i] = (int)at;
        copy[i] = columns[i];
    }
    *made = (gy_query_node){.kind = GY_QUERY_SCAN,
                            .table = &input->leaf,
                            .fields = fields,
                            .columns = copy,
                            .count = count,
                            .rows = guess};
    *out = made;
    return GY_OK;
}

gy_status gy_query_stage_read(gy_query_stages *stages, gy_query_stage *stage,
                              gy_query_input *input)
{
    gy_query_input **more =
        gy_query_stages_take(stages, (size_t)stage->input_count + 1, sizeof(*more));
    if (more == NULL) {
        return GY_NOMEM;
    }
    if (stage->input_count > 0) {
        memcpy(more, stage->inputs, stage->input_count * sizeof(gy_query_input *));
    }
    more[stage->input_count++] = input;
    stage->inputs = more;
    return GY_OK;
}

gy_status gy_query_stages_column(gy_query_stages *stages, uint32_t *column)
{
    gy_query_plan *plan = &stages->plan;
    GY_TRY(
        GY_GROW("query.columns", plan->columns, plan->column_capacity, plan->column_count + 1));
    plan->columns[plan->column_count] = (gy_query_column){
        .name = "row", .type = {.kind = GY_FIELD_INT64, .is_nullable = true}, .distinct = 1e9};
    *column = (uint32_t)plan->column_count++;
    return GY_OK;
}

uint32_t gy_query_stage_number(const gy_query_stages *stages, const gy_query_stage *stage)
{
    uint32_t i = 0;
    while (stages->items[i] != stage) {
        i++;
        GY_ASSERT(i < stages->count);
    }
    return i;
}

/* ---- Parts ---- */

gy_query_parting gy_query_join_parting(const gy_query_node *join)
{
    gy_query_parting by = {.key_count = join->key_count};
    switch (join->join) {
    case GY_QUERY_INNER:
        by.keys[0] = join->left_keys;
        by.keys[1] = join->right_keys;
        break;
    case GY_QUERY_LEFT:
    case GY_QUERY_SEMI:
    case GY_QUERY_ANTI:
        by.keys[0] = join->left_keys; /* the right ones are null where nothing matches */
        break;
    case GY_QUERY_RIGHT:
        by.keys[0] = join->right_keys;
        break;
    case GY_QUERY_FULL:
    case GY_QUERY_ANTI_NULL:
    default:
        break;
    }
    return by;
}

bool gy_query_is_parted(const gy_query_parting *by, const uint32_t *keys, uint32_t count)
{
    for (int i = 0; i < 2; i++) {
        if (by->keys[i] != NULL && count > 0 && by->key_count == count &&
            memcmp(by->keys[i], keys, count * sizeof(*keys)) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- Operators ---- */

static bool is_double(const gy_query_plan *plan, uint32_t column)
{
    return plan->columns[column].type.kind == GY_FIELD_DOUBLE;
}

bool gy_query_depends_on_order(const gy_query_plan *plan, const gy_query_node *node)
{
    for (uint32_t i = 0; i < node->group_count; i++) {
        if (is_double(plan, node->columns[i])) {
            return true;
        }
    }
    for (uint32_t i = 0; i < node->count - node->group_count; i++) {
        const gy_query_aggregate *one = &node->aggregates[i];
        if (strcmp(one->function, "any") == 0 ||
            ((strcmp(one->function, "min") == 0 || strcmp(one->function, "max") == 0) &&
             is_double(plan, one->input))) {
            return true;
        }
    }
    return false;
}

bool gy_query_is_sorted(const gy_query_node *node)
{
    const gy_query_node *below = node->left;
    while (below->kind == GY_QUERY_FILTER || below->kind == GY_QUERY_PROJECT) {
        below = below->left;
    }
    bool is_same = below->kind == GY_QUERY_SORT && node->key_count <= below->key_count;
    for (uint32_t i = 0; i < node->key_count && is_same; i++) {
        is_same = node->keys[i].column == below->keys[i].column &&
                  node->keys[i].is_descending == below->keys[i].is_descending &&
                  node->keys[i].has_nulls_first == below->keys[i].has_nulls_first;
    }
    return is_same;
}

gy_sql_node *gy_query_column_node(gy_query_stages *stages, uint32_t column)
{
    gy_sql_node *made = gy_query_stages_take(stages, 1, sizeof(*made));
    if (made != NULL) {
        *made = (gy_sql_node){
            .kind = GY_SQL_COLUMN, .text = stages->plan.columns[column].name, .column = column};
    }
    return made;
}

bool gy_query_has_distinct(const gy_query_node *node)
{
    for (uint32_t i = 0; i < node->count - node->group_count; i++) {
        if (node->aggregates[i].is_distinct) {
            return true;
        }
    }
    return false;
}

double gy_query_guess_bytes(const gy_query_node *node, double row_count)
{
    return row_count * (8.0 * node->count + 8);
}

bool gy_query_is_cut(const gy_query_node *node)
{
    return node->limit >= 0 && node->limit < INT64_MAX - node->offset;
}

bool gy_query_is_ranged(const gy_query_cut_options *options, const gy_query_node *node)
{
    return node->kind == GY_QUERY_SORT && options->parts > 1 &&
           gy_query_guess_bytes(node->left, node->left->rows) > options->broadcast_bytes &&
           (!gy_query_is_cut(node) ||
            gy_query_guess_bytes(node, (double)(node->limit + node->offset)) >
                options->broadcast_bytes);
}

/* ---- Orders behind columns ---- */

gy_status gy_query_join_columns(gy_query_stages *stages, const uint32_t *first, uint32_t count,
                                const gy_query_key *order, uint32_t order_count,
                                uint32_t **columns)
{
    *columns = gy_query_stages_take(stages, (size_t)count + order_count, sizeof(**columns));
    if (*columns == NULL) {
        return GY_NOMEM;
    }
    if (count > 0) {
        memcpy(*columns, first, count * sizeof(**columns));
    }
    for (uint32_t i = 0; i < order_count; i++) {
        (*columns)[count + i] = order[i].column;
    }
    return GY_OK;
}

gy_status gy_query_join_keys(gy_query_stages *stages, const gy_query_key *first, uint32_t count,
                             const gy_query_key *order, uint32_t order_count,
                             gy_query_key **keys)
{
    *keys = gy_query_stages_take(stages, (size_t)count + order_count, sizeof(**keys));
    if (*keys == NULL) {
        return GY_NOMEM;
    }
    if (count > 0) {
        memcpy(*keys, first, count * sizeof(**keys));
    }
    if (order_count > 0) {
        memcpy(*keys + count, order, order_count * sizeof(**keys));
    }
    return GY_OK;
}
