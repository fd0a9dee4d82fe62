/*
 * Scans: rank r gets what the ranks up to itself (scan), or before it (exclusive scan), make
 * together.
 *
 * The chain: each rank waits for the sum of those before it, adds its own and passes that on.
 *
 *   0 -> 1 -> 2 -> 3        x0, x0+x1, (x0+x1)+x2, ((x0+x1)+x2)+x3
 *
 * cost: p-1 rounds of the vector; with c chunks that follow each other p-1 + c-1 rounds of n/c.
 *
 * source: MPI 4.1, "Scan"
 */
#include "plan/plan_priv.h"

#include "base/base.h"

gy_status gy_plan_chain_scan(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    for (int chunk = 0; chunk < chunks; chunk++) {
        gy_blocks in = gy_in(rank, chunk, 1), out = gy_out(rank, chunk, 1);
        if (rank > 0) {
            GY_TRY(gy_emit(sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                            .peer = rank - 1,
                                            .a = gy_wire(chunk, 1),
                                            .b = in,
                                            .to = out,
                                            .chunk = (uint16_t)chunk}));
        } else if (!request->in_place) {
            GY_TRY(gy_emit_copy(sink, in, out));
        }
        if (rank + 1 < request->ranks) {
            GY_TRY(gy_emit_send(sink, rank + 1, out, chunk));
        }
    }
    return GY_OK;
}

gy_status gy_plan_chain_exclusive_scan(const gy_plan_request *request, int rank,
                                       gy_plan_sink *sink)
{
    enum { SLOTS = 2 }; /* what is being sent, by turns; what came lies in the third */
    int chunks = gy_request_chunks(request);
    bool is_last = rank + 1 == request->ranks;
    uint32_t sent[SLOTS] = {0, 0};
    for (int chunk = 0; chunk < chunks; chunk++) {
        gy_blocks in = gy_in(rank, chunk, 1), out = gy_out(rank, chunk, 1);
        /* In place the own part must last until it is added. */
        bool is_apart = !request->in_place || is_last;
        gy_blocks before = is_apart ? out : gy_scratch(rank, SLOTS, chunk);
        gy_blocks sum = gy_scratch(rank, chunk % SLOTS, chunk);
        if (rank > 0) {
            GY_TRY(gy_emit_recv(sink, rank - 1, before, chunk, 0));
        }
        if (rank > 0 && !is_last) {
            GY_TRY(gy_emit(sink, &(gy_step){.kind = GY_STEP_REDUCE,
                                            .a = before,
                                            .b = in,
                                            .to = sum,
                                            .after = {sent[chunk % SLOTS]}}));
        }
        if (!is_last) {
            GY_TRY(gy_emit_send(sink, rank + 1, rank == 0 ? in : sum, chunk));
            sent[chunk % SLOTS] = sink->count;
        }
        if (rank > 0 && !is_apart) {
            GY_TRY(gy_emit_copy(sink, before, out));
        }
    }
    return GY_OK;
}
