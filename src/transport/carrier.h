/**
 * Messages over another library's (MPI's): it carries packets, this transport makes messages of
 * any size and tag out of them, matched as over TCP. The data of a message goes through packet
 * buffers of the transport's own, so that a transfer can be given up at any time.
 */
#ifndef GY_TRANSPORT_CARRIER_H
#define GY_TRANSPORT_CARRIER_H

#include <gyre/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A packet under way, in the library's own form. */
typedef struct gy_carried {
    uint64_t opaque[2];
} gy_carried;

enum { GY_CARRIER_ANY = -1 };

/**
 * What such a library offers. Packets of one lane between two ranks keep their order. The
 * calls come from one thread at a time and never block; false: the library failed.
 */
typedef struct gy_carrier {
    const char *name; /* "mpi", "ucx" */
    void *context;
    /* The data stay put until the packet is done; done: it may change. */
    bool (*send)(void *context, int to, int lane, const void *data, size_t size_bytes,
                 gy_carried *packet);
    /* Only for a packet that `look` told. */
    bool (*recv)(void *context, int from, int lane, void *data, size_t size_bytes,
                 gy_carried *packet);
    /* Has one come? `from` GY_CARRIER_ANY: from anybody, then it says from whom. */
    bool (*look)(void *context, int *from, int lane, size_t *size_bytes);
    bool (*is_done)(void *context, gy_carried *packet);
    /* Some packets will never be done: the library cannot end in order, and its memory stays.
     * NULL: there is `close`. */
    void (*lose)(void *context);
    /* Optional: does the library say that a rank is gone? Packets to it are done at once. */
    bool (*is_lost)(void *context, int rank);
    /* Optional: give up what is under way, free the context. NULL: its end waits for all ranks,
     * and is not this transport's. */
    void (*close)(void *context);
} gy_carrier;

#endif
