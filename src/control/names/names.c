/* The step: dispatch an event to its handler, then do what any event may make possible. */
#include "control/names/names_priv.h"

#ifdef GYRE_PLANTED
gy_control_plant gy_control_planted;
#endif

static const int64_t tick_ns = 100000000;

static bool is_freer(const void *arg, uint32_t a, uint32_t b)
{
    const gy_names *names = arg;
    uint32_t of_a = gy_names_free_slots(&names->daemons[a]);
    uint32_t of_b = gy_names_free_slots(&names->daemons[b]);
    return of_a != of_b ? of_a > of_b : a < b;
}

/* Compares (held + 1) / weight, the share each would have then; of equals the one that waits
 * longer goes first. */
static bool is_hungrier(const void *arg, uint32_t a, uint32_t b)
{
    const gy_names *names = arg;
    const job_row *one = &names->jobs[a], *other = &names->jobs[b];
    uint64_t of_a = (uint64_t)(one->held + 1) * other->facts.weight;
    uint64_t of_b = (uint64_t)(other->held + 1) * one->facts.weight;
    if (GY_PLANTED_HERE(SHARE_IGNORED)) {
        return a < b;
    }
    if (of_a != of_b) {
        return of_a < of_b;
    }
    return one->hungry_ns != other->hungry_ns ? one->hungry_ns < other->hungry_ns : a < b;
}

static bool is_due_before(const void *arg, uint32_t a, uint32_t b)
{
    const gy_names *names = arg;
    return names->jobs[a].due_ns < names->jobs[b].due_ns;
}

static bool is_longer_silent(const void *arg, uint32_t a, uint32_t b)
{
    const gy_names *names = arg;
    return names->daemons[a].heard_ns < names->daemons[b].heard_ns;
}

static int64_t or_default(int64_t value, int64_t instead)
{
    return value == 0 ? instead : value;
}

gy_status gy_names_new(const gy_names_options *options, gy_names **names)
{
    static const int64_t second_ns = 1000000000;
    if (options->dead_ns < 0 || options->lease_ns < 0 || options->patience_ns < 0 ||
        options->grace_ns < 0 || options->gang_hold_ns < 0 || options->start_ns < 0) {
        return gy_fail(GY_ARG, "a time is below 0: expected 0 or more");
    }
    gy_names *made = gy_alloc_zero("names", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    gy_names_options *own = &made->options;
    own->dead_ns = or_default(options->dead_ns, 2 * second_ns);
    own->lease_ns = or_default(options->lease_ns, 10 * second_ns);
    own->patience_ns = or_default(options->patience_ns, second_ns);
    own->grace_ns = or_default(options->grace_ns, 10 * second_ns);
    own->gang_hold_ns = or_default(options->gang_hold_ns, 60 * second_ns);
    own->start_ns = or_default(options->start_ns, 10 * second_ns);
    own->attempts_max = (uint32_t)or_default(options->attempts_max, 5);
    own->daemon_max = (uint32_t)or_default(options->daemon_max, 4096);
    own->job_max = (uint32_t)or_default(options->job_max, 4096);
    own->manager_max = (uint32_t)or_default(options->manager_max, 64);
    own->ended_max = (uint32_t)or_default(options->ended_max, 1000);
    made->free_lease = made->free_job = made->reserved = made->reserved_daemon = GY_NONE;
    made->asked = made->ended = GY_LIST_EMPTY;
    made->timer_ns = INT64_MAX;
    made->free = (gy_control_heap){.arg = made, .is_before = is_freer};
    made->hungry = (gy_control_heap){.arg = made, .is_before = is_hungrier};
    made->watched = (gy_control_heap){.arg = made, .is_before = is_due_before};
    made->beating = (gy_control_heap){.arg = made, .is_before = is_longer_silent};
    *names = made;
    return GY_OK;
}

void gy_names_free(gy_names *names)
{
    if (names == NULL) {
        return;
    }
    gy_index *const tables[] = {&names->by_daemon, &names->by_job, &names->by_lease,
                                &names->by_host};
    for (size_t i = 0; i < GY_COUNT(tables); i++) {
        gy_index_free(tables[i]);
    }
    gy_control_heap *const heaps[] = {&names->free, &names->hungry, &names->watched,
                                      &names->beating};
    for (size_t i = 0; i < GY_COUNT(heaps); i++) {
        gy_control_heap_free(heaps[i]);
    }
    gy_arena_free(&names->texts);
    gy_free(names->daemons);
    gy_free(names->jobs);
    gy_free(names->leases);
    gy_free(names->parked);
    gy_free(names->touched);
    gy_free(names);
}

/* The term is stored: from now on this name server gives orders. Managers in the table, and
 * their daemons, have time to find it and report before they are replaced. */
static void serve(gy_names *names)
{
    const int64_t heard_ns = GY_MIN(names->options.start_ns, names->options.dead_ns * 3 / 2);
    names->phase = NAMES_SERVING;
    names->serving_ns = names->now_ns;
    for (uint32_t job = 0; job < names->job_count; job++) {
        job_row *row = &names->jobs[job];
        if (row->state == JOB_ORDERED) {
            gy_names_due(names, job, names->now_ns + heard_ns);
        } else if (row->state == JOB_WAITING) {
            gy_names_due(names, job, names->now_ns);
        }
    }
}

static void drain(gy_names *names, const gy_names_event *event)
{
    uint32_t daemon = gy_names_daemon_row(names, event->id);
    if (event->id == 0 || daemon == GY_NONE) {
        gy_names_answer(names, event->asker, GY_NOTFOUND, "there is no such daemon");
    } else if (names->daemons[daemon].is_storing) {
        gy_names_answer(names, event->asker, GY_AGAIN, "it is just being changed");
    } else {
        names->daemons[daemon].asker = event->asker;
        gy_names_store_drain(names, daemon, event->is_on);
    }
}

static void handle(gy_names *names, const gy_names_event *event)
{
    switch (event->kind) {
    case GY_NAMES_BEGIN:
        return;
    case GY_NAMES_TIMER:
        names->timer_ns = INT64_MAX;
        return;
    case GY_NAMES_STORED:
        gy_names_stored(names, event);
        return;
    case GY_NAMES_DAEMON:
        gy_names_handle_daemon(names, event->daemon);
        return;
    case GY_NAMES_DAEMON_BYE:
        gy_names_bye(names, event);
        return;
    case GY_NAMES_MANAGER:
        gy_names_handle_manager(names, event->manager);
        return;
    case GY_NAMES_GIVE_BACK:
        gy_names_release(names, event);
        return;
    case GY_NAMES_JOB_END:
        gy_names_job_end(names, event);
        return;
    case GY_NAMES_SUBMIT:
        gy_names_submit(names, event);
        return;
    case GY_NAMES_KILL:
        gy_names_kill(names, event);
        return;
    case GY_NAMES_RESUME:
        gy_names_resume(names, event);
        return;
    case GY_NAMES_DRAIN:
        drain(names, event);
        return;
    }
}

/* Do what any event may make possible. */
static void settle(gy_names *names)
{
    gy_names_check_daemons(names);
    gy_names_check_jobs(names);
    gy_names_check_preempted(names);
    gy_names_lend(names);
    bool has_hungry = names->hungry.count > 0 || names->parked_count > 0;
    if (has_hungry && names->now_ns >= names->tick_ns) {
        gy_names_balance(names);
        const bool has_turns = gy_names_turns(names);
        if (gy_names_yield(names) || has_turns) {
            gy_names_lend(names);
        }
        names->tick_ns = names->now_ns + tick_ns;
    }
    gy_names_send_allocations(names);
    int64_t next_ns = has_hungry ? names->tick_ns : INT64_MAX;
    if (names->beating.count > 0) {
        const daemon_row *first = &names->daemons[names->beating.items[0]];
        next_ns = GY_MIN(next_ns, first->heard_ns + names->options.dead_ns);
    }
    if (names->watched.count > 0) {
        next_ns = GY_MIN(next_ns, names->jobs[names->watched.items[0]].due_ns);
    }
    if (names->asked.first != GY_NONE) {
        next_ns = GY_MIN(next_ns,
                         names->leases[names->asked.first].asked_ns + names->options.grace_ns);
    }
    if (next_ns != INT64_MAX) {
        gy_names_wake(names, next_ns);
    }
}

gy_status gy_names_step(gy_names *names, const gy_names_event *event, gy_names_effects *effects)
{
    effects->count = 0;
    names->effects = effects;
    gy_arena_free(&names->texts);
    if (names->status < 0) {
        return gy_fail(names->status, "the name server is out of memory");
    }
    names->now_ns = GY_MAX(names->now_ns, event->now_ns);
    names->step++;
    if (names->phase == NAMES_NEW && event->kind == GY_NAMES_BEGIN) {
        names->phase = NAMES_STARTING;
        gy_names_store_term(names);
    } else if (names->phase == NAMES_STARTING && event->kind == GY_NAMES_STORED) {
        gy_names_stored(names, event);
        if (names->phase == NAMES_STARTING) {
            serve(names);
            settle(names);
        }
    } else if (names->phase == NAMES_SERVING) {
        handle(names, event);
        if (names->phase == NAMES_SERVING) {
            settle(names);
        }
    } else if (event->asker != 0) {
        gy_names_answer(names, event->asker, GY_AGAIN, "the name server is not ready");
    }
    if (names->status < 0) {
        effects->count = 0;
    }
    return names->status;
}

bool gy_names_daemon_at(const gy_names *names, uint32_t index, gy_names_daemon *daemon)
{
    if (index >= names->daemon_count) {
        return false;
    }
    const daemon_row *row = &names->daemons[index];
    *daemon = (gy_names_daemon){.id = row->id,
                                .incarnation = row->incarnation,
                                .platform = row->platform,
                                .address = row->address,
                                .host = row->host,
                                .labels = row->labels,
                                .trouble = row->trouble,
                                .slots = row->slots,
                                .leased = row->used,
                                .managers = row->managers,
                                .is_up = row->is_up,
                                .is_drained = row->is_drained,
                                .heard_ns = row->heard_ns};
    return true;
}

/* Single slots, and those of gangs that it has or waits for. */
static uint32_t count_wanted(const job_row *row)
{
    uint32_t wanted = row->wanted + row->held - row->singles;
    for (uint32_t i = 0; i < row->gang_count; i++) {
        wanted += row->gangs[i].state == GANG_WAITS ? row->gangs[i].request.width : 0;
    }
    return wanted;
}

bool gy_names_job_at(const gy_names *names, uint32_t index, gy_names_job *job)
{
    if (index >= names->job_count) {
        return false;
    }
    const job_row *row = &names->jobs[index];
    bool is_known = row->state != JOB_FREE && row->state != JOB_NEW;
    const bool is_gone = row->state == JOB_ENDED && names_is_gone(&row->facts);
    *job = (gy_names_job){.key = is_known ? row->key : (gy_key){0},
                          .spec = row->facts.spec,
                          .platform = row->facts.platform,
                          .name = row->facts.name,
                          .address = row->address,
                          .reason = row->state == JOB_ENDED ? row->facts.reason : row->waits,
                          .epoch = row->facts.epoch,
                          .weight = row->facts.weight,
                          .slots_wanted = count_wanted(row),
                          .slots_held = row->held,
                          .attempts = row->facts.attempts,
                          .is_ended = row->state == JOB_ENDED,
                          .is_up = row->state == JOB_UP,
                          .is_gone = is_gone,
                          .status = is_gone && row->facts.before < 0 ? row->facts.before
                                                                     : row->facts.status};
    return true;
}

bool gy_names_find_job(const gy_names *names, gy_key key, gy_names_job *job)
{
    uint32_t index = gy_index_find(&names->by_job, key);
    return index != GY_NONE && gy_names_job_at(names, index, job) &&
           gy_key_is_same(job->key, key);
}
