/* Ranges of matrices, frames and lists, read and written. Bounds of scripts begin at 1. */
#include "dml/frame/frame.h"
#include "dml/run/run_priv.h"

#include <string.h>

/* [begin, end) from 0 of a range; absent bounds are all. */
static gy_status bounds_of(const gy_dml_value *from, const gy_dml_value *to, int64_t size,
                           const char *what, int64_t range[2])
{
    range[0] = 0;
    range[1] = size;
    if (from->kind == GY_DML_IS_NOTHING) {
        return GY_OK;
    }
    int64_t first = 0, last = 0;
    GY_TRY(gy_dml_as_integer(from, what, &first));
    last = first;
    if (to->kind != GY_DML_IS_NOTHING) {
        GY_TRY(gy_dml_as_integer(to, what, &last));
    }
    if (first < 1 || last > size || last < first) {
        return gy_fail(GY_ARG, "%s %lld:%lld are not within 1:%lld", what, (long long)first,
                       (long long)last, (long long)size);
    }
    range[0] = first - 1;
    range[1] = last;
    return GY_OK;
}

/* Of a matrix or frame. */
static gy_status box_of(const gy_dml_value *of, const gy_dml_value bounds[4], gy_dml_box *box)
{
    int64_t rows[2] = {0, 0}, columns[2] = {0, 0};
    const bool is_frame = of->kind == GY_DML_IS_FRAME;
    GY_TRY(bounds_of(&bounds[0], &bounds[1], is_frame ? of->frame->rows : of->matrix->rows,
                     "rows", rows));
    GY_TRY(bounds_of(&bounds[2], &bounds[3],
                     is_frame ? of->frame->columns : of->matrix->columns, "columns", columns));
    *box = (gy_dml_box){rows[0], rows[1], columns[0], columns[1]};
    return GY_OK;
}

/* A range of a list by numbers or names. */
static gy_status items_of(const gy_dml_list *list, const gy_dml_value bounds[4],
                          int64_t range[2])
{
    int64_t at[2] = {0, 0};
    for (int k = 0; k < 2; k++) {
        const gy_dml_value *bound = &bounds[k];
        at[k] = k == 1 ? at[0] : 0;
        if (bound->kind == GY_DML_IS_TEXT) {
            at[k] = gy_dml_list_find(list, bound->text->data);
            if (at[k] < 0) {
                return gy_fail(GY_ARG, "the list has no item \"%.60s\"", bound->text->data);
            }
        } else if (bound->kind != GY_DML_IS_NOTHING) {
            GY_TRY(gy_dml_as_integer(bound, "items", &at[k]));
            at[k]--;
        }
    }
    if (at[0] < 0 || at[1] < at[0] || at[1] >= (int64_t)list->count) {
        return gy_fail(GY_ARG, "items %lld:%lld are not within 1:%zu", (long long)at[0] + 1,
                       (long long)at[1] + 1, list->count);
    }
    range[0] = at[0];
    range[1] = at[1] + 1;
    return GY_OK;
}

static gy_status list_get(const gy_dml_list *list, const gy_dml_value bounds[4],
                          gy_dml_value *out)
{
    int64_t range[2] = {0, 0};
    gy_dml_list *made = NULL;
    GY_TRY(items_of(list, bounds, range));
    GY_TRY(gy_dml_list_new(&made));
    *out = gy_dml_of_list(made);
    for (int64_t i = range[0]; i < range[1]; i++) {
        const bool has_name = list->names != NULL && list->names[i] != NULL;
        GY_TRY(gy_dml_list_add(made, list->items[i], has_name ? list->names[i]->data : NULL));
    }
    return GY_OK;
}

gy_status gy_dml_index_get(const gy_dml_value *from, const gy_dml_value bounds[4],
                           gy_dml_value *out)
{
    if (from->kind == GY_DML_IS_LIST) {
        return list_get(from->list, bounds, out);
    }
    if (from->kind != GY_DML_IS_MATRIX && from->kind != GY_DML_IS_FRAME) {
        return gy_fail(GY_TYPE, "%s has no rows and columns to index",
                       gy_dml_value_kind_text(from->kind));
    }
    gy_dml_box box;
    gy_dml_matrix *made = NULL;
    GY_TRY(box_of(from, bounds, &box));
    if (from->kind == GY_DML_IS_FRAME) {
        gy_dml_frame *part = NULL;
        GY_TRY(gy_dml_frame_cut(from->frame, &box, &part));
        *out = gy_dml_of_frame(part);
        return GY_OK;
    }
    GY_TRY(gy_dml_cut(from->matrix, &box, &made));
    *out = gy_dml_of_matrix(made);
    return GY_OK;
}

gy_status gy_dml_index_own(gy_dml_value *to)
{
    if (to->kind == GY_DML_IS_MATRIX && !gy_dml_is_alone(to->matrix)) {
        gy_dml_matrix *own = NULL;
        GY_TRY(gy_dml_matrix_copy(to->matrix, &own));
        gy_dml_drop(to);
        *to = gy_dml_of_matrix(own);
    }
    if (to->kind == GY_DML_IS_LIST &&
        atomic_load_explicit(&to->list->holds, memory_order_acquire) != 1) {
        gy_dml_list *own = NULL;
        GY_TRY(gy_dml_list_copy(to->list, &own));
        gy_dml_drop(to);
        *to = gy_dml_of_list(own);
    }
    if (to->kind == GY_DML_IS_FRAME &&
        atomic_load_explicit(&to->frame->holds, memory_order_acquire) != 1) {
        gy_dml_frame *own = NULL; /* shares the columns, which writing copies one by one */
        GY_TRY(gy_dml_frame_copy(to->frame, &own));
        gy_dml_drop(to);
        *to = gy_dml_of_frame(own);
    }
    return GY_OK;
}

static gy_status list_set(gy_dml_value *to, const gy_dml_value bounds[4],
                          const gy_dml_value *value)
{
    GY_TRY(gy_dml_index_own(to));
    gy_dml_list *list = to->list;
    int64_t range[2] = {0, 0}, next = 0;
    const bool is_new_name =
        bounds[0].kind == GY_DML_IS_TEXT && gy_dml_list_find(list, bounds[0].text->data) < 0;
    if (is_new_name) {
        return gy_dml_list_add(list, *value, bounds[0].text->data);
    }
    if (bounds[0].kind == GY_DML_IS_INTEGER && bounds[1].kind == GY_DML_IS_NOTHING &&
        bounds[0].whole == (int64_t)list->count + 1) {
        return gy_dml_list_add(list, *value, NULL);
    }
    GY_TRY(items_of(list, bounds, range));
    const bool is_list = value->kind == GY_DML_IS_LIST;
    if (is_list ? (int64_t)value->list->count != range[1] - range[0]
                : range[1] - range[0] > 1) {
        return gy_fail(GY_SHAPE, "%lld items of a list take a list of as many, found %zu",
                       (long long)(range[1] - range[0]), is_list ? value->list->count : 1u);
    }
    for (int64_t i = range[0]; i < range[1]; i++, next++) {
        const gy_dml_value item = gy_dml_hold(is_list ? value->list->items[next] : *value);
        gy_dml_drop(&list->items[i]);
        list->items[i] = item;
        if (is_list && list->names != NULL && value->list->names != NULL &&
            value->list->names[next] != NULL) {
            gy_dml_list_rename(list, (size_t)i, value->list->names[next]);
        }
    }
    return GY_OK;
}

static gy_status matrix_set(gy_dml_value *to, const gy_dml_box *box, gy_dml_matrix *from,
                            bool is_shared)
{
    const int64_t rows = box->row_end - box->row, columns = box->column_end - box->column;
    if (from->rows == 1 && from->columns == 1) {
        const double value = from->data[0];
        GY_TRY(is_shared ? GY_OK : gy_dml_index_own(to));
        gy_dml_paste_value(to->matrix, box, value);
        return GY_OK;
    }
    if (from->rows != rows || from->columns != columns) {
        return gy_fail(GY_SHAPE, "a range of %lldx%lld cannot take a matrix of %lldx%lld",
                       (long long)rows, (long long)columns, (long long)from->rows,
                       (long long)from->columns);
    }
    GY_TRY(is_shared ? GY_OK : gy_dml_index_own(to));
    gy_dml_paste(to->matrix, box, from);
    return GY_OK;
}

static gy_status index_set_matrix(gy_dml_value *to, const gy_dml_value bounds[4],
                                  const gy_dml_value *value, bool is_shared)
{
    gy_dml_box box;
    gy_dml_matrix *from = NULL;
    GY_TRY(box_of(to, bounds, &box));
    GY_TRY(gy_dml_as_matrix(value, "an indexed assignment", &from));
    const gy_status status = matrix_set(to, &box, from, is_shared);
    gy_dml_matrix_drop(from);
    return status;
}

gy_status gy_dml_index_set_shared(const gy_dml_value *to, const gy_dml_value bounds[4],
                                  const gy_dml_value *value)
{
    gy_dml_value matrix = *to;
    GY_ASSERT(to->kind == GY_DML_IS_MATRIX);
    return index_set_matrix(&matrix, bounds, value, true);
}

static gy_status frame_set(gy_dml_value *to, const gy_dml_value bounds[4],
                           const gy_dml_value *value)
{
    gy_dml_box box;
    gy_dml_frame *from = NULL;
    GY_TRY(box_of(to, bounds, &box));
    if (gy_dml_is_scalar(value)) {
        GY_TRY(gy_dml_index_own(to));
        return gy_dml_frame_paste_value(to->frame, &box, value);
    }
    GY_TRY(gy_dml_as_frame(value, "an indexed assignment", &from));
    const int64_t rows = box.row_end - box.row, columns = box.column_end - box.column;
    gy_status status =
        from->rows == rows && from->columns == columns
            ? gy_dml_index_own(to)
            : gy_fail(GY_SHAPE, "a range of %lldx%lld cannot take a frame of %lldx%lld",
                      (long long)rows, (long long)columns, (long long)from->rows,
                      (long long)from->columns);
    status = status == GY_OK ? gy_dml_frame_paste(to->frame, &box, from) : status;
    gy_dml_frame_drop(from);
    return status;
}

gy_status gy_dml_index_set(gy_dml_value *to, const gy_dml_value bounds[4],
                           const gy_dml_value *value)
{
    if (to->kind == GY_DML_IS_LIST) {
        return list_set(to, bounds, value);
    }
    if (to->kind == GY_DML_IS_FRAME) {
        return frame_set(to, bounds, value);
    }
    if (to->kind != GY_DML_IS_MATRIX) {
        return gy_fail(GY_TYPE, "%s has no rows and columns to assign to",
                       gy_dml_value_kind_text(to->kind));
    }
    return index_set_matrix(to, bounds, value, false);
}
