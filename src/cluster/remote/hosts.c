/* Daemons: found, attached to, lost; and the slots that stand on leases there. */
#include "cluster/remote/remote_priv.h"

#include <stdio.h>
#include <string.h>

static const int64_t beat_every_ns = 1000000000;

/* ---- hosts ---- */

static uint32_t number_of(const gy_driver *driver, const remote_host *host)
{
    return (uint32_t)(host - driver->remote->hosts);
}

remote_host *remote_host_get(gy_driver *driver, uint64_t daemon, uint64_t incarnation,
                             const char *address, const char *name)
{
    gy_remote *remote = driver->remote;
    remote_host *host = NULL;
    for (size_t i = 0; i < remote->host_count && host == NULL; i++) {
        if (remote->hosts[i].daemon == daemon && remote->hosts[i].incarnation == incarnation) {
            host = &remote->hosts[i];
        }
    }
    if (host == NULL) {
        void *items = remote->hosts;
        gy_status status = gy_reserve("cluster.remote", &items, &remote->host_room,
                                      remote->host_count + 1, sizeof(remote_host));
        remote->hosts = items;
        if (status < 0 || remote->host_count == REMOTE_HOSTS_MAX) {
            return NULL;
        }
        host = &remote->hosts[remote->host_count++];
        *host = (remote_host){.daemon = daemon,
                              .incarnation = incarnation,
                              .first_need = GY_NONE,
                              .last_need = GY_NONE};
    }
    if (host->state == HOST_GONE) {
        (void)snprintf(host->address, sizeof(host->address), "%s",
                       address != NULL ? address : "");
        gy_net_clean_text(name != NULL ? name : "", host->name, sizeof(host->name));
    }
    return host;
}

uint32_t remote_host_of(const gy_driver *driver, gy_rpc_peer peer)
{
    const gy_remote *remote = driver->remote;
    const size_t tag = (size_t)(uintptr_t)gy_rpc_tag(remote->rpc, peer);
    return tag > 0 && tag <= remote->host_count && remote->hosts[tag - 1].peer == peer
               ? (uint32_t)(tag - 1)
               : GY_NONE;
}

void remote_host_dial(gy_driver *driver, remote_host *host)
{
    gy_remote *remote = driver->remote;
    if (host->state != HOST_GONE) {
        return;
    }
    host->state = HOST_AWAY;
    host->away_ns = gy_now_ns(driver->env);
    (void)snprintf(host->why, sizeof(host->why), "nobody answers at %s", host->address);
    gy_status status = gy_rpc_dial(remote->rpc, host->address, &host->peer);
    if (status < 0) { /* a wrong address: it is lost at the next tick */
        host->peer = 0;
        host->away_ns -= remote->dead_ns;
        (void)snprintf(host->why, sizeof(host->why), "%.200s", gy_error_text());
        return;
    }
    gy_rpc_set_tag(remote->rpc, host->peer, (void *)((uintptr_t)number_of(driver, host) + 1));
}

void remote_host_lost(gy_driver *driver, remote_host *host, const char *reason)
{
    gy_remote *remote = driver->remote;
    const uint32_t number = number_of(driver, host);
    const bool is_told = host->is_up || host->is_expected;
    char why[256];
    (void)snprintf(why, sizeof(why), "%s", reason);
    if (host->peer != 0) {
        gy_rpc_drop(remote->rpc, host->peer);
    }
    host->peer = 0;
    host->state = HOST_GONE;
    host->is_up = host->is_expected = host->is_full = false;
    gy_text_free(&host->discards);
    /* The machine hears of all its slots at once. */
    for (uint32_t i = 0; i < driver->process_count && !driver->has_ended; i++) {
        remote_seat *seat = &remote->seats[i];
        if (seat->lease != 0 && seat->host == number) {
            const bool was_open = seat->is_open;
            seat->is_open = seat->is_open && !is_told;
            remote->open_count -= was_open && !seat->is_open;
            remote_seat_close(driver, i, why, REMOTE_BACK);
        }
    }
    if (is_told) {
        gy_driver_step(driver,
                       &(gy_event){.kind = GY_EVENT_HOST_LOST, .host = number, .reason = why});
    }
    remote_fetches_anew(driver, number);
}

/* ---- attaching ---- */

typedef struct attach_call {
    gy_driver *driver;
    uint32_t host;
    gy_rpc_peer peer;
} attach_call;

static void host_is_here(gy_driver *driver, remote_host *host,
                         const Gy__Cluster__Attached *message)
{
    const uint32_t number = number_of(driver, host);
    char *folder = gy_copy_text("cluster.remote", message->folder);
    if (folder == NULL) {
        gy_driver_fail(driver, GY_NOMEM);
        return;
    }
    gy_free(host->folder);
    host->folder = folder;
    host->state = HOST_HERE;
    host->is_expected = false;
    if (!host->is_up) {
        host->is_up = true;
        gy_driver_step(driver, &(gy_event){.kind = GY_EVENT_HOST_UP,
                                           .host = number,
                                           .host_id = {host->daemon, host->incarnation},
                                           .address = host->address,
                                           .name = host->name});
    }
    for (uint32_t i = 0; i < driver->process_count && !driver->has_ended; i++) {
        if (driver->remote->seats[i].lease != 0 && driver->remote->seats[i].host == number) {
            remote_seat_open(driver, i);
        }
    }
    remote_fetches_go_on(driver, number);
}

static void attached(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    const attach_call call = *(attach_call *)arg;
    gy_driver *driver = call.driver;
    remote_host *host = &driver->remote->hosts[call.host];
    const Gy__Cluster__Attached *message = (const void *)answer;
    gy_free(arg);
    if (driver->has_ended || host->peer != call.peer || host->state != HOST_ATTACHING) {
        return; /* it is about another connection */
    }
    gy_error why;
    gy_error_take(&why, status);
    if (status == GY_STATE) {
        remote_over(driver, GY_STATE, why.text);
    } else if (status < 0) {
        remote_host_lost(driver, host, why.text);
    } else if (message->incarnation != host->incarnation) {
        remote_host_lost(driver, host, "its folder is another one: its files are gone");
    } else {
        host_is_here(driver, host, message);
    }
}

static void attach(gy_driver *driver, remote_host *host)
{
    REMOTE_MESSAGE(Attach, attach, message);
    attach_call *call = gy_alloc("cluster.remote", sizeof(*call));
    if (call == NULL) {
        gy_driver_fail(driver, GY_NOMEM);
        return;
    }
    *call = (attach_call){driver, number_of(driver, host), host->peer};
    host->state = HOST_ATTACHING;
    if (remote_call(driver, host->peer, GY_NET_ATTACH, &message.base, attached, call) < 0) {
        gy_free(call); /* it is lost when it stays so */
    }
}

void remote_host_hear(gy_driver *driver, remote_host *host, gy_rpc_event event)
{
    const uint32_t number = number_of(driver, host);
    switch (event) {
    case GY_RPC_UP:
        attach(driver, host);
        break;
    case GY_RPC_DOWN:
        (void)snprintf(host->why, sizeof(host->why), "%.200s", gy_error_text());
        host->state = HOST_AWAY;
        host->away_ns = gy_now_ns(driver->env);
        break;
    case GY_RPC_ANEW: /* its seats and leases ended with its former life; files stand */
        remote_seats_close(driver, number, "its daemon was started anew",
                           REMOTE_BACK | REMOTE_IS_DOWN);
        remote_fetches_anew(driver, number);
        break;
    case GY_RPC_DRAINED:
        host->is_full = false;
        remote_fetches_go_on(driver, number);
        remote_seats_go_on(driver, number);
        break;
    case GY_RPC_GONE: /* of those that dial */
        break;
    }
}

static void beat(gy_driver *driver, const remote_host *host)
{
    REMOTE_MESSAGE(Beat, beat, message);
    /* Not taken now: said again in a second. */
    remote_tell(driver, host->peer, GY_NET_BEAT, &message.base);
}

void remote_hosts_look_after(gy_driver *driver, int64_t now_ns)
{
    gy_remote *remote = driver->remote;
    const bool is_beat = now_ns - remote->beat_ns >= beat_every_ns;
    remote->beat_ns = is_beat ? now_ns : remote->beat_ns;
    for (size_t i = 0; i < remote->host_count && !driver->has_ended; i++) {
        remote_host *host = &remote->hosts[i];
        /* One that was up was silent before its connection was given up. */
        const int64_t most_ns = host->is_up ? remote->dead_ns / 2 : remote->dead_ns;
        if (host->state == HOST_HERE && is_beat) {
            beat(driver, host);
        } else if ((host->state == HOST_AWAY && now_ns - host->away_ns >= most_ns) ||
                   (host->state == HOST_ATTACHING &&
                    now_ns - host->away_ns >= most_ns + remote->dead_ns)) {
            char why[300];
            (void)snprintf(why, sizeof(why), "its daemon is gone: %s", host->why);
            remote_host_lost(driver, host, why);
        }
    }
}

/* ---- leases ---- */

uint32_t remote_seat_of(const gy_driver *driver, uint64_t lease)
{
    return gy_index_find(&driver->remote->by_lease, gy_index_id(lease));
}

bool remote_seat_take(gy_driver *driver, const gy_grant *grant, uint32_t host)
{
    gy_remote *remote = driver->remote;
    uint32_t slot = 0;
    while (slot < driver->process_count && remote->seats[slot].lease != 0) {
        slot++;
    }
    if (slot == driver->process_count) {
        return false;
    }
    if (gy_index_put(&remote->by_lease, gy_index_id(grant->lease), slot) < 0) {
        gy_driver_fail(driver, GY_NOMEM);
        return false;
    }
    remote->seats[slot] =
        (remote_seat){.lease = grant->lease, .host = host, .gang = grant->gang};
    if (remote->hosts[host].state == HOST_GONE) {
        remote_host_dial(driver, &remote->hosts[host]);
    } else {
        remote_seat_open(driver, slot);
    }
    return true;
}

void remote_seat_open(gy_driver *driver, uint32_t slot)
{
    gy_remote *remote = driver->remote;
    remote_seat *seat = &remote->seats[slot];
    if (seat->is_open || remote->hosts[seat->host].state != HOST_HERE) {
        return;
    }
    seat->is_open = true;
    remote->open_count++;
    gy_driver_step(
        driver, &(gy_event){.kind = GY_EVENT_SLOT_OPEN, .process = slot, .host = seat->host});
}

void remote_seat_close(gy_driver *driver, uint32_t slot, const char *reason, int flags)
{
    gy_remote *remote = driver->remote;
    const remote_seat seat = remote->seats[slot];
    if (seat.lease == 0) {
        return;
    }
    if ((flags & REMOTE_BACK) != 0) {
        remote_give_back(driver, seat.lease, false, reason);
    }
    gy_index_remove(&remote->by_lease, gy_index_id(seat.lease));
    gy_process *process = &driver->processes[slot];
    const bool has_process = process->state != GY_PROCESS_NONE;
    const uint32_t generation = process->generation;
    if (has_process) {
        gy_process_gone(driver, process);
    }
    remote->seats[slot] = (remote_seat){0};
    if (seat.is_open) {
        remote->open_count--;
        if (has_process && (flags & REMOTE_IS_DOWN) != 0) {
            gy_driver_step(driver, &(gy_event){.kind = GY_EVENT_PROCESS_DOWN,
                                               .cause = GY_CAUSE_CANCELLED,
                                               .process = slot,
                                               .generation = generation,
                                               .reason = reason});
        }
        gy_driver_step(
            driver,
            &(gy_event){.kind = GY_EVENT_SLOT_CLOSE, .process = slot, .reason = reason});
    }
}

void remote_seats_close(gy_driver *driver, uint32_t host, const char *reason, int flags)
{
    const gy_remote *remote = driver->remote;
    for (uint32_t i = 0; i < driver->process_count && !driver->has_ended; i++) {
        if (remote->seats[i].lease != 0 && remote->seats[i].host == host) {
            remote_seat_close(driver, i, reason, flags);
        }
    }
}

uint32_t gy_remote_host(const gy_driver *driver, uint32_t slot)
{
    return driver->remote->seats[slot].lease != 0 ? driver->remote->seats[slot].host : GY_NONE;
}

const char *gy_remote_folder(const gy_driver *driver, uint32_t slot)
{
    const uint32_t host = gy_remote_host(driver, slot);
    return host != GY_NONE ? driver->remote->hosts[host].folder : NULL;
}
