/* Goal: chunks are as good as those of the best of all cuts, within a step of the bounds tried;
 * ends are where they may be. */
#include "graph/recompute/recompute.h"

#include <math.h>

#include "gy_test.h"

enum { PLACES_MAX = 12 };

typedef struct line {
    double cross[PLACES_MAX], inside[PLACES_MAX];
    bool may[PLACES_MAX];
    int32_t count;
} line;

/* Bytes at the borders and of the largest chunk when bit i of `cut` ends a chunk at place i. */
static double cost_of(const line *l, uint32_t cut, double *held, double *largest)
{
    double chunk = 0;
    *held = *largest = 0;
    for (int32_t i = 0; i < l->count; i++) {
        chunk += l->inside[i];
        if ((cut >> i & 1) != 0 || i == l->count - 1) {
            *held += i == l->count - 1 ? 0 : l->cross[i];
            *largest = fmax(*largest, chunk);
            chunk = 0;
        }
    }
    return *held + *largest;
}

/* The bounds shrink by a tenth, so that the best cut's largest chunk fits one that is at most
 * as much larger. */
static double limit_of(const line *l)
{
    double limit = INFINITY, held, largest;
    for (uint32_t cut = 0; cut < 1u << (l->count - 1); cut++) {
        bool is_legal = true;
        for (int32_t i = 0; i < l->count - 1; i++) {
            is_legal = is_legal && ((cut >> i & 1) == 0 || l->may[i]);
        }
        if (is_legal) {
            (void)cost_of(l, cut, &held, &largest);
            limit = fmin(limit, held + largest / 0.9);
        }
    }
    return limit;
}

GY_TEST(chunks_are_near_the_best)
{
    const uint64_t seed = gy_test_seed();
    const long trials = gy_test_cases(2000);
    int better = 0;
    for (long trial = 0; trial < trials; trial++) {
        gy_random random = {.key = seed + (uint64_t)trial};
        line l = {.count = 1 + (int32_t)gy_random_below(&random, PLACES_MAX)};
        for (int32_t i = 0; i < l.count; i++) {
            l.cross[i] = (double)gy_random_below(&random, 20);
            l.inside[i] = (double)gy_random_below(&random, 40);
            l.may[i] = i == l.count - 1 || gy_random_below(&random, 3) > 0;
        }
        int32_t ends[PLACES_MAX], count = 0;
        assert_ok(gy_recompute_cut(l.cross, l.inside, l.may, l.count, ends, &count));
        uint32_t cut = 0;
        for (int32_t i = 0; i < count; i++) {
            assert_true(l.may[ends[i]] && (i == 0 || ends[i] > ends[i - 1]));
            cut |= 1u << ends[i];
        }
        assert_true(count >= 1 && ends[count - 1] == l.count - 1);
        double held, largest;
        const double cost = cost_of(&l, cut, &held, &largest);
        if (!(cost <= limit_of(&l) + 1e-9)) {
            fail_msg("seed %llu: %g bytes, expected at most %g",
                     (unsigned long long)(seed + (uint64_t)trial), cost, limit_of(&l));
        }
        better += count > 1 ? 1 : 0;
    }
    printf("%d of %ld lines are cut\n", better, trials);
    assert_true(better > trials / 4);
}

/* Layers of four places that hold 40, with 1 byte between two of them and 9 elsewhere: chunks
 * are layers. With nothing to drop there is one chunk. */
GY_TEST(equal_layers_are_chunks)
{
    enum { LAYERS = 8, PLACES = 4 * LAYERS };
    double cross[PLACES], inside[PLACES];
    bool may[PLACES];
    int32_t ends[PLACES], count = 0;
    for (int i = 0; i < PLACES; i++) {
        cross[i] = i % 4 == 3 ? 1 : 9;
        inside[i] = 10;
        may[i] = true;
    }
    assert_ok(gy_recompute_cut(cross, inside, may, PLACES, ends, &count));
    assert_int_equal(count, LAYERS);
    for (int i = 0; i < LAYERS; i++) {
        assert_int_equal(ends[i], 4 * i + 3);
    }
    for (int i = 0; i < PLACES; i++) {
        inside[i] = 0;
    }
    assert_ok(gy_recompute_cut(cross, inside, may, PLACES, ends, &count));
    assert_int_equal(count, 1);
}

/* 40,000 places: the queue makes a walk linear. */
GY_TEST(long_lines_are_cut_at_once)
{
    enum { PLACES = 40000 };
    double *bytes = gy_alloc("test", PLACES * sizeof(*bytes));
    bool *may = gy_alloc("test", PLACES * sizeof(*may));
    int32_t *ends = gy_alloc("test", PLACES * sizeof(*ends)), count = 0;
    for (int i = 0; i < PLACES; i++) {
        bytes[i] = 1;
        may[i] = true;
    }
    assert_ok(gy_recompute_cut(bytes, bytes, may, PLACES, ends, &count));
    assert_in_range(count, 180, 220); /* the square root */
    gy_free(bytes);
    gy_free(may);
    gy_free(ends);
}

GY_TEST_MAIN(NULL, NULL)
