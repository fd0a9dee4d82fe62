/*
 * Trees: sums go up to the top, results down, chunk after chunk. The binomial tree: in round k
 * of a reduction the ranks whose lowest set bit is k send their sum of 2^k ranks to the rank
 * with that bit cleared; a broadcast runs it backwards. A sum always covers neighbouring ranks
 * and the left one comes first, so the order is that of the ranks; it therefore stands on rank
 * 0 whatever the root, which gets the sum with one more message.
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

static int block_of(const gy_tree_plan *plan, int tree, int chunk)
{
    return tree * gy_request_chunks(plan->request) + chunk;
}

/* Sum a block into `to` on its way up; *sum becomes where it is. */
static gy_status go_up(const gy_tree_plan *plan, int tree, int block, gy_blocks to,
                       gy_blocks *sum)
{
    const gy_tree_spot *spot = &plan->spots[tree];
    *sum = gy_in(plan->rank, block, 1);
    for (int i = 0; i < spot->child_count; i++) {
        GY_TRY(gy_emit(plan->sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                              .peer = spot->children[i],
                                              .a = *sum,
                                              .b = gy_wire(block, 1),
                                              .to = to,
                                              .chunk = (uint16_t)block}));
        *sum = to;
    }
    return spot->parent < 0 ? GY_OK : gy_emit_send(plan->sink, spot->parent, *sum, block);
}

/* Pass a block on; who gave last is told first. */
static gy_status go_down(const gy_tree_plan *plan, int tree, int block, uint32_t after)
{
    const gy_tree_spot *spot = &plan->spots[tree];
    gy_blocks out = gy_out(plan->rank, block, 1);
    if (spot->parent >= 0) {
        GY_TRY(gy_emit_recv(plan->sink, spot->parent, out, block, after));
    }
    for (int i = spot->child_count - 1; i >= 0; i--) {
        GY_TRY(gy_emit_send(plan->sink, spot->children[i], out, block));
    }
    return GY_OK;
}

static gy_status copy_all(const gy_tree_plan *plan)
{
    int blocks = plan->trees * gy_request_chunks(plan->request);
    return plan->request->in_place
               ? GY_OK
               : gy_emit_copy(plan->sink, gy_in(0, 0, blocks), gy_out(0, 0, blocks));
}

gy_status gy_trees_broadcast(const gy_tree_plan *plan)
{
    for (int chunk = 0; chunk < gy_request_chunks(plan->request); chunk++) {
        for (int tree = 0; tree < plan->trees; tree++) {
            GY_TRY(go_down(plan, tree, block_of(plan, tree, chunk), 0));
        }
    }
    return GY_OK;
}

gy_status gy_trees_reduce(const gy_tree_plan *plan)
{
    int root = plan->request->root, rank = plan->rank, top = plan->top;
    if (plan->request->ranks == 1) {
        return copy_all(plan);
    }
    for (int chunk = 0; chunk < gy_request_chunks(plan->request); chunk++) {
        for (int tree = 0; tree < plan->trees; tree++) {
            int block = block_of(plan, tree, chunk);
            bool is_end = rank == top && top == root;
            gy_blocks sum, to = is_end ? gy_out(rank, block, 1) : gy_work(rank, block, 1);
            GY_TRY(go_up(plan, tree, block, to, &sum));
            uint32_t sent = plan->sink->count;
            if (rank == top && top != root) {
                GY_TRY(gy_emit_send(plan->sink, root, sum, block));
            } else if (rank == root && top != root) {
                GY_TRY(gy_emit_recv(plan->sink, top, gy_out(rank, block, 1), block, sent));
            }
        }
    }
    return GY_OK;
}

gy_status gy_trees_allreduce(const gy_tree_plan *plan)
{
    int chunks = gy_request_chunks(plan->request);
    uint32_t sent[GY_TREES] = {0}, each = 0;
    if (plan->request->ranks == 1) {
        return copy_all(plan);
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        for (int tree = 0; tree < plan->trees; tree++) {
            int block = block_of(plan, tree, chunk);
            gy_blocks sum;
            GY_TRY(go_up(plan, tree, block, gy_out(plan->rank, block, 1), &sum));
            sent[tree] = chunk == 0 ? plan->sink->count : sent[tree];
        }
        each = chunk == 0 ? plan->sink->count : each; /* each chunk takes as many steps, */
    }
    for (int chunk = 0; chunk < chunks; chunk++) { /* so the send that went up is found */
        for (int tree = 0; tree < plan->trees; tree++) {
            GY_TRY(go_down(plan, tree, block_of(plan, tree, chunk),
                           sent[tree] + (uint32_t)chunk * each));
        }
    }
    return GY_OK;
}

enum { BITS = 17 }; /* of a rank */

/* This rank in the binomial tree that stands on `top`; its children are written to `children`.
 */
static gy_tree_plan binomial(const gy_plan_request *request, int rank, int top,
                             int32_t children[BITS], gy_plan_sink *sink)
{
    int ranks = request->ranks, place = (rank - top + ranks) % ranks, bit = 1;
    gy_tree_spot spot = {.parent = -1, .children = children};
    for (; bit < ranks && (place & bit) == 0; bit *= 2) {
        if (place + bit < ranks) {
            children[spot.child_count++] = (place + bit + top) % ranks;
        }
    }
    if (place != 0) {
        spot.parent = (place - bit + top) % ranks;
    }
    return (gy_tree_plan){.request = request,
                          .sink = sink,
                          .rank = rank,
                          .trees = 1,
                          .top = top,
                          .spots = {spot}};
}

gy_status gy_plan_tree_broadcast(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int32_t children[BITS];
    gy_tree_plan plan = binomial(request, rank, request->root, children, sink);
    return gy_trees_broadcast(&plan);
}

gy_status gy_plan_tree_reduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int32_t children[BITS];
    gy_tree_plan plan = binomial(request, rank, 0, children, sink);
    return gy_trees_reduce(&plan);
}

gy_status gy_plan_tree_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int32_t children[BITS];
    gy_tree_plan plan = binomial(request, rank, 0, children, sink);
    return gy_trees_allreduce(&plan);
}

/* Slots of a gathering or scattering rank: place + i lies in slot i. */
static gy_blocks subtree(int rank, int first, int parts, int chunks)
{
    return gy_scratch_whole(rank, first * chunks, parts * chunks);
}

/* Copy the parts of places [place, place + parts) between slots and the buffer. */
static gy_status copy_parts(const gy_plan_request *request, int rank, int parts, bool is_gather,
                            gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    bool is_root = rank == request->root;
    for (int i = 0; i < parts * chunks; i++) {
        int block = (rank + i / chunks) % ranks * chunks + i % chunks;
        gy_blocks slot = gy_scratch(rank, i, block);
        bool is_own = i < chunks;
        if (is_own && is_root && request->in_place) {
            continue;
        }
        if (is_gather) { /* the own part never went through a slot at the root */
            gy_blocks from = is_own ? gy_in(rank, block, 1) : slot;
            GY_TRY(gy_emit_copy(sink, from, gy_out(rank, block, 1)));
        } else {
            GY_TRY(gy_emit_copy(sink, gy_in(rank, block, 1),
                                is_own ? gy_out(rank, block, 1) : slot));
        }
    }
    return GY_OK;
}

/*
 * Gather and scatter along the binomial tree: a rank passes on the parts of all below it in one
 * message. Parts lie in slots by their distance from the rank, so that those of a subtree
 * follow each other whatever the root.
 *
 * cost: ceil(log2 p) rounds, (p-1)/p n on the root's link, n/2 log2 p bytes in all.
 */
gy_status gy_plan_tree_gather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request), root = request->root;
    int place = (rank - root + ranks) % ranks, bit = 1, parts = 1;
    for (int chunk = 0; rank != root && chunk < chunks; chunk++) {
        GY_TRY(gy_emit_copy(sink, gy_in(rank, rank * chunks + chunk, 1),
                            gy_scratch(rank, chunk, rank * chunks + chunk)));
    }
    for (; bit < ranks && (place & bit) == 0; bit *= 2) {
        if (place + bit < ranks) {
            int more = GY_MIN(bit, ranks - place - bit);
            GY_TRY(gy_emit_recv(sink, (rank + bit) % ranks, subtree(rank, bit, more, chunks), 0,
                                0));
            parts += more;
        }
    }
    return rank == root ? copy_parts(request, rank, parts, true, sink)
                        : gy_emit_send(sink, (rank - bit + ranks) % ranks,
                                       subtree(rank, 0, parts, chunks), 0);
}

gy_status gy_plan_tree_scatter(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request), root = request->root;
    int place = (rank - root + ranks) % ranks, bit = 1;
    while (bit < ranks && (place & bit) == 0) {
        bit *= 2;
    }
    int parts = GY_MIN(bit, ranks - place);
    GY_TRY(rank == root ? copy_parts(request, rank, ranks, false, sink)
                        : gy_emit_recv(sink, (rank - bit + ranks) % ranks,
                                       subtree(rank, 0, parts, chunks), 0, 0));
    for (bit /= 2; bit > 0; bit /= 2) {
        if (place + bit < ranks) {
            int more = GY_MIN(bit, ranks - place - bit);
            GY_TRY(
                gy_emit_send(sink, (rank + bit) % ranks, subtree(rank, bit, more, chunks), 0));
        }
    }
    for (int chunk = 0; rank != root && chunk < chunks; chunk++) {
        int block = rank * chunks + chunk;
        GY_TRY(gy_emit_copy(sink, gy_scratch(rank, chunk, block), gy_out(rank, block, 1)));
    }
    return GY_OK;
}
