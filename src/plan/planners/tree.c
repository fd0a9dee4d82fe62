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
 * allreduce; of many chunks the first rank's link, ceil(log2 p) vectors each way at once.
 *
 * source: lecture B, "Tree Shape Reduction"; Thakur et al. 2005
 */
#include "plan/plan_priv.h"

#include "base/base.h"

static int block_of(const gy_tree_plan *plan, int tree, int chunk)
{
    return tree * gy_request_chunks(plan->request) + chunk;
}

/* Sum a block into `to` on its way up; *sum becomes its location. */
static gy_status go_up(const gy_tree_plan *plan, int tree, int block, gy_blocks to,
                       gy_blocks *sum)
{
    const gy_tree_spot *spot = &plan->spots[tree];
    *sum = gy_in(plan->rank, block, 1);
    for (int i = 0; i < spot->child_count; i++) {
        GY_TRY(gy_plan_emit(plan->sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                                   .peer = spot->children[i],
                                                   .a = *sum,
                                                   .b = gy_wire(block, 1),
                                                   .to = to,
                                                   .chunk = (uint16_t)block}));
        *sum = to;
    }
    return spot->parent < 0 ? GY_OK : gy_plan_emit_send(plan->sink, spot->parent, *sum, block);
}

/* Pass a block on; the child that sent last gets it first. */
static gy_status go_down(const gy_tree_plan *plan, int tree, int block, uint32_t after)
{
    const gy_tree_spot *spot = &plan->spots[tree];
    gy_blocks out = gy_out(plan->rank, block, 1);
    if (spot->parent >= 0) {
        GY_TRY(gy_plan_emit_recv(plan->sink, spot->parent, out, block, after));
    }
    for (int i = spot->child_count - 1; i >= 0; i--) {
        GY_TRY(gy_plan_emit_send(plan->sink, spot->children[i], out, block));
    }
    return GY_OK;
}

static gy_status copy_all(const gy_tree_plan *plan)
{
    int blocks = plan->trees * gy_request_chunks(plan->request);
    return plan->request->in_place
               ? GY_OK
               : gy_plan_emit_copy(plan->sink, gy_in(0, 0, blocks), gy_out(0, 0, blocks));
}

/*
 * The schedule: in round r a rank at depth d of a tree sums chunk r - (deepest - d) and passes
 * on chunk r - (deepest + d) of the result. So a chunk advances one edge a round, up and then
 * down, a rank works in all its trees at once, and the messages of one rank to another are
 * sent and received in the same order.
 */
typedef enum way { WAY_UP, WAY_DOWN, WAY_TO_ROOT, WAYS } way;

/* The steps of a rank for each chunk of a tree. */
typedef struct stream {
    int lag, steps; /* rounds before the first chunk, steps a chunk; 0: none */
} stream;

typedef struct schedule {
    const gy_tree_plan *plan;
    int chunks, rounds;
    uint32_t base;                   /* steps before the first one */
    stream streams[WAYS * GY_TREES]; /* consecutive for each way */
} schedule;

static stream *stream_of(schedule *made, int to, int tree)
{
    return &made->streams[to * GY_TREES + tree];
}

static schedule schedule_of(const gy_tree_plan *plan, bool goes_up, bool goes_down)
{
    int root = plan->request->root;
    bool is_moved = !goes_down && plan->top != root; /* the sum is sent on to the root */
    schedule made = {
        .plan = plan, .chunks = gy_request_chunks(plan->request), .base = plan->sink->count};
    for (int tree = 0; tree < plan->trees; tree++) {
        const gy_tree_spot *spot = &plan->spots[tree];
        int above = spot->parent >= 0, below = spot->child_count;
        bool gives = is_moved && plan->rank == plan->top;
        if (goes_up) {
            *stream_of(&made, WAY_UP, tree) =
                (stream){plan->deepest - spot->depth, below + above + gives};
        }
        if (goes_down) {
            *stream_of(&made, WAY_DOWN, tree) =
                (stream){plan->deepest + spot->depth, above + below};
        }
        if (is_moved && plan->rank == root) {
            *stream_of(&made, WAY_TO_ROOT, tree) = (stream){plan->deepest + 1, 1};
        }
    }
    for (int i = 0; i < WAYS * GY_TREES; i++) {
        made.rounds = GY_MAX(made.rounds, made.streams[i].lag + made.chunks);
    }
    return made;
}

/* 1 + index of the send that passed a chunk up: the last of its steps. */
static uint32_t sent_up(const schedule *made, int tree, int chunk)
{
    int own = WAY_UP * GY_TREES + tree, round = chunk + made->streams[own].lag;
    uint32_t count = made->base;
    if (made->streams[own].steps == 0) {
        return 0; /* nothing goes up */
    }
    for (int i = 0; i < WAYS * GY_TREES; i++) {
        int begun = round - made->streams[i].lag + (i <= own);
        int done = GY_MIN(GY_MAX(begun, 0), made->chunks);
        count += (uint32_t)(done * made->streams[i].steps);
    }
    return count;
}

/* Sum a chunk; at the end it is in the output of the rank that gets the result. */
static gy_status sum_chunk(const gy_tree_plan *plan, int tree, int block, bool goes_down)
{
    bool is_end = goes_down || (plan->rank == plan->top && plan->top == plan->request->root);
    gy_blocks sum, to = is_end ? gy_out(plan->rank, block, 1) : gy_work(plan->rank, block, 1);
    GY_TRY(go_up(plan, tree, block, to, &sum));
    bool gives = plan->rank == plan->top && !is_end;
    return gives ? gy_plan_emit_send(plan->sink, plan->request->root, sum, block) : GY_OK;
}

static gy_status run_stream(const schedule *made, way to, int tree, int chunk)
{
    const gy_tree_plan *plan = made->plan;
    int block = block_of(plan, tree, chunk);
    switch (to) {
    case WAY_UP:
        return sum_chunk(plan, tree, block,
                         made->streams[WAY_DOWN * GY_TREES + tree].steps > 0);
    case WAY_DOWN:
        return go_down(plan, tree, block, sent_up(made, tree, chunk));
    case WAY_TO_ROOT:
        return gy_plan_emit_recv(plan->sink, plan->top, gy_out(plan->rank, block, 1), block,
                                 sent_up(made, tree, chunk));
    case WAYS:
    default:
        return GY_OK;
    }
}

static gy_status run_schedule(const gy_tree_plan *plan, bool goes_up, bool goes_down)
{
    const schedule made = schedule_of(plan, goes_up, goes_down);
    if (plan->request->ranks == 1) {
        return goes_up ? copy_all(plan) : GY_OK;
    }
    for (int round = 0; round < made.rounds; round++) {
        for (int i = 0; i < WAYS * GY_TREES; i++) {
            const stream *one = &made.streams[i];
            int chunk = round - one->lag;
            if (one->steps > 0 && chunk >= 0 && chunk < made.chunks) {
                GY_TRY(run_stream(&made, (way)(i / GY_TREES), i % GY_TREES, chunk));
            }
        }
    }
    return GY_OK;
}

gy_status gy_plan_trees_broadcast(const gy_tree_plan *plan)
{
    return run_schedule(plan, false, true);
}

gy_status gy_plan_trees_reduce(const gy_tree_plan *plan)
{
    return run_schedule(plan, true, false);
}

gy_status gy_plan_trees_allreduce(const gy_tree_plan *plan)
{
    return run_schedule(plan, true, true);
}

enum { BITS = 17 }; /* of a rank number */

/* This rank's place in the binomial tree with root `top`; writes its children to `children`. */
static gy_tree_plan binomial(const gy_plan_request *request, int rank, int top,
                             int32_t children[BITS], gy_plan_sink *sink)
{
    int ranks = request->ranks, place = (rank - top + ranks) % ranks, bit = 1;
    gy_tree_spot spot = {
        .parent = -1, .children = children, .depth = __builtin_popcount((unsigned)place)};
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
                          .deepest = BITS,
                          .spots = {spot}};
}

gy_status gy_plan_tree_broadcast(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int32_t children[BITS];
    gy_tree_plan plan = binomial(request, rank, request->root, children, sink);
    return gy_plan_trees_broadcast(&plan);
}

gy_status gy_plan_tree_reduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int32_t children[BITS];
    gy_tree_plan plan = binomial(request, rank, 0, children, sink);
    return gy_plan_trees_reduce(&plan);
}

gy_status gy_plan_tree_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int32_t children[BITS];
    gy_tree_plan plan = binomial(request, rank, 0, children, sink);
    return gy_plan_trees_allreduce(&plan);
}

/* Slots of a gathering or scattering rank: place + i is in slot i. */
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
        if (is_gather) { /* the root's own part is in no slot */
            gy_blocks from = is_own ? gy_in(rank, block, 1) : slot;
            GY_TRY(gy_plan_emit_copy(sink, from, gy_out(rank, block, 1)));
        } else {
            GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, block, 1),
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
        GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, rank * chunks + chunk, 1),
                                 gy_scratch(rank, chunk, rank * chunks + chunk)));
    }
    for (; bit < ranks && (place & bit) == 0; bit *= 2) {
        if (place + bit < ranks) {
            int more = GY_MIN(bit, ranks - place - bit);
            GY_TRY(gy_plan_emit_recv(sink, (rank + bit) % ranks,
                                     subtree(rank, bit, more, chunks), 0, 0));
            parts += more;
        }
    }
    return rank == root ? copy_parts(request, rank, parts, true, sink)
                        : gy_plan_emit_send(sink, (rank - bit + ranks) % ranks,
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
                        : gy_plan_emit_recv(sink, (rank - bit + ranks) % ranks,
                                            subtree(rank, 0, parts, chunks), 0, 0));
    for (bit /= 2; bit > 0; bit /= 2) {
        if (place + bit < ranks) {
            int more = GY_MIN(bit, ranks - place - bit);
            GY_TRY(gy_plan_emit_send(sink, (rank + bit) % ranks,
                                     subtree(rank, bit, more, chunks), 0));
        }
    }
    for (int chunk = 0; rank != root && chunk < chunks; chunk++) {
        int block = rank * chunks + chunk;
        GY_TRY(gy_plan_emit_copy(sink, gy_scratch(rank, chunk, block), gy_out(rank, block, 1)));
    }
    return GY_OK;
}
