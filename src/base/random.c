#include "base/random.h"

#include "base/fail.h"

#include <math.h>

uint64_t gy_random_u64(gy_random *random)
{
    uint32_t out[4];
    gy_philox(random->key, 0, random->next++, out);
    return ((uint64_t)out[1] << 32) | out[0];
}

uint64_t gy_random_below(gy_random *random, uint64_t bound)
{
    GY_ASSERT(bound > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value = gy_random_u64(random);
    while (value >= limit) {
        value = gy_random_u64(random);
    }
    return value % bound;
}

double gy_random_unit(gy_random *random)
{
    return gy_random_part(gy_random_u64(random));
}

double gy_random_normal(gy_random *random)
{
    double radius = sqrt(-2 * log(1 - gy_random_unit(random)));
    return radius * cos(6.283185307179586 * gy_random_unit(random));
}
