/* Values written as text: cells, CSV, MatrixMarket. */
#include "dml/files/files_priv.h"

#include <string.h>

static void add_row(gy_text *text, const gy_dml_meta *meta, const gy_dml_matrix *matrix,
                    int64_t i)
{
    for (int64_t j = 0; j < matrix->columns; j++) {
        const double value = matrix->data[i * matrix->columns + j];
        if (meta->format == GY_DML_FILE_CSV) {
            gy_text_add(text, "%s", j > 0 ? meta->separator : "");
            if (value != 0 || !meta->is_sparse || matrix->columns == 1) { /* no empty line */
                gy_dml_add_real(text, value);
            }
        } else if (value != 0) {
            gy_text_add(text, "%lld %lld ", (long long)i + 1, (long long)j + 1);
            gy_dml_add_real(text, value);
            gy_text_add(text, "\n");
        }
    }
    gy_text_add(text, "%s", meta->format == GY_DML_FILE_CSV ? "\n" : "");
}

static void add_head(gy_text *text, const gy_dml_meta *meta, const gy_dml_matrix *matrix)
{
    if (meta->format == GY_DML_FILE_MARKET) {
        gy_text_add(text, "%%%%MatrixMarket matrix coordinate real general\n%lld %lld %lld\n",
                    (long long)matrix->rows, (long long)matrix->columns,
                    (long long)meta->nonzeros);
    }
    for (int64_t j = 0;
         meta->format == GY_DML_FILE_CSV && meta->has_header && j < matrix->columns; j++) {
        gy_text_add(text, "%sC%lld%s", j > 0 ? meta->separator : "", (long long)j + 1,
                    j == matrix->columns - 1 ? "\n" : "");
    }
}

gy_status gy_dml_write_flush(gy_writer *writer, gy_text *text, bool may_wait)
{
    enum { PIECE = 1 << 16 };
    if (text->status != GY_OK || text->size_bytes == 0 ||
        (may_wait && text->size_bytes < PIECE)) {
        return text->status;
    }
    const gy_status status = gy_writer_add(writer, text->data, text->size_bytes);
    text->size_bytes = 0;
    return status;
}

gy_status gy_dml_write_matrix(gy_writer *writer, const gy_dml_meta *meta,
                              const gy_dml_matrix *matrix)
{
    gy_text text = {.data = NULL};
    add_head(&text, meta, matrix);
    gy_status status = text.status;
    for (int64_t i = 0; i < matrix->rows && status == GY_OK; i++) {
        add_row(&text, meta, matrix, i);
        status = gy_dml_write_flush(writer, &text, i < matrix->rows - 1);
    }
    status = status == GY_OK ? gy_dml_write_flush(writer, &text, false) : status;
    gy_text_free(&text);
    return status;
}

/* A field of CSV: in quotes where it would be read as something else without them. */
static void add_field(gy_text *text, const gy_dml_meta *meta, const char *field, size_t size)
{
    const bool is_plain =
        size > 0 && memchr(field, '"', size) == NULL && memchr(field, '\n', size) == NULL &&
        memchr(field, '\r', size) == NULL && field[0] != ' ' && field[0] != '\t' &&
        field[size - 1] != ' ' && field[size - 1] != '\t' &&
        memmem(field, size, meta->separator, strlen(meta->separator)) == NULL;
    if (is_plain) {
        gy_text_add_bytes(text, field, size);
        return;
    }
    gy_text_add(text, "\"");
    for (size_t i = 0; i < size; i++) {
        gy_text_add_bytes(text, field + i, 1);
        if (field[i] == '"') {
            gy_text_add(text, "\"");
        }
    }
    gy_text_add(text, "\"");
}

static void add_csv_cell(gy_text *text, const gy_dml_meta *meta, const gy_dml_column *column,
                         int64_t i)
{
    if (gy_dml_column_storage(column->type) != GY_DML_STORES_TEXT) {
        gy_dml_column_add(text, column, i);
    } else if (column->texts[i] != NULL) {
        add_field(text, meta, column->texts[i]->data, column->texts[i]->size);
    }
}

/* SystemDS writes only cells that are not what an empty frame has. */
static gy_status add_text_cell(gy_text *text, const gy_dml_column *column, int64_t i, int64_t j)
{
    double real = 0;
    if (gy_dml_column_storage(column->type) == GY_DML_STORES_TEXT) {
        const gy_dml_text *cell = column->texts[i];
        if (cell == NULL) {
            return GY_OK;
        }
        if (memchr(cell->data, '\n', cell->size) != NULL) {
            return gy_fail(GY_UNSUPPORTED,
                           "write: row %lld, column %lld: text cells hold no line end: "
                           "format=\"csv\" does",
                           (long long)i + 1, (long long)j + 1);
        }
    } else {
        GY_TRY(gy_dml_column_real(column, i, &real));
        if (real == 0) {
            return GY_OK;
        }
    }
    gy_text_add(text, "%lld %lld ", (long long)i + 1, (long long)j + 1);
    gy_dml_column_add(text, column, i);
    gy_text_add(text, "\n");
    return GY_OK;
}

static void add_names(gy_text *text, const gy_dml_meta *meta, const gy_dml_frame *frame)
{
    for (int64_t j = 0; j < frame->columns; j++) {
        gy_text name = {.data = NULL};
        gy_dml_frame_add_name(&name, frame, j);
        gy_text_add(text, "%s", j > 0 ? meta->separator : "");
        add_field(text, meta, gy_text_get(&name), name.size_bytes);
        text->status = name.status != GY_OK ? name.status : text->status;
        gy_text_free(&name);
    }
    gy_text_add(text, "\n");
}

static gy_status add_frame_row(gy_text *text, const gy_dml_meta *meta,
                               const gy_dml_frame *frame, int64_t i)
{
    for (int64_t j = 0; j < frame->columns; j++) {
        if (meta->format == GY_DML_FILE_CSV) {
            gy_text_add(text, "%s", j > 0 ? meta->separator : "");
            add_csv_cell(text, meta, frame->items[j], i);
            if (frame->columns == 1 && gy_dml_column_is_missing(frame->items[j], i)) {
                gy_text_add(text, "\"\""); /* an empty line would be no row */
            }
        } else {
            GY_TRY(add_text_cell(text, frame->items[j], i, j));
        }
    }
    gy_text_add(text, "%s", meta->format == GY_DML_FILE_CSV ? "\n" : "");
    return GY_OK;
}

gy_status gy_dml_write_frame(gy_writer *writer, const gy_dml_meta *meta,
                             const gy_dml_frame *frame)
{
    gy_text text = {.data = NULL};
    gy_status status = GY_OK;
    if (meta->format == GY_DML_FILE_CSV && meta->has_header) {
        add_names(&text, meta, frame);
    }
    for (int64_t i = 0; i < frame->rows && status == GY_OK; i++) {
        status = add_frame_row(&text, meta, frame, i);
        status = status == GY_OK ? gy_dml_write_flush(writer, &text, true) : status;
    }
    status = status == GY_OK ? gy_dml_write_flush(writer, &text, false) : status;
    gy_text_free(&text);
    return status;
}
