/*
 * Bruck: any number of ranks in ceil(log2 p) rounds. Blocks are ordered by distance, so that
 * blocks sent together are contiguous: slot i has the block of rank r+i (allgather), or the
 * one that must travel i more ranks (all-to-all).
 *
 *   allgather, 5 ranks, what rank 0 has       0      0 1      0 1 2 3      0 1 2 3 4
 *                                              from 1    from 2     from 4
 *   all-to-all: in round k every slot whose number has bit k moves on by 2^k ranks.
 *
 * cost: ceil(log2 p) rounds; allgather (p-1)/p n bytes, all-to-all about half the slots a
 * round, n/2 log2 p bytes, for short blocks. Slots have the size of the longest block.
 *
 * source: Bruck, Ho, Kipnis, Upfal, Weathersby: "Efficient algorithms for all-to-all
 * communications in multiport message-passing systems", IEEE TPDS 1997
 */
#include "plan/plan_priv.h"

#include "base/base.h"

/* Copy the blocks of a part into or out of slots, one by one, since a slot has one block. */
static gy_status copy_part(gy_plan_sink *sink, gy_blocks a, gy_blocks to, int chunks)
{
    for (int chunk = 0; chunk < chunks; chunk++) {
        gy_blocks from = a, into = to;
        from.first = into.first = a.first + chunk;
        from.run = into.run = 1;
        from.slot += chunk;
        into.slot += chunk;
        GY_TRY(gy_plan_emit_copy(sink, from, into));
    }
    return GY_OK;
}

gy_status gy_plan_bruck_allgather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request), own = rank * chunks;
    GY_TRY(copy_part(sink, gy_in(rank, own, 1), gy_scratch(rank, 0, own), chunks));
    int round = 0;
    for (int far = 1; far < ranks; far *= 2, round++) {
        int parts = GY_MIN(far, ranks - far);
        GY_TRY(gy_plan_emit_send(sink, (rank - far + ranks) % ranks,
                                 gy_scratch_whole(rank, 0, parts * chunks), round));
        GY_TRY(gy_plan_emit_recv(sink, (rank + far) % ranks,
                                 gy_scratch_whole(rank, far * chunks, parts * chunks), round,
                                 0));
    }
    for (int i = request->in_place ? 1 : 0; i < ranks; i++) {
        int block = (rank + i) % ranks * chunks;
        GY_TRY(copy_part(sink, gy_scratch(rank, i * chunks, block), gy_out(rank, block, 1),
                         chunks));
    }
    return GY_OK;
}

/* A round of all-to-all: pack and send the slots with the bit, and replace them by the
 * received ones. */
static gy_status move_slots(const gy_plan_request *request, int rank, int bit,
                            gy_plan_sink *sink, uint32_t *sent)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    int slots = ranks * chunks, packed = 0, half = (ranks / 2 + 1) * chunks, tag = 0;
    for (int first = bit; first < ranks; first += 2 * bit) {
        int run = GY_MIN(bit, ranks - first) * chunks;
        GY_TRY(gy_plan_emit(
            sink, &(gy_step){.kind = GY_STEP_COPY,
                             .a = gy_scratch_whole(rank, first * chunks, run),
                             .to = gy_scratch_whole(rank, slots + packed, run),
                             /* the packed blocks of the round before have been sent */
                             .after = {*sent}}));
        packed += run;
    }
    while (1 << tag < bit) {
        tag++;
    }
    GY_TRY(gy_plan_emit_send(sink, (rank + bit) % ranks, gy_scratch_whole(rank, slots, packed),
                             tag));
    *sent = sink->count;
    GY_TRY(gy_plan_emit_recv(sink, (rank - bit + ranks) % ranks,
                             gy_scratch_whole(rank, slots + half, packed), tag, 0));
    packed = 0;
    for (int first = bit; first < ranks; first += 2 * bit) {
        int run = GY_MIN(bit, ranks - first) * chunks;
        GY_TRY(gy_plan_emit_copy(sink, gy_scratch_whole(rank, slots + half + packed, run),
                                 gy_scratch_whole(rank, first * chunks, run)));
        packed += run;
    }
    return GY_OK;
}

gy_status gy_plan_bruck_alltoall(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    int own = (rank * ranks + rank) * chunks;
    if (!request->in_place) {
        GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, own, chunks), gy_out(rank, own, chunks)));
    }
    for (int i = 1; i < ranks; i++) {
        int block = (rank * ranks + (rank + i) % ranks) * chunks;
        GY_TRY(copy_part(sink, gy_in(rank, block, 1), gy_scratch(rank, i * chunks, block),
                         chunks));
    }
    uint32_t sent = 0;
    for (int bit = 1; bit < ranks; bit *= 2) {
        GY_TRY(move_slots(request, rank, bit, sink, &sent));
    }
    for (int i = 1; i < ranks; i++) {
        int block = ((rank - i + ranks) % ranks * ranks + rank) * chunks;
        GY_TRY(copy_part(sink, gy_scratch(rank, i * chunks, block), gy_out(rank, block, 1),
                         chunks));
    }
    return GY_OK;
}
