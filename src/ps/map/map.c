/* Maps as values, as messages, and as bytes of a table. */
#include "ps/map/map.h"

#include "base/hash.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

const gy_ps_map_server *gy_ps_map_find(const gy_ps_map *map, uint64_t id)
{
    for (uint32_t i = 0; i < map->server_count; i++) {
        if (map->servers[i].id == id) {
            return &map->servers[i];
        }
    }
    return NULL;
}

uint32_t gy_ps_map_place(const gy_ps_map_chain *chain, uint64_t id)
{
    for (uint32_t i = 0; i < chain->count; i++) {
        if (chain->members[i] == id) {
            return i;
        }
    }
    return UINT32_MAX;
}

const char *gy_ps_map_head(const gy_ps_map *map, uint32_t part)
{
    GY_ASSERT(part < map->chain_count);
    const gy_ps_map_chain *chain = &map->chains[part];
    const gy_ps_map_server *head =
        chain->count > 0 ? gy_ps_map_find(map, chain->members[0]) : NULL;
    return head != NULL ? head->address : NULL;
}

/* ---- Checks ---- */

static gy_status check_chain(const gy_ps_map *map, uint32_t part)
{
    const gy_ps_map_chain *chain = &map->chains[part];
    if (chain->count == 0 || chain->epoch == 0 || chain->epoch > map->epoch) {
        return gy_fail(GY_FORMAT, "part %u has %u servers at epoch %llu of %llu", part,
                       chain->count, (unsigned long long)chain->epoch,
                       (unsigned long long)map->epoch);
    }
    for (uint32_t i = 0; i < chain->count; i++) {
        if (gy_ps_map_place(chain, chain->members[i]) != i ||
            gy_ps_map_find(map, chain->members[i]) == NULL) {
            return gy_fail(GY_FORMAT, "part %u: server %u of its chain is no server, or twice",
                           part, i);
        }
    }
    if (chain->born > chain->epoch || (chain->born == 0) != (chain->snapshot == 0)) {
        return gy_fail(GY_FORMAT, "part %u begins from snapshot %llx at epoch %llu of %llu",
                       part, (unsigned long long)chain->snapshot,
                       (unsigned long long)chain->born, (unsigned long long)chain->epoch);
    }
    if (chain->joining != 0 && (gy_ps_map_place(chain, chain->joining) != UINT32_MAX ||
                                gy_ps_map_find(map, chain->joining) == NULL)) {
        return gy_fail(GY_FORMAT, "part %u: who joins its chain is no server, or has joined",
                       part);
    }
    return GY_OK;
}

gy_status gy_ps_map_check(const gy_ps_map *map)
{
    bool is_whole = map->cluster != 0 && map->epoch > 0 && map->replicas > 0 &&
                    map->replicas <= GY_PS_REPLICAS_MAX && map->lease_ms > 0;
    if (!is_whole) {
        return gy_fail(GY_FORMAT, "a map of cluster %llx, epoch %llu, %u replicas, %u ms",
                       (unsigned long long)map->cluster, (unsigned long long)map->epoch,
                       map->replicas, map->lease_ms);
    }
    for (uint32_t i = 0; i < map->server_count; i++) {
        const gy_ps_map_server *one = &map->servers[i];
        if (one->id == 0 || gy_ps_map_find(map, one->id) != one || one->address[0] == '\0') {
            return gy_fail(GY_FORMAT, "server %u of a map has no name, or that of another", i);
        }
    }
    for (uint32_t part = 0; part < map->chain_count; part++) {
        GY_TRY(check_chain(map, part));
    }
    return GY_OK;
}

/* ---- Messages ---- */

void gy_ps_map_tell(const gy_ps_map *map, gy_ps_map_message *message)
{
    gy__ps__map__init(&message->map);
    for (uint32_t i = 0; i < map->server_count; i++) {
        const gy_ps_map_server *from = &map->servers[i];
        Gy__Ps__Server *to = &message->servers[i];
        gy__ps__server__init(to);
        to->id = from->id;
        to->address = (char *)(uintptr_t)from->address;
        to->is_draining = from->is_draining;
        message->server_list[i] = to;
    }
    for (uint32_t i = 0; i < map->chain_count; i++) {
        const gy_ps_map_chain *from = &map->chains[i];
        Gy__Ps__Chain *to = &message->chains[i];
        gy__ps__chain__init(to);
        to->epoch = from->epoch;
        to->n_members = from->count;
        to->members = (uint64_t *)(uintptr_t)from->members;
        to->joining = from->joining;
        to->is_away = from->is_away;
        to->is_lost = from->is_lost;
        to->born = from->born;
        to->snapshot = from->snapshot;
        message->chain_list[i] = to;
    }
    message->map.cluster = map->cluster;
    message->map.epoch = map->epoch;
    message->map.replicas = map->replicas;
    message->map.lease_ms = map->lease_ms;
    message->map.n_servers = map->server_count;
    message->map.servers = message->server_list;
    message->map.n_chains = map->chain_count;
    message->map.chains = message->chain_list;
    message->map.saved = (char *)(uintptr_t)map->saved;
    message->map.saved_clock = map->saved_clock;
    message->map.saved_number = map->saved_number;
}

static gy_status hear_chain(const Gy__Ps__Chain *from, gy_ps_map_chain *to)
{
    if (from->n_members > GY_PS_REPLICAS_MAX) {
        return gy_fail(GY_FORMAT, "a chain of %zu servers: expected at most %d",
                       from->n_members, GY_PS_REPLICAS_MAX);
    }
    *to = (gy_ps_map_chain){.epoch = from->epoch,
                            .count = (uint32_t)from->n_members,
                            .joining = from->joining,
                            .is_away = from->is_away,
                            .is_lost = from->is_lost,
                            .born = from->born,
                            .snapshot = from->snapshot};
    for (size_t i = 0; i < from->n_members; i++) {
        to->members[i] = from->members[i];
    }
    return GY_OK;
}

gy_status gy_ps_map_hear(const Gy__Ps__Map *message, gy_ps_map *map)
{
    gy_ps_map made = {.cluster = message->cluster,
                      .epoch = message->epoch,
                      .replicas = message->replicas,
                      .lease_ms = message->lease_ms,
                      .server_count = (uint32_t)message->n_servers,
                      .chain_count = (uint32_t)message->n_chains,
                      .saved_clock = message->saved_clock,
                      .saved_number = message->saved_number};
    if (message->n_servers > GY_PS_MAP_SERVERS_MAX || message->n_chains > GY_PS_MAP_PARTS_MAX) {
        return gy_fail(GY_FORMAT,
                       "a map of %zu servers and %zu parts: expected at most %d and "
                       "%d",
                       message->n_servers, message->n_chains, GY_PS_MAP_SERVERS_MAX,
                       GY_PS_MAP_PARTS_MAX);
    }
    for (size_t i = 0; i < message->n_servers; i++) {
        const Gy__Ps__Server *from = message->servers[i];
        gy_ps_map_server *to = &made.servers[i];
        to->id = from->id;
        to->is_draining = from->is_draining;
        if (strlen(from->address) >= sizeof(to->address)) {
            return gy_fail(GY_FORMAT, "a server's address of %zu bytes", strlen(from->address));
        }
        snprintf(to->address, sizeof(to->address), "%s", from->address);
    }
    for (size_t i = 0; i < message->n_chains; i++) {
        GY_TRY(hear_chain(message->chains[i], &made.chains[i]));
    }
    if (!gy_print_whole(made.saved, sizeof(made.saved), "%s", message->saved)) {
        return gy_fail(GY_FORMAT, "a snapshot's name of %zu bytes", strlen(message->saved));
    }
    GY_TRY(gy_ps_map_check(&made));
    *map = made;
    return GY_OK;
}

/* ---- Bytes ---- */

size_t gy_ps_map_pack(const gy_ps_map *map, uint8_t *out)
{
    gy_ps_map_message message;
    GY_ASSERT(gy_ps_map_check(map) == GY_OK);
    gy_ps_map_tell(map, &message);
    size_t size = gy__ps__map__get_packed_size(&message.map);
    GY_ASSERT(size + sizeof(uint64_t) <= GY_PS_MAP_BYTES);
    gy__ps__map__pack(&message.map, out + sizeof(uint64_t));
    uint64_t sum = gy_hash(out + sizeof(sum), size, 0);
    memcpy(out, &sum, sizeof(sum));
    return size + sizeof(sum);
}

gy_status gy_ps_map_unpack(const void *data, size_t size_bytes, gy_ps_map *map)
{
    const uint8_t *from = data;
    uint64_t sum = 0;
    if (size_bytes <= sizeof(sum)) {
        return gy_fail(GY_FORMAT, "a map of %zu bytes", size_bytes);
    }
    memcpy(&sum, from, sizeof(sum));
    from += sizeof(sum);
    size_bytes -= sizeof(sum);
    if (gy_hash(from, size_bytes, 0) != sum) {
        return gy_fail(GY_FORMAT, "a map whose checksum is wrong");
    }
    Gy__Ps__Map *message = gy__ps__map__unpack(NULL, size_bytes, from);
    if (message == NULL) {
        return gy_fail(GY_FORMAT, "a map that is none: another version of Gyre?");
    }
    gy_status status = gy_ps_map_hear(message, map);
    gy__ps__map__free_unpacked(message, NULL);
    return status;
}
