/**
 * Options that every command has which runs a job, and the settings behind them.
 */
#ifndef GY_CLI_JOBS_COMMON_H
#define GY_CLI_JOBS_COMMON_H

#include "cli/options.h"

#include <gyre/job.h>

/**
 * Find a word of a command that names a file of this folder which the command's own folder
 * lacks: of `files` (NULL at the end) each lies there under its last name.
 * @return true: `out` says so, without a line end
 */
bool gy_cli_find_unbrought(const char *command, const char *const *files, char *out,
                           size_t size_bytes);

typedef struct gy_job_settings {
    long long processes, threads, memo_bytes;
    double timeout, silence;
    const char *folder, *memo, *trace, *sandbox;
} gy_job_settings;

/* clang-format off */
/** Rows of the table of a command whose settings, of `type`, have a gy_job_settings `job`. */
#define GY_JOB_OPTIONS(type)                                                                   \
    {"processes", 'p', GY_OPTION_INTEGER, "N", "processes at work (default: one a core)",      \
     offsetof(type, job.processes), 1, 4096, NULL},                                            \
    {"threads", 't', GY_OPTION_INTEGER, "N", "tasks at once in a process (default: 1)",        \
     offsetof(type, job.threads), 1, 1024, NULL},                                              \
    {"timeout", 0, GY_OPTION_REAL, "SECONDS", "end the job after this time (default: never)",  \
     offsetof(type, job.timeout), 0.001, 1e9, NULL},                                           \
    {"silence", 0, GY_OPTION_REAL, "SECONDS",                                                  \
     "a process that is silent for so long is lost (default: 10)",                             \
     offsetof(type, job.silence), 0.1, 1e6, NULL},                                             \
    {"folder", 0, GY_OPTION_PATH, "DIR", "of the job: journal, intermediates, log",            \
     offsetof(type, job.folder), 0, 0, NULL},                                                  \
    {"memo", 0, GY_OPTION_PATH, "DIR", "keep results there, and take what is there",           \
     offsetof(type, job.memo), 0, 0, NULL},                                                    \
    {"memo-quota", 0, GY_OPTION_SIZE, "SIZE",                                                  \
     "what stays in the memo, the least recently used goes (default: 10GiB)",                  \
     offsetof(type, job.memo_bytes), 1, 0, NULL},                                              \
    {"trace", 0, GY_OPTION_PATH, "FILE", "write a Chrome trace of all processes",              \
     offsetof(type, job.trace), 0, 0, NULL},                                                   \
    {"sandbox", 0, GY_OPTION_TEXT, "LIST",                                                     \
     "walls around the processes: strict, available, or parts (default: none)",                \
     offsetof(type, job.sandbox), 0, 0, NULL}
/* clang-format on */

/** `out`, with date and time of this place, or "-". */
const char *gy_cli_date_text(int64_t wall_ns, char out[32]);

/** What is known of a job, with a heading each; of none nothing. Notes are told from begin_ns
 * (wall clock) on; 0: with their dates. */
void gy_cli_print_stages(const gy_job_stage *stages, size_t count);
void gy_cli_print_counters(const gy_job_counter *counters, size_t count);
void gy_cli_print_notes(const gy_job_note *notes, size_t count, int64_t begin_ns);

#endif
