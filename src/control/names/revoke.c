/* Periodically preempts slots of jobs beyond their share while others wait for theirs. A slot
 * moves only if the poorer job does not become richer than the loser: (held of the rich) /
 * weight > (held of the poor + 1) / weight, so no slot moves back. */
#include "control/names/names_priv.h"

enum { ASKS_MAX = 1024 }; /* preemptions in one tick */

static bool is_richer(const void *arg, uint32_t a, uint32_t b)
{
    const gy_names *names = arg;
    uint64_t of_a = (uint64_t)names->jobs[a].planned * names->jobs[b].facts.weight;
    uint64_t of_b = (uint64_t)names->jobs[b].planned * names->jobs[a].facts.weight;
    return of_a != of_b ? of_a > of_b : a < b;
}

static bool is_poorer(const void *arg, uint32_t a, uint32_t b)
{
    const gy_names *names = arg;
    uint64_t of_a = (uint64_t)(names->jobs[a].planned + 1) * names->jobs[b].facts.weight;
    uint64_t of_b = (uint64_t)(names->jobs[b].planned + 1) * names->jobs[a].facts.weight;
    return of_a != of_b ? of_a < of_b : a < b;
}

/* May this lease be preempted for the job? */
static bool is_askable(const gy_names *names, const lease_row *row, uint32_t job)
{
    return row->state == LEASE_HELD && row->job != job && row->job != GY_NONE &&
           (row->gang == 0 || names->now_ns - row->held_ns >= names->options.gang_hold_ns) &&
           gy_names_fits(names, row->daemon, job);
}

/* The youngest such lease, a single slot if possible. */
static uint32_t find_askable(const gy_names *names, uint32_t rich, uint32_t poor)
{
    uint32_t found = GY_NONE;
    for (uint32_t i = names->jobs[rich].leases.last; i != GY_NONE;
         i = names->leases[i].at_job.previous) {
        const lease_row *row = &names->leases[i];
        if (is_askable(names, row, poor) && (row->gang == 0 || found == GY_NONE) &&
            gy_names_suits(names, row->daemon, poor)) {
            found = i;
            if (row->gang == 0) {
                break;
            }
        }
    }
    return found;
}

/* Preempt it, with all of its gang. Returns how many. */
static uint32_t ask(gy_names *names, uint32_t lease)
{
    uint32_t gang = names->leases[lease].gang, asked = 0;
    if (gang == 0) {
        gy_names_ask(names, lease);
        return 1;
    }
    const job_row *job = &names->jobs[names->leases[lease].job];
    for (uint32_t i = job->leases.last, previous; i != GY_NONE; i = previous) {
        previous = names->leases[i].at_job.previous;
        if (names->leases[i].gang == gang && names->leases[i].state == LEASE_HELD) {
            gy_names_ask(names, i);
            asked++;
        }
    }
    return asked;
}

static bool may_move(const gy_names *names, uint32_t rich, uint32_t poor)
{
    const job_row *one = &names->jobs[rich], *other = &names->jobs[poor];
    return (uint64_t)one->planned * other->facts.weight >
           (uint64_t)(other->planned + 1) * one->facts.weight;
}

static bool is_waiting(const gy_names *names, uint32_t job)
{
    const job_row *row = &names->jobs[job];
    return (row->is_parked || gy_control_heap_has(&names->hungry, job)) &&
           row->singles < row->wanted && row->held < row->facts.slots_max &&
           names->now_ns - row->hungry_ns >= names->options.patience_ns;
}

/* Plan one more slot for `poor`. */
static void plan_one(gy_names *names, gy_control_heap *poor)
{
    uint32_t job = poor->items[0];
    job_row *row = &names->jobs[job];
    row->planned++;
    if (row->planned - (row->held - row->asked) >= row->wanted - row->singles) {
        gy_control_heap_remove(poor, job);
    } else {
        gy_names_no_memory(names, gy_control_heap_put(poor, job));
    }
}

/* Find the jobs with slots and those that wait. Slots about to be released are planned for the
 * poorest. */
static void plan(gy_names *names, gy_control_heap *rich, gy_control_heap *poor)
{
    uint32_t coming = 0;
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        coming += names->daemons[i].used;
    }
    for (uint32_t i = 0; i < names->job_count; i++) {
        job_row *row = &names->jobs[i];
        row->planned = row->held - row->asked;
        coming -= row->planned;
        if (row->planned > 0) {
            gy_names_no_memory(names, gy_control_heap_put(rich, i));
        }
        if (is_waiting(names, i)) {
            gy_names_no_memory(names, gy_control_heap_put(poor, i));
        }
    }
    for (; coming > 0 && poor->count > 0; coming--) {
        plan_one(names, poor);
    }
}

/* Move slots from the richest to the poorest; some rich jobs have none that others may use. */
static void move_singles(gy_names *names, gy_control_heap *rich, gy_control_heap *poor,
                         uint32_t *passed)
{
    uint32_t passed_count = 0;
    for (int asks = 0; asks < ASKS_MAX && poor->count > 0 && names->status == GY_OK; asks++) {
        const uint32_t to = poor->items[0];
        const uint32_t from = rich->count > 0 ? rich->items[0] : GY_NONE;
        const bool is_any = from != GY_NONE && may_move(names, from, to);
        const uint32_t lease = is_any ? find_askable(names, from, to) : GY_NONE;
        if (!is_any && passed_count == 0) {
            return;
        }
        if (lease != GY_NONE) {
            const uint32_t asked = ask(names, lease);
            names->jobs[from].planned -= GY_MIN(asked, names->jobs[from].planned);
            gy_names_no_memory(names, gy_control_heap_put(rich, from));
            plan_one(names, poor);
        } else if (is_any) {
            gy_control_heap_remove(rich, from);
            passed[passed_count++] = from;
        } else { /* it blocks no other job */
            gy_control_heap_remove(poor, to);
        }
        if (poor->count == 0 || poor->items[0] != to) {
            for (; passed_count > 0; passed_count--) {
                gy_names_no_memory(names, gy_control_heap_put(rich, passed[passed_count - 1]));
            }
        }
    }
}

static void balance_singles(gy_names *names)
{
    gy_control_heap rich = {.arg = names, .is_before = is_richer};
    gy_control_heap poor = {.arg = names, .is_before = is_poorer};
    uint32_t *passed = gy_arena_alloc(&names->texts, (names->job_count + 1) * sizeof(*passed));
    if (passed == NULL) {
        gy_names_no_memory(names, GY_NOMEM);
        return;
    }
    plan(names, &rich, &poor);
    move_singles(names, &rich, &poor, passed);
    gy_control_heap_free(&rich);
    gy_control_heap_free(&poor);
}

/* ---- The next gang ---- */

/* A lease of the job with the most for its weight. */
static uint32_t richest_lease(const gy_names *names, uint32_t job)
{
    uint32_t found = GY_NONE;
    for (uint32_t i = 0; i < names->lease_count; i++) {
        const lease_row *row = &names->leases[i];
        bool is_here =
            names->reserved_daemon == GY_NONE || row->daemon == names->reserved_daemon;
        if (is_here && row->state == LEASE_HELD && is_askable(names, row, job) &&
            (found == GY_NONE || is_richer(names, row->job, names->leases[found].job))) {
            found = i;
        }
    }
    return found;
}

static void balance_gang(gy_names *names)
{
    uint32_t job = names->reserved, coming = 0, width = 0;
    const job_row *row = &names->jobs[job];
    int64_t since_ns = names->now_ns;
    for (uint32_t i = 0; i < row->gang_count; i++) {
        if (row->gangs[i].state == GANG_WAITS && !row->gangs[i].is_impossible) {
            width = row->gangs[i].request.width;
            since_ns = row->gangs[i].since_ns;
            break;
        }
    }
    if (width == 0 || names->now_ns - since_ns < names->options.patience_ns) {
        return;
    }
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        if ((names->reserved_daemon == GY_NONE || names->reserved_daemon == i) &&
            gy_names_fits(names, i, job)) {
            coming += gy_names_free_slots(&names->daemons[i]);
        }
    }
    for (uint32_t i = 0; i < names->lease_count; i++) {
        const lease_row *lease = &names->leases[i];
        bool is_here =
            names->reserved_daemon == GY_NONE || lease->daemon == names->reserved_daemon;
        coming += is_here && (lease->state == LEASE_ASKED || lease->state == LEASE_ENDING) &&
                  gy_names_fits(names, lease->daemon, job);
    }
    for (uint32_t i = 0; i < names->job_count; i++) {
        names->jobs[i].planned = names->jobs[i].held - names->jobs[i].asked;
    }
    while (coming < width) {
        uint32_t lease = richest_lease(names, job);
        if (lease == GY_NONE) {
            return;
        }
        uint32_t from = names->leases[lease].job, asked = ask(names, lease);
        names->jobs[from].planned -= GY_MIN(asked, names->jobs[from].planned);
        coming += asked;
    }
}

void gy_names_balance(gy_names *names)
{
    if (GY_PLANTED_HERE(NEVER_ASKED)) {
        return;
    }
    if (names->reserved != GY_NONE) {
        balance_gang(names);
    }
    if (names->reserved == GY_NONE || names->reserved_daemon != GY_NONE) {
        balance_singles(names);
    }
}
