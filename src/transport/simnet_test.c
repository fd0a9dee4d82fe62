/* Goal: the transport's guarantees hold over simulated links: order, delays, partitions,
 * crashes.
 */
#include "transport/simnet.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 3 };

static gy_sim *sim;
static gy_transport *ranks[RANKS];

static void start(gy_sim_link link)
{
    gy_sim_options options = {.seed = 5, .nodes = RANKS, .link = link};
    assert_ok(gy_sim_new(&options, &sim));
    for (int rank = 0; rank < RANKS; rank++) {
        assert_ok(gy_transport_simnet_open(sim, rank, &ranks[rank]));
    }
}

static void end(void)
{
    for (int rank = 0; rank < RANKS; rank++) {
        gy_transport_close(ranks[rank]);
    }
    gy_sim_free(sim);
    assert_int_equal(gy_alloc_live(), 0);
}

static gy_deadline in_seconds(double seconds)
{
    return (gy_deadline){gy_sim_now_ns(sim) + (int64_t)(seconds * 1e9)};
}

GY_TEST(messages_are_matched_over_jitter)
{
    start((gy_sim_link){.latency_ns = 50000, .jitter_ns = 40000, .bytes_per_second = 1e9});
    int values[20], got[20];
    gy_transfer sends[20], receives[20];
    assert_ok(gy_transport_meet(ranks[0], in_seconds(1)));
    for (int i = 0; i < 20; i++) {
        values[i] = i;
        assert_ok(gy_transport_send(ranks[0], 1, (uint64_t)(i % 2), &values[i], sizeof(int),
                                    &sends[i]));
        assert_ok(gy_transport_finish(ranks[0], &sends[i], in_seconds(1)));
    }
    for (int i = 19; i >= 0; i--) {
        assert_ok(gy_transport_recv(ranks[1], 0, (uint64_t)(i % 2), &got[i], sizeof(int),
                                    &receives[i]));
    }
    for (int i = 0; i < 20; i++) {
        assert_ok(gy_transport_finish(ranks[1], &receives[i], in_seconds(1)));
    }
    for (int i = 0; i < 20; i++) {
        /* Receives were posted backwards: the first of a tag got the first message of it. */
        assert_int_equal(got[i], i % 2 == 0 ? 18 - i : 20 - i);
    }
    end();
}

GY_TEST(partition_ends_in_a_deadline_and_heals)
{
    start((gy_sim_link){.latency_ns = 50000});
    int value = 7, got = 0;
    gy_transfer send, receive;
    assert_ok(gy_sim_cut(sim, 0, 1, true));
    assert_ok(gy_transport_send(ranks[0], 1, 1, &value, sizeof(int), &send));
    assert_ok(gy_transport_recv(ranks[1], 0, 1, &got, sizeof(int), &receive));
    int64_t before_ns = gy_sim_now_ns(sim);
    assert_status(gy_transport_finish(ranks[1], &receive, in_seconds(2)), GY_TIMEOUT);
    int64_t waited_ns = gy_sim_now_ns(sim) - before_ns;
    assert_true(waited_ns >= 2000000000 && waited_ns < 2002000000);
    assert_ok(gy_sim_cut(sim, 0, 1, false));
    assert_ok(gy_transport_recv(ranks[1], 0, 1, &got, sizeof(int), &receive));
    assert_ok(gy_transport_finish(ranks[1], &receive, in_seconds(2)));
    assert_int_equal(got, 7);
    end();
}

GY_TEST(crash_names_the_rank)
{
    start((gy_sim_link){.latency_ns = 50000});
    char byte = 0;
    gy_transfer receive, send;
    assert_ok(gy_transport_recv(ranks[1], 2, 1, &byte, 1, &receive));
    gy_sim_crash(sim, 2);
    int64_t before_ns = gy_sim_now_ns(sim);
    assert_status(gy_transport_finish(ranks[1], &receive, in_seconds(60)), GY_PEER);
    assert_string_equal(gy_error_text(), "message: rank 2 is lost");
    assert_true(gy_sim_now_ns(sim) - before_ns < 500000000);
    assert_status(gy_transport_send(ranks[1], 2, 1, &byte, 1, &send), GY_PEER);
    assert_status(gy_transport_check(ranks[0], -1), GY_PEER);
    assert_ok(gy_transport_check(ranks[0], 1));
    end();
}

GY_TEST(abort_reaches_all)
{
    start((gy_sim_link){.latency_ns = 50000});
    char byte = 0;
    gy_transfer receive;
    gy_error error = {.status = GY_MISMATCH, .rank = -1, .text = "different collectives"};
    gy_transport_abort(ranks[2], &error);
    assert_ok(gy_transport_recv(ranks[0], 1, 1, &byte, 1, &receive));
    assert_status(gy_transport_finish(ranks[0], &receive, in_seconds(60)), GY_MISMATCH);
    assert_string_equal(gy_error_text(), "message: rank 2: different collectives");
    end();
}

GY_TEST_MAIN(NULL, NULL)
