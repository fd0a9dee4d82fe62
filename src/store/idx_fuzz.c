/* Fuzz target: any bytes as an IDX file give a tensor or a failure, never both, and every
 * element can be read. */
#include "base/base.h"
#include "store/store.h"
#include "tensor/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(gy_tensor *tensor)
{
    double sum = 0;
    for (int64_t i = 0; i < gy_tensor_count(tensor); i++) {
        sum += gy_tensor_get(tensor, i);
    }
    (void)sum;
#ifdef GYRE_PLANTED_BUG
    /* room for two sizes: a third is written beyond it */
    int64_t *sizes = gy_alloc_zero("fuzz", 2, sizeof(int64_t));
    for (int dim = 0; sizes != NULL && dim < gy_tensor_rank(tensor); dim++) {
        ((volatile int64_t *)sizes)[dim] = gy_tensor_size(tensor, dim);
    }
    gy_free(sizes);
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_source *source = NULL;
    gy_tensor *tensor = NULL;
    if (gy_source_of(data, size, "fuzz", GY_ENCODING_AUTO, &source) == GY_OK) {
        gy_status status = gy_store_idx_read(source, NULL, 1 << 20, &tensor);
        GY_ASSERT((status == GY_OK) == (tensor != NULL));
        if (tensor != NULL) {
            use(tensor);
        }
        gy_tensor_drop(tensor);
        gy_source_close(source);
    }
    return 0;
}
