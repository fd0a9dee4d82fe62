/**
 * What a node stands on: something that carries bytes between nodes whose roles are proved, as
 * TCP under TLS does (stream/) or a simulator. A carrier makes a node with gy_rpc_new_carried,
 * tells it what comes, and after each of these calls (or of rpc.h) sees that gy_rpc_tick is
 * called once gy_rpc_next has come.
 *
 * A link is one connection; its life: gy_rpc_link_in, or `dial`; then gy_rpc_link_up; bytes
 * both ways; then `close` or gy_rpc_link_lost, after which neither side names it again.
 */
#ifndef GY_RPC_CARRIER_H
#define GY_RPC_CARRIER_H

#include "rpc/rpc.h"

typedef struct gy_rpc_link gy_rpc_link;

/** None of these may call the node back. */
typedef struct gy_rpc_carrier_ops {
    const char *name; /* "stream", static */
    /* Begin to connect to a peer; the outcome is told later. A failure: not even begun. */
    gy_status (*dial)(void *carrier, gy_rpc_link *link, const char *address);
    /* There are bytes to send: take them with gy_rpc_link_output after the next gy_rpc_tick, or
     * when there is room. */
    void (*push)(void *carrier, gy_rpc_link *link);
    /* The node is done with it. What was not taken yet may still be taken, within the call. */
    void (*close)(void *carrier, gy_rpc_link *link);
    /* Of gy_rpc_listen, gy_rpc_turn, gy_rpc_fd, gy_rpc_free; NULL: not with this carrier. */
    gy_status (*listen)(void *carrier, const char *at, char address[GY_RPC_ADDRESS_BYTES]);
    gy_status (*turn)(void *carrier, gy_deadline deadline);
    int64_t (*next)(const void *carrier); /* when it has something to do itself */
    int (*fd)(const void *carrier);
    void (*free)(void *carrier);
} gy_rpc_carrier_ops;

/** GY_ARG; GY_NOMEM. `carrier` stays the caller's unless ops has a `free`. */
GY_MUST_CHECK gy_status gy_rpc_new_carried(gy_env *env, const gy_rpc_options *options,
                                           const gy_rpc_carrier_ops *ops, void *carrier,
                                           gy_rpc **rpc);

/** Somebody connected from `from` (text for people). GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_link_in(gy_rpc *rpc, const char *from, gy_rpc_link **link);
/** It carries; of one that dialled: role and subject ("": none) were proved, or nothing was:
 * GY_RPC_ROLES (of the node's own links: ignored). */
void gy_rpc_link_up(gy_rpc *rpc, gy_rpc_link *link, gy_rpc_role role, const char *subject);
/** Bytes came, in order. The link may be closed within. */
void gy_rpc_link_input(gy_rpc *rpc, gy_rpc_link *link, const void *data, size_t size_bytes);
/** What is to be sent: whole frames, until gy_rpc_link_sent; 0: nothing. */
size_t gy_rpc_link_output(const gy_rpc_link *link, const void **data);
void gy_rpc_link_sent(gy_rpc *rpc, gy_rpc_link *link, size_t size_bytes);
/** It broke, or could not be made: `status` < 0 with gy_error_text. */
void gy_rpc_link_lost(gy_rpc *rpc, gy_rpc_link *link, gy_status status);
/** Both ends have said who they are. */
bool gy_rpc_link_is_ready(const gy_rpc_link *link);
/** Do what is due, and what other calls left to do. */
void gy_rpc_tick(gy_rpc *rpc);

/** What the carrier keeps of a link; NULL at first. */
void gy_rpc_link_set_tag(gy_rpc_link *link, void *tag);
void *gy_rpc_link_tag(const gy_rpc_link *link);

#endif
