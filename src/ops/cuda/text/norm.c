/*
 * Layer norm and its gradient: a block takes a row. The sums over rows that dgain and dbias are
 * go by tiles of columns and pieces of rows: a block's threads lie side by side over columns
 * and above one another over rows, a tree folds the latter, and a last kernel folds the pieces
 * in the same way. A thread adds eight numbers in their own type, then these sums in double:
 * some devices have a sixty-fourth of the rate for double.
 */
#include "ops/cuda/text/text_priv.h"

enum { LANE_ROWS = 4, PIECES_MAX = 256, BLOCKS = 1024 };

/* Add `value` of each k of the row to `to`, and `more` to `other`. */
#define ADD_ROW(to, value, other, more)                                                        \
    "    for ($N first = ($N)threadIdx.x; first < columns; first += 8 * $B) {\n"               \
    "        $T part = 0, besides = 0;\n"                                                      \
    "        for (int n = 0; n < 8; n++) {\n"                                                  \
    "            const $N k = first + n * $B;\n"                                               \
    "            if (k < columns) {\n"                                                         \
    "                part += " value ";\n"                                                     \
    "                besides += " more ";\n"                                                   \
    "            }\n"                                                                          \
    "        }\n"                                                                              \
    "        " to " += (double)part;\n"                                                        \
    "        " other " += (double)besides;\n"                                                  \
    "    }\n"

/* Mean of the row, and 1 / sqrt(variance + epsilon). */
#define MOMENTS                                                                                \
    "    const long long row = blockIdx.x;\n"                                                  \
    "    const $N columns = ($N)g.columns;\n"                                                  \
    "    const $T *x = g.in0 + row * columns;\n"                                               \
    "    double sum = 0, other = 0;\n" ADD_ROW(                                                \
        "sum", "x[k]", "other",                                                                \
        "0") "    const $T mean = ($T)(gy_tree_sum(shared, sum) * g.share);\n"                 \
             "    sum = 0;\n" ADD_ROW(                                                         \
                 "sum", "(x[k] - mean) * (x[k] - mean)", "other",                              \
                 "0") "    const $T variance = ($T)(gy_tree_sum(shared, sum) * g.share);\n"    \
                      "    const $T scale = 1 / sqrt$f(variance + ($T)g.epsilon);\n"

static const char norm_text[] =
    "GY_BLOCK_KERNEL(gy_norm)\n"
    "{\n"
    "    __shared__ double shared[$B];\n" MOMENTS
    "    for ($N k = ($N)threadIdx.x; k < columns; k += $B) {\n"
    "        g.out0[row * columns + k] = (x[k] - mean) * scale * g.in1[k] + g.in2[k];\n"
    "    }\n"
    "}\n";

/* With h = dy gain: dx = scale (h - mean of h - xhat mean of h xhat). */
static const char slope_text[] =
    "GY_BLOCK_KERNEL(gy_slopes)\n"
    "{\n"
    "    __shared__ double shared[$B];\n" MOMENTS
    "    const $T *dy = g.in2 + row * columns, *gain = g.in1;\n"
    "    double along = 0;\n"
    "    sum = 0;\n" ADD_ROW(
        "sum", "dy[k] * gain[k]", "along",
        "dy[k] * gain[k] * ((x[k] - mean) * scale)") "    const $T flat = "
                                                     "($T)(gy_tree_sum(shared, sum) * "
                                                     "g.share);\n"
                                                     "    const $T tilt = "
                                                     "($T)(gy_tree_sum(shared, along) * "
                                                     "g.share);\n"
                                                     "    for ($N k = ($N)threadIdx.x; k < "
                                                     "columns; k += $B) {\n"
                                                     "        const $T xhat = (x[k] - mean) * "
                                                     "scale;\n"
                                                     "        g.out0[row * columns + k] = "
                                                     "scale * (dy[k] * gain[k] - flat - xhat * "
                                                     "tilt);\n"
                                                     "    }\n"
                                                     "    if (threadIdx.x == 0) {\n"
                                                     "        $T *moments = ($T *)g.workspace "
                                                     "+ 2 * row;\n"
                                                     "        moments[0] = mean;\n"
                                                     "        moments[1] = scale;\n"
                                                     "    }\n"
                                                     "}\n";

/* A tile is $W columns; so many threads above one another take a column. */
#define TILE                                                                                   \
    "    __shared__ double shared[256];\n"                                                     \
    "    const long long columns = g.columns, tile = blockIdx.x % g.tiles;\n"                  \
    "    const long long k = tile * $W + threadIdx.x % $W, lane = threadIdx.x / $W;\n"         \
    "    double dgain = 0, dbias = 0, *parts = g.workspace + 2 * g.rows + k;\n"
#define TILE_END                                                                               \
    "    dgain = gy_tree_sum_columns(shared, dgain, $W);\n"                                    \
    "    dbias = gy_tree_sum_columns(shared, dbias, $W);\n"

static const char sums_text[] =
    "GY_BLOCK_KERNEL(gy_sums)\n"
    "{\n" TILE "    const long long piece = blockIdx.x / g.tiles;\n"
    "    const long long end = k < columns ? g.rows * (piece + 1) / g.pieces : 0;\n"
    "    const long long begin = g.rows * piece / g.pieces;\n"
    "    const $T *moments = (const $T *)g.workspace;\n"
    "    for (long long first = begin + lane; first < end; first += 4 * (256 / $W)) {\n"
    "        $T part = 0, besides = 0;\n"
    "        for (int n = 0; n < 4; n++) {\n"
    "            const long long row = first + n * (256 / $W);\n"
    "            if (row < end) {\n"
    "                const $T slope = g.in2[row * columns + k];\n"
    "                const $T away = g.in0[row * columns + k] - moments[2 * row];\n"
    "                part += slope * (away * moments[2 * row + 1]);\n"
    "                besides += slope;\n"
    "            }\n"
    "        }\n"
    "        dgain += (double)part;\n"
    "        dbias += (double)besides;\n"
    "    }\n" TILE_END "    if (lane == 0 && k < columns) {\n"
    "        parts[piece * columns] = dgain;\n"
    "        parts[(g.pieces + piece) * columns] = dbias;\n"
    "    }\n"
    "}\n"
    "GY_BLOCK_KERNEL(gy_join)\n"
    "{\n" TILE "    const long long end = k < columns ? g.pieces : 0;\n"
    "    for (long long piece = lane; piece < end; piece += 256 / $W) {\n"
    "        dgain += parts[piece * columns];\n"
    "        dbias += parts[(g.pieces + piece) * columns];\n"
    "    }\n" TILE_END "    if (lane == 0 && k < columns) {\n"
    "        g.out1[k] = ($T)dgain;\n"
    "        g.out2[k] = ($T)dbias;\n"
    "    }\n"
    "}\n";

/* Columns side by side in a block that folds rows: a power of two. */
static int tile_width(int64_t columns)
{
    int width = 1;
    while (width < 32 && width < columns) {
        width *= 2;
    }
    return width;
}

static void write_sums(gy_cuda_writer *w, const gy_cuda_key *keys, int64_t rows,
                       int64_t columns, int width)
{
    const int64_t tiles = (columns + width - 1) / width, lanes = GY_CUDA_THREADS / width;
    const int64_t most = GY_MIN(BLOCKS / GY_MAX(tiles, (int64_t)1), (int64_t)PIECES_MAX);
    const int64_t pieces = GY_MAX(GY_MIN(rows / (lanes * LANE_ROWS), most), (int64_t)1);
    GY_ASSERT(width >= 1 && GY_CUDA_THREADS % width == 0);
    gy_cuda_number(w, "rows", rows);
    gy_cuda_number(w, "pieces", pieces);
    gy_cuda_number(w, "tiles", tiles);
    gy_cuda_print(w, sums_text, keys);
    w->text->workspace_bytes = (size_t)(2 * rows + 2 * pieces * columns) * sizeof(double);
    gy_cuda_launch_blocks(w, "gy_sums", pieces * tiles, GY_CUDA_THREADS);
    gy_cuda_launch_blocks(w, "gy_join", tiles, GY_CUDA_THREADS);
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
    const int threads = gy_cuda_line_threads(columns), width = tile_width(columns);
    char block[16], tile[16];
    (void)gy_print(block, sizeof(block), "%d", threads);
    (void)gy_print(tile, sizeof(tile), "%d", width);
    const gy_cuda_key keys[] = {{"T", gy_cuda_type_name(x->dtype)},
                                {"f", gy_cuda_suffix(x->dtype)},
                                {"N", gy_cuda_whole_name(columns)},
                                {"B", block},
                                {"W", tile},
                                {NULL, NULL}};
    gy_cuda_fields(w, 0);
    gy_cuda_number(w, "columns", columns);
    gy_cuda_real(w, "share", columns > 0 ? 1 / (double)columns : 0);
    gy_cuda_real(w, "epsilon", w->call->attributes->norm.epsilon);
    gy_cuda_print(w, is_slope ? slope_text : norm_text, keys);
    gy_cuda_launch_blocks(w, is_slope ? "gy_slopes" : "gy_norm", columns > 0 ? rows : 0,
                          threads);
    if (is_slope) {
        write_sums(w, keys, rows, columns, width);
    }
}
