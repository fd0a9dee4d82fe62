/* When an exact task may start again. An earlier run of it may still be alive on a host that
 * the manager cannot reach, so the task waits until that run's lease has expired. */
#include "sched/hosts/hosts.h"

#include <string.h>

void gy_manager_hosts_free(gy_manager *manager)
{
    gy_hosts *hosts = &manager->hosts;
    for (size_t i = 0; i < hosts->count; i++) {
        gy_free(hosts->rows[i].heap.items);
        gy_free(hosts->rows[i].held);
    }
    for (size_t i = 0; i < hosts->name_count; i++) {
        gy_free(hosts->name_rows[i].pinned.items);
    }
    gy_index_free(&hosts->names);
    gy_arena_free(&hosts->texts);
    void *const all[] = {hosts->rows,        hosts->waits,          hosts->gone.items,
                         hosts->aside.items, hosts->place_of.items, hosts->place_items.items,
                         hosts->name_rows,   hosts->spreads,        hosts->chosen.items};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        gy_free(all[i]);
    }
}

/* ---- Exact tasks ---- */

/* Delay the task: an earlier run of it may still be alive on a host that cannot be reached. */
void gy_manager_exact_wait(gy_manager *manager, uint32_t task, int64_t until_ns)
{
    gy_hosts *hosts = &manager->hosts;
    if (GY_GROW("manager.waits", hosts->waits, hosts->wait_capacity, hosts->wait_count + 1) <
        0) {
        manager->status = GY_NOMEM;
        return;
    }
    hosts->waits[hosts->wait_count++] = (exact_wait){task, until_ns};
    manager->rows[task].missing++;
    if (manager->rows[task].state == TASK_READY) {
        gy_manager_set_state(manager, task, TASK_WAITING);
    }
}

void gy_manager_exact_lost(gy_manager *manager, uint32_t task)
{
    if ((manager->rows[task].flags & GY_TASK_EXACT) != 0 &&
        manager->hosts.older_ns > manager->now_ns) {
        gy_manager_exact_wait(manager, task, manager->hosts.older_ns);
    }
}

void gy_manager_exact_release(gy_manager *manager)
{
    gy_hosts *hosts = &manager->hosts;
    int64_t next_ns = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < hosts->wait_count; i++) {
        const exact_wait wait = hosts->waits[i];
        if (wait.until_ns > manager->now_ns) {
            hosts->waits[kept++] = wait;
            next_ns = GY_MIN(next_ns, wait.until_ns);
            continue;
        }
        manager->rows[wait.task].missing--;
        if (manager->rows[wait.task].state == TASK_WAITING) {
            gy_manager_requeue(manager, wait.task, true);
        }
    }
    hosts->wait_count = kept;
    if (next_ns < INT64_MAX) {
        gy_manager_wake(manager, next_ns);
    }
}

int64_t gy_manager_lease(const gy_manager *manager)
{
    return manager->lease_ns > 0 ? manager->lease_ns : manager->options.lease_ns;
}

void gy_manager_hosts_begin(gy_manager *manager)
{
    gy_hosts *hosts = &manager->hosts;
    for (size_t i = 0; i < hosts->count; i++) {
        hosts->rows[i].held_count = 0;
    }
    if (hosts->count == 0 && !manager->is_blind) {
        return;
    }
    const bool has_older = hosts->expected > 0 && !GY_PLANTED(EXACT_RESUMED);
    hosts->older_ns = has_older ? INT64_MAX : 0;
    for (uint32_t task = 0; task < manager->task_count; task++) {
        const task_row *row = &manager->rows[task];
        if (row->state == TASK_COMMITTED && row->host != GY_HOST_NOWHERE) {
            gy_manager_hold(manager, task);
        } else if (row->state != TASK_COMMITTED && (row->flags & GY_TASK_EXACT) != 0 &&
                   has_older) {
            gy_manager_exact_wait(manager, task, INT64_MAX);
        } else if (manager->is_blind && (row->flags & GY_TASK_EXACT) != 0) {
            gy_manager_exact_wait(manager, task, manager->now_ns + gy_manager_lease(manager));
        }
    }
}
