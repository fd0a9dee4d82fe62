/*
 * Goal: the whole control plane, name server, daemons and managers as they are, in a world of
 * faults drawn from a seed. Whatever happens, a job has one output and one epoch that publishes
 * it; what was synced stands under every manager to come; nothing that stands runs again while
 * its host lives; what a lost host had is made again; no slot is lent twice, gangs get all or
 * none; once the faults are over shares are fair, all jobs end, and nothing is left. Each bug
 * that is planted in any of the machines, or between them, is found.
 */
#include "cluster/control/plant_priv.h"
#include "cluster/manager/plant_priv.h"
#include "cluster/remote/plant_priv.h"

#include <stdlib.h>
#include <time.h>

#include "gy_test.h"

#include "cluster_faults.h"
#include "whole_managers.h"

#undef GY_PLANTED_HERE
#include "cluster/journal/plant_priv.h"

gy_journal_plant gy_journal_planted;

enum { SEEDS = 200 }; /* of make test */

static bool is_traced;

/* ---- A story ---- */

static void draw_plan(const world *at, uint32_t number, uint32_t second)
{
    static const uint32_t sizes[] = {1, 4, 10, 25};
    gy_random random = {.key = mix(at->seed, 30 + number)};
    const user_job *one = &at->jobs[number];
    plan *job = &books[number].first;
    *job = (plan){.seed = mix(at->seed, 40 + number),
                  .limit = PLAN_TASKS,
                  .is_exact = true,
                  .exact = gy_random_below(&random, 3) == 0 ? 3 : 16,
                  .liar = GY_TASK_NONE,
                  .hosts = at->host_count,
                  /* A cohort waits for good if hosts that are large enough are avoided. */
                  .seats = at->is_failing ? 1 : GY_MIN(second, one->width)};
    plan_draw(job, sizes, GY_COUNT(sizes));
    job->liar = GY_TASK_NONE;
    job->options.process_max = one->width;
    job->options.host_max = WHOLE_LINES;
    job->options.threads = 1;
    job->options.lease_ns = 1600 * ms;
    job->options.silence_ns = 2000 * ms;
    job->options.failures_max = 250;
    if (one->is_greedy) {
        job->options.copy_floor_ns = -1;
    }
    plan_fill(job);
}

static void draw_jobs(world *at, uint32_t most, uint32_t slots, uint32_t second)
{
    gy_random random = {.key = mix(at->seed, 3)};
    at->job_count = GY_MIN(1 + (uint32_t)gy_random_below(&random, JOBS), most);
    for (uint32_t i = 0; i < at->job_count; i++) {
        static const uint32_t weights[] = {1, 1, 2, 3};
        user_job *one = &at->jobs[i];
        *one = (user_job){
            .key = {mix(at->seed, 4) | 1, i + 1},
            .width = 1 + (uint32_t)gy_random_below(&random, GY_MIN(slots, WHOLE_SLOTS)),
            .weight = weights[gy_random_below(&random, GY_COUNT(weights))],
            .submit_ns = (int64_t)gy_random_below(&random, 400 * 1000000),
            .is_greedy = gy_random_below(&random, 3) == 0,
            .ended_epoch = UINT32_MAX};
        draw_plan(at, i, second);
    }
}

static void draw_hosts(world *at, uint32_t most)
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
    draw_jobs(at, most, slots, second); /* a cohort may be served whatever happens */
}

static void forget_books(void)
{
    for (int i = 0; i < JOBS; i++) {
        gy_free(books[i].runs);
        books[i].runs = NULL;
        books[i].count = books[i].capacity = 0;
        memset(&books[i].last, 0, sizeof(book) - offsetof(book, last));
    }
    memset(files_of, 0, sizeof(files_of));
    memset(bad_until_ns, 0, sizeof(bad_until_ns));
}

static void begin_story(world *at, const telling *how)
{
    *at = (world){
        .seed = how->seed, .chance = {.key = mix(how->seed, 1)}, .is_traced = is_traced};
    gy_random random = {.key = mix(how->seed, 6)};
    static const int64_t jitters_ns[] = {500000, 500000, 500000, 20000000, 60000000};
    int64_t jitter_ns = jitters_ns[gy_random_below(&random, GY_COUNT(jitters_ns))];
    static const int64_t paces[] = {1, 4, 12};
    at->pace = paces[gy_random_below(&random, GY_COUNT(paces))];
    at->is_failing = gy_random_below(&random, 3) == 0;
    forget_books();
    draw_faults(at, how->mask, FAULTS);
    draw_hosts(at, how->limit);
    at->is_reliable = gy_random_below(&random, 4) == 0;
    const gy_sim_options options = {
        .seed = how->seed,
        .nodes = NODES,
        .link = {.latency_ns = 200000,
                 .jitter_ns = jitter_ns,
                 .drop = gy_random_below(&random, 2) == 0 ? 0 : 0.08,
                 .duplicate = gy_random_below(&random, 2) == 0 ? 0 : 0.1}};
    at->is_poor = jitter_ns > 500000 || options.link.drop > 0;
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

static void end_managers(world *at)
{
    for (int i = 0; i < MODELS; i++) {
        if (at->models[i].is_there && at->models[i].has_begun) {
            model_gone(at, &at->models[i]);
        }
    }
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
    end_managers(at);
    world_free(at);
    forget_books();
    return digest;
}

static bool is_wrong(void *at, const telling *how)
{
    world *told = at;
    tell(told, how->seed, how->mask, how->limit);
    return told->wrong[0] != '\0';
}

/* Fewer faults, then fewer jobs, as long as it goes wrong; then say what is left. */
static telling shrink(world *at, uint64_t seed)
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
        const plan *job = &books[i].first;
        printf("  job %u: %u tasks at first, width %u, weight %u, cohorts of %u%s\n", i,
               job->first_count, one->width, one->weight, job->seats,
               one->is_greedy ? ", greedy" : "");
    }
    for (uint32_t i = 0; i < at->fault_count; i++) {
        const fault *one = &at->faults[i];
        printf("  at %.1f ms: %s (%u: host %u, %.1f ms)\n", (double)one->at_ns / 1e6,
               fault_names[one->kind], one->which, SERVERS + one->which % at->host_count,
               (double)one->span_ns / 1e6);
    }
    return least;
}

static void faults_change_nothing(void **state)
{
    (void)state;
    static world at;
    uint64_t first = gy_test_seed(), steps = 0, managers = 0, gangs = 0, jobs = 0;
    long seeds = getenv("GYRE_SOAK") != NULL ? 100000 : gy_test_serial_cases(SEEDS);
    clock_t begun = clock();
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        tell(&at, seed, UINT32_MAX, JOBS);
        if (at.wrong[0] != '\0') {
            (void)shrink(&at, seed);
            fail_msg("GYRE_SEED=%llu: %s", (unsigned long long)seed, at.wrong);
        }
        steps += at.steps;
        managers += at.managers;
        gangs += at.gangs;
        jobs += at.job_count;
    }
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("soak: %ld seeds, %.0f a minute: %llu steps, %llu jobs of %llu tasks, %llu managers "
           "(%llu resumed), %llu runs again, %llu cohorts, %llu gangs, %llu hosts lost\n",
           seeds, (double)seeds * 60 / seconds, (unsigned long long)steps,
           (unsigned long long)jobs, (unsigned long long)whole_tasks,
           (unsigned long long)managers, (unsigned long long)whole_resumes,
           (unsigned long long)whole_reruns, (unsigned long long)whole_cohorts,
           (unsigned long long)gangs, (unsigned long long)whole_losses);
    assert_true(seeds < SEEDS ||
                (managers > jobs && whole_reruns > 0 && whole_resumes > 0 && whole_losses > 0));
    assert_int_equal(gy_alloc_live(), 0);
}

static void a_seed_tells_one_story(void **state)
{
    (void)state;
    static world at;
    uint64_t first = gy_test_seed();
    for (uint64_t seed = first; seed < first + 5; seed++) {
        uint64_t digest = tell(&at, seed, UINT32_MAX, JOBS);
        assert_true(digest == tell(&at, seed, UINT32_MAX, JOBS));
    }
}

/* ---- Planted bugs ---- */

/* One after the other: of each of the machines, and of what stands between them. */
typedef struct planted {
    const char *name;
    enum { IN_CONTROL, IN_MANAGER, IN_TENANT, IN_JOURNAL } where;
    int bug;
} planted;

#define CONTROL(name)                                                                          \
    {                                                                                          \
        "control " #name, IN_CONTROL, GY_CONTROL_PLANT_##name                                  \
    }
#define MANAGER(name)                                                                          \
    {                                                                                          \
        "manager " #name, IN_MANAGER, GY_PLANT_##name                                          \
    }
#define TENANT(name)                                                                           \
    {                                                                                          \
        "rent " #name, IN_TENANT, GY_TENANT_PLANT_##name                                       \
    }
#define JOURNAL(name)                                                                          \
    {                                                                                          \
        "journal " #name, IN_JOURNAL, GY_JOURNAL_PLANT_##name                                  \
    }

/* Others are of one machine alone, and found by its own simulation. The first ones are hunted
 * each time. */
static const planted bugs[] = {
    {"none", IN_CONTROL, 0},
    TENANT(NUMBER_REUSED),
    TENANT(LOST_UNTOLD),
    TENANT(CLOSED_UNTOLD),
    TENANT(PROCESS_KEPT),
    CONTROL(EPOCH_UNSTORED),
    CONTROL(HALF_GANG),
    CONTROL(CREDIT_IGNORED),
    CONTROL(EPOCH_UNSYNCED),
    CONTROL(OLD_KEPT),
    CONTROL(SLOT_EARLY),
    MANAGER(ATTEMPTS_AGAIN),
    MANAGER(PUBLISH_FIRST),
    MANAGER(RAISE_FORGOTTEN),
    MANAGER(GONE_KEPT),
    MANAGER(HELD_FORGOTTEN),
    MANAGER(COHORT_SPLIT),
    TENANT(FOLDER_IGNORED),
    TENANT(EXPECTED_DROPPED),
    TENANT(GAP_ENDS),
    TENANT(AS_TOLD),
    TENANT(ANEW_KEPT),
    TENANT(OPENED_EARLY),
    TENANT(GONE_KEPT),
    TENANT(OLD_GRANTS),
    TENANT(GIVEN_ONCE),
    TENANT(WISHED_ONCE),
    TENANT(GANG_UNNUMBERED),
    CONTROL(ACCEPTED_UNSTORED),
    CONTROL(LOST_STORE_TRUSTED),
    CONTROL(TERM_KEPT),
    CONTROL(MANAGER_AGAIN),
    CONTROL(ENDED_REVIVED),
    CONTROL(OFFER_FORGOTTEN),
    CONTROL(GRANT_ONCE),
    CONTROL(OLD_OBEYED),
    CONTROL(ORDER_AGAIN),
    CONTROL(INCARNATION_IGNORED),
    CONTROL(SLOT_TWICE),
    CONTROL(LEASE_FOREVER),
    CONTROL(FILES_FOREVER),
    CONTROL(FETCH_TWICE),
    CONTROL(WAITER_FORGOTTEN),
    CONTROL(CHECKSUM_TRUSTED),
    CONTROL(DEAD_KEPT),
    CONTROL(FULL_TAKEN),
    MANAGER(STALE_COMMITS),
    MANAGER(GROWN_UNSYNCED),
    MANAGER(EPOCH_KEPT),
    MANAGER(CONSUMERS_KEPT),
    MANAGER(HALF_COHORT),
    MANAGER(COPIED_BLIND),
    MANAGER(SAVED_BLIND),
    MANAGER(EXACT_AT_ONCE),
    MANAGER(EXACT_RESUMED),
    MANAGER(READERS_EARLY),
    JOURNAL(NEVER_CHECKED),
    JOURNAL(READ_BEYOND),
};
enum { QUICK = 17 };

static void plant(const planted *one)
{
    gy_control_planted =
        one->where == IN_CONTROL ? (gy_control_plant)one->bug : GY_CONTROL_PLANT_NONE;
    gy_manager_planted = one->where == IN_MANAGER ? (gy_plant)one->bug : GY_PLANT_NONE;
    gy_tenant_planted =
        one->where == IN_TENANT ? (gy_tenant_plant)one->bug : GY_TENANT_PLANT_NONE;
    gy_journal_planted =
        one->where == IN_JOURNAL ? (gy_journal_plant)one->bug : GY_JOURNAL_PLANT_NONE;
}

static void tell_planted(int bug, uint64_t seed, char wrong[256])
{
    static world at;
    plant(&bugs[bug]);
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
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
    const char *names[GY_COUNT(bugs)];
    for (size_t i = 0; i < GY_COUNT(bugs); i++) {
        names[i] = bugs[i].name;
    }
    assert_int_equal(hunt_all(tell_planted, names, is_soak ? (int)GY_COUNT(bugs) : QUICK,
                              gy_test_seed(), is_soak ? 20000 : 1000),
                     0);
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
