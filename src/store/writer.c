/* Files that appear atomically: write a temporary file, sync, rename, sync the folder. */
#include "store/store_priv.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { BUFFER_BYTES = 64 << 10, NAME_TRIES = 16, FILE_MODE = 0666 /* minus the umask */ };

struct gy_writer {
    gy_env *env;
    int file;          /* -1: closed */
    bool is_temporary; /* the temporary file exists */
    gy_error error;    /* the first failure */
    char *path, *folder, *temporary;
    size_t used;
    unsigned char buffer[BUFFER_BYTES];
};

/* Sync the folder's entries. */
static gy_status sync_folder(const gy_writer *writer)
{
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    int folder = disk->open(writer->env, writer->folder, O_RDONLY | O_DIRECTORY, 0);
    if (folder < 0) {
        return gy_store_file_fail("open folder", writer->folder, folder);
    }
    int error = disk->sync(writer->env, folder);
    (void)disk->close(writer->env, folder);
    /* file systems that cannot sync folders return EINVAL */
    if (error < 0 && error != -EINVAL) {
        return gy_store_file_fail("sync folder", writer->folder, error);
    }
    return GY_OK;
}

/* Refuse targets that are no regular files, because the rename would replace a device or
 * pipe. */
static gy_status refuse_all_but_files(gy_env *env, const char *path)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    const size_t path_bytes = strlen(path);
    if (path_bytes == 0 || path[path_bytes - 1] == '/') {
        return gy_fail(GY_ARG, "cannot write '%s': expected the name of a file", path);
    }
    int target = disk->open(env, path, O_PATH, 0); /* O_PATH needs no read permission */
    if (target < 0) {
        return GY_OK; /* no such file, or creating the temporary file will report the problem */
    }
    const int64_t size = disk->size(env, target);
    (void)disk->close(env, target);
    if (size == -EINVAL) {
        return gy_fail(
            GY_IO, "cannot write %s: it is a device, pipe or socket, expected a file", path);
    }
    return size < 0 ? gy_store_file_fail("write", path, size) : GY_OK;
}

static gy_status create_temporary(gy_writer *writer)
{
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    const size_t capacity = strlen(writer->folder) + 64;
    writer->temporary = gy_alloc("store.writer", capacity);
    if (writer->temporary == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t chance = writer->env->ops->random(writer->env, GY_CHANCE_DISK);
        snprintf(writer->temporary, capacity, "%s/.gyre-%016llx.tmp", writer->folder,
                 (unsigned long long)chance);
        writer->file =
            disk->open(writer->env, writer->temporary, O_WRONLY | O_CREAT | O_EXCL, FILE_MODE);
        if (writer->file != -EEXIST) {
            break;
        }
    }
    if (writer->file < 0) {
        return gy_store_file_fail("write", writer->path, writer->file);
    }
    writer->is_temporary = true;
    return GY_OK;
}

/* Without a file yet. */
static gy_status new_writer(gy_env *env, const char *path, gy_writer **writer)
{
    gy_writer *made = gy_alloc("store.writer", sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    memset(made, 0, offsetof(gy_writer, buffer));
    made->env = env;
    made->file = -1;
    made->path = gy_copy_text("store.writer", path);
    made->folder = gy_copy_text("store.writer", path);
    if (made->path == NULL || made->folder == NULL) {
        gy_writer_abort(made);
        return GY_NOMEM;
    }
    gy_store_path_cut(made->folder);
    *writer = made;
    return GY_OK;
}

gy_status gy_writer_open(gy_env *env, const char *path, gy_writer **writer)
{
    gy_writer *made = NULL;
    GY_TRY(refuse_all_but_files(env, path));
    GY_TRY(new_writer(env, path, &made));
    gy_status status = create_temporary(made);
    if (status < 0) {
        gy_writer_abort(made);
        return status;
    }
    *writer = made;
    return GY_OK;
}

gy_status gy_writer_open_with(gy_env *env, const char *path, const void *data,
                              size_t size_bytes, gy_writer **writer)
{
    gy_writer *made = NULL;
    GY_TRY(gy_writer_open(env, path, &made));
    gy_status status = gy_writer_add(made, data, size_bytes);
    if (status < 0) {
        gy_writer_abort(made);
        return status;
    }
    *writer = made;
    return GY_OK;
}

static gy_status write_all(gy_writer *writer, const void *data, size_t size_bytes)
{
    const char *from = data;
    while (size_bytes > 0) {
        int64_t written =
            gy_env_disk(writer->env)->write(writer->env, writer->file, from, size_bytes);
        if (written <= 0) { /* 0 would loop forever */
            return gy_store_file_fail("write", writer->path, written == 0 ? -EIO : written);
        }
        from += written;
        size_bytes -= (size_t)written;
    }
    return GY_OK;
}

static gy_status flush(gy_writer *writer)
{
    const size_t used = writer->used;
    writer->used = 0;
    return write_all(writer, writer->buffer, used);
}

static gy_status add(gy_writer *writer, const void *data, size_t size_bytes)
{
    if (size_bytes > BUFFER_BYTES - writer->used) {
        GY_TRY(flush(writer));
        if (size_bytes >= BUFFER_BYTES) {
            return write_all(writer, data, size_bytes);
        }
    }
    if (size_bytes > 0) {
        memcpy(writer->buffer + writer->used, data, size_bytes);
        writer->used += size_bytes;
    }
    return GY_OK;
}

gy_status gy_writer_add(gy_writer *writer, const void *data, size_t size_bytes)
{
    if (writer->error.status < 0) {
        return gy_error_raise(&writer->error);
    }
    return gy_error_keep(&writer->error, add(writer, data, size_bytes));
}

/* Write and sync everything under the temporary name. */
static gy_status settle(gy_writer *writer)
{
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    if (writer->error.status < 0) {
        return gy_error_raise(&writer->error);
    }
    GY_TRY(flush(writer));
    int error = disk->sync(writer->env, writer->file);
    if (error < 0) {
        return gy_store_file_fail("sync", writer->path, error);
    }
    int file = writer->file;
    writer->file = -1;
    error = disk->close(writer->env, file); /* network file systems report write errors here */
    return error < 0 ? gy_store_file_fail("close", writer->path, error) : GY_OK;
}

gy_status gy_writer_finish(gy_writer *writer)
{
    gy_status status = settle(writer);
    if (status == GY_OK) {
        int error =
            gy_env_disk(writer->env)->rename(writer->env, writer->temporary, writer->path);
        if (error < 0) {
            status = gy_store_file_fail("write", writer->path, error);
        } else {
            writer->is_temporary = false;
            status = sync_folder(writer);
        }
    }
    gy_writer_abort(writer);
    return status;
}

gy_status gy_writer_reserve(gy_writer *writer, uint64_t size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    const int error = disk->reserve != NULL
                          ? disk->reserve(writer->env, writer->file, size_bytes)
                          : -EOPNOTSUPP;
    return error < 0
               ? gy_error_keep(&writer->error, gy_store_file_fail("write", writer->path, error))
               : GY_OK;
}

const char *gy_writer_name(const gy_writer *writer)
{
    return gy_store_path_name(writer->temporary);
}

gy_status gy_writer_join(gy_env *env, const char *path, const char *name, gy_writer **writer)
{
    gy_writer *made = NULL;
    GY_ASSERT(strchr(name, '/') == NULL);
    GY_TRY(new_writer(env, path, &made));
    const size_t capacity = strlen(made->folder) + strlen(name) + 2;
    made->temporary = gy_alloc("store.writer", capacity);
    gy_status status = GY_NOMEM;
    if (made->temporary != NULL) {
        snprintf(made->temporary, capacity, "%s/%s", made->folder, name);
        made->file = gy_env_disk(env)->open(env, made->temporary, O_WRONLY, 0);
        status =
            made->file < 0 ? gy_store_file_fail("write", made->temporary, made->file) : GY_OK;
    }
    if (status < 0) {
        gy_writer_abort(made);
        return status;
    }
    *writer = made;
    return GY_OK;
}

static gy_status put(gy_writer *writer, uint64_t offset, const void *data, size_t size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    const char *from = data;
    while (size_bytes > 0) {
        const int64_t written =
            disk->write_at(writer->env, writer->file, from, size_bytes, offset);
        if (written <= 0) {
            return gy_store_file_fail("write", writer->path, written == 0 ? -EIO : written);
        }
        from += written;
        offset += (uint64_t)written;
        size_bytes -= (size_t)written;
    }
    return GY_OK;
}

gy_status gy_writer_put(gy_writer *writer, uint64_t offset, const void *data, size_t size_bytes)
{
    GY_ASSERT(writer->used == 0);
    if (writer->error.status < 0) {
        return gy_error_raise(&writer->error);
    }
    return gy_error_keep(&writer->error, put(writer, offset, data, size_bytes));
}

gy_status gy_writer_leave(gy_writer *writer, bool is_synced)
{
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    GY_ASSERT(!writer->is_temporary);
    gy_status status =
        writer->error.status < 0 ? gy_error_raise(&writer->error) : (gy_status)GY_OK;
    int error = status == GY_OK && is_synced ? disk->sync(writer->env, writer->file) : 0;
    if (error < 0) {
        status = gy_store_file_fail("sync", writer->path, error);
    }
    const int file = writer->file;
    writer->file = -1;
    error = disk->close(writer->env, file);
    if (error < 0 && status == GY_OK) {
        status = gy_store_file_fail("close", writer->path, error);
    }
    gy_writer_abort(writer);
    return status;
}

/* Link the file to its name, which must not exist. When the answer was lost, the call reports
 * a wrong failure, and a link count of two shows that it succeeded (open(2), O_EXCL). */
static gy_status give_name(gy_writer *writer)
{
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    const int error = disk->link(writer->env, writer->temporary, writer->path);
    if (error == 0 || disk->links(writer->env, writer->temporary) == 2) {
        return GY_OK;
    }
    if (error == -EEXIST) {
        return gy_fail(GY_EXISTS, "cannot create %s: it is there already", writer->path);
    }
    if (error == -EPERM || error == -EOPNOTSUPP || error == -ENOSYS) {
        return gy_fail(GY_UNSUPPORTED,
                       "cannot create %s exclusively: its file system has no links (%s)",
                       writer->path, strerrordesc_np(-error));
    }
    return gy_store_file_fail("create", writer->path, error);
}

gy_status gy_writer_create(gy_writer *writer)
{
    gy_status status = settle(writer);
    status = status < 0 ? status : give_name(writer);
    status = status < 0 ? status : sync_folder(writer);
    gy_writer_abort(writer); /* remove the temporary name */
    return status;
}

void gy_writer_abort(gy_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    if (writer->file >= 0) {
        (void)gy_env_disk(writer->env)->close(writer->env, writer->file);
    }
    if (writer->is_temporary) {
        (void)gy_env_disk(writer->env)->unlink(writer->env, writer->temporary);
    }
    gy_free(writer->path);
    gy_free(writer->folder);
    gy_free(writer->temporary);
    gy_free(writer);
}
