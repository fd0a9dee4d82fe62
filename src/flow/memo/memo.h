/**
 * The memo store: results cached by key across jobs.
 *
 *     DIR/lock             shared by jobs, exclusive for gy_flow_collect
 *     DIR/index            a journal: entries, contents of files, and uses
 *     DIR/objects/NAME     "KEY.EPOCH.ATTEMPT[.MEMBER]", links to files that a job's processes
 *                          wrote
 *
 * Links are not synced: a file torn by a crash fails its checksums, and its task runs again.
 * Where links are impossible, a copy gets its name only when it is complete.
 */
#ifndef GY_FLOW_MEMO_MEMO_H
#define GY_FLOW_MEMO_MEMO_H

#include "sched/manager.h"

typedef struct gy_memo_store gy_memo_store;

/** A file, or a range of it, as identified by stat. */
typedef struct gy_memo_file {
    uint64_t device, inode, file_bytes;
    int64_t modified_ns, changed_ns;
    uint64_t offset, size_bytes;
} gy_memo_file;

/** Open and lock the store, creating missing files. GY_IO; GY_FORMAT not a memo folder;
 * GY_STATE another process is collecting it; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_memo_open(gy_env *env, const char *folder,
                                          gy_memo_store **store);
/** Lock each append, because managers on several hosts write to the index. */
void gy_flow_memo_share(gy_memo_store *store, bool is_over_hosts);
/** Close the store. NULL is fine. */
void gy_flow_memo_close(gy_memo_store *store);

/** Tell the manager which results are in the store, except those whose files are missing. */
GY_MUST_CHECK gy_status gy_flow_memo_remember(gy_memo_store *store, gy_manager *manager);

/** A cached result. */
typedef struct gy_memo_entry {
    gy_key key, content;
    uint32_t epoch, attempt;
    uint16_t width;
    bool is_gone;    /* one of its files is missing */
    uint64_t files;  /* bit m: member m has a file */
    int64_t used_ns; /* time of the last use, wall clock */
    uint64_t bytes;  /* size of its files on disk, in whole pages */
    const void *report;
    size_t report_bytes;
} gy_memo_entry;

/** Find the entry of a key; NULL: there is none. */
const gy_memo_entry *gy_flow_memo_find(const gy_memo_store *store, gy_key key);
enum { GY_MEMO_WIDTH_MAX = 64 };

/** Where the files of an attempt of a job are. */
typedef struct gy_memo_place {
    gy_attempt id;
    uint32_t round;     /* the round for gy_flow_name_file */
    const char *data;   /* folder of intermediates */
    const char *hidden; /* folder of final outputs before publication */
    uint64_t finals;    /* bit m: the only output of member m is final */
    /* contents of those members' outputs; for gy_flow_memo_lend */
    gy_key contents[GY_MEMO_WIDTH_MAX];
} gy_memo_place;

/**
 * Put the result's files into the place, and record the use. Intermediate files are linked,
 * since their readers verify them. A final output is copied and verified, as its user may have
 * changed it.
 *
 * @return GY_OK; GY_FORMAT a final output has changed since, so the entry is gone; GY_IO;
 *     GY_NOTFOUND; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_flow_memo_lend(gy_memo_store *store, const gy_memo_entry *entry,
                                          const gy_memo_place *place);
/** Store a result of up to GY_MEMO_WIDTH_MAX members, whose files (if any) are in the place;
 * entry->report is copied. */
GY_MUST_CHECK gy_status gy_flow_memo_keep(gy_memo_store *store, const gy_memo_entry *entry,
                                          const gy_memo_place *place);

/** Find the content that a file had when it was last read, if its stat data are unchanged. */
bool gy_flow_memo_content(const gy_memo_store *store, const gy_memo_file *file,
                          gy_key *content);
GY_MUST_CHECK gy_status gy_flow_memo_tell_content(gy_memo_store *store,
                                                  const gy_memo_file *file, gy_key content);

/** Total bytes of all files. */
uint64_t gy_flow_memo_bytes(const gy_memo_store *store);

#endif
