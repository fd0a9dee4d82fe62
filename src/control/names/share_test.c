/* Goal: who gets a slot: shares by weight, gangs all or none, on one host or on several,
 * requested hosts first; a request that no host can serve is reported. */
#include "control/names/names_test.h"

GY_TEST(shares_follow_weights)
{
    bench at = started();
    daemon_says(&at, 1, 6, 0);
    submit(&at, 1, 100, "");
    submit(&at, 2, 200, "");
    daemon_says(&at, 1, 6, 0);
    manager_says(&at, 1, 1, 9, no_gang);
    assert_int_equal(held_by(&at, 1), 6);
    daemon_says(&at, 1, 6, 0);
    manager_says(&at, 2, 1, 9, no_gang);
    assert_int_equal(held_by(&at, 2), 0);
    uint32_t asked = 0;
    for (int i = 0; i < 8; i++) { /* after the patience of 1 s four are preempted */
        pass(&at, 200 * ms);
        daemon_says(&at, 1, 6, 0);
        manager_says(&at, 1, 1, 9, no_gang);
        const gy_names_effect *allocations = said(&at, GY_NAMES_ALLOCATIONS);
        asked = 0;
        for (size_t k = 0; allocations != NULL && k < allocations->allocation_count; k++) {
            asked += allocations->allocations[k].state == GY_ALLOCATION_ASKED;
        }
        manager_says(&at, 2, 1, 9, no_gang);
        assert_true(i >= 4 || asked == 0);
    }
    assert_int_equal(asked, 4);
    for (int i = 0; i < 60; i++) { /* the job does not release them: after 10 s they end */
        pass(&at, 200 * ms);
        daemon_says(&at, 1, 6, 0);
        manager_says(&at, 1, 1, 9, no_gang);
        manager_says(&at, 2, 1, 9, no_gang);
    }
    assert_int_equal(held_by(&at, 1), 2);
    assert_int_equal(held_by(&at, 2), 4);
    finish(&at);
}

/* A manager learns that no daemon, up or not, has as many slots as it requests. */
GY_TEST(what_no_host_has_is_told)
{
    bench at = {.now_ns = ms};
    const gy_gang_request wide = {.number = 4, .width = 5, .is_one_host = true};
    start(&at);
    daemon_says(&at, 1, 3, 0);
    daemon_says(&at, 2, 4, 0);
    submit(&at, 1, 0, "");
    daemon_says(&at, 1, 3, 0);
    daemon_says(&at, 2, 4, 0);
    manager_says(&at, 1, 1, 0, wide);
    manager_says(&at, 1, 1, 0, wide); /* each time, since a message may be lost */
    const gy_names_effect *allocations = said(&at, GY_NAMES_ALLOCATIONS);
    assert_non_null(allocations);
    assert_int_equal(allocations->never, 4);
    assert_int_equal(allocations->most, 4);
    daemon_says(&at, 2, 5, 0); /* the daemon was restarted with one more slot */
    manager_says(&at, 1, 1, 0, wide);
    allocations = said(&at, GY_NAMES_ALLOCATIONS);
    assert_true(allocations == NULL || allocations->never == 0);
    finish(&at);
}

GY_TEST(a_gang_gets_all_or_none)
{
    bench at = {.now_ns = ms};
    const gy_gang_request together = {.number = 1, .width = 3, .is_one_host = true};
    const gy_gang_request huge = {.number = 2, .width = 9};
    start(&at);
    daemon_says(&at, 1, 3, 0);
    submit(&at, 1, 0, "");
    submit(&at, 2, 0, "");
    daemon_says(&at, 1, 3, 0);
    manager_says(&at, 2, 1, 1, no_gang);
    daemon_says(&at, 1, 3, 0);
    manager_says(&at, 1, 1, 0, together);
    assert_int_equal(held_by(&at, 1), 0); /* two are free, and stay so: */
    manager_says(&at, 2, 1, 3, no_gang);
    assert_int_equal(held_by(&at, 2), 1);
    uint64_t single = 0;
    for (size_t i = 0; i < at.order_count; i++) {
        single = at.orders[i].kind == GY_ORDER_LEASE ? at.orders[i].lease : single;
    }
    tell(&at, (gy_names_event){
                  .kind = GY_NAMES_GIVE_BACK, .key = {5, 2}, .epoch = 1, .lease = single});
    daemon_says(&at, 1, 3, 0);
    assert_int_equal(held_by(&at, 1), 3);
    assert_null(said(&at, GY_NAMES_ALLOCATIONS)); /* not before the daemon has confirmed all */
    assert_int_equal(at.orders[at.order_count - 1].count, 3);
    daemon_says(&at, 1, 3, 0);
    const gy_names_effect *allocations = said(&at, GY_NAMES_ALLOCATIONS);
    assert_non_null(allocations);
    assert_int_equal(allocations->allocation_count, 3);
    manager_says(&at, 1, 1, 0, huge); /* never possible, so nothing is reserved for it */
    manager_says(&at, 2, 1, 0, no_gang);
    gy_names_job job;
    assert_true(gy_names_job_at(at.names, 0, &job));
    assert_string_equal(job.reason, "for 9 slots together: nowhere are so many");
    finish(&at);
}

/* Hosts have enough slots: the job's own limit is reported. */
GY_TEST(a_gang_above_the_jobs_own_limit_says_so)
{
    bench at = {.now_ns = ms};
    const gy_gang_request pair = {.number = 1, .width = 2, .is_one_host = true};
    const gy_submit asked = {.spec = {1, 1}, .slots_max = 1, .name = "j", .label = ""};
    start(&at);
    daemon_says(&at, 1, 2, 0);
    tell(&at, (gy_names_event){
                  .kind = GY_NAMES_SUBMIT, .key = {5, 1}, .submit = &asked, .asker = 1});
    daemon_says(&at, 1, 2, 0);
    manager_says(&at, 1, 1, 0, pair);
    assert_string_equal(look(&at).reason, "for 2 slots together: --slots-max of the job is 1");
    finish(&at);
}

/* For the backup task of a straggling cohort: only on other hosts, and only slots that no other
 * job wants. */
GY_TEST(a_gang_for_a_copy_takes_what_is_free_elsewhere)
{
    bench at = {.now_ns = ms};
    const gy_gang_request copy = {
        .number = 1, .width = 3, .is_one_host = true, .not_daemon = 1};
    start(&at);
    daemon_says(&at, 1, 4, 0);
    daemon_says(&at, 2, 2, 0);
    submit(&at, 1, 0, "");
    submit(&at, 2, 0, "");
    daemon_says(&at, 1, 4, 0);
    daemon_says(&at, 2, 2, 0);
    manager_says(&at, 1, 1, 0, copy);
    /* The straggler's own host has four. */
    assert_int_equal(count_orders(&at, GY_ORDER_LEASE), 0);
    manager_says(&at, 1, 1, 0, no_gang);
    for (int i = 0; i < 2; i++) { /* the other job has all but two */
        daemon_says(&at, 1, 4, 0);
        daemon_says(&at, 2, 4, 0);
        manager_says(&at, 2, 1, 6, no_gang);
        manager_says(&at, 1, 1, 0, copy);
    }
    assert_int_equal(held_by(&at, 2), 6); /* nothing was reserved */
    assert_int_equal(held_by(&at, 1), 0);
    for (int i = 0; i < 40; i++) { /* and nothing is preempted */
        pass(&at, 200 * ms);
        daemon_says(&at, 1, 4, 0);
        daemon_says(&at, 2, 4, 0);
        manager_says(&at, 1, 1, 0, copy);
        manager_says(&at, 2, 1, 6, no_gang);
        const gy_names_effect *allocations = said(&at, GY_NAMES_ALLOCATIONS);
        for (size_t k = 0; allocations != NULL && k < allocations->allocation_count; k++) {
            assert_int_not_equal(allocations->allocations[k].state, GY_ALLOCATION_ASKED);
        }
    }
    assert_int_equal(held_by(&at, 2), 6);
    for (size_t i = 0; i < at.order_count; i++) { /* it releases what it has on the second */
        const gy_control_order order = at.orders[i];
        for (uint32_t k = 0;
             order.kind == GY_ORDER_LEASE && order.daemon == 2 && k < order.count; k++) {
            manager_says(&at, 2, 1, 0, no_gang);
            tell(&at, (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                       .key = {5, 2},
                                       .epoch = 1,
                                       .lease = order.lease + k});
        }
    }
    daemon_says(&at, 1, 4, 0);
    daemon_says(&at, 2, 4, 0);
    const gy_control_order *last = &at.orders[at.order_count - 1];
    assert_int_equal(last->kind, GY_ORDER_LEASE);
    assert_true(last->daemon == 2 && last->count == 3 && last->gang == 1);
    finish(&at);
}

static void request(bench *at, uint64_t key, gy_manager_requests requests)
{
    requests.job = (gy_key){5, key};
    requests.epoch = 1;
    requests.sequence = ++at->sequence;
    requests.address = "m";
    tell(at, (gy_names_event){.kind = GY_NAMES_MANAGER, .manager = &requests});
}

static size_t lent_by(const bench *at, uint64_t daemon)
{
    size_t count = 0;
    for (size_t i = 0; i < at->order_count; i++) {
        count += at->orders[i].kind == GY_ORDER_LEASE && at->orders[i].daemon == daemon;
    }
    return count;
}

/* Only managers know a daemon that died before this name server started. Early on, it may just
 * not have reported yet. */
GY_TEST(who_is_expected_in_vain_is_told)
{
    for (int is_late = 0; is_late < 2; is_late++) {
        bench at = {.now_ns = ms};
        const gy_manager_requests requests = {
            .slots = 1, .expected = {{1, 1}, {9, 7}}, .expected_count = 2};
        start(&at);
        daemon_says(&at, 1, 4, 0);
        submit(&at, 1, 0, "");
        for (int i = 0; i < (is_late ? 40 : 10); i++) {
            pass(&at, 50 * ms);
            daemon_says(&at, 1, 4, 0);
        }
        request(&at, 1, requests);
        daemon_says(&at, 1, 4, 0);
        const gy_names_effect *allocations = said(&at, GY_NAMES_ALLOCATIONS);
        assert_non_null(allocations);
        assert_int_equal(allocations->allocation_count, 1 + is_late);
        const gy_allocation *first = &allocations->allocations[0];
        assert_int_equal(first->lease == 0, is_late);
        if (is_late) {
            assert_true(first->state == GY_ALLOCATION_GONE && first->daemon == 9 &&
                        first->incarnation == 7);
        }
        finish(&at);
    }
}

/* Slots on the preferred hosts come first, then others; but no more elsewhere than are useful.
 */
GY_TEST(requested_hosts_come_first)
{
    bench at = started();
    daemon_says(&at, 1, 2, 0);
    daemon_says(&at, 2, 6, 0);
    submit(&at, 1, 0, "");
    daemon_says(&at, 1, 2, 0);
    daemon_says(&at, 2, 6, 0);
    request(&at, 1, (gy_manager_requests){.slots = 1, .hosts = {"none", "one"}});
    assert_int_equal(lent_by(&at, 1), 1); /* although the other has more free slots */
    request(&at, 1, (gy_manager_requests){.slots = 4, .hosts = {"none", "one"}});
    assert_int_equal(lent_by(&at, 1), 2);
    assert_int_equal(lent_by(&at, 2), 2);
    finish(&at);
    at = (bench){.now_ns = ms};
    start(&at);
    daemon_says(&at, 1, 2, 0);
    daemon_says(&at, 2, 6, 0);
    submit(&at, 1, 0, "");
    daemon_says(&at, 1, 2, 0);
    daemon_says(&at, 2, 6, 0);
    gy_manager_requests only = {
        .slots = 5, .hosts = {"one", "none"}, .must = 2, .is_limited = true, .elsewhere = 1};
    request(&at, 1, only);
    assert_int_equal(lent_by(&at, 1), 2);
    assert_int_equal(lent_by(&at, 2), 1);
    const gy_names_effect *allocations = said(&at, GY_NAMES_ALLOCATIONS);
    assert_int_equal(allocations->missing, 2); /* no host is called "none" */
    assert_int_equal(allocations->sequence, at.sequence);
    only.elsewhere = 2; /* although it is parked: free slots may be useful now */
    request(&at, 1, only);
    assert_int_equal(lent_by(&at, 2), 2);
    tell(&at, (gy_names_event){.kind = GY_NAMES_DRAIN, .id = 1, .is_on = true, .asker = 1});
    request(&at, 1, only);
    assert_int_equal(said(&at, GY_NAMES_ALLOCATIONS)->missing, 3);
    finish(&at);
}

/* A job that waits for one host preempts slots of that host, and no others. */
GY_TEST(slots_are_asked_back_where_they_are_requested)
{
    for (int is_limited = 0; is_limited < 2; is_limited++) {
        bench at = started();
        daemon_says(&at, 1, 1, 0);
        daemon_says(&at, 2, 5, 0);
        submit(&at, 1, 0, "");
        submit(&at, 2, 0, "");
        daemon_says(&at, 1, 1, 0);
        daemon_says(&at, 2, 5, 0);
        request(&at, 1,
                (gy_manager_requests){.slots = 9, .hosts = {"one"}}); /* the oldest one */
        for (int i = 0; i < 5; i++) {
            daemon_says(&at, 1, 1, 0);
            daemon_says(&at, 2, 5, 0);
            request(&at, 1, (gy_manager_requests){.slots = 9, .hosts = {"one"}});
            request(&at, 2,
                    (gy_manager_requests){.slots = 1,
                                          .hosts = {"one"},
                                          .must = (uint32_t)is_limited,
                                          .is_limited = is_limited == 1});
            pass(&at, 300 * ms);
        }
        size_t asked[3] = {0};
        for (uint32_t i = 0; i < at.names->lease_count; i++) {
            const lease_row *row = &at.names->leases[i];
            asked[at.names->daemons[row->daemon].id] += row->state == LEASE_ASKED;
        }
        assert_int_equal(asked[1], is_limited);
        assert_int_equal(asked[2], !is_limited);
        finish(&at);
    }
}

/* A job that waits but can use no leased slot does not delay a job that can. */
GY_TEST(who_can_take_nothing_is_passed_over)
{
    bench at = {.now_ns = ms};
    uint32_t asked = 0;
    start(&at);
    daemon_says(&at, 1, 4, 0);
    for (uint64_t job = 1; job <= 3; job++) {
        submit(&at, job, 100, "");
    }
    daemon_says(&at, 1, 4, 0);
    manager_says(&at, 2, 1, 1, no_gang);
    daemon_says(&at, 1, 4, 0);
    for (size_t i = 0; i < at.order_count; i++) {
        if (at.orders[i].kind == GY_ORDER_LEASE) {
            tell(&at, (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                       .key = {5, 2},
                                       .epoch = 1,
                                       .lease = at.orders[i].lease,
                                       .is_bad = true});
        }
    }
    daemon_says(&at, 1, 4, 0);
    manager_says(&at, 1, 1, 9, no_gang);
    assert_int_equal(held_by(&at, 1), 4);
    for (int i = 0; i < 8; i++) { /* the patience is 1 s */
        pass(&at, 200 * ms);
        daemon_says(&at, 1, 4, 0);
        for (uint64_t job = 1; job <= 3; job++) {
            manager_says(&at, job, 1, 9, no_gang);
        }
    }
    for (uint32_t i = 0; i < at.names->lease_count; i++) {
        asked += at.names->leases[i].state == LEASE_ASKED;
    }
    assert_int_equal(held_by(&at, 2), 0);
    assert_int_equal(asked, 2); /* for the third job */
    finish(&at);
}

/* Two slots on each of two daemons of three: not four on any. */
GY_TEST(a_gang_over_hosts_gets_as_many_on_each)
{
    bench at = {.now_ns = ms};
    const gy_gang_request request = {.number = 1, .width = 4, .hosts = 2};
    const gy_gang_request huge = {.number = 2, .width = 9, .hosts = 3};
    start(&at);
    daemon_says(&at, 1, 3, 0);
    daemon_says(&at, 2, 1, 0);
    daemon_says(&at, 3, 1, 0);
    submit(&at, 1, 0, "");
    daemon_says(&at, 1, 3, 0); /* whichever daemon runs the manager */
    daemon_says(&at, 2, 1, 0);
    daemon_says(&at, 3, 1, 0);
    manager_says(&at, 1, 1, 0, request);
    assert_int_equal(held_by(&at, 1), 0);
    gy_names_job job;
    assert_true(gy_names_job_at(at.names, 0, &job));
    assert_string_equal(job.reason, "for 2 slots on each of 2 hosts: there are not so many");
    assert_int_equal(job.slots_wanted, 4);
    daemon_says(&at, 3, 2, 0);
    daemon_says(&at, 1, 3, 0);
    daemon_says(&at, 3, 2, 0);
    assert_int_equal(held_by(&at, 1), 4);
    uint32_t counts[4] = {0};
    for (size_t i = 0; i < at.order_count; i++) {
        if (at.orders[i].kind == GY_ORDER_LEASE) {
            counts[at.orders[i].daemon] += at.orders[i].count;
        }
    }
    assert_true(counts[1] == 2 && counts[2] == 0 && counts[3] == 2);
    assert_true(gy_names_job_at(at.names, 0, &job));
    assert_int_equal(job.slots_wanted, 4);
    manager_says(&at, 1, 1, 0, huge);
    assert_int_equal(held_by(&at, 1), 4);
    assert_true(gy_names_job_at(at.names, 0, &job));
    assert_int_equal(job.slots_wanted, 4 + 9);
    finish(&at);
}

GY_TEST_MAIN(NULL, NULL)
