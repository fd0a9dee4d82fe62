/**
 * Keys of 128 bits, which name what they are the hash of, and the index of nothing.
 */
#ifndef GY_BASE_KEY_H
#define GY_BASE_KEY_H

#include "base/base.h"
#include "base/hash.h"

/** 128 bits of xxh3 (gy_hash_wide). */
typedef struct gy_key {
    uint64_t high, low;
} gy_key;

#define GY_NONE UINT32_MAX /* the index of nothing */

/** The key of these bytes. @threads any */
static inline gy_key gy_key_of(const void *data, size_t size_bytes)
{
    uint64_t sum[2];
    gy_hash_wide(data, size_bytes, sum);
    return (gy_key){.high = sum[0], .low = sum[1]};
}

static inline bool gy_key_is_same(gy_key a, gy_key b)
{
    return a.high == b.high && a.low == b.low;
}

#endif
