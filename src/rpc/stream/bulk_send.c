/* A bulk transfer at the sender. */
#include "rpc/stream/bulk_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static gy_status tell(stream_bulk *bulk, gy_status status, const char *text)
{
    Gy__Rpc__Region region;
    gy__rpc__region__init(&region);
    region.status = status;
    region.text = (char *)(uintptr_t)text;
    region.size_bytes = bulk->end - bulk->at;
    region.version = BULK_VERSION;
    region.note = (ProtobufCBinaryData){.len = status == GY_OK ? bulk->region.note_bytes : 0,
                                        .data = bulk->region.note};
    return gy_rpc_bulk_say(bulk, KIND_REGION, &region.base);
}

static gy_status find(stream_bulk *bulk, const Gy__Rpc__Fetch *asks)
{
    gy_stream *stream = bulk->stream;
    gy_bulk_region *region = &bulk->region;
    gy_rpc_role role = bulk->connection->role;
    if (asks->version != BULK_VERSION) {
        return gy_fail(GY_STATE, "it fetches in version %u, this end in %d", asks->version,
                       BULK_VERSION);
    }
    /* Without keys no role is authenticated. */
    if (role != GY_RPC_ROLES && (stream->server->roles & GY_RPC_MAY(role)) == 0) {
        return gy_fail(GY_STATE, "%s may not fetch", gy_rpc_role_one(role));
    }
    GY_TRY(stream->server->find(stream->server->arg, role, bulk->connection->subject,
                                asks->name.data, asks->name.len, region));
    uint64_t sum = 0;
    for (size_t i = 0; i < region->extent_count && region->extents != NULL; i++) {
        sum += region->extents[i].size_bytes;
    }
    GY_ASSERT(region->note_bytes <= GY_BULK_NOTE_BYTES &&
              (region->extents == NULL || sum == region->size_bytes));
    if (asks->offset > region->size_bytes) {
        return gy_fail(GY_ARG, "from byte %llu of %llu", (unsigned long long)asks->offset,
                       (unsigned long long)region->size_bytes);
    }
    bulk->at = asks->offset;
    bulk->end = asks->offset + GY_MIN(asks->size_bytes, region->size_bytes - asks->offset);
    return GY_OK;
}

static gy_status hear_fetch(stream_bulk *bulk)
{
    ProtobufCMessage *message = NULL;
    gy_error why;
    if (bulk->frame.tag != KIND_FETCH || bulk->has_begun) {
        return gy_fail(GY_FORMAT, "a frame of kind %llu where none is expected",
                       (unsigned long long)bulk->frame.tag);
    }
    GY_TRY(gy_rpc_unpack(&gy__rpc__fetch__descriptor, bulk->body,
                         (size_t)bulk->frame.size_bytes, &message));
    const Gy__Rpc__Fetch *asks = (const Gy__Rpc__Fetch *)message;
    gy_status status = find(bulk, asks);
    bulk->has_begun = true;
    bulk->is_raw = asks->is_raw;
    bulk->granted = bulk->at + GY_MAX(asks->window_bytes, (uint64_t)BULK_CHUNK_BYTES);
    gy_rpc_unpacked_free(message);
    gy_error_take(&why, status);
    if (status < 0) {
        bulk->end = bulk->at;
        gy_rpc_complain(bulk->stream->rpc, bulk->connection->from, "was refused", why.text);
    }
    return tell(bulk, status, status < 0 ? why.text : "");
}

static gy_status hear_credit(stream_bulk *bulk)
{
    if (bulk->frame.size_bytes != 8) {
        return gy_fail(GY_FORMAT, "a credit of %llu bytes",
                       (unsigned long long)bulk->frame.size_bytes);
    }
    uint64_t granted = gy_bulk_get(bulk->body, 8);
    if (granted < bulk->granted) {
        return gy_fail(GY_FORMAT, "a credit that was revoked");
    }
    bulk->granted = granted;
    return GY_OK;
}

/* ---- Chunks ---- */

/* Decide by the first chunk whether compression pays. */
static gy_status measure(stream_bulk *bulk, size_t size, size_t packed)
{
    enum { PAYS_BELOW_PERCENT = 80 };
    bulk->is_measured = true;
    if (ZSTD_isError(packed) || packed * 100 > size * PAYS_BELOW_PERCENT) {
        (void)ZSTD_freeCCtx(bulk->packer);
        bulk->packer = NULL;
        bulk->is_raw = true;
    }
    return GY_OK;
}

/* Compress into `to` (size bytes). Returns the compressed size, 0: send it uncompressed. */
static gy_status pack(stream_bulk *bulk, uint8_t *to, size_t size, size_t *packed)
{
    *packed = 0;
    if (bulk->is_raw || size < 1024) {
        return GY_OK;
    }
    if (bulk->packer == NULL && (bulk->packer = ZSTD_createCCtx()) == NULL) {
        return gy_fail(GY_NOMEM, "no memory to compress a chunk");
    }
    size_t made = ZSTD_compressCCtx(bulk->packer, to, size, bulk->raw, size, 1);
    if (!bulk->is_measured) {
        GY_TRY(measure(bulk, size, made));
    }
    /* an error means that it does not fit */
    *packed = ZSTD_isError(made) || bulk->is_raw ? 0 : made;
    return GY_OK;
}

/* Find the file offset of byte `at` of the region, and how many bytes follow it contiguously.
 * Chunks ascend, so the search resumes at the last extent. */
static uint64_t place_of(stream_bulk *bulk, uint64_t at, size_t *follow)
{
    const gy_bulk_region *region = &bulk->region;
    if (region->extents == NULL) {
        return region->offset + at;
    }
    while (at - bulk->extent_at >= region->extents[bulk->extent].size_bytes) {
        bulk->extent_at += region->extents[bulk->extent++].size_bytes;
        GY_ASSERT(bulk->extent < region->extent_count);
    }
    const gy_bulk_extent *extent = &region->extents[bulk->extent];
    uint64_t inside = at - bulk->extent_at;
    *follow = (size_t)GY_MIN((uint64_t)*follow, extent->size_bytes - inside);
    return extent->offset + inside;
}

static gy_status read_chunk(stream_bulk *bulk, size_t size)
{
    size_t have = 0;
    if (bulk->region.data != NULL) {
        memcpy(bulk->raw, bulk->region.data + bulk->at, size);
        return GY_OK;
    }
    while (have < size) {
        size_t more = size - have;
        uint64_t place = place_of(bulk, bulk->at + have, &more);
        ssize_t got = pread(bulk->region.fd, bulk->raw + have, more, (off_t)place);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return gy_fail(GY_IO, "byte %llu of the region cannot be read: %s",
                           (unsigned long long)(bulk->at + have),
                           got < 0 ? strerror(errno) : "the file is shorter");
        }
        have += (size_t)got;
    }
    return GY_OK;
}

static gy_status put_chunk(stream_bulk *bulk)
{
    size_t size = (size_t)GY_MIN(bulk->end - bulk->at, (uint64_t)BULK_CHUNK_BYTES), packed = 0;
    if (bulk->raw == NULL && (bulk->raw = gy_alloc("rpc.bulk", BULK_CHUNK_BYTES)) == NULL) {
        return GY_NOMEM;
    }
    gy_status status = read_chunk(bulk, size);
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        bulk->end = bulk->at;
        return tell(bulk, status, why.text);
    }
    GY_TRY(gy_rpc_bulk_room(bulk, BULK_HEAD_BYTES + size));
    uint8_t *head = bulk->out + GY_FRAME_BYTES, *data = head + BULK_HEAD_BYTES;
    GY_TRY(pack(bulk, data, size, &packed));
    if (packed == 0) {
        memcpy(data, bulk->raw, size);
    }
    gy_bulk_put(head, size, 4);
    gy_bulk_put(head + 4, packed > 0, 4);
    gy_bulk_put(head + 8, gy_hash(bulk->raw, size, bulk->at), 8);
    gy_rpc_bulk_seal(bulk, KIND_CHUNK, BULK_HEAD_BYTES + (packed > 0 ? packed : size));
    bulk->at += size;
    return GY_OK;
}

gy_status gy_rpc_bulk_send_on(stream_bulk *bulk)
{
    gy_status status = GY_OK;
    while ((status = gy_rpc_bulk_read(bulk, BULK_WORD_BYTES)) == GY_OK) {
        GY_TRY(bulk->frame.tag == KIND_CREDIT && bulk->has_begun ? hear_credit(bulk)
                                                                 : hear_fetch(bulk));
    }
    GY_TRY(status);
    for (int round = 0; round < BULK_ROUNDS; round++) {
        status = gy_rpc_bulk_write(bulk);
        if (status != GY_OK) {
            return status < 0 ? status : GY_OK;
        }
        if (!bulk->has_begun || bulk->at >= bulk->end || bulk->at >= bulk->granted) {
            return GY_OK;
        }
        GY_TRY(put_chunk(bulk));
    }
    return GY_OK; /* the socket still has room, so this is called again */
}
