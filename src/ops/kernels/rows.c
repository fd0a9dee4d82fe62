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

static void loss_gradient_rows(void *arg, int64_t begin, int64_t end)
{
    const row_call *r = arg;
    const gy_view *dy = &r->call->inputs[2];
    const double share = gy_element_get(dy->dtype, dy->data, 0) / all_rows(r->call);
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * r->columns, label = label_at(r->call, row);
        if (dy->dtype == GY_F32) {
            float *to = (float *)r->call->outputs[0].data + at;
            gy_tiles()->softmax((const float *)r->call->inputs[0].data + at, to, r->columns,
                                share);
            to[label] -= (float)share;
        } else {
            const double *x = (const double *)r->call->inputs[0].data + at;
            double *to = (double *)r->call->outputs[0].data + at;
            double maximum = 0, sum = line_f64(x, r->columns, &maximum);
            for (int64_t i = 0; i < r->columns; i++) {
                to[i] = exp(x[i] - maximum) / sum * share;
            }
            to[label] -= share;
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

/* ---- layer norm ---- */

static bool layer_norm_accepts(const gy_kernel_query *query)
{
    return query->inputs[0].dtype == GY_F32;
}

static void layer_norm_rows(void *arg, int64_t begin, int64_t end)
{
    const row_call *r = arg;
    const float *gain = r->call->inputs[1].data, *bias = r->call->inputs[2].data;
    int64_t count = r->columns;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)r->call->inputs[0].data + row * count;
        float *y = (float *)r->call->outputs[0].data + row * count;
        float mean = (float)(gy_tiles()->row_sum(x, count) / (double)count);
        double variance = gy_tiles()->row_deviation(x, mean, count) / (double)count;
        float scale = (float)(1 / sqrt(variance + r->call->attributes->norm.epsilon));
        for (int64_t i = 0; i < count; i++) {
            y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
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
