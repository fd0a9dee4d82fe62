/* Goal: outputs on a lost host are computed again if a task needs them and otherwise not; what
 * a journal records about a host counts once that host is up again; slots that come and go
 * count as no failure; exact tasks wait for processes that cannot be reached. */
#include "sched/hosts/hosts_test.h"
#include "sched/state/records.h"

/* The chain a -> b -> c. a is committed on host 1, which has no slot any more; b on host 0,
 * where c runs. */
static void begin_chain(machine *at, gy_determinism first)
{
    static const uint32_t a[] = {0}, b[] = {1};
    machine_job job = {0};
    machine_task(&job, (gy_sched_task){.determinism = (uint8_t)first}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 1, .input_count = 1}, a);
    machine_task(&job, (gy_sched_task){.stage = 3, .input_count = 1}, b);
    hosts_new(at, &job, (gy_manager_options){.process_max = 2});
    hosts_open(at, 1, 1);
    hosts_done(at, 0, 10);
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = 1});
    hosts_open(at, 0, 0);
    hosts_done(at, 1, 11);
    assert_int_equal(machine_state(at, 2), TASK_RUNNING);
}

static uint32_t host_of(const machine *at, uint32_t task)
{
    gy_sched_task_state state;
    gy_manager_task(at->manager, task, &state);
    return state.host;
}

GY_TEST(a_lost_host_takes_what_is_needed)
{
    machine_job job;
    machine at;
    machine_fan(&job, 4, GY_OUTPUT_DETERMINISTIC);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 4});
    for (uint32_t i = 0; i < 4; i++) {
        hosts_open(&at, i, i / 2);
    }
    for (uint32_t task = 0; task < 3; task++) { /* 0 and 1 on host 0, 2 on host 1 */
        hosts_done(&at, task, 10 + task);
    }
    gy_host_state host;
    assert_true(gy_manager_host(at.manager, 0, &host));
    assert_true(host.is_up && host.held == 2 && host.slots == 2);
    assert_string_equal(host.address, "h0:7000");
    assert_string_equal(host.name, "h0");
    hosts_lose(&at, 0);
    assert_true(machine_noted(&at, "lost with host h0 (h0:7000)"));
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING); /* on host 1's free slot */
    assert_int_equal(machine_state(&at, 1), TASK_READY);
    assert_int_equal(machine_state(&at, 2), TASK_COMMITTED);
    assert_int_equal(machine_state(&at, 3), TASK_RUNNING);
    assert_int_equal(at.manager->rows[0].epoch, 1);
    assert_int_equal(at.manager->rows[0].failures, 0);
    assert_true(gy_manager_host(at.manager, 0, &host));
    assert_true(!host.is_up && !host.is_expected && host.held == 0 && host.slots == 0);
    hosts_lose(&at, 0); /* a second loss of the same host has no effect */
    assert_int_equal(at.said.count, 0);
    machine_free(&at);
}

/* What runs on the lost host is lost too, but counts as nobody's failure. */
GY_TEST(what_runs_on_it_is_not_counted)
{
    machine_job job;
    machine at;
    machine_fan(&job, 3, GY_OUTPUT_DETERMINISTIC);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 3, .failures_max = 1});
    hosts_open(&at, 0, 0);
    hosts_open(&at, 1, 0);
    hosts_open(&at, 2, 1);
    const gy_sched_event late = machine_done_event(&at, 0, 10);
    hosts_lose(&at, 0);
    assert_int_equal(machine_count(&at, GY_EFFECT_END), 0);
    assert_int_equal(machine_count(&at, GY_EFFECT_DISCARD), 2);
    assert_int_equal(machine_reported(&at, GY_EFFECT_DISCARD, 0)->host, 0);
    assert_int_equal(machine_state(&at, 0), TASK_READY);
    assert_int_equal(at.manager->rows[0].failures, 0);
    machine_tell(&at, late); /* it finished, but its output cannot be fetched */
    assert_int_equal(at.manager->committed_count, 0);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = 2});
    assert_int_equal(machine_count(&at, GY_EFFECT_END), 0);
    assert_int_equal(machine_state(&at, 2), TASK_READY);
    hosts_open(&at, 2, 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 1);
    machine_free(&at);
}

/* b has read a, so a stays lost; when b is lost too, both run again at once, by one record. */
GY_TEST(what_nobody_needs_waits_for_its_reader)
{
    static const gy_determinism levels[] = {GY_OUTPUT_DETERMINISTIC, GY_OUTPUT_INDETERMINATE};
    for (size_t i = 0; i < GY_COUNT(levels); i++) {
        machine at;
        begin_chain(&at, levels[i]);
        assert_int_equal(host_of(&at, 0), 1);
        assert_int_equal(host_of(&at, 1), 0);
        hosts_lose(&at, 1);
        assert_int_equal(machine_state(&at, 0), TASK_COMMITTED);
        assert_int_equal(machine_count(&at, GY_EFFECT_APPEND), 0);
        machine_fail(&at, 2, GY_CAUSE_LOST_INPUT, 0);
        assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
        assert_int_equal(machine_state(&at, 1), TASK_WAITING);
        assert_int_equal(machine_count(&at, GY_EFFECT_APPEND), 1);
        assert_int_equal(machine_reported(&at, GY_EFFECT_APPEND, 0)->size_bytes,
                         sizeof(record_head) + 2 * sizeof(record_raise));
        assert_true(machine_noted(&at, "the output was on host h1 (h1:7001), which is lost"));
        machine_free(&at);
    }
}

GY_TEST(it_may_come_again)
{
    machine at;
    begin_chain(&at, GY_OUTPUT_DETERMINISTIC);
    hosts_lose(&at, 1);
    uint64_t before = at.journal_bytes;
    hosts_up(&at, 1);
    assert_int_equal(at.journal_bytes, before); /* nothing new */
    machine_fail(&at, 2, GY_CAUSE_LOST_INPUT, 0);
    assert_int_equal(machine_state(&at, 0), TASK_COMMITTED); /* a's output is available again */
    assert_int_equal(machine_state(&at, 1), TASK_RUNNING);
    hosts_lose(&at, 1); /* now it is needed */
    assert_int_equal(machine_state(&at, 0), TASK_READY);
    assert_int_equal(at.manager->rows[0].epoch, 1);
    hosts_done(&at, 1, 11); /* it had already read its input */
    assert_int_equal(machine_state(&at, 1), TASK_COMMITTED);
    machine_free(&at);
}

/* Refinement adds a reader of an output on a lost host that nothing needed until then. */
GY_TEST(growth_may_need_it)
{
    static const uint32_t a[] = {0};
    static const gy_edge edges[] = {{.from = 0}};
    const gy_sched_task added[] = {
        {.stage = 3, .width = 1, .input_count = 1, .output_count = 1}};
    const gy_growth growth = {.tasks = added, .task_count = 1, .edges = edges, .edge_count = 1};
    machine_job job = {0};
    machine at;
    machine_task(&job, (gy_sched_task){.stage = 0}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 2, .input_count = 1}, a);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 2});
    hosts_open(&at, 0, 0);
    hosts_done(&at, 0, 10);
    hosts_open(&at, 1, 1);
    hosts_done(&at, 1, 11);
    hosts_lose(&at, 0);
    assert_int_equal(at.manager->committed_count, 2);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_GROWN, .stage = 2, .growth = &growth});
    assert_int_equal(at.manager->committed_count, 1);
    machine_synced(&at);
    hosts_start(&at);
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    assert_int_equal(machine_state(&at, 2), TASK_WAITING);
    hosts_done(&at, 0, 10);
    assert_int_equal(machine_state(&at, 2), TASK_RUNNING);
    machine_free(&at);
}

/* ---- The next manager ---- */

static void resume(machine *next, const machine_job *job, const machine *at)
{
    size_t used = 0;
    *next = (machine){.now_ns = at->now_ns};
    const gy_manager_options options = {.stages = machine_stages,
                                        .stage_count = MACHINE_STAGES,
                                        .process_max = 4,
                                        .host_max = 4,
                                        .lease_ns = 5000};
    assert_ok(gy_manager_new(&options, &job->growth, &next->manager));
    assert_ok(gy_manager_replay(next->manager, at->journal, at->journal_bytes, &used));
    memcpy(next->journal, at->journal, used);
    next->journal_bytes = used;
}

static void end(machine *at)
{
    gy_manager_free(at->manager);
    gy_free(at->said.items);
}

/* Two tasks committed on two hosts; their reader waits until the state of both hosts is known.
 */
GY_TEST(a_journal_expects_its_hosts)
{
    machine_job job;
    machine at, next;
    machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
    hosts_pair(&at, &job, (gy_manager_options){.process_max = 4});
    hosts_done(&at, 0, 10);
    hosts_done(&at, 1, 11);
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        gy_host_state host;
        resume(&next, &job, &at);
        assert_true(gy_manager_host(next.manager, 1, &host));
        assert_true(host.is_expected && !host.is_up && host.held == 1);
        assert_string_equal(host.address, "h1:7001");
        assert_true(memcmp(&host.id, &(gy_key){2, 1}, sizeof(gy_key)) == 0);
        assert_false(gy_manager_host(next.manager, 2, &host));
        machine_begin(&next);
        assert_int_equal(machine_state(&next, 2), TASK_WAITING);
        assert_int_equal(gy_manager_wanted(next.manager), 0);
        hosts_up(&next, 0);
        hosts_open(&next, 0, 0);
        assert_int_equal(machine_state(&next, 2), TASK_WAITING);
        if (is_lost) {
            hosts_lose(&next, 1);
            assert_int_equal(machine_state(&next, 1), TASK_READY);
            hosts_open(&next, 1, 0);
            hosts_done(&next, 1, 11);
        } else {
            hosts_up(&next, 1);
            hosts_open(&next, 0, 0);
            assert_int_equal(next.manager->committed_count, 2);
        }
        assert_int_equal(machine_state(&next, 2), TASK_RUNNING);
        end(&next);
    }
    machine_free(&at);
}

/* One output is reported lost while its host is still expected. */
GY_TEST(an_expected_output_may_be_lost_alone)
{
    machine_job job;
    machine at, next;
    machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 4});
    hosts_open(&at, 0, 0);
    hosts_done(&at, 0, 10);
    hosts_done(&at, 1, 11);
    resume(&next, &job, &at);
    machine_begin(&next);
    machine_tell(&next, (gy_sched_event){.kind = GY_EVENT_LOST, .id = {.task = 0, .epoch = 0}});
    assert_int_equal(machine_state(&next, 0), TASK_READY);
    hosts_up(&next, 0);
    hosts_up(&next, 1);
    hosts_open(&next, 1, 1);
    hosts_done(&next, 0, 10);
    assert_int_equal(machine_state(&next, 2), TASK_RUNNING);
    end(&next);
    machine_free(&at);
}

/* Final data on a host of unknown state are not saved; once saved, no input is needed any more.
 */
GY_TEST(final_data_wait_for_their_host)
{
    machine_job job = {0};
    machine at, next, last;
    machine_task(&job, (gy_sched_task){.flags = GY_TASK_FINAL}, NULL);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 4});
    hosts_open(&at, 0, 0);
    hosts_done(&at, 0, 10);
    assert_int_equal(machine_count(&at, GY_EFFECT_SAVE), 1);
    resume(&next, &job, &at);
    machine_begin(&next);
    assert_int_equal(machine_count(&next, GY_EFFECT_SAVE), 0);
    hosts_up(&next, 1);
    assert_int_equal(machine_count(&next, GY_EFFECT_SAVE), 0);
    hosts_up(&next, 0);
    assert_int_equal(machine_count(&next, GY_EFFECT_SAVE), 1);
    machine_tell(&next, (gy_sched_event){.kind = GY_EVENT_OUTPUT_SAFE});
    hosts_lose(&next, 0);
    assert_int_equal(next.manager->committed_count, 1);
    resume(&last, &job, &next);
    machine_tell(&last, (gy_sched_event){.kind = GY_EVENT_BEGIN});
    hosts_lose(&last, 0);
    assert_int_equal(last.manager->committed_count, 1);
    machine_synced(&last);
    assert_int_equal(machine_count(&last, GY_EFFECT_PUBLISH), 1);
    end(&last);
    end(&next);
    machine_free(&at);
}

GY_TEST(journals_of_another_kind_are_refused)
{
    machine_job job;
    machine at;
    size_t used = 0;
    machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 4});
    const gy_manager_options home = {
        .stages = machine_stages, .stage_count = MACHINE_STAGES, .process_max = 2};
    gy_manager *next = NULL;
    assert_ok(gy_manager_new(&home, &job.growth, &next));
    assert_int_equal(gy_manager_replay(next, at.journal, at.journal_bytes, &used),
                     GY_UNSUPPORTED);
    assert_non_null(strstr(gy_error_text(), "runs over hosts"));
    gy_manager_free(next);
    machine_free(&at);
    machine_start(&at, &job, (gy_manager_options){.process_max = 2});
    record_begin *body = (record_begin *)(void *)(at.journal + sizeof(record_head));
    record_head *head = (record_head *)(void *)at.journal;
    body->version = 2;
    head->checksum = gy_hash(body, sizeof(*body), (uint64_t)RECORD_BEGIN << 32 | sizeof(*body));
    assert_ok(gy_manager_new(&home, &job.growth, &next));
    assert_int_equal(gy_manager_replay(next, at.journal, at.journal_bytes, &used),
                     GY_UNSUPPORTED);
    gy_manager_free(next);
    machine_free(&at);
}

/* ---- Misuse ---- */

GY_TEST(a_number_is_of_one_daemon)
{
    static const struct {
        uint32_t host;
        gy_key id;
    } wrong[] = {{0, {1, 1}}, {1, {1, 0}}, {9, {1, 0}}, {2, {2, 1}}};
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        machine_job job;
        machine at;
        machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
        hosts_new(&at, &job, (gy_manager_options){.process_max = 4});
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_HOST_UP,
                                           .host = wrong[i].host,
                                           .host_id = wrong[i].id,
                                           .address = "other:1"});
        const gy_effect *over = machine_reported(&at, GY_EFFECT_END, 0);
        assert_non_null(over);
        assert_int_equal(over->status, GY_ARG);
        machine_free(&at);
    }
}

GY_TEST(slots_without_a_host_stay_closed)
{
    machine_job job;
    machine at;
    machine_fan(&job, 2, GY_OUTPUT_DETERMINISTIC);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 2});
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 0);
    hosts_lose(&at, 0);
    static const uint32_t nowhere[] = {0, 3};
    for (int i = 0; i < 2; i++) {
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .host = nowhere[i]});
        assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 0);
        assert_true(machine_noted(&at, "is not up"));
    }
    hosts_open(&at, 0, 1);
    assert_int_equal(machine_count(&at, GY_EFFECT_START), 1);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 0, .host = 1});
    assert_int_equal(at.said.count, 0); /* it is */
    hosts_up(&at, 2);
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 0, .host = 2});
    assert_int_equal(at.manager->hosts.rows[1].slots, 0);
    assert_int_equal(at.manager->hosts.rows[2].slots, 1);
    machine_free(&at);
}

/* ---- Exact tasks ---- */

/* An exact task that ran on a host out of reach waits until its process must have ended. */
GY_TEST(an_exact_task_waits_out_the_lease)
{
    for (int how = 0; how < 3; how++) {
        machine_job job = {0};
        machine at;
        machine_task(&job, (gy_sched_task){.flags = GY_TASK_EXACT}, NULL);
        hosts_new(&at, &job, (gy_manager_options){.process_max = 2, .lease_ns = 5000});
        machine_synced(&at);
        hosts_open(&at, 0, 0);
        hosts_open(&at, 1, 1);
        assert_int_equal(hosts_where(&at, 0), 0);
        gy_sched_event gone = machine_event(&at, 0, 0);
        gone.kind = GY_EVENT_PROCESS_DOWN;
        gone.cause = GY_CAUSE_CANCELLED;
        if (how == 0) {
            hosts_lose(&at, 0);
        } else {
            if (how == 2) {
                machine_tell(&at, gone); /* the process is known to have ended: no wait */
            }
            machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = 0});
        }
        hosts_start(&at);
        assert_int_equal(machine_state(&at, 0), how == 2 ? TASK_RUNNING : TASK_WAITING);
        at.now_ns += 4999;
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        assert_int_equal(machine_state(&at, 0), how == 2 ? TASK_RUNNING : TASK_WAITING);
        at.now_ns += 1;
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        hosts_start(&at);
        assert_int_equal(hosts_where(&at, 0), 1);
        machine_free(&at);
    }
}

/* The wait is as long as the cluster's leases, whether the lease's length arrives before the
 * host is lost or after. */
GY_TEST(leases_are_as_long_as_slots_say)
{
    for (int is_late = 0; is_late < 2; is_late++) {
        machine_job job = {0};
        machine at;
        gy_sched_event opened = {.kind = GY_EVENT_SLOT_OPEN, .lease_ns = is_late ? 0 : 7000};
        machine_task(&job, (gy_sched_task){.flags = GY_TASK_EXACT}, NULL);
        hosts_new(&at, &job, (gy_manager_options){.process_max = 3, .lease_ns = 5000});
        machine_synced(&at);
        machine_tell(&at, opened);
        hosts_start(&at);
        hosts_open(&at, 1, 1);
        assert_int_equal(hosts_where(&at, 0), 0);
        hosts_lose(&at, 0);
        if (is_late) {
            opened = (gy_sched_event){
                .kind = GY_EVENT_SLOT_OPEN, .process = 2, .host = 1, .lease_ns = 7000};
            machine_tell(&at, opened);
        }
        at.now_ns += 6999;
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        assert_int_equal(machine_state(&at, 0), TASK_WAITING);
        at.now_ns += 1;
        machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
        hosts_start(&at);
        assert_int_equal(hosts_where(&at, 0), 1);
        machine_free(&at);
    }
}

/* Under the next manager they wait until the state of all hosts is known, and for the lease if
 * one is lost. A host is in the journal before an exact task may start on it. */
GY_TEST(a_resumed_exact_task_waits_for_all_hosts)
{
    machine_job job = {0};
    machine at, next;
    machine_task(&job, (gy_sched_task){.flags = GY_TASK_EXACT}, NULL);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 4});
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = 0, .host = 0});
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 0);
    machine_synced(&at);
    assert_int_equal(machine_count(&at, GY_EFFECT_SPAWN), 1);
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        resume(&next, &job, &at);
        machine_begin(&next);
        hosts_up(&next, 0);
        hosts_open(&next, 0, 0);
        assert_int_equal(machine_state(&next, 0), TASK_WAITING);
        if (is_lost) {
            hosts_lose(&next, 1);
            assert_int_equal(machine_state(&next, 0), TASK_WAITING);
            next.now_ns += 5000;
            machine_tell(&next, (gy_sched_event){.kind = GY_EVENT_TIMER});
        } else {
            hosts_up(&next, 1);
        }
        hosts_start(&next);
        assert_int_equal(machine_state(&next, 0), TASK_RUNNING);
        end(&next);
    }
    machine_free(&at);
}

/* A committed exact task is lost: the older manager may have seen the loss too, and started it
 * again on a host out of reach. */
GY_TEST(a_lost_exact_task_waits_for_all_hosts_too)
{
    static const uint32_t first[] = {0};
    machine_job job = {0};
    machine at, next;
    machine_task(&job, (gy_sched_task){.flags = GY_TASK_EXACT}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 3, .input_count = 1}, first);
    hosts_new(&at, &job, (gy_manager_options){.process_max = 4});
    machine_synced(&at);
    hosts_open(&at, 0, 0);
    hosts_done(&at, 0, 10);
    machine_synced(&at);
    /* All hosts are up, without processes of the older manager; the loss comes before or after
     * this is known. */
    for (int how = 0; how < 3; how++) {
        resume(&next, &job, &at);
        machine_begin(&next);
        hosts_up(&next, 2);
        machine_synced(&next);
        assert_int_equal(machine_state(&next, 0), TASK_COMMITTED);
        if (how == 1) {
            hosts_lose(&next, 0);
            assert_int_equal(machine_state(&next, 0), TASK_WAITING);
            hosts_up(&next, 1);
        } else {
            hosts_up(&next, 0);
            if (how == 0) {
                hosts_up(&next, 1);
            } else {
                hosts_lose(&next, 1);
            }
            hosts_lose(&next, 0);
        }
        hosts_open(&next, 0, 2);
        next.now_ns += 4999;
        machine_tell(&next, (gy_sched_event){.kind = GY_EVENT_TIMER});
        assert_int_equal(machine_state(&next, 0), how == 0 ? TASK_RUNNING : TASK_WAITING);
        next.now_ns += 1;
        machine_tell(&next, (gy_sched_event){.kind = GY_EVENT_TIMER});
        hosts_start(&next);
        assert_int_equal(machine_state(&next, 0), TASK_RUNNING);
        assert_int_equal(hosts_where(&next, 0), 2);
        end(&next);
    }
    machine_free(&at);
}

/* Earlier managers left no journal: an exact task waits for the longest lease, on every host;
 * other tasks do not wait. */
GY_TEST(an_exact_task_of_unknown_managers_waits)
{
    machine_job job = {0};
    machine at;
    machine_task(&job, (gy_sched_task){.flags = GY_TASK_EXACT}, NULL);
    machine_task(&job, (gy_sched_task){.stage = 1}, NULL);
    machine_new(&at, &job,
                (gy_manager_options){
                    .process_max = 4, .host_max = 4, .depth_max = 1, .lease_ns = 4000});
    gy_manager_begin_blind(at.manager);
    machine_begin(&at);
    hosts_up(&at, 0);
    machine_synced(&at);
    hosts_open(&at, 0, 0);
    hosts_open(&at, 1, 0);
    machine_synced(&at);
    hosts_start(&at);
    assert_int_equal(machine_state(&at, 1), TASK_RUNNING);
    at.now_ns += 3999;
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
    hosts_start(&at);
    assert_int_equal(machine_state(&at, 0), TASK_WAITING);
    at.now_ns += 1;
    machine_tell(&at, (gy_sched_event){.kind = GY_EVENT_TIMER});
    hosts_start(&at);
    assert_int_equal(machine_state(&at, 0), TASK_RUNNING);
    machine_free(&at);
}

/* ---- Memory ---- */

static gy_status step(gy_manager *manager, gy_effects *said, gy_sched_event event)
{
    return gy_manager_step(manager, &event, said);
}

/* A job over two hosts, one of which is lost; the allocation `fail_after` fails. */
static gy_status try_job(const machine_job *job, int64_t fail_after)
{
    const gy_manager_options options = {.stages = machine_stages,
                                        .stage_count = MACHINE_STAGES,
                                        .process_max = 2,
                                        .host_max = 2};
    gy_manager *manager = NULL;
    gy_effects said = {0};
    gy_alloc_fail_after(fail_after);
    gy_status status = gy_manager_new(&options, &job->growth, &manager);
    const gy_sched_event events[] = {
        {.kind = GY_EVENT_BEGIN},
        {.kind = GY_EVENT_HOST_UP, .host_id = {1, 0}, .address = "a:1"},
        {.kind = GY_EVENT_HOST_UP, .host = 1, .host_id = {2, 0}, .address = "b:1"},
        {.kind = GY_EVENT_SLOT_OPEN, .process = 0},
        {.kind = GY_EVENT_SLOT_OPEN, .process = 1, .host = 1},
        {.kind = GY_EVENT_SYNCED, .position = 1 << 20},
        {.kind = GY_EVENT_PROCESS_UP, .generation = (1u << GY_ATTEMPT_BITS) + 1},
        {.kind = GY_EVENT_DONE,
         .generation = (1u << GY_ATTEMPT_BITS) + 1,
         .id = {0, 0, (1u << GY_ATTEMPT_BITS) + 1},
         .is_held = true,
         .held_bytes = 100},
        {.kind = GY_EVENT_HOST_LOST}};
    for (size_t i = 0; i < GY_COUNT(events) && status >= 0; i++) {
        status = step(manager, &said, events[i]);
    }
    gy_alloc_fail_after(0);
    gy_manager_free(manager);
    gy_free(said.items);
    return status;
}

GY_TEST(no_memory_is_an_answer)
{
    static const char *const places[] = {"a b", NULL, "b", NULL};
    machine_job job;
    machine_fan(&job, 3, GY_OUTPUT_DETERMINISTIC);
    job.growth.places = places;
    gy_status status = GY_NOMEM;
    int64_t failed = 0;
    for (int64_t n = 1; status < 0; n++) {
        assert_true(n < 1000);
        status = try_job(&job, n);
        assert_true(status == GY_OK || status == GY_NOMEM);
        assert_int_equal(gy_alloc_live(), 0);
        failed += status < 0;
    }
    assert_true(failed > 20);
}

GY_TEST_MAIN(NULL, NULL)
