/**
 * Hot keys: a key whose values are too much for one reduce is reduced in shares, where what is
 * written of it is what is written of its shares, or a combiner of bytes was declared.
 *
 * Maps tell their heaviest keys; a growth function sees all sizes and plans shares, each of the
 * key's values in a range of neighbouring maps; a vertex of stage "hot key" reduces a share,
 * and the reduce of the partition takes what those made where the key stands in its order.
 */
#ifndef GY_MAPREDUCE_HOT_HOT_H
#define GY_MAPREDUCE_HOT_HOT_H

#include "mapreduce/task.h"

enum {
    GY_HOT_BYTES = 1 << 20, /* of values: below, sharing is not worth its vertices */
    GY_HEAVY_KEYS = 32,     /* that a map tells, at most */
    GY_HEAVY_KEY_BYTES = 1024,
    GY_HOT_SHARES_MOST = 64,         /* of a key */
    GY_HOT_OUTPUTS_MOST = 256 << 10, /* of all maps: a graph of more stays as it is */
};

/* ---- what a map tells ---- */

typedef struct gy_heavy_key {
    const char *key;
    uint32_t key_size, partition;
    uint64_t bytes; /* of values, as they lie in lists */
} gy_heavy_key;

typedef struct gy_heavy {
    uint64_t floor;       /* more than so many bytes make a key worth keeping */
    uint64_t hash, bytes; /* of the key at hand */
    uint64_t total;
    uint32_t partitions, count;
    gy_heavy_key keys[GY_HEAVY_KEYS];
    char texts[GY_HEAVY_KEYS][GY_HEAVY_KEY_BYTES];
} gy_heavy;

/** @param least bytes that a key must have in all maps together; NULL: out of memory */
GY_MUST_CHECK gy_heavy *gy_heavy_new(uint32_t partitions, size_t least);
void gy_heavy_free(gy_heavy *heavy);
/** What gy_heavy_note does when a key is heavy. */
void gy_heavy_keep(gy_heavy *heavy, const gy_row *row, uint32_t partition);

/** The next row of a table, in canonical order; of lists. @cost an addition or two */
static inline void gy_heavy_note(gy_heavy *heavy, const gy_row *row, uint32_t partition)
{
    heavy->bytes = (heavy->hash == row->hash ? heavy->bytes : 0) + row->list_size;
    heavy->hash = row->hash;
    heavy->total += row->list_size;
    if (heavy->bytes > heavy->floor) {
        gy_heavy_keep(heavy, row, partition);
    }
}

/** Append the keys that may be hot, nothing when there are none. At most GY_SAMPLE_BYTES_MAX.
 */
void gy_heavy_write(const gy_heavy *heavy, gy_text *out);

/* ---- the plan ---- */

typedef struct gy_hot_share {
    uint32_t first, end; /* maps */
} gy_hot_share;

typedef struct gy_hot_key {
    const char *key; /* (key_size) borrowed from what was told */
    uint64_t hash;
    int64_t weight;
    uint32_t key_size, partition;
    uint32_t first_share, share_count; /* count >= 2 */
} gy_hot_key;

/** Keys by (partition, hash, key), which is the order in which they are written. */
typedef struct gy_hot_plan {
    gy_hot_key *keys; /* (key_count) */
    gy_hot_share *shares;
    size_t key_count, share_count;
} gy_hot_plan;

typedef struct gy_hot_told {
    const void *data; /* what a map told; anything else counts as nothing */
    size_t size_bytes;
} gy_hot_told;

/**
 * Which keys are shared: of a partition that has an eighth more than its fair part of all
 * bytes, those that have more than half a fair part. Pure.
 *
 * @param told  (maps)
 * @param bytes (maps, partitions) row-major
 * @param least bytes of a key
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_hot_plan_make(const gy_hot_told *told, const int64_t *bytes,
                                         const uint32_t shape[2], uint64_t least,
                                         gy_hot_plan *plan);
void gy_hot_plan_free(gy_hot_plan *plan);

/* ---- in a vertex's parameter ---- */

/** A key, and how many inputs have shares of it. */
typedef struct gy_hot_entry {
    const char *key; /* borrowed from the parameter */
    uint64_t hash;
    uint32_t key_size, share_count;
} gy_hot_entry;

void gy_hot_write(const gy_hot_entry *entry, gy_text *out);
/** Entry after entry from *at on; GY_AGAIN: none is left; GY_FORMAT */
GY_MUST_CHECK gy_status gy_hot_read(const gy_task_options *options, size_t *at,
                                    gy_hot_entry *entry);

/* ---- graph and vertices ---- */

/** Bytes that a hot key of such a job has at least; 0: none may be shared. */
size_t gy_hot_bytes(const gy_map_reduce_options *options);

/** The reduces of `maps`, and their output `name`, as a growth. Errors are kept in the dag.
 */
void gy_hot_grow(gy_dag *dag, gy_part maps, const gy_task_options *reduce,
                 const gy_map_reduce_options *options, const char *name);

/** A vertex of stage "hot key": a share of a key. */
GY_MUST_CHECK gy_status gy_hot_share_run(gy_vertex *vertex, const gy_task_stage *stage);

/** The hot keys of a reduce, one after the other. */
typedef struct gy_hot_cursor {
    const gy_task_options *options;
    gy_input_of *shares; /* inputs: of the entry at hand, then of those that follow */
    gy_hot_entry entry;
    size_t at;
    bool has_entry;
} gy_hot_cursor;

/** @param shares inputs behind the tables. GY_FORMAT */
GY_MUST_CHECK gy_status gy_hot_begin(gy_hot_cursor *cursor, const gy_task_options *options,
                                     gy_input_of *shares);
static inline bool gy_hot_is_next(const gy_hot_cursor *cursor, const gy_row *row)
{
    return cursor->has_entry && row->hash == cursor->entry.hash &&
           row->key_size == cursor->entry.key_size &&
           memcmp(row->key, cursor->entry.key, row->key_size) == 0;
}
/** GY_FORMAT: a key that no table has. */
GY_MUST_CHECK gy_status gy_hot_end(const gy_hot_cursor *cursor);
/** What its shares made, as the reduce would have written it; then the next entry. */
GY_MUST_CHECK gy_status gy_hot_reduce(gy_hot_cursor *cursor, gy_reducer *reduce);

#endif
