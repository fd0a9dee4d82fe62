#include "plan/plan.h"

#include "base/base.h"
#include "plan/plan_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const gy_algorithm gy_algorithms[] = {
#define GY_PLANNER(title, op, planner, cutting, needs, promise)                                \
    {.name = (title),                                                                          \
     .operation = GY_OPERATION_##op,                                                           \
     .plan = (planner),                                                                        \
     .cut = GY_CUT_##cutting,                                                                  \
     .need = GY_NEED_##needs,                                                                  \
     .order = GY_ORDER_##promise},
#include "plan/planners.def"
#undef GY_PLANNER
};
const size_t gy_algorithm_count = GY_COUNT(gy_algorithms);

const char *gy_operation_name(gy_operation operation)
{
    static const char *const names[] = {
        [GY_OPERATION_ALLREDUCE] = "allreduce",
        [GY_OPERATION_REDUCE_SCATTER] = "reduce-scatter",
        [GY_OPERATION_ALLGATHER] = "allgather",
        [GY_OPERATION_BROADCAST] = "broadcast",
        [GY_OPERATION_REDUCE] = "reduce",
        [GY_OPERATION_BARRIER] = "barrier",
    };
    _Static_assert(GY_COUNT(names) == GY_OPERATION_COUNT, "a name for each operation");
    return (unsigned)operation < GY_COUNT(names) ? names[operation] : "unknown operation";
}

const gy_algorithm *gy_algorithm_find(gy_operation operation, const char *name)
{
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        if (row->operation == operation && strcmp(row->name, name) == 0) {
            return row;
        }
    }
    return NULL;
}

int gy_cut_parts(gy_cut cut, const gy_plan_request *request)
{
    switch (cut) {
    case GY_CUT_CHUNKS:
        return 1;
    case GY_CUT_RANKS:
        return request->ranks;
    case GY_CUT_WINDOWS:
        return gy_request_chunks(request);
    }
    gy_panic("no cut %d", (int)cut);
}

int gy_cut_chunks(gy_cut cut, const gy_plan_request *request)
{
    return cut == GY_CUT_WINDOWS ? request->ranks : gy_request_chunks(request);
}

/* Length of each of `pieces` equal pieces of `count`, a multiple of `unit`. */
static int64_t piece_length(int64_t count, int64_t pieces, int64_t unit)
{
    int64_t length = (count + pieces - 1) / pieces;
    return (length + unit - 1) / unit * unit;
}

int64_t gy_layout_at(const gy_layout *layout, int64_t block)
{
    int64_t blocks = (int64_t)layout->parts * layout->chunks;
    GY_ASSERT(block >= 0 && block <= blocks && layout->part_unit > 0 && layout->chunk_unit > 0);
    if (block == blocks) {
        return layout->count;
    }
    int64_t part = block / layout->chunks;
    int64_t length = piece_length(layout->count, layout->parts, layout->part_unit);
    int64_t from = GY_MIN(layout->count, part * length);
    int64_t end = GY_MIN(layout->count, from + length);
    int64_t chunk = piece_length(length, layout->chunks, layout->chunk_unit);
    return GY_MIN(end, from + block % layout->chunks * chunk);
}

int64_t gy_layout_longest(const gy_layout *layout)
{
    int64_t length = piece_length(layout->count, layout->parts, layout->part_unit);
    int64_t chunk = piece_length(length, layout->chunks, layout->chunk_unit);
    return GY_MIN(layout->count, GY_MIN(length, chunk));
}

static void note_slots(gy_steps *steps, const gy_blocks *blocks)
{
    int32_t end = blocks->slot + blocks->run;
    if (blocks->buffer == GY_BUFFER_STAGE) {
        steps->stage_slots = GY_MAX(steps->stage_slots, end);
    } else if (blocks->buffer == GY_BUFFER_SCRATCH) {
        steps->scratch_slots = GY_MAX(steps->scratch_slots, end);
    }
}

static gy_status store(gy_plan_sink *sink, const gy_step *step)
{
    gy_steps *steps = (gy_steps *)sink; /* the sink is its first member */
    void *items = steps->items;
    GY_TRY(gy_reserve("plan.steps", &items, &steps->capacity, steps->count + 1, sizeof(*step)));
    steps->items = items;
    steps->items[steps->count++] = *step;
    note_slots(steps, &step->a);
    note_slots(steps, &step->b);
    note_slots(steps, &step->to);
    if (step->kind == GY_STEP_POST || step->kind == GY_STEP_WAIT) {
        steps->last_mark = GY_MAX(steps->last_mark, step->mark);
    }
    return GY_OK;
}

void gy_steps_init(gy_steps *steps)
{
    *steps = (gy_steps){.sink = {.take = store}};
}

void gy_steps_free(gy_steps *steps)
{
    gy_free(steps->items);
    gy_steps_init(steps);
}

gy_status gy_emit(gy_plan_sink *sink, const gy_step *step)
{
    gy_status status = sink->take(sink, step);
    sink->count += status == GY_OK;
    return status;
}

gy_status gy_emit_copy(gy_plan_sink *sink, gy_blocks a, gy_blocks to)
{
    return gy_emit(sink, &(gy_step){.kind = GY_STEP_COPY, .a = a, .to = to});
}

gy_status gy_emit_reduce(gy_plan_sink *sink, gy_blocks a, gy_blocks b, gy_blocks to)
{
    return gy_emit(sink, &(gy_step){.kind = GY_STEP_REDUCE, .a = a, .b = b, .to = to});
}

gy_status gy_emit_post(gy_plan_sink *sink, uint32_t mark)
{
    return gy_emit(sink, &(gy_step){.kind = GY_STEP_POST, .mark = mark});
}

gy_status gy_emit_wait(gy_plan_sink *sink, int peer, uint32_t mark)
{
    return gy_emit(sink, &(gy_step){.kind = GY_STEP_WAIT, .peer = peer, .mark = mark});
}

gy_status gy_plan_rank(const gy_algorithm *algorithm, const gy_plan_request *request, int rank,
                       gy_plan_sink *sink)
{
    if (request->operation != algorithm->operation) {
        return gy_fail(GY_ARG, "%s of %s asked for a plan of %s", algorithm->name,
                       gy_operation_name(algorithm->operation),
                       gy_operation_name(request->operation));
    }
    if (request->ranks < 1 || request->ranks > GY_PLAN_RANKS) {
        return gy_fail(GY_ARG, "%d ranks, expected 1 to %d", request->ranks, GY_PLAN_RANKS);
    }
    if (rank < 0 || rank >= request->ranks) {
        return gy_fail(GY_ARG, "rank %d, expected 0 to %d", rank, request->ranks - 1);
    }
    if (request->root < 0 || request->root >= request->ranks) {
        return gy_fail(GY_ARG, "root %d, expected 0 to %d", request->root, request->ranks - 1);
    }
    if (request->chunks < 0 || request->chunks > UINT16_MAX) {
        return gy_fail(GY_ARG, "%d chunks, expected 0 to %d", request->chunks, UINT16_MAX);
    }
    if (request->order > algorithm->order) {
        return gy_fail(GY_ARG, "%s of %s does not combine in the order asked for",
                       algorithm->name, gy_operation_name(algorithm->operation));
    }
    return algorithm->plan(request, rank, sink);
}

gy_status gy_plan_new(const gy_algorithm *algorithm, const gy_plan_request *request,
                      gy_plan **plan)
{
    gy_plan *made = gy_alloc_zero("plan", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_plan){.algorithm = algorithm, .request = *request};
    size_t ranks = request->ranks > 0 ? (size_t)request->ranks : 0;
    made->ranks = gy_alloc_zero("plan.ranks", ranks, sizeof(*made->ranks));
    gy_status status = made->ranks == NULL ? GY_NOMEM : GY_OK;
    for (int rank = 0; rank < request->ranks && status == GY_OK; rank++) {
        gy_steps_init(&made->ranks[rank]);
        status = gy_plan_rank(algorithm, request, rank, &made->ranks[rank].sink);
    }
    if (status == GY_OK && ranks == 0) {
        status = gy_fail(GY_ARG, "%d ranks, expected 1 to %d", request->ranks, GY_PLAN_RANKS);
    }
    if (status != GY_OK) {
        gy_plan_free(made);
        return status;
    }
    *plan = made;
    return GY_OK;
}

void gy_plan_free(gy_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    for (int rank = 0; plan->ranks != NULL && rank < plan->request.ranks; rank++) {
        gy_free(plan->ranks[rank].items);
    }
    gy_free(plan->ranks);
    gy_free(plan);
}
