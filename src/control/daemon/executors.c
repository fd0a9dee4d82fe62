/* Fork servers and executors: the processes of a job, and the bytes relayed between them and
 * the manager. The machine knows only the numbers of bytes. */
#include "control/daemon/daemon_priv.h"

static gy_daemon_effect *emit_executor(gy_daemon *daemon, gy_daemon_effect_kind kind,
                                       const lease_row *row)
{
    gy_daemon_effect *effect = gy_daemon_emit(daemon, kind, row->job);
    effect->epoch = row->executor_epoch;
    effect->lease = row->id;
    effect->generation = row->generation;
    return effect;
}

static void hand_down(gy_daemon *daemon, lease_row *row)
{
    if (row->executor == EXECUTOR_UP && row->waiting > 0) {
        emit_executor(daemon, GY_DAEMON_RELAY_DOWN, row)->bytes = row->waiting;
        row->waiting = 0;
    }
}

static void executor_start(gy_daemon *daemon, lease_row *row)
{
    row->executor = EXECUTOR_UP;
    emit_executor(daemon, GY_DAEMON_EXECUTOR_START, row);
    hand_down(daemon, row);
}

static void fork_server_start(gy_daemon *daemon, uint32_t job)
{
    job_row *row = &daemon->jobs[job];
    row->fork_server = FORK_SERVER_STARTING;
    row->fork_server_epoch = row->epoch;
    row->has_files = true;
    gy_daemon_emit(daemon, GY_DAEMON_FORK_SERVER_START, job);
}

void gy_daemon_open(gy_daemon *daemon, uint32_t job, const gy_daemon_event *event)
{
    uint32_t lease = gy_index_find(&daemon->by_lease, gy_index_id(event->lease));
    lease_row *row = lease == GY_NONE ? NULL : &daemon->leases[lease];
    if (row == NULL || row->job != job || row->is_ending ||
        (row->epoch != event->epoch && !GY_PLANTED_HERE(OLD_OBEYED))) {
        gy_daemon_refuse(daemon, event, GY_NOTFOUND,
                         "the manager has no such lease at this daemon");
        return;
    }
    if (event->generation <= row->generation) {
        return; /* a repeated message */
    }
    if (row->executor != EXECUTOR_NONE) { /* the manager has given up the old process */
        gy_daemon_executor_end(daemon, lease);
    }
    if (row->executor != EXECUTOR_NONE) {
        gy_daemon_refuse(daemon, event, GY_AGAIN, "the process has not ended yet");
        return;
    }
    if (daemon->trouble[0] != '\0' && !GY_PLANTED_HERE(FULL_TAKEN)) {
        gy_daemon_refuse(daemon, event, GY_LIMIT, daemon->trouble);
        return;
    }
    row->generation = event->generation;
    row->executor_epoch = event->epoch;
    row->executor = EXECUTOR_WAITING;
    row->credit = event->bytes;
    row->ready = row->down = row->waiting = row->owed = 0;
    if (daemon->jobs[job].fork_server == FORK_SERVER_NONE) {
        fork_server_start(daemon, job);
    } else if (daemon->jobs[job].fork_server == FORK_SERVER_UP) {
        executor_start(daemon, row);
    }
}

uint32_t gy_daemon_executor(gy_daemon *daemon, const gy_daemon_event *event, uint32_t job)
{
    uint32_t lease = gy_index_find(&daemon->by_lease, gy_index_id(event->lease));
    const lease_row *row = lease == GY_NONE ? NULL : &daemon->leases[lease];
    bool is_it = row != NULL && row->executor != EXECUTOR_NONE &&
                 row->generation == event->generation && (job == GY_NONE || row->job == job);
    return is_it ? lease : GY_NONE;
}

void gy_daemon_executor_end(gy_daemon *daemon, uint32_t lease)
{
    lease_row *row = &daemon->leases[lease];
    if (row->executor == EXECUTOR_WAITING) {
        gy_daemon_executor_gone(daemon, lease, "closed before its process started");
    } else if (row->executor == EXECUTOR_UP) {
        row->executor = EXECUTOR_ENDING;
        emit_executor(daemon, GY_DAEMON_EXECUTOR_END, row);
    }
}

void gy_daemon_executor_gone(gy_daemon *daemon, uint32_t lease, const char *reason)
{
    lease_row *row = &daemon->leases[lease];
    if (row->executor_epoch == daemon->jobs[row->job].epoch) {
        emit_executor(daemon, GY_DAEMON_TELL_EXECUTOR_GONE, row)->reason = reason;
    }
    row->executor = EXECUTOR_NONE;
    if (row->is_ending) {
        gy_daemon_lease_free(daemon, lease);
    }
}

/* ---- Bytes ---- */

void gy_daemon_relay_up(gy_daemon *daemon, uint32_t lease)
{
    lease_row *row = &daemon->leases[lease];
    uint64_t bytes =
        GY_PLANTED_HERE(CREDIT_IGNORED) ? row->ready : GY_MIN(row->ready, row->credit);
    if (bytes > 0 && row->executor != EXECUTOR_WAITING) {
        row->ready -= bytes;
        row->credit -= GY_MIN(bytes, row->credit);
        emit_executor(daemon, GY_DAEMON_RELAY_UP, row)->bytes = bytes;
    }
}

void gy_daemon_down(gy_daemon *daemon, uint32_t lease, uint64_t bytes)
{
    lease_row *row = &daemon->leases[lease];
    if (bytes > daemon->options.window_bytes ||
        row->down + bytes > daemon->options.window_bytes) {
        gy_daemon_effect *effect = emit_executor(daemon, GY_DAEMON_TELL_REFUSED, row);
        effect->status = GY_LIMIT;
        effect->reason = "the message exceeds the send window";
        gy_daemon_executor_end(daemon, lease);
        return;
    }
    row->down += bytes;
    row->waiting += bytes;
    hand_down(daemon, row);
}

void gy_daemon_took(gy_daemon *daemon, uint32_t lease, uint64_t bytes)
{
    lease_row *row = &daemon->leases[lease];
    bytes = GY_MIN(bytes, row->down - row->waiting);
    row->down -= bytes;
    row->owed += bytes;
    if (row->owed >= daemon->options.window_bytes / 2) {
        emit_executor(daemon, GY_DAEMON_TELL_CREDIT, row)->bytes = row->owed;
        row->owed = 0;
    }
}

/* ---- Fork servers ---- */

void gy_daemon_fork_server_end(gy_daemon *daemon, uint32_t job)
{
    job_row *row = &daemon->jobs[job];
    if (row->fork_server == FORK_SERVER_STARTING || row->fork_server == FORK_SERVER_UP) {
        row->fork_server = FORK_SERVER_ENDING;
        gy_daemon_emit(daemon, GY_DAEMON_FORK_SERVER_END, job)->epoch = row->fork_server_epoch;
    }
}

/* All processes of the fork server have ended with it. A request that waits for a new one may
 * start it now. */
static void fork_server_down(gy_daemon *daemon, uint32_t job, const char *reason)
{
    job_row *row = &daemon->jobs[job];
    bool was_ending = row->fork_server == FORK_SERVER_ENDING, is_wanted = false;
    row->fork_server = FORK_SERVER_NONE;
    for (uint32_t i = 0; i < daemon->options.slots; i++) {
        const lease_row *lease = &daemon->leases[i];
        if (lease->id == 0 || lease->job != job || lease->executor == EXECUTOR_NONE) {
            continue;
        }
        if (lease->executor == EXECUTOR_WAITING && was_ending &&
            lease->executor_epoch == row->epoch && !row->is_over) {
            is_wanted = true;
        } else {
            gy_daemon_executor_gone(daemon, i,
                                    reason != NULL ? reason : "the fork server has ended");
        }
    }
    if (is_wanted) {
        fork_server_start(daemon, job);
    } else if (row->is_over) {
        gy_daemon_over_is_done(daemon, job);
    }
}

void gy_daemon_fork_server_reported(gy_daemon *daemon, const gy_daemon_event *event)
{
    uint32_t job = gy_daemon_job(daemon, event->job);
    job_row *row = job == GY_NONE ? NULL : &daemon->jobs[job];
    if (row == NULL || row->fork_server == FORK_SERVER_NONE ||
        row->fork_server_epoch != event->epoch) {
        return;
    }
    if (event->kind == GY_DAEMON_FORK_SERVER_DOWN) {
        fork_server_down(daemon, job, event->reason);
        gy_daemon_attach_answer(daemon, job);
    } else if (row->fork_server == FORK_SERVER_STARTING) {
        row->fork_server = FORK_SERVER_UP;
        for (uint32_t i = 0; i < daemon->options.slots; i++) {
            if (daemon->leases[i].id != 0 && daemon->leases[i].job == job &&
                daemon->leases[i].executor == EXECUTOR_WAITING) {
                executor_start(daemon, &daemon->leases[i]);
            }
        }
    }
}
