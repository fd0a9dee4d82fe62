/*
 * Convolutions as products: images become columns, (N, C R S, P Q) for an output of P by Q, and
 * back. A block takes a line of columns, all places of one tap in one image; or, back, a plane
 * of an image, each element of which adds up its taps in their order: no atomics.
 *
 * @source Chellapilla, Puri, Simard, "High performance convolutional neural networks for
 * document processing", 2006
 */
#include "ops/cuda/text/text_priv.h"

/* What lies above or left of an image wraps around, and is outside as well. */
static const char unfold_text[] =
    "GY_KERNEL(gy_unfold)\n"
    "{\n"
    "    const unsigned height = (unsigned)g.height, width = (unsigned)g.width;\n"
    "    const unsigned taps0 = (unsigned)g.taps0, taps1 = (unsigned)g.taps1;\n"
    "    const unsigned columns = (unsigned)g.columns, places = (unsigned)g.places;\n"
    "    const unsigned stride0 = (unsigned)g.stride0, stride1 = (unsigned)g.stride1;\n"
    "    unsigned line = blockIdx.x;\n"
    "    for (; line < (unsigned)g.lines; line += gridDim.x) {\n"
    "        const unsigned s = line % taps1, r = line / taps1 % taps0;\n"
    "        const unsigned above = r - (unsigned)g.pad0, left = s - (unsigned)g.pad1;\n"
    "        const long long plane = line / taps1 / taps0;\n"
    "        const $T *from = g.in0 + plane * g.height * g.width;\n"
    "        const unsigned image = line / (unsigned)g.taps, tap = line % (unsigned)g.taps;\n"
    "        $T *to = g.out0 + image * g.image_stride + tap * g.tap_stride;\n"
    "        unsigned i = threadIdx.x;\n"
    "        for (; i < places; i += blockDim.x) {\n"
    "            const unsigned p = i / columns, q = i - p * columns;\n"
    "            const unsigned y = p * stride0 + above, x = q * stride1 + left;\n"
    "            to[i] = y < height && x < width ? from[y * width + x] : 0;\n"
    "        }\n"
    "    }\n"
    "}\n";

/* An element is in the windows that begin at most a window before it and not behind it. */
static const char fold_text[] =
    "GY_KERNEL(gy_fold)\n"
    "{\n"
    "    const int width = (int)g.width, elements = (int)(g.height * g.width);\n"
    "    const int taps0 = (int)g.taps0, taps1 = (int)g.taps1;\n"
    "    const int rows = (int)g.rows, columns = (int)g.columns;\n"
    "    const int stride0 = (int)g.stride0, stride1 = (int)g.stride1;\n"
    "    unsigned plane = blockIdx.x;\n"
    "    for (; plane < (unsigned)g.lines; plane += gridDim.x) {\n"
    "        const unsigned image = plane / (unsigned)g.channels;\n"
    "        const unsigned channel = plane % (unsigned)g.channels;\n"
    "        const $T *from = g.in0 + image * g.image_stride +\n"
    "                         (long long)channel * taps0 * taps1 * g.tap_stride;\n"
    "        $T *to = g.out0 + (long long)plane * elements;\n"
    "        int i = (int)threadIdx.x;\n"
    "        for (; i < elements; i += (int)blockDim.x) {\n"
    "            const int y = i / width + (int)g.pad0, x = i % width + (int)g.pad1;\n"
    "            const int top = y < taps0 ? 0 : (y - taps0) / stride0 + 1;\n"
    "            const int left = x < taps1 ? 0 : (x - taps1) / stride1 + 1;\n"
    "            const int low = y / stride0 < rows ? y / stride0 : rows - 1;\n"
    "            const int right = x / stride1 < columns ? x / stride1 : columns - 1;\n"
    "            double sum = 0;\n"
    "            for (int p = low; p >= top; p--) {\n"
    "                const int r = y - p * stride0;\n"
    "                for (int q = right; q >= left; q--) {\n"
    "                    const int tap = r * taps1 + x - q * stride1;\n"
    "                    sum += (double)from[tap * g.tap_stride + p * columns + q];\n"
    "                }\n"
    "            }\n"
    "            to[i] = ($T)sum;\n"
    "        }\n"
    "    }\n"
    "}\n";

typedef struct conv_views {
    const gy_view *x, *filters, *y;
} conv_views;

static conv_views views_of(const gy_kernel_call *call)
{
    if (call->op == &gy_ops_row_conv2d) {
        return (conv_views){&call->inputs[0], &call->inputs[1], &call->outputs[0]};
    }
    if (call->op == &gy_ops_row_conv2d_input_gradient) {
        return (conv_views){&call->outputs[0], &call->inputs[1], &call->inputs[0]};
    }
    GY_ASSERT(call->op == &gy_ops_row_conv2d_filter_gradient);
    return (conv_views){&call->inputs[0], &call->outputs[0], &call->inputs[1]};
}

/* Of joined columns places of all images stand behind each tap. */
static void number_conv(gy_cuda_writer *w, const conv_views *v, const gy_attributes *of,
                        int64_t lines, bool is_joined)
{
    const int64_t places = v->y->sizes[2] * v->y->sizes[3], images = v->x->sizes[0];
    const int64_t taps = v->x->sizes[1] * v->filters->sizes[2] * v->filters->sizes[3];
    gy_cuda_number(w, "lines", lines);
    gy_cuda_number(w, "places", places);
    gy_cuda_number(w, "channels", v->x->sizes[1]);
    gy_cuda_number(w, "taps", taps);
    gy_cuda_number(w, "image_stride", is_joined ? places : taps * places);
    gy_cuda_number(w, "tap_stride", is_joined ? images * places : places);
    gy_cuda_number(w, "height", v->x->sizes[2]);
    gy_cuda_number(w, "width", v->x->sizes[3]);
    gy_cuda_number(w, "taps0", v->filters->sizes[2]);
    gy_cuda_number(w, "taps1", v->filters->sizes[3]);
    gy_cuda_number(w, "rows", v->y->sizes[2]);
    gy_cuda_number(w, "columns", v->y->sizes[3]);
    gy_cuda_number(w, "stride0", of->conv.stride[0]);
    gy_cuda_number(w, "stride1", of->conv.stride[1]);
    gy_cuda_number(w, "pad0", of->conv.pad[0]);
    gy_cuda_number(w, "pad1", of->conv.pad[1]);
}

/* The call of the moving part alone: one input, one output. */
static void write_columns(gy_cuda_writer *w, const gy_kernel_call *conv, bool is_joined)
{
    enum { BLOCKS_MAX = 1 << 20 }; /* a block then takes several lines */
    const conv_views v = views_of(conv);
    const gy_dtype type = w->call->outputs[0].dtype;
    const bool is_fold = conv->op == &gy_ops_row_conv2d_input_gradient;
    const gy_cuda_key keys[] = {
        {"T", is_fold ? gy_cuda_type_name(type) : gy_cuda_bits_name(type)}, {NULL, NULL}};
    const int64_t elements = v.x->sizes[2] * v.x->sizes[3];
    const int64_t places = v.y->sizes[2] * v.y->sizes[3];
    const int64_t taps = v.filters->sizes[2] * v.filters->sizes[3];
    const int64_t lines = v.x->sizes[0] * v.x->sizes[1] * (is_fold ? 1 : taps);
    const int64_t padded = (v.x->sizes[2] + 2 * (int64_t)conv->attributes->conv.pad[0]) *
                           (v.x->sizes[3] + 2 * (int64_t)conv->attributes->conv.pad[1]);
    if (lines > INT32_MAX || places > INT32_MAX || padded > INT32_MAX || taps > INT32_MAX) {
        gy_cuda_refuse(w, "its images are larger than 32 bits count");
        return;
    }
    gy_cuda_fields(w, is_fold ? 0 : GY_CUDA_MOVES);
    number_conv(w, &v, conv->attributes, lines, is_joined);
    gy_cuda_print(w, is_fold ? fold_text : unfold_text, keys);
    gy_cuda_launch_blocks(w, is_fold ? "gy_fold" : "gy_unfold",
                          GY_MIN(lines, (int64_t)BLOCKS_MAX),
                          gy_cuda_line_threads(is_fold ? elements : places));
}

gy_status gy_cuda_text_columns(const gy_kernel_call *call, bool is_joined, int64_t sizes[3],
                               gy_cuda_text *text)
{
    const conv_views v = views_of(call);
    const bool is_fold = call->op == &gy_ops_row_conv2d_input_gradient;
    const int64_t taps = v.x->sizes[1] * v.filters->sizes[2] * v.filters->sizes[3];
    const int64_t of_columns[3] = {is_joined ? taps : v.x->sizes[0],
                                   is_joined ? v.x->sizes[0] : taps,
                                   v.y->sizes[2] * v.y->sizes[3]};
    gy_view columns = gy_view_of(NULL, v.x->dtype, of_columns, 3), images = *v.x;
    for (int i = 0; i < 3; i++) {
        sizes[i] = of_columns[i];
    }
    const gy_kernel_call part = {.op = call->op,
                                 .attributes = call->attributes,
                                 .inputs = is_fold ? &columns : &images,
                                 .input_count = 1,
                                 .outputs = is_fold ? &images : &columns,
                                 .output_count = 1};
    gy_cuda_writer w = gy_cuda_begin(&part, text);
    if (gy_view_is_contiguous(&images) && images.format == GY_FORMAT_DENSE) {
        write_columns(&w, call, is_joined);
    } else {
        gy_cuda_refuse(&w, "images are strided or blocked");
    }
    return gy_cuda_end(&w);
}
