/*
 * Goal: name server and daemons in a world of faults, drawn from a seed: hosts that die, stop,
 * lose their folder or their link, name servers that die or are two, managers that die or wake
 * late, letters lost, doubled, late, disks and tables that fail or are full. No slot is lent
 * twice, no epoch has two managers, no older one is obeyed, no accepted job is forgotten, gangs
 * get all or nothing; once the faults are over shares are fair and every job ends. Each bug
 * that is planted on purpose is found.
 */
#include "control/plant.h"

#include "gy_test.h"

#include "cluster_story.h"

#include "cluster_models.h"
#include "seeds_kit.h"

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
        one->resume = (mix(at->seed, 7) >> i & 1) != 0 ? RESUME_MAY : RESUME_NEVER;
    }
}

static inline int64_t story_draws(world *at, const telling *how, gy_random *random)
{
    static const int64_t jitters_ns[] = {500000, 500000, 500000, 60000000, 400000000};
    const int64_t jitter_ns = jitters_ns[gy_random_below(random, GY_COUNT(jitters_ns))];
    uint32_t second = 0;
    draw_faults(at, how->mask, MODEL_FAULTS);
    draw_jobs(at, how->limit, draw_hosts(at, &second));
    for (uint32_t i = 0; i < at->job_count; i++) {
        uint32_t *width = &at->jobs[i].gang_width;
        *width = at->jobs[i].gang_one_host ? GY_MIN(*width, second) : GY_MIN(*width, 2u);
    }
    return jitter_ns;
}

static inline void story_ends(world *at)
{
    (void)at; /* models have nothing */
}

static inline void story_says_job(const world *at, uint32_t number)
{
    const user_job *one = &at->jobs[number];
    printf(", %u tasks, gang %u%s%s\n", one->tasks, one->gang_width,
           one->gang_one_host ? " (host)" : "", one->is_stubborn ? ", stubborn" : "");
}

static void faults_change_nothing(void **state)
{
    (void)state;
    static world at;
    gy_control_planted = GY_CONTROL_PLANT_NONE;
    const long seeds = seeds_count(120);
    const story_sums all = stories_tell(&at, seeds);
    assert_true(all.managers > all.jobs && all.asked > 0 && all.gangs > 0);
    assert_true(seeds < 100 || all.resumes > 0); /* few stories may do without */
    assert_int_equal(gy_alloc_live(), 0);
}

static void tell_planted(int bug, uint64_t seed, char wrong[256])
{
    gy_control_planted = (gy_control_plant)bug;
    story_hunt(seed, wrong);
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
