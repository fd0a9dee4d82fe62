/* Goal: the daemon's rules one by one: it syncs an epoch before it obeys it, numbers of orders,
 * slots, leases that expire, credit, retained and discarded files, fetches, a full disk,
 * failing memory. */
#include "control/daemon/daemon_priv.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

static const int64_t ms = 1000000;
static const gy_key job = {5, 1};

typedef struct bench {
    gy_daemon *daemon;
    gy_daemon_effects said;
    int64_t now_ns;
    uint64_t number; /* of orders */
} bench;

static void start(bench *at)
{
    const gy_daemon_options options = {.id = 1,
                                       .incarnation = 2,
                                       .life = 1,
                                       .slots = 3,
                                       .address = "a",
                                       .host = "h",
                                       .window_bytes = 64,
                                       .fetch_max = 1,
                                       .records_max = 2};
    assert_ok(gy_daemon_new(&options, &at->daemon));
}

static void tell(bench *at, gy_daemon_event event)
{
    event.now_ns = at->now_ns;
    event.job = event.job.low == 0 ? job : event.job;
    assert_ok(gy_daemon_step(at->daemon, &event, &at->said));
}

static const gy_daemon_effect *said(const bench *at, gy_daemon_effect_kind kind)
{
    for (size_t i = 0; i < at->said.count; i++) {
        if (at->said.items[i].kind == kind) {
            return &at->said.items[i];
        }
    }
    return NULL;
}

static void finish(bench *at)
{
    gy_daemon_free(at->daemon);
    gy_free(at->said.items);
    assert_int_equal(gy_alloc_live(), 0);
}

static void order(bench *at, gy_control_order what)
{
    what.daemon = 1;
    what.incarnation = what.incarnation == 0 ? 2 : what.incarnation;
    what.term = 1;
    what.number = what.number == 0 ? ++at->number : what.number;
    what.job = job;
    what.length_ns = 10000 * ms;
    tell(at, (gy_daemon_event){.kind = GY_DAEMON_ORDER, .order = &what});
}

static size_t leases(const bench *at)
{
    const gy_daemon_effect *effect = said(at, GY_DAEMON_STATE);
    return effect == NULL ? 99 : effect->state.lease_count;
}

static void attach(bench *at, uint32_t epoch)
{
    tell(at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .epoch = epoch});
    if (said(at, GY_DAEMON_SYNC) != NULL) {
        assert_null(said(at, GY_DAEMON_TELL_ATTACHED));
        tell(at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
    }
    assert_non_null(said(at, GY_DAEMON_TELL_ATTACHED));
}

/* Start a process in the executor of lease 1, for the manager of epoch 1. */
static void open_executor(bench *at)
{
    tell(at, (gy_daemon_event){.kind = GY_DAEMON_BEGIN});
    order(at, (gy_control_order){.kind = GY_ORDER_LEASE, .lease = 1, .count = 1, .epoch = 1});
    attach(at, 1);
    tell(at, (gy_daemon_event){
                 .kind = GY_DAEMON_OPEN, .epoch = 1, .lease = 1, .generation = 1, .bytes = 8});
    assert_non_null(said(at, GY_DAEMON_FORK_SERVER_START));
    assert_null(said(at, GY_DAEMON_EXECUTOR_START));
    tell(at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_UP, .epoch = 1});
    assert_non_null(said(at, GY_DAEMON_EXECUTOR_START));
}

GY_TEST(orders_are_taken_by_their_numbers)
{
    bench at = {.now_ns = ms};
    const gy_control_order two = {.kind = GY_ORDER_LEASE, .lease = 1, .count = 2, .epoch = 1};
    start(&at);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEGIN});
    order(&at, two);
    assert_int_equal(leases(&at), 2);
    order(&at, (gy_control_order){.kind = GY_ORDER_LEASE, .lease = 5, .count = 2, .epoch = 1});
    assert_int_equal(leases(&at), 2); /* all or none: only one slot is free */
    order(&at, (gy_control_order){.kind = GY_ORDER_END_LEASE, .lease = 1});
    assert_int_equal(leases(&at), 1);
    gy_control_order again = two;
    again.number = 1;
    order(&at, again);
    assert_int_equal(leases(&at), 1);
    assert_int_equal(said(&at, GY_DAEMON_STATE)->state.order, 3);
    again = (gy_control_order){
        .kind = GY_ORDER_LEASE, .lease = 7, .count = 1, .epoch = 1, .incarnation = 9};
    order(&at, again);
    assert_null(said(&at, GY_DAEMON_STATE)); /* the order is for another daemon */
    finish(&at);
}

GY_TEST(an_epoch_is_synced_before_it_is_obeyed)
{
    bench at = {.now_ns = ms};
    start(&at);
    open_executor(&at);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .epoch = 2});
    assert_int_equal(said(&at, GY_DAEMON_SYNC)->epoch, 2);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEAT, .epoch = 2});
    assert_int_equal(said(&at, GY_DAEMON_TELL_REFUSED)->status, GY_AGAIN);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED, .status = GY_IO});
    assert_int_equal(said(&at, GY_DAEMON_TELL_REFUSED)->status, GY_IO);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEAT, .epoch = 1});
    assert_null(said(&at, GY_DAEMON_TELL_REFUSED)); /* the current manager goes on */
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .epoch = 2});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
    assert_non_null(said(&at, GY_DAEMON_EXECUTOR_END));
    assert_non_null(said(&at, GY_DAEMON_FORK_SERVER_END));
    assert_null(said(&at, GY_DAEMON_TELL_ATTACHED));
    assert_int_equal(leases(&at), 1); /* until its process has ended */
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEAT, .epoch = 1});
    assert_int_equal(said(&at, GY_DAEMON_TELL_REFUSED)->status, GY_STATE);
    assert_int_equal(said(&at, GY_DAEMON_TELL_REFUSED)->started, 2);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN, .epoch = 1});
    assert_int_equal(leases(&at), 0);
    assert_non_null(said(&at, GY_DAEMON_TELL_ATTACHED));
    finish(&at);
}

/* The older manager's process may run a task that must not run twice at once. */
GY_TEST(a_new_manager_waits_for_the_older_ones_processes)
{
    bench at = {.now_ns = ms};
    start(&at);
    open_executor(&at);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .epoch = 2});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
    assert_non_null(said(&at, GY_DAEMON_EXECUTOR_END));
    assert_null(said(&at, GY_DAEMON_TELL_ATTACHED));
    order(&at, (gy_control_order){.kind = GY_ORDER_LEASE, .lease = 5, .count = 1, .epoch = 2});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .epoch = 2}); /* a repeated request */
    assert_null(said(&at, GY_DAEMON_TELL_ATTACHED));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEAT, .epoch = 2});
    assert_int_equal(said(&at, GY_DAEMON_TELL_REFUSED)->status, GY_AGAIN);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_EXECUTOR_DOWN, .lease = 1, .generation = 1});
    assert_int_equal(said(&at, GY_DAEMON_TELL_ATTACHED)->epoch, 2);
    assert_int_equal(said(&at, GY_DAEMON_TELL_ATTACHED)->state.lease_count, 1);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN, .epoch = 1});
    assert_null(said(&at, GY_DAEMON_TELL_ATTACHED)); /* answered only once */
    finish(&at);
}

/* A daemon was killed after syncing an epoch, and starts again without files of the job. */
GY_TEST(who_orders_for_an_older_epoch_hears_the_one_that_is_known)
{
    bench at = {.now_ns = ms};
    start(&at);
    assert_ok(gy_daemon_load(at.daemon, job, 5, 5, false));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEGIN});
    assert_int_equal(said(&at, GY_DAEMON_STATE)->state.manager_count, 0);
    for (int is_manager = 0; is_manager < 2; is_manager++) {
        order(&at, (gy_control_order){.kind = is_manager ? GY_ORDER_MANAGER : GY_ORDER_LEASE,
                                      .lease = is_manager ? 0 : 1,
                                      .count = !is_manager,
                                      .epoch = 4});
        const gy_daemon_state *told = &said(&at, GY_DAEMON_STATE)->state;
        assert_int_equal(told->lease_count, 0);
        assert_int_equal(told->manager_count, 1);
        assert_true(told->managers[0].is_known && !told->managers[0].is_gone);
        assert_int_equal(told->managers[0].epoch, 5);
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_NAMES_UP});
        /* Reported once. */
        assert_int_equal(said(&at, GY_DAEMON_STATE)->state.manager_count, 0);
    }
    order(&at, (gy_control_order){.kind = GY_ORDER_LEASE, .lease = 2, .count = 1, .epoch = 5});
    assert_int_equal(leases(&at), 1);
    assert_int_equal(said(&at, GY_DAEMON_STATE)->state.manager_count, 0);
    finish(&at);
}

GY_TEST(a_manager_is_started_once_an_epoch)
{
    bench at = {.now_ns = ms};
    start(&at);
    assert_ok(gy_daemon_load(at.daemon, job, 3, 3, false));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEGIN});
    order(&at,
          (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 3}); /* from an earlier life */
    assert_int_equal(said(&at, GY_DAEMON_STATE)->state.manager_count, 0);
    order(&at, (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 4});
    assert_int_equal(said(&at, GY_DAEMON_STATE)->state.manager_count, 1);
    assert_null(said(&at, GY_DAEMON_MANAGER_START));
    assert_int_equal(said(&at, GY_DAEMON_SYNC)->started, 4);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
    assert_int_equal(said(&at, GY_DAEMON_MANAGER_START)->epoch, 4);
    order(&at, (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 4});
    assert_null(said(&at, GY_DAEMON_MANAGER_START));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_MANAGER_WAITS, .epoch = 4});
    assert_true(said(&at, GY_DAEMON_STATE)->state.managers[0].is_waiting);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_MANAGER_RUNS, .epoch = 4});
    assert_false(said(&at, GY_DAEMON_STATE)->state.managers[0].is_waiting);
    attach(&at, 5); /* another manager exists on another host */
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_MANAGER_DOWN, .epoch = 4});
    assert_int_equal(said(&at, GY_DAEMON_STATE)->state.manager_count, 0);
    finish(&at);
}

/* Two epochs arrive during one sync, the later one first; the next sync covers both. */
GY_TEST(a_manager_of_an_older_epoch_is_not_started)
{
    bench at = {.now_ns = ms};
    start(&at);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEGIN});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .epoch = 3});
    assert_int_equal(said(&at, GY_DAEMON_SYNC)->epoch, 3);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .epoch = 5});
    order(&at, (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 4});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
    assert_int_equal(said(&at, GY_DAEMON_SYNC)->epoch, 5);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
    assert_null(said(&at, GY_DAEMON_MANAGER_START));
    assert_non_null(said(&at, GY_DAEMON_TELL_ATTACHED));
    const gy_daemon_state *told = &said(&at, GY_DAEMON_STATE)->state;
    assert_int_equal(told->manager_count, 1);
    assert_true(told->managers[0].is_known && told->managers[0].epoch == 5);
    finish(&at);
}

GY_TEST(a_manager_that_ended_is_told_until_another_is_known)
{
    bench at = {.now_ns = ms};
    start(&at);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEGIN});
    order(&at, (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 4});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_MANAGER_DOWN, .epoch = 4, .signal = SIGSEGV});
    const gy_daemon_state *told = &said(&at, GY_DAEMON_STATE)->state;
    assert_int_equal(told->manager_count, 1);
    assert_true(told->managers[0].is_gone && told->managers[0].epoch == 4);
    assert_int_equal(told->managers[0].signal, SIGSEGV);
    attach(&at, 5);
    assert_int_equal(said(&at, GY_DAEMON_STATE)->state.manager_count, 0);
    finish(&at);
}

GY_TEST(a_silent_managers_leases_and_files_go)
{
    bench at = {.now_ns = ms};
    start(&at);
    open_executor(&at);
    at.now_ns += 9000 * ms;
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_BEAT, .epoch = 1});
    at.now_ns += 9000 * ms;
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
    assert_null(said(&at, GY_DAEMON_EXECUTOR_END));
    at.now_ns += 1500 * ms;
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
    assert_non_null(said(&at, GY_DAEMON_EXECUTOR_END));
    assert_null(said(&at, GY_DAEMON_DISCARD));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_EXECUTOR_DOWN, .lease = 1, .generation = 1});
    assert_int_equal(leases(&at), 0);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
    assert_non_null(said(&at, GY_DAEMON_FORK_SERVER_END));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN, .epoch = 1});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
    assert_non_null(said(&at, GY_DAEMON_DISCARD));
    for (uint64_t other = 2; other < 4; other++) { /* too many records: the oldest is deleted */
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .job = {5, other}, .epoch = 1});
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED, .job = {5, other}});
    }
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
    assert_non_null(said(&at, GY_DAEMON_FORGET));
    assert_int_equal(said(&at, GY_DAEMON_FORGET)->job.low, 1);
    finish(&at);
}

/* The host was suspended: messages that its silent manager sends later do not prevent the
 * lease's end. */
GY_TEST(a_lease_that_is_over_is_not_renewed)
{
    for (int attaches = 0; attaches < 2; attaches++) {
        bench at = {.now_ns = ms};
        start(&at);
        open_executor(&at);
        at.now_ns += 10000 * ms;
        tell(&at, (gy_daemon_event){.kind = attaches ? GY_DAEMON_ATTACH : GY_DAEMON_BEAT,
                                    .epoch = 1});
        assert_non_null(said(&at, GY_DAEMON_EXECUTOR_END));
        assert_non_null(said(&at, GY_DAEMON_TELL_LEASE_GONE));
        tell(&at,
             (gy_daemon_event){.kind = GY_DAEMON_EXECUTOR_DOWN, .lease = 1, .generation = 1});
        assert_int_equal(leases(&at), 0);
        finish(&at);
    }
}

GY_TEST(bytes_pass_as_far_as_there_is_credit)
{
    bench at = {.now_ns = ms};
    gy_daemon_event of_executor = {.lease = 1, .generation = 1, .epoch = 1, .bytes = 20};
    start(&at);
    open_executor(&at);
    of_executor.kind = GY_DAEMON_EXECUTOR_READY;
    tell(&at, of_executor);
    assert_int_equal(said(&at, GY_DAEMON_RELAY_UP)->bytes, 8);
    of_executor.kind = GY_DAEMON_CREDIT;
    tell(&at, of_executor);
    assert_int_equal(said(&at, GY_DAEMON_RELAY_UP)->bytes, 12);
    of_executor.kind = GY_DAEMON_DOWN;
    of_executor.bytes = 40;
    tell(&at, of_executor);
    assert_int_equal(said(&at, GY_DAEMON_RELAY_DOWN)->bytes, 40);
    of_executor.kind = GY_DAEMON_EXECUTOR_TOOK;
    tell(&at, of_executor);
    assert_int_equal(said(&at, GY_DAEMON_TELL_CREDIT)->bytes, 40);
    of_executor.kind = GY_DAEMON_DOWN;
    of_executor.bytes = 65; /* more than its window */
    tell(&at, of_executor);
    assert_null(said(&at, GY_DAEMON_RELAY_DOWN));
    assert_int_equal(said(&at, GY_DAEMON_TELL_REFUSED)->status, GY_LIMIT);
    assert_non_null(said(&at, GY_DAEMON_EXECUTOR_END));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_EXECUTOR_DOWN, .lease = 1, .generation = 1});
    assert_non_null(said(&at, GY_DAEMON_TELL_EXECUTOR_GONE));
    tell(&at,
         (gy_daemon_event){.kind = GY_DAEMON_OPEN, .epoch = 1, .lease = 1, .generation = 2});
    assert_non_null(said(&at, GY_DAEMON_EXECUTOR_START)); /* the lease is unchanged */
    finish(&at);
}

static void fetch(bench *at, uint64_t number, uint64_t content)
{
    const gy_wanted_section section = {.content = {content, 1}, .peer = 4, .address = "p"};
    tell(at, (gy_daemon_event){
                 .kind = GY_DAEMON_FETCH, .epoch = 1, .number = number, .section = &section});
}

static void fetched(bench *at, uint64_t ticket, gy_status status)
{
    tell(at, (gy_daemon_event){.kind = GY_DAEMON_FETCHED, .ticket = ticket, .status = status});
}

static size_t told(const bench *at, gy_status status)
{
    size_t count = 0;
    for (size_t i = 0; i < at->said.count; i++) {
        count += at->said.items[i].kind == GY_DAEMON_TELL_FETCHED &&
                 at->said.items[i].status == status;
    }
    return count;
}

GY_TEST(a_section_is_fetched_once_for_all)
{
    bench at = {.now_ns = ms};
    start(&at);
    open_executor(&at);
    fetch(&at, 1, 100);
    assert_int_equal(said(&at, GY_DAEMON_FETCH_START)->ticket, 1);
    fetch(&at, 2, 100);
    fetch(&at, 3, 200); /* one transfer at a time */
    assert_null(said(&at, GY_DAEMON_FETCH_START));
    fetched(&at, 1, GY_MISMATCH); /* tried again */
    assert_int_equal(said(&at, GY_DAEMON_FETCH_START)->ticket, 2);
    /* Now in a transfer of its own. */
    assert_int_equal(said(&at, GY_DAEMON_FETCH_START)->lot_left, 0);
    fetched(&at, 2, GY_OK);
    assert_int_equal(told(&at, GY_OK), 2);
    assert_int_equal(said(&at, GY_DAEMON_FETCH_START)->ticket, 3);
    fetched(&at, 3, GY_NOTFOUND);
    assert_int_equal(told(&at, GY_NOTFOUND), 1);
    fetch(&at, 4, 100);
    assert_int_equal(told(&at, GY_OK), 1);
    fetch(&at, 5, 300);
    fetched(&at, 4, GY_PEER); /* the peer may come back */
    assert_int_equal(told(&at, GY_PEER), 0);
    at.now_ns += 3000 * ms;
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
    assert_int_equal(said(&at, GY_DAEMON_FETCH_START)->ticket, 5);
    fetched(&at, 5, GY_PEER);
    assert_int_equal(told(&at, GY_PEER), 1);
    fetch(&at, 6, 400);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_UNFETCH, .epoch = 1, .number = 6});
    assert_int_equal(said(&at, GY_DAEMON_FETCH_STOP)->ticket, 6);
    finish(&at);
}

/* Small sections of one peer that are requested together share a transfer; each ends by itself,
 * and the transfer ends with the last. */
GY_TEST(small_sections_come_together)
{
    enum { ASKED = 60 };
    bench at = {.now_ns = ms};
    uint64_t alone = 0;
    size_t starts = 0;
    start(&at);
    open_executor(&at);
    for (uint64_t i = 0; i < ASKED; i++) {
        const gy_wanted_section section = {.content = {500 + i, 1},
                                           .peer = i == 7 ? 5 : 4,
                                           .address = i == 7 ? "q" : "p",
                                           .size_bytes = i == 9 ? GY_DAEMON_LOT_ONE + 1 : i};
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FETCH,
                                    .epoch = 1,
                                    .number = i,
                                    .is_more = i + 1 < ASKED,
                                    .section = &section});
    }
    for (size_t i = 0; i < at.said.count; i++) { /* one transfer at a time */
        const gy_daemon_effect *effect = &at.said.items[i];
        if (effect->kind == GY_DAEMON_FETCH_START) {
            assert_int_equal(effect->lot_left, GY_DAEMON_LOT - 1 - starts);
            assert_int_equal(effect->section.peer, 4);
            assert_true(effect->section.size_bytes <= GY_DAEMON_LOT_ONE);
            assert_int_equal(effect->ticket, ++starts);
        }
    }
    assert_int_equal(starts, GY_DAEMON_LOT);
    for (uint64_t ticket = 2; ticket <= GY_DAEMON_LOT; ticket++) {
        fetched(&at, ticket, ticket == 3 ? GY_NOTFOUND : GY_OK);
        assert_int_equal(told(&at, GY_NOTFOUND), ticket == 3);
        assert_int_equal(told(&at, GY_OK), ticket != 3);
        assert_null(said(&at, GY_DAEMON_FETCH_START));
    }
    fetched(&at, 1, GY_MISMATCH); /* it is tried again, and is the last to end */
    alone = said(&at, GY_DAEMON_FETCH_START)->ticket;
    assert_int_equal(said(&at, GY_DAEMON_FETCH_START)->section.content.high, 500);
    assert_int_equal(said(&at, GY_DAEMON_FETCH_START)->lot_left, 0);
    fetched(&at, alone, GY_OK);
    for (uint64_t next = alone + 1; next < alone + 1 + ASKED - GY_DAEMON_LOT; next++) {
        fetched(&at, next, GY_OK);
    }
    assert_null(said(&at, GY_DAEMON_FETCH_START)); /* all sections have arrived */
    fetch(&at, 1000, 500 + ASKED - 1);
    assert_int_equal(told(&at, GY_OK), 1);
    finish(&at);
}

GY_TEST(a_full_disk_takes_no_new_work)
{
    bench at = {.now_ns = ms};
    start(&at);
    open_executor(&at);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_DISK, .reason = "disk full"});
    assert_string_equal(said(&at, GY_DAEMON_STATE)->state.trouble, "disk full");
    order(&at, (gy_control_order){.kind = GY_ORDER_LEASE, .lease = 5, .count = 1, .epoch = 1});
    assert_int_equal(leases(&at), 1);
    order(&at, (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 2});
    assert_int_equal(said(&at, GY_DAEMON_STATE)->state.manager_count, 0);
    fetch(&at, 1, 100);
    assert_int_equal(told(&at, GY_LIMIT), 1);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_DISK, .reason = ""});
    order(&at, (gy_control_order){.kind = GY_ORDER_LEASE, .lease = 7, .count = 1, .epoch = 1});
    assert_int_equal(leases(&at), 2);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_OVER, .epoch = 1}); /* of the whole job */
    assert_non_null(said(&at, GY_DAEMON_FORK_SERVER_END));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN, .epoch = 1});
    assert_non_null(said(&at, GY_DAEMON_DISCARD));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_STOP});
    assert_non_null(said(&at, GY_DAEMON_BYE));
    finish(&at);
}

/* Files of a failed job are retained as long as those of a manager that fell silent, and are
 * there for a manager that resumes the job. */
GY_TEST(what_failed_is_kept_a_while)
{
    for (int is_resumed = 0; is_resumed < 2; is_resumed++) {
        bench at = {.now_ns = ms};
        start(&at);
        open_executor(&at);
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_OVER, .epoch = 1, .is_kept = true});
        assert_non_null(said(&at, GY_DAEMON_FORK_SERVER_END));
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN, .epoch = 1});
        assert_null(said(&at, GY_DAEMON_DISCARD));
        order(&at, (gy_control_order){.kind = GY_ORDER_END_LEASE, .lease = 1});
        at.now_ns += 9000 * ms;
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
        assert_null(said(&at, GY_DAEMON_DISCARD));
        if (is_resumed) {
            order(&at,
                  (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 2, .is_resumed = true});
            tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
            assert_true(said(&at, GY_DAEMON_MANAGER_START)->is_resumed);
            attach(&at, 2);
        }
        at.now_ns += 2000 * ms;
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
        assert_int_equal(said(&at, GY_DAEMON_DISCARD) == NULL, is_resumed);
        finish(&at);
    }
}

/* The user may have them deleted earlier; a request with an old epoch has no effect. */
GY_TEST(what_is_forgotten_goes_at_once)
{
    for (uint32_t epoch = 1; epoch < 3; epoch++) {
        bench at = {.now_ns = ms};
        start(&at);
        open_executor(&at);
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_OVER, .epoch = 1, .is_kept = true});
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN, .epoch = 1});
        order(&at, (gy_control_order){.kind = GY_ORDER_END_LEASE, .lease = 1});
        order(&at,
              (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 2, .is_forgotten = true});
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
        assert_true(said(&at, GY_DAEMON_MANAGER_START)->is_forgotten);
        tell(&at, (gy_daemon_event){.kind = GY_DAEMON_MANAGER_DOWN, .epoch = 2});
        assert_null(said(&at, GY_DAEMON_DISCARD));
        order(&at, (gy_control_order){.kind = GY_ORDER_FORGET, .epoch = epoch});
        assert_int_equal(said(&at, GY_DAEMON_DISCARD) != NULL, epoch == 2);
        finish(&at);
    }
}

/* A program's next job has the same manager and epoch, on another connection. */
GY_TEST(the_next_job_waits_for_the_last_ones_end)
{
    bench at = {.now_ns = ms};
    start(&at);
    open_executor(&at);
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_OVER, .epoch = 1});
    assert_non_null(said(&at, GY_DAEMON_FORK_SERVER_END));
    assert_null(said(&at, GY_DAEMON_DISCARD));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_ATTACH, .epoch = 1});
    assert_null(said(&at, GY_DAEMON_TELL_ATTACHED));
    assert_null(said(&at, GY_DAEMON_TELL_REFUSED));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN, .epoch = 1});
    const gy_daemon_effect *gone = said(&at, GY_DAEMON_DISCARD);
    assert_non_null(gone);
    assert_non_null(said(&at, GY_DAEMON_TELL_ATTACHED));
    assert_true(said(&at, GY_DAEMON_TELL_ATTACHED) > gone);
    assert_int_equal(said(&at, GY_DAEMON_TELL_ATTACHED)->state.lease_count, 1);
    tell(&at, (gy_daemon_event){
                  .kind = GY_DAEMON_OPEN, .epoch = 1, .lease = 1, .generation = 2, .bytes = 8});
    assert_non_null(said(&at, GY_DAEMON_FORK_SERVER_START));
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_UP, .epoch = 1});
    assert_non_null(said(&at, GY_DAEMON_EXECUTOR_START));
    at.now_ns += 2 * ms; /* and its files stay */
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_TIMER});
    assert_null(said(&at, GY_DAEMON_DISCARD));
    finish(&at);
}

GY_TEST(wrong_options_and_no_memory_are_output)
{
    gy_daemon *daemon = NULL;
    gy_daemon_options options = {.id = 1, .incarnation = 2, .slots = 3};
    assert_status(gy_daemon_new(&options, &daemon), GY_ARG);
    options.life = 1;
    options.slots = GY_CONTROL_SLOTS_MAX + 1;
    assert_status(gy_daemon_new(&options, &daemon), GY_ARG);
    options.slots = 2;
    const gy_control_order lease = {.daemon = 1,
                                    .incarnation = 2,
                                    .term = 1,
                                    .number = 1,
                                    .lease = 1,
                                    .count = 1,
                                    .job = job,
                                    .epoch = 1};
    const gy_wanted_section section = {.content = {1, 1}};
    const gy_daemon_event events[] = {
        {.kind = GY_DAEMON_BEGIN},
        {.kind = GY_DAEMON_ORDER, .order = &lease},
        {.kind = GY_DAEMON_ATTACH, .job = job, .epoch = 1},
        {.kind = GY_DAEMON_SYNCED, .job = job},
        {.kind = GY_DAEMON_OPEN, .job = job, .epoch = 1, .lease = 1, .generation = 1},
        {.kind = GY_DAEMON_FETCH, .job = job, .epoch = 1, .section = &section}};
    bool has_failed = true;
    for (int64_t n = 1; has_failed; n++) {
        gy_daemon_effects effects = {0};
        daemon = NULL;
        gy_alloc_fail_after(n);
        gy_status status = gy_daemon_new(&options, &daemon);
        for (size_t i = 0; i < GY_COUNT(events) && status == GY_OK; i++) {
            status = gy_daemon_step(daemon, &events[i], &effects);
            assert_true(status == GY_OK || effects.count == 0);
        }
        gy_alloc_fail_after(0);
        has_failed = status < 0;
        assert_true(status == GY_OK || status == GY_NOMEM);
        gy_daemon_free(daemon);
        gy_free(effects.items);
        assert_int_equal(gy_alloc_live(), 0);
    }
}

GY_TEST_MAIN(NULL, NULL)

/* ---- The row of a job ---- */

/* The fault of a running job's row after `change`, and whether the next step of a development
 * build ends with it. */
static void expect_fault(void (*change)(job_row *row), const char *expected)
{
    bench at = {.now_ns = ms};
    start(&at);
    open_executor(&at);
    order(&at, (gy_control_order){.kind = GY_ORDER_MANAGER, .epoch = 2});
    tell(&at, (gy_daemon_event){.kind = GY_DAEMON_SYNCED});
    assert_non_null(said(&at, GY_DAEMON_MANAGER_START));
    const uint32_t index = gy_daemon_job(at.daemon, job);
    assert_null(gy_daemon_job_fault(at.daemon, index));
    change(&at.daemon->jobs[index]);
    const char *fault = gy_daemon_job_fault(at.daemon, index);
    assert_non_null(fault);
    assert_non_null(strstr(fault, expected));
#ifdef GYRE_DEEP
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const gy_daemon_event beat = {.kind = GY_DAEMON_NAMES_UP, .job = job, .now_ns = ms};
        _exit(gy_daemon_step(at.daemon, &beat, &at.said) == GY_OK ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
#endif
    finish(&at);
}

static void run_no_sync(job_row *row)
{
    row->want_epoch++;
}

static void forget_the_epoch(job_row *row)
{
    row->hosted_epoch = 1;
}

static void order_without_sync(job_row *row)
{
    row->hosted = HOSTED_SYNCING;
}

static void lose_the_files(job_row *row)
{
    row->has_files = false;
}

static void start_an_old_fork_server(job_row *row)
{
    row->fork_server = FORK_SERVER_UP;
}

static void keep_without_end(job_row *row)
{
    row->is_kept = true;
}

static void miscount(job_row *row)
{
    row->leases++;
}

static void free_in_use(job_row *row)
{
    row->key = (gy_key){0};
}

GY_TEST(a_broken_row_of_a_job_is_caught)
{
    expect_fault(run_no_sync, "no sync is under way");
    expect_fault(forget_the_epoch, "not of the newest epoch");
    expect_fault(order_without_sync, "waits for no sync");
    expect_fault(lose_the_files, "has no files");
    expect_fault(start_an_old_fork_server, "a fork server runs");
    expect_fault(keep_without_end, "has not ended");
    expect_fault(miscount, "number of leases");
    expect_fault(free_in_use, "a free row");
}
