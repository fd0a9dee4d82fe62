/* The first row of a file, which says how many columns there are. */
#include "frame/csv/csv_priv.h"

#include <string.h>

enum { MARK_BYTES = 3 };

/* Some programs write a byte order mark first, which is no part of the first field. */
static gy_status skip_mark(const gy_csv_rows *rows, gy_csv_window *window)
{
    GY_TRY(gy_csv_fill(rows->bytes, window, GY_CSV_PORTION_BYTES));
    if (!rows->is_part && window->size_bytes >= MARK_BYTES &&
        memcmp(window->data, "\xef\xbb\xbf", MARK_BYTES) == 0) {
        gy_csv_skip(rows->bytes, window, MARK_BYTES);
    }
    return GY_OK;
}

/* Bytes to the end of the first line, with it; all, where it does not end. */
static size_t find_line_end(const gy_csv_window *window, bool *has_end)
{
    size_t at = 0;
    while (at < window->size_bytes && window->data[at] != '\n' && window->data[at] != '\r') {
        at++;
    }
    *has_end = at < window->size_bytes;
    return at + (*has_end ? 1 : 0);
}

/* Move the window behind lines that are no rows. Their quotes must be even: whether a line end
 * is one of a row is told by all quotes before it. */
static gy_status skip_lines(const gy_csv_rows *rows, gy_csv_window *window)
{
    bool is_odd = false, has_end = false, has_return = false;
    for (int64_t left = rows->is_part ? 0 : rows->skip_lines; left > 0;) {
        GY_TRY(gy_csv_fill(rows->bytes, window, GY_CSV_PORTION_BYTES));
        if (has_return && window->size_bytes > 0 && window->data[0] == '\n') {
            gy_csv_skip(rows->bytes, window, 1); /* "\r\n" is one end */
            has_return = false;
            continue;
        }
        const size_t size = find_line_end(window, &has_end);
        has_return = has_end && window->data[size - 1] == '\r';
        for (size_t i = 0; i < size; i++) {
            is_odd = is_odd != (window->data[i] == '"');
        }
        left -= has_end;
        if (size == 0) {
            break; /* the file has fewer lines */
        }
        if (left == 0 && is_odd) {
            return gy_csv_fail(rows->bytes, window, 0, GY_FORMAT,
                               "an odd number of double quotes in the lines that are skipped");
        }
        gy_csv_skip(rows->bytes, window, size);
    }
    return GY_OK;
}

/* Fill the window to the first byte that is no line end. */
static gy_status skip_line_ends(const gy_csv_rows *rows, gy_csv_window *window, size_t *at)
{
    size_t wanted = GY_CSV_PORTION_BYTES;
    *at = 0;
    do {
        GY_TRY(gy_csv_fill(rows->bytes, window, wanted));
        while (*at < window->size_bytes &&
               (window->data[*at] == '\n' || window->data[*at] == '\r')) {
            ++*at;
        }
        wanted *= 2;
    } while (*at == window->size_bytes && !window->is_end && wanted <= rows->row_bytes_max);
    return GY_OK;
}

/* Find the row's fields in what the window has of it; GY_AGAIN: more is needed. */
static gy_status find_fields(const gy_csv_rows *rows, const gy_csv_window *window,
                             gy_csv_first *first)
{
    const gy_text_view text = {window->data + first->at, window->size_bytes - first->at};
    uint32_t *edges = gy_resize("frame.csv.edges", first->edges,
                                (text.size_bytes + 2 + GY_CSV_EDGE_SLACK) * sizeof(*edges));
    if (edges == NULL) {
        return GY_NOMEM;
    }
    first->edges = edges;
    *edges++ = UINT32_MAX;
    gy_csv_marks marks;
    gy_csv_find(rows->way, rows->delimiter, text, window->is_end ? '\0' : '\n', edges, &marks);
    size_t count = 0;
    while (count < marks.edges && text.data[edges[count]] == rows->delimiter) {
        count++;
    }
    const bool is_whole = count < marks.edges || window->is_end;
    if (count == marks.edges) {
        edges[count] = (uint32_t)text.size_bytes;
    }
    first->fields = count + 1;
    first->end = first->at + GY_MIN((size_t)edges[count] + 1, text.size_bytes);
    if (marks.wrong < first->end - first->at) {
        return gy_csv_fail_quote(rows, window, first->at + marks.wrong);
    }
    if (count >= GY_FRAME_COLUMNS_MAX) {
        return gy_csv_fail(rows->bytes, window, first->at, GY_LIMIT,
                           "a row of more than 65536 fields");
    }
    if (!is_whole) {
        return text.size_bytes >= rows->row_bytes_max ? gy_csv_fail_long(rows, window, &text)
                                                      : GY_AGAIN;
    }
    return count == marks.edges && marks.is_inside
               ? gy_csv_fail(rows->bytes, window, first->at, GY_FORMAT,
                             "a quote that is not closed")
               : GY_OK;
}

gy_status gy_csv_first_find(const gy_csv_rows *rows, gy_csv_window *window, gy_csv_first *first)
{
    *first = (gy_csv_first){.fields = 0};
    GY_TRY(skip_mark(rows, window));
    GY_TRY(skip_lines(rows, window));
    GY_TRY(skip_line_ends(rows, window, &first->at));
    if (first->at == window->size_bytes) {
        return GY_OK;
    }
    gy_status status = GY_AGAIN;
    for (size_t wanted = window->size_bytes; status == GY_AGAIN; wanted *= 2) {
        GY_TRY(gy_csv_fill(rows->bytes, window, wanted));
        status = find_fields(rows, window, first);
    }
    return status;
}
