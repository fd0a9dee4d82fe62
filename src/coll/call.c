/* What a call says: is it possible, how large is it, does it agree with another rank's. */
#include "coll/coll_priv.h"

#include <stdio.h>
#include <string.h>

static bool is_reduction(gy_operation operation)
{
    return operation == GY_OPERATION_ALLREDUCE || operation == GY_OPERATION_REDUCE_SCATTER ||
           operation == GY_OPERATION_REDUCE;
}

static bool has_root(gy_operation operation)
{
    return operation == GY_OPERATION_BROADCAST || operation == GY_OPERATION_REDUCE;
}

static size_t parts_in(const gy_comm *comm, gy_operation operation)
{
    return operation == GY_OPERATION_REDUCE_SCATTER ? (size_t)comm->size : 1;
}

static size_t parts_out(const gy_comm *comm, gy_operation operation)
{
    return operation == GY_OPERATION_ALLGATHER ? (size_t)comm->size : 1;
}

size_t gy_call_in_bytes(const gy_comm *comm, const gy_coll_call *call)
{
    return call->count * gy_dtype_bytes(call->dtype) * parts_in(comm, call->operation);
}

size_t gy_call_out_bytes(const gy_comm *comm, const gy_coll_call *call)
{
    return call->count * gy_dtype_bytes(call->dtype) * parts_out(comm, call->operation);
}

gy_status gy_call_check(const gy_comm *comm, const gy_coll_call *call)
{
    if ((unsigned)call->operation >= GY_OPERATION_COUNT) {
        return gy_fail(GY_ARG, "operation %d does not exist", (int)call->operation);
    }
    const char *name = gy_operation_name(call->operation);
    if ((unsigned)call->dtype >= GY_DTYPE_COUNT) {
        return gy_fail(GY_ARG, "%s: element type %d does not exist", name, (int)call->dtype);
    }
    if (is_reduction(call->operation) && (unsigned)call->reduction > GY_MAX_OF) {
        return gy_fail(GY_ARG, "%s: reduction %d does not exist", name, (int)call->reduction);
    }
    if (has_root(call->operation) && (call->root < 0 || call->root >= comm->size)) {
        return gy_fail(GY_ARG, "%s: root %d, expected 0 to %d", name, call->root,
                       comm->size - 1);
    }
    size_t limit = ((size_t)1 << 62) / 8 / GY_PLAN_RANKS; /* no product of sizes overflows */
    if (call->count > limit) {
        return gy_fail(GY_ARG, "%s: %zu elements, at most %zu", name, call->count, limit);
    }
    bool needs_in = call->operation != GY_OPERATION_BROADCAST;
    bool needs_out = call->operation != GY_OPERATION_REDUCE || comm->rank == call->root;
    bool is_empty = call->count == 0 || call->operation == GY_OPERATION_BARRIER;
    if (!is_empty && ((needs_in && call->in == NULL) || (needs_out && call->out == NULL))) {
        return gy_fail(GY_ARG, "%s: %s is NULL with %zu elements", name,
                       needs_in && call->in == NULL ? "in" : "out", call->count);
    }
    if (call->timeout_s < 0) {
        return gy_fail(GY_ARG, "%s: a timeout of %g s", name, call->timeout_s);
    }
    return GY_OK;
}

/* Where the buffers lie in this rank's pool; false: not both there. */
static bool find_registered(const gy_comm *comm, const gy_coll_call *call, gy_far *far)
{
    size_t in = 0, out = 0;
    bool is_in = true, is_out = true;
    if (comm->shared == NULL) {
        return false;
    }
    if (call->operation != GY_OPERATION_BROADCAST) {
        is_in = gy_shared_owns(comm->shared, comm->rank, call->in, gy_call_in_bytes(comm, call),
                               &in);
    }
    if (call->operation != GY_OPERATION_REDUCE || comm->rank == call->root) {
        is_out = gy_shared_owns(comm->shared, comm->rank, call->out,
                                gy_call_out_bytes(comm, call), &out);
    }
    *far = (gy_far){.in = in, .out = out};
    return is_in && is_out;
}

gy_card gy_call_card(const gy_comm *comm, const gy_coll_call *call)
{
    gy_far far;
    bool reduces = is_reduction(call->operation);
    bool is_tiny = gy_call_is_tiny(comm, call);
    return (gy_card){.count = call->count,
                     .root = has_root(call->operation) ? call->root : 0,
                     .forced = comm->forced_hash,
                     .operation = (uint8_t)call->operation,
                     .dtype = (uint8_t)call->dtype,
                     .reduction = reduces ? (uint8_t)call->reduction : 0,
                     .is_registered = !is_tiny && find_registered(comm, call, &far)};
}

bool gy_cards_agree(const gy_card *a, const gy_card *b)
{
    return a->count == b->count && a->root == b->root && a->forced == b->forced &&
           a->operation == b->operation && a->dtype == b->dtype && a->reduction == b->reduction;
}

const char *gy_card_text(const gy_card *card, char out[128])
{
    gy_operation operation = (gy_operation)card->operation;
    bool is_known = card->operation < GY_OPERATION_COUNT && card->dtype < GY_DTYPE_COUNT;
    if (!is_known) {
        snprintf(out, 128, "an unknown call");
    } else if (operation == GY_OPERATION_BARRIER) {
        snprintf(out, 128, "barrier");
    } else {
        int used =
            snprintf(out, 128, "%s of %llu %s", gy_operation_name(operation),
                     (unsigned long long)card->count, gy_dtype_name((gy_dtype)card->dtype));
        size_t at = (size_t)used;
        if (is_reduction(operation)) {
            used = snprintf(out + at, 128 - at, " by %s",
                            gy_reduction_name((gy_reduction)card->reduction));
            at += (size_t)used;
        }
        if (has_root(operation)) {
            snprintf(out + at, 128 - at, ", root %d", card->root);
        }
    }
    return out;
}

gy_status gy_card_mismatch(const gy_coll *coll, const gy_card *other, int rank)
{
    char mine[128], theirs[128];
    bool is_forced = coll->card.forced != other->forced;
    return gy_fail(GY_MISMATCH, "collective %llu: rank %d called %s, rank %d called %s%s",
                   (unsigned long long)coll->number, coll->comm->rank,
                   gy_card_text(&coll->card, mine), rank, gy_card_text(other, theirs),
                   is_forced ? " with another GYRE_COLL" : "");
}

void gy_call_alone(const gy_coll_call *call)
{
    size_t bytes = call->count * gy_dtype_bytes(call->dtype);
    if (bytes > 0 && call->operation != GY_OPERATION_BROADCAST &&
        call->operation != GY_OPERATION_BARRIER && call->in != call->out) {
        memmove(call->out, call->in, bytes);
    }
}
