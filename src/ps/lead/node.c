/* The lead as a node: what servers, clients and operators ask of it. */
#include "ps/lead/lead.h"

#include "base/text.h"

#include <string.h>

enum { ASKS_MAX = 16384 };

static const int64_t tick_ns = 50000000;

/* ---- Maps ---- */

static gy_status answer_map(const gy_ps_lead_node *at, const gy_rpc_asked *asked)
{
    gy_ps_map_message message;
    gy_ps_map_tell(&at->lead.map, &message);
    return gy_rpc_answer(at->rpc, asked, &message.map.base);
}

/* Those of servers, or of all others. */
static void answer_some(gy_ps_lead_node *at, bool is_server)
{
    for (size_t i = 0; i < at->ask_count;) {
        const gy_ps_map_ask one = at->asks[i];
        if (one.epoch >= at->lead.map.epoch || (one.asked.role == GY_RPC_SERVER) != is_server) {
            i++;
            continue;
        }
        at->asks[i] = at->asks[--at->ask_count];
        gy_status status = answer_map(at, &one.asked);
        if (status < 0) {
            gy_rpc_refuse(at->rpc, &one.asked, status, gy_error_text());
        }
    }
}

/* A client with a map that no server has is kept by them, for ever if the lead dies now. So it
 * hears of a map once all servers that are there have it (which then wait for a later one), or
 * have had the time to. */
static bool may_tell_clients(const gy_ps_lead_node *at)
{
    uint32_t have = 0, alive = 0;
    for (size_t i = 0; i < at->ask_count; i++) {
        have +=
            at->asks[i].asked.role == GY_RPC_SERVER && at->asks[i].epoch >= at->lead.map.epoch;
    }
    for (uint32_t i = 0; i < at->lead.server_count; i++) {
        alive += !at->lead.servers[i].is_dead;
    }
    return (have > 0 && have >= alive) || gy_now_ns(at->env) >= at->clients_ns;
}

static void answer_asks(gy_ps_lead_node *at)
{
    answer_some(at, true);
    if (may_tell_clients(at)) {
        answer_some(at, false);
    }
}

static void begin_telling(gy_ps_lead_node *at)
{
    at->clients_ns = gy_now_ns(at->env) + at->lead.options.dead_ns / 4;
    at->step_ns = 0;
    answer_asks(at);
}

static gy_status serve_ask(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request)
{
    gy_ps_lead_node *at = arg;
    const Gy__Ps__AskMap *ask = (const Gy__Ps__AskMap *)request;
    bool may_tell = asked->role == GY_RPC_SERVER || may_tell_clients(at);
    if (at->is_loaded && at->lead.map.epoch > ask->epoch && may_tell) {
        return answer_map(at, asked);
    }
    if (at->ask_count == ASKS_MAX) {
        return gy_fail(GY_LIMIT, "%d wait for a map already", ASKS_MAX);
    }
    GY_TRY(GY_GROW("ps.asks", at->asks, at->ask_capacity, at->ask_count + 1));
    at->asks[at->ask_count++] = (gy_ps_map_ask){.asked = *asked, .epoch = ask->epoch};
    if (at->is_loaded) {
        answer_asks(at); /* it may be the last server that got the map */
    }
    return GY_OK;
}

static void forget_asks(gy_ps_lead_node *at, gy_rpc_peer peer, uint64_t number)
{
    for (size_t i = 0; i < at->ask_count;) {
        const gy_rpc_asked *one = &at->asks[i].asked;
        if (one->peer == peer && (number == 0 || one->number == number)) {
            at->asks[i] = at->asks[--at->ask_count];
        } else {
            i++;
        }
    }
}

static void cancel_ask(void *arg, const gy_rpc_asked *asked)
{
    gy_ps_lead_node *at = arg;
    forget_asks(at, asked->peer, asked->number);
    gy_rpc_refuse(at->rpc, asked, GY_CANCELLED, "cancelled");
}

static void hear(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    if (event == GY_RPC_GONE || event == GY_RPC_ANEW) {
        forget_asks(arg, peer, 0);
    }
}

/* ---- Servers and operators ---- */

static gy_status need_lead(const gy_ps_lead_node *at)
{
    return at->is_loaded ? GY_OK : gy_fail(GY_PEER, "this lead is on standby");
}

static gy_status hear_offer(const Gy__Ps__Offer *from, gy_ps_lead_offer *to)
{
    *to = (gy_ps_lead_offer){.id = from->id,
                             .cluster = from->cluster,
                             .number = from->number,
                             .clock = from->clock,
                             .parts = from->parts,
                             .has = from->has};
    return gy_print_whole(to->name, sizeof(to->name), "%s", from->name)
               ? GY_OK
               : gy_fail(GY_FORMAT, "a snapshot's name of %zu bytes", strlen(from->name));
}

static gy_status serve_renew(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    gy_ps_lead_node *at = arg;
    const Gy__Ps__Renew *renew = (const Gy__Ps__Renew *)request;
    GY_TRY(need_lead(at));
    if (renew->n_copied != renew->n_epochs) {
        return gy_fail(GY_FORMAT, "%zu parts with %zu epochs", renew->n_copied,
                       renew->n_epochs);
    }
    gy_ps_lead_offer offers[GY_PS_OFFERS_MAX];
    size_t offer_count = GY_MIN(renew->n_offers, (size_t)GY_PS_OFFERS_MAX);
    for (size_t i = 0; i < offer_count; i++) {
        GY_TRY(hear_offer(renew->offers[i], &offers[i]));
    }
    GY_TRY(gy_ps_lead_renew(&at->lead,
                            &(gy_ps_lead_renewal){.cluster = renew->cluster,
                                                  .id = renew->id,
                                                  .address = renew->address,
                                                  .caught_count = renew->n_copied,
                                                  .caught = renew->copied,
                                                  .epochs = renew->epochs,
                                                  .offer_count = offer_count,
                                                  .offers = offers},
                            gy_now_ns(at->env)));
    at->step_ns = 0;
    Gy__Ps__Done done;
    gy__ps__done__init(&done);
    done.is_done = true;
    return gy_rpc_answer(at->rpc, asked, &done.base);
}

static gy_status serve_drain(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    gy_ps_lead_node *at = arg;
    const Gy__Ps__Drain *drain = (const Gy__Ps__Drain *)request;
    GY_TRY(need_lead(at));
    GY_TRY(gy_ps_lead_drain(&at->lead, drain->address));
    at->step_ns = 0;
    Gy__Ps__Drained drained;
    gy__ps__drained__init(&drained);
    drained.parts = gy_ps_lead_parts(&at->lead, drain->address);
    return gy_rpc_answer(at->rpc, asked, &drained.base);
}

/* ---- Time ---- */

void gy_ps_lead_node_step(gy_ps_lead_node *at)
{
    int64_t now_ns = gy_now_ns(at->env);
    if (now_ns < at->step_ns) {
        return;
    }
    at->step_ns = now_ns + tick_ns;
    if (at->is_loaded) {
        answer_asks(at);
    }
    if (!at->is_loaded || !gy_ps_lead_step(&at->lead, now_ns)) {
        return;
    }
    size_t size = gy_ps_map_pack(&at->lead.next, at->packed);
    gy_status status = at->store(at->arg, at->packed, size);
    if (status < 0) {
        gy_warn("a map cannot be stored: %s", gy_error_text());
        gy_ps_lead_stored(&at->lead, false);
    }
}

void gy_ps_lead_node_stored(gy_ps_lead_node *at)
{
    gy_ps_lead_stored(&at->lead, true);
    begin_telling(at);
}

/* ---- Open and close ---- */

gy_rpc_options gy_ps_lead_node_options(gy_ps_lead_node *at)
{
    gy_ps_led_methods(at->methods);
    gy_rpc_method *renew = &at->methods[GY_PS_RENEW - GY_PS_EVENT];
    gy_rpc_method *ask = &at->methods[GY_PS_ASK_MAP - GY_PS_EVENT];
    gy_rpc_method *drain = &at->methods[GY_PS_DRAIN - GY_PS_EVENT];
    renew->serve = serve_renew;
    renew->roles = GY_RPC_MAY(GY_RPC_SERVER);
    ask->serve = serve_ask;
    ask->cancel = cancel_ask;
    ask->roles = GY_RPC_MAY(GY_RPC_SERVER) | GY_RPC_MAY(GY_RPC_WORKER) |
                 GY_RPC_MAY(GY_RPC_WATCHER) | GY_RPC_MAY(GY_RPC_OPERATOR);
    drain->serve = serve_drain;
    drain->roles = GY_RPC_MAY(GY_RPC_OPERATOR);
    return (gy_rpc_options){.name = "parameter servers' lead",
                            .role = GY_RPC_LEAD,
                            .methods = at->methods,
                            .method_count = GY_PS_LED_METHODS,
                            .arg = at,
                            .hear = hear,
                            .linger_ns = 2000000000};
}

void gy_ps_lead_node_load(gy_ps_lead_node *at, const gy_ps_lead_options *options,
                          const gy_ps_map *map)
{
    gy_ps_lead_begin(&at->lead, options, map, gy_now_ns(at->env));
    at->is_loaded = true;
    gy_info("this lead leads cluster %llx at epoch %llu",
            (unsigned long long)at->lead.map.cluster, (unsigned long long)at->lead.map.epoch);
    begin_telling(at);
}

void gy_ps_lead_node_fini(gy_ps_lead_node *at)
{
    gy_rpc_free(at->rpc);
    gy_free(at->asks);
    at->rpc = NULL;
    at->asks = NULL;
    at->ask_count = at->ask_capacity = 0;
}
