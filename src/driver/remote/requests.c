/* Sends the manager's requests to the name server, and handles its answers. */
#include "driver/remote/remote_priv.h"

enum { PROGRESS_BYTES = 200 };

void remote_send_requests(void *arg, const gy_manager_requests *requests)
{
    const gy_driver *driver = arg;
    const gy_remote *remote = driver->remote;
    gy_arena arena = {0};
    gy_text progress = {0};
    Gy__Cluster__Requests message;
    gy__cluster__requests__init(&message);
    if (driver->ops->say != NULL) {
        driver->ops->say(driver->ops->arg, driver->manager, &progress);
    }
    char line[PROGRESS_BYTES];
    (void)gy_text_move(&progress, line, sizeof(line));
    if (gy_net_write_requests(requests, &arena, &message) == GY_OK) {
        message.progress = line;
        for (uint32_t i = 0; i < remote->name_count; i++) {
            /* A name server that is down gets them later; those that do not lead ignore them.
             */
            remote_tell(driver, remote->names[i], GY_NET_REQUESTS, &message.base);
        }
    }
    gy_arena_free(&arena);
}

/* ---- releases ---- */

/* One call; the lease identifies what it belongs to. */
typedef struct give_call {
    gy_driver *driver;
    uint64_t lease;
} give_call;

static void given(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    give_call *call = arg;
    (void)answer;
    gy_lease_client_released(&call->driver->remote->client, call->lease, status == GY_OK);
    gy_free(call);
}

bool remote_send_release(void *arg, const lease_return *back)
{
    gy_driver *driver = arg;
    const gy_remote *remote = driver->remote;
    bool is_calling = false;
    char reason[GY_CONTROL_REASON_BYTES];
    REMOTE_MESSAGE(Release, release, message);
    gy_net_clean_text(back->reason, reason, sizeof(reason));
    message.lease = back->lease;
    message.is_bad = back->is_bad;
    message.reason = reason;
    for (uint32_t i = 0; i < remote->name_count; i++) { /* one of them leads */
        gy_rpc_facts facts;
        give_call *call = gy_rpc_look(remote->rpc, remote->names[i], &facts) && facts.is_up
                              ? gy_alloc("driver.remote", sizeof(*call))
                              : NULL;
        if (call == NULL) {
            continue;
        }
        *call = (give_call){driver, back->lease};
        if (remote_call(driver, remote->names[i], GY_NET_RELEASE, &message.base, given, call) ==
            GY_OK) {
            is_calling = true;
        } else {
            gy_free(call);
        }
    }
    return is_calling;
}

/* ---- allocations ---- */

static void take_allocations(gy_driver *driver, const Gy__Cluster__Allocations *message)
{
    gy_lease_client *client = &driver->remote->client;
    gy_arena arena = {0};
    gy_allocation *allocations = NULL;
    size_t count = 0;
    if (!gy_lease_client_is_news(client, message->from, message->version)) {
        return;
    }
    if (gy_net_read_allocations(message, &arena, &allocations, &count) < 0) {
        gy_warn("the name server sent a malformed allocation: %s", gy_error_text());
    } else {
        gy_lease_client_take_allocations(client, message->from, message->version, allocations,
                                         count);
    }
    gy_arena_free(&arena);
}

static bool is_mine(const gy_driver *driver, const Gy__Cluster__Key *job, uint32_t epoch)
{
    const gy_ticket *ticket = driver->remote->ticket;
    return gy_key_is_same(gy_net_key(job), ticket->job) && epoch == ticket->epoch;
}

/* Vertices that run together need more slots on one host than any host has. A larger daemon may
 * still come, so wait a little. */
static void check_never(gy_driver *driver, const Gy__Cluster__Allocations *message)
{
    gy_remote *remote = driver->remote;
    const gy_lease_client *client = &remote->client;
    const int64_t now_ns = gy_now_ns(driver->env);
    if (driver->has_ended || client->gang_width == 0 || message->most >= client->gang_width) {
        remote->never = 0;
    } else if (message->never == client->gang && remote->never != client->gang) {
        remote->never = client->gang;
        remote->never_ns = now_ns;
    } else if (remote->never == client->gang && remote->never != 0 &&
               now_ns - remote->never_ns >= client->dead_ns) {
        gy_driver_kill(
            driver,
            gy_fail(GY_LIMIT,
                    "%u vertices that run together need %u slots on one host: the job can have "
                    "%u (no host has more, or --slots-max of the job forbids it)",
                    client->gang_width, client->gang_width, message->most));
    }
}

gy_status remote_handle_allocations(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    const Gy__Cluster__Allocations *message = (const void *)request;
    (void)asked;
    if (driver->has_ended || !is_mine(driver, message->job, message->epoch)) {
        return GY_OK;
    }
    if (message->is_killed) {
        gy_driver_kill(driver, gy_fail(GY_CANCELLED, "the job was killed by its user"));
        return GY_OK;
    }
    take_allocations(driver, message);
    if (!driver->has_ended) {
        gy_lease_client_where_handle(&driver->remote->client, message->sequence,
                                     message->missing);
    }
    check_never(driver, message);
    return GY_OK;
}

gy_status remote_handle_over(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    const Gy__Cluster__Over *message = (const void *)request;
    (void)asked;
    /* A name server that does not know the job (GY_NOTFOUND) may be outdated. */
    if (!driver->has_ended && is_mine(driver, message->job, message->epoch) &&
        message->status != GY_NOTFOUND) {
        remote_over(driver, (gy_status)message->status, "the name server");
    }
    return GY_OK;
}
