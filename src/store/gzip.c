/* gzip (RFC 1952) through zlib: members one after the other, each with its check, nothing
 * behind them. */
#include "store/store_priv.h"

#include "base/base.h"

#include <string.h>
#include <zlib.h>

enum { INPUT_BYTES = 64 << 10, FIRST_OUTPUT_BYTES = 64 << 10, WINDOW_BITS_GZIP = 15 + 16 };

struct gy_gunzip {
    z_stream stream;
    bool is_between; /* no member is open */
    bool has_member; /* one was whole */
    unsigned char input[INPUT_BYTES];
};

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

gy_status gy_gunzip_new(gy_gunzip **gunzip)
{
    gy_gunzip *made = gy_alloc_zero("store.gzip", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->stream.zalloc = zlib_alloc;
    made->stream.zfree = zlib_free;
    made->is_between = true;
    if (inflateInit2(&made->stream, WINDOW_BITS_GZIP) != Z_OK) {
        gy_free(made);
        return gy_fail(GY_NOMEM, "out of memory: no room to expand gzip");
    }
    *gunzip = made;
    return GY_OK;
}

void gy_gunzip_free(gy_gunzip *gunzip)
{
    if (gunzip != NULL) {
        (void)inflateEnd(&gunzip->stream);
        gy_free(gunzip);
    }
}

/* More input, when none is left; `*is_end` when there is no more. */
static gy_status refill(gy_gunzip *gunzip, gy_source *source, bool *is_end)
{
    *is_end = false;
    if (gunzip->stream.avail_in > 0) {
        return GY_OK;
    }
    size_t got = 0;
    GY_TRY(gy_source_raw(source, gunzip->input, sizeof(gunzip->input), &got));
    gunzip->stream.next_in = gunzip->input;
    gunzip->stream.avail_in = (uInt)got;
    *is_end = got == 0;
    return GY_OK;
}

static gy_status fail_damaged(const gy_gunzip *gunzip, const gy_source *source)
{
    const char *reason = gunzip->stream.msg != NULL ? gunzip->stream.msg : "unknown reason";
    return gy_fail(GY_FORMAT, "%s: damaged gzip near byte %llu: %s", gy_source_name(source),
                   (unsigned long long)(gy_source_raw_at(source) - gunzip->stream.avail_in),
                   reason);
}

gy_status gy_gunzip_read(gy_gunzip *gunzip, gy_source *source, void *data, size_t wanted,
                         size_t *got)
{
    z_stream *stream = &gunzip->stream;
    size_t done = 0;
    while (done < wanted) {
        bool is_end = false;
        GY_TRY(refill(gunzip, source, &is_end));
        if (is_end && gunzip->is_between && gunzip->has_member) {
            break;
        }
        if (is_end) {
            return gy_fail(GY_FORMAT, "%s: gzip cut short at byte %llu", gy_source_name(source),
                           (unsigned long long)gy_source_raw_at(source));
        }
        const uInt room = (uInt)GY_MIN(wanted - done, (size_t)1 << 30);
        stream->next_out = (Bytef *)data + done;
        stream->avail_out = room;
        gunzip->is_between = false;
        int result = inflate(stream, Z_NO_FLUSH);
        done += room - stream->avail_out;
        if (result == Z_STREAM_END) { /* another member may follow */
            gunzip->is_between = true;
            gunzip->has_member = true;
            GY_ASSERT(inflateReset(stream) == Z_OK);
        } else if (result == Z_MEM_ERROR) {
            return gy_fail(GY_NOMEM, "%s: out of memory expanding gzip",
                           gy_source_name(source));
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            return fail_damaged(gunzip, source);
        }
    }
    *got = done;
    return GY_OK;
}

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
        char beyond = 0; /* at the limit: one byte more is too many */
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

gy_status gy_gzip_expand(const void *data, size_t size_bytes, const char *name,
                         size_t limit_bytes, gy_bytes *out)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_of(data, size_bytes, name, GY_ENCODING_AUTO, &source));
    gy_bytes made = {NULL, 0};
    gy_status status = GY_OK;
    if (!gy_source_is_gzip(source)) {
        status = gy_fail(GY_FORMAT, "%s: not gzip: expected 1f 8b in front", name);
    } else {
        status = expand_all(source, limit_bytes, &made);
    }
    gy_source_close(source);
    if (status < 0) {
        gy_free(made.data);
        return status;
    }
    *out = made;
    return GY_OK;
}
