/**
 * float32 convolutions and their gradients by oneDNN, direct, on nChw16c, where winograd.c does
 * not take them; bf16 ones with sums and results in float32 where the CPU has a unit for them.
 *
 * Values are blocked where channels are a multiple of 16; a first convolution (1 or 3 channels)
 * reads plain (N,C,H,W). Filters are plain (K,C,R,S) at the interface and laid out anew by each
 * call: 12 us for (64,32,5,5), a quarter of a percent of the work. One core reaches 261-290 of
 * its 268 GFLOP/s (boost) on (64,32,14,14) * (64,32,5,5), and 215 on the first convolution.
 *
 * Images are cut into pieces that depend on the shape alone; filter gradients of the pieces are
 * added in order. Relu is a pass over each piece: oneDNN's makes 0 of a NaN.
 */
#include "ops/kernels/conv_priv.h"
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/libraries.h"
#include "ops/kernels/tiles.h"

#include <string.h>

enum { PIECE_FLOPS = 1 << 27, MAX_PIECES = 8, VALUES = 4 };

/* The roles of values: image side, result side, bias, filters. */
enum { X, Y, BIAS, FILTER };

typedef struct conv {
    gy_conv_kind kind;
    dnnl_data_type_t operands; /* float32 or bf16; results, bias and sums are float32 */
    bool has_bias, relu, is_blocked_x, is_blocked_y;
    int64_t x[4], y[4], filter[4]; /* sizes; x[0] == y[0] images */
    dnnl_dims_t stride, pad;
    int64_t piece_images, pieces;
    int piece_sizes;
    dnnl_primitive_desc_t descs[2], reorder_desc;
    dnnl_memory_desc_t plain_filter, packed_filter;
    size_t packed_bytes, scratch_bytes;
    dnnl_stream_t stream;
    dnnl_primitive_t primitives[2], reorder;
    dnnl_memory_t memories[MAX_PIECES][VALUES + 1]; /* the last is scratch */
    dnnl_memory_t plain, packed;                    /* of the reorder */
} conv;

/* oneDNN's fast kernels want results of whole blocks, from blocks or from 1 or 3 channels.
   Without AVX-512 its blocks have 8 channels and ours would run its plain loops: dense there,
   by columns and a product. */
static void wanted_formats(const gy_kernel_query *query, gy_format *x, gy_format *y)
{
    gy_conv_kind kind = gy_conv_kind_of(query->op);
    int64_t channels = gy_conv_x(query, kind)->sizes[1],
            filters = gy_conv_y(query, kind)->sizes[1];
    bool is_first = (channels == 1 || channels == 3) && kind != GY_CONV_INPUT_GRADIENT;
    bool is_fast = gy_tile_isa_level() == GY_TILE_ISA_AVX512 && filters % 16 == 0 &&
                   filters > 0 && (channels % 16 == 0 || is_first);
    *x = is_fast && !is_first ? GY_FORMAT_BLOCKED : GY_FORMAT_DENSE;
    *y = is_fast ? GY_FORMAT_BLOCKED : GY_FORMAT_DENSE;
}

void gy_conv_formats(const gy_kernel_query *query, gy_format *inputs, gy_format *outputs)
{
    gy_conv_kind kind = gy_conv_kind_of(query->op);
    gy_format x = GY_FORMAT_DENSE, y = GY_FORMAT_DENSE;
    wanted_formats(query, &x, &y);
    memset(inputs, 0, (size_t)query->input_count * sizeof(inputs[0]));
    outputs[0] = kind == GY_CONV_FORWARD          ? y
                 : kind == GY_CONV_INPUT_GRADIENT ? x
                                                  : GY_FORMAT_DENSE;
    inputs[0] = kind == GY_CONV_INPUT_GRADIENT ? y : x;
    if (kind == GY_CONV_FILTER_GRADIENT) {
        inputs[1] = y;
    }
}

/* Two operands of a type, a bias and a result in float32, in the formats that are asked for. */
static bool accepts(const gy_kernel_query *query, gy_dtype dtype)
{
    gy_conv_kind kind = gy_conv_kind_of(query->op);
    gy_format x = GY_FORMAT_DENSE, y = GY_FORMAT_DENSE;
    for (int i = 0; i < query->input_count; i++) {
        if (query->inputs[i].dtype != (i < 2 ? dtype : GY_F32)) {
            return false;
        }
    }
    const gy_view *filter = gy_conv_filter(query, kind);
    for (int d = 0; d < 4; d++) {
        if (filter->sizes[d] == 0) {
            return false;
        }
    }
    wanted_formats(query, &x, &y);
    return gy_conv_x(query, kind)->format == x && gy_conv_y(query, kind)->format == y;
}

bool gy_conv_accepts(const gy_kernel_query *query)
{
    return accepts(query, GY_F32);
}

/* Not a first convolution, nor any that is not blocked. */
static bool bf16_accepts(const gy_kernel_query *query)
{
    const gy_conv_kind kind = gy_conv_kind_of(query->op);
    return gy_kernel_has_bf16() && accepts(query, GY_BF16) &&
           gy_conv_x(query, kind)->format == GY_FORMAT_BLOCKED &&
           gy_conv_y(query, kind)->format == GY_FORMAT_BLOCKED;
}

static void describe(const gy_kernel_query *query, conv *c)
{
    memset(c, 0, sizeof(*c));
    c->kind = gy_conv_kind_of(query->op);
    c->operands = query->inputs[0].dtype == GY_BF16 ? dnnl_bf16 : dnnl_f32;
    const gy_view *x = gy_conv_x(query, c->kind), *y = gy_conv_y(query, c->kind);
    memcpy(c->x, x->sizes, sizeof(c->x));
    memcpy(c->y, y->sizes, sizeof(c->y));
    memcpy(c->filter, gy_conv_filter(query, c->kind)->sizes, sizeof(c->filter));
    c->is_blocked_x = x->format == GY_FORMAT_BLOCKED;
    c->is_blocked_y = y->format == GY_FORMAT_BLOCKED;
    c->has_bias = c->kind == GY_CONV_FORWARD && query->attributes->conv.has_bias;
    c->relu =
        c->kind == GY_CONV_FORWARD && query->attributes->conv.activation == GY_ACTIVATION_RELU;
    for (int d = 0; d < 2; d++) {
        c->stride[d] = query->attributes->conv.stride[d];
        c->pad[d] = query->attributes->conv.pad[d];
    }
    double flops = 2;
    for (int d = 0; d < 4; d++) {
        flops *= (double)c->y[d] * (d > 0 ? (double)c->filter[d] : 1);
    }
    int64_t pieces = (int64_t)GY_MIN(flops / PIECE_FLOPS, (double)MAX_PIECES);
    pieces = GY_MAX(GY_MIN(pieces, c->x[0]), (int64_t)1);
    c->piece_images = (c->x[0] + pieces - 1) / pieces;
    c->pieces = c->piece_images > 0 ? (c->x[0] + c->piece_images - 1) / c->piece_images : 0;
    c->piece_sizes = c->pieces > 1 && c->x[0] % c->piece_images != 0 ? 2 : 1;
}

static bool is_empty(const conv *c)
{
    int64_t product = 1;
    for (int d = 0; d < 4; d++) {
        product *= c->x[d] * c->y[d] * c->filter[d];
    }
    return product == 0;
}

static int64_t images_of(const conv *c, int which)
{
    return which == 0 ? c->piece_images : c->x[0] - (c->pieces - 1) * c->piece_images;
}

/* What a kind computes is float32, what it reads of the type of its operands. */
static dnnl_data_type_t type_of(const conv *c, int value)
{
    static const int results[] = {[GY_CONV_FORWARD] = Y,
                                  [GY_CONV_INPUT_GRADIENT] = X,
                                  [GY_CONV_FILTER_GRADIENT] = FILTER};
    return value == BIAS || value == results[c->kind] ? dnnl_f32 : c->operands;
}

static void image_descs(const gy_dnnl *dnnl, const conv *c, int64_t images,
                        dnnl_memory_desc_t *values)
{
    dnnl_dims_t x = {images, c->x[1], c->x[2], c->x[3]};
    dnnl_dims_t y = {images, c->y[1], c->y[2], c->y[3]};
    dnnl->memory_desc_init_by_tag(&values[X], 4, x, type_of(c, X),
                                  c->is_blocked_x ? dnnl_nChw16c : dnnl_nchw);
    dnnl->memory_desc_init_by_tag(&values[Y], 4, y, type_of(c, Y),
                                  c->is_blocked_y ? dnnl_nChw16c : dnnl_nchw);
}

static dnnl_status_t make_forward(const gy_dnnl *dnnl, const conv *c,
                                  const dnnl_memory_desc_t *values, dnnl_primitive_attr_t attr,
                                  dnnl_primitive_desc_t *made)
{
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl->convolution_forward_desc_init(
        &desc, dnnl_forward_training, dnnl_convolution_direct, &values[X], &values[FILTER],
        c->has_bias ? &values[BIAS] : NULL, &values[Y], c->stride, c->pad, c->pad);
    if (status != dnnl_success) {
        return status;
    }
    return dnnl->primitive_desc_create(made, &desc, attr, dnnl->engine, NULL);
}

static dnnl_status_t make_gradient(const gy_dnnl *dnnl, const conv *c,
                                   const dnnl_memory_desc_t *values, dnnl_primitive_attr_t attr,
                                   dnnl_primitive_desc_t *made)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_memory_desc_t forward[VALUES]; /* as it computes, whichever of them is wider here */
    dnnl_dims_t filters = {c->filter[0], c->filter[1], c->filter[2], c->filter[3]};
    memcpy(forward, values, sizeof(forward));
    if (c->operands != dnnl_f32) {
        forward[X].data_type = forward[Y].data_type = c->operands;
        dnnl->memory_desc_init_by_tag(&forward[FILTER], 4, filters, c->operands,
                                      dnnl_format_tag_any);
    }
    dnnl_status_t status = make_forward(dnnl, c, forward, NULL, &hint);
    if (status != dnnl_success) {
        return status;
    }
    if (c->kind == GY_CONV_INPUT_GRADIENT) {
        status = dnnl->convolution_backward_data_desc_init(
            &desc, dnnl_convolution_direct, &values[X], &values[FILTER], &values[Y], c->stride,
            c->pad, c->pad);
    } else {
        status = dnnl->convolution_backward_weights_desc_init(
            &desc, dnnl_convolution_direct, &values[X], &values[FILTER], NULL, &values[Y],
            c->stride, c->pad, c->pad);
    }
    if (status == dnnl_success) {
        status = dnnl->primitive_desc_create(made, &desc, attr, dnnl->engine, hint);
    }
    dnnl->primitive_desc_destroy(hint);
    return status;
}

/* Describe pieces of images_of(which) images; the filters' layout is the first one's. */
static gy_status make_desc(const gy_dnnl *dnnl, conv *c, int which)
{
    dnnl_memory_desc_t values[VALUES];
    dnnl_dims_t filters = {c->filter[0], c->filter[1], c->filter[2], c->filter[3]};
    const dnnl_data_type_t filter = type_of(c, FILTER);
    image_descs(dnnl, c, images_of(c, which), values);
    dnnl->memory_desc_init_by_tag(&values[BIAS], 1, filters, dnnl_f32, dnnl_a);
    dnnl->memory_desc_init_by_tag(&c->plain_filter, 4, filters, filter, dnnl_oihw);
    dnnl->memory_desc_init_by_tag(&values[FILTER], 4, filters, filter, dnnl_format_tag_any);
    if (which > 0) {
        values[FILTER] = c->packed_filter;
    }
    dnnl_primitive_attr_t attr;
    GY_TRY(gy_kernel_dnnl_attributes(dnnl, &attr));
    dnnl_status_t status = (c->kind == GY_CONV_FORWARD ? make_forward : make_gradient)(
        dnnl, c, values, attr, &c->descs[which]);
    dnnl->primitive_attr_destroy(attr);
    GY_TRY(gy_dnnl_check(status, "a convolution"));
    c->packed_filter = *dnnl->primitive_desc_query_md(
        c->descs[which],
        c->kind == GY_CONV_FILTER_GRADIENT ? dnnl_query_diff_weights_md : dnnl_query_weights_md,
        0);
    const dnnl_memory_desc_t *pad =
        dnnl->primitive_desc_query_md(c->descs[which], dnnl_query_scratchpad_md, 0);
    c->scratch_bytes =
        GY_MAX(c->scratch_bytes, gy_round_up(dnnl->memory_desc_get_size(pad), 64));
    return GY_OK;
}

static gy_status make_descs(const gy_dnnl *dnnl, const gy_kernel_query *query, conv *c)
{
    describe(query, c);
    if (is_empty(c)) {
        return GY_OK;
    }
    for (int which = 0; which < c->piece_sizes; which++) {
        GY_TRY(make_desc(dnnl, c, which));
    }
    c->packed_bytes = gy_round_up(dnnl->memory_desc_get_size(&c->packed_filter), 64);
    bool is_in = c->kind != GY_CONV_FILTER_GRADIENT;
    return gy_dnnl_check(dnnl->reorder_primitive_desc_create(
                             &c->reorder_desc, is_in ? &c->plain_filter : &c->packed_filter,
                             dnnl->engine, is_in ? &c->packed_filter : &c->plain_filter,
                             dnnl->engine, NULL),
                         "a reorder of filters");
}

static void drop_descs(const gy_dnnl *dnnl, conv *c)
{
    for (int which = 0; which < 2; which++) {
        dnnl->primitive_desc_destroy(c->descs[which]);
        c->descs[which] = NULL;
    }
    dnnl->primitive_desc_destroy(c->reorder_desc);
    c->reorder_desc = NULL;
}

static void conv_release(void *state)
{
    conv *c = state;
    const gy_dnnl *dnnl;
    if (c == NULL || gy_dnnl_get(&dnnl) != GY_OK) {
        gy_free(c);
        return;
    }
    for (int64_t piece = 0; piece < c->pieces; piece++) {
        for (int i = 0; i <= VALUES; i++) {
            dnnl->memory_destroy(c->memories[piece][i]);
        }
    }
    dnnl->memory_destroy(c->plain);
    dnnl->memory_destroy(c->packed);
    dnnl->primitive_destroy(c->primitives[0]);
    dnnl->primitive_destroy(c->primitives[1]);
    dnnl->primitive_destroy(c->reorder);
    dnnl->stream_destroy(c->stream);
    drop_descs(dnnl, c);
    gy_free(c);
}

static gy_status make_memories(const gy_dnnl *dnnl, conv *c)
{
    dnnl_dims_t bytes = {(dnnl_dim_t)c->scratch_bytes}, filters = {c->filter[0]};
    dnnl_memory_desc_t values[VALUES + 1];
    dnnl->memory_desc_init_by_tag(&values[BIAS], 1, filters, dnnl_f32, dnnl_a);
    dnnl->memory_desc_init_by_tag(&values[VALUES], 1, bytes, dnnl_u8, dnnl_a);
    values[FILTER] = c->packed_filter;
    dnnl_status_t status = dnnl_success;
    for (int64_t piece = 0; piece < c->pieces; piece++) {
        int which = c->piece_sizes == 2 && piece == c->pieces - 1;
        image_descs(dnnl, c, images_of(c, which), values);
        for (int i = 0; i <= VALUES && status == dnnl_success; i++) {
            status = dnnl->memory_create(&c->memories[piece][i], &values[i], dnnl->engine,
                                         DNNL_MEMORY_NONE);
        }
    }
    if (status == dnnl_success) {
        status =
            dnnl->memory_create(&c->plain, &c->plain_filter, dnnl->engine, DNNL_MEMORY_NONE);
    }
    if (status == dnnl_success) {
        status =
            dnnl->memory_create(&c->packed, &c->packed_filter, dnnl->engine, DNNL_MEMORY_NONE);
    }
    return gy_dnnl_check(status, "a convolution's memory");
}

static gy_status make_primitives(const gy_dnnl *dnnl, conv *c)
{
    if (is_empty(c)) {
        return GY_OK;
    }
    dnnl_status_t status =
        dnnl->stream_create(&c->stream, dnnl->engine, dnnl_stream_default_flags);
    for (int which = 0; which < c->piece_sizes && status == dnnl_success; which++) {
        status = dnnl->primitive_create(&c->primitives[which], c->descs[which]);
    }
    if (status == dnnl_success) {
        status = dnnl->primitive_create(&c->reorder, c->reorder_desc);
    }
    GY_TRY(gy_dnnl_check(status, "a convolution"));
    drop_descs(dnnl, c);
    return make_memories(dnnl, c);
}

static gy_status conv_prepare(const gy_kernel_query *query, void **state)
{
    const gy_dnnl *dnnl;
    GY_TRY(gy_dnnl_get(&dnnl));
    conv *c = gy_alloc("ops.conv", sizeof(*c));
    if (c == NULL) {
        return GY_NOMEM;
    }
    gy_status status = make_descs(dnnl, query, c);
    if (status == GY_OK) {
        status = make_primitives(dnnl, c);
    }
    if (status != GY_OK) {
        conv_release(c);
        return status;
    }
    *state = c;
    return GY_OK;
}

/* Packed filters (one set a piece where gradients are made), then scratch of the pieces. */
static size_t packed_sets(const conv *c)
{
    return c->kind == GY_CONV_FILTER_GRADIENT ? (size_t)c->pieces : 1;
}

static size_t conv_workspace(const gy_kernel_query *query)
{
    const gy_dnnl *dnnl;
    conv c = {.pieces = 0};
    size_t bytes = 0;
    if (gy_dnnl_get(&dnnl) == GY_OK && make_descs(dnnl, query, &c) == GY_OK) {
        bytes = packed_sets(&c) * c.packed_bytes + (size_t)c.pieces * c.scratch_bytes;
        drop_descs(dnnl, &c);
    }
    return bytes;
}

typedef struct conv_call {
    const gy_dnnl *dnnl;
    conv *conv;
    const gy_kernel_call *call;
    dnnl_status_t status[MAX_PIECES];
} conv_call;

static int64_t image_elements(const int64_t sizes[4])
{
    return sizes[1] * sizes[2] * sizes[3]; /* blocked channels are whole blocks */
}

static void set_handles(const conv_call *f, int64_t piece)
{
    conv *c = f->conv;
    const gy_kernel_call *call = f->call;
    char *workspace = call->workspace;
    void *x = c->kind == GY_CONV_INPUT_GRADIENT ? call->outputs[0].data : call->inputs[0].data;
    void *y = c->kind == GY_CONV_FORWARD          ? call->outputs[0].data
              : c->kind == GY_CONV_INPUT_GRADIENT ? call->inputs[0].data
                                                  : call->inputs[1].data;
    int64_t image = piece * c->piece_images;
    size_t set = c->kind == GY_CONV_FILTER_GRADIENT ? (size_t)piece : 0;
    const int64_t x_bytes = type_of(c, X) == dnnl_f32 ? 4 : 2;
    const int64_t y_bytes = type_of(c, Y) == dnnl_f32 ? 4 : 2;
    void *at[VALUES + 1] = {
        (char *)x + image * image_elements(c->x) * x_bytes,
        (char *)y + image * image_elements(c->y) * y_bytes,
        c->has_bias ? call->inputs[2].data : NULL, workspace + set * c->packed_bytes,
        workspace + packed_sets(c) * c->packed_bytes + (size_t)piece * c->scratch_bytes};
    for (int i = 0; i <= VALUES; i++) {
        f->dnnl->memory_set_data_handle(c->memories[piece][i], at[i]);
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    static const int roles[3][VALUES] = {
        {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_BIAS, DNNL_ARG_WEIGHTS},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_BIAS, DNNL_ARG_WEIGHTS},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_WEIGHTS}};
    conv_call *f = arg;
    conv *c = f->conv;
    const gy_dnnl *dnnl;
    if (gy_dnnl_get(&dnnl) != GY_OK) { /* has this worker run without helpers */
        return;
    }
    for (int64_t piece = begin; piece < end; piece++) {
        dnnl_exec_arg_t args[VALUES + 1];
        int count = 0;
        set_handles(f, piece);
        for (int i = 0; i < VALUES; i++) {
            if (i != BIAS || c->has_bias) {
                args[count++] = (dnnl_exec_arg_t){roles[c->kind][i], c->memories[piece][i]};
            }
        }
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, c->memories[piece][VALUES]};
        int which = c->piece_sizes == 2 && piece == c->pieces - 1;
        f->status[piece] =
            dnnl->primitive_execute(c->primitives[which], c->stream, count, args);
        if (c->relu) {
            int64_t image = image_elements(c->y);
            float *y = (float *)f->call->outputs[0].data + piece * c->piece_images * image;
            gy_tiles()->finish_rows(y, NULL, true, images_of(c, which), image);
        }
    }
}

/* Between plain filters and the layout that the primitive chose. */
static gy_status reorder_filters(const conv_call *f, void *plain)
{
    conv *c = f->conv;
    bool is_in = c->kind != GY_CONV_FILTER_GRADIENT;
    f->dnnl->memory_set_data_handle(c->plain, plain);
    f->dnnl->memory_set_data_handle(c->packed, f->call->workspace);
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, is_in ? c->plain : c->packed},
                               {DNNL_ARG_TO, is_in ? c->packed : c->plain}};
    return gy_dnnl_check(f->dnnl->primitive_execute(c->reorder, c->stream, 2, args),
                         "a reorder of filters");
}

static void add_pieces(const conv_call *f)
{
    const conv *c = f->conv;
    float *sum = f->call->workspace;
    size_t count = c->packed_bytes / sizeof(float);
    for (int64_t piece = 1; piece < c->pieces; piece++) {
        const float *part = sum + (size_t)piece * count;
        for (size_t i = 0; i < count; i++) {
            sum[i] += part[i];
        }
    }
}

static gy_status conv_run(const gy_kernel_call *call)
{
    conv_call f = {.conv = call->state, .call = call};
    conv *c = f.conv;
    GY_TRY(gy_dnnl_get(&f.dnnl));
    if (is_empty(c)) {
        gy_kernel_put_empty(call, 1, c->has_bias, c->relu);
        return GY_OK;
    }
    if (c->kind != GY_CONV_FILTER_GRADIENT) {
        GY_TRY(reorder_filters(&f, call->inputs[1].data));
    }
    gy_parallel_for(call->engine, c->pieces, 1, run_pieces, &f);
    for (int64_t piece = 0; piece < c->pieces; piece++) {
        GY_TRY(gy_dnnl_check(f.status[piece], "a convolution"));
    }
    if (c->kind == GY_CONV_FILTER_GRADIENT) {
        add_pieces(&f);
        GY_TRY(reorder_filters(&f, call->outputs[0].data));
    }
    return GY_OK;
}

const gy_kernel gy_kernel_conv_f32 = {
    .name = "onednn convolution",
    .accepts = gy_conv_accepts,
    .formats = gy_conv_formats,
    .workspace_bytes = conv_workspace,
    .prepare = conv_prepare,
    .release = conv_release,
    .run = conv_run,
};

const gy_kernel gy_kernel_conv_bf16 = {
    .name = "onednn bf16 convolution",
    .accepts = bf16_accepts,
    .formats = gy_conv_formats,
    .workspace_bytes = conv_workspace,
    .prepare = conv_prepare,
    .release = conv_release,
    .run = conv_run,
};
