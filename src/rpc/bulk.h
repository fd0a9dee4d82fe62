/**
 * Bulk transfers: a region of a file or of memory goes from the node that has it to the node
 * that requests it, on a connection of its own, so that it delays no heartbeat. Each chunk has
 * a checksum that the receiver verifies, and chunks are compressed if the first one shows that
 * it pays. The sender is never further ahead than the receiver's window. Only for nodes on
 * sockets.
 */
#ifndef GY_RPC_BULK_H
#define GY_RPC_BULK_H

#include "rpc/rpc.h"

enum { GY_BULK_NAME_BYTES = 7168, GY_BULK_NOTE_BYTES = 64 };

typedef struct gy_bulk_extent {
    uint64_t offset, size_bytes;
} gy_bulk_extent;

/** The region that a name denotes. */
typedef struct gy_bulk_region {
    int fd;        /* readable by pread */
    bool is_taken; /* the transfer closes fd at its end */
    uint64_t offset, size_bytes;
    /* Alternatively no file, but `size_bytes` of memory, freed with gy_free at the transfer's
     * end. */
    uint8_t *data;
    /* For a region that is not contiguous in the file: its extents, in order, `size_bytes`
     * together; freed with gy_free at the transfer's end. NULL: contiguous at `offset`. */
    gy_bulk_extent *extents;
    size_t extent_count;
    /* Sent to the receiver before the bytes. */
    uint8_t note[GY_BULK_NOTE_BYTES];
    uint32_t note_bytes;
} gy_bulk_region;

/** The callbacks of a node that serves regions; must outlive the node. */
typedef struct gy_bulk_server {
    uint32_t roles; /* bits GY_RPC_MAY(...) of the roles that may fetch */
    /** Find the region of a name, quickly, because it blocks the node. A failure is sent to the
     * receiver. Role and subject ("": none) are authenticated; without keys GY_RPC_ROLES. */
    gy_status (*find)(void *arg, gy_rpc_role role, const char *subject, const void *name,
                      size_t name_bytes, gy_bulk_region *region);
    void *arg;
    int transfer_max; /* most connections at once; 0: 64 */
} gy_bulk_server;

typedef struct gy_bulk_fetch {
    const char *address; /* "HOST:PORT" of the serving node */
    const void *name;    /* (name_bytes) defined by the service; copied */
    size_t name_bytes;
    uint64_t offset, size_bytes; /* range within the region; UINT64_MAX: to its end */
    gy_deadline deadline;
    /* Destination: written by pwrite at `at` of the caller's `fd`, unless `take` is set. */
    int fd;
    uint64_t at;
    /* Optional, called once before all bytes: how many will come, and the server's note about
     * them. */
    gy_status (*begun)(void *arg, uint64_t size_bytes, const void *note, size_t note_bytes);
    /* Takes bytes in order. GY_OK taken; GY_AGAIN not now: called again with the same bytes
     * after gy_rpc_bulk_go_on; < 0 ends the transfer. */
    gy_status (*take)(void *arg, uint64_t offset, const void *data, size_t size_bytes);
    /* Called once, from a turn: GY_OK complete; GY_PEER; GY_TIMEOUT; GY_FORMAT a wrong
     * checksum; GY_CANCELLED; GY_IO; or the server's refusal. `size_bytes` arrived in order
     * before. */
    void (*done)(void *arg, gy_status status, uint64_t size_bytes);
    void *arg;
    size_t window_bytes; /* 0: 4 MiB */
    bool is_raw;         /* never compressed */
    /* optional: incremented before `done` by the received bytes, headers included */
    uint64_t *wire_bytes;
} gy_bulk_fetch;

/** Begin a transfer. GY_OK *number identifies it; GY_ARG; GY_NOMEM; failures of dialling. */
GY_MUST_CHECK gy_status gy_rpc_bulk_begin(gy_rpc *rpc, const gy_bulk_fetch *fetch,
                                          uint64_t *number);
/** Let `take` be called again, from the next turn on. */
void gy_rpc_bulk_go_on(gy_rpc *rpc, uint64_t number);
/** Cancel: `done` is called with GY_CANCELLED, from the next turn. */
void gy_rpc_bulk_cancel(gy_rpc *rpc, uint64_t number);

#endif
