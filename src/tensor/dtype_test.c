/* Goal: element types have their names and sizes, and every conversion rounds once, to nearest
 * even. */
#include "base/base.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

GY_TEST(names_and_sizes_agree)
{
    for (int i = GY_DTYPE_NONE + 1; i < GY_DTYPE_COUNT; i++) {
        gy_dtype back = GY_DTYPE_COUNT;
        assert_true(gy_dtype_parse(gy_dtype_name((gy_dtype)i), &back));
        assert_int_equal(back, i);
    }
    gy_dtype dtype = GY_F64;
    assert_false(gy_dtype_parse("f33", &dtype));
    assert_false(gy_dtype_parse("", &dtype));
    assert_false(gy_dtype_parse("none", &dtype)); /* nobody asks for it by name */
    assert_int_equal(dtype, GY_F64);
    assert_int_equal(GY_DTYPE_NONE, 0);
    assert_string_equal(gy_dtype_name(GY_DTYPE_NONE), "none");
    assert_string_equal(gy_dtype_name(GY_BF16), "bf16");
    assert_int_equal(gy_dtype_bytes(GY_BF16), 2);
    assert_int_equal(gy_dtype_bytes(GY_F64), 8);
    assert_int_equal(gy_dtype_bytes(GY_U8), 1);
}

GY_TEST(f16_matches_the_tables_of_the_standard)
{
    static const struct {
        double value;
        uint16_t bits;
    } known[] = {{0.0, 0x0000},         {-0.0, 0x8000},          {1.0, 0x3c00},
                 {-2.0, 0xc000},        {65504.0, 0x7bff},       {65519.9, 0x7bff},
                 {65520.0, 0x7c00},     {1e300, 0x7c00},         {0x1p-14, 0x0400},
                 {0x1p-24, 0x0001},     {0x1p-25, 0x0000},       {0x1.8p-25, 0x0001},
                 {0x1.8p-24, 0x0002},   {1.0 + 0x1p-11, 0x3c00}, {1.0 + 0x3p-11, 0x3c02},
                 {0x1.ff8p-15, 0x03ff}, {0x1.ffcp-15, 0x0400},   {1.0 / 3, 0x3555},
                 {INFINITY, 0x7c00},    {-INFINITY, 0xfc00},     {5e-324, 0x0000}};
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        assert_int_equal(gy_f16_from(known[i].value), known[i].bits);
    }
    assert_true(isnan(gy_f16_to(gy_f16_from(NAN))));
    for (uint32_t bits = 0; bits < 0x10000; bits++) { /* every number comes back */
        float value = gy_f16_to((uint16_t)bits);
        if (!isnan(value)) {
            assert_int_equal(gy_f16_from((double)value), bits);
        }
        float wide = gy_bf16_to((uint16_t)bits);
        if (!isnan(wide)) {
            assert_int_equal(gy_bf16_from((double)wide), bits);
        }
    }
}

/* Oracle: of the two neighbours among all 65,536 values, the nearer one, the even one on a tie.
 */
static uint16_t nearest(double value, float (*decode)(uint16_t bits), uint16_t infinity)
{
    uint32_t low = 0, high = infinity;
    double magnitude = fabs(value);
    while (high - low > 1) { /* decode is increasing on [0, infinity] */
        uint32_t middle = (low + high) / 2;
        if ((double)decode((uint16_t)middle) <= magnitude) {
            low = middle;
        } else {
            high = middle;
        }
    }
    double below = (double)decode((uint16_t)low), above = (double)decode((uint16_t)high);
    if (high == infinity) { /* as if the next power of two were a number */
        above = below + (below - (double)decode((uint16_t)(low - 1)));
    }
    double down = magnitude - below, up = above - magnitude; /* exact: neighbours within 2x */
    uint32_t got = down < up || (down == up && (low & 1) == 0) ? low : high;
    return (uint16_t)(got | (signbit(value) ? 0x8000u : 0u));
}

GY_TEST(small_floats_round_to_nearest_even)
{
    gy_random random = {.key = gy_test_seed()};
    for (int i = 0; i < 200000; i++) {
        double unit = gy_random_unit(&random) + 0.5;
        double half = ldexp(unit, (int)gy_random_below(&random, 44) - 27);
        double brain = ldexp(unit, (int)gy_random_below(&random, 260) - 133);
        if (i % 2 == 0) { /* ties and their neighbours */
            half = (double)(float)half;
            uint64_t bits = gy_bits_of_double(half) & ~((UINT64_C(1) << 41) - 1);
            memcpy(&half, &bits, sizeof(half));
            bits = (gy_bits_of_double(brain) & ~((UINT64_C(1) << 44) - 1)) |
                   gy_random_below(&random, 2);
            memcpy(&brain, &bits, sizeof(brain));
        }
        assert_int_equal(gy_f16_from(-half), nearest(-half, gy_f16_to, 0x7c00));
        assert_int_equal(gy_bf16_from(brain), nearest(brain, gy_bf16_to, 0x7f80));
    }
}

static void copy_one(gy_dtype to, void *out, gy_dtype from, const void *in)
{
    int64_t value = 0; /* gy_view has no const: a copy */
    memcpy(&value, in, gy_dtype_bytes(from));
    gy_view target = gy_view_of(out, to, NULL, 0), source = gy_view_of(&value, from, NULL, 0);
    assert_ok(gy_view_copy(&target, &source));
}

GY_TEST(floats_become_integers_by_cutting_and_saturating)
{
    static const struct {
        double in;
        int64_t i64;
        int8_t i8;
        uint8_t u8;
        uint64_t u64;
    } known[] = {
        {1.9, 1, 1, 1, 1},
        {-1.9, -1, -1, 0, 0},
        {300, 300, 127, 255, 300},
        {-1e30, INT64_MIN, -128, 0, 0},
        {1e30, INT64_MAX, 127, 255, UINT64_MAX},
        {NAN, 0, 0, 0, 0},
        {-128.5, -128, -128, 0, 0},
        {0x1p63, INT64_MAX, 127, 255, UINT64_C(1) << 63},
    };
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        int64_t a = 1;
        int8_t b = 1;
        uint8_t c = 1;
        uint64_t d = 1;
        copy_one(GY_I64, &a, GY_F64, &known[i].in);
        copy_one(GY_I8, &b, GY_F64, &known[i].in);
        copy_one(GY_U8, &c, GY_F64, &known[i].in);
        copy_one(GY_U64, &d, GY_F64, &known[i].in);
        assert_true(a == known[i].i64);
        assert_true(b == known[i].i8);
        assert_true(c == known[i].u8);
        assert_true(d == known[i].u64);
    }
}

GY_TEST(integers_keep_low_bits_and_round_once)
{
    int32_t whole = -1;
    uint64_t wide = 7;
    copy_one(GY_U64, &wide, GY_I32, &whole);
    assert_true(wide == UINT64_MAX);
    uint8_t byte = 0;
    int64_t large = 0x1234;
    copy_one(GY_U8, &byte, GY_I64, &large);
    assert_int_equal(byte, 0x34);
    double real = 0;
    copy_one(GY_F64, &real, GY_U64, &wide);
    assert_true(real == 0x1p64);
    float single = 0;
    copy_one(GY_F32, &single, GY_U64, &wide);
    assert_true(single == 0x1p64f);
    /* 2^62 + 2^54 + 1 lies just above a tie of bf16; rounded to double first it would tie */
    uint16_t brain = 0;
    int64_t above = (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1;
    copy_one(GY_BF16, &brain, GY_I64, &above);
    assert_int_equal(brain, 0x5e81);
    int64_t half_unit =
        (INT64_C(1) << 62) + (INT64_C(1) << 54) + 0x400; /* a tie of double itself */
    copy_one(GY_BF16, &brain, GY_I64, &half_unit);
    assert_int_equal(brain, 0x5e81);
    above = -above;
    copy_one(GY_BF16, &brain, GY_I64, &above);
    assert_int_equal(brain, 0xde81);
    uint64_t tie = (UINT64_C(1) << 62) + (UINT64_C(1) << 54);
    copy_one(GY_BF16, &brain, GY_U64, &tie);
    assert_int_equal(brain, 0x5e80);
}

GY_TEST(every_pair_of_types_carries_small_numbers)
{
    for (int from = GY_DTYPE_NONE + 1; from < GY_DTYPE_COUNT; from++) {
        for (int to = GY_DTYPE_NONE + 1; to < GY_DTYPE_COUNT; to++) {
            int64_t in = 0, out = 0;
            for (int value = 0; value <= 127; value++) {
                gy_element_set((gy_dtype)from, &in, 0, value);
                copy_one((gy_dtype)to, &out, (gy_dtype)from, &in);
                assert_true(gy_element_get((gy_dtype)to, &out, 0) == value);
            }
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
