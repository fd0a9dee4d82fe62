/* Fuzz target: any bytes as safetensors give a bundle or a failure; what is read has a checksum
 * and elements. */
#include "store/bundle/bundle_priv.h"
#include "tensor/tensor.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Most changes of the header alone leave its length wrong, and nothing behind that check is
 * reached: three of four mutations change the header and put its length right. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint64_t header = 0;
    if (size >= sizeof(header)) {
        memcpy(&header, data, sizeof(header));
    }
    const size_t front = sizeof(header);
    if (seed % 4 == 0 || size < front || header > size - front || size >= max_size) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    const size_t rest = size - front - (size_t)header;
    uint8_t *tail = gy_alloc("fuzz", rest);
    if (tail == NULL) {
        return size;
    }
    memcpy(tail, data + front + header, rest);
    header = LLVMFuzzerMutate(data + front, (size_t)header, max_size - front - rest);
    memcpy(data, &header, sizeof(header));
    memcpy(data + front + header, tail, rest);
    gy_free(tail);
    return front + (size_t)header + rest;
}

static void use(const gy_bundle *bundle)
{
    char checksum[GY_BUNDLE_CHECKSUM_BYTES];
    GY_ASSERT(gy_bundle_checksum(bundle, false, checksum) == GY_OK); /* reads every element */
    for (size_t i = 0; i < gy_bundle_count(bundle); i++) {
        GY_ASSERT(gy_bundle_find(bundle, gy_bundle_name(bundle, i)) != NULL);
#ifdef GYRE_PLANTED_BUG
        /* room for one size: a second is written beyond it */
        gy_tensor *tensor = gy_bundle_tensor(bundle, i);
        int64_t *sizes = gy_alloc_zero("fuzz", 1, sizeof(int64_t));
        for (int dim = 0; sizes != NULL && dim < gy_tensor_rank(tensor); dim++) {
            ((volatile int64_t *)sizes)[dim] = gy_tensor_size(tensor, dim);
        }
        gy_free(sizes);
#endif
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_source *source = NULL;
    gy_bundle *bundle = NULL;
    if (gy_source_of(data, size, "fuzz", GY_ENCODING_PLAIN, &source) == GY_OK) {
        gy_status status = gy_bundle_load(source, NULL, &bundle);
        GY_ASSERT((status == GY_OK) == (bundle != NULL));
        if (bundle != NULL) {
            use(bundle);
        }
        gy_bundle_free(bundle);
        gy_source_close(source);
    }
    return 0;
}
