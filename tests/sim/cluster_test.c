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

#include "cluster_faults.h"
#include "cluster_models.h"

static bool is_traced;

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
    *at = (world){.seed = how->seed,
                  .chance = {.key = mix(how->seed, 1)},
                  .is_traced = is_traced,
                  .pace = 1};
    gy_random random = {.key = mix(how->seed, 6)};
    static const int64_t jitters_ns[] = {500000, 500000, 500000, 60000000, 400000000};
    int64_t jitter_ns = jitters_ns[gy_random_below(&random, GY_COUNT(jitters_ns))];
    draw_faults(at, how->mask, MODEL_FAULTS);
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
