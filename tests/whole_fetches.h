/*
 * What the machine asks for in a simulated cluster, carried out: sections before a START, the
 * journal in shared storage, growths, the output.
 */
#ifndef GY_TESTS_WHOLE_FETCHES_H
#define GY_TESTS_WHOLE_FETCHES_H

#include "whole_machine.h"

/* ---- Sections, as driver/remote/fetch.c has them ---- */

static inline void real_fetches(real *own, const start *waiting)
{
    start *one = &own->starts[waiting - own->starts];
    for (int i = 0; i < PLAN_INPUTS; i++) {
        need *what = &one->needs[i];
        if (!what->is_left || what->number != 0) {
            continue;
        }
        const lease_host *from = &own->client.hosts[what->from];
        letter asks = {.kind = LETTER_TO_DAEMON};
        what->number = ++own->number;
        asks.is.to_daemon.event =
            (gy_daemon_event){.kind = GY_DAEMON_FETCH, .number = what->number};
        asks.is.to_daemon.section = (gy_wanted_section){.content = {what->run + 1, 5},
                                                        .peer = from->daemon,
                                                        .incarnation = from->incarnation,
                                                        .size_bytes = 100};
        to_host(own, own->client.executors[one->slot].host, &asks, true);
    }
}

static inline void start_fails(real *own, start *one, gy_sched_event *event)
{
    const gy_attempt id = books[own->who->job].runs[one->said.run].id;
    one->is_there = false;
    own->client.executors[one->slot].running -= own->client.executors[one->slot].running > 0;
    event->kind = GY_EVENT_FAILED;
    event->process = one->slot;
    event->generation = one->generation;
    event->id = id;
    event->member = one->said.member;
    event->reason = "cannot fetch";
    real_step(own, event);
}

/* It is lost as this manager knows: it may run again. */
static inline void excuse(const real *own, const run *reader, uint32_t input)
{
    run *lost = run_find(own->who->job, &reader->bound[input]);
    if (lost != NULL) {
        lost->excused |= UINT64_C(1) << own->who->epoch % 64;
    }
}

static inline void need_is_lost(real *own, start *one, need *what, gy_status status)
{
    const bool is_from_up = own->client.hosts[what->from].state == HOST_HERE;
    const uint32_t place = own->client.executors[one->slot].host;
    if (status == GY_PEER && is_from_up && ++what->tries < 2) {
        what->number = 0;
        real_fetches(own, one);
        return;
    }
    const bool is_lost = is_from_up && status != GY_LIMIT && status != GY_CANCELLED &&
                         status != GY_TIMEOUT && status != GY_AGAIN;
    if (is_lost) {
        excuse(own, &books[own->who->job].runs[one->said.run], what->input);
    }
    gy_sched_event event = {.cause = is_lost ? GY_CAUSE_LOST_INPUT : GY_CAUSE_CANCELLED,
                            .input = what->input};
    start_fails(own, one, &event);
    if (status == GY_LIMIT && !own->has_ended) {
        gy_lease_client_executors_close(&own->client, place, "disk full", LEASE_CLIENT_BACK);
    }
}

static inline void real_hears_fetched(real *own, uint32_t place, uint64_t number,
                                      gy_status status)
{
    for (int i = 0; i < WHOLE_STARTS; i++) {
        start *one = &own->starts[i];
        for (int k = 0; k < PLAN_INPUTS && one->is_there; k++) {
            need *what = &one->needs[k];
            if (!what->is_left || what->number != number ||
                own->client.executors[one->slot].host != place) {
                continue;
            }
            if (status < 0) {
                need_is_lost(own, one, what, status);
                return;
            }
            what->is_left = false;
            if (--one->left == 0) {
                one->is_there = false;
                add_word(own, one->slot, one->said);
            }
            return;
        }
    }
}

static inline void cancelled(void *arg)
{
    later *what = arg;
    real *own = later_real(what, cancelled);
    if (own != NULL) {
        const run *one = &books[own->who->job].runs[what->job];
        real_step(own, &(gy_sched_event){.kind = GY_EVENT_FAILED,
                                         .cause = GY_CAUSE_CANCELLED,
                                         .process = what->place,
                                         .generation = what->generation,
                                         .id = one->id,
                                         .member = what->epoch});
        gy_free(what);
    }
}

static inline void on_cancel(real *own, const gy_effect *effect)
{
    const run *known = run_find(own->who->job, &effect->id);
    const slot *to = &own->slots[effect->process];
    if (known == NULL || to->state != AT_READY || to->generation != effect->generation) {
        return;
    }
    const uint32_t number = run_number(own->who->job, known);
    for (int i = 0; i < WHOLE_STARTS; i++) {
        start *one = &own->starts[i];
        if (one->is_there && one->slot == effect->process && one->said.run == number &&
            one->said.member == effect->member) {
            one->is_there = false;
            own->client.executors[one->slot].running -=
                own->client.executors[one->slot].running > 0;
            later *what = real_later(own, effect->process);
            what->generation = effect->generation;
            what->job = number;
            what->epoch = effect->member;
            world_at(own->at, 1000, cancelled, what);
            return;
        }
    }
    add_word(own, effect->process,
             (word){.kind = WORD_CANCEL, .run = number, .member = (uint8_t)effect->member});
}

/* ---- The journal, which all managers of a job share ---- */

static inline void journal_fails(real *own)
{
    own->is_over = own->is_over || gy_journal_is_over(own->journal);
    real_step(own, &(gy_sched_event){.kind = GY_EVENT_JOURNAL_FAILED, .reason = "journal"});
}

static inline void real_settles(real *own);

static inline void flushed(void *arg)
{
    later *what = arg;
    real *own = later_real(what, flushed);
    if (own != NULL) {
        own->is_flush_due = false;
        if (gy_journal_flush(own->journal) < 0) {
            journal_fails(own);
            real_settles(own);
        }
        gy_free(what);
    }
}

/* It may run again, once it is not known any more where it was. */
static inline void take_raised(void *arg, uint32_t task)
{
    real *own = arg;
    books[own->who->job].is_raised[task] = true;
    own->is_raised[task] = true;
}

static inline void on_append(real *own, const gy_effect *effect)
{
    checks_raised(effect->data, effect->size_bytes, take_raised, own);
    if (gy_journal_append(own->journal, effect->data, effect->size_bytes) < 0) {
        real_wrong(own, "the journal cannot be written", 0);
    }
    if (!own->is_flush_due) {
        own->is_flush_due = true;
        world_at(own->at, 5 * ms, flushed, real_later(own, 0));
    }
}

/* What stands now is read by all managers to come. */
static inline void take_synced(const real *own)
{
    book *story = &books[own->who->job];
    if (story->claimed > own->who->epoch) {
        real_wrong(own, "a refused epoch commits", own->who->epoch);
    }
    for (uint32_t task = 0; task < PLAN_TASKS; task++) {
        story->synced[task] = own->is_raised[task] ? (gy_attempt){0} : own->stands[task];
    }
    memset(story->is_raised, 0, sizeof(story->is_raised));
}

static inline void synced(void *arg)
{
    later *what = arg;
    real *own = later_real(what, synced);
    if (own == NULL) {
        return;
    }
    own->is_syncing = false;
    if (gy_journal_sync(own->journal) < 0) {
        journal_fails(own);
    } else {
        take_synced(own);
        real_step(own, &(gy_sched_event){.kind = GY_EVENT_SYNCED, .position = own->position});
    }
    real_settles(own);
    gy_free(what);
}

static inline void real_syncs(real *own, const gy_effect *effect)
{
    own->position = GY_MAX(own->position, effect->position);
    if (!own->is_syncing) {
        own->is_syncing = true;
        world_at(own->at, 100000 + (int64_t)world_below(own->at, 3000000), synced,
                 real_later(own, 0));
    }
}

/* ---- Growth, output ---- */

static inline void grown(void *arg)
{
    later *what = arg;
    real *own = later_real(what, grown);
    if (own != NULL) {
        const gy_growth growth =
            plan_grow(&own->job, what->place, 1 + world_below(own->at, 1u << 30));
        real_step(own, &(gy_sched_event){
                           .kind = GY_EVENT_GROWN, .stage = what->place, .growth = &growth});
        real_settles(own);
        gy_free(what);
    }
}

static inline bool is_final(const real *own, uint32_t task)
{
    return (own->job.tasks[task].flags & GY_TASK_FINAL) != 0;
}

/* The first final output that cannot be had; GY_NONE: all can. */
static inline uint32_t bad_final(const real *own, bool *must_wait)
{
    *must_wait = false;
    for (uint32_t task = 0; task < own->job.count; task++) {
        const run *one =
            is_final(own, task) ? run_find(own->who->job, &own->stands[task]) : NULL;
        gy_sched_task_state state;
        gy_manager_task(own->manager, task, &state);
        if (one == NULL ||
            (is_standing(own->at, own->who->job, one) &&
             (!one->is_held || is_reached(own->at, own->who->node, one->node)))) {
            continue;
        }
        const lease_host *there = state.host != GY_NONE ? &own->client.hosts[state.host] : NULL;
        if (there != NULL && there->is_expected) {
            world_wrong(own->at, "saved before it is known whether its host lives", task);
        }
        *must_wait =
            there != NULL && there->is_up && !is_reached(own->at, own->who->node, one->node);
        return task;
    }
    return GY_NONE;
}

static inline void saves(void *arg)
{
    later *what = arg;
    real *own = later_real(what, saves);
    bool must_wait = false;
    if (own == NULL) {
        return;
    }
    gy_sched_event said = {.kind = GY_EVENT_OUTPUT_SAFE};
    book *story = &books[own->who->job];
    const bool may_go_on = gy_journal_check(own->journal) == GY_OK;
    const uint32_t bad = may_go_on && !own->has_ended ? bad_final(own, &must_wait) : GY_NONE;
    if (must_wait) {
        world_at(own->at, 20 * ms, saves, what);
        return;
    }
    if (bad != GY_NONE) {
        said.cause = GY_CAUSE_LOST_INPUT;
        said.id = own->stands[bad];
    }
    if (!may_go_on) {
        journal_fails(own);
    } else if (!own->has_ended) {
        story->saved_by = bad == GY_NONE ? own->who->epoch : story->saved_by;
        for (uint32_t task = 0; task < own->job.count && bad == GY_NONE; task++) {
            const run *one = run_find(own->who->job, &own->stands[task]);
            story->saved[task] = one != NULL ? one->value : (plan_value){0};
        }
        real_step(own, &said);
    }
    real_settles(own);
    gy_free(what);
}

/* The manifest: one, of the epoch that stands. */
static inline void check_published(const real *own)
{
    book *story = &books[own->who->job];
    if (story->claimed != own->who->epoch) {
        real_wrong(own, "an epoch publishes that is over", own->who->epoch);
    }
    for (uint32_t task = 0; task < own->job.count; task++) {
        const run *one = run_find(own->who->job, &own->stands[task]);
        if (is_final(own, task) && (one == NULL || memcmp(&story->saved[task], &one->value,
                                                          sizeof(plan_value)) != 0)) {
            real_wrong(own, "published, but not what was saved", task);
        }
        if (is_final(own, task) && story->published_by != 0 &&
            memcmp(&story->saved[task], &story->published[task], sizeof(plan_value)) != 0) {
            real_wrong(own, "there are two outputs", task);
        }
    }
    if (story->published_by == 0) {
        story->published_by = own->who->epoch;
        memcpy(story->published, story->saved, sizeof(story->saved));
    }
}

static inline void publishes(void *arg)
{
    later *what = arg;
    real *own = later_real(what, publishes);
    if (own == NULL) {
        return;
    }
    if (gy_journal_check(own->journal) < 0) {
        journal_fails(own);
    } else if (!own->has_ended) {
        check_published(own);
        real_step(own, &(gy_sched_event){.kind = GY_EVENT_PUBLISHED});
    }
    real_settles(own);
    gy_free(what);
}

/* ---- Commits, discards ---- */

static inline void on_committed(real *own, const gy_effect *effect)
{
    const uint32_t task = effect->id.task;
    run *one = run_find(own->who->job, &effect->id);
    gy_attempt *before = &own->stands[task];
    gy_sched_task_state state;
    gy_manager_task(own->manager, task, &state);
    const char *wrong =
        checks_commit(&effect->id, before, one != NULL && one->done == (1u << one->width) - 1,
                      one != NULL && one->is_discarded);
    if (wrong != NULL) {
        real_wrong(own, wrong, task);
        return;
    }
    check_input(own, &state, one);
    *before = effect->id;
    own->is_raised[task] = false;
}

static inline void on_discard(real *own, const gy_effect *effect)
{
    const run *one = run_find(own->who->job, &effect->id);
    if (memcmp(&own->stands[effect->id.task], &effect->id, sizeof(gy_attempt)) == 0) {
        real_wrong(own, "the files that stand are discarded", effect->id.task);
    }
    for (uint32_t i = 0; i < own->client.host_count && one != NULL; i++) {
        letter what = {.kind = LETTER_DISCARD,
                       .words = {{.run = run_number(own->who->job, one)}}};
        if (i == effect->host || effect->host == GY_NONE) {
            to_host(own, i, &what, true);
        }
    }
    if (one != NULL && effect->host != GY_NONE &&
        own->client.hosts[effect->host].daemon != (uint64_t)one->node) {
        real_wrong(own, "discarded on another host than it ran on", effect->id.task);
    }
}

/* ---- The end ---- */

/* All stands, and whoever read something read what stands. */
static inline void check_end(const real *own)
{
    const uint32_t job = own->who->job;
    for (uint32_t task = 0; task < own->job.count; task++) {
        const run *one = run_find(job, &own->stands[task]);
        if (one == NULL) {
            real_wrong(own, "ended without it", task);
            return;
        }
        for (uint32_t i = 0; i < one->input_count; i++) {
            const uint32_t from = one->bound[i].task;
            const run *input = run_find(job, &own->stands[from]);
            if (input == NULL || !plan_is_same(&own->job, from, one->read[i], input->value)) {
                real_wrong(own, "it read what no longer stands", task);
            }
        }
    }
    whole_tasks += own->job.count;
    if (own->job.has_final && books[job].published_by == 0) {
        for (uint32_t task = 0; task < own->job.count; task++) {
            if (is_final(own, task)) {
                real_wrong(own, "ended without its output", task);
            }
        }
    }
}

static inline void on_end(real *own, const gy_effect *effect)
{
    own->has_ended = true;
    own->end = effect->status;
    if (effect->status == GY_OK) {
        check_end(own);
    } else if (!own->is_over && !(own->is_killed && effect->status == GY_CANCELLED)) {
        real_wrong(own, effect->reason, (uint64_t)(uint32_t)effect->status);
    }
    for (uint32_t i = 0; i < own->client.host_count && !own->is_over; i++) {
        if (own->client.hosts[i].state == HOST_HERE) {
            tell_host(own, i, GY_DAEMON_OVER, GY_NONE);
        }
    }
}

/* ---- All that it asks for ---- */

static inline void time_comes(void *arg)
{
    later *what = arg;
    real *own = later_real(what, time_comes);
    if (own != NULL) {
        if (own->timer_ns <= world_now(own->at)) {
            own->timer_ns = INT64_MAX;
            real_step(own, &(gy_sched_event){.kind = GY_EVENT_TIMER});
            real_settles(own);
        }
        gy_free(what);
    }
}

static inline void on_timer(real *own, const gy_effect *effect)
{
    if (effect->at_ns < own->timer_ns) {
        own->timer_ns = effect->at_ns;
        world_at(own->at, GY_MAX(effect->at_ns - world_now(own->at), (int64_t)1000), time_comes,
                 real_later(own, 0));
    }
}

static inline void on_kill(real *own, const gy_effect *effect)
{
    slot *to = &own->slots[effect->process];
    if (to->state != AT_NONE && to->generation == effect->generation) {
        to->is_killed = true;
        tell_host(own, own->client.executors[effect->process].host, GY_DAEMON_CLOSE,
                  effect->process);
    }
}

static inline void real_carries(real *own, const gy_effect *effect)
{
    switch (effect->kind) {
    case GY_EFFECT_SPAWN:
        on_spawn(own, effect);
        return;
    case GY_EFFECT_KILL:
        on_kill(own, effect);
        return;
    case GY_EFFECT_START:
        on_start(own, effect);
        return;
    case GY_EFFECT_CANCEL:
        on_cancel(own, effect);
        return;
    case GY_EFFECT_APPEND:
        on_append(own, effect);
        return;
    case GY_EFFECT_SYNC:
        real_syncs(own, effect);
        return;
    case GY_EFFECT_DISCARD:
        on_discard(own, effect);
        return;
    case GY_EFFECT_COMMITTED:
        on_committed(own, effect);
        return;
    case GY_EFFECT_GROW:
        world_at(own->at, 100000 + (int64_t)world_below(own->at, 5000000), grown,
                 real_later(own, effect->stage));
        return;
    case GY_EFFECT_TIMER:
        on_timer(own, effect);
        return;
    case GY_EFFECT_SAVE:
    case GY_EFFECT_PUBLISH:
        world_at(own->at, ms, effect->kind == GY_EFFECT_SAVE ? saves : publishes,
                 real_later(own, 0));
        return;
    case GY_EFFECT_NOTE:
        world_say(own->at, "job", own->who->job, effect->reason, effect->id.task);
        return;
    case GY_EFFECT_AVOID:
        gy_lease_client_avoid(&own->client, effect->host, effect->reason);
        return;
    case GY_EFFECT_END:
        on_end(own, effect);
        return;
    }
}

#endif
