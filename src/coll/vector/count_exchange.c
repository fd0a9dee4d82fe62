/*
 * Ranks that share memory exchange the counts of the vector variants of gather, scatter and
 * all-to-all, where only the giver and the taker of a part know its count. Each rank writes the
 * counts that it knows into its slot. So the one meeting of every call also finds the longest
 * part, by which all ranks cut alike and use staging, and both sides of a part compare their
 * counts. Parts that fit are piggybacked behind the counts: then the call ends with that
 * meeting.
 *
 *   slot.inline_payload   the offsets of registered buffers; then twice the longest part, plus
 *                         one where the parts are piggybacked
 *   slot.data             the counts: gather and scatter have one, or at the root one per rank;
 *                         all-to-all has the counts given, then those taken. The parts that
 *                         the rank gives follow.
 *
 * Where all ranks know all counts (allgather, reduce-scatter) they exchange none, and the slots
 * hold the parts alone.
 */
#include "coll/coll_priv.h"

#include <string.h>

/* The counts of so many ranks take at most half a slot. */
enum { RANKS_MOST = GY_TINY_BYTES / 4 / sizeof(int64_t) };

bool gy_count_exchange_asks(const gy_comm *comm, const gy_coll_call *call)
{
    return call->is_vector && comm->shared != NULL && comm->size <= RANKS_MOST &&
           !gy_parts_are_known(call);
}

/* The counts that this rank knows. */
typedef struct known_counts {
    const int64_t *lists[2]; /* (count each) */
    int list_count, count;
    int64_t own;
} known_counts;

static void find_counts(const gy_coll *coll, known_counts *known)
{
    const gy_coll_call *call = &coll->call;
    GY_ASSERT(!gy_parts_are_known(call));
    *known = (known_counts){.list_count = 1, .count = coll->comm->size};
    if (call->operation == GY_OPERATION_ALLTOALL) {
        known->lists[0] = call->in_parts.counts;
        known->lists[1] = call->out_parts.counts;
        known->list_count = 2;
    } else if (coll->comm->rank == call->root) {
        known->lists[0] = call->operation == GY_OPERATION_GATHER ? call->out_parts.counts
                                                                 : call->in_parts.counts;
    } else {
        known->own = (int64_t)call->count;
        known->lists[0] = &known->own;
        known->count = 1;
    }
}

/* Returns the bytes of the counts that a rank writes. */
static size_t head_of(const gy_coll *coll, int rank)
{
    const gy_coll_call *call = &coll->call;
    size_t size = (size_t)coll->comm->size;
    size_t counts = call->operation == GY_OPERATION_ALLTOALL ? 2 * size
                    : rank == call->root                     ? size
                                                             : 1;
    GY_CHECK_DEEP(gy_comm_has_rank(coll->comm, rank));
    GY_CHECK_DEEP(counts * sizeof(int64_t) <= GY_TINY_BYTES / 2);
    return counts * sizeof(int64_t);
}

static int64_t longest_of(const int64_t *counts, int parts, int64_t longest)
{
    GY_ASSERT(counts != NULL && parts > 0);
    for (int part = 0; part < parts; part++) {
        longest = GY_MAX(longest, counts[part]);
    }
    return longest;
}

/* Copies the parts of a buffer one behind the other. */
static size_t pack(const gy_comm *comm, const gy_parts *parts, size_t element, const void *from,
                   uint8_t *to)
{
    size_t at = 0;
    GY_ASSERT(parts->counts != NULL);
    for (int part = 0; part < comm->size; part++) {
        size_t bytes = (size_t)parts->counts[part] * element;
        GY_CHECK_DEEP(parts->counts[part] >= 0);
        size_t start =
            parts->displacements != NULL ? (size_t)parts->displacements[part] * element : at;
        if (bytes > 0) {
            memcpy(to + at, (const uint8_t *)from + start, bytes);
        }
        at += bytes;
    }
    return at;
}

/* Writes the data of a tiny call whose counts all ranks know. */
static size_t enter_known(const gy_coll *coll, gy_coll_slot *slot)
{
    const gy_coll_call *call = &coll->call;
    size_t bytes = gy_call_in_bytes(coll->comm, call);
    GY_ASSERT(bytes <= GY_TINY_BYTES || call->operation == GY_OPERATION_REDUCE_SCATTER);
    if (call->operation == GY_OPERATION_REDUCE_SCATTER) {
        return pack(coll->comm, &call->in_parts, gy_call_element_bytes(call), call->in,
                    slot->data);
    }
    if (bytes > 0) {
        memcpy(slot->data, call->in, bytes);
    }
    return bytes;
}

/* Writes the parts that this rank gives behind the counts. */
static void lay_out_parts(const gy_coll *coll, size_t bytes, uint8_t *to)
{
    const gy_coll_call *call = &coll->call;
    GY_ASSERT(bytes > 0 && bytes <= GY_TINY_BYTES);
    if (call->operation == GY_OPERATION_GATHER) {
        memcpy(to, call->in, bytes);
    } else {
        (void)pack(coll->comm, &call->in_parts, gy_call_element_bytes(call), call->in, to);
    }
}

size_t gy_count_exchange_enter(gy_coll *coll, gy_coll_slot *slot)
{
    GY_ASSERT(coll->call.is_vector && coll->comm->shared != NULL);
    const gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    known_counts known;
    if (gy_parts_are_known(call)) {
        return enter_known(coll, slot);
    }
    find_counts(coll, &known);
    size_t head = head_of(coll, comm->rank);
    size_t bytes = gy_call_gives(comm, call) ? gy_call_in_bytes(comm, call) : 0;
    size_t list_bytes = (size_t)known.count * sizeof(int64_t);
    coll->longest = 0;
    for (int i = 0; i < known.list_count; i++) {
        memcpy(slot->data + (size_t)i * list_bytes, known.lists[i], list_bytes);
        coll->longest = longest_of(known.lists[i], known.count, coll->longest);
    }
    GY_ASSERT((size_t)known.list_count * list_bytes == head);
    GY_ASSERT(head <= GY_TINY_BYTES);
    coll->is_all_inline =
        head + bytes <= GY_TINY_BYTES && comm->site.forced->names[call->operation] == NULL;
    int64_t note = coll->longest * 2 + coll->is_all_inline;
    memcpy(slot->inline_payload + sizeof(gy_remote_address), &note, sizeof(note));
    if (!coll->is_all_inline || bytes == 0) {
        return head;
    }
    lay_out_parts(coll, bytes, slot->data + head);
    return head + bytes;
}

/* Returns the counts in a rank's slot. */
static const int64_t *counts_in(const gy_coll_slot *slot)
{
    GY_ASSERT(slot != NULL);
    return (const int64_t *)(const void *)slot->data;
}

/* Compares the counts of one part: what `from` gives and what `to` expects. */
static gy_status compare(const gy_coll *coll, int from, int to, const int64_t counts[2])
{
    const gy_comm *comm = coll->comm;
    char text[192];
    GY_ASSERT(gy_comm_has_rank(comm, from) && gy_comm_has_rank(comm, to) && from != to);
    return counts[0] == counts[1]
               ? GY_OK
               : gy_fail(GY_MISMATCH, "%s: rank %d gives %lld elements, rank %d expects %lld",
                         gy_coll_text(coll, text), gy_comm_peer(comm, from),
                         (long long)counts[0], gy_comm_peer(comm, to), (long long)counts[1]);
}

gy_status gy_count_exchange_compare(gy_coll *coll, int rank, const gy_coll_slot *slot)
{
    const gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    const int64_t *theirs = counts_in(slot), *in = call->in_parts.counts;
    const int64_t *out = call->out_parts.counts;
    int me = comm->rank;
    int64_t note = 0, own = (int64_t)call->count;
    GY_ASSERT(rank != me && gy_comm_has_rank(comm, rank));
    GY_ASSERT(gy_count_exchange_asks(comm, call));
    memcpy(&note, slot->inline_payload + sizeof(gy_remote_address), sizeof(note));
    coll->longest = GY_MAX(coll->longest, note / 2);
    coll->is_all_inline = coll->is_all_inline && note % 2 == 1;
    if (call->operation == GY_OPERATION_ALLTOALL) {
        GY_TRY(compare(coll, rank, me, (const int64_t[]){theirs[me], out[rank]}));
        return compare(coll, me, rank, (const int64_t[]){in[rank], theirs[comm->size + me]});
    }
    bool is_gather = call->operation == GY_OPERATION_GATHER;
    if (me == call->root) {
        return is_gather ? compare(coll, rank, me, (const int64_t[]){theirs[0], out[rank]})
                         : compare(coll, me, rank, (const int64_t[]){in[rank], theirs[0]});
    }
    if (rank != call->root) {
        return GY_OK;
    }
    return is_gather ? compare(coll, me, rank, (const int64_t[]){own, theirs[me]})
                     : compare(coll, rank, me, (const int64_t[]){theirs[me], own});
}

/* Returns the elements before part `part` of those that a rank gives. */
static int64_t counts_before(const gy_coll *coll, int rank, int part)
{
    GY_ASSERT(gy_comm_has_rank(coll->comm, rank) && part <= coll->comm->size);
    const int64_t *counts = counts_in(gy_coll_slot_of(coll->comm, rank, coll->number));
    int64_t before = 0;
    for (int i = 0; i < part; i++) {
        before += counts[i];
    }
    return before;
}

int64_t gy_count_exchange_start(const gy_coll *coll, int rank)
{
    return counts_before(coll, rank, coll->comm->rank);
}

/* Returns the offset of this rank's part in a rank's slot. */
static size_t part_in(const gy_coll *coll, int rank)
{
    const gy_coll_call *call = &coll->call;
    size_t element = gy_call_element_bytes(call);
    GY_ASSERT(gy_comm_has_rank(coll->comm, rank) && element > 0);
    if (gy_parts_are_known(call)) {
        return 0;
    }
    size_t before = call->operation == GY_OPERATION_GATHER
                        ? 0
                        : (size_t)gy_count_exchange_start(coll, rank);
    return head_of(coll, rank) + before * element;
}

void gy_count_exchange_finish(const gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    size_t element = gy_call_element_bytes(call), at = 0;
    uint8_t *out = call->out;
    /* A tiny call asks for no counts, so its is_all_inline is not set: it is read last. */
    GY_ASSERT(gy_parts_are_known(call) || coll->is_all_inline);
    GY_ASSERT(coll->checked == comm->size);
    if (call->operation == GY_OPERATION_SCATTER) {
        const gy_coll_slot *slot = gy_coll_slot_of(comm, call->root, coll->number);
        if (call->count > 0) {
            memcpy(out, slot->data + part_in(coll, call->root), call->count * element);
        }
        return;
    }
    const gy_parts *parts = &call->out_parts;
    for (int rank = 0; rank < comm->size; rank++) {
        const gy_coll_slot *slot = gy_coll_slot_of(comm, rank, coll->number);
        size_t bytes = (size_t)parts->counts[rank] * element;
        size_t start =
            parts->displacements != NULL ? (size_t)parts->displacements[rank] * element : at;
        if (bytes > 0) {
            memcpy(out + start, slot->data + part_in(coll, rank), bytes);
        }
        at += bytes;
    }
}
