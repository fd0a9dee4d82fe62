/*
 * Goal: tasks go where there is room: short ones in advance, long ones never behind another
 * while a process is free, cohorts whole and without starvation; only stragglers have backup
 * tasks; a refinement point grows once, and its new tasks start only after the record is
 * synced.
 */
#include "sched/manager/machine_test.h"

static void many(machine_job *job, int count, gy_sched_task task)
{
    *job = (machine_job){0};
    for (int i = 0; i < count; i++) {
        machine_task(job, task, NULL);
    }
}

static void finish(machine *at, uint32_t task, int64_t run_ns)
{
    gy_sched_event event = machine_done_event(at, task, task);
    event.run_ns = run_ns;
    at->now_ns += run_ns;
    machine_tell(at, event);
}

static void pass_ms(machine *at, int64_t ms)
{
    at->now_ns += ms * 1000000;
    for (uint32_t process = 0; process < at->manager->options.process_max; process++) {
        machine_tell(at,
                     (gy_sched_event){.kind = GY_EVENT_HEARD,
                                      .process = process,
                                      .generation = at->manager->slots[process].generation});
    }
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_TIMER});
}

GY_TEST(short_tasks_are_sent_ahead)
{
    machine_job job;
    machine at;
    many(&job, 60, (gy_sched_task){.stage = 0});
    machine_start(&at, &job, (gy_manager_options){.process_max = 2, .depth_max = 8});
    assert_int_equal(at.manager->slots[0].load + at.manager->slots[1].load, 2);
    for (uint32_t task = 0; task < 20; task++) {
        finish(&at, task, 1000);
    }
    assert_int_equal(at.manager->slots[0].load, 8);
    assert_int_equal(at.manager->slots[1].load, 8);
    machine_free(&at);
}

GY_TEST(long_tasks_wait_for_nobody)
{
    machine_job job;
    machine at;
    many(&job, 20, (gy_sched_task){.stage = 0});
    machine_start(&at, &job, (gy_manager_options){.process_max = 2});
    for (uint32_t task = 0; task < 15; task++) {
        finish(&at, task, 3000000);
        assert_true(at.manager->slots[0].load <= 1 && at.manager->slots[1].load <= 1);
    }
    machine_free(&at);
}

/* Five tasks were sent in advance to each of two processes; the first turns out to be long. */
GY_TEST(nothing_stays_behind_a_long_one)
{
    machine_job job;
    machine at;
    many(&job, 26, (gy_sched_task){.stage = 0});
    machine_start(&at, &job, (gy_manager_options){.process_max = 2, .depth_max = 5});
    uint32_t task = 0;
    for (; task < 16; task++) {
        finish(&at, task, 1000);
    }
    uint32_t stuck =
        at.manager->runs[at.manager->placements[at.manager->slots[0].first].run].task;
    for (; task < 26; task++) { /* the other process goes on */
        if (machine_state(&at, task) == TASK_RUNNING && task != stuck &&
            machine_event(&at, task, 0).process == 1) {
            finish(&at, task, 1000);
        }
    }
    assert_int_equal(at.manager->slots[1].load, 0);
    assert_int_equal(at.manager->slots[0].load, 5);
    pass_ms(&at, 100);
    assert_int_equal(machine_count(&at, GY_EFFECT_CANCEL), 4);
    assert_int_equal(at.manager->slots[1].load, 4);
    assert_true(machine_noted(&at, "stood behind a long one"));
    machine_free(&at);
}

/* Two tasks were sent to the only process, and the first turns out to be long: a process starts
 * in the other slot for the second. */
GY_TEST(nothing_stays_behind_while_a_slot_is_empty)
{
    machine_job job;
    machine at;
    const uint32_t first[] = {0};
    many(&job, 1, (gy_sched_task){.stage = 0});
    machine_task(&job, (gy_sched_task){.stage = 0, .input_count = 1}, first);
    machine_task(&job, (gy_sched_task){.stage = 0, .input_count = 1}, first);
    machine_start(&at, &job, (gy_manager_options){.process_max = 2, .depth_max = 5});
    finish(&at, 0, 1000);
    assert_int_equal(at.manager->slots[0].load, 2);
    assert_int_equal(at.manager->slots[1].state, SLOT_EMPTY);
    pass_ms(&at, 20);
    /* A short wait must not start a process. */
    assert_int_equal(at.manager->slots[1].state, SLOT_EMPTY);
    pass_ms(&at, 100);
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 1);
    assert_int_equal(at.manager->slots[1].state, SLOT_STARTING);
    machine_up(&at, 1);
    pass_ms(&at, 100);
    assert_true(machine_noted(&at, "stood behind a long one"));
    assert_int_equal(at.manager->slots[1].load, 1);
    machine_free(&at);
}

/* A cohort of three and many small tasks on three processes. */
GY_TEST(a_cohort_is_not_starved)
{
    machine_job job;
    machine at;
    many(&job, 3, (gy_sched_task){.stage = 0});
    machine_task(&job, (gy_sched_task){.stage = 1, .width = 3}, NULL);
    machine_tasks(&job, 20, (gy_sched_task){.stage = 0});
    machine_start(&at, &job, (gy_manager_options){.process_max = 3});
    finish(&at, 0, 1000);
    finish(&at, 1, 1000);
    assert_int_equal(machine_state(&at, 3), TASK_READY);
    assert_int_equal(machine_state(&at, 4), TASK_READY); /* nothing younger starts */
    finish(&at, 2, 1000);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 3);
    bool is_taken[3] = {false};
    for (int n = 0; n < 3; n++) {
        const gy_effect *start = machine_reported(&at, GY_EFFECT_START, n);
        assert_int_equal(start->id.task, 3);
        assert_false(is_taken[start->process]);
        is_taken[start->process] = true;
    }
    machine_free(&at);
}

GY_TEST(processes_come_as_there_is_work)
{
    static const uint32_t first[] = {0};
    machine_job job = {0};
    machine at;
    machine_task(&job, (gy_sched_task){.stage = 0}, NULL);
    for (int i = 0; i < 10; i++) {
        machine_task(&job, (gy_sched_task){.stage = 1, .input_count = 1}, first);
    }
    machine_new(&at, &job, (gy_manager_options){.process_max = 8});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_BEGIN});
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 1);
    machine_synced(&at);
    machine_up(&at, 0);
    finish(&at, 0, 1000);
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 7);
    machine_free(&at);
}

/* ---- Copies ---- */

/* Restart the clock of the oldest run on process 0. */
static void begin_anew(const machine *at)
{
    at->manager->placements[at->manager->slots[0].first].began_ns = at->now_ns;
}

/* Twenty tasks on three processes; the last one running is on process 0. */
static uint32_t leave_one(machine *at, machine_job *job, int count, int64_t run_ns)
{
    many(job, count, (gy_sched_task){.stage = 0});
    machine_start(at, job, (gy_manager_options){.process_max = 3});
    uint32_t slow =
        at->manager->runs[at->manager->placements[at->manager->slots[0].first].run].task;
    for (bool has_more = true; has_more;) {
        has_more = false;
        for (uint32_t task = 0; task < (uint32_t)count; task++) {
            if (task != slow && machine_state(at, task) == TASK_RUNNING) {
                machine_tell(at, (gy_sched_event){.kind = GY_EVENT_HEARD});
                begin_anew(at); /* no straggler when half of the others are done */
                finish(at, task, run_ns);
                has_more = true;
            }
        }
    }
    return slow;
}

GY_TEST(a_late_run_is_copied_once)
{
    static const int counts[] = {5, 20};
    for (size_t i = 0; i < GY_COUNT(counts); i++) {
        machine_job job;
        machine at;
        uint32_t slow = leave_one(&at, &job, counts[i], 200000000);
        begin_anew(&at);
        pass_ms(&at, 900);
        assert_int_equal(machine_count(&at, GY_EFFECT_START), 0); /* the backup floor */
        pass_ms(&at, 200);
        assert_int_equal(machine_count(&at, GY_EFFECT_START), 1);
        assert_true(machine_noted(&at, "backup task started: it has taken 1.1 s"));
        assert_int_not_equal(machine_reported(&at, GY_EFFECT_START, 0)->process, 0);
        pass_ms(&at, 2000);
        assert_int_equal(machine_count(&at, GY_EFFECT_START), 0);
        /* The backup task is the newest run. */
        gy_sched_event first = machine_event(&at, slow, 0);
        first.kind = GY_EVENT_DONE;
        machine_tell(&at, first);
        assert_int_equal(machine_count(&at, GY_EFFECT_CANCEL), 1);
        assert_int_equal(machine_reported(&at, GY_EFFECT_CANCEL, 0)->process, 0);
        assert_int_equal(machine_count(&at, GY_EFFECT_COMMITTED), 1);
        gy_stage_state counted;
        gy_manager_stage(at.manager, 0, &counted);
        assert_int_equal(counted.copies, 1);
        assert_int_equal(counted.backups_won, 1);
        machine_free(&at);
    }
}

GY_TEST(a_run_like_the_others_is_not_copied)
{
    machine_job job;
    machine at;
    (void)leave_one(&at, &job, 20, 2000000000);
    begin_anew(&at);
    for (int i = 0; i < 24; i++) {
        pass_ms(&at, 100);
        assert_int_equal(machine_count(&at, GY_EFFECT_START), 0);
    }
    pass_ms(&at, 200); /* after 2.5 s instead of 2 s, since nothing else waits */
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 1);
    machine_free(&at);
}

/* Run times grow with the input bytes: a task that reads ten times as much may take ten times
 * as long. */
GY_TEST(bytes_excuse)
{
    machine_job job = {0};
    machine at;
    for (int i = 0; i < 20; i++) {
        machine_task(
            &job, (gy_sched_task){.input_bytes = i == 0 ? 100000000 : 1000000 * (i + 1)}, NULL);
    }
    machine_start(&at, &job, (gy_manager_options){.process_max = 2});
    /* 0.1 s plus 0.1 s per megabyte. */
    for (uint32_t task = 1; task < 20; task++) {
        begin_anew(&at);
        finish(&at, task, 100000000 + 100000000 * (int64_t)(task + 1));
    }
    begin_anew(&at);
    pass_ms(&at, 10000);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 0);
    pass_ms(&at, 6000);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 1);
    machine_free(&at);
}

/* The fitted line may be negative at 0 bytes: a task without input is then expected to take 0,
 * not less; and with backup tasks disabled there are none. */
GY_TEST(a_line_below_nothing)
{
    for (int is_copied = 0; is_copied < 2; is_copied++) {
        machine_job job = {0};
        machine at;
        gy_run_state slow = {.late_ns = 0};
        gy_stage_state counted;
        for (int64_t i = 0; i < 20; i++) {
            machine_task(&job, (gy_sched_task){.input_bytes = i == 0 ? 0 : 1000000 * (i + 10)},
                         NULL);
        }
        machine_new(&at, &job,
                    (gy_manager_options){.process_max = 2,
                                         .backup_floor_ns = is_copied ? 1000000000 : -1});
        machine_begin(&at);
        /* 1 ms per megabyte from the tenth task on. */
        for (uint32_t task = 1; task < 20; task++) {
            begin_anew(&at);
            finish(&at, task, 1000000 * (int64_t)task);
        }
        begin_anew(&at);
        pass_ms(&at, 900);
        assert_int_equal(gy_manager_slow(at.manager, at.now_ns, 0, &slow, 1), 1);
        assert_true(at.manager->stages[0].base_ns < 0 && slow.late_ns >= 0);
        pass_ms(&at, 200);
        gy_manager_stage(at.manager, 0, &counted);
        assert_int_equal(counted.copies, is_copied);
        machine_free(&at);
    }
}

/* ---- Gates ---- */

GY_TEST(a_gate_grows_once)
{
    static const gy_edge edges[] = {{.from = 0}, {.from = 2}};
    const gy_sched_task added[] = {{.key = {1, 1}, .stage = 3, .width = 1, .output_count = 1},
                                   {.key = {1, 2}, .stage = 3, .width = 1, .input_count = 2}};
    const gy_growth growth = {.tasks = added,
                              .task_count = 2,
                              .edges = edges,
                              .edge_count = 2,
                              .detail = "why",
                              .detail_bytes = 4};
    machine_job job = {0};
    machine at, next;
    machine_task(&job, (gy_sched_task){.stage = 2}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 2}, NULL);
    machine_start(&at, &job, (gy_manager_options){.process_max = 2});
    machine_done(&at, 0, 10);
    assert_int_equal(machine_count(&at, GY_EFFECT_GROW), 0);
    machine_done(&at, 1, 11);
    assert_int_equal(machine_reported(&at, GY_EFFECT_GROW, 0)->stage, 2);
    assert_int_equal(at.manager->phase, PHASE_RUNNING); /* the job does not end meanwhile */
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_GROWN, .stage = 2, .growth = &growth});
    assert_int_equal(machine_count(&at, GY_EFFECT_SYNC), 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 0);
    machine_synced(&at);
    assert_int_equal(machine_reported(&at, GY_EFFECT_START, 0)->id.task, 2);
    machine_done(&at, 2, 12);
    machine_fail(&at, 3, GY_CAUSE_LOST_INPUT, 0); /* the refinement point's task runs again */
    machine_done(&at, 0, 10);
    assert_int_equal(machine_count(&at, GY_EFFECT_GROW), 0);
    size_t used = 0;
    gy_grown grown;
    machine_new(&next, &job, (gy_manager_options){.process_max = 2});
    assert_ok(gy_manager_replay(next.manager, at.journal, at.journal_bytes, &used));
    next.journal_bytes = used;
    assert_true(gy_manager_grown(next.manager, 0, &grown));
    assert_false(gy_manager_grown(next.manager, 1, &grown));
    assert_int_equal(grown.first_task, 2);
    assert_int_equal(grown.task_count, 2);
    assert_string_equal(grown.detail, "why");
    machine_begin(&next);
    assert_int_equal(machine_count(&next, GY_EFFECT_GROW), 0);
    machine_done(&next, 3, 13);
    assert_int_equal(next.manager->phase, PHASE_ENDING);
    gy_manager_free(next.manager);
    gy_free(next.said.items);
    machine_free(&at);
}

GY_TEST(wrong_growths_end_the_job)
{
    static const gy_edge edges[] = {{.from = 9}};
    const gy_sched_task added[] = {{.stage = 3, .width = 1, .input_count = 1}};
    const gy_growth growth = {.tasks = added, .task_count = 1, .edges = edges, .edge_count = 1};
    static const char *const words[] = {"task 1 reads task 9 of 2", "keys are gone"};
    for (int i = 0; i < 2; i++) {
        machine_job job = {0};
        machine at;
        machine_task(&job, (gy_sched_task){.stage = 2}, NULL);
        machine_start(&at, &job, (gy_manager_options){.process_max = 1});
        machine_done(&at, 0, 10);
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_GROWN,
                                           .stage = 2,
                                           .growth = &growth,
                                           .cause = i == 0 ? GY_CAUSE_NONE : GY_CAUSE_OWN,
                                           .reason = "keys are gone"});
        const gy_effect *end = machine_reported(&at, GY_EFFECT_END, 0);
        assert_non_null(end);
        assert_non_null(strstr(end->reason, words[i]));
        assert_non_null(strstr(end->reason, "after stage 'gate'"));
        machine_free(&at);
    }
}

/* The process died with its task: it receives no task before the manager is told of the death.
 */
GY_TEST(nothing_goes_to_a_process_that_is_gone)
{
    machine_job job;
    machine at;
    machine_fan(&job, 1, GY_OUTPUT_DETERMINISTIC);
    machine_start(&at, &job, (gy_manager_options){.process_max = 1});
    gy_sched_event event = machine_event(&at, 0, 0);
    event.kind = GY_EVENT_FAILED;
    event.cause = GY_CAUSE_OWN;
    event.is_gone = true;
    event.reason = "killed";
    machine_tell(&at, event);
    assert_int_equal(machine_state(&at, 0), TASK_READY);
    event.kind = GY_EVENT_PROCESS_DOWN;
    event.cause = GY_CAUSE_CANCELLED;
    machine_tell(&at, event);
    /* The note of the process's death. */
    assert_int_equal(machine_count(&at, GY_EFFECT_NOTE), 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 1);
    machine_up(&at, 0);
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    gy_stage_state stage;
    gy_manager_stage(at.manager, 0, &stage);
    assert_int_equal(stage.runs, 2);
    assert_int_equal(stage.failed, 1);
    machine_free(&at);
}

GY_TEST_MAIN(NULL, NULL)
