/* Decompresses a bzip2 stream with libbz2, which is loaded at its first call. */
#include "store/store_priv.h"

#include "base/base.h"
#include "base/lazy.h"

#include <bzlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 30 };

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): they are passed on as they
 * come */
GY_LAZY(GY_LATE_BZIP2, int, BZ2_bzDecompressInit, (bz_stream * a, int b, int c), (a, b, c))
GY_LAZY(GY_LATE_BZIP2, int, BZ2_bzDecompress, (bz_stream * a), (a))
GY_LAZY(GY_LATE_BZIP2, int, BZ2_bzDecompressEnd, (bz_stream * a), (a))
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

typedef struct bunzip2 {
    bz_stream stream;
    bool is_made;
} bunzip2;

static void *bzip2_alloc(void *opaque, int count, int size)
{
    (void)opaque;
    return gy_alloc_zero("store.bzip2", (size_t)count, (size_t)size);
}

static void bzip2_free(void *opaque, void *pointer)
{
    (void)opaque;
    gy_free(pointer);
}

static void end(void *state)
{
    bunzip2 *own = state;
    if (own->is_made) {
        (void)BZ2_bzDecompressEnd(&own->stream);
        own->is_made = false;
    }
}

static gy_status begin(void *state)
{
    bunzip2 *own = state;
    GY_TRY(gy_store_late_check(GY_LATE_BZIP2, "bzip2"));
    end(own); /* libbz2 has no reset */
    own->stream = (bz_stream){.bzalloc = bzip2_alloc, .bzfree = bzip2_free};
    if (BZ2_bzDecompressInit(&own->stream, 0, 0) != BZ_OK) {
        return gy_fail(GY_NOMEM, "out of memory: no room to expand bzip2");
    }
    own->is_made = true;
    return GY_OK;
}

static gy_status step(void *state, gy_decode_io *io, bool *is_whole)
{
    bz_stream *stream = &((bunzip2 *)state)->stream;
    const unsigned in = (unsigned)GY_MIN(io->in_bytes, (size_t)PIECE_BYTES),
                   room = (unsigned)GY_MIN(io->out_bytes, (size_t)PIECE_BYTES);
    /* the library's input pointer is not const */
    memcpy(&stream->next_in, &io->in, sizeof(stream->next_in));
    stream->avail_in = in;
    stream->next_out = (char *)io->out;
    stream->avail_out = room;
    const int result = BZ2_bzDecompress(stream);
    io->in += in - stream->avail_in;
    io->in_bytes -= in - stream->avail_in;
    io->out += room - stream->avail_out;
    io->out_bytes -= room - stream->avail_out;
    *is_whole = result == BZ_STREAM_END;
    switch (result) {
    case BZ_OK:
    case BZ_STREAM_END:
        return GY_OK;
    case BZ_MEM_ERROR:
        return GY_NOMEM;
    case BZ_DATA_ERROR_MAGIC:
        io->reason = "no block begins there";
        return GY_FORMAT;
    default:
        io->reason = "a block is not what its checksum says";
        return GY_FORMAT;
    }
}

const gy_decoder_ops gy_bzip2_ops = {
    .state_bytes = sizeof(bunzip2),
    .begin = begin,
    .end = end,
    .step = step,
    .ratio_max = 1 << 21, /* a block of 900 kB of runs, 259 bytes in 5, takes some 40 bytes */
    .padding = 1};
