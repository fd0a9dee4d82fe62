/*
 * Batch normalization of images (N, C*H*W), each channel over all images and places:
 *
 *     y = gamma (x - mean) / sqrt(var + epsilon) + beta,   var by the number of cells
 *
 * Source: Ioffe and Szegedy 2015.
 */
#include "dml/builtins/builtins_priv.h"

#include <math.h>
#include <string.h>

typedef struct channels {
    gy_dml_matrix *x;
    int64_t count, size; /* channels, cells of one in an image */
} channels;

/* A column with a number a channel. */
static gy_status take_column(const gy_dml_call *call, int argument, const channels *of,
                             gy_dml_matrix **out)
{
    char name[96];
    GY_TRY(gy_dml_arg_matrix(call, argument, out));
    return (*out)->columns == 1 && (*out)->rows == of->count
               ? GY_OK
               : gy_fail(GY_SHAPE, "%s: expected %lldx1, found %lldx%lld",
                         gy_dml_arg_name(call, argument, name), (long long)of->count,
                         (long long)(*out)->rows, (long long)(*out)->columns);
}

/* As many channels as the column of argument `by` has numbers. */
static gy_status take_images(const gy_dml_call *call, int by, channels *of)
{
    gy_dml_matrix *column = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &of->x));
    GY_TRY(gy_dml_arg_matrix(call, by, &column));
    of->count = column->rows;
    gy_dml_matrix_drop(column);
    if (of->count < 1 || of->x->columns % of->count != 0) {
        return gy_fail(GY_SHAPE, "%s: X has %lld columns, which %lld channels do not divide",
                       call->builtin->name, (long long)of->x->columns, (long long)of->count);
    }
    of->size = of->x->columns / of->count;
    return GY_OK;
}

/* Mean and variance of a channel: the variance around the mean, in a second pass. */
static void moments(const channels *of, int64_t channel, double *mean, double *variance)
{
    const double cells = (double)(of->x->rows * of->size);
    double sum = 0, squares = 0, rest = 0;
    for (int64_t i = 0; i < of->x->rows; i++) {
        const double *row = of->x->data + i * of->x->columns + channel * of->size;
        for (int64_t k = 0; k < of->size; k++) {
            sum += row[k];
        }
    }
    *mean = sum / cells;
    for (int64_t i = 0; i < of->x->rows; i++) {
        const double *row = of->x->data + i * of->x->columns + channel * of->size;
        for (int64_t k = 0; k < of->size; k++) {
            squares += (row[k] - *mean) * (row[k] - *mean);
            rest += row[k] - *mean;
        }
    }
    *variance = (squares - rest * rest / cells) / cells;
}

enum { GAMMA = 1, BETA, EMA_MEAN, EMA_VAR, MODE, EPSILON, MU };
enum { OUT, NEW_MEAN, NEW_VAR, CACHE_MEAN, CACHE_INVERSE, FORWARD_RESULTS };

static gy_status normalize(gy_dml_call *call, const channels *of, gy_dml_matrix *const in[5],
                           bool is_training)
{
    double epsilon = 0, mu = 0;
    gy_dml_matrix *out[FORWARD_RESULTS] = {NULL};
    GY_TRY(gy_dml_arg_real(call, EPSILON, &epsilon));
    GY_TRY(gy_dml_arg_real(call, MU, &mu));
    for (int k = 0; k < FORWARD_RESULTS; k++) {
        GY_TRY(gy_dml_matrix_new(k == OUT ? of->x->rows : of->count,
                                 k == OUT ? of->x->columns : 1, &out[k]));
        call->results[k] = gy_dml_of_matrix(out[k]);
    }
    for (int64_t c = 0; c < of->count; c++) {
        double mean = in[EMA_MEAN]->data[c], variance = in[EMA_VAR]->data[c];
        out[NEW_MEAN]->data[c] = mean;
        out[NEW_VAR]->data[c] = variance;
        if (is_training) {
            moments(of, c, &mean, &variance);
            out[NEW_MEAN]->data[c] = mu * in[EMA_MEAN]->data[c] + (1 - mu) * mean;
            out[NEW_VAR]->data[c] = mu * in[EMA_VAR]->data[c] + (1 - mu) * variance;
        }
        const double inverse = 1 / sqrt(variance + epsilon);
        out[CACHE_MEAN]->data[c] = mean;
        out[CACHE_INVERSE]->data[c] = inverse;
        for (int64_t i = 0; i < of->x->rows; i++) {
            const int64_t at = i * of->x->columns + c * of->size;
            for (int64_t k = at; k < at + of->size; k++) {
                out[OUT]->data[k] =
                    (of->x->data[k] - mean) * inverse * in[GAMMA]->data[c] + in[BETA]->data[c];
            }
        }
    }
    return GY_OK;
}

gy_status gy_dml_run_batch_norm(gy_dml_call *call)
{
    channels of = {.x = NULL};
    const char *mode = "";
    gy_dml_matrix *in[5] = {NULL};
    gy_status status = take_images(call, GAMMA, &of);
    for (int k = GAMMA; k <= EMA_VAR && status == GY_OK; k++) {
        status = take_column(call, k, &of, &in[k]);
    }
    status = status == GY_OK ? gy_dml_arg_text(call, MODE, &mode) : status;
    const bool is_training = strcasecmp(mode, "train") == 0;
    if (status == GY_OK && !is_training && strcasecmp(mode, "test") != 0) {
        status =
            gy_fail(GY_ARG, "batch_norm2d: mode: \"%.40s\" is neither train nor test", mode);
    }
    status = status == GY_OK ? normalize(call, &of, in, is_training) : status;
    for (int k = 0; k < 5; k++) {
        gy_dml_matrix_drop(in[k]);
    }
    gy_dml_matrix_drop(of.x);
    return status;
}

/* ---- gradient ---- */

enum { B_DOUT = 1, B_GAMMA, B_EPSILON, B_MEAN, B_INVERSE };

/* With n = (x - mean) inverse and m cells a channel:
 * dx = gamma inverse (dy - sum(dy)/m - n sum(dy n)/m) */
static gy_status differentiate(gy_dml_call *call, const channels *of,
                               gy_dml_matrix *const in[B_INVERSE + 1])
{
    gy_dml_matrix *dx = NULL, *dgamma = NULL, *dbeta = NULL;
    GY_TRY(gy_dml_matrix_new(of->x->rows, of->x->columns, &dx));
    call->results[0] = gy_dml_of_matrix(dx);
    GY_TRY(gy_dml_matrix_fill(of->count, 1, 0, &dgamma));
    call->results[1] = gy_dml_of_matrix(dgamma);
    GY_TRY(gy_dml_matrix_fill(of->count, 1, 0, &dbeta));
    call->results[2] = gy_dml_of_matrix(dbeta);
    const double cells = (double)(of->x->rows * of->size);
    const double *x = of->x->data, *dy = in[B_DOUT]->data;
    for (int64_t c = 0; c < of->count; c++) {
        const double mean = in[B_MEAN]->data[c], inverse = in[B_INVERSE]->data[c];
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < of->x->rows; i++) {
                const int64_t at = i * of->x->columns + c * of->size;
                for (int64_t k = at; k < at + of->size; k++) {
                    const double n = (x[k] - mean) * inverse;
                    if (pass == 0) {
                        dgamma->data[c] += dy[k] * n;
                        dbeta->data[c] += dy[k];
                    } else {
                        dx->data[k] = in[B_GAMMA]->data[c] * inverse *
                                      (dy[k] - (dbeta->data[c] + n * dgamma->data[c]) / cells);
                    }
                }
            }
        }
    }
    return GY_OK;
}

gy_status gy_dml_run_batch_norm_backward(gy_dml_call *call)
{
    channels of = {.x = NULL};
    double epsilon = 0; /* the inverse deviation has it already */
    gy_dml_matrix *in[B_INVERSE + 1] = {NULL};
    static const int columns[] = {B_GAMMA, B_MEAN, B_INVERSE};
    gy_status status = take_images(call, B_GAMMA, &of);
    status = status == GY_OK ? gy_dml_arg_real(call, B_EPSILON, &epsilon) : status;
    for (size_t k = 0; k < GY_COUNT(columns) && status == GY_OK; k++) {
        status = take_column(call, columns[k], &of, &in[columns[k]]);
    }
    status = status == GY_OK ? gy_dml_arg_matrix(call, B_DOUT, &in[B_DOUT]) : status;
    if (status == GY_OK &&
        (in[B_DOUT]->rows != of.x->rows || in[B_DOUT]->columns != of.x->columns)) {
        status = gy_fail(GY_SHAPE,
                         "batch_norm2d_backward: dout: expected %lldx%lld, found "
                         "%lldx%lld",
                         (long long)of.x->rows, (long long)of.x->columns,
                         (long long)in[B_DOUT]->rows, (long long)in[B_DOUT]->columns);
    }
    status = status == GY_OK ? differentiate(call, &of, in) : status;
    for (size_t k = 0; k < GY_COUNT(in); k++) {
        gy_dml_matrix_drop(in[k]);
    }
    gy_dml_matrix_drop(of.x);
    return status;
}
