/* Compresses bytes as gzip (RFC 1952) or as a Zstandard frame (RFC 8878), with zlib and
 * libzstd. The same bytes, however they are cut, give the same compressed ones but where a
 * library is of another version. */
#include "store/store_priv.h"

#include "base/base.h"

#include <gyre/store.h>

#include <zlib.h>
#include <zstd.h>

enum {
    OUT_BYTES = 64 << 10,
    PIECE_BYTES_MAX = 1 << 30, /* zlib counts in 32 bits */
    GZIP_WINDOW = 15 + 16,     /* the largest one, and a header of gzip */
    GZIP_MEMORY = 8
};

struct gy_compressor {
    gy_store_sink sink;
    void *arg;
    z_stream gzip;
    ZSTD_CCtx *zstd;  /* NULL: gzip */
    gy_status status; /* the first failure */
    unsigned char out[OUT_BYTES];
};

gy_status gy_compressor_new(gy_encoding encoding, gy_store_sink sink, void *arg,
                            gy_compressor **compressor)
{
    if (encoding != GY_ENCODING_GZIP && encoding != GY_ENCODING_ZSTD) {
        return gy_fail(GY_UNSUPPORTED,
                       "bytes are compressed as gzip or zstd (.gz, .zst) alone");
    }
    gy_compressor *made = gy_alloc_zero("store.compressor", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->sink = sink;
    made->arg = arg;
    if (encoding == GY_ENCODING_ZSTD) {
        made->zstd = ZSTD_createCCtx();
    }
    const bool is_made =
        encoding == GY_ENCODING_ZSTD
            ? made->zstd != NULL
            : deflateInit2(&made->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW,
                           GZIP_MEMORY, Z_DEFAULT_STRATEGY) == Z_OK;
    if (!is_made) {
        gy_free(made);
        return gy_fail(GY_NOMEM, "out of memory: no room to compress");
    }
    *compressor = made;
    return GY_OK;
}

void gy_compressor_free(gy_compressor *compressor)
{
    if (compressor == NULL) {
        return;
    }
    if (compressor->zstd != NULL) {
        (void)ZSTD_freeCCtx(compressor->zstd);
    } else {
        (void)deflateEnd(&compressor->gzip);
    }
    gy_free(compressor);
}

static gy_status give(gy_compressor *to, size_t size_bytes)
{
    GY_ASSERT(size_bytes <= OUT_BYTES);
    return size_bytes > 0 ? to->sink(to->arg, to->out, size_bytes) : GY_OK;
}

static gy_status add_gzip(gy_compressor *to, const unsigned char *data, size_t size_bytes,
                          bool is_end)
{
    to->gzip.next_in = (unsigned char *)(uintptr_t)data; /* it is not written */
    to->gzip.avail_in = (unsigned)size_bytes;
    do {
        to->gzip.next_out = to->out;
        to->gzip.avail_out = OUT_BYTES;
        const int result = deflate(&to->gzip, is_end ? Z_FINISH : Z_NO_FLUSH);
        GY_ASSERT(result != Z_STREAM_ERROR);
        GY_TRY(give(to, OUT_BYTES - to->gzip.avail_out));
    } while (to->gzip.avail_out == 0);
    return GY_OK;
}

static gy_status add_zstd(gy_compressor *to, const unsigned char *data, size_t size_bytes,
                          bool is_end)
{
    ZSTD_inBuffer in = {data, size_bytes, 0};
    size_t left = 1;
    while (is_end ? left > 0 : in.pos < in.size) {
        ZSTD_outBuffer out = {to->out, OUT_BYTES, 0};
        left = ZSTD_compressStream2(to->zstd, &out, &in, is_end ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left)) {
            return gy_fail(GY_NOMEM, "zstd: %s", ZSTD_getErrorName(left));
        }
        GY_TRY(give(to, out.pos));
    }
    return GY_OK;
}

static gy_status add(gy_compressor *to, const unsigned char *data, size_t size_bytes,
                     bool is_end)
{
    if (to->status == GY_OK) {
        to->status = to->zstd != NULL ? add_zstd(to, data, size_bytes, is_end)
                                      : add_gzip(to, data, size_bytes, is_end);
    }
    return to->status;
}

gy_status gy_compressor_add(gy_compressor *compressor, const void *data, size_t size_bytes)
{
    const unsigned char *at = data;
    gy_status status = compressor->status;
    for (size_t left = size_bytes; left > 0 && status == GY_OK;) {
        const size_t piece = GY_MIN(left, (size_t)PIECE_BYTES_MAX);
        status = add(compressor, at, piece, false);
        at += piece;
        left -= piece;
    }
    return status;
}

gy_status gy_compressor_end(gy_compressor *compressor)
{
    return add(compressor, (const unsigned char *)"", 0, true);
}
