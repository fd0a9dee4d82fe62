/* Leases: offered to a daemon, confirmed by its state, allocated to the manager, preempted,
 * ended. */
#include "control/names/lists.h"

static const int64_t resend_ns = 200000000;
enum { LOST_MAX = 64 }; /* lost daemons that a manager is told of, at most */

static bool counts(lease_state state)
{
    return state >= LEASE_OFFERED && state <= LEASE_ASKED;
}

/* Change the lease's state, and with it the slot counts of its job and daemon. */
static void set_state(gy_names *names, uint32_t lease, lease_state state)
{
    lease_row *row = &names->leases[lease];
    job_row *job = row->job == GY_NONE ? NULL : &names->jobs[row->job];
    if (job != NULL) {
        uint32_t before = counts(row->state), after = counts(state);
        job->held += after - before;
        job->singles += row->gang == 0 ? after - before : 0;
        job->asked += (uint32_t)(state == LEASE_ASKED) - (uint32_t)(row->state == LEASE_ASKED);
    }
    if (row->state == LEASE_ASKED) {
        asked_leases_remove(&names->asked, names->leases, lease);
    }
    if (state == LEASE_ASKED) {
        row->asked_ns = names->now_ns;
        asked_leases_add(&names->asked, names->leases, lease);
    }
    row->state = state;
    if (job != NULL) {
        gy_names_appetite(names, row->job);
    }
}

static uint32_t lease_new(gy_names *names, uint64_t id, uint32_t daemon, uint32_t job)
{
    uint32_t lease = names->free_lease;
    if (lease == GY_NONE) {
        if (GY_GROW("names.leases", names->leases, names->lease_capacity,
                    names->lease_count + 1) < 0) {
            gy_names_no_memory(names, GY_NOMEM);
            return GY_NONE;
        }
        lease = (uint32_t)names->lease_count++;
    } else {
        names->free_lease = names->leases[lease].job;
    }
    names->leases[lease] = (lease_row){.id = id, .daemon = daemon, .job = job};
    gy_names_no_memory(names, gy_index_put(&names->by_lease, gy_index_id(id), lease));
    names->daemons[daemon].used++;
    daemon_leases_add(&names->daemons[daemon].leases, names->leases, lease);
    if (job != GY_NONE) {
        names->leases[lease].epoch = names->jobs[job].facts.epoch;
        job_leases_push(&names->jobs[job].leases, names->leases,
                        lease); /* lists before all changes */
    }
    return lease;
}

static void lease_free(gy_names *names, uint32_t lease)
{
    lease_row *row = &names->leases[lease];
    if (row->job != GY_NONE) {
        job_leases_remove(&names->jobs[row->job].leases, names->leases, lease);
    }
    row->state = LEASE_FREE;
    row->job = names->free_lease;
    names->free_lease = lease;
}

/* Record a change for the manager; all changes of one step share a version. */
static void changed(gy_names *names, uint32_t lease)
{
    lease_row *row = &names->leases[lease];
    job_row *job = &names->jobs[row->job];
    if (job->bumped != names->step) {
        job->bumped = names->step;
        job->version = GY_MAX(job->version, names->term << 32) + 1;
    }
    row->version = job->version;
    job_leases_remove(&job->leases, names->leases, lease);
    job_leases_add(&job->leases, names->leases, lease);
    gy_names_touch(names, row->job);
}

static void send_offer(gy_names *names, uint32_t lease)
{
    lease_row *row = &names->leases[lease];
    gy_control_order *order = gy_names_order(names, row->daemon, GY_ORDER_LEASE, row->offered);
    order->lease = row->id;
    order->count = row->lot;
    order->job = names->jobs[row->job].key;
    order->epoch = row->epoch;
    order->gang = row->gang;
    order->length_ns = names->options.lease_ns;
    row->reported_ns = names->now_ns;
}

static void send_end(gy_names *names, uint32_t lease)
{
    lease_row *row = &names->leases[lease];
    gy_names_order(names, row->daemon, GY_ORDER_END_LEASE, row->order)->lease = row->id;
    row->reported_ns = names->now_ns;
}

void gy_names_offer(gy_names *names, uint32_t job, uint32_t daemon, gy_names_lot lot)
{
    uint32_t first = GY_NONE;
    uint64_t order = ++names->order;
    for (uint32_t i = 0; i < lot.count; i++) {
        uint64_t id = names->term << 32 | ++names->lease;
        uint32_t lease = lease_new(names, id, daemon, job);
        if (lease == GY_NONE || names->status < 0) {
            return;
        }
        lease_row *row = &names->leases[lease];
        first = i == 0 ? lease : first;
        row->gang = lot.gang;
        row->lot = i == 0 ? lot.count : 0;
        row->offered = row->order = order;
        set_state(names, lease, LEASE_OFFERED);
    }
    gy_names_daemon_changed(names, daemon);
    send_offer(names, first);
}

gang_row *gy_names_gang(gy_names *names, uint32_t job, uint32_t number)
{
    job_row *row = &names->jobs[job];
    for (uint32_t i = 0; number != 0 && i < row->gang_count; i++) {
        if (row->gangs[i].request.number == number) {
            return &row->gangs[i];
        }
    }
    return NULL;
}

void gy_names_gang_check(gy_names *names, uint32_t job, gang_row *gang)
{
    uint32_t number = gang->request.number, confirmed = 0;
    job_row *row = &names->jobs[job];
    for (uint32_t i = row->leases.first; i != GY_NONE; i = names->leases[i].at_job.next) {
        confirmed += names->leases[i].gang == number && names->leases[i].state == LEASE_PART &&
                     names->leases[i].epoch == row->facts.epoch;
    }
    gang->confirmed = confirmed;
    if (confirmed == 0 || (confirmed < gang->request.width && !GY_PLANTED_HERE(HALF_GANG))) {
        return;
    }
    gang->state = GANG_ALLOCATED;
    uint32_t allocated = 0;
    for (uint32_t i = row->leases.first, next; i != GY_NONE; i = next) {
        next = names->leases[i].at_job.next;
        if (names->leases[i].gang != number || names->leases[i].state != LEASE_PART) {
            continue;
        }
        if (allocated < gang->request.width) {
            gy_names_take_part(names, i);
            allocated++;
        } else { /* two name servers have served the daemon */
            gy_names_lease_end(names, i);
        }
    }
}

void gy_names_take_part(gy_names *names, uint32_t lease)
{
    names->leases[lease].held_ns = names->now_ns;
    set_state(names, lease, LEASE_HELD);
    changed(names, lease);
}

void gy_names_gang_break(gy_names *names, uint32_t job, uint32_t number)
{
    gang_row *gang = gy_names_gang(names, job, number);
    for (uint32_t i = names->jobs[job].leases.first, next; i != GY_NONE; i = next) {
        next = names->leases[i].at_job.next;
        lease_state state = names->leases[i].state;
        if (names->leases[i].gang == number &&
            (state == LEASE_OFFERED || state == LEASE_PART)) {
            gy_names_lease_end(names, i);
        }
    }
    if (gang != NULL && gang->state == GANG_OFFERED) {
        gang->state = GANG_WAITS;
        gy_names_appetite(names, job);
    }
}

static void confirmed(gy_names *names, uint32_t lease)
{
    lease_row *row = &names->leases[lease];
    row->is_confirmed = true;
    if (row->state != LEASE_OFFERED) {
        return;
    }
    row->held_ns = names->now_ns;
    gang_row *gang = gy_names_gang(names, row->job, row->gang);
    set_state(names, lease, row->gang != 0 ? LEASE_PART : LEASE_HELD);
    if (row->gang == 0) {
        changed(names, lease);
        /* Together with other preempted leases. */
    } else if (gang != NULL && gang->state == GANG_ALLOCATED) {
        gy_names_lease_end(names, lease);
    } else if (gang != NULL) {
        gy_names_gang_check(names, row->job, gang);
    }
}

/* Adopt a lease made by an earlier life of this name server, or by another one. */
static uint32_t adopt(gy_names *names, uint32_t daemon, const gy_leased *said)
{
    uint32_t job = gy_index_find(&names->by_job, said->job);
    bool is_known = job != GY_NONE && gy_names_is_open(&names->jobs[job]);
    const bool is_now = is_known && gy_names_take_epoch(names, job, said->epoch);
    if (is_known && said->epoch > names->jobs[job].facts.epoch &&
        names->jobs[job].pending != PENDING_RAISE) {
        gy_names_end(names, GY_MISMATCH, "another name server gave a later epoch");
        return GY_NONE;
    }
    is_known = is_now && !said->is_ending;
    uint32_t lease = lease_new(names, said->lease, daemon, is_known ? job : GY_NONE);
    if (lease == GY_NONE || names->status < 0) {
        return GY_NONE;
    }
    lease_row *row = &names->leases[lease];
    row->epoch = said->epoch;
    row->gang = said->gang;
    row->is_confirmed = true;
    row->held_ns = names->now_ns;
    if (job == GY_NONE) { /* this name server may be outdated: the daemon ends the lease itself
                             if so */
        row->state = LEASE_HELD;
        return lease;
    }
    if (!is_known) {
        gy_names_lease_end(names, lease);
        return lease;
    }
    /* A lease of a gang is not allocated before the manager has said whether it waits for that
     * gang. */
    set_state(names, lease, said->gang != 0 ? LEASE_PART : LEASE_HELD);
    if (said->gang == 0) {
        changed(names, lease);
    } else if (names->jobs[job].state == JOB_UP) {
        gang_row *gang = gy_names_gang(names, job, said->gang);
        if (gang == NULL) {
            gy_names_take_part(names, lease);
        } else if (gang->state == GANG_ALLOCATED) {
            gy_names_lease_end(names, lease);
        } else {
            gy_names_gang_check(names, job, gang);
        }
    }
    return lease;
}

void gy_names_confirm(gy_names *names, uint32_t daemon, const gy_leased *said)
{
    uint32_t lease = gy_index_find(&names->by_lease, gy_index_id(said->lease));
    if (lease == GY_NONE) {
        lease = adopt(names, daemon, said);
        if (lease == GY_NONE) {
            return;
        }
    } else if (names->leases[lease].daemon != daemon) {
        return; /* a lease belongs to one daemon: this one misbehaves */
    }
    names->leases[lease].round = names->daemons[daemon].round;
    if (said->is_ending && names->leases[lease].state != LEASE_ENDING) {
        gy_names_lease_end(names, lease); /* its manager is lost or silent */
    }
    confirmed(names, lease);
}

void gy_names_reconcile(gy_names *names, uint32_t daemon)
{
    const daemon_row *row = &names->daemons[daemon];
    for (uint32_t i = row->leases.first, next; i != GY_NONE; i = next) {
        lease_row *lease = &names->leases[i];
        next = lease->at_daemon.next;
        bool is_there = lease->round == row->round;
        bool has_seen = row->term == names->term && row->order >= lease->order;
        bool is_late = names->now_ns - lease->reported_ns >= resend_ns;
        if (!is_there && (lease->is_confirmed ||
                          (row->term == names->term && row->order >= lease->offered))) {
            gy_names_lease_gone(names, i);
            next = row->leases.first; /* breaking a gang ends others in this list */
        } else if (lease->state == LEASE_OFFERED && lease->lot > 0 && is_late && !has_seen &&
                   !GY_PLANTED_HERE(OFFER_FORGOTTEN)) {
            send_offer(names, i);
        } else if (lease->state == LEASE_ENDING && is_late) {
            lease->order = has_seen ? ++names->order : lease->order;
            send_end(names, i);
        }
    }
}

/* The manager must learn that it lost the lease; a tombstone stays until it has. */
static void take_from_manager(gy_names *names, uint32_t lease)
{
    lease_row *row = &names->leases[lease];
    if (row->job != GY_NONE && row->version != 0) {
        changed(names, lease);
    }
}

void gy_names_ask(gy_names *names, uint32_t lease)
{
    GY_ASSERT(names->leases[lease].state == LEASE_HELD);
    gy_names_turn_over(names, lease);
    set_state(names, lease, LEASE_ASKED);
    changed(names, lease);
}

void gy_names_lease_end(gy_names *names, uint32_t lease)
{
    lease_row *row = &names->leases[lease];
    if (row->state == LEASE_ENDING || row->state == LEASE_GONE) {
        return;
    }
    set_state(names, lease, LEASE_ENDING);
    take_from_manager(names, lease);
    names->leases[lease].order = ++names->order;
    send_end(names, lease);
}

void gy_names_lease_gone(gy_names *names, uint32_t lease)
{
    lease_row *row = &names->leases[lease];
    uint32_t job = row->job, gang = row->gang, daemon = row->daemon;
    bool breaks = row->state == LEASE_OFFERED || row->state == LEASE_PART;
    bool was_ending = row->state == LEASE_ENDING;
    GY_ASSERT(row->state != LEASE_GONE && row->state != LEASE_FREE);
    daemon_leases_remove(&names->daemons[daemon].leases, names->leases, lease);
    names->daemons[daemon].used--;
    gy_index_remove(&names->by_lease, gy_index_id(row->id));
    set_state(names, lease, LEASE_GONE);
    if (job == GY_NONE || row->version == 0 ||
        (was_ending && row->version <= names->jobs[job].seen)) {
        lease_free(names, lease);
    } else if (!was_ending) {
        take_from_manager(names, lease);
    }
    gy_names_daemon_changed(names, daemon);
    gy_names_unpark(names);
    if (breaks && gang != 0 && job != GY_NONE && !GY_PLANTED_HERE(HALF_GANG)) {
        gy_names_gang_break(names, job, gang);
    }
}

void gy_names_end_leases(gy_names *names, uint32_t job, bool is_all)
{
    for (uint32_t i = names->jobs[job].leases.first, next; i != GY_NONE; i = next) {
        lease_row *row = &names->leases[i];
        next = row->at_job.next;
        if (!is_all && row->epoch == names->jobs[job].facts.epoch) {
            continue;
        }
        row->version = 0; /* the manager that was told no longer exists */
        job_leases_remove(&names->jobs[job].leases, names->leases, i);
        job_leases_push(&names->jobs[job].leases, names->leases, i);
        if (row->state == LEASE_GONE) {
            lease_free(names, i);
        } else {
            gy_names_lease_end(names, i);
        }
        if (is_all && names->leases[i].state == LEASE_ENDING) { /* the job's row may be freed */
            job_leases_remove(&names->jobs[job].leases, names->leases, i);
            names->leases[i].job = GY_NONE;
        }
    }
}

/* ---- The manager's side ---- */

void gy_names_seen(gy_names *names, uint32_t job, uint64_t version)
{
    job_row *row = &names->jobs[job];
    if (version == 0) { /* the driver of the program's next job has received nothing yet */
        row->seen = 0;
        return;
    }
    if (version > row->version || version <= row->seen) {
        return;
    }
    for (uint32_t i = row->leases.last, previous;
         i != GY_NONE && names->leases[i].version > row->seen; i = previous) {
        previous = names->leases[i].at_job.previous;
        if (names->leases[i].state == LEASE_GONE && names->leases[i].version <= version) {
            lease_free(names, i);
        }
    }
    row->seen = version;
}

void gy_names_touch(gy_names *names, uint32_t job)
{
    if (names->jobs[job].is_touched) {
        return;
    }
    if (GY_GROW("names.touched", names->touched, names->touched_capacity,
                names->touched_count + 1) < 0) {
        gy_names_no_memory(names, GY_NOMEM);
        return;
    }
    names->touched[names->touched_count++] = job;
    names->jobs[job].is_touched = true;
}

static gy_allocation allocation_of(const gy_names *names, const lease_row *row)
{
    const daemon_row *daemon = &names->daemons[row->daemon];
    return (gy_allocation){.lease = row->id,
                           .state = row->state == LEASE_HELD    ? GY_ALLOCATION_HELD
                                    : row->state == LEASE_ASKED ? GY_ALLOCATION_ASKED
                                                                : GY_ALLOCATION_GONE,
                           .gang = row->gang,
                           .is_last = gy_names_is_last(names, row->daemon, row->job),
                           .daemon = daemon->id,
                           .incarnation = daemon->incarnation,
                           .address = daemon->address,
                           .host = daemon->host,
                           .length_ns = names->options.lease_ns / 4 * 5};
}

static gy_allocation lost_one(uint64_t daemon, uint64_t incarnation)
{
    return (gy_allocation){.state = GY_ALLOCATION_GONE,
                           .daemon = daemon,
                           .incarnation = incarnation,
                           .address = "",
                           .host = ""};
}

/* List lost daemons, each as lease 0: a new manager may be about to wait for them. A daemon
 * that a manager expects may have been lost before this name server started: it counts as lost
 * if it has not reported after long enough. */
static size_t add_lost(const gy_names *names, uint32_t job, gy_allocation *all)
{
    const job_row *row = &names->jobs[job];
    const bool is_new = names->now_ns - names->serving_ns < names->options.dead_ns;
    size_t count = 0;
    for (uint32_t i = 0; i < row->expected_count && !is_new; i++) {
        const gy_expected one = row->expected[i];
        const uint32_t daemon = gy_index_find(&names->by_daemon, gy_index_id(one.daemon));
        if (daemon == GY_NONE || names->daemons[daemon].incarnation == 0) {
            all[count++] = lost_one(one.daemon, one.incarnation);
        }
    }
    for (uint32_t i = 0; i < names->daemon_count && count < LOST_MAX; i++) {
        const daemon_row *daemon = &names->daemons[i];
        if (!daemon->is_up && daemon->incarnation != 0) {
            all[count++] = lost_one(daemon->id, daemon->incarnation);
        }
    }
    return count;
}

/* Send all changes since the version that the manager has seen. */
static void tell(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    size_t count = row->seen == 0 ? LOST_MAX : 0;
    for (uint32_t i = row->leases.last; i != GY_NONE && names->leases[i].version > row->seen;
         i = names->leases[i].at_job.previous) {
        count++;
    }
    gy_allocation *all = gy_arena_alloc(&names->texts, (count + 1) * sizeof(*all));
    if (all == NULL) {
        gy_names_no_memory(names, GY_NOMEM);
        return;
    }
    gy_names_effect *effect = gy_names_emit(names, GY_NAMES_ALLOCATIONS);
    effect->key = row->key;
    effect->epoch = row->facts.epoch;
    effect->address = row->address;
    effect->from = row->seen;
    effect->version = row->version;
    effect->allocations = all;
    effect->is_on = row->facts.is_killed;
    effect->allocation_count = row->seen == 0 ? add_lost(names, job, all) : 0;
    effect->sequence = row->sequence;
    effect->missing = gy_names_missing(names, job);
    effect->never = gy_names_never(names, job, &effect->most);
    for (uint32_t i = row->leases.last; i != GY_NONE && names->leases[i].version > row->seen;
         i = names->leases[i].at_job.previous) {
        all[effect->allocation_count++] = allocation_of(names, &names->leases[i]);
    }
    row->seen = GY_PLANTED_HERE(ALLOCATION_ONCE) ? row->version : row->seen;
}

void gy_names_send_allocations(gy_names *names)
{
    for (size_t i = 0; i < names->touched_count; i++) {
        uint32_t job = names->touched[i];
        names->jobs[job].is_touched = false;
        if (names->jobs[job].state == JOB_UP) {
            tell(names, job);
        }
    }
    names->touched_count = 0;
}

/* A manager reports a bad daemon. One job may be wrong; the name server believes two. */
static void handle_bad(gy_names *names, uint32_t job, uint32_t daemon, const char *reason)
{
    daemon_row *row = &names->daemons[daemon];
    job_row *of = &names->jobs[job];
    if (gy_names_fits(names, daemon, job)) {
        gy_names_avoid(names, job, daemon);
    }
    gy_names_note_daemon(names, daemon,
                         gy_names_text(names, "job %s avoids it: %s", of->facts.name,
                                       reason != NULL ? reason : "no reason"));
    if (row->has_bad && !gy_key_is_same(row->bad_job, of->key) && !row->is_drained &&
        !row->is_storing) {
        gy_names_note_daemon(names, daemon, "two jobs avoid it");
        gy_names_store_drain(names, daemon, true);
    }
    row->has_bad = true;
    row->bad_job = of->key;
}

void gy_names_release(gy_names *names, const gy_names_event *event)
{
    uint32_t job = gy_index_find(&names->by_job, event->key);
    uint32_t lease = gy_index_find(&names->by_lease, gy_index_id(event->lease));
    if (job == GY_NONE || lease == GY_NONE || names->leases[lease].job != job ||
        names->leases[lease].epoch != event->epoch ||
        names->leases[lease].state == LEASE_ENDING) {
        return;
    }
    if (event->is_bad) {
        handle_bad(names, job, names->leases[lease].daemon, event->reason);
    }
    gy_names_lease_end(names, lease);
}

void gy_names_check_preempted(gy_names *names)
{
    while (names->asked.first != GY_NONE &&
           names->now_ns - names->leases[names->asked.first].asked_ns >=
               names->options.grace_ns) {
        gy_names_lease_end(names, names->asked.first);
    }
}
