/*
 * Managers of a simulated cluster: a small model of one. It wants slots, runs tasks in
 * executors, commits under its epoch into a journal that its successors seal, and ends its job.
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

static inline void to_executor(world *at, const model *who, const executor_view *executor,
                               gy_daemon_event_kind kind)
{
    letter what = {.words = {{.token = (uint8_t)executor->task}}};
    what.is.to_daemon.event = (gy_daemon_event){.kind = kind,
                                                .lease = executor->lease,
                                                .generation = executor->generation,
                                                .bytes = TOKEN_BYTES};
    to_daemon(at, who, executor->node, &what,
              kind == GY_DAEMON_DOWN || kind == GY_DAEMON_CREDIT);
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

static inline uint32_t gang_executors(const model *who)
{
    uint32_t count = 0;
    for (int i = 0; i < EXECUTORS; i++) {
        count += who->executors[i].lease != 0 && who->executors[i].gang == who->gang &&
                 !who->executors[i].is_returning;
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

static inline void report_requests(world *at, model *who)
{
    letter what = {.kind = LETTER_REQUESTS};
    gy_manager_requests *requests = &what.is.requests;
    const user_job *own = &at->jobs[who->job];
    *requests = (gy_manager_requests){.job = own->key,
                                      .epoch = who->epoch,
                                      .sequence = ++who->sequence,
                                      .seen = who->seen,
                                      .slots = slots_wanted(at, who)};
    if (needs_gang(at, who) && who->gang_known == 0) {
        requests->gangs[requests->gang_count++] = (gy_gang_request){
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

static inline void release(world *at, const model *who, const executor_view *executor)
{
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                         .key = at->jobs[who->job].key,
                                         .epoch = who->epoch,
                                         .lease = executor->lease};
    to_names(at, who, &what);
}

/* ---- Executors ---- */

static inline void gang_fails(model *who)
{
    for (int i = 0; i < EXECUTORS; i++) {
        executor_view *executor = &who->executors[i];
        executor->is_returning =
            executor->is_returning || (executor->lease != 0 && executor->gang == who->gang);
    }
    who->gang++;
    who->gang_known = 0;
    memset(who->has_result, 0, sizeof(who->has_result));
}

/* It goes back, and with it its gang, if that is the one which is waited for or at work. */
static inline void executor_returns(model *who, executor_view *executor)
{
    const bool is_of_gang =
        executor->gang != 0 && executor->gang == who->gang && !executor->is_returning;
    executor->is_returning = true;
    if (is_of_gang) {
        gang_fails(who);
    }
}

/* Its lease is over. */
static inline void executor_drop(model *who, executor_view *executor)
{
    bool is_of_gang = executor->gang != 0 && executor->gang == who->gang;
    *executor = (executor_view){0};
    if (is_of_gang) {
        gang_fails(who);
    }
}

static inline executor_view *executor_find(model *who, uint64_t lease)
{
    for (int i = 0; i < EXECUTORS && lease != 0; i++) {
        if (who->executors[i].lease == lease) {
            return &who->executors[i];
        }
    }
    return NULL;
}

static inline int next_task(const world *at, const model *who)
{
    const user_job *own = &at->jobs[who->job];
    for (uint32_t task = own->gang_width > 0; task < own->tasks; task++) {
        bool is_free = !who->is_done[task];
        for (int i = 0; i < EXECUTORS && is_free; i++) {
            is_free = who->executors[i].lease == 0 || who->executors[i].is_returning ||
                      who->executors[i].task != (int)task;
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

static inline void executor_fetches(world *at, model *who, executor_view *executor)
{
    letter what = {0};
    executor->fetch = executor->fetch == 0 ? ++who->fetch : executor->fetch;
    what.is.to_daemon.event =
        (gy_daemon_event){.kind = GY_DAEMON_FETCH, .number = executor->fetch};
    what.is.to_daemon.section = (gy_wanted_section){
        .content = {(uint64_t)executor->task % 2 + 1, 5}, .peer = SERVERS, .size_bytes = 100};
    to_daemon(at, who, executor->node, &what, false);
}

static inline void executor_works(world *at, model *who, executor_view *executor)
{
    const user_job *own = &at->jobs[who->job];
    if (executor->task >= 0) {
        if (!executor->has_input) {
            executor_fetches(at, who, executor);
        }
        return;
    }
    if (executor->gang != 0) {
        return; /* see gang_works */
    }
    executor->task = executor->is_asked && !own->is_stubborn ? -1 : next_task(at, who);
    if (executor->task >= 0) {
        executor->has_input = executor->task % 3 == 0;
        if (executor->has_input) {
            to_executor(at, who, executor, GY_DAEMON_DOWN);
        } else {
            executor_fetches(at, who, executor);
        }
    } else if (!is_held(at, who) || (executor->is_asked && !own->is_stubborn)) {
        executor->is_returning = true;
    }
}

/* All members at once, when all are ready. */
static inline void gang_works(world *at, model *who)
{
    bool has_started = false;
    uint32_t ready = 0;
    for (int i = 0; i < EXECUTORS; i++) {
        const executor_view *executor = &who->executors[i];
        if (executor->lease != 0 && executor->gang == who->gang && !executor->is_returning) {
            has_started = has_started || executor->task >= 0;
            ready += executor->is_ready;
        }
    }
    if (!needs_gang(at, who) || has_started || ready < at->jobs[who->job].gang_width) {
        return;
    }
    for (int i = 0; i < EXECUTORS; i++) {
        executor_view *executor = &who->executors[i];
        if (executor->lease != 0 && executor->gang == who->gang) {
            executor->task = 0;
            executor->has_input = true;
            to_executor(at, who, executor, GY_DAEMON_DOWN);
        }
    }
}

/* What it holds there is lost. */
static inline void model_loses_host(model *who, int node)
{
    for (int i = 0; i < EXECUTORS; i++) {
        executor_view *executor = &who->executors[i];
        if (executor->lease != 0 && executor->node == node) {
            executor_returns(who, executor);
        }
    }
}

/* A host that is silent has lost what ran there, and one that never answered has nothing. */
static inline void look_at_hosts(world *at, model *who)
{
    for (int i = 0; i < HOSTS; i++) {
        int64_t since_ns = INT64_MAX; /* when it first had something there */
        for (int k = 0; k < EXECUTORS; k++) {
            const executor_view *executor = &who->executors[k];
            since_ns = executor->lease != 0 && executor->node == i + SERVERS
                           ? GY_MIN(since_ns, executor->since_ns)
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
    report_requests(at, who);
    look_at_hosts(at, who);
    for (int i = 0; i < EXECUTORS && who->is_there; i++) {
        executor_view *executor = &who->executors[i];
        if (executor->lease == 0) {
            continue;
        }
        if (executor->is_returning) {
            release(at, who, executor);
        } else if (who->is_attached[executor->node - SERVERS] && !executor->is_ready) {
            to_executor(at, who, executor, GY_DAEMON_OPEN);
        } else if (executor->is_ready) {
            executor_works(at, who, executor);
        }
    }
    gang_works(at, who);
    if (is_done) {
        say_end(at, who);
    }
}

/* ---- Letters ---- */

/* A lease that was over may be back, and both are told in one letter: what is over is older. */
static inline bool is_back(const letter *what, const gy_allocation *gone)
{
    bool is_there = false;
    for (size_t i = 0; i < what->is.allocations.effect.allocation_count; i++) {
        const gy_allocation *allocation = &what->is.allocations.allocations[i];
        is_there = is_there || (allocation->lease == gone->lease &&
                                allocation->state != GY_ALLOCATION_GONE);
    }
    return is_there;
}

/* false: there is no room for it. */
static inline bool take_executor(world *at, model *who, const gy_allocation *allocation)
{
    executor_view *executor = executor_find(who, allocation->lease);
    const bool is_new = executor == NULL;
    for (int k = 0; k < EXECUTORS && executor == NULL; k++) {
        executor = who->executors[k].lease == 0 ? &who->executors[k] : NULL;
    }
    if (executor == NULL) {
        world_wrong(at, "a manager has more leases than slots are", allocation->lease);
        return false;
    }
    if (is_new) {
        *executor = (executor_view){.lease = allocation->lease,
                                    .node = (int)allocation->daemon,
                                    .gang = allocation->gang,
                                    .generation = ++who->generation,
                                    .task = -1,
                                    .since_ns = world_now(at)};
        /* of a gang that is over, or that another name server has served */
        executor->is_returning =
            allocation->gang != 0 && (allocation->gang != who->gang || who->gang_known != 0);
    }
    executor->is_asked = allocation->state == GY_ALLOCATION_ASKED;
    if (executor->is_asked && executor->gang != 0 && !at->jobs[who->job].is_stubborn) {
        executor_returns(who, executor);
    }
    return true;
}

static inline void model_takes_allocations(world *at, model *who, const letter *what)
{
    const gy_names_effect *said = &what->is.allocations.effect;
    const uint32_t gang = who->gang_known == 0 ? who->gang : 0; /* the one that it waits for */
    uint32_t of_gang = 0;
    who->is_killed = who->is_killed || said->is_on;
    if (said->from > who->seen || said->version <= who->seen) {
        return;
    }
    who->seen = said->version;
    for (size_t i = 0; i < said->allocation_count; i++) {
        const gy_allocation *allocation = &what->is.allocations.allocations[i];
        executor_view *executor = executor_find(who, allocation->lease);
        if (allocation->lease == 0 || allocation->state != GY_ALLOCATION_GONE) {
            continue; /* 0: a daemon that is lost, nothing of this model lies there */
        }
        of_gang += gang != 0 && allocation->gang == gang && executor == NULL &&
                   !is_back(what, allocation);
        if (executor != NULL) {
            executor_drop(who, executor);
        }
    }
    for (size_t i = 0; i < said->allocation_count; i++) {
        const gy_allocation *allocation = &what->is.allocations.allocations[i];
        if (allocation->state == GY_ALLOCATION_GONE) {
            continue;
        }
        of_gang += gang != 0 && allocation->gang == gang &&
                   executor_find(who, allocation->lease) == NULL;
        if (!take_executor(at, who, allocation)) {
            return;
        }
    }
    if (of_gang > 0 && of_gang != at->jobs[who->job].gang_width) {
        world_wrong(at, "half a gang is granted", of_gang);
    }
    at->gangs += of_gang > 0;
    if (of_gang > 0 && who->gang == gang) {
        who->gang_known = of_gang;
        if (gang_executors(who) < of_gang) {
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

static inline void gang_result(world *at, model *who, executor_view *executor)
{
    uint32_t left = 0;
    executor->task = -2; /* this member is done */
    for (int i = 0; i < EXECUTORS; i++) {
        left += who->executors[i].lease != 0 && who->executors[i].gang == who->gang &&
                who->executors[i].task != -2;
    }
    if (left == 0 && !who->is_done[0]) {
        commit(at, who, 0);
        gang_fails(who); /* all of them go back */
    }
}

static inline void model_reads_tokens(world *at, model *who, executor_view *executor,
                                      const letter *what)
{
    uint64_t count = what->is.to_manager.effect.bytes / TOKEN_BYTES;
    for (uint64_t i = 0; i < count && who->is_there && executor->lease != 0; i++) {
        uint8_t token = what->words[i].token;
        to_executor(at, who, executor, GY_DAEMON_CREDIT);
        if (token == TOKEN_READY) {
            executor->is_ready = true;
        } else if (token == TOKEN_PROGRESS || (int)token != executor->task ||
                   executor->is_returning) {
            continue;
        } else if (executor->gang != 0) {
            gang_result(at, who, executor);
        } else {
            executor->task = -1;
            executor->has_input = false;
            commit(at, who, token);
        }
    }
}

static inline void fetch_answer(world *at, model *who, const gy_daemon_effect *said)
{
    for (int i = 0; i < EXECUTORS; i++) {
        executor_view *executor = &who->executors[i];
        if (executor->lease == 0 || executor->fetch == 0 || executor->fetch != said->number) {
            continue;
        }
        executor->fetch = 0; /* where it failed: again, under another number */
        if (said->status == GY_OK && executor->task >= 0 && !executor->has_input) {
            executor->has_input = true;
            to_executor(at, who, executor, GY_DAEMON_DOWN);
        }
    }
}

static inline void model_reads_daemon(world *at, model *who, const letter *what)
{
    const gy_daemon_effect *said = &what->is.to_manager.effect;
    executor_view *executor = executor_find(who, said->lease);
    int place = what->node - SERVERS;
    bool is_now = executor != NULL && executor->generation == said->generation;
    who->heard_ns[place] = world_now(at);
    if (said->kind == GY_DAEMON_TELL_ATTACHED) {
        who->is_attached[place] = true;
    } else if (said->kind == GY_DAEMON_RELAY_UP && is_now) {
        model_reads_tokens(at, who, executor, what);
    } else if (said->kind == GY_DAEMON_TELL_FETCHED) {
        fetch_answer(at, who, said);
    } else if (said->kind == GY_DAEMON_TELL_LEASE_GONE && executor != NULL) {
        executor_drop(who, executor);
    } else if (said->kind == GY_DAEMON_TELL_EXECUTOR_GONE && is_now) {
        bool is_of_gang = executor->gang != 0 && executor->gang == who->gang;
        executor->generation = ++who->generation;
        executor->is_ready = executor->has_input = false;
        executor->task = -1;
        executor->fetch = 0;
        if (is_of_gang) {
            gang_fails(who);
        }
    } else if (said->kind == GY_DAEMON_TELL_REFUSED && said->status == GY_STATE) {
        model_ends(at, who, true);
    } else if (said->kind == GY_DAEMON_TELL_REFUSED && said->status == GY_AGAIN && !is_now) {
        who->is_attached[place] = false;
    } else if (said->kind == GY_DAEMON_TELL_REFUSED && said->status == GY_NOTFOUND &&
               executor != NULL) {
        executor_drop(who, executor); /* a later name server may never have heard of it */
    }
}

static inline void model_reads(world *at, model *who, letter *what)
{
    int place = what->node - SERVERS;
    if (what->kind == LETTER_ALLOCATIONS && what->is.allocations.effect.kind == GY_NAMES_OVER) {
        model_over(at, who, what->is.allocations.effect.status);
    } else if (what->kind == LETTER_ALLOCATIONS) {
        model_takes_allocations(at, who, what);
    } else {
        if (who->lives[place] != what->life) { /* started anew: nothing runs there */
            who->is_attached[place] = false;
            for (int i = 0; i < EXECUTORS && who->lives[place] != 0; i++) {
                executor_view *executor = &who->executors[i];
                if (executor->lease != 0 && executor->node == what->node) {
                    executor_drop(who, executor);
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
        for (int k = 0; k < EXECUTORS && at->is_traced && who->is_there; k++) {
            const executor_view *executor = &who->executors[k];
            if (executor->lease != 0) {
                printf("  manager of %u (gang %u, has %u): lease %llx at %d, gang %u, task %d, "
                       "input %d, ready %d, returning %d, attached %d\n",
                       who->job, who->gang, who->gang_known,
                       (unsigned long long)executor->lease, executor->node, executor->gang,
                       executor->task, executor->has_input, executor->is_ready,
                       executor->is_returning, who->is_attached[executor->node - SERVERS]);
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
