/*
 * Flat: every rank deals with every other (or with the root) directly. Gather and scatter with
 * root 0; the row is the rank, a letter the part it has:
 *
 *   gather   a . . .      a b c d        scatter   a b c d      a . . .
 *            . b . .  ->  . b . .                  . . . .  ->  . b . .
 *            . . c .      . . c .                  . . . .      . . c .
 *            . . . d      . . . d                  . . . .      . . . d
 *
 * cost: gather and scatter p-1 messages on the root's link, (p-1)/p of the vector, every other
 * rank one; all-to-all p-1 messages of a pair's block on every link, all at once or with one
 * partner after another (pairwise). No rank needs to know the
 * counts of others, so these are the plans of the v-forms.
 *
 * source: lecture A, "Communication primitives"; Thakur et al. 2005 (long messages)
 */
#include "plan/plan_priv.h"

#include "base/fail.h"

gy_status gy_plan_flat_gather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request), root = request->root;
    if (rank != root) {
        return gy_plan_emit_send(sink, root, gy_in(rank, rank * chunks, chunks), 0);
    }
    if (!request->in_place) {
        GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, rank * chunks, chunks),
                                 gy_out(rank, rank * chunks, chunks)));
    }
    for (int step = 1 + gy_sink_skip(sink, 1, ranks - 1); step < ranks; step++) {
        int of = (root + step) % ranks;
        GY_TRY(gy_plan_emit_recv(sink, of, gy_out(rank, of * chunks, chunks), 0, 0));
    }
    return GY_OK;
}

gy_status gy_plan_flat_scatter(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request), root = request->root;
    if (rank != root) {
        return gy_plan_emit_recv(sink, root, gy_out(rank, rank * chunks, chunks), 0, 0);
    }
    for (int step = 1 + gy_sink_skip(sink, 1, ranks - 1); step < ranks; step++) {
        int to = (root + step) % ranks;
        GY_TRY(gy_plan_emit_send(sink, to, gy_in(rank, to * chunks, chunks), 0));
    }
    return request->in_place ? GY_OK
                             : gy_plan_emit_copy(sink, gy_in(rank, rank * chunks, chunks),
                                                 gy_out(rank, rank * chunks, chunks));
}

gy_status gy_plan_flat_alltoall(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    for (int step = 1 + gy_sink_skip(sink, 1, ranks - 1); step < ranks; step++) {
        int to = (rank + step) % ranks;
        GY_TRY(
            gy_plan_emit_send(sink, to, gy_in(rank, (rank * ranks + to) * chunks, chunks), 0));
    }
    int own = (rank * ranks + rank) * chunks;
    GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, own, chunks), gy_out(rank, own, chunks)));
    for (int step = 1 + gy_sink_skip(sink, 1, ranks - 1); step < ranks; step++) {
        int from = (rank - step + ranks) % ranks;
        GY_TRY(gy_plan_emit_recv(sink, from,
                                 gy_out(rank, (from * ranks + rank) * chunks, chunks), 0, 0));
    }
    return GY_OK;
}

/*
 * Pairwise: one partner after another, so that no rank is congested. In round k rank r sends
 * to r+k and receives from r-k. In place the two must be the same rank, because received data
 * would overwrite data not sent yet: then r exchanges with k-r.
 */
gy_status gy_plan_pairwise_alltoall(const gy_plan_request *request, int rank,
                                    gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    uint32_t sent[2] = {0, 0}; /* the last sends from each of the two sets of slots */
    for (int round = 0; round < ranks; round++) {
        /* From the second round on each round has two steps. */
        round += round == 1 && !request->in_place ? gy_sink_skip(sink, 2, ranks - 1) : 0;
        if (round == ranks) {
            break;
        }
        int to = (rank + round) % ranks, from = (rank - round + ranks) % ranks;
        if (request->in_place) {
            to = from = (round - rank + ranks) % ranks;
        }
        int give = (rank * ranks + to) * chunks, take = (from * ranks + rank) * chunks;
        if (to == rank) {
            GY_TRY(request->in_place ? GY_OK
                                     : gy_plan_emit_copy(sink, gy_in(rank, give, chunks),
                                                         gy_out(rank, take, chunks)));
            continue;
        }
        if (!request->in_place) {
            GY_TRY(gy_plan_emit_send(sink, to, gy_in(rank, give, chunks), 0));
            GY_TRY(gy_plan_emit_recv(sink, from, gy_out(rank, take, chunks), 0, 0));
            continue;
        }
        for (int chunk = 0; chunk < chunks; chunk++) {
            int turn = (round * chunks + chunk) % 2;
            gy_blocks slot = gy_scratch(rank, turn, give + chunk);
            GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_COPY,
                                                 .a = gy_in(rank, give + chunk, 1),
                                                 .to = slot,
                                                 .after = {sent[turn]}}));
            GY_TRY(gy_plan_emit_send(sink, to, slot, chunk));
            sent[turn] = sink->count;
            GY_TRY(gy_plan_emit_recv(sink, from, gy_out(rank, take + chunk, 1), chunk, 0));
        }
    }
    return GY_OK;
}
