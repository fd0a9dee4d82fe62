/*
 * Which stages keep a parameter: those that use it in the first program that does, from then on
 * for all programs of the session. What was cut by cost then is cut so for all, too.
 */
#include "graph/stages/stages.h"

/* Does anything read it, but a fetch? */
static bool is_read(const gy_graph *graph, int32_t index)
{
    GY_ASSERT(index >= 0 && index < graph->node_count);
    for (int32_t i = index + 1; i < graph->node_count; i++) {
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            if (graph->nodes[i].inputs[k].node == index) {
                return true;
            }
        }
    }
    return false;
}

gy_status gy_stages_keep(const gy_graph *scheduled, gy_graph *user)
{
    GY_ASSERT(scheduled->is_placed && !user->is_placed);
    gy_stages stages;
    gy_status status = gy_stages_find(scheduled, &stages);
    for (int32_t i = 0; i < scheduled->node_count && status >= 0; i++) {
        const gy_graph_node *node = &scheduled->nodes[i];
        if (node->op == &gy_ops_row_parameter && is_read(scheduled, i)) {
            GY_ASSERT(node->origin >= 0 && node->origin < user->node_count);
            GY_ASSERT(node->homes == 0 || node->homes == stages.home[i]);
            user->nodes[node->origin].homes = stages.home[i];
        }
    }
    if (status >= 0 && user->cuts.count == 0) {
        user->cuts = stages.cuts;
    }
    gy_stages_free(&stages);
    return status;
}
