/*
 * The reaper: the fork server's parent, which only waits for its end. If one of the two is
 * killed, the other ends all that is left:
 *
 *     driver --exec--> reaper --fork--> fork server --fork--> vertex process 0, 1, ...
 *
 * When the fork server dies, its vertex processes die with it (parent-death signal), and the
 * reaper, as the next subreaper, adopts the daemons that they left. When the reaper dies, the
 * fork server sees its pipe close and ends as if the driver had ended. Both hold the driver's
 * socket open, so it closes when both have ended and nothing is left. Daemons survive only if
 * both are killed at once, and no control group or PID namespace holds them.
 */
#include "worker/serve_priv.h"

#include "worker/reap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* All that the reaper does after the fork, except to return from main. */
static void reap_all(pid_t fork_server, const gy_role *role)
{
    gy_limits_collect(); /* concurrently with the job, which does not wait for it */
    /* No deadline: the fork server lives as long as its job, and notices the driver's end
     * itself. */
    while (waitpid(fork_server, NULL, 0) < 0 && errno == EINTR) {
    }
    gy_env *env = gy_env_real();
    if (!gy_worker_reap_all(env, gy_env_deadline(env, GY_REAP_SECONDS))) {
        gy_log_message("processes of a job do not end after SIGKILL");
    }
    gy_limits_sweep(getpid(), role->processes);
}

gy_status gy_worker_reaper_split(const gy_role *role, int *watch)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a pipe for the fork server of a job: %s",
                       strerror(errno));
    }
    sigset_t ended, before;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    GY_ASSERT(pthread_sigmask(SIG_BLOCK, &ended, &before) == 0);
    fflush(NULL);
    pid_t fork_server = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 ? fork() : -1;
    if (fork_server > 0) {
        close(ends[0]);
        reap_all(fork_server, role);
        close(ends[1]);
        return GY_DONE;
    }
    int error = errno;
    GY_ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    close(ends[1]);
    if (fork_server < 0) {
        close(ends[0]);
        return gy_fail(GY_LIMIT, "cannot start the fork server of a job: %s", strerror(error));
    }
    *watch = ends[0];
    return GY_OK;
}
