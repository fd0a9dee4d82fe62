/* Sources: a byte stream from a file or from memory, decompressed on request. */
#include "store/store_priv.h"

#include "base/base.h"

#include <string.h>

struct gy_source {
    const gy_source_ops *ops; /* NULL: a file or memory */
    void *arg;
    gy_env *env;               /* NULL: memory */
    const unsigned char *data; /* for memory; borrowed */
    int file;
    gy_stamp stamp; /* version of the file when it was opened */
    /* size of the raw bytes, and how many were read */
    uint64_t size_bytes, raw_at;
    /* first bytes, read in advance to recognise the format */
    unsigned char head[GY_FORMAT_HEAD_BYTES];
    size_t head_at, head_count;
    gy_decoder *decoder; /* NULL: plain */
    char *name;
};

/* Bytes appended after the open are not part of the source. Files in /proc have size 0, which
 * means nothing. */
static size_t limit_to_stamp(const gy_source *source, size_t wanted)
{
    const uint64_t at = source->raw_at + (source->head_count - source->head_at);
    return source->stamp.machine == 0 || source->stamp.disk.size_bytes == 0
               ? wanted
               : (size_t)GY_MIN((uint64_t)wanted,
                                source->stamp.disk.size_bytes -
                                    GY_MIN(at, source->stamp.disk.size_bytes));
}

/* Read raw bytes, excluding the head. */
static gy_status take(gy_source *source, void *data, size_t wanted, size_t *got)
{
    if (source->ops != NULL) {
        return source->ops->read(source->arg, data, wanted, got);
    }
    if (source->env == NULL) {
        uint64_t at = source->raw_at + (source->head_count - source->head_at);
        *got = (size_t)GY_MIN((uint64_t)wanted, source->size_bytes - at);
        if (*got > 0) {
            memcpy(data, source->data + at, *got);
        }
        return GY_OK;
    }
    size_t done = 0;
    wanted = limit_to_stamp(source, wanted);
    while (done < wanted) {
        int64_t size =
            gy_env_disk(source->env)
                ->read(source->env, source->file, (char *)data + done, wanted - done);
        if (size < 0) {
            return gy_store_file_fail("read", source->name, size);
        }
        if (size == 0) {
            break;
        }
        done += (size_t)size;
    }
    *got = done;
    return gy_stamp_check(source->env, source->file, source->name, &source->stamp);
}

gy_status gy_source_raw(gy_source *source, void *data, size_t wanted, size_t *got)
{
    size_t ahead = GY_MIN(wanted, source->head_count - source->head_at);
    if (ahead > 0) {
        memcpy(data, source->head + source->head_at, ahead);
        source->head_at += ahead;
        source->raw_at += ahead;
    }
    size_t rest = 0;
    GY_TRY(take(source, (char *)data + ahead, wanted - ahead, &rest));
    source->raw_at += rest;
    *got = ahead + rest;
    return GY_OK;
}

uint64_t gy_source_raw_at(const gy_source *source)
{
    return source->raw_at;
}

/* Recognise the format by the first bytes, and choose the decoder. */
static gy_status choose_decoder(gy_source *source, gy_encoding encoding)
{
    if (encoding == GY_ENCODING_PLAIN) {
        return GY_OK;
    }
    size_t got = 0;
    GY_TRY(take(source, source->head, sizeof(source->head), &got));
    source->head_count = got;
    const gy_file_format *wanted = gy_store_format_of(encoding),
                         *found = gy_store_format_find(source->head, got);
    if (wanted == NULL) {
        GY_TRY(gy_store_format_check(source->name, source->head, got));
        return found != NULL ? gy_decoder_new(found->encoding, &source->decoder) : GY_OK;
    }
    if (found != wanted &&
        !(wanted->ops->has_skippable && gy_store_format_is_skippable(source->head, got))) {
        return gy_fail(GY_FORMAT, "%s: not %s: expected %s in front", source->name,
                       wanted->name, wanted->advice);
    }
    return gy_decoder_new(encoding, &source->decoder);
}

static void close_below(const gy_source *source)
{
    if (source->ops != NULL) {
        source->ops->close(source->arg);
    } else if (source->env != NULL) {
        (void)gy_env_disk(source->env)->close(source->env, source->file);
    }
}

static gy_status new_source(gy_source like, const char *name, gy_encoding encoding,
                            gy_source **source)
{
    gy_source *made = gy_alloc("store.source", sizeof(*made));
    char *copy = gy_copy_text("store.source", name);
    if (made == NULL || copy == NULL) {
        close_below(&like);
        gy_free(made);
        gy_free(copy);
        return GY_NOMEM;
    }
    *made = like;
    made->name = copy;
    gy_status status = choose_decoder(made, encoding);
    if (status < 0) {
        gy_source_close(made);
        return status;
    }
    *source = made;
    return GY_OK;
}

gy_status gy_source_open(gy_env *env, const char *path, gy_encoding encoding,
                         gy_source **source)
{
    gy_source like = {.env = env, .file = -1};
    GY_TRY(gy_store_file_open(env, path, &like.file, &like.size_bytes));
    const gy_status status = gy_stamp_take(env, like.file, path, &like.stamp);
    if (status < 0) {
        close_below(&like);
        return status;
    }
    return new_source(like, path, encoding, source);
}

gy_status gy_source_of(const void *data, size_t size_bytes, const char *name,
                       gy_encoding encoding, gy_source **source)
{
    gy_source like = {.data = data, .size_bytes = size_bytes, .file = -1};
    return new_source(like, name, encoding, source);
}

gy_status gy_source_over(const gy_source_ops *ops, void *arg, uint64_t size_bytes,
                         const char *name, gy_encoding encoding, gy_source **source)
{
    gy_source like = {.ops = ops, .arg = arg, .size_bytes = size_bytes, .file = -1};
    return new_source(like, name, encoding, source);
}

void gy_source_close(gy_source *source)
{
    if (source == NULL) {
        return;
    }
    close_below(source);
    gy_decoder_free(source->decoder);
    gy_free(source->name);
    gy_free(source);
}

gy_status gy_source_read(gy_source *source, void *data, size_t wanted, size_t *got)
{
    return source->decoder != NULL ? gy_decoder_read(source->decoder, source, data, wanted, got)
                                   : gy_source_raw(source, data, wanted, got);
}

uint64_t gy_source_bound(const gy_source *source)
{
    uint64_t bound = source->size_bytes;
    const uint64_t ratio = source->decoder != NULL ? gy_decoder_ratio(source->decoder) : 1;
    if (__builtin_mul_overflow(bound, ratio, &bound)) {
        bound = UINT64_MAX;
    }
    return bound;
}

const char *gy_source_name(const gy_source *source)
{
    return source->name;
}

bool gy_source_is_packed(const gy_source *source)
{
    return source->decoder != NULL;
}
