/* Heaps of the slots that are up, ordered by tasks in flight: one of all slots, and in a job
 * over hosts one for each host. */
#include "sched/state/state.h"

static bool is_before(const gy_manager *manager, uint32_t a, uint32_t b)
{
    uint32_t first = gy_manager_weight(manager, a), second = gy_manager_weight(manager, b);
    return first < second || (first == second && a < b);
}

static inline void set(gy_manager *manager, uint32_t kind, uint32_t *items, uint32_t at,
                       uint32_t process)
{
    items[at] = process;
    manager->slots[process].heap[kind] = at;
}

/* `kind` is a constant after inlining: on one machine there is one kind, and the test costs
 * nothing. */
static inline void sift(gy_manager *manager, const gy_sched_heap *heap, uint32_t kind,
                        uint32_t at)
{
    uint32_t *items = heap->items, count = heap->count;
    uint32_t process = items[at];
    while (at > 0 && is_before(manager, process, items[(at - 1) / 2])) {
        set(manager, kind, items, at, items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < count && is_before(manager, items[child + 1], items[child])) {
            child++;
        }
        if (child >= count || !is_before(manager, items[child], process)) {
            break;
        }
        set(manager, kind, items, at, items[child]);
        at = child;
    }
    set(manager, kind, items, at, process);
}

static void put(gy_manager *manager, gy_sched_heap *heap, uint32_t kind, uint32_t process)
{
    GY_ASSERT(heap->count < heap->capacity);
    set(manager, kind, heap->items, heap->count++, process);
    sift(manager, heap, kind, heap->count - 1);
}

static void take_out(gy_manager *manager, gy_sched_heap *heap, uint32_t kind, uint32_t process)
{
    uint32_t at = manager->slots[process].heap[kind];
    GY_ASSERT(at < heap->count && heap->items[at] == process);
    manager->slots[process].heap[kind] = GY_NONE;
    uint32_t last = heap->items[--heap->count];
    if (last != process) {
        set(manager, kind, heap->items, at, last);
        sift(manager, heap, kind, at);
    }
}

/* The slot's host; only in a job over hosts. */
static host_row *host_of(gy_manager *manager, uint32_t process)
{
    return &manager->hosts.rows[manager->slots[process].host];
}

/* Update the host's count of processes with an idle thread. */
static void count_open(gy_manager *manager, uint32_t process)
{
    slot *at = &manager->slots[process];
    bool is_open = at->heap[0] != GY_NONE && at->load < manager->options.threads;
    if (is_open == at->is_counted) {
        return;
    }
    at->is_counted = is_open;
    manager->open_count += is_open ? 1 : UINT32_MAX;
    if (manager->options.host_max > 0) {
        host_of(manager, process)->open += is_open ? 1 : UINT32_MAX;
    }
}

void gy_manager_heap_put(gy_manager *manager, uint32_t process)
{
    GY_ASSERT(manager->slots[process].heap[0] == GY_NONE);
    put(manager, &manager->heap, 0, process);
    if (manager->options.host_max > 0) {
        put(manager, &host_of(manager, process)->heap, 1, process);
    }
    count_open(manager, process);
}

void gy_manager_heap_remove(gy_manager *manager, uint32_t process)
{
    if (manager->slots[process].heap[0] == GY_NONE) {
        return;
    }
    take_out(manager, &manager->heap, 0, process);
    if (manager->options.host_max > 0) {
        take_out(manager, &host_of(manager, process)->heap, 1, process);
    }
    count_open(manager, process);
}

void gy_manager_heap_update(gy_manager *manager, uint32_t process)
{
    const slot *at = &manager->slots[process];
    if (at->heap[0] != GY_NONE) {
        sift(manager, &manager->heap, 0, at->heap[0]);
        if (manager->options.host_max > 0) {
            sift(manager, &host_of(manager, process)->heap, 1, at->heap[1]);
        }
        count_open(manager, process);
    }
}
