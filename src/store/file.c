/* Whole files: reads and maps them, and reports why one cannot be opened. */
#include "store/store_priv.h"

#include "base/base.h"

#include <gyre/data.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

gy_status gy_store_file_fail(const char *verb, const char *path, int64_t error)
{
    gy_status status = GY_IO;
    if (error == -ENOENT) {
        status = GY_NOTFOUND;
    } else if (error == -ENOMEM) {
        status = GY_NOMEM;
    }
    const char *text = strerrordesc_np((int)-error);
    if (error == -EISDIR) {
        text = "it is a folder, expected a file";
    } else if (error == -ESTALE) {
        text = "another host removed or replaced it meanwhile (stale file handle)";
    }
    return gy_fail(status, "cannot %s %s: %s", verb, path,
                   text != NULL ? text : "unknown error");
}

const char *gy_store_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

void gy_store_path_cut(char *path)
{
    GY_ASSERT(path[0] != '\0');
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        memcpy(path, ".", 2);
    } else {
        slash[slash == path] = '\0';
    }
}

gy_status gy_store_file_open(gy_env *env, const char *path, int *file, uint64_t *size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    /* without O_NONBLOCK, opening a named pipe would wait for its writer */
    int opened = disk->open(env, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (opened < 0) {
        return gy_store_file_fail("open", path, opened);
    }
    int64_t size = disk->size(env, opened);
    if (size < 0) {
        (void)disk->close(env, opened);
        if (size == -EINVAL) {
            return gy_fail(
                GY_IO, "cannot read %s: it is a device, pipe or socket, expected a file", path);
        }
        return gy_store_file_fail("read", path, size);
    }
    *file = opened;
    *size_bytes = (uint64_t)size;
    return GY_OK;
}

gy_status gy_store_file_read(gy_env *env, const char *path, size_t limit_bytes, gy_bytes *out)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_open(env, path, GY_ENCODING_PLAIN, &source));
    const uint64_t size = gy_source_bound(source);
    gy_status status = GY_OK;
    char *data = NULL;
    size_t got = 0;
    if (size > limit_bytes) {
        status = gy_fail(GY_LIMIT, "%s has %llu bytes, expected at most %zu", path,
                         (unsigned long long)size, limit_bytes);
    } else {
        data = gy_alloc("store.file", (size_t)size + 1);
        status = data == NULL ? GY_NOMEM : gy_source_read(source, data, (size_t)size, &got);
    }
    gy_source_close(source);
    if (status < 0 || data == NULL) {
        gy_free(data);
        return status;
    }
    data[got] = '\0'; /* fewer bytes when the file was truncated meanwhile */
    *out = (gy_bytes){data, got};
    return GY_OK;
}

gy_status gy_store_file_write(gy_env *env, const char *path, const void *data,
                              size_t size_bytes)
{
    gy_writer *writer = NULL;
    GY_TRY(gy_writer_open_with(env, path, data, size_bytes, &writer));
    return gy_writer_finish(writer);
}

gy_status gy_save_file(const char *path, const void *data, size_t size_bytes)
{
    return gy_store_file_write(gy_env_real(), path, data, size_bytes);
}

gy_status gy_store_file_map(const char *path, gy_mapping *out)
{
    gy_env *env = gy_env_real();
    int file = -1;
    uint64_t size = 0;
    GY_TRY(gy_store_file_open(env, path, &file, &size));
    void *data = NULL;
    static char empty[1];
    if (size > 0) {
        data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    int error = errno;
    (void)gy_disk_real.close(env, file);
    if (data == MAP_FAILED) {
        return gy_store_file_fail("map", path, -error);
    }
    *out = (gy_mapping){size > 0 ? data : empty, (size_t)size};
    return GY_OK;
}

void gy_store_file_unmap(gy_mapping *mapping)
{
    if (mapping->size_bytes > 0) {
        void *data = NULL;
        memcpy(&data, &mapping->data, sizeof(data)); /* drops the const */
        GY_ASSERT(munmap(data, mapping->size_bytes) == 0);
    }
    *mapping = (gy_mapping){NULL, 0};
}
