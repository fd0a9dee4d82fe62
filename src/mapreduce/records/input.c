/* Reads files as records: memory-mapped files or parts of them, and expanded files chunk by
 * chunk. */
#include "mapreduce/input.h"

#include "base/base.h"
#include "store/store.h"

#include <string.h>

enum { PIECE_BYTES = 1 << 20, BEYOND_BYTES = 64 << 10, MARK_BYTES = 3 };

#define MARK "\xef\xbb\xbf" /* the byte order mark in UTF-8 */

typedef gy_status (*visit_piece)(gy_input_state *state, const gy_piece_of *piece, size_t *used);

static visit_piece visitor_of(gy_record_format format)
{
    switch (format) {
    case GY_RECORDS_LINES:
    case GY_RECORDS_KEY_VALUE:
        return gy_mapreduce_visit_lines;
    case GY_RECORDS_TEXT:
        return gy_mapreduce_visit_texts;
    case GY_RECORDS_FIXED:
        return gy_mapreduce_visit_fixed;
    case GY_RECORDS_CSV: /* room frame reads it */
        break;
    }
    gy_panic("no record format %d", (int)format);
}

static gy_encoding encoding_of(const gy_input *input)
{
    return gy_store_encoding_for(input->encoding, input->path,
                                 input->format == GY_RECORDS_FIXED);
}

bool gy_input_has_cr_lines(const void *head, size_t size_bytes)
{
    const size_t size = GY_MIN(size_bytes, (size_t)GY_INPUT_LOOK_BYTES);
    return size > 0 && memchr(head, '\n', size) == NULL && memchr(head, '\r', size) != NULL;
}

/* Of CSV '\r' stays, because within quotes it is part of a field. */
static bool has_lines(const gy_input *input)
{
    return input->format != GY_RECORDS_FIXED && input->format != GY_RECORDS_CSV;
}

bool gy_input_asks_for_cr(const gy_input *input)
{
    return has_lines(input) && input->line_end == GY_LINE_END_AUTO;
}

bool gy_input_is_turned(const gy_input *input, const char *head, size_t size)
{
    return (has_lines(input) && input->line_end == GY_LINE_END_ANY) ||
           (gy_input_asks_for_cr(input) && gy_input_has_cr_lines(head, size));
}

size_t gy_input_turn(char *data, size_t begin, size_t size, bool is_last)
{
    const size_t known = is_last || size == 0 ? size : size - 1;
    for (size_t i = begin; i < known; i++) {
        if (data[i] == '\r' && (i + 1 == size || data[i + 1] != '\n')) {
            data[i] = '\n';
        }
    }
    return GY_MAX(begin, known);
}

bool gy_input_can_part(const gy_input *input, const void *head, size_t size_bytes)
{
    return !gy_store_format_is_packed(encoding_of(input), head, size_bytes) &&
           !(gy_input_asks_for_cr(input) && gy_input_has_cr_lines(head, size_bytes));
}

uint64_t gy_input_stream_begin(gy_record_format format, size_t record_bytes, uint64_t begin)
{
    if (begin == 0) {
        return 0;
    }
    return format == GY_RECORDS_FIXED ? (begin + record_bytes - 1) / record_bytes * record_bytes
                                      : begin - 1;
}

gy_status gy_input_check_head(const gy_input *input, const void *head, size_t size_bytes)
{
    const gy_encoding encoding = encoding_of(input);
    if (encoding != GY_ENCODING_AUTO || gy_store_format_is_packed(encoding, head, size_bytes)) {
        return GY_OK;
    }
    return input->format == GY_RECORDS_FIXED
               ? gy_store_format_check(input->path, head, size_bytes)
               : gy_store_format_check_text(input->path, false, head, size_bytes);
}

gy_status gy_input_check_text(const gy_input *input, const char *data, size_t size)
{
    return input->format == GY_RECORDS_FIXED || input->is_made ||
                   input->encoding != GY_ENCODING_AUTO
               ? GY_OK
               : gy_store_format_check_text(input->path, input->is_expanded, data,
                                            GY_MIN(size, (size_t)GY_FORMAT_HEAD_BYTES));
}

/* Some programs write a byte order mark first, which is no part of the first record. Returns
 * the number of bytes to skip. */
static size_t skip_mark(const gy_input *input, gy_piece_of *piece)
{
    if (piece->offset != 0 || piece->size < MARK_BYTES || input->is_made ||
        input->format == GY_RECORDS_FIXED || memcmp(piece->data, MARK, MARK_BYTES) != 0) {
        return 0;
    }
    piece->data += MARK_BYTES;
    piece->size -= MARK_BYTES;
    piece->offset = MARK_BYTES;
    /* a record after the mark belongs to the part that contains the mark's first byte */
    piece->stop = piece->stop > MARK_BYTES ? piece->stop - MARK_BYTES : 1;
    piece->stop = GY_MIN(piece->stop, piece->size);
    return MARK_BYTES;
}

/* Find the first record of the part. */
static size_t first_record(const gy_input *input)
{
    const size_t begin = (size_t)GY_MIN(input->begin, (uint64_t)input->size_bytes);
    if (begin == 0 || begin == input->size_bytes) {
        return begin;
    }
    if (input->format == GY_RECORDS_FIXED) {
        const size_t more =
            (input->record_bytes - begin % input->record_bytes) % input->record_bytes;
        return begin + GY_MIN(more, input->size_bytes - begin);
    }
    const char *newline = memchr(input->data + begin - 1, '\n', input->size_bytes - begin + 1);
    return newline == NULL ? input->size_bytes : (size_t)(newline - input->data) + 1;
}

static gy_status visit_mapped(gy_input_state *state, visit_piece visit)
{
    const gy_input *input = state->input;
    GY_TRY(gy_input_check_text(input, input->data, input->size_bytes));
    if (input->format == GY_RECORDS_FIXED && input->size_bytes % input->record_bytes != 0) {
        const size_t cut = input->size_bytes - input->size_bytes % input->record_bytes;
        return gy_fail(GY_FORMAT, "%s: the record at offset %zu has %zu bytes: expected %zu",
                       input->path, cut, input->size_bytes - cut, input->record_bytes);
    }
    const size_t first = first_record(input);
    if (first >= input->end) {
        return GY_OK;
    }
    gy_piece_of piece = {.data = input->data + first,
                         .size = input->size_bytes - first,
                         .offset = first,
                         .is_last = true,
                         .stop =
                             (size_t)GY_MIN(input->end, (uint64_t)input->size_bytes) - first};
    size_t used = 0;
    (void)skip_mark(input, &piece);
    return visit(state, &piece, &used);
}

/* A stream, with a buffer for incomplete records. */
typedef struct expanding {
    gy_input_fill fill;
    void *arg;
    char *buffer;
    size_t capacity, size;
    uint64_t offset;
    uint64_t end;    /* end of the part; UINT64_MAX: that of the stream */
    bool is_turning; /* replace '\r' by '\n' */
    /* done up to here; at most one byte that follows waits for its successor */
    size_t turned;
} expanding;

/* The bytes that may be visited. */
static size_t ready_of(const expanding *from)
{
    return from->is_turning ? from->turned : from->size;
}

/* How much to read: up to the part's end, though the first time only enough to identify the
 * format; beyond the part's end, where the last record may end, as much as that record has so
 * far. */
static size_t wanted_of(const expanding *from)
{
    const uint64_t at = from->offset + from->size;
    const uint64_t least = at == 0 ? GY_FORMAT_HEAD_BYTES : 1;
    const uint64_t most = at < from->end ? GY_MAX(from->end - at, least)
                                         : GY_MAX(from->size, (uint64_t)BEYOND_BYTES);
    return (size_t)GY_MIN(most, (uint64_t)(from->capacity - from->size));
}

/* Read more bytes after the incomplete record; the buffer grows when one record fills it. */
static gy_status expand_more(const gy_input *input, expanding *from, bool *is_last)
{
    if (from->size == from->capacity) {
        if (from->capacity >= input->record_most) {
            return gy_fail(GY_LIMIT, "%s: the record at offset %llu is longer than %zu bytes",
                           input->path, (unsigned long long)from->offset, input->record_most);
        }
        const size_t larger = GY_MIN(from->capacity * 2, input->record_most);
        char *buffer = gy_resize("mapreduce.input", from->buffer, larger);
        if (buffer == NULL) {
            return GY_NOMEM;
        }
        from->buffer = buffer;
        from->capacity = larger;
    }
    size_t got = 0;
    const size_t wanted = wanted_of(from);
    GY_TRY(from->fill(from->arg, from->buffer + from->size, wanted, &got));
    *is_last = got < wanted;
    /* check the original bytes, before '\r' is replaced */
    if (from->offset == 0 && from->size == 0) {
        GY_TRY(gy_input_check_text(input, from->buffer, got));
        if (from->end == UINT64_MAX) {
            from->is_turning = gy_input_is_turned(input, from->buffer, got);
        }
    }
    from->size += got;
    if (from->is_turning) {
        from->turned = gy_input_turn(from->buffer, from->turned, from->size, *is_last);
    }
    return GY_OK;
}

static void drop(expanding *from, size_t used)
{
    memmove(from->buffer, from->buffer + used, from->size - used);
    from->size -= used;
    from->offset += used;
    from->turned -= from->is_turning ? used : 0;
}

/* Skip the rest of a line that belongs to the previous part. */
static gy_status skip_line(const gy_input *input, expanding *from)
{
    for (bool is_last = false; !is_last;) {
        GY_TRY(expand_more(input, from, &is_last));
        const char *newline = memchr(from->buffer, '\n', ready_of(from));
        if (newline != NULL) {
            drop(from, (size_t)(newline - from->buffer) + 1);
            return GY_OK;
        }
        drop(from, ready_of(from));
    }
    return GY_OK;
}

static gy_status visit_expanding(gy_input_state *state, visit_piece visit, expanding *from)
{
    for (bool is_last = false; !is_last && from->offset < from->end;) {
        GY_TRY(expand_more(state->input, from, &is_last));
        gy_piece_of piece = {
            .data = from->buffer,
            .size = ready_of(from),
            .offset = from->offset,
            .is_last = is_last,
            .stop = (size_t)GY_MIN((uint64_t)ready_of(from), from->end - from->offset)};
        size_t used = 0;
        const size_t mark = skip_mark(state->input, &piece);
        GY_TRY(visit(state, &piece, &used));
        GY_ASSERT(used <= piece.size && (!is_last || used >= piece.stop));
        /* otherwise the mark would be seen again */
        drop(from, used > 0 || is_last ? mark + used : 0);
    }
    return GY_OK;
}

gy_status gy_input_visit_stream(const gy_input *input, gy_input_fill fill, void *fill_arg,
                                gy_record_visit visit, void *arg)
{
    if (input->format == GY_RECORDS_CSV) {
        return gy_mapreduce_visit_csv_stream(input, fill, fill_arg, visit, arg);
    }
    gy_input_state state = {.input = input, .visit = visit, .arg = arg};
    expanding from = {
        .fill = fill,
        .arg = fill_arg,
        .capacity = GY_MIN((size_t)PIECE_BYTES, input->record_most),
        .offset = gy_input_stream_begin(input->format, input->record_bytes, input->begin),
        .end = input->end != 0 ? input->end : UINT64_MAX,
        .is_turning = has_lines(input) && input->line_end == GY_LINE_END_ANY};
    from.buffer = gy_alloc("mapreduce.input", from.capacity);
    if (from.buffer == NULL) {
        return GY_NOMEM;
    }
    const bool is_within = input->begin > 0 && input->format != GY_RECORDS_FIXED;
    gy_status status = is_within ? skip_line(input, &from) : GY_OK;
    if (status >= 0) {
        status = visit_expanding(&state, visitor_of(input->format), &from);
    }
    gy_free(from.buffer);
    return status;
}

static gy_status fill_from_source(void *arg, char *data, size_t wanted, size_t *got)
{
    return gy_source_read(arg, data, wanted, got);
}

/* The rest of a mapped file, from where its part's stream begins. */
typedef struct mapped_rest {
    const char *data;
    size_t size;
} mapped_rest;

static gy_status fill_from_mapped(void *arg, char *data, size_t wanted, size_t *got)
{
    mapped_rest *from = arg;
    *got = GY_MIN(wanted, from->size);
    memcpy(data, from->data, *got);
    from->data += *got;
    from->size -= *got;
    return GY_OK;
}

/* Visit a copy of the data in which '\n' replaces '\r'. */
static gy_status visit_turned(const gy_input *input, gy_record_visit visit, void *arg)
{
    const uint64_t begin =
        gy_input_stream_begin(input->format, input->record_bytes, input->begin);
    if (begin >= input->size_bytes || input->end <= input->begin) {
        return GY_OK;
    }
    mapped_rest rest = {input->data + begin, input->size_bytes - (size_t)begin};
    gy_input stream = *input;
    stream.end = input->end < input->size_bytes ? input->end : 0;
    return gy_input_visit_stream(&stream, fill_from_mapped, &rest, visit, arg);
}

static gy_status visit_compressed(const gy_input *input, gy_record_visit visit, void *arg)
{
    gy_source *source = NULL;
    gy_input expanded = *input;
    expanded.is_expanded = true;
    GY_TRY(
        gy_source_of(input->data, input->size_bytes, input->path, encoding_of(input), &source));
    gy_status status = gy_input_visit_stream(&expanded, fill_from_source, source, visit, arg);
    gy_source_close(source);
    return status;
}

gy_status gy_input_visit(const gy_input *input, gy_record_visit visit, void *arg)
{
    GY_ASSERT(input->format != GY_RECORDS_FIXED || input->record_bytes > 0);
    gy_input_state state = {.input = input, .visit = visit, .arg = arg};
    GY_TRY(gy_input_check_head(input, input->data, input->size_bytes));
    if (!gy_input_can_part(input, input->data, input->size_bytes) &&
        (input->begin > 0 || input->end < input->size_bytes)) {
        return gy_fail(GY_ARG, "%s: bytes %llu to %llu of what cannot be parted", input->path,
                       (unsigned long long)input->begin, (unsigned long long)input->end);
    }
    if (gy_store_format_is_packed(encoding_of(input), input->data, input->size_bytes)) {
        return visit_compressed(input, visit, arg);
    }
    if (input->format == GY_RECORDS_CSV) {
        return gy_mapreduce_visit_csv(input, visit, arg);
    }
    return gy_input_is_turned(input, input->data, input->size_bytes)
               ? visit_turned(input, visit, arg)
               : visit_mapped(&state, visitor_of(input->format));
}
