/*
 * The programs of micro-batches: one compiled for each number of rows, and instances of it in
 * slots. What a slot's programs keep from one segment to another lies in the slot's memory,
 * which those of other rows use in turn; what serves within a segment is one for all instances.
 */
#include "graph/pipe/pipe.h"

#include <string.h>

enum { ROWS_MAX = 8 }; /* numbers of rows that are kept for later runs */

/* One program in one slot; of two with the same rows one is the other's twin. */
typedef struct instance {
    int slot, turn;
    gy_program *program;
} instance;

typedef struct gy_pipe_programs {
    instance *list; /* a base stands before its instances */
    size_t count, capacity;
    gy_memory_chunks **chunks; /* (slots) */
    size_t slots, slot_capacity;
    int loss;
    bool has_weight; /* W has segments of its own */
} gy_pipe_programs;

void gy_pipe_find_passing(const gy_graph *graph, const int32_t *segments,
                          gy_memory_plan *memory, bool *is_passing)
{
    GY_ASSERT(is_passing != NULL && memory->buffer_count >= 0);
    GY_ASSERT(graph->is_placed);
    for (int32_t i = 0; i < memory->buffer_count; i++) {
        const gy_storage *storage = &memory->buffers[i];
        is_passing[i] =
            segments != NULL && !memory->is_plain &&
            (storage->kind == GY_STORAGE_OWN || storage->kind == GY_STORAGE_DEVICE) &&
            !storage->is_kept;
    }
    for (int32_t i = 0; i < graph->node_count && segments != NULL; i++) {
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            const gy_value input = graph->nodes[i].inputs[k];
            if (segments[input.node] != segments[i]) {
                is_passing[memory->of_value[gy_graph_value(graph, input)]] = false;
            }
        }
    }
    for (int32_t i = 0; i < graph->root_count; i++) {
        const int32_t root = memory->of_value[gy_graph_value(graph, graph->roots[i].value)];
        is_passing[root] = false;
        if (segments != NULL) { /* read while a twin runs */
            memory->buffers[root].is_kept = true;
        }
    }
    for (int32_t i = 0; i < memory->buffer_count; i++) { /* no chunk of a slot has it */
        memory->buffers[i].is_kept = memory->buffers[i].is_kept || is_passing[i];
    }
}

void gy_pipe_programs_free(gy_session *session)
{
    gy_pipe_programs *all = session->pipe;
    if (all == NULL) {
        return;
    }
    for (size_t i = all->count; i-- > 0;) {
        gy_program_free(all->list[i].program);
    }
    for (size_t i = 0; i < all->slots; i++) {
        gy_free(all->chunks[i]->list);
        gy_free(all->chunks[i]);
    }
    gy_free(all->list);
    gy_free(all->chunks);
    gy_free(all);
    session->pipe = NULL;
}

const gy_program *gy_pipe_program_at(const gy_session *session, size_t index)
{
    const gy_pipe_programs *all = session->pipe;
    GY_ASSERT(all == NULL || all->count <= all->capacity);
    return all != NULL && index < all->count ? all->list[index].program : NULL;
}

static bool is_of(const gy_program *program, const gy_planned_run *run)
{
    GY_ASSERT(program->segments != NULL);
    return program->fetch_count == run->fetch_count &&
           memcmp(program->fetches, run->fetches,
                  (size_t)run->fetch_count * sizeof(*run->fetches)) == 0;
}

static bool has_weight(const gy_session *session, const gy_planned_run *run)
{
    GY_ASSERT(run->schedule != NULL && session->mesh.stage < run->schedule->ranks);
    return gy_pipe_has_weight(&run->schedule->lists[session->mesh.stage]);
}

static bool is_known(const gy_pipe_programs *all, int64_t rows)
{
    GY_ASSERT(all->count <= all->capacity && rows > 0);
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].program->batch == rows) {
            return true;
        }
    }
    return false;
}

/* Numbers of rows of these micro-batches that no program is for. */
static int count_new(const gy_pipe_programs *all, const gy_micro_run *run)
{
    int count = 0;
    GY_ASSERT(run->count >= 1);
    for (int k = 0; k < run->count; k++) {
        bool is_new = run->micros[k].rows > 0 && !is_known(all, run->micros[k].rows);
        for (int i = 0; i < k && is_new; i++) {
            is_new = run->micros[i].rows != run->micros[k].rows;
        }
        count += is_new ? 1 : 0;
    }
    return count;
}

void gy_pipe_make_way(gy_session *session, const gy_micro_run *run, const gy_planned_run *each)
{
    const gy_pipe_programs *all = session->pipe;
    int bases = 0;
    GY_ASSERT(each->schedule == run->schedule && each->fetch_count > 0);
    if (all == NULL) {
        return;
    }
    bool is_same = all->count == 0 ||
                   (all->loss == each->loss && all->has_weight == has_weight(session, each));
    for (size_t i = 0; i < all->count; i++) {
        const gy_program *program = all->list[i].program;
        is_same = is_same && is_of(program, each);
        bases += program->base == NULL ? 1 : 0;
    }
    const int made = count_new(all, run);
    if (!is_same || (made > 0 && bases + made > ROWS_MAX)) {
        gy_pipe_programs_free(session);
    }
}

static gy_status find_all(gy_session *session, const gy_planned_run *run, int slot)
{
    if (session->pipe == NULL) {
        session->pipe = gy_alloc_zero("graph.pipe", 1, sizeof(*session->pipe));
        if (session->pipe == NULL) {
            return GY_NOMEM;
        }
    }
    gy_pipe_programs *all = session->pipe;
    all->loss = run->loss;
    all->has_weight = has_weight(session, run);
    GY_TRY(GY_GROW("graph.pipe", all->list, all->capacity, all->count + 1));
    GY_TRY(GY_GROW("graph.pipe", all->chunks, all->slot_capacity, (size_t)slot + 1));
    for (; all->slots <= (size_t)slot; all->slots++) {
        all->chunks[all->slots] = gy_alloc_zero("graph.pipe", 1, sizeof(gy_memory_chunks));
        if (all->chunks[all->slots] == NULL) {
            return GY_NOMEM;
        }
    }
    return GY_OK;
}

/* Compile the run, in segments. */
static gy_status compile(gy_session *session, gy_program_source *source)
{
    gy_graph *graph = NULL;
    GY_ASSERT(source->base == NULL && source->graph == NULL);
    GY_TRY(gy_session_find_homes(session, &source->run));
    GY_TRY(gy_session_compile(session, &session->mesh, &source->run, NULL, &graph));
    const gy_status status = gy_pipe_order(graph, &source->graph, &source->segments);
    if (status >= 0 && !has_weight(session, &source->run)) {
        gy_pipe_join(source->segments, source->graph->node_count,
                     GY_MAX(session->mesh.chunks, 1));
    }
    gy_graph_free(graph);
    return status;
}

gy_status gy_pipe_program(gy_session *session, const gy_planned_run *run, int slot, int turn,
                          gy_program **program)
{
    GY_ASSERT(slot >= 0 && run->loss > 0);
    GY_ASSERT(turn >= 0 && turn < GY_PIPE_TURNS);
    GY_TRY(find_all(session, run, slot));
    gy_pipe_programs *all = session->pipe;
    gy_program_source source = {.run = *run, .chunks = all->chunks[slot]};
    for (size_t i = 0; i < all->count; i++) {
        gy_program *have = all->list[i].program;
        if (have->batch == run->batch && all->list[i].slot == slot) {
            if (all->list[i].turn == turn) {
                *program = have;
                return GY_OK;
            }
            source.twin = have;
        }
        source.base = have->batch == run->batch && have->base == NULL ? have : source.base;
    }
    if (source.base == NULL) {
        GY_TRY(compile(session, &source));
    }
    const gy_status status = gy_program_make(session, &source, program);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_graph_free(source.graph);
        gy_free(source.segments);
        return gy_error_raise(&error);
    }
    GY_ASSERT(all->count < all->capacity);
    GY_ASSERT((*program)->chunks == all->chunks[slot]);
    all->list[all->count++] = (instance){slot, turn, *program};
    return GY_OK;
}
