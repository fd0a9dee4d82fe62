/**
 * What the forms of a journal share.
 */
#ifndef GY_PERSIST_JOURNAL_JOURNAL_PRIV_H
#define GY_PERSIST_JOURNAL_JOURNAL_PRIV_H

#include "base/base.h"
#include "base/disk.h"
#include "base/record.h"
#include "persist/journal/journal.h"
#include "persist/journal/plant.h"

enum { GY_JOURNAL_PATH = 4096, GY_JOURNAL_OWNER = 96 };

#define GY_RECORDS "persist/journal/heads.def"
#include "base/record.inc"

/** A form that it can have. */
typedef struct gy_journal_ops {
    const char *name;
    gy_status (*open)(gy_journal *journal, const gy_journal_options *options);
    gy_status (*write)(gy_journal *journal, const void *data,
                       size_t size_bytes); /* all of it */
    gy_status (*sync)(gy_journal *journal);
    gy_status (*check)(gy_journal *journal); /* optional: NULL, nobody else writes there */
} gy_journal_ops;

extern const gy_journal_ops gy_journal_file, gy_journal_segments, gy_journal_objects;

/** Bytes that grow. */
typedef struct gy_journal_bytes {
    uint8_t *data;
    size_t size_bytes, capacity;
} gy_journal_bytes;

/** A place as a store. */
typedef struct gy_journal_place {
    gy_env *env;
    const char *uri; /* that names are added to */
} gy_journal_place;

struct gy_journal {
    gy_env *env;
    const gy_journal_ops *ops;
    const char *folder;
    size_t (*measure)(const void *records, size_t size_bytes); /* as in the options */
    uint64_t epoch;
    int file;         /* that is written; -1: none */
    uint8_t *waiting; /* (room) appended, not written */
    size_t waiting_bytes;
    int64_t since_ns; /* of the first waiting byte */
    bool is_named;    /* the folder is synced, so that the file keeps its name */
    /* objects */
    gy_journal_place place;
    gy_journal_store store;
    uint64_t number; /* of our next one */
    gy_journal_bytes unsent;
    bool is_over;
};

/* ---- journal.c ---- */

gy_status gy_journal_fail(const char *what, const char *path, int64_t error);
/** "folder/name". GY_ARG too long */
GY_MUST_CHECK gy_status gy_journal_path(const char *folder, const char *name,
                                        char out[GY_JOURNAL_PATH]);
/** Append what an open file still holds. 0, or a negated errno */
int64_t gy_journal_read_on(gy_env *env, int file, gy_journal_bytes *to);
/** Write all. GY_IO */
GY_MUST_CHECK gy_status gy_journal_write_all(gy_journal *journal, const void *data,
                                             size_t size_bytes);
/** So that names in the folder are found again after a crash of the machine. GY_IO */
GY_MUST_CHECK gy_status gy_journal_sync_names(gy_env *env, const char *folder);

/** Add bytes. GY_NOMEM */
GY_MUST_CHECK gy_status gy_journal_add(gy_journal_bytes *to, const void *data,
                                       size_t size_bytes);
/** `take` what older epochs wrote, which is whole records. GY_FORMAT it is not */
GY_MUST_CHECK gy_status gy_journal_take_all(gy_journal *journal,
                                            const gy_journal_options *options,
                                            const gy_journal_bytes *records);
/** GY_STATE: that epoch goes on (ours: it is sealed). `owner` "": it does not say. */
gy_status gy_journal_fail_over(const gy_journal *journal, uint64_t next, const char *owner);
/** GY_STATE: the epoch was begun before. */
gy_status gy_journal_fail_claimed(const gy_journal *journal, const char *owner);

/* ---- places.c ---- */

/** A folder's name is that of a place. */
bool gy_journal_is_place(const char *folder);
gy_journal_store gy_journal_store_of(gy_journal_place *place);

/* ---- objects.c ---- */

bool gy_journal_objects_are_there(const gy_journal_store *store);
GY_MUST_CHECK gy_status gy_journal_objects_next(const gy_journal_store *store, uint64_t *epoch);
GY_MUST_CHECK gy_status gy_journal_objects_remove(const gy_journal_store *store,
                                                  const char *folder);

/* ---- names.c: what lies in the folder ---- */

/** One epoch's files. */
typedef struct gy_journal_segment {
    uint64_t epoch;
    bool has_records, has_seal;
} gy_journal_segment;

typedef struct gy_segments {
    gy_journal_segment *items; /* by epoch, rising */
    size_t count, capacity;
    bool has_file; /* a journal without epochs */
} gy_segments;

/** The number that the whole text is, as it would be written; 0: it is none. */
uint64_t gy_journal_segment_number(const char *text);
/** "journal.7", "seal.7" */
void gy_journal_segment_name(char out[32], bool is_seal, uint64_t epoch);
/** What is in the folder now; `out` begins zeroed, its items are freed by the caller. GY_IO;
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_segments_list(gy_env *env, const char *folder, gy_segments *out);
/** The highest epoch that has something; 0: none has. */
uint64_t gy_segments_highest(const gy_segments *segments);
/** A seal whose segment has gone says that the job has ended: segments go first. */
bool gy_segments_are_removed(const gy_segments *segments);

/* ---- seal.c: one segment, one seal ---- */

/** A segment in the folder, as far as it is a manager's: of an epoch with a seal up to that,
 * else as far as it is read now, which is sealed. Its records are appended. */
GY_MUST_CHECK gy_status gy_journal_segment_settle(gy_journal *journal,
                                                  const gy_journal_segment *segment,
                                                  gy_journal_bytes *to);
/** Create our own segment, without records. GY_EXISTS */
GY_MUST_CHECK gy_status gy_journal_segment_create(gy_journal *journal, const char *owner);
/** Who began an epoch; "" it does not say. */
void gy_journal_segment_owner(gy_journal *journal, uint64_t epoch, char out[GY_JOURNAL_OWNER]);
/** Seal what nobody will go on with: its size is not looked at. GY_IO */
GY_MUST_CHECK gy_status gy_journal_segment_close(gy_env *env, const char *folder,
                                                 uint64_t epoch);
/** It has been: the job has ended, and its journal is being removed. */
bool gy_journal_segment_is_closed(gy_env *env, const char *folder, uint64_t epoch);

#endif
