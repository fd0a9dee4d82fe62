/* Decompresses an lz4 frame with liblz4, which is loaded at its first call. */
#include "store/store_priv.h"

#include "base/base.h"
#include "base/lazy.h"

#define LZ4FLIB_VISIBILITY __attribute__((visibility("hidden"))) /* defined below */
#include <lz4frame.h>

GY_LAZY(GY_LATE_LZ4, LZ4F_errorCode_t, LZ4F_createDecompressionContext,
        (LZ4F_dctx * *a, unsigned b), (a, b))
GY_LAZY(GY_LATE_LZ4, LZ4F_errorCode_t, LZ4F_freeDecompressionContext, (LZ4F_dctx * a), (a))
GY_LAZY(GY_LATE_LZ4, size_t, LZ4F_decompress,
        (LZ4F_dctx * a, void *b, size_t *c, const void *d, size_t *e,
         const LZ4F_decompressOptions_t *f),
        (a, b, c, d, e, f))
GY_LAZY_VOID(GY_LATE_LZ4, LZ4F_resetDecompressionContext, (LZ4F_dctx * a), (a))
GY_LAZY(GY_LATE_LZ4, unsigned, LZ4F_isError, (LZ4F_errorCode_t a), (a))
GY_LAZY(GY_LATE_LZ4, const char *, LZ4F_getErrorName, (LZ4F_errorCode_t a), (a))

typedef struct unlz4 {
    LZ4F_dctx *context;
} unlz4;

static gy_status begin(void *state)
{
    unlz4 *own = state;
    if (own->context != NULL) {
        LZ4F_resetDecompressionContext(own->context);
        return GY_OK;
    }
    GY_TRY(gy_store_late_check(GY_LATE_LZ4, "lz4"));
    if (LZ4F_isError(LZ4F_createDecompressionContext(&own->context, LZ4F_VERSION)) != 0) {
        return gy_fail(GY_NOMEM, "out of memory: no room to expand lz4");
    }
    return GY_OK;
}

static void end(void *state)
{
    unlz4 *own = state;
    if (own->context != NULL) {
        (void)LZ4F_freeDecompressionContext(own->context);
    }
}

static gy_status step(void *state, gy_decode_io *io, bool *is_whole)
{
    size_t in = io->in_bytes, out = io->out_bytes;
    const size_t result =
        LZ4F_decompress(((unlz4 *)state)->context, io->out, &out, io->in, &in, NULL);
    if (LZ4F_isError(result) != 0) {
        io->reason = LZ4F_getErrorName(result);
        return GY_FORMAT;
    }
    io->in += in;
    io->in_bytes -= in;
    io->out += out;
    io->out_bytes -= out;
    *is_whole = result == 0;
    return GY_OK;
}

const gy_decoder_ops gy_lz4_ops = {.state_bytes = sizeof(unlz4),
                                   .begin = begin,
                                   .end = end,
                                   .step = step,
                                   .ratio_max = 256, /* a byte encodes at most 255 bytes */
                                   .has_skippable = true};
