/*
 * Finds words of text: a bit for each byte that is not whitespace; a word begins or ends where
 * a bit differs from the previous one.
 *
 * Source: Langdale, Lemire: "Parsing gigabytes of JSON per second", VLDB Journal 2019 (bits to
 * positions, eight at a time); AVX-512's compression does all 64 at once.
 */
#include "mapreduce/words.h"

#include "base/base.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 64 };

typedef size_t (*find_edges)(const char *text, size_t size, uint32_t *edges);

/* Append the positions of the bits of `turns`, plus `base`; writes up to 64 numbers. */
static inline uint32_t *put_turns(uint64_t turns, uint32_t base, uint32_t *out)
{
    const int count = __builtin_popcountll(turns);
    for (int done = 0; done < count; done += 8) {
        /* for 0 the position does not matter, since it is overwritten */
        for (int i = 0; i < 8; i++) {
            out[done + i] = base + (uint32_t)__builtin_ctzll(turns | (uint64_t)1 << 63);
            turns &= turns - 1;
        }
    }
    return out + count;
}

static uint64_t words_of_block(const char *text)
{
    uint64_t bits = 0;
    for (int i = 0; i < BLOCK; i++) {
        bits |= (uint64_t)!gy_is_blank(text[i]) << i;
    }
    return bits;
}

/* The last block of a text, padded with whitespace. */
static const char *last_block(char block[BLOCK], const char *text, size_t size)
{
    memset(block, ' ', BLOCK);
    memcpy(block, text, size);
    return block;
}

#define FIND_WITH(bits_of)                                                                     \
    uint64_t before = 0;                                                                       \
    uint32_t *out = edges;                                                                     \
    char rest[BLOCK];                                                                          \
    for (size_t at = 0; at < size; at += BLOCK) {                                              \
        const char *block =                                                                    \
            size - at >= BLOCK ? text + at : last_block(rest, text + at, size - at);           \
        const uint64_t bits = bits_of(block);                                                  \
        out = put_turns(bits ^ (bits << 1 | before), (uint32_t)at, out);                       \
        before = bits >> 63;                                                                   \
    }                                                                                          \
    return (size_t)(out - edges)

static size_t find_plain(const char *text, size_t size, uint32_t *edges)
{
    FIND_WITH(words_of_block);
}

#if defined(__x86_64__)
#define AVX2   __attribute__((target("avx2,bmi,popcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt")))

/* A lookup table by the low half of a byte: the whitespace byte with that low half; where
 * there is none, a byte with another low half. A byte is whitespace when it equals its entry
 * (0 for bytes from 0x80 on). */
#define WHITESPACE ' ', 0, 0, 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, '\r', 0, 0

AVX2 static inline uint64_t words_of_half(const char *text)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)text);
    const __m256i ends = _mm256_setr_epi8(WHITESPACE, WHITESPACE);
    const __m256i blank = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(ends, bytes), bytes);
    return (uint32_t)~_mm256_movemask_epi8(blank);
}

AVX2 static inline uint64_t words_of_halves(const char *text)
{
    return words_of_half(text) | words_of_half(text + 32) << 32;
}

AVX2 static size_t find_avx2(const char *text, size_t size, uint32_t *edges)
{
    FIND_WITH(words_of_halves);
}

/* Store 16 of the packed positions of a block as numbers from `at` on. */
#define STORE_QUARTER(quarter)                                                                 \
    _mm512_storeu_si512(out + (size_t)16 * (quarter),                                          \
                        _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32( \
                                                   packed, quarter))))

AVX512 static size_t find_avx512(const char *text, size_t size, uint32_t *edges)
{
    static const unsigned char counted[BLOCK] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    static const char of_halves[] = {WHITESPACE};
    const __m512i places = _mm512_loadu_si512(counted), blank = _mm512_set1_epi8(' '),
                  ends = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)of_halves));
    uint64_t before = 0;
    uint32_t *out = edges;
    for (size_t at = 0; at < size; at += BLOCK) {
        const unsigned left = (unsigned)GY_MIN(size - at, (size_t)BLOCK);
        const __m512i bytes =
            left == BLOCK
                ? _mm512_loadu_si512(text + at)
                : _mm512_mask_loadu_epi8(blank, _bzhi_u64(UINT64_MAX, left), text + at);
        const uint64_t bits = ~_mm512_cmpeq_epi8_mask(_mm512_shuffle_epi8(ends, bytes), bytes);
        const uint64_t turns = bits ^ (bits << 1 | before);
        before = bits >> 63;
        const __m512i packed = _mm512_maskz_compress_epi8(turns, places);
        const __m512i base = _mm512_set1_epi32((int)at);
        const int count = __builtin_popcountll(turns);
        STORE_QUARTER(0);
        if (__builtin_expect(count > 16, 0)) {
            STORE_QUARTER(1);
            STORE_QUARTER(2);
            STORE_QUARTER(3);
        }
        out += count;
    }
    return (size_t)(out - edges);
}
#endif

static const find_edges finds[GY_WAY_COUNT] = {
#if defined(__x86_64__)
    [GY_WAY_AVX512] = find_avx512,
    [GY_WAY_AVX2] = find_avx2,
#endif
    [GY_WAY_PLAIN] = find_plain,
};

size_t gy_mapreduce_words_find_by(gy_way way, const char *text, size_t size, uint32_t *edges)
{
    GY_ASSERT(size <= GY_WORDS_TEXT_BYTES && finds[way] != NULL);
    size_t count = finds[way](text, size, edges);
    if (count % 2 != 0) {
        edges[count++] = (uint32_t)size;
    }
    return count / 2;
}

size_t gy_mapreduce_words_find(const char *text, size_t size, uint32_t *edges)
{
    return gy_mapreduce_words_find_by(gy_way_best(), text, size, edges);
}
