/**
 * Inside room transport: a byte stream from one writer to one reader through shared memory.
 *
 * `head` counts all bytes written, `tail` all bytes read; head - tail bytes are in the ring.
 * Each side has a private copy of the other's counter, and reads the shared one only when it
 * must.
 *
 * @source Lamport, "Specifying concurrent program modules", TOPLAS 1983 (one reader, one
 *     writer)
 */
#ifndef GY_TRANSPORT_RING_PRIV_H
#define GY_TRANSPORT_RING_PRIV_H

#include "base/base.h"

#include <stdalign.h>
#include <stdatomic.h>

typedef struct gy_transport_ring {
    alignas(GY_CACHE_LINE) _Atomic uint64_t head; /* the writer writes it */
    alignas(GY_CACHE_LINE) _Atomic uint64_t tail; /* the reader writes it */
    alignas(GY_CACHE_LINE) uint8_t data[];
} gy_transport_ring;

/** One side's private state. */
typedef struct gy_transport_ring_end {
    gy_transport_ring *ring;
    size_t ring_bytes; /* a power of two */
    uint64_t own;      /* this side's counter */
    uint64_t other;    /* the other side's counter when last read */
} gy_transport_ring_end;

/** Resume at the current counters. */
gy_transport_ring_end gy_transport_ring_writer(gy_transport_ring *ring, size_t ring_bytes);
gy_transport_ring_end gy_transport_ring_reader(gy_transport_ring *ring, size_t ring_bytes);

/** The number of bytes that can be written; reads the other counter if fewer than `wanted` are
 * known. */
size_t gy_transport_ring_room(gy_transport_ring_end *writer, size_t wanted);
/** Write size_bytes <= room; invisible before gy_transport_ring_publish. */
void gy_transport_ring_put(gy_transport_ring_end *writer, const void *data, size_t size_bytes);
void gy_transport_ring_publish(gy_transport_ring_end *writer);

size_t gy_transport_ring_ready(gy_transport_ring_end *reader, size_t wanted);
/** Copy size_bytes <= ready without consuming them. */
void gy_transport_ring_peek(const gy_transport_ring_end *reader, void *to, size_t size_bytes);
/** Read size_bytes <= ready into `to` (NULL: skip them) and free their room at once. */
void gy_transport_ring_get(gy_transport_ring_end *reader, void *to, size_t size_bytes);

#endif
