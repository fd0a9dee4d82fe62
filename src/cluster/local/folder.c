/* The folder of a job: who may run it, whose journal it has, what its processes print. */
#include "base/text.h"
#include "cluster/local/local_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { TAIL_BYTES = 1024, TAIL_SHOWN = 240, PATH_BYTES = 4096, LOCK_TRIES = 50 };

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
static gy_status take_lock(const gy_folder *folder, const char *path, int tries)
{
    int taken = -1;
    for (int i = 0; i < tries && taken != 0; i++) {
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
    size_t size = gy_print(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(folder->lock, 0) != 0 ||
        pwrite(folder->lock, text, size, 0) != (ssize_t)size) {
        return fail_file("write", path, -errno);
    }
    return GY_OK;
}

gy_status gy_folder_open(gy_folder *folder, gy_env *env, const char *path, bool has_epoch)
{
    *folder = (gy_folder){.env = env, .path = path, .lock = -1};
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
    gy_status status = take_lock(folder, at, has_epoch ? 1 : LOCK_TRIES);
    folder->has_lock = status == GY_OK;
    if (status == GY_STATE && has_epoch) { /* who is cut off, or stopped, may hold it */
        gy_info("%s; the newer epoch goes on", gy_error_text());
        status = GY_OK;
    }
    return status;
}

void gy_folder_try_lock(gy_folder *folder)
{
    char at[PATH_BYTES];
    if (!folder->has_lock && path_in(folder, "lock", at) == GY_OK) {
        gy_status status = take_lock(folder, at, 1);
        folder->has_lock = status != GY_STATE; /* of another failure it was told once */
        if (status < 0 && status != GY_STATE) {
            gy_warn("nobody sees that a manager is at work here: %s", gy_error_text());
        }
    }
}

typedef struct replaying {
    gy_manager *manager;
    bool has_records;
} replaying;

static gy_status take_records(void *arg, const void *records, size_t size_bytes, size_t *used)
{
    replaying *state = arg;
    state->has_records = true;
    return gy_manager_replay(state->manager, records, size_bytes, used);
}

gy_status gy_folder_replay(gy_folder *folder, const gy_driver_options *options,
                           gy_manager *manager)
{
    char host[64] = "", owner[96] = "";
    replaying state = {.manager = manager};
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(owner, sizeof(owner), "%s, process %d", host, (int)getpid());
    const char *where =
        options->epoch > 0 && options->journal != NULL ? options->journal : folder->path;
    if (options->epoch > 0) {
        GY_TRY(gy_journal_suits(folder->env, where));
    }
    const gy_journal_options journal = {.folder = where,
                                        .epoch = options->epoch,
                                        .owner =
                                            options->owner != NULL ? options->owner : owner,
                                        .take = take_records,
                                        .arg = &state};
    GY_TRY(gy_journal_open(folder->env, &journal, &folder->journal));
    if (options->epoch > 1 && !state.has_records) {
        gy_warn("epoch %llu finds nothing of the managers before it in %s and begins anew: "
                "either they wrote nothing, or not all hosts share that folder",
                (unsigned long long)options->epoch, where);
        gy_manager_begin_blind(manager);
    }
    return GY_OK;
}

static void log_name(uint32_t slot, uint32_t generation, char out[64])
{
    snprintf(out, 64, "log/%u-%u", slot, generation);
}

int gy_folder_log(const gy_folder *folder, uint32_t slot, uint32_t generation)
{
    char path[PATH_BYTES], name[64];
    gy_env *env = folder->env;
    log_name(slot, generation, name);
    if (path_in(folder, name, path) < 0) {
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
    const bool is_cut = size_bytes - begin > TAIL_SHOWN;
    size_t size = is_cut ? TAIL_SHOWN : size_bytes - begin;
    while (is_cut && size > 0 && ((uint8_t)text[begin + size] & 0xC0) == 0x80) {
        size--; /* not in the middle of a character */
    }
    for (size_t i = 0; i < size; i++) {
        char *at = &text[begin + i];
        if ((uint8_t)*at < ' ' || *at == 127) {
            *at = '?';
        }
    }
    if (size > 0) {
        gy_text_add(out, "%.*s%s", (int)size, text + begin, is_cut ? "..." : "");
    }
}

void gy_folder_tail(const gy_folder *folder, const char *name, gy_text *out)
{
    char path[PATH_BYTES], text[TAIL_BYTES];
    if (path_in(folder, name, path) < 0) {
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
    } else if (got > 0) {
        add_last_line(text, (size_t)got, out);
    }
}

void gy_folder_log_tail(const gy_folder *folder, uint32_t slot, uint32_t generation,
                        gy_text *out)
{
    char name[64];
    gy_text line = {.data = NULL};
    log_name(slot, generation, name);
    gy_folder_tail(folder, name, &line);
    if (out != NULL && line.size_bytes > 0) {
        gy_text_add(out, "; its log ends: %s", gy_text_get(&line));
    }
    gy_text_free(&line);
}

void gy_folder_close(gy_folder *folder)
{
    gy_env *env = folder->env;
    gy_journal_close(folder->journal);
    if (folder->lock >= 0) {
        (void)gy_env_disk(env)->close(env, folder->lock);
    }
}
