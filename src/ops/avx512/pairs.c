/* pairs.h for 512-bit registers. Both operands become words of two numbers that follow each
   other along k; a word of a goes to all lanes, sixteen words of b stand in one vector, and
   blocks of 6 rows by 64 columns stay in registers. */
#include "ops/avx512/pairs.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>

#include <string.h>

enum {
    LANES = 16,
    HALVES = 2 * LANES,
    BLOCK_COLUMNS = 4 * LANES,
    BLOCK_ROWS = 6,
    BLOCK_VECTORS = BLOCK_COLUMNS / LANES
};

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* Words of a: from row to row and from pair to pair, in bytes. */
typedef struct words {
    const char *data;
    int64_t row_bytes, pair_bytes;
} words;

size_t gy_pairs_bytes(int64_t m, int64_t n, int64_t k)
{
    const size_t pairs = gy_round_up((size_t)(k + 1) / 2, LANES);
    return sizeof(uint32_t) * pairs *
           (gy_round_up((size_t)m, LANES) + gy_round_up((size_t)n, LANES));
}

static __mmask16 lanes(int64_t count)
{
    return (__mmask16)(count >= LANES ? 0xffff : (1 << GY_MAX(count, (int64_t)0)) - 1);
}

static __mmask32 halves(int64_t count)
{
    return count >= 32 ? 0xffffffffU : (__mmask32)((1U << GY_MAX(count, (int64_t)0)) - 1);
}

/* Up to 16 elements of a row as bf16; those beyond are 0. */
INLINE __m256i narrow(const gy_pairs_operand *x, int64_t row, int64_t column, int64_t count)
{
    const int64_t at = row * x->step + column;
    if (!x->is_wide) {
        return _mm256_maskz_loadu_epi16(lanes(count), (const uint16_t *)x->data + at);
    }
    return (__m256i)_mm512_cvtneps_pbh(
        _mm512_maskz_loadu_ps(lanes(count), (const float *)x->data + at));
}

/* Rows two by two: to[p * length + j] has element j of rows 2 p and 2 p + 1. */
static void interleave(const gy_pairs_operand *x, int64_t rows, int64_t columns, int64_t length,
                       uint32_t *to)
{
    for (int64_t r = 0; r < rows; r += 2) {
        for (int64_t j = 0; j < columns; j += LANES) {
            const __m512i low = _mm512_cvtepu16_epi32(narrow(x, r, j, columns - j));
            __m512i high = _mm512_setzero_si512();
            if (r + 1 < rows) {
                high = _mm512_cvtepu16_epi32(narrow(x, r + 1, j, columns - j));
            }
            _mm512_storeu_si512(to + r / 2 * length + j,
                                _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
    }
}

/* A square of words, rows as columns. */
INLINE void turn_square(__m512i r[LANES])
{
    __m512i t[LANES];
    UNROLL for (int i = 0; i < 16; i += 2)
    {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 16; i += 4)
    {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        const __m512i even = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
        const __m512i even_too = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
        const __m512i odd = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
        const __m512i odd_too = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
        t[j] = _mm512_shuffle_i32x4(even, even_too, 0x88);
        t[8 + j] = _mm512_shuffle_i32x4(even, even_too, 0xdd);
        t[4 + j] = _mm512_shuffle_i32x4(odd, odd_too, 0x88);
        t[12 + j] = _mm512_shuffle_i32x4(odd, odd_too, 0xdd);
    }
    memcpy(r, t, sizeof(t));
}

/* Pairs within rows: to[p * length + i] has elements 2 p and 2 p + 1 of row i. */
static void turn(const gy_pairs_operand *x, int64_t rows, int64_t columns, int64_t length,
                 uint32_t *to)
{
    const uint16_t *from = x->data;
    for (int64_t i = 0; i < rows; i += LANES) {
        for (int64_t j = 0; j < columns; j += HALVES) {
            __m512i square[LANES];
            for (int64_t r = 0; r < LANES; r++) {
                square[r] = i + r < rows
                                ? _mm512_maskz_loadu_epi16(halves(columns - j),
                                                           from + (i + r) * x->step + j)
                                : _mm512_setzero_si512();
            }
            turn_square(square);
            const int64_t pairs = GY_MIN((columns - j + 1) / 2, (int64_t)LANES);
            for (int64_t p = 0; p < pairs; p++) {
                _mm512_storeu_si512(to + (j / 2 + p) * length + i, square[p]);
            }
        }
    }
}

/* Rows of whole words: to[i * length + p]. */
static void copy_rows(const gy_pairs_operand *x, int64_t rows, int64_t columns, int64_t length,
                      uint32_t *to)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j += LANES) {
            const __m256i numbers = narrow(x, i, j, columns - j);
            memcpy(to + i * length + j / 2, &numbers, sizeof(numbers));
        }
    }
}

/* a as words, in its own memory where that has them. */
static words words_of_a(const gy_pairs *p, uint32_t *to)
{
    const int64_t word = sizeof(uint32_t);
    if (p->a.is_turned) {
        const int64_t length = (int64_t)gy_round_up((size_t)p->m, LANES);
        interleave(&p->a, p->k, p->m, length, to);
        return (words){(const char *)to, word, length * word};
    }
    if (!p->a.is_wide && p->k % 2 == 0) {
        return (words){p->a.data, p->a.step * word / 2, word};
    }
    const int64_t length = (int64_t)gy_round_up((size_t)(p->k + 1) / 2, LANES);
    copy_rows(&p->a, p->m, p->k, length, to);
    return (words){(const char *)to, length * word, word};
}

/* Where a block of c stands, and what it is made of. */
typedef struct block {
    words a;
    const uint32_t *b;
    int64_t b_length, pairs;
    float *c;
    int64_t c_step, columns;
    float alpha;
    bool adds;
} block;

INLINE void multiply_block(const block *at, const int rows, const int vectors)
{
    __m512 sums[BLOCK_ROWS][BLOCK_VECTORS];
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < vectors; v++)
        {
            sums[r][v] = _mm512_setzero_ps();
        }
    }
    for (int64_t p = 0; p < at->pairs; p++) {
        __m512bh b[BLOCK_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++)
        {
            b[v] = (__m512bh)_mm512_loadu_si512(at->b + p * at->b_length + (int64_t)v * LANES);
        }
        UNROLL for (int r = 0; r < rows; r++)
        {
            int32_t pair;
            memcpy(&pair, at->a.data + r * at->a.row_bytes + p * at->a.pair_bytes,
                   sizeof(pair));
            const __m512bh a = (__m512bh)_mm512_set1_epi32(pair);
            UNROLL for (int v = 0; v < vectors; v++)
            {
                sums[r][v] = _mm512_dpbf16_ps(sums[r][v], a, b[v]);
            }
        }
    }
    const __m512 alpha = _mm512_set1_ps(at->alpha);
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < vectors; v++)
        {
            const int64_t column = (int64_t)v * LANES;
            float *c = at->c + r * at->c_step + column;
            const __mmask16 there = lanes(at->columns - column);
            const __m512 before =
                at->adds ? _mm512_maskz_loadu_ps(there, c) : _mm512_setzero_ps();
            _mm512_mask_storeu_ps(c, there, _mm512_fmadd_ps(alpha, sums[r][v], before));
        }
    }
}

#define OF_VECTORS(rows)                                                                       \
    static void multiply_##rows(const block *at, int vectors)                                  \
    {                                                                                          \
        switch (vectors) {                                                                     \
        case 1:                                                                                \
            multiply_block(at, rows, 1);                                                       \
            break;                                                                             \
        case 2:                                                                                \
            multiply_block(at, rows, 2);                                                       \
            break;                                                                             \
        case 3:                                                                                \
            multiply_block(at, rows, 3);                                                       \
            break;                                                                             \
        default:                                                                               \
            multiply_block(at, rows, BLOCK_VECTORS);                                           \
        }                                                                                      \
    }
OF_VECTORS(1)
OF_VECTORS(2)
OF_VECTORS(3)
OF_VECTORS(4)
OF_VECTORS(5)
OF_VECTORS(6)

void gy_pairs_multiply(const gy_pairs *p)
{
    static void (*const of_rows[])(const block *at, int vectors) = {
        NULL, multiply_1, multiply_2, multiply_3, multiply_4, multiply_5, multiply_6};
    const int64_t pairs = (p->k + 1) / 2, length = (int64_t)gy_round_up((size_t)p->n, LANES);
    uint32_t *b = p->workspace;
    uint32_t *a = b + length * (int64_t)gy_round_up((size_t)pairs, LANES);
    GY_ASSERT(p->m > 0 && p->n > 0 && p->k > 0 && !p->b.is_wide);
    if (p->b.is_turned) {
        turn(&p->b, p->n, p->k, length, b);
    } else {
        interleave(&p->b, p->k, p->n, length, b);
    }
    const words all = words_of_a(p, a);
    for (int64_t j = 0; j < p->n; j += BLOCK_COLUMNS) {
        const int64_t columns = GY_MIN(p->n - j, (int64_t)BLOCK_COLUMNS);
        for (int64_t i = 0; i < p->m; i += BLOCK_ROWS) {
            const block at = {
                .a = {all.data + i * all.row_bytes, all.row_bytes, all.pair_bytes},
                .b = b + j,
                .b_length = length,
                .pairs = pairs,
                .c = p->c + i * p->c_step + j,
                .c_step = p->c_step,
                .columns = columns,
                .alpha = p->alpha,
                .adds = p->adds};
            of_rows[GY_MIN(p->m - i, (int64_t)BLOCK_ROWS)](&at, (int)((columns + 15) / LANES));
        }
    }
}

#else /* no CPU of this kind has the unit, and none asks */

size_t gy_pairs_bytes(int64_t m, int64_t n, int64_t k)
{
    (void)m;
    (void)n;
    (void)k;
    return 0;
}

void gy_pairs_multiply(const gy_pairs *p)
{
    (void)p;
    GY_ASSERT(false);
}

#endif
