/*
 * Runs and their placements: pools with free lists, joined by indices.
 */
#include "sched/state/state.h"

#include <string.h>

/* Amount of work that is sent in advance to a thread. */
static const int64_t ahead_ns = 2000000;

bool gy_manager_has_room(gy_manager *manager, uint32_t width)
{
    if (GY_GROW("manager.runs", manager->runs, manager->run_capacity, manager->run_count + 1) <
        0) {
        manager->status = GY_NOMEM;
        return false;
    }
    if (GY_GROW("manager.slot_heaps", manager->placements, manager->placement_capacity,
                manager->placement_count + width) < 0) {
        manager->status = GY_NOMEM;
        return false;
    }
    if (manager->options.host_max > 0) {
        if (GY_GROW("manager.places", manager->places, manager->place_capacity,
                    manager->run_count + 1) < 0) {
            manager->status = GY_NOMEM;
            return false;
        }
    }
    return true;
}

uint32_t gy_manager_run_new(gy_manager *manager, uint32_t task)
{
    task_row *row = &manager->rows[task];
    run_member *members = NULL;
    if (!gy_manager_has_room(manager, row->width)) {
        return GY_NONE;
    }
    if (row->width > 1) {
        members = gy_alloc_zero("manager.members", row->width, sizeof(*members));
        if (members == NULL) {
            manager->status = GY_NOMEM;
            return GY_NONE;
        }
    }
    uint32_t index = manager->free_run;
    if (index != GY_NONE) {
        manager->free_run = manager->runs[index].next;
    } else {
        index = (uint32_t)manager->run_count++;
    }
    row->attempt = row->attempt >> GY_ATTEMPT_BITS == manager->generation
                       ? row->attempt + 1
                       : (manager->generation << GY_ATTEMPT_BITS) + 1;
    if (GY_PLANTED(ATTEMPTS_AGAIN)) {
        row->attempt &= (1u << GY_ATTEMPT_BITS) - 1;
    }
    manager->runs[index] = (run){.task = task,
                                 .epoch = row->epoch,
                                 .attempt = row->attempt,
                                 .next = row->run,
                                 .placement = GY_NONE,
                                 .width = row->width,
                                 .is_live = true,
                                 .members = members};
    row->run = index;
    manager->stages[row->stage].state.runs++;
    return index;
}

uint32_t gy_manager_placement_new(gy_manager *manager, uint32_t run_index, uint32_t member,
                                  uint32_t process)
{
    slot *at = &manager->slots[process];
    run *owner = &manager->runs[run_index];
    uint32_t index = manager->free_placement;
    if (index != GY_NONE) {
        manager->free_placement = manager->placements[index].next;
    } else {
        index = (uint32_t)manager->placement_count++;
    }
    GY_ASSERT(manager->placement_count <= manager->placement_capacity);
    manager->placements[index] = (placement){
        .run = run_index,
        .process = process,
        .member = member,
        .previous = at->last,
        .next = GY_NONE,
        .began_ns = at->load < manager->options.threads ? manager->now_ns : 0,
    };
    if (at->last != GY_NONE) {
        manager->placements[at->last].next = index;
    } else {
        at->first = index;
    }
    at->last = index;
    at->load++;
    manager->in_flight++;
    owner->left++;
    if (owner->members != NULL) {
        owner->members[member].placement = index;
    } else {
        owner->placement = index;
    }
    return index;
}

uint32_t gy_manager_run_find(const gy_manager *manager, const gy_attempt *id)
{
    if (id->task >= manager->task_count) {
        return GY_NONE;
    }
    uint32_t index = manager->rows[id->task].run;
    while (index != GY_NONE && (manager->runs[index].attempt != id->attempt ||
                                manager->runs[index].epoch != id->epoch)) {
        index = manager->runs[index].next;
    }
    return index;
}

uint32_t gy_manager_run_placement(const gy_manager *manager, uint32_t run_index,
                                  uint32_t member)
{
    const run *owner = &manager->runs[run_index];
    if (member >= owner->width) {
        return GY_NONE;
    }
    return owner->members != NULL ? owner->members[member].placement : owner->placement;
}

bool gy_manager_has_live_run(const gy_manager *manager, uint32_t task)
{
    uint32_t index = manager->rows[task].run;
    while (index != GY_NONE && !manager->runs[index].is_live) {
        index = manager->runs[index].next;
    }
    return index != GY_NONE;
}

/* No process writes the run's files any more: free it. */
static void release(gy_manager *manager, uint32_t index)
{
    run *over = &manager->runs[index];
    GY_ASSERT(!over->is_live && over->left == 0);
    bool is_over = !over->is_committed;
    if (is_over) {
        gy_effect *discard = gy_manager_emit(manager, GY_EFFECT_DISCARD);
        discard->id = (gy_attempt){over->task, over->epoch, over->attempt};
        discard->key = over->key;
        discard->host = manager->options.host_max > 0 ? manager->places[index].host : GY_NONE;
    }
    uint32_t *link = &manager->rows[over->task].run;
    while (*link != index) {
        link = &manager->runs[*link].next;
    }
    *link = over->next;
    for (uint32_t member = 0; over->members != NULL && member < over->width; member++) {
        gy_free(over->members[member].report);
    }
    gy_free(over->members);
    uint32_t task = over->task;
    *over = (run){.next = manager->free_run, .placement = GY_NONE};
    manager->free_run = index;
    task_row *row = &manager->rows[task];
    if (row->state == TASK_RUNNING && row->run == GY_NONE && is_over) {
        gy_manager_requeue(manager, task, true); /* an exact task had to wait for this */
    }
}

/* Placements behind the ended one move up. */
static void move_up(gy_manager *manager, const slot *at)
{
    uint32_t index = at->first;
    for (uint32_t i = 0; i < manager->options.threads && index != GY_NONE; i++) {
        if (manager->placements[index].began_ns == 0) {
            manager->placements[index].began_ns = manager->now_ns;
        }
        index = manager->placements[index].next;
    }
}

void gy_manager_placement_end(gy_manager *manager, uint32_t index)
{
    placement *over = &manager->placements[index];
    slot *at = &manager->slots[over->process];
    uint32_t run_index = over->run;
    run *owner = &manager->runs[run_index];
    *(over->previous != GY_NONE ? &manager->placements[over->previous].next : &at->first) =
        over->next;
    *(over->next != GY_NONE ? &manager->placements[over->next].previous : &at->last) =
        over->previous;
    at->load--;
    manager->in_flight--;
    at->slow -= over->is_slow;
    move_up(manager, at);
    gy_manager_heap_update(manager, over->process);
    if (owner->members != NULL) {
        owner->members[over->member].placement = GY_NONE;
    } else {
        owner->placement = GY_NONE;
    }
    *over = (placement){.next = manager->free_placement};
    manager->free_placement = index;
    GY_ASSERT(owner->left > 0);
    owner->left--;
    if (owner->left == 0 && !owner->is_live) {
        release(manager, run_index);
    }
}

static void cancel_placement(gy_manager *manager, const run *owner, uint32_t index)
{
    placement *member = &manager->placements[index];
    const slot *at = &manager->slots[member->process];
    if (member->cancelled_ns == 0) {
        member->cancelled_ns = GY_MAX(manager->now_ns, 1);
        gy_effect *cancel = gy_manager_emit(manager, GY_EFFECT_CANCEL);
        cancel->process = member->process;
        cancel->generation = at->generation;
        cancel->id = (gy_attempt){owner->task, owner->epoch, owner->attempt};
        cancel->member = member->member;
    }
}

void gy_manager_run_cancel(gy_manager *manager, uint32_t index)
{
    run *dead = &manager->runs[index];
    dead->is_live = false;
    for (uint32_t member = 0; member < dead->width; member++) {
        uint32_t at = gy_manager_run_placement(manager, index, member);
        if (at != GY_NONE && manager->slots[manager->placements[at].process].state == SLOT_UP) {
            cancel_placement(manager, dead, at);
        }
    }
    if (dead->left == 0) {
        release(manager, index);
    }
}

void gy_manager_runs_cancel(gy_manager *manager, uint32_t task, const char *reason)
{
    uint32_t index = manager->rows[task].run;
    while (index != GY_NONE) {
        uint32_t next = manager->runs[index].next;
        if (manager->runs[index].is_live) {
            gy_manager_note_task(manager, task, reason);
            gy_manager_run_cancel(manager, index);
        }
        index = next;
    }
}

void gy_manager_runs_free(gy_manager *manager)
{
    for (size_t i = 0; i < manager->run_count; i++) {
        run *left = &manager->runs[i];
        for (uint32_t member = 0; left->members != NULL && member < left->width; member++) {
            gy_free(left->members[member].report);
        }
        gy_free(left->members);
    }
    gy_free(manager->runs);
    gy_free(manager->places);
    gy_free(manager->placements);
}

uint32_t gy_manager_depth(const gy_manager *manager, const task_row *row)
{
    const stage_row *stage = &manager->stages[row->stage];
    if (row->width > 1 || (row->marks & MARK_SUSPECT) != 0 || stage->sampled == 0) {
        return 1;
    }
    int64_t depth = 1 + ahead_ns / GY_MAX(stage->mean_ns, 1);
    depth = GY_MIN(depth, 1 + (int64_t)stage->sampled);
    return (uint32_t)GY_MIN(depth, (int64_t)manager->options.depth_max);
}

bool gy_manager_is_cohort_due(const gy_manager *manager)
{
    return manager->cohort_due > 0 && manager->backups_due == 0 && manager->ready_width == 0;
}

uint32_t gy_manager_unwanted(const gy_manager *manager)
{
    if (manager->backups_due > 0 && manager->ready_width == 0) {
        return manager->backups_host;
    }
    return gy_manager_is_cohort_due(manager) ? manager->cohort_host : (uint32_t)GY_NONE;
}
