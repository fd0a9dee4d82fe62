/* Binary blocks written, each in the smaller of its forms. */
#include "dml/files/blocks.h"

#include <string.h>

static void add_sized(gy_text *text, const char *data, size_t size)
{
    const uint32_t bytes = data != NULL ? (uint32_t)size : UINT32_MAX;
    gy_text_add_bytes(text, &bytes, sizeof(bytes));
    gy_text_add_bytes(text, data, data != NULL ? size : 0);
}

static void describe(gy_text *text, const gy_dml_frame *frame)
{
    for (int64_t j = 0; j < frame->columns; j++) {
        const char *type = gy_dml_column_type_name(frame->items[j]->type);
        const gy_dml_text *name = frame->names != NULL ? frame->names[j] : NULL;
        add_sized(text, type, strlen(type));
        add_sized(text, name != NULL ? name->data : NULL, name != NULL ? name->size : 0);
    }
}

static gy_status write_head(gy_writer *writer, gy_dml_blocks_head *head,
                            const gy_text *description)
{
    gy_hash_stream sum;
    memcpy(head->magic, "GYBLOCKS", sizeof(head->magic));
    head->version = GY_DML_BLOCKS_VERSION;
    head->description_bytes = description->size_bytes;
    gy_hash_begin(&sum);
    gy_hash_feed(&sum, head, offsetof(gy_dml_blocks_head, checksum));
    gy_hash_feed(&sum, gy_text_get(description), description->size_bytes);
    head->checksum = gy_hash_end(&sum);
    GY_TRY(gy_writer_add(writer, head, sizeof(*head)));
    return description->size_bytes > 0
               ? gy_writer_add(writer, description->data, description->size_bytes)
               : GY_OK;
}

static gy_status write_block(gy_writer *writer, const gy_text *payload, uint32_t form,
                             int64_t i)
{
    GY_TRY(payload->status);
    gy_dml_block_head head = {.bytes = payload->size_bytes, .form = form};
    head.checksum = gy_dml_block_sum(&head, gy_text_get(payload), i);
    GY_TRY(gy_writer_add(writer, &head, sizeof(head)));
    return payload->size_bytes > 0 ? gy_writer_add(writer, payload->data, payload->size_bytes)
                                   : GY_OK;
}

static int64_t count_nonzeros(const gy_dml_matrix *matrix, const gy_dml_box *box)
{
    int64_t count = 0;
    for (int64_t i = box->row; i < box->row_end; i++) {
        for (int64_t j = box->column; j < box->column_end; j++) {
            uint64_t bits = 0; /* -0 is kept */
            memcpy(&bits, &matrix->data[i * matrix->columns + j], sizeof(bits));
            count += bits != 0;
        }
    }
    return count;
}

static void add_sparse(gy_text *payload, const gy_dml_matrix *matrix, const gy_dml_box *box)
{
    for (int what = 0; what < 2; what++) { /* the places, then the values */
        uint32_t place = 0;
        for (int64_t i = box->row; i < box->row_end; i++) {
            for (int64_t j = box->column; j < box->column_end; j++, place++) {
                const double *value = &matrix->data[i * matrix->columns + j];
                uint64_t bits = 0;
                memcpy(&bits, value, sizeof(bits));
                if (bits != 0 && what == 0) {
                    gy_text_add_bytes(payload, &place, sizeof(place));
                } else if (bits != 0) {
                    gy_text_add_bytes(payload, value, sizeof(*value));
                }
            }
        }
    }
}

static gy_status write_cells(gy_writer *writer, gy_text *payload, const gy_dml_matrix *matrix,
                             const gy_dml_box *box, int64_t number)
{
    const int64_t cells = (box->row_end - box->row) * (box->column_end - box->column);
    const bool is_sparse = 12 * count_nonzeros(matrix, box) < 8 * cells;
    payload->size_bytes = 0;
    if (is_sparse) {
        add_sparse(payload, matrix, box);
    }
    for (int64_t i = box->row; !is_sparse && i < box->row_end; i++) {
        gy_text_add_bytes(payload, &matrix->data[i * matrix->columns + box->column],
                          (size_t)(box->column_end - box->column) * sizeof(double));
    }
    return write_block(writer, payload, is_sparse, number);
}

gy_status gy_dml_blocks_write_matrix(gy_writer *writer, const gy_dml_meta *meta,
                                     const gy_dml_matrix *matrix)
{
    gy_text payload = {.data = NULL};
    gy_dml_blocks_head head = {.rows = matrix->rows,
                               .columns = matrix->columns,
                               .block_rows = meta->block_rows,
                               .block_columns = meta->block_columns};
    int64_t number = 0;
    gy_status status = write_head(writer, &head, &payload);
    for (int64_t i = 0; i < matrix->rows && status == GY_OK; i += head.block_rows) {
        for (int64_t j = 0; j < matrix->columns && status == GY_OK; j += head.block_columns) {
            const gy_dml_box box = {i, GY_MIN(matrix->rows, i + head.block_rows), j,
                                    GY_MIN(matrix->columns, j + head.block_columns)};
            status = write_cells(writer, &payload, matrix, &box, number++);
        }
    }
    gy_text_free(&payload);
    return status;
}

static gy_status add_texts(gy_text *payload, const gy_dml_column *column, int64_t row,
                           int64_t end)
{
    for (int64_t i = row; i < end; i++) {
        const gy_dml_text *text = column->texts[i];
        if (text != NULL && text->size >= UINT32_MAX) {
            return gy_fail(GY_LIMIT,
                           "write: the text of row %lld has %zu bytes: 2^32 - 2 at most",
                           (long long)i + 1, text->size);
        }
        const uint32_t size = text != NULL ? (uint32_t)text->size : UINT32_MAX;
        gy_text_add_bytes(payload, &size, sizeof(size));
    }
    for (int64_t i = row; i < end; i++) {
        if (column->texts[i] != NULL) {
            gy_text_add_bytes(payload, column->texts[i]->data, column->texts[i]->size);
        }
    }
    return GY_OK;
}

static gy_status write_column(gy_writer *writer, gy_text *payload, const gy_dml_column *column,
                              int64_t row, int64_t end, int64_t number)
{
    payload->size_bytes = 0;
    switch (gy_dml_column_storage(column->type)) {
    case GY_DML_STORES_TEXT:
        GY_TRY(add_texts(payload, column, row, end));
        break;
    case GY_DML_STORES_TRUTH:
        gy_text_add_bytes(payload, column->truths + row, (size_t)(end - row));
        break;
    case GY_DML_STORES_WHOLE:
    case GY_DML_STORES_REAL: /* 8 bytes each, both */
        gy_text_add_bytes(payload, column->wholes + row, (size_t)(end - row) * 8);
        break;
    }
    return write_block(writer, payload, 0, number);
}

gy_status gy_dml_blocks_write_frame(gy_writer *writer, const gy_dml_meta *meta,
                                    const gy_dml_frame *frame)
{
    gy_text payload = {.data = NULL};
    gy_dml_blocks_head head = {.is_frame = 1,
                               .rows = frame->rows,
                               .columns = frame->columns,
                               .block_rows = meta->block_rows,
                               .block_columns = 1};
    int64_t number = 0;
    describe(&payload, frame);
    gy_status status = payload.status;
    status = status == GY_OK ? write_head(writer, &head, &payload) : status;
    for (int64_t i = 0; i < frame->rows && status == GY_OK; i += head.block_rows) {
        for (int64_t j = 0; j < frame->columns && status == GY_OK; j++) {
            status = write_column(writer, &payload, frame->items[j], i,
                                  GY_MIN(frame->rows, i + head.block_rows), number++);
        }
    }
    gy_text_free(&payload);
    return status;
}
