/* What old jobs left is removed. */
#include "cluster/history/history_priv.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/env.h"
#include "base/fail.h"
#include "cluster/journal.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { UNBEGUN_SECONDS = 3600 };

/* An ended job, newest first; what it holds. */
typedef struct old_job {
    struct old_job *next;
    uint64_t size_bytes;
    char *folder;
    char id[GY_JOB_ID_BYTES];
} old_job;

typedef struct old_jobs {
    gy_arena arena;
    old_job *oldest; /* `next` leads to newer ones */
    uint64_t size_bytes;
    int64_t keep_from_ns; /* what can be resumed and began later stays */
} old_jobs;

static gy_status add_old(void *arg, const gy_job *job)
{
    old_jobs *jobs = arg;
    if (job->state == GY_JOB_RUNNING || job->folder[0] != '/' ||
        (job->state != GY_JOB_DONE && job->started_ns > jobs->keep_from_ns)) {
        return GY_OK;
    }
    old_job *old = gy_arena_alloc(&jobs->arena, sizeof(*old));
    size_t size = strlen(job->folder) + 1;
    if (old == NULL || (old->folder = gy_arena_alloc(&jobs->arena, size)) == NULL) {
        return GY_NOMEM;
    }
    memcpy(old->folder, job->folder, size);
    memcpy(old->id, job->id, strlen(job->id) + 1);
    int error = gy_disk_measure_tree(job->folder, &old->size_bytes);
    if (error != 0) {
        return gy_fail(GY_IO, "cannot measure %s: %s", job->folder, strerror(-error));
    }
    jobs->size_bytes += old->size_bytes;
    old->next = jobs->oldest;
    jobs->oldest = old;
    return GY_OK;
}

static gy_status forget(gy_history *history, const old_job *old)
{
    if (gy_history_is_held(old->folder)) {
        return GY_AGAIN; /* it was resumed meanwhile */
    }
    int error = gy_disk_remove_tree(old->folder);
    if (error != 0) {
        return gy_fail(GY_IO, "cannot remove %s: %s", old->folder, strerror(-error));
    }
    static const char *const texts[] = {
        "DELETE FROM jobs WHERE id = ?", "DELETE FROM stages WHERE job = ?",
        "DELETE FROM counters WHERE job = ?", "DELETE FROM notes WHERE job = ?",
        "DELETE FROM bad_records WHERE job = ?"};
    GY_TRY(gy_history_execute(history, "BEGIN IMMEDIATE"));
    gy_status status = GY_OK;
    for (size_t i = 0; status == GY_OK && i < sizeof(texts) / sizeof(texts[0]); i++) {
        sqlite3_stmt *statement = gy_history_prepare(history, texts[i]);
        if (statement != NULL) {
            sqlite3_bind_text(statement, 1, old->id, -1, SQLITE_STATIC);
        }
        status = gy_history_run(history, statement);
    }
    gy_status ended = gy_history_execute(history, status == GY_OK ? "COMMIT" : "ROLLBACK");
    return status != GY_OK ? status : ended;
}

/* ---- folders that no job of the history has ---- */

typedef struct unbegun {
    gy_history *history;
    int64_t before_s; /* who is younger may be about to begin */
    int removed;
    uint64_t freed_bytes;
} unbegun;

/* 1: the history has a job in the folder; 0: none; or a failure. */
static int is_known(gy_history *history, const char *folder)
{
    sqlite3_stmt *row = gy_history_prepare(history, "SELECT 1 FROM jobs WHERE folder = ?");
    if (row == NULL) {
        return GY_IO;
    }
    sqlite3_bind_text(row, 1, folder, -1, SQLITE_STATIC);
    const int got = sqlite3_step(row);
    sqlite3_finalize(row);
    return got == SQLITE_ROW ? 1 : got == SQLITE_DONE ? 0 : gy_history_fail(history, "read");
}

/* What its manager, killed before it began or without a history, left there for nobody. */
static gy_status remove_unbegun(unbegun *all, const char *folder)
{
    struct stat about;
    uint64_t size_bytes = 0;
    if (lstat(folder, &about) != 0 || !S_ISDIR(about.st_mode) ||
        about.st_mtim.tv_sec >= all->before_s || gy_history_is_held(folder) ||
        gy_journal_is_there(gy_env_real(), folder)) {
        return GY_OK;
    }
    const int known = is_known(all->history, folder);
    if (known != 0) {
        return known < 0 ? (gy_status)known : GY_OK;
    }
    int error = gy_disk_measure_tree(folder, &size_bytes);
    error = error == 0 ? gy_disk_remove_tree(folder) : error;
    if (error != 0) {
        return gy_fail(GY_IO, "cannot remove %s: %s", folder, strerror(-error));
    }
    all->removed++;
    all->freed_bytes += size_bytes;
    return GY_OK;
}

static gy_status collect_unbegun(unbegun *all)
{
    char jobs[4096], folder[4096 + 256];
    GY_TRY(gy_history_folder(jobs, sizeof(jobs)));
    DIR *listing = opendir(jobs);
    gy_status status = GY_OK;
    for (struct dirent *at = listing != NULL ? readdir(listing) : NULL;
         at != NULL && status == GY_OK; at = readdir(listing)) {
        if (at->d_name[0] != '.') { /* no job has such a name */
            (void)snprintf(folder, sizeof(folder), "%s/%s", jobs, at->d_name);
            status = remove_unbegun(all, folder);
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
    return status;
}

gy_status gy_job_collect(uint64_t quota_bytes, double keep_seconds, int *removed,
                         uint64_t *freed_bytes)
{
    gy_env *env = gy_env_real();
    old_jobs jobs = {.keep_from_ns = env->ops->wall_ns(env) - (int64_t)(keep_seconds * 1e9)};
    gy_status status = gy_job_list(0, add_old, &jobs);
    gy_history *history = NULL;
    if (status == GY_OK) {
        status = gy_history_open(&history);
    }
    int count = 0;
    uint64_t freed = 0;
    for (const old_job *old = jobs.oldest;
         status >= 0 && old != NULL && jobs.size_bytes - freed > quota_bytes; old = old->next) {
        status = forget(history, old);
        count += status == GY_OK;
        freed += status == GY_OK ? old->size_bytes : 0;
    }
    unbegun left = {.history = history,
                    .before_s = env->ops->wall_ns(env) / 1000000000 - UNBEGUN_SECONDS};
    status = status < 0 ? status : collect_unbegun(&left);
    count += left.removed;
    freed += left.freed_bytes;
    gy_history_close(history);
    gy_arena_free(&jobs.arena);
    if (removed != NULL) {
        *removed = count;
    }
    if (freed_bytes != NULL) {
        *freed_bytes = freed;
    }
    return status < 0 ? status : GY_OK;
}
