/**
 * Room rpc: remote procedure calls between the processes of a cluster. A node (gy_rpc) has a
 * table of methods that it serves, dials other nodes and is dialled; either end of a
 * connection may call the other. A peer represents another node at this one; it outlives its
 * connections.
 *
 * Guarantees, whatever the network does:
 * - Every call ends once, by its deadline: with an answer, or with a failure that names the
 *   peer.
 * - A call is sent again after its connection broke, with the same number, so that the peer
 *   recognises it: each life of the peer executes it at most once. If the peer was restarted in
 *   between, a call that it may have received fails with GY_PEER unless its method is
 *   repeatable.
 * - A peer that sends nothing for `dead_ns` is down, stopped or not.
 * - The queue of a peer is bounded: GY_AGAIN when it is full, and GY_RPC_DRAINED when there is
 *   room again.
 *
 * All functions and callbacks of a node run on one thread. Callbacks come only from gy_rpc_turn
 * (with a carrier: from the functions that it calls), never from within the functions below,
 * and may call all of them except gy_rpc_free and gy_rpc_turn.
 *
 * Reading order: rpc.h, keyring.h, carrier.h (the layer below: sockets or a simulator).
 */
#ifndef GY_RPC_RPC_H
#define GY_RPC_RPC_H

#include "base/base.h"

#include <protobuf-c/protobuf-c.h>

typedef struct gy_rpc gy_rpc;

/** Another node; 0: none. Numbers are never reused. */
typedef uint64_t gy_rpc_peer;

/* ---- Roles ---- */

/** The part of a cluster that a node calls as; authenticated by its key. */
typedef enum gy_rpc_role {
    GY_RPC_NAMESERVER,
    GY_RPC_DAEMON,
    GY_RPC_MANAGER,
    GY_RPC_SUBMITTER,
    GY_RPC_WATCHER,  /* reads the state of a cluster, for a status page */
    GY_RPC_OPERATOR, /* decides which daemons get work */
    GY_RPC_SERVER,   /* a parameter server */
    GY_RPC_WORKER,   /* uses parameter servers */
    GY_RPC_LEAD,     /* says which of them have what */
    GY_RPC_ROLES
} gy_rpc_role;

/** "name server", static. @threads any */
const char *gy_rpc_role_text(gy_rpc_role role);
/** "a name server", "an operator", static. @threads any */
const char *gy_rpc_role_one(gy_rpc_role role);

#define GY_RPC_MAY(role) (1u << (role))

/** A key may authenticate a role for a single subject, such as the manager of one job. */
enum { GY_RPC_SUBJECT_BYTES = 65 };
/** 1 to 64 printable characters without spaces. @threads any */
bool gy_rpc_subject_is_good(const char *subject);

/** Identifies a request that is being served; a value, valid until the answer. */
typedef struct gy_rpc_asked {
    gy_rpc_peer peer;     /* the caller */
    uint64_t number;      /* number of the request; 0: a notification, which has no answer */
    uint32_t life;        /* of the peer, which may be restarted meanwhile */
    gy_rpc_role role;     /* of the peer */
    gy_deadline deadline; /* after it the caller no longer waits for the answer */
    const char *subject;  /* of the peer, "": none; valid during the callback only */
    /* the request's bytes, where the method's `admit` said; valid during `serve` only */
    void *beside;
    size_t beside_bytes;
} gy_rpc_asked;

enum {
    GY_RPC_TYPE_FIRST = 16, /* lower numbers are the room's own */
    GY_RPC_TYPE_LAST = 65535,
    GY_RPC_BYTES_MAX = 64 << 20, /* largest message; larger data go by bulk transfer */
    GY_RPC_BESIDE_MAX = 1 << 30, /* most bytes beside a message */
};

enum {
    GY_RPC_REPEATABLE = 1, /* may be executed again by a restarted peer */
    /* changes nothing, so that it may be executed again by the same life of the peer too:
     * answers are not stored, and may have bytes beside them */
    GY_RPC_READS = 2,
};

/** A kind of message that a node serves, sends, or both. Zero roles: nobody may call it at this
 * node. */
typedef struct gy_rpc_method {
    uint32_t type;    /* on the wire; never reused for another method */
    const char *name; /* for messages, such as "lease slots"; static */
    uint32_t roles;   /* bits GY_RPC_MAY(...) of the roles that may call it at this node */
    uint32_t flags;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *answer; /* NULL: a notification without an answer */
    /* encoded size; larger ones are refused before decoding */
    uint32_t request_bytes_max, answer_bytes_max;
    /* bytes beside them, at most GY_RPC_BESIDE_MAX; an answer's need GY_RPC_READS */
    size_t request_beside_max, answer_beside_max;
    /**
     * Judge a request that has bytes beside it, before any of them is read, and say where they
     * go: `*room` has `size_bytes` (> 0), which `serve` takes as asked->beside. A failure
     * refuses the request; its bytes are skipped. NULL: the method takes no bytes.
     */
    gy_status (*admit)(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request,
                       size_t size_bytes, void **room);
    /** The bytes of an admitted request will not be complete, so that `serve` does not come:
     * take the room back. The caller may send them again. */
    void (*leave)(void *arg, void *room);
    /**
     * Serve a request: call gy_rpc_answer or gy_rpc_refuse, now or later. A failure refuses at
     * once with gy_error_text. `request` is borrowed. NULL: this node does not serve the
     * method.
     */
    gy_status (*serve)(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request);
    /** Optional: the caller no longer waits for the answer, which may still be sent. */
    void (*cancel)(void *arg, const gy_rpc_asked *asked);
} gy_rpc_method;

/* ---- A node ---- */

typedef enum gy_rpc_event {
    GY_RPC_UP, /* connected; from a peer that dials it may be a new one */
    /* the connection broke; gy_error_text says why. Calls wait for the next connection */
    GY_RPC_DOWN,
    GY_RPC_ANEW,    /* the peer was restarted, or has forgotten this node; comes before UP */
    GY_RPC_DRAINED, /* after a GY_AGAIN: there is room again */
    /* a peer that dialled has not returned within linger_ns; its number is invalid now */
    GY_RPC_GONE,
} gy_rpc_event;

typedef struct gy_rpc_options {
    const char *name; /* of this node, for messages of others: "daemon w1"; at most 63 bytes */
    gy_rpc_role role; /* the role that it calls as */
    /* subject that it calls as; NULL: that of its key file if it has one, otherwise none */
    const char *subject;
    const gy_rpc_method *methods; /* (method_count) must outlive the node */
    size_t method_count;
    void *arg; /* for `hear` and the methods */
    /* called for events; NULL: none */
    void (*hear)(void *arg, gy_rpc_peer peer, gy_rpc_event event);
    /* Zero: the default. */
    int64_t beat_ns; /* longest silence of this node; 400 ms */
    int64_t dead_ns; /* a peer that is silent for so long is down; 2 s */
    /* how long the node waits for a peer that dialled to return, and keeps its answers; 60 s */
    int64_t linger_ns;
    /* pause between dials; 50 ms to 5 s, half of it random */
    int64_t retry_ns_min, retry_ns_max;
    size_t queue_bytes; /* limit of a peer's queue; 8 MiB. One message always fits */
    /* limit of calls under way to a peer, and of answers stored for it; 4096 */
    uint32_t call_max;
    /* For gy_rpc_new only. */
    const char *key_file; /* a key ring (rpc/keyring.h); NULL only with is_plaintext */
    /* no key: roles and subjects are not authenticated, and only loopback addresses are
     * served */
    bool is_plaintext;
    /* With a peer of the same host and user that has this too, what is said goes through shared
     * memory (2 MiB a connection) once the connection is authenticated, and nothing of it is
     * encrypted; the connection only wakes. */
    bool shares_memory;
    int stranger_max; /* most connections at once without authentication so far; 64 */
    const struct gy_bulk_server *bulk; /* NULL: this node serves no regions (rpc/bulk.h) */
} gy_rpc_options;

/**
 * Make a node on sockets, which neither listens nor dials yet.
 * @return GY_OK; GY_ARG neither a key nor is_plaintext, or a bad method; GY_NOTFOUND, GY_STATE,
 *     GY_FORMAT the key file; GY_LIMIT no descriptors; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_new(gy_env *env, const gy_rpc_options *options, gy_rpc **rpc);
/** End all calls with GY_CANCELLED, announce the departure, and free the node; unsent data are
 * lost. NULL is fine. */
void gy_rpc_free(gy_rpc *rpc);
/**
 * Listen at "HOST:PORT" (port 0: any free port); once. `address` becomes the bound address.
 * @return GY_OK; GY_ARG not loopback and no key; GY_EXISTS another process listens there; GY_IO
 */
enum { GY_RPC_ADDRESS_BYTES = 64 };
GY_MUST_CHECK gy_status gy_rpc_listen(gy_rpc *rpc, const char *at,
                                      char address[GY_RPC_ADDRESS_BYTES]);

/**
 * Do all pending work, then wait for more until the deadline (in the past: do not wait), and
 * do that.
 * @return GY_OK something was done; GY_AGAIN nothing happened by the deadline
 */
gy_status gy_rpc_turn(gy_rpc *rpc, gy_deadline deadline);
/** For another event loop: readable when gy_rpc_turn has work to do ... */
int gy_rpc_fd(const gy_rpc *rpc);
/** ... which is also due by this time. Ask again after each turn, and after calls outside a
 * turn. */
gy_deadline gy_rpc_next(const gy_rpc *rpc);

/* ---- Peers ---- */

/** GY_ARG: not "HOST:PORT" with a port from port_min to 65535. @threads any */
GY_MUST_CHECK gy_status gy_rpc_check_address(const char *address, uint16_t port_min);
/** GY_ARG: a numeric address that is not loopback, which may not be dialled without a key; a
 * name is checked only when it is dialled. @threads any */
GY_MUST_CHECK gy_status gy_rpc_check_plaintext(const char *address);

/**
 * Maintain a connection to the node at "HOST:PORT" from now on, until gy_rpc_drop.
 * @return GY_OK (the node may never answer; events report it); GY_ARG; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_dial(gy_rpc *rpc, const char *address, gy_rpc_peer *peer);
/** Drop a peer. Its calls end with GY_CANCELLED, from the next turn. No event follows. */
void gy_rpc_drop(gy_rpc *rpc, gy_rpc_peer peer);

typedef struct gy_rpc_facts {
    const char *text; /* its name and address for messages; valid until the next turn */
    bool is_up, is_dialled;
    const char *why;      /* why it was not reached or was lost; "": never lost */
    gy_rpc_role role;     /* of a peer that dialled */
    const char *subject;  /* "": none; valid until the next turn */
    size_t waiting_bytes; /* bytes in the queue */
    uint32_t calls;       /* calls under way */
} gy_rpc_facts;

/** Get the facts of a peer. False: there is no such peer (any more). */
bool gy_rpc_look(const gy_rpc *rpc, gy_rpc_peer peer, gy_rpc_facts *facts);
/** A pointer of the caller's for a peer; NULL at first. */
void gy_rpc_set_tag(gy_rpc *rpc, gy_rpc_peer peer, void *tag);
void *gy_rpc_tag(const gy_rpc *rpc, gy_rpc_peer peer);

/* ---- Calls ---- */

/** `answer` is borrowed, NULL unless GY_OK; a failure's text is in gy_error_text and names the
 * peer. */
typedef void (*gy_rpc_done)(void *arg, gy_status status, const ProtobufCMessage *answer);

typedef struct gy_rpc_request {
    uint32_t type;                   /* type of a method in the node's table */
    const ProtobufCMessage *message; /* encoded within the call */
    gy_deadline deadline;            /* on the node's clock; GY_NEVER is allowed */
    /* fail with GY_PEER when there is no connection or it breaks, instead of retrying */
    bool is_hasty;
    gy_rpc_done done;
    void *arg;
    /* Bytes beside the message: lent until `done` is called, and copied nowhere if they are
     * many. They may be sent more than once. */
    const void *beside;
    size_t beside_bytes;
    /* For answers that have bytes beside them: judge the answer, before any of them is read,
     * and say where they go; not written any more when `done` is called. The room has what the
     * answer says only if the call ends with GY_OK. A failure ends the call. May be called
     * again, for the same answer over another connection. */
    gy_status (*admit)(void *arg, const ProtobufCMessage *answer, size_t size_bytes,
                       void **room);
} gy_rpc_request;

/**
 * Call a method of the peer. `done` is called once, later, with GY_OK; the status and text of
 * the peer's refusal; GY_TIMEOUT; GY_PEER no connection by the deadline, or the peer was
 * restarted; GY_CANCELLED.
 *
 * @param number becomes the call's number, for gy_rpc_cancel; may be NULL
 * @return GY_OK; GY_AGAIN the queue is full: `done` will not be called; GY_PEER no such peer,
 *     or is_hasty without a connection; GY_LIMIT larger than the method allows; GY_NOMEM
 * @cost one copy of the encoded message, none of the bytes beside it
 */
GY_MUST_CHECK gy_status gy_rpc_call(gy_rpc *rpc, gy_rpc_peer peer,
                                    const gy_rpc_request *request, uint64_t *number);
/** End a call with GY_CANCELLED, from the next turn, and inform the peer; does nothing for an
 * unknown call. */
void gy_rpc_cancel(gy_rpc *rpc, gy_rpc_peer peer, uint64_t number);
/**
 * Send a notification, which arrives at most once: it is lost when the connection breaks.
 * @return GY_OK; GY_AGAIN; GY_PEER no connection; GY_LIMIT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_tell(gy_rpc *rpc, gy_rpc_peer peer, uint32_t type,
                                    const ProtobufCMessage *message);

/** Send an answer. It is no failure when the caller no longer waits. GY_LIMIT (the caller is
 * informed); GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_answer(gy_rpc *rpc, const gy_rpc_asked *asked,
                                      const ProtobufCMessage *answer);
/** Bytes beside an answer: `release` is called once, when they are not read any more, perhaps
 * within the call; NULL: they are static. */
typedef struct gy_rpc_lent {
    const void *data;
    size_t size_bytes;
    void (*release)(void *arg);
    void *arg;
} gy_rpc_lent;
/** The same with bytes beside the answer, which are lent, on failure too. The method has
 * GY_RPC_READS. */
GY_MUST_CHECK gy_status gy_rpc_answer_with(gy_rpc *rpc, const gy_rpc_asked *asked,
                                           const ProtobufCMessage *answer,
                                           const gy_rpc_lent *lent);
/** Answer with a failure: status < 0; `text` is truncated to 1 KiB. */
void gy_rpc_refuse(gy_rpc *rpc, const gy_rpc_asked *asked, gy_status status, const char *text);

#endif
