/*
 * What a host of a simulated cluster does for its daemon: records, processes, fork servers,
 * fetches.
 */
#ifndef GY_TESTS_CLUSTER_PROCESSES_H
#define GY_TESTS_CLUSTER_PROCESSES_H

#include "cluster_world.h"
#include "sched/manager.h"

static inline void host_tell(world *at, int node, gy_daemon_event *event);
/* What a process has to say when it comes to the end of a task; false: it goes on with it. */
static inline bool work_ends(world *at, int node, process *one, word *result);
/* What a fetch that is at its end came to: section `content` of that job, from `peer`. */
static inline gy_status fetch_result(world *at, int node, const outstanding *what, int peer,
                                     uint64_t incarnation);

enum { TOKEN_BYTES = 8, TOKEN_READY = 255, TOKEN_PROGRESS = 254 };
/* Kinds of words of and to the machine. */
enum { WORD_START = 1, WORD_CANCEL, WORD_DONE, WORD_FAILED };

/* Something that happens at a host, unless it died since; waits while it is stopped. */
static inline host *later_host(later *what, gy_env_fire fire)
{
    world *at = what->at;
    host *own = world_host(at, what->index);
    if (at->is_over || own->life != what->life || !own->is_up) {
        gy_free(what);
        return NULL;
    }
    int64_t left_ns = own->stopped_until_ns - world_now(at);
    if (left_ns > 0) {
        world_at(at, left_ns, fire, what);
        return NULL;
    }
    return own;
}

static inline later *host_later(world *at, int node)
{
    return later_new(at, node, world_host(at, node)->life);
}

static inline void host_wakes(void *arg)
{
    later *what = arg;
    world *at = what->at;
    const int64_t left_ns = world_host(at, what->index)->stopped_until_ns - world_now(at);
    if (left_ns > 0) { /* before or behind what came meanwhile */
        world_at(at, left_ns + (int64_t)world_below(at, (uint64_t)ms), host_wakes, what);
    } else if (later_host(what, host_wakes) != NULL) {
        gy_daemon_event event = {.kind = GY_DAEMON_TIMER};
        host_tell(what->at, what->index, &event);
        gy_free(what);
    }
}

/* ---- Records ---- */

static inline void sync_ends(void *arg)
{
    later *what = arg;
    world *at = what->at;
    host *own = later_host(what, sync_ends);
    if (own == NULL) {
        return;
    }
    gy_daemon_event event = {.kind = GY_DAEMON_SYNCED, .job = what->key};
    uint32_t job = world_job(at, what->key);
    event.status = own->fails_sync ? GY_IO : own->is_full ? GY_LIMIT : GY_OK;
    if (event.status == GY_OK || (own->fails_sync && world_below(at, 2) == 0)) {
        own->jobs[job].epoch = GY_MAX(own->jobs[job].epoch, what->epoch);
        own->jobs[job].started = GY_MAX(own->jobs[job].started, what->generation);
    }
    if (event.status == GY_OK) {
        if (what->epoch > own->jobs[job].known) { /* a new manager begins to be silent then */
            own->jobs[job].heard_ns = world_now(at);
        }
        own->jobs[job].known = GY_MAX(own->jobs[job].known, what->epoch);
        for (int i = 0; i < OUTSTANDING; i++) { /* nobody waits for these any more */
            outstanding *one = &own->fetches[i];
            one->is_there =
                one->is_there && (one->job != job || one->epoch >= own->jobs[job].known);
        }
    }
    if (event.status < 0) {
        world_troubles(at, what->index, 0);
    }
    own->fails_sync = false;
    host_tell(at, what->index, &event);
    gy_free(what);
}

/* ---- Processes ---- */

static inline process *find_process(host *own, uint64_t lease, uint32_t generation)
{
    for (int i = 0; i < PROCESSES; i++) {
        process *one = &own->processes[i];
        if (one->is_there && one->lease == lease && one->generation == generation) {
            return one;
        }
    }
    return NULL;
}

static inline void say_word(world *at, int node, process *one, word said)
{
    if (one->up_count < GY_COUNT(one->up)) {
        one->up[one->up_count++] = said;
    }
    gy_daemon_event event = {.kind = GY_DAEMON_EXECUTOR_READY,
                             .lease = one->lease,
                             .generation = one->generation,
                             .bytes = TOKEN_BYTES};
    host_tell(at, node, &event);
}

static inline process *later_process(later *what, host *own)
{
    process *one = &own->processes[what->place];
    return one->is_there && one->serial == what->generation ? one : NULL;
}

static inline later *process_later(world *at, int node, const process *one)
{
    later *what = host_later(at, node);
    what->place = (uint32_t)(one - world_host(at, node)->processes);
    what->generation = one->serial;
    return what;
}

static inline void task_ends(void *arg);

static inline void process_works(world *at, int node, process *one);

static inline void process_looks(void *arg)
{
    later *what = arg;
    host *own = later_host(what, process_looks);
    if (own != NULL) {
        process *one = later_process(what, own);
        if (one != NULL) {
            process_works(what->at, what->index, one);
        }
        gy_free(what);
    }
}

/* Words that take a task back are read at once. */
static inline void process_cancels(world *at, int node, process *one)
{
    for (uint32_t i = 0; i + one->pending < one->down_count; i++) {
        const word said = one->down[i];
        if (said.kind != WORD_CANCEL) {
            continue;
        }
        memmove(one->down + i, one->down + i + 1, (--one->down_count - i) * sizeof(word));
        if (one->is_busy && one->at.run == said.run && one->at.member == said.member) {
            one->is_cancelled = true;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (one->down[k].run == said.run && one->down[k].member == said.member) {
                one->down[k].cause = GY_CAUSE_CANCELLED;
            }
        }
        i--;
        gy_daemon_event event = {.kind = GY_DAEMON_EXECUTOR_TOOK,
                                 .lease = one->lease,
                                 .generation = one->generation,
                                 .bytes = TOKEN_BYTES};
        host_tell(at, node, &event);
    }
}

static inline void process_works(world *at, int node, process *one)
{
    process_cancels(at, node, one);
    if (one->is_busy || one->is_dying || one->down_count == one->pending) {
        return;
    }
    one->at = one->down[0];
    memmove(one->down, one->down + 1, --one->down_count * sizeof(word));
    one->is_busy = true;
    one->is_cancelled = false;
    later *what = process_later(at, node, one);
    world_at(at, at->pace * (ms + (int64_t)world_below(at, (uint64_t)(15 * ms))), task_ends,
             what);
    gy_daemon_event event = {.kind = GY_DAEMON_EXECUTOR_TOOK,
                             .lease = one->lease,
                             .generation = one->generation,
                             .bytes = TOKEN_BYTES};
    host_tell(at, node, &event);
}

static inline void task_ends(void *arg)
{
    later *what = arg;
    world *at = what->at;
    host *own = later_host(what, task_ends);
    if (own == NULL) {
        return;
    }
    process *one = later_process(what, own);
    if (one != NULL && !one->is_dying) {
        word result = one->at;
        say_word(at, what->index, one, (word){.token = TOKEN_PROGRESS});
        if (!work_ends(at, what->index, one, &result)) {
            world_at(at, 20 * ms, task_ends, what);
            return;
        }
        one->is_busy = false;
        say_word(at, what->index, one, result);
        process_works(at, what->index, one);
    }
    gy_free(what);
}

static inline void process_starts(void *arg)
{
    later *what = arg;
    host *own = later_host(what, process_starts);
    if (own == NULL) {
        return;
    }
    process *one = later_process(what, own);
    if (one != NULL && !one->is_dying) {
        say_word(what->at, what->index, one, (word){.token = TOKEN_READY});
    }
    gy_free(what);
}

static inline void process_is_gone(void *arg)
{
    later *what = arg;
    host *own = later_host(what, process_is_gone);
    if (own == NULL) {
        return;
    }
    process *one = later_process(what, own);
    if (one != NULL) {
        gy_daemon_event event = {.kind = GY_DAEMON_EXECUTOR_DOWN,
                                 .lease = one->lease,
                                 .generation = one->generation,
                                 .reason = "died"};
        one->is_there = false;
        host_tell(what->at, what->index, &event);
    }
    gy_free(what);
}

/* It is killed; some need a while. */
static inline void process_dies(world *at, int node, process *one)
{
    if (one->is_there && !one->is_dying) {
        const int64_t woke_ns = world_host(at, node)->stopped_until_ns;
        one->is_dying = true;
        one->is_overslept = woke_ns > 0 && world_now(at) - woke_ns < ms;
        int64_t ns_max = world_below(at, 8) == 0 ? 400 * ms : 20 * ms;
        world_at(at, 200000 + (int64_t)world_below(at, (uint64_t)ns_max), process_is_gone,
                 process_later(at, node, one));
    }
}

static inline void on_executor_start(world *at, int node, const gy_daemon_effect *effect)
{
    host *own = world_host(at, node);
    process *free_one = NULL;
    uint32_t count = 0;
    for (int i = 0; i < PROCESSES; i++) {
        process *one = &own->processes[i];
        count += one->is_there;
        free_one = !one->is_there && free_one == NULL ? one : free_one;
    }
    if (count >= own->slots || free_one == NULL) {
        world_wrong(at, "a slot has two processes", (uint64_t)node);
        return;
    }
    if (own->jobs[world_job(at, effect->job)].fork_server != effect->epoch) {
        world_wrong(at, "a process is started in another manager's nursery", effect->epoch);
    }
    if (find_process(own, effect->lease, effect->generation) != NULL) {
        world_wrong(at, "a process is started twice", effect->lease);
    }
    *free_one = (process){.is_there = true,
                          .job = world_job(at, effect->job),
                          .epoch = effect->epoch,
                          .generation = effect->generation,
                          .serial = ++at->serial,
                          .lease = effect->lease,
                          .credited = TOKEN_BYTES /* with OPEN */};
    world_at(at, ms + (int64_t)world_below(at, (uint64_t)(4 * ms)), process_starts,
             process_later(at, node, free_one));
}

static inline void fork_server_is_up(void *arg)
{
    later *what = arg;
    host *own = later_host(what, fork_server_is_up);
    if (own == NULL) {
        return;
    }
    if (own->jobs[what->job].fork_server == what->epoch &&
        !own->jobs[what->job].fork_server_dies) {
        gy_daemon_event event = {.kind = GY_DAEMON_FORK_SERVER_UP,
                                 .job = what->at->jobs[what->job].key,
                                 .epoch = what->epoch};
        host_tell(what->at, what->index, &event);
    }
    gy_free(what);
}

static inline void fork_server_is_gone(void *arg)
{
    later *what = arg;
    world *at = what->at;
    host *own = later_host(what, fork_server_is_gone);
    if (own == NULL) {
        return;
    }
    if (own->jobs[what->job].fork_server == what->epoch) {
        gy_daemon_event event = {.kind = GY_DAEMON_FORK_SERVER_DOWN,
                                 .job = at->jobs[what->job].key,
                                 .epoch = what->epoch,
                                 .reason = "died"};
        own->jobs[what->job].fork_server = 0;
        for (int i = 0; i < PROCESSES; i++) { /* its children went before it */
            process *one = &own->processes[i];
            one->is_there = one->is_there && one->job != what->job;
        }
        host_tell(at, what->index, &event);
    }
    gy_free(what);
}

static inline void fork_server_dies(world *at, int node, uint32_t job)
{
    host *own = world_host(at, node);
    if (own->jobs[job].fork_server == 0 || own->jobs[job].fork_server_dies) {
        return;
    }
    own->jobs[job].fork_server_dies = true;
    later *what = host_later(at, node);
    what->job = job;
    what->epoch = own->jobs[job].fork_server;
    world_at(at, 500000 + (int64_t)world_below(at, (uint64_t)(10 * ms)), fork_server_is_gone,
             what);
}

static inline void on_fork_server_start(world *at, int node, const gy_daemon_effect *effect)
{
    uint32_t job = world_job(at, effect->job);
    host *own = world_host(at, node);
    if (own->jobs[job].fork_server != 0) {
        world_wrong(at, "a nursery is started where another is", job);
    }
    own->jobs[job].fork_server = effect->epoch;
    own->jobs[job].fork_server_dies = false;
    own->jobs[job].has_files = true;
    later *what = host_later(at, node);
    what->job = job;
    what->epoch = effect->epoch;
    world_at(at, ms + (int64_t)world_below(at, (uint64_t)(3 * ms)), fork_server_is_up, what);
}

/* ---- Fetches ---- */

static inline void fetch_ends(void *arg)
{
    later *what = arg;
    world *at = what->at;
    host *own = later_host(what, fetch_ends);
    if (own == NULL) {
        return;
    }
    int place = 0;
    while (place < OUTSTANDING && own->tickets[place] != what->ticket) {
        place++;
    }
    if (place < OUTSTANDING) {
        gy_daemon_event event = {.kind = GY_DAEMON_FETCHED, .ticket = what->ticket};
        const outstanding asked = {.content = own->fetching[place]};
        event.status = fetch_result(at, what->index, &asked, (int)what->number, what->key.high);
        gy_key content = own->fetching[place];
        own->tickets[place] = 0;
        what->key = content;
        for (int i = 0; i < OUTSTANDING && event.status != GY_OK; i++) {
            own->fetches[i].content.high |=
                (uint64_t)gy_key_is_same(own->fetches[i].content, content) << 63;
        }
        host_tell(at, what->index, &event);
        for (int i = 0; i < OUTSTANDING; i++) {
            own->fetches[i].content.high &= ~(UINT64_C(1) << 63);
            if (event.status == GY_OK && own->fetches[i].is_there &&
                gy_key_is_same(own->fetches[i].content, content)) {
                world_wrong(at, "who waited for a section was not told", what->ticket);
            }
        }
    }
    gy_free(what);
}

static inline void on_fetch_start(world *at, int node, const gy_daemon_effect *effect)
{
    host *own = world_host(at, node);
    gy_key content = {effect->section.content.high, effect->job.low};
    int place = -1;
    for (int i = 0; i < OUTSTANDING; i++) {
        if (own->tickets[i] != 0 && gy_key_is_same(own->fetching[i], content)) {
            world_wrong(at, "a section is fetched twice at once", effect->ticket);
        }
        place = own->tickets[i] == 0 ? i : place;
    }
    if (place < 0) {
        world_wrong(at, "too many fetches at once", effect->ticket);
        return;
    }
    own->fetching[place] = content;
    own->tickets[place] = effect->ticket;
    later *what = host_later(at, node);
    what->ticket = effect->ticket;
    what->number = effect->section.peer;
    what->key.high = effect->section.incarnation;
    world_at(at, ms + (int64_t)world_below(at, (uint64_t)(20 * ms)), fetch_ends, what);
}

static inline void on_fetch_told(world *at, host *own, const gy_daemon_effect *effect)
{
    for (int i = 0; i < OUTSTANDING; i++) {
        outstanding *one = &own->fetches[i];
        if (one->is_there && one->job == world_job(at, effect->job) &&
            one->epoch == effect->epoch && one->number == effect->number) {
            if (effect->status == GY_OK && one->content.high >> 63 != 0) {
                world_wrong(at, "wrong bytes are taken for a section", effect->number);
            }
            one->is_there = false;
        }
    }
}

#endif
