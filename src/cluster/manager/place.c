/*
 * Ready tasks onto processes: the oldest first, each to the least loaded process.
 *
 * A heap orders the processes that are up by what they have in flight. Tasks of a stage whose
 * runs are short are sent ahead, so that messages can be gathered: about two milliseconds of
 * work. Nothing waits behind a task that is not known to be short, so no task stands behind a
 * long one while another process has nothing to do. A cohort takes as many distinct processes
 * as it has members, all or none; until it has them nothing younger starts, so it cannot
 * starve, and since it holds nothing while it waits, two cohorts cannot block each other.
 */
#include "cluster/manager/manager_priv.h"

#include <string.h>

static const int64_t ahead_ns = 2000000;

/* ---- The heap ---- */

/* What a task would wait behind. */
static uint32_t weight(const gy_manager *manager, uint32_t process)
{
    const slot *at = &manager->slots[process];
    if (at->load < manager->options.threads) {
        return at->load;
    }
    return at->slow > 0 ? GY_NONE : at->load;
}

static bool is_before(const gy_manager *manager, uint32_t a, uint32_t b)
{
    uint32_t first = weight(manager, a), second = weight(manager, b);
    return first < second || (first == second && a < b);
}

static void set(gy_manager *manager, uint32_t at, uint32_t process)
{
    manager->heap[at] = process;
    manager->slots[process].heap = at;
}

static void sift(gy_manager *manager, uint32_t at)
{
    uint32_t process = manager->heap[at];
    while (at > 0 && is_before(manager, process, manager->heap[(at - 1) / 2])) {
        set(manager, at, manager->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < manager->heap_count &&
            is_before(manager, manager->heap[child + 1], manager->heap[child])) {
            child++;
        }
        if (child >= manager->heap_count ||
            !is_before(manager, manager->heap[child], process)) {
            break;
        }
        set(manager, at, manager->heap[child]);
        at = child;
    }
    set(manager, at, process);
}

/* Has it a thread without work? */
static void count_open(gy_manager *manager, uint32_t process)
{
    slot *at = &manager->slots[process];
    bool is_open = at->heap != GY_NONE && at->load < manager->options.threads;
    manager->open_count += is_open;
    manager->open_count -= at->is_counted;
    at->is_counted = is_open;
}

void gy_manager_heap_put(gy_manager *manager, uint32_t process)
{
    GY_ASSERT(manager->slots[process].heap == GY_NONE);
    set(manager, manager->heap_count++, process);
    sift(manager, manager->heap_count - 1);
    count_open(manager, process);
}

void gy_manager_heap_remove(gy_manager *manager, uint32_t process)
{
    uint32_t at = manager->slots[process].heap;
    GY_ASSERT(at < manager->heap_count && manager->heap[at] == process);
    manager->slots[process].heap = GY_NONE;
    uint32_t last = manager->heap[--manager->heap_count];
    if (last != process) {
        set(manager, at, last);
        sift(manager, at);
    }
    count_open(manager, process);
}

void gy_manager_heap_update(gy_manager *manager, uint32_t process)
{
    if (manager->slots[process].heap != GY_NONE) {
        sift(manager, manager->slots[process].heap);
        count_open(manager, process);
    }
}

/* ---- Starting ---- */

static uint32_t depth_of(const gy_manager *manager, const task_row *row)
{
    const stage_row *stage = &manager->stages[row->stage];
    if (row->width > 1 || (row->marks & MARK_SUSPECT) != 0 || stage->sampled == 0) {
        return 1;
    }
    int64_t depth = 1 + ahead_ns / GY_MAX(stage->mean_ns, 1);
    depth = GY_MIN(depth, 1 + (int64_t)stage->sampled);
    return (uint32_t)GY_MIN(depth, (int64_t)manager->options.depth_max);
}

static void start_member(gy_manager *manager, uint32_t run_index, uint32_t member,
                         uint32_t process)
{
    uint32_t index = gy_manager_seat_new(manager, run_index, member, process);
    const run *started = &manager->runs[run_index];
    slot *at = &manager->slots[process];
    seat *taken = &manager->seats[index];
    taken->is_slow = depth_of(manager, &manager->rows[started->task]) == 1;
    at->slow += taken->is_slow;
    gy_effect *effect = gy_manager_emit(manager, GY_EFFECT_START);
    effect->process = process;
    effect->generation = at->generation;
    effect->id = (gy_attempt){started->task, started->epoch, started->attempt};
    effect->member = member;
    effect->stage = manager->rows[started->task].stage;
    effect->key = started->key;
}

/* What it reads from now on is what stands now. */
static void forget_stale(gy_manager *manager, uint32_t task)
{
    uint32_t end = gy_manager_edges_end(manager, task);
    for (uint32_t edge = manager->rows[task].first_edge; edge < end; edge++) {
        manager->links[edge].reader &= ~(uint32_t)GY_STALE;
    }
}

static bool may_run_again(gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    uint32_t runs = row->attempt >> GY_ATTEMPT_BITS == manager->generation
                        ? row->attempt & ((1u << GY_ATTEMPT_BITS) - 1)
                        : 0;
    if (runs >= GY_RUNS_MAX) {
        gy_manager_end(manager, GY_LIMIT,
                       gy_manager_text(manager, "task %u of stage '%s' was started %u times",
                                       task, manager->stages[row->stage].name, runs));
        return false;
    }
    return true;
}

/* All members on the least loaded processes, which have room. */
static void start(gy_manager *manager, uint32_t task, gy_key key)
{
    if (!may_run_again(manager, task)) {
        return;
    }
    uint32_t index = gy_manager_run_new(manager, task);
    if (index == GY_NONE) {
        return;
    }
    forget_stale(manager, task);
    gy_manager_set_state(manager, task, TASK_RUNNING);
    manager->runs[index].key = key;
    uint32_t width = manager->rows[task].width;
    if (width == 1) {
        start_member(manager, index, 0, manager->heap[0]);
        gy_manager_heap_update(manager, manager->heap[0]);
        return;
    }
    for (uint32_t member = 0; member < width; member++) {
        uint32_t process = manager->heap[0];
        GY_ASSERT(manager->slots[process].load < manager->options.threads);
        gy_manager_heap_remove(manager, process);
        start_member(manager, index, member, process);
    }
    for (uint32_t member = 0; member < width; member++) {
        uint32_t at = gy_manager_run_seat(manager, index, member);
        gy_manager_heap_put(manager, manager->seats[at].process);
    }
}

static bool has_place(const gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    if (row->width > 1) {
        return manager->open_count >= row->width;
    }
    return manager->heap_count > 0 && weight(manager, manager->heap[0]) <
                                          manager->options.threads * depth_of(manager, row);
}

/* Why nothing starts, said once. */
static void note_wait(gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    if (row->width > 1 && manager->noted_wait != task) {
        manager->noted_wait = task;
        gy_manager_note_task(
            manager, task,
            gy_manager_text(manager,
                            "waits for %u free processes at once, %u are; what "
                            "is younger waits behind it",
                            row->width, manager->open_count));
    }
}

void gy_manager_place(gy_manager *manager)
{
    uint32_t recalled = 0;
    while (manager->phase == PHASE_RUNNING && manager->status >= 0) {
        uint32_t task = gy_manager_peek(manager);
        if (task == GY_NONE) {
            break;
        }
        if (manager->memo_count > 0 && manager->memo_missed != task) {
            gy_key key = gy_manager_key(manager, task);
            const gy_memo *memo = gy_manager_recall(manager, task, key);
            manager->memo_missed = memo == NULL ? task : GY_NONE;
            if (memo != NULL) {
                gy_manager_pop(manager);
                gy_manager_memoise(manager, task, key, memo);
                if (++recalled == GY_MEMO_STEP_MAX) {
                    gy_manager_wake(manager, manager->now_ns);
                    break;
                }
                continue;
            }
        }
        if (!has_place(manager, task)) {
            note_wait(manager, task);
            break;
        }
        gy_manager_pop(manager);
        start(manager, task, gy_manager_key(manager, task));
    }
}

/* ---- Copies ---- */

/* Does one of the task's runs sit there? */
static bool is_at(const gy_manager *manager, uint32_t task, uint32_t process)
{
    for (uint32_t at = manager->slots[process].first; at != GY_NONE;
         at = manager->seats[at].next) {
        if (manager->runs[manager->seats[at].run].task == task) {
            return true;
        }
    }
    return false;
}

bool gy_manager_copy_start(gy_manager *manager, uint32_t first)
{
    uint32_t task = manager->runs[first].task, width = manager->rows[task].width, found = 0;
    uint32_t *places = gy_alloc("manager.copy", width * sizeof(*places));
    if (places == NULL) {
        manager->status = GY_NOMEM;
        return false;
    }
    for (uint32_t at = 0; at < manager->heap_count && found < width; at++) {
        uint32_t process = manager->heap[at];
        if (manager->slots[process].load < manager->options.threads &&
            !is_at(manager, task, process)) {
            places[found++] = process;
        }
    }
    /* It must read the same: an input may have been lost since, or stand in another order. */
    gy_key key = gy_manager_key(manager, task);
    bool is_same = (manager->rows[task].missing == 0 &&
                    memcmp(&key, &manager->runs[first].key, sizeof(key)) == 0) ||
                   GY_PLANTED(COPIED_BLIND);
    uint32_t index = found == width && is_same && may_run_again(manager, task)
                         ? gy_manager_run_new(manager, task)
                         : GY_NONE;
    if (index != GY_NONE) {
        manager->runs[index].key = key;
        manager->runs[index].is_copy = true;
        manager->stages[manager->rows[task].stage].state.copies++;
        for (uint32_t member = 0; member < width; member++) {
            start_member(manager, index, member, places[member]);
            gy_manager_heap_update(manager, places[member]);
        }
    }
    gy_free(places);
    return index != GY_NONE;
}
