#include "launch/launch_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Rank 0 inherits standard input, unless that is a terminal, which would stop a process in the
 * background. */
static bool choose_input(int rank)
{
    if (rank == 0 && !isatty(STDIN_FILENO)) {
        return true;
    }
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0;
}

static bool choose_outputs(const gy_spawn *spawn)
{
    return (spawn->outputs[0] < 0 || dup2(spawn->outputs[0], STDOUT_FILENO) >= 0) &&
           (spawn->outputs[1] < 0 || dup2(spawn->outputs[1], STDERR_FILENO) >= 0);
}

/* In the child, up to exec. Returns only after a failure, with the reason in errno. */
static void become_rank(const gy_spawn *spawn, pid_t keeper)
{
    /* Set this first: if the keeper died before, the parent is already another process. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return;
    }
    if (getppid() != keeper) {
        _exit(1);
    }
    if (setpgid(0, 0) != 0 || !choose_input(spawn->rank) || !choose_outputs(spawn) ||
        !gy_launch_place_set(spawn) || fcntl(spawn->socket, F_SETFD, 0) != 0) {
        return;
    }
    if (spawn->cores != NULL) {
        /* The cpuset may have shrunk meanwhile; an unbound rank is slower but correct. */
        (void)sched_setaffinity(0, sizeof(*spawn->cores), spawn->cores);
    }
    /* Each rank has its own process group: writing to the terminal must not stop it. */
    (void)signal(SIGTTOU, SIG_IGN);
    (void)signal(SIGPIPE, spawn->is_pipe_ignored ? SIG_IGN : SIG_DFL);
    if (sigprocmask(SIG_SETMASK, &spawn->mask, NULL) == 0) {
        execvp(spawn->argv[0], spawn->argv);
    }
}

gy_status gy_spawn_rank(const gy_spawn *spawn, pid_t *process)
{
    pid_t keeper = getpid(), child = fork();
    if (child < 0) {
        return gy_fail(GY_LIMIT, "cannot start rank %d: %s", spawn->rank, strerror(errno));
    }
    if (child == 0) {
        become_rank(spawn, keeper);
        gy_spawn_failure failure = {.rank = spawn->rank, .reason = errno};
        ssize_t written = write(spawn->failures, &failure, sizeof(failure));
        (void)written;
        _exit(127);
    }
    /* also in the parent, so that a signal to the group reaches the rank from now on */
    (void)setpgid(child, child);
    *process = child;
    return GY_OK;
}
