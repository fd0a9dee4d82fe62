/*
 * A compiled program as tasks: what each node takes, on which lane. A node's cost is that of
 * this rank's part of its values. Which tasks are the forward pass follows from the loss: it
 * depends on them, through the messages of all stages.
 */
#include "graph/simulate/simulate.h"

#include "ops/collective.h"

#include <string.h>

static gy_operation operation_of(const gy_op *op)
{
    GY_ASSERT((op->flags & GY_OP_COLLECTIVE) != 0 && !gy_collective_is_message(op));
    return op == &gy_ops_row_allreduce        ? GY_OPERATION_ALLREDUCE
           : op == &gy_ops_row_reduce_scatter ? GY_OPERATION_REDUCE_SCATTER
           : op == &gy_ops_row_allgather      ? GY_OPERATION_ALLGATHER
                                              : GY_OPERATION_ALLTOALL;
}

static void cost_exchange(const gy_graph *graph, int32_t index, gy_virtual_links *links,
                          gy_virtual_task *task)
{
    const gy_graph_node *node = &graph->nodes[index];
    const int axis = node->attributes.move.mesh_axis, ranks = graph->mesh.sizes[axis];
    GY_ASSERT(axis >= 0 && axis < graph->mesh.axes && ranks > 1);
    const gy_operation operation = operation_of(node->op);
    const gy_type shared = gy_axis_type(&graph->mesh, &node->types[0], axis);
    const double bytes = (double)gy_type_count(&shared) * (double)gy_dtype_bytes(shared.dtype);
    const bool is_split = operation == GY_OPERATION_ALLTOALL; /* a rank has its part alone */
    const double share = (double)(ranks - 1) / ranks;
    task->lane = links->lines[axis].hosts > 1 ? GY_VIRTUAL_FAR : GY_VIRTUAL_NEAR;
    task->seconds = gy_virtual_line_seconds(&links->lines[axis], operation,
                                            is_split ? bytes / ranks : bytes);
    task->sent_bytes = operation == GY_OPERATION_ALLREDUCE ? 2 * share * bytes
                       : is_split                          ? share * bytes / ranks
                                                           : share * bytes;
}

static void cost_message(const gy_graph *graph, int32_t index, const gy_virtual_links *links,
                         gy_virtual_task *task)
{
    const gy_graph_node *node = &graph->nodes[index];
    GY_ASSERT(graph->mesh.stages > 1 && gy_collective_is_message(node->op));
    task->is_send = node->op == &gy_ops_row_send;
    task->peer = node->attributes.message.peer;
    task->tag = node->attributes.message.tag;
    task->lane = GY_VIRTUAL_ARRIVAL;
    if (task->is_send) {
        task->sent_bytes =
            (double)gy_local_bytes(&graph->mesh, gy_graph_type(graph, node->inputs[0]));
        task->seconds = gy_virtual_links_message(links, task->sent_bytes);
        task->lane = links->pipe.hosts > 1 ? GY_VIRTUAL_FAR : GY_VIRTUAL_NEAR;
    }
}

static void cost_work(const gy_graph *graph, int32_t index, const gy_virtual_rates *rates,
                      gy_virtual_task *task)
{
    gy_cost cost;
    GY_ASSERT(rates->rates != NULL || rates->flops_s > 0);
    const char *name = graph->nodes[index].op->name;
    gy_graph_cost(graph, &graph->mesh, index, &cost);
    task->lane = GY_VIRTUAL_WORK;
    if (rates->rates == NULL) {
        task->seconds = gy_simulate_nominal(&cost, rates->flops_s, rates->memory_bytes_s);
        return;
    }
    const double nominal_s =
        gy_simulate_nominal(&cost, gy_simulate_nominal_flops_s, gy_simulate_nominal_bytes_s);
    task->seconds = gy_kernel_rates_seconds(rates->rates, name, nominal_s);
}

static void cost_task(const gy_graph *graph, int32_t index, gy_virtual_links *links,
                      const gy_virtual_rates *rates, gy_virtual_task *task)
{
    const gy_graph_node *node = &graph->nodes[index];
    GY_ASSERT(index < graph->node_count);
    *task = (gy_virtual_task){.priority = task->priority, .peer = -1};
    if (gy_collective_is_message(node->op)) {
        cost_message(graph, index, links, task);
    } else if ((node->op->flags & GY_OP_COLLECTIVE) != 0) {
        cost_exchange(graph, index, links, task);
    } else if ((node->op->flags & (GY_OP_LEAF | GY_OP_VIEW)) == 0 &&
               node->op != &gy_ops_row_assign) {
        cost_work(graph, index, rates, task);
    }
    for (int32_t k = 0;
         k < node->output_count && task->lane != GY_VIRTUAL_NOTHING && !task->is_send; k++) {
        task->made_bytes += (double)gy_local_bytes(&graph->mesh, &node->types[k]);
    }
}

gy_status gy_virtual_program_new(const gy_graph *graph, gy_virtual_links *links,
                                 const gy_virtual_rates *rates, gy_virtual_program *program)
{
    GY_ASSERT(graph->is_placed);
    gy_virtual_task *tasks =
        gy_alloc_zero("graph.simulate", (size_t)graph->node_count + 1, sizeof(*tasks));
    int32_t *priorities =
        gy_alloc("graph.simulate", ((size_t)graph->node_count + 1) * sizeof(*priorities));
    const bool is_there = tasks != NULL && priorities != NULL;
    if (!is_there || gy_graph_prioritize(graph, priorities) < 0) {
        gy_free(tasks);
        gy_free(priorities);
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        tasks[i].priority = priorities[i]; /* as programs do it */
        cost_task(graph, i, links, rates, &tasks[i]);
    }
    gy_free(priorities);
    *program = (gy_virtual_program){.graph = graph, .tasks = tasks, .count = graph->node_count};
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        if (links->lines[axis].status < 0) {
            gy_virtual_program_free(program);
            return links->lines[axis].status;
        }
    }
    return GY_OK;
}

void gy_virtual_program_free(gy_virtual_program *program)
{
    gy_free(program->tasks);
    *program = (gy_virtual_program){.tasks = NULL};
}

/* ---- which part of the step ---- */

/* A task of a stage, to be looked at. */
typedef struct place {
    int stage;
    int32_t task;
} place;

typedef struct marker {
    gy_virtual_program *programs;
    int stages;
    place *stack; /* tasks that are marked, whose inputs are not yet */
    size_t count, capacity;
    bool is_forward; /* what is marked: is_forward, or is_input */
} marker;

static gy_status mark(marker *m, int stage, int32_t index)
{
    GY_ASSERT(stage >= 0 && stage < m->stages && index < m->programs[stage].count);
    gy_virtual_task *task = &m->programs[stage].tasks[index];
    if (m->is_forward ? task->is_forward : task->is_input || task->is_forward) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("graph.simulate", m->stack, m->capacity, m->count + 1));
    *(m->is_forward ? &task->is_forward : &task->is_input) = true;
    m->stack[m->count++] = (place){stage, index};
    return GY_OK;
}

/* The send that a receive waits for; -1: none. */
static int32_t sender_of(const marker *m, int stage, const gy_virtual_task *receive)
{
    const gy_virtual_program *from = &m->programs[receive->peer];
    GY_ASSERT(receive->peer >= 0 && receive->peer < m->stages);
    for (int32_t i = 0; i < from->count; i++) {
        if (from->tasks[i].is_send && from->tasks[i].peer == stage &&
            from->tasks[i].tag == receive->tag) {
            return i;
        }
    }
    return -1;
}

static gy_status mark_inputs(marker *m)
{
    while (m->count > 0) {
        const place at = m->stack[--m->count];
        const gy_virtual_program *program = &m->programs[at.stage];
        const gy_graph_node *node = &program->graph->nodes[at.task];
        const gy_virtual_task *task = &program->tasks[at.task];
        GY_ASSERT(m->is_forward ? task->is_forward : task->is_input);
        for (int k = 0; k < node->input_count; k++) {
            GY_TRY(mark(m, at.stage, node->inputs[k].node));
        }
        if (task->peer >= 0 && !task->is_send && m->is_forward) {
            const int32_t sender = sender_of(m, at.stage, task);
            GY_TRY(sender >= 0 ? mark(m, task->peer, sender) : GY_OK);
        }
    }
    return GY_OK;
}

gy_status gy_virtual_program_mark(gy_virtual_program *programs, int stages)
{
    marker m = {.programs = programs, .stages = stages, .is_forward = true};
    gy_status status = GY_OK;
    for (int s = 0; s < stages && status >= 0; s++) {
        GY_ASSERT(programs[s].graph->root_count > 0);
        status = mark(&m, s, programs[s].graph->roots[0].value.node);
        status = status >= 0 ? mark_inputs(&m) : status;
    }
    m.is_forward = false;
    for (int s = 0; s < stages && status >= 0; s++) {
        for (int32_t i = 0; i < programs[s].count && status >= 0; i++) {
            const bool is_sent = programs[s].tasks[i].is_send;
            status = is_sent ? mark(&m, s, i) : GY_OK;
            status = status >= 0 ? mark_inputs(&m) : status;
        }
    }
    gy_free(m.stack);
    return status;
}

double gy_virtual_program_held(const gy_virtual_program *program)
{
    double bytes = 0;
    const gy_graph *graph = program->graph;
    GY_ASSERT(graph->node_count == program->count);
    for (int32_t i = 0; i < program->count; i++) {
        bool is_used = false; /* by what is behind the forward pass */
        for (int32_t k = i + 1; k < program->count && program->tasks[i].is_forward && !is_used;
             k++) {
            for (int j = 0; j < graph->nodes[k].input_count && !program->tasks[k].is_forward;
                 j++) {
                is_used = is_used || graph->nodes[k].inputs[j].node == i;
            }
        }
        bytes += is_used ? program->tasks[i].made_bytes : 0;
    }
    return bytes;
}

double gy_virtual_program_sent(const gy_virtual_program *program)
{
    double bytes = 0;
    GY_ASSERT(program->count >= 0);
    for (int32_t i = 0; i < program->count; i++) {
        GY_ASSERT(program->tasks[i].sent_bytes >= 0);
        bytes += program->tasks[i].sent_bytes;
    }
    return bytes;
}
