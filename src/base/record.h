/**
 * Records in shared storage: each record's fields are described once, in a `.def` file of its
 * room, and packed from there in little-endian order without holes. The room's header names the
 * file and includes the template:
 *
 *     #define GY_RECORDS "sched/state/records.def"
 *     #include "base/record.inc"
 *
 * A record R { fields } becomes the struct R, its packed form R_packed (bytes alone: its size
 * is what storage holds), and two functions:
 *
 *     R_packed R_pack(const R *record);
 *     bool R_take(const uint8_t **at, size_t *left, R *record);
 *
 * R_take reads a packed record and moves behind it; false: fewer bytes are left, and nothing
 * was taken. With GY_RECORDS_OF_STRUCTS the structs are there already, with these fields at
 * least.
 */
#ifndef GY_BASE_RECORD_H
#define GY_BASE_RECORD_H

#include "base/key.h"

#include <string.h>

/** Write the low bytes of a number, the lowest first. size_bytes <= 8 */
static inline void gy_record_put(uint8_t *to, size_t size_bytes, uint64_t value)
{
    for (size_t i = 0; i < size_bytes; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint64_t gy_record_get(const uint8_t *from, size_t size_bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

static inline void gy_record_put_key(uint8_t to[16], gy_key key)
{
    gy_record_put(to, 8, key.high);
    gy_record_put(to + 8, 8, key.low);
}

static inline gy_key gy_record_get_key(const uint8_t from[16])
{
    return (gy_key){.high = gy_record_get(from, 8), .low = gy_record_get(from + 8, 8)};
}

#endif
