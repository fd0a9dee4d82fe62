/** Inside the client: connections, tables, requests. The lock guards all of it; whoever has it
 * may drive the node: a caller that waits, else the thread that keeps connections alive. */
#ifndef GY_PS_CLIENT_PRIV_H
#define GY_PS_CLIENT_PRIV_H

#include "ps/ps_priv.h"

typedef struct ps_target {
    char address[GY_RPC_ADDRESS_BYTES];
    gy_rpc_peer peer;
} ps_target;

struct gy_ps {
    gy_mutex lock;
    gy_cond idle; /* nobody drives the node any more */
    gy_thread thread;
    int drivers, wake_file; /* wake_file: eventfd, ends the thread's wait; -1: none */
    bool is_ending;
    gy_rpc *rpc;
    gy_rpc_method methods[PS_METHODS];
    ps_target *targets; /* (part_count) part i of a table is at the i-th */
    uint32_t part_count, worker, workers;
    uint64_t client; /* by chance: this life of the worker */
    double timeout_s;
    struct gy_ps_table *tables;
};

typedef struct ps_table_part {
    uint64_t id;   /* of the table at that server */
    uint64_t seen; /* updates of the part that this worker knows of */
} ps_table_part;

struct gy_ps_table {
    gy_ps *ps;
    struct gy_ps_table *next;
    char name[64], function[64];
    gy_ps_table_options options; /* judged */
    size_t row_bytes;
    uint64_t clock, number;
    double rate;
    int clocks_pending;
    gy_error failure; /* of a clock; status GY_OK: none */
    ps_table_part parts[];
};

/** Take the lock, and make what is to be done of the node the caller's. */
void gy_ps_enter(gy_ps *ps);
void gy_ps_leave(gy_ps *ps);
/** Drive the node until *pending is 0. GY_OK; GY_TIMEOUT (no failure is recorded) */
gy_status gy_ps_drive(gy_ps *ps, const int *pending, gy_deadline deadline);
/** gy_rpc_call to a part's server; waits for room in its queue until the deadline. */
GY_MUST_CHECK gy_status gy_ps_call(gy_ps *ps, uint32_t part, const gy_rpc_request *request,
                                   uint64_t *number, gy_deadline deadline);
/** Why a part's server does not answer: GY_PEER or GY_TIMEOUT, with its address. */
gy_status gy_ps_blame(const gy_ps *ps, uint32_t part, const char *what);
/** Reach the servers as `role`. */
GY_MUST_CHECK gy_status gy_ps_connect(const gy_ps_options *options, gy_rpc_role role,
                                      gy_ps **ps);
/** End connections, and free all. */
void gy_ps_disconnect(gy_ps *ps);

#endif
