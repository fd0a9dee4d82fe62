/** A server's state, which its process (serve.c) and the simulator drive. */
#ifndef GY_PS_SERVER_PRIV_H
#define GY_PS_SERVER_PRIV_H

#include "ps/lists_priv.h"
#include "ps/pool_priv.h"
#include "ps/ps_priv.h"
#include "ps/spin_priv.h"

#include <stdatomic.h>

/** A pull that waits for clocks. */
typedef struct ps_waiting {
    gy_rpc_asked asked;
    uint64_t clock, first;
    size_t count;
    void *room;       /* its keys */
    bool is_kept;     /* they are, in a slot */
    int64_t since_ns; /* 0: it did not wait */
    uint32_t behind;  /* the worker that it waits for */
} ps_waiting;

/** What pulls of a table have waited for. */
typedef struct ps_waits {
    uint64_t pulls, waits, wait_ns, spared_key_bytes;
    uint64_t *by_worker; /* (worker_count) ns */
    size_t worker_count, worker_capacity;
    uint64_t staleness[GY_PS_STALENESS_BINS];
} ps_waits;

typedef struct ps_served {
    char name[64];
    gy_ps_part *part;
    uint32_t part_index, parts, workers;
    ps_waiting *waiting;
    size_t waiting_count, waiting_capacity;
    uint64_t received_bytes, sent_bytes;
    ps_waits waits;
} ps_served;

/** A worker of a table, and the connection that speaks for it. */
typedef struct ps_member {
    gy_rpc_peer peer;
    uint32_t table, worker;
    uint64_t client;
    ps_kept_lists *lists; /* NULL: it has sent none */
} ps_member;

struct gy_ps_server {
    gy_rpc *rpc;
    gy_env *env;
    ps_pool pool;
    uint32_t life; /* by chance: tables of another life are not this one's */
    gy_rpc_method methods[PS_METHODS];
    ps_served **tables;
    size_t table_capacity;
    uint32_t table_count;
    ps_member *members;
    size_t member_count, member_capacity;
    size_t list_bytes; /* of all members */
    ps_spin spin;
    const gy_ps_named_function *functions;
    size_t function_count;
    _Atomic bool is_stopped; /* another thread asks for the end */
    int stop_file;           /* eventfd; -1: none */
    char address[GY_RPC_ADDRESS_BYTES];
};

/* ---- waits.c ---- */

/** A pull of a worker at `clock` is answered, after it has waited so long for `behind`. */
void gy_ps_waits_add(ps_waits *waits, uint64_t wait_ns, uint32_t behind);
void gy_ps_waits_tell(const ps_waits *waits, Gy__Ps__Facts *facts);
void gy_ps_waits_fini(ps_waits *waits);

/* ---- server.c ---- */

GY_MUST_CHECK gy_status gy_ps_server_init(gy_ps_server *server, gy_env *env);
/** Options of the node that serves it; its rpc becomes server->rpc. */
gy_rpc_options gy_ps_server_node(gy_ps_server *server);
/** Frees the node, too. */
void gy_ps_server_fini(gy_ps_server *server);

#endif
