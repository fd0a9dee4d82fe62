/**
 * Inside room transport: a link with its messages. Each frame has a number. Messages are
 * written directly from the sender's memory, and read directly into a posted receive's.
 */
#ifndef GY_TRANSPORT_TCP_LINK_PRIV_H
#define GY_TRANSPORT_TCP_LINK_PRIV_H

#include "transport/match_priv.h"
#include "transport/net.h"

enum {
    GY_LINK_AHEAD_BYTES = 16 * 1024,
    GY_EAGER_BYTES = 64 * 1024, /* a longer message is not stored until that is necessary */
};

/** Parser of a byte stream; zero-initialise except for the first two members. */
typedef struct gy_reader {
    uint64_t sequence; /* expected for the next frame */
    uint64_t limit;    /* largest message in bytes */
    gy_inbox inbox;
    bool is_inside; /* the frame's header has been read */
    bool is_begun;  /* of a message: the inbox has accepted it */
    bool is_eager;  /* store large unexpected messages too, to reach the frames behind them */
    size_t head_bytes, control_bytes;
    gy_transport_frame frame;
    uint8_t head[GY_FRAME_BYTES];
    uint8_t *control; /* body of a frame that is no message */
} gy_reader;

/**
 * Process bytes of the stream as far as possible.
 * @return GY_OK all bytes processed; GY_AGAIN a message waits for its receive, and *taken bytes
 *     were processed; GY_FORMAT; GY_NOMEM; what `hear` returns
 */
GY_MUST_CHECK gy_status gy_reader_take(gy_reader *reader, const struct iovec *bytes,
                                       size_t *taken, gy_tcp_link_hear hear, void *arg);
void gy_reader_fini(gy_reader *reader);

/** A queued frame that is no message. */
typedef struct gy_note {
    struct gy_note *next;
    size_t size_bytes, sent_bytes;
    gy_transport_frame_type type;
    uint8_t bytes[]; /* header and body */
} gy_note;

struct gy_tcp_link {
    gy_tcp_wire *wire;
    gy_reader reader;
    gy_note *notes;
    gy_transfer *sends;
    size_t head_sent_bytes; /* bytes sent of the first send's header */
    uint64_t sequence;      /* number of the next frame */
    bool is_cut;            /* a partly sent message was cancelled, so nothing can follow */
    /* bytes read in advance and not processed yet: [ahead_from, ahead_to) */
    uint8_t *ahead;
    size_t ahead_from, ahead_to;
};

#endif
