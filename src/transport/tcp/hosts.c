/* One transport over two: shared memory inside a host, TCP or MPI between hosts. */
#include "transport/tcp.h"

#include <string.h>

typedef struct hosts_transport {
    gy_transport base;
    gy_transport *near, *far;
    int32_t hosts[]; /* (size) */
} hosts_transport;

static hosts_transport *hosts_of(gy_transport *transport)
{
    return (hosts_transport *)(void *)transport;
}

static gy_transport *way_to(gy_transport *transport, int peer)
{
    const hosts_transport *hosts = hosts_of(transport);
    return hosts->hosts[peer] == hosts->hosts[transport->rank] ? hosts->near : hosts->far;
}

static gy_status hosts_send(gy_transport *transport, gy_transfer *transfer)
{
    gy_transport *way = way_to(transport, transfer->peer);
    return way->ops->send(way, transfer);
}

static gy_status hosts_recv(gy_transport *transport, gy_transfer *transfer)
{
    gy_transport *way = way_to(transport, transfer->peer);
    return way->ops->recv(way, transfer);
}

static gy_status hosts_progress(gy_transport *transport)
{
    hosts_transport *hosts = hosts_of(transport);
    gy_status near = hosts->near->ops->progress(hosts->near);
    gy_status far = hosts->far->ops->progress(hosts->far);
    return near == GY_OK || far == GY_OK ? GY_OK : GY_AGAIN;
}

static void hosts_cancel(gy_transport *transport, gy_transfer *transfer)
{
    gy_transport *way = way_to(transport, transfer->peer);
    way->ops->cancel(way, transfer);
}

static gy_status hosts_aborted(gy_transport *transport)
{
    hosts_transport *hosts = hosts_of(transport);
    GY_TRY(hosts->near->ops->aborted(hosts->near));
    return hosts->far->ops->aborted(hosts->far);
}

static void hosts_survive(gy_transport *transport, const gy_survival *survival)
{
    hosts_transport *hosts = hosts_of(transport);
    gy_transport_survive(hosts->near, survival);
    gy_transport_survive(hosts->far, survival);
}

static gy_status hosts_check(gy_transport *transport, int peer)
{
    hosts_transport *hosts = hosts_of(transport);
    if (peer >= 0) {
        gy_transport *way = way_to(transport, peer);
        return way->ops->check(way, peer);
    }
    GY_TRY(hosts->near->ops->check(hosts->near, -1));
    return hosts->far->ops->check(hosts->far, -1);
}

/* Far first: it has the words as they are, the segment puts the rank before them once more. */
static void hosts_abort(gy_transport *transport, const gy_error *error)
{
    hosts_transport *hosts = hosts_of(transport);
    hosts->far->ops->abort(hosts->far, error);
    hosts->near->ops->abort(hosts->near, error);
}

static bool hosts_has_joined(gy_transport *transport, int peer)
{
    gy_transport *way = way_to(transport, peer);
    return way->ops->has_joined(way, peer);
}

/*
 * Nobody can sleep on a word and on sockets at once: with messages of other hosts under way the
 * rank sleeps on the sockets, and a ring of its host waits for the end of the nap.
 */
static void hosts_nap(gy_transport *transport, int64_t nap_ns)
{
    hosts_transport *hosts = hosts_of(transport);
    gy_transport *way = hosts->far->ops->is_busy(hosts->far) ? hosts->far : hosts->near;
    way->ops->nap(way, nap_ns);
}

static void hosts_wake(gy_transport *transport, int peer)
{
    gy_transport *way = way_to(transport, peer);
    if (way->ops->wake != NULL) {
        way->ops->wake(way, peer);
    }
}

static int hosts_absent(gy_transport *transport, gy_absent *absent, int room)
{
    hosts_transport *hosts = hosts_of(transport);
    int near = hosts->near->ops->absent(hosts->near, absent, room);
    int told = GY_MIN(near, room);
    return near + hosts->far->ops->absent(hosts->far, absent + told, room - told);
}

static void hosts_close(gy_transport *transport)
{
    hosts_transport *hosts = hosts_of(transport);
    gy_transport_close(hosts->far);
    gy_transport_close(hosts->near);
    gy_free(hosts);
}

static const gy_transport_ops hosts_ops = {
    .name = "hosts",
    .close = hosts_close,
    .send = hosts_send,
    .recv = hosts_recv,
    .progress = hosts_progress,
    .cancel = hosts_cancel,
    .aborted = hosts_aborted,
    .check = hosts_check,
    .abort = hosts_abort,
    .has_joined = hosts_has_joined,
    .nap = hosts_nap,
    .wake = hosts_wake,
    .absent = hosts_absent,
    .survive = hosts_survive,
};

gy_status gy_hosts_open(gy_transport *near, gy_transport *far, const int32_t *hosts,
                        gy_transport **transport)
{
    size_t size = (size_t)far->size;
    hosts_transport *made =
        gy_alloc_zero("transport.hosts", 1, sizeof(*made) + size * sizeof(*hosts));
    if (made == NULL) {
        gy_transport_close(far);
        gy_transport_close(near);
        return GY_NOMEM;
    }
    GY_ASSERT(near->rank == far->rank);
    made->near = near;
    made->far = far;
    memcpy(made->hosts, hosts, size * sizeof(*hosts));
    made->base = (gy_transport){.ops = &hosts_ops,
                                .env = far->env,
                                .rank = far->rank,
                                .size = far->size,
                                .host_ranks = near->host_ranks,
                                .is_oversubscribed = near->is_oversubscribed,
                                .hosts = made->hosts,
                                .shared = near->shared,
                                .records = near->records,
                                .first_recorded = near->first_recorded,
                                .recorded_ranks = near->recorded_ranks};
    *transport = &made->base;
    return GY_OK;
}
