/**
 * w - s op(a) op(b) in w's own memory: the product adds to what is there, so that a step of
 * gradient descent neither stores the gradient nor reads it again.
 *
 * float32 by oneDNN's sgemm or, with few columns, own code, float64 by OpenBLAS. Pieces of rows
 * depend on the shape alone.
 */
#include "ops/kernels/kernels_priv.h"

enum { PIECE_FLOPS = 1 << 26, PIECE_ROWS = 256, MAX_PIECES = 64 };

typedef struct update {
    const gy_kernel_call *call;
    int64_t m, n, k, piece_rows, pieces;
    bool transpose_a, transpose_b, is_narrow;
    gy_status status[MAX_PIECES];
} update;

static bool update_accepts(const gy_kernel_query *query)
{
    gy_dtype dtype = query->outputs[0].dtype;
    for (int i = 0; i < query->input_count; i++) {
        if (query->inputs[i].dtype != dtype || query->inputs[i].format != GY_FORMAT_DENSE) {
            return false;
        }
    }
    return (dtype == GY_F32 || dtype == GY_F64) && query->outputs[0].sizes[0] < INT32_MAX &&
           query->outputs[0].sizes[1] < INT32_MAX && query->inputs[1].sizes[0] < INT32_MAX &&
           query->inputs[1].sizes[1] < INT32_MAX;
}

static void describe(const gy_kernel_call *call, update *u)
{
    const gy_view *a = &call->inputs[1], *c = &call->outputs[0];
    u->call = call;
    u->transpose_a = call->attributes->matmul.transpose_a;
    u->transpose_b = call->attributes->matmul.transpose_b;
    u->m = c->sizes[0];
    u->n = c->sizes[1];
    u->k = a->sizes[u->transpose_a ? 0 : 1];
    u->is_narrow = u->transpose_a && !u->transpose_b && gy_narrow_takes(u->n, u->m);
    double flops = 2.0 * (double)u->m * (double)u->n * (double)u->k;
    int64_t pieces = (int64_t)GY_MIN(flops / PIECE_FLOPS, (double)MAX_PIECES);
    int64_t rows = (u->m + GY_MAX(pieces, (int64_t)1) - 1) / GY_MAX(pieces, (int64_t)1);
    u->piece_rows = (GY_MAX(rows, (int64_t)PIECE_ROWS) + 63) / 64 * 64;
    u->pieces = (u->m + u->piece_rows - 1) / u->piece_rows;
}

static gy_status run_f32(const update *u, int64_t row, int64_t rows)
{
    const gy_dnnl *dnnl;
    const gy_kernel_call *call = u->call;
    const bool ta = u->transpose_a, tb = u->transpose_b;
    const float *a = call->inputs[1].data, *b = call->inputs[2].data;
    const float scale = *(const float *)call->inputs[3].data;
    if (u->is_narrow) {
        const gy_narrow_sums sums = {.a = a + row,
                                     .b = b,
                                     .rows = u->k,
                                     .stride = u->m,
                                     .length = rows,
                                     .width = u->n,
                                     .scale = -scale,
                                     .adds = true};
        gy_narrow_add(&sums, (float *)call->outputs[0].data + row * u->n);
        return GY_OK;
    }
    GY_TRY(gy_dnnl_get(&dnnl));
    return gy_dnnl_check(dnnl->sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', rows, u->n, u->k, -scale,
                                     a + (ta ? row : row * u->k), ta ? u->m : u->k, b,
                                     tb ? u->k : u->n, 1,
                                     (float *)call->outputs[0].data + row * u->n, u->n),
                         "a matmul");
}

static gy_status run_f64(const update *u, int64_t row, int64_t rows)
{
    const gy_blas *blas;
    const gy_kernel_call *call = u->call;
    const bool ta = u->transpose_a, tb = u->transpose_b;
    const double *a = call->inputs[1].data;
    GY_TRY(gy_blas_get(&blas));
    blas->dgemm(GY_BLAS_ROW_MAJOR, ta ? GY_BLAS_TRANSPOSED : GY_BLAS_PLAIN,
                tb ? GY_BLAS_TRANSPOSED : GY_BLAS_PLAIN, (int)rows, (int)u->n, (int)u->k,
                -*(const double *)call->inputs[3].data, a + (ta ? row : row * u->k),
                (int)(ta ? u->m : u->k), call->inputs[2].data, (int)(tb ? u->k : u->n), 1,
                (double *)call->outputs[0].data + row * u->n, (int)u->n);
    return GY_OK;
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    update *u = arg;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t row = piece * u->piece_rows, rows = GY_MIN(u->piece_rows, u->m - row);
        bool is_wide = u->call->outputs[0].dtype == GY_F64;
        u->status[piece] = (is_wide ? run_f64 : run_f32)(u, row, rows);
    }
}

static gy_status update_run(const gy_kernel_call *call)
{
    update u;
    describe(call, &u);
    if (call->outputs[0].data != call->inputs[0].data) {
        GY_TRY(gy_view_copy(&call->outputs[0], &call->inputs[0]));
    }
    if (u.m == 0 || u.n == 0 || u.k == 0) {
        return GY_OK;
    }
    GY_ASSERT(u.pieces <= MAX_PIECES);
    gy_parallel_for(call->engine, u.pieces, 1, run_pieces, &u);
    for (int64_t piece = 0; piece < u.pieces; piece++) {
        GY_TRY(u.status[piece]);
    }
    return GY_OK;
}

const gy_kernel gy_kernel_matmul_update = {
    .name = "gemm update",
    .accepts = update_accepts,
    .run = update_run,
    .in_place = 1,
};
