/* Goal: a gang over hosts starts with equally many members on each of them or not at all,
 * reports what it waits for, and starts again elsewhere, whole, when one of its hosts is lost.
 */
#include "sched/hosts/hosts_test.h"

static uint32_t host_of(const machine *at, uint32_t task, uint32_t member)
{
    return at->manager->slots[machine_event(at, task, member).process].host;
}

static gy_sched_task gang(uint16_t width, uint32_t hosts)
{
    return (gy_sched_task){.width = width,
                           .hosts = hosts,
                           .determinism = GY_OUTPUT_INDETERMINATE,
                           .flags = GY_TASK_EXACT};
}

/* Three hosts that the journal has synced: an exact task starts on no other. */
static void begin(machine *at, const machine_job *job, gy_manager_options options)
{
    hosts_new(at, job, options);
    hosts_up(at, 2);
    machine_synced(at);
}

GY_TEST(as_many_on_each)
{
    machine_job job = {0};
    machine at;
    machine_task(&job, gang(4, 2), NULL);
    machine_task(&job, (gy_sched_task){.stage = 1}, NULL);
    begin(&at, &job, (gy_manager_options){.process_max = 6});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 0, .host = 0});
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 4);
    assert_int_equal(gy_manager_wanted_hosts(at.manager), 2);
    hosts_start(&at);
    assert_int_equal(machine_state(&at, 1), TASK_RUNNING); /* the younger task starts */
    hosts_done(&at, 1, 11);
    hosts_open(&at, 1, 1);
    hosts_open(&at, 2, 2);
    hosts_open(&at, 3, 2); /* four slots, but only one host has two */
    assert_int_equal(machine_state(&at, 0), TASK_READY);
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 4);
    hosts_open(&at, 4, 0);
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 0);
    const uint32_t first = host_of(&at, 0, 0), second = host_of(&at, 0, 2);
    assert_true(first != second && first != 1 && second != 1);
    assert_int_equal(host_of(&at, 0, 1), first);
    assert_int_equal(host_of(&at, 0, 3), second);
    for (uint32_t member = 0; member < 4; member++) {
        gy_sched_event done = machine_event(&at, 0, member);
        done.kind = GY_EVENT_DONE;
        machine_tell(&at, done);
    }
    assert_int_equal(machine_state(&at, 0), TASK_COMMITTED);
    machine_free(&at);
}

/* Its hosts have enough slots, but one is busy: the gang waits and nothing younger starts
 * first. */
GY_TEST(all_or_none)
{
    machine_job job = {0};
    machine at;
    machine_task(&job, (gy_sched_task){.stage = 1}, NULL);
    machine_task(&job, gang(2, 2), NULL);
    machine_task(&job, (gy_sched_task){.stage = 1}, NULL);
    begin(&at, &job, (gy_manager_options){.process_max = 2});
    hosts_open(&at, 0, 0);
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    hosts_open(&at, 1, 1);
    assert_int_equal(machine_state(&at, 1), TASK_READY);
    assert_int_equal(at.manager->slots[1].load, 0);
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 0);
    hosts_done(&at, 0, 10);
    assert_int_equal(machine_state(&at, 1), TASK_RUNNING);
    assert_int_equal(machine_state(&at, 2), TASK_READY);
    machine_free(&at);
}

GY_TEST(goes_elsewhere_whole)
{
    enum { LEASE = 1000 };
    machine_job job = {0};
    machine at;
    machine_task(&job, gang(2, 2), NULL);
    begin(&at, &job, (gy_manager_options){.process_max = 3, .lease_ns = LEASE});
    hosts_open(&at, 0, 0);
    hosts_open(&at, 1, 1);
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    const gy_sched_event other = machine_event(&at, 0, 0);
    hosts_lose(&at, 1);
    assert_non_null(
        machine_reported(&at, GY_EFFECT_CANCEL, 0)); /* the other half is cancelled */
    assert_int_equal(machine_reported(&at, GY_EFFECT_CANCEL, 0)->member, 0);
    hosts_open(&at, 2, 2);
    gy_sched_event cancelled = other;
    cancelled.kind = GY_EVENT_FAILED;
    cancelled.cause = GY_CAUSE_CANCELLED;
    machine_tell(&at, cancelled);
    hosts_start(&at);
    /* Ranks on the lost host may still run. */
    assert_int_equal(machine_state(&at, 0), TASK_WAITING);
    at.now_ns += LEASE + 1;
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
    hosts_start(&at);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 2);
    assert_true(host_of(&at, 0, 0) != 1 && host_of(&at, 0, 1) != 1);
    assert_true(host_of(&at, 0, 0) != host_of(&at, 0, 1));
    assert_int_equal(at.manager->rows[0].failures, 0);
    machine_free(&at);
}

GY_TEST(what_cannot_be_is_refused)
{
    gy_sched_task wrong[3] = {gang(3, 2), gang(4, 2), gang(4, 2)};
    wrong[1].flags = 0; /* without this flag it could have a backup task */
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        machine_job job = {0};
        gy_manager *manager = NULL;
        machine_task(&job, wrong[i], NULL);
        const gy_manager_options options = {.stages = machine_stages,
                                            .stage_count = MACHINE_STAGES,
                                            .process_max = 8,
                                            .host_max = i == 2 ? 0 : 4};
        assert_status(gy_manager_new(&options, &job.growth, &manager), GY_ARG);
        gy_manager_free(manager);
    }
}

GY_TEST_MAIN(NULL, NULL)
