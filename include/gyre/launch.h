/**
 * Launching ranks, on this host or on several: what `gyre run` does.
 */
#ifndef GYRE_LAUNCH_H
#define GYRE_LAUNCH_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GY_RUN_RANKS_MAX = 1024,
    GY_RUN_NODES_MAX = 256,
    GY_RUN_STATUS_TIMEOUT =
        124, /* exit status when the time limit passed, as with timeout(1) */
};

/** What happens to a launch when a rank fails. */
typedef enum gy_run_failure {
    GY_RUN_END,      /* it ends all ranks */
    GY_RUN_CONTINUE, /* the other ranks go on: gy_comm_shrink */
    GY_RUN_RESTART,  /* the rank starts again: gy_comm_recover, gy_recoverable */
} gy_run_failure;

typedef struct gy_run_options {
    size_t struct_size;  /* GY_OPTIONS; 0: as compiled */
    int ranks;           /* on this host, 1 .. GY_RUN_RANKS_MAX */
    bool has_prefix;     /* "[3] " before each line of output; else ranks write directly */
    bool has_no_binding; /* every rank may use the whole cpuset */
    double timeout_s;    /* end all after this; 0: no limit */
    double kill_grace_s; /* from SIGTERM to SIGKILL; 0: 2 s */
    size_t pool_bytes; /* shared memory that a rank can register; 0: the transport's default */
    const char *const
        *environment; /* more variables, "NAME=value", NULL at the end; may be NULL */
    /* Several hosts: each calls gy_run once, as node 0 to nodes - 1. */
    int nodes, node;        /* nodes 0 or 1: this host alone */
    const char *rendezvous; /* "HOST:PORT" where node 0 listens and the others connect */
    int listener;         /* node 0: a socket that listens there, which gy_run takes; 0: none */
    const char *key_file; /* key ring; NULL: the user's, required beyond the loopback */
    const char *key;      /* in place of a file: at least 32 secret random characters */
    bool is_plaintext;    /* no encryption or authentication between hosts */
    bool is_tcp;          /* TCP between all ranks, also of one host */
    double rendezvous_timeout_s; /* until all nodes have connected; 0: 60 s */
    int lost_fd; /* a descriptor that gets a byte when the launch ends because another node was
                 lost; 0: none */
    gy_run_failure on_failure;
    int restarts; /* with GY_RUN_RESTART: maximum on this host, then the launch ends; 0: 3 */
    /* File for the flight record of the ranks (with ".NODE" behind it on several hosts); NULL:
     * a file in the user's state folder, and only when the launch fails. */
    const char *record;
} gy_run_options;

/** How a launch ended. */
typedef struct gy_run_report {
    /* What a command exits with: 0; the first failing rank's exit status, or 128 + its signal;
     * gy_comm_abort's, whatever on_failure says; 2 wrong options; 126 the program cannot be
     * executed, 127 it is missing; 128 + the signal that ended the launch;
     * GY_RUN_STATUS_TIMEOUT; 1 another error */
    int exit_status;
    bool is_started;  /* the log has told the failure; false: gy_error_text() alone says it */
    char cause[1024]; /* of an exit status other than 0, one line; "" when it is not known */
} gy_run_report;

/**
 * Start `argv[0]` (found through PATH) options->ranks times and wait until all of them have
 * ended. GYRE_RANK and GYRE_SIZE give each its rank; gy_comm_world() connects them. Rank 0 has
 * the standard input unless that is a terminal. When a rank fails, or a signal arrives, the
 * call ends the other ranks; at the end it kills every process that the ranks started, and so
 * does the death of this process. What happens is told as it happens, in this process, by the
 * log (gy_log_set_handler); nothing is printed but what the ranks themselves write.
 *
 * @param argv   program and arguments, NULL at the end; borrowed
 * @param report filled in, whatever is returned; may be NULL
 * @return GY_OK all ranks ended well, or with GY_RUN_CONTINUE at least one of this host; GY_ARG
 * wrong options; GY_TIMEOUT the time limit; GY_CANCELLED a signal to this process; GY_PEER a
 * rank, or what starts ranks, failed: says which and how; GY_IO, GY_LIMIT nothing was started
 * @threads the only one of the process
 */
GY_API GY_MUST_CHECK gy_status gy_run(const gy_run_options *options, char *const argv[],
                                      gy_run_report *report);

/**
 * Get the path of the user's key file: $XDG_CONFIG_HOME/gyre/key or ~/.config/gyre/key.
 * @return GY_OK; GY_ARG neither variable is set, or the path does not fit
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_run_key_path(char *path, size_t size_bytes);

/** Whether this process is one of several ranks that `gyre run` or an MPI launcher started.
 * @threads any */
GY_API bool gy_run_is_rank(void);

/**
 * Report a rank's failure to its launcher: `status` and gy_error_text(), for the launcher's
 * message. The first report of a launch counts; without a launcher the call does nothing.
 *
 * @return true: the launcher prints it, so this rank need not
 * @threads any
 */
GY_API bool gy_run_report_failure(gy_status status);

/**
 * Report a failure with a text of the rank's own, one line, before gy_comm_world(): wrong
 * usage, for example, which the launcher then prints once in place of every rank.
 *
 * @return as gy_run_report_failure
 * @threads any
 */
GY_API bool gy_run_report_message(gy_status status, const char *text);

#ifdef __cplusplus
}
#endif
#endif
