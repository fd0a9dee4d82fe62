/* Goal: tasks pinned to hosts run there and nowhere else, whatever fails or is busy; other
 * tasks go on meanwhile; requests for slots name these hosts, and a task whose hosts do not
 * exist is reported. */
#include "sched/hosts/hosts_test.h"

/* Tasks of one member over places, pinned where `pinned` says. */
static void tasks_at(machine_job *job, const char *const *places, const bool *pinned, int count)
{
    *job = (machine_job){0};
    for (int i = 0; i < count; i++) {
        machine_task(
            job, (gy_sched_task){.input_bytes = 100, .flags = pinned[i] ? GY_TASK_PINNED : 0},
            NULL);
    }
    job->growth.places = places;
}

GY_TEST(they_wait_while_others_run)
{
    static const char *const places[] = {"h1", "h1", "h1", NULL, NULL, "h0 h2"};
    static const bool pinned[] = {true, true, true, false, false, true};
    machine_job job;
    machine at;
    tasks_at(&job, places, pinned, 6);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 3});
    hosts_open(&at, 0, 0);
    assert_int_equal(hosts_where(&at, 5), 0); /* before task 3, which may run anywhere */
    for (uint32_t task = 0; task < 5; task++) {
        assert_int_equal(machine_state(&at, task), TASK_READY);
    }
    hosts_done(&at, 5, 5);
    assert_int_equal(hosts_where(&at, 3), 0);
    hosts_open(&at, 1, 1);
    assert_int_equal(hosts_where(&at, 0), 1);
    hosts_done(&at, 3, 3);
    assert_int_equal(hosts_where(&at, 4), 0);
    hosts_done(&at, 4, 4);
    assert_int_equal(machine_state(&at, 1), TASK_READY); /* host 0 idles */
    hosts_done(&at, 0, 10);
    assert_int_equal(hosts_where(&at, 1), 1);
    hosts_lose(&at, 1); /* one in flight, and one committed that no task reads any more */
    assert_int_equal(machine_state(&at, 1), TASK_READY);
    hosts_up(&at, 1);
    hosts_open(&at, 2, 1);
    assert_int_equal(hosts_where(&at, 2), 1); /* it is older than the task that runs again */
    hosts_done(&at, 2, 12);
    assert_int_equal(hosts_where(&at, 1), 1);
    hosts_done(&at, 1, 11);
    uint32_t near = 0, far = 0;
    gy_manager_placed(at.manager, &near, &far);
    assert_int_equal(near, 5); /* one of them ran twice */
    assert_int_equal(far, 0);
    machine_free(&at);
}

GY_TEST(a_failure_goes_to_the_other_place)
{
    static const char *const places[] = {"h0 h1", "h1"};
    static const bool pinned[] = {true, true};
    machine_job job;
    machine at;
    tasks_at(&job, places, pinned, 2);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 3});
    hosts_open(&at, 0, 0);
    assert_int_equal(hosts_where(&at, 0), 0);
    machine_fail(&at, 0, GY_CAUSE_OWN, 0);
    /* None of its other places has slots. */
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    assert_int_equal(hosts_where(&at, 0), 0);
    hosts_open(&at, 2, 1);
    hosts_done(&at, 1, 1);
    machine_fail(&at, 0, GY_CAUSE_OWN, 0);
    assert_int_equal(hosts_where(&at, 0), 1);
    machine_free(&at);
}

/* Three tasks that fail on a host and succeed on another do not block it for tasks that have no
 * other place. */
GY_TEST(their_host_is_not_avoided)
{
    static const char *const places[] = {NULL, NULL, NULL, "h0", NULL};
    static const bool both[2][5] = {{false}, {false, false, false, true, false}};
    for (int has_pinned = 0; has_pinned < 2; has_pinned++) {
        machine_job job;
        machine at;
        /* Of the tasks without a place three have a slot on this host, one on the other. */
        const uint32_t slots = has_pinned == 0 ? 3 : 4, count = slots + 1;
        tasks_at(&job, places, both[has_pinned], (int)count);
        hosts_new(&at, &job, (gy_manager_options){.process_max = count, .backup_floor_ns = -1});
        for (uint32_t i = 0; i < slots; i++) {
            hosts_open(&at, i, 0);
        }
        hosts_open(&at, slots, 1);
        for (uint32_t task = 0; task < count; task++) {
            at.now_ns += 1000000;
            for (int i = 0; i < 2 && machine_state(&at, task) == TASK_RUNNING &&
                            hosts_where(&at, task) == 0 && !both[has_pinned][task];
                 i++) {
                machine_fail(&at, task, GY_CAUSE_OWN, 0);
            }
        }
        for (int round = 0; round < 8; round++) {
            for (uint32_t task = 0; task < count; task++) {
                if (machine_state(&at, task) == TASK_RUNNING && hosts_where(&at, task) == 1) {
                    hosts_done(&at, task, task);
                }
            }
        }
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        gy_host_state said;
        assert_true(gy_manager_host(at.manager, 0, &said));
        assert_int_equal(said.is_avoided, has_pinned == 0);
        machine_free(&at);
    }
}

GY_TEST(requests_say_where)
{
    static const char *const places[] = {"h1 h3", "h3", NULL, "h9", "h9", "h1", "h1"};
    static const bool pinned[] = {false, false, false, true, true, false, false};
    machine_job job;
    machine at;
    gy_wanted_where where;
    tasks_at(&job, places, pinned, 7);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 4});
    gy_manager_wanted_where(at.manager, &where);
    assert_int_equal(where.count, 3);
    assert_int_equal(where.must, 1);
    assert_string_equal(where.hosts[0], "h9"); /* since two tasks can run nowhere else */
    assert_string_equal(where.hosts[1], "h1");
    assert_string_equal(where.hosts[2], "h3");
    assert_true(where.is_limited);
    assert_int_equal(where.elsewhere, 5);
    assert_int_equal(gy_manager_wanted(at.manager), 7);
    static const char *const gone[] = {"h1", "h9"};
    assert_int_equal(gy_manager_stranded(at.manager, gone, 1), GY_NONE);
    assert_int_equal(gy_manager_stranded(at.manager, gone, 2), 3);
    machine_tell(
        &at, (gy_sched_event){
                 .kind = GY_EVENT_HOST_UP, .host = 3, .host_id = {9, 9}, .address = "h9:1"});
    hosts_open(&at, 0, 3);
    assert_int_equal(gy_manager_stranded(at.manager, gone, 2), GY_NONE);
    gy_manager_wanted_where(at.manager, &where);
    assert_int_equal(where.elsewhere, 5); /* the running one is already on its place */
    hosts_done(&at, 3, 3);
    gy_manager_wanted_where(at.manager, &where);
    assert_false(where.is_limited);
    assert_int_equal(where.must, 0);
    assert_int_equal(where.count, 2);
    machine_free(&at);
}

/* Processes start on hosts that have work for them. */
GY_TEST(processes_start_where_they_are_needed)
{
    static const char *const places[] = {"h1"};
    static const bool pinned[] = {true};
    machine_job job;
    machine at;
    tasks_at(&job, places, pinned, 1);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 2});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 0, .host = 0});
    assert_null(machine_reported(&at, GY_EFFECT_SPAWN, 0));
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 1, .host = 1});
    assert_int_equal(machine_reported(&at, GY_EFFECT_SPAWN, 0)->process, 1);
    machine_up(&at, 1);
    assert_int_equal(hosts_where(&at, 0), 1);
    machine_free(&at);
}

GY_TEST(what_cannot_be_pinned_is_refused)
{
    static const char *const none[] = {" "}, *const some[] = {"h0"};
    static const struct {
        const char *const *places;
        uint16_t width;
        uint32_t hosts;
    } rows[] = {{NULL, 1, 4}, {none, 1, 4}, {some, 2, 4}, {some, 1, 0}};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        machine_job job = {0};
        gy_manager *manager = NULL;
        machine_task(&job, (gy_sched_task){.flags = GY_TASK_PINNED, .width = rows[i].width},
                     NULL);
        job.growth.places = rows[i].places;
        const gy_manager_options options = {.stages = machine_stages,
                                            .stage_count = MACHINE_STAGES,
                                            .process_max = 4,
                                            .host_max = rows[i].hosts};
        assert_int_equal(gy_manager_new(&options, &job.growth, &manager), GY_ARG);
    }
}

GY_TEST_MAIN(NULL, NULL)
