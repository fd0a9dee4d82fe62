/*
 * Logistic regression with the four operations alone: what a library's exp and log return
 * differs in the last bit from machine to machine, and a simulation has to be the same on all.
 */
#include "ps/virtual/simulate.h"

#include "ps/part/part.h"

#include <math.h>

static const double ln2 = 0.69314718055994530942;

/* e^x for x <= 0, within 1e-15: x = n ln 2 + r, |r| <= ln 2 / 2, and 14 terms of r's series. */
static double exp_below(double x)
{
    if (x < -700) {
        return 0;
    }
    const int n = (int)(x / ln2 - 0.5);
    const double r = x - n * ln2;
    double sum = 1;
    for (int k = 14; k > 0; k--) {
        sum = 1 + r * sum / k;
    }
    return ldexp(sum, n);
}

/* log(1 + x) for 0 <= x <= 1: 2 atanh(x / (2 + x)), whose series has a ratio below 1 / 9. */
static double log_above(double x)
{
    const double s = x / (2 + x), square = s * s;
    double sum = 0;
    for (int k = 33; k > 0; k -= 2) {
        sum = sum * square + 1.0 / k;
    }
    return 2 * s * sum;
}

static double dot(const ps_sample_rows *data, const double *w, size_t index)
{
    const gy_libsvm *rows = data->rows;
    double z = w[data->width - 1];
    for (size_t k = rows->begins[index]; k < rows->begins[index + 1]; k++) {
        z += w[rows->indices[k]] * rows->values[k];
    }
    return z;
}

void gy_ps_logistic_add(const ps_sample_rows *data, const double *w, size_t index, double share,
                        double *gradient)
{
    const gy_libsvm *rows = data->rows;
    const double z = dot(data, w, index), e = exp_below(-fabs(z));
    const double p = z >= 0 ? 1 / (1 + e) : e / (1 + e);
    const double slope = share * (p - data->labels[index]);
    GY_ASSERT(index < rows->rows);
    for (size_t k = rows->begins[index]; k < rows->begins[index + 1]; k++) {
        gradient[rows->indices[k]] += slope * rows->values[k];
    }
    gradient[data->width - 1] += slope;
}

double gy_ps_logistic_loss(const ps_sample_rows *data, const double *w)
{
    double sum = 0;
    for (size_t i = 0; i < data->rows->rows; i++) {
        const double z = dot(data, w, i);
        sum += log_above(exp_below(-fabs(z))) + (z > 0 ? z : 0) - data->labels[i] * z;
    }
    return sum / (double)data->rows->rows;
}

/* ---- As a model of a simulation ---- */

static uint32_t label_of(void *arg, size_t sample)
{
    const ps_sample_rows *data = arg;
    return data->labels[sample];
}

static gy_status add_gradients(void *arg, const double *w, const size_t *samples, size_t count,
                               double share, double *gradient)
{
    for (size_t i = 0; i < count; i++) {
        gy_ps_logistic_add(arg, w, samples[i], share, gradient);
    }
    return GY_OK;
}

static gy_status look_at_loss(void *arg, const double *w, double *loss)
{
    *loss = gy_ps_logistic_loss(arg, w);
    return GY_OK;
}

/* The smaller of two labels is 0. */
static gy_status number_labels(const gy_libsvm *rows, uint8_t *labels)
{
    double low = rows->rows > 0 ? rows->labels[0] : 0, high = low;
    for (size_t i = 0; i < rows->rows; i++) {
        low = GY_MIN(low, rows->labels[i]);
        high = GY_MAX(high, rows->labels[i]);
    }
    for (size_t i = 0; i < rows->rows; i++) {
        if (low == high || (rows->labels[i] != low && rows->labels[i] != high)) {
            return gy_fail(GY_ARG,
                           "simulation: row %zu has label %g: expected two labels in all",
                           i + 1, rows->labels[i]);
        }
        labels[i] = rows->labels[i] == high;
    }
    return GY_OK;
}

gy_status gy_ps_simulate(const gy_libsvm *rows, const gy_ps_simulation *options,
                         gy_ps_simulated *result)
{
    ps_sample_rows data = {.rows = rows, .width = (size_t)rows->features + 1};
    if (rows->features >= GY_PS_WIDTH_MAX) {
        return gy_fail(GY_LIMIT, "simulation: %llu features, expected fewer than %d",
                       (unsigned long long)rows->features, GY_PS_WIDTH_MAX);
    }
    data.labels = gy_alloc("ps.simulate", GY_MAX(rows->rows, (size_t)1));
    if (data.labels == NULL) {
        return GY_NOMEM;
    }
    const gy_ps_simulated_model model = GY_OPTIONS(
        gy_ps_simulated_model, .arg = &data, .width = data.width, .samples = rows->rows,
        .labels = 2, .label = label_of, .gradient = add_gradients, .loss = look_at_loss);
    gy_status status = number_labels(rows, data.labels);
    status = status == GY_OK ? gy_ps_simulate_model(&model, options, result) : status;
    gy_free(data.labels);
    return status;
}
