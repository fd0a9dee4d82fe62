/* The step: dispatch an event to its handler, then do what any event may make possible. */
#include "sched/manager/manager_priv.h"

#include <string.h>

static const int64_t tick_ns = 250000000, tick_min_ns = 10000000;

static gy_status take_stages(gy_manager *manager, const gy_manager_options *options)
{
    manager->stages =
        gy_alloc_zero("manager.stages", options->stage_count + 1, sizeof(stage_row));
    if (manager->stages == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < options->stage_count; i++) {
        manager->stages[i].is_gate = options->stages[i].is_gate;
        manager->stages[i].name = gy_copy_text("manager.stage", options->stages[i].name);
        if (manager->stages[i].name == NULL) {
            return GY_NOMEM;
        }
    }
    return GY_OK;
}

static void take_options(gy_manager *manager, const gy_manager_options *options)
{
    gy_manager_options *own = &manager->options;
    *own = *options;
    own->stages = NULL; /* those of the caller */
    own->threads = GY_MAX(own->threads, 1u);
    own->depth_max = own->depth_max == 0 ? 64 : own->depth_max;
    own->failures_max = own->failures_max == 0 ? 6 : own->failures_max;
    own->backup_floor_ns = own->backup_floor_ns == 0 ? 1000000000 : own->backup_floor_ns;
    own->silence_ns = own->silence_ns == 0 ? 10000000000 : own->silence_ns;
    own->lease_ns = own->lease_ns == 0 ? 10000000000 : own->lease_ns;
}

static gy_status check_options(const gy_manager_options *options)
{
    if (options->process_max < 1 || options->process_max > 4096) {
        return gy_fail(GY_ARG, "%u processes: 1 to 4096 may be", options->process_max);
    }
    if (options->stage_count > UINT16_MAX) {
        return gy_fail(GY_LIMIT, "%u stages: at most %u", options->stage_count, UINT16_MAX);
    }
    if (options->threads > 1024 || options->depth_max > 65536 || options->failures_max < 0 ||
        options->failures_max > 255 || options->silence_ns < 0) {
        return gy_fail(GY_ARG, "threads %u, depth %u, failures %d, heartbeat timeout %lld ns",
                       options->threads, options->depth_max, options->failures_max,
                       (long long)options->silence_ns);
    }
    if (options->host_max > UINT16_MAX || options->lease_ns < 0) {
        return gy_fail(GY_ARG, "%u hosts, at most %u may be, and leases of %lld ns",
                       options->host_max, UINT16_MAX, (long long)options->lease_ns);
    }
    if (options->generation >= 1u << (32 - GY_ATTEMPT_BITS)) {
        return gy_fail(GY_LIMIT, "the job was resumed %u times", options->generation);
    }
    return GY_OK;
}

gy_status gy_manager_new(const gy_manager_options *options, const gy_growth *job,
                         gy_manager **manager)
{
    GY_TRY(check_options(options));
    gy_manager *made = gy_alloc_zero("manager", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    take_options(made, options);
    made->free_run = made->free_placement = made->backup_wanted = made->memo_missed = GY_NONE;
    made->noted_wait = made->backups_host = GY_NONE;
    made->timer_ns = INT64_MAX;
    gy_status status = take_stages(made, options);
    status = status < 0 ? status : gy_manager_slots_new(made);
    status = status < 0 ? status : gy_manager_add(made, job);
    if (status < 0) {
        gy_manager_free(made);
        return status;
    }
    made->job = gy_manager_job_key(job);
    *manager = made;
    return GY_OK;
}

void gy_manager_free(gy_manager *manager)
{
    if (manager == NULL) {
        return;
    }
    for (uint32_t i = 0; manager->stages != NULL && i < manager->options.stage_count; i++) {
        gy_free(manager->stages[i].name);
        gy_free(manager->stages[i].samples);
    }
    while (manager->chunks != NULL) {
        chunk *next = manager->chunks->next;
        gy_free(manager->chunks);
        manager->chunks = next;
    }
    gy_manager_runs_free(manager);
    gy_manager_memo_free(manager);
    gy_manager_hosts_free(manager);
    gy_arena_free(&manager->texts);
    void *const all[] = {
        manager->stages,  manager->rows,         manager->keys,
        manager->edges,   manager->links,        manager->scratch,
        manager->slots,   manager->heap.items,   manager->urgent.items,
        manager->grown,   manager->holds,        manager->ready.items,
        manager->journal, manager->raised.items, (void *)(uintptr_t)manager->learnt};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        gy_free(all[i]);
    }
    gy_free(manager);
}

/* Count the missing inputs and queue the ready tasks after replay. */
static void count_missing(gy_manager *manager)
{
    for (uint32_t task = 0; task < manager->task_count; task++) {
        task_row *row = &manager->rows[task];
        row->missing = 0;
        for (uint32_t edge = row->first_edge; edge < gy_manager_edges_end(manager, task);
             edge++) {
            row->missing +=
                !gy_manager_is_there(manager, &manager->rows[manager->edges[edge].from]);
        }
        if (row->state != TASK_COMMITTED) {
            gy_manager_requeue(manager, task, false);
        }
    }
}

static void begin(gy_manager *manager)
{
    if (manager->phase != PHASE_NEW) {
        return;
    }
    if (manager->is_ended) {
        gy_manager_end(manager, GY_OK, "");
        return;
    }
    manager->generation = GY_MAX(manager->options.generation, manager->generation + 1);
    if (manager->generation >= 1u << (32 - GY_ATTEMPT_BITS)) {
        gy_manager_end(manager, GY_LIMIT, "the job was resumed too often");
        return;
    }
    gy_manager_write_begin(manager);
    gy_manager_sync(manager);
    manager->phase = PHASE_STARTING;
    manager->awaited = manager->position;
    count_missing(manager);
    gy_manager_hosts_begin(manager);
    for (uint32_t stage = 0; stage < manager->options.stage_count; stage++) {
        gy_manager_check_refinement(manager, stage);
    }
}

static void tick(gy_manager *manager)
{
    bool was_late = manager->timer_ns < manager->now_ns - manager->options.silence_ns / 4;
    manager->timer_ns = INT64_MAX;
    gy_manager_check_processes(manager, was_late);
    gy_manager_check_runs(manager);
    if (manager->phase == PHASE_RUNNING) {
        gy_manager_check_hosts(manager);
    }
}

static void handle(gy_manager *manager, const gy_sched_event *event)
{
    switch (event->kind) {
    case GY_EVENT_BEGIN:
        begin(manager);
        return;
    case GY_EVENT_PROCESS_UP:
        gy_manager_up(manager, event);
        return;
    case GY_EVENT_PROCESS_DOWN:
        gy_manager_down(manager, event);
        return;
    case GY_EVENT_HEARD:
        (void)gy_manager_heard(manager, event);
        return;
    case GY_EVENT_DONE:
        gy_manager_done(manager, event);
        return;
    case GY_EVENT_FAILED:
        gy_manager_failed(manager, event);
        return;
    case GY_EVENT_LOST:
        gy_manager_lost(manager, &event->id, event->reason);
        return;
    case GY_EVENT_GROWN:
        gy_manager_grow(manager, event);
        return;
    case GY_EVENT_TIMER:
        tick(manager);
        return;
    case GY_EVENT_SYNCED:
        gy_manager_synced(manager, event->position);
        return;
    case GY_EVENT_JOURNAL_FAILED:
        manager->has_begun = false; /* so that nothing more is written */
        gy_manager_end(manager, GY_IO,
                       gy_manager_text(manager, "the journal failed: %s",
                                       event->reason != NULL ? event->reason : "no reason"));
        return;
    case GY_EVENT_OUTPUT_SAFE:
        gy_manager_saved(manager, event);
        return;
    case GY_EVENT_PUBLISHED:
        gy_manager_published(manager, event);
        return;
    case GY_EVENT_HOST_UP:
        gy_manager_host_up(manager, event);
        return;
    case GY_EVENT_HOST_LOST:
        gy_manager_host_lost(manager, event);
        return;
    case GY_EVENT_SLOT_OPEN:
        gy_manager_slot_open(manager, event);
        return;
    case GY_EVENT_SLOT_CLOSE:
        gy_manager_slot_close(manager, event);
        return;
    case GY_EVENT_KILL:
        gy_manager_end(manager, GY_CANCELLED,
                       event->reason != NULL ? event->reason : "killed by its user");
        return;
    }
}

int64_t gy_manager_pace(const gy_manager *manager)
{
    int64_t wait_ns = GY_MIN(manager->options.silence_ns / 4, tick_ns);
    if (manager->options.backup_floor_ns > 0) {
        wait_ns = GY_MIN(wait_ns, manager->options.backup_floor_ns / 4);
    }
    return GY_MAX(wait_ns, tick_min_ns);
}

static void watch(gy_manager *manager)
{
    bool is_watching =
        manager->empty_count + manager->closed_count < manager->options.process_max &&
        manager->phase != PHASE_ENDED;
    if (is_watching && manager->timer_ns == INT64_MAX) {
        gy_manager_wake(manager, manager->now_ns + gy_manager_pace(manager));
    }
}

/* Do what any event may make possible. */
static void settle(gy_manager *manager)
{
    watch(manager); /* before a timer that would wake much later */
    if (manager->hosts.wait_count > 0) {
        gy_manager_exact_release(manager);
    }
    if (manager->phase == PHASE_RUNNING) {
        gy_manager_backup_stragglers(manager);
    }
    gy_manager_place(manager);
    gy_manager_spawn(manager);
    gy_manager_finish(manager);
    watch(manager);
}

gy_status gy_manager_step(gy_manager *manager, const gy_sched_event *event, gy_effects *effects)
{
    effects->count = 0;
    manager->effects = effects;
    manager->journal_bytes = 0;
    gy_arena_free(&manager->texts);
    if (manager->status < 0) {
        return gy_fail(manager->status, "the manager is out of memory");
    }
    if (manager->phase == PHASE_ENDED ||
        (manager->phase == PHASE_NEW && event->kind != GY_EVENT_BEGIN &&
         event->kind != GY_EVENT_KILL)) {
        return GY_OK;
    }
    manager->now_ns = GY_MAX(manager->now_ns, event->now_ns);
    handle(manager, event);
    if (manager->phase != PHASE_ENDED && manager->phase != PHASE_NEW) {
        settle(manager);
    }
    gy_manager_seal(manager);
    if (manager->status < 0) {
        effects->count = 0;
    }
    return manager->status;
}
