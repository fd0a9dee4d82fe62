/** Converts a strided sequence of elements from one type to another. */
#ifndef GY_TENSOR_CONVERT_PRIV_H
#define GY_TENSOR_CONVERT_PRIV_H

#include "tensor/tensor.h"

/** A sequence of elements that are `stride` elements apart. */
typedef struct gy_run {
    void *data;
    gy_dtype dtype;
    int64_t stride;
} gy_run;

typedef struct gy_const_run {
    const void *data;
    gy_dtype dtype;
    int64_t stride;
} gy_const_run;

/** Convert `count` elements by the rules of gy_view_copy. The two sequences must not
 * overlap. */
void gy_convert_run(gy_run to, gy_const_run from, int64_t count);

#endif
