/*
 * What a rank holds: found by compiling what it will run and planning the memory, without
 * running it. Programs that run one after the other use the session's chunks in turn; of
 * micro-batches by a schedule there are as many instances as the list has alive, each in its
 * slot, made in the order in which the runner makes them.
 */
#include "graph/pipe/pipe.h"

/* Micro-batches of so many rows in a slot. */
typedef struct instance {
    int slot;
    int64_t rows;
} instance;

/* What all programs hold, so far. */
typedef struct held {
    gy_footprint sum;
    bool
        *is_counted; /* node of the user's graph: a parameter of several programs counts once */
    gy_memory_chunks chunks;
    gy_memory_chunks *slots; /* (slot_count) of micro-batches by a schedule */
    size_t slot_count, slot_capacity;
    instance *instances; /* that are made */
    size_t instance_count, instance_capacity;
} held;

static uint64_t kept_bytes(const gy_graph *user, const gy_mesh *mesh, int32_t origin)
{
    GY_ASSERT(origin >= 0 && origin < user->node_count);
    const gy_type type = gy_graph_parameter_type(mesh, &user->nodes[origin]);
    return gy_local_bytes(mesh, &type);
}

/* What one program holds besides chunks, by kind; what it is fed. */
static uint64_t add_plan(const gy_graph *user, const gy_graph *graph,
                         const gy_memory_plan *plan, held *all)
{
    uint64_t inputs = 0;
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        const gy_storage *storage = &plan->buffers[i];
        const int32_t origin = storage->leaf >= 0 ? graph->nodes[storage->leaf].origin : -1;
        switch (storage->kind) {
        case GY_STORAGE_OWN:
            all->sum.program_bytes += storage->chunk < 0 ? storage->size_bytes : 0;
            break;
        case GY_STORAGE_SHARED:
            all->sum.shared_bytes += storage->chunk < 0 ? storage->size_bytes : 0;
            break;
        case GY_STORAGE_INPUT:
            inputs += storage->size_bytes;
            break;
        case GY_STORAGE_LITERAL: /* the graph's, one for all programs and small */
        case GY_STORAGE_DEVICE:  /* none of the CPU's */
            break;
        case GY_STORAGE_PARAMETER:
            GY_ASSERT(origin >= 0);
            all->sum.parameter_bytes +=
                all->is_counted[origin] ? 0 : kept_bytes(user, &graph->mesh, origin);
            all->is_counted[origin] = true;
            break;
        }
    }
    return inputs;
}

static void add_chunks(const gy_memory_chunks *chunks, gy_footprint *sum)
{
    for (size_t i = 0; i < chunks->count; i++) {
        const gy_memory_chunk *chunk = &chunks->list[i];
        GY_ASSERT(chunk->data == NULL);
        if (chunk->kind != GY_STORAGE_DEVICE) {
            *(chunk->kind == GY_STORAGE_SHARED ? &sum->shared_bytes : &sum->program_bytes) +=
                chunk->size_bytes;
        }
    }
}

/* All is added: sum it up, and free what it took. */
static void add_up(held *all)
{
    add_chunks(&all->chunks, &all->sum);
    for (size_t i = 0; i < all->slot_count; i++) {
        add_chunks(&all->slots[i], &all->sum);
        gy_free(all->slots[i].list);
    }
    gy_free(all->chunks.list);
    gy_free(all->slots);
    gy_free(all->instances);
}

/* Kernels and buffers of a compiled graph, as a program of it would have them. */
static gy_status plan_graph(const gy_session *session, const gy_graph *graph,
                            gy_memory_plan *plan)
{
    const int workers = gy_engine_workers(session->engine);
    gy_graph_choice *choices =
        gy_alloc_zero("graph.footprint", (size_t)graph->node_count + 1, sizeof(*choices));
    GY_ASSERT(graph->is_placed);
    if (choices == NULL) {
        return GY_NOMEM;
    }
    gy_choose_kernels(graph, workers, choices);
    const gy_status status = gy_plan_memory(
        graph, choices, (session->skip & GY_SKIP_SHARING) != 0 ? 0 : workers, plan);
    gy_free(choices);
    return status;
}

/* What a compiled program holds, of whose run a rank is fed so many. */
static gy_status add_program(const gy_session *session, const gy_graph *graph, int micros,
                             held *all)
{
    gy_memory_plan plan = {.buffer_count = 0};
    gy_status status = plan_graph(session, graph, &plan);
    status = status >= 0 ? gy_memory_share(&all->chunks, &plan) : status;
    if (status >= 0) {
        const uint64_t fed = add_plan(session->graph, graph, &plan, all);
        all->sum.input_bytes = GY_MAX(all->sum.input_bytes, fed * (uint64_t)GY_MAX(micros, 1));
        all->sum.recomputed = GY_MAX(all->sum.recomputed, graph->recomputed);
    }
    gy_memory_plan_free(&plan);
    return status;
}

/* ---- micro-batches by a schedule ---- */

/* Those of so many rows, compiled. */
typedef struct micro_program {
    int64_t rows; /* 0: there is none */
    gy_graph *graph;
    int32_t *segments;
    uint64_t fed_bytes; /* of one */
} micro_program;

static gy_status compile_micro(const gy_session *session, const gy_mesh *mesh,
                               const gy_planned_run *run, micro_program *program)
{
    gy_graph *graph = NULL;
    gy_planned_run micro = *run;
    GY_ASSERT(program->graph == NULL && program->rows > 0);
    micro.batch = program->rows;
    GY_TRY(gy_session_compile(session, mesh, &micro, NULL, &graph));
    const gy_status status = gy_pipe_order(graph, &program->graph, &program->segments);
    if (status >= 0 && !gy_pipe_has_weight(&run->schedule->lists[mesh->stage])) {
        gy_pipe_join(program->segments, program->graph->node_count, GY_MAX(mesh->chunks, 1));
    }
    gy_graph_free(graph);
    return status;
}

/* Is an instance made: in the slot, or, below 0, in any? */
static bool is_made(const held *all, int slot, int64_t rows)
{
    GY_ASSERT(rows > 0 && all->instance_count <= all->instance_capacity);
    for (size_t i = 0; i < all->instance_count; i++) {
        if (all->instances[i].rows == rows && (slot < 0 || all->instances[i].slot == slot)) {
            return true;
        }
    }
    return false;
}

/* The steps of an instance themselves: views, types and offsets of what each reads and makes.
 */
static uint64_t steps_bytes(const gy_graph *graph)
{
    const size_t operand = sizeof(gy_view) + sizeof(gy_type) +
                           sizeof(int64_t[GY_TENSOR_RANK_MAX]) + 2 * sizeof(gy_var *);
    uint64_t bytes = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        const size_t operands = (size_t)node->input_count + (size_t)node->output_count + 1;
        const bool is_step = (node->op->flags & (GY_OP_LEAF | GY_OP_VIEW)) == 0;
        GY_ASSERT(node->input_count >= 0 && node->output_count >= 0);
        bytes += is_step ? sizeof(gy_program_step) + operands * operand : 0;
    }
    return bytes;
}

/* One more instance: what passes within segments is the first one's of so many rows. */
static gy_status add_instance(const gy_session *session, micro_program *program, int slot,
                              held *all)
{
    gy_memory_plan plan = {.buffer_count = 0};
    const bool is_first = !is_made(all, -1, program->rows);
    GY_ASSERT(slot >= 0 && program->rows > 0);
    GY_ASSERT(program->graph != NULL && program->segments != NULL);
    GY_TRY(GY_GROW("graph.footprint", all->slots, all->slot_capacity, (size_t)slot + 1));
    for (; all->slot_count <= (size_t)slot; all->slot_count++) {
        all->slots[all->slot_count] = (gy_memory_chunks){.list = NULL};
    }
    GY_TRY(GY_GROW("graph.footprint", all->instances, all->instance_capacity,
                   all->instance_count + 1));
    GY_TRY(plan_graph(session, program->graph, &plan));
    bool *is_passing =
        gy_alloc_zero("graph.footprint", (size_t)plan.buffer_count + 1, sizeof(bool));
    gy_status status = is_passing != NULL ? GY_OK : GY_NOMEM;
    if (status >= 0) {
        gy_pipe_find_passing(program->graph, program->segments, &plan, is_passing);
        status = gy_memory_share(&all->slots[slot], &plan);
    }
    for (int32_t i = 0; i < plan.buffer_count && status >= 0 && !is_first; i++) {
        plan.buffers[i].size_bytes *= is_passing[i] ? 0 : 1;
    }
    if (status >= 0) {
        all->sum.program_bytes += steps_bytes(program->graph);
        program->fed_bytes = add_plan(session->graph, program->graph, &plan, all);
        all->sum.recomputed = GY_MAX(all->sum.recomputed, program->graph->recomputed);
        all->instances[all->instance_count++] = (instance){slot, program->rows};
    }
    gy_free(is_passing);
    gy_memory_plan_free(&plan);
    return status;
}

/* In the order of micro-batches, as the runner makes them. */
static gy_status add_instances(const gy_session *session, const gy_mesh *mesh,
                               const gy_planned_run *run, const gy_micro_batch *micros,
                               held *all)
{
    gy_pipe_places places = {.slots = 0};
    uint64_t fed_bytes = 0;
    GY_ASSERT(run->schedule->micros == run->micros);
    GY_ASSERT(mesh->stage >= 0 && mesh->stage < run->schedule->ranks);
    micro_program programs[2] = {{.rows = 0}, {.rows = 0}}; /* even parts have two sizes */
    gy_status status =
        gy_pipe_place(&run->schedule->lists[mesh->stage], micros, run->micros, &places);
    for (int k = 0; k < run->micros && status >= 0; k++) {
        const int64_t rows = micros[k].rows;
        const bool is_first = programs[0].rows == 0 || programs[0].rows == rows;
        micro_program *program = &programs[is_first ? 0 : 1];
        if (places.slot[k] < 0) {
            continue;
        }
        GY_ASSERT(program->rows == 0 || program->rows == rows);
        program->rows = rows;
        if (!is_made(all, places.slot[k], rows)) {
            status =
                program->graph == NULL ? compile_micro(session, mesh, run, program) : GY_OK;
            status = status >= 0 ? add_instance(session, program, places.slot[k], all) : status;
        }
        fed_bytes += program->fed_bytes;
    }
    all->sum.input_bytes = GY_MAX(all->sum.input_bytes, fed_bytes);
    for (int i = 0; i < 2; i++) {
        gy_graph_free(programs[i].graph);
        gy_free(programs[i].segments);
    }
    gy_pipe_places_free(&places);
    return status;
}

static gy_status add_scheduled(const gy_session *session, const gy_mesh *mesh,
                               const gy_planned_run *run, held *all)
{
    gy_micro_batch *micros =
        gy_alloc_zero("graph.footprint", (size_t)run->micros, sizeof(*micros));
    GY_ASSERT(run->micros >= 1 && run->loss > 0);
    if (micros == NULL) {
        return GY_NOMEM;
    }
    for (int k = 0; k < run->micros; k++) {
        micros[k].rows = gy_part_begin(run->batch, k + 1, run->micros) -
                         gy_part_begin(run->batch, k, run->micros);
    }
    const gy_status status = add_instances(session, mesh, run, micros, all);
    gy_free(micros);
    return status;
}

static gy_status add_run(gy_session *session, const gy_mesh *mesh, const gy_planned_run *run,
                         held *all)
{
    GY_ASSERT(run->batch > 0 && run->fetch_count >= 0);
    gy_graph *graph = NULL;
    if (run->schedule != NULL && mesh->stages > 1) {
        return add_scheduled(session, mesh, run, all);
    }
    GY_TRY(gy_session_compile(session, mesh, run, NULL, &graph));
    const gy_status status = add_program(session, graph, run->micros, all);
    gy_graph_free(graph);
    return status;
}

gy_status gy_session_footprint(gy_session *session, const gy_mesh *mesh,
                               const gy_planned_run *runs, int run_count,
                               gy_footprint *footprint)
{
    GY_ASSERT(run_count >= 0 && footprint != NULL);
    held all = {.is_counted = gy_alloc_zero(
                    "graph.footprint", (size_t)session->graph->node_count + 1, sizeof(bool))};
    if (all.is_counted == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    for (int i = 0; i < run_count && status >= 0; i++) {
        status = add_run(session, mesh != NULL ? mesh : &session->mesh, &runs[i], &all);
    }
    add_up(&all);
    gy_free(all.is_counted);
    if (status >= 0) {
        *footprint = all.sum;
    }
    return status;
}

/* Compile stage `stage` of a scheduled program, and add what it holds. */
static gy_status foresee_stage(const gy_session *session, gy_graph *scheduled, int stage,
                               held *all, gy_graph **graph)
{
    GY_ASSERT(stage >= 0 && *graph == NULL);
    scheduled->mesh.stage = stage;
    GY_TRY(gy_graph_compile_rest(scheduled, session->skip, graph));
    return add_program(session, *graph, 1, all);
}

static gy_status schedule_run(const gy_session *session, const gy_mesh *mesh,
                              const gy_planned_run *run, gy_graph **scheduled)
{
    gy_graph *bound = NULL;
    GY_ASSERT(run->batch > 0);
    GY_TRY(gy_session_bind(session, mesh, run, &bound));
    const gy_status status =
        gy_graph_compile_placed(bound, session->skip, GY_COMPILE_SCHEDULED, scheduled);
    gy_graph_free(bound);
    return status;
}

gy_status gy_session_foresee(gy_session *session, const gy_mesh *mesh,
                             const gy_planned_run *runs, int run_count, gy_graph **graphs,
                             gy_footprint *footprints)
{
    const int stages = GY_MAX(mesh->stages, 1);
    const size_t nodes = (size_t)session->graph->node_count + 1;
    GY_ASSERT(run_count >= 1 && graphs != NULL);
    held *all = gy_alloc_zero("graph.foresee", (size_t)stages, sizeof(*all));
    bool *counted = gy_alloc_zero("graph.foresee", (size_t)stages * nodes, sizeof(*counted));
    gy_status status = all != NULL && counted != NULL ? GY_OK : GY_NOMEM;
    for (int i = 0; i < run_count && status >= 0; i++) {
        gy_graph *scheduled = NULL;
        status = schedule_run(session, mesh, &runs[i], &scheduled);
        for (int s = 0; s < stages && status >= 0; s++) {
            all[s].is_counted = counted + (size_t)s * nodes;
            status = foresee_stage(session, scheduled, s, &all[s], &graphs[s * run_count + i]);
        }
        gy_graph_free(scheduled);
    }
    for (int s = 0; s < stages && all != NULL; s++) {
        add_up(&all[s]);
        footprints[s] = all[s].sum;
    }
    gy_free(all);
    gy_free(counted);
    return status;
}

uint64_t gy_footprint_bytes(const gy_footprint *f)
{
    return f->parameter_bytes + f->input_bytes + f->program_bytes + f->shared_bytes;
}
