/* One connection: frames in order, hellos, heartbeats, silence. */
#include "rpc/session/session_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <stdio.h>
#include <string.h>

/* Time limit to connect, shake hands and send the hello. */
static const int64_t open_within_ns = 5000000000;

gy_status gy_rpc_link_new(gy_rpc *node, gy_rpc_link **link)
{
    gy_rpc_link *made = gy_alloc_zero("rpc.link", 1, sizeof(*made));
    if (made == NULL || gy_rpc_alarm_admit(&node->alarms) < 0) {
        gy_free(made);
        return GY_NOMEM;
    }
    made->node = node;
    made->alarm.kind = ALARM_LINK;
    made->role = GY_RPC_ROLES;
    made->opened_ns = made->heard_ns = made->said_ns = gy_rpc_now_ns(node);
    made->next = node->links;
    if (node->links != NULL) {
        node->links->previous = made;
    }
    node->links = made;
    gy_rpc_alarm_set(&node->alarms, &made->alarm, made->opened_ns + open_within_ns);
    *link = made;
    return GY_OK;
}

static void set_alarm(gy_rpc *node, gy_rpc_link *link)
{
    if (!link->is_ready) {
        gy_rpc_alarm_set(&node->alarms, &link->alarm, link->opened_ns + open_within_ns);
        return;
    }
    int64_t dead_ns = link->heard_ns + node->options.dead_ns;
    int64_t beat_ns = link->said_ns + node->options.beat_ns;
    gy_rpc_alarm_set(&node->alarms, &link->alarm, GY_MIN(dead_ns, beat_ns));
}

/* ---- Output ---- */

static gy_status put(gy_rpc_link *link, uint64_t tag, const ProtobufCMessage *message)
{
    gy_rpc *node = link->node;
    if (link->is_dead || link->is_broken) {
        return gy_fail(GY_PEER, "the connection has closed");
    }
    gy_status status = gy_rpc_outbox_put(&link->outbox, tag, message);
    /* the link ends in the next turn, not within a function that the user called */
    if (status < 0) {
        link->is_broken = true;
        gy_rpc_alarm_set(&node->alarms, &link->alarm, gy_rpc_now_ns(node));
        return status;
    }
    link->said_ns = gy_rpc_now_ns(node);
    node->is_due = true;
    node->ops->push(node->carrier, link);
    return GY_OK;
}

gy_status gy_rpc_link_say(gy_rpc_link *link, gy_rpc_kind kind, uint32_t type,
                          Gy__Rpc__Envelope *envelope)
{
    rpc_peer *peer = link->peer;
    bool has_acks = peer != NULL && peer->link == link && link->is_ready && peer->ack_count > 0;
    if (has_acks) {
        envelope->n_acks = GY_MIN(peer->ack_count, (size_t)RPC_ACKS);
        envelope->acks = peer->acks;
    }
    GY_TRY(put(link, gy_rpc_tag_of(kind, type), &envelope->base));
    if (has_acks) {
        peer->ack_count -= envelope->n_acks;
        memmove(peer->acks, peer->acks + envelope->n_acks, peer->ack_count * sizeof(uint64_t));
        peer->ack_bytes = 0;
    }
    return GY_OK;
}

gy_status gy_rpc_link_hello(gy_rpc_link *link)
{
    gy_rpc *node = link->node;
    rpc_peer *peer = link->peer;
    Gy__Rpc__Hello hello;
    uint64_t *open = NULL;
    size_t count = 0;
    gy__rpc__hello__init(&hello);
    if (peer->calls.count > 0) {
        open = gy_alloc_zero("rpc.hello", peer->calls.count, sizeof(*open));
        if (open == NULL) {
            return GY_NOMEM;
        }
    }
    for (rpc_call *call = peer->first; call != NULL && open != NULL; call = call->next) {
        if (call->was_sent) {
            open[count++] = call->entry.number;
        }
    }
    /* A node that dials another one twice appears there as two peers. */
    uint8_t id[RPC_ID_BYTES];
    uint64_t own = link->is_dialled ? peer->entry.number : 0;
    memcpy(id, node->id, RPC_ID_BYTES);
    for (size_t i = 0; i < sizeof(own); i++) {
        id[i] ^= (uint8_t)(own >> (8 * i));
    }
    hello.version = RPC_VERSION;
    hello.from = (ProtobufCBinaryData){.len = RPC_ID_BYTES, .data = id};
    hello.connection = peer->connection;
    hello.role = (uint32_t)node->options.role;
    hello.subject = node->subject;
    hello.name = node->name;
    hello.session = link->is_dialled ? 0 : peer->entry.number;
    hello.n_open = count;
    hello.open = open;
    gy_status status = put(link, gy_rpc_tag_of(KIND_HELLO, 0), &hello.base);
    gy_free(open);
    return status;
}

/* ---- Input ---- */

static size_t limit_of(const void *arg, uint64_t tag)
{
    const gy_rpc_link *link = arg;
    uint64_t kind = tag & 255, type = tag >> 8;
    if (kind < KIND_CALL || !link->is_ready) {
        bool is_first = kind == KIND_HELLO && !link->is_ready;
        bool is_later = kind == KIND_BEAT && link->is_ready;
        bool is_word = is_later || kind == KIND_BYE || kind == KIND_REFUSED;
        return type != 0 ? 0 : is_first ? RPC_HELLO_BYTES : is_word ? RPC_MORE_BYTES : 0;
    }
    if (kind == KIND_CANCEL || kind == KIND_CUT) {
        return type == 0 ? RPC_MORE_BYTES : 0;
    }
    if (kind == KIND_BESIDE) { /* 0 when none are to come */
        return type == 0 ? link->coming.left_bytes : 0;
    }
    const gy_rpc_method *method = gy_rpc_method_of(link->node, type);
    bool has_answer = method != NULL && method->answer != NULL;
    if (method == NULL || kind > KIND_TELL || has_answer != (kind != KIND_TELL)) {
        return 0;
    }
    return (size_t)RPC_MORE_BYTES +
           (kind == KIND_ANSWER ? method->answer_bytes_max : method->request_bytes_max);
}

static gy_status hear_hello(gy_rpc_link *link, const uint8_t *body, size_t size_bytes)
{
    ProtobufCMessage *message = NULL;
    GY_TRY(gy_rpc_unpack(&gy__rpc__hello__descriptor, body, size_bytes, &message));
    gy_status status = gy_rpc_peer_hello(link, (const Gy__Rpc__Hello *)message);
    gy_rpc_unpacked_free(message);
    return status;
}

/* Make a text of the other end safe for messages here. */
static const char *words_of(const char *text, char out[RPC_TEXT_BYTES])
{
    snprintf(out, RPC_TEXT_BYTES, "%s", text);
    for (char *at = out; *at != '\0'; at++) {
        *at = (char)((unsigned char)*at < ' ' || *at == 127 ? '?' : *at);
    }
    return out;
}

/* Bytes beside a message are judged before anything is done with it. */
static gy_status check_beside(const gy_rpc_link *link, const gy_rpc_method *method,
                              gy_rpc_kind kind, const Gy__Rpc__Envelope *envelope)
{
    bool is_message = kind == KIND_CALL || kind == KIND_ANSWER;
    size_t most = !is_message            ? 0
                  : kind == KIND_CALL    ? method->request_beside_max
                  : envelope->status < 0 ? 0
                                         : method->answer_beside_max;
    if (envelope->beside_bytes > most) {
        return gy_fail(GY_FORMAT, "%llu bytes beside a message: expected at most %zu",
                       (unsigned long long)envelope->beside_bytes, most);
    }
    if (is_message && link->coming.left_bytes > 0) {
        return gy_fail(GY_FORMAT, "a message before the %zu bytes of the one before it",
                       link->coming.left_bytes);
    }
    return GY_OK;
}

static gy_status hear_envelope(gy_rpc_link *link, const Gy__Rpc__Envelope *envelope)
{
    rpc_peer *peer = link->peer;
    uint64_t tag = link->inbox.frame.tag;
    const gy_rpc_method *method = gy_rpc_method_of(link->node, tag >> 8);
    gy_rpc_kind kind = (gy_rpc_kind)(tag & 255);
    char text[RPC_TEXT_BYTES];
    if (kind == KIND_REFUSED) {
        return gy_fail(GY_STATE, "it refused: %s", words_of(envelope->text, text));
    }
    if (kind == KIND_BYE) {
        if (peer != NULL && !peer->is_dialled) {
            peer->is_dropped = true; /* the peer will not return */
        }
        return gy_fail(GY_PEER, "it has ended");
    }
    GY_ASSERT(peer != NULL && link->is_ready);
    GY_TRY(check_beside(link, method, kind, envelope));
    gy_rpc_serve_acks(peer, envelope->acks, envelope->n_acks);
    switch (kind) {
    case KIND_CALL:
        return gy_rpc_serve_call(peer, method, envelope);
    case KIND_TELL:
        return gy_rpc_serve_tell(peer, method, envelope);
    case KIND_ANSWER:
        return gy_rpc_calls_answer(peer, method, envelope);
    case KIND_CANCEL:
        gy_rpc_serve_cancel(peer, envelope->number);
        return GY_OK;
    case KIND_CUT:
        return gy_rpc_coming_cut(link);
    case KIND_BESIDE:
    case KIND_BEAT:
    case KIND_BYE:
    case KIND_HELLO:
    case KIND_REFUSED:
    case KINDS:
    default:
        return GY_OK;
    }
}

static gy_status hear(gy_rpc_link *link, const uint8_t *body)
{
    const gy_transport_frame *frame = &link->inbox.frame;
    size_t size = (size_t)frame->size_bytes;
    ProtobufCMessage *message = NULL;
    if ((frame->tag & 255) == KIND_HELLO) {
        return hear_hello(link, body, size);
    }
    GY_TRY(gy_rpc_unpack(&gy__rpc__envelope__descriptor, body, size, &message));
    gy_status status = hear_envelope(link, (const Gy__Rpc__Envelope *)message);
    gy_rpc_unpacked_free(message);
    return status;
}

void gy_rpc_link_input(gy_rpc *rpc, gy_rpc_link *link, const void *data, size_t size_bytes)
{
    const uint8_t *at = data, *body = NULL;
    gy_rpc_enter(rpc);
    link->heard_ns = gy_rpc_now_ns(rpc);
    while (!link->is_dead) {
        if (link->inbox.raw_bytes > 0) {
            if (size_bytes == 0) {
                break;
            }
            size_t taken = gy_rpc_coming_take(link, at, size_bytes);
            at += taken;
            size_bytes -= taken;
            continue;
        }
        gy_status status =
            gy_rpc_inbox_take(&link->inbox, &at, &size_bytes, limit_of, link, &body);
        if (status == GY_AGAIN) {
            break;
        }
        if (status == GY_OK && body != NULL) {
            status = hear(link, body);
        }
        if (status < 0 && !link->is_dead) {
            gy_rpc_link_end(link, status);
        }
    }
    gy_rpc_leave(rpc);
}

/* ---- Open and close ---- */

gy_status gy_rpc_link_in(gy_rpc *rpc, const char *from, gy_rpc_link **link)
{
    GY_TRY(gy_rpc_link_new(rpc, link));
    snprintf((*link)->from, sizeof((*link)->from), "%s", from);
    return GY_OK;
}

void gy_rpc_link_up(gy_rpc *rpc, gy_rpc_link *link, gy_rpc_role role, const char *subject)
{
    GY_ASSERT(!link->is_up && !link->is_dead);
    GY_ASSERT(subject[0] == '\0' || gy_rpc_subject_is_good(subject));
    gy_rpc_enter(rpc);
    link->is_up = true;
    link->role = role;
    snprintf(link->subject, sizeof(link->subject), "%s", subject);
    if (link->is_dialled) { /* silence counts from here on */
        snprintf(
            link->peer->why, sizeof(link->peer->why),
            "something listens there and does not answer as Gyre does: another program, or "
            "one that has a key");
    }
    gy_status status = link->is_dialled ? gy_rpc_link_hello(link) : GY_OK;
    if (status < 0) {
        gy_rpc_link_end(link, status);
    }
    gy_rpc_leave(rpc);
}

static void remove_link(gy_rpc_link *link)
{
    gy_rpc *node = link->node;
    link->is_dead = true;
    gy_rpc_alarm_set(&node->alarms, &link->alarm, INT64_MAX);
    if (link->previous != NULL) {
        link->previous->next = link->next;
    } else {
        node->links = link->next;
    }
    if (link->next != NULL) {
        link->next->previous = link->previous;
    }
    link->next_dead = node->dead_links;
    node->dead_links = link;
}

static void unlink_peer(gy_rpc_link *link, gy_status status)
{
    rpc_peer *peer = link->peer;
    rpc_asked *asked = link->lend.asked;
    gy_error why;
    gy_error_take(&why, status);
    link->peer = NULL;
    link->lend = (rpc_lend){0};
    gy_rpc_coming_drop(link);
    if (asked != NULL && peer != NULL) {
        gy_rpc_asked_over(peer, asked);
    }
    (void)gy_error_raise(&why);
    if (peer != NULL && peer->link == link) {
        gy_rpc_peer_unlinked(peer, status);
    }
}

void gy_rpc_link_end(gy_rpc_link *link, gy_status status)
{
    gy_rpc *node = link->node;
    gy_error why;
    if (link->is_dead) {
        return;
    }
    gy_error_take(&why, status);
    if (status == GY_FORMAT || (status == GY_STATE && !link->is_dialled)) {
        gy_rpc_complain(node, link->from, "was sent away", why.text);
    }
    remove_link(link);
    node->ops->close(node->carrier, link);
    (void)gy_error_raise(&why);
    unlink_peer(link, status);
}

void gy_rpc_link_lost(gy_rpc *rpc, gy_rpc_link *link, gy_status status)
{
    gy_error why;
    GY_ASSERT(!link->is_dead && status < 0);
    gy_rpc_enter(rpc);
    gy_error_take(&why, status);
    remove_link(link);
    (void)gy_error_raise(&why);
    unlink_peer(link, status);
    gy_rpc_leave(rpc);
}

void gy_rpc_link_ready(gy_rpc_link *link)
{
    link->is_ready = true;
    set_alarm(link->node, link);
}

void gy_rpc_link_alarm(gy_rpc_link *link)
{
    gy_rpc *node = link->node;
    int64_t now_ns = gy_rpc_now_ns(node), silent_ns = now_ns - link->heard_ns;
    Gy__Rpc__Envelope envelope;
    gy__rpc__envelope__init(&envelope);
    if (link->is_broken) {
        gy_rpc_link_end(link, gy_fail(GY_NOMEM, "out of memory for a message"));
        return;
    }
    if (!link->is_ready) {
        gy_rpc_link_end(link, gy_fail(GY_PEER, "the peer did not authenticate within %.0f s",
                                      (double)open_within_ns / 1e9));
        return;
    }
    if (GY_PLANTED(SILENCE_IGNORED)) {
        link->heard_ns = now_ns;
    } else if (silent_ns >= node->options.dead_ns) {
        gy_rpc_link_end(link, gy_fail(GY_PEER, "the peer sent nothing for %.1f s",
                                      (double)silent_ns / 1e9));
        return;
    }
    bool is_due = now_ns - link->said_ns >= node->options.beat_ns;
    if (is_due && link->outbox.size_bytes == link->outbox.at && !GY_PLANTED(BEAT_FORGOTTEN)) {
        envelope.number = 1; /* a frame needs at least one byte */
        if (gy_rpc_link_say(link, KIND_BEAT, 0, &envelope) < 0) {
            return;
        }
    }
    link->said_ns = is_due ? now_ns : link->said_ns; /* queued data count as a heartbeat too */
    set_alarm(node, link);
}

bool gy_rpc_link_is_ready(const gy_rpc_link *link)
{
    return link->is_ready;
}

void gy_rpc_link_set_tag(gy_rpc_link *link, void *tag)
{
    link->tag = tag;
}

void *gy_rpc_link_tag(const gy_rpc_link *link)
{
    return link->tag;
}

void gy_rpc_link_free(gy_rpc_link *link)
{
    gy_rpc_alarm_dismiss(&link->node->alarms, &link->alarm);
    gy_rpc_inbox_fini(&link->inbox);
    gy_rpc_outbox_fini(&link->outbox);
    gy_free(link);
}
