/* Fuzz target: any bytes behind xz's magic expand or fail, the same at once and in small
 * pieces. */
#include "store/expand_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_expand(GY_ENCODING_XZ, "\xfd\x37\x7a\x58\x5a\x00", 6, data, size);
    return 0;
}
