/*
 * Goal: messages over TCP keep order and tags, plain and under TLS; what the wire carries is
 * what was sent and the stated heads; a rank that dies, leaves or fails is named.
 */
#include "transport/tcp.h"

#include "transport/tcp/link_priv.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport_kit.h"

static const gy_transport_key test_key = {.bytes = {7, 1, 2, 3}};

static void open_one(ports *place, int rank, const gy_transport_key *key,
                     gy_transport **transport)
{
    gy_tcp_options options = {.rank = rank,
                              .size = RANKS,
                              .addresses = place->addresses,
                              .listener = place->listeners[rank],
                              .key = key,
                              .run = {9, 9},
                              .host_ranks = RANKS};
    assert_ok(gy_tcp_open(&options, gy_env_real(), transport));
}

static void open_all(const gy_transport_key *key, gy_transport **transports)
{
    ports place;
    make_listeners(&place);
    for (int rank = 0; rank < RANKS; rank++) {
        open_one(&place, rank, key, &transports[rank]);
    }
}

/* All in one thread: nobody waits for another that is not driven. */
static void join_all(gy_transport **transports)
{
    gy_deadline deadline = gy_deadline_after(30);
    for (int joined = 0; joined < RANKS * RANKS;) {
        joined = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            (void)gy_transport_progress(transports[rank]);
            for (int peer = 0; peer < RANKS; peer++) {
                joined += transports[rank]->ops->has_joined(transports[rank], peer);
            }
        }
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns);
    }
}

GY_TEST(messages_arrive_whole_between_all)
{
    gy_transport *transports[RANKS];
    open_all(NULL, transports);
    run_on(transports, RANKS, exchange_all);
    open_all(&test_key, transports);
    run_on(transports, RANKS, exchange_all);
}

GY_TEST(ranks_go_on_after_a_failure)
{
    gy_transport *transports[RANKS];
    open_all(&test_key, transports);
    join_all(transports);
    given_up_sends_are_finished(transports);
    failures_are_told_in_their_epoch(transports);
    a_cut_stream_is_told(transports);
    close_all(transports, RANKS);
}

/* 40 MiB each way at once: more than any socket holds, straight into the receive. */
static void exchange_large(gy_transport *transport, int *failures)
{
    enum { WORDS = 10 << 20 };
    uint32_t *out = gy_alloc("test", WORDS * sizeof(*out));
    uint32_t *in = gy_alloc("test", WORDS * sizeof(*in));
    int peer = transport->rank ^ 1;
    gy_transfer send, receive;
    for (uint32_t i = 0; i < WORDS; i++) {
        out[i] = i * 2654435761u + (uint32_t)transport->rank;
    }
    EXPECT(gy_transport_meet(transport, gy_deadline_after(60)) == GY_OK);
    EXPECT(gy_transport_recv(transport, peer, 3, in, WORDS * sizeof(*in), &receive) == GY_OK);
    EXPECT(gy_transport_send(transport, peer, 3, out, WORDS * sizeof(*out), &send) == GY_OK);
    EXPECT(gy_transport_finish(transport, &receive, gy_deadline_after(60)) == GY_OK);
    EXPECT(gy_transport_finish(transport, &send, gy_deadline_after(60)) == GY_OK);
    for (uint32_t i = 0; i < WORDS; i++) {
        if (in[i] != i * 2654435761u + (uint32_t)peer) {
            ++*failures;
            break;
        }
    }
    gy_free(in);
    gy_free(out);
}

GY_TEST(large_messages_cross)
{
    gy_transport *transports[RANKS];
    open_all(NULL, transports);
    run_on(transports, RANKS, exchange_large);
    open_all(&test_key, transports);
    run_on(transports, RANKS, exchange_large);
}

GY_TEST(wire_carries_payload_and_heads_alone)
{
    enum { HELLO_BYTES = GY_FRAME_BYTES + 28 };
    gy_transport *ranks[RANKS];
    static const size_t sizes[] = {0, 1, 1000, 300000};
    static uint8_t data[300000], got[300000];
    uint64_t payload = 0;
    open_all(NULL, ranks);
    join_all(ranks);
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        gy_transfer send, receive;
        assert_ok(gy_transport_recv(ranks[2], 1, i, got, sizes[i], &receive));
        assert_ok(gy_transport_send(ranks[1], 2, i, data, sizes[i], &send));
        while (send.status == GY_AGAIN || receive.status == GY_AGAIN) {
            (void)gy_transport_progress(ranks[1]);
            (void)gy_transport_progress(ranks[2]);
        }
        payload += sizes[i];
    }
    gy_tcp_count sent = gy_tcp_counts(ranks[1]), received = gy_tcp_counts(ranks[2]);
    assert_int_equal(sent.sent_bytes, payload + GY_COUNT(sizes) * GY_FRAME_BYTES +
                                          (RANKS - 1) * (size_t)HELLO_BYTES);
    assert_int_equal(received.received_bytes, payload + GY_COUNT(sizes) * GY_FRAME_BYTES +
                                                  (RANKS - 1) * (size_t)HELLO_BYTES);
    assert_int_equal(sent.sent_frames, GY_COUNT(sizes) + RANKS - 1);
    close_all(ranks, RANKS);
}

/* Rank 0 finishes a receive from rank 1 while both are driven here. */
static gy_status finish(gy_transport **ranks, gy_transfer *receive)
{
    return gy_transport_finish(ranks[0], receive, gy_deadline_after(30));
}

GY_TEST(ends_of_ranks_are_named)
{
    for (int secret = 0; secret < 2; secret++) {
        gy_transport *ranks[RANKS];
        int value = 42, got = 0;
        gy_transfer send, receive;
        open_all(secret == 1 ? &test_key : NULL, ranks);
        join_all(ranks);
        assert_ok(gy_transport_send(ranks[1], 0, 9, &value, sizeof(value), &send));
        gy_transport_close(ranks[1]);
        assert_ok(gy_transport_recv(ranks[0], 1, 9, &got, sizeof(got), &receive));
        assert_ok(finish(ranks, &receive)); /* what the rank sent before it left */
        assert_int_equal(got, 42);
        assert_ok(gy_transport_recv(ranks[0], 1, 9, &got, sizeof(got), &receive));
        assert_status(finish(ranks, &receive), GY_PEER);
        assert_string_equal(gy_error_text(), "message: rank 1 has left the launch");
        assert_ok(gy_transport_check(ranks[0], -1));
        gy_error error = {.status = GY_MISMATCH, .rank = -1, .text = "different collectives"};
        gy_transport_abort(ranks[2], &error);
        assert_ok(gy_transport_recv(ranks[0], 3, 9, &got, sizeof(got), &receive));
        assert_status(finish(ranks, &receive), GY_MISMATCH);
        assert_string_equal(gy_error_text(), "message: rank 2: different collectives");
        gy_transport_close(ranks[0]);
        gy_transport_close(ranks[2]);
        gy_transport_close(ranks[3]);
    }
}

/* It stands in the stream behind a message that nobody asks for. */
GY_TEST(failure_behind_a_large_message_is_heard)
{
    static uint8_t data[100000];
    gy_transport *ranks[RANKS];
    gy_transfer send, receive;
    uint8_t got;
    open_all(NULL, ranks);
    join_all(ranks);
    assert_ok(gy_transport_send(ranks[1], 0, 9, data, sizeof(data), &send));
    assert_int_equal(send.status, GY_OK);
    (void)gy_transport_progress(ranks[0]);
    gy_error error = {.status = GY_MISMATCH, .rank = -1, .text = "different collectives"};
    gy_transport_abort(ranks[1], &error);
    assert_ok(gy_transport_recv(ranks[0], 2, 9, &got, 1, &receive));
    assert_status(finish(ranks, &receive), GY_MISMATCH);
    close_all(ranks, RANKS);
}

/* Rank 2 cannot tell rank 0: half a message stands before its words. Rank 1 heard them. */
GY_TEST(who_ends_after_a_failure_says_which)
{
    enum { LARGE = 64 << 20 };
    gy_transport *ranks[RANKS];
    gy_transfer send, receive;
    char got = 0, *data = gy_alloc_zero("test", 1, LARGE);
    const gy_error error = {.status = GY_CANCELLED, .rank = -1, .text = "rank 3 is lost"};
    open_all(NULL, ranks);
    join_all(ranks);
    assert_ok(gy_transport_send(ranks[2], 0, 9, data, LARGE, &send));
    assert_int_equal(send.status, GY_AGAIN);
    gy_transport_abort(ranks[2], &error);
    gy_status heard = GY_OK;
    for (gy_deadline end = gy_deadline_after(30); heard == GY_OK;) {
        heard = gy_transport_check(ranks[1], -1);
        assert_true(gy_now_ns(gy_env_real()) < end.at_ns);
    }
    gy_error why;
    gy_error_take(&why, heard);
    gy_transport_abort(ranks[1], &why);
    gy_transport_close(ranks[1]);
    assert_ok(gy_transport_recv(ranks[0], 1, 9, &got, 1, &receive));
    assert_status(finish(ranks, &receive), GY_CANCELLED);
    assert_string_equal(gy_error_text(), "message: rank 2: rank 3 is lost");
    gy_transport_cancel(ranks[2], &send);
    ranks[1] = ranks[3];
    close_all(ranks, RANKS - 1);
    gy_free(data);
}

GY_TEST(those_who_do_not_answer_are_named)
{
    gy_transport *ranks[RANKS];
    open_all(&test_key, ranks);
    join_all(ranks);
    the_silent_are_named(ranks);
    close_all(ranks, RANKS);
}

/* Ranks 1 and 3 are processes, which wait to be killed. */
static void open_with_mortals(gy_transport **ranks, pid_t mortals[RANKS])
{
    ports place;
    int ready[2];
    char bytes[2];
    assert_int_equal(pipe(ready), 0);
    make_listeners(&place);
    for (int rank = 1; rank < RANKS; rank += 2) {
        mortals[rank] = fork();
        if (mortals[rank] == 0) {
            for (int other = 0; other < RANKS; other++) {
                if (other != rank) {
                    close(place.listeners[other]);
                }
            }
            open_one(&place, rank, NULL, &ranks[rank]);
            if (gy_transport_meet(ranks[rank], gy_deadline_after(30)) == GY_OK) {
                (void)!write(ready[1], "x", 1);
            }
            for (;;) {
                pause();
            }
        }
    }
    close(place.listeners[1]);
    close(place.listeners[3]);
    for (int rank = 0; rank < RANKS; rank += 2) {
        open_one(&place, rank, NULL, &ranks[rank]);
    }
    ranks[1] = ranks[3] = ranks[0];
    join_all(ranks);
    for (size_t got = 0; got < sizeof(bytes);) {
        const ssize_t more = read(ready[0], bytes + got, sizeof(bytes) - got);
        assert_true(more > 0);
        got += (size_t)more;
    }
    close(ready[0]);
    close(ready[1]);
}

static void end_mortal(pid_t mortal)
{
    assert_int_equal(kill(mortal, SIGKILL), 0);
    assert_int_equal(waitpid(mortal, NULL, 0), mortal);
}

/* A killed process closes its sockets without a word. */
GY_TEST(dead_rank_is_named)
{
    gy_transport *ranks[RANKS];
    pid_t mortals[RANKS];
    char byte = 0;
    gy_transfer receive;
    open_with_mortals(ranks, mortals);
    end_mortal(mortals[1]);
    int64_t start_ns = gy_now_ns(gy_env_real());
    assert_ok(gy_transport_recv(ranks[0], 1, 9, &byte, 1, &receive));
    assert_status(finish(ranks, &receive), GY_PEER);
    assert_true(gy_now_ns(gy_env_real()) - start_ns < 5000000000); /* not by a deadline */
    assert_non_null(strstr(gy_error_text(), "rank 1 is lost"));
    assert_status(gy_transport_check(ranks[2], -1), GY_PEER);
    end_mortal(mortals[3]);
    gy_transport_close(ranks[0]);
    gy_transport_close(ranks[2]);
}

/* Who is waited for died later, and may have died of that. */
GY_TEST(first_death_is_named)
{
    gy_transport *ranks[RANKS];
    pid_t mortals[RANKS];
    open_with_mortals(ranks, mortals);
    for (int rank = 3; rank > 0; rank -= 2) {
        end_mortal(mortals[rank]);
        gy_deadline end = gy_deadline_after(30);
        while (gy_transport_look(ranks[0], rank) == GY_OK) {
            assert_true(gy_now_ns(gy_env_real()) < end.at_ns);
        }
    }
    assert_status(gy_transport_check(ranks[0], 1), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "rank 3 is lost"));
    const bool is_lost[RANKS] = {[3] = true}; /* that is known, and the others went on */
    gy_transport_survive(ranks[0], &(gy_survival){.epoch = 1, .is_lost = is_lost});
    assert_status(gy_transport_check(ranks[0], 1), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "rank 1 is lost"));
    gy_transport_close(ranks[0]);
    gy_transport_close(ranks[2]);
}

GY_TEST_MAIN(NULL, NULL)
