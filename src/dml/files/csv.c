/*
 * CSV as matrices and frames (RFC 4180): fields in quotes may have separators, line ends and
 * doubled quotes. The bytes are cut at records into chunks; one pass over the chunks counts
 * their records, a second one, which knows where each chunk's rows begin, parses them. Both run
 * on all cores. Where the file has a quote, only a look from the start tells what lies in
 * quotes, so that the cuts are then found in one pass on one core.
 */
#include "dml/files/files_priv.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20 };

typedef struct chunk {
    const char *begin, *end;
    int64_t rows, lines; /* counted; then those before it */
    gy_status status;
    char error[512];
} chunk;

typedef struct csv {
    const char *path;
    const gy_dml_meta *meta;
    size_t separator_size;
    bool has_quotes;
    int64_t columns;
    gy_dml_matrix *matrix; /* or */
    gy_dml_frame *frame;
    chunk *chunks;
    size_t count, capacity;
} csv;

typedef struct field {
    const char *text;
    size_t size;
    bool is_quoted, has_doubled; /* quotes inside, each written twice */
} field;

static const char *separator_at(const csv *c, const char *at, const char *end)
{
    const char *found =
        c->separator_size == 1
            ? memchr(at, c->meta->separator[0], (size_t)(end - at))
            : memmem(at, (size_t)(end - at), c->meta->separator, c->separator_size);
    return found != NULL ? found : end;
}

/* Where the quote that opens at `at` closes; NULL: nowhere. */
static const char *closing_quote(const char *at, const char *end)
{
    const char *from = at + 1;
    while (from < end) {
        const char *quote = memchr(from, '"', (size_t)(end - from));
        if (quote == NULL || quote + 1 == end || quote[1] != '"') {
            return quote;
        }
        from = quote + 2; /* two stand for one */
    }
    return NULL;
}

/* The end of the record that begins at `at`: its line end, or `end`. An open quote ends with
 * the bytes. */
static const char *record_end(const csv *c, const char *at, const char *end)
{
    const char *line = memchr(at, '\n', (size_t)(end - at));
    line = line != NULL ? line : end;
    if (!c->has_quotes || memchr(at, '"', (size_t)(line - at)) == NULL) {
        return line;
    }
    for (;;) {
        if (at < end && *at == '"') {
            const char *close = closing_quote(at, end);
            if (close == NULL) {
                return end;
            }
            if (close >= line) { /* line ends in quotes are part of the field */
                line = memchr(close, '\n', (size_t)(end - close));
                line = line != NULL ? line : end;
            }
            at = close;
        }
        at = separator_at(c, at, line);
        if (at >= line) {
            return line;
        }
        at += c->separator_size;
    }
}

static bool is_blank(const char *begin, const char *end)
{
    return begin == end || (end - begin == 1 && *begin == '\r');
}

static int64_t count_line_ends(const char *at, const char *end)
{
    int64_t count = 0;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        count++;
        at++;
    }
    return count;
}

static void count_chunk(void *arg, int64_t i)
{
    csv *c = arg;
    chunk *k = &c->chunks[i];
    for (const char *at = k->begin; at < k->end;) {
        const char *end = record_end(c, at, k->end);
        k->rows += !is_blank(at, end);
        k->lines += end < k->end && !c->has_quotes;
        at = end + (end < k->end);
    }
    if (c->has_quotes) { /* a record may have several */
        k->lines = count_line_ends(k->begin, k->end);
    }
}

static gy_status cut_chunks(csv *c, const char *at, const char *end)
{
    while (at < end) {
        const char *stop = at;
        if (!c->has_quotes) {
            const size_t left = (size_t)(end - at);
            stop = left <= CHUNK_BYTES ? end : record_end(c, at + CHUNK_BYTES, end);
        }
        while (c->has_quotes && stop < end && stop - at < CHUNK_BYTES) {
            stop = record_end(c, stop, end);
            stop += stop < end;
        }
        stop += !c->has_quotes && stop < end;
        GY_TRY(GY_GROW("dml.csv", c->chunks, c->capacity, c->count + 1));
        c->chunks[c->count++] = (chunk){.begin = at, .end = stop};
        at = stop;
    }
    return GY_OK;
}

/* ---- fields ---- */

static gy_status refuse(const csv *c, int64_t line, int64_t column, const char *what,
                        const field *f)
{
    return gy_fail(GY_FORMAT, "%s: line %lld, column %lld: expected %s, found \"%.*s\"",
                   c->path, (long long)line, (long long)column, what, (int)GY_MIN(f->size, 40u),
                   f->text);
}

/* The field at *at of a record; *at is its separator then, or the end. */
static gy_status next_field(const csv *c, const char **at, const char *end, int64_t line,
                            int64_t column, field *f)
{
    if (!c->has_quotes || *at == end || **at != '"') {
        const char *stop = separator_at(c, *at, end);
        *f = (field){.text = *at, .size = (size_t)(stop - *at)};
        while (f->size > 0 && (*f->text == ' ' || *f->text == '\t')) {
            f->text++;
            f->size--;
        }
        while (f->size > 0 && (f->text[f->size - 1] == ' ' || f->text[f->size - 1] == '\t')) {
            f->size--;
        }
        *at = stop;
        return GY_OK;
    }
    const char *close = closing_quote(*at, end);
    *f = (field){.text = *at, .size = (size_t)(end - *at)};
    if (close == NULL) {
        return refuse(c, line, column, "a quote that is closed", f);
    }
    const char *stop = separator_at(c, close, end);
    *f = (field){.text = *at + 1, .size = (size_t)(close - *at - 1), .is_quoted = true};
    f->has_doubled = memchr(f->text, '"', f->size) != NULL;
    *at = stop;
    for (const char *behind = close + 1; behind < stop; behind++) {
        if (*behind != ' ' && *behind != '\t') {
            const field rest = {.text = close + 1, .size = (size_t)(stop - close - 1)};
            return refuse(c, line, column, "a separator behind the quote", &rest);
        }
    }
    return GY_OK;
}

static int64_t count_fields(const csv *c, const char *at, const char *end)
{
    int64_t count = 0;
    field f;
    for (;;) {
        count++;
        if (next_field(c, &at, end, 1, count, &f) != GY_OK || at == end) {
            return count;
        }
        at += c->separator_size;
    }
}

static bool is_na(const gy_dml_meta *meta, const field *f)
{
    for (int i = 0; i < meta->na_count; i++) {
        if (strlen(meta->na_strings[i]) == f->size &&
            memcmp(meta->na_strings[i], f->text, f->size) == 0) {
            return true;
        }
    }
    return false;
}

static gy_status take_number(const csv *c, int64_t line, int64_t column, const field *f,
                             double *value)
{
    if (f->size == 0 && c->meta->is_filled) {
        *value = c->meta->fill_value;
        return GY_OK;
    }
    if (is_na(c->meta, f)) {
        *value = NAN;
        return GY_OK;
    }
    return gy_dml_parse_real(f->text, f->size, value) ? GY_OK
                                                      : refuse(c, line, column, "a number", f);
}

/* A doubled quote is one. */
static gy_status undouble(const field *f, gy_text *text)
{
    for (size_t i = 0; i < f->size; i++) {
        gy_text_add_bytes(text, f->text + i, 1);
        i += f->text[i] == '"';
    }
    return text->status;
}

/* An empty cell is missing, or what `default` says; in quotes it is an empty string. */
static gy_status take_cell(const csv *c, int64_t line, int64_t row, int64_t column,
                           const field *f)
{
    gy_dml_column *to = c->frame->items[column - 1];
    gy_text text = {.data = NULL};
    const bool is_empty = (f->size == 0 && !f->is_quoted) || is_na(c->meta, f);
    gy_status status = GY_OK;
    if (is_empty && c->meta->is_filled && c->meta->fill_value != 0) {
        const gy_dml_value fill = gy_dml_of_real(c->meta->fill_value);
        status = gy_dml_column_set_value(to, row, &fill);
    } else if (is_empty) {
        return GY_OK;
    } else if (f->has_doubled) {
        status = undouble(f, &text);
        status = status == GY_OK
                     ? gy_dml_column_set(to, row, gy_text_get(&text), text.size_bytes)
                     : status;
        gy_text_free(&text);
    } else {
        status = gy_dml_column_set(to, row, f->text, f->size);
    }
    return status == GY_OK || status == GY_NOMEM
               ? status
               : refuse(c, line, column, gy_dml_column_type_name(to->type), f);
}

static gy_status take_record(const csv *c, const char *at, const char *end, int64_t line,
                             int64_t row)
{
    const char *begin = at;
    GY_ASSERT(c->frame != NULL || c->matrix != NULL);
    end -= end > at && end[-1] == '\r';
    for (int64_t j = 0; j < c->columns; j++) {
        field f;
        GY_TRY(next_field(c, &at, end, line, j + 1, &f));
        const bool is_last = j == c->columns - 1;
        if (is_last != (at == end)) {
            return gy_fail(GY_FORMAT, "%s: line %lld has %lld fields, expected %lld", c->path,
                           (long long)line, (long long)count_fields(c, begin, end),
                           (long long)c->columns);
        }
        GY_TRY(c->frame != NULL
                   ? take_cell(c, line, row, j + 1, &f)
                   : take_number(c, line, j + 1, &f, &c->matrix->data[row * c->columns + j]));
        at += is_last ? 0 : c->separator_size;
    }
    return GY_OK;
}

/* A record of plain numbers into a row, in one pass over its bytes; where its line ends. NULL:
 * it has something else. */
static const char *take_numbers(const csv *c, const char *at, const char *end, double *row)
{
    const char separator = c->meta->separator[0];
    for (int64_t j = 0; j < c->columns; j++) {
        if (!gy_dml_take_real(&at, end, &row[j])) {
            return NULL;
        }
        if (j < c->columns - 1) {
            if (at == end || *at != separator) {
                return NULL;
            }
            at++;
        }
    }
    at += at < end && *at == '\r';
    return at == end || *at == '\n' ? at : NULL;
}

static void parse_chunk(void *arg, int64_t i)
{
    const csv *c = arg;
    chunk *k = &c->chunks[i];
    int64_t row = k->rows, line = k->lines;
    const bool is_plain = c->matrix != NULL && !c->has_quotes && c->separator_size == 1 &&
                          c->columns > 0 && c->meta->na_count == 0 &&
                          strchr("0123456789.eE+-\r\n", c->meta->separator[0]) == NULL;
    for (const char *at = k->begin; at < k->end && k->status == GY_OK;) {
        const char *end =
            is_plain ? take_numbers(c, at, k->end, &c->matrix->data[row * c->columns]) : NULL;
        if (end != NULL) {
            row++;
            line++;
            at = end + (end < k->end);
            continue;
        }
        end = record_end(c, at, k->end);
        if (!is_blank(at, end)) {
            k->status = take_record(c, at, end, line, row++);
        }
        line += 1 + (c->has_quotes ? count_line_ends(at, end) : 0);
        at = end + (end < k->end);
    }
    if (k->status != GY_OK) { /* the text belongs to this thread */
        gy_print(k->error, sizeof(k->error), "%s", gy_error_text());
    }
}

/* ---- a file ---- */

/* The first line into the frame's names. */
static gy_status take_names(const csv *c, const char *at, const char *end)
{
    end -= end > at && end[-1] == '\r';
    for (int64_t j = 0; j < c->columns; j++) {
        field f;
        gy_text text = {.data = NULL};
        GY_TRY(next_field(c, &at, end, 1, j + 1, &f));
        gy_status status = f.has_doubled ? undouble(&f, &text) : GY_OK;
        status = status == GY_OK
                     ? gy_dml_frame_set_name(c->frame, j,
                                             f.has_doubled ? gy_text_get(&text) : f.text,
                                             f.has_doubled ? text.size_bytes : f.size)
                     : status;
        gy_text_free(&text);
        GY_TRY(status);
        if ((at == end) != (j == c->columns - 1)) {
            return gy_fail(GY_FORMAT, "%s: line 1, the header, does not have %lld names",
                           c->path, (long long)c->columns);
        }
        at += at < end ? c->separator_size : 0;
    }
    return GY_OK;
}

/* Rows and lines of each chunk become those before it; the rows of all are returned. */
static int64_t add_up(csv *c, int64_t line)
{
    int64_t rows = 0;
    for (size_t i = 0; i < c->count; i++) {
        chunk *k = &c->chunks[i];
        const int64_t own_rows = k->rows, own_lines = k->lines;
        k->rows = rows;
        k->lines = line;
        rows += own_rows;
        line += own_lines;
    }
    return rows;
}

static gy_status make_result(csv *c, int64_t rows)
{
    gy_dml_column_type *types = NULL;
    if (!c->meta->is_frame) {
        return gy_dml_matrix_new(rows, c->columns, &c->matrix);
    }
    GY_TRY(gy_dml_meta_types(c->path, c->meta, c->columns, &types));
    const gy_status status = gy_dml_frame_new(rows, c->columns, types, &c->frame);
    gy_free(types);
    return status;
}

static gy_status first_failure(const csv *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->chunks[i].status != GY_OK) {
            return gy_fail(c->chunks[i].status, "%s", c->chunks[i].error);
        }
    }
    return GY_OK;
}

static gy_status parse(csv *c, gy_dml_bytes bytes)
{
    const char *begin = bytes.data, *end = bytes.data + bytes.size;
    const char *header_end = c->meta->has_header ? record_end(c, begin, end) : begin;
    const char *first = header_end + (c->meta->has_header && header_end < end);
    const int64_t line = 1 + count_line_ends(begin, first);
    GY_TRY(cut_chunks(c, first, end));
    gy_dml_each((int64_t)c->count, count_chunk, c);
    const int64_t rows = add_up(c, line);
    const char *record = first; /* the first one says how many columns there are */
    while (record < end && is_blank(record, record_end(c, record, end))) {
        record = record_end(c, record, end) + 1;
    }
    const bool has_any = rows > 0 || (c->meta->has_header && header_end > begin);
    const char *sample = rows > 0 ? record : begin;
    const char *sample_end = has_any ? record_end(c, sample, end) : sample;
    sample_end -= sample_end > sample && sample_end[-1] == '\r';
    c->columns = c->meta->columns >= 0 ? c->meta->columns
                 : has_any             ? count_fields(c, sample, sample_end)
                                       : 0;
    GY_TRY(gy_dml_check_sizes(c->path, c->meta, rows, c->columns));
    GY_TRY(make_result(c, rows));
    if (c->frame != NULL && c->meta->has_header && header_end > begin) {
        GY_TRY(take_names(c, begin, header_end));
    }
    gy_dml_each((int64_t)c->count, parse_chunk, c);
    return first_failure(c);
}

typedef struct quote_search {
    gy_dml_bytes bytes;
    atomic_bool has_some;
} quote_search;

static void look_for_quotes(void *arg, int64_t i)
{
    quote_search *s = arg;
    const size_t begin = (size_t)i * CHUNK_BYTES;
    /* relaxed: it is read after the threads are joined, before that as a hint */
    if (!atomic_load_explicit(&s->has_some, memory_order_relaxed) &&
        memchr(s->bytes.data + begin, '"',
               GY_MIN(s->bytes.size - begin, (size_t)CHUNK_BYTES)) != NULL) {
        atomic_store_explicit(&s->has_some, true, memory_order_relaxed);
    }
}

static bool has_quotes(gy_dml_bytes bytes)
{
    quote_search s = {.bytes = bytes};
    gy_dml_each((int64_t)((bytes.size + CHUNK_BYTES - 1) / CHUNK_BYTES), look_for_quotes, &s);
    return atomic_load_explicit(&s.has_some, memory_order_relaxed);
}

gy_status gy_dml_csv_parse(gy_dml_bytes bytes, const gy_dml_meta *meta, gy_dml_value *value)
{
    csv c = {.path = bytes.path,
             .meta = meta,
             .separator_size = strlen(meta->separator),
             .has_quotes = has_quotes(bytes)};
    const gy_status status = parse(&c, bytes);
    gy_free(c.chunks);
    if (status != GY_OK) {
        gy_dml_matrix_drop(c.matrix);
        gy_dml_frame_drop(c.frame);
        return status;
    }
    *value = c.frame != NULL ? gy_dml_of_frame(c.frame) : gy_dml_of_matrix(c.matrix);
    return GY_OK;
}
