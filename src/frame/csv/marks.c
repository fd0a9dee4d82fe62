/*
 * Separators of CSV by bit masks, 64 bytes at a time.
 *
 *   text    a,"b,""c",d\n
 *   quote   0010011010000
 *   inside  0011100100 00     the parity of the quotes up to here
 *   edges   0100000001 01     delimiters and row ends that are not inside
 *
 * A doubled quote closes and opens again: the parity is right without a look at it.
 */
#include "frame/csv/csv_priv.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 64 };

/* Bits of a block. */
typedef struct masks {
    uint64_t delimiter, lf, cr, quote;
    uint64_t other; /* NUL, and what is not ASCII */
} masks;

/* State from block to block. */
typedef struct finding {
    uint64_t inside;         /* all ones: the block before ends within quotes */
    uint64_t separated;      /* 1: the byte before is a separator, or the text begins */
    uint64_t closed;         /* 1: the byte before is a closing quote */
    uint64_t quotes, others; /* of all blocks */
    uint32_t *out;
    size_t row_ends, wrong;
} finding;

/* The parity of the bits up to each bit. */
static inline __attribute__((always_inline)) uint64_t parity_up_to(uint64_t bits)
{
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    return bits ^ bits << 32;
}

/* Write the positions of bits; up to GY_CSV_EDGE_SLACK more are overwritten. */
static inline __attribute__((always_inline)) uint32_t *write_edges(uint64_t bits, uint32_t base,
                                                                   uint32_t *out)
{
    uint32_t *const end = out + __builtin_popcountll(bits);
    while (bits != 0) {
        for (int i = 0; i < 4; i++) { /* of no bits 64 or less is written, and ignored */
            out[i] = base + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
            bits &= bits - 1;
        }
        out += 4;
    }
    return end;
}

/* Bits of a block that belong to the text, and the bit of its last byte where a LF follows. */
typedef struct block_extent {
    uint64_t own, next_lf;
} block_extent;

/* Take a block whose masks have no bits beyond its own. */
static inline __attribute__((always_inline)) void take_block(finding *at, masks here,
                                                             block_extent extent, uint32_t base)
{
    const uint64_t quote = here.quote;
    const bool is_quoted = (quote | at->inside | at->closed) != 0;
    const uint64_t inside = is_quoted ? parity_up_to(quote) ^ at->inside : 0;
    const uint64_t lf = here.lf & ~inside, cr = here.cr & ~inside;
    const uint64_t ends = lf | (cr & ~(lf >> 1 | extent.next_lf));
    const uint64_t edges = (here.delimiter & ~inside) | ends;
    if (is_quoted) {
        const uint64_t opening = quote & inside, closing = quote & ~inside;
        const uint64_t behind = (closing << 1 | at->closed) & extent.own;
        const uint64_t before = edges << 1 | at->separated | behind;
        const uint64_t wrong = (opening & ~before) | (behind & ~(edges | cr | opening));
        if (wrong != 0 && at->wrong == SIZE_MAX) {
            at->wrong = base + (size_t)__builtin_ctzll(wrong);
        }
        at->closed = closing >> 63;
        at->inside = (uint64_t)((int64_t)inside >> 63);
    }
    at->separated = edges >> 63;
    at->quotes |= quote;
    at->others |= here.other;
    at->row_ends += (size_t)__builtin_popcountll(ends);
    at->out = write_edges(edges, base, at->out);
}

static masks cut_masks(masks here, uint64_t own)
{
    return (masks){here.delimiter & own, here.lf & own, here.cr & own, here.quote & own,
                   here.other & own};
}

#define EACH_BLOCK(masks_of, take)                                                             \
    size_t i = 0;                                                                              \
    for (; text.size_bytes - i > BLOCK; i += BLOCK) {                                          \
        const block_extent all = {UINT64_MAX, (uint64_t)(text.data[i + BLOCK] == '\n') << 63}; \
        take(masks_of(text.data + i, delimiter), all);                                         \
    }                                                                                          \
    const size_t rest = text.size_bytes - i;                                                   \
    if (rest > 0) {                                                                            \
        char last[BLOCK] = {0};                                                                \
        memcpy(last, text.data + i, rest);                                                     \
        const block_extent some = {UINT64_MAX >> (BLOCK - rest), (uint64_t)(next == '\n')      \
                                                                     << (rest - 1)};           \
        take(cut_masks(masks_of(last, delimiter), some.own), some);                            \
    }

#define TAKE_FINDING(here, extent) take_block(&at, (here), (extent), (uint32_t)i)
#define FIND_WITH(masks_of)                                                                    \
    uint32_t *const begin = edges;                                                             \
    finding at = {.separated = 1, .out = begin, .wrong = SIZE_MAX};                            \
    EACH_BLOCK(masks_of, TAKE_FINDING)                                                         \
    *marks = (gy_csv_marks)                                                                    \
    {                                                                                          \
        .edges = (size_t)(at.out - begin), .row_ends = at.row_ends, .wrong = at.wrong,         \
        .is_inside = at.inside != 0, .has_quotes = at.quotes != 0,                             \
        .has_others = at.others != 0                                                           \
    }

/* ---- cuts, whose state is not known ---- */

typedef struct looking {
    uint64_t inside; /* as of a cut that begins outside of quotes */
    gy_csv_cut cut;
} looking;

static inline __attribute__((always_inline)) void look_block(looking *at, masks here,
                                                             block_extent extent, uint64_t base)
{
    const uint64_t inside =
        here.quote != 0 ? parity_up_to(here.quote) ^ at->inside : at->inside;
    const uint64_t ends = here.lf | (here.cr & ~(here.lf >> 1 | extent.next_lf));
    const uint64_t by_state[2] = {ends & ~inside, ends & inside};
    const uint64_t last = extent.own ^ extent.own >> 1;
    at->inside = (uint64_t)((int64_t)inside >> 63);
    for (int i = 0; i < 2; i++) {
        if (by_state[i] != 0 && at->cut.first[i] == UINT64_MAX) {
            at->cut.first[i] = base + (uint64_t)__builtin_ctzll(by_state[i]) + 1;
        }
        at->cut.row_ends[i] += (uint64_t)__builtin_popcountll(by_state[i]);
        at->cut.ends_row[i] = (by_state[i] & last) != 0;
    }
    if (here.quote != 0) {
        at->cut.last_quote = base + 63 - (uint64_t)__builtin_clzll(here.quote);
    }
}

#define TAKE_LOOKING(here, extent) look_block(&at, (here), (extent), i)
#define LOOK_WITH(masks_of)                                                                    \
    const char delimiter = '\n'; /* none is looked for */                                      \
    looking at = {.cut = {.first = {UINT64_MAX, UINT64_MAX}, .last_quote = UINT64_MAX}};       \
    EACH_BLOCK(masks_of, TAKE_LOOKING)                                                         \
    at.cut.is_odd = at.inside != 0;                                                            \
    *cut = at.cut

/* ---- instruction sets ---- */

#if defined(__x86_64__)
/* SSE2, which every x86-64 has. */
static inline masks masks_baseline(const char *text, char delimiter)
{
    masks here = {0, 0, 0, 0, 0};
    for (int i = 0; i < BLOCK; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const void *)(text + i));
#define BITS(c)                                                                                \
    ((uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c))) << i)
        here.delimiter |= BITS(delimiter);
        here.lf |= BITS('\n');
        here.cr |= BITS('\r');
        here.quote |= BITS('"');
        here.other |= BITS(0) | (uint64_t)(uint32_t)_mm_movemask_epi8(bytes) << i;
#undef BITS
    }
    return here;
}
#else
/* Byte by byte. */
static masks masks_baseline(const char *text, char delimiter)
{
    masks here = {0, 0, 0, 0, 0};
    for (int i = 0; i < BLOCK; i++) {
        const uint64_t bit = UINT64_C(1) << i;
        here.delimiter |= text[i] == delimiter ? bit : 0;
        here.lf |= text[i] == '\n' ? bit : 0;
        here.cr |= text[i] == '\r' ? bit : 0;
        here.quote |= text[i] == '"' ? bit : 0;
        here.other |= (signed char)text[i] <= 0 ? bit : 0;
    }
    return here;
}
#endif

static void find_plain(char delimiter, gy_text_view text, char next, uint32_t *edges,
                       gy_csv_marks *marks)
{
    FIND_WITH(masks_baseline);
}

static void look_plain(gy_text_view text, char next, gy_csv_cut *cut)
{
    LOOK_WITH(masks_baseline);
}

#if defined(__x86_64__)
#define AVX2   __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,bmi,bmi2,popcnt")))

AVX2 static inline masks masks_avx2(const char *text, char delimiter)
{
    const __m256i low = _mm256_loadu_si256((const void *)text),
                  high = _mm256_loadu_si256((const void *)(text + 32));
#define BITS_OF(half, c)                                                                       \
    ((uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8((half), _mm256_set1_epi8(c))))
#define BITS(c) (BITS_OF(low, c) | BITS_OF(high, c) << 32)
    return (masks){.delimiter = BITS(delimiter),
                   .lf = BITS('\n'),
                   .cr = BITS('\r'),
                   .quote = BITS('"'),
                   .other = BITS(0) | (uint64_t)(uint32_t)_mm256_movemask_epi8(low) |
                            (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32};
#undef BITS
#undef BITS_OF
}

AVX2 static void find_avx2(char delimiter, gy_text_view text, char next, uint32_t *edges,
                           gy_csv_marks *marks)
{
    FIND_WITH(masks_avx2);
}

AVX2 static void look_avx2(gy_text_view text, char next, gy_csv_cut *cut)
{
    LOOK_WITH(masks_avx2);
}

AVX512 static inline masks masks_avx512(const char *text, char delimiter)
{
    const __m512i bytes = _mm512_loadu_si512(text);
#define BITS(c) _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(c))
    return (masks){.delimiter = BITS(delimiter),
                   .lf = BITS('\n'),
                   .cr = BITS('\r'),
                   .quote = BITS('"'),
                   .other = _mm512_cmple_epi8_mask(bytes, _mm512_setzero_si512())};
#undef BITS
}

AVX512 static void find_avx512(char delimiter, gy_text_view text, char next, uint32_t *edges,
                               gy_csv_marks *marks)
{
    FIND_WITH(masks_avx512);
}

AVX512 static void look_avx512(gy_text_view text, char next, gy_csv_cut *cut)
{
    LOOK_WITH(masks_avx512);
}
#endif

typedef void (*find_edges)(char delimiter, gy_text_view text, char next, uint32_t *edges,
                           gy_csv_marks *marks);
typedef void (*look_at_cut)(gy_text_view text, char next, gy_csv_cut *cut);

static const find_edges finds[GY_WAY_COUNT] = {
#if defined(__x86_64__)
    [GY_WAY_AVX512] = find_avx512,
    [GY_WAY_AVX2] = find_avx2,
#endif
    [GY_WAY_PLAIN] = find_plain,
};

static const look_at_cut looks[GY_WAY_COUNT] = {
#if defined(__x86_64__)
    [GY_WAY_AVX512] = look_avx512,
    [GY_WAY_AVX2] = look_avx2,
#endif
    [GY_WAY_PLAIN] = look_plain,
};

void gy_csv_find(gy_way way, char delimiter, gy_text_view text, char next, uint32_t *edges,
                 gy_csv_marks *marks)
{
    GY_ASSERT(text.size_bytes <= UINT32_MAX && finds[way] != NULL);
    finds[way](delimiter, text, next, edges, marks);
}

void gy_csv_look(gy_way way, gy_text_view text, char next, gy_csv_cut *cut)
{
    GY_ASSERT(looks[way] != NULL);
    looks[way](text, next, cut);
}

uint64_t gy_csv_count_lines(gy_text_view text, char next)
{
    gy_csv_cut cut;
    gy_csv_look(gy_way_best(), text, next, &cut);
    return cut.row_ends[0] + cut.row_ends[1];
}
