/* Runs: unnamed files, written once and read once. */
#include "mapreduce/sort.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { NAME_TRIES = 16, FILE_MODE = 0600 };

struct gy_sort_run {
    gy_env *env;
    int writer, reader; /* -1: closed; each descriptor has its own file offset */
    char *buffer;
    size_t capacity, used;
    uint64_t size_bytes, read_bytes; /* written; read so far */
    uint64_t sum;                    /* checksum of the bytes written */
    gy_hash_stream hash;
    char *folder; /* for messages */
};

static gy_status fail(const gy_sort_run *run, const char *verb, int64_t error)
{
    const char *text = strerrordesc_np((int)-error);
    return gy_fail(error == -ENOENT   ? GY_NOTFOUND
                   : error == -ENOMEM ? GY_NOMEM
                                      : GY_IO,
                   "cannot %s a run in %s: %s", verb, run->folder,
                   text != NULL ? text : "unknown error");
}

/* Open both descriptors and unlink the name. */
static gy_status create(gy_sort_run *run)
{
    const gy_disk_ops *disk = gy_env_disk(run->env);
    const size_t capacity = strlen(run->folder) + 48;
    char *path = gy_alloc("mapreduce.run", capacity);
    if (path == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < NAME_TRIES; i++) {
        const uint64_t chance = run->env->ops->random(run->env, GY_CHANCE_DISK);
        snprintf(path, capacity, "%s/.gyre-%016llx.run", run->folder,
                 (unsigned long long)chance);
        run->writer = disk->open(run->env, path, O_WRONLY | O_CREAT | O_EXCL, FILE_MODE);
        if (run->writer != -EEXIST) {
            break;
        }
    }
    gy_status status = GY_OK;
    if (run->writer < 0) {
        status = fail(run, "create", run->writer);
    } else {
        run->reader = disk->open(run->env, path, O_RDONLY, 0);
        const int error = disk->unlink(run->env, path);
        if (run->reader < 0 || error < 0) {
            status = fail(run, "create", run->reader < 0 ? run->reader : error);
        }
    }
    gy_free(path);
    return status;
}

gy_status gy_sort_run_new(gy_env *env, const char *folder, char *buffer, size_t buffer_bytes,
                          gy_sort_run **run)
{
    GY_ASSERT(buffer_bytes > 0);
    gy_sort_run *made = gy_alloc_zero("mapreduce.run", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->writer = made->reader = -1;
    made->buffer = buffer;
    made->capacity = buffer_bytes;
    made->folder = gy_copy_text("mapreduce.run", folder);
    gy_hash_begin(&made->hash);
    const gy_status status = made->folder == NULL ? GY_NOMEM : create(made);
    if (status != GY_OK) {
        gy_sort_run_free(made);
        return status;
    }
    *run = made;
    return GY_OK;
}

static gy_status write_all(gy_sort_run *run, const char *data, size_t size_bytes)
{
    gy_hash_feed(&run->hash, data, size_bytes);
    run->size_bytes += size_bytes;
    while (size_bytes > 0) {
        const int64_t written =
            gy_env_disk(run->env)->write(run->env, run->writer, data, size_bytes);
        if (written <= 0) { /* 0 would loop forever */
            return fail(run, "write", written == 0 ? -EIO : written);
        }
        data += written;
        size_bytes -= (size_t)written;
    }
    return GY_OK;
}

gy_status gy_sort_run_add(gy_sort_run *run, const void *data, size_t size_bytes)
{
    if (size_bytes > run->capacity - run->used) {
        const size_t used = run->used;
        run->used = 0;
        GY_TRY(write_all(run, run->buffer, used));
        if (size_bytes >= run->capacity) {
            return write_all(run, data, size_bytes);
        }
    }
    memcpy(run->buffer + run->used, data, size_bytes);
    run->used += size_bytes;
    return GY_OK;
}

gy_status gy_sort_run_seal(gy_sort_run *run)
{
    GY_TRY(write_all(run, run->buffer, run->used));
    run->buffer = NULL;
    run->capacity = 0;
    const int error = gy_env_disk(run->env)->close(run->env, run->writer);
    run->writer = -1;
    if (error < 0) {
        return fail(run, "write", error);
    }
    run->sum = gy_hash_end(&run->hash);
    gy_hash_begin(&run->hash);
    return GY_OK;
}

void gy_sort_run_read(gy_sort_run *run, char *buffer, size_t buffer_bytes)
{
    GY_ASSERT(run->writer < 0 && buffer_bytes > 0);
    run->buffer = buffer;
    run->capacity = buffer_bytes;
}

gy_status gy_sort_run_fill(void *arg, const void **data, size_t *size_bytes)
{
    gy_sort_run *run = arg;
    *size_bytes = 0;
    if (run->read_bytes == run->size_bytes) {
        return GY_OK;
    }
    const int64_t got =
        gy_env_disk(run->env)->read(run->env, run->reader, run->buffer, run->capacity);
    if (got < 0) {
        return fail(run, "read", got);
    }
    gy_hash_feed(&run->hash, run->buffer, (size_t)got);
    run->read_bytes += (uint64_t)got;
    const bool is_end = run->read_bytes == run->size_bytes;
    if (got == 0 || run->read_bytes > run->size_bytes ||
        (is_end && gy_hash_end(&run->hash) != run->sum)) {
        return gy_fail(GY_IO, "a run in %s was changed since it was written, byte %llu of %llu",
                       run->folder, (unsigned long long)run->read_bytes,
                       (unsigned long long)run->size_bytes);
    }
    *data = run->buffer;
    *size_bytes = (size_t)got;
    return GY_OK;
}

void gy_sort_run_free(gy_sort_run *run)
{
    if (run == NULL) {
        return;
    }
    const gy_disk_ops *disk = gy_env_disk(run->env);
    if (run->writer >= 0) {
        /* an error no longer matters, since the file is discarded */
        (void)disk->close(run->env, run->writer);
    }
    if (run->reader >= 0) {
        (void)disk->close(run->env, run->reader); /* this descriptor only read */
    }
    gy_free(run->folder);
    gy_free(run);
}
