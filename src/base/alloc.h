/**
 * The heap, counted by tag, and arenas. malloc and free are banned elsewhere.
 */
#ifndef GY_BASE_ALLOC_H
#define GY_BASE_ALLOC_H

#include <gyre/base.h>

/**
 * Allocate `size_bytes` (0 gives a valid pointer), aligned to 64 bytes when at least that
 * large.
 *
 * @param tag static text naming the owner, as "engine.task"
 * @return NULL and a recorded failure when out of memory (or when a test asked for it)
 * @threads any
 */
GY_MUST_CHECK void *gy_alloc(const char *tag, size_t size_bytes);

/** The same, zeroed, for count * size bytes; an overflow of the product is out of memory. */
GY_MUST_CHECK void *gy_alloc_zero(const char *tag, size_t count, size_t size_bytes);

/** Resize; NULL leaves `pointer` as it was. `pointer` may be NULL. */
GY_MUST_CHECK void *gy_resize(const char *tag, void *pointer, size_t size_bytes);

/** Free what the above gave; NULL is fine. */
void gy_free(void *pointer);

/** A copy of `text`; NULL when out of memory. Free with gy_free. */
GY_MUST_CHECK char *gy_copy_text(const char *tag, const char *text);

/**
 * Make room in a growing array: `*items` has room for `*capacity` and shall hold `needed`.
 * GY_NOMEM leaves both untouched.
 */
GY_MUST_CHECK gy_status gy_reserve(const char *tag, void **items, size_t *capacity,
                                   size_t needed, size_t item_bytes);

/** The same for a pointer to any type: GY_GROW("room.rows", rows, row_capacity, row_count + 1).
 */
#define GY_GROW(tag, items, capacity, needed)                                                  \
    gy_grow((tag), &(items), &(capacity), (needed), sizeof(*(items)))
/** `items`: the address of a pointer of whatever type. */
GY_MUST_CHECK gy_status gy_grow(const char *tag, void *items, size_t *capacity, size_t needed,
                                size_t item_bytes);

/**
 * What this process does is held to so many bytes. Of little (up to 64 MiB) the allocator would
 * keep a tenth and more in holes between large blocks, so these (from 128 KiB on) go back to
 * the system when they are freed from now on; each costs its page faults again. @threads any
 */
void gy_alloc_budget(size_t memory_bytes);

/** Tests: make the n-th allocation of this process from now fail (0: none). @threads any */
void gy_alloc_fail_after(int64_t n);

/** Live allocations; for leak checks in tests. */
int64_t gy_alloc_live(void);

/** Tests: bytes of the largest allocation since the last call. @threads any */
size_t gy_base_largest_alloc(void);

/** Memory that is freed all at once. Zero-initialise; not thread-safe. */
typedef struct gy_arena {
    struct gy_arena_block *blocks;
} gy_arena;

/** Zeroed, 16-byte aligned; NULL when out of memory. */
GY_MUST_CHECK void *gy_arena_alloc(gy_arena *arena, size_t size_bytes);
void gy_arena_free(gy_arena *arena);

#endif
