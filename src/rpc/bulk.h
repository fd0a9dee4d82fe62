/**
 * Bulk: a region of a file, or of memory, goes from the node that has it to one that asks, on a
 * connection of its own, so that no beat waits behind it. Chunks carry a checksum that the
 * receiver verifies, and are compressed where the first one shows that it pays. The sender is
 * never ahead by more than the receiver's window. Nodes on sockets alone.
 */
#ifndef GY_RPC_BULK_H
#define GY_RPC_BULK_H

#include "rpc/rpc.h"

enum { GY_BULK_NAME_BYTES = 7168, GY_BULK_NOTE_BYTES = 64 };

typedef struct gy_bulk_extent {
    uint64_t offset, size_bytes;
} gy_bulk_extent;

/** What a name stands for. */
typedef struct gy_bulk_region {
    int fd;        /* readable by pread */
    bool is_taken; /* closed with the transfer */
    uint64_t offset, size_bytes;
    /* Or it is no file, but these `size_bytes`, freed with gy_free at the transfer's end. */
    uint8_t *data;
    /* Where the region is not one piece of the file: its pieces, in order, `size_bytes` in all;
     * freed with gy_free at the transfer's end. NULL: it is one, at `offset`. */
    gy_bulk_extent *extents;
    size_t extent_count;
    /* Goes to the receiver before the bytes. */
    uint8_t note[GY_BULK_NOTE_BYTES];
    uint32_t note_bytes;
} gy_bulk_region;

/** Of a node that has something to fetch; outlives it. */
typedef struct gy_bulk_server {
    uint32_t roles; /* bits of who may fetch */
    /** Find it, soon: it holds up the node. A failure is told to the receiver. Role and subject
     * ("": none) were proved; without keys GY_RPC_ROLES. */
    gy_status (*find)(void *arg, gy_rpc_role role, const char *subject, const void *name,
                      size_t name_bytes, gy_bulk_region *region);
    void *arg;
    int transfer_max; /* connections at once; 0: 64 */
} gy_bulk_server;

typedef struct gy_bulk_fetch {
    const char *address; /* "HOST:PORT" of the node that has it */
    const void *name;    /* (name_bytes) the service's own words; copied */
    size_t name_bytes;
    uint64_t offset, size_bytes; /* within the region; UINT64_MAX: to its end */
    gy_deadline deadline;
    /* Where it goes: to `at` of `fd`, the caller's, by pwrite, unless `take` is there. */
    int fd;
    uint64_t at;
    /* Optional, once, before all bytes: how many will come, and the server's note of them. */
    gy_status (*begun)(void *arg, uint64_t size_bytes, const void *note, size_t note_bytes);
    /* In order. GY_OK taken; GY_AGAIN not now: the same again after gy_rpc_bulk_go_on; < 0 ends
     * it.
     */
    gy_status (*take)(void *arg, uint64_t offset, const void *data, size_t size_bytes);
    /* Once, from a turn: GY_OK all is there; GY_PEER; GY_TIMEOUT; GY_FORMAT a checksum;
     * GY_CANCELLED; GY_IO; or the server's refusal. `size_bytes` came in order before it. */
    void (*done)(void *arg, gy_status status, uint64_t size_bytes);
    void *arg;
    size_t window_bytes;  /* 0: 4 MiB */
    bool is_raw;          /* never compressed */
    uint64_t *wire_bytes; /* optional: raised before `done` by what came, heads included */
} gy_bulk_fetch;

/** GY_OK *number names it; GY_ARG; GY_NOMEM; what dialling gives. */
GY_MUST_CHECK gy_status gy_rpc_bulk_begin(gy_rpc *rpc, const gy_bulk_fetch *fetch,
                                          uint64_t *number);
/** `take` may be called again, from the next turn. */
void gy_rpc_bulk_go_on(gy_rpc *rpc, uint64_t number);
/** `done` comes with GY_CANCELLED, from the next turn. */
void gy_rpc_bulk_cancel(gy_rpc *rpc, uint64_t number);

#endif
