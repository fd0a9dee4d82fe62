/* Goal: a worker at a tenth of its speed makes a job of 40 tasks of 2 s less than 1.5 times as
 * long; backup tasks start, some win, and the losers are cancelled; a healthy job has none;
 * without backup tasks it would take longer. */
#include "sched/manager/machine_test.h"

enum { WORKERS = 4, MOST = 8, TASKS = 40 };
static const int64_t task_ns = 2000000000, step_ns = 10000000;

/* What each worker is doing. */
typedef struct worker {
    gy_effect start;
    int64_t done_ns; /* 0: it is idle */
    bool is_cancelled;
} worker;

typedef struct result {
    double seconds;
    int cancelled;
    gy_stage_state stage;
    uint32_t seen; /* processes whose run was reported as slow, one bit each */
} result;

/* The slowness of each process, and how much longer each takes than the one before. */
typedef struct speeds {
    int slowness[MOST]; /* 0: no such worker */
    int64_t drift_ns;
} speeds;

static void take(machine *at, worker *workers, const speeds *of, int *cancelled)
{
    for (size_t i = 0; i < at->said.count; i++) {
        const gy_effect *effect = &at->said.items[i];
        if (effect->kind == GY_EFFECT_START) {
            worker *who = &workers[effect->process];
            assert_int_equal(who->done_ns, 0); /* never queued behind another task */
            *who = (worker){.start = *effect,
                            .done_ns = at->now_ns + task_ns * of->slowness[effect->process] +
                                       of->drift_ns * effect->process};
        } else if (effect->kind == GY_EFFECT_CANCEL) {
            workers[effect->process].is_cancelled = true;
            workers[effect->process].done_ns = at->now_ns + step_ns;
            (*cancelled)++;
        }
    }
}

static void answer(machine *at, const worker *who, uint32_t process)
{
    machine_tell(
        at, (gy_sched_event){.kind = who->is_cancelled ? GY_EVENT_FAILED : GY_EVENT_DONE,
                             .cause = who->is_cancelled ? GY_CAUSE_CANCELLED : GY_CAUSE_NONE,
                             .id = who->start.id,
                             .process = process,
                             .generation = who->start.generation,
                             .content = {.low = who->start.id.task},
                             .run_ns = task_ns});
}

/* Check that runs longer than all healthy ones are reported, the longest first. */
static void look_for_slow(const machine *at, result *out)
{
    gy_run_state slow[2];
    const int64_t ns_min = task_ns + MOST * step_ns;
    const uint32_t count = gy_manager_slow(at->manager, at->now_ns, ns_min, slow, 2);
    assert_in_range(count, 0, 2);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(slow[i].age_ns >= ns_min);
        assert_true(i == 0 || slow[i].age_ns <= slow[i - 1].age_ns);
        assert_true(slow[i].task < TASKS);
        out->seen |= 1u << slow[i].process;
    }
}

static void run_job(const speeds *of, int64_t backup_floor_ns, result *out)
{
    machine_job job = {0};
    machine at;
    worker workers[MOST] = {0};
    uint32_t count = 0;
    *out = (result){0};
    machine_tasks(&job, TASKS, (gy_sched_task){.stage = 0});
    while (count < MOST && of->slowness[count] != 0) {
        count++;
    }
    machine_new(&at, &job,
                (gy_manager_options){.process_max = count, .backup_floor_ns = backup_floor_ns});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_BEGIN});
    machine_synced(&at);
    take(&at, workers, of, &out->cancelled);
    for (uint32_t process = 0; process < count; process++) {
        machine_up(&at, process);
        take(&at, workers, of, &out->cancelled);
    }
    int64_t begun_ns = at.now_ns;
    while (at.manager->phase == PHASE_RUNNING) {
        at.now_ns += step_ns;
        assert_true(at.now_ns - begun_ns < 100 * task_ns);
        for (uint32_t process = 0; process < count; process++) {
            machine_tell(&at,
                         (gy_sched_event){.kind = GY_EVENT_HEARD,
                                          .process = process,
                                          .generation = at.manager->slots[process].generation});
            take(&at, workers, of, &out->cancelled);
            const worker over = workers[process];
            if (over.done_ns > 0 && over.done_ns <= at.now_ns) {
                workers[process].done_ns = 0;
                answer(&at, &over, process);
                take(&at, workers, of, &out->cancelled);
            }
        }
        look_for_slow(&at, out);
        if (at.manager->timer_ns <= at.now_ns) {
            machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
            take(&at, workers, of, &out->cancelled);
        }
    }
    out->seconds = (double)(at.now_ns - begun_ns) / 1e9;
    gy_manager_stage(at.manager, 0, &out->stage);
    machine_free(&at);
}

/* Slow workers start at the second. */
static void compare(const speeds *ones, const speeds *slower, double *alone)
{
    result healthy, slow, uncopied;
    const uint32_t slow_ones = slower->slowness[2] == 1 ? 1u << 1 : 1u << 1 | 1u << 2;
    run_job(ones, 0, &healthy);
    run_job(slower, 0, &slow);
    run_job(slower, -1, &uncopied);
    *alone = uncopied.seconds / healthy.seconds;
    printf("healthy %.2f s, some at a tenth %.2f s: %.2f times, %u copies, %u won; %.2f times "
           "without copies\n",
           healthy.seconds, slow.seconds, slow.seconds / healthy.seconds, slow.stage.copies,
           slow.stage.backups_won, *alone);
    assert_int_equal(healthy.stage.copies, 0);
    assert_int_equal(healthy.cancelled, 0);
    assert_int_equal(healthy.seen, 0);
    assert_int_equal(slow.seen, slow_ones);
    assert_true(slow.stage.backups_won >= 1);
    assert_true(slow.cancelled >= 1);
    assert_true(slow.seconds <= 1.5 * healthy.seconds);
    assert_int_equal(slow.stage.failed, 0);
    assert_int_equal(uncopied.stage.copies, 0);
}

GY_TEST(one_slow_worker_of_three)
{
    double alone = 0;
    compare(&(speeds){{1, 1, 1}, 0}, &(speeds){{1, 10, 1}, 0}, &alone);
}

/* Here the backup tasks keep the bound. */
GY_TEST(one_slow_worker_of_four)
{
    double alone = 0;
    compare(&(speeds){{1, 1, 1, 1}, 0}, &(speeds){{1, 10, 1, 1}, 0}, &alone);
    assert_true(alone > 1.5);
}

/* The healthy runs end nearly together, and half of the stage is among them: both stragglers
 * have backup tasks then, not one more task later. */
GY_TEST(two_slow_workers_of_eight)
{
    double alone = 0;
    for (int64_t drift_ns = 0; drift_ns <= step_ns; drift_ns += step_ns / 2) {
        compare(&(speeds){{1, 1, 1, 1, 1, 1, 1, 1}, drift_ns},
                &(speeds){{1, 10, 10, 1, 1, 1, 1, 1}, drift_ns}, &alone);
        assert_true(alone > 1.5);
    }
}

/* ---- Cohorts ---- */

enum { COHORTS = 12 };

/* Running members of cohorts; the first of each ends at once, the second after task_ns. */
typedef struct members {
    gy_effect start[WORKERS];
    int64_t done_ns[WORKERS]; /* by process; 0: idle */
    uint32_t late_attempt;    /* of the last cohort, whose second member never ends */
} members;

static void take_members(machine *at, members *all)
{
    for (size_t i = 0; i < at->said.count; i++) {
        const gy_effect *effect = &at->said.items[i];
        const uint32_t process = effect->process;
        if (effect->kind == GY_EFFECT_START) {
            bool is_late = effect->id.task == COHORTS - 1 && effect->member == 1 &&
                           (all->late_attempt == 0 || all->late_attempt == effect->id.attempt);
            all->late_attempt = is_late ? effect->id.attempt : all->late_attempt;
            all->start[process] = *effect;
            all->done_ns[process] =
                is_late ? INT64_MAX : at->now_ns + (effect->member == 0 ? step_ns : task_ns);
        } else if (effect->kind == GY_EFFECT_CANCEL) {
            all->done_ns[process] = 0;
        }
    }
}

static void end_members(machine *at, members *all)
{
    for (uint32_t process = 0; process < WORKERS; process++) {
        if (all->done_ns[process] == 0 || all->done_ns[process] > at->now_ns) {
            continue;
        }
        const gy_effect over = all->start[process];
        all->done_ns[process] = 0;
        machine_tell(at, (gy_sched_event){.kind = GY_EVENT_DONE,
                                          .id = over.id,
                                          .member = over.member,
                                          .process = process,
                                          .generation = over.generation,
                                          .content = {.low = over.id.task},
                                          .run_ns = task_ns});
        take_members(at, all);
    }
}

/* The first member of a cohort is done while another may never end: the cohort still counts as
 * a straggler. */
GY_TEST(a_slow_cohort_is_seen_and_copied)
{
    machine_job job = {0};
    machine at;
    static members all;
    gy_run_state slow = {.age_ns = 0};
    gy_stage_state stage = {.copies = 0};
    uint32_t seen = 0;
    all = (members){0};
    machine_tasks(&job, COHORTS, (gy_sched_task){.stage = 0, .width = 2});
    machine_new(&at, &job, (gy_manager_options){.process_max = WORKERS});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_BEGIN});
    machine_synced(&at);
    for (uint32_t process = 0; process < WORKERS; process++) {
        machine_up(&at, process);
        take_members(&at, &all);
    }
    for (int i = 0; i < 4000 && at.manager->phase == PHASE_RUNNING; i++) {
        at.now_ns += step_ns;
        for (uint32_t process = 0; process < WORKERS; process++) {
            machine_tell(&at,
                         (gy_sched_event){.kind = GY_EVENT_HEARD,
                                          .process = process,
                                          .generation = at.manager->slots[process].generation});
            take_members(&at, &all);
        }
        end_members(&at, &all);
        seen += gy_manager_slow(at.manager, at.now_ns, 2 * task_ns, &slow, 1);
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        take_members(&at, &all);
        gy_manager_stage(at.manager, 0, &stage);
    }
    assert_true(seen > 0 && slow.task == COHORTS - 1);
    assert_int_equal(stage.copies, 1);
    assert_int_not_equal(at.manager->phase, PHASE_RUNNING);
    machine_free(&at);
}

GY_TEST_MAIN(NULL, NULL)
