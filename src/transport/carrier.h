/**
 * Messages over another library (such as MPI). The library carries packets, and this transport
 * makes messages of any size and tag from them, matched as over TCP. Message data go through
 * the transport's own packet buffers, so that a transfer can be cancelled at any time.
 */
#ifndef GY_TRANSPORT_CARRIER_H
#define GY_TRANSPORT_CARRIER_H

#include <gyre/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A packet under way, in the library's own representation. */
typedef struct gy_carried {
    uint64_t opaque[2];
} gy_carried;

enum { GY_CARRIER_ANY = -1 };

/**
 * The functions of such a library. Packets of one lane between two ranks keep their order. One
 * thread at a time calls them, and they never block; false: the library failed.
 */
typedef struct gy_carrier {
    const char *name; /* "mpi", "ucx" */
    void *context;
    /* Start a send. The data must not change until the packet is done. */
    bool (*send)(void *context, int to, int lane, const void *data, size_t size_bytes,
                 gy_carried *packet);
    /* Start a receive, only for a packet that `look` found. */
    bool (*recv)(void *context, int from, int lane, void *data, size_t size_bytes,
                 gy_carried *packet);
    /* Find an arrived packet. `from` GY_CARRIER_ANY: from any rank, and `from` becomes that
     * rank. */
    bool (*look)(void *context, int *from, int lane, size_t *size_bytes);
    bool (*is_done)(void *context, gy_carried *packet);
    /* Some packets will never complete, so the library cannot end in order and its memory is
     * leaked. NULL: `close` handles it. */
    void (*lose)(void *context);
    /* Optional: has the library lost contact with a rank? Packets to it complete at once. */
    bool (*is_lost)(void *context, int rank);
    /* Optional: cancel everything under way and free the context. NULL: the library's end
     * waits for all ranks, and somebody else calls it. */
    void (*close)(void *context);
} gy_carrier;

#endif
