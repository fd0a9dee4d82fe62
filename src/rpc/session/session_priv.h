/**
 * Inside room rpc: the machine of sessions, which no socket, clock or lock stands in. Bytes of
 * links come in, bytes go out, alarms fire; the rest follows.
 *
 * node.c what a node is · peer.c peers and their connections · link.c frames of a connection ·
 * call.c what is asked of others · serve.c what others ask · message.c bytes and messages ·
 * table.c numbers and alarms.
 */
#ifndef GY_RPC_SESSION_SESSION_PRIV_H
#define GY_RPC_SESSION_SESSION_PRIV_H

#include "rpc/carrier.h"
#include "rpc/session/plant_priv.h"
#include "transport/net.h"

struct Gy__Rpc__Envelope;
struct Gy__Rpc__Hello;

/* ---- Numbers and alarms ---- */

/** First in what stands in a table. */
typedef struct gy_rpc_entry {
    struct gy_rpc_entry *next;
    uint64_t number;
} gy_rpc_entry;

typedef struct gy_rpc_table {
    gy_rpc_entry **buckets;
    size_t bucket_count, count;
} gy_rpc_table;

/** GY_NOMEM: not added. The number is not there yet. */
GY_MUST_CHECK gy_status gy_rpc_table_add(gy_rpc_table *table, gy_rpc_entry *entry);
gy_rpc_entry *gy_rpc_table_find(const gy_rpc_table *table, uint64_t number);
void gy_rpc_table_remove(gy_rpc_table *table, const gy_rpc_entry *entry);
/** Any entry; NULL when it is empty. */
gy_rpc_entry *gy_rpc_table_any(const gy_rpc_table *table);
void gy_rpc_table_free(gy_rpc_table *table);

typedef enum gy_rpc_alarm_kind { ALARM_LINK, ALARM_PEER, ALARM_CALL } gy_rpc_alarm_kind;

typedef struct gy_rpc_alarm {
    int64_t at_ns;
    size_t place; /* in the heap, from 1; 0: not set */
    gy_rpc_alarm_kind kind;
} gy_rpc_alarm;

typedef struct gy_rpc_alarms {
    gy_rpc_alarm **heap;
    size_t count, capacity, admitted;
} gy_rpc_alarms;

/** Room for one more, so that setting it never fails. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_alarm_admit(gy_rpc_alarms *alarms);
/** Unset it, and give up its room. */
void gy_rpc_alarm_dismiss(gy_rpc_alarms *alarms, gy_rpc_alarm *alarm);
/** Set, or set anew; INT64_MAX: unset. */
void gy_rpc_alarm_set(gy_rpc_alarms *alarms, gy_rpc_alarm *alarm, int64_t at_ns);

/* ---- Messages ---- */

typedef enum gy_rpc_kind {
    KIND_HELLO = 1,
    KIND_BEAT,
    KIND_BYE,
    KIND_REFUSED,
    KIND_CALL,
    KIND_ANSWER,
    KIND_TELL,
    KIND_CANCEL,
    KINDS
} gy_rpc_kind;

enum {
    RPC_VERSION = 1,
    RPC_ID_BYTES = 16,
    RPC_HELLO_BYTES = 64 * 1024,
    RPC_MORE_BYTES = 4096, /* of an envelope beside its body */
    RPC_TEXT_BYTES = 1024,
    RPC_ACKS = 256, /* in one envelope */
    RPC_CALLS = 4096,
    RPC_PUMP_BYTES = 64 * 1024, /* what a link is filled up to */
    RPC_NAME_BYTES = 64,
};

/** Unpack within a budget of memory that follows from the size. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_unpack(const ProtobufCMessageDescriptor *descriptor,
                                      const uint8_t *data, size_t size_bytes,
                                      ProtobufCMessage **message);
void gy_rpc_unpacked_free(ProtobufCMessage *message);

/** Bytes that come in pieces, cut into frames. Zero-initialise. */
typedef struct gy_rpc_inbox {
    uint8_t head[GY_FRAME_BYTES];
    size_t head_bytes;
    gy_transport_frame frame; /* once the head is whole */
    uint8_t *body;            /* that did not come in one piece */
    size_t body_bytes;
    uint64_t received; /* frames */
} gy_rpc_inbox;

/** How many bytes a frame of that tag may have; 0: there is no such frame here. */
typedef size_t (*gy_rpc_limit)(const void *arg, uint64_t tag);
/**
 * Take bytes up to the end of a frame. GY_OK: *body (size frame.size_bytes) is its body, until
 * the next call; GY_AGAIN all is taken and the frame is not whole; GY_FORMAT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_inbox_take(gy_rpc_inbox *inbox, const uint8_t **data,
                                          size_t *size_bytes, gy_rpc_limit limit,
                                          const void *arg, const uint8_t **body);
void gy_rpc_inbox_fini(gy_rpc_inbox *inbox);

/** Frames that wait for a carrier. Zero-initialise. */
typedef struct gy_rpc_outbox {
    uint8_t *data;
    size_t at, size_bytes, capacity;
    uint64_t sent; /* frames */
} gy_rpc_outbox;

/** Put a frame there. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_outbox_put(gy_rpc_outbox *outbox, uint64_t tag,
                                          const ProtobufCMessage *message);
void gy_rpc_outbox_sent(gy_rpc_outbox *outbox, size_t size_bytes);
void gy_rpc_outbox_fini(gy_rpc_outbox *outbox);

static inline uint64_t gy_rpc_tag_of(gy_rpc_kind kind, uint32_t type)
{
    return (uint64_t)type << 8 | (uint64_t)kind;
}

/* ---- What a node holds ---- */

typedef struct rpc_call {
    gy_rpc_entry entry;               /* first */
    gy_rpc_alarm alarm;               /* its deadline */
    struct rpc_peer *peer;            /* NULL: it has ended, and `done` is to come */
    struct rpc_call *next, *previous; /* of the peer, by number; or of those that ended */
    const gy_rpc_method *method;
    gy_rpc_done done;
    void *arg;
    int64_t deadline_ns;
    bool is_hasty, was_sent; /* was_sent: this life of the peer may have it */
    gy_error error;          /* once ended; text in it only then */
    size_t size_bytes;
    uint8_t body[];
} rpc_call;

typedef enum rpc_asked_state { ASKED_RUNS, ASKED_ANSWERED, ASKED_FORGOTTEN } rpc_asked_state;

/* A call of the peer, until it says that it has the answer or wants none. */
typedef struct rpc_asked {
    gy_rpc_entry entry; /* first */
    const gy_rpc_method *method;
    rpc_asked_state state;
    bool is_waiting, is_unwanted;      /* to be sent; cancelled while it ran */
    struct rpc_asked *next, *previous; /* of those that are answered, oldest first */
    struct rpc_asked *next_waiting;
    int64_t deadline_ns;
    gy_status status;
    uint8_t *answer; /* packed, or the text of a failure */
    size_t size_bytes;
} rpc_asked;

typedef struct rpc_peer {
    gy_rpc_entry entry; /* first; its number is the handle */
    gy_rpc_alarm alarm; /* to dial again, or to be forgotten */
    gy_rpc *node;
    struct rpc_peer *next_id, *next_dead;
    gy_rpc_link *link; /* NULL: none, not even under way */
    bool is_dialled, has_id, is_up, is_dropped;
    bool is_full, is_drained; /* a GY_AGAIN was given; that it has room is to be said */
    gy_rpc_role role;
    char subject[GY_RPC_SUBJECT_BYTES];
    uint8_t id[RPC_ID_BYTES];
    uint64_t session;    /* as the called end numbers them */
    uint32_t life;       /* counts those of the peer */
    uint64_t connection; /* that were made, or the newest that came */
    uint32_t failures;   /* dials in a row */
    char *address;       /* to dial */
    char name[RPC_NAME_BYTES], text[RPC_NAME_BYTES + 80];
    char why[256]; /* there is no connection */
    void *tag;
    /* What it is asked. */
    gy_rpc_table calls;
    rpc_call *first, *last, *unsent; /* from `unsent` on they wait */
    uint64_t number;                 /* of the last call */
    size_t waiting_bytes;            /* of those that wait, and of answers */
    uint64_t *acks;                  /* answers that it need not remember */
    size_t ack_count, ack_capacity, ack_bytes;
    /* What it asks. */
    gy_rpc_table asked;
    uint64_t heard; /* the highest number */
    rpc_asked *answered_first, *answered_last, *waiting_first, *waiting_last;
    size_t kept_bytes; /* of answers */
} rpc_peer;

struct gy_rpc_link {
    gy_rpc *node;
    gy_rpc_link *next, *previous, *next_dead;
    gy_rpc_alarm alarm; /* to beat, to be silent, to be slow with the first words */
    rpc_peer *peer;     /* of one that dialled: NULL before its first words */
    void *tag;
    bool is_dialled, is_up, is_ready, is_dead, is_broken;
    gy_rpc_role role; /* GY_RPC_ROLES: not proved */
    char subject[GY_RPC_SUBJECT_BYTES];
    int64_t opened_ns, heard_ns, said_ns;
    char from[GY_RPC_ADDRESS_BYTES];
    gy_rpc_inbox inbox;
    gy_rpc_outbox outbox;
};

struct gy_rpc {
    gy_env *env;
    gy_rpc_options options;
    const gy_rpc_carrier_ops *ops;
    void *carrier;
    uint8_t id[RPC_ID_BYTES];
    char name[RPC_NAME_BYTES], subject[GY_RPC_SUBJECT_BYTES];
    const gy_rpc_method **methods; /* by type */
    gy_rpc_alarms alarms;
    gy_rpc_table peers;
    rpc_peer *by_id;     /* those that dialled, chained */
    uint64_t peer_count; /* ever */
    gy_rpc_link *links, *dead_links;
    rpc_peer *dead_peers;
    rpc_call *ended_first, *ended_last;
    int depth;           /* of calls of the carrier */
    bool is_due;         /* some peer is drained */
    int64_t complain_ns; /* when the log was last filled up */
    uint32_t complaints, silenced;
};

/* ---- node.c ---- */

static inline int64_t gy_rpc_now_ns(const gy_rpc *node)
{
    return gy_now_ns(node->env);
}
const gy_rpc_method *gy_rpc_method_of(const gy_rpc *node, uint64_t type);
void gy_rpc_hear(rpc_peer *peer, gy_rpc_event event);
/** One line in the log, unless there were too many of late. */
void gy_rpc_complain(gy_rpc *node, const char *from, const char *what, const char *why);
void gy_rpc_enter(gy_rpc *node);
void gy_rpc_leave(gy_rpc *node);

/* ---- peer.c ---- */

rpc_peer *gy_rpc_peer_find(const gy_rpc *node, gy_rpc_peer handle);
/** The first words of the other end of a link. */
gy_status gy_rpc_peer_hello(gy_rpc_link *link, const struct Gy__Rpc__Hello *hello);
/** Its link is gone: `status` < 0 with gy_error_text. */
void gy_rpc_peer_unlinked(rpc_peer *peer, gy_status status);
void gy_rpc_peer_alarm(rpc_peer *peer);
/** It is not coming back: forget it, without an event; its calls end with `status`. */
void gy_rpc_peer_forget(rpc_peer *peer, gy_status status);
void gy_rpc_peer_free(rpc_peer *peer);
/** Fill the link with what waits. */
void gy_rpc_peer_pump(rpc_peer *peer);
size_t gy_rpc_peer_waiting(const rpc_peer *peer);
/** Is there room again, for one who was told that there is none? */
void gy_rpc_peer_look(rpc_peer *peer);

/* ---- link.c ---- */

GY_MUST_CHECK gy_status gy_rpc_link_new(gy_rpc *node, gy_rpc_link **link);
/** Say something. A failure ends the link, with the next turn. */
gy_status gy_rpc_link_say(gy_rpc_link *link, gy_rpc_kind kind, uint32_t type,
                          struct Gy__Rpc__Envelope *envelope);
gy_status gy_rpc_link_hello(gy_rpc_link *link);
/** The node ends it: `status` < 0 with gy_error_text. */
void gy_rpc_link_end(gy_rpc_link *link, gy_status status);
/** Both ends have said who they are. */
void gy_rpc_link_ready(gy_rpc_link *link);
void gy_rpc_link_alarm(gy_rpc_link *link);
void gy_rpc_link_free(gy_rpc_link *link);

/* ---- call.c ---- */

gy_status gy_rpc_calls_answer(rpc_peer *peer, const gy_rpc_method *method,
                              const struct Gy__Rpc__Envelope *envelope);
/** The connection broke. */
void gy_rpc_calls_unlinked(rpc_peer *peer, gy_status status);
/** The peer was started anew. */
void gy_rpc_calls_anew(rpc_peer *peer);
void gy_rpc_calls_end(rpc_peer *peer, gy_status status, const char *why);
void gy_rpc_call_alarm(rpc_call *call);
/** Callbacks of those that have ended. */
void gy_rpc_calls_deliver(gy_rpc *node);
/** Put one into the link. */
gy_status gy_rpc_call_send(rpc_call *call);

/* ---- serve.c ---- */

gy_status gy_rpc_serve_call(rpc_peer *peer, const gy_rpc_method *method,
                            const struct Gy__Rpc__Envelope *envelope);
gy_status gy_rpc_serve_tell(rpc_peer *peer, const gy_rpc_method *method,
                            const struct Gy__Rpc__Envelope *envelope);
void gy_rpc_serve_cancel(rpc_peer *peer, uint64_t number);
void gy_rpc_serve_acks(rpc_peer *peer, const uint64_t *numbers, size_t count);
/** Calls that are not among those no longer matter to the peer. */
void gy_rpc_serve_open(rpc_peer *peer, const uint64_t *numbers, size_t count);
/** All of them are another life's. */
void gy_rpc_serve_anew(rpc_peer *peer);
gy_status gy_rpc_asked_send(rpc_peer *peer);
void gy_rpc_asked_unlinked(rpc_peer *peer);

#endif
