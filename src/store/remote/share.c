/*
 * Folders that several hosts mount. NFS guarantees that an open sees what was closed before
 * (close-to-open), that a rename on the server is atomic, and that link(2) fails when the name
 * exists; the answer to a successful link may be lost.
 *
 * Source: open(2), O_EXCL; RFC 7530 (NFS 4), RFC 1813 (NFS 3); statfs(2) and linux/magic.h.
 */
#include "store/remote/remote_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statfs.h>

static const struct {
    uint32_t magic;
    gy_share share;
} kinds[] = {
    {0xef53, {"ext", false, true}},         {0x58465342, {"xfs", false, true}},
    {0x9123683e, {"btrfs", false, true}},   {0x2fc12fc1, {"zfs", false, true}},
    {0xf2f52010, {"f2fs", false, true}},    {0x01021994, {"tmpfs", false, true}},
    {0x794c7630, {"overlay", false, true}}, {0x858458f6, {"ramfs", false, true}},
    {0x6969, {"nfs", true, true}},          {0x0bd00bd0, {"lustre", true, true}},
    {0x47504653, {"gpfs", true, true}},     {0x00c36400, {"ceph", true, true}},
    {0x01161970, {"gfs2", true, true}},     {0x7461636f, {"ocfs2", true, true}},
    {0x517b, {"smb", true, false}},         {0xff534d42, {"cifs", true, false}},
    {0xfe534d42, {"smb2", true, false}},    {0x5346414f, {"afs", true, false}},
    {0x01021997, {"9p", true, false}},      {0x65735546, {"fuse", true, false}},
};

gy_status gy_share_look(const char *folder, gy_share *share)
{
    struct statfs facts;
    int failed = 0;
    do {
        failed = statfs(folder, &facts);
    } while (failed != 0 && errno == EINTR);
    if (failed != 0) {
        return gy_store_file_fail("look at", folder, -errno);
    }
    *share = (gy_share){"unknown", true, false};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].magic == (uint32_t)facts.f_type) {
            *share = kinds[i].share;
        }
    }
    return GY_OK;
}

gy_status gy_share_create(gy_env *env, const char *path, const void *data, size_t size_bytes)
{
    gy_writer *writer = NULL;
    GY_TRY(gy_writer_open_with(env, path, data, size_bytes, &writer));
    return gy_writer_create(writer);
}

/* Sync a file, or the folder that contains a path. */
static gy_status sync_path(gy_env *env, const char *path, bool is_folder)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    char *name = gy_copy_text("store.share", path);
    if (name == NULL) {
        return GY_NOMEM;
    }
    if (is_folder) {
        gy_store_path_cut(name);
    }
    const int file = disk->open(env, name, is_folder ? O_RDONLY | O_DIRECTORY : O_RDONLY, 0);
    int error = file < 0 ? file : disk->sync(env, file);
    if (file >= 0) {
        (void)disk->close(env, file);
    }
    /* some file systems cannot sync folders */
    error = is_folder && error == -EINVAL ? 0 : error;
    const gy_status status = error < 0 ? gy_store_file_fail("sync", name, error) : GY_OK;
    gy_free(name);
    return status;
}

gy_status gy_share_rename(gy_env *env, const char *from, const char *to)
{
    if (from[0] == '\0' || to[0] == '\0') {
        return gy_fail(GY_ARG, "cannot rename '%s' to '%s': expected names of files", from, to);
    }
    GY_TRY(sync_path(env, from, false));
    const int error = gy_env_disk(env)->rename(env, from, to);
    if (error < 0) {
        return gy_store_file_fail("rename", from, error);
    }
    GY_TRY(sync_path(env, to, true));
    return sync_path(env, from, true);
}

gy_status gy_share_read(gy_env *env, const char *path, size_t limit_bytes, gy_bytes *out)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    char *data = NULL;
    size_t used = 0;
    int64_t error = -ESTALE;
    for (int i = 0; i < 2 && error == -ESTALE; i++) { /* a new open finds the current file */
        int file = -1;
        uint64_t size = 0;
        used = 0;
        gy_free(data);
        data = NULL;
        GY_TRY(gy_store_file_open(env, path, &file, &size));
        if (size > limit_bytes) {
            (void)disk->close(env, file);
            return gy_fail(GY_LIMIT, "%s has %llu bytes, expected at most %zu", path,
                           (unsigned long long)size, limit_bytes);
        }
        data = gy_alloc("store.share", (size_t)size + 1);
        error = data == NULL ? -ENOMEM : 1;
        while (error > 0 && used < size) {
            error = disk->read(env, file, data + used, (size_t)size - used);
            used += error > 0 ? (size_t)error : 0;
        }
        (void)disk->close(env, file);
    }
    if (error < 0) {
        gy_free(data);
        return gy_store_file_fail("read", path, error);
    }
    data[used] = '\0';
    *out = (gy_bytes){data, used};
    return GY_OK;
}
