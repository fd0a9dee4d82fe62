/**
 * float64 convolutions, which oneDNN lacks: an image's windows as columns of a matrix, then a
 * product by OpenBLAS. For gradient checks and bit comparisons: correct, not the last word.
 *
 * y_n (K, OH OW) = filters (K, C R S) times columns_n (C R S, OH OW); the gradients are the
 * adjoint products. Images are cut into pieces that depend on the shape alone; filter gradients
 * of the pieces are added in order. Columns hold zeros for the padding, which the definition
 * does not multiply: where an infinity or NaN would meet them, the definition itself runs.
 *
 * @source Chellapilla, Puri, Simard: "High performance convolutional neural networks for
 * document processing", 2006
 */
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/libraries.h"

#include <math.h>
#include <string.h>

enum { MAX_PIECES = 8 };

typedef struct conv {
    const gy_kernel_call *call;
    const gy_blas *blas;
    int64_t images, channels, height, width;
    int64_t filters, window[2], out_height, out_width;
    int64_t window_size, area; /* C R S and OH OW: the columns matrix */
    int64_t piece_images, pieces;
    double *parts;   /* (pieces - 1, K, C R S): filter gradients of all but the first piece */
    double *columns; /* (pieces, C R S, OH OW) */
} conv;

static bool conv_accepts(const gy_kernel_query *query)
{
    for (int i = 0; i < query->input_count; i++) {
        if (query->inputs[i].dtype != GY_F64) {
            return false;
        }
    }
    return true;
}

static void describe(conv *c, const gy_op *op, const gy_view *inputs, const gy_view *outputs)
{
    bool is_input = op == &gy_ops_row_conv2d_input_gradient;
    bool is_filter = op == &gy_ops_row_conv2d_filter_gradient;
    const gy_view *x = is_input ? &outputs[0] : &inputs[0];
    const gy_view *y = is_input ? &inputs[0] : is_filter ? &inputs[1] : &outputs[0];
    const gy_view *filter = is_filter ? &outputs[0] : &inputs[1];
    memset(c, 0, sizeof(*c));
    c->images = x->sizes[0];
    c->channels = x->sizes[1];
    c->height = x->sizes[2];
    c->width = x->sizes[3];
    c->filters = filter->sizes[0];
    c->window[0] = filter->sizes[2];
    c->window[1] = filter->sizes[3];
    c->out_height = y->sizes[2];
    c->out_width = y->sizes[3];
    c->window_size = c->channels * c->window[0] * c->window[1];
    c->area = c->out_height * c->out_width;
    c->piece_images = GY_MAX((c->images + MAX_PIECES - 1) / MAX_PIECES, (int64_t)1);
    c->pieces = (c->images + c->piece_images - 1) / c->piece_images;
}

static size_t conv_workspace(const gy_kernel_query *query)
{
    conv c;
    describe(&c, query->op, query->inputs, query->outputs);
    int64_t count = c.pieces * c.window_size * (c.area + c.filters);
    return (size_t)count * sizeof(double);
}

/* Where column row (channel, r, s) looks for output (i, j); false: into the padding. */
static bool source_of(const conv *c, int64_t row, int64_t i, int64_t j, int64_t *at)
{
    const gy_attributes *a = c->call->attributes;
    int64_t s = row % c->window[1], r = row / c->window[1] % c->window[0];
    int64_t channel = row / (c->window[0] * c->window[1]);
    int64_t y = i * a->conv.stride[0] - a->conv.pad[0] + r;
    int64_t x = j * a->conv.stride[1] - a->conv.pad[1] + s;
    *at = (channel * c->height + y) * c->width + x;
    return y >= 0 && y < c->height && x >= 0 && x < c->width;
}

static void to_columns(const conv *c, const double *image, double *columns)
{
    for (int64_t row = 0; row < c->window_size; row++) {
        for (int64_t i = 0; i < c->out_height; i++) {
            for (int64_t j = 0; j < c->out_width; j++) {
                int64_t at;
                *columns++ = source_of(c, row, i, j, &at) ? image[at] : 0;
            }
        }
    }
}

static void from_columns(const conv *c, const double *columns, double *image)
{
    memset(image, 0, (size_t)(c->channels * c->height * c->width) * sizeof(double));
    for (int64_t row = 0; row < c->window_size; row++) {
        for (int64_t i = 0; i < c->out_height; i++) {
            for (int64_t j = 0; j < c->out_width; j++, columns++) {
                int64_t at;
                if (source_of(c, row, i, j, &at)) {
                    image[at] += *columns;
                }
            }
        }
    }
}

static void forward(const conv *c, int64_t image, double *columns)
{
    const gy_kernel_call *call = c->call;
    double *y = (double *)call->outputs[0].data + image * c->filters * c->area;
    int64_t size = c->channels * c->height * c->width;
    to_columns(c, (const double *)call->inputs[0].data + image * size, columns);
    c->blas->dgemm(GY_BLAS_ROW_MAJOR, GY_BLAS_PLAIN, GY_BLAS_PLAIN, (int)c->filters,
                   (int)c->area, (int)c->window_size, 1, call->inputs[1].data,
                   (int)c->window_size, columns, (int)c->area, 0, y, (int)c->area);
    bool relu = call->attributes->conv.activation == GY_ACTIVATION_RELU;
    const double *bias = call->attributes->conv.has_bias ? call->inputs[2].data : NULL;
    for (int64_t i = 0; i < c->filters * c->area && (relu || bias != NULL); i++) {
        double value = y[i] + (bias != NULL ? bias[i / c->area] : 0);
        y[i] = relu && value < 0 ? 0 : value;
    }
}

static void input_gradient(const conv *c, int64_t image, double *columns)
{
    const gy_kernel_call *call = c->call;
    const double *dy = (const double *)call->inputs[0].data + image * c->filters * c->area;
    int64_t size = c->channels * c->height * c->width;
    c->blas->dgemm(GY_BLAS_ROW_MAJOR, GY_BLAS_TRANSPOSED, GY_BLAS_PLAIN, (int)c->window_size,
                   (int)c->area, (int)c->filters, 1, call->inputs[1].data, (int)c->window_size,
                   dy, (int)c->area, 0, columns, (int)c->area);
    from_columns(c, columns, (double *)call->outputs[0].data + image * size);
}

static void filter_gradient(const conv *c, int64_t image, double *columns, double *sum)
{
    const gy_kernel_call *call = c->call;
    const double *dy = (const double *)call->inputs[1].data + image * c->filters * c->area;
    int64_t size = c->channels * c->height * c->width;
    to_columns(c, (const double *)call->inputs[0].data + image * size, columns);
    c->blas->dgemm(GY_BLAS_ROW_MAJOR, GY_BLAS_PLAIN, GY_BLAS_TRANSPOSED, (int)c->filters,
                   (int)c->window_size, (int)c->area, 1, dy, (int)c->area, columns,
                   (int)c->area, 1, sum, (int)c->window_size);
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    const conv *c = arg;
    const gy_op *op = c->call->op;
    int64_t filter_size = c->filters * c->window_size;
    for (int64_t piece = begin; piece < end; piece++) {
        double *columns = c->columns + piece * c->window_size * c->area;
        double *sum = piece == 0 ? (double *)c->call->outputs[0].data
                                 : c->parts + (piece - 1) * filter_size;
        if (op == &gy_ops_row_conv2d_filter_gradient && filter_size > 0) {
            memset(sum, 0, (size_t)filter_size * sizeof(double));
        }
        int64_t last = GY_MIN((piece + 1) * c->piece_images, c->images);
        for (int64_t image = piece * c->piece_images; image < last; image++) {
            if (op == &gy_ops_row_conv2d) {
                forward(c, image, columns);
            } else if (op == &gy_ops_row_conv2d_input_gradient) {
                input_gradient(c, image, columns);
            } else {
                filter_gradient(c, image, columns, sum);
            }
        }
    }
}

/* Would a zero of the padding meet a number that it does not make 0? */
static bool meets_padding(const gy_kernel_call *call)
{
    const gy_view *other = &call->inputs[1]; /* filters, or the result's gradient */
    bool has_padding =
        call->attributes->conv.pad[0] + call->attributes->conv.pad[1] > 0 &&
        call->op != &gy_ops_row_conv2d_input_gradient; /* its columns are results */
    int64_t count = has_padding ? gy_view_count(other) : 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(((const double *)other->data)[i])) {
            return true;
        }
    }
    return false;
}

static gy_status conv_run(const gy_kernel_call *call)
{
    conv c;
    describe(&c, call->op, call->inputs, call->outputs);
    c.call = call;
    if (meets_padding(call)) {
        return call->op->reference(call);
    }
    GY_TRY(gy_blas_get(&c.blas));
    c.columns = call->workspace;
    c.parts = c.columns + c.pieces * c.window_size * c.area;
    if (c.pieces == 0) {
        gy_view_zero(&call->outputs[0]);
        return GY_OK;
    }
    gy_parallel_for(call->engine, c.pieces, 1, run_pieces, &c);
    int64_t filter_size = c.filters * c.window_size;
    for (int64_t piece = 1; piece < c.pieces && call->op == &gy_ops_row_conv2d_filter_gradient;
         piece++) {
        double *sum = call->outputs[0].data;
        for (int64_t i = 0; i < filter_size; i++) {
            sum[i] += c.parts[(piece - 1) * filter_size + i];
        }
    }
    return GY_OK;
}

const gy_kernel gy_kernel_conv_f64 = {
    .name = "openblas convolution",
    .accepts = conv_accepts,
    .workspace_bytes = conv_workspace,
    .run = conv_run,
};
