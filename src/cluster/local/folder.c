/* The folder of a job: who may run it, its journal, what its processes print. */
#include "cluster/local/local_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    WAITING_BYTES = 256 << 10,
    TAIL_BYTES = 1024,
    TAIL_SHOWN = 160,
    PATH_BYTES = 4096,
    LOCK_TRIES = 50
};

static gy_status fail_file(const char *what, const char *path, int64_t error)
{
    return gy_fail(error == -ENOMEM ? GY_NOMEM : GY_IO, "cannot %s %s: %s", what, path,
                   strerror((int)-error));
}

/* "folder/name" */
static gy_status path_in(const gy_folder *folder, const char *name, char out[PATH_BYTES])
{
    int size = snprintf(out, PATH_BYTES, "%s/%s", folder->path, name);
    if (size >= PATH_BYTES) {
        return gy_fail(GY_ARG, "the path of a job's folder has over %d bytes", PATH_BYTES - 64);
    }
    return GY_OK;
}

/* Who has the lock is the job's manager; its number stands in the file. Who lists jobs looks at
 * the lock for a moment, so it is tried for a while. */
static gy_status take_lock(const gy_folder *folder, const char *path)
{
    int taken = -1;
    for (int i = 0; i < LOCK_TRIES && taken != 0; i++) {
        taken = flock(folder->lock, LOCK_EX | LOCK_NB);
        if (taken != 0 && errno != EWOULDBLOCK) {
            return fail_file("lock", path, -errno);
        }
        if (taken != 0) {
            (void)poll(NULL, 0, 2);
        }
    }
    if (taken != 0) {
        return gy_fail(GY_STATE, "another manager runs the job in %s", folder->path);
    }
    char text[32];
    int size = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(folder->lock, 0) != 0 ||
        pwrite(folder->lock, text, (size_t)size, 0) != (ssize_t)size) {
        return fail_file("write", path, -errno);
    }
    return GY_OK;
}

gy_status gy_folder_open(gy_folder *folder, gy_env *env, const char *path)
{
    *folder = (gy_folder){.env = env, .path = path, .lock = -1, .journal = -1};
    char at[PATH_BYTES];
    GY_TRY(path_in(folder, "log/any", at));
    int error = gy_disk_make_folders(at);
    if (error != 0) {
        return fail_file("make the folder", path, error);
    }
    GY_TRY(path_in(folder, "lock", at));
    folder->lock = gy_env_disk(env)->open(env, at, O_RDWR | O_CREAT, 0600);
    if (folder->lock < 0) {
        return fail_file("open", at, folder->lock);
    }
    GY_TRY(take_lock(folder, at));
    folder->waiting = gy_alloc("cluster.journal", WAITING_BYTES);
    return folder->waiting != NULL ? GY_OK : GY_NOMEM;
}

/* Read all of the journal into *bytes, which the caller frees. */
static gy_status read_journal(const gy_folder *folder, const char *path, uint8_t **bytes,
                              size_t *size_bytes)
{
    gy_env *env = folder->env;
    const gy_disk_ops *disk = gy_env_disk(env);
    int64_t size = disk->size(env, folder->journal);
    if (size < 0) {
        return fail_file("read", path, size);
    }
    uint8_t *all = gy_alloc("cluster.journal", (size_t)size);
    if (all == NULL) {
        return GY_NOMEM;
    }
    size_t at = 0;
    int64_t got = 1;
    while (at < (size_t)size && got > 0) {
        got = disk->read(env, folder->journal, all + at, (size_t)size - at);
        at += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        gy_free(all);
        return fail_file("read", path, got);
    }
    *bytes = all;
    *size_bytes = at;
    return GY_OK;
}

gy_status gy_folder_replay(gy_folder *folder, gy_manager *manager)
{
    char path[PATH_BYTES];
    gy_env *env = folder->env;
    GY_TRY(path_in(folder, "journal", path));
    folder->journal = gy_env_disk(env)->open(env, path, O_RDWR | O_CREAT | O_APPEND, 0600);
    if (folder->journal < 0) {
        return fail_file("open", path, folder->journal);
    }
    uint8_t *bytes = NULL;
    size_t size_bytes = 0, used = 0;
    GY_TRY(read_journal(folder, path, &bytes, &size_bytes));
    gy_status status = GY_OK;
    if (size_bytes > 0) {
        status = gy_manager_replay(manager, bytes, size_bytes, &used);
    }
    gy_free(bytes);
    if (status < 0) {
        return gy_fail_within(status, "%s", path);
    }
    if (used < size_bytes) { /* what a crash tore */
        gy_info("%s: the last %zu of %zu bytes are torn and cut", path, size_bytes - used,
                size_bytes);
        if (ftruncate(folder->journal, (off_t)used) != 0) {
            return fail_file("cut", path, -errno);
        }
    }
    folder->written = used;
    return GY_OK;
}

/* Write to the journal, all of it. */
static gy_status write_journal(gy_folder *folder, const uint8_t *data, size_t size_bytes)
{
    gy_env *env = folder->env;
    for (size_t at = 0; at < size_bytes;) {
        int64_t done =
            gy_env_disk(env)->write(env, folder->journal, data + at, size_bytes - at);
        if (done <= 0) {
            return gy_fail(GY_IO, "cannot write the journal in %s: %s", folder->path,
                           strerror(done < 0 ? (int)-done : ENOSPC));
        }
        at += (size_t)done;
        folder->written += (size_t)done;
    }
    return GY_OK;
}

gy_status gy_folder_flush(gy_folder *folder)
{
    size_t size_bytes = folder->waiting_bytes;
    folder->waiting_bytes = 0; /* also after a failure: it is over then */
    return write_journal(folder, folder->waiting, size_bytes);
}

gy_status gy_folder_append(gy_folder *folder, const void *data, size_t size_bytes)
{
    if (folder->waiting_bytes + size_bytes > WAITING_BYTES) {
        GY_TRY(gy_folder_flush(folder));
    }
    if (size_bytes > WAITING_BYTES) {
        return write_journal(folder, data, size_bytes);
    }
    if (folder->waiting_bytes == 0) {
        folder->since_ns = gy_now_ns(folder->env);
    }
    memcpy(folder->waiting + folder->waiting_bytes, data, size_bytes);
    folder->waiting_bytes += size_bytes;
    return GY_OK;
}

/* So that the journal is found again after a crash of the machine. */
static gy_status sync_names(gy_folder *folder)
{
    gy_env *env = folder->env;
    const gy_disk_ops *disk = gy_env_disk(env);
    int file = disk->open(env, folder->path, O_RDONLY | O_DIRECTORY, 0);
    if (file < 0) {
        return fail_file("open", folder->path, file);
    }
    int error = disk->sync(env, file);
    (void)disk->close(env, file);
    if (error != 0) {
        return fail_file("sync", folder->path, error);
    }
    folder->is_named = true;
    return GY_OK;
}

gy_status gy_folder_sync(gy_folder *folder)
{
    GY_TRY(gy_folder_flush(folder));
    int error = gy_env_disk(folder->env)->sync(folder->env, folder->journal);
    if (error != 0) {
        return gy_fail(GY_IO, "cannot sync the journal in %s: %s", folder->path,
                       strerror(-error));
    }
    return folder->is_named ? GY_OK : sync_names(folder);
}

/* "folder/log/SLOT-GENERATION" */
static gy_status log_path(const gy_folder *folder, uint32_t slot, uint32_t generation,
                          char out[PATH_BYTES])
{
    char name[64];
    snprintf(name, sizeof(name), "log/%u-%u", slot, generation);
    return path_in(folder, name, out);
}

int gy_folder_log(const gy_folder *folder, uint32_t slot, uint32_t generation)
{
    char path[PATH_BYTES];
    gy_env *env = folder->env;
    if (log_path(folder, slot, generation, path) < 0) {
        return -1;
    }
    int file = gy_env_disk(env)->open(env, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (file < 0) {
        gy_warn("a process of the job has no log: %s: %s", path, strerror(-file));
        return -1;
    }
    return file;
}

/* The last line of `text` that is not blank, cut to what is worth showing. */
static void add_last_line(char *text, size_t size_bytes, gy_text *out)
{
    while (size_bytes > 0 && (uint8_t)text[size_bytes - 1] <= ' ') {
        size_bytes--;
    }
    size_t begin = size_bytes;
    while (begin > 0 && text[begin - 1] != '\n') {
        begin--;
    }
    size_t size = GY_MIN(size_bytes - begin, (size_t)TAIL_SHOWN);
    for (size_t i = 0; i < size; i++) {
        char *at = &text[begin + i];
        if ((uint8_t)*at < ' ' || *at == 127) {
            *at = '?';
        }
    }
    if (size > 0) {
        gy_text_add(out, "; its log ends: %.*s", (int)size, text + begin);
    }
}

void gy_folder_log_tail(const gy_folder *folder, uint32_t slot, uint32_t generation,
                        gy_text *out)
{
    char path[PATH_BYTES], text[TAIL_BYTES];
    if (log_path(folder, slot, generation, path) < 0) {
        return;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    off_t size = lseek(file, 0, SEEK_END);
    ssize_t got = pread(file, text, sizeof(text),
                        size > (off_t)sizeof(text) ? size - (off_t)sizeof(text) : 0);
    close(file);
    if (size == 0) {
        (void)gy_env_disk(folder->env)->unlink(folder->env, path);
    } else if (got > 0 && out != NULL) {
        add_last_line(text, (size_t)got, out);
    }
}

void gy_folder_close(gy_folder *folder)
{
    gy_env *env = folder->env;
    if (folder->journal >= 0) {
        (void)gy_env_disk(env)->close(env, folder->journal);
    }
    if (folder->lock >= 0) {
        (void)gy_env_disk(env)->close(env, folder->lock);
    }
    gy_free(folder->waiting);
}
