/* Goal: a manager's client of leases by itself: numbers of hosts are those of the journal, even
 * with gaps; leftovers of an older gang do not block a newer one; a host that does not answer
 * is given up after its time, or at once if the name server has lost it too. */
#include "driver/lease/lease_client.h"

#include <string.h>

#include "gy_test.h"

typedef struct flat {
    gy_lease_client client;
    gy_manager *manager;
    gy_effects said;
    uint8_t journal[4096];
    size_t journal_bytes;
    uint32_t dialled; /* bits */
    uint32_t generations[4];
    gy_attempt started[4]; /* on which host */
    int64_t now_ns;
    bool is_last; /* of the slot that was opened last */
    gy_manager_requests requests;
} flat;

static void step(void *arg, gy_sched_event *event)
{
    flat *at = arg;
    uint64_t position = 0;
    event->now_ns = at->now_ns;
    at->is_last = event->kind == GY_EVENT_SLOT_OPEN ? event->is_last : at->is_last;
    assert_ok(gy_manager_step(at->manager, event, &at->said));
    for (size_t i = 0; i < at->said.count; i++) {
        const gy_effect *effect = &at->said.items[i];
        assert_int_not_equal(effect->kind, GY_EFFECT_END);
        position = effect->kind == GY_EFFECT_SYNC ? effect->position : position;
        if (effect->kind == GY_EFFECT_SPAWN) {
            at->generations[effect->process] = effect->generation;
        }
        if (effect->kind == GY_EFFECT_START) {
            at->started[effect->process] = effect->id;
            at->client.executors[effect->process].running = 1;
        }
        if (effect->kind == GY_EFFECT_APPEND) {
            assert_true(at->journal_bytes + effect->size_bytes <= sizeof(at->journal));
            memcpy(at->journal + at->journal_bytes, effect->data, effect->size_bytes);
            at->journal_bytes += effect->size_bytes;
        }
    }
    if (position > 0) {
        step(at, &(gy_sched_event){.kind = GY_EVENT_SYNCED, .position = position});
    }
}

static void no_memory(void *arg, gy_status status)
{
    (void)arg;
    assert_ok(status);
}

static bool has_ended(const void *arg)
{
    (void)arg;
    return false;
}

static uint32_t process_of(const void *arg, uint32_t slot)
{
    (void)arg;
    (void)slot;
    return 0;
}

static gy_status dial(void *arg, uint32_t host)
{
    flat *at = arg;
    at->dialled |= 1u << host;
    return GY_OK;
}

static void nothing(void *arg, uint32_t number)
{
    (void)arg;
    (void)number;
}

static void request(void *arg, const gy_manager_requests *requests)
{
    flat *at = arg;
    at->requests = *requests;
}

static bool give(void *arg, const lease_return *back)
{
    (void)arg;
    (void)back;
    return false;
}

static const gy_lease_client_ops ops = {.step = step,
                                        .fail = no_memory,
                                        .has_ended = has_ended,
                                        .process = process_of,
                                        .forget = nothing,
                                        .dial = dial,
                                        .hang_up = nothing,
                                        .attach = nothing,
                                        .beat = nothing,
                                        .go_on = nothing,
                                        .begin_anew = nothing,
                                        .request = request,
                                        .give = give};

/* NULL: not resumed. */
static void flat_begin_with(flat *at, uint32_t slots, const flat *before, const gy_growth *job)
{
    static const gy_stage stage = {.name = "all"};
    const gy_manager_options options = {.stages = &stage,
                                        .stage_count = 1,
                                        .process_max = slots,
                                        .host_max = 16,
                                        .depth_max = 1,
                                        .silence_ns = INT64_MAX / 8};
    *at = (flat){.now_ns = 1000};
    assert_ok(gy_manager_new(&options, job, &at->manager));
    if (before != NULL) {
        size_t used = 0;
        assert_ok(
            gy_manager_replay(at->manager, before->journal, before->journal_bytes, &used));
        assert_int_equal(used, before->journal_bytes);
    }
    at->client = (gy_lease_client){.env = gy_env_real(),
                                   .manager = at->manager,
                                   .ops = &ops,
                                   .arg = at,
                                   .job = {1, 2},
                                   .epoch = 1,
                                   .slot_count = slots};
    assert_ok(gy_lease_client_open(&at->client));
    assert_ok(gy_lease_client_begin(&at->client));
    step(at, &(gy_sched_event){.kind = GY_EVENT_BEGIN});
}

/* With three slots. */
static void flat_begin(flat *at, const flat *before, const gy_growth *job)
{
    flat_begin_with(at, 3, before, job);
}

/* A job of one cohort. */
static void flat_new(flat *at, const flat *before)
{
    static const gy_sched_task task = {.key = {1, 1}, .width = 3, .output_count = 1};
    flat_begin(at, before, &(gy_growth){.tasks = &task, .task_count = 1});
}

static void flat_free(flat *at)
{
    gy_lease_client_close(&at->client);
    gy_manager_free(at->manager);
    gy_free(at->said.items);
}

static void answers(flat *at, uint32_t host)
{
    gy_lease_client_host_up(&at->client, host);
    gy_lease_client_attached(&at->client, host, GY_OK, at->client.hosts[host].incarnation, "");
    assert_true(at->client.hosts[host].is_up);
}

static void comes_up(flat *at, uint32_t slot)
{
    step(at, &(gy_sched_event){.kind = GY_EVENT_PROCESS_UP,
                               .process = slot,
                               .generation = at->generations[slot]});
}

GY_TEST(a_number_that_no_journal_has_is_left_out)
{
    static flat before, at;
    flat_new(&before, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        const gy_allocation allocation = {
            .lease = i + 1, .daemon = i + 2, .incarnation = 7, .address = "a", .host = "h"};
        gy_lease_client_take_allocations(&before.client, i, i + 1, &allocation, 1);
    }
    assert_int_equal(before.dialled, 7);
    answers(&before, 0);
    answers(&before, 2); /* the second one does not answer */
    flat_new(&at, &before);
    assert_int_equal(at.client.host_count, 3);
    assert_int_equal(at.dialled, 1 | 4);
    assert_true(at.client.hosts[2].daemon == 4 && at.client.hosts[2].is_expected);
    assert_false(at.client.hosts[1].is_expected);
    gy_lease_client_request(&at.client, 1000000000);
    assert_int_equal(at.requests.expected_count, 2); /* the name server may know about it */
    assert_true(at.requests.expected[1].daemon == 4 &&
                at.requests.expected[1].incarnation == 7);
    assert_int_equal(gy_lease_client_host_get(&at.client, 3, 7, "a", "h"), 3);
    gy_lease_client_host_dial(&at.client, 3);
    answers(&at, 0);
    answers(&at, 2);
    answers(&at, 3);
    flat_free(&before);
    flat_free(&at);
}

GY_TEST(what_is_left_of_a_gang_makes_room_for_the_next)
{
    static flat at;
    gy_allocation allocations[3];
    flat_new(&at, NULL);
    const gy_allocation single = {
        .lease = 9, .daemon = 2, .incarnation = 7, .address = "a", .host = "h"};
    for (uint32_t i = 0; i < 3; i++) {
        allocations[i] = single;
        allocations[i].lease = i + 1;
        allocations[i].gang = 1;
    }
    gy_lease_client_take_allocations(&at.client, 0, 1, &single, 1);
    answers(&at, 0);
    comes_up(&at, 0); /* the cohort finds one process where it needs three */
    gy_lease_client_request(&at.client, 1000000000);
    assert_int_equal(at.requests.gang_count, 1);
    assert_true(at.requests.gangs[0].number == 1 && at.requests.gangs[0].width == 3);
    assert_int_equal(at.client.open_count, 0); /* idle slots are released to make room */
    gy_lease_client_take_allocations(&at.client, 1, 2, allocations, 3);
    assert_int_equal(at.client.open_count, 3);
    gy_lease_client_request(&at.client, 2000000000);
    assert_int_equal(at.requests.gang_count, 0); /* the request is fulfilled */
    comes_up(&at, 0);
    allocations[1].state = allocations[2].state = GY_ALLOCATION_GONE;
    gy_lease_client_take_allocations(&at.client, 2, 3, allocations + 1, 2);
    assert_int_equal(at.client.open_count, 1);
    gy_lease_client_request(&at.client, 3000000000);
    assert_int_equal(at.client.open_count, 0); /* otherwise no host ever has three free */
    assert_int_equal(at.client.returns[at.client.return_count - 1].lease, 1);
    assert_true(at.requests.gangs[0].number == 2 && at.requests.gangs[0].width == 3);
    flat_free(&at);
}

GY_TEST(what_is_over_and_back_is_held)
{
    static flat at;
    const gy_allocation lease = {
        .lease = 5, .daemon = 2, .incarnation = 7, .address = "a", .host = "h"};
    gy_allocation both[2] = {lease, lease}; /* the last change comes first */
    both[1].state = GY_ALLOCATION_GONE;
    flat_new(&at, NULL);
    gy_lease_client_take_allocations(&at.client, 0, 1, both, 1);
    answers(&at, 0);
    assert_int_equal(at.client.open_count, 1);
    gy_lease_client_take_allocations(&at.client, 1, 2, both, 2);
    assert_int_equal(at.client.open_count, 1);
    assert_int_not_equal(gy_lease_client_executor_of(&at.client, 5), GY_NONE);
    both[0].lease = 6; /* its daemon distinguishes by generation, not by slot */
    gy_lease_client_take_allocations(&at.client, 2, 3, both, 1);
    assert_true(at.generations[1] > at.generations[0]);
    flat_free(&at);
}

/* Two slots on one host and one on another; of three tasks one on the first host is a
 * straggler. */
GY_TEST(idle_slots_where_copies_may_not_go_go_back)
{
    static flat at;
    static const int64_t second_ns = 1000000000;
    gy_sched_task tasks[3];
    gy_allocation allocations[3];
    for (uint32_t i = 0; i < 3; i++) {
        tasks[i] = (gy_sched_task){.key = {1, i}, .width = 1, .output_count = 1};
        allocations[i] = (gy_allocation){.lease = i + 1,
                                         .daemon = i < 2 ? 2 : 3,
                                         .incarnation = 7,
                                         .address = "a",
                                         .host = i < 2 ? "slow" : "other"};
    }
    flat_begin(&at, NULL, &(gy_growth){.tasks = tasks, .task_count = 3});
    gy_lease_client_take_allocations(&at.client, 0, 1, allocations, 3);
    answers(&at, 0);
    answers(&at, 1);
    for (uint32_t slot = 0; slot < 3; slot++) {
        comes_up(&at, slot);
    }
    for (uint32_t slot = 1; slot < 3; slot++) { /* all but the first task are done */
        at.client.executors[slot].running = 0;
        step(&at, &(gy_sched_event){.kind = GY_EVENT_DONE,
                                    .id = at.started[slot],
                                    .process = slot,
                                    .generation = at.generations[slot],
                                    .run_ns = second_ns / 2});
    }
    allocations[2].state = GY_ALLOCATION_GONE; /* for another job's share */
    gy_lease_client_take_allocations(&at.client, 1, 2, allocations + 2, 1);
    at.now_ns += 2 * second_ns; /* a straggler at 1.5 times the expected time */
    step(&at, &(gy_sched_event){.kind = GY_EVENT_TIMER});
    assert_int_equal(gy_manager_wanted(at.manager), 2);
    assert_int_equal(at.client.open_count, 2); /* as many slots, but one is useless */
    gy_lease_client_release_idle(&at.client, at.now_ns);
    gy_lease_client_release_idle(&at.client, at.now_ns + second_ns / 4);
    assert_int_equal(at.client.open_count, 2);
    gy_lease_client_release_idle(&at.client, at.now_ns + second_ns);
    assert_int_equal(at.client.open_count, 1);
    assert_int_equal(at.client.executors[0].lease, 1); /* where the straggler runs */
    assert_int_equal(at.client.returns[at.client.return_count - 1].lease, 2);
    gy_lease_client_request(&at.client, at.now_ns + 2 * second_ns);
    assert_int_equal(at.requests.slots, 2);
    assert_string_equal(at.requests.hosts[0], "other");
    assert_int_equal(at.requests.must, 0);
    flat_free(&at);
}

/* Leases on an avoided host are refused, except as a last resort. */
GY_TEST(the_last_resort_is_taken)
{
    static flat at;
    gy_allocation lease = {
        .lease = 5, .daemon = 2, .incarnation = 7, .address = "a", .host = "h"};
    flat_new(&at, NULL);
    gy_lease_client_take_allocations(&at.client, 0, 1, &lease, 1);
    answers(&at, 0);
    gy_lease_client_avoid(&at.client, 0, "three failed");
    gy_lease_client_do_avoids(&at.client);
    lease.lease = 6;
    gy_lease_client_take_allocations(&at.client, 1, 2, &lease, 1);
    assert_int_equal(at.client.open_count, 0);
    assert_true(at.client.returns[at.client.return_count - 1].is_bad);
    assert_false(at.is_last);
    lease.lease = 7;
    lease.is_last = true;
    gy_lease_client_take_allocations(&at.client, 2, 3, &lease, 1);
    assert_int_equal(at.client.open_count, 1);
    assert_int_equal(at.client.return_count, 2);
    assert_true(at.is_last); /* the machine is told */
    flat_free(&at);
}

static uint32_t lost, last_lost;

static void count_lost(void *arg, gy_sched_event *event)
{
    (void)arg;
    if (event->kind == GY_EVENT_HOST_LOST) {
        lost++;
        last_lost = event->host;
    }
}

static gy_status answer_none(void *arg, uint32_t host)
{
    (void)arg;
    (void)host;
    return GY_OK;
}

GY_TEST(who_is_dead_is_not_waited_for)
{
    static const int64_t dead_ns = 2000000000;
    const gy_lease_client_ops counting = {.step = count_lost,
                                          .has_ended = has_ended,
                                          .dial = answer_none,
                                          .hang_up = nothing,
                                          .beat = nothing,
                                          .begin_anew = nothing};
    gy_lease_client client = {
        .env = gy_env_real(), .ops = &counting, .slot_count = 1, .dead_ns = dead_ns};
    assert_ok(gy_lease_client_open(&client));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(gy_lease_client_host_get(&client, i + 1, 7, "a:1", "h"), i);
        client.hosts[i].is_expected = true;
        gy_lease_client_host_dial(&client, i);
    }
    const int64_t now_ns = client.hosts[2].away_ns; /* the last one that was dialled */
    client.hosts[2].state = HOST_HERE;
    client.hosts[2].is_up = true;
    const gy_allocation allocations[] = {
        {.state = GY_ALLOCATION_GONE, .daemon = 2, .incarnation = 7},
        {.state = GY_ALLOCATION_GONE, .daemon = 3, .incarnation = 7},
        {.state = GY_ALLOCATION_GONE, .daemon = 1, .incarnation = 8}};
    gy_lease_client_take_allocations(&client, 0, 1, allocations, GY_COUNT(allocations));
    gy_lease_client_check_hosts(&client, now_ns);
    assert_int_equal(lost, 0); /* it has not had the time to answer */
    gy_lease_client_check_hosts(&client, gy_now_ns(client.env) + dead_ns / 8);
    assert_int_equal(lost, 1);
    assert_int_equal(last_lost, 1);
    gy_lease_client_check_hosts(&client, now_ns + dead_ns);
    assert_int_equal(lost, 2);
    assert_int_equal(last_lost, 0); /* meant for another folder's daemon */
    assert_int_equal(client.hosts[2].state, HOST_HERE);
    gy_lease_client_close(&client);
    assert_int_equal(gy_alloc_live(), 0);
}

static void cohort_done(flat *at, uint32_t first)
{
    for (uint32_t member = 0; member < 2; member++) {
        at->client.executors[first + member].running = 0;
        step(at, &(gy_sched_event){.kind = GY_EVENT_DONE,
                                   .id = at->started[first],
                                   .member = member,
                                   .process = first + member,
                                   .generation = at->generations[first + member],
                                   .run_ns = 500000000});
    }
}

/* Three cohorts of two on two hosts with two slots; the one on the first host is a straggler.
 */
GY_TEST(slots_together_for_a_copy_are_requested_elsewhere)
{
    static flat at;
    static const int64_t second_ns = 1000000000;
    gy_sched_task tasks[3];
    gy_allocation allocations[4];
    for (uint32_t i = 0; i < 3; i++) {
        tasks[i] = (gy_sched_task){.key = {1, i}, .width = 2, .output_count = 1};
    }
    for (uint32_t i = 0; i < 4; i++) {
        allocations[i] = (gy_allocation){.lease = i + 1,
                                         .daemon = i < 2 ? 2 : 3,
                                         .incarnation = 7,
                                         .address = "a",
                                         .host = i < 2 ? "slow" : "other"};
    }
    flat_begin_with(&at, 4, NULL, &(gy_growth){.tasks = tasks, .task_count = 3});
    gy_lease_client_take_allocations(&at.client, 0, 1, allocations, 4);
    answers(&at, 0);
    answers(&at, 1);
    for (uint32_t slot = 0; slot < 4; slot++) {
        comes_up(&at, slot);
    }
    cohort_done(&at, 2);
    cohort_done(&at, 2); /* the third cohort */
    gy_lease_client_request(&at.client, second_ns);
    assert_int_equal(at.requests.gang_count, 0);
    for (uint32_t i = 2; i < 4; i++) { /* for another job's share */
        allocations[i].state = GY_ALLOCATION_GONE;
    }
    gy_lease_client_take_allocations(&at.client, 1, 2, allocations + 2, 2);
    at.now_ns += 2 * second_ns;
    step(&at, &(gy_sched_event){.kind = GY_EVENT_TIMER});
    gy_lease_client_request(&at.client, 2 * second_ns);
    assert_int_equal(at.requests.gang_count, 1);
    assert_true(at.requests.gangs[0].width == 2 && at.requests.gangs[0].is_one_host);
    assert_int_equal(at.requests.gangs[0].not_daemon, 2);
    for (uint32_t i = 2; i < 4; i++) {
        allocations[i].state = GY_ALLOCATION_HELD;
        allocations[i].lease += 4;
        allocations[i].gang = at.requests.gangs[0].number;
    }
    gy_lease_client_take_allocations(&at.client, 2, 3, allocations + 2, 2);
    assert_int_equal(at.client.open_count, 4);
    gy_lease_client_release_idle(&at.client, 3 * second_ns); /* its processes are not up yet */
    gy_lease_client_release_idle(&at.client, 5 * second_ns);
    assert_int_equal(at.client.open_count, 4);
    comes_up(&at, 2);
    comes_up(&at, 3);
    step(&at, &(gy_sched_event){.kind = GY_EVENT_TIMER});
    assert_true(at.started[2].task == at.started[0].task &&
                at.started[2].attempt != at.started[0].attempt);
    gy_lease_client_request(&at.client, 6 * second_ns);
    assert_int_equal(at.requests.gang_count, 0);
    flat_free(&at);
}

GY_TEST_MAIN(NULL, NULL)
