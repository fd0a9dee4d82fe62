/* Patterns of like. One without '_' is a row of pieces: the first stands at the begin, the last
 * at the end, and the others are found from left to right, which never misses a match. */
#include "query/values/values.h"

#include <string.h>

enum { MANY = 256, ONE }; /* '%' and '_'; below are bytes */

typedef struct piece {
    size_t begin, size; /* in `bytes` */
} piece;

struct gy_like {
    uint16_t *codes; /* (code_count) */
    char *bytes;     /* the bytes without '%' */
    piece *pieces;   /* (piece_count), what stands between '%', also where that is nothing */
    size_t code_count, piece_count;
    bool has_one; /* a '_' */
};

size_t gy_values_step(gy_text_view text, size_t at)
{
    size_t end = at + 1;
    while (end < text.size_bytes && ((unsigned char)text.data[end] & 0xC0) == 0x80) {
        end++;
    }
    return end - at;
}

static bool begins_with(gy_text_view text, size_t at, gy_text_view with)
{
    return with.size_bytes > 0 && text.size_bytes - at >= with.size_bytes &&
           memcmp(text.data + at, with.data, with.size_bytes) == 0;
}

static gy_status read_codes(gy_like *to, gy_text_view pattern, gy_text_view escape)
{
    for (size_t at = 0; at < pattern.size_bytes;) {
        const bool is_escape = begins_with(pattern, at, escape);
        at += is_escape ? escape.size_bytes : 0;
        if (at == pattern.size_bytes) {
            return gy_fail(GY_ARG, "LIKE pattern must not end with escape character: '%.*s'",
                           (int)GY_MIN(pattern.size_bytes, (size_t)100), pattern.data);
        }
        const size_t size = is_escape ? gy_values_step(pattern, at) : 1;
        for (size_t i = 0; i < size; i++, at++) {
            const unsigned char byte = (unsigned char)pattern.data[at];
            const uint16_t code = is_escape     ? byte
                                  : byte == '%' ? (uint16_t)MANY
                                  : byte == '_' ? (uint16_t)ONE
                                                : byte;
            to->has_one = to->has_one || code == ONE;
            to->codes[to->code_count++] = code;
        }
    }
    return GY_OK;
}

static void cut_pieces(gy_like *to)
{
    size_t size = 0;
    to->piece_count = 1;
    to->pieces[0] = (piece){.begin = 0};
    for (size_t i = 0; i < to->code_count; i++) {
        if (to->codes[i] == MANY) {
            to->pieces[to->piece_count++] = (piece){.begin = size};
        } else {
            to->bytes[size++] = (char)to->codes[i];
            to->pieces[to->piece_count - 1].size++;
        }
    }
}

gy_status gy_like_new(gy_text_view pattern, gy_text_view escape, gy_like **out)
{
    const size_t most = pattern.size_bytes + 1;
    gy_like *made = gy_alloc_zero("query.like", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->codes = gy_alloc("query.like", most * sizeof(*made->codes));
    made->bytes = gy_alloc("query.like", most);
    made->pieces = gy_alloc("query.like", most * sizeof(*made->pieces));
    gy_status status = made->codes != NULL && made->bytes != NULL && made->pieces != NULL
                           ? read_codes(made, pattern, escape)
                           : GY_NOMEM;
    if (status < 0) {
        gy_like_free(made);
        return status;
    }
    if (!made->has_one) {
        cut_pieces(made);
    }
    *out = made;
    return GY_OK;
}

void gy_like_free(gy_like *like)
{
    if (like != NULL) {
        gy_free(like->codes);
        gy_free(like->bytes);
        gy_free(like->pieces);
        gy_free(like);
    }
}

static bool match_pieces(const gy_like *like, gy_text_view text)
{
    const piece *first = &like->pieces[0], *last = &like->pieces[like->piece_count - 1];
    if (like->piece_count == 1) {
        return text.size_bytes == first->size &&
               (first->size == 0 || memcmp(text.data, like->bytes, first->size) == 0);
    }
    if (text.size_bytes < first->size + last->size ||
        (first->size > 0 && memcmp(text.data, like->bytes, first->size) != 0) ||
        (last->size > 0 && memcmp(text.data + text.size_bytes - last->size,
                                  like->bytes + last->begin, last->size) != 0)) {
        return false;
    }
    size_t at = first->size;
    const size_t end = text.size_bytes - last->size;
    for (const piece *one = first + 1; one < last; one++) {
        if (one->size == 0) {
            continue;
        }
        const char *found =
            at < end ? memmem(text.data + at, end - at, like->bytes + one->begin, one->size)
                     : NULL;
        if (found == NULL) {
            return false;
        }
        at = (size_t)(found - text.data) + one->size;
    }
    return true;
}

/* After a mismatch the last '%' takes one character more: those before it need not change. */
static bool match_codes(const gy_like *like, gy_text_view text)
{
    size_t at = 0, code = 0, many = SIZE_MAX, taken = 0;
    while (at < text.size_bytes) {
        const int wanted = code < like->code_count ? like->codes[code] : -1;
        if (wanted == MANY) {
            many = code++;
            taken = at;
        } else if (wanted == ONE) {
            at += gy_values_step(text, at);
            code++;
        } else if (wanted == (int)(unsigned char)text.data[at]) {
            at++;
            code++;
        } else if (many != SIZE_MAX) {
            taken += gy_values_step(text, taken);
            at = taken;
            code = many + 1;
        } else {
            return false;
        }
    }
    while (code < like->code_count && like->codes[code] == MANY) {
        code++;
    }
    return code == like->code_count;
}

bool gy_like_match(const gy_like *like, gy_text_view text)
{
    return like->has_one ? match_codes(like, text) : match_pieces(like, text);
}
