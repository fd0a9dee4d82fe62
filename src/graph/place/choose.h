/**
 * Choices that depend on each other in pairs: one value for each of many variables, so that a
 * sum of costs is least.
 */
#ifndef GY_GRAPH_PLACE_CHOOSE_H
#define GY_GRAPH_PLACE_CHOOSE_H

#include <gyre/base.h>

/** Two variables whose values cost something together; a != b. */
typedef struct gy_choice_pair {
    int32_t a, b;
} gy_choice_pair;

/** The sum to be made small: costs of single values and of pairs of values. */
typedef struct gy_choices {
    int32_t count;              /* variables */
    const int32_t *sizes;       /* values that each may take, at least one */
    const double *const *costs; /* [variable][value]; INFINITY: not allowed; NULL: zeros */
    int32_t pair_count;
    const gy_choice_pair *pairs; /* two variables may be in several pairs */
    /* Pairs of one number have variables of the same sizes, and cost the same: a table is made
       once for all of them. NULL: none are alike. */
    const int32_t *pair_kinds;
    int32_t pair_kind_count;
    /** What pair `pair` costs with value `a` of its first and `b` of its second variable. */
    double (*pair_cost)(const void *arg, int32_t pair, int32_t a, int32_t b);
    const void *arg;
    int64_t limit; /* sums that the elimination of one variable may look at; 0: 2^14 */
    int rounds;    /* at most; 0: 6 */
} gy_choices;

/** The whole sum for `chosen`. */
double gy_choices_cost(const gy_choices *choices, const int32_t *chosen);

/**
 * Variables are eliminated, the cheapest first: the best value for all values of those that it
 * is paired with takes its place. Where that would look at more than `limit` sums, the variable
 * with the most pairs keeps the value that it has (at first the first one, or what costs least
 * for those before it), and the rounds after that keep others: each round finds the exact best
 * of all that is not kept, so no round makes the sum greater. Exact when nothing has to be
 * kept, so on chains and trees. What is eliminated from like tables leaves the same table,
 * which is made once: of a thousand equal layers, a few cost time. Likeness of costs is that of
 * their addresses.
 *
 * @param chosen  (count), the result; of equal ones that with smaller values
 * @param is_exact  may be NULL; whether the sum is the least possible
 * @return GY_NOMEM
 * @source Dechter, "Bucket elimination: a unifying framework for reasoning", 1999
 * @threads any
 */
gy_status gy_choices_solve(const gy_choices *choices, int32_t *chosen, bool *is_exact);

#endif
