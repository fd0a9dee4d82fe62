/* The step: dispatch an event to its handler, then do what any event may make possible. */
#include "control/daemon/daemon_priv.h"

static gy_status check_options(const gy_daemon_options *options)
{
    if (options->id == 0 || options->incarnation == 0 || options->life == 0) {
        return gy_fail(GY_ARG, "a daemon has an id, an incarnation and a life, none of them 0");
    }
    if (options->slots < 1 || options->slots > GY_CONTROL_SLOTS_MAX) {
        return gy_fail(GY_ARG, "%u slots: expected 1 to %d", options->slots,
                       GY_CONTROL_SLOTS_MAX);
    }
    if (options->beat_ns < 0 || options->keep_ns < 0 || options->fetch_ns < 0) {
        return gy_fail(GY_ARG, "a time is below 0: expected 0 or more");
    }
    return GY_OK;
}

gy_status gy_daemon_new(const gy_daemon_options *options, gy_daemon **daemon)
{
    GY_TRY(check_options(options));
    gy_daemon *made = gy_alloc_zero("daemon", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    gy_daemon_options *own = &made->options;
    *own = *options;
    own->address = own->host = own->labels = NULL; /* those of the caller */
    own->beat_ns = own->beat_ns == 0 ? 400000000 : own->beat_ns;
    own->keep_ns = own->keep_ns == 0 ? 10000000000 : own->keep_ns;
    own->fetch_ns = own->fetch_ns == 0 ? 2000000000 : own->fetch_ns;
    own->fetch_max = own->fetch_max == 0 ? 8 : own->fetch_max;
    own->window_bytes = own->window_bytes == 0 ? 256 << 10 : own->window_bytes;
    own->records_max = own->records_max == 0 ? 4096 : own->records_max;
    made->free_job = made->free_section = GY_NONE;
    made->timer_ns = made->over_ns = INT64_MAX;
    made->leases = gy_alloc_zero("daemon.leases", own->slots, sizeof(lease_row));
    if (made->leases == NULL) {
        gy_daemon_free(made);
        return GY_NOMEM;
    }
    if (!gy_step_take_text(made->address, sizeof(made->address), options->address) ||
        !gy_step_take_text(made->host, sizeof(made->host), options->host) ||
        !gy_step_take_text(made->labels, sizeof(made->labels), options->labels)) {
        gy_daemon_free(made);
        return gy_fail(GY_ARG, "address and host have at most %d bytes, labels %d",
                       GY_CONTROL_TEXT_BYTES - 1, GY_CONTROL_LABELS_BYTES - 1);
    }
    *daemon = made;
    return GY_OK;
}

void gy_daemon_free(gy_daemon *daemon)
{
    if (daemon == NULL) {
        return;
    }
    gy_index_free(&daemon->by_job);
    gy_index_free(&daemon->by_lease);
    gy_index_free(&daemon->by_section);
    gy_index_free(&daemon->by_ticket);
    gy_arena_free(&daemon->texts);
    gy_free(daemon->jobs);
    gy_free(daemon->leases);
    gy_free(daemon->sections);
    gy_free(daemon->waiters);
    gy_free(daemon->lots);
    gy_free(daemon);
}

gy_status gy_daemon_load(gy_daemon *daemon, gy_key job, uint32_t epoch, uint32_t started,
                         bool has_files)
{
    GY_ASSERT(!daemon->has_begun);
    uint32_t index = gy_daemon_job(daemon, job);
    index = index != GY_NONE ? index : gy_daemon_job_new(daemon, job);
    if (index == GY_NONE) {
        return GY_NOMEM;
    }
    job_row *row = &daemon->jobs[index];
    row->epoch = row->want_epoch = GY_MAX(row->epoch, epoch);
    row->started = row->want_started = GY_MAX(row->started, started);
    row->has_files = row->has_files || has_files;
    return GY_OK;
}

static void begin(gy_daemon *daemon)
{
    daemon->has_begun = daemon->is_dirty = true;
    for (size_t i = 0; i < daemon->job_count; i++) {
        daemon->jobs[i].heard_ns = daemon->now_ns; /* the daemon retains files for at least one
                                                      full period after a restart */
    }
}

static void stop(gy_daemon *daemon)
{
    daemon->has_ended = true;
    for (uint32_t i = 0; i < daemon->job_count; i++) {
        job_row *row = &daemon->jobs[i];
        gy_daemon_fork_server_end(daemon, i);
        if (row->hosted == HOSTED_UP) {
            gy_daemon_emit(daemon, GY_DAEMON_MANAGER_END, i)->epoch = row->hosted_epoch;
        }
    }
    gy_daemon_emit(daemon, GY_DAEMON_BYE, GY_NONE);
}

static void take_trouble(gy_daemon *daemon, const char *reason)
{
    if (!gy_step_take_text(daemon->trouble, sizeof(daemon->trouble), reason)) {
        (void)gy_step_take_text(daemon->trouble, sizeof(daemon->trouble),
                                "the daemon's disk fails");
    }
    daemon->is_dirty = true;
    gy_daemon_emit(daemon, GY_DAEMON_NOTE, GY_NONE)->reason =
        daemon->trouble[0] != '\0' ? daemon->trouble : "the disk can be written again";
}

/* ---- Events ---- */

static void executor_reported(gy_daemon *daemon, const gy_daemon_event *event)
{
    uint32_t lease = gy_daemon_executor(daemon, event, GY_NONE);
    if (lease == GY_NONE) {
        return;
    }
    if (event->kind == GY_DAEMON_EXECUTOR_DOWN) {
        const uint32_t job = daemon->leases[lease].job;
        gy_daemon_executor_gone(daemon, lease, event->reason);
        gy_daemon_attach_answer(daemon, job);
    } else if (event->kind == GY_DAEMON_EXECUTOR_READY) {
        daemon->leases[lease].ready += event->bytes;
        gy_daemon_relay_up(daemon, lease);
    } else {
        gy_daemon_took(daemon, lease, event->bytes);
    }
}

static void manager_reported_of_executor(gy_daemon *daemon, uint32_t job,
                                         const gy_daemon_event *event)
{
    uint32_t lease = gy_daemon_executor(daemon, event, job);
    if (lease == GY_NONE) {
        return; /* the manager has been told that it ended, or will be */
    }
    if (event->kind == GY_DAEMON_CLOSE) {
        gy_daemon_executor_end(daemon, lease);
    } else if (event->kind == GY_DAEMON_CREDIT) {
        daemon->leases[lease].credit += event->bytes;
        gy_daemon_relay_up(daemon, lease);
    } else {
        gy_daemon_down(daemon, lease, event->bytes);
    }
}

static void manager_reported(gy_daemon *daemon, const gy_daemon_event *event)
{
    uint32_t job = GY_NONE;
    if (!gy_daemon_may_order(daemon, event, &job) || event->kind == GY_DAEMON_BEAT) {
        return;
    }
    if (event->kind == GY_DAEMON_OPEN) {
        gy_daemon_open(daemon, job, event);
    } else if (event->kind == GY_DAEMON_FETCH) {
        gy_daemon_fetch(daemon, job, event);
    } else if (event->kind == GY_DAEMON_UNFETCH) {
        gy_daemon_unfetch(daemon, job, event->number);
    } else if (event->kind == GY_DAEMON_OVER) {
        gy_daemon_over(daemon, job, event->is_kept);
    } else {
        manager_reported_of_executor(daemon, job, event);
    }
}

static void handle(gy_daemon *daemon, const gy_daemon_event *event)
{
    switch (event->kind) {
    case GY_DAEMON_BEGIN:
        return;
    case GY_DAEMON_TIMER:
        daemon->timer_ns = INT64_MAX;
        gy_daemon_check_leases(daemon);
        gy_daemon_check_jobs(daemon);
        return;
    case GY_DAEMON_STOP:
        stop(daemon);
        return;
    case GY_DAEMON_NAMES_UP:
        daemon->is_dirty = true;
        return;
    case GY_DAEMON_ORDER:
        gy_daemon_take_order(daemon, event->order);
        return;
    case GY_DAEMON_DISK:
        take_trouble(daemon, event->reason);
        return;
    case GY_DAEMON_ATTACH:
        gy_daemon_attach(daemon, event);
        return;
    case GY_DAEMON_BEAT:
    case GY_DAEMON_OPEN:
    case GY_DAEMON_CLOSE:
    case GY_DAEMON_CREDIT:
    case GY_DAEMON_DOWN:
    case GY_DAEMON_FETCH:
    case GY_DAEMON_UNFETCH:
    case GY_DAEMON_OVER:
        manager_reported(daemon, event);
        return;
    case GY_DAEMON_SYNCED:
        gy_daemon_synced(daemon, event);
        return;
    case GY_DAEMON_FORK_SERVER_UP:
    case GY_DAEMON_FORK_SERVER_DOWN:
        gy_daemon_fork_server_reported(daemon, event);
        return;
    case GY_DAEMON_EXECUTOR_DOWN:
    case GY_DAEMON_EXECUTOR_READY:
    case GY_DAEMON_EXECUTOR_TOOK:
        executor_reported(daemon, event);
        return;
    case GY_DAEMON_MANAGER_WAITS:
    case GY_DAEMON_MANAGER_RUNS:
        gy_daemon_manager_waits(daemon, event);
        return;
    case GY_DAEMON_MANAGER_DOWN:
        gy_daemon_manager_down(daemon, event);
        return;
    case GY_DAEMON_FETCHED:
        gy_daemon_fetched(daemon, event);
        return;
    }
}

gy_status gy_daemon_step(gy_daemon *daemon, const gy_daemon_event *event,
                         gy_daemon_effects *effects)
{
    effects->count = 0;
    daemon->effects = effects;
    gy_arena_free(&daemon->texts);
    if (daemon->status < 0) {
        return gy_fail(daemon->status, "the daemon is out of memory");
    }
    bool is_first = !daemon->has_begun && event->kind == GY_DAEMON_BEGIN;
    if (daemon->has_ended || (!daemon->has_begun && !is_first)) {
        return GY_OK;
    }
    daemon->now_ns = GY_MAX(daemon->now_ns, event->now_ns);
    if (is_first) {
        begin(daemon);
    }
    handle(daemon, event);
    GY_CHECK_DEEP(gy_daemon_jobs_hold(daemon, event));
    if (!daemon->has_ended) {
        int64_t next_ns = event->is_more ? INT64_MAX : gy_daemon_start_fetches(daemon);
        if (daemon->is_dirty || daemon->now_ns >= daemon->beat_ns) {
            gy_daemon_emit_state(daemon);
        }
        next_ns = GY_MIN(next_ns, daemon->beat_ns);
        if (next_ns < daemon->timer_ns) {
            daemon->timer_ns = next_ns;
            gy_daemon_emit(daemon, GY_DAEMON_WAKE, GY_NONE)->at_ns = next_ns;
        }
    }
    if (daemon->status < 0) {
        effects->count = 0;
    }
    return daemon->status;
}
