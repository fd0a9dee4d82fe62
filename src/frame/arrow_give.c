/* Frames handed out through Arrow's C data interface. */
#include "frame/frame_priv.h"

#include <gyre/arrow.h>

#include <string.h>

/* ---- schemas ---- */

enum { FORMAT_BYTES = 24 };

/* What a schema's struct points at; the children are parts of it, since a child that is moved
 * elsewhere needs nothing but its own texts, each has them in a piece of its own. */
typedef struct schema_part {
    char format[FORMAT_BYTES];
    char name[];
} schema_part;

static void release_field(gy_arrow_schema *self)
{
    gy_free(self->private_data);
    self->release = NULL;
}

static void release_schema(gy_arrow_schema *self)
{
    for (int64_t i = 0; i < self->n_children; i++) {
        gy_arrow_schema *child = self->children[i];
        if (child != NULL && child->release != NULL) {
            child->release(child);
        }
        gy_free(child);
    }
    gy_free(self->children);
    self->release = NULL;
}

static void write_format(const gy_field *field, char format[FORMAT_BYTES])
{
    static const char *const formats[] = {
        [GY_FIELD_BOOL] = "b",   [GY_FIELD_INT64] = "l",           [GY_FIELD_DOUBLE] = "g",
        [GY_FIELD_DATE] = "tdD", [GY_FIELD_TIMESTAMP] = "tsu:UTC", [GY_FIELD_TEXT] = "u",
    };
    if (field->kind == GY_FIELD_DECIMAL) {
        (void)gy_print(format, FORMAT_BYTES, "d:%d,%d", field->precision, field->scale);
    } else {
        (void)gy_print(format, FORMAT_BYTES, "%s", formats[field->kind]);
    }
}

static gy_status give_field(const gy_field *field, gy_arrow_schema **out)
{
    const size_t name_bytes = strlen(field->name) + 1;
    gy_arrow_schema *made = gy_alloc_zero("frame.arrow", 1, sizeof(*made));
    schema_part *part = gy_alloc("frame.arrow", sizeof(*part) + name_bytes);
    if (made == NULL || part == NULL) {
        gy_free(made);
        gy_free(part);
        return GY_NOMEM;
    }
    write_format(field, part->format);
    memcpy(part->name, field->name, name_bytes);
    *made = (gy_arrow_schema){.format = part->format,
                              .name = part->name,
                              .flags = GY_ARROW_NULLABLE,
                              .release = release_field,
                              .private_data = part};
    *out = made;
    return GY_OK;
}

gy_status gy_schema_to_arrow(const gy_schema *schema, gy_arrow_schema *out)
{
    const int count = gy_schema_count(schema);
    gy_arrow_schema made = {.format = "+s", .name = "", .release = release_schema};
    made.children = gy_alloc_zero("frame.arrow", (size_t)count, sizeof(*made.children));
    if (made.children == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < count; i++) {
        const gy_status status = give_field(gy_schema_field(schema, i), &made.children[i]);
        if (status < 0) {
            release_schema(&made);
            return status;
        }
        made.n_children = i + 1;
    }
    *out = made;
    return GY_OK;
}

/* ---- arrays ---- */

/* What a column's array points at. */
typedef struct column_part {
    gy_frame_owner *owner;
    const void *buffers[3];
} column_part;

static void release_column(gy_arrow_array *self)
{
    column_part *part = self->private_data;
    gy_frame_owner_drop(part->owner);
    gy_free(part);
    self->release = NULL;
}

static void release_frame(gy_arrow_array *self)
{
    for (int64_t i = 0; i < self->n_children; i++) {
        gy_arrow_array *child = self->children[i];
        if (child != NULL && child->release != NULL) {
            child->release(child);
        }
        gy_free(child);
    }
    gy_free(self->children);
    gy_free(self->private_data);
    self->release = NULL;
}

static gy_status give_column(const gy_frame *frame, int index, gy_arrow_array **out)
{
    const gy_column column = gy_frame_column(frame, index);
    gy_arrow_array *made = gy_alloc_zero("frame.arrow", 1, sizeof(*made));
    column_part *part = gy_alloc_zero("frame.arrow", 1, sizeof(*part));
    if (made == NULL || part == NULL) {
        gy_free(made);
        gy_free(part);
        return GY_NOMEM;
    }
    *part = (column_part){
        .owner = gy_frame_owner_hold(gy_frame_buffers_of(frame, index)->owner),
        .buffers = {column.valid, column.values, column.text},
    };
    *made = (gy_arrow_array){.length = column.rows,
                             .null_count = column.valid == NULL ? 0 : -1,
                             .offset = column.offset,
                             .n_buffers = column.field->kind == GY_FIELD_TEXT ? 3 : 2,
                             .buffers = part->buffers,
                             .release = release_column,
                             .private_data = part};
    *out = made;
    return GY_OK;
}

gy_status gy_frame_to_arrow(const gy_frame *frame, gy_arrow_array *out)
{
    const int count = gy_schema_count(gy_frame_schema(frame));
    gy_arrow_array made = {
        .length = gy_frame_rows(frame), .n_buffers = 1, .release = release_frame};
    made.children = gy_alloc_zero("frame.arrow", (size_t)count, sizeof(*made.children));
    made.private_data = gy_alloc_zero("frame.arrow", 1, sizeof(*made.buffers));
    made.buffers = made.private_data; /* one, NULL: no row is null */
    gy_status status = made.children != NULL && made.buffers != NULL ? GY_OK : GY_NOMEM;
    for (int i = 0; i < count && status == GY_OK; i++) {
        status = give_column(frame, i, &made.children[i]);
        made.n_children = status == GY_OK ? i + 1 : i;
    }
    if (status < 0) {
        release_frame(&made);
        return status;
    }
    *out = made;
    return GY_OK;
}
