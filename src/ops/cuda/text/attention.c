/*
 * Attention and its gradient, q, k and v apart or as one: by tiles (attention_tiles.c), or of
 * float64 and of heads wider than tiles a block takes a query (of the
 * gradient of k and v: a key) and goes through the others in chunks of as many as it has
 * threads, so that no scores are stored. A thread makes the score of one pair of a chunk, then
 * adds up one column of the result. The gradient finds the probabilities again from the
 * log-sum-exp, as in Dao et al., "FlashAttention", 2022; each sum has its own block and a fixed
 * order.
 */
#include "ops/cuda/text/text_priv.h"

#include <math.h>

enum {
    THREADS = 128,
    NAME_BYTES = 32,
    TILE = 64,
    TILE_COLUMNS_MAX = 128,
    POSITIONS_MAX = 1 << 29 /* which int counts, together too */
};

/* Rows of the (b, h) that this block has: element 0 of the first position. */
#define PLACE                                                                                  \
    "    const long long job = blockIdx.x, h = job / g.$jobs % g.heads;\n"                     \
    "    const long long b = job / g.$jobs / g.heads, own = job % g.$jobs;\n"                  \
    "    const $S *q = $Q + g.q_begin + b * g.q_batch + h * g.q_head;\n"                       \
    "    const $S *k = $K + g.k_begin + b * g.k_batch + h * g.k_head;\n"                       \
    "    const $S *v = $V + g.v_begin + b * g.v_batch + h * g.v_head;\n"                       \
    "    const int t = threadIdx.x;\n"
/* Query `row` and key `s`: scale times their product. */
#define SCORE(row, s)                                                                          \
    "            $T score = 0;\n"                                                              \
    "            for (long long i = 0; i < g.d; i++) {\n"                                      \
    "                score = fma$f($load(q[(" row ") * g.q_row + i]),\n"                       \
    "                              $load(k[(" s ") * g.k_row + i]), score);\n"                 \
    "            }\n"                                                                          \
    "            score *= ($T)g.scale;\n"

/* Of a tile: columns, lines, and what a line and a warp's exchange have. */
typedef struct tile_sizes {
    int columns, rows; /* columns 0: no tiles */
    char texts[4][NAME_BYTES];
} tile_sizes;

static const char forward_text[] =
    "GY_BLOCK_KERNEL(gy_attention)\n"
    "{\n"
    "    __shared__ double shared[128];\n"
    "    __shared__ $T weights[128];\n" PLACE
    "    const long long seen = g.is_causal != 0 ? own + g.keys - g.queries + 1 : g.keys;\n"
    "    $T best = -gy_infinity(), sum = 0;\n"
    "    for (long long s = t; s < seen; s += 128) {\n" SCORE(
        "own",
        "s") "            const $T more = fmax$f(best, score);\n"
             "            sum = sum * exp$f(best - more) + exp$f(score - more);\n"
             "            best = more;\n"
             "    }\n"
             "    const double most = gy_tree_max(shared, (double)best);\n"
             "    const double own_sum = t < seen ? (double)sum * exp((double)best - most) : "
             "0;\n"
             "    const double whole = most + log(gy_tree_sum(shared, own_sum));\n"
             "    for (long long c = 0; c < g.e; c += 128) {\n"
             "        $T mean = 0;\n"
             "        for (long long first = 0; first < seen; first += 128) {\n"
             "            const long long s = first + t < seen ? first + t : seen - 1;\n"
             "" SCORE("own",
                      "s") "            __syncthreads();\n"
                           "            weights[t] = ($T)exp$f(($T)((double)score - whole));\n"
                           "            __syncthreads();\n"
                           "            for (int j = 0; j < 128 && first + j < seen && c + t < "
                           "g.e; j++) {\n"
                           "                mean = fma$f(weights[j], $load(v[(first + j) * "
                           "g.v_row + c + t]), mean);\n"
                           "            }\n"
                           "        }\n"
                           "        if (c + t < g.e) {\n"
                           "            g.out0[b * g.o_batch + own * g.o_row + h * g.o_head + "
                           "c + t] = mean;\n"
                           "        }\n"
                           "    }\n"
                           "    if (t == 0) {\n"
                           "        g.out1[job] = ($T)whole;\n"
                           "    }\n"
                           "}\n";

#define SLOPE_PLACE                                                                            \
    PLACE                                                                                      \
    "    const $T *out = $OUT + b * g.o_batch + h * g.o_head;\n"                               \
    "    const $S *dout = $DOUT + b * g.o_batch + h * g.o_head;\n"                             \
    "    const $T *lse = $LSE + (b * g.heads + h) * g.queries;\n"                              \
    "    double *means = g.workspace + (b * g.heads + h) * g.queries;\n"

/* From the score to p and ds = scale p (dout . v - dout . out). */
#define SLOPE(row, s)                                                                          \
    "            $T slope = 0;\n"                                                              \
    "            for (long long i = 0; i < g.e; i++) {\n"                                      \
    "                slope = fma$f($load(dout[(" row ") * g.o_row + i]),\n"                    \
    "                              $load(v[(" s ") * g.v_row + i]), slope);\n"                 \
    "            }\n"                                                                          \
    "            const $T p = exp$f(score - lse[" row "]);\n"                                  \
    "            const $T ds = ($T)g.scale * p * (slope - ($T)means[" row "]);\n"

static const char query_slope_text[] =
    "GY_BLOCK_KERNEL(gy_query_slopes)\n"
    "{\n"
    "    __shared__ double shared[128];\n"
    "    __shared__ $T weights[128];\n" SLOPE_PLACE
    "    const long long seen = g.is_causal != 0 ? own + g.keys - g.queries + 1 : g.keys;\n"
    "    double part = 0;\n"
    "    for (long long i = t; i < g.e; i += 128) {\n"
    "        part += (double)$load(dout[own * g.o_row + i]) * (double)out[own * g.o_row + i];\n"
    "    }\n"
    "    const double mean = gy_tree_sum(shared, part);\n"
    "    if (t == 0) {\n"
    "        means[own] = mean;\n"
    "    }\n"
    "    __syncthreads();\n"
    "    $T *dq = $DQ + g.q_begin + b * g.q_batch + h * g.q_head + own * g.q_row;\n"
    "    for (long long c = 0; c < g.d; c += 128) {\n"
    "        $T sum = 0;\n"
    "        for (long long first = 0; first < seen; first += 128) {\n"
    "            const long long s = first + t < seen ? first + t : seen - 1;\n"
    "" SCORE("own", "s") SLOPE(
        "own",
        "s") "            __syncthreads();\n"
             "            weights[t] = ds;\n"
             "            __syncthreads();\n"
             "            for (int j = 0; j < 128 && first + j < seen && c + t < g.d; j++) {\n"
             "                sum = fma$f(weights[j], $load(k[(first + j) * g.k_row + c + t]), "
             "sum);\n"
             "            }\n"
             "        }\n"
             "        if (c + t < g.d) {\n"
             "            dq[c + t] = sum;\n"
             "        }\n"
             "    }\n"
             "}\n";

static const char key_slope_text[] =
    "GY_BLOCK_KERNEL(gy_key_slopes)\n"
    "{\n"
    "    __shared__ $T weights[128];\n"
    "    __shared__ $T chances[128];\n" SLOPE_PLACE "    (void)out;\n"
    "    const long long away = own + g.queries - g.keys;\n"
    "    const long long begin = g.is_causal != 0 && away > 0 ? away : 0;\n"
    "    const long long columns = g.d > g.e ? g.d : g.e;\n"
    "    $T *dk = $DK + g.k_begin + b * g.k_batch + h * g.k_head + own * g.k_row;\n"
    "    $T *dv = $DV + g.v_begin + b * g.v_batch + h * g.v_head + own * g.v_row;\n"
    "    for (long long c = 0; c < columns; c += 128) {\n"
    "        $T of_key = 0, of_value = 0;\n"
    "        for (long long first = begin; first < g.queries; first += 128) {\n"
    "            const long long last = g.queries - 1;\n"
    "            const long long row = first + t < g.queries ? first + t : last;\n"
    "" SCORE("row", "own") SLOPE(
        "row",
        "own") "            __syncthreads();\n"
               "            weights[t] = ds;\n"
               "            chances[t] = p;\n"
               "            __syncthreads();\n"
               "            for (int j = 0; j < 128 && first + j < g.queries; j++) {\n"
               "                if (c + t < g.d) {\n"
               "                    const $T x = $load(q[(first + j) * g.q_row + c + t]);\n"
               "                    of_key = fma$f(weights[j], x, of_key);\n"
               "                }\n"
               "                if (c + t < g.e) {\n"
               "                    const $T x = $load(dout[(first + j) * g.o_row + c + t]);\n"
               "                    of_value = fma$f(chances[j], x, of_value);\n"
               "                }\n"
               "            }\n"
               "        }\n"
               "        if (c + t < g.d) {\n"
               "            dk[c + t] = of_key;\n"
               "        }\n"
               "        if (c + t < g.e) {\n"
               "            dv[c + t] = of_value;\n"
               "        }\n"
               "    }\n"
               "}\n";

/* Strides of a value (B, positions, H, width), or of a part of one (B, positions, H, 3, width).
 */
static void number_view(gy_cuda_writer *w, const char *which, const gy_view *view, int part)
{
    const int64_t width = view->sizes[view->rank - 1];
    const int64_t head = view->rank == 5 ? 3 * width : width;
    const int64_t row = view->sizes[2] * head;
    char name[NAME_BYTES];
    (void)gy_print(name, sizeof(name), "%s_begin", which);
    gy_cuda_number(w, name, view->rank == 5 ? part * width : 0);
    (void)gy_print(name, sizeof(name), "%s_batch", which);
    gy_cuda_number(w, name, view->sizes[1] * row);
    (void)gy_print(name, sizeof(name), "%s_row", which);
    gy_cuda_number(w, name, row);
    (void)gy_print(name, sizeof(name), "%s_head", which);
    gy_cuda_number(w, name, head);
}

static const char *load_of(gy_dtype dtype)
{
    return dtype == GY_BF16 ? "gy_float_of_bf16" : dtype == GY_F16 ? "gy_float_of_f16" : "";
}

static void print_part(gy_cuda_writer *w, const char *snippet, const char *jobs, bool is_packed)
{
    const gy_dtype stored = w->call->inputs[0].dtype, type = w->call->outputs[0].dtype;
    const gy_cuda_key keys[] = {{"T", gy_cuda_type_name(type)},
                                {"S", gy_cuda_type_name(stored)},
                                {"f", gy_cuda_suffix(type)},
                                {"load", load_of(stored)},
                                {"jobs", jobs},
                                {"Q", "g.in0"},
                                {"K", is_packed ? "g.in0" : "g.in1"},
                                {"V", is_packed ? "g.in0" : "g.in2"},
                                {"OUT", is_packed ? "g.in1" : "g.in3"},
                                {"LSE", is_packed ? "g.in2" : "g.in4"},
                                {"DOUT", is_packed ? "g.in3" : "g.in5"},
                                {"DQ", "g.out0"},
                                {"DK", is_packed ? "g.out0" : "g.out1"},
                                {"DV", is_packed ? "g.out0" : "g.out2"},
                                {NULL, NULL}};
    gy_cuda_print(w, snippet, keys);
}

/* A block of queries or of keys. */
static void write_blocks(gy_cuda_writer *w, bool is_slope, bool is_packed, int64_t queries,
                         int64_t keys)
{
    if (!is_slope) {
        print_part(w, forward_text, "queries", is_packed);
        gy_cuda_launch_blocks(w, "gy_attention", queries, THREADS);
        return;
    }
    print_part(w, query_slope_text, "queries", is_packed);
    gy_cuda_launch_blocks(w, "gy_query_slopes", queries, THREADS);
    print_part(w, key_slope_text, "keys", is_packed);
    gy_cuda_launch_blocks(w, "gy_key_slopes", keys, THREADS);
}

/* ---- by tiles ---- */

/* As many lines as two tiles of k and v each leave room for in 48 KiB. */
static tile_sizes sizes_of(gy_dtype stored, int64_t width, int64_t positions)
{
    tile_sizes sizes = {.columns = 16};
    const bool is_half = gy_dtype_bytes(stored) == 2;
    if (stored == GY_F64 || width > TILE_COLUMNS_MAX || positions > POSITIONS_MAX) {
        return (tile_sizes){.columns = 0};
    }
    while (sizes.columns < width) {
        sizes.columns *= 2;
    }
    sizes.rows = (is_half ? 64 : 32) / (sizes.columns > TILE ? 2 : 1);
    const int line = sizes.columns + (is_half ? 8 : 4);
    const int exchange = is_half ? 4 : 16 * (sizes.rows + 4);
    const int numbers[4] = {sizes.columns, sizes.rows, line, exchange};
    for (int i = 0; i < 4; i++) {
        (void)gy_print(sizes.texts[i], sizeof(sizes.texts[i]), "%d", numbers[i]);
    }
    return sizes;
}

/* A kernel by tiles: what it sums of dq, or of dk and dv, and how many of its blocks the
 * registers of a multiprocessor are to hold, of narrow and of wide heads. */
typedef struct tile_part {
    const char *name, *sums_first, *sums_second, *blocks, *wide_blocks;
    bool is_of_queries;
} tile_part;

static const tile_part forward_part = {"gy_attention_tiles", "0", "0", "4", "3", true};
static const tile_part query_part = {"gy_query_tiles", "1", "0", "3", "2", true};
static const tile_part both_parts = {"gy_key_value_tiles", "1", "1", "2", NULL, false};
static const tile_part key_part = {"gy_key_tiles", "1", "0", NULL, "2", false};
static const tile_part value_part = {"gy_value_tiles", "0", "1", NULL, "3", false};

static void print_tiles(gy_cuda_writer *w, const char *const *pieces, const tile_sizes *sizes,
                        bool is_packed, const tile_part *part)
{
    const gy_dtype stored = w->call->inputs[0].dtype;
    const char *const k = is_packed ? "g.in0" : "g.in1", *v = is_packed ? "g.in0" : "g.in2";
    const char *const dout = is_packed ? "g.in3" : "g.in5";
    const bool is = part->is_of_queries;
    const gy_cuda_key keys[] = {
        {"S", gy_cuda_type_name(stored)},
        {"H", gy_cuda_tile_name(stored)},
        {"load", load_of(stored)},
        {"D", sizes->texts[0]},
        {"N", sizes->texts[1]},
        {"W", sizes->texts[2]},
        {"X", sizes->texts[3]},
        {"Q", "g.in0"},
        {"K", k},
        {"V", v},
        {"OUT", is_packed ? "g.in1" : "g.in3"},
        {"LSE", is_packed ? "g.in2" : "g.in4"},
        /* Of slopes: the block's own two, the two in tiles. */
        {"name", part->name},
        {"blocks", sizes->columns <= TILE ? part->blocks : part->wide_blocks},
        {"first", part->sums_first},
        {"second", part->sums_second},
        {"is", is ? "1" : "0"},
        {"own", is ? "queries" : "keys"},
        {"other", is ? "keys" : "queries"},
        {"a", is ? "q" : "k"},
        {"A", is ? "g.in0" : k},
        {"c", is ? "o" : "v"},
        {"C", is ? dout : v},
        {"p", is ? "k" : "q"},
        {"P", is ? k : "g.in0"},
        {"r", is ? "v" : "o"},
        {"R", is ? v : dout},
        {"DOUT", dout},
        {"DA", is || is_packed ? "g.out0" : "g.out1"},
        {"DC", is || is_packed ? "g.out0" : "g.out2"},
        {NULL, NULL}};
    for (; *pieces != NULL; pieces++) {
        gy_cuda_print(w, *pieces, keys);
    }
}

static void print_slopes(gy_cuda_writer *w, const tile_sizes *sizes, bool is_packed,
                         const tile_part *part, int64_t blocks)
{
    print_tiles(w, gy_cuda_attention_slopes_text, sizes, is_packed, part);
    gy_cuda_launch_blocks(w, part->name, blocks, THREADS);
}

/* counts: heads, queries, keys. */
static void write_tiles(gy_cuda_writer *w, const tile_sizes *sizes, bool is_slope,
                        bool is_packed, const int64_t counts[3])
{
    const int64_t of_queries = counts[0] * ((counts[1] + TILE - 1) / TILE);
    const int64_t of_keys = counts[0] * ((counts[2] + TILE - 1) / TILE);
    gy_cuda_print_tiles(w, w->call->inputs[0].dtype);
    if (!is_slope) {
        print_tiles(w, gy_cuda_attention_text, sizes, is_packed, &forward_part);
        gy_cuda_launch_blocks(w, forward_part.name, of_queries, THREADS);
        return;
    }
    print_slopes(w, sizes, is_packed, &query_part, of_queries);
    if (sizes->columns <= TILE) {
        print_slopes(w, sizes, is_packed, &both_parts, of_keys);
    } else { /* both together would take more registers than a thread has */
        print_slopes(w, sizes, is_packed, &key_part, of_keys);
        print_slopes(w, sizes, is_packed, &value_part, of_keys);
    }
}

void gy_cuda_write_attention(gy_cuda_writer *w)
{
    const gy_kernel_call *call = w->call;
    const bool is_packed = call->inputs[0].rank == 5;
    const bool is_slope = call->op == &gy_ops_row_attention_gradient ||
                          call->op == &gy_ops_row_attention_packed_gradient;
    const gy_view *q = &call->inputs[0], *k = &call->inputs[is_packed ? 0 : 1];
    const gy_view *v = &call->inputs[is_packed ? 0 : 2];
    const gy_view *out = is_slope ? &call->inputs[is_packed ? 1 : 3] : &call->outputs[0];
    const int64_t d = q->sizes[q->rank - 1], e = v->sizes[v->rank - 1];
    const int64_t heads = q->sizes[0] * q->sizes[2], queries = q->sizes[1], keys = k->sizes[1];
    const double scale = call->attributes->attention.scale;
    const tile_sizes sizes = sizes_of(q->dtype, GY_MAX(d, e), GY_MAX(queries, keys));
    gy_cuda_fields(w, 0);
    number_view(w, "q", q, 0);
    number_view(w, "k", k, 1);
    number_view(w, "v", v, 2);
    number_view(w, "o", out, 0);
    gy_cuda_number(w, "heads", q->sizes[2]);
    gy_cuda_number(w, "queries", queries);
    gy_cuda_number(w, "keys", keys);
    gy_cuda_number(w, "d", d);
    gy_cuda_number(w, "e", e);
    gy_cuda_number(w, "is_causal", call->attributes->attention.is_causal);
    gy_cuda_real(w, "scale", scale > 0 ? scale : 1 / sqrt((double)GY_MAX(d, (int64_t)1)));
    w->text->workspace_bytes = is_slope ? (size_t)(heads * queries) * sizeof(double) : 0;
    if (sizes.columns > 0) {
        write_tiles(w, &sizes, is_slope, is_packed, (const int64_t[]){heads, queries, keys});
    } else {
        write_blocks(w, is_slope, is_packed, heads * queries, heads * keys);
    }
}
