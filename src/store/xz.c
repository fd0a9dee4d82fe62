/* Decompresses an xz stream with liblzma, which is loaded at its first call. */
#include "store/store_priv.h"

#include "base/base.h"
#include "base/lazy.h"

#include <lzma.h>

#define MEMORY_MAX ((uint64_t)136 << 20) /* a dictionary of 128 MiB plus overhead */

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the macro passes the
 * library's names on */
GY_LAZY(GY_LATE_XZ, lzma_ret, lzma_stream_decoder, (lzma_stream * a, uint64_t b, uint32_t c),
        (a, b, c))
GY_LAZY(GY_LATE_XZ, lzma_ret, lzma_code, (lzma_stream * a, lzma_action b), (a, b))
GY_LAZY_VOID(GY_LATE_XZ, lzma_end, (lzma_stream * a), (a))
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

typedef struct unxz {
    lzma_stream stream;
    bool is_made;
} unxz;

static void *xz_alloc(void *opaque, size_t count, size_t size)
{
    (void)opaque;
    return gy_alloc("store.xz", count * size); /* liblzma always passes 1 as the count */
}

static void xz_free(void *opaque, void *pointer)
{
    (void)opaque;
    gy_free(pointer);
}

static gy_status begin(void *state)
{
    static const lzma_allocator heap = {.alloc = xz_alloc, .free = xz_free};
    unxz *own = state;
    if (!own->is_made) {
        GY_TRY(gy_store_late_check(GY_LATE_XZ, "xz"));
        own->stream = (lzma_stream)LZMA_STREAM_INIT;
        own->stream.allocator = &heap;
        own->is_made = true;
    }
    if (lzma_stream_decoder(&own->stream, MEMORY_MAX, 0) != LZMA_OK) {
        return gy_fail(GY_NOMEM, "out of memory: no room to expand xz");
    }
    return GY_OK;
}

static void end(void *state)
{
    unxz *own = state;
    if (own->is_made) {
        lzma_end(&own->stream);
    }
}

static gy_status step(void *state, gy_decode_io *io, bool *is_whole)
{
    lzma_stream *stream = &((unxz *)state)->stream;
    stream->next_in = io->in;
    stream->avail_in = io->in_bytes;
    stream->next_out = io->out;
    stream->avail_out = io->out_bytes;
    const lzma_ret result = lzma_code(stream, LZMA_RUN);
    io->in = stream->next_in;
    io->in_bytes = stream->avail_in;
    io->out = stream->next_out;
    io->out_bytes = stream->avail_out;
    *is_whole = result == LZMA_STREAM_END;
    switch ((int)result) { /* decoding returns no other codes */
    case LZMA_OK:
    case LZMA_BUF_ERROR: /* no progress is possible, which the caller notices */
    case LZMA_STREAM_END:
        return GY_OK;
    case LZMA_MEM_ERROR:
        return GY_NOMEM;
    case LZMA_MEMLIMIT_ERROR:
        io->reason = "its dictionary is larger than 128 MiB: compress it again with a smaller "
                     "one (xz -9 has 64 MiB)";
        return GY_LIMIT;
    case LZMA_OPTIONS_ERROR:
        io->reason = "it has filters or flags that this liblzma does not know";
        return GY_FORMAT;
    default:
        io->reason = "it is not what its headers and checksums say";
        return GY_FORMAT;
    }
}

const gy_decoder_ops gy_xz_ops = {.state_bytes = sizeof(unxz),
                                  .begin = begin,
                                  .end = end,
                                  .step = step,
                                  .ratio_max =
                                      1 << 16, /* a match of 273 bytes costs some 0.3 bits */
                                  .padding = 4};
