/* Fuzz target: any bytes behind zstd's magic expand or fail, the same at once and in small
 * pieces. */
#include "store/expand_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_expand(GY_ENCODING_AUTO, "\x28\xb5\x2f\xfd", 4, data, size);
    return 0;
}
