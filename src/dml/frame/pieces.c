/* Pieces of frames: cut, pasted, bound, kept. */
#include "dml/frame/frame.h"

#include <stdlib.h>
#include <string.h>

gy_status gy_dml_frame_cut(const gy_dml_frame *from, const gy_dml_box *box, gy_dml_frame **out)
{
    gy_dml_frame *made = NULL;
    const int64_t rows = box->row_end - box->row;
    GY_TRY(gy_dml_frame_open(rows, box->column_end - box->column, &made));
    gy_status status = gy_dml_frame_copy_names(made, from, box->column);
    for (int64_t j = 0; j < made->columns && status == GY_OK; j++) {
        gy_dml_column *column = from->items[box->column + j];
        if (rows == from->rows) {
            made->items[j] = gy_dml_column_hold(column);
            continue;
        }
        status = gy_dml_column_new(column->type, rows, &made->items[j]);
        status = status == GY_OK
                     ? gy_dml_column_set_cells(made->items[j], 0, column, box->row, rows)
                     : status;
    }
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}

gy_status gy_dml_frame_paste(gy_dml_frame *to, const gy_dml_box *box, const gy_dml_frame *from)
{
    for (int64_t j = 0; j < from->columns; j++) {
        GY_TRY(gy_dml_frame_own(to, box->column + j));
        const gy_status status = gy_dml_column_set_cells(to->items[box->column + j], box->row,
                                                         from->items[j], 0, from->rows);
        if (status != GY_OK) {
            return gy_fail_within(status, "column %lld", (long long)(box->column + j) + 1);
        }
    }
    return GY_OK;
}

gy_status gy_dml_frame_paste_value(gy_dml_frame *to, const gy_dml_box *box,
                                   const gy_dml_value *value)
{
    for (int64_t j = box->column; j < box->column_end; j++) {
        GY_TRY(gy_dml_frame_own(to, j));
        for (int64_t i = box->row; i < box->row_end; i++) {
            const gy_status status = gy_dml_column_set_value(to->items[j], i, value);
            if (status != GY_OK) {
                return gy_fail_within(status, "row %lld, column %lld", (long long)i + 1,
                                      (long long)j + 1);
            }
        }
    }
    return GY_OK;
}

/* Cells of two columns of one type: by bits, texts by what they say. */
static bool is_same(const gy_dml_column *a, const gy_dml_column *b, int64_t i)
{
    switch (gy_dml_column_storage(a->type)) {
    case GY_DML_STORES_TRUTH:
        return a->truths[i] == b->truths[i];
    case GY_DML_STORES_WHOLE:
    case GY_DML_STORES_REAL: /* the bits: NaN is equal to itself here */
        return a->wholes[i] == b->wholes[i];
    case GY_DML_STORES_TEXT:
        break;
    }
    const gy_dml_text *x = a->texts[i], *y = b->texts[i];
    return x == y || (x != NULL && y != NULL && x->size == y->size &&
                      memcmp(x->data, y->data, x->size) == 0);
}

gy_status gy_dml_frame_merge(gy_dml_frame *to, const gy_dml_frame *before,
                             const gy_dml_frame *made)
{
    GY_ASSERT(to->columns == made->columns && before->columns == made->columns);
    GY_ASSERT(to->rows == made->rows && before->rows == made->rows);
    for (int64_t j = 0; j < made->columns; j++) {
        const gy_dml_column *old = before->items[j], *new = made->items[j];
        if (old == new) {
            continue;
        }
        GY_TRY(gy_dml_frame_own(to, j));
        for (int64_t i = 0; i < made->rows; i++) {
            if (old->type != new->type || !is_same(old, new, i)) {
                GY_TRY(gy_dml_column_set_cells(to->items[j], i, new, i, 1));
            }
        }
    }
    return GY_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* SystemDS lets a frame have the names of its parts only where no two are equal. */
static gy_status name_parts(gy_dml_frame *to, gy_dml_frame *const *parts, int count)
{
    bool has_names = false, is_unique = true;
    for (int k = 0; k < count; k++) {
        has_names = has_names || parts[k]->names != NULL;
    }
    if (!has_names) {
        return GY_OK;
    }
    gy_status status = GY_OK;
    gy_text *texts = gy_alloc_zero("dml.names", (size_t)to->columns + 1, sizeof(*texts));
    const char **names = gy_alloc_zero("dml.names", (size_t)to->columns + 1, sizeof(*names));
    int64_t at = 0;
    if (texts == NULL || names == NULL) {
        status = GY_NOMEM;
        goto done;
    }
    for (int k = 0; k < count; k++) {
        for (int64_t j = 0; j < parts[k]->columns; j++, at++) {
            gy_dml_frame_add_name(&texts[at], parts[k], j);
            status = texts[at].status != GY_OK ? GY_NOMEM : status;
            names[at] = gy_text_get(&texts[at]);
        }
    }
    qsort(names, (size_t)at, sizeof(*names), compare_names);
    for (int64_t j = 1; j < at; j++) {
        is_unique = is_unique && strcmp(names[j - 1], names[j]) != 0;
    }
    for (int64_t j = 0; j < at && is_unique && status == GY_OK; j++) {
        status = gy_dml_frame_set_name(to, j, gy_text_get(&texts[j]), texts[j].size_bytes);
    }
done:
    for (int64_t j = 0; texts != NULL && j < at; j++) {
        gy_text_free(&texts[j]);
    }
    gy_free(texts);
    gy_free(names);
    return status;
}

gy_status gy_dml_frame_cbind(gy_dml_frame *const *parts, int count, gy_dml_frame **out)
{
    gy_dml_frame *made = NULL;
    int64_t columns = 0, at = 0;
    for (int k = 0; k < count; k++) {
        if (parts[k]->rows != parts[0]->rows) {
            return gy_fail(GY_SHAPE, "cbind: argument %d has %lld rows, those before it %lld",
                           k + 1, (long long)parts[k]->rows, (long long)parts[0]->rows);
        }
        columns += parts[k]->columns;
    }
    GY_TRY(gy_dml_frame_open(parts[0]->rows, columns, &made));
    for (int k = 0; k < count; k++) {
        for (int64_t j = 0; j < parts[k]->columns; j++) {
            made->items[at++] = gy_dml_column_hold(parts[k]->items[j]);
        }
    }
    const gy_status status = name_parts(made, parts, count);
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}

static gy_status bind_column(gy_dml_frame *const *parts, int count, int64_t j, int64_t rows,
                             gy_dml_column **out)
{
    gy_dml_column_type type = parts[0]->items[j]->type;
    int64_t at = 0;
    for (int k = 1; k < count; k++) {
        type = parts[k]->rows > 0 ? gy_dml_column_type_common(type, parts[k]->items[j]->type)
                                  : type;
    }
    GY_TRY(gy_dml_column_new(type, rows, out));
    for (int k = 0; k < count; k++) {
        GY_TRY(gy_dml_column_set_cells(*out, at, parts[k]->items[j], 0, parts[k]->rows));
        at += parts[k]->rows;
    }
    return GY_OK;
}

gy_status gy_dml_frame_rbind(gy_dml_frame *const *parts, int count, gy_dml_frame **out)
{
    gy_dml_frame *made = NULL;
    int64_t rows = 0;
    for (int k = 0; k < count; k++) {
        if (parts[k]->columns != parts[0]->columns) {
            return gy_fail(GY_SHAPE,
                           "rbind: argument %d has %lld columns, those before it %lld", k + 1,
                           (long long)parts[k]->columns, (long long)parts[0]->columns);
        }
        rows += parts[k]->rows;
    }
    GY_TRY(gy_dml_frame_open(rows, parts[0]->columns, &made));
    gy_status status = gy_dml_frame_copy_names(made, parts[0], 0);
    for (int64_t j = 0; j < made->columns && status == GY_OK; j++) {
        status = bind_column(parts, count, j, rows, &made->items[j]);
    }
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}

static gy_status keep_rows(const gy_dml_frame *from, const unsigned char *stays,
                           gy_dml_frame *to)
{
    for (int64_t j = 0; j < from->columns; j++) {
        int64_t at = 0;
        GY_TRY(gy_dml_column_new(from->items[j]->type, to->rows, &to->items[j]));
        for (int64_t i = 0; i < from->rows; i++) {
            if (stays[i]) {
                GY_TRY(gy_dml_column_set_cells(to->items[j], at++, from->items[j], i, 1));
            }
        }
    }
    return gy_dml_frame_copy_names(to, from, 0);
}

static gy_status keep_columns(const gy_dml_frame *from, const unsigned char *stays,
                              gy_dml_frame *to)
{
    int64_t at = 0;
    for (int64_t j = 0; j < from->columns; j++) {
        if (stays[j]) {
            const gy_dml_text *name = from->names != NULL ? from->names[j] : NULL;
            if (name != NULL) {
                GY_TRY(gy_dml_frame_set_name(to, at, name->data, name->size));
            }
            to->items[at++] = gy_dml_column_hold(from->items[j]);
        }
    }
    return GY_OK;
}

gy_status gy_dml_frame_keep(const gy_dml_frame *from, bool is_rows, const unsigned char *stays,
                            int64_t left, gy_dml_frame **out)
{
    gy_dml_frame *made = NULL;
    GY_TRY(
        gy_dml_frame_open(is_rows ? left : from->rows, is_rows ? from->columns : left, &made));
    const gy_status status =
        is_rows ? keep_rows(from, stays, made) : keep_columns(from, stays, made);
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}
