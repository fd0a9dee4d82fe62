/**
 * Inside room rpc: bulk transfers. bulk.c frames and connections · bulk_send.c ·
 * bulk_receive.c.
 */
#ifndef GY_RPC_STREAM_BULK_PRIV_H
#define GY_RPC_STREAM_BULK_PRIV_H

#include "rpc/bulk.h"
#include "rpc/stream/stream_priv.h"

#include <zstd.h>

enum {
    KIND_FETCH = 32, /* the first, of who asks */
    KIND_REGION,     /* the answer, or later a failure */
    KIND_CHUNK,      /* a head of BULK_HEAD_BYTES, then data */
    KIND_CREDIT,     /* eight bytes: so much was consumed */
    BULK_VERSION = 1,
    BULK_CHUNK_BYTES = 128 * 1024,
    BULK_HEAD_BYTES = 16, /* size unpacked (4), is it packed (4), checksum of it unpacked (8) */
    BULK_WORD_BYTES = 8 * 1024,
    BULK_WINDOW_BYTES = 4 << 20,
    BULK_ROUNDS = 8, /* chunks in one go, then others have theirs */
};

/* One transfer, at either end. */
struct stream_bulk {
    struct stream_bulk *next, *previous; /* of the stream */
    stream_connection *connection;
    gy_stream *stream;
    bool is_sender;
    int64_t moved_ns; /* the last bytes */
    /* In: a frame at a time, no byte further. */
    uint8_t head[GY_FRAME_BYTES];
    gy_transport_frame frame;
    size_t head_bytes, body_bytes, body_room;
    uint8_t *body;
    uint64_t received, wire_bytes; /* frames; bytes of them */
    /* Out: a frame. */
    uint8_t *out;
    size_t out_at, out_bytes, out_room;
    uint64_t sent;
    uint64_t at, end, granted; /* of the region: sent or taken; all; may be sent, was granted */
    uint8_t *raw;              /* (BULK_CHUNK_BYTES) */
    bool has_begun;            /* what is asked for is known, or granted */
    /* The sender's. */
    gy_bulk_region region;
    size_t extent;      /* the one that the last chunk began in, */
    uint64_t extent_at; /* and where in the region it begins */
    bool is_raw, is_measured;
    ZSTD_CCtx *packer;
    /* The receiver's. */
    uint64_t number;
    gy_bulk_fetch fetch;
    bool is_paused, is_cancelled;
    const uint8_t *held; /* what was not taken yet */
    size_t held_bytes;
    ZSTD_DCtx *unpacker;
};

static inline void gy_bulk_put(uint8_t *to, uint64_t number, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        to[i] = (uint8_t)(number >> (8 * i));
    }
}

static inline uint64_t gy_bulk_get(const uint8_t *from, size_t size_bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        number |= (uint64_t)from[i] << (8 * i);
    }
    return number;
}

GY_MUST_CHECK gy_status gy_rpc_bulk_new(gy_stream *stream, bool is_sender, stream_bulk **bulk);
/** Room for a frame's body behind its head, in `out`. */
GY_MUST_CHECK gy_status gy_rpc_bulk_room(stream_bulk *bulk, size_t body_bytes);
/** The body stands in its place: make it a frame. */
void gy_rpc_bulk_seal(stream_bulk *bulk, int kind, size_t body_bytes);
GY_MUST_CHECK gy_status gy_rpc_bulk_say(stream_bulk *bulk, int kind,
                                        const ProtobufCMessage *message);
/** GY_OK nothing is left to be written; GY_AGAIN; < 0 */
gy_status gy_rpc_bulk_write(stream_bulk *bulk);
/** GY_OK a frame of at most `most` bytes is there; GY_AGAIN; < 0 */
gy_status gy_rpc_bulk_read(stream_bulk *bulk, size_t most);

/* Both: GY_OK go on when the socket allows; GY_AGAIN more can be done at once; < 0 it fails. */
gy_status gy_rpc_bulk_send_on(stream_bulk *bulk);
gy_status gy_rpc_bulk_receive_on(stream_bulk *bulk);
/** The receiver's end, with gy_error_text of a failure. */
void gy_rpc_bulk_receive_end(stream_bulk *bulk, gy_status status);

#endif
