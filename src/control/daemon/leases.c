/* Orders of the name server, and the leases that they create. */
#include "control/daemon/daemon_priv.h"

static bool has_slots(const gy_daemon *daemon, uint32_t count)
{
    uint32_t used = daemon->lease_count;
    for (uint32_t i = 0; i < daemon->options.slots && GY_PLANTED_HERE(SLOT_EARLY); i++) {
        used -= daemon->leases[i].id != 0 && daemon->leases[i].is_ending;
    }
    return (count <= daemon->options.slots && used <= daemon->options.slots - count) ||
           GY_PLANTED_HERE(SLOT_TWICE);
}

static void lend_one(gy_daemon *daemon, const gy_control_order *order, uint64_t id,
                     uint32_t job)
{
    uint32_t lease = 0;
    while (lease + 1 < daemon->options.slots && daemon->leases[lease].id != 0) {
        lease++;
    }
    if (daemon->leases[lease].id != 0) { /* a planted bug leases the slot again */
        gy_daemon_lease_free(daemon, lease);
    }
    daemon->leases[lease] = (lease_row){.id = id,
                                        .job = job,
                                        .epoch = order->epoch,
                                        .gang = order->gang,
                                        .length_ns = order->length_ns,
                                        .given_ns = daemon->now_ns};
    gy_daemon_no_memory(daemon, gy_index_put(&daemon->by_lease, gy_index_id(id), lease));
    daemon->over_ns = GY_MIN(daemon->over_ns, daemon->now_ns + order->length_ns);
    daemon->jobs[job].leases++;
    daemon->lease_count++;
}

static void lend(gy_daemon *daemon, const gy_control_order *order)
{
    bool is_full = daemon->trouble[0] != '\0' && !GY_PLANTED_HERE(FULL_TAKEN);
    uint32_t job = gy_daemon_job(daemon, order->job);
    if (is_full || order->lease == 0 || order->count == 0 || !has_slots(daemon, order->count) ||
        gy_daemon_is_behind(daemon, job, order)) {
        return; /* the next state does not contain the lease */
    }
    for (uint32_t i = 0; i < order->count; i++) {
        if (gy_index_find(&daemon->by_lease, gy_index_id(order->lease + i)) != GY_NONE) {
            return;
        }
    }
    job = job != GY_NONE ? job : gy_daemon_job_new(daemon, order->job);
    for (uint32_t i = 0; i < order->count && job != GY_NONE; i++) {
        lend_one(daemon, order, order->lease + i, job);
    }
}

void gy_daemon_take_order(gy_daemon *daemon, const gy_control_order *order)
{
    bool is_mine = order->daemon == daemon->options.id &&
                   (order->incarnation == daemon->options.incarnation ||
                    GY_PLANTED_HERE(INCARNATION_IGNORED));
    bool is_later = order->term > daemon->term ||
                    (order->term == daemon->term && order->number > daemon->order);
    if (!is_mine || (!is_later && !GY_PLANTED_HERE(ORDER_AGAIN))) {
        /* So that an older name server learns that it is not the current one. */
        daemon->is_dirty = daemon->is_dirty || is_mine;
        return;
    }
    daemon->term = order->term;
    daemon->order = order->number;
    daemon->is_dirty = true;
    uint32_t lease = gy_index_find(&daemon->by_lease, gy_index_id(order->lease));
    switch (order->kind) {
    case GY_ORDER_LEASE:
        lend(daemon, order);
        return;
    case GY_ORDER_END_LEASE:
        if (lease != GY_NONE) {
            gy_daemon_lease_end(daemon, lease, "revoked by the name server");
        }
        return;
    case GY_ORDER_MANAGER:
        gy_daemon_start_manager(daemon, order);
        return;
    case GY_ORDER_FORGET:
        gy_daemon_delete_retained(daemon, order);
        return;
    }
}

void gy_daemon_lease_free(gy_daemon *daemon, uint32_t lease)
{
    lease_row *row = &daemon->leases[lease];
    daemon->jobs[row->job].leases--;
    daemon->lease_count--;
    gy_index_remove(&daemon->by_lease, gy_index_id(row->id));
    *row = (lease_row){0};
    daemon->is_dirty = true;
}

void gy_daemon_lease_end(gy_daemon *daemon, uint32_t lease, const char *reason)
{
    lease_row *row = &daemon->leases[lease];
    if (row->is_ending) {
        return;
    }
    row->is_ending = true;
    daemon->is_dirty = true;
    if (row->epoch == daemon->jobs[row->job].epoch) {
        gy_daemon_effect *effect = gy_daemon_emit(daemon, GY_DAEMON_TELL_LEASE_GONE, row->job);
        effect->lease = row->id;
        effect->reason = reason;
    }
    if (row->executor == EXECUTOR_NONE) {
        gy_daemon_lease_free(daemon, lease);
    } else {
        gy_daemon_executor_end(daemon, lease);
    }
}

void gy_daemon_end_older(gy_daemon *daemon, uint32_t job)
{
    for (uint32_t i = 0; i < daemon->options.slots && daemon->jobs[job].leases > 0; i++) {
        const lease_row *row = &daemon->leases[i];
        if (row->id != 0 && row->job == job && row->epoch < daemon->jobs[job].epoch) {
            gy_daemon_lease_end(daemon, i, "the manager's epoch has ended");
        }
    }
}

void gy_daemon_check_leases(gy_daemon *daemon)
{
    if (daemon->now_ns < daemon->over_ns) {
        return;
    }
    daemon->over_ns = INT64_MAX;
    for (uint32_t i = 0; i < daemon->options.slots; i++) {
        const lease_row *row = &daemon->leases[i];
        if (row->id == 0 || row->is_ending) {
            continue;
        }
        const job_row *job = &daemon->jobs[row->job];
        int64_t heard_ns =
            row->epoch == job->epoch ? GY_MAX(job->heard_ns, row->given_ns) : row->given_ns;
        if (daemon->now_ns - heard_ns < row->length_ns) {
            daemon->over_ns = GY_MIN(daemon->over_ns, heard_ns + row->length_ns);
        } else if (!GY_PLANTED_HERE(LEASE_FOREVER)) {
            gy_daemon_lease_end(daemon, i, "the manager sends no heartbeat");
        }
    }
}
