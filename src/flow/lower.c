/* Turns the graph into the manager's tasks and edges. */
#include "flow/lower.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

void gy_flow_growth_free(gy_growth *growth)
{
    gy_free((void *)(uintptr_t)growth->tasks);
    gy_free((void *)(uintptr_t)growth->edges);
    gy_free((void *)(uintptr_t)growth->places);
    *growth = (gy_growth){0};
}

uint32_t gy_flow_lower_output(const gy_lowering *lowering, const gy_dag *dag, uint32_t vertex)
{
    uint32_t first = 0;
    const uint32_t *member = lowering->members + lowering->member_first[lowering->task[vertex]];
    for (; *member != vertex; member++) {
        first += dag->outputs[*member];
    }
    return first;
}

void gy_flow_lower_finals(const gy_dag *dag, uint32_t vertex, size_t *first, size_t *count)
{
    size_t low = 0, high = dag->final_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (dag->finals[middle].vertex < vertex) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *first = low;
    for (*count = 0; low < dag->final_count && dag->finals[low].vertex == vertex; low++) {
        (*count)++;
    }
}

/* State of one call of gy_flow_lower_growth. */
typedef struct gy_lower_work {
    const gy_lowering *lowering;
    const gy_dag *dag;
    const gy_lower_source *source;
    gy_sched_task *tasks;
    gy_edge *edges;
    size_t task_count, edge_count;
    gy_text words;  /* words that make one task's key */
    uint32_t proto; /* prototype whose key was computed last */
    gy_key proto_key;
    bool is_kept, is_pinned, has_places;
    int64_t bytes;
    const char *hosts;   /* hosts of the prototype that was looked up last */
    const char **places; /* (tasks) */
    gy_status status;
} gy_lower_work;

static void add_word(gy_lower_work *work, uint32_t word)
{
    gy_text_add_bytes(&work->words, &word, sizeof(word));
}

/* A cohort prefers the hosts of its first member that prefers any. */
static void add_places(gy_lower_work *work, uint32_t vertex, gy_sched_task *task)
{
    char name[GY_DAG_NAME_BYTES];
    const char **places = &work->places[work->task_count - 1];
    *places = *places == NULL ? work->hosts : *places;
    work->has_places |= work->hosts != NULL;
    if (work->is_pinned && task->width > 1 && work->status >= 0) {
        work->status = gy_fail(GY_UNSUPPORTED,
                               "%s reads a file of %s and has pipes or FIFOs: join it by files",
                               gy_dag_vertex_name(work->dag, vertex, name), work->hosts);
    }
    task->flags |= work->is_pinned ? GY_TASK_PINNED : 0;
}

/* Add a member's description to the task and to its key. */
static void add_member(gy_lower_work *work, uint32_t vertex, gy_sched_task *task)
{
    const gy_dag *dag = work->dag;
    const gy_proto *proto = &dag->protos[dag->proto[vertex]];
    if (work->proto != dag->proto[vertex]) {
        work->proto = dag->proto[vertex];
        work->bytes = 0;
        work->source->proto(work->source->arg, dag, work->proto, &work->proto_key,
                            &work->is_kept, &work->bytes);
        work->is_pinned = false;
        work->hosts =
            work->source->places != NULL
                ? work->source->places(work->source->arg, dag, work->proto, &work->is_pinned)
                : NULL;
    }
    add_places(work, vertex, task);
    gy_text_add_bytes(&work->words, &work->proto_key, sizeof(work->proto_key));
    add_word(work, dag->index[vertex]);
    add_word(work, proto->copies);
    add_word(work, dag->inputs[vertex]);
    add_word(work, dag->outputs[vertex]);
    size_t final = 0, finals = 0;
    if (dag->final_count > 0) {
        gy_flow_lower_finals(dag, vertex, &final, &finals);
    }
    task->determinism = GY_MAX(task->determinism, proto->determinism);
    task->input_bytes += work->bytes;
    task->output_count += dag->outputs[vertex];
    /* the key includes the number of final outputs, because the same bytes then lie in other
     * files */
    add_word(work, (uint32_t)finals);
    if (finals > 0) {
        task->flags |= GY_TASK_FINAL;
        task->flags |= dag->outputs[vertex] != 1 ? GY_TASK_NO_MEMO : 0;
    }
    if (!work->is_kept || proto->determinism == GY_OUTPUT_INDETERMINATE) {
        task->flags |= GY_TASK_NO_MEMO;
    }
    if (proto->ranks > 0) {
        task->flags |= GY_TASK_EXACT; /* a second gang would take the cores of the first one */
    }
}

static void add_inputs(gy_lower_work *work, uint32_t vertex, gy_sched_task *task)
{
    const gy_lowering *l = work->lowering;
    for (uint32_t e = l->edge_first[vertex]; e < l->edge_first[vertex + 1]; e++) {
        const gy_dag_edge *edge = &work->dag->edges[e];
        const uint32_t output = gy_flow_lower_output(l, work->dag, edge->from) + edge->output;
        if (edge->channel != GY_CHANNEL_FILE) {
            add_word(work, UINT32_MAX - edge->channel);
            add_word(work, gy_flow_lower_member(l, edge->from));
        } else {
            work->edges[work->edge_count++] = (gy_edge){l->task[edge->from], output};
            task->input_count++;
        }
        add_word(work, output);
    }
}

static void add_task(gy_lower_work *work, uint32_t number)
{
    const gy_lowering *l = work->lowering;
    const uint32_t first = l->member_first[number], end = l->member_first[number + 1];
    gy_sched_task *task = &work->tasks[work->task_count++];
    *task =
        (gy_sched_task){.stage = work->dag->protos[work->dag->proto[l->members[first]]].stage,
                        .width = (uint16_t)(end - first)};
    work->words.size_bytes = 0;
    const uint32_t ranks = gy_flow_lower_ranks(l, work->dag, l->members[first]);
    task->hosts =
        ranks > 1 ? (uint32_t)work->dag->protos[work->dag->proto[l->members[first]]].hosts : 0;
    for (uint32_t m = first; m < end; m += ranks) { /* a gang is the only member of its task */
        add_member(work, l->members[m], task);
        add_inputs(work, l->members[m], task);
    }
    if (work->words.status >= 0) {
        task->key = gy_key_of(work->words.data, work->words.size_bytes);
    }
}

gy_status gy_flow_lower_growth(gy_lowering *lowering, const gy_dag *dag,
                               const gy_lower_source *source, gy_growth *growth)
{
    const size_t vertices = dag->vertex_count - lowering->vertex_floor;
    const size_t edges = dag->edge_count - lowering->edge_floor;
    uint32_t tasks = 0;
    for (size_t v = lowering->vertex_floor; v < dag->vertex_count; v++) {
        tasks = GY_MAX(tasks, lowering->task[v] + 1 - lowering->task_count);
    }
    gy_lower_work work = {.lowering = lowering,
                          .dag = dag,
                          .source = source,
                          .tasks =
                              gy_alloc("flow.tasks", (size_t)tasks * sizeof(gy_sched_task)),
                          .edges = gy_alloc("flow.edges", edges * sizeof(gy_edge)),
                          .places = gy_alloc_zero("flow.places", tasks, sizeof(char *)),
                          .proto = UINT32_MAX};
    *growth = (gy_growth){0};
    gy_status status =
        work.tasks != NULL && work.edges != NULL && work.places != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t t = 0; status >= 0 && t < tasks; t++) {
        add_task(&work, lowering->task_count + t);
    }
    GY_ASSERT(status < 0 || work.task_count <= vertices);
    status = status >= 0 ? work.words.status : status;
    status = status >= 0 ? work.status : status;
    gy_text_free(&work.words);
    *growth = (gy_growth){.tasks = work.tasks,
                          .task_count = tasks,
                          .edges = work.edges,
                          .edge_count = work.edge_count,
                          .places = work.places};
    /* nearly always the case, and then the growth has no column for it */
    if (!work.has_places) {
        gy_free(work.places);
        growth->places = NULL;
    }
    if (status < 0) {
        gy_flow_growth_free(growth);
        return status;
    }
    lowering->task_count += tasks;
    lowering->member_count = lowering->member_first[lowering->task_count];
    lowering->vertex_floor = dag->vertex_count;
    lowering->edge_floor = dag->edge_count;
    lowering->final_floor = dag->final_count;
    lowering->refinement_floor = dag->refinement_count;
    return GY_OK;
}
