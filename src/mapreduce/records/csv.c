/* Rows of CSV by RFC 4180: quotes around fields that contain delimiters, quotes (doubled) or
 * line ends. Rows end with LF, CRLF or CR. */
#include "mapreduce/input.h"

#include "base/base.h"

#include <string.h>

typedef enum row_end {
    ROW_WHOLE,
    ROW_CUT,
    ROW_OPEN /* ROW_OPEN: truncated within quotes */,
    ROW_WRONG
} row_end;

typedef struct row {
    size_t size, with_end; /* size without and with the line end */
    int64_t fields;
    uint64_t lines;    /* number of line ends within and after it */
    const char *wrong; /* the error, or NULL */
} row;

/* Find the end of a quoted field whose opening quote is at `at`: the position after its
 * closing quote. */
static row_end skip_quoted(const char *data, size_t size, size_t *at, row *seen)
{
    for (size_t i = *at + 1; i < size; i++) {
        if (data[i] == '\n') {
            seen->lines++;
        } else if (data[i] == '"') {
            if (i + 1 < size && data[i + 1] == '"') {
                i++;
            } else {
                *at = i + 1;
                /* truncated: the next byte may be the second quote of a pair */
                return i + 1 < size ? ROW_WHOLE : ROW_CUT;
            }
        }
    }
    return ROW_OPEN;
}

/* The row ends at `at`: by "\r\n", or by that byte alone. */
static row_end end_row(const char *data, size_t size, size_t at, row *seen)
{
    const bool is_cr = data[at] == '\r', is_last = at + 1 == size;
    seen->size = at;
    seen->with_end = at + 1 + (is_cr && !is_last && data[at + 1] == '\n');
    seen->lines++;
    return is_cr && is_last ? ROW_CUT : ROW_WHOLE; /* truncated: '\n' may follow */
}

static const char *what_is_wrong(char byte, bool is_closed)
{
    return is_closed      ? "bytes behind a closing quote"
           : byte == '\0' ? "a NUL byte"
                          : "a quote within a field that does not begin with one";
}

/* Find the end of the row at `data`. */
static row_end find_row(const char *data, size_t size, const gy_input *input, row *seen)
{
    const char delimiter = input->delimiter,
               cr = input->line_end != GY_LINE_END_LF ? '\r' : '\n';
    *seen = (row){.fields = 1};
    /* is_begin: at a field's begin; is_closed: after its closing quote */
    bool is_begin = true, is_closed = false;
    for (size_t i = 0; i < size; i++) {
        if (is_begin && data[i] == '"') {
            const row_end end = skip_quoted(data, size, &i, seen);
            if (end != ROW_WHOLE) {
                seen->size = seen->with_end = size;
                return end;
            }
            is_closed = true;
        }
        is_begin = false;
        if (data[i] == '\n' || data[i] == cr) {
            return end_row(data, size, i, seen);
        }
        if (data[i] == delimiter) {
            seen->fields++;
            is_begin = true;
            is_closed = false;
        } else if (is_closed || data[i] == '"' || data[i] == '\0') {
            seen->wrong = what_is_wrong(data[i], is_closed);
            return ROW_WRONG;
        }
    }
    seen->size = seen->with_end = size;
    return ROW_CUT;
}

static gy_status fail_row(const gy_input_state *state, const char *what)
{
    return gy_fail(GY_FORMAT, "%s:%llu: %s", state->input->path,
                   (unsigned long long)state->line + 1, what);
}

static gy_status visit_row(gy_input_state *state, const gy_record *record, const row *seen)
{
    if (state->fields < 0) {
        state->fields = seen->fields;
    } else if (state->fields != seen->fields) {
        return gy_fail(GY_FORMAT, "%s:%llu: %lld fields in a row: expected %lld",
                       state->input->path, (unsigned long long)state->line + 1,
                       (long long)seen->fields, (long long)state->fields);
    }
    return state->visit(state->arg, record);
}

gy_status gy_mapreduce_visit_rows(gy_input_state *state, const gy_piece_of *piece, size_t *used)
{
    gy_record record = {.file = state->input->path, .delimiter = state->input->delimiter};
    size_t at = 0;
    while (at < piece->stop) {
        row seen;
        const row_end end = find_row(piece->data + at, piece->size - at, state->input, &seen);
        if (end == ROW_WRONG) {
            return fail_row(state, seen.wrong);
        }
        if (end != ROW_WHOLE && !piece->is_last) {
            break;
        }
        if (end == ROW_OPEN) {
            return fail_row(state, "a quote that is not closed");
        }
        record.data = piece->data + at;
        record.size = seen.size;
        record.offset = piece->offset + at;
        if (seen.size > 0) { /* an empty line is not a row */
            GY_TRY(visit_row(state, &record, &seen));
        }
        state->line += seen.lines;
        at += seen.with_end;
    }
    *used = at;
    return GY_OK;
}
