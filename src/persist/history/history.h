/**
 * What a manager tells the history of jobs (<gyre/job.h> reads it). The history is for people:
 * a job does not depend on it, and nothing of it is synced.
 */
#ifndef GY_PERSIST_HISTORY_HISTORY_H
#define GY_PERSIST_HISTORY_HISTORY_H

#include "base/base.h"

#include <gyre/job.h>

/** The variable that tells a program to go on with the job of this folder. */
#define GY_JOB_RESUME_VARIABLE "GYRE_JOB_RESUME"
/** The variable that tells a program which epoch it is the manager of, on a folder that hosts
 * share: it begins the job or goes on with it, whichever it finds. */
#define GY_JOB_EPOCH_VARIABLE "GYRE_JOB_EPOCH"
/** The variable that tells it where the journal is, a URI; not set: in the job's folder. */
#define GY_JOB_JOURNAL_VARIABLE "GYRE_JOB_JOURNAL"

typedef struct gy_history gy_history;

/** Open, and make when it is not there. GY_IO, GY_NOMEM. Not thread-safe. */
GY_MUST_CHECK gy_status gy_history_open(gy_history **history);
/** NULL is fine. */
void gy_history_close(gy_history *history);

/** True when the lock of a job's folder is held by a process: its manager lives. */
bool gy_history_is_held(const char *folder);

/** The file in a job's folder with the variables that its program was told by, a line of
 * NAME=VALUE each: gy_job_resume sets them again. */
#define GY_JOB_SETTINGS_FILE "settings"

/** Where jobs have their folders: $XDG_STATE_HOME/gyre/jobs. GY_LIMIT, GY_STATE no home */
GY_MUST_CHECK gy_status gy_history_folder(char *path, size_t size_bytes);

/**
 * A job begins, or goes on (then its row of the same id is set running again and keeps notes).
 * Read are id, name, folder, output, directory, arguments, pid, started_ns.
 */
GY_MUST_CHECK gy_status gy_history_begin(gy_history *history, const gy_job *job);

/** Keep a note until the next save; beyond GY_JOB_NOTES_MAX they are counted alone. `text` is
 * copied. GY_NOMEM */
GY_MUST_CHECK gy_status gy_history_note(gy_history *history, int64_t wall_ns, const char *text);

/**
 * Write the job as it stands: notes since the last save are added; state, ended_ns, reason,
 * stages, counters and bad records of `job` replace what was there since gy_history_begin;
 * runs, failures, copies and seconds of managers before it are added to its own.
 */
GY_MUST_CHECK gy_status gy_history_save(gy_history *history, const gy_job *job);

/**
 * At the end of a job: keep the quota of what ended jobs leave ($GYRE_JOB_QUOTA, else
 * GY_JOB_QUOTA_BYTES), as gy_job_collect does. What fails is a warning.
 *
 * @param folder  of the job
 * @cost a look at its logs; all jobs are looked at when those are large, and every ten minutes
 */
void gy_history_tidy(const char *folder);

#endif
