/** Inside room ps: rooms for bytes of messages, used again. One thread at a time. */
#ifndef GY_PS_POOL_POOL_H
#define GY_PS_POOL_POOL_H

#include "base/base.h"

/** Rooms that are free. Zero-initialise. */
typedef struct ps_pool {
    union ps_room_head *first;
    size_t kept_bytes, kept_count;
} ps_pool;

/** A room of at least so many bytes; NULL: no memory. */
void *gy_ps_pool_take(ps_pool *pool, size_t size_bytes);
/** Back to the pool that it was taken from. NULL is fine. */
void gy_ps_pool_give(void *room);
/** One more gy_ps_pool_give is needed until it goes back. */
void gy_ps_pool_hold(void *room);
void gy_ps_pool_fini(ps_pool *pool);

#endif
