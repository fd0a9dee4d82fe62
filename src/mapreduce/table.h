/**
 * Aggregation by hash: a table from keys to a number or a list each, within a memory budget.
 *
 * Keys are in an arena, their first 16 bytes beside the size. A slot has half of the hash and
 * the record's position. Slots are in the order of hashes (linear probing from the hash's high
 * bits), so that growing and writing in canonical order go through memory sequentially. Lookups
 * proceed in three steps of 16 items: hash and prefetch the slot; read the slot and prefetch
 * the record; compare and combine.
 */
#ifndef GY_MAPREDUCE_TABLE_H
#define GY_MAPREDUCE_TABLE_H

#include "mapreduce/hash.h"

#include <gyre/base.h>

/** A key with its value: bytes, or a number where the table folds numbers. Borrowed. */
typedef struct gy_item {
    const char *key;
    union {
        const char *value;
        int64_t number;
    };
    uint32_t key_size, value_size;
} gy_item;

/** How the values of a key are folded. */
typedef enum gy_mapreduce_fold {
    GY_FOLD_LIST,    /* keeps all values, bytes, in the order of arrival */
    GY_FOLD_NUMBERS, /* keeps all values, numbers */
    /* for numbers that arrive in ascending order for each key: keeps each once */
    GY_FOLD_SET,
    GY_FOLD_SUM, /* adds numbers, modulo 2^64 */
    GY_FOLD_MIN,
    GY_FOLD_MAX,
    GY_FOLD_USER,
} gy_mapreduce_fold;

/** Combines two numbers of a key; must be associative. Left came first. */
typedef int64_t (*gy_join_numbers)(int64_t left, int64_t right);

/** The folds that are lists keep all values; the others keep one number. */
static inline bool gy_mapreduce_fold_is_list(gy_mapreduce_fold fold)
{
    return fold <= GY_FOLD_SET;
}

int64_t gy_mapreduce_fold_numbers(gy_mapreduce_fold fold, gy_join_numbers join, int64_t left,
                                  int64_t right);

/** How far a task is through its input; both 0: unknown. */
typedef struct gy_mapreduce_progress {
    uint64_t done, total; /* in bytes */
} gy_mapreduce_progress;

typedef struct gy_mapreduce_table gy_mapreduce_table;

/** Memory that a table leaves to the next one: touched memory is several times faster than
 * memory that is new to the process. */
typedef struct gy_mapreduce_table_space gy_mapreduce_table_space;

/** Make an empty one. NULL: GY_NOMEM */
GY_MUST_CHECK gy_mapreduce_table_space *gy_mapreduce_table_space_new(void);
void gy_mapreduce_table_space_free(gy_mapreduce_table_space *space);
void gy_mapreduce_table_space_empty(gy_mapreduce_table_space *space);

typedef struct gy_mapreduce_table_options {
    gy_mapreduce_fold fold;
    gy_join_numbers join; /* GY_FOLD_USER */
    size_t memory_bytes;  /* of slots, records and lists; at least GY_TABLE_BYTES_MIN */
    /* number of items after which combining is judged; 0: 4 Mi, before which the table is
     * small and fast */
    size_t sample_items;
    /* read when slots run out, to estimate the number of keys to come; NULL: unknown */
    const gy_mapreduce_progress *progress;
    /* Called when no room is left: must write the rows, then call gy_mapreduce_table_clear. */
    gy_status (*full)(void *arg);
    void *arg;
    gy_mapreduce_table_space
        *space; /* taken, and returned at the end; NULL: memory of its own */
} gy_mapreduce_table_options;

enum { GY_TABLE_BYTES_MIN = 64 << 10 };

/** Make a table. GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_table_new(const gy_mapreduce_table_options *options,
                                               gy_mapreduce_table **table);
void gy_mapreduce_table_free(gy_mapreduce_table *table);

/**
 * Add items; the table copies what it needs.
 *
 * @return GY_OK; GY_LIMIT a key and its value do not fit into the memory; GY_NOMEM; what `full`
 *     returned
 * @cost 15-25 ns an item of text with 15 % distinct keys
 */
GY_MUST_CHECK gy_status gy_mapreduce_table_add(gy_mapreduce_table *table, const gy_item *items,
                                               size_t count);
/** The same for the words of a text that gy_mapreduce_words_find found, each with the number of
 * `like`; NULL: with 1, to be summed. */
GY_MUST_CHECK gy_status gy_mapreduce_table_add_words(gy_mapreduce_table *table,
                                                     const char *text, const uint32_t *edges,
                                                     size_t count, const gy_item *like);

/** Remove all keys, but keep the memory. */
void gy_mapreduce_table_clear(gy_mapreduce_table *table);
/** Number of keys; without combining a key may count more than once. */
size_t gy_mapreduce_table_size(const gy_mapreduce_table *table);
size_t gy_mapreduce_table_bytes(const gy_mapreduce_table *table);
/** Has the table stopped combining? It does when more than a third of the items have a new key,
 * or when keys arrive in the order of their hashes, as from another table. */
bool gy_mapreduce_table_is_passing(const gy_mapreduce_table *table);

/** A row of the visit: a number, or a segment of the list (a key may have several). */
typedef struct gy_row {
    uint64_t hash;
    const char *key;
    size_t key_size;
    int64_t number;
    const char *list; /* encoded, see rows.h */
    size_t list_size;
} gy_row;

/**
 * Call visit(arg, row) for each key, by (hash, key); for lists for each segment, in order.
 * Only gy_mapreduce_table_clear and gy_mapreduce_table_free may follow, also after a failure.
 *
 * @return GY_OK; what `visit` returned; GY_NOMEM
 */
typedef gy_status (*gy_row_visit)(void *arg, const gy_row *row);
GY_MUST_CHECK gy_status gy_mapreduce_table_visit(gy_mapreduce_table *table, gy_row_visit visit,
                                                 void *arg);

#endif
