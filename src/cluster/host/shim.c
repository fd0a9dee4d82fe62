/*
 * The shim: a process between a manager and the daemon. It adopts the processes that the
 * manager leaves, and kills all of them when the daemon asks, the daemon has ended or the
 * manager has. If the shim is killed, the kernel kills the manager, and the daemon adopts and
 * kills the rest. It is forked from the daemon, so it neither allocates memory nor takes a
 * lock.
 */
#include "cluster/host/host_priv.h"

#include "worker/reap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SOCKET = 3, /* the shim's end; 0 to 2: /dev/null and the log */
    ROUND_MS = 20,
    ROUNDS_MAX = 250, /* 5 s for all to end after SIGKILL */
    LOADER_MS = 1000, /* from one line of a loader to the next */
};

/* Set up descriptors and signals for a new process. False: errno has the reason. */
static bool clean_up(const host_minded *minded, int socket)
{
    int nothing = open("/dev/null", O_RDWR);
    int log = minded->log >= 0 ? minded->log : nothing;
    /* Move the socket away from the first three. */
    int far = fcntl(socket, F_DUPFD, 16);
    int away = far >= 0 ? fcntl(log, F_DUPFD, 16) : -1;
    if (nothing < 0 || away < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(away, STDOUT_FILENO) < 0 || dup2(away, STDERR_FILENO) < 0 ||
        dup2(far, SOCKET) < 0 || fcntl(SOCKET, F_SETFD, FD_CLOEXEC) != 0 ||
        close_range(SOCKET + 1, ~0u, 0) != 0) {
        return false;
    }
    for (int number = 1; number < NSIG; number++) {
        /* Signals that cannot be changed already have the default. */
        (void)signal(number, SIG_DFL);
    }
    return setpgid(0, 0) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* In the manager's process. */
static void become_manager(const host_minded *minded, pid_t shim)
{
    sigset_t none;
    sigemptyset(&none);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == shim && setpgid(0, 0) == 0 &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0 &&
        (minded->directory == NULL || chdir(minded->directory) == 0)) {
        (void)execvpe(minded->path, minded->argv, minded->environment);
    }
    dprintf(STDERR_FILENO, "gyre: cannot run %s: %s\n", minded->path, strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Reap children that have ended; false: there is no child left. */
static bool reap(pid_t manager, bool *is_gone, int *status)
{
    for (;;) {
        int how = 0;
        pid_t ended = waitpid(-1, &how, WNOHANG);
        if (ended == manager) {
            *is_gone = true;
            *status = how;
        } else if (ended == 0) {
            return true;
        } else if (ended < 0 && errno != EINTR) {
            return false;
        }
    }
}

static bool says_missing(const char *text)
{
    return strstr(text, "=> not found") != NULL || strstr(text, ": version `") != NULL;
}

/* Ask the program's loader what it lacks here (ld.so(8)): a library, or a version of symbols.
 * Only after a failure, so that a success costs nothing. A kill of this process kills the
 * loader, too. */
static bool is_unloadable(const host_minded *minded)
{
    static char text[65536];
    char *const arguments[] = {(char *)(uintptr_t)minded->loader, (char *)(uintptr_t) "--list",
                               (char *)(uintptr_t)minded->path, NULL};
    int ends[2], status = 0;
    size_t size = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && dup2(ends[1], STDOUT_FILENO) >= 0 &&
            dup2(ends[1], STDERR_FILENO) >= 0) {
            (void)execve(minded->loader, arguments, minded->environment);
        }
        _exit(0);
    }
    close(ends[1]);
    struct pollfd look = {.fd = ends[0], .events = POLLIN};
    for (ssize_t got = 1; child > 0 && got > 0 && poll(&look, 1, LOADER_MS) == 1;) {
        got = read(ends[0], text + size, sizeof(text) - 1 - size);
        size += got > 0 ? (size_t)got : 0;
    }
    close(ends[0]);
    if (child > 0) {
        (void)kill(child, SIGKILL); /* its output is complete, or it takes too long */
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    return says_missing(text) || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

/* A loader exits with 127, or with 1 where versions of symbols are missing. */
static bool may_be_unloadable(const host_minded *minded, int status)
{
    return minded->loader[0] != '\0' && WIFEXITED(status) &&
           (WEXITSTATUS(status) == 127 || WEXITSTATUS(status) == 1);
}

static int mind(const host_minded *minded, int socket)
{
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    const pid_t own = getpid();
    if (!clean_up(minded, socket) || sigprocmask(SIG_SETMASK, &ended, NULL) != 0) {
        return 1;
    }
    int bell = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
    pid_t manager = bell >= 0 ? fork() : -1;
    if (manager == 0) {
        become_manager(minded, own);
    }
    if (manager < 0) {
        dprintf(STDERR_FILENO, "gyre: cannot start a manager: %s\n", strerror(errno));
        return 1;
    }
    bool is_gone = false, is_over = false;
    int status = 0;
    for (int rounds = 0; rounds < ROUNDS_MAX; rounds += is_over) {
        struct pollfd looks[2] = {{.fd = is_over ? -1 : SOCKET, .events = POLLIN},
                                  {.fd = bell, .events = POLLIN}};
        struct signalfd_siginfo signals[4];
        (void)poll(looks, 2, is_over ? ROUND_MS : -1);
        while (read(bell, signals, sizeof(signals)) > 0) {
        }
        bool is_left = reap(manager, &is_gone, &status);
        is_over = is_over || is_gone || looks[0].revents != 0;
        if (!is_left) {
            break;
        }
        if (is_over) {
            (void)gy_worker_reap_kill(NULL, 0, false);
        }
    }
    if (is_gone) {
        host_ended told = {.status = status};
        told.is_unloadable = may_be_unloadable(minded, status) && is_unloadable(minded);
        (void)!send(SOCKET, &told, sizeof(told), MSG_NOSIGNAL);
    }
    return 0;
}

gy_status gy_cluster_shim_start(const host_minded *minded, int *socket, pid_t *shim)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a socket: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        _exit(mind(minded, pair[1]));
    }
    int error = errno;
    close(pair[1]);
    if (child < 0) {
        close(pair[0]);
        return gy_fail(GY_LIMIT, "cannot start a process: %s", strerror(error));
    }
    *socket = pair[0];
    *shim = child;
    return GY_OK;
}
