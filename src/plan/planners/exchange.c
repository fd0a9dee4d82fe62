/*
 * Exchange through staging: each rank copies a chunk of its vector to where all can read it,
 * and each rank sums all of them itself, in rank order. There is one meeting for each chunk.
 * Two slots alternate: a rank that writes chunk c + 2 has met all ranks at c + 1, so all have
 * read chunk c.
 *
 * cost: one round a chunk; every rank reads p-1 vectors. The best for two ranks.
 */
#include "plan/plan_priv.h"

#include "base/base.h"

static gy_blocks contribution(int rank, int of, int chunk)
{
    return of == rank ? gy_in(rank, chunk, 1) : gy_stage(of, chunk % 2, chunk);
}

gy_status gy_plan_exchange_allreduce(const gy_plan_request *request, int rank,
                                     gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    if (ranks == 1) {
        return request->in_place
                   ? GY_OK
                   : gy_plan_emit_copy(sink, gy_in(0, 0, chunks), gy_out(0, 0, chunks));
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        uint32_t mark = (uint32_t)chunk + 1;
        GY_TRY(
            gy_plan_emit_copy(sink, gy_in(rank, chunk, 1), gy_stage(rank, chunk % 2, chunk)));
        GY_TRY(gy_plan_emit_post(sink, mark));
        GY_TRY(gy_plan_emit_wait(sink, GY_EVERY, mark));
        gy_blocks sum = contribution(rank, 0, chunk);
        for (int of = 1; of < ranks; of++) {
            gy_blocks next =
                of == ranks - 1 ? gy_out(rank, chunk, 1) : gy_scratch(rank, 0, chunk);
            GY_TRY(gy_plan_emit_reduce(sink, sum, contribution(rank, of, chunk), next));
            sum = next;
        }
    }
    return GY_OK;
}
