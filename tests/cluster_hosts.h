/*
 * Hosts of a simulated cluster: what a daemon's effects do there, and what must never happen.
 */
#ifndef GY_TESTS_CLUSTER_HOSTS_H
#define GY_TESTS_CLUSTER_HOSTS_H

#include "cluster_processes.h"

static inline void model_starts(world *at, int node, uint32_t job, uint32_t epoch);
static inline void model_ends(world *at, model *who, bool is_told);
/* The job's files at a host are gone; job JOBS: it died, and may have lost what was not synced.
 */
static inline void files_go(world *at, int node, uint32_t job, bool is_wiped);
/* A manager that is obeyed gives up files there. */
static inline void run_discarded(world *at, int node, const letter *what);

/* ---- What it says ---- */

static inline bool has_ended_before(const host *own, uint64_t lease)
{
    for (uint32_t i = 0; i < GY_MIN(own->ended_count, (uint32_t)MEMORY); i++) {
        if (own->ended[i] == lease) {
            return true;
        }
    }
    return false;
}

/* Which leases are new, which have ended. */
static inline void look_at_leases(world *at, int node, const gy_daemon_state *state)
{
    host *own = world_host(at, node);
    gy_leased before[2 * SLOTS];
    int64_t since_ns[2 * SLOTS];
    size_t count = own->lease_count;
    memcpy(before, own->leases, sizeof(before));
    memcpy(since_ns, own->since_ns, sizeof(since_ns));
    if (state->lease_count > own->slots) {
        world_wrong(at, "more slots are lent than there are", (uint64_t)node);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_there = false;
        for (size_t k = 0; k < state->lease_count; k++) {
            is_there = is_there || state->leases[k].lease == before[i].lease;
        }
        if (!is_there) {
            own->ended[own->ended_count++ % MEMORY] = before[i].lease;
        }
    }
    own->lease_count = state->lease_count;
    for (size_t i = 0; i < state->lease_count; i++) {
        own->leases[i] = state->leases[i];
        own->since_ns[i] = world_now(at);
        for (size_t k = 0; k < count; k++) {
            own->since_ns[i] =
                before[k].lease == state->leases[i].lease ? since_ns[k] : own->since_ns[i];
        }
        if (has_ended_before(own, state->leases[i].lease)) {
            world_wrong(at, "a lease that had ended is back", state->leases[i].lease);
        }
    }
}

static inline void on_state(world *at, int node, const gy_daemon_effect *effect)
{
    host *own = world_host(at, node);
    letter what = {.kind = LETTER_STATE};
    look_at_leases(at, node, &effect->state);
    if (effect->state.manager_count > 2 * JOBS || at->is_over) {
        world_wrong(at, "more managers than jobs", (uint64_t)node);
        return;
    }
    what.is.state.state = effect->state;
    memcpy(what.is.state.leases, effect->state.leases,
           effect->state.lease_count * sizeof(gy_leased));
    memcpy(what.is.state.managers, effect->state.managers,
           effect->state.manager_count * sizeof(gy_hosted));
    gy_daemon_state *state = &what.is.state.state;
    what.is.state.is_troubled = state->trouble[0] != '\0';
    state->address = state->host = state->labels = state->trouble = NULL;
    state->leases = NULL;
    state->managers = NULL;
    post(at, node, own->names, &what, false);
}

/* To the manager of this job and epoch, wherever it is; what it relays goes along. */
static inline void to_manager(world *at, int node, const gy_daemon_effect *effect)
{
    host *own = world_host(at, node);
    letter what = {.kind = LETTER_TO_MANAGER,
                   .job = world_job(at, effect->job),
                   .epoch = effect->epoch,
                   .node = node,
                   .life = world_life(own),
                   .incarnation = own->incarnation,
                   .asked = own->asked};
    if (own->jobs[what.job].line_epoch == what.epoch) {
        what.line = own->jobs[what.job].line;
    }
    what.is.to_manager.effect = *effect;
    if (effect->kind == GY_DAEMON_RELAY_UP) {
        process *one = find_process(own, effect->lease, effect->generation);
        uint32_t count = (uint32_t)(effect->bytes / TOKEN_BYTES);
        if (one == NULL || count > one->up_count || count > GY_COUNT(what.words)) {
            return; /* it died meanwhile */
        }
        one->relayed += effect->bytes;
        if (one->relayed > one->credited) {
            world_wrong(at, "more is sent to a manager than it has room for", one->lease);
        }
        memcpy(what.words, one->up, count * sizeof(word));
        one->up_count -= count;
        memmove(one->up, one->up + count, one->up_count * sizeof(word));
    }
    what.is.to_manager.effect.state = (gy_daemon_state){0};
    what.is.to_manager.effect.section = (gy_wanted_section){0};
    what.is.to_manager.effect.reason = NULL;
    for (int i = 0; i < MODELS; i++) {
        const model *who = &at->models[i];
        if (who->is_there && who->job == what.job && who->epoch == what.epoch) {
            post(at, node, who->node, &what, true);
        }
    }
}

static inline void relay_down(world *at, int node, const gy_daemon_effect *effect)
{
    process *one = find_process(world_host(at, node), effect->lease, effect->generation);
    if (one != NULL) {
        one->pending -= GY_MIN(one->pending, (uint32_t)(effect->bytes / TOKEN_BYTES));
        world_at(at, 1000, process_looks, process_later(at, node, one));
    }
}

/* ---- Effects ---- */

/* An order is carried out: of an epoch that is synced, and not older than one before. */
static inline void check_epoch(world *at, int node, const gy_daemon_effect *effect)
{
    uint32_t job = world_job(at, effect->job);
    host *own = world_host(at, node);
    if (effect->epoch < own->jobs[job].obeyed) {
        world_wrong(at, "an older epoch is obeyed", effect->epoch);
    }
    if (effect->epoch > own->jobs[job].epoch) {
        world_wrong(at, "an epoch is obeyed that is not synced", effect->epoch);
    }
    own->jobs[job].obeyed = GY_MAX(own->jobs[job].obeyed, effect->epoch);
}

/* What a manager starts meets nothing that an older one ran. */
static inline void check_alone(world *at, const host *own, const gy_daemon_effect *effect)
{
    const uint32_t job = world_job(at, effect->job);
    for (int i = 0; i < PROCESSES; i++) {
        const process *one = &own->processes[i];
        if (one->is_there && one->job == job && one->epoch < effect->epoch) {
            world_wrong(at, "a manager is attached beside an older one's process", one->epoch);
        }
    }
}

static inline void host_stop(world *at, int node, bool is_wiped);
static inline void host_start(world *at, int node, int64_t wait_ns);

/* It dies before anybody heard what it did last, and is back soon. */
static inline void host_fails(void *arg)
{
    later *what = arg;
    world *at = what->at;
    host *own = later_host(what, host_fails);
    if (own != NULL) {
        host_stop(at, what->index, own->loses_start);
        host_start(at, what->index, ms + (int64_t)world_below(at, (uint64_t)(50 * ms)));
        gy_free(what);
    }
}

static inline void on_manager(world *at, int node, const gy_daemon_effect *effect)
{
    uint32_t job = world_job(at, effect->job);
    if (effect->kind == GY_DAEMON_MANAGER_START) {
        check_epoch(at, node, effect);
        model_starts(at, node, job, effect->epoch);
        host *own = world_host(at, node);
        if (own->fails_start) {
            own->fails_start = false;
            world_at(at, 1000, host_fails, host_later(at, node));
        }
        return;
    }
    for (int i = 0; i < MODELS; i++) {
        model *who = &at->models[i];
        if (who->is_there && who->node == node && who->job == job &&
            who->epoch == effect->epoch) {
            model_ends(at, who, true);
        }
    }
}

static inline void on_process(world *at, int node, const gy_daemon_effect *effect)
{
    host *own = world_host(at, node);
    uint32_t job = world_job(at, effect->job);
    process *one = find_process(own, effect->lease, effect->generation);
    if (effect->kind == GY_DAEMON_FORK_SERVER_START) {
        check_epoch(at, node, effect);
        on_fork_server_start(at, node, effect);
    } else if (effect->kind == GY_DAEMON_FORK_SERVER_END) {
        fork_server_dies(at, node, job);
    } else if (effect->kind == GY_DAEMON_EXECUTOR_START) {
        check_epoch(at, node, effect);
        on_executor_start(at, node, effect);
    } else if (one != NULL) {
        process_dies(at, node, one);
    }
}

static inline void on_sync(world *at, int node, const gy_daemon_effect *effect)
{
    later *what = host_later(at, node);
    what->key = effect->job;
    what->epoch = effect->epoch;
    what->generation = effect->started;
    world_at(at, 200000 + (int64_t)world_below(at, (uint64_t)(6 * ms)), sync_ends, what);
}

static inline void on_files(world *at, int node, const gy_daemon_effect *effect)
{
    host *own = world_host(at, node);
    uint32_t job = world_job(at, effect->job);
    if (effect->kind == GY_DAEMON_FORGET) {
        own->jobs[job].epoch = own->jobs[job].started = 0;
        return;
    }
    if (own->jobs[job].fork_server != 0) {
        world_wrong(at, "files are discarded under their writers", job);
    }
    own->jobs[job].has_files = false;
    files_go(at, node, job, false);
    for (int i = 0; i < OUTSTANDING; i++) {
        own->fetches[i].is_there = own->fetches[i].is_there && own->fetches[i].job != job;
    }
}

static inline void say_goodbye(world *at, int node)
{
    const host *own = world_host(at, node);
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){.kind = GY_NAMES_DAEMON_BYE,
                                         .id = (uint64_t)node,
                                         .incarnation = own->incarnation,
                                         .life = own->starts};
    post(at, node, own->names, &what, false);
}

static inline void host_effect(world *at, int node, const gy_daemon_effect *effect)
{
    host *own = world_host(at, node);
    switch (effect->kind) {
    case GY_DAEMON_STATE:
        on_state(at, node, effect);
        return;
    case GY_DAEMON_SYNC:
        on_sync(at, node, effect);
        return;
    case GY_DAEMON_MANAGER_START:
    case GY_DAEMON_MANAGER_END:
        on_manager(at, node, effect);
        return;
    case GY_DAEMON_FORK_SERVER_START:
    case GY_DAEMON_FORK_SERVER_END:
    case GY_DAEMON_EXECUTOR_START:
    case GY_DAEMON_EXECUTOR_END:
        on_process(at, node, effect);
        return;
    case GY_DAEMON_RELAY_DOWN:
        relay_down(at, node, effect);
        return;
    case GY_DAEMON_FETCH_START:
        on_fetch_start(at, node, effect);
        return;
    case GY_DAEMON_FETCH_STOP:
        for (int i = 0; i < OUTSTANDING; i++) {
            own->tickets[i] = own->tickets[i] == effect->ticket ? 0 : own->tickets[i];
        }
        return;
    case GY_DAEMON_DISCARD:
    case GY_DAEMON_FORGET:
        on_files(at, node, effect);
        return;
    case GY_DAEMON_TELL_FETCHED:
        on_fetch_told(at, own, effect);
        to_manager(at, node, effect);
        return;
    case GY_DAEMON_TELL_ATTACHED:
        check_epoch(at, node, effect);
        check_alone(at, own, effect);
        to_manager(at, node, effect);
        return;
    case GY_DAEMON_RELAY_UP:
    case GY_DAEMON_TELL_REFUSED:
    case GY_DAEMON_TELL_LEASE_GONE:
    case GY_DAEMON_TELL_EXECUTOR_GONE:
    case GY_DAEMON_TELL_CREDIT:
        to_manager(at, node, effect);
        return;
    case GY_DAEMON_WAKE:
        world_at(at, GY_MAX(effect->at_ns - world_now(at), (int64_t)1000), host_wakes,
                 host_later(at, node));
        return;
    case GY_DAEMON_BYE:
        say_goodbye(at, node);
        return;
    case GY_DAEMON_NOTE:
        return;
    }
}

/* ---- Events ---- */

static inline bool is_of_manager(gy_daemon_event_kind kind)
{
    return kind >= GY_DAEMON_ATTACH && kind <= GY_DAEMON_OVER;
}

/* What must not follow from this event. */
static inline void check_step(world *at, int node, const gy_daemon_event *event)
{
    host *own = world_host(at, node);
    bool is_late = false, does_something = false, is_refused = false;
    if (is_of_manager(event->kind)) {
        is_late = event->epoch < own->jobs[world_job(at, event->job)].known;
    } else if (event->kind == GY_DAEMON_ORDER) {
        is_late = event->order->incarnation != own->incarnation;
    }
    size_t before = own->lease_count, after = before;
    for (size_t i = 0; i < own->said.count; i++) {
        const gy_daemon_effect *effect = &own->said.items[i];
        bool is_word = effect->kind == GY_DAEMON_STATE || effect->kind == GY_DAEMON_WAKE ||
                       effect->kind == GY_DAEMON_TELL_REFUSED ||
                       effect->kind == GY_DAEMON_FETCH_START || effect->kind == GY_DAEMON_NOTE;
        does_something = does_something || !is_word;
        is_refused = is_refused || effect->kind == GY_DAEMON_TELL_REFUSED;
        after = effect->kind == GY_DAEMON_STATE ? effect->state.lease_count : after;
        does_something = does_something || (effect->kind == GY_DAEMON_STATE && is_late &&
                                            event->kind == GY_DAEMON_ORDER &&
                                            effect->state.order == event->order->number &&
                                            effect->state.term == event->order->term);
    }
    if (is_late && does_something) {
        world_wrong(at, "an order of an older epoch or incarnation is obeyed", event->epoch);
    }
    if (is_late && is_of_manager(event->kind) && !is_refused) {
        world_wrong(at, "an older manager is not told that it is over", event->epoch);
    }
    if (event->kind == GY_DAEMON_ORDER && own->is_full && after > before) {
        world_wrong(at, "a slot is lent where the disk is full", (uint64_t)node);
    }
}

static inline void host_tell(world *at, int node, gy_daemon_event *event)
{
    host *own = world_host(at, node);
    if (own->machine == NULL || at->is_over) {
        return;
    }
    event->now_ns = world_now(at);
    if (gy_daemon_step(own->machine, event, &own->said) < 0) {
        gy_panic("no memory for a simulated world");
    }
    at->steps++;
    check_step(at, node, event);
    for (size_t i = 0; i < own->said.count && !at->is_over; i++) {
        const gy_daemon_effect *effect = &own->said.items[i];
        at->digest = at->digest * 31 + (uint64_t)effect->kind + effect->lease;
        host_effect(at, node, effect); /* leads to no step within this one */
    }
}

/* ---- Life ---- */

static inline void host_starts(void *arg)
{
    later *what = arg;
    world *at = what->at;
    host *own = world_host(at, what->index);
    if (at->is_over || own->is_up || own->life != what->life) {
        gy_free(what);
        return;
    }
    gy_sim_restart(at->sim, what->index);
    world_troubles(at, what->index, 0);
    own->is_up = true;
    const gy_daemon_options options = {.id = (uint64_t)what->index,
                                       .incarnation = own->incarnation,
                                       .life = ++own->starts,
                                       .platform = 7,
                                       .slots = own->slots,
                                       .address = node_texts[what->index],
                                       .host = node_texts[what->index],
                                       .beat_ns = 50 * ms,
                                       .keep_ns = 600 * ms,
                                       .fetch_ns = 200 * ms,
                                       .fetch_max = 4,
                                       .window_bytes = 64,
                                       .records_max = 64};
    if (gy_daemon_new(&options, &own->machine) < 0) {
        gy_panic("no memory for a simulated world");
    }
    for (uint32_t job = 0; job < at->job_count; job++) {
        if ((own->jobs[job].epoch > 0 || own->jobs[job].has_files) &&
            gy_daemon_load(own->machine, at->jobs[job].key, own->jobs[job].epoch,
                           own->jobs[job].started, own->jobs[job].has_files) < 0) {
            gy_panic("no memory for a simulated world");
        }
    }
    gy_daemon_event begin = {.kind = GY_DAEMON_BEGIN};
    host_tell(at, what->index, &begin);
    if (own->is_full) {
        gy_daemon_event full = {.kind = GY_DAEMON_DISK, .reason = "disk full"};
        host_tell(at, what->index, &full);
    }
    gy_free(what);
}

static inline void host_start(world *at, int node, int64_t wait_ns)
{
    world_at(at, wait_ns, host_starts, host_later(at, node));
}

/* All that runs there ends at once. */
static inline void host_stop(world *at, int node, bool is_wiped)
{
    host *own = world_host(at, node);
    own->life++;
    world_troubles(at, node, 0);
    own->is_up = false;
    own->stopped_until_ns = 0;
    gy_daemon_free(own->machine);
    own->machine = NULL;
    gy_sim_crash(at->sim, node);
    for (int i = 0; i < MODELS; i++) {
        if (at->models[i].is_there && at->models[i].node == node) {
            model_ends(at, &at->models[i], false);
        }
    }
    memset(own->processes, 0, sizeof(own->processes));
    memset(own->fetches, 0, sizeof(own->fetches));
    memset(own->tickets, 0, sizeof(own->tickets));
    own->lease_count = own->ended_count = 0;
    for (uint32_t job = 0; job < JOBS; job++) {
        own->jobs[job].fork_server = 0;
        own->jobs[job].known = own->jobs[job].epoch;
        own->jobs[job].line = own->jobs[job].line_epoch = 0;
    }
    files_go(at, node, JOBS, is_wiped);
    if (is_wiped) {
        memset(own->jobs, 0, sizeof(own->jobs));
        own->incarnation = own->incarnation * 3 + 1;
        own->starts = 0;
    }
}

/* ---- Letters ---- */

static inline void note_fetch(world *at, host *own, const letter *what)
{
    outstanding *place = NULL;
    for (int i = 0; i < OUTSTANDING; i++) {
        outstanding *one = &own->fetches[i];
        if (one->is_there && one->job == what->job && one->epoch < what->epoch) {
            one->is_there = false;
        }
        if (one->is_there && one->job == what->job && one->epoch == what->epoch &&
            one->number == what->is.to_daemon.event.number) {
            return;
        }
        place = !one->is_there && place == NULL ? one : place;
    }
    if (place != NULL && own->jobs[what->job].epoch == what->epoch) {
        *place = (outstanding){
            .is_there = true,
            .job = what->job,
            .epoch = what->epoch,
            .number = what->is.to_daemon.event.number,
            .content = {what->is.to_daemon.section.content.high, at->jobs[what->job].key.low}};
    }
}

static inline void host_pongs(world *at, int node, const letter *what)
{
    const host *own = world_host(at, node);
    letter pong = {.kind = LETTER_PONG,
                   .job = what->job,
                   .epoch = what->epoch,
                   .node = node,
                   .life = world_life(own),
                   .incarnation = own->incarnation,
                   .line = what->line};
    post(at, node, what->node, &pong, false);
}

/* Leases of the one that speaks that are over by its own silence; the first of them, or 0. */
static inline uint64_t find_over(const world *at, const host *own, const letter *what)
{
    const int64_t heard_ns = own->jobs[what->job].heard_ns;
    for (size_t i = 0; what->epoch == own->jobs[what->job].known && i < own->lease_count; i++) {
        const gy_leased *lease = &own->leases[i];
        if (world_job(at, lease->job) == what->job && lease->epoch == what->epoch &&
            !lease->is_ending &&
            world_now(at) - GY_MAX(heard_ns, own->since_ns[i]) >= LEASE_MS * ms) {
            return lease->lease;
        }
    }
    return 0;
}

static inline void check_over(world *at, const host *own, uint64_t over)
{
    bool is_left = false;
    for (size_t i = 0; i < own->said.count; i++) {
        if (own->said.items[i].kind == GY_DAEMON_TELL_REFUSED) {
            return; /* that is no word of its manager */
        }
    }
    for (size_t i = 0; i < own->lease_count; i++) {
        is_left = is_left || (own->leases[i].lease == over && !own->leases[i].is_ending);
    }
    if (is_left) {
        world_wrong(at, "a lease that was over is renewed", over);
    }
}

static inline void host_reads_manager(world *at, int node, letter *what)
{
    host *own = world_host(at, node);
    gy_daemon_event event = what->is.to_daemon.event;
    event.job = at->jobs[what->job].key;
    event.epoch = what->epoch;
    event.section = &what->is.to_daemon.section;
    what->is.to_daemon.section.address = node_texts[SERVERS];
    const uint64_t over = find_over(at, own, what);
    if (what->epoch >= own->jobs[what->job].known) { /* as the daemon knows it */
        own->jobs[what->job].heard_ns = world_now(at);
    }
    process *one = find_process(own, event.lease, event.generation);
    if (event.kind == GY_DAEMON_CREDIT && one != NULL) {
        one->credited += event.bytes;
    } else if (event.kind == GY_DAEMON_DOWN && one != NULL &&
               one->down_count < GY_COUNT(one->down)) {
        one->down[one->down_count++] = what->words[0];
        one->pending++;
    } else if (event.kind == GY_DAEMON_FETCH) {
        note_fetch(at, own, what);
    }
    own->asked = event.kind;
    host_tell(at, node, &event);
    own->asked = GY_DAEMON_BEGIN;
    if (over != 0) {
        check_over(at, own, over);
    }
    for (size_t i = 0; event.kind == GY_DAEMON_FETCH && i < own->said.count; i++) {
        if (own->said.items[i].kind == GY_DAEMON_TELL_REFUSED) {
            const gy_daemon_effect told = {.job = event.job,
                                           .epoch = event.epoch,
                                           .number = event.number,
                                           .status = GY_AGAIN};
            on_fetch_told(at, own, &told);
        }
    }
    if (event.kind == GY_DAEMON_BEAT || event.kind == GY_DAEMON_ATTACH) {
        host_pongs(at, node, what);
    }
}

/* Of a connection that its manager has given up, or to another life of the host. */
static inline bool is_stale(host *own, const letter *what)
{
    uint32_t *line = &own->jobs[what->job].line, *epoch = &own->jobs[what->job].line_epoch;
    if (what->line == 0) {
        return false; /* managers that keep no connections */
    }
    if ((what->life != 0 && what->life != world_life(own)) ||
        (what->epoch == *epoch && what->line < *line)) {
        return true;
    }
    if (what->epoch >= *epoch) {
        *epoch = what->epoch;
        *line = what->line;
    }
    return false;
}

static inline void host_reads(world *at, int node, letter *what)
{
    host *own = world_host(at, node);
    if (what->kind == LETTER_ORDER) {
        gy_daemon_event event = {.kind = GY_DAEMON_ORDER, .order = &what->is.order};
        host_tell(at, node, &event);
    } else if (is_stale(own, what)) {
        return;
    } else if (what->kind == LETTER_PING) {
        host_pongs(at, node, what);
    } else if (what->kind == LETTER_DISCARD) {
        if (what->epoch >= own->jobs[what->job].known) {
            run_discarded(at, node, what);
        }
    } else {
        host_reads_manager(at, node, what);
    }
}

#endif
