/* Decompresses a Zstandard frame (RFC 8878) with libzstd. */
#include "store/store_priv.h"

#include "base/base.h"

#include <zstd.h>
#include <zstd_errors.h>

enum { WINDOW_LOG_MAX = 27 };

typedef struct unzstd {
    ZSTD_DCtx *context;
} unzstd;

static gy_status begin(void *state)
{
    unzstd *own = state;
    if (own->context != NULL) {
        (void)ZSTD_DCtx_reset(own->context, ZSTD_reset_session_only);
        return GY_OK;
    }
    own->context = ZSTD_createDCtx();
    if (own->context == NULL) {
        return gy_fail(GY_NOMEM, "out of memory: no room to expand zstd");
    }
    const size_t result =
        ZSTD_DCtx_setParameter(own->context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    GY_ASSERT(!ZSTD_isError(result));
    return GY_OK;
}

static void end(void *state)
{
    (void)ZSTD_freeDCtx(((unzstd *)state)->context);
}

static gy_status step(void *state, gy_decode_io *io, bool *is_whole)
{
    ZSTD_inBuffer in = {io->in, io->in_bytes, 0};
    ZSTD_outBuffer out = {io->out, io->out_bytes, 0};
    const size_t result = ZSTD_decompressStream(((unzstd *)state)->context, &out, &in);
    io->in += in.pos;
    io->in_bytes -= in.pos;
    io->out += out.pos;
    io->out_bytes -= out.pos;
    *is_whole = result == 0;
    if (!ZSTD_isError(result)) {
        return GY_OK;
    }
    io->reason = ZSTD_getErrorName(result);
    switch ((int)ZSTD_getErrorCode(result)) { /* only some of the many codes matter here */
    case ZSTD_error_memory_allocation:
        return GY_NOMEM;
    case ZSTD_error_frameParameter_windowTooLarge:
        io->reason = "its window is larger than 128 MiB: compress it again without --ultra or "
                     "with --long=27 at most";
        return GY_LIMIT;
    case ZSTD_error_dictionary_wrong:
        io->reason = "it was compressed with a dictionary, which is not there: expand it first "
                     "(zstd -d -D FILE)";
        return GY_LIMIT;
    default:
        return GY_FORMAT;
    }
}

const gy_decoder_ops gy_zstd_ops = {.state_bytes = sizeof(unzstd),
                                    .begin = begin,
                                    .end = end,
                                    .step = step,
                                    .ratio_max = 1 << 15, /* a block of 128 KiB takes 4 bytes */
                                    .has_skippable = true};
