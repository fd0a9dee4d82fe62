/** A server's state, which its process (serve.c) and the simulator drive. */
#ifndef GY_PS_SERVER_PRIV_H
#define GY_PS_SERVER_PRIV_H

#include "ps/ps_priv.h"

#include <stdatomic.h>

/** A pull that waits for clocks. */
typedef struct ps_waiting {
    gy_rpc_asked asked;
    uint64_t clock, first;
    size_t count;
    void *room; /* its keys */
} ps_waiting;

typedef struct ps_served {
    char name[64];
    gy_ps_part *part;
    uint32_t part_index, parts, workers;
    ps_waiting *waiting;
    size_t waiting_count, waiting_capacity;
    uint64_t received_bytes, sent_bytes;
} ps_served;

/** A worker of a table, and the connection that speaks for it. */
typedef struct ps_member {
    gy_rpc_peer peer;
    uint32_t table, worker;
    uint64_t client;
} ps_member;

/** Rooms that are free. Zero-initialise. */
typedef struct ps_pool {
    union ps_room_head *first;
    size_t kept_bytes, kept_count;
} ps_pool;

/** A room of at least so many bytes; NULL: no memory. */
void *gy_ps_pool_take(ps_pool *pool, size_t size_bytes);
/** Back to the pool that it was taken from. NULL is fine. */
void gy_ps_pool_give(void *room);
void gy_ps_pool_fini(ps_pool *pool);

struct gy_ps_server {
    gy_rpc *rpc;
    ps_pool pool;
    uint32_t life; /* by chance: tables of another life are not this one's */
    gy_rpc_method methods[PS_METHODS];
    ps_served **tables;
    size_t table_capacity;
    uint32_t table_count;
    ps_member *members;
    size_t member_count, member_capacity;
    const gy_ps_named_function *functions;
    size_t function_count;
    _Atomic bool is_stopped; /* another thread asks for the end */
    int stop_file;           /* eventfd; -1: none */
    char address[GY_RPC_ADDRESS_BYTES];
};

GY_MUST_CHECK gy_status gy_ps_server_init(gy_ps_server *server, gy_env *env);
/** Options of the node that serves it; its rpc becomes server->rpc. */
gy_rpc_options gy_ps_server_node(gy_ps_server *server);
/** Frees the node, too. */
void gy_ps_server_fini(gy_ps_server *server);

#endif
