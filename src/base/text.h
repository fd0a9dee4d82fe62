/**
 * A growing text. Zero-initialise; a failed append is remembered, so that one check at the end
 * is enough.
 */
#ifndef GY_BASE_TEXT_H
#define GY_BASE_TEXT_H

#include <gyre/base.h>

#include <stdarg.h>

typedef struct gy_text {
    char *data; /* NUL-terminated once anything was added; NULL before */
    size_t size_bytes, capacity;
    gy_status status; /* GY_NOMEM once an append failed */
} gy_text;

void gy_text_add(gy_text *text, const char *format, ...) GY_PRINTF(2, 3);
void gy_text_add_bytes(gy_text *text, const void *data, size_t size_bytes);
void gy_text_free(gy_text *text);

/** The text, never NULL. */
const char *gy_text_get(const gy_text *text);

/** Move the text into `out`, cut to size_bytes > 0 with its NUL ("out of memory\n" when that
 * is what it came to), and free it. Returns `out`. */
const char *gy_text_move(gy_text *text, char *out, size_t size_bytes);

/** Print into `out`, cut to size_bytes > 0 with its NUL. Returns the bytes that stand there
 * without the NUL: always below size_bytes, so it can be added to an offset and be written out,
 * which what snprintf returns (the size that was wanted) cannot. */
size_t gy_print(char *out, size_t size_bytes, const char *format, ...) GY_PRINTF(3, 4);
size_t gy_print_list(char *out, size_t size_bytes, const char *format, va_list args)
    GY_PRINTF(3, 0);
/** As gy_print; false when it was cut. For texts that are data: paths, keys, names. */
GY_MUST_CHECK bool gy_print_whole(char *out, size_t size_bytes, const char *format, ...)
    GY_PRINTF(3, 4);

/* ---- Where in a text that somebody wrote something is wrong ---- */

/** Line and column of a byte, from 1; a column is a byte. `place` beyond the text: its end.
 * @threads any @cost O(place) */
void gy_text_place(const char *source, size_t size_bytes, size_t place, int *line, int *column);

/** Add the line of `source` around `place`, or as much of it as fits, and a caret under the
 * place; what cannot be printed is a blank. */
void gy_text_add_excerpt(gy_text *text, const char *source, size_t size_bytes, size_t place);

/** The Levenshtein distance of two names: bytes to change, insert or delete. What stands behind
 * the first 63 bytes does not count; with `ignores_case`, neither does the case of ASCII
 * letters. @threads any @cost O(product of the sizes) */
int gy_text_distance(const char *a, const char *b, bool ignores_case);

/** Write a count of bytes for people ("1.5 MiB") into `out`; returns `out`. */
const char *gy_text_bytes(char out[32], uint64_t size_bytes);

#endif
