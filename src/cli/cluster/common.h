/**
 * Options of every command that connects to a name server.
 */
#ifndef GY_CLI_CLUSTER_COMMON_H
#define GY_CLI_CLUSTER_COMMON_H

#include "cli/options.h"

#include <gyre/cluster.h>
#include <gyre/launch.h>

typedef struct gy_names_settings {
    const char *names, *key;
    bool is_plaintext;
    double connect_timeout_s;
} gy_names_settings;

/* clang-format off */
/** Rows of the table of a command whose settings, of `type`, have a gy_names_settings `at`. */
#define GY_NAMES_OPTIONS(type)                                                                 \
    {&gy_option_nameservers, GY_OPTION_TEXT, NULL, offsetof(type, at.names), 0, 0, NULL},      \
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes",                 \
     offsetof(type, at.key), 0, 0, NULL},                                                      \
    {&gy_option_plaintext, GY_OPTION_FLAG, "loopback addresses only",                          \
     offsetof(type, at.is_plaintext), 0, 0, NULL},                                             \
    {&gy_option_connect_timeout, GY_OPTION_REAL, "default: 10",                                \
     offsetof(type, at.connect_timeout_s), 0.001, 1e5, NULL}
/* clang-format on */

/** Whether the command line has an option about the cluster's name servers. The job is then one
 * of a cluster, and a missing --nameservers is wrong usage. */
bool gy_cli_is_of_cluster(const gy_names_settings *at);

/** Open a client of the name servers. A failure is reported after `what`. Returns the exit
 * status. */
int gy_cli_open_cluster(const char *what, const gy_names_settings *at, gy_cluster **cluster);

/** The same in the role of an operator, who may drain daemons. */
int gy_cli_open_operator(const char *what, const gy_names_settings *at, gy_cluster **cluster);

/** Report the failure of `status`, if it is one, and close the client. Returns the exit status.
 */
int gy_cli_close_cluster(const char *what, gy_cluster *cluster, gy_status status);
/** Find the key file: the given one, or the user's; NULL for plain text. Returns the exit
 * status. */
int gy_cli_find_key(const char *what, const char *given, bool is_plaintext, char kept[4096],
                    const char **key);

/** Report `status`: GY_ARG as wrong usage, else as a failure. Returns the exit status. */
int gy_cli_failure(const char *what, gy_status status);
/** Check an option: HOST:PORT to listen at (port_min 0), or HOST:PORT,... (1). NULL is valid.
 * Returns the exit status. */
int gy_cli_check_addresses(const char *what, const char *option, const char *addresses,
                           int port_min);

/** Write HOST:PORT to a file for scripts; the file appears whole or not at all. A failure is
 * reported and ends this process as SIGTERM does. Without a path (NULL) do nothing. Returns
 * false for a failure. */
bool gy_cli_write_port_file(const char *what, const char *path, const char *address);

/** The verbs of `gyre job` with --nameservers; each returns the exit status. */
int gy_cli_cluster_jobs(const gy_names_settings *at);
int gy_cli_cluster_show(const gy_names_settings *at, const char *job);
int gy_cli_cluster_kill(const gy_names_settings *at, const char *job);
/** timeout in seconds for all of them; 0: none */
int gy_cli_cluster_forget(const gy_names_settings *at, double timeout, char **jobs, int count);

/** The output of a job that this command has printed; zero at first. */
typedef struct gy_cli_heard {
    uint32_t epoch; /* epoch of the manager that printed last */
    char tail[4096];
    size_t tail_bytes; /* bytes in the tail */
} gy_cli_heard;

/** A gy_cluster_output_handler that prints to standard output and reports missing output.
 * `arg`: gy_cli_heard. */
void gy_cli_print_said(void *arg, uint32_t epoch, uint64_t lost, const char *text,
                       size_t size_bytes);
/** Report that a job failed, and the reason unless the job has printed it itself. */
void gy_cli_tell_end(const char *what, const char *id, const gy_cluster_result *end,
                     const gy_cli_heard *heard);

/* ---- gyre run --hosts ---- */

typedef struct gy_hosts_settings {
    long long hosts, weight; /* hosts 0: this host only */
    gy_names_settings at;
    gy_option_list files, variables;
    const char *name, *label, *folder;
} gy_hosts_settings;

/** Submit it and wait, or (in the job's manager) run it; returns the exit status. run->ranks
 * counts the ranks of all hosts. */
int gy_cli_run_hosts(const gy_hosts_settings *given, const gy_run_options *run,
                     char **operands);

/* `gyre job submit`, `wait` and `resume`, for the table of verbs. */
enum { GY_SUBMIT_OPTIONS = 13, GY_WAIT_OPTIONS = 5, GY_RESUME_OPTIONS = 6 };
typedef struct gy_submit_settings gy_submit_settings;
extern gy_submit_settings gy_submit_given;
extern const gy_option gy_submit_options[GY_SUBMIT_OPTIONS];
extern const gy_option gy_wait_options[GY_WAIT_OPTIONS];
extern const gy_option gy_resume_options[GY_RESUME_OPTIONS];
int gy_cli_job_submit(char **operands, int count);
int gy_cli_job_wait(char **operands, int count);
/** With --nameservers, and for a job on this machine. */
int gy_cli_job_resume(char **operands, int count);

#endif
