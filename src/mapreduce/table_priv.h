/** What table.c (adding), table_order.c (visiting) and table_memory.c (arena, slots) share. */
#ifndef GY_MAPREDUCE_TABLE_PRIV_H
#define GY_MAPREDUCE_TABLE_PRIV_H

#include "mapreduce/region.h"
#include "mapreduce/rows.h"
#include "mapreduce/table.h"

#include <string.h>

/* A segment of a list. */
typedef struct gy_chunk {
    struct gy_chunk *next;
    uint32_t used, capacity;
    char bytes[];
} gy_chunk;

/* The list of a key: encoded values in segments. */
typedef struct gy_list {
    gy_chunk *first, *last;
    int64_t newest; /* last value of GY_FOLD_SET, if there is a segment */
} gy_list;

typedef struct gy_record_head {
    union {
        int64_t number;
        gy_list *list;
    };
    uint32_t key_size;
    char key[]; /* padded with zeros up to GY_KEY_HEAD */
} gy_record_head;

/* The upper half of a key's hash, above the position of its record in the arena; 0: free. */
typedef uint64_t gy_mapreduce_slot;

enum {
    GY_PLACE_BYTES = 8,     /* unit of positions; no record is at position 0 */
    GY_PROBES_MAX = 512,    /* largest distance of a slot from its hash's place ... */
    GY_SLOTS_BEHIND = 2048, /* ... plus one for each growth, so that no probe wraps around */
};

struct gy_mapreduce_table_space {
    gy_region arena, slots;
    size_t memory_bytes; /* of the table that it was made for */
};

struct gy_mapreduce_table {
    gy_mapreduce_table_options options;
    gy_mapreduce_slot *slots; /* (capacity + GY_SLOTS_BEHIND), at space.slots */
    size_t capacity;          /* at most 2^32 */
    size_t used;
    size_t items;    /* items added since it was empty */
    bool is_passing; /* not combining: slots are a list in the order of arrival */
    gy_mapreduce_table_space space;
    size_t arena_used;
    size_t block_bytes; /* taken from the arena at once */
    uint64_t clears;
};

/** Slots are in the order of hashes. */
static inline size_t gy_mapreduce_slot_index(const gy_mapreduce_table *table, uint64_t hash)
{
    return (hash >> 32) * table->capacity >> 32;
}

static inline gy_mapreduce_slot gy_mapreduce_slot_of(uint64_t hash, uint32_t place)
{
    return (hash >> 32 << 32) | place;
}

static inline gy_record_head *gy_record_at(const gy_mapreduce_table *table,
                                           gy_mapreduce_slot slot)
{
    return (void *)(table->space.arena.at + (size_t)(uint32_t)slot * GY_PLACE_BYTES);
}

static inline uint32_t gy_place_of(const gy_mapreduce_table *table,
                                   const gy_record_head *record)
{
    return (uint32_t)((size_t)((const char *)record - table->space.arena.at) / GY_PLACE_BYTES);
}

static inline uint64_t gy_record_hash(const gy_record_head *record)
{
    gy_key_head head;
    memcpy(&head.low, record->key, sizeof(head.low));
    memcpy(&head.high, record->key + sizeof(head.low), sizeof(head.high));
    return gy_key_hash(record->key, record->key_size, head);
}

/** Reserve addresses for arena and slots, reusing memory that another table left. GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_table_reserve(gy_mapreduce_table *table);
/** Release them. */
void gy_mapreduce_table_unreserve(gy_mapreduce_table *table);
/** Make the first few slots, all free. GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_table_begin_slots(gy_mapreduce_table *table);

/** Commit the arena up to `end` and GY_COPY_SLACK beyond it. GY_AGAIN: not within the budget;
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_table_need(gy_mapreduce_table *table, size_t end);

/** Allocate from the arena, 8-byte aligned; NULL: the budget (`*is_full`) or the memory is used
 * up. */
GY_MUST_CHECK static inline void *gy_mapreduce_table_take(gy_mapreduce_table *table,
                                                          size_t size_bytes, bool *is_full)
{
    const size_t begin = table->arena_used, end = begin + (size_bytes + GY_PLACE_BYTES - 1) /
                                                              GY_PLACE_BYTES * GY_PLACE_BYTES;
    if (end + GY_COPY_SLACK > table->space.arena.bytes) {
        const gy_status status = gy_mapreduce_table_need(table, end);
        if (status != GY_OK) {
            *is_full = status == GY_AGAIN;
            return NULL;
        }
    }
    table->arena_used = end;
    return table->space.arena.at + begin;
}

/** Grow the slots for twice as many keys, or for the estimated number. GY_AGAIN: not within the
 * budget; GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_table_grow(gy_mapreduce_table *table);

/** Make room for one more slot. As gy_mapreduce_table_grow. */
GY_MUST_CHECK static inline gy_status gy_mapreduce_table_room(gy_mapreduce_table *table)
{
    return table->used < (table->is_passing ? table->capacity : table->capacity / 2)
               ? GY_OK
               : gy_mapreduce_table_grow(table);
}

size_t gy_mapreduce_table_slots_bytes(size_t capacity);

/**
 * Copy the taken slots in their order to `to`, which may begin at or before `from`; also
 * writes one slot after them, within the first `count`. Returns how many. Branch-free, because
 * whether a slot is taken cannot be predicted.
 */
static inline size_t gy_slots_squeeze(gy_mapreduce_slot *to, const gy_mapreduce_slot *from,
                                      size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const gy_mapreduce_slot slot = from[i];
        to[kept] = slot;
        kept += slot != 0;
    }
    return kept;
}

/** Append a value to a list. `*is_full` and GY_AGAIN: not within the budget; unchanged. */
GY_MUST_CHECK gy_status gy_list_add(gy_mapreduce_table *table, gy_list *list,
                                    const gy_item *item, bool *is_full);

#endif
