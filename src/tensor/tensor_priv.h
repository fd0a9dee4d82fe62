/**
 * What a tensor is, for the files of this room.
 */
#ifndef GY_TENSOR_TENSOR_PRIV_H
#define GY_TENSOR_TENSOR_PRIV_H

#include "tensor/tensor.h"

#include <stdatomic.h>

struct gy_tensor {
    _Atomic int64_t holds;
    _Atomic int64_t pins; /* counted at the root alone */
    gy_tensor *root;      /* whose storage a view shares, held; NULL: this one has its own */
    gy_pool *pool;        /* where the storage came from; NULL: wrapped */
    void (*release)(void *arg);
    void *release_arg;
    gy_view view; /* const after creation */
};

/** A view tensor over `source`'s storage, held once. */
GY_MUST_CHECK gy_status gy_tensor_share(gy_tensor *source, const gy_view *view,
                                        gy_tensor **out);

#endif
