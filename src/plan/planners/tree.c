/*
 * The binomial tree. Reduce: in round k the ranks whose lowest set bit is k send their sum of
 * 2^k ranks to the rank with that bit cleared; broadcast runs it backwards. A sum always covers
 * neighbouring ranks and the left one comes first, so the order is that of the ranks.
 *
 *   round 0   1->0  3->2  5->4      round 1   2->0      round 2   4->0        (six ranks)
 *
 * cost: ceil(log2 p) rounds of the whole vector for broadcast and reduce, twice that for
 * allreduce.
 *
 * source: lecture B, "Tree Shape Reduction"; Thakur et al. 2005
 */
#include "plan/plan_priv.h"

#include "base/base.h"

typedef struct tree_spot {
    gy_plan_sink *sink;
    int ranks, rank, root; /* the real ones */
    int place;             /* this rank's place in a tree rooted at place 0 */
} tree_spot;

static tree_spot tree_at(const gy_plan_request *request, int rank, int root, gy_plan_sink *sink)
{
    return (tree_spot){.sink = sink,
                       .ranks = request->ranks,
                       .rank = rank,
                       .root = root,
                       .place = (rank - root + request->ranks) % request->ranks};
}

static int rank_of(const tree_spot *tree, int place)
{
    return (place + tree->root) % tree->ranks;
}

/* Sum one chunk into `sum` on the way to the root; `*sent` is 1 + index of the send, 0 at the
 * root. */
static gy_status reduce_chunk(const tree_spot *tree, int chunk, gy_blocks sum, uint32_t *sent)
{
    gy_blocks mine = gy_in(tree->rank, chunk, 1);
    *sent = 0;
    for (int bit = 1; bit < tree->ranks; bit <<= 1) {
        if ((tree->place & bit) != 0) {
            *sent = tree->sink->count + 1;
            return gy_emit(tree->sink, &(gy_step){.kind = GY_STEP_SEND,
                                                  .peer = rank_of(tree, tree->place - bit),
                                                  .a = mine,
                                                  .chunk = (uint16_t)chunk});
        }
        if (tree->place + bit < tree->ranks) {
            GY_TRY(gy_emit(tree->sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                                  .peer = rank_of(tree, tree->place + bit),
                                                  .a = mine,
                                                  .b = gy_wire(chunk, 1),
                                                  .to = sum,
                                                  .chunk = (uint16_t)chunk}));
            mine = sum;
        }
    }
    return GY_OK;
}

static gy_status broadcast_chunk(const tree_spot *tree, int chunk, uint32_t after)
{
    int bit = 1;
    while (bit < tree->ranks && (tree->place & bit) == 0) {
        bit <<= 1;
    }
    gy_blocks block = gy_out(tree->rank, chunk, 1);
    if (tree->place != 0) {
        GY_TRY(gy_emit(tree->sink, &(gy_step){.kind = GY_STEP_RECV,
                                              .peer = rank_of(tree, tree->place - bit),
                                              .to = block,
                                              .after = {after},
                                              .chunk = (uint16_t)chunk}));
    }
    for (bit >>= 1; bit > 0; bit >>= 1) {
        if (tree->place + bit < tree->ranks) {
            GY_TRY(gy_emit(tree->sink, &(gy_step){.kind = GY_STEP_SEND,
                                                  .peer = rank_of(tree, tree->place + bit),
                                                  .a = block,
                                                  .chunk = (uint16_t)chunk}));
        }
    }
    return GY_OK;
}

gy_status gy_plan_tree_broadcast(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    tree_spot tree = tree_at(request, rank, request->root, sink);
    for (int chunk = 0; chunk < gy_request_chunks(request); chunk++) {
        GY_TRY(broadcast_chunk(&tree, chunk, 0));
    }
    return GY_OK;
}

gy_status gy_plan_tree_reduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    /* The tree stands on rank 0, or the order would begin at the root; the sum then moves
     * there. */
    tree_spot tree = tree_at(request, rank, 0, sink);
    int root = request->root;
    for (int chunk = 0; chunk < gy_request_chunks(request); chunk++) {
        bool is_sum_in_out = rank == 0 && root == 0;
        gy_blocks sum = is_sum_in_out ? gy_out(rank, chunk, 1) : gy_scratch(rank, chunk, chunk);
        uint32_t sent = 0;
        if (request->ranks == 1) {
            return request->in_place
                       ? GY_OK
                       : gy_emit_copy(sink, gy_in(0, 0, gy_request_chunks(request)),
                                      gy_out(0, 0, gy_request_chunks(request)));
        }
        GY_TRY(reduce_chunk(&tree, chunk, sum, &sent));
        if (root != 0 && rank == 0) {
            GY_TRY(gy_emit(sink, &(gy_step){.kind = GY_STEP_SEND,
                                            .peer = root,
                                            .a = sum,
                                            .chunk = (uint16_t)chunk}));
        } else if (root != 0 && rank == root) {
            GY_TRY(gy_emit(sink, &(gy_step){.kind = GY_STEP_RECV,
                                            .peer = 0,
                                            .to = gy_out(rank, chunk, 1),
                                            .after = {sent},
                                            .chunk = (uint16_t)chunk}));
        }
    }
    return GY_OK;
}

gy_status gy_plan_tree_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    if (request->ranks == 1) {
        return request->in_place
                   ? GY_OK
                   : gy_emit_copy(sink, gy_in(0, 0, chunks), gy_out(0, 0, chunks));
    }
    tree_spot tree = tree_at(request, rank, 0, sink);
    uint32_t first = 0, each = 0;
    for (int chunk = 0; chunk < chunks; chunk++) {
        uint32_t sent = 0;
        GY_TRY(reduce_chunk(&tree, chunk, gy_out(rank, chunk, 1), &sent));
        if (chunk == 0) {
            first = sent;
            each = sink->count; /* every chunk takes as many steps, so the n-th send is found */
        }
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        GY_TRY(broadcast_chunk(&tree, chunk, first == 0 ? 0 : first + (uint32_t)chunk * each));
    }
    return GY_OK;
}
