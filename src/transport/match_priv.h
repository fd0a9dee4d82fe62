/**
 * Inside room transport: matches messages to receives. Each peer has one inbox. Messages
 * arrive in order, and a receive takes the first one with its tag. Unexpected messages, which
 * arrive before their receive, are stored.
 */
#ifndef GY_TRANSPORT_MATCH_PRIV_H
#define GY_TRANSPORT_MATCH_PRIV_H

#include "transport/transport.h"

/** A message that arrived before its receive. */
typedef struct gy_kept {
    struct gy_kept *next;
    gy_transfer *wanted; /* a receive that was posted while the message was still arriving */
    uint64_t tag;
    size_t size_bytes, capacity;
    bool is_whole;
    alignas(16) uint8_t data[];
} gy_kept;

/** Zero-initialise; `survival` decides which stale messages are discarded (NULL: none). */
typedef struct gy_inbox {
    const gy_survival *survival;
    gy_transfer *posted; /* receives without a message, in the order of posting */
    gy_kept *kept;       /* messages without a receive, in the order of sending */
    size_t kept_bytes;
    gy_kept *spare; /* buffers of delivered messages: their pages are mapped already */
    size_t spare_bytes;
    /* The message that is arriving now. */
    bool is_arriving;
    gy_transfer *receive; /* its receive, or */
    /* its buffer; both NULL: the message is discarded (too large, or cancelled) */
    gy_kept *store;
    size_t arriving_bytes, arrived_bytes;
} gy_inbox;

/** Bytes stored for one peer; beyond it the stream is not read until a receive makes room. */
enum { GY_KEPT_BYTES_MAX = 64 * 1024 * 1024 };

static inline bool gy_inbox_is_stale(const gy_inbox *inbox, uint64_t tag)
{
    return inbox->survival != NULL && inbox->survival->is_stale != NULL &&
           inbox->survival->is_stale(inbox->survival->rule, tag);
}
/** Post a receive; it may complete at once. */
void gy_inbox_post(gy_inbox *inbox, gy_transfer *transfer);
/** A message begins. False: there is no room for an unexpected message; try again later. */
bool gy_inbox_begin(gy_inbox *inbox, uint64_t tag, size_t size_bytes);
/** Where its next bytes go (NULL: discard them), and how many are missing. */
size_t gy_inbox_space(const gy_inbox *inbox, uint8_t **to);
/** Report size_bytes as written there; the last ones complete the message. */
void gy_inbox_filled(gy_inbox *inbox, size_t size_bytes);
/** Deliver a whole message; false as in gy_inbox_begin. */
bool gy_inbox_deliver(gy_inbox *inbox, uint64_t tag, const void *data, size_t size_bytes);
/** Cancel a receive. */
void gy_inbox_cancel(gy_inbox *inbox, gy_transfer *transfer);
/** True while a receive waits or a message is incomplete: the stream must be read. */
static inline bool gy_inbox_is_busy(const gy_inbox *inbox)
{
    return inbox->posted != NULL || inbox->is_arriving;
}
void gy_inbox_fini(gy_inbox *inbox);

/** Append a transfer to a list; remove one (true when it was there). */
void gy_transport_transfers_push(gy_transfer **list, gy_transfer *transfer);
bool gy_transport_transfers_remove(gy_transfer **list, gy_transfer *transfer);
/** Complete a send. */
void gy_transfer_end(gy_transfer *transfer, gy_status status);
/** Complete all transfers of the list with `status`. */
void gy_transport_transfers_end(gy_transfer **list, gy_status status);
/** Copy the rest of a send into a transfer that frees itself; NULL: out of memory. */
gy_transfer *gy_transfer_orphan(const gy_transfer *transfer);
/**
 * Cancel a send of the list or a receive of the inbox. A partly sent message (`is_half`: the
 * first one of the list is) is completed from a copy. False: there is no memory for the copy,
 * so all sends of the list end, and no message can follow.
 */
bool gy_transport_transfers_cancel(gy_transfer **list, gy_inbox *inbox, gy_transfer *transfer,
                                   bool is_half);
/** Deliver a rank's messages to itself to its inbox; true when there was one. */
bool gy_transport_transfers_deliver(gy_transfer **list, gy_inbox *inbox);

#endif
