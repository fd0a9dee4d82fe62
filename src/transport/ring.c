#include "transport/ring_priv.h"

#include <string.h>

gy_transport_ring_end gy_transport_ring_writer(gy_transport_ring *ring, size_t ring_bytes)
{
    GY_ASSERT(ring_bytes > 0);
    GY_ASSERT((ring_bytes & (ring_bytes - 1)) == 0);
    return (gy_transport_ring_end){
        .ring = ring,
        .ring_bytes = ring_bytes,
        .own = atomic_load_explicit(&ring->head, memory_order_acquire),
        .other = atomic_load_explicit(&ring->tail, memory_order_acquire)};
}

gy_transport_ring_end gy_transport_ring_reader(gy_transport_ring *ring, size_t ring_bytes)
{
    gy_transport_ring_end end = gy_transport_ring_writer(ring, ring_bytes);
    uint64_t head = end.own;
    end.own = end.other;
    end.other = head;
    GY_ASSERT(end.own <= end.other);
    return end;
}

size_t gy_transport_ring_room(gy_transport_ring_end *writer, size_t wanted)
{
    size_t room = writer->ring_bytes - (size_t)(writer->own - writer->other);
    if (room < wanted) {
        /* seq_cst: pairs with the store in gy_transport_ring_get, after which these bytes may
         * be overwritten */
        writer->other = atomic_load_explicit(&writer->ring->tail, memory_order_seq_cst);
        room = writer->ring_bytes - (size_t)(writer->own - writer->other);
    }
    GY_ASSERT(room <= writer->ring_bytes);
    return room;
}

void gy_transport_ring_put(gy_transport_ring_end *writer, const void *data, size_t size_bytes)
{
    GY_ASSERT(size_bytes <= writer->ring_bytes - (size_t)(writer->own - writer->other));
    if (size_bytes == 0) {
        return;
    }
    size_t at = (size_t)writer->own & (writer->ring_bytes - 1);
    size_t first = GY_MIN(size_bytes, writer->ring_bytes - at);
    memcpy(writer->ring->data + at, data, first);
    memcpy(writer->ring->data, (const uint8_t *)data + first, size_bytes - first);
    writer->own += size_bytes;
}

void gy_transport_ring_publish(gy_transport_ring_end *writer)
{
    GY_ASSERT(writer->own - writer->other <= writer->ring_bytes);
    /* Pairs with the load in gy_transport_ring_ready and publishes the bytes before the
     * counter. seq_cst like the announcement and the check of sleepers: a reader that was not
     * woken sees the counter. */
    atomic_store_explicit(&writer->ring->head, writer->own, memory_order_seq_cst);
}

size_t gy_transport_ring_ready(gy_transport_ring_end *reader, size_t wanted)
{
    size_t ready = (size_t)(reader->other - reader->own);
    if (ready < wanted) {
        /* seq_cst: pairs with the store in gy_transport_ring_publish */
        reader->other = atomic_load_explicit(&reader->ring->head, memory_order_seq_cst);
        ready = (size_t)(reader->other - reader->own);
    }
    GY_ASSERT(ready <= reader->ring_bytes);
    return ready;
}

void gy_transport_ring_peek(const gy_transport_ring_end *reader, void *to, size_t size_bytes)
{
    GY_ASSERT(size_bytes <= (size_t)(reader->other - reader->own));
    size_t at = (size_t)reader->own & (reader->ring_bytes - 1);
    size_t first = GY_MIN(size_bytes, reader->ring_bytes - at);
    memcpy(to, reader->ring->data + at, first);
    memcpy((uint8_t *)to + first, reader->ring->data, size_bytes - first);
}

void gy_transport_ring_get(gy_transport_ring_end *reader, void *to, size_t size_bytes)
{
    GY_ASSERT(size_bytes <= (size_t)(reader->other - reader->own));
    if (to != NULL && size_bytes > 0) {
        gy_transport_ring_peek(reader, to, size_bytes);
    }
    reader->own += size_bytes;
    /* seq_cst: pairs with the load in gy_transport_ring_room; as in
     * gy_transport_ring_publish */
    atomic_store_explicit(&reader->ring->tail, reader->own, memory_order_seq_cst);
}
