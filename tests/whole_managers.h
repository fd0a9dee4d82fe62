/*
 * Managers of a simulated cluster that are the machine: their connections to hosts, what they
 * hear, how they begin from the journal and end.
 */
#ifndef GY_TESTS_WHOLE_MANAGERS_H
#define GY_TESTS_WHOLE_MANAGERS_H

#include "control/names/names_priv.h"
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
    for (uint32_t i = 0; i < own->client.slot_count; i++) {
        if (own->client.executors[i].lease != 0 && own->client.executors[i].host == place) {
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
                own->client.executors[one->slot].host == place ? 0 : one->needs[k].number;
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

static inline void real_requests(void *arg, const gy_manager_requests *requests)
{
    const real *own = arg;
    letter what = {.kind = LETTER_REQUESTS};
    what.is.requests = *requests;
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) {
        what.is.requests.hosts[i] = lasting_name(requests->hosts[i]);
        if (what.is.requests.hosts[i] == NULL && requests->hosts[i] != NULL) {
            real_wrong(own, "a host is wished that has another name than all", (uint64_t)i);
        }
    }
    to_names(own->at, own->who, &what);
}

static inline bool real_gives(void *arg, const lease_return *back)
{
    const real *own = arg;
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                         .key = own->client.job,
                                         .epoch = own->client.epoch,
                                         .lease = back->lease,
                                         .is_bad = back->is_bad,
                                         .reason = "given back"};
    to_names(own->at, own->who, &what);
    return false; /* what it is told next says whether that was heard */
}

static const gy_lease_client_ops real_ops = {.step = real_step,
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
                                             .request = real_requests,
                                             .give = real_gives};

static inline void note_avoids(const real *own)
{
    for (size_t i = 0; i < own->client.host_count; i++) {
        const lease_host *there = &own->client.hosts[i];
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
        const bool is_any = own->client.avoid_count > 0;
        gy_lease_client_do_avoids(&own->client);
        if (is_any) {
            note_avoids(own);
        }
        gy_lease_client_request(&own->client, world_now(own->at));
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
        now_ns - own->looked_ns < gy_lease_client_watch_ns(&own->client)) {
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
    if (own->client.executors != NULL) {
        gy_lease_client_close(&own->client);
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
    own->client = (gy_lease_client){.env = gy_sim_env(at->sim, who->node),
                                    .manager = own->manager,
                                    .ops = &real_ops,
                                    .arg = own,
                                    .job = at->jobs[who->job].key,
                                    .epoch = who->epoch,
                                    .slot_count = own->job.options.process_max,
                                    .dead_ns = dead_ns};
    assert_ok(gy_lease_client_open(&own->client));
    assert_ok(gy_lease_client_begin(&own->client));
    real_step(own, &(gy_sched_event){.kind = GY_EVENT_BEGIN});
    real_settles(own);
}

static inline void say_end(const real *own)
{
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){.kind = GY_NAMES_JOB_END,
                                         .key = own->client.job,
                                         .epoch = own->client.epoch,
                                         .status = own->end,
                                         .reason = "its end"};
    to_names(own->at, own->who, &what);
}

static inline void look_at_lines(real *own)
{
    const int64_t now_ns = world_now(own->at);
    for (uint32_t i = 0; i < own->client.host_count && !real_has_ended(own); i++) {
        line *on = &own->lines[i];
        if (on->number == 0) {
            continue;
        }
        real_pings(own, i);
        if (on->is_up && now_ns - on->heard_ns > dead_ns / 2) {
            on->is_up = false;
            gy_lease_client_host_down(&own->client, i, "silent");
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
    gy_lease_client_check_hosts(&own->client, world_now(at));
    if (!real_has_ended(own)) {
        gy_lease_client_release_idle(&own->client, world_now(at));
        gy_lease_client_release_all(&own->client, world_now(at));
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
    gy_lease_client_process_ended(&own->client, place,
                                  gone->state != AT_STARTING || gone->is_killed, "died");
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
    own->client.executors[number].running -= own->client.executors[number].running > 0;
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
    const uint64_t lease = own->client.executors[number].lease;
    const uint32_t generation = own->slots[number].generation;
    const uint64_t count = what->is.to_manager.effect.bytes / TOKEN_BYTES;
    for (uint64_t i = 0; i < count && !real_has_ended(own); i++) {
        slot *from = &own->slots[number];
        const word *said = &what->words[i];
        gy_sched_event event = {.process = number, .generation = generation};
        if (own->client.executors[number].lease != lease || from->generation != generation ||
            from->state == AT_NONE) {
            return;
        }
        tell_host(own, own->client.executors[number].host, GY_DAEMON_CREDIT, number);
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
        gy_lease_client_not_opened(&own->client, said->lease, said->generation, "refused");
    } else if (what->asked == GY_DAEMON_FETCH) {
        real_hears_fetched(own, place, said->number, said->status);
    } else if (what->asked == GY_DAEMON_ATTACH || said->lease == 0) {
        gy_lease_client_attached(&own->client, place, said->status, what->incarnation,
                                 "refused");
    }
}

static inline void real_hears_daemon(real *own, uint32_t place, const letter *what)
{
    const gy_daemon_effect *said = &what->is.to_manager.effect;
    const uint32_t number =
        gy_lease_client_slot_at(&own->client, place, what->epoch, said->lease);
    const bool is_now = number != GY_NONE && own->slots[number].state != AT_NONE &&
                        own->slots[number].generation == said->generation;
    if (said->kind == GY_DAEMON_TELL_ATTACHED) {
        gy_lease_client_attached(&own->client, place, GY_OK, what->incarnation, "");
        if (own->client.hosts[place].state == HOST_HERE &&
            own->client.hosts[place].incarnation != what->incarnation) {
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
        gy_lease_client_executor_close(&own->client, number, "its lease is gone",
                                       LEASE_CLIENT_IS_DOWN);
    } else if (said->kind == GY_DAEMON_TELL_EXECUTOR_GONE && is_now) {
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
            gy_lease_client_host_down(&own->client, place, "broken");
        }
        on->is_up = false;
        gy_lease_client_host_anew(&own->client, place);
    }
    on->life = what->life;
    if (!on->is_up && on->number == number && !real_has_ended(own)) {
        on->is_up = true;
        gy_lease_client_host_up(&own->client, place);
    }
}

/* Gangs are allocated whole. */
static inline void check_gang(const real *own, const letter *what)
{
    const gy_names_effect *said = &what->is.allocations.effect;
    const gy_lease_client *client = &own->client;
    uint32_t count = 0;
    for (size_t i = 0; i < said->allocation_count; i++) {
        const gy_allocation *allocation = &what->is.allocations.allocations[i];
        count += allocation->gang != 0 && allocation->gang == client->gang &&
                 client->gang_width > 0 &&
                 gy_lease_client_executor_of(client, allocation->lease) == GY_NONE;
    }
    if (count > 0 && count != client->gang_width) {
        real_wrong(own, "half a gang is granted", count);
    }
    own->at->gangs += count > 0;
}

static inline bool is_allocated_too(const gy_allocation *allocations, size_t count,
                                    uint64_t lease)
{
    for (size_t i = 0; i < count; i++) {
        if (allocations[i].lease == lease && allocations[i].state != GY_ALLOCATION_GONE) {
            return true;
        }
    }
    return false;
}

/* Of a lease that is over no slot is kept. */
static inline void check_gone(const real *own, const gy_allocation *allocations, size_t count)
{
    for (size_t i = 0; i < count && !own->has_ended; i++) {
        if (allocations[i].state == GY_ALLOCATION_GONE && allocations[i].lease != 0 &&
            gy_lease_client_executor_of(&own->client, allocations[i].lease) != GY_NONE &&
            !is_allocated_too(allocations, count, allocations[i].lease)) {
            real_wrong(own, "a slot outlives its lease", allocations[i].lease);
        }
    }
}

static inline void real_hears_names(real *own, letter *what)
{
    const gy_names_effect *said = &what->is.allocations.effect;
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
    for (size_t i = 0; i < said->allocation_count; i++) {
        gy_allocation *allocation = &what->is.allocations.allocations[i];
        allocation->address = allocation->host = node_texts[allocation->daemon];
    }
    const bool is_news = gy_lease_client_is_news(&own->client, said->from, said->version);
    if (is_news) {
        check_gang(own, what);
    }
    gy_lease_client_take_allocations(&own->client, said->from, said->version,
                                     what->is.allocations.allocations, said->allocation_count);
    if (is_news) {
        check_gone(own, what->is.allocations.allocations, said->allocation_count);
    }
}

static inline void model_reads(world *at, model *who, letter *what)
{
    real *own = &reals[who - at->models];
    if (!real_watches(own)) {
        return;
    }
    if (what->kind == LETTER_ALLOCATIONS) {
        real_hears_names(own, what);
        real_settles(own);
        return;
    }
    for (uint32_t i = 0; i < own->client.host_count && !own->has_ended; i++) {
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
            const uint32_t place = gy_lease_client_executor_of(&reals[i].client, one->lease);
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
                GY_MIN(gy_manager_wanted(own->manager), own->client.slot_count);
            return wanted > slots_of(at, number) && own->client.gang_width == 0;
        }
    }
    return false;
}

static inline bool has_gangs(const world *at)
{
    for (int i = 0; i < MODELS; i++) {
        if (at->models[i].is_there && reals[i].client.gang > 0) {
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
        const gy_lease_client *client = &reals[i].client;
        const bool is_its = at->models[i].is_there && at->models[i].job == number;
        for (size_t k = 0; is_its && k < client->host_count; k++) {
            is_avoided =
                is_avoided ||
                (client->hosts[k].is_avoided && node_of_host(&reals[i], (uint32_t)k) == node &&
                 client->hosts[k].incarnation == world_host(at, node)->incarnation);
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
        printf("  seen %llx, said %llx, served %u", (unsigned long long)own->client.seen,
               (unsigned long long)own->client.output_seen, own->client.served);
        for (size_t k = 0; k < own->client.return_count; k++) {
            printf(", gives %llx", (unsigned long long)own->client.returns[k].lease);
        }
        printf("\n");
        printf(
            "  manager of %u epoch %u at %d: ended %d, wants %u, at once %u, gang %u of %u\n",
            at->models[i].job, at->models[i].epoch, at->models[i].node, own->has_ended,
            gy_manager_wanted(own->manager), gy_manager_wanted_at_once(own->manager),
            own->client.gang, own->client.gang_width);
        for (uint32_t k = 0; k < own->client.slot_count; k++) {
            const lease_executor *executor = &own->client.executors[k];
            printf("    slot %u: lease %llx host %u gang %u open %d running %u state %d\n", k,
                   (unsigned long long)executor->lease, executor->host, executor->gang,
                   executor->is_open, executor->running, (int)own->slots[k].state);
        }
        for (uint32_t k = 0; k < own->client.host_count; k++) {
            const lease_host *there = &own->client.hosts[k];
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
