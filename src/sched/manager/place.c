/*
 * Assigns ready tasks to processes, the oldest task to the least loaded process; in a job over
 * hosts sched/hosts/near.c chooses the host. A heap orders the processes that are up by the
 * number of tasks in flight. Short tasks are sent in advance, about two milliseconds of work,
 * so that messages can be batched. Nothing waits behind a task that is not known to be short,
 * so no task stands behind a long one while another process is idle.
 *
 * A cohort takes as many distinct processes as it has members, all or none. While it waits
 * nothing younger starts, so it cannot starve; and since it holds nothing while it waits, two
 * cohorts cannot deadlock.
 */
#include "sched/manager/manager_priv.h"

#include <string.h>

/* ---- Starting ---- */

static void start_member(gy_manager *manager, uint32_t run_index, uint32_t member,
                         uint32_t process)
{
    uint32_t index = gy_manager_placement_new(manager, run_index, member, process);
    const run *started = &manager->runs[run_index];
    slot *at = &manager->slots[process];
    placement *taken = &manager->placements[index];
    taken->is_slow = gy_manager_depth(manager, &manager->rows[started->task]) == 1;
    at->slow += taken->is_slow;
    gy_effect *effect = gy_manager_emit(manager, GY_EFFECT_START);
    effect->process = process;
    effect->generation = at->generation;
    effect->id = (gy_attempt){started->task, started->epoch, started->attempt};
    effect->member = member;
    effect->stage = manager->rows[started->task].stage;
    effect->key = started->key;
}

/* The task starts again with the current commits of its inputs. */
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

static void note_place(gy_manager *manager, uint32_t run_index, uint32_t process)
{
    const uint32_t host = manager->slots[process].host, task = manager->runs[run_index].task;
    manager->places[run_index] =
        (run_place){.placed_ns = manager->now_ns, .host = (uint16_t)host};
    if (gy_manager_places_of(manager, task) != NULL) {
        const bool is_near = gy_manager_is_place(manager, task, host);
        manager->hosts.near += is_near;
        manager->hosts.far += !is_near;
    }
}

/* The heap from which a member's process is taken. */
static const gy_sched_heap *heap_for(const gy_manager *manager, uint32_t task, uint32_t member,
                                     const gy_sched_heap *from)
{
    if ((manager->rows[task].marks & MARK_SPREAD) == 0) {
        return from;
    }
    const gy_tasks *chosen = &manager->hosts.chosen;
    uint32_t each = manager->rows[task].width / (uint32_t)chosen->count;
    return &manager->hosts.rows[chosen->items[member / each]].heap;
}

/* Start all members on the heap's least loaded processes, which have room; those of a spread
 * task on its hosts. */
static void start(gy_manager *manager, uint32_t task, gy_key key, const gy_sched_heap *from)
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
    if (manager->options.host_max > 0) {
        note_place(manager, index, from->items[0]);
    }
    uint32_t width = manager->rows[task].width;
    if (width == 1) {
        uint32_t process = from->items[0];
        start_member(manager, index, 0, process);
        gy_manager_heap_update(manager, process);
        return;
    }
    for (uint32_t member = 0; member < width; member++) {
        uint32_t process = heap_for(manager, task, member, from)->items[0];
        GY_ASSERT(manager->slots[process].load < manager->options.threads);
        gy_manager_heap_remove(manager, process);
        start_member(manager, index, member, process);
    }
    for (uint32_t member = 0; member < width; member++) {
        uint32_t at = gy_manager_run_placement(manager, index, member);
        gy_manager_heap_put(manager, manager->placements[at].process);
    }
}

/* On one machine: has a process room for the task? */
static bool has_place(const gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    if (row->width > 1) {
        return manager->open_count >= row->width;
    }
    return manager->heap.count > 0 &&
           gy_manager_weight(manager, manager->heap.items[0]) <
               manager->options.threads * gy_manager_depth(manager, row);
}

/* Start the oldest ready task, or one that may pass it; false: none may start now. */
static bool start_next(gy_manager *manager, uint32_t head)
{
    uint32_t task = head;
    gy_sched_heap *from = &manager->heap;
    bool again = false;
    if (manager->options.host_max > 0) {
        task = gy_manager_pick(manager, head, &from, &again);
    } else if (!has_place(manager, head)) {
        task = GY_NONE;
    }
    if (task == GY_NONE && !again && manager->rows[head].width > 1) {
        gy_manager_note_wait(
            manager, head,
            gy_manager_text(manager,
                            "waits for %u free processes at once, %u are; what "
                            "is younger waits behind it",
                            manager->rows[head].width, manager->open_count));
    }
    if (task == GY_NONE) {
        return again;
    }
    if (task == head) {
        gy_manager_pop(manager);
    }
    start(manager, task, gy_manager_key(manager, task), from);
    return true;
}

/* Start pinned tasks first, before others take the slots on their few places. */
static void start_pinned(gy_manager *manager)
{
    gy_sched_heap *from = NULL;
    uint32_t task = GY_NONE;
    if (manager->hosts.pinned_entries == 0) {
        return;
    }
    const uint32_t kept = gy_manager_kept(manager, gy_manager_peek(manager));
    while (manager->phase == PHASE_RUNNING && manager->status >= 0 &&
           (task = gy_manager_pinned_next(manager, kept, &from)) != GY_NONE) {
        start(manager, task, gy_manager_key(manager, task), from);
    }
}

void gy_manager_place(gy_manager *manager)
{
    uint32_t recalled = 0;
    start_pinned(manager);
    while (manager->phase == PHASE_RUNNING && manager->status >= 0) {
        uint32_t task = gy_manager_peek(manager);
        if (task == GY_NONE) {
            break;
        }
        if (manager->memo_count > 0 && manager->memo_missed != task) {
            gy_key key = gy_manager_key(manager, task);
            const gy_sched_memo *memo = gy_manager_recall(manager, task, key);
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
        if (!start_next(manager, task)) {
            break;
        }
    }
}

/* ---- Backup tasks ---- */

/* Does one of the task's runs use this process? */
static bool is_at(const gy_manager *manager, uint32_t task, uint32_t process)
{
    for (uint32_t at = manager->slots[process].first; at != GY_NONE;
         at = manager->placements[at].next) {
        if (manager->runs[manager->placements[at].run].task == task) {
            return true;
        }
    }
    return false;
}

/* Find processes for the members of a backup task: on one host, with room, where the task does
 * not run yet. */
static bool find_places(const gy_manager *manager, uint32_t task, const gy_sched_heap *heap,
                        uint32_t *places)
{
    uint32_t width = manager->rows[task].width, found = 0;
    for (uint32_t at = 0; at < heap->count && found < width; at++) {
        uint32_t process = heap->items[at];
        if (manager->slots[process].load < manager->options.threads &&
            !is_at(manager, task, process)) {
            places[found++] = process;
        }
    }
    return found == width;
}

/* Find a host for the backup task: not the first run's if another has processes, or may get
 * some soon and the caller waits for them; and not one where the task failed. */
static bool find_host(const gy_manager *manager, uint32_t first, bool may_stay,
                      uint32_t *places)
{
    uint32_t own = manager->places[first].host, task = manager->runs[first].task;
    bool has_other = false;
    for (uint32_t host = 0; host < manager->hosts.count; host++) {
        const host_row *other = &manager->hosts.rows[host];
        if (!gy_manager_may_be_at(manager, task, host)) {
            continue;
        }
        has_other = has_other ||
                    (host != own &&
                     (other->heap.count > 0 || (!may_stay && gy_manager_has_slots(other, 0))));
        if (host != own && host != manager->rows[task].host &&
            find_places(manager, task, &other->heap, places)) {
            return true;
        }
    }
    if (has_other && !GY_PLANTED(COPIED_HERE)) {
        return false;
    }
    return find_places(manager, task, &manager->hosts.rows[own].heap, places);
}

copied gy_manager_backup_start(gy_manager *manager, uint32_t first, bool may_stay)
{
    uint32_t task = manager->runs[first].task, width = manager->rows[task].width;
    /* The backup task must read the same inputs: one may have been lost since, or come in
     * another order. */
    gy_key key = gy_manager_key(manager, task);
    bool is_same = (manager->rows[task].missing == 0 &&
                    memcmp(&key, &manager->runs[first].key, sizeof(key)) == 0) ||
                   GY_PLANTED(COPIED_BLIND);
    uint32_t *places = is_same ? gy_alloc("manager.copy", width * sizeof(*places)) : NULL;
    if (places == NULL) {
        manager->status = is_same ? GY_NOMEM : manager->status;
        return COPY_NOT_NOW;
    }
    bool is_found = manager->options.host_max > 0
                        ? find_host(manager, first, may_stay, places)
                        : find_places(manager, task, &manager->heap, places);
    uint32_t index =
        is_found && may_run_again(manager, task) ? gy_manager_run_new(manager, task) : GY_NONE;
    if (index != GY_NONE) {
        manager->runs[index].key = key;
        manager->runs[index].is_backup = true;
        if (manager->options.host_max > 0) {
            note_place(manager, index, places[0]);
        }
        manager->stages[manager->rows[task].stage].state.copies++;
        for (uint32_t member = 0; member < width; member++) {
            start_member(manager, index, member, places[member]);
            gy_manager_heap_update(manager, places[member]);
        }
    }
    gy_free(places);
    return index != GY_NONE ? COPY_STARTED : is_found ? COPY_NOT_NOW : COPY_NOWHERE;
}
