/* Connections to daemons: opened, attached, given up. */
#include "driver/remote/remote_priv.h"

#include <string.h>

uint32_t remote_host_of(const gy_driver *driver, gy_rpc_peer peer)
{
    const gy_remote *remote = driver->remote;
    const size_t tag = (size_t)(uintptr_t)gy_rpc_tag(remote->rpc, peer);
    return tag > 0 && tag <= remote->client.host_count &&
                   remote->client.hosts[tag - 1].peer == peer
               ? (uint32_t)(tag - 1)
               : GY_NONE;
}

gy_status remote_dial(void *arg, uint32_t number)
{
    const gy_driver *driver = arg;
    gy_remote *remote = driver->remote;
    lease_host *host = &remote->client.hosts[number];
    const bool is_own = remote->own != 0 && strcmp(host->address, remote->ticket->daemon) == 0;
    gy_rpc_facts facts = {.is_up = false};
    if (is_own) {
        host->peer = remote->own;
        remote->own = 0;
        (void)gy_rpc_look(remote->rpc, host->peer, &facts);
    } else {
        gy_status status = gy_rpc_dial(remote->rpc, host->address, &host->peer);
        if (status < 0) { /* a wrong address */
            host->peer = 0;
            return status;
        }
    }
    gy_rpc_set_tag(remote->rpc, host->peer, (void *)((uintptr_t)number + 1));
    if (facts.is_up) { /* the machine was not told when it came up */
        gy_lease_client_host_up(&remote->client, number);
    }
    return GY_OK;
}

void remote_hang_up(void *arg, uint32_t number)
{
    const gy_driver *driver = arg;
    lease_host *host = &driver->remote->client.hosts[number];
    if (host->peer != 0) {
        gy_rpc_drop(driver->remote->rpc, host->peer);
    }
    host->peer = 0;
    host->is_full = false;
    gy_text_free(&host->discards);
}

/* ---- attaching ---- */

typedef struct attach_call {
    gy_driver *driver;
    uint32_t host;
    gy_rpc_peer peer;
    int64_t sent_ns;
} attach_call;

static gy_status keep_folder(lease_host *host, const char *folder)
{
    char *copy = gy_copy_text("driver.remote", folder);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    gy_free(host->folder);
    host->folder = copy;
    return GY_OK;
}

static void attached(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    const attach_call call = *(attach_call *)arg;
    gy_driver *driver = call.driver;
    lease_host *host = &driver->remote->client.hosts[call.host];
    const Gy__Cluster__Attached *message = (const void *)answer;
    gy_free(arg);
    if (driver->has_ended || host->peer != call.peer || host->state != HOST_ATTACHING) {
        return; /* it concerns an earlier connection */
    }
    gy_error why;
    gy_error_take(&why, status);
    if (status == GY_STATE) {
        remote_over(driver, GY_STATE, why.text);
    } else if (status >= 0 && keep_folder(host, message->folder) < 0) {
        gy_driver_fail(driver, GY_NOMEM);
    } else {
        if (status >= 0 && message->answered_ns != 0) {
            host->clock_ns = remote_clock_ns(call.sent_ns, message->heard_ns,
                                             message->answered_ns, gy_now_ns(driver->env));
        }
        gy_lease_client_attached(&driver->remote->client, call.host, status,
                                 status >= 0 ? message->incarnation : 0, why.text);
    }
}

void remote_attach(void *arg, uint32_t number)
{
    gy_driver *driver = arg;
    const lease_host *host = &driver->remote->client.hosts[number];
    REMOTE_MESSAGE(Attach, attach, message);
    attach_call *call = gy_alloc("driver.remote", sizeof(*call));
    if (call == NULL) {
        gy_driver_fail(driver, GY_NOMEM);
        return;
    }
    *call = (attach_call){driver, number, host->peer, gy_now_ns(driver->env)};
    if (remote_call(driver, host->peer, GY_NET_ATTACH, &message.base, attached, call) < 0) {
        gy_free(call); /* the host is lost if this persists */
    }
}

void remote_host_handle(gy_driver *driver, uint32_t number, gy_rpc_event event)
{
    gy_lease_client *client = &driver->remote->client;
    switch (event) {
    case GY_RPC_UP:
        gy_lease_client_host_up(client, number);
        break;
    case GY_RPC_DOWN:
        gy_lease_client_host_down(client, number, gy_error_text());
        break;
    case GY_RPC_ANEW:
        gy_lease_client_host_anew(client, number);
        break;
    case GY_RPC_DRAINED:
        client->hosts[number].is_full = false;
        remote_fetches_go_on(driver, number);
        remote_executors_go_on(driver, number);
        break;
    case GY_RPC_GONE: /* only connections that this side opened matter */
        break;
    }
}

void remote_beat(void *arg, uint32_t number)
{
    const gy_driver *driver = arg;
    REMOTE_MESSAGE(Beat, beat, message);
    /* If it is not accepted now, the next heartbeat follows in a second. */
    remote_tell(driver, driver->remote->client.hosts[number].peer, GY_NET_BEAT, &message.base);
}

uint32_t remote_host(const gy_driver *driver, uint32_t slot)
{
    const lease_executor *executor = &driver->remote->client.executors[slot];
    return executor->lease != 0 ? executor->host : GY_NONE;
}

const char *remote_folder(const gy_driver *driver, uint32_t slot)
{
    const uint32_t host = remote_host(driver, slot);
    return host != GY_NONE ? driver->remote->client.hosts[host].folder : NULL;
}

void remote_guest(const gy_driver *driver, uint32_t slot, gy_driver_guest *guest)
{
    const uint32_t number = remote_host(driver, slot);
    if (number != GY_NONE) {
        const lease_host *host = &driver->remote->client.hosts[number];
        *guest = (gy_driver_guest){
            .host = host->name, .number = number + 1, .clock_ns = host->clock_ns};
    }
}
