/* What the manager requests from the name server, receives and releases. */
#include "driver/lease/lease_client.h"

#include <stdio.h>
#include <string.h>

#include "control/net/net.h"
#include "driver/lease/plant.h"

static const int64_t request_every_ns = 400000000;
/* Minimum interval between two messages, however fast requests change. */
static const int64_t request_ns_min = 2000000;
static const int64_t ask_every_ns = 1000000000;
static const int64_t idle_after_ns = 1000000000;
/* After so long single slots are released for the gang. */
static const int64_t gang_after_ns = 300000000;
static const int64_t forget_after_ns = 30000000000;

/* With a short timeout for silence all intervals are shorter: they scale with dead_ns below its
 * default. */
static int64_t paced(const gy_lease_client *client, int64_t usual_ns)
{
    return GY_MIN(usual_ns, usual_ns / 100 * (client->dead_ns / 20000000));
}

static bool has_ended(const gy_lease_client *client)
{
    return client->ops->has_ended(client->arg);
}

/* ---- requests ---- */

/* Number of machine slots without a lease; *gangs: slots leased for gangs. */
static uint32_t count_free(const gy_lease_client *client, uint32_t *gangs)
{
    uint32_t free = 0;
    *gangs = 0;
    for (uint32_t i = 0; i < client->slot_count; i++) {
        const lease_executor *executor = &client->executors[i];
        free += executor->lease == 0;
        *gangs += executor->lease != 0 && executor->gang != 0;
    }
    return free;
}

/* How many slots' work runs in slots leased for gangs. */
static uint32_t count_served(const gy_lease_client *client)
{
    uint32_t tasks = 0;
    for (uint32_t i = 0; i < client->slot_count; i++) {
        const lease_executor *executor = &client->executors[i];
        tasks += executor->lease != 0 && executor->gang != 0 ? executor->running : 0;
    }
    return tasks / GY_MAX(client->threads, 1);
}

/* The number of single slots to request: more than free slots, or than work not served by a
 * gang, would only be allocated and released again. */
static uint32_t count_singles(const gy_lease_client *client)
{
    uint32_t gangs = 0;
    (void)count_free(client, &gangs);
    const uint32_t taken = GY_MIN(gangs + client->gang_width, client->slot_count);
    const uint32_t served = GY_MIN(count_served(client), client->wanted);
    return GY_MIN(client->wanted - served, client->slot_count - taken);
}

/* Is the slot idle? Leftovers of an older gang count like all others. */
static bool is_idle(const gy_lease_client *client, uint32_t slot)
{
    const lease_executor *executor = &client->executors[slot];
    return executor->is_open && executor->running == 0 &&
           (executor->gang == 0 || executor->gang != client->gang);
}

/* Release idle slots, host by host, until the gang has free slots in the machine and one host
 * has enough. */
static void make_room(gy_lease_client *client)
{
    uint32_t gangs = 0;
    uint32_t free = count_free(client, &gangs);
    for (uint32_t i = 0; i < client->slot_count && free < client->gang_width; i++) {
        const uint32_t host = client->executors[i].host;
        for (uint32_t k = i; is_idle(client, i) && k < client->slot_count; k++) {
            if (k != i && client->executors[k].host == host && is_idle(client, k)) {
                gy_lease_client_executor_close(client, k, "slots are needed together",
                                               LEASE_CLIENT_BACK);
                free++;
            }
        }
        if (is_idle(client, i)) {
            gy_lease_client_executor_close(client, i, "slots are needed together",
                                           LEASE_CLIENT_BACK);
            free++;
        }
    }
}

/* The gang request has waited long: this job's own idle slots may be what it waits for. */
static bool is_gang_straggler(const gy_lease_client *client, int64_t now_ns)
{
    return client->gang_width > 0 && now_ns - client->gang_ns >= paced(client, gang_after_ns);
}

static uint32_t count_busy(const gy_lease_client *client)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < client->slot_count; i++) {
        const lease_executor *executor = &client->executors[i];
        count += executor->lease != 0 && executor->gang == 0 && executor->running > 0;
    }
    return count;
}

static void report_requests(gy_lease_client *client)
{
    gy_manager_requests requests = {.job = client->job,
                                    .epoch = client->epoch,
                                    .sequence = ++client->sequence,
                                    .seen = client->seen,
                                    .address = "",
                                    .slots = is_gang_straggler(client, client->request_ns)
                                                 ? count_busy(client)
                                                 : count_singles(client)};
    gy_lease_client_where_request(client, &requests);
    for (size_t i = 0; i < client->host_count; i++) {
        const lease_host *host = &client->hosts[i];
        if (host->is_expected && !host->is_up &&
            requests.expected_count < GY_CONTROL_EXPECTED_MAX) {
            requests.expected[requests.expected_count++] =
                (gy_expected){host->daemon, host->incarnation};
        }
    }
    if (client->gang_width > 0) {
        requests.gangs[0] =
            (gy_gang_request){.number = client->gang,
                              .width = client->gang_width,
                              .is_one_host = client->gang_hosts <= 1,
                              .hosts = client->gang_hosts > 1 ? client->gang_hosts : 0,
                              .not_daemon = client->gang_not};
        requests.gang_count = 1;
    }
    client->ops->request(client->arg, &requests);
}

/* Are slots of an allocated gang still to come? */
static bool is_gang_coming(const gy_lease_client *client)
{
    bool is_coming = false;
    for (uint32_t i = 0; i < client->slot_count && !is_coming; i++) {
        const lease_executor *executor = &client->executors[i];
        is_coming = executor->lease != 0 && executor->gang == client->served &&
                    executor->gang != 0 && !executor->is_open;
    }
    return is_coming;
}

/* A cohort that fits on no host, or the backup task of a straggling one, needs slots together:
 * open a gang request with a new number. */
static void look_at_gang(gy_lease_client *client, uint32_t at_once, int64_t now_ns)
{
    const uint32_t hosts = gy_manager_wanted_hosts(client->manager);
    const uint64_t elsewhere = gy_manager_wanted_not_at(client->manager);
    if (at_once == 0 || is_gang_coming(client)) {
        client->gang_width = 0;
    } else if (client->gang_width != at_once || client->gang_hosts != hosts ||
               client->gang_not != elsewhere) {
        client->gang += !GY_LEASE_CLIENT_PLANTED(GANG_UNNUMBERED) || client->gang == 0;
        client->gang_hosts = hosts;
        client->gang_not = elsewhere;
        client->gang_width = at_once;
        client->gang_ns = now_ns;
    }
    client->wanted_at_once = at_once;
}

void gy_lease_client_request(gy_lease_client *client, int64_t now_ns)
{
    const uint32_t wanted = GY_MIN(gy_manager_wanted(client->manager), client->slot_count);
    const uint32_t at_once = gy_manager_wanted_at_once(client->manager);
    /* Acknowledge allocations soon, or the name server repeats all of them. */
    const bool is_new = wanted != client->wanted || at_once != client->wanted_at_once ||
                        client->seen != client->output_seen;
    const int64_t since_ns = now_ns - client->request_ns;
    if (since_ns < paced(client, request_every_ns) && (!is_new || since_ns < request_ns_min)) {
        return;
    }
    look_at_gang(client, at_once, now_ns);
    make_room(client);
    client->wanted = GY_LEASE_CLIENT_PLANTED(REQUESTED_ONCE) && client->wanted > 0 ? 1 : wanted;
    client->output_seen = client->seen;
    client->request_ns = now_ns;
    report_requests(client);
}

void gy_lease_client_names_up(gy_lease_client *client)
{
    client->request_ns = 0;
}

/* ---- releases ---- */

static lease_return *find_return(const gy_lease_client *client, uint64_t lease)
{
    for (size_t i = 0; i < client->return_count; i++) {
        if (client->returns[i].lease == lease) {
            return &client->returns[i];
        }
    }
    return NULL;
}

static void forget_return(gy_lease_client *client, uint64_t lease)
{
    lease_return *found = find_return(client, lease);
    if (found != NULL) {
        *found = client->returns[--client->return_count];
    }
}

static void give_one(gy_lease_client *client, lease_return *back, int64_t now_ns)
{
    back->asked_ns = now_ns;
    back->is_calling = client->ops->give(client->arg, back);
}

void gy_lease_client_release(gy_lease_client *client, uint64_t lease, bool is_bad,
                             const char *reason)
{
    gy_status status = GY_GROW("driver.lease_client", client->returns, client->return_room,
                               client->return_count + 1);
    if (status < 0) {
        client->ops->fail(client->arg, status);
        return;
    }
    if (find_return(client, lease) != NULL) {
        return;
    }
    const int64_t now_ns = gy_now_ns(client->env);
    lease_return *back = &client->returns[client->return_count++];
    *back = (lease_return){.lease = lease, .is_bad = is_bad, .since_ns = now_ns};
    gy_net_clean_text(reason != NULL ? reason : "", back->reason, sizeof(back->reason));
    give_one(client, back, now_ns);
}

void gy_lease_client_released(gy_lease_client *client, uint64_t lease, bool is_known)
{
    lease_return *back = find_return(client, lease);
    if (back != NULL) {
        back->is_calling = false;
        back->is_known = back->is_known || is_known;
    }
}

void gy_lease_client_release_all(gy_lease_client *client, int64_t now_ns)
{
    for (size_t i = client->return_count; i-- > 0 && !GY_LEASE_CLIENT_PLANTED(GIVEN_ONCE);) {
        lease_return *back = &client->returns[i];
        if (back->is_known && now_ns - back->since_ns >= forget_after_ns) {
            *back = client->returns[--client->return_count];
        } else if (!back->is_calling && !back->is_known &&
                   now_ns - back->asked_ns >= paced(client, ask_every_ns)) {
            give_one(client, back, now_ns);
        }
    }
}

/* Backup tasks of stragglers on this host must run elsewhere: release its idle slots so that
 * others are allocated. */
static void give_unwanted(gy_lease_client *client, int64_t now_ns)
{
    const uint32_t host = gy_manager_unwanted(client->manager);
    if (host == GY_NONE || host != client->unwanted) {
        client->unwanted = host;
        client->unwanted_ns = now_ns;
        return;
    }
    for (uint32_t i = 0; i < client->slot_count && !has_ended(client) &&
                         now_ns - client->unwanted_ns >= paced(client, idle_after_ns) / 2;
         i++) {
        if (client->executors[i].host == host && is_idle(client, i)) {
            gy_lease_client_executor_close(
                client, i, "backup tasks of the slow tasks there run on other hosts",
                LEASE_CLIENT_BACK);
        }
    }
}

void gy_lease_client_release_idle(gy_lease_client *client, int64_t now_ns)
{
    give_unwanted(client, now_ns);

    const uint32_t wanted = GY_MIN(gy_manager_wanted(client->manager), client->slot_count);
    if (is_gang_straggler(client, now_ns)) {
        for (uint32_t i = 0; i < client->slot_count && !has_ended(client); i++) {
            if (is_idle(client, i)) {
                gy_lease_client_executor_close(client, i, "slots are needed together",
                                               LEASE_CLIENT_BACK);
            }
        }
        return;
    }
    if (wanted >= client->open_count || gy_manager_wanted_at_once(client->manager) > 0) {
        client->idle_ns = now_ns;
        return;
    }
    if (now_ns - client->idle_ns < paced(client, idle_after_ns)) {
        return;
    }
    for (uint32_t i = client->slot_count;
         i-- > 0 && client->open_count > GY_MAX(wanted, 1u) && !has_ended(client);) {
        if (client->executors[i].is_open && client->executors[i].running == 0) {
            gy_lease_client_executor_close(client, i, "no task is left to run in it",
                                           LEASE_CLIENT_BACK);
        }
    }
    client->idle_ns = now_ns;
}

/* ---- avoided hosts ---- */

void gy_lease_client_avoid(gy_lease_client *client, uint32_t host, const char *reason)
{
    gy_status status = GY_GROW("driver.lease_client", client->avoids, client->avoid_room,
                               client->avoid_count + 1);
    if (status < 0 || host >= client->host_count) {
        return; /* repeated with its next slot */
    }
    lease_avoid *avoid = &client->avoids[client->avoid_count++];
    avoid->host = host;
    gy_net_clean_text(reason != NULL ? reason : "", avoid->reason, sizeof(avoid->reason));
}

void gy_lease_client_do_avoids(gy_lease_client *client)
{
    while (client->avoid_count > 0 && !has_ended(client)) {
        const lease_avoid avoid = client->avoids[--client->avoid_count];
        lease_host *host = &client->hosts[avoid.host];
        host->is_avoided = true;
        host->is_last = false;
        gy_net_clean_text(avoid.reason, host->why, sizeof(host->why));
        for (uint32_t i = 0; i < client->slot_count; i++) {
            const uint64_t lease = client->executors[i].lease;
            if (lease != 0 && client->executors[i].host == avoid.host) {
                gy_lease_client_release(client, lease, true, avoid.reason);
                gy_lease_client_executor_close(client, i, "its host is avoided", 0);
            }
        }
    }
}

/* ---- allocations ---- */

static void take_allocation(gy_lease_client *client, const gy_allocation *allocation)
{
    if (allocation->lease == 0) {
        gy_lease_client_host_is_dead(client, allocation->daemon, allocation->incarnation);
        return;
    }
    const uint32_t slot = gy_lease_client_executor_of(client, allocation->lease);
    client->lease_ns = allocation->length_ns;
    if (allocation->state == GY_ALLOCATION_GONE) {
        forget_return(client, allocation->lease);
        if (slot != GY_NONE && !GY_LEASE_CLIENT_PLANTED(GONE_KEPT)) {
            gy_lease_client_executor_close(client, slot, "its lease has expired", 0);
        }
        return;
    }
    if (slot != GY_NONE) {
        if (allocation->state == GY_ALLOCATION_ASKED) {
            gy_lease_client_executor_close(client, slot, "its lease was preempted",
                                           LEASE_CLIENT_BACK);
        }
        return;
    }
    if (find_return(client, allocation->lease) != NULL) {
        return;
    }
    const bool is_old_gang = allocation->gang != 0 && allocation->gang != client->gang &&
                             allocation->gang != client->served;
    const uint32_t number =
        gy_lease_client_host_get(client, allocation->daemon, allocation->incarnation,
                                 allocation->address, allocation->host);
    if (allocation->is_last && number != GY_NONE && client->hosts[number].is_avoided) {
        client->hosts[number].is_avoided = false;
        client->hosts[number].is_last = true;
    }
    const bool is_avoided = number != GY_NONE && client->hosts[number].is_avoided;
    if (allocation->state == GY_ALLOCATION_ASKED || is_old_gang || number == GY_NONE ||
        is_avoided) {
        gy_lease_client_release(client, allocation->lease, is_avoided,
                                is_avoided ? client->hosts[number].why : "it is not needed");
        return;
    }
    if (!gy_lease_client_executor_take(client, allocation, number)) {
        gy_lease_client_release(client, allocation->lease, false, "there is no slot for it");
    }
}

bool gy_lease_client_is_news(const gy_lease_client *client, uint64_t from, uint64_t version)
{
    /* otherwise they will be sent again */
    return from <= client->seen &&
           (version > client->seen || GY_LEASE_CLIENT_PLANTED(OLD_ALLOCATIONS));
}

void gy_lease_client_take_allocations(gy_lease_client *client, uint64_t from, uint64_t version,
                                      const gy_allocation *allocations, size_t count)
{
    uint32_t of_gang = 0;
    if (!gy_lease_client_is_news(client, from, version)) {
        return;
    }
    client->seen = version;
    /* A lease may have ended and come back, and both are in the message: handle ends first,
     * since they are older. */
    for (int pass = GY_LEASE_CLIENT_PLANTED(AS_TOLD); pass < 2; pass++) {
        for (size_t i = 0; i < count && !has_ended(client); i++) {
            const bool is_over = allocations[i].state == GY_ALLOCATION_GONE;
            if (is_over == (pass == 0) || GY_LEASE_CLIENT_PLANTED(AS_TOLD)) {
                of_gang += allocations[i].gang != 0 && allocations[i].gang == client->gang;
                take_allocation(client, &allocations[i]);
            }
        }
    }
    if (of_gang > 0) {
        client->gang_width = 0; /* fulfilled; the next one has another number */
        client->served = client->gang;
    }
}
