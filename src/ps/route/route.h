/**
 * The way of a client's calls to the heads of parts, which change: the lead's map says who they
 * are. Calls of a part are made in the order in which they were given. When a head is lost they
 * wait for the next map, and all that have no answer yet are made again in the same order:
 * servers know what they have carried out already.
 */
#ifndef GY_PS_ROUTE_ROUTE_H
#define GY_PS_ROUTE_ROUTE_H

#include "ps/map/map.h"

typedef struct gy_ps_route gy_ps_route;

typedef struct gy_ps_route_options {
    gy_env *env;
    gy_rpc *rpc; /* its methods have those of servers and those of leads */
    void *arg;
    /* A part has a new head, which no call has reached yet: what it has to be told first goes
     * by gy_ps_route_call with is_first. */
    void (*found)(void *arg, uint32_t part);
} gy_ps_route_options;

/** GY_ARG: leads are no list of "HOST:PORT,HOST:PORT"; GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_route_new(const gy_ps_route_options *options, const char *leads,
                                        gy_ps_route **route);
/** End all calls with GY_CANCELLED, before the node is freed. NULL is fine. */
void gy_ps_route_end(gy_ps_route *route);
/** After its node: calls that have not ended are forgotten. NULL is fine. */
void gy_ps_route_free(gy_ps_route *route);
/** Epoch 0, or no chains: it has not come yet. */
const gy_ps_map *gy_ps_route_map(const gy_ps_route *route);

/**
 * As gy_rpc_call, to the head of a part. The message's fields `epoch` and `cluster`, if it has
 * them, are filled in. It fails with GY_PEER when all replicas of the part are gone.
 * @param is_first before all others of this part; only within `found`
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_ps_route_call(gy_ps_route *route, uint32_t part, bool is_first,
                                         const gy_rpc_request *request, uint64_t *number);
/** End a call with GY_CANCELLED, within this call. An unknown one: nothing. */
void gy_ps_route_cancel(gy_ps_route *route, uint64_t number);
/** Do what is due. To be called after a turn of the node, and by gy_ps_route_next. */
void gy_ps_route_tick(gy_ps_route *route);
int64_t gy_ps_route_next(const gy_ps_route *route);
/** Calls of a part that have no answer. */
uint32_t gy_ps_route_pending(const gy_ps_route *route, uint32_t part);
/** All replicas of a part are gone: GY_PEER, with the newest snapshot. */
gy_status gy_ps_route_fail_gone(const gy_ps_route *route, uint32_t part);
/** Why calls of a part get no answer: GY_PEER or GY_TIMEOUT. */
gy_status gy_ps_route_blame(const gy_ps_route *route, uint32_t part, const char *what);

#endif
