/* Growth at refinement points. When all tasks of such a stage are committed, the manager asks
 * room flow once what to add for that number of tasks. It writes the answer to the journal
 * before any new task may start, so that a later manager cannot decide differently. */
#include "sched/manager/manager_priv.h"

#include <string.h>

void gy_manager_check_refinement(gy_manager *manager, uint32_t stage)
{
    stage_row *gate = &manager->stages[stage];
    if (gate->is_gate && !gate->is_asking && gate->state.tasks > gate->asked_tasks &&
        gate->state.committed == gate->state.tasks) {
        gate->is_asking = true;
        gate->asked_tasks = gate->state.tasks;
        manager->asked_count++;
        gy_manager_emit(manager, GY_EFFECT_GROW)->stage = stage;
    }
}

static gy_status reserve(gy_manager *manager)
{
    GY_TRY(GY_GROW("manager.grown", manager->grown, manager->grown_capacity,
                   manager->grown_count + 1));
    GY_TRY(GY_GROW("manager.holds", manager->holds, manager->hold_capacity,
                   manager->hold_count + 1));
    return GY_OK;
}

gy_status gy_manager_take_growth(gy_manager *manager, uint32_t stage, const gy_growth *growth)
{
    GY_TRY(reserve(manager));
    const uint8_t *detail =
        gy_manager_copy_report(manager, growth->detail, growth->detail_bytes);
    GY_TRY(manager->status);
    uint32_t first = manager->task_count;
    GY_TRY(gy_manager_add(manager, growth));
    manager->grown[manager->grown_count++] =
        (gy_grown){.stage = stage,
                   .first_task = first,
                   .task_count = growth->task_count,
                   .detail = detail != NULL ? detail + sizeof(uint32_t) : NULL,
                   .detail_bytes = growth->detail_bytes};
    if (manager->phase != PHASE_NEW && growth->task_count > 0) {
        for (uint32_t task = first; task < manager->task_count; task++) {
            manager->rows[task].missing++; /* the task waits until the record is synced */
        }
        manager->holds[manager->hold_count++] =
            (hold){.first = first, .count = growth->task_count, .position = UINT64_MAX};
    }
    return GY_OK;
}

void gy_manager_release(gy_manager *manager, uint64_t position)
{
    size_t kept = 0;
    for (size_t i = 0; i < manager->hold_count; i++) {
        const hold held = manager->holds[i];
        if (held.position > position) {
            manager->holds[kept++] = held;
            continue;
        }
        for (uint32_t task = held.first; task < held.first + held.count; task++) {
            manager->rows[task].missing--;
            gy_manager_requeue(manager, task, false);
        }
    }
    manager->hold_count = kept;
}

void gy_manager_grow(gy_manager *manager, const gy_sched_event *event)
{
    static const gy_growth nothing;
    const gy_growth *growth = event->growth != NULL ? event->growth : &nothing;
    if (event->stage >= manager->options.stage_count ||
        !manager->stages[event->stage].is_asking ||
        (manager->phase != PHASE_RUNNING && manager->phase != PHASE_STARTING)) {
        return;
    }
    stage_row *gate = &manager->stages[event->stage];
    if (event->cause != GY_CAUSE_NONE) {
        gy_manager_end(manager, GY_STATE,
                       gy_manager_text(manager, "the rewrite after stage '%s' failed: %s",
                                       gate->name,
                                       event->reason != NULL ? event->reason : "no reason"));
        return;
    }
    manager->asked_count--;
    gate->is_asking = false;
    gy_status status = gy_manager_take_growth(manager, event->stage, growth);
    if (status == GY_NOMEM) {
        manager->status = status;
        return;
    }
    if (status < 0) { /* nothing was added, and nothing is in the journal */
        gy_manager_end(manager, status,
                       gy_manager_text(manager, "the rewrite after stage '%s': %s", gate->name,
                                       gy_error_text()));
        return;
    }
    gy_manager_write_grown(manager, event->stage, growth);
    if (growth->task_count > 0) {
        manager->holds[manager->hold_count - 1].position = manager->position;
        gy_manager_sync(manager);
        gy_manager_lose_gone(manager, manager->task_count - growth->task_count);
    }
    if (GY_PLANTED(GROWN_UNSYNCED)) {
        gy_manager_release(manager, manager->position);
    }
    gy_manager_check_refinement(manager, event->stage); /* the stage may have grown meanwhile */
}

bool gy_manager_grown(const gy_manager *manager, uint32_t index, gy_grown *grown)
{
    if (index >= manager->grown_count) {
        return false;
    }
    *grown = manager->grown[index];
    return true;
}
