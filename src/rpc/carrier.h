/**
 * The layer below a node: it carries bytes between nodes whose roles are authenticated, as TCP
 * under TLS does (stream/), or a simulator. A carrier makes a node with gy_rpc_new_carried,
 * passes it what arrives, and after each such call (and each call of rpc.h) sees to it that
 * gy_rpc_tick is called once the time gy_rpc_next has come.
 *
 * A link is one connection. Its life: gy_rpc_link_in, or `dial`; then gy_rpc_link_up; bytes in
 * both directions; then `close` or gy_rpc_link_lost, after which neither side uses it again.
 */
#ifndef GY_RPC_CARRIER_H
#define GY_RPC_CARRIER_H

#include "rpc/rpc.h"

#include <sys/uio.h>

typedef struct gy_rpc_link gy_rpc_link;

/** None of these functions may call the node. */
typedef struct gy_rpc_carrier_ops {
    const char *name; /* "stream", static */
    /* Begin to connect to a peer; the result is reported later. A failure: not even begun. */
    gy_status (*dial)(void *carrier, gy_rpc_link *link, const char *address);
    /* The link has bytes to send: take them with gy_rpc_link_output after the next
     * gy_rpc_tick, or when there is room. */
    void (*push)(void *carrier, gy_rpc_link *link);
    /* The node has finished with the link. Bytes that were not taken yet may still be taken
     * within the call. */
    void (*close)(void *carrier, gy_rpc_link *link);
    /* For gy_rpc_listen, gy_rpc_turn, gy_rpc_fd, gy_rpc_free; NULL: not supported by this
     * carrier. */
    gy_status (*listen)(void *carrier, const char *at, char address[GY_RPC_ADDRESS_BYTES]);
    gy_status (*turn)(void *carrier, gy_deadline deadline);
    int64_t (*next)(const void *carrier); /* when the carrier itself has work to do */
    int (*fd)(const void *carrier);
    void (*free)(void *carrier);
} gy_rpc_carrier_ops;

/** Make a node over a carrier. GY_ARG; GY_NOMEM. `carrier` stays the caller's unless ops has
 * `free`. */
GY_MUST_CHECK gy_status gy_rpc_new_carried(gy_env *env, const gy_rpc_options *options,
                                           const gy_rpc_carrier_ops *ops, void *carrier,
                                           gy_rpc **rpc);

/** A peer connected from `from` (text for messages). GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_link_in(gy_rpc *rpc, const char *from, gy_rpc_link **link);
/** The link is established. For an incoming link: the authenticated role and subject ("":
 * none), or GY_RPC_ROLES when nothing was authenticated (ignored for the node's outgoing
 * links). */
void gy_rpc_link_up(gy_rpc *rpc, gy_rpc_link *link, gy_rpc_role role, const char *subject);
/** Bytes arrived, in order. The call may close the link. */
void gy_rpc_link_input(gy_rpc *rpc, gy_rpc_link *link, const void *data, size_t size_bytes);
/** Where the next bytes that arrive may be put at once, instead of gy_rpc_link_input; 0:
 * nowhere. Valid until the next call of the node. */
size_t gy_rpc_link_room(const gy_rpc_link *link, void **room);
/** So many bytes were put there. The call may close the link. */
void gy_rpc_link_filled(gy_rpc *rpc, gy_rpc_link *link, size_t size_bytes);
/** Bytes to send, valid until gy_rpc_link_sent; 0: none. */
size_t gy_rpc_link_output(const gy_rpc_link *link, const void **data);
/** The same in pieces, so that one write sends them; 0: none. */
enum { GY_RPC_PIECES = 3 };
int gy_rpc_link_outputs(const gy_rpc_link *link, struct iovec pieces[GY_RPC_PIECES]);
void gy_rpc_link_sent(gy_rpc *rpc, gy_rpc_link *link, size_t size_bytes);
/** The link broke, or could not be established: `status` < 0 with gy_error_text. */
void gy_rpc_link_lost(gy_rpc *rpc, gy_rpc_link *link, gy_status status);
/** True when both ends have exchanged their hellos. */
bool gy_rpc_link_is_ready(const gy_rpc_link *link);
/** Do what is due, and what other calls have postponed. */
void gy_rpc_tick(gy_rpc *rpc);

/** The carrier's own data of a link; NULL at first. */
void gy_rpc_link_set_tag(gy_rpc_link *link, void *tag);
void *gy_rpc_link_tag(const gy_rpc_link *link);

#endif
