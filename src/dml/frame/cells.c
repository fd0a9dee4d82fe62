/* Cells of frames compared and replaced. */
#include "dml/frame/frame.h"

#include <math.h>
#include <string.h>

static bool is_text(const gy_dml_column *column)
{
    return gy_dml_column_storage(column->type) == GY_DML_STORES_TEXT;
}

static bool holds(gy_dml_binary code, int order)
{
    return code == GY_DML_CELL_LESS            ? order < 0
           : code == GY_DML_CELL_LESS_EQUAL    ? order <= 0
           : code == GY_DML_CELL_GREATER       ? order > 0
           : code == GY_DML_CELL_GREATER_EQUAL ? order >= 0
           : code == GY_DML_CELL_EQUAL         ? order == 0
                                               : order != 0;
}

/* One cell of each, where one is a text at least. */
static gy_status compare_texts(gy_dml_binary code, const gy_dml_column *a, int64_t i,
                               const gy_dml_column *b, int64_t k, bool *truth)
{
    gy_text left = {.data = NULL}, right = {.data = NULL};
    const bool is_missing = gy_dml_column_is_missing(a, i);
    if (is_missing || gy_dml_column_is_missing(b, k)) { /* missing is equal to missing only */
        const bool is_equal = is_missing && gy_dml_column_is_missing(b, k);
        *truth = code == GY_DML_CELL_NOT_EQUAL ? !is_equal : is_equal && holds(code, 0);
        return GY_OK;
    }
    gy_dml_column_add(&left, a, i);
    gy_dml_column_add(&right, b, k);
    const gy_status status = left.status != GY_OK ? left.status : right.status;
    *truth = holds(code, strcmp(gy_text_get(&left), gy_text_get(&right)));
    gy_text_free(&left);
    gy_text_free(&right);
    return status;
}

static gy_status compare_column(gy_dml_binary code, const gy_dml_column *a,
                                const gy_dml_column *b, gy_dml_column *out)
{
    const int64_t step = b->count == a->count ? 1 : 0;
    for (int64_t i = 0; i < a->count; i++) {
        if (is_text(a) || is_text(b)) {
            GY_TRY(compare_texts(code, a, i, b, i * step, &out->truths[i]));
            continue;
        }
        double x = 0, y = 0;
        GY_TRY(gy_dml_column_real(a, i, &x));
        GY_TRY(gy_dml_column_real(b, i * step, &y));
        out->truths[i] = gy_dml_cell_binary(code, x, y) != 0;
    }
    return GY_OK;
}

gy_status gy_dml_frame_compare(gy_dml_binary code, const gy_dml_frame *a, const gy_dml_frame *b,
                               gy_dml_frame **out)
{
    const bool is_one = b->rows == 1 && b->columns == 1;
    gy_dml_frame *made = NULL;
    if (code < GY_DML_CELL_LESS || code > GY_DML_CELL_NOT_EQUAL) {
        return gy_fail(GY_TYPE, "frames are compared only: as.matrix makes numbers of them");
    }
    if (!is_one && (a->rows != b->rows || a->columns != b->columns)) {
        return gy_fail(GY_SHAPE, "a frame of %lldx%lld is compared with one of %lldx%lld",
                       (long long)a->rows, (long long)a->columns, (long long)b->rows,
                       (long long)b->columns);
    }
    GY_TRY(gy_dml_frame_open(a->rows, a->columns, &made));
    gy_status status = GY_OK;
    for (int64_t j = 0; j < a->columns && status == GY_OK; j++) {
        status = gy_dml_column_new(GY_DML_COLUMN_BOOLEAN, a->rows, &made->items[j]);
        status = status == GY_OK ? compare_column(code, a->items[j], b->items[is_one ? 0 : j],
                                                  made->items[j])
                                 : status;
    }
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}

/* Whether cells of a column can be the scalar: the same kind of value, or texts. */
static bool can_be(const gy_dml_column *column, const gy_dml_value *pattern)
{
    const gy_dml_storage storage = gy_dml_column_storage(column->type);
    return storage == GY_DML_STORES_TEXT ||
           (storage == GY_DML_STORES_TRUTH && pattern->kind == GY_DML_IS_BOOLEAN) ||
           (storage == GY_DML_STORES_WHOLE && pattern->kind == GY_DML_IS_INTEGER) ||
           (storage == GY_DML_STORES_REAL && pattern->kind == GY_DML_IS_REAL);
}

static gy_status replace_column(gy_dml_frame *frame, int64_t j, const gy_dml_frame *pattern,
                                const gy_dml_value *replacement)
{
    GY_TRY(gy_dml_frame_own(frame, j));
    gy_dml_column *column = frame->items[j];
    const gy_dml_column *wanted = pattern->items[0];
    const bool is_nan = wanted->type == GY_DML_COLUMN_FP64 && isnan(wanted->reals[0]) &&
                        gy_dml_column_storage(column->type) == GY_DML_STORES_REAL;
    for (int64_t i = 0; i < column->count; i++) {
        bool is_it = is_nan && isnan(column->reals[i]);
        if (is_text(column)) {
            GY_TRY(compare_texts(GY_DML_CELL_EQUAL, column, i, wanted, 0, &is_it));
        } else if (!is_nan) {
            double x = 0, y = 0;
            GY_TRY(gy_dml_column_real(column, i, &x));
            GY_TRY(gy_dml_column_real(wanted, 0, &y));
            is_it = x == y;
        }
        if (is_it) {
            GY_TRY(gy_dml_column_set_value(column, i, replacement));
        }
    }
    return GY_OK;
}

gy_status gy_dml_frame_replace(const gy_dml_frame *from, const gy_dml_value *pattern,
                               const gy_dml_value *replacement, gy_dml_frame **out)
{
    gy_dml_frame *made = NULL, *wanted = NULL;
    if (pattern->kind != replacement->kind) {
        return gy_fail(GY_TYPE, "replace: the pattern is %s, the replacement %s",
                       gy_dml_value_kind_text(pattern->kind),
                       gy_dml_value_kind_text(replacement->kind));
    }
    GY_TRY(gy_dml_as_frame(pattern, "replace", &wanted));
    gy_status status = gy_dml_frame_copy(from, &made);
    for (int64_t j = 0; status == GY_OK && j < made->columns; j++) {
        status = can_be(made->items[j], pattern) ? replace_column(made, j, wanted, replacement)
                                                 : GY_OK;
    }
    gy_dml_frame_drop(wanted);
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}
