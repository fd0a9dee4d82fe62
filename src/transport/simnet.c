#include "transport/simnet.h"

#include "transport/failure_priv.h"
#include "transport/match_priv.h"

#include <string.h>

typedef enum frame_kind { FRAME_MESSAGE, FRAME_ABORT } frame_kind;

typedef struct frame {
    uint64_t kind, tag;
} frame;

typedef struct simnet {
    gy_transport base;
    gy_sim *sim;
    uint64_t arrived, looked; /* counts of messages, by which progress detects new ones */
    bool is_starved;
    gy_transport_failure failure;
    gy_inbox inboxes[];
} simnet;

static simnet *simnet_of(gy_transport *transport)
{
    return (simnet *)(void *)transport;
}

static void receive(void *arg, int from, const void *data, size_t size_bytes)
{
    GY_ASSERT(from >= 0);
    GY_ASSERT(from < ((const simnet *)arg)->base.size);
    simnet *net = arg;
    frame head;
    const uint8_t *bytes = data;
    GY_ASSERT(size_bytes >= sizeof(head));
    memcpy(&head, bytes, sizeof(head));
    net->arrived++;
    if (head.kind == FRAME_ABORT) {
        gy_error error;
        GY_ASSERT(size_bytes == sizeof(head) + sizeof(error));
        memcpy(&error, bytes + sizeof(head), sizeof(error));
        gy_transport_failure_keep(&net->failure, &error, (uint32_t)head.tag);
        return;
    }
    if (!gy_inbox_deliver(&net->inboxes[from], head.tag, bytes + sizeof(head),
                          size_bytes - sizeof(head))) {
        net->is_starved = true; /* out of memory: reported by the next check */
    }
}

static gy_status check_one(const simnet *net, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < net->base.size);
    if (!gy_sim_is_up(net->sim, rank)) {
        return gy_fail(GY_PEER, "rank %d is lost", rank);
    }
    return GY_OK;
}

static gy_status send_frame(simnet *net, int peer, const frame *head, const void *data,
                            size_t size_bytes)
{
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < net->base.size);
    uint8_t *bytes = gy_alloc("transport.frame", sizeof(*head) + size_bytes);
    if (bytes == NULL) {
        return GY_NOMEM;
    }
    memcpy(bytes, head, sizeof(*head));
    if (size_bytes > 0) {
        memcpy(bytes + sizeof(*head), data, size_bytes);
    }
    gy_status status =
        gy_sim_send(net->sim, net->base.rank, peer, bytes, sizeof(*head) + size_bytes);
    gy_free(bytes);
    return status;
}

static gy_status simnet_send(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->status == GY_AGAIN);
    GY_TRY(check_one(simnet_of(transport), transfer->peer));
    frame head = {.kind = FRAME_MESSAGE, .tag = transfer->tag};
    GY_TRY(send_frame(simnet_of(transport), transfer->peer, &head, transfer->data,
                      transfer->size_bytes));
    gy_transfer_end(transfer, GY_OK); /* the data were copied */
    return GY_OK;
}

static gy_status simnet_recv(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    gy_inbox_post(&simnet_of(transport)->inboxes[transfer->peer], transfer);
    return GY_OK;
}

static gy_status simnet_progress(gy_transport *transport)
{
    GY_ASSERT(simnet_of(transport)->looked <= simnet_of(transport)->arrived);
    simnet *net = simnet_of(transport);
    bool has_moved = net->arrived != net->looked;
    net->looked = net->arrived;
    return has_moved ? GY_OK : GY_AGAIN;
}

static void simnet_cancel(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    gy_inbox_cancel(&simnet_of(transport)->inboxes[transfer->peer], transfer);
}

static gy_status simnet_aborted(gy_transport *transport)
{
    const simnet *net = simnet_of(transport);
    return gy_transport_failure_raise(&net->failure, transport->survival.epoch);
}

static gy_status simnet_check(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= -1);
    GY_ASSERT(peer < transport->size);
    const simnet *net = simnet_of(transport);
    if (net->is_starved) {
        return gy_fail(GY_NOMEM, "rank %d has no memory for a message that it got",
                       transport->rank);
    }
    for (int rank = 0; rank < transport->size; rank++) {
        if (rank == peer || (peer < 0 && !gy_transport_is_lost(transport, rank))) {
            GY_TRY(check_one(net, rank));
        }
    }
    return GY_OK;
}

static void simnet_abort(gy_transport *transport, const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    simnet *net = simnet_of(transport);
    gy_transport_failure_say(&net->failure, error, transport->rank, transport->survival.epoch);
    frame head = {.kind = FRAME_ABORT, .tag = transport->survival.epoch};
    for (int rank = 0; rank < transport->size; rank++) {
        if (rank != transport->rank && gy_sim_is_up(net->sim, rank)) {
            /* A rank that cannot be informed notices by its deadline. */
            (void)send_frame(net, rank, &head, &net->failure.error, sizeof(net->failure.error));
        }
    }
}

static bool simnet_has_joined(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < transport->size);
    return gy_sim_is_listening(simnet_of(transport)->sim, peer);
}

static void simnet_nap(gy_transport *transport, int64_t nap_ns)
{
    GY_ASSERT(nap_ns >= 0);
    simnet *net = simnet_of(transport);
    gy_sim_run_until(net->sim, gy_sim_now_ns(net->sim) + nap_ns);
}

static void simnet_close(gy_transport *transport)
{
    GY_ASSERT(simnet_of(transport)->sim != NULL);
    simnet *net = simnet_of(transport);
    gy_sim_listen(net->sim, transport->rank, NULL, NULL);
    for (int rank = 0; rank < transport->size; rank++) {
        gy_inbox_fini(&net->inboxes[rank]);
    }
    gy_free(net);
}

static const gy_transport_ops simnet_ops = {
    .name = "sim",
    .close = simnet_close,
    .send = simnet_send,
    .recv = simnet_recv,
    .progress = simnet_progress,
    .cancel = simnet_cancel,
    .aborted = simnet_aborted,
    .check = simnet_check,
    .abort = simnet_abort,
    .has_joined = simnet_has_joined,
    .nap = simnet_nap,
};

gy_status gy_transport_simnet_open(gy_sim *sim, int rank, gy_transport **transport)
{
    GY_ASSERT(sim != NULL);
    GY_ASSERT(transport != NULL);
    int size = gy_sim_nodes(sim);
    if (rank < 0 || rank >= size) {
        return gy_fail(GY_ARG, "rank %d does not exist: the sim has nodes 0 to %d", rank,
                       size - 1);
    }
    if (gy_sim_is_listening(sim, rank)) {
        return gy_fail(GY_EXISTS, "rank %d's place in the sim is taken", rank);
    }
    simnet *net =
        gy_alloc_zero("transport.simnet", 1, sizeof(simnet) + (size_t)size * sizeof(gy_inbox));
    if (net == NULL) {
        return GY_NOMEM;
    }
    net->sim = sim;
    net->base = (gy_transport){.ops = &simnet_ops,
                               .env = gy_sim_env(sim, rank),
                               .rank = rank,
                               .size = size,
                               .host_ranks = 1};
    for (int peer = 0; peer < size; peer++) {
        net->inboxes[peer].survival = &net->base.survival;
    }
    gy_sim_listen(sim, rank, receive, net);
    *transport = &net->base;
    return GY_OK;
}
