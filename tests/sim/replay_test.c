/*
 * Goal: ranks that crash at any moment are started anew and catch up from their peers: all end
 * with the state of an undisturbed run, never in a hang, the same from the same seed.
 */
#include "replay_kit.h"

#include <stdio.h>

#include "baton_kit.h"
#include "seeds_kit.h"

enum { STEPS = 12, CHECKPOINT_EVERY = 5, CRASHES = 4 };

typedef struct ending {
    gy_status status;
    bool is_told; /* that results or states are lost */
    replay_work work;
} ending;

typedef gy_status (*script)(gy_comm *comm, ending *state, gy_recoverable **replay);

/* Stands for `gyre run`: begins a generation when all that live wait for one. */
typedef struct keeper {
    baton *all;
    script work;
    int replicas, every, generation, restarts;
    int lives[BATON_RANKS]; /* that each rank has begun */
    int victim, wrong;      /* what a script is told: who dies in it, what is wrong */
    int arrived[BATON_RANKS],
        opened[BATON_RANKS]; /* generation that the rank waits for, is in */
    bool is_waiting[BATON_RANKS], has_done[BATON_RANKS];
    bool is_over;  /* all have done all */
    bool is_quiet; /* nobody crashes */
    bool may_lose; /* more than replicas crash */
    ending endings[BATON_RANKS];
    baton_crash crashes[CRASHES];
    int64_t together_ns, end_ns;
} keeper;

typedef struct executor {
    keeper *keeper;
    int rank, generation;
} executor;

static gy_status await(executor *at, gy_transport *unused)
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
    executor *at = launcher;
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
    executor *at = launcher;
    keeper *run = at->keeper;
    (void)deadline;
    run->has_done[at->rank] = run->is_waiting[at->rank] = true;
    while (!run->is_over && run->generation == at->generation) {
        GY_TRY(await(at, NULL));
    }
    return run->is_over ? GY_OK : GY_AGAIN;
}

static gy_status work(gy_comm *comm, ending *state, gy_recoverable **replay)
{
    int64_t version = 0;
    int rank = gy_comm_rank(comm), size = gy_comm_size(comm);
    keeper *run = own_baton->arg;
    const gy_recoverable_options options = {.replicas = run->replicas};
    int replicas = run->replicas > 0 ? run->replicas : 2; /* the default */
    GY_TRY(gy_recoverable_new(comm, &options, replay));
    GY_TRY(gy_recoverable_load(*replay, &state->work, replay_state_bytes(rank), &version));
    if (version != state->work.step / run->every) {
        return gy_fail(GY_STATE, "step %lld of version %lld", (long long)state->work.step,
                       (long long)version);
    }
    while (state->work.step < STEPS) {
        GY_TRY(replay_step(*replay, &state->work, run->every));
        size_t kept = gy_recoverable_bytes(*replay);
        size_t expected = replay_bytes_kept(rank, size, GY_MIN(replicas, size - 1),
                                            state->work.step, run->every);
        if (run->is_quiet && kept != expected) {
            return gy_fail(GY_STATE, "%zu bytes are kept, expected %zu", kept, expected);
        }
    }
    run->endings[rank] = *state; /* it may be the last that is heard of it */
    return gy_recoverable_finish(*replay);
}

static void live(baton *all, int rank)
{
    keeper *run = all->arg;
    executor own = {.keeper = run, .rank = rank};
    gy_transport *transport = NULL;
    gy_comm *first = NULL, *last = NULL;
    gy_recoverable *replay = NULL;
    ending state = {.status = GY_OK};
    run->lives[rank]++;
    gy_status status = renew(&own, GY_NEVER, &transport);
    if (status >= 0) {
        const gy_comm_options options = {
            .timeout_s = 1, .renew = renew, .finish = finish, .launcher = &own};
        assert_ok(gy_comm_new(transport, &options, &first));
        status = run->work(first, &state, &replay);
        last = replay != NULL ? gy_recoverable_comm(replay) : first;
    }
    if (baton_is_up(all, rank)) {
        const char *text = status < 0 ? gy_error_text() : "";
        state.status = status;
        state.is_told = status == GY_STATE && strstr(text, "no live rank has") != NULL;
        run->endings[rank] = state;
        if (status < 0 && !(run->may_lose && state.is_told)) {
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

static void plan_crash(keeper *run, int which, int node, int64_t at_ns)
{
    run->crashes[which] = (baton_crash){.sim = run->all->sim, .node = node};
    assert_ok(gy_sim_at(run->all->sim, at_ns, baton_strike, &run->crashes[which]));
}

/* What befalls a run: crashes one by one, or of neighbours at one moment. */
typedef struct fate {
    uint64_t seed;
    int size, crashes, replicas;
    int every;         /* steps between checkpoints; 0: CHECKPOINT_EVERY */
    int64_t within_ns; /* 0: 150 ms */
    bool is_at_once;
} fate;

static uint64_t drive(keeper *run)
{
    baton *all = run->all;
    for (int rank = 0; rank < all->size; rank++) {
        baton_start(all, rank);
    }
    while (baton_round(all) || is_one_missing(run)) {
        look_after_ranks(run);
    }
    uint64_t digest = gy_sim_digest(all->sim);
    run->end_ns = gy_sim_now_ns(all->sim);
    baton_fini(all);
    return digest;
}

static uint64_t run_work(const fate *of, keeper *run)
{
    gy_random random = {.key = of->seed};
    baton all;
    int64_t within_ns = of->within_ns > 0 ? of->within_ns : 150000000;
    baton_init(&all, gy_random_u64(&random), of->size, 300);
    *run = (keeper){.all = &all,
                    .work = work,
                    .replicas = of->replicas,
                    .every = of->every > 0 ? of->every : CHECKPOINT_EVERY,
                    .generation = 1,
                    .is_quiet = of->crashes == 0,
                    .may_lose = of->crashes > of->replicas};
    all.arg = run;
    all.body = live;
    for (int i = 0; i < of->crashes; i++) {
        int node = (int)gy_random_below(&random, (uint64_t)of->size);
        int64_t at_ns = (int64_t)gy_random_below(&random, (uint64_t)within_ns);
        bool is_next = of->is_at_once && i > 0;
        plan_crash(run, i, is_next ? (run->crashes[i - 1].node + 1) % of->size : node,
                   is_next ? run->together_ns : at_ns);
        run->together_ns = is_next ? run->together_ns : at_ns;
    }
    return drive(run);
}

/* All ranks ended with the work done, or (false) all say that it is lost. */
static bool is_as_quiet(uint64_t seed, int size, const keeper *run, const keeper *quiet)
{
    int told = 0;
    for (int rank = 0; rank < size; rank++) {
        const ending *end = &run->endings[rank];
        told += end->is_told;
        bool is_right =
            end->status == GY_OK && replay_is_same(&end->work, &quiet->endings[rank].work);
        if (!is_right && !(run->may_lose && end->is_told)) {
            fail_msg("GYRE_SEED=%llu: %d ranks: rank %d ends otherwise",
                     (unsigned long long)seed, size, rank);
        }
    }
    assert_true(told == 0 || told == size);
    return told == 0;
}

GY_TEST(crashed_ranks_catch_up)
{
    static keeper quiet[6], run;
    uint64_t first = gy_test_seed();
    int seeds = (int)seeds_count(100), restarts = 0;
    for (int size = 2; size < 6; size++) {
        (void)run_work(&(fate){.seed = first, .size = size, .replicas = size}, &quiet[size]);
    }
    for (int i = 0; i < seeds; i++) {
        int size = 2 + i % 4, crashes = 1 + i / 4 % CRASHES;
        uint64_t seed = first + (uint64_t)i;
        /* with size - 1 replicas nothing is ever lost */
        const fate of = {.seed = seed,
                         .size = size,
                         .crashes = crashes,
                         .replicas = i % 3 == 0 ? crashes : GY_MAX(size, crashes),
                         .is_at_once = i % 5 == 0};
        (void)run_work(&of, &run);
        restarts += run.restarts;
        assert_true(is_as_quiet(seed, size, &run, &quiet[size]));
    }
    printf("soak: %d seeds: %d ranks started anew\n", seeds, restarts);
    assert_true(restarts > 0);
}

/* What each rank keeps is exactly its share, and gives the same result. */
GY_TEST(a_rank_keeps_its_share)
{
    static keeper all, few;
    uint64_t seed = gy_test_seed();
    for (int size = 1; size < 6; size++) {
        (void)run_work(&(fate){.seed = seed, .size = size, .replicas = 7}, &all);
        for (int replicas = 0; replicas < 5; replicas++) {
            (void)run_work(&(fate){.seed = seed, .size = size, .replicas = replicas}, &few);
            assert_true(is_as_quiet(seed, size, &few, &all));
        }
    }
}

/* One more than there are replicas crash at one moment: the work goes on if nothing of theirs
 * was kept by them alone, else every rank says what is lost. */
GY_TEST(more_lost_than_replicas_is_told_by_all)
{
    static keeper quiet[6], run;
    uint64_t first = gy_test_seed();
    int seeds = (int)seeds_count(120), lost = 0;
    for (int size = 3; size < 6; size++) {
        (void)run_work(&(fate){.seed = first, .size = size, .replicas = size}, &quiet[size]);
    }
    for (int i = 0; i < seeds; i++) {
        int size = 3 + i % 3, replicas = 1 + i / 3 % (size - 2);
        uint64_t seed = first + (uint64_t)i;
        const fate of = {.seed = seed,
                         .size = size,
                         .crashes = replicas + 1,
                         .replicas = replicas,
                         .is_at_once = true};
        (void)run_work(&of, &run);
        lost += !is_as_quiet(seed, size, &run, &quiet[size]);
    }
    printf("soak: %d seeds: %d times more was lost than is kept\n", seeds, lost);
    assert_true(lost > seeds / 8 && lost < seeds);
}

/* A checkpoint a step, and one replica: who has left a checkpoint knows that its peers have
 * all that they keep, else what a rank loads were never sent. */
GY_TEST(a_crash_in_a_checkpoint_loses_nothing)
{
    static keeper quiet, run;
    fate of = {.seed = gy_test_seed(), .size = 5, .replicas = 1, .every = 1};
    int seeds = (int)seeds_count(100);
    (void)run_work(&of, &quiet);
    of.crashes = 1;
    of.within_ns = quiet.end_ns;
    for (int i = 0; i < seeds; i++) {
        of.seed++;
        (void)run_work(&of, &run);
        assert_true(is_as_quiet(of.seed, of.size, &run, &quiet));
    }
    printf("soak: %d seeds with a checkpoint a step: nothing was lost\n", seeds);
}

/* ---- Scripts: a rank dies where they say ---- */

enum { SCRIPT_SIZE = 3, SCRIPT_COUNT = 5 };

static gy_status die_here(void)
{
    gy_sim_crash(own_baton->sim, own_rank);
    return gy_fail(GY_PEER, "rank %d has died by its script", own_rank);
}

static void run_script(script work_of, int victim, int wrong)
{
    static keeper run;
    baton all;
    baton_init(&all, 1, SCRIPT_SIZE, 300);
    run = (keeper){.all = &all,
                   .work = work_of,
                   .replicas = 1,
                   .generation = 1,
                   .victim = victim,
                   .wrong = wrong};
    all.arg = &run;
    all.body = live;
    (void)drive(&run);
    for (int rank = 0; rank < SCRIPT_SIZE; rank++) {
        assert_int_equal(run.endings[rank].status, GY_OK);
        assert_int_equal(run.lives[rank], rank == victim ? 3 : 1);
    }
}

/* Another call than the one whose result is kept. */
static gy_status call_wrongly(gy_recoverable *replay, int wrong)
{
    double x[2 * SCRIPT_COUNT] = {0};
    const gy_coll_call calls[] = {
        {.operation = GY_OPERATION_ALLREDUCE, .dtype = GY_F64, .count = SCRIPT_COUNT - 1},
        {.operation = GY_OPERATION_ALLREDUCE, .dtype = GY_F64, .count = SCRIPT_COUNT + 1},
        {.operation = GY_OPERATION_ALLREDUCE, .dtype = GY_F32, .count = 2 * SCRIPT_COUNT},
        {.operation = GY_OPERATION_BROADCAST, .dtype = GY_F64, .count = SCRIPT_COUNT},
        {.operation = GY_OPERATION_BARRIER},
    };
    if (wrong == GY_COUNT(calls)) {
        return gy_recoverable_checkpoint(replay, x, sizeof(x));
    }
    if (wrong > (int)GY_COUNT(calls)) {
        return gy_recoverable_finish(replay);
    }
    gy_coll_call call = calls[wrong];
    call.reduction = GY_SUM;
    call.in = call.out = x;
    return gy_recoverable_run(replay, &call);
}

/* Who has left it knows that all have ended the call before it. */
static gy_status meet(gy_recoverable *replay)
{
    return gy_recoverable_run(replay, &(gy_coll_call){.operation = GY_OPERATION_BARRIER});
}

/* The victim dies after the first call; its second life makes another, the third the same. */
static gy_status make_another_call(gy_comm *comm, ending *state, gy_recoverable **replay)
{
    const keeper *run = own_baton->arg;
    int64_t version = 0;
    int rank = gy_comm_rank(comm), life = rank == run->victim ? run->lives[rank] : 3;
    (void)state;
    GY_TRY(gy_recoverable_new(comm, &(gy_recoverable_options){.replicas = 1}, replay));
    GY_TRY(gy_recoverable_load(*replay, NULL, 0, &version));
    if (life == 2) {
        assert_status(call_wrongly(*replay, run->wrong), GY_MISMATCH);
        assert_non_null(
            strstr(gy_error_text(), "call 0 since checkpoint 0 was allreduce of 5"));
        assert_non_null(
            strstr(gy_error_text(), run->wrong < 5 ? "rank calls " : "calls no collective"));
        return die_here();
    }
    for (int call = 0; call < 2; call++) {
        double x[SCRIPT_COUNT] = {rank + 1};
        GY_TRY(gy_recoverable_allreduce(*replay, x, x, SCRIPT_COUNT, GY_F64, GY_SUM));
        assert_true(x[0] == 6);
        GY_TRY(meet(*replay));
        if (life == 1) {
            return die_here();
        }
    }
    return gy_recoverable_finish(*replay);
}

GY_TEST(another_call_than_before_is_refused)
{
    for (int victim = 0; victim < SCRIPT_SIZE; victim++) {
        for (int wrong = 0; wrong < 7; wrong++) {
            run_script(make_another_call, victim, wrong);
        }
    }
}

/* Rank r's state is r words. The victim dies after the checkpoint, with calls after it or
 * none; its second life expects one word more. */
static gy_status expect_another_state(gy_comm *comm, ending *state, gy_recoverable **replay)
{
    const keeper *run = own_baton->arg;
    int64_t version = 0, words[SCRIPT_SIZE] = {0}, one = 1;
    int rank = gy_comm_rank(comm), life = rank == run->victim ? run->lives[rank] : 3;
    size_t size = (size_t)rank * sizeof(words[0]);
    (void)state;
    GY_TRY(gy_recoverable_new(comm, &(gy_recoverable_options){.replicas = 1}, replay));
    if (life == 2) {
        char told[64];
        snprintf(told, sizeof(told), "a state of %zu bytes, expected %zu", size, size + 8);
        assert_status(gy_recoverable_load(*replay, words, size + 8, &version), GY_MISMATCH);
        assert_non_null(strstr(gy_error_text(), told));
        return die_here();
    }
    GY_TRY(gy_recoverable_load(*replay, words, size, &version));
    assert_int_equal(version, run->lives[rank] == 3 ? 1 : 0);
    for (int i = 0; i < rank; i++) {
        assert_int_equal(words[i], version == 1 ? 100 + i : 0);
        words[i] = 100 + i;
    }
    if (version == 0) {
        GY_TRY(gy_recoverable_checkpoint(*replay, words, size));
        assert_status(gy_recoverable_load(*replay, words, size, &version), GY_STATE);
        assert_non_null(strstr(gy_error_text(), "load comes before all other calls"));
    }
    GY_TRY(meet(*replay));
    for (int call = 0; call < 2; call++) {
        if (life == 1 && call == run->wrong) {
            return die_here();
        }
        GY_TRY(gy_recoverable_allreduce(*replay, &one, &one, 1, GY_I64, GY_SUM));
        assert_int_equal(one, call == 0 ? SCRIPT_SIZE : SCRIPT_SIZE * SCRIPT_SIZE);
    }
    return gy_recoverable_finish(*replay);
}

GY_TEST(a_state_of_another_size_is_refused)
{
    for (int victim = 0; victim < SCRIPT_SIZE; victim++) {
        for (int calls = 0; calls < 2; calls++) {
            run_script(expect_another_state, victim, calls);
        }
    }
}

GY_TEST(a_seed_tells_one_story)
{
    static keeper one, two;
    uint64_t first = gy_test_seed();
    for (uint64_t seed = first; seed < first + 5; seed++) {
        const fate of = {.seed = seed, .size = 4, .crashes = 3, .replicas = 4};
        assert_true(run_work(&of, &one) == run_work(&of, &two));
        assert_memory_equal(one.endings, two.endings, sizeof(one.endings));
    }
}

GY_TEST_MAIN(NULL, NULL)
