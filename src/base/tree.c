/* Folders with all that is in them, walked by descriptors, so that nobody can swap one for a
 * link meanwhile. */
#include "base/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void keep_first(int *error, int code)
{
    if (*error == 0 && code != 0) {
        *error = -code;
    }
}

static int walk(int parent, const char *name, uint64_t *size_bytes, int depth);

/* One entry of an opened folder; size_bytes NULL: remove it. */
static int visit(int folder, const char *name, uint64_t *size_bytes, int depth)
{
    struct stat facts;
    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    if (S_ISDIR(facts.st_mode)) {
        return walk(folder, name, size_bytes, depth + 1);
    }
    if (size_bytes != NULL) {
        *size_bytes += (uint64_t)facts.st_blocks * 512;
        return 0;
    }
    return unlinkat(folder, name, 0) == 0 || errno == ENOENT ? 0 : -errno;
}

static int walk(int parent, const char *name, uint64_t *size_bytes, int depth)
{
    if (depth > GY_DISK_DEPTH_MAX) {
        return -ELOOP;
    }
    int file = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    DIR *folder = fdopendir(file);
    if (folder == NULL) {
        int error = -errno;
        close(file);
        return error;
    }
    int error = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL) {
            keep_first(&error, errno);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            keep_first(&error, -visit(dirfd(folder), entry->d_name, size_bytes, depth));
        }
    }
    closedir(folder);
    if (size_bytes == NULL && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        keep_first(&error, errno);
    }
    return error;
}

int gy_disk_remove_tree(const char *path)
{
    return walk(AT_FDCWD, path, NULL, 0);
}

int gy_disk_measure_tree(const char *path, uint64_t *size_bytes)
{
    return walk(AT_FDCWD, path, size_bytes, 0);
}
