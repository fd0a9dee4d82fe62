/* Versions of files: takes, compares and caches them. */
#include "store/versions/stamp.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/index.h"
#include "store/store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_TRIES = 32, APPEND_TRIES = 8, BOOT_ID_BYTES = 36 };
#define TICK_NS 1000000
#define SKEW_NS 1000000000 /* a network file's clock may be another host's */

/* ---- comparing ---- */

gy_stamp_change gy_stamp_compare(const gy_disk_stamp *was, const gy_disk_stamp *is)
{
    if (was->size_bytes == 0 && is->size_bytes == 0) {
        return GY_STAMP_SAME; /* the other values of a file in /proc differ each time */
    }
    if (was->device != is->device || was->inode != is->inode ||
        was->size_bytes > is->size_bytes) {
        return GY_STAMP_OTHER;
    }
    if (was->size_bytes < is->size_bytes) {
        return GY_STAMP_GROWN;
    }
    if (was->modified_ns != is->modified_ns) {
        return GY_STAMP_OTHER;
    }
    if (was->changed_ns == is->changed_ns) {
        return GY_STAMP_SAME;
    }
    return was->attributes != is->attributes ? GY_STAMP_TOUCHED : GY_STAMP_MOVED;
}

static gy_status refuse(const char *path, const char *what)
{
    return gy_fail(GY_STATE,
                   "%s changed while it was read (%s): run the job again, on a copy if the "
                   "file keeps changing",
                   path, what);
}

const char *gy_stamp_tell(const gy_disk_stamp *was, const gy_disk_stamp *is,
                          char out[GY_STAMP_TEXT_BYTES])
{
    if (was->device != is->device || was->inode != is->inode) {
        (void)snprintf(out, GY_STAMP_TEXT_BYTES,
                       "another file has its name: inode %llu, expected %llu",
                       (unsigned long long)is->inode, (unsigned long long)was->inode);
    } else if (was->size_bytes != is->size_bytes) {
        (void)snprintf(out, GY_STAMP_TEXT_BYTES, "its size is %llu, expected %llu",
                       (unsigned long long)is->size_bytes, (unsigned long long)was->size_bytes);
    } else {
        const bool is_told = was->modified_ns != is->modified_ns;
        const bool is_attribute = !is_told && was->attributes != is->attributes;
        (void)snprintf(out, GY_STAMP_TEXT_BYTES, "%s",
                       is_told        ? "it was written to"
                       : is_attribute ? "its mode, owner or links changed"
                                      : "it was written to and its time set back, or renamed");
    }
    return out;
}

/* Check by samples that the first bytes are unchanged. */
static gy_status check_print(gy_env *env, int file, const char *path, const gy_disk_stamp *was)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    uint64_t print = 0;
    if (was->print == 0) {
        return refuse(path, "it was written to");
    }
    const int error = disk->print(env, file, was->size_bytes, &print);
    if (error < 0) {
        return gy_store_file_fail("read", path, error);
    }
    return print == was->print ? GY_OK : refuse(path, "other bytes are in it");
}

/* A rename changes only the change time: does the name now lead to another file? */
static bool is_renamed(const char *path, const gy_disk_stamp *is)
{
    struct stat about;
    return stat(path, &about) != 0 || about.st_dev != is->device || about.st_ino != is->inode;
}

/* An append changes the time first and the size a moment later. */
static int take_settled(gy_env *env, int file, const gy_disk_stamp *was, gy_disk_stamp *is)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    int error = disk->stamp(env, file, is);
    for (int i = 0; error == 0 && i < APPEND_TRIES; i++) {
        const bool may_append = was->inode == is->inode && was->size_bytes == is->size_bytes &&
                                was->modified_ns != is->modified_ns && was->size_bytes > 0;
        if (!may_append) {
            break;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
        error = disk->stamp(env, file, is);
    }
    return error;
}

gy_status gy_stamp_check(gy_env *env, int file, const char *path, const gy_stamp *expected)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    const gy_disk_stamp *was = &expected->disk;
    char text[GY_STAMP_TEXT_BYTES];
    gy_disk_stamp is;
    if (expected->machine == 0 || disk->stamp == NULL) {
        return GY_OK;
    }
    const int error = take_settled(env, file, was, &is);
    if (error < 0) {
        return gy_store_file_fail("read", path, error);
    }
    if (expected->machine != gy_stamp_machine()) {
        if (is.size_bytes < was->size_bytes) {
            is.device = was->device;
            is.inode = was->inode;
            return refuse(path, gy_stamp_tell(was, &is, text));
        }
        return was->print != 0 ? check_print(env, file, path, was) : GY_OK;
    }
    switch (gy_stamp_compare(was, &is)) {
    case GY_STAMP_SAME:
        return GY_OK;
    case GY_STAMP_TOUCHED:
    case GY_STAMP_GROWN:
        return check_print(env, file, path, was);
    case GY_STAMP_MOVED:
        if (is_renamed(path, &is)) {
            return check_print(env, file, path, was);
        }
        break;
    case GY_STAMP_OTHER:
        break;
    }
    return refuse(path, gy_stamp_tell(was, &is, text));
}

/* ---- taking ---- */

static pthread_once_t machine_once = PTHREAD_ONCE_INIT;
static uint64_t machine;

static void find_machine(void)
{
    char text[BOOT_ID_BYTES + 256] = "";
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!read(file, text, BOOT_ID_BYTES);
        (void)close(file);
    }
    /* containers of one kernel have the same boot id but disks of their own */
    (void)gethostname(text + BOOT_ID_BYTES, sizeof(text) - BOOT_ID_BYTES - 1);
    machine = gy_hash(text, sizeof(text), 0) | 1;
}

uint64_t gy_stamp_machine(void)
{
    GY_ASSERT(pthread_once(&machine_once, find_machine) == 0);
    return machine;
}

gy_status gy_stamp_take(gy_env *env, int file, const char *path, gy_stamp *stamp)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    *stamp = (gy_stamp){.machine = 0};
    if (disk->stamp == NULL) {
        return GY_OK;
    }
    int error = disk->stamp(env, file, &stamp->disk);
    if (error == 0) {
        error = disk->print(env, file, stamp->disk.size_bytes, &stamp->disk.print);
    }
    if (error < 0) {
        return gy_store_file_fail("read", path, error);
    }
    stamp->machine = gy_stamp_machine();
    return GY_OK;
}

/* Was the file changed within the current tick of the file clock? Another change in the same
 * tick would have the same time. */
static bool is_just_changed(const gy_disk_stamp *stamp)
{
    struct timespec now;
    GY_ASSERT(clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0);
    const int64_t now_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    return stamp->changed_ns >= now_ns && stamp->changed_ns - now_ns < SKEW_NS;
}

/* Open for reading, or without that permission for stat only. */
static gy_status open_to_look(const char *path, int *file)
{
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*file < 0 && (errno == EACCES || errno == EPERM)) {
        *file = open(path, O_PATH | O_CLOEXEC);
    }
    return *file >= 0 ? GY_OK : gy_store_file_fail("read", path, -errno);
}

static gy_status look(const char *path, gy_stamp *stamp)
{
    gy_env *env = gy_env_real();
    struct stat about;
    int file = -1;
    *stamp = (gy_stamp){.machine = 0};
    GY_TRY(open_to_look(path, &file));
    gy_status status = GY_OK;
    if (fstat(file, &about) != 0) {
        status = gy_store_file_fail("read", path, -errno);
    } else if (!S_ISREG(about.st_mode)) {
        status = gy_fail(GY_IO, "cannot read %s: expected a regular file", path);
    } else {
        const gy_disk_ops *disk = gy_env_disk(env);
        const int error = disk->stamp(env, file, &stamp->disk);
        status = error < 0 ? gy_store_file_fail("read", path, error) : GY_OK;
        stamp->machine = gy_stamp_machine();
        if (disk->print(env, file, stamp->disk.size_bytes, &stamp->disk.print) < 0) {
            stamp->disk.print = 0; /* the later reader will report why it cannot be read */
        }
    }
    (void)close(file);
    return status;
}

/* ---- cache ---- */

static struct known {
    pthread_mutex_t lock;
    gy_index rows; /* by the hash of a path */
    gy_stamp *stamps;
    size_t capacity;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static gy_status key_of(const char *path, gy_key *key)
{
    gy_text whole = {.data = NULL};
    char folder[4096];
    if (path[0] != '/') {
        if (getcwd(folder, sizeof(folder)) == NULL) {
            return gy_fail(GY_IO, "the current folder has no path: %s", strerror(errno));
        }
        gy_text_add(&whole, "%s/", folder);
    }
    gy_text_add_bytes(&whole, path, strlen(path));
    if (whole.status == GY_OK) {
        *key = gy_key_of(whole.data, whole.size_bytes);
    }
    const gy_status status = whole.status;
    gy_text_free(&whole);
    return status;
}

static gy_status remember(gy_key key, const gy_stamp *stamp)
{
    uint32_t row = 0;
    GY_ASSERT(pthread_mutex_lock(&known.lock) == 0);
    gy_status status =
        GY_GROW("store.stamps", known.stamps, known.capacity, known.rows.count + 1);
    status = status == GY_OK ? gy_index_number(&known.rows, key, &row) : status;
    if (status == GY_OK) {
        known.stamps[row] = *stamp;
    }
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
    return status;
}

static bool recall(gy_key key, gy_stamp *stamp)
{
    GY_ASSERT(pthread_mutex_lock(&known.lock) == 0);
    const uint32_t row = gy_index_find(&known.rows, key);
    if (row != GY_NONE) {
        *stamp = known.stamps[row];
    }
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
    return row != GY_NONE;
}

gy_status gy_stamp_look(const char *path, gy_stamp *stamp)
{
    gy_key key = {.high = 0};
    GY_TRY(key_of(path, &key));
    GY_TRY(look(path, stamp));
    for (int i = 0; i < SETTLE_TRIES && is_just_changed(&stamp->disk); i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
        if (!is_just_changed(&stamp->disk)) {
            GY_TRY(look(path, stamp));
        }
    }
    return remember(key, stamp);
}

gy_status gy_stamp_of(const char *path, gy_stamp *stamp)
{
    gy_key key = {.high = 0};
    GY_TRY(key_of(path, &key));
    return recall(key, stamp) ? GY_OK : gy_stamp_look(path, stamp);
}

void gy_store_stamps_forget(void)
{
    GY_ASSERT(pthread_mutex_lock(&known.lock) == 0);
    gy_index_free(&known.rows);
    gy_free(known.stamps);
    known.stamps = NULL;
    known.capacity = 0;
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
}
