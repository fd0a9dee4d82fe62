/** Inside the memo store: its tables and the records of its index. */
#ifndef GY_FLOW_MEMO_MEMO_PRIV_H
#define GY_FLOW_MEMO_MEMO_PRIV_H

#include "base/index.h"
#include "flow/memo/memo.h"

#define GY_MEMO_MAGIC "gyre memo 1\n"
enum { GY_MEMO_PATH = 4096, GY_MEMO_NAME = 128, GY_MEMO_PAGE = 4096 };

/** Kinds of records. After KEPT come a gy_memo_entry and its report. */
enum { GY_MEMO_KEPT = 1, GY_MEMO_CONTENT, GY_MEMO_USED };

typedef struct gy_memo_record {
    uint32_t body_bytes, kind;
    uint64_t sum; /* gy_hash of the body; its seed is the kind */
} gy_memo_record;

typedef struct gy_memo_content_row {
    gy_memo_file file;
    gy_key content;
} gy_memo_content_row;

typedef struct gy_memo_used {
    gy_key key;
    int64_t used_ns;
} gy_memo_used;

struct gy_memo_store {
    gy_env *env;
    char *folder;
    int lock, index;
    bool is_over_hosts; /* each append locks the index */
    gy_memo_entry *entries;
    size_t entry_count, entry_capacity;
    gy_memo_content_row *contents; /* (by_file.count) */
    size_t content_capacity;
    gy_index by_key, by_file; /* by_file: by the hash of a gy_memo_file */
    gy_arena reports;
    uint64_t bytes;
};

/** "folder/name" */
GY_MUST_CHECK gy_status gy_flow_memo_path(const gy_memo_store *store, const char *name,
                                          char out[GY_MEMO_PATH]);
/** "objects/KEY.EPOCH.ATTEMPT", with ".MEMBER" appended in a cohort */
void gy_flow_memo_object(const gy_memo_entry *entry, uint32_t member, char out[GY_MEMO_NAME]);
gy_memo_entry *gy_memo_entry_of(const gy_memo_store *store, gy_key key);
GY_MUST_CHECK gy_status gy_flow_memo_append(gy_memo_store *store, uint32_t kind,
                                            const void *body, size_t body_bytes,
                                            const void *more, size_t more_bytes);

#endif
