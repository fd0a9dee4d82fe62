/**
 * Inside room rpc: nodes on sockets. Each node has one libuv loop; each connection is a wire
 * of room transport (plain, or TLS 1.3 with a key of the ring) that a poll handle watches.
 *
 * stream.c the loop and its turns · listen.c unauthenticated callers · connect.c one
 * connection · share.c its bytes go through shared memory · rings.c that memory.
 */
#ifndef GY_RPC_STREAM_STREAM_PRIV_H
#define GY_RPC_STREAM_STREAM_PRIV_H

#include "rpc/keyring.h"
#include "rpc/session/session_priv.h"
#include "rpc/stream/rings_priv.h"
#include "transport/net.h"

#include <uv.h>

enum {
    STREAM_BUFFER_BYTES = 64 * 1024,
    STREAM_ROUNDS = 256,
    STREAM_OLDER = 64,
    WIDE_BYTES = 64 * 1024
};

/* What a caller says of its shared memory, and the answer. */
enum { GY_RPC_SHARE_BYTES = 32 };

typedef struct gy_stream gy_stream;
typedef struct stream_lookup stream_lookup;
typedef struct stream_bulk stream_bulk;

/* A connection. It exists until its poll handle is closed. */
typedef struct stream_connection {
    struct stream_connection *next, *previous; /* list of the stream's connections */
    struct stream_connection *next_stranger, *previous_stranger;
    struct stream_connection *next_pushed, *next_hot;
    gy_stream *stream;
    gy_tcp_wire *wire; /* NULL: its address is being resolved, or it is closed */
    gy_rpc_link *link; /* both NULL: its kind is not known yet */
    stream_bulk *bulk;
    gy_rpc_role role; /* authenticated role of a caller; GY_RPC_ROLES: none */
    char subject[GY_RPC_SUBJECT_BYTES];
    uint8_t head[GY_FRAME_BYTES]; /* header of the first frame, which identifies the kind */
    size_t head_bytes;
    stream_lookup *lookup;
    uv_poll_t poll;
    int events; /* watched events; 0: none */
    bool has_poll, is_caller, is_open, is_closed, is_pushed, is_hot, is_stranger;
    bool is_wide; /* its wire has large buffers */
    /* Shared memory in place of the wire, which is the bell; NULL: none. */
    stream_rings *rings, *asked_rings; /* asked_rings: the other end has not answered */
    struct stream_connection *next_shared;
    uint8_t share[GY_RPC_SHARE_BYTES]; /* what is asked or answered about it */
    size_t share_bytes;                /* so many have arrived, of its header too */
    bool is_sharing;                   /* it was asked for, and is not answered */
    bool was_asked;                    /* once is enough */
    bool has_bells;                    /* some may be in the socket */
    bool is_silent;                    /* the other end has closed the bell */
    gy_deadline deadline;              /* while it is unauthenticated */
    char from[GY_ADDRESS_TEXT_BYTES];
} stream_connection;

/* A peer that refused the newest epoch, which it has not got yet. */
typedef struct stream_older {
    char at[GY_ADDRESS_TEXT_BYTES]; /* the address as given to the dial; "": none */
    uint32_t skipped;
} stream_older;

struct gy_stream {
    gy_rpc *rpc;
    gy_env *env;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_poll_t listening;
    gy_keyring *ring; /* NULL: plain */
    gy_tls *tls;
    gy_keyring_who who; /* role and subject that the node calls as */
    stream_older older[STREAM_OLDER];
    uint32_t older_count; /* total number ever */
    uint32_t skipped;     /* for the connection that is being opened */
    int listener;         /* -1: none */
    int stranger_count, stranger_max;
    bool is_listening; /* watched, because there is room for another caller */
    int64_t listen_ns; /* when to watch it again after a failure; INT64_MAX: no failure */
    uint32_t happened; /* events in this turn */
    int64_t ring_ns;   /* when to check the ring next */
    stream_connection *connections, *strangers_first, *strangers_last, *pushed, *hot;
    const struct gy_bulk_server *server;
    stream_bulk *bulks;
    uint32_t bulk_count;  /* transfers being sent */
    uint64_t fetch_count; /* total number ever */
    uint8_t *buffer;      /* (STREAM_BUFFER_BYTES) buffer for reads */
    bool shares_memory;
    bool is_turning, may_sleep; /* in a turn, which may sleep */
    stream_connection *shared;  /* those with shared memory */
    int shared_count;
};

/* ---- connect.c ---- */

/** Takes `wire`, also on failure. */
GY_MUST_CHECK gy_status gy_rpc_connection_new(gy_stream *stream, gy_tcp_wire *wire,
                                              bool is_caller, stream_connection **connection);
/** Connect to `address` for a link. */
gy_status gy_rpc_connection_dial(void *carrier, gy_rpc_link *link, const char *address);
/** Connect to `address` for a transfer. */
GY_MUST_CHECK gy_status gy_rpc_connection_fetch(gy_stream *stream, stream_bulk *bulk,
                                                const char *address);
/** Mark a connection as having more to do, even without socket events. */
void gy_rpc_connection_heat(stream_connection *connection);
void gy_rpc_connection_push(void *carrier, gy_rpc_link *link);
void gy_rpc_connection_close_link(void *carrier, gy_rpc_link *link);
/** Open, read and write as far as the socket allows. */
void gy_rpc_connection_go_on(stream_connection *connection);
/** Only write. */
void gy_rpc_connection_write(stream_connection *connection);
/** Watch for the events that it waits for. */
void gy_rpc_connection_watch(stream_connection *connection);
/** Fail the connection: `status` < 0 with gy_error_text. */
void gy_rpc_connection_fail(stream_connection *connection, gy_status status);
/** Close without sending anything. */
void gy_rpc_connection_close(stream_connection *connection);

/* ---- listen.c ---- */

gy_status gy_stream_listen(void *carrier, const char *at, char text[GY_RPC_ADDRESS_BYTES]);
void gy_rpc_stranger_add(stream_connection *connection);
/** The connection is authenticated, or has ended. */
void gy_rpc_stranger_remove(stream_connection *connection);
/** Close unauthenticated connections after their time limit; when all places are taken,
 * earlier. */
void gy_rpc_strangers_look(gy_stream *stream);
/** When the next one reaches its time limit; INT64_MAX: there is none. */
int64_t gy_rpc_strangers_due_ns(const gy_stream *stream);
/** Watch the listener again when the pause after a failure is over. */
void gy_rpc_listener_look(gy_stream *stream);
void gy_stream_unlisten(gy_stream *stream);

/* ---- share.c ---- */

/** Ask the other end of an open connection to use shared memory. False: it is not asked. */
bool gy_rpc_share_ask(stream_connection *connection);
/** Read the answer. GY_OK the link is up, with or without shared memory; GY_AGAIN; GY_PEER;
 * GY_FORMAT */
GY_MUST_CHECK gy_status gy_rpc_share_hear(stream_connection *connection);
/** Is the header of the first frame such a question? */
bool gy_rpc_share_is_asked(const stream_connection *connection);
/** Read the question and answer it: then share_bytes is 0, and the first frame follows. */
GY_MUST_CHECK gy_status gy_rpc_share_answer(stream_connection *connection);
/** As those of the wire. GY_PEER the bell was closed, and all was read */
gy_status gy_rpc_share_read(stream_connection *connection, const struct iovec *pieces,
                            int count, size_t *got);
gy_status gy_rpc_share_write(stream_connection *connection, const struct iovec *pieces,
                             int count, size_t *put);
/** Mark connections whose memory has work. Their bells are not wanted from here on. */
void gy_rpc_shares_look(gy_stream *stream);
/** This node is about to sleep. False: there is work. */
bool gy_rpc_shares_arm(gy_stream *stream);
/** The connection ends. */
void gy_rpc_share_end(stream_connection *connection);

/* ---- bulk.c ---- */

/** A caller requests a region; the header of its first frame has arrived. */
GY_MUST_CHECK gy_status gy_rpc_bulk_accept(stream_connection *connection);
/** The connection for a transfer is open: send the request. */
GY_MUST_CHECK gy_status gy_rpc_bulk_greet(stream_connection *connection);
/** GY_OK; GY_AGAIN more can be done at once; < 0. The call may close the connection. */
gy_status gy_rpc_bulk_step(stream_connection *connection);
bool gy_rpc_bulk_wants_room(const stream_connection *connection);
bool gy_rpc_bulk_wants_input(const stream_connection *connection);
/** Its connection failed, and is closed. */
void gy_rpc_bulk_lost(stream_bulk *bulk, gy_status status);
void gy_rpc_bulk_free(stream_bulk *bulk);
int64_t gy_rpc_bulks_next_ns(const gy_stream *stream);
/** End transfers that exceed their time limits. */
void gy_rpc_bulks_look(gy_stream *stream);

/* ---- stream.c ---- */

/** Check the ring, and close connections whose keys are no longer in it. */
void gy_stream_look_at_ring(gy_stream *stream);
/** Choose the key to offer, before a connection to or from that address is opened. */
void gy_stream_choose_key(gy_stream *stream, const char *at);
/** The node at that address does not have the key: offer it the next older one. */
void gy_stream_was_refused(gy_stream *stream, const char *at);

#endif
