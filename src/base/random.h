/**
 * Counter-based random numbers: the value is a pure function of (key, counter), so that any
 * shard of a tensor draws the same numbers wherever it lives.
 *
 * @source Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011
 * (Philox 4x32-10)
 */
#ifndef GY_BASE_RANDOM_H
#define GY_BASE_RANDOM_H

#include <gyre/base.h>

/** Four independent 32-bit numbers of (key, counter). @threads any */
static inline void gy_philox(uint64_t key, uint64_t counter_high, uint64_t counter_low,
                             uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/** Uniform in [0, 1) of 64 random bits, of which it takes 53. */
static inline double gy_random_part(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/** A stream for tests and shuffles: the state is (key, next). Zero key is valid. */
typedef struct gy_random {
    uint64_t key, next;
} gy_random;

uint64_t gy_random_u64(gy_random *random);
/** Uniform in [0, bound), bound > 0, without bias. */
uint64_t gy_random_below(gy_random *random, uint64_t bound);
/** Uniform in [0, 1), 53 bits. */
double gy_random_unit(gy_random *random);
/** Standard normal (Box-Muller). */
double gy_random_normal(gy_random *random);

#endif
