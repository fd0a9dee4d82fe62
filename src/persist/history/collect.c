/* Removes what old jobs left: folders, logs, output. */
#include "persist/history/history_priv.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/env.h"
#include "base/fail.h"
#include "persist/journal/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    UNBEGUN_SECONDS = 3600,
    TIDY_SECONDS = 600, /* time between two regular checks of the quota, unless */
    TIDY_PART = 64,     /* one job alone left this part of the quota */
    PATH_BYTES = 4096
};

/* An ended job, in a list from old to new, and the size of its files. */
typedef struct old_job {
    struct old_job *next;
    uint64_t size_bytes;
    bool is_young; /* it may be resumed, so only its logs are removed: a resume does not need
                      them */
    char *folder, *output;
    char id[GY_JOB_ID_BYTES];
} old_job;

typedef struct old_jobs {
    gy_arena arena;
    old_job *oldest; /* `next` leads to newer ones */
    uint64_t size_bytes;
    int64_t keep_from_ns; /* a resumable job that began later is not removed */
    bool is_tidying;      /* nor one whose output lies in a remote store */
} old_jobs;

static char *copy_text(gy_arena *arena, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = gy_arena_alloc(arena, size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

/* The path to remove: FOLDER, or only its logs. */
static gy_status place_of(const old_job *old, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s%s", old->folder, old->is_young ? "/log" : "") <
                   PATH_BYTES
               ? GY_OK
               : gy_fail(GY_IO, "the path of job %s is too long", old->id);
}

static gy_status copy_old(gy_arena *arena, const gy_job *job, old_job **made)
{
    old_job *old = gy_arena_alloc(arena, sizeof(*old));
    if (old == NULL) {
        return GY_NOMEM;
    }
    *old = (old_job){.folder = copy_text(arena, job->report.folder),
                     .output = copy_text(arena, job->output)};
    memcpy(old->id, job->id, strlen(job->id) + 1);
    *made = old;
    return old->folder != NULL && old->output != NULL ? GY_OK : GY_NOMEM;
}

static gy_status add_old(void *arg, const gy_job *job)
{
    old_jobs *jobs = arg;
    if (job->state == GY_JOB_RUNNING || job->report.folder[0] != '/') {
        return GY_OK;
    }
    char path[PATH_BYTES];
    old_job *old = NULL;
    GY_TRY(copy_old(&jobs->arena, job, &old));
    const bool waits = jobs->is_tidying && job->output[0] != '\0' && job->output[0] != '/';
    old->is_young =
        job->state != GY_JOB_DONE && (job->started_ns > jobs->keep_from_ns || waits);
    GY_TRY(place_of(old, path));
    int error = gy_disk_measure_tree(path, &old->size_bytes);
    if (error != 0) {
        return gy_fail(GY_IO, "cannot measure %s: %s", path, strerror(-error));
    }
    jobs->size_bytes += old->size_bytes;
    old->next = jobs->oldest;
    jobs->oldest = old;
    return GY_OK;
}

/* Remove the job's output first: its path is known only from the job's folder. */
static gy_status remove_files(const old_job *old)
{
    char path[PATH_BYTES];
    GY_TRY(place_of(old, path));
    if (!old->is_young && old->output[0] == '/') {
        GY_TRY(gy_history_clear_output(old->output, old->id));
    } else if (!old->is_young && old->output[0] != '\0') {
        GY_TRY(gy_history_clear_store(old->output, old->folder));
    }
    int error = gy_disk_remove_tree(path);
    return error == 0 ? GY_OK : gy_fail(GY_IO, "cannot remove %s: %s", path, strerror(-error));
}

static gy_status forget(gy_history *history, const old_job *old)
{
    if (gy_history_is_held(old->folder)) {
        return GY_AGAIN; /* the job was resumed meanwhile */
    }
    GY_TRY(remove_files(old));
    if (old->is_young) {
        return GY_OK;
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

/* ---- folders without a job in the history ---- */

typedef struct unbegun {
    gy_history *history;
    int64_t before_s; /* a younger folder may belong to a job that is about to begin */
    int removed;
    uint64_t freed_bytes;
} unbegun;

/* 1: the history has a job with this folder; 0: it has none; < 0: a failure. */
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

/* Remove a folder whose manager was killed before the job began, or kept no history. */
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
        if (at->d_name[0] != '.') { /* names of jobs do not begin with a dot */
            (void)snprintf(folder, sizeof(folder), "%s/%s", jobs, at->d_name);
            status = remove_unbegun(all, folder);
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
    return status;
}

static gy_status collect(const old_jobs *how, uint64_t quota_bytes, int *removed,
                         uint64_t *freed_bytes)
{
    gy_env *env = gy_env_real();
    old_jobs jobs = *how;
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
        count += status == GY_OK && !old->is_young;
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

gy_status gy_job_collect(uint64_t quota_bytes, double retention_s, int *removed,
                         uint64_t *freed_bytes)
{
    gy_env *env = gy_env_real();
    return collect(
        &(old_jobs){.keep_from_ns = env->ops->wall_ns(env) - (int64_t)(retention_s * 1e9)},
        quota_bytes, removed, freed_bytes);
}

gy_status gy_job_forget(const char *id)
{
    gy_arena arena = {0};
    gy_job *job = NULL;
    gy_history *history = NULL;
    old_job *old = NULL;
    GY_TRY(gy_job_read(id, &job));
    GY_ASSERT(job != NULL);
    gy_status status = copy_old(&arena, job, &old);
    status = status == GY_OK ? gy_history_open(&history) : status;
    if (status == GY_OK) {
        status = job->state == GY_JOB_RUNNING ? GY_AGAIN : forget(history, old);
    }
    if (status == GY_AGAIN) {
        status = gy_fail(GY_STATE, "job %s is running: kill it first (gyre job kill %s)",
                         job->id, job->id);
    }
    gy_history_close(history);
    gy_job_free(job);
    gy_arena_free(&arena);
    return status;
}

/* ---- the regular check ---- */

/* Has enough time passed since the last check? If so, record this check, so that other managers
 * wait as long. */
static bool is_due(void)
{
    char path[PATH_BYTES];
    struct stat about;
    if (gy_history_folder(path, sizeof(path) - sizeof(".tidied")) < 0) {
        return false;
    }
    memcpy(path + strlen(path), ".tidied", sizeof(".tidied"));
    const time_t now_s =
        (time_t)(gy_env_real()->ops->wall_ns(gy_env_real()) / INT64_C(1000000000));
    const bool is_there = stat(path, &about) == 0;
    if (is_there && about.st_mtime > now_s - TIDY_SECONDS && about.st_mtime <= now_s) {
        return false;
    }
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) {
        (void)futimens(file, NULL);
        (void)close(file);
    }
    /* The first check has little to do, so it only creates the file. */
    return file >= 0 && is_there;
}

void gy_history_tidy(const char *folder)
{
    uint64_t own_bytes = 0, quota_bytes = GY_JOB_QUOTA_BYTES;
    char log[PATH_BYTES], *end = NULL;
    const char *text = gy_setting_get("GYRE_JOB_QUOTA");
    const unsigned long long given = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text != NULL && text[0] >= '0' && text[0] <= '9' && *end == '\0') {
        quota_bytes = given;
    } else if (text != NULL) {
        gy_warn("GYRE_JOB_QUOTA is '%.40s', expected a number of bytes: it is %llu", text,
                (unsigned long long)quota_bytes);
    }
    const bool is_measured = snprintf(log, sizeof(log), "%s/log", folder) < (int)sizeof(log) &&
                             gy_disk_measure_tree(log, &own_bytes) == 0;
    if ((is_measured && own_bytes > quota_bytes / TIDY_PART) || is_due()) {
        gy_env *env = gy_env_real();
        const old_jobs jobs = {.is_tidying = true,
                               .keep_from_ns = env->ops->wall_ns(env) -
                                               (int64_t)(GY_JOB_RETENTION_S * 1e9)};
        if (collect(&jobs, quota_bytes, NULL, NULL) < 0) {
            gy_warn("cannot remove the files of old jobs: %s", gy_error_text());
        }
    }
}
