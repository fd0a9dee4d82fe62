/**
 * What tests of transports share: a thread each rank, and an exchange of messages of all sizes.
 */
#ifndef TRANSPORT_KIT_H
#define TRANSPORT_KIT_H

#include "transport/tcp.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 4 };

typedef struct crew {
    gy_thread threads[RANKS];
    int failures[RANKS];
} crew;

typedef struct member {
    crew *crew;
    gy_transport *transport;
    void (*run)(gy_transport *transport, int *failures);
    int rank;
} member;

static inline void *run_member(void *arg)
{
    member *me = arg;
    me->run(me->transport, &me->crew->failures[me->rank]);
    return NULL;
}

static inline void *close_one(void *transport)
{
    gy_transport_close(transport);
    return NULL;
}

/* All at once, as processes do: who closes while nobody drives the others waits for them. */
static inline void close_all(gy_transport **transports, int ranks)
{
    gy_thread threads[RANKS];
    for (int rank = 0; rank < ranks; rank++) {
        assert_ok(gy_thread_start(&threads[rank], "close", close_one, transports[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&threads[rank]);
    }
}

/* Run `run` on every rank, a thread each; it counts what went wrong. Closes them. */
static inline void run_on(gy_transport **transports, int ranks,
                          void (*run)(gy_transport *, int *))
{
    crew all = {.failures = {0}};
    member members[RANKS];
    for (int rank = 0; rank < ranks; rank++) {
        members[rank] =
            (member){.crew = &all, .transport = transports[rank], .run = run, .rank = rank};
        assert_ok(gy_thread_start(&all.threads[rank], "rank", run_member, &members[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&all.threads[rank]);
    }
    close_all(transports, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(all.failures[rank], 0);
    }
}

/* A port of loopback for every rank, and who listens on it. */
typedef struct ports {
    gy_address addresses[RANKS];
    int listeners[RANKS];
} ports;

static inline void make_listeners(ports *place)
{
    for (int rank = 0; rank < RANKS; rank++) {
        gy_address *at = &place->addresses[rank];
        *at = (gy_address){.size_bytes = sizeof(at->at.v4)};
        at->at.v4.sin_family = AF_INET;
        at->at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_ok(gy_address_listen(at, &place->listeners[rank]));
    }
}

#define EXPECT(fact)                                                                           \
    do {                                                                                       \
        if (!(fact)) {                                                                         \
            printf("rank %d: not so: %s (%s)\n", transport->rank, #fact, gy_error_text());     \
            ++*failures;                                                                       \
        }                                                                                      \
    } while (0)

/* Each sends to each (itself too) messages of many sizes, receives in another order of tags. */
static inline void exchange_all(gy_transport *transport, int *failures)
{
    enum { MESSAGES = 12 };
    static const size_t sizes[MESSAGES] = {0,    1,    15,   16,    17,    4000,
                                           4095, 4096, 4097, 12345, 60000, 100000};
    gy_transfer sends[RANKS][MESSAGES], receives[RANKS][MESSAGES];
    gy_deadline deadline = gy_deadline_after(60);
    if (gy_transport_meet(transport, deadline) != GY_OK) {
        printf("rank %d did not meet the others: %s\n", transport->rank, gy_error_text());
        ++*failures;
        return;
    }
    uint8_t *out = gy_alloc("test", RANKS * 100000),
            *in = gy_alloc("test", RANKS * MESSAGES * 100000);
    for (int peer = 0; peer < RANKS; peer++) {
        memset(out + peer * 100000, 16 * transport->rank + peer, 100000);
        for (int i = 0; i < MESSAGES; i++) {
            EXPECT(gy_transport_send(transport, peer, (uint64_t)i, out + peer * 100000,
                                     sizes[i], &sends[peer][i]) == GY_OK);
        }
    }
    for (int i = MESSAGES - 1; i >= 0; i--) {
        for (int peer = 0; peer < RANKS; peer++) {
            uint8_t *to = in + (peer * MESSAGES + i) * 100000;
            EXPECT(gy_transport_recv(transport, peer, (uint64_t)i, to, 100000,
                                     &receives[peer][i]) == GY_OK);
        }
    }
    for (int peer = 0; peer < RANKS; peer++) {
        for (int i = 0; i < MESSAGES; i++) {
            EXPECT(gy_transport_finish(transport, &receives[peer][i], deadline) == GY_OK);
            EXPECT(gy_transport_finish(transport, &sends[peer][i], deadline) == GY_OK);
            EXPECT(receives[peer][i].size_bytes == sizes[i]);
            const uint8_t *got = in + (peer * MESSAGES + i) * 100000;
            for (size_t at = 0; at < sizes[i]; at++) {
                if (got[at] != 16 * peer + transport->rank) {
                    ++*failures;
                    break;
                }
            }
        }
    }
    gy_free(out);
    gy_free(in);
}

/* ---- After a failure: all ranks driven by one thread ---- */

static inline bool is_odd(const void *rule, uint64_t tag)
{
    (void)rule;
    return tag % 2 == 1;
}

/* However short the deadline of rank 0: nobody was asked before it. */
static inline void the_silent_are_named(gy_transport **ranks)
{
    gy_transfer receive;
    uint8_t got;
    assert_ok(gy_transport_recv(ranks[0], 2, 9, &got, 1, &receive));
    assert_status(gy_transport_finish(ranks[0], &receive, gy_deadline_after(0.05)), GY_TIMEOUT);
    for (int rank = 1; rank < RANKS; rank++) {
        char words[48];
        snprintf(words, sizeof(words), "rank %d does not answer", rank);
        assert_non_null(strstr(gy_error_text(), words));
    }
    assert_non_null(strstr(gy_error_text(), "rank 0 waited"));
}

static inline void drive_until_done(gy_transport **ranks, const gy_transfer *transfer)
{
    gy_deadline deadline = gy_deadline_after(60);
    while (transfer->status == GY_AGAIN) {
        for (int rank = 0; rank < RANKS; rank++) {
            (void)gy_transport_progress(ranks[rank]);
        }
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns);
    }
}

/* A send that is given up half way comes whole, and so does what follows it. */
static inline void given_up_sends_are_finished(gy_transport **ranks)
{
    enum { LARGE = 24 << 20, STALE = 3 }; /* those are more than a rank keeps of a peer */
    gy_transfer send, next, receive, other, stale[STALE];
    uint8_t *out = gy_alloc("test", LARGE), *in = gy_alloc("test", LARGE), byte = 0;
    memset(out, 7, LARGE);
    assert_ok(gy_transport_send(ranks[0], 1, 2, out, LARGE, &send));
    assert_int_equal(send.status, GY_AGAIN);
    gy_transport_cancel(ranks[0], &send);
    memset(out, 8, LARGE); /* the sender's again */
    assert_ok(gy_transport_send(ranks[0], 1, 4, out, 1, &next));
    assert_ok(gy_transport_recv(ranks[1], 0, 4, &byte, 1, &other));
    assert_ok(gy_transport_recv(ranks[1], 0, 2, in, LARGE, &receive));
    drive_until_done(ranks, &other);
    assert_int_equal(other.status, GY_OK);
    assert_int_equal(receive.status, GY_OK);
    assert_int_equal(byte, 8);
    assert_int_equal(in[0], 7);
    assert_memory_equal(in, in + 1, LARGE - 1);
    /* Nobody asks for one of an earlier epoch: it stands in nobody's way. */
    for (int rank = 0; rank < RANKS; rank++) {
        gy_transport_survive(ranks[rank], &(gy_survival){.is_stale = is_odd});
    }
    for (int i = 0; i < STALE; i++) {
        assert_ok(gy_transport_send(ranks[0], 1, 1, out, LARGE, &stale[i]));
    }
    assert_ok(gy_transport_post(ranks[0], 1, 6, out, 1));
    assert_ok(gy_transport_recv(ranks[1], 0, 6, &byte, 1, &other));
    drive_until_done(ranks, &other);
    assert_int_equal(other.status, GY_OK);
    for (int i = 0; i < STALE; i++) {
        assert_int_equal(stale[i].status, GY_OK);
    }
    gy_free(out);
    gy_free(in);
}

/* Without memory for the rest of a send that is given up half way, nothing can follow it, and
 * whoever wants to send more hears so. */
static inline void a_cut_stream_is_told(gy_transport **ranks)
{
    enum { LARGE = 24 << 20 };
    gy_transfer send, next;
    uint8_t *out = gy_alloc_zero("test", 1, LARGE);
    assert_ok(gy_transport_send(ranks[0], 1, 2, out, LARGE, &send));
    assert_int_equal(send.status, GY_AGAIN);
    gy_alloc_fail_after(1);
    gy_transport_cancel(ranks[0], &send);
    gy_alloc_fail_after(0);
    assert_status(gy_transport_send(ranks[0], 1, 4, out, 1, &next), GY_STATE);
    assert_non_null(
        strstr(gy_error_text(), "to rank 1 was abandoned half sent: no message can follow"));
    gy_free(out);
}

static inline void until_aborted(gy_transport **ranks, int rank, const char *text)
{
    gy_deadline deadline = gy_deadline_after(60);
    while (gy_transport_check(ranks[rank], -1) != GY_CANCELLED) {
        (void)gy_transport_progress(ranks[2]);
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns);
    }
    assert_string_equal(gy_error_text(), text);
}

static inline void failures_are_told_in_their_epoch(gy_transport **ranks)
{
    gy_error first = {.status = GY_CANCELLED, .rank = -1, .text = "first"};
    gy_error second = {.status = GY_CANCELLED, .rank = -1, .text = "second"};
    gy_transport_abort(ranks[2], &first);
    until_aborted(ranks, 1, "rank 2: first");
    gy_transport_abort(ranks[1], &second); /* the first one stands */
    until_aborted(ranks, 2, "rank 2: first");
    gy_transport_survive(ranks[2], &(gy_survival){.epoch = 1});
    assert_ok(gy_transport_check(ranks[2], -1));
    gy_transport_abort(ranks[2], &second);
    until_aborted(ranks, 2, "rank 2: second");
    gy_transport_survive(ranks[1], &(gy_survival){.epoch = 1});
    until_aborted(ranks, 1, "rank 2: second");
}

#endif
