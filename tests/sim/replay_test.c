/*
 * Goal: ranks that crash at any moment are started anew and catch up from their peers: all end
 * with the state of an undisturbed run, never in a hang, the same from the same seed.
 */
#include "coll/coll.h"

#include <stdio.h>
#include <string.h>

#include "baton_kit.h"

enum { STEPS = 12, CHECKPOINT_EVERY = 5, WIDE = 40, CRASHES = 4 };

typedef struct ending {
    gy_status status; /* GY_AGAIN: none yet */
    int64_t step;
    double x[WIDE];
} ending;

/* Stands for `gyre run`: begins a generation when all that live wait for one. */
typedef struct keeper {
    baton *all;
    int replicas, generation, restarts;
    int arrived[BATON_RANKS],
        opened[BATON_RANKS]; /* generation that the rank waits for, is in */
    bool is_waiting[BATON_RANKS], has_done[BATON_RANKS];
    bool is_over; /* all have done all */
    ending endings[BATON_RANKS];
    baton_crash crashes[CRASHES];
} keeper;

typedef struct seat {
    keeper *keeper;
    int rank, generation;
} seat;

static gy_status await(seat *at, gy_transport *unused)
{
    baton_nap(unused, 1000000);
    return baton_is_up(at->keeper->all, at->rank)
               ? GY_OK
               : gy_fail(GY_TIMEOUT, "rank %d itself has crashed", at->rank);
}

static bool have_all(const keeper *run, const int *generations)
{
    for (int rank = 0; rank < run->all->size; rank++) {
        if (generations[rank] != run->generation) {
            return false;
        }
    }
    return true;
}

static gy_status renew(void *launcher, gy_deadline deadline, gy_transport **transport)
{
    seat *at = launcher;
    keeper *run = at->keeper;
    (void)deadline;
    int calm = 0; /* ms: nothing of the last generation is under way any more */
    *transport = NULL;
    run->is_waiting[at->rank] = true;
    while (*transport == NULL || !have_all(run, run->opened)) {
        if (run->generation > at->generation) {
            run->arrived[at->rank] = run->generation;
            calm += have_all(run, run->arrived);
        }
        if (run->generation > at->generation && calm > 3) {
            calm = 0;
            gy_transport_close(*transport);
            gy_sim_listen(run->all->sim, at->rank, NULL, NULL);
            *transport = baton_open(run->all, at->rank);
            at->generation = run->opened[at->rank] = run->generation;
        }
        gy_status status = await(at, NULL);
        if (status < 0) {
            gy_transport_close(*transport);
            return status;
        }
    }
    run->is_waiting[at->rank] = false;
    return GY_OK;
}

static gy_status finish(void *launcher, gy_deadline deadline)
{
    seat *at = launcher;
    keeper *run = at->keeper;
    (void)deadline;
    run->has_done[at->rank] = run->is_waiting[at->rank] = true;
    while (!run->is_over && run->generation == at->generation) {
        GY_TRY(await(at, NULL));
    }
    return run->is_over ? GY_OK : GY_AGAIN;
}

static gy_status run_step(gy_recoverable *replay, ending *state, int rank, int size)
{
    double all[2 * BATON_RANKS];
    for (int i = 0; i < WIDE; i++) {
        state->x[i] = state->x[i] * 0.75 + (double)(rank + 1) / (i + 3);
    }
    GY_TRY(gy_recoverable_allreduce(replay, state->x, state->x, WIDE, GY_F64, GY_SUM));
    GY_TRY(gy_recoverable_run(replay, &(gy_coll_call){.operation = GY_OPERATION_ALLGATHER,
                                                      .dtype = GY_F64,
                                                      .count = 2,
                                                      .in = state->x + rank,
                                                      .out = all}));
    state->x[7] += all[2 * (state->step % size)];
    GY_TRY(gy_recoverable_run(replay, &(gy_coll_call){.operation = GY_OPERATION_BROADCAST,
                                                      .dtype = GY_F64,
                                                      .root = (int)(state->step % size),
                                                      .count = 9,
                                                      .out = state->x + 20}));
    state->step++;
    return state->step % CHECKPOINT_EVERY == 0
               ? gy_recoverable_checkpoint(replay, state, sizeof(*state))
               : GY_OK;
}

static gy_status work(gy_comm *comm, int replicas, ending *state, gy_recoverable **replay)
{
    int64_t version = 0;
    int rank = gy_comm_rank(comm), size = gy_comm_size(comm);
    const gy_recoverable_options options = {.replicas = replicas};
    GY_TRY(gy_recoverable_new(comm, &options, replay));
    GY_TRY(gy_recoverable_load(*replay, state, sizeof(*state), &version));
    while (state->step < STEPS) {
        GY_TRY(run_step(*replay, state, rank, size));
    }
    ((keeper *)own_baton->arg)->endings[rank] =
        *state; /* it may be the last that is heard of it */
    return gy_recoverable_finish(*replay);
}

static void live(baton *all, int rank)
{
    keeper *run = all->arg;
    seat own = {.keeper = run, .rank = rank};
    gy_transport *transport = NULL;
    gy_comm *first = NULL, *last = NULL;
    gy_recoverable *replay = NULL;
    ending state = {.status = GY_OK};
    gy_status status = renew(&own, GY_NEVER, &transport);
    if (status >= 0) {
        const gy_comm_options options = {
            .timeout_s = 5, .renew = renew, .finish = finish, .launcher = &own};
        assert_ok(gy_comm_new(transport, &options, &first));
        status = work(first, run->replicas, &state, &replay);
        last = replay != NULL ? gy_recoverable_comm(replay) : first;
    }
    if (baton_is_up(all, rank)) {
        state.status = status;
        run->endings[rank] = state;
        if (status < 0) {
            fail_msg("rank %d: %s", rank, gy_error_text());
        }
    }
    gy_recoverable_free(replay);
    gy_comm_free(last);
    run->is_waiting[rank] = false;
}

/* The dead are started anew when all that live wait for it. */
static void look_after_ranks(keeper *run)
{
    bool is_any = false, is_done = true;
    for (int rank = 0; rank < run->all->size && !run->is_over; rank++) {
        bool is_up = baton_is_up(run->all, rank);
        if ((is_up && !run->is_waiting[rank]) || (!is_up && !run->all->is_over[rank])) {
            return;
        }
        is_any = is_any || !is_up;
        is_done = is_done && run->has_done[rank];
    }
    run->is_over = run->is_over || (!is_any && is_done);
    if (!is_any || run->is_over) {
        return;
    }
    /* What is under way must not reach the next generation. */
    gy_sim_run_until(run->all->sim, gy_sim_now_ns(run->all->sim) + 5000000);
    for (int rank = 0; rank < run->all->size; rank++) {
        if (!baton_is_up(run->all, rank) && run->all->is_over[rank]) {
            gy_sim_restart(run->all->sim, rank);
            run->has_done[rank] = false;
            run->restarts++;
            baton_start(run->all, rank);
        }
    }
    run->generation++;
}

/* A rank that crashes when all have done their work is missed by nobody. */
static bool is_one_missing(const keeper *run)
{
    bool is_down = false;
    for (int rank = 0; rank < run->all->size; rank++) {
        is_down = is_down || !baton_is_up(run->all, rank);
    }
    return is_down && !run->is_over;
}

static uint64_t run_work(uint64_t seed, int size, int crashes, keeper *run)
{
    gy_random random = {.key = seed};
    baton all;
    baton_init(&all, gy_random_u64(&random), size, 300);
    *run = (keeper){.all = &all, .replicas = size, .generation = 1};
    all.arg = run;
    all.body = live;
    for (int i = 0; i < crashes; i++) {
        run->crashes[i] = (baton_crash){.sim = all.sim,
                                        .node = (int)gy_random_below(&random, (uint64_t)size)};
        int64_t at_ns = (int64_t)gy_random_below(&random, 150000000);
        assert_ok(gy_sim_at(all.sim, at_ns, baton_strike, &run->crashes[i]));
    }
    for (int rank = 0; rank < size; rank++) {
        baton_start(&all, rank);
    }
    while (baton_round(&all) || is_one_missing(run)) {
        look_after_ranks(run);
    }
    uint64_t digest = gy_sim_digest(all.sim);
    baton_fini(&all);
    return digest;
}

static bool is_same(const ending *a, const ending *b)
{
    bool is_same_x = true;
    for (int i = 0; i < WIDE; i++) {
        is_same_x = is_same_x && a->x[i] == b->x[i];
    }
    return is_same_x && a->step == b->step;
}

static void crashed_ranks_catch_up(void **state)
{
    (void)state;
    static keeper quiet[6], run;
    uint64_t first = gy_test_seed();
    int seeds = (int)gy_test_cases(200), restarts = 0;
    for (int size = 2; size < 6; size++) {
        (void)run_work(first, size, 0, &quiet[size]);
    }
    for (int i = 0; i < seeds; i++) {
        int size = 2 + i % 4, crashes = 1 + i / 4 % CRASHES;
        (void)run_work(first + (uint64_t)i, size, crashes, &run);
        restarts += run.restarts;
        for (int rank = 0; rank < size; rank++) {
            const ending *end = &run.endings[rank], *expected = &quiet[size].endings[rank];
            if (end->status != GY_OK || !is_same(end, expected)) {
                fail_msg("GYRE_SEED=%llu: %d ranks, %d crashes: rank %d ends otherwise",
                         (unsigned long long)(first + (uint64_t)i), size, crashes, rank);
            }
        }
    }
    printf("%d seeds: %d ranks started anew\n", seeds, restarts);
    assert_true(restarts > 0);
}

static void a_seed_tells_one_story(void **state)
{
    (void)state;
    static keeper one, two;
    uint64_t first = gy_test_seed();
    for (uint64_t seed = first; seed < first + 5; seed++) {
        assert_true(run_work(seed, 4, 3, &one) == run_work(seed, 4, 3, &two));
        assert_memory_equal(one.endings, two.endings, sizeof(one.endings));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crashed_ranks_catch_up),
        cmocka_unit_test(a_seed_tells_one_story),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
