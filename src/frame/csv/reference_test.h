/*
 * The plain reference of the CSV reader: one byte at a time, one state, no bit masks.
 */
#ifndef GY_FRAME_CSV_REFERENCE_TEST_H
#define GY_FRAME_CSV_REFERENCE_TEST_H

#include "frame/frame.h"

#include "gy_test.h"

enum { REFERENCE_CELLS = 8192, REFERENCE_BYTES = 32768 };

typedef struct reference_cell {
    const char *data; /* in `bytes` */
    size_t size;
    bool is_null;
} reference_cell;

/* Rows of a file, the header's among them; or that it is none. */
typedef struct reference {
    reference_cell cells[REFERENCE_CELLS];
    size_t begins[REFERENCE_CELLS]; /* where each row does in the file */
    size_t rows, columns, count;    /* count: of cells */
    char bytes[REFERENCE_BYTES];    /* of the cells, unquoted */
    size_t used;
    bool is_wrong;
} reference;

/* One row from *at on, which moves behind it; its fields go to `into`. */
static inline size_t reference_row(const char *text, size_t size, char delimiter, size_t *at,
                                   reference *into)
{
    size_t fields = 0;
    for (;;) {
        assert_true(into->count < REFERENCE_CELLS && into->used + size < REFERENCE_BYTES);
        reference_cell *cell = &into->cells[into->count++];
        *cell = (reference_cell){.data = into->bytes + into->used};
        fields++;
        if (*at < size && text[*at] == '"') {
            ++*at;
            for (;; ++*at) {
                if (*at == size) {
                    into->is_wrong = true;
                    return fields;
                }
                if (text[*at] == '"') {
                    if (*at + 1 < size && text[*at + 1] == '"') {
                        ++*at;
                    } else {
                        break;
                    }
                }
                into->bytes[into->used++] = text[*at];
                cell->size++;
            }
            ++*at;
        } else {
            while (*at < size && text[*at] != delimiter && text[*at] != '\n' &&
                   text[*at] != '\r') {
                into->is_wrong = into->is_wrong || text[*at] == '"';
                into->bytes[into->used++] = text[(*at)++];
                cell->size++;
            }
            cell->is_null = cell->size == 0;
        }
        if (*at == size) {
            return fields;
        }
        const char behind = text[(*at)++];
        if (behind == '\r' && *at < size && text[*at] == '\n') {
            ++*at;
        }
        if (behind == '\n' || behind == '\r') {
            return fields;
        }
        if (behind != delimiter) { /* bytes behind a closing quote */
            into->is_wrong = true;
            return fields;
        }
    }
}

/* Read a file. */
static inline void reference_read(const char *text, size_t size, char delimiter,
                                  reference *into)
{
    into->columns = 1;
    into->rows = into->count = into->used = 0;
    size_t wrong = 0;
    into->is_wrong = !gy_frame_is_utf8(text, size, &wrong);
    size_t at = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t look = at; /* the first line that is not empty says how many columns there are */
    while (look < size && (text[look] == '\n' || text[look] == '\r')) {
        look++;
    }
    if (look < size) {
        into->columns = reference_row(text, size, delimiter, &look, into);
        into->count = into->used = 0;
    }
    while (at < size && !into->is_wrong) {
        const size_t begin = at, count = into->count;
        const size_t fields = reference_row(text, size, delimiter, &at, into);
        if (fields == 1 && into->columns > 1 && into->cells[count].is_null) {
            into->count = count; /* an empty line */
            continue;
        }
        into->is_wrong = into->is_wrong || fields != into->columns;
        into->begins[into->rows++] = begin;
    }
}

#endif
