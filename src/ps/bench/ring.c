/* What shared memory is compared with: a process copies floats into a ring, another one adds
 * them from it to a vector, both awake. */
#include "ps/bench/bench_priv.h"

#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { RING_BYTES = 1 << 20, CHUNK_BYTES = 64 << 10, LINE = 64, LOOKS = 2000 };

struct ps_bench_ring {
    _Alignas(
        LINE) _Atomic size_t put; /* bytes so far; release by the one, acquire by the other */
    _Alignas(LINE) _Atomic size_t added;
    _Alignas(LINE) _Atomic bool has_ended;
    _Alignas(LINE) uint8_t bytes[RING_BYTES];
};

gy_status gy_ps_bench_ring_make(ps_bench_ring **ring)
{
    void *made =
        mmap(NULL, sizeof(**ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        return gy_fail(GY_LIMIT, "no shared memory: %s", strerror(errno));
    }
    *ring = made;
    return GY_OK;
}

/* Look for a while, then let others run. False: the end. */
static bool look_again(const ps_bench_ring *ring, int *looks)
{
    if (++*looks % LOOKS == 0) {
        (void)sched_yield();
    }
    gy_spin();
    return !atomic_load_explicit(&ring->has_ended,
                                 memory_order_acquire); /* the end's release */
}

gy_status gy_ps_bench_ring_add(ps_bench_ring *ring, size_t size_bytes)
{
    float *to = gy_alloc_zero("ps.bench", 1, size_bytes);
    size_t added = 0, at = 0, ready = 0;
    int looks = 0;
    if (to == NULL) {
        return GY_NOMEM;
    }
    while (look_again(ring, &looks)) {
        ready =
            atomic_load_explicit(&ring->put, memory_order_acquire) - added; /* put's release */
        ready = GY_MIN(ready, (size_t)RING_BYTES - added % RING_BYTES);
        ready = GY_MIN(GY_MIN(ready, (size_t)CHUNK_BYTES), size_bytes - at);
        const float *from = (const float *)(const void *)(ring->bytes + added % RING_BYTES);
        float *target = to + at / sizeof(float);
        for (size_t i = 0; i < ready / sizeof(float); i++) {
            target[i] += from[i];
        }
        added += ready;
        at = (at + ready) % size_bytes;
        atomic_store_explicit(&ring->added, added, memory_order_release); /* put's acquire */
    }
    gy_free(to);
    return GY_OK;
}

bool gy_ps_bench_ring_put(ps_bench_ring *ring, const void *data, size_t size_bytes)
{
    size_t put = atomic_load_explicit(&ring->put, memory_order_relaxed); /* this end's own */
    size_t end = put + size_bytes, added = 0;
    const uint8_t *from = data;
    int looks = 0;
    while (put < end) {
        added =
            atomic_load_explicit(&ring->added, memory_order_acquire); /* the adder's release */
        size_t room = GY_MIN(RING_BYTES - (put - added), (size_t)RING_BYTES - put % RING_BYTES);
        size_t size = GY_MIN(GY_MIN(room, end - put), (size_t)CHUNK_BYTES);
        memcpy(ring->bytes + put % RING_BYTES, from, size);
        put += size;
        from += size;
        atomic_store_explicit(&ring->put, put, memory_order_release); /* the adder's acquire */
        if (size == 0 && !look_again(ring, &looks)) {
            return false;
        }
    }
    while (atomic_load_explicit(&ring->added, memory_order_acquire) < end) { /* the adder's */
        if (!look_again(ring, &looks)) {
            return false;
        }
    }
    return true;
}

void gy_ps_bench_ring_end(ps_bench_ring *ring)
{
    if (ring != NULL) {
        atomic_store_explicit(&ring->has_ended, true, memory_order_release); /* look_again's */
        (void)munmap(ring, sizeof(*ring));
    }
}
