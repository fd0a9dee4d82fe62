/* The folder of a daemon: its lock, its identity, its disk space. */
#include "base/text.h"
#include "cluster/host/host_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { SMALL_FILE = 1024 };
static const uint64_t reserve_bytes = 1 << 30;
static const int64_t full_for_ns = 5000000000; /* after a write had no room */

bool gy_host_path(char out[HOST_PATH], const char *folder, const char *a, const char *b)
{
    int size = b != NULL ? snprintf(out, HOST_PATH, "%s/%s/%s", folder, a, b)
                         : snprintf(out, HOST_PATH, "%s/%s", folder, a);
    return size < HOST_PATH;
}

static gy_status fail_file(gy_host *host, const char *what, const char *path, int error)
{
    if (error == ENOSPC || error == EDQUOT) {
        gy_host_disk_full(host);
        return gy_fail(GY_LIMIT, "cannot %s %s: %s", what, path, strerror(error));
    }
    return gy_fail(error == ENOENT ? GY_NOTFOUND : GY_IO, "cannot %s %s: %s", what, path,
                   strerror(error));
}

/* Sync the folder of a file. */
static int sync_folder_of(gy_host *host, const char *path)
{
    char folder[HOST_PATH];
    const gy_disk_ops *disk = gy_env_disk(host->env);
    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    int file = disk->open(host->env, folder, O_RDONLY | O_DIRECTORY, 0);
    if (file < 0) {
        return -file;
    }
    int error = disk->sync(host->env, file);
    (void)disk->close(host->env, file);
    return -error;
}

gy_status gy_host_write_file(gy_host *host, const char *path, const char *text)
{
    char beside[HOST_PATH + 8];
    const gy_disk_ops *disk = gy_env_disk(host->env);
    const size_t size = strlen(text);
    snprintf(beside, sizeof(beside), "%s.new", path);
    int file = disk->open(host->env, beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return fail_file(host, "write", beside, -file);
    }
    int64_t error = 0;
    for (size_t at = 0; at < size && error == 0;) {
        int64_t done = disk->write(host->env, file, text + at, size - at);
        at += done > 0 ? (size_t)done : 0;
        error = done > 0 ? 0 : done < 0 ? -done : ENOSPC;
    }
    error = error != 0 ? error : -disk->sync(host->env, file);
    (void)disk->close(host->env, file);
    error = error != 0 ? error : -disk->rename(host->env, beside, path);
    error = error != 0 ? error : sync_folder_of(host, path);
    return error == 0 ? GY_OK : fail_file(host, "write", path, (int)error);
}

gy_status gy_host_read_file(gy_host *host, const char *path, char *text, size_t room)
{
    const gy_disk_ops *disk = gy_env_disk(host->env);
    int file = disk->open(host->env, path, O_RDONLY | O_NOFOLLOW, 0);
    if (file < 0) {
        return fail_file(host, "read", path, -file);
    }
    size_t used = 0;
    int64_t got = 1;
    while (got > 0 && used < room) {
        got = disk->read(host->env, file, text + used, room - used);
        used += got > 0 ? (size_t)got : 0;
    }
    (void)disk->close(host->env, file);
    if (got < 0) {
        return fail_file(host, "read", path, (int)-got);
    }
    if (used == room) {
        return gy_fail(GY_FORMAT, "%s is too long", path);
    }
    text[used] = '\0';
    return GY_OK;
}

/* ---- Identity ---- */

static gy_status take_lock(gy_host *host)
{
    char path[HOST_PATH];
    (void)gy_host_path(path, host->folder, "lock", NULL);
    host->lock = gy_env_disk(host->env)->open(host->env, path, O_RDWR | O_CREAT, 0600);
    if (host->lock < 0) {
        return fail_file(host, "open", path, -host->lock);
    }
    if (flock(host->lock, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK
                   ? gy_fail(GY_STATE, "another daemon has the folder %s", host->folder)
                   : fail_file(host, "lock", path, errno);
    }
    return GY_OK;
}

/* Begin another life of the identity in the folder, or a new identity. */
static gy_status take_identity(gy_host *host)
{
    char path[HOST_PATH], text[SMALL_FILE];
    unsigned long long id = 0, incarnation = 0, life = 0;
    (void)gy_host_path(path, host->folder, "identity", NULL);
    gy_status status = gy_host_read_file(host, path, text, sizeof(text));
    if (status < 0 && status != GY_NOTFOUND) {
        return status;
    }
    if (status == GY_NOTFOUND) {
        incarnation = host->env->ops->random(host->env, GY_CHANCE_WORK) | 1;
        id = gy_hash(host->folder, strlen(host->folder),
                     gy_hash(host->host_name, strlen(host->host_name), 0)) |
             1;
    } else if (sscanf(text, "daemon %llx\nincarnation %llx\nlife %llu\n", &id, &incarnation,
                      &life) != 3 ||
               id == 0 || incarnation == 0) {
        return gy_fail(GY_FORMAT, "%s holds no identity of a daemon", path);
    }
    host->id = id;
    host->incarnation = incarnation;
    host->life = life + 1;
    snprintf(text, sizeof(text), "daemon %016llx\nincarnation %016llx\nlife %llu\n", id,
             incarnation, life + 1);
    return gy_host_write_file(host, path, text);
}

/* Is it a file of a daemon that ended before it had an identity? */
static bool is_begun(const char *name)
{
    return strcmp(name, "lock") == 0 || strcmp(name, "identity.new") == 0;
}

typedef struct contents {
    bool is_strange, has_identity;
} contents;

static gy_status look_at_name(void *arg, const char *name)
{
    contents *of = arg;
    of->has_identity = of->has_identity || strcmp(name, "identity") == 0;
    of->is_strange = of->is_strange || !is_begun(name);
    return GY_OK;
}

/* Accept an empty folder, or one that a daemon began: it will remove any files in it. */
static gy_status check_is_own(gy_env *env, const char *folder)
{
    contents of = {false, false};
    GY_TRY(gy_disk_each(env, folder, look_at_name, &of));
    return !of.is_strange || of.has_identity
               ? GY_OK
               : gy_fail(
                     GY_ARG,
                     "--work-folder %s holds files of others: expected a new or empty folder, "
                     "or one of a daemon",
                     folder);
}

/* Create the folder, or check that it is a daemon's. Its content is readable by its user only,
 * so the mode of an existing folder stays. */
static gy_status take_folder(gy_host *host)
{
    const gy_host_options *options = host->options;
    char path[HOST_PATH];
    struct stat about;
    if (strlen(options->folder) + 600 > HOST_PATH ||
        !gy_host_path(path, options->folder, "x", NULL)) {
        return gy_fail(GY_ARG, "the path of a daemon's folder is too long");
    }
    int error = gy_disk_make_folders(path);
    if (error != 0) {
        return fail_file(host, "make the folder", options->folder, -error);
    }
    if (realpath(options->folder, path) == NULL || strlen(path) >= sizeof(host->folder)) {
        return gy_fail(GY_IO, "cannot find %s: %s", options->folder, strerror(errno));
    }
    memcpy(host->folder, path, strlen(path) + 1);
    if (stat(host->folder, &about) != 0 || about.st_uid != geteuid()) {
        return gy_fail(GY_STATE, "%s is not a folder of this user", host->folder);
    }
    GY_TRY(check_is_own(host->env, host->folder));
    if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return gy_fail(
            GY_ARG,
            "--work-folder %s is of mode %03o: expected one that this user alone may "
            "write",
            host->folder, (unsigned)about.st_mode & 0777);
    }
    return GY_OK;
}

gy_status gy_host_identity(gy_host *host)
{
    static const char *const folders[] = {"jobs", "blobs", "trash"};
    const gy_host_options *options = host->options;
    char path[HOST_PATH];
    if (options->host != NULL) {
        if (!gy_print_whole(host->host_name, sizeof(host->host_name), "%s", options->host)) {
            return gy_fail(GY_ARG, "--hostname: '%s' has more than %zu bytes", options->host,
                           sizeof(host->host_name) - 1);
        }
    } else if (gethostname(host->host_name, sizeof(host->host_name) - 1) != 0) {
        return gy_fail(GY_IO, "this host has no name: %s", strerror(errno));
    }
    GY_TRY(take_folder(host));
    GY_TRY(take_lock(host));
    GY_TRY(take_identity(host)); /* before any other file exists */
    for (size_t i = 0; i < GY_COUNT(folders); i++) {
        (void)gy_host_path(path, host->folder, folders[i], "x");
        int error = gy_disk_make_folders(path);
        if (error != 0) {
            return fail_file(host, "make the folder", path, -error);
        }
    }
    return GY_OK;
}

/* ---- Disk space ---- */

void gy_host_disk_full(gy_host *host)
{
    host->full_ns = gy_now_ns(host->env);
    host->is_full = true;
    host->tick_ns = 0; /* tell the machine in this round */
}

void gy_host_check_disk(gy_host *host)
{
    struct statvfs about;
    char left[32], reason[GY_CONTROL_REASON_BYTES];
    const uint64_t reserve =
        host->options->reserve_bytes > 0 ? host->options->reserve_bytes : reserve_bytes;
    uint64_t free_bytes = 0;
    if (statvfs(host->folder, &about) != 0) {
        snprintf(reason, sizeof(reason), "the work folder is missing: %s", strerror(errno));
    } else {
        free_bytes = (uint64_t)about.f_bavail * about.f_frsize;
        snprintf(reason, sizeof(reason), "disk full: %s left", gy_text_bytes(left, free_bytes));
    }
    /* Hysteresis: a disk that was full must have more than the reserve before it accepts work
     * again. */
    uint64_t least = host->is_troubled ? reserve + reserve / 4 : reserve;
    bool is_full = free_bytes < least ||
                   (host->is_full && gy_now_ns(host->env) - host->full_ns < full_for_ns);
    host->is_full = host->is_full && is_full;
    if (is_full != host->is_troubled) {
        host->is_troubled = is_full;
        gy_host_step(
            host, &(gy_daemon_event){.kind = GY_DAEMON_DISK, .reason = is_full ? reason : ""});
    }
}
