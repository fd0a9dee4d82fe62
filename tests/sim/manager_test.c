/*
 * Goal: the job manager in a world of faults, drawn from a seed: processes that die, stop and
 * wake, messages late, twice and out of order, managers and machines that crash, a journal that
 * fails, outputs lost and flipped. What it commits stays true, nothing that stands runs again,
 * and once the faults are over the job ends in bounded time with what a serial run writes. Each
 * bug that is planted in it on purpose is found.
 */
#include "sched/state/plant.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "gy_test.h"
#include "hunt_kit.h"
#include "manager_driver.h"
#include "seeds_kit.h"

/* After the last fault: restarts back off, silences are waited for, slow tasks are slow. */
static const int64_t limit_ns = 600000000000;

static bool is_traced;

static int compare_faults(const void *a, const void *b)
{
    const fault *first = a, *second = b;
    return (first->at > second->at) - (first->at < second->at);
}

static void draw_faults(world *at)
{
    gy_random random = {.key = plan_mix(at->seed, 2)};
    static const uint32_t counts[] = {0, 1, 3, 8, WORLD_FAULTS};
    at->fault_count = plan_pick(&random, counts, GY_COUNT(counts));
    uint32_t all = world_has_hosts(at) ? FAULTS : HOME_FAULTS;
    uint32_t kinds = (uint32_t)gy_random_below(&random, 1u << all); /* of this seed */
    uint32_t horizon = 20 + at->job.count * 8;
    for (uint32_t i = 0; i < at->fault_count; i++) {
        fault *one = &at->faults[i];
        do {
            one->kind = (fault_kind)gy_random_below(&random, all);
        } while (kinds != 0 && (kinds >> one->kind & 1) == 0);
        one->at = (uint32_t)gy_random_below(&random, horizon);
        one->which = (uint32_t)gy_random_below(&random, 1u << 20);
        one->span_ns = (int64_t)gy_random_below(&random, 600000000);
    }
    qsort(at->faults, at->fault_count, sizeof(fault), compare_faults);
    at->is_reordering = gy_random_below(&random, 2) == 0;
    at->is_doubling = gy_random_below(&random, 2) == 0;
}

/* What a serial run writes, where that is one thing. */
static void check_serial(world *at)
{
    plan_value serial[PLAN_TASKS], read[PLAN_INPUTS];
    for (uint32_t task = 0; task < at->job.count; task++) {
        for (uint32_t i = 0; i < plan_inputs(&at->job, task); i++) {
            read[i] = serial[at->job.edges[at->job.first_edge[task] + i].from];
        }
        serial[task] = plan_run(&at->job, task, read, 0);
        if (world_attempt(at, &at->stands[task])->value.records != serial[task].records) {
            world_wrong(at, "a serial run writes something else", task);
        }
    }
}

/* The job ended well: all stands, and whoever read something read what stands. */
static void check_end(world *at)
{
    for (uint32_t task = 0; task < at->job.count; task++) {
        const attempt *run = world_attempt(at, &at->stands[task]);
        gy_sched_task_state state;
        gy_manager_task(at->manager, task, &state);
        bool is_known = memcmp(&state.committed, &at->stands[task], sizeof(gy_attempt)) == 0;
        if (run == NULL || !is_known) {
            world_wrong(at, "ended without it", task);
            return;
        }
        for (uint32_t i = 0; i < plan_inputs(&at->job, task); i++) {
            uint32_t from = at->job.edges[at->job.first_edge[task] + i].from;
            const attempt *input = world_attempt(at, &at->stands[from]);
            if (!plan_is_same(&at->job, from, run->read[i], input->value)) {
                world_wrong(at, "it read what no longer stands", task);
            }
        }
        bool is_final = (at->job.tasks[task].flags & GY_TASK_FINAL) != 0;
        if (is_final && (!at->is_published ||
                         memcmp(&at->saved[task], &run->value, sizeof(plan_value)) != 0)) {
            world_wrong(at, "what is published is not what stands", task);
        }
    }
    if (at->job.is_exact) {
        check_serial(at);
    }
    for (uint32_t stage = 0; stage < PLAN_STAGES; stage++) {
        gy_stage_state state;
        gy_manager_stage(at->manager, stage, &state);
        at->copies += state.copies;
        if (state.copies > 0 && at->job.options.backup_floor_ns < 0) {
            world_wrong(at, "copied, though that is not wanted", stage);
        }
        bool is_ungrown = at->job.stages[stage].is_gate && at->asked[stage] != UINT32_MAX &&
                          at->asked[stage] != state.tasks;
        if (state.committed != state.tasks || state.running != 0 || is_ungrown) {
            world_wrong(at, "ended in the middle of a stage", stage);
        }
    }
}

static void world_free(world *at)
{
    for (uint32_t task = 0; task < PLAN_TASKS; task++) {
        gy_free(at->tasks[task].items);
    }
    for (uint32_t i = 0; i < PLAN_PROCESSES; i++) {
        process_clear(&at->processes[i]);
    }
    at->is_over = true;
    while (gy_sim_step(at->sim)) { /* letters free themselves */
    }
    gy_manager_free(at->manager);
    gy_free(at->said.items);
    gy_sim_free(at->sim);
}

/* Half of what the job wrote is kept, but for what another run would write otherwise. */
static void bequeath(world *at, legacy *left)
{
    bool is_loose[PLAN_TASKS] = {false};
    left->count = 0;
    for (uint32_t task = 0; task < at->job.first_count && at->end == GY_OK; task++) {
        gy_sched_memo *memo = &left->memos[left->count];
        gy_sched_task_state state;
        gy_manager_task(at->manager, task, &state);
        is_loose[task] = at->job.tasks[task].determinism == GY_OUTPUT_INDETERMINATE;
        for (uint32_t i = at->job.first_edge[task]; i < at->job.first_edge[task + 1]; i++) {
            is_loose[task] = is_loose[task] || is_loose[at->job.edges[i].from];
        }
        if (is_loose[task] || plan_mix(at->seed, task) % 2 == 0) {
            continue;
        }
        memcpy(left->reports[left->count], state.report, state.report_bytes);
        *memo = (gy_sched_memo){.key = state.key,
                                .content = state.content,
                                .epoch = state.committed.epoch,
                                .attempt = state.committed.attempt,
                                .report = left->reports[left->count],
                                .report_bytes = state.report_bytes};
        left->tasks[left->count] = task;
        left->runs[left->count++] = *world_attempt(at, &state.committed);
    }
}

/* It has `limit` tasks at most. */
static void begin_story(world *at, const telling *how)
{
    *at = (world){
        .seed = how->seed, .chance = {.key = plan_mix(how->seed, 3)}, .is_traced = is_traced};
    plan_new(&at->job, how->seed, how->limit);
    draw_faults(at);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < at->fault_count; i++) {
        if ((how->mask >> i & 1) != 0) {
            at->faults[kept++] = at->faults[i];
        }
    }
    at->fault_count = kept;
    const gy_sim_options options = {.seed = how->seed, .nodes = 1};
    assert_ok(gy_sim_new(&options, &at->sim));
    at->env = gy_sim_env(at->sim, 0);
    assert_ok(gy_sim_at(at->sim, 0, world_restart, at));
}

static uint64_t end_story(world *at, legacy *left)
{
    while (!at->is_over && gy_sim_now_ns(at->sim) < limit_ns && gy_sim_step(at->sim)) {
    }
    if (!at->is_over) {
        world_wrong(at, "never ends", at->job.count);
    } else if (at->wrong[0] == '\0' && at->end == GY_OK) {
        check_end(at);
    }
    if (left != NULL && at->wrong[0] == '\0') {
        bequeath(at, left);
    }
    uint64_t digest = plan_mix(plan_mix(gy_sim_digest(at->sim), at->effects),
                               (uint64_t)gy_sim_now_ns(at->sim));
    world_free(at);
    return digest;
}

/* Every sixth job finds what an undisturbed run of it left. */
static uint64_t tell(world *at, uint64_t seed, uint32_t mask, uint32_t limit)
{
    static legacy left;
    bool has_legacy = plan_mix(seed, 4) % 6 == 0;
    left.count = 0;
    if (has_legacy) {
        begin_story(at, &(telling){.seed = seed, .mask = 0, .limit = limit});
        at->job.options.generation = 4000; /* its attempts are not taken for this job's */
        (void)end_story(at, &left);
    }
    begin_story(at, &(telling){.seed = seed, .mask = mask, .limit = limit});
    at->legacy = has_legacy ? &left : NULL;
    return end_story(at, NULL);
}

static bool is_wrong(void *at, const telling *how)
{
    world *told = at;
    tell(told, how->seed, how->mask, how->limit);
    return told->wrong[0] != '\0';
}

/* Fewer faults, then fewer tasks, as long as it goes wrong; then say what is left. */
static telling shrink(world *at, uint64_t seed)
{
    telling least = {.seed = seed, .mask = UINT32_MAX, .limit = PLAN_TASKS};
    hunt_fewer_faults(is_wrong, at, &least, WORLD_FAULTS);
    (void)is_wrong(at, &least);
    hunt_smaller(is_wrong, at, &least, at->job.first_count);
    is_traced = getenv("GYRE_TEST_TRACE") != NULL;
    (void)is_wrong(at, &least);
    is_traced = false;
    printf("GYRE_SEED=%llu: %s\n  %u tasks at first, %u in all, %u processes of %u threads\n",
           (unsigned long long)seed, at->wrong, at->job.first_count, at->job.count,
           at->job.options.process_max, at->job.options.threads);
    for (uint32_t i = 0; i < at->fault_count; i++) {
        const fault *one = &at->faults[i];
        printf("  after %u effects: %s (%u, %.3f ms)\n", one->at, fault_names[one->kind],
               one->which, (double)one->span_ns / 1e6);
    }
    return least;
}

GY_TEST(faults_change_nothing)
{
    static world at;
    uint64_t first = gy_test_seed(), tasks = 0, reruns = 0, copies = 0, resumes = 0, lies = 0,
             memoised = 0, losses = 0, avoided = 0;
    long seeds = seeds_count(8000);
    clock_t begun = clock();
    gy_manager_planted = GY_PLANT_NONE;
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        tell(&at, seed, UINT32_MAX, PLAN_TASKS);
        if (at.wrong[0] != '\0') {
            (void)shrink(&at, seed);
            fail_msg("GYRE_SEED=%llu: %s", (unsigned long long)seed, at.wrong);
        }
        tasks += at.job.count;
        reruns += at.reruns;
        copies += at.copies;
        resumes += at.resumes;
        memoised += at.memoised;
        losses += at.losses;
        avoided += at.avoided;
        lies += at.end == GY_MISMATCH;
    }
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("soak: %ld seeds, %.0f a minute: %llu tasks, %llu runs again, %llu copies, %llu "
           "managers "
           "resumed, %llu remembered, %llu liars found, %llu hosts lost, %llu avoided\n",
           seeds, (double)seeds * 60 / seconds, (unsigned long long)tasks,
           (unsigned long long)reruns, (unsigned long long)copies, (unsigned long long)resumes,
           (unsigned long long)memoised, (unsigned long long)lies, (unsigned long long)losses,
           (unsigned long long)avoided);
    assert_true(losses > (uint64_t)seeds / 8);
    assert_true(memoised > (uint64_t)seeds / 8);
    assert_true(reruns > (uint64_t)seeds / 4 && resumes > (uint64_t)seeds / 8);
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST(a_seed_tells_one_story)
{
    static world at;
    uint64_t first = gy_test_seed();
    gy_manager_planted = GY_PLANT_NONE;
    for (uint64_t seed = first; seed < first + 20; seed++) {
        uint64_t digest = tell(&at, seed, UINT32_MAX, PLAN_TASKS);
        assert_true(digest == tell(&at, seed, UINT32_MAX, PLAN_TASKS));
    }
}

enum { SEEDS_MAX = 5000, HOST_SEEDS_MAX = 100000 };

static void tell_planted(int bug, uint64_t seed, char wrong[256])
{
    static world at;
    gy_manager_planted = (gy_plant)bug;
    if (bug >= GY_PLANT_GONE_KEPT && !plan_has_hosts(seed)) {
        return; /* it has no hosts */
    }
    tell(&at, seed, UINT32_MAX, PLAN_TASKS);
    memcpy(wrong, at.wrong, sizeof(at.wrong));
}

GY_TEST(planted_bugs_are_found)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    printf("bugs are hunted without a sanitizer: the hunt tests this test\n");
    skip();
#endif
#define GY_X(name) #name,
    static const char *const names[] = {GY_PLANT_LIST(GY_X)};
#undef GY_X
    assert_int_equal(hunt_all(tell_planted, names, GY_PLANTS, gy_test_seed(), HOST_SEEDS_MAX),
                     0);
}

/* What became of a seed that a planted bug makes fail. */
typedef struct failure {
    telling whole, shrunk;
    uint64_t digests[4]; /* of each told twice */
    char wrong[4][256];
    uint32_t needless; /* faults that are left without need */
    bool is_right;     /* without the bug */
} failure;

static void look_at_failure(failure *out, gy_plant bug, uint64_t first, int said)
{
    static world at;
    (void)dup2(said, STDOUT_FILENO); /* a file, which is read later */
    gy_manager_planted = bug;
    out->whole = (telling){.seed = first, .mask = UINT32_MAX, .limit = PLAN_TASKS};
    tell(&at, first, UINT32_MAX, PLAN_TASKS);
    while (at.wrong[0] == '\0' && out->whole.seed < first + SEEDS_MAX) {
        tell(&at, ++out->whole.seed, UINT32_MAX, PLAN_TASKS);
    }
    out->shrunk = shrink(&at, out->whole.seed);
    for (int i = 0; i < 4; i++) {
        const telling *how = i < 2 ? &out->whole : &out->shrunk;
        out->digests[i] = tell(&at, how->seed, how->mask, how->limit);
        memcpy(out->wrong[i], at.wrong, sizeof(at.wrong));
    }
    for (uint32_t bit = 0; bit < WORLD_FAULTS; bit++) {
        const uint32_t mask = out->shrunk.mask & ~(1u << bit);
        if (mask != out->shrunk.mask && out->shrunk.limit == PLAN_TASKS) {
            tell(&at, out->shrunk.seed, mask, PLAN_TASKS);
            out->needless += at.wrong[0] != '\0';
        }
    }
    gy_manager_planted = GY_PLANT_NONE;
    tell(&at, out->shrunk.seed, out->shrunk.mask, out->shrunk.limit);
    out->is_right = at.wrong[0] == '\0';
    fflush(NULL);
}

static void check_failure(const failure *seen, const char *said)
{
    char expected[400];
    assert_true(seen->wrong[0][0] != '\0');
    for (int i = 0; i < 4; i += 2) { /* it replays */
        assert_true(seen->digests[i] == seen->digests[i + 1]);
        assert_string_equal(seen->wrong[i], seen->wrong[i + 1]);
    }
    assert_true(seen->wrong[2][0] != '\0');
    assert_int_equal(seen->needless, 0);
    assert_true(seen->is_right);
    snprintf(expected, sizeof(expected), "GYRE_SEED=%llu: %s\n",
             (unsigned long long)seen->whole.seed, seen->wrong[2]);
    assert_non_null(strstr(said, expected));
    int faults = 0;
    for (const char *at = said; (at = strstr(at, "\n  after ")) != NULL; at++) {
        faults++;
    }
    assert_true(faults <= __builtin_popcount(seen->shrunk.mask));
}

GY_TEST(a_failing_seed_is_printed_shrunk_and_replays)
{
    static const gy_plant bugs[] = {GY_PLANT_EPOCH_KEPT, GY_PLANT_CONSUMERS_KEPT,
                                    GY_PLANT_GROWN_UNSYNCED, GY_PLANT_LEARNT_FORGOTTEN};
    uint64_t first = gy_test_seed();
    failure *seen =
        mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    for (size_t i = 0; i < GY_COUNT(bugs); i++) {
        static char said[8192];
        *seen = (failure){.digests = {0}};
        FILE *file = tmpfile();
        assert_non_null(file);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            look_at_failure(seen, bugs[i], first, fileno(file));
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        rewind(file);
        said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
        fclose(file);
        check_failure(seen, said);
    }
    munmap(seen, sizeof(*seen));
}

GY_TEST_MAIN(NULL, NULL)
