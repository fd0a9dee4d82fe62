/* What a server and the leads say to each other: that it is there, who has caught up, and the
 * map. All leads of a list are asked; the one that was elected answers. */
#include "ps/chain/chain_priv.h"

static const int64_t call_ns = 1000000000, retry_ns = 200000000;
/* The lease is not known before the first map: half of the shortest one. */
static const int64_t first_ns = 50000000;

static void on_map(void *arg, gy_status status, const ProtobufCMessage *message)
{
    chain_lead *lead = arg;
    gy_ps_chain *chain = lead->chain;
    gy_ps_map map;
    lead->is_asking = false;
    if (status < 0) {
        lead->again_ns = gy_ps_chain_now(chain) + retry_ns;
        return;
    }
    lead->again_ns = 0; /* at once: the next map may follow */
    status = gy_ps_map_hear((const Gy__Ps__Map *)message, &map);
    if (status == GY_OK) {
        status = gy_ps_chain_take_map(chain, &map);
    }
    if (status < 0) {
        gy_ps_chain_fail(chain, status);
    }
}

static void ask_map(gy_ps_chain *chain, chain_lead *lead)
{
    Gy__Ps__AskMap ask;
    gy__ps__ask_map__init(&ask);
    ask.epoch = chain->map.epoch;
    gy_status status = gy_rpc_call(chain->rpc, lead->peer,
                                   &(gy_rpc_request){.type = GY_PS_ASK_MAP,
                                                     .message = &ask.base,
                                                     .deadline = GY_NEVER,
                                                     .done = on_map,
                                                     .arg = lead},
                                   NULL);
    lead->is_asking = status == GY_OK;
    lead->again_ns = gy_ps_chain_now(chain) + retry_ns;
}

static void on_peer_map(void *arg, gy_status status, const ProtobufCMessage *message)
{
    gy_ps_chain *chain = arg;
    gy_ps_map map;
    chain->is_asking_peer = false;
    if (status == GY_OK) {
        status = gy_ps_map_hear((const Gy__Ps__Map *)message, &map);
    }
    if (status == GY_OK) {
        status = gy_ps_chain_take_map(chain, &map);
    }
    if (status < 0) {
        gy_debug("no map of another server: %s", gy_error_text());
    }
}

void gy_ps_chain_ask_peer(gy_ps_chain *chain, gy_rpc_peer peer)
{
    Gy__Ps__AskMap ask;
    gy__ps__ask_map__init(&ask);
    ask.epoch = chain->map.epoch;
    if (chain->is_asking_peer) {
        return;
    }
    chain->is_asking_peer =
        gy_rpc_call(chain->rpc, peer,
                    &(gy_rpc_request){.type = GY_PS_ASK_MAP,
                                      .message = &ask.base,
                                      .deadline = {gy_ps_chain_now(chain) + call_ns},
                                      .is_hasty = true,
                                      .done = on_peer_map,
                                      .arg = chain},
                    NULL) == GY_OK;
}

static void on_renewed(void *arg, gy_status status, const ProtobufCMessage *message)
{
    chain_lead *lead = arg;
    lead->is_renewing = false;
    (void)message;
    if (status == GY_MISMATCH) { /* of another cluster: it will not get better */
        gy_ps_chain_fail(lead->chain, status);
    } else if (status < 0) {
        gy_debug("the lead: %s", gy_error_text());
    }
}

/* Parts whose joining server has all that was acknowledged before its copy. */
static size_t list_copied(const gy_ps_chain *chain, uint32_t *parts, uint64_t *epochs)
{
    size_t count = 0;
    for (uint32_t i = 0; i < chain->map.chain_count; i++) {
        const chain_place *place = &chain->places[i];
        bool has_all = place->acked >= place->caught_at || GY_PS_CHAIN_PLANTED(CAUGHT_EARLY);
        bool is_copied = place->is_copied || GY_PS_CHAIN_PLANTED(CAUGHT_EARLY);
        if (place->next != 0 && place->is_next_joining && is_copied && has_all) {
            parts[count] = i;
            epochs[count++] = place->epoch;
        }
    }
    return count;
}

static void renew(gy_ps_chain *chain, chain_lead *lead)
{
    uint32_t parts[GY_PS_MAP_PARTS_MAX];
    uint64_t epochs[GY_PS_MAP_PARTS_MAX];
    Gy__Ps__Renew message;
    gy__ps__renew__init(&message);
    message.cluster = chain->map.cluster;
    message.id = chain->options.id;
    message.address = chain->address;
    message.n_copied = message.n_epochs = list_copied(chain, parts, epochs);
    message.copied = parts;
    message.epochs = epochs;
    Gy__Ps__Offer offers[GY_PS_OFFERS_MAX], *list[GY_PS_OFFERS_MAX];
    message.n_offers = chain->options.list_saved(chain->options.arg, offers);
    message.offers = list;
    for (size_t i = 0; i < message.n_offers; i++) {
        list[i] = &offers[i];
    }
    lead->is_renewing =
        gy_rpc_call(chain->rpc, lead->peer,
                    &(gy_rpc_request){.type = GY_PS_RENEW,
                                      .message = &message.base,
                                      .deadline = {gy_ps_chain_now(chain) + call_ns},
                                      .is_hasty = true,
                                      .done = on_renewed,
                                      .arg = lead},
                    NULL) == GY_OK;
}

void gy_ps_chain_renew(gy_ps_chain *chain)
{
    int64_t now_ns = gy_ps_chain_now(chain);
    bool is_due = now_ns >= chain->renew_ns;
    for (uint32_t i = 0; i < chain->lead_count; i++) {
        chain_lead *lead = &chain->leads[i];
        if (!lead->is_asking && now_ns >= lead->again_ns) {
            ask_map(chain, lead);
        }
        if (is_due && !lead->is_renewing) {
            renew(chain, lead);
        }
    }
    if (is_due) {
        int64_t lease_ns = gy_ps_chain_lease_ns(chain);
        int64_t pause_ns = lease_ns > 0 ? GY_MIN(lease_ns / 4, retry_ns) : first_ns;
        chain->renew_ns = now_ns + pause_ns;
    }
}
