/**
 * Parameter servers: tables of parameters that live on servers. Workers pull rows, compute,
 * push gradients and say that a clock is over; the servers apply the update. How far workers
 * may be ahead of each other is the table's rule (gy_ps_sync).
 *
 *     gy_ps_open(&GY_OPTIONS(gy_ps_options, .servers = "h:7900", .worker = 0, .workers = 2),
 * &ps); gy_ps_table_open(ps, "emb", &GY_OPTIONS(gy_ps_table_options, .width = 8, .is_sparse =
 * true, .update = GY_PS_ADAGRAD, .sync = gy_ps_ssp(4)), &t); gy_ps_pull(t, keys, n, rows, &r1);
 *     gy_ps_wait(r1, deadline);
 *     gy_ps_push(t, keys, n, gradients, &r2);
 *     gy_ps_clock(t);
 *
 * With `.lead = "h:7900"` in place of the servers each part of a table has several replicas,
 * and the loss of a server costs a pause (gy_ps_lead_run).
 *
 * A push is applied once, whatever connections and servers do. Lecture D, "Distributed
 * Parameter Servers"; lecture B, "Parameter Server Abstraction".
 */
#ifndef GYRE_PS_H
#define GYRE_PS_H

#include <gyre/codec.h>
#include <gyre/data.h>
#include <gyre/engine.h>
#include <gyre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a server applies a gradient g to a row w. r: the rate; the bits are those of gy_train's
 * optimizers. */
typedef enum gy_ps_update {
    GY_PS_SUM,      /* w += g, also of whole numbers */
    GY_PS_SGD,      /* w -= r g */
    GY_PS_MOMENTUM, /* v = m v + g;  w -= r v */
    GY_PS_NESTEROV, /* v = m v + g;  w -= r (g + m v) */
    GY_PS_ADAGRAD,  /* s += g²;  w -= r g / (sqrt(s) + e)  (Duchi et al., JMLR 2011) */
    GY_PS_ADAM,     /* Kingma & Ba, ICLR 2015 */
    GY_PS_ADAMW,    /* Loshchilov & Hutter, ICLR 2019 */
    GY_PS_FTRL,     /* FTRL-proximal with l1 and l2 (McMahan et al., KDD 2013) */
    GY_PS_FUNCTION, /* a function that the serving program has registered */
    GY_PS_UPDATES
} gy_ps_update;

/** What a pull after c calls of gy_ps_clock waits for. */
typedef enum gy_ps_rule {
    GY_PS_BSP,      /* every live worker has made c calls; a clock's pushes are summed in the
                       order of workers and applied once */
    GY_PS_ASP,      /* nothing; pushes are applied at once */
    GY_PS_SSP,      /* every live worker has made c - bound calls; applied at once */
    GY_PS_BACKUP,   /* all live workers but `bound` have made c calls: a clock is closed by the
                       first of them, and what the others push for it is dropped and counted */
    GY_PS_WEIGHTED, /* nothing; a push is scaled by 1 / (1 + updates its worker has not seen) */
    GY_PS_RULES
} gy_ps_rule;

/** Zero: BSP. */
typedef struct gy_ps_sync {
    gy_ps_rule rule;
    uint32_t bound; /* of SSP and BACKUP */
} gy_ps_sync;

static inline gy_ps_sync gy_ps_bsp(void)
{
    gy_ps_sync sync = {GY_PS_BSP, 0};
    return sync;
}
static inline gy_ps_sync gy_ps_asp(void)
{
    gy_ps_sync sync = {GY_PS_ASP, 0};
    return sync;
}
static inline gy_ps_sync gy_ps_ssp(uint32_t staleness)
{
    gy_ps_sync sync = {GY_PS_SSP, staleness};
    return sync;
}
static inline gy_ps_sync gy_ps_backup(uint32_t workers)
{
    gy_ps_sync sync = {GY_PS_BACKUP, workers};
    return sync;
}
static inline gy_ps_sync gy_ps_weighted(void)
{
    gy_ps_sync sync = {GY_PS_WEIGHTED, 0};
    return sync;
}

/**
 * Read "bsp", "asp", "ssp:4", "backup:1" or "weighted".
 * @return GY_OK; GY_ARG the text is none of them
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_ps_sync_read(const char *text, gy_ps_sync *sync);

/** "ssp:4"; `out` (size_bytes >= 24). @threads any */
GY_API void gy_ps_sync_print(gy_ps_sync sync, char *out, size_t size_bytes);

/** A table. Those who open it by one name have to agree on all of it. */
typedef struct gy_ps_table_options {
    size_t struct_size;
    gy_dtype dtype;   /* GY_F32 (the default), GY_F64, or GY_I64 with GY_PS_SUM */
    uint32_t width;   /* values of a row; 0: 1 */
    bool is_sparse;   /* keys are any 64-bit numbers, and rows appear when first pushed */
    uint64_t rows;    /* of a dense table: its keys are 0 .. rows - 1 */
    bool is_by_range; /* a sparse table's keys go to servers by range rather than by hash */
    gy_ps_update update;
    gy_ps_sync sync;
    double rate;           /* 0: 0.01, of Adam and AdamW 0.001; alpha of FTRL */
    double momentum;       /* 0: 0.9 */
    double beta1, beta2;   /* 0: 0.9 and 0.999 */
    double epsilon;        /* 0: 1e-8 */
    double weight_decay;   /* g += d w, of AdamW w -= r d w */
    double l1, l2;         /* of FTRL */
    double ftrl_beta;      /* 0: 1 */
    const char *function;  /* of GY_PS_FUNCTION: its name at the servers */
    bool takes_non_finite; /* pushes may have infinities and NaN */
    double
        initial_range; /* a new row's values are uniform in [-range, range), by seed and key */
    uint64_t seed;
} gy_ps_table_options;

/* ---- Workers ---- */

/** The servers, and who this worker is. What is under way goes on while no thread waits for it.
 * @threads any, gy_ps_close after all others; pushes and clocks count in the order of calls */
typedef struct gy_ps gy_ps;
/** A table of a gy_ps. */
typedef struct gy_ps_table gy_ps_table;
/** A push or a pull that is under way. */
typedef struct gy_ps_request gy_ps_request;

typedef struct gy_ps_options {
    size_t struct_size;
    const char *servers;  /* "HOST:PORT,HOST:PORT": the same list at all workers; part i of a
                             table  is at the i-th */
    const char *lead;     /* instead of servers: "HOST:PORT,HOST:PORT" of gy_ps_lead_run's */
    uint32_t replicas;    /* that each part is to have at the lead; 0: any */
    const char *key_file; /* key ring; NULL: only with is_plaintext */
    bool is_plaintext;    /* no key; loopback addresses alone */
    uint32_t worker;      /* which one this is, of ... */
    uint32_t workers;     /* ... how many; 0: 1 */
    double timeout_s;     /* of calls without a deadline of their own; 0: 60 */
    /* Servers of this host are reached by sockets alone. Otherwise rows go through memory that
     * worker and server share (2 MiB each), once the worker has proved its key: what they
     * exchange is not encrypted then. */
    bool without_shared_memory;
} gy_ps_options;

/**
 * Reach all servers.
 * With a lead it waits, for as long as timeout_s, for parts whose replicas are all gone: they
 * may begin again from a snapshot.
 * @return GY_OK; GY_ARG options; GY_PEER or GY_TIMEOUT with the server that does not answer;
 *     GY_MISMATCH the lead's parts have another number of replicas; GY_NOTFOUND, GY_STATE,
 *     GY_FORMAT the key file; GY_NOMEM
 * @threads any; starts one that keeps connections alive
 */
GY_API GY_MUST_CHECK gy_status gy_ps_open(const gy_ps_options *options, gy_ps **ps);

/** Leave all tables, so that nobody waits for this worker, and free the handle and its tables.
 * What is under way is cancelled. NULL is fine. */
GY_API void gy_ps_close(gy_ps *ps);

/**
 * Open a table, which is made by the first of its workers. All workers have to open it: those
 * that have not come yet are waited for.
 * @return GY_OK; GY_ARG options; GY_MISMATCH the table is there with others, or the lists of
 *     servers differ; GY_EXISTS another process is this worker; GY_PEER; GY_TIMEOUT; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_ps_table_open(gy_ps *ps, const char *name,
                                                const gy_ps_table_options *options,
                                                gy_ps_table **table);

/**
 * Push gradients of rows. Exactly once: a push that is said to have failed with GY_PEER or
 * GY_TIMEOUT was applied once or not at all, every other one once, or (with any other failure)
 * not at all at the server that refused it.
 *
 * @param keys     (count) of a sparse table, strictly ascending; of a dense one NULL for rows 0
 * .. count
 *                 - 1, or the address of the first row's key
 * @param values   (count, width) of the table's dtype
 * @param request  becomes a request, for which keys and values are lent until gy_ps_wait; NULL:
 * the call waits itself
 * @return GY_OK; GY_ARG keys; GY_NUMERIC a value that is not finite; GY_STATE this worker was
 * given up for dead; GY_LIMIT; GY_PEER; GY_TIMEOUT; GY_NOMEM
 * @cost of a dense table no copy; of a sparse one a copy of keys and values
 */
GY_API GY_MUST_CHECK gy_status gy_ps_push(gy_ps_table *table, const uint64_t *keys,
                                          size_t count, const void *values,
                                          gy_ps_request **request);

/** Set rows as they are, at once: initial values, by one worker before the first clock. As
 * gy_ps_push. */
GY_API GY_MUST_CHECK gy_status gy_ps_put(gy_ps_table *table, const uint64_t *keys, size_t count,
                                         const void *values, gy_ps_request **request);

/**
 * Pull rows; it waits for other workers as the table's rule says. `values` (count, width) is
 * written until gy_ps_wait. Rows of a sparse table that are not there have their initial
 * values. The parameters and failures are those of gy_ps_push.
 */
GY_API GY_MUST_CHECK gy_status gy_ps_pull(gy_ps_table *table, const uint64_t *keys,
                                          size_t count, void *values, gy_ps_request **request);

/**
 * Read what the update keeps beside all rows of a dense table, as a checkpoint needs it, and
 * the updates that the servers have made (the most of a part; Adam counts them). Waits as
 * gy_ps_pull does.
 *
 * @param slot    1 and up: v of momentum, s of AdaGrad, mean and square of Adam, z and n of
 *                FTRL
 * @param values  (rows, width)
 * @return as of gy_ps_pull; GY_ARG the update keeps no such array
 */
GY_API GY_MUST_CHECK gy_status gy_ps_pull_state(gy_ps_table *table, uint32_t slot, void *values,
                                                uint64_t *updates);

/** And back, by one worker before the first clock, as gy_ps_put is: all rows' state, and how
 * often they were updated. */
GY_API GY_MUST_CHECK gy_status gy_ps_put_state(gy_ps_table *table, uint32_t slot,
                                               const void *values, uint64_t updates);

/**
 * Push gradients and pull the same rows, one round trip: as a gy_ps_push and a gy_ps_pull after
 * it. Where pushes are applied at once the rows show this one; where they are held until their
 * clock is over (BSP, backup workers) they do not. The parameters are those of both;
 * `values` and `rows` do not overlap.
 */
GY_API GY_MUST_CHECK gy_status gy_ps_push_pull(gy_ps_table *table, const uint64_t *keys,
                                               size_t count, const void *values, void *rows,
                                               gy_ps_request **request);

/**
 * Begin to pull rows that a later gy_ps_pull of the same keys and count takes: it waits only
 * for what has not come. Keys are copied. Rows that no pull took are dropped once its clock is
 * over.
 *
 * @param clocks  calls of gy_ps_clock that this worker makes before that pull. 0: the rows are
 *                dropped by a push of this worker, so that the pull shows it; above 0: they may
 *                lack what this worker pushes meanwhile, as the table's rule allows for the
 *                pushes of others
 * @return GY_OK; GY_ARG keys; GY_LIMIT 16 lists are prefetched already; GY_PEER; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_ps_prefetch(gy_ps_table *table, const uint64_t *keys,
                                              size_t count, uint32_t clocks);

/** The rate of this worker's pushes from now on, in place of the table's; 0: the table's. */
GY_API void gy_ps_set_rate(gy_ps_table *table, double rate);
/**
 * The codec of this worker's pushes to a dense table of floating point from now on: fewer bytes
 * on the way. Each server's rows are encoded by themselves, when the push is made.
 *
 * @param residual  (rows, width) of the table's dtype, zero at first: error feedback, so that
 *                  what a push loses is in later ones. The caller keeps it with the table, and
 *                  may save and restore it between pushes. NULL: what is lost is lost
 * @return GY_OK; GY_ARG the codec, a sparse table, or one of whole numbers
 */
GY_API GY_MUST_CHECK gy_status gy_ps_set_codec(gy_ps_table *table, gy_codec codec,
                                               void *residual);

/**
 * Say that this worker's clock is over: all that it pushes for it was pushed. Does not wait; a
 * failure is returned by the next call.
 */
GY_API GY_MUST_CHECK gy_status gy_ps_clock(gy_ps_table *table);

/**
 * Wait for a request and free it. After GY_TIMEOUT by the deadline it is cancelled: its memory
 * is not lent any more. NULL is fine.
 * @return what the call would have returned
 */
GY_API gy_status gy_ps_wait(gy_ps_request *request, gy_deadline deadline);

/**
 * Call a function when a request has ended, in place of gy_ps_wait: with what gy_ps_wait would
 * return, a failure's text in gy_error_text. Takes the request. `done` is called once, on a
 * thread that is in a call of this handle or on the handle's own, never within this call's
 * locks; it may begin further requests but not wait for any, and by the handle's end (status
 * GY_CANCELLED) not even that.
 */
GY_API void gy_ps_then(gy_ps_request *request, gy_deadline deadline,
                       void (*done)(void *arg, gy_status status), void *arg);

/** A push, a pull or both as a task of an engine. */
typedef struct gy_ps_task {
    size_t struct_size;
    gy_engine *engine;
    const uint64_t *keys; /* as of gy_ps_push; lent until the task has ended */
    size_t count;
    const void *values; /* (count, width) pushed; NULL: nothing is */
    gy_var *values_var; /* is read: the push begins when the values are there; may be NULL */
    void *rows;         /* (count, width) pulled; NULL: none are */
    gy_var *rows_var;   /* is mutated: it is ready when the rows are there; may be NULL */
    gy_scope *scope;
    int priority;
    double timeout_s; /* from the task's start; 0: the handle's */
} gy_ps_task;

/**
 * Push such a task: tasks that read `rows_var` run once the server has answered (lecture B,
 * "Integrate Schedule with Networking using Events"). No worker waits meanwhile.
 * @return GY_OK; GY_ARG neither values nor rows; GY_NOMEM. What the request returns is the
 *     task's end
 */
GY_API GY_MUST_CHECK gy_status gy_ps_push_task(gy_ps_table *table, const gy_ps_task *task);

/** Bins of a histogram of staleness: 0 to 15 clocks, and 16 or more. */
enum { GY_PS_STALENESS_BINS = 17 };

/** What a handle has done since it was opened; of all its tables. */
typedef struct gy_ps_stats {
    uint64_t pushes, pulls, clocks;                 /* calls; a push-pull is one of each */
    uint64_t prefetched;                            /* pulls that took prefetched rows */
    uint64_t pushed_bytes, pulled_bytes, key_bytes; /* values and keys that were sent */
    uint64_t spared_key_bytes;                      /* keys that the server had already */
    uint64_t dropped, duplicates;                   /* pushes that servers took and dropped */
    /* Time that callers waited: for room in queues, for acknowledgements of pushes, for the
     * clocks of other workers, for rows besides. */
    double queue_wait_s, push_wait_s, clock_wait_s, pull_wait_s;
    /* pulls by how many clocks the slowest live worker was behind this one at their answer */
    uint64_t staleness[GY_PS_STALENESS_BINS];
} gy_ps_stats;

/** Read the counters. @threads any */
GY_API void gy_ps_stats_read(gy_ps *ps, gy_ps_stats *stats);

/* ---- Servers ---- */

/** A function that updates a row (width) by a gradient (width), both of the table's dtype. */
typedef struct gy_ps_named_function {
    const char *name;
    void (*function)(void *arg, uint64_t key, void *row, const void *gradient, uint32_t width,
                     double rate);
    void *arg;
} gy_ps_named_function;

typedef struct gy_ps_server gy_ps_server;

typedef struct gy_ps_server_options {
    size_t struct_size;
    const char *listen;                    /* "HOST:PORT"; NULL: a free port of the loopback */
    const char *key_file;                  /* key ring; NULL: only with is_plaintext */
    bool is_plaintext;                     /* no key; loopback addresses alone */
    const gy_ps_named_function *functions; /* (function_count) of GY_PS_FUNCTION; outlive it */
    size_t function_count;
    bool without_shared_memory; /* as of gy_ps_options */
    /* "HOST:PORT,HOST:PORT" of leads, which give it its parts; NULL: none, its clients do */
    const char *lead;
    /* Where the server keeps snapshots (gy_ps_save), made if it is not there; NULL: nowhere. */
    const char *folder;
    /* Without a lead: begin with what the newest snapshot of the folder has. With one the lead
     * says so (gy_ps_lead_run_options). */
    bool resumes;
} gy_ps_server_options;

/**
 * Listen. Tables live in memory, for as long as the server does; with a lead the replicas of a
 * part have it, too, and what was acknowledged is lost only with all of them.
 * @return GY_OK; GY_ARG; GY_EXISTS the port is taken; GY_NOTFOUND, GY_STATE, GY_FORMAT the key
 *     file; GY_IO the folder; GY_NOTFOUND, GY_MISMATCH, GY_FORMAT what is to be resumed from;
 *     GY_LIMIT; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_ps_server_open(const gy_ps_server_options *options,
                                                 gy_ps_server **server);
/** "HOST:PORT", valid as long as the server. */
GY_API const char *gy_ps_server_address(const gy_ps_server *server);
/** Serve until gy_ps_server_stop, or until `wake_file` is readable (-1: none). GY_OK; GY_IO */
GY_API GY_MUST_CHECK gy_status gy_ps_server_run(gy_ps_server *server, int wake_file);
/** @threads any */
GY_API void gy_ps_server_stop(gy_ps_server *server);
/** NULL is fine. */
GY_API void gy_ps_server_close(gy_ps_server *server);

/** What `gyre ps serve` does: listens, calls on_listening, serves until SIGTERM or SIGINT. */
GY_API GY_MUST_CHECK gy_status gy_ps_serve(const gy_ps_server_options *options,
                                           void (*on_listening)(void *arg, const char *address),
                                           void *arg);

/* ---- A lead, which says which servers have which parts ---- */

typedef struct gy_ps_lead_run_options {
    size_t struct_size;
    const char *listen;   /* "HOST:PORT" */
    const char *key_file; /* key ring; NULL: only with is_plaintext */
    bool is_plaintext;    /* no key; loopback addresses alone */
    /* Where the map is stored: "sqlite:PATH", or "etcd:https://HOST:PORT,.../PREFIX". Leads
     * that share it elect one of them; the others are on standby. */
    const char *table;
    const char *table_user, *table_password_file, *table_authorities;
    const char *table_certificate, *table_certificate_key;
    bool table_is_plaintext; /* HTTP beyond the loopback too; never with a user */
    double table_lease_s;    /* a lead steps down when it could not renew for so long; 5 */
    uint32_t replicas;       /* of each part; 0: 2. As parts and lease_s, of a new map alone */
    uint32_t parts;          /* of each table; 0: 4 */
    /* For so long a head may answer without a word of its replicas; a server that is silent for
     * twice as long is replaced; 0: 1 */
    double lease_s;
    /* When all replicas of a part are gone, or with a new table, all parts begin again from the
     * newest whole snapshot (gy_ps_save) that servers have in their folders, once they have
     * come. A new table becomes that of the snapshot's cluster. */
    bool resumes;
} gy_ps_lead_run_options;

/**
 * What `gyre ps lead` does: listens, calls on_listening, leads until SIGTERM or SIGINT. Tables
 * are born once there are as many servers as replicas; a server that comes later takes over
 * parts, as does one that takes the place of a dead one, by a copy and what follows it.
 * @return GY_OK; GY_ARG; GY_EXISTS the port is taken; GY_FORMAT the table is of something else,
 *     or corrupt; GY_NOTFOUND, GY_STATE the key file; GY_IO; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_ps_lead_run(const gy_ps_lead_run_options *options,
                                              void (*on_listening)(void *arg,
                                                                   const char *address),
                                              void *arg);

/**
 * Take all parts of a server elsewhere, and wait until it has none. Of the options: lead,
 * key_file, is_plaintext, timeout_s.
 * @param on_progress  called now and then with the parts that it still has; NULL: not
 * @return GY_OK; GY_NOTFOUND there is no such server; GY_STATE too few would be left; GY_PEER;
 *     GY_TIMEOUT
 */
GY_API GY_MUST_CHECK gy_status gy_ps_drain(const gy_ps_options *options, const char *server,
                                           void (*on_progress)(void *arg, uint32_t parts),
                                           void *arg);

/** A snapshot that was taken. */
typedef struct gy_ps_saved {
    char name[64];   /* of its folder in those of the servers */
    uint64_t clock;  /* the highest of its tables */
    uint64_t number; /* of the servers' snapshots: the newest has the highest */
    uint64_t size_bytes;
    uint32_t parts, tables;
} gy_ps_saved;

/**
 * Take a snapshot of all tables: rows, state of their updates, clocks; a file of each part in
 * the folder of its head, and beside each a manifest that names them all. Training goes on
 * meanwhile.
 *
 * It is of one clock: tables of GY_PS_BSP and GY_PS_BACKUP are saved by all parts with exactly
 * the pushes of the same clocks, those of one training (whose names are alike up to '/') at one
 * clock together, but for tables that nobody moves. Tables whose pushes are applied at once are
 * saved between two pushes of each part, and begin again at the fewest calls that a worker had
 * made then: what others had pushed beyond is in the rows.
 *
 * Of the options: servers or lead, key_file (of an operator), is_plaintext,
 * timeout_s.
 * @param name   1 to 63 letters, digits, '-', '_', '.'; NULL: "snapshot-NUMBER"
 * @param saved  NULL: not told
 * @return GY_OK: it is whole; GY_ARG; GY_EXISTS another one has the name; GY_STATE a server has
 *     no folder, or there are no tables; GY_IO a folder cannot be written, nothing of this
 *     snapshot is left; GY_TIMEOUT the parts did not come to one clock; the failures of
 *     gy_ps_open
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_ps_save(const gy_ps_options *options, const char *name,
                                          gy_ps_saved *saved);

/** A part of a table, as its server tells of it. */
typedef struct gy_ps_facts {
    const char *server, *table;
    gy_ps_table_options options;
    uint32_t part, parts, live; /* live workers */
    uint32_t
        place; /* in the chain of replicas, 1: the head; 0: none yet, or there is no lead */
    uint64_t rows, updates, pushes, duplicates, dropped, refused, held_bytes;
    uint64_t clock_min, clock_max; /* of live workers */
    uint64_t received_bytes, sent_bytes, spared_key_bytes;
    uint32_t waiting;      /* pulls */
    uint64_t pulls, waits; /* waits: pulls that had to wait for clocks */
    double wait_s;         /* together */
    uint32_t slow_worker;  /* the one that they waited for most ... */
    double slow_wait_s;    /* ... and how long; 0: nobody waited */
    /* pulls by how many clocks the slowest live worker was behind the one that pulled */
    uint64_t staleness[GY_PS_STALENESS_BINS];
} gy_ps_facts;

/**
 * Ask servers for their tables, or all of a lead's. Of the options: servers or lead, key_file,
 * is_plaintext, timeout_s.
 * @param visit  called for each part of a table; texts are valid during the call. A failure
 * ends it
 * @return GY_OK; what visit returns; the failures of gy_ps_open
 */
GY_API GY_MUST_CHECK gy_status gy_ps_show(const gy_ps_options *options,
                                          gy_status (*visit)(void *arg,
                                                             const gy_ps_facts *facts),
                                          void *arg);

/* ---- Measurements ---- */

/** A figure beside what it is compared with; both medians. */
typedef struct gy_ps_figure {
    const char *name, *reference; /* "push", "echo"; static */
    uint64_t size_bytes;          /* of values */
    double time_s, reference_s;
    /* What bandwidth alone takes: max(n/B, pn/(kB)) for p workers, k servers and n bytes, B
     * being that of a stream over the same wire (lecture C). */
    double floor_s;
    uint32_t workers, servers;
    double faults; /* page faults of worker and server for each time it was done */
} gy_ps_figure;

typedef struct gy_ps_bench_options {
    size_t struct_size;
    const char *key_file; /* key ring; NULL: plain text */
    double duration_s;    /* of each figure; 0: 0.3 */
} gy_ps_bench_options;

/**
 * Measure a server of this host beside an echo, a stream and others over the same kind of wire,
 * each in a process of its own, which are forked: call it while there is one thread.
 * @param visit  called for each figure. A failure ends it
 * @param stats  NULL, or the counters of the worker at the end
 * @return GY_OK; what visit returns; GY_IO; the failures of gy_ps_open and gy_ps_server_open
 */
GY_API GY_MUST_CHECK gy_status gy_ps_bench(const gy_ps_bench_options *options,
                                           gy_status (*visit)(void *arg,
                                                              const gy_ps_figure *figure),
                                           void *arg, gy_ps_stats *stats);

/* ---- Virtual time ---- */

/** What makes workers of a simulation unequal. */
typedef enum gy_ps_stragglers {
    GY_PS_EVEN,       /* nothing: steps take 1 s, a tenth more or less */
    GY_PS_ONE_SLOW,   /* worker 0 takes four times as long */
    GY_PS_SLOW_STEPS, /* one step in twenty takes ten times as long */
    GY_PS_SKEWED,     /* each worker's rows are of one label, as far as that goes */
    GY_PS_STRAGGLERS
} gy_ps_stragglers;

/** Zero members are the defaults. */
typedef struct gy_ps_simulation {
    size_t struct_size;
    uint32_t workers; /* 0: 16 */
    uint32_t batch;   /* rows of a worker's step; 0: 16 */
    gy_ps_sync sync;
    gy_ps_stragglers stragglers;
    gy_codec codec;     /* of pushes, with error feedback */
    double rate;        /* of plain SGD on the mean of a clock's gradients; 0: 0.5 */
    double target_loss; /* the simulation ends there; 0: none */
    uint64_t clocks;    /* and after so many steps for each worker; 0: 1000 */
    uint64_t seed;
} gy_ps_simulation;

typedef struct gy_ps_simulated {
    size_t struct_size;
    bool is_reached; /* the target loss */
    double time_s;   /* virtual, when the loss was last looked at */
    double loss;     /* mean log loss of all rows */
    uint64_t pushes, dropped;
    uint64_t push_bytes; /* of one push */
} gy_ps_simulated;

/**
 * Train logistic regression by workers and a parameter server in virtual time: gradients and
 * the rules of tables are real, the time of a step is drawn from the seed. The same arguments
 * give the same result on every machine.
 *
 * @param rows  of two labels
 * @return GY_OK; GY_ARG an option, labels; GY_LIMIT too many features; GY_NOMEM
 * @threads any
 * @cost for each worker's step a batch; for each clock a pass over all rows
 */
GY_API GY_MUST_CHECK gy_status gy_ps_simulate(const gy_libsvm *rows,
                                              const gy_ps_simulation *options,
                                              gy_ps_simulated *result);

/** A model of another kind for a simulation: its parameters are one vector (width). */
typedef struct gy_ps_simulated_model {
    size_t struct_size;
    void *arg;
    size_t width, samples;
    uint32_t labels; /* that samples may have, which GY_PS_SKEWED sorts them by; 0: not known */
    /* the label of a sample, below `labels`; NULL with none */
    uint32_t (*label)(void *arg, size_t sample);
    /* parameters (width) are zero: make them what training begins with; NULL: zero */
    void (*begin)(void *arg, double *parameters);
    /* gradient (width) += share * the sum of gradients of samples (count) at the parameters */
    gy_status (*gradient)(void *arg, const double *parameters, const size_t *samples,
                          size_t count, double share, double *gradient);
    /* what the target is of, at the parameters */
    gy_status (*loss)(void *arg, const double *parameters, double *loss);
} gy_ps_simulated_model;

/** gy_ps_simulate for such a model: as alike on several machines as its functions are. Returns
 * what these return, too. */
GY_API GY_MUST_CHECK gy_status gy_ps_simulate_model(const gy_ps_simulated_model *model,
                                                    const gy_ps_simulation *options,
                                                    gy_ps_simulated *result);

#ifdef __cplusplus
}
#endif
#endif
