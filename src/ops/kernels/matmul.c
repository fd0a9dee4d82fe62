/**
 * Products of matrices: float32 and, with sums in float32, bf16 by oneDNN, float64 by OpenBLAS.
 *
 * Which of oneDNN's two ways runs a product was measured on plain row-major operands, one core,
 * peak 268 GFLOP/s (matmul primitive against sgemm; inner product primitives run the latter):
 *   x W       64 rows: 230 against 249; 256: 250 against 249; k = 3136: 181 against 232
 *   dy t(W)   64 rows: 227 against 199; 256 and more: 252 against 243-252
 *   t(x) dy   k = 64: 250 against 232-244; k of 256 and more: 240-247 against 249-255
 * The primitive adds the bias itself; after sgemm a pass over the result does, and relu is a
 * pass in any case: oneDNN's makes 0 of a NaN. Products with a side of at most 16 are own code.
 * docs/decisions/007-kernels.md has the table.
 *
 * A product with many rows is cut into pieces of rows that depend on the shape alone.
 */
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/libraries.h"
#include "ops/kernels/tiles.h"

#include <math.h>
#include <string.h>

enum {
    PIECE_FLOPS = 1 << 26, /* worth waking another worker for: 0.25 ms */
    PIECE_ROWS = 256,      /* below, copying b for each piece costs more than 1 % */
    MAX_PIECES = 64,
    SGEMM_DEPTH = 128,
    TALL_DEPTH = 256, /* rows of a at a time in t(a) b wider than b: see run_sgemm */
    NARROW_ROWS = 16, /* below, packing b takes longer than the product */
};

typedef enum way {
    BY_PRIMITIVE,
    BY_SGEMM,
    BY_NARROW_DOTS, /* few columns */
    BY_NARROW_SUMS  /* t(x) dy, dy of few columns */
} way;

typedef struct product {
    int64_t batch, m, n, k;
    bool transpose_a, transpose_b, has_bias, relu;
    dnnl_data_type_t operands;  /* of a and b: float32 or bf16 */
    way way;                    /* of float32 */
    int64_t piece_rows, pieces; /* of m */
    int piece_sizes;            /* 1: all alike; 2: the last one is smaller */
    dnnl_stream_t stream;
    dnnl_primitive_t primitives[2]; /* of a full and of the last piece */
    size_t scratch_bytes[2];
    /* One set of memory objects a piece, as pieces run at the same time. */
    dnnl_memory_t memories[MAX_PIECES][5]; /* a, b, c, bias, scratch */
} product;

static int64_t count_of(const int64_t *sizes, int rank)
{
    int64_t count = 1;
    for (int dim = 0; dim < rank; dim++) {
        count *= sizes[dim];
    }
    return count;
}

static way way_of(const product *p)
{
    if (p->operands == dnnl_bf16) {
        return BY_PRIMITIVE;
    }
    bool is_plain = !p->transpose_a && !p->transpose_b;
    if (p->batch == 1 && p->transpose_a && !p->transpose_b && gy_narrow_takes(p->n, p->m)) {
        return BY_NARROW_SUMS;
    }
    if (p->batch == 1 && is_plain && p->m >= NARROW_ROWS && gy_narrow_takes(p->n, p->k)) {
        return BY_NARROW_DOTS;
    }
    bool is_deep = p->transpose_a && p->k >= SGEMM_DEPTH;
    return is_deep || (is_plain && p->n >= 64 && (p->m <= 128 || p->k >= 1024)) ? BY_SGEMM
                                                                                : BY_PRIMITIVE;
}

/* t(a) b over all rows is one product of matrices, whatever leads them. */
static bool describe_over_rows(const gy_kernel_query *query, product *p)
{
    const gy_view *a = &query->inputs[0], *c = &query->outputs[0];
    p->transpose_a = true;
    p->batch = 1;
    p->m = c->sizes[0];
    p->n = c->sizes[1];
    p->k = count_of(a->sizes, a->rank - 1);
    return true;
}

static bool describe_matmul(const gy_kernel_query *query, product *p)
{
    const gy_view *a = &query->inputs[0], *b = &query->inputs[1], *c = &query->outputs[0];
    if (a->rank < 2 || b->rank < 2 || c->rank < 2) {
        return false;
    }
    p->transpose_a = query->attributes->matmul.transpose_a;
    p->transpose_b = query->attributes->matmul.transpose_b;
    p->has_bias = query->attributes->matmul.has_bias;
    p->relu = query->attributes->matmul.activation == GY_ACTIVATION_RELU;
    p->m = c->sizes[c->rank - 2];
    p->n = c->sizes[c->rank - 1];
    p->k = a->sizes[a->rank - (p->transpose_a ? 2 : 1)];
    p->batch = count_of(c->sizes, c->rank - 2);
    /* Leading rows of a times one matrix are one product. */
    if (b->rank == 2 && !p->transpose_a && a->rank == c->rank) {
        p->m *= p->batch;
        p->batch = 1;
    }
    return true;
}

static bool describe(const gy_kernel_query *query, product *p)
{
    memset(p, 0, sizeof(*p));
    if (query->op == &gy_ops_row_matmul_over_rows ? !describe_over_rows(query, p)
                                                  : !describe_matmul(query, p)) {
        return false;
    }
    p->operands = query->inputs[0].dtype == GY_BF16 ? dnnl_bf16 : dnnl_f32;
    p->piece_rows = p->m;
    p->pieces = p->m > 0 ? 1 : 0;
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    if (flops >= 2.0 * PIECE_FLOPS && p->m > PIECE_ROWS) {
        int64_t pieces = (int64_t)GY_MIN(flops / PIECE_FLOPS, (double)MAX_PIECES);
        int64_t rows = GY_MAX((p->m + pieces - 1) / pieces, (int64_t)PIECE_ROWS);
        p->piece_rows = (rows + 63) / 64 * 64; /* register blocks stay full */
        p->pieces = (p->m + p->piece_rows - 1) / p->piece_rows;
    }
    p->piece_sizes = p->pieces > 1 && p->m % p->piece_rows != 0 ? 2 : 1;
    p->way = way_of(p);
    return true;
}

/* a and b of one type, the bias of the result's. */
static bool matmul_accepts(const gy_kernel_query *query, gy_dtype dtype, gy_dtype result)
{
    product p;
    for (int i = 0; i < query->input_count; i++) {
        if (query->inputs[i].dtype != (i < 2 ? dtype : result)) {
            return false;
        }
    }
    return query->outputs[0].dtype == result && describe(query, &p);
}

/* Batch dimensions broadcast: which matrix of `view` belongs to number `index` of c? */
static int64_t matrix_of(const gy_view *view, const gy_view *c, int64_t index)
{
    int64_t offset = 0, step = 1;
    for (int back = 3; back <= c->rank; back++) {
        int64_t size = c->sizes[c->rank - back], at = index % size;
        index /= size;
        if (back <= view->rank) {
            int64_t own = view->sizes[view->rank - back];
            offset += own == 1 ? 0 : at * step;
            step *= own;
        }
    }
    return offset;
}

/* ---- float32, and bf16 where the CPU has a unit for it ---- */

static bool f32_accepts(const gy_kernel_query *query)
{
    return matmul_accepts(query, GY_F32, GY_F32);
}

static bool bf16_accepts(const gy_kernel_query *query)
{
    return gy_kernel_has_bf16() && matmul_accepts(query, GY_BF16, GY_F32);
}

typedef struct matrix {
    int64_t rows, columns, stride;
    bool is_transposed;
    dnnl_data_type_t type;
} matrix;

static void matrix_desc(const gy_dnnl *dnnl, dnnl_memory_desc_t *desc, matrix of)
{
    dnnl_dims_t sizes = {of.rows, of.columns}, strides = {of.stride, 1};
    if (of.is_transposed) {
        strides[0] = 1;
        strides[1] = of.stride;
    }
    dnnl->memory_desc_init_by_strides(desc, 2, sizes, of.type, strides);
}

/* The matrices of a piece of `rows` rows. */
static void piece_descs(const gy_dnnl *dnnl, const product *p, int64_t rows,
                        dnnl_memory_desc_t descs[4])
{
    const bool ta = p->transpose_a, tb = p->transpose_b;
    matrix_desc(dnnl, &descs[0], (matrix){rows, p->k, ta ? p->m : p->k, ta, p->operands});
    matrix_desc(dnnl, &descs[1], (matrix){p->k, p->n, tb ? p->k : p->n, tb, p->operands});
    matrix_desc(dnnl, &descs[2], (matrix){rows, p->n, p->n, false, dnnl_f32});
    matrix_desc(dnnl, &descs[3], (matrix){1, p->n, p->n, false, dnnl_f32});
}

static int64_t rows_of(const product *p, int which)
{
    return which == 0 ? p->piece_rows : p->m - (p->pieces - 1) * p->piece_rows;
}

/* The primitive of pieces of `rows` rows, and its scratch; primitive NULL: the size alone. */
static gy_status make_primitive(const gy_dnnl *dnnl, const product *p, int64_t rows,
                                dnnl_primitive_t *primitive, size_t *scratch)
{
    dnnl_memory_desc_t descs[4];
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t made = NULL;
    piece_descs(dnnl, p, rows, descs);
    GY_TRY(gy_kernel_dnnl_attributes(dnnl, &attr));
    dnnl_status_t status = dnnl->matmul_desc_init(&desc, &descs[0], &descs[1],
                                                  p->has_bias ? &descs[3] : NULL, &descs[2]);
    if (status == dnnl_success) {
        status = dnnl->primitive_desc_create(&made, &desc, attr, dnnl->engine, NULL);
    }
    dnnl->primitive_attr_destroy(attr);
    GY_TRY(gy_dnnl_check(status, "a matmul"));
    const dnnl_memory_desc_t *pad =
        dnnl->primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
    *scratch = gy_round_up(dnnl->memory_desc_get_size(pad), 64);
    if (primitive != NULL) {
        status = dnnl->primitive_create(primitive, made);
    }
    dnnl->primitive_desc_destroy(made);
    return gy_dnnl_check(status, "a matmul");
}

static void f32_release(void *state)
{
    product *p = state;
    const gy_dnnl *dnnl;
    if (p == NULL || gy_dnnl_get(&dnnl) != GY_OK) {
        gy_free(p);
        return;
    }
    for (int64_t piece = 0; piece < p->pieces; piece++) {
        for (int i = 0; i < 5; i++) {
            dnnl->memory_destroy(p->memories[piece][i]);
        }
    }
    for (int which = 0; which < 2; which++) {
        dnnl->primitive_destroy(p->primitives[which]);
    }
    dnnl->stream_destroy(p->stream);
    gy_free(p);
}

static gy_status make_memories(const gy_dnnl *dnnl, product *p)
{
    for (int64_t piece = 0; piece < p->pieces; piece++) {
        int which = p->piece_sizes == 2 && piece == p->pieces - 1;
        dnnl_memory_desc_t descs[5];
        piece_descs(dnnl, p, rows_of(p, which), descs);
        dnnl_dims_t bytes = {(dnnl_dim_t)p->scratch_bytes[which]};
        dnnl->memory_desc_init_by_tag(&descs[4], 1, bytes, dnnl_u8, dnnl_a);
        for (int i = 0; i < 5; i++) {
            GY_TRY(gy_dnnl_check(dnnl->memory_create(&p->memories[piece][i], &descs[i],
                                                     dnnl->engine, DNNL_MEMORY_NONE),
                                 "a matmul's memory"));
        }
    }
    return GY_OK;
}

static gy_status make_product(const gy_dnnl *dnnl, product *p)
{
    GY_TRY(gy_dnnl_check(
        dnnl->stream_create(&p->stream, dnnl->engine, dnnl_stream_default_flags), "a stream"));
    for (int which = 0; which < p->piece_sizes; which++) {
        GY_TRY(make_primitive(dnnl, p, rows_of(p, which), &p->primitives[which],
                              &p->scratch_bytes[which]));
    }
    return make_memories(dnnl, p);
}

static bool is_empty(const product *p)
{
    return p->batch == 0 || p->m == 0 || p->n == 0 || p->k == 0;
}

static gy_status f32_prepare(const gy_kernel_query *query, void **state)
{
    const gy_dnnl *dnnl;
    GY_TRY(gy_dnnl_get(&dnnl));
    product *p = gy_alloc("ops.matmul", sizeof(*p));
    if (p == NULL) {
        return GY_NOMEM;
    }
    (void)describe(query, p);
    gy_status status = is_empty(p) || p->way != BY_PRIMITIVE ? GY_OK : make_product(dnnl, p);
    if (status != GY_OK) {
        f32_release(p);
        return status;
    }
    *state = p;
    return GY_OK;
}

static size_t f32_workspace(const gy_kernel_query *query)
{
    const gy_dnnl *dnnl;
    product p;
    size_t largest = 0;
    if (!describe(query, &p) || is_empty(&p)) {
        return 0;
    }
    if (p.way == BY_NARROW_DOTS) {
        return (size_t)gy_narrow_floats(p.k, p.n) * sizeof(float);
    }
    if (p.way != BY_PRIMITIVE || gy_dnnl_get(&dnnl) != GY_OK) {
        return 0;
    }
    for (int which = 0; which < p.piece_sizes; which++) {
        size_t bytes = 0;
        if (make_primitive(dnnl, &p, rows_of(&p, which), NULL, &bytes) == GY_OK) {
            largest = GY_MAX(largest, bytes);
        }
    }
    return largest * (size_t)p.pieces;
}

typedef struct f32_call {
    const gy_dnnl *dnnl;
    product *product;
    const gy_kernel_call *call;
    const void *a, *b; /* float32, or bf16 that a primitive reads */
    float *c;
    dnnl_status_t status[MAX_PIECES];
} f32_call;

static dnnl_status_t run_primitive(const f32_call *f, int64_t piece)
{
    product *p = f->product;
    int which = p->piece_sizes == 2 && piece == p->pieces - 1;
    size_t scratch = GY_MAX(p->scratch_bytes[0], p->scratch_bytes[1]);
    const gy_dnnl *dnnl = f->dnnl;
    dnnl_memory_t *m = p->memories[piece];
    int64_t row = piece * p->piece_rows;
    const void *bias = p->has_bias ? f->call->inputs[2].data : NULL;
    const int64_t item = p->operands == dnnl_bf16 ? 2 : 4;
    const char *a = (const char *)f->a + item * (p->transpose_a ? row : row * p->k);
    const void *at[5] = {a, f->b, f->c + row * p->n, bias,
                         (char *)f->call->workspace + (size_t)piece * scratch};
    static const int roles[5] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS,
                                 DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[5];
    int count = 0;
    for (int i = 0; i < 5; i++) {
        if ((i == 3 && bias == NULL) || (i == 4 && scratch == 0)) {
            continue;
        }
        void *data;
        memcpy(&data, &at[i], sizeof(data));
        dnnl->memory_set_data_handle(m[i], data);
        args[count++] = (dnnl_exec_arg_t){roles[i], m[i]};
    }
    return dnnl->primitive_execute(p->primitives[which], p->stream, count, args);
}

static void run_narrow(const f32_call *f, int64_t row, int64_t rows)
{
    const product *p = f->product;
    const float *a = f->a;
    float *c = f->c + row * p->n;
    if (p->way == BY_NARROW_DOTS) {
        gy_narrow_dots(a + row * p->k, f->call->workspace, rows, p->k, p->n, c);
    } else {
        const gy_narrow_sums sums = {.a = a + row,
                                     .b = f->b,
                                     .rows = p->k,
                                     .stride = p->m,
                                     .length = rows,
                                     .width = p->n,
                                     .scale = 1};
        gy_narrow_add(&sums, c);
    }
}

/* In t(a) b with a wider than b, sgemm walks a's long rows once for each block of columns: from
 * memory it ran at 87 GFLOP/s of 220, and at 107 by blocks of rows, whose sums are added up. */
static dnnl_status_t run_sgemm(const f32_call *f, int64_t row, int64_t rows)
{
    const product *p = f->product;
    const float *a = f->a, *b = f->b;
    const bool ta = p->transpose_a, tb = p->transpose_b, is_tall = ta && !tb && p->m > p->n;
    const int64_t depth = is_tall ? TALL_DEPTH : p->k;
    dnnl_status_t status = dnnl_success;
    for (int64_t k = 0; k < p->k && status == dnnl_success; k += depth) {
        status =
            f->dnnl->sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', rows, p->n, GY_MIN(depth, p->k - k),
                           1, a + (ta ? k * p->m + row : row * p->k), ta ? p->m : p->k,
                           b + (is_tall ? k * p->n : 0), tb ? p->k : p->n, k > 0 ? 1 : 0,
                           f->c + row * p->n, p->n);
    }
    return status;
}

static dnnl_status_t run_piece(const f32_call *f, int64_t piece)
{
    const product *p = f->product;
    int64_t row = piece * p->piece_rows, rows = GY_MIN(p->piece_rows, p->m - row);
    dnnl_status_t status = dnnl_success;
    if (p->way == BY_PRIMITIVE) {
        status = run_primitive(f, piece);
    } else if (p->way == BY_SGEMM) {
        status = run_sgemm(f, row, rows);
    } else {
        run_narrow(f, row, rows);
    }
    bool needs_bias = p->has_bias && p->way != BY_PRIMITIVE;
    if (status == dnnl_success && (needs_bias || p->relu)) {
        gy_tiles()->finish_rows(f->c + row * p->n, needs_bias ? f->call->inputs[2].data : NULL,
                                p->relu, rows, p->n);
    }
    return status;
}

static void run_f32_pieces(void *arg, int64_t begin, int64_t end)
{
    f32_call *f = arg;
    const gy_dnnl *dnnl;
    if (gy_dnnl_get(&dnnl) != GY_OK) { /* has this worker run without helpers */
        return;
    }
    for (int64_t piece = begin; piece < end; piece++) {
        f->status[piece] = run_piece(f, piece);
    }
}

void gy_kernel_put_empty(const gy_kernel_call *call, int dim, bool has_bias, bool relu)
{
    const gy_view *c = &call->outputs[0];
    const int64_t count = gy_view_count(c);
    int64_t inner = 1;
    GY_ASSERT(dim >= 0 && dim < c->rank);
    for (int d = dim + 1; d < c->rank; d++) {
        inner *= c->sizes[d];
    }
    for (int64_t i = 0; i < count; i++) {
        double value = 0;
        if (has_bias) {
            value = gy_element_get(c->dtype, call->inputs[2].data, i / inner % c->sizes[dim]);
        }
        gy_element_set(c->dtype, c->data, gy_view_offset(c, i), relu && value < 0 ? 0 : value);
    }
}

static gy_status run_one(f32_call *f)
{
    product *p = f->product;
    if (p->way == BY_NARROW_DOTS) {
        gy_narrow_pack(f->b, p->k, p->n, f->call->workspace);
    }
    gy_parallel_for(f->call->engine, p->pieces, 1, run_f32_pieces, f);
    for (int64_t piece = 0; piece < p->pieces; piece++) {
        GY_TRY(gy_dnnl_check(f->status[piece], "a matmul"));
    }
    return GY_OK;
}

static gy_status f32_run(const gy_kernel_call *call)
{
    f32_call f = {.product = call->state, .call = call};
    GY_TRY(gy_dnnl_get(&f.dnnl));
    product *p = f.product;
    if (is_empty(p)) {
        gy_kernel_put_empty(call, call->outputs[0].rank - 1, p->has_bias, p->relu);
        return GY_OK;
    }
    const gy_view *a = &call->inputs[0], *b = &call->inputs[1], *c = &call->outputs[0];
    for (int64_t i = 0; i < p->batch; i++) {
        const int64_t bytes = p->operands == dnnl_bf16 ? 2 : 4;
        const int64_t left = p->batch > 1 ? matrix_of(a, c, i) : 0;
        const int64_t right = p->batch > 1 ? matrix_of(b, c, i) : 0;
        f.a = (const char *)a->data + left * p->m * p->k * bytes;
        f.b = (const char *)b->data + right * p->k * p->n * bytes;
        f.c = (float *)c->data + i * p->m * p->n;
        GY_TRY(run_one(&f));
    }
    return GY_OK;
}

const gy_kernel gy_kernel_matmul_f32 = {
    .name = "onednn matmul",
    .accepts = f32_accepts,
    .workspace_bytes = f32_workspace,
    .prepare = f32_prepare,
    .release = f32_release,
    .run = f32_run,
};

const gy_kernel gy_kernel_matmul_bf16 = {
    .name = "onednn bf16 matmul",
    .accepts = bf16_accepts,
    .workspace_bytes = f32_workspace,
    .prepare = f32_prepare,
    .release = f32_release,
    .run = f32_run,
};

/* ---- float64 ---- */

static bool f64_accepts(const gy_kernel_query *query)
{
    return matmul_accepts(query, GY_F64, GY_F64);
}

static gy_status f64_prepare(const gy_kernel_query *query, void **state)
{
    const gy_blas *blas;
    (void)query;
    *state = NULL;
    return gy_blas_get(&blas);
}

typedef struct f64_call {
    const gy_blas *blas;
    const product *product;
    const double *a, *b, *bias;
    double *c;
} f64_call;

static void run_f64_pieces(void *arg, int64_t begin, int64_t end)
{
    const f64_call *f = arg;
    const product *p = f->product;
    int64_t row = begin * p->piece_rows, last = GY_MIN(end * p->piece_rows, p->m);
    double *c = f->c + row * p->n;
    f->blas->dgemm(GY_BLAS_ROW_MAJOR, p->transpose_a ? GY_BLAS_TRANSPOSED : GY_BLAS_PLAIN,
                   p->transpose_b ? GY_BLAS_TRANSPOSED : GY_BLAS_PLAIN, (int)(last - row),
                   (int)p->n, (int)p->k, 1, f->a + (p->transpose_a ? row : row * p->k),
                   (int)(p->transpose_a ? p->m : p->k), f->b,
                   (int)(p->transpose_b ? p->k : p->n), 0, c, (int)p->n);
    for (int64_t i = 0; i < (last - row) * p->n && (f->bias != NULL || p->relu); i++) {
        double value = c[i] + (f->bias != NULL ? f->bias[i % p->n] : 0);
        c[i] = p->relu && value < 0 ? 0 : value;
    }
}

static gy_status f64_run(const gy_kernel_call *call)
{
    gy_kernel_query query = gy_kernel_query_of(call, 0);
    product p;
    f64_call f = {.product = &p};
    bool fits = describe(&query, &p);
    GY_ASSERT(fits);
    GY_TRY(gy_blas_get(&f.blas));
    if (is_empty(&p)) {
        gy_kernel_put_empty(call, call->outputs[0].rank - 1, p.has_bias, p.relu);
        return GY_OK;
    }
    if (p.m > INT32_MAX || p.n > INT32_MAX || p.k > INT32_MAX) {
        return gy_fail(GY_LIMIT, "matmul: a dimension over 2^31 in float64");
    }
    const gy_view *a = &call->inputs[0], *b = &call->inputs[1], *c = &call->outputs[0];
    f.bias = p.has_bias ? call->inputs[2].data : NULL;
    for (int64_t i = 0; i < p.batch; i++) {
        f.a = (const double *)a->data + (p.batch > 1 ? matrix_of(a, c, i) : 0) * p.m * p.k;
        f.b = (const double *)b->data + (p.batch > 1 ? matrix_of(b, c, i) : 0) * p.k * p.n;
        f.c = (double *)c->data + i * p.m * p.n;
        gy_parallel_for(call->engine, p.pieces, 1, run_f64_pieces, &f);
    }
    return GY_OK;
}

const gy_kernel gy_kernel_matmul_f64 = {
    .name = "openblas dgemm",
    .accepts = f64_accepts,
    .prepare = f64_prepare,
    .run = f64_run,
};
