#include "transport/rendezvous.h"

#include "transport/environment_priv.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t greeting_magic = 0x676a6f69; /* "ioj g" in a dump */

typedef struct greeting {
    uint32_t magic;
    int32_t rank, size;
} greeting;

static _Atomic int run_socket = -1;

gy_status gy_rendezvous_pair(int sockets[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        return gy_fail(GY_IO, "cannot make a pair of sockets: %s", strerror(errno));
    }
    return GY_OK;
}

/* The room of one descriptor beside a message, aligned as the system wants it. */
typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

gy_status gy_rendezvous_greet(int socket, const gy_run_place *place, int segment)
{
    greeting words = {.magic = greeting_magic, .rank = place->rank, .size = place->size};
    struct iovec piece = {.iov_base = &words, .iov_len = sizeof(words)};
    control beside;
    memset(&beside, 0, sizeof(beside));
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = beside.bytes,
                             .msg_controllen = sizeof(beside.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(head), &segment, sizeof(segment));
    if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(words)) {
        return gy_fail(GY_IO, "cannot greet rank %d: %s", place->rank, strerror(errno));
    }
    return GY_OK;
}

gy_status gy_rendezvous_take(int socket, gy_run_place *place, int *segment)
{
    greeting words = {.magic = 0};
    struct iovec piece = {.iov_base = &words, .iov_len = sizeof(words)};
    control beside;
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = beside.bytes,
                             .msg_controllen = sizeof(beside.bytes)};
    ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return gy_fail(GY_STATE,
                       "this rank's place in the run was taken before; a program that a rank "
                       "starts must not inherit " GY_RUN_SOCKET);
    }
    if (size < 0) {
        return gy_fail(GY_IO, "cannot read the launcher's greeting from descriptor %d: %s",
                       socket, strerror(errno));
    }
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int got = -1;
    if (head != NULL && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&got, CMSG_DATA(head), sizeof(got));
    }
    if (size != (ssize_t)sizeof(words) || words.magic != greeting_magic || got < 0) {
        if (got >= 0) {
            close(got);
        }
        return gy_fail(GY_FORMAT, "descriptor %d gave no launcher's greeting", socket);
    }
    *place = (gy_run_place){.rank = words.rank, .size = words.size};
    *segment = got;
    return GY_OK;
}

gy_status gy_rendezvous_read(int socket, gy_error *error)
{
    gy_error got;
    ssize_t size = recv(socket, &got, sizeof(got), MSG_DONTWAIT);
    if (size < 0 && errno == ECONNRESET) {
        /* It ended without taking its greeting, which is told once, before what it said. */
        size = recv(socket, &got, sizeof(got), MSG_DONTWAIT);
    }
    if (size < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? GY_AGAIN : GY_PEER;
    }
    if (size != (ssize_t)sizeof(got)) {
        return GY_PEER;
    }
    got.text[sizeof(got.text) - 1] = '\0';
    *error = got;
    return GY_OK;
}

void gy_run_report_to(int socket)
{
    atomic_store_explicit(&run_socket, socket, memory_order_release);
}

bool gy_run_report(const gy_error *error)
{
    int socket = atomic_load_explicit(&run_socket, memory_order_acquire);
    /* Nobody can be told if the launcher is gone. */
    return socket >= 0 && send(socket, error, sizeof(*error), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                              (ssize_t)sizeof(*error);
}
