/* Frames: columns over counted memory, slices of rows, selections of columns. */
#include "frame/frame_priv.h"

#include <string.h>

gy_frame_owner *gy_frame_owner_hold(gy_frame_owner *owner)
{
    const int_fast64_t before =
        atomic_fetch_add_explicit(&owner->holds, 1, memory_order_relaxed);
    GY_ASSERT(before > 0);
    return owner;
}

void gy_frame_owner_drop(gy_frame_owner *owner)
{
    /* acq_rel: what other holders read comes before the free */
    if (owner != NULL &&
        atomic_fetch_sub_explicit(&owner->holds, 1, memory_order_acq_rel) == 1) {
        owner->free(owner);
    }
}

gy_status gy_frame_new(gy_schema *schema, int64_t rows, gy_frame **frame)
{
    GY_ASSERT(rows >= 0);
    const size_t count = (size_t)gy_schema_count(schema);
    gy_frame *made =
        gy_alloc_zero("frame", 1, sizeof(*made) + count * sizeof(made->columns[0]));
    if (made == NULL) {
        return GY_NOMEM;
    }
    atomic_init(&made->holds, 1);
    made->schema = gy_schema_hold(schema);
    made->rows = rows;
    *frame = made;
    return GY_OK;
}

gy_frame *gy_frame_hold(gy_frame *frame)
{
    const int_fast64_t before =
        atomic_fetch_add_explicit(&frame->holds, 1, memory_order_relaxed);
    GY_ASSERT(before > 0);
    return frame;
}

void gy_frame_drop(gy_frame *frame)
{
    if (frame == NULL ||
        atomic_fetch_sub_explicit(&frame->holds, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (int i = 0; i < gy_schema_count(frame->schema); i++) {
        gy_frame_owner_drop(frame->columns[i].owner);
    }
    gy_schema_drop(frame->schema);
    gy_free(frame);
}

gy_schema *gy_frame_schema(const gy_frame *frame)
{
    return frame->schema;
}

int64_t gy_frame_rows(const gy_frame *frame)
{
    return frame->rows;
}

const gy_frame_buffers *gy_frame_buffers_of(const gy_frame *frame, int index)
{
    GY_ASSERT(index >= 0 && index < gy_schema_count(frame->schema));
    return &frame->columns[index];
}

gy_column gy_frame_column(const gy_frame *frame, int index)
{
    const gy_frame_buffers *buffers = gy_frame_buffers_of(frame, index);
    return (gy_column){
        .field = gy_schema_field(frame->schema, index),
        .rows = frame->rows,
        .offset = buffers->offset,
        .valid = buffers->valid,
        .values = buffers->values,
        .text = buffers->text,
    };
}

int64_t gy_column_nulls(const gy_column *column)
{
    if (column->valid == NULL) {
        return 0;
    }
    int64_t row = 0, nulls = 0;
    for (; row < column->rows && ((column->offset + row) & 7) != 0; row++) {
        nulls += gy_column_is_null(column, row);
    }
    for (; column->rows - row >= 64; row += 64) {
        uint64_t bits;
        memcpy(&bits, column->valid + ((column->offset + row) >> 3), sizeof(bits));
        nulls += 64 - __builtin_popcountll(bits);
    }
    for (; row < column->rows; row++) {
        nulls += gy_column_is_null(column, row);
    }
    return nulls;
}

static void share(gy_frame *frame, int index, const gy_frame_buffers *buffers, int64_t offset)
{
    frame->columns[index] = *buffers;
    frame->columns[index].offset += offset;
    gy_frame_owner_hold(buffers->owner);
}

gy_status gy_frame_slice(const gy_frame *frame, int64_t begin, int64_t end, gy_frame **slice)
{
    if (begin < 0 || begin > end || end > frame->rows) {
        return gy_fail(GY_ARG, "rows %lld to %lld of a frame of %lld", (long long)begin,
                       (long long)end, (long long)frame->rows);
    }
    gy_frame *made = NULL;
    GY_TRY(gy_frame_new(frame->schema, end - begin, &made));
    for (int i = 0; i < gy_schema_count(frame->schema); i++) {
        share(made, i, &frame->columns[i], begin);
    }
    *slice = made;
    return GY_OK;
}

/* The schema of some of a frame's columns. */
static gy_status select_schema(const gy_frame *frame, const int *columns, int count,
                               gy_schema **schema)
{
    const int limit = gy_schema_count(frame->schema);
    gy_field *fields = gy_alloc("frame.select", (size_t)count * sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    for (int i = 0; i < count && status == GY_OK; i++) {
        if (columns[i] < 0 || columns[i] >= limit) {
            status = gy_fail(GY_ARG, "column %d of a frame of %d columns", columns[i], limit);
        } else {
            fields[i] = *gy_schema_field(frame->schema, columns[i]);
        }
    }
    status = status == GY_OK ? gy_schema_new(fields, count, schema) : status;
    gy_free(fields);
    return status;
}

gy_status gy_frame_select(const gy_frame *frame, const int *columns, int count,
                          gy_frame **selected)
{
    if (count < 0 || count > GY_FRAME_COLUMNS_MAX) {
        return gy_fail(GY_ARG, "a selection of %d columns", count);
    }
    gy_schema *schema = NULL;
    gy_frame *made = NULL;
    GY_TRY(select_schema(frame, columns, count, &schema));
    const gy_status status = gy_frame_new(schema, frame->rows, &made);
    gy_schema_drop(schema);
    GY_TRY(status);
    for (int i = 0; i < count; i++) {
        share(made, i, &frame->columns[columns[i]], 0);
    }
    *selected = made;
    return GY_OK;
}

gy_status gy_frame_compose(gy_schema *schema, const gy_frame *const *frames, const int *columns,
                           int64_t rows, gy_frame **frame)
{
    gy_frame *made = NULL;
    GY_TRY(gy_frame_new(schema, rows, &made));
    for (int i = 0; i < gy_schema_count(schema); i++) {
        const gy_field *field = gy_schema_field(schema, i);
        const gy_field *had = gy_schema_field(frames[i]->schema, columns[i]);
        GY_ASSERT(frames[i]->rows == rows);
        GY_ASSERT(field->kind == had->kind && field->scale == had->scale);
        share(made, i, gy_frame_buffers_of(frames[i], columns[i]), 0);
    }
    *frame = made;
    return GY_OK;
}
