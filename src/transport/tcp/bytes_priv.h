/** Inside room transport: little-endian integers on the wire, on every machine. */
#ifndef GY_TRANSPORT_TCP_BYTES_PRIV_H
#define GY_TRANSPORT_TCP_BYTES_PRIV_H

#include "transport/net.h"

static inline void gy_mapreduce_put_number(uint8_t *to, uint64_t number, size_t size_bytes)
{
    GY_ASSERT(size_bytes == 8 || (size_bytes < 8 && number >> (8 * size_bytes) == 0));
    for (size_t i = 0; i < size_bytes; i++) {
        to[i] = (uint8_t)(number >> (8 * i));
    }
}

static inline uint64_t gy_get_number(const uint8_t *from, size_t size_bytes)
{
    GY_ASSERT(size_bytes <= 8);
    uint64_t number = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        number |= (uint64_t)from[i] << (8 * i);
    }
    return number;
}

#endif
