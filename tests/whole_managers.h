/*
 * Managers of a simulated cluster that are the machine: their connections to hosts, what they
 * hear, how they begin from the journal and end.
 */
#ifndef GY_TESTS_WHOLE_MANAGERS_H
#define GY_TESTS_WHOLE_MANAGERS_H

#include "cluster/names/names_priv.h"
#include "whole_fetches.h"

static const int64_t dead_ns = 250000000;

/* ---- What the rent asks for ---- */

static inline void real_fails(void *arg, gy_status status)
{
    real_wrong(arg, "no memory", (uint64_t)(uint32_t)status);
}

static inline bool real_has_ended(const void *arg)
{
    const real *own = arg;
    return own->has_ended || own->at->is_over;
}

static inline uint32_t real_process(const void *arg, uint32_t number)
{
    const real *own = arg;
    return own->slots[number].state != AT_NONE ? own->slots[number].generation : 0;
}

static inline void real_pings(const real *own, uint32_t place)
{
    letter what = {.kind = LETTER_PING};
    to_host(own, place, &what, false);
}

static inline gy_status real_dials(void *arg, uint32_t place)
{
    real *own = arg;
    if (place >= WHOLE_LINES) {
        real_wrong(own, "more hosts than there are numbers", place);
        return GY_LIMIT;
    }
    own->lines[place] = (line){.number = ++own->line_number};
    real_pings(own, place);
    return GY_OK;
}

static inline void real_hangs_up(void *arg, uint32_t place)
{
    real *own = arg;
    own->lines[place] = (line){0};
}

static inline void real_attaches(void *arg, uint32_t place)
{
    tell_host(arg, place, GY_DAEMON_ATTACH, GY_NONE);
}

static inline void real_beats(void *arg, uint32_t place)
{
    tell_host(arg, place, GY_DAEMON_BEAT, GY_NONE);
}

static inline void real_goes_on(void *arg, uint32_t place)
{
    real *own = arg;
    for (uint32_t i = 0; i < own->tenant.slot_count; i++) {
        if (own->tenant.seats[i].lease != 0 && own->tenant.seats[i].host == place) {
            send_words(own, i);
        }
    }
}

/* Another life: what is still waited for there is asked for again. */
static inline void real_anew(void *arg, uint32_t place)
{
    real *own = arg;
    for (int i = 0; i < WHOLE_STARTS; i++) {
        start *one = &own->starts[i];
        for (int k = 0; k < PLAN_INPUTS && one->is_there; k++) {
            one->needs[k].number =
                own->tenant.seats[one->slot].host == place ? 0 : one->needs[k].number;
        }
    }
}

/* A host's name that lives as long as a letter: of a node, or of a plan's places. */
static inline const char *lasting_name(const char *name)
{
    static const char *const places[] = {"m0", "m1", "m2", "m3", "nowhere"};
    for (size_t i = 0; i < NODES + GY_COUNT(places); i++) {
        const char *known = i < NODES ? node_texts[i] : places[i - NODES];
        if (name != NULL && strcmp(known, name) == 0) {
            return known;
        }
    }
    return NULL;
}

static inline void real_wishes(void *arg, const gy_manager_wishes *wishes)
{
    const real *own = arg;
    letter what = {.kind = LETTER_WISHES};
    what.is.wishes = *wishes;
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) {
        what.is.wishes.hosts[i] = lasting_name(wishes->hosts[i]);
        if (what.is.wishes.hosts[i] == NULL && wishes->hosts[i] != NULL) {
            real_wrong(own, "a host is wished that has another name than all", (uint64_t)i);
        }
    }
    to_names(own->at, own->who, &what);
}

static inline bool real_gives(void *arg, const tenant_return *back)
{
    const real *own = arg;
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                         .key = own->tenant.job,
                                         .epoch = own->tenant.epoch,
                                         .lease = back->lease,
                                         .is_bad = back->is_bad,
                                         .reason = "given back"};
    to_names(own->at, own->who, &what);
    return false; /* what it is told next says whether that was heard */
}

static const gy_tenant_ops real_ops = {.step = real_step,
                                       .fail = real_fails,
                                       .has_ended = real_has_ended,
                                       .process = real_process,
                                       .forget = real_forgets,
                                       .dial = real_dials,
                                       .hang_up = real_hangs_up,
                                       .attach = real_attaches,
                                       .beat = real_beats,
                                       .go_on = real_goes_on,
                                       .begin_anew = real_anew,
                                       .wish = real_wishes,
                                       .give = real_gives};

static inline void note_avoids(const real *own)
{
    for (size_t i = 0; i < own->tenant.host_count; i++) {
        const tenant_host *there = &own->tenant.hosts[i];
        if (there->is_avoided) {
            called_bad[own->who->job][there->daemon - SERVERS] = true;
        }
    }
}

/* After each event; it may be its end. */
static inline void real_settles(real *own)
{
    if (own->has_ended && own->is_over) {
        model_ends(own->at, own->who, true);
    } else if (!own->has_ended && !own->at->is_over) {
        const bool is_any = own->tenant.avoid_count > 0;
        gy_tenant_do_avoids(&own->tenant);
        if (is_any) {
            note_avoids(own);
        }
        gy_tenant_wish(&own->tenant, world_now(own->at));
    }
}

/* Somebody who knows has said that its epoch, or its job, is over. */
static inline void real_is_over(real *own)
{
    own->has_ended = own->is_over = true;
}

static inline bool real_watches(real *own)
{
    const int64_t now_ns = world_now(own->at);
    if (own->has_ended || own->manager == NULL || !gy_manager_has_exact(own->manager) ||
        now_ns - own->looked_ns < gy_tenant_watch_ns(&own->tenant)) {
        return true;
    }
    own->looked_ns = now_ns;
    if (gy_journal_check(own->journal) < 0) {
        journal_fails(own);
        real_settles(own);
        return false;
    }
    return true;
}

/* ---- Life ---- */

static inline void model_gone(world *at, const model *who)
{
    real *own = &reals[who - at->models];
    gy_journal_close(own->journal);
    if (own->tenant.seats != NULL) {
        gy_tenant_close(&own->tenant);
    }
    gy_manager_free(own->manager);
    gy_free(own->said.items);
    *own = (real){.manager = NULL};
}

static inline gy_status real_takes(void *arg, const void *records, size_t size_bytes,
                                   size_t *used)
{
    const real *own = arg;
    whole_resumes++;
    return gy_manager_replay(own->manager, records, size_bytes, used);
}

/* What stands is what the journal says, and what was synced is there. */
static inline void take_replayed(real *own)
{
    gy_grown growth;
    const book *story = &books[own->who->job];
    for (uint32_t i = 0; gy_manager_grown(own->manager, i, &growth); i++) {
        uint64_t nonce = 0;
        if (growth.detail_bytes != sizeof(nonce)) {
            real_wrong(own, "a growth's detail is gone", 0);
            return;
        }
        memcpy(&nonce, growth.detail, sizeof(nonce));
        (void)plan_grow(&own->job, growth.stage, nonce);
        if (growth.first_task + growth.task_count != own->job.count) {
            real_wrong(own, "a growth has other tasks than it had", growth.first_task);
            return;
        }
    }
    for (uint32_t task = 0; task < PLAN_TASKS; task++) {
        gy_sched_task_state state = {.stage = 0};
        if (task < own->job.count) {
            gy_manager_task(own->manager, task, &state);
        }
        const gy_attempt *synced = &story->synced[task];
        if (synced->attempt != 0 && !story->is_raised[task] &&
            memcmp(&state.committed, synced, sizeof(*synced)) != 0) {
            real_wrong(own, "a synced commit is forgotten", task);
        }
        own->stands[task] = state.committed;
        if (state.committed.attempt != 0 && run_find(own->who->job, &state.committed) == NULL) {
            real_wrong(own, "committed, but it never ran", task);
        }
    }
}

static inline gy_status real_opens(real *own)
{
    static const char *const folders[JOBS] = {"/job0", "/job1", "/job2", "/job3"};
    const model *who = own->who;
    const gy_journal_options options = {.folder = folders[who->job],
                                        .epoch = who->epoch,
                                        .take = real_takes,
                                        .measure = gy_manager_measure,
                                        .arg = own};
    return gy_journal_open(gy_sim_env(own->at->sim, SUBMITTER), &options, &own->journal);
}

static inline void real_begins(world *at, model *who)
{
    real *own = &reals[who - at->models];
    book *story = &books[who->job];
    *own = (real){.at = at, .who = who, .job = story->first, .timer_ns = INT64_MAX};
    own->job.options.stages = own->job.stages;
    who->has_begun = true;
    const gy_growth first = {.tasks = own->job.tasks,
                             .places = own->job.places,
                             .task_count = own->job.first_count,
                             .edges = own->job.edges,
                             .edge_count = own->job.edge_count};
    assert_ok(gy_manager_new(&own->job.options, &first, &own->manager));
    gy_status status = real_opens(own);
    if (status == GY_STATE) { /* a newer one has begun */
        model_ends(at, who, true);
        return;
    }
    if (status < 0) {
        real_wrong(own, gy_error_text(), who->job);
        return;
    }
    if (story->claimed >= who->epoch) {
        real_wrong(own, "an epoch begins that is over", who->epoch);
    }
    story->claimed = who->epoch;
    take_replayed(own);
    own->tenant = (gy_tenant){.env = gy_sim_env(at->sim, who->node),
                              .manager = own->manager,
                              .ops = &real_ops,
                              .arg = own,
                              .job = at->jobs[who->job].key,
                              .epoch = who->epoch,
                              .slot_count = own->job.options.process_max,
                              .dead_ns = dead_ns};
    assert_ok(gy_tenant_open(&own->tenant));
    assert_ok(gy_tenant_begin(&own->tenant));
    real_step(own, &(gy_sched_event){.kind = GY_EVENT_BEGIN});
    real_settles(own);
}

static inline void say_end(const real *own)
{
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){.kind = GY_NAMES_JOB_END,
                                         .key = own->tenant.job,
                                         .epoch = own->tenant.epoch,
                                         .status = own->end,
                                         .reason = "its end"};
    to_names(own->at, own->who, &what);
}

static inline void look_at_lines(real *own)
{
    const int64_t now_ns = world_now(own->at);
    for (uint32_t i = 0; i < own->tenant.host_count && !real_has_ended(own); i++) {
        line *on = &own->lines[i];
        if (on->number == 0) {
            continue;
        }
        real_pings(own, i);
        if (on->is_up && now_ns - on->heard_ns > dead_ns / 2) {
            on->is_up = false;
            gy_tenant_host_down(&own->tenant, i, "silent");
        }
    }
}

static inline void model_ticks(void *arg)
{
    later *what = arg;
    world *at = what->at;
    model *who = later_model(what, model_ticks);
    if (who == NULL) {
        return;
    }
    real *own = &reals[what->index];
    world_at(at, 30 * ms, model_ticks, what);
    if (!who->has_begun) {
        real_begins(at, who);
        return;
    }
    if (own->has_ended) {
        say_end(own);
        return;
    }
    if (!real_watches(own)) {
        return;
    }
    look_at_lines(own);
    gy_tenant_look_after(&own->tenant, world_now(at));
    if (!real_has_ended(own)) {
        gy_tenant_give_idle(&own->tenant, world_now(at));
        gy_tenant_give_all(&own->tenant, world_now(at));
    }
    for (int i = 0; i < WHOLE_STARTS && !real_has_ended(own); i++) {
        if (own->starts[i].is_there) {
            real_fetches(own, &own->starts[i]);
        }
    }
    real_settles(own);
}

/* ---- Letters ---- */

static inline void process_ended(real *own, uint32_t place, uint32_t number)
{
    slot *gone = &own->slots[number];
    const gy_sched_event down = {.kind = GY_EVENT_PROCESS_DOWN,
                                 .cause = gone->is_killed ? GY_CAUSE_CANCELLED : GY_CAUSE_OWN,
                                 .process = number,
                                 .generation = gone->generation,
                                 .reason = "died"};
    gy_tenant_process_ended(&own->tenant, place, gone->state != AT_STARTING || gone->is_killed,
                            "died");
    real_forgets(own, number);
    gy_sched_event event = down;
    real_step(own, &event);
}

static inline void real_hears_end(real *own, uint32_t number, const word *said)
{
    const run *one = &books[own->who->job].runs[said->run];
    gy_sched_event event = {.kind = GY_EVENT_FAILED,
                            .cause = (gy_cause)said->cause,
                            .process = number,
                            .generation = own->slots[number].generation,
                            .id = one->id,
                            .member = said->member,
                            .input = said->input,
                            .run_ns = 5 * ms,
                            .reason = "as the seed wants it"};
    const uint64_t records = one->value.records;
    own->tenant.seats[number].running -= own->tenant.seats[number].running > 0;
    if (said->kind == WORD_DONE) {
        event.kind = GY_EVENT_DONE;
        event.cause = GY_CAUSE_NONE;
        event.content = (gy_key){one->value.content, said->member};
        event.report = &records;
        event.report_bytes = sizeof(records);
        event.is_held = said->is_held;
        event.held_bytes = said->is_held ? 1000 : 0;
    } else if (said->cause == GY_CAUSE_LOST_INPUT) {
        excuse(own, one, said->input);
    }
    real_step(own, &event);
}

static inline void real_hears_words(real *own, uint32_t number, const letter *what)
{
    const uint64_t lease = own->tenant.seats[number].lease;
    const uint32_t generation = own->slots[number].generation;
    const uint64_t count = what->is.to_manager.effect.bytes / TOKEN_BYTES;
    for (uint64_t i = 0; i < count && !real_has_ended(own); i++) {
        slot *from = &own->slots[number];
        const word *said = &what->words[i];
        gy_sched_event event = {.process = number, .generation = generation};
        if (own->tenant.seats[number].lease != lease || from->generation != generation ||
            from->state == AT_NONE) {
            return;
        }
        tell_host(own, own->tenant.seats[number].host, GY_DAEMON_CREDIT, number);
        if (said->token == TOKEN_READY) {
            from->state = AT_READY;
            event.kind = GY_EVENT_PROCESS_UP;
            real_step(own, &event);
        } else if (said->token == TOKEN_PROGRESS) {
            event.kind = GY_EVENT_HEARD;
            real_step(own, &event);
        } else {
            real_hears_end(own, number, said);
        }
    }
}

static inline void real_hears_refusal(real *own, uint32_t place, const letter *what)
{
    const gy_daemon_effect *said = &what->is.to_manager.effect;
    if (said->status == GY_STATE) {
        real_is_over(own);
    } else if (what->asked == GY_DAEMON_OPEN) {
        gy_tenant_not_opened(&own->tenant, said->lease, said->generation, "refused");
    } else if (what->asked == GY_DAEMON_FETCH) {
        real_hears_fetched(own, place, said->number, said->status);
    } else if (what->asked == GY_DAEMON_ATTACH || said->lease == 0) {
        gy_tenant_attached(&own->tenant, place, said->status, what->incarnation, "refused");
    }
}

static inline void real_hears_daemon(real *own, uint32_t place, const letter *what)
{
    const gy_daemon_effect *said = &what->is.to_manager.effect;
    const uint32_t number = gy_tenant_slot_at(&own->tenant, place, what->epoch, said->lease);
    const bool is_now = number != GY_NONE && own->slots[number].state != AT_NONE &&
                        own->slots[number].generation == said->generation;
    if (said->kind == GY_DAEMON_TELL_ATTACHED) {
        gy_tenant_attached(&own->tenant, place, GY_OK, what->incarnation, "");
        if (own->tenant.hosts[place].state == HOST_HERE &&
            own->tenant.hosts[place].incarnation != what->incarnation) {
            real_wrong(own, "another folder is taken for a host", place);
        }
    } else if (said->kind == GY_DAEMON_RELAY_UP && is_now) {
        real_hears_words(own, number, what);
    } else if (said->kind == GY_DAEMON_TELL_CREDIT && is_now) {
        own->slots[number].window =
            GY_MIN(own->slots[number].window + (uint32_t)(said->bytes / TOKEN_BYTES), 8u);
        send_words(own, number);
    } else if (said->kind == GY_DAEMON_TELL_FETCHED) {
        real_hears_fetched(own, place, said->number, said->status);
    } else if (said->kind == GY_DAEMON_TELL_LEASE_GONE && number != GY_NONE) {
        gy_tenant_seat_close(&own->tenant, number, "its lease is gone", TENANT_IS_DOWN);
    } else if (said->kind == GY_DAEMON_TELL_SEAT_GONE && is_now) {
        process_ended(own, place, number);
    } else if (said->kind == GY_DAEMON_TELL_REFUSED) {
        real_hears_refusal(own, place, what);
    }
}

/* A word on a connection: it stands, and who speaks may be another life. */
static inline void line_hears(real *own, uint32_t place, const letter *what)
{
    line *on = &own->lines[place];
    const uint32_t number = on->number;
    on->heard_ns = world_now(own->at);
    if (on->life != what->life && on->life != 0) {
        if (on->is_up) {
            gy_tenant_host_down(&own->tenant, place, "broken");
        }
        on->is_up = false;
        gy_tenant_host_anew(&own->tenant, place);
    }
    on->life = what->life;
    if (!on->is_up && on->number == number && !real_has_ended(own)) {
        on->is_up = true;
        gy_tenant_host_up(&own->tenant, place);
    }
}

/* Gangs are granted whole. */
static inline void check_gang(const real *own, const letter *what)
{
    const gy_names_effect *said = &what->is.grants.effect;
    const gy_tenant *tenant = &own->tenant;
    uint32_t count = 0;
    for (size_t i = 0; i < said->grant_count; i++) {
        const gy_grant *grant = &what->is.grants.grants[i];
        count += grant->gang != 0 && grant->gang == tenant->gang && tenant->gang_width > 0 &&
                 gy_tenant_seat_of(tenant, grant->lease) == GY_NONE;
    }
    if (count > 0 && count != tenant->gang_width) {
        real_wrong(own, "half a gang is granted", count);
    }
    own->at->gangs += count > 0;
}

static inline bool is_granted_too(const gy_grant *grants, size_t count, uint64_t lease)
{
    for (size_t i = 0; i < count; i++) {
        if (grants[i].lease == lease && grants[i].state != GY_GRANT_GONE) {
            return true;
        }
    }
    return false;
}

/* Of a lease that is over no slot is kept. */
static inline void check_gone(const real *own, const gy_grant *grants, size_t count)
{
    for (size_t i = 0; i < count && !own->has_ended; i++) {
        if (grants[i].state == GY_GRANT_GONE && grants[i].lease != 0 &&
            gy_tenant_seat_of(&own->tenant, grants[i].lease) != GY_NONE &&
            !is_granted_too(grants, count, grants[i].lease)) {
            real_wrong(own, "a slot outlives its lease", grants[i].lease);
        }
    }
}

static inline void real_hears_names(real *own, letter *what)
{
    const gy_names_effect *said = &what->is.grants.effect;
    if (said->kind == GY_NAMES_OVER) {
        if (said->status != GY_NOTFOUND) {
            real_is_over(own);
        }
        return;
    }
    if (own->has_ended) {
        return;
    }
    if (said->is_on) {
        if (!own->is_killed) {
            own->is_killed = true;
            real_step(own, &(gy_sched_event){.kind = GY_EVENT_KILL});
        }
        return;
    }
    for (size_t i = 0; i < said->grant_count; i++) {
        gy_grant *grant = &what->is.grants.grants[i];
        grant->address = grant->host = node_texts[grant->daemon];
    }
    const bool is_news = gy_tenant_is_news(&own->tenant, said->from, said->version);
    if (is_news) {
        check_gang(own, what);
    }
    gy_tenant_take_grants(&own->tenant, said->from, said->version, what->is.grants.grants,
                          said->grant_count);
    if (is_news) {
        check_gone(own, what->is.grants.grants, said->grant_count);
    }
}

static inline void model_reads(world *at, model *who, letter *what)
{
    real *own = &reals[who - at->models];
    if (!real_watches(own)) {
        return;
    }
    if (what->kind == LETTER_GRANTS) {
        real_hears_names(own, what);
        real_settles(own);
        return;
    }
    for (uint32_t i = 0; i < own->tenant.host_count && !own->has_ended; i++) {
        const line *on = &own->lines[i];
        if (on->number == 0 || on->number != what->line || node_of_host(own, i) != what->node) {
            continue;
        }
        line_hears(own, i, what);
        if (what->kind == LETTER_TO_MANAGER && on->number == what->line) {
            real_hears_daemon(own, i, what);
        }
        break;
    }
    real_settles(own);
}

/* ---- For the checks ---- */

static inline bool is_rented(const world *at, uint32_t epoch, const process *one)
{
    for (int i = 0; i < MODELS; i++) {
        const model *who = &at->models[i];
        if (who->is_there && who->has_begun && who->job == one->job && who->epoch == epoch) {
            const uint32_t place = gy_tenant_seat_of(&reals[i].tenant, one->lease);
            return place != GY_NONE && real_process(&reals[i], place) == one->generation;
        }
    }
    return false;
}

static inline bool is_hungry(const world *at, uint32_t number)
{
    for (int i = 0; i < MODELS; i++) {
        const model *who = &at->models[i];
        const real *own = &reals[i];
        if (who->is_there && who->job == number && who->has_begun && !own->has_ended &&
            who->epoch == books[number].claimed && at->jobs[number].is_greedy) {
            const uint32_t wanted =
                GY_MIN(gy_manager_wanted(own->manager), own->tenant.slot_count);
            return wanted > slots_of(at, number) && own->tenant.gang_width == 0;
        }
    }
    return false;
}

static inline bool has_gangs(const world *at)
{
    for (int i = 0; i < MODELS; i++) {
        if (at->models[i].is_there && reals[i].tenant.gang > 0) {
            return true;
        }
    }
    return false;
}

/* The manager avoids it, or the name server knows that an earlier one did, or that two jobs
 * did. */
static inline bool may_run_at(world *at, uint32_t number, int node)
{
    const gy_names *names = at->servers[0].machine;
    const uint32_t job =
        names != NULL ? gy_index_find(&names->by_job, at->jobs[number].key) : GY_NONE;
    const uint32_t daemon =
        names != NULL ? gy_index_find(&names->by_daemon, gy_index_id((uint64_t)node)) : GY_NONE;
    const gy_misfit why =
        job != GY_NONE && daemon != GY_NONE ? gy_names_misfit(names, daemon, job) : MISFIT_NONE;
    uint32_t against = 0;
    bool is_avoided = why == MISFIT_AVOIDED || why == MISFIT_DRAINED;
    for (uint32_t i = 0; i < at->job_count; i++) {
        against += called_bad[i][node - SERVERS];
    }
    if ((why == MISFIT_AVOIDED && !called_bad[number][node - SERVERS]) ||
        (why == MISFIT_DRAINED && against < 2)) {
        world_wrong(at, "a host gets no work, and nobody called it bad", (uint64_t)node);
    }
    for (int i = 0; i < MODELS; i++) {
        const gy_tenant *tenant = &reals[i].tenant;
        const bool is_its = at->models[i].is_there && at->models[i].job == number;
        for (size_t k = 0; is_its && k < tenant->host_count; k++) {
            is_avoided =
                is_avoided ||
                (tenant->hosts[k].is_avoided && node_of_host(&reals[i], (uint32_t)k) == node &&
                 tenant->hosts[k].incarnation == world_host(at, node)->incarnation);
        }
    }
    return !is_avoided;
}

static inline void check_job(world *at, uint32_t number)
{
    const book *story = &books[number];
    uint32_t finals = 0;
    for (uint32_t task = 0; task < story->first.first_count; task++) {
        finals += (story->first.tasks[task].flags & GY_TASK_FINAL) != 0;
    }
    if (finals > 0 && story->published_by == 0) {
        world_wrong(at, "a job ends well, but not all of it was done", number);
    }
}

static inline void say_view(const world *at)
{
    say_names(at);
    for (int i = 0; i < MODELS && at->is_traced; i++) {
        const real *own = &reals[i];
        if (!at->models[i].is_there || own->manager == NULL) {
            continue;
        }
        printf("  seen %llx, said %llx, served %u", (unsigned long long)own->tenant.seen,
               (unsigned long long)own->tenant.said_seen, own->tenant.served);
        for (size_t k = 0; k < own->tenant.return_count; k++) {
            printf(", gives %llx", (unsigned long long)own->tenant.returns[k].lease);
        }
        printf("\n");
        printf(
            "  manager of %u epoch %u at %d: ended %d, wants %u, at once %u, gang %u of %u\n",
            at->models[i].job, at->models[i].epoch, at->models[i].node, own->has_ended,
            gy_manager_wanted(own->manager), gy_manager_wanted_at_once(own->manager),
            own->tenant.gang, own->tenant.gang_width);
        for (uint32_t k = 0; k < own->tenant.slot_count; k++) {
            const tenant_seat *seat = &own->tenant.seats[k];
            printf("    slot %u: lease %llx host %u gang %u open %d running %u state %d\n", k,
                   (unsigned long long)seat->lease, seat->host, seat->gang, seat->is_open,
                   seat->running, (int)own->slots[k].state);
        }
        for (uint32_t k = 0; k < own->tenant.host_count; k++) {
            const tenant_host *there = &own->tenant.hosts[k];
            printf("    host %u at %llu: state %d up %d expected %d avoided %d: %s\n", k,
                   (unsigned long long)there->daemon, (int)there->state, there->is_up,
                   there->is_expected, there->is_avoided, there->why);
        }
        for (uint32_t task = 0; task < own->job.count; task++) {
            gy_sched_task_state state;
            gy_manager_task(own->manager, task, &state);
            if (state.committed.attempt == 0) {
                printf("    task %u (width %u) is not done\n", task,
                       own->job.tasks[task].width);
            }
        }
    }
}

#endif
