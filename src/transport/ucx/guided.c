/* Combines two transports: one carries messages, the other (the guide) handles membership and
 * failures. */
#include "transport/ucx_priv.h"

/* Messages of a rank may arrive later than the guide's report that the rank has left. */
#define LAST_NOTES_S 0.1

typedef struct guided_transport {
    gy_transport base;
    gy_transport *guide, *data;
    int64_t missed_ns[]; /* (size) when the guide first reported the rank as gone; 0: not yet */
} guided_transport;

static guided_transport *guided_of(gy_transport *transport)
{
    return (guided_transport *)(void *)transport;
}

static gy_status guided_send(gy_transport *transport, gy_transfer *transfer)
{
    gy_transport *data = guided_of(transport)->data;
    return data->ops->send(data, transfer);
}

static gy_status guided_recv(gy_transport *transport, gy_transfer *transfer)
{
    gy_transport *data = guided_of(transport)->data;
    return data->ops->recv(data, transfer);
}

static gy_status guided_progress(gy_transport *transport)
{
    guided_transport *guided = guided_of(transport);
    gy_status watched = guided->guide->ops->progress(guided->guide);
    gy_status moved = guided->data->ops->progress(guided->data);
    return watched == GY_OK || moved == GY_OK ? GY_OK : GY_AGAIN;
}

static void guided_cancel(gy_transport *transport, gy_transfer *transfer)
{
    gy_transport *data = guided_of(transport)->data;
    data->ops->cancel(data, transfer);
}

static gy_status guided_aborted(gy_transport *transport)
{
    guided_transport *guided = guided_of(transport);
    GY_TRY(guided->guide->ops->aborted(guided->guide));
    return guided->data->ops->aborted(guided->data);
}

/* The data transport knows best whether messages of a rank are missing, but may not know the
 * rank at all. */
static bool may_speak(guided_transport *guided, int peer)
{
    int64_t now_ns = gy_now_ns(guided->base.env), *missed_ns = &guided->missed_ns[peer];
    *missed_ns = *missed_ns == 0 ? now_ns : *missed_ns;
    return (double)(now_ns - *missed_ns) * 1e-9 < LAST_NOTES_S;
}

static gy_status guided_check(gy_transport *transport, int peer)
{
    guided_transport *guided = guided_of(transport);
    gy_status heard = guided->guide->ops->check(guided->guide, peer);
    if (heard < 0 && (peer < 0 || !may_speak(guided, peer))) {
        return heard;
    }
    return guided->data->ops->check(guided->data, peer);
}

static void guided_abort(gy_transport *transport, const gy_error *error)
{
    gy_transport *guide = guided_of(transport)->guide, *data = guided_of(transport)->data;
    guide->ops->abort(guide, error);
    data->ops->abort(data, error); /* messages that nobody receives must not delay its close */
}

static bool guided_has_joined(gy_transport *transport, int peer)
{
    gy_transport *guide = guided_of(transport)->guide;
    return guide->ops->has_joined(guide, peer);
}

/* Nothing wakes a rank when a message arrives, so while a message is awaited the rank polls. */
static void guided_nap(gy_transport *transport, int64_t nap_ns)
{
    guided_transport *guided = guided_of(transport);
    bool is_busy = guided->data->ops->is_busy(guided->data);
    guided->guide->ops->nap(guided->guide, is_busy ? 0 : nap_ns);
    if (is_busy) {
        guided->data->ops->nap(guided->data, nap_ns);
    }
}

static void guided_wake(gy_transport *transport, int peer)
{
    gy_transport_wake(guided_of(transport)->guide, peer);
}

static bool guided_is_busy(const gy_transport *transport)
{
    const guided_transport *guided = (const guided_transport *)(const void *)transport;
    return guided->data->ops->is_busy(guided->data);
}

static int guided_absent(gy_transport *transport, gy_absent *absent, int room)
{
    gy_transport *guide = guided_of(transport)->guide;
    return guide->ops->absent(guide, absent, room);
}

static void guided_survive(gy_transport *transport, const gy_survival *survival)
{
    gy_transport_survive(guided_of(transport)->guide, survival);
    gy_transport_survive(guided_of(transport)->data, survival);
}

static void guided_close(gy_transport *transport)
{
    guided_transport *guided = guided_of(transport);
    gy_transport_close(guided->data);
    gy_transport_close(guided->guide);
    gy_free(guided);
}

static const gy_transport_ops guided_ops = {
    .name = "ucx",
    .close = guided_close,
    .send = guided_send,
    .recv = guided_recv,
    .progress = guided_progress,
    .cancel = guided_cancel,
    .aborted = guided_aborted,
    .check = guided_check,
    .abort = guided_abort,
    .has_joined = guided_has_joined,
    .nap = guided_nap,
    .wake = guided_wake,
    .is_busy = guided_is_busy,
    .absent = guided_absent,
    .survive = guided_survive,
};

gy_status gy_transport_guided_open(gy_transport *guide, gy_transport *data,
                                   gy_transport **transport)
{
    guided_transport *made = gy_alloc_zero(
        "transport.guided", 1, sizeof(*made) + (size_t)guide->size * sizeof(int64_t));
    if (made == NULL) {
        gy_transport_close(data);
        gy_transport_close(guide);
        return GY_NOMEM;
    }
    GY_ASSERT(guide->rank == data->rank);
    GY_ASSERT(guide->size == data->size);
    GY_ASSERT(guide->ops->absent != NULL);
    GY_ASSERT(data->ops->is_busy != NULL);
    made->guide = guide;
    made->data = data;
    made->base = (gy_transport){.ops = &guided_ops,
                                .env = guide->env,
                                .rank = guide->rank,
                                .size = guide->size,
                                .host_ranks = guide->host_ranks,
                                .is_oversubscribed = guide->is_oversubscribed,
                                .records = guide->records,
                                .first_recorded = guide->first_recorded,
                                .recorded_ranks = guide->recorded_ranks};
    *transport = &made->base;
    return GY_OK;
}
