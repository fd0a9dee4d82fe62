/**
 * Inside the table: what its files share. Two threads serve a table: one stores, one campaigns;
 * the owner's thread only puts into queues and takes out of them.
 */
#ifndef GY_PERSIST_TABLE_TABLE_PRIV_H
#define GY_PERSIST_TABLE_TABLE_PRIV_H

#include "persist/table/table.h"

enum {
    GY_TABLE_BATCH = 32,              /* stores that are committed together, at most */
    GY_TABLE_BATCH_BYTES = 512 << 10, /* of all, at most (etcd takes 1.5 MiB a request) */
    GY_TABLE_VERSION = 1,
};

/** A store that is under way. */
typedef struct gy_persist_table_write {
    struct gy_persist_table_write *next;
    gy_key key;
    uint64_t version;  /* expected */
    int64_t due_ns;    /* then it is given up */
    gy_error outcome;  /* filled in by `commit`; the text only of a failure */
    bool is_open;      /* of `commit`: has no outcome yet */
    uint8_t token[16]; /* of etcd: tells this store's record from others' */
    size_t size_bytes;
    uint8_t data[]; /* (size_bytes) */
} gy_persist_table_write;

/** A candidate, as its place sees it; only the campaigning thread has one. */
typedef struct gy_election {
    char name[GY_TABLE_NAME_BYTES], value[GY_TABLE_VALUE_BYTES];
    uint64_t deposed; /* number that may be replaced; 0: none */
    bool is_held;
    uint64_t number;                 /* held: its own; else of who was seen, 0: nobody */
    int64_t until_ns;                /* held: it is no more by then */
    int64_t renew_ns;                /* held: how often to renew */
    char seen[GY_TABLE_VALUE_BYTES]; /* not held: the value of who was seen */
    int lock;                        /* of SQLite; -1: none */
    uint64_t lease;                  /* of etcd; 0: none */
} gy_election;

typedef struct gy_persist_table_ops {
    const char *name;
    /* Fills in table->place. After a failure `close` is called. */
    gy_status (*open)(gy_persist_table *table, const gy_persist_table_options *options);
    void (*close)(gy_persist_table *table);
    /* Make requests that are under way see is_closing. @threads any */
    void (*wake)(gy_persist_table *table);
    gy_status (*load)(gy_persist_table *table, gy_persist_table_each each, void *arg);
    /* (count) of 1 to GY_TABLE_BATCH, of different keys: fill in the outcomes. On the storing
     * thread. */
    void (*commit)(gy_persist_table *table, gy_persist_table_write *const *batch, size_t count);
    gy_status (*leader)(gy_persist_table *table, const char *name,
                        char value[GY_TABLE_VALUE_BYTES], uint64_t *number);
    /* On the campaigning thread. `run`: GY_OK held; GY_AGAIN another has it. `renew`: GY_OK;
     * GY_STATE it is lost; another failure: try again. `leave`: waits half a second at most. */
    gy_status (*run)(gy_persist_table *table, gy_election *election);
    gy_status (*renew)(gy_persist_table *table, gy_election *election);
    void (*leave)(gy_persist_table *table, gy_election *election);
} gy_persist_table_ops;

extern const gy_persist_table_ops gy_persist_table_sqlite, gy_persist_table_etcd;

/** What owner and campaigning thread tell each other; under the table's lock. */
typedef struct gy_campaign {
    bool is_wanted, is_changed; /* changed: the thread looks at it anew */
    uint64_t round;             /* each call of campaign and resign, each loss by the clock */
    char name[GY_TABLE_NAME_BYTES], value[GY_TABLE_VALUE_BYTES];
    uint64_t deposed;
    /* from the thread */
    bool is_held;
    uint64_t number;
    int64_t until_ns; /* atomic: gy_persist_table_next looks at it without the lock */
    char seen[GY_TABLE_VALUE_BYTES];
    uint64_t seen_number;
    /* the owner's */
    bool is_told;
    uint64_t told_number;
} gy_campaign;

struct gy_persist_table {
    gy_env *env;
    const gy_persist_table_ops *ops;
    void *place; /* of the ops */
    double patience_s, lease_s;
    void (*stored)(void *arg, gy_key key, uint64_t version, gy_status status);
    void (*elected)(void *arg, bool is_it, uint64_t number);
    void *arg;
    int event; /* readable: something was put out */

    gy_mutex lock;
    gy_cond work, election,
        ends;        /* for the storing thread; the campaigning one; both when pausing */
    bool is_closing; /* atomic: requests under way look at it without the lock */
    gy_persist_table_write *first, **last;           /* to be stored, oldest first */
    gy_persist_table_write *under_way;               /* taken by the storing thread */
    gy_persist_table_write *done_first, **done_last; /* outcomes, oldest first */
    gy_campaign campaign;
    gy_thread storing, campaigning;
};

/** Wait; false at once or in between when the table is being closed. @threads its own two */
bool gy_persist_table_pause(gy_persist_table *table, gy_deadline until);
/** Make gy_persist_table_fd readable. @threads any */
void gy_persist_table_ring(gy_persist_table *table);
/** Give a write its outcome; of a failure the text is this thread's last. */
void gy_persist_table_settle(gy_persist_table_write *write, gy_status status);

/* ---- campaign.c ---- */
void *gy_campaign_run(void *arg);
/** What is to be told, with the lock held: *is_lost and *is_won, with their numbers. */
typedef struct gy_campaign_news {
    bool is_lost, is_won;
    uint64_t lost_number, won_number;
} gy_campaign_news;
void gy_campaign_look(gy_persist_table *table, gy_campaign_news *news);

#endif
