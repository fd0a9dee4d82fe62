/* Managers: started at a daemon, reporting, lost, started again elsewhere under the next epoch.
 * An epoch is stored before an order uses it, as the job's or as its spare one, and only one
 * order uses it. */
#include "control/names/lists.h"

#include <stdio.h>
#include <string.h>

static const int64_t resend_ns = 200000000;

/* Bound the managers per daemon: a thousand jobs may wait for the first daemon, which cannot
 * start a thousand programs at once. */
static bool has_managers_enough(const gy_names *names, uint32_t daemon)
{
    const daemon_row *row = &names->daemons[daemon];
    return GY_MAX(row->managers, row->hosted) >= names->options.manager_max;
}

/* The daemon with the fewest managers, not the last one if there is another. */
static uint32_t choose(const gy_names *names, uint32_t job)
{
    uint32_t best = GY_NONE;
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        if (!gy_names_fits(names, i, job) || has_managers_enough(names, i)) {
            continue;
        }
        bool is_last = i == names->jobs[job].last_host;
        bool best_is_last = best == names->jobs[job].last_host;
        if (best == GY_NONE || (best_is_last && !is_last) ||
            (best_is_last == is_last &&
             names->daemons[i].managers < names->daemons[best].managers)) {
            best = i;
        }
    }
    return best;
}

bool gy_names_may_start(const gy_names *names, uint32_t job)
{
    return choose(names, job) != GY_NONE;
}

/* Note why no daemon may run the manager, for a user who can change that. */
static void report_why_none(gy_names *names, uint32_t job)
{
    static const char *const words[MISFIT_COUNT] = {
        [MISFIT_NONE] = "with managers enough",
        [MISFIT_PLATFORM] = "of another machine, C library or version",
        [MISFIT_LABEL] = "without the label",
        [MISFIT_AVOIDED] = "that fail it",
        [MISFIT_DRAINED] = "drained",
        [MISFIT_TROUBLED] = "in trouble",
        [MISFIT_LOST] = "lost"};
    uint32_t counts[MISFIT_COUNT] = {0};
    char why[GY_CONTROL_REASON_BYTES];
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        if (names->daemons[i].id != 0) {
            counts[gy_names_misfit(names, i, job)]++;
        }
    }
    snprintf(why, sizeof(why), "no daemon can run its manager: ");
    const size_t begin = strlen(why);
    for (int i = MISFIT_NONE; i < MISFIT_COUNT; i++) {
        const size_t at = strlen(why);
        if (counts[i] > 0) {
            snprintf(why + at, sizeof(why) - at, "%s%u %s", at > begin ? ", " : "", counts[i],
                     words[i]);
        }
    }
    if (strlen(why) == begin) {
        snprintf(why + begin, sizeof(why) - begin, "none is there");
    }
    job_row *row = &names->jobs[job];
    if (strcmp(row->waits, why) != 0) {
        memcpy(row->waits, why, sizeof(row->waits));
        gy_names_note_job(names, job, row->waits);
    }
}

static void send_start(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    gy_control_order *order = gy_names_order(names, row->host, GY_ORDER_MANAGER, row->order);
    order->job = row->key;
    order->epoch = row->facts.epoch;
    order->is_resumed = row->facts.is_resumed;
    order->is_forgotten = row->facts.is_forgotten;
    (void)gy_names_never(names, job, &order->slots_max);
    row->reported_ns = names->now_ns;
}

static void await_daemon(gy_names *names, uint32_t job)
{
    names->jobs[job].state = JOB_WAITING;
    report_why_none(names, job);
    gy_names_due(names, job, names->now_ns + names->options.dead_ns / 4);
}

void gy_names_start_manager(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    GY_ASSERT(!row->is_used && row->pending == PENDING_NONE && row->facts.epoch > 0);
    uint32_t daemon = choose(names, job);
    if (daemon == GY_NONE) {
        await_daemon(names, job);
        return;
    }
    row->waits[0] = '\0';
    row->is_used = true;
    row->state = JOB_ORDERED;
    row->order = ++names->order;
    names->daemons[daemon].managers++;
    gy_names_set_host(names, job, daemon);
    send_start(names, job);
    gy_names_due(names, job, names->now_ns + names->options.start_ns);
}

/* Order a manager with the epoch in `facts`. */
static void replace_manager(gy_names *names, uint32_t job)
{
    names->jobs[job].is_used = false;
    gy_names_end_leases(names, job, false);
    gy_names_start_manager(names, job);
}

/* Store the next epoch before any manager has it. */
static void raise_epoch(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    uint32_t most = names->options.attempts_max;
    if (row->facts.is_killed) {
        gy_names_killed(names, job);
        return;
    }
    if (row->facts.attempts >= most) {
        gy_names_finish(names, job, GY_PEER,
                        gy_names_text(names, "%u managers in a row ended early%s%s", most,
                                      row->lost[0] != '\0' ? ": the last one " : "",
                                      row->lost));
        return;
    }
    if (row->facts.epoch == 0 && choose(names, job) == GY_NONE) {
        await_daemon(names, job); /* the table still says that no manager has started */
        return;
    }
    if (gy_names_use_spare_epoch(names, job)) {
        replace_manager(names, job);
        gy_names_store_job(names, job, PENDING_AHEAD);
        return;
    }
    row->next = row->facts;
    row->next.epoch = gy_names_next_epoch(names, job);
    row->next.is_ahead = true;
    row->next.attempts++;
    if (GY_PLANTED_HERE(EPOCH_UNSTORED)) {
        row->facts = row->next;
        row->is_free = true;
        replace_manager(names, job);
        return;
    }
    gy_names_store_job(names, job, PENDING_RAISE);
}

void gy_names_raised(gy_names *names, uint32_t job)
{
    names->jobs[job].is_free = true;
    replace_manager(names, job);
}

void gy_names_forget_manager(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    gy_names_set_host(names, job, GY_NONE);
    row->address[0] = '\0';
    row->wanted = row->gang_count = 0;
    gy_names_unreserve(names, job);
    gy_names_appetite(names, job);
}

void gy_names_manager_lost(gy_names *names, uint32_t job, const char *reason)
{
    job_row *row = &names->jobs[job];
    if (row->pending != PENDING_NONE) { /* checked again when that store ends */
        gy_names_due(names, job, names->now_ns + names->options.dead_ns / 4);
        return;
    }
    int64_t stable_ns = names->options.dead_ns * names->options.attempts_max;
    if (row->state == JOB_UP && names->now_ns - row->up_ns >= stable_ns) {
        row->facts.attempts = 0;
    }
    gy_names_note_job(names, job, gy_names_text(names, "its manager %s", reason));
    snprintf(row->lost, sizeof(row->lost), "%s", reason);
    row->state = JOB_WAITING;
    gy_control_heap_remove(&names->watched, job);
    gy_names_forget_manager(names, job);
    raise_epoch(names, job);
}

void gy_names_wake_waiting(gy_names *names)
{
    for (uint32_t job = 0; job < names->job_count; job++) {
        const job_row *row = &names->jobs[job];
        const bool is_idle = !row->is_used || row->facts.epoch == 0;
        if (row->state == JOB_WAITING && is_idle && row->pending == PENDING_NONE) {
            gy_names_due(names, job, names->now_ns);
        }
    }
}

void gy_names_manager_unlisted(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    const daemon_row *host = &names->daemons[row->host];
    bool has_seen = host->term == names->term && host->order >= row->order;
    if (row->was_listed || (row->state == JOB_ORDERED && row->order != 0 && has_seen)) {
        gy_names_manager_lost(names, job, "has ended");
    } else if (row->state == JOB_ORDERED && names->now_ns - row->reported_ns >= resend_ns) {
        send_start(names, job);
    }
}

void gy_names_check_jobs(gy_names *names)
{
    while (names->watched.count > 0) {
        uint32_t job = names->watched.items[0];
        job_row *row = &names->jobs[job];
        if (row->due_ns > names->now_ns) {
            return;
        }
        gy_control_heap_remove(&names->watched, job);
        if (row->pending != PENDING_NONE) {
            gy_names_due(names, job, names->now_ns + names->options.dead_ns / 4);
        } else if (row->state == JOB_WAITING && row->is_used) {
            raise_epoch(names, job);
        } else if (row->state == JOB_WAITING && row->facts.is_killed) {
            gy_names_killed(names, job);
        } else if (row->state == JOB_WAITING) {
            gy_names_start_manager(names, job);
        } else if (row->state == JOB_ORDERED) {
            gy_names_manager_lost(names, job, "did not register");
        } else if (row->state == JOB_UP) {
            gy_names_manager_lost(names, job,
                                  row->facts.is_killed ? "does not end" : "sends no heartbeat");
        }
    }
}

/* ---- What it says ---- */

/* Take over the gangs it requests; known ones keep their state. */
static void take_gangs(gy_names *names, uint32_t job, const gy_manager_requests *requests)
{
    job_row *row = &names->jobs[job];
    gang_row old[GY_CONTROL_GANGS_MAX];
    uint32_t old_count = row->gang_count;
    memcpy(old, row->gangs, sizeof(old));
    row->gang_count = GY_MIN(requests->gang_count, (uint32_t)GY_CONTROL_GANGS_MAX);
    for (uint32_t i = 0; i < row->gang_count; i++) {
        row->gangs[i] = (gang_row){.request = requests->gangs[i], .since_ns = names->now_ns};
        bool is_new = true;
        for (uint32_t k = 0; k < old_count; k++) {
            if (old[k].request.number == requests->gangs[i].number &&
                old[k].request.width == requests->gangs[i].width) {
                row->gangs[i] = old[k];
                is_new = false;
            }
        }
        if (is_new && row->is_parked) { /* belongs to a request that has ended */
            row->is_parked = false;
            gy_names_no_memory(names, gy_control_heap_put(&names->hungry, job));
        }
    }
    /* The manager no longer wants the gang, or has it. */
    for (uint32_t k = 0; k < old_count; k++) {
        if (gy_names_gang(names, job, old[k].request.number) == NULL &&
            old[k].state == GANG_OFFERED) {
            gy_names_gang_break(names, job, old[k].request.number);
        }
    }
}

/* Decide the gang leases of an earlier life of the name server. Whole gangs are allocated;
 * those of gangs that the manager does not request it has already; incomplete ones end. */
static void take_parts(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    for (uint32_t i = row->leases.first, next; i != GY_NONE; i = next) {
        next = names->leases[i].at_job.next;
        gang_row *gang = gy_names_gang(names, job, names->leases[i].gang);
        if (names->leases[i].state != LEASE_PART ||
            names->leases[i].epoch != row->facts.epoch ||
            (gang != NULL && gang->state != GANG_WAITS)) {
            continue;
        }
        if (gang == NULL) {
            gy_names_take_part(names, i);
        } else {
            gy_names_gang_check(names, job, gang);
        }
        if (gang != NULL && gang->state == GANG_WAITS) {
            gy_names_gang_break(names, job, gang->request.number);
        }
        next = row->leases.first; /* changed leases move to the end of the list */
    }
}

/* Take over its preferred hosts. There may be free slots on a new one, so the job is considered
 * again. */
static void take_hosts(gy_names *names, uint32_t job, const gy_manager_requests *requests)
{
    job_row *row = &names->jobs[job];
    gy_key hosts[GY_CONTROL_HOSTS_MAX];
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) {
        hosts[i] = gy_names_host_key(requests->hosts[i]);
    }
    const bool is_other = row->is_limited != requests->is_limited ||
                          row->elsewhere < requests->elsewhere || row->must != requests->must ||
                          memcmp(hosts, row->hosts, sizeof(hosts)) != 0;
    memcpy(row->hosts, hosts, sizeof(hosts));
    row->is_limited = requests->is_limited;
    row->must = GY_MIN(requests->must, (uint32_t)GY_CONTROL_HOSTS_MAX);
    row->elsewhere = requests->elsewhere;
    if (row->is_parked && is_other) {
        row->is_parked = false;
        gy_names_no_memory(names, gy_control_heap_put(&names->hungry, job));
    }
    if (row->is_limited) { /* each time it is told which of them are missing */
        gy_names_touch(names, job);
    }
}

static void take_requests(gy_names *names, uint32_t job, const gy_manager_requests *requests)
{
    job_row *row = &names->jobs[job];
    row->sequence = requests->sequence;
    row->wanted = GY_MIN(requests->slots, row->facts.slots_max);
    row->expected_count = GY_MIN(requests->expected_count, (uint32_t)GY_CONTROL_EXPECTED_MAX);
    memcpy(row->expected, requests->expected, sizeof(row->expected));
    take_hosts(names, job, requests);
    take_gangs(names, job, requests);
    take_parts(names, job);
    gy_names_appetite(names, job);
    gy_names_seen(names, job, requests->seen);
    uint32_t most = 0;
    if (row->seen < row->version || row->facts.is_killed ||
        (row->gang_count > 0 && gy_names_never(names, job, &most) != 0)) {
        gy_names_touch(names, job);
    }
}

void gy_names_handle_manager(gy_names *names, const gy_manager_requests *requests)
{
    uint32_t job = gy_index_find(&names->by_job, requests->job);
    job_row *row = job == GY_NONE ? NULL : &names->jobs[job];
    if (requests->seen >> 32 > names->term && !GY_PLANTED_HERE(TERM_KEPT)) {
        gy_names_end(names, GY_MISMATCH, "another name server has a later term");
        return;
    }
    const bool is_now = row != NULL && gy_names_is_open(row) &&
                        gy_names_take_epoch(names, job, requests->epoch);
    if (row != NULL && gy_names_is_open(row) && requests->epoch > row->facts.epoch) {
        gy_names_end(names, GY_MISMATCH, "another name server gave a later epoch");
        return;
    }
    if (!is_now) {
        gy_names_effect *over = gy_names_emit(names, GY_NAMES_OVER);
        over->key = requests->job;
        over->epoch = requests->epoch;
        over->address = "";
        over->status = row == NULL ? GY_NOTFOUND : row->state == JOB_ENDED ? GY_OK : GY_STATE;
        return;
    }
    if (row->state == JOB_WAITING) {
        return; /* it was replaced: the next epoch is being stored */
    }
    if (row->state == JOB_ORDERED) {
        row->state = JOB_UP;
        row->up_ns = names->now_ns;
        row->sequence = 0;
        row->seen = 0;
        row->version = GY_MAX(row->version, requests->seen);
    }
    if (!gy_step_take_text(row->address, sizeof(row->address), requests->address)) {
        gy_names_note_job(names, job, "its manager sent an address that is too long");
    }
    int64_t due_ns = names->now_ns + names->options.dead_ns;
    /* An earlier name server received the kill. */
    if (row->facts.is_killed && row->last_ns == 0) {
        row->last_ns = names->now_ns + names->options.grace_ns;
    }
    /* A killed manager may end in order, but not go on for ever. */
    gy_names_due(names, job, row->facts.is_killed ? GY_MIN(due_ns, row->last_ns) : due_ns);
    if (requests->sequence > row->sequence) {
        take_requests(names, job, requests);
    }
}
