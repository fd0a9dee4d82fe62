/* Sources: bytes in order from a file or from memory, gzip and zstd expanded where asked for.
 */
#include "store/store_priv.h"

#include "base/base.h"

#include <string.h>

enum {
    MAGIC_BYTES = 4, /* zstd's; gzip has two */
    DEFLATE_MAX_RATIO = 1032,
    ZSTD_MAX_RATIO = 1 << 15, /* a block of 128 KiB in 4 bytes */
};

struct gy_source {
    const gy_source_ops *ops; /* NULL: a file or memory */
    void *arg;
    gy_env *env;               /* NULL: memory */
    const unsigned char *data; /* memory, borrowed */
    int file;
    uint64_t size_bytes, raw_at;     /* raw bytes in all, and those taken */
    unsigned char head[MAGIC_BYTES]; /* read ahead to see the magic */
    size_t head_at, head_count;
    gy_gunzip *gunzip; /* both NULL: plain */
    gy_unzstd *unzstd;
    char *name;
};

/* Bytes from below, without the head. */
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
    while (done < wanted) {
        int64_t size =
            gy_env_disk(source->env)
                ->read(source->env, source->file, (char *)data + done, wanted - done);
        if (size < 0) {
            return gy_file_fail("read", source->name, size);
        }
        if (size == 0) {
            break;
        }
        done += (size_t)size;
    }
    *got = done;
    return GY_OK;
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

bool gy_encoding_is_gzip(const void *data, size_t size_bytes)
{
    return size_bytes >= 2 && memcmp(data, "\x1f\x8b", 2) == 0;
}

bool gy_encoding_is_zstd(const void *data, size_t size_bytes)
{
    return size_bytes >= MAGIC_BYTES && memcmp(data, "\x28\xb5\x2f\xfd", MAGIC_BYTES) == 0;
}

/* Look at the first bytes and choose the decoder. */
static gy_status choose_decoder(gy_source *source, gy_encoding encoding)
{
    if (encoding == GY_ENCODING_PLAIN) {
        return GY_OK;
    }
    size_t got = 0;
    GY_TRY(take(source, source->head, sizeof(source->head), &got));
    source->head_count = got;
    if (gy_encoding_is_gzip(source->head, got)) {
        return gy_gunzip_new(&source->gunzip);
    }
    return gy_encoding_is_zstd(source->head, got) ? gy_unzstd_new(&source->unzstd) : GY_OK;
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
    GY_TRY(gy_file_open(env, path, &like.file, &like.size_bytes));
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
    gy_gunzip_free(source->gunzip);
    gy_unzstd_free(source->unzstd);
    gy_free(source->name);
    gy_free(source);
}

gy_status gy_source_read(gy_source *source, void *data, size_t wanted, size_t *got)
{
    if (source->gunzip != NULL) {
        return gy_gunzip_read(source->gunzip, source, data, wanted, got);
    }
    if (source->unzstd != NULL) {
        return gy_unzstd_read(source->unzstd, source, data, wanted, got);
    }
    return gy_source_raw(source, data, wanted, got);
}

uint64_t gy_source_bound(const gy_source *source)
{
    uint64_t bound = source->size_bytes;
    const uint64_t ratio = source->gunzip != NULL   ? DEFLATE_MAX_RATIO
                           : source->unzstd != NULL ? ZSTD_MAX_RATIO
                                                    : 1;
    if (__builtin_mul_overflow(bound, ratio, &bound)) {
        bound = UINT64_MAX;
    }
    return bound;
}

const char *gy_source_name(const gy_source *source)
{
    return source->name;
}

bool gy_source_is_gzip(const gy_source *source)
{
    return source->gunzip != NULL;
}
