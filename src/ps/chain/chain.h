/**
 * A server's places in the chains of a cluster: for each part the events that it has taken, on
 * their way to the next member. The head of a chain carries out what clients ask, and answers
 * once all members have the event; each member carries out the same events in the same order.
 * The head answers reads within a lease that the members behind it grant: none of them serves
 * as head before the lease is over.
 *
 * Reading order: chain.h · chain_priv.h · log.c events and answers · member.c events of the
 * member before · copy.c who joins gets a copy · chain.c maps and time · renew.c the lead.
 *
 * @source van Renesse & Schneider, OSDI 2004 (chain replication); Gray & Cheriton, SOSP 1989
 *     (leases)
 */
#ifndef GY_PS_CHAIN_CHAIN_H
#define GY_PS_CHAIN_CHAIN_H

#include "base/text.h"
#include "ps/map/map.h"
#include "rpc/rpc.h"

typedef struct gy_ps_chain gy_ps_chain;

/** What the server does for it; none of them calls back but by gy_ps_chain_answer. */
typedef struct gy_ps_chain_options {
    gy_env *env;
    uint64_t id;                  /* of this life of the server, by chance */
    const gy_rpc_method *methods; /* (method_count) of clients */
    size_t method_count;
    void *arg;
    /* Carry out a call. An event of the member before has a peer of 0, and its answer is not
     * wanted. Takes asked->beside, also on failure, which leaves everything as it was. */
    gy_status (*serve)(void *arg, uint32_t type, const gy_rpc_asked *asked,
                       const ProtobufCMessage *request);
    bool (*is_event)(uint32_t type); /* else it only reads */
    /* Rooms, which are counted. take: NULL without memory */
    void *(*take)(void *arg, size_t size_bytes);
    void (*hold)(void *room);
    void (*give)(void *room);
    /* A part's state as bytes, and back; load takes the place of what is there. */
    gy_status (*save)(void *arg, uint32_t part, gy_text *image);
    gy_status (*load)(void *arg, uint32_t part, const void *image, size_t size_bytes);
    /* The part begins from a snapshot on this server's disk, whatever it has. */
    gy_status (*resume)(void *arg, uint32_t part, uint64_t snapshot);
    /* Snapshots that the disk has parts of; returns how many. Texts are the server's. */
    size_t (*list_saved)(void *arg, Gy__Ps__Offer offers[GY_PS_OFFERS_MAX]);
    void (*drop)(void *arg, uint32_t part);    /* it is not a member any more */
    void (*promote)(void *arg, uint32_t part); /* it is the head from now on */
} gy_ps_chain_options;

GY_MUST_CHECK gy_status gy_ps_chain_new(const gy_ps_chain_options *options,
                                        gy_ps_chain **chain);
void gy_ps_chain_free(gy_ps_chain *chain);
/** Once its node is there: reach the leads ("H:P,H:P") and say that this server, which listens
 * at `address`, is there. GY_ARG; GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_chain_start(gy_ps_chain *chain, gy_rpc *rpc, const char *leads,
                                          const char *address);
/** Do what is due; to be called by gy_ps_chain_next, and after anything else. A failure ends
 * the server: it would not be a replica any more. */
GY_MUST_CHECK gy_status gy_ps_chain_tick(gy_ps_chain *chain);
int64_t gy_ps_chain_next(const gy_ps_chain *chain);

/** A call of a client for a part, by its map of `epoch`: carried out now, or once this server
 * has that map and may serve. A failure refuses it; GY_CANCELLED: by a newer map. */
GY_MUST_CHECK gy_status gy_ps_chain_serve(gy_ps_chain *chain, uint32_t part, uint64_t epoch,
                                          const gy_rpc_asked *asked,
                                          const ProtobufCMessage *request);
/** An event of the server's own, at the head: no answer. Not the head: nothing. */
void gy_ps_chain_happen(gy_ps_chain *chain, uint32_t part, const ProtobufCMessage *request);
/** Answer, once all members have what the answer tells of. lent: NULL; of a read only. */
GY_MUST_CHECK gy_status gy_ps_chain_answer(gy_ps_chain *chain, uint32_t part,
                                           const gy_rpc_asked *asked,
                                           const ProtobufCMessage *answer,
                                           const gy_rpc_lent *lent);
/** The caller does not wait any more. False: it is none of those that wait here. */
bool gy_ps_chain_cancel(gy_ps_chain *chain, const gy_rpc_asked *asked);
/** A client is gone. */
void gy_ps_chain_forget(gy_ps_chain *chain, gy_rpc_peer peer);
bool gy_ps_chain_is_head(const gy_ps_chain *chain, uint32_t part);
/** Its place in the part's chain, 1: the head; 0: it is no member (yet). */
uint32_t gy_ps_chain_place(const gy_ps_chain *chain, uint32_t part);
/** Of the part's chain, by the map that this server has. */
uint64_t gy_ps_chain_epoch(const gy_ps_chain *chain, uint32_t part);
const gy_ps_map *gy_ps_chain_map(const gy_ps_chain *chain);

/* ---- Messages of other servers ---- */

gy_status gy_ps_chain_admit_event(gy_ps_chain *chain, const ProtobufCMessage *request,
                                  size_t size_bytes, void **room);
gy_status gy_ps_chain_event(gy_ps_chain *chain, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request);
gy_status gy_ps_chain_admit_copy(gy_ps_chain *chain, const ProtobufCMessage *request,
                                 size_t size_bytes, void **room);
gy_status gy_ps_chain_copy(gy_ps_chain *chain, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request);

/** Take a map; an older one changes nothing. GY_FORMAT it is of another cluster */
GY_MUST_CHECK gy_status gy_ps_chain_take_map(gy_ps_chain *chain, const gy_ps_map *map);

#endif
