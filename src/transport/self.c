#include "transport/transport.h"

#include "transport/match_priv.h"

typedef struct self_transport {
    gy_transport base;
    gy_inbox inbox;
    gy_transfer *sends; /* sends that did not fit into the inbox */
    bool is_aborted;
    gy_error error;
} self_transport;

static self_transport *self_of(gy_transport *transport)
{
    return (self_transport *)(void *)transport;
}

static void self_close(gy_transport *transport)
{
    gy_transport_transfers_end(&self_of(transport)->sends, GY_STATE);
    gy_inbox_fini(&self_of(transport)->inbox);
    gy_free(transport);
}

static gy_status self_progress(gy_transport *transport)
{
    self_transport *self = self_of(transport);
    return gy_transport_transfers_deliver(&self->sends, &self->inbox) ? GY_OK : GY_AGAIN;
}

static gy_status self_send(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer == 0);
    GY_ASSERT(transfer->status == GY_AGAIN);
    gy_transport_transfers_push(&self_of(transport)->sends, transfer);
    (void)self_progress(transport);
    return GY_OK;
}

static gy_status self_recv(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer == 0);
    GY_ASSERT(transfer->status == GY_AGAIN);
    gy_inbox_post(&self_of(transport)->inbox, transfer);
    return GY_OK;
}

static void self_cancel(gy_transport *transport, gy_transfer *transfer)
{
    GY_ASSERT(transfer->peer == 0);
    GY_ASSERT(transfer->status == GY_AGAIN);
    self_transport *self = self_of(transport);
    (void)gy_transport_transfers_cancel(&self->sends, &self->inbox, transfer, false);
}

static gy_status self_check(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= -1);
    GY_ASSERT(peer <= 0);
    (void)transport;
    (void)peer;
    return GY_OK;
}

static gy_status self_aborted(gy_transport *transport)
{
    GY_ASSERT(!self_of(transport)->is_aborted || self_of(transport)->error.status < 0);
    const self_transport *self = self_of(transport);
    return self->is_aborted ? gy_error_raise(&self->error) : GY_OK;
}

static void self_abort(gy_transport *transport, const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    self_transport *self = self_of(transport);
    if (!self->is_aborted) {
        self->error = *error;
        self->is_aborted = true;
    }
}

static bool self_has_joined(gy_transport *transport, int peer)
{
    GY_ASSERT(peer == 0);
    (void)transport;
    (void)peer;
    return true;
}

static void self_nap(gy_transport *transport, int64_t nap_ns)
{
    GY_ASSERT(nap_ns >= 0);
    (void)nap_ns;
    transport->env->ops->pause(transport->env, UINT64_MAX);
}

static const gy_transport_ops self_ops = {
    .name = "self",
    .close = self_close,
    .send = self_send,
    .recv = self_recv,
    .progress = self_progress,
    .cancel = self_cancel,
    .aborted = self_aborted,
    .check = self_check,
    .abort = self_abort,
    .has_joined = self_has_joined,
    .nap = self_nap,
};

gy_status gy_transport_self_open(gy_env *env, gy_transport **transport)
{
    GY_ASSERT(env != NULL);
    GY_ASSERT(transport != NULL);
    self_transport *self = gy_alloc_zero("transport.self", 1, sizeof(*self));
    if (self == NULL) {
        return GY_NOMEM;
    }
    self->base =
        (gy_transport){.ops = &self_ops, .env = env, .rank = 0, .size = 1, .host_ranks = 1};
    *transport = &self->base;
    return GY_OK;
}
