/*
 * Scans: rank r gets what the ranks up to itself (scan), or before it (exclusive scan), make
 * together.
 *
 * The chain: each rank waits for the sum of those before it, adds its own and passes that on.
 *
 *   0 -> 1 -> 2 -> 3        x0, x0+x1, (x0+x1)+x2, ((x0+x1)+x2)+x3
 *
 * Sums that travel stand in scratch, where those of f16 and bf16 are float32; what a rank keeps
 * is a copy. So a prefix is rounded once, as a fold on one rank is.
 *
 * cost: p-1 rounds of the vector; with c chunks that follow each other p-1 + c-1 rounds of n/c.
 *
 * source: MPI 4.1, "Scan"
 */
#include "plan/plan_priv.h"

#include "base/base.h"

enum { SLOTS = 2 }; /* sets of sums being sent, which alternate */

gy_status gy_plan_chain_scan(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    bool is_last = rank + 1 == request->ranks;
    uint32_t sent[SLOTS] = {0, 0};
    for (int chunk = 0; chunk < chunks; chunk++) {
        gy_blocks in = gy_in(rank, chunk, 1), out = gy_out(rank, chunk, 1);
        gy_blocks sum = rank == 0 ? in : is_last ? out : gy_scratch(rank, chunk % SLOTS, chunk);
        if (rank > 0) {
            GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                                 .peer = rank - 1,
                                                 .a = gy_wire(chunk, 1),
                                                 .b = in,
                                                 .to = sum,
                                                 .after = {sent[chunk % SLOTS]},
                                                 .chunk = (uint16_t)chunk}));
        }
        if (!is_last) {
            GY_TRY(gy_plan_emit_send(sink, rank + 1, sum, chunk));
            sent[chunk % SLOTS] = sink->count;
        }
        if (rank == 0 ? !request->in_place : !is_last) {
            GY_TRY(gy_plan_emit_copy(sink, sum, out));
        }
    }
    return GY_OK;
}

gy_status gy_plan_chain_exclusive_scan(const gy_plan_request *request, int rank,
                                       gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    bool is_last = rank + 1 == request->ranks;
    uint32_t sent[SLOTS] = {0, 0};
    for (int chunk = 0; chunk < chunks; chunk++) {
        gy_blocks in = gy_in(rank, chunk, 1), out = gy_out(rank, chunk, 1);
        /* In place the own part must survive until it is added. */
        gy_blocks before = is_last ? out : gy_scratch(rank, SLOTS, chunk);
        gy_blocks sum = gy_scratch(rank, chunk % SLOTS, chunk);
        if (rank > 0) {
            GY_TRY(gy_plan_emit_recv(sink, rank - 1, before, chunk, 0));
        }
        if (rank > 0 && !is_last) {
            GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_REDUCE,
                                                 .a = before,
                                                 .b = in,
                                                 .to = sum,
                                                 .after = {sent[chunk % SLOTS]}}));
        }
        if (!is_last) {
            GY_TRY(gy_plan_emit_send(sink, rank + 1, rank == 0 ? in : sum, chunk));
            sent[chunk % SLOTS] = sink->count;
        }
        if (rank > 0 && !is_last) {
            GY_TRY(gy_plan_emit_copy(sink, before, out));
        }
    }
    return GY_OK;
}

/*
 * Doubling: after round k a rank has the sum of the 2^(k+1) ranks up to itself.
 *
 *   round 0   0>1 1>2 2>3 3>4      round 1   0>2 1>3 2>4      round 2   0>4       (five ranks)
 *
 * The sum that travels is of neighbours, and what comes is the left operand. An exclusive scan
 * keeps two sums: one with its own part, to be sent, and one without.
 *
 * cost: ceil(log2 p) rounds of n bytes.
 * source: Hillis and Steele: "Data parallel algorithms", CACM 1986
 */
gy_status gy_plan_doubling_scan(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks;
    for (int chunk = 0; chunk < gy_request_chunks(request); chunk++) {
        gy_blocks sum = gy_in(rank, chunk, 1), out = gy_out(rank, chunk, 1);
        gy_blocks came = gy_scratch(rank, 0, chunk);
        for (int far = 1; far < ranks; far *= 2) {
            uint32_t sent = 0;
            if (rank + far < ranks) {
                GY_TRY(gy_plan_emit_send(sink, rank + far, sum, chunk));
                sent = sink->count;
            }
            if (rank >= far) {
                bool is_final = rank < 2 * far && rank + 2 * far >= ranks;
                gy_blocks next = is_final ? out : gy_scratch(rank, 1 + chunk, chunk);
                GY_TRY(gy_plan_emit_recv(sink, rank - far, came, chunk, 0));
                GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_REDUCE,
                                                     .a = came,
                                                     .b = sum,
                                                     .to = next,
                                                     .after = {sent}}));
                sum = next;
            }
        }
        if (rank == 0 ? !request->in_place : sum.buffer != GY_BUFFER_OUT) {
            GY_TRY(gy_plan_emit_copy(sink, sum, out));
        }
    }
    return GY_OK;
}

/* Combine the received sum with the sum without the own part, which is empty at first. */
static gy_status add_before(int far, gy_blocks came, gy_blocks before, gy_plan_sink *sink)
{
    return far == 1 ? gy_plan_emit_copy(sink, came, before)
                    : gy_plan_emit_reduce(sink, came, before, before);
}

gy_status gy_plan_doubling_exclusive_scan(const gy_plan_request *request, int rank,
                                          gy_plan_sink *sink)
{
    enum { CAME, WITH_OWN, BEFORE, KINDS };
    for (int chunk = 0; chunk < gy_request_chunks(request); chunk++) {
        gy_blocks sum = gy_in(rank, chunk, 1);
        gy_blocks came = gy_scratch(rank, chunk * KINDS + CAME, chunk);
        gy_blocks with_own = gy_scratch(rank, chunk * KINDS + WITH_OWN, chunk);
        gy_blocks before = gy_scratch(rank, chunk * KINDS + BEFORE, chunk);
        uint32_t sent = 0;
        for (int far = 1; far < request->ranks; far *= 2) {
            if (rank + far < request->ranks) {
                GY_TRY(gy_plan_emit_send(sink, rank + far, sum, chunk));
                sent = sink->count;
            }
            if (rank < far) {
                continue;
            }
            GY_TRY(gy_plan_emit_recv(sink, rank - far, came, chunk, 0));
            GY_TRY(add_before(far, came, before, sink));
            if (rank + 2 * far < request->ranks) { /* it is sent on */
                GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_REDUCE,
                                                     .a = came,
                                                     .b = sum,
                                                     .to = with_own,
                                                     .after = {sent}}));
                sum = with_own;
            }
        }
        /* in place this replaces the own part, which may have been sent before */
        if (rank > 0) {
            GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_COPY,
                                                 .a = before,
                                                 .to = gy_out(rank, chunk, 1),
                                                 .after = {sent}}));
        }
    }
    return GY_OK;
}
