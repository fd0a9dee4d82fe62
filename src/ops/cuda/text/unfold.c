/*
 * Convolutions as products: images become columns, (N, C R S, P Q) for an output of P by Q, and
 * back. A thread takes an element of the result; what goes back adds up its taps in their
 * order: no atomics.
 *
 * @source Chellapilla, Puri, Simard, "High performance convolutional neural networks for
 * document processing", 2006
 */
#include "ops/cuda/text/text_priv.h"

#define EACH                                                                                   \
    "    const long long step = (long long)gridDim.x * blockDim.x;\n"                          \
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"                    \
    "    for (; i < g.count; i += step) {\n"

static const char unfold_text[] =
    "GY_KERNEL(gy_unfold)\n"
    "{\n" EACH "        const long long q = i % g.columns, p = i / g.columns % g.rows;\n"
    "        const long long tap = i / g.columns / g.rows;\n"
    "        const long long s = tap % g.taps1, r = tap / g.taps1 % g.taps0;\n"
    "        const long long plane = tap / g.taps1 / g.taps0;\n"
    "        const long long y = p * g.stride0 - g.pad0 + r, x = q * g.stride1 - g.pad1 + s;\n"
    "        const int is_in = y >= 0 && y < g.height && x >= 0 && x < g.width;\n"
    "        g.out0[i] = is_in ? g.in0[(plane * g.height + y) * g.width + x] : 0;\n"
    "    }\n"
    "}\n";

static const char fold_text[] =
    "GY_KERNEL(gy_fold)\n"
    "{\n" EACH "        const long long x = i % g.width, y = i / g.width % g.height;\n"
    "        const long long plane = i / g.width / g.height;\n"
    "        double sum = 0;\n"
    "        for (long long r = 0; r < g.taps0; r++) {\n"
    "            const long long p = (y + g.pad0 - r) / g.stride0;\n"
    "            if (y + g.pad0 - r != p * g.stride0 || y + g.pad0 < r || p >= g.rows) {\n"
    "                continue;\n"
    "            }\n"
    "            for (long long s = 0; s < g.taps1; s++) {\n"
    "                const long long q = (x + g.pad1 - s) / g.stride1;\n"
    "                if (x + g.pad1 - s != q * g.stride1 || x + g.pad1 < s || q >= g.columns) "
    "{\n"
    "                    continue;\n"
    "                }\n"
    "                const long long tap = (plane * g.taps0 + r) * g.taps1 + s;\n"
    "                sum += (double)g.in0[(tap * g.rows + p) * g.columns + q];\n"
    "            }\n"
    "        }\n"
    "        g.out0[i] = ($T)sum;\n"
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

static void number_conv(gy_cuda_writer *w, const conv_views *v, const gy_attributes *of)
{
    gy_cuda_number(w, "count", gy_view_count(&w->call->outputs[0]));
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
static void write_columns(gy_cuda_writer *w, const gy_kernel_call *conv)
{
    const conv_views v = views_of(conv);
    const gy_dtype type = w->call->outputs[0].dtype;
    const gy_cuda_key keys[] = {{"T", gy_cuda_type_name(type)}, {NULL, NULL}};
    const bool is_fold = conv->op == &gy_ops_row_conv2d_input_gradient;
    gy_cuda_fields(w, is_fold ? 0 : GY_CUDA_MOVES);
    number_conv(w, &v, conv->attributes);
    gy_cuda_print(w, is_fold ? fold_text : unfold_text, keys);
    gy_cuda_launch_each(w, is_fold ? "gy_fold" : "gy_unfold",
                        gy_view_count(&w->call->outputs[0]));
}

gy_status gy_cuda_text_columns(const gy_kernel_call *call, int64_t sizes[3], gy_cuda_text *text)
{
    const conv_views v = views_of(call);
    const bool is_fold = call->op == &gy_ops_row_conv2d_input_gradient;
    const int64_t of_columns[3] = {v.x->sizes[0],
                                   v.x->sizes[1] * v.filters->sizes[2] * v.filters->sizes[3],
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
        write_columns(&w, call);
    } else {
        gy_cuda_refuse(&w, "images are strided or blocked");
    }
    return gy_cuda_end(&w);
}
