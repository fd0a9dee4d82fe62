/**
 * How the keepers of a launch agree on generations; in each, all ranks meet again and continue
 * from there. Pure: actions go through a table of callbacks, so the simulator drives it too.
 *
 *     B: a rank dies in 0   LOST 0 -> A      opens listeners, SEAT 1 -> A      begins 1
 *     A: node 0             RENEW 1 -> B, C  opens listeners    TABLE -> B, C  begins 1
 *     C:                                     opens listeners, SEAT 1 -> A      begins 1
 *
 * Only node 0 requests a generation, one at a time. A loss in an older generation needs no
 * other one than that requested or begun, since the keeper that lost the rank had not begun it:
 * each keeper begins a generation with all ranks that it must restart. If a keeper ends, the
 * launch ends (nodes.c).
 */
#ifndef GY_LAUNCH_RENEWAL_H
#define GY_LAUNCH_RENEWAL_H

#include "transport/net.h"

#include <gyre/launch.h>

/** How a launch ends on all hosts; also how a rank was lost. */
typedef struct gy_run_end {
    int status;   /* exit status */
    int number;   /* signal that ranks get first */
    bool is_lost; /* a node was lost, which is no rank's fault */
    char text[1000];
} gy_run_end;

/** The actions of a keeper. All slots are required. */
typedef struct gy_renewal_ops {
    /* Send GY_FRAME_LOST, RENEW, NODE, TABLE, READY or OVER to a node; -1: to all others.
     * cause: with LOST and RENEW. */
    void (*tell)(void *arg, int to, gy_transport_frame_type type, uint32_t generation,
                 const gy_run_end *cause);
    /* Log what happened, on this host. */
    void (*say)(void *arg, const gy_run_end *cause);
    /* Open new listeners for the local ranks; false: the launch has ended instead. */
    bool (*offer)(void *arg, uint32_t generation, const gy_run_end *cause);
    /* All nodes have listeners: start dead ranks again, notify the living. */
    void (*begin)(void *arg, uint32_t generation);
    /* All ranks of all nodes have done their work. */
    void (*over)(void *arg);
} gy_renewal_ops;

typedef struct gy_renewal {
    const gy_renewal_ops *ops;
    void *arg;
    int node, nodes;
    uint32_t generation; /* of the local ranks */
    uint32_t offered;    /* the newest for which local listeners are open */
    uint32_t wanted;     /* node 0: the newest that was requested */
    bool is_ready;       /* sent: the local ranks have done their work in `generation` */
    bool is_over;
    uint32_t offers[GY_RUN_NODES_MAX]; /* node 0: `offered` of each node */
    uint32_t
        /* Node 0: generation + 1 in which each node was done; 0 none. */
        ready[GY_RUN_NODES_MAX];
} gy_renewal;

/** `ops` and `arg` are borrowed. nodes: 1 .. GY_RUN_NODES_MAX */
void gy_renewal_init(gy_renewal *renewal, int node, int nodes, const gy_renewal_ops *ops,
                     void *arg);
/** A local rank died in `generation` and must restart. */
void gy_renewal_lose(gy_renewal *renewal, uint32_t generation, const gy_run_end *cause);
/** All local ranks have done their work; repeated calls are allowed. */
void gy_renewal_done(gy_renewal *renewal);
/** Handle a message of another keeper. GY_FORMAT: it is not allowed here or now. */
GY_MUST_CHECK gy_status gy_renewal_handle(gy_renewal *renewal, int from,
                                          gy_transport_frame_type type, uint32_t generation,
                                          const gy_run_end *cause);
/** Is a generation requested that has not begun here? */
bool gy_renewal_is_on(const gy_renewal *renewal);
/** The node that a generation waits for before it can begin. */
int gy_renewal_missing(const gy_renewal *renewal);

#endif
