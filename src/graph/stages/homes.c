/*
 * Which stages keep a parameter: those that use it in the first program that does, from then on
 * for all programs of the session. What was cut by cost then is cut so for all, too.
 */
#include "graph/session_priv.h"
#include "graph/stages/stages.h"

bool gy_session_keeps(const gy_session *session, int32_t index)
{
    GY_ASSERT(index >= 0 && index < session->graph->node_count);
    const gy_stage_set homes = session->graph->nodes[index].homes;
    return session->mesh.stages <= 1 || homes == 0 ||
           (homes & gy_stage_bit(session->mesh.stage)) != 0;
}

/* A parameter without a home that the fetches need? */
static bool has_homeless(const gy_graph *bound)
{
    GY_ASSERT(bound->batch > 0);
    for (int32_t i = 0; i < bound->node_count; i++) {
        if (bound->nodes[i].op == &gy_ops_row_parameter && bound->nodes[i].homes == 0) {
            return true;
        }
    }
    return false;
}

/* Does anything read it, but a fetch? */
static bool is_read(const gy_graph *graph, int32_t index)
{
    for (int32_t i = index + 1; i < graph->node_count; i++) {
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            if (graph->nodes[i].inputs[k].node == index) {
                return true;
            }
        }
    }
    return false;
}

static gy_status keep_homes(gy_session *session, const gy_graph *scheduled)
{
    gy_stages stages;
    gy_graph *graph = session->graph;
    gy_status status = gy_stages_find(scheduled, &stages);
    for (int32_t i = 0; i < scheduled->node_count && status >= 0; i++) {
        const gy_graph_node *node = &scheduled->nodes[i];
        if (node->op == &gy_ops_row_parameter && is_read(scheduled, i)) {
            GY_ASSERT(node->origin >= 0 && node->origin < graph->node_count);
            graph->nodes[node->origin].homes = stages.home[i];
        }
    }
    if (status >= 0 && graph->cuts.count == 0) {
        graph->cuts = stages.cuts;
    }
    gy_stages_free(&stages);
    return status;
}

gy_status gy_session_find_homes(gy_session *session, const gy_planned_run *run)
{
    gy_graph *bound = NULL, *scheduled = NULL;
    if (session->mesh.stages <= 1) {
        return GY_OK;
    }
    GY_TRY(gy_bind(session->graph, &session->mesh, run->batch, run->fetches, run->fetch_count,
                   &bound));
    gy_status status = GY_OK;
    if (has_homeless(bound)) {
        status =
            gy_graph_compile_placed(bound, session->skip, GY_COMPILE_SCHEDULED, &scheduled);
        status = status >= 0 ? keep_homes(session, scheduled) : status;
    }
    gy_graph_free(scheduled);
    gy_graph_free(bound);
    return status;
}
