/**
 * Aggregation by hash: a table of keys with a number or a list each, under a budget.
 *
 * Keys lie in an arena, 16 bytes of them beside the size; slots hold half the hash and the
 * place, in the order of hashes (linear probing from the hash's high bits), so that growing and
 * writing in canonical order walk through memory. Lookups go in three waves of 16: hash and
 * prefetch the slot; look at the slot and prefetch the record; compare and combine.
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

/** What becomes of the values of a key. */
typedef enum gy_mapreduce_fold {
    GY_FOLD_LIST,    /* all are kept, bytes, in the order of arrival */
    GY_FOLD_NUMBERS, /* all are kept, numbers */
    GY_FOLD_SET,     /* of numbers that arrive in ascending order for each key: each once */
    GY_FOLD_SUM,     /* of numbers, modulo 2^64 */
    GY_FOLD_MIN,
    GY_FOLD_MAX,
    GY_FOLD_USER,
} gy_mapreduce_fold;

/** Joins two numbers of a key; must be associative. Left came first. */
typedef int64_t (*gy_join_numbers)(int64_t left, int64_t right);

/** A list's fold keeps bytes, the others one number. */
static inline bool gy_mapreduce_fold_is_list(gy_mapreduce_fold fold)
{
    return fold <= GY_FOLD_SET;
}

int64_t gy_mapreduce_fold_numbers(gy_mapreduce_fold fold, gy_join_numbers join, int64_t left,
                                  int64_t right);

/** How far a task is through its input; both 0: unknown. */
typedef struct gy_mapreduce_progress {
    uint64_t done, total; /* bytes */
} gy_mapreduce_progress;

typedef struct gy_mapreduce_table gy_mapreduce_table;

/** What a table leaves to the next one: memory that has been used, which is several times
 * faster than memory new to a process. */
typedef struct gy_mapreduce_table_space gy_mapreduce_table_space;

/** Empty. NULL: GY_NOMEM */
GY_MUST_CHECK gy_mapreduce_table_space *gy_mapreduce_table_space_new(void);
void gy_mapreduce_table_space_free(gy_mapreduce_table_space *space);
void gy_mapreduce_table_space_empty(gy_mapreduce_table_space *space);

typedef struct gy_mapreduce_table_options {
    gy_mapreduce_fold fold;
    gy_join_numbers join; /* GY_FOLD_USER */
    size_t memory_bytes;  /* of slots, records and lists; at least GY_TABLE_BYTES_MIN */
    size_t sample_items;  /* combining is judged after so many; 0: 4 Mi, before which the table
                             is small and fast */
    const gy_mapreduce_progress *progress; /* looked at when slots are short, to foresee how
                                    many keys will come; NULL: unknown */
    /* No room is left: write what is there, then gy_mapreduce_table_clear. */
    gy_status (*full)(void *arg);
    void *arg;
    gy_mapreduce_table_space
        *space; /* is taken, and given back at the end; NULL: memory of its own */
} gy_mapreduce_table_options;

enum { GY_TABLE_BYTES_MIN = 64 << 10 };

/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_table_new(const gy_mapreduce_table_options *options,
                                               gy_mapreduce_table **table);
void gy_mapreduce_table_free(gy_mapreduce_table *table);

/**
 * Take items; nothing of them is borrowed afterwards.
 *
 * @return GY_OK; GY_LIMIT a key and its value do not fit into the memory;
 * GY_NOMEM; what `full` returned
 * @cost 15-25 ns an item of text with 15 % distinct keys
 */
GY_MUST_CHECK gy_status gy_mapreduce_table_add(gy_mapreduce_table *table, const gy_item *items,
                                               size_t count);
/** The same for the words of a text, as gy_mapreduce_words_find gave them, each with the number
 * of `like`; NULL: with 1, to be summed. */
GY_MUST_CHECK gy_status gy_mapreduce_table_add_words(gy_mapreduce_table *table,
                                                     const char *text, const uint32_t *edges,
                                                     size_t count, const gy_item *like);

/** Empty it, keep its memory. */
void gy_mapreduce_table_clear(gy_mapreduce_table *table);
/** Keys in it; when combining was given up a key may be there more than once. */
size_t gy_mapreduce_table_size(const gy_mapreduce_table *table);
size_t gy_mapreduce_table_bytes(const gy_mapreduce_table *table);
/** Combining was given up: more than a third of the items brought a new key, or keys came in
 * the order of their hashes, as from another table. */
bool gy_mapreduce_table_is_passing(const gy_mapreduce_table *table);

/** A row as it is visited in order: a number, or a piece of the list (of one key several). */
typedef struct gy_row {
    uint64_t hash;
    const char *key;
    size_t key_size;
    int64_t number;
    const char *list; /* encoded, see rows.h */
    size_t list_size;
} gy_row;

/**
 * Call visit(arg, row) for each key, by (hash, key); of lists for each piece, in order. Only
 * gy_mapreduce_table_clear and gy_mapreduce_table_free may follow, also after a failure.
 *
 * @return GY_OK; what `visit` returned; GY_NOMEM
 */
typedef gy_status (*gy_row_visit)(void *arg, const gy_row *row);
GY_MUST_CHECK gy_status gy_mapreduce_table_visit(gy_mapreduce_table *table, gy_row_visit visit,
                                                 void *arg);

#endif
