/* A snapshot's files: of parts, and the manifest that makes it whole. */
#include "ps/snapshot/snapshot.h"

#include "base/disk.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t part_mark = 0x31414e5350535947; /* "GYSPSNA1" */

enum { PATH_BYTES = 4096, WORDS = GY_PS_SNAPSHOT_HEAD_BYTES / 8 };

static gy_status path_of(char out[PATH_BYTES], const char *folder, const char *name,
                         const char *file)
{
    int size = snprintf(out, PATH_BYTES, "%s/%s/%s", folder, name, file);
    return size < PATH_BYTES ? GY_OK : gy_fail(GY_ARG, "folder %.80s...: too long", folder);
}

static gy_status part_path(char out[PATH_BYTES], const char *folder, const char *name,
                           uint32_t part)
{
    char file[32];
    snprintf(file, sizeof(file), "part-%u", part);
    return path_of(out, folder, name, file);
}

/* It is there after a power failure, too. */
static gy_status make_folder(gy_env *env, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    const gy_disk_ops *disk = gy_env_disk(env);
    GY_TRY(path_of(path, folder, name, ""));
    int error = gy_disk_make_folders(path);
    int above = error == 0 ? disk->open(env, folder, O_RDONLY | O_DIRECTORY, 0) : error;
    if (above < 0) {
        return gy_store_file_fail("make", path, above);
    }
    error = disk->sync(env, above);
    (void)disk->close(env, above);
    /* file systems that cannot sync folders return EINVAL */
    return error == 0 || error == -EINVAL ? GY_OK : gy_store_file_fail("sync", folder, error);
}

/* ---- Writing ---- */

gy_status gy_ps_snapshot_write(gy_env *env, const char *folder, const char *name,
                               const gy_ps_snapshot_part *of, const gy_text *image,
                               uint64_t *hash)
{
    char path[PATH_BYTES];
    gy_writer *writer = NULL;
    uint64_t sum = gy_hash(image->data, image->size_bytes, of->id);
    uint64_t head[WORDS] = {part_mark, of->id, of->cluster, of->part, image->size_bytes, sum};
    head[WORDS - 1] = gy_hash(head, sizeof(head) - sizeof(head[0]), part_mark);
    GY_TRY(part_path(path, folder, name, of->part));
    GY_TRY(make_folder(env, folder, name));
    GY_TRY(gy_writer_open(env, path, &writer));
    gy_status status = gy_writer_add(writer, head, sizeof(head));
    if (status == GY_OK) {
        status = gy_writer_add(writer, image->data, image->size_bytes);
    }
    gy_status finished = gy_writer_finish(writer); /* returns a failure of before */
    GY_ASSERT(status == GY_OK || finished < 0);
    GY_TRY(finished);
    *hash = sum;
    return GY_OK;
}

static gy_status read_manifest(gy_env *env, const char *folder, const char *name,
                               Gy__Ps__Snapshot **snapshot)
{
    char path[PATH_BYTES];
    gy_bytes bytes;
    GY_TRY(path_of(path, folder, name, "manifest"));
    GY_TRY(gy_store_file_read(env, path, GY_PS_MANIFEST_BYTES_MAX, &bytes));
    gy_status status = gy_ps_manifest_unpack(bytes.data, bytes.size_bytes, snapshot);
    gy_free(bytes.data);
    return status;
}

gy_status gy_ps_snapshot_check_free(gy_env *env, const char *folder, const char *name,
                                    uint64_t id)
{
    Gy__Ps__Snapshot *there = NULL;
    gy_status status = read_manifest(env, folder, name, &there);
    if (status == GY_NOTFOUND) {
        return GY_OK;
    }
    GY_TRY(status);
    bool is_same = there->id == id;
    gy_ps_manifest_free(there);
    return is_same ? GY_OK
                   : gy_fail(GY_EXISTS, "folder %s has a snapshot %s already", folder, name);
}

gy_status gy_ps_snapshot_finish(gy_env *env, const char *folder,
                                const Gy__Ps__Snapshot *snapshot)
{
    char path[PATH_BYTES];
    gy_text text = {.data = NULL};
    GY_TRY(gy_ps_snapshot_check_free(env, folder, snapshot->name, snapshot->id));
    GY_TRY(path_of(path, folder, snapshot->name, "manifest"));
    gy_status status = gy_ps_manifest_pack(snapshot, &text);
    if (status == GY_OK) {
        status = gy_store_file_write(env, path, text.data, text.size_bytes);
    }
    gy_text_free(&text);
    return status;
}

gy_status gy_ps_snapshot_remove(gy_env *env, const char *folder, const char *name,
                                uint32_t part)
{
    char path[PATH_BYTES];
    struct stat there;
    GY_TRY(path_of(path, folder, name, "manifest"));
    if (stat(path, &there) == 0) {
        return GY_OK;
    }
    GY_TRY(part_path(path, folder, name, part));
    int error = gy_env_disk(env)->unlink(env, path);
    if (error < 0 && error != -ENOENT) {
        return gy_store_file_fail("remove", path, error);
    }
    GY_TRY(path_of(path, folder, name, ""));
    (void)rmdir(path); /* others may have files there */
    return GY_OK;
}

/* ---- Reading ---- */

gy_status gy_ps_snapshot_judge(const Gy__Ps__Snapshot *snapshot, uint32_t part,
                               const char *name, const void *data, size_t size_bytes)
{
    uint64_t head[WORDS] = {0};
    GY_ASSERT(part < snapshot->n_files);
    const Gy__Ps__SnapshotFile *of = snapshot->files[part];
    if (size_bytes >= sizeof(head)) {
        memcpy(head, data, sizeof(head));
    }
    if (head[0] != part_mark ||
        head[WORDS - 1] != gy_hash(head, sizeof(head) - sizeof(head[0]), part_mark)) {
        return gy_fail(GY_FORMAT, "%s: not a part of a snapshot, or its beginning is damaged",
                       name);
    }
    if (head[1] != snapshot->id || head[2] != snapshot->cluster || head[3] != part) {
        return gy_fail(GY_MISMATCH,
                       "%s: part %llu of snapshot %llx of cluster %llx: expected part %u of "
                       "%llx of %llx",
                       name, (unsigned long long)head[3], (unsigned long long)head[1],
                       (unsigned long long)head[2], part, (unsigned long long)snapshot->id,
                       (unsigned long long)snapshot->cluster);
    }
    if (head[4] != size_bytes - sizeof(head) || of->size_bytes != head[4]) {
        return gy_fail(GY_FORMAT, "%s: %zu bytes behind its beginning: expected %llu", name,
                       size_bytes - sizeof(head), (unsigned long long)of->size_bytes);
    }
    const uint8_t *image = (const uint8_t *)data + sizeof(head);
    uint64_t sum = gy_hash(image, size_bytes - sizeof(head), snapshot->id);
    return sum == head[5] && sum == of->hash
               ? GY_OK
               : gy_fail(GY_FORMAT, "%s: its checksum is %llx: expected %llx", name,
                         (unsigned long long)sum, (unsigned long long)of->hash);
}

gy_status gy_ps_snapshot_read(gy_env *env, const char *folder, const Gy__Ps__Snapshot *snapshot,
                              uint32_t part, gy_bytes *file)
{
    char path[PATH_BYTES];
    GY_ASSERT(part < snapshot->n_files);
    size_t limit = (size_t)snapshot->files[part]->size_bytes + GY_PS_SNAPSHOT_HEAD_BYTES;
    GY_TRY(part_path(path, folder, snapshot->name, part));
    GY_TRY(gy_store_file_read(env, path, limit, file));
    gy_status status = gy_ps_snapshot_judge(snapshot, part, path, file->data, file->size_bytes);
    if (status < 0) {
        gy_free(file->data);
        *file = (gy_bytes){.data = NULL};
    }
    return status;
}
