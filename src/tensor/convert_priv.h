/**
 * Conversion of a run of elements from one type to another.
 */
#ifndef GY_TENSOR_CONVERT_PRIV_H
#define GY_TENSOR_CONVERT_PRIV_H

#include "tensor/tensor.h"

/** Elements `stride` apart (in elements). */
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

/** Convert `count` elements, as told at gy_view_copy. The runs must not overlap. */
void gy_convert_run(gy_run to, gy_const_run from, int64_t count);

#endif
