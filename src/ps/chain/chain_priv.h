/** Inside chains: a server's place in each. */
#ifndef GY_PS_CHAIN_CHAIN_PRIV_H
#define GY_PS_CHAIN_CHAIN_PRIV_H

#include "ps/chain/chain.h"
#include "ps/chain/plant.h"

enum {
    CHAIN_LEADS_MAX = 8,
    CHAIN_WINDOW = 256, /* events on their way to the next member */
    CHAIN_HELD_MAX = 65536,
    CHAIN_COPY_BYTES = 1 << 20, /* of a piece of a copy */
    CHAIN_EVENT_BYTES = 8192,
};

/** An event, until all members behind have it. Counted: the list and calls hold it. */
typedef struct chain_entry {
    struct chain_entry *next;
    uint64_t number;
    uint32_t type;
    int holders;
    uint8_t *body; /* the packed request */
    size_t body_bytes;
    void *room; /* what lay beside it; NULL: nothing */
    size_t room_bytes;
} chain_entry;

/** An answer that waits until the members behind have event `needed`. */
typedef struct chain_answer {
    struct chain_answer *next;
    uint64_t needed;
    gy_rpc_asked asked;
    bool is_taken; /* to the member before; else to a client */
    bool is_read;
    const ProtobufCMessageDescriptor *kind;
    uint8_t *body;
    size_t body_bytes;
    gy_rpc_lent lent;
} chain_answer;

/** A client's call that waits for a map, or for the end of a lease. */
typedef struct chain_held {
    struct chain_held *next;
    uint64_t epoch;
    gy_rpc_asked asked;
    uint32_t type;
    uint8_t *body;
    size_t body_bytes;
} chain_held;

/** This server's place in the chain of a part. */
typedef struct chain_place {
    uint64_t epoch;
    uint64_t born; /* the epoch of the snapshot that the data are from; 0: none */
    bool is_member, is_head, is_joining, has_data;
    uint64_t number;  /* of the last event carried out */
    uint64_t serving; /* the event that is being carried out; 0: none */
    chain_entry *first, *last, *unsent;
    chain_answer *answers, **answers_end;
    chain_held *held, **held_end;
    /* the next member, or who joins behind this one; 0: none */
    uint64_t next;
    bool is_next_joining, is_copied;
    uint64_t acked;      /* events that it has */
    uint32_t generation; /* calls of an earlier one are not heard any more */
    int flying;
    bool is_stuck, is_asking;
    int64_t retry_ns;
    int64_t lease_until_ns;   /* granted by the members behind */
    int64_t granted_until_ns; /* granted to those before */
    /* the copy that is sent, or that comes */
    gy_text copy;
    uint64_t copy_number, copy_at, caught_at;
    bool is_copying;
} chain_place;

typedef struct chain_peer {
    uint64_t id;
    gy_rpc_peer peer;
} chain_peer;

typedef struct chain_lead {
    gy_ps_chain *chain;
    gy_rpc_peer peer;
    bool is_renewing, is_asking;
    int64_t again_ns;
} chain_lead;

struct gy_ps_chain {
    gy_ps_chain_options options;
    gy_rpc *rpc;
    gy_ps_map map;
    chain_place places[GY_PS_MAP_PARTS_MAX];
    chain_peer peers[GY_PS_MAP_SERVERS_MAX];
    uint32_t peer_count;
    chain_lead leads[CHAIN_LEADS_MAX];
    uint32_t lead_count;
    char address[GY_PS_ADDRESS_BYTES];
    int64_t tick_ns, renew_ns;
    uint32_t asked_peers;
    bool is_asking_peer; /* another server for its map */
    gy_error failure;
};

/* ---- log.c ---- */

/** Is there a member behind, whose word is needed? */
bool gy_ps_chain_needs_next(const chain_place *place);
/** The last event that all members behind have. */
uint64_t gy_ps_chain_acked(const chain_place *place);
/** A new entry, not in the list yet. Holds the room. NULL: no memory */
chain_entry *gy_ps_chain_entry_new(gy_ps_chain *chain, uint32_t type,
                                   const ProtobufCMessage *request, void *room,
                                   size_t room_bytes);
void gy_ps_chain_entry_drop(gy_ps_chain *chain, chain_entry *entry);
void gy_ps_chain_append(chain_place *place, chain_entry *entry);
/** Send what the next member has not got. */
void gy_ps_chain_forward(gy_ps_chain *chain, uint32_t part);
/** Ask the members behind for a lease. */
void gy_ps_chain_ask_lease(gy_ps_chain *chain, uint32_t part);
/** The members behind have more: answer, and forget. */
void gy_ps_chain_advance(gy_ps_chain *chain, uint32_t part);
/** Keep an answer. Takes lent on success. GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_chain_keep_answer(chain_place *place, const chain_answer *answer,
                                                const ProtobufCMessage *message);
/** Refuse the answers that wait, those to the member before or to clients as well. */
void gy_ps_chain_refuse_answers(gy_ps_chain *chain, chain_place *place, bool is_all);
void gy_ps_chain_answer_free(chain_answer *answer);
/** Forget all events, and refuse what waits. */
void gy_ps_chain_clear(gy_ps_chain *chain, chain_place *place);

/* ---- copy.c ---- */
void gy_ps_chain_send_copy(gy_ps_chain *chain, uint32_t part);

/* ---- chain.c ---- */
chain_peer *gy_ps_chain_peer(gy_ps_chain *chain, uint64_t id);
/** The server cannot go on as a replica. */
void gy_ps_chain_fail(gy_ps_chain *chain, gy_status status);
static inline int64_t gy_ps_chain_now(const gy_ps_chain *chain)
{
    return gy_now_ns(chain->options.env);
}
static inline int64_t gy_ps_chain_lease_ns(const gy_ps_chain *chain)
{
    return (int64_t)chain->map.lease_ms * 1000000;
}

/* ---- member.c ---- */
/** Fill in what all members behind have, and the lease that they give. */
void gy_ps_chain_fill_taken(gy_ps_chain *chain, chain_place *place, Gy__Ps__Taken *taken);

/* ---- renew.c ---- */
void gy_ps_chain_renew(gy_ps_chain *chain);
/** Another server has a later map: the lead may be gone before it told this one. */
void gy_ps_chain_ask_peer(gy_ps_chain *chain, gy_rpc_peer peer);

#endif
