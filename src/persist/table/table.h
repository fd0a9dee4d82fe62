/**
 * Stores the name server's records and elects its leader; one interface, two backends. SQLite:
 * a file on this host; elections are locks on files beside it, so candidates are processes of
 * one host. etcd (3.4 or newer): a separate cluster; candidates run anywhere.
 *
 * A record is a key, a version and bytes. A store is a compare-and-set on the version, which it
 * increments; a record that does not exist has version 0. What gy_persist_table_turn reports as
 * stored is synced, in etcd by a majority.
 *
 * All functions and callbacks of a table run on one thread. Callbacks come only from
 * gy_persist_table_turn, and may call everything but gy_persist_table_turn and
 * gy_persist_table_close. Only open, load, leader and close wait for a disk or a network.
 */
#ifndef GY_PERSIST_TABLE_TABLE_H
#define GY_PERSIST_TABLE_TABLE_H

#include "base/key.h"

enum {
    GY_TABLE_RECORD_BYTES = 64 << 10, /* of a record, at most */
    GY_TABLE_NAME_BYTES = 64,         /* of an election, with its end */
    GY_TABLE_VALUE_BYTES = 256,       /* of a candidate's value, with its end */
};

typedef struct gy_persist_table gy_persist_table;

/** A zero value selects the default. Texts are copied. */
typedef struct gy_persist_table_options {
    /* "sqlite:PATH" or a path; "etcd:https://HOST:PORT,HOST:PORT/PREFIX" ("http:" without TLS;
     * no prefix: "gyre"). */
    const char *where;
    /* Only for etcd: */
    const char *user;          /* NULL: none */
    const char *password_file; /* only its owner may read it */
    const char *authorities;   /* a file of trusted certificates; NULL: the system's */
    /* Both or none; the certificate must have no common name, since etcd's JSON gateway refuses
     * one. */
    const char *certificate, *certificate_key;
    bool is_plaintext; /* allows "http:" beyond the loopback, but never with a user */
    double lease_s;    /* a leader silent for so long loses the election; 5; rounded up to 1 */

    double patience_s; /* timeout of a store, open, load or leader; 10 */

    /* The result of a store. GY_OK: stored; GY_LIMIT: not stored, since there is no room;
     * GY_MISMATCH: the record has another version; any other: unknown. gy_error_text has the
     * details. */
    void (*stored)(void *arg, gy_key key, uint64_t version, gy_status status);
    /* This table's candidate became the leader, or no longer is. `number` is larger than that
     * of all earlier leaders of this election. NULL: never campaigns. */
    void (*elected)(void *arg, bool is_it, uint64_t number);
    void *arg;
} gy_persist_table_options;

/**
 * Open a table; create it if it does not exist.
 *
 * @return GY_OK; GY_ARG a bad location or option; GY_FORMAT the file is no table, or corrupt
 * (the text names it); GY_UNSUPPORTED a table of another version, no libcurl; GY_STATE etcd
 * refuses the user; GY_IO; GY_TIMEOUT; GY_NOMEM
 * @cost two threads
 */
GY_MUST_CHECK gy_status gy_persist_table_open(gy_env *env,
                                              const gy_persist_table_options *options,
                                              gy_persist_table **table);
/**
 * Abandons stores under way without reporting their results; a leader resigns (half a second at
 * most). NULL is allowed.
 */
void gy_persist_table_close(gy_persist_table *table);

/** `data` is borrowed for the call. A failure ends the load. */
typedef gy_status (*gy_persist_table_each)(void *arg, gy_key key, uint64_t version,
                                           const void *data, size_t size_bytes);

/**
 * Visit all records of one snapshot, in no particular order.
 * @return GY_OK; as `each` returns; GY_FORMAT a corrupt record (the text has its key); else as
 * open
 */
GY_MUST_CHECK gy_status gy_persist_table_load(gy_persist_table *table,
                                              gy_persist_table_each each, void *arg);

/**
 * Begin to store a record (size_bytes 0: to remove it) if it has this version; `data` is
 * copied. Several stores may be under way, for different keys. options.stored receives the
 * result.
 *
 * @return GY_OK begun; GY_LIMIT the record is too long; GY_STATE a store of this key is under
 * way; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_persist_table_store(gy_persist_table *table, gy_key key,
                                               uint64_t version, const void *data,
                                               size_t size_bytes);

/**
 * Campaign to become and stay the leader of election `name` (letters, digits, "-._") until
 * gy_persist_table_resign; others read `value`. options.elected reports each change. It reports
 * a loss before the lease expires on this host's clock, provided that gy_persist_table_turn is
 * called in time for gy_persist_table_next.
 *
 * @return GY_OK; GY_ARG a bad name or value; GY_STATE the table campaigns already
 */
GY_MUST_CHECK gy_status gy_persist_table_campaign(gy_persist_table *table, const char *name,
                                                  const char *value);
/** Stop campaigning; options.elected is not called for it. No effect without a campaign. */
void gy_persist_table_resign(gy_persist_table *table);
/**
 * The caller knows by other means that the leader with this number is dead: replace it before
 * its lease expires. No effect if the number is no longer the leader's. An SQLite lock ends
 * with its process, so the table never takes it away.
 */
void gy_persist_table_depose(gy_persist_table *table, uint64_t number);
/**
 * The current leader. While this table campaigns in that election it returns the last known
 * state at once; otherwise it asks the backend.
 *
 * @param number may be NULL
 * @return GY_OK; GY_NOTFOUND there is no leader; GY_ARG a bad name; else as open
 */
GY_MUST_CHECK gy_status gy_persist_table_leader(gy_persist_table *table, const char *name,
                                                char value[GY_TABLE_VALUE_BYTES],
                                                uint64_t *number);

/**
 * Process all events, then wait for more until the deadline (in the past: do not wait), and
 * process those.
 * @return GY_OK a callback was called; GY_AGAIN no event by the deadline
 */
gy_status gy_persist_table_turn(gy_persist_table *table, gy_deadline deadline);
/** For an external event loop: readable when gy_persist_table_turn has events to process. */
int gy_persist_table_fd(const gy_persist_table *table);
/** gy_persist_table_turn must be called by this time, too. Ask again after each turn. */
gy_deadline gy_persist_table_next(const gy_persist_table *table);

#endif
