/* What a call says: is it possible, how large is it, does it agree with another rank's. */
#include "coll/coll_priv.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ELEMENT_BYTES = 4096 };

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

static bool has_user(const gy_coll_call *call)
{
    return call->user != NULL && is_reduction(call->operation);
}

bool gy_call_reduces(const gy_coll_call *call)
{
    return is_reduction(call->operation);
}

gy_order gy_call_order(const gy_coll_call *call)
{
    return has_user(call) && !call->user->is_commutative ? GY_ORDER_RANK : GY_ORDER_ANY;
}

size_t gy_call_element_bytes(const gy_coll_call *call)
{
    bool is_own = has_user(call) && call->user->element_bytes != 0;
    return is_own ? call->user->element_bytes : gy_dtype_bytes(call->dtype);
}

gy_fold gy_call_fold(const gy_comm *comm, const gy_coll_call *call)
{
    return gy_fold_of(call->dtype, call->reduction, call->user, comm->size);
}

size_t gy_call_in_bytes(const gy_comm *comm, const gy_coll_call *call)
{
    return call->count * gy_call_element_bytes(call) * parts_in(comm, call->operation);
}

size_t gy_call_out_bytes(const gy_comm *comm, const gy_coll_call *call)
{
    return call->count * gy_call_element_bytes(call) * parts_out(comm, call->operation);
}

static gy_status check_reduction(const gy_coll_call *call)
{
    const char *name = gy_operation_name(call->operation);
    if (has_user(call)) {
        bool is_bad = call->user->combine == NULL || call->user->name == NULL ||
                      call->user->element_bytes > MAX_ELEMENT_BYTES;
        return !is_bad ? GY_OK
                       : gy_fail(GY_ARG,
                                 "%s: a user's reduction needs a name, a function and elements "
                                 "of at most %d bytes",
                                 name, MAX_ELEMENT_BYTES);
    }
    if ((unsigned)call->reduction >= GY_REDUCTION_COUNT) {
        return gy_fail(GY_ARG, "%s: reduction %d does not exist", name, (int)call->reduction);
    }
    if (gy_combine_of(call->dtype, call->reduction) == NULL) {
        return gy_fail(GY_ARG, "%s: %s of %s, expected integers", name,
                       gy_reduction_name(call->reduction), gy_dtype_name(call->dtype));
    }
    return GY_OK;
}

gy_status gy_call_check(const gy_comm *comm, const gy_coll_call *call)
{
    if ((unsigned)call->operation > GY_OPERATION_BARRIER) {
        return gy_fail(GY_ARG, "operation %d does not exist", (int)call->operation);
    }
    const char *name = gy_operation_name(call->operation);
    if ((unsigned)call->dtype >= GY_DTYPE_COUNT) {
        return gy_fail(GY_ARG, "%s: element type %d does not exist", name, (int)call->dtype);
    }
    if (is_reduction(call->operation)) {
        GY_TRY(check_reduction(call));
    }
    if (has_root(call->operation) && (call->root < 0 || call->root >= comm->size)) {
        return gy_fail(GY_ARG, "%s: root %d, expected 0 to %d", name, call->root,
                       comm->size - 1);
    }
    /* No product of sizes overflows. */
    size_t limit =
        ((size_t)1 << 62) / GY_MAX(gy_call_element_bytes(call), (size_t)8) / GY_PLAN_RANKS;
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

static uint32_t user_hash(const gy_user_reduction *user)
{
    uint64_t salt = user->element_bytes * 2 + user->is_commutative;
    return (uint32_t)gy_hash(user->name, strlen(user->name), salt);
}

gy_card gy_call_card(const gy_comm *comm, const gy_coll_call *call)
{
    gy_far far;
    bool reduces = is_reduction(call->operation);
    bool is_tiny = gy_call_is_tiny(comm, call);
    uint8_t reduction = has_user(call) ? GY_USER : (uint8_t)call->reduction;
    return (gy_card){.count = call->count,
                     .root = has_root(call->operation) ? call->root : 0,
                     .forced = comm->forced_hash,
                     .operation = (uint8_t)call->operation,
                     .dtype = (uint8_t)call->dtype,
                     .reduction = reduces ? reduction : 0,
                     .detail = has_user(call) ? user_hash(call->user) : 0,
                     .is_registered = !is_tiny && find_registered(comm, call, &far)};
}

bool gy_cards_agree(const gy_card *a, const gy_card *b)
{
    return a->count == b->count && a->root == b->root && a->forced == b->forced &&
           a->operation == b->operation && a->dtype == b->dtype &&
           a->reduction == b->reduction && a->detail == b->detail;
}

static const char *reduction_text(const gy_card *card)
{
    return card->reduction == GY_USER ? "a user's reduction"
                                      : gy_reduction_name((gy_reduction)card->reduction);
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
            used = snprintf(out + at, 128 - at, " by %s", reduction_text(card));
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
    size_t bytes = call->count * gy_call_element_bytes(call);
    if (bytes > 0 && call->operation != GY_OPERATION_BROADCAST &&
        call->operation != GY_OPERATION_BARRIER && call->in != call->out) {
        memmove(call->out, call->in, bytes);
    }
}
