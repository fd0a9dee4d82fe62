/**
 * The hash index of all rooms, a table from keys to indices with open addressing, and a heap of
 * indices that knows where each stands. Zero-initialise both.
 */
#ifndef GY_BASE_INDEX_H
#define GY_BASE_INDEX_H

#include "base/key.h"

typedef struct gy_index_cell {
    gy_key key;
    uint32_t value; /* + 1; 0: empty */
} gy_index_cell;

typedef struct gy_index {
    gy_index_cell *cells;
    size_t mask, count;
} gy_index;

/** @return the index of the key; GY_NONE: the table does not have it */
uint32_t gy_index_find(const gy_index *table, gy_key key);
/** Add a key that the table does not have. `value` is not GY_NONE. GY_NOMEM */
GY_MUST_CHECK gy_status gy_index_put(gy_index *table, gy_key key, uint32_t value);
/**
 * Number keys in the order in which they come: *number is that of the key, and a new key has
 * table->count as it was before the call. For tables from which nothing is removed.
 *
 * @return GY_OK; GY_NOMEM, and the table is as before
 */
GY_MUST_CHECK gy_status gy_index_number(gy_index *table, gy_key key, uint32_t *number);
/** A key that the table does not have is fine. */
void gy_index_remove(gy_index *table, gy_key key);
void gy_index_free(gy_index *table);

/** Memory of its cells. */
static inline size_t gy_index_bytes(const gy_index *table)
{
    return table->cells == NULL ? 0 : (table->mask + 1) * sizeof(gy_index_cell);
}

/** Where the search for a key begins. */
static inline size_t gy_index_home(const gy_index *table, gy_key key)
{
    return (key.low ^ (key.low >> 32) ^ key.high) & table->mask;
}

/** The key will be searched soon: begin to read its cell. */
static inline void gy_index_prefetch(const gy_index *table, gy_key key)
{
    if (table->cells != NULL) {
        __builtin_prefetch(&table->cells[gy_index_home(table, key)]);
    }
}

/** The key of a number that is no hash. */
static inline gy_key gy_index_id(uint64_t id)
{
    return (gy_key){id, id * 0x9E3779B97F4A7C15u};
}

typedef struct gy_control_heap {
    uint32_t *items;
    size_t count, capacity;
    const void *arg;
    bool (*is_before)(const void *arg, uint32_t a, uint32_t b);
    uint32_t *places; /* (index) where it stands; GY_NONE: nowhere */
    size_t place_count;
} gy_control_heap;

static inline bool gy_control_heap_has(const gy_control_heap *heap, uint32_t item)
{
    return item < heap->place_count && heap->places[item] != GY_NONE;
}

/** Put it in, or let it find its place anew. GY_NOMEM */
GY_MUST_CHECK gy_status gy_control_heap_put(gy_control_heap *heap, uint32_t item);
void gy_control_heap_remove(gy_control_heap *heap, uint32_t item);
void gy_control_heap_free(gy_control_heap *heap);

#endif
