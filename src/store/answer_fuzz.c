/* Fuzz target: any bytes as an answer of S3 give items with keys or a failure. */
#include "store/remote/remote_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const gy_s3_answer *answer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < answer->item_count; i++) {
        bytes += strlen(answer->items[i].key);
    }
    GY_ASSERT(answer->item_count == 0 || bytes <= answer->item_count * GY_URI_BYTES);
#ifdef GYRE_PLANTED_BUG
    /* room for two items: a third is written beyond it */
    size_t *sizes = gy_alloc_zero("fuzz", 2, sizeof(size_t));
    for (size_t i = 0; sizes != NULL && i < answer->item_count; i++) {
        ((volatile size_t *)sizes)[i] = strlen(answer->items[i].key);
    }
    gy_free(sizes);
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_s3_answer answer = {.root = ""};
    if (gy_s3_answer_read((const char *)data, size, &answer) == GY_OK) {
        use(&answer);
    }
    gy_s3_answer_free(&answer);
    return 0;
}
