/* Decompresses a gzip member (RFC 1952) with zlib. */
#include "store/store_priv.h"

#include "base/base.h"

#include <string.h>
#include <zlib.h>

enum { FIRST_OUTPUT_BYTES = 64 << 10, WINDOW_BITS_GZIP = 15 + 16, PIECE_BYTES = 1 << 30 };

typedef struct gunzip {
    z_stream stream;
    bool is_made;
} gunzip;

static voidpf zlib_alloc(voidpf opaque, uInt count, uInt size)
{
    (void)opaque;
    return gy_alloc_zero("store.gzip", count, size);
}

static void zlib_free(voidpf opaque, voidpf pointer)
{
    (void)opaque;
    gy_free(pointer);
}

static gy_status begin(void *state)
{
    gunzip *own = state;
    if (own->is_made) {
        GY_ASSERT(inflateReset(&own->stream) == Z_OK);
        return GY_OK;
    }
    own->stream.zalloc = zlib_alloc;
    own->stream.zfree = zlib_free;
    if (inflateInit2(&own->stream, WINDOW_BITS_GZIP) != Z_OK) {
        return gy_fail(GY_NOMEM, "out of memory: no room to expand gzip");
    }
    own->is_made = true;
    return GY_OK;
}

static void end(void *state)
{
    gunzip *own = state;
    if (own->is_made) {
        (void)inflateEnd(&own->stream);
    }
}

static gy_status step(void *state, gy_decode_io *io, bool *is_whole)
{
    z_stream *stream = &((gunzip *)state)->stream;
    const uInt in = (uInt)GY_MIN(io->in_bytes, (size_t)PIECE_BYTES),
               room = (uInt)GY_MIN(io->out_bytes, (size_t)PIECE_BYTES);
    /* the library's input pointer is not const */
    memcpy(&stream->next_in, &io->in, sizeof(stream->next_in));
    stream->avail_in = in;
    stream->next_out = io->out;
    stream->avail_out = room;
    const int result = inflate(stream, Z_NO_FLUSH);
    io->in += in - stream->avail_in;
    io->in_bytes -= in - stream->avail_in;
    io->out += room - stream->avail_out;
    io->out_bytes -= room - stream->avail_out;
    *is_whole = result == Z_STREAM_END;
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) {
        return GY_OK;
    }
    if (stream->msg != NULL) {
        io->reason = stream->msg;
    }
    return result == Z_MEM_ERROR ? GY_NOMEM : GY_FORMAT;
}

const gy_decoder_ops gy_gzip_ops = {.state_bytes = sizeof(gunzip),
                                    .begin = begin,
                                    .end = end,
                                    .step = step,
                                    .ratio_max = 1032,
                                    .padding = 1};

/* ---- decompression in memory ---- */

/* Read to the end into a growing buffer. */
static gy_status expand_all(gy_source *source, size_t limit_bytes, gy_bytes *out)
{
    size_t capacity = 0, size = 0;
    for (;;) {
        if (size == capacity) {
            size_t larger =
                GY_MIN(GY_MAX((size_t)FIRST_OUTPUT_BYTES, capacity * 2), limit_bytes);
            void *data = gy_resize("store.gzip.out", out->data, larger + 1);
            if (data == NULL) {
                return GY_NOMEM;
            }
            out->data = data;
            capacity = larger;
        }
        size_t got = 0;
        char beyond = 0; /* at the limit: one further byte is too many */
        const bool is_full = size == limit_bytes;
        GY_TRY(gy_source_read(source, is_full ? &beyond : out->data + size,
                              is_full ? 1 : capacity - size, &got));
        if (is_full && got > 0) {
            return gy_fail(GY_LIMIT, "%s: expands to more than %zu bytes",
                           gy_source_name(source), limit_bytes);
        }
        size += is_full ? 0 : got;
        if (got == 0) {
            out->data[size] = '\0';
            out->size_bytes = size;
            return GY_OK;
        }
    }
}

gy_status gy_store_gzip_expand(const void *data, size_t size_bytes, const char *name,
                               size_t limit_bytes, gy_bytes *out)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_of(data, size_bytes, name, GY_ENCODING_GZIP, &source));
    gy_bytes made = {NULL, 0};
    const gy_status status = expand_all(source, limit_bytes, &made);
    gy_source_close(source);
    if (status < 0) {
        gy_free(made.data);
        return status;
    }
    *out = made;
    return GY_OK;
}
