/**
 * For the tests of prices: nearness, and the rounds of trees.
 */
#ifndef PRICE_KIT_H
#define PRICE_KIT_H

#include <math.h>

#include "gy_test.h"

static inline void assert_near(double got, double expected, double tolerance)
{
    if (fabs(got - expected) > tolerance * fabs(expected)) {
        fail_msg("%.12g, expected %.12g", got, expected);
    }
}

static inline int log2_up(int n)
{
    int bits = 0;
    while (1 << bits < n) {
        bits++;
    }
    return bits;
}

#endif
