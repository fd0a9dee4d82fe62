/**
 * Operators that work along rows, the last dimension: softmax, log-softmax, cross entropy,
 * argmax, layer norm. Rows are independent (the losses of cross entropy are added in order).
 */
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/tiles.h"

#include <math.h>
#include <string.h>

/* x: (rows,columns) */
typedef struct row_call {
    const gy_kernel_call *call;
    int64_t rows, columns;
} row_call;

static void count_rows(const gy_view *x, int axis_count, int64_t *rows, int64_t *columns)
{
    *rows = 1;
    *columns = 1;
    for (int dim = 0; dim < x->rank; dim++) {
        *(dim < x->rank - axis_count ? rows : columns) *= x->sizes[dim];
    }
}

/* Split into pieces of about 32,768 elements; a row stays whole. */
static void each_rows(const gy_kernel_call *call, int axis_count,
                      void (*fn)(void *, int64_t, int64_t))
{
    row_call r = {.call = call};
    count_rows(&call->inputs[0], axis_count, &r.rows, &r.columns);
    int64_t grain = 32768 / GY_MAX(r.columns, (int64_t)1);
    if (r.columns > 0) {
        gy_parallel_for(call->engine, r.rows, GY_MAX(grain, (int64_t)1), fn, &r);
    }
}

/* ---- softmax, log-softmax ---- */

static bool along_accepts(const gy_kernel_query *query)
{
    return gy_dtype_is_real(query->inputs[0].dtype) &&
           query->attributes->axis.dim == query->inputs[0].rank - 1;
}

static void softmax_row_f32(const float *x, float *y, int64_t count, bool is_log)
{
    if (!is_log) {
        gy_tiles()->softmax(x, y, count, 1);
        return;
    }
    float maximum = gy_tiles()->row_max(x, count);
    double sum = gy_tiles()->exp_sum(x, maximum, y, count);
    float shift = (float)log(sum);
    for (int64_t i = 0; i < count; i++) {
        y[i] = (x[i] - maximum) - shift;
    }
}

static void softmax_row_f64(const double *x, double *y, int64_t count, bool is_log)
{
    double maximum = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        maximum = fmax(maximum, x[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        double power = exp(x[i] - maximum);
        sum += power;
        y[i] = is_log ? x[i] - maximum : power;
    }
    double shift = log(sum);
    for (int64_t i = 0; i < count; i++) {
        y[i] = is_log ? y[i] - shift : y[i] / sum;
    }
}

static void softmax_rows(void *arg, int64_t begin, int64_t end)
{
    const row_call *r = arg;
    const gy_view *x = &r->call->inputs[0];
    void *y = r->call->outputs[0].data;
    bool is_log = r->call->op == &gy_ops_row_log_softmax;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * r->columns;
        if (x->dtype == GY_F32) {
            softmax_row_f32((const float *)x->data + at, (float *)y + at, r->columns, is_log);
        } else {
            softmax_row_f64((const double *)x->data + at, (double *)y + at, r->columns, is_log);
        }
    }
}

static gy_status softmax_run(const gy_kernel_call *call)
{
    each_rows(call, 1, softmax_rows);
    return GY_OK;
}

const gy_kernel gy_kernel_softmax = {
    .name = "tiles softmax",
    .accepts = along_accepts,
    .run = softmax_run,
};

/* ---- cross entropy and its gradient ---- */

static bool cross_entropy_accepts(const gy_kernel_query *query)
{
    return gy_dtype_is_real(query->inputs[0].dtype) && query->inputs[1].dtype != GY_U64;
}

/* The loss of each row. */
static size_t cross_entropy_workspace(const gy_kernel_query *query)
{
    return (size_t)gy_view_count(&query->inputs[1]) * sizeof(double);
}

static int64_t class_count(const gy_kernel_call *call)
{
    return call->inputs[0].sizes[call->inputs[0].rank - 1];
}

/* Labels are checked before anything is computed. */
static gy_status check_labels(const gy_kernel_call *call)
{
    const int64_t rows = gy_view_count(&call->inputs[1]), classes = class_count(call);
    int64_t label = 0;
    for (int64_t row = 0; row < rows; row++) {
        GY_TRY(gy_kernel_index(call, 1, row, "label", classes, &label));
    }
    return GY_OK;
}

static int64_t label_at(const gy_kernel_call *call, int64_t row)
{
    const gy_view *labels = &call->inputs[1];
    return gy_element_get_whole(labels->dtype, labels->data, row);
}

/* Of all ranks. */
static double all_rows(const gy_kernel_call *call)
{
    double rows = 1;
    for (int dim = 0; dim < call->inputs[1].rank; dim++) {
        rows *= (double)(call->input_types != NULL ? call->input_types[1].sizes[dim]
                                                   : call->inputs[1].sizes[dim]);
    }
    return rows;
}

/* The sum of exp(x - maximum). */
static double line_f64(const double *x, int64_t count, double *maximum)
{
    double sum = 0;
    *maximum = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        *maximum = fmax(*maximum, x[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        sum += exp(x[i] - *maximum);
    }
    return sum;
}

static void loss_rows(void *arg, int64_t begin, int64_t end)
{
    const row_call *r = arg;
    double *losses = r->call->workspace;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * r->columns, label = label_at(r->call, row);
        if (r->call->inputs[0].dtype == GY_F32) {
            const float *x = (const float *)r->call->inputs[0].data + at;
            float maximum = gy_tiles()->row_max(x, r->columns);
            double sum = gy_tiles()->exp_total(x, maximum, r->columns);
            losses[row] = log(sum) + (double)maximum - (double)x[label];
        } else {
            const double *x = (const double *)r->call->inputs[0].data + at;
            double maximum = 0, sum = line_f64(x, r->columns, &maximum);
            losses[row] = log(sum) + maximum - x[label];
        }
    }
}

static gy_status cross_entropy_run(const gy_kernel_call *call)
{
    const gy_view *logits = &call->inputs[0];
    const int64_t rows = gy_view_count(&call->inputs[1]);
    const double *losses = call->workspace;
    double total = 0;
    GY_TRY(check_labels(call));
    each_rows(call, 1, loss_rows);
    for (int64_t row = 0; row < rows; row++) {
        total += losses[row];
    }
    gy_element_set(logits->dtype, call->outputs[0].data, 0, total / all_rows(call));
    return GY_OK;
}

const gy_kernel gy_kernel_cross_entropy = {
    .name = "tiles cross entropy",
    .accepts = cross_entropy_accepts,
    .workspace_bytes = cross_entropy_workspace,
    .run = cross_entropy_run,
};

/* Of an infinite share no two infinities may be subtracted: (p - 1) share is the slope. */
static void loss_gradient_row_f32(const float *x, float *to, int64_t count, int64_t label,
                                  double share)
{
    const bool is_finite = isfinite(share);
    gy_tiles()->softmax(x, to, count, is_finite ? share : 1);
    if (is_finite) {
        to[label] -= (float)share;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        to[i] = (to[i] - (i == label ? 1.0F : 0.0F)) * (float)share;
    }
}

static void loss_gradient_rows(void *arg, int64_t begin, int64_t end)
{
    const row_call *r = arg;
    const gy_view *dy = &r->call->inputs[2];
    const double share = gy_element_get(dy->dtype, dy->data, 0) / all_rows(r->call);
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * r->columns, label = label_at(r->call, row);
        if (dy->dtype == GY_F32) {
            float *to = (float *)r->call->outputs[0].data + at;
            loss_gradient_row_f32((const float *)r->call->inputs[0].data + at, to, r->columns,
                                  label, share);
        } else {
            const double *x = (const double *)r->call->inputs[0].data + at;
            double *to = (double *)r->call->outputs[0].data + at;
            double maximum = 0, sum = line_f64(x, r->columns, &maximum);
            for (int64_t i = 0; i < r->columns; i++) {
                to[i] = (exp(x[i] - maximum) / sum - (i == label ? 1 : 0)) * share;
            }
        }
    }
}

static gy_status loss_gradient_run(const gy_kernel_call *call)
{
    GY_TRY(check_labels(call));
    each_rows(call, 1, loss_gradient_rows);
    return GY_OK;
}

const gy_kernel gy_kernel_cross_entropy_gradient = {
    .name = "tiles cross entropy gradient",
    .accepts = cross_entropy_accepts,
    .run = loss_gradient_run,
};

/* ---- argmax ---- */

/* The first of equals; NaN wins. */
#define ARGMAX(suffix, type)                                                                   \
    static int64_t argmax_##suffix(const type *x, int64_t count)                               \
    {                                                                                          \
        int64_t best = 0;                                                                      \
        for (int64_t i = 1; i < count; i++) {                                                  \
            best = x[i] > x[best] || (isnan(x[i]) && !isnan(x[best])) ? i : best;              \
        }                                                                                      \
        return best;                                                                           \
    }
ARGMAX(f32, float)
ARGMAX(f64, double)

static void argmax_rows(void *arg, int64_t begin, int64_t end)
{
    const row_call *r = arg;
    const gy_view *x = &r->call->inputs[0];
    int64_t *y = r->call->outputs[0].data;
    for (int64_t row = begin; row < end; row++) {
        y[row] = x->dtype == GY_F32
                     ? argmax_f32((const float *)x->data + row * r->columns, r->columns)
                     : argmax_f64((const double *)x->data + row * r->columns, r->columns);
    }
}

static gy_status argmax_run(const gy_kernel_call *call)
{
    each_rows(call, 1, argmax_rows);
    return GY_OK;
}

const gy_kernel gy_kernel_argmax = {
    .name = "rows argmax",
    .accepts = along_accepts,
    .run = argmax_run,
};

/* ---- layer norm and its gradient ---- */

static bool layer_norm_accepts(const gy_kernel_query *query)
{
    return gy_dtype_is_real(query->inputs[0].dtype);
}

static gy_norm_line norm_line(const row_call *r, int64_t row)
{
    const float *x = (const float *)r->call->inputs[0].data + row * r->columns;
    const double count = (double)r->columns;
    const float mean = (float)(gy_tiles()->row_sum(x, r->columns) / count);
    const double variance = gy_tiles()->row_deviation(x, mean, r->columns) / count;
    const double scale = 1 / sqrt(variance + r->call->attributes->norm.epsilon);
    return (gy_norm_line){x, r->call->inputs[1].data, mean, (float)scale, r->columns};
}

/* Mean, and 1 / sqrt(variance + epsilon). */
static void norm_f64(const row_call *r, int64_t row, double m[2])
{
    const double *x = (const double *)r->call->inputs[0].data + row * r->columns;
    const double count = (double)r->columns;
    double sum = 0, deviation = 0;
    for (int64_t i = 0; i < r->columns; i++) {
        sum += x[i];
    }
    m[0] = sum / count;
    for (int64_t i = 0; i < r->columns; i++) {
        deviation += (x[i] - m[0]) * (x[i] - m[0]);
    }
    m[1] = 1 / sqrt(deviation / count + r->call->attributes->norm.epsilon);
}

static void layer_norm_row_f64(const row_call *r, int64_t row)
{
    const double *x = (const double *)r->call->inputs[0].data + row * r->columns;
    const double *gain = r->call->inputs[1].data, *bias = r->call->inputs[2].data;
    double *y = (double *)r->call->outputs[0].data + row * r->columns, m[2];
    norm_f64(r, row, m);
    for (int64_t i = 0; i < r->columns; i++) {
        y[i] = (x[i] - m[0]) * m[1] * gain[i] + bias[i];
    }
}

static void layer_norm_rows(void *arg, int64_t begin, int64_t end)
{
    const row_call *r = arg;
    for (int64_t row = begin; row < end; row++) {
        if (r->call->inputs[0].dtype == GY_F32) {
            const gy_norm_line line = norm_line(r, row);
            gy_tiles()->norm_row(&line, r->call->inputs[2].data,
                                 (float *)r->call->outputs[0].data + row * r->columns);
        } else {
            layer_norm_row_f64(r, row);
        }
    }
}

static gy_status layer_norm_run(const gy_kernel_call *call)
{
    each_rows(call, call->attributes->norm.axis_count, layer_norm_rows);
    return GY_OK;
}

const gy_kernel gy_kernel_layer_norm = {
    .name = "tiles layer norm",
    .accepts = layer_norm_accepts,
    .run = layer_norm_run,
};

/* Rows are cut into pieces by their number alone; each sums up its own dgain and dbias. */
enum { NORM_PIECES = 16, NORM_ROWS = 32 };

static int64_t norm_pieces(int64_t rows)
{
    return GY_MAX(GY_MIN(rows / NORM_ROWS, (int64_t)NORM_PIECES), (int64_t)1);
}

static size_t norm_slope_workspace(const gy_kernel_query *query)
{
    int64_t rows = 0, columns = 0;
    count_rows(&query->inputs[0], query->attributes->norm.axis_count, &rows, &columns);
    return (size_t)(norm_pieces(rows) * 2 * columns) * gy_dtype_bytes(query->inputs[0].dtype);
}

static void norm_slope_row_f64(const row_call *r, int64_t row, double *dgain, double *dbias)
{
    const double *x = (const double *)r->call->inputs[0].data + row * r->columns;
    const double *gain = r->call->inputs[1].data;
    const double *dy = (const double *)r->call->inputs[2].data + row * r->columns;
    double *dx = (double *)r->call->outputs[0].data + row * r->columns, m[2], sums[2] = {0};
    norm_f64(r, row, m);
    for (int64_t i = 0; i < r->columns; i++) {
        const double xhat = (x[i] - m[0]) * m[1];
        sums[0] += dy[i] * gain[i];
        sums[1] += dy[i] * gain[i] * xhat;
        dgain[i] += dy[i] * xhat;
        dbias[i] += dy[i];
    }
    const double count = (double)r->columns;
    for (int64_t i = 0; i < r->columns; i++) {
        const double xhat = (x[i] - m[0]) * m[1];
        dx[i] = m[1] * (dy[i] * gain[i] - sums[0] / count - xhat * (sums[1] / count));
    }
}

static void norm_slope_pieces(void *arg, int64_t begin, int64_t end)
{
    const row_call *r = arg;
    const int64_t pieces = norm_pieces(r->rows), columns = r->columns;
    const bool is_f32 = r->call->inputs[0].dtype == GY_F32;
    const size_t bytes = (size_t)columns * (is_f32 ? sizeof(float) : sizeof(double));
    for (int64_t piece = begin; piece < end; piece++) {
        char *dgain = (char *)r->call->workspace + (size_t)piece * 2 * bytes;
        char *dbias = dgain + bytes;
        memset(dgain, 0, 2 * bytes);
        int64_t row = r->rows * piece / pieces;
        for (; row < r->rows * (piece + 1) / pieces; row++) {
            if (is_f32) {
                const gy_norm_line line = norm_line(r, row);
                gy_tiles()->norm_slope(&line,
                                       (const float *)r->call->inputs[2].data + row * columns,
                                       (float *)r->call->outputs[0].data + row * columns,
                                       (float *)(void *)dgain, (float *)(void *)dbias);
            } else {
                norm_slope_row_f64(r, row, (double *)(void *)dgain, (double *)(void *)dbias);
            }
        }
    }
}

/* dgain and dbias: the pieces' sums, in their order. */
static gy_status norm_slope_run(const gy_kernel_call *call)
{
    row_call r = {.call = call};
    const gy_dtype dtype = call->inputs[0].dtype;
    count_rows(&call->inputs[0], call->attributes->norm.axis_count, &r.rows, &r.columns);
    const int64_t pieces = norm_pieces(r.rows);
    gy_parallel_for(call->engine, pieces, 1, norm_slope_pieces, &r);
    for (int64_t i = 0; i < 2 * r.columns; i++) {
        double sum = 0;
        for (int64_t piece = 0; piece < pieces; piece++) {
            const int64_t at = piece * 2 * r.columns + i;
            sum += dtype == GY_F32 ? (double)((const float *)call->workspace)[at]
                                   : ((const double *)call->workspace)[at];
        }
        gy_element_set(dtype, call->outputs[i < r.columns ? 1 : 2].data, i % r.columns, sum);
    }
    return GY_OK;
}

const gy_kernel gy_kernel_layer_norm_gradient = {
    .name = "tiles layer norm gradient",
    .accepts = layer_norm_accepts,
    .workspace_bytes = norm_slope_workspace,
    .run = norm_slope_run,
};
