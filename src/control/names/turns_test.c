/* Goal: a gang larger than its job's share and another job's single slots take turns, so that
 * over time both have what their weights give; a job alone has everything. */
#include "control/names/names_test.h"

enum { SLOTS = 8, WIDTH = 3, GANG = 1, SINGLE = 2 };
static const int64_t step_ns = 200000000;

/* The only daemon, and for how long each job had its slots. */
typedef struct lender {
    gy_leased leases[SLOTS];
    size_t count;
    gy_hosted managers[2];
    size_t manager_count;
    uint64_t term, order;
    double slot_s[3]; /* by job */
    uint32_t gang;    /* number of the request */
} lender;

/* Carry out the orders since the last call, in sequence; the last number says how far it has
 * come. */
static void obey(lender *all, bench *at)
{
    for (size_t i = 0; i < at->order_count; i++) {
        const gy_control_order *order = &at->orders[i];
        if (order->number <= all->order && order->term == all->term) {
            continue;
        }
        all->term = order->term;
        all->order = order->number;
        for (uint32_t k = 0; order->kind == GY_ORDER_LEASE && k < order->count; k++) {
            assert_true(all->count < SLOTS);
            all->leases[all->count++] =
                (gy_leased){order->lease + k, order->job, order->epoch, order->gang, false};
        }
        for (size_t k = all->count; order->kind == GY_ORDER_END_LEASE && k-- > 0;) {
            if (all->leases[k].lease == order->lease) {
                all->leases[k] = all->leases[--all->count];
            }
        }
        if (order->kind == GY_ORDER_MANAGER) {
            assert_true(all->manager_count < 2);
            all->managers[all->manager_count++] =
                (gy_hosted){.job = order->job, .epoch = order->epoch};
        }
    }
    at->order_count = 0;
}

static void lender_says(lender *all, bench *at)
{
    obey(all, at);
    const gy_daemon_state state = {.daemon = 1,
                                   .incarnation = 1,
                                   .life = 1,
                                   .sequence = ++at->sequence,
                                   .term = all->term,
                                   .order = all->order,
                                   .platform = 7,
                                   .slots = SLOTS,
                                   .address = "a",
                                   .host = "one",
                                   .labels = "",
                                   .leases = all->leases,
                                   .lease_count = all->count,
                                   .managers = all->managers,
                                   .manager_count = all->manager_count};
    tell(at, (gy_names_event){.kind = GY_NAMES_DAEMON, .daemon = &state});
}

static uint32_t count_of(const lender *all, uint64_t job)
{
    uint32_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        count += all->leases[i].job.low == job;
    }
    return count;
}

/* Release preempted slots at once. */
static void give_asked(bench *at)
{
    for (uint32_t i = 0; i < at->names->lease_count; i++) {
        const lease_row *row = &at->names->leases[i];
        if (row->state == LEASE_ASKED) {
            tell(at, (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                      .key = at->names->jobs[row->job].key,
                                      .epoch = row->epoch,
                                      .lease = row->id});
        }
    }
}

static void turn(lender *all, bench *at, uint32_t singles)
{
    pass(at, step_ns);
    lender_says(all, at);
    const bool has_gang = count_of(all, GANG) > 0;
    all->gang += !has_gang && at->names->jobs[0].gang_count == 0;
    manager_says(
        at, GANG, 1, 0,
        has_gang ? no_gang
                 : (gy_gang_request){.number = all->gang, .width = WIDTH, .is_one_host = true});
    manager_says(at, SINGLE, 1, singles, no_gang);
    give_asked(at);
    lender_says(all, at);
    for (uint64_t job = GANG; job <= SINGLE; job++) {
        all->slot_s[job] += count_of(all, job) * (double)step_ns / 1e9;
    }
}

static void begin(lender *all, bench *at, uint32_t weight)
{
    *all = (lender){.gang = 0};
    *at = (bench){.now_ns = ms};
    start(at);
    lender_says(all, at);
    submit(at, GANG, 100, "");
    submit(at, SINGLE, weight, "");
    lender_says(all, at);
}

/* One to three: two of eight slots and six. The gang has three for a minute, then none. */
GY_TEST(over_time_weights_are_kept)
{
    static lender all;
    static bench at;
    uint32_t most = 0;
    begin(&all, &at, 300);
    for (int i = 0; i < 50; i++) {
        turn(&all, &at, SLOTS);
        most = GY_MAX(most, count_of(&all, GANG));
    }
    assert_int_equal(most, WIDTH); /* it soon has its turn */
    all.slot_s[GANG] = all.slot_s[SINGLE] = 0;
    const int turns = 5 * 900;
    for (int i = 0; i < turns; i++) {
        turn(&all, &at, SLOTS);
    }
    const double seconds = turns * (double)step_ns / 1e9;
    printf("weights 1 and 3, a gang of 3: %.2f and %.2f slots of %d\n",
           all.slot_s[GANG] / seconds, all.slot_s[SINGLE] / seconds, SLOTS);
    assert_true(all.slot_s[GANG] / seconds > 1.7 && all.slot_s[GANG] / seconds < 2.3);
    assert_true(all.slot_s[SINGLE] / seconds > 5.5);
    finish(&at);
}

/* A resting job gets what no other job takes. */
GY_TEST(nobody_rests_alone)
{
    static lender all;
    static bench at;
    begin(&all, &at, 900);
    for (int i = 0; i < 5 * 70 && at.names->jobs[0].rest_ns == 0; i++) {
        turn(&all, &at, SLOTS);
    }
    assert_true(at.names->jobs[0].rest_ns > at.now_ns + 60000 * ms);
    assert_int_equal(count_of(&all, GANG), 0);
    turn(&all, &at, SLOTS);
    assert_int_equal(count_of(&all, GANG), 0);
    manager_says(&at, SINGLE, 1, 0, no_gang); /* the other job releases everything */
    for (uint32_t i = 0; i < at.names->lease_count; i++) {
        tell(&at, (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                   .key = {5, SINGLE},
                                   .epoch = 1,
                                   .lease = at.names->leases[i].id});
    }
    turn(&all, &at, 0);
    turn(&all, &at, 0);
    assert_int_equal(count_of(&all, GANG), WIDTH);
    finish(&at);
}

/* A host of another platform that has leased all its slots: it accepts no order. */
static void other_says(bench *at)
{
    const gy_daemon_state state = {.daemon = 7,
                                   .incarnation = 1,
                                   .life = 1,
                                   .sequence = ++at->sequence,
                                   .platform = 7,
                                   .slots = 1,
                                   .address = "b",
                                   .host = "two",
                                   .labels = "gpu"};
    tell(at, (gy_names_event){.kind = GY_NAMES_DAEMON, .daemon = &state});
}

/* A job rests only for jobs that can use the free slots. */
GY_TEST(what_others_cannot_use_is_taken)
{
    static lender all;
    static bench at;
    at = started();
    lender_says(&all, &at);
    other_says(&at);
    submit(&at, GANG, 100, "");
    submit(&at, SINGLE, 100, "gpu");
    lender_says(&all, &at);
    manager_says(&at, SINGLE, 1, 2, no_gang);
    for (int i = 0; i < 5; i++) {
        other_says(&at);
        at.names->jobs[0].rest_ns = at.now_ns + 60000 * ms;
        turn(&all, &at, 2);
    }
    assert_int_equal(held_by(&at, SINGLE), 1); /* it waits for another slot there */
    assert_int_equal(count_of(&all, GANG), WIDTH);
    finish(&at);
}

GY_TEST_MAIN(NULL, NULL)
