/* Fuzz target: any bytes behind zstd's magic expand or fail, the same at once and in small
 * pieces. */
#include "base/base.h"
#include "store/store.h"

#include <string.h>

enum { LIMIT = 1 << 14, PIECE = 7, MAGIC_BYTES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Expand in reads of `piece` bytes until the end, a failure or LIMIT bytes are full. */
static gy_status expand(const char *data, size_t size, size_t piece, gy_bytes *out)
{
    gy_source *source = NULL;
    gy_status status = gy_source_of(data, size, "fuzz", GY_ENCODING_AUTO, &source);
    GY_ASSERT(status == GY_OK);
    size_t got = piece;
    while (status == GY_OK && got == piece && out->size_bytes + piece <= LIMIT) {
        status = gy_source_read(source, out->data + out->size_bytes, piece, &got);
        out->size_bytes += status == GY_OK ? got : 0;
        GY_ASSERT(got <= piece);
#ifdef GYRE_PLANTED_BUG
        char *small = gy_alloc("fuzz", 64); /* too small for what expands to more */
        if (small != NULL) {
            ((volatile char *)small)[out->size_bytes] = 1;
        }
        gy_free(small);
#endif
    }
    GY_ASSERT(out->size_bytes <= gy_source_bound(source));
    gy_source_close(source);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = gy_alloc("fuzz", MAGIC_BYTES + size);
    gy_bytes whole = {gy_alloc("fuzz", LIMIT), 0}, pieces = {gy_alloc("fuzz", LIMIT), 0};
    if (copy != NULL && whole.data != NULL && pieces.data != NULL) {
        memcpy(copy, "\x28\xb5\x2f\xfd", MAGIC_BYTES);
        if (size > 0) {
            memcpy(copy + MAGIC_BYTES, data, size);
        }
        const gy_status once = expand(copy, MAGIC_BYTES + size, LIMIT, &whole);
        const gy_status often = expand(copy, MAGIC_BYTES + size, PIECE, &pieces);
        const bool is_full = pieces.size_bytes + PIECE > LIMIT;
        GY_ASSERT(is_full || once == often);
        if (once == GY_OK) {
            GY_ASSERT(is_full || pieces.size_bytes == whole.size_bytes);
            GY_ASSERT(pieces.size_bytes <= whole.size_bytes);
            GY_ASSERT(memcmp(pieces.data, whole.data, pieces.size_bytes) == 0);
        }
    }
    gy_free(copy);
    gy_free(whole.data);
    gy_free(pieces.data);
    return 0;
}
