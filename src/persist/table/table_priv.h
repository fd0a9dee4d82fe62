/**
 * Inside the table. Two threads serve a table: one stores, one campaigns; the owner's thread
 * only exchanges queue entries with them.
 */
#ifndef GY_PERSIST_TABLE_TABLE_PRIV_H
#define GY_PERSIST_TABLE_TABLE_PRIV_H

#include "persist/table/table.h"

enum {
    GY_TABLE_BATCH = 32, /* stores committed together, at most */
    /* Of all of them together (etcd accepts 1.5 MiB per request). */
    GY_TABLE_BATCH_BYTES = 512 << 10,
    GY_TABLE_VERSION = 1,
};

/** A store under way. */
typedef struct gy_persist_table_write {
    struct gy_persist_table_write *next;
    gy_key key;
    uint64_t version;  /* the expected one */
    int64_t due_ns;    /* when the store is abandoned */
    gy_error outcome;  /* set by `commit`; with text only after a failure */
    bool is_open;      /* for `commit`: has no result yet */
    uint8_t token[16]; /* for etcd: distinguishes this store's record from others */
    size_t size_bytes;
    uint8_t data[]; /* (size_bytes) */
} gy_persist_table_write;

/** A candidate as its backend sees it; only the campaigning thread uses it. */
typedef struct gy_election {
    char name[GY_TABLE_NAME_BYTES], value[GY_TABLE_VALUE_BYTES];
    uint64_t deposed; /* number of the leader that may be replaced; 0: none */
    bool is_held;
    uint64_t number;  /* if it leads: its own number; else the leader's, 0: none */
    int64_t until_ns; /* if it leads: the lease's end */
    int64_t renew_ns; /* if it leads: interval between renewals */
    char seen[GY_TABLE_VALUE_BYTES]; /* if it does not lead: the leader's value */
    int lock;                        /* for SQLite; -1: none */
    uint64_t lease;                  /* for etcd; 0: none */
} gy_election;

typedef struct gy_persist_table_ops {
    const char *name;
    /* Sets table->place. After a failure `close` is called too. */
    gy_status (*open)(gy_persist_table *table, const gy_persist_table_options *options);
    void (*close)(gy_persist_table *table);
    /* Make requests that are under way see is_closing. @threads any */
    void (*wake)(gy_persist_table *table);
    gy_status (*load)(gy_persist_table *table, gy_persist_table_each each, void *arg);
    /* Commit `count` stores, 1 to GY_TABLE_BATCH, with different keys: set their results. On
     * the storing thread. */
    void (*commit)(gy_persist_table *table, gy_persist_table_write *const *batch, size_t count);
    gy_status (*leader)(gy_persist_table *table, const char *name,
                        char value[GY_TABLE_VALUE_BYTES], uint64_t *number);
    /* On the campaigning thread. `run`: GY_OK it leads; GY_AGAIN another candidate leads.
     * `renew`: GY_OK; GY_STATE it lost the election; another failure: try again. `leave`: waits
     * half a second at most. */
    gy_status (*run)(gy_persist_table *table, gy_election *election);
    gy_status (*renew)(gy_persist_table *table, gy_election *election);
    void (*leave)(gy_persist_table *table, gy_election *election);
} gy_persist_table_ops;

extern const gy_persist_table_ops gy_persist_table_sqlite, gy_persist_table_etcd;

/** Shared by the owner and the campaigning thread, under the table's lock. */
typedef struct gy_campaign {
    bool is_wanted, is_changed; /* is_changed: the thread must read what the owner wants now */
    uint64_t round; /* counts calls of campaign and resign, and losses by the clock */
    char name[GY_TABLE_NAME_BYTES], value[GY_TABLE_VALUE_BYTES];
    uint64_t deposed;
    /* set by the thread */
    bool is_held;
    uint64_t number;
    int64_t until_ns; /* atomic: gy_persist_table_next reads it without the lock */
    char seen[GY_TABLE_VALUE_BYTES];
    uint64_t seen_number;
    /* used by the owner only */
    bool is_told;
    uint64_t reported_number;
} gy_campaign;

struct gy_persist_table {
    gy_env *env;
    const gy_persist_table_ops *ops;
    void *place; /* the backend's */
    double patience_s, lease_s;
    void (*stored)(void *arg, gy_key key, uint64_t version, gy_status status);
    void (*elected)(void *arg, bool is_it, uint64_t number);
    void *arg;
    int event; /* an eventfd, readable when there is an event for the owner */

    gy_mutex lock;
    gy_cond work, election,
        ends;        /* for the storing thread; the campaigning one; both when pausing */
    bool is_closing; /* atomic: requests under way read it without the lock */
    gy_persist_table_write *first, **last;           /* to store, oldest first */
    gy_persist_table_write *under_way;               /* being committed by the storing thread */
    gy_persist_table_write *done_first, **done_last; /* with results, oldest first */
    gy_campaign campaign;
    gy_thread storing, campaigning;
};

/** Wait until a time; false: the table is being closed. @threads its own two */
bool gy_persist_table_pause(gy_persist_table *table, gy_deadline until);
/** Make gy_persist_table_fd readable. @threads any */
void gy_persist_table_ring(gy_persist_table *table);
/** Set the result of a write; a failure takes this thread's last error text. */
void gy_persist_table_settle(gy_persist_table_write *write, gy_status status);

/* ---- campaign.c ---- */
void *gy_campaign_run(void *arg);
/**
 * The changes to report, taken with the lock held: *is_lost and *is_won, with their numbers.
 */
typedef struct gy_campaign_news {
    bool is_lost, is_won;
    uint64_t lost_number, won_number;
} gy_campaign_news;
void gy_campaign_check(gy_persist_table *table, gy_campaign_news *news);

#endif
