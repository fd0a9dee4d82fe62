#include "worker/reap.h"

#include "base/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_spared(pid_t child, const pid_t *spared, size_t count)
{
    size_t at = 0;
    while (at < count && spared[at] != child) {
        at++;
    }
    return at < count;
}

size_t gy_worker_reap_kill(const pid_t *spared, size_t count, bool takes_ends)
{
    char path[64], text[65536];
    pid_t me = getpid();
    size_t killed = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)me, (int)me);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    char *at = text, *end = NULL;
    for (long next = strtol(at, &end, 10); end != at; next = strtol(at, &end, 10)) {
        at = end;
        const pid_t child = (pid_t)next;
        if (is_spared(child, spared, count)) {
            continue;
        }
        /* The child is not reaped, so its process id is not reused. A group that it joined may
         * contain other processes, or this one. */
        pid_t group = getpgid(child);
        if (group == child && group != getpgrp()) {
            kill(-group, SIGKILL);
        }
        kill(child, SIGKILL);
        killed++;
        if (takes_ends) {
            (void)waitpid(child, NULL, WNOHANG);
        }
    }
    return killed;
}

bool gy_worker_reap_all(gy_env *env, gy_deadline deadline)
{
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    for (;;) {
        (void)gy_worker_reap_kill(NULL, 0, false);
        pid_t reaped = 0;
        do {
            reaped = waitpid(-1, NULL, WNOHANG);
        } while (reaped > 0 || (reaped < 0 && errno == EINTR));
        if (reaped < 0) {
            return true; /* ECHILD: no child is left */
        }
        if (gy_now_ns(env) >= deadline.at_ns) {
            return false;
        }
        struct timespec moment = {.tv_nsec = 10000000};
        (void)sigtimedwait(&ended, NULL, &moment);
    }
}
