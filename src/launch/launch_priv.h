/**
 * Inside room launch. Three processes stand between the user and the ranks:
 *
 *     launcher (gy_run) -> reaper -> keeper --socket, pipes--> ranks, and what they start
 *          \_______life pipe________/
 *
 * Launcher and reaper pass signals on and wait. The keeper is the parent of all ranks and
 * adopts whatever they leave behind; when the life pipe breaks, because the launcher was
 * killed, it kills them all. Should the keeper be killed, the ranks get SIGKILL from the
 * kernel, and the reaper adopts and kills what they started.
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

enum { GY_LINE_BYTES = 8192 }; /* longer lines are passed on in pieces of this size */

typedef struct gy_launch_lines {
    int from; /* the pipe; -1: closed */
    int to;
    int rank;
    int failure; /* errno of the write that failed, after which nothing is written; 0 */
    size_t size_bytes;
    char line[GY_LINE_BYTES]; /* begun, no newline yet */
    char last[GY_LINE_BYTES]; /* the last whole line that was not blank; "" none */
} gy_launch_lines;

/** Pass on what is in the pipe; closes it (from = -1) at its end, with a newline if one is
 * missing. */
void gy_launch_lines_pass(gy_launch_lines *lines);

/* ---- share.c: cores of a rank ---- */

/**
 * The part of `all` that rank `rank` of `ranks` is bound to: neighbouring cores, every core in
 * one part, sizes differing by at most one. All of it when there are more ranks than cores.
 */
void gy_launch_share_of_cores(const cpu_set_t *all, int rank, int ranks, cpu_set_t *share);

/* ---- spawn.c: one rank ---- */

/** What a rank that could not start says on its way out. */
typedef struct gy_spawn_failure {
    int rank, reason; /* errno */
} gy_spawn_failure;

typedef struct gy_spawn {
    const gy_run_options *options;
    char *const *argv;
    int rank, size;         /* in the whole run */
    int socket;             /* its end, greeted */
    int outputs[2];         /* its standard output and error; -1: as the keeper's */
    int failures;           /* a pipe for gy_spawn_failure, close-on-exec */
    const cpu_set_t *cores; /* NULL: not bound */
    sigset_t mask;          /* signals as the user had them */
    bool is_pipe_ignored;   /* SIGPIPE too */
} gy_spawn;

/** Fork and exec. The caller closes its copies of the descriptors. GY_LIMIT no more processes
 */
GY_MUST_CHECK gy_status gy_spawn_rank(const gy_spawn *spawn, pid_t *process);

/* ---- place.c: the environment of a rank, in the forked child ---- */

/** False (errno) when there is no memory. */
bool gy_launch_place_set(const gy_spawn *spawn);
/** Where flight recorders of failed runs go: $XDG_STATE_HOME/gyre or ~/.local/state/gyre.
 * GY_ARG neither is set, or too long. */
GY_MUST_CHECK gy_status gy_launch_place_state_path(char *path, size_t size_bytes);

/* ---- nodes.c: the keepers of a run's hosts ---- */

typedef struct gy_nodes gy_nodes;

typedef struct gy_meeting {
    int *listeners; /* (ranks here) filled in: the caller's, also after a failure */
    int stops[2];   /* readable: give up (GY_CANCELLED) */
} gy_meeting;

/** Wait until the keepers of all nodes have met (with one node: at once). *nodes is to be freed
 * also after a failure. GY_TIMEOUT names who is missing; GY_STATE refused; GY_CANCELLED */
GY_MUST_CHECK gy_status gy_nodes_meet(const gy_run_options *options, gy_env *env,
                                      const gy_meeting *meeting, gy_nodes **nodes);
/** What the ranks need; free with gy_free. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_nodes_net(const gy_nodes *nodes, gy_run_net **net);
/** Descriptors to poll: at most options->nodes. */
nfds_t gy_nodes_look(const gy_nodes *nodes, struct pollfd *looks);
/** Read and write what can be; true: another host ended the run, told once. */
bool gy_nodes_step(gy_nodes *nodes, gy_run_end *end);
/** The run ends for a cause on this host. */
void gy_nodes_tell_end(gy_nodes *nodes, const gy_run_end *end);
/** All ranks here have ended well: true once those of all hosts have. */
bool gy_nodes_end_well(gy_nodes *nodes);
/** As gy_renewal_ops.tell: NODE with the places here, TABLE with all. GY_NOMEM */
GY_MUST_CHECK gy_status gy_nodes_tell(gy_nodes *nodes, int to, gy_transport_frame_type type,
                                      uint32_t generation, const gy_run_end *cause);
/** New doors for the ranks here, as gy_nodes_meet fills them in; node 0: and a new number of
 * the run. GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_nodes_seat(gy_nodes *nodes, int *listeners);
/** The ranks here run: what keepers say of generations goes to `renewal` (borrowed), first what
 * they have said before. The returns of gy_renewal_handle. */
GY_MUST_CHECK gy_status gy_nodes_attach(gy_nodes *nodes, gy_renewal *renewal);
/** Writes what is still to be told, for up to a second. */
void gy_nodes_free(gy_nodes *nodes);

/* ---- save.c: the flight recorder of a run in a file ---- */

/**
 * Write what the ranks of `segment` did to `wanted`, or (NULL) to a new file of the user's
 * folder, of which the last 16 are kept; mode 0600, whole or not at all.
 * @param path gets where
 * @return GY_OK; GY_AGAIN without `wanted`: a rank has told by itself what it lacked, nothing
 * more is to be seen; GY_ARG; GY_IO; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_launch_save_flight(int segment, const char *wanted,
                                              const gy_run_end *end, char *path,
                                              size_t size_bytes);

/* ---- keeper.c ---- */

/** Run the ranks to their end; the exit status. `life` breaks when the launcher is gone. */
int gy_launch_keep(const gy_run_options *options, char *const argv[], int life,
                   const sigset_t *mask);

#endif
