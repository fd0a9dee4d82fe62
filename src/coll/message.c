/* Point-to-point messages: the transport's messages, tagged with the communicator slot and the
 * user's tag. They take no number; the communicator drives them beside its collectives and
 * fails them with it. */
#include "coll/record_priv.h"

#include "tensor/tensor.h"

/* The tag has the epoch's parity, a 1, the communicator slot, the slot's life and the user's
 * tag. So it differs from all tags of collectives; it differs from those of agreements, since a
 * user's tag is not negative. */
static uint64_t message_tag(const gy_comm *comm, int tag)
{
    GY_ASSERT(tag >= 0);
    GY_ASSERT(comm->comm_slot >= 0 && comm->comm_slot < GY_COMM_SLOTS);
    return gy_parity_of(comm) | UINT64_C(1) << 62 | (uint64_t)comm->comm_slot << 56 |
           (uint64_t)(comm->life & 0xffffff) << 32 | (uint32_t)tag;
}

static size_t bytes_of(const gy_message *message)
{
    GY_ASSERT(gy_dtype_is_element(message->dtype));
    return message->count * gy_dtype_bytes(message->dtype);
}

gy_status gy_message_check(const gy_comm *comm, gy_coll_kind kind, const gy_message *message)
{
    GY_ASSERT(kind == GY_COLL_SEND || kind == GY_COLL_RECV);
    bool is_any = kind == GY_COLL_RECV && message->peer == GY_ANY_SOURCE;
    if (!gy_dtype_is_element(message->dtype)) {
        return gy_fail(GY_ARG, "message: element type %d does not exist", (int)message->dtype);
    }
    if (!is_any && (message->peer < 0 || message->peer >= comm->size)) {
        return gy_fail(GY_ARG, "message: rank %d, expected 0 to %d", message->peer,
                       comm->size - 1);
    }
    if (message->tag < 0) {
        return gy_fail(GY_ARG, "message: tag %d, expected 0 or more", message->tag);
    }
    if (message->count > SIZE_MAX / 16 || (message->count > 0 && message->data == NULL)) {
        return gy_fail(GY_ARG, "message: %zu elements at %s", message->count,
                       message->data == NULL ? "NULL" : "an address");
    }
    if (message->timeout_s < 0) {
        return gy_fail(GY_ARG, "message: a timeout of %g s", message->timeout_s);
    }
    return GY_OK;
}

static gy_status launch_any(gy_coll *coll, uint64_t tag)
{
    const gy_comm *comm = coll->comm;
    gy_transport_any *any = &coll->any;
    GY_ASSERT(gy_message_is_any(coll));
    GY_ASSERT(coll->stage == GY_COLL_RUNS);
    if (any->transfers == NULL) {
        any->transfers = gy_alloc_zero("coll.any", (size_t)comm->size, sizeof(*any->transfers));
        if (any->transfers == NULL) {
            return GY_NOMEM;
        }
    }
    any->peers = comm->ranks;
    any->count = comm->size;
    return gy_transport_recv_any(comm->transport, any, tag, coll->message.data,
                                 bytes_of(&coll->message));
}

gy_status gy_message_launch(gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    const gy_message *message = &coll->message;
    bool is_any = gy_message_is_any(coll);
    GY_ASSERT(coll->kind != GY_COLL_COLLECTIVE);
    GY_ASSERT(coll->stage == GY_COLL_RESERVED && coll->number == UINT64_MAX);
    GY_ASSERT(coll->end != NULL);
    GY_ASSERT(is_any || (message->peer >= 0 && message->peer < comm->size));
    int peer = is_any ? -1 : gy_comm_peer(comm, message->peer);
    uint64_t tag = message_tag(comm, message->tag);
    coll->peer = message->peer == comm->rank ? -1 : peer;
    gy_coll_launch(coll);
    coll->stage = GY_COLL_RUNS;
    coll->is_agreed = true; /* nothing to compare */
    gy_coll_check(coll);
    if (is_any) {
        return launch_any(coll, tag);
    }
    return coll->kind == GY_COLL_SEND
               ? gy_transport_send(comm->transport, peer, tag, message->data, bytes_of(message),
                                   &coll->signatures[0])
               : gy_transport_recv(comm->transport, peer, tag, message->data, bytes_of(message),
                                   &coll->signatures[0]);
}

gy_status gy_message_check_senders(const gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    gy_status last = GY_OK;
    GY_ASSERT(gy_message_is_any(coll));
    GY_ASSERT(coll->any.count == comm->size);
    if (coll->any.is_taken || comm->size == 1) {
        return GY_OK;
    }
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank != comm->rank) {
            last = gy_transport_check(comm->transport, gy_comm_peer(comm, rank));
            if (last >= 0) {
                return GY_OK;
            }
        }
    }
    return last;
}

gy_status gy_message_step(gy_coll *coll)
{
    const gy_transfer *transfer = &coll->signatures[0];
    const gy_message *message = &coll->message;
    size_t element = gy_dtype_bytes(message->dtype), wanted = bytes_of(message);
    int source = message->peer;
    GY_ASSERT(coll->kind != GY_COLL_COLLECTIVE);
    GY_ASSERT(coll->stage == GY_COLL_RUNS);
    if (gy_message_is_any(coll)) {
        gy_status status = gy_transport_any_end(&coll->any, &source);
        if (status == GY_AGAIN || source == GY_ANY_SOURCE) {
            return status < 0 ? gy_fail(status, "no rank is left that could send") : status;
        }
        GY_ASSERT(gy_comm_has_rank(coll->comm, source));
        transfer = &coll->any.transfers[source];
    }
    if (transfer->status == GY_AGAIN) {
        return GY_AGAIN;
    }
    if (transfer->status < 0 && transfer->status != GY_MISMATCH) {
        return gy_fail(transfer->status, "rank %d: %s", transfer->peer,
                       gy_status_text(transfer->status));
    }
    if (coll->kind == GY_COLL_SEND) {
        return GY_OK;
    }
    bool fits = transfer->status == GY_OK && transfer->size_bytes % element == 0 &&
                (message->received != NULL || transfer->size_bytes == wanted);
    if (!fits) {
        return gy_fail(GY_MISMATCH, "rank %d sent %zu bytes, rank %d expected %s%zu",
                       transfer->peer, transfer->size_bytes,
                       gy_comm_peer(coll->comm, coll->comm->rank),
                       message->received != NULL ? "up to " : "", wanted);
    }
    if (message->received != NULL) {
        *message->received = transfer->size_bytes / element;
    }
    if (message->source != NULL) {
        *message->source = source;
    }
    return GY_OK;
}

static gy_status begin(gy_comm *comm, gy_coll_kind kind, const gy_message *message,
                       gy_coll_end end, void *arg)
{
    GY_ASSERT(kind == GY_COLL_SEND || kind == GY_COLL_RECV);
    GY_ASSERT(end != NULL);
    GY_TRY(gy_message_check(comm, kind, message));
    gy_mutex_lock(&comm->root->lock);
    if (comm->root->is_failed) {
        const gy_error failure = comm->root->failure;
        gy_mutex_unlock(&comm->root->lock);
        end(arg, gy_error_raise(&failure));
        return GY_OK;
    }
    gy_coll *coll = gy_coll_take_unnumbered(comm);
    if (coll != NULL) {
        coll->kind = kind;
        coll->message = *message;
        coll->end = end;
        coll->arg = arg;
        const gy_status status = gy_message_launch(coll);
        bool has_moved = false;
        if (status < 0) { /* all that is under way ends with it, this one too */
            gy_comm_fail(comm, status);
        } else if (!gy_message_is_idle(coll)) { /* it went, or was there, at once */
            (void)gy_coll_progress(coll, &has_moved);
        }
        gy_comm_call_ends(comm);
    }
    gy_mutex_unlock(&comm->root->lock);
    return coll != NULL ? GY_OK : GY_NOMEM;
}

gy_status gy_coll_send(gy_comm *comm, const gy_message *message, gy_coll_end end, void *arg)
{
    GY_ASSERT(message->source == NULL && message->received == NULL);
    return begin(comm, GY_COLL_SEND, message, end, arg);
}

gy_status gy_coll_receive(gy_comm *comm, const gy_message *message, gy_coll_end end, void *arg)
{
    GY_ASSERT(message->peer != GY_ANY_SOURCE);
    return begin(comm, GY_COLL_RECV, message, end, arg);
}

static gy_status run(gy_comm *comm, gy_coll_kind kind, const gy_message *message)
    GY_REQUIRES(comm->root->lock)
{
    GY_ASSERT(kind == GY_COLL_SEND || kind == GY_COLL_RECV);
    if (comm->root->is_failed) {
        return gy_error_raise(&comm->root->failure);
    }
    gy_coll *coll = gy_coll_take_unnumbered(comm);
    if (coll == NULL) {
        return GY_NOMEM;
    }
    gy_wait_note note = {.is_over = false};
    GY_ASSERT(coll->stage == GY_COLL_RESERVED);
    coll->kind = kind;
    coll->message = *message;
    coll->end = gy_note_end;
    coll->arg = &note;
    gy_status status = gy_message_launch(coll);
    if (status < 0) {
        gy_comm_fail(comm, status);
    }
    return gy_comm_drive(comm, coll, &note);
}

static gy_status run_blocking(gy_comm *comm, gy_coll_kind kind, const gy_message *message)
{
    GY_TRY(gy_message_check(comm, kind, message));
    gy_mutex_lock(&comm->root->lock);
    gy_status status = run(comm, kind, message);
    gy_mutex_unlock(&comm->root->lock);
    return status;
}

gy_status gy_send(gy_comm *comm, const void *data, size_t count, gy_dtype dtype, int to,
                  int tag)
{
    GY_COMM_EXPECT(comm);
    return run_blocking(comm, GY_COLL_SEND,
                        &(gy_message){.data = (void *)(uintptr_t)data,
                                      .count = count,
                                      .dtype = dtype,
                                      .peer = to,
                                      .tag = tag});
}

gy_status gy_recv(gy_comm *comm, void *data, size_t count, gy_dtype dtype, int from, int tag)
{
    GY_COMM_EXPECT(comm);
    return run_blocking(
        comm, GY_COLL_RECV,
        &(gy_message){.data = data, .count = count, .dtype = dtype, .peer = from, .tag = tag});
}

gy_status gy_recv_any(gy_comm *comm, void *data, size_t count, gy_dtype dtype, int tag,
                      int *from)
{
    GY_COMM_EXPECT(comm);
    return run_blocking(comm, GY_COLL_RECV,
                        &(gy_message){.data = data,
                                      .count = count,
                                      .dtype = dtype,
                                      .peer = GY_ANY_SOURCE,
                                      .tag = tag,
                                      .source = from});
}
