/*
 * How many stories a simulator tells.
 */
#ifndef GY_TESTS_SEEDS_KIT_H
#define GY_TESTS_SEEDS_KIT_H

#include "gy_test.h"

enum { SEEDS_SOAK = 20000 };

/* As gy_test_cases(), and with GYRE_SOAK no simulator tells fewer than the others are asked
 * for. */
static inline long seeds_count(long cases)
{
    const long count = gy_test_cases(cases);
    return getenv("GYRE_SOAK") != NULL && count < SEEDS_SOAK ? SEEDS_SOAK : count;
}

#endif
