/**
 * Room rpc: what the processes of a cluster say to each other. A node (gy_rpc) has a table of
 * methods that it serves, dials other nodes and is dialled; either end of a connection may call
 * the other. A peer is another node as one of these sees it; it outlives its connections.
 *
 * What holds whatever the network does:
 * - Every call ends once, by its deadline: with an answer, or with a failure that names the
 * peer.
 * - A call is sent again when a connection broke, under its number, by which the peer knows
 * that it has it already: it is carried out once for each life of the peer. When the peer was
 *   started anew in between, a call that it may have had fails with GY_PEER unless its method
 *   says that it may be repeated.
 * - A peer that says nothing for `dead_ns` is down, stopped or not.
 * - What waits to be sent is bounded: GY_AGAIN, and GY_RPC_DRAINED when there is room again.
 *
 * All functions and callbacks of a node run on one thread. Callbacks come from gy_rpc_turn
 * alone (of a carrier: from what it calls), never from within a call of the functions below,
 * and may call all of them but gy_rpc_free and gy_rpc_turn.
 *
 * Reading order: rpc.h, keyring.h, carrier.h (how a node stands on sockets or on a simulator).
 */
#ifndef GY_RPC_RPC_H
#define GY_RPC_RPC_H

#include "base/base.h"

#include <protobuf-c/protobuf-c.h>

typedef struct gy_rpc gy_rpc;

/** Another node; 0: none. A number that was dropped is never given again. */
typedef uint64_t gy_rpc_peer;

/* ---- Who may say what ---- */

/** As which part of a cluster a node calls others; proved by the key that it holds. */
typedef enum gy_rpc_role {
    GY_RPC_NAMESERVER,
    GY_RPC_DAEMON,
    GY_RPC_MANAGER,
    GY_RPC_SUBMITTER,
    GY_RPC_WATCHER,  /* reads the state of a cluster, for a status page */
    GY_RPC_OPERATOR, /* says which daemons get work */
    GY_RPC_ROLES
} gy_rpc_role;

/** "name server", static. @threads any */
const char *gy_rpc_role_text(gy_rpc_role role);
/** "a name server", "an operator", static. @threads any */
const char *gy_rpc_role_one(gy_rpc_role role);

#define GY_RPC_MAY(role) (1u << (role))

/** A key may prove a role for one subject alone: a manager that it is that of one job. */
enum { GY_RPC_SUBJECT_BYTES = 65 };
/** 1 to 64 printable characters, none of them a blank. @threads any */
bool gy_rpc_subject_is_good(const char *subject);

/** A request that is being served; a value, good until it is answered. */
typedef struct gy_rpc_asked {
    gy_rpc_peer peer;     /* who asks */
    uint64_t number;      /* which request of it; 0: a tell, which has no answer */
    uint32_t life;        /* of the peer, which may be started anew meanwhile */
    gy_rpc_role role;     /* of the peer */
    gy_deadline deadline; /* then nobody waits for an answer any more */
    const char *subject;  /* of the peer, "": none; good during the callback alone */
} gy_rpc_asked;

enum {
    GY_RPC_TYPE_FIRST = 16, /* below are the room's own */
    GY_RPC_TYPE_LAST = 65535,
    GY_RPC_BYTES_MAX = 64 << 20, /* of one message; more goes as bulk */
};

enum {
    GY_RPC_REPEATABLE = 1, /* may be carried out again by a peer that was started anew */
};

/** One kind of message that a node serves, sends, or both. Zero roles: nobody may call it here.
 */
typedef struct gy_rpc_method {
    uint32_t type;    /* on the wire; never given to another method */
    const char *name; /* for people, "lease slots"; static */
    uint32_t roles;   /* bits GY_RPC_MAY(...) of those that may call it at this node */
    uint32_t flags;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *answer;     /* NULL: it is told, not called */
    uint32_t request_bytes_max, answer_bytes_max; /* packed; more is refused unread */
    /**
     * Serve it: gy_rpc_answer or gy_rpc_refuse, now or later. A failure refuses at once with
     * gy_error_text. `request` is borrowed. NULL: this node does not serve it.
     */
    gy_status (*serve)(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request);
    /** Nobody waits for the answer any more; it may still be given. NULL: never mind. */
    void (*cancel)(void *arg, const gy_rpc_asked *asked);
} gy_rpc_method;

/* ---- A node ---- */

typedef enum gy_rpc_event {
    GY_RPC_UP,      /* a connection stands; of a peer that dials: maybe a new peer */
    GY_RPC_DOWN,    /* it broke; gy_error_text says why. Calls wait for the next one */
    GY_RPC_ANEW,    /* the peer was started anew, or forgot this node: before UP */
    GY_RPC_DRAINED, /* after a GY_AGAIN: there is room again */
    GY_RPC_GONE, /* one that dialled is not back in linger_ns; its number means nothing now */
} gy_rpc_event;

typedef struct gy_rpc_options {
    const char *name; /* of this node, for messages of others: "daemon w1"; at most 63 bytes */
    gy_rpc_role role; /* as which it calls */
    const char
        *subject; /* for which; NULL: that of its key file, if it is for one, else none */
    const gy_rpc_method *methods; /* (method_count) outlive the node */
    size_t method_count;
    void *arg; /* of `hear` and of the methods */
    void (*hear)(void *arg, gy_rpc_peer peer, gy_rpc_event event); /* NULL: nothing */
    /* Zero: the default. */
    int64_t beat_ns;   /* say something at least so often; 400 ms */
    int64_t dead_ns;   /* a peer that says nothing for so long is down; 2 s */
    int64_t linger_ns; /* a peer that dialled may come back, and find its answers; 60 s */
    int64_t retry_ns_min, retry_ns_max; /* between dials; 50 ms to 5 s, half of it by chance */
    size_t queue_bytes; /* what waits for a peer; 8 MiB. One message always fits */
    uint32_t call_max;  /* calls under way to a peer, with answers it has not forgotten; 4096 */
    /* Of gy_rpc_new alone. */
    const char *key_file; /* a key ring (rpc/keyring.h); NULL only with is_plaintext */
    bool is_plaintext;    /* no key: roles and subjects are believed, only loopback addresses
                             served */
    int stranger_max;     /* connections at once that have not proved a key yet; 64 */
    const struct gy_bulk_server *bulk; /* NULL: nothing to fetch here (rpc/bulk.h) */
} gy_rpc_options;

/**
 * A node on sockets, which neither listens nor dials yet.
 * @return GY_OK; GY_ARG no key and no word that none is wanted, a bad method; GY_NOTFOUND,
 * GY_STATE, GY_FORMAT the key file; GY_LIMIT no descriptors; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_new(gy_env *env, const gy_rpc_options *options, gy_rpc **rpc);
/** Ends all calls with GY_CANCELLED, says goodbye; what was not sent is lost. NULL is fine. */
void gy_rpc_free(gy_rpc *rpc);
/**
 * Be reachable at "HOST:PORT" (port 0: one is chosen); once. `address` gets what it became.
 * @return GY_OK; GY_ARG not loopback and no key; GY_EXISTS another process listens there; GY_IO
 */
enum { GY_RPC_ADDRESS_BYTES = 64 };
GY_MUST_CHECK gy_status gy_rpc_listen(gy_rpc *rpc, const char *at,
                                      char address[GY_RPC_ADDRESS_BYTES]);

/**
 * Do what can be done, then wait for more until the deadline (in the past: never), and do that.
 * @return GY_OK something was done; GY_AGAIN nothing came by the deadline
 */
gy_status gy_rpc_turn(gy_rpc *rpc, gy_deadline deadline);
/** For another loop: readable when gy_rpc_turn has something to do ... */
int gy_rpc_fd(const gy_rpc *rpc);
/** ... which is also due by this time. Ask after each turn and after calls made outside one. */
gy_deadline gy_rpc_next(const gy_rpc *rpc);

/* ---- Peers ---- */

/** GY_ARG: no "HOST:PORT" with a port of port_min to 65535. @threads any */
GY_MUST_CHECK gy_status gy_rpc_check_address(const char *address, uint16_t port_min);
/** GY_ARG: a number that is not of the loopback, where nobody is dialled without a key; of a
 * name, who calls finds out. @threads any */
GY_MUST_CHECK gy_status gy_rpc_check_plaintext(const char *address);

/**
 * Keep up a connection to the node at "HOST:PORT" from now on, until gy_rpc_drop.
 * @return GY_OK (it may never answer; hear tells); GY_ARG; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_dial(gy_rpc *rpc, const char *address, gy_rpc_peer *peer);
/** Hang up. Its calls end with GY_CANCELLED, from the next turn. No event follows. */
void gy_rpc_drop(gy_rpc *rpc, gy_rpc_peer peer);

typedef struct gy_rpc_facts {
    const char *text; /* its name and address for messages; good until the next turn */
    bool is_up, is_dialled;
    const char *why;      /* it was not reached, or went; "": it was never lost */
    gy_rpc_role role;     /* of one that dialled */
    const char *subject;  /* "": none; good until the next turn */
    size_t waiting_bytes; /* not sent yet */
    uint32_t calls;       /* under way */
} gy_rpc_facts;

/** False: there is no such peer (any more). */
bool gy_rpc_look(const gy_rpc *rpc, gy_rpc_peer peer, gy_rpc_facts *facts);
/** Something of the caller's that belongs to a peer; NULL at first. */
void gy_rpc_set_tag(gy_rpc *rpc, gy_rpc_peer peer, void *tag);
void *gy_rpc_tag(const gy_rpc *rpc, gy_rpc_peer peer);

/* ---- Calls ---- */

/** `answer` is borrowed, NULL unless GY_OK; a failure's text is gy_error_text, with the peer.
 */
typedef void (*gy_rpc_done)(void *arg, gy_status status, const ProtobufCMessage *answer);

typedef struct gy_rpc_request {
    uint32_t type;                   /* a method of the node's table */
    const ProtobufCMessage *message; /* packed within the call */
    gy_deadline deadline;            /* on the node's clock; GY_NEVER is allowed */
    bool is_hasty; /* fail with GY_PEER when there is no connection or it breaks: no retry */
    gy_rpc_done done;
    void *arg;
} gy_rpc_request;

/**
 * Ask the peer. `done` comes once, later, with GY_OK; the status and words of the peer's
 * refusal; GY_TIMEOUT; GY_PEER no connection by the deadline, or the peer was started anew;
 * GY_CANCELLED.
 *
 * @param number of the call, for gy_rpc_cancel; NULL is fine
 * @return GY_OK; GY_AGAIN too much waits already: `done` never comes; GY_PEER no such peer, or
 * hasty without a connection; GY_LIMIT larger than the method allows; GY_NOMEM
 * @cost one copy of the packed message
 */
GY_MUST_CHECK gy_status gy_rpc_call(gy_rpc *rpc, gy_rpc_peer peer,
                                    const gy_rpc_request *request, uint64_t *number);
/** End a call with GY_CANCELLED, from the next turn, and tell the peer; unknown: nothing. */
void gy_rpc_cancel(gy_rpc *rpc, gy_rpc_peer peer, uint64_t number);
/**
 * Tell the peer, at most once: what is said to a connection that breaks is lost.
 * @return GY_OK; GY_AGAIN; GY_PEER no connection; GY_LIMIT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_tell(gy_rpc *rpc, gy_rpc_peer peer, uint32_t type,
                                    const ProtobufCMessage *message);

/** Answer. When nobody waits any more that is no failure. GY_LIMIT (the caller is told);
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_answer(gy_rpc *rpc, const gy_rpc_asked *asked,
                                      const ProtobufCMessage *answer);
/** Answer with a failure: status < 0; `text` is cut to 1 KiB. */
void gy_rpc_refuse(gy_rpc *rpc, const gy_rpc_asked *asked, gy_status status, const char *text);

#endif
