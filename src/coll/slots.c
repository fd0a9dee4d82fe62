/*
 * Slots: each rank has one per channel, which all ranks can read. A slot carries the rank's
 * signature and the data of a call of up to 8 KiB, so that such a call takes one meeting: each
 * rank writes its own slot and reads all slots in rank order. The sum is the same left fold
 * that the plans over shared memory compute.
 */
#include "coll/coll_priv.h"

#include <string.h>

/* Returns the bytes that a rank writes into its slot for a tiny call. */
static size_t given_bytes(const gy_comm *comm, const gy_coll_call *call)
{
    switch (call->operation) {
    case GY_OPERATION_BARRIER:
        return 0;
    case GY_OPERATION_BROADCAST:
        return gy_call_out_bytes(comm, call);
    case GY_OPERATION_ALLREDUCE:
    case GY_OPERATION_REDUCE_SCATTER:
    case GY_OPERATION_ALLGATHER:
    case GY_OPERATION_REDUCE:
    case GY_OPERATION_GATHER:
    case GY_OPERATION_SCATTER:
    case GY_OPERATION_ALLTOALL:
    case GY_OPERATION_SCAN:
    case GY_OPERATION_EXCLUSIVE_SCAN:
    case GY_OPERATION_COUNT:
    default:
        return gy_call_in_bytes(comm, call);
    }
}

/* A few bytes share the cache line of the mark, which saves one of two transfers between
 * caches. */
static uint8_t *data_of(gy_coll_slot *slot, size_t bytes)
{
    GY_CHECK_DEEP(bytes <= GY_TINY_BYTES);
    return bytes <= GY_INLINE_BYTES ? slot->inline_payload : slot->data;
}

/* Returns the maximum of what the ranks write into their slots, as all ranks know it. */
static size_t most_given(const gy_comm *comm, const gy_coll_call *call)
{
    GY_CHECK_DEEP(!call->is_vector || gy_parts_are_known(call));
    return call->is_vector && call->operation == GY_OPERATION_ALLGATHER
               ? (size_t)gy_parts_longest(comm, call) * gy_call_element_bytes(call)
               : given_bytes(comm, call);
}

bool gy_call_is_tiny(const gy_comm *comm, const gy_coll_call *call)
{
    if (comm->shared == NULL || (call->is_vector && !gy_parts_are_known(call))) {
        return false;
    }
    /* A forced plan runs for tiny messages too. A barrier and an empty call need no plan. */
    size_t bytes = most_given(comm, call);
    return bytes <= GY_TINY_BYTES &&
           (bytes == 0 || comm->site.forced->names[call->operation] == NULL);
}

static uint64_t peer_has_ended(gy_comm *comm, int peer)
{
    GY_CHECK_DEEP(gy_comm_has_rank(comm, peer) && peer != comm->rank);
    /* acquire: with the release in gy_comm_end_number; the peer has finished reading this
     * rank's slot and staging */
    uint64_t seen = atomic_load_explicit(gy_word_of(comm, peer, 0), memory_order_acquire);
    comm->peer_ended[peer] = GY_MAX(comm->peer_ended[peer], seen);
    return comm->peer_ended[peer];
}

bool gy_channel_is_free(gy_comm *comm, uint64_t number, int *peer)
{
    GY_CHECK_DEEP(number >= comm->ended);
    GY_CHECK_DEEP(peer != NULL);
    *peer = -1;
    if (number >= comm->ended + GY_CHANNELS) {
        return false;
    }
    for (int rank = 0; comm->shared != NULL && rank < comm->size; rank++) {
        if (rank != comm->rank && number >= comm->peer_ended[rank] + GY_CHANNELS &&
            number >= peer_has_ended(comm, rank) + GY_CHANNELS) {
            *peer = gy_comm_peer(comm, rank);
            return false;
        }
    }
    return true;
}

void gy_region_take(gy_coll *coll)
{
    gy_comm *comm = coll->comm;
    uint64_t over = comm->ended; /* all ranks have ended the numbers below, as last seen */
    int best = -1;
    GY_ASSERT(comm->shared != NULL);
    GY_ASSERT(coll->stage == GY_COLL_STARTED);
    for (int rank = 0; rank < comm->size; rank++) {
        over = rank == comm->rank ? over : GY_MIN(over, comm->peer_ended[rank]);
    }
    for (int region = 0; region < GY_CHANNELS; region++) {
        uint64_t next = comm->region_next[region];
        if (next <= over && (best < 0 || next > comm->region_next[best])) {
            best = region;
        }
    }
    GY_ASSERT(best >= 0); /* at most GY_CHANNELS - 1 earlier calls are in flight */
    comm->region_next[best] = coll->number + 1;
    coll->region = (uint8_t)best;
}

/*
 * The peers' caches hold the lines of the next slot, since the peers read them last. A write to
 * each line would cost a trip between the cores. A prefetch now overlaps these trips with the
 * wait.
 */
static void own_next_slot(const gy_coll *coll, size_t bytes)
{
    const gy_comm *comm = coll->comm;
    const gy_coll_slot *next = gy_coll_slot_of(comm, comm->rank, coll->number + 1);
    size_t end = bytes <= GY_INLINE_BYTES ? GY_CACHE_LINE : GY_CACHE_LINE + bytes;
    GY_CHECK_DEEP(bytes <= GY_TINY_BYTES);
    for (size_t at = 0; at < end; at += GY_CACHE_LINE) {
        gy_fetch_to_write((const uint8_t *)next + at);
    }
    gy_fetch_to_write(gy_coll_slot_of(comm, comm->rank, coll->number + 2));
}

void gy_coll_slot_enter(gy_coll *coll, bool is_tiny)
{
    const gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    gy_coll_slot *slot = gy_coll_slot_of(comm, comm->rank, coll->number);
    size_t bytes = is_tiny && gy_call_gives(comm, call) ? given_bytes(comm, call) : 0;
    GY_CHECK_DEEP(bytes <= GY_TINY_BYTES);
    GY_CHECK_DEEP(coll->number >= comm->ended && coll->number < comm->ended + GY_CHANNELS);
    GY_CHECK_DEEP(is_tiny || coll->region < GY_CHANNELS);
    slot->ended = comm->ended;
    slot->signature = coll->signature;
    if (call->is_vector && (is_tiny || gy_count_exchange_asks(comm, call))) {
        bytes = gy_count_exchange_enter(coll, slot);
    } else if (bytes > 0) {
        const void *from = call->operation == GY_OPERATION_BROADCAST ? call->out : call->in;
        memcpy(data_of(slot, bytes), from, bytes);
    }
    if (!is_tiny) {
        gy_remote_address remote = {.region = coll->region};
        if (coll->signature.is_registered) {
            const uint8_t *pool = gy_shared_pool(comm->shared, gy_comm_place(comm, comm->rank));
            remote.in = call->in == NULL ? 0 : (uint64_t)((const uint8_t *)call->in - pool);
            remote.out = call->out == NULL
                             ? 0
                             : (uint64_t)((const uint8_t *)call->out - pool) & GY_REMOTE_MASK;
        }
        memcpy(slot->inline_payload, &remote, sizeof(remote));
    }
    /* release: the slot's contents; with the acquire in gy_coll_slot_compare */
    atomic_store_explicit(&slot->entered, coll->number + 1, memory_order_release);
    gy_wake_peers(comm);
    own_next_slot(coll, bytes);
    /* The fold is looked up while the signatures of the others are on their way. */
    if (is_tiny && gy_call_reduces(call)) {
        coll->runner.fold = gy_call_fold(comm, call);
    }
}

gy_status gy_coll_slot_compare(gy_coll *coll)
{
    gy_comm *comm = coll->comm;
    GY_CHECK_DEEP(comm->shared != NULL);
    GY_CHECK_DEEP(coll->checked >= 0 && coll->checked <= comm->size);
    GY_CHECK_DEEP(!coll->has_remote || coll->remote != NULL);
    for (; coll->checked < comm->size; coll->checked++) {
        int rank = coll->checked;
        if (rank == comm->rank) {
            continue;
        }
        const gy_coll_slot *slot = gy_coll_slot_of(comm, rank, coll->number);
        /* acquire: with the release in gy_coll_slot_enter */
        uint64_t entered = atomic_load_explicit(&slot->entered, memory_order_acquire);
        if (entered < coll->number + 1) {
            coll->peer = gy_comm_peer(comm, rank);
            return GY_AGAIN;
        }
        GY_ASSERT(entered == coll->number + 1);
        comm->peer_ended[rank] = GY_MAX(comm->peer_ended[rank], slot->ended);
        if (!gy_coll_signatures_agree(&coll->signature, &slot->signature)) {
            return gy_coll_signature_mismatch(coll, &slot->signature, gy_comm_peer(comm, rank));
        }
        if (coll->has_remote) {
            coll->any_registered = coll->any_registered || slot->signature.is_registered;
            coll->all_registered = coll->all_registered && slot->signature.is_registered;
            memcpy(&coll->remote[rank], slot->inline_payload, sizeof(gy_remote_address));
        }
        if (coll->call.is_vector && gy_count_exchange_asks(comm, &coll->call)) {
            GY_TRY(gy_count_exchange_compare(coll, rank, slot));
        }
    }
    coll->peer = -1;
    return GY_OK;
}

gy_status gy_coll_slot_compare_later(const gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    bool may_skip = comm->root->options.outlives_mismatch;
    GY_CHECK_DEEP(comm->shared != NULL);
    GY_CHECK_DEEP(coll->checked >= 0 && coll->checked <= comm->size);
    for (int rank = coll->checked; rank < comm->size; rank++) {
        const gy_coll_slot *slot = gy_coll_slot_of(comm, rank, coll->number);
        /* The ended word is read first: a rank that has ended the number has entered it before,
         * or never will. */
        bool has_ended = may_skip && gy_comm_ended_by(comm, rank) > coll->number;
        /* acquire: with the release in gy_coll_slot_enter */
        uint64_t entered = atomic_load_explicit(&slot->entered, memory_order_acquire);
        if (rank != comm->rank && entered == coll->number + 1 &&
            !gy_coll_signatures_agree(&coll->signature, &slot->signature)) {
            return gy_coll_signature_mismatch(coll, &slot->signature, gy_comm_peer(comm, rank));
        }
        if (has_ended && entered != coll->number + 1) {
            char text[128];
            return gy_comm_skipped(comm, rank, coll->number,
                                   gy_coll_signature_text(&coll->signature, text));
        }
    }
    return GY_OK;
}

gy_status gy_coll_slot_compare_spinning(gy_coll *coll)
{
    enum { POLLS = 64 };
    gy_status status = gy_coll_slot_compare(coll);
    for (int look = 0; look < POLLS && status == GY_AGAIN; look++) {
        GY_CHECK_DEEP(coll->checked < coll->comm->size);
        const gy_coll_slot *slot = gy_coll_slot_of(coll->comm, coll->checked, coll->number);
        /* relaxed: only a hint, gy_coll_slot_compare reads it again with acquire */
        if (atomic_load_explicit(&slot->entered, memory_order_relaxed) > coll->number) {
            status = gy_coll_slot_compare(coll);
        }
    }
    return status;
}

static const uint8_t *given_by(const gy_coll *coll, int rank)
{
    GY_CHECK_DEEP(gy_comm_has_rank(coll->comm, rank));
    gy_coll_slot *slot = gy_coll_slot_of(coll->comm, rank, coll->number);
    return coll->call.is_vector ? slot->data
                                : data_of(slot, given_bytes(coll->comm, &coll->call));
}

/* What a fold of the slots reads. */
typedef struct slot_fold {
    size_t given, at; /* bytes in each slot; offset of the first that is folded */
    bool takes_own;   /* the own term is read from the call's input */
} slot_fold;

/* Tests that no running sum overwrites the own input before it is read. */
static bool keeps_own(const gy_coll *coll, size_t at, size_t bytes)
{
    uintptr_t own = (uintptr_t)coll->call.in + at, out = (uintptr_t)coll->call.out;
    return coll->comm->rank < 2 || own + bytes <= out || out + bytes <= own;
}

/* Returns the term of a rank. The own term comes from the call's input: the own slot was just
 * written, and a read would wait until the store has left the core. */
static const uint8_t *term_of(const gy_coll *coll, const slot_fold *fold, int rank)
{
    GY_CHECK_DEEP(gy_comm_has_rank(coll->comm, rank));
    GY_CHECK_DEEP(fold->at <= GY_TINY_BYTES && fold->given <= GY_TINY_BYTES);
    if (rank == coll->comm->rank && fold->takes_own) {
        return (const uint8_t *)coll->call.in + fold->at;
    }
    gy_coll_slot *slot = gy_coll_slot_of(coll->comm, rank, coll->number);
    return (coll->call.is_vector ? slot->data : data_of(slot, fold->given)) + fold->at;
}

/* Folds f16 and bf16: the sum is float32 until the last rank's data is added. */
static void fold_wide(const gy_coll *coll, const slot_fold *slots, int ranks, size_t count)
{
    GY_ASSERT(count <= GY_TINY_BYTES / sizeof(uint16_t)); /* the room of `sum` */
    GY_CHECK_DEEP(ranks > 1);
    float sum[GY_TINY_BYTES / sizeof(uint16_t)];
    gy_term left = {.data = term_of(coll, slots, 0)};
    for (int rank = 1; rank < ranks; rank++) {
        bool is_last = rank == ranks - 1;
        uint8_t *to = is_last ? coll->call.out : (void *)sum;
        gy_coll_fold_into(&(gy_targets){.to = &to, .count = 1}, !is_last, &coll->runner.fold,
                          left, (gy_term){.data = term_of(coll, slots, rank)}, count);
        left = (gy_term){.data = sum, .is_sum = true};
    }
}

/* out = fold of `count` elements of the slots of ranks 0 to ranks - 1, from byte `at` on. */
static void fold_slots(const gy_coll *coll, size_t at, int ranks, size_t count)
{
    const gy_coll_call *call = &coll->call;
    const gy_coll_fold *fold = &coll->runner.fold;
    size_t bytes = count * fold->element_bytes;
    const slot_fold slots = {.given = given_bytes(coll->comm, call),
                             .at = at,
                             .takes_own = !call->is_vector && keeps_own(coll, at, bytes)};
    const uint8_t *sum = term_of(coll, &slots, 0);
    GY_CHECK_DEEP(ranks >= 1 && ranks <= coll->comm->size);
    GY_CHECK_DEEP(at + bytes <= GY_TINY_BYTES);
    if (ranks == 1) {
        memmove(call->out, sum, bytes);
        return;
    }
    if (gy_coll_fold_is_wide(fold)) {
        fold_wide(coll, &slots, ranks, count);
        return;
    }
    for (int rank = 1; rank < ranks; rank++) {
        gy_coll_fold_combine(fold, call->out, sum, term_of(coll, &slots, rank), count);
        sum = call->out;
    }
    gy_coll_fold_finish(fold, call->out, count);
}

/* Copies `bytes` from byte `at` on of each slot to `out`, in rank order. */
static void collect(const gy_coll *coll, size_t at, size_t bytes)
{
    uint8_t *out = coll->call.out;
    GY_CHECK_DEEP(at + bytes <= GY_TINY_BYTES);
    for (int rank = 0; rank < coll->comm->size; rank++) {
        memcpy(out + (size_t)rank * bytes, given_by(coll, rank) + at, bytes);
    }
}

/* Computes this rank's part of the sums of a vector variant. */
static void fold_own_part(const gy_coll *coll)
{
    GY_CHECK_DEEP(coll->call.is_vector && coll->call.in_parts.counts != NULL);
    const int64_t *counts = coll->call.in_parts.counts;
    size_t before = 0, count = (size_t)counts[coll->comm->rank];
    for (int rank = 0; rank < coll->comm->rank; rank++) {
        before += (size_t)counts[rank];
    }
    if (count > 0) {
        fold_slots(coll, before * gy_call_element_bytes(&coll->call), coll->comm->size, count);
    }
}

size_t gy_coll_slot_read_bytes(const gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    const size_t others = (size_t)comm->size - 1;
    const size_t bytes = gy_call_gets(comm, call) ? gy_call_out_bytes(comm, call) : 0;
    GY_ASSERT(comm->shared != NULL);
    if (gy_call_reduces(call)) {
        return others * bytes;
    }
    if (!call->is_vector) {
        return bytes / (others + 1) * others;
    }
    const size_t own = (size_t)call->out_parts.counts[comm->rank] * gy_call_element_bytes(call);
    GY_ASSERT(own <= bytes);
    return bytes - own;
}

void gy_coll_slot_finish(const gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    size_t count = call->count, bytes = count * gy_call_element_bytes(call);
    GY_CHECK_DEEP(comm->shared != NULL && coll->checked == comm->size);
    if (!gy_call_gets(comm, call) || (bytes == 0 && !call->is_vector)) {
        return;
    }
    if (call->is_vector) {
        (call->operation == GY_OPERATION_REDUCE_SCATTER ? fold_own_part
                                                        : gy_count_exchange_finish)(coll);
        return;
    }
    switch (call->operation) {
    case GY_OPERATION_ALLREDUCE:
    case GY_OPERATION_REDUCE:
        fold_slots(coll, 0, comm->size, count);
        break;
    case GY_OPERATION_SCAN:
        fold_slots(coll, 0, comm->rank + 1, count);
        break;
    case GY_OPERATION_EXCLUSIVE_SCAN:
        fold_slots(coll, 0, comm->rank, count);
        break;
    case GY_OPERATION_REDUCE_SCATTER:
        fold_slots(coll, (size_t)comm->rank * bytes, comm->size, count);
        break;
    case GY_OPERATION_ALLGATHER:
    case GY_OPERATION_GATHER:
        collect(coll, 0, bytes);
        break;
    case GY_OPERATION_ALLTOALL:
        collect(coll, (size_t)comm->rank * bytes, bytes);
        break;
    case GY_OPERATION_SCATTER:
        memcpy(call->out, given_by(coll, call->root) + (size_t)comm->rank * bytes, bytes);
        break;
    case GY_OPERATION_BROADCAST:
        if (comm->rank != call->root) {
            memcpy(call->out, given_by(coll, call->root), bytes);
        }
        break;
    case GY_OPERATION_BARRIER:
    case GY_OPERATION_COUNT:
    default:
        break;
    }
}
