/*
 * The last stages of --explain: what runs each node, and the memory of all. The bytes that a
 * rank will hold, by compiling its programs and planning their memory: nothing is allocated and
 * nothing runs, so that the mesh may be one of ranks that do not exist.
 */
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

/* ---- footprints ---- */

/* What one program holds, by kind; a parameter of several programs counts once. */
static void add_plan(const gy_graph *graph, const gy_memory_plan *plan, bool *is_counted,
                     gy_footprint *total, uint64_t *inputs)
{
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        const gy_storage *storage = &plan->buffers[i];
        const int32_t origin = storage->leaf >= 0 ? graph->nodes[storage->leaf].origin : -1;
        switch (storage->kind) {
        case GY_STORAGE_OWN:
            total->program_bytes += storage->size_bytes;
            break;
        case GY_STORAGE_SHARED:
            total->shared_bytes += storage->size_bytes;
            break;
        case GY_STORAGE_INPUT:
            *inputs += storage->size_bytes;
            break;
        case GY_STORAGE_LITERAL:
            break; /* the graph's, one for all programs and small */
        case GY_STORAGE_PARAMETER:
            GY_ASSERT(origin >= 0);
            total->parameter_bytes += is_counted[origin] ? 0 : storage->size_bytes;
            is_counted[origin] = true;
            break;
        }
    }
}

static gy_status add_run(gy_session *session, const gy_mesh *mesh, const gy_planned_run *run,
                         bool *is_counted, gy_footprint *total)
{
    GY_ASSERT(run->batch > 0 && run->fetch_count >= 0);
    gy_graph *graph = NULL;
    gy_memory_plan plan;
    const int workers = gy_engine_workers(session->engine);
    GY_TRY(gy_session_compile(session, mesh, run, NULL, &graph));
    gy_graph_choice *choices =
        gy_alloc_zero("graph.footprint", (size_t)graph->node_count + 1, sizeof(*choices));
    gy_status status = choices != NULL ? GY_OK : GY_NOMEM;
    if (status >= 0) {
        gy_choose_kernels(graph, workers, choices);
        status = gy_plan_memory(graph, choices,
                                (session->skip & GY_SKIP_SHARING) != 0 ? 0 : workers, &plan);
    }
    if (status >= 0) {
        uint64_t inputs = 0;
        add_plan(graph, &plan, is_counted, total, &inputs);
        total->input_bytes = GY_MAX(total->input_bytes, inputs);
        gy_memory_plan_free(&plan);
    }
    gy_free(choices);
    gy_graph_free(graph);
    return status;
}

gy_status gy_session_footprint(gy_session *session, const gy_mesh *mesh,
                               const gy_planned_run *runs, int run_count,
                               gy_footprint *footprint)
{
    GY_ASSERT(run_count >= 0 && footprint != NULL);
    bool *is_counted =
        gy_alloc_zero("graph.footprint", (size_t)session->graph->node_count + 1, sizeof(bool));
    if (is_counted == NULL) {
        return GY_NOMEM;
    }
    gy_footprint total = {.parameter_bytes = 0};
    gy_status status = GY_OK;
    for (int i = 0; i < run_count && status >= 0; i++) {
        status = add_run(session, mesh != NULL ? mesh : &session->mesh, &runs[i], is_counted,
                         &total);
    }
    gy_free(is_counted);
    if (status >= 0) {
        *footprint = total;
    }
    return status;
}

uint64_t gy_footprint_bytes(const gy_footprint *f)
{
    return f->parameter_bytes + f->input_bytes + f->program_bytes + f->shared_bytes;
}
