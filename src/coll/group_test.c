/*
 * Goal: messages keep their order, requests end in any order and can be repeated, groups work
 * side by side and give their communicator slots back.
 */
#include "coll/crew_priv.h"

#include "coll/coll_priv.h"

#include "gy_test.h"

/* Around the ring: blocking, of several lengths; the tag says which. */
static void pass_around(crew_member *me)
{
    enum { LONGEST = 70001 };
    const size_t counts[] = {0, 1, 17, 4096, LONGEST};
    int64_t *out = gy_alloc_zero("test", LONGEST, sizeof(*out));
    int64_t *in = gy_alloc_zero("test", LONGEST, sizeof(*in));
    int next = (me->rank + 1) % me->size, previous = (me->rank + me->size - 1) % me->size;
    for (int tag = 0; tag < (int)GY_COUNT(counts); tag++) {
        size_t count = counts[tag];
        for (size_t i = 0; i < count; i++) {
            out[i] = me->rank * 1000 + tag;
        }
        gy_request *request = NULL;
        EXPECT(
            gy_request_begin_recv(
                me->comm,
                &(gy_message){
                    .data = in, .count = count, .dtype = GY_I64, .peer = previous, .tag = tag},
                &request) == GY_OK);
        EXPECT(gy_send(me->comm, out, count, GY_I64, next, tag) == GY_OK);
        EXPECT(gy_request_wait(request, GY_NEVER) == GY_OK);
        EXPECT(count == 0 || in[count - 1] == previous * 1000 + tag);
        gy_request_free(request);
    }
    gy_free(out);
    gy_free(in);
    EXPECT(gy_barrier(me->comm) == GY_OK);
}

/* Tags choose; within one tag the order sent is the order received. */
static void send_out_of_order(crew_member *me)
{
    if (me->size > 1 && me->rank == 0) {
        for (int i = 0; i < 6; i++) {
            EXPECT(gy_send(me->comm, &i, 1, GY_I32, 1, i % 2) == GY_OK);
        }
    } else if (me->rank == 1) {
        const int order[] = {1, 1, 0, 1, 0, 0}, expected[] = {1, 3, 0, 5, 2, 4};
        for (int i = 0; i < 6; i++) {
            int got = -1;
            EXPECT(gy_recv(me->comm, &got, 1, GY_I32, 0, order[i]) == GY_OK);
            EXPECT(got == expected[i]);
        }
    }
    int short_one[4] = {7, 8, 9, 10}, room[10] = {0};
    size_t received = 0;
    gy_request *requests[2] = {NULL, NULL};
    const gy_message receive = {
        .data = room, .count = 10, .dtype = GY_I32, .peer = me->rank, .received = &received};
    const gy_message send = {.data = short_one, .count = 4, .dtype = GY_I32, .peer = me->rank};
    EXPECT(gy_request_begin_recv(me->comm, &receive, &requests[0]) == GY_OK);
    EXPECT(gy_request_begin_send(me->comm, &send, &requests[1]) == GY_OK);
    EXPECT(gy_request_wait_all(requests, 2, GY_NEVER) == GY_OK);
    EXPECT(received == 4 && room[3] == 10);
    gy_request_free(requests[0]);
    gy_request_free(requests[1]);
    EXPECT(gy_barrier(me->comm) == GY_OK);
}

GY_TEST(messages_keep_their_order)
{
    for (int ranks = 1; ranks <= 5; ranks += 2) {
        assert_int_equal(crew_run(ranks, NULL, pass_around, NULL), 0);
        assert_int_equal(crew_run(ranks, NULL, send_out_of_order, NULL), 0);
    }
}

static void send_too_much(crew_member *me)
{
    float data[8] = {0};
    gy_status status = me->rank == 0 ? gy_send(me->comm, data, 8, GY_F32, 1, 3)
                                     : gy_recv(me->comm, data, 5, GY_F32, 0, 3);
    EXPECT(me->rank == 0 || status == GY_MISMATCH);
    EXPECT(me->rank == 0 || strstr(gy_error_text(), "sent 32 bytes") != NULL);
    EXPECT(gy_barrier(me->comm) == GY_MISMATCH);
    EXPECT(strstr(gy_error_text(), "receive of 5 f32 from rank 0, tag 3") != NULL);
}

static void receive_nothing(crew_member *me)
{
    float data[2];
    if (me->rank == 1) {
        EXPECT(gy_recv(me->comm, data, 2, GY_F32, 0, 9) == GY_TIMEOUT);
        EXPECT(strstr(gy_error_text(), "receive of 2 f32 from rank 0, tag 9") != NULL);
    } else {
        const gy_coll_call patient = {.operation = GY_OPERATION_BARRIER, .timeout_s = 30};
        EXPECT(gy_coll_run(me->comm, &patient) == GY_TIMEOUT);
    }
}

GY_TEST(bad_messages_are_named_on_both_sides)
{
    const gy_comm_options options = {.timeout_s = 0.3};
    assert_int_equal(crew_run(2, NULL, send_too_much, NULL), 0);
    assert_int_equal(crew_run(2, &options, receive_nothing, NULL), 0);
}

enum { PARTS = 5, WORDS = 3000 };

/* Start several, wait for them in another order on each rank; repeat them. */
static void repeat_requests(crew_member *me)
{
    static const size_t counts[PARTS] = {1, WORDS, 33, 2, 1000};
    gy_request *requests[PARTS];
    int64_t *data = gy_alloc_zero("test", (size_t)PARTS * WORDS, sizeof(*data));
    for (size_t i = 0; i < PARTS; i++) {
        const gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                                   .dtype = GY_I64,
                                   .count = counts[i],
                                   .in = data + i * WORDS,
                                   .out = data + i * WORDS};
        EXPECT(gy_request_init(me->comm, &call, &requests[i]) == GY_OK);
        EXPECT(gy_request_test(requests[i]) == GY_OK);
    }
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < PARTS; i++) {
            data[i * WORDS + counts[i] - 1] = me->rank + round;
            EXPECT(gy_request_start(requests[i]) == GY_OK);
        }
        EXPECT(gy_request_start(requests[0]) == GY_STATE);
        size_t index = 0, ended = 0;
        if (round % 2 == 0) {
            for (; ended < PARTS; ended++) {
                EXPECT(gy_request_wait_any(requests, PARTS, GY_NEVER, &index) == GY_OK);
            }
            EXPECT(gy_request_wait_any(requests, PARTS, GY_NEVER, &index) == GY_ARG);
        } else {
            for (size_t i = 0; i < PARTS; i++) {
                size_t at = (i * 3 + (size_t)me->rank) % PARTS;
                EXPECT(gy_request_wait(requests[at], GY_NEVER) == GY_OK);
            }
        }
        int64_t expected = me->size * (me->size - 1) / 2 + me->size * round;
        for (size_t i = 0; i < PARTS; i++) {
            EXPECT(data[i * WORDS + counts[i] - 1] == expected);
        }
    }
    for (size_t i = 0; i < PARTS; i++) {
        gy_request_free(requests[i]);
    }
    gy_free(data);
    EXPECT(gy_barrier(me->comm) == GY_OK);
}

static void wait_in_vain(crew_member *me)
{
    int64_t one = 1;
    gy_request *request = NULL;
    if (me->rank == 0) {
        const gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                                   .dtype = GY_I64,
                                   .count = 1,
                                   .in = &one,
                                   .out = &one};
        EXPECT(gy_request_begin(me->comm, &call, &request) == GY_OK);
        EXPECT(gy_request_wait(request, gy_deadline_after(0.05)) == GY_TIMEOUT);
        EXPECT(gy_request_test(request) == GY_AGAIN);
        EXPECT(gy_send(me->comm, &one, 1, GY_I64, 1, 0) == GY_OK);
        EXPECT(gy_request_wait(request, GY_NEVER) == GY_OK);
        gy_request_free(request);
    } else {
        EXPECT(gy_recv(me->comm, &one, 1, GY_I64, 0, 0) == GY_OK);
        EXPECT(gy_allreduce(me->comm, &one, &one, 1, GY_I64, GY_SUM) == GY_OK);
    }
    EXPECT(one == 2);
}

GY_TEST(requests_end_in_any_order)
{
    const gy_comm_options messages = {.has_messages_only = true};
    for (int ranks = 1; ranks <= 4; ranks++) {
        assert_int_equal(crew_run(ranks, NULL, repeat_requests, NULL), 0);
        assert_int_equal(crew_run(ranks, &messages, repeat_requests, NULL), 0);
    }
    assert_int_equal(crew_run(2, NULL, wait_in_vain, NULL), 0);
}

/* Rows and columns of a 2 x 2 mesh: each rank waits for its two sums in an order of its own. */
static void sum_rows_and_columns(crew_member *me)
{
    gy_comm *row = NULL, *column = NULL;
    EXPECT(gy_comm_split(me->comm, me->rank / 2, 0, &row) == GY_OK);
    EXPECT(gy_comm_split(me->comm, me->rank % 2, 0, &column) == GY_OK);
    EXPECT(gy_comm_size(row) == 2 && gy_comm_rank(row) == me->rank % 2);
    EXPECT(gy_comm_size(column) == 2 && gy_comm_rank(column) == me->rank / 2);
    const size_t counts[] = {1, 3, 20000};
    int64_t *data = gy_alloc_zero("test", 40000, sizeof(*data));
    for (int round = 0; round < 30; round++) {
        size_t count = counts[round % 3];
        int64_t *second = data + 20000;
        data[count - 1] = second[count - 1] = me->rank + round;
        gy_comm *comms[2] = {row, column};
        gy_request *requests[2];
        for (int i = 0; i < 2; i++) {
            /* Each rank starts with another group. */
            int at = (i + me->rank + round) % 2;
            const gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                                       .dtype = GY_I64,
                                       .count = count,
                                       .in = at == 0 ? data : second,
                                       .out = at == 0 ? data : second};
            EXPECT(gy_request_begin(comms[at], &call, &requests[at]) == GY_OK);
        }
        int first = me->rank < 2 ? 0 : 1;
        EXPECT(gy_request_wait(requests[first], GY_NEVER) == GY_OK);
        EXPECT(gy_request_wait(requests[1 - first], GY_NEVER) == GY_OK);
        EXPECT(data[count - 1] == me->rank / 2 * 4 + 1 + 2 * round);
        EXPECT(second[count - 1] == me->rank % 2 * 2 + 2 + 2 * round);
        gy_request_free(requests[0]);
        gy_request_free(requests[1]);
    }
    gy_free(data);
    gy_comm_free(column);
    gy_comm_free(row);
    EXPECT(gy_barrier(me->comm) == GY_OK);
}

/* Groups come and go, with more of them alive than communicator slots with shared memory. */
static void make_many_groups(crew_member *me)
{
    enum { ALIVE = 20 };
    gy_comm *groups[ALIVE] = {NULL};
    for (int round = 0; round < 3 * ALIVE; round++) {
        int at = round % ALIVE, last = (round + 7) % ALIVE;
        gy_comm_free(groups[at]);
        groups[at] = NULL;
        bool is_in = (me->rank + round) % 3 != 0;
        EXPECT(gy_comm_split(me->comm, is_in ? round : GY_NO_COLOUR, me->rank, &groups[at]) ==
               GY_OK);
        EXPECT((groups[at] != NULL) == is_in);
        int64_t one[3000] = {0};
        one[0] = 1;
        if (groups[at] != NULL) {
            EXPECT(gy_allreduce(groups[at], one, one, 3000, GY_I64, GY_SUM) == GY_OK);
            EXPECT(one[0] == gy_comm_size(groups[at]));
        }
        if (groups[last] != NULL) {
            EXPECT(gy_barrier(groups[last]) == GY_OK);
        }
    }
    for (int i = 0; i < ALIVE; i++) {
        gy_comm_free(groups[i]);
    }
    gy_comm *copy = NULL, *inner = NULL;
    EXPECT(gy_comm_dup(me->comm, &copy) == GY_OK);
    EXPECT(gy_comm_rank(copy) == me->rank);
    EXPECT(gy_comm_split(copy, 0, -me->rank, &inner) == GY_OK);
    EXPECT(gy_comm_rank(inner) == me->size - 1 - me->rank);
    int32_t root = me->rank;
    EXPECT(gy_broadcast(inner, &root, 1, GY_I32, 0) == GY_OK);
    EXPECT(root == me->size - 1);
    gy_comm_free(inner);
    gy_comm_free(copy);
    EXPECT(gy_comm_split(me->comm, -2, 0, &copy) == GY_ARG);
}

GY_TEST(groups_work_side_by_side)
{
    const gy_comm_options messages = {.has_messages_only = true};
    assert_int_equal(crew_run(4, NULL, sum_rows_and_columns, NULL), 0);
    assert_int_equal(crew_run(4, &messages, sum_rows_and_columns, NULL), 0);
    assert_int_equal(crew_run(5, NULL, make_many_groups, NULL), 0);
    assert_int_equal(crew_run(3, &messages, make_many_groups, NULL), 0);
}

static void fail_in_a_group(crew_member *me)
{
    gy_comm *group = NULL;
    EXPECT(gy_comm_split(me->comm, 0, -me->rank, &group) == GY_OK);
    int64_t data[4] = {0};
    size_t count = me->rank == 0 ? 3 : 4;
    EXPECT(gy_allreduce(group, data, data, count, GY_I64, GY_SUM) == GY_MISMATCH);
    EXPECT(strstr(gy_error_text(), "of group 1.") != NULL);
    EXPECT(strstr(gy_error_text(), "of 3 i64") != NULL);
    EXPECT(strstr(gy_error_text(), "of 4 i64") != NULL);
    EXPECT(gy_barrier(me->comm) == GY_MISMATCH);
    gy_comm_free(group);
}

static _Atomic int told; /* ranks that have heard of it */

/* Ranks 1 and 2 differ while rank 0 stays away: it need not come for them to be told. */
static void differ_beside_one_that_is_missing(crew_member *me)
{
    gy_comm *group = NULL;
    EXPECT(gy_comm_split(me->comm, 0, me->rank, &group) == GY_OK);
    int64_t data[4] = {0};
    if (me->rank == 0) {
        while (atomic_load_explicit(&told, memory_order_acquire) < me->size - 1) {
            gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
        }
    } else {
        size_t count = me->rank == 1 ? 3 : 4;
        EXPECT(gy_allreduce(group, data, data, count, GY_I64, GY_SUM) == GY_MISMATCH);
        EXPECT(strstr(gy_error_text(), "of 3 i64") != NULL);
        EXPECT(strstr(gy_error_text(), "of 4 i64") != NULL);
        atomic_fetch_add_explicit(&told, 1, memory_order_acq_rel);
    }
    EXPECT(gy_barrier(me->comm) == GY_MISMATCH);
    gy_comm_free(group);
}

GY_TEST(a_mismatch_waits_for_nobody)
{
    const gy_comm_options messages = {.has_messages_only = true};
    for (int ranks = 3; ranks <= 5; ranks += 2) {
        atomic_store_explicit(&told, 0, memory_order_release);
        assert_int_equal(crew_run(ranks, NULL, differ_beside_one_that_is_missing, NULL), 0);
        atomic_store_explicit(&told, 0, memory_order_release);
        assert_int_equal(crew_run(ranks, &messages, differ_beside_one_that_is_missing, NULL),
                         0);
    }
}

/* Each waits in the other's communicator: rank 0, whose deadline comes first, tells the circle.
 */
static void meet_in_different_groups(crew_member *me)
{
    const gy_coll_call patient = {.operation = GY_OPERATION_BARRIER, .timeout_s = 60};
    gy_comm *group = NULL;
    EXPECT(gy_comm_split(me->comm, 0, me->rank, &group) == GY_OK);
    gy_status status = me->rank == 0 ? gy_barrier(me->comm) : gy_coll_run(group, &patient);
    EXPECT(status == GY_TIMEOUT);
    EXPECT(strstr(gy_error_text(), "barrier and waits for rank") != NULL);
    gy_comm_free(group);
}

GY_TEST(a_deadline_tells_what_the_other_does)
{
    const gy_comm_options soon = {.timeout_s = 0.3};
    assert_int_equal(crew_run(2, &soon, meet_in_different_groups, NULL), 0);
}

GY_TEST(a_failure_in_a_group_is_everybodys)
{
    assert_int_equal(crew_run(2, NULL, fail_in_a_group, NULL), 0);
}

GY_TEST_MAIN(NULL, NULL)
