/* Which chunks are made again, what that saves and what it costs, for --explain. */
#include "graph/recompute/recompute.h"
#include "graph/stages/stages.h"

#include <string.h>

typedef struct chunk_row {
    int32_t first, last; /* nodes of the forward pass; -1: none */
    int copies;
    double saved_bytes, flops, again_s;
} chunk_row;

static int32_t count_chunks(const gy_graph *graph)
{
    int32_t count = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        GY_ASSERT(graph->nodes[i].mark.chunk >= 0);
        count = GY_MAX(count, graph->nodes[i].mark.chunk);
    }
    return count;
}

static double flops_of(const gy_graph *graph, int32_t index)
{
    GY_ASSERT(index >= 0 && index < graph->node_count);
    const gy_graph_node *node = &graph->nodes[index];
    gy_type inputs[GY_OP_INPUTS_MAX];
    gy_cost cost = {.flops = 0};
    if (node->op->cost == NULL || (node->op->flags & (GY_OP_LEAF | GY_OP_VIEW)) != 0) {
        return 0;
    }
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = *gy_graph_type(graph, node->inputs[k]);
    }
    node->op->cost(&node->attributes, inputs, node->input_count, node->types, &cost);
    return cost.flops;
}

/* A copy that something else than a copy reads was held without it. */
static void add_saved(const gy_graph *graph, bool *is_counted, chunk_row *rows)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        for (int k = 0; k < node->input_count && !node->mark.is_again; k++) {
            gy_value from = node->inputs[k];
            while ((gy_graph_at(graph, from)->op->flags & GY_OP_VIEW) != 0) {
                from = gy_graph_at(graph, from)->inputs[0];
            }
            const gy_stage_mark *mark = &gy_graph_at(graph, from)->mark;
            const int32_t value = gy_graph_value(graph, from);
            if (mark->is_again && !is_counted[value]) {
                is_counted[value] = true;
                rows[mark->chunk].saved_bytes += gy_stages_bytes(graph, from);
            }
        }
    }
}

static void fill_rows(const gy_graph *graph, int32_t count, bool *is_counted, chunk_row *rows)
{
    GY_ASSERT(count >= 1);
    for (int32_t i = 0; i <= count; i++) {
        rows[i].first = rows[i].last = -1;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_stage_mark *mark = &graph->nodes[i].mark;
        chunk_row *row = &rows[mark->chunk];
        if (mark->chunk == 0) {
            continue;
        }
        if (mark->is_again) {
            row->copies++;
            row->flops += flops_of(graph, i);
            row->again_s += gy_stages_work(graph, i);
        } else {
            row->first = row->first < 0 ? i : row->first;
            row->last = i;
        }
    }
    add_saved(graph, is_counted, rows);
}

static void print_rows(const gy_graph *graph, int32_t count, const chunk_row *rows,
                       gy_text *text)
{
    chunk_row sum = {.first = -1};
    char size[32];
    int again = 0;
    for (int32_t i = 1; i <= count; i++) {
        again += rows[i].copies > 0 ? 1 : 0;
        sum.saved_bytes += rows[i].saved_bytes;
        sum.flops += rows[i].flops;
        sum.again_s += rows[i].again_s;
    }
    GY_ASSERT(again <= count && sum.saved_bytes >= 0);
    gy_text_add(text,
                "== recomputation: %d of %d chunks are made again: %s are not held, %.4g "
                "Mflop (%.3f ms, predicted) are added\n"
                "  chunk  nodes again      saved     Mflop  layers\n",
                again, (int)count, gy_text_bytes(size, (uint64_t)sum.saved_bytes),
                1e-6 * sum.flops, 1e3 * sum.again_s);
    for (int32_t i = 1; i <= count; i++) {
        gy_text_add(text, "  %5d  %11d %10s %9.4g  ", (int)i, rows[i].copies,
                    gy_text_bytes(size, (uint64_t)rows[i].saved_bytes), 1e-6 * rows[i].flops);
        if (rows[i].first >= 0) {
            gy_graph_print_name(graph->nodes[rows[i].first].name, text);
            gy_text_add(text, " to ");
            gy_graph_print_name(graph->nodes[rows[i].last].name, text);
        }
        gy_text_add(text, "\n");
    }
}

gy_status gy_graph_explain_recompute(const gy_graph *graph, gy_text *text)
{
    GY_ASSERT(graph->is_placed);
    const int32_t count = count_chunks(graph);
    gy_arena arena = {0};
    if (count == 0) {
        return GY_OK;
    }
    chunk_row *rows = gy_arena_alloc(&arena, ((size_t)count + 1) * sizeof(*rows));
    bool *is_counted = gy_arena_alloc(&arena, (size_t)graph->value_count + 1);
    if (rows == NULL || is_counted == NULL) {
        gy_arena_free(&arena);
        return GY_NOMEM;
    }
    fill_rows(graph, count, is_counted, rows);
    print_rows(graph, count, rows, text);
    gy_arena_free(&arena);
    return text->status;
}
