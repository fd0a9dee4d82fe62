/**
 * The kernels, for the table in table.c.
 */
#ifndef GY_OPS_KERNELS_KERNELS_PRIV_H
#define GY_OPS_KERNELS_KERNELS_PRIV_H

#include "ops/avx512/narrow.h"
#include "ops/kernels/libraries.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

extern const gy_kernel gy_kernel_fused, gy_kernel_tiles;
extern const gy_kernel gy_kernel_matmul_f32, gy_kernel_matmul_f64;
extern const gy_kernel gy_kernel_matmul_bf16, gy_kernel_widened;
extern const gy_kernel gy_kernel_conv_f32, gy_kernel_conv_f64, gy_kernel_pool;
extern const gy_kernel gy_kernel_conv_bf16;
extern const gy_kernel gy_kernel_winograd;
extern const gy_kernel gy_kernel_softmax, gy_kernel_cross_entropy, gy_kernel_argmax;
extern const gy_kernel gy_kernel_cross_entropy_gradient, gy_kernel_attention;
extern const gy_kernel gy_kernel_attention_bf16;
extern const gy_kernel gy_kernel_pick, gy_kernel_find, gy_kernel_layer_norm_gradient;
extern const gy_kernel gy_kernel_layer_norm, gy_kernel_transpose, gy_kernel_slice;
extern const gy_kernel gy_kernel_pad, gy_kernel_concat, gy_kernel_broadcast, gy_kernel_gather;
extern const gy_kernel gy_kernel_scatter_add, gy_kernel_one_hot, gy_kernel_fill;
extern const gy_kernel gy_kernel_reorder, gy_kernel_matmul_update;

/** Are these sides for the products of narrow.h, on this CPU? */
static inline bool gy_narrow_takes(int64_t width, int64_t length)
{
    return gy_tile_isa_level() == GY_TILE_ISA_AVX512 && width > 0 && width <= GY_NARROW_MAX &&
           length > 0 && length % GY_NARROW_STEP == 0;
}

/** A product or convolution with nothing to add up: output 0 is the bias, input 2 along `dim`,
 * through the activation; without one 0. */
void gy_kernel_put_empty(const gy_kernel_call *call, int dim, bool has_bias, bool relu);

/** gy_call_index of a dense input, without its walk in the common case. */
static inline gy_status gy_kernel_index(const gy_kernel_call *call, int input, int64_t at,
                                        const char *what, int64_t size, int64_t *index)
{
    if (call->inputs[input].dtype == GY_I32) {
        *index = ((const int32_t *)call->inputs[input].data)[at];
        if (*index >= 0 && *index < size) {
            return GY_OK;
        }
    }
    return gy_call_index(call, input, at, what, size, index);
}

#endif
