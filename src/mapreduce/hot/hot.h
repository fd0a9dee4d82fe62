/**
 * Hot keys: a key with too many values for one reduce is reduced in shares. This is possible
 * where the output of a key is the concatenation of its shares' outputs, or where a combiner
 * of bytes was declared.
 *
 * Maps report their heaviest keys. A refinement function sees all sizes and plans shares, each
 * with the key's values from a range of neighbouring maps. A vertex of stage "hot key" reduces
 * a share, and the partition's reduce inserts the results where the key belongs in the order.
 */
#ifndef GY_MAPREDUCE_HOT_HOT_H
#define GY_MAPREDUCE_HOT_HOT_H

#include "mapreduce/task.h"

enum {
    GY_HOT_BYTES = 1 << 20, /* bytes of values below which sharing is not worth its vertices */
    GY_HEAVY_KEYS = 32,     /* most keys that a map reports */
    GY_HEAVY_KEY_BYTES = 1024,
    GY_HOT_SHARES_MOST = 64, /* most shares of a key */
    /* most outputs of all maps: a larger graph is not refined */
    GY_HOT_OUTPUTS_MOST = 256 << 10,
};

/* ---- what a map reports ---- */

typedef struct gy_heavy_key {
    const char *key;
    uint32_t key_size, partition;
    uint64_t bytes; /* encoded bytes of its values */
} gy_heavy_key;

typedef struct gy_heavy {
    uint64_t floor;       /* keys with at most so many bytes are not recorded */
    uint64_t hash, bytes; /* of the current key */
    uint64_t total;
    uint32_t partitions, count;
    gy_heavy_key keys[GY_HEAVY_KEYS];
    char texts[GY_HEAVY_KEYS][GY_HEAVY_KEY_BYTES];
} gy_heavy;

/** @param least bytes that a key must have in all maps together; NULL: out of memory */
GY_MUST_CHECK gy_heavy *gy_heavy_new(uint32_t partitions, size_t least);
void gy_heavy_free(gy_heavy *heavy);
/** The part of gy_heavy_note for a heavy key. */
void gy_heavy_keep(gy_heavy *heavy, const gy_row *row, uint32_t partition);

/** Take the next row of a table, in canonical order; for folds that are lists. @cost an
 * addition or two */
static inline void gy_heavy_note(gy_heavy *heavy, const gy_row *row, uint32_t partition)
{
    heavy->bytes = (heavy->hash == row->hash ? heavy->bytes : 0) + row->list_size;
    heavy->hash = row->hash;
    heavy->total += row->list_size;
    if (heavy->bytes > heavy->floor) {
        gy_heavy_keep(heavy, row, partition);
    }
}

/** Append the keys that may be hot; appends nothing when there are none. At most
 * GY_SAMPLE_BYTES_MAX. */
void gy_heavy_write(const gy_heavy *heavy, gy_text *out);

/* ---- the plan ---- */

typedef struct gy_hot_share {
    uint32_t first, end; /* range of maps */
} gy_hot_share;

typedef struct gy_hot_key {
    const char *key; /* (key_size) borrowed from a map's report */
    uint64_t hash;
    int64_t weight;
    uint32_t key_size, partition;
    uint32_t first_share, share_count; /* count >= 2 */
} gy_hot_key;

/** Keys by (partition, hash, key), which is the order of the output. */
typedef struct gy_hot_plan {
    gy_hot_key *keys; /* (key_count) */
    gy_hot_share *shares;
    size_t key_count, share_count;
} gy_hot_plan;

typedef struct gy_hot_told {
    const void *data; /* a map's report; malformed ones count as empty */
    size_t size_bytes;
} gy_hot_told;

/**
 * Choose which keys are shared: in a partition with at least an eighth more than its fair
 * share of all bytes, the keys with more than half a fair share. Pure.
 *
 * @param told  (maps) the maps' reports
 * @param bytes (maps, partitions) row-major
 * @param least bytes of a key
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_hot_plan_make(const gy_hot_told *told, const int64_t *bytes,
                                         const uint32_t shape[2], uint64_t least,
                                         gy_hot_plan *plan);
void gy_hot_plan_free(gy_hot_plan *plan);

/* ---- in a vertex's parameter ---- */

/** A key and the number of inputs with shares of it. */
typedef struct gy_hot_entry {
    const char *key; /* borrowed from the parameter */
    uint64_t hash;
    uint32_t key_size, share_count;
} gy_hot_entry;

void gy_hot_write(const gy_hot_entry *entry, gy_text *out);
/** Decode the entry at *at and advance *at; GY_AGAIN: no more entries; GY_FORMAT */
GY_MUST_CHECK gy_status gy_hot_read(const gy_task_options *options, size_t *at,
                                    gy_hot_entry *entry);

/* ---- graph and vertices ---- */

/** Least bytes of a hot key in such a job; 0: its keys cannot be shared. */
size_t gy_hot_bytes(const gy_map_reduce_options *options);

/** Add the reduces of `maps` and their output `name` as a refinement. The dag records
 * errors. */
void gy_hot_grow(gy_dag *dag, gy_part maps, const gy_task_options *reduce,
                 const gy_map_reduce_options *options, const char *name);

/** Run a vertex of stage "hot key", which reduces a share of a key. */
GY_MUST_CHECK gy_status gy_hot_share_run(gy_vertex *vertex, const gy_task_stage *stage);

/** Iterates over the hot keys of a reduce. */
typedef struct gy_hot_cursor {
    const gy_task_options *options;
    /* inputs with shares: of the current entry, then of the following ones */
    gy_input_of *shares;
    gy_hot_entry entry;
    size_t at;
    bool has_entry;
} gy_hot_cursor;

/** @param shares inputs after the tables. GY_FORMAT */
GY_MUST_CHECK gy_status gy_hot_begin(gy_hot_cursor *cursor, const gy_task_options *options,
                                     gy_input_of *shares);
static inline bool gy_hot_is_next(const gy_hot_cursor *cursor, const gy_row *row)
{
    return cursor->has_entry && row->hash == cursor->entry.hash &&
           row->key_size == cursor->entry.key_size &&
           memcmp(row->key, cursor->entry.key, row->key_size) == 0;
}
/** GY_FORMAT: there is a hot key that no table contains. */
GY_MUST_CHECK gy_status gy_hot_end(const gy_hot_cursor *cursor);
/** Write what the shares produced, as the reduce would have written it; then advance. */
GY_MUST_CHECK gy_status gy_hot_reduce(gy_hot_cursor *cursor, gy_reducer *reduce);

#endif
