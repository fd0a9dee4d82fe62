/**
 * Options of every command that runs a job, and their settings.
 */
#ifndef GY_CLI_JOBS_COMMON_H
#define GY_CLI_JOBS_COMMON_H

#include "cli/options.h"

#include <gyre/job.h>

/**
 * Find a word of a command that names a file of the current folder which the command's own
 * folder lacks. The latter has each of `files` (NULL at the end) under its last name.
 * @return true: `out` has a message about the file, without a line end
 */
bool gy_cli_find_unbrought(const char *command, const char *const *files, char *out,
                           size_t size_bytes);

typedef struct gy_job_settings {
    long long processes, threads, memo_bytes;
    double timeout, heartbeat_timeout;
    const char *folder, *memo, *trace, *sandbox;
} gy_job_settings;

/* clang-format off */
/** Rows of the table of a command whose settings, of `type`, have a gy_job_settings `job`. */
#define GY_JOB_OPTIONS(type)                                                                   \
    {&gy_option_processes, GY_OPTION_INTEGER, "default: one per core",                         \
     offsetof(type, job.processes), 1, 4096, NULL},                                            \
    {&gy_option_threads, GY_OPTION_INTEGER, "default: 1", offsetof(type, job.threads), 1,      \
     1024, NULL},                                                                              \
    {&gy_option_timeout, GY_OPTION_REAL, "default: none", offsetof(type, job.timeout), 0.001,  \
     1e9, NULL},                                                                               \
    {&gy_option_heartbeat_timeout, GY_OPTION_REAL, "default: 10",                              \
     offsetof(type, job.heartbeat_timeout), 0.1, 1e6, NULL},                                   \
    {&gy_option_folder, GY_OPTION_PATH, "default: below ~/.local/state/gyre/jobs",             \
     offsetof(type, job.folder), 0, 0, NULL},                                                  \
    {&gy_option_memo, GY_OPTION_PATH, "reuse its results and add new ones",                    \
     offsetof(type, job.memo), 0, 0, NULL},                                                    \
    {&gy_option_memo_quota, GY_OPTION_SIZE, "default: 10GiB", offsetof(type, job.memo_bytes),  \
     1, 0, NULL},                                                                              \
    {&gy_option_trace, GY_OPTION_PATH, NULL, offsetof(type, job.trace), 0, 0, NULL},           \
    {&gy_option_sandbox, GY_OPTION_TEXT, "strict, available, or a list of parts; default: none",\
     offsetof(type, job.sandbox), 0, 0, NULL}
/* clang-format on */

/** Write local date and time, or "-", into `out`; returns it. */
const char *gy_cli_date_text(int64_t wall_ns, char out[32]);

/** Print a part of a job's report under its heading; nothing for an empty part. The times of
 * notes are relative to begin_ns (wall clock); 0: they are dates. */
void gy_cli_print_stages(const gy_job_stage *stages, size_t count);
void gy_cli_print_counters(const gy_job_counter *counters, size_t count);
void gy_cli_print_notes(const gy_job_note *notes, size_t count, int64_t begin_ns);

#endif
