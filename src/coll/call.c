/* Properties of a call: whether it is valid, how large its buffers are, and whether it agrees
 * with the call of another rank. */
#include "coll/coll_priv.h"

#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ELEMENT_BYTES = 4096 };

static bool is_one_of(gy_operation operation, unsigned set)
{
    GY_CHECK_DEEP((unsigned)operation < GY_OPERATION_COUNT);
    return (set >> operation & 1) != 0;
}

#define OF(name) (1U << GY_OPERATION_##name)

enum {
    REDUCTIONS =
        OF(ALLREDUCE) | OF(REDUCE_SCATTER) | OF(REDUCE) | OF(SCAN) | OF(EXCLUSIVE_SCAN),
    SCANS = OF(SCAN) | OF(EXCLUSIVE_SCAN),
    ROOTED = OF(BROADCAST) | OF(REDUCE) | OF(GATHER) | OF(SCATTER),
    ROOT_GIVES = OF(SCATTER), /* the `in` of other ranks is not used */
    ROOT_GETS = OF(REDUCE) | OF(GATHER),
    PARTS_IN = OF(REDUCE_SCATTER) | OF(SCATTER) | OF(ALLTOALL), /* `in` has one part per rank */
    PARTS_OUT = OF(ALLGATHER) | OF(GATHER) | OF(ALLTOALL)
};

static bool is_reduction(gy_operation operation)
{
    return is_one_of(operation, REDUCTIONS);
}

static bool has_root(gy_operation operation)
{
    return is_one_of(operation, ROOTED);
}

bool gy_operation_has_parts(gy_operation operation)
{
    return is_one_of(operation, PARTS_IN | PARTS_OUT);
}

bool gy_call_gives(const gy_comm *comm, const gy_coll_call *call)
{
    bool is_rooted =
        is_one_of(call->operation, ROOT_GIVES) || call->operation == GY_OPERATION_BROADCAST;
    GY_CHECK_DEEP(!has_root(call->operation) || gy_comm_has_rank(comm, call->root));
    return !is_rooted || comm->rank == call->root;
}

bool gy_call_gets(const gy_comm *comm, const gy_coll_call *call)
{
    bool is_left = call->operation == GY_OPERATION_EXCLUSIVE_SCAN && comm->rank == 0;
    GY_CHECK_DEEP(!has_root(call->operation) || gy_comm_has_rank(comm, call->root));
    return !is_left && (!is_one_of(call->operation, ROOT_GETS) || comm->rank == call->root);
}

static bool has_user(const gy_coll_call *call)
{
    return call->user != NULL && is_reduction(call->operation);
}

bool gy_call_reduces(const gy_coll_call *call)
{
    return is_reduction(call->operation);
}

gy_plan_order gy_call_order(const gy_coll_call *call)
{
    GY_CHECK_DEEP(!has_user(call) || call->user->combine != NULL);
    return has_user(call) && !call->user->is_commutative ? GY_ORDER_RANK : GY_ORDER_ANY;
}

size_t gy_call_element_bytes(const gy_coll_call *call)
{
    bool is_own = has_user(call) && call->user->element_bytes != 0;
    GY_CHECK_DEEP(!is_own || call->user->element_bytes <= MAX_ELEMENT_BYTES);
    if (is_own) {
        return call->user->element_bytes;
    }
    return call->dtype == GY_DTYPE_NONE ? 1 : gy_dtype_bytes(call->dtype); /* NONE: a barrier */
}

size_t gy_count_limit(const gy_coll_call *call)
{
    return ((size_t)1 << 62) / GY_MAX(gy_call_element_bytes(call), (size_t)8) / GY_PLAN_RANKS;
}

gy_coll_fold gy_call_fold(const gy_comm *comm, const gy_coll_call *call)
{
    GY_CHECK_DEEP(comm->size > 1); /* one rank alone folds nothing */
    return gy_coll_fold_of(call->dtype, call->reduction, call->user, comm->size);
}

static size_t bytes_of(const gy_comm *comm, const gy_coll_call *call, unsigned split)
{
    GY_CHECK_DEEP(split == PARTS_IN || split == PARTS_OUT);
    bool is_split = is_one_of(call->operation, split);
    size_t count = call->count;
    if (call->is_vector && is_split) {
        count =
            (size_t)gy_parts_sum(comm, split == PARTS_IN ? &call->in_parts : &call->out_parts);
    } else if (call->is_vector && gy_parts_are_known(call)) {
        count = (size_t)gy_parts_own(comm, call);
    } else if (is_split) {
        count *= (size_t)comm->size;
    }
    GY_CHECK_DEEP(count <= SIZE_MAX / gy_call_element_bytes(call));
    return count * gy_call_element_bytes(call);
}

size_t gy_call_in_bytes(const gy_comm *comm, const gy_coll_call *call)
{
    return bytes_of(comm, call, PARTS_IN);
}

size_t gy_call_out_bytes(const gy_comm *comm, const gy_coll_call *call)
{
    return bytes_of(comm, call, PARTS_OUT);
}

static gy_status check_reduction(const gy_coll_call *call)
{
    GY_CHECK_DEEP(is_reduction(call->operation));
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
    if (call->reduction == GY_AVG && is_one_of(call->operation, SCANS)) {
        return gy_fail(GY_ARG, "%s: avg of a part of the ranks is not defined", name);
    }
    if (gy_coll_combine_of(call->dtype, call->reduction) == NULL) {
        return gy_fail(GY_ARG, "%s: %s of %s, expected integers", name,
                       gy_reduction_name(call->reduction), gy_dtype_name(call->dtype));
    }
    return GY_OK;
}

bool gy_call_is_in_place(const gy_comm *comm, const gy_coll_call *call)
{
    size_t element = gy_call_element_bytes(call);
    uintptr_t own = call->count * element * (uintptr_t)comm->rank;
    uintptr_t in = (uintptr_t)call->in, out = (uintptr_t)call->out;
    GY_CHECK_DEEP(element > 0 && gy_comm_has_rank(comm, comm->rank));
    if (call->is_vector && call->operation != GY_OPERATION_ALLTOALL) {
        own = gy_parts_own_start(comm, call) * element;
    }
    bool gathers = call->operation == GY_OPERATION_ALLGATHER ||
                   (call->operation == GY_OPERATION_GATHER && gy_call_gets(comm, call));
    bool scatters = call->operation == GY_OPERATION_REDUCE_SCATTER ||
                    (call->operation == GY_OPERATION_SCATTER && gy_call_gives(comm, call));
    return gathers    ? in == out + own && out != 0
           : scatters ? out == in + own && in != 0
                      : in == out;
}

/* A buffer of a call: one piece, or the parts of a vector variant. */
typedef struct pieces {
    uintptr_t data;
    const gy_parts *parts; /* NULL: one piece of `bytes` */
    size_t bytes, element;
    int count;
} pieces;

static pieces pieces_of(const gy_comm *comm, const gy_coll_call *call, unsigned split)
{
    GY_ASSERT(split == PARTS_IN || split == PARTS_OUT);
    const gy_parts *parts = split == PARTS_IN ? &call->in_parts : &call->out_parts;
    bool has_parts = call->is_vector && is_one_of(call->operation, split) &&
                     parts->counts != NULL && parts->displacements != NULL;
    return (pieces){.data = (uintptr_t)(split == PARTS_IN ? call->in : call->out),
                    .parts = has_parts ? parts : NULL,
                    .bytes = bytes_of(comm, call, split),
                    .element = gy_call_element_bytes(call),
                    .count = has_parts ? comm->size : 1};
}

static void piece_at(const pieces *of, int i, uintptr_t *begin, uintptr_t *end)
{
    bool has_parts = of->parts != NULL;
    GY_CHECK_DEEP(i >= 0 && i < of->count);
    *begin = of->data + (has_parts ? (size_t)of->parts->displacements[i] * of->element : 0);
    *end = *begin + (has_parts ? (size_t)of->parts->counts[i] * of->element : of->bytes);
    GY_CHECK_DEEP(*begin <= *end);
}

static bool overlaps(const gy_comm *comm, const gy_coll_call *call)
{
    bool has_one =
        call->operation == GY_OPERATION_BROADCAST || call->operation == GY_OPERATION_BARRIER;
    if (has_one || call->in == NULL || call->out == NULL || !gy_call_gives(comm, call) ||
        !gy_call_gets(comm, call) || gy_call_is_in_place(comm, call)) {
        return false;
    }
    const pieces in = pieces_of(comm, call, PARTS_IN), out = pieces_of(comm, call, PARTS_OUT);
    bool meet = false;
    for (int i = 0; i < in.count && !meet; i++) {
        uintptr_t from, from_end, to, to_end;
        piece_at(&in, i, &from, &from_end);
        for (int k = 0; k < out.count && !meet && from < from_end; k++) {
            piece_at(&out, k, &to, &to_end);
            meet = to < to_end && from < to_end && to < from_end;
        }
    }
    return meet;
}

/* Where the two buffers must lie for a call in place. */
static const char *place_text(gy_operation operation)
{
    return is_one_of(operation, OF(ALLGATHER) | OF(GATHER))
               ? "in where this rank's part of out begins"
           : is_one_of(operation, OF(REDUCE_SCATTER) | OF(SCATTER))
               ? "out where this rank's part of in begins"
               : "in equal to out";
}

static gy_status check_apart(const gy_comm *comm, const gy_coll_call *call)
{
    GY_CHECK_DEEP((unsigned)call->operation < GY_OPERATION_COUNT);
    if (!overlaps(comm, call)) {
        return GY_OK;
    }
    return gy_fail(GY_ARG,
                   "%s%s on rank %d: in (%zu bytes at %p) and out (%zu bytes at %p) overlap, "
                   "expected memory apart, or in place: %s",
                   gy_operation_name(call->operation), call->is_vector ? "v" : "",
                   gy_comm_peer(comm, comm->rank), gy_call_in_bytes(comm, call), call->in,
                   gy_call_out_bytes(comm, call), call->out, place_text(call->operation));
}

static gy_status check_there(const gy_comm *comm, const gy_coll_call *call)
{
    bool needs_in = gy_call_gives(comm, call) && call->operation != GY_OPERATION_BROADCAST;
    bool needs_out = gy_call_gets(comm, call);
    bool has_in = call->in != NULL || gy_call_in_bytes(comm, call) == 0;
    bool has_out = call->out != NULL || gy_call_out_bytes(comm, call) == 0;
    if (call->operation == GY_OPERATION_BARRIER ||
        ((has_in || !needs_in) && (has_out || !needs_out))) {
        return GY_OK;
    }
    return gy_fail(GY_ARG, "%s: %s is NULL with %zu elements",
                   gy_operation_name(call->operation), needs_in && !has_in ? "in" : "out",
                   call->count);
}

/* This test accepts most calls and costs a few comparisons, since the full test would double
 * the time of a small call. */
static inline bool is_plainly_right(const gy_comm *comm, const gy_coll_call *call)
{
    GY_CHECK_DEEP(call->count <= gy_count_limit(call)); /* so no product below overflows */
    if (call->is_vector || call->in == NULL || call->out == NULL) {
        return false;
    }
    if (call->in == call->out) {
        return !gy_operation_has_parts(call->operation);
    }
    /* no buffer is longer than all parts together */
    size_t bytes = call->count * gy_call_element_bytes(call) * (size_t)comm->size;
    uintptr_t in = (uintptr_t)call->in, out = (uintptr_t)call->out;
    return in < out ? out - in >= bytes : in - out >= bytes;
}

gy_status gy_call_check_buffers(const gy_comm *comm, const gy_coll_call *call)
{
    GY_CHECK_DEEP((unsigned)call->operation < GY_OPERATION_COUNT);
    GY_CHECK_DEEP(comm->size > 0);
    if (is_plainly_right(comm, call)) {
        return GY_OK;
    }
    GY_TRY(check_there(comm, call));
    return check_apart(comm, call);
}

gy_status gy_call_check(const gy_comm *comm, const gy_coll_call *call)
{
    GY_CHECK_DEEP(call != NULL);
    GY_CHECK_DEEP(gy_comm_has_rank(comm, comm->rank));
    if ((unsigned)call->operation >= GY_OPERATION_COUNT) {
        return gy_fail(GY_ARG, "operation %d does not exist", (int)call->operation);
    }
    const char *name = gy_operation_name(call->operation);
    if (!gy_dtype_is_element(call->dtype) && call->operation != GY_OPERATION_BARRIER) {
        return gy_fail(GY_ARG, "%s: element type %d does not exist", name, (int)call->dtype);
    }
    if (is_reduction(call->operation)) {
        GY_TRY(check_reduction(call));
    }
    if (has_root(call->operation) && (call->root < 0 || call->root >= comm->size)) {
        return gy_fail(GY_ARG, "%s: root %d, expected 0 to %d", name, call->root,
                       comm->size - 1);
    }
    size_t limit = gy_count_limit(call);
    if (call->count > limit) {
        return gy_fail(GY_ARG, "%s: %zu elements, at most %zu", name, call->count, limit);
    }
    if (call->is_vector) {
        GY_TRY(gy_parts_check(comm, call));
    }
    if (call->timeout_s < 0) {
        return gy_fail(GY_ARG, "%s: a timeout of %g s", name, call->timeout_s);
    }
    return GY_OK;
}

/* Finds the offsets of both buffers in this rank's pool; false: a buffer lies outside it. */
static bool find_registered(const gy_comm *comm, const gy_coll_call *call,
                            gy_remote_address *remote)
{
    size_t in = 0, out = 0;
    bool is_in = true, is_out = true;
    if (comm->shared == NULL || (call->is_vector && call->in_parts.displacements != NULL)) {
        return false; /* peers know where parts without gaps begin */
    }
    if (call->is_vector && !gy_parts_are_known(call) && !gy_count_exchange_asks(comm, call)) {
        return false;
    }
    if (call->operation == GY_OPERATION_ALLTOALL && call->in == call->out) {
        return false; /* peers would read what this rank overwrites */
    }
    if (call->operation != GY_OPERATION_BROADCAST && gy_call_gives(comm, call)) {
        is_in = gy_shared_owns(comm->shared, gy_comm_place(comm, comm->rank), call->in,
                               gy_call_in_bytes(comm, call), &in);
    }
    if (gy_call_gets(comm, call)) {
        is_out = gy_shared_owns(comm->shared, gy_comm_place(comm, comm->rank), call->out,
                                gy_call_out_bytes(comm, call), &out);
    }
    GY_ASSERT(in <= GY_REMOTE_MASK && out <= GY_REMOTE_MASK);
    *remote = (gy_remote_address){.in = in, .out = out & GY_REMOTE_MASK};
    return is_in && is_out;
}

/* Hashes what else all ranks must have alike: the group, the user's reduction, the counts that
 * every rank knows. */
static uint32_t detail_of(const gy_comm *comm, const gy_coll_call *call)
{
    uint64_t hash = comm->life;
    GY_CHECK_DEEP(!has_user(call) || call->user->name != NULL);
    if (has_user(call)) {
        const gy_user_reduction *user = call->user;
        hash = gy_hash(user->name, strlen(user->name),
                       (user->element_bytes * 2 + user->is_commutative) ^ hash << 32);
    }
    return (uint32_t)(call->is_vector ? gy_parts_hash(comm, call, hash) : hash);
}

/* A call is recognised as a refusal by the address of this reduction, which no rank ever runs.
 */
static const gy_user_reduction refusal = {.name = "refused"};

gy_coll_call gy_call_refusal(const gy_coll_call *call)
{
    return (gy_coll_call){.operation = GY_OPERATION_BARRIER,
                          .dtype = GY_U8,
                          .user = &refusal,
                          .timeout_s = call->timeout_s};
}

static bool is_refusal(const gy_coll_call *call)
{
    return call->operation == GY_OPERATION_BARRIER && call->user == &refusal;
}

gy_coll_signature gy_coll_signature_of(const gy_comm *comm, const gy_coll_call *call,
                                       bool is_tiny)
{
    GY_CHECK_DEEP(!is_tiny || comm->shared != NULL);
    GY_CHECK_DEEP((unsigned)call->operation < GY_OPERATION_COUNT);
    gy_remote_address remote;
    bool reduces = is_reduction(call->operation);
    bool is_users = has_user(call) && !gy_average_is_sum(call), is_refused = is_refusal(call);
    uint8_t reduction = is_users     ? GY_USER
                        : is_refused ? GY_REFUSED
                        : reduces    ? (uint8_t)call->reduction
                                     : 0;
    return (gy_coll_signature){.count = call->is_vector ? GY_VECTOR_COUNT : call->count,
                               .root = has_root(call->operation) ? call->root : 0,
                               .forced = gy_comm_chooses_by(comm),
                               .operation = (uint8_t)call->operation,
                               .dtype = (uint8_t)call->dtype,
                               .reduction = reduction,
                               .detail = detail_of(comm, call),
                               .is_registered =
                                   !is_tiny && find_registered(comm, call, &remote)};
}

bool gy_coll_signatures_agree(const gy_coll_signature *a, const gy_coll_signature *b)
{
    return a->count == b->count && a->root == b->root && a->forced == b->forced &&
           a->operation == b->operation && a->dtype == b->dtype &&
           a->reduction == b->reduction && a->detail == b->detail;
}

static const char *reduction_text(const gy_coll_signature *signature)
{
    return signature->reduction == GY_USER
               ? "a user's reduction"
               : gy_reduction_name((gy_reduction)signature->reduction);
}

const char *gy_coll_signature_text(const gy_coll_signature *signature, char out[128])
{
    GY_ASSERT(signature != NULL && out != NULL);
    gy_operation operation = (gy_operation)signature->operation;
    bool is_known =
        signature->operation < GY_OPERATION_COUNT && signature->dtype < GY_DTYPE_COUNT;
    if (!is_known) {
        snprintf(out, 128, "an unknown call");
        return out;
    }
    if (operation == GY_OPERATION_BARRIER) {
        bool is_refused = signature->reduction == GY_REFUSED;
        snprintf(out, 128, "%s",
                 is_refused ? "one with buffers that it was refused" : "barrier");
        return out;
    }
    char count[40], by[28] = "", root[20] = "";
    snprintf(count, sizeof(count), "%llu", (unsigned long long)signature->count);
    if (signature->count == GY_VECTOR_COUNT) {
        snprintf(count, sizeof(count), "counts of their own (%08x)", signature->detail);
    }
    if (is_reduction(operation)) {
        snprintf(by, sizeof(by), " by %s", reduction_text(signature));
    }
    if (has_root(operation)) {
        snprintf(root, sizeof(root), ", root %d", signature->root);
    }
    snprintf(out, 128, "%s of %s %s%s%s", gy_operation_name(operation), count,
             gy_dtype_name((gy_dtype)signature->dtype), by, root);
    return out;
}

/* Writes " of group 2.1"; the world gets no text. */
static const char *group_text(const gy_comm *comm, char out[40])
{
    GY_ASSERT(comm->root != NULL);
    out[0] = '\0';
    if (comm->root != comm) {
        snprintf(out, 40, " of group %d.%u", comm->comm_slot, comm->life);
    }
    return out;
}

const char *gy_coll_text(const gy_coll *coll, char out[192])
{
    char text[128], group[40];
    const gy_message *message = &coll->message;
    GY_ASSERT(coll->comm != NULL && out != NULL);
    if (coll->kind == GY_COLL_COLLECTIVE) {
        snprintf(out, 192, "collective %llu%s, %s", (unsigned long long)coll->number,
                 group_text(coll->comm, group), gy_coll_signature_text(&coll->signature, text));
    } else {
        bool is_send = coll->kind == GY_COLL_SEND;
        snprintf(text, sizeof(text), "rank %d", message->peer);
        snprintf(out, 192, "%s of %zu %s %s %s%s, tag %d", is_send ? "send" : "receive",
                 message->count, gy_dtype_name(message->dtype), is_send ? "to" : "from",
                 gy_message_is_any(coll) ? "any rank" : text, group_text(coll->comm, group),
                 message->tag);
    }
    return out;
}

/* Names the settings by which two ranks choose. A rank knows the path of its own table alone.
 */
static const char *chosen_text(const gy_comm *comm, const gy_coll_signature *other,
                               char out[320])
{
    const gy_tuning *tuning = comm->site.tuning;
    snprintf(out, 320,
             " with another GYRE_COLL or table of gyre tune: here %08x, %s; there %08x",
             gy_comm_chooses_by(comm),
             tuning == NULL         ? "no table"
             : tuning->path == NULL ? "a table"
                                    : tuning->path,
             other->forced);
    return out;
}

gy_status gy_coll_signature_mismatch(const gy_coll *coll, const gy_coll_signature *other,
                                     int rank)
{
    char mine[128], theirs[128], group[40], by[320];
    const gy_comm *comm = coll->comm;
    bool is_forced = coll->signature.forced != other->forced;
    GY_ASSERT(coll->kind == GY_COLL_COLLECTIVE);
    GY_ASSERT(rank >= 0 && rank < comm->transport->size &&
              rank != gy_comm_peer(comm, comm->rank));
    return gy_fail(
        GY_MISMATCH, "collective %llu%s: rank %d called %s, rank %d called %s%s",
        (unsigned long long)coll->number, group_text(comm, group),
        gy_comm_peer(comm, comm->rank), gy_coll_signature_text(&coll->signature, mine), rank,
        gy_coll_signature_text(other, theirs), is_forced ? chosen_text(comm, other, by) : "");
}

void gy_call_alone(const gy_coll_call *call)
{
    size_t element = gy_call_element_bytes(call), count = call->count, from = 0, to = 0;
    bool is_nothing = call->operation == GY_OPERATION_BROADCAST ||
                      call->operation == GY_OPERATION_BARRIER ||
                      call->operation == GY_OPERATION_EXCLUSIVE_SCAN;
    if (call->is_vector && call->in_parts.counts != NULL) {
        count = (size_t)call->in_parts.counts[0];
        from = call->in_parts.displacements != NULL
                   ? (size_t)call->in_parts.displacements[0] * element
                   : 0;
    }
    if (call->is_vector && call->out_parts.counts != NULL) {
        count = (size_t)call->out_parts.counts[0];
        to = call->out_parts.displacements != NULL
                 ? (size_t)call->out_parts.displacements[0] * element
                 : 0;
    }
    const uint8_t *in = call->in;
    uint8_t *out = call->out;
    GY_CHECK_DEEP(count == 0 || is_nothing || (in != NULL && out != NULL));
    if (count > 0 && !is_nothing && in + from != out + to) {
        memmove(out + to, in + from, count * element);
    }
}
