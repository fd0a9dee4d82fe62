/*
 * What comes over a simulated cluster: letters that reach whom they are for, a submitter,
 * faults drawn from a seed, the healing. Whatever its managers are (models, or the machine):
 * they stand before this.
 */
#ifndef GY_TESTS_CLUSTER_FAULTS_H
#define GY_TESTS_CLUSTER_FAULTS_H

#include "cluster_checks.h"
#include "cluster_hosts.h"
#include "cluster_servers.h"
#include "hunt_kit.h"

static const int64_t horizon_ns = 2500000000, limit_ns = 30000000000;

/* ---- Post ---- */

typedef struct delayed {
    world *at;
    int node;
    uint32_t life;
    letter what;
} delayed;

static inline void node_reads(world *at, int node, int from, const letter *sent);
/* A manager that is there reads what is for it. */
static inline void model_reads(world *at, model *who, letter *what);
/* What is the matter with tasks and what they wrote. */
static inline void task_fault(world *at, const fault *what);

static inline void delayed_arrives(void *arg)
{
    delayed *one = arg;
    if (!one->at->is_over && world_host(one->at, one->node)->life == one->life) {
        node_reads(one->at, one->node, one->node, &one->what);
    }
    gy_free(one);
}

/* For a manager that is stopped, or a whole host: it reads when it wakes. */
static inline bool must_wait(world *at, int node, const letter *what)
{
    const host *own = world_host(at, node);
    int64_t until_ns = own->stopped_until_ns;
    bool is_to_manager = what->kind == LETTER_ALLOCATIONS || what->kind == LETTER_TO_MANAGER ||
                         what->kind == LETTER_PONG;
    for (int i = 0; i < MODELS && is_to_manager; i++) {
        const model *who = &at->models[i];
        if (who->is_there && who->node == node && who->job == what->job &&
            who->epoch == what->epoch) {
            until_ns = GY_MAX(until_ns, who->stopped_until_ns);
        }
    }
    if (until_ns <= world_now(at)) {
        return false;
    }
    delayed *one = gy_alloc("world.delayed", sizeof(*one));
    if (one == NULL) {
        gy_panic("no memory for a simulated world");
    }
    *one = (delayed){.at = at, .node = node, .life = own->life};
    memcpy(&one->what, what, letter_bytes(what));
    world_at(at, until_ns - world_now(at), delayed_arrives, one);
    return true;
}

static inline void node_reads(world *at, int node, int from, const letter *sent)
{
    static letter what;
    if (at->is_over) {
        return;
    }
    memcpy(&what, sent, letter_bytes(sent));
    if (node < SERVERS) {
        server_reads(at, node, from, &what);
    } else if (node == SUBMITTER) {
        at->jobs[what.job].is_submitted = true;
    } else if (!world_host(at, node)->is_up || must_wait(at, node, &what)) {
        return;
    } else if (what.kind == LETTER_ORDER || what.kind == LETTER_TO_DAEMON ||
               what.kind == LETTER_PING || what.kind == LETTER_DISCARD) {
        host_reads(at, node, &what);
    } else {
        for (int i = 0; i < MODELS; i++) {
            model *who = &at->models[i];
            if (who->is_there && who->node == node && who->job == what.job &&
                who->epoch == what.epoch && who->has_begun) {
                model_reads(at, who, &what);
            }
        }
    }
}

typedef struct ear {
    world *at;
    int node;
} ear;

static ear ears[NODES];

static inline void ear_hears(void *arg, int from, const void *data, size_t size_bytes)
{
    const ear *own = arg;
    (void)size_bytes;
    node_reads(own->at, own->node, from, data);
}

static inline void listen_all(world *at)
{
    for (int node = 0; node < NODES; node++) {
        ears[node] = (ear){at, node};
        if (!gy_sim_is_listening(at->sim, node) && gy_sim_is_up(at->sim, node)) {
            gy_sim_listen(at->sim, node, ear_hears, &ears[node]);
        }
    }
}

/* ---- The submitter ---- */

/* As a user does: look, ask for what was seen, until it is seen to go on. */
static inline void user_resumes(world *at, uint32_t number)
{
    user_job *one = &at->jobs[number];
    gy_names_job seen;
    letter what = {.kind = LETTER_ASK};
    if ((one->resume != RESUME_MAY && one->resume != RESUME_ASKED) || !one->is_ended ||
        at->servers[0].machine == NULL ||
        !gy_names_find_job(at->servers[0].machine, one->key, &seen)) {
        return;
    }
    if (seen.is_ended && seen.status == GY_CANCELLED && seen.epoch > 0) {
        one->resume = RESUME_ASKED;
        one->ended_epoch = UINT32_MAX - 1; /* from now on it may have managers again */
        what.is.ask.event = (gy_names_event){
            .kind = GY_NAMES_RESUME, .key = one->key, .epoch = seen.epoch, .asker = JOBS + 3};
        post(at, SUBMITTER, 0, &what, false);
    } else if (one->resume == RESUME_ASKED) {
        world_say(at, "job", number, "goes on", seen.epoch);
        one->resume = RESUME_DONE;
        one->is_killed = false;
        one->is_ended = seen.is_ended;
        at->resumes++;
    }
}

static inline void submitter_ticks(void *arg)
{
    world *at = arg;
    if (at->is_over) {
        return;
    }
    listen_all(at); /* hosts that were started anew */
    for (uint32_t i = 0; i < at->job_count; i++) {
        user_job *one = &at->jobs[i];
        letter what = {.kind = LETTER_ASK};
        what.is.ask.submit = (gy_submit){
            .spec = {9, i}, .platform = 7, .weight = one->weight, .slots_max = one->width};
        what.is.ask.submit.slots_max += one->gang_width;
        what.is.ask.event =
            (gy_names_event){.kind = GY_NAMES_SUBMIT, .key = one->key, .asker = i + 1};
        if (!one->is_submitted && world_now(at) >= one->submit_ns) {
            post(at, SUBMITTER, 0, &what, false);
        }
        what.is.ask.event.kind = GY_NAMES_KILL;
        what.is.ask.event.asker = JOBS + 1;
        if (one->is_killed && one->is_submitted && !one->is_ended) {
            post(at, SUBMITTER, 0, &what, false);
        }
        user_resumes(at, i);
    }
    world_at(at, 30 * ms, submitter_ticks, at);
}

static inline void watchman(void *arg)
{
    world *at = arg;
    if (at->is_over) {
        return;
    }
    check_leases(at);
    look_at_list(at);
    if (at->is_healed && !at->is_released && is_calm(at)) {
        if (!has_gangs(at)) {
            check_shares(at);
            say_view(at);
        }
        check_processes(at);
        at->is_released = true;
    }
    if (at->is_released && is_clean(at)) {
        at->is_over = true;
    }
    world_at(at, 50 * ms, watchman, at);
}

/* ---- Faults ---- */

static inline void cut(world *at, int one, int other, bool is_cut)
{
    if (at->is_cut[one][other] != is_cut) {
        world_troubles(at, one, 0);
        world_troubles(at, other, 0);
    }
    at->is_cut[one][other] = is_cut;
    if (gy_sim_cut(at->sim, one, other, is_cut) < 0) {
        gy_panic("no memory for a simulated world");
    }
}

static inline void host_fault(world *at, const fault *what, int node)
{
    host *own = world_host(at, node);
    uint32_t living = 0;
    for (uint32_t i = 0; i < at->host_count; i++) {
        living += !at->hosts[i].is_gone;
    }
    if (what->kind == FAULT_HOST_STARTS) { /* on all: who gets the next manager is not known */
        for (uint32_t i = 0; i < at->host_count; i++) {
            at->hosts[i].fails_start = true;
            at->hosts[i].loses_start = what->which % 3 == 0;
        }
    } else if (what->kind == FAULT_HOST_STOPS) {
        own->stopped_until_ns = GY_MAX(own->stopped_until_ns, world_now(at) + what->span_ns);
        world_troubles(at, node, own->stopped_until_ns);
    } else if (what->kind == FAULT_HOST_GONE) {
        if (living == at->host_count && own->is_up) { /* one at most: gangs need room */
            own->is_gone = true;
            host_stop(at, node, false);
        }
    } else if (own->is_up) {
        if (what->kind == FAULT_GOODBYE) {
            gy_daemon_event stop = {.kind = GY_DAEMON_STOP};
            host_tell(at, node, &stop);
        }
        host_stop(at, node, what->kind == FAULT_HOST_WIPED);
        host_start(at, node, what->span_ns / 2);
    }
}

static inline void disk_fault(world *at, const fault *what, int node)
{
    host *own = world_host(at, node);
    own->fails_sync = own->fails_sync || what->kind == FAULT_SYNC_FAILS;
    own->fails_fetch = own->fails_fetch || what->kind == FAULT_PEER_GONE;
    if (what->kind == FAULT_DISK_FULL && own->is_up && !own->is_full) {
        gy_daemon_event full = {.kind = GY_DAEMON_DISK, .reason = "disk full"};
        own->is_full = true;
        host_tell(at, node, &full);
    }
}

static inline void table_fault(world *at, const fault *what)
{
    if (what->kind == FAULT_NAMES_DIES) {
        server_stop(at, 0);
        server_start(at, 0, what->span_ns);
    } else if (what->kind == FAULT_STORE_FAILS) {
        at->fails_store = true;
    } else if (what->kind == FAULT_STORE_FULL) {
        at->store_full_until_ns = world_now(at) + what->span_ns / 2;
    } else if (at->servers[1].machine == NULL) {
        server_start(at, 1, 0);
        for (uint32_t i = 0; i < at->host_count; i++) {
            at->hosts[i].names = (int)(what->which >> i & 1);
        }
    }
}

static inline void process_fault(world *at, const fault *what, int node)
{
    host *own = world_host(at, node);
    uint32_t number = what->which % at->job_count;
    if (what->kind == FAULT_FORK_SERVER_DIES && own->is_up) {
        fork_server_dies(at, node, number);
    } else if (what->kind == FAULT_EXECUTOR_DIES && own->is_up) {
        process_dies(at, node, &own->processes[what->which % PROCESSES]);
    }
    for (int i = 0; i < MODELS; i++) {
        model *who = &at->models[i];
        if (who->is_there && who->job == number && what->kind == FAULT_MANAGER_DIES) {
            model_ends(at, who, true);
        } else if (who->is_there && who->job == number && what->kind == FAULT_MANAGER_STOPS) {
            who->stopped_until_ns = world_now(at) + 500 * ms + 2 * what->span_ns;
            world_troubles(at, who->node, who->stopped_until_ns);
        }
    }
}

static inline void ask_drain(world *at, int node, bool is_on)
{
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){
        .kind = GY_NAMES_DRAIN, .id = (uint64_t)node, .is_on = is_on, .asker = JOBS + 2};
    post(at, SUBMITTER, 0, &what, true);
}

static inline void fault_fires(world *at, const fault *what)
{
    int node = SERVERS + (int)(what->which % at->host_count);
    world_say(at, "fault", (uint64_t)node, fault_names[what->kind], what->which);
    switch (what->kind) {
    case FAULT_HOST_DIES:
    case FAULT_HOST_WIPED:
    case FAULT_HOST_STARTS:
    case FAULT_HOST_GONE:
    case FAULT_HOST_STOPS:
    case FAULT_GOODBYE:
        host_fault(at, what, node);
        return;
    case FAULT_HOST_CUT:
        for (int other = 0; other < NODES; other++) {
            if (other != node) {
                cut(at, node, other, true);
                cut(at, other, node, true);
            }
        }
        return;
    case FAULT_ONE_WAY:
        cut(at, node, (int)(what->which / 8 % NODES), true);
        return;
    case FAULT_SYNC_FAILS:
    case FAULT_DISK_FULL:
    case FAULT_PEER_GONE:
        disk_fault(at, what, node);
        return;
    case FAULT_NAMES_DIES:
    case FAULT_RIVAL:
    case FAULT_STORE_FAILS:
    case FAULT_STORE_FULL:
        table_fault(at, what);
        return;
    case FAULT_MANAGER_DIES:
    case FAULT_MANAGER_STOPS:
    case FAULT_FORK_SERVER_DIES:
    case FAULT_EXECUTOR_DIES:
        process_fault(at, what, node);
        return;
    case FAULT_CLOCK_JUMPS: /* nothing may come of it */
        gy_sim_shift_wall(at->sim, node, 86400000 * ms * (what->which % 2 == 0 ? 1 : -1));
        return;
    case FAULT_DRAIN:
        ask_drain(at, node, true);
        return;
    case FAULT_OUTPUT_LOST:
    case FAULT_TASK_FAILS:
    case FAULT_HOST_BAD:
        task_fault(at, what);
        return;
    case FAULT_KILL:
        at->jobs[what->which % at->job_count].is_killed = true;
        return;
    case FAULTS:
        return;
    }
}

/* A partition ends, a disk has room, a rival goes: what lasts for the span of a fault. */
static inline void fault_ends(world *at, const fault *what)
{
    int node = SERVERS + (int)(what->which % at->host_count);
    host *own = world_host(at, node);
    if (what->kind == FAULT_HOST_CUT || what->kind == FAULT_ONE_WAY) {
        for (int other = 0; other < NODES; other++) {
            cut(at, node, other, false);
            cut(at, other, node, false);
        }
    } else if (what->kind == FAULT_DISK_FULL && own->is_full) {
        gy_daemon_event room = {.kind = GY_DAEMON_DISK, .reason = ""};
        own->is_full = false;
        host_tell(at, node, &room);
    } else if (what->kind == FAULT_PEER_GONE) {
        own->fails_fetch = false;
    } else if (what->kind == FAULT_DRAIN) {
        ask_drain(at, node, false);
    } else if (what->kind == FAULT_RIVAL) {
        server_stop(at, 1);
        for (uint32_t i = 0; i < at->host_count; i++) {
            at->hosts[i].names = 0;
        }
    }
}

typedef struct turn {
    world *at;
    const fault *what;
    bool is_end;
} turn;

static inline void turn_comes(void *arg)
{
    turn *own = arg;
    if (!own->at->is_over && own->is_end) {
        fault_ends(own->at, own->what);
    } else if (!own->at->is_over) {
        fault_fires(own->at, own->what);
    }
    gy_free(own);
}

static inline void plan_turn(world *at, const fault *what, bool is_end)
{
    turn *made = gy_alloc("world.turn", sizeof(*made));
    if (made == NULL) {
        gy_panic("no memory for a simulated world");
    }
    *made = (turn){at, what, is_end};
    world_at(at, what->at_ns + (is_end ? what->span_ns : 0), turn_comes, made);
}

/* The faults are over: whoever is not gone for good is there. */
static inline void heal(void *arg)
{
    world *at = arg;
    const gy_sim_link link = {.latency_ns = 200000, .jitter_ns = 500000};
    if (at->is_over) {
        return;
    }
    world_say(at, "world", 0, "heals", 0);
    at->is_healed = true;
    at->heal_ns = world_now(at);
    at->fails_store = false;
    at->store_full_until_ns = 0;
    for (int one = 0; one < NODES; one++) {
        for (int other = 0; other < NODES; other++) {
            cut(at, one, other, false);
            if (gy_sim_set_link(at->sim, one, other, &link) < 0) {
                gy_panic("no memory for a simulated world");
            }
        }
    }
    for (int i = 0; i < MODELS; i++) {
        at->models[i].stopped_until_ns = 0;
    }
    for (uint32_t i = 0; i < at->host_count; i++) {
        at->hosts[i].fails_sync = at->hosts[i].fails_fetch = at->hosts[i].fails_start = false;
        ask_drain(at, SERVERS + (int)i, false);
    }
}

/* ---- A story ---- */

static inline uint64_t mix(uint64_t seed, uint64_t what)
{
    const uint64_t both[2] = {seed, what};
    return gy_hash(both, sizeof(both), 77);
}

/* Of the first `most` kinds; those of `mask` happen. */
static inline void draw_faults(world *at, uint32_t mask, uint32_t most)
{
    gy_random random = {.key = mix(at->seed, 2)};
    static const uint32_t counts[] = {0, 1, 3, 6, 12, WORLD_FAULTS};
    uint32_t count = counts[gy_random_below(&random, GY_COUNT(counts))];
    uint32_t kinds = (uint32_t)gy_random_below(&random, 1u << most); /* of this seed */
    for (uint32_t i = 0; i < count; i++) {
        fault one = {0};
        do {
            one.kind = (fault_kind)gy_random_below(&random, most);
        } while (kinds != 0 && (kinds >> one.kind & 1) == 0);
        one.at_ns = (int64_t)gy_random_below(&random, (uint64_t)horizon_ns);
        one.span_ns = (int64_t)gy_random_below(&random, (uint64_t)(600 * ms));
        one.span_ns *= gy_random_below(&random, 6) == 0 ? 4 : 1;
        one.which = (uint32_t)gy_random_below(&random, 1u << 20);
        if ((mask >> i & 1) != 0) {
            at->faults[at->fault_count++] = one;
        }
    }
}

static inline void world_free(world *at)
{
    at->is_over = true;
    while (gy_sim_step(at->sim)) { /* what was to come frees itself */
    }
    for (int i = 0; i < SERVERS; i++) {
        gy_names_free(at->servers[i].machine);
        gy_free(at->servers[i].said.items);
    }
    for (int i = 0; i < HOSTS; i++) {
        gy_daemon_free(at->hosts[i].machine);
        gy_free(at->hosts[i].said.items);
    }
    gy_sim_free(at->sim);
}

#endif
