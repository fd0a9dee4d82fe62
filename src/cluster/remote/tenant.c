/* Hosts found, attached to, lost; and the slots that stand on leases there. */
#include "cluster/remote/tenant.h"

#include <stdio.h>
#include <string.h>

#include "cluster/net/net.h"
#include "cluster/remote/plant_priv.h"

#ifdef GYRE_PLANTED
gy_tenant_plant gy_tenant_planted;
#endif

static const int64_t default_dead_ns = 2000000000;
static const int64_t beat_every_ns = 1000000000;
static const int64_t watch_every_ns = 1000000000;

/* ---- life ---- */

gy_status gy_tenant_open(gy_tenant *tenant)
{
    tenant->dead_ns = tenant->dead_ns > 0 ? tenant->dead_ns : default_dead_ns;
    tenant->unwanted = GY_NONE;
    tenant->seats = gy_alloc_zero("cluster.tenant", tenant->slot_count, sizeof(tenant_seat));
    return tenant->seats != NULL ? GY_OK : GY_NOMEM;
}

int64_t gy_tenant_watch_ns(const gy_tenant *tenant)
{
    if (GY_TENANT_PLANTED(NEVER_WATCHED)) {
        return INT64_MAX;
    }
    return tenant->lease_ns > 0 ? GY_MIN(watch_every_ns, tenant->lease_ns / 16)
                                : watch_every_ns;
}

/* The next number; GY_NONE: no memory, or too many. */
static uint32_t add_host(gy_tenant *tenant, uint64_t daemon, uint64_t incarnation)
{
    gy_status status =
        GY_GROW("cluster.tenant", tenant->hosts, tenant->host_room, tenant->host_count + 1);
    if (status < 0 || tenant->host_count == TENANT_HOSTS_MAX) {
        return GY_NONE;
    }
    tenant->hosts[tenant->host_count] = (tenant_host){.daemon = daemon,
                                                      .incarnation = incarnation,
                                                      .first_need = GY_NONE,
                                                      .last_need = GY_NONE};
    return (uint32_t)tenant->host_count++;
}

gy_status gy_tenant_begin(gy_tenant *tenant)
{
    gy_host_state state;
    const uint32_t count = gy_manager_host_count(tenant->manager);
    for (uint32_t i = 0; i < count; i++) {
        /* A number that was given to a daemon which never answered is in no journal. */
        const bool is_known = gy_manager_host(tenant->manager, i, &state);
        if (GY_TENANT_PLANTED(GAP_ENDS) && !is_known) {
            return GY_OK;
        }
        const uint32_t number = is_known
                                    ? gy_tenant_host_get(tenant, state.id.high, state.id.low,
                                                         state.address, state.name)
                                    : add_host(tenant, 0, 0);
        if (number == GY_NONE) {
            return GY_NOMEM;
        }
        GY_ASSERT(number == i);
        tenant->hosts[i].is_expected = is_known && state.is_expected;
        if (tenant->hosts[i].is_expected && !GY_TENANT_PLANTED(EXPECTED_DROPPED)) {
            gy_tenant_host_dial(tenant, i);
        }
    }
    return GY_OK;
}

void gy_tenant_close(gy_tenant *tenant)
{
    gy_index_free(&tenant->by_lease);
    void *arrays[] = {tenant->hosts, tenant->seats, tenant->returns, tenant->avoids};
    for (size_t i = 0; i < GY_COUNT(arrays); i++) {
        gy_free(arrays[i]);
    }
    tenant->hosts = NULL;
    tenant->seats = NULL;
    tenant->returns = NULL;
    tenant->avoids = NULL;
    tenant->host_count = tenant->return_count = tenant->avoid_count = 0;
}

/* ---- hosts ---- */

uint32_t gy_tenant_host_get(gy_tenant *tenant, uint64_t daemon, uint64_t incarnation,
                            const char *address, const char *name)
{
    uint32_t number = 0;
    while (number < tenant->host_count && (tenant->hosts[number].daemon != daemon ||
                                           tenant->hosts[number].incarnation != incarnation)) {
        number++;
    }
    for (uint32_t i = 0; i < tenant->host_count && GY_TENANT_PLANTED(NUMBER_REUSED); i++) {
        if (tenant->hosts[i].state == HOST_GONE && number == tenant->host_count) {
            number = i;
            tenant->hosts[i].daemon = daemon;
            tenant->hosts[i].incarnation = incarnation;
        }
    }
    if (number == tenant->host_count) {
        number = add_host(tenant, daemon, incarnation);
        if (number == GY_NONE) {
            return GY_NONE;
        }
    }
    tenant_host *host = &tenant->hosts[number];
    if (host->state == HOST_GONE) {
        (void)snprintf(host->address, sizeof(host->address), "%s",
                       address != NULL ? address : "");
        gy_net_clean_text(name != NULL ? name : "", host->name, sizeof(host->name));
    }
    return number;
}

void gy_tenant_host_dial(gy_tenant *tenant, uint32_t number)
{
    tenant_host *host = &tenant->hosts[number];
    if (host->state != HOST_GONE) {
        return;
    }
    host->state = HOST_AWAY;
    host->away_ns = gy_now_ns(tenant->env);
    (void)snprintf(host->why, sizeof(host->why), "nobody answers at %s", host->address);
    if (tenant->ops->dial(tenant->arg, number) < 0) { /* it is lost at the next look */
        host->away_ns -= tenant->dead_ns;
        (void)snprintf(host->why, sizeof(host->why), "%.200s", gy_error_text());
    }
}

void gy_tenant_host_lost(gy_tenant *tenant, uint32_t number, const char *reason)
{
    tenant_host *host = &tenant->hosts[number];
    const bool is_told = host->is_up || host->is_expected;
    char why[TENANT_WHY_BYTES];
    gy_net_clean_text(reason, why, sizeof(why));
    tenant->ops->hang_up(tenant->arg, number);
    host->state = HOST_GONE;
    host->is_up = host->is_expected = false;
    /* The machine hears of all its slots at once. */
    for (uint32_t i = 0; i < tenant->slot_count && !tenant->ops->has_ended(tenant->arg); i++) {
        tenant_seat *seat = &tenant->seats[i];
        if (seat->lease != 0 && seat->host == number) {
            const bool was_open = seat->is_open;
            seat->is_open = seat->is_open && !is_told;
            tenant->open_count -= was_open && !seat->is_open;
            gy_tenant_seat_close(tenant, i, why, TENANT_BACK);
        }
    }
    if (is_told && !GY_TENANT_PLANTED(LOST_UNTOLD)) {
        tenant->ops->step(
            tenant->arg,
            &(gy_sched_event){.kind = GY_EVENT_HOST_LOST, .host = number, .reason = why});
    }
    tenant->ops->begin_anew(tenant->arg, number);
}

/* ---- attaching ---- */

static void open_slot(gy_tenant *tenant, uint32_t slot)
{
    tenant_seat *seat = &tenant->seats[slot];
    seat->is_open = true;
    tenant->open_count++;
    tenant->ops->step(tenant->arg,
                      &(gy_sched_event){.kind = GY_EVENT_SLOT_OPEN,
                                        .process = slot,
                                        .host = seat->host,
                                        .lease_ns = tenant->lease_ns,
                                        .is_last = tenant->hosts[seat->host].is_last});
}

static void host_is_here(gy_tenant *tenant, uint32_t number)
{
    tenant_host *host = &tenant->hosts[number];
    host->state = HOST_HERE;
    host->is_expected = false;
    if (!host->is_up) {
        host->is_up = true;
        tenant->ops->step(tenant->arg,
                          &(gy_sched_event){.kind = GY_EVENT_HOST_UP,
                                            .host = number,
                                            .host_id = {host->daemon, host->incarnation},
                                            .address = host->address,
                                            .name = host->name});
    }
    for (uint32_t i = 0; i < tenant->slot_count && !tenant->ops->has_ended(tenant->arg); i++) {
        const tenant_seat *seat = &tenant->seats[i];
        if (seat->lease != 0 && seat->host == number && !seat->is_open) {
            open_slot(tenant, i);
        }
    }
    tenant->ops->go_on(tenant->arg, number);
}

void gy_tenant_attached(gy_tenant *tenant, uint32_t host, gy_status status,
                        uint64_t incarnation, const char *why)
{
    if (tenant->ops->has_ended(tenant->arg) || tenant->hosts[host].state != HOST_ATTACHING) {
        return; /* it is about another connection */
    }
    if (status < 0) {
        gy_tenant_host_lost(tenant, host, why);
    } else if (incarnation != tenant->hosts[host].incarnation &&
               !GY_TENANT_PLANTED(FOLDER_IGNORED)) {
        gy_tenant_host_lost(tenant, host, "its folder is another one: its files are gone");
    } else {
        host_is_here(tenant, host);
    }
}

void gy_tenant_host_up(gy_tenant *tenant, uint32_t host)
{
    tenant->hosts[host].state = HOST_ATTACHING;
    tenant->ops->attach(tenant->arg, host);
}

void gy_tenant_host_down(gy_tenant *tenant, uint32_t number, const char *why)
{
    tenant_host *host = &tenant->hosts[number];
    (void)snprintf(host->why, sizeof(host->why), "%.200s", why);
    host->state = HOST_AWAY;
    host->away_ns = gy_now_ns(tenant->env);
}

void gy_tenant_host_is_dead(gy_tenant *tenant, uint64_t daemon, uint64_t incarnation)
{
    const int64_t since_ns = gy_now_ns(tenant->env) - tenant->dead_ns / 8 * 7;
    for (uint32_t i = 0; i < tenant->host_count; i++) {
        tenant_host *host = &tenant->hosts[i];
        if (host->daemon == daemon && host->incarnation == incarnation &&
            host->state == HOST_AWAY && !host->is_up) {
            host->away_ns = GY_MIN(host->away_ns, since_ns);
        }
    }
}

void gy_tenant_host_anew(gy_tenant *tenant, uint32_t host)
{
    if (!GY_TENANT_PLANTED(ANEW_KEPT)) {
        gy_tenant_seats_close(tenant, host, "its daemon was started anew",
                              TENANT_BACK | TENANT_IS_DOWN);
    }
    tenant->ops->begin_anew(tenant->arg, host);
}

void gy_tenant_look_after(gy_tenant *tenant, int64_t now_ns)
{
    const bool is_beat = now_ns - tenant->beat_ns >= GY_MIN(beat_every_ns, tenant->dead_ns / 2);
    tenant->beat_ns = is_beat ? now_ns : tenant->beat_ns;
    for (uint32_t i = 0; i < tenant->host_count && !tenant->ops->has_ended(tenant->arg); i++) {
        const tenant_host *host = &tenant->hosts[i];
        /* One that was up was silent before its connection was given up. */
        const int64_t most_ns = host->is_up ? tenant->dead_ns / 2 : tenant->dead_ns;
        if (host->state == HOST_HERE && is_beat) {
            tenant->ops->beat(tenant->arg, i);
        } else if ((host->state == HOST_AWAY && now_ns - host->away_ns >= most_ns) ||
                   (host->state == HOST_ATTACHING &&
                    now_ns - host->away_ns >= most_ns + tenant->dead_ns)) {
            char why[300];
            (void)snprintf(why, sizeof(why), "its daemon is gone: %s", host->why);
            gy_tenant_host_lost(tenant, i, why);
        }
    }
}

/* ---- leases ---- */

uint32_t gy_tenant_seat_of(const gy_tenant *tenant, uint64_t lease)
{
    return gy_index_find(&tenant->by_lease, gy_index_id(lease));
}

uint32_t gy_tenant_slot_at(const gy_tenant *tenant, uint32_t host, uint32_t epoch,
                           uint64_t lease)
{
    if (tenant->ops->has_ended(tenant->arg) || epoch != tenant->epoch || host == GY_NONE) {
        return GY_NONE;
    }
    const uint32_t slot = gy_tenant_seat_of(tenant, lease);
    return slot != GY_NONE && tenant->seats[slot].host == host ? slot : GY_NONE;
}

bool gy_tenant_seat_take(gy_tenant *tenant, const gy_grant *grant, uint32_t host)
{
    uint32_t slot = 0;
    while (slot < tenant->slot_count && tenant->seats[slot].lease != 0) {
        slot++;
    }
    if (slot == tenant->slot_count) {
        return false;
    }
    if (gy_index_put(&tenant->by_lease, gy_index_id(grant->lease), slot) < 0) {
        tenant->ops->fail(tenant->arg, GY_NOMEM);
        return false;
    }
    tenant->seats[slot] =
        (tenant_seat){.lease = grant->lease, .host = host, .gang = grant->gang};
    if (tenant->hosts[host].state == HOST_GONE) {
        gy_tenant_host_dial(tenant, host);
    } else if (tenant->hosts[host].state == HOST_HERE || GY_TENANT_PLANTED(OPENED_EARLY)) {
        open_slot(tenant, slot);
    }
    return true;
}

void gy_tenant_seat_close(gy_tenant *tenant, uint32_t slot, const char *reason, int flags)
{
    const tenant_seat seat = tenant->seats[slot];
    if (seat.lease == 0) {
        return;
    }
    if ((flags & TENANT_BACK) != 0) {
        gy_tenant_give_back(tenant, seat.lease, false, reason);
    }
    gy_index_remove(&tenant->by_lease, gy_index_id(seat.lease));
    const uint32_t generation = tenant->ops->process(tenant->arg, slot);
    if (generation != 0 && !GY_TENANT_PLANTED(PROCESS_KEPT)) {
        tenant->ops->forget(tenant->arg, slot);
    }
    tenant->seats[slot] = (tenant_seat){0};
    if (!seat.is_open || GY_TENANT_PLANTED(CLOSED_UNTOLD)) {
        return;
    }
    tenant->open_count--;
    if (generation != 0 && (flags & TENANT_IS_DOWN) != 0) {
        tenant->ops->step(tenant->arg, &(gy_sched_event){.kind = GY_EVENT_PROCESS_DOWN,
                                                         .cause = GY_CAUSE_CANCELLED,
                                                         .process = slot,
                                                         .generation = generation,
                                                         .reason = reason});
    }
    tenant->ops->step(
        tenant->arg,
        &(gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = slot, .reason = reason});
}

void gy_tenant_seats_close(gy_tenant *tenant, uint32_t host, const char *reason, int flags)
{
    for (uint32_t i = 0; i < tenant->slot_count && !tenant->ops->has_ended(tenant->arg); i++) {
        if (tenant->seats[i].lease != 0 && tenant->seats[i].host == host) {
            gy_tenant_seat_close(tenant, i, reason, flags);
        }
    }
}

/* ---- processes ---- */

gy_status gy_tenant_spawn(gy_tenant *tenant, uint32_t slot, uint32_t generation)
{
    tenant_seat *seat = &tenant->seats[slot];
    if (seat->lease == 0) {
        return gy_fail(GY_PEER, "the lease of slot %u is over", slot);
    }
    seat->generation = generation;
    seat->running = 0;
    seat->owed = 0;
    seat->is_kill_due = false;
    return GY_OK;
}

void gy_tenant_not_opened(gy_tenant *tenant, uint64_t lease, uint32_t generation,
                          const char *why)
{
    const uint32_t slot = gy_tenant_seat_of(tenant, lease);
    if (slot != GY_NONE && tenant->seats[slot].generation == generation) {
        gy_tenant_seat_close(tenant, slot, why, TENANT_BACK);
    }
}

void gy_tenant_forget(gy_tenant *tenant, uint32_t slot, uint32_t generation)
{
    tenant_seat *seat = &tenant->seats[slot];
    if (seat->generation == generation) {
        seat->generation = 0;
        seat->running = 0;
        seat->is_open_due = seat->is_kill_due = false;
    }
}

void gy_tenant_process_ended(gy_tenant *tenant, uint32_t number, bool was_ready,
                             const char *why)
{
    tenant_host *host = &tenant->hosts[number];
    host->deaths = was_ready ? 0 : host->deaths + 1;
    if (host->deaths == TENANT_DEATHS_MAX) {
        gy_tenant_avoid(tenant, number, why);
    }
}
