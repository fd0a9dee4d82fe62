/*
 * Goal: what runners claim freely is what some rank does under each assignment that the checker
 * proves; and what runners do before calls are compared is done by all ranks or none.
 */
#include "plan/plan.h"

#include "base/base.h"

#include <string.h>

#include "gy_test.h"

enum { CLAIMS_MAX = 64, ASSIGNMENTS = 4 };

static bool is_marker(const gy_step *step)
{
    return step->kind == GY_STEP_CLAIM || step->kind == GY_STEP_CLAIMED;
}

/* The same step, but for whose scratch it uses: each rank's own. */
static bool is_same_step(gy_step a, gy_step b, int rank_a, int rank_b)
{
    gy_blocks *blocks[2][3] = {{&a.a, &a.b, &a.to}, {&b.a, &b.b, &b.to}};
    for (int i = 0; i < 3; i++) {
        bool is_scratch = blocks[0][i]->buffer == GY_BUFFER_SCRATCH;
        if (is_scratch && (blocks[0][i]->rank != rank_a || blocks[1][i]->rank != rank_b)) {
            return false;
        }
        blocks[0][i]->rank = is_scratch ? 0 : blocks[0][i]->rank;
        blocks[1][i]->rank = is_scratch ? 0 : blocks[1][i]->rank;
    }
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static void plan_one(const gy_algorithm *row, gy_plan_request request, int claims, int rank,
                     gy_steps *steps)
{
    request.claims = claims;
    gy_steps_init(steps);
    assert_ok(gy_plan_rank(row, &request, rank, &steps->sink));
}

/* Steps of the claim that begins at `at`. */
static size_t claim_length(const gy_steps *free, size_t at)
{
    size_t end = at + 1;
    while (!is_marker(&free->items[end])) {
        end++;
    }
    return end - at - 1;
}

static bool has_claim(const gy_steps *fixed, size_t at, const gy_step *claim, size_t length,
                      int rank)
{
    for (size_t i = 0; i < length; i++) {
        if (at + i >= fixed->count ||
            !is_same_step(fixed->items[at + i], claim[i], rank, rank)) {
            return false;
        }
    }
    return true;
}

/* The rank's plan under an assignment is its free one without some claims; counts those that it
 * has. */
static void match_rank(const gy_steps *free, const gy_steps *fixed, int rank,
                       int owners[CLAIMS_MAX])
{
    size_t next = 0;
    for (size_t i = 0; i < free->count; i++) {
        const gy_step *step = &free->items[i];
        if (step->kind == GY_STEP_CLAIM) {
            size_t length = claim_length(free, i);
            assert_true(step->mark >= 1 && step->mark <= CLAIMS_MAX);
            if (has_claim(fixed, next, step + 1, length, rank)) {
                owners[step->mark - 1]++;
                next += length;
            }
            i += length;
        } else if (step->kind == GY_STEP_CLAIMED) {
            next += fixed->items[next].kind == GY_STEP_POST;
            while (next < fixed->count && fixed->items[next].kind == GY_STEP_WAIT) {
                next++;
            }
        } else {
            assert_true(next < fixed->count &&
                        is_same_step(fixed->items[next], *step, rank, rank));
            next++;
        }
    }
    assert_int_equal(next, fixed->count);
}

/* All ranks have the same claims in the same order. */
static void assert_alike(const gy_steps *a, const gy_steps *b, int rank_b)
{
    size_t at_a = 0, at_b = 0;
    while (a->items[at_a].kind != GY_STEP_CLAIM) {
        at_a++;
    }
    while (b->items[at_b].kind != GY_STEP_CLAIM) {
        at_b++;
    }
    for (; a->items[at_a].kind != GY_STEP_CLAIMED; at_a++, at_b++) {
        assert_true(is_same_step(a->items[at_a], b->items[at_b], 0, rank_b));
    }
    assert_int_equal(b->items[at_b].kind, GY_STEP_CLAIMED);
    assert_int_equal(a->items[at_a].mark, b->items[at_b].mark);
}

static void try_claims(const gy_algorithm *row, int ranks, int chunks)
{
    gy_plan_request request = {.operation = row->operation, .ranks = ranks, .chunks = chunks};
    for (int claims = 0; claims < ASSIGNMENTS; claims++) {
        int owners[CLAIMS_MAX] = {0};
        gy_steps first;
        plan_one(row, request, GY_CLAIMS_FREE, 0, &first);
        for (int rank = 0; rank < ranks; rank++) {
            gy_steps free, fixed;
            plan_one(row, request, GY_CLAIMS_FREE, rank, &free);
            plan_one(row, request, claims, rank, &fixed);
            assert_alike(&first, &free, rank);
            match_rank(&free, &fixed, rank, owners);
            gy_steps_free(&free);
            gy_steps_free(&fixed);
        }
        for (int claim = 0; claim < ranks * chunks; claim++) {
            assert_int_equal(owners[claim], 1);
        }
        gy_steps_free(&first);
    }
}

GY_TEST(free_claims_are_those_of_each_assignment)
{
    int rows = 0;
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        if ((row->limits & GY_HAS_CLAIMS) == 0) {
            continue;
        }
        rows++;
        for (int ranks = 2; ranks <= 9; ranks++) {
            for (int chunks = 1; chunks <= 7; chunks += 2) {
                try_claims(row, ranks, chunks);
            }
        }
    }
    assert_int_equal(rows, 3);
}

/* Claims without an owner are for runners: the checker says so; others have none. */
GY_TEST(only_runners_read_free_claims)
{
    const gy_algorithm *direct = gy_algorithm_find(GY_OPERATION_ALLREDUCE, "direct");
    const gy_algorithm *staged = gy_algorithm_find(GY_OPERATION_ALLREDUCE, "staged");
    gy_plan_request request = {
        .operation = GY_OPERATION_ALLREDUCE, .ranks = 3, .claims = GY_CLAIMS_FREE};
    gy_plan *plan = NULL;
    assert_ok(gy_plan_new(direct, &request, &plan));
    assert_status(gy_plan_check(plan), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "claim 1"));
    gy_plan_free(plan);
    assert_status(gy_plan_new(staged, &request, &plan), GY_ARG);
    request.claims = -2;
    assert_status(gy_plan_new(direct, &request, &plan), GY_ARG);
}

/* Runners take a card for mark 1: of plans over staging where all ranks lay out what is theirs
 * and post it, and of direct ones, where it is posted before anything else. */
GY_TEST(first_marks_say_what_cards_say)
{
    int opened = 0;
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        bool begins_alike = row->operation == GY_OPERATION_ALLREDUCE ||
                            row->operation == GY_OPERATION_REDUCE_SCATTER ||
                            row->operation == GY_OPERATION_ALLGATHER ||
                            row->operation == GY_OPERATION_ALLTOALL;
        for (int ranks = 2; ranks <= 9 && row->need != GY_NEED_MESSAGES; ranks++) {
            gy_plan_request request = {
                .operation = row->operation, .ranks = ranks, .chunks = 3};
            int openings = 0;
            for (int rank = 0; rank < ranks; rank++) {
                gy_steps steps;
                plan_one(row, request, 0, rank, &steps);
                openings += gy_steps_opening(&steps, rank) > 0;
                for (size_t k = 1; k < steps.count && row->need == GY_NEED_DIRECT; k++) {
                    assert_false(steps.items[k].kind == GY_STEP_POST &&
                                 steps.items[k].mark == 1);
                }
                gy_steps_free(&steps);
            }
            if (row->need == GY_NEED_STAGE && begins_alike) {
                assert_true(openings == 0 || openings == ranks);
                opened += openings;
            }
        }
    }
    assert_true(opened > 100);
}

GY_TEST_MAIN(NULL, NULL)
