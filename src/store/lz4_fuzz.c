/* Fuzz target: any bytes behind lz4's magic expand or fail, the same at once and in small
 * pieces. */
#include "store/expand_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_expand(GY_ENCODING_LZ4, "\x04\x22\x4d\x18", 4, data, size);
    return 0;
}
