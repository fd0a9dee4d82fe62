/**
 * The hash of keys. It is cheap for the short keys of text and the same on every machine, so
 * the order of tables (hash, then key) is too.
 *
 * Each block of 16 bytes is folded by the 128-bit product of its two words. A key of up to 16
 * bytes is one block, padded with zeros; the last block of a longer key ends with the key.
 *
 * @source the folded multiplication of Wang Yi's wyhash; constants: golden ratio, pi
 */
#ifndef GY_MAPREDUCE_HASH_H
#define GY_MAPREDUCE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { GY_KEY_HEAD = 16 };

/** The first 16 bytes of a key, padded with zeros; little-endian. */
typedef struct gy_key_head {
    uint64_t low, high;
} gy_key_head;

static inline uint64_t gy_hash_load8(const char *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

/* The same without reading a byte outside the key. */
static inline gy_key_head gy_key_head_within(const char *key, size_t size)
{
    gy_key_head head = {0, 0};
    if (size >= GY_KEY_HEAD) {
        head.low = gy_hash_load8(key);
        head.high = gy_hash_load8(key + 8);
    } else if (size >= 8) {
        head.low = gy_hash_load8(key);
        head.high = size == 8 ? 0 : gy_hash_load8(key + size - 8) >> (8 * (16 - size));
    } else {
        for (size_t i = 0; i < size; i++) {
            head.low |= (uint64_t)(unsigned char)key[i] << (8 * i);
        }
    }
    return head;
}

/**
 * The head of a key of any size. Reads up to 15 bytes behind a short key if they are in the
 * same page (which cannot fault), and masks them out.
 */
static inline gy_key_head gy_key_head_of(const char *key, size_t size)
{
#if defined(__SSE2__) && !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
    static const unsigned char ones[2 * GY_KEY_HEAD] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                        255, 255, 255, 255, 255, 255, 255, 255};
    if (((uintptr_t)key & 4095) <= 4096 - GY_KEY_HEAD) {
        const size_t kept = size < GY_KEY_HEAD ? size : GY_KEY_HEAD;
        const __m128i mask = _mm_loadu_si128((const void *)(ones + GY_KEY_HEAD - kept));
        const __m128i bytes = _mm_and_si128(_mm_loadu_si128((const void *)key), mask);
        return (gy_key_head){(uint64_t)_mm_cvtsi128_si64(bytes),
                             (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(bytes, bytes))};
    }
#endif
    return gy_key_head_within(key, size);
}

static inline uint64_t gy_hash_fold(uint64_t a, uint64_t b)
{
    __extension__ const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/** The hash of a key whose head is known. */
static inline uint64_t gy_key_hash(const char *key, size_t size, gy_key_head head)
{
    const uint64_t golden = 0x9E3779B97F4A7C15u, pi = 0x243F6A8885A308D3u;
    uint64_t state = golden;
    if (size > GY_KEY_HEAD) {
        const char *at = key, *last = key + size - GY_KEY_HEAD;
        do {
            state = gy_hash_fold(gy_hash_load8(at) ^ state, gy_hash_load8(at + 8) ^ pi);
            at += GY_KEY_HEAD;
        } while (at < last);
        head = (gy_key_head){gy_hash_load8(last), gy_hash_load8(last + 8)};
    }
    return gy_hash_fold(gy_hash_fold(head.low ^ state, head.high ^ pi) ^ size,
                        0x13198A2E03707345u);
}

/** The partition of a hash: partitions are consecutive ranges of the hash. */
static inline uint32_t gy_hash_partition(uint64_t hash, uint32_t partitions)
{
    __extension__ const unsigned __int128 product = (unsigned __int128)hash * partitions;
    return (uint32_t)(product >> 64);
}

#endif
