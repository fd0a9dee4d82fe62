/*
 * Finds fields of lines with bit masks for whitespace and line ends, 64 bytes at a time.
 *
 *   text    1.2.3.4 - GET /a 200\n9.8...
 *   blank   00000001010001001000 1 ...
 *   begins  10000000101000100100 0 1..     not blank, after a blank
 *
 * Field n of a line begins at the n-th bit of `begins` since the line's first byte.
 */
#include "mapreduce/fields.h"
#include "mapreduce/words.h"

#include "base/base.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 64 };

typedef size_t (*find_fields)(const char *text, size_t size, unsigned number, uint32_t *edges,
                              size_t *lines);

/* Bits of a block: whitespace including line ends; line ends alone. */
typedef struct marks {
    uint64_t blank, newline;
} marks;

/* State from block to block. */
typedef struct parse {
    unsigned number, fields; /* number of the wanted field; fields begun in this line */
    bool is_open;            /* the wanted field has begun and not ended */
    uint64_t was_blank;      /* whether the byte before the block is blank */
    uint32_t *out;
} parse;

/* The position of the n-th set bit (from 0). */
static inline unsigned bit_plain(uint64_t bits, unsigned n)
{
    for (; n > 0; n--) {
        bits &= bits - 1;
    }
    return (unsigned)__builtin_ctzll(bits);
}

/*
 * Process the lines of a block. The bits from the lowest one up to and including the line end
 * belong to the line; `bit_of` is inlined for each instruction set.
 */
static inline __attribute__((always_inline)) void
parse_block(parse *at, marks here, uint32_t base, unsigned (*bit_of)(uint64_t, unsigned))
{
    /* bit set: the byte before is blank */
    const uint64_t after = here.blank << 1 | at->was_blank;
    const uint64_t begins = ~here.blank & after, ends = here.blank & ~after;
    uint64_t newlines = here.newline, left = UINT64_MAX;
    at->was_blank = here.blank >> 63;
    for (;;) {
        /* all bits when there is no newline */
        const uint64_t line = left & (newlines ^ (newlines - 1));
        if (at->is_open && (ends & line) != 0) {
            *at->out++ = base + (uint32_t)__builtin_ctzll(ends & line);
            at->is_open = false;
        }
        const unsigned count = (unsigned)__builtin_popcountll(begins & line);
        if (at->fields < at->number && at->fields + count >= at->number) {
            const unsigned bit = bit_of(begins & line, at->number - at->fields - 1);
            const uint64_t end = ends & ~(((uint64_t)2 << bit) - 1);
            *at->out++ = base + bit;
            at->is_open = end == 0;
            if (end != 0) {
                *at->out++ = base + (uint32_t)__builtin_ctzll(end);
            }
        }
        at->fields += count;
        if (newlines == 0) {
            return;
        }
        at->fields = 0;
        left &= ~line;
        newlines &= newlines - 1;
    }
}

#define FIND_WITH(marks_of, bit_of)                                                            \
    uint32_t *const first = edges;                                                             \
    parse at = {.number = number, .was_blank = 1, .out = first};                               \
    char rest[BLOCK];                                                                          \
    size_t ended = 0;                                                                          \
    for (size_t i = 0; i < size; i += BLOCK) {                                                 \
        const char *block = text + i;                                                          \
        if (size - i < BLOCK) {                                                                \
            memset(rest, '\n', BLOCK);                                                         \
            block = memcpy(rest, text + i, size - i);                                          \
        }                                                                                      \
        const marks here = marks_of(block);                                                    \
        const uint64_t own = size - i < BLOCK ? ((uint64_t)1 << (size - i)) - 1 : UINT64_MAX;  \
        ended += (size_t)__builtin_popcountll(here.newline & own);                             \
        parse_block(&at, here, (uint32_t)i, bit_of);                                           \
    }                                                                                          \
    if (at.is_open) {                                                                          \
        *at.out++ = (uint32_t)size;                                                            \
    }                                                                                          \
    *lines = ended + (size > 0 && text[size - 1] != '\n');                                     \
    return (size_t)(at.out - first) / 2

static marks marks_plain(const char *text)
{
    marks here = {0, 0};
    for (int i = 0; i < BLOCK; i++) {
        here.newline |= (uint64_t)(text[i] == '\n') << i;
        here.blank |= (uint64_t)gy_is_blank(text[i]) << i;
    }
    return here;
}

static size_t find_plain(const char *text, size_t size, unsigned number, uint32_t *edges,
                         size_t *lines)
{
    FIND_WITH(marks_plain, bit_plain);
}

#if defined(__x86_64__)
#define AVX2   __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,bmi,bmi2,popcnt")))

AVX2 static inline unsigned bit_avx2(uint64_t bits, unsigned n)
{
    return (unsigned)_tzcnt_u64(_pdep_u64(UINT64_C(1) << n, bits));
}

AVX2 static inline marks marks_of_half(const char *text)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)text);
    const __m256i newline = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\n'));
    const __m256i blank = _mm256_or_si256(
        newline,
        _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(' ')),
                        _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\t')),
                                        _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\r')))));
    return (marks){(uint32_t)_mm256_movemask_epi8(blank),
                   (uint32_t)_mm256_movemask_epi8(newline)};
}

AVX2 static inline marks marks_avx2(const char *text)
{
    const marks low = marks_of_half(text), high = marks_of_half(text + 32);
    return (marks){low.blank | high.blank << 32, low.newline | high.newline << 32};
}

AVX2 static size_t find_avx2(const char *text, size_t size, unsigned number, uint32_t *edges,
                             size_t *lines)
{
    FIND_WITH(marks_avx2, bit_avx2);
}

AVX512 static inline unsigned bit_avx512(uint64_t bits, unsigned n)
{
    return (unsigned)_tzcnt_u64(_pdep_u64(UINT64_C(1) << n, bits));
}

AVX512 static inline marks marks_avx512(const char *text)
{
    const __m512i bytes = _mm512_loadu_si512(text);
    const uint64_t newline = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\n'));
    return (marks){newline | _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(' ')) |
                       _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\t')) |
                       _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\r')),
                   newline};
}

AVX512 static size_t find_avx512(const char *text, size_t size, unsigned number,
                                 uint32_t *edges, size_t *lines)
{
    FIND_WITH(marks_avx512, bit_avx512);
}
#endif

static const find_fields finds[GY_WAY_COUNT] = {
#if defined(__x86_64__)
    [GY_WAY_AVX512] = find_avx512,
    [GY_WAY_AVX2] = find_avx2,
#endif
    [GY_WAY_PLAIN] = find_plain,
};

size_t gy_mapreduce_fields_find_by(gy_way way, const char *text, size_t size, unsigned number,
                                   uint32_t *edges, size_t *lines)
{
    GY_ASSERT(size <= GY_FIELDS_TEXT_BYTES && number > 0 && finds[way] != NULL);
    return finds[way](text, size, number, edges, lines);
}

size_t gy_mapreduce_fields_find(const char *text, size_t size, unsigned number, uint32_t *edges,
                                size_t *lines)
{
    return gy_mapreduce_fields_find_by(gy_way_best(), text, size, number, edges, lines);
}
