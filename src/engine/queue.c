/* Queues of ready tasks: a ring for each worker, from which any worker may take, and a shared
 * heap for all other tasks. */
#include "engine/engine_priv.h"

bool gy_engine_ring_push(gy_engine_ring *ring, gy_done *task)
{
    GY_CHECK_DEEP(task->lane == GY_LANE_COMPUTE);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    /* Pairs with the swap in gy_engine_ring_pop: a slot is filled again only after it was read.
     */
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    GY_ASSERT(head <= tail);
    if (tail - head >= RING_SLOTS) {
        return false;
    }
    atomic_store_explicit(&ring->slots[tail % RING_SLOTS], task, memory_order_relaxed);
    /* An exchange instead of a store: the following read of `sleepers` must not move before
     * it. It pairs with the load of tail in gy_engine_ring_pop and with the total order in
     * gy_park. */
    (void)atomic_exchange_explicit(&ring->tail, tail + 1, memory_order_seq_cst);
    return true;
}

gy_done *gy_engine_ring_pop(gy_engine_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    for (;;) {
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head >= tail) {
            return NULL;
        }
        gy_done *task =
            atomic_load_explicit(&ring->slots[head % RING_SLOTS], memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&ring->head, &head, head + 1,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            GY_CHECK_DEEP(task != NULL);
            return task;
        }
    }
}

bool gy_engine_ring_is_empty(gy_engine_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_seq_cst) >=
           atomic_load_explicit(&ring->tail, memory_order_seq_cst);
}

static int64_t key_of(const gy_done *task)
{
    GY_CHECK_DEEP(task->lane <= GY_LANE_NETWORK);
    return task->lane == GY_LANE_NETWORK ? KEY_NETWORK : task->priority;
}

static bool is_before(const gy_done *a, const gy_done *b)
{
    GY_CHECK_DEEP(a->order != b->order);
    int64_t key_a = key_of(a);
    int64_t key_b = key_of(b);
    return key_a != key_b ? key_a > key_b : a->order < b->order;
}

/* Meld two heaps; either may be NULL. The roots have no siblings. */
static gy_done *meld(gy_done *a, gy_done *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    GY_CHECK_DEEP(a->next == NULL);
    GY_CHECK_DEEP(b->next == NULL);
    if (is_before(b, a)) {
        gy_done *first = b;
        b = a;
        a = first;
    }
    b->next = a->child;
    a->child = b;
    a->next = NULL;
    return a;
}

/* Meld siblings in pairs from the left, then the results from the right. */
static gy_done *meld_siblings(gy_done *first)
{
    gy_done *pairs = NULL;
    while (first != NULL) {
        gy_done *a = first;
        gy_done *b = a->next;
        first = b != NULL ? b->next : NULL;
        a->next = NULL;
        if (b != NULL) {
            b->next = NULL;
        }
        GY_CHECK_DEEP(a != first);
        GY_CHECK_DEEP(b != a);
        gy_done *pair = meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    gy_done *root = NULL;
    while (pairs != NULL) {
        gy_done *rest = pairs->next;
        pairs->next = NULL;
        root = meld(root, pairs);
        pairs = rest;
    }
    return root;
}

/* Seq_cst, as in gy_engine_ring_push, because the pusher reads `sleepers` next. */
static void publish_top(gy_engine_heap *heap)
{
    int64_t top = heap->root != NULL ? key_of(heap->root) : KEY_NONE;
    if (atomic_load_explicit(&heap->top, memory_order_relaxed) != top) {
        (void)atomic_exchange_explicit(&heap->top, top, memory_order_seq_cst);
    }
}

void gy_engine_heap_push(gy_engine_heap *heap, gy_done *task)
{
    GY_CHECK_DEEP(atomic_load_explicit(&task->state, memory_order_relaxed) == TASK_QUEUED);
    gy_spin_lock(&heap->lock);
    task->order = heap->order++;
    task->child = NULL;
    task->next = NULL;
    heap->root = meld(heap->root, task);
    publish_top(heap);
    gy_spin_unlock(&heap->lock);
}

gy_done *gy_engine_heap_pop(gy_engine_heap *heap, int64_t key)
{
    /* Read without the lock. A stale value does no harm: the caller comes back and reads
     * again. */
    int64_t top = atomic_load_explicit(&heap->top, memory_order_relaxed);
    if (top == KEY_NONE || top < key) {
        return NULL;
    }
    gy_spin_lock(&heap->lock);
    gy_done *task = heap->root;
    if (task != NULL && key_of(task) >= key) {
        GY_CHECK_DEEP(task->next == NULL); /* the root has no siblings */
        heap->root = meld_siblings(task->child);
        task->child = NULL;
        task->next = NULL;
        publish_top(heap);
    } else {
        task = NULL;
    }
    gy_spin_unlock(&heap->lock);
    return task;
}
