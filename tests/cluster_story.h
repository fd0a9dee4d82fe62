/*
 * Stories of a simulated cluster, each told from a seed. One that goes wrong is shrunk to the
 * faults and jobs that it needs for that, and printed. What they are about says whoever
 * includes this: story_draws, story_ends, story_says_job.
 */
#ifndef GY_TESTS_CLUSTER_STORY_H
#define GY_TESTS_CLUSTER_STORY_H

#include <stdlib.h>
#include <time.h>

#include "cluster_faults.h"

/* Faults of how->mask, hosts, how->limit jobs at most. Jitter of its links, ns. */
static inline int64_t story_draws(world *at, const telling *how, gy_random *random);
/* Whatever its managers have is given up. */
static inline void story_ends(world *at);
/* The rest of a line of a story that went wrong. */
static inline void story_says_job(const world *at, uint32_t number);

static bool is_traced; /* stories that are told now: GYRE_TEST_TRACE */

/* Slots in all; *second: of the host that has most but for one. What needs no more on one host
 * may be served whatever happens. */
static inline uint32_t draw_hosts(world *at, uint32_t *second)
{
    gy_random random = {.key = mix(at->seed, 5)};
    uint32_t slots = 0, largest = 0;
    *second = 0;
    at->host_count = 3 + (uint32_t)gy_random_below(&random, HOSTS - 2);
    for (uint32_t i = 0; i < at->host_count; i++) {
        host *own = &at->hosts[i];
        own->slots = 1 + (uint32_t)gy_random_below(&random, SLOTS);
        own->incarnation = mix(at->seed, 100 + i) | 1;
        slots += own->slots;
        *second = GY_MAX(*second, GY_MIN(largest, own->slots));
        largest = GY_MAX(largest, own->slots);
    }
    return slots;
}

static inline void story_begins(world *at, const telling *how)
{
    *at = (world){.seed = how->seed,
                  .chance = {.key = mix(how->seed, 1)},
                  .is_traced = is_traced,
                  .pace = 1};
    gy_random random = {.key = mix(how->seed, 6)};
    const int64_t jitter_ns = story_draws(at, how, &random);
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

/* What became of it, in a number. */
static inline uint64_t story_tell(world *at, const telling *how)
{
    story_begins(at, how);
    while (!at->is_over && world_now(at) < limit_ns && gy_sim_step(at->sim)) {
    }
    if (!at->is_over) {
        say_view(at);
        world_wrong(at, at->is_released ? "never ends" : "never comes to rest", at->job_count);
    }
    const uint64_t digest = mix(at->digest, at->steps + (uint64_t)world_now(at));
    story_ends(at);
    world_free(at);
    return digest;
}

static inline telling story_whole(uint64_t seed)
{
    return (telling){.seed = seed, .mask = UINT32_MAX, .limit = JOBS};
}

static inline bool story_is_wrong(void *at, const telling *how)
{
    world *told = at;
    (void)story_tell(told, how);
    return told->wrong[0] != '\0';
}

/* Fewer faults, then fewer jobs, as long as it goes wrong; then say what is left. */
static inline void story_shrink(world *at, uint64_t seed)
{
    telling least = story_whole(seed);
    hunt_fewer_faults(story_is_wrong, at, &least, WORLD_FAULTS);
    hunt_smaller(story_is_wrong, at, &least, JOBS);
    is_traced = getenv("GYRE_TEST_TRACE") != NULL;
    (void)story_is_wrong(at, &least);
    is_traced = false;
    printf("GYRE_SEED=%llu: %s\n  %u jobs, %u hosts\n", (unsigned long long)seed, at->wrong,
           at->job_count, at->host_count);
    for (uint32_t i = 0; i < at->job_count; i++) {
        printf("  job %u: width %u, weight %u%s", i, at->jobs[i].width, at->jobs[i].weight,
               at->jobs[i].is_greedy ? ", greedy" : "");
        story_says_job(at, i);
    }
    for (uint32_t i = 0; i < at->fault_count; i++) {
        const fault *one = &at->faults[i];
        printf("  at %.1f ms: %s (%u: host %u, %.1f ms)\n", (double)one->at_ns / 1e6,
               fault_names[one->kind], one->which, SERVERS + one->which % at->host_count,
               (double)one->span_ns / 1e6);
    }
}

/* What many stories counted. */
typedef struct story_sums {
    uint64_t steps, managers, asked, gangs, jobs, resumes;
} story_sums;

/* As many as that, each of which must go well. */
static inline story_sums stories_tell(world *at, long seeds)
{
    story_sums all = {0};
    const uint64_t first = gy_test_seed();
    const clock_t begun = clock();
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        const telling how = story_whole(seed);
        if (story_is_wrong(at, &how)) {
            story_shrink(at, seed);
            fail_msg("GYRE_SEED=%llu: %s, after %llu seeds", (unsigned long long)seed,
                     at->wrong, (unsigned long long)(seed - first));
        }
        if ((seed - first + 1) % 10000 == 0) {
            printf("%llu seeds from %llu on\n", (unsigned long long)(seed - first + 1),
                   (unsigned long long)first);
            fflush(stdout);
        }
        all.steps += at->steps;
        all.managers += at->managers;
        all.asked += at->revoked;
        all.gangs += at->gangs;
        all.resumes += at->resumes;
        all.jobs += at->job_count;
    }
    const double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("soak: %ld seeds, %.0f a minute: %llu steps, %llu jobs, %llu managers, %llu asks, "
           "%llu gangs, %llu resumed\n",
           seeds, (double)seeds * 60 / seconds, (unsigned long long)all.steps,
           (unsigned long long)all.jobs, (unsigned long long)all.managers,
           (unsigned long long)all.asked, (unsigned long long)all.gangs,
           (unsigned long long)all.resumes);
    return all;
}

static inline void a_seed_tells_one_story(void **state)
{
    (void)state;
    static world at;
    const uint64_t first = gy_test_seed();
    for (uint64_t seed = first; seed < first + 5; seed++) {
        const telling how = story_whole(seed);
        const uint64_t digest = story_tell(&at, &how);
        assert_true(digest == story_tell(&at, &how));
    }
}

/* One seed, with a bug that was planted before. */
static inline void story_hunt(uint64_t seed, char wrong[256])
{
    static world at;
    const telling how = story_whole(seed);
    (void)story_tell(&at, &how);
    memcpy(wrong, at.wrong, sizeof(at.wrong));
}

#endif
