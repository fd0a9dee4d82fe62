/* Calls to the heads of parts, and the map that says who they are. */
#include "ps/route/route.h"

#include <stdio.h>
#include <string.h>

enum { LEADS_MAX = 8 };

static const int64_t retry_ns = 50000000, tick_ns = 50000000, ask_ns = 1000000000;

/* A call that has no answer yet. */
typedef struct route_flight {
    struct route_flight *next, *previous;
    gy_ps_route *route;
    uint64_t number;
    uint32_t part;
    gy_rpc_request request; /* its message is packed */
    const ProtobufCMessageDescriptor *kind;
    uint8_t *body;
    size_t body_bytes;
    struct route_attempt *attempt; /* NULL: it is not under way */
} route_flight;

typedef struct route_attempt {
    route_flight *flight; /* NULL: nobody wants to know any more */
    gy_rpc_peer peer;
    uint64_t call;
} route_attempt;

typedef struct route_part {
    route_flight *first, *last;
    uint32_t count;
    uint64_t epoch;      /* of its chain, by the map; 0: none */
    uint64_t bad_epoch;  /* calls wait for a later one */
    uint64_t head, born; /* born: as of the map's chain */
    gy_rpc_peer peer;
    int64_t retry_ns;
} route_part;

typedef struct route_lead {
    gy_ps_route *route;
    gy_rpc_peer peer;
    bool is_asking;
    int64_t again_ns;
} route_lead;

typedef struct route_peer {
    uint64_t id;
    gy_rpc_peer peer;
} route_peer;

struct gy_ps_route {
    gy_ps_route_options options;
    gy_ps_map map;
    route_part parts[GY_PS_MAP_PARTS_MAX];
    route_lead leads[LEADS_MAX];
    uint32_t lead_count;
    route_peer peers[GY_PS_MAP_SERVERS_MAX];
    uint32_t peer_count;
    uint64_t numbers;
    int64_t tick_ns;
    bool is_asking_server;
};

/* ---- Flights ---- */

static void link_flight(route_part *part, route_flight *flight, bool is_first)
{
    if (is_first) {
        flight->next = part->first;
        *(part->first != NULL ? &part->first->previous : &part->last) = flight;
        part->first = flight;
    } else {
        flight->previous = part->last;
        *(part->last != NULL ? &part->last->next : &part->first) = flight;
        part->last = flight;
    }
    part->count++;
}

static void unlink_flight(route_part *part, const route_flight *flight)
{
    *(flight->previous != NULL ? &flight->previous->next : &part->first) = flight->next;
    *(flight->next != NULL ? &flight->next->previous : &part->last) = flight->previous;
    part->count--;
}

/* The flight is not under way any more: what it lent is not read. */
static void withdraw(route_flight *flight)
{
    route_attempt *attempt = flight->attempt;
    if (attempt != NULL) {
        attempt->flight = NULL;
        flight->attempt = NULL;
        gy_rpc_cancel(flight->route->options.rpc, attempt->peer, attempt->call);
    }
}

static void end_flight(route_flight *flight, gy_status status, const ProtobufCMessage *answer)
{
    gy_rpc_request request = flight->request;
    withdraw(flight);
    unlink_flight(&flight->route->parts[flight->part], flight);
    gy_free(flight->body);
    gy_free(flight);
    request.done(request.arg, status, answer);
}

static void set_u64(ProtobufCMessage *message, const char *name, uint64_t value)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    if (field != NULL) {
        GY_ASSERT(field->type == PROTOBUF_C_TYPE_UINT64 ||
                  field->type == PROTOBUF_C_TYPE_FIXED64);
        memcpy((uint8_t *)message + field->offset, &value, sizeof(value));
    }
}

static void take_map(gy_ps_route *route, const gy_ps_map *map);

static void on_server_map(void *arg, gy_status status, const ProtobufCMessage *message)
{
    gy_ps_route *route = arg;
    gy_ps_map map;
    route->is_asking_server = false;
    if (status == GY_OK) {
        status = gy_ps_map_hear((const Gy__Ps__Map *)message, &map);
    }
    if (status == GY_OK && map.cluster == route->map.cluster) {
        take_map(route, &map);
    }
}

/* The lead may be gone before it told this client of the map that the server has. */
static void ask_server(gy_ps_route *route, gy_rpc_peer peer)
{
    Gy__Ps__AskMap ask;
    gy__ps__ask_map__init(&ask);
    ask.epoch = route->map.epoch;
    if (!route->is_asking_server) {
        route->is_asking_server =
            gy_rpc_call(route->options.rpc, peer,
                        &(gy_rpc_request){.type = GY_PS_ASK_MAP,
                                          .message = &ask.base,
                                          .deadline = {gy_now_ns(route->options.env) + ask_ns},
                                          .is_hasty = true,
                                          .done = on_server_map,
                                          .arg = route},
                        NULL) == GY_OK;
    }
}

static void on_answer(void *arg, gy_status status, const ProtobufCMessage *message)
{
    route_attempt *attempt = arg;
    route_flight *flight = attempt->flight;
    gy_free(attempt);
    if (flight == NULL) {
        return;
    }
    gy_ps_route *route = flight->route;
    uint32_t index = flight->part;
    route_part *part = &route->parts[index];
    flight->attempt = NULL;
    if (status != GY_CANCELLED && status != GY_PEER) {
        end_flight(flight, status, message);
        return;
    }
    gy_debug("part %u: a call is made again: %s", index, gy_error_text());
    if (status == GY_CANCELLED) {
        /* Its server has another map. Servers refuse by epoch alone, so all calls that were
         * made after this one are refused as well. */
        part->bad_epoch = GY_MAX(part->bad_epoch, part->epoch);
        ask_server(route, part->peer);
    } else {
        /* Its server began anew, and refuses all by its map; or it has forgotten this client,
         * and refuses a worker that it gave up. */
        for (route_flight *at = part->first; at != NULL; at = at->next) {
            withdraw(at);
        }
        part->retry_ns = gy_now_ns(route->options.env) + retry_ns;
    }
    route->tick_ns = 0;
}

/* `admit` of a request is called with the request's own argument, which a call's differs from.
 */
static gy_status admit_answer(void *arg, const ProtobufCMessage *answer, size_t size_bytes,
                              void **room)
{
    const route_attempt *attempt = arg;
    if (attempt->flight == NULL) {
        return gy_fail(GY_CANCELLED, "cancelled");
    }
    const gy_rpc_request *request = &attempt->flight->request;
    return request->admit(request->arg, answer, size_bytes, room);
}

static gy_status send(route_flight *flight)
{
    gy_ps_route *route = flight->route;
    const route_part *part = &route->parts[flight->part];
    route_attempt *attempt = gy_alloc_zero("ps.attempt", 1, sizeof(*attempt));
    ProtobufCMessage *message =
        protobuf_c_message_unpack(flight->kind, NULL, flight->body_bytes, flight->body);
    if (attempt == NULL || message == NULL) {
        gy_free(attempt);
        if (message != NULL) {
            protobuf_c_message_free_unpacked(message, NULL);
        }
        return GY_NOMEM;
    }
    *attempt = (route_attempt){.flight = flight, .peer = part->peer};
    set_u64(message, "epoch", part->epoch);
    set_u64(message, "cluster", route->map.cluster);
    gy_rpc_request request = flight->request;
    request.message = message;
    request.is_hasty = false;
    request.done = on_answer;
    request.arg = attempt;
    request.admit = flight->request.admit != NULL ? admit_answer : NULL;
    gy_status status = gy_rpc_call(route->options.rpc, part->peer, &request, &attempt->call);
    protobuf_c_message_free_unpacked(message, NULL);
    if (status != GY_OK) {
        gy_free(attempt);
        return status;
    }
    flight->attempt = attempt;
    return GY_OK;
}

/* Make the calls from `first` on that are not under way, in their order. */
static void make_calls(gy_ps_route *route, uint32_t index, route_flight *first)
{
    route_part *part = &route->parts[index];
    int64_t now_ns = gy_now_ns(route->options.env);
    if (part->epoch == 0 || part->epoch <= part->bad_epoch || now_ns < part->retry_ns) {
        return;
    }
    for (route_flight *at = first; at != NULL; at = at->next) {
        if (at->attempt == NULL && send(at) != GY_OK) {
            part->retry_ns = now_ns + retry_ns; /* the queue is full, or there is no memory */
            return;
        }
    }
}

/* ---- Maps ---- */

static gy_status peer_of(gy_ps_route *route, uint64_t id, gy_rpc_peer *peer)
{
    for (uint32_t i = 0; i < route->peer_count; i++) {
        if (route->peers[i].id == id) {
            *peer = route->peers[i].peer;
            return GY_OK;
        }
    }
    const gy_ps_map_server *server = gy_ps_map_find(&route->map, id);
    GY_ASSERT(server != NULL && route->peer_count < GY_PS_MAP_SERVERS_MAX);
    GY_TRY(gy_rpc_dial(route->options.rpc, server->address, peer));
    route->peers[route->peer_count++] = (route_peer){.id = id, .peer = *peer};
    return GY_OK;
}

static void drop_peers(gy_ps_route *route)
{
    for (uint32_t i = 0; i < route->peer_count;) {
        if (gy_ps_map_find(&route->map, route->peers[i].id) != NULL) {
            i++;
            continue;
        }
        gy_rpc_drop(route->options.rpc, route->peers[i].peer);
        route->peers[i] = route->peers[--route->peer_count];
    }
}

gy_status gy_ps_route_fail_gone(const gy_ps_route *route, uint32_t part)
{
    const gy_ps_map_chain *chain = &route->map.chains[part];
    const char *what = chain->is_lost ? "are lost" : "are gone";
    if (route->map.saved_number == 0) {
        return gy_fail(GY_PEER,
                       "part %u of %u: all its %u replicas %s, and there is no snapshot", part,
                       route->map.chain_count, chain->count, what);
    }
    return gy_fail(
        GY_PEER,
        "part %u of %u: all its %u replicas %s; the newest snapshot, %s, is of clock "
        "%llu",
        part, route->map.chain_count, chain->count, what, route->map.saved,
        (unsigned long long)route->map.saved_clock);
}

/* Nobody has the part: its calls end. Their callbacks may make others, which end as well. */
static void end_all(gy_ps_route *route, uint32_t index)
{
    route_part *part = &route->parts[index];
    for (uint32_t left = part->count; left > 0 && part->first != NULL; left--) {
        end_flight(part->first, gy_ps_route_fail_gone(route, index), NULL);
    }
}

static void take_chain(gy_ps_route *route, uint32_t index)
{
    route_part *part = &route->parts[index];
    const gy_ps_map_chain *chain = &route->map.chains[index];
    bool is_new = part->head != chain->members[0] || part->born != chain->born;
    for (route_flight *at = part->first; at != NULL; at = at->next) {
        withdraw(at);
    }
    part->epoch = chain->epoch;
    part->head = chain->members[0];
    part->born = chain->born;
    part->retry_ns = 0;
    if (peer_of(route, part->head, &part->peer) < 0) {
        part->bad_epoch = part->epoch; /* no memory: wait for the next map */
        return;
    }
    if (chain->is_away) {
        end_all(route, index);
    } else if (is_new) {
        route->options.found(route->options.arg, index);
    }
}

static void take_map(gy_ps_route *route, const gy_ps_map *map)
{
    if (map->epoch <= route->map.epoch) {
        return;
    }
    route->map = *map;
    for (uint32_t i = 0; i < map->chain_count; i++) {
        if (map->chains[i].epoch > route->parts[i].epoch) {
            take_chain(route, i);
        }
    }
    drop_peers(route);
    route->tick_ns = 0;
}

static void on_map(void *arg, gy_status status, const ProtobufCMessage *message)
{
    route_lead *lead = arg;
    gy_ps_route *route = lead->route;
    gy_ps_map map;
    lead->is_asking = false;
    if (status == GY_OK) {
        status = gy_ps_map_hear((const Gy__Ps__Map *)message, &map);
    }
    if (status == GY_OK && route->map.cluster != 0 && map.cluster != route->map.cluster) {
        status =
            gy_fail(GY_MISMATCH, "a map of cluster %llx: this client is of %llx",
                    (unsigned long long)map.cluster, (unsigned long long)route->map.cluster);
    }
    if (status != GY_OK) {
        gy_debug("no map: %s", gy_error_text());
        lead->again_ns = gy_now_ns(route->options.env) + 4 * retry_ns;
        return;
    }
    take_map(route, &map);
}

static void ask_map(gy_ps_route *route, route_lead *lead)
{
    Gy__Ps__AskMap ask;
    gy__ps__ask_map__init(&ask);
    ask.epoch = route->map.epoch;
    lead->is_asking = gy_rpc_call(route->options.rpc, lead->peer,
                                  &(gy_rpc_request){.type = GY_PS_ASK_MAP,
                                                    .message = &ask.base,
                                                    .deadline = GY_NEVER,
                                                    .done = on_map,
                                                    .arg = lead},
                                  NULL) == GY_OK;
}

const gy_ps_map *gy_ps_route_map(const gy_ps_route *route)
{
    return &route->map;
}

/* ---- Calls ---- */

gy_status gy_ps_route_call(gy_ps_route *route, uint32_t part, bool is_first,
                           const gy_rpc_request *request, uint64_t *number)
{
    GY_ASSERT(part < route->map.chain_count);
    if (route->map.chains[part].is_away) {
        return gy_ps_route_fail_gone(route, part);
    }
    route_flight *made = gy_alloc_zero("ps.flight", 1, sizeof(*made));
    size_t size = protobuf_c_message_get_packed_size(request->message);
    uint8_t *body = gy_alloc("ps.flight", size + 1);
    if (made == NULL || body == NULL) {
        gy_free(made);
        gy_free(body);
        return GY_NOMEM;
    }
    protobuf_c_message_pack(request->message, body);
    *made = (route_flight){.route = route,
                           .number = ++route->numbers,
                           .part = part,
                           .request = *request,
                           .kind = request->message->descriptor,
                           .body = body,
                           .body_bytes = size};
    made->request.message = NULL;
    link_flight(&route->parts[part], made, is_first);
    if (number != NULL) {
        *number = made->number;
    }
    if (!is_first) {
        make_calls(route, part,
                   made->previous == NULL || made->previous->attempt != NULL
                       ? made
                       : route->parts[part].first);
    }
    return GY_OK;
}

void gy_ps_route_cancel(gy_ps_route *route, uint64_t number)
{
    for (uint32_t i = 0; i < route->map.chain_count; i++) {
        for (route_flight *at = route->parts[i].first; at != NULL; at = at->next) {
            if (at->number == number) {
                end_flight(at, gy_fail(GY_CANCELLED, "cancelled"), NULL);
                return;
            }
        }
    }
}

uint32_t gy_ps_route_pending(const gy_ps_route *route, uint32_t part)
{
    return route->parts[part].count;
}

gy_status gy_ps_route_blame(const gy_ps_route *route, uint32_t part, const char *what)
{
    const char *address =
        part < route->map.chain_count ? gy_ps_map_head(&route->map, part) : NULL;
    gy_rpc_facts facts;
    if (address == NULL) {
        return gy_fail(GY_TIMEOUT, "%s: the lead has no servers for it", what);
    }
    if (gy_rpc_look(route->options.rpc, route->parts[part].peer, &facts) && !facts.is_up) {
        return gy_fail(GY_PEER, "%s: server %s, the head of part %u, is not reached: %s", what,
                       address, part, facts.why);
    }
    return gy_fail(GY_TIMEOUT,
                   "%s: no answer of server %s, the head of part %u, by the "
                   "deadline",
                   what, address, part);
}

/* ---- Time ---- */

/* Calls that wait for a map have deadlines, too. */
static void end_late(gy_ps_route *route, uint32_t index)
{
    int64_t now_ns = gy_now_ns(route->options.env);
    for (route_flight *at = route->parts[index].first, *next = NULL; at != NULL; at = next) {
        next = at->next;
        if (at->attempt == NULL && now_ns >= at->request.deadline.at_ns) {
            end_flight(at, gy_ps_route_blame(route, index, "a call that waits for a map"),
                       NULL);
            next = route->parts[index].first; /* the callback may have ended others */
        }
    }
}

void gy_ps_route_tick(gy_ps_route *route)
{
    int64_t now_ns = gy_now_ns(route->options.env);
    if (now_ns < route->tick_ns) {
        return;
    }
    route->tick_ns = now_ns + tick_ns;
    for (uint32_t i = 0; i < route->lead_count; i++) {
        route_lead *lead = &route->leads[i];
        if (!lead->is_asking && now_ns >= lead->again_ns) {
            ask_map(route, lead);
        }
    }
    for (uint32_t i = 0; i < route->map.chain_count; i++) {
        end_late(route, i);
        make_calls(route, i, route->parts[i].first);
    }
}

int64_t gy_ps_route_next(const gy_ps_route *route)
{
    return route->tick_ns;
}

/* ---- Open and close ---- */

static gy_status dial_leads(gy_ps_route *route, const char *leads)
{
    const char *at = leads;
    while (*at != '\0' && route->lead_count < LEADS_MAX) {
        char one[GY_RPC_ADDRESS_BYTES];
        size_t size = strcspn(at, ",");
        if (size == 0 || size >= sizeof(one)) {
            break;
        }
        memcpy(one, at, size);
        one[size] = '\0';
        route_lead *lead = &route->leads[route->lead_count];
        *lead = (route_lead){.route = route};
        GY_TRY(gy_rpc_dial(route->options.rpc, one, &lead->peer));
        route->lead_count++;
        at += size + (at[size] == ',' && at[size + 1] != '\0');
    }
    return *at == '\0' && route->lead_count > 0
               ? GY_OK
               : gy_fail(GY_ARG, "leads are '%s': expected HOST:PORT,... of 1 to %d", leads,
                         LEADS_MAX);
}

gy_status gy_ps_route_new(const gy_ps_route_options *options, const char *leads,
                          gy_ps_route **route)
{
    gy_ps_route *made = gy_alloc_zero("ps.route", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->options = *options;
    gy_status status = dial_leads(made, leads);
    if (status < 0) {
        gy_free(made);
        return status;
    }
    *route = made;
    return GY_OK;
}

void gy_ps_route_end(gy_ps_route *route)
{
    for (uint32_t i = 0; route != NULL && i < route->map.chain_count; i++) {
        route_part *part = &route->parts[i];
        for (uint32_t left = part->count; left > 0 && part->first != NULL; left--) {
            end_flight(part->first, gy_fail(GY_CANCELLED, "the handle is closed"), NULL);
        }
    }
}

void gy_ps_route_free(gy_ps_route *route)
{
    if (route == NULL) {
        return;
    }
    for (uint32_t i = 0; i < GY_PS_MAP_PARTS_MAX; i++) {
        for (route_flight *at = route->parts[i].first, *next = NULL; at != NULL; at = next) {
            next = at->next;
            gy_free(at->body);
            gy_free(at);
        }
    }
    gy_free(route);
}
