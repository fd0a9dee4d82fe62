/* Goal: tasks run near their bytes unless that host is busy; a cohort runs on one host; failed
 * tasks and backup tasks go elsewhere; a host where tasks fail that succeed elsewhere is
 * avoided, and no other host. */
#include "sched/hosts/hosts_test.h"

GY_TEST(sizes_fit_into_a_byte)
{
    uint8_t before = 0;
    for (uint32_t octave = 0; octave < 64; octave++) {
        for (uint64_t part = 0; part < 8; part++) {
            uint64_t bytes = (UINT64_C(1) << octave) + (octave < 3 ? 0 : part << (octave - 3));
            uint8_t code = gy_manager_held_code(bytes);
            double back = (double)gy_manager_held_bytes(code);
            assert_true(code >= before);
            assert_true(back <= (double)bytes && back * 1.26 > (double)bytes);
            before = code;
        }
    }
    assert_int_equal(gy_manager_held_code(0), 0);
    assert_int_equal(gy_manager_held_code(UINT64_MAX), 251);
}

/* One slot at each of two hosts; 0 and 1 are done there, 2 reads both. */
GY_TEST(a_reader_goes_to_most_bytes)
{
    for (uint32_t most = 0; most < 2; most++) {
        machine_job job;
        machine at;
        machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
        hosts_pair(&at, &job, (gy_manager_options){.process_max = 2});
        hosts_done_bytes(&at, 0, 10, most == 0 ? 5000 : 1000);
        hosts_done_bytes(&at, 1, 11, most == 1 ? 5000 : 1000);
        assert_int_equal(hosts_where(&at, 2), most);
        machine_free(&at);
    }
}

/* Inputs from outside the job have places by host name. */
GY_TEST(names_are_places)
{
    static const char *const places[] = {"h9 h1", NULL, " h0  h7 ", "h8", "h1"};
    static const uint32_t where[] = {1, 0, 0, 1, 1};
    machine_job job = {0};
    machine at;
    machine_tasks(&job, 5, (gy_sched_task){.input_bytes = 100});
    job.growth.places = places;
    hosts_new(&at, &job, (gy_manager_options){.process_max = 2, .threads = 4});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 0, .host = 0});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 1, .host = 1});
    at.manager->phase = PHASE_SAVED; /* nothing is placed until both are up */
    machine_up(&at, 0);
    at.manager->phase = PHASE_RUNNING;
    machine_up(&at, 1);
    for (uint32_t task = 0; task < 5; task++) {
        assert_int_equal(hosts_where(&at, task), where[task]);
    }
    machine_free(&at);
}

/* Twelve tasks whose bytes are on host 0 and 1 in turn, one slot each: near tasks start first.
 */
GY_TEST(those_near_go_before)
{
    static const char *const places[] = {"h0", "h0", "h0", "h0", "h1", "h1", "h1", "h1"};
    machine_job job = {0};
    machine at;
    machine_tasks(&job, 8, (gy_sched_task){.input_bytes = 100});
    job.growth.places = places;
    hosts_pair(&at, &job, (gy_manager_options){.process_max = 2});
    assert_int_equal(hosts_where(&at, 0), 0);
    assert_int_equal(hosts_where(&at, 4), 1); /* not task 1, which is the oldest */
    for (uint32_t task = 4; task < 8; task++) {
        assert_int_equal(hosts_where(&at, task), 1);
        hosts_done(&at, task, task);
    }
    assert_int_equal(hosts_where(&at, 1), 1); /* no other task is near, so it does not wait */
    machine_free(&at);
}

/* The oldest task may be passed, but only a bounded number of times. */
GY_TEST(nobody_is_passed_by_for_ever)
{
    enum { MANY = 50 };
    static const char *places[MANY];
    machine_job job = {0};
    machine at;
    for (int i = 0; i < MANY; i++) {
        places[i] = i < 2 ? "h0" : "h1";
        machine_task(&job, (gy_sched_task){.input_bytes = 100}, NULL);
    }
    job.growth.places = places;
    hosts_pair(&at, &job, (gy_manager_options){.process_max = 2});
    uint32_t task = 2;
    while (machine_state(&at, 1) == TASK_READY) {
        assert_int_equal(hosts_where(&at, task), 1);
        hosts_done(&at, task, task);
        task++;
    }
    assert_int_equal(task, 2 + 32);
    assert_int_equal(hosts_where(&at, 1), 1);
    machine_free(&at);
}

/* ---- Cohorts ---- */

GY_TEST(a_cohort_is_on_one_host)
{
    machine_job job = {0};
    machine at;
    machine_task(&job, (gy_sched_task){.stage = 1}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 1}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 0, .width = 2}, NULL);
    machine_tasks(&job, 4, (gy_sched_task){.stage = 1});
    hosts_pair(&at, &job, (gy_manager_options){.process_max = 4});
    assert_int_equal(hosts_where(&at, 0), 0);
    assert_int_equal(hosts_where(&at, 1), 1);
    /* Set aside: no host has two slots. */
    assert_true(gy_manager_wanted_at_once(at.manager) == 2);
    assert_int_equal(gy_manager_wanted(at.manager), 8);
    hosts_done(&at, 0, 10);
    assert_int_equal(hosts_where(&at, 3), 0); /* others go on */
    hosts_open(&at, 2, 1);
    assert_true(gy_manager_wanted_at_once(at.manager) == 0);
    assert_int_equal(machine_state(&at, 2), TASK_READY); /* one of the two is busy */
    assert_int_equal(at.manager->slots[2].load, 0);      /* and the other is reserved for it */
    hosts_done(&at, 3, 13);
    assert_int_equal(hosts_where(&at, 4), 0);
    hosts_done(&at, 1, 11);
    assert_int_equal(machine_state(&at, 2), TASK_RUNNING);
    assert_int_equal(at.manager->slots[machine_event(&at, 2, 0).process].host, 1);
    assert_int_equal(at.manager->slots[machine_event(&at, 2, 1).process].host, 1);
    machine_free(&at);
}

GY_TEST(one_that_is_too_wide_says_so)
{
    machine_job job = {0};
    machine at;
    machine_task(&job, (gy_sched_task){.width = 3}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 1}, NULL);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 6});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 0, .host = 0});
    machine_up(&at, 0);
    assert_int_equal(machine_state(&at, 1), TASK_RUNNING);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 1, .host = 0});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 2, .host = 1});
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 3);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 3, .host = 0});
    hosts_start(&at);
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 0);
    hosts_done(&at, 1, 11);
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    for (uint32_t member = 0; member < 3; member++) {
        assert_int_equal(at.manager->slots[machine_event(&at, 0, member).process].host, 0);
    }
    at.manager->noted_wait = GY_NONE;
    hosts_lose(&at, 0);
    assert_true(machine_noted(&at, "needs 3 processes on one host, but no host has more than "
                                   "1 slots for this job"));
    machine_free(&at);
}

/* ---- Failures ---- */

GY_TEST(what_failed_goes_elsewhere)
{
    static const char *const places[] = {"h0", "h1", "h0"};
    machine_job job = {0};
    machine at;
    machine_tasks(&job, 3, (gy_sched_task){.input_bytes = 100});
    job.growth.places = places;
    hosts_pair(&at, &job, (gy_manager_options){.process_max = 2});
    assert_int_equal(hosts_where(&at, 0), 0);
    assert_int_equal(hosts_where(&at, 1), 1);
    machine_fail(&at, 0, GY_CAUSE_OWN, 0);
    /* The other host is busy, so the task waits. */
    assert_int_equal(machine_state(&at, 0), TASK_READY);
    assert_int_equal(hosts_where(&at, 2), 0); /* but its old host need not be idle */
    hosts_done(&at, 1, 11);
    assert_int_equal(hosts_where(&at, 0), 1);
    machine_fail(&at, 0, GY_CAUSE_OWN, 0);
    assert_int_equal(machine_state(&at, 0), TASK_READY);
    hosts_lose(&at, 0); /* no other host is left */
    assert_int_equal(hosts_where(&at, 0), 1);
    machine_free(&at);
}

/* An output that a reader could not fetch from a live host is computed on another host. */
GY_TEST(what_cannot_be_fetched_is_made_elsewhere)
{
    machine_job job;
    machine at;
    machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
    hosts_pair(&at, &job, (gy_manager_options){.process_max = 2});
    hosts_done_bytes(&at, 0, 10, 1000);
    hosts_done_bytes(&at, 1, 11, 9000);
    assert_int_equal(hosts_where(&at, 2), 1);
    machine_fail(&at, 2, GY_CAUSE_LOST_INPUT, 0);
    assert_int_equal(hosts_where(&at, 0), 1);
    machine_free(&at);
}

/* Three of `count` tasks fail on host 0 and succeed on host 1. */
static void fail_three(machine *at, uint32_t first)
{
    for (uint32_t task = first; task < first + 3; task++) {
        assert_int_equal(hosts_where(at, task), 0);
        machine_fail(at, task, GY_CAUSE_OWN, 0);
        machine_done(at, task, task);
    }
}

static void begin_many(machine *at, machine_job *job, uint32_t count)
{
    *job = (machine_job){0};
    machine_tasks(job, count, (gy_sched_task){.stage = 0});
    hosts_new(at, job, (gy_manager_options){.process_max = 8, .threads = 30});
    hosts_open(at, 0, 0);
}

GY_TEST(a_bad_host_is_avoided)
{
    machine_job job;
    machine at;
    begin_many(&at, &job, 31);
    hosts_open(&at, 1, 1);
    hosts_open(&at, 2, 0);
    fail_three(&at, 0);
    const gy_effect *avoid = machine_reported(&at, GY_EFFECT_AVOID, 0);
    assert_non_null(avoid);
    assert_int_equal(avoid->host, 0);
    assert_true(machine_noted(&at, "3 tasks failed on host h0 (h0:7000) and succeeded"));
    hosts_done(&at, 3, 13); /* tasks that already run there may finish */
    assert_int_equal(machine_state(&at, 3), TASK_COMMITTED);
    machine_fail(&at, 4, GY_CAUSE_NEW_BAD_RECORD, 0);
    assert_int_equal(hosts_where(&at, 4), 1);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 5, .host = 0});
    assert_int_equal(machine_count(&at, GY_EFFECT_AVOID), 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 0);
    gy_host_state host;
    assert_true(gy_manager_host(at.manager, 0, &host));
    assert_true(host.is_avoided && host.is_up);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = 0});
    assert_int_equal(machine_count(&at, GY_EFFECT_END), 0);
    machine_free(&at);
}

/* An avoided host with the only slots that suffice is used again, and earlier failures no
 * longer count. */
GY_TEST(the_last_resort_is_pardoned)
{
    machine_job job = {0};
    machine at;
    for (uint32_t i = 0; i < 32; i++) {
        machine_task(&job, (gy_sched_task){.stage = 0, .width = i < 31 ? 1 : 2}, NULL);
    }
    hosts_pair(&at, &job, (gy_manager_options){.process_max = 8, .threads = 30});
    fail_three(&at, 0);
    assert_true(at.manager->hosts.rows[0].is_avoided);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = 0});
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 2); /* it is set aside */
    for (uint32_t process = 2; process < 4; process++) {
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN,
                                           .process = process,
                                           .host = 0,
                                           .is_last = true});
        assert_int_equal(machine_count(&at, GY_EFFECT_AVOID), 0);
        hosts_start(&at);
    }
    assert_int_equal(machine_state(&at, 31), TASK_RUNNING);
    assert_int_equal(hosts_where(&at, 31), 0);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
    assert_int_equal(machine_count(&at, GY_EFFECT_AVOID), 0);
    machine_free(&at);
}

/* Too little to avoid a host: two tasks, the same task three times, three tasks that fail
 * everywhere, or three among hundreds that succeeded. */
GY_TEST(others_are_not)
{
    for (int how = 0; how < 3; how++) {
        machine_job job;
        machine at;
        begin_many(&at, &job, 31);
        hosts_open(&at, 1, 1);
        if (how == 0) {
            for (uint32_t task = 0; task < 2; task++) {
                machine_fail(&at, task, GY_CAUSE_OWN, 0);
                machine_done(&at, task, task);
                assert_int_equal(machine_count(&at, GY_EFFECT_AVOID), 0);
            }
        } else if (how == 1) {
            for (uint32_t task = 0; task < 3; task++) {
                machine_fail(&at, task, GY_CAUSE_OWN, 0);
                machine_fail(&at, task, GY_CAUSE_OWN, 0);
                assert_int_equal(hosts_where(&at, task), 0);
                machine_done(&at, task, task); /* they succeed on host 0 after all */
            }
            assert_false(at.manager->hosts.rows[0].is_avoided);
        } else {
            at.manager->hosts.rows[0].done = 1000;
            fail_three(&at, 0);
            assert_false(at.manager->hosts.rows[0].is_avoided);
            fail_three(&at, 3);
            assert_true(at.manager->hosts.rows[0].is_avoided);
        }
        machine_free(&at);
    }
}

/* Long tasks count while they still run; the last host is never avoided. */
GY_TEST(running_elsewhere_counts)
{
    for (int is_alone = 0; is_alone < 2; is_alone++) {
        machine_job job;
        machine at;
        begin_many(&at, &job, 31);
        hosts_open(&at, 1, 1);
        for (uint32_t task = 0; task < 3; task++) {
            machine_fail(&at, task, GY_CAUSE_OWN, 0);
            assert_int_equal(hosts_where(&at, task), 1);
        }
        at.now_ns += 900000000;
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        assert_int_equal(machine_count(&at, GY_EFFECT_AVOID), 0);
        if (is_alone) { /* the other host is avoided by now, but its running tasks go on */
            at.manager->hosts.rows[1].is_avoided = true;
            gy_manager_heap_remove(at.manager, 1);
        }
        at.now_ns += 200000000;
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        assert_int_equal(machine_count(&at, GY_EFFECT_AVOID), is_alone ? 0 : 1);
        machine_free(&at);
    }
}

/* ---- Backup tasks and requests for slots ---- */

GY_TEST(copies_go_to_another_host)
{
    for (int has_other = 0; has_other < 2; has_other++) {
        machine_job job = {0};
        machine at;
        machine_tasks(&job, 5, (gy_sched_task){.stage = 0});
        hosts_new(&at, &job,
                  (gy_manager_options){.process_max = 3, .silence_ns = 100000000000});
        hosts_open(&at, 0, 0);
        hosts_open(&at, 1, 0);
        if (has_other) {
            hosts_open(&at, 2, 1);
        }
        at.now_ns += 1000;
        for (uint32_t task = 1; task < 5; task++) {
            gy_sched_event event = machine_done_event(&at, task, task);
            event.run_ns = 100000000;
            machine_tell(&at, event);
        }
        at.now_ns += 3000000000;
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        const gy_effect *copy = machine_reported(&at, GY_EFFECT_START, 0);
        assert_non_null(copy);
        assert_int_equal(copy->id.task, 0);
        assert_int_equal(at.manager->slots[copy->process].host, has_other ? 1 : 0);
        machine_free(&at);
    }
}

GY_TEST(slots_are_wanted_for_all_that_could_run)
{
    machine_job job;
    machine at;
    machine_fan(&job, 9, GY_OUTPUT_DETERMINISTIC);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 8, .threads = 2});
    assert_int_equal(gy_manager_wanted(at.manager), 5);
    hosts_open(&at, 0, 0);
    hosts_done(&at, 0, 10);
    assert_int_equal(gy_manager_wanted(at.manager), 4);
    for (uint32_t task = 1; task < 9; task++) {
        hosts_done(&at, task, 10 + task);
    }
    assert_int_equal(gy_manager_wanted(at.manager), 1);
    hosts_done(&at, 9, 99);
    assert_int_equal(gy_manager_wanted(at.manager), 0);
    machine_free(&at);
}

GY_TEST_MAIN(NULL, NULL)
