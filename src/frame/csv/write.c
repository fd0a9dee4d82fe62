/* Frames written as CSV, and as lines of JSON. */
#include "frame/csv/csv_priv.h"

#include <math.h>
#include <string.h>

enum { FLUSH_BYTES = 256 << 10 };

/* Texts on their way to a sink. */
typedef struct outflow {
    gy_text text;
    gy_store_sink sink;
    void *arg;
} outflow;

static gy_status flush(outflow *out)
{
    GY_TRY(out->text.status);
    const size_t size = out->text.size_bytes;
    out->text.size_bytes = 0;
    return size > 0 ? out->sink(out->arg, out->text.data, size) : GY_OK;
}

static gy_status flush_some(outflow *out)
{
    return out->text.size_bytes >= FLUSH_BYTES ? flush(out) : out->text.status;
}

/* ---- CSV ---- */

static bool needs_quotes(gy_text_view text, char delimiter)
{
    for (size_t i = 0; i < text.size_bytes; i++) {
        const char c = text.data[i];
        if (c == delimiter || c == '"' || c == '\n' || c == '\r') {
            return true;
        }
    }
    /* an empty text would be null, a byte order mark would be skipped */
    return text.size_bytes == 0 || text.data[0] == '\xef';
}

static void add_field(outflow *out, gy_text_view text, char delimiter)
{
    if (!needs_quotes(text, delimiter)) {
        gy_text_add_bytes(&out->text, text.data, text.size_bytes);
        return;
    }
    gy_text_add_bytes(&out->text, "\"", 1);
    const char *from = text.data, *const end = text.data + text.size_bytes;
    while (from < end) {
        const char *quote = memchr(from, '"', (size_t)(end - from));
        const char *to = quote != NULL ? quote + 1 : end;
        gy_text_add_bytes(&out->text, from, (size_t)(to - from));
        gy_text_add_bytes(&out->text, "\"", quote != NULL);
        from = to;
    }
    gy_text_add_bytes(&out->text, "\"", 1);
}

static void add_value(outflow *out, const gy_column *column, int64_t row, char delimiter)
{
    char value[GY_FRAME_VALUE_BYTES];
    if (gy_column_is_null(column, row)) {
        return;
    }
    if (column->field->kind == GY_FIELD_TEXT) {
        add_field(out, gy_column_text(column, row), delimiter);
        return;
    }
    const size_t size = gy_frame_write(column, row, value);
    add_field(out, (gy_text_view){value, size}, delimiter);
}

static gy_status write_rows(const gy_frame *frame, char delimiter, outflow *out)
{
    const int count = gy_schema_count(gy_frame_schema(frame));
    gy_column *columns = gy_alloc("frame.csv", (size_t)count * sizeof(*columns));
    if (columns == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < count; i++) {
        columns[i] = gy_frame_column(frame, i);
    }
    gy_status status = GY_OK;
    for (int64_t row = 0; row < gy_frame_rows(frame) && count > 0 && status == GY_OK; row++) {
        for (int i = 0; i < count; i++) {
            gy_text_add_bytes(&out->text, &delimiter, i > 0);
            add_value(out, &columns[i], row, delimiter);
        }
        gy_text_add_bytes(&out->text, "\n", 1);
        status = flush_some(out);
    }
    gy_free(columns);
    return status;
}

static void add_header(const gy_schema *schema, char delimiter, outflow *out)
{
    const int count = gy_schema_count(schema);
    for (int i = 0; i < count; i++) {
        const char *name = gy_schema_field(schema, i)->name;
        gy_text_add_bytes(&out->text, &delimiter, i > 0);
        add_field(out, (gy_text_view){name, strlen(name)}, delimiter);
    }
    gy_text_add_bytes(&out->text, "\n", count > 0);
}

static gy_status take_options(const gy_csv_write_options *options, gy_csv_write_options *known)
{
    GY_TRY(gy_options_take(gy_csv_write_options, known, options));
    if (known->delimiter == 0) {
        known->delimiter = ',';
    }
    return gy_csv_check_delimiter(known->delimiter);
}

gy_status gy_csv_write(const gy_frame *frame, const gy_csv_write_options *options,
                       gy_store_sink sink, void *arg)
{
    gy_csv_write_options known;
    GY_TRY(take_options(options, &known));
    outflow out = {.sink = sink, .arg = arg};
    if (!known.has_no_header) {
        add_header(gy_frame_schema(frame), known.delimiter, &out);
    }
    gy_status status = write_rows(frame, known.delimiter, &out);
    status = status == GY_OK ? flush(&out) : status;
    gy_text_free(&out.text);
    return status;
}

static gy_status add_to_file(void *arg, const void *data, size_t size_bytes)
{
    return gy_writer_add(arg, data, size_bytes);
}

static gy_status add_packed(void *arg, const void *data, size_t size_bytes)
{
    return gy_compressor_add(arg, data, size_bytes);
}

/* All frames of a sequence. */
static gy_status write_frames(const gy_schema *schema, const gy_frame_source *source,
                              const gy_csv_write_options *options, outflow *out)
{
    if (!options->has_no_header) {
        add_header(schema, options->delimiter, out);
    }
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    while (status == GY_OK && (status = source->next(source->arg, &frame)) == GY_OK) {
        status = write_rows(frame, options->delimiter, out);
        gy_frame_drop(frame);
    }
    return status == GY_DONE ? flush(out) : status;
}

/* The frames through a compressor. */
static gy_status write_packed(gy_encoding encoding, const gy_schema *schema,
                              const gy_frame_source *source,
                              const gy_csv_write_options *options, outflow *out)
{
    gy_compressor *compressor = NULL;
    GY_TRY(gy_compressor_new(encoding, out->sink, out->arg, &compressor));
    out->sink = add_packed;
    out->arg = compressor;
    gy_status status = write_frames(schema, source, options, out);
    status = status == GY_OK ? gy_compressor_end(compressor) : status;
    gy_compressor_free(compressor);
    return status;
}

gy_status gy_csv_save(const char *path, gy_schema *schema, const gy_frame_source *source,
                      const gy_csv_write_options *options)
{
    gy_csv_write_options known;
    gy_writer *writer = NULL;
    outflow out = {.sink = add_to_file};
    gy_status status = take_options(options, &known);
    if (status == GY_OK) {
        status = gy_writer_open(gy_env_real(), path, &writer);
    }
    if (status == GY_OK) {
        out.arg = writer;
        const gy_encoding encoding = gy_encoding_of_name(path);
        status = encoding == GY_ENCODING_PLAIN
                     ? write_frames(schema, source, &known, &out)
                     : write_packed(encoding, schema, source, &known, &out);
    }
    if (source->close != NULL) {
        source->close(source->arg);
    }
    gy_text_free(&out.text);
    if (status < 0) {
        gy_writer_abort(writer);
        return status;
    }
    return gy_writer_finish(writer);
}

/* ---- JSON ---- */

/* A string of JSON with its quotes (RFC 8259, section 7). */
static void add_string(outflow *out, gy_text_view text)
{
    gy_text_add_bytes(&out->text, "\"", 1);
    size_t from = 0;
    for (size_t i = 0; i < text.size_bytes; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        if (c >= ' ' && c != '"' && c != '\\') {
            continue;
        }
        gy_text_add_bytes(&out->text, text.data + from, i - from);
        if (c >= ' ') {
            gy_text_add(&out->text, "\\%c", c);
        } else {
            gy_text_add(&out->text, "\\u%04x", c);
        }
        from = i + 1;
    }
    if (from < text.size_bytes) {
        gy_text_add_bytes(&out->text, text.data + from, text.size_bytes - from);
    }
    gy_text_add_bytes(&out->text, "\"", 1);
}

static bool is_bare(const gy_column *column, int64_t row)
{
    switch (column->field->kind) {
    case GY_FIELD_BOOL:
    case GY_FIELD_INT64:
    case GY_FIELD_DECIMAL:
        return true;
    case GY_FIELD_DOUBLE:
        return isfinite(gy_column_double(column, row));
    case GY_FIELD_DATE:
    case GY_FIELD_TIMESTAMP:
    case GY_FIELD_TEXT:
        break;
    }
    return false;
}

static void add_json(outflow *out, const gy_column *column, int64_t row)
{
    char value[GY_FRAME_VALUE_BYTES];
    if (gy_column_is_null(column, row)) {
        gy_text_add_bytes(&out->text, "null", 4);
        return;
    }
    if (column->field->kind == GY_FIELD_TEXT) {
        add_string(out, gy_column_text(column, row));
        return;
    }
    const size_t size = gy_frame_write(column, row, value);
    if (is_bare(column, row)) {
        gy_text_add_bytes(&out->text, value, size);
    } else {
        add_string(out, (gy_text_view){value, size});
    }
}

gy_status gy_json_write(const gy_frame *frame, gy_store_sink sink, void *arg)
{
    const int count = gy_schema_count(gy_frame_schema(frame));
    outflow out = {.sink = sink, .arg = arg};
    gy_status status = GY_OK;
    for (int64_t row = 0; row < gy_frame_rows(frame) && status == GY_OK; row++) {
        for (int i = 0; i < count; i++) {
            const gy_column column = gy_frame_column(frame, i);
            const char *name = column.field->name;
            gy_text_add_bytes(&out.text, i > 0 ? "," : "{", 1);
            add_string(&out, (gy_text_view){name, strlen(name)});
            gy_text_add_bytes(&out.text, ":", 1);
            add_json(&out, &column, row);
        }
        gy_text_add(&out.text, count > 0 ? "}\n" : "{}\n");
        status = flush_some(&out);
    }
    status = status == GY_OK ? flush(&out) : status;
    gy_text_free(&out.text);
    return status;
}
