/* Combines two transports: shared memory within a host, TCP or MPI between hosts. */
#include "transport/tcp.h"

#include <string.h>

typedef struct hosts_transport {
    gy_transport base;
    gy_transport *near, *far;
    bool has_bell;   /* far's naps end when a peer on this host wakes the rank */
    int32_t hosts[]; /* (size) */
} hosts_transport;

static hosts_transport *hosts_of(gy_transport *transport)
{
    return (hosts_transport *)(void *)transport;
}

static gy_transport *way_to(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < transport->size);
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
    hosts->far->awaited = transport->awaited;
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
    GY_ASSERT(survival != NULL);
    hosts_transport *hosts = hosts_of(transport);
    gy_transport_survive(hosts->near, survival);
    gy_transport_survive(hosts->far, survival);
}

static gy_status hosts_check(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= -1);
    GY_ASSERT(peer < transport->size);
    hosts_transport *hosts = hosts_of(transport);
    if (peer >= 0) {
        gy_transport *way = way_to(transport, peer);
        return way->ops->check(way, peer);
    }
    GY_TRY(hosts->near->ops->check(hosts->near, -1));
    return hosts->far->ops->check(hosts->far, -1);
}

/* Far first, because it sends the text unchanged; the segment adds the rank in front of the
 * text. */
static void hosts_abort(gy_transport *transport, const gy_error *error)
{
    GY_ASSERT(error->status < 0);
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
 * The rank sleeps on its sockets and its wake-up pipe: a peer on this host writes to the pipe
 * instead of waking a futex. The rank first announces that it sleeps there; if it was woken
 * since the last announcement, it checks its conditions again before it sleeps.
 */
static bool sleep_on_both(hosts_transport *hosts, int64_t nap_ns)
{
    GY_ASSERT(nap_ns >= 0);
    gy_status status =
        hosts->has_bell ? hosts->near->ops->announce(hosts->near) : GY_UNSUPPORTED;
    if (status == GY_UNSUPPORTED) {
        return false;
    }
    hosts->far->ops->nap(hosts->far, status == GY_AGAIN ? 0 : nap_ns);
    return true;
}

/*
 * Without a pipe (MPI between hosts, or a peer that may not open this rank's pipe) a rank
 * cannot sleep on a futex and on sockets at once. With messages of other hosts under way it
 * sleeps on the sockets, and a wake-up by its host is noticed only at the end of the nap.
 */
static void hosts_nap(gy_transport *transport, int64_t nap_ns)
{
    GY_ASSERT(nap_ns >= 0);
    hosts_transport *hosts = hosts_of(transport);
    if (!sleep_on_both(hosts, nap_ns)) {
        gy_transport *way = hosts->far->ops->is_busy(hosts->far) ? hosts->far : hosts->near;
        way->ops->nap(way, nap_ns);
    }
    hosts->base.naps = hosts->far->naps;
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
    GY_ASSERT(room >= 0);
    hosts_transport *hosts = hosts_of(transport);
    int near = hosts->near->ops->absent(hosts->near, absent, room);
    int told = GY_MIN(near, room);
    return near + hosts->far->ops->absent(hosts->far, absent + told, room - told);
}

static void hosts_part(gy_transport *transport)
{
    GY_ASSERT(hosts_of(transport)->far != NULL);
    hosts_transport *hosts = hosts_of(transport);
    gy_transport_part(hosts->near);
    gy_transport_part(hosts->far);
}

static void hosts_close(gy_transport *transport)
{
    GY_ASSERT(hosts_of(transport)->near != NULL);
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
    .part = hosts_part,
    .survive = hosts_survive,
};

/* True: naps of `far` end when `near` is woken. */
static bool hang_bell(gy_transport *near, gy_transport *far)
{
    GY_ASSERT(near != far);
    int bell = -1;
    if (near->ops->hang_bell == NULL || far->ops->heed == NULL) {
        return false;
    }
    gy_status status = near->ops->hang_bell(near, &bell);
    if (status >= 0) {
        status = far->ops->heed(far, bell);
    }
    if (status < 0) {
        gy_debug("a rank of this host may wait 1 ms when it is notified: %s", gy_error_text());
    }
    return status >= 0;
}

gy_status gy_transport_hosts_open(gy_transport *near, gy_transport *far, const int32_t *hosts,
                                  gy_transport **transport)
{
    GY_ASSERT(near->size <= far->size);
    GY_ASSERT(hosts != NULL);
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
    made->has_bell = hang_bell(near, far);
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
