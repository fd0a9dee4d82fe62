/*
 * Goal: ranks of several hosts exchange messages as those of one do, and a rank that sleeps
 * wakes at once, whoever has news for it: a rank of its own host, in this process or another,
 * or one of another host. No nap ends by its time.
 */
#include "transport/segment_priv.h"

#include <sched.h>
#include <sys/wait.h>

#include "spread_kit.h"
#include "transport_kit.h"

enum { NAP_NS = 2000000000, PASSES = 2000, CHILD_PASSES = 200 };

static void drive(gy_transport **ranks, int count)
{
    for (int rank = 0; rank < count; rank++) {
        (void)gy_transport_progress(ranks[rank]);
    }
}

/* All in one thread. */
static void join_all(gy_transport **ranks, int count)
{
    gy_deadline deadline = gy_deadline_after(30);
    for (int joined = 0; joined < count * count;) {
        joined = 0;
        drive(ranks, count);
        for (int i = 0; i < count * count; i++) {
            gy_transport *rank = ranks[i / count];
            joined += rank->ops->has_joined(rank, ranks[i % count]->rank);
        }
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns);
    }
}

GY_TEST(messages_arrive_whole_between_all)
{
    static const spread overs[] = {
        {.hosts = 2, .counts = {2, 2}, .ring_bytes = 4096},
        {.hosts = 2, .counts = {1, 3}, .ring_bytes = 4096},
        {.hosts = 4, .counts = {1, 1, 1, 1}},
    };
    for (size_t i = 0; i < GY_COUNT(overs); i++) {
        gy_transport *ranks[RANKS];
        assert_ok(spread_open(&overs[i], ranks));
        run_on(ranks, RANKS, exchange_all);
    }
}

/* Say that a rank sleeps; sleep, unless it was rung. */
static void nap(gy_transport *rank)
{
    rank->ops->nap(rank, NAP_NS);
}

static void announce(gy_transport *rank)
{
    rank->ops->nap(rank, 0);
}

/* Rank 0 waits for one of its host and one of another; either message ends its nap. */
GY_TEST(both_ways_end_a_nap)
{
    const spread over = {.hosts = 2, .counts = {2, 2}};
    for (int from = 1; from <= 2; from++) {
        gy_transport *ranks[RANKS];
        gy_transfer near, far, send;
        char bytes[3] = {0};
        assert_ok(spread_open(&over, ranks));
        join_all(ranks, RANKS);
        assert_ok(gy_transport_recv(ranks[0], 1, 5, &bytes[0], 1, &near));
        assert_ok(gy_transport_recv(ranks[0], 2, 5, &bytes[1], 1, &far));
        announce(ranks[0]);
        assert_ok(gy_transport_send(ranks[from], 0, 5, &bytes[2], 1, &send));
        nap(ranks[0]);
        assert_int_equal(ranks[0]->naps.timed_out, 0);
        (void)gy_transport_progress(ranks[0]);
        assert_int_equal(from == 1 ? near.status : far.status, GY_OK);
        assert_int_equal(from == 1 ? far.status : near.status, GY_AGAIN);
        /* With nothing from another host under way, what it says is still heard. */
        gy_transport_cancel(ranks[0], &near);
        gy_transport_cancel(ranks[0], &far);
        announce(ranks[0]);
        gy_transport_abort(ranks[3], &(gy_error){.status = GY_CANCELLED, .rank = -1});
        nap(ranks[0]);
        assert_int_equal(ranks[0]->naps.timed_out, 0);
        assert_status(gy_transport_check(ranks[0], -1), GY_CANCELLED);
        for (int rank = 0; rank < RANKS; rank++) {
            gy_transport_close(ranks[rank]);
        }
    }
}

/* Wait for a message by naps alone. */
static gy_status sleep_until(gy_transport *rank, gy_transfer *receive)
{
    gy_deadline deadline = gy_deadline_after(60);
    while (receive->status == GY_AGAIN) {
        if (gy_transport_progress(rank) == GY_AGAIN && receive->status == GY_AGAIN) {
            nap(rank);
        }
        if (gy_now_ns(rank->env) > deadline.at_ns) {
            return GY_TIMEOUT;
        }
    }
    return receive->status;
}

/* A word goes round all ranks, within hosts and between them. */
static void pass_on(gy_transport *transport, int *failures)
{
    int before = (transport->rank + RANKS - 1) % RANKS, after = (transport->rank + 1) % RANKS;
    gy_transfer send, receive;
    EXPECT(gy_transport_meet(transport, gy_deadline_after(30)) == GY_OK);
    gy_nap_count start = transport->naps; /* who met the others may have waited in vain */
    gy_transfer never;
    char nothing = 0;
    EXPECT(gy_transport_recv(transport, (transport->rank + 2) % RANKS, 2, &nothing, 1,
                             &never) == GY_OK);
    for (uint64_t pass = 0; pass < PASSES && *failures == 0; pass++) {
        uint64_t got = 0, mine = pass * RANKS + (uint64_t)transport->rank;
        if (pass > 0 || transport->rank > 0) {
            EXPECT(gy_transport_recv(transport, before, 1, &got, sizeof(got), &receive) ==
                   GY_OK);
            EXPECT(sleep_until(transport, &receive) == GY_OK && got + 1 == mine);
        }
        EXPECT(transport->naps.timed_out == start.timed_out);
        EXPECT(gy_transport_send(transport, after, 1, &mine, sizeof(mine), &send) == GY_OK);
        EXPECT(gy_transport_finish(transport, &send, gy_deadline_after(60)) == GY_OK);
    }
    if (transport->rank == 0 && *failures == 0) {
        uint64_t last = 0;
        EXPECT(gy_transport_recv(transport, before, 1, &last, sizeof(last), &receive) == GY_OK);
        EXPECT(sleep_until(transport, &receive) == GY_OK && last + 1 == PASSES * RANKS);
    }
    gy_transport_cancel(transport, &never);
    printf("rank %d: %llu naps, %llu ended by their time\n", transport->rank,
           (unsigned long long)(transport->naps.all - start.all),
           (unsigned long long)(transport->naps.timed_out - start.timed_out));
}

GY_TEST(no_nap_ends_by_its_time)
{
    const spread over = {.hosts = 2, .counts = {2, 2}};
    gy_transport *ranks[RANKS];
    assert_ok(spread_open(&over, ranks));
    run_on(ranks, RANKS, pass_on);
}

/* In a child: rank 1, which sends whenever rank 0, its parent, is asleep in the kernel. */
static int send_to_sleeper(int segment)
{
    gy_transport *me = NULL;
    gy_transport_segment *seen = NULL;
    gy_deadline deadline = gy_deadline_after(60);
    if (gy_transport_shm_open(segment, 1, gy_env_real(), &me) != GY_OK ||
        gy_transport_segment_map(segment, &seen) != GY_OK) {
        return 3;
    }
    const gy_rank_state *sleeper = gy_transport_segment_state(seen, 0);
    for (int pass = 0; pass < CHILD_PASSES; pass++) {
        gy_transfer send;
        while (atomic_load_explicit(&sleeper->sleep, memory_order_acquire) !=
                   GY_SLEEP_ON_PIPE ||
               gy_transport_process_state(getppid()) != 'S') {
            if (gy_now_ns(gy_env_real()) > deadline.at_ns) {
                return 4;
            }
            sched_yield();
        }
        if (gy_transport_send(me, 0, 1, &pass, sizeof(pass), &send) != GY_OK ||
            gy_transport_finish(me, &send, deadline) != GY_OK) {
            return 5;
        }
    }
    gy_transport_segment_drop(seen);
    gy_transport_close(me);
    return 0;
}

GY_TEST(another_process_ends_a_nap)
{
    static const int32_t hosts[] = {0, 0, 1};
    const gy_transport_segment_options options = {.ranks = 2, .run_size = 3, .host_cores = 1};
    gy_address addresses[3];
    int listeners[3], segment = -1, status = 0;
    gy_transport *near = NULL, *far = NULL, *ranks[2];
    gy_transfer receive, never;
    char byte = 0;
    assert_ok(gy_transport_segment_make(&options, &segment));
    assert_ok(spread_listen(3, addresses, listeners));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(send_to_sleeper(segment));
    }
    gy_tcp_options way = {
        .rank = 0, .size = 3, .addresses = addresses, .hosts = hosts, .listener = listeners[0]};
    assert_ok(gy_transport_shm_open(segment, 0, gy_env_real(), &near));
    assert_ok(gy_tcp_open(&way, gy_env_real(), &far));
    assert_ok(gy_transport_hosts_open(near, far, hosts, &ranks[0]));
    way.rank = 2;
    way.listener = listeners[2];
    assert_ok(gy_tcp_open(&way, gy_env_real(), &ranks[1]));
    gy_deadline deadline = gy_deadline_after(30);
    while (!ranks[0]->ops->has_joined(ranks[0], 2) || !ranks[1]->ops->has_joined(ranks[1], 0)) {
        drive(ranks, 2);
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns);
    }
    assert_ok(gy_transport_recv(ranks[0], 2, 9, &byte, 1, &never));
    for (int pass = 0; pass < CHILD_PASSES; pass++) {
        int got = -1;
        assert_ok(gy_transport_recv(ranks[0], 1, 1, &got, sizeof(got), &receive));
        assert_ok(sleep_until(ranks[0], &receive));
        assert_int_equal(got, pass);
    }
    assert_int_equal(ranks[0]->naps.timed_out, 0);
    assert_true(ranks[0]->naps.all >= CHILD_PASSES);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    gy_transport_close(ranks[0]);
    gy_transport_close(ranks[1]);
    close(listeners[1]);
    close(segment);
}

GY_TEST_MAIN(NULL, NULL)
