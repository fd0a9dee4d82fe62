/*
 * Managers of a simulated cluster: a small model of one. It wants slots, runs tasks in seats,
 * commits under its epoch into a journal that its successors seal, and ends its job.
 */
#ifndef GY_TESTS_CLUSTER_MODELS_H
#define GY_TESTS_CLUSTER_MODELS_H

#include "cluster_managers.h"

static inline void model_gone(world *at, const model *who)
{
    (void)at;
    (void)who;
}

static inline bool work_ends(world *at, int node, process *one, word *result)
{
    (void)at;
    (void)node;
    (void)one;
    (void)result;
    return true;
}

static inline gy_status fetch_result(world *at, int node, const outstanding *what, int peer,
                                     uint64_t incarnation)
{
    uint64_t dice = world_below(at, 8);
    (void)what;
    (void)peer;
    (void)incarnation;
    return world_host(at, node)->fails_fetch && dice < 6 ? GY_PEER
           : dice == 0                                   ? GY_MISMATCH
           : dice == 1                                   ? GY_NOTFOUND
                                                         : GY_OK;
}

static inline void files_go(world *at, int node, uint32_t job, bool is_wiped)
{
    (void)at;
    (void)node;
    (void)job;
    (void)is_wiped;
}

static inline void run_discarded(world *at, int node, const letter *what)
{
    (void)at;
    (void)node;
    (void)what;
}

static inline void task_fault(world *at, const fault *what)
{
    (void)at;
    (void)what;
}

/* ---- Words ---- */

static inline void to_seat(world *at, const model *who, const seat_view *seat,
                           gy_daemon_event_kind kind)
{
    letter what = {.words = {{.token = (uint8_t)seat->task}}};
    what.is.to_daemon.event = (gy_daemon_event){.kind = kind,
                                                .lease = seat->lease,
                                                .generation = seat->generation,
                                                .bytes = TOKEN_BYTES};
    to_daemon(at, who, seat->node, &what, kind == GY_DAEMON_DOWN || kind == GY_DAEMON_CREDIT);
}

static inline bool is_all_done(const world *at, const model *who)
{
    for (uint32_t task = 0; task < at->jobs[who->job].tasks; task++) {
        if (!who->is_done[task]) {
            return false;
        }
    }
    return true;
}

static inline uint32_t gang_seats(const model *who)
{
    uint32_t count = 0;
    for (int i = 0; i < SEATS; i++) {
        count += who->seats[i].lease != 0 && who->seats[i].gang == who->gang &&
                 !who->seats[i].is_returning;
    }
    return count;
}

static inline bool needs_gang(const world *at, const model *who)
{
    return at->jobs[who->job].gang_width > 0 && !who->is_done[0];
}

static inline bool is_held(const world *at, const model *who)
{
    return at->jobs[who->job].is_greedy && !at->is_released && !who->is_killed;
}

static inline uint32_t slots_wanted(const world *at, const model *who)
{
    const user_job *own = &at->jobs[who->job];
    uint32_t open = 0;
    for (uint32_t task = own->gang_width > 0; task < own->tasks; task++) {
        open += !who->is_done[task];
    }
    return is_held(at, who) ? own->width : GY_MIN(open, own->width);
}

static inline void say_wishes(world *at, model *who)
{
    letter what = {.kind = LETTER_WISHES};
    gy_manager_wishes *wishes = &what.is.wishes;
    const user_job *own = &at->jobs[who->job];
    *wishes = (gy_manager_wishes){.job = own->key,
                                  .epoch = who->epoch,
                                  .sequence = ++who->sequence,
                                  .seen = who->seen,
                                  .slots = slots_wanted(at, who)};
    if (needs_gang(at, who) && who->gang_known == 0) {
        wishes->gangs[wishes->gang_count++] = (gy_gang_wish){
            .number = who->gang, .width = own->gang_width, .is_one_host = own->gang_one_host};
    }
    to_names(at, who, &what);
}

static inline void say_end(world *at, model *who)
{
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){.kind = GY_NAMES_JOB_END,
                                         .key = at->jobs[who->job].key,
                                         .epoch = who->epoch,
                                         .status = who->is_killed ? GY_CANCELLED : GY_OK};
    to_names(at, who, &what);
}

static inline void give_back(world *at, const model *who, const seat_view *seat)
{
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                         .key = at->jobs[who->job].key,
                                         .epoch = who->epoch,
                                         .lease = seat->lease};
    to_names(at, who, &what);
}

/* ---- Seats ---- */

static inline void gang_fails(model *who)
{
    for (int i = 0; i < SEATS; i++) {
        seat_view *seat = &who->seats[i];
        seat->is_returning =
            seat->is_returning || (seat->lease != 0 && seat->gang == who->gang);
    }
    who->gang++;
    who->gang_known = 0;
    memset(who->has_result, 0, sizeof(who->has_result));
}

/* It goes back, and with it its gang, if that is the one which is waited for or at work. */
static inline void seat_returns(model *who, seat_view *seat)
{
    const bool is_of_gang = seat->gang != 0 && seat->gang == who->gang && !seat->is_returning;
    seat->is_returning = true;
    if (is_of_gang) {
        gang_fails(who);
    }
}

/* Its lease is over. */
static inline void seat_drop(model *who, seat_view *seat)
{
    bool is_of_gang = seat->gang != 0 && seat->gang == who->gang;
    *seat = (seat_view){0};
    if (is_of_gang) {
        gang_fails(who);
    }
}

static inline seat_view *seat_find(model *who, uint64_t lease)
{
    for (int i = 0; i < SEATS && lease != 0; i++) {
        if (who->seats[i].lease == lease) {
            return &who->seats[i];
        }
    }
    return NULL;
}

static inline int next_task(const world *at, const model *who)
{
    const user_job *own = &at->jobs[who->job];
    for (uint32_t task = own->gang_width > 0; task < own->tasks; task++) {
        bool is_free = !who->is_done[task];
        for (int i = 0; i < SEATS && is_free; i++) {
            is_free = who->seats[i].lease == 0 || who->seats[i].is_returning ||
                      who->seats[i].task != (int)task;
        }
        if (is_free) {
            return (int)task;
        }
    }
    return -1;
}

/* Commit: the storage refuses whom a successor has sealed. */
static inline void commit(world *at, model *who, uint32_t task)
{
    user_job *own = &at->jobs[who->job];
    if (own->sealed > who->epoch) {
        model_ends(at, who, true);
        return;
    }
    if (own->committed[task] != 0) {
        world_wrong(at, "a task is committed twice", task);
    }
    own->committed[task] = who->epoch;
    who->is_done[task] = true;
}

static inline void seat_fetches(world *at, model *who, seat_view *seat)
{
    letter what = {0};
    seat->fetch = seat->fetch == 0 ? ++who->fetch : seat->fetch;
    what.is.to_daemon.event = (gy_daemon_event){.kind = GY_DAEMON_FETCH, .number = seat->fetch};
    what.is.to_daemon.section = (gy_wanted_section){
        .content = {(uint64_t)seat->task % 2 + 1, 5}, .peer = SERVERS, .size_bytes = 100};
    to_daemon(at, who, seat->node, &what, false);
}

static inline void seat_works(world *at, model *who, seat_view *seat)
{
    const user_job *own = &at->jobs[who->job];
    if (seat->task >= 0) {
        if (!seat->has_input) {
            seat_fetches(at, who, seat);
        }
        return;
    }
    if (seat->gang != 0) {
        return; /* see gang_works */
    }
    seat->task = seat->is_asked && !own->is_stubborn ? -1 : next_task(at, who);
    if (seat->task >= 0) {
        seat->has_input = seat->task % 3 == 0;
        if (seat->has_input) {
            to_seat(at, who, seat, GY_DAEMON_DOWN);
        } else {
            seat_fetches(at, who, seat);
        }
    } else if (!is_held(at, who) || (seat->is_asked && !own->is_stubborn)) {
        seat->is_returning = true;
    }
}

/* All members at once, when all are ready. */
static inline void gang_works(world *at, model *who)
{
    bool has_started = false;
    uint32_t ready = 0;
    for (int i = 0; i < SEATS; i++) {
        const seat_view *seat = &who->seats[i];
        if (seat->lease != 0 && seat->gang == who->gang && !seat->is_returning) {
            has_started = has_started || seat->task >= 0;
            ready += seat->is_ready;
        }
    }
    if (!needs_gang(at, who) || has_started || ready < at->jobs[who->job].gang_width) {
        return;
    }
    for (int i = 0; i < SEATS; i++) {
        seat_view *seat = &who->seats[i];
        if (seat->lease != 0 && seat->gang == who->gang) {
            seat->task = 0;
            seat->has_input = true;
            to_seat(at, who, seat, GY_DAEMON_DOWN);
        }
    }
}

/* What it holds there is lost. */
static inline void model_loses_host(model *who, int node)
{
    for (int i = 0; i < SEATS; i++) {
        seat_view *seat = &who->seats[i];
        if (seat->lease != 0 && seat->node == node) {
            seat_returns(who, seat);
        }
    }
}

/* A host that is silent has lost what ran there, and one that never answered has nothing. */
static inline void look_at_hosts(world *at, model *who)
{
    for (int i = 0; i < HOSTS; i++) {
        int64_t since_ns = INT64_MAX; /* when it first had something there */
        for (int k = 0; k < SEATS; k++) {
            const seat_view *seat = &who->seats[k];
            since_ns = seat->lease != 0 && seat->node == i + SERVERS
                           ? GY_MIN(since_ns, seat->since_ns)
                           : since_ns;
        }
        letter what = {0};
        what.is.to_daemon.event.kind = who->is_attached[i] ? GY_DAEMON_BEAT : GY_DAEMON_ATTACH;
        if (since_ns < INT64_MAX) {
            to_daemon(at, who, i + SERVERS, &what, false);
        }
        since_ns = GY_MAX(since_ns, who->heard_ns[i]);
        if (world_now(at) - since_ns > 250 * ms * (1 + !who->is_attached[i])) {
            model_loses_host(who, i + SERVERS);
            who->is_attached[i] = false;
        }
    }
}

static inline void model_begins(world *at, model *who)
{
    user_job *own = &at->jobs[who->job];
    who->has_begun = true;
    if (own->sealed > who->epoch) {
        model_ends(at, who, true);
        return;
    }
    own->sealed = who->epoch;
    for (uint32_t task = 0; task < own->tasks; task++) {
        who->is_done[task] = own->committed[task] != 0;
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
    world_at(at, 40 * ms, model_ticks, what);
    if (!who->has_begun) {
        model_begins(at, who);
    }
    if (!who->is_there) {
        return;
    }
    bool is_done = (is_all_done(at, who) && !is_held(at, who)) || who->is_killed;
    say_wishes(at, who);
    look_at_hosts(at, who);
    for (int i = 0; i < SEATS && who->is_there; i++) {
        seat_view *seat = &who->seats[i];
        if (seat->lease == 0) {
            continue;
        }
        if (seat->is_returning) {
            give_back(at, who, seat);
        } else if (who->is_attached[seat->node - SERVERS] && !seat->is_ready) {
            to_seat(at, who, seat, GY_DAEMON_OPEN);
        } else if (seat->is_ready) {
            seat_works(at, who, seat);
        }
    }
    gang_works(at, who);
    if (is_done) {
        say_end(at, who);
    }
}

/* ---- Letters ---- */

/* A lease that was over may be back, and both are told in one letter: what is over is older. */
static inline bool is_back(const letter *what, const gy_grant *gone)
{
    bool is_there = false;
    for (size_t i = 0; i < what->is.grants.effect.grant_count; i++) {
        const gy_grant *grant = &what->is.grants.grants[i];
        is_there = is_there || (grant->lease == gone->lease && grant->state != GY_GRANT_GONE);
    }
    return is_there;
}

/* false: there is no room for it. */
static inline bool take_seat(world *at, model *who, const gy_grant *grant)
{
    seat_view *seat = seat_find(who, grant->lease);
    const bool is_new = seat == NULL;
    for (int k = 0; k < SEATS && seat == NULL; k++) {
        seat = who->seats[k].lease == 0 ? &who->seats[k] : NULL;
    }
    if (seat == NULL) {
        world_wrong(at, "a manager has more leases than slots are", grant->lease);
        return false;
    }
    if (is_new) {
        *seat = (seat_view){.lease = grant->lease,
                            .node = (int)grant->daemon,
                            .gang = grant->gang,
                            .generation = ++who->generation,
                            .task = -1,
                            .since_ns = world_now(at)};
        /* of a gang that is over, or that another name server has served */
        seat->is_returning =
            grant->gang != 0 && (grant->gang != who->gang || who->gang_known != 0);
    }
    seat->is_asked = grant->state == GY_GRANT_ASKED;
    if (seat->is_asked && seat->gang != 0 && !at->jobs[who->job].is_stubborn) {
        seat_returns(who, seat);
    }
    return true;
}

static inline void model_takes_grants(world *at, model *who, const letter *what)
{
    const gy_names_effect *said = &what->is.grants.effect;
    const uint32_t gang = who->gang_known == 0 ? who->gang : 0; /* the one that it waits for */
    uint32_t of_gang = 0;
    who->is_killed = who->is_killed || said->is_on;
    if (said->from > who->seen || said->version <= who->seen) {
        return;
    }
    who->seen = said->version;
    for (size_t i = 0; i < said->grant_count; i++) {
        const gy_grant *grant = &what->is.grants.grants[i];
        seat_view *seat = seat_find(who, grant->lease);
        if (grant->lease == 0 || grant->state != GY_GRANT_GONE) {
            continue; /* 0: a daemon that is lost, nothing of this model lies there */
        }
        of_gang += gang != 0 && grant->gang == gang && seat == NULL && !is_back(what, grant);
        if (seat != NULL) {
            seat_drop(who, seat);
        }
    }
    for (size_t i = 0; i < said->grant_count; i++) {
        const gy_grant *grant = &what->is.grants.grants[i];
        if (grant->state == GY_GRANT_GONE) {
            continue;
        }
        of_gang += gang != 0 && grant->gang == gang && seat_find(who, grant->lease) == NULL;
        if (!take_seat(at, who, grant)) {
            return;
        }
    }
    if (of_gang > 0 && of_gang != at->jobs[who->job].gang_width) {
        world_wrong(at, "half a gang is granted", of_gang);
    }
    at->gangs += of_gang > 0;
    if (of_gang > 0 && who->gang == gang) {
        who->gang_known = of_gang;
        if (gang_seats(who) < of_gang) {
            gang_fails(who); /* it was lost on its way */
        }
    }
}

static inline void model_over(world *at, model *who, gy_status status)
{
    for (int i = 0; i < HOSTS && status == GY_OK; i++) {
        letter what = {0};
        what.is.to_daemon.event.kind = GY_DAEMON_OVER;
        what.is.to_daemon.event.is_kept = who->is_killed;
        if (who->is_attached[i]) {
            to_daemon(at, who, i + SERVERS, &what, false);
        }
    }
    if (status != GY_NOTFOUND) {
        model_ends(at, who, true);
    }
}

static inline void gang_result(world *at, model *who, seat_view *seat)
{
    uint32_t left = 0;
    seat->task = -2; /* this member is done */
    for (int i = 0; i < SEATS; i++) {
        left += who->seats[i].lease != 0 && who->seats[i].gang == who->gang &&
                who->seats[i].task != -2;
    }
    if (left == 0 && !who->is_done[0]) {
        commit(at, who, 0);
        gang_fails(who); /* all of them go back */
    }
}

static inline void model_reads_tokens(world *at, model *who, seat_view *seat,
                                      const letter *what)
{
    uint64_t count = what->is.to_manager.effect.bytes / TOKEN_BYTES;
    for (uint64_t i = 0; i < count && who->is_there && seat->lease != 0; i++) {
        uint8_t token = what->words[i].token;
        to_seat(at, who, seat, GY_DAEMON_CREDIT);
        if (token == TOKEN_READY) {
            seat->is_ready = true;
        } else if (token == TOKEN_PROGRESS || (int)token != seat->task || seat->is_returning) {
            continue;
        } else if (seat->gang != 0) {
            gang_result(at, who, seat);
        } else {
            seat->task = -1;
            seat->has_input = false;
            commit(at, who, token);
        }
    }
}

static inline void fetch_answer(world *at, model *who, const gy_daemon_effect *said)
{
    for (int i = 0; i < SEATS; i++) {
        seat_view *seat = &who->seats[i];
        if (seat->lease == 0 || seat->fetch == 0 || seat->fetch != said->number) {
            continue;
        }
        seat->fetch = 0; /* where it failed: again, under another number */
        if (said->status == GY_OK && seat->task >= 0 && !seat->has_input) {
            seat->has_input = true;
            to_seat(at, who, seat, GY_DAEMON_DOWN);
        }
    }
}

static inline void model_reads_daemon(world *at, model *who, const letter *what)
{
    const gy_daemon_effect *said = &what->is.to_manager.effect;
    seat_view *seat = seat_find(who, said->lease);
    int place = what->node - SERVERS;
    bool is_now = seat != NULL && seat->generation == said->generation;
    who->heard_ns[place] = world_now(at);
    if (said->kind == GY_DAEMON_TELL_ATTACHED) {
        who->is_attached[place] = true;
    } else if (said->kind == GY_DAEMON_RELAY_UP && is_now) {
        model_reads_tokens(at, who, seat, what);
    } else if (said->kind == GY_DAEMON_TELL_FETCHED) {
        fetch_answer(at, who, said);
    } else if (said->kind == GY_DAEMON_TELL_LEASE_GONE && seat != NULL) {
        seat_drop(who, seat);
    } else if (said->kind == GY_DAEMON_TELL_SEAT_GONE && is_now) {
        bool is_of_gang = seat->gang != 0 && seat->gang == who->gang;
        seat->generation = ++who->generation;
        seat->is_ready = seat->has_input = false;
        seat->task = -1;
        seat->fetch = 0;
        if (is_of_gang) {
            gang_fails(who);
        }
    } else if (said->kind == GY_DAEMON_TELL_REFUSED && said->status == GY_STATE) {
        model_ends(at, who, true);
    } else if (said->kind == GY_DAEMON_TELL_REFUSED && said->status == GY_AGAIN && !is_now) {
        who->is_attached[place] = false;
    } else if (said->kind == GY_DAEMON_TELL_REFUSED && said->status == GY_NOTFOUND &&
               seat != NULL) {
        seat_drop(who, seat); /* a later name server may never have heard of it */
    }
}

static inline void model_reads(world *at, model *who, letter *what)
{
    int place = what->node - SERVERS;
    if (what->kind == LETTER_GRANTS && what->is.grants.effect.kind == GY_NAMES_OVER) {
        model_over(at, who, what->is.grants.effect.status);
    } else if (what->kind == LETTER_GRANTS) {
        model_takes_grants(at, who, what);
    } else {
        if (who->lives[place] != what->life) { /* started anew: nothing runs there */
            who->is_attached[place] = false;
            for (int i = 0; i < SEATS && who->lives[place] != 0; i++) {
                seat_view *seat = &who->seats[i];
                if (seat->lease != 0 && seat->node == what->node) {
                    seat_drop(who, seat);
                }
            }
            who->lives[place] = what->life;
        }
        if (what->kind == LETTER_PONG) {
            who->heard_ns[place] = world_now(at);
        } else {
            model_reads_daemon(at, who, what);
        }
    }
}

/* ---- For the checks ---- */

static inline bool is_hungry(const world *at, uint32_t number)
{
    const user_job *one = &at->jobs[number];
    return one->is_greedy && !one->is_ended && slots_of(at, number) < one->width;
}

static inline bool has_gangs(const world *at)
{
    for (uint32_t i = 0; i < at->job_count; i++) {
        if (at->jobs[i].gang_width > 0 && !at->jobs[i].is_ended) {
            return true;
        }
    }
    return false;
}

static inline bool may_run_at(world *at, uint32_t number, int node)
{
    (void)at;
    (void)number;
    (void)node;
    return true;
}

static inline void say_view(const world *at)
{
    say_names(at);
    for (int i = 0; i < MODELS; i++) {
        const model *who = &at->models[i];
        for (int k = 0; k < SEATS && at->is_traced && who->is_there; k++) {
            const seat_view *seat = &who->seats[k];
            if (seat->lease != 0) {
                printf("  manager of %u (gang %u, has %u): lease %llx at %d, gang %u, task %d, "
                       "input %d, ready %d, returning %d, attached %d\n",
                       who->job, who->gang, who->gang_known, (unsigned long long)seat->lease,
                       seat->node, seat->gang, seat->task, seat->has_input, seat->is_ready,
                       seat->is_returning, who->is_attached[seat->node - SERVERS]);
            }
        }
    }
}

/* It says that it ended well. */
static inline void check_job(world *at, uint32_t number)
{
    const user_job *one = &at->jobs[number];
    for (uint32_t task = 0; task < one->tasks; task++) {
        if (one->committed[task] == 0) {
            world_wrong(at, "a job ends well, but not all of it was done", task);
        }
    }
}

#endif
