/* What pieces of a parfor's iterations leave: sums, and what differs from before the loop. */
#include "dml/frame/frame.h"
#include "dml/run/parfor_priv.h"

#include <string.h>

gy_status gy_dml_merge_begin(const gy_dml_value *before, gy_dml_value *out)
{
    gy_dml_matrix *zeros = NULL;
    switch ((int)before->kind) {
    case GY_DML_IS_INTEGER:
    case GY_DML_IS_BOOLEAN:
        *out = gy_dml_of_integer(0);
        return GY_OK;
    case GY_DML_IS_REAL:
        *out = gy_dml_of_real(0);
        return GY_OK;
    case GY_DML_IS_TEXT:
        return gy_dml_of_text("", 0, out);
    case GY_DML_IS_MATRIX:
        GY_TRY(gy_dml_matrix_fill(before->matrix->rows, before->matrix->columns, 0, &zeros));
        *out = gy_dml_of_matrix(zeros);
        return GY_OK;
    default:
        *out = gy_dml_hold(*before);
        return GY_OK;
    }
}

/* The same bits, or the same counted thing. */
static bool is_same(const gy_dml_value *a, const gy_dml_value *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    return a->kind == GY_DML_IS_BOOLEAN ? a->truth == b->truth : a->whole == b->whole;
}

/* NaN is equal to itself by its bits, and -0 is not 0. */
static uint64_t bits_of(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static gy_status merge_cells(const gy_dml_matrix *before, const gy_dml_matrix *made,
                             gy_dml_value *to)
{
    GY_TRY(gy_dml_index_own(to));
    const int64_t count = gy_dml_matrix_count(before);
    double *cells = to->matrix->data;
    for (int64_t i = 0; i < count; i++) {
        if (bits_of(before->data[i]) != bits_of(made->data[i])) {
            cells[i] = made->data[i];
        }
    }
    return GY_OK;
}

static gy_status merge_items(const gy_dml_list *before, const gy_dml_list *made,
                             gy_dml_value *to)
{
    GY_TRY(gy_dml_index_own(to));
    for (size_t i = 0; i < before->count; i++) {
        if (!is_same(&before->items[i], &made->items[i])) {
            const gy_dml_value item = gy_dml_hold(made->items[i]);
            gy_dml_drop(&to->list->items[i]);
            to->list->items[i] = item;
        }
    }
    return GY_OK;
}

gy_status gy_dml_merge(const gy_dml_value *before, const gy_dml_value *made, gy_dml_value *to)
{
    if (is_same(before, made)) {
        return GY_OK;
    }
    const bool is_kind = before->kind == made->kind && to->kind == made->kind;
    if (is_kind && made->kind == GY_DML_IS_MATRIX &&
        before->matrix->rows == made->matrix->rows &&
        before->matrix->columns == made->matrix->columns &&
        to->matrix->rows == made->matrix->rows &&
        to->matrix->columns == made->matrix->columns) {
        return merge_cells(before->matrix, made->matrix, to);
    }
    if (is_kind && made->kind == GY_DML_IS_LIST && before->list->count == made->list->count &&
        to->list->count == made->list->count) {
        return merge_items(before->list, made->list, to);
    }
    if (is_kind && made->kind == GY_DML_IS_FRAME && before->frame->rows == made->frame->rows &&
        before->frame->columns == made->frame->columns &&
        to->frame->rows == made->frame->rows && to->frame->columns == made->frame->columns) {
        GY_TRY(gy_dml_index_own(to));
        return gy_dml_frame_merge(to->frame, before->frame, made->frame);
    }
    const gy_dml_value value = gy_dml_hold(*made);
    gy_dml_drop(to);
    *to = value;
    return GY_OK;
}
