/*
 * Goal: ranks that crash at any moment, also while the others agree and shrink: all that live
 * agree on the same, go on with the same ranks and get right sums, or an error names a rank; in
 * bounded time, the same from the same seed.
 */
#include "coll/coll.h"

#include <stdio.h>
#include <string.h>

#include "baton_kit.h"
#include "seeds_kit.h"

enum { COUNT = 700, SUMS = 4, EPOCHS = BATON_RANKS + 1 };

/* What the first rank that was up at the end of an epoch's agreement says of it. */
typedef struct chapter {
    bool is_written;
    uint32_t flags;
} chapter;

typedef struct story {
    uint64_t seed;
    chapter chapters[EPOCHS];
    int sizes[EPOCHS][BATON_RANKS];   /* that each rank's communicators had */
    uint64_t members_of[BATON_RANKS]; /* of each rank's last communicator; 0: it did not end */
    int failures, shrinks;
    gy_random randoms[BATON_RANKS];
    baton_crash crashes[BATON_RANKS]; /* sim NULL: none */
} story;

static bool names_a_rank(void)
{
    return strstr(gy_error_text(), "rank ") != NULL;
}

/* Some crash just when they begin to agree, so in the middle of it. */
static void tempt_fate(baton *all, int rank)
{
    story *told = all->arg;
    gy_random *random = &told->randoms[rank];
    baton_crash *crash = &told->crashes[rank];
    bool is_doomed = gy_random_below(random, 4) == 0;
    int64_t after_ns = (int64_t)gy_random_below(random, 2000000);
    if (is_doomed && rank != all->size - 1 && crash->sim == NULL) {
        *crash = (baton_crash){.sim = all->sim, .node = rank};
        assert_ok(gy_sim_at(all->sim, gy_sim_now_ns(all->sim) + after_ns, baton_strike, crash));
    }
}

/* The ranks that took part, by a sum; 0 and a failure that names a rank. */
static uint64_t sum_members(gy_comm *comm, int rank, gy_status *status)
{
    static _Thread_local uint64_t data[COUNT];
    for (int i = 0; i < SUMS; i++) {
        for (int at = 0; at < COUNT; at++) {
            data[at] = UINT64_C(1) << rank;
        }
        *status = gy_allreduce(comm, data, data, COUNT, GY_U64, GY_SUM);
        if (*status < 0) {
            return 0;
        }
        for (int at = 1; at < COUNT; at++) {
            assert_true(data[at] == data[0]);
        }
    }
    return data[0];
}

/* True: it is the end. */
static bool live_an_epoch(baton *all, int rank, gy_comm *comm, chapter *now)
{
    story *told = all->arg;
    gy_status status = GY_OK;
    uint64_t members = sum_members(comm, rank, &status);
    if (!baton_is_up(all, rank)) {
        return true;
    }
    told->failures += status < 0;
    if ((status < 0 && !names_a_rank()) ||
        (status >= 0 && __builtin_popcountll(members) != gy_comm_size(comm))) {
        fail_msg("GYRE_SEED=%llu: rank %d: %s, members %llx of %d",
                 (unsigned long long)told->seed, rank, gy_error_text(),
                 (unsigned long long)members, gy_comm_size(comm));
    }
    tempt_fate(all, rank);
    gy_agreement agreement = {.flags = status >= 0, .value_min = rank, .value_max = rank};
    status = gy_comm_agree(comm, &agreement);
    if (!baton_is_up(all, rank)) {
        return true;
    }
    assert_ok(status);
    assert_true(agreement.value_min <= rank && agreement.value_max >= rank);
    if (!now->is_written) {
        now->is_written = true;
        now->flags = agreement.flags;
    }
    assert_int_equal(now->flags, agreement.flags);
    told->members_of[rank] = agreement.flags == 1 ? members : 0;
    return agreement.flags == 1;
}

static void live(baton *all, int rank)
{
    story *told = all->arg;
    gy_comm *comms[EPOCHS] = {NULL};
    int epoch = 0;
    assert_ok(
        gy_comm_new(baton_open(all, rank), &(gy_comm_options){.timeout_s = 1}, &comms[0]));
    while (!live_an_epoch(all, rank, comms[epoch], &told->chapters[epoch])) {
        gy_comm *next = NULL;
        tempt_fate(all, rank);
        gy_status status = gy_comm_shrink(comms[epoch], &next);
        comms[epoch + 1] = next;
        if (!baton_is_up(all, rank)) {
            break;
        }
        assert_ok(status);
        told->shrinks++;
        assert_true(gy_barrier(comms[epoch]) < 0); /* it stays failed */
        told->sizes[++epoch][rank] = gy_comm_size(next);
    }
    for (int i = 0; i < EPOCHS; i++) {
        gy_comm_free(comms[i]);
    }
}

/* The digest of what happened. */
static uint64_t run_story(uint64_t seed, story *told)
{
    gy_random random = {.key = seed};
    baton all;
    int size = 2 + (int)gy_random_below(&random, 7);
    int deaths = (int)gy_random_below(&random, (uint64_t)size) / 2;
    baton_init(&all, gy_random_u64(&random), size, 120);
    *told = (struct story){.seed = seed};
    all.arg = told;
    all.body = live;
    for (int rank = 0; rank < size; rank++) {
        told->randoms[rank] = (gy_random){.key = seed * 64 + (uint64_t)rank};
    }
    for (int i = 0; i < deaths; i++) {
        int node = (int)gy_random_below(&random, (uint64_t)size - 1);
        int64_t at_ns = (int64_t)gy_random_below(&random, 60000000);
        if (told->crashes[node].sim == NULL) {
            told->crashes[node] = (baton_crash){.sim = all.sim, .node = node};
            assert_ok(gy_sim_at(all.sim, at_ns, baton_strike, &told->crashes[node]));
        }
    }
    for (int rank = 0; rank < size; rank++) {
        baton_start(&all, rank);
    }
    while (baton_round(&all)) {
    }
    uint64_t members = told->members_of[size - 1];
    for (int rank = 0; rank < size; rank++) {
        for (int epoch = 0; epoch < EPOCHS && baton_is_up(&all, rank); epoch++) {
            assert_int_equal(told->sizes[epoch][rank], told->sizes[epoch][size - 1]);
        }
        if (baton_is_up(&all, rank) && told->members_of[rank] != members) {
            fail_msg("GYRE_SEED=%llu: ranks %d and %d end with others",
                     (unsigned long long)seed, rank, size - 1);
        }
    }
    assert_true((members >> (size - 1) & 1) == 1); /* it never dies */
    uint64_t digest = gy_sim_digest(all.sim);
    baton_fini(&all);
    return digest;
}

GY_TEST(survivors_agree_and_go_on)
{
    uint64_t first = gy_test_seed();
    int seeds = (int)seeds_count(100), failures = 0, shrinks = 0;
    for (int i = 0; i < seeds; i++) {
        story told;
        (void)run_story(first + (uint64_t)i, &told);
        failures += told.failures;
        shrinks += told.shrinks;
    }
    printf("soak: %d seeds: %d calls failed, %d times shrunk\n", seeds, failures, shrinks);
    assert_true(failures > 0 && (seeds < 50 || shrinks > 0)); /* few may have none */
}

GY_TEST(a_seed_tells_one_story)
{
    uint64_t first = gy_test_seed();
    for (uint64_t seed = first; seed < first + 10; seed++) {
        story one, two;
        assert_true(run_story(seed, &one) == run_story(seed, &two));
        assert_memory_equal(one.chapters, two.chapters, sizeof(one.chapters));
        assert_memory_equal(one.members_of, two.members_of, sizeof(one.members_of));
    }
}

GY_TEST_MAIN(NULL, NULL)
