/**
 * Private to query/rows: sums of doubles that do not depend on the order of their values.
 *
 * A finite double is an integer of 53 bits times a power of two. Bits from 2^-1074 on are cut
 * into bins of 28; shifted to its bins' edge a value lies in three of them. The sum keeps five
 * bins, of which the highest is that of the largest value so far; what lies below them is left
 * out. Which bins are kept depends on the largest value alone, and a bin holds the exact sum of
 * what all values have there, so that neither order nor grouping changes a bit. A bin holds
 * 2^35 values before it could overflow.
 *
 *   words[0]   the highest bin (0: no value yet), and flags of values that are not finite
 *   words[1..5] the bins from the highest one down, signed
 *
 * Source: Demmel and Nguyen, "Parallel reproducible summation", IEEE Transactions on Computers
 * 2015 (bins at fixed exponents).
 */
#ifndef GY_QUERY_ROWS_EXACT_H
#define GY_QUERY_ROWS_EXACT_H

#include "base/base.h"

#include <math.h>
#include <string.h>

enum {
    GY_ROWS_EXACT_WORDS = 6,
    GY_ROWS_BIN_BITS = 28,
    GY_ROWS_BINS = 5,
    GY_ROWS_LOWEST = 1074,
};

#define GY_ROWS_BIN_MASK ((UINT64_C(1) << GY_ROWS_BIN_BITS) - 1)
#define GY_ROWS_NAN      (UINT64_C(1) << 32)
#define GY_ROWS_PLUS     (UINT64_C(1) << 33)
#define GY_ROWS_MINUS    (UINT64_C(1) << 34)
#define GY_ROWS_HIGHEST  UINT64_C(0xffffffff)

/* Make `highest` the highest bin, where it is above the one that is. */
static inline void gy_rows_exact_raise(uint64_t *words, unsigned highest)
{
    const unsigned had = (unsigned)(words[0] & GY_ROWS_HIGHEST);
    const unsigned by = GY_MIN(highest - had, (unsigned)GY_ROWS_BINS);
    for (unsigned k = GY_ROWS_BINS; k > by; k--) {
        words[k] = words[k - by];
    }
    for (unsigned k = 1; k <= by; k++) {
        words[k] = 0;
    }
    words[0] = (words[0] & ~GY_ROWS_HIGHEST) | highest;
}

/** Add a value; the words are zero at first. */
static inline void gy_rows_exact_add(uint64_t *words, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const unsigned exponent = (unsigned)(bits >> 52) & 2047;
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 2047) {
        words[0] |= fraction != 0     ? GY_ROWS_NAN
                    : bits >> 63 != 0 ? GY_ROWS_MINUS
                                      : GY_ROWS_PLUS;
        return;
    }
    if (exponent == 0 && fraction == 0) {
        return;
    }
    const uint64_t whole = exponent == 0 ? fraction : fraction | UINT64_C(1) << 52;
    const unsigned position = exponent == 0 ? 0 : exponent - 1; /* of the lowest bit */
    const unsigned bin = position / GY_ROWS_BIN_BITS, shift = position % GY_ROWS_BIN_BITS,
                   highest = bin + 2;
    if (highest > (unsigned)(words[0] & GY_ROWS_HIGHEST)) {
        gy_rows_exact_raise(words, highest);
    }
    __extension__ const unsigned __int128 wide = (unsigned __int128)whole << shift;
    const uint64_t sign = 0 - (bits >> 63); /* (x ^ sign) - sign is -x */
    const unsigned from =
        (unsigned)(words[0] & GY_ROWS_HIGHEST) - highest; /* bins below the top */
    const uint64_t pieces[3] = {(uint64_t)(wide >> (2 * GY_ROWS_BIN_BITS)),
                                (uint64_t)(wide >> GY_ROWS_BIN_BITS) & GY_ROWS_BIN_MASK,
                                (uint64_t)wide & GY_ROWS_BIN_MASK};
    for (unsigned i = 0; i < 3 && from + i < GY_ROWS_BINS; i++) {
        words[1 + from + i] += (pieces[i] ^ sign) - sign;
    }
}

/** Add another sum. */
static inline void gy_rows_exact_merge(uint64_t *words, const uint64_t *other)
{
    const unsigned highest = (unsigned)(other[0] & GY_ROWS_HIGHEST);
    if (highest > (unsigned)(words[0] & GY_ROWS_HIGHEST)) {
        gy_rows_exact_raise(words, highest);
    }
    words[0] |= other[0] & ~GY_ROWS_HIGHEST;
    const unsigned from = (unsigned)(words[0] & GY_ROWS_HIGHEST) - highest;
    for (unsigned i = 0; from + i < GY_ROWS_BINS && highest > 0; i++) {
        words[1 + from + i] += other[1 + i];
    }
}

/* Carry from bin to bin: digits[0] is the lowest bin, digits[GY_ROWS_BINS] what is above all.
 */
static inline void gy_rows_exact_carry(const uint64_t *words, bool is_negated,
                                       int64_t digits[GY_ROWS_BINS + 1])
{
    int64_t above = 0;
    for (int i = 0; i < GY_ROWS_BINS; i++) {
        const int64_t bin = (int64_t)words[GY_ROWS_BINS - i];
        const int64_t value = (is_negated ? -bin : bin) + above;
        digits[i] = value & (int64_t)GY_ROWS_BIN_MASK;
        above = value >> GY_ROWS_BIN_BITS;
    }
    digits[GY_ROWS_BINS] = above;
}

/* The digits, all >= 0, as a double times 2^exponent, rounded to even. */
static inline double gy_rows_exact_round(const int64_t digits[GY_ROWS_BINS + 1], int exponent)
{
    int top = GY_ROWS_BINS;
    while (top > 0 && digits[top] == 0) {
        top--;
    }
    __extension__ unsigned __int128 head = (unsigned __int128)digits[top];
    int low = top;
    while (low > 0 && head >> 64 == 0) { /* until there are more bits than a double has */
        head = head << GY_ROWS_BIN_BITS | (uint64_t)digits[--low];
    }
    bool has_rest = false;
    for (int i = 0; i < low; i++) {
        has_rest |= digits[i] != 0;
    }
    int shift = 0;
    while (head >> (53 + shift) != 0) {
        shift++;
    }
    uint64_t whole = (uint64_t)(head >> shift);
    if (shift > 0) {
        __extension__ const unsigned __int128 half = (unsigned __int128)1 << (shift - 1);
        __extension__ const unsigned __int128 rest = head & ((half << 1) - 1);
        whole += rest > half || (rest == half && (has_rest || (whole & 1) != 0));
    }
    return ldexp((double)whole, exponent + low * GY_ROWS_BIN_BITS + shift);
}

/** The sum, rounded once. GY_LIMIT it is past the range of a double. */
GY_MUST_CHECK static inline gy_status gy_rows_exact_sum(const uint64_t *words, double *sum)
{
    const uint64_t flags = words[0];
    if ((flags & GY_ROWS_NAN) != 0 ||
        (flags & (GY_ROWS_PLUS | GY_ROWS_MINUS)) == (GY_ROWS_PLUS | GY_ROWS_MINUS)) {
        *sum = NAN;
        return GY_OK;
    }
    if ((flags & (GY_ROWS_PLUS | GY_ROWS_MINUS)) != 0) {
        *sum = (flags & GY_ROWS_PLUS) != 0 ? INFINITY : -INFINITY;
        return GY_OK;
    }
    int64_t digits[GY_ROWS_BINS + 1];
    gy_rows_exact_carry(words, false, digits);
    const bool is_negative = digits[GY_ROWS_BINS] < 0;
    if (is_negative) {
        gy_rows_exact_carry(words, true, digits);
    }
    GY_ASSERT(digits[GY_ROWS_BINS] >= 0);
    const int lowest = (int)(words[0] & GY_ROWS_HIGHEST) - (GY_ROWS_BINS - 1);
    const double value =
        gy_rows_exact_round(digits, lowest * GY_ROWS_BIN_BITS - GY_ROWS_LOWEST);
    if (isinf(value)) {
        return gy_fail(GY_LIMIT, "a sum is past the range of a double");
    }
    *sum = is_negative ? -value : value;
    return GY_OK;
}

#endif
