/* Snapshots that servers have: which is the newest whole one, and chains that begin from it. */
#include "ps/lead/lead.h"

#include "base/text.h"

#include <string.h>

static bool has_offers(const gy_ps_lead *lead)
{
    for (uint32_t i = 0; i < lead->server_count; i++) {
        if (lead->servers[i].offer_count > 0) {
            return true;
        }
    }
    return false;
}

gy_status gy_ps_lead_judge_offers(gy_ps_lead *lead, const gy_ps_lead_renewal *renewal)
{
    bool may_adopt = lead->map.epoch == 0 && !lead->is_storing && lead->options.resumes &&
                     !has_offers(lead); /* the first that comes says which cluster it is */
    for (size_t i = 0; i < renewal->offer_count; i++) {
        const gy_ps_lead_offer *offer = &renewal->offers[i];
        if (offer->id == 0 || offer->number == 0 || offer->parts == 0 ||
            offer->parts > GY_PS_MAP_PARTS_MAX) {
            return gy_fail(GY_FORMAT, "server %s has a snapshot of %u parts", renewal->address,
                           offer->parts);
        }
        if (may_adopt && offer->cluster != 0) { /* 0: of a server without a lead */
            lead->map.cluster = offer->cluster;
            may_adopt = false;
        }
        if (offer->cluster != lead->map.cluster) {
            return gy_fail(GY_MISMATCH,
                           "server %s has snapshot %s of cluster %llx: this lead is of %llx "
                           "(a lead with a new table and --resume takes it over)",
                           renewal->address, offer->name, (unsigned long long)offer->cluster,
                           (unsigned long long)lead->map.cluster);
        }
    }
    return GY_OK;
}

static uint64_t all_of(uint32_t parts)
{
    return parts == 64 ? UINT64_MAX : ((uint64_t)1 << parts) - 1;
}

/* Parts of a snapshot that servers have, all or those that are there. */
static uint64_t parts_of(const gy_ps_lead *lead, uint64_t id, bool is_alive)
{
    uint64_t has = 0;
    for (uint32_t i = 0; i < lead->server_count; i++) {
        const gy_ps_lead_server *server = &lead->servers[i];
        for (uint32_t k = 0; k < server->offer_count; k++) {
            const gy_ps_lead_offer *offer = &server->offers[k];
            has |= offer->id == id && !(is_alive && server->is_dead) ? offer->has : 0;
        }
    }
    return has;
}

/* The newest snapshot, of all or of whole ones; NULL: none. */
static const gy_ps_lead_offer *newest(const gy_ps_lead *lead, bool is_whole, bool is_alive)
{
    const gy_ps_lead_offer *best = NULL;
    for (uint32_t i = 0; i < lead->server_count; i++) {
        const gy_ps_lead_server *server = &lead->servers[i];
        for (uint32_t k = 0; k < server->offer_count && !(is_alive && server->is_dead); k++) {
            const gy_ps_lead_offer *offer = &server->offers[k];
            bool is_fit = !is_whole || (parts_of(lead, offer->id, is_alive) &
                                        all_of(offer->parts)) == all_of(offer->parts);
            best = is_fit && (best == NULL || offer->number > best->number) ? offer : best;
        }
    }
    return best;
}

void gy_ps_lead_tell_saved(const gy_ps_lead *lead, gy_ps_map *map)
{
    const gy_ps_lead_offer *saved = newest(lead, true, false);
    if (saved != NULL && saved->number > map->saved_number) {
        memcpy(map->saved, saved->name, sizeof(map->saved));
        map->saved_clock = saved->clock;
        map->saved_number = saved->number;
    }
}

/* The server that is there with the fewest parts of those that have this one. */
static uint64_t choose(const gy_ps_lead *lead, const gy_ps_map *map, uint64_t snapshot,
                       uint32_t part)
{
    uint64_t best = 0;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < lead->server_count; i++) {
        const gy_ps_lead_server *server = &lead->servers[i];
        uint64_t has = 0;
        uint32_t load = server->is_draining ? GY_PS_MAP_PARTS_MAX : 0;
        for (uint32_t k = 0; k < server->offer_count; k++) {
            has |= server->offers[k].id == snapshot ? server->offers[k].has : 0;
        }
        for (uint32_t k = 0; k < part; k++) {
            load += map->chains[k].members[0] == server->id;
        }
        if (!server->is_dead && (has >> part & 1) != 0 && load < least) {
            best = server->id;
            least = load;
        }
    }
    GY_ASSERT(best != 0);
    return best;
}

/* Servers come one after the other: those that have not come yet may have a newer one. */
static bool is_settled(gy_ps_lead *lead, const gy_ps_lead_offer *whole)
{
    const int64_t patience_ns = 5 * lead->options.dead_ns;
    const gy_ps_lead_offer *any = newest(lead, false, true);
    if (lead->waits_ns == 0) {
        lead->waits_ns = lead->stepped_ns;
        gy_warn("all parts are to begin again from a snapshot: waiting for servers that have a "
                "whole one");
    }
    return whole != NULL &&
           ((any->number == whole->number && whole->number >= lead->map.saved_number) ||
            lead->stepped_ns - lead->waits_ns > patience_ns);
}

bool gy_ps_lead_resume(gy_ps_lead *lead, gy_ps_map *map)
{
    const gy_ps_lead_offer *whole = newest(lead, true, true);
    if (!is_settled(lead, whole)) {
        return false;
    }
    lead->waits_ns = 0;
    map->chain_count = whole->parts;
    for (uint32_t part = 0; part < whole->parts; part++) {
        uint64_t id = choose(lead, map, whole->id, part);
        map->chains[part] = (gy_ps_map_chain){
            .members = {id}, .count = 1, .born = lead->map.epoch + 1, .snapshot = whole->id};
    }
    gy_warn("all parts begin again from snapshot %s, of clock %llu", whole->name,
            (unsigned long long)whole->clock);
    return true;
}
