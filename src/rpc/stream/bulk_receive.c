/* A bulk transfer at the receiver. */
#include "rpc/stream/bulk_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Interface ---- */

static stream_bulk *find_fetch(const gy_rpc *rpc, uint64_t number)
{
    const gy_stream *stream = rpc->carrier;
    stream_bulk *bulk = stream->bulks;
    while (bulk != NULL && (bulk->is_sender || bulk->number != number)) {
        bulk = bulk->next;
    }
    return bulk;
}

gy_status gy_rpc_bulk_begin(gy_rpc *rpc, const gy_bulk_fetch *fetch, uint64_t *number)
{
    gy_stream *stream = rpc->carrier;
    stream_bulk *bulk = NULL;
    GY_ASSERT(rpc->ops->turn != NULL && fetch->done != NULL); /* only for nodes on sockets */
    if (fetch->name_bytes > GY_BULK_NAME_BYTES) {
        return gy_fail(GY_ARG, "a name of %zu bytes: at most %d", fetch->name_bytes,
                       GY_BULK_NAME_BYTES);
    }
    GY_TRY(gy_rpc_bulk_new(stream, false, &bulk));
    bulk->fetch = *fetch;
    bulk->fetch.window_bytes =
        fetch->window_bytes > 0 ? fetch->window_bytes : (size_t)BULK_WINDOW_BYTES;
    bulk->fetch.name = NULL;
    uint8_t *name = gy_alloc("rpc.bulk", fetch->name_bytes + 1);
    gy_status status = name != NULL ? GY_OK : GY_NOMEM;
    if (status == GY_OK) {
        if (fetch->name_bytes > 0) {
            memcpy(name, fetch->name, fetch->name_bytes);
        }
        bulk->fetch.name = name;
        status = gy_rpc_connection_fetch(stream, bulk, fetch->address);
    }
    if (status < 0) {
        gy_free(name);
        gy_rpc_bulk_free(bulk);
        return status;
    }
    bulk->number = ++stream->fetch_count;
    *number = bulk->number;
    return GY_OK;
}

void gy_rpc_bulk_go_on(gy_rpc *rpc, uint64_t number)
{
    stream_bulk *bulk = find_fetch(rpc, number);
    if (bulk != NULL && bulk->is_paused) {
        bulk->is_paused = false;
        bulk->moved_ns = gy_now_ns(bulk->stream->env);
        gy_rpc_connection_heat(bulk->connection);
    }
}

void gy_rpc_bulk_cancel(gy_rpc *rpc, uint64_t number)
{
    stream_bulk *bulk = find_fetch(rpc, number);
    if (bulk != NULL) {
        bulk->is_cancelled = true; /* due at once */
    }
}

/* ---- The end ---- */

void gy_rpc_bulk_receive_end(stream_bulk *bulk, gy_status status)
{
    const gy_bulk_fetch fetch = bulk->fetch;
    uint64_t came = bulk->at;
    if (fetch.wire_bytes != NULL) {
        *fetch.wire_bytes += bulk->wire_bytes;
    }
    gy_error why;
    gy_error_take(&why, status);
    gy_rpc_bulk_free(bulk);
    gy_free((void *)(uintptr_t)fetch.name);
    if (status < 0) {
        (void)gy_error_raise(&why);
    }
    fetch.done(fetch.arg, status, came);
}

/* ---- Frames ---- */

static gy_status hear_region(stream_bulk *bulk)
{
    ProtobufCMessage *message = NULL;
    char text[512];
    GY_TRY(gy_rpc_unpack(&gy__rpc__region__descriptor, bulk->body,
                         (size_t)bulk->frame.size_bytes, &message));
    const Gy__Rpc__Region *region = (const Gy__Rpc__Region *)message;
    gy_status status = (gy_status)region->status;
    uint64_t size = region->size_bytes;
    uint32_t version = region->version;
    uint8_t note[GY_BULK_NOTE_BYTES];
    size_t note_bytes = region->note.len;
    if (note_bytes > 0 && note_bytes <= sizeof(note)) {
        memcpy(note, region->note.data, note_bytes);
    }
    snprintf(text, sizeof(text), "%s", region->text);
    gy_rpc_unpacked_free(message);
    if (status < 0) {
        return gy_fail(status, "%s: %s", bulk->connection->from, text);
    }
    if (bulk->has_begun || version != BULK_VERSION || size > bulk->fetch.size_bytes ||
        note_bytes > sizeof(note)) {
        return gy_fail(GY_FORMAT, "%s: a region that was not requested",
                       bulk->connection->from);
    }
    bulk->has_begun = true;
    bulk->end = size;
    return bulk->fetch.begun != NULL
               ? bulk->fetch.begun(bulk->fetch.arg, size, note, note_bytes)
               : GY_OK;
}

static gy_status write_out(const stream_bulk *bulk, const uint8_t *data, size_t size)
{
    size_t put = 0;
    while (put < size) {
        ssize_t more = pwrite(bulk->fetch.fd, data + put, size - put,
                              (off_t)(bulk->fetch.at + bulk->at + put));
        if (more < 0 && errno != EINTR) {
            return gy_fail(GY_IO, "what was fetched cannot be written: %s", strerror(errno));
        }
        put += more > 0 ? (size_t)more : 0;
    }
    return GY_OK;
}

/* Pass buffered bytes to `take`; GY_AGAIN it does not accept them now. */
static gy_status hand_over(stream_bulk *bulk)
{
    const gy_bulk_fetch *fetch = &bulk->fetch;
    gy_status status = fetch->take != NULL ? fetch->take(fetch->arg, fetch->offset + bulk->at,
                                                         bulk->held, bulk->held_bytes)
                                           : write_out(bulk, bulk->held, bulk->held_bytes);
    bulk->is_paused = status == GY_AGAIN;
    if (status == GY_OK) {
        bulk->at += bulk->held_bytes;
        bulk->held = NULL;
    }
    return status;
}

static gy_status unpack(stream_bulk *bulk, const uint8_t *data, size_t size, size_t raw_bytes)
{
    if (bulk->unpacker == NULL && (bulk->unpacker = ZSTD_createDCtx()) == NULL) {
        return gy_fail(GY_NOMEM, "no memory to decompress a chunk");
    }
    if (bulk->raw == NULL && (bulk->raw = gy_alloc("rpc.bulk", BULK_CHUNK_BYTES)) == NULL) {
        return GY_NOMEM;
    }
    size_t made = ZSTD_decompressDCtx(bulk->unpacker, bulk->raw, BULK_CHUNK_BYTES, data, size);
    if (ZSTD_isError(made) || made != raw_bytes) {
        return gy_fail(GY_FORMAT, "%s: a chunk cannot be decompressed", bulk->connection->from);
    }
    bulk->held = bulk->raw;
    return GY_OK;
}

static gy_status hear_chunk(stream_bulk *bulk)
{
    size_t size = (size_t)bulk->frame.size_bytes;
    if (size <= BULK_HEAD_BYTES || !bulk->has_begun) {
        return gy_fail(GY_FORMAT, "%s: a chunk of %zu bytes", bulk->connection->from, size);
    }
    uint64_t raw_bytes = gy_bulk_get(bulk->body, 4), packed = gy_bulk_get(bulk->body + 4, 4);
    uint64_t sum = gy_bulk_get(bulk->body + 8, 8);
    const uint8_t *data = bulk->body + BULK_HEAD_BYTES;
    size -= BULK_HEAD_BYTES;
    bool is_whole = packed == 1 || (packed == 0 && size == raw_bytes);
    if (!is_whole || raw_bytes == 0 || raw_bytes > BULK_CHUNK_BYTES ||
        raw_bytes > bulk->end - bulk->at) {
        return gy_fail(GY_FORMAT, "%s: a chunk of %llu bytes where %llu are left",
                       bulk->connection->from, (unsigned long long)raw_bytes,
                       (unsigned long long)(bulk->end - bulk->at));
    }
    bulk->held = data;
    if (packed == 1) {
        GY_TRY(unpack(bulk, data, size, (size_t)raw_bytes));
    }
    bulk->held_bytes = (size_t)raw_bytes;
    if (gy_hash(bulk->held, bulk->held_bytes, bulk->fetch.offset + bulk->at) != sum) {
        return gy_fail(GY_FORMAT, "%s: the checksum of byte %llu on is wrong",
                       bulk->connection->from,
                       (unsigned long long)(bulk->fetch.offset + bulk->at));
    }
    return hand_over(bulk);
}

/* Half of the window is consumed: grant more. */
static gy_status give_credit(stream_bulk *bulk)
{
    uint64_t wanted = bulk->fetch.offset + bulk->at + bulk->fetch.window_bytes;
    bool is_due = wanted - bulk->granted >= bulk->fetch.window_bytes / 2;
    if (!is_due || bulk->at == bulk->end || bulk->out_at < bulk->out_bytes) {
        return GY_OK;
    }
    GY_TRY(gy_rpc_bulk_room(bulk, 8));
    gy_bulk_put(bulk->out + GY_FRAME_BYTES, wanted, 8);
    gy_rpc_bulk_seal(bulk, KIND_CREDIT, 8);
    bulk->granted = wanted;
    return GY_OK;
}

static gy_status hear(stream_bulk *bulk)
{
    if (bulk->frame.tag == KIND_CHUNK) {
        return hear_chunk(bulk);
    }
    if (bulk->frame.tag == KIND_REGION) {
        bulk->granted = bulk->fetch.offset + bulk->fetch.window_bytes;
        return hear_region(bulk);
    }
    return gy_fail(GY_FORMAT, "%s: a frame of kind %llu in a transfer", bulk->connection->from,
                   (unsigned long long)bulk->frame.tag);
}

gy_status gy_rpc_bulk_receive_on(stream_bulk *bulk)
{
    gy_status status = gy_rpc_bulk_write(bulk);
    GY_TRY(status);
    if (bulk->held != NULL && !bulk->is_paused) {
        GY_TRY(hand_over(bulk));
    }
    for (int round = 0; round < BULK_ROUNDS && !bulk->is_paused; round++) {
        if (bulk->has_begun && bulk->at == bulk->end) {
            stream_connection *connection = bulk->connection;
            connection->bulk = NULL;
            gy_rpc_connection_close(connection);
            gy_rpc_bulk_receive_end(bulk, GY_OK);
            return GY_OK;
        }
        status = gy_rpc_bulk_read(bulk, BULK_HEAD_BYTES + BULK_CHUNK_BYTES);
        if (status != GY_OK) {
            return status < 0 ? status : GY_OK;
        }
        GY_TRY(hear(bulk));
        GY_TRY(give_credit(bulk));
        GY_TRY(gy_rpc_bulk_write(bulk));
    }
    return bulk->is_paused ? GY_OK : GY_AGAIN;
}
