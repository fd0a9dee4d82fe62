/*
 * One loop per element type and reduction, compiled for several instruction sets; which one
 * runs is decided when the program is loaded. No loop reorders anything: element i of the
 * result depends on elements i alone, so all of them give the same bits.
 */
#include "coll/kernels.h"

#include "tensor/tensor.h"

#include "base/base.h"
#include "tensor/extreme.h"
#include "tensor/half.h"

#include <string.h>

/* Sanitizers do not work with the resolvers of target_clones, so their builds have the plain
 * loop. */
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

#define DIVIDE_LOOP(name, type)                                                                \
    CLONES static void divide_##name(void *data, size_t count, int divisor)                    \
    {                                                                                          \
        type *out = data;                                                                      \
        for (size_t i = 0; i < count; i++) {                                                   \
            out[i] = (type)(out[i] / (type)divisor);                                           \
        }                                                                                      \
    }

/* `wide` is an unsigned type in which the result is computed: it wraps, as signed ones must
 * not. */
#define INTEGER_LOOPS(name, type, wide)                                                        \
    LOOP(sum_##name, type, (wide)((wide)x + (wide)y))                                          \
    LOOP(prod_##name, type, (wide)((wide)x * (wide)y))                                         \
    LOOP(min_##name, type, x < y ? x : y)                                                      \
    LOOP(max_##name, type, x > y ? x : y)                                                      \
    LOOP(and_##name, type, (wide)x &(wide)y)                                                   \
    LOOP(or_##name, type, (wide)x | (wide)y)                                                   \
    LOOP(xor_##name, type, (wide)x ^ (wide)y)                                                  \
    DIVIDE_LOOP(name, type)

#define FLOAT_LOOPS(name, type)                                                                \
    LOOP(sum_##name, type, x + y)                                                              \
    LOOP(prod_##name, type, x *y)                                                              \
    LOOP(min_##name, type, GY_MINIMUM(x, y))                                                   \
    LOOP(max_##name, type, GY_MAXIMUM(x, y))                                                   \
    DIVIDE_LOOP(name, type)

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
    HALF_LOOP(min_##name, widen, narrow, gy_minimum_f32(x, y))                                 \
    HALF_LOOP(max_##name, widen, narrow, gy_maximum_f32(x, y))                                 \
    CLONES static void widen_##name(float *to, const uint16_t *from, size_t count)             \
    {                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                   \
            to[i] = widen(from[i]);                                                            \
        }                                                                                      \
    }                                                                                          \
    CLONES static void narrow_##name(uint16_t *to, const float *from, size_t count)            \
    {                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                   \
            to[i] = narrow(from[i]);                                                           \
        }                                                                                      \
    }                                                                                          \
    CLONES static void divide_##name(void *data, size_t count, int divisor)                    \
    {                                                                                          \
        uint16_t *out = data;                                                                  \
        for (size_t i = 0; i < count; i++) {                                                   \
            out[i] = narrow(widen(out[i]) / (float)divisor);                                   \
        }                                                                                      \
    }

HALF_LOOPS(BF16, gy_bf16_to, bf16_of)
HALF_LOOPS(F16, gy_f16_to, f16_of)

/*
 * Sums of several contributions at once, from left to right as one loop after the other would
 * have them. Where contributions lie in other cores' caches the point is that all of them are
 * on their way together (p=4: 1.5 us instead of 2.1 for 32 KiB of the result, p=8: 2.4 instead
 * of 3.2). Signed integers are added as unsigned ones: they wrap.
 */
enum { VECTOR_BYTES = 64, VECTORS = 4 };

#define SUM_MANY(name, type)                                                                   \
    typedef type vector_##name                                                                 \
        __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(type)), may_alias));          \
    CLONES static void many_##name(void *to, const void *const *terms, int term_count,         \
                                   size_t count)                                               \
    {                                                                                          \
        vector_##name *out = to;                                                               \
        size_t whole = count * sizeof(type) / (sizeof(*out) * VECTORS) * VECTORS;              \
        for (size_t i = 0; i < whole; i += VECTORS) {                                          \
            vector_##name sum[VECTORS];                                                        \
            for (size_t k = 0; k < VECTORS; k++) {                                             \
                sum[k] = ((const vector_##name *)terms[0])[i + k];                             \
            }                                                                                  \
            for (int of = 1; of < term_count; of++) {                                          \
                const vector_##name *next = (const vector_##name *)terms[of] + i;              \
                for (size_t k = 0; k < VECTORS; k++) {                                         \
                    sum[k] += next[k];                                                         \
                }                                                                              \
            }                                                                                  \
            for (size_t k = 0; k < VECTORS; k++) {                                             \
                out[i + k] = sum[k];                                                           \
            }                                                                                  \
        }                                                                                      \
        for (size_t i = whole * sizeof(*out) / sizeof(type); i < count; i++) {                 \
            type sum = ((const type *)terms[0])[i];                                            \
            for (int of = 1; of < term_count; of++) {                                          \
                sum = (type)(sum + ((const type *)terms[of])[i]);                              \
            }                                                                                  \
            ((type *)to)[i] = sum;                                                             \
        }                                                                                      \
    }

SUM_MANY(F64, double)
SUM_MANY(F32, float)
SUM_MANY(U64, uint64_t)
SUM_MANY(U32, uint32_t)
SUM_MANY(U16, uint16_t)
SUM_MANY(U8, uint8_t)

gy_coll_combine_many gy_coll_combine_many_of(gy_dtype dtype, gy_reduction reduction)
{
    static const gy_coll_combine_many loops[GY_DTYPE_COUNT] = {
        [GY_F64] = many_F64, [GY_F32] = many_F32, [GY_I64] = many_U64, [GY_I32] = many_U32,
        [GY_I16] = many_U16, [GY_I8] = many_U8,   [GY_U64] = many_U64, [GY_U32] = many_U32,
        [GY_U16] = many_U16, [GY_U8] = many_U8,
    };
    GY_ASSERT(gy_dtype_is_element(dtype) && (unsigned)reduction < GY_REDUCTION_COUNT);
    return reduction == GY_SUM || reduction == GY_AVG ? loops[dtype] : NULL;
}

#define COMMON_ROW(name)                                                                       \
    [GY_SUM] = sum_##name, [GY_AVG] = sum_##name, [GY_PROD] = prod_##name,                     \
    [GY_MIN] = min_##name, [GY_MAX] = max_##name
#define FLOAT_ROW(name) [GY_##name] = {COMMON_ROW(name)}
#define INTEGER_ROW(name)                                                                      \
    [GY_##name] = {COMMON_ROW(name), [GY_BIT_AND] = and_##name, [GY_BIT_OR] = or_##name,       \
                   [GY_BIT_XOR] = xor_##name}

gy_coll_combine gy_coll_combine_of(gy_dtype dtype, gy_reduction reduction)
{
    static const gy_coll_combine loops[GY_DTYPE_COUNT][GY_REDUCTION_COUNT] = {
        FLOAT_ROW(F64),   FLOAT_ROW(F32),   FLOAT_ROW(F16),   FLOAT_ROW(BF16),
        INTEGER_ROW(I64), INTEGER_ROW(I32), INTEGER_ROW(I16), INTEGER_ROW(I8),
        INTEGER_ROW(U64), INTEGER_ROW(U32), INTEGER_ROW(U16), INTEGER_ROW(U8),
    };
    GY_ASSERT(gy_dtype_is_element(dtype) && (unsigned)reduction < GY_REDUCTION_COUNT);
    return loops[dtype][reduction];
}

void gy_divide(gy_dtype dtype, void *data, size_t count, int divisor)
{
    static void (*const loops[GY_DTYPE_COUNT])(void *, size_t, int) = {
#define GY_X(name, bytes, type) [GY_##name] = divide_##name,
        GY_DTYPE_LIST(GY_X)
#undef GY_X
    };
    GY_ASSERT(gy_dtype_is_element(dtype) && divisor > 0);
    GY_ASSERT(loops[dtype] != NULL);
    loops[dtype](data, count, divisor);
}

void gy_half_widen(gy_dtype dtype, float *to, const void *from, size_t count)
{
    GY_ASSERT(dtype == GY_F16 || dtype == GY_BF16);
    (dtype == GY_F16 ? widen_F16 : widen_BF16)(to, from, count);
}

void gy_half_narrow(gy_dtype dtype, void *to, const float *from, size_t count)
{
    GY_ASSERT(dtype == GY_F16 || dtype == GY_BF16);
    (dtype == GY_F16 ? narrow_F16 : narrow_BF16)(to, from, count);
}

const char *gy_reduction_name(gy_reduction reduction)
{
    static const char *const names[] = {
        [GY_SUM] = "sum", [GY_PROD] = "prod",   [GY_MIN] = "min",   [GY_MAX] = "max",
        [GY_AVG] = "avg", [GY_BIT_AND] = "and", [GY_BIT_OR] = "or", [GY_BIT_XOR] = "xor"};
    _Static_assert(GY_COUNT(names) == GY_REDUCTION_COUNT, "a name for each reduction");
    return (unsigned)reduction < GY_COUNT(names) ? names[reduction] : "unknown reduction";
}
