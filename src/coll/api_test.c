/*
 * Goal: the public collectives by their plain names give what a serial oracle says, on 1, 2 and
 * 4 ranks, with shared memory and by messages alone; a call made as a value and started as a
 * request gives the same as the blocking function.
 */
#include "coll/crew_priv.h"

#include "coll/coll_priv.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS_MAX = 4, COUNT_MAX = 3000, ROOM = RANKS_MAX * (COUNT_MAX + RANKS_MAX) * 2 };

/* What rank `rank` holds at `i`, of a call that `salt` tells apart. */
static int64_t value(int rank, size_t i, uint64_t salt)
{
    return (int64_t)((salt + (uint64_t)rank * 1009 + i * 31) % 1013) - 500;
}

static int64_t sum_of(int first, int last, size_t i, uint64_t salt)
{
    int64_t sum = 0;
    for (int rank = first; rank < last; rank++) {
        sum += value(rank, i, salt);
    }
    return sum;
}

/* Buffers of a rank, and how its calls are made. */
typedef struct bench {
    crew_member *me;
    uint64_t salt;
    size_t n;
    int root;
    bool is_request;
    int64_t in[ROOM], out[ROOM];
} bench;

static void fill(bench *at)
{
    for (size_t i = 0; i < ROOM; i++) {
        at->in[i] = value(at->me->rank, i, at->salt);
        at->out[i] = INT64_MIN;
    }
}

/* The call as a request where the round is one of requests, else `status` of the function. */
static gy_status carry_out(bench *at, const gy_coll_call *call)
{
    gy_request *request = NULL;
    GY_TRY(gy_request_begin(at->me->comm, call, &request));
    gy_status status = gy_request_wait(request, gy_deadline_after(60));
    gy_request_free(request);
    return status;
}

/* The function, or its call as a request. */
#define RUN(at, name, ...)                                                                     \
    (fill(at), (at)->is_request                                                                \
                   ? carry_out((at), (gy_coll_call[]){gy_##name##_call(__VA_ARGS__)})          \
                   : gy_##name((at)->me->comm, __VA_ARGS__))

static void run_alike(bench *at)
{
    crew_member *me = at->me;
    size_t n = at->n;
    int p = me->size, r = me->rank, root = at->root;
    bool is_right = true;
    EXPECT(RUN(at, allreduce, at->in, at->out, n, GY_I64, GY_SUM) == GY_OK);
    for (size_t i = 0; i < n; i++) {
        is_right = is_right && at->out[i] == sum_of(0, p, i, at->salt);
    }
    EXPECT(is_right);
    EXPECT(RUN(at, reduce, at->in, at->out, n, GY_I64, GY_SUM, root) == GY_OK);
    for (size_t i = 0; i < n && r == root; i++) {
        is_right = is_right && at->out[i] == sum_of(0, p, i, at->salt);
    }
    EXPECT(is_right && (r == root || at->out[0] == INT64_MIN));
    EXPECT(RUN(at, broadcast, at->in, n, GY_I64, root) == GY_OK);
    for (size_t i = 0; i < n; i++) {
        is_right = is_right && at->in[i] == value(root, i, at->salt);
    }
    EXPECT(is_right);
    EXPECT(RUN(at, reduce_scatter, at->in, at->out, n, GY_I64, GY_SUM) == GY_OK);
    for (size_t i = 0; i < n; i++) {
        is_right = is_right && at->out[i] == sum_of(0, p, n * (size_t)r + i, at->salt);
    }
    EXPECT(is_right);
    EXPECT(RUN(at, scan, at->in, at->out, n, GY_I64, GY_SUM) == GY_OK);
    for (size_t i = 0; i < n; i++) {
        is_right = is_right && at->out[i] == sum_of(0, r + 1, i, at->salt);
    }
    EXPECT(is_right);
    EXPECT(RUN(at, exclusive_scan, at->in, at->out, n, GY_I64, GY_SUM) == GY_OK);
    for (size_t i = 0; i < n; i++) {
        is_right = is_right && at->out[i] == (r == 0 ? INT64_MIN : sum_of(0, r, i, at->salt));
    }
    EXPECT(is_right);
    EXPECT(gy_barrier(me->comm) == GY_OK);
    EXPECT(carry_out(at, (gy_coll_call[]){gy_barrier_call()}) == GY_OK);
}

static void run_parts(bench *at)
{
    crew_member *me = at->me;
    size_t n = at->n;
    int p = me->size, r = me->rank, root = at->root;
    bool is_right = true;
    EXPECT(RUN(at, allgather, at->in, at->out, n, GY_I64) == GY_OK);
    for (size_t i = 0; i < n * (size_t)p; i++) {
        is_right = is_right && at->out[i] == value((int)(i / n), i % n, at->salt);
    }
    EXPECT(is_right);
    EXPECT(RUN(at, gather, at->in, at->out, n, GY_I64, root) == GY_OK);
    for (size_t i = 0; i < n * (size_t)p && r == root; i++) {
        is_right = is_right && at->out[i] == value((int)(i / n), i % n, at->salt);
    }
    EXPECT(is_right && (r == root || at->out[0] == INT64_MIN));
    EXPECT(RUN(at, scatter, at->in, at->out, n, GY_I64, root) == GY_OK);
    for (size_t i = 0; i < n; i++) {
        is_right = is_right && at->out[i] == value(root, n * (size_t)r + i, at->salt);
    }
    EXPECT(is_right);
    EXPECT(RUN(at, alltoall, at->in, at->out, n, GY_I64) == GY_OK);
    for (size_t i = 0; i < n * (size_t)p; i++) {
        is_right =
            is_right && at->out[i] == value((int)(i / n), n * (size_t)r + i % n, at->salt);
    }
    EXPECT(is_right);
}

/* Part k has n + k elements, with a gap before each where the call takes displacements. */
static void run_vectors(bench *at)
{
    crew_member *me = at->me;
    int p = me->size, r = me->rank, root = at->root;
    int64_t counts[RANKS_MAX], places[RANKS_MAX], dense = 0, own[RANKS_MAX], mine = 0;
    for (int k = 0; k < p; k++) {
        counts[k] = (int64_t)at->n + k;
        own[k] = (int64_t)at->n + r;
        places[k] = dense + 2 * k;
        mine = k == r ? dense : mine;
        dense += counts[k];
    }
    const gy_parts parts = {counts, NULL}, gaps = {counts, places}, even = {own, NULL};
    size_t n = (size_t)counts[r];
    bool is_right = true;
    EXPECT(RUN(at, allgatherv, at->in, at->out, &gaps, GY_I64) == GY_OK);
    for (int k = 0; k < p; k++) {
        for (int64_t i = 0; i < counts[k]; i++) {
            is_right = is_right && at->out[places[k] + i] == value(k, (size_t)i, at->salt);
        }
    }
    EXPECT(is_right);
    EXPECT(RUN(at, gatherv, at->in, n, at->out, r == root ? &gaps : NULL, GY_I64, root) ==
           GY_OK);
    for (int k = 0; k < p && r == root; k++) {
        for (int64_t i = 0; i < counts[k]; i++) {
            is_right = is_right && at->out[places[k] + i] == value(k, (size_t)i, at->salt);
        }
    }
    EXPECT(is_right);
    EXPECT(RUN(at, scatterv, at->in, &gaps, at->out, n, GY_I64, root) == GY_OK);
    for (size_t i = 0; i < n; i++) {
        is_right = is_right && at->out[i] == value(root, (size_t)places[r] + i, at->salt);
    }
    EXPECT(is_right);
    EXPECT(RUN(at, reduce_scatterv, at->in, at->out, &parts, GY_I64, GY_SUM) == GY_OK);
    for (size_t i = 0; i < n; i++) {
        is_right = is_right && at->out[i] == sum_of(0, p, (size_t)mine + i, at->salt);
    }
    EXPECT(is_right);
    /* Rank d takes counts[d] elements from everybody. */
    EXPECT(RUN(at, alltoallv, at->in, &parts, at->out, &even, GY_I64) == GY_OK);
    for (int k = 0; k < p; k++) {
        for (size_t i = 0; i < n; i++) {
            is_right =
                is_right && at->out[(size_t)k * n + i] == value(k, (size_t)mine + i, at->salt);
        }
    }
    EXPECT(is_right);
}

static void run_all(crew_member *me)
{
    static bench benches[RANKS_MAX];
    bench *at = &benches[me->rank];
    gy_random random = {.key = *(const uint64_t *)me->shared_arg};
    for (long i = gy_test_cases(12); i > 0; i--) {
        const uint64_t kind = gy_random_below(&random, 3);
        at->me = me;
        at->salt = gy_random_below(&random, 1000);
        at->n = 1 + (size_t)gy_random_below(&random, kind == 0   ? 3
                                                     : kind == 1 ? 70
                                                                 : COUNT_MAX);
        at->root = (int)gy_random_below(&random, (uint64_t)me->size);
        at->is_request = gy_random_below(&random, 2) == 1;
        run_alike(at);
        run_parts(at);
        run_vectors(at);
    }
}

GY_TEST(plain_names_give_what_the_oracle_says)
{
    static const int sizes[] = {1, 2, 4};
    uint64_t seed = gy_test_seed();
    const gy_comm_options messages = {.has_messages_only = true};
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        assert_int_equal(crew_run(sizes[i], NULL, run_all, &seed), 0);
        assert_int_equal(crew_run(sizes[i], &messages, run_all, &seed), 0);
    }
}

GY_TEST_MAIN(NULL, NULL)
