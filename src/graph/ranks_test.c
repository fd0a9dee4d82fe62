/* Goal: sessions on 1, 2, 3 and 4 ranks give what one rank gives, bit-identical from run to
 * run; the gradient's allreduce stands in the compiled graph without anyone having written it.
 */
#include "graph/random_graph.h"
#include "graph/session_priv.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { RANKS_MAX = 4, VALUES_MAX = 512, TRIALS = 12, BATCH = 7 };

/* What one program gave on every rank, values one after the other. */
typedef struct outcome {
    double values[VALUES_MAX];
    int count;
} outcome;

typedef struct member {
    gy_thread thread;
    gy_comm *comm;
    int rank, ranks;
    uint64_t seed;
    gy_status (*run)(struct member *me);
    outcome got;
    gy_error error;
} member;

static gy_status keep(member *me, gy_tensor *tensor)
{
    for (int64_t i = 0; i < gy_tensor_count(tensor) && me->got.count < VALUES_MAX; i++) {
        me->got.values[me->got.count++] = gy_tensor_get(tensor, i);
    }
    gy_tensor_drop(tensor);
    return GY_OK;
}

/* This rank's rows of a batch that is a function of the seed alone. */
static gy_status rows_of(const member *me, uint64_t key, gy_tensor **tensor)
{
    int64_t begin = gy_part_begin(BATCH, me->rank, me->ranks);
    int64_t end = gy_part_begin(BATCH, me->rank + 1, me->ranks);
    GY_TRY(gy_tensor_new(NULL, GY_F64, (int64_t[]){end - begin, RANDOM_FEATURES}, 2, tensor));
    gy_random random = {.key = key};
    for (int64_t i = 0; i < BATCH * RANDOM_FEATURES; i++) {
        double value = 2 * gy_random_unit(&random) - 1;
        if (i / RANDOM_FEATURES >= begin && i / RANDOM_FEATURES < end) {
            gy_tensor_set(*tensor, i - begin * RANDOM_FEATURES, value);
        }
    }
    return GY_OK;
}

/* Three steps of gradient descent on a random graph; loss, gradients and what becomes of w. */
static gy_status train(member *me, random_graph *r, gy_session *session)
{
    gy_node fetches[1 + 2 * RANDOM_PARAMETERS];
    gy_node gradients[RANDOM_PARAMETERS];
    GY_TRY(gy_gradients(r->loss, r->parameters, RANDOM_PARAMETERS, gradients));
    fetches[0] = r->loss;
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        gy_node step = gy_mul(gradients[i], gy_scalar(r->graph, GY_F64, 0.1));
        fetches[1 + i] = gradients[i];
        fetches[1 + RANDOM_PARAMETERS + i] =
            gy_assign(r->parameters[i], gy_sub(r->parameters[i], step));
    }
    GY_TRY(gy_graph_status(r->graph));
    gy_tensor *x = NULL, *y = NULL;
    GY_TRY(rows_of(me, 1, &x));
    GY_TRY(rows_of(me, 2, &y));
    const gy_feed feeds[] = {{r->x, x}, {r->y, y}};
    gy_status status = GY_OK;
    for (int run = 0; status >= 0 && run < 3; run++) {
        gy_tensor *results[1 + 2 * RANDOM_PARAMETERS];
        status =
            gy_session_run(session, feeds, 2, BATCH, fetches, (int)GY_COUNT(fetches), results);
        for (int i = 0; status >= 0 && i < 1 + RANDOM_PARAMETERS; i++) {
            status = keep(me, results[i]);
        }
    }
    gy_tensor_drop(x);
    gy_tensor_drop(y);
    return status;
}

static gy_status run_random(member *me)
{
    random_graph r;
    random_graph_make(&r, me->seed, false, 16);
    gy_session *session = NULL;
    gy_status status = gy_graph_status(r.graph);
    const gy_session_options options = {.comm = me->comm, .workers = 1, .seed = 9};
    if (status >= 0) {
        status = gy_session_new(r.graph, &options, &session);
    }
    if (status >= 0) {
        status = train(me, &r, session);
    }
    gy_session_free(session);
    gy_graph_free(r.graph);
    return status;
}

static void *member_thread(void *arg)
{
    member *me = arg;
    gy_error_take(&me->error, me->run(me));
    return NULL;
}

static void run_ranks(int ranks, uint64_t seed, gy_status (*run)(member *me), member *members)
{
    gy_transport *transports[RANKS_MAX];
    const gy_segment_options segment = {.ranks = ranks, .pool_bytes = 16 << 20};
    memset(members, 0, (size_t)ranks * sizeof(*members));
    if (ranks > 1) {
        assert_ok(gy_shm_open_all(&segment, gy_env_real(), transports));
    }
    for (int rank = 0; rank < ranks; rank++) {
        members[rank].rank = rank;
        members[rank].ranks = ranks;
        members[rank].seed = seed;
        members[rank].run = run;
        if (ranks > 1) {
            assert_ok(gy_comm_new(transports[rank], NULL, &members[rank].comm));
        }
    }
    for (int rank = 0; rank < ranks; rank++) {
        assert_ok(
            gy_thread_start(&members[rank].thread, "rank", member_thread, &members[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&members[rank].thread);
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_comm_free(members[rank].comm);
    }
}

static void assert_members_ok(const member *members, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("seed %llu rank %d of %d: %s", (unsigned long long)members[rank].seed,
                     rank, ranks, members[rank].error.text);
        }
    }
}

static void random_graphs_agree_on_any_number_of_ranks(void **state)
{
    (void)state;
    uint64_t seed = gy_test_seed();
    static member alone[1], together[RANKS_MAX], again[RANKS_MAX];
    for (uint64_t trial = seed; trial < seed + TRIALS; trial++) {
        run_ranks(1, trial, run_random, alone);
        assert_members_ok(alone, 1);
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            run_ranks(ranks, trial, run_random, together);
            assert_members_ok(together, ranks);
            run_ranks(ranks, trial, run_random, again);
            assert_members_ok(again, ranks);
            for (int rank = 0; rank < ranks; rank++) {
                const outcome *one = &alone[0].got, *all = &together[rank].got;
                assert_int_equal(one->count, all->count);
                assert_memory_equal(all, &again[rank].got, sizeof(*all));
                for (int i = 0; i < one->count; i++) {
                    if (!(fabs(one->values[i] - all->values[i]) <=
                          1e-12 * fmax(1, fabs(one->values[i])))) {
                        fail_msg(
                            "seed %llu, value %d: %.17g on one rank, %.17g on rank %d of %d",
                            (unsigned long long)trial, i, one->values[i], all->values[i], rank,
                            ranks);
                    }
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_agree_on_any_number_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
