/**
 * Inside room launch. Three processes stand between the user and the ranks:
 *
 *     launcher (gy_run) -> guard -> keeper --socket, pipes--> ranks, and what they start
 *          \_______life pipe________/
 *
 * Launcher and guard pass signals on and wait. The keeper is the parent of all ranks and adopts
 * whatever they leave behind; when the life pipe breaks, because the launcher was killed, it
 * kills them all. Should the keeper be killed, the ranks get SIGKILL from the kernel, and the
 * guard adopts and kills what they started.
 */
#ifndef GY_LAUNCH_LAUNCH_PRIV_H
#define GY_LAUNCH_LAUNCH_PRIV_H

#include "base/base.h"

#include <gyre/launch.h>

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

/* ---- lines.c: output of one rank, line by line ---- */

enum { GY_LINE_BYTES = 8192 }; /* longer lines are passed on in pieces of this size */

typedef struct gy_lines {
    int from; /* the pipe; -1: closed */
    int to;
    int rank;
    int failure; /* errno of the write that failed, after which nothing is written; 0 */
    size_t size_bytes;
    char line[GY_LINE_BYTES]; /* begun, no newline yet */
    char last[GY_LINE_BYTES]; /* the last whole line that was not blank; "" none */
} gy_lines;

/** Pass on what is in the pipe; closes it (from = -1) at its end, with a newline if one is
 * missing. */
void gy_lines_pass(gy_lines *lines);

/* ---- share.c: cores of a rank ---- */

/**
 * The part of `all` that rank `rank` of `ranks` is bound to: neighbouring cores, every core in
 * one part, sizes differing by at most one. All of it when there are more ranks than cores.
 */
void gy_share_of_cores(const cpu_set_t *all, int rank, int ranks, cpu_set_t *share);

/* ---- spawn.c: one rank ---- */

/** What a rank that could not start says on its way out. */
typedef struct gy_spawn_failure {
    int rank, reason; /* errno */
} gy_spawn_failure;

typedef struct gy_spawn {
    const gy_run_options *options;
    char *const *argv;
    int rank;
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
bool gy_place_set(const gy_spawn *spawn);

/* ---- reap.c ---- */

enum { GY_REAP_SECONDS = 10 };

/** Kill every child, adopted ones too, until none is left or the deadline passed (then false).
 */
bool gy_reap_all(gy_env *env, gy_deadline deadline);

/* ---- keeper.c ---- */

/** Run the ranks to their end; the exit status. `life` breaks when the launcher is gone. */
int gy_keep(const gy_run_options *options, char *const argv[], int life, const sigset_t *mask);

#endif
