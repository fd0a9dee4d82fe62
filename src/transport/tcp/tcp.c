#include "transport/tcp/tcp_priv.h"

#include "topo/topo.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    DIRECT_LOOKS = 4, /* so few peers are polled one by one, without epoll */
    EPOLL_EVERY = 64, /* with few peers: rounds between two epolls of all peers, */
    OTHERS_EVERY = 4, /* and between two polls of peers that nobody waits for */
    HOLD_ROUNDS = 16, /* rounds for which a message may wait to be sent with another one, */
    HOLD_YIELDS = 8,  /* and the same where ranks yield after each round */
    EVENTS_AT_ONCE = 64,
    DOOR_EVENT = -1,
    BELL_EVENT = -2,
    QUIET_NS = 300000000,  /* silence of a peer before it gets a liveness query */
    ANSWER_NS = 500000000, /* time limit for its answer, */
    ROLL_NS = 100000000,   /* and after a deadline, when all ranks may have been delayed */
    ROLL_LOOK_MS = 5,
    CLOSE_MS = 1000, /* time limit for unsent data when a rank leaves */
};

static tcp_transport *tcp_of(gy_transport *transport)
{
    return (tcp_transport *)(void *)transport;
}

static gy_inbox *inbox_of(tcp_peer *peer)
{
    return peer->link != NULL ? &peer->link->reader.inbox : &peer->early_inbox;
}

static gy_transfer **sends_of(tcp_peer *peer)
{
    return peer->link != NULL ? &peer->link->sends : &peer->early;
}

/* ---- epoll ---- */

void gy_tcp_watch(tcp_transport *tcp, int socket, int who, bool is_new, uint32_t events)
{
    GY_ASSERT(tcp->epoll >= 0);
    GY_ASSERT(socket >= 0);
    struct epoll_event event = {.events = events, .data = {.u64 = (uint64_t)(uint32_t)who}};
    if (epoll_ctl(tcp->epoll, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket, &event) != 0) {
        gy_warn("epoll refuses a socket: %s", strerror(errno));
    }
}

static void watch_peer(tcp_transport *tcp, int rank)
{
    GY_ASSERT(tcp->peers[rank].link != NULL);
    GY_ASSERT(!tcp->peers[rank].is_closed);
    tcp_peer *peer = &tcp->peers[rank];
    bool wants_room =
        gy_tcp_link_is_full(peer->link) && !peer->is_holding && !peer->link->is_cut;
    bool is_deaf = peer->link->reader.is_inside && !peer->link->reader.is_begun &&
                   peer->link->reader.frame.type == GY_FRAME_MESSAGE;
    if (wants_room != peer->is_waiting_room || is_deaf != peer->is_deaf) {
        peer->is_waiting_room = wants_room;
        peer->is_deaf = is_deaf;
        gy_tcp_watch(tcp, gy_tcp_wire_socket(peer->link->wire), rank, false,
                     (is_deaf ? 0u : (uint32_t)EPOLLIN) |
                         (wants_room ? (uint32_t)EPOLLOUT : 0u));
    }
}

/* ---- Peers that end ---- */

void gy_tcp_lose(tcp_transport *tcp, int rank, gy_status status)
{
    GY_ASSERT(status < 0);
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < tcp->base.size);
    GY_ASSERT(rank != tcp->base.rank);
    tcp_peer *peer = &tcp->peers[rank];
    peer->is_closed = true;
    if (!peer->has_left && !peer->is_gone) {
        peer->is_gone = true;
        peer->gone_at = ++tcp->gone_count;
        (void)gy_fail_within(status, status == GY_PEER ? "rank %d is lost" : "rank %d", rank);
        gy_error_take(&peer->why, status);
    }
    if (peer->link != NULL) {
        (void)epoll_ctl(tcp->epoll, EPOLL_CTL_DEL, gy_tcp_wire_socket(peer->link->wire), NULL);
    }
    gy_transport_transfers_end(sends_of(peer), GY_PEER);
}

/* ---- Received frames ---- */

enum { ABORT_HEAD_BYTES = 12 };

static gy_status hear_abort(tcp_transport *tcp, const gy_transport_frame *frame,
                            const uint8_t *body)
{
    GY_ASSERT(frame->type == GY_FRAME_ABORT);
    if (frame->size_bytes < ABORT_HEAD_BYTES) {
        return gy_fail(GY_FORMAT, "a failure of %llu bytes",
                       (unsigned long long)frame->size_bytes);
    }
    int32_t words[3];
    memcpy(words, body, sizeof(words));
    gy_error error = {.status = (gy_status)words[0], .rank = words[1]};
    if (words[0] >= 0 || words[0] < GY_STATE) {
        return gy_fail(GY_FORMAT, "a failure with status %d", (int)words[0]);
    }
    size_t size = GY_MIN((size_t)frame->size_bytes - ABORT_HEAD_BYTES, sizeof(error.text) - 1);
    memcpy(error.text, body + ABORT_HEAD_BYTES, size);
    gy_transport_failure_keep(&tcp->failure, &error, (uint32_t)words[2]);
    return GY_OK;
}

static gy_status hear(void *arg, const gy_transport_frame *frame, const uint8_t *body)
{
    GY_ASSERT(((const tcp_ear *)arg)->rank >= 0);
    GY_ASSERT(((const tcp_ear *)arg)->rank < ((const tcp_ear *)arg)->tcp->base.size);
    const tcp_ear *at = arg;
    if (frame->type == GY_FRAME_ABORT) {
        return hear_abort(at->tcp, frame, body);
    }
    if (frame->type == GY_FRAME_ASK) {
        return gy_tcp_link_note(at->tcp->peers[at->rank].link, GY_FRAME_HERE, NULL, 0);
    }
    if (frame->type == GY_FRAME_HERE) {
        return GY_OK; /* its arrival is the answer */
    }
    if (frame->type == GY_FRAME_LEAVE) {
        at->tcp->peers[at->rank].has_left = true;
        return GY_OK;
    }
    return gy_fail(GY_FORMAT, "a frame of type %d has no place between ranks",
                   (int)frame->type);
}

bool gy_tcp_pull(tcp_transport *tcp, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < tcp->base.size);
    tcp_peer *peer = &tcp->peers[rank];
    if (peer->link == NULL || peer->is_closed) {
        return false;
    }
    gy_status status = gy_tcp_link_pull(peer->link, hear, &(tcp_ear){.tcp = tcp, .rank = rank});
    if (status < 0) {
        gy_tcp_lose(tcp, rank, status);
        return true;
    }
    peer->is_heard = peer->is_heard || status == GY_OK;
    if (peer->link->notes != NULL) {
        (void)gy_tcp_link_push(
            peer->link); /* the answer to a liveness query; a failure shows later */
    }
    watch_peer(tcp, rank);
    return status == GY_OK;
}

bool gy_tcp_push(tcp_transport *tcp, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < tcp->base.size);
    tcp_peer *peer = &tcp->peers[rank];
    if (peer->link == NULL || peer->is_closed) {
        return false;
    }
    peer->is_holding = false;
    gy_status status = gy_tcp_link_push(peer->link);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        (void)gy_tcp_pull(tcp, rank); /* the last frames tell whether it left in order */
        if (!peer->is_closed) {
            gy_tcp_lose(tcp, rank, gy_error_raise(&error));
        }
        return true;
    }
    watch_peer(tcp, rank);
    return status == GY_OK;
}

/* Deliver messages of this rank to itself. */
static bool deliver_own(tcp_transport *tcp)
{
    tcp_peer *self = &tcp->peers[tcp->base.rank];
    return gy_transport_transfers_deliver(&self->early, &self->early_inbox);
}

/* ---- Progress ---- */

static void list(tcp_transport *tcp, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < tcp->base.size);
    GY_ASSERT(rank != tcp->base.rank);
    if (!tcp->peers[rank].is_listed) {
        tcp->peers[rank].is_listed = true;
        GY_ASSERT(tcp->busy_count < tcp->base.size);
        tcp->busy[tcp->busy_count++] = rank;
    }
}

/* Drain the wake-up pipe: one byte for each wake-up, and few at a time. */
static void empty_bell(const tcp_transport *tcp)
{
    GY_ASSERT(tcp->bell >= 0);
    char bytes[64];
    ssize_t size;
    do {
        size = read(tcp->bell, bytes, sizeof(bytes));
    } while (size == (ssize_t)sizeof(bytes));
}

static bool look_at_all(tcp_transport *tcp, int wait_ms)
{
    GY_ASSERT(wait_ms >= 0);
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(tcp->epoll, events, EVENTS_AT_ONCE, wait_ms);
    bool has_moved = false;
    tcp->base.naps.all += wait_ms > 0;
    tcp->base.naps.timed_out += wait_ms > 0 && count == 0;
    for (int i = 0; i < count; i++) {
        int rank = (int)(uint32_t)events[i].data.u64;
        if (rank == BELL_EVENT) {
            empty_bell(tcp);
            continue;
        }
        GY_ASSERT(rank < tcp->base.size);
        if (rank == DOOR_EVENT || tcp->peers[rank].link == NULL) {
            continue; /* gy_tcp_meet_on polls all of them */
        }
        if ((events[i].events & EPOLLOUT) != 0) {
            has_moved = gy_tcp_push(tcp, rank) || has_moved;
        }
        if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0) {
            has_moved = gy_tcp_pull(tcp, rank) || has_moved;
        }
    }
    return has_moved;
}

/* Is it worth a system call in this round to read from the rank? */
static bool is_turn_of(const tcp_transport *tcp, int rank)
{
    GY_ASSERT(tcp->base.awaited >= 0);
    GY_ASSERT(tcp->base.awaited <= tcp->base.size);
    int awaited = tcp->base.awaited - 1;
    return awaited < 0 || awaited == rank || !tcp->peers[awaited].is_listed ||
           tcp->rounds % OTHERS_EVERY == 0;
}

/* Remove peers with nothing under way from the list; with few peers, poll each one first. */
static bool look_at_busy(tcp_transport *tcp, bool is_direct)
{
    GY_ASSERT(tcp->busy_count <= tcp->base.size);
    bool has_moved = false;
    for (int i = 0; i < tcp->busy_count;) {
        int rank = tcp->busy[i];
        tcp_peer *peer = &tcp->peers[rank];
        if (is_direct) {
            has_moved =
                (*sends_of(peer) != NULL && !peer->is_holding && gy_tcp_push(tcp, rank)) ||
                has_moved;
            has_moved = (is_turn_of(tcp, rank) && gy_inbox_is_busy(inbox_of(peer)) &&
                         gy_tcp_pull(tcp, rank)) ||
                        has_moved;
        }
        if (*sends_of(peer) == NULL && !gy_inbox_is_busy(inbox_of(peer))) {
            peer->is_listed = false;
            tcp->busy[i] = tcp->busy[--tcp->busy_count];
        } else {
            i++;
        }
    }
    return has_moved;
}

/* Send messages whose waiting time is over. */
static void push_held(tcp_transport *tcp)
{
    tcp->is_holding = false;
    for (int i = 0; i < tcp->busy_count; i++) {
        if (tcp->peers[tcp->busy[i]].is_holding) {
            (void)gy_tcp_push(tcp, tcp->busy[i]);
        }
    }
}

static gy_status tcp_progress(gy_transport *transport)
{
    GY_ASSERT(tcp_of(transport)->busy_count >= 0);
    tcp_transport *tcp = tcp_of(transport);
    tcp->rounds++;
    if (tcp->is_holding && tcp->rounds >= tcp->hold_until) {
        push_held(tcp);
    }
    bool is_few = tcp->busy_count <= DIRECT_LOOKS;
    bool has_moved = deliver_own(tcp);
    has_moved = look_at_busy(tcp, is_few) || has_moved;
    if (!has_moved && (!is_few || tcp->rounds % EPOLL_EVERY == 0)) {
        has_moved = look_at_all(tcp, 0);
    }
    if (!has_moved && tcp->missing > 0) {
        has_moved = gy_tcp_meet_on(tcp);
    }
    return has_moved ? GY_OK : GY_AGAIN;
}

static gy_status tcp_send(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    tcp_transport *tcp = tcp_of(transport);
    tcp_peer *peer = &tcp->peers[transfer->peer];
    if (peer->is_gone) {
        return gy_error_raise(&peer->why);
    }
    if (peer->is_closed) {
        return gy_fail(GY_PEER, "rank %d has left the launch", transfer->peer);
    }
    if (peer->link != NULL && peer->link->is_cut) {
        return gy_fail(GY_STATE,
                       "a message to rank %d was abandoned half sent: no message can follow",
                       transfer->peer);
    }
    bool is_alone = *sends_of(peer) == NULL;
    gy_transport_transfers_push(sends_of(peer), transfer);
    if (transfer->peer == transport->rank) {
        (void)deliver_own(tcp);
        return GY_OK;
    }
    if (transfer->may_wait && is_alone) {
        peer->is_holding = tcp->is_holding = true;
        tcp->hold_until =
            tcp->rounds + (transport->is_oversubscribed ? HOLD_YIELDS : HOLD_ROUNDS);
    } else {
        (void)gy_tcp_push(tcp, transfer->peer);
    }
    if (*sends_of(peer) != NULL) {
        list(tcp, transfer->peer);
    }
    return GY_OK;
}

static gy_status tcp_recv(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    tcp_transport *tcp = tcp_of(transport);
    tcp_peer *peer = &tcp->peers[transfer->peer];
    gy_inbox *inbox = inbox_of(peer);
    gy_inbox_post(inbox, transfer);
    if (transfer->peer == transport->rank) {
        (void)deliver_own(tcp);
        return GY_OK;
    }
    /* Write first: a peer that has not got our message rarely has sent its answer. */
    if (gy_inbox_is_busy(inbox) && !peer->is_holding) {
        (void)gy_tcp_pull(tcp, transfer->peer);
    }
    if (gy_inbox_is_busy(inbox_of(peer))) {
        list(tcp, transfer->peer);
    }
    return GY_OK;
}

static void tcp_cancel(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    tcp_peer *peer = &tcp_of(transport)->peers[transfer->peer];
    bool is_half = peer->link != NULL && peer->link->head_sent_bytes > 0;
    if (!gy_transport_transfers_cancel(sends_of(peer), inbox_of(peer), transfer, is_half)) {
        peer->link->is_cut = true;
    }
}

/* ---- Liveness ---- */

/* Read past a message that waits for its receive, because a failure or a departure may be
 * behind it. */
static void look_behind(tcp_transport *tcp)
{
    for (int rank = 0; rank < tcp->base.size; rank++) {
        tcp_peer *peer = &tcp->peers[rank];
        if (peer->link != NULL && peer->is_deaf) {
            peer->link->reader.is_eager = true;
            (void)gy_tcp_pull(tcp, rank);
            peer->link->reader.is_eager = false;
        }
    }
}

static bool may_answer(const tcp_peer *peer)
{
    return peer->link != NULL && !peer->is_closed && !peer->has_left && !peer->link->is_cut;
}

static void ask(tcp_transport *tcp, int rank, int64_t now_ns)
{
    GY_ASSERT(may_answer(&tcp->peers[rank]));
    tcp_peer *peer = &tcp->peers[rank];
    if (gy_tcp_link_note(peer->link, GY_FRAME_ASK, NULL, 0) == GY_OK) {
        peer->is_heard = false;
        peer->asked_ns = now_ns;
        (void)gy_tcp_push(tcp, rank);
    }
}

/* While this rank waits, send a liveness query to peers that have been silent for long. */
static void ask_the_quiet(tcp_transport *tcp)
{
    int64_t now_ns = gy_now_ns(tcp->base.env);
    for (int rank = 0; rank < tcp->base.size; rank++) {
        tcp_peer *peer = &tcp->peers[rank];
        if (!may_answer(peer)) {
            continue;
        }
        if (peer->is_heard || peer->heard_ns == 0) {
            peer->is_heard = false;
            peer->heard_ns = now_ns;
            peer->asked_ns = 0;
        } else if (peer->asked_ns == 0 && now_ns - peer->heard_ns > QUIET_NS) {
            ask(tcp, rank, now_ns);
        }
    }
}

static bool is_asked_in_vain(const tcp_peer *peer)
{
    return may_answer(peer) && peer->asked_ns != 0 && !peer->is_heard;
}

/* Has a peer that may still answer in time not answered yet? */
static bool is_answer_due(const tcp_transport *tcp, int64_t start_ns)
{
    GY_ASSERT(start_ns >= 0);
    int64_t now_ns = gy_now_ns(tcp->base.env);
    for (int rank = 0; rank < tcp->base.size; rank++) {
        const tcp_peer *peer = &tcp->peers[rank];
        if (is_asked_in_vain(peer) &&
            (now_ns < start_ns + ROLL_NS || now_ns < peer->asked_ns + ANSWER_NS)) {
            return true;
        }
    }
    return false;
}

/* All ranks get a query, however short the wait was, and have time to answer. A stopped rank
 * is always reported as absent, a slow one rarely. */
static int tcp_absent(gy_transport *transport, gy_absent *absent, int room)
{
    GY_ASSERT(room >= 0);
    tcp_transport *tcp = tcp_of(transport);
    int64_t start_ns = gy_now_ns(transport->env);
    int count = 0;
    for (int rank = 0; rank < transport->size; rank++) {
        const tcp_peer *peer = &tcp->peers[rank];
        if (may_answer(peer) && !is_asked_in_vain(peer)) {
            ask(tcp, rank, start_ns);
        }
    }
    do {
        (void)look_at_all(tcp, ROLL_LOOK_MS);
        look_behind(tcp);
    } while (!tcp->failure.is_set && is_answer_due(tcp, start_ns));
    int64_t now_ns = gy_now_ns(transport->env);
    for (int rank = 0; rank < transport->size; rank++) {
        const tcp_peer *peer = &tcp->peers[rank];
        if (is_asked_in_vain(peer)) {
            if (count < room) {
                absent[count] = (gy_absent){
                    .rank = rank, .seconds = (double)(now_ns - peer->asked_ns) * 1e-9};
            }
            count++;
        }
    }
    return count;
}

static gy_status tcp_aborted(gy_transport *transport)
{
    tcp_transport *tcp = tcp_of(transport);
    (void)look_at_all(tcp, 0);
    look_behind(tcp);
    ask_the_quiet(tcp);
    return gy_transport_failure_raise(&tcp->failure, transport->survival.epoch);
}

static bool is_missed(const tcp_transport *tcp, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < tcp->base.size);
    return tcp->peers[rank].is_gone && !gy_transport_is_lost(&tcp->base, rank);
}

/* The first rank that ended: others may have ended because of it. */
static const tcp_peer *first_gone(const tcp_transport *tcp, const tcp_peer *first)
{
    GY_ASSERT(first == NULL || first->is_gone);
    for (int rank = 0; rank < tcp->base.size; rank++) {
        const tcp_peer *who = &tcp->peers[rank];
        if (is_missed(tcp, rank) && (first == NULL || who->gone_at < first->gone_at)) {
            first = who;
        }
    }
    return first;
}

static gy_status tcp_check(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= -1);
    GY_ASSERT(peer < transport->size);
    const tcp_transport *tcp = tcp_of(transport);
    const tcp_peer *gone = NULL;
    if (peer < 0) {
        gone = first_gone(tcp, NULL);
    } else if (tcp->peers[peer].is_gone) {
        gone = first_gone(tcp, &tcp->peers[peer]);
    }
    if (gone != NULL) {
        return gy_error_raise(&gone->why);
    }
    if (peer >= 0 && tcp->peers[peer].has_left) {
        return gy_fail(GY_PEER, "rank %d has left the launch", peer);
    }
    return GY_OK;
}

static void tell_all(tcp_transport *tcp, const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    uint8_t body[ABORT_HEAD_BYTES + sizeof(error->text)];
    int32_t words[3] = {(int32_t)error->status, (int32_t)error->rank,
                        (int32_t)tcp->base.survival.epoch};
    size_t text = strlen(error->text);
    GY_ASSERT(text < sizeof(error->text));
    memcpy(body, words, sizeof(words));
    memcpy(body + ABORT_HEAD_BYTES, error->text, text);
    for (int rank = 0; rank < tcp->base.size; rank++) {
        tcp_peer *peer = &tcp->peers[rank];
        if (peer->link != NULL && !peer->is_closed &&
            gy_tcp_link_note(peer->link, GY_FRAME_ABORT, body, ABORT_HEAD_BYTES + text) ==
                GY_OK) {
            /* a rank that cannot be informed notices by its deadline */
            (void)gy_tcp_push(tcp, rank);
        }
    }
}

/* Pass a received failure on: this rank may exit, and a peer that sees its end must know the
 * reason. */
static void tcp_abort(gy_transport *transport, const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    tcp_transport *tcp = tcp_of(transport);
    const uint32_t epoch = transport->survival.epoch;
    gy_transport_failure_say(&tcp->failure, error, transport->rank, epoch);
    if (gy_transport_failure_tell_once(&tcp->failure, epoch)) {
        tell_all(tcp, &tcp->failure.error);
    }
}

static bool tcp_has_joined(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < transport->size);
    const tcp_transport *tcp = tcp_of(transport);
    return !tcp->peers[peer].is_far || tcp->peers[peer].has_joined;
}

static void tcp_nap(gy_transport *transport, int64_t nap_ns)
{
    GY_ASSERT(nap_ns >= 0);
    tcp_transport *tcp = tcp_of(transport);
    push_held(tcp);
    if (nap_ns > 0) {
        (void)look_at_all(tcp, (int)((nap_ns + 999999) / 1000000));
    }
}

/* ---- Close ---- */

/* Announce that this rank leaves, and wait a moment for unsent data. */
static void say_goodbye(tcp_transport *tcp)
{
    GY_ASSERT(tcp->busy_count <= tcp->base.size);
    gy_deadline deadline = gy_env_deadline(tcp->base.env, CLOSE_MS / 1000.0);
    for (int rank = 0; rank < tcp->base.size; rank++) {
        tcp_peer *peer = &tcp->peers[rank];
        if (peer->link != NULL && !peer->is_closed && !peer->link->is_cut &&
            gy_tcp_link_note(peer->link, GY_FRAME_LEAVE, NULL, 0) == GY_OK) {
            (void)gy_tcp_push(tcp, rank);
        }
    }
    for (int rank = 0; rank < tcp->base.size; rank++) {
        tcp_peer *peer = &tcp->peers[rank];
        while (peer->link != NULL && !peer->is_closed && !peer->link->is_cut &&
               gy_tcp_link_is_full(peer->link) && gy_now_ns(tcp->base.env) < deadline.at_ns) {
            struct pollfd look = {.fd = gy_tcp_wire_socket(peer->link->wire),
                                  .events = POLLOUT};
            (void)poll(&look, 1, CLOSE_MS / 10);
            (void)gy_tcp_push(tcp, rank);
        }
    }
}

static void tcp_part(gy_transport *transport)
{
    tcp_transport *tcp = tcp_of(transport);
    for (int rank = 0; rank < transport->size; rank++) {
        tcp_peer *peer = &tcp->peers[rank];
        if (peer->link != NULL) {
            gy_tcp_lose(tcp, rank,
                        gy_fail(GY_PEER, "the launch continues without this connection"));
            gy_tcp_link_free(peer->link);
            peer->link = NULL;
        }
    }
    gy_tcp_acceptor_free(tcp->door);
    tcp->door = NULL;
}

static void tcp_close(gy_transport *transport)
{
    tcp_transport *tcp = tcp_of(transport);
    say_goodbye(tcp);
    for (int rank = 0; rank < transport->size; rank++) {
        gy_transport_transfers_end(sends_of(&tcp->peers[rank]), GY_STATE);
        gy_greeting_free(tcp->peers[rank].greeting);
        gy_tcp_link_free(tcp->peers[rank].link);
        gy_inbox_fini(&tcp->peers[rank].early_inbox);
    }
    gy_tcp_acceptor_free(tcp->door);
    gy_tls_free(tcp->tls);
    if (tcp->epoll >= 0) {
        close(tcp->epoll);
    }
    gy_free(tcp->busy);
    gy_free(tcp);
}

static gy_status tcp_heed(gy_transport *transport, int descriptor)
{
    GY_ASSERT(descriptor >= 0);
    tcp_transport *tcp = tcp_of(transport);
    struct epoll_event event = {.events = EPOLLIN,
                                .data = {.u64 = (uint64_t)(uint32_t)BELL_EVENT}};
    if (epoll_ctl(tcp->epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) {
        return gy_fail(GY_IO, "epoll refuses a notification descriptor: %s", strerror(errno));
    }
    tcp->bell = descriptor;
    return GY_OK;
}

static bool tcp_is_busy(const gy_transport *transport)
{
    return ((const tcp_transport *)(const void *)transport)->busy_count > 0;
}

static const gy_transport_ops tcp_ops = {
    .name = "tcp",
    .close = tcp_close,
    .send = tcp_send,
    .recv = tcp_recv,
    .progress = tcp_progress,
    .cancel = tcp_cancel,
    .aborted = tcp_aborted,
    .check = tcp_check,
    .abort = tcp_abort,
    .has_joined = tcp_has_joined,
    .nap = tcp_nap,
    .is_busy = tcp_is_busy,
    .absent = tcp_absent,
    .heed = tcp_heed,
    .part = tcp_part,
};

gy_tcp_count gy_tcp_counts(const gy_transport *transport)
{
    const tcp_transport *tcp = (const tcp_transport *)(const void *)transport;
    gy_tcp_count sum = {.sent_bytes = 0};
    GY_ASSERT(transport->ops == &tcp_ops);
    for (int rank = 0; rank < transport->size; rank++) {
        const gy_tcp_link *link = tcp->peers[rank].link;
        if (link != NULL) {
            gy_tcp_wire_count count = gy_tcp_wire_counts(link->wire);
            sum.sent_bytes += count.sent_bytes;
            sum.received_bytes += count.received_bytes;
            sum.sent_frames += link->sequence;
        }
    }
    return sum;
}

static gy_status set_up(tcp_transport *tcp, const gy_tcp_options *options)
{
    GY_ASSERT(tcp->door == NULL);
    GY_ASSERT(tcp->tls == NULL);
    tcp->epoll = epoll_create1(EPOLL_CLOEXEC);
    gy_status status = GY_OK;
    if (tcp->epoll < 0) {
        status = gy_fail(GY_IO, "cannot make an epoll descriptor: %s", strerror(errno));
    } else if (tcp->busy == NULL) {
        status = GY_NOMEM;
    } else if (options->key != NULL) {
        status = gy_tls_new(options->key, GY_ROLE_RANK, &tcp->tls);
    }
    if (status < 0) {
        close(options->listener);
        return status;
    }
    gy_tcp_acceptor_options door = {.listener = options->listener,
                                    .tls = tcp->tls,
                                    .hello = tcp->hello,
                                    .judge = gy_tcp_judge,
                                    .arg = tcp};
    GY_TRY(gy_tcp_acceptor_new(&door, tcp->base.env, &tcp->door));
    gy_tcp_watch(tcp, options->listener, DOOR_EVENT, true, EPOLLIN);
    return GY_OK;
}

gy_status gy_tcp_open(const gy_tcp_options *options, gy_env *env, gy_transport **transport)
{
    GY_ASSERT(options != NULL);
    GY_ASSERT(transport != NULL);
    int size = options->size, rank = options->rank;
    if (size < 1 || size > GY_RANKS_MAX || rank < 0 || rank >= size) {
        close(options->listener);
        return gy_fail(GY_ARG, "rank %d of %d: expected 0 to %d of at most %d", rank, size,
                       size - 1, GY_RANKS_MAX);
    }
    tcp_transport *tcp = gy_alloc_zero("transport.tcp", 1,
                                       sizeof(tcp_transport) + (size_t)size * sizeof(tcp_peer));
    if (tcp == NULL) {
        close(options->listener);
        return GY_NOMEM;
    }
    int host_ranks = options->host_ranks > 0 ? options->host_ranks : 1;
    int cores = options->host_cores > 0 ? options->host_cores : gy_topo_cores();
    tcp->busy = gy_alloc_zero("transport.tcp", (size_t)size, sizeof(int));
    tcp->base = (gy_transport){.ops = &tcp_ops,
                               .env = env,
                               .rank = rank,
                               .size = size,
                               .host_ranks = host_ranks,
                               .host_cores = GY_MAX(options->host_cores, 0),
                               .is_oversubscribed = host_ranks > cores};
    tcp->hello = (gy_hello){.index = (uint32_t)rank, .count = (uint32_t)size};
    memcpy(tcp->hello.run, options->run, sizeof(tcp->hello.run));
    gy_status status = set_up(tcp, options);
    if (status < 0) {
        tcp_close(&tcp->base);
        return status;
    }
    for (int peer = 0; peer < size; peer++) {
        tcp->peers[peer].is_far =
            peer != rank &&
            (options->hosts == NULL || options->hosts[peer] != options->hosts[rank]);
        tcp->missing += tcp->peers[peer].is_far;
        tcp->peers[peer].early_inbox.survival = &tcp->base.survival;
    }
    for (int peer = 0; peer < rank; peer++) {
        if (tcp->peers[peer].is_far) {
            gy_tcp_call(tcp, peer, &options->addresses[peer]);
        }
    }
    *transport = &tcp->base;
    return GY_OK;
}
