/* The common part of all decoders: concatenated members, frames or streams, skippable frames
 * between them, padding after them, and nothing else. */
#include "store/store_priv.h"

#include "base/base.h"
#include "base/lazy.h"

#include <string.h>

enum {
    INPUT_BYTES = 64 << 10,
    /* every readable format is recognisable by so many bytes; bzip2 needs the most */
    FRAME_HEAD_BYTES = 10,
    SKIP_HEAD_BYTES = 8, /* of a skippable frame: magic, size */
};

struct gy_decoder {
    const gy_file_format *format; /* NULL: only skippable frames so far */
    void *state;                  /* state for its ops */
    bool is_between;              /* no member is open */
    bool is_end;                  /* the source below has ended */
    size_t at, size;              /* of the input buffer: the part that is not consumed yet */
    unsigned char input[INPUT_BYTES];
};

gy_status gy_store_late_check(const char *library, const char *purpose)
{
    if (dlopen(library, RTLD_NOW | RTLD_LOCAL) == NULL) { /* the library stays loaded */
        return gy_fail(GY_UNSUPPORTED, "%s is read with %s, which is not there: %s", purpose,
                       library, dlerror());
    }
    return GY_OK;
}

/* Set the decoder's format. */
static gy_status set_format(gy_decoder *decoder, const gy_file_format *format)
{
    decoder->state = gy_alloc_zero("store.decoder", 1, format->ops->state_bytes);
    if (decoder->state == NULL) {
        return GY_NOMEM;
    }
    decoder->format = format;
    /* called now, so that a missing library is reported early */
    return format->ops->begin(decoder->state);
}

gy_status gy_decoder_new(gy_encoding encoding, gy_decoder **decoder)
{
    gy_decoder *made = gy_alloc("store.decoder", sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    memset(made, 0, offsetof(gy_decoder, input));
    made->is_between = true;
    const gy_status status =
        encoding == GY_ENCODING_AUTO ? GY_OK : set_format(made, gy_store_format_of(encoding));
    if (status < 0) {
        gy_decoder_free(made);
        return status;
    }
    *decoder = made;
    return GY_OK;
}

void gy_decoder_free(gy_decoder *decoder)
{
    if (decoder == NULL) {
        return;
    }
    if (decoder->state != NULL) {
        decoder->format->ops->end(decoder->state);
    }
    gy_free(decoder->state);
    gy_free(decoder);
}

uint64_t gy_decoder_ratio(const gy_decoder *decoder)
{
    const gy_file_format *format =
        decoder->format != NULL ? decoder->format : gy_store_format_of(GY_ENCODING_ZSTD);
    return format->ops->ratio_max;
}

/* ---- input ---- */

/* Have `count` bytes in the buffer, or all bytes up to the end. */
static gy_status need(gy_decoder *decoder, gy_source *source, size_t count)
{
    while (decoder->size - decoder->at < count && !decoder->is_end) {
        decoder->size -= decoder->at;
        memmove(decoder->input, decoder->input + decoder->at, decoder->size);
        decoder->at = 0;
        size_t got = 0;
        GY_TRY(gy_source_raw(source, decoder->input + decoder->size,
                             sizeof(decoder->input) - decoder->size, &got));
        decoder->size += got;
        decoder->is_end = got == 0;
    }
    return GY_OK;
}

static size_t left_in(const gy_decoder *decoder)
{
    return decoder->size - decoder->at;
}

/* The file offset of the next byte to consume. */
static unsigned long long place_of(const gy_decoder *decoder, const gy_source *source)
{
    return gy_source_raw_at(source) - left_in(decoder);
}

static const char *name_of(const gy_decoder *decoder)
{
    return decoder->format != NULL ? decoder->format->name : "zstd or lz4";
}

static gy_status fail_cut(const gy_decoder *decoder, const gy_source *source)
{
    return gy_fail(GY_FORMAT, "%s: %s cut short at byte %llu", gy_source_name(source),
                   name_of(decoder), (unsigned long long)gy_source_raw_at(source));
}

/* ---- between members ---- */

static bool may_skip(const gy_decoder *decoder)
{
    return decoder->format == NULL || decoder->format->ops->has_skippable;
}

/* Skip a frame with arbitrary content: magic, size, and so many bytes. */
static gy_status skip_frame(gy_decoder *decoder, gy_source *source)
{
    GY_TRY(need(decoder, source, SKIP_HEAD_BYTES));
    if (left_in(decoder) < SKIP_HEAD_BYTES) {
        return fail_cut(decoder, source);
    }
    const unsigned char *at = decoder->input + decoder->at + 4;
    uint64_t left = SKIP_HEAD_BYTES + ((uint64_t)at[0] | (uint64_t)at[1] << 8 |
                                       (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24);
    while (left > 0) {
        GY_TRY(need(decoder, source, 1));
        if (left_in(decoder) == 0) {
            return fail_cut(decoder, source);
        }
        const size_t some = (size_t)GY_MIN(left, (uint64_t)left_in(decoder));
        decoder->at += some;
        left -= some;
    }
    return GY_OK;
}

/* Skip NUL bytes, which tapes and fixed block sizes append. */
static gy_status skip_padding(gy_decoder *decoder, gy_source *source)
{
    uint64_t count = 0;
    for (;;) {
        GY_TRY(need(decoder, source, 1));
        if (left_in(decoder) == 0 || decoder->input[decoder->at] != 0) {
            break;
        }
        decoder->at++;
        count++;
    }
    if (count % decoder->format->ops->padding != 0) {
        return gy_fail(
            GY_FORMAT,
            "%s: damaged %s near byte %llu: %llu NUL bytes behind a member: expected "
            "a multiple of %zu",
            gy_source_name(source), name_of(decoder), place_of(decoder, source),
            (unsigned long long)count, decoder->format->ops->padding);
    }
    return GY_OK;
}

static gy_status fail_tail(const gy_decoder *decoder, const gy_source *source)
{
    const unsigned char *at = decoder->input + decoder->at;
    const size_t left = left_in(decoder);
    return gy_fail(GY_FORMAT, "%s: bytes that are no %s (%02x%s) behind it, at byte %llu",
                   gy_source_name(source), name_of(decoder), at[0], left > 1 ? " ..." : "",
                   place_of(decoder, source));
}

/* Examine what follows a member: another one (*has), the end, or an error. */
static gy_status find_member(gy_decoder *decoder, gy_source *source, bool *has)
{
    *has = false;
    for (;;) {
        GY_TRY(need(decoder, source, FRAME_HEAD_BYTES));
        const unsigned char *at = decoder->input + decoder->at;
        const size_t left = left_in(decoder);
        if (left == 0) {
            return GY_OK;
        }
        const gy_file_format *found = gy_store_format_find(at, left);
        if (may_skip(decoder) && gy_store_format_is_skippable(at, left)) {
            GY_TRY(skip_frame(decoder, source));
        } else if (decoder->format != NULL && decoder->format->ops->padding > 0 && at[0] == 0) {
            GY_TRY(skip_padding(decoder, source));
        } else if (found != NULL && found == decoder->format) {
            *has = true;
            return found->ops->begin(decoder->state);
        } else if (decoder->format == NULL && found != NULL && found->ops != NULL &&
                   found->ops->has_skippable) {
            *has = true;
            return set_format(decoder, found);
        } else {
            return fail_tail(decoder, source);
        }
    }
}

/* ---- reading ---- */

static gy_status fail_step(const gy_decoder *decoder, const gy_source *source, gy_status status,
                           const char *reason)
{
    const char *path = gy_source_name(source), *name = name_of(decoder);
    if (status == GY_NOMEM) {
        return gy_fail(GY_NOMEM, "%s: out of memory expanding %s", path, name);
    }
    if (status == GY_LIMIT) {
        return gy_fail(GY_LIMIT, "%s: cannot expand %s: %s", path, name, reason);
    }
    return gy_fail(GY_FORMAT, "%s: damaged %s near byte %llu: %s", path, name,
                   place_of(decoder, source), reason);
}

/* Decompress some bytes of the open member. */
static gy_status expand_some(gy_decoder *decoder, gy_source *source, void *data, size_t wanted,
                             size_t *got)
{
    GY_TRY(need(decoder, source, 1));
    gy_decode_io io = {.in = decoder->input + decoder->at,
                       .in_bytes = left_in(decoder),
                       .out = data,
                       .out_bytes = wanted,
                       .reason = "unknown reason"};
    bool is_whole = false;
    const gy_status status = decoder->format->ops->step(decoder->state, &io, &is_whole);
    const size_t taken = left_in(decoder) - io.in_bytes;
    decoder->at += taken;
    *got = wanted - io.out_bytes;
    if (status < 0) {
        return fail_step(decoder, source, status, io.reason);
    }
    decoder->is_between = is_whole;
    if (!is_whole && taken == 0 &&
        *got == 0) { /* the decoder has no buffered output, and the member continues */
        return decoder->is_end ? fail_cut(decoder, source)
                               : fail_step(decoder, source, GY_FORMAT, "it ends early");
    }
    return GY_OK;
}

gy_status gy_decoder_read(gy_decoder *decoder, gy_source *source, void *data, size_t wanted,
                          size_t *got)
{
    size_t done = 0;
    while (done < wanted) {
        bool has = true;
        if (decoder->is_between) {
            GY_TRY(find_member(decoder, source, &has));
        }
        if (!has) {
            break;
        }
        size_t more = 0;
        decoder->is_between = false;
        GY_TRY(expand_some(decoder, source, (char *)data + done, wanted - done, &more));
        done += more;
    }
    *got = done;
    return GY_OK;
}
