/*
 * Pools: the heap, or a given memory range that the pool divides into blocks.
 *
 * A range pool keeps its metadata outside the range: a table of blocks in address order, each
 * free or taken, that cover the range exactly. No two neighbouring blocks are both free. Every
 * byte of the range is payload, other processes may map the range without the table, and the
 * pool detects a double free. Allocation is first fit (O(blocks)); a free finds its block by
 * bisection.
 */
#include "tensor/tensor.h"

#include "base/base.h"

#include <string.h>

enum { POOL_ALIGN = 64, POOL_LOCK_RANK = 10 };

typedef struct piece {
    size_t offset, size_bytes;
    bool is_taken;
} piece;

struct gy_pool {
    unsigned char *memory; /* NULL: the heap */
    size_t size_bytes;
    gy_mutex lock;
    piece *pieces GY_GUARDED(lock);
    size_t piece_count GY_GUARDED(lock), piece_capacity GY_GUARDED(lock);
    size_t used_bytes GY_GUARDED(lock), taken_count GY_GUARDED(lock);
};

gy_pool *gy_pool_heap(void)
{
    static gy_pool heap; /* never written: only its address identifies it */
    return &heap;
}

gy_status gy_pool_new(void *memory, size_t size_bytes, gy_pool **pool)
{
    GY_ASSERT(pool != NULL);
    const size_t start = gy_round_up((uintptr_t)memory, POOL_ALIGN) - (uintptr_t)memory;
    if (memory == NULL || size_bytes < start + POOL_ALIGN) {
        return gy_fail(GY_ARG, "%zu bytes at %p for a pool, expected at least %zu", size_bytes,
                       memory, start + POOL_ALIGN);
    }
    gy_pool *made = gy_alloc_zero("tensor.pool", 1, sizeof(*made));
    void *pieces = NULL;
    if (made == NULL || gy_reserve("tensor.pool.pieces", &pieces, &made->piece_capacity, 64,
                                   sizeof(piece)) != GY_OK) {
        gy_free(made);
        return GY_NOMEM;
    }
    made->pieces = pieces;
    made->memory = (unsigned char *)memory + start;
    made->size_bytes = (size_bytes - start) & ~(size_t)(POOL_ALIGN - 1);
    made->pieces[0] = (piece){.offset = 0, .size_bytes = made->size_bytes};
    made->piece_count = 1;
    gy_mutex_init(&made->lock, POOL_LOCK_RANK);
    *pool = made;
    return GY_OK;
}

void gy_pool_free(gy_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    GY_ASSERT(pool->memory != NULL); /* the heap is never freed */
    GY_ASSERT(pool->taken_count == 0);
    GY_ASSERT(pool->piece_count == 1);
    gy_mutex_fini(&pool->lock);
    gy_free(pool->pieces);
    gy_free(pool);
}

/* The first free block that is large enough, or piece_count. `largest` takes the largest free
 * size. */
static size_t first_fit(const gy_pool *pool, size_t wanted, size_t *largest)
    GY_REQUIRES(pool->lock)
{
    *largest = 0;
    size_t at = 0;
    for (; at < pool->piece_count; at++) {
        if (!pool->pieces[at].is_taken) {
            if (pool->pieces[at].size_bytes >= wanted) {
                break;
            }
            *largest = GY_MAX(*largest, pool->pieces[at].size_bytes);
        }
    }
    return at;
}

/* Split `wanted` bytes off the front of free block `at`. */
static gy_status take_piece(gy_pool *pool, size_t at, size_t wanted) GY_REQUIRES(pool->lock)
{
    const size_t rest = pool->pieces[at].size_bytes - wanted;
    if (rest > 0) {
        GY_TRY(GY_GROW("tensor.pool.pieces", pool->pieces, pool->piece_capacity,
                       pool->piece_count + 1));
        piece *here = &pool->pieces[at];
        memmove(here + 2, here + 1, (pool->piece_count - at - 1) * sizeof(piece));
        pool->piece_count++;
        here[1] = (piece){.offset = here->offset + wanted, .size_bytes = rest};
        here->size_bytes = wanted;
    }
    pool->pieces[at].is_taken = true;
    pool->taken_count++;
    pool->used_bytes += wanted;
    return GY_OK;
}

void *gy_pool_take(gy_pool *pool, size_t size_bytes)
{
    GY_ASSERT(pool != NULL);
    if (size_bytes > SIZE_MAX - POOL_ALIGN) {
        (void)gy_fail(GY_NOMEM, "out of memory: %zu bytes from a pool", size_bytes);
        return NULL;
    }
    const size_t wanted = gy_round_up(GY_MAX(size_bytes, (size_t)1), POOL_ALIGN);
    if (pool->memory == NULL) {
        return gy_alloc("tensor.heap", wanted);
    }
    void *memory = NULL;
    size_t largest = 0;
    gy_mutex_lock(&pool->lock);
    const size_t at = first_fit(pool, wanted, &largest);
    const bool is_full = at == pool->piece_count;
    if (!is_full && take_piece(pool, at, wanted) == GY_OK) {
        memory = pool->memory + pool->pieces[at].offset;
    }
    const size_t used = pool->used_bytes;
    gy_mutex_unlock(&pool->lock);
    if (is_full) {
        (void)gy_fail(
            GY_NOMEM,
            "pool exhausted: requested %zu bytes, largest free block %zu, %zu of %zu in use",
            wanted, largest, used, pool->size_bytes);
    }
    return memory;
}

/* The block that starts at `offset`, or piece_count. */
static size_t find_piece(const gy_pool *pool, size_t offset) GY_REQUIRES(pool->lock)
{
    GY_ASSERT(offset < pool->size_bytes);
    size_t low = 0, high = pool->piece_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pool->pieces[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < pool->piece_count && pool->pieces[low].offset == offset ? low
                                                                         : pool->piece_count;
}

/* Merge block `at` with the next one. */
static void join_next(gy_pool *pool, size_t at) GY_REQUIRES(pool->lock)
{
    piece *here = &pool->pieces[at];
    GY_ASSERT(at + 1 < pool->piece_count);
    GY_ASSERT(!here->is_taken);
    GY_ASSERT(!here[1].is_taken);
    GY_ASSERT(here->offset + here->size_bytes == here[1].offset);
    here->size_bytes += here[1].size_bytes;
    memmove(here + 1, here + 2, (pool->piece_count - at - 2) * sizeof(piece));
    pool->piece_count--;
}

void gy_pool_give(gy_pool *pool, void *memory)
{
    GY_ASSERT(pool != NULL);
    if (memory == NULL) {
        return;
    }
    if (pool->memory == NULL) {
        gy_free(memory);
        return;
    }
    GY_ASSERT((unsigned char *)memory >= pool->memory);
    GY_ASSERT((unsigned char *)memory < pool->memory + pool->size_bytes);
    gy_mutex_lock(&pool->lock);
    size_t at = find_piece(pool, (size_t)((unsigned char *)memory - pool->memory));
    GY_ASSERT(at < pool->piece_count);
    GY_ASSERT(pool->pieces[at].is_taken); /* otherwise the block was freed twice */
    pool->pieces[at].is_taken = false;
    GY_ASSERT(pool->taken_count > 0);
    GY_ASSERT(pool->used_bytes >= pool->pieces[at].size_bytes);
    pool->taken_count--;
    pool->used_bytes -= pool->pieces[at].size_bytes;
    if (at + 1 < pool->piece_count && !pool->pieces[at + 1].is_taken) {
        join_next(pool, at);
    }
    if (at > 0 && !pool->pieces[at - 1].is_taken) {
        join_next(pool, at - 1);
    }
    gy_mutex_unlock(&pool->lock);
}

size_t gy_pool_used_bytes(gy_pool *pool)
{
    if (pool->memory == NULL) {
        return 0;
    }
    gy_mutex_lock(&pool->lock);
    GY_ASSERT(pool->used_bytes <= pool->size_bytes);
    size_t used = pool->used_bytes;
    gy_mutex_unlock(&pool->lock);
    return used;
}

size_t gy_pool_piece_count(gy_pool *pool)
{
    if (pool->memory == NULL) {
        return 0;
    }
    gy_mutex_lock(&pool->lock);
    GY_ASSERT(pool->taken_count <= pool->piece_count);
    size_t count = pool->taken_count;
    gy_mutex_unlock(&pool->lock);
    return count;
}
