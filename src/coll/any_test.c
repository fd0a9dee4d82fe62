/*
 * Goal: receives from any rank, exchanges in a circle, waits for some of several requests and
 * the place of ranks on hosts: every message comes once and in order, whether its receive names
 * a rank or not and whichever was there first, over shared memory, messages alone and several
 * hosts, on 1 to 5 ranks.
 */
#include "coll/crew_priv.h"

#include "base/random.h"
#include "spread_kit.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 5, TAGS = 2, SENDS_MAX = 6, MESSAGES = RANKS * TAGS * SENDS_MAX, WORDS = 3000 };

/* Who sends how many messages of a tag to whom, and of how many words: all ranks draw alike. */
typedef struct traffic {
    int sends[RANKS][RANKS][TAGS]; /* from, to */
    size_t words[RANKS][RANKS][TAGS][SENDS_MAX];
    bool is_named[RANKS][RANKS][TAGS]; /* its receives name the sender */
    bool is_early[RANKS];              /* receives are there before the messages */
} traffic;

static void draw(gy_random *random, int size, traffic *of)
{
    for (int from = 0; from < size; from++) {
        of->is_early[from] = gy_random_below(random, 2) == 1;
        for (int i = 0; i < size * TAGS; i++) {
            int to = i / TAGS, tag = i % TAGS;
            of->sends[from][to][tag] = (int)gy_random_below(random, SENDS_MAX + 1);
            of->is_named[from][to][tag] = gy_random_below(random, 2) == 1;
            for (int k = 0; k < SENDS_MAX; k++) {
                bool is_long = gy_random_below(random, 8) == 0;
                of->words[from][to][tag][k] =
                    (size_t)gy_random_below(random, is_long ? WORDS : 20) + 1;
            }
        }
    }
}

typedef struct receive {
    uint32_t words[WORDS];
    size_t got;
    int source, named, tag; /* named: the rank; GY_ANY_SOURCE */
} receive;

/* The mailbox of a rank. */
typedef struct mailbox {
    receive receives[MESSAGES];
    uint32_t out[MESSAGES][WORDS];
    gy_request *requests[2 * MESSAGES];
    size_t receive_count, request_count;
} mailbox;

static void post_one(crew_member *me, mailbox *box, int named, int tag)
{
    receive *into = &box->receives[box->receive_count++];
    *into = (receive){.source = -7, .named = named, .tag = tag};
    EXPECT(gy_request_begin_recv(me->comm,
                                 &(gy_message){.data = into->words,
                                               .count = WORDS,
                                               .dtype = GY_U32,
                                               .peer = named,
                                               .tag = tag,
                                               .source = &into->source,
                                               .received = &into->got},
                                 &box->requests[box->request_count++]) == GY_OK);
}

/* Those that name a rank first: they take the first messages of that rank. */
static void post_receives(crew_member *me, const traffic *of, mailbox *box)
{
    for (int is_any = 0; is_any < 2; is_any++) {
        for (int from = 0; from < me->size; from++) {
            for (int tag = 0; tag < TAGS; tag++) {
                bool is_turn = of->is_named[from][me->rank][tag] == (is_any == 0);
                int count = is_turn ? of->sends[from][me->rank][tag] : 0;
                for (int k = 0; k < count; k++) {
                    post_one(me, box, is_any == 0 ? from : GY_ANY_SOURCE, tag);
                }
            }
        }
    }
}

static void post_sends(crew_member *me, const traffic *of, mailbox *box)
{
    size_t sent = 0;
    for (int to = 0; to < me->size; to++) {
        for (int tag = 0; tag < TAGS; tag++) {
            for (int k = 0; k < of->sends[me->rank][to][tag]; k++) {
                uint32_t *words = box->out[sent++];
                size_t count = of->words[me->rank][to][tag][k];
                for (size_t i = 0; i < count; i++) {
                    words[i] = (uint32_t)(me->rank << 24 | tag << 20 | k << 16) + (uint32_t)i;
                }
                EXPECT(gy_request_begin_send(me->comm,
                                             &(gy_message){.data = words,
                                                           .count = count,
                                                           .dtype = GY_U32,
                                                           .peer = to,
                                                           .tag = tag},
                                             &box->requests[box->request_count++]) == GY_OK);
            }
        }
    }
}

/* Until all have ended; each is reported once. */
static void await_all(crew_member *me, mailbox *box)
{
    size_t indices[2 * MESSAGES], ended = 0, all = 0;
    gy_status statuses[2 * MESSAGES];
    static const gy_deadline none = {INT64_MAX};
    while (all < box->request_count) {
        gy_status status = gy_request_wait_some(box->requests, box->request_count, none,
                                                indices, statuses, &ended);
        EXPECT(status == GY_OK && ended > 0);
        if (status != GY_OK) {
            break;
        }
        for (size_t k = 0; k < ended; k++) {
            EXPECT(statuses[k] == GY_OK && (k == 0 || indices[k] > indices[k - 1]));
            gy_request_free(box->requests[indices[k]]);
            box->requests[indices[k]] = NULL;
        }
        all += ended;
    }
    EXPECT(all == box->request_count);
    EXPECT(gy_request_wait_some(box->requests, box->request_count, none, indices, statuses,
                                &ended) == GY_ARG);
    EXPECT(ended == 0);
}

/* Receives of a tag, in the order in which they were started, hold each rank's messages in the
 * order in which those were sent. */
static void check(crew_member *me, const traffic *of, const mailbox *box)
{
    int next[RANKS][TAGS] = {{0}};
    for (size_t i = 0; i < box->receive_count; i++) {
        const receive *got = &box->receives[i];
        bool is_rank = got->source >= 0 && got->source < me->size;
        EXPECT(is_rank && (got->named == GY_ANY_SOURCE || got->named == got->source));
        if (!is_rank) {
            return;
        }
        int k = next[got->source][got->tag]++;
        uint32_t first = (uint32_t)(got->source << 24 | got->tag << 20 | k << 16);
        EXPECT(got->got == of->words[got->source][me->rank][got->tag][k]);
        EXPECT(got->words[0] == first && got->words[got->got - 1] == first + got->got - 1);
    }
    for (int from = 0; from < me->size; from++) {
        for (int tag = 0; tag < TAGS; tag++) {
            EXPECT(next[from][tag] == of->sends[from][me->rank][tag]);
        }
    }
}

static void run_traffic(crew_member *me)
{
    static mailbox boxes[RANKS];
    mailbox *box = &boxes[me->rank];
    traffic of;
    gy_random random = {.key = *(const uint64_t *)me->shared_arg};
    for (long round = gy_test_cases(30); round > 0; round--) {
        draw(&random, me->size, &of);
        box->receive_count = box->request_count = 0;
        if (of.is_early[me->rank]) {
            post_receives(me, &of, box);
            post_sends(me, &of, box);
        } else {
            post_sends(me, &of, box);
            (void)gy_comm_progress(me->comm);
            post_receives(me, &of, box);
        }
        await_all(me, box);
        check(me, &of, box);
        EXPECT(gy_barrier(me->comm) == GY_OK);
    }
}

GY_TEST(every_message_comes_once_and_in_order)
{
    uint64_t seed = gy_test_seed();
    const gy_comm_options messages = {.has_messages_only = true};
    static const int sizes[] = {1, 2, 4};
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        assert_int_equal(crew_run(sizes[i], NULL, run_traffic, &seed), 0);
        assert_int_equal(crew_run(sizes[i], &messages, run_traffic, &seed), 0);
    }
}

/* A receive from any rank that was started first takes the first message. */
static void run_order(crew_member *me)
{
    int32_t got[2] = {0}, one = 1, two = 2;
    int source = -7;
    gy_request *requests[2];
    size_t index = 0;
    if (me->rank == 1) {
        EXPECT(gy_send(me->comm, &one, 1, GY_I32, 0, 3) == GY_OK);
        EXPECT(gy_send(me->comm, &two, 1, GY_I32, 0, 3) == GY_OK);
    }
    if (me->rank == 0) {
        for (int i = 0; i < 2; i++) {
            EXPECT(gy_request_begin_recv(me->comm,
                                         &(gy_message){.data = &got[i],
                                                       .count = 1,
                                                       .dtype = GY_I32,
                                                       .peer = i == 0 ? GY_ANY_SOURCE : 1,
                                                       .source = &source,
                                                       .tag = 3},
                                         &requests[i]) == GY_OK);
        }
        EXPECT(gy_request_wait_any(requests, 2, gy_deadline_after(60), &index) == GY_OK);
        EXPECT(gy_request_wait_all(requests, 2, gy_deadline_after(60)) == GY_OK);
        EXPECT(source == 1 && got[0] == 1 && got[1] == 2);
        gy_request_free(requests[0]);
        gy_request_free(requests[1]);
        EXPECT(gy_send(me->comm, &one, 1, GY_I32, GY_ANY_SOURCE, 3) == GY_ARG);
        EXPECT(gy_recv(me->comm, &one, 1, GY_I32, -2, 3) == GY_ARG);
    }
    /* In a group ranks have other numbers. */
    gy_comm *group = NULL;
    EXPECT(gy_comm_split(me->comm, 0, -me->rank, &group) == GY_OK);
    int32_t mine = me->rank;
    if (gy_comm_rank(group) == 0) {
        EXPECT(gy_recv_any(group, got, 1, GY_I32, 0, &source) == GY_OK);
        EXPECT(source == 1 && got[0] == me->size - 2);
    } else if (gy_comm_rank(group) == 1) {
        EXPECT(gy_send(group, &mine, 1, GY_I32, 0, 0) == GY_OK);
    }
    gy_comm_free(group);
}

GY_TEST(receives_take_messages_in_their_order)
{
    const gy_comm_options messages = {.has_messages_only = true};
    assert_int_equal(crew_run(3, NULL, run_order, NULL), 0);
    assert_int_equal(crew_run(2, &messages, run_order, NULL), 0);
}

/* Longer than any ring: who sends first and receives then would wait for ever. */
static void run_circle(crew_member *me)
{
    enum { LONG = 50000 };
    static int32_t out[RANKS][LONG], in[RANKS][LONG];
    int right = (me->rank + 1) % me->size, left = (me->rank + me->size - 1) % me->size;
    for (int turn = 0; turn < 4; turn++) {
        int source = -7;
        bool is_any = turn % 2 == 1;
        for (int i = 0; i < LONG; i++) {
            out[me->rank][i] = me->rank * 7 + i + turn;
        }
        EXPECT(gy_sendrecv(
                   me->comm,
                   &(gy_message){
                       .data = out[me->rank], .count = LONG, .dtype = GY_I32, .peer = right},
                   &(gy_message){.data = in[me->rank],
                                 .count = LONG,
                                 .dtype = GY_I32,
                                 .peer = is_any ? GY_ANY_SOURCE : left,
                                 .source = &source}) == GY_OK);
        EXPECT(source == left);
        EXPECT(in[me->rank][0] == left * 7 + turn);
        EXPECT(in[me->rank][LONG - 1] == left * 7 + turn + LONG - 1);
        EXPECT(gy_barrier(me->comm) == GY_OK);
    }
}

GY_TEST(ranks_exchange_in_a_circle)
{
    static const int sizes[] = {1, 2, 4};
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        assert_int_equal(crew_run(sizes[i], NULL, run_circle, NULL), 0);
    }
}

/* Two hosts of 2 and 3 ranks. */
static void run_hosts(crew_member *me)
{
    gy_comm *group = NULL, *comm = me->comm;
    int host = me->rank < 2 ? 0 : 1;
    EXPECT(gy_comm_host_count(comm) == 2 && gy_comm_host(comm, me->rank) == host);
    EXPECT(gy_comm_host(comm, 0) == 0 && gy_comm_host(comm, 4) == 1);
    EXPECT(gy_comm_local_size(comm) == 2 + host);
    EXPECT(gy_comm_local_rank(comm) == (host == 0 ? me->rank : me->rank - 2));
    EXPECT(gy_comm_split(comm, host, 0, &group) == GY_OK);
    EXPECT(gy_comm_host_count(group) == 1 && gy_comm_host(group, 0) == 0);
    EXPECT(gy_comm_local_size(group) == gy_comm_size(group));
    EXPECT(gy_comm_local_rank(group) == gy_comm_rank(group));
    gy_comm_free(group);
    /* Backwards: the second host's ranks come first, so it is the first host of the group. */
    EXPECT(gy_comm_split(comm, 0, -me->rank, &group) == GY_OK);
    EXPECT(gy_comm_host_count(group) == 2);
    EXPECT(gy_comm_host(group, gy_comm_rank(group)) == 1 - host);
    EXPECT(gy_comm_local_rank(group) == (host == 0 ? 1 - me->rank : 4 - me->rank));
    gy_comm_free(group);
    run_traffic(me);
}

static void count_end(void *arg, gy_status status)
{
    assert_int_equal(status, GY_OK);
    (*(int *)arg)++;
}

/* A message that the transport takes, or has, ends within its call: nobody polls for it. */
GY_TEST(messages_that_can_go_end_at_once)
{
    gy_transport *transports[2];
    gy_comm *comms[2];
    uint32_t out[2] = {3, 4}, in[2] = {0, 0}, late[2] = {0, 0};
    int sent = 0, received = 0, waiting = 0;
    assert_ok(gy_transport_shm_open_all(
        &(gy_transport_segment_options){.ranks = 2, .ring_bytes = 4096, .pool_bytes = 4096},
        gy_env_real(), transports));
    for (int rank = 0; rank < 2; rank++) {
        assert_ok(
            gy_comm_new(transports[rank], &(gy_comm_options){.timeout_s = 60}, &comms[rank]));
    }
    gy_message message = {.data = out, .count = 2, .dtype = GY_U32, .peer = 1, .tag = 5};
    assert_ok(gy_coll_send(comms[0], &message, count_end, &sent));
    assert_int_equal(sent, 1);
    message = (gy_message){.data = in, .count = 2, .dtype = GY_U32, .peer = 0, .tag = 5};
    assert_ok(gy_coll_receive(comms[1], &message, count_end, &received));
    assert_int_equal(received, 1);
    assert_memory_equal(in, out, sizeof(in));
    message.data = late;
    assert_ok(gy_coll_receive(comms[1], &message, count_end, &waiting));
    assert_int_equal(gy_comm_in_flight(comms[1]), 0); /* of collectives */
    assert_int_equal(waiting, 0);
    message = (gy_message){.data = out, .count = 2, .dtype = GY_U32, .peer = 1, .tag = 5};
    assert_ok(gy_coll_send(comms[0], &message, count_end, &sent));
    assert_int_equal(sent, 2);
    assert_int_equal(waiting, 0);
    while (waiting == 0) {
        (void)gy_comm_progress(comms[1]);
    }
    assert_memory_equal(late, out, sizeof(late));
    gy_comm_free(comms[0]);
    gy_comm_free(comms[1]);
}

GY_TEST(ranks_know_their_hosts)
{
    uint64_t seed = gy_test_seed();
    gy_transport *transports[SPREAD_RANKS];
    const spread over = {.hosts = 2, .counts = {2, 3}, .pool_bytes = 1 << 20};
    assert_ok(spread_open(&over, transports));
    assert_int_equal(crew_run_on(transports, 5, NULL, run_hosts, &seed), 0);
    assert_int_equal(gy_comm_host_count(GY_COMM_SELF), 1);
    assert_int_equal(gy_comm_local_size(GY_COMM_SELF), 1);
    assert_int_equal(gy_comm_local_rank(GY_COMM_SELF), 0);
}

GY_TEST(waits_for_some_end_at_their_deadline)
{
    int32_t x = 4, y = 0;
    int source = -7;
    size_t indices[2], ended = 7, index = 0;
    gy_status statuses[2];
    gy_request *requests[2] = {NULL, NULL};
    assert_ok(gy_request_init_recv(GY_COMM_SELF,
                                   &(gy_message){.data = &y,
                                                 .count = 1,
                                                 .dtype = GY_I32,
                                                 .peer = GY_ANY_SOURCE,
                                                 .source = &source,
                                                 .tag = 2},
                                   &requests[1]));
    assert_status(
        gy_request_wait_some(requests, 2, gy_deadline_after(1), indices, statuses, &ended),
        GY_ARG);
    assert_int_equal(ended, 0);
    for (int turn = 0; turn < 2; turn++) {
        ended = 7;
        assert_ok(gy_request_start(requests[1]));
        assert_status(gy_request_wait_some(requests, 2, gy_deadline_after(0.001), indices,
                                           statuses, &ended),
                      GY_TIMEOUT);
        assert_int_equal(ended, 0);
        assert_status(gy_request_wait_any(requests, 2, gy_deadline_after(0.001), &index),
                      GY_TIMEOUT);
        assert_ok(gy_send(GY_COMM_SELF, &x, 1, GY_I32, 0, 2));
        assert_ok(
            gy_request_wait_some(requests, 2, gy_deadline_after(30), indices, NULL, &ended));
        assert_true(ended == 1 && indices[0] == 1 && y == 4 && source == 0);
    }
    gy_request_free(requests[1]);
}

GY_TEST_MAIN(NULL, NULL)
