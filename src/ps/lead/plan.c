/* Who is there, and the next map: pure. */
#include "ps/lead/lead.h"

#include <stdio.h>
#include <string.h>

/* ---- Servers ---- */

static gy_ps_lead_server *find(gy_ps_lead *lead, uint64_t id)
{
    for (uint32_t i = 0; i < lead->server_count; i++) {
        if (lead->servers[i].id == id) {
            return &lead->servers[i];
        }
    }
    return NULL;
}

static bool is_alive(gy_ps_lead *lead, uint64_t id)
{
    const gy_ps_lead_server *server = find(lead, id);
    return server != NULL && !server->is_dead;
}

static bool is_draining(gy_ps_lead *lead, uint64_t id)
{
    const gy_ps_lead_server *server = find(lead, id);
    return server != NULL && server->is_draining;
}

void gy_ps_lead_begin(gy_ps_lead *lead, const gy_ps_lead_options *options, const gy_ps_map *map,
                      int64_t now_ns)
{
    memset(lead, 0, sizeof(*lead));
    lead->options = *options;
    lead->stepped_ns = now_ns;
    if (map == NULL) {
        lead->map = (gy_ps_map){.cluster = options->cluster,
                                .replicas = options->replicas,
                                .lease_ms = options->lease_ms};
        return;
    }
    lead->map = *map;
    for (uint32_t i = 0; i < map->server_count; i++) {
        const gy_ps_map_server *from = &map->servers[i];
        gy_ps_lead_server *to = &lead->servers[lead->server_count++];
        *to = (gy_ps_lead_server){
            .id = from->id, .heard_ns = now_ns, .is_draining = from->is_draining};
        memcpy(to->address, from->address, sizeof(to->address));
    }
}

/* A dead server that no chain has is forgotten. */
static void forget(gy_ps_lead *lead)
{
    for (uint32_t i = 0; i < lead->server_count;) {
        const gy_ps_lead_server *server = &lead->servers[i];
        if (server->is_dead && gy_ps_map_find(&lead->map, server->id) == NULL) {
            lead->servers[i] = lead->servers[--lead->server_count];
        } else {
            i++;
        }
    }
}

gy_status gy_ps_lead_renew(gy_ps_lead *lead, const gy_ps_lead_renewal *renewal, int64_t now_ns)
{
    if (renewal->id == 0 || renewal->address[0] == '\0' ||
        strlen(renewal->address) >= GY_PS_ADDRESS_BYTES) {
        return gy_fail(GY_ARG, "a server without a number or an address");
    }
    if (renewal->cluster != 0 && renewal->cluster != lead->map.cluster) {
        return gy_fail(GY_MISMATCH, "server %s is of cluster %llx: this lead is of %llx",
                       renewal->address, (unsigned long long)renewal->cluster,
                       (unsigned long long)lead->map.cluster);
    }
    GY_TRY(gy_ps_lead_judge_offers(lead, renewal));
    gy_ps_lead_server *server = find(lead, renewal->id);
    if (server == NULL) {
        forget(lead);
        if (lead->server_count == GY_PS_MAP_SERVERS_MAX) {
            return gy_fail(GY_LIMIT, "server %s: there are %d already", renewal->address,
                           GY_PS_MAP_SERVERS_MAX);
        }
        server = &lead->servers[lead->server_count++];
        *server = (gy_ps_lead_server){.id = renewal->id, .came_ns = now_ns};
        gy_info("server %s (%llx) has come", renewal->address, (unsigned long long)renewal->id);
    }
    snprintf(server->address, sizeof(server->address), "%s", renewal->address);
    server->heard_ns = now_ns;
    server->is_heard = true;
    server->offer_count = (uint32_t)GY_MIN(renewal->offer_count, (size_t)GY_PS_OFFERS_MAX);
    for (uint32_t i = 0; i < server->offer_count; i++) {
        server->offers[i] = renewal->offers[i];
    }
    server->is_dead = server->is_replaced;
    for (uint32_t i = 0; i < lead->server_count; i++) { /* who listened there before is dead */
        gy_ps_lead_server *other = &lead->servers[i];
        bool is_older = other != server && strcmp(other->address, server->address) == 0;
        if (is_older && !server->is_replaced && !other->is_replaced) {
            other->died_ns = other->is_dead ? other->died_ns : now_ns;
            other->is_dead = other->is_replaced = true;
            gy_warn("server %s was started again: what it had is lost there", server->address);
        }
    }
    for (size_t i = 0; i < renewal->caught_count; i++) {
        if (renewal->caught[i] < lead->map.chain_count) {
            lead->caught[renewal->caught[i]] = renewal->epochs[i];
        }
    }
    return GY_OK;
}

gy_status gy_ps_lead_drain(gy_ps_lead *lead, const char *address)
{
    gy_ps_lead_server *found = NULL;
    uint32_t left = 0;
    for (uint32_t i = 0; i < lead->server_count; i++) {
        gy_ps_lead_server *server = &lead->servers[i];
        bool is_it = strcmp(server->address, address) == 0 && !server->is_replaced;
        found = is_it ? server : found;
        left += !is_it && !server->is_dead && !server->is_draining;
    }
    if (found == NULL) {
        return gy_fail(GY_NOTFOUND, "there is no server %s", address);
    }
    if (left < lead->map.replicas) {
        return gy_fail(GY_STATE,
                       "server %s cannot be drained: %u others are left, and each part has %u "
                       "replicas",
                       address, left, lead->map.replicas);
    }
    found->is_draining = true;
    return GY_OK;
}

/* ---- Chains ---- */

/* Parts that a server has, or gets. */
static uint32_t load_of(const gy_ps_map *map, uint64_t id)
{
    uint32_t load = 0;
    for (uint32_t i = 0; i < map->chain_count; i++) {
        const gy_ps_map_chain *chain = &map->chains[i];
        load += chain->joining == id || gy_ps_map_place(chain, id) != UINT32_MAX;
    }
    return load;
}

uint32_t gy_ps_lead_parts(const gy_ps_lead *lead, const char *address)
{
    uint32_t parts = 0;
    for (uint32_t i = 0; i < lead->map.server_count; i++) {
        const gy_ps_map_server *server = &lead->map.servers[i];
        parts += strcmp(server->address, address) == 0 ? load_of(&lead->map, server->id) : 0;
    }
    return parts;
}

/* The living server with the fewest parts that is not in the chain; 0: none. */
static uint64_t choose(gy_ps_lead *lead, const gy_ps_map *map, const gy_ps_map_chain *chain)
{
    uint64_t best = 0;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < map->server_count; i++) {
        uint64_t id = map->servers[i].id;
        uint32_t load = load_of(map, id);
        if (is_alive(lead, id) && !is_draining(lead, id) && load < least &&
            gy_ps_map_place(chain, id) == UINT32_MAX) {
            best = id;
            least = load;
        }
    }
    return best;
}

static void remove_member(gy_ps_map_chain *chain, uint32_t at)
{
    GY_ASSERT(at < chain->count && chain->count > 1);
    chain->count--;
    memmove(&chain->members[at], &chain->members[at + 1],
            (chain->count - at) * sizeof(chain->members[0]));
    chain->members[chain->count] = 0;
}

/* When the last of a chain's dead members was taken for dead. */
static int64_t last_death(gy_ps_lead *lead, const gy_ps_map_chain *chain)
{
    int64_t last_ns = 0;
    for (uint32_t i = 0; i < chain->count; i++) {
        const gy_ps_lead_server *server = find(lead, chain->members[i]);
        last_ns =
            server != NULL && server->is_dead ? GY_MAX(last_ns, server->died_ns) : last_ns;
    }
    return last_ns;
}

/* Dead members leave, as long as one is left that has the part: one that was heard since, not
 * one whose own death is only not known yet. What it said may have been on its way for a while.
 */
static void drop_dead(gy_ps_lead *lead, gy_ps_map_chain *chain)
{
    const int64_t since_ns = last_death(lead, chain) + lead->options.dead_ns / 16;
    uint32_t alive = 0;
    bool may_return = false, is_sure = false;
    for (uint32_t i = 0; i < chain->count; i++) {
        const gy_ps_lead_server *server = find(lead, chain->members[i]);
        alive += is_alive(lead, chain->members[i]);
        may_return = may_return || (server != NULL && !server->is_replaced);
        is_sure = is_sure || (server != NULL && !server->is_dead && server->is_heard &&
                              server->heard_ns > since_ns &&
                              lead->stepped_ns - server->heard_ns < lead->options.dead_ns / 3);
    }
    if (chain->joining != 0 &&
        (!is_alive(lead, chain->joining) || is_draining(lead, chain->joining))) {
        chain->joining = 0;
    }
    chain->is_away = alive == 0;
    chain->is_lost = alive == 0 && !may_return;
    for (uint32_t i = 0; i < chain->count && is_sure;) {
        if (is_alive(lead, chain->members[i])) {
            i++;
        } else {
            remove_member(chain, i);
            chain->joining = 0; /* its copy may have come from the one that is dead */
        }
    }
}

/* One member too many: the one that is to be drained, else the one with the most parts. */
static void drop_spare(gy_ps_lead *lead, const gy_ps_map *map, gy_ps_map_chain *chain)
{
    uint32_t worst = 0, most = 0;
    for (uint32_t i = 0; i + 1 < chain->count; i++) { /* the last has just come */
        uint32_t load = load_of(map, chain->members[i]);
        load += is_draining(lead, chain->members[i]) ? UINT16_MAX : 0;
        if (load > most) {
            worst = i;
            most = load;
        }
    }
    remove_member(chain, worst);
}

static void take_caught(gy_ps_lead *lead, const gy_ps_map *map, uint32_t part,
                        gy_ps_map_chain *chain)
{
    if (chain->joining == 0 || lead->caught[part] != chain->epoch ||
        chain->count == GY_PS_REPLICAS_MAX) {
        return;
    }
    chain->members[chain->count++] = chain->joining;
    chain->joining = 0;
    if (chain->count > map->replicas) {
        drop_spare(lead, map, chain);
    }
}

static bool has_draining(gy_ps_lead *lead, const gy_ps_map_chain *chain)
{
    for (uint32_t i = 0; i < chain->count; i++) {
        if (is_draining(lead, chain->members[i])) {
            return true;
        }
    }
    return false;
}

static bool is_moving(const gy_ps_map *map)
{
    for (uint32_t i = 0; i < map->chain_count; i++) {
        if (map->chains[i].joining != 0) {
            return true;
        }
    }
    return false;
}

/* Move one part at a time from the server with the most to the one with the fewest. */
static void balance(gy_ps_lead *lead, gy_ps_map *map)
{
    gy_ps_map_chain *best = NULL;
    uint64_t to = 0;
    uint32_t widest = 1;
    for (uint32_t i = 0; i < map->chain_count && !is_moving(map); i++) {
        gy_ps_map_chain *chain = &map->chains[i];
        uint64_t id = chain->is_away ? 0 : choose(lead, map, chain);
        for (uint32_t m = 0; m < chain->count && id != 0; m++) {
            uint32_t from = load_of(map, chain->members[m]), least = load_of(map, id);
            if (from > least && from - least > widest) {
                widest = from - least;
                best = chain;
                to = id;
            }
        }
    }
    if (best != NULL) {
        best->joining = to;
    }
}

/* ---- Maps ---- */

static void list_servers(gy_ps_lead *lead, gy_ps_map *map)
{
    map->server_count = 0;
    for (uint32_t i = 0; i < lead->server_count; i++) {
        const gy_ps_lead_server *from = &lead->servers[i];
        if (from->is_dead && load_of(map, from->id) == 0) {
            continue;
        }
        gy_ps_map_server *to = &map->servers[map->server_count++];
        *to = (gy_ps_map_server){.id = from->id, .is_draining = from->is_draining};
        memcpy(to->address, from->address, sizeof(to->address));
    }
}

/* Chains are born once there are enough servers for them. */
static void bear(gy_ps_lead *lead, gy_ps_map *map)
{
    if (map->server_count < map->replicas) {
        return;
    }
    GY_ASSERT(map->replicas > 0 && map->server_count > 0);
    for (uint32_t part = 0; part < lead->options.parts; part++) {
        gy_ps_map_chain *chain = &map->chains[part];
        *chain = (gy_ps_map_chain){.epoch = 0};
        for (uint32_t i = 0; i < map->replicas; i++) {
            uint64_t id = choose(lead, map, chain);
            GY_ASSERT(id != 0);
            chain->members[chain->count++] = id;
        }
        GY_ASSERT(chain->count > 0 && map->server_count > 0);
        /* heads are spread, too */
        uint32_t turn = part / map->server_count % chain->count;
        uint64_t first = chain->members[0];
        chain->members[0] = chain->members[turn];
        chain->members[turn] = first;
        map->chain_count = part + 1;
    }
}

/* Chains that have changed have the map's epoch. True: something has. */
static bool number_map(const gy_ps_map *before, gy_ps_map *map)
{
    bool has_changed =
        before->server_count != map->server_count || before->saved_number != map->saved_number;
    for (uint32_t i = 0; i < map->server_count && !has_changed; i++) {
        const gy_ps_map_server *old = &before->servers[i], *server = &map->servers[i];
        has_changed = old->id != server->id || old->is_draining != server->is_draining ||
                      strcmp(old->address, server->address) != 0;
    }
    for (uint32_t i = 0; i < map->chain_count; i++) {
        const gy_ps_map_chain *old = &before->chains[i];
        gy_ps_map_chain *chain = &map->chains[i];
        bool is_same = i < before->chain_count && old->count == chain->count &&
                       old->joining == chain->joining && old->is_away == chain->is_away &&
                       old->is_lost == chain->is_lost && old->born == chain->born &&
                       memcmp(old->members, chain->members, sizeof(chain->members)) == 0;
        if (!is_same) {
            chain->epoch = before->epoch + 1;
            has_changed = true;
        }
    }
    map->epoch = before->epoch + 1;
    return has_changed;
}

/* Is a part without a replica, or is there no map yet, and servers with snapshots have come or
 * may still come? */
static bool must_resume(const gy_ps_lead *lead, const gy_ps_map *map)
{
    bool has_offer = false, is_young = lead->server_count == 0;
    for (uint32_t i = 0; i < lead->server_count; i++) {
        has_offer = has_offer || lead->servers[i].offer_count > 0;
        is_young =
            is_young || lead->stepped_ns - lead->servers[i].came_ns <= lead->options.dead_ns;
    }
    bool is_away = false;
    for (uint32_t part = 0; part < map->chain_count; part++) {
        is_away = is_away || map->chains[part].is_away;
    }
    return lead->options.resumes &&
           (is_away || (map->chain_count == 0 && (has_offer || (map->epoch == 0 && is_young))));
}

static bool plan(gy_ps_lead *lead, gy_ps_map *map)
{
    *map = lead->map;
    list_servers(lead, map);
    gy_ps_lead_tell_saved(lead, map);
    for (uint32_t part = 0; part < map->chain_count; part++) {
        gy_ps_map_chain *chain = &map->chains[part];
        drop_dead(lead, chain);
        take_caught(lead, map, part, chain);
    }
    bool is_to_resume = must_resume(lead, map);
    lead->waits_ns = is_to_resume ? lead->waits_ns : 0;
    bool is_waiting = is_to_resume && !gy_ps_lead_resume(lead, map);
    if (is_waiting && map->chain_count == 0) {
        return false; /* servers take the cluster of their first map for theirs */
    }
    for (uint32_t part = 0; part < map->chain_count; part++) {
        gy_ps_map_chain *chain = &map->chains[part];
        bool is_short = chain->count < map->replicas || has_draining(lead, chain);
        if (is_short && chain->joining == 0 && !chain->is_away) {
            chain->joining = choose(lead, map, chain);
        }
    }
    if (map->chain_count == 0) {
        bear(lead, map);
    } else {
        balance(lead, map);
    }
    list_servers(lead, map);
    return number_map(&lead->map, map);
}

/* Silence of a server that has reached this lead says that it is dead. One that has not may
 * only wait to dial again, since the lead was away. */
static bool is_silent(const gy_ps_lead *lead, const gy_ps_lead_server *server, int64_t now_ns)
{
    const int64_t dial_ns = server->is_heard ? 0 : GY_PS_REDIAL_NS;
    GY_ASSERT(server->heard_ns <= now_ns);
    return now_ns - server->heard_ns > lead->options.dead_ns + dial_ns;
}

bool gy_ps_lead_step(gy_ps_lead *lead, int64_t now_ns)
{
    bool was_paused = now_ns - lead->stepped_ns > lead->options.dead_ns / 2;
    lead->stepped_ns = now_ns;
    for (uint32_t i = 0; i < lead->server_count; i++) {
        gy_ps_lead_server *server = &lead->servers[i];
        if (was_paused) { /* it was this lead that did not listen, and what it hears is old */
            server->heard_ns = now_ns;
            server->is_heard = false;
            server->died_ns = server->is_dead ? now_ns : server->died_ns;
        }
        if (!server->is_dead && is_silent(lead, server, now_ns)) {
            server->is_dead = true;
            server->died_ns = now_ns;
            gy_warn("server %s (%llx) is silent: its parts are served by others",
                    server->address, (unsigned long long)server->id);
        }
    }
    if (lead->is_storing) {
        return false;
    }
    lead->is_storing = plan(lead, &lead->next);
    return lead->is_storing;
}

void gy_ps_lead_stored(gy_ps_lead *lead, bool is_stored)
{
    GY_ASSERT(lead->is_storing);
    lead->is_storing = false;
    if (is_stored) {
        GY_ASSERT(lead->next.epoch > lead->map.epoch);
        lead->map = lead->next;
    }
}
