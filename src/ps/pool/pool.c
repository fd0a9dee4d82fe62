/* Rooms for the bytes of pushes and pulls, used again: servers and clients in their steady
 * state ask the system for no memory, so they take no page faults either. */
#include "ps/pool/pool.h"

static const size_t kept_bytes_max = (size_t)512 << 20;

/* Stands before each room; as long as the strictest alignment asks for. */
typedef union ps_room_head {
    struct {
        ps_pool *pool; /* where it goes back to */
        size_t size_bytes;
        uint32_t holders;
        union ps_room_head *next;
    } of;
    max_align_t align;
} ps_room_head;

void *gy_ps_pool_take(ps_pool *pool, size_t size_bytes)
{
    ps_room_head **best = NULL;
    for (ps_room_head **at = &pool->first; *at != NULL; at = &(*at)->of.next) {
        size_t size = (*at)->of.size_bytes;
        bool fits = size >= size_bytes && size / 4 <= size_bytes;
        if (fits && (best == NULL || size < (*best)->of.size_bytes)) {
            best = at;
        }
    }
    ps_room_head *room = NULL;
    if (best != NULL) {
        room = *best;
        *best = room->of.next;
        pool->kept_bytes -= room->of.size_bytes;
        pool->kept_count--;
        room->of.holders = 1;
        return room + 1;
    }
    room = gy_alloc("ps.room", sizeof(*room) + size_bytes);
    if (room == NULL) {
        return NULL;
    }
    room->of.pool = pool;
    room->of.size_bytes = size_bytes;
    room->of.holders = 1;
    return room + 1;
}

void gy_ps_pool_hold(void *room)
{
    ps_room_head *head = (ps_room_head *)room - 1;
    GY_ASSERT(head->of.holders > 0);
    head->of.holders++;
}

void gy_ps_pool_give(void *room)
{
    enum { KEPT_MAX = 64 };
    if (room == NULL) {
        return;
    }
    ps_room_head *head = (ps_room_head *)room - 1;
    ps_pool *pool = head->of.pool;
    GY_ASSERT(head->of.holders > 0);
    if (--head->of.holders > 0) {
        return;
    }
    if (pool->kept_count == KEPT_MAX ||
        pool->kept_bytes + head->of.size_bytes > kept_bytes_max) {
        gy_free(head);
        return;
    }
    head->of.next = pool->first;
    pool->first = head;
    pool->kept_bytes += head->of.size_bytes;
    pool->kept_count++;
}

void gy_ps_pool_fini(ps_pool *pool)
{
    while (pool->first != NULL) {
        ps_room_head *gone = pool->first;
        pool->first = gone->of.next;
        gy_free(gone);
    }
    *pool = (ps_pool){.first = NULL};
}
