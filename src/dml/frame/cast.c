/* Frames of matrices and scalars, and matrices of frames. */
#include "dml/frame/frame.h"

gy_status gy_dml_frame_to_matrix(const gy_dml_frame *from, gy_dml_matrix **out)
{
    gy_dml_matrix *made = NULL;
    GY_TRY(gy_dml_matrix_new(from->rows, from->columns, &made));
    for (int64_t j = 0; j < from->columns; j++) {
        for (int64_t i = 0; i < from->rows; i++) {
            const gy_status status =
                gy_dml_column_real(from->items[j], i, &made->data[i * from->columns + j]);
            if (status != GY_OK) {
                gy_dml_matrix_drop(made);
                return gy_fail_within(status, "row %lld, column %lld", (long long)i + 1,
                                      (long long)j + 1);
            }
        }
    }
    *out = made;
    return GY_OK;
}

gy_status gy_dml_frame_of_matrix(const gy_dml_matrix *from, gy_dml_frame **out)
{
    gy_dml_frame *made = NULL;
    GY_TRY(gy_dml_frame_open(from->rows, from->columns, &made));
    for (int64_t j = 0; j < from->columns; j++) {
        const gy_status status =
            gy_dml_column_new(GY_DML_COLUMN_FP64, from->rows, &made->items[j]);
        if (status != GY_OK) {
            gy_dml_frame_drop(made);
            return status;
        }
        for (int64_t i = 0; i < from->rows; i++) {
            made->items[j]->reals[i] = from->data[i * from->columns + j];
        }
    }
    *out = made;
    return GY_OK;
}

gy_status gy_dml_frame_of_scalar(const gy_dml_value *scalar, gy_dml_frame **out)
{
    GY_ASSERT(gy_dml_is_scalar(scalar));
    const gy_dml_column_type type = scalar->kind == GY_DML_IS_INTEGER   ? GY_DML_COLUMN_INT64
                                    : scalar->kind == GY_DML_IS_REAL    ? GY_DML_COLUMN_FP64
                                    : scalar->kind == GY_DML_IS_BOOLEAN ? GY_DML_COLUMN_BOOLEAN
                                                                        : GY_DML_COLUMN_STRING;
    gy_dml_frame *made = NULL;
    GY_TRY(gy_dml_frame_new(1, 1, &type, &made));
    const gy_status status = gy_dml_column_set_value(made->items[0], 0, scalar);
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}

gy_status gy_dml_as_frame(const gy_dml_value *value, const char *what, gy_dml_frame **out)
{
    while (value->kind == GY_DML_IS_LIST && value->list->count == 1) {
        value = &value->list->items[0];
    }
    if (value->kind == GY_DML_IS_FRAME) {
        *out = gy_dml_hold(*value).frame;
        return GY_OK;
    }
    if (value->kind == GY_DML_IS_MATRIX) {
        return gy_dml_frame_of_matrix(value->matrix, out);
    }
    return gy_dml_is_scalar(value) ? gy_dml_frame_of_scalar(value, out)
                                   : gy_fail(GY_TYPE, "%s: expected a frame, found %s", what,
                                             gy_dml_value_kind_text(value->kind));
}
