/**
 * How the keepers of a run's hosts agree on generations, each a run of all ranks from where
 * they meet anew. Pure: what is to be done goes through a table, so the simulator drives it
 * too.
 *
 *     B   a rank dies in 0: LOST 0 -->|               |--> doors, SEAT 1 -->|      |--> begins
 * 1 A = node 0                      |--> RENEW 1 -->|   (its own too)     |TABLE |--> begins 1
 *     C                                               |--> doors, SEAT 1 -->|      |--> begins
 * 1
 *
 * Node 0 alone asks for a generation, one at a time: a loss in an older one is made up for by
 * the one that is asked for, or has begun, since whoever lost the rank had not begun it. Each
 * begins it with all ranks that it has to start anew. A keeper's end ends the run (nodes.c).
 */
#ifndef GY_LAUNCH_RENEWAL_H
#define GY_LAUNCH_RENEWAL_H

#include "transport/net.h"

#include <gyre/launch.h>

/** How a run ends on all hosts; also what a rank was lost by. */
typedef struct gy_run_end {
    int status;   /* exit status */
    int number;   /* signal that ranks get first */
    bool is_lost; /* a node is gone, for which nobody is to blame */
    char text[1000];
} gy_run_end;

/** What a keeper does when it is told to. No slot is optional. */
typedef struct gy_renewal_ops {
    /* GY_FRAME_LOST, RENEW, NODE, TABLE, READY or OVER to a node; -1: all others. cause: with
     * LOST and RENEW. */
    void (*tell)(void *arg, int to, gy_transport_frame_type type, uint32_t generation,
                 const gy_run_end *cause);
    /* Say what happened, on this host. */
    void (*say)(void *arg, const gy_run_end *cause);
    /* Make new doors for the ranks here; false: the run has ended instead. */
    bool (*offer)(void *arg, uint32_t generation, const gy_run_end *cause);
    /* All nodes have doors: start the dead anew, tell the living. */
    void (*begin)(void *arg, uint32_t generation);
    /* All ranks of all nodes have done all. */
    void (*over)(void *arg);
} gy_renewal_ops;

typedef struct gy_renewal {
    const gy_renewal_ops *ops;
    void *arg;
    int node, nodes;
    uint32_t generation; /* that the ranks here are in */
    uint32_t offered;    /* the newest that they have doors for */
    uint32_t wanted;     /* node 0: the newest that was asked for */
    bool is_ready;       /* told: the ranks here have done all in `generation` */
    bool is_over;
    uint32_t seats[GY_RUN_NODES_MAX]; /* node 0: as `offered` of each node */
    uint32_t
        ready[GY_RUN_NODES_MAX]; /* node 0: generation + 1 in which each has done; 0 none */
} gy_renewal;

/** `ops` and `arg` are borrowed. nodes: 1 .. GY_RUN_NODES_MAX */
void gy_renewal_init(gy_renewal *renewal, int node, int nodes, const gy_renewal_ops *ops,
                     void *arg);
/** A rank here died in `generation` and is to be started anew. */
void gy_renewal_lose(gy_renewal *renewal, uint32_t generation, const gy_run_end *cause);
/** All ranks here have done all; may be said again. */
void gy_renewal_done(gy_renewal *renewal);
/** A word of another keeper. GY_FORMAT: it has no place here or now. */
GY_MUST_CHECK gy_status gy_renewal_handle(gy_renewal *renewal, int from,
                                          gy_transport_frame_type type, uint32_t generation,
                                          const gy_run_end *cause);
/** Is a generation asked for that has not begun here? */
bool gy_renewal_is_on(const gy_renewal *renewal);
/** Whom a generation that does not begin is waiting for. */
int gy_renewal_missing(const gy_renewal *renewal);

#endif
