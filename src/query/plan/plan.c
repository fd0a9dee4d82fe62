/* A query's tree becomes its plan. */
#include "query/plan/plan.h"
#include "query/plan/plan_priv.h"

/* The answer's names and types. */
static gy_status answer_schema(const gy_query_planner *planner, const gy_query_answer *answer)
{
    gy_query_plan *plan = planner->plan;
    gy_field *fields = gy_query_alloc(planner, answer->node->count, sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < answer->node->count; i++) {
        const gy_expr_type *type = &plan->columns[answer->node->columns[i]].type;
        fields[i] =
            (gy_field){.name = answer->names[i].text,
                       .kind = type->kind,
                       .precision = type->kind == GY_FIELD_DECIMAL ? type->precision : 0,
                       .scale = type->kind == GY_FIELD_DECIMAL ? type->scale : 0};
    }
    return gy_schema_new(fields, (int)answer->node->count, &plan->schema);
}

/* ---- Plans made better ---- */

static gy_status improve(const gy_query_planner *planner, const gy_query_answer *answer)
{
    gy_query_plan *plan = planner->plan;
    gy_query_list nothing = {.items = NULL};
    const uint32_t *columns = answer->node->columns;
    const uint32_t count = answer->node->count;
    plan->root = answer->node;
    GY_TRY(gy_query_push(planner, &nothing, &plan->root));
    GY_TRY(gy_query_prune(planner, &plan->root, columns, count));
    return gy_query_arrange(planner, columns, count, &plan->root);
}

gy_status gy_query_plan_make(const gy_sql_source *source, const gy_sql_select *select,
                             const gy_query_catalog *catalog, const gy_query_views *views,
                             gy_query_plan *plan)
{
    gy_query_answer answer = {.node = NULL};
    *plan = (gy_query_plan){.source = source, .functions = catalog->functions};
    gy_query_planner planner = {
        .plan = plan, .source = source, .arena = &plan->arena, .catalog = catalog};
    gy_status status = gy_query_select(&planner, select, NULL, views, &answer);
    status = status == GY_OK ? answer_schema(&planner, &answer) : status;
    status = status == GY_OK ? improve(&planner, &answer) : status;
    if (status != GY_OK) {
        gy_query_plan_fini(plan);
    }
    return status;
}

void gy_query_plan_fini(gy_query_plan *plan)
{
    gy_schema_drop(plan->schema);
    gy_free(plan->columns);
    gy_arena_free(&plan->arena);
    *plan = (gy_query_plan){.root = NULL};
}
