/* Read-only views of the manager for the driver. */
#include "sched/manager/manager_priv.h"

#include <string.h>

void gy_manager_task(const gy_manager *manager, uint32_t task, gy_sched_task_state *state)
{
    GY_ASSERT(task < manager->task_count);
    const task_row *row = &manager->rows[task];
    *state = (gy_sched_task_state){.committed = {task, row->epoch, row->committed},
                                   .key = manager->keys[task].key,
                                   .content = manager->keys[task].content,
                                   .stage = row->stage,
                                   .host = GY_NONE};
    if (row->state == TASK_COMMITTED && row->host != GY_HOST_NOWHERE) {
        state->host = row->host;
    }
    if (row->report != NULL) {
        uint32_t size = 0;
        memcpy(&size, row->report, sizeof(size));
        state->report = row->report + sizeof(size);
        state->report_bytes = size;
    }
}

void gy_manager_inputs(const gy_manager *manager, uint32_t task, const gy_edge **edges,
                       uint32_t *count)
{
    GY_ASSERT(task < manager->task_count);
    *edges = manager->edges + manager->rows[task].first_edge;
    *count = gy_manager_edges_end(manager, task) - manager->rows[task].first_edge;
}

void gy_manager_stage(const gy_manager *manager, uint32_t stage, gy_stage_state *state)
{
    GY_ASSERT(stage < manager->options.stage_count);
    *state = manager->stages[stage].state;
}

uint32_t gy_manager_stage_count(const gy_manager *manager)
{
    return manager->options.stage_count;
}

const char *gy_manager_stage_name(const gy_manager *manager, uint32_t stage)
{
    GY_ASSERT(stage < manager->options.stage_count);
    return manager->stages[stage].name;
}

uint32_t gy_manager_task_count(const gy_manager *manager)
{
    return manager->task_count;
}

uint32_t gy_manager_wanted(const gy_manager *manager)
{
    const uint64_t tasks = (uint64_t)manager->ready_width + manager->in_flight;
    const uint64_t threads = manager->options.threads;
    const uint64_t slots =
        (tasks + threads - 1) / threads + (manager->backups_due + threads - 1) / threads;
    return (uint32_t)GY_MAX(GY_MIN(slots, (uint64_t)UINT32_MAX),
                            (uint64_t)gy_manager_wanted_at_once(manager));
}

bool gy_manager_has_exact(const gy_manager *manager)
{
    return manager->has_exact;
}

uint32_t gy_manager_wanted_at_once(const gy_manager *manager)
{
    if (manager->hosts.aside.count > 0) {
        return manager->hosts.aside_max;
    }
    return gy_manager_is_cohort_due(manager) ? manager->cohort_due : 0;
}

uint64_t gy_manager_wanted_not_at(const gy_manager *manager)
{
    return manager->hosts.aside.count == 0 && gy_manager_is_cohort_due(manager)
               ? manager->hosts.rows[manager->cohort_host].id.high
               : 0;
}

uint32_t gy_manager_host_count(const gy_manager *manager)
{
    return (uint32_t)manager->hosts.count;
}

uint32_t gy_manager_wanted_hosts(const gy_manager *manager)
{
    return manager->hosts.aside.count > 0 ? manager->hosts.aside_hosts : 0;
}

bool gy_manager_host(const gy_manager *manager, uint32_t host, gy_host_state *state)
{
    if (host >= manager->hosts.count || manager->hosts.rows[host].state == HOST_UNKNOWN) {
        return false;
    }
    const host_row *row = &manager->hosts.rows[host];
    *state = (gy_host_state){.id = row->id,
                             .address = row->address,
                             .name = row->name,
                             .is_up = row->state == HOST_UP,
                             .is_expected = row->state == HOST_EXPECTED,
                             .is_avoided = row->is_avoided,
                             .slots = row->slots};
    for (size_t i = 0; i < row->held_count; i++) {
        state->held += gy_manager_holds(manager, host, &row->held[i]) &&
                       gy_manager_is_needed(manager, row->held[i].task);
    }
    return true;
}

static size_t host_bytes(const gy_manager *manager)
{
    const gy_hosts *hosts = &manager->hosts;
    size_t bytes = hosts->capacity * sizeof(host_row) +
                   manager->place_capacity * sizeof(run_place) +
                   (hosts->place_of.capacity + hosts->place_items.capacity) * sizeof(uint32_t) +
                   hosts->name_capacity * sizeof(gy_host_name);
    for (size_t i = 0; i < hosts->count; i++) {
        bytes += hosts->rows[i].held_capacity * sizeof(gy_sched_stored);
    }
    return bytes;
}

size_t gy_manager_bytes(const gy_manager *manager)
{
    return sizeof(*manager) + host_bytes(manager) + manager->row_capacity * sizeof(task_row) +
           manager->key_capacity * sizeof(task_keys) +
           manager->edge_capacity * sizeof(gy_edge) +
           manager->link_capacity * sizeof(gy_sched_edge) + manager->chunk_bytes +
           manager->scratch_capacity + manager->journal_capacity +
           (manager->urgent.capacity + manager->ready.capacity) * sizeof(uint32_t) +
           manager->run_capacity * sizeof(run) +
           manager->placement_capacity * sizeof(placement) +
           manager->memo_capacity * sizeof(gy_sched_memo) +
           gy_index_bytes(&manager->memo_index) +
           manager->options.process_max * (sizeof(slot) + sizeof(uint32_t));
}
