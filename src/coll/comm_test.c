/*
 * Goal: collectives keep their numbers whatever order they start in; what goes wrong is named
 * on all ranks and nobody waits for ever.
 */
#include "coll/crew_priv.h"

#include "coll/coll_priv.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "gy_test.h"

static void note_end(void *arg, gy_status status)
{
    int *ended = arg;
    *ended = status == GY_OK ? 1 : -1;
}

/* Reserve 24, start them in an order of each rank's own, of mixed sizes; all end with the right
 * sum. */
static void start_in_own_order(crew_member *me)
{
    enum { FLIGHTS = 24, LONGEST = 40000 };
    gy_coll *flights[FLIGHTS];
    int order[FLIGHTS], ended[FLIGHTS] = {0};
    float *data[FLIGHTS];
    gy_random random = {.key = (uint64_t)me->rank + 77};
    for (int i = 0; i < FLIGHTS; i++) {
        EXPECT(gy_coll_reserve(me->comm, &flights[i]) == GY_OK);
        order[i] = i;
    }
    for (int i = FLIGHTS - 1; i > 0; i--) {
        int other = (int)gy_random_below(&random, (uint64_t)i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < FLIGHTS; i++) {
        int at = order[i];
        size_t count = at % 3 == 0 ? 5 : LONGEST;
        data[at] = gy_alloc("test", count * sizeof(float));
        for (size_t k = 0; k < count; k++) {
            data[at][k] = (float)(at + me->rank);
        }
        gy_coll_start(flights[at],
                      &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                      .dtype = GY_F32,
                                      .count = count,
                                      .in = data[at],
                                      .out = data[at],
                                      .priority = at % 2},
                      note_end, &ended[at]);
        (void)gy_comm_progress(me->comm);
    }
    while (gy_comm_in_flight(me->comm) > 0) {
        (void)gy_comm_progress(me->comm);
        gy_env_real()->ops->pause(gy_env_real(), 1000);
    }
    for (int i = 0; i < FLIGHTS; i++) {
        size_t count = i % 3 == 0 ? 5 : LONGEST;
        float expected = (float)(i * me->size + me->size * (me->size - 1) / 2);
        EXPECT(ended[i] == 1);
        EXPECT(data[i][0] == expected && data[i][count - 1] == expected);
        gy_free(data[i]);
    }
}

GY_TEST(many_are_in_flight_in_any_order)
{
    static const char *const names[] = {NULL, "ring", "tree"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        for (int ranks = 1; ranks <= 5; ranks += 2) {
            assert_int_equal(crew_run(ranks, &(gy_comm_options){.algorithm = names[i]},
                                      start_in_own_order, NULL),
                             0);
        }
    }
}

static void call_differently(crew_member *me)
{
    const bool *is_long = me->shared_arg;
    size_t count = (*is_long ? 100000 : 10) + (me->rank == 1 ? 1u : 0);
    float *data = gy_alloc_zero("test", count, sizeof(float));
    EXPECT(gy_barrier(me->comm) == GY_OK);
    gy_status status = gy_allreduce(me->comm, data, data, count, GY_F32, GY_SUM);
    EXPECT(status == GY_MISMATCH);
    EXPECT(strstr(gy_error_text(), *is_long ? "100000 f32" : "10 f32") != NULL);
    EXPECT(strstr(gy_error_text(), *is_long ? "100001 f32" : "11 f32") != NULL);
    EXPECT(gy_barrier(me->comm) == GY_MISMATCH);
    gy_free(data);
}

GY_TEST(different_calls_are_printed_on_all_ranks)
{
    for (int is_long = 0; is_long < 2; is_long++) {
        bool arg = is_long == 1;
        assert_int_equal(crew_run(2, NULL, call_differently, &arg), 0);
        assert_int_equal(crew_run(4, NULL, call_differently, &arg), 0);
    }
}

/* Differing calls, then a number that rank 1 takes no part in: each fails alone on all ranks.
 */
static void call_differently_and_go_on(crew_member *me)
{
    const bool *is_long = me->shared_arg;
    size_t count = *is_long ? 100000 : 10;
    float *data = gy_alloc_zero("test", count + 1, sizeof(float));
    for (int round = 0; round < 20; round++) { /* more than there are channels */
        size_t own = count + (me->rank == 1 ? 1u : 0);
        EXPECT(gy_allreduce(me->comm, data, data, own, GY_F32, GY_SUM) == GY_MISMATCH);
        data[0] = 1;
        EXPECT(gy_allreduce(me->comm, data, data, count, GY_F32, GY_SUM) == GY_OK);
        EXPECT(data[0] == (float)me->size);
        if (me->rank == 1) {
            gy_comm_skip(me->comm, 7);
        } else {
            EXPECT(gy_allreduce(me->comm, data, data, count, GY_F32, GY_SUM) == GY_MISMATCH);
            EXPECT(strstr(gy_error_text(), "rank 1 has reason 7") != NULL);
        }
        EXPECT(gy_comm_in_flight(me->comm) == 0);
    }
    EXPECT(gy_comm_next(me->comm) == 60 && gy_comm_ended_by(me->comm, me->rank) == 60);
    EXPECT(gy_barrier(me->comm) == GY_OK);
    gy_free(data);
}

static const char *reason_text(uint8_t why)
{
    return why == 7 ? "has reason 7" : NULL;
}

GY_TEST(a_communicator_can_outlive_mismatches)
{
    gy_comm_options options = {.outlives_mismatch = true, .skip_text = reason_text};
    for (int is_long = 0; is_long < 2; is_long++) {
        bool arg = is_long == 1;
        for (int ranks = 2; ranks <= 4; ranks++) {
            assert_int_equal(crew_run(ranks, &options, call_differently_and_go_on, &arg), 0);
        }
    }
}

/* An environment whose clock lets rank 1 call between rank 0's look at the slots and its check
 * of the calls in flight, which begins with this clock. */
static struct {
    gy_comm *comm; /* rank 0's */
    _Atomic bool may_call, has_ended;
} late;

static int64_t now_of_late(gy_env *env)
{
    enum { CHECK_ROUND = 16 }; /* the first check's */
    (void)env;
    if (late.comm != NULL && late.comm->root->idle_rounds == CHECK_ROUND && !late.may_call) {
        late.may_call = true;
        while (!late.has_ended) {
            sched_yield();
        }
    }
    return gy_now_ns(gy_env_real());
}

static void call_late(crew_member *me)
{
    enum { COUNT = 100000 };
    float *data = gy_alloc_zero("test", COUNT + 1, sizeof(float));
    if (me->rank == 0) {
        late.comm = me->comm;
    }
    while (me->rank == 1 && !late.may_call) {
        sched_yield();
    }
    size_t count = COUNT + (size_t)me->rank;
    EXPECT(gy_allreduce(me->comm, data, data, count, GY_F32, GY_SUM) == GY_MISMATCH);
    late.has_ended = late.has_ended || me->rank == 1;
    EXPECT(late.has_ended);
    EXPECT(!me->comm->root->is_failed);
    gy_free(data);
}

GY_TEST(a_mismatch_that_a_check_finds_ends_the_call)
{
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {.ops = &ops};
    gy_transport *transports[2];
    const gy_transport_segment_options segment = {
        .ranks = 2, .pool_bytes = 16 << 20, .ring_bytes = crew_ring_bytes};
    const gy_comm_options options = {.outlives_mismatch = true, .timeout_s = 20};
    ops.now_ns = now_of_late;
    assert_ok(gy_transport_shm_open_all(&segment, &env, transports));
    assert_int_equal(crew_run_on(transports, 2, &options, call_late, NULL), 0);
}

enum { LAST_MESSAGE, LAST_OF_ANY, LAST_COLLECTIVE, LAST_ACTS };

/* Rank 1 does its part and leaves between rank 0's look and its check, which finds it gone. */
static void leave_late(crew_member *me)
{
    const int act = *(const int *)me->shared_arg;
    const gy_deadline deadline = gy_deadline_after(20);
    int32_t data[4] = {me->rank, 10, 20, 30};
    int from = 1;
    if (me->rank == 0) {
        late.comm = me->comm;
    }
    while (me->rank == 1 && !late.may_call && gy_now_ns(gy_env_real()) < deadline.at_ns) {
        sched_yield();
    }
    if (act == LAST_COLLECTIVE) {
        int ended = 0; /* not in a call that blocks, which waits for the slots itself */
        const gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                                   .dtype = GY_I32,
                                   .reduction = GY_SUM,
                                   .count = 4,
                                   .in = data,
                                   .out = data};
        EXPECT(gy_coll_begin(me->comm, &call, note_end, &ended) == GY_OK);
        while (ended == 0) {
            (void)gy_comm_progress(me->comm);
        }
        EXPECT(ended == 1 && data[0] == 1 && data[3] == 60);
    } else if (me->rank == 1) {
        EXPECT(gy_send(me->comm, data, 4, GY_I32, 0, 7) == GY_OK);
    } else {
        EXPECT((act == LAST_OF_ANY ? gy_recv_any(me->comm, data, 4, GY_I32, 7, &from)
                                   : gy_recv(me->comm, data, 4, GY_I32, 1, 7)) == GY_OK);
        EXPECT(from == 1 && data[0] == 1 && data[3] == 30);
    }
    if (me->rank == 1) {
        gy_comm_free(me->comm);
        me->comm = NULL;
        late.has_ended = true;
    }
    EXPECT(late.may_call && late.has_ended);
}

GY_TEST(what_a_rank_sent_before_it_left_counts)
{
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {.ops = &ops};
    gy_transport *transports[2];
    const gy_transport_segment_options segment = {
        .ranks = 2, .pool_bytes = 16 << 20, .ring_bytes = crew_ring_bytes};
    ops.now_ns = now_of_late;
    for (int i = 0; i < 2 * LAST_ACTS; i++) {
        int act = i / 2;
        const gy_comm_options options = {.timeout_s = 20, .has_messages_only = i % 2 == 1};
        late.comm = NULL;
        late.may_call = late.has_ended = false;
        assert_ok(gy_transport_shm_open_all(&segment, &env, transports));
        assert_int_equal(crew_run_on(transports, 2, &options, leave_late, &act), 0);
    }
}

static void poison_one(crew_member *me)
{
    gy_coll *coll = NULL;
    int ended = 0;
    EXPECT(gy_coll_reserve(me->comm, &coll) == GY_OK);
    if (me->rank == 2) {
        (void)gy_fail(GY_NUMERIC, "the gradient of w1 is not a number");
        gy_error cause;
        gy_error_take(&cause, GY_NUMERIC);
        gy_coll_poison(coll, &cause, note_end, &ended);
    } else {
        float data[3] = {1, 2, 3};
        gy_coll_start(coll,
                      &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                      .dtype = GY_F32,
                                      .count = 3,
                                      .in = data,
                                      .out = data},
                      note_end, &ended);
        while (ended == 0) {
            (void)gy_comm_progress(me->comm);
            gy_env_real()->ops->pause(gy_env_real(), 1000);
        }
    }
    EXPECT(ended == -1);
    EXPECT(gy_barrier(me->comm) == GY_NUMERIC);
    EXPECT(strstr(gy_error_text(), "gradient of w1") != NULL);
    EXPECT(me->rank == 2 || strstr(gy_error_text(), "rank 2") != NULL);
}

GY_TEST(poison_reaches_all_with_its_cause)
{
    assert_int_equal(crew_run(4, NULL, poison_one, NULL), 0);
}

static void one_stays_away(crew_member *me)
{
    float data[8] = {0};
    if (me->rank != 1) {
        gy_status status = gy_allreduce(me->comm, data, data, 8, GY_F32, GY_SUM);
        EXPECT(status == GY_TIMEOUT);
        EXPECT(strstr(gy_error_text(), "rank 1") != NULL);
        EXPECT(strstr(gy_error_text(), "allreduce of 8 f32 by sum") != NULL);
    }
}

static void long_one_stays_away(crew_member *me)
{
    static float data[3][50000];
    if (me->rank != 1) {
        float *mine = data[me->rank];
        gy_status status = gy_allreduce(me->comm, mine, mine, 50000, GY_F32, GY_SUM);
        EXPECT(status == GY_TIMEOUT);
        EXPECT(strstr(gy_error_text(), "rank 1") != NULL);
    }
}

GY_TEST(absent_rank_is_named_at_the_deadline)
{
    const gy_comm_options options = {.timeout_s = 0.2};
    assert_int_equal(crew_run(3, &options, one_stays_away, NULL), 0);
    assert_int_equal(crew_run(3, &options, long_one_stays_away, NULL), 0);
}

/* Time passes only when it is told to. */
static _Atomic int64_t told_ns;

static int64_t now_as_told(gy_env *env)
{
    (void)env;
    return told_ns;
}

/* Rank 1 stays away. */
static void wait_in_few_rounds(crew_member *me)
{
    enum { ROUNDS = 32 };
    float data[3] = {0};
    int ended = 0, rounds = 0;
    gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                         .dtype = GY_F32,
                         .reduction = GY_SUM,
                         .count = 3,
                         .in = data,
                         .out = data};
    if (me->rank == 1) {
        return;
    }
    EXPECT(gy_coll_begin(me->comm, &call, note_end, &ended) == GY_OK);
    told_ns += 2000000000;
    while (ended == 0) {
        (void)gy_comm_progress(me->comm);
        rounds++;
    }
    EXPECT(ended == -1 && rounds <= ROUNDS);
    EXPECT(gy_comm_in_flight(me->comm) == 0);
}

/* A rank that is seldom scheduled makes few rounds in a second. */
GY_TEST(few_rounds_notice_a_deadline)
{
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {.ops = &ops};
    gy_transport *transports[2];
    const gy_transport_segment_options segment = {
        .ranks = 2, .pool_bytes = 16 << 20, .ring_bytes = crew_ring_bytes};
    const gy_comm_options options = {.timeout_s = 1};
    told_ns = gy_now_ns(gy_env_real());
    ops.now_ns = now_as_told;
    assert_ok(gy_transport_shm_open_all(&segment, &env, transports));
    assert_int_equal(crew_run_on(transports, 2, &options, wait_in_few_rounds, NULL), 0);
}

static void count_end(void *arg, gy_status status)
{
    *(_Atomic int *)arg += status == GY_CANCELLED;
}

/* Whoever waits until nothing is in flight must not wait for what has failed. */
static void fail_in_flight(crew_member *me)
{
    enum { CALLS = 5 };
    static float data[3][CALLS][5000];
    _Atomic int ended = 0;
    gy_coll *reserved = NULL;
    gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                         .dtype = GY_F32,
                         .reduction = GY_SUM,
                         .count = 5000};
    EXPECT(gy_barrier(me->comm) == GY_OK);
    EXPECT(gy_comm_in_flight(me->comm) == 0);
    for (int i = 0; i < CALLS; i++) {
        call.in = call.out = data[me->rank][i];
        EXPECT(me->rank == 1 || gy_coll_begin(me->comm, &call, count_end, &ended) == GY_OK);
    }
    EXPECT(gy_coll_reserve(me->comm, &reserved) == GY_OK);
    _Atomic int *past_barrier = me->shared_arg;
    *past_barrier += 1;
    if (me->rank == 1) {
        EXPECT(gy_comm_in_flight(me->comm) == 1);
        while (*past_barrier < me->size) {
            sched_yield(); /* whoever is still in the barrier would fail there */
        }
        gy_comm_revoke(me->comm);
    }
    gy_deadline deadline = gy_deadline_after(20);
    while (gy_comm_in_flight(me->comm) > 1 && gy_now_ns(gy_env_real()) < deadline.at_ns) {
        (void)gy_comm_progress(me->comm);
    }
    EXPECT(gy_comm_in_flight(me->comm) == 1);
    EXPECT(ended == (me->rank == 1 ? 0 : CALLS));
    gy_coll_start(reserved, &call, count_end, &ended);
    EXPECT(gy_comm_in_flight(me->comm) == 0);
    EXPECT(ended == (me->rank == 1 ? 1 : CALLS + 1));
    EXPECT(gy_barrier(me->comm) == GY_CANCELLED);
    EXPECT(gy_comm_in_flight(me->comm) == 0);
}

GY_TEST(nothing_stays_in_flight_after_a_failure)
{
    const gy_comm_options messages = {.has_messages_only = true};
    for (int i = 0; i < 2; i++) {
        _Atomic int past_barrier = 0;
        assert_int_equal(crew_run(3, i == 0 ? NULL : &messages, fail_in_flight, &past_barrier),
                         0);
    }
}

GY_TEST(bad_calls_are_refused)
{
    gy_transport *transport = NULL;
    gy_comm *comm = NULL;
    assert_ok(gy_transport_self_open(gy_env_real(), &transport));
    assert_ok(gy_comm_new(transport, NULL, &comm));
    float data[2] = {3, 4}, out[2] = {0};
    assert_int_equal(gy_comm_rank(comm), 0);
    assert_int_equal(gy_comm_size(comm), 1);
    assert_ok(gy_allreduce(comm, data, out, 2, GY_F32, GY_SUM));
    assert_true(out[0] == 3 && out[1] == 4);
    assert_status(gy_broadcast(comm, data, 2, GY_F32, 1), GY_ARG);
    assert_status(gy_allreduce(comm, NULL, data, 2, GY_F32, GY_SUM), GY_ARG);
    assert_status(gy_allreduce(comm, data, data, SIZE_MAX, GY_F32, GY_SUM), GY_ARG);
    assert_status(gy_allreduce(comm, data, data, 2, GY_F32, GY_BIT_AND), GY_ARG);
    assert_status(gy_allreduce(comm, data, data, 2, GY_F32, GY_REDUCTION_COUNT), GY_ARG);
    assert_ok(gy_allreduce(comm, NULL, NULL, 0, GY_F32, GY_SUM));
    assert_status(gy_allreduce(comm, data, out, 2, GY_DTYPE_NONE, GY_SUM), GY_ARG);
    assert_string_equal(gy_error_text(), "allreduce: element type 0 does not exist");
    assert_ok(gy_barrier(comm));
    gy_comm_free(comm);
    gy_comm_free(NULL);
}

GY_TEST(names_and_timeouts_are_checked)
{
    gy_transport *transport = NULL;
    gy_comm *comm = NULL;
    assert_ok(gy_transport_self_open(gy_env_real(), &transport));
    assert_status(gy_comm_new(transport, &(gy_comm_options){.algorithm = "quick"}, &comm),
                  GY_ARG);
    assert_non_null(strstr(gy_error_text(), "there are slots, ring, segments"));
    assert_int_equal(setenv("GYRE_TIMEOUT", "soon", 1), 0);
    assert_ok(gy_transport_self_open(gy_env_real(), &transport));
    assert_status(gy_comm_new(transport, NULL, &comm), GY_ARG);
    unsetenv("GYRE_TIMEOUT");
}

static long page_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_minflt : -1;
}

static void repeat_calls(crew_member *me)
{
    enum { COUNT = 300000, WARM = 12, MEASURED = 40 };
    gy_pool *pool = gy_comm_pool(me->comm);
    float *in = gy_alloc_zero("test", COUNT, 4), *out = gy_alloc_zero("test", COUNT, 4);
    float *shared = gy_pool_take(pool, COUNT * 4);
    memset(shared, 0, COUNT * 4);
    long faults = 0;
    for (int i = 0; i < WARM + MEASURED; i++) {
        if (i == WARM) {
            EXPECT(gy_barrier(me->comm) == GY_OK);
            faults = page_faults();
        }
        EXPECT(gy_allreduce(me->comm, in, out, COUNT, GY_F32, GY_SUM) == GY_OK);
        EXPECT(gy_allreduce(me->comm, shared, shared, COUNT, GY_F32, GY_SUM) == GY_OK);
        EXPECT(gy_allreduce(me->comm, in, out, 3, GY_F32, GY_SUM) == GY_OK);
    }
    long after = page_faults();
    EXPECT(after - faults < 8);
    gy_pool_give(pool, shared);
    gy_free(in);
    gy_free(out);
}

GY_TEST(steady_state_takes_no_page_faults)
{
    if (gy_test_cases(8) == 1) {
        printf("skipped: sanitizers take memory of their own\n");
        skip();
    }
    assert_int_equal(crew_run(2, NULL, repeat_calls, NULL), 0);
}

GY_TEST_MAIN(NULL, NULL)
