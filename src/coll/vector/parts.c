/*
 * Parts of unequal length: which counts a rank of a vector variant knows, and where every block
 * of a call lies in the buffers.
 *
 *   allgather       all ranks know all counts (out_parts)
 *   reduce-scatter  all ranks know all counts (in_parts)
 *   gather          the root knows all (out_parts), every rank its own
 *   scatter         the root knows all (in_parts), every rank its own
 *   all-to-all      each rank knows its row (in_parts) and its column (out_parts)
 */
#include "coll/coll_priv.h"

#include <string.h>

/* Returns the side that has parts in the call; all-to-all has two, of which this is the output.
 */
static const gy_parts *side_of(const gy_coll_call *call)
{
    GY_CHECK_DEEP(gy_call_has_parts(call));
    bool is_in = call->operation == GY_OPERATION_REDUCE_SCATTER ||
                 call->operation == GY_OPERATION_SCATTER;
    return is_in ? &call->in_parts : &call->out_parts;
}

static bool is_rooted(const gy_coll_call *call)
{
    return call->operation == GY_OPERATION_GATHER || call->operation == GY_OPERATION_SCATTER;
}

bool gy_parts_are_known(const gy_coll_call *call)
{
    return !is_rooted(call) && call->operation != GY_OPERATION_ALLTOALL;
}

int64_t gy_parts_sum(const gy_comm *comm, const gy_parts *parts)
{
    int64_t sum = 0;
    for (int rank = 0; rank < comm->size && parts->counts != NULL; rank++) {
        sum += parts->counts[rank];
    }
    GY_CHECK_DEEP(sum >= 0);
    return sum;
}

int64_t gy_parts_longest(const gy_comm *comm, const gy_coll_call *call)
{
    const gy_parts *parts = side_of(call);
    int64_t longest = 0;
    GY_CHECK_DEEP(parts->counts != NULL);
    for (int rank = 0; rank < comm->size; rank++) {
        longest = GY_MAX(longest, parts->counts[rank]);
    }
    return longest;
}

int64_t gy_parts_own(const gy_comm *comm, const gy_coll_call *call)
{
    GY_CHECK_DEEP(gy_comm_has_rank(comm, comm->rank) && side_of(call)->counts != NULL);
    return side_of(call)->counts[comm->rank];
}

size_t gy_parts_own_start(const gy_comm *comm, const gy_coll_call *call)
{
    const gy_parts *parts = side_of(call);
    int64_t start = 0;
    if (parts->displacements != NULL) {
        return (size_t)parts->displacements[comm->rank];
    }
    for (int rank = 0; rank < comm->rank && parts->counts != NULL; rank++) {
        start += parts->counts[rank];
    }
    GY_CHECK_DEEP(start >= 0);
    return (size_t)start;
}

static gy_status check_parts(const gy_comm *comm, const gy_coll_call *call,
                             const gy_parts *parts)
{
    const char *name = gy_operation_name(call->operation);
    int64_t limit = (int64_t)gy_count_limit(call);
    GY_ASSERT(limit > 0);
    if (parts->counts == NULL) {
        return gy_fail(GY_ARG, "%s: no counts", name);
    }
    for (int rank = 0; rank < comm->size; rank++) {
        int64_t start = parts->displacements != NULL ? parts->displacements[rank] : 0;
        if (parts->counts[rank] < 0 || parts->counts[rank] > limit || start < 0 ||
            start > limit * comm->size) {
            return gy_fail(
                GY_ARG, "%s: part %d of %lld elements from %lld on, expected 0 to %lld", name,
                rank, (long long)parts->counts[rank], (long long)start, (long long)limit);
        }
    }
    return GY_OK;
}

gy_status gy_parts_check(const gy_comm *comm, const gy_coll_call *call)
{
    GY_ASSERT(call->is_vector);
    if (!gy_call_has_parts(call)) {
        return gy_fail(GY_ARG, "%s has no form with counts",
                       gy_operation_name(call->operation));
    }
    if (call->operation == GY_OPERATION_ALLTOALL) {
        GY_TRY(check_parts(comm, call, &call->in_parts));
        return check_parts(comm, call, &call->out_parts);
    }
    if (is_rooted(call) && comm->rank != call->root) {
        return GY_OK;
    }
    GY_TRY(check_parts(comm, call, side_of(call)));
    int64_t own = side_of(call)->counts[comm->rank];
    if (is_rooted(call) && own != (int64_t)call->count) {
        return gy_fail(GY_MISMATCH,
                       "%s: the root's own part has %lld elements, its count is %zu",
                       gy_operation_name(call->operation), (long long)own, call->count);
    }
    return GY_OK;
}

uint64_t gy_parts_hash(const gy_comm *comm, const gy_coll_call *call, uint64_t salt)
{
    GY_ASSERT(call->is_vector && comm->size > 0);
    size_t bytes = (size_t)comm->size * sizeof(int64_t);
    return gy_parts_are_known(call) ? gy_hash(side_of(call)->counts, bytes, salt) : salt;
}

/* Returns the displacements of the parts: the user's, else those of parts one after the other.
 */
static const int64_t *displacements_of(const gy_comm *comm, const gy_parts *parts,
                                       int64_t *room)
{
    GY_ASSERT(parts->counts != NULL && room != NULL);
    if (parts->displacements != NULL) {
        return parts->displacements;
    }
    int64_t at = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        room[rank] = at;
        at += parts->counts[rank];
    }
    return room;
}

/* Finds where this rank's parts begin in the inputs of the ranks that it reads from. */
static void find_remote_displacements(const gy_coll *coll, gy_layout *layout,
                                      int64_t *in_displacements, int64_t *remote_displacements)
{
    const gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    GY_ASSERT(comm->shared != NULL);
    GY_ASSERT(gy_count_exchange_asks(comm, call));
    if (call->operation == GY_OPERATION_SCATTER && comm->rank != call->root) {
        in_displacements[comm->rank] = gy_count_exchange_start(coll, call->root);
        layout->in_displacements = in_displacements;
    }
    for (int rank = 0; call->operation == GY_OPERATION_ALLTOALL && rank < comm->size; rank++) {
        remote_displacements[rank] = gy_count_exchange_start(coll, rank);
    }
}

gy_status gy_parts_layout(gy_coll *coll, gy_layout *layout)
{
    const gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    size_t size = (size_t)comm->size;
    GY_ASSERT(call->is_vector);
    GY_ASSERT(layout->parts > 0 && layout->chunks > 0);
    if (coll->numbers == NULL) {
        coll->numbers = gy_alloc_zero("coll.parts", 4 * size, sizeof(int64_t));
        if (coll->numbers == NULL) {
            return GY_NOMEM;
        }
    }
    int64_t *counts = coll->numbers, *in_displacements = counts + size,
            *out_displacements = in_displacements + size;
    layout->ranks = comm->size;
    layout->rank = comm->rank;
    if (call->in_parts.counts != NULL) {
        layout->in_displacements = displacements_of(comm, &call->in_parts, in_displacements);
    }
    if (call->out_parts.counts != NULL) {
        layout->out_displacements = displacements_of(comm, &call->out_parts, out_displacements);
    }
    if (coll->runner.choice.algorithm->need == GY_NEED_DIRECT &&
        gy_count_exchange_asks(comm, call)) {
        find_remote_displacements(coll, layout, in_displacements, out_displacements + size);
    }
    if (call->operation == GY_OPERATION_ALLTOALL) {
        layout->in_counts = call->in_parts.counts;
        layout->out_counts = call->out_parts.counts;
    } else if (side_of(call)->counts != NULL) {
        layout->counts = side_of(call)->counts;
    } else {
        memset(counts, 0, size * sizeof(*counts));
        counts[comm->rank] = (int64_t)call->count;
        layout->counts = counts;
    }
    return GY_OK;
}
