/**
 * Products of matrices on a device, by cuBLASLt: planned once for a shape, run often.
 */
#ifndef GY_OPS_CUDA_PRODUCT_H
#define GY_OPS_CUDA_PRODUCT_H

#include "ops/cuda/device.h"
#include "ops/cuda/plan/shape.h"

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

/** What a run works on: addresses of the first elements, aligned as the shape says. */
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
