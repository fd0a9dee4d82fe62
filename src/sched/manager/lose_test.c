/* Goal: exactly what is lost runs again: at each of the three levels of determinism,
 * recursively, with readers in progress; a cohort is lost or kept as a whole; results of an
 * earlier job are used once. */
#include "sched/manager/machine_test.h"

/* a -> b -> c -> d, stages 0, 1, 1, 3. */
static void chain(machine_job *job, gy_determinism first)
{
    static const uint32_t a[] = {0}, b[] = {1}, c[] = {2};
    *job = (machine_job){0};
    machine_task(job, (gy_sched_task){.determinism = (uint8_t)first}, NULL);
    machine_task(job, (gy_sched_task){.stage = 1, .input_count = 1}, a);
    machine_task(job, (gy_sched_task){.stage = 1, .input_count = 1}, b);
    machine_task(job, (gy_sched_task){.stage = 3, .input_count = 1}, c);
}

/* The chain at one process, its first two tasks done. */
static void begin_chain(machine *at, gy_determinism first)
{
    machine_job job;
    chain(&job, first);
    machine_start(at, &job, (gy_manager_options){.process_max = 1});
    machine_done(at, 0, 10);
    machine_done(at, 1, 11);
}

GY_TEST(three_stages_up)
{
    machine at;
    begin_chain(&at, GY_OUTPUT_DETERMINISTIC);
    machine_done(&at, 2, 12);
    /* All three outputs are missing; each run discovers the next loss. */
    machine_fail(&at, 3, GY_CAUSE_LOST_INPUT, 0);
    assert_true(machine_noted(&at, "lost, as task 3 found"));
    machine_fail(&at, 2, GY_CAUSE_LOST_INPUT, 0);
    machine_fail(&at, 1, GY_CAUSE_LOST_INPUT, 0);
    for (uint32_t task = 0; task < 4; task++) {
        assert_int_equal(machine_state(&at, task), task == 0 ? TASK_RUNNING : TASK_WAITING);
        assert_int_equal(at.manager->rows[task].epoch, task < 3 ? 1 : 0);
        assert_int_equal(at.manager->rows[task].failures, 0);
    }
    for (uint32_t task = 0; task < 4; task++) {
        machine_done(&at, task, 10 + task);
    }
    assert_int_equal(at.manager->phase, PHASE_ENDING);
    machine_free(&at);
}

/* Two readers run while their input is lost: the first failure raises its epoch, the second
 * must not raise it again. */
GY_TEST(a_loss_counts_once)
{
    static const uint32_t a[] = {0};
    machine_job job = {0};
    machine at;
    machine_task(&job, (gy_sched_task){.stage = 0}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 1, .input_count = 1}, a);
    machine_task(&job, (gy_sched_task){.stage = 1, .input_count = 1}, a);
    machine_start(&at, &job, (gy_manager_options){.process_max = 3});
    machine_done(&at, 0, 10);
    for (uint32_t process = 1; process < 3; process++) {
        if (at.manager->slots[process].state == SLOT_STARTING) {
            machine_up(&at, process);
        }
    }
    assert_int_equal(machine_state(&at, 2), TASK_RUNNING);
    machine_fail(&at, 1, GY_CAUSE_LOST_INPUT, 0);
    machine_done(&at, 0, 10);
    assert_int_equal(at.manager->rows[0].epoch, 1);
    machine_fail(&at, 2, GY_CAUSE_LOST_INPUT, 0); /* it had begun before */
    assert_int_equal(at.manager->rows[0].epoch, 1);
    assert_int_equal(machine_state(&at, 0), TASK_COMMITTED);
    assert_int_equal(machine_state(&at, 2), TASK_RUNNING);
    machine_fail(&at, 2, GY_CAUSE_LOST_INPUT, 0); /* it had not */
    assert_int_equal(at.manager->rows[0].epoch, 2);
    machine_free(&at);
}

static void report_lost(machine *at, uint32_t task, uint32_t epoch)
{
    machine_tell(at,
                 (gy_sched_event){.kind = GY_EVENT_LOST, .id = {.task = task, .epoch = epoch}});
}

GY_TEST(what_nobody_reads_stays_lost)
{
    machine at;
    begin_chain(&at, GY_OUTPUT_DETERMINISTIC);
    report_lost(&at, 0, 0); /* 1 has read it */
    assert_int_equal(machine_state(&at, 0), TASK_COMMITTED);
    assert_true(machine_noted(&at, "but not needed"));
    report_lost(&at, 1, 1); /* of another epoch */
    assert_int_equal(at.said.count, 0);
    report_lost(&at, 1, 0); /* 2 is reading it */
    assert_int_not_equal(machine_state(&at, 1), TASK_COMMITTED);
    assert_int_equal(machine_state(&at, 2), TASK_RUNNING);
    machine_done(&at, 2, 12); /* it had already read its input */
    assert_int_equal(machine_state(&at, 2), TASK_COMMITTED);
    machine_free(&at);
}

/* Task 0 of a fan of three is lost when tasks 1 and 2 of its four readers are committed. */
static void half_of_the_readers(gy_determinism determinism, machine *at)
{
    static const uint32_t first[] = {0};
    static const uint32_t second[] = {1};
    machine_job job = {0};
    machine_task(&job, (gy_sched_task){.determinism = (uint8_t)determinism}, NULL);
    for (int i = 0; i < 4; i++) {
        machine_task(&job, (gy_sched_task){.stage = 1, .input_count = 1}, first);
    }
    machine_task(&job, (gy_sched_task){.stage = 3, .input_count = 1}, second);
    machine_start(at, &job, (gy_manager_options){.process_max = 1});
    machine_done(at, 0, 10);
    machine_done(at, 1, 11);
    while (machine_state(at, 2) == TASK_RUNNING) {
        machine_done(at, 2, 12);
    }
    assert_int_equal(machine_state(at, 3), TASK_RUNNING);
    machine_fail(at, 3, GY_CAUSE_LOST_INPUT, 0);
    assert_int_equal(at->manager->rows[0].epoch, 1);
    assert_int_equal(machine_state(at, 0),
                     at->manager->rows[0].run == GY_NONE ? TASK_READY : TASK_RUNNING);
}

GY_TEST(determinism_decides_who_runs_again)
{
    static const struct {
        gy_determinism determinism;
        uint64_t content; /* of the second run */
        task_state reader;
        gy_status end;
    } cases[] = {
        {GY_OUTPUT_DETERMINISTIC, 10, TASK_COMMITTED, GY_OK},
        {GY_OUTPUT_DETERMINISTIC, 99, TASK_COMMITTED, GY_MISMATCH},
        {GY_OUTPUT_UNORDERED, 99, TASK_COMMITTED, GY_OK},
        {GY_OUTPUT_INDETERMINATE, 99, TASK_WAITING, GY_OK},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        machine at;
        half_of_the_readers(cases[i].determinism, &at);
        assert_int_equal(machine_state(&at, 1), cases[i].reader);
        assert_int_equal(machine_state(&at, 2), cases[i].reader);
        for (uint32_t task = 3; machine_state(&at, 0) != TASK_RUNNING; task++) {
            assert_true(task < 6); /* those in flight are discarded first */
            if (machine_state(&at, task) == TASK_RUNNING) {
                machine_done(&at, task, 10 + task);
            }
        }
        machine_done(&at, 0, cases[i].content);
        const gy_effect *end = machine_reported(&at, GY_EFFECT_END, 0);
        assert_int_equal(end != NULL ? end->status : GY_OK, cases[i].end);
        if (end != NULL) {
            assert_non_null(strstr(end->reason, "task 0 of stage 'map' is declared determin"));
        }
        machine_free(&at);
    }
}

/* c reads b, b reads a. b is lost and runs again, then a, which is indeterminate. c is
 * committed while b is not, but c depends on the output of the first a and must run again. */
GY_TEST(a_loss_goes_through_who_waits)
{
    machine_job job;
    machine at;
    static const uint32_t b[] = {1};
    chain(&job, GY_OUTPUT_INDETERMINATE);
    machine_task(&job, (gy_sched_task){.stage = 3, .input_count = 1}, b);
    machine_start(&at, &job, (gy_manager_options){.process_max = 1});
    machine_done(&at, 0, 10);
    machine_done(&at, 1, 11);
    machine_done(&at, 2, 12);
    uint32_t other = machine_state(&at, 4) == TASK_RUNNING ? 4 : 3;
    if (other == 3) {
        machine_done(&at, 3, 13);
    }
    machine_fail(&at, 4, GY_CAUSE_LOST_INPUT, 0); /* b is lost */
    assert_int_equal(machine_state(&at, 2), TASK_COMMITTED);
    while (machine_state(&at, 1) != TASK_RUNNING) {
        machine_done(&at, 3, 13);
    }
    machine_fail(&at, 1, GY_CAUSE_LOST_INPUT, 0); /* and a is lost */
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    assert_int_equal(machine_state(&at, 2), TASK_WAITING);
    assert_int_equal(at.manager->rows[2].epoch, 1);
    machine_free(&at);
}

/* ---- Cohorts ---- */

static void two_of_three(machine_job *job)
{
    *job = (machine_job){0};
    machine_task(job, (gy_sched_task){.width = 2}, NULL);
    machine_task(job, (gy_sched_task){.stage = 1}, NULL);
}

static gy_sched_event member_done(const machine *at, uint32_t member, uint64_t content)
{
    gy_sched_event event = machine_event(at, 0, member);
    event.kind = GY_EVENT_DONE;
    event.content = (gy_key){.low = content};
    event.report = member == 0 ? "zero" : "one";
    event.report_bytes = member == 0 ? 4 : 3;
    return event;
}

GY_TEST(a_cohort_stands_as_one)
{
    machine_job job;
    machine at;
    two_of_three(&job);
    machine_start(&at, &job, (gy_manager_options){.process_max = 2});
    gy_sched_event first = member_done(&at, 0, 1);
    machine_tell(&at, first);
    machine_tell(&at, first); /* a repeated report has no effect */
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    machine_tell(&at, member_done(&at, 1, 2));
    const gy_effect *committed = machine_reported(&at, GY_EFFECT_COMMITTED, 0);
    assert_non_null(committed);
    assert_int_equal(committed->size_bytes, 4 + 4 + 4 + 3);
    assert_memory_equal(committed->data, "\4\0\0\0zero\3\0\0\0one", 15);
    machine_free(&at);
}

/* The process of the finished member dies, and its report is repeated: the files that the other
 * members still write are not discarded. */
GY_TEST(a_cohort_falls_as_one)
{
    machine_job job;
    machine at;
    two_of_three(&job);
    machine_start(&at, &job, (gy_manager_options){.process_max = 2});
    gy_sched_event first = member_done(&at, 0, 1);
    machine_tell(&at, first);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_PROCESS_DOWN,
                                       .process = first.process,
                                       .generation = first.generation});
    machine_tell(&at, first);
    assert_int_equal(machine_count(&at, GY_EFFECT_DISCARD), 0);
    gy_sched_event second = machine_event(&at, 0, 1);
    second.kind = GY_EVENT_FAILED;
    second.cause = GY_CAUSE_OWN;
    machine_tell(&at, second);
    assert_int_equal(machine_count(&at, GY_EFFECT_DISCARD), 1);
    assert_int_equal(at.manager->rows[0].failures, 1);
    assert_int_equal(machine_state(&at, 0), TASK_READY);
    assert_int_equal(at.manager->committed_count, 0);
    machine_free(&at);
}

/* One member fails: the others are cancelled, and the files are discarded once they have
 * stopped. */
GY_TEST(a_member_takes_the_others_with_it)
{
    machine_job job;
    machine at;
    two_of_three(&job);
    machine_start(&at, &job, (gy_manager_options){.process_max = 2});
    gy_sched_event other = machine_event(&at, 0, 1);
    machine_fail(&at, 0, GY_CAUSE_OWN, 0);
    assert_int_equal(machine_count(&at, GY_EFFECT_CANCEL), 1);
    assert_int_equal(machine_reported(&at, GY_EFFECT_CANCEL, 0)->member, 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_DISCARD), 0);
    other.kind = GY_EVENT_FAILED;
    other.cause = GY_CAUSE_CANCELLED;
    machine_tell(&at, other);
    assert_int_equal(machine_count(&at, GY_EFFECT_DISCARD), 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 2); /* both members start again */
    assert_int_equal(at.manager->rows[0].failures, 1);
    machine_free(&at);
}

/* ---- Memo ---- */

GY_TEST(what_is_remembered_does_not_run)
{
    machine_job job;
    machine first, next;
    gy_sched_memo memos[4];
    chain(&job, GY_OUTPUT_UNORDERED);
    machine_start(&first, &job, (gy_manager_options){.process_max = 1});
    for (uint32_t task = 0; task < 4; task++) {
        gy_sched_task_state left;
        machine_done(&first, task, 10 + task);
        gy_manager_task(first.manager, task, &left);
        memos[task] = (gy_sched_memo){.key = left.key,
                                      .content = left.content,
                                      .epoch = 3,
                                      .attempt = left.committed.attempt,
                                      .report = left.report,
                                      .report_bytes = left.report_bytes};
    }
    job.tasks[2].key.low = 1234; /* a different parameter changes the key */
    machine_new(&next, &job, (gy_manager_options){.process_max = 1});
    assert_ok(gy_manager_remember(next.manager, memos, 2));
    assert_ok(gy_manager_remember(next.manager, memos + 2, 2));
    machine_begin(&next);
    gy_stage_state counted;
    gy_manager_stage(next.manager, 1, &counted);
    assert_int_equal(counted.memoised, 1);
    assert_int_equal(next.manager->committed_count, 2);
    assert_int_equal(next.manager->rows[1].epoch, 3);
    /* The memoised files are missing, so the task runs. */
    machine_fail(&next, 2, GY_CAUSE_LOST_INPUT, 0);
    assert_int_equal(next.manager->rows[1].epoch, 4);
    assert_int_equal(machine_state(&next, 1), TASK_RUNNING);
    machine_done(&next, 1, 11);
    /* The same bytes result, so the later tasks are memoised again. */
    machine_done(&next, 2, 12);
    assert_int_equal(next.manager->phase, PHASE_ENDING);
    gy_manager_free(first.manager);
    gy_free(first.said.items);
    machine_free(&next);
}

GY_TEST(the_indeterminate_are_not_remembered)
{
    static const gy_sched_task kinds[] = {{.determinism = GY_OUTPUT_INDETERMINATE},
                                          {.flags = GY_TASK_NO_MEMO},
                                          {.determinism = GY_OUTPUT_UNORDERED}};
    for (size_t i = 0; i < GY_COUNT(kinds); i++) {
        machine_job job = {0};
        machine at;
        machine_task(&job, kinds[i], NULL);
        machine_new(&at, &job, (gy_manager_options){.process_max = 1});
        const gy_sched_memo memo = {.key = gy_manager_key(at.manager, 0), .attempt = 5};
        assert_ok(gy_manager_remember(at.manager, &memo, 1));
        machine_begin(&at);
        assert_int_equal(machine_state(&at, 0), i == 2 ? TASK_COMMITTED : TASK_RUNNING);
        machine_free(&at);
    }
}

GY_TEST_MAIN(NULL, NULL)
