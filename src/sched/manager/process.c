/* Process slots: a process starts when there is work, starts again after a death, and is killed
 * when it sends nothing for too long. Each message carries the process's generation; late
 * messages of an earlier one are ignored. */
#include "sched/manager/manager_priv.h"

static const int64_t backoff_ns = 10000000, backoff_max_ns = 5000000000;
/* Failed starts in a row, plus two for each slot: then the job fails. */
enum { FAILED_STARTS = 10 };

gy_status gy_manager_slots_new(gy_manager *manager)
{
    uint32_t count = manager->options.process_max;
    bool is_local = manager->options.host_max == 0;
    void *heap = NULL;
    manager->slots = gy_alloc_zero("manager.slots", count, sizeof(slot));
    if (manager->slots == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_reserve("manager.heap", &heap, &manager->heap.capacity, count, sizeof(uint32_t)));
    manager->heap.items = heap;
    for (uint32_t process = 0; process < count; process++) {
        manager->slots[process] = (slot){.state = is_local ? SLOT_EMPTY : SLOT_CLOSED,
                                         .first = GY_NONE,
                                         .last = GY_NONE,
                                         .heap = {GY_NONE, GY_NONE},
                                         .host = is_local ? 0 : GY_NONE};
    }
    manager->empty_count = is_local ? count : 0;
    manager->closed_count = count - manager->empty_count;
    return GY_OK;
}

static void set_state(gy_manager *manager, slot *at, slot_state state)
{
    manager->empty_count -= at->state == SLOT_EMPTY;
    manager->empty_count += state == SLOT_EMPTY;
    manager->starting_count -= at->state == SLOT_STARTING;
    manager->starting_count += state == SLOT_STARTING;
    manager->closed_count -= at->state == SLOT_CLOSED;
    manager->closed_count += state == SLOT_CLOSED;
    at->state = state;
}

static void start(gy_manager *manager, uint32_t process)
{
    slot *at = &manager->slots[process];
    /* The generation is new for the whole job: a lease may return under another slot, and its
     * daemon distinguishes processes by generation alone. */
    manager->spawned = GY_MAX(manager->spawned, at->generation & ((1u << GY_ATTEMPT_BITS) - 1));
    at->generation = (manager->generation << GY_ATTEMPT_BITS) + ++manager->spawned;
    at->heard_ns = manager->now_ns;
    at->has_answered = false;
    set_state(manager, at, SLOT_STARTING);
    gy_effect *spawn = gy_manager_emit(manager, GY_EFFECT_SPAWN);
    spawn->process = process;
    spawn->generation = at->generation;
}

/* Is the host's record synced? An exact task may only run there then, or the next manager would
 * not know of it. */
static bool is_known(const gy_manager *manager, const slot *at)
{
    return manager->options.host_max == 0 || !manager->has_exact ||
           manager->hosts.rows[at->host].position <= manager->synced;
}

/* Number of process places that backup tasks of stragglers wait for; each member of a cohort
 * needs its own process. */
static uint64_t count_backups(const gy_manager *manager)
{
    return manager->backups_due + (uint64_t)manager->cohort_due * manager->options.threads;
}

void gy_manager_spawn(gy_manager *manager)
{
    bool is_time = manager->phase == PHASE_RUNNING ||
                   (manager->phase == PHASE_STARTING && manager->memo_count == 0);
    uint64_t wanted = (uint64_t)manager->ready_width + manager->behind;
    if (!is_time || manager->empty_count == 0 || wanted + count_backups(manager) == 0) {
        return;
    }
    if (manager->now_ns < manager->spawn_ns) {
        gy_manager_wake(manager, manager->spawn_ns);
        return;
    }
    manager->behind = 0; /* until the next check */
    const bool has_pinned = manager->hosts.pinned_ready > 0;
    wanted -= manager->hosts.pinned_ready;
    const uint64_t with_backups = wanted + count_backups(manager);
    const uint32_t late_host =
        manager->backups_due > 0 ? manager->backups_host : manager->cohort_host;
    uint64_t coming = (uint64_t)manager->starting_count * manager->options.threads;
    int64_t next_ns = INT64_MAX;
    for (uint32_t process = 0;
         process < manager->options.process_max && (coming < with_backups || has_pinned);
         process++) {
        slot *at = &manager->slots[process];
        bool may_start = at->state == SLOT_EMPTY && is_known(manager, at) &&
                         (coming < wanted || gy_manager_is_pinned_at(manager, at->host) ||
                          (coming < with_backups && at->host != late_host));
        if (may_start && at->retry_ns <= manager->now_ns) {
            start(manager, process);
            coming += manager->options.threads;
        } else if (may_start) {
            next_ns = GY_MIN(next_ns, at->retry_ns);
        }
    }
    if (next_ns < INT64_MAX && (coming < with_backups || has_pinned)) {
        manager->spawn_ns = next_ns;
        gy_manager_wake(manager, next_ns);
    }
}

bool gy_manager_heard(gy_manager *manager, const gy_sched_event *event)
{
    if (event->process >= manager->options.process_max) {
        return false;
    }
    slot *at = &manager->slots[event->process];
    bool is_there = at->state == SLOT_UP || at->state == SLOT_KILLING;
    if (at->generation != event->generation && !GY_PLANTED(ZOMBIE_HEARD)) {
        return false;
    }
    at->heard_ns = manager->now_ns;
    return is_there;
}

void gy_manager_up(gy_manager *manager, const gy_sched_event *event)
{
    if (event->process >= manager->options.process_max) {
        return;
    }
    slot *at = &manager->slots[event->process];
    if ((at->generation != event->generation && !GY_PLANTED(ZOMBIE_HEARD)) ||
        at->state != SLOT_STARTING) {
        return;
    }
    set_state(manager, at, SLOT_UP);
    at->heard_ns = manager->now_ns;
    manager->failed_starts = 0;
    if (count_backups(manager) > 0) {
        gy_manager_wake(manager, manager->now_ns); /* a backup task waits for it */
    }
    if (manager->options.host_max == 0 || !manager->hosts.rows[at->host].is_avoided) {
        gy_manager_heap_put(manager, event->process);
    }
}

void gy_manager_close(gy_manager *manager, uint32_t process)
{
    slot *at = &manager->slots[process];
    if (at->state == SLOT_UP) {
        gy_manager_heap_remove(manager, process);
        set_state(manager, at, SLOT_KILLING); /* so that no CANCEL is sent to its placements */
    }
}

/* Requeue all tasks that ran there, because of `reason`; `is_counted`: the failure counts
 * against the oldest. */
static void empty(gy_manager *manager, uint32_t process, const char *reason, bool is_counted)
{
    slot *at = &manager->slots[process];
    bool is_ambiguous = at->load > manager->options.threads;
    for (uint32_t place = 0; at->first != GY_NONE; place++) {
        uint32_t index = at->first, run_index = manager->placements[index].run;
        uint32_t task = manager->runs[run_index].task;
        bool is_guilty = (is_counted && place < manager->options.threads) ||
                         (GY_PLANTED(LOST_COUNTED) && place < manager->options.threads);
        manager->rows[task].marks |= is_ambiguous && is_counted ? MARK_SUSPECT : 0;
        gy_manager_placement_end(manager, index);
        if (manager->runs[run_index]
                .is_live) { /* a dead run may have been freed with its last placement */
            const char *words = reason;
            if (at->state != SLOT_CLOSED) {
                words = is_guilty
                            ? gy_manager_text(manager, "process %u ended: %s", process, reason)
                            : gy_manager_text(manager, "lost with process %u", process);
            }
            gy_manager_run_fail(manager, run_index, is_guilty, words);
        }
    }
}

/* ---- Slots of hosts ---- */

/* Processes in a slot that is taken away may live on for a while, so its exact tasks wait. */
static void keep_exact(gy_manager *manager, const slot *at)
{
    for (uint32_t index = at->first; index != GY_NONE;
         index = manager->placements[index].next) {
        uint32_t task = manager->runs[manager->placements[index].run].task;
        const task_row *row = &manager->rows[task];
        if ((row->flags & GY_TASK_EXACT) != 0 && row->state != TASK_COMMITTED &&
            !GY_PLANTED(EXACT_AT_ONCE)) {
            gy_manager_exact_wait(manager, task, manager->now_ns + gy_manager_lease(manager));
        }
    }
}

void gy_manager_slot_take(gy_manager *manager, uint32_t process, const char *reason)
{
    slot *at = &manager->slots[process];
    if (at->state == SLOT_CLOSED) {
        return;
    }
    gy_manager_heap_remove(manager, process);
    set_state(manager, at, SLOT_CLOSED);
    keep_exact(manager, at);
    empty(manager, process, reason, GY_PLANTED(HOST_COUNTED));
    manager->hosts.rows[at->host].slots--;
    at->host = GY_NONE;
    /* So that messages of its old process match no slot. */
    at->generation += at->generation != 0;
}

void gy_manager_slot_give(gy_manager *manager, uint32_t process, uint32_t host)
{
    host_row *row = &manager->hosts.rows[host];
    slot *at = &manager->slots[process];
    GY_ASSERT(at->state == SLOT_CLOSED && at->first == GY_NONE);
    if (GY_GROW("manager.heap", row->heap.items, row->heap.capacity, row->slots + 1) < 0) {
        manager->status = GY_NOMEM;
        return;
    }
    row->slots++;
    at->host = host;
    at->deaths = 0;
    at->retry_ns = 0;
    set_state(manager, at, SLOT_EMPTY);
}

static void retry_later(gy_manager *manager, slot *at)
{
    at->deaths = at->has_answered ? 0 : at->deaths + 1;
    int64_t wait_ns = 0;
    if (at->deaths > 0) {
        wait_ns = backoff_ns << GY_MIN(at->deaths - 1, 20u);
        wait_ns = GY_MIN(wait_ns, backoff_max_ns);
    }
    at->retry_ns = manager->now_ns + wait_ns;
    if (wait_ns > 0) {
        gy_manager_note_process(manager, (uint32_t)(at - manager->slots),
                                gy_manager_text(manager,
                                                "died %u times without an answer: the next one "
                                                "starts in %.2f s at the earliest",
                                                at->deaths, (double)wait_ns / 1e9));
    }
    manager->spawn_ns = GY_MIN(manager->spawn_ns, at->retry_ns);
}

static void count_failed_start(gy_manager *manager, uint32_t process, const char *reason)
{
    manager->failed_starts++;
    if (manager->failed_starts >= FAILED_STARTS + 2 * manager->options.process_max) {
        gy_manager_end(
            manager, GY_PEER,
            gy_manager_text(manager,
                            "no process could be started %u times in a row, last %u: %s",
                            manager->failed_starts, process, reason));
    }
}

void gy_manager_down(gy_manager *manager, const gy_sched_event *event)
{
    if (event->process >= manager->options.process_max) {
        return;
    }
    slot *at = &manager->slots[event->process];
    if ((at->generation != event->generation && !GY_PLANTED(ZOMBIE_HEARD)) ||
        at->state == SLOT_EMPTY || at->state == SLOT_CLOSED) {
        return;
    }
    const char *reason = event->reason != NULL ? event->reason : "no reason is known";
    slot_state before = at->state;
    gy_manager_note_process(manager, event->process,
                            gy_manager_text(manager, "ended: %s", reason));
    gy_manager_close(manager, event->process);
    set_state(manager, at, SLOT_KILLING);
    empty(manager, event->process, reason,
          before == SLOT_UP && (event->cause == GY_CAUSE_NONE || event->cause == GY_CAUSE_OWN));
    set_state(manager, at, SLOT_EMPTY);
    retry_later(manager, at);
    if (manager->options.host_max > 0 && manager->hosts.rows[at->host].is_avoided) {
        gy_manager_slot_take(manager, event->process, "its host is avoided");
    }
    if (before == SLOT_STARTING) {
        count_failed_start(manager, event->process, reason);
    }
}

void gy_manager_kill(gy_manager *manager, uint32_t process, const char *reason)
{
    slot *at = &manager->slots[process];
    gy_manager_note_process(manager, process, reason);
    if (at->state == SLOT_UP) {
        gy_manager_heap_remove(manager, process);
    }
    bool was_starting = at->state == SLOT_STARTING;
    set_state(manager, at, SLOT_KILLING);
    gy_effect *kill = gy_manager_emit(manager, GY_EFFECT_KILL);
    kill->process = process;
    kill->generation = at->generation;
    kill->is_silent = manager->now_ns - at->heard_ns > manager->options.silence_ns;
    kill->reason = reason;
    /* The placements stay until the process has ended: it may write until then. */
    for (uint32_t index = at->first; index != GY_NONE;) {
        uint32_t next = manager->placements[index].next,
                 run_index = manager->placements[index].run;
        if (manager->runs[run_index].is_live) {
            gy_manager_run_fail(manager, run_index, false, reason);
        }
        index = next;
    }
    if (was_starting) {
        count_failed_start(manager, process, reason);
    }
}

void gy_manager_check_processes(gy_manager *manager, bool was_asleep)
{
    for (uint32_t process = 0; process < manager->options.process_max; process++) {
        slot *at = &manager->slots[process];
        at->heard_ns = was_asleep ? manager->now_ns : at->heard_ns;
        int64_t silent_ns = manager->now_ns - at->heard_ns;
        bool is_silent = silent_ns > manager->options.silence_ns;
        if (is_silent && (at->state == SLOT_UP || at->state == SLOT_STARTING)) {
            gy_manager_kill(manager, process,
                            gy_manager_text(manager,
                                            "process %u has sent no heartbeat for %.1f s",
                                            process, (double)silent_ns / 1e9));
        }
    }
}
