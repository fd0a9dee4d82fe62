/* Rows of a window: found by their separators a portion at a time, checked, and given to a
 * visitor in blocks. */
#include "frame/csv/csv_priv.h"

#include <string.h>

/* What is at work of one visit. */
typedef struct row_visit {
    const gy_csv_rows *rows;
    gy_csv_window *window;
    const gy_csv_visitor *visitor;
    uint64_t limit;  /* rows that begin here or later are not visited */
    uint32_t *edges; /* (capacity + slack) behind one of its own; NULL: none yet */
    size_t capacity;
} row_visit;

gy_status gy_csv_place(gy_csv_bytes *bytes, const gy_csv_window *window, size_t at,
                       gy_text *place)
{
    uint64_t line = 0;
    GY_TRY(gy_csv_line(bytes, window, at, &line));
    gy_text_add(place, "%s:%llu", bytes->name, (unsigned long long)line);
    return place->status;
}

gy_status gy_csv_fail(gy_csv_bytes *bytes, const gy_csv_window *window, size_t at,
                      gy_status failure, const char *what)
{
    gy_text place = {.data = NULL};
    gy_status status = gy_csv_place(bytes, window, at, &place);
    if (status == GY_OK) {
        status = gy_fail(failure, "%s: %s", gy_text_get(&place), what);
    }
    gy_text_free(&place);
    return status;
}

static gy_status fail_at(const row_visit *visit, size_t at, gy_status failure, const char *what)
{
    return gy_csv_fail(visit->rows->bytes, visit->window, at, failure, what);
}

/* The row of `fields` fields that begins at a byte of the window. */
static gy_status fail_fields(const row_visit *visit, size_t at, size_t fields)
{
    char what[256];
    (void)gy_print(what, sizeof(what), "%zu field%s in a row: expected %zu as in %s", fields,
                   fields == 1 ? "" : "s", visit->rows->columns, visit->rows->source);
    return fail_at(visit, at, GY_FORMAT, what);
}

static gy_status reserve_edges(row_visit *visit, size_t text_bytes)
{
    if (visit->edges != NULL && visit->capacity >= text_bytes) {
        return GY_OK;
    }
    const size_t count = text_bytes + 2 + GY_CSV_EDGE_SLACK; /* one before, one at the end */
    uint32_t *edges = gy_resize("frame.csv.edges", visit->edges, count * sizeof(*edges));
    if (edges == NULL) {
        return GY_NOMEM;
    }
    edges[0] = UINT32_MAX; /* the first field begins at 0 */
    visit->edges = edges;
    visit->capacity = text_bytes;
    return GY_OK;
}

static bool is_row_end(const gy_text_view *text, uint32_t edge)
{
    return edge == text->size_bytes || text->data[edge] == '\n' || text->data[edge] == '\r';
}

/* The number of fields of the row whose first edge is edges[at], which ends among them. */
static size_t count_fields(const gy_text_view *text, const uint32_t *edges, size_t at)
{
    size_t end = at;
    while (!is_row_end(text, edges[end])) {
        end++;
    }
    return end - at + 1;
}

/* Where the row begins whose first edge is edges[at]. */
static uint32_t row_begin(const uint32_t *edges, size_t at)
{
    return edges[(ptrdiff_t)at - 1] + 1; /* the first of a text at UINT32_MAX + 1 = 0 */
}

static bool is_empty_line(const gy_text_view *text, const uint32_t *edges, size_t at)
{
    const uint32_t begin = row_begin(edges, at), size = edges[at] - begin;
    return size == 0 ? is_row_end(text, edges[at])
                     : size == 1 && text->data[begin] == '\r' && is_row_end(text, edges[at]);
}

/* Give rows of the right number of fields to the visitor. `base`: of the text in the window. */
static gy_status give(const row_visit *visit, const gy_csv_block *block, size_t base)
{
    gy_status status = GY_OK;
    const size_t taken = visit->visitor->take(visit->visitor->arg, block, &status);
    if (status < 0 || taken == block->rows) {
        return status;
    }
    GY_ASSERT(taken < block->rows);
    gy_text place = {.data = NULL};
    const size_t at = base + row_begin(block->edges, taken * block->columns);
    status = gy_csv_place(visit->rows->bytes, visit->window, at, &place);
    if (status == GY_OK) {
        status = visit->visitor->refuse(visit->visitor->arg, block, taken, gy_text_get(&place));
        GY_ASSERT(status < 0);
    }
    gy_text_free(&place);
    return status;
}

/* Check UTF-8 of the first bytes of a text. */
static gy_status check_bytes(const row_visit *visit, const gy_text_view *text, size_t size,
                             size_t base)
{
    size_t wrong = 0;
    if (gy_frame_is_utf8(text->data, size, &wrong)) {
        return GY_OK;
    }
    char what[64];
    const unsigned char byte = (unsigned char)text->data[wrong];
    (void)gy_print(what, sizeof(what), byte == 0 ? "a NUL byte" : "byte 0x%02x is no UTF-8",
                   byte);
    return fail_at(visit, base + wrong, GY_FORMAT, what);
}

/* The rows whose edges are [at, end): all with the right number of fields but for empty lines
 * and the first that fails. */
static gy_status give_slowly(const row_visit *visit, const gy_text_view *text,
                             gy_csv_block block, const size_t range[2])
{
    const uint32_t *const edges = block.edges;
    const size_t columns = visit->rows->columns,
                 base = (size_t)(text->data - visit->window->data);
    size_t at = range[0];
    while (at < range[1]) {
        block.edges = edges + at;
        block.rows = 0;
        size_t fields = 0;
        while (at < range[1] && (fields = count_fields(text, edges, at)) == columns &&
               (columns == 1 || !is_empty_line(text, edges, at))) {
            block.rows++;
            at += columns;
        }
        if (block.rows > 0) {
            GY_TRY(give(visit, &block, base));
        }
        if (at < range[1]) {
            if (!is_empty_line(text, edges, at)) {
                return fail_fields(visit, base + row_begin(edges, at), fields);
            }
            at++;
        }
    }
    return GY_OK;
}

/* Whether the first `count` edges are `rows` rows of `columns` fields each. */
static bool are_even(const gy_text_view *text, const uint32_t *edges, const size_t counts[2],
                     size_t columns)
{
    if (counts[0] != counts[1] * columns) {
        return false;
    }
    /* as many edges end rows as there are rows: these are all */
    for (size_t at = columns - 1; at < counts[0]; at += columns) {
        if (!is_row_end(text, edges[at])) {
            return false;
        }
    }
    return true;
}

/* Cut what was found to rows that begin before the limit and end in the text. counts: edges and
 * rows. */
static void cut_rows(const row_visit *visit, const gy_text_view *text, const uint32_t *edges,
                     size_t counts[2])
{
    while (counts[0] > 0 && !is_row_end(text, edges[counts[0] - 1])) {
        counts[0]--;
    }
    const uint64_t begin = visit->window->offset + (uint64_t)(text->data - visit->window->data);
    const uint64_t left = visit->limit - begin;
    if (left >= text->size_bytes) {
        return;
    }
    /* the last row begins behind the row end before it */
    while (counts[0] > 0) {
        size_t before = counts[0] - 1;
        while (before > 0 && !is_row_end(text, edges[before - 1])) {
            before--;
        }
        if (row_begin(edges, before) < left) {
            return;
        }
        counts[0] = before;
        counts[1]--;
    }
}

gy_status gy_csv_fail_long(const gy_csv_rows *rows, const gy_csv_window *window,
                           const gy_text_view *text)
{
    char size[32] = "1 GB", what[128];
    if (rows->row_bytes_max != GY_CSV_ROW_BYTES_MAX) {
        (void)gy_print(size, sizeof(size), "%zu bytes", rows->row_bytes_max);
    }
    const bool has_quotes = memchr(text->data, '"', text->size_bytes) != NULL;
    (void)gy_print(what, sizeof(what), "a row of more than %s%s", size,
                   has_quotes ? ": is a quote not closed?" : "");
    return gy_csv_fail(rows->bytes, window, (size_t)(text->data - window->data), GY_LIMIT,
                       what);
}

gy_status gy_csv_fail_quote(const gy_csv_rows *rows, const gy_csv_window *window, size_t at)
{
    return gy_csv_fail(rows->bytes, window, at, GY_FORMAT,
                       window->data[at] == '"'
                           ? "a quote within a field that does not begin with one"
                           : "bytes behind a closing quote");
}

/* A text without a row end that is at the file's end, or too long. */
static gy_status fail_open(const row_visit *visit, const gy_text_view *text)
{
    if (text->size_bytes >= visit->rows->row_bytes_max) {
        return gy_csv_fail_long(visit->rows, visit->window, text);
    }
    const char *quote = memrchr(text->data, '"', text->size_bytes);
    return fail_at(visit, (size_t)(quote - visit->window->data), GY_FORMAT,
                   "a quote that is not closed");
}

/* The byte behind a text, as gy_csv_find wants it. */
static char byte_behind(const gy_csv_window *window, const gy_text_view *text, bool is_last)
{
    const char *at = text->data + text->size_bytes;
    if (at < window->data + window->size_bytes) {
        return *at;
    }
    if (is_last) {
        return '\0';
    }
    return '\n'; /* not known: a CR at the end ends nothing */
}

/* Take the rows of a text; `*used` becomes their bytes. */
static gy_status take_text(row_visit *visit, const gy_text_view *text, bool is_last,
                           size_t *used)
{
    gy_csv_marks marks;
    uint32_t *const edges = visit->edges + 1;
    gy_csv_find(visit->rows->way, visit->rows->delimiter, *text,
                byte_behind(visit->window, text, is_last), edges, &marks);
    size_t counts[2] = {marks.edges, marks.row_ends};
    if (is_last && !marks.is_inside && text->size_bytes > 0 &&
        (counts[0] == 0 || edges[counts[0] - 1] + 1 < text->size_bytes ||
         !is_row_end(text, edges[counts[0] - 1]))) {
        edges[counts[0]++] = (uint32_t)text->size_bytes; /* the last row has no line end */
        counts[1]++;
    }
    cut_rows(visit, text, edges, counts);
    const size_t end =
        counts[0] > 0 ? GY_MIN((size_t)edges[counts[0] - 1] + 1, text->size_bytes) : 0;
    const size_t base = (size_t)(text->data - visit->window->data);
    if (marks.has_others) {
        GY_TRY(check_bytes(visit, text, end, base));
    }
    gy_csv_block block = {.text = text->data,
                          .size_bytes = text->size_bytes,
                          .edges = edges,
                          .rows = counts[1],
                          .columns = visit->rows->columns,
                          .has_quotes = marks.has_quotes};
    const bool is_wrong = marks.wrong < end;
    if (counts[1] > 0 && !is_wrong && are_even(text, edges, counts, block.columns)) {
        GY_TRY(give(visit, &block, base));
    } else if (!is_wrong) {
        const size_t range[2] = {0, counts[0]};
        GY_TRY(give_slowly(visit, text, block, range));
    }
    *used = end;
    if (end == 0 && marks.row_ends == 0 && marks.edges >= block.columns) {
        return fail_fields(visit, base, marks.edges + 1); /* so edges stay few */
    }
    /* in the row that is not whole, too, where it is ours */
    const bool is_ours = visit->window->offset + base + end < visit->limit;
    return is_wrong || (marks.wrong != SIZE_MAX && is_ours)
               ? gy_csv_fail_quote(visit->rows, visit->window, base + marks.wrong)
               : GY_OK;
}

/* Take rows of a window up to the limit or until more bytes are needed: `*at` moves on. */
static gy_status take_window(row_visit *visit, size_t *at)
{
    const gy_csv_window *window = visit->window;
    const size_t most = visit->rows->row_bytes_max,
                 portion = GY_MIN((size_t)GY_CSV_PORTION_BYTES, most);
    size_t wanted = portion;
    while (window->offset + *at < visit->limit && *at < window->size_bytes) {
        const size_t left = window->size_bytes - *at, size = GY_MIN(left, wanted);
        const gy_text_view text = {window->data + *at, size};
        const bool is_last = window->is_end && size == left;
        size_t used = 0;
        GY_TRY(reserve_edges(visit, size));
        GY_TRY(take_text(visit, &text, is_last, &used));
        *at += used;
        if (used > 0) {
            wanted = portion;
            continue;
        }
        if (is_last || size >= most) {
            return fail_open(visit, &text);
        }
        if (size == left) {
            return GY_AGAIN;
        }
        wanted = GY_MIN(wanted * 2, most);
    }
    return window->offset + *at < visit->limit && !window->is_end ? GY_AGAIN : GY_OK;
}

gy_status gy_csv_visit(const gy_csv_rows *rows, gy_csv_window *window, uint64_t limit,
                       const gy_csv_visitor *visitor)
{
    GY_ASSERT(rows->columns > 0);
    row_visit visit = {.rows = rows, .window = window, .visitor = visitor, .limit = limit};
    gy_status status = GY_AGAIN;
    size_t at = 0;
    /* the rows that begin before the limit, and the end of the last of them */
    size_t wanted =
        (size_t)GY_MIN(limit - GY_MIN(limit, window->offset), (uint64_t)1 << 30) + 4096;
    while (status == GY_AGAIN) {
        status = gy_csv_fill(rows->bytes, window, wanted);
        if (status == GY_OK) {
            status = take_window(&visit, &at);
        }
        wanted = GY_MAX(window->size_bytes, wanted) +
                 GY_MAX((window->size_bytes - at) * 2, (size_t)GY_CSV_PORTION_BYTES);
    }
    gy_free(visit.edges);
    if (status == GY_OK) {
        gy_csv_skip(rows->bytes, window, at);
    }
    return status;
}
