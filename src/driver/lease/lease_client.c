/* Daemons that the manager finds, attaches to and loses, and its slots, which are leases on
 * them. */
#include "driver/lease/lease_client.h"

#include <stdio.h>
#include <string.h>

#include "control/net/net.h"
#include "driver/lease/plant.h"

#ifdef GYRE_PLANTED
gy_lease_client_plant gy_lease_client_planted;
#endif

static const int64_t default_dead_ns = 2000000000;
static const int64_t beat_every_ns = 1000000000;
static const int64_t watch_every_ns = 1000000000;

/* ---- life ---- */

gy_status gy_lease_client_open(gy_lease_client *client)
{
    client->dead_ns = client->dead_ns > 0 ? client->dead_ns : default_dead_ns;
    client->unwanted = GY_NONE;
    client->executors =
        gy_alloc_zero("driver.lease_client", client->slot_count, sizeof(lease_executor));
    return client->executors != NULL ? GY_OK : GY_NOMEM;
}

int64_t gy_lease_client_watch_ns(const gy_lease_client *client)
{
    if (GY_LEASE_CLIENT_PLANTED(NEVER_WATCHED)) {
        return INT64_MAX;
    }
    return client->lease_ns > 0 ? GY_MIN(watch_every_ns, client->lease_ns / 16)
                                : watch_every_ns;
}

/* The next number; GY_NONE: no memory, or too many. */
static uint32_t add_host(gy_lease_client *client, uint64_t daemon, uint64_t incarnation)
{
    gy_status status = GY_GROW("driver.lease_client", client->hosts, client->host_room,
                               client->host_count + 1);
    if (status < 0 || client->host_count == LEASE_CLIENT_HOSTS_MAX) {
        return GY_NONE;
    }
    client->hosts[client->host_count] = (lease_host){.daemon = daemon,
                                                     .incarnation = incarnation,
                                                     .first_need = GY_NONE,
                                                     .last_need = GY_NONE};
    return (uint32_t)client->host_count++;
}

gy_status gy_lease_client_begin(gy_lease_client *client)
{
    gy_host_state state;
    const uint32_t count = gy_manager_host_count(client->manager);
    for (uint32_t i = 0; i < count; i++) {
        /* A number given to a daemon that never answered is in no journal. */
        const bool is_known = gy_manager_host(client->manager, i, &state);
        if (GY_LEASE_CLIENT_PLANTED(GAP_ENDS) && !is_known) {
            return GY_OK;
        }
        const uint32_t number =
            is_known ? gy_lease_client_host_get(client, state.id.high, state.id.low,
                                                state.address, state.name)
                     : add_host(client, 0, 0);
        if (number == GY_NONE) {
            return GY_NOMEM;
        }
        GY_ASSERT(number == i);
        client->hosts[i].is_expected = is_known && state.is_expected;
        if (client->hosts[i].is_expected && !GY_LEASE_CLIENT_PLANTED(EXPECTED_DROPPED)) {
            gy_lease_client_host_dial(client, i);
        }
    }
    return GY_OK;
}

void gy_lease_client_close(gy_lease_client *client)
{
    gy_index_free(&client->by_lease);
    void *arrays[] = {client->hosts, client->executors, client->returns, client->avoids};
    for (size_t i = 0; i < GY_COUNT(arrays); i++) {
        gy_free(arrays[i]);
    }
    client->hosts = NULL;
    client->executors = NULL;
    client->returns = NULL;
    client->avoids = NULL;
    client->host_count = client->return_count = client->avoid_count = 0;
}

/* ---- hosts ---- */

uint32_t gy_lease_client_host_get(gy_lease_client *client, uint64_t daemon,
                                  uint64_t incarnation, const char *address, const char *name)
{
    uint32_t number = 0;
    while (number < client->host_count && (client->hosts[number].daemon != daemon ||
                                           client->hosts[number].incarnation != incarnation)) {
        number++;
    }
    for (uint32_t i = 0; i < client->host_count && GY_LEASE_CLIENT_PLANTED(NUMBER_REUSED);
         i++) {
        if (client->hosts[i].state == HOST_GONE && number == client->host_count) {
            number = i;
            client->hosts[i].daemon = daemon;
            client->hosts[i].incarnation = incarnation;
        }
    }
    if (number == client->host_count) {
        number = add_host(client, daemon, incarnation);
        if (number == GY_NONE) {
            return GY_NONE;
        }
    }
    lease_host *host = &client->hosts[number];
    if (host->state == HOST_GONE) {
        (void)snprintf(host->address, sizeof(host->address), "%s",
                       address != NULL ? address : "");
        gy_net_clean_text(name != NULL ? name : "", host->name, sizeof(host->name));
    }
    return number;
}

void gy_lease_client_host_dial(gy_lease_client *client, uint32_t number)
{
    lease_host *host = &client->hosts[number];
    if (host->state != HOST_GONE) {
        return;
    }
    host->state = HOST_AWAY;
    host->away_ns = gy_now_ns(client->env);
    (void)snprintf(host->why, sizeof(host->why), "no answer at %s", host->address);
    if (client->ops->dial(client->arg, number) < 0) { /* the next check finds it lost */
        host->away_ns -= client->dead_ns;
        (void)snprintf(host->why, sizeof(host->why), "%.200s", gy_error_text());
    }
}

void gy_lease_client_host_lost(gy_lease_client *client, uint32_t number, const char *reason)
{
    lease_host *host = &client->hosts[number];
    const bool is_told = host->is_up || host->is_expected;
    char why[LEASE_CLIENT_WHY_BYTES];
    gy_net_clean_text(reason, why, sizeof(why));
    client->ops->hang_up(client->arg, number);
    host->state = HOST_GONE;
    host->is_up = host->is_expected = false;
    /* The machine must hear of all its slots in one go. */
    for (uint32_t i = 0; i < client->slot_count && !client->ops->has_ended(client->arg); i++) {
        lease_executor *executor = &client->executors[i];
        if (executor->lease != 0 && executor->host == number) {
            const bool was_open = executor->is_open;
            executor->is_open = executor->is_open && !is_told;
            client->open_count -= was_open && !executor->is_open;
            gy_lease_client_executor_close(client, i, why, LEASE_CLIENT_BACK);
        }
    }
    if (is_told && !GY_LEASE_CLIENT_PLANTED(LOST_UNTOLD)) {
        client->ops->step(
            client->arg,
            &(gy_sched_event){.kind = GY_EVENT_HOST_LOST, .host = number, .reason = why});
    }
    client->ops->begin_anew(client->arg, number);
}

/* ---- attaching ---- */

static void open_slot(gy_lease_client *client, uint32_t slot)
{
    lease_executor *executor = &client->executors[slot];
    executor->is_open = true;
    client->open_count++;
    client->ops->step(client->arg,
                      &(gy_sched_event){.kind = GY_EVENT_SLOT_OPEN,
                                        .process = slot,
                                        .host = executor->host,
                                        .lease_ns = client->lease_ns,
                                        .is_last = client->hosts[executor->host].is_last});
}

static void host_is_here(gy_lease_client *client, uint32_t number)
{
    lease_host *host = &client->hosts[number];
    host->state = HOST_HERE;
    host->is_expected = false;
    if (!host->is_up) {
        host->is_up = true;
        client->ops->step(client->arg,
                          &(gy_sched_event){.kind = GY_EVENT_HOST_UP,
                                            .host = number,
                                            .host_id = {host->daemon, host->incarnation},
                                            .address = host->address,
                                            .name = host->name});
    }
    for (uint32_t i = 0; i < client->slot_count && !client->ops->has_ended(client->arg); i++) {
        const lease_executor *executor = &client->executors[i];
        if (executor->lease != 0 && executor->host == number && !executor->is_open) {
            open_slot(client, i);
        }
    }
    client->ops->go_on(client->arg, number);
}

void gy_lease_client_attached(gy_lease_client *client, uint32_t host, gy_status status,
                              uint64_t incarnation, const char *why)
{
    if (client->ops->has_ended(client->arg) || client->hosts[host].state != HOST_ATTACHING) {
        return; /* it concerns an earlier connection */
    }
    if (status < 0) {
        gy_lease_client_host_lost(client, host, why);
    } else if (incarnation != client->hosts[host].incarnation &&
               !GY_LEASE_CLIENT_PLANTED(FOLDER_IGNORED)) {
        gy_lease_client_host_lost(client, host,
                                  "its daemon has another work folder: its files are lost");
    } else {
        host_is_here(client, host);
    }
}

void gy_lease_client_host_up(gy_lease_client *client, uint32_t host)
{
    client->hosts[host].state = HOST_ATTACHING;
    client->ops->attach(client->arg, host);
}

void gy_lease_client_host_down(gy_lease_client *client, uint32_t number, const char *why)
{
    lease_host *host = &client->hosts[number];
    (void)snprintf(host->why, sizeof(host->why), "%.200s", why);
    host->state = HOST_AWAY;
    host->away_ns = gy_now_ns(client->env);
}

void gy_lease_client_host_is_dead(gy_lease_client *client, uint64_t daemon,
                                  uint64_t incarnation)
{
    const int64_t since_ns = gy_now_ns(client->env) - client->dead_ns / 8 * 7;
    for (uint32_t i = 0; i < client->host_count; i++) {
        lease_host *host = &client->hosts[i];
        if (host->daemon == daemon && host->incarnation == incarnation &&
            host->state == HOST_AWAY && !host->is_up) {
            host->away_ns = GY_MIN(host->away_ns, since_ns);
        }
    }
}

void gy_lease_client_host_anew(gy_lease_client *client, uint32_t host)
{
    if (!GY_LEASE_CLIENT_PLANTED(ANEW_KEPT)) {
        gy_lease_client_executors_close(client, host, "its daemon was restarted",
                                        LEASE_CLIENT_BACK | LEASE_CLIENT_IS_DOWN);
    }
    client->ops->begin_anew(client->arg, host);
}

void gy_lease_client_check_hosts(gy_lease_client *client, int64_t now_ns)
{
    const bool is_beat = now_ns - client->beat_ns >= GY_MIN(beat_every_ns, client->dead_ns / 2);
    client->beat_ns = is_beat ? now_ns : client->beat_ns;
    for (uint32_t i = 0; i < client->host_count && !client->ops->has_ended(client->arg); i++) {
        const lease_host *host = &client->hosts[i];
        /* A daemon that was up had already been silent before its connection broke. */
        const int64_t ns_max = host->is_up ? client->dead_ns / 2 : client->dead_ns;
        if (host->state == HOST_HERE && is_beat) {
            client->ops->beat(client->arg, i);
        } else if ((host->state == HOST_AWAY && now_ns - host->away_ns >= ns_max) ||
                   (host->state == HOST_ATTACHING &&
                    now_ns - host->away_ns >= ns_max + client->dead_ns)) {
            char why[300];
            (void)snprintf(why, sizeof(why), "its daemon is lost: %s", host->why);
            gy_lease_client_host_lost(client, i, why);
        }
    }
}

/* ---- leases ---- */

uint32_t gy_lease_client_executor_of(const gy_lease_client *client, uint64_t lease)
{
    return gy_index_find(&client->by_lease, gy_index_id(lease));
}

uint32_t gy_lease_client_slot_at(const gy_lease_client *client, uint32_t host, uint32_t epoch,
                                 uint64_t lease)
{
    if (client->ops->has_ended(client->arg) || epoch != client->epoch || host == GY_NONE) {
        return GY_NONE;
    }
    const uint32_t slot = gy_lease_client_executor_of(client, lease);
    return slot != GY_NONE && client->executors[slot].host == host ? slot : GY_NONE;
}

bool gy_lease_client_executor_take(gy_lease_client *client, const gy_allocation *allocation,
                                   uint32_t host)
{
    uint32_t slot = 0;
    while (slot < client->slot_count && client->executors[slot].lease != 0) {
        slot++;
    }
    if (slot == client->slot_count) {
        return false;
    }
    if (gy_index_put(&client->by_lease, gy_index_id(allocation->lease), slot) < 0) {
        client->ops->fail(client->arg, GY_NOMEM);
        return false;
    }
    client->executors[slot] =
        (lease_executor){.lease = allocation->lease, .host = host, .gang = allocation->gang};
    if (client->hosts[host].state == HOST_GONE) {
        gy_lease_client_host_dial(client, host);
    } else if (client->hosts[host].state == HOST_HERE ||
               GY_LEASE_CLIENT_PLANTED(OPENED_EARLY)) {
        open_slot(client, slot);
    }
    return true;
}

void gy_lease_client_executor_close(gy_lease_client *client, uint32_t slot, const char *reason,
                                    int flags)
{
    const lease_executor executor = client->executors[slot];
    if (executor.lease == 0) {
        return;
    }
    if ((flags & LEASE_CLIENT_BACK) != 0) {
        gy_lease_client_release(client, executor.lease, false, reason);
    }
    gy_index_remove(&client->by_lease, gy_index_id(executor.lease));
    const uint32_t generation = client->ops->process(client->arg, slot);
    if (generation != 0 && !GY_LEASE_CLIENT_PLANTED(PROCESS_KEPT)) {
        client->ops->forget(client->arg, slot);
    }
    client->executors[slot] = (lease_executor){0};
    if (!executor.is_open || GY_LEASE_CLIENT_PLANTED(CLOSED_UNTOLD)) {
        return;
    }
    client->open_count--;
    if (generation != 0 && (flags & LEASE_CLIENT_IS_DOWN) != 0) {
        client->ops->step(client->arg, &(gy_sched_event){.kind = GY_EVENT_PROCESS_DOWN,
                                                         .cause = GY_CAUSE_CANCELLED,
                                                         .process = slot,
                                                         .generation = generation,
                                                         .reason = reason});
    }
    client->ops->step(
        client->arg,
        &(gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = slot, .reason = reason});
}

void gy_lease_client_executors_close(gy_lease_client *client, uint32_t host, const char *reason,
                                     int flags)
{
    for (uint32_t i = 0; i < client->slot_count && !client->ops->has_ended(client->arg); i++) {
        if (client->executors[i].lease != 0 && client->executors[i].host == host) {
            gy_lease_client_executor_close(client, i, reason, flags);
        }
    }
}

/* ---- processes ---- */

gy_status gy_lease_client_spawn(gy_lease_client *client, uint32_t slot, uint32_t generation)
{
    lease_executor *executor = &client->executors[slot];
    if (executor->lease == 0) {
        return gy_fail(GY_PEER, "the lease of slot %u has expired", slot);
    }
    executor->generation = generation;
    executor->running = 0;
    executor->owed = 0;
    executor->is_kill_due = false;
    return GY_OK;
}

void gy_lease_client_not_opened(gy_lease_client *client, uint64_t lease, uint32_t generation,
                                const char *why)
{
    const uint32_t slot = gy_lease_client_executor_of(client, lease);
    if (slot != GY_NONE && client->executors[slot].generation == generation) {
        gy_lease_client_executor_close(client, slot, why, LEASE_CLIENT_BACK);
    }
}

void gy_lease_client_forget(gy_lease_client *client, uint32_t slot, uint32_t generation)
{
    lease_executor *executor = &client->executors[slot];
    if (executor->generation == generation) {
        executor->generation = 0;
        executor->running = 0;
        executor->is_open_due = executor->is_kill_due = false;
    }
}

void gy_lease_client_process_ended(gy_lease_client *client, uint32_t number, bool was_ready,
                                   const char *why)
{
    lease_host *host = &client->hosts[number];
    host->deaths = was_ready ? 0 : host->deaths + 1;
    if (host->deaths == LEASE_CLIENT_DEATHS_MAX) {
        gy_lease_client_avoid(client, number, why);
    }
}
