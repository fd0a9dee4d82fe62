/* What each stage computes and exchanges in a run, for --explain. */
#include "graph/stages/stages.h"

#include <string.h>

static void add_value(const gy_graph *graph, const gy_stages *stages, gy_value value,
                      gy_stage_load *loads)
{
    const gy_stage_set made = stages->made[value.node];
    const gy_stage_set need = stages->need[gy_graph_value(graph, value)];
    const double bytes = gy_stages_bytes(graph, value);
    GY_ASSERT(made != 0 && bytes >= 0);
    for (int rank = 0; rank < graph->mesh.stages; rank++) {
        const gy_stage_set there = gy_mesh_stages_of(&graph->mesh, rank);
        if ((need & there) == 0 || (made & there) != 0) {
            continue;
        }
        gy_stage_load *sender = &loads[gy_stage_lowest(made)],
                      *receiver = &loads[gy_stage_lowest(need & there)];
        const double seconds = gy_stages_transfer(&graph->mesh, bytes);
        sender->sends++;
        sender->sent_bytes += bytes;
        sender->transfer_s += seconds;
        receiver->receives++;
        receiver->received_bytes += bytes;
        receiver->transfer_s += seconds;
    }
}

void gy_stages_load(const gy_graph *graph, const gy_stages *stages, gy_stage_load *loads)
{
    GY_ASSERT(graph->mesh.stages > 1);
    memset(loads, 0, (size_t)gy_mesh_stages(&graph->mesh) * sizeof(*loads));
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        const bool is_work = (node->op->flags & (GY_OP_LEAF | GY_OP_VIEW)) == 0;
        const double seconds = is_work ? gy_stages_work(graph, i) : 0;
        for (int s = 0; s < gy_mesh_stages(&graph->mesh) && is_work; s++) {
            const bool runs = (stages->made[i] >> s & 1) != 0;
            loads[s].nodes += runs ? 1 : 0;
            loads[s].work_s += runs ? seconds : 0;
        }
        for (int32_t k = 0; k < node->output_count && (node->op->flags & GY_OP_EFFECT) == 0 &&
                            stages->made[i] != 0;
             k++) {
            add_value(graph, stages, (gy_value){i, k}, loads);
        }
    }
}

/* The first and the last node that one stage alone runs. */
static void print_ends(const gy_graph *graph, const gy_stages *stages, int stage, gy_text *text)
{
    int32_t first = -1, last = -1;
    GY_ASSERT(stage >= 0 && stage < gy_mesh_stages(&graph->mesh));
    for (int32_t i = 0; i < graph->node_count; i++) {
        const bool is_forward = graph->nodes[i].origin >= 0 &&
                                graph->nodes[i].mark.source == graph->nodes[i].origin &&
                                graph->nodes[i].mark.is_differentiated;
        if (is_forward && stages->kind[i] == GY_STAGE_ONE && stages->of[i] == stage) {
            first = first < 0 ? i : first;
            last = i;
        }
    }
    if (first >= 0) {
        gy_text_add(text, "  ");
        gy_graph_print_name(graph->nodes[first].name, text);
        gy_text_add(text, " to ");
        gy_graph_print_name(graph->nodes[last].name, text);
    }
}

static void print_kept(const gy_graph *graph, const gy_stages *stages, gy_text *text)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_stage_set home = stages->home[i];
        GY_ASSERT(home == 0 || stages->leaf[i] == i);
        if (stages->leaf[i] != i || (home & (home - 1)) == 0) {
            continue;
        }
        gy_text_add(text, "     ");
        gy_graph_print_name(graph->nodes[i].name, text);
        gy_text_add(text, " is kept by stages");
        for (int s = 0; s < gy_mesh_stages(&graph->mesh); s++) {
            if ((home >> s & 1) != 0) {
                gy_text_add(text, " %d", s);
            }
        }
        gy_text_add(text, "\n");
    }
}

gy_status gy_graph_explain_stages(const gy_graph *graph, gy_text *text)
{
    GY_ASSERT(graph->mesh.stages > 1 && gy_mesh_stages(&graph->mesh) <= GY_STAGES_MAX);
    gy_stage_load loads[GY_STAGES_MAX];
    gy_stages stages;
    gy_status status = gy_stages_find(graph, &stages);
    if (status >= 0) {
        gy_stages_load(graph, &stages, loads);
        gy_text_add(text,
                    "== stages: pipe=%d, of a run on one rank of each, predicted\n"
                    "  stage  nodes  work ms  sends       sent  receives   received  transfer "
                    "ms  layers\n",
                    graph->mesh.stages);
        for (int s = 0; s < gy_mesh_stages(&graph->mesh); s++) {
            char sent[32], received[32];
            gy_text_add(text, "  %5d  %5d  %7.3f  %5d %10s  %8d %10s  %11.3f", s,
                        loads[s].nodes, 1e3 * loads[s].work_s, loads[s].sends,
                        gy_text_bytes(sent, (uint64_t)loads[s].sent_bytes), loads[s].receives,
                        gy_text_bytes(received, (uint64_t)loads[s].received_bytes),
                        1e3 * loads[s].transfer_s);
            print_ends(graph, &stages, s, text);
            gy_text_add(text, "\n");
        }
        print_kept(graph, &stages, text);
        status = text->status;
    }
    gy_stages_free(&stages);
    return status;
}
