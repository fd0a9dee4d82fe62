#include "launch/launch_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Kill each child that the system lists, with the group that it leads: one that it joined may
 * hold strangers, or us. What they leave is adopted next. */
static void kill_children(void)
{
    char path[64], text[65536];
    pid_t me = getpid();
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)me, (int)me);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    char *at = text, *end = NULL;
    for (long child = strtol(at, &end, 10); end != at; child = strtol(at, &end, 10)) {
        /* The number is still the child's: it is not reaped yet. */
        pid_t group = getpgid((pid_t)child);
        if (group == child && group != getpgrp()) {
            kill(-group, SIGKILL);
        }
        kill((pid_t)child, SIGKILL);
        at = end;
    }
}

bool gy_reap_all(gy_env *env, gy_deadline deadline)
{
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    for (;;) {
        kill_children();
        pid_t reaped = 0;
        do {
            reaped = waitpid(-1, NULL, WNOHANG);
        } while (reaped > 0 || (reaped < 0 && errno == EINTR));
        if (reaped < 0) {
            return true; /* ECHILD */
        }
        if (gy_now_ns(env) >= deadline.at_ns) {
            return false;
        }
        struct timespec moment = {.tv_nsec = 10000000};
        (void)sigtimedwait(&ended, NULL, &moment);
    }
}
