/* Goal: a job that avoids daemons gets slots of one nevertheless if nothing else serves its
 * request, after a wait, and is told so; it may avoid the daemon again. */
#include "control/names/names_test.h"

enum { SMALL = 1, LARGE = 2, LARGER = 3 };

static void daemons_say(bench *at, uint32_t count)
{
    static const uint32_t slots[] = {0, 2, 4, 6};
    for (uint32_t id = 1; id <= count; id++) {
        daemon_says(at, id, slots[id], 0);
    }
}

static size_t lent_by(const bench *at, uint64_t daemon)
{
    size_t count = 0;
    for (size_t i = 0; i < at->order_count; i++) {
        count += at->orders[i].kind == GY_ORDER_LEASE && at->orders[i].daemon == daemon
                     ? at->orders[i].count
                     : 0;
    }
    return count;
}

/* Release all leases so far, as bad except those of the first daemon. */
static void release(bench *at)
{
    for (size_t i = 0; i < at->order_count; i++) {
        const gy_control_order *order = &at->orders[i];
        for (uint32_t k = 0; order->kind == GY_ORDER_LEASE && k < order->count; k++) {
            tell(at, (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                      .key = {5, 1},
                                      .epoch = 1,
                                      .lease = order->lease + k,
                                      .is_bad = order->daemon != SMALL,
                                      .reason = "three failed"});
        }
    }
}

/* `count` daemons; a job that has been at all of them and avoids all but the first. */
static void begin(bench *at, uint32_t count, size_t *lent)
{
    start(at);
    daemons_say(at, count);
    submit(at, 1, 0, "");
    daemons_say(at, count);
    manager_says(at, 1, 1, 12, no_gang);
    daemons_say(at, count);
    manager_says(at, 1, 1, 0, no_gang);
    release(at);
    daemons_say(at, count);
    for (uint32_t id = 1; id <= count; id++) {
        lent[id] = lent_by(at, id);
        assert_true(lent[id] > 0);
        assert_true(gy_names_fits(at->names, id - 1, 0) == (id == SMALL));
    }
    assert_int_equal(held_by(at, 1), 0);
}

/* Repeat the requests for so long. */
static void wait_for(bench *at, uint32_t count, gy_gang_request request, int64_t time_ns)
{
    for (const int64_t last_ns = at->now_ns + time_ns; at->now_ns < last_ns;) {
        pass(at, 100 * ms);
        daemons_say(at, count);
        manager_says(at, 1, 1, 0, request);
    }
}

static const gy_allocation *last_allocation(const bench *at)
{
    const gy_names_effect *allocations = said(at, GY_NAMES_ALLOCATIONS);
    return allocations != NULL && allocations->allocation_count > 0
               ? &allocations->allocations[0]
               : NULL;
}

GY_TEST(a_cohort_gets_what_is_wide_enough)
{
    bench at = {.now_ns = ms};
    size_t lent[4];
    gy_gang_request request = {.number = 1, .width = 3, .is_one_host = true};
    begin(&at, 2, lent);
    wait_for(&at, 2, request, 900 * ms);
    assert_int_equal(lent_by(&at, LARGE), lent[LARGE]); /* another large daemon may come */
    wait_for(&at, 2, request, 300 * ms);
    assert_int_equal(lent_by(&at, LARGE), lent[LARGE] + 3);
    manager_says(&at, 1, 1, 0, request); /* the manager was not told so far */
    const gy_allocation *allocation = last_allocation(&at);
    assert_non_null(allocation);
    assert_true(allocation->is_last && allocation->gang == 1);
    release(&at); /* tasks fail there again */
    daemons_say(&at, 2);
    request.number = 2;
    wait_for(&at, 2, request, 900 * ms);
    assert_int_equal(lent_by(&at, LARGE), lent[LARGE] + 3);
    wait_for(&at, 2, request, 300 * ms);
    assert_int_equal(lent_by(&at, LARGE), lent[LARGE] + 6);
    finish(&at);
}

/* A request that no daemon could serve changes nothing; and only the largest daemon is allowed
 * again. */
GY_TEST(others_are_avoided_on)
{
    bench at = {.now_ns = ms};
    size_t lent[4];
    const gy_gang_request huge = {.number = 1, .width = 7, .is_one_host = true};
    const gy_gang_request wide = {.number = 2, .width = 4, .is_one_host = true};
    begin(&at, 3, lent);
    wait_for(&at, 3, huge, 1500 * ms);
    assert_false(gy_names_fits(at.names, LARGE - 1, 0));
    assert_false(gy_names_fits(at.names, LARGER - 1, 0));
    wait_for(&at, 3, wide, 1500 * ms);
    assert_int_equal(lent_by(&at, LARGER), lent[LARGER] + 4);
    assert_false(gy_names_fits(at.names, LARGE - 1, 0));
    finish(&at);
}

/* Two slots on each of two hosts: one host is available, another is needed. */
GY_TEST(a_gang_over_hosts_gets_as_few_as_it_needs)
{
    bench at = {.now_ns = ms};
    size_t lent[4];
    const gy_gang_request request = {.number = 1, .width = 4, .hosts = 2};
    begin(&at, 3, lent);
    wait_for(&at, 3, request, 1500 * ms);
    assert_true(gy_names_fits(at.names, LARGER - 1, 0));
    assert_false(gy_names_fits(at.names, LARGE - 1, 0));
    assert_int_equal(lent_by(&at, LARGER), lent[LARGER] + 2);
    finish(&at);
}

/* The only daemon that it does not avoid leases no more slots. */
GY_TEST(single_slots_are_lent_too)
{
    bench at = {.now_ns = ms};
    size_t lent[4];
    begin(&at, 2, lent);
    tell(&at, (gy_names_event){.kind = GY_NAMES_DRAIN, .id = SMALL, .is_on = true, .asker = 1});
    for (int i = 0; i < 15; i++) {
        pass(&at, 100 * ms);
        daemons_say(&at, 2);
        manager_says(&at, 1, 1, 1, no_gang);
        assert_true(i > 8 || lent_by(&at, LARGE) == lent[LARGE]);
    }
    assert_int_equal(lent_by(&at, LARGE), lent[LARGE] + 1);
    finish(&at);
}

GY_TEST_MAIN(NULL, NULL)
