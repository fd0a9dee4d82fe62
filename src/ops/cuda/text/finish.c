/*
 * What stands around a product: what a matmul or a convolution does to its result once the
 * product is there, bias and relu, in place; and the factors of one that adds to its output.
 */
#include "ops/cuda/text/text_priv.h"

static const char finish_text[] = "GY_KERNEL(gy_finish)\n"
                                  "{\n"
                                  "    const $N step = ($N)gridDim.x * blockDim.x;\n"
                                  "    $N i = ($N)blockIdx.x * blockDim.x + threadIdx.x;\n"
                                  "    for (; i < g.count; i += step) {\n"
                                  "        const $T y = g.out0[i]$bias;\n"
                                  "        g.out0[i] = $y;\n"
                                  "    }\n"
                                  "}\n";

gy_status gy_cuda_text_finish(const gy_kernel_call *call, gy_cuda_text *text)
{
    const bool is_conv = call->op == &gy_ops_row_conv2d;
    GY_ASSERT(is_conv || call->op == &gy_ops_row_matmul);
    const bool has_bias =
        is_conv ? call->attributes->conv.has_bias : call->attributes->matmul.has_bias;
    const bool is_relu = (is_conv ? call->attributes->conv.activation
                                  : call->attributes->matmul.activation) == GY_ACTIVATION_RELU;
    const gy_view *y = &call->outputs[0];
    GY_ASSERT(!has_bias || call->input_count == 3);
    const gy_kernel_call part = {.op = call->op,
                                 .attributes = call->attributes,
                                 .inputs = call->inputs + 2,
                                 .input_count = has_bias ? 1 : 0,
                                 .outputs = call->outputs,
                                 .output_count = 1};
    gy_cuda_writer w = gy_cuda_begin(&part, text);
    if (!has_bias && !is_relu) {
        gy_cuda_refuse(&w, "it has neither bias nor activation");
        return gy_cuda_end(&w);
    }
    const gy_cuda_key keys[] = {{"T", gy_cuda_type_name(y->dtype)},
                                {"bias", has_bias ? " + g.in0[i / g.inner % g.channels]" : ""},
                                {"y", is_relu ? "y < 0 ? 0 : y" : "y"},
                                {NULL, NULL}};
    gy_cuda_shorten(&w);
    gy_cuda_fields(&w, 0);
    gy_cuda_number(&w, "count", gy_view_count(y));
    gy_cuda_number(&w, "channels", y->sizes[is_conv ? 1 : y->rank - 1]);
    gy_cuda_number(&w, "inner", is_conv ? y->sizes[2] * y->sizes[3] : 1);
    gy_cuda_print(&w, finish_text, keys);
    gy_cuda_launch_each(&w, "gy_finish", gy_view_count(y));
    return gy_cuda_end(&w);
}

static const char scales_text[] = "GY_KERNEL(gy_scales)\n"
                                  "{\n"
                                  "    if (threadIdx.x == 0) {\n"
                                  "        g.out0[0] = -g.in0[0];\n"
                                  "        g.out0[g.second] = 1;\n"
                                  "    }\n"
                                  "}\n";

gy_status gy_cuda_text_scales(const gy_kernel_call *call, gy_cuda_text *text)
{
    GY_ASSERT(call->op == &gy_ops_row_matmul_update && call->input_count == 4);
    const gy_dtype dtype = call->inputs[3].dtype;
    const int64_t second = GY_CUDA_SCALES_BYTES / 2 / (int64_t)gy_dtype_bytes(dtype);
    const int64_t sizes[1] = {2 * second};
    gy_view scales = gy_view_of(NULL, dtype, sizes, 1);
    const gy_kernel_call part = {.op = call->op,
                                 .attributes = call->attributes,
                                 .inputs = &call->inputs[3],
                                 .input_count = 1,
                                 .outputs = &scales,
                                 .output_count = 1};
    gy_cuda_writer w = gy_cuda_begin(&part, text);
    gy_cuda_fields(&w, 0);
    gy_cuda_number(&w, "second", second);
    gy_cuda_print(&w, scales_text, (const gy_cuda_key[]){{NULL, NULL}});
    gy_cuda_launch_blocks(&w, "gy_scales", 1, 32);
    return gy_cuda_end(&w);
}
