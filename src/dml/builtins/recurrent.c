/*
 * lstm and its gradient. N sequences of T examples with D features, M cells; the columns of W
 * (D+M, 4M) are the gates i, f, o and the candidates g:
 *
 *     z(t) = [x(t), h(t-1)] W + b
 *     c(t) = f c(t-1) + i g,   h(t) = o tanh(c(t)),   i, f, o = sigmoid(z), g = tanh(z)
 *
 * Source: Hochreiter and Schmidhuber 1997, with Gers' forget gate (2000); SystemDS's nn library
 * says the layout.
 */
#include "dml/builtins/builtins_priv.h"

#include <math.h>
#include <string.h>

enum {
    X,
    W,
    BIAS,
    H0,
    C0,
    INPUTS,
    HAS_SEQUENCES = INPUTS,
    DOUT,
    DC,
    CACHE_H,
    CACHE_C,
    CACHE_Z
};

typedef struct lstm {
    gy_dml_matrix *in[INPUTS];
    int64_t n, t, d, m;
    bool has_sequences;
    gy_dml_matrix *h, *c, *z;    /* (T, N*M), (T, N*M), (T, N*4M): what each step gives */
    gy_dml_matrix *input, *wide; /* (N, D+M), (N, 4M): of one step */
} lstm;

static void lstm_drop(lstm *of)
{
    gy_dml_matrix *const all[] = {of->h, of->c, of->z, of->input, of->wide};
    for (int i = 0; i < INPUTS; i++) {
        gy_dml_matrix_drop(of->in[i]);
    }
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        gy_dml_matrix_drop(all[i]);
    }
}

static gy_status check(const gy_dml_call *call, const gy_dml_matrix *x, const char *name,
                       int64_t rows, int64_t columns)
{
    return x->rows == rows && x->columns == columns
               ? GY_OK
               : gy_fail(GY_SHAPE, "%s: %s: expected %lldx%lld, found %lldx%lld",
                         call->builtin->name, name, (long long)rows, (long long)columns,
                         (long long)x->rows, (long long)x->columns);
}

static gy_status take_inputs(const gy_dml_call *call, lstm *of)
{
    for (int i = 0; i < INPUTS; i++) {
        GY_TRY(gy_dml_arg_matrix(call, i, &of->in[i]));
    }
    GY_TRY(gy_dml_arg_boolean(call, HAS_SEQUENCES, &of->has_sequences));
    of->n = of->in[X]->rows;
    of->m = of->in[H0]->columns;
    of->d = of->in[W]->rows - of->m;
    if (of->m < 1 || of->d < 1 || of->in[X]->columns % of->d != 0) {
        return gy_fail(GY_SHAPE,
                       "%s: X (N, T*D) of %lldx%lld, W (D+M, 4M) of %lldx%lld and out0 (N, M) "
                       "of %lldx%lld do not fit",
                       call->builtin->name, (long long)of->n, (long long)of->in[X]->columns,
                       (long long)of->in[W]->rows, (long long)of->in[W]->columns,
                       (long long)of->in[H0]->rows, (long long)of->m);
    }
    of->t = of->in[X]->columns / of->d;
    GY_TRY(check(call, of->in[W], "W", of->d + of->m, 4 * of->m));
    GY_TRY(check(call, of->in[BIAS], "bias", 1, 4 * of->m));
    GY_TRY(check(call, of->in[H0], "out0", of->n, of->m));
    GY_TRY(check(call, of->in[C0], "c0", of->n, of->m));
    return gy_dml_matrix_new(of->n, of->d + of->m, &of->input);
}

/* h or c of the step before t, (N, M) by rows. */
static const double *before(const gy_dml_matrix *first, const gy_dml_matrix *all, int64_t t)
{
    return t == 0 ? first->data : all->data + (t - 1) * all->columns;
}

/* [x(t), h(t-1)] */
static void fill_input(lstm *of, int64_t t)
{
    const double *h = before(of->in[H0], of->h, t);
    for (int64_t i = 0; i < of->n; i++) {
        double *row = of->input->data + i * (of->d + of->m);
        memcpy(row, of->in[X]->data + i * of->in[X]->columns + t * of->d,
               (size_t)of->d * sizeof(double));
        memcpy(row + of->d, h + i * of->m, (size_t)of->m * sizeof(double));
    }
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void step_forward(lstm *of, int64_t t)
{
    const int64_t m = of->m;
    const double *bias = of->in[BIAS]->data, *old = before(of->in[C0], of->c, t);
    double *h = of->h->data + t * of->h->columns, *c = of->c->data + t * of->c->columns;
    double *z = of->z->data + t * of->z->columns;
    for (int64_t i = 0; i < of->n; i++) {
        const double *wide = of->wide->data + i * 4 * m;
        for (int64_t j = 0; j < 4 * m; j++) {
            const double sum = wide[j] + bias[j];
            z[i * 4 * m + j] = j < 3 * m ? sigmoid(sum) : tanh(sum);
        }
        const double *gates = z + i * 4 * m;
        for (int64_t j = 0; j < m; j++) {
            const int64_t at = i * m + j;
            c[at] = gates[m + j] * old[at] + gates[j] * gates[3 * m + j];
            h[at] = gates[2 * m + j] * tanh(c[at]);
        }
    }
}

/* All steps: h, c and z. */
static gy_status run_forward(lstm *of)
{
    GY_TRY(gy_dml_matrix_new(of->t, of->n * of->m, &of->h));
    GY_TRY(gy_dml_matrix_new(of->t, of->n * of->m, &of->c));
    GY_TRY(gy_dml_matrix_new(of->t, of->n * 4 * of->m, &of->z));
    for (int64_t t = 0; t < of->t; t++) {
        fill_input(of, t);
        gy_dml_matrix_drop(of->wide);
        of->wide = NULL;
        GY_TRY(gy_dml_product(of->input, of->in[W], &of->wide));
        step_forward(of, t);
    }
    return GY_OK;
}

static gy_status give_forward(gy_dml_call *call, lstm *of)
{
    const int64_t steps = of->has_sequences ? of->t : 1;
    gy_dml_matrix *out = NULL, *last = NULL;
    GY_TRY(gy_dml_matrix_new(of->n, steps * of->m, &out));
    call->results[0] = gy_dml_of_matrix(out);
    GY_TRY(gy_dml_matrix_new(of->n, of->m, &last));
    call->results[1] = gy_dml_of_matrix(last);
    for (int64_t t = of->t - steps; t < of->t; t++) {
        for (int64_t i = 0; i < of->n; i++) {
            memcpy(out->data + i * out->columns + (t - (of->t - steps)) * of->m,
                   of->h->data + t * of->h->columns + i * of->m,
                   (size_t)of->m * sizeof(double));
        }
    }
    memcpy(last->data, before(of->in[C0], of->c, of->t),
           (size_t)(of->n * of->m) * sizeof(double));
    gy_dml_matrix *const caches[] = {of->h, of->c, of->z};
    for (int i = 0; i < 3; i++) {
        call->results[2 + i] = gy_dml_hold(gy_dml_of_matrix(caches[i]));
    }
    return GY_OK;
}

gy_status gy_dml_run_lstm(gy_dml_call *call)
{
    lstm of = {.n = 0};
    gy_status status = take_inputs(call, &of);
    status = status == GY_OK && of.t == 0
                 ? gy_fail(GY_SHAPE, "lstm: X has no column: expected one step at least")
                 : status;
    status = status == GY_OK ? run_forward(&of) : status;
    status = status == GY_OK ? give_forward(call, &of) : status;
    lstm_drop(&of);
    return status;
}

/* ---- gradient ---- */

typedef struct gradient {
    gy_dml_matrix *dh, *dc, *dz; /* (N, M), (N, M), (N, 4M): of one step */
    gy_dml_matrix *dout;         /* what the caller gives */
    gy_dml_matrix *dx, *dw, *db; /* results */
} gradient;

static void gradient_drop(gradient *g)
{
    gy_dml_matrix *const all[] = {g->dh, g->dc, g->dz, g->dout, g->dx, g->dw, g->db};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        gy_dml_matrix_drop(all[i]);
    }
}

static gy_status take_caches(const gy_dml_call *call, lstm *of)
{
    const bool has_caches =
        gy_dml_has(call, CACHE_H) && gy_dml_has(call, CACHE_C) && gy_dml_has(call, CACHE_Z);
    if (!has_caches) {
        return run_forward(of);
    }
    GY_TRY(gy_dml_arg_matrix(call, CACHE_H, &of->h));
    GY_TRY(gy_dml_arg_matrix(call, CACHE_C, &of->c));
    GY_TRY(gy_dml_arg_matrix(call, CACHE_Z, &of->z));
    GY_TRY(check(call, of->h, "cache_out", of->t, of->n * of->m));
    GY_TRY(check(call, of->c, "cache_c", of->t, of->n * of->m));
    return check(call, of->z, "cache_ifog", of->t, of->n * 4 * of->m);
}

static gy_status take_gradients(const gy_dml_call *call, const lstm *of, gradient *g)
{
    gy_dml_matrix *dc = NULL;
    GY_TRY(gy_dml_arg_matrix(call, DOUT, &g->dout));
    GY_TRY(check(call, g->dout, "dout", of->n, (of->has_sequences ? of->t : 1) * of->m));
    GY_TRY(gy_dml_arg_matrix(call, DC, &dc));
    gy_status status = check(call, dc, "dc", of->n, of->m);
    status = status == GY_OK ? gy_dml_matrix_copy(dc, &g->dc) : status;
    gy_dml_matrix_drop(dc);
    GY_TRY(status);
    GY_TRY(gy_dml_matrix_fill(of->n, of->m, 0, &g->dh));
    GY_TRY(gy_dml_matrix_new(of->n, 4 * of->m, &g->dz));
    GY_TRY(gy_dml_matrix_new(of->n, of->t * of->d, &g->dx));
    GY_TRY(gy_dml_matrix_fill(of->d + of->m, 4 * of->m, 0, &g->dw));
    return gy_dml_matrix_fill(1, 4 * of->m, 0, &g->db);
}

/* dz of a step; dc becomes that of the step before. */
static void step_backward(const lstm *of, gradient *g, int64_t t)
{
    const int64_t m = of->m, shift = of->has_sequences ? t * m : 0;
    const bool has_dout = of->has_sequences || t == of->t - 1;
    const double *c = of->c->data + t * of->c->columns, *old = before(of->in[C0], of->c, t);
    for (int64_t i = 0; i < of->n; i++) {
        const double *gates = of->z->data + t * of->z->columns + i * 4 * m;
        double *dz = g->dz->data + i * 4 * m;
        for (int64_t j = 0; j < m; j++) {
            const int64_t at = i * m + j;
            const double in = gates[j], forget = gates[m + j], out = gates[2 * m + j];
            const double made = gates[3 * m + j], squashed = tanh(c[at]);
            const double dh = g->dh->data[at] +
                              (has_dout ? g->dout->data[i * g->dout->columns + shift + j] : 0);
            const double dc = g->dc->data[at] + out * (1 - squashed * squashed) * dh;
            dz[j] = in * (1 - in) * made * dc;
            dz[m + j] = forget * (1 - forget) * old[at] * dc;
            dz[2 * m + j] = out * (1 - out) * squashed * dh;
            dz[3 * m + j] = (1 - made * made) * in * dc;
            g->dc->data[at] = forget * dc;
        }
    }
}

/* dw += t(input) dz, db += column sums of dz, [dx(t), dh] = dz t(W) */
static gy_status spread_step(lstm *of, gradient *g, gy_dml_matrix *turned, int64_t t)
{
    gy_dml_matrix *across = NULL, *dw = NULL, *back = NULL;
    fill_input(of, t);
    gy_status status = gy_dml_transpose(of->input, &across);
    status = status == GY_OK ? gy_dml_product(across, g->dz, &dw) : status;
    status = status == GY_OK ? gy_dml_product(g->dz, turned, &back) : status;
    for (int64_t k = 0; status == GY_OK && k < gy_dml_matrix_count(dw); k++) {
        g->dw->data[k] += dw->data[k];
    }
    for (int64_t i = 0; status == GY_OK && i < of->n; i++) {
        for (int64_t j = 0; j < 4 * of->m; j++) {
            g->db->data[j] += g->dz->data[i * 4 * of->m + j];
        }
        const double *row = back->data + i * (of->d + of->m);
        memcpy(g->dx->data + i * g->dx->columns + t * of->d, row,
               (size_t)of->d * sizeof(double));
        memcpy(g->dh->data + i * of->m, row + of->d, (size_t)of->m * sizeof(double));
    }
    gy_dml_matrix_drop(across);
    gy_dml_matrix_drop(dw);
    gy_dml_matrix_drop(back);
    return status;
}

static gy_status run_backward(gy_dml_call *call, lstm *of, gradient *g)
{
    gy_dml_matrix *turned = NULL;
    GY_TRY(take_inputs(call, of));
    GY_TRY(take_caches(call, of));
    GY_TRY(take_gradients(call, of, g));
    gy_status status = gy_dml_transpose(of->in[W], &turned);
    for (int64_t t = of->t - 1; t >= 0 && status == GY_OK; t--) {
        step_backward(of, g, t);
        status = spread_step(of, g, turned, t);
    }
    gy_dml_matrix_drop(turned);
    gy_dml_matrix *const results[] = {g->dx, g->dw, g->db, g->dh, g->dc};
    for (size_t i = 0; status == GY_OK && i < GY_COUNT(results); i++) {
        call->results[i] = gy_dml_hold(gy_dml_of_matrix(results[i]));
    }
    return status;
}

gy_status gy_dml_run_lstm_backward(gy_dml_call *call)
{
    lstm of = {.n = 0};
    gradient g = {.dh = NULL};
    const gy_status status = run_backward(call, &of, &g);
    gradient_drop(&g);
    lstm_drop(&of);
    return status;
}
