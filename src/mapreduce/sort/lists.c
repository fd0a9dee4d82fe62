/* Chunks of entries, and the lists made of them. */
#include "mapreduce/sort/lists.h"

#include "base/base.h"

#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

gy_status gy_entry_chunks_init(gy_entry_chunks *chunks, size_t memory_bytes)
{
    const size_t chunk_bytes = GY_CHUNK_ENTRIES * sizeof(gy_entry);
    const size_t limit = GY_MIN(memory_bytes / (chunk_bytes + sizeof(*chunks->next)),
                                UINT32_MAX - 1 - GY_CHUNKS_SPARE);
    const size_t count = limit + GY_CHUNKS_SPARE;
    *chunks = (gy_entry_chunks){
        .unused = GY_CHUNK_NONE, .limit = (uint32_t)limit, .count = (uint32_t)count};
    chunks->entries = gy_alloc("mapreduce.entries", count * chunk_bytes);
    chunks->next = gy_alloc("mapreduce.entries", count * sizeof(*chunks->next));
    if (chunks->entries == NULL || chunks->next == NULL) {
        gy_entry_chunks_fini(chunks);
        return GY_NOMEM;
    }
    const uintptr_t begin = gy_round_up((uintptr_t)chunks->entries, HUGE_PAGE_BYTES);
    const uintptr_t end = (uintptr_t)chunks->entries + limit * chunk_bytes;
    if (begin + HUGE_PAGE_BYTES <= end) { /* without huge pages it is only slower */
        (void)madvise((void *)begin, (end - begin) & ~(size_t)(HUGE_PAGE_BYTES - 1),
                      MADV_HUGEPAGE);
    }
    return GY_OK;
}

void gy_entry_chunks_fini(gy_entry_chunks *chunks)
{
    gy_free(chunks->entries);
    gy_free(chunks->next);
    *chunks = (gy_entry_chunks){0};
}

bool gy_entry_list_grow(gy_entry_chunks *chunks, gy_entry_list *list, uint32_t most)
{
    if (chunks->used >= most) {
        return false;
    }
    uint32_t chunk = chunks->unused;
    if (chunk != GY_CHUNK_NONE) {
        chunks->unused = chunks->next[chunk];
    } else {
        chunk = chunks->fresh++;
    }
    GY_ASSERT(chunk < chunks->count);
    chunks->used++;
    chunks->next[chunk] = GY_CHUNK_NONE;
    if (list->last == GY_CHUNK_NONE) {
        list->first = chunk;
    } else {
        chunks->next[list->last] = chunk;
    }
    list->last = chunk;
    list->fill = 0;
    return true;
}

void gy_entry_list_shift(gy_entry_chunks *chunks, gy_entry_list *list)
{
    const uint32_t chunk = list->first;
    GY_ASSERT(chunk != GY_CHUNK_NONE);
    list->count -= gy_entry_list_fill(list, chunk);
    list->first = chunks->next[chunk];
    if (list->first == GY_CHUNK_NONE) {
        gy_entry_list_begin(list);
    }
    chunks->next[chunk] = chunks->unused;
    chunks->unused = chunk;
    chunks->used--;
}

void gy_entry_list_clear(gy_entry_chunks *chunks, gy_entry_list *list)
{
    while (list->first != GY_CHUNK_NONE) {
        gy_entry_list_shift(chunks, list);
    }
}
