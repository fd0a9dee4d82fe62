/*
 * Layer norm and its gradient: a block takes a row. The sums over rows that dgain and dbias are
 * go by pieces of rows, a thread for each column of each piece, and a last kernel adds the
 * pieces in order.
 */
#include "ops/cuda/text/text_priv.h"

enum { PIECE_ROWS = 32, PIECES_MAX = 64 };

/* Mean of the row, and 1 / sqrt(variance + epsilon). */
#define MOMENTS                                                                                \
    "    const long long row = blockIdx.x, columns = g.columns;\n"                             \
    "    const $T *x = g.in0 + row * columns;\n"                                               \
    "    double sum = 0, deviation = 0;\n"                                                     \
    "    for (long long k = threadIdx.x; k < columns; k += $B) {\n"                            \
    "        sum += (double)x[k];\n"                                                           \
    "    }\n"                                                                                  \
    "    const $T mean = ($T)(gy_tree_sum(shared, sum) / (double)columns);\n"                  \
    "    for (long long k = threadIdx.x; k < columns; k += $B) {\n"                            \
    "        const double away = (double)(x[k] - mean);\n"                                     \
    "        deviation += away * away;\n"                                                      \
    "    }\n"                                                                                  \
    "    const double variance = gy_tree_sum(shared, deviation) / (double)columns;\n"          \
    "    const $T scale = ($T)(1 / sqrt(variance + g.epsilon));\n"

static const char norm_text[] =
    "GY_BLOCK_KERNEL(gy_norm)\n"
    "{\n"
    "    __shared__ double shared[$B];\n" MOMENTS
    "    for (long long k = threadIdx.x; k < columns; k += $B) {\n"
    "        g.out0[row * columns + k] = (x[k] - mean) * scale * g.in1[k] + g.in2[k];\n"
    "    }\n"
    "}\n";

/* With h = dy gain: dx = scale (h - mean of h - xhat mean of h xhat). */
static const char slope_text[] =
    "GY_BLOCK_KERNEL(gy_slopes)\n"
    "{\n"
    "    __shared__ double shared[$B];\n" MOMENTS "    const $T *dy = g.in2 + row * columns;\n"
    "    double along = 0;\n"
    "    sum = 0;\n"
    "    for (long long k = threadIdx.x; k < columns; k += $B) {\n"
    "        const double h = (double)dy[k] * (double)g.in1[k];\n"
    "        sum += h;\n"
    "        along += h * (double)((x[k] - mean) * scale);\n"
    "    }\n"
    "    const $T flat = ($T)(gy_tree_sum(shared, sum) / (double)columns);\n"
    "    const $T tilt = ($T)(gy_tree_sum(shared, along) / (double)columns);\n"
    "    for (long long k = threadIdx.x; k < columns; k += $B) {\n"
    "        const $T xhat = (x[k] - mean) * scale;\n"
    "        g.out0[row * columns + k] = scale * (dy[k] * g.in1[k] - flat - xhat * tilt);\n"
    "    }\n"
    "    if (threadIdx.x == 0) {\n"
    "        g.workspace[2 * row] = (double)mean;\n"
    "        g.workspace[2 * row + 1] = (double)scale;\n"
    "    }\n"
    "}\n";

static const char sums_text[] =
    "GY_KERNEL(gy_sums)\n"
    "{\n"
    "    const long long job = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    const long long columns = g.columns;\n"
    "    if (job >= g.pieces * columns) {\n"
    "        return;\n"
    "    }\n"
    "    const long long piece = job / columns, k = job % columns;\n"
    "    const long long end = g.rows * (piece + 1) / g.pieces;\n"
    "    double dgain = 0, dbias = 0;\n"
    "    for (long long row = g.rows * piece / g.pieces; row < end; row++) {\n"
    "        const $T mean = ($T)g.workspace[2 * row], scale = ($T)g.workspace[2 * row + 1];\n"
    "        const double slope = (double)g.in2[row * columns + k];\n"
    "        dgain += slope * (double)((g.in0[row * columns + k] - mean) * scale);\n"
    "        dbias += slope;\n"
    "    }\n"
    "    g.workspace[2 * g.rows + job] = dgain;\n"
    "    g.workspace[2 * g.rows + g.pieces * columns + job] = dbias;\n"
    "}\n"
    "GY_KERNEL(gy_join)\n"
    "{\n"
    "    const long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (k >= g.columns) {\n"
    "        return;\n"
    "    }\n"
    "    double dgain = 0, dbias = 0;\n"
    "    for (long long piece = 0; piece < g.pieces; piece++) {\n"
    "        const double *from = g.workspace + 2 * g.rows + piece * g.columns + k;\n"
    "        dgain += from[0];\n"
    "        dbias += from[g.pieces * g.columns];\n"
    "    }\n"
    "    g.out1[k] = ($T)dgain;\n"
    "    g.out2[k] = ($T)dbias;\n"
    "}\n";

static int64_t blocks_of(int64_t jobs)
{
    return (jobs + GY_CUDA_THREADS - 1) / GY_CUDA_THREADS;
}

void gy_cuda_write_layer_norm(gy_cuda_writer *w)
{
    const gy_view *x = &w->call->inputs[0];
    const bool is_slope = w->call->op == &gy_ops_row_layer_norm_gradient;
    int64_t rows = 1, columns = 1;
    for (int dim = 0; dim < x->rank; dim++) {
        *(dim < x->rank - w->call->attributes->norm.axis_count ? &rows : &columns) *=
            x->sizes[dim];
    }
    const int64_t pieces = GY_MAX(GY_MIN(rows / PIECE_ROWS, (int64_t)PIECES_MAX), (int64_t)1);
    const int threads = gy_cuda_line_threads(columns);
    char block[16];
    (void)gy_print(block, sizeof(block), "%d", threads);
    const gy_cuda_key keys[] = {{"T", gy_cuda_type_name(x->dtype)}, {"B", block}, {NULL, NULL}};
    gy_cuda_fields(w, 0);
    gy_cuda_number(w, "rows", rows);
    gy_cuda_number(w, "columns", columns);
    gy_cuda_number(w, "pieces", pieces);
    gy_cuda_real(w, "epsilon", w->call->attributes->norm.epsilon);
    gy_cuda_print(w, is_slope ? slope_text : norm_text, keys);
    gy_cuda_launch_blocks(w, is_slope ? "gy_slopes" : "gy_norm", columns > 0 ? rows : 0,
                          threads);
    if (is_slope) {
        gy_cuda_print(w, sums_text, keys);
        w->text->workspace_bytes = (size_t)(2 * rows + 2 * pieces * columns) * sizeof(double);
        gy_cuda_launch_blocks(w, "gy_sums", blocks_of(pieces * columns), GY_CUDA_THREADS);
        gy_cuda_launch_blocks(w, "gy_join", blocks_of(columns), GY_CUDA_THREADS);
    }
}
