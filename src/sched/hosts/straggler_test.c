/* Goal: a straggler on one host has a backup task on another, even after all idle slots were
 * released: the manager requests slots on hosts that help, and starts processes there. A host
 * at a tenth of its speed makes a job of 40 tasks of 2 s less than 1.5 times as long. */
#include "sched/hosts/hosts_test.h"

enum { SLOTS = 8, TASKS = 40, SLOWER = 10 };
static const int64_t ms_ns = 1000000, task_ns = 2000000000, step_ns = 10000000;

static void done_after(machine *at, uint32_t task, int64_t run_ns)
{
    gy_sched_event event = machine_done_event(at, task, task);
    event.run_ns = run_ns;
    machine_tell(at, event);
}

static void tick(machine *at)
{
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_TIMER});
}

/* Five tasks: the first runs on host 0, slot 0; all others are done, slots 1 and 2 are closed.
 */
static void one_is_left(machine *at, uint32_t others)
{
    machine_job job = {0};
    machine_tasks(&job, 5, (gy_sched_task){.stage = 0});
    hosts_new(at, &job, (gy_manager_options){.process_max = 3, .silence_ns = 1000000000000});
    hosts_open(at, 0, 0);
    hosts_open(at, 1, others);
    hosts_open(at, 2, others);
    at->now_ns += 1000;
    for (uint32_t task = 1; task < 5; task++) {
        done_after(at, task, 100 * ms_ns);
    }
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = 1});
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = 2});
    assert_int_equal(gy_manager_wanted(at->manager), 1);
}

GY_TEST(what_is_late_wants_a_slot_elsewhere)
{
    machine at;
    gy_wanted_where where;
    one_is_left(&at, 1);
    assert_int_equal(gy_manager_unwanted(at.manager), GY_NONE);
    at.now_ns += 1500 * ms_ns;
    tick(&at);
    assert_int_equal(gy_manager_wanted(at.manager), 2);
    assert_int_equal(gy_manager_unwanted(at.manager), 0);
    gy_manager_wanted_where(at.manager, &where);
    assert_int_equal(where.count, 1);
    assert_string_equal(where.hosts[0], "h1");
    assert_true(where.must == 0 && !where.is_limited);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 1, .host = 0});
    /* A backup task on the same host would be as slow. */
    assert_null(machine_reported(&at, GY_EFFECT_SPAWN, 0));
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 2, .host = 1});
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 1);
    machine_up(&at, 2);
    const gy_effect *wake = machine_reported(&at, GY_EFFECT_TIMER, 0);
    assert_non_null(wake);
    assert_true(wake->at_ns <= at.now_ns);
    tick(&at);
    const gy_effect *copy = machine_reported(&at, GY_EFFECT_START, 0);
    assert_non_null(copy);
    assert_true(copy->id.task == 0 && copy->process == 2);
    tick(&at);
    assert_int_equal(gy_manager_wanted(at.manager), 2); /* both runs */
    assert_int_equal(gy_manager_unwanted(at.manager), GY_NONE);
    gy_manager_wanted_where(at.manager, &where);
    assert_int_equal(where.count, 0);
    machine_free(&at);
}

/* On a cluster of one host a straggler has a backup task on the same host. */
GY_TEST(the_only_host_will_do)
{
    machine at;
    one_is_left(&at, 0);
    hosts_lose(&at, 1);
    at.now_ns += 1500 * ms_ns;
    tick(&at);
    assert_int_equal(gy_manager_wanted(at.manager), 2);
    assert_int_equal(gy_manager_unwanted(at.manager), GY_NONE);
    hosts_open(&at, 1, 0);
    tick(&at);
    assert_non_null(machine_reported(&at, GY_EFFECT_START, 0));
    machine_free(&at);
}

/* Cohorts of two: the first runs on host 0, slots 0 and 1; all others are done. */
GY_TEST(a_late_cohort_wants_slots_together_elsewhere)
{
    machine at;
    machine_job job = {0};
    gy_wanted_where where;
    machine_tasks(&job, 5, (gy_sched_task){.stage = 0, .width = 2});
    hosts_new(&at, &job, (gy_manager_options){.process_max = 6, .silence_ns = 1000000000000});
    for (uint32_t process = 0; process < 4; process++) {
        hosts_open(&at, process, process / 2);
    }
    at.now_ns += 1000;
    for (uint32_t task = 1; task < 5; task++) {
        for (uint32_t member = 0; member < 2; member++) {
            gy_sched_event event = machine_event(&at, task, member);
            event.kind = GY_EVENT_DONE;
            event.run_ns = 100 * ms_ns;
            machine_tell(&at, event);
        }
    }
    for (uint32_t process = 2; process < 4; process++) {
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = process});
    }
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 0);
    at.now_ns += 1500 * ms_ns;
    tick(&at);
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 2);
    assert_int_equal(gy_manager_wanted_not_at(at.manager), 1); /* daemon of host 0 */
    assert_int_equal(gy_manager_unwanted(at.manager), 0);
    gy_manager_wanted_where(at.manager, &where);
    assert_true(where.must == 0 && !where.is_limited);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 2, .host = 0});
    /* A backup task on the same host would be as slow. */
    assert_null(machine_reported(&at, GY_EFFECT_SPAWN, 0));
    for (uint32_t process = 3; process < 5; process++) {
        machine_tell(
            &at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = process, .host = 1});
        assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 1);
    }
    for (uint32_t process = 3; process < 5; process++) {
        machine_up(&at, process);
        const gy_effect *wake = machine_reported(&at, GY_EFFECT_TIMER, 0);
        assert_non_null(wake);
        assert_true(wake->at_ns <= at.now_ns);
        tick(&at);
        assert_int_equal(machine_count(&at, GY_EFFECT_START), process == 3 ? 0 : 2);
    }
    const gy_effect *copy = machine_reported(&at, GY_EFFECT_START, 0);
    assert_true(copy->id.task == 0 && copy->process >= 3);
    tick(&at);
    assert_int_equal(gy_manager_wanted_at_once(at.manager), 0);
    assert_int_equal(gy_manager_wanted_not_at(at.manager), 0);
    machine_free(&at);
}

/* A run is a straggler at 1.25 times the expected time if nothing waits, else at 1.5 times. */
GY_TEST(it_is_late_sooner_where_nothing_waits)
{
    for (uint32_t waiting = 0; waiting < 2; waiting++) {
        machine_job job = {0};
        machine at;
        for (uint32_t i = 0; i < 12 + 2 * waiting; i++) {
            machine_task(&job, (gy_sched_task){.stage = i < 12 ? 0 : 1}, NULL);
        }
        hosts_pair(&at, &job,
                   (gy_manager_options){.process_max = 2, .silence_ns = 1000000000000});
        at.now_ns += 1000;
        for (uint32_t task = 1; task < 12; task++) {
            done_after(&at, task, task_ns);
        } /* now a task of the other stage runs there and one waits, or the process is idle */
        const int64_t late_ns = task_ns / 4 * (waiting == 0 ? 5 : 6);
        at.now_ns += late_ns - 1000 - 100 * ms_ns + 1;
        tick(&at);
        assert_null(machine_reported(&at, GY_EFFECT_START, 0));
        assert_int_equal(gy_manager_wanted(at.manager), 1 + 2 * waiting);
        const gy_effect *wake = machine_reported(&at, GY_EFFECT_TIMER, 0);
        assert_non_null(wake);
        assert_true(wake->at_ns <= at.now_ns + 100 * ms_ns);
        at.now_ns += 100 * ms_ns;
        tick(&at);
        assert_int_equal(machine_count(&at, GY_EFFECT_START), waiting == 0);
        assert_int_equal(gy_manager_wanted(at.manager), 2 + 2 * waiting);
        machine_free(&at);
    }
}

/* ---- A cluster that lends and takes back slots ---- */

typedef struct lent_slot {
    uint32_t host;
    bool is_open, is_cancelled;
    gy_effect start;
    int64_t done_ns;       /* 0: nothing runs */
    int64_t up_ns;         /* when its process is ready; 0: none is starting */
    int64_t allocation_ns; /* a closed slot: when it was requested; 0: it was not */
} lent_slot;

typedef struct model {
    machine at;
    lent_slot placements[SLOTS];
    uint32_t slow;   /* the slow host; GY_NONE: none */
    int64_t task_ns; /* duration of a task on a healthy host */
    int64_t idle_ns;
    int cancelled, given;
} model;

static void take(model *all)
{
    machine *at = &all->at;
    for (size_t i = 0; i < at->said.count; i++) {
        const gy_effect *effect = &at->said.items[i];
        if (effect->process >= SLOTS) { /* this effect names no slot */
            continue;
        }
        lent_slot *lent = &all->placements[effect->process];
        if (effect->kind == GY_EFFECT_SPAWN) {
            lent->up_ns = at->now_ns + 20 * ms_ns;
        } else if (effect->kind == GY_EFFECT_START) {
            assert_int_equal(lent->done_ns, 0);
            lent->start = *effect;
            lent->is_cancelled = false;
            lent->done_ns = at->now_ns + all->task_ns * (lent->host == all->slow ? SLOWER : 1);
        } else if (effect->kind == GY_EFFECT_CANCEL) {
            lent->is_cancelled = true;
            lent->done_ns = at->now_ns + step_ns;
            all->cancelled++;
        }
    }
}

static void say(model *all, gy_sched_event event)
{
    machine_tell(&all->at, event);
    take(all);
}

static void check_placement(model *all, uint32_t process)
{
    lent_slot *lent = &all->placements[process];
    const int64_t now_ns = all->at.now_ns;
    const uint32_t generation = all->at.manager->slots[process].generation;
    if (!lent->is_open) {
        return;
    }
    if (lent->up_ns > 0 && lent->up_ns <= now_ns) {
        lent->up_ns = 0;
        say(all, (gy_sched_event){.kind = GY_EVENT_PROCESS_UP,
                                  .process = process,
                                  .generation = generation});
    }
    say(all,
        (gy_sched_event){.kind = GY_EVENT_HEARD, .process = process, .generation = generation});
    if (lent->done_ns > 0 && lent->done_ns <= now_ns) {
        lent->done_ns = 0;
        say(all,
            (gy_sched_event){.kind = lent->is_cancelled ? GY_EVENT_FAILED : GY_EVENT_DONE,
                             .cause = lent->is_cancelled ? GY_CAUSE_CANCELLED : GY_CAUSE_NONE,
                             .id = lent->start.id,
                             .process = process,
                             .generation = generation,
                             .content = {.low = lent->start.id.task},
                             .run_ns = all->task_ns});
    }
}

/* Idle slots are released after a second; a requested slot opens 20 ms later. */
static void rent(model *all)
{
    const uint32_t wanted = gy_manager_wanted(all->at.manager);
    uint32_t open = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        open += all->placements[i].is_open;
    }
    all->idle_ns = wanted >= open ? all->at.now_ns : all->idle_ns;
    for (uint32_t i = SLOTS; i-- > 0;) {
        lent_slot *lent = &all->placements[i];
        if (lent->is_open && lent->done_ns == 0 && open > GY_MAX(wanted, 1u) &&
            all->at.now_ns - all->idle_ns >= 1000 * ms_ns) {
            *lent = (lent_slot){.host = lent->host};
            open--;
            all->given++;
            say(all, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = i});
        } else if (!lent->is_open && lent->host < 3 && open < wanted) {
            lent->allocation_ns =
                lent->allocation_ns == 0 ? all->at.now_ns : lent->allocation_ns;
            open++;
            if (all->at.now_ns - lent->allocation_ns >= 20 * ms_ns) {
                lent->is_open = true;
                say(all, (gy_sched_event){
                             .kind = GY_EVENT_SLOT_OPEN, .process = i, .host = lent->host});
            }
        }
    }
}

/* The job's duration in seconds. hosts: (SLOTS) the host of each slot; above 2: the slot does
 * not exist. */
static double run_job(model *all, const uint32_t *hosts, gy_stage_state *stage)
{
    machine_job job = {0};
    *all = (model){.slow = all->slow, .task_ns = all->task_ns};
    machine_tasks(&job, TASKS, (gy_sched_task){.stage = 0});
    hosts_new(&all->at, &job, (gy_manager_options){.process_max = SLOTS});
    hosts_up(&all->at, 2);
    for (uint32_t i = 0; i < SLOTS; i++) {
        all->placements[i] = (lent_slot){.host = hosts[i], .is_open = hosts[i] < 3};
        if (hosts[i] < 3) {
            say(all,
                (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = i, .host = hosts[i]});
        }
    }
    const int64_t begun_ns = all->at.now_ns;
    while (all->at.manager->phase == PHASE_RUNNING) {
        all->at.now_ns += step_ns;
        assert_true(all->at.now_ns - begun_ns < 100 * all->task_ns);
        for (uint32_t i = 0; i < SLOTS; i++) {
            check_placement(all, i);
        }
        if (all->at.manager->timer_ns <= all->at.now_ns) {
            say(all, (gy_sched_event){.kind = GY_EVENT_TIMER});
        }
        rent(all);
    }
    const double seconds = (double)(all->at.now_ns - begun_ns) / 1e9;
    gy_manager_stage(all->at.manager, 0, stage);
    machine_free(&all->at);
    return seconds;
}

GY_TEST(a_slow_host_costs_little)
{
    /* The slow host has a quarter of the slots, a third, and one of five. */
    static const uint32_t layouts[][SLOTS] = {
        {0, 0, 1, 1, 1, 2, 2, 2}, {0, 0, 1, 1, 2, 2, 9, 9}, {0, 1, 1, 2, 2, 9, 9, 9}};
    static model all;
    for (size_t i = 0; i < 2 * GY_COUNT(layouts); i++) {
        const bool is_long = i % 2 == 1;
        gy_stage_state healthy, slow;
        all.task_ns = is_long ? 10 * task_ns : task_ns;
        all.slow = GY_NONE;
        const double alone = run_job(&all, layouts[i / 2], &healthy);
        assert_int_equal(healthy.copies, 0);
        all.slow = 0;
        const double disturbed = run_job(&all, layouts[i / 2], &slow);
        printf("healthy %.2f s, host 0 at a tenth %.2f s: %.2f times, %u copies, %u won, %d "
               "slots went back\n",
               alone, disturbed, disturbed / alone, slow.copies, slow.backups_won, all.given);
        assert_true(slow.backups_won >= 1 && all.cancelled >= 1);
        assert_int_equal(slow.failed, 0);
        assert_true(disturbed <= 1.5 * alone);
        assert_true(!is_long || i > 1 || all.given > 0);
    }
}

GY_TEST_MAIN(NULL, NULL)
