/* Holds on values, and scalars as other scalars. */
#include "dml/values/frame.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_texts[] = {"nothing",  "an integer", "a double", "a boolean",
                                         "a string", "a matrix",   "a frame",  "a list"};

const char *gy_dml_value_kind_text(gy_dml_value_kind kind)
{
    return kind_texts[kind];
}

gy_status gy_dml_of_text(const char *data, size_t size, gy_dml_value *value)
{
    gy_dml_text *text = gy_alloc("dml.text", sizeof(*text) + size + 1);
    if (text == NULL) {
        return GY_NOMEM;
    }
    atomic_init(&text->holds, 1);
    text->size = size;
    memcpy(text->data, data, size);
    text->data[size] = '\0';
    *value = (gy_dml_value){.kind = GY_DML_IS_TEXT, .text = text};
    return GY_OK;
}

/* The count of a counted value. */
static _Atomic int64_t *holds_of(const gy_dml_value *value)
{
    return value->kind == GY_DML_IS_TEXT     ? &value->text->holds
           : value->kind == GY_DML_IS_MATRIX ? &value->matrix->holds
           : value->kind == GY_DML_IS_FRAME  ? &value->frame->holds
                                             : &value->list->holds;
}

gy_dml_value gy_dml_hold(gy_dml_value value)
{
    if (gy_dml_is_counted(&value)) {
        /* relaxed: who holds it once more had it from a hold */
        atomic_fetch_add_explicit(holds_of(&value), 1, memory_order_relaxed);
    }
    return value;
}

void gy_dml_matrix_drop(gy_dml_matrix *matrix)
{
    gy_dml_value value = gy_dml_of_matrix(matrix);
    if (matrix != NULL) {
        gy_dml_drop(&value);
    }
}

static void list_free(gy_dml_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        gy_dml_drop(&list->items[i]);
        if (list->names != NULL && list->names[i] != NULL) {
            gy_dml_value name = {.kind = GY_DML_IS_TEXT, .text = list->names[i]};
            gy_dml_drop(&name);
        }
    }
    gy_free(list->items);
    gy_free(list->names);
    gy_free(list);
}

void gy_dml_drop_counted(gy_dml_value *value)
{
    /* acquire and release: what other holders wrote is there for who frees it */
    if (atomic_fetch_sub_explicit(holds_of(value), 1, memory_order_acq_rel) == 1) {
        if (value->kind == GY_DML_IS_TEXT) {
            gy_free(value->text);
        } else if (value->kind == GY_DML_IS_MATRIX) {
            gy_tensor_unpin(value->matrix->tensor);
            gy_tensor_drop(value->matrix->tensor);
            gy_free(value->matrix);
        } else if (value->kind == GY_DML_IS_FRAME) {
            gy_dml_frame_free(value->frame);
        } else {
            list_free(value->list);
        }
    }
    value->kind = GY_DML_IS_NOTHING;
}

gy_status gy_dml_matrix_new(int64_t rows, int64_t columns, gy_dml_matrix **matrix)
{
    if (rows < 0 || columns < 0) {
        return gy_fail(GY_ARG,
                       "a matrix of %lldx%lld cannot be: rows and columns are 0 or more",
                       (long long)rows, (long long)columns);
    }
    gy_dml_matrix *made = gy_alloc("dml.matrix", sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    const int64_t sizes[2] = {rows, columns};
    gy_status status = gy_tensor_new(NULL, GY_F64, sizes, 2, &made->tensor);
    if (status != GY_OK) {
        gy_free(made);
        return status;
    }
    atomic_init(&made->holds, 1);
    made->rows = rows;
    made->columns = columns;
    made->data = gy_tensor_pin(made->tensor).data;
    *matrix = made;
    return GY_OK;
}

gy_status gy_dml_matrix_fill(int64_t rows, int64_t columns, double value,
                             gy_dml_matrix **matrix)
{
    GY_TRY(gy_dml_matrix_new(rows, columns, matrix));
    double *data = (*matrix)->data;
    const int64_t count = rows * columns;
    for (int64_t i = 0; i < count; i++) {
        data[i] = value;
    }
    return GY_OK;
}

gy_status gy_dml_matrix_copy(const gy_dml_matrix *from, gy_dml_matrix **matrix)
{
    GY_TRY(gy_dml_matrix_new(from->rows, from->columns, matrix));
    memcpy((*matrix)->data, from->data, (size_t)gy_dml_matrix_count(from) * sizeof(double));
    return GY_OK;
}

gy_status gy_dml_list_new(gy_dml_list **list)
{
    *list = gy_alloc_zero("dml.list", 1, sizeof(**list));
    if (*list == NULL) {
        return GY_NOMEM;
    }
    atomic_init(&(*list)->holds, 1);
    return GY_OK;
}

static gy_status name_item(gy_dml_list *list, const char *name)
{
    if (list->names == NULL) {
        list->names = gy_alloc_zero("dml.list", list->capacity, sizeof(*list->names));
        if (list->names == NULL) {
            return GY_NOMEM;
        }
    }
    gy_dml_value text = GY_DML_NONE;
    GY_TRY(gy_dml_of_text(name, strlen(name), &text));
    list->names[list->count] = text.text;
    return GY_OK;
}

gy_status gy_dml_list_add(gy_dml_list *list, gy_dml_value value, const char *name)
{
    const size_t before = list->capacity;
    GY_TRY(GY_GROW("dml.list", list->items, list->capacity, list->count + 1));
    if (list->names != NULL && list->capacity != before) {
        gy_dml_text **names =
            gy_resize("dml.list", list->names, list->capacity * sizeof(*names));
        if (names == NULL) {
            return GY_NOMEM;
        }
        memset(names + before, 0, (list->capacity - before) * sizeof(*names));
        list->names = names;
    }
    if (name != NULL) {
        GY_TRY(name_item(list, name));
    }
    list->items[list->count++] = gy_dml_hold(value);
    return GY_OK;
}

void gy_dml_list_rename(gy_dml_list *list, size_t item, gy_dml_text *name)
{
    GY_ASSERT(list->names != NULL && item < list->count);
    gy_dml_value before = {.kind = GY_DML_IS_TEXT, .text = list->names[item]};
    const gy_dml_value now = {.kind = GY_DML_IS_TEXT, .text = name};
    list->names[item] = gy_dml_hold(now).text;
    if (before.text != NULL) {
        gy_dml_drop(&before);
    }
}

gy_status gy_dml_list_copy(const gy_dml_list *from, gy_dml_list **list)
{
    gy_dml_list *made = NULL;
    GY_TRY(gy_dml_list_new(&made));
    gy_status status = GY_OK;
    for (size_t i = 0; i < from->count && status == GY_OK; i++) {
        const bool has_name = from->names != NULL && from->names[i] != NULL;
        status = gy_dml_list_add(made, from->items[i], has_name ? from->names[i]->data : NULL);
    }
    if (status != GY_OK) {
        list_free(made);
        return status;
    }
    *list = made;
    return GY_OK;
}

int64_t gy_dml_list_find(const gy_dml_list *list, const char *name)
{
    for (size_t i = 0; list->names != NULL && i < list->count; i++) {
        if (list->names[i] != NULL && strcmp(list->names[i]->data, name) == 0) {
            return (int64_t)i;
        }
    }
    return -1;
}

int64_t gy_dml_whole_of(double real)
{
    return (int64_t)floor(real + 0x1p-53);
}

/* A list of one item serves as the item. */
static const gy_dml_value *plain(const gy_dml_value *value)
{
    while (value->kind == GY_DML_IS_LIST && value->list->count == 1) {
        value = &value->list->items[0];
    }
    return value;
}

static gy_status real_of_text(const char *text, const char *what, double *real)
{
    char *end = NULL;
    errno = 0;
    *real = strtod(text, &end);
    if (end == text || *end != '\0') {
        return gy_fail(GY_TYPE, "%s: expected a number, found the string \"%.60s\"", what,
                       text);
    }
    return GY_OK;
}

gy_status gy_dml_as_real(const gy_dml_value *value, const char *what, double *real)
{
    value = plain(value);
    switch (value->kind) {
    case GY_DML_IS_INTEGER:
        *real = (double)value->whole;
        return GY_OK;
    case GY_DML_IS_REAL:
        *real = value->real;
        return GY_OK;
    case GY_DML_IS_BOOLEAN:
        *real = value->truth ? 1 : 0;
        return GY_OK;
    case GY_DML_IS_TEXT:
        return real_of_text(value->text->data, what, real);
    case GY_DML_IS_MATRIX:
        if (gy_dml_matrix_count(value->matrix) == 1) {
            *real = value->matrix->data[0];
            return GY_OK;
        }
        return gy_fail(GY_TYPE, "%s: expected a number, found a matrix of %lldx%lld", what,
                       (long long)value->matrix->rows, (long long)value->matrix->columns);
    case GY_DML_IS_FRAME:
        if (value->frame->rows == 1 && value->frame->columns == 1) {
            return gy_dml_column_real(value->frame->items[0], 0, real);
        }
        break;
    case GY_DML_IS_NOTHING:
    case GY_DML_IS_LIST:
        break;
    }
    return gy_fail(GY_TYPE, "%s: expected a number, found %s", what,
                   gy_dml_value_kind_text(value->kind));
}

gy_status gy_dml_as_integer(const gy_dml_value *value, const char *what, int64_t *whole)
{
    double real = 0;
    value = plain(value);
    if (value->kind == GY_DML_IS_INTEGER) {
        *whole = value->whole;
        return GY_OK;
    }
    GY_TRY(gy_dml_as_real(value, what, &real));
    if (!(real >= -0x1p63 && real < 0x1p63)) {
        return gy_fail(GY_ARG, "%s: %g is no 64-bit integer", what, real);
    }
    *whole = gy_dml_whole_of(real);
    return GY_OK;
}

gy_status gy_dml_as_boolean(const gy_dml_value *value, const char *what, bool *truth)
{
    double real = 0;
    value = plain(value);
    if (value->kind == GY_DML_IS_BOOLEAN) {
        *truth = value->truth;
        return GY_OK;
    }
    if (value->kind == GY_DML_IS_TEXT) {
        const char *text = value->text->data;
        *truth = strcasecmp(text, "true") == 0;
        return *truth || strcasecmp(text, "false") == 0
                   ? GY_OK
                   : gy_fail(GY_TYPE, "%s: expected TRUE or FALSE, found \"%.60s\"", what,
                             text);
    }
    GY_TRY(gy_dml_as_real(value, what, &real));
    *truth = real != 0;
    return GY_OK;
}

gy_status gy_dml_as_matrix(const gy_dml_value *value, const char *what, gy_dml_matrix **matrix)
{
    value = plain(value);
    if (value->kind == GY_DML_IS_MATRIX) {
        *matrix = gy_dml_hold(*value).matrix;
        return GY_OK;
    }
    double real = 0;
    if (!gy_dml_is_scalar(value)) {
        return gy_fail(GY_TYPE, "%s: expected a matrix, found %s%s", what,
                       gy_dml_value_kind_text(value->kind),
                       value->kind == GY_DML_IS_FRAME ? ": as.matrix makes one of it" : "");
    }
    GY_TRY(gy_dml_as_real(value, what, &real));
    return gy_dml_matrix_fill(1, 1, real, matrix);
}
