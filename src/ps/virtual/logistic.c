/*
 * Logistic regression with the four operations alone: what a library's exp and log return
 * differs in the last bit from machine to machine, and a simulation has to be the same on all.
 */
#include "ps/virtual/simulate.h"

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
