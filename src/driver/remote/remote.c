/* The node of a manager: what it sends and receives, and when. */
#include "driver/remote/remote_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

static const int64_t farewell_ns = 500000000;
static const double call_seconds = 30; /* a daemon that takes longer to answer is broken */

typedef gy_status serve_function(void *arg, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request);

static const struct {
    gy_net_type type;
    serve_function *serve; /* NULL: sent from here, not received */
} heard[REMOTE_METHODS] = {
    {GY_NET_REQUESTS, NULL},
    {GY_NET_VIEW, NULL},
    {GY_NET_RELEASE, NULL},
    {GY_NET_ATTACH, NULL},
    {GY_NET_BEAT, NULL},
    {GY_NET_OPEN, NULL},
    {GY_NET_CLOSE, NULL},
    {GY_NET_FETCH, NULL},
    {GY_NET_UNFETCH, NULL},
    {GY_NET_DISCARD, NULL},
    {GY_NET_JOB_OVER, NULL},
    {GY_NET_CREDIT, remote_handle_credit},
    {GY_NET_RELAY, remote_handle_relay},
    {GY_NET_LEASE_GONE, remote_handle_lease_gone},
    {GY_NET_EXECUTOR_GONE, remote_handle_executor_gone},
    {GY_NET_FETCHED, remote_handle_fetched},
    {GY_NET_ALLOCATIONS, remote_handle_allocations},
    {GY_NET_OVER, remote_handle_over},
};

Gy__Cluster__Key remote_key(gy_key key)
{
    Gy__Cluster__Key out;
    gy__cluster__key__init(&out);
    out.high = key.high;
    out.low = key.low;
    return out;
}

/* ---- messages ---- */

void remote_over(gy_driver *driver, gy_status status, const char *who)
{
    gy_remote *remote = driver->remote;
    driver->is_over = true;
    driver->is_hard = true;
    gy_driver_fail(driver,
                   status == GY_OK
                       ? gy_fail(GY_STATE, "%s knows the job's end already", who)
                       : gy_fail(GY_STATE, "epoch %u of the job has ended according to %s",
                                 remote->ticket->epoch, who));
}

void remote_output(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    gy_driver *driver = arg;
    (void)answer;
    if (status == GY_STATE) {
        gy_error why;
        gy_error_take(&why, status);
        remote_over(driver, GY_STATE, why.text);
    } else if (status < 0 && status != GY_CANCELLED) {
        gy_debug("a daemon refused an order: %s", gy_error_text());
    }
}

gy_status remote_call(gy_driver *driver, gy_rpc_peer peer, uint32_t type,
                      const ProtobufCMessage *message, gy_rpc_done done, void *arg)
{
    const gy_rpc_request request = {.type = type,
                                    .message = message,
                                    .deadline = gy_env_deadline(driver->env, call_seconds),
                                    .done = done != NULL ? done : remote_output,
                                    .arg = done != NULL ? arg : driver};
    return gy_rpc_call(driver->remote->rpc, peer, &request, NULL);
}

void remote_tell(const gy_driver *driver, gy_rpc_peer peer, uint32_t type,
                 const ProtobufCMessage *message)
{
    if (gy_rpc_tell(driver->remote->rpc, peer, type, message) < 0) {
        gy_debug("a message is lost: %s", gy_error_text());
    }
}

static void hear(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    gy_driver *driver = arg;
    gy_remote *remote = driver->remote;
    for (uint32_t i = 0; i < remote->name_count; i++) {
        if (remote->names[i] == peer) {
            if (event == GY_RPC_UP) {
                gy_lease_client_names_up(&remote->client);
            }
            return;
        }
    }
    const uint32_t host = remote_host_of(driver, peer);
    if (host != GY_NONE) {
        remote_host_handle(driver, host, event);
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

/* Slots are often leased on the manager's own host: connect to its daemon at the same time as
 * to the name server. */
static void dial_own(gy_remote *remote)
{
    const char *address = remote->ticket->daemon;
    if (address[0] != '\0' && gy_rpc_dial(remote->rpc, address, &remote->own) < 0) {
        gy_debug("the own daemon is not called: %s", gy_error_text());
        remote->own = 0;
    }
}

static void step(void *arg, gy_sched_event *event)
{
    gy_driver_step(arg, event);
}

static void fail(void *arg, gy_status status)
{
    gy_driver_fail(arg, status);
}

static bool has_ended(const void *arg)
{
    const gy_driver *driver = arg;
    return driver->has_ended;
}

static uint32_t process_of(const void *arg, uint32_t slot)
{
    const gy_driver *driver = arg;
    const gy_process *process = &driver->processes[slot];
    return process->state != GY_PROCESS_NONE ? process->generation : 0;
}

static void forget(void *arg, uint32_t slot)
{
    gy_driver *driver = arg;
    gy_process_gone(driver, &driver->processes[slot]);
}

static const gy_lease_client_ops lease_ops = {.step = step,
                                              .fail = fail,
                                              .has_ended = has_ended,
                                              .process = process_of,
                                              .forget = forget,
                                              .dial = remote_dial,
                                              .hang_up = remote_hang_up,
                                              .attach = remote_attach,
                                              .beat = remote_beat,
                                              .go_on = remote_fetches_go_on,
                                              .begin_anew = remote_fetches_anew,
                                              .request = remote_send_requests,
                                              .give = remote_send_release};

static gy_status remote_open(gy_driver *driver)
{
    const gy_ticket *ticket = driver->options->ticket;
    gy_remote *remote = gy_alloc_zero("driver.remote", 1, sizeof(*remote));
    if (remote == NULL) {
        return GY_NOMEM;
    }
    driver->remote = remote;
    remote->ticket = ticket;
    remote->free_need = GY_NONE;
    remote->client =
        (gy_lease_client){.env = driver->env,
                          .manager = driver->manager,
                          .ops = &lease_ops,
                          .arg = driver,
                          .job = ticket->job,
                          .epoch = ticket->epoch,
                          .slot_count = driver->process_count,
                          .threads = driver->threads,
                          .dead_ns = driver->options->dead_ns,
                          /* After the numbers that drivers of the program's
                           * earlier jobs used; a heartbeat thread's are between. */
                          .sequence = (uint64_t)ticket->round * 2 << 32,
                          .gang = ticket->round << 20};
    GY_TRY(gy_lease_client_open(&remote->client));
    const int64_t dead_ns = remote->client.dead_ns;
    for (int i = 0; i < REMOTE_METHODS; i++) {
        remote->methods[i] = gy_net_method(heard[i].type);
        remote->methods[i].serve = heard[i].serve;
    }
    char name[64], subject[GY_NET_KEY_TEXT];
    gy_net_key_text(ticket->job, subject);
    (void)snprintf(name, sizeof(name), "manager %.8llx epoch %u",
                   (unsigned long long)ticket->job.high >> 32, ticket->epoch);
    /* Silence and the wait for a new connection share dead_ns. */
    const gy_rpc_options options = {.name = name,
                                    .role = GY_RPC_MANAGER,
                                    .subject = subject,
                                    .methods = remote->methods,
                                    .method_count = REMOTE_METHODS,
                                    .arg = driver,
                                    .hear = hear,
                                    .beat_ns = dead_ns / 8,
                                    .dead_ns = dead_ns / 2,
                                    .retry_ns_max = dead_ns / 8,
                                    .key_file =
                                        ticket->key_file[0] != '\0' ? ticket->key_file : NULL,
                                    .is_plaintext = ticket->key_file[0] == '\0'};
    GY_TRY(gy_rpc_new(driver->env, &options, &remote->rpc));
    GY_TRY(dial_names(remote));
    dial_own(remote);
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = GY_EPOLL_REMOTE}};
    if (epoll_ctl(driver->epoll, EPOLL_CTL_ADD, gy_rpc_fd(remote->rpc), &event) != 0) {
        return gy_fail(GY_LIMIT, "cannot wait for events: %s", strerror(errno));
    }
    return GY_OK;
}

static gy_status remote_begin(gy_driver *driver)
{
    return gy_lease_client_begin(&driver->remote->client);
}

/* ---- turns ---- */

static int64_t remote_next_ns(const gy_driver *driver)
{
    return gy_rpc_next(driver->remote->rpc).at_ns;
}

static void remote_turn(gy_driver *driver)
{
    while (!driver->has_ended && gy_rpc_turn(driver->remote->rpc, (gy_deadline){0}) == GY_OK) {
    }
}

static void remote_avoid(gy_driver *driver, uint32_t host, const char *reason)
{
    gy_lease_client_avoid(&driver->remote->client, host, reason);
}

/* One message for each host. */
static void send_discards(gy_driver *driver, lease_host *host)
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
            return; /* retried at the next tick */
        }
        memmove(names->data, names->data + at, names->size_bytes - at);
        names->size_bytes -= at;
    }
}

static void remote_discard(gy_driver *driver, uint32_t host, const gy_text *names)
{
    gy_remote *remote = driver->remote;
    for (uint32_t i = 0; i < remote->client.host_count; i++) {
        /* A lost host deletes its files itself when no heartbeats arrive. */
        if ((i == host || host == GY_NONE) && remote->client.hosts[i].state != HOST_GONE &&
            names->size_bytes > 0) {
            gy_text_add_bytes(&remote->client.hosts[i].discards, names->data,
                              names->size_bytes);
            remote->client.hosts[i].discards.status =
                GY_OK; /* no memory: they are deleted at the job's end */
        }
    }
}

static void remote_tick(gy_driver *driver, int64_t now_ns)
{
    gy_lease_client *client = &driver->remote->client;
    gy_lease_client_check_hosts(client, now_ns);
    for (uint32_t i = 0; i < client->host_count && !driver->has_ended; i++) {
        send_discards(driver, &client->hosts[i]);
        remote_fetches_go_on(driver, i);
        remote_executors_go_on(driver, i);
    }
    gy_lease_client_release_idle(client, now_ns);
    gy_lease_client_where_release(client, now_ns);
    gy_lease_client_release_all(client, now_ns);
}

static void remote_settle(gy_driver *driver)
{
    gy_lease_client *client = &driver->remote->client;
    gy_lease_client_do_avoids(client);
    if (!driver->has_ended) {
        gy_lease_client_request(client, gy_now_ns(driver->env));
        remote_view(driver, gy_now_ns(driver->env));
    }
}

/* ---- the job's end ---- */

static void farewell_done(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    gy_remote *remote = arg;
    (void)answer;
    remote->farewells--;
    if (status < 0) {
        gy_debug("cannot tell a daemon that the job has ended: %s", gy_error_text());
    }
}

static int64_t remote_watch_ns(const gy_driver *driver)
{
    return gy_lease_client_watch_ns(&driver->remote->client);
}

static void report_farewell(gy_driver *driver)
{
    gy_remote *remote = driver->remote;
    const int64_t last_ns = gy_now_ns(driver->env) + farewell_ns;
    remote_view_last(driver);
    for (size_t i = 0; i < remote->client.host_count; i++) {
        REMOTE_MESSAGE(JobOver, job_over, message);
        message.is_kept = driver->end.status < 0; /* its user may resume it */
        if (remote->client.hosts[i].state == HOST_HERE &&
            remote_call(driver, remote->client.hosts[i].peer, GY_NET_JOB_OVER, &message.base,
                        farewell_done, remote) == GY_OK) {
            remote->farewells++;
        }
    }
    (void)gy_rpc_turn(remote->rpc, (gy_deadline){0});
    while (remote->farewells > 0 && gy_now_ns(driver->env) < last_ns) {
        (void)gy_rpc_turn(remote->rpc, (gy_deadline){.at_ns = last_ns});
    }
}

static void remote_close(gy_driver *driver, bool is_hard)
{
    (void)is_hard; /* daemons end the processes */
    gy_remote *remote = driver->remote;
    if (remote == NULL) {
        return;
    }
    if (remote->rpc != NULL && !driver->is_over) {
        report_farewell(driver);
    }
    gy_rpc_free(remote->rpc);
    remote_starts_free(driver);
    for (size_t i = 0; i < remote->client.host_count; i++) {
        gy_free(remote->client.hosts[i].folder);
        gy_text_free(&remote->client.hosts[i].discards);
    }
    gy_lease_client_close(&remote->client);
    gy_index_free(&remote->by_number);
    gy_free(remote->needs);
    gy_free(remote->reads);
    gy_free(remote);
    driver->remote = NULL;
}

const gy_executor_ops gy_executor_cluster = {
    .name = "cluster",
    .open = remote_open,
    .begin = remote_begin,
    .close = remote_close,
    .turn = remote_turn,
    .next_ns = remote_next_ns,
    .tick = remote_tick,
    .settle = remote_settle,
    .watch_ns = remote_watch_ns,
    .spawn = remote_spawn,
    .kill = remote_kill,
    .forget = remote_forget,
    .send = remote_send,
    .folder = remote_folder,
    .guest = remote_guest,
    .host = remote_host,
    .fetch = remote_fetch,
    .unfetch = remote_unfetch,
    .answered = remote_answered,
    .discard = remote_discard,
    .avoid = remote_avoid,
};
