/**
 * Inside room rpc: the state machine of sessions, free of sockets, clocks and locks. Bytes of
 * links come in, bytes go out, and alarms fire; everything else follows.
 *
 * node.c the node · peer.c peers and their connections · link.c frames of a connection · call.c
 * outgoing calls · serve.c incoming calls · beside.c bytes beside messages · message.c frames
 * and messages · table.c numbers and alarms.
 */
#ifndef GY_RPC_SESSION_SESSION_PRIV_H
#define GY_RPC_SESSION_SESSION_PRIV_H

#include "rpc/carrier.h"
#include "rpc/session/plant_priv.h"
#include "transport/net.h"

struct Gy__Rpc__Envelope;
struct Gy__Rpc__Hello;

/* ---- Tables and alarms ---- */

/** The first member of everything in a table. */
typedef struct gy_rpc_entry {
    struct gy_rpc_entry *next;
    uint64_t number;
} gy_rpc_entry;

typedef struct gy_rpc_table {
    gy_rpc_entry **buckets;
    size_t bucket_count, count;
} gy_rpc_table;

/** Add an entry whose number is not in the table. GY_NOMEM: not added. */
GY_MUST_CHECK gy_status gy_rpc_table_add(gy_rpc_table *table, gy_rpc_entry *entry);
gy_rpc_entry *gy_rpc_table_find(const gy_rpc_table *table, uint64_t number);
void gy_rpc_table_remove(gy_rpc_table *table, const gy_rpc_entry *entry);
/** Any entry; NULL when it is empty. */
gy_rpc_entry *gy_rpc_table_any(const gy_rpc_table *table);
void gy_rpc_table_free(gy_rpc_table *table);

typedef enum gy_rpc_alarm_kind { ALARM_LINK, ALARM_PEER, ALARM_CALL } gy_rpc_alarm_kind;

typedef struct gy_rpc_alarm {
    int64_t at_ns;
    size_t place; /* position in the heap, from 1; 0: not set */
    gy_rpc_alarm_kind kind;
} gy_rpc_alarm;

typedef struct gy_rpc_alarms {
    gy_rpc_alarm **heap;
    size_t count, capacity, admitted;
} gy_rpc_alarms;

/** Reserve room for one more alarm, so that setting it never fails. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_alarm_admit(gy_rpc_alarms *alarms);
/** Unset it, and release its room. */
void gy_rpc_alarm_dismiss(gy_rpc_alarms *alarms, gy_rpc_alarm *alarm);
/** Set or change its time; INT64_MAX: unset. */
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
    KIND_BESIDE, /* not packed: some of the bytes beside the last call or answer */
    KIND_CUT,    /* the rest of them will not come */
    KINDS
} gy_rpc_kind;

enum {
    RPC_VERSION = 1,
    RPC_ID_BYTES = 16,
    RPC_HELLO_BYTES = 64 * 1024,
    RPC_MORE_BYTES = 4096, /* size of an envelope without its body */
    RPC_TEXT_BYTES = 1024,
    RPC_ACKS = 256, /* acks in one envelope */
    RPC_CALLS = 4096,
    RPC_PUMP_BYTES = 64 * 1024, /* bytes up to which a link's output is filled */
    RPC_NAME_BYTES = 64,
#ifdef GYRE_PLANTED
    RPC_CHUNK_BYTES = 16 * 1024, /* small, so that a simulation has many */
#else
    RPC_CHUNK_BYTES = 256 * 1024, /* bytes beside a message that one frame has */
#endif
    RPC_COPIED_BYTES = 4096, /* so few are copied rather than lent */
};

/** Decode within a memory budget that depends on the size. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_unpack(const ProtobufCMessageDescriptor *descriptor,
                                      const uint8_t *data, size_t size_bytes,
                                      ProtobufCMessage **message);
void gy_rpc_unpacked_free(ProtobufCMessage *message);

/** Splits a stream of bytes into frames. Zero-initialise. */
typedef struct gy_rpc_inbox {
    uint8_t head[GY_FRAME_BYTES];
    size_t head_bytes;
    gy_transport_frame frame; /* valid once the header is complete */
    uint8_t *body;            /* body of a frame that arrived in several chunks */
    size_t body_bytes;
    uint64_t received; /* number of frames */
    size_t raw_bytes;  /* that still come of a frame of KIND_BESIDE */
} gy_rpc_inbox;

/** The largest size of a frame with that tag; 0: unknown tag. */
typedef size_t (*gy_rpc_limit)(const void *arg, uint64_t tag);
/**
 * Consume bytes up to the end of a frame. GY_OK: *body (size frame.size_bytes) is its body,
 * valid until the next call, or NULL for a frame of KIND_BESIDE, whose body the caller takes,
 * inbox->raw_bytes; GY_AGAIN all bytes are consumed and the frame is incomplete;
 * GY_FORMAT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_inbox_take(gy_rpc_inbox *inbox, const uint8_t **data,
                                          size_t *size_bytes, gy_rpc_limit limit,
                                          const void *arg, const uint8_t **body);
void gy_rpc_inbox_fini(gy_rpc_inbox *inbox);

/** Frames that wait for the carrier. Zero-initialise. */
typedef struct gy_rpc_outbox {
    uint8_t *data;
    size_t at, size_bytes, capacity;
    uint64_t sent; /* number of frames */
} gy_rpc_outbox;

/** Append the head of a frame whose body is `body`, or (NULL) goes elsewhere. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_outbox_put_raw(gy_rpc_outbox *outbox, uint64_t tag,
                                              const void *body, size_t size_bytes);
/** Insert bytes behind the first `before_bytes` that wait. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_outbox_insert(gy_rpc_outbox *outbox, size_t before_bytes,
                                             const void *data, size_t size_bytes);
/** Append a frame. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_outbox_put(gy_rpc_outbox *outbox, uint64_t tag,
                                          const ProtobufCMessage *message);
void gy_rpc_outbox_sent(gy_rpc_outbox *outbox, size_t size_bytes);
void gy_rpc_outbox_fini(gy_rpc_outbox *outbox);

static inline uint64_t gy_rpc_tag_of(gy_rpc_kind kind, uint32_t type)
{
    return (uint64_t)type << 8 | (uint64_t)kind;
}

/* ---- The parts of a node ---- */

typedef struct rpc_call {
    gy_rpc_entry entry;    /* must be first */
    gy_rpc_alarm alarm;    /* fires at its deadline */
    struct rpc_peer *peer; /* NULL: the call has ended, and `done` will be called */
    /* list of the peer's calls by number; or of ended calls */
    struct rpc_call *next, *previous;
    const gy_rpc_method *method;
    gy_rpc_done done;
    void *arg;
    int64_t deadline_ns;
    bool is_hasty, was_sent; /* was_sent: this life of the peer may have received it */
    gy_error error;          /* once it has ended; the text is set only then */
    const uint8_t *beside;   /* lent by the caller */
    size_t beside_bytes;
    gy_status (*admit)(void *arg, const ProtobufCMessage *answer, size_t size_bytes,
                       void **room);
    size_t size_bytes;
    uint8_t body[];
} rpc_call;

typedef enum rpc_asked_state { ASKED_RUNS, ASKED_ANSWERED, ASKED_FORGOTTEN } rpc_asked_state;

/* A call from the peer, until the peer has acknowledged or cancelled it. */
typedef struct rpc_asked {
    gy_rpc_entry entry; /* must be first */
    const gy_rpc_method *method;
    rpc_asked_state state;
    /* is_waiting: to be sent; is_unwanted: cancelled while it ran */
    bool is_waiting, is_unwanted;
    struct rpc_asked *next, *previous; /* list of answered calls, oldest first */
    struct rpc_asked *next_waiting;
    int64_t deadline_ns;
    gy_status status;
    uint8_t *answer; /* encoded answer, or the text of a failure */
    size_t size_bytes;
    gy_rpc_lent lent; /* bytes beside the answer */
} rpc_asked;

/* Bytes beside a message that are being sent: one message's at a time. */
typedef struct rpc_lend {
    const uint8_t *data; /* the next ones; NULL: none are being sent */
    size_t left_bytes, chunk_bytes;
    size_t before_bytes; /* of the outbox, that go before the chunk */
    const rpc_call *call;
    rpc_asked *asked; /* whose they are: of one of both */
} rpc_lend;

/* Bytes beside a message that are being received. */
typedef struct rpc_coming {
    size_t left_bytes, size_bytes; /* left_bytes > 0: they are */
    uint8_t *room;                 /* NULL: they are skipped */
    ProtobufCMessage *message;     /* request or answer; NULL: skipped */
    const gy_rpc_method *method;
    rpc_call *call; /* of an answer; NULL: the call has ended, or it is a request */
    uint64_t number;
    int64_t deadline_ns;
    bool is_call;
} rpc_coming;

typedef struct rpc_peer {
    gy_rpc_entry entry; /* must be first; its number is the handle */
    gy_rpc_alarm alarm; /* fires when to dial again, or when to forget the peer */
    gy_rpc *node;
    struct rpc_peer *next_id, *next_dead;
    gy_rpc_link *link; /* NULL: no connection, not even being established */
    bool is_dialled, has_id, is_up, is_dropped;
    /* is_full: GY_AGAIN was returned; is_drained: GY_RPC_DRAINED must be reported */
    bool is_full, is_drained;
    gy_rpc_role role;
    char subject[GY_RPC_SUBJECT_BYTES];
    uint8_t id[RPC_ID_BYTES];
    uint64_t session;    /* number given by the called end */
    uint32_t life;       /* number of the peer's restarts */
    uint64_t connection; /* number of connections made, or number of the newest incoming one */
    uint32_t failures;   /* consecutive failed dials */
    char *address;       /* the address to dial */
    char name[RPC_NAME_BYTES], text[RPC_NAME_BYTES + 80];
    char why[256]; /* why there is no connection */
    void *tag;
    /* Calls to the peer. */
    gy_rpc_table calls;
    rpc_call *first, *last, *unsent; /* calls from `unsent` on are queued */
    uint64_t number;                 /* of the last call */
    size_t waiting_bytes;            /* of queued calls and answers */
    uint64_t *acks;                  /* numbers of answers that it may forget */
    size_t ack_count, ack_capacity, ack_bytes;
    /* Calls from the peer. */
    gy_rpc_table asked;
    uint64_t heard; /* the highest number seen */
    rpc_asked *answered_first, *answered_last, *waiting_first, *waiting_last;
    size_t kept_bytes; /* stored answers */
} rpc_peer;

struct gy_rpc_link {
    gy_rpc *node;
    gy_rpc_link *next, *previous, *next_dead;
    gy_rpc_alarm alarm; /* fires for a heartbeat, for silence, or for a late hello */
    rpc_peer *peer;     /* of an incoming link: NULL before its hello */
    void *tag;
    bool is_dialled, is_up, is_ready, is_dead, is_broken;
    gy_rpc_role role; /* GY_RPC_ROLES: not authenticated */
    char subject[GY_RPC_SUBJECT_BYTES];
    int64_t opened_ns, heard_ns, said_ns;
    char from[GY_RPC_ADDRESS_BYTES];
    gy_rpc_inbox inbox;
    gy_rpc_outbox outbox;
    rpc_lend lend;
    rpc_coming coming;
};

struct gy_rpc {
    gy_env *env;
    gy_rpc_options options;
    const gy_rpc_carrier_ops *ops;
    void *carrier;
    uint8_t id[RPC_ID_BYTES];
    char name[RPC_NAME_BYTES], subject[GY_RPC_SUBJECT_BYTES];
    const gy_rpc_method **methods; /* sorted by type */
    gy_rpc_alarms alarms;
    gy_rpc_table peers;
    rpc_peer *by_id;     /* peers that dialled, in a list */
    uint64_t peer_count; /* total number ever */
    gy_rpc_link *links, *dead_links;
    rpc_peer *dead_peers;
    rpc_call *ended_first, *ended_last;
    int depth;           /* nesting depth of calls by the carrier */
    bool is_due;         /* some peer has is_drained set */
    int64_t complain_ns; /* time of the last credit for log lines */
    uint32_t complaints, silenced;
};

/* ---- node.c ---- */

static inline int64_t gy_rpc_now_ns(const gy_rpc *node)
{
    return gy_now_ns(node->env);
}
const gy_rpc_method *gy_rpc_method_of(const gy_rpc *node, uint64_t type);
void gy_rpc_hear(rpc_peer *peer, gy_rpc_event event);
/** Log a line, unless there were too many recently. */
void gy_rpc_complain(gy_rpc *node, const char *from, const char *what, const char *why);
void gy_rpc_enter(gy_rpc *node);
void gy_rpc_leave(gy_rpc *node);

/* ---- peer.c ---- */

rpc_peer *gy_rpc_peer_find(const gy_rpc *node, gy_rpc_peer handle);
/** Handle the hello of the other end of a link. */
gy_status gy_rpc_peer_hello(gy_rpc_link *link, const struct Gy__Rpc__Hello *hello);
/** Its link has ended: `status` < 0 with gy_error_text. */
void gy_rpc_peer_unlinked(rpc_peer *peer, gy_status status);
void gy_rpc_peer_alarm(rpc_peer *peer);
/** The peer will not return: forget it without an event; its calls end with `status`. */
void gy_rpc_peer_forget(rpc_peer *peer, gy_status status);
void gy_rpc_peer_free(rpc_peer *peer);
/** Fill the link with queued data. */
void gy_rpc_peer_pump(rpc_peer *peer);
size_t gy_rpc_peer_waiting(const rpc_peer *peer);
/** Check whether a peer that was refused with GY_AGAIN has room again. */
void gy_rpc_peer_look(rpc_peer *peer);

/* ---- link.c ---- */

GY_MUST_CHECK gy_status gy_rpc_link_new(gy_rpc *node, gy_rpc_link **link);
/** Send a message. A failure ends the link in the next turn. */
gy_status gy_rpc_link_say(gy_rpc_link *link, gy_rpc_kind kind, uint32_t type,
                          struct Gy__Rpc__Envelope *envelope);
gy_status gy_rpc_link_hello(gy_rpc_link *link);
/** The node ends the link: `status` < 0 with gy_error_text. */
void gy_rpc_link_end(gy_rpc_link *link, gy_status status);
/** Both ends have exchanged their hellos. */
void gy_rpc_link_ready(gy_rpc_link *link);
void gy_rpc_link_alarm(gy_rpc_link *link);
void gy_rpc_link_free(gy_rpc_link *link);

/* ---- beside.c ---- */

/** Send the bytes beside the message that was put last: of a call, or of an answer. */
gy_status gy_rpc_lend(gy_rpc_link *link, const rpc_call *call, rpc_asked *asked);
/** The bytes are not readable any more: send no more of them. */
void gy_rpc_lend_cut(gy_rpc_link *link);
/** Expect bytes; without a room and a message they are skipped. Takes coming->message. */
void gy_rpc_coming_begin(gy_rpc_link *link, const rpc_coming *coming);
void gy_rpc_coming_skip(gy_rpc_link *link, size_t size_bytes);
/** The other end has cut them. GY_FORMAT: it may not. */
GY_MUST_CHECK gy_status gy_rpc_coming_cut(gy_rpc_link *link);
/** They will not be complete. */
void gy_rpc_coming_drop(gy_rpc_link *link);
/** Take up to `size_bytes` of the frame's bytes, from `data` or (NULL) put already.
 * @return how many */
size_t gy_rpc_coming_take(gy_rpc_link *link, const uint8_t *data, size_t size_bytes);

/* ---- call.c ---- */

gy_status gy_rpc_calls_answer(rpc_peer *peer, const gy_rpc_method *method,
                              const struct Gy__Rpc__Envelope *envelope);
/** The connection broke. */
void gy_rpc_calls_unlinked(rpc_peer *peer, gy_status status);
/** The peer was restarted. */
void gy_rpc_calls_anew(rpc_peer *peer);
void gy_rpc_calls_end(rpc_peer *peer, gy_status status, const char *why);
void gy_rpc_call_alarm(rpc_call *call);
/** Call the callbacks of ended calls. */
void gy_rpc_calls_deliver(gy_rpc *node);
/** Append a call to the link's output. */
gy_status gy_rpc_call_send(rpc_call *call);
/** The answer is complete. Takes it. */
void gy_rpc_call_end(rpc_call *call, ProtobufCMessage *answer);

/* ---- serve.c ---- */

gy_status gy_rpc_serve_call(rpc_peer *peer, const gy_rpc_method *method,
                            const struct Gy__Rpc__Envelope *envelope);
gy_status gy_rpc_serve_tell(rpc_peer *peer, const gy_rpc_method *method,
                            const struct Gy__Rpc__Envelope *envelope);
void gy_rpc_serve_cancel(rpc_peer *peer, uint64_t number);
void gy_rpc_serve_acks(rpc_peer *peer, const uint64_t *numbers, size_t count);
/** Forget calls whose numbers are not in the list: the peer no longer needs them. */
void gy_rpc_serve_open(rpc_peer *peer, const uint64_t *numbers, size_t count);
/** Forget all calls: they are of an earlier life of the peer. */
void gy_rpc_serve_anew(rpc_peer *peer);
gy_status gy_rpc_asked_send(rpc_peer *peer);
void gy_rpc_asked_unlinked(rpc_peer *peer);
/** The answer was sent, or its connection broke: it is forgotten if it is not stored. */
void gy_rpc_asked_over(rpc_peer *peer, rpc_asked *asked);
/** The bytes of a request are complete: serve it. GY_NOMEM */
gy_status gy_rpc_serve_coming(rpc_peer *peer, const rpc_coming *coming);

#endif
