/* The last stages of --explain: what runs each node, and the memory of all. */
#include "graph/session_priv.h"

#include <string.h>

static void explain_kernels(const gy_graph *graph, const gy_graph_choice *choices,
                            gy_text *text)
{
    GY_ASSERT(graph->is_placed);
    gy_text_add(text, "== kernels\n");
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_op *op = graph->nodes[i].op;
        if ((op->flags & (GY_OP_LEAF | GY_OP_VIEW)) != 0) {
            continue;
        }
        const char *kernel = (op->flags & GY_OP_COLLECTIVE) != 0 ? "collective" : "reference";
        gy_text_add(text, "%4d %s: %s", (int)i, graph->nodes[i].name,
                    choices[i].kernel != NULL ? choices[i].kernel->name : kernel);
        if (choices[i].workspace_bytes > 0) {
            char bytes[32];
            gy_text_add(text, ", workspace %s",
                        gy_text_bytes(bytes, choices[i].workspace_bytes));
        }
        gy_text_add(text, "\n");
    }
}

static void explain_memory(const gy_memory_plan *plan, gy_text *text)
{
    static const char *const kinds[] = {"program", "shared with peers", "inputs", "parameters",
                                        "literals"};
    uint64_t totals[5] = {0};
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        GY_ASSERT(plan->buffers[i].kind < GY_COUNT(totals));
        totals[plan->buffers[i].kind] += plan->buffers[i].size_bytes;
    }
    gy_text_add(text, "== memory: %d buffers\n", (int)plan->buffer_count);
    for (size_t i = 0; i < GY_COUNT(totals); i++) {
        char bytes[32];
        gy_text_add(text, "     %s: %s\n", kinds[i], gy_text_bytes(bytes, totals[i]));
    }
}

void gy_explain_program(const gy_graph *graph, int workers, gy_text *text)
{
    GY_ASSERT(graph->is_placed && workers >= 1);
    gy_graph_choice *choices =
        gy_alloc_zero("graph.explain", (size_t)graph->node_count + 1, sizeof(*choices));
    gy_memory_plan plan;
    if (choices == NULL) {
        text->status = GY_NOMEM;
        return;
    }
    gy_choose_kernels(graph, workers, choices);
    if (gy_plan_memory(graph, choices, workers, &plan) < 0) {
        text->status = GY_NOMEM;
    } else {
        explain_kernels(graph, choices, text);
        explain_memory(&plan, text);
        gy_memory_plan_free(&plan);
    }
    gy_free(choices);
}
