/**
 * Where the name server's records stand, and who is elected: one interface, two places.
 *
 * SQLite: a file of this host; elections are locks on files beside it, so candidates are
 * processes of one host. etcd (3.4 or newer): a cluster of its own; candidates are anywhere.
 *
 * A record is a key, a version and bytes. It is stored by compare-and-set on the version and
 * then has one more; 0 is that of a record that is not there. What gy_persist_table_turn said
 * is stored is synced, in etcd by a majority.
 *
 * All functions and callbacks of a table run on one thread; callbacks come from
 * gy_persist_table_turn alone and may call everything but gy_persist_table_turn and
 * gy_persist_table_close. None but open, load, leader and close waits for a disk or a network.
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

/** Zero: the default. Texts are copied. */
typedef struct gy_persist_table_options {
    /* "sqlite:PATH" or a path; "etcd:https://HOST:PORT,HOST:PORT/PREFIX" ("http:" without TLS;
     * no prefix: "gyre"). */
    const char *where;
    /* Of etcd alone: */
    const char *user;          /* NULL: none */
    const char *password_file; /* nobody else may read it */
    const char *authorities;   /* a file of certificates that are trusted; NULL: the system's */
    /* Both or none; the certificate has no common name: etcd's JSON gateway refuses one. */
    const char *certificate, *certificate_key;
    bool is_plaintext; /* "http:" beyond the loopback too; never with a user */
    double lease_s;    /* a leader that is not heard for so long is none; 5; rounded up to 1 */

    double patience_s; /* a store, open, load or leader is tried so long; 10 */

    /* The outcome of a store. GY_OK: it stands; GY_LIMIT: surely not, there is no room;
     * GY_MISMATCH: another version is there; another: not known. gy_error_text says more. */
    void (*stored)(void *arg, gy_key key, uint64_t version, gy_status status);
    /* This table's candidate is the one, or is not any more. `number` is larger than that of
     * all before it in this election. NULL: never campaigns. */
    void (*elected)(void *arg, bool is_it, uint64_t number);
    void *arg;
} gy_persist_table_options;

/**
 * Open, or make, a table.
 *
 * @return GY_OK; GY_ARG what is no such place or option; GY_FORMAT a file that is none, or
 * spoilt, by name; GY_UNSUPPORTED a table of another version, no libcurl; GY_STATE etcd refuses
 * the user; GY_IO; GY_TIMEOUT; GY_NOMEM
 * @cost two threads
 */
GY_MUST_CHECK gy_status gy_persist_table_open(gy_env *env,
                                              const gy_persist_table_options *options,
                                              gy_persist_table **table);
/** Ends what is under way without its outcome; who leads resigns (half a second at most). NULL
 * is fine. */
void gy_persist_table_close(gy_persist_table *table);

/** `data` is borrowed for the call. A failure ends the loading. */
typedef gy_status (*gy_persist_table_each)(void *arg, gy_key key, uint64_t version,
                                           const void *data, size_t size_bytes);

/** Visit all records as they stood at one moment, in no order.
 * @return GY_OK; what `each` gave; GY_FORMAT a spoilt record, by its key; else as open */
GY_MUST_CHECK gy_status gy_persist_table_load(gy_persist_table *table,
                                              gy_persist_table_each each, void *arg);

/**
 * Begin to store a record (size_bytes 0: to remove it) if it has this version; `data` is
 * copied. Several may be under way, for different keys. The outcome comes to options.stored.
 *
 * @return GY_OK begun; GY_LIMIT it is longer than a record may be; GY_STATE one of this key is
 * under way; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_persist_table_store(gy_persist_table *table, gy_key key,
                                               uint64_t version, const void *data,
                                               size_t size_bytes);

/**
 * Try to become the one in election `name` (letters, digits, "-._"), and to stay it, until
 * gy_persist_table_resign; others read `value`. options.elected tells each change; a loss is
 * told before the lease is over, on this host's clock, if gy_persist_table_turn is called by
 * gy_persist_table_next.
 *
 * @return GY_OK; GY_ARG a name or value that cannot be; GY_STATE it campaigns already
 */
GY_MUST_CHECK gy_status gy_persist_table_campaign(gy_persist_table *table, const char *name,
                                                  const char *value);
/** No candidate any more; options.elected is not called for it. Nothing to do is fine. */
void gy_persist_table_resign(gy_persist_table *table);
/**
 * The holder of this number is dead, as the caller knows by other means: take its place before
 * its lease is over. Of a number that is not the holder's any more nothing comes. A lock of
 * SQLite's goes with its process and is never taken from it.
 */
void gy_persist_table_depose(gy_persist_table *table, uint64_t number);
/**
 * Who is elected. While this table campaigns in that election: as it saw last, at once; else
 * it asks.
 *
 * @param number may be NULL
 * @return GY_OK; GY_NOTFOUND nobody; GY_ARG no name; else as open
 */
GY_MUST_CHECK gy_status gy_persist_table_leader(gy_persist_table *table, const char *name,
                                                char value[GY_TABLE_VALUE_BYTES],
                                                uint64_t *number);

/** Do what can be done, then wait for more until the deadline (in the past: never), and do
 * that.
 * @return GY_OK something was told; GY_AGAIN nothing came by the deadline */
gy_status gy_persist_table_turn(gy_persist_table *table, gy_deadline deadline);
/** For another loop: readable when gy_persist_table_turn has something to do ... */
int gy_persist_table_fd(const gy_persist_table *table);
/** ... which is also due by this time. Ask after each turn. */
gy_deadline gy_persist_table_next(const gy_persist_table *table);

#endif
