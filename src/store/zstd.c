/* Zstandard (RFC 8878) through libzstd: frames one after the other, nothing behind them. */
#include "store/store_priv.h"

#include "base/base.h"

#include <zstd.h>

enum { INPUT_BYTES = 64 << 10, WINDOW_LOG_MAX = 27 };

struct gy_unzstd {
    ZSTD_DCtx *context;
    ZSTD_inBuffer input;
    bool is_between; /* no frame is open */
    char bytes[INPUT_BYTES];
};

gy_status gy_unzstd_new(gy_unzstd **unzstd)
{
    gy_unzstd *made = gy_alloc_zero("store.zstd", 1, sizeof(*made));
    ZSTD_DCtx *context = made == NULL ? NULL : ZSTD_createDCtx();
    if (context == NULL) {
        gy_free(made);
        return gy_fail(GY_NOMEM, "out of memory: no room to expand zstd");
    }
    const size_t result = ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    GY_ASSERT(!ZSTD_isError(result));
    made->context = context;
    made->input.src = made->bytes;
    *unzstd = made;
    return GY_OK;
}

void gy_unzstd_free(gy_unzstd *unzstd)
{
    if (unzstd != NULL) {
        (void)ZSTD_freeDCtx(unzstd->context);
        gy_free(unzstd);
    }
}

gy_status gy_unzstd_read(gy_unzstd *unzstd, gy_source *source, void *data, size_t wanted,
                         size_t *got)
{
    ZSTD_outBuffer out = {data, wanted, 0};
    ZSTD_inBuffer *in = &unzstd->input;
    while (out.pos < out.size) {
        bool is_end = false;
        if (in->pos == in->size) {
            GY_TRY(gy_source_raw(source, unzstd->bytes, sizeof(unzstd->bytes), &in->size));
            in->pos = 0;
            is_end = in->size == 0;
        }
        if (is_end && unzstd->is_between) {
            break;
        }
        const size_t before = out.pos,
                     result = ZSTD_decompressStream(unzstd->context, &out, in);
        const unsigned long long at = gy_source_raw_at(source) - (in->size - in->pos);
        if (ZSTD_isError(result)) {
            return gy_fail(GY_FORMAT, "%s: damaged zstd near byte %llu: %s",
                           gy_source_name(source), at, ZSTD_getErrorName(result));
        }
        if (is_end && out.pos == before) { /* what it held back is out, and more is to come */
            return gy_fail(GY_FORMAT, "%s: zstd cut short at byte %llu", gy_source_name(source),
                           at);
        }
        unzstd->is_between = result == 0;
    }
    *got = out.pos;
    return GY_OK;
}
