/*
 * The forward pass as a line: which nodes are of it, what of their results the way back reads,
 * and what stays in memory for other reasons.
 */
#include "graph/recompute/recompute.h"
#include "graph/stages/stages.h"

#include <string.h>

/* A node of weights alone would be made the same way for any batch. */
static bool is_fixed(const gy_graph *graph, const gy_recompute_line *line, const bool *is_fed,
                     int32_t index)
{
    const gy_graph_node *node = &graph->nodes[index];
    GY_ASSERT(index >= 0 && index < graph->node_count);
    for (int k = 0; k < node->input_count; k++) {
        const int32_t maker = node->inputs[k].node;
        if (line->phase[maker] != GY_PHASE_FIXED ||
            (is_fed[maker] && (node->op->flags & GY_OP_VIEW) == 0)) {
            return false;
        }
    }
    return true;
}

static void find_phases(const gy_graph *graph, gy_recompute_line *line, bool *is_fed)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        bool is_back = node->mark.is_gradient || node->op == &gy_ops_row_assign;
        is_fed[i] = node->op == &gy_ops_row_input;
        for (int k = 0; k < node->input_count; k++) {
            GY_ASSERT(node->inputs[k].node < i);
            is_back = is_back || line->phase[node->inputs[k].node] == GY_PHASE_BACKWARD;
            is_fed[i] = is_fed[i] || is_fed[node->inputs[k].node];
        }
        line->phase[i] = is_back                            ? GY_PHASE_BACKWARD
                         : is_fixed(graph, line, is_fed, i) ? GY_PHASE_FIXED
                                                            : GY_PHASE_OTHER;
    }
}

/* Backwards from what gradients pass through; what only the way back reads is of it. */
static void find_forward(const gy_graph *graph, gy_recompute_line *line, bool *leads,
                         bool *serves)
{
    GY_ASSERT(leads != serves);
    memset(leads, 0, (size_t)graph->node_count * sizeof(*leads));
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const gy_graph_node *node = &graph->nodes[i];
        if (line->phase[i] == GY_PHASE_OTHER) {
            if (leads[i] || (node->mark.source >= 0 && node->mark.is_differentiated)) {
                line->phase[i] = GY_PHASE_FORWARD;
            } else if (serves[i]) {
                line->phase[i] = GY_PHASE_BACKWARD;
            }
        }
        for (int k = 0; k < node->input_count; k++) {
            leads[node->inputs[k].node] |= line->phase[i] == GY_PHASE_FORWARD;
            serves[node->inputs[k].node] |= line->phase[i] == GY_PHASE_BACKWARD;
        }
    }
}

/* What an exchange makes is not exchanged again, unless it is larger than what it is made of:
 * sums are held, gathers are not. */
static bool is_costly(const gy_graph *graph, const gy_mesh *mesh, const gy_graph_node *node)
{
    GY_ASSERT((node->op->flags & GY_OP_COLLECTIVE) == 0 || node->input_count == 1);
    return (node->op->flags & GY_OP_EFFECT) != 0 ||
           ((node->op->flags & GY_OP_COLLECTIVE) != 0 &&
            gy_local_bytes(mesh, &node->types[0]) <=
                gy_local_bytes(mesh, gy_graph_type(graph, node->inputs[0])));
}

static void note_values(const gy_graph *graph, const gy_mesh *mesh, gy_recompute_line *line,
                        int32_t index)
{
    const gy_graph_node *node = &graph->nodes[index];
    const bool is_view = (node->op->flags & GY_OP_VIEW) != 0;
    GY_ASSERT(!is_view || node->output_count == 1);
    const bool is_costly_one =
        line->phase[index] == GY_PHASE_FORWARD && is_costly(graph, mesh, node);
    for (int32_t k = 0; k < node->output_count; k++) {
        const int32_t value = node->first_value + k;
        line->base[value] =
            is_view ? line->base[gy_graph_value(graph, node->inputs[0])] : value;
        line->last[value] = line->place[index];
        line->bytes[value] = is_view ? 0 : (double)gy_local_bytes(mesh, &node->types[k]);
        line->is_held[value] = is_costly_one;
    }
    for (int k = 0; k < node->input_count; k++) {
        const int32_t maker = node->inputs[k].node;
        const int32_t base = line->base[gy_graph_value(graph, node->inputs[k])];
        const bool is_away = line->stage != NULL && line->stage[maker] != line->stage[index];
        if (line->phase[index] == GY_PHASE_FORWARD) {
            line->last[base] = GY_MAX(line->last[base], line->place[index]);
            line->is_held[base] = line->is_held[base] || is_away;
        } else if (line->phase[index] == GY_PHASE_BACKWARD && !is_away) {
            line->is_read[base] = true;
        }
    }
}

static void find(const gy_graph *graph, gy_recompute_line *line, bool *first, bool *second)
{
    const gy_mesh last = gy_mesh_largest(&graph->mesh);
    GY_ASSERT(line->count == 0);
    find_phases(graph, line, first);
    find_forward(graph, line, first, second);
    for (int32_t i = 0; i < graph->node_count; i++) {
        line->place[i] = -1;
        if (line->phase[i] == GY_PHASE_FORWARD) {
            line->nodes[line->count] = i;
            line->place[i] = line->count++;
        }
        note_values(graph, &last, line, i);
    }
    for (int32_t i = 0; i < graph->root_count; i++) {
        line->is_held[line->base[gy_graph_value(graph, graph->roots[i].value)]] = true;
    }
}

static gy_status find_stages(const gy_graph *graph, gy_recompute_line *line)
{
    gy_stages stages;
    GY_ASSERT(line->stage != NULL && graph->mesh.stages > 1);
    gy_status status = gy_stages_find(graph, &stages);
    if (status >= 0) {
        memcpy(line->stage, stages.of, (size_t)graph->node_count * sizeof(*line->stage));
        line->cuts = stages.cuts;
    }
    gy_stages_free(&stages);
    return status;
}

gy_status gy_recompute_line_find(const gy_graph *graph, gy_recompute_line *line)
{
    GY_ASSERT(graph->is_placed);
    const size_t nodes = (size_t)graph->node_count + 1, values = (size_t)graph->value_count + 1;
    memset(line, 0, sizeof(*line));
    gy_arena *arena = &line->arena;
    const bool has_stages = graph->mesh.stages > 1;
    line->phase = gy_arena_alloc(arena, nodes * sizeof(*line->phase));
    line->nodes = gy_arena_alloc(arena, nodes * sizeof(*line->nodes));
    line->place = gy_arena_alloc(arena, nodes * sizeof(*line->place));
    line->base = gy_arena_alloc(arena, values * sizeof(*line->base));
    line->last = gy_arena_alloc(arena, values * sizeof(*line->last));
    line->is_held = gy_arena_alloc(arena, values * sizeof(*line->is_held));
    line->is_read = gy_arena_alloc(arena, values * sizeof(*line->is_read));
    line->bytes = gy_arena_alloc(arena, values * sizeof(*line->bytes));
    line->stage = has_stages ? gy_arena_alloc(arena, nodes * sizeof(*line->stage)) : NULL;
    bool *first = gy_arena_alloc(arena, nodes * sizeof(bool));
    bool *second = gy_arena_alloc(arena, nodes * sizeof(bool));
    if (line->phase == NULL || line->nodes == NULL || line->place == NULL ||
        line->base == NULL || line->last == NULL || line->is_held == NULL ||
        line->is_read == NULL || line->bytes == NULL || first == NULL || second == NULL ||
        (has_stages && line->stage == NULL)) {
        return GY_NOMEM;
    }
    GY_TRY(has_stages ? find_stages(graph, line) : GY_OK);
    find(graph, line, first, second);
    return GY_OK;
}

void gy_recompute_line_free(gy_recompute_line *line)
{
    gy_arena_free(&line->arena);
    memset(line, 0, sizeof(*line));
}
