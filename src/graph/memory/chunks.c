/*
 * Memory of several programs. The programs of a session run one after the other, and nothing of
 * a run is read after it but what was copied out: so their buffers may lie in the same memory.
 * Those of one program never overlap. First fit by descending size: a program needs at most
 * what does not fit into the holes of those before it.
 */
#include "graph/graph.h"

#include <stdlib.h>

enum { ALIGN = 64 };

/* A buffer that looks for room. */
typedef struct guest {
    int32_t buffer;
    size_t size_bytes;
} guest;

static int by_size(const void *a, const void *b)
{
    const guest *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) {
        return x->size_bytes > y->size_bytes ? -1 : 1;
    }
    return x->buffer < y->buffer ? -1 : 1;
}

static bool is_shareable(const gy_storage *storage)
{
    return (storage->kind == GY_STORAGE_OWN || storage->kind == GY_STORAGE_SHARED ||
            storage->kind == GY_STORAGE_DEVICE) &&
           !storage->is_kept;
}

static int32_t list_guests(const gy_memory_plan *plan, gy_storage_kind kind, guest *guests)
{
    int32_t count = 0;
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        const gy_storage *storage = &plan->buffers[i];
        if (is_shareable(storage) && storage->kind == kind) {
            GY_ASSERT(storage->chunk == -1); /* nobody has placed it */
            const size_t size_bytes = GY_MAX(storage->size_bytes, 1);
            guests[count++] =
                (guest){.buffer = i, .size_bytes = (size_bytes + ALIGN - 1) / ALIGN * ALIGN};
        }
    }
    qsort(guests, (size_t)count, sizeof(*guests), by_size);
    return count;
}

/* The chunk that has room behind what it has of this program; -1: none. */
static int32_t find_room(const gy_memory_chunks *chunks, const size_t *used,
                         gy_storage_kind kind, size_t size_bytes)
{
    for (size_t i = 0; i < chunks->count; i++) {
        const gy_memory_chunk *chunk = &chunks->list[i];
        GY_ASSERT(used[i] <= chunk->size_bytes);
        if (chunk->kind == kind && chunk->size_bytes - used[i] >= size_bytes) {
            return (int32_t)i;
        }
    }
    return -1;
}

/* An index that no chunk has. */
static int32_t new_chunk(gy_memory_chunks *chunks, gy_storage_kind kind)
{
    size_t at = 0;
    while (at < chunks->count && chunks->list[at].size_bytes > 0) {
        at++;
    }
    GY_ASSERT(at < chunks->capacity);
    GY_ASSERT(at == chunks->count || chunks->list[at].users == 0);
    chunks->count = GY_MAX(chunks->count, at + 1);
    chunks->list[at] = (gy_memory_chunk){.kind = kind};
    return (int32_t)at;
}

/* Into the chunks that there are; what is left over into a new one, which is as large as that.
 */
static void place(gy_memory_chunks *chunks, gy_memory_plan *plan, gy_storage_kind kind,
                  guest *guests, size_t *used)
{
    const int32_t count = list_guests(plan, kind, guests);
    int32_t left = 0;
    GY_ASSERT(count <= plan->buffer_count);
    for (int32_t i = 0; i < count; i++) {
        gy_storage *storage = &plan->buffers[guests[i].buffer];
        storage->chunk = find_room(chunks, used, kind, guests[i].size_bytes);
        if (storage->chunk < 0) {
            guests[left++] = guests[i];
            continue;
        }
        storage->offset = used[storage->chunk];
        used[storage->chunk] += guests[i].size_bytes;
    }
    if (left == 0) {
        return;
    }
    const int32_t made = new_chunk(chunks, kind);
    GY_ASSERT(chunks->list[made].users == 0);
    used[made] = 0;
    for (int32_t i = 0; i < left; i++) {
        gy_storage *storage = &plan->buffers[guests[i].buffer];
        storage->chunk = made;
        storage->offset = used[made];
        used[made] += guests[i].size_bytes;
    }
    chunks->list[made].size_bytes = used[made];
}

gy_status gy_memory_share(gy_memory_chunks *chunks, gy_memory_plan *plan)
{
    GY_ASSERT(chunks != NULL && plan->buffer_count >= 0);
    if (plan->is_plain) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("graph.chunks", chunks->list, chunks->capacity, chunks->count + 3));
    guest *guests =
        gy_alloc("graph.chunks", ((size_t)plan->buffer_count + 1) * sizeof(*guests));
    size_t *used = gy_alloc_zero("graph.chunks", chunks->count + 3, sizeof(*used));
    const bool is_there = guests != NULL && used != NULL;
    if (is_there) {
        place(chunks, plan, GY_STORAGE_OWN, guests, used);
        place(chunks, plan, GY_STORAGE_SHARED, guests, used);
        place(chunks, plan, GY_STORAGE_DEVICE, guests, used);
        for (size_t i = 0; i < chunks->count; i++) {
            chunks->list[i].users += used[i] > 0 ? 1 : 0;
        }
    }
    gy_free(guests);
    gy_free(used);
    return is_there ? GY_OK : GY_NOMEM;
}

gy_status gy_memory_share_with(gy_memory_chunks *chunks, const gy_memory_plan *placed,
                               gy_memory_plan *plan)
{
    GY_ASSERT(placed->buffer_count == plan->buffer_count);
    bool *is_used = gy_alloc_zero("graph.chunks", chunks->count + 1, sizeof(*is_used));
    if (is_used == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        const int32_t chunk = placed->buffers[i].chunk;
        GY_ASSERT(chunk < (int32_t)chunks->count);
        plan->buffers[i].chunk = chunk;
        plan->buffers[i].offset = placed->buffers[i].offset;
        if (chunk >= 0 && !is_used[chunk]) {
            is_used[chunk] = true;
            chunks->list[chunk].users++;
        }
    }
    gy_free(is_used);
    return GY_OK;
}

void gy_memory_unshare(gy_memory_chunks *chunks, const gy_memory_plan *plan)
{
    for (size_t i = 0; i < chunks->count; i++) {
        bool is_used = false;
        for (int32_t k = 0; k < plan->buffer_count && !is_used; k++) {
            is_used = plan->buffers[k].chunk == (int32_t)i;
        }
        GY_ASSERT(!is_used || chunks->list[i].users > 0);
        chunks->list[i].users -= is_used ? 1 : 0;
    }
}
