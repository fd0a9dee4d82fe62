/**
 * The journal of a job: the records of all its managers, in one order that every later one
 * finds again (docs/decisions/035).
 *
 * Without an epoch it is one file, FOLDER/journal, of whoever holds the folder's lock. With one
 * it is a segment for each manager in a folder that hosts share:
 *
 *     journal.1  [records of epoch 1 ......|what came later]     seal.1 {its size, checksum}
 *     journal.2  [records of epoch 2 ..|torn]                    seal.2
 *     journal.4  [records of epoch 4 ...                         being written
 *
 * What is read is all segments in the order of epochs, each up to its seal.
 *
 * Where a URI stands for the folder (s3://BUCKET/PATH/, hdfs://, file:), what is synced becomes
 * an object journal.EPOCH.NUMBER each time, and a segment is sealed by the object that would
 * have come next: its writer cannot create that one any more.
 */
#ifndef GY_PERSIST_JOURNAL_JOURNAL_H
#define GY_PERSIST_JOURNAL_JOURNAL_H

#include "base/env.h"

typedef struct gy_journal gy_journal;

/** Take what managers before this one wrote, from the first record on. *used: how many bytes
 * are whole records. */
typedef gy_status (*gy_journal_take)(void *arg, const void *records, size_t size_bytes,
                                     size_t *used);

/** Where objects are; the place of a URI, or what a test puts there. */
typedef struct gy_journal_store {
    /* All of it or nothing, GY_EXISTS when there is one: of many that try, one succeeds. */
    gy_status (*create)(void *arg, const char *name, const void *data, size_t size_bytes);
    /* *size_bytes: what it has, also if that is more than there is room for: GY_LIMIT.
     * GY_NOTFOUND */
    gy_status (*read)(void *arg, const char *name, void *data, size_t room, size_t *size_bytes);
    /* All names; `visit` returns a failure to end it. */
    gy_status (*list)(void *arg, gy_status (*visit)(void *to, const char *name), void *to);
    gy_status (*remove)(void *arg, const char *name); /* that there is none is no failure */
    void *arg;
} gy_journal_store;

typedef struct gy_journal_options {
    const char *folder; /* is there, or a URI; borrowed while the journal is open */
    uint64_t epoch;     /* the manager's, used once; 0: it has none and holds the lock */
    const char *owner;  /* whom others name that find the epoch begun; NULL: nobody */
    /* How many of these bytes are whole records, from the first on (gy_manager_measure): what a
     * seal covers. */
    size_t (*measure)(const void *records, size_t size_bytes);
    gy_journal_take take;
    void *arg;
    const gy_journal_store *store; /* NULL: as `folder` says */
} gy_journal_options;

/**
 * Whether a folder or place is fit for segments: creating exclusively there holds for all
 * hosts.
 *
 * @return GY_OK; GY_UNSUPPORTED, with the reason; GY_NOTFOUND; GY_IO. Real files alone.
 */
GY_MUST_CHECK gy_status gy_journal_suits(gy_env *env, const char *folder);

/**
 * Begin the epoch, seal the older ones, and take their records (`take` is called unless there
 * are none). From then on no manager of an older epoch gets anything past its next sync.
 * Without an epoch: what was torn is cut; a folder with segments is gone on with, as the next
 * epoch.
 *
 * @return GY_OK; GY_STATE the epoch is over or was begun before, the folder holds a journal
 * without epochs, or one that is being removed; GY_FORMAT a segment or seal is not what was
 * written, or what `take` says; GY_UNSUPPORTED no links there; GY_IO; GY_NOMEM
 * @threads all calls of one journal on one thread at a time
 * @cost reads all; of segments each unsealed one is synced, and creating a file takes 2 syncs
 */
GY_MUST_CHECK gy_status gy_journal_open(gy_env *env, const gy_journal_options *options,
                                        gy_journal **journal);
/** What was appended and not flushed is dropped. NULL is fine. */
void gy_journal_close(gy_journal *journal);

/** Append; reaches a file at the latest with the next flush, objects with the next sync. GY_IO:
 * it is over then. */
GY_MUST_CHECK gy_status gy_journal_append(gy_journal *journal, const void *data,
                                          size_t size_bytes);
GY_MUST_CHECK gy_status gy_journal_flush(gy_journal *journal);
/**
 * Flush, wait until all is on the disk, then look whether the epoch is over.
 *
 * @return GY_OK: every later manager will read all that was appended; GY_IO nothing may be
 * trusted any more; GY_STATE as gy_journal_check
 */
GY_MUST_CHECK gy_status gy_journal_sync(gy_journal *journal);
/**
 * Look whether the epoch is over; to be done before what only one manager may do.
 *
 * @return GY_OK no newer one had begun; GY_STATE one has, or ours is sealed, with its number;
 * GY_IO it cannot be seen
 * @cost one listing of the folder; nothing without an epoch
 */
GY_MUST_CHECK gy_status gy_journal_check(gy_journal *journal);

/** A check or sync has said GY_STATE. */
bool gy_journal_is_over(const gy_journal *journal);
/** 0: it is a file of its own. */
uint64_t gy_journal_epoch(const gy_journal *journal);
/** Something waits to be flushed; *since_ns: when the first of it was appended. */
bool gy_journal_is_waiting(const gy_journal *journal, int64_t *since_ns);

/** A folder holds the journal of a job that has not ended, in either form. */
bool gy_journal_is_there(gy_env *env, const char *folder);
/** Somebody began to remove a folder's segments, or has: the job has ended, whether or not one
 * is there. Of objects that is not told: false. */
bool gy_journal_is_ending(gy_env *env, const char *folder);
/** The epoch that may go on with a folder's segments; 0: it has none. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_journal_next(gy_env *env, const char *folder, uint64_t *epoch);
/**
 * Remove it, of a job that has ended. Of segments the last seal stays: no manager begins there
 * again. Whoever is interrupted leaves nothing that reads as the journal of a job that has not
 * ended. GY_IO; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_journal_remove(gy_env *env, const char *folder);

#endif
