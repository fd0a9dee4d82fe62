/* Goal: choices are the best there are where nothing has to be kept, on trees always, and no
 * worse than where the rounds began elsewhere. The oracle tries them all.
 */
#include "graph/place/choose.h"

#include "base/base.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { VARS_MAX = 7, VALUES_MAX = 4, PAIRS_MAX = 24, CHAIN = 3000, GRID = 12 };

typedef struct problem {
    gy_choices choices;
    int32_t sizes[VARS_MAX];
    double single[VARS_MAX][VALUES_MAX];
    const double *costs[VARS_MAX];
    gy_choice_pair pairs[PAIRS_MAX];
    int32_t kinds[PAIRS_MAX];
    double tables[PAIRS_MAX][VALUES_MAX][VALUES_MAX]; /* [kind] */
} problem;

static double table_cost(const void *arg, int32_t pair, int32_t a, int32_t b)
{
    const problem *p = arg;
    return p->tables[p->kinds[pair]][a][b];
}

static double some_cost(gy_random *random)
{
    const double cost = floor(10 * gy_random_unit(random));
    return gy_random_below(random, 12) == 0 ? INFINITY : cost;
}

static void make_problem(problem *p, gy_random *random)
{
    const int32_t count = 1 + (int32_t)gy_random_below(random, VARS_MAX);
    for (int32_t i = 0; i < count; i++) {
        p->sizes[i] = 1 + (int32_t)gy_random_below(random, VALUES_MAX);
        p->costs[i] = gy_random_below(random, 4) == 0 ? NULL : p->single[i];
        const int32_t like = (int32_t)gy_random_below(random, (uint64_t)i + 1);
        if (p->sizes[like] == p->sizes[i] && gy_random_below(random, 2) == 0) {
            p->costs[i] = p->costs[like];
        }
        for (int32_t x = 0; x < VALUES_MAX; x++) {
            p->single[i][x] = some_cost(random);
        }
    }
    int32_t kinds = 0;
    const int32_t pairs = count > 1 ? (int32_t)gy_random_below(random, PAIRS_MAX + 1) : 0;
    for (int32_t i = 0; i < pairs; i++) {
        const int32_t a = (int32_t)gy_random_below(random, (uint64_t)count);
        const int32_t b =
            (a + 1 + (int32_t)gy_random_below(random, (uint64_t)count - 1)) % count;
        p->pairs[i] = (gy_choice_pair){a, b};
        p->kinds[i] = kinds;
        for (int32_t k = 0; k < i && gy_random_below(random, 4) > 0; k++) {
            const gy_choice_pair *like = &p->pairs[k];
            if (p->sizes[like->a] == p->sizes[a] && p->sizes[like->b] == p->sizes[b]) {
                p->kinds[i] = p->kinds[k];
            }
        }
        kinds += p->kinds[i] == kinds ? 1 : 0;
        for (int32_t k = 0; k < VALUES_MAX * VALUES_MAX; k++) {
            p->tables[i][k / VALUES_MAX][k % VALUES_MAX] = some_cost(random);
        }
    }
    p->choices = (gy_choices){.count = count,
                              .sizes = p->sizes,
                              .costs = p->costs,
                              .pair_count = pairs,
                              .pairs = p->pairs,
                              .pair_kinds = p->kinds,
                              .pair_kind_count = kinds,
                              .pair_cost = table_cost,
                              .arg = p};
}

static double best_of_all(const problem *p)
{
    int32_t chosen[VARS_MAX] = {0};
    double best = INFINITY;
    for (int32_t at = 0; at < p->choices.count;) {
        best = fmin(best, gy_choices_cost(&p->choices, chosen));
        for (at = 0; at < p->choices.count && ++chosen[at] == p->sizes[at]; at++) {
            chosen[at] = 0;
        }
    }
    return best;
}

GY_TEST(the_best_of_all_is_found)
{
    const uint64_t seed = gy_test_seed();
    for (int i = 0; i < gy_test_cases(2000); i++) {
        gy_random random = {.key = seed + (uint64_t)i};
        problem p;
        int32_t chosen[VARS_MAX];
        bool is_exact = false;
        make_problem(&p, &random);
        assert_ok(gy_choices_solve(&p.choices, chosen, &is_exact));
        const double best = best_of_all(&p), got = gy_choices_cost(&p.choices, chosen);
        if (!is_exact || !(got == best || fabs(got - best) < 1e-9)) {
            fail_msg("seed %llu: %g, the best is %g", (unsigned long long)(seed + (uint64_t)i),
                     got, best);
        }
    }
}

/* With a limit below what most variables need: the rounds keep some, and come close. */
GY_TEST(what_is_kept_costs_little)
{
    const uint64_t seed = gy_test_seed();
    int exact = 0, equal = 0, cases = 0;
    double most = 1;
    for (int i = 0; i < gy_test_cases(2000); i++) {
        gy_random random = {.key = seed + (uint64_t)i};
        problem p;
        int32_t chosen[VARS_MAX];
        bool is_exact = false;
        make_problem(&p, &random);
        p.choices.limit = 8;
        assert_ok(gy_choices_solve(&p.choices, chosen, &is_exact));
        const double best = best_of_all(&p), got = gy_choices_cost(&p.choices, chosen);
        if (best == INFINITY || best == 0) {
            continue;
        }
        cases++;
        exact += is_exact ? 1 : 0;
        equal += got <= best * (1 + 1e-9) ? 1 : 0;
        most = fmax(most, got / best);
        assert_true(got >= best * (1 - 1e-9));
        assert_true(!is_exact || got <= best * (1 + 1e-9));
    }
    printf("%d cases: %d exact, %d the best, at most %.3g of it\n", cases, exact, equal, most);
    assert_true(exact < cases && equal > cases / 2);
}

/* ---- long chains ---- */

/* Neighbours want to differ by one, modulo 3; the ends are given. */
static double differ_cost(const void *arg, int32_t pair, int32_t a, int32_t b)
{
    (void)arg;
    (void)pair;
    return b == (a + 1) % 3 ? 0 : 1;
}

GY_TEST(chains_are_exact)
{
    static gy_choice_pair pairs[CHAIN];
    static int32_t sizes[CHAIN], chosen[CHAIN], kinds[CHAIN]; /* one kind of pairs */
    static const double *costs[CHAIN];
    static const double first[3] = {5, 0, 5}, last[3] = {0, 9, 9};
    for (int32_t i = 0; i < CHAIN; i++) {
        sizes[i] = 3;
        costs[i] = i == 0 ? first : i == CHAIN - 1 ? last : NULL;
        pairs[i] = (gy_choice_pair){i, i + 1};
    }
    const gy_choices choices = {.count = CHAIN,
                                .sizes = sizes,
                                .costs = costs,
                                .pair_count = CHAIN - 1,
                                .pairs = pairs,
                                .pair_kinds = kinds,
                                .pair_kind_count = 1,
                                .pair_cost = differ_cost};
    bool is_exact = false;
    assert_ok(gy_choices_solve(&choices, chosen, &is_exact));
    assert_true(is_exact);
    /* 1 + 2999 = 0 modulo 3: all are satisfied. */
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[CHAIN - 1], 0);
    assert_true(gy_choices_cost(&choices, chosen) == 0);
}

enum { BEADS = 40 };

/* What the best value of a leaf costs beside value `at` of its bead. */
static double leaf_cost(const double *own, int32_t at)
{
    double least = INFINITY;
    for (int32_t x = 0; x < 3; x++) {
        least = fmin(least, differ_cost(NULL, 0, at, x) + own[x]);
    }
    return least;
}

/* Beads on a chain, each with a leaf; all pairs are alike, costs of variables are of a few
 * sorts: tables that look alike are not taken for each other. The oracle walks along the chain.
 */
GY_TEST(like_pairs_of_unlike_variables_are_exact)
{
    static const double own[3][3] = {{5, 0, 2}, {0, 3, 1}, {4, 4, 0}};
    static const int32_t kinds[2 * BEADS] = {0};
    gy_random random = {.key = gy_test_seed()};
    for (int i = 0; i < gy_test_cases(200); i++) {
        gy_choice_pair pairs[2 * BEADS];
        int32_t sizes[2 * BEADS], chosen[2 * BEADS];
        const double *costs[2 * BEADS];
        double least[3] = {0};
        for (int32_t k = 0; k < BEADS; k++) {
            double next[3];
            sizes[k] = sizes[BEADS + k] = 3;
            costs[k] = own[gy_random_below(&random, 3)];
            costs[BEADS + k] = own[gy_random_below(&random, 3)];
            pairs[k] = (gy_choice_pair){k, BEADS + k};
            pairs[BEADS + k] = (gy_choice_pair){k, k + 1};
            for (int32_t b = 0; b < 3; b++) {
                next[b] = k == 0 ? 0 : INFINITY;
                for (int32_t a = 0; k > 0 && a < 3; a++) {
                    next[b] = fmin(next[b], least[a] + differ_cost(NULL, 0, a, b));
                }
                next[b] += costs[k][b] + leaf_cost(costs[BEADS + k], b);
            }
            memcpy(least, next, sizeof(least));
        }
        const gy_choices choices = {.count = 2 * BEADS,
                                    .sizes = sizes,
                                    .costs = costs,
                                    .pair_count = 2 * BEADS - 1,
                                    .pairs = pairs,
                                    .pair_kinds = kinds,
                                    .pair_kind_count = 1,
                                    .pair_cost = differ_cost};
        assert_ok(gy_choices_solve(&choices, chosen, NULL));
        assert_true(fabs(gy_choices_cost(&choices, chosen) -
                         fmin(least[0], fmin(least[1], least[2]))) < 1e-9);
    }
}

GY_TEST(every_allocation_may_fail)
{
    gy_random random = {.key = 7};
    problem p;
    int32_t chosen[VARS_MAX];
    do {
        make_problem(&p, &random);
    } while (p.choices.count < VARS_MAX || p.choices.pair_count < PAIRS_MAX / 2);
    p.choices.limit = 16;
    const int64_t before = gy_alloc_live();
    gy_status status = GY_NOMEM;
    int64_t n = 0;
    while (status != GY_OK) {
        gy_alloc_fail_after(++n);
        status = gy_choices_solve(&p.choices, chosen, NULL);
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        assert_true(gy_alloc_live() == before);
    }
    assert_true(n > 10);
}

GY_TEST_MAIN(NULL, NULL)
