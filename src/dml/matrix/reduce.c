/*
 * Reductions. Sums carry what rounding lost (Neumaier 1974), so that twins in other systems
 * agree to 1e-10 whatever the order; a variance is of a second pass, about the mean.
 */
#include "dml/matrix/matrix.h"

#include <math.h>

typedef struct sum {
    double high, low;
} sum;

static inline void sum_add(sum *to, double value)
{
    const double next = to->high + value;
    /* what fell off: of the smaller one; infinities have nothing to carry */
    const double lost =
        fabs(to->high) >= fabs(value) ? (to->high - next) + value : (value - next) + to->high;
    to->low += isfinite(next) ? lost : 0;
    to->high = next;
}

static double sum_of(const double *values, int64_t count, int64_t step)
{
    sum parts[4] = {{0, 0}};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int k = 0; k < 4; k++) {
            sum_add(&parts[k], values[(i + k) * step]);
        }
    }
    for (; i < count; i++) {
        sum_add(&parts[0], values[i * step]);
    }
    sum all = {0, 0};
    for (int k = 0; k < 4; k++) {
        sum_add(&all, parts[k].high);
        all.low += parts[k].low;
    }
    return all.high + all.low;
}

static double variance_of(const double *values, int64_t count, int64_t step)
{
    if (count < 2) {
        return count == 1 ? 0 : NAN;
    }
    const double mean = sum_of(values, count, step) / (double)count;
    sum squares = {0, 0}, rest = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        const double off = values[i * step] - mean;
        sum_add(&squares, off * off);
        sum_add(&rest, off);
    }
    const double about = rest.high + rest.low;
    return (squares.high + squares.low - about * about / (double)count) / (double)(count - 1);
}

/* Sign -1: the smallest. NaN where one is. */
static double extreme_of(const double *values, int64_t count, int64_t step, double sign)
{
    double best = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        const double value = sign * values[i * step];
        if (isnan(value)) {
            return NAN;
        }
        best = value > best ? value : best;
    }
    return sign * best;
}

static double index_of(const double *values, int64_t count, int64_t step, double sign)
{
    int64_t at = count > 0 ? 0 : -1;
    for (int64_t i = 1; i < count; i++) {
        const double value = sign * values[i * step], best = sign * values[at * step];
        at = value >= best || isnan(best) ? i : at;
    }
    return (double)(at + 1);
}

static double product_of(const double *values, int64_t count, int64_t step)
{
    double product = 1;
    for (int64_t i = 0; i < count; i++) {
        product *= values[i * step];
    }
    return product;
}

double gy_dml_reduce_values(gy_dml_reduction what, const double *values, int64_t count,
                            int64_t step)
{
    switch (what) {
    case GY_DML_SUM:
        return sum_of(values, count, step);
    case GY_DML_MEAN:
        return sum_of(values, count, step) / (double)count;
    case GY_DML_MIN_OF:
        return extreme_of(values, count, step, -1);
    case GY_DML_MAX_OF:
        return extreme_of(values, count, step, 1);
    case GY_DML_PRODUCT:
        return product_of(values, count, step);
    case GY_DML_VARIANCE:
        return variance_of(values, count, step);
    case GY_DML_DEVIATION:
        return sqrt(variance_of(values, count, step));
    case GY_DML_MIN_INDEX:
        return index_of(values, count, step, -1);
    case GY_DML_MAX_INDEX:
        return index_of(values, count, step, 1);
    }
    return NAN;
}

/* Sums of columns row by row, as the matrix lies in memory. */
static gy_status column_sums(const gy_dml_matrix *a, gy_dml_matrix *out)
{
    sum *sums = gy_alloc_zero("dml.sums", (size_t)a->columns + 1, sizeof(*sums));
    if (sums == NULL) {
        return GY_NOMEM;
    }
    for (int64_t i = 0; i < a->rows; i++) {
        const double *row = a->data + i * a->columns;
        for (int64_t j = 0; j < a->columns; j++) {
            sum_add(&sums[j], row[j]);
        }
    }
    for (int64_t j = 0; j < a->columns; j++) {
        out->data[j] = sums[j].high + sums[j].low;
    }
    gy_free(sums);
    return GY_OK;
}

static gy_status over_columns(gy_dml_reduction what, const gy_dml_matrix *a, gy_dml_matrix *out)
{
    if (what == GY_DML_SUM || what == GY_DML_MEAN) {
        GY_TRY(column_sums(a, out));
        for (int64_t j = 0; what == GY_DML_MEAN && j < a->columns; j++) {
            out->data[j] /= (double)a->rows;
        }
        return GY_OK;
    }
    for (int64_t j = 0; j < a->columns; j++) {
        out->data[j] = gy_dml_reduce_values(what, a->data + j, a->rows, a->columns);
    }
    return GY_OK;
}

gy_status gy_dml_reduce(gy_dml_reduction what, gy_dml_over over, const gy_dml_matrix *a,
                        gy_dml_matrix **out)
{
    gy_dml_matrix *made = NULL;
    GY_TRY(gy_dml_matrix_new(over == GY_DML_OVER_ROWS ? a->rows : 1,
                             over == GY_DML_OVER_COLUMNS ? a->columns : 1, &made));
    gy_status status = GY_OK;
    if (over == GY_DML_OVER_ALL) {
        made->data[0] = gy_dml_reduce_values(what, a->data, gy_dml_matrix_count(a), 1);
    } else if (over == GY_DML_OVER_COLUMNS) {
        status = over_columns(what, a, made);
    } else {
        for (int64_t i = 0; i < a->rows; i++) {
            made->data[i] = gy_dml_reduce_values(what, a->data + i * a->columns, a->columns, 1);
        }
    }
    if (status != GY_OK) {
        gy_dml_matrix_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}
