/**
 * The checksum and hash of everything: XXH3, 64 bits, from xxHash.
 */
#ifndef GY_BASE_HASH_H
#define GY_BASE_HASH_H

#include <gyre/base.h>

/** @threads any */
uint64_t gy_hash(const void *data, size_t size_bytes, uint64_t seed);

#endif
