/**
 * Inside room transport: a byte stream from one writer to one reader through shared memory.
 *
 * `head` counts bytes ever written, `tail` bytes ever read; head - tail lie in the ring. Each
 * side keeps a private copy of the other's counter and reads the shared one only when it must.
 *
 * @source Lamport, "Specifying concurrent program modules", TOPLAS 1983 (one reader, one
 * writer)
 */
#ifndef GY_TRANSPORT_RING_PRIV_H
#define GY_TRANSPORT_RING_PRIV_H

#include "base/base.h"

#include <stdalign.h>
#include <stdatomic.h>

typedef struct gy_transport_ring {
    alignas(GY_CACHE_LINE) _Atomic uint64_t head; /* the writer's */
    alignas(GY_CACHE_LINE) _Atomic uint64_t tail; /* the reader's */
    alignas(GY_CACHE_LINE) uint8_t data[];
} gy_transport_ring;

/** One side's view. */
typedef struct gy_transport_ring_end {
    gy_transport_ring *ring;
    size_t ring_bytes; /* a power of two */
    uint64_t own;      /* this side's counter */
    uint64_t other;    /* the other side's, as last seen */
} gy_transport_ring_end;

/** Continue where the counters stand. */
gy_transport_ring_end gy_transport_ring_writer(gy_transport_ring *ring, size_t ring_bytes);
gy_transport_ring_end gy_transport_ring_reader(gy_transport_ring *ring, size_t ring_bytes);

/** Bytes that can be written, looked up anew if fewer than `wanted` were known. */
size_t gy_transport_ring_room(gy_transport_ring_end *writer, size_t wanted);
/** Write size_bytes <= room, not visible before gy_transport_ring_publish. */
void gy_transport_ring_put(gy_transport_ring_end *writer, const void *data, size_t size_bytes);
void gy_transport_ring_publish(gy_transport_ring_end *writer);

size_t gy_transport_ring_ready(gy_transport_ring_end *reader, size_t wanted);
/** Copy size_bytes <= ready and leave them in the ring. */
void gy_transport_ring_peek(const gy_transport_ring_end *reader, void *to, size_t size_bytes);
/** Read size_bytes <= ready into `to` (NULL: skip them); the room is given back at once. */
void gy_transport_ring_get(gy_transport_ring_end *reader, void *to, size_t size_bytes);

#endif
