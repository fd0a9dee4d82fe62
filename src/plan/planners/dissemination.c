/*
 * The dissemination barrier: in round k every rank signals the rank 2^k above it and waits for
 * the rank 2^k below it; after ceil(log2 p) rounds each has been signalled, directly or not,
 * by all.
 *
 * source: Hensgen, Finkel, Manber: "Two algorithms for barrier synchronization", IJPP 1988
 */
#include "plan/plan_priv.h"

#include "base/fail.h"

gy_status gy_plan_dissemination_barrier(const gy_plan_request *request, int rank,
                                        gy_plan_sink *sink)
{
    int ranks = request->ranks;
    uint16_t round = 0;
    for (int far = 1; far < ranks; far *= 2, round++) {
        GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_SEND,
                                             .peer = (rank + far) % ranks,
                                             .a = gy_in(rank, 0, 0),
                                             .chunk = round}));
        GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_RECV,
                                             .peer = (rank - far + ranks) % ranks,
                                             .to = gy_out(rank, 0, 0),
                                             .chunk = round}));
    }
    return GY_OK;
}
