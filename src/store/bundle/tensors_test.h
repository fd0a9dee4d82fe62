/**
 * For the tests of bundles: tensors of any shape and bits.
 */
#ifndef GY_STORE_BUNDLE_TENSORS_TEST_H
#define GY_STORE_BUNDLE_TENSORS_TEST_H

#include "base/base.h"
#include "tensor/tensor.h"

#include "gy_test.h"

/** Up to four dimensions, each below `sizes_end`. */
static inline gy_tensor *random_tensor(gy_random *random, gy_dtype dtype, uint64_t sizes_end)
{
    int64_t sizes[4];
    const int rank = (int)gy_random_below(random, 5);
    for (int dim = 0; dim < rank; dim++) {
        sizes[dim] = (int64_t)gy_random_below(random, sizes_end);
    }
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_new(NULL, dtype, sizes, rank, &tensor));
    gy_view view = gy_tensor_pin(tensor);
    for (size_t i = 0; i < gy_view_bytes(&view); i++) {
        ((unsigned char *)view.data)[i] = (unsigned char)gy_random_u64(random);
    }
    gy_tensor_unpin(tensor);
    return tensor;
}

#endif
