/**
 * What table.c (adding), table_order.c (visiting) and table_memory.c (arena, slots) share.
 */
#ifndef GY_MAPREDUCE_TABLE_PRIV_H
#define GY_MAPREDUCE_TABLE_PRIV_H

#include "mapreduce/table.h"

/* A piece of a list. */
typedef struct gy_chunk {
    struct gy_chunk *next;
    uint32_t used, capacity;
    char bytes[];
} gy_chunk;

/* The list of a key: encoded values in pieces. */
typedef struct gy_list {
    gy_chunk *first, *last;
    int64_t newest; /* of GY_FOLD_SET, once there is a piece */
} gy_list;

typedef struct gy_record_head {
    union {
        int64_t number;
        gy_list *list;
    };
    uint32_t key_size;
    char key[]; /* zeros behind it up to GY_KEY_HEAD */
} gy_record_head;

typedef struct gy_slot {
    uint64_t hash;
    gy_record_head *record; /* NULL: free */
} gy_slot;

typedef struct gy_block {
    struct gy_block *next;
    size_t size_bytes; /* with this head */
} gy_block;

struct gy_table {
    gy_table_options options;
    gy_slot *slots;
    size_t capacity; /* of slots, a power of two */
    int shift;       /* slot = hash >> shift */
    size_t used;
    size_t items;    /* since it was empty */
    bool is_passing; /* slots are a list in the order of arrival */
    char *at, *end;  /* what is left of the block in use */
    gy_block *blocks, *spare;
    size_t block_bytes, arena_bytes; /* of blocks in use and spare */
    uint64_t clears;
};

/** Memory for much data: huge pages where that pays. NULL and a recorded failure. */
GY_MUST_CHECK void *gy_space_new(size_t size_bytes);
void gy_space_free(void *space, size_t size_bytes);

/** 8-byte aligned; NULL: the budget (`*is_full`) or the memory is spent. */
GY_MUST_CHECK void *gy_table_take(gy_table *table, size_t size_bytes, bool *is_full);
/** Room for one slot more. GY_AGAIN: not within the budget; GY_NOMEM */
GY_MUST_CHECK gy_status gy_table_grow(gy_table *table);
size_t gy_table_slots_bytes(size_t capacity);

/**
 * Copy the slots that are taken, in their order, to `to`, which may begin at or before `from`;
 * one slot behind them is written too, within the first `count`. How many. Without a branch:
 * whether a slot is taken cannot be guessed.
 */
static inline size_t gy_slots_squeeze(gy_slot *to, const gy_slot *from, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const gy_slot slot = from[i];
        to[kept] = slot;
        kept += slot.record != NULL;
    }
    return kept;
}

/** Append a value to a list. `*is_full` and GY_AGAIN: not within the budget, unchanged. */
GY_MUST_CHECK gy_status gy_list_add(gy_table *table, gy_list *list, const gy_item *item,
                                    bool *is_full);

#endif
