/* Goal: what a manager rents, by itself: numbers of hosts are those of the journal, also where
 * one is missing in it; what is left of an older gang stands in no newer one's way; a host that
 * does not answer is given up after its time, and at once if the name server has lost it too.
 */
#include "cluster/remote/tenant.h"

#include <string.h>

#include "gy_test.h"

typedef struct flat {
    gy_tenant tenant;
    gy_manager *manager;
    gy_effects said;
    uint8_t journal[4096];
    size_t journal_bytes;
    uint32_t dialled; /* bits */
    uint32_t generations[4];
    gy_attempt started[4]; /* where */
    int64_t now_ns;
    bool is_last; /* of the slot that was opened last */
    gy_manager_wishes wishes;
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
            at->tenant.seats[effect->process].running = 1;
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

static void wish(void *arg, const gy_manager_wishes *wishes)
{
    flat *at = arg;
    at->wishes = *wishes;
}

static bool give(void *arg, const tenant_return *back)
{
    (void)arg;
    (void)back;
    return false;
}

static const gy_tenant_ops ops = {.step = step,
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
                                  .wish = wish,
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
    at->tenant = (gy_tenant){.env = gy_env_real(),
                             .manager = at->manager,
                             .ops = &ops,
                             .arg = at,
                             .job = {1, 2},
                             .epoch = 1,
                             .slot_count = slots};
    assert_ok(gy_tenant_open(&at->tenant));
    assert_ok(gy_tenant_begin(&at->tenant));
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
    gy_tenant_close(&at->tenant);
    gy_manager_free(at->manager);
    gy_free(at->said.items);
}

static void answers(flat *at, uint32_t host)
{
    gy_tenant_host_up(&at->tenant, host);
    gy_tenant_attached(&at->tenant, host, GY_OK, at->tenant.hosts[host].incarnation, "");
    assert_true(at->tenant.hosts[host].is_up);
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
        const gy_grant grant = {
            .lease = i + 1, .daemon = i + 2, .incarnation = 7, .address = "a", .host = "h"};
        gy_tenant_take_grants(&before.tenant, i, i + 1, &grant, 1);
    }
    assert_int_equal(before.dialled, 7);
    answers(&before, 0);
    answers(&before, 2); /* the second one never comes */
    flat_new(&at, &before);
    assert_int_equal(at.tenant.host_count, 3);
    assert_int_equal(at.dialled, 1 | 4);
    assert_true(at.tenant.hosts[2].daemon == 4 && at.tenant.hosts[2].is_expected);
    assert_false(at.tenant.hosts[1].is_expected);
    gy_tenant_wish(&at.tenant, 1000000000);
    assert_int_equal(at.wishes.expected_count, 2); /* the name server may know better */
    assert_true(at.wishes.expected[1].daemon == 4 && at.wishes.expected[1].incarnation == 7);
    assert_int_equal(gy_tenant_host_get(&at.tenant, 3, 7, "a", "h"), 3);
    gy_tenant_host_dial(&at.tenant, 3);
    answers(&at, 0);
    answers(&at, 2);
    answers(&at, 3);
    flat_free(&before);
    flat_free(&at);
}

GY_TEST(what_is_left_of_a_gang_makes_room_for_the_next)
{
    static flat at;
    gy_grant grants[3];
    flat_new(&at, NULL);
    const gy_grant single = {
        .lease = 9, .daemon = 2, .incarnation = 7, .address = "a", .host = "h"};
    for (uint32_t i = 0; i < 3; i++) {
        grants[i] = single;
        grants[i].lease = i + 1;
        grants[i].gang = 1;
    }
    gy_tenant_take_grants(&at.tenant, 0, 1, &single, 1);
    answers(&at, 0);
    comes_up(&at, 0); /* the cohort finds one process where it needs three */
    gy_tenant_wish(&at.tenant, 1000000000);
    assert_int_equal(at.wishes.gang_count, 1);
    assert_true(at.wishes.gangs[0].number == 1 && at.wishes.gangs[0].width == 3);
    assert_int_equal(at.tenant.open_count, 0); /* idle slots make room */
    gy_tenant_take_grants(&at.tenant, 1, 2, grants, 3);
    assert_int_equal(at.tenant.open_count, 3);
    gy_tenant_wish(&at.tenant, 2000000000);
    assert_int_equal(at.wishes.gang_count, 0); /* it has them */
    comes_up(&at, 0);
    grants[1].state = grants[2].state = GY_GRANT_GONE;
    gy_tenant_take_grants(&at.tenant, 2, 3, grants + 1, 2);
    assert_int_equal(at.tenant.open_count, 1);
    gy_tenant_wish(&at.tenant, 3000000000);
    assert_int_equal(at.tenant.open_count, 0); /* else three never are free on one host */
    assert_int_equal(at.tenant.returns[at.tenant.return_count - 1].lease, 1);
    assert_true(at.wishes.gangs[0].number == 2 && at.wishes.gangs[0].width == 3);
    flat_free(&at);
}

GY_TEST(what_is_over_and_back_is_held)
{
    static flat at;
    const gy_grant lease = {
        .lease = 5, .daemon = 2, .incarnation = 7, .address = "a", .host = "h"};
    gy_grant both[2] = {lease, lease}; /* what changed last stands first */
    both[1].state = GY_GRANT_GONE;
    flat_new(&at, NULL);
    gy_tenant_take_grants(&at.tenant, 0, 1, both, 1);
    answers(&at, 0);
    assert_int_equal(at.tenant.open_count, 1);
    gy_tenant_take_grants(&at.tenant, 1, 2, both, 2);
    assert_int_equal(at.tenant.open_count, 1);
    assert_int_not_equal(gy_tenant_seat_of(&at.tenant, 5), GY_NONE);
    both[0].lease = 6; /* its daemon goes by generations, whatever the slot */
    gy_tenant_take_grants(&at.tenant, 2, 3, both, 1);
    assert_true(at.generations[1] > at.generations[0]);
    flat_free(&at);
}

/* Two slots of a host and one of another; of three tasks one at the first host is late. */
GY_TEST(idle_slots_where_copies_may_not_go_go_back)
{
    static flat at;
    static const int64_t second_ns = 1000000000;
    gy_sched_task tasks[3];
    gy_grant grants[3];
    for (uint32_t i = 0; i < 3; i++) {
        tasks[i] = (gy_sched_task){.key = {1, i}, .width = 1, .output_count = 1};
        grants[i] = (gy_grant){.lease = i + 1,
                               .daemon = i < 2 ? 2 : 3,
                               .incarnation = 7,
                               .address = "a",
                               .host = i < 2 ? "slow" : "other"};
    }
    flat_begin(&at, NULL, &(gy_growth){.tasks = tasks, .task_count = 3});
    gy_tenant_take_grants(&at.tenant, 0, 1, grants, 3);
    answers(&at, 0);
    answers(&at, 1);
    for (uint32_t slot = 0; slot < 3; slot++) {
        comes_up(&at, slot);
    }
    for (uint32_t slot = 1; slot < 3; slot++) { /* all but the first task are done */
        at.tenant.seats[slot].running = 0;
        step(&at, &(gy_sched_event){.kind = GY_EVENT_DONE,
                                    .id = at.started[slot],
                                    .process = slot,
                                    .generation = at.generations[slot],
                                    .run_ns = second_ns / 2});
    }
    grants[2].state = GY_GRANT_GONE; /* another job's share */
    gy_tenant_take_grants(&at.tenant, 1, 2, grants + 2, 1);
    at.now_ns += 2 * second_ns; /* late after three halves of one */
    step(&at, &(gy_sched_event){.kind = GY_EVENT_TIMER});
    assert_int_equal(gy_manager_wanted(at.manager), 2);
    assert_int_equal(at.tenant.open_count, 2); /* as many, but one of no use */
    gy_tenant_give_idle(&at.tenant, at.now_ns);
    gy_tenant_give_idle(&at.tenant, at.now_ns + second_ns / 4);
    assert_int_equal(at.tenant.open_count, 2);
    gy_tenant_give_idle(&at.tenant, at.now_ns + second_ns);
    assert_int_equal(at.tenant.open_count, 1);
    assert_int_equal(at.tenant.seats[0].lease, 1); /* where it runs */
    assert_int_equal(at.tenant.returns[at.tenant.return_count - 1].lease, 2);
    gy_tenant_wish(&at.tenant, at.now_ns + 2 * second_ns);
    assert_int_equal(at.wishes.slots, 2);
    assert_string_equal(at.wishes.hosts[0], "other");
    assert_int_equal(at.wishes.must, 0);
    flat_free(&at);
}

/* A host that is avoided is refused, but as the last resort. */
GY_TEST(the_last_resort_is_taken)
{
    static flat at;
    gy_grant lease = {.lease = 5, .daemon = 2, .incarnation = 7, .address = "a", .host = "h"};
    flat_new(&at, NULL);
    gy_tenant_take_grants(&at.tenant, 0, 1, &lease, 1);
    answers(&at, 0);
    gy_tenant_avoid(&at.tenant, 0, "three failed");
    gy_tenant_do_avoids(&at.tenant);
    lease.lease = 6;
    gy_tenant_take_grants(&at.tenant, 1, 2, &lease, 1);
    assert_int_equal(at.tenant.open_count, 0);
    assert_true(at.tenant.returns[at.tenant.return_count - 1].is_bad);
    assert_false(at.is_last);
    lease.lease = 7;
    lease.is_last = true;
    gy_tenant_take_grants(&at.tenant, 2, 3, &lease, 1);
    assert_int_equal(at.tenant.open_count, 1);
    assert_int_equal(at.tenant.return_count, 2);
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
    const gy_tenant_ops counting = {.step = count_lost,
                                    .has_ended = has_ended,
                                    .dial = answer_none,
                                    .hang_up = nothing,
                                    .beat = nothing,
                                    .begin_anew = nothing};
    gy_tenant tenant = {
        .env = gy_env_real(), .ops = &counting, .slot_count = 1, .dead_ns = dead_ns};
    assert_ok(gy_tenant_open(&tenant));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(gy_tenant_host_get(&tenant, i + 1, 7, "a:1", "h"), i);
        tenant.hosts[i].is_expected = true;
        gy_tenant_host_dial(&tenant, i);
    }
    const int64_t now_ns = tenant.hosts[2].away_ns; /* the last that was dialled */
    tenant.hosts[2].state = HOST_HERE;
    tenant.hosts[2].is_up = true;
    const gy_grant grants[] = {{.state = GY_GRANT_GONE, .daemon = 2, .incarnation = 7},
                               {.state = GY_GRANT_GONE, .daemon = 3, .incarnation = 7},
                               {.state = GY_GRANT_GONE, .daemon = 1, .incarnation = 8}};
    gy_tenant_take_grants(&tenant, 0, 1, grants, GY_COUNT(grants));
    gy_tenant_look_after(&tenant, now_ns);
    assert_int_equal(lost, 0); /* it has not had the time to answer */
    gy_tenant_look_after(&tenant, gy_now_ns(tenant.env) + dead_ns / 8);
    assert_int_equal(lost, 1);
    assert_int_equal(last_lost, 1);
    gy_tenant_look_after(&tenant, now_ns + dead_ns);
    assert_int_equal(lost, 2);
    assert_int_equal(last_lost, 0); /* another folder's daemon was meant */
    assert_int_equal(tenant.hosts[2].state, HOST_HERE);
    gy_tenant_close(&tenant);
    assert_int_equal(gy_alloc_live(), 0);
}

static void cohort_done(flat *at, uint32_t first)
{
    for (uint32_t member = 0; member < 2; member++) {
        at->tenant.seats[first + member].running = 0;
        step(at, &(gy_sched_event){.kind = GY_EVENT_DONE,
                                   .id = at->started[first],
                                   .member = member,
                                   .process = first + member,
                                   .generation = at->generations[first + member],
                                   .run_ns = 500000000});
    }
}

/* Three cohorts of two at two hosts of two slots; the one at the first host is late. */
GY_TEST(slots_together_for_a_copy_are_wished_elsewhere)
{
    static flat at;
    static const int64_t second_ns = 1000000000;
    gy_sched_task tasks[3];
    gy_grant grants[4];
    for (uint32_t i = 0; i < 3; i++) {
        tasks[i] = (gy_sched_task){.key = {1, i}, .width = 2, .output_count = 1};
    }
    for (uint32_t i = 0; i < 4; i++) {
        grants[i] = (gy_grant){.lease = i + 1,
                               .daemon = i < 2 ? 2 : 3,
                               .incarnation = 7,
                               .address = "a",
                               .host = i < 2 ? "slow" : "other"};
    }
    flat_begin_with(&at, 4, NULL, &(gy_growth){.tasks = tasks, .task_count = 3});
    gy_tenant_take_grants(&at.tenant, 0, 1, grants, 4);
    answers(&at, 0);
    answers(&at, 1);
    for (uint32_t slot = 0; slot < 4; slot++) {
        comes_up(&at, slot);
    }
    cohort_done(&at, 2);
    cohort_done(&at, 2); /* the third one */
    gy_tenant_wish(&at.tenant, second_ns);
    assert_int_equal(at.wishes.gang_count, 0);
    for (uint32_t i = 2; i < 4; i++) { /* another job's share */
        grants[i].state = GY_GRANT_GONE;
    }
    gy_tenant_take_grants(&at.tenant, 1, 2, grants + 2, 2);
    at.now_ns += 2 * second_ns;
    step(&at, &(gy_sched_event){.kind = GY_EVENT_TIMER});
    gy_tenant_wish(&at.tenant, 2 * second_ns);
    assert_int_equal(at.wishes.gang_count, 1);
    assert_true(at.wishes.gangs[0].width == 2 && at.wishes.gangs[0].is_one_host);
    assert_int_equal(at.wishes.gangs[0].not_daemon, 2);
    for (uint32_t i = 2; i < 4; i++) {
        grants[i].state = GY_GRANT_HELD;
        grants[i].lease += 4;
        grants[i].gang = at.wishes.gangs[0].number;
    }
    gy_tenant_take_grants(&at.tenant, 2, 3, grants + 2, 2);
    assert_int_equal(at.tenant.open_count, 4);
    gy_tenant_give_idle(&at.tenant, 3 * second_ns); /* its processes are not up yet */
    gy_tenant_give_idle(&at.tenant, 5 * second_ns);
    assert_int_equal(at.tenant.open_count, 4);
    comes_up(&at, 2);
    comes_up(&at, 3);
    step(&at, &(gy_sched_event){.kind = GY_EVENT_TIMER});
    assert_true(at.started[2].task == at.started[0].task &&
                at.started[2].attempt != at.started[0].attempt);
    gy_tenant_wish(&at.tenant, 6 * second_ns);
    assert_int_equal(at.wishes.gang_count, 0);
    flat_free(&at);
}

GY_TEST_MAIN(NULL, NULL)
