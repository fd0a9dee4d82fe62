/* narrow.h for 512-bit registers: twenty sums in registers, of four rows or four vectors by a
   group of five (or four) of the narrow side. Products and sums are contracted here. */
#include "ops/avx512/narrow.h"

#include <string.h>

typedef float v16f __attribute__((vector_size(64)));
typedef float v8f __attribute__((vector_size(32)));
typedef float v4f __attribute__((vector_size(16)));

enum { LANES = 16, BLOCK = 4 };

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 5")

INLINE v16f load16(const float *x)
{
    v16f value;
    memcpy(&value, x, sizeof(value));
    return value;
}

INLINE void store16(float *y, v16f value)
{
    memcpy(y, &value, sizeof(value));
}

INLINE v16f all16(float x)
{
    return (v16f){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

/* Five where that leaves no column empty, else four. */
static int64_t group_of(int64_t width)
{
    return width % 5 == 0 ? 5 : 4;
}

void gy_narrow_pack(const float *b, int64_t length, int64_t width, float *packed)
{
    int64_t group = group_of(width), full = (width + group - 1) / group * group;
    for (int64_t l = 0; l < length; l++) {
        for (int64_t j = 0; j < width; j++) {
            packed[j * length + l] = b[l * width + j];
        }
    }
    memset(packed + width * length, 0, (size_t)((full - width) * length) * sizeof(float));
}

INLINE v4f fold(v16f x)
{
    v8f y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
            __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(y, y, 0, 1, 2, 3) +
           __builtin_shufflevector(y, y, 4, 5, 6, 7);
}

/* The sums of the lanes of four vectors. */
INLINE v4f fold4(const v16f *x)
{
    v4f a = fold(x[0]), b = fold(x[1]), c = fold(x[2]), d = fold(x[3]);
    v4f ab =
        __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    v4f cd =
        __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
           __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* sums[j]: of rows[0..3] times row j of `packed`. */
INLINE void dot_block(const float *const rows[BLOCK], const float *packed, int64_t length,
                      int64_t group, v4f *sums)
{
    v16f acc[5][BLOCK];
    UNROLL for (int64_t j = 0; j < group; j++)
    {
        UNROLL for (int64_t i = 0; i < BLOCK; i++)
        {
            acc[j][i] = all16(0);
        }
    }
    for (int64_t l = 0; l < length; l += LANES) {
        v16f left[BLOCK];
        UNROLL for (int64_t i = 0; i < BLOCK; i++)
        {
            left[i] = load16(rows[i] + l);
        }
        UNROLL for (int64_t j = 0; j < group; j++)
        {
            v16f right = load16(packed + j * length + l);
            UNROLL for (int64_t i = 0; i < BLOCK; i++)
            {
                acc[j][i] += left[i] * right;
            }
        }
    }
    UNROLL for (int64_t j = 0; j < group; j++)
    {
        sums[j] = fold4(acc[j]);
    }
}

void gy_narrow_dots(const float *a, const float *packed, int64_t rows, int64_t length,
                    int64_t width, float *c)
{
    int64_t group = group_of(width);
    for (int64_t row = 0; row < rows; row += BLOCK) {
        int64_t count = GY_MIN((int64_t)BLOCK, rows - row);
        const float *from[BLOCK];
        for (int64_t i = 0; i < BLOCK; i++) { /* past the last row: that one again */
            from[i] = a + GY_MIN(row + i, rows - 1) * length;
        }
        for (int64_t first = 0; first < width; first += group) {
            v4f sums[5];
            if (group == 5) {
                dot_block(from, packed + first * length, length, 5, sums);
            } else {
                dot_block(from, packed + first * length, length, 4, sums);
            }
            int64_t columns = GY_MIN(group, width - first);
            for (int64_t i = 0; i < count; i++) {
                for (int64_t j = 0; j < columns; j++) {
                    c[(row + i) * width + first + j] = sums[j][i];
                }
            }
        }
    }
}

/* sums[j]: 64 columns of a from `first` on times column `at` + j of b. */
INLINE void sum_block(const gy_narrow_sums *s, int64_t first, int64_t at, int64_t group,
                      float sums[5][GY_NARROW_STEP])
{
    const float *a = s->a + first, *b = s->b + at;
    const int64_t stride = s->stride, width = s->width;
    v16f acc[5][BLOCK];
    UNROLL for (int64_t j = 0; j < group; j++)
    {
        UNROLL for (int64_t v = 0; v < BLOCK; v++)
        {
            acc[j][v] = all16(0);
        }
    }
    for (int64_t row = s->rows; row > 0; row--) {
        v16f left[BLOCK];
        UNROLL for (int64_t v = 0; v < BLOCK; v++)
        {
            left[v] = load16(a + v * LANES);
        }
        UNROLL for (int64_t j = 0; j < group; j++)
        {
            v16f right = all16(b[j]);
            UNROLL for (int64_t v = 0; v < BLOCK; v++)
            {
                acc[j][v] += left[v] * right;
            }
        }
        a += stride;
        b += width;
    }
    UNROLL for (int64_t j = 0; j < group; j++)
    {
        UNROLL for (int64_t v = 0; v < BLOCK; v++)
        {
            store16(&sums[j][v * LANES], acc[j][v]);
        }
    }
}

void gy_narrow_add(const gy_narrow_sums *s, float *c)
{
    const int64_t width = s->width;
    for (int64_t first = 0; first < s->length; first += GY_NARROW_STEP) {
        float sums[GY_NARROW_MAX][GY_NARROW_STEP];
        int64_t at = 0;
        for (; at + 5 <= width; at += 5) {
            sum_block(s, first, at, 5, sums + at);
        }
        for (; at + 2 <= width; at += 2) {
            sum_block(s, first, at, 2, sums + at);
        }
        if (at < width) {
            sum_block(s, first, at, 1, sums + at);
        }
        float *to = c + first * width;
        for (int64_t i = 0; i < GY_NARROW_STEP; i++) {
            for (int64_t j = 0; j < width; j++, to++) {
                float value = s->scale * sums[j][i];
                *to = s->adds ? *to + value : value;
            }
        }
    }
}
