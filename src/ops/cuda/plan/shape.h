/**
 * What a product of matrices consists of: what plans say, and ops/cuda/product.h computes.
 */
#ifndef GY_OPS_CUDA_PLAN_SHAPE_H
#define GY_OPS_CUDA_PLAN_SHAPE_H

#include "base/base.h"

/** What a and b consist of, and c with them. */
typedef enum gy_cuda_number {
    GY_CUDA_F32,
    GY_CUDA_F64,
    GY_CUDA_F16, /* c is float32, and so are the sums, as of bf16 */
    GY_CUDA_BF16
} gy_cuda_number;

/** c (m, n) = a (m, k) b (k, n), all row-major; zero fields are the defaults. */
typedef struct gy_cuda_product_shape {
    gy_cuda_number number;
    int64_t m, n, k;            /* >= 1 */
    bool is_a_transposed;       /* a lies as (k, m) */
    bool is_b_transposed;       /* b lies as (n, k) */
    bool adds;                  /* to what c holds, or the matrix `added` */
    bool has_scales;            /* the product's factor and that of what it adds to lie on the
                                   device, 16 bytes apart */
    bool may_round;             /* float32 operands to TF32's 10 bits */
    bool has_bias;              /* a row of n numbers, of c's type, is added to each row of c */
    bool has_relu;              /* what is below 0 then becomes 0 */
    int64_t batch;              /* 0: 1; products side by side */
    int64_t a_stride, b_stride; /* elements from one to the next; 0: the same operand for all */
    int64_t c_stride;           /* 0: m n */
    int alignment;              /* bytes that addresses of a, b and c are multiples of, at most
                                   16, which 0 stands for */
} gy_cuda_product_shape;

#endif
