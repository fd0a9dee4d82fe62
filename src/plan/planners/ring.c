/*
 * The ring: blocks travel from rank to rank + 1. Allreduce with 4 ranks; the row is the rank,
 * the column the part, the figure how many contributions its sum holds after each round:
 *
 *   start      round 0     round 1     round 2    then the finished parts go once around
 *   1 1 1 1    1 1 1 2     1 1 3 2     1 4 3 2    4 4 4 4
 *   1 1 1 1    2 1 1 1     2 1 1 3     2 1 4 3    4 4 4 4
 *   1 1 1 1    1 2 1 1     3 2 1 1     3 2 1 4    4 4 4 4
 *   1 1 1 1    1 1 2 1     1 3 2 1     4 3 2 1    4 4 4 4
 *
 * Segmented (`segments:n`): each part goes in n segments that follow each other, so that one is
 * on its way while the one before is being summed.
 *
 * cost: 2(p-1) rounds, 2(p-1)/p of the vector sent by each rank (allreduce); half of both for
 * the other two. A part is summed from the rank after its first sender around the ring, so the
 * order is not that of the ranks, but it is the same everywhere and always.
 *
 * source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 2009; lecture B, "Ring based Reduction"
 */
#include "plan/plan_priv.h"

static int wrap(int part, int ranks)
{
    return (part % ranks + ranks) % ranks;
}

/* Send block `a` to the next rank, then take `to` from the previous one. */
typedef struct round_step {
    const gy_plan_request *request;
    int rank;
    uint16_t tag;
} round_step;

static gy_status send_next(const round_step *now, gy_plan_sink *sink, gy_blocks a)
{
    return gy_emit(sink, &(gy_step){.kind = GY_STEP_SEND,
                                    .peer = wrap(now->rank + 1, now->request->ranks),
                                    .a = a,
                                    .chunk = now->tag});
}

static gy_status take_previous(const round_step *now, gy_plan_sink *sink, gy_blocks to,
                               uint32_t after)
{
    return gy_emit(sink, &(gy_step){.kind = GY_STEP_RECV,
                                    .peer = wrap(now->rank - 1, now->request->ranks),
                                    .to = to,
                                    .after = {after},
                                    .chunk = now->tag});
}

static gy_status reduce_previous(const round_step *now, gy_plan_sink *sink, gy_blocks to,
                                 uint32_t after)
{
    return gy_emit(sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                    .peer = wrap(now->rank - 1, now->request->ranks),
                                    .a = gy_wire(to.first, 1),
                                    .b = gy_in(now->rank, to.first, 1),
                                    .to = to,
                                    .after = {after},
                                    .chunk = now->tag});
}

static gy_status copy_part(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    if (request->in_place) {
        return GY_OK;
    }
    return gy_emit_copy(sink, gy_in(rank, rank * chunks, chunks),
                        gy_out(rank, rank * chunks, chunks));
}

gy_status gy_plan_ring_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    round_step now = {.request = request, .rank = rank};
    if (ranks == 1) {
        return copy_part(request, rank, sink);
    }
    for (int round = gy_sink_skip(sink, 2 * (int64_t)chunks, ranks - 1); round < ranks - 1;
         round++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            int give = wrap(rank - round, ranks) * chunks + chunk;
            int take = wrap(rank - round - 1, ranks) * chunks + chunk;
            now.tag = (uint16_t)chunk;
            GY_TRY(send_next(&now, sink,
                             round == 0 ? gy_in(rank, give, 1) : gy_out(rank, give, 1)));
            GY_TRY(reduce_previous(&now, sink, gy_out(rank, take, 1), 0));
        }
    }
    for (int round = gy_sink_skip(sink, 2 * (int64_t)chunks, ranks - 1); round < ranks - 1;
         round++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            int give = wrap(rank + 1 - round, ranks) * chunks + chunk;
            int take = wrap(rank - round, ranks) * chunks + chunk;
            /* The first phase sent this block in the same round; two steps a chunk. */
            uint32_t sent = (uint32_t)(2 * (round * chunks + chunk)) + 1;
            now.tag = (uint16_t)chunk;
            GY_TRY(send_next(&now, sink, gy_out(rank, give, 1)));
            GY_TRY(take_previous(&now, sink, gy_out(rank, take, 1), sent));
        }
    }
    return GY_OK;
}

gy_status gy_plan_ring_reduce_scatter(const gy_plan_request *request, int rank,
                                      gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    round_step now = {.request = request, .rank = rank};
    if (ranks == 1) {
        return copy_part(request, rank, sink);
    }
    for (int round = gy_sink_skip(sink, 2 * (int64_t)chunks, ranks - 1); round < ranks - 1;
         round++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            int give = wrap(rank - 1 - round, ranks) * chunks + chunk;
            int take = wrap(rank - 2 - round, ranks) * chunks + chunk;
            int slot = round % 2 * chunks + chunk;
            int slot_before = (round + 1) % 2 * chunks + chunk;
            /* The slot held what the round before this one sent. */
            uint32_t sent = round < 2 ? 0 : (uint32_t)(2 * ((round - 1) * chunks + chunk)) + 1;
            now.tag = (uint16_t)chunk;
            GY_TRY(send_next(&now, sink,
                             round == 0 ? gy_in(rank, give, 1)
                                        : gy_scratch(rank, slot_before, give)));
            bool is_last = round == ranks - 2;
            GY_TRY(reduce_previous(
                &now, sink, is_last ? gy_out(rank, take, 1) : gy_scratch(rank, slot, take),
                is_last ? 0 : sent));
        }
    }
    return GY_OK;
}

gy_status gy_plan_ring_allgather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    round_step now = {.request = request, .rank = rank};
    GY_TRY(copy_part(request, rank, sink));
    for (int round = gy_sink_skip(sink, 2 * (int64_t)chunks, ranks - 1); round < ranks - 1;
         round++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            int give = wrap(rank - round, ranks) * chunks + chunk;
            int take = wrap(rank - round - 1, ranks) * chunks + chunk;
            now.tag = (uint16_t)chunk;
            GY_TRY(send_next(&now, sink, gy_out(rank, give, 1)));
            GY_TRY(take_previous(&now, sink, gy_out(rank, take, 1), 0));
        }
    }
    return GY_OK;
}

gy_status gy_plan_segmented_ring_allreduce(const gy_plan_request *request, int rank,
                                           gy_plan_sink *sink)
{
    gy_plan_request segments = *request;
    segments.chunks = gy_cut_chunks(GY_CUT_SEGMENTS, request);
    return gy_plan_ring_allreduce(&segments, rank, sink);
}
