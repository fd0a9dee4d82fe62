/*
 * Claimed sums through staging, for private vectors of ranks that share their cores: each rank
 * lays its whole vector out, all meet, the blocks are summed by whoever claims them and laid
 * out where all find them, each rank fetches the sums. Who comes last sums for all; who was not
 * running meanwhile only fetches, so that a rank is switched to once a call.
 *
 * cost: 2 rounds; (p-1)/p of the vector read for sums and as much for results, as much again
 * copied locally.
 */
#include "plan/plan_priv.h"

#include "base/base.h"

enum { LAID_OUT = 1, SUMMED = 2 };

/* Block b of each rank is in slot b; the sums of a part are with its rank, in later slots. */
static gy_blocks laid_out(const gy_plan_request *request, int of, int block)
{
    (void)request;
    return gy_stage(of, block, block);
}

static gy_blocks sum_of(const gy_plan_request *request, int block)
{
    int chunks = gy_request_chunks(request);
    return gy_stage(block / chunks, request->ranks * chunks + block % chunks, block);
}

gy_status gy_plan_claimed_allreduce(const gy_plan_request *request, int rank,
                                    gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request), blocks = ranks * chunks;
    if (ranks == 1) {
        return request->in_place
                   ? GY_OK
                   : gy_plan_emit_copy(sink, gy_in(0, 0, chunks), gy_out(0, 0, chunks));
    }
    for (int block = 0; block < blocks; block++) {
        GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, block, 1), laid_out(request, rank, block)));
    }
    GY_TRY(gy_plan_emit_post(sink, LAID_OUT));
    GY_TRY(gy_plan_emit_wait(sink, GY_EVERY, LAID_OUT));
    GY_TRY(gy_plan_emit_claims(&(gy_claims){.request = request,
                                            .rank = rank,
                                            .chunks = chunks,
                                            .mark = SUMMED,
                                            .operand = laid_out,
                                            .result = sum_of},
                               sink));
    for (int step = 0; step < blocks; step++) {
        int block = (rank * chunks + step) % blocks; /* each rank begins with another block */
        GY_TRY(gy_plan_emit_copy(sink, sum_of(request, block), gy_out(rank, block, 1)));
    }
    return GY_OK;
}
