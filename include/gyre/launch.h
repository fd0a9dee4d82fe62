/**
 * Starting ranks, on this host or on several: what `gyre run` does.
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
        124, /* exit status when the time limit passed, as timeout(1) gives */
};

/** What the end of a rank in failure means for the run. */
typedef enum gy_run_failure {
    GY_RUN_END,      /* all are ended */
    GY_RUN_CONTINUE, /* the others go on: gy_comm_shrink */
    GY_RUN_RESTART,  /* it is started anew: gy_comm_recover, gy_recoverable */
} gy_run_failure;

typedef struct gy_run_options {
    int ranks;           /* on this host, 1 .. GY_RUN_RANKS_MAX */
    bool has_prefix;     /* "[3] " before each line of output; else ranks write directly */
    bool has_no_binding; /* leave every rank the whole cpuset */
    double timeout_s;    /* end all after this; 0: no limit */
    double kill_grace_s; /* from the polite signal to SIGKILL; 0: 2 s */
    size_t pool_bytes; /* shared memory a rank can register; 0: the default of the transport */
    const char *const
        *environment; /* more variables, "NAME=value", NULL at the end; may be NULL */
    /* Several hosts: the same program is started once on each, as node 0 to nodes - 1. */
    int nodes, node;        /* 0 and 1: this host alone */
    const char *rendezvous; /* "HOST:PORT" where node 0 listens and the others call */
    int listener;         /* node 0: a socket that listens there already, taken; 0: none does */
    const char *key_file; /* cluster key; NULL: the user's, needed but on loopback */
    const char *key;      /* instead of a file: at least 32 characters that nobody can guess */
    bool is_plaintext;    /* no encryption and no authentication between hosts */
    bool is_tcp;          /* TCP between all ranks, those of one host too */
    double rendezvous_timeout_s; /* for all nodes to be there; 0: 60 s */
    int lost_fd; /* a descriptor that gets a byte when the run ends because another node is
                 gone; 0: none */
    gy_run_failure on_failure;
    int restarts; /* with GY_RUN_RESTART: so many of this host, then it ends; 0: 3 */
    /* What the ranks did goes to this file (with ".NODE" behind it on several hosts); NULL: to
     * one of the user's state folder, and only when the run fails. */
    const char *record;
} gy_run_options;

/**
 * Start `argv[0]` (found through PATH) options->ranks times and wait for the end of all. Each
 * finds its place in GYRE_RANK and GYRE_SIZE; gy_comm_world() joins them. Rank 0 keeps standard
 * input unless it is a terminal. When one fails, or a signal comes, the others are ended;
 * whatever the ranks started is killed at the end, also if this process is killed. Call before
 * starting threads. Messages go to standard error.
 *
 * @param argv program and arguments, NULL at the end; borrowed
 * @return 0 all ranks ended well; the first failing rank's exit status, 128 + its signal; 2 bad
 * options; with GY_RUN_CONTINUE 0 too when at least one rank of this host ended well;
 * gy_comm_abort ends the run in any case; 126 the program cannot be run, 127 there is none; 128
 * + the signal that ended the run; 124 time limit; 1 something else, said on standard error
 */
GY_API int gy_run(const gy_run_options *options, char *const argv[]);

/**
 * The user's key file: $XDG_CONFIG_HOME/gyre/key or ~/.config/gyre/key.
 * @return GY_OK; GY_ARG neither is set, or it does not fit
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_run_key_path(char *path, size_t size_bytes);

/**
 * Make the key that the hosts of a cluster share: a new file of mode 0600 with one epoch of 64
 * random bytes (<gyre/key.h>). Never overwrites.
 *
 * @param path NULL: $XDG_CONFIG_HOME/gyre/key, else ~/.config/gyre/key
 * @return 0 made, its path is said on standard output; 1 not, said on standard error
 */
GY_API int gy_run_make_key(const char *path);

/** Is this process one of several ranks, that `gyre run` or an MPI's launcher started?
 * @threads any */
GY_API bool gy_run_is_rank(void);

/**
 * In a rank that is about to end with a failure: tell the launcher `status` and
 * gy_error_text(), which then stand in its message. The first one counts; without a launcher
 * nothing happens.
 *
 * @return true: a launcher was told and will say it, so this rank need not
 * @threads any
 */
GY_API bool gy_run_report_failure(gy_status status);

/**
 * The same for a rank that has not joined yet and has words of its own, one line: wrong usage,
 * for example, which the launcher then says once instead of every rank.
 */
GY_API bool gy_run_report_message(gy_status status, const char *text);

#ifdef __cplusplus
}
#endif
#endif
