/* Events that come from the member before. */
#include "ps/chain/chain_priv.h"

#include <string.h>

void gy_ps_chain_fill_taken(gy_ps_chain *chain, chain_place *place, Gy__Ps__Taken *taken)
{
    int64_t now_ns = gy_ps_chain_now(chain);
    int64_t lease_ns = gy_ps_chain_needs_next(place)
                           ? GY_MAX(place->lease_until_ns - now_ns, (int64_t)0)
                           : gy_ps_chain_lease_ns(chain);
    gy__ps__taken__init(taken);
    taken->number = gy_ps_chain_acked(place);
    taken->lease_us = (uint64_t)lease_ns / 1000;
    place->granted_until_ns = GY_MAX(place->granted_until_ns, now_ns + lease_ns);
}

static const gy_rpc_method *method_of(const gy_ps_chain *chain, uint32_t type)
{
    for (size_t i = 0; i < chain->options.method_count; i++) {
        if (chain->options.methods[i].type == type) {
            return &chain->options.methods[i];
        }
    }
    return NULL;
}

static gy_status judge(const gy_ps_chain *chain, const Gy__Ps__Event *event)
{
    if (event->part >= GY_PS_MAP_PARTS_MAX || event->to != chain->options.id) {
        return gy_fail(GY_CANCELLED, "an event of part %u for another server", event->part);
    }
    const chain_place *place = &chain->places[event->part];
    if (event->epoch != place->epoch) {
        return gy_fail(GY_CANCELLED, "an event of part %u of epoch %llu: this server has %llu",
                       event->part, (unsigned long long)event->epoch,
                       (unsigned long long)place->epoch);
    }
    if (!place->has_data || place->is_head) {
        return gy_fail(GY_STATE, "an event of part %u: this server is %s", event->part,
                       place->is_head ? "its head" : "no member of its chain");
    }
    if (event->number > place->number + 1 && !GY_PS_CHAIN_PLANTED(GAP_TAKEN)) {
        return gy_fail(GY_STATE, "event %llu of part %u comes after %llu",
                       (unsigned long long)event->number, event->part,
                       (unsigned long long)place->number);
    }
    return GY_OK;
}

gy_status gy_ps_chain_admit_event(gy_ps_chain *chain, const ProtobufCMessage *request,
                                  size_t size_bytes, void **room)
{
    GY_TRY(judge(chain, (const Gy__Ps__Event *)request));
    *room = chain->options.take(chain->options.arg, size_bytes);
    return *room != NULL ? GY_OK : GY_NOMEM;
}

static void give(gy_ps_chain *chain, void *room)
{
    if (room != NULL) {
        chain->options.give(room);
    }
}

/* Carry the event out. What the head could do, this member has to do as well. */
static gy_status carry_out(gy_ps_chain *chain, const Gy__Ps__Event *event,
                           const gy_rpc_asked *asked)
{
    chain_place *place = &chain->places[event->part];
    const gy_rpc_method *method = method_of(chain, event->type);
    ProtobufCMessage *request =
        method != NULL && chain->options.is_event(event->type)
            ? protobuf_c_message_unpack(method->request, NULL, event->body.len,
                                        event->body.data)
            : NULL;
    if (request == NULL) {
        give(chain, asked->beside);
        return gy_fail(GY_FORMAT,
                       "an event of kind %u that cannot be read: another version of "
                       "Gyre?",
                       event->type);
    }
    chain_entry *entry =
        gy_ps_chain_entry_new(chain, event->type, request, asked->beside, asked->beside_bytes);
    gy_status status = GY_NOMEM;
    if (entry != NULL) {
        const gy_rpc_asked as = {
            .deadline = GY_NEVER, .beside = asked->beside, .beside_bytes = asked->beside_bytes};
        status = chain->options.serve(chain->options.arg, event->type, &as, request);
    } else {
        give(chain, asked->beside);
    }
    protobuf_c_message_free_unpacked(request, NULL);
    if (status < 0) {
        if (entry != NULL) {
            gy_ps_chain_entry_drop(chain, entry);
        }
        gy_ps_chain_fail(chain, status);
        return status;
    }
    if (GY_PS_CHAIN_PLANTED(GAP_TAKEN)) {
        place->number = GY_MAX(place->number, event->number - 1);
        place->last = NULL;
        place->first = place->unsent = NULL;
    }
    gy_ps_chain_append(place, entry);
    return GY_OK;
}

gy_status gy_ps_chain_event(gy_ps_chain *chain, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request)
{
    const Gy__Ps__Event *event = (const Gy__Ps__Event *)request;
    if (event->part < GY_PS_MAP_PARTS_MAX && event->epoch > chain->places[event->part].epoch) {
        gy_ps_chain_ask_peer(chain, asked->peer);
    }
    gy_status status = judge(chain, event);
    if (status < 0) {
        give(chain, asked->beside);
        return status;
    }
    chain_place *place = &chain->places[event->part];
    if (event->number == 0) {
        Gy__Ps__Taken taken;
        give(chain, asked->beside);
        gy_ps_chain_fill_taken(chain, place, &taken);
        return gy_rpc_answer(chain->rpc, asked, &taken.base);
    }
    if (event->number > place->number || GY_PS_CHAIN_PLANTED(EVENT_TWICE)) {
        GY_TRY(carry_out(chain, event, asked));
    } else {
        give(chain, asked->beside);
    }
    GY_TRY(gy_ps_chain_keep_answer(
        place, &(chain_answer){.needed = event->number, .asked = *asked, .is_taken = true},
        NULL));
    gy_ps_chain_forward(chain, event->part);
    gy_ps_chain_advance(chain, event->part);
    return GY_OK;
}
