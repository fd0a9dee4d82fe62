/**
 * The history of jobs: what ran on this machine for this user, and why it went as it went. Kept
 * in $XDG_STATE_HOME/gyre/history.db (or ~/.local/state/gyre), a SQLite file.
 */
#ifndef GYRE_JOB_H
#define GYRE_JOB_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gy_job_state {
    GY_JOB_RUNNING,
    GY_JOB_DONE,
    GY_JOB_FAILED,
    GY_JOB_KILLED,
    GY_JOB_INTERRUPTED, /* its manager is gone; it can be resumed */
} gy_job_state;

/** One stage as it stood when the job last told. */
typedef struct gy_job_stage {
    const char *name;
    int64_t tasks, committed, memoised;
    /* of all managers that the job had; of one that was killed, as it last told */
    int64_t attempts, failures, backups, backups_won;
    double run_s; /* of runs that ended well */
} gy_job_stage;

typedef struct gy_job_counter {
    const char *name;
    int64_t value;
} gy_job_counter;

/** Why something waited, failed, died, was copied or ran again. */
typedef struct gy_job_note {
    int64_t wall_ns; /* since 1970 */
    const char *text;
} gy_job_note;

/** A record that was skipped. */
typedef struct gy_job_bad_record {
    const char *source; /* file, or reduce key */
    uint64_t offset;
    const char *what, *backtrace; /* "SIGSEGV"; "" when it was lost */
} gy_job_bad_record;

/** A job; all texts belong to it. */
typedef struct gy_job {
    const char *id, *name, *folder, *output, *directory, *reason;
    const char *const *arguments; /* as its program was called, NULL at the end */
    gy_job_state state;
    int64_t pid, started_ns, ended_ns; /* wall clock; 0: not ended */
    const gy_job_stage *stages;
    const gy_job_counter *counters;
    const gy_job_note *notes; /* the first GY_JOB_NOTES_MAX, in order */
    const gy_job_bad_record *bad_records;
    size_t stage_count, counter_count, note_count, bad_record_count;
    int64_t notes_dropped;
} gy_job;

enum { GY_JOB_NOTES_MAX = 2000, GY_JOB_ID_BYTES = 40 };

/**
 * Read a job with all that is known of it.
 *
 * @param id  as gy_job_list gives it; a unique beginning of it will do
 * @param job caller owns; free with gy_job_free
 * @return GY_OK; GY_NOTFOUND no job's id begins so; GY_ARG several do; GY_IO; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_job_read(const char *id, gy_job **job);
/** NULL is fine. */
GY_API void gy_job_free(gy_job *job);

/** Called for each job, without stages, counters, notes and bad records; not GY_OK ends the
 * list and is returned. */
typedef gy_status (*gy_job_visit)(void *arg, const gy_job *job);

/** The last `limit` jobs (0: all), newest first. GY_IO; GY_NOMEM; what visit returns */
GY_API GY_MUST_CHECK gy_status gy_job_list(int limit, gy_job_visit visit, void *arg);

/**
 * Ask the manager of a running job to end it, as Ctrl-C does; does not wait for its end.
 *
 * @return GY_OK; GY_NOTFOUND; GY_STATE it does not run; GY_IO
 */
GY_API GY_MUST_CHECK gy_status gy_job_kill(const char *id);

/**
 * Go on with a job whose manager is gone: replaces this process by the job's program, called as
 * it was, in the folder where it was. What was committed does not run again. Of a job that
 * ended well, but whose manager was killed before it had cleaned up, only that is done.
 *
 * @return only on failure: GY_NOTFOUND; GY_STATE it runs or has ended well; GY_IO
 */
GY_API GY_MUST_CHECK gy_status gy_job_resume(const char *id);

/** What each job's end keeps of earlier ones without being asked, as gy_job_collect does. */
#define GY_JOB_QUOTA_BYTES (UINT64_C(1) << 30)
#define GY_JOB_RETENTION_S (7.0 * 86400)

/**
 * Forget ended jobs, oldest first, until their folders hold at most quota_bytes, with what they
 * left in their output when they were interrupted; jobs that run stay, and of those that can be
 * resumed within `retention_s` of their start the logs go alone. So do folders that no job of
 * the history has, once an hour old.
 *
 * @param removed how many jobs went; may be NULL
 * @param freed_bytes of their folders; may be NULL
 * @return GY_OK; GY_IO; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_job_collect(uint64_t quota_bytes, double retention_s,
                                              int *removed, uint64_t *freed_bytes);

/**
 * Forget one ended job, whatever its age: its folder, and what it left in its output when it
 * was interrupted. It cannot be resumed then.
 *
 * @param id  as for gy_job_read
 * @return GY_OK; GY_NOTFOUND; GY_ARG several jobs' ids begin so; GY_STATE it runs; GY_IO;
 * GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_job_forget(const char *id);

#ifdef __cplusplus
}
#endif
#endif
