/**
 * The memo store: results kept by key across jobs.
 *
 *     DIR/lock             shared by jobs, exclusive for gy_flow_collect
 *     DIR/index            a journal: what is there, which content a file had, what was used
 *     DIR/objects/NAME     "KEY.EPOCH.ATTEMPT[.MEMBER]", links to what a job's processes wrote
 *
 * Links are not synced: what a crash leaves torn fails its checksums and is made again. A copy,
 * where links cannot be, has its name once it is whole.
 */
#ifndef GY_FLOW_MEMO_MEMO_H
#define GY_FLOW_MEMO_MEMO_H

#include "sched/manager.h"

typedef struct gy_memo_store gy_memo_store;

/** A file, or part of it, as stat knows it. */
typedef struct gy_memo_file {
    uint64_t device, inode, file_bytes;
    int64_t modified_ns, changed_ns;
    uint64_t offset, size_bytes;
} gy_memo_file;

/** Open and lock, making what is not there. GY_IO; GY_FORMAT no memo folder; GY_STATE it is
 * being collected; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flow_memo_open(gy_env *env, const char *folder,
                                          gy_memo_store **store);
/** Managers on several hosts write to it, of which none knows where its end is. */
void gy_flow_memo_share(gy_memo_store *store, bool is_over_hosts);
/** NULL is fine. */
void gy_flow_memo_close(gy_memo_store *store);

/** Tell the manager what is there, but for what lost its files. */
GY_MUST_CHECK gy_status gy_flow_memo_remember(gy_memo_store *store, gy_manager *manager);

/** A kept result. */
typedef struct gy_memo_entry {
    gy_key key, content;
    uint32_t epoch, attempt;
    uint16_t width;
    bool is_gone;    /* a file of it is not there */
    uint64_t files;  /* bit m: member m has one */
    int64_t used_ns; /* wall clock */
    uint64_t bytes;  /* of its files, in whole pages, as they take on a disk */
    const void *report;
    size_t report_bytes;
} gy_memo_entry;

/** What is kept under the key; NULL: nothing. */
const gy_memo_entry *gy_flow_memo_find(const gy_memo_store *store, gy_key key);
enum { GY_MEMO_WIDTH_MAX = 64 };

/** Where files of a job's attempt lie. */
typedef struct gy_memo_place {
    gy_attempt id;
    uint32_t round;     /* gy_flow_name_file's */
    const char *data;   /* folder of intermediates */
    const char *hidden; /* folder of final outputs before they have their names */
    uint64_t finals;    /* bit m: the one output of member m is final */
    gy_key contents[GY_MEMO_WIDTH_MAX]; /* of those members; for gy_flow_memo_lend */
} gy_memo_place;

/**
 * Make the result's files those of the place, and note the use. Intermediates are linked: who
 * reads them verifies them. A final output is copied, as its user may change it, and looked at
 * meanwhile.
 *
 * @return GY_OK; GY_FORMAT a final output was changed since it was kept: it is no more; GY_IO;
 * GY_NOTFOUND; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_flow_memo_lend(gy_memo_store *store, const gy_memo_entry *entry,
                                          const gy_memo_place *place);
/** Keep a result of up to GY_MEMO_WIDTH_MAX members, whose files (if there are any) lie in the
 * place; entry->report is copied. */
GY_MUST_CHECK gy_status gy_flow_memo_keep(gy_memo_store *store, const gy_memo_entry *entry,
                                          const gy_memo_place *place);

/** The content that a file had when it was read last, if it is still the same by its stat. */
bool gy_flow_memo_content(const gy_memo_store *store, const gy_memo_file *file,
                          gy_key *content);
GY_MUST_CHECK gy_status gy_flow_memo_tell_content(gy_memo_store *store,
                                                  const gy_memo_file *file, gy_key content);

/** Bytes of all files. */
uint64_t gy_flow_memo_bytes(const gy_memo_store *store);

#endif
