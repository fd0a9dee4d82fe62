/**
 * Inside room rpc: nodes on sockets. One libuv loop a node; each connection is a wire of room
 * transport (plain or TLS 1.3 by a key of the ring) that a poll handle watches.
 *
 * stream.c the loop and its turns · listen.c callers who have proved nothing yet · connect.c
 * one connection.
 */
#ifndef GY_RPC_STREAM_STREAM_PRIV_H
#define GY_RPC_STREAM_STREAM_PRIV_H

#include "rpc/keyring.h"
#include "rpc/session/session_priv.h"
#include "transport/net.h"

#include <uv.h>

enum { STREAM_BUFFER_BYTES = 64 * 1024, STREAM_ROUNDS = 256, STREAM_OLDER = 64 };

typedef struct gy_stream gy_stream;
typedef struct stream_lookup stream_lookup;
typedef struct stream_bulk stream_bulk;

/* A connection. It stands until its poll handle is closed. */
typedef struct stream_connection {
    struct stream_connection *next, *previous; /* of the stream */
    struct stream_connection *next_stranger, *previous_stranger;
    struct stream_connection *next_pushed, *next_hot;
    gy_stream *stream;
    gy_tcp_wire *wire; /* NULL: its address is looked up, or it is closed */
    gy_rpc_link *link; /* both NULL: not known yet what it is */
    stream_bulk *bulk;
    gy_rpc_role role; /* proved by one who called; GY_RPC_ROLES: none */
    char subject[GY_RPC_SUBJECT_BYTES];
    uint8_t head[GY_FRAME_BYTES]; /* its first, by which it is known */
    size_t head_bytes;
    stream_lookup *lookup;
    uv_poll_t poll;
    int events; /* that are watched; 0: none */
    bool has_poll, is_caller, is_open, is_closed, is_pushed, is_hot, is_stranger;
    gy_deadline deadline; /* of a stranger */
    char from[GY_ADDRESS_TEXT_BYTES];
} stream_connection;

/* A peer that refused the newest epoch, which it has not got yet. */
typedef struct stream_older {
    char at[GY_ADDRESS_TEXT_BYTES]; /* as it was dialled; "": none */
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
    gy_keyring_who who; /* as which it calls */
    stream_older older[STREAM_OLDER];
    uint32_t older_count; /* ever noted */
    uint32_t skipped;     /* for what is opened now */
    int listener;         /* -1: none */
    int stranger_count, stranger_max;
    bool is_listening; /* watched: there is room for a stranger */
    int64_t listen_ns; /* when it is watched again, having failed; INT64_MAX: it did not */
    uint32_t happened; /* in this turn */
    int64_t ring_ns;   /* when the ring is looked at next */
    stream_connection *connections, *strangers_first, *strangers_last, *pushed, *hot;
    const struct gy_bulk_server *server;
    stream_bulk *bulks;
    uint32_t bulk_count;  /* that are sent */
    uint64_t fetch_count; /* ever */
    uint8_t *buffer;      /* (STREAM_BUFFER_BYTES) what is read passes through it */
};

/* ---- connect.c ---- */

/** Takes `wire`, also on failure. */
GY_MUST_CHECK gy_status gy_rpc_connection_new(gy_stream *stream, gy_tcp_wire *wire,
                                              bool is_caller, stream_connection **connection);
/** Call `address` for a link. */
gy_status gy_rpc_connection_dial(void *carrier, gy_rpc_link *link, const char *address);
/** Call `address` for a transfer. */
GY_MUST_CHECK gy_status gy_rpc_connection_fetch(gy_stream *stream, stream_bulk *bulk,
                                                const char *address);
/** It has more to do, whatever the socket says. */
void gy_rpc_connection_heat(stream_connection *connection);
void gy_rpc_connection_push(void *carrier, gy_rpc_link *link);
void gy_rpc_connection_close_link(void *carrier, gy_rpc_link *link);
/** Open it, read, write: what the socket allows. */
void gy_rpc_connection_go_on(stream_connection *connection);
/** Write alone. */
void gy_rpc_connection_write(stream_connection *connection);
/** Watch for what it waits for. */
void gy_rpc_connection_watch(stream_connection *connection);
/** It fails: `status` < 0 with gy_error_text. */
void gy_rpc_connection_fail(stream_connection *connection, gy_status status);
/** No more of it, without a word. */
void gy_rpc_connection_close(stream_connection *connection);

/* ---- listen.c ---- */

gy_status gy_stream_listen(void *carrier, const char *at, char text[GY_RPC_ADDRESS_BYTES]);
void gy_rpc_stranger_add(stream_connection *connection);
/** It has said who it is, or is gone. */
void gy_rpc_stranger_remove(stream_connection *connection);
/** Those that take too long are sent away; when all places are taken, soon. */
void gy_rpc_strangers_look(gy_stream *stream);
/** When the next one has had its time; INT64_MAX: none is there. */
int64_t gy_rpc_strangers_due_ns(const gy_stream *stream);
/** Those that could not be let in are tried again when it is time. */
void gy_rpc_listener_look(gy_stream *stream);
void gy_stream_unlisten(gy_stream *stream);

/* ---- bulk.c ---- */

/** A caller wants something; its first frame's head is there. */
GY_MUST_CHECK gy_status gy_rpc_bulk_accept(stream_connection *connection);
/** The connection that was made for a transfer is open: say what is wanted. */
GY_MUST_CHECK gy_status gy_rpc_bulk_greet(stream_connection *connection);
/** GY_OK; GY_AGAIN more can be done at once; < 0. The connection may be closed within. */
gy_status gy_rpc_bulk_step(stream_connection *connection);
bool gy_rpc_bulk_wants_room(const stream_connection *connection);
bool gy_rpc_bulk_wants_input(const stream_connection *connection);
/** Its connection failed, and is closed. */
void gy_rpc_bulk_lost(stream_bulk *bulk, gy_status status);
void gy_rpc_bulk_free(stream_bulk *bulk);
int64_t gy_rpc_bulks_next_ns(const gy_stream *stream);
/** Those that are late or silent end. */
void gy_rpc_bulks_look(gy_stream *stream);

/* ---- stream.c ---- */

/** Look at the ring; connections by keys that are there no more end. */
void gy_stream_look_at_ring(gy_stream *stream);
/** Before a connection to or from there is opened: which key to offer. */
void gy_stream_choose_key(gy_stream *stream, const char *at);
/** The end that was called there has not the key: the next older one is for it. */
void gy_stream_was_refused(gy_stream *stream, const char *at);

#endif
