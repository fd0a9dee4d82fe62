/**
 * Products of matrices on a device, by cuBLASLt: planned once for a shape, run often.
 */
#ifndef GY_OPS_CUDA_PRODUCT_H
#define GY_OPS_CUDA_PRODUCT_H

#include "ops/cuda/device.h"

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
} gy_cuda_product_shape;

typedef struct gy_cuda_products gy_cuda_products; /* the library's handle on a device */
typedef struct gy_cuda_product gy_cuda_product;

/** @return GY_OK; GY_NOTFOUND no cuBLASLt: names library and package; GY_NOMEM; GY_PEER */
GY_MUST_CHECK gy_status gy_cuda_products_open(gy_cuda_device *device,
                                              gy_cuda_products **products);
/** All its products are freed. NULL is fine. */
void gy_cuda_products_close(gy_cuda_products *products);

/**
 * Choose how the product is computed.
 * @param workspace_max  bytes of device memory that it may take for itself
 * @return GY_OK; GY_UNSUPPORTED the library has no algorithm for it: names the product;
 * GY_NOMEM; GY_PEER
 * @threads any @cost some 10 us
 */
GY_MUST_CHECK gy_status gy_cuda_product_new(gy_cuda_products *products,
                                            const gy_cuda_product_shape *shape,
                                            size_t workspace_max, gy_cuda_product **product);
/** NULL is fine. */
void gy_cuda_product_free(gy_cuda_product *product);
/** Device memory that a run takes, aligned to 256 bytes. */
size_t gy_cuda_product_workspace(const gy_cuda_product *product);

/** What a run works on: addresses of the first elements, aligned to 16 bytes. */
typedef struct gy_cuda_operands {
    gy_cuda_address a, b, c, bias, workspace;
    gy_cuda_address added;  /* 0: c */
    gy_cuda_address scales; /* where the shape has them, in c's type */
} gy_cuda_operands;

/** Push the product to a stream. @return GY_OK; GY_PEER; GY_STATE A run of a product at a
 * time. @cost 5 us */
GY_MUST_CHECK gy_status gy_cuda_product_run(gy_cuda_product *product, gy_cuda_stream *stream,
                                            const gy_cuda_operands *operands);

#endif
