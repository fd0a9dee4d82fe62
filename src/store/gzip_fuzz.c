/* Fuzz target: any bytes as gzip expand within the limit or fail, the same at once and in small
 * pieces. */
#include "base/base.h"
#include "store/store.h"

#include <string.h>

enum { LIMIT = 1 << 18, PIECE = 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Expand piece by piece; compares with `whole` when that is there. */
static gy_status expand_pieces(const uint8_t *data, size_t size, const gy_bytes *whole)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_of(data, size, "fuzz", GY_ENCODING_AUTO, &source));
    gy_status status = GY_OK;
    size_t at = 0, got = PIECE;
    while (status == GY_OK && got == PIECE && at <= LIMIT) {
        char piece[PIECE];
        status = gy_source_read(source, piece, PIECE, &got);
        if (status == GY_OK && whole != NULL) {
            GY_ASSERT(at + got <= whole->size_bytes);
            GY_ASSERT(memcmp(whole->data + at, piece, got) == 0);
        }
        at += status == GY_OK ? got : 0;
#ifdef GYRE_PLANTED_BUG
        char *small = gy_alloc("fuzz", 64); /* too small for what expands to more */
        if (small != NULL) {
            ((volatile char *)small)[at] = 1;
        }
        gy_free(small);
#endif
    }
    GY_ASSERT(whole == NULL || status < 0 || at == whole->size_bytes);
    gy_source_close(source);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_bytes whole = {NULL, 0};
    gy_status status = gy_store_gzip_expand(data, size, "fuzz", LIMIT, &whole);
    GY_ASSERT((status == GY_OK) == (whole.data != NULL));
    GY_ASSERT(whole.size_bytes <= LIMIT);
    gy_status pieces = expand_pieces(data, size, whole.data != NULL ? &whole : NULL);
    GY_ASSERT(status != GY_OK || pieces == GY_OK);
    gy_free(whole.data);
    return 0;
}
