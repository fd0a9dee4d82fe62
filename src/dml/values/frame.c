/* Frames: columns and their names. */
#include "dml/values/frame.h"

#include <string.h>

gy_status gy_dml_frame_open(int64_t rows, int64_t columns, gy_dml_frame **frame)
{
    if (rows < 0 || columns < 0) {
        return gy_fail(GY_ARG, "a frame of %lldx%lld cannot be: rows and columns are 0 or more",
                       (long long)rows, (long long)columns);
    }
    gy_dml_frame *made = gy_alloc_zero("dml.frame", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    atomic_init(&made->holds, 1);
    made->rows = rows;
    made->items = gy_alloc_zero("dml.frame", (size_t)columns + 1, sizeof(gy_dml_column *));
    if (made->items == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    made->columns = columns;
    *frame = made;
    return GY_OK;
}

gy_status gy_dml_frame_new(int64_t rows, int64_t columns, const gy_dml_column_type *types,
                           gy_dml_frame **frame)
{
    gy_dml_frame *made = NULL;
    GY_TRY(gy_dml_frame_open(rows, columns, &made));
    GY_ASSERT(made != NULL);
    for (int64_t j = 0; j < columns; j++) {
        const gy_status status = gy_dml_column_new(
            types != NULL ? types[j] : GY_DML_COLUMN_STRING, rows, &made->items[j]);
        if (status != GY_OK) {
            gy_dml_frame_drop(made);
            return status;
        }
    }
    *frame = made;
    return GY_OK;
}

static void drop_name(gy_dml_text *name)
{
    if (name != NULL) {
        gy_dml_value value = {.kind = GY_DML_IS_TEXT, .text = name};
        gy_dml_drop(&value);
    }
}

void gy_dml_frame_free(gy_dml_frame *frame)
{
    for (int64_t j = 0; j < frame->columns; j++) {
        gy_dml_column_drop(frame->items[j]);
        drop_name(frame->names != NULL ? frame->names[j] : NULL);
    }
    gy_free(frame->items);
    gy_free(frame->names);
    gy_free(frame);
}

void gy_dml_frame_drop(gy_dml_frame *frame)
{
    if (frame != NULL) {
        gy_dml_value value = gy_dml_of_frame(frame);
        gy_dml_drop(&value);
    }
}

gy_status gy_dml_frame_copy(const gy_dml_frame *from, gy_dml_frame **frame)
{
    gy_dml_frame *made = NULL;
    GY_TRY(gy_dml_frame_open(from->rows, from->columns, &made));
    GY_ASSERT(made != NULL);
    for (int64_t j = 0; j < from->columns; j++) {
        made->items[j] = gy_dml_column_hold(from->items[j]);
    }
    const gy_status status = gy_dml_frame_copy_names(made, from, 0);
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *frame = made;
    return GY_OK;
}

gy_status gy_dml_frame_own(gy_dml_frame *frame, int64_t j)
{
    GY_ASSERT(j >= 0 && j < frame->columns);
    gy_dml_column *column = frame->items[j], *own = NULL;
    if (atomic_load_explicit(&column->holds, memory_order_acquire) == 1) {
        return GY_OK;
    }
    GY_TRY(gy_dml_column_new(column->type, column->count, &own));
    const gy_status status = gy_dml_column_set_cells(own, 0, column, 0, column->count);
    if (status != GY_OK) {
        gy_dml_column_drop(own);
        return status;
    }
    frame->items[j] = own;
    gy_dml_column_drop(column);
    return GY_OK;
}

gy_status gy_dml_frame_set_name(gy_dml_frame *frame, int64_t j, const char *name, size_t size)
{
    gy_dml_value text = GY_DML_NONE;
    if (frame->names == NULL) {
        frame->names =
            gy_alloc_zero("dml.frame", (size_t)frame->columns + 1, sizeof(*frame->names));
        if (frame->names == NULL) {
            return GY_NOMEM;
        }
    }
    GY_TRY(gy_dml_of_text(name, size, &text));
    drop_name(frame->names[j]);
    frame->names[j] = text.text;
    return GY_OK;
}

void gy_dml_frame_add_name(gy_text *text, const gy_dml_frame *frame, int64_t j)
{
    const gy_dml_text *name = frame->names != NULL ? frame->names[j] : NULL;
    if (name != NULL) {
        gy_text_add_bytes(text, name->data, name->size);
    } else {
        gy_text_add(text, "C%lld", (long long)j + 1);
    }
}

gy_status gy_dml_frame_copy_names(gy_dml_frame *to, const gy_dml_frame *from, int64_t begin)
{
    GY_ASSERT(to != NULL && begin >= 0 && begin + to->columns <= from->columns);
    for (int64_t j = 0; from->names != NULL && j < to->columns; j++) {
        const gy_dml_text *name = from->names[begin + j];
        if (name != NULL) {
            GY_TRY(gy_dml_frame_set_name(to, j, name->data, name->size));
        }
    }
    return GY_OK;
}
