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
