/* Order, quantiles and what is different: sorting is stable, NaN comes last either way. */
#include "dml/builtins/builtins_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct keys {
    const gy_dml_matrix *x;
    int64_t columns[64]; /* from 0, the first one counts most */
    int count;
    bool is_descending;
} keys;

/* -1, 0, 1; NaN above all, whichever the direction. */
static int compare_cells(double a, double b, bool is_descending)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) - isnan(b);
    }
    const int order = (a > b) - (a < b);
    return is_descending ? -order : order;
}

static int compare_rows(const keys *by, int64_t a, int64_t b)
{
    for (int k = 0; k < by->count; k++) {
        const int order =
            compare_cells(by->x->data[a * by->x->columns + by->columns[k]],
                          by->x->data[b * by->x->columns + by->columns[k]], by->is_descending);
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

/* Rows sorted by merging (von Neumann 1945), which is stable. `from` has 0, 1, …; the result
 * lies in it. `spare` is as large. */
static void sort_rows(const keys *by, int64_t *from, int64_t *spare, int64_t count)
{
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t at = 0; at < count; at += 2 * width) {
            const int64_t middle = GY_MIN(at + width, count),
                          end = GY_MIN(at + 2 * width, count);
            int64_t a = at, b = middle;
            for (int64_t to = at; to < end; to++) {
                const bool is_left =
                    a < middle && (b >= end || compare_rows(by, from[a], from[b]) <= 0);
                spare[to] = is_left ? from[a++] : from[b++];
            }
        }
        memcpy(from, spare, (size_t)count * sizeof(*from));
    }
}

static gy_status sorted_rows(const keys *by, int64_t **rows)
{
    const int64_t count = by->x->rows;
    int64_t *at = gy_alloc("dml.order", ((size_t)count + 1) * 2 * sizeof(*at));
    if (at == NULL) {
        return GY_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        at[i] = i;
    }
    sort_rows(by, at, at + count, count);
    *rows = at;
    return GY_OK;
}

static gy_status take_keys(const gy_dml_call *call, keys *by)
{
    gy_dml_matrix *columns = NULL;
    by->count = 1;
    by->columns[0] = 0;
    if (!gy_dml_has(call, 1)) {
        return GY_OK;
    }
    GY_TRY(gy_dml_arg_matrix(call, 1, &columns));
    const int64_t count = gy_dml_matrix_count(columns);
    by->count = (int)GY_MIN(count, (int64_t)GY_COUNT(by->columns));
    gy_status status = by->count == count && count > 0
                           ? GY_OK
                           : gy_fail(GY_ARG, "order: by: %lld columns, expected 1 to %zu",
                                     (long long)count, GY_COUNT(by->columns));
    for (int k = 0; k < by->count && status == GY_OK; k++) {
        by->columns[k] = (int64_t)columns->data[k] - 1;
        if (!(columns->data[k] >= 1 && columns->data[k] <= (double)by->x->columns)) {
            status = gy_fail(GY_ARG, "order: by: column %g is not within 1:%lld",
                             columns->data[k], (long long)by->x->columns);
        }
    }
    gy_dml_matrix_drop(columns);
    return status;
}

static gy_status order(gy_dml_call *call, gy_dml_matrix *x)
{
    keys by = {.x = x};
    bool is_index = false;
    int64_t *rows = NULL;
    gy_dml_matrix *out = NULL;
    GY_TRY(gy_dml_arg_boolean(call, 2, &by.is_descending));
    GY_TRY(gy_dml_arg_boolean(call, 3, &is_index));
    GY_TRY(take_keys(call, &by));
    GY_TRY(gy_dml_matrix_new(x->rows, is_index ? 1 : x->columns, &out));
    const gy_status status = sorted_rows(&by, &rows);
    if (status != GY_OK) {
        gy_dml_matrix_drop(out);
        return status;
    }
    for (int64_t i = 0; i < x->rows; i++) {
        if (is_index) {
            out->data[i] = (double)(rows[i] + 1);
        } else {
            memcpy(out->data + i * x->columns, x->data + rows[i] * x->columns,
                   (size_t)x->columns * sizeof(double));
        }
    }
    gy_free(rows);
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_order(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const gy_status status = order(call, x);
    gy_dml_matrix_drop(x);
    return status;
}

static int compare_doubles(const void *a, const void *b)
{
    return compare_cells(*(const double *)a, *(const double *)b, false);
}

/* All cells, sorted. Free with gy_free. */
static gy_status sorted_cells(const gy_dml_matrix *x, double **cells)
{
    const size_t count = (size_t)gy_dml_matrix_count(x);
    *cells = gy_alloc("dml.sorted", (count + 1) * sizeof(double));
    if (*cells == NULL) {
        return GY_NOMEM;
    }
    memcpy(*cells, x->data, count * sizeof(double));
    qsort(*cells, count, sizeof(double), compare_doubles);
    return GY_OK;
}

/* Hyndman and Fan 1996, type 7, as R. */
static double quantile_of(const double *sorted, int64_t count, double p)
{
    GY_ASSERT(sorted != NULL && count > 0);
    const double at = (double)(count - 1) * p;
    const int64_t below = (int64_t)floor(at);
    const double part = at - (double)below;
    return below + 1 < count && part > 0
               ? sorted[below] + part * (sorted[below + 1] - sorted[below])
               : sorted[below];
}

/* The cells of x, each as often as its weight says (whole numbers), sorted. */
static gy_status weighted_cells(gy_dml_call *call, const gy_dml_matrix *x, double **cells,
                                int64_t *count)
{
    const gy_dml_matrix *weights = call->args[1].matrix;
    double sum = 0;
    if (gy_dml_matrix_count(weights) != gy_dml_matrix_count(x)) {
        return gy_fail(GY_SHAPE, "%s: %lld weights for %lld cells", call->builtin->name,
                       (long long)gy_dml_matrix_count(weights),
                       (long long)gy_dml_matrix_count(x));
    }
    for (int64_t i = 0; i < gy_dml_matrix_count(x); i++) {
        sum += weights->data[i] > 0 ? floor(weights->data[i]) : 0;
    }
    gy_dml_matrix *all = NULL;
    if (!(sum < 1e9)) {
        return gy_fail(GY_LIMIT, "%s: weights that sum to %g", call->builtin->name, sum);
    }
    GY_TRY(gy_dml_matrix_new((int64_t)sum, 1, &all));
    int64_t to = 0;
    for (int64_t i = 0; i < gy_dml_matrix_count(x); i++) {
        const int64_t times = weights->data[i] > 0 ? (int64_t)weights->data[i] : 0;
        for (int64_t k = 0; k < times; k++) {
            all->data[to++] = x->data[i];
        }
    }
    *count = to;
    const gy_status status = sorted_cells(all, cells);
    gy_dml_matrix_drop(all);
    return status;
}

static gy_status cells_by_weight(gy_dml_call *call, bool has_weights, double **cells,
                                 int64_t *count)
{
    gy_dml_matrix *x = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    *count = gy_dml_matrix_count(x);
    gy_status status =
        has_weights ? weighted_cells(call, x, cells, count) : sorted_cells(x, cells);
    gy_dml_matrix_drop(x);
    if (status == GY_OK && *count == 0) {
        gy_free(*cells);
        *cells = NULL;
        status = gy_fail(GY_ARG, "%s: there are no cells", call->builtin->name);
    }
    return status;
}

gy_status gy_dml_run_median(gy_dml_call *call)
{
    double *cells = NULL;
    int64_t count = 0;
    GY_TRY(cells_by_weight(call, call->args[1].kind == GY_DML_IS_MATRIX, &cells, &count));
    GY_ASSERT(cells != NULL);
    const double value = isnan(cells[count - 1]) ? NAN : quantile_of(cells, count, 0.5);
    gy_free(cells);
    return gy_dml_give_real(call, value);
}

/* quantile(X, p), quantile(X, weights, p) */
gy_status gy_dml_run_quantile(gy_dml_call *call)
{
    const int last = gy_dml_has(call, 2) ? 2 : 1;
    double *cells = NULL;
    int64_t count = 0;
    gy_dml_matrix *p = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_matrix(call, last, &p));
    gy_status status = cells_by_weight(call, last == 2, &cells, &count);
    for (int64_t i = 0; i < gy_dml_matrix_count(p) && status == GY_OK; i++) {
        if (!(p->data[i] >= 0 && p->data[i] <= 1)) {
            status = gy_fail(GY_ARG, "quantile: %g is not within [0, 1]", p->data[i]);
        }
    }
    status = status == GY_OK ? gy_dml_matrix_new(p->rows, p->columns, &out) : status;
    for (int64_t i = 0; out != NULL && i < gy_dml_matrix_count(p); i++) {
        out->data[i] = quantile_of(cells, count, p->data[i]);
    }
    gy_dml_matrix_drop(p);
    gy_free(cells);
    GY_TRY(status);
    GY_ASSERT(out != NULL);
    if (call->args[last].kind == GY_DML_IS_MATRIX) {
        return gy_dml_give(call, out);
    }
    const double value = out->data[0];
    gy_dml_matrix_drop(out);
    return gy_dml_give_real(call, value);
}

/* The mean of what lies between the quartiles, the cells at its ends in part. */
gy_status gy_dml_run_quartile_mean(gy_dml_call *call)
{
    double *cells = NULL;
    int64_t count = 0;
    GY_TRY(cells_by_weight(call, gy_dml_has(call, 1), &cells, &count));
    GY_ASSERT(cells != NULL);
    const double low = (double)count * 0.25, high = (double)count * 0.75;
    const int64_t first = (int64_t)ceil(low), last = (int64_t)ceil(high);
    double sum = gy_dml_reduce_values(GY_DML_SUM, cells + first, last - first, 1);
    sum += ((double)first - low) * cells[GY_MAX(first, 1) - 1];
    sum -= ((double)last - high) * cells[last - 1];
    gy_free(cells);
    return gy_dml_give_real(call, sum / (high - low));
}

/* How many different cells, NaN being one. */
static gy_status count_distinct(const gy_dml_matrix *x, int64_t *different)
{
    double *cells = NULL;
    const int64_t count = gy_dml_matrix_count(x);
    GY_TRY(sorted_cells(x, &cells));
    *different = count > 0;
    for (int64_t i = 1; i < count; i++) {
        *different += compare_doubles(&cells[i - 1], &cells[i]) != 0;
    }
    gy_free(cells);
    return GY_OK;
}

/* Of each row of x. */
static gy_status count_rows(const gy_dml_matrix *x, gy_dml_matrix **out)
{
    GY_TRY(gy_dml_matrix_new(x->rows, 1, out));
    for (int64_t i = 0; i < x->rows; i++) {
        const gy_dml_matrix row = {
            .rows = 1, .columns = x->columns, .data = x->data + i * x->columns};
        int64_t count = 0;
        const gy_status status = count_distinct(&row, &count);
        if (status != GY_OK) {
            gy_dml_matrix_drop(*out);
            return status;
        }
        (*out)->data[i] = (double)count;
    }
    return GY_OK;
}

gy_status gy_dml_run_count_distinct(gy_dml_call *call)
{
    const char *over = call->builtin->name;
    gy_dml_matrix *x = NULL, *turned = NULL, *counts = NULL, *out = NULL;
    int64_t count = 0;
    over = over[3] != 'n' ? over : "all"; /* rowCountDistinct, colCountDistinct */
    if (call->count > 1) {
        GY_TRY(gy_dml_arg_text(call, 1, &over));
        over = strcmp(over, "rc") == 0 ? "all" : over;
    }
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = GY_OK;
    if (over[0] == 'a') {
        status = count_distinct(x, &count);
        gy_dml_matrix_drop(x);
        GY_TRY(status);
        return gy_dml_give_integer(call, count);
    }
    if (over[0] == 'r') {
        status = count_rows(x, &out);
    } else {
        status = gy_dml_transpose(x, &turned);
        status = status == GY_OK ? count_rows(turned, &counts) : status;
        status = status == GY_OK ? gy_dml_transpose(counts, &out) : status;
    }
    gy_dml_matrix_drop(x);
    gy_dml_matrix_drop(turned);
    gy_dml_matrix_drop(counts);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

/* The sorted cells between the p-quantile and the (1 - p)-quantile. */
gy_status gy_dml_run_inter_quantile(gy_dml_call *call)
{
    double p = 0, *cells = NULL;
    int64_t count = 0;
    gy_dml_matrix *out = NULL;
    GY_TRY(gy_dml_arg_real(call, 1, &p));
    if (!(p >= 0 && p <= 0.5)) {
        return gy_fail(GY_ARG, "interQuantile: p: %g is not within [0, 0.5]", p);
    }
    GY_TRY(cells_by_weight(call, false, &cells, &count));
    const int64_t first = (int64_t)ceil((double)count * p);
    const int64_t last = (int64_t)ceil((double)count * (1 - p));
    const gy_status status = gy_dml_matrix_new(last - first, 1, &out);
    if (status == GY_OK) {
        memcpy(out->data, cells + first, (size_t)(last - first) * sizeof(double));
    }
    gy_free(cells);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

static int compare_ascending(const void *a, const void *b)
{
    return compare_cells(*(const double *)a, *(const double *)b, false);
}

/* Leave each row's different cells, ascending, at its begin; how many there are at most. */
static int64_t keep_different(gy_dml_matrix *x)
{
    int64_t most = 0;
    for (int64_t i = 0; i < x->rows; i++) {
        double *row = x->data + i * x->columns;
        int64_t left = 0;
        if (x->columns > 0) {
            qsort(row, (size_t)x->columns, sizeof(*row), compare_ascending);
        }
        for (int64_t j = 0; j < x->columns; j++) {
            if (j == 0 || compare_cells(row[left - 1], row[j], false) != 0) {
                row[left++] = row[j];
            }
        }
        memset(row + left, 0, (size_t)(x->columns - left) * sizeof(*row));
        most = GY_MAX(most, left);
    }
    return most;
}

/* The different cells of each row, zeros behind them. */
static gy_status unique_of_rows(const gy_dml_matrix *x, gy_dml_matrix **out)
{
    gy_dml_matrix *sorted = NULL;
    GY_TRY(gy_dml_matrix_copy(x, &sorted));
    const int64_t columns = keep_different(sorted);
    const gy_status status = gy_dml_matrix_new(x->rows, columns, out);
    for (int64_t i = 0; i < x->rows && columns > 0 && status == GY_OK; i++) {
        memcpy((*out)->data + i * columns, sorted->data + i * x->columns,
               (size_t)columns * sizeof(double));
    }
    gy_dml_matrix_drop(sorted);
    return status;
}

/* Of all cells as one row, turned. */
static gy_status unique_of_all(const gy_dml_matrix *x, gy_dml_matrix **out)
{
    const gy_dml_matrix row = {.rows = 1, .columns = gy_dml_matrix_count(x), .data = x->data};
    gy_dml_matrix *different = NULL;
    GY_TRY(unique_of_rows(&row, &different));
    const gy_status status = gy_dml_transpose(different, out);
    gy_dml_matrix_drop(different);
    return status;
}

gy_status gy_dml_run_unique(gy_dml_call *call)
{
    const char *over = "rc";
    gy_dml_matrix *x = NULL, *turned = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_text(call, 1, &over));
    if (strcmp(over, "rc") != 0 && strcmp(over, "r") != 0 && strcmp(over, "c") != 0) {
        return gy_fail(GY_ARG, "unique: dir: \"%.40s\" is none of rc, r, c", over);
    }
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = GY_OK;
    if (strcmp(over, "c") == 0) {
        gy_dml_matrix *rows = NULL;
        status = gy_dml_transpose(x, &turned);
        status = status == GY_OK ? unique_of_rows(turned, &rows) : status;
        status = status == GY_OK ? gy_dml_transpose(rows, &out) : status;
        gy_dml_matrix_drop(rows);
        gy_dml_matrix_drop(turned);
    } else {
        status = strcmp(over, "r") == 0 ? unique_of_rows(x, &out) : unique_of_all(x, &out);
    }
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}
