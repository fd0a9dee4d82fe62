/*
 * Direct shared memory: vectors that peers can access (registered memory) are combined in
 * place. All ranks meet, each rank combines its part directly from and to the peers' vectors,
 * and all meet again, so that no rank changes a vector that is still in use. Mark 1 only says
 * that a rank has entered with its vector: runners that have compared all calls need not post
 * it. The sums can be claimed (claims.c).
 *
 * cost: 2 rounds; allreduce reads p parts of n/p and writes its sum to p vectors: 2 n bytes a
 * rank, so 2 p n in all, the minimum of memory traffic; reduce writes only to the root's
 * vector.
 */
#include "plan/plan_priv.h"

#include "base/base.h"

enum { ENTERED = 1, DONE = 2 };

static gy_status meet(gy_plan_sink *sink, uint32_t mark)
{
    GY_TRY(gy_plan_emit_post(sink, mark));
    return gy_plan_emit_wait(sink, GY_EVERY, mark);
}

static gy_status copy_all(const gy_plan_request *request, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    return request->in_place
               ? GY_OK
               : gy_plan_emit_copy(sink, gy_in(0, 0, chunks), gy_out(0, 0, chunks));
}

static gy_blocks input_of(const gy_plan_request *request, int of, int block)
{
    (void)request;
    return gy_in(of, block, 1);
}

static gy_blocks outputs(const gy_plan_request *request, int block)
{
    (void)request;
    return gy_out(GY_EVERY, block, 1);
}

static gy_blocks output_of_part(const gy_plan_request *request, int block)
{
    return gy_out(block / gy_request_chunks(request), block, 1);
}

static gy_blocks output_of_root(const gy_plan_request *request, int block)
{
    return gy_out(request->root, block, 1);
}

static gy_status fold_parts(const gy_plan_request *request, int rank,
                            gy_blocks (*result)(const gy_plan_request *request, int block),
                            gy_plan_sink *sink)
{
    if (request->ranks == 1) {
        return copy_all(request, sink);
    }
    GY_TRY(meet(sink, ENTERED));
    return gy_plan_emit_claims(&(gy_claims){.request = request,
                                            .rank = rank,
                                            .chunks = gy_request_chunks(request),
                                            .mark = DONE,
                                            .operand = input_of,
                                            .result = result},
                               sink);
}

gy_status gy_plan_direct_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    return fold_parts(request, rank, outputs, sink);
}

gy_status gy_plan_direct_reduce_scatter(const gy_plan_request *request, int rank,
                                        gy_plan_sink *sink)
{
    return fold_parts(request, rank, output_of_part, sink);
}

gy_status gy_plan_direct_reduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    return fold_parts(request, rank, output_of_root, sink);
}

gy_status gy_plan_direct_allgather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    if (ranks == 1) {
        return copy_all(request, sink);
    }
    GY_TRY(gy_plan_emit_post(sink, ENTERED));
    if (!request->in_place) {
        GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, rank * chunks, chunks),
                                 gy_out(rank, rank * chunks, chunks)));
    }
    for (int step = 1; step < ranks; step++) {
        int of = (rank + step) % ranks;
        GY_TRY(gy_plan_emit_wait(sink, of, ENTERED));
        GY_TRY(gy_plan_emit_copy(sink, gy_in(of, of * chunks, chunks),
                                 gy_out(rank, of * chunks, chunks)));
    }
    return meet(sink, DONE);
}

gy_status gy_plan_direct_broadcast(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request), root = request->root;
    if (request->ranks == 1) {
        return GY_OK;
    }
    if (rank == root) {
        GY_TRY(gy_plan_emit_post(sink, ENTERED));
        return gy_plan_emit_wait(sink, GY_EVERY, DONE);
    }
    GY_TRY(gy_plan_emit_wait(sink, root, ENTERED));
    GY_TRY(gy_plan_emit_copy(sink, gy_out(root, 0, chunks), gy_out(rank, 0, chunks)));
    return gy_plan_emit_post(sink, DONE);
}

/* Rank `rank` copies part `part` of rank `of`, after that rank has entered. */
static gy_status take_part(const gy_plan_request *request, int rank, int of, int part,
                           gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    if (of != rank) {
        GY_TRY(gy_plan_emit_wait(sink, of, ENTERED));
    }
    return gy_plan_emit_copy(sink, gy_in(of, part * chunks, chunks),
                             gy_out(rank, part * chunks, chunks));
}

gy_status gy_plan_direct_alltoall(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks;
    GY_TRY(gy_plan_emit_post(sink, ENTERED));
    for (int step = 0; step < ranks; step++) {
        int of = (rank + step) % ranks;
        GY_TRY(take_part(request, rank, of, of * ranks + rank, sink));
    }
    return meet(sink, DONE);
}

gy_status gy_plan_direct_gather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, root = request->root;
    if (rank != root) {
        GY_TRY(gy_plan_emit_post(sink, ENTERED));
        return gy_plan_emit_wait(sink, root, DONE);
    }
    for (int step = request->in_place ? 1 : 0; step < ranks; step++) {
        int of = (rank + step) % ranks;
        GY_TRY(take_part(request, rank, of, of, sink));
    }
    return gy_plan_emit_post(sink, DONE);
}

gy_status gy_plan_direct_scatter(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int root = request->root;
    if (rank == root) {
        GY_TRY(gy_plan_emit_post(sink, ENTERED));
        GY_TRY(request->in_place ? GY_OK : take_part(request, rank, root, rank, sink));
        return gy_plan_emit_wait(sink, GY_EVERY, DONE);
    }
    GY_TRY(take_part(request, rank, root, rank, sink));
    return gy_plan_emit_post(sink, DONE);
}
