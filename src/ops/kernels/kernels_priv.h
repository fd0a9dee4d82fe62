/**
 * The kernels, for the table in table.c.
 */
#ifndef GY_OPS_KERNELS_KERNELS_PRIV_H
#define GY_OPS_KERNELS_KERNELS_PRIV_H

#include "ops/ops.h"
#include "tensor/tensor.h"

extern const gy_kernel gy_kernel_fused, gy_kernel_tiles;
extern const gy_kernel gy_kernel_matmul_f32, gy_kernel_matmul_f64;

#endif
