/**
 * Attention and its gradient, one (batch, head) after another, by tiles of QUERIES positions of
 * q against KEYS positions of k: scores and probabilities exist for one tile alone. Products
 * are oneDNN's sgemm and OpenBLAS's dgemm, straight from the rows of the inputs (a head's
 * positions lie H d elements apart); what lies between is done row by row. q, k, v and dout of
 * bf16 are multiplied by AVX512-BF16, and so are probabilities and slopes of scores, rounded to
 * bf16 then; scores, softmax and sums are float32.
 *
 * Forward, the maximum and the sum of a row grow from tile to tile, and what was summed up with
 * a smaller maximum is scaled down. The gradient makes the probabilities from the log-sum-exp.
 * Keys of a tile that a row does not see take part with probability 0, which a NaN of theirs
 * would make NaN. The row of a tile that sees least, or the one that sees all, shows that there
 * is one (forward also an infinity), and then the tile goes again, row by row: a tile of one
 * row has no key that it does not see.
 *
 * Measured on one core (products at 150 GFLOP/s, B 8, T 128, H 4, d 64): tiles of 64 queries
 * lose 25 % to the upper triangle of a causal mask, those of 32 more to shorter products.
 *
 * @source Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018
 */
#include "ops/avx512/pairs.h"
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/libraries.h"
#include "ops/kernels/tiles.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 64, KEYS = 512, MAX_PIECES = 64 };

/* What is done to a row of scores, of one element type. */
typedef struct row_functions {
    double (*maximum)(const void *x, int64_t count);
    double (*powers)(void *x, double shift, int64_t count); /* x = exp(x - shift); their sum */
    void (*scale)(void *x, double factor, int64_t count);
    /* dp = scale p (dp - mean) */
    void (*slope)(const void *p, void *dp, double mean, double scale, int64_t count);
    double (*dot)(const void *a, const void *b, int64_t count);
} row_functions;

/* q (B,T,H,d), k (B,S,H,d), v (B,S,H,e); packed, all three (B,T,H,3,d). */
typedef struct heads {
    const gy_kernel_call *call;
    const row_functions *row;
    const gy_dnnl *dnnl;            /* of float32 */
    const gy_blas *blas;            /* of float64; bf16 has neither */
    size_t item;                    /* bytes of a result's element */
    size_t tile_bytes, piece_bytes; /* of the workspace */
    int64_t batches, queries, keys, count, width, value_width; /* B T S H d e */
    int64_t columns;                                           /* of a tile: KEYS or S */
    int64_t pieces; /* that run at the same time, each with workspace of its own */
    double scale;
    bool is_causal, is_packed, is_forward;
    dnnl_status_t status[MAX_PIECES];
} heads;

/* One (b,h), and the tile that is worked on: queries [t, t + rows), keys [s, s + columns). */
typedef struct tile {
    heads *all;
    int64_t piece, b, h, t, rows, s, columns;
    char *first, *second;  /* (QUERIES, all->columns) */
    char *pairs;           /* gy_pairs_bytes of the largest product */
    double means[QUERIES]; /* of the gradient: dout out of each row */
} tile;

/* q, k, v and dout, which products read: of 16 bits where the others are float32. */
static bool is_operand(const gy_kernel_query *query, int input)
{
    const bool is_packed = query->inputs[0].rank == 5;
    return is_packed ? input == 0 || input == 3 : input < 3 || input == 5;
}

static bool accepts(const gy_kernel_query *query, gy_dtype operands, gy_dtype results)
{
    const gy_view *q = &query->inputs[0], *v = &query->inputs[q->rank == 5 ? 0 : 2];
    for (int i = 0; i < query->input_count; i++) {
        if (query->inputs[i].dtype != (is_operand(query, i) ? operands : results)) {
            return false;
        }
    }
    const int64_t d = q->sizes[q->rank - 1], e = v->sizes[v->rank - 1];
    const int64_t parts = q->rank == 5 ? 3 : 1, count = GY_MAX(q->sizes[2], (int64_t)1);
    return query->outputs[0].dtype == results && d > 0 && e > 0 &&
           GY_MAX(d, e) * count * parts < INT32_MAX;
}

static bool attention_accepts(const gy_kernel_query *query)
{
    const gy_dtype dtype = query->inputs[0].dtype;
    return gy_dtype_is_real(dtype) && accepts(query, dtype, dtype);
}

static bool bf16_accepts(const gy_kernel_query *query)
{
    return gy_kernel_has_bf16() && accepts(query, GY_BF16, GY_F32);
}

static int64_t tile_columns(const gy_view *k)
{
    return GY_MIN(k->sizes[1], (int64_t)KEYS);
}

static int64_t piece_count(const gy_kernel_query *query)
{
    const int64_t *q = query->inputs[0].sizes;
    const int64_t wanted = query->workers > 1 ? (int64_t)query->workers * 4 : 1;
    return GY_MAX(GY_MIN(GY_MIN(q[0] * q[2], wanted), (int64_t)MAX_PIECES), (int64_t)1);
}

/* Bytes of a result's element. */
static size_t item_of(gy_dtype operands)
{
    return operands == GY_F64 ? sizeof(double) : sizeof(float);
}

static size_t tile_bytes(const gy_view *k)
{
    return (size_t)(QUERIES * tile_columns(k)) * item_of(k->dtype);
}

static const gy_view *keys_of(const gy_view *inputs)
{
    return &inputs[inputs[0].rank == 5 ? 0 : 1];
}

/* What products of bf16 are laid out in: those of attend and attend_back. */
static size_t pairs_bytes(const gy_view *inputs)
{
    const gy_view *q = &inputs[0], *k = keys_of(inputs), *v = &inputs[q->rank == 5 ? 0 : 2];
    const int64_t d = q->sizes[q->rank - 1], e = v->sizes[v->rank - 1];
    const int64_t width = GY_MAX(d, e), columns = tile_columns(k);
    if (q->dtype != GY_BF16) {
        return 0;
    }
    return GY_MAX(GY_MAX(gy_pairs_bytes(QUERIES, columns, width),
                         gy_pairs_bytes(QUERIES, width, columns)),
                  gy_pairs_bytes(columns, width, QUERIES));
}

static bool is_forward(const gy_op *op)
{
    return op == &gy_ops_row_attention || op == &gy_ops_row_attention_packed;
}

/* One tile forward, two backward. */
static size_t piece_bytes(const gy_op *op, const gy_view *inputs)
{
    const size_t tiles = is_forward(op) ? 1 : 2;
    return tiles * tile_bytes(keys_of(inputs)) + pairs_bytes(inputs);
}

static size_t attention_workspace(const gy_kernel_query *query)
{
    return (size_t)piece_count(query) * piece_bytes(query->op, query->inputs);
}

static gy_status attention_prepare(const gy_kernel_query *query, void **state)
{
    int64_t *pieces = gy_alloc("kernel.attention", sizeof(*pieces));
    if (pieces == NULL) {
        return GY_NOMEM;
    }
    *pieces = piece_count(query);
    *state = pieces;
    return GY_OK;
}

/* ---- rows ---- */

static double maximum_f32(const void *x, int64_t count)
{
    return (double)gy_tiles()->row_max(x, count);
}

static double powers_f32(void *x, double shift, int64_t count)
{
    return gy_tiles()->exp_sum(x, (float)shift, x, count);
}

static void scale_f32(void *x, double factor, int64_t count)
{
    float *y = x;
    for (int64_t i = 0; i < count; i++) {
        y[i] *= (float)factor;
    }
}

static void slope_f32(const void *p, void *dp, double mean, double scale, int64_t count)
{
    gy_tiles()->softmax_slope(p, dp, (float)mean, (float)scale, count);
}

static double dot_f32(const void *a, const void *b, int64_t count)
{
    return gy_tiles()->row_dot(a, b, count);
}

static double maximum_f64(const void *x, int64_t count)
{
    const double *y = x;
    double best = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        best = y[i] > best || isnan(y[i]) ? y[i] : best;
    }
    return best;
}

static double powers_f64(void *x, double shift, int64_t count)
{
    double *y = x, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        y[i] = exp(y[i] - shift);
        sum += y[i];
    }
    return sum;
}

static void scale_f64(void *x, double factor, int64_t count)
{
    double *y = x;
    for (int64_t i = 0; i < count; i++) {
        y[i] *= factor;
    }
}

static void slope_f64(const void *p, void *dp, double mean, double scale, int64_t count)
{
    const double *chance = p;
    double *y = dp;
    for (int64_t i = 0; i < count; i++) {
        y[i] = scale * chance[i] * (y[i] - mean);
    }
}

static double dot_f64(const void *a, const void *b, int64_t count)
{
    const double *x = a, *y = b;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}

static const row_functions rows_f32 = {
    .maximum = maximum_f32,
    .powers = powers_f32,
    .scale = scale_f32,
    .slope = slope_f32,
    .dot = dot_f32,
};

static const row_functions rows_f64 = {
    .maximum = maximum_f64,
    .powers = powers_f64,
    .scale = scale_f64,
    .slope = slope_f64,
    .dot = dot_f64,
};

/* ---- products ---- */

/* A matrix in memory: rows `step` elements apart. */
typedef struct matrix {
    void *data;
    int64_t step;
    bool is_turned, is_half; /* of bf16 */
} matrix;

typedef struct product {
    int64_t m, n, k;
    double alpha, beta;
} product;

static gy_pairs_operand operand_of(matrix m)
{
    return (gy_pairs_operand){m.data, m.step, m.is_turned, !m.is_half};
}

/* c (m,n) = alpha a b + beta c, beta 0 or 1, a (m,k) and b (k,n) turned where they say so. */
static void multiply(const tile *at, product p, matrix a, matrix b, matrix c)
{
    heads *all = at->all;
    if (b.is_half) {
        const gy_pairs pairs = {.m = p.m,
                                .n = p.n,
                                .k = p.k,
                                .a = operand_of(a),
                                .b = operand_of(b),
                                .alpha = (float)p.alpha,
                                .adds = p.beta != 0,
                                .c = c.data,
                                .c_step = c.step,
                                .workspace = at->pairs};
        gy_pairs_multiply(&pairs);
        return;
    }
    if (all->dnnl == NULL) {
        all->blas->dgemm(GY_BLAS_ROW_MAJOR, a.is_turned ? GY_BLAS_TRANSPOSED : GY_BLAS_PLAIN,
                         b.is_turned ? GY_BLAS_TRANSPOSED : GY_BLAS_PLAIN, (int)p.m, (int)p.n,
                         (int)p.k, p.alpha, a.data, (int)a.step, b.data, (int)b.step, p.beta,
                         c.data, (int)c.step);
        return;
    }
    dnnl_status_t status = all->dnnl->sgemm(a.is_turned ? 'T' : 'N', b.is_turned ? 'T' : 'N',
                                            p.m, p.n, p.k, (float)p.alpha, a.data, a.step,
                                            b.data, b.step, (float)p.beta, c.data, c.step);
    if (status != dnnl_success) {
        all->status[at->piece] = status;
    }
}

enum { Q, K, V, OUT, LSE, DOUT };

/* Input number `input` of the row that is not packed. */
static const gy_view *input_of(const tile *at, int input)
{
    const bool is_packed = at->all->is_packed;
    return &at->all->call->inputs[!is_packed ? input : input < OUT ? 0 : input - V];
}

/* The rows of this head from `position` on, of a value (B,positions,H,width), or of part Q, K
   or V of one that is packed. */
static matrix rows_of(const tile *at, const gy_view *view, int part, int64_t position)
{
    const int64_t *sizes = view->sizes;
    const int64_t parts = view->rank == 5 ? 3 : 1, width = sizes[view->rank - 1];
    const int64_t row = (at->b * sizes[1] + position) * sizes[2] + at->h;
    const int64_t offset = (row * parts + (parts == 3 ? part : 0)) * width;
    return (matrix){(char *)view->data + (size_t)offset * gy_dtype_bytes(view->dtype),
                    sizes[2] * parts * width, false, view->dtype == GY_BF16};
}

static matrix input_rows(const tile *at, int input, int64_t position)
{
    return rows_of(at, input_of(at, input), input, position);
}

static matrix slope_rows(const tile *at, int input, int64_t position)
{
    return rows_of(at, &at->all->call->outputs[at->all->is_packed ? 0 : input], input,
                   position);
}

static matrix turned(matrix m)
{
    m.is_turned = !m.is_turned;
    return m;
}

static matrix scores_of(const tile *at, char *data)
{
    return (matrix){data, at->all->columns, false, false};
}

static void *row_of(const tile *at, matrix m, int64_t row)
{
    return (char *)m.data + (size_t)(row * m.step) * (m.is_half ? 2 : at->all->item);
}

/* How many keys query t sees in all. */
static int64_t seen(const heads *all, int64_t t)
{
    return all->is_causal ? t + all->keys - all->queries + 1 : all->keys;
}

/* Of the tile's keys those that its row sees; the scores of the others become 0. */
static int64_t clear_unseen(const tile *at, matrix scores, int64_t row)
{
    const int64_t count =
        GY_MAX(GY_MIN(seen(at->all, at->t + row) - at->s, at->columns), (int64_t)0);
    memset((char *)row_of(at, scores, row) + (size_t)count * at->all->item, 0,
           (size_t)(at->columns - count) * at->all->item);
    return count;
}

/* scores (rows,columns) = scale q k' */
static matrix make_scores(const tile *at)
{
    const matrix scores = scores_of(at, at->first);
    multiply(at, (product){at->rows, at->columns, at->all->width, at->all->scale, 0},
             input_rows(at, Q, at->t), turned(input_rows(at, K, at->s)), scores);
    return scores;
}

/* ---- forward ---- */

/* Scores become powers over the largest so far; what was added up before is scaled to it. */
static void take_powers(const tile *at, matrix scores, matrix out, double *maxima, double *sums)
{
    const row_functions *row = at->all->row;
    for (int64_t r = 0; r < at->rows; r++) {
        const int64_t count = clear_unseen(at, scores, r);
        if (count == 0) {
            continue;
        }
        void *x = row_of(at, scores, r);
        const double best = row->maximum(x, count);
        const double maximum = best > maxima[r] || isnan(best) ? best : maxima[r];
        const double factor = at->s == 0 ? 0 : exp(maxima[r] - maximum);
        sums[r] = sums[r] * factor + row->powers(x, maximum, count);
        maxima[r] = maximum;
        if (at->s > 0 && factor != 1) {
            row->scale(row_of(at, out, r), factor, at->all->value_width);
        }
    }
}

static void put_lse(const tile *at, const double *maxima, const double *sums)
{
    const heads *all = at->all;
    const gy_view *lse = &all->call->outputs[1];
    const int64_t begin = (at->b * all->count + at->h) * all->queries + at->t;
    for (int64_t r = 0; r < at->rows; r++) {
        gy_element_set(lse->dtype, lse->data, begin + r, maxima[r] + log(sums[r]));
    }
}

static bool is_finite(gy_dtype dtype, const void *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(gy_element_get(dtype, x, i))) {
            return false;
        }
    }
    return true;
}

static void attend(tile *at)
{
    const heads *all = at->all;
    const matrix out = rows_of(at, &all->call->outputs[0], 0, at->t);
    const int64_t visible = seen(all, at->t + at->rows - 1);
    double maxima[QUERIES], sums[QUERIES];
    for (int64_t r = 0; r < at->rows; r++) {
        maxima[r] = -INFINITY;
        sums[r] = 0;
    }
    for (at->s = 0; at->s < visible; at->s += all->columns) {
        at->columns = GY_MIN(all->columns, visible - at->s);
        const matrix scores = make_scores(at);
        take_powers(at, scores, out, maxima, sums);
        multiply(at, (product){at->rows, all->value_width, at->columns, 1, at->s > 0}, scores,
                 input_rows(at, V, at->s), out);
    }
    for (int64_t r = 0; r < at->rows; r++) {
        all->row->scale(row_of(at, out, r), 1 / sums[r], all->value_width);
    }
    put_lse(at, maxima, sums);
}

/* ---- gradient ---- */

/* The first row sees the fewest keys: what comes of the others is in it, too. */
static bool has_clean_rows(const tile *at)
{
    const gy_view *out = &at->all->call->outputs[0];
    return is_finite(out->dtype, rows_of(at, out, 0, at->t).data, at->all->value_width);
}

static void take_means(tile *at)
{
    const matrix out = input_rows(at, OUT, at->t), dout = input_rows(at, DOUT, at->t);
    const int64_t e = at->all->value_width;
    for (int64_t r = 0; r < at->rows; r++) {
        const void *slope = row_of(at, dout, r);
        if (dout.is_half) {
            const gy_tile row = {.inputs = {slope}, .output = at->pairs, .count = e};
            gy_tiles()->find(GY_CODE_cast, GY_BF16, GY_F32)(&row);
            slope = at->pairs;
        }
        at->means[r] = at->all->row->dot(slope, row_of(at, out, r), e);
    }
}

/* A NaN in a key is one in the output or the log-sum-exp of the last row, which sees all keys
 * of the tile; one in a row of q or dout, of which later keys must not be told, in its own. */
static bool has_clean_keys(const tile *at)
{
    const gy_view *lse = input_of(at, LSE);
    const int64_t begin = (at->b * at->all->count + at->h) * at->all->queries + at->t;
    return is_finite(GY_F64, at->means, at->rows) &&
           is_finite(lse->dtype, (const char *)lse->data + (size_t)begin * at->all->item,
                     at->rows);
}

static void attend_back(tile *at)
{
    const heads *all = at->all;
    const gy_view *lses = input_of(at, LSE);
    const matrix q = input_rows(at, Q, at->t), dout = input_rows(at, DOUT, at->t);
    const matrix dq = slope_rows(at, Q, at->t);
    const int64_t visible = seen(all, at->t + at->rows - 1), d = all->width;
    const int64_t e = all->value_width, m = at->rows;
    const int64_t begin = (at->b * all->count + at->h) * all->queries + at->t;
    for (at->s = 0; at->s < visible; at->s += all->columns) {
        const int64_t n = at->columns = GY_MIN(all->columns, visible - at->s);
        const matrix p = make_scores(at), ds = scores_of(at, at->second);
        for (int64_t r = 0; r < m; r++) {
            const int64_t count = clear_unseen(at, p, r);
            const double lse = gy_element_get(lses->dtype, lses->data, begin + r);
            (void)all->row->powers(row_of(at, p, r), lse, count);
        }
        multiply(at, (product){n, e, m, 1, 1}, turned(p), dout, slope_rows(at, V, at->s));
        multiply(at, (product){m, n, e, 1, 0}, dout, turned(input_rows(at, V, at->s)), ds);
        for (int64_t r = 0; r < m; r++) {
            all->row->slope(row_of(at, p, r), row_of(at, ds, r), at->means[r], all->scale, n);
        }
        multiply(at, (product){m, d, n, 1, at->s > 0}, ds, input_rows(at, K, at->s), dq);
        multiply(at, (product){n, d, m, 1, 1}, turned(ds), q, slope_rows(at, K, at->s));
    }
}

/* ---- both ---- */

static void attend_to_rows(tile *at)
{
    const int64_t begin = at->t, rows = at->rows;
    at->rows = 1;
    for (; at->t < begin + rows; at->t++) {
        if (at->all->is_forward) {
            attend(at);
        } else {
            take_means(at);
            attend_back(at);
        }
    }
    at->t = begin;
    at->rows = rows;
}

static void run_tile(tile *at)
{
    const bool has_unseen = at->all->is_causal && at->rows > 1;
    bool is_clean = true;
    if (at->all->is_forward) {
        attend(at);
        is_clean = has_clean_rows(at);
    } else {
        take_means(at);
        is_clean = has_clean_keys(at);
    }
    if (has_unseen && !is_clean) {
        attend_to_rows(at);
    } else if (!at->all->is_forward) {
        attend_back(at);
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    heads *all = arg;
    const size_t tiles = all->is_forward ? 1 : 2;
    for (int64_t piece = begin; piece < end; piece++) {
        char *own = (char *)all->call->workspace + (size_t)piece * all->piece_bytes;
        tile at = {.all = all,
                   .piece = piece,
                   .first = own,
                   .second = own + all->tile_bytes,
                   .pairs = own + tiles * all->tile_bytes};
        const int64_t total = all->batches * all->count;
        int64_t i = total * piece / all->pieces;
        for (; i < total * (piece + 1) / all->pieces; i++) {
            at.b = i / all->count;
            at.h = i % all->count;
            for (at.t = 0; at.t < all->queries; at.t += at.rows) {
                at.rows = GY_MIN(all->queries - at.t, (int64_t)QUERIES);
                run_tile(&at);
            }
        }
    }
}

static gy_status attention_run(const gy_kernel_call *call)
{
    const gy_view *q = &call->inputs[0], *k = keys_of(call->inputs);
    const gy_view *v = q->rank == 5 ? q : &call->inputs[2];
    const double scale = call->attributes->attention.scale;
    GY_ASSERT(call->state != NULL && k->sizes[1] > 0);
    heads all = {.call = call,
                 .row = q->dtype == GY_F64 ? &rows_f64 : &rows_f32,
                 .item = item_of(q->dtype),
                 .tile_bytes = tile_bytes(k),
                 .piece_bytes = piece_bytes(call->op, call->inputs),
                 .batches = q->sizes[0],
                 .queries = q->sizes[1],
                 .keys = k->sizes[1],
                 .count = q->sizes[2],
                 .width = q->sizes[q->rank - 1],
                 .value_width = v->sizes[v->rank - 1],
                 .columns = tile_columns(k),
                 .pieces = *(const int64_t *)call->state,
                 .scale = scale > 0 ? scale : 1 / sqrt((double)q->sizes[q->rank - 1]),
                 .is_packed = q->rank == 5,
                 .is_forward = is_forward(call->op),
                 .is_causal = call->attributes->attention.is_causal};
    if (q->dtype != GY_BF16) {
        GY_TRY(q->dtype == GY_F32 ? gy_dnnl_get(&all.dnnl) : gy_blas_get(&all.blas));
    }
    for (int i = 0; i < call->output_count && !all.is_forward; i++) {
        gy_view_zero(&call->outputs[i]); /* slopes are added up over the queries */
    }
    gy_parallel_for(call->engine, all.pieces, 1, run_pieces, &all);
    for (int64_t piece = 0; piece < all.pieces; piece++) {
        GY_TRY(gy_dnnl_check(all.status[piece], "attention"));
    }
    return GY_OK;
}

static void attention_release(void *state)
{
    gy_free(state);
}

const gy_kernel gy_kernel_attention = {
    .name = "tiles attention",
    .accepts = attention_accepts,
    .workspace_bytes = attention_workspace,
    .prepare = attention_prepare,
    .release = attention_release,
    .run = attention_run,
};

const gy_kernel gy_kernel_attention_bf16 = {
    .name = "tiles bf16 attention",
    .accepts = bf16_accepts,
    .workspace_bytes = attention_workspace,
    .prepare = attention_prepare,
    .release = attention_release,
    .run = attention_run,
};
