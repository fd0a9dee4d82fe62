/**
 * The lead of a cluster of parameter servers: it keeps the list of live servers, and makes the
 * maps from parts to servers. The decisions are a pure machine (plan.c). A node around it
 * (node.c) receives messages; the process (process.c) and the simulator drive that node:
 * servers renew their leases, time passes, and each new map is stored by compare-and-set before
 * it is sent to anyone.
 *
 * The lead decides which map is best; the chains guarantee safety: a map that takes a living
 * server for dead costs time, but loses no push.
 */
#ifndef GY_PS_LEAD_LEAD_H
#define GY_PS_LEAD_LEAD_H

#include "ps/map/map.h"

typedef struct gy_ps_lead_options {
    uint64_t cluster;  /* by chance; of a map that is loaded: its own */
    uint32_t replicas; /* of each part */
    uint32_t parts;
    uint32_t lease_ms;
    bool resumes; /* from the newest snapshot, when a part has no replica any more, or at first
                   */
    /* A server that is silent for so long is replaced; one that the lead has not heard so far
     * has time to dial it besides. */
    int64_t dead_ns;
} gy_ps_lead_options;

/** A snapshot that a server has parts of on its disk. */
typedef struct gy_ps_lead_offer {
    uint64_t id, cluster, number, clock;
    char name[GY_PS_SAVED_BYTES];
    uint32_t parts;
    uint64_t has; /* a bit for each part */
} gy_ps_lead_offer;

typedef struct gy_ps_lead_server {
    uint64_t id;
    char address[GY_PS_ADDRESS_BYTES];
    int64_t heard_ns, came_ns;
    int64_t died_ns; /* when it was taken for dead */
    gy_ps_lead_offer offers[GY_PS_OFFERS_MAX];
    uint32_t offer_count;
    bool is_heard; /* by this lead, not only by the one before, and since its last pause */
    bool is_dead, is_replaced; /* is_replaced: its address is another's */
    bool is_draining;
} gy_ps_lead_server;

/** Zero-initialised by gy_ps_lead_begin. */
typedef struct gy_ps_lead {
    gy_ps_lead_options options;
    gy_ps_map map;  /* stored: all may hear of it */
    gy_ps_map next; /* is being stored */
    bool is_storing;
    gy_ps_lead_server servers[GY_PS_MAP_SERVERS_MAX];
    uint32_t server_count;
    /* reports: the joining server of a part has caught up, at this epoch of its chain */
    uint64_t caught[GY_PS_MAP_PARTS_MAX];
    int64_t stepped_ns;
    int64_t waits_ns; /* since when it waits for a snapshot; 0: it does not */
} gy_ps_lead;

/** `map` NULL: there was none. All its servers count as heard of now: the lead before may have
 * heard them a moment ago, and those that dial this one may still wait to. */
void gy_ps_lead_begin(gy_ps_lead *lead, const gy_ps_lead_options *options, const gy_ps_map *map,
                      int64_t now_ns);

typedef struct gy_ps_lead_renewal {
    uint64_t cluster, id;
    const char *address;
    size_t caught_count;
    const uint32_t *caught; /* parts */
    const uint64_t *epochs;
    size_t offer_count;
    const gy_ps_lead_offer *offers;
} gy_ps_lead_renewal;

/** GY_OK; GY_MISMATCH it is of another cluster, or its snapshots are; GY_LIMIT too many
 * servers; GY_ARG */
GY_MUST_CHECK gy_status gy_ps_lead_renew(gy_ps_lead *lead, const gy_ps_lead_renewal *renewal,
                                         int64_t now_ns);
/** Take a server's parts elsewhere. GY_NOTFOUND; GY_STATE too few servers would be left */
GY_MUST_CHECK gy_status gy_ps_lead_drain(gy_ps_lead *lead, const char *address);
/** Parts that it has, or gets. */
uint32_t gy_ps_lead_parts(const gy_ps_lead *lead, const char *address);

/** Time has passed, or something was heard. True: lead->next is to be stored now, and
 * gy_ps_lead_stored to be called. */
bool gy_ps_lead_step(gy_ps_lead *lead, int64_t now_ns);
/** It was stored: lead->map is the new one; or not, and another lead may have made a map. */
void gy_ps_lead_stored(gy_ps_lead *lead, bool is_stored);

/* ---- resume.c: snapshots that servers have ---- */

/** Judge a server's snapshots: with `resumes` a cluster that has no map yet becomes theirs.
 * GY_MISMATCH; GY_FORMAT */
GY_MUST_CHECK gy_status gy_ps_lead_judge_offers(gy_ps_lead *lead,
                                                const gy_ps_lead_renewal *renewal);
/** Is the newest whole snapshot, of all that servers have, to be told? */
void gy_ps_lead_tell_saved(const gy_ps_lead *lead, gy_ps_map *map);
/** All parts begin again from the newest whole snapshot, if there is one that servers which are
 * there have together. False: it waits for that, or for servers that may have some. */
bool gy_ps_lead_resume(gy_ps_lead *lead, gy_ps_map *map);

/* ---- node.c: what servers, clients and operators ask of it ---- */

/** Who waits for a map later than this epoch. */
typedef struct gy_ps_map_ask {
    gy_rpc_asked asked;
    uint64_t epoch;
} gy_ps_map_ask;

/** Zero but for env, arg and store. */
typedef struct gy_ps_lead_node {
    gy_env *env;
    void *arg;
    /* Begin to store a map; gy_ps_lead_node_stored is called once it is, or is_loaded becomes
     * false and it is loaded again. */
    gy_status (*store)(void *arg, const void *data, size_t size_bytes);
    gy_rpc *rpc;
    gy_rpc_method methods[GY_PS_LED_METHODS];
    gy_ps_lead lead;
    bool is_loaded; /* false: on standby */
    int64_t step_ns;
    int64_t clients_ns; /* clients hear of the map by then, whatever servers have it */
    gy_ps_map_ask *asks;
    size_t ask_count, ask_capacity;
    uint8_t packed[GY_PS_MAP_BYTES];
} gy_ps_lead_node;

/** Options of its node, which becomes at->rpc. */
gy_rpc_options gy_ps_lead_node_options(gy_ps_lead_node *at);
/** It was elected, and this is what the table has; NULL: nothing. */
void gy_ps_lead_node_load(gy_ps_lead_node *at, const gy_ps_lead_options *options,
                          const gy_ps_map *map);
/** Do what is due: by at->step_ns, and after a turn. */
void gy_ps_lead_node_step(gy_ps_lead_node *at);
void gy_ps_lead_node_stored(gy_ps_lead_node *at);
/** Frees the node's rpc, too. */
void gy_ps_lead_node_fini(gy_ps_lead_node *at);

#endif
