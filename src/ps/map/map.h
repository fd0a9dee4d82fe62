/**
 * The map of a cluster of parameter servers: which servers there are, and for each part of the
 * tables the chain of servers that have it. The lead alone makes maps; each has a higher epoch
 * than the one before, and a chain has the epoch of the map in which it last changed.
 */
#ifndef GY_PS_MAP_MAP_H
#define GY_PS_MAP_MAP_H

#include "base/base.h"
#include "ps/proto/ps.pb-c.h"
#include "rpc/rpc.h"

/** Servers and clients dial a lead that was away again by then, however long it was away: a
 * lead does not take a server for dead that had no chance to reach it. */
#define GY_PS_REDIAL_NS ((int64_t)500000000)

enum {
    GY_PS_MAP_SERVERS_MAX = 64,
    GY_PS_MAP_PARTS_MAX = 64,
    GY_PS_REPLICAS_MAX = 8,
    GY_PS_ADDRESS_BYTES = 64,
    GY_PS_SAVED_BYTES = 64,     /* of a snapshot's name */
    GY_PS_OFFERS_MAX = 4,       /* snapshots that a server tells of */
    GY_PS_MAP_BYTES = 32 << 10, /* of a packed map, at most */
};

typedef struct gy_ps_map_server {
    uint64_t id; /* one life of a server */
    char address[GY_PS_ADDRESS_BYTES];
    bool is_draining;
} gy_ps_map_server;

typedef struct gy_ps_map_chain {
    uint64_t epoch;
    uint64_t members[GY_PS_REPLICAS_MAX]; /* the head first */
    uint32_t count;
    uint64_t joining; /* 0: none */
    bool is_away, is_lost;
    /* The epoch in which it began from a snapshot, whose first member has it on its disk; 0: it
     * was born empty, with the cluster. */
    uint64_t born, snapshot;
} gy_ps_map_chain;

/** A value. Epoch 0: there is none yet. */
typedef struct gy_ps_map {
    uint64_t cluster, epoch;
    uint32_t replicas, lease_ms;
    uint32_t server_count, chain_count;
    gy_ps_map_server servers[GY_PS_MAP_SERVERS_MAX];
    gy_ps_map_chain chains[GY_PS_MAP_PARTS_MAX];
    /* the newest whole snapshot; number 0: none */
    char saved[GY_PS_SAVED_BYTES];
    uint64_t saved_clock, saved_number;
} gy_ps_map;

/** NULL: no such server. */
const gy_ps_map_server *gy_ps_map_find(const gy_ps_map *map, uint64_t id);
/** A member's place in a chain; UINT32_MAX: it is none. */
uint32_t gy_ps_map_place(const gy_ps_map_chain *chain, uint64_t id);
/** The address of a part's head; NULL: none. */
const char *gy_ps_map_head(const gy_ps_map *map, uint32_t part);

/** What a map must be whoever made it. GY_FORMAT says what is wrong. */
GY_MUST_CHECK gy_status gy_ps_map_check(const gy_ps_map *map);

/** Memory that a message of a map borrows. */
typedef struct gy_ps_map_message {
    Gy__Ps__Map map;
    Gy__Ps__Server servers[GY_PS_MAP_SERVERS_MAX];
    Gy__Ps__Server *server_list[GY_PS_MAP_SERVERS_MAX];
    Gy__Ps__Chain chains[GY_PS_MAP_PARTS_MAX];
    Gy__Ps__Chain *chain_list[GY_PS_MAP_PARTS_MAX];
} gy_ps_map_message;
/** Both are borrowed by message->map. */
void gy_ps_map_tell(const gy_ps_map *map, gy_ps_map_message *message);
/** And back, checked. GY_FORMAT */
GY_MUST_CHECK gy_status gy_ps_map_hear(const Gy__Ps__Map *message, gy_ps_map *map);

/** As stored: a checksum, then the message. Returns the bytes of `out` (GY_PS_MAP_BYTES). */
size_t gy_ps_map_pack(const gy_ps_map *map, uint8_t *out);
/** GY_FORMAT: not a map, or a bit of it has flipped; GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_map_unpack(const void *data, size_t size_bytes, gy_ps_map *map);

/* ---- methods.c ---- */

/** What servers of a lead, leads and clients say to each other, beside what clients say to
 * servers. */
typedef enum gy_ps_led_type {
    GY_PS_EVENT = GY_RPC_TYPE_FIRST + 64, /* with what lay beside the client's message */
    GY_PS_COPY,
    GY_PS_RENEW,
    GY_PS_ASK_MAP,
    GY_PS_DRAIN,
    GY_PS_LED_TYPES
} gy_ps_led_type;

enum { GY_PS_LED_METHODS = GY_PS_LED_TYPES - GY_PS_EVENT };

/** These methods as one has them who serves none. */
void gy_ps_led_methods(gy_rpc_method methods[GY_PS_LED_METHODS]);

typedef struct gy_ps_method_row {
    const char *name;
    const ProtobufCMessageDescriptor *request, *answer;
    uint32_t flags, request_bytes_max, answer_bytes_max;
    size_t request_beside_max, answer_beside_max;
} gy_ps_method_row;
/** Methods (count) of types `first` and up. */
void gy_ps_methods_fill(const gy_ps_method_row *rows, uint32_t count, uint32_t first,
                        gy_rpc_method *methods);

#endif
