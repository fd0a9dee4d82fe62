/**
 * Inside the client: connections, tables, requests. The lock guards all of it. Whoever waits
 * drives the node, asleep without the lock; while nobody waits, the thread that keeps
 * connections alive does.
 *
 * client.c connections · drive.c who drives them, ends of requests · table.c tables, clocks and
 * what users call · request.c pieces and calls · lists.c key lists · prefetch.c rows before
 * they are pulled · task.c requests as tasks of an engine.
 */
#ifndef GY_PS_CLIENT_PRIV_H
#define GY_PS_CLIENT_PRIV_H

#include "ps/lists_priv.h"
#include "ps/pool/pool.h"
#include "ps/ps_priv.h"
#include "ps/route/route.h"
#include "ps/spin/spin.h"

typedef struct ps_target {
    char address[GY_RPC_ADDRESS_BYTES];
    gy_rpc_peer peer;
} ps_target;

struct gy_ps {
    gy_mutex lock;
    gy_cond idle;  /* nobody drives the node any more, and something is to be done */
    gy_cond moved; /* something has ended, or nobody sleeps at the node any more */
    gy_thread thread;
    int drivers, followers; /* callers; those that wait for another one's turns */
    bool is_polled;         /* a caller sleeps at the node */
    bool is_woken;          /* wake_file was written for it */
    bool is_ending;
    int wake_file;   /* eventfd, ends the thread's wait; -1: none */
    uint32_t urgent; /* requests under way that the thread has to drive at once */
    ps_spin spin;
    gy_ps_stats stats;
    /* requests whose ends call a function: those under way, and those that have ended */
    struct gy_ps_request *then_first, *ended_first, *ended_last;
    ps_pool pool; /* of what requests copy; has a lock of its own */
    gy_mutex pool_lock;
    gy_rpc *rpc;
    gy_rpc_method methods[PS_ALL_METHODS];
    gy_ps_route *route; /* to a lead's servers; NULL: `targets` are all, in their order */
    ps_target *targets; /* (part_count) part i of a table is at the i-th */
    uint32_t part_count, worker, workers;
    uint64_t client; /* by chance: this life of the worker */
    double timeout_s;
    struct gy_ps_table *tables;
};

typedef struct ps_table_part {
    uint64_t id;   /* of the table at that server */
    uint64_t seen; /* updates of the part that this worker knows of */
    ps_own_lists lists;
} ps_table_part;

struct gy_ps_table {
    gy_ps *ps;
    struct gy_ps_table *next;
    char name[64], function[64];
    gy_ps_table_options options; /* judged */
    size_t row_bytes;
    uint64_t clock, number;
    uint64_t changes; /* pushes and puts of this worker */
    double rate;
    gy_codec codec;
    uint8_t *residual; /* (rows) of the caller; NULL: no error feedback */
    int clocks_pending;
    bool has_failed;  /* it was not opened; calls that open its parts may still name it */
    gy_error failure; /* of a clock; status GY_OK: none */
    struct gy_ps_request *prefetched; /* newest first */
    ps_table_part parts[];
};

/* ---- Requests ---- */

typedef struct ps_one_call {
    bool is_made;
    bool is_by_list; /* without keys: the server has them */
    uint64_t number;
    ps_list_name list;
} ps_one_call;

/* What one server has of a request. */
typedef struct ps_piece {
    struct gy_ps_request *request;
    uint32_t part;
    size_t begin, count; /* rows of the request, unless `places` says which */
    uint32_t *places;
    uint64_t *keys;  /* (count) gathered, if there are places */
    uint8_t *pushed; /* keys and values, or values, of a push; NULL: they are the caller's */
    uint8_t *pulled; /* room for rows, if there are places */
    ps_one_call push, pull;
} ps_piece;

typedef enum ps_kind { PS_KIND_PUSH, PS_KIND_PUT, PS_KIND_PULL, PS_KIND_BOTH } ps_kind;

struct gy_ps_request {
    gy_ps_table *table;
    ps_kind kind;
    int pending; /* calls */
    bool is_urgent;
    uint64_t number, first, clock;
    uint64_t updates; /* of a put to a state of the update */
    uint32_t slot;
    uint64_t waited_ns; /* at a server, for clocks of others */
    uint64_t clock_min; /* of live workers, when rows were read */
    const uint64_t *keys;
    size_t count;
    const uint8_t *values; /* of the caller, pushed */
    uint8_t *rows;         /* of the caller, pulled */
    gy_error error;
    /* A function that is called at the end, which frees it. */
    void (*done)(void *arg, gy_status status);
    void *arg;
    gy_deadline deadline;
    struct gy_ps_request *next; /* of those with a function, or of a table's prefetched ones */
    /* Prefetched: keys and rows are its own, and are copied to `taker` once they are there. */
    uint64_t *own_keys;
    uint8_t *own_rows, *taker;
    uint64_t changes;                     /* of the table, when it was made */
    bool is_prefetch, is_taken, is_early; /* is_early: for a clock that has not come */
    uint32_t piece_count;
    ps_piece pieces[];
};

static inline bool gy_ps_kind_pushes(ps_kind kind)
{
    return kind != PS_KIND_PULL;
}
static inline bool gy_ps_kind_pulls(ps_kind kind)
{
    return kind == PS_KIND_PULL || kind == PS_KIND_BOTH;
}

/* ---- request.c ---- */

typedef struct ps_order {
    ps_kind kind;
    const uint64_t *keys;
    size_t count;
    const void *values;
    void *rows;
    uint32_t slot; /* as of gy_ps_rows; of a put with `updates` of each part */
    uint64_t updates;
} ps_order;

/** Make a request of judged rows, without calls. GY_ARG; GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_request_new(gy_ps_table *table, const ps_order *order,
                                          gy_ps_request **request);
/** Make its calls; under the lock. On failure nothing of it is under way. */
GY_MUST_CHECK gy_status gy_ps_request_start(gy_ps_request *request);
/** End what is under way, under the lock: its memory is not lent any more afterwards. */
void gy_ps_request_cancel(gy_ps_request *request);
/** Nothing is under way. */
void gy_ps_request_free(gy_ps_request *request);
/** The first server that it still waits for, for messages: "table t: a pull after clock 3". */
gy_status gy_ps_request_blame(const gy_ps_request *request);

/** Memory that is used again; @threads any. NULL: none. */
void *gy_ps_room_take(gy_ps *ps, size_t size_bytes);
void gy_ps_room_give(gy_ps *ps, void *room);

/* ---- drive.c ---- */

/** Take the lock, and make what is to be done of the node the caller's. */
void gy_ps_enter(gy_ps *ps);
/** Give it back. Calls functions of requests that have ended, without the lock. */
void gy_ps_leave(gy_ps *ps);
/** Drive the node until *pending is 0. GY_OK; GY_TIMEOUT (no failure is recorded) */
gy_status gy_ps_drive(gy_ps *ps, const int *pending, gy_deadline deadline);
/** Call the functions of requests that have ended; takes the lock off meanwhile. */
void gy_ps_call_ended(gy_ps *ps);
/** Count a request that the thread has to drive at once; at its end again. */
void gy_ps_request_begin(gy_ps_request *request, bool is_urgent);
/** All calls of a request have ended. */
void gy_ps_request_ended(gy_ps_request *request);
/** gy_rpc_call to a part's server; waits for room in its queue until the deadline. */
GY_MUST_CHECK gy_status gy_ps_call(gy_ps *ps, uint32_t part, const gy_rpc_request *request,
                                   uint64_t *number, gy_deadline deadline);
/** End a call: what it lends is not used any more once its `done` is called, in this call or
 * the next turn. */
void gy_ps_cancel(const gy_ps *ps, uint32_t part, uint64_t number);
/** One turn of the node until the deadline at most, and what a route has to do. */
gy_status gy_ps_turn(gy_ps *ps, gy_deadline deadline);
/** gy_ps_call, or GY_AGAIN at once. */
GY_MUST_CHECK gy_status gy_ps_call_now(gy_ps *ps, uint32_t part, const gy_rpc_request *request,
                                       uint64_t *number);
/** The thread that keeps connections alive. */
void *gy_ps_keep_alive(void *arg);
/** The failure of a part's server that has not answered `what`. */
gy_status gy_ps_blame(const gy_ps *ps, uint32_t part, const char *what);

/* ---- table.c ---- */

/** Open the tables' part at its new server, before all other calls. `arg`: the gy_ps. */
void gy_ps_reopen(void *arg, uint32_t part);

/* ---- prefetch.c ---- */

/** The prefetched rows of a pull of these keys, taken off the table's list; NULL: none. Under
 * the lock. */
gy_ps_request *gy_ps_prefetch_find(gy_ps_table *table, const uint64_t *keys, size_t count);
/** Give its rows to `rows` as soon as they are there. */
void gy_ps_prefetch_take(gy_ps_request *request, void *rows);
/** Drop those that no pull will take: all of them, or those of an earlier clock. */
void gy_ps_prefetch_drop(gy_ps_table *table, bool is_all);

/* ---- client.c ---- */

/** Connect as gy_ps_open does, as a worker or another role. */
GY_MUST_CHECK gy_status gy_ps_connect(const gy_ps_options *options, gy_rpc_role role,
                                      gy_ps **ps);
/** Free it, without leaving tables. */
void gy_ps_disconnect(gy_ps *ps);

#endif
