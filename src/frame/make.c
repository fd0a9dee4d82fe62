/* Columns in the making: buffers that grow, and the frame that takes them. */
#include "frame/frame_priv.h"

#include <string.h>

enum { ROWS_MIN = 64 };

/* What a made frame's columns lie in: the buffers of all of them. */
typedef struct heap_owner {
    gy_frame_owner base;
    void *buffers[3]; /* values, valid, text */
} heap_owner;

static void free_heap(gy_frame_owner *owner)
{
    heap_owner *heap = (heap_owner *)owner;
    for (size_t i = 0; i < GY_COUNT(heap->buffers); i++) {
        gy_free(heap->buffers[i]);
    }
    gy_free(heap);
}

static size_t value_bytes(const gy_frame_maker *maker, int64_t capacity)
{
    const size_t size = gy_frame_kind_bytes(maker->field.kind);
    return size == 0 ? (size_t)capacity / 8
                     : ((size_t)capacity + (maker->field.kind == GY_FIELD_TEXT)) * size;
}

gy_status gy_frame_maker_reserve(gy_frame_maker *maker, int64_t rows)
{
    GY_ASSERT(rows >= 0);
    if (maker->capacity - maker->rows >= rows && maker->values != NULL) {
        return GY_OK;
    }
    const int64_t wanted =
        GY_MAX(GY_MAX(maker->rows + rows, maker->capacity * 2), (int64_t)ROWS_MIN);
    const int64_t capacity = (int64_t)gy_round_up((size_t)wanted, ROWS_MIN);
    uint8_t *valid = gy_resize("frame.valid", maker->valid, (size_t)capacity / 8);
    if (valid == NULL) {
        return GY_NOMEM;
    }
    maker->valid = valid;
    const size_t had = (size_t)maker->capacity / 8;
    memset(valid + had, 0, (size_t)capacity / 8 - had);
    char *values = gy_resize("frame.values", maker->values, value_bytes(maker, capacity));
    if (values == NULL) {
        return GY_NOMEM;
    }
    if (maker->field.kind == GY_FIELD_BOOL) {
        memset(values + had, 0, (size_t)capacity / 8 - had);
    } else if (maker->field.kind == GY_FIELD_TEXT && maker->values == NULL) {
        memset(values, 0, sizeof(int32_t)); /* the first text begins at 0 */
    }
    maker->values = values;
    maker->capacity = capacity;
    return GY_OK;
}

gy_status gy_frame_maker_reserve_text(gy_frame_maker *maker, size_t size_bytes)
{
    if (size_bytes > (size_t)INT32_MAX - maker->text_bytes) {
        return gy_fail(GY_LIMIT, "column '%s': over 2 GiB of text in one frame",
                       maker->field.name);
    }
    if (maker->text != NULL && maker->text_capacity - maker->text_bytes >= size_bytes) {
        return GY_OK;
    }
    const size_t capacity =
        GY_MAX(maker->text_bytes + size_bytes, GY_MAX(maker->text_capacity * 2, (size_t)256));
    char *text = gy_resize("frame.text", maker->text, capacity);
    if (text == NULL) {
        return GY_NOMEM;
    }
    maker->text = text;
    maker->text_capacity = capacity;
    return GY_OK;
}

void gy_frame_maker_null(gy_frame_maker *maker)
{
    GY_ASSERT(maker->rows < maker->capacity);
    const int64_t row = maker->rows++;
    const size_t size = gy_frame_kind_bytes(maker->field.kind);
    if (maker->field.kind == GY_FIELD_TEXT) {
        ((int32_t *)maker->values)[row + 1] = (int32_t)maker->text_bytes;
    } else if (size > 0) {
        memset((char *)maker->values + (size_t)row * size, 0, size);
    }
    maker->nulls++;
}

void gy_frame_maker_fini(gy_frame_maker *maker)
{
    gy_free(maker->values);
    gy_free(maker->valid);
    gy_free(maker->text);
    *maker = (gy_frame_maker){.field = maker->field};
}

/* Move a maker's buffers under a column. */
static gy_status move(gy_frame_maker *maker, int64_t rows, gy_frame_buffers *column)
{
    GY_ASSERT(maker->rows == rows);
    GY_TRY(gy_frame_maker_reserve(maker, 0)); /* a column without rows has buffers, too */
    if (maker->field.kind == GY_FIELD_TEXT) {
        GY_TRY(gy_frame_maker_reserve_text(maker, 0));
    }
    heap_owner *owner = gy_alloc_zero("frame.owner", 1, sizeof(*owner));
    if (owner == NULL) {
        return GY_NOMEM;
    }
    if (maker->nulls == 0) {
        gy_free(maker->valid);
        maker->valid = NULL;
    }
    *owner = (heap_owner){.base.free = free_heap,
                          .buffers = {maker->values, maker->valid, maker->text}};
    atomic_init(&owner->base.holds, 1);
    *column = (gy_frame_buffers){.owner = &owner->base,
                                 .valid = maker->valid,
                                 .values = maker->values,
                                 .text = maker->text};
    *maker = (gy_frame_maker){.field = maker->field};
    return GY_OK;
}

gy_status gy_frame_make(gy_schema *schema, gy_frame_maker *makers, int64_t rows,
                        gy_frame **frame)
{
    gy_frame *made = NULL;
    gy_status status = gy_frame_new(schema, rows, &made);
    for (int i = 0; i < gy_schema_count(schema); i++) {
        if (status == GY_OK) {
            GY_ASSERT(makers[i].field.kind == gy_schema_field(schema, i)->kind);
            status = move(&makers[i], rows, &made->columns[i]);
        }
        gy_frame_maker_fini(&makers[i]);
    }
    if (status < 0) {
        gy_frame_drop(made);
        return status;
    }
    *frame = made;
    return GY_OK;
}
