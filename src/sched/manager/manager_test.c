/* Goal: the normal life of a job: begun, placed, done, failed, resumed, ended; the steps come
 * in order, and none before the records it depends on are synced. */
#include "sched/manager/machine_test.h"
#include "sched/state/records.h"

/* Complete every running task until the job ends. */
static void run_all(machine *at)
{
    for (int round = 0; at->manager->phase == PHASE_RUNNING; round++) {
        assert_true(round < 1000);
        for (uint32_t task = 0; task < at->manager->task_count; task++) {
            if (machine_state(at, task) == TASK_RUNNING) {
                machine_done(at, task, task + 100);
            }
        }
    }
}

GY_TEST(a_job_runs_in_order)
{
    machine_job job;
    machine at;
    machine_fan(&job, 3, GY_OUTPUT_DETERMINISTIC);
    machine_new(&at, &job, (gy_manager_options){.process_max = 2});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_BEGIN});
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 2);
    assert_int_equal(machine_count(&at, GY_EFFECT_SYNC), 1);
    machine_up(&at, 0);
    machine_up(&at, 1);
    /* No start before the record is synced. */
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 0);
    machine_tell(&at,
                 (gy_sched_event){.kind = GY_EVENT_SYNCED, .position = at.journal_bytes - 1});
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 0);
    machine_synced(&at);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 2);
    assert_int_equal(machine_reported(&at, GY_EFFECT_START, 0)->id.task, 0);
    assert_int_equal(machine_reported(&at, GY_EFFECT_START, 1)->id.task, 1);
    assert_int_not_equal(machine_reported(&at, GY_EFFECT_START, 0)->process,
                         machine_reported(&at, GY_EFFECT_START, 1)->process);
    machine_done(&at, 0, 100);
    const gy_effect *committed = machine_reported(&at, GY_EFFECT_COMMITTED, 0);
    assert_int_equal(committed->id.task, 0);
    assert_int_equal(committed->size_bytes, 7);
    assert_string_equal(committed->data, "report");
    assert_int_equal(machine_reported(&at, GY_EFFECT_START, 0)->id.task, 2);
    machine_done(&at, 2, 102);
    /* Task 3 waits for task 1. */
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 0);
    machine_done(&at, 1, 101);
    assert_int_equal(machine_reported(&at, GY_EFFECT_START, 0)->id.task, 3);
    machine_done(&at, 3, 103);
    assert_int_equal(machine_count(&at, GY_EFFECT_END), 0); /* the end must be synced first */
    machine_synced(&at);
    assert_int_equal(machine_reported(&at, GY_EFFECT_END, 0)->status, GY_OK);
    machine_free(&at);
}

GY_TEST(an_empty_job_ends)
{
    machine_job job = {0};
    machine at;
    machine_start(&at, &job, (gy_manager_options){0});
    machine_synced(&at);
    assert_int_equal(machine_reported(&at, GY_EFFECT_END, 0)->status, GY_OK);
    machine_free(&at);
}

/* Final data, then the record of them, then the manifest, then the end. */
GY_TEST(an_output_is_published_last)
{
    machine_job job = {0};
    machine at;
    machine_task(&job, (gy_sched_task){.flags = GY_TASK_FINAL}, NULL);
    machine_start(&at, &job, (gy_manager_options){0});
    machine_done(&at, 0, 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_SAVE), 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_PUBLISH), 0);
    machine_tell(&at,
                 (gy_sched_event){.kind = GY_EVENT_OUTPUT_SAFE, .cause = GY_CAUSE_LOST_INPUT});
    /* It runs again, then SAVE follows again. */
    assert_int_equal(machine_state(&at, 0), TASK_READY + 1);
    machine_done(&at, 0, 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_SAVE), 1);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_OUTPUT_SAFE});
    assert_int_equal(machine_count(&at, GY_EFFECT_SYNC), 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_PUBLISH), 0);
    machine_synced(&at);
    assert_int_equal(machine_count(&at, GY_EFFECT_PUBLISH), 1);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_PUBLISHED});
    machine_synced(&at);
    assert_int_equal(machine_reported(&at, GY_EFFECT_END, 0)->status, GY_OK);
    machine_free(&at);
}

/* A manager that could not publish has removed what it had saved: the next one saves again. */
GY_TEST(what_was_saved_may_be_gone)
{
    machine_job job = {0};
    machine first, next;
    size_t used = 0;
    machine_task(&job, (gy_sched_task){.flags = GY_TASK_FINAL}, NULL);
    machine_start(&first, &job, (gy_manager_options){0});
    machine_done(&first, 0, 1);
    machine_tell(&first, (gy_sched_event){.kind = GY_EVENT_OUTPUT_SAFE});
    machine_synced(&first);
    assert_int_equal(machine_count(&first, GY_EFFECT_PUBLISH), 1);
    machine_new(&next, &job, (gy_manager_options){0});
    assert_ok(gy_manager_replay(next.manager, first.journal, first.journal_bytes, &used));
    memcpy(next.journal, first.journal, used);
    next.journal_bytes = used;
    machine_begin(&next);
    assert_int_equal(machine_count(&next, GY_EFFECT_PUBLISH), 1);
    machine_tell(&next,
                 (gy_sched_event){.kind = GY_EVENT_PUBLISHED, .cause = GY_CAUSE_LOST_INPUT});
    assert_int_equal(machine_count(&next, GY_EFFECT_SAVE), 1);
    machine_tell(&next, (gy_sched_event){.kind = GY_EVENT_OUTPUT_SAFE});
    machine_synced(&next);
    assert_int_equal(machine_count(&next, GY_EFFECT_PUBLISH), 1);
    machine_tell(&next, (gy_sched_event){.kind = GY_EVENT_PUBLISHED,
                                         .cause = GY_CAUSE_LOST_INPUT,
                                         .reason = "gone again"}); /* but not for ever */
    assert_int_equal(machine_reported(&next, GY_EFFECT_END, 0)->status, GY_IO);
    gy_manager_free(next.manager);
    gy_free(next.said.items);
    machine_free(&first);
}

GY_TEST(a_second_answer_changes_nothing)
{
    machine_job job;
    machine at;
    machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
    machine_start(&at, &job, (gy_manager_options){0});
    gy_sched_event done = machine_done_event(&at, 0, 100);
    machine_tell(&at, done);
    machine_tell(&at, done); /* the committed files stay */
    assert_int_equal(at.said.count, 0);
    gy_sched_event other = done;
    other.id.attempt++;
    machine_tell(&at, other); /* other files are discarded */
    assert_int_equal(at.said.count, 1);
    assert_int_equal(machine_reported(&at, GY_EFFECT_DISCARD, 0)->id.attempt, other.id.attempt);
    other = machine_done_event(&at, 1, 101);
    other.generation--;
    machine_tell(&at, other); /* from an earlier process of that slot */
    assert_int_equal(machine_count(&at, GY_EFFECT_COMMITTED), 0);
    assert_int_equal(machine_state(&at, 1), TASK_RUNNING);
    machine_free(&at);
}

GY_TEST(six_failures_end_the_job)
{
    machine_job job;
    machine at;
    machine_fan(&job, 1, GY_OUTPUT_DETERMINISTIC);
    machine_start(&at, &job, (gy_manager_options){0});
    for (int i = 0; i < 20; i++) { /* cancellations do not count as failures */
        machine_fail(&at, 0, i % 2 == 0 ? GY_CAUSE_NEW_BAD_RECORD : GY_CAUSE_PEER, 0);
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(machine_count(&at, GY_EFFECT_END), 0);
        assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
        machine_fail(&at, 0, GY_CAUSE_OWN, 0);
    }
    const gy_effect *end = machine_reported(&at, GY_EFFECT_END, 0);
    assert_int_equal(end->status, GY_STATE);
    assert_non_null(strstr(end->reason, "task 0 of stage 'map' failed 6 times"));
    assert_non_null(strstr(end->reason, "as the test wants it"));
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER}); /* nothing follows */
    assert_int_equal(at.said.count, 0);
    machine_free(&at);
}

static void down(machine *at, uint32_t process, const char *reason)
{
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_PROCESS_DOWN,
                                      .process = process,
                                      .generation = at->manager->slots[process].generation,
                                      .reason = reason});
}

/* Ten tasks are in flight: the death counts against the oldest, and each runs alone the next
 * time. */
GY_TEST(a_death_counts_for_what_ran)
{
    machine_job job = {0};
    machine at;
    machine_tasks(&job, 20, (gy_sched_task){.stage = 0});
    machine_start(&at, &job, (gy_manager_options){.process_max = 1, .depth_max = 10});
    for (uint32_t task = 0; task < 9; task++) {
        machine_done(&at, task, task);
    }
    assert_int_equal(at.manager->slots[0].load, 10);
    uint32_t generation = at.manager->slots[0].generation;
    down(&at, 0, "signal 11");
    assert_true(machine_noted(&at, "signal 11"));
    assert_int_equal(at.manager->rows[9].failures, 1);
    assert_int_equal(at.manager->rows[10].failures, 0);
    assert_int_equal(machine_count(&at, GY_EFFECT_DISCARD), 10);
    assert_int_equal(machine_reported(&at, GY_EFFECT_SPAWN, 0)->generation, generation + 1);
    machine_up(&at, 0);
    assert_int_equal(at.manager->slots[0].load, 1);
    assert_int_equal(machine_reported(&at, GY_EFFECT_START, 0)->id.task, 9);
    machine_done(&at, 9, 9);
    assert_int_equal(at.manager->slots[0].load, 1);
    machine_free(&at);
}

GY_TEST(silence_is_a_death_that_does_not_count)
{
    machine_job job;
    machine at;
    machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
    machine_start(&at, &job, (gy_manager_options){.silence_ns = 1000000000});
    gy_sched_event zombie = machine_done_event(&at, 0, 100);
    for (int i = 0; i < 10 && machine_count(&at, GY_EFFECT_KILL) == 0; i++) {
        at.now_ns += 250000000;
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_HEARD,
                                           .process = 1,
                                           .generation = at.manager->slots[1].generation});
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
    }
    assert_int_equal(machine_count(&at, GY_EFFECT_KILL), 1);
    assert_int_equal(machine_reported(&at, GY_EFFECT_KILL, 0)->process, 0);
    assert_true(machine_noted(&at, "sent no heartbeat for 1.2 s"));
    machine_tell(&at, zombie); /* its message arrived before the signal */
    assert_int_equal(machine_count(&at, GY_EFFECT_COMMITTED), 0);
    assert_int_equal(machine_count(&at, GY_EFFECT_DISCARD), 1);
    down(&at, 0, "killed");
    assert_int_equal(at.manager->rows[0].failures, 0);
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 1);
    machine_free(&at);
}

GY_TEST(processes_that_never_come_end_the_job)
{
    machine_job job;
    machine at;
    machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
    machine_new(&at, &job, (gy_manager_options){0});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_BEGIN});
    machine_synced(&at);
    int deaths = 0;
    while (machine_count(&at, GY_EFFECT_END) == 0) {
        assert_true(deaths < 100);
        if (at.manager->slots[0].state == SLOT_STARTING) {
            down(&at, 0, "no such file");
            deaths++;
        } else if (at.manager->slots[1].state == SLOT_STARTING) {
            down(&at, 1, "no such file");
            deaths++;
        } else {
            assert_true(at.manager->timer_ns < INT64_MAX);
            at.now_ns = at.manager->timer_ns;
            machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        }
    }
    assert_int_equal(deaths, 14);
    assert_non_null(strstr(machine_reported(&at, GY_EFFECT_END, 0)->reason, "no such file"));
    assert_true(at.now_ns > 300000000 && at.now_ns < 10000000000); /* with growing delays */
    machine_free(&at);
}

/* Wherever a crash truncates the journal, another manager goes on from there. */
GY_TEST(every_cut_journal_resumes)
{
    machine_job job;
    machine first;
    machine_fan(&job, 5, GY_OUTPUT_DETERMINISTIC);
    machine_start(&first, &job, (gy_manager_options){0});
    run_all(&first);
    for (size_t cut = 0; cut <= first.journal_bytes; cut++) {
        machine next;
        size_t used = 0;
        machine_new(&next, &job, (gy_manager_options){0});
        assert_ok(gy_manager_replay(next.manager, first.journal, cut, &used));
        assert_true(used <= cut);
        memcpy(next.journal, first.journal, used);
        next.journal_bytes = used;
        uint32_t stood = next.manager->committed_count, generation = next.manager->generation;
        machine_begin(&next);
        if (next.manager->phase != PHASE_ENDED) {
            assert_int_equal(next.manager->generation, used > 0 ? 2 : 1);
            assert_true(generation < next.manager->generation);
        }
        uint32_t again = 0;
        while (next.manager->phase == PHASE_RUNNING) {
            for (uint32_t task = 0; task < 6; task++) {
                if (machine_state(&next, task) == TASK_RUNNING) {
                    assert_int_equal(next.manager->rows[task].attempt >> GY_ATTEMPT_BITS,
                                     next.manager->generation);
                    machine_done(&next, task, task + 100);
                    again++;
                }
            }
        }
        assert_int_equal(stood + again, 6); /* no committed task ran again */
        machine_synced(&next);
        assert_int_equal(next.manager->phase, PHASE_ENDED);
        gy_manager_free(next.manager);
        gy_free(next.said.items);
    }
    machine_free(&first);
}

GY_TEST(a_flipped_bit_ends_the_journal)
{
    machine_job job;
    machine first;
    machine_fan(&job, 3, GY_OUTPUT_DETERMINISTIC);
    machine_start(&first, &job, (gy_manager_options){0});
    run_all(&first);
    for (size_t bit = 0; bit < first.journal_bytes * 8; bit++) {
        machine next;
        size_t used = 0;
        machine_new(&next, &job, (gy_manager_options){0});
        first.journal[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_ok(gy_manager_replay(next.manager, first.journal, first.journal_bytes, &used));
        first.journal[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(used <= bit / 8);
        gy_manager_free(next.manager);
    }
    machine_free(&first);
}

GY_TEST(a_journal_of_another_job_is_refused)
{
    machine_job job, other;
    machine first, next;
    size_t used = 0;
    machine_fan(&job, 3, GY_OUTPUT_DETERMINISTIC);
    machine_fan(&other, 4, GY_OUTPUT_DETERMINISTIC);
    machine_start(&first, &job, (gy_manager_options){0});
    machine_new(&next, &other, (gy_manager_options){0});
    assert_status(gy_manager_replay(next.manager, first.journal, first.journal_bytes, &used),
                  GY_FORMAT);
    gy_manager_free(next.manager);
    machine_free(&first);
}

/* Of an older build, whose beginning may have had less behind its version. */
GY_TEST(a_journal_of_another_version_is_refused)
{
    machine_job job;
    machine first, next;
    size_t used = 0;
    machine_fan(&job, 3, GY_OUTPUT_DETERMINISTIC);
    machine_start(&first, &job, (gy_manager_options){0});
    machine_new(&next, &job, (gy_manager_options){0});
    for (size_t size = sizeof(record_opening_packed); size <= sizeof(record_begin_packed);
         size += 4) {
        record_head head = {.size_bytes = (uint32_t)size, .kind = RECORD_BEGIN};
        uint8_t *body = first.journal + sizeof(record_head_packed);
        gy_record_put(body + 8, 4, 3); /* behind its magic */
        head.checksum = gy_hash(body, size, (uint64_t)RECORD_BEGIN << 32 | size);
        const record_head_packed packed = record_head_pack(&head);
        memcpy(first.journal, &packed, sizeof(packed));
        assert_status(
            gy_manager_replay(next.manager, first.journal, sizeof(packed) + size, &used),
            GY_UNSUPPORTED);
        assert_string_equal(gy_error_text(),
                            "at byte 0: its records are of version 3, expected version 4");
    }
    gy_manager_free(next.manager);
    machine_free(&first);
}

GY_TEST(a_journal_that_fails_ends_the_job)
{
    machine_job job;
    machine at;
    machine_fan(&job, 3, GY_OUTPUT_DETERMINISTIC);
    machine_start(&at, &job, (gy_manager_options){0});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_JOURNAL_FAILED, .reason = "disk full"});
    assert_int_equal(at.said.count, 1); /* and nothing is appended any more */
    assert_int_equal(machine_reported(&at, GY_EFFECT_END, 0)->status, GY_IO);
    assert_string_equal(machine_reported(&at, GY_EFFECT_END, 0)->reason,
                        "the journal failed: disk full");
    machine_free(&at);
}

GY_TEST(wrong_graphs_are_refused)
{
    static const uint32_t next[] = {1}, first[] = {0}, self[] = {2};
    static const struct {
        gy_sched_task a, b;
        const uint32_t *a_reads, *b_reads;
        const char *words;
    } wrong[] = {
        {{.input_count = 1}, {.input_count = 1}, next, first, "a cycle"},
        {{.input_count = 0}, {.input_count = 1}, NULL, next, "task 1 reads task 1"},
        {{.input_count = 0}, {.input_count = 1}, NULL, self, "task 1 reads task 2 of 2"},
        {{.stage = 9}, {.stage = 0}, NULL, NULL, "stage 9 of 4"},
        {{.width = 3}, {.stage = 0}, NULL, NULL, "task 0 of stage 'map' needs 3 processes"},
        {{.determinism = 3}, {.stage = 0}, NULL, NULL, "determinism 3"},
    };
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        machine_job job = {0};
        gy_manager *manager = NULL;
        machine_task(&job, wrong[i].a, wrong[i].a_reads);
        machine_task(&job, wrong[i].b, wrong[i].b_reads);
        const gy_manager_options options = {
            .stages = machine_stages, .stage_count = MACHINE_STAGES, .process_max = 2};
        assert_status(gy_manager_new(&options, &job.growth, &manager), GY_ARG);
        if (strstr(gy_error_text(), wrong[i].words) == NULL) {
            fail_msg("case %zu: %s", i, gy_error_text());
        }
    }
    machine_job job = {0};
    gy_manager *manager = NULL;
    machine_task(&job, (gy_sched_task){.stage = 0}, NULL);
    machine_task(&job, (gy_sched_task){.input_count = 1}, first);
    job.edges[0].output = 1;
    const gy_manager_options options = {
        .stages = machine_stages, .stage_count = MACHINE_STAGES, .process_max = 2};
    assert_status(gy_manager_new(&options, &job.growth, &manager), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "output 1 of task 0, which has 1"));
    job.growth.edge_count = 0;
    assert_status(gy_manager_new(&options, &job.growth, &manager), GY_ARG);
    assert_int_equal(gy_alloc_live(), 0);
}

/* Each allocation fails once: GY_NOMEM and nothing left, or it was not needed. */
GY_TEST(no_memory_is_an_answer)
{
    machine_job job;
    machine_fan(&job, 4, GY_OUTPUT_DETERMINISTIC);
    const gy_manager_options options = {
        .stages = machine_stages, .stage_count = MACHINE_STAGES, .process_max = 1};
    int refused = 0;
    for (int64_t n = 1; n < 60; n++) {
        gy_manager *manager = NULL;
        gy_effects said = {0};
        const gy_sched_event events[] = {
            {.kind = GY_EVENT_BEGIN},
            {.kind = GY_EVENT_SYNCED, .position = UINT64_MAX},
            {.kind = GY_EVENT_PROCESS_UP, .generation = (1u << GY_ATTEMPT_BITS) + 1},
            {.kind = GY_EVENT_DONE,
             .generation = (1u << GY_ATTEMPT_BITS) + 1,
             .id.attempt = (1u << GY_ATTEMPT_BITS) + 1,
             .report = "x",
             .report_bytes = 1}};
        gy_alloc_fail_after(n);
        gy_status status = gy_manager_new(&options, &job.growth, &manager);
        for (size_t i = 0; i < GY_COUNT(events) && status == GY_OK; i++) {
            status = gy_manager_step(manager, &events[i], &said);
            assert_true(status == GY_OK || said.count == 0);
        }
        gy_alloc_fail_after(0);
        if (status != GY_OK) {
            assert_int_equal(status, GY_NOMEM);
            refused++;
        } else {
            gy_sched_task_state task;
            gy_manager_task(manager, 0, &task);
            assert_int_not_equal(task.committed.attempt, 0);
        }
        gy_manager_free(manager);
        gy_free(said.items);
        assert_int_equal(gy_alloc_live(), 0);
    }
    assert_true(refused > 20 && refused < 59);
}

GY_TEST_MAIN(NULL, NULL)
