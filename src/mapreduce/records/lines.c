/* Lines, texts of whole lines, and records of one size. */
#include "mapreduce/input.h"

#include "base/base.h"

#include <string.h>

enum { TEXT_BYTES = 64 << 10 };

gy_status gy_mapreduce_visit_lines(gy_input_state *state, const gy_piece_of *piece,
                                   size_t *used)
{
    gy_record record = {.file = state->input->path};
    const bool has_keys = state->input->format == GY_RECORDS_KEY_VALUE,
               takes_cr = state->input->line_end != GY_LINE_END_LF;
    size_t at = 0;
    while (at < piece->stop) {
        const char *line = piece->data + at;
        const char *newline = memchr(line, '\n', piece->size - at);
        if (newline == NULL && !piece->is_last) {
            break;
        }
        const size_t whole = newline != NULL ? (size_t)(newline - line) : piece->size - at;
        const size_t size = whole - (takes_cr && whole > 0 && line[whole - 1] == '\r');
        record.offset = piece->offset + at;
        record.data = line;
        record.size = size;
        if (has_keys) {
            const char *tab = memchr(line, '\t', size);
            record.key = line;
            record.key_size = tab != NULL ? (size_t)(tab - line) : size;
            record.data = tab != NULL ? tab + 1 : line + size;
            record.size = tab != NULL ? size - record.key_size - 1 : 0;
        }
        GY_TRY(state->visit(state->arg, &record));
        at += whole + (newline != NULL);
    }
    *used = at;
    return GY_OK;
}

/* How much of the text makes one record: whole lines up to TEXT_BYTES, or one longer line. 0:
 * the line's end has not been read yet. */
static size_t text_size(const gy_piece_of *piece, size_t at)
{
    const char *text = piece->data + at;
    size_t left = piece->size - at;
    const size_t most = GY_MIN(left, (size_t)TEXT_BYTES);
    /* The next part's first line begins after a newline at stop - 1 or later. */
    if (piece->stop < piece->size && at + most >= piece->stop) {
        const char *last =
            memchr(piece->data + piece->stop - 1, '\n', piece->size - piece->stop + 1);
        /* no line end is in the chunk, so only earlier lines are complete */
        if (last == NULL && !piece->is_last) {
            const char *before = memrchr(text, '\n', piece->stop - at);
            return before != NULL ? (size_t)(before - text) + 1 : 0;
        }
        left = (last != NULL ? (size_t)(last - piece->data) + 1 : piece->size) - at;
        if (left <= TEXT_BYTES) {
            return left;
        }
    } else if (left <= TEXT_BYTES && piece->is_last) {
        return left;
    }
    const char *newline = memrchr(text, '\n', most);
    if (newline == NULL) {
        newline = memchr(text + most, '\n', left - most);
    }
    if (newline == NULL) {
        return piece->is_last ? left : 0;
    }
    return (size_t)(newline - text) + 1;
}

gy_status gy_mapreduce_visit_texts(gy_input_state *state, const gy_piece_of *piece,
                                   size_t *used)
{
    gy_record record = {.file = state->input->path};
    size_t at = 0;
    while (at < piece->stop) {
        const size_t size = text_size(piece, at);
        if (size == 0) {
            break;
        }
        record.data = piece->data + at;
        record.size = size;
        record.offset = piece->offset + at;
        GY_TRY(state->visit(state->arg, &record));
        at += size;
    }
    *used = at;
    return GY_OK;
}

gy_status gy_mapreduce_visit_fixed(gy_input_state *state, const gy_piece_of *piece,
                                   size_t *used)
{
    const size_t bytes = state->input->record_bytes;
    gy_record record = {.file = state->input->path, .size = bytes};
    size_t at = 0;
    for (; at < piece->stop && piece->size - at >= bytes; at += bytes) {
        record.data = piece->data + at;
        record.offset = piece->offset + at;
        GY_TRY(state->visit(state->arg, &record));
    }
    if (piece->is_last && at < piece->stop) {
        return gy_fail(GY_FORMAT, "%s: the record at offset %llu has %zu bytes: expected %zu",
                       state->input->path, (unsigned long long)(piece->offset + at),
                       piece->size - at, bytes);
    }
    *used = at;
    return GY_OK;
}
