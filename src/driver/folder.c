/* The folder of a job: its lock decides who may run the job, and it contains the journal. */
#include "driver/folder.h"

#include "base/disk.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, LOCK_TRIES = 50 };

static gy_status fail_file(const char *what, const char *path, int64_t error)
{
    return gy_fail(error == -ENOMEM ? GY_NOMEM : GY_IO, "cannot %s %s: %s", what, path,
                   strerror((int)-error));
}

/* Writes "folder/name". */
static gy_status path_in(const gy_folder *folder, const char *name, char out[PATH_BYTES])
{
    int size = snprintf(out, PATH_BYTES, "%s/%s", folder->path, name);
    if (size >= PATH_BYTES) {
        return gy_fail(GY_ARG, "the path of a job's folder has over %d bytes", PATH_BYTES - 64);
    }
    return GY_OK;
}

/* The manager of a job holds the lock, and writes its process id into the file. A process that
 * lists jobs holds the lock briefly, so this tries for a while. */
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
    /* A partitioned or stopped manager may still hold it. */
    if (status == GY_STATE && has_epoch) {
        gy_info("%s; the newer epoch continues", gy_error_text());
        status = GY_OK;
    }
    return status;
}

void gy_folder_try_lock(gy_folder *folder)
{
    char at[PATH_BYTES];
    if (!folder->has_lock && path_in(folder, "lock", at) == GY_OK) {
        gy_status status = take_lock(folder, at, 1);
        folder->has_lock = status != GY_STATE; /* any other failure is logged once */
        if (status < 0 && status != GY_STATE) {
            gy_warn("cannot show that a manager is running here: %s", gy_error_text());
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

gy_status gy_folder_replay(gy_folder *folder, uint64_t epoch, const char *journal,
                           const char *owner, gy_manager *manager)
{
    char host[64] = "", self[96] = "";
    replaying state = {.manager = manager};
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(self, sizeof(self), "%s, process %d", host, (int)getpid());
    const char *where = epoch > 0 && journal != NULL ? journal : folder->path;
    if (epoch > 0) {
        GY_TRY(gy_journal_suits(folder->env, where));
    }
    const gy_journal_options options = {.folder = where,
                                        .epoch = epoch,
                                        .owner = owner != NULL ? owner : self,
                                        .take = take_records,
                                        .measure = gy_manager_measure,
                                        .arg = &state};
    GY_TRY(gy_journal_open(folder->env, &options, &folder->journal));
    if (epoch > 1 && !state.has_records) {
        gy_warn("epoch %llu finds no journal of earlier managers in %s and starts over: either "
                "they wrote nothing, or not all hosts share that folder",
                (unsigned long long)epoch, where);
        gy_manager_begin_blind(manager);
    }
    return GY_OK;
}

void gy_folder_close(gy_folder *folder)
{
    gy_env *env = folder->env;
    gy_journal_close(folder->journal);
    if (folder->lock >= 0) {
        (void)gy_env_disk(env)->close(env, folder->lock);
    }
}
