#include "base/alloc.h"

#include "base/fail.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNED_FROM_BYTES = 64,
    ARENA_BLOCK_BYTES = 16384,
    LITTLE_BYTES = 64 << 20,
    MAPPED_FROM_BYTES = 128 << 10
};

static _Atomic int64_t live_count;
static _Atomic int64_t fail_countdown;
static _Atomic size_t largest;

/* True when a test asked for this allocation to fail. */
static bool must_fail(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0) {
        return false;
    }
    return atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) == 1;
}

void gy_alloc_budget(size_t memory_bytes)
{
    static _Atomic bool is_set;
    if (memory_bytes <= LITTLE_BYTES &&
        !atomic_exchange_explicit(&is_set, true, memory_order_relaxed)) {
        (void)mallopt(M_MMAP_THRESHOLD,
                      MAPPED_FROM_BYTES); /* else it grows with what is freed */
    }
}

void gy_alloc_fail_after(int64_t n)
{
    atomic_store_explicit(&fail_countdown, n, memory_order_relaxed);
}

int64_t gy_alloc_live(void)
{
    return atomic_load_explicit(&live_count, memory_order_relaxed);
}

size_t gy_base_largest_alloc(void)
{
    return atomic_exchange_explicit(&largest, 0, memory_order_relaxed);
}

static void note_size(size_t size_bytes)
{
    size_t known = atomic_load_explicit(&largest, memory_order_relaxed);
    while (size_bytes > known &&
           !atomic_compare_exchange_weak_explicit(&largest, &known, size_bytes,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void *gy_alloc(const char *tag, size_t size_bytes)
{
    void *pointer = NULL;
    if (!must_fail()) {
        if (size_bytes >= ALIGNED_FROM_BYTES) {
            if (posix_memalign(&pointer, ALIGNED_FROM_BYTES, size_bytes) != 0) {
                pointer = NULL;
            }
        } else {
            pointer = malloc(size_bytes == 0 ? 1 : size_bytes);
        }
    }
    if (pointer == NULL) {
        (void)gy_fail(GY_NOMEM, "out of memory: %zu bytes for %s", size_bytes, tag);
        return NULL;
    }
    atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    note_size(size_bytes);
    return pointer;
}

void *gy_alloc_zero(const char *tag, size_t count, size_t size_bytes)
{
    size_t total = 0;
    if (__builtin_mul_overflow(count, size_bytes, &total)) {
        (void)gy_fail(GY_NOMEM, "out of memory: %zu times %zu bytes for %s", count, size_bytes,
                      tag);
        return NULL;
    }
    void *pointer = gy_alloc(tag, total);
    if (pointer != NULL) {
        memset(pointer, 0, total);
    }
    return pointer;
}

void *gy_resize(const char *tag, void *pointer, size_t size_bytes)
{
    if (pointer == NULL) {
        return gy_alloc(tag, size_bytes);
    }
    void *larger = gy_alloc(tag, size_bytes);
    if (larger == NULL) {
        return NULL;
    }
    size_t old_bytes = malloc_usable_size(pointer);
    memcpy(larger, pointer, old_bytes < size_bytes ? old_bytes : size_bytes);
    gy_free(pointer);
    return larger;
}

void gy_free(void *pointer)
{
    if (pointer != NULL) {
        atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
        free(pointer);
    }
}

char *gy_copy_text(const char *tag, const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    char *copy = gy_alloc(tag, size_bytes);
    if (copy != NULL) {
        memcpy(copy, text, size_bytes);
    }
    return copy;
}

gy_status gy_reserve(const char *tag, void **items, size_t *capacity, size_t needed,
                     size_t item_bytes)
{
    if (needed <= *capacity) {
        return GY_OK;
    }
    size_t wanted = *capacity < 8 ? 8 : *capacity * 2;
    if (wanted < needed) {
        wanted = needed;
    }
    size_t total = 0;
    if (__builtin_mul_overflow(wanted, item_bytes, &total)) {
        return gy_fail(GY_NOMEM, "out of memory: %zu items of %zu bytes for %s", wanted,
                       item_bytes, tag);
    }
    void *larger = gy_resize(tag, *items, total);
    if (larger == NULL) {
        return GY_NOMEM;
    }
    *items = larger;
    *capacity = wanted;
    return GY_OK;
}

gy_status gy_grow(const char *tag, void *items, size_t *capacity, size_t needed,
                  size_t item_bytes)
{
    if (needed <= *capacity) {
        return GY_OK;
    }
    void *place = NULL;
    memcpy(&place, items, sizeof(place));
    const gy_status status = gy_reserve(tag, &place, capacity, needed, item_bytes);
    memcpy(items, &place, sizeof(place));
    return status;
}

struct gy_arena_block {
    struct gy_arena_block *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

void *gy_arena_alloc(gy_arena *arena, size_t size_bytes)
{
    size_t rounded = (size_bytes + 15) & ~(size_t)15;
    struct gy_arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < rounded) {
        size_t size = rounded > ARENA_BLOCK_BYTES ? rounded : ARENA_BLOCK_BYTES;
        block = gy_alloc("base.arena", sizeof(*block) + size);
        if (block == NULL) {
            return NULL;
        }
        block->next = arena->blocks;
        block->used = 0;
        block->size = size;
        arena->blocks = block;
    }
    void *pointer = block->data + block->used;
    block->used += rounded;
    memset(pointer, 0, size_bytes);
    return pointer;
}

void gy_arena_free(gy_arena *arena)
{
    while (arena->blocks != NULL) {
        struct gy_arena_block *next = arena->blocks->next;
        gy_free(arena->blocks);
        arena->blocks = next;
    }
}
