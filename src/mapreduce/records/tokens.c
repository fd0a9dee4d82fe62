/* Splits a record into words or fields for maps. */
#include <gyre/mapreduce.h>

#include "base/base.h"
#include "mapreduce/words.h"

#include <string.h>

#if defined(__SSE2__) && !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
#include <emmintrin.h>
#define HAS_VECTORS 1
#endif

enum { VECTOR = 16, PAGE = 4096 };

/* Byte by byte. */
static gy_word find_plainly(const char *at, const char *end)
{
    while (at < end && gy_is_blank(*at)) {
        at++;
    }
    const char *last = at;
    while (last < end && !gy_is_blank(*last)) {
        last++;
    }
    return (gy_word){at, (size_t)(last - at)};
}

#ifdef HAS_VECTORS
/* A bit for each of 16 bytes that is whitespace. It may read beyond the record's end within
 * the same page. */
static inline unsigned whitespace_at(const char *at)
{
    const __m128i bytes = _mm_loadu_si128((const void *)at);
    const __m128i blank =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')),
                                  _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'))),
                     _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')),
                                  _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\r'))));
    return (unsigned)_mm_movemask_epi8(blank);
}

static inline bool is_readable(const char *at)
{
    return ((uintptr_t)at & (PAGE - 1)) <= PAGE - VECTOR;
}

/* Find the end of the word that contains `at`. */
static const char *find_end(const char *at, const char *end)
{
    while (at < end && is_readable(at)) {
        const unsigned whitespace = whitespace_at(at);
        if (whitespace != 0) {
            at += __builtin_ctz(whitespace);
            return at < end ? at : end;
        }
        at += VECTOR;
    }
    while (at < end && !gy_is_blank(*at)) {
        at++;
    }
    return at < end ? at : end;
}

gy_word gy_word_within(const char *at, const char *end)
{
    while (at < end && is_readable(at)) {
        const unsigned whitespace = whitespace_at(at);
        const unsigned letters = ~whitespace & 0xffff;
        if (letters == 0) {
            at += VECTOR;
            continue;
        }
        const unsigned skipped = (unsigned)__builtin_ctz(letters);
        const char *first = at + skipped;
        if (first >= end) {
            break;
        }
        const unsigned after = whitespace >> skipped;
        const char *last =
            after != 0 ? first + __builtin_ctz(after) : find_end(at + VECTOR, end);
        last = last < end ? last : end;
        return (gy_word){first, (size_t)(last - first)};
    }
    return at < end && !is_readable(at) ? find_plainly(at, end) : (gy_word){end, 0};
}
#else
gy_word gy_word_within(const char *at, const char *end)
{
    return find_plainly(at, end);
}
#endif

/* Get the field that begins at `at`. */
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
