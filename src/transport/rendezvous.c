#include "transport/rendezvous.h"

#include "transport/environment_priv.h"
#include "transport/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t greeting_magic = 0x676a6f6a;

typedef struct greeting {
    uint32_t magic;
    int32_t protocol; /* the second in every version, whatever follows */
    int32_t rank, size, facts;
} greeting;

enum { NET_WAIT_MS = 10000 };
/* Up to this protocol a greeting had no number: {magic, rank, size, facts}. */
enum { OLD_GREETING_PROTOCOL = 6, OLD_GREETING_BYTES = 16 };
enum { HAS_NET = 1, IS_RENEWABLE = 2, IS_OVER = 4 };

static _Atomic int run_socket = -1;
static _Atomic bool is_renewable;

gy_status gy_transport_rendezvous_pair(int sockets[2])
{
    GY_ASSERT(sockets != NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        return gy_fail(GY_IO, "cannot make a pair of sockets: %s", strerror(errno));
    }
    return GY_OK;
}

/* Aligned room for the control message of one descriptor. */
typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

/* Send a message and a descriptor over the rank's socket. */
static gy_status put_message(int socket, struct iovec piece, int descriptor)
{
    GY_ASSERT(piece.iov_len > 0);
    control beside;
    memset(&beside, 0, sizeof(beside));
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = beside.bytes,
                             .msg_controllen = sizeof(beside.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(head), &descriptor, sizeof(descriptor));
    if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)piece.iov_len) {
        return GY_OK;
    }
    bool is_gone = errno == EPIPE || errno == ECONNRESET;
    return gy_fail(is_gone ? GY_PEER : GY_IO, "cannot greet a rank: %s", strerror(errno));
}

/* Take the next message: exactly as long as the piece, with a descriptor, which the caller
 * owns. Of another size, *size_bytes, the piece has what fits (GY_FORMAT).
 */
static gy_status take_message(int socket, struct iovec piece, int *descriptor,
                              size_t *size_bytes)
{
    GY_ASSERT(piece.iov_len > 0);
    control beside;
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = beside.bytes,
                             .msg_controllen = sizeof(beside.bytes)};
    ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return gy_fail(GY_STATE, "this rank has joined the launch before; a program that a "
                                 "rank starts must not inherit " GY_RUN_SOCKET);
    }
    if (size < 0) {
        return gy_fail(GY_IO, "cannot read the launcher's greeting from descriptor %d: %s",
                       socket, strerror(errno));
    }
    *size_bytes = (size_t)size;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int got = -1;
    if (head != NULL && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&got, CMSG_DATA(head), sizeof(got));
    }
    if (size != (ssize_t)piece.iov_len || (message.msg_flags & MSG_TRUNC) != 0 || got < 0) {
        if (got >= 0) {
            close(got);
        }
        return gy_fail(GY_FORMAT, "descriptor %d sent no greeting of a launcher", socket);
    }
    *descriptor = got;
    return GY_OK;
}

gy_status gy_transport_rendezvous_greet(int socket, const gy_run_place *place, int segment)
{
    GY_ASSERT(place->is_over || (place->rank >= 0 && place->rank < place->size));
    greeting words = {.magic = greeting_magic,
                      .protocol = GY_RANK_PROTOCOL,
                      .rank = place->rank,
                      .size = place->size,
                      .facts = (place->has_net ? HAS_NET : 0) |
                               (place->is_renewable ? IS_RENEWABLE : 0) |
                               (place->is_over ? IS_OVER : 0)};
    struct iovec piece = {.iov_base = &words, .iov_len = sizeof(words)};
    return put_message(socket, piece, segment);
}

gy_status gy_transport_rendezvous_take(int socket, gy_run_place *place, int *segment)
{
    GY_ASSERT(place != NULL);
    GY_ASSERT(segment != NULL);
    greeting words = {.magic = 0};
    int got = -1;
    struct iovec piece = {.iov_base = &words, .iov_len = sizeof(words)};
    size_t size_bytes = 0;
    gy_status status = take_message(socket, piece, &got, &size_bytes);
    if (words.magic == greeting_magic) { /* from a launcher, if perhaps one of another build */
        const bool is_numbered = size_bytes != OLD_GREETING_BYTES;
        const gy_status same = gy_transport_protocol_check(
            "the launcher", is_numbered ? words.protocol : OLD_GREETING_PROTOCOL);
        status = same < 0 ? same : status;
    } else if (status >= 0) {
        status = gy_fail(GY_FORMAT, "descriptor %d sent no greeting of a launcher", socket);
    }
    if (status < 0) {
        if (got >= 0) {
            close(got);
        }
        return status;
    }
    *place = (gy_run_place){.rank = words.rank,
                            .size = words.size,
                            .has_net = (words.facts & HAS_NET) != 0,
                            .is_renewable = (words.facts & IS_RENEWABLE) != 0,
                            .is_over = (words.facts & IS_OVER) != 0};
    *segment = got;
    if (place->is_renewable) {
        atomic_store_explicit(&is_renewable, true, memory_order_relaxed);
    }
    return GY_OK;
}

bool gy_transport_run_is_renewable(void)
{
    return atomic_load_explicit(&is_renewable, memory_order_relaxed);
}

/* Receive another greeting: GY_AGAIN none yet; GY_PEER the launcher has ended. */
static gy_status take_next(gy_run_ticket *ticket)
{
    GY_ASSERT(ticket != NULL);
    gy_run_ticket got = {.segment = -1, .listener = -1};
    struct pollfd look = {.fd = atomic_load_explicit(&run_socket, memory_order_acquire),
                          .events = POLLIN};
    if (poll(&look, 1, 0) != 1) {
        return GY_AGAIN;
    }
    if ((look.revents & POLLIN) == 0) {
        return gy_fail(GY_PEER, "the launcher has ended");
    }
    GY_TRY(gy_run_ticket_take(look.fd, &got));
    *ticket = got;
    return GY_OK;
}

gy_status gy_run_ticket_take(int socket, gy_run_ticket *ticket)
{
    GY_ASSERT(ticket != NULL);
    gy_run_ticket got = {.segment = -1, .listener = -1};
    GY_TRY(gy_transport_rendezvous_take(socket, &got.place, &got.segment));
    if (got.place.has_net) {
        gy_status status =
            gy_transport_rendezvous_take_net(socket, got.place.size, &got.net, &got.listener);
        if (status < 0) {
            close(got.segment);
            return status;
        }
    }
    GY_ASSERT(got.segment >= 0);
    GY_ASSERT(got.place.has_net == (got.net != NULL));
    *ticket = got;
    return GY_OK;
}

void gy_run_ticket_drop(gy_run_ticket *ticket)
{
    GY_ASSERT(ticket->listener < 0 || ticket->listener != ticket->segment);
    if (ticket->segment >= 0) {
        close(ticket->segment);
    }
    if (ticket->listener >= 0) {
        close(ticket->listener);
    }
    gy_free(ticket->net);
    *ticket = (gy_run_ticket){.segment = -1, .listener = -1};
}

void gy_transport_run_await(int wait_ms)
{
    GY_ASSERT(wait_ms >= -1);
    struct pollfd look = {.fd = atomic_load_explicit(&run_socket, memory_order_acquire),
                          .events = POLLIN};
    (void)poll(&look, 1, wait_ms);
}

static size_t net_bytes(int size)
{
    return sizeof(gy_run_net) + (size_t)size * sizeof(gy_run_endpoint);
}

gy_run_net *gy_run_net_new(int size)
{
    gy_run_net *net = gy_alloc_zero("transport.net", 1, net_bytes(size));
    if (net != NULL) {
        net->size = size;
    }
    return net;
}

gy_status gy_transport_rendezvous_greet_net(int socket, const gy_run_net *net, int listener)
{
    GY_ASSERT(net->size > 0);
    /* The buffer is not const, though sending only reads it. */
    struct iovec piece = {.iov_base = (void *)(uintptr_t)net, .iov_len = net_bytes(net->size)};
    return put_message(socket, piece, listener);
}

gy_status gy_transport_rendezvous_take_net(int socket, int size, gy_run_net **net,
                                           int *listener)
{
    GY_ASSERT(net != NULL);
    GY_ASSERT(listener != NULL);
    gy_run_net *made = gy_run_net_new(size);
    if (made == NULL) {
        return GY_NOMEM;
    }
    /* The launcher sends it immediately after the place. */
    struct pollfd look = {.fd = socket, .events = POLLIN};
    (void)poll(&look, 1, NET_WAIT_MS);
    struct iovec piece = {.iov_base = made, .iov_len = net_bytes(size)};
    size_t size_bytes = 0;
    gy_status status = take_message(socket, piece, listener, &size_bytes);
    if (status < 0) {
        gy_free(made);
        return status;
    }
    *net = made;
    return GY_OK;
}

gy_status gy_transport_rendezvous_read(int socket, gy_error *error)
{
    GY_ASSERT(error != NULL);
    gy_error got;
    ssize_t size = recv(socket, &got, sizeof(got), MSG_DONTWAIT);
    if (size < 0 && errno == ECONNRESET) {
        /* The rank ended without reading its greeting: this is reported once, before the
         * rank's own report. */
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

void gy_transport_run_report_to(int socket)
{
    atomic_store_explicit(&run_socket, socket, memory_order_release);
}

bool gy_transport_run_report(const gy_error *error)
{
    GY_ASSERT(error != NULL);
    int socket = atomic_load_explicit(&run_socket, memory_order_acquire);
    /* Nobody can be informed when the launcher has ended. */
    return socket >= 0 && send(socket, error, sizeof(*error), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                              (ssize_t)sizeof(*error);
}

bool gy_transport_run_report_abort(const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    gy_error told = *error;
    told.rank = GY_RANK_ABORTS;
    return gy_transport_run_report(&told);
}

/* ---- Generations: a new segment whenever ranks were restarted ---- */

enum { LOOK_MS = 20 };

/* The newest ticket that was received and not joined yet. A process takes part in one
 * launch. */
static gy_run_ticket next_ticket = {.segment = -1, .listener = -1};
static bool is_over;

/* Receive all messages of the launcher: GY_AGAIN no more; GY_PEER the launcher has ended. */
static gy_status hear_launcher(void)
{
    gy_run_ticket ticket = {.segment = -1, .listener = -1};
    gy_status status = GY_OK;
    while ((status = take_next(&ticket)) == GY_OK) {
        if (ticket.place.is_over) {
            is_over = true;
            gy_run_ticket_drop(&ticket);
        } else {
            gy_run_ticket_drop(&next_ticket);
            next_ticket = ticket;
        }
    }
    return status;
}

static gy_status join_next(gy_env *env, gy_transport **transport)
{
    GY_ASSERT(next_ticket.segment >= 0);
    gy_transport_close(*transport);
    *transport = NULL;
    gy_status status = gy_run_ticket_join(&next_ticket, false, env, transport);
    gy_run_ticket_drop(&next_ticket);
    return status;
}

/* Wait a moment until all have joined. A late rank is no failure; a dead one leads to the next
 * generation. GY_OK; GY_TIMEOUT; GY_PEER */
static gy_status await_all(gy_transport *transport, gy_deadline deadline)
{
    GY_ASSERT(transport != NULL);
    gy_wait wait = gy_wait_start(transport, -1, "all ranks to join", deadline);
    wait.is_blind = true;
    for (int peer = 0; peer < transport->size; peer++) {
        while (!transport->ops->has_joined(transport, peer)) {
            gy_status status = gy_wait_round(&wait);
            if (status < 0) {
                GY_TRY(gy_transport_check(transport, -1));
                return status;
            }
        }
    }
    return GY_OK;
}

gy_status gy_transport_generation_meet(gy_env *env, gy_deadline deadline,
                                       gy_transport **transport)
{
    GY_ASSERT(env != NULL);
    GY_ASSERT(transport != NULL);
    gy_status status = GY_OK;
    while (status >= 0 && gy_now_ns(env) < deadline.at_ns) {
        status = hear_launcher();
        if (status >= 0 && next_ticket.segment >= 0) {
            status = join_next(env, transport);
        }
        if (status < 0) {
            break;
        }
        if (*transport == NULL) {
            gy_transport_run_await(LOOK_MS);
            continue;
        }
        gy_deadline soon = {
            GY_MIN(gy_now_ns(env) + (int64_t)LOOK_MS * 1000000, deadline.at_ns)};
        gy_status met = await_all(*transport, soon);
        if (met == GY_OK) {
            return GY_OK;
        }
        if (met != GY_TIMEOUT) {
            /* another rank has ended, so the next generation will come */
            gy_transport_close(*transport);
            *transport = NULL;
        }
    }
    if (status >= 0) {
        status = gy_fail(GY_TIMEOUT, "rank %s",
                         is_over ? "came back after the launch had ended"
                                 : "waited in vain for all ranks to join again");
    }
    gy_transport_close(*transport);
    *transport = NULL;
    return status;
}

gy_status gy_transport_generation_finish(gy_env *env, gy_deadline deadline)
{
    GY_ASSERT(env != NULL);
    const gy_error done = {.status = GY_OK, .rank = GY_RANK_DONE};
    if (!gy_transport_run_report(&done)) {
        return gy_fail(GY_PEER, "cannot report to the launcher that this rank has finished");
    }
    while (gy_now_ns(env) < deadline.at_ns) {
        gy_status status = hear_launcher();
        GY_TRY(status);
        if (is_over || next_ticket.segment >= 0) {
            return is_over ? GY_OK : GY_AGAIN;
        }
        gy_transport_run_await(LOOK_MS);
    }
    return gy_fail(GY_TIMEOUT, "the other ranks have not finished by the deadline");
}
