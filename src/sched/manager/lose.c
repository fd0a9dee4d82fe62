/*
 * Committed outputs that are lost, one by one or with their host. The producer's epoch rises
 * and it runs again; if its own inputs are lost too, that run finds out. Committed readers stay
 * committed, except below an indeterminate task: every reader of its earlier output runs again,
 * committed or not, and recursively the readers of those.
 */
#include "sched/manager/manager_priv.h"

static void push(gy_manager *manager, gy_tasks *tasks, uint32_t task)
{
    if (GY_GROW("manager.lose", tasks->items, tasks->capacity, tasks->count + 1) < 0) {
        manager->status = GY_NOMEM;
        return;
    }
    tasks->items[tasks->count++] = task;
}

static bool is_gone(const gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    return row->state == TASK_COMMITTED && row->host != GY_HOST_NOWHERE &&
           manager->hosts.rows[row->host].state == HOST_LOST;
}

/* The task's inputs on lost hosts are needed again. */
static void push_gone(gy_manager *manager, uint32_t task)
{
    uint32_t end = gy_manager_edges_end(manager, task);
    for (uint32_t edge = manager->rows[task].first_edge;
         edge < end && manager->hosts.lost > 0 && !GY_PLANTED(GONE_KEPT); edge++) {
        if (is_gone(manager, manager->edges[edge].from)) {
            push(manager, &manager->hosts.gone, manager->edges[edge].from);
        }
    }
}

/* Invalidate the commit: no run of the old epoch may commit any more. */
static void raise(gy_manager *manager, uint32_t task, const char *reason)
{
    task_row *row = &manager->rows[task];
    if (row->state == TASK_COMMITTED) {
        gy_manager_exact_lost(manager, task);
        bool was_there = gy_manager_is_there(manager, row);
        for (uint32_t edge = row->first_reader; edge != GY_NONE;
             edge = manager->links[edge].next) {
            gy_sched_edge *link = &manager->links[edge];
            uint32_t reader = link->reader & ~(uint32_t)GY_STALE;
            /* Otherwise this input is already counted as missing. */
            manager->rows[reader].missing += was_there;
            if (manager->rows[reader].state == TASK_READY) {
                gy_manager_set_state(manager, reader, TASK_WAITING);
            }
            link->reader |= GY_STALE; /* cleared when the reader starts again */
        }
    }
    gy_manager_note_task(manager, task, reason);
    if (row->epoch >= GY_LOSSES_MAX) {
        gy_manager_end(manager, GY_LIMIT,
                       gy_manager_text(manager, "task %u of stage '%s' was lost %u times: %s",
                                       task, manager->stages[row->stage].name, row->epoch,
                                       reason));
        return;
    }
    row->committed = 0;
    row->host = GY_HOST_NOWHERE;
    row->epoch += GY_PLANTED(EPOCH_KEPT) ? 0 : 1;
    push(manager, &manager->raised, task);
    gy_manager_runs_cancel(manager, task, reason);
    gy_manager_requeue(manager, task, true);
    push_gone(manager, task);
}

static void push_readers(gy_manager *manager, gy_tasks *left, uint32_t task)
{
    uint32_t edge = manager->rows[task].first_reader;
    for (; edge != GY_NONE; edge = manager->links[edge].next) {
        push(manager, left, manager->links[edge].reader & ~(uint32_t)GY_STALE);
    }
    manager->rows[task].marks &= (uint8_t)~MARK_CONTENT;
}

static void raise_readers(gy_manager *manager, uint32_t task, const char *reason)
{
    gy_tasks left = {0};
    push_readers(manager, &left, task);
    while (left.count > 0 && manager->status >= 0 && manager->phase != PHASE_ENDED) {
        uint32_t reader = left.items[--left.count];
        const task_row *row = &manager->rows[reader];
        bool was_read = (row->marks & MARK_CONTENT) != 0;
        if (row->state == TASK_COMMITTED || row->state == TASK_RUNNING) {
            raise(manager, reader, reason);
        }
        if (was_read) {
            push_readers(manager, &left, reader);
        }
    }
    gy_free(left.items);
}

/* One record for all: a crash must not preserve the loss of a task without that of its readers.
 */
static void write_raised(gy_manager *manager)
{
    if (manager->raised.count > 0 && !GY_PLANTED(RAISE_FORGOTTEN)) {
        gy_manager_write_raise(manager);
    }
    manager->raised.count = 0;
}

/* Invalidate one task, and the readers that may not keep what they read of it. */
static void lose_one(gy_manager *manager, uint32_t task, const char *reason)
{
    raise(manager, task, reason);
    if (GY_PLANTED(RAISED_APART)) {
        write_raised(manager);
    }
    if (manager->rows[task].determinism == GY_OUTPUT_INDETERMINATE &&
        !GY_PLANTED(CONSUMERS_KEPT)) {
        raise_readers(manager, task,
                      gy_manager_text(
                          manager, "task %u above it, which is indeterminate, was lost", task));
    }
}

/* Push the producers on lost hosts of the tasks that run again, and recursively theirs. */
static void lose_gone(gy_manager *manager)
{
    gy_tasks *gone = &manager->hosts.gone;
    while (gone->count > 0) {
        uint32_t task = gone->items[--gone->count];
        if (is_gone(manager, task) && manager->status >= 0 && manager->phase != PHASE_ENDED) {
            const host_row *host = &manager->hosts.rows[manager->rows[task].host];
            lose_one(manager, task,
                     gy_manager_text(
                         manager,
                         "the output was on host %s (%s), which is lost, and is needed again",
                         host->name, host->address));
        }
    }
}

void gy_manager_lose_readers(gy_manager *manager, uint32_t task, const char *reason)
{
    raise_readers(manager, task, reason);
    lose_gone(manager);
    write_raised(manager);
}

void gy_manager_lose(gy_manager *manager, uint32_t task, const char *reason)
{
    GY_ASSERT(manager->rows[task].state == TASK_COMMITTED);
    lose_one(manager, task, reason);
    lose_gone(manager);
    write_raised(manager);
}

void gy_manager_lose_gone(gy_manager *manager, uint32_t first)
{
    for (uint32_t task = first; task < manager->task_count && manager->hosts.lost > 0; task++) {
        push_gone(manager, task);
    }
    lose_gone(manager);
    write_raised(manager);
}

bool gy_manager_is_needed(const gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    bool is_needed = (row->flags & GY_TASK_FINAL) != 0 && !manager->is_saved;
    for (uint32_t edge = row->first_reader; edge != GY_NONE && !is_needed;
         edge = manager->links[edge].next) {
        uint32_t reader = manager->links[edge].reader & ~(uint32_t)GY_STALE;
        is_needed = manager->rows[reader].state != TASK_COMMITTED;
    }
    return is_needed;
}

/* Once the final data are saved nothing else is read. */
static bool is_time(const gy_manager *manager)
{
    return manager->phase >= PHASE_STARTING && manager->phase <= PHASE_SAVING;
}

void gy_manager_lose_host(gy_manager *manager, uint32_t host, const char *reason)
{
    for (size_t i = 0; i < manager->hosts.rows[host].held_count && is_time(manager); i++) {
        const gy_sched_stored *held = &manager->hosts.rows[host].held[i];
        if (gy_manager_holds(manager, host, held) &&
            (gy_manager_is_needed(manager, held->task) || GY_PLANTED(ALL_LOST))) {
            lose_one(manager, held->task, reason);
        }
    }
    lose_gone(manager);
    write_raised(manager);
}

void gy_manager_lost(gy_manager *manager, const gy_attempt *id, const char *reason)
{
    if (!is_time(manager) || id->task >= manager->task_count) {
        return;
    }
    const task_row *row = &manager->rows[id->task];
    if (row->state != TASK_COMMITTED || row->epoch != id->epoch) {
        return;
    }
    if (gy_manager_is_needed(manager, id->task)) {
        gy_manager_lose(manager, id->task, reason != NULL ? reason : "the output is lost");
    } else {
        gy_manager_note_task(manager, id->task, "the output is lost, but not needed");
    }
}
