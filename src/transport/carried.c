/*
 * A transport over packets that another library carries. A message is a sequence of packets on
 * the data lane: the first one begins with a head, and all but the last are full. The
 * transport requests a peer's packets only while a receive waits for them, so unwanted data
 * stay in the library. Notes (a failure, a departure, a liveness query) have a lane of their
 * own.
 */
#include "transport/carried_priv.h"
#include "transport/failure_priv.h"
#include "transport/match_priv.h"

#include <stdio.h>
#include <string.h>

enum { DATA_LANE, NOTE_LANE };
enum { PACKET_BYTES = 64 * 1024, SLOTS = 2 };
enum { NOTE_ABORT, NOTE_LEAVE, NOTE_ASK, NOTE_HERE };
#define ANSWER_S 0.5 /* time limit for the answer to a liveness query */
/* a rank that the library lost may have left in order: wait so long for its last note */
#define LAST_NOTES_S 0.1
#define CLOSE_S      1.0  /* time limit for sending the rest after a failure, */
#define CLOSE_WELL_S 60.0 /* and otherwise */

typedef struct head {
    uint64_t tag, size_bytes;
} head;

typedef struct slot {
    gy_carried packet;
    bool is_under_way;
    uint8_t *data; /* (packet_bytes) */
} slot;

typedef struct note {
    struct note *next;
    gy_carried packet;
    struct {
        int32_t kind, status, rank;
        uint32_t epoch;
        uint64_t packets; /* in a departure note: number of data packets sent before */
        char text[sizeof(((gy_error *)0)->text)];
    } said;
} note;

/* Buffers for a peer that exchanges messages with this rank. */
typedef struct traffic {
    slot out[SLOTS], in;
    size_t in_bytes, in_at; /* bytes of the received packet, and how many were used */
    uint8_t data[];
} traffic;

typedef struct carried_peer {
    gy_transfer *sends;
    gy_inbox inbox;
    traffic *traffic;
    bool is_begun; /* the first send's head is under way */
    bool is_cut;   /* a send was cancelled half way, so no further message can follow */
    bool is_listed, has_left, is_here;
    int64_t lost_ns; /* when the library first reported the peer as lost; 0: not yet */
    /* left_packets: packets that a departed peer had sent */
    uint64_t sent_packets, got_packets, left_packets;
} carried_peer;

typedef struct carried_transport {
    gy_transport base;
    gy_carrier carrier;
    size_t packet_bytes;
    note *notes; /* notes under way */
    gy_transport_failure failure;
    int near_first, near_count; /* ranks that another transport reaches; none: 0 of them */
    int busy_count;
    int *busy; /* peers with transfers under way */
    carried_peer peers[];
} carried_transport;

static carried_transport *carried_of(gy_transport *transport)
{
    return (carried_transport *)(void *)transport;
}

/* Does this transport reach the rank, and has it not given it up? */
static bool is_far(const carried_transport *carried, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < carried->base.size);
    int first = carried->near_first;
    return rank != carried->base.rank &&
           (rank < first || rank >= first + carried->near_count) &&
           !gy_transport_is_lost(&carried->base, rank);
}

/* The rank has left, and all its packets have arrived. */
static bool is_gone(const carried_peer *peer)
{
    return peer->has_left && peer->got_packets >= peer->left_packets;
}

static void fail_library(carried_transport *carried, int peer)
{
    GY_ASSERT(carried->carrier.name != NULL);
    gy_error error;
    gy_error_take(&error, gy_fail(GY_IO, "%s cannot carry a packet between rank %d and rank %d",
                                  carried->carrier.name, carried->base.rank, peer));
    gy_transport_failure_keep(&carried->failure, &error, carried->base.survival.epoch);
}

/* ---- Notes ---- */

static void send_note(carried_transport *carried, int to, int kind, const gy_error *error)
{
    GY_ASSERT(to >= 0);
    GY_ASSERT(to < carried->base.size);
    GY_ASSERT(kind >= NOTE_ABORT);
    GY_ASSERT(kind <= NOTE_HERE);
    const gy_carrier *carrier = &carried->carrier;
    note *made = gy_alloc_zero("transport.note", 1, sizeof(*made));
    if (made == NULL) {
        return; /* a rank that gets no note notices by its deadline */
    }
    made->said.kind = kind;
    made->said.epoch = carried->base.survival.epoch;
    made->said.packets = carried->peers[to].sent_packets;
    if (error != NULL) {
        made->said.status = (int32_t)error->status;
        made->said.rank = error->rank;
        memcpy(made->said.text, error->text, sizeof(made->said.text));
    }
    if (!carrier->send(carrier->context, to, NOTE_LANE, &made->said, sizeof(made->said),
                       &made->packet)) {
        gy_free(made);
        return;
    }
    made->next = carried->notes;
    carried->notes = made;
}

static void tell_all(carried_transport *carried, int kind, const gy_error *error)
{
    GY_ASSERT((error != NULL) == (kind == NOTE_ABORT));
    for (int rank = 0; rank < carried->base.size; rank++) {
        if (is_far(carried, rank)) {
            send_note(carried, rank, kind, error);
        }
    }
}

static void end_notes(carried_transport *carried)
{
    GY_ASSERT(carried->carrier.is_done != NULL);
    const gy_carrier *carrier = &carried->carrier;
    for (note **at = &carried->notes; *at != NULL;) {
        note *one = *at;
        if (carrier->is_done(carrier->context, &one->packet)) {
            *at = one->next;
            gy_free(one);
        } else {
            at = &one->next;
        }
    }
}

static void hear_note(carried_transport *carried, int from, const note *heard)
{
    GY_ASSERT(from >= 0);
    GY_ASSERT(from < carried->base.size);
    carried->peers[from].is_here = true;
    if (heard->said.kind == NOTE_ABORT && heard->said.status < 0) {
        gy_error error = {.status = (gy_status)heard->said.status, .rank = heard->said.rank};
        snprintf(error.text, sizeof(error.text), "%s", heard->said.text);
        gy_transport_failure_keep(&carried->failure, &error, heard->said.epoch);
    } else if (heard->said.kind == NOTE_LEAVE) {
        carried->peers[from].has_left = true;
        carried->peers[from].left_packets = heard->said.packets;
    } else if (heard->said.kind == NOTE_ASK) {
        send_note(carried, from, NOTE_HERE, NULL);
    }
}

static void hear_notes(carried_transport *carried)
{
    GY_ASSERT(carried->carrier.look != NULL);
    const gy_carrier *carrier = &carried->carrier;
    int from = GY_CARRIER_ANY;
    size_t size = 0;
    end_notes(carried);
    while (carrier->look(carrier->context, &from, NOTE_LANE, &size)) {
        note heard;
        if (size != sizeof(heard.said) || from < 0 || from >= carried->base.size ||
            !carrier->recv(carrier->context, from, NOTE_LANE, &heard.said, size,
                           &heard.packet)) {
            fail_library(carried, from);
            return;
        }
        while (!carrier->is_done(carrier->context, &heard.packet)) {
            carried->base.env->ops->pause(carried->base.env, 0); /* the answer has arrived */
        }
        heard.said.text[sizeof(heard.said.text) - 1] = '\0';
        hear_note(carried, from, &heard);
        from = GY_CARRIER_ANY;
    }
}

/* ---- Data ---- */

static traffic *traffic_of(carried_transport *carried, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < carried->base.size);
    GY_ASSERT(rank != carried->base.rank);
    carried_peer *peer = &carried->peers[rank];
    if (peer->traffic == NULL) {
        size_t room = carried->packet_bytes;
        traffic *made = gy_alloc("transport.carried", sizeof(*made) + (SLOTS + 1) * room);
        if (made != NULL) {
            *made = (traffic){.in = {.data = made->data + SLOTS * room}};
            for (size_t i = 0; i < SLOTS; i++) {
                made->out[i].data = made->data + i * room;
            }
        }
        peer->traffic = made;
    }
    return peer->traffic;
}

static bool is_sending(const carried_peer *peer)
{
    GY_ASSERT(peer->sends == NULL || peer->sends->done_bytes <= peer->sends->size_bytes);
    bool is = peer->sends != NULL;
    for (int i = 0; i < SLOTS && peer->traffic != NULL; i++) {
        is = is || peer->traffic->out[i].is_under_way;
    }
    return is;
}

static bool is_receiving(const carried_peer *peer)
{
    return gy_inbox_is_busy(&peer->inbox) ||
           (peer->traffic != NULL && peer->traffic->in.is_under_way);
}

/* Fill the next packet of the first send. */
static size_t fill(carried_peer *peer, uint8_t *packet, size_t room)
{
    GY_ASSERT(peer->sends != NULL);
    GY_ASSERT(room > sizeof(head));
    gy_transfer *send = peer->sends;
    size_t used = 0;
    if (!peer->is_begun) {
        head begin = {.tag = send->tag, .size_bytes = send->size_bytes};
        memcpy(packet, &begin, sizeof(begin));
        used = sizeof(begin);
        peer->is_begun = true;
    }
    size_t part = GY_MIN(send->size_bytes - send->done_bytes, room - used);
    if (part > 0) {
        memcpy(packet + used, send->data + send->done_bytes, part);
        send->done_bytes += part;
    }
    if (send->done_bytes == send->size_bytes) {
        peer->sends = send->next;
        peer->is_begun = false;
        gy_transfer_end(send, GY_OK);
    }
    return used + part;
}

static bool push(carried_transport *carried, int rank)
{
    GY_ASSERT(rank != carried->base.rank);
    const gy_carrier *carrier = &carried->carrier;
    carried_peer *peer = &carried->peers[rank];
    traffic *way = traffic_of(carried, rank);
    bool has_moved = false;
    for (int i = 0; way != NULL && i < SLOTS; i++) {
        slot *out = &way->out[i];
        if (out->is_under_way && carrier->is_done(carrier->context, &out->packet)) {
            out->is_under_way = false;
            has_moved = true;
        }
        if (out->is_under_way || peer->sends == NULL) {
            continue;
        }
        size_t size = fill(peer, out->data, carried->packet_bytes);
        GY_ASSERT(size > 0);
        GY_ASSERT(size <= carried->packet_bytes);
        out->is_under_way =
            carrier->send(carrier->context, rank, DATA_LANE, out->data, size, &out->packet);
        has_moved = true;
        if (!out->is_under_way) {
            fail_library(carried, rank);
            return true;
        }
        peer->sent_packets++;
    }
    return has_moved;
}

/* Process the received packet; false: no receive wants the message, and there is no room for
 * it. */
static bool use(carried_transport *carried, int rank)
{
    GY_ASSERT(carried->peers[rank].traffic != NULL);
    carried_peer *peer = &carried->peers[rank];
    traffic *way = peer->traffic;
    GY_ASSERT(way->in_bytes > 0);
    GY_ASSERT(way->in_bytes <= carried->packet_bytes);
    if (!peer->inbox.is_arriving) {
        head begin;
        if (way->in_bytes < sizeof(begin)) {
            fail_library(carried, rank);
            return false;
        }
        memcpy(&begin, way->in.data, sizeof(begin));
        if (!gy_inbox_begin(&peer->inbox, begin.tag, begin.size_bytes)) {
            return false;
        }
        way->in_at = sizeof(begin);
    }
    uint8_t *to = NULL;
    size_t part = way->in_bytes - way->in_at;
    if (part > 0) {
        if (!peer->inbox.is_arriving || gy_inbox_space(&peer->inbox, &to) < part) {
            fail_library(carried, rank);
            return false;
        }
        if (to != NULL) {
            memcpy(to, way->in.data + way->in_at, part);
        }
        gy_inbox_filled(&peer->inbox, part);
    }
    way->in_bytes = way->in_at = 0;
    peer->got_packets++;
    return true;
}

/* Request the next packet, if there is one. */
static bool ask_for(carried_transport *carried, int rank)
{
    GY_ASSERT(carried->peers[rank].traffic != NULL);
    GY_ASSERT(!carried->peers[rank].traffic->in.is_under_way);
    const gy_carrier *carrier = &carried->carrier;
    traffic *way = carried->peers[rank].traffic;
    int from = rank;
    size_t size = 0;
    if (!carrier->look(carrier->context, &from, DATA_LANE, &size)) {
        return false;
    }
    way->in_bytes = size;
    way->in.is_under_way =
        size <= carried->packet_bytes &&
        carrier->recv(carrier->context, rank, DATA_LANE, way->in.data, size, &way->in.packet);
    if (!way->in.is_under_way) {
        way->in_bytes = 0;
        fail_library(carried, rank);
    }
    return way->in.is_under_way;
}

static bool pull(carried_transport *carried, int rank)
{
    GY_ASSERT(rank != carried->base.rank);
    const gy_carrier *carrier = &carried->carrier;
    carried_peer *peer = &carried->peers[rank];
    traffic *way = traffic_of(carried, rank);
    bool has_moved = false;
    while (way != NULL) {
        if (way->in.is_under_way) {
            if (!carrier->is_done(carrier->context, &way->in.packet)) {
                break;
            }
            way->in.is_under_way = false;
        }
        bool is_wanted = way->in_bytes > 0 || gy_inbox_is_busy(&peer->inbox);
        if (!is_wanted || !(way->in_bytes > 0 ? use : ask_for)(carried, rank)) {
            break;
        }
        has_moved = true;
    }
    return has_moved;
}

/* Deliver messages of this rank to itself. */
static bool deliver_own(carried_transport *carried)
{
    carried_peer *self = &carried->peers[carried->base.rank];
    return gy_transport_transfers_deliver(&self->sends, &self->inbox);
}

/* ---- The table of functions ---- */

static void list(carried_transport *carried, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < carried->base.size);
    carried_peer *peer = &carried->peers[rank];
    if (!peer->is_listed && rank != carried->base.rank &&
        (is_sending(peer) || is_receiving(peer))) {
        peer->is_listed = true;
        GY_ASSERT(carried->busy_count < carried->base.size);
        carried->busy[carried->busy_count++] = rank;
    }
}

static gy_status carried_progress(gy_transport *transport)
{
    GY_ASSERT(carried_of(transport)->busy_count >= 0);
    carried_transport *carried = carried_of(transport);
    bool has_moved = deliver_own(carried);
    for (int i = 0; i < carried->busy_count;) {
        int rank = carried->busy[i];
        carried_peer *peer = &carried->peers[rank];
        has_moved = (is_sending(peer) && push(carried, rank)) || has_moved;
        has_moved = (is_receiving(peer) && pull(carried, rank)) || has_moved;
        if (is_sending(peer) || is_receiving(peer)) {
            i++;
        } else {
            peer->is_listed = false;
            carried->busy[i] = carried->busy[--carried->busy_count];
        }
    }
    return has_moved ? GY_OK : GY_AGAIN;
}

static gy_status carried_send(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    carried_transport *carried = carried_of(transport);
    int to = transfer->peer; /* a copy of a send that completes at once is freed then */
    carried_peer *peer = &carried->peers[to];
    if (peer->has_left) {
        return gy_fail(GY_PEER, "rank %d has left the launch", to);
    }
    if (peer->is_cut) {
        return gy_fail(GY_STATE,
                       "a message to rank %d was abandoned half sent: no message can follow",
                       to);
    }
    gy_transport_transfers_push(&peer->sends, transfer);
    if (to == transport->rank) {
        (void)deliver_own(carried);
        return GY_OK;
    }
    (void)push(carried, to);
    list(carried, to);
    return GY_OK;
}

static gy_status carried_recv(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    carried_transport *carried = carried_of(transport);
    carried_peer *peer = &carried->peers[transfer->peer];
    gy_inbox_post(&peer->inbox, transfer);
    if (transfer->peer == transport->rank) {
        (void)deliver_own(carried);
        return GY_OK;
    }
    (void)pull(carried, transfer->peer);
    list(carried, transfer->peer);
    return GY_OK;
}

static void carried_cancel(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    carried_peer *peer = &carried_of(transport)->peers[transfer->peer];
    if (!gy_transport_transfers_cancel(&peer->sends, &peer->inbox, transfer, peer->is_begun)) {
        peer->is_cut = true;
    }
}

static gy_status carried_aborted(gy_transport *transport)
{
    carried_transport *carried = carried_of(transport);
    hear_notes(carried);
    return gy_transport_failure_raise(&carried->failure, transport->survival.epoch);
}

/* Does the library report as lost a rank that did not announce its departure? */
static bool is_lost(carried_transport *carried, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < carried->base.size);
    const gy_carrier *carrier = &carried->carrier;
    carried_peer *peer = &carried->peers[rank];
    if (carrier->is_lost == NULL || peer->has_left || !is_far(carried, rank) ||
        !carrier->is_lost(carrier->context, rank)) {
        return false;
    }
    int64_t now_ns = gy_now_ns(carried->base.env);
    peer->lost_ns = peer->lost_ns == 0 ? now_ns : peer->lost_ns;
    return (double)(now_ns - peer->lost_ns) * 1e-9 > LAST_NOTES_S;
}

static gy_status carried_check(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= -1);
    GY_ASSERT(peer < transport->size);
    carried_transport *carried = carried_of(transport);
    if (peer >= 0 && is_gone(&carried->peers[peer])) {
        return gy_fail(GY_PEER, "rank %d has left the launch", peer);
    }
    int first = peer >= 0 ? peer : 0, end = peer >= 0 ? peer + 1 : transport->size;
    for (int rank = first; rank < end && carried->carrier.is_lost != NULL; rank++) {
        if (is_lost(carried, rank)) {
            return gy_fail(GY_PEER, "rank %d is lost", rank);
        }
    }
    return GY_OK;
}

static void carried_abort(gy_transport *transport, const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    carried_transport *carried = carried_of(transport);
    const uint32_t epoch = transport->survival.epoch;
    const bool is_first = carried_aborted(transport) == GY_OK;
    gy_transport_failure_say(&carried->failure, error, transport->rank, epoch);
    /* Where departures are visible, pass a received failure on: after this call the rank may
     * exit. */
    if ((is_first || carried->carrier.is_lost != NULL) &&
        gy_transport_failure_tell_once(&carried->failure, epoch)) {
        tell_all(carried, NOTE_ABORT, &carried->failure.error);
    }
}

static bool carried_has_joined(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < transport->size);
    (void)transport;
    (void)peer;
    return true;
}

static void carried_nap(gy_transport *transport, int64_t nap_ns)
{
    GY_ASSERT(nap_ns >= 0);
    (void)nap_ns; /* no peer can wake a sleeping rank */
    transport->env->ops->pause(transport->env, UINT64_MAX);
}

static bool carried_is_busy(const gy_transport *transport)
{
    return ((const carried_transport *)(const void *)transport)->busy_count > 0;
}

static int count_silent(const carried_transport *carried, double seconds, gy_absent *absent,
                        int room)
{
    GY_ASSERT(room >= 0);
    GY_ASSERT(absent != NULL || room == 0);
    int count = 0;
    for (int rank = 0; rank < carried->base.size; rank++) {
        const carried_peer *peer = &carried->peers[rank];
        if (!is_far(carried, rank) || peer->is_here || peer->has_left) {
            continue;
        }
        if (count < room) {
            absent[count] = (gy_absent){.rank = rank, .seconds = seconds};
        }
        count++;
    }
    return count;
}

static int carried_absent(gy_transport *transport, gy_absent *absent, int room)
{
    GY_ASSERT(room >= 0);
    carried_transport *carried = carried_of(transport);
    int64_t start_ns = gy_now_ns(transport->env), now_ns;
    int64_t end_ns = gy_env_deadline(transport->env, ANSWER_S).at_ns;
    int count = 0;
    for (int rank = 0; rank < transport->size; rank++) {
        carried->peers[rank].is_here = false;
    }
    tell_all(carried, NOTE_ASK, NULL);
    do {
        carried_nap(transport, 0);
        hear_notes(carried);
        now_ns = gy_now_ns(transport->env);
        count = count_silent(carried, (double)(now_ns - start_ns) * 1e-9, absent, room);
    } while (count > 0 && !carried->failure.is_set && now_ns < end_ns);
    return count;
}

/* ---- Open and close ---- */

/* Receive and discard packets that nobody wants any more. */
static void drain(carried_transport *carried, int rank)
{
    GY_ASSERT(rank != carried->base.rank);
    const gy_carrier *carrier = &carried->carrier;
    carried_peer *peer = &carried->peers[rank];
    traffic *way = peer->got_packets < peer->left_packets ? traffic_of(carried, rank) : NULL;
    while (way != NULL && !is_gone(peer)) {
        bool is_here = way->in.is_under_way
                           ? carrier->is_done(carrier->context, &way->in.packet)
                           : way->in_bytes > 0;
        if (is_here) {
            way->in.is_under_way = false;
            way->in_bytes = 0;
            peer->got_packets++;
        } else if (way->in.is_under_way || !ask_for(carried, rank)) {
            break;
        }
    }
}

/* Did a failure occur in this epoch or a later one? */
static bool has_failed(const carried_transport *carried)
{
    return carried->failure.is_set && carried->failure.epoch >= carried->base.survival.epoch;
}

/*
 * A library without `close` ends in order only after everything sent was received, and its
 * shutdown waits for all ranks anyway. With `close`, a rank leaves once its own sends are
 * done. False: not within the time limit.
 */
static bool say_goodbye(carried_transport *carried)
{
    GY_ASSERT(carried->busy_count <= carried->base.size);
    const gy_deadline well = gy_env_deadline(carried->base.env, CLOSE_WELL_S),
                      failed = gy_env_deadline(carried->base.env, CLOSE_S);
    bool is_over = false, is_told = false, is_alone = carried->carrier.close != NULL;
    while (!is_over &&
           gy_now_ns(carried->base.env) < (has_failed(carried) ? failed : well).at_ns) {
        bool is_sent = true;
        is_over = is_told;
        hear_notes(carried);
        for (int rank = 0; rank < carried->base.size; rank++) {
            carried_peer *peer = &carried->peers[rank];
            if (is_far(carried, rank)) {
                (void)(is_sending(peer) && push(carried, rank));
                drain(carried, rank);
                is_sent = is_sent && (peer->sends == NULL || peer->has_left);
                is_over = is_over && (peer->has_left || !is_sending(peer)) &&
                          (is_alone || is_gone(peer));
            }
        }
        is_over = is_over && carried->notes == NULL;
        if (is_sent && !is_told) {
            tell_all(carried, NOTE_LEAVE, NULL);
            is_told = true;
        }
        carried_nap(&carried->base, 0);
    }
    return is_over;
}

static void carried_close(gy_transport *transport)
{
    carried_transport *carried = carried_of(transport);
    const gy_carrier *carrier = &carried->carrier;
    bool is_well = say_goodbye(carried);
    if (carrier->close != NULL) {
        carrier->close(carrier->context);
    } else if (!is_well) {
        carrier->lose(carrier->context);
        return; /* the library may still read the buffers of packets under way */
    }
    while (carried->notes != NULL) {
        note *next = carried->notes->next;
        gy_free(carried->notes);
        carried->notes = next;
    }
    for (int rank = 0; rank < transport->size; rank++) {
        gy_transport_transfers_end(&carried->peers[rank].sends, GY_STATE);
        gy_inbox_fini(&carried->peers[rank].inbox);
        gy_free(carried->peers[rank].traffic);
    }
    gy_free(carried->busy);
    gy_free(carried);
}

static const gy_transport_ops carried_ops = {
    .name = "carried",
    .close = carried_close,
    .send = carried_send,
    .recv = carried_recv,
    .progress = carried_progress,
    .cancel = carried_cancel,
    .aborted = carried_aborted,
    .check = carried_check,
    .abort = carried_abort,
    .has_joined = carried_has_joined,
    .nap = carried_nap,
    .is_busy = carried_is_busy,
    .absent = carried_absent,
};

gy_status gy_carried_open(const gy_carried_options *options, const gy_carrier *carrier,
                          gy_env *env, gy_transport **transport)
{
    GY_ASSERT(carrier->send != NULL);
    GY_ASSERT(carrier->recv != NULL);
    GY_ASSERT(carrier->look != NULL);
    GY_ASSERT(carrier->is_done != NULL);
    int size = options->size;
    if (size < 1 || size > GY_RANKS_MAX) {
        return gy_fail(GY_ARG, "%d ranks: expected 1 to %d", size, GY_RANKS_MAX);
    }
    carried_transport *made = gy_alloc_zero(
        "transport.carried", 1, sizeof(*made) + (size_t)size * sizeof(made->peers[0]));
    int *busy = gy_alloc_zero("transport.carried", (size_t)size, sizeof(*busy));
    if (made == NULL || busy == NULL) {
        gy_free(made);
        gy_free(busy);
        return GY_NOMEM;
    }
    made->carrier = *carrier;
    made->packet_bytes = options->packet_bytes > 0 ? options->packet_bytes : PACKET_BYTES;
    GY_ASSERT(made->packet_bytes > sizeof(head));
    GY_ASSERT(options->rank >= 0);
    GY_ASSERT(options->rank < size);
    GY_ASSERT(options->near_count >= 0);
    GY_ASSERT(options->near_count <= size);
    made->busy = busy;
    made->near_first = options->near_first;
    made->near_count = options->near_count;
    made->base = (gy_transport){.ops = &carried_ops,
                                .env = env,
                                .rank = options->rank,
                                .size = size,
                                .host_ranks = options->host_ranks,
                                .is_oversubscribed = options->host_ranks > options->host_cores};
    for (int peer = 0; peer < size; peer++) {
        made->peers[peer].inbox.survival = &made->base.survival;
    }
    *transport = &made->base;
    return GY_OK;
}
