/*
 * Without a server: every rank gets every other rank's vector and sums them itself, in rank
 * order.
 *
 *   copies      all send to rank 0, then to rank 1, ...: the naive way, which congests each in
 *               turn
 *   one-by-one  rank 0 takes one vector after another until its sum is complete, then rank 1
 *               does
 *   pipeline    in round k rank r takes the vector of rank r-k: all links are used in all
 *               rounds
 *
 *   one-by-one, 3 ranks:  1>0  2>0  0>1  2>1  1>2  0>2      pipeline:  2>0 0>1 1>2
 *                                                                      1>0 2>1 0>2
 *
 * cost: (p-1) n bytes a rank for all three; p(p-1) rounds one by one, p-1 in the pipeline, both
 * with one message at a time for each rank; copies take p-1 at once.
 *
 * source: lecture A, "Try #2: De-centralized approach for all reduce"; lecture C, table of
 * reduce operations ("naive allreduce")
 */
#include "plan/plan_priv.h"

#include "base/base.h"

/* Scratch slots of a chunk: a running sum may be wider than a received block. */
enum { SUM, OWN, FIRST, CAME, KINDS };

static gy_status copy_all(const gy_plan_request *request, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    return request->in_place
               ? GY_OK
               : gy_plan_emit_copy(sink, gy_in(0, 0, chunks), gy_out(0, 0, chunks));
}

/* The own vector, copied to where it survives until it is sent: in place the result would
 * overwrite it. */
static gy_status keep_own(const gy_plan_request *request, int rank, gy_plan_sink *sink,
                          gy_blocks own, int chunk)
{
    return request->in_place ? gy_plan_emit_copy(sink, gy_in(rank, chunk, 1), own) : GY_OK;
}

/* Sums one chunk in rank order from received blocks, the block arriving now, and the own
 * one. */
typedef struct fold_spec {
    int ranks, rank, chunk;
    gy_blocks own, first;
    int first_of; /* the rank whose block is in `first`; -1: none */
} fold_spec;

static gy_status fold_chunk(const fold_spec *fold, gy_plan_sink *sink)
{
    gy_blocks sum = gy_scratch(fold->rank, fold->chunk * KINDS + CAME, fold->chunk);
    for (int of = 0; of < fold->ranks; of++) {
        bool is_here = of == fold->rank || of == fold->first_of;
        gy_blocks came = of == fold->rank ? fold->own : fold->first;
        gy_blocks next = of == fold->ranks - 1
                             ? gy_out(fold->rank, fold->chunk, 1)
                             : gy_scratch(fold->rank, fold->chunk * KINDS + SUM, fold->chunk);
        if (of == 0 && is_here) {
            sum = came;
        } else if (of == 0) {
            GY_TRY(gy_plan_emit_recv(sink, of, sum, fold->chunk, 0));
        } else if (is_here) {
            GY_TRY(gy_plan_emit_reduce(sink, sum, came, next));
            sum = next;
        } else {
            GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                                 .peer = of,
                                                 .a = sum,
                                                 .b = gy_wire(fold->chunk, 1),
                                                 .to = next,
                                                 .chunk = (uint16_t)fold->chunk}));
            sum = next;
        }
        /* from there on all steps have one form */
        of += of == 1 ? gy_sink_skip(sink, 1, fold->ranks - 2) : 0;
    }
    return GY_OK;
}

gy_status gy_plan_copies_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    if (request->ranks == 1) {
        return copy_all(request, sink);
    }
    for (int chunk = 0; chunk < gy_request_chunks(request); chunk++) {
        gy_blocks own = request->in_place ? gy_scratch(rank, chunk * KINDS + OWN, chunk)
                                          : gy_in(rank, chunk, 1);
        GY_TRY(keep_own(request, rank, sink, own, chunk));
        int to = gy_sink_skip(sink, 1, request->ranks - 1);
        for (to += to > rank; to < request->ranks; to++) {
            if (to != rank) {
                GY_TRY(gy_plan_emit_send(sink, to, own, chunk));
            }
        }
        GY_TRY(fold_chunk(&(fold_spec){.ranks = request->ranks,
                                       .rank = rank,
                                       .chunk = chunk,
                                       .own = own,
                                       .first_of = -1},
                          sink));
    }
    return GY_OK;
}

/* The ranks take turns: a rank sends its vector only when its own sum is complete, and each
 * receives that vector first. */
gy_status gy_plan_one_by_one_allreduce(const gy_plan_request *request, int rank,
                                       gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    if (ranks == 1) {
        return copy_all(request, sink);
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        gy_blocks own = request->in_place ? gy_scratch(rank, chunk * KINDS + OWN, chunk)
                                          : gy_in(rank, chunk, 1);
        GY_TRY(keep_own(request, rank, sink, own, chunk));
        int turn = gy_sink_skip(sink, 1, ranks - 1 - (rank + 1 < ranks));
        for (turn += turn > rank ? 2 : 0; turn < ranks; turn++) {
            if (turn != rank && turn != rank + 1) {
                GY_TRY(gy_plan_emit_send(sink, turn, own, chunk));
            }
        }
        gy_blocks first = gy_scratch(rank, chunk * KINDS + FIRST, chunk);
        if (rank > 0) {
            GY_TRY(gy_plan_emit_recv(sink, rank - 1, first, chunk, 0));
        }
        GY_TRY(fold_chunk(&(fold_spec){.ranks = ranks,
                                       .rank = rank,
                                       .chunk = chunk,
                                       .own = own,
                                       .first = first,
                                       .first_of = rank - 1},
                          sink));
        if (rank + 1 < ranks) {
            GY_TRY(gy_plan_emit_send(sink, rank + 1, own, chunk));
        }
    }
    return GY_OK;
}

/* Vectors arrive in the order of rounds and are stored until they can be summed in rank
 * order. */
gy_status gy_plan_pipeline_allreduce(const gy_plan_request *request, int rank,
                                     gy_plan_sink *sink)
{
    int ranks = request->ranks;
    if (ranks == 1) {
        return copy_all(request, sink);
    }
    for (int chunk = 0; chunk < gy_request_chunks(request); chunk++) {
        uint32_t first = sink->count;
        for (int round = 1 + gy_sink_skip(sink, 2, ranks - 1); round < ranks; round++) {
            GY_TRY(
                gy_plan_emit_send(sink, (rank + round) % ranks, gy_in(rank, chunk, 1), chunk));
            int from = (rank - round + ranks) % ranks;
            GY_TRY(gy_plan_emit_recv(sink, from, gy_scratch(rank, from, chunk), chunk, 0));
        }
        gy_blocks sum = rank == 0 ? gy_in(rank, chunk, 1) : gy_scratch(rank, 0, chunk);
        int left_out = gy_sink_skip(sink, 1, ranks - 1);
        sum = left_out > 0 ? gy_scratch(rank, rank, chunk) : sum;
        for (int of = 1 + left_out; of < ranks; of++) {
            bool is_last = of == ranks - 1;
            gy_blocks came = of == rank ? gy_in(rank, chunk, 1) : gy_scratch(rank, of, chunk);
            gy_blocks next = is_last ? gy_out(rank, chunk, 1) : gy_scratch(rank, rank, chunk);
            /* In place the result replaces the sent vector, so each send must have ended by
             * now. */
            uint32_t sent = first + 2 * (uint32_t)(of - 1) + 1;
            GY_TRY(gy_plan_emit(
                sink,
                &(gy_step){
                    .kind = GY_STEP_REDUCE, .a = sum, .b = came, .to = next, .after = {sent}}));
            sum = next;
        }
    }
    return GY_OK;
}
