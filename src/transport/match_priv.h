/**
 * Inside room transport: which message goes to which receive. One inbox for each peer; messages
 * arrive in order, receives take the first with their tag. What comes before anybody asks is
 * kept.
 */
#ifndef GY_TRANSPORT_MATCH_PRIV_H
#define GY_TRANSPORT_MATCH_PRIV_H

#include "transport/transport.h"

/** A message that came before its receive. */
typedef struct gy_kept {
    struct gy_kept *next;
    gy_transfer *wanted; /* a receive that came while it was still arriving */
    uint64_t tag;
    size_t size_bytes, capacity;
    bool is_whole;
    alignas(16) uint8_t data[];
} gy_kept;

/** Zero-initialise; `survival` says what is thrown away (NULL: nothing). */
typedef struct gy_inbox {
    const gy_survival *survival;
    gy_transfer *posted; /* receives without a message, in the order posted */
    gy_kept *kept;       /* messages without a receive, in the order sent */
    size_t kept_bytes;
    gy_kept *spare; /* of messages that were handed over: their pages are there */
    size_t spare_bytes;
    /* The message that is arriving now. */
    bool is_arriving;
    gy_transfer *receive; /* its receive, or */
    gy_kept *store;       /* where it is kept, or neither: thrown away (too large, cancelled) */
    size_t arriving_bytes, arrived_bytes;
} gy_inbox;

/** Bytes kept for one peer before its stream is left alone until a receive makes room. */
enum { GY_KEPT_BYTES_MAX = 64 * 1024 * 1024 };

static inline bool gy_inbox_is_stale(const gy_inbox *inbox, uint64_t tag)
{
    return inbox->survival != NULL && inbox->survival->is_stale != NULL &&
           inbox->survival->is_stale(inbox->survival->rule, tag);
}
/** Give a receive to the inbox; it may be done at once. */
void gy_inbox_post(gy_inbox *inbox, gy_transfer *transfer);
/** A message begins. False: no room for one that nobody has asked for; ask again later. */
bool gy_inbox_begin(gy_inbox *inbox, uint64_t tag, size_t size_bytes);
/** Where its next bytes go (NULL: nowhere) and how many are missing. */
size_t gy_inbox_space(const gy_inbox *inbox, uint8_t **to);
/** size_bytes of them are there; the last ones complete the message. */
void gy_inbox_filled(gy_inbox *inbox, size_t size_bytes);
/** A whole message at once; false as in gy_inbox_begin. */
bool gy_inbox_deliver(gy_inbox *inbox, uint64_t tag, const void *data, size_t size_bytes);
/** Forget a receive. */
void gy_inbox_cancel(gy_inbox *inbox, gy_transfer *transfer);
/** True while something is wanted or half here: the stream must be looked at. */
static inline bool gy_inbox_is_busy(const gy_inbox *inbox)
{
    return inbox->posted != NULL || inbox->is_arriving;
}
void gy_inbox_fini(gy_inbox *inbox);

/** Put a transfer at the end of a list, take one out (true when it was there). */
void gy_transport_transfers_push(gy_transfer **list, gy_transfer *transfer);
bool gy_transport_transfers_remove(gy_transfer **list, gy_transfer *transfer);
/** A send is over. */
void gy_transfer_end(gy_transfer *transfer, gy_status status);
/** All of the list are over with `status`. */
void gy_transport_transfers_end(gy_transfer **list, gy_status status);
/** The rest of a send in a copy that ends by itself; NULL: no memory. */
gy_transfer *gy_transfer_orphan(const gy_transfer *transfer);
/**
 * Forget a send of the list or a receive of the inbox. A send of which a part is on its way
 * (`is_half`: the first of the list is) is finished from a copy. False: there is no memory for
 * that, all of the list have ended and nothing can follow.
 */
bool gy_transport_transfers_cancel(gy_transfer **list, gy_inbox *inbox, gy_transfer *transfer,
                                   bool is_half);
/** Hand a rank's messages to itself to its inbox; true when one was. */
bool gy_transport_transfers_deliver(gy_transfer **list, gy_inbox *inbox);

#endif
