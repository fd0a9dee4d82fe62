/* Functions of frames: made of values, their names and types. */
#include "dml/frame/frame.h"
#include "dml/builtins/builtins_priv.h"

#include <string.h>

static gy_status give_frame(gy_dml_call *call, gy_status status, gy_dml_frame *frame)
{
    if (status == GY_OK) {
        call->results[0] = gy_dml_of_frame(frame);
    }
    return status;
}

/* Argument i, which is a frame. */
static gy_status arg_frame(const gy_dml_call *call, int i, const gy_dml_frame **out)
{
    char name[96];
    if (call->args[i].kind != GY_DML_IS_FRAME) {
        return gy_fail(GY_TYPE, "%s: expected a frame, found %s",
                       gy_dml_arg_name(call, i, name),
                       gy_dml_value_kind_text(call->args[i].kind));
    }
    *out = call->args[i].frame;
    return GY_OK;
}

gy_status gy_dml_run_as_frame(gy_dml_call *call)
{
    gy_dml_frame *out = NULL;
    const gy_status status = gy_dml_as_frame(&call->args[0], "as.frame", &out);
    return give_frame(call, status, out);
}

gy_status gy_dml_run_colnames(gy_dml_call *call)
{
    const gy_dml_frame *frame = NULL;
    gy_dml_frame *out = NULL;
    GY_TRY(arg_frame(call, 0, &frame));
    GY_ASSERT(frame != NULL);
    GY_TRY(gy_dml_frame_new(1, frame->columns, NULL, &out));
    gy_status status = give_frame(call, GY_OK, out);
    for (int64_t j = 0; j < frame->columns && status == GY_OK; j++) {
        gy_text name = {.data = NULL};
        gy_dml_frame_add_name(&name, frame, j);
        status = gy_dml_column_set(out->items[j], 0, gy_text_get(&name), name.size_bytes);
        gy_text_free(&name);
    }
    return status;
}

gy_status gy_dml_run_type_of(gy_dml_call *call)
{
    const gy_dml_frame *frame = NULL;
    gy_dml_frame *out = NULL;
    GY_TRY(arg_frame(call, 0, &frame));
    const gy_status status = gy_dml_schema_row(frame, &out);
    return give_frame(call, status, out);
}

gy_status gy_dml_run_detect_schema(gy_dml_call *call)
{
    const gy_dml_frame *frame = NULL;
    gy_dml_frame *out = NULL;
    GY_TRY(arg_frame(call, 0, &frame));
    const gy_status status = gy_dml_schema_detect(frame, &out);
    return give_frame(call, status, out);
}

/* The types that a row of strings names, for a frame of as many columns; caller frees. */
static gy_status types_of(const gy_dml_call *call, const gy_dml_frame *frame,
                          gy_dml_column_type **types)
{
    const gy_dml_frame *schema = NULL;
    GY_TRY(arg_frame(call, 1, &schema));
    GY_ASSERT(schema != NULL && frame != NULL);
    if (schema->columns != frame->columns) {
        return gy_fail(GY_SHAPE, "%s: the schema has %lld columns, the frame %lld",
                       call->builtin->name, (long long)schema->columns,
                       (long long)frame->columns);
    }
    *types = gy_alloc_zero("dml.types", (size_t)frame->columns + 1, sizeof(**types));
    if (*types == NULL) {
        return GY_NOMEM;
    }
    const gy_status status = gy_dml_schema_take(schema, *types);
    if (status != GY_OK) {
        gy_free(*types);
    }
    return status;
}

gy_status gy_dml_run_apply_schema(gy_dml_call *call)
{
    const gy_dml_frame *frame = NULL;
    gy_dml_column_type *types = NULL;
    gy_dml_frame *out = NULL;
    GY_TRY(arg_frame(call, 0, &frame));
    GY_TRY(types_of(call, frame, &types));
    const gy_status status = gy_dml_schema_apply(frame, types, &out);
    gy_free(types);
    return give_frame(call, status, out);
}

/* ---- dropping what is not valid ---- */

/* A cell becomes missing; of numbers, which have no such value, 0. */
static gy_status drop_cell(gy_dml_frame *frame, int64_t i, int64_t j)
{
    GY_TRY(gy_dml_frame_own(frame, j));
    gy_dml_column *column = frame->items[j];
    if (gy_dml_column_storage(column->type) != GY_DML_STORES_TEXT) {
        return gy_dml_column_set(column, i, "", 0);
    }
    if (column->texts[i] != NULL) {
        gy_dml_value text = {.kind = GY_DML_IS_TEXT, .text = column->texts[i]};
        gy_dml_drop(&text);
        column->texts[i] = NULL;
    }
    return GY_OK;
}

/* SystemDS looks at the kind of type only, and a 0 or 1 serves as any number. */
static bool is_of_type(gy_dml_column_type wanted, const char *text, size_t size)
{
    const gy_dml_column_type found = gy_dml_schema_of_text(text, size);
    const gy_dml_storage storage = gy_dml_column_storage(wanted);
    const bool is_number = storage == GY_DML_STORES_REAL || storage == GY_DML_STORES_WHOLE;
    return storage == GY_DML_STORES_TEXT ? wanted == found
                                         : gy_dml_column_storage(found) == storage ||
                                               (is_number && found == GY_DML_COLUMN_BOOLEAN);
}

static gy_status drop_types(gy_dml_frame *frame, int64_t j, gy_dml_column_type type)
{
    for (int64_t i = 0; i < frame->rows && type != GY_DML_COLUMN_STRING; i++) {
        gy_text cell = {.data = NULL};
        gy_dml_column_add(&cell, frame->items[j], i);
        const char *text = gy_text_get(&cell);
        size_t size = cell.size_bytes;
        while (size > 0 && *text == ' ') {
            text++;
            size--;
        }
        while (size > 0 && text[size - 1] == ' ') {
            size--;
        }
        gy_status status = cell.status;
        if (status == GY_OK && size > 0 && !is_of_type(type, text, size)) {
            status = drop_cell(frame, i, j);
        }
        gy_text_free(&cell);
        GY_TRY(status);
    }
    return GY_OK;
}

/* Characters of UTF-8: the bytes that begin one. */
static int64_t count_characters(const char *text, size_t size)
{
    int64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return count;
}

static gy_status drop_lengths(gy_dml_frame *frame, int64_t j, double length)
{
    for (int64_t i = 0; i < frame->rows && length != -1; i++) {
        gy_text cell = {.data = NULL};
        gy_dml_column_add(&cell, frame->items[j], i);
        gy_status status = cell.status;
        if (status == GY_OK &&
            (double)count_characters(gy_text_get(&cell), cell.size_bytes) > length) {
            status = drop_cell(frame, i, j);
        }
        gy_text_free(&cell);
        GY_TRY(status);
    }
    return GY_OK;
}

static gy_status drop_by_length(gy_dml_call *call, gy_dml_frame *out)
{
    gy_dml_matrix *lengths = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 1, &lengths));
    gy_status status =
        lengths->rows == 1 && lengths->columns == out->columns
            ? GY_OK
            : gy_fail(GY_SHAPE, "dropInvalidLength: lengths: expected 1x%lld, found %lldx%lld",
                      (long long)out->columns, (long long)lengths->rows,
                      (long long)lengths->columns);
    for (int64_t j = 0; j < out->columns && status == GY_OK; j++) {
        status = drop_lengths(out, j, lengths->data[j]);
    }
    gy_dml_matrix_drop(lengths);
    return status;
}

gy_status gy_dml_run_drop_invalid(gy_dml_call *call)
{
    const gy_dml_frame *frame = NULL;
    gy_dml_frame *out = NULL;
    gy_dml_column_type *types = NULL;
    GY_TRY(arg_frame(call, 0, &frame));
    GY_TRY(gy_dml_frame_copy(frame, &out));
    gy_status status = give_frame(call, GY_OK, out);
    if (strcmp(call->builtin->name, "dropInvalidLength") == 0) {
        return drop_by_length(call, out);
    }
    GY_TRY(types_of(call, frame, &types));
    GY_ASSERT(types != NULL);
    for (int64_t j = 0; j < out->columns && status == GY_OK; j++) {
        status = drop_types(out, j, types[j]);
    }
    gy_free(types);
    return status;
}

/* ---- frame(data, rows, cols, schema) ---- */

/* One type for all columns, a list of them, "a,b", or nothing: strings. */
static gy_status take_schema(const gy_dml_call *call, int64_t columns,
                             gy_dml_column_type *types)
{
    const gy_dml_value *schema = &call->args[3];
    gy_text text = {.data = NULL};
    if (schema->kind == GY_DML_IS_NOTHING) {
        return gy_dml_schema_parse("*", columns, types);
    }
    if (schema->kind == GY_DML_IS_LIST) {
        for (size_t i = 0; i < schema->list->count; i++) {
            gy_text_add(&text, "%s", i > 0 ? "," : "");
            gy_dml_add_value(&text, &schema->list->items[i]);
        }
    } else {
        gy_dml_add_value(&text, schema);
    }
    gy_status status = text.status;
    status = status == GY_OK ? gy_dml_schema_parse(gy_text_get(&text), columns, types) : status;
    gy_text_free(&text);
    return status == GY_OK || status == GY_NOMEM ? status : gy_fail_within(status, "frame");
}

static gy_status fill_frame(gy_dml_frame *frame, const gy_dml_value *items, int64_t count)
{
    GY_ASSERT(frame != NULL);
    for (int64_t i = 0; i < frame->rows; i++) {
        for (int64_t j = 0; j < frame->columns; j++) {
            const int64_t at = count == 1                ? 0
                               : count == frame->columns ? j
                                                         : i * frame->columns + j;
            if (!gy_dml_is_scalar(&items[at])) {
                return gy_fail(GY_TYPE, "frame: data: expected scalars, found %s",
                               gy_dml_value_kind_text(items[at].kind));
            }
            const gy_status status = gy_dml_column_set_value(frame->items[j], i, &items[at]);
            if (status != GY_OK) {
                return gy_fail_within(status, "frame: row %lld, column %lld", (long long)i + 1,
                                      (long long)j + 1);
            }
        }
    }
    return GY_OK;
}

gy_status gy_dml_run_frame(gy_dml_call *call)
{
    int64_t rows = 0, columns = 0;
    gy_dml_frame *out = NULL;
    const gy_dml_value *data = &call->args[0];
    const bool is_list = data->kind == GY_DML_IS_LIST;
    const int64_t count = is_list ? (int64_t)data->list->count : 1;
    GY_TRY(gy_dml_arg_integer(call, 1, &rows));
    GY_TRY(gy_dml_arg_integer(call, 2, &columns));
    if (rows < 0 || columns < 0 || columns > INT32_MAX || rows > INT64_MAX / 16 ||
        (count != 1 && count != columns && count != rows * columns)) {
        return gy_fail(GY_SHAPE, "frame: %lld values do not make a frame of %lldx%lld",
                       (long long)count, (long long)rows, (long long)columns);
    }
    gy_dml_column_type *types = gy_alloc_zero("dml.types", (size_t)columns + 1, sizeof(*types));
    gy_status status = types != NULL ? take_schema(call, columns, types) : GY_NOMEM;
    status = status == GY_OK ? gy_dml_frame_new(rows, columns, types, &out) : status;
    gy_free(types);
    GY_TRY(give_frame(call, status, out));
    return fill_frame(out, is_list ? data->list->items : data, count);
}
