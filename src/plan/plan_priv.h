/**
 * What planners and readers of plans share inside the room.
 */
#ifndef GY_PLAN_PLAN_PRIV_H
#define GY_PLAN_PLAN_PRIV_H

#include "plan/plan.h"

#define GY_PLANNER(name, operation, planner, cut, need, order)                                 \
    gy_status planner(const gy_plan_request *request, int rank, gy_plan_sink *sink);
#include "plan/planners.def"
#undef GY_PLANNER

/** Blocks of a caller's buffer. */
static inline gy_blocks gy_in(int rank, int first, int run)
{
    return (gy_blocks){
        .buffer = GY_BUFFER_IN, .rank = (int16_t)rank, .first = first, .run = run};
}

static inline gy_blocks gy_out(int rank, int first, int run)
{
    return (gy_blocks){
        .buffer = GY_BUFFER_OUT, .rank = (int16_t)rank, .first = first, .run = run};
}

/** One block in a slot of a rank's staging or scratch. */
static inline gy_blocks gy_stage(int rank, int slot, int first)
{
    return (gy_blocks){.buffer = GY_BUFFER_STAGE,
                       .rank = (int16_t)rank,
                       .slot = slot,
                       .first = first,
                       .run = 1};
}

static inline gy_blocks gy_scratch(int rank, int slot, int first)
{
    return (gy_blocks){.buffer = GY_BUFFER_SCRATCH,
                       .rank = (int16_t)rank,
                       .slot = slot,
                       .first = first,
                       .run = 1};
}

static inline gy_blocks gy_wire(int first, int run)
{
    return (gy_blocks){.buffer = GY_BUFFER_WIRE, .first = first, .run = run};
}

gy_status gy_emit(gy_plan_sink *sink, const gy_step *step);
gy_status gy_emit_copy(gy_plan_sink *sink, gy_blocks a, gy_blocks to);
gy_status gy_emit_reduce(gy_plan_sink *sink, gy_blocks a, gy_blocks b, gy_blocks to);
gy_status gy_emit_post(gy_plan_sink *sink, uint32_t mark);
gy_status gy_emit_wait(gy_plan_sink *sink, int peer, uint32_t mark);

static inline int gy_request_chunks(const gy_plan_request *request)
{
    return request->chunks > 0 ? request->chunks : 1;
}

/** Called with each step in an order that a real run could have; `send` is the send a receive
 * took. */
typedef struct gy_visitor {
    gy_status (*visit)(struct gy_visitor *visitor, int rank, uint32_t index, uint32_t send);
} gy_visitor;

/**
 * Walk all ranks' steps to the end. A send ends when its receive has been visited.
 * @return GY_OK; GY_STATE malformed, unmatched or deadlocked steps, or what the visitor returns
 */
GY_MUST_CHECK gy_status gy_plan_walk(const gy_plan *plan, gy_visitor *visitor);

/** A failure that names rank and step: "rank 2 step 7 (send block 3 to rank 1): cause". */
gy_status gy_plan_wrong(const gy_plan *plan, int rank, uint32_t index, const char *format, ...)
    GY_PRINTF(4, 5);

#endif
