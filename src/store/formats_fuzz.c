/* Fuzz target: any bytes, whatever they begin with, expand or fail, the same at once and in
 * small pieces. */
#include "store/expand_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_expand(GY_ENCODING_AUTO, "", 0, data, size);
    return 0;
}
