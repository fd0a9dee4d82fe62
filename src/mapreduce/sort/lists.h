/**
 * Lists of entries in chunks of one block of memory, for a sort whose parts grow at the same
 * time and are freed one by one.
 */
#ifndef GY_MAPREDUCE_SORT_LISTS_H
#define GY_MAPREDUCE_SORT_LISTS_H

#include "mapreduce/sort.h"

enum {
    GY_CHUNK_ENTRIES = 256, /* 4 KiB */
    /* Chunks beyond the limit, 2 MiB: nested parts take chunks before those of the whole list
     * are free. */
    GY_CHUNKS_SPARE = 512,
};
#define GY_CHUNK_NONE UINT32_MAX

typedef struct gy_entry_chunks {
    gy_entry *entries;
    uint32_t *next;
    uint32_t unused, fresh; /* first of the free list; first never used */
    uint32_t used, limit, count;
} gy_entry_chunks;

/** Initialise with gy_entry_list_begin. */
typedef struct gy_entry_list {
    uint32_t first, last;
    uint32_t fill; /* number of entries in the last chunk */
    size_t count;
} gy_entry_list;

/** Allocate chunks for `memory_bytes`, and the spare ones. */
GY_MUST_CHECK gy_status gy_entry_chunks_init(gy_entry_chunks *chunks, size_t memory_bytes);
void gy_entry_chunks_fini(gy_entry_chunks *chunks);

static inline void gy_entry_list_begin(gy_entry_list *list)
{
    *list = (gy_entry_list){GY_CHUNK_NONE, GY_CHUNK_NONE, GY_CHUNK_ENTRIES, 0};
}

/** Append a chunk to the list; false when `most` chunks are in use. */
bool gy_entry_list_grow(gy_entry_chunks *chunks, gy_entry_list *list, uint32_t most);

static inline bool gy_entry_list_add(gy_entry_chunks *chunks, gy_entry_list *list,
                                     gy_entry entry, uint32_t most)
{
    if (list->fill == GY_CHUNK_ENTRIES && !gy_entry_list_grow(chunks, list, most)) {
        return false;
    }
    chunks->entries[(size_t)list->last * GY_CHUNK_ENTRIES + list->fill++] = entry;
    list->count++;
    return true;
}

/** Number of entries in the list's chunk `chunk`. */
static inline uint32_t gy_entry_list_fill(const gy_entry_list *list, uint32_t chunk)
{
    return chunk == list->last ? list->fill : GY_CHUNK_ENTRIES;
}

/** Free the first chunk. */
void gy_entry_list_shift(gy_entry_chunks *chunks, gy_entry_list *list);
/** Free all chunks. */
void gy_entry_list_clear(gy_entry_chunks *chunks, gy_entry_list *list);

#endif
