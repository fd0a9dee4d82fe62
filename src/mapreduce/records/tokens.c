/* What maps do to a record: its words, its fields. */
#include <gyre/mapreduce.h>

#include "base/base.h"
#include "mapreduce/words.h"

#include <string.h>

#if defined(__SSE2__) && !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
#include <emmintrin.h>
#define HAS_VECTORS 1
#endif

enum { VECTOR = 16, PAGE = 4096 };

/* The first byte from `at` on that is (not) blank; `end` if there is none. */
static inline const char *find(const char *at, const char *end, bool is_blank)
{
#ifdef HAS_VECTORS
    /* What lies behind the end is in the same page, so it may be read. */
    while (at < end && ((uintptr_t)at & (PAGE - 1)) <= PAGE - VECTOR) {
        const __m128i bytes = _mm_loadu_si128((const void *)at);
        const __m128i blank =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')),
                                      _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'))),
                         _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')));
        const unsigned blanks = (unsigned)_mm_movemask_epi8(blank);
        const unsigned wanted = is_blank ? blanks : ~blanks & 0xffff;
        if (wanted != 0) {
            at += __builtin_ctz(wanted);
            return at < end ? at : end;
        }
        at += VECTOR;
    }
#endif
    while (at < end && gy_is_blank(*at) != is_blank) {
        at++;
    }
    return at < end ? at : end;
}

static inline gy_token word_from(const char *at, const char *end)
{
    const char *first = find(at, end, false), *last = find(first, end, true);
    return (gy_token){.data = first, .size = (size_t)(last - first), .end = end};
}

gy_token gy_first_word(const gy_record *record)
{
    return word_from(record->data, record->data + record->size);
}

gy_token gy_next_word(gy_token word)
{
    return word_from(word.data + word.size, word.end);
}

/* The field that begins at `at`. */
static gy_token field_from(const char *at, const char *end, char delimiter)
{
    gy_token field = {.data = at, .end = end, .delimiter = delimiter};
    const char *last = at;
    if (at < end && *at == '"') {
        for (last = at + 1; last < end; last++) {
            if (*last == '"' && (last + 1 == end || *++last != '"')) {
                break;
            }
        }
        last = last < end && *last == '"' ? last + 1 : last;
    }
    const char *next = memchr(last, delimiter, (size_t)(end - last));
    field.size = (size_t)((next != NULL ? next : end) - at);
    return field;
}

gy_token gy_first_field(const gy_record *record)
{
    return field_from(record->data, record->data + record->size,
                      (char)(record->delimiter != '\0' ? record->delimiter : ','));
}

gy_token gy_next_field(gy_token field)
{
    const char *behind = field.data + field.size;
    if (behind >= field.end) {
        return (gy_token){.data = NULL, .end = field.end, .delimiter = field.delimiter};
    }
    return field_from(behind + 1, field.end, field.delimiter);
}

size_t gy_field_text(gy_token field, char *out)
{
    if (field.size == 0 || field.data[0] != '"') {
        if (field.size > 0) {
            memcpy(out, field.data, field.size);
        }
        return field.size;
    }
    size_t size = 0;
    for (size_t i = 1; i < field.size; i++) {
        if (field.data[i] == '"') {
            if (i + 1 >= field.size || field.data[i + 1] != '"') {
                break;
            }
            i++;
        }
        out[size++] = field.data[i];
    }
    return size;
}
