/* Contingency tables, groups, running sums, moments. */
#include "dml/builtins/builtins_priv.h"

#include <math.h>
#include <string.h>

/* ---- table ---- */

typedef struct table {
    gy_dml_matrix *a, *b, *weights; /* held; a scalar is repeated */
    int64_t rows, columns;          /* -1: as large as the largest */
} table;

static double repeated(const gy_dml_matrix *x, int64_t i)
{
    return x->data[gy_dml_matrix_count(x) == 1 ? 0 : i];
}

static gy_status measure(table *of, int64_t count)
{
    double rows = 0, columns = 0;
    for (int64_t i = 0; i < count; i++) {
        const double r = repeated(of->a, i), c = repeated(of->b, i);
        if (!(r >= 1 && c >= 1 && r < 0x1p53 && c < 0x1p53)) {
            return gy_fail(GY_ARG, "table: cell %lld is (%g, %g): expected numbers from 1",
                           (long long)i + 1, r, c);
        }
        rows = fmax(rows, floor(r));
        columns = fmax(columns, floor(c));
    }
    of->rows = of->rows < 0 ? (int64_t)rows : of->rows;
    of->columns = of->columns < 0 ? (int64_t)columns : of->columns;
    return GY_OK;
}

static gy_status count_pairs(gy_dml_call *call, table *of)
{
    const int64_t sizes[3] = {gy_dml_matrix_count(of->a), gy_dml_matrix_count(of->b),
                              of->weights != NULL ? gy_dml_matrix_count(of->weights) : 1};
    int64_t count = GY_MAX(sizes[0], GY_MAX(sizes[1], sizes[2]));
    gy_dml_matrix *out = NULL;
    for (int k = 0; k < 3; k++) {
        if (sizes[k] == 0) {
            count = 0;
        }
    }
    for (int k = 0; k < 3 && count > 0; k++) {
        if (sizes[k] != count && sizes[k] != 1) {
            return gy_fail(GY_SHAPE, "table: argument %d has %lld cells, another one %lld",
                           k + 1, (long long)sizes[k], (long long)count);
        }
    }
    GY_TRY(measure(of, count));
    GY_TRY(gy_dml_matrix_fill(of->rows, of->columns, 0, &out));
    for (int64_t i = 0; i < count; i++) {
        const int64_t r = (int64_t)repeated(of->a, i) - 1, c = (int64_t)repeated(of->b, i) - 1;
        if (r < of->rows && c < of->columns) {
            out->data[r * of->columns + c] +=
                of->weights != NULL ? repeated(of->weights, i) : 1;
        }
    }
    return gy_dml_give(call, out);
}

/* table(A, B), table(A, B, W), table(A, B, rows, columns), table(A, B, W, rows, columns); rows
 * and columns also by name. */
gy_status gy_dml_run_table(gy_dml_call *call)
{
    table of = {.rows = -1, .columns = -1};
    const bool is_short = gy_dml_has(call, 2) && !gy_dml_has(call, 4) &&
                          (gy_dml_has(call, 3) || gy_dml_has(call, 7));
    const int rows = gy_dml_has(call, 6) ? 6 : is_short ? 2 : 3;
    const int columns = gy_dml_has(call, 7) ? 7 : is_short ? 3 : 4;
    GY_TRY(gy_dml_arg_integer(call, rows, &of.rows));
    GY_TRY(gy_dml_arg_integer(call, columns, &of.columns));
    GY_TRY(gy_dml_arg_matrix(call, 0, &of.a));
    gy_status status = gy_dml_arg_matrix(call, 1, &of.b);
    if (status == GY_OK && gy_dml_has(call, 2) && !is_short) {
        status = gy_dml_arg_matrix(call, 2, &of.weights);
    }
    status = status == GY_OK ? count_pairs(call, &of) : status;
    gy_dml_matrix_drop(of.a);
    gy_dml_matrix_drop(of.b);
    gy_dml_matrix_drop(of.weights);
    return status;
}

/* ---- running sums ---- */

static double run_on(const char *name, double so_far, double value)
{
    if (strcmp(name, "cumprod") == 0) {
        return so_far * value;
    }
    if (strcmp(name, "cummin") == 0) {
        return gy_dml_cell_binary(GY_DML_CELL_MIN, so_far, value);
    }
    return strcmp(name, "cummax") == 0 ? gy_dml_cell_binary(GY_DML_CELL_MAX, so_far, value)
                                       : so_far + value;
}

gy_status gy_dml_run_cumulative(gy_dml_call *call)
{
    const char *name = call->builtin->name;
    const bool is_rows = strcmp(name, "rowcumsum") == 0;
    gy_dml_matrix *x = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const gy_status status = gy_dml_matrix_new(x->rows, x->columns, &out);
    for (int64_t i = 0; i < x->rows && status == GY_OK; i++) {
        for (int64_t j = 0; j < x->columns; j++) {
            const int64_t at = i * x->columns + j;
            const bool is_first = is_rows ? j == 0 : i == 0;
            const int64_t before = is_rows ? at - 1 : at - x->columns;
            out->data[at] =
                is_first ? x->data[at] : run_on(name, out->data[before], x->data[at]);
        }
    }
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

/* y[i] = x[i,1] + x[i,2] y[i-1] */
gy_status gy_dml_run_cumsumprod(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = x->columns == 2
                           ? gy_dml_matrix_new(x->rows, 1, &out)
                           : gy_fail(GY_SHAPE, "cumsumprod: expected two columns, found %lld",
                                     (long long)x->columns);
    double so_far = 0;
    for (int64_t i = 0; out != NULL && i < x->rows; i++) {
        so_far = x->data[2 * i] + x->data[2 * i + 1] * so_far;
        out->data[i] = so_far;
    }
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

/* ---- moments ---- */

/* The k-th central moment by n; weights may be NULL. */
static double moment_of(const double *x, const double *weights, int64_t count, int64_t order,
                        double divisor_less)
{
    double sum = 0, mean = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        const double weight = weights != NULL ? weights[i] : 1;
        all += weight;
        sum += weight * x[i];
    }
    mean = sum / all;
    sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (weights != NULL ? weights[i] : 1) * pow(x[i] - mean, (double)order);
    }
    return sum / (all - divisor_less);
}

gy_status gy_dml_run_moment(gy_dml_call *call)
{
    const int last = gy_dml_has(call, 2) ? 2 : 1;
    int64_t order = 0;
    gy_dml_matrix *x = NULL, *weights = NULL;
    GY_TRY(gy_dml_arg_integer(call, last, &order));
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = last == 2 ? gy_dml_arg_matrix(call, 1, &weights) : GY_OK;
    if (status == GY_OK && weights != NULL &&
        gy_dml_matrix_count(weights) != gy_dml_matrix_count(x)) {
        status = gy_fail(GY_SHAPE, "moment: weights of another size");
    }
    if (status == GY_OK) {
        status =
            gy_dml_give_real(call, moment_of(x->data, weights != NULL ? weights->data : NULL,
                                             gy_dml_matrix_count(x), order, 0));
    }
    gy_dml_matrix_drop(x);
    gy_dml_matrix_drop(weights);
    return status;
}

static double covariance(const double *x, const double *y, const double *weights, int64_t count)
{
    double all = 0, mean_x = 0, mean_y = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double weight = weights != NULL ? weights[i] : 1;
        all += weight;
        mean_x += weight * x[i];
        mean_y += weight * y[i];
    }
    mean_x /= all;
    mean_y /= all;
    for (int64_t i = 0; i < count; i++) {
        sum += (weights != NULL ? weights[i] : 1) * (x[i] - mean_x) * (y[i] - mean_y);
    }
    return sum / (all - 1);
}

gy_status gy_dml_run_cov(gy_dml_call *call)
{
    gy_dml_matrix *of[3] = {NULL};
    gy_status status = GY_OK;
    for (int k = 0; k < 3 && status == GY_OK; k++) {
        status = k < 2 || gy_dml_has(call, 2) ? gy_dml_arg_matrix(call, k, &of[k]) : GY_OK;
        if (status == GY_OK && of[k] != NULL &&
            gy_dml_matrix_count(of[k]) != gy_dml_matrix_count(of[0])) {
            status = gy_fail(GY_SHAPE, "cov: argument %d has %lld cells, the first one %lld",
                             k + 1, (long long)gy_dml_matrix_count(of[k]),
                             (long long)gy_dml_matrix_count(of[0]));
        }
    }
    if (status == GY_OK && of[0] != NULL && of[1] != NULL) {
        status = gy_dml_give_real(call, covariance(of[0]->data, of[1]->data,
                                                   of[2] != NULL ? of[2]->data : NULL,
                                                   gy_dml_matrix_count(of[0])));
    }
    for (int k = 0; k < 3; k++) {
        gy_dml_matrix_drop(of[k]);
    }
    return status;
}

gy_status gy_dml_run_trace(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = x->rows == x->columns
                           ? gy_dml_give_real(call, gy_dml_reduce_values(GY_DML_SUM, x->data,
                                                                         x->rows, x->rows + 1))
                           : gy_fail(GY_SHAPE, "trace: a matrix of %lldx%lld is not square",
                                     (long long)x->rows, (long long)x->columns);
    gy_dml_matrix_drop(x);
    return status;
}

/* ---- aggregate ---- */

typedef struct groups {
    gy_dml_matrix *x, *of, *weights;
    int64_t count, order;
    const char *fn;
} groups;

/* One group's value of one column: its cells and weights are gathered. */
static double group_value(const groups *g, const double *cells, const double *weights,
                          int64_t count)
{
    double sum = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += weights[i] * cells[i];
        all += weights[i];
    }
    if (strcmp(g->fn, "sum") == 0) {
        return sum;
    }
    if (strcmp(g->fn, "count") == 0) {
        return all;
    }
    if (strcmp(g->fn, "mean") == 0) {
        return sum / all;
    }
    if (strcmp(g->fn, "variance") == 0) {
        return moment_of(cells, weights, count, 2, 1);
    }
    if (strcmp(g->fn, "min") == 0 || strcmp(g->fn, "max") == 0) {
        return gy_dml_reduce_values(g->fn[1] == 'i' ? GY_DML_MIN_OF : GY_DML_MAX_OF, cells,
                                    count, 1);
    }
    return moment_of(cells, weights, count, g->order, 0);
}

static gy_status aggregate_column(const groups *g, int64_t column, gy_dml_matrix *out)
{
    const int64_t rows = g->x->rows;
    double *room = gy_alloc("dml.groups", ((size_t)rows * 2 + 1) * sizeof(double));
    if (room == NULL) {
        return GY_NOMEM;
    }
    for (int64_t k = 0; k < g->count; k++) {
        int64_t count = 0;
        for (int64_t i = 0; i < rows; i++) {
            if ((int64_t)g->of->data[i] == k + 1) {
                room[count] = g->x->data[i * g->x->columns + column];
                room[rows + count++] = g->weights != NULL ? g->weights->data[i] : 1;
            }
        }
        out->data[k * out->columns + column] = group_value(g, room, room + rows, count);
    }
    gy_free(room);
    return GY_OK;
}

static gy_status aggregate(gy_dml_call *call, groups *g)
{
    static const char *const known[] = {"sum", "count", "mean",         "variance",
                                        "min", "max",   "centralmoment"};
    bool is_known = false;
    double largest = 0;
    gy_dml_matrix *out = NULL;
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        is_known = is_known || strcmp(known[i], g->fn) == 0;
    }
    if (!is_known) {
        return gy_fail(GY_ARG, "aggregate: fn: there is no \"%.40s\"", g->fn);
    }
    if (gy_dml_matrix_count(g->of) != g->x->rows ||
        (g->weights != NULL && gy_dml_matrix_count(g->weights) != g->x->rows)) {
        return gy_fail(GY_SHAPE, "aggregate: target has %lld rows, groups %lld cells",
                       (long long)g->x->rows, (long long)gy_dml_matrix_count(g->of));
    }
    for (int64_t i = 0; i < g->x->rows; i++) {
        if (!(g->of->data[i] >= 1 && g->of->data[i] < 0x1p40)) {
            return gy_fail(GY_ARG, "aggregate: groups: row %lld is %g: expected numbers from 1",
                           (long long)i + 1, g->of->data[i]);
        }
        largest = fmax(largest, g->of->data[i]);
    }
    g->count = g->count < 0 ? (int64_t)largest : g->count;
    GY_TRY(gy_dml_matrix_new(g->count, g->x->columns, &out));
    gy_status status = GY_OK;
    for (int64_t j = 0; j < g->x->columns && status == GY_OK; j++) {
        status = aggregate_column(g, j, out);
    }
    if (status != GY_OK) {
        gy_dml_matrix_drop(out);
        return status;
    }
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_aggregate(gy_dml_call *call)
{
    groups g = {.count = -1, .fn = "sum"};
    GY_TRY(gy_dml_arg_text(call, 2, &g.fn));
    GY_TRY(gy_dml_arg_integer(call, 4, &g.count));
    GY_TRY(gy_dml_arg_integer(call, 5, &g.order));
    GY_TRY(gy_dml_arg_matrix(call, 0, &g.x));
    gy_status status = gy_dml_arg_matrix(call, 1, &g.of);
    if (status == GY_OK && gy_dml_has(call, 3)) {
        status = gy_dml_arg_matrix(call, 3, &g.weights);
    }
    status = status == GY_OK ? aggregate(call, &g) : status;
    gy_dml_matrix_drop(g.x);
    gy_dml_matrix_drop(g.of);
    gy_dml_matrix_drop(g.weights);
    return status;
}
