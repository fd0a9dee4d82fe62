/*
 * Staged shared memory: private vectors go through memory that peers can read, a piece that
 * fits the cache at a time.
 *
 * Allreduce works in windows of one block a rank: each rank lays the others' blocks out, each
 * sums its own block in rank order and lays out the sum, each fetches the other sums. The three
 * belong to windows one behind the other, so that one meeting a window is enough, with work
 * between saying that one is there and waiting for the others.
 *
 * Reduce is the same, but that the root alone fetches sums. Of two ranks the root sums all: the
 * other one has its vector to lay out meanwhile, and no sum is laid out that was laid out
 * before.
 *
 * cost: allreduce windows + 1 rounds, (p-1)/p of the vector read for sums and as much for
 * results; reduce the same rounds; the others one round a chunk.
 */
#include "plan/plan_priv.h"

#include "base/base.h"

/* The root may be at most so many chunks ahead of the other ranks, or they of the root. */
enum { AHEAD = 4 };

static gy_status copy_all(const gy_plan_request *request, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    return request->in_place
               ? GY_OK
               : gy_plan_emit_copy(sink, gy_in(0, 0, chunks), gy_out(0, 0, chunks));
}

/* to = x0 op x1 op ...: block `block`, the other ranks' from slot `slot` of their staging. */
typedef struct fold_spec {
    int ranks, rank, block, slot;
    gy_blocks to;
} fold_spec;

static gy_blocks operand(const fold_spec *fold, int of)
{
    return of == fold->rank ? gy_in(of, fold->block, 1) : gy_stage(of, fold->slot, fold->block);
}

/* Running sums stay in scratch, hence in the cache; the output is written once, and may be the
 * input. */
static gy_status fold_block(const fold_spec *fold, gy_plan_sink *sink)
{
    gy_blocks sum = operand(fold, 0);
    for (int of = 1; of < fold->ranks; of++) {
        bool is_last = of == fold->ranks - 1;
        gy_blocks next = is_last ? fold->to : gy_scratch(fold->rank, 0, fold->block);
        GY_TRY(gy_plan_emit_reduce(sink, sum, operand(fold, of), next));
        sum = next;
    }
    return GY_OK;
}

static gy_status meet(gy_plan_sink *sink, uint32_t mark)
{
    GY_TRY(gy_plan_emit_post(sink, mark));
    return gy_plan_emit_wait(sink, GY_EVERY, mark);
}

/* Sets of staging slots: input blocks of the current window and the next one, and sums of
 * three windows. */
enum { BLOCK_SETS = 2, SUM_SETS = 3 };

static gy_blocks sum_of(int of, int window, int ranks)
{
    return gy_stage(of, BLOCK_SETS * ranks + window % SUM_SETS, window * ranks + of);
}

static gy_status lay_out_window(const gy_plan_request *request, int rank, int window,
                                gy_plan_sink *sink)
{
    int ranks = request->ranks;
    for (int of = 0; of < ranks; of++) {
        int block = window * ranks + of;
        if (of != rank) {
            GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, block, 1),
                                     gy_stage(rank, window % BLOCK_SETS * ranks + of, block)));
        }
    }
    return GY_OK;
}

static gy_status fetch_sums(const gy_plan_request *request, int rank, int window,
                            gy_plan_sink *sink)
{
    for (int step = 1; step < request->ranks; step++) {
        int of = (rank + step) % request->ranks; /* each rank begins with another one */
        GY_TRY(gy_plan_emit_copy(sink, sum_of(of, window, request->ranks),
                                 gy_out(rank, window * request->ranks + of, 1)));
    }
    return GY_OK;
}

gy_status gy_plan_staged_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, windows = gy_request_chunks(request);
    if (ranks == 1) {
        return copy_all(request, sink);
    }
    for (int turn = 0; turn < windows + 2; turn++) {
        int summed = turn - 1, fetched = turn - 2;
        bool sums = summed >= 0 && summed < windows, meets = turn <= windows;
        if (turn < windows) {
            GY_TRY(lay_out_window(request, rank, turn, sink));
        }
        if (sums) {
            GY_TRY(fold_block(&(fold_spec){.ranks = ranks,
                                           .rank = rank,
                                           .block = summed * ranks + rank,
                                           .slot = summed % BLOCK_SETS * ranks + rank,
                                           .to = sum_of(rank, summed, ranks)},
                              sink));
        }
        if (meets) {
            GY_TRY(gy_plan_emit_post(sink, (uint32_t)turn + 1));
        }
        if (sums) {
            GY_TRY(gy_plan_emit_copy(sink, sum_of(rank, summed, ranks),
                                     gy_out(rank, summed * ranks + rank, 1)));
        }
        if (fetched >= 0) {
            GY_TRY(fetch_sums(request, rank, fetched, sink));
        }
        if (meets) {
            GY_TRY(gy_plan_emit_wait(sink, GY_EVERY, (uint32_t)turn + 1));
        }
    }
    return GY_OK;
}

/* The rank that sums the blocks `of` of the windows of a reduce. */
static int folder_of(const gy_plan_request *request, int of)
{
    return request->ranks == 2 ? request->root : of;
}

/* Copy a rank's contributions to the sums of others in one window. */
static gy_status give_window(const gy_plan_request *request, int rank, int window,
                             gy_plan_sink *sink)
{
    int ranks = request->ranks;
    for (int of = 0; of < ranks; of++) {
        int block = window * ranks + of;
        if (folder_of(request, of) != rank) {
            GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, block, 1),
                                     gy_stage(rank, window % BLOCK_SETS * ranks + of, block)));
        }
    }
    return GY_OK;
}

/* The root's sums go directly to its output, those of others to where it fetches them. */
static gy_status sum_window(const gy_plan_request *request, int rank, int window,
                            gy_plan_sink *sink)
{
    int ranks = request->ranks;
    for (int of = 0; of < ranks; of++) {
        int block = window * ranks + of;
        if (folder_of(request, of) == rank) {
            fold_spec fold = {.ranks = ranks,
                              .rank = rank,
                              .block = block,
                              .slot = window % BLOCK_SETS * ranks + of,
                              .to = rank == request->root ? gy_out(rank, block, 1)
                                                          : sum_of(of, window, ranks)};
            GY_TRY(fold_block(&fold, sink));
        }
    }
    return GY_OK;
}

static gy_status fetch_window(const gy_plan_request *request, int window, gy_plan_sink *sink)
{
    int ranks = request->ranks, root = request->root;
    for (int step = 1; step < ranks; step++) {
        int of = (root + step) % ranks;
        if (folder_of(request, of) != root) {
            GY_TRY(gy_plan_emit_copy(sink, sum_of(of, window, ranks),
                                     gy_out(root, window * ranks + of, 1)));
        }
    }
    return GY_OK;
}

gy_status gy_plan_staged_reduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int windows = gy_request_chunks(request);
    if (request->ranks == 1) {
        return copy_all(request, sink);
    }
    for (int turn = 0; turn < windows + 2; turn++) {
        int summed = turn - 1, fetched = turn - 2;
        bool meets = turn <= windows;
        if (turn < windows) {
            GY_TRY(give_window(request, rank, turn, sink));
        }
        if (summed >= 0 && summed < windows) {
            GY_TRY(sum_window(request, rank, summed, sink));
        }
        if (meets) {
            GY_TRY(gy_plan_emit_post(sink, (uint32_t)turn + 1));
        }
        if (fetched >= 0 && rank == request->root) {
            GY_TRY(fetch_window(request, fetched, sink));
        }
        if (meets) {
            GY_TRY(gy_plan_emit_wait(sink, GY_EVERY, (uint32_t)turn + 1));
        }
    }
    return GY_OK;
}

gy_status gy_plan_staged_reduce_scatter(const gy_plan_request *request, int rank,
                                        gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    if (ranks == 1) {
        return copy_all(request, sink);
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        int base = chunk % 2 * ranks;
        for (int of = 0; of < ranks; of++) {
            if (of != rank) {
                GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, of * chunks + chunk, 1),
                                         gy_stage(rank, base + of, of * chunks + chunk)));
            }
        }
        GY_TRY(meet(sink, (uint32_t)chunk + 1));
        int block = rank * chunks + chunk;
        GY_TRY(fold_block(&(fold_spec){.ranks = ranks,
                                       .rank = rank,
                                       .block = block,
                                       .slot = base + rank,
                                       .to = gy_out(rank, block, 1)},
                          sink));
    }
    return GY_OK;
}

gy_status gy_plan_staged_allgather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    for (int chunk = 0; chunk < chunks; chunk++) {
        uint32_t mark = (uint32_t)chunk + 1;
        int own = rank * chunks + chunk;
        if (ranks > 1) {
            GY_TRY(
                gy_plan_emit_copy(sink, gy_in(rank, own, 1), gy_stage(rank, chunk % 2, own)));
            GY_TRY(gy_plan_emit_post(sink, mark));
        }
        if (!request->in_place) {
            GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, own, 1), gy_out(rank, own, 1)));
        }
        for (int step = 1; step < ranks; step++) {
            int of = (rank + step) % ranks, block = of * chunks + chunk;
            GY_TRY(gy_plan_emit_wait(sink, of, mark));
            GY_TRY(gy_plan_emit_copy(sink, gy_stage(of, chunk % 2, block),
                                     gy_out(rank, block, 1)));
        }
    }
    return GY_OK;
}

gy_status gy_plan_staged_broadcast(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    if (request->ranks == 1) {
        return GY_OK;
    }
    for (int chunk = 0; chunk < gy_request_chunks(request); chunk++) {
        uint32_t mark = (uint32_t)chunk + 1;
        int slot = chunk % AHEAD;
        if (rank == request->root) {
            if (chunk >= AHEAD) {
                GY_TRY(gy_plan_emit_wait(sink, GY_EVERY, mark - AHEAD));
            }
            GY_TRY(
                gy_plan_emit_copy(sink, gy_out(rank, chunk, 1), gy_stage(rank, slot, chunk)));
            GY_TRY(gy_plan_emit_post(sink, mark));
        } else {
            GY_TRY(gy_plan_emit_wait(sink, request->root, mark));
            GY_TRY(gy_plan_emit_copy(sink, gy_stage(request->root, slot, chunk),
                                     gy_out(rank, chunk, 1)));
            GY_TRY(gy_plan_emit_post(sink, mark));
        }
    }
    return GY_OK;
}

/* Stage a part for each rank, a chunk of each, in slots from `base` on; copy the own one
 * directly. */
static gy_status lay_out_parts(const gy_plan_request *request, int rank, int first, int base,
                               gy_plan_sink *sink)
{
    for (int to = 0; to < request->ranks; to++) {
        int block = first + to * gy_request_chunks(request);
        if (to != rank) {
            GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, block, 1),
                                     gy_stage(rank, base + to, block)));
        } else if (!request->in_place) {
            GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, block, 1), gy_out(rank, block, 1)));
        }
    }
    return GY_OK;
}

gy_status gy_plan_staged_alltoall(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request);
    for (int chunk = 0; chunk < chunks; chunk++) {
        uint32_t mark = (uint32_t)chunk + 1;
        int base = chunk % 2 * ranks; /* a rank that has met all at c + 1 may write c + 2 */
        GY_TRY(lay_out_parts(request, rank, rank * ranks * chunks + chunk, base, sink));
        GY_TRY(gy_plan_emit_post(sink, mark));
        for (int step = 1; step < ranks; step++) {
            int of = (rank + step) % ranks;
            int block = (of * ranks + rank) * chunks + chunk;
            GY_TRY(gy_plan_emit_wait(sink, of, mark));
            GY_TRY(gy_plan_emit_copy(sink, gy_stage(of, base + rank, block),
                                     gy_out(rank, block, 1)));
        }
    }
    return GY_OK;
}

gy_status gy_plan_staged_gather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request), root = request->root;
    for (int chunk = 0; chunk < chunks; chunk++) {
        uint32_t mark = (uint32_t)chunk + 1;
        int own = rank * chunks + chunk, slot = chunk % AHEAD;
        if (rank != root) {
            if (chunk >= AHEAD) {
                GY_TRY(gy_plan_emit_wait(sink, root, mark - AHEAD));
            }
            GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, own, 1), gy_stage(rank, slot, own)));
            GY_TRY(gy_plan_emit_post(sink, mark));
            continue;
        }
        if (!request->in_place) {
            GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, own, 1), gy_out(rank, own, 1)));
        }
        for (int step = 1; step < ranks; step++) {
            int of = (rank + step) % ranks, block = of * chunks + chunk;
            GY_TRY(gy_plan_emit_wait(sink, of, mark));
            GY_TRY(gy_plan_emit_copy(sink, gy_stage(of, slot, block), gy_out(rank, block, 1)));
        }
        GY_TRY(gy_plan_emit_post(sink, mark));
    }
    return GY_OK;
}

gy_status gy_plan_staged_scatter(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    enum { SETS = 2 };
    int ranks = request->ranks, chunks = gy_request_chunks(request), root = request->root;
    for (int chunk = 0; chunk < chunks; chunk++) {
        uint32_t mark = (uint32_t)chunk + 1;
        int own = rank * chunks + chunk, base = chunk % SETS * ranks;
        if (rank != root) {
            GY_TRY(gy_plan_emit_wait(sink, root, mark));
            GY_TRY(gy_plan_emit_copy(sink, gy_stage(root, base + rank, own),
                                     gy_out(rank, own, 1)));
            GY_TRY(gy_plan_emit_post(sink, mark));
            continue;
        }
        if (chunk >= SETS) {
            GY_TRY(gy_plan_emit_wait(sink, GY_EVERY, mark - SETS));
        }
        GY_TRY(lay_out_parts(request, rank, chunk, base, sink));
        GY_TRY(gy_plan_emit_post(sink, mark));
    }
    return GY_OK;
}
