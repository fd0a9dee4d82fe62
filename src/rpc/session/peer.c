/* Peers: their identities, their connections, and their queues. */
#include "rpc/session/session_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <stdio.h>
#include <string.h>

rpc_peer *gy_rpc_peer_find(const gy_rpc *node, gy_rpc_peer handle)
{
    return (rpc_peer *)gy_rpc_table_find(&node->peers, handle);
}

static void set_text(rpc_peer *peer, const char *address)
{
    if (peer->name[0] != '\0') {
        snprintf(peer->text, sizeof(peer->text), "%s at %s", peer->name, address);
    } else {
        snprintf(peer->text, sizeof(peer->text), "%s", address);
    }
}

static gy_status peer_new(gy_rpc *node, rpc_peer **peer)
{
    rpc_peer *made = gy_alloc_zero("rpc.peer", 1, sizeof(*made));
    if (made == NULL || gy_rpc_alarm_admit(&node->alarms) < 0) {
        gy_free(made);
        return GY_NOMEM;
    }
    made->node = node;
    made->alarm.kind = ALARM_PEER;
    made->entry.number = ++node->peer_count;
    snprintf(made->why, sizeof(made->why), "no answer yet");
    if (gy_rpc_table_add(&node->peers, &made->entry) < 0) {
        gy_rpc_alarm_dismiss(&node->alarms, &made->alarm);
        gy_free(made);
        return GY_NOMEM;
    }
    *peer = made;
    return GY_OK;
}

gy_status gy_rpc_dial(gy_rpc *rpc, const char *address, gy_rpc_peer *peer)
{
    rpc_peer *made = NULL;
    size_t size = strlen(address);
    if (size == 0 || size >= GY_RPC_ADDRESS_BYTES) {
        return gy_fail(GY_ARG, "an address of %zu characters: expected HOST:PORT", size);
    }
    GY_TRY(peer_new(rpc, &made));
    made->is_dialled = true;
    made->address = gy_copy_text("rpc.peer", address);
    if (made->address == NULL) {
        gy_rpc_peer_forget(made, GY_NOMEM);
        return GY_NOMEM;
    }
    set_text(made, address);
    gy_rpc_alarm_set(&rpc->alarms, &made->alarm, gy_rpc_now_ns(rpc));
    *peer = made->entry.number;
    return GY_OK;
}

/* ---- Connections to a dialled peer ---- */

static void dial(rpc_peer *peer)
{
    gy_rpc *node = peer->node;
    gy_rpc_link *link = NULL;
    peer->connection++;
    if (gy_rpc_link_new(node, &link) < 0) {
        gy_rpc_peer_unlinked(peer, GY_NOMEM);
        return;
    }
    link->is_dialled = true;
    link->peer = peer;
    peer->link = link;
    snprintf(link->from, sizeof(link->from), "%s", peer->address);
    gy_status status = node->ops->dial(node->carrier, link, peer->address);
    if (status < 0) {
        gy_rpc_link_lost(node, link, status);
    }
}

/* Double the pause after each failure; half of it is random. */
static void dial_later(rpc_peer *peer)
{
    const gy_rpc *node = peer->node;
    int64_t wait_ns = node->options.retry_ns_min;
    for (uint32_t i = 0; i < peer->failures && wait_ns < node->options.retry_ns_max; i++) {
        wait_ns *= 2;
    }
    wait_ns = GY_MIN(wait_ns, node->options.retry_ns_max);
    uint64_t chance = node->env->ops->random(node->env, GY_CHANCE_NETWORK);
    wait_ns = wait_ns / 2 + (int64_t)(chance % (uint64_t)(wait_ns / 2 + 1));
    peer->failures++;
    if (!GY_PLANTED(REDIAL_FORGOTTEN) || peer->failures % 4 != 0) {
        gy_rpc_alarm_set(&peer->node->alarms, &peer->alarm, gy_rpc_now_ns(node) + wait_ns);
    }
}

void gy_rpc_peer_unlinked(rpc_peer *peer, gy_status status)
{
    gy_error why;
    bool was_up = peer->is_up;
    gy_error_take(&why, status);
    snprintf(peer->why, sizeof(peer->why), "%.255s", why.text);
    peer->link = NULL;
    peer->is_up = false;
    gy_rpc_asked_unlinked(peer);
    gy_rpc_calls_unlinked(peer, status);
    if (was_up) {
        gy_fail(status, "%s: %s", peer->text, peer->why);
        gy_rpc_hear(peer, GY_RPC_DOWN);
    }
    if (peer->link != NULL || gy_rpc_peer_find(peer->node, peer->entry.number) != peer) {
        return; /* dropped meanwhile */
    }
    if (peer->is_dialled) {
        dial_later(peer);
    } else if (peer->is_dropped) {
        gy_rpc_peer_forget(peer, GY_PEER);
        gy_rpc_hear(peer, GY_RPC_GONE);
    } else {
        gy_rpc_alarm_set(&peer->node->alarms, &peer->alarm,
                         gy_rpc_now_ns(peer->node) + peer->node->options.linger_ns);
    }
}

void gy_rpc_peer_alarm(rpc_peer *peer)
{
    GY_ASSERT(peer->link == NULL);
    if (peer->is_dialled) {
        dial(peer);
        return;
    }
    gy_fail(GY_PEER, "%s did not come back: %s", peer->text, peer->why);
    gy_error why;
    gy_error_take(&why, GY_PEER);
    gy_rpc_peer_forget(peer, GY_PEER);
    (void)gy_error_raise(&why);
    gy_rpc_hear(peer, GY_RPC_GONE);
}

/* ---- Hellos ---- */

/* Tell a refused caller the reason, and no more. */
static gy_status refuse(gy_rpc_link *link, gy_status status)
{
    gy_error why;
    Gy__Rpc__Envelope envelope;
    gy__rpc__envelope__init(&envelope);
    gy_error_take(&why, status);
    envelope.text = why.text;
    (void)gy_rpc_link_say(link, KIND_REFUSED, 0, &envelope); /* best effort */
    return gy_error_raise(&why);
}

static gy_status check_hello(const gy_rpc_link *link, const Gy__Rpc__Hello *hello)
{
    if (hello->version != RPC_VERSION) {
        return gy_fail(GY_STATE, "the peer has protocol version %u, this process %d",
                       hello->version, RPC_VERSION);
    }
    if (hello->from.len != RPC_ID_BYTES || hello->role >= GY_RPC_ROLES ||
        hello->n_open > RPC_CALLS || strlen(hello->name) >= RPC_NAME_BYTES) {
        return gy_fail(GY_FORMAT, "the peer's hello message is malformed");
    }
    if (hello->subject[0] != '\0' && !gy_rpc_subject_is_good(hello->subject)) {
        return gy_fail(GY_FORMAT, "the peer's hello message names no subject");
    }
    bool is_proved = !link->is_dialled && link->role != GY_RPC_ROLES;
    if (is_proved && hello->role != link->role && !GY_PLANTED(ROLE_UNCHECKED)) {
        return gy_fail(GY_STATE, "the peer claims to be a %s, but has the key of a %s",
                       gy_rpc_role_text((gy_rpc_role)hello->role),
                       gy_rpc_role_text(link->role));
    }
    if (is_proved && strcmp(hello->subject, link->subject) != 0 &&
        !GY_PLANTED(SUBJECT_UNCHECKED)) {
        return gy_fail(GY_STATE, "the peer claims to be for \"%s\", but its key is for \"%s\"",
                       hello->subject, link->subject);
    }
    return GY_OK;
}

static void take_name(rpc_peer *peer, const char *address, const Gy__Rpc__Hello *hello)
{
    peer->role = (gy_rpc_role)hello->role;
    snprintf(peer->subject, sizeof(peer->subject), "%s", hello->subject);
    snprintf(peer->name, sizeof(peer->name), "%s", hello->name);
    for (char *at = peer->name; *at != '\0'; at++) {
        *at = (char)((unsigned char)*at < ' ' || *at == 127 ? '?' : *at);
    }
    set_text(peer, address);
}

static rpc_peer *find_by_id(const gy_rpc *node, const Gy__Rpc__Hello *hello)
{
    rpc_peer *peer = node->by_id;
    while (peer != NULL && (memcmp(peer->id, hello->from.data, RPC_ID_BYTES) != 0 ||
                            peer->role != (gy_rpc_role)hello->role ||
                            strcmp(peer->subject, hello->subject) != 0)) {
        peer = peer->next_id;
    }
    return peer;
}

/* The connection is established: report it, and send the queue. */
static void go_up(rpc_peer *peer, gy_rpc_link *link)
{
    peer->is_up = true;
    peer->unsent = GY_PLANTED(NOT_RESENT) ? NULL : peer->first;
    gy_rpc_alarm_set(&peer->node->alarms, &peer->alarm, INT64_MAX);
    gy_rpc_link_ready(link);
    gy_rpc_hear(peer, GY_RPC_UP);
    if (peer->link == link) {
        gy_rpc_peer_pump(peer);
    }
}

/* Handle the answer to this end's hello. */
static gy_status hear_answer(gy_rpc_link *link, const Gy__Rpc__Hello *hello)
{
    rpc_peer *peer = link->peer;
    bool is_same = memcmp(peer->id, hello->from.data, RPC_ID_BYTES) == 0 &&
                   (hello->session == peer->session || GY_PLANTED(SESSION_IGNORED));
    bool is_anew = peer->has_id && !is_same;
    memcpy(peer->id, hello->from.data, RPC_ID_BYTES);
    peer->has_id = true;
    peer->session = hello->session;
    peer->failures = 0;
    take_name(peer, peer->address, hello);
    if (is_anew && !GY_PLANTED(ANEW_IGNORED)) {
        peer->life++;
        gy_rpc_serve_anew(peer);
        gy_rpc_calls_anew(peer);
        gy_rpc_hear(peer, GY_RPC_ANEW);
        if (link->is_dead) {
            return GY_OK;
        }
    }
    gy_rpc_serve_open(peer, hello->open, hello->n_open);
    if (!link->is_dead) {
        go_up(peer, link);
    }
    return GY_OK;
}

static gy_status make_known(gy_rpc_link *link, const Gy__Rpc__Hello *hello, rpc_peer **peer)
{
    gy_rpc *node = link->node;
    rpc_peer *made = NULL;
    GY_TRY(peer_new(node, &made));
    made->life = 1;
    memcpy(made->id, hello->from.data, RPC_ID_BYTES);
    made->has_id = true;
    made->next_id = node->by_id;
    node->by_id = made;
    *peer = made;
    return GY_OK;
}

/* Handle the hello of a peer that dialled. */
static gy_status hear_caller(gy_rpc_link *link, const Gy__Rpc__Hello *hello)
{
    gy_rpc *node = link->node;
    rpc_peer *peer = find_by_id(node, hello);
    bool is_known = peer != NULL;
    if (is_known && hello->connection <= peer->connection && !GY_PLANTED(STALE_ATTACHED)) {
        return gy_fail(GY_STATE, "a newer connection of %s stands", peer->text);
    }
    if (!is_known) {
        GY_TRY(make_known(link, hello, &peer));
    }
    if (peer->link != NULL) {
        gy_rpc_link_end(peer->link, gy_fail(GY_PEER, "the peer has connected again"));
        if (gy_rpc_peer_find(node, peer->entry.number) != peer) {
            return gy_fail(GY_CANCELLED, "it was dropped");
        }
    }
    peer->connection = hello->connection;
    take_name(peer, link->from, hello);
    link->peer = peer;
    peer->link = link;
    gy_rpc_alarm_set(&node->alarms, &peer->alarm, INT64_MAX);
    gy_rpc_serve_open(peer, hello->open, hello->n_open);
    if (link->is_dead) {
        return GY_OK;
    }
    GY_TRY(gy_rpc_link_hello(link));
    go_up(peer, link);
    return GY_OK;
}

gy_status gy_rpc_peer_hello(gy_rpc_link *link, const Gy__Rpc__Hello *hello)
{
    GY_ASSERT(!link->is_ready);
    gy_status status = check_hello(link, hello);
    if (status == GY_OK && link->is_dialled) {
        return hear_answer(link, hello);
    }
    if (status == GY_OK) {
        status = hear_caller(link, hello);
    }
    return status == GY_STATE && !link->is_dialled ? refuse(link, status) : status;
}

/* ---- Queues ---- */

size_t gy_rpc_peer_waiting(const rpc_peer *peer)
{
    const gy_rpc_link *link = peer->link;
    size_t in_link = link != NULL ? link->outbox.size_bytes - link->outbox.at : 0;
    return peer->waiting_bytes + in_link;
}

void gy_rpc_peer_look(rpc_peer *peer)
{
    const gy_rpc_options *options = &peer->node->options;
    if (peer->is_full && !GY_PLANTED(DRAIN_UNTOLD) &&
        gy_rpc_peer_waiting(peer) <= options->queue_bytes / 2 &&
        peer->calls.count * 4 <= (size_t)options->call_max * 3) {
        peer->is_full = false;
        peer->is_drained = peer->node->is_due = true;
    }
}

void gy_rpc_peer_pump(rpc_peer *peer)
{
    gy_rpc_link *link = peer->link;
    GY_ASSERT(link != NULL && link->is_ready);
    while (!link->is_dead && link->lend.data == NULL &&
           link->outbox.size_bytes - link->outbox.at < RPC_PUMP_BYTES) {
        if (peer->waiting_first != NULL) {
            if (gy_rpc_asked_send(peer) < 0) {
                return;
            }
        } else if (peer->unsent != NULL) {
            if (gy_rpc_call_send(peer->unsent) < 0) {
                return;
            }
        } else {
            break;
        }
    }
}

/* ---- The end ---- */

void gy_rpc_drop(gy_rpc *rpc, gy_rpc_peer peer)
{
    rpc_peer *row = gy_rpc_peer_find(rpc, peer);
    Gy__Rpc__Envelope envelope;
    gy__rpc__envelope__init(&envelope);
    if (row == NULL) {
        return;
    }
    gy_rpc_enter(rpc);
    gy_rpc_link *link = row->link;
    if (link != NULL) {
        gy_rpc_lend_cut(link);
        gy_rpc_coming_drop(link);
    }
    row->link = NULL;
    gy_rpc_peer_forget(row, GY_CANCELLED);
    if (link != NULL) {
        envelope.text = (char *)(uintptr_t) "bye";
        link->peer = NULL;
        if (link->is_up) {
            (void)gy_rpc_link_say(link, KIND_BYE, 0, &envelope); /* best effort */
        }
        gy_rpc_link_end(link, gy_fail(GY_CANCELLED, "hung up"));
    }
    gy_rpc_leave(rpc);
}

void gy_rpc_peer_forget(rpc_peer *peer, gy_status status)
{
    gy_rpc *node = peer->node;
    gy_rpc_table_remove(&node->peers, &peer->entry);
    for (rpc_peer **place = &node->by_id; *place != NULL; place = &(*place)->next_id) {
        if (*place == peer) {
            *place = peer->next_id;
            break;
        }
    }
    gy_rpc_alarm_set(&node->alarms, &peer->alarm, INT64_MAX);
    peer->is_up = false;
    if (!GY_PLANTED(DROP_FORGETS_CALLS)) {
        gy_rpc_calls_end(peer, status, status == GY_PEER ? peer->why : "the peer was dropped");
    }
    gy_rpc_serve_anew(peer);
    peer->next_dead = node->dead_peers;
    node->dead_peers = peer;
}

void gy_rpc_peer_free(rpc_peer *peer)
{
    while (peer->first != NULL) { /* only planted bugs leave calls here */
        rpc_call *call = peer->first;
        peer->first = call->next;
        gy_rpc_alarm_dismiss(&peer->node->alarms, &call->alarm);
        gy_free(call);
    }
    gy_rpc_alarm_dismiss(&peer->node->alarms, &peer->alarm);
    gy_rpc_table_free(&peer->calls);
    gy_rpc_table_free(&peer->asked);
    gy_free(peer->acks);
    gy_free(peer->address);
    gy_free(peer);
}

/* ---- Facts ---- */

bool gy_rpc_look(const gy_rpc *rpc, gy_rpc_peer peer, gy_rpc_facts *facts)
{
    const rpc_peer *row = gy_rpc_peer_find(rpc, peer);
    if (row == NULL) {
        return false;
    }
    *facts = (gy_rpc_facts){.text = row->text,
                            .is_up = row->is_up,
                            .is_dialled = row->is_dialled,
                            .why = row->why,
                            .role = row->role,
                            .subject = row->subject,
                            .waiting_bytes = gy_rpc_peer_waiting(row),
                            .calls = (uint32_t)row->calls.count};
    return true;
}

void gy_rpc_set_tag(gy_rpc *rpc, gy_rpc_peer peer, void *tag)
{
    rpc_peer *row = gy_rpc_peer_find(rpc, peer);
    if (row != NULL) {
        row->tag = tag;
    }
}

void *gy_rpc_tag(const gy_rpc *rpc, gy_rpc_peer peer)
{
    const rpc_peer *row = gy_rpc_peer_find(rpc, peer);
    return row != NULL ? row->tag : NULL;
}
