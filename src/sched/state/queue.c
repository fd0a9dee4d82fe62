/* Task states, and the queues of ready tasks: first those that run again, then the others in
 * the order in which they became ready. A task that is no longer ready leaves its entry behind,
 * which is skipped. */
#include "sched/state/state.h"

#include <string.h>

static bool push(gy_manager *manager, queue *tasks, uint32_t task)
{
    if (tasks->count == tasks->capacity) {
        size_t capacity = tasks->capacity == 0 ? 64 : tasks->capacity * 2;
        uint32_t *larger = gy_alloc("manager.queue", capacity * sizeof(*larger));
        if (larger == NULL) {
            manager->status = GY_NOMEM;
            return false;
        }
        for (size_t i = 0; i < tasks->count; i++) {
            larger[i] = tasks->items[(tasks->head + i) & (tasks->capacity - 1)];
        }
        gy_free(tasks->items);
        *tasks = (queue){.items = larger, .capacity = capacity, .count = tasks->count};
    }
    tasks->items[(tasks->head + tasks->count++) & (tasks->capacity - 1)] = task;
    return true;
}

void gy_manager_set_state(gy_manager *manager, uint32_t task, task_state state)
{
    task_row *row = &manager->rows[task];
    gy_stage_state *stage = &manager->stages[row->stage].state;
    if (row->state == state) {
        return;
    }
    manager->ready_width -= row->state == TASK_READY ? row->width : 0;
    manager->ready_width += state == TASK_READY ? row->width : 0;
    if ((row->flags & GY_TASK_PINNED) != 0) {
        manager->hosts.pinned_ready += state == TASK_READY;
        manager->hosts.pinned_ready -= row->state == TASK_READY;
    }
    stage->running -= row->state == TASK_RUNNING;
    stage->running += state == TASK_RUNNING;
    stage->committed -= row->state == TASK_COMMITTED;
    stage->committed += state == TASK_COMMITTED;
    manager->committed_count -= row->state == TASK_COMMITTED;
    manager->committed_count += state == TASK_COMMITTED;
    /* Half of the stage is done: its stragglers can be found from now on. */
    manager->is_half_done |= state == TASK_COMMITTED && stage->running > 0 &&
                             stage->committed == (stage->tasks + 1) / 2;
    row->state = (uint8_t)state;
}

void gy_manager_requeue(gy_manager *manager, uint32_t task, bool is_urgent)
{
    task_row *row = &manager->rows[task];
    if ((row->flags & GY_TASK_EXACT) != 0 && row->run != GY_NONE && !GY_PLANTED(EXACT_TWICE)) {
        gy_manager_set_state(manager, task, TASK_RUNNING); /* until no process runs it */
        return;
    }
    gy_manager_set_state(manager, task, row->missing == 0 ? TASK_READY : TASK_WAITING);
    if (row->state != TASK_READY || (row->marks & MARK_QUEUED) != 0) {
        return;
    }
    if ((row->flags & GY_TASK_PINNED) != 0 && !GY_PLANTED(PINNED_ANYWHERE)) {
        gy_manager_pin(manager, task);
    } else if (push(manager, is_urgent ? &manager->urgent : &manager->ready, task)) {
        row->marks |= MARK_QUEUED;
    }
}

void gy_manager_push_again(gy_manager *manager, uint32_t task)
{
    (void)push(manager, &manager->urgent, task);
}

uint32_t gy_manager_queue_at(const gy_manager *manager, size_t i)
{
    const queue *tasks = &manager->urgent;
    if (i >= tasks->count) {
        i -= tasks->count;
        tasks = &manager->ready;
    }
    return i < tasks->count ? tasks->items[(tasks->head + i) & (tasks->capacity - 1)] : GY_NONE;
}

static queue *first_queue(gy_manager *manager)
{
    return manager->urgent.count > 0 ? &manager->urgent : &manager->ready;
}

void gy_manager_pop(gy_manager *manager)
{
    queue *tasks = first_queue(manager);
    GY_ASSERT(tasks->count > 0);
    manager->rows[tasks->items[tasks->head]].marks &= (uint8_t)~MARK_QUEUED;
    tasks->head = (tasks->head + 1) & (tasks->capacity - 1);
    tasks->count--;
}

uint32_t gy_manager_peek(gy_manager *manager)
{
    for (;;) {
        const queue *tasks = first_queue(manager);
        if (tasks->count == 0) {
            GY_ASSERT(manager->ready_width == manager->hosts.pinned_ready ||
                      manager->hosts.aside.count > 0 || manager->status < 0);
            return GY_NONE;
        }
        uint32_t task = tasks->items[tasks->head];
        if (manager->rows[task].state == TASK_READY) {
            return task;
        }
        gy_manager_pop(manager);
    }
}
