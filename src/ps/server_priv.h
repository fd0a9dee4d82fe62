/** A server's state, which its process (serve.c) and the simulator drive. */
#ifndef GY_PS_SERVER_PRIV_H
#define GY_PS_SERVER_PRIV_H

#include "ps/chain/chain.h"
#include "ps/lists_priv.h"
#include "ps/pool/pool.h"
#include "ps/ps_priv.h"
#include "ps/spin/spin.h"

#include <stdatomic.h>

/** A pull that waits for clocks. */
typedef struct ps_waiting {
    gy_rpc_asked asked;
    uint64_t clock, first;
    size_t count;
    uint32_t slot;
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
    uint32_t number; /* of the tables (with a lead: of the part), as they were opened */
    ps_waiting *waiting;
    size_t waiting_count, waiting_capacity;
    uint64_t received_bytes, sent_bytes;
    ps_waits waits;
} ps_served;

/** A worker of a table, and the connection that speaks for it. */
typedef struct ps_member {
    gy_rpc_peer peer;
    ps_served *table;
    uint32_t worker;
    uint64_t client;
    ps_kept_lists *lists; /* NULL: it has sent none */
} ps_member;

struct gy_ps_server {
    gy_rpc *rpc;
    gy_env *env;
    ps_pool pool;
    struct ps_snapshots *snapshots; /* NULL: it keeps none */
    uint64_t begun_from;            /* the snapshot, without a lead; 0: none */
    uint32_t life;                  /* by chance: tables of another life are not this one's */
    gy_ps_chain *chain; /* its places in the chains of a lead's cluster; NULL: no lead */
    /* workers of a new head have to come by then */
    int64_t heads_until_ns[GY_PS_MAP_PARTS_MAX];
    gy_rpc_method methods[PS_ALL_METHODS];
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
/** PS_SHOW */
gy_status gy_ps_server_show(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request);

/* ---- snapshots.c ---- */

/** Keep snapshots in a folder, and look what it has. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_snapshots_open(gy_ps_server *server, const char *folder);
/** Without a lead: load the part that the newest snapshot of the folder has. GY_NOTFOUND it has
 * none; GY_MISMATCH it is of a lead's cluster, or has several parts; GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_snapshots_resume(gy_ps_server *server);
/** Take a part's place by what a snapshot of the folder has, of its clocks. As
 * gy_ps_snapshot_read and gy_ps_server_load. */
GY_MUST_CHECK gy_status gy_ps_server_begin_from(gy_ps_server *server,
                                                const Gy__Ps__Snapshot *of, uint32_t part);
/** With a lead: a part begins from this snapshot. As gy_ps_server_begin_from; GY_NOTFOUND it is
 * not here; GY_MISMATCH it is of another cluster, or of another number of parts */
GY_MUST_CHECK gy_status gy_ps_snapshots_load(gy_ps_server *server, uint32_t part, uint64_t id);
/** What the folder has; texts are borrowed until the next snapshot. Returns how many. */
size_t gy_ps_snapshots_list(const gy_ps_server *server, Gy__Ps__Offer offers[GY_PS_OFFERS_MAX]);
void gy_ps_snapshots_close(gy_ps_server *server);
/** Forget snapshots whose client does not ask any more. */
void gy_ps_snapshots_tick(gy_ps_server *server);
/** Clocks have moved: copy the table if a snapshot wants it now. */
void gy_ps_server_cut(gy_ps_server *server, const ps_served *table);
/** PS_SAVE */
gy_status gy_ps_server_save(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request);

/* ---- led.c ---- */

/** Append a table: the size of its description, the description, workers, and the part. */
GY_MUST_CHECK gy_status gy_ps_server_save_table(const ps_served *table, gy_text *image);
/** Take a part's place by what an image has: a number of tables, and the tables. On failure the
 * server has none of the part. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_server_load(gy_ps_server *server, uint32_t part, uint32_t parts,
                                          const void *image, size_t size_bytes);

/* ---- server.c ---- */

GY_MUST_CHECK gy_status gy_ps_server_init(gy_ps_server *server, gy_env *env);
/** Options of the node that serves it; its rpc becomes server->rpc. */
gy_rpc_options gy_ps_server_node(gy_ps_server *server);
/** With a lead, before gy_ps_server_node: tables are parts of a lead's cluster. GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_server_join(gy_ps_server *server);
/** Is a call one that gy_ps_chain_serve refuses or keeps, whatever tables there are? */
bool gy_ps_server_waits(const gy_ps_server *server, uint64_t table, uint64_t epoch);
/** With a lead: GY_UNSUPPORTED a list of keys; GY_MISMATCH another cluster or number of parts;
 * GY_STATE a worker that comes again was given up. */
GY_MUST_CHECK gy_status gy_ps_server_need_no_list(const gy_ps_server *server, bool is_known);
GY_MUST_CHECK gy_status gy_ps_server_judge_open(const gy_ps_server *server,
                                                const Gy__Ps__Open *open);
GY_MUST_CHECK gy_status gy_ps_server_need_worker(const ps_served *table,
                                                 const Gy__Ps__Open *open);
/** Do what is due. A failure ends the server. */
GY_MUST_CHECK gy_status gy_ps_server_tick(gy_ps_server *server);
/** When it is to be called next. */
int64_t gy_ps_server_next(const gy_ps_server *server);
/** A call of a client that carries out `type`; asked->beside is taken. */
gy_status gy_ps_server_carry_out(void *arg, uint32_t type, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request);
/** A worker is not waited for any more. */
void gy_ps_server_give_up(gy_ps_server *server, ps_served *table, uint32_t worker,
                          uint64_t client);
ps_served *gy_ps_server_find(const gy_ps_server *server, const char *name, uint32_t part);
/** A new table, with no workers yet. */
GY_MUST_CHECK gy_status gy_ps_server_make(gy_ps_server *server, const char *name,
                                          const gy_ps_part_options *options, ps_served **table);
/** Free the table at this index, and forget who waits for it and its workers. */
void gy_ps_server_remove(gy_ps_server *server, uint32_t index);
/** Frees the node, too. */
void gy_ps_server_fini(gy_ps_server *server);

#endif
