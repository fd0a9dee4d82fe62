#include "base/disk.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/setting.h"
#include "base/text.h"

#include <gyre/base.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int real_open(gy_env *env, const char *path, int flags, unsigned mode)
{
    (void)env;
    int file = -1;
    do {
        file = open(path, flags | O_CLOEXEC, (mode_t)mode);
    } while (file < 0 && errno == EINTR);
    return file < 0 ? -errno : file;
}

static int real_close(gy_env *env, int file)
{
    (void)env;
    return close(file) == 0 || errno == EINTR ? 0 : -errno; /* Linux closes it in any case */
}

static int64_t real_size(gy_env *env, int file)
{
    (void)env;
    struct stat status;
    if (fstat(file, &status) != 0) {
        return -errno;
    }
    if (S_ISDIR(status.st_mode)) {
        return -EISDIR;
    }
    return S_ISREG(status.st_mode) ? (int64_t)status.st_size : -EINVAL;
}

static int64_t real_read(gy_env *env, int file, void *data, size_t size_bytes)
{
    (void)env;
    ssize_t got = 0;
    do {
        got = read(file, data, size_bytes);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : (int64_t)got;
}

static int64_t real_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    (void)env;
    ssize_t written = 0;
    do {
        written = write(file, data, size_bytes);
    } while (written < 0 && errno == EINTR);
    return written < 0 ? -errno : (int64_t)written;
}

static int64_t real_read_at(gy_env *env, int file, void *data, size_t size_bytes,
                            uint64_t offset)
{
    (void)env;
    ssize_t got = 0;
    do {
        got = pread(file, data, size_bytes, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : (int64_t)got;
}

static int64_t real_write_at(gy_env *env, int file, const void *data, size_t size_bytes,
                             uint64_t offset)
{
    (void)env;
    ssize_t written = 0;
    do {
        written = pwrite(file, data, size_bytes, (off_t)offset);
    } while (written < 0 && errno == EINTR);
    return written < 0 ? -errno : (int64_t)written;
}

/* Not posix_fallocate, which writes to every block where the file system cannot. */
static int real_reserve(gy_env *env, int file, uint64_t size_bytes)
{
    (void)env;
    int error = 0;
    GY_ASSERT(size_bytes <= INT64_MAX);
    do {
        error = fallocate(file, 0, 0, (off_t)size_bytes) == 0 ? 0 : errno;
    } while (error == EINTR);
    if (error == EOPNOTSUPP || error == ENOSYS) {
        error = ftruncate(file, (off_t)size_bytes) == 0 ? 0 : errno;
    }
    return -error;
}

static int real_sync(gy_env *env, int file)
{
    (void)env;
    return fsync(file) == 0 ? 0 : -errno;
}

static int real_rename(gy_env *env, const char *from, const char *to)
{
    (void)env;
    return rename(from, to) == 0 ? 0 : -errno;
}

static int real_unlink(gy_env *env, const char *path)
{
    (void)env;
    return unlink(path) == 0 ? 0 : -errno;
}

static int real_link(gy_env *env, const char *from, const char *to)
{
    (void)env;
    return link(from, to) == 0 ? 0 : -errno;
}

static int64_t real_links(gy_env *env, const char *path)
{
    (void)env;
    struct stat status;
    return lstat(path, &status) == 0 ? (int64_t)status.st_nlink : -errno;
}

static int real_list(gy_env *env, const char *folder, gy_disk_visit visit, void *arg)
{
    (void)env;
    struct statx about;
    DIR *listing = opendir(folder);
    if (listing == NULL) {
        return -errno;
    }
    /* NFS would go by what it knew up to a minute ago; that the folder has changed, which its
     * server is asked here, makes it read the names and look for files anew. */
    int ended = statx(dirfd(listing), "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC,
                      STATX_BASIC_STATS, &about) != 0
                    ? -errno
                    : 0;
    while (ended == 0) {
        errno = 0;
        const struct dirent *entry = readdir(listing);
        if (entry == NULL) {
            ended = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            ended = visit(arg, entry->d_name);
        }
    }
    (void)closedir(listing);
    return ended;
}

static int real_stamp(gy_env *env, int file, gy_disk_stamp *stamp)
{
    (void)env;
    struct stat about;
    if (fstat(file, &about) != 0) {
        return -errno;
    }
    const uint64_t attributes[] = {about.st_mode, about.st_uid, about.st_gid, about.st_nlink};
    *stamp = (gy_disk_stamp){
        .device = about.st_dev,
        .inode = about.st_ino,
        .size_bytes = (uint64_t)about.st_size,
        .modified_ns = about.st_mtim.tv_sec * INT64_C(1000000000) + about.st_mtim.tv_nsec,
        .changed_ns = about.st_ctim.tv_sec * INT64_C(1000000000) + about.st_ctim.tv_nsec,
        .attributes = gy_hash(attributes, sizeof(attributes), 0)};
    return 0;
}

int gy_base_read_whole(int file, uint64_t at, void *data, size_t size_bytes)
{
    for (size_t have = 0; have < size_bytes;) {
        const ssize_t got =
            pread(file, (char *)data + have, size_bytes - have, (off_t)(at + have));
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return got == 0 ? -EIO : -errno;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* All of a small file; of a larger one SAMPLES as far apart as they can be, first and last
 * among them. */
static int real_print(gy_env *env, int file, uint64_t size_bytes, uint64_t *print)
{
    enum { SAMPLES = 16, SAMPLE_BYTES = 256, ALL_BYTES = SAMPLES * SAMPLE_BYTES };
    (void)env;
    char data[ALL_BYTES];
    const size_t kept = size_bytes < ALL_BYTES ? (size_t)size_bytes : (size_t)ALL_BYTES;
    const size_t count = size_bytes <= ALL_BYTES ? 1 : SAMPLES, each = kept / count;
    const uint64_t step = count > 1 ? (size_bytes - each) / (count - 1) : 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = i + 1 < count ? step * i : size_bytes - each;
        const int error = gy_base_read_whole(file, at, data + i * each, each);
        if (error != 0) {
            return error;
        }
    }
    *print = gy_hash(data, kept, size_bytes) | 1;
    return 0;
}

const gy_disk_ops gy_disk_real = {
    .name = "real",
    .open = real_open,
    .close = real_close,
    .size = real_size,
    .read = real_read,
    .write = real_write,
    .read_at = real_read_at,
    .write_at = real_write_at,
    .reserve = real_reserve,
    .sync = real_sync,
    .rename = real_rename,
    .unlink = real_unlink,
    .link = real_link,
    .links = real_links,
    .list = real_list,
    .stamp = real_stamp,
    .print = real_print,
};

void gy_reserve_standard_files(void)
{
    for (int file = 0; file <= 2;
         file++) { /* from below: an open takes the lowest that is free */
        if (fcntl(file, F_GETFD) < 0) {
            (void)open("/dev/null", file == 0 ? O_WRONLY : O_RDONLY);
        }
    }
}

typedef struct each {
    gy_disk_each_visit visit;
    void *arg;
    gy_status status;
} each;

static int visit_one(void *arg, const char *name)
{
    each *of = arg;
    of->status = of->visit(of->arg, name);
    return of->status != GY_OK;
}

gy_status gy_disk_each(gy_env *env, const char *folder, gy_disk_each_visit visit, void *arg)
{
    each of = {visit, arg, GY_OK};
    const int error = gy_env_disk(env)->list(env, folder, visit_one, &of);
    if (error >= 0) {
        return of.status;
    }
    gy_status status = GY_IO;
    if (error == -ENOENT) {
        status = GY_NOTFOUND;
    } else if (error == -ENOMEM) {
        status = GY_NOMEM;
    }
    return gy_fail(status, "cannot list %s: %s", folder, strerror(-error));
}

int gy_disk_make_folders(const char *path)
{
    char *copy = gy_copy_text("base.disk", path);
    int ended = copy != NULL ? 0 : -ENOMEM;
    char *slash = copy != NULL && copy[0] != '\0' ? strchr(copy + 1, '/') : NULL;
    for (; slash != NULL && ended == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST) {
            ended = -errno;
        }
        *slash = '/';
    }
    gy_free(copy);
    return ended;
}

/* ---- files of this user's alone ---- */

int gy_base_open_own(const char *path, uint64_t *size_bytes)
{
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        return -errno;
    }
    int error = fstat(file, &about) == 0 ? 0 : -errno;
    if (error == 0 && (!S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
                       about.st_nlink > 1 || (about.st_mode & 022) != 0)) {
        error = -EPERM;
    }
    if (error != 0) {
        (void)close(file);
        return error;
    }
    *size_bytes = (uint64_t)about.st_size;
    return file;
}

static int write_whole(int file, const void *data, size_t size_bytes)
{
    for (size_t done = 0; done < size_bytes;) {
        const ssize_t put = write(file, (const char *)data + done, size_bytes - done);
        if (put < 0 && errno != EINTR) {
            return -errno;
        }
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

int gy_base_replace_own(const char *path, const void *data, size_t size_bytes)
{
    gy_text beside = {.data = NULL};
    gy_text_add(&beside, "%s.XXXXXX", path);
    if (beside.status != GY_OK) {
        gy_text_free(&beside);
        return -ENOMEM;
    }
    const int file = mkostemp(beside.data, O_CLOEXEC); /* 0600 */
    int error = file >= 0 ? write_whole(file, data, size_bytes) : -errno;
    if (file >= 0 && close(file) != 0 && error == 0) {
        error = -errno;
    }
    if (error == 0 && rename(beside.data, path) != 0) {
        error = -errno;
    }
    if (file >= 0 && error != 0) {
        (void)unlink(beside.data);
    }
    gy_text_free(&beside);
    return error;
}

gy_status gy_base_cache_path(const char *name, char *path, size_t size_bytes)
{
    const char *folder = gy_setting_get("GYRE_CACHE_DIR");
    GY_ASSERT(name[0] == '/');
    if (folder == NULL) {
        return gy_setting_user_path("XDG_CACHE_HOME", ".cache", name, path, size_bytes);
    }
    const bool is_none = strcmp(folder, "none") == 0;
    return gy_print_whole(path, size_bytes, "%s%s", is_none ? "" : folder, is_none ? "" : name)
               ? GY_OK
               : gy_fail(GY_ARG, "GYRE_CACHE_DIR is too long a path");
}
