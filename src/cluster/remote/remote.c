/* The node of a manager: what it says and hears, and when. */
#include "cluster/remote/remote_priv.h"

#include <stdio.h>
#include <string.h>

static const int64_t default_dead_ns = 2000000000;
static const int64_t farewell_ns = 500000000;
static const double call_seconds = 30; /* a daemon that takes longer to answer is not well */

typedef gy_status serve_function(void *arg, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request);

static const struct {
    gy_net_type type;
    serve_function *serve; /* NULL: it is said here, not heard */
} heard[REMOTE_METHODS] = {
    {GY_NET_WISHES, NULL},
    {GY_NET_VIEW, NULL},
    {GY_NET_GIVE_BACK, NULL},
    {GY_NET_ATTACH, NULL},
    {GY_NET_BEAT, NULL},
    {GY_NET_OPEN, NULL},
    {GY_NET_CLOSE, NULL},
    {GY_NET_FETCH, NULL},
    {GY_NET_UNFETCH, NULL},
    {GY_NET_DISCARD, NULL},
    {GY_NET_JOB_OVER, NULL},
    {GY_NET_CREDIT, remote_hear_credit},
    {GY_NET_RELAY, remote_hear_relay},
    {GY_NET_LEASE_GONE, remote_hear_lease_gone},
    {GY_NET_SEAT_GONE, remote_hear_seat_gone},
    {GY_NET_FETCHED, remote_hear_fetched},
    {GY_NET_GRANTS, remote_hear_grants},
    {GY_NET_OVER, remote_hear_over},
};

Gy__Cluster__Key remote_key(gy_key key)
{
    Gy__Cluster__Key out;
    gy__cluster__key__init(&out);
    out.high = key.high;
    out.low = key.low;
    return out;
}

/* ---- words ---- */

void remote_over(gy_driver *driver, gy_status status, const char *who)
{
    gy_remote *remote = driver->remote;
    driver->is_over = true;
    driver->is_hard = true;
    gy_driver_fail(driver,
                   status == GY_OK
                       ? gy_fail(GY_STATE, "the job's end is known already, says %s", who)
                       : gy_fail(GY_STATE, "epoch %u of the job is over, says %s",
                                 remote->ticket->epoch, who));
}

void remote_said(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    gy_driver *driver = arg;
    (void)answer;
    if (status == GY_STATE) {
        gy_error why;
        gy_error_take(&why, status);
        remote_over(driver, GY_STATE, why.text);
    } else if (status < 0 && status != GY_CANCELLED) {
        gy_debug("a daemon has not taken an order: %s", gy_error_text());
    }
}

gy_status remote_call(gy_driver *driver, gy_rpc_peer peer, uint32_t type,
                      const ProtobufCMessage *message, gy_rpc_done done, void *arg)
{
    const gy_rpc_request request = {.type = type,
                                    .message = message,
                                    .deadline = gy_env_deadline(driver->env, call_seconds),
                                    .done = done != NULL ? done : remote_said,
                                    .arg = done != NULL ? arg : driver};
    return gy_rpc_call(driver->remote->rpc, peer, &request, NULL);
}

void remote_tell(const gy_driver *driver, gy_rpc_peer peer, uint32_t type,
                 const ProtobufCMessage *message)
{
    if (gy_rpc_tell(driver->remote->rpc, peer, type, message) < 0) {
        gy_debug("a word is lost: %s", gy_error_text());
    }
}

static void hear(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    gy_driver *driver = arg;
    gy_remote *remote = driver->remote;
    for (uint32_t i = 0; i < remote->name_count; i++) {
        if (remote->names[i] == peer) {
            if (event == GY_RPC_UP) {
                remote->wish_ns = 0;
            }
            return;
        }
    }
    const uint32_t host = remote_host_of(driver, peer);
    if (host != GY_NONE) {
        remote_host_hear(driver, &remote->hosts[host], event);
    }
}

/* ---- beginning ---- */

static gy_status dial_names(gy_remote *remote)
{
    char names[sizeof(remote->ticket->names)], *rest = names;
    (void)snprintf(names, sizeof(names), "%s", remote->ticket->names);
    for (char *one = strsep(&rest, ","); one != NULL; one = strsep(&rest, ",")) {
        if (one[0] == '\0') {
            continue;
        }
        if (remote->name_count == REMOTE_NAMES_MAX) {
            return gy_fail(GY_ARG, "more than %d name servers: %s", REMOTE_NAMES_MAX,
                           remote->ticket->names);
        }
        GY_TRY(gy_rpc_dial(remote->rpc, one, &remote->names[remote->name_count]));
        remote->name_count++;
    }
    return remote->name_count > 0 ? GY_OK : gy_fail(GY_ARG, "a ticket without a name server");
}

gy_status gy_remote_open(gy_driver *driver)
{
    const gy_ticket *ticket = driver->options->ticket;
    gy_remote *remote = gy_alloc_zero("cluster.remote", 1, sizeof(*remote));
    if (remote == NULL) {
        return GY_NOMEM;
    }
    driver->remote = remote;
    remote->ticket = ticket;
    remote->dead_ns = driver->options->dead_ns > 0 ? driver->options->dead_ns : default_dead_ns;
    remote->free_need = GY_NONE;
    /* Behind what drivers of the program's earlier jobs said; a voice is between. */
    remote->sequence = (uint64_t)ticket->round * 2 << 32;
    remote->gang = ticket->round << 20;
    remote->seats = gy_alloc_zero("cluster.remote", driver->process_count, sizeof(remote_seat));
    if (remote->seats == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < REMOTE_METHODS; i++) {
        remote->methods[i] = gy_net_method(heard[i].type);
        remote->methods[i].serve = heard[i].serve;
    }
    char name[64], subject[GY_NET_KEY_TEXT];
    gy_net_key_text(ticket->job, subject);
    (void)snprintf(name, sizeof(name), "manager %.8llx epoch %u",
                   (unsigned long long)ticket->job.high >> 32, ticket->epoch);
    /* Silence and the wait for another connection are half of it each. */
    const gy_rpc_options options = {.name = name,
                                    .role = GY_RPC_MANAGER,
                                    .subject = subject,
                                    .methods = remote->methods,
                                    .method_count = REMOTE_METHODS,
                                    .arg = driver,
                                    .hear = hear,
                                    .beat_ns = remote->dead_ns / 8,
                                    .dead_ns = remote->dead_ns / 2,
                                    .retry_most_ns = remote->dead_ns / 8,
                                    .key_file =
                                        ticket->key_file[0] != '\0' ? ticket->key_file : NULL,
                                    .is_plaintext = ticket->key_file[0] == '\0'};
    GY_TRY(gy_rpc_new(driver->env, &options, &remote->rpc));
    return dial_names(remote);
}

gy_status gy_remote_begin(gy_driver *driver)
{
    gy_host_state state;
    for (uint32_t i = 0; gy_manager_host(driver->manager, i, &state); i++) {
        remote_host *host =
            remote_host_get(driver, state.id.high, state.id.low, state.address, state.name);
        if (host == NULL) {
            return GY_NOMEM;
        }
        GY_ASSERT((size_t)(host - driver->remote->hosts) == i);
        host->is_expected = state.is_expected;
        if (host->is_expected) {
            remote_host_dial(driver, host);
        }
    }
    return GY_OK;
}

/* ---- turns ---- */

int gy_remote_fd(const gy_driver *driver)
{
    return gy_rpc_fd(driver->remote->rpc);
}

int64_t gy_remote_next_ns(const gy_driver *driver)
{
    return gy_rpc_next(driver->remote->rpc).at_ns;
}

void gy_remote_turn(gy_driver *driver)
{
    while (!driver->has_ended && gy_rpc_turn(driver->remote->rpc, (gy_deadline){0}) == GY_OK) {
    }
}

static void do_avoids(gy_driver *driver)
{
    gy_remote *remote = driver->remote;
    while (remote->avoid_count > 0 && !driver->has_ended) {
        const remote_avoid avoid = remote->avoids[--remote->avoid_count];
        remote_host *host = &remote->hosts[avoid.host];
        host->is_avoided = true;
        (void)snprintf(host->why, sizeof(host->why), "%s", avoid.reason);
        for (uint32_t i = 0; i < driver->process_count; i++) {
            const uint64_t lease = remote->seats[i].lease;
            if (lease != 0 && remote->seats[i].host == avoid.host) {
                remote_give_back(driver, lease, true, avoid.reason);
                remote_seat_close(driver, i, "its host is avoided", 0);
            }
        }
    }
}

void gy_remote_avoid(gy_driver *driver, uint32_t host, const char *reason)
{
    gy_remote *remote = driver->remote;
    void *items = remote->avoids;
    gy_status status = gy_reserve("cluster.remote", &items, &remote->avoid_room,
                                  remote->avoid_count + 1, sizeof(remote_avoid));
    remote->avoids = items;
    if (status < 0 || host >= remote->host_count) {
        return; /* said again with the next slot of it */
    }
    remote_avoid *avoid = &remote->avoids[remote->avoid_count++];
    avoid->host = host;
    (void)snprintf(avoid->reason, sizeof(avoid->reason), "%s", reason != NULL ? reason : "");
}

/* One tell a host. */
static void send_discards(gy_driver *driver, remote_host *host)
{
    gy_text *names = &host->discards;
    char *list[256];
    while (names->size_bytes > 0 && host->state == HOST_HERE) {
        REMOTE_MESSAGE(Discard, discard, message);
        size_t at = 0;
        while (at < names->size_bytes && message.n_names < GY_COUNT(list)) {
            list[message.n_names++] = names->data + at;
            at += strlen(names->data + at) + 1;
        }
        message.names = list;
        if (gy_rpc_tell(driver->remote->rpc, host->peer, GY_NET_DISCARD, &message.base) < 0) {
            return; /* again at the next tick */
        }
        memmove(names->data, names->data + at, names->size_bytes - at);
        names->size_bytes -= at;
    }
}

void gy_remote_discard(gy_driver *driver, uint32_t host, const gy_text *names)
{
    gy_remote *remote = driver->remote;
    for (uint32_t i = 0; i < remote->host_count; i++) {
        /* What a lost host keeps it gives up itself when nobody beats. */
        if ((i == host || host == GY_NONE) && remote->hosts[i].state != HOST_GONE &&
            names->size_bytes > 0) {
            gy_text_add_bytes(&remote->hosts[i].discards, names->data, names->size_bytes);
            remote->hosts[i].discards.status = GY_OK; /* no memory: they go with the job */
        }
    }
}

void gy_remote_tick(gy_driver *driver, int64_t now_ns)
{
    gy_remote *remote = driver->remote;
    remote_hosts_look_after(driver, now_ns);
    for (uint32_t i = 0; i < remote->host_count && !driver->has_ended; i++) {
        send_discards(driver, &remote->hosts[i]);
        remote_fetches_go_on(driver, i);
        remote_seats_go_on(driver, i);
    }
    remote_give_idle(driver, now_ns);
    remote_give_all(driver, now_ns);
}

void gy_remote_settle(gy_driver *driver)
{
    do_avoids(driver);
    if (!driver->has_ended) {
        remote_wish(driver, gy_now_ns(driver->env));
        remote_view(driver, gy_now_ns(driver->env));
    }
}

/* ---- the end ---- */

static void farewell_done(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    gy_remote *remote = arg;
    (void)answer;
    remote->farewells--;
    if (status < 0) {
        gy_debug("a daemon does not know that the job is over: %s", gy_error_text());
    }
}

static void say_farewell(gy_driver *driver)
{
    gy_remote *remote = driver->remote;
    const int64_t last_ns = gy_now_ns(driver->env) + farewell_ns;
    for (size_t i = 0; i < remote->host_count; i++) {
        REMOTE_MESSAGE(JobOver, job_over, message);
        if (remote->hosts[i].state == HOST_HERE &&
            remote_call(driver, remote->hosts[i].peer, GY_NET_JOB_OVER, &message.base,
                        farewell_done, remote) == GY_OK) {
            remote->farewells++;
        }
    }
    while (remote->farewells > 0 && gy_now_ns(driver->env) < last_ns) {
        (void)gy_rpc_turn(remote->rpc, (gy_deadline){.at_ns = last_ns});
    }
}

void gy_remote_close(gy_driver *driver)
{
    gy_remote *remote = driver->remote;
    if (remote == NULL) {
        return;
    }
    if (remote->rpc != NULL && !driver->is_over) {
        say_farewell(driver);
    }
    gy_rpc_free(remote->rpc);
    remote_starts_free(driver);
    for (size_t i = 0; i < remote->host_count; i++) {
        gy_free(remote->hosts[i].folder);
        gy_text_free(&remote->hosts[i].discards);
    }
    gy_index_free(&remote->by_lease);
    gy_index_free(&remote->by_number);
    void *arrays[] = {remote->hosts,  remote->seats, remote->returns,
                      remote->avoids, remote->needs, remote->reads};
    for (size_t i = 0; i < GY_COUNT(arrays); i++) {
        gy_free(arrays[i]);
    }
    gy_free(remote);
    driver->remote = NULL;
}
