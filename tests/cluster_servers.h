/*
 * Name servers of a simulated cluster, and the table that they store in.
 */
#ifndef GY_TESTS_CLUSTER_SERVERS_H
#define GY_TESTS_CLUSTER_SERVERS_H

#include "cluster_world.h"

static inline void server_tell(world *at, int index, gy_names_event *event);
/* A job says that it ended well: is it so? */
static inline void check_job(world *at, uint32_t number);

/* ---- The table ---- */

static inline record *table_find(world *at, gy_key key)
{
    record *empty = NULL;
    for (int i = 0; i < RECORDS; i++) {
        record *one = &at->records[i];
        if (one->version != 0 && gy_key_is_same(one->key, key)) {
            return one;
        }
        empty = one->version == 0 && empty == NULL ? one : empty;
    }
    return empty;
}

static inline void stored_arrives(void *arg)
{
    later *what = arg;
    world *at = what->at;
    if (!at->is_over && at->servers[what->index].life == what->life) {
        gy_names_event event = {.kind = GY_NAMES_STORED,
                                .key = what->key,
                                .version = what->number,
                                .status = what->status};
        server_tell(at, what->index, &event);
    }
    gy_free(what);
}

/* Compare and set; then the answer is on its way. */
static inline void store_happens(void *arg)
{
    later *what = arg;
    world *at = what->at;
    record *place = table_find(at, what->key);
    bool is_full = world_now(at) < at->store_full_until_ns;
    what->status = GY_OK;
    if (place == NULL || place->version != what->number) {
        what->status = GY_MISMATCH;
    } else if (is_full) {
        what->status = GY_LIMIT;
    } else if (at->fails_store) {
        at->fails_store = false;
        what->status = GY_IO;
    }
    bool is_set = what->status == GY_OK || (what->status == GY_IO && world_below(at, 2) == 0);
    if (is_set) {
        uint64_t version = place->version + 1;
        *place = what->record;
        place->key = what->key;
        place->version = what->record.size_bytes == 0 ? 0 : version;
    }
    world_at(at, (int64_t)world_below(at, (uint64_t)(2 * ms)), stored_arrives, what);
}

static inline void on_store(world *at, int index, const gy_names_effect *effect)
{
    later *what = later_new(at, index, at->servers[index].life);
    if (effect->size_bytes > sizeof(what->record.data)) {
        gy_panic("a record is larger than the test thought");
    }
    what->key = effect->key;
    what->number = effect->version;
    what->record.size_bytes = effect->size_bytes;
    memcpy(what->record.data, effect->data, effect->size_bytes);
    int64_t late_ns = world_below(at, 50) == 0 ? 200 * ms : 2 * ms;
    world_at(at, 50000 + (int64_t)world_below(at, (uint64_t)late_ns), store_happens, what);
}

/* ---- Life ---- */

static inline void server_starts(void *arg)
{
    later *what = arg;
    world *at = what->at;
    server *own = &at->servers[what->index];
    bool is_void = at->is_over || own->life != what->life || own->machine != NULL;
    const gy_names_options options = {.dead_ns = 250 * ms,
                                      .lease_ns = LEASE_MS * ms,
                                      .patience_ns = 100 * ms,
                                      .grace_ns = 300 * ms,
                                      .gang_hold_ns = 1000 * ms,
                                      .start_ns = 700 * ms,
                                      .attempts_max = EPOCHS};
    if (!is_void) {
        if (gy_names_new(&options, &own->machine) < 0) {
            gy_panic("no memory for a simulated world");
        }
        for (int i = 0; i < RECORDS; i++) {
            const record *one = &at->records[i];
            if (one->version != 0 && gy_names_load(own->machine, one->key, one->version,
                                                   one->data, one->size_bytes) < 0) {
                world_wrong(at, "the table cannot be loaded", (uint64_t)i);
            }
        }
        gy_names_event begin = {.kind = GY_NAMES_BEGIN};
        server_tell(at, what->index, &begin);
    }
    gy_free(what);
}

static inline void server_start(world *at, int index, int64_t wait_ns)
{
    world_at(at, wait_ns, server_starts, later_new(at, index, at->servers[index].life));
}

static inline void server_stop(world *at, int index)
{
    server *own = &at->servers[index];
    own->life++;
    gy_names_free(own->machine);
    own->machine = NULL;
}

static inline void server_wakes(void *arg)
{
    later *what = arg;
    if (!what->at->is_over && what->at->servers[what->index].life == what->life) {
        gy_names_event event = {.kind = GY_NAMES_TIMER};
        server_tell(what->at, what->index, &event);
    }
    gy_free(what);
}

/* ---- Effects ---- */

static inline void on_order(world *at, int index, const gy_names_effect *effect)
{
    letter what = {.kind = LETTER_ORDER};
    what.is.order = effect->order;
    if (effect->order.kind == GY_ORDER_MANAGER) {
        user_job *one = &at->jobs[world_job(at, effect->order.job)];
        one->ordered = GY_MAX(one->ordered, effect->order.epoch);
    }
    world_say(at, "order", effect->order.daemon,
              (const char *const[]){"lease", "end", "manager"}[effect->order.kind],
              effect->order.kind == GY_ORDER_MANAGER ? effect->order.epoch
                                                     : effect->order.lease);
    post(at, index, (int)effect->order.daemon, &what, false);
}

static inline void on_allocations(world *at, int index, const gy_names_effect *effect)
{
    letter what = {
        .kind = LETTER_ALLOCATIONS, .job = world_job(at, effect->key), .epoch = effect->epoch};
    what.is.allocations.effect = *effect;
    if (effect->allocation_count > ALLOCATIONS) {
        world_wrong(at, "more is told than there can be", effect->allocation_count);
        return;
    }
    for (size_t i = 0; i < effect->allocation_count; i++) {
        what.is.allocations.allocations[i] = effect->allocations[i];
        world_say(at, "grant", effect->epoch | what.job << 8,
                  (const char *const[]){"held", "asked", "gone"}[effect->allocations[i].state],
                  effect->allocations[i].lease);
        what.is.allocations.allocations[i].address = what.is.allocations.allocations[i].host =
            NULL;
        at->revoked += effect->allocations[i].state == GY_ALLOCATION_ASKED;
    }
    int to = node_of(effect->address);
    what.is.allocations.effect.address = what.is.allocations.effect.reason = NULL;
    what.is.allocations.effect.allocations = NULL;
    if (to >= 0) {
        post(at, index, to, &what, false);
        return;
    }
    for (int node = SERVERS; node < SUBMITTER; node++) { /* to whoever just spoke */
        if (at->servers[index].asker == node) {
            post(at, index, node, &what, false);
        }
    }
}

static inline void on_answer(world *at, int index, const gy_names_effect *effect)
{
    uint32_t number = (uint32_t)(effect->asker - 1);
    if (effect->asker == 0 || number >= at->job_count || effect->status != GY_OK) {
        return;
    }
    user_job *one = &at->jobs[number];
    record *place = table_find(at, one->key);
    if (place == NULL || place->version == 0) {
        world_wrong(at, "a job is accepted that is not stored", number);
    }
    letter what = {.kind = LETTER_ANSWER, .job = number};
    post(at, index, SUBMITTER, &what, false);
    one->is_accepted = true;
}

static inline void on_ended(world *at, const gy_names_effect *effect)
{
    uint32_t number = world_job(at, effect->key);
    user_job *one = &at->jobs[number];
    world_say(at, "job", number, "ended", (uint64_t)(uint32_t)effect->status);
    if (effect->status == GY_OK) {
        check_job(at, number);
    } else if (!one->is_killed && one->resume != RESUME_DONE) { /* a late KILL may come then */
        world_wrong(at, effect->reason, number);
    }
    one->is_ended = true;
    one->ended_epoch = one->ordered;
    one->status = effect->status;
}

/* ANSWERs of the job's first submit are numbered job + 1, others have larger numbers. */
static inline void server_effect(world *at, int index, const gy_names_effect *effect)
{
    server *own = &at->servers[index];
    switch (effect->kind) {
    case GY_NAMES_STORE:
        on_store(at, index, effect);
        return;
    case GY_NAMES_ORDER:
        on_order(at, index, effect);
        return;
    case GY_NAMES_ALLOCATIONS:
    case GY_NAMES_OVER:
        on_allocations(at, index, effect);
        return;
    case GY_NAMES_ANSWER:
        on_answer(at, index, effect);
        return;
    case GY_NAMES_ENDED:
        on_ended(at, effect);
        return;
    case GY_NAMES_WAKE:
        world_at(at, GY_MAX(effect->at_ns - world_now(at), (int64_t)1000), server_wakes,
                 later_new(at, index, own->life));
        return;
    case GY_NAMES_NOTE:
        world_say(at, "note", effect->id, effect->reason, effect->key.low);
        return;
    case GY_NAMES_END:
        world_say(at, "server", (uint64_t)index, effect->reason, 0);
        return;
    }
}

static inline void server_tell(world *at, int index, gy_names_event *event)
{
    server *own = &at->servers[index];
    if (own->machine == NULL || at->is_over) {
        return;
    }
    event->now_ns = world_now(at);
    if (gy_names_step(own->machine, event, &own->said) < 0) {
        gy_panic("no memory for a simulated world");
    }
    at->steps++;
    bool has_ended = false;
    for (size_t i = 0; i < own->said.count && !at->is_over; i++) {
        const gy_names_effect *effect = &own->said.items[i];
        at->digest = at->digest * 31 + (uint64_t)effect->kind + effect->version;
        server_effect(at, index, effect);
        has_ended = has_ended || effect->kind == GY_NAMES_END;
    }
    if (has_ended) {
        server_stop(at, index);
        if (index == 0 || !at->is_healed) {
            server_start(at, index, 5 * ms + (int64_t)world_below(at, (uint64_t)(20 * ms)));
        }
    }
}

/* ---- Letters ---- */

static inline void server_reads(world *at, int index, int from, letter *what)
{
    gy_names_event event = {.kind = GY_NAMES_DAEMON};
    at->servers[index].asker = from;
    if (what->kind == LETTER_STATE) {
        gy_daemon_state *state = &what->is.state.state;
        state->leases = what->is.state.leases;
        state->managers = what->is.state.managers;
        state->address = state->host = node_texts[from];
        state->labels = "";
        state->trouble = what->is.state.is_troubled ? "disk full" : "";
        event.daemon = state;
    } else if (what->kind == LETTER_REQUESTS) {
        event.kind = GY_NAMES_MANAGER;
        event.manager = &what->is.requests;
        what->is.requests.address = node_texts[from];
    } else {
        event = what->is.ask.event;
        what->is.ask.submit.name = what->is.ask.submit.label = "";
        event.submit = &what->is.ask.submit;
    }
    server_tell(at, index, &event);
}

#endif
