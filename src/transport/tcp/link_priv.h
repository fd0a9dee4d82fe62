/**
 * Inside room transport: a link with its messages. Each frame has a number; messages go
 * straight from the sender's memory, and straight into a posted receive's.
 */
#ifndef GY_TRANSPORT_TCP_LINK_PRIV_H
#define GY_TRANSPORT_TCP_LINK_PRIV_H

#include "transport/match_priv.h"
#include "transport/net.h"

enum {
    GY_LINK_AHEAD_BYTES = 16 * 1024,
    GY_EAGER_BYTES = 64 * 1024, /* a message of more is not kept before it must be */
};

/** What comes out of a stream of bytes; zero-initialise but for the first two. */
typedef struct gy_reader {
    uint64_t sequence; /* of the next frame */
    uint64_t limit;    /* bytes of a message */
    gy_inbox inbox;
    bool is_inside; /* its head has been read */
    bool is_begun;  /* a message: the inbox has taken it on */
    bool is_eager;  /* keep large ones too, to see what comes behind them */
    size_t head_bytes, control_bytes;
    gy_transport_frame frame;
    uint8_t head[GY_FRAME_BYTES];
    uint8_t *control; /* body of a frame that is no message */
} gy_reader;

/**
 * Take bytes of the stream as far as they can be used.
 * @return GY_OK all taken; GY_AGAIN a message waits for its receive, *taken were used;
 * GY_FORMAT; GY_NOMEM; what `hear` returns
 */
GY_MUST_CHECK gy_status gy_reader_take(gy_reader *reader, const struct iovec *bytes,
                                       size_t *taken, gy_tcp_link_hear hear, void *arg);
void gy_reader_fini(gy_reader *reader);

/** A frame of ours that is no message. */
typedef struct gy_note {
    struct gy_note *next;
    size_t size_bytes, sent_bytes;
    gy_transport_frame_type type;
    uint8_t bytes[]; /* head, body */
} gy_note;

struct gy_tcp_link {
    gy_tcp_wire *wire;
    gy_reader reader;
    gy_note *notes;
    gy_transfer *sends;
    size_t head_sent_bytes; /* of the first send's frame */
    uint64_t sequence;      /* of the next frame that is begun */
    bool is_cut;            /* a half-sent message was given up: nothing can follow */
    uint8_t *ahead;         /* bytes read and not taken yet: [ahead_from, ahead_to) */
    size_t ahead_from, ahead_to;
};

#endif
