#include "transport/transport.h"

#include "transport/match_priv.h"

#include <stdio.h>

gy_status gy_transport_protocol_check(const char *who, int64_t theirs)
{
    GY_ASSERT(who != NULL);
    GY_ASSERT(who[0] != '\0');
    return theirs == GY_RANK_PROTOCOL
               ? GY_OK
               : gy_fail(GY_FORMAT,
                         "%s has rank protocol %lld, this process %d (gyre %s): expected one "
                         "version of Gyre for all ranks of a launch and their launcher",
                         who, (long long)theirs, GY_RANK_PROTOCOL, GYRE_VERSION);
}

enum { ABSENT_NAMED = 8, ABSENT_TEXT = 512 };

static gy_status start(gy_transport *transport, gy_transfer *transfer, gy_transfer what,
                       gy_status (*begin)(gy_transport *, gy_transfer *))
{
    GY_ASSERT(begin != NULL);
    GY_ASSERT(what.status == GY_AGAIN);
    if (what.peer < 0 || what.peer >= transport->size) {
        return gy_fail(GY_ARG, "rank %d does not exist: expected 0 to %d", what.peer,
                       transport->size - 1);
    }
    GY_ASSERT(what.data != NULL || what.size_bytes == 0);
    *transfer = what;
    gy_status status = begin(transport, transfer);
    if (status < 0) {
        transfer->status = status;
    }
    return status;
}

static gy_status start_send(gy_transport *transport, gy_transfer *transfer,
                            const gy_transfer *what, const void *data)
{
    /* A transfer serves both directions, so its pointer cannot be const; a send only reads. */
    gy_transfer full = *what;
    full.data = (uint8_t *)(uintptr_t)data;
    return start(transport, transfer, full, transport->ops->send);
}

gy_status gy_transport_send(gy_transport *transport, int peer, uint64_t tag, const void *data,
                            size_t size_bytes, gy_transfer *transfer)
{
    GY_ASSERT(transfer != NULL);
    gy_transfer what = {.status = GY_AGAIN, .size_bytes = size_bytes, .peer = peer, .tag = tag};
    return start_send(transport, transfer, &what, data);
}

gy_status gy_transport_send_soon(gy_transport *transport, int peer, uint64_t tag,
                                 const void *data, size_t size_bytes, gy_transfer *transfer)
{
    GY_ASSERT(transfer != NULL);
    gy_transfer what = {.status = GY_AGAIN,
                        .size_bytes = size_bytes,
                        .peer = peer,
                        .may_wait = true,
                        .tag = tag};
    return start_send(transport, transfer, &what, data);
}

gy_status gy_transport_post(gy_transport *transport, int peer, uint64_t tag, const void *data,
                            size_t size_bytes)
{
    GY_ASSERT(data != NULL || size_bytes == 0);
    const gy_transfer what = {.status = GY_AGAIN,
                              .size_bytes = size_bytes,
                              .peer = peer,
                              .tag = tag,
                              .data = (uint8_t *)(uintptr_t)data};
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < transport->size);
    gy_transfer *copy = gy_transfer_orphan(&what);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    gy_status status = transport->ops->send(transport, copy);
    if (status < 0) {
        gy_free(copy);
    }
    return status;
}

gy_status gy_transport_recv(gy_transport *transport, int peer, uint64_t tag, void *data,
                            size_t size_bytes, gy_transfer *transfer)
{
    GY_ASSERT(transfer != NULL);
    gy_transfer what = {
        .status = GY_AGAIN, .size_bytes = size_bytes, .peer = peer, .tag = tag, .data = data};
    return start(transport, transfer, what, transport->ops->recv);
}

gy_status gy_transport_recv_any(gy_transport *transport, gy_transport_any *any, uint64_t tag,
                                void *data, size_t size_bytes)
{
    gy_status last = GY_OK;
    int started = 0;
    GY_ASSERT(any->count > 0);
    GY_ASSERT(any->transfers != NULL);
    any->is_taken = false;
    for (int i = 0; i < any->count; i++) {
        gy_transfer what = {.status = GY_AGAIN,
                            .size_bytes = size_bytes,
                            .peer = any->peers != NULL ? any->peers[i] : i,
                            .tag = tag,
                            .data = data,
                            .is_taken = &any->is_taken};
        gy_status status = start(transport, &any->transfers[i], what, transport->ops->recv);
        last = status < 0 ? status : last;
        started += status >= 0;
    }
    return started > 0 ? GY_OK : last;
}

gy_status gy_transport_any_end(const gy_transport_any *any, int *index)
{
    GY_ASSERT(any->count > 0);
    GY_ASSERT(any->transfers != NULL);
    gy_status last = GY_AGAIN;
    int gone = 0;
    for (int i = 0; i < any->count; i++) {
        const gy_transfer *transfer = &any->transfers[i];
        bool has_message = transfer->status == GY_OK || transfer->status == GY_MISMATCH;
        bool is_broken = transfer->status < 0 && transfer->is_matched;
        if (has_message || is_broken) {
            GY_ASSERT(any->is_taken);
            *index = i;
            return transfer->status;
        }
        last = transfer->status < 0 ? transfer->status : last;
        gone += transfer->status < 0;
    }
    GY_ASSERT(gone <= any->count);
    return gone == any->count ? last : GY_AGAIN;
}

void gy_transport_any_cancel(gy_transport *transport, gy_transport_any *any)
{
    GY_ASSERT(any->count >= 0);
    GY_ASSERT(any->transfers != NULL || any->count == 0);
    for (int i = 0; i < any->count; i++) {
        gy_transport_cancel(transport, &any->transfers[i]);
    }
}

gy_status gy_transport_progress(gy_transport *transport)
{
    GY_ASSERT(transport->ops->progress != NULL);
    return transport->ops->progress(transport);
}

void gy_transport_cancel(gy_transport *transport, gy_transfer *transfer)
{
    if (transfer->status == GY_AGAIN) {
        GY_ASSERT(transfer->peer >= 0);
        GY_ASSERT(transfer->peer < transport->size);
        transport->ops->cancel(transport, transfer);
        transfer->status = GY_CANCELLED;
    }
}

gy_status gy_transport_finish(gy_transport *transport, gy_transfer *transfer,
                              gy_deadline deadline)
{
    GY_ASSERT(transfer->peer >= 0);
    GY_ASSERT(transfer->peer < transport->size);
    gy_wait wait = gy_wait_start(transport, transfer->peer, "message", deadline);
    while (transfer->status == GY_AGAIN) {
        if (transport->ops->progress(transport) == GY_OK) {
            continue;
        }
        gy_status status = gy_wait_round(&wait);
        if (status < 0) {
            gy_transport_cancel(transport, transfer);
            return status;
        }
    }
    if (transfer->status == GY_MISMATCH) {
        return gy_fail(GY_MISMATCH, "rank %d sent %zu bytes where fewer were expected",
                       transfer->peer, transfer->size_bytes);
    }
    return transfer->status;
}

gy_status gy_transport_check(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= -1);
    GY_ASSERT(peer < transport->size);
    GY_TRY(transport->ops->aborted(transport));
    return transport->ops->check(transport, peer);
}

/* "rank 3 is stopped, rank 5 does not answer for 1.2 s" */
static const char *absent_text(const gy_absent *absent, int count, char out[ABSENT_TEXT])
{
    GY_ASSERT(count > 0);
    gy_text text = {.data = NULL};
    for (int i = 0; i < GY_MIN(count, (int)ABSENT_NAMED); i++) {
        gy_text_add(&text, "%srank %d ", i > 0 ? ", " : "", absent[i].rank);
        if (absent[i].is_stopped) {
            gy_text_add(&text, "is stopped");
        } else {
            gy_text_add(&text, "does not answer for %.1f s", absent[i].seconds);
        }
    }
    if (count > ABSENT_NAMED) {
        gy_text_add(&text, " and %d more", count - ABSENT_NAMED);
    }
    return gy_text_move(&text, out, ABSENT_TEXT);
}

gy_status gy_transport_look(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < transport->size);
    (void)transport->ops->aborted(transport); /* also reads the network */
    return transport->ops->check(transport, peer);
}

void gy_transport_survive(gy_transport *transport, const gy_survival *survival)
{
    GY_ASSERT(survival != NULL);
    transport->survival = *survival;
    if (transport->ops->survive != NULL) {
        transport->ops->survive(transport, survival);
    }
}

void gy_transport_part(gy_transport *transport)
{
    GY_ASSERT(transport != NULL);
    if (transport->ops->part != NULL) {
        transport->ops->part(transport);
    }
}

gy_status gy_transport_blame(gy_transport *transport, gy_status status)
{
    GY_ASSERT(status < 0);
    gy_absent absent[ABSENT_NAMED];
    gy_error error;
    char text[ABSENT_TEXT];
    if (transport->ops->absent == NULL) {
        return status;
    }
    gy_error_take(&error, status);
    int count = transport->ops->absent(transport, absent, ABSENT_NAMED);
    GY_TRY(gy_transport_check(transport, -1));
    (void)gy_error_raise(&error);
    return count > 0 ? gy_fail_within(status, "%s", absent_text(absent, count, text)) : status;
}

void gy_transport_abort(gy_transport *transport, const gy_error *error)
{
    GY_ASSERT(error->status < 0);
    transport->ops->abort(transport, error);
}

static gy_status meet(gy_transport *transport, gy_deadline deadline)
{
    GY_ASSERT(transport->size > 0);
    for (int peer = 0; peer < transport->size; peer++) {
        char what[48];
        snprintf(what, sizeof(what), "rank %d to join", peer);
        gy_wait wait = gy_wait_start(transport, -1, what, deadline);
        while (!transport->ops->has_joined(transport, peer)) {
            GY_TRY(gy_wait_round(&wait));
        }
    }
    return GY_OK;
}

/* A rank that joins later must neither count this one as a member nor wait for it. */
gy_status gy_transport_meet(gy_transport *transport, gy_deadline deadline)
{
    GY_ASSERT(!transport->has_given_up);
    gy_status status = meet(transport, deadline);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        transport->has_given_up = true;
        gy_transport_abort(transport, &error);
        status = gy_error_raise(&error);
    }
    return status;
}

void gy_transport_wake(gy_transport *transport, int peer)
{
    GY_ASSERT(peer >= 0);
    GY_ASSERT(peer < transport->size);
    if (transport->ops->wake != NULL) {
        transport->ops->wake(transport, peer);
    }
}

const gy_shared *gy_transport_shared(const gy_transport *transport)
{
    GY_ASSERT(transport != NULL);
    return transport->shared;
}
