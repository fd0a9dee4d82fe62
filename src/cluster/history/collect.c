/* What old jobs left is removed. */
#include "cluster/history/history_priv.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/env.h"
#include "base/fail.h"

#include <string.h>

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
