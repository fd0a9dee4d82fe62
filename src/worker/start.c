/* Starts another process of this program, and sends packets to it. */
#include "worker/start.h"
#include "base/base.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEND_SECONDS = 10 };

int gy_worker_socket(void)
{
    const char *value = gy_setting_get("GYRE_VERTEX");
    char *end = NULL;
    long number = value != NULL ? strtol(value, &end, 10) : -1;
    return value != NULL && *end == '\0' && number >= 0 && number < INT32_MAX ? (int)number
                                                                              : -1;
}

/* An environment with GYRE_VERTEX set to `socket`; the text lies in `setting`. NULL: no memory.
 */
static char **list_environment(char *const *from, char setting[32], int socket)
{
    size_t count = 0, kept = 0;
    while (from[count] != NULL) {
        count++;
    }
    char **list = gy_alloc("worker.start", (count + 2) * sizeof(*list));
    for (size_t i = 0; list != NULL && i < count; i++) {
        if (strncmp(from[i], "GYRE_VERTEX=", 12) != 0) {
            list[kept++] = from[i];
        }
    }
    if (list != NULL) {
        snprintf(setting, 32, "GYRE_VERTEX=%d", socket);
        list[kept++] = setting;
        list[kept] = NULL;
    }
    return list;
}

/* posix_spawn with the child's socket at the same number in both processes, empty standard
 * input, its own process group (so that a terminal's signals reach only this process) and no
 * blocked signals. errno, 0 done. */
static int spawn(const gy_worker_start *start, int socket, char *const *environment,
                 pid_t *process)
{
    char *const only_name[] = {program_invocation_name, NULL};
    const char *path = start->argv != NULL ? start->argv[0] : "/proc/self/exe";
    char *const *argv = start->argv != NULL ? start->argv : only_name;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&files);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        posix_spawnattr_setflags(&attributes, flags);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        error =
            posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        /* A dup onto itself clears close-on-exec. */
        error = error != 0 ? error : posix_spawn_file_actions_adddup2(&files, socket, socket);
        if (error == 0 && start->directory != NULL) {
            error = posix_spawn_file_actions_addchdir_np(&files, start->directory);
        }
        error = error != 0
                    ? error
                    : posix_spawnp(process, path, &files, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

gy_status gy_worker_start_self(const gy_worker_start *start, int *socket, pid_t *process)
{
    char setting[32];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a socket: %s", strerror(errno));
    }
    int room = 2 * GY_PACKET_BYTES;
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    struct timeval limit = {.tv_sec = SEND_SECONDS};
    GY_ASSERT(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0);
    gy_status status = GY_OK;
    char **environment = list_environment(
        start->environment != NULL ? start->environment : environ, setting, pair[1]);
    if (environment == NULL) {
        status = GY_NOMEM;
    } else {
        int error = spawn(start, pair[1], environment, process);
        if (error != 0) {
            status =
                gy_fail(GY_LIMIT, "cannot start %s: %s",
                        start->argv != NULL ? start->argv[0] : "this program", strerror(error));
        }
    }
    gy_free(environment);
    close(pair[1]);
    if (status < 0) {
        close(pair[0]);
    } else {
        *socket = pair[0];
    }
    return status;
}

gy_status gy_packet_send(int socket, const gy_packet *packet)
{
    union {
        char bytes[CMSG_SPACE(sizeof(packet->files))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = packet->data, .iov_len = packet->size_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    GY_ASSERT(packet->file_count >= 0 && packet->file_count <= GY_PACKET_FILES);
    if (packet->file_count > 0) {
        size_t size = (size_t)packet->file_count * sizeof(int);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(rights), packet->files, size);
    }
    ssize_t sent = -1;
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        return GY_OK;
    }
    if (errno == EAGAIN) {
        return gy_fail(GY_TIMEOUT, "a process of the job has not read for %d s", SEND_SECONDS);
    }
    return gy_fail(GY_PEER, "cannot send to a process of the job: %s", strerror(errno));
}

/* Take the descriptors out of a message; close those that do not fit. */
static void take_files(struct msghdr *message, gy_packet *packet)
{
    packet->file_count = 0;
    for (struct cmsghdr *rights = CMSG_FIRSTHDR(message); rights != NULL;
         rights = CMSG_NXTHDR(message, rights)) {
        if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int file = -1;
            memcpy(&file, CMSG_DATA(rights) + i * sizeof(int), sizeof(file));
            if (packet->file_count < GY_PACKET_FILES) {
                packet->files[packet->file_count++] = file;
            } else {
                close(file);
            }
        }
    }
}

gy_status gy_packet_receive(int socket, gy_packet *packet, bool is_waiting)
{
    union {
        char bytes[CMSG_SPACE(sizeof(packet->files))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = packet->data, .iov_len = packet->size_bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = -1;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (is_waiting ? 0 : MSG_DONTWAIT));
    } while (got < 0 && errno == EINTR);
    packet->file_count = 0;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return GY_AGAIN;
    }
    if (got <= 0) { /* a reset connection is an end too */
        return gy_fail(GY_PEER, "a process of the job has closed its socket");
    }
    take_files(&message, packet);
    packet->size_bytes = (size_t)got;
    if ((message.msg_flags & MSG_TRUNC) != 0) {
        return gy_fail(GY_FORMAT, "a packet of over %zu bytes", packet->size_bytes);
    }
    return GY_OK;
}

/* Wait until the child has ended, or until about that time; without a pidfd, for a millisecond.
 */
static void check_child(gy_env *env, int end, gy_deadline deadline)
{
    struct pollfd look = {.fd = end, .events = POLLIN};
    int64_t left_ns = deadline.at_ns - gy_now_ns(env);
    int64_t wait_ms = left_ns > 0 ? GY_MIN((left_ns + 999999) / 1000000, (int64_t)1000) : 1;
    (void)poll(&look, end >= 0, end >= 0 ? (int)wait_ms : 1);
}

int gy_worker_child_wait(gy_env *env, pid_t child, gy_deadline deadline)
{
    bool is_killed = false;
    int status = 0, end = (int)syscall(SYS_pidfd_open, child, 0);
    pid_t ended = 0;
    while ((ended = waitpid(child, &status, WNOHANG)) != child) {
        if (ended < 0 && errno != EINTR) {
            status = -1;
            break;
        }
        if (!is_killed && gy_now_ns(env) >= deadline.at_ns) {
            kill(child, SIGKILL);
            is_killed = true;
        }
        check_child(env, end, deadline);
    }
    if (end >= 0) {
        close(end);
    }
    return status;
}
