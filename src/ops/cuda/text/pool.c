/*
 * Pooling of (N,C,H,W): a thread for each element of the result. A gradient looks at the
 * windows that hold its element, in their order, and adds up what they give it: no atomics.
 * Windows are as in ops/pool.c: the first maximum, and what is no number is more than any.
 */
#include "ops/cuda/text/text_priv.h"

#define EACH                                                                                   \
    "    const $N step = ($N)gridDim.x * blockDim.x;\n"                                        \
    "    $N i = ($N)blockIdx.x * blockDim.x + threadIdx.x;\n"                                  \
    "    for (; i < g.count; i += step) {\n"

/* Element i is of window (h, w) of a plane: rows [top, bottom), columns [left, right) of x. */
#define WINDOW                                                                                 \
    "        const $N w = i % g.columns, h = i / g.columns % g.rows;\n"                        \
    "        const $N plane = i / g.columns / g.rows;\n"                                       \
    "        const $N begin0 = h * g.stride0 - g.pad0;\n"                                      \
    "        const $N begin1 = w * g.stride1 - g.pad1;\n"                                      \
    "        const $N top = begin0 < 0 ? 0 : begin0;\n"                                        \
    "        const $N left = begin1 < 0 ? 0 : begin1;\n"                                       \
    "        const $N end0 = begin0 + g.window0, end1 = begin1 + g.window1;\n"                 \
    "        const $N bottom = end0 < g.height ? end0 : g.height;\n"                           \
    "        const $N right = end1 < g.width ? end1 : g.width;\n"

/* Element i is (y, x) of a plane: windows [first0, last0) by [first1, last1) hold it. */
#define COVERS                                                                                 \
    "        const $N x = i % g.width, y = i / g.width % g.height;\n"                          \
    "        const $N plane = i / g.width / g.height;\n"                                       \
    "        const $N low0 = y + g.pad0 - g.window0 + 1;\n"                                    \
    "        const $N low1 = x + g.pad1 - g.window1 + 1;\n"                                    \
    "        const $N first0 = low0 <= 0 ? 0 : (low0 + g.stride0 - 1) / g.stride0;\n"          \
    "        const $N first1 = low1 <= 0 ? 0 : (low1 + g.stride1 - 1) / g.stride1;\n"          \
    "        const $N past0 = (y + g.pad0) / g.stride0 + 1;\n"                                 \
    "        const $N past1 = (x + g.pad1) / g.stride1 + 1;\n"                                 \
    "        const $N last0 = past0 < g.rows ? past0 : g.rows;\n"                              \
    "        const $N last1 = past1 < g.columns ? past1 : g.columns;\n"

static const char max_text[] =
    "GY_KERNEL(gy_pool)\n"
    "{\n" EACH WINDOW "        const long long box[4] = {top, bottom, left, right};\n"
    "        const $N from = plane * g.height * g.width;\n"
    "        g.out0[i] = g.in$v[from + $name(g.in0 + from, box, g.width)];\n"
    "    }\n"
    "}\n";

static const char max_gradient_text[] =
    "GY_KERNEL(gy_pool)\n"
    "{\n" EACH COVERS "        const $T *own = g.in0 + plane * g.height * g.width;\n"
    "        $T sum = 0;\n"
    "        for ($N h = first0; h < last0; h++) {\n"
    "            for ($N w = first1; w < last1; w++) {\n"
    "                const $N begin0 = h * g.stride0 - g.pad0;\n"
    "                const $N begin1 = w * g.stride1 - g.pad1;\n"
    "                const $N end0 = begin0 + g.window0, end1 = begin1 + g.window1;\n"
    "                const long long box[4] = {begin0 < 0 ? 0 : begin0,\n"
    "                                          end0 < g.height ? end0 : g.height,\n"
    "                                          begin1 < 0 ? 0 : begin1,\n"
    "                                          end1 < g.width ? end1 : g.width};\n"
    "                if ($name(own, box, g.width) == y * g.width + x) {\n"
    "                    sum += g.in1[(plane * g.rows + h) * g.columns + w];\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "        g.out0[i] = sum;\n"
    "    }\n"
    "}\n";

static const char average_text[] =
    "GY_KERNEL(gy_pool)\n"
    "{\n" EACH WINDOW "        double sum = 0;\n"
    "        for ($N y = top; y < bottom; y++) {\n"
    "            for ($N x = left; x < right; x++) {\n"
    "                sum += (double)g.in0[(plane * g.height + y) * g.width + x];\n"
    "            }\n"
    "        }\n"
    "        const $N seen = (bottom - top) * (right - left);\n"
    "        g.out0[i] = ($T)(sum / (double)(g.whole > 0 ? g.whole : seen));\n"
    "    }\n"
    "}\n";

static const char average_gradient_text[] =
    "GY_KERNEL(gy_pool)\n"
    "{\n" EACH COVERS "        double sum = 0;\n"
    "        for ($N h = first0; h < last0; h++) {\n"
    "            for ($N w = first1; w < last1; w++) {\n"
    "                const $N begin0 = h * g.stride0 - g.pad0;\n"
    "                const $N begin1 = w * g.stride1 - g.pad1;\n"
    "                const $N end0 = begin0 + g.window0, end1 = begin1 + g.window1;\n"
    "                const $N seen0 = (end0 < g.height ? end0 : g.height) -\n"
    "                                        (begin0 < 0 ? 0 : begin0);\n"
    "                const $N seen1 = (end1 < g.width ? end1 : g.width) -\n"
    "                                        (begin1 < 0 ? 0 : begin1);\n"
    "                const $N shares = g.whole > 0 ? g.whole : seen0 * seen1;\n"
    "                sum += (double)g.in0[(plane * g.rows + h) * g.columns + w] / "
    "(double)shares;\n"
    "            }\n"
    "        }\n"
    "        g.out0[i] = ($T)sum;\n"
    "    }\n"
    "}\n";

/* x is what is pooled, y what that gives; either may be the result of a gradient. */
static void number_pool(gy_cuda_writer *w, const gy_view *x, const gy_view *y)
{
    const gy_attributes *of = w->call->attributes;
    const int64_t whole = (int64_t)of->pool.window[0] * of->pool.window[1];
    gy_cuda_shorten(w);
    gy_cuda_fields(w, 0);
    gy_cuda_number(w, "count", gy_view_count(&w->call->outputs[0]));
    gy_cuda_number(w, "height", x->sizes[2]);
    gy_cuda_number(w, "width", x->sizes[3]);
    gy_cuda_number(w, "rows", y->sizes[2]);
    gy_cuda_number(w, "columns", y->sizes[3]);
    gy_cuda_number(w, "window0", of->pool.window[0]);
    gy_cuda_number(w, "window1", of->pool.window[1]);
    gy_cuda_number(w, "stride0", of->pool.stride[0]);
    gy_cuda_number(w, "stride1", of->pool.stride[1]);
    gy_cuda_number(w, "pad0", of->pool.pad[0]);
    gy_cuda_number(w, "pad1", of->pool.pad[1]);
    gy_cuda_number(w, "whole", of->pool.count_pad ? whole : 0);
}

void gy_cuda_write_pool(gy_cuda_writer *w)
{
    const gy_kernel_call *call = w->call;
    const gy_op *op = call->op;
    const gy_view *x = &call->inputs[0], *y = &call->outputs[0];
    const char *text = op == &gy_ops_row_average_pool ? average_text : max_text;
    if (op == &gy_ops_row_max_pool_gradient) {
        y = &call->inputs[1];
        text = max_gradient_text;
    } else if (op == &gy_ops_row_average_pool_gradient) {
        x = &call->outputs[0];
        y = &call->inputs[0];
        text = average_gradient_text;
    }
    const gy_cuda_key keys[] = {
        {"T", gy_cuda_type_name(x->dtype)},
        {"name", x->dtype == GY_F64 ? "gy_first_maximum" : "gy_first_maximumf"},
        {"v", op == &gy_ops_row_max_pool_pick ? "1" : "0"},
        {NULL, NULL}};
    number_pool(w, x, y);
    gy_cuda_print(w, text, keys);
    gy_cuda_launch_each(w, "gy_pool", gy_view_count(&call->outputs[0]));
}
