/* Bulk transfers: their frames, their connections, their ends. */
#include "rpc/stream/bulk_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <string.h>
#include <unistd.h>

/* how long a sender waits for a receiver that takes nothing */
static const int64_t sender_waits_ns = 60000000000;

gy_status gy_rpc_bulk_new(gy_stream *stream, bool is_sender, stream_bulk **bulk)
{
    stream_bulk *made = gy_alloc_zero("rpc.bulk", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->stream = stream;
    made->is_sender = is_sender;
    made->region.fd = -1;
    made->moved_ns = gy_now_ns(stream->env);
    made->next = stream->bulks;
    if (stream->bulks != NULL) {
        stream->bulks->previous = made;
    }
    stream->bulks = made;
    stream->bulk_count += is_sender;
    *bulk = made;
    return GY_OK;
}

void gy_rpc_bulk_free(stream_bulk *bulk)
{
    gy_stream *stream = bulk->stream;
    *(bulk->previous != NULL ? &bulk->previous->next : &stream->bulks) = bulk->next;
    if (bulk->next != NULL) {
        bulk->next->previous = bulk->previous;
    }
    stream->bulk_count -= bulk->is_sender;
    if (bulk->region.is_taken && bulk->region.fd >= 0) {
        close(bulk->region.fd);
    }
    gy_free(bulk->region.extents);
    gy_free(bulk->region.data);
    (void)ZSTD_freeCCtx(bulk->packer);
    (void)ZSTD_freeDCtx(bulk->unpacker);
    gy_free(bulk->body);
    gy_free(bulk->out);
    gy_free(bulk->raw);
    gy_free(bulk);
}

/* ---- Frames ---- */

gy_status gy_rpc_bulk_room(stream_bulk *bulk, size_t body_bytes)
{
    GY_ASSERT(bulk->out_at == bulk->out_bytes);
    bulk->out_at = bulk->out_bytes = 0;
    return GY_GROW("rpc.bulk", bulk->out, bulk->out_room, GY_FRAME_BYTES + body_bytes);
}

void gy_rpc_bulk_seal(stream_bulk *bulk, int kind, size_t body_bytes)
{
    gy_transport_frame_write(&(gy_transport_frame){.type = GY_FRAME_MESSAGE,
                                                   .size_bytes = body_bytes,
                                                   .tag = (uint64_t)kind,
                                                   .sequence = bulk->sent++},
                             bulk->out);
    bulk->out_bytes = GY_FRAME_BYTES + body_bytes;
}

gy_status gy_rpc_bulk_say(stream_bulk *bulk, int kind, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    GY_TRY(gy_rpc_bulk_room(bulk, size));
    protobuf_c_message_pack(message, bulk->out + GY_FRAME_BYTES);
    gy_rpc_bulk_seal(bulk, kind, size);
    return GY_OK;
}

gy_status gy_rpc_bulk_write(stream_bulk *bulk)
{
    gy_tcp_wire *wire = bulk->connection->wire;
    while (bulk->out_at < bulk->out_bytes) {
        struct iovec piece = {.iov_base = bulk->out + bulk->out_at,
                              .iov_len = bulk->out_bytes - bulk->out_at};
        size_t put = 0;
        gy_status status = gy_tcp_wire_write(wire, &piece, 1, &put);
        if (status != GY_OK) {
            return status;
        }
        bulk->out_at += put;
        bulk->moved_ns = gy_now_ns(bulk->stream->env);
    }
    return gy_tcp_wire_flush(wire);
}

static gy_status fill(stream_bulk *bulk, void *to, size_t wanted, size_t *have)
{
    while (*have < wanted) {
        struct iovec piece = {.iov_base = (uint8_t *)to + *have, .iov_len = wanted - *have};
        size_t got = 0;
        gy_status status = gy_tcp_wire_read(bulk->connection->wire, &piece, 1, &got);
        if (status != GY_OK) {
            return status;
        }
        *have += got;
        bulk->wire_bytes += got;
        bulk->moved_ns = gy_now_ns(bulk->stream->env);
    }
    return GY_OK;
}

gy_status gy_rpc_bulk_read(stream_bulk *bulk, size_t most)
{
    gy_transport_frame *frame = &bulk->frame;
    if (bulk->head_bytes < GY_FRAME_BYTES) {
        gy_status status = fill(bulk, bulk->head, GY_FRAME_BYTES, &bulk->head_bytes);
        if (status != GY_OK) {
            return status;
        }
    }
    if (bulk->body_bytes == 0) {
        GY_TRY(gy_transport_frame_read(bulk->head, bulk->received, most, frame));
        if (frame->type != GY_FRAME_MESSAGE || frame->size_bytes == 0) {
            return gy_fail(GY_FORMAT, "a frame of type %d with %llu bytes in a transfer",
                           (int)frame->type, (unsigned long long)frame->size_bytes);
        }
        GY_TRY(GY_GROW("rpc.bulk", bulk->body, bulk->body_room, (size_t)frame->size_bytes));
    }
    gy_status status = fill(bulk, bulk->body, (size_t)frame->size_bytes, &bulk->body_bytes);
    if (status == GY_OK) {
        bulk->head_bytes = bulk->body_bytes = 0;
        bulk->received++;
    }
    return status;
}

/* ---- Connections ---- */

gy_status gy_rpc_bulk_accept(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    const gy_bulk_server *server = stream->server;
    stream_bulk *bulk = NULL;
    uint32_t most =
        server != NULL && server->transfer_max > 0 ? (uint32_t)server->transfer_max : 64;
    if (server == NULL) {
        return gy_fail(GY_FORMAT, "it fetches, and there is nothing to fetch here");
    }
    if (stream->bulk_count >= most) {
        return gy_fail(GY_LIMIT, "%u transfers are in progress already", most);
    }
    GY_TRY(gy_rpc_bulk_new(stream, true, &bulk));
    memcpy(bulk->head, connection->head, GY_FRAME_BYTES);
    bulk->head_bytes = GY_FRAME_BYTES;
    bulk->connection = connection;
    connection->bulk = bulk;
    gy_rpc_stranger_remove(connection);
    return gy_tcp_wire_widen(connection->wire);
}

/* The receiver's connection is open. */
gy_status gy_rpc_bulk_greet(stream_connection *connection)
{
    const gy_bulk_fetch *fetch = &connection->bulk->fetch;
    Gy__Rpc__Fetch asks;
    gy__rpc__fetch__init(&asks);
    asks.version = BULK_VERSION;
    asks.name = (ProtobufCBinaryData){.len = fetch->name_bytes,
                                      .data = (uint8_t *)(uintptr_t)fetch->name};
    asks.offset = fetch->offset;
    asks.size_bytes = fetch->size_bytes;
    asks.window_bytes = fetch->window_bytes;
    asks.is_raw = fetch->is_raw;
    GY_TRY(gy_tcp_wire_widen(connection->wire));
    return gy_rpc_bulk_say(connection->bulk, KIND_FETCH, &asks.base);
}

gy_status gy_rpc_bulk_step(stream_connection *connection)
{
    stream_bulk *bulk = connection->bulk;
    return bulk->is_sender ? gy_rpc_bulk_send_on(bulk) : gy_rpc_bulk_receive_on(bulk);
}

bool gy_rpc_bulk_wants_room(const stream_connection *connection)
{
    const stream_bulk *bulk = connection->bulk;
    bool may_send =
        bulk->is_sender && bulk->has_begun && bulk->at < GY_MIN(bulk->end, bulk->granted);
    return may_send || bulk->out_at < bulk->out_bytes;
}

bool gy_rpc_bulk_wants_input(const stream_connection *connection)
{
    return !connection->bulk->is_paused;
}

void gy_rpc_bulk_lost(stream_bulk *bulk, gy_status status)
{
    if (bulk->is_sender) {
        gy_rpc_bulk_free(bulk);
    } else {
        gy_rpc_bulk_receive_end(bulk, status);
    }
}

/* ---- Time limits ---- */

static int64_t due_ns(const stream_bulk *bulk)
{
    int64_t dead_ns = bulk->stream->rpc->options.dead_ns;
    int64_t wait_ns = bulk->is_sender ? sender_waits_ns : GY_MAX(dead_ns, (int64_t)5000000000);
    int64_t silent_ns = bulk->is_paused ? INT64_MAX : bulk->moved_ns + wait_ns;
    if (bulk->is_sender) {
        return silent_ns;
    }
    return bulk->is_cancelled ? 0 : GY_MIN(silent_ns, bulk->fetch.deadline.at_ns);
}

int64_t gy_rpc_bulks_next_ns(const gy_stream *stream)
{
    int64_t next_ns = INT64_MAX;
    for (const stream_bulk *bulk = stream->bulks; bulk != NULL; bulk = bulk->next) {
        next_ns = GY_MIN(next_ns, due_ns(bulk));
    }
    return next_ns;
}

static void end_due(stream_bulk *bulk, int64_t now_ns)
{
    gy_status status = GY_PEER;
    if (!bulk->is_sender && bulk->is_cancelled) {
        status = gy_fail(GY_CANCELLED, "the fetch was cancelled");
    } else if (!bulk->is_sender && now_ns >= bulk->fetch.deadline.at_ns) {
        status =
            gy_fail(GY_TIMEOUT, "%s: not all came by the deadline", bulk->connection->from);
    } else {
        status = gy_fail(GY_PEER, "%s: nothing moved for %.0f s", bulk->connection->from,
                         (double)(now_ns - bulk->moved_ns) / 1e9);
    }
    gy_rpc_connection_fail(bulk->connection, status);
}

void gy_rpc_bulks_look(gy_stream *stream)
{
    int64_t now_ns = gy_now_ns(stream->env);
    for (stream_bulk *bulk = stream->bulks; bulk != NULL;) {
        if (due_ns(bulk) <= now_ns) {
            end_due(bulk, now_ns);
            bulk = stream->bulks; /* `done` may have ended other transfers */
        } else {
            bulk = bulk->next;
        }
    }
}
