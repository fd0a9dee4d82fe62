/* Joins the other ranks with the launcher's ticket. */
#include "transport/rendezvous.h"
#include "transport/tcp.h"
#include "transport/ucx_priv.h"

#include <string.h>
#include <unistd.h>

/* UCX neither authenticates nor encrypts, so it is used beyond the loopback only on explicit
 * request. */
static gy_status check_ucx(const gy_run_net *net, bool *is_loopback)
{
    *is_loopback = true;
    for (int rank = 0; rank < net->size; rank++) {
        *is_loopback = *is_loopback && gy_address_is_loopback(&net->endpoints[rank].address);
    }
    return *is_loopback || !net->has_key
               ? GY_OK
               : gy_fail(GY_ARG, "GYRE_TRANSPORT is \"ucx\", which proves no identity and "
                                 "encrypts nothing: between hosts it needs --plaintext");
}

static gy_status go_by_ucx(const gy_run_net *net, gy_transport **far)
{
    gy_ucx_options options = {.near_first = net->first_rank,
                              .near_count = net->is_shared ? net->host_ranks : 0};
    gy_status status = check_ucx(net, &options.is_loopback);
    if (status < 0) {
        gy_transport_close(*far);
        return status;
    }
    return gy_ucx_open(&options, *far, far);
}

/* Join ranks on several hosts, or on one host over TCP only. */
static gy_status join_net(gy_run_ticket *ticket, bool is_ucx, gy_env *env,
                          gy_transport **transport)
{
    const gy_run_net *net = ticket->net;
    int rank = ticket->place.rank, segment = ticket->segment, listener = ticket->listener;
    ticket->listener = -1;
    int size = net->size;
    gy_transport *near = NULL, *far = NULL;
    gy_address *addresses = gy_alloc_zero("transport.net", (size_t)size, sizeof(*addresses));
    int32_t *hosts = gy_alloc_zero("transport.net", (size_t)size, sizeof(*hosts));
    gy_tcp_options options = {.rank = rank,
                              .size = size,
                              .addresses = addresses,
                              .hosts = net->is_shared ? hosts : NULL,
                              .listener = listener,
                              .key = net->has_key ? &net->key : NULL,
                              .host_ranks = net->host_ranks,
                              .host_cores = net->host_cores};
    memcpy(options.run, net->run, sizeof(options.run));
    gy_status status = addresses == NULL || hosts == NULL ? GY_NOMEM : GY_OK;
    for (int i = 0; i < size && status >= 0; i++) {
        addresses[i] = net->endpoints[i].address;
        hosts[i] = net->endpoints[i].host;
    }
    if (status < 0) {
        close(listener);
    } else {
        status = gy_tcp_open(&options, env, &far);
    }
    if (status >= 0 && is_ucx) {
        status = go_by_ucx(net, &far);
    }
    if (status >= 0 && net->is_shared) {
        status = gy_transport_shm_open(segment, rank - net->first_rank, env, &near);
        if (status < 0) {
            gy_transport_close(far);
        } else {
            status = gy_transport_hosts_open(near, far, hosts, &far);
        }
    } else if (status >= 0) {
        status = gy_transport_record(far, segment);
        if (status < 0) {
            gy_transport_close(far);
        }
    }
    gy_free(addresses);
    gy_free(hosts);
    if (status >= 0) {
        *transport = far;
    }
    return status;
}

gy_status gy_run_ticket_join(gy_run_ticket *ticket, bool is_ucx, gy_env *env,
                             gy_transport **transport)
{
    if (is_ucx && ticket->place.is_renewable) {
        return gy_fail(
            GY_UNSUPPORTED,
            "GYRE_TRANSPORT is \"ucx\": ranks that are restarted use shared memory and TCP");
    }
    if (ticket->net != NULL) {
        return join_net(ticket, is_ucx, env, transport);
    }
    GY_TRY(gy_transport_shm_open(ticket->segment, ticket->place.rank, env, transport));
    return is_ucx ? gy_ucx_open(&(gy_ucx_options){.is_loopback = true}, *transport, transport)
                  : GY_OK;
}
