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

/** One form of a journal: single file, segments or objects. */
typedef struct gy_journal_ops {
    const char *name;
    gy_status (*open)(gy_journal *journal, const gy_journal_options *options);
    gy_status (*write)(gy_journal *journal, const void *data,
                       size_t size_bytes); /* writes all of it */
    gy_status (*sync)(gy_journal *journal);
    /* optional; NULL: no other process writes this journal. */
    gy_status (*check)(gy_journal *journal);
} gy_journal_ops;

extern const gy_journal_ops gy_journal_file, gy_journal_segments, gy_journal_objects;

/** A growing buffer of bytes. */
typedef struct gy_journal_bytes {
    uint8_t *data;
    size_t size_bytes, capacity;
} gy_journal_bytes;

/** A place that serves as a gy_journal_store. */
typedef struct gy_journal_place {
    gy_env *env;
    const char *uri; /* prefix of the objects' names */
} gy_journal_place;

struct gy_journal {
    gy_env *env;
    const gy_journal_ops *ops;
    const char *folder;
    size_t (*measure)(const void *records, size_t size_bytes); /* as in the options */
    uint64_t epoch;
    int file;         /* open for writing; -1: none */
    uint8_t *waiting; /* (room) appended, not yet written */
    size_t waiting_bytes;
    int64_t since_ns; /* when the first waiting byte was appended */
    bool is_named;    /* the folder is synced, so a crash cannot lose the file's name */
    /* for the form of objects */
    gy_journal_place place;
    gy_journal_store store;
    uint64_t number; /* of the next object of our segment */
    gy_journal_bytes unsent;
    bool is_over;
};

/* ---- journal.c ---- */

gy_status gy_journal_fail(const char *what, const char *path, int64_t error);
/** "folder/name". GY_ARG too long */
GY_MUST_CHECK gy_status gy_journal_path(const char *folder, const char *name,
                                        char out[GY_JOURNAL_PATH]);
/** Append the rest of an open file. 0, or a negated errno */
int64_t gy_journal_read_on(gy_env *env, int file, gy_journal_bytes *to);
/** Write all waiting bytes. GY_IO */
GY_MUST_CHECK gy_status gy_journal_write_all(gy_journal *journal, const void *data,
                                             size_t size_bytes);
/** Sync the folder, so that its names survive a crash of the machine. GY_IO */
GY_MUST_CHECK gy_status gy_journal_sync_names(gy_env *env, const char *folder);

/** Add bytes. GY_NOMEM */
GY_MUST_CHECK gy_status gy_journal_add(gy_journal_bytes *to, const void *data,
                                       size_t size_bytes);
/** Pass the records of older epochs to `take`. GY_FORMAT: they are not intact */
GY_MUST_CHECK gy_status gy_journal_take_all(gy_journal *journal,
                                            const gy_journal_options *options,
                                            const gy_journal_bytes *records);
/**
 * Fail with GY_STATE: epoch `next` continues the job, or ours is sealed. `owner` "": unknown.
 */
gy_status gy_journal_fail_over(const gy_journal *journal, uint64_t next, const char *owner);
/** Fail with GY_STATE: the epoch was begun before. */
gy_status gy_journal_fail_claimed(const gy_journal *journal, const char *owner);

/* ---- places.c ---- */

/** Is the folder's name a URI? */
bool gy_journal_is_place(const char *folder);
gy_journal_store gy_journal_store_of(gy_journal_place *place);

/* ---- objects.c ---- */

bool gy_journal_objects_are_there(const gy_journal_store *store);
GY_MUST_CHECK gy_status gy_journal_objects_next(const gy_journal_store *store, uint64_t *epoch);
GY_MUST_CHECK gy_status gy_journal_objects_remove(const gy_journal_store *store,
                                                  const char *folder);

/* ---- names.c: the files in the folder ---- */

/** The files of one epoch. */
typedef struct gy_journal_segment {
    uint64_t epoch;
    bool has_records, has_seal;
} gy_journal_segment;

typedef struct gy_segments {
    gy_journal_segment *items; /* by epoch, ascending */
    size_t count, capacity;
    bool has_file; /* a journal without epochs exists */
} gy_segments;

/** The number that the text is in canonical form; 0: the text is no number. */
uint64_t gy_journal_segment_number(const char *text);
/** Writes "journal.7" or "seal.7". */
void gy_journal_segment_name(char out[32], bool is_seal, uint64_t epoch);
/** List the folder's files; `out` begins zeroed, the caller frees its items. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_segments_list(gy_env *env, const char *folder, gy_segments *out);
/** The highest epoch with a file; 0: there is none. */
uint64_t gy_segments_highest(const gy_segments *segments);
/**
 * A seal without its segment means that the job has ended, since a removal takes the segments
 * first.
 */
bool gy_segments_are_removed(const gy_segments *segments);

/* ---- seal.c: one segment, one seal ---- */

/**
 * Seal a segment if it has no seal, at the end of what can be read now, and append its records
 * up to the seal.
 */
GY_MUST_CHECK gy_status gy_journal_segment_settle(gy_journal *journal,
                                                  const gy_journal_segment *segment,
                                                  gy_journal_bytes *to);
/** Create our own segment, without records. GY_EXISTS */
GY_MUST_CHECK gy_status gy_journal_segment_create(gy_journal *journal, const char *owner);
/** The name of the epoch's owner; "": unknown. */
void gy_journal_segment_owner(gy_journal *journal, uint64_t epoch, char out[GY_JOURNAL_OWNER]);
/** Seal a segment of an ended job, without reading its size. GY_IO */
GY_MUST_CHECK gy_status gy_journal_segment_close(gy_env *env, const char *folder,
                                                 uint64_t epoch);
/** Is the segment sealed because the job has ended and its journal is being removed? */
bool gy_journal_segment_is_closed(gy_env *env, const char *folder, uint64_t epoch);

#endif
