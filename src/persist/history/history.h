/**
 * What a manager writes to the history of jobs (<gyre/job.h> reads it). The history serves
 * people: no job depends on it, and nothing in it is synced.
 */
#ifndef GY_PERSIST_HISTORY_HISTORY_H
#define GY_PERSIST_HISTORY_HISTORY_H

#include "base/base.h"

#include <gyre/job.h>

/** Environment variable: resume the job in this folder. */
#define GY_JOB_RESUME_VARIABLE "GYRE_JOB_RESUME"
/**
 * Environment variable: the epoch of which the program is the manager, in a folder that hosts
 * share. The program begins the job, or resumes it if it finds one.
 */
#define GY_JOB_EPOCH_VARIABLE "GYRE_JOB_EPOCH"
/**
 * Environment variable: the URI of the journal; if it is not set, the journal is in the job's
 * folder.
 */
#define GY_JOB_JOURNAL_VARIABLE "GYRE_JOB_JOURNAL"

typedef struct gy_history gy_history;

/** Open the history, and create it if it does not exist. GY_IO, GY_NOMEM. Not thread-safe. */
GY_MUST_CHECK gy_status gy_history_open(gy_history **history);
/** NULL is allowed. */
void gy_history_close(gy_history *history);

/** Does a process hold the lock of a job's folder? Then the job's manager is alive. */
bool gy_history_is_held(const char *folder);

/**
 * The file in a job's folder with the environment variables that its program started with, one
 * NAME=VALUE per line: gy_job_resume sets them again.
 */
#define GY_JOB_SETTINGS_FILE "settings"

/** The folder of all jobs' folders: $XDG_STATE_HOME/gyre/jobs. GY_LIMIT, GY_STATE no home */
GY_MUST_CHECK gy_status gy_history_folder(char *path, size_t size_bytes);

/**
 * Record that a job begins or resumes (then its row with the same id becomes running again and
 * retains its notes). Uses id, name, folder, output, directory, arguments, pid, started_ns.
 */
GY_MUST_CHECK gy_status gy_history_begin(gy_history *history, const gy_job *job);

/**
 * Queue a note for the next save; notes beyond GY_JOB_NOTES_MAX are only counted. `text` is
 * copied. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_history_note(gy_history *history, int64_t wall_ns, const char *text);

/**
 * Write the job's current state. Notes since the last save are added; state, ended_ns, reason,
 * stages, counters and bad records of `job` replace those written since gy_history_begin; runs,
 * failures, backup tasks and seconds of earlier managers are added to its own.
 */
GY_MUST_CHECK gy_status gy_history_save(gy_history *history, const gy_job *job);

/**
 * At the end of a job: enforce the quota for the files of ended jobs ($GYRE_JOB_QUOTA, else
 * GY_JOB_QUOTA_BYTES), as gy_job_collect does. A failure is only a warning.
 *
 * @param folder  of the job
 * @cost measures the job's logs; if they are large, and every ten minutes, those of all jobs
 */
void gy_history_tidy(const char *folder);

#endif
