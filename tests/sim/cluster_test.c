/*
 * Goal: name server and daemons in a world of faults, drawn from a seed: hosts that die, stop,
 * lose their folder or their link, name servers that die or are two, managers that die or wake
 * late, letters lost, doubled, late, disks and tables that fail or are full. No slot is lent
 * twice, no epoch has two managers, no older one is obeyed, no accepted job is forgotten, gangs
 * get all or nothing; once the faults are over shares are fair and every job ends. Each bug
 * that is planted on purpose is found.
 */
#include "cluster/control/plant_priv.h"

#include <stdlib.h>
#include <time.h>

#include "gy_test.h"

#include "cluster_checks.h"
#include "cluster_models.h"
#include "cluster_servers.h"
#include "hunt_kit.h"

static const int64_t horizon_ns = 2500000000, limit_ns = 30000000000;

static bool is_traced;

/* ---- Post ---- */

typedef struct delayed {
    world *at;
    int node;
    uint32_t life;
    letter what;
} delayed;

static void node_reads(world *at, int node, int from, const letter *sent);

static void delayed_arrives(void *arg)
{
    delayed *one = arg;
    if (!one->at->is_over && world_host(one->at, one->node)->life == one->life) {
        node_reads(one->at, one->node, one->node, &one->what);
    }
    gy_free(one);
}

/* For a manager that is stopped, or a whole host: it reads when it wakes. */
static bool must_wait(world *at, int node, const letter *what)
{
    const host *own = world_host(at, node);
    int64_t until_ns = own->stopped_until_ns;
    bool is_to_manager = what->kind == LETTER_GRANTS || what->kind == LETTER_TO_MANAGER ||
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

static void node_reads(world *at, int node, int from, const letter *sent)
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
    } else if (what.kind == LETTER_ORDER || what.kind == LETTER_TO_DAEMON) {
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

static void ear_hears(void *arg, int from, const void *data, size_t size_bytes)
{
    const ear *own = arg;
    (void)size_bytes;
    node_reads(own->at, own->node, from, data);
}

static void listen_all(world *at)
{
    for (int node = 0; node < NODES; node++) {
        ears[node] = (ear){at, node};
        if (!gy_sim_is_listening(at->sim, node) && gy_sim_is_up(at->sim, node)) {
            gy_sim_listen(at->sim, node, ear_hears, &ears[node]);
        }
    }
}

/* ---- The submitter ---- */

static void submitter_ticks(void *arg)
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
    }
    world_at(at, 30 * ms, submitter_ticks, at);
}

static void watchman(void *arg)
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

static void cut(world *at, int one, int other, bool is_cut)
{
    if (gy_sim_cut(at->sim, one, other, is_cut) < 0) {
        gy_panic("no memory for a simulated world");
    }
}

static void host_fault(world *at, const fault *what, int node)
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

static void disk_fault(world *at, const fault *what, int node)
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

static void table_fault(world *at, const fault *what)
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

static void process_fault(world *at, const fault *what, int node)
{
    host *own = world_host(at, node);
    uint32_t number = what->which % at->job_count;
    if (what->kind == FAULT_NURSERY_DIES && own->is_up) {
        nursery_dies(at, node, number);
    } else if (what->kind == FAULT_SEAT_DIES && own->is_up) {
        process_dies(at, node, &own->processes[what->which % PROCESSES]);
    }
    for (int i = 0; i < MODELS; i++) {
        model *who = &at->models[i];
        if (who->is_there && who->job == number && what->kind == FAULT_MANAGER_DIES) {
            model_ends(at, who, true);
        } else if (who->is_there && who->job == number && what->kind == FAULT_MANAGER_STOPS) {
            who->stopped_until_ns = world_now(at) + 500 * ms + 2 * what->span_ns;
        }
    }
}

static void ask_drain(world *at, int node, bool is_on)
{
    letter what = {.kind = LETTER_ASK};
    what.is.ask.event = (gy_names_event){
        .kind = GY_NAMES_DRAIN, .id = (uint64_t)node, .is_on = is_on, .asker = JOBS + 2};
    post(at, SUBMITTER, 0, &what, true);
}

static void fault_fires(world *at, const fault *what)
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
    case FAULT_NURSERY_DIES:
    case FAULT_SEAT_DIES:
        process_fault(at, what, node);
        return;
    case FAULT_CLOCK_JUMPS: /* nothing may come of it */
        gy_sim_shift_wall(at->sim, node, 86400000 * ms * (what->which % 2 == 0 ? 1 : -1));
        return;
    case FAULT_DRAIN:
        ask_drain(at, node, true);
        return;
    case FAULT_KILL:
        at->jobs[what->which % at->job_count].is_killed = true;
        return;
    case FAULTS:
        return;
    }
}

/* A partition ends, a disk has room, a rival goes: what lasts for the span of a fault. */
static void fault_ends(world *at, const fault *what)
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

static void turn_comes(void *arg)
{
    turn *own = arg;
    if (!own->at->is_over && own->is_end) {
        fault_ends(own->at, own->what);
    } else if (!own->at->is_over) {
        fault_fires(own->at, own->what);
    }
    gy_free(own);
}

static void plan_turn(world *at, const fault *what, bool is_end)
{
    turn *made = gy_alloc("world.turn", sizeof(*made));
    if (made == NULL) {
        gy_panic("no memory for a simulated world");
    }
    *made = (turn){at, what, is_end};
    world_at(at, what->at_ns + (is_end ? what->span_ns : 0), turn_comes, made);
}

/* The faults are over: whoever is not gone for good is there. */
static void heal(void *arg)
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

static uint64_t mix(uint64_t seed, uint64_t what)
{
    const uint64_t both[2] = {seed, what};
    return gy_hash(both, sizeof(both), 77);
}

static void draw_faults(world *at, uint32_t mask)
{
    gy_random random = {.key = mix(at->seed, 2)};
    static const uint32_t counts[] = {0, 1, 3, 6, 12, WORLD_FAULTS};
    uint32_t count = counts[gy_random_below(&random, GY_COUNT(counts))];
    uint32_t kinds = (uint32_t)gy_random_below(&random, 1u << FAULTS); /* of this seed */
    for (uint32_t i = 0; i < count; i++) {
        fault one = {0};
        do {
            one.kind = (fault_kind)gy_random_below(&random, FAULTS);
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

static void draw_jobs(world *at, uint32_t most, uint32_t slots)
{
    gy_random random = {.key = mix(at->seed, 3)};
    at->job_count = GY_MIN(1 + (uint32_t)gy_random_below(&random, JOBS), most);
    for (uint32_t i = 0; i < at->job_count; i++) {
        user_job *one = &at->jobs[i];
        static const uint32_t weights[] = {1, 1, 2, 3};
        *one = (user_job){.key = {mix(at->seed, 4) | 1, i + 1},
                          .tasks = 1 + (uint32_t)gy_random_below(&random, TASKS),
                          .width = 1 + (uint32_t)gy_random_below(&random, slots),
                          .weight = weights[gy_random_below(&random, GY_COUNT(weights))],
                          .submit_ns = (int64_t)gy_random_below(&random, 400 * 1000000)};
        uint32_t gang = 2 + (uint32_t)gy_random_below(&random, 3);
        bool has_gang = gy_random_below(&random, 3) == 0;
        one->gang_one_host = gy_random_below(&random, 2) == 0;
        one->is_greedy = gy_random_below(&random, 2) == 0;
        one->is_stubborn = gy_random_below(&random, 4) == 0;
        one->gang_width = has_gang ? gang : 0;
        one->ended_epoch = UINT32_MAX;
    }
}

static void draw_hosts(world *at)
{
    gy_random random = {.key = mix(at->seed, 5)};
    uint32_t slots = 0, largest = 0, second = 0;
    at->host_count = 3 + (uint32_t)gy_random_below(&random, HOSTS - 2);
    for (uint32_t i = 0; i < at->host_count; i++) {
        host *own = &at->hosts[i];
        own->slots = 1 + (uint32_t)gy_random_below(&random, SLOTS);
        own->incarnation = mix(at->seed, 100 + i) | 1;
        slots += own->slots;
        second = GY_MAX(second, GY_MIN(largest, own->slots));
        largest = GY_MAX(largest, own->slots);
    }
    draw_jobs(at, JOBS, slots);
    for (uint32_t i = 0; i < JOBS; i++) { /* a gang may be served whatever happens */
        uint32_t *width = &at->jobs[i].gang_width;
        *width = at->jobs[i].gang_one_host ? GY_MIN(*width, second) : GY_MIN(*width, 2u);
    }
}

static void begin_story(world *at, const telling *how)
{
    *at = (world){
        .seed = how->seed, .chance = {.key = mix(how->seed, 1)}, .is_traced = is_traced};
    gy_random random = {.key = mix(how->seed, 6)};
    static const int64_t jitters_ns[] = {500000, 500000, 500000, 60000000, 400000000};
    int64_t jitter_ns = jitters_ns[gy_random_below(&random, GY_COUNT(jitters_ns))];
    draw_faults(at, how->mask);
    draw_hosts(at);
    at->job_count = GY_MIN(at->job_count, how->limit);
    at->is_reliable = gy_random_below(&random, 4) == 0;
    const gy_sim_options options = {
        .seed = how->seed,
        .nodes = NODES,
        .link = {.latency_ns = 200000,
                 .jitter_ns = jitter_ns,
                 .drop = gy_random_below(&random, 2) == 0 ? 0 : 0.08,
                 .duplicate = gy_random_below(&random, 2) == 0 ? 0 : 0.1}};
    assert_ok(gy_sim_new(&options, &at->sim));
    server_start(at, 0, 0);
    for (uint32_t i = 0; i < at->host_count; i++) {
        host_start(at, SERVERS + (int)i, (int64_t)world_below(at, (uint64_t)(50 * ms)));
    }
    for (uint32_t i = 0; i < at->fault_count; i++) {
        plan_turn(at, &at->faults[i], false);
        plan_turn(at, &at->faults[i], true);
    }
    listen_all(at);
    world_at(at, 0, submitter_ticks, at);
    world_at(at, 50 * ms, watchman, at);
    world_at(at, horizon_ns + 2600 * ms, heal, at);
}

static void world_free(world *at)
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

/* It has `limit` jobs at most. */
static uint64_t tell(world *at, uint64_t seed, uint32_t mask, uint32_t limit)
{
    begin_story(at, &(telling){.seed = seed, .mask = mask, .limit = limit});
    while (!at->is_over && world_now(at) < limit_ns && gy_sim_step(at->sim)) {
    }
    if (!at->is_over) {
        say_view(at);
        world_wrong(at, at->is_released ? "never ends" : "never comes to rest", at->job_count);
    }
    uint64_t digest = mix(at->digest, at->steps + (uint64_t)world_now(at));
    world_free(at);
    return digest;
}

static bool is_wrong(void *at, const telling *how)
{
    world *told = at;
    tell(told, how->seed, how->mask, how->limit);
    return told->wrong[0] != '\0';
}

/* Fewer faults, then fewer jobs, as long as it goes wrong; then say what is left. */
static void shrink(world *at, uint64_t seed)
{
    telling least = {.seed = seed, .mask = UINT32_MAX, .limit = JOBS};
    hunt_fewer_faults(is_wrong, at, &least, WORLD_FAULTS);
    hunt_smaller(is_wrong, at, &least, JOBS);
    is_traced = getenv("GYRE_TEST_TRACE") != NULL;
    (void)is_wrong(at, &least);
    is_traced = false;
    printf("GYRE_SEED=%llu: %s\n  %u jobs, %u hosts\n", (unsigned long long)seed, at->wrong,
           at->job_count, at->host_count);
    for (uint32_t i = 0; i < at->job_count; i++) {
        const user_job *one = &at->jobs[i];
        printf("  job %u: %u tasks, width %u, weight %u, gang %u%s%s%s\n", i, one->tasks,
               one->width, one->weight, one->gang_width, one->gang_one_host ? " (host)" : "",
               one->is_greedy ? ", greedy" : "", one->is_stubborn ? ", stubborn" : "");
    }
    for (uint32_t i = 0; i < at->fault_count; i++) {
        const fault *one = &at->faults[i];
        printf("  at %.1f ms: %s (%u: host %u, %.1f ms)\n", (double)one->at_ns / 1e6,
               fault_names[one->kind], one->which, SERVERS + one->which % at->host_count,
               (double)one->span_ns / 1e6);
    }
}

static void faults_change_nothing(void **state)
{
    (void)state;
    static world at;
    uint64_t first = gy_test_seed(), steps = 0, managers = 0, asked = 0, gangs = 0, jobs = 0;
    long seeds = gy_test_cases(200);
    clock_t begun = clock();
    gy_control_planted = GY_CONTROL_PLANT_NONE;
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        tell(&at, seed, UINT32_MAX, JOBS);
        if (at.wrong[0] != '\0') {
            shrink(&at, seed);
            fail_msg("GYRE_SEED=%llu: %s", (unsigned long long)seed, at.wrong);
        }
        steps += at.steps;
        managers += at.managers;
        asked += at.revoked;
        gangs += at.gangs;
        jobs += at.job_count;
    }
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf(
        "soak: %ld seeds, %.0f a minute: %llu steps, %llu jobs, %llu managers, %llu asks, %llu "
        "gangs\n",
        seeds, (double)seeds * 60 / seconds, (unsigned long long)steps,
        (unsigned long long)jobs, (unsigned long long)managers, (unsigned long long)asked,
        (unsigned long long)gangs);
    assert_true(managers > jobs && asked > 0 && gangs > 0);
    assert_int_equal(gy_alloc_live(), 0);
}

static void a_seed_tells_one_story(void **state)
{
    (void)state;
    static world at;
    uint64_t first = gy_test_seed();
    gy_control_planted = GY_CONTROL_PLANT_NONE;
    for (uint64_t seed = first; seed < first + 5; seed++) {
        uint64_t digest = tell(&at, seed, UINT32_MAX, JOBS);
        assert_true(digest == tell(&at, seed, UINT32_MAX, JOBS));
    }
}

static void tell_planted(int bug, uint64_t seed, char wrong[256])
{
    static world at;
    gy_control_planted = (gy_control_plant)bug;
    tell(&at, seed, UINT32_MAX, JOBS);
    memcpy(wrong, at.wrong, sizeof(at.wrong));
}

static void planted_bugs_are_found(void **state)
{
    (void)state;
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    printf("bugs are hunted without a sanitizer: the hunt tests this test\n");
    skip();
#endif
#define GY_X(name) #name,
    static const char *const names[] = {GY_CONTROL_PLANT_LIST(GY_X)};
#undef GY_X
    assert_int_equal(hunt_all(tell_planted, names, GY_CONTROL_PLANTS, gy_test_seed(), 1000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_change_nothing),
        cmocka_unit_test(a_seed_tells_one_story),
        cmocka_unit_test(planted_bugs_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
