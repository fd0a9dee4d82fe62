/**
 * What the float32 kernels of convolutions share: roles of the values, formats.
 */
#ifndef GY_OPS_KERNELS_CONV_PRIV_H
#define GY_OPS_KERNELS_CONV_PRIV_H

#include "ops/ops.h"

typedef enum gy_conv_kind {
    GY_CONV_FORWARD,
    GY_CONV_INPUT_GRADIENT,
    GY_CONV_FILTER_GRADIENT
} gy_conv_kind;

static inline gy_conv_kind gy_conv_kind_of(const gy_op *op)
{
    return op == &gy_ops_row_conv2d                  ? GY_CONV_FORWARD
           : op == &gy_ops_row_conv2d_input_gradient ? GY_CONV_INPUT_GRADIENT
                                                     : GY_CONV_FILTER_GRADIENT;
}

/** The image side, the result side and the filters, whichever of them is the output. */
static inline const gy_view *gy_conv_x(const gy_kernel_query *query, gy_conv_kind kind)
{
    return kind == GY_CONV_INPUT_GRADIENT ? &query->outputs[0] : &query->inputs[0];
}
static inline const gy_view *gy_conv_y(const gy_kernel_query *query, gy_conv_kind kind)
{
    return kind == GY_CONV_FORWARD          ? &query->outputs[0]
           : kind == GY_CONV_INPUT_GRADIENT ? &query->inputs[0]
                                            : &query->inputs[1];
}
static inline const gy_view *gy_conv_filter(const gy_kernel_query *query, gy_conv_kind kind)
{
    return kind == GY_CONV_FILTER_GRADIENT ? &query->outputs[0] : &query->inputs[1];
}

/** `formats` and `accepts` of float32 convolutions: blocked where that is fast. */
void gy_conv_formats(const gy_kernel_query *query, gy_format *inputs, gy_format *outputs);
bool gy_conv_accepts(const gy_kernel_query *query);

#endif
