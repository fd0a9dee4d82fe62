/* Calls of other nodes: each call is executed once, and its answer is stored until the caller
 * has it. */
#include "rpc/session/session_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <stdio.h>
#include <string.h>

static rpc_asked *asked_of(const rpc_peer *peer, uint64_t number)
{
    return (rpc_asked *)gy_rpc_table_find(&peer->asked, number);
}

/* ---- Answers that are queued ---- */

static void wait_to_send(rpc_peer *peer, rpc_asked *asked)
{
    if (asked->is_waiting || peer->link == NULL || !peer->is_up) {
        return; /* the caller asks for it again over the next connection */
    }
    asked->is_waiting = true;
    asked->next_waiting = NULL;
    if (peer->waiting_last != NULL) {
        peer->waiting_last->next_waiting = asked;
    } else {
        peer->waiting_first = asked;
    }
    peer->waiting_last = asked;
    peer->waiting_bytes += asked->size_bytes;
}

static void stop_waiting(rpc_peer *peer, rpc_asked *asked)
{
    rpc_asked *before = NULL;
    if (!asked->is_waiting) {
        return;
    }
    for (rpc_asked *at = peer->waiting_first; at != asked; at = at->next_waiting) {
        before = at;
    }
    *(before != NULL ? &before->next_waiting : &peer->waiting_first) = asked->next_waiting;
    if (peer->waiting_last == asked) {
        peer->waiting_last = before;
    }
    asked->is_waiting = false;
    peer->waiting_bytes -= asked->size_bytes;
}

/* ---- Answers that are stored ---- */

/* Answers of methods that only read are sent, not stored: the caller asks again. */
static bool is_read(const gy_rpc_method *method)
{
    return (method->flags & GY_RPC_READS) != 0;
}

static void take_out(rpc_peer *peer, rpc_asked *asked)
{
    stop_waiting(peer, asked);
    if (asked->state == ASKED_ANSWERED && !is_read(asked->method)) {
        *(asked->previous != NULL ? &asked->previous->next : &peer->answered_first) =
            asked->next;
        *(asked->next != NULL ? &asked->next->previous : &peer->answered_last) =
            asked->previous;
        peer->kept_bytes -= asked->size_bytes;
    }
    asked->next = asked->previous = NULL;
}

static void release(const gy_rpc_lent *lent)
{
    if (lent->release != NULL) {
        lent->release(lent->arg);
    }
}

static void asked_free(rpc_peer *peer, rpc_asked *asked)
{
    gy_rpc_link *link = peer->link;
    if (link != NULL && link->lend.asked == asked) {
        link->lend.asked = NULL;
        gy_rpc_lend_cut(link);
    }
    take_out(peer, asked);
    gy_rpc_table_remove(&peer->asked, &asked->entry);
    gy_free(asked->answer);
    release(&asked->lent);
    gy_free(asked);
}

void gy_rpc_asked_over(rpc_peer *peer, rpc_asked *asked)
{
    if (is_read(asked->method)) {
        asked_free(peer, asked);
    }
}

void gy_rpc_asked_unlinked(rpc_peer *peer)
{
    while (peer->waiting_first != NULL) {
        rpc_asked *asked = peer->waiting_first;
        stop_waiting(peer, asked);
        gy_rpc_asked_over(peer, asked);
    }
}

gy_status gy_rpc_asked_send(rpc_peer *peer)
{
    rpc_asked *asked = peer->waiting_first;
    Gy__Rpc__Envelope envelope;
    gy__rpc__envelope__init(&envelope);
    stop_waiting(peer, asked);
    envelope.number = asked->entry.number;
    envelope.status = asked->status;
    if (asked->status == GY_OK) {
        envelope.body = (ProtobufCBinaryData){.len = asked->size_bytes, .data = asked->answer};
    } else {
        envelope.text = (char *)asked->answer;
    }
    envelope.beside_bytes = asked->status == GY_OK ? asked->lent.size_bytes : 0;
    gy_status status = gy_rpc_link_say(peer->link, KIND_ANSWER, asked->method->type, &envelope);
    if (status == GY_OK && envelope.beside_bytes > 0) {
        return gy_rpc_lend(peer->link, NULL, asked); /* and the asked is over afterwards */
    }
    if (GY_PLANTED(ACKED_EARLY) && !is_read(asked->method)) {
        asked_free(peer, asked);
    } else {
        gy_rpc_asked_over(peer, asked);
    }
    return status;
}

/* Drop the oldest answer, because a peer that acknowledges none must not fill the memory. */
static void forget_oldest(rpc_peer *peer)
{
    static const char text[] =
        "the call was carried out, but its answer is not retained any more";
    while (peer->kept_bytes > peer->node->options.queue_bytes &&
           peer->answered_first != peer->answered_last) {
        rpc_asked *asked = peer->answered_first;
        take_out(peer, asked);
        uint8_t *words = gy_alloc("rpc.answer", sizeof(text));
        if (words != NULL) {
            memcpy(words, text, sizeof(text));
        }
        gy_free(asked->answer);
        asked->answer = words;
        asked->size_bytes = 0;
        asked->status = GY_STATE;
        asked->state = ASKED_FORGOTTEN;
    }
}

/* Takes `answer`. */
static void settle(rpc_peer *peer, rpc_asked *asked, gy_status status, uint8_t *answer,
                   size_t size_bytes)
{
    asked->status = status;
    asked->answer = answer;
    asked->size_bytes = size_bytes;
    asked->state = ASKED_ANSWERED;
    if (is_read(asked->method)) {
        wait_to_send(peer, asked);
        if (!asked->is_waiting) {
            asked_free(peer, asked);
        } else {
            gy_rpc_peer_pump(peer);
        }
        return;
    }
    asked->previous = peer->answered_last;
    *(peer->answered_last != NULL ? &peer->answered_last->next : &peer->answered_first) = asked;
    peer->answered_last = asked;
    peer->kept_bytes += size_bytes;
    wait_to_send(peer, asked);
    if (peer->is_up) {
        gy_rpc_peer_pump(peer);
    }
    forget_oldest(peer);
}

static void settle_text(rpc_peer *peer, rpc_asked *asked, gy_status status, const char *text)
{
    size_t size = GY_MIN(strlen(text), (size_t)RPC_TEXT_BYTES - 1);
    uint8_t *words = gy_alloc("rpc.answer", size + 1);
    GY_ASSERT(status < 0);
    if (words != NULL) {
        memcpy(words, text, size);
        words[size] = '\0';
    }
    settle(peer, asked, status, words, 0);
}

/* ---- Incoming calls ---- */

static gy_status check_role(const rpc_peer *peer, const gy_rpc_method *method)
{
    if (method->serve == NULL) {
        return gy_fail(GY_UNSUPPORTED, "this node does not serve it");
    }
    if ((method->roles & GY_RPC_MAY(peer->role)) == 0) {
        return gy_fail(GY_STATE, "%s may not call it", gy_rpc_role_one(peer->role));
    }
    return GY_OK;
}

static gy_rpc_asked handle_of(const rpc_peer *peer, uint64_t number, int64_t deadline_ns)
{
    return (gy_rpc_asked){.peer = peer->entry.number,
                          .number = number,
                          .life = GY_PLANTED(OLD_LIFE_ANSWERED) ? 0 : peer->life,
                          .role = peer->role,
                          .subject = peer->subject,
                          .deadline = {deadline_ns}};
}

/* Check that the peer may call it, and decode the request. */
static gy_status take_request(const rpc_peer *peer, const gy_rpc_method *method,
                              const Gy__Rpc__Envelope *envelope, ProtobufCMessage **request)
{
    gy_status status = check_role(peer, method);
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_rpc_complain(peer->node, peer->text, "was refused", why.text);
        return gy_error_raise(&why);
    }
    return gy_rpc_unpack(method->request, envelope->body.data, envelope->body.len, request);
}

static void carry_out(rpc_peer *peer, rpc_asked *asked, const Gy__Rpc__Envelope *envelope)
{
    const gy_rpc_method *method = asked->method;
    gy_rpc *node = peer->node;
    gy_rpc_asked handle = handle_of(peer, asked->entry.number, asked->deadline_ns);
    ProtobufCMessage *request = NULL;
    gy_status status = take_request(peer, method, envelope, &request);
    if (status == GY_OK) {
        status = method->serve(node->options.arg, &handle, request);
        gy_rpc_unpacked_free(request);
    }
    if (status < 0) {
        gy_rpc_refuse(node, &handle, status, gy_error_text());
    }
}

static gy_status asked_new(rpc_peer *peer, const gy_rpc_method *method, uint64_t number,
                           int64_t deadline_ns, rpc_asked **asked)
{
    if (peer->asked.count >= 2 * (size_t)RPC_CALLS) {
        return gy_fail(GY_FORMAT, "more than %d calls at a time", 2 * RPC_CALLS);
    }
    rpc_asked *made = gy_alloc_zero("rpc.asked", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->entry.number = number;
    made->method = method;
    made->deadline_ns = deadline_ns;
    if (gy_rpc_table_add(&peer->asked, &made->entry) < 0) {
        gy_free(made);
        return GY_NOMEM; /* the link ends, so the call comes again */
    }
    peer->heard = GY_MAX(number, peer->heard);
    *asked = made;
    return GY_OK;
}

/* The bytes beside a new call follow. The call counts as received when they are complete. */
static gy_status admit(rpc_peer *peer, const gy_rpc_method *method,
                       const Gy__Rpc__Envelope *envelope, int64_t deadline_ns)
{
    size_t size = (size_t)envelope->beside_bytes;
    gy_rpc_asked handle = handle_of(peer, envelope->number, deadline_ns);
    ProtobufCMessage *request = NULL;
    rpc_asked *asked = NULL;
    void *room = NULL;
    gy_status status = take_request(peer, method, envelope, &request);
    if (status == GY_OK) {
        GY_ASSERT(method->admit != NULL);
        status = method->admit(peer->node->options.arg, &handle, request, size, &room);
        GY_ASSERT(status < 0 || room != NULL);
    }
    if (status == GY_OK) {
        gy_rpc_coming_begin(peer->link, &(rpc_coming){.left_bytes = size,
                                                      .size_bytes = size,
                                                      .room = room,
                                                      .message = request,
                                                      .method = method,
                                                      .number = envelope->number,
                                                      .deadline_ns = deadline_ns,
                                                      .is_call = true});
        return GY_OK;
    }
    gy_error why;
    gy_error_take(&why, status);
    gy_rpc_unpacked_free(request);
    gy_rpc_coming_skip(peer->link, size);
    GY_TRY(asked_new(peer, method, envelope->number, deadline_ns, &asked));
    gy_rpc_refuse(peer->node, &handle, status, why.text);
    return GY_OK;
}

gy_status gy_rpc_serve_coming(rpc_peer *peer, const rpc_coming *coming)
{
    gy_rpc *node = peer->node;
    rpc_asked *asked = NULL;
    gy_status status =
        asked_of(peer, coming->number) != NULL
            ? GY_EXISTS /* a call that is under way has no bytes to come */
            : asked_new(peer, coming->method, coming->number, coming->deadline_ns, &asked);
    if (status < 0) {
        if (coming->method->leave != NULL) {
            coming->method->leave(node->options.arg, coming->room);
        }
        return status;
    }
    gy_rpc_asked handle = handle_of(peer, coming->number, coming->deadline_ns);
    handle.beside = coming->room;
    handle.beside_bytes = coming->size_bytes;
    status = coming->method->serve(node->options.arg, &handle, coming->message);
    if (status < 0) {
        gy_rpc_refuse(node, &handle, status, gy_error_text());
    }
    return GY_OK;
}

gy_status gy_rpc_serve_call(rpc_peer *peer, const gy_rpc_method *method,
                            const Gy__Rpc__Envelope *envelope)
{
    uint64_t number = envelope->number;
    size_t beside = (size_t)envelope->beside_bytes;
    rpc_asked *asked = asked_of(peer, number);
    bool is_again = is_read(method) && !GY_PLANTED(READ_FORGOTTEN);
    if (number == 0) {
        return gy_fail(GY_FORMAT, "a call without a number");
    }
    if (asked != NULL && asked->state != ASKED_RUNS) {
        gy_rpc_coming_skip(peer->link, beside);
        if (!is_read(method)) { /* otherwise its answer is on its way already */
            wait_to_send(peer, asked);
            gy_rpc_peer_pump(peer);
        }
        return GY_OK;
    }
    if (asked != NULL && beside == 0 && GY_PLANTED(TOKEN_FORGOTTEN)) {
        carry_out(peer, asked, envelope);
    }
    if (asked != NULL || (number <= peer->heard && !is_again)) {
        /* it is running, or the caller has its answer or has cancelled it */
        gy_rpc_coming_skip(peer->link, beside);
        return GY_OK;
    }
    int64_t deadline_ns = INT64_MAX;
    if (envelope->left_ms != 0 && envelope->left_ms < (uint64_t)INT64_MAX / 2000000) {
        deadline_ns = gy_rpc_now_ns(peer->node) + (int64_t)envelope->left_ms * 1000000;
    }
    if (beside > 0) {
        return admit(peer, method, envelope, deadline_ns);
    }
    GY_TRY(asked_new(peer, method, number, deadline_ns, &asked));
    carry_out(peer, asked, envelope);
    return GY_OK;
}

gy_status gy_rpc_serve_tell(rpc_peer *peer, const gy_rpc_method *method,
                            const Gy__Rpc__Envelope *envelope)
{
    gy_rpc *node = peer->node;
    ProtobufCMessage *request = NULL;
    gy_status status = check_role(peer, method);
    if (status == GY_OK) {
        status =
            gy_rpc_unpack(method->request, envelope->body.data, envelope->body.len, &request);
        if (status == GY_NOMEM) {
            return status;
        }
    }
    if (status == GY_OK) {
        gy_rpc_asked handle = {.peer = peer->entry.number,
                               .life = peer->life,
                               .role = peer->role,
                               .subject = peer->subject,
                               .deadline = GY_NEVER};
        status = method->serve(node->options.arg, &handle, request);
        gy_rpc_unpacked_free(request);
    }
    if (status < 0) { /* a notification has no answer */
        gy_error why;
        gy_error_take(&why, status);
        gy_rpc_complain(node, peer->text, "was refused", why.text);
    }
    return GY_OK;
}

/* ---- Answering ---- */

static rpc_asked *find_running(const gy_rpc *rpc, const gy_rpc_asked *asked, rpc_peer **peer)
{
    *peer = gy_rpc_peer_find(rpc, asked->peer);
    bool is_now =
        *peer != NULL && (asked->life == (*peer)->life || GY_PLANTED(OLD_LIFE_ANSWERED));
    rpc_asked *found = is_now ? asked_of(*peer, asked->number) : NULL;
    if (found != NULL && found->state != ASKED_RUNS) {
        return NULL;
    }
    if (found != NULL && found->is_unwanted) {
        asked_free(*peer, found);
        return NULL;
    }
    return found;
}

gy_status gy_rpc_answer(gy_rpc *rpc, const gy_rpc_asked *asked, const ProtobufCMessage *answer)
{
    return gy_rpc_answer_with(rpc, asked, answer, &(gy_rpc_lent){.size_bytes = 0});
}

gy_status gy_rpc_answer_with(gy_rpc *rpc, const gy_rpc_asked *asked,
                             const ProtobufCMessage *answer, const gy_rpc_lent *lent)
{
    rpc_peer *peer = NULL;
    rpc_asked *found = find_running(rpc, asked, &peer);
    if (found == NULL) {
        release(lent);
        return GY_OK;
    }
    GY_ASSERT(lent->size_bytes <= found->method->answer_beside_max);
    found->lent = *lent;
    GY_ASSERT(answer->descriptor == found->method->answer);
    size_t size = protobuf_c_message_get_packed_size(answer);
    if (size > found->method->answer_bytes_max) {
        gy_fail(GY_LIMIT, "an answer of %zu bytes, at most %u", size,
                found->method->answer_bytes_max);
        settle_text(peer, found, GY_LIMIT, gy_error_text());
        return GY_LIMIT;
    }
    uint8_t *packed = gy_alloc("rpc.answer", size);
    if (packed == NULL) {
        settle_text(peer, found, GY_NOMEM, "no memory for the answer");
        return GY_NOMEM;
    }
    protobuf_c_message_pack(answer, packed);
    settle(peer, found, GY_OK, packed, size);
    return GY_OK;
}

void gy_rpc_refuse(gy_rpc *rpc, const gy_rpc_asked *asked, gy_status status, const char *text)
{
    rpc_peer *peer = NULL;
    rpc_asked *found = find_running(rpc, asked, &peer);
    if (found != NULL) {
        settle_text(peer, found, status, text);
    }
}

/* ---- Cancelled calls ---- */

static void cancel(rpc_peer *peer, rpc_asked *asked)
{
    const gy_rpc_method *method = asked->method;
    gy_rpc_asked handle = handle_of(peer, asked->entry.number, asked->deadline_ns);
    if (asked->state != ASKED_RUNS) {
        asked_free(peer, asked);
    } else if (!asked->is_unwanted) {
        asked->is_unwanted = true;
        if (method->cancel != NULL) {
            method->cancel(peer->node->options.arg, &handle);
        }
    }
}

void gy_rpc_serve_cancel(rpc_peer *peer, uint64_t number)
{
    rpc_asked *asked = asked_of(peer, number);
    if (asked != NULL) {
        cancel(peer, asked);
    }
}

void gy_rpc_serve_acks(rpc_peer *peer, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gy_rpc_serve_cancel(peer, numbers[i]);
    }
}

static bool is_among(const uint64_t *numbers, size_t count, uint64_t number)
{
    size_t low = 0, high = count; /* the numbers are ascending */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (numbers[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && numbers[low] == number;
}

void gy_rpc_serve_open(rpc_peer *peer, const uint64_t *numbers, size_t count)
{
    if (GY_PLANTED(OPEN_IGNORED)) {
        return;
    }
    for (size_t i = 0; i < peer->asked.bucket_count; i++) {
        gy_rpc_entry *at = peer->asked.buckets[i];
        while (at != NULL) {
            rpc_asked *asked = (rpc_asked *)at;
            bool is_over = asked->state == ASKED_RUNS && asked->is_unwanted;
            if (is_over || is_among(numbers, count, at->number)) {
                at = at->next;
                continue;
            }
            cancel(peer, asked); /* it may change the list */
            at = i < peer->asked.bucket_count ? peer->asked.buckets[i] : NULL;
        }
    }
}

void gy_rpc_serve_anew(rpc_peer *peer)
{
    for (gy_rpc_entry *at = NULL; (at = gy_rpc_table_any(&peer->asked)) != NULL;) {
        uint64_t number = at->number;
        cancel(peer, (rpc_asked *)at);
        rpc_asked *left = asked_of(peer, number);
        if (left != NULL) {
            asked_free(peer, left);
        }
    }
    peer->heard = 0;
}
