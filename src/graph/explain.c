/*
 * The last stages of --explain: what runs each node, and the memory of all; what exchanges took
 * after runs, beside the prediction. The bytes that a
 * rank will hold, by compiling its programs and planning their memory: nothing is allocated and
 * nothing runs, so that the mesh may be one of ranks that do not exist.
 */
#include "graph/session.h"

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
        const bool is_copy = gy_devices_is_copy(op);
        const char *kernel = (op->flags & GY_OP_COLLECTIVE) != 0 ? "collective"
                             : is_copy                           ? "copy"
                             : graph->nodes[i].is_on_device      ? "device"
                                                                 : "reference";
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
    static const char *const kinds[] = {"program",    "shared with peers", "inputs",
                                        "parameters", "literals",          "on the device"};
    uint64_t totals[6] = {0};
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        GY_ASSERT(plan->buffers[i].kind < GY_COUNT(totals));
        totals[plan->buffers[i].kind] += plan->buffers[i].size_bytes;
    }
    gy_text_add(text, "== memory: %d buffers\n", (int)plan->buffer_count);
    for (size_t i = 0; i < GY_COUNT(totals); i++) {
        char bytes[32];
        if (i == GY_STORAGE_DEVICE && totals[i] == 0) {
            continue;
        }
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

/* ---- after runs ---- */

/* All programs: those of batches, then those of micro-batches in stages. NULL: there are fewer.
 */
static const gy_program *program_at(const gy_session *session, size_t index)
{
    return index < session->program_count
               ? session->programs[index]
               : gy_pipe_program_at(session, index - session->program_count);
}

/* Is it the same program, or an instance of it in another slot? */
static bool is_instance(const gy_program *a, const gy_program *b)
{
    return a == b || (a->segments != NULL && a->segments == b->segments);
}

/* Of all instances of a program. */
static uint64_t count_runs(const gy_session *session, const gy_program *of)
{
    uint64_t runs = 0;
    const gy_program *have = NULL;
    for (size_t i = 0; (have = program_at(session, i)) != NULL; i++) {
        runs += is_instance(have, of) ? have->runs : 0;
    }
    return runs;
}

/* Of the programs with these fetches the one that ran most; NULL: none has run. */
static const gy_program *most_run(const gy_session *session, const gy_value *fetches,
                                  int fetch_count)
{
    const gy_program *most = NULL, *have = NULL;
    uint64_t most_runs = 0;
    GY_ASSERT(fetch_count >= 0);
    for (size_t i = 0; (have = program_at(session, i)) != NULL; i++) {
        const uint64_t runs = count_runs(session, have);
        if (have->fetch_count == fetch_count && runs > most_runs &&
            memcmp(have->fetches, fetches, (size_t)fetch_count * sizeof(*fetches)) == 0) {
            most = have;
            most_runs = runs;
        }
    }
    return most;
}

/* What each exchange of the program had, by its number in the order of all ranks. */
static void measure(const gy_program *program, const gy_graph *scheduled, gy_graph_spent *spent)
{
    GY_ASSERT(program->graph->batch == scheduled->batch);
    for (int32_t i = 0; i < program->step_count; i++) {
        const gy_program_step *step = &program->steps[i];
        if (step->collective != NULL) {
            const int32_t number = -2 - step->node->origin;
            const gy_graph_spent one = gy_meter_spent(&program->session->meter, &step->span);
            GY_ASSERT(number >= 0 && number < scheduled->node_count);
            spent[number].count += one.count;
            spent[number].sent_bytes += one.sent_bytes;
            spent[number].hidden_s += one.hidden_s;
            spent[number].exposed_s += one.exposed_s;
        }
    }
}

/* The graph that the program came from, as it was when its exchanges had their order. */
static gy_status schedule_again(const gy_program *program, gy_graph **scheduled)
{
    const gy_session *session = program->session;
    gy_graph *bound = NULL;
    GY_TRY(gy_bind(session->graph, &session->mesh, program->batch, program->fetches,
                   program->fetch_count, &bound));
    bound->loss = program->loss;
    const gy_status status =
        gy_graph_compile_placed(bound, session->skip, GY_COMPILE_CUT, scheduled);
    gy_graph_free(bound);
    return status;
}

static gy_status find_run(const gy_session *session, const gy_node *fetches, int fetch_count,
                          const gy_program **program)
{
    GY_ASSERT(fetch_count >= 0);
    gy_value *values = gy_alloc("graph.fetches", ((size_t)fetch_count + 1) * sizeof(*values));
    if (values == NULL) {
        return GY_NOMEM;
    }
    const gy_status status = gy_session_fetches(session, fetches, fetch_count, values);
    *program = status >= 0 ? most_run(session, values, fetch_count) : NULL;
    gy_free(values);
    GY_TRY(status);
    return *program != NULL
               ? GY_OK
               : gy_fail(GY_NOTFOUND, "no run has had these %d fetches", fetch_count);
}

gy_status gy_session_spent(const gy_session *session, const gy_node *fetches, int fetch_count,
                           gy_session_runs *runs)
{
    const gy_program *program = NULL;
    gy_graph *scheduled = NULL;
    GY_ASSERT(fetch_count >= 0 && runs != NULL);
    GY_TRY(find_run(session, fetches, fetch_count, &program));
    GY_TRY(schedule_again(program, &scheduled));
    gy_graph_spent *spent =
        gy_alloc_zero("graph.explain", (size_t)scheduled->node_count + 1, sizeof(*spent));
    if (spent == NULL) {
        gy_graph_free(scheduled);
        return GY_NOMEM;
    }
    const gy_program *have = NULL;
    for (size_t i = 0; (have = program_at(session, i)) != NULL; i++) {
        if (is_instance(have, program)) {
            measure(have, scheduled, spent);
        }
    }
    *runs = (gy_session_runs){
        .graph = scheduled, .spent = spent, .count = count_runs(session, program)};
    return GY_OK;
}

void gy_session_runs_free(gy_session_runs *runs)
{
    GY_ASSERT(runs != NULL);
    gy_graph_free(runs->graph);
    gy_free(runs->spent);
    *runs = (gy_session_runs){.graph = NULL};
}

gy_status gy_session_explain_runs(gy_session *session, const gy_node *fetches, int fetch_count,
                                  int lines_max, char **out)
{
    gy_session_runs runs;
    gy_text text = {.data = NULL};
    if (fetch_count < 0 || lines_max < 0) {
        return gy_fail(GY_ARG, "fetches %d, lines %d: a count is negative", fetch_count,
                       lines_max);
    }
    GY_TRY(gy_session_spent(session, fetches, fetch_count, &runs));
    gy_status status =
        gy_graph_explain_exchanges(runs.graph, runs.spent, runs.count, lines_max, &text);
    gy_session_runs_free(&runs);
    status = status >= 0 ? text.status : status;
    if (status < 0) {
        gy_text_free(&text);
        return status;
    }
    *out = text.data;
    return GY_OK;
}

void gy_session_set_timed(gy_session *session, bool is_timed)
{
    session->is_timed = is_timed;
}

/* NULL: nothing has run. */
static const gy_program *last_run(const gy_session *session)
{
    const gy_program *last = NULL;
    for (size_t i = 0; i < session->program_count; i++) {
        if (last == NULL || session->programs[i]->used > last->used) {
            last = session->programs[i];
        }
    }
    return last;
}

const gy_graph *gy_session_last_graph(const gy_session *session)
{
    const gy_program *last = last_run(session);
    return last != NULL ? last->graph : NULL;
}

void gy_session_last_times(const gy_session *session, int64_t *node_ns)
{
    const gy_program *last = last_run(session);
    GY_ASSERT(last != NULL && session->is_timed);
    memset(node_ns, 0, (size_t)last->graph->node_count * sizeof(*node_ns));
    for (int32_t i = 0; i < last->step_count; i++) {
        const gy_program_step *step = &last->steps[i];
        GY_ASSERT(step->node >= last->graph->nodes);
        if (step->collective == NULL) {
            node_ns[step->node - last->graph->nodes] = step->ran_ns;
        }
    }
}
