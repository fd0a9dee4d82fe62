/* Goal: the name server's rules one by one: it stores before it tells, epochs, grace periods,
 * drained and avoided daemons, a failing table, failing memory. */
#include "control/names/names_test.h"
#include "control/names/records.h"

GY_TEST(a_job_is_stored_before_it_is_accepted)
{
    bench at = started();
    daemon_says(&at, 1, 4, 0);
    at.is_held_back = true;
    submit(&at, 1, 0, "");
    assert_non_null(said(&at, GY_NAMES_STORE));
    assert_null(said(&at, GY_NAMES_ANSWER));
    submit(&at, 1, 0, "");
    assert_int_equal(said(&at, GY_NAMES_ANSWER)->status, GY_AGAIN);
    at.is_held_back = false;
    restart(&at);
    submit(&at, 2, 0, "");
    submit(&at, 2, 0, "");
    assert_int_equal(said(&at, GY_NAMES_ANSWER)->status, GY_OK);
    assert_null(said(&at, GY_NAMES_STORE));
    const gy_submit other = {.spec = {9, 9}};
    tell(&at, (gy_names_event){
                  .kind = GY_NAMES_SUBMIT, .key = {5, 2}, .submit = &other, .asker = 1});
    assert_int_equal(said(&at, GY_NAMES_ANSWER)->status, GY_EXISTS);
    at.store_status = GY_LIMIT;
    submit(&at, 3, 0, "");
    at.store_status = GY_OK;
    submit(&at, 3, 2000, "");
    assert_int_equal(said(&at, GY_NAMES_ANSWER)->status, GY_ARG);
    finish(&at);
}

GY_TEST(each_manager_has_an_epoch_of_its_own)
{
    bench at = started();
    daemon_says(&at, 1, 4, 0);
    daemon_says(&at, 2, 4, 0);
    submit(&at, 1, 0, "");
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 1);
    uint64_t first = at.orders[0].daemon;
    assert_int_equal(at.orders[0].epoch, 1);
    daemon_says(&at, first, 4, 0);
    manager_says(&at, 1, 1, 2, no_gang);
    assert_int_equal(held_by(&at, 1), 2);
    for (int i = 0; i < 5; i++) { /* its host falls silent, the other one does not */
        pass(&at, 500 * ms);
        daemon_says(&at, 3 - first, 4, 0);
    }
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 2);
    const gy_control_order *second = &at.orders[at.order_count - 1];
    assert_int_equal(second->kind, GY_ORDER_MANAGER);
    assert_int_equal(second->epoch, 2);
    assert_true(second->daemon != first);
    manager_says(&at, 1, 1, 2, no_gang); /* it is alive after all */
    assert_int_equal(said(&at, GY_NAMES_OVER)->status, GY_STATE);
    restart(&at); /* what exists is not known yet, so no manager is replaced at once */
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 2);
    manager_says(&at, 1, 2, 1, no_gang);
    assert_null(said(&at, GY_NAMES_OVER));
    /* Only another name server can have given out this epoch. */
    manager_says(&at, 1, 4, 1, no_gang);
    assert_int_equal(said(&at, GY_NAMES_END)->status, GY_MISMATCH);
    finish(&at);
}

/* The manager to be replaced is at daemon `first`; `other` has the next. */
static void begin_job(bench *at, uint64_t *first, uint64_t *other)
{
    start(at);
    daemon_says(at, 1, 4, 0);
    daemon_says(at, 2, 4, 0);
    submit(at, 1, 0, "");
    *first = at->orders[0].daemon;
    *other = 3 - *first;
    daemon_says(at, *first, 4, 0);
    manager_says(at, 1, 1, 0, no_gang);
}

/* The program partitions its graph by the number of slots on one host: that of the largest host
 * with the job's label, wherever the manager runs, but no more than the job may have. */
GY_TEST(a_manager_is_told_what_one_host_lends)
{
    bench at = started();
    daemon_says(&at, 1, 2, 0);
    daemon_says(&at, 2, 5, 0);
    submit(&at, 1, 0, "");
    assert_int_equal(at.orders[at.order_count - 1].slots_max, 5);
    submit(&at, 2, 0, "gpu");
    assert_int_equal(at.orders[at.order_count - 1].slots_max, 2);
    const gy_submit asked = {.spec = {1, 3}, .name = "j", .label = "", .slots_max = 3};
    tell(&at, (gy_names_event){
                  .kind = GY_NAMES_SUBMIT, .key = {5, 3}, .submit = &asked, .asker = 3});
    assert_int_equal(at.orders[at.order_count - 1].slots_max, 3);
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 3);
    finish(&at);
}

GY_TEST(a_table_that_is_slow_holds_up_no_manager)
{
    bench at = {.now_ns = ms};
    uint64_t first = 0, other = 0;
    begin_job(&at, &first, &other);
    at.is_held_back = true;
    at.are_gone = true;
    daemon_says(&at, first, 4, 0);
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 2);
    assert_int_equal(at.orders[at.order_count - 1].epoch, 2);
    const uint64_t second = at.orders[at.order_count - 1].daemon;
    pass(&at, 200 * ms);
    daemon_says(&at, second, 4, 0); /* the next one waits for a store: no spare epoch is left */
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 2);
    finish(&at);
}

/* What a user sees of a program that crashes each time. */
GY_TEST(a_job_says_how_its_managers_ended)
{
    bench at = {.now_ns = ms, .are_gone = true, .signal = SIGSEGV};
    start(&at);
    daemon_says(&at, 1, 4, 0);
    submit(&at, 1, 0, "");
    for (int i = 0; i < 9 && !look(&at).is_ended; i++) {
        daemon_says(&at, 1, 4, 0);
        pass(&at, 100 * ms);
    }
    assert_string_equal(look(&at).reason,
                        "3 managers in a row ended early: the last one was killed by SIGSEGV");
    finish(&at);
}

/* A new name server accepts the manager of the spare epoch as the job's, and treats the epoch
 * before as ended; a lease or a daemon's state may also reveal it. */
GY_TEST(a_new_name_server_knows_the_epoch_ahead)
{
    for (int way = 0; way < 2; way++) {
        bench at = {.now_ns = ms};
        uint64_t first = 0, other = 0;
        begin_job(&at, &first, &other);
        at.is_held_back = true; /* the name server dies before the table has it */
        at.are_gone = true;
        daemon_says(&at, first, 4, 0);
        assert_int_equal(at.orders[at.order_count - 1].epoch, 2);
        at.is_held_back = at.are_gone = false;
        restart(&at);
        if (way == 0) {
            manager_says(&at, 1, 1, 0, no_gang); /* a message from long ago */
            assert_null(said(&at, GY_NAMES_OVER));
        }
        manager_says(&at, 1, 2, 0, no_gang);
        assert_null(said(&at, GY_NAMES_OVER));
        assert_null(said(&at, GY_NAMES_END));
        assert_int_equal(look(&at).epoch, 2);
        assert_true(look(&at).is_up);
        manager_says(&at, 1, 1, 0, no_gang);
        assert_int_equal(said(&at, GY_NAMES_OVER)->epoch, 1);
        for (int i = 0; i < 7; i++) { /* it falls silent: the next epoch is new to everyone */
            pass(&at, 500 * ms);
            daemon_says(&at, other, 4, 0);
        }
        assert_int_equal(at.orders[at.order_count - 1].epoch, 3);
        manager_says(&at, 1, 3, 0, no_gang);
        assert_true(look(&at).is_up);
        finish(&at);
    }
}

static size_t told_anew(bench *at, uint64_t seen)
{
    const gy_manager_requests requests = {.job = {5, 1},
                                          .epoch = 1,
                                          .sequence = ++at->sequence,
                                          .seen = seen,
                                          .address = "m",
                                          .slots = 2};
    tell(at, (gy_names_event){.kind = GY_NAMES_MANAGER, .manager = &requests});
    const gy_names_effect *allocations = said(at, GY_NAMES_ALLOCATIONS);
    return allocations != NULL && allocations->from == 0 ? allocations->allocation_count : 0;
}

GY_TEST(the_next_job_of_a_program_is_told_all)
{
    bench at = started();
    daemon_says(&at, 1, 4, 0);
    submit(&at, 1, 0, "");
    daemon_says(&at, 1, 4, 0);
    (void)told_anew(&at, 0);
    daemon_says(&at, 1, 4, 0); /* the daemon has leased them */
    const gy_names_effect *allocations = said(&at, GY_NAMES_ALLOCATIONS);
    assert_non_null(allocations);
    const uint64_t version = allocations->version;
    assert_int_equal(allocations->allocation_count, 2);
    assert_int_equal(told_anew(&at, version), 0);
    /* From the driver of the program's next job, which has received nothing. */
    assert_int_equal(told_anew(&at, 0), 2);
    assert_int_equal(told_anew(&at, version), 0);
    finish(&at);
}

/* A manager that never reported is replaced as soon as its daemon is lost; one that did, only
 * when the daemon ended in order. */
GY_TEST(a_manager_goes_with_its_daemon)
{
    for (int way = 0; way < 3; way++) {
        bench at = started();
        daemon_says(&at, 1, 4, 0);
        daemon_says(&at, 2, 4, 0);
        submit(&at, 1, 0, "");
        uint64_t first = at.orders[0].daemon;
        daemon_says(&at, first, 4, 0);
        if (way == 2) {
            manager_says(&at, 1, 1, 0, no_gang);
        }
        if (way > 0) {
            tell(&at,
                 (gy_names_event){
                     .kind = GY_NAMES_DAEMON_BYE, .id = first, .incarnation = 1, .life = 1});
        }
        for (int i = 0; i < 5 && way == 0; i++) { /* silent for more than 2 s, but not for 10 */
            pass(&at, 500 * ms);
            daemon_says(&at, 3 - first, 4, 0);
        }
        assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 2);
        assert_int_equal(at.orders[at.order_count - 1].epoch, 2);
        assert_true(at.orders[at.order_count - 1].daemon == 3 - first);
        finish(&at);
    }
}

/* A resumed manager is told which daemons are lost together with its first slots. */
GY_TEST(a_new_manager_hears_which_daemons_are_lost)
{
    bench at = started();
    daemon_says(&at, 1, 4, 0);
    daemon_says(&at, 2, 4, 0);
    submit(&at, 1, 0, "");
    const uint64_t first = at.orders[0].daemon, other = 3 - first;
    daemon_says(&at, first, 4, 0);
    manager_says(&at, 1, 1, 1, no_gang);
    for (int i = 0; i < 5; i++) {
        pass(&at, 500 * ms);
        daemon_says(&at, other, 4, 0);
    }
    assert_int_equal(at.orders[at.order_count - 1].epoch, 2);
    manager_says(&at, 1, 2, 1, no_gang);
    daemon_says(&at, other, 4, 0);
    const gy_names_effect *told = said(&at, GY_NAMES_ALLOCATIONS);
    assert_non_null(told);
    int lost = 0;
    for (size_t i = 0; i < told->allocation_count; i++) {
        const gy_allocation *allocation = &told->allocations[i];
        assert_true(allocation->lease != 0 || allocation->state == GY_ALLOCATION_GONE);
        lost += allocation->lease == 0 && allocation->daemon == first &&
                allocation->incarnation == 1;
        assert_true(allocation->lease != 0 || allocation->daemon == first);
    }
    assert_int_equal(lost, 1);
    finish(&at);
}

/* A new name server learns of a manager: that it ended, or nothing at all, or that it runs but
 * does not report. */
GY_TEST(a_new_name_server_hears_who_is_gone)
{
    static const int64_t replaced_ms[] = {0, 3000, 10000};
    for (int way = 0; way < 3; way++) {
        bench at = started();
        daemon_says(&at, 1, 4, 0);
        submit(&at, 1, 0, "");
        daemon_says(&at, 1, 4, 0);
        manager_says(&at, 1, 1, 0, no_gang);
        restart(&at);
        const int64_t began_ns = at.now_ns;
        at.are_gone = way == 0;
        while (count_orders(&at, GY_ORDER_MANAGER) < 2) {
            assert_true(at.now_ns - began_ns <= (replaced_ms[way] + 500) * ms);
            daemon_says(&at, way == 1 ? 2 : 1, 4, 0);
            pass(&at, count_orders(&at, GY_ORDER_MANAGER) < 2 ? 250 * ms : 0);
        }
        assert_true(at.now_ns - began_ns >= replaced_ms[way] * ms);
        /* Epoch 2 may have been used. */
        assert_int_equal(at.orders[at.order_count - 1].epoch, 3);
        finish(&at);
    }
}

/* A daemon refused an order with an older epoch: the name server loads the table again. If it
 * knows that epoch, or has it as the spare one, the refusal says nothing about a manager. */
GY_TEST(who_is_behind_the_times_reads_the_table_again)
{
    for (uint32_t known = 1; known < 4; known++) {
        bench at = started();
        daemon_says(&at, 1, 4, 0);
        submit(&at, 1, 0, "");
        daemon_says(&at, 1, 4, 0);
        manager_says(&at, 1, 1, 1, no_gang);
        restart(&at);
        manager_says(&at, 1, 1, 1, no_gang);
        at.known = known;
        daemon_says(&at, 1, 4, 0);
        const gy_names_effect *end = said(&at, GY_NAMES_END);
        assert_int_equal(end != NULL, known == 3);
        assert_true(end == NULL ? look(&at).epoch == known : end->status == GY_MISMATCH);
        gy_names_daemon daemon;
        assert_true(gy_names_daemon_at(at.names, 0, &daemon) && daemon.managers == 0);
        pass(&at, 100 * ms);
        daemon_says(&at, 1, 4, at.order_count); /* one such report is not a lost manager */
        assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 1);
        finish(&at);
    }
}

GY_TEST(a_manager_that_never_speaks_is_given_up)
{
    bench at = started();
    submit(&at, 1, 0, "gpu");
    daemon_says(&at, 2, 4, 0);
    pass(&at, 1000 * ms);
    assert_int_equal(at.order_count, 0); /* the daemon lacks the label */
    daemon_says(&at, 1, 4, 0);
    gy_status status = GY_OK;
    for (int i = 0; i < 200 && status == GY_OK; i++) {
        pass(&at, 250 * ms);
        daemon_says(&at, 1, 4, at.order_count); /* the order never arrives */
        gy_names_job job;
        assert_true(gy_names_job_at(at.names, 0, &job));
        status = job.status;
        at.order_count = GY_MIN(at.order_count, (size_t)(CELLS - 1));
    }
    assert_int_equal(status, GY_PEER);
    finish(&at);
}

/* A manager that waits a minute for its files is not silent; it may be killed. */
GY_TEST(a_manager_may_wait_for_its_files)
{
    bench at = {.now_ns = ms, .is_waiting = true};
    start(&at);
    daemon_says(&at, 1, 4, 0);
    submit(&at, 1, 0, "");
    for (int i = 0; i < 60; i++) {
        daemon_says(&at, 1, 4, 0);
        pass(&at, 1000 * ms);
    }
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 1);
    at.is_waiting = false;
    for (int i = 0; i < 12; i++) {
        daemon_says(&at, 1, 4, 0);
        pass(&at, 1000 * ms);
    }
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 2);
    at.is_waiting = true;
    tell(&at, (gy_names_event){.kind = GY_NAMES_KILL, .key = {5, 1}, .asker = 1});
    gy_names_job job = {.is_ended = false};
    for (int i = 0; i < 30 && !job.is_ended; i++) {
        daemon_says(&at, 1, 4, 0);
        pass(&at, 1000 * ms);
        assert_true(gy_names_find_job(at.names, (gy_key){5, 1}, &job));
    }
    assert_true(job.is_ended && job.status == GY_CANCELLED);
    finish(&at);
}

static void end_job(bench *at, gy_status status, uint32_t epoch)
{
    tell(at, (gy_names_event){.kind = GY_NAMES_JOB_END,
                              .key = {5, 1},
                              .epoch = epoch,
                              .status = status,
                              .reason = "host lacks libx.so"});
}

/* A host that cannot load the program does not end the job while there is another host. */
GY_TEST(what_one_host_lacks_another_may_have)
{
    bench at = {.now_ns = ms};
    gy_names_job job;
    start(&at);
    daemon_says(&at, 1, 4, 0);
    daemon_says(&at, 2, 4, 0);
    submit(&at, 1, 0, "");
    const uint64_t first = at.orders[0].daemon;
    end_job(&at, GY_UNSUPPORTED, 1);
    const gy_names_effect *over = said(&at, GY_NAMES_OVER);
    assert_true(over == NULL || over->status == GY_STATE);
    assert_int_equal(count_orders(&at, GY_ORDER_MANAGER), 2);
    assert_true(at.orders[1].daemon != first && at.orders[1].epoch == 2);
    end_job(&at, GY_UNSUPPORTED, 1); /* repeated until it is answered */
    assert_int_equal(said(&at, GY_NAMES_OVER)->status, GY_STATE);
    manager_says(&at, 1, 2, 8, no_gang); /* nor does the job get slots there */
    daemon_says(&at, at.orders[1].daemon, 4, 0);
    pass(&at, 300 * ms);
    for (size_t i = 0; i < at.order_count; i++) {
        assert_true(at.orders[i].kind != GY_ORDER_LEASE || at.orders[i].daemon != first);
    }
    end_job(&at, GY_UNSUPPORTED, 2); /* no host is left */
    assert_true(gy_names_find_job(at.names, (gy_key){5, 1}, &job));
    assert_true(job.is_ended && job.status == GY_UNSUPPORTED);
    assert_string_equal(job.reason, "host lacks libx.so");
    finish(&at);
}

/* The number of jobs for which a manager was ordered. */
static int jobs_started(const bench *at)
{
    uint64_t seen = 0; /* bits of their keys */
    for (size_t i = 0; i < at->order_count; i++) {
        seen |= at->orders[i].kind == GY_ORDER_MANAGER ? 1ull << at->orders[i].job.low : 0;
    }
    return __builtin_popcountll(seen & ~1ull);
}

/* Not all jobs that wait for the first daemon start there at once. */
GY_TEST(managers_of_a_daemon_are_bounded)
{
    bench at = {.now_ns = ms, .manager_max = 2};
    gy_names_job job;
    start(&at);
    for (uint64_t key = 1; key <= 5; key++) {
        submit(&at, key, 0, "");
    }
    assert_true(gy_names_find_job(at.names, (gy_key){5, 1}, &job));
    assert_string_equal(job.reason, "no daemon can run its manager: none is there");
    daemon_says(&at, 1, 4, 0);
    assert_int_equal(jobs_started(&at), 2); /* at once, since they were waiting */
    pass(&at, 1000 * ms);
    assert_int_equal(jobs_started(&at), 2);
    daemon_says(&at, 1, 4, 2); /* the daemon has not received their orders */
    pass(&at, 600 * ms);
    assert_int_equal(jobs_started(&at), 2);
    int waiting = 0;
    for (uint64_t key = 1; key <= 5; key++) {
        assert_true(gy_names_find_job(at.names, (gy_key){5, key}, &job));
        waiting +=
            strcmp(job.reason, "no daemon can run its manager: 1 with managers enough") == 0;
    }
    assert_int_equal(waiting, 3);
    daemon_says(&at, 2, 4, 0);
    pass(&at, 1000 * ms);
    assert_int_equal(jobs_started(&at), 4);
    daemon_says(&at, 1, 4, 0);
    tell(&at, (gy_names_event){.kind = GY_NAMES_JOB_END,
                               .key = at.orders[0].job,
                               .epoch = at.orders[0].epoch});
    at.orders[0] = (gy_control_order){0}; /* its daemon no longer lists it */
    daemon_says(&at, 1, 4, 0);
    daemon_says(&at, 2, 4, 0);
    pass(&at, 1000 * ms);
    assert_int_equal(jobs_started(&at), 4); /* the three, and a new one */
    finish(&at);
}

GY_TEST(drained_and_bad_daemons_get_nothing)
{
    bench at = started();
    daemon_says(&at, 1, 2, 0);
    submit(&at, 1, 0, "");
    submit(&at, 2, 0, "");
    daemon_says(&at, 1, 2, 0);
    manager_says(&at, 1, 1, 1, no_gang);
    manager_says(&at, 2, 1, 1, no_gang);
    daemon_says(&at, 1, 2, 0);
    for (uint64_t key = 1; key <= 2; key++) {
        uint64_t lease = 0;
        for (size_t i = 0; i < at.order_count; i++) {
            bool is_it = at.orders[i].kind == GY_ORDER_LEASE && at.orders[i].job.low == key;
            lease = is_it ? at.orders[i].lease : lease;
        }
        tell(&at, (gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                   .key = {5, key},
                                   .epoch = 1,
                                   .lease = lease,
                                   .is_bad = true,
                                   .reason = "three vertices failed"});
        daemon_says(&at, 1, 2, 0);
        gy_names_daemon daemon;
        assert_true(gy_names_daemon_at(at.names, 0, &daemon));
        assert_int_equal(daemon.is_drained, key == 2); /* a single job may be wrong */
        assert_int_equal(held_by(&at, key), 0);
    }
    restart(&at);
    gy_names_daemon daemon;
    assert_true(gy_names_daemon_at(at.names, 0, &daemon));
    assert_true(daemon.is_drained);
    tell(&at, (gy_names_event){.kind = GY_NAMES_DRAIN, .id = 1, .asker = 3});
    assert_true(gy_names_daemon_at(at.names, 0, &daemon));
    assert_false(daemon.is_drained);
    finish(&at);
}

/* The earlier of two lives sends its state from another address. */
static const char *twin_says(bench *at)
{
    const gy_daemon_state twin = {.daemon = 1,
                                  .incarnation = 1,
                                  .life = 1,
                                  .sequence = ++at->sequence,
                                  .slots = 2,
                                  .address = "elsewhere",
                                  .host = "one",
                                  .labels = ""};
    tell(at, (gy_names_event){.kind = GY_NAMES_DAEMON, .daemon = &twin});
    const gy_names_effect *note = said(at, GY_NAMES_NOTE);
    return note != NULL ? note->reason : NULL;
}

GY_TEST(two_of_one_identity_are_told_of)
{
    bench at = started();
    daemon_says(&at, 1, 2, 0);
    const gy_daemon_state later = {.daemon = 1,
                                   .incarnation = 1,
                                   .life = 2,
                                   .sequence = 1,
                                   .slots = 2,
                                   .address = "a",
                                   .host = "one",
                                   .labels = ""};
    tell(&at, (gy_names_event){.kind = GY_NAMES_DAEMON, .daemon = &later});
    /* One state may be a delayed message; more are logged, but not each time. */
    assert_null(twin_says(&at));
    assert_null(twin_says(&at));
    const char *reason = twin_says(&at);
    assert_non_null(reason);
    assert_non_null(strstr(reason, "two daemons have this identity"));
    assert_non_null(strstr(reason, "at a is accepted"));
    assert_non_null(strstr(reason, "at elsewhere is not"));
    for (int i = 0; i < 5; i++) {
        assert_null(twin_says(&at));
    }
    at.now_ns += 61000 * ms;
    assert_non_null(twin_says(&at));
    gy_names_daemon daemon;
    assert_true(gy_names_daemon_at(at.names, 0, &daemon));
    assert_string_equal(daemon.address, "a");
    finish(&at);
}

GY_TEST(whoever_loses_a_store_ends)
{
    for (int i = 0; i < 2; i++) {
        bench at = started();
        at.store_status = i == 0 ? GY_MISMATCH : GY_IO;
        submit(&at, 1, 0, "");
        assert_int_equal(said(&at, GY_NAMES_END)->status, at.store_status);
        assert_null(said(&at, GY_NAMES_ANSWER));
        /* Ended, so it has no effect. */
        tell(&at, (gy_names_event){.kind = GY_NAMES_SUBMIT, .asker = 7});
        finish(&at);
    }
}

/* ---- records of the table ---- */

GY_TEST(damaged_records_are_refused)
{
    bench at = started();
    submit(&at, 1, 0, "");
    gy_names_free(at.names);
    at.names = NULL;
    for (int i = 0; i < CELLS && at.table[i].version != 0; i++) {
        for (size_t byte = 0; byte < at.table[i].size_bytes; byte += 3) {
            at.table[i].data[byte] ^= 0x40;
            assert_ok(gy_names_new(&(gy_names_options){0}, &at.names));
            gy_status status = gy_names_load(at.names, at.table[i].key, at.table[i].version,
                                             at.table[i].data, at.table[i].size_bytes);
            assert_true(status == GY_FORMAT || status == GY_UNSUPPORTED);
            gy_names_free(at.names);
            at.table[i].data[byte] ^= 0x40;
        }
    }
    at.names = NULL;
    finish(&at);
}

/* From a version with shorter reasons. */
GY_TEST(a_record_of_the_first_version_is_read)
{
    bench at = started();
    submit(&at, 1, 7, "fast");
    int jobs = 0;
    for (int i = 0; i < CELLS && at.table[i].version != 0; i++) {
        names_record_head *head = (void *)at.table[i].data;
        if (head->kind == RECORD_JOB) {
            at.table[i].size_bytes -= NAMES_RECORD_FIRST_LESS;
            jobs++;
        }
        head->version = NAMES_RECORD_FIRST;
        head->checksum = gy_hash(at.table[i].data + sizeof(*head),
                                 at.table[i].size_bytes - sizeof(*head), head->kind);
    }
    assert_int_equal(jobs, 1);
    restart(&at);
    assert_int_equal(look(&at).weight, 7);
    assert_string_equal(look(&at).name, "j");
    finish(&at);
}

GY_TEST(a_record_of_another_version_is_refused)
{
    bench at = started();
    submit(&at, 1, 0, "");
    gy_names_free(at.names);
    for (int i = 0; i < CELLS && at.table[i].version != 0; i++) {
        char expected[160];
        at.table[i].data[4] = 9; /* behind its kind */
        (void)snprintf(expected, sizeof(expected),
                       "record %016llx%016llx of the table is of version 9, expected version 2",
                       (unsigned long long)at.table[i].key.high,
                       (unsigned long long)at.table[i].key.low);
        for (size_t size = at.table[i].size_bytes; size >= 16; size -= 8) {
            assert_ok(gy_names_new(&(gy_names_options){0}, &at.names));
            assert_status(gy_names_load(at.names, at.table[i].key, at.table[i].version,
                                        at.table[i].data, size),
                          GY_UNSUPPORTED);
            assert_string_equal(gy_error_text(), expected);
            gy_names_free(at.names);
        }
    }
    at.names = NULL;
    finish(&at);
}

GY_TEST(out_of_memory_is_output)
{
    bool has_failed = true;
    for (int64_t n = 1; has_failed; n++) {
        gy_names *names = NULL;
        gy_names_effects effects = {0};
        const gy_submit asked = {.spec = {1, 2}};
        const gy_daemon_state daemon = {
            .daemon = 1, .incarnation = 1, .life = 1, .sequence = 1, .slots = 2};
        const gy_manager_requests requests = {
            .job = {5, 1}, .epoch = 1, .sequence = 1, .slots = 2};
        gy_names_event events[] = {
            {.kind = GY_NAMES_BEGIN},
            {.kind = GY_NAMES_STORED, .key = {0x7972652D6E616D65u, 0}},
            {.kind = GY_NAMES_DAEMON, .daemon = &daemon},
            {.kind = GY_NAMES_SUBMIT, .key = {5, 1}, .submit = &asked, .asker = 1},
            {.kind = GY_NAMES_STORED, .key = {5, 1}},
            {.kind = GY_NAMES_STORED, .key = {5, 1}, .version = 1},
            {.kind = GY_NAMES_MANAGER, .manager = &requests}};
        gy_alloc_fail_after(n);
        gy_status status = gy_names_new(&(gy_names_options){0}, &names);
        for (size_t i = 0; i < GY_COUNT(events) && status == GY_OK; i++) {
            status = gy_names_step(names, &events[i], &effects);
            assert_true(status == GY_OK || effects.count == 0);
        }
        gy_alloc_fail_after(0);
        has_failed = status < 0;
        assert_true(status == GY_OK || status == GY_NOMEM);
        gy_names_free(names);
        gy_free(effects.items);
        assert_int_equal(gy_alloc_live(), 0);
    }
}

GY_TEST_MAIN(NULL, NULL)
