/* Events on their way to the next member, and the answers that wait for them. */
#include "ps/chain/chain_priv.h"

#include <string.h>

static const int64_t call_ns = 10000000000; /* the next member is replaced before */
static const int64_t retry_ns = 50000000;

bool gy_ps_chain_needs_next(const chain_place *place)
{
    return place->next != 0 && (!place->is_next_joining || place->is_copied);
}

uint64_t gy_ps_chain_acked(const chain_place *place)
{
    return gy_ps_chain_needs_next(place) ? place->acked : place->number;
}

/* ---- Entries ---- */

chain_entry *gy_ps_chain_entry_new(gy_ps_chain *chain, uint32_t type,
                                   const ProtobufCMessage *request, void *room,
                                   size_t room_bytes)
{
    chain_entry *made = gy_alloc_zero("ps.entry", 1, sizeof(*made));
    size_t size = protobuf_c_message_get_packed_size(request);
    uint8_t *body = gy_alloc("ps.entry", size + 1);
    if (made == NULL || body == NULL) {
        gy_free(made);
        gy_free(body);
        return NULL;
    }
    protobuf_c_message_pack(request, body);
    *made = (chain_entry){.type = type,
                          .holders = 1,
                          .body = body,
                          .body_bytes = size,
                          .room = room,
                          .room_bytes = room_bytes};
    if (room != NULL) {
        chain->options.hold(room);
    }
    return made;
}

void gy_ps_chain_entry_drop(gy_ps_chain *chain, chain_entry *entry)
{
    GY_ASSERT(entry->holders > 0);
    if (--entry->holders > 0) {
        return;
    }
    if (entry->room != NULL) {
        chain->options.give(entry->room);
    }
    gy_free(entry->body);
    gy_free(entry);
}

void gy_ps_chain_append(chain_place *place, chain_entry *entry)
{
    entry->number = ++place->number;
    entry->next = NULL;
    GY_ASSERT(place->last == NULL || place->last->number + 1 == entry->number);
    *(place->last != NULL ? &place->last->next : &place->first) = entry;
    place->last = entry;
    place->unsent = place->unsent != NULL ? place->unsent : entry;
}

/* Forget events that every member behind has. */
static void trim(gy_ps_chain *chain, chain_place *place)
{
    uint64_t bound = gy_ps_chain_acked(place);
    if (place->next != 0 && !gy_ps_chain_needs_next(place) && place->is_copying) {
        bound = GY_MIN(bound, place->copy_number); /* what follows the copy is still needed */
    }
    if (GY_PS_CHAIN_PLANTED(LOG_CUT)) {
        bound = place->number;
    }
    while (place->first != NULL && place->first->number <= bound) {
        chain_entry *gone = place->first;
        place->first = gone->next;
        place->last = place->first == NULL ? NULL : place->last;
        place->unsent = place->unsent == gone ? gone->next : place->unsent;
        gy_ps_chain_entry_drop(chain, gone);
    }
}

/* ---- Forward ---- */

/* A call to the next member. */
typedef struct flight {
    gy_ps_chain *chain;
    uint32_t part, generation;
    int64_t sent_ns;
    chain_entry *entry; /* NULL: only a lease is asked for */
} flight;

static void on_taken(void *arg, gy_status status, const ProtobufCMessage *message)
{
    flight *at = arg;
    flight of = *at;
    gy_ps_chain *chain = of.chain;
    chain_place *place = &chain->places[of.part];
    gy_free(at);
    if (of.entry != NULL) {
        gy_ps_chain_entry_drop(chain, of.entry);
    }
    if (of.generation != place->generation) {
        return;
    }
    place->flying -= of.entry != NULL;
    place->is_asking = of.entry == NULL ? false : place->is_asking;
    if (status < 0) {
        gy_debug("part %u: the next member has not taken an event: %s", of.part,
                 gy_error_text());
        const chain_peer *peer = gy_ps_chain_peer(chain, place->next);
        if (status == GY_CANCELLED && peer != NULL) {
            gy_ps_chain_ask_peer(chain, peer->peer);
        }
        place->is_stuck = place->is_stuck || of.entry != NULL;
        place->retry_ns = gy_ps_chain_now(chain) + retry_ns;
        return;
    }
    const Gy__Ps__Taken *taken = (const Gy__Ps__Taken *)message;
    int64_t lease_ns = (int64_t)GY_MIN(taken->lease_us, (uint64_t)INT32_MAX) * 1000;
    place->acked = GY_MAX(place->acked, GY_MIN(taken->number, place->number));
    /* clocks of two hosts may differ in rate */
    place->lease_until_ns =
        GY_MAX(place->lease_until_ns, of.sent_ns + lease_ns - lease_ns / 16);
    gy_ps_chain_advance(chain, of.part);
    gy_ps_chain_forward(chain, of.part);
}

static gy_status call(gy_ps_chain *chain, uint32_t part, chain_entry *entry)
{
    chain_place *place = &chain->places[part];
    const chain_peer *peer = gy_ps_chain_peer(chain, place->next);
    flight *made = gy_alloc_zero("ps.flight", 1, sizeof(*made));
    if (made == NULL || peer == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    int64_t now_ns = gy_ps_chain_now(chain);
    *made = (flight){.chain = chain,
                     .part = part,
                     .generation = place->generation,
                     .sent_ns = now_ns,
                     .entry = entry};
    Gy__Ps__Event event;
    gy__ps__event__init(&event);
    event.to = place->next;
    event.part = part;
    event.epoch = place->epoch;
    if (entry != NULL) {
        event.number = entry->number;
        event.type = entry->type;
        event.body = (ProtobufCBinaryData){.len = entry->body_bytes, .data = entry->body};
    }
    gy_status status =
        gy_rpc_call(chain->rpc, peer->peer,
                    &(gy_rpc_request){.type = GY_PS_EVENT,
                                      .message = &event.base,
                                      .deadline = {now_ns + call_ns},
                                      .done = on_taken,
                                      .arg = made,
                                      .beside = entry != NULL ? entry->room : NULL,
                                      .beside_bytes = entry != NULL ? entry->room_bytes : 0},
                    NULL);
    if (status != GY_OK) {
        gy_free(made);
        return status;
    }
    if (entry != NULL) {
        entry->holders++;
    }
    return GY_OK;
}

void gy_ps_chain_forward(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    if (!gy_ps_chain_needs_next(place)) {
        return;
    }
    int64_t now_ns = gy_ps_chain_now(chain);
    if (place->is_stuck) { /* begin again behind what it has, once all calls are back */
        if (place->flying > 0 || now_ns < place->retry_ns) {
            return;
        }
        place->is_stuck = false;
        place->unsent = place->first;
        while (place->unsent != NULL && place->unsent->number <= place->acked) {
            place->unsent = place->unsent->next;
        }
    }
    while (place->unsent != NULL && place->flying < CHAIN_WINDOW) {
        if (call(chain, part, place->unsent) != GY_OK) {
            place->retry_ns = now_ns + retry_ns; /* the queue is full, or there is no memory */
            return;
        }
        place->flying++;
        place->unsent = place->unsent->next;
    }
}

void gy_ps_chain_ask_lease(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    if (!place->is_asking && gy_ps_chain_needs_next(place)) {
        place->is_asking = call(chain, part, NULL) == GY_OK;
    }
}

/* ---- Answers ---- */

void gy_ps_chain_answer_free(chain_answer *answer)
{
    if (answer->lent.release != NULL) {
        answer->lent.release(answer->lent.arg);
    }
    gy_free(answer->body);
    gy_free(answer);
}

gy_status gy_ps_chain_keep_answer(chain_place *place, const chain_answer *answer,
                                  const ProtobufCMessage *message)
{
    chain_answer *made = gy_alloc_zero("ps.answer", 1, sizeof(*made));
    size_t size = message != NULL ? protobuf_c_message_get_packed_size(message) : 0;
    uint8_t *body = gy_alloc("ps.answer", size + 1);
    if (made == NULL || body == NULL) {
        gy_free(made);
        gy_free(body);
        return GY_NOMEM;
    }
    *made = *answer;
    made->next = NULL;
    made->body = body;
    made->body_bytes = size;
    if (message != NULL) {
        made->kind = message->descriptor;
        protobuf_c_message_pack(message, body);
    }
    *place->answers_end = made;
    place->answers_end = &made->next;
    return GY_OK;
}

static bool has_lease(const gy_ps_chain *chain, const chain_place *place)
{
    return !gy_ps_chain_needs_next(place) || gy_ps_chain_now(chain) < place->lease_until_ns;
}

static bool may_answer(const gy_ps_chain *chain, const chain_place *place, uint64_t needed,
                       bool is_read)
{
    return (needed <= gy_ps_chain_acked(place) || GY_PS_CHAIN_PLANTED(ACKED_EARLY)) &&
           (!is_read || has_lease(chain, place));
}

static gy_status tell(gy_rpc *rpc, const gy_rpc_asked *asked, const ProtobufCMessage *message,
                      const gy_rpc_lent *lent)
{
    return lent->data != NULL || lent->release != NULL
               ? gy_rpc_answer_with(rpc, asked, message, lent)
               : gy_rpc_answer(rpc, asked, message);
}

/* Send an answer that has waited, and free it. */
static void send_answer(gy_ps_chain *chain, chain_place *place, chain_answer *answer)
{
    gy_status status = GY_NOMEM;
    if (answer->is_taken) {
        Gy__Ps__Taken taken;
        gy_ps_chain_fill_taken(chain, place, &taken);
        status = gy_rpc_answer(chain->rpc, &answer->asked, &taken.base);
    } else {
        ProtobufCMessage *message =
            protobuf_c_message_unpack(answer->kind, NULL, answer->body_bytes, answer->body);
        if (message != NULL) {
            gy_rpc_lent lent = answer->lent;
            answer->lent = (gy_rpc_lent){0}; /* lent on, on failure too */
            status = tell(chain->rpc, &answer->asked, message, &lent);
            protobuf_c_message_free_unpacked(message, NULL);
        }
    }
    if (status < 0) {
        gy_rpc_refuse(chain->rpc, &answer->asked, status, "no memory for an answer");
    }
    gy_ps_chain_answer_free(answer);
}

void gy_ps_chain_advance(gy_ps_chain *chain, uint32_t part)
{
    chain_place *place = &chain->places[part];
    for (chain_answer **at = &place->answers; *at != NULL;) {
        chain_answer *one = *at;
        if (!may_answer(chain, place, one->needed, one->is_read)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        if (*at == NULL) {
            place->answers_end = at;
        }
        send_answer(chain, place, one);
    }
    trim(chain, place);
}

void gy_ps_chain_refuse_answers(gy_ps_chain *chain, chain_place *place, bool is_all)
{
    place->answers_end = &place->answers;
    for (chain_answer *at = place->answers, *next = NULL; at != NULL; at = next) {
        next = at->next;
        if (is_all || at->is_taken) {
            gy_rpc_refuse(chain->rpc, &at->asked, GY_CANCELLED, "the map has changed");
            gy_ps_chain_answer_free(at);
        } else {
            *place->answers_end = at;
            place->answers_end = &at->next;
        }
    }
    *place->answers_end = NULL;
}

void gy_ps_chain_clear(gy_ps_chain *chain, chain_place *place)
{
    gy_ps_chain_refuse_answers(chain, place, true);
    while (place->first != NULL) {
        chain_entry *gone = place->first;
        place->first = gone->next;
        gy_ps_chain_entry_drop(chain, gone);
    }
    place->last = place->unsent = NULL;
    place->number = place->acked = 0;
    place->has_data = false;
}

/* ---- Calls of clients ---- */

static void release(const gy_rpc_lent *lent)
{
    if (lent != NULL && lent->release != NULL) {
        lent->release(lent->arg);
    }
}

gy_status gy_ps_chain_answer(gy_ps_chain *chain, uint32_t part, const gy_rpc_asked *asked,
                             const ProtobufCMessage *answer, const gy_rpc_lent *lent)
{
    static const gy_rpc_lent none = {0};
    chain_place *place = &chain->places[part];
    uint64_t needed = GY_MAX(place->serving, place->number);
    if (asked->peer == 0) { /* an event of the member before */
        release(lent);
        return GY_OK;
    }
    bool is_read = lent != NULL;
    bool is_alone = !gy_ps_chain_needs_next(place);
    if (is_alone || may_answer(chain, place, needed, is_read)) {
        return tell(chain->rpc, asked, answer, is_read ? lent : &none);
    }
    gy_status status = gy_ps_chain_keep_answer(place,
                                               &(chain_answer){.needed = needed,
                                                               .asked = *asked,
                                                               .is_read = is_read,
                                                               .lent = is_read ? *lent : none},
                                               answer);
    if (status < 0) {
        release(lent);
        gy_ps_chain_fail(chain, status); /* the event may be carried out already */
        return GY_OK;
    }
    if (is_read && !has_lease(chain, place)) {
        gy_ps_chain_ask_lease(chain, part);
    }
    return GY_OK;
}
