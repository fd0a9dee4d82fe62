/** The tensor structure, for the files of this room. */
#ifndef GY_TENSOR_TENSOR_PRIV_H
#define GY_TENSOR_TENSOR_PRIV_H

#include "tensor/tensor.h"

#include <stdatomic.h>

struct gy_tensor {
    _Atomic int64_t holds;
    _Atomic int64_t pins; /* pins of the storage; only the root counts them */
    /* tensor whose storage this view shares; counted reference; NULL: owns its storage */
    gy_tensor *root;
    gy_pool *pool; /* pool of the storage; NULL: wrapped memory of the caller */
    void (*release)(void *arg);
    void *release_arg;
    gy_view view; /* constant after creation */
};

/** A view tensor over `source`'s storage, held once. */
GY_MUST_CHECK gy_status gy_tensor_share(gy_tensor *source, const gy_view *view,
                                        gy_tensor **out);

#endif
