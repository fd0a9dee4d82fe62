#include "transport/match_priv.h"

#include <string.h>

/* Buffers of unexpected messages from this size on are reused, up to so many bytes a peer:
 * aligned allocations do not reuse freed blocks of the heap, and each would take new pages. */
enum { SPARE_BYTES = 4096, SPARE_BYTES_MAX = 256 * 1024 };

void gy_transport_transfers_push(gy_transfer **list, gy_transfer *transfer)
{
    GY_ASSERT(transfer->status == GY_AGAIN);
    while (*list != NULL) {
        list = &(*list)->next;
    }
    transfer->next = NULL;
    *list = transfer;
}

bool gy_transport_transfers_remove(gy_transfer **list, gy_transfer *transfer)
{
    GY_ASSERT(transfer != NULL);
    for (; *list != NULL; list = &(*list)->next) {
        if (*list == transfer) {
            *list = transfer->next;
            transfer->next = NULL;
            return true;
        }
    }
    return false;
}

void gy_transfer_end(gy_transfer *transfer, gy_status status)
{
    GY_ASSERT(status != GY_AGAIN);
    if (transfer->is_orphan) {
        gy_free(transfer);
    } else {
        transfer->status = status;
    }
}

void gy_transport_transfers_end(gy_transfer **list, gy_status status)
{
    GY_ASSERT(status < 0);
    while (*list != NULL) {
        gy_transfer *next = (*list)->next;
        gy_transfer_end(*list, status);
        *list = next;
    }
}

gy_transfer *gy_transfer_orphan(const gy_transfer *transfer)
{
    GY_ASSERT(transfer->done_bytes <= transfer->size_bytes);
    gy_transfer *orphan = gy_alloc("transport.orphan", sizeof(*orphan) + transfer->size_bytes);
    if (orphan == NULL) {
        return NULL;
    }
    *orphan = *transfer;
    orphan->is_orphan = true;
    orphan->data = (uint8_t *)(orphan + 1);
    if (transfer->size_bytes > transfer->done_bytes) {
        memcpy(orphan->data + transfer->done_bytes, transfer->data + transfer->done_bytes,
               transfer->size_bytes - transfer->done_bytes);
    }
    return orphan;
}

/* The message has `size_bytes`: does it fit? The receive learns the size in either case. */
static bool fits(gy_transfer *receive, size_t size_bytes)
{
    GY_ASSERT(receive->done_bytes == 0);
    bool is_fit = size_bytes <= receive->size_bytes;
    receive->size_bytes = size_bytes;
    return is_fit;
}

/* Has another transfer of the same receive matched a message already? */
static bool is_void(const gy_transfer *receive)
{
    return receive->is_taken != NULL && *receive->is_taken;
}

static void take(gy_transfer *receive)
{
    GY_ASSERT(!is_void(receive));
    if (receive->is_taken != NULL) {
        *receive->is_taken = true;
    }
}

static void drop_kept(gy_inbox *inbox, gy_kept *kept)
{
    GY_ASSERT(kept->wanted == NULL || kept->is_whole);
    gy_kept **place = &inbox->kept;
    while (*place != kept) {
        GY_ASSERT(*place != NULL);
        place = &(*place)->next;
    }
    *place = kept->next;
    GY_ASSERT(inbox->kept_bytes >= kept->size_bytes);
    inbox->kept_bytes -= kept->size_bytes;
    if (kept->capacity >= SPARE_BYTES &&
        inbox->spare_bytes + kept->capacity <= SPARE_BYTES_MAX) {
        kept->next = inbox->spare;
        inbox->spare = kept;
        inbox->spare_bytes += kept->capacity;
    } else {
        gy_free(kept);
    }
}

/* Take the smallest spare buffer that is large enough, else a new one; NULL: out of memory. */
static gy_kept *take_kept(gy_inbox *inbox, size_t size_bytes)
{
    GY_ASSERT(inbox->spare != NULL || inbox->spare_bytes == 0);
    gy_kept **best = NULL;
    for (gy_kept **at = &inbox->spare; *at != NULL; at = &(*at)->next) {
        bool is_better = best == NULL || (*at)->capacity < (*best)->capacity;
        best = (*at)->capacity >= size_bytes && is_better ? at : best;
    }
    if (size_bytes >= SPARE_BYTES && best != NULL) {
        gy_kept *taken = *best;
        *best = taken->next;
        GY_ASSERT(inbox->spare_bytes >= taken->capacity);
        inbox->spare_bytes -= taken->capacity;
        return taken;
    }
    gy_kept *made = gy_alloc("transport.kept", sizeof(gy_kept) + size_bytes);
    if (made != NULL) {
        made->capacity = size_bytes;
    }
    return made;
}

static void hand_over(gy_inbox *inbox, gy_kept *kept, gy_transfer *receive)
{
    GY_ASSERT(receive->status == GY_AGAIN);
    GY_ASSERT(kept->is_whole);
    if (fits(receive, kept->size_bytes)) {
        if (kept->size_bytes > 0) {
            memcpy(receive->data, kept->data, kept->size_bytes);
        }
        receive->status = GY_OK;
    } else {
        receive->status = GY_MISMATCH;
    }
    drop_kept(inbox, kept);
}

static void drop_stale(gy_inbox *inbox)
{
    gy_kept *next = NULL;
    for (gy_kept *kept = inbox->kept; kept != NULL; kept = next) {
        next = kept->next;
        if (kept->is_whole && gy_inbox_is_stale(inbox, kept->tag)) {
            drop_kept(inbox, kept);
        }
    }
}

void gy_inbox_post(gy_inbox *inbox, gy_transfer *transfer)
{
    GY_ASSERT(transfer->status == GY_AGAIN);
    if (inbox->survival != NULL && inbox->survival->is_stale != NULL) {
        drop_stale(inbox);
    }
    if (is_void(transfer)) {
        return;
    }
    for (gy_kept *kept = inbox->kept; kept != NULL; kept = kept->next) {
        if (kept->tag != transfer->tag || kept->wanted != NULL) {
            continue;
        }
        take(transfer);
        if (kept->is_whole) {
            hand_over(inbox, kept, transfer);
        } else {
            kept->wanted = transfer;
            transfer->is_matched = true;
        }
        return;
    }
    gy_transport_transfers_push(&inbox->posted, transfer);
}

static bool keep(gy_inbox *inbox, uint64_t tag, size_t size_bytes)
{
    GY_ASSERT(inbox->store == NULL);
    GY_ASSERT(inbox->receive == NULL);
    /* The first message is always accepted, otherwise one larger than the limit could never
     * arrive. */
    if (inbox->kept != NULL && inbox->kept_bytes + size_bytes > GY_KEPT_BYTES_MAX) {
        return false;
    }
    gy_kept *kept = take_kept(inbox, size_bytes);
    if (kept == NULL) {
        return false;
    }
    *kept = (gy_kept){.tag = tag, .size_bytes = size_bytes, .capacity = kept->capacity};
    gy_kept **end = &inbox->kept;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = kept;
    GY_ASSERT(kept->capacity >= size_bytes);
    inbox->kept_bytes += size_bytes;
    inbox->store = kept;
    return true;
}

bool gy_inbox_begin(gy_inbox *inbox, uint64_t tag, size_t size_bytes)
{
    GY_ASSERT(!inbox->is_arriving);
    GY_ASSERT(inbox->receive == NULL);
    GY_ASSERT(inbox->store == NULL);
    gy_transfer *receive = inbox->posted;
    while (receive != NULL && (receive->tag != tag || is_void(receive))) {
        receive = receive->next;
    }
    if (receive != NULL) {
        GY_ASSERT(gy_transport_transfers_remove(&inbox->posted, receive));
        take(receive);
        if (fits(receive, size_bytes)) {
            receive->is_matched = true;
            inbox->receive = receive;
        } else {
            receive->status = GY_MISMATCH;
        }
    } else if (!gy_inbox_is_stale(inbox, tag) && !keep(inbox, tag, size_bytes)) {
        return false;
    }
    inbox->is_arriving = true;
    inbox->arriving_bytes = size_bytes;
    inbox->arrived_bytes = 0;
    gy_inbox_filled(inbox, 0);
    return true;
}

size_t gy_inbox_space(const gy_inbox *inbox, uint8_t **to)
{
    GY_ASSERT(inbox->arrived_bytes <= inbox->arriving_bytes);
    uint8_t *start = inbox->receive != NULL ? inbox->receive->data
                     : inbox->store != NULL ? inbox->store->data
                                            : NULL;
    *to = start != NULL ? start + inbox->arrived_bytes : NULL;
    return inbox->arriving_bytes - inbox->arrived_bytes;
}

void gy_inbox_filled(gy_inbox *inbox, size_t size_bytes)
{
    GY_ASSERT(inbox->is_arriving);
    GY_ASSERT(size_bytes <= inbox->arriving_bytes - inbox->arrived_bytes);
    inbox->arrived_bytes += size_bytes;
    if (inbox->arrived_bytes < inbox->arriving_bytes) {
        return;
    }
    gy_kept *store = inbox->store;
    if (inbox->receive != NULL) {
        inbox->receive->status = GY_OK;
    }
    inbox->is_arriving = false;
    inbox->receive = NULL;
    inbox->store = NULL;
    if (store != NULL) {
        store->is_whole = true;
        if (store->wanted != NULL) {
            hand_over(inbox, store, store->wanted);
        }
    }
}

bool gy_inbox_deliver(gy_inbox *inbox, uint64_t tag, const void *data, size_t size_bytes)
{
    GY_ASSERT(data != NULL || size_bytes == 0);
    if (!gy_inbox_begin(inbox, tag, size_bytes)) {
        return false;
    }
    if (size_bytes > 0) {
        uint8_t *to = NULL;
        size_t missing = gy_inbox_space(inbox, &to);
        GY_ASSERT(missing == size_bytes);
        if (to != NULL) {
            memcpy(to, data, size_bytes);
        }
        gy_inbox_filled(inbox, size_bytes);
    }
    return true;
}

void gy_inbox_cancel(gy_inbox *inbox, gy_transfer *transfer)
{
    GY_ASSERT(transfer != NULL);
    if (gy_transport_transfers_remove(&inbox->posted, transfer)) {
        return;
    }
    if (inbox->receive == transfer) {
        inbox->receive = NULL;
        return;
    }
    for (gy_kept *kept = inbox->kept; kept != NULL; kept = kept->next) {
        if (kept->wanted == transfer) {
            kept->wanted = NULL;
        }
    }
}

bool gy_transport_transfers_cancel(gy_transfer **list, gy_inbox *inbox, gy_transfer *transfer,
                                   bool is_half)
{
    GY_ASSERT(transfer->status == GY_AGAIN);
    is_half = is_half && *list == transfer;
    if (!gy_transport_transfers_remove(list, transfer)) {
        gy_inbox_cancel(inbox, transfer);
        return true;
    }
    gy_transfer *orphan = is_half ? gy_transfer_orphan(transfer) : NULL;
    if (orphan != NULL) {
        orphan->next = *list;
        *list = orphan;
    } else if (is_half) {
        gy_transport_transfers_end(list, GY_STATE);
        return false;
    }
    return true;
}

bool gy_transport_transfers_deliver(gy_transfer **list, gy_inbox *inbox)
{
    GY_ASSERT(list != NULL);
    bool has_moved = false;
    while (*list != NULL) {
        gy_transfer *send = *list;
        if (!gy_inbox_deliver(inbox, send->tag, send->data, send->size_bytes)) {
            break;
        }
        *list = send->next;
        gy_transfer_end(send, GY_OK);
        has_moved = true;
    }
    return has_moved;
}

void gy_inbox_fini(gy_inbox *inbox)
{
    while (inbox->kept != NULL) {
        drop_kept(inbox, inbox->kept);
    }
    GY_ASSERT(inbox->kept_bytes == 0);
    while (inbox->spare != NULL) {
        gy_kept *spare = inbox->spare;
        inbox->spare = spare->next;
        gy_free(spare);
    }
    inbox->spare_bytes = 0;
}
