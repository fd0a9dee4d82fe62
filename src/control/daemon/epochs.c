/* The jobs of this daemon: the epoch that it obeys, the manager that it runs, the files that it
 * retains. */
#include "control/daemon/daemon_priv.h"

uint32_t gy_daemon_job(const gy_daemon *daemon, gy_key key)
{
    return gy_index_find(&daemon->by_job, key);
}

uint32_t gy_daemon_job_new(gy_daemon *daemon, gy_key key)
{
    uint32_t job = daemon->free_job;
    if (job != GY_NONE) {
        daemon->free_job = daemon->jobs[job].leases;
    } else {
        if (GY_GROW("daemon.jobs", daemon->jobs, daemon->job_capacity, daemon->job_count + 1) <
            0) {
            gy_daemon_no_memory(daemon, GY_NOMEM);
            return GY_NONE;
        }
        job = (uint32_t)daemon->job_count++;
    }
    daemon->jobs[job] = (job_row){.key = key, .heard_ns = daemon->now_ns};
    daemon->open_jobs++;
    if (gy_index_put(&daemon->by_job, key, job) < 0) {
        gy_daemon_no_memory(daemon, GY_NOMEM);
        return GY_NONE;
    }
    return job;
}

static void forget(gy_daemon *daemon, uint32_t job)
{
    gy_daemon_emit(daemon, GY_DAEMON_FORGET, job);
    gy_index_remove(&daemon->by_job, daemon->jobs[job].key);
    daemon->jobs[job] = (job_row){.leases = daemon->free_job};
    daemon->free_job = job;
    daemon->open_jobs--;
}

/* Does a process of an older manager still run? */
static bool has_older(const gy_daemon *daemon, uint32_t job)
{
    bool has_some = false;
    for (uint32_t i = 0; i < daemon->options.slots && daemon->jobs[job].leases > 0; i++) {
        const lease_row *lease = &daemon->leases[i];
        has_some = has_some ||
                   (lease->id != 0 && lease->job == job &&
                    lease->epoch < daemon->jobs[job].epoch && lease->executor != EXECUTOR_NONE);
    }
    return has_some && !GY_PLANTED_HERE(ATTACHED_EARLY);
}

/* Answer a waiting manager. Its processes must not coexist with those of the older manager, so
 * it waits until they have ended; the program's next job waits until all processes of the last
 * one have ended. */
void gy_daemon_attach_answer(gy_daemon *daemon, uint32_t job)
{
    job_row *row = &daemon->jobs[job];
    if (!row->is_attaching || row->is_syncing || row->epoch != row->want_epoch ||
        (row->is_over && row->fork_server != FORK_SERVER_NONE) || has_older(daemon, job)) {
        return;
    }
    row->is_attaching = row->is_over = row->is_kept = false;
    row->is_attached = true;
    gy_daemon_effect *effect = gy_daemon_emit(daemon, GY_DAEMON_TELL_ATTACHED, job);
    gy_daemon_list_leases(daemon, job, &effect->state);
}

/* Start the ordered manager, unless a later epoch arrived during the same sync. */
static void host_synced(gy_daemon *daemon, uint32_t job)
{
    job_row *row = &daemon->jobs[job];
    if (row->hosted != HOSTED_SYNCING || row->hosted_epoch != row->started) {
        return;
    }
    if (row->hosted_epoch < row->epoch) {
        row->hosted = HOSTED_NONE;
        row->is_behind = true;
        daemon->is_dirty = true;
        return;
    }
    row->hosted = HOSTED_UP;
    row->has_files = true; /* its program and its output */
    gy_daemon_effect *effect = gy_daemon_emit(daemon, GY_DAEMON_MANAGER_START, job);
    effect->epoch = row->started;
    effect->is_resumed = row->is_resumed;
    effect->is_forgotten = row->is_forgotten;
    effect->slots_max = row->slots_max;
}

/* End what the older manager ran, and carry out what the new one requested. */
static void take_epoch(gy_daemon *daemon, uint32_t job)
{
    job_row *row = &daemon->jobs[job];
    if (row->sync_epoch > row->epoch) {
        row->epoch = row->sync_epoch;
        row->is_attached = row->is_over = row->is_kept = false;
        row->heard_ns = daemon->now_ns;
        if (!GY_PLANTED_HERE(OLD_KEPT)) {
            gy_daemon_end_older(daemon, job);
            gy_daemon_fork_server_end(daemon, job);
        }
        gy_daemon_drop_fetches(daemon, job, false);
        if (row->hosted == HOSTED_UP && row->hosted_epoch < row->epoch) {
            row->hosted = HOSTED_ENDING;
            gy_daemon_emit(daemon, GY_DAEMON_MANAGER_END, job)->epoch = row->hosted_epoch;
        }
        daemon->is_dirty = true;
    }
    if (row->sync_started > row->started) {
        row->started = row->sync_started;
        host_synced(daemon, job);
    }
    gy_daemon_attach_answer(daemon, job);
}

void gy_daemon_sync(gy_daemon *daemon, uint32_t job)
{
    job_row *row = &daemon->jobs[job];
    if (row->is_syncing ||
        (row->want_epoch <= row->epoch && row->want_started <= row->started)) {
        return;
    }
    row->sync_epoch = GY_MAX(row->epoch, row->want_epoch);
    row->sync_started = GY_MAX(row->started, row->want_started);
    row->is_syncing = true;
    gy_daemon_effect *effect = gy_daemon_emit(daemon, GY_DAEMON_SYNC, job);
    effect->epoch = row->sync_epoch;
    effect->started = row->sync_started;
    if (GY_PLANTED_HERE(EPOCH_UNSYNCED)) {
        take_epoch(daemon, job);
    }
}

void gy_daemon_synced(gy_daemon *daemon, const gy_daemon_event *event)
{
    uint32_t job = gy_daemon_job(daemon, event->job);
    job_row *row = job == GY_NONE ? NULL : &daemon->jobs[job];
    if (row == NULL || !row->is_syncing) {
        return;
    }
    row->is_syncing = false;
    if (event->status == GY_OK) {
        take_epoch(daemon, job);
    } else { /* nothing is accepted; the sender will repeat its request */
        if (row->is_attaching) {
            gy_daemon_effect *effect = gy_daemon_emit(daemon, GY_DAEMON_TELL_REFUSED, job);
            effect->epoch = row->want_epoch;
            effect->started = row->epoch;
            effect->status = event->status;
            effect->reason = "the daemon cannot write the job's epoch";
        }
        row->is_attaching = false;
        row->want_epoch = row->epoch;
        row->want_started = row->started;
        if (row->hosted == HOSTED_SYNCING) {
            row->hosted = HOSTED_NONE;
            daemon->is_dirty = true;
        }
    }
    gy_daemon_sync(daemon, job);
}

/* A message of the manager renews its leases, but not expired ones: while this host was
 * suspended, others may have started what their processes ran. */
static void hear(gy_daemon *daemon, uint32_t job)
{
    if (!GY_PLANTED_HERE(OVER_RENEWED)) {
        gy_daemon_check_leases(daemon);
    }
    daemon->jobs[job].heard_ns = daemon->now_ns;
}

void gy_daemon_attach(gy_daemon *daemon, const gy_daemon_event *event)
{
    uint32_t job = gy_daemon_job(daemon, event->job);
    job = job != GY_NONE ? job : gy_daemon_job_new(daemon, event->job);
    if (job == GY_NONE) {
        return;
    }
    job_row *row = &daemon->jobs[job];
    if (event->epoch < GY_MAX(row->epoch, row->want_epoch)) {
        gy_daemon_refuse(daemon, event, GY_STATE, "the manager's epoch has ended");
        return;
    }
    row->is_attaching = true;
    row->want_epoch = event->epoch;
    if (event->epoch > row->epoch) {
        gy_daemon_sync(daemon, job);
        return;
    }
    hear(daemon, job);
    gy_daemon_attach_answer(daemon, job);
}

bool gy_daemon_may_order(gy_daemon *daemon, const gy_daemon_event *event, uint32_t *job)
{
    *job = gy_daemon_job(daemon, event->job);
    const job_row *row = *job == GY_NONE ? NULL : &daemon->jobs[*job];
    if (row == NULL || event->epoch > row->epoch ||
        (event->epoch == row->epoch && !row->is_attached)) {
        gy_daemon_refuse(daemon, event, GY_AGAIN, "the manager is not attached");
        return false;
    }
    if (event->epoch < row->epoch && !GY_PLANTED_HERE(OLD_OBEYED)) {
        gy_daemon_refuse(daemon, event, GY_STATE, "the manager's epoch has ended");
        return false;
    }
    hear(daemon, *job);
    return true;
}

/* ---- The manager on this host ---- */

bool gy_daemon_is_behind(gy_daemon *daemon, uint32_t job, const gy_control_order *order)
{
    const bool is_behind = job != GY_NONE && order->epoch < daemon->jobs[job].epoch;
    if (is_behind) {
        daemon->jobs[job].is_behind = true;
    }
    return is_behind;
}

void gy_daemon_start_manager(gy_daemon *daemon, const gy_control_order *order)
{
    uint32_t job = gy_daemon_job(daemon, order->job);
    if (daemon->trouble[0] != '\0' && !GY_PLANTED_HERE(FULL_TAKEN)) {
        return;
    }
    job = job != GY_NONE ? job : gy_daemon_job_new(daemon, order->job);
    if (job == GY_NONE) {
        return;
    }
    job_row *row = &daemon->jobs[job];
    bool is_new = order->epoch > GY_MAX(row->started, row->want_started) ||
                  GY_PLANTED_HERE(MANAGER_AGAIN);
    if (gy_daemon_is_behind(daemon, job, order) || !is_new || row->hosted != HOSTED_NONE) {
        if (row->hosted == HOSTED_UP && order->epoch > row->hosted_epoch) {
            row->hosted = HOSTED_ENDING; /* the name server has replaced it */
            gy_daemon_emit(daemon, GY_DAEMON_MANAGER_END, job)->epoch = row->hosted_epoch;
        }
        return;
    }
    row->hosted = HOSTED_SYNCING;
    row->hosted_epoch = order->epoch;
    row->is_resumed = order->is_resumed;
    row->is_forgotten = order->is_forgotten;
    row->slots_max = order->slots_max;
    row->is_waiting = false;
    row->signal = 0;
    row->want_started = order->epoch;
    row->want_epoch = GY_MAX(row->want_epoch, order->epoch);
    if (GY_PLANTED_HERE(MANAGER_AGAIN) && order->epoch <= row->started) {
        row->hosted = HOSTED_UP;
        gy_daemon_emit(daemon, GY_DAEMON_MANAGER_START, job)->epoch = order->epoch;
    }
    gy_daemon_sync(daemon, job);
}

void gy_daemon_manager_waits(gy_daemon *daemon, const gy_daemon_event *event)
{
    uint32_t job = gy_daemon_job(daemon, event->job);
    if (job != GY_NONE && daemon->jobs[job].hosted_epoch == event->epoch) {
        daemon->jobs[job].is_waiting = event->kind == GY_DAEMON_MANAGER_WAITS;
        daemon->is_dirty = true;
    }
}

void gy_daemon_manager_down(gy_daemon *daemon, const gy_daemon_event *event)
{
    uint32_t job = gy_daemon_job(daemon, event->job);
    if (job != GY_NONE && daemon->jobs[job].hosted_epoch == event->epoch &&
        daemon->jobs[job].hosted != HOSTED_SYNCING) {
        daemon->jobs[job].hosted = HOSTED_NONE;
        daemon->jobs[job].signal = event->signal;
        daemon->is_dirty = true;
    }
}

/* ---- Files ---- */

static void discard(gy_daemon *daemon, uint32_t job)
{
    job_row *row = &daemon->jobs[job];
    gy_daemon_drop_fetches(daemon, job, true);
    gy_daemon_emit(daemon, GY_DAEMON_DISCARD, job);
    row->has_files = row->hosted != HOSTED_NONE; /* a manager that still runs has files here */
}

static bool is_idle(const job_row *row)
{
    return row->fork_server == FORK_SERVER_NONE && row->hosted == HOSTED_NONE &&
           !row->is_syncing;
}

void gy_daemon_over(gy_daemon *daemon, uint32_t job, bool is_kept)
{
    job_row *row = &daemon->jobs[job];
    row->is_over = true;
    row->is_kept = is_kept;
    if (row->fork_server != FORK_SERVER_NONE) {
        gy_daemon_fork_server_end(daemon, job);
    } else if (row->has_files && !is_kept) {
        discard(daemon, job);
    }
}

void gy_daemon_delete_retained(gy_daemon *daemon, const gy_control_order *order)
{
    const uint32_t job = gy_daemon_job(daemon, order->job);
    if (job != GY_NONE && order->epoch >= daemon->jobs[job].epoch) {
        gy_daemon_over(daemon, job, false);
    }
}

void gy_daemon_over_is_done(gy_daemon *daemon, uint32_t job)
{
    job_row *row = &daemon->jobs[job];
    gy_daemon_over(daemon, job, row->is_kept);
    gy_daemon_attach_answer(daemon, job);
}

void gy_daemon_check_jobs(gy_daemon *daemon)
{
    uint32_t oldest = GY_NONE;
    for (uint32_t i = 0; i < daemon->job_count; i++) {
        job_row *row = &daemon->jobs[i];
        bool is_silent = daemon->now_ns - row->heard_ns >= daemon->options.keep_ns;
        if (row->key.high == 0 && row->key.low == 0) {
            continue;
        }
        if ((row->fork_server == FORK_SERVER_UP || row->fork_server == FORK_SERVER_STARTING) &&
            row->leases == 0 && is_silent) {
            gy_daemon_fork_server_end(daemon, i);
        }
        const bool is_of_use = !is_silent && (!row->is_over || row->is_kept);
        if (row->has_files && is_idle(row) && row->leases == 0 && !is_of_use &&
            !GY_PLANTED_HERE(FILES_FOREVER)) {
            discard(daemon, i);
        }
        if (!row->has_files && is_idle(row) && row->leases == 0 && is_silent &&
            row->sections == 0 &&
            (oldest == GY_NONE || row->heard_ns < daemon->jobs[oldest].heard_ns)) {
            oldest = i;
        }
    }
    if (daemon->open_jobs > daemon->options.records_max && oldest != GY_NONE) {
        forget(daemon, oldest);
    }
}
