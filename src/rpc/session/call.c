/* Calls that this node makes. */
#include "rpc/session/session_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <stdio.h>
#include <string.h>

enum { ACK_BYTES = 64 * 1024, ACK_COUNT = 64 };

static void link_last(rpc_peer *peer, rpc_call *call)
{
    call->previous = peer->last;
    if (peer->last != NULL) {
        peer->last->next = call;
    } else {
        peer->first = call;
    }
    peer->last = call;
    if (peer->unsent == NULL) {
        peer->unsent = call;
    }
}

/* Is the call, which comes after no sent call, itself unsent? */
static bool is_unsent(const rpc_call *call)
{
    const rpc_call *unsent = call->peer->unsent;
    return unsent != NULL && call->entry.number >= unsent->entry.number;
}

static void take_out(rpc_call *call)
{
    rpc_peer *peer = call->peer;
    if (is_unsent(call)) {
        peer->waiting_bytes -= call->size_bytes;
    }
    if (peer->unsent == call) {
        peer->unsent = call->next;
    }
    *(call->previous != NULL ? &call->previous->next : &peer->first) = call->next;
    *(call->next != NULL ? &call->next->previous : &peer->last) = call->previous;
    gy_rpc_table_remove(&peer->calls, &call->entry);
    gy_rpc_alarm_set(&peer->node->alarms, &call->alarm, INT64_MAX);
    call->next = call->previous = NULL;
    gy_rpc_link *link = peer->link;
    if (link != NULL && link->lend.call == call) {
        gy_rpc_lend_cut(link);
    }
    if (link != NULL && link->coming.call == call) {
        link->coming.call = NULL;
        link->coming.room = GY_PLANTED(ENDED_FILLED) ? link->coming.room : NULL;
    }
}

static gy_status tell_acks(rpc_peer *peer)
{
    Gy__Rpc__Envelope envelope;
    gy__rpc__envelope__init(&envelope);
    envelope.number = 1; /* a frame needs at least one byte */
    while (peer->ack_count > 0) {
        GY_TRY(gy_rpc_link_say(peer->link, KIND_BEAT, 0, &envelope));
    }
    return GY_OK;
}

/* ---- Making calls ---- */

static bool has_room(rpc_peer *peer, size_t size_bytes)
{
    const gy_rpc_options *options = &peer->node->options;
    size_t waiting = gy_rpc_peer_waiting(peer);
    if (peer->calls.count + peer->ack_count >= options->call_max && peer->is_up) {
        (void)tell_acks(peer); /* on failure the link ends, and with it the acks */
    }
    return peer->calls.count + peer->ack_count < options->call_max &&
           (waiting == 0 || waiting + size_bytes <= options->queue_bytes);
}

/* Compute the encoded size; a failure when the method does not allow it. */
static gy_status measure(const gy_rpc *node, uint32_t type, const ProtobufCMessage *message,
                         const gy_rpc_method **method, size_t *size_bytes)
{
    *method = gy_rpc_method_of(node, type);
    GY_ASSERT(*method != NULL && message->descriptor == (*method)->request);
    *size_bytes = protobuf_c_message_get_packed_size(message);
    return *size_bytes <= (*method)->request_bytes_max
               ? GY_OK
               : gy_fail(GY_LIMIT, "%s: %zu bytes, at most %u", (*method)->name, *size_bytes,
                         (*method)->request_bytes_max);
}

static gy_status call_new(rpc_peer *peer, const gy_rpc_request *request, size_t size_bytes,
                          rpc_call **call)
{
    gy_rpc *node = peer->node;
    rpc_call *made = gy_alloc("rpc.call", sizeof(*made) + size_bytes);
    if (made == NULL || gy_rpc_alarm_admit(&node->alarms) < 0) {
        gy_free(made);
        return GY_NOMEM;
    }
    made->entry = (gy_rpc_entry){.number = peer->number + 1};
    made->alarm = (gy_rpc_alarm){.kind = ALARM_CALL};
    made->peer = peer;
    made->next = made->previous = NULL;
    made->method = gy_rpc_method_of(node, request->type);
    made->done = request->done;
    made->arg = request->arg;
    made->deadline_ns = request->deadline.at_ns;
    made->is_hasty = request->is_hasty;
    made->was_sent = false;
    made->beside = request->beside;
    made->beside_bytes = request->beside_bytes;
    made->admit = request->admit;
    made->size_bytes = size_bytes;
    if (gy_rpc_table_add(&peer->calls, &made->entry) < 0) {
        gy_rpc_alarm_dismiss(&node->alarms, &made->alarm);
        gy_free(made);
        return GY_NOMEM;
    }
    protobuf_c_message_pack(request->message, made->body);
    peer->number++;
    *call = made;
    return GY_OK;
}

gy_status gy_rpc_call(gy_rpc *rpc, gy_rpc_peer peer, const gy_rpc_request *request,
                      uint64_t *number)
{
    rpc_peer *row = gy_rpc_peer_find(rpc, peer);
    const gy_rpc_method *method = NULL;
    rpc_call *call = NULL;
    size_t size = 0;
    GY_TRY(measure(rpc, request->type, request->message, &method, &size));
    GY_ASSERT(method->answer != NULL && request->done != NULL);
    if (request->beside_bytes > method->request_beside_max) {
        return gy_fail(GY_LIMIT, "%s: %zu bytes beside the message, at most %zu", method->name,
                       request->beside_bytes, method->request_beside_max);
    }
    if (row == NULL || (request->is_hasty && !row->is_up)) {
        return gy_fail(GY_PEER, "%s: %s: %s", row != NULL ? row->text : "a peer", method->name,
                       row != NULL ? row->why : "it was dropped");
    }
    if (!has_room(row, size)) {
        row->is_full = true;
        return GY_AGAIN;
    }
    GY_TRY(call_new(row, request, size, &call));
    link_last(row, call);
    row->waiting_bytes += size;
    if (!GY_PLANTED(DEADLINE_UNARMED)) {
        gy_rpc_alarm_set(&rpc->alarms, &call->alarm, call->deadline_ns);
    }
    if (number != NULL) {
        *number = call->entry.number;
    }
    if (row->is_up) {
        gy_rpc_enter(rpc);
        gy_rpc_peer_pump(row);
        gy_rpc_leave(rpc);
    }
    return GY_OK;
}

gy_status gy_rpc_call_send(rpc_call *call)
{
    rpc_peer *peer = call->peer;
    Gy__Rpc__Envelope envelope;
    int64_t left_ns = call->deadline_ns - gy_rpc_now_ns(peer->node);
    gy__rpc__envelope__init(&envelope);
    envelope.number = call->entry.number;
    if (call->deadline_ns != INT64_MAX) {
        envelope.left_ms = left_ns > 1000000 ? (uint64_t)left_ns / 1000000 : 1;
    }
    envelope.body = (ProtobufCBinaryData){.len = call->size_bytes, .data = call->body};
    envelope.beside_bytes = call->beside_bytes;
    peer->unsent = call->next;
    peer->waiting_bytes -= call->size_bytes;
    call->was_sent = true;
    GY_TRY(gy_rpc_link_say(peer->link, KIND_CALL, call->method->type, &envelope));
    return call->beside_bytes > 0 ? gy_rpc_lend(peer->link, call, NULL) : GY_OK;
}

gy_status gy_rpc_tell(gy_rpc *rpc, gy_rpc_peer peer, uint32_t type,
                      const ProtobufCMessage *message)
{
    rpc_peer *row = gy_rpc_peer_find(rpc, peer);
    const gy_rpc_method *method = NULL;
    Gy__Rpc__Envelope envelope;
    size_t size = 0;
    gy__rpc__envelope__init(&envelope);
    GY_TRY(measure(rpc, type, message, &method, &size));
    GY_ASSERT(method->answer == NULL);
    if (row == NULL || !row->is_up) {
        return gy_fail(GY_PEER, "%s: %s: %s", row != NULL ? row->text : "a peer", method->name,
                       row != NULL ? row->why : "it was dropped");
    }
    size_t waiting = gy_rpc_peer_waiting(row);
    if (waiting > 0 && waiting + size > rpc->options.queue_bytes) {
        row->is_full = true;
        return GY_AGAIN;
    }
    uint8_t *body = gy_alloc("rpc.tell", size);
    if (body == NULL) {
        return GY_NOMEM;
    }
    protobuf_c_message_pack(message, body);
    envelope.number = 1; /* a frame needs at least one byte */
    envelope.body = (ProtobufCBinaryData){.len = size, .data = body};
    gy_rpc_enter(rpc);
    gy_status status = gy_rpc_link_say(row->link, KIND_TELL, type, &envelope);
    gy_rpc_leave(rpc);
    gy_free(body);
    return status;
}

/* ---- Ends ---- */

/* Remove the call from the peer; its callback is called in the node's next turn. */
static void end_later(rpc_call *call, gy_status status, const char *why)
{
    rpc_peer *peer = call->peer;
    gy_rpc *node = peer->node;
    take_out(call);
    call->peer = NULL;
    gy_fail(status, "%s: %s: %s", peer->text, call->method->name, why);
    gy_error_take(&call->error, status);
    if (node->ended_last != NULL) {
        node->ended_last->next = call;
    } else {
        node->ended_first = call;
    }
    node->ended_last = call;
    gy_rpc_peer_look(peer);
}

void gy_rpc_calls_deliver(gy_rpc *node)
{
    while (node->ended_first != NULL) {
        rpc_call *call = node->ended_first;
        node->ended_first = call->next;
        node->ended_last = call->next == NULL ? NULL : node->ended_last;
        gy_rpc_alarm_dismiss(&node->alarms, &call->alarm);
        call->done(call->arg, gy_error_raise(&call->error), NULL);
        gy_free(call);
    }
}

void gy_rpc_calls_end(rpc_peer *peer, gy_status status, const char *why)
{
    while (peer->first != NULL) {
        end_later(peer->first, status, why);
    }
}

static gy_status note_ack(rpc_peer *peer, uint64_t number, size_t size_bytes)
{
    GY_TRY(GY_GROW("rpc.acks", peer->acks, peer->ack_capacity, peer->ack_count + 1));
    if (!GY_PLANTED(NEVER_ACKED)) {
        peer->acks[peer->ack_count++] = number;
        peer->ack_bytes += size_bytes;
    }
    return GY_OK;
}

/* Tell the peer that a call is cancelled. What a breaking connection loses is repeated in the
 * next connection's hello. Between the hello and its answer the message goes as an ack. */
static void tell_cancel(rpc_call *call)
{
    rpc_peer *peer = call->peer;
    Gy__Rpc__Envelope envelope;
    gy__rpc__envelope__init(&envelope);
    envelope.number = call->entry.number;
    if (!call->was_sent || GY_PLANTED(CANCEL_UNTOLD)) {
        return;
    }
    if (peer->is_up) {
        /* on failure the link ends */
        (void)gy_rpc_link_say(peer->link, KIND_CANCEL, 0, &envelope);
    } else if (peer->link != NULL) {
        /* if the peer is not informed, it keeps the answer in memory */
        (void)note_ack(peer, call->entry.number, 0);
    }
}

void gy_rpc_cancel(gy_rpc *rpc, gy_rpc_peer peer, uint64_t number)
{
    rpc_peer *row = gy_rpc_peer_find(rpc, peer);
    rpc_call *call = row != NULL ? (rpc_call *)gy_rpc_table_find(&row->calls, number) : NULL;
    if (call == NULL) {
        return;
    }
    tell_cancel(call);
    end_later(call, GY_CANCELLED, "cancelled");
}

void gy_rpc_call_alarm(rpc_call *call)
{
    rpc_peer *peer = call->peer;
    bool is_up = peer->is_up;
    char why[320];
    if (is_up) {
        snprintf(why, sizeof(why), "no answer by the deadline");
    } else {
        snprintf(why, sizeof(why), "no connection by the deadline: %s", peer->why);
    }
    tell_cancel(call);
    end_later(call, is_up ? GY_TIMEOUT : GY_PEER, why);
}

void gy_rpc_calls_unlinked(rpc_peer *peer, gy_status status)
{
    char why[300];
    (void)status;
    snprintf(why, sizeof(why), "%s", peer->why);
    peer->waiting_bytes = 0;
    /* the next hello sends the numbers that still wait */
    peer->ack_count = peer->ack_bytes = 0;
    for (rpc_call *call = peer->first, *next = NULL; call != NULL; call = next) {
        next = call->next;
        peer->waiting_bytes += call->size_bytes;
        peer->unsent = peer->first; /* all calls are unsent again */
        if (call->is_hasty && !GY_PLANTED(HASTY_RETRIED)) {
            end_later(call, GY_PEER, why);
        }
    }
}

void gy_rpc_calls_anew(rpc_peer *peer)
{
    for (rpc_call *call = peer->first, *next = NULL; call != NULL; call = next) {
        next = call->next;
        uint32_t repeatable = GY_RPC_REPEATABLE | GY_RPC_READS;
        if (call->was_sent && (call->method->flags & repeatable) == 0) {
            end_later(call, GY_PEER,
                      "the peer restarted and may have carried out the call before");
        }
        call->was_sent = false;
    }
}

/* ---- Answers ---- */

/* Answers of methods that only read are not stored, so they need no acks. */
static gy_status acknowledge(rpc_peer *peer, const rpc_call *call, size_t size_bytes)
{
    if ((call->method->flags & GY_RPC_READS) != 0) {
        return GY_OK;
    }
    GY_TRY(note_ack(peer, call->entry.number, size_bytes));
    bool is_due = peer->ack_count >= ACK_COUNT || peer->ack_bytes >= ACK_BYTES;
    return is_due ? tell_acks(peer) : GY_OK;
}

void gy_rpc_call_end(rpc_call *call, ProtobufCMessage *answer)
{
    rpc_peer *peer = call->peer;
    gy_rpc *node = peer->node;
    take_out(call);
    gy_rpc_peer_look(peer);
    call->done(call->arg, GY_OK, answer);
    gy_rpc_unpacked_free(answer);
    gy_rpc_alarm_dismiss(&node->alarms, &call->alarm);
    gy_free(call);
}

/* The bytes beside an answer follow. Takes `answer`. */
static void admit(rpc_peer *peer, rpc_call *call, ProtobufCMessage *answer, size_t size_bytes)
{
    void *room = NULL;
    gy_status status =
        call->admit != NULL
            ? call->admit(call->arg, answer, size_bytes, &room)
            : gy_fail(GY_UNSUPPORTED, "an answer with bytes beside it, which nobody expects");
    if (status == GY_OK && room != NULL) {
        gy_rpc_coming_begin(peer->link, &(rpc_coming){.left_bytes = size_bytes,
                                                      .size_bytes = size_bytes,
                                                      .room = room,
                                                      .message = answer,
                                                      .call = call});
        return;
    }
    gy_error why;
    gy_error_take(&why, status < 0 ? status : gy_fail(GY_STATE, "no room for its bytes"));
    gy_rpc_unpacked_free(answer);
    end_later(call, why.status, why.text);
    gy_rpc_coming_skip(peer->link, size_bytes);
}

gy_status gy_rpc_calls_answer(rpc_peer *peer, const gy_rpc_method *method,
                              const Gy__Rpc__Envelope *envelope)
{
    rpc_call *call = (rpc_call *)gy_rpc_table_find(&peer->calls, envelope->number);
    ProtobufCMessage *answer = NULL;
    size_t beside = (size_t)envelope->beside_bytes;
    char why[RPC_TEXT_BYTES];
    if (envelope->number == 0 || envelope->number > peer->number) {
        return gy_fail(GY_FORMAT, "an answer to call %llu, which was never made",
                       (unsigned long long)envelope->number);
    }
    if (call == NULL || !call->was_sent) {
        gy_rpc_coming_skip(peer->link, beside);
        return GY_OK; /* it has ended already */
    }
    if (call->method != method || envelope->status > 0) {
        return gy_fail(GY_FORMAT, "an answer of another kind to call %llu",
                       (unsigned long long)envelope->number);
    }
    if (envelope->status == GY_OK) {
        GY_TRY(gy_rpc_unpack(method->answer, envelope->body.data, envelope->body.len, &answer));
    }
    gy_status status = acknowledge(peer, call, envelope->body.len);
    if (status < 0) {
        gy_rpc_unpacked_free(answer);
        return status; /* the link ends, so the answer will come again */
    }
    if (envelope->status < 0) {
        snprintf(why, sizeof(why), "%s", envelope->text);
        end_later(call, (gy_status)envelope->status, why);
    } else if (beside > 0) {
        admit(peer, call, answer, beside);
    } else {
        gy_rpc_call_end(call, answer);
    }
    return GY_OK;
}
