/**
 * The checksum and hash of everything: XXH3 of 64 and of 128 bits, from xxHash; at once, or fed
 * in pieces.
 */
#ifndef GY_BASE_HASH_H
#define GY_BASE_HASH_H

#include <gyre/base.h>

/** @threads any */
uint64_t gy_hash(const void *data, size_t size_bytes, uint64_t seed);

/** 128 bits: out[0] the high, out[1] the low ones. @threads any */
void gy_hash_wide(const void *data, size_t size_bytes, uint64_t out[2]);

enum { GY_HASH_STATE_BYTES = 576 };

/** What was fed so far. Begun by gy_hash_begin, in place, holds no other memory. */
typedef struct gy_hash_stream {
    _Alignas(64) unsigned char state[GY_HASH_STATE_BYTES];
} gy_hash_stream;

void gy_hash_begin(gy_hash_stream *stream);
/** The same for gy_hash with that seed. */
void gy_hash_stream_begin(gy_hash_stream *stream, uint64_t seed);
void gy_hash_feed(gy_hash_stream *stream, const void *data, size_t size_bytes);
/** gy_hash of all that was fed; feeding may go on. */
uint64_t gy_hash_end(const gy_hash_stream *stream);

#endif
