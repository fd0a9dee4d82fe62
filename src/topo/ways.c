#include "topo/ways.h"

#include "base/base.h"
#include "base/setting.h"

#include <stdatomic.h>

bool gy_way_is_here(gy_way way)
{
    GY_ASSERT(way >= GY_WAY_PLAIN && way <= GY_WAY_COUNT);
    switch (way) {
    case GY_WAY_PLAIN:
        return true;
#if defined(__x86_64__)
    case GY_WAY_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2");
    case GY_WAY_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2") &&
               __builtin_cpu_supports("bmi2");
#else
    case GY_WAY_AVX2:
    case GY_WAY_AVX512:
#endif
    case GY_WAY_COUNT:
        break;
    }
    return false;
}

gy_way gy_way_best(void)
{
    /* 1 + the instruction set; relaxed: every thread computes the same value */
    static _Atomic int known;
    int found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == 0) {
        int way = gy_setting_choose("GYRE_ISA", "baseline|avx2|avx512", GY_WAY_AVX512);
        while (!gy_way_is_here((gy_way)way)) {
            way--;
        }
        found = 1 + way;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return (gy_way)(found - 1);
}
