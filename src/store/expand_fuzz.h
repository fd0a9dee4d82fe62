/**
 * For the fuzz targets of decompression: any bytes after a format's magic either decompress or
 * fail, with the same result in one read and in small reads.
 */
#ifndef GY_STORE_EXPAND_FUZZ_H
#define GY_STORE_EXPAND_FUZZ_H

#include "base/base.h"
#include "store/store.h"

#include <string.h>

enum { FUZZ_LIMIT = 1 << 14, FUZZ_PIECE = 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Decompress in reads of `piece` bytes until the end, a failure or FUZZ_LIMIT bytes. */
static inline gy_status fuzz_read(gy_encoding encoding, const char *data, size_t size,
                                  size_t piece, gy_bytes *out)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_of(data, size, "fuzz", encoding, &source));
    gy_status status = GY_OK;
    size_t got = piece;
    while (status == GY_OK && got == piece && out->size_bytes + piece <= FUZZ_LIMIT) {
        status = gy_source_read(source, out->data + out->size_bytes, piece, &got);
        out->size_bytes += status == GY_OK ? got : 0;
        GY_ASSERT(got <= piece);
#ifdef GYRE_PLANTED_BUG
        char *small = gy_alloc("fuzz", 64); /* too small on purpose for larger outputs */
        if (small != NULL) {
            ((volatile char *)small)[out->size_bytes] = 1;
        }
        gy_free(small);
#endif
    }
    GY_ASSERT(status != GY_OK || out->size_bytes <= gy_source_bound(source));
    gy_source_close(source);
    return status;
}

/** Test both ways with `magic` (magic_bytes) followed by the input. */
static inline void fuzz_expand(gy_encoding encoding, const char *magic, size_t magic_bytes,
                               const uint8_t *data, size_t size)
{
    char *copy = gy_alloc("fuzz", magic_bytes + size + 1);
    gy_bytes whole = {gy_alloc("fuzz", FUZZ_LIMIT), 0},
             pieces = {gy_alloc("fuzz", FUZZ_LIMIT), 0};
    if (copy != NULL && whole.data != NULL && pieces.data != NULL) {
        memcpy(copy, magic, magic_bytes);
        if (size > 0) {
            memcpy(copy + magic_bytes, data, size);
        }
        const gy_status once =
            fuzz_read(encoding, copy, magic_bytes + size, FUZZ_LIMIT, &whole);
        const gy_status often =
            fuzz_read(encoding, copy, magic_bytes + size, FUZZ_PIECE, &pieces);
        const bool is_full = pieces.size_bytes + FUZZ_PIECE > FUZZ_LIMIT;
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
}

#endif
