/**
 * Inside room launch. Three processes stand between the user and the ranks:
 *
 *     launcher (gy_run) -> reaper -> keeper --socket, pipes--> ranks, and what they start
 *          \_______life pipe________/
 *
 * Launcher and reaper pass signals on and wait. The keeper is the parent of all ranks and
 * adopts whatever they leave behind; when the life pipe breaks, because the launcher was
 * killed, it kills them all. If the keeper is killed, the kernel sends SIGKILL to the ranks,
 * and the reaper adopts and kills the processes they started.
 */
#ifndef GY_LAUNCH_LAUNCH_PRIV_H
#define GY_LAUNCH_LAUNCH_PRIV_H

#include "base/base.h"

#include "launch/renewal.h"
#include "transport/rendezvous.h"
#include "worker/reap.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/types.h>

/* ---- lines.c: output of one rank, line by line ---- */

enum { GY_LINE_BYTES = 8192 }; /* longer lines are forwarded in pieces of this size */

typedef struct gy_launch_lines {
    int from; /* the pipe; -1: closed */
    int to;
    int rank;
    int failure; /* errno of the failed write, after which nothing more is written; 0 */
    size_t size_bytes;
    char line[GY_LINE_BYTES]; /* an incomplete line */
    char last[GY_LINE_BYTES]; /* the last complete line that was not empty; "": none */
} gy_launch_lines;

/** Forward what is in the pipe; at its end close it (from = -1) and add a missing newline. */
void gy_launch_lines_pass(gy_launch_lines *lines);

/* ---- share.c: cores of a rank ---- */

/**
 * The cores of `all` that rank `rank` of `ranks` is bound to: neighbouring cores; every core in
 * one share, sizes differ by at most one. All cores if there are more ranks than cores.
 */
void gy_launch_share_of_cores(const cpu_set_t *all, int rank, int ranks, cpu_set_t *share);

/* ---- spawn.c: one rank ---- */

/** The report of a rank that could not start. */
typedef struct gy_spawn_failure {
    int rank, reason; /* errno */
} gy_spawn_failure;

typedef struct gy_spawn {
    const gy_run_options *options;
    char *const *argv;
    int rank, size;         /* in the whole launch */
    int socket;             /* the rank's end, with the greeting sent */
    int outputs[2];         /* standard output and error; -1: the keeper's */
    int failures;           /* a pipe for gy_spawn_failure, close-on-exec */
    const cpu_set_t *cores; /* NULL: not bound */
    sigset_t mask;          /* the user's signal mask */
    bool is_pipe_ignored;   /* SIGPIPE too */
} gy_spawn;

/**
 * Fork and exec. The caller closes its copies of the descriptors. GY_LIMIT: no more processes
 */
GY_MUST_CHECK gy_status gy_spawn_rank(const gy_spawn *spawn, pid_t *process);

/* ---- place.c: the environment of a rank, in the forked child ---- */

/** False (errno): out of memory. */
bool gy_launch_place_set(const gy_spawn *spawn);
/**
 * The folder for flight records of failed launches: $XDG_STATE_HOME/gyre or
 * ~/.local/state/gyre. GY_ARG: neither is set, or too long.
 */
GY_MUST_CHECK gy_status gy_launch_place_state_path(char *path, size_t size_bytes);

/* ---- nodes.c: the keepers on all hosts of a launch ---- */

typedef struct gy_nodes gy_nodes;

typedef struct gy_meeting {
    int *listeners; /* (local ranks) result, owned by the caller, also after a failure */
    int stops[2];   /* readable: stop waiting (GY_CANCELLED) */
} gy_meeting;

/**
 * Wait until the keepers of all nodes are connected (with one node: at once). *nodes must be
 * freed also after a failure. GY_TIMEOUT names the missing nodes; GY_STATE refused;
 * GY_CANCELLED
 */
GY_MUST_CHECK gy_status gy_nodes_meet(const gy_run_options *options, gy_env *env,
                                      const gy_meeting *meeting, gy_nodes **nodes);
/** The addresses that the ranks need; free with gy_free. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_nodes_net(const gy_nodes *nodes, gy_run_net **net);
/** Fill in descriptors to poll, at most options->nodes; returns how many. */
nfds_t gy_nodes_poll(const gy_nodes *nodes, struct pollfd *looks);
/** Read and write without blocking; true: another host ended the launch, reported once. */
bool gy_nodes_step(gy_nodes *nodes, gy_run_end *end);
/** Report to the other hosts that the launch ends for a cause on this host. */
void gy_nodes_report_end(gy_nodes *nodes, const gy_run_end *end);
/** All local ranks have ended well. True: so have those of all hosts. */
bool gy_nodes_end_well(gy_nodes *nodes);
/** As gy_renewal_ops.tell: NODE carries the local addresses, TABLE all. GY_NOMEM */
GY_MUST_CHECK gy_status gy_nodes_send(gy_nodes *nodes, int to, gy_transport_frame_type type,
                                      uint32_t generation, const gy_run_end *cause);
/**
 * Open new listeners for the local ranks, as gy_nodes_meet does; node 0 also draws a new launch
 * id. GY_NOMEM; GY_IO
 */
GY_MUST_CHECK gy_status gy_nodes_listen(gy_nodes *nodes, int *listeners);
/**
 * The local ranks are started: pass keepers' messages about generations to `renewal`
 * (borrowed), those that came before first. Returns as gy_renewal_handle.
 */
GY_MUST_CHECK gy_status gy_nodes_attach(gy_nodes *nodes, gy_renewal *renewal);
/** Sends pending messages, for up to a second. */
void gy_nodes_free(gy_nodes *nodes);

/* ---- save.c: writes a flight record ---- */

/**
 * Write the flight record of the ranks of `segment` to `wanted`, or (NULL) to a new file in the
 * user's folder, which retains the last 16; mode 0600, atomically.
 * @param path the file's path
 * @return GY_OK; GY_AGAIN without `wanted`: a rank has reported its own cause, so a record
 * would add nothing; GY_ARG; GY_IO; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_launch_save_flight(int segment, const char *wanted,
                                              const gy_run_end *end, char *path,
                                              size_t size_bytes);

/* ---- messages.c: what reaper and keeper say, in the launcher's log ---- */

/** [0] the launcher's, [1] the others'. GY_LIMIT */
GY_MUST_CHECK gy_status gy_launch_messages_open(int sockets[2]);
/** In reaper and keeper: this process's log goes there from now on. */
void gy_launch_messages_send_to(int socket);
/** There, too: why the launch fails, for gy_run_report.cause. The last word counts. */
void gy_launch_messages_cause(const char *cause);
/** In the launcher: take one message, if there is any. False: there will be none any more. */
bool gy_launch_messages_pass(int socket, gy_run_report *report);

/* ---- keeper.c ---- */

/** Run the ranks to their end; the exit status. `life` breaks when the launcher ends. */
int gy_launch_keep(const gy_run_options *options, char *const argv[], int life,
                   const sigset_t *mask);

#endif
