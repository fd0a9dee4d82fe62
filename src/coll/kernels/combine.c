/*
 * One loop per element type and reduction, compiled for several instruction sets; which one
 * runs is decided when the program is loaded. No loop reorders anything: element i of the
 * result depends on elements i alone, so all of them give the same bits.
 */
#include "coll/kernels.h"

#include "base/base.h"
#include "tensor/half.h"

#include <string.h>

/* Sanitizers and resolvers of clones do not go together: there the plain loop is enough. */
#if defined(__x86_64__) && !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define CLONES
#endif

#define LOOP(name, type, expression)                                                           \
    CLONES static void name(void *to, const void *a, const void *b, size_t count)              \
    {                                                                                          \
        type *out = to;                                                                        \
        const type *left = a, *right = b;                                                      \
        for (size_t i = 0; i < count; i++) {                                                   \
            type x = left[i], y = right[i];                                                    \
            out[i] = (type)(expression);                                                       \
        }                                                                                      \
    }

/* `wide` is an unsigned type in which the result is computed: it wraps, as signed ones must
 * not. */
#define INTEGER_LOOPS(name, type, wide)                                                        \
    LOOP(sum_##name, type, (wide)((wide)x + (wide)y))                                          \
    LOOP(prod_##name, type, (wide)((wide)x * (wide)y))                                         \
    LOOP(min_##name, type, x < y ? x : y)                                                      \
    LOOP(max_##name, type, x > y ? x : y)

#define FLOAT_LOOPS(name, type)                                                                \
    LOOP(sum_##name, type, x + y)                                                              \
    LOOP(prod_##name, type, x *y)                                                              \
    LOOP(min_##name, type, x < y ? x : y)                                                      \
    LOOP(max_##name, type, x > y ? x : y)

FLOAT_LOOPS(F64, double)
FLOAT_LOOPS(F32, float)
INTEGER_LOOPS(I64, int64_t, uint64_t)
INTEGER_LOOPS(I32, int32_t, uint32_t)
INTEGER_LOOPS(I16, int16_t, uint32_t)
INTEGER_LOOPS(I8, int8_t, uint32_t)
INTEGER_LOOPS(U64, uint64_t, uint64_t)
INTEGER_LOOPS(U32, uint32_t, uint32_t)
INTEGER_LOOPS(U16, uint16_t, uint32_t)
INTEGER_LOOPS(U8, uint8_t, uint32_t)

/* float32 to bfloat16, nearest even, without branches so that it runs in vectors. */
static inline uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t not_a_number = (bits >> 16 & 0x8000) | 0x7fc0;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? not_a_number : rounded);
}

static inline uint16_t f16_of(float value)
{
    return gy_f16_from((double)value);
}

#define HALF_LOOP(name, widen, narrow, expression)                                             \
    CLONES static void name(void *to, const void *a, const void *b, size_t count)              \
    {                                                                                          \
        uint16_t *out = to;                                                                    \
        const uint16_t *left = a, *right = b;                                                  \
        for (size_t i = 0; i < count; i++) {                                                   \
            float x = widen(left[i]), y = widen(right[i]);                                     \
            out[i] = narrow(expression);                                                       \
        }                                                                                      \
    }

#define HALF_LOOPS(name, widen, narrow)                                                        \
    HALF_LOOP(sum_##name, widen, narrow, x + y)                                                \
    HALF_LOOP(prod_##name, widen, narrow, x *y)                                                \
    HALF_LOOP(min_##name, widen, narrow, x < y ? x : y)                                        \
    HALF_LOOP(max_##name, widen, narrow, x > y ? x : y)

HALF_LOOPS(BF16, gy_bf16_to, bf16_of)
HALF_LOOPS(F16, gy_f16_to, f16_of)

gy_combine gy_combine_of(gy_dtype dtype, gy_reduction reduction)
{
    static const gy_combine loops[GY_DTYPE_COUNT][4] = {
#define GY_X(name, bytes, type)                                                                \
    [GY_##name] = {[GY_SUM] = sum_##name,                                                      \
                   [GY_PROD] = prod_##name,                                                    \
                   [GY_MIN] = min_##name,                                                      \
                   [GY_MAX_OF] = max_##name},
        GY_DTYPE_LIST(GY_X)
#undef GY_X
    };
    GY_ASSERT((unsigned)dtype < GY_DTYPE_COUNT && (unsigned)reduction < 4);
    return loops[dtype][reduction];
}

const char *gy_reduction_name(gy_reduction reduction)
{
    static const char *const names[] = {
        [GY_SUM] = "sum", [GY_PROD] = "prod", [GY_MIN] = "min", [GY_MAX_OF] = "max"};
    return (unsigned)reduction < GY_COUNT(names) ? names[reduction] : "unknown reduction";
}
