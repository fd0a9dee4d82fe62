/**
 * The journal of a job: the records of all its managers, in one order that every later manager
 * reads again (docs/decisions/035).
 *
 * Without an epoch it is one file, FOLDER/journal, written by the process that holds the
 * folder's lock. With an epoch each manager writes a segment of its own, in a folder that hosts
 * share:
 *
 *     journal.1  [records of epoch 1 ......|what came later]     seal.1 {its size, checksum}
 *     journal.2  [records of epoch 2 ..|torn]                    seal.2
 *     journal.4  [records of epoch 4 ...                         being written
 *
 * A reader takes all segments in the order of epochs, each up to its seal.
 *
 * If the folder is a URI (s3://BUCKET/PATH/, hdfs://, file:), each sync creates an object
 * journal.EPOCH.NUMBER. To seal a segment, another manager creates the object with the next
 * number: the segment's writer can then no longer create it.
 */
#ifndef GY_PERSIST_JOURNAL_JOURNAL_H
#define GY_PERSIST_JOURNAL_JOURNAL_H

#include "base/env.h"

typedef struct gy_journal gy_journal;

/**
 * Receives the records of earlier managers from the first on. *used: the size of the intact
 * records.
 */
typedef gy_status (*gy_journal_take)(void *arg, const void *records, size_t size_bytes,
                                     size_t *used);

/** A store of objects: the place of a URI, or a test's own. */
typedef struct gy_journal_store {
    /* Create the whole object or nothing; GY_EXISTS if the name is taken: of many writers one
     * succeeds. */
    gy_status (*create)(void *arg, const char *name, const void *data, size_t size_bytes);
    /* *size_bytes: the object's size, also when it exceeds `room` (GY_LIMIT). GY_NOTFOUND */
    gy_status (*read)(void *arg, const char *name, void *data, size_t room, size_t *size_bytes);
    /* List all names; `visit` returns a failure to stop. */
    gy_status (*list)(void *arg, gy_status (*visit)(void *to, const char *name), void *to);
    gy_status (*remove)(void *arg, const char *name); /* removing a missing object succeeds */
    void *arg;
} gy_journal_store;

typedef struct gy_journal_options {
    const char *folder; /* an existing folder, or a URI; borrowed while the journal is open */
    uint64_t epoch;     /* the manager's, used once; 0: none, the manager holds the lock */
    /* The name that later managers report as this epoch's owner; NULL: none. */
    const char *owner;
    /* The size of the intact records at the beginning of these bytes (gy_manager_measure): a
     * seal covers only these. */
    size_t (*measure)(const void *records, size_t size_bytes);
    gy_journal_take take;
    void *arg;
    const gy_journal_store *store; /* NULL: as `folder` says */
} gy_journal_options;

/**
 * Check that a folder or place supports segments: exclusive creation must work across hosts.
 *
 * @return GY_OK; GY_UNSUPPORTED, with the reason; GY_NOTFOUND; GY_IO. Does not use the
 * simulated disk.
 */
GY_MUST_CHECK gy_status gy_journal_suits(gy_env *env, const char *folder);

/**
 * Begin the epoch, seal the older ones, and pass their records to `take`, unless there are
 * none. From then on no sync of an older epoch's manager succeeds. Without an epoch: truncate a
 * torn record; a folder with segments continues as the next epoch.
 *
 * @return GY_OK; GY_STATE the epoch has ended or was begun before, the folder holds a journal
 * without epochs, or a journal that is being removed; GY_FORMAT a segment or seal is corrupt,
 * or as `take` returns; GY_UNSUPPORTED the file system has no hard links; GY_IO; GY_NOMEM
 * @threads all calls of one journal on one thread at a time
 * @cost reads everything; syncs each unsealed segment; creating a file takes 2 syncs
 */
GY_MUST_CHECK gy_status gy_journal_open(gy_env *env, const gy_journal_options *options,
                                        gy_journal **journal);
/** Drops records that were appended and not flushed. NULL is allowed. */
void gy_journal_close(gy_journal *journal);

/**
 * Append a record. A flush writes it to the file at the latest; in a store of objects, a sync.
 * GY_IO: the journal cannot be used any more.
 */
GY_MUST_CHECK gy_status gy_journal_append(gy_journal *journal, const void *data,
                                          size_t size_bytes);
GY_MUST_CHECK gy_status gy_journal_flush(gy_journal *journal);
/**
 * Flush, wait until all is on the disk, then check whether a newer epoch has begun.
 *
 * @return GY_OK: every later manager will read all records so far; GY_IO the journal cannot be
 * trusted any more; GY_STATE as gy_journal_check
 */
GY_MUST_CHECK gy_status gy_journal_sync(gy_journal *journal);
/**
 * Check whether a newer epoch has begun. Call it before an action that only the current manager
 * may take.
 *
 * @return GY_OK no newer epoch had begun; GY_STATE one has, or this epoch is sealed (the text
 * names the epoch); GY_IO the folder cannot be listed
 * @cost one listing of the folder; nothing without an epoch
 */
GY_MUST_CHECK gy_status gy_journal_check(gy_journal *journal);

/** Has a check or sync returned GY_STATE? */
bool gy_journal_is_over(const gy_journal *journal);
/** 0: the journal is a single file. */
uint64_t gy_journal_epoch(const gy_journal *journal);
/** Are records waiting to be flushed? *since_ns: when the first of them was appended. */
bool gy_journal_is_waiting(const gy_journal *journal, int64_t *since_ns);

/** Does the folder hold the journal of a job that has not ended, in either form? */
bool gy_journal_is_there(gy_env *env, const char *folder);
/**
 * Has the removal of the folder's segments begun? Then the job has ended, even if segments
 * remain. Always false for objects.
 */
bool gy_journal_is_ending(gy_env *env, const char *folder);
/** The epoch that may continue the folder's segments; 0: there are none. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_journal_next(gy_env *env, const char *folder, uint64_t *epoch);
/**
 * Remove the journal of an ended job. The last seal stays, so that no late manager begins there
 * again. An interrupted removal never looks like the journal of an unfinished job. GY_IO;
 * GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_journal_remove(gy_env *env, const char *folder);

#endif
