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
    KIND_FETCH = 32, /* the request, the receiver's first frame */
    KIND_REGION,     /* the answer, or later a failure */
    KIND_CHUNK,      /* a header of BULK_HEAD_BYTES, then data */
    KIND_CREDIT,     /* eight bytes: number of bytes consumed */
    BULK_VERSION = 1,
    BULK_CHUNK_BYTES = 128 * 1024,
    /* uncompressed size (4), compressed or not (4), checksum of the uncompressed data (8) */
    BULK_HEAD_BYTES = 16,
    BULK_WORD_BYTES = 8 * 1024,
    BULK_WINDOW_BYTES = 4 << 20,
    BULK_ROUNDS = 8, /* chunks sent in a row before other transfers get their turn */
};

/* One transfer, at either end. */
struct stream_bulk {
    struct stream_bulk *next, *previous; /* list of the stream's transfers */
    stream_connection *connection;
    gy_stream *stream;
    bool is_sender;
    int64_t moved_ns; /* time of the last bytes */
    /* Input: one frame at a time, and no byte beyond it. */
    uint8_t head[GY_FRAME_BYTES];
    gy_transport_frame frame;
    size_t head_bytes, body_bytes, body_room;
    uint8_t *body;
    uint64_t received, wire_bytes; /* number of frames; their bytes */
    /* Output: one frame. */
    uint8_t *out;
    size_t out_at, out_bytes, out_room;
    uint64_t sent;
    /* positions in the region: sent or taken; the end; limit that the receiver granted */
    uint64_t at, end, granted;
    uint8_t *raw;   /* (BULK_CHUNK_BYTES) */
    bool has_begun; /* the request is known, or granted */
    /* Of the sender. */
    gy_bulk_region region;
    size_t extent;      /* the extent in which the last chunk began, */
    uint64_t extent_at; /* and the position in the region where that extent begins */
    bool is_raw, is_measured;
    ZSTD_CCtx *packer;
    /* Of the receiver. */
    uint64_t number;
    gy_bulk_fetch fetch;
    bool is_paused, is_cancelled;
    const uint8_t *held; /* bytes that `take` did not accept yet */
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
/** Make room in `out` for a frame's body after its header. */
GY_MUST_CHECK gy_status gy_rpc_bulk_room(stream_bulk *bulk, size_t body_bytes);
/** The body is in place: complete the frame. */
void gy_rpc_bulk_seal(stream_bulk *bulk, int kind, size_t body_bytes);
GY_MUST_CHECK gy_status gy_rpc_bulk_say(stream_bulk *bulk, int kind,
                                        const ProtobufCMessage *message);
/** Write output. GY_OK nothing left; GY_AGAIN; < 0 */
gy_status gy_rpc_bulk_write(stream_bulk *bulk);
/** Read input. GY_OK a frame of at most `most` bytes is complete; GY_AGAIN; < 0 */
gy_status gy_rpc_bulk_read(stream_bulk *bulk, size_t most);

/* Both: GY_OK wait for the socket; GY_AGAIN more can be done at once; < 0 failed. */
gy_status gy_rpc_bulk_send_on(stream_bulk *bulk);
gy_status gy_rpc_bulk_receive_on(stream_bulk *bulk);
/** End a transfer at the receiver; a failure has gy_error_text. */
void gy_rpc_bulk_receive_end(stream_bulk *bulk, gy_status status);

#endif
