/**
 * Products with a side of at most 16, such as those of a last layer of ten classes, compiled
 * for AVX-512: libraries leave half of their lanes empty there. Long sides are multiples of 64,
 * and every result is summed in the same order wherever a caller cuts the rows.
 */
#ifndef GY_OPS_AVX512_NARROW_H
#define GY_OPS_AVX512_NARROW_H

#include "base/base.h"

enum { GY_NARROW_MAX = 16, GY_NARROW_STEP = 64 /* of the long side */ };

/** Floats of a packed (length,width) matrix, width at most GY_NARROW_MAX. */
static inline int64_t gy_narrow_floats(int64_t length, int64_t width)
{
    return length * ((width + 4) / 5 * 5 + 4);
}

/** t(b) with rows of zeros to fill its groups. b: (length,width), packed: (>= width,length). */
void gy_narrow_pack(const float *b, int64_t length, int64_t width, float *packed);

/** c: (rows,width) = a b. a: (rows,length), packed: b of (length,width). */
void gy_narrow_dots(const float *a, const float *packed, int64_t rows, int64_t length,
                    int64_t width, float *c);

/**
 * c: (length,width) = scale t(a) b, or += that. a: (rows,stride), the first `length` columns of
 * it; b: (rows,width).
 */
typedef struct gy_narrow_sums {
    const float *a, *b;
    int64_t rows, stride, length, width;
    float scale;
    bool adds;
} gy_narrow_sums;
void gy_narrow_add(const gy_narrow_sums *s, float *c);

#endif
