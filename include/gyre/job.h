/**
 * Reports of jobs, and the history: what ran on this machine for this user, how it ended and
 * why. The history is a SQLite file, $XDG_STATE_HOME/gyre/history.db (or ~/.local/state/gyre).
 */
#ifndef GYRE_JOB_H
#define GYRE_JOB_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the report of a job ---- */

/** A stage of a job. A cohort counts as one task in each of its stages; what follows `running`
 * is counted at the first of them. */
typedef struct gy_job_stage {
    const char *name;
    int64_t tasks, committed, running;
    int64_t memoised; /* of committed: taken from an earlier job */
    /* Of all managers that the job had; a manager that was killed counts as in its last report.
     */
    int64_t attempts, failures, backups, backups_won;
    int64_t bytes; /* written by committed tasks; of gy_flow_run alone */
    double run_s;  /* summed over attempts that ended well */
} gy_job_stage;

typedef struct gy_job_counter {
    const char *name;
    int64_t value;
} gy_job_counter;

/** Why a task waited, failed, was lost, got a backup or ran again. */
typedef struct gy_job_note {
    int64_t wall_ns; /* since 1970 */
    const char *text;
} gy_job_note;

/** A record that was skipped. */
typedef struct gy_job_bad_record {
    const char *source; /* file, or reduce key */
    uint64_t offset;
    const char *what, *backtrace; /* "SIGSEGV"; "" when the process left none */
} gy_job_bad_record;

/** An attempt that takes longer than the others of its stage. */
typedef struct gy_job_straggler {
    const char *stage, *host;
    uint32_t task;
    double run_s, expected_s; /* expected_s 0: not known */
} gy_job_straggler;

/**
 * What a job did so far, or until its end. Each committed task counts once, whatever its
 * attempts. Who makes a report says which lists it has; the others are empty. All texts belong
 * to the report.
 */
typedef struct gy_job_report {
    const char *name, *folder;
    uint32_t epoch;    /* of the manager that made it, 1 for the first; 0: there is none */
    double duration_s; /* since gy_flow_run was called */
    const gy_job_stage *stages;           /* (stage_count) in the order of making */
    const gy_job_counter *counters;       /* (counter_count) by name */
    const gy_job_note *notes;             /* (note_count) in order */
    const gy_job_bad_record *bad_records; /* (bad_record_count) */
    const gy_job_straggler *stragglers;   /* (straggler_count) the slowest first */
    size_t stage_count, counter_count, note_count, bad_record_count, straggler_count;
    int64_t notes_dropped;       /* beyond those of `notes` */
    int64_t bytes, output_bytes; /* written by all tasks; in the job's output */
    int64_t skipped_records;
    const char *bad_record_text; /* for people: a line each with its backtrace; "" when none */
} gy_job_report;

/** The counter's value, 0 when no vertex counted it. */
GY_API int64_t gy_job_report_counter(const gy_job_report *report, const char *name);

/* ---- the history ---- */

typedef enum gy_job_state {
    GY_JOB_RUNNING,
    GY_JOB_DONE,
    GY_JOB_FAILED,
    GY_JOB_KILLED,
    GY_JOB_INTERRUPTED, /* its manager was lost; it can be resumed */
} gy_job_state;

/** A job of the history; all texts belong to it. */
typedef struct gy_job {
    const char *id, *output, *directory, *reason;
    const char *const *arguments; /* of its program, NULL at the end */
    gy_job_state state;
    int64_t pid, started_ns, ended_ns; /* wall clock; 0: not ended */
    gy_job_report report;              /* name, folder, stages, counters, bad records, the first
                                          GY_JOB_NOTES_MAX notes */
} gy_job;

enum { GY_JOB_NOTES_MAX = 2000, GY_JOB_ID_BYTES = 40 };

/**
 * Read a job with all that the history has of it.
 *
 * @param id  as gy_job_list gives it, or a unique prefix of it
 * @param job caller owns; free with gy_job_free
 * @return GY_OK; GY_NOTFOUND no job's id begins so; GY_ARG several do; GY_IO; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_job_read(const char *id, gy_job **job);
/** NULL is fine. */
GY_API void gy_job_free(gy_job *job);

/** Takes a job, of whose report name and folder are set. A status other than GY_OK ends the
 * list and is returned. */
typedef gy_status (*gy_job_visit)(void *arg, const gy_job *job);

/** Visit the last `limit` jobs (0: all), newest first. GY_IO; GY_NOMEM; what `visit` returned
 */
GY_API GY_MUST_CHECK gy_status gy_job_list(int limit, gy_job_visit visit, void *arg);

/**
 * Ask the manager of a running job to end it, as Ctrl-C does. Does not wait for its end.
 *
 * @return GY_OK; GY_NOTFOUND; GY_STATE it does not run; GY_IO
 */
GY_API GY_MUST_CHECK gy_status gy_job_kill(const char *id);

/**
 * Resume a job whose manager was lost: this process becomes the job's program, with its
 * arguments, in its directory. Committed tasks do not run again. When a job ended well but its
 * manager was killed before the cleanup, only the cleanup runs.
 *
 * @return only on failure: GY_NOTFOUND; GY_STATE it runs or has ended well; GY_IO
 */
GY_API GY_MUST_CHECK gy_status gy_job_resume(const char *id);

/** Each job's end collects earlier jobs with these values (gy_job_collect). */
#define GY_JOB_QUOTA_BYTES (UINT64_C(1) << 30)
#define GY_JOB_RETENTION_S (7.0 * 86400)

/**
 * Discard ended jobs, oldest first, until their folders hold at most quota_bytes, with what
 * interrupted jobs left in their output. Running jobs stay; of jobs that can be resumed and
 * started less than retention_s ago only the logs go. Folders that belong to no job of the
 * history go when they are an hour old.
 *
 * @param removed     becomes the number of discarded jobs; may be NULL
 * @param freed_bytes becomes the size of their folders; may be NULL
 * @return GY_OK; GY_IO; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_job_collect(uint64_t quota_bytes, double retention_s,
                                              int *removed, uint64_t *freed_bytes);

/**
 * Discard one ended job, whatever its age: its folder, and what it left in its output when it
 * was interrupted. It can then not be resumed.
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
