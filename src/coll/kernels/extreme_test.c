/*
 * Goal: the loops of min and max give NaN where either operand is one, wherever in a vector it
 * stands, and -0 below +0 whichever comes first; for each floating type, each length around the
 * widths of vectors, each alignment, and where the result is one of the operands.
 */
#include "coll/kernels.h"

#include "base/base.h"
#include "tensor/half.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { LONGEST = 70, SHIFTS = 5 };

static const gy_dtype floating[] = {GY_F64, GY_F32, GY_F16, GY_BF16};

static void put(gy_dtype dtype, void *data, size_t i, double value)
{
    if (dtype == GY_F64) {
        ((double *)data)[i] = value;
    } else if (dtype == GY_F32) {
        ((float *)data)[i] = (float)value;
    } else {
        ((uint16_t *)data)[i] = dtype == GY_F16 ? gy_f16_from(value) : gy_bf16_from(value);
    }
}

static double take(gy_dtype dtype, const void *data, size_t i)
{
    return dtype == GY_F64    ? ((const double *)data)[i]
           : dtype == GY_F32  ? (double)((const float *)data)[i]
           : dtype == GY_BF16 ? (double)gy_bf16_to(((const uint16_t *)data)[i])
                              : (double)gy_f16_to(((const uint16_t *)data)[i]);
}

/* An element of the first or the second operand; small numbers, exact in each type. */
static double number(size_t i, int operand)
{
    return (double)((i * 7 + (size_t)operand * 5) % 11) - 5;
}

typedef struct extreme_case {
    gy_dtype dtype;
    gy_reduction reduction;
    size_t count, shift, odd;
    double left, right; /* at `odd`, what the operands hold */
    int alias;          /* the result is operand 0, 1, or apart from both: 2 */
} extreme_case;

static void check(const extreme_case *one, double expected)
{
    static uint64_t rooms[3][LONGEST + 2 * SHIFTS];
    uint8_t *at[3];
    for (int k = 0; k < 3; k++) {
        at[k] = (uint8_t *)rooms[k] + one->shift * gy_dtype_bytes(one->dtype);
    }
    for (size_t i = 0; i < one->count; i++) {
        put(one->dtype, at[0], i, i == one->odd ? one->left : number(i, 0));
        put(one->dtype, at[1], i, i == one->odd ? one->right : number(i, 1));
    }
    uint8_t *out = at[one->alias];
    gy_coll_combine_of(one->dtype, one->reduction)(out, at[0], at[1], one->count);
    for (size_t i = 0; i < one->count; i++) {
        double a = number(i, 0), b = number(i, 1);
        double plain = one->reduction == GY_MIN ? GY_MIN(a, b) : GY_MAX(a, b);
        double wanted = i == one->odd ? expected : plain, got = take(one->dtype, out, i);
        if (isnan(wanted) ? !isnan(got) : got != wanted || signbit(got) != signbit(wanted)) {
            fail_msg("%s of %s, %zu elements, shift %zu, alias %d: element %zu is %g, "
                     "expected %g of %g and %g",
                     gy_reduction_name(one->reduction), gy_dtype_name(one->dtype), one->count,
                     one->shift, one->alias, i, got, wanted, one->left, one->right);
        }
    }
}

/* All lengths, places and alignments of one pair of operands. */
static void check_everywhere(double left, double right, double least, double most)
{
    for (size_t kind = 0; kind < 2 * GY_COUNT(floating); kind++) {
        extreme_case one = {.dtype = floating[kind / 2],
                            .reduction = kind % 2 == 0 ? GY_MIN : GY_MAX,
                            .left = left,
                            .right = right};
        for (one.count = 1; one.count <= LONGEST; one.count++) {
            one.shift = one.count % SHIFTS;
            one.alias = (int)(one.count % 3);
            for (one.odd = 0; one.odd < one.count; one.odd++) {
                check(&one, kind % 2 == 0 ? least : most);
            }
        }
    }
}

GY_TEST(a_nan_stays_wherever_it_stands)
{
    const double others[] = {0, -2, 2, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        check_everywhere((double)NAN, others[i], (double)NAN, (double)NAN);
        check_everywhere(others[i], -(double)NAN, (double)NAN, (double)NAN);
    }
}

GY_TEST(minus_zero_is_below_zero_whichever_comes_first)
{
    check_everywhere(-0.0, 0.0, -0.0, 0.0);
    check_everywhere(0.0, -0.0, -0.0, 0.0);
    check_everywhere(-0.0, -0.0, -0.0, -0.0);
    check_everywhere(0.0, 0.0, 0.0, 0.0);
}

GY_TEST(infinities_are_the_ends)
{
    const double inf = (double)INFINITY;
    check_everywhere(inf, -inf, -inf, inf);
    check_everywhere(-3, inf, -3, inf);
    check_everywhere(-inf, 3, -inf, 3);
}

GY_TEST_MAIN(NULL, NULL)
