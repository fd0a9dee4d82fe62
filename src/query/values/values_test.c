/* Goal: decimals are exact and rounded half away from zero where 128 bits do not suffice on the
 * way; patterns and intervals at their edges. */
#include "query/values/values.h"

#include "base/random.h"

#include "gy_test.h"

enum { CASES = 20000 };

/* Up to `digits` digits, with a sign. */
static gy_decimal any(gy_random *random, int digits)
{
    gy_decimal value = 0;
    const int count = (int)gy_random_below(random, (uint64_t)digits + 1);
    for (int i = 0; i < count; i++) {
        value = value * 10 + (gy_decimal)gy_random_below(random, 10);
    }
    return gy_random_below(random, 2) == 0 ? value : -value;
}

static gy_decimal size_of(gy_decimal value)
{
    return value < 0 ? -value : value;
}

/* Rounded half away from zero, of sizes whose double fits. */
static gy_decimal rounded(gy_decimal a, gy_decimal b)
{
    const gy_decimal whole = size_of(a) / size_of(b), rest = size_of(a) % size_of(b);
    const gy_decimal size = whole + (2 * rest >= size_of(b));
    return (a < 0) != (b < 0) ? -size : size;
}

GY_TEST(products_are_rounded)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_serial_cases(CASES); i++) {
        const gy_decimal a = any(&random, 19), b = any(&random, 18);
        const int drop = (int)gy_random_below(&random, 37);
        gy_decimal made = 0;
        assert_true(gy_decimal_multiply(a, b, drop, &made));
        assert_true(made == rounded(a * b, gy_decimal_power(drop)));
        /* products of up to 74 digits: what is added comes off again */
        const gy_decimal large = any(&random, 36);
        const int zeros = (int)gy_random_below(&random, 37);
        assert_true(gy_decimal_multiply(large, gy_decimal_power(zeros), zeros, &made));
        assert_true(made == large);
    }
}

/* Digit by digit. */
static bool divide_plainly(gy_decimal a, gy_decimal b, int shift, gy_decimal *out)
{
    gy_decimal size = size_of(a) / size_of(b), rest = size_of(a) % size_of(b);
    for (int i = 0; i < shift; i++) {
        if (size >= gy_decimal_power(37)) {
            return false;
        }
        size = size * 10 + rest * 10 / size_of(b);
        rest = rest * 10 % size_of(b);
    }
    size += 2 * rest >= size_of(b);
    *out = (a < 0) != (b < 0) ? -size : size;
    return gy_decimal_fits(size);
}

GY_TEST(quotients_are_rounded)
{
    gy_random random = {.key = gy_test_seed()};
    int made_count = 0;
    for (long i = 0; i < gy_test_serial_cases(CASES); i++) {
        const gy_decimal a = any(&random, 38), b = any(&random, 37);
        const int shift = (int)gy_random_below(&random, 60);
        gy_decimal made = 0, expected = 0;
        if (b == 0) {
            continue;
        }
        const bool fits = divide_plainly(a, b, shift, &expected);
        assert_int_equal(gy_decimal_divide(a, b, shift, &made), fits);
        assert_true(!fits || made == expected);
        made_count += fits;
    }
    assert_true(made_count > 10);
    gy_decimal made = 0; /* by 38 digits, whose remainder has no room for a digit more */
    const gy_decimal most = gy_decimal_power(37) * 9;
    assert_true(gy_decimal_divide(most - 1, most, 37, &made));
    assert_true(made == gy_decimal_power(37));
    assert_true(gy_decimal_divide(most / 9, most, 18, &made));
    assert_true(made == gy_decimal_power(18) / 9);
    assert_false(gy_decimal_divide(most, 1, 1, &made));
    /* what stands in rows that are not asked for may be any number */
    const gy_decimal least = -((gy_decimal)1 << 126) * 2;
    assert_true(gy_decimal_divide(gy_decimal_power(37) * 5, least, 16, &made));
    assert_true(made == -INT64_C(2938735877055719));
}

GY_TEST(scales_change)
{
    static const struct {
        int value, from, to, made;
    } cases[] = {{125, 2, 1, 13}, {-125, 2, 1, -13}, {124, 2, 1, 12},
                 {5, 1, 0, 1},    {-5, 1, 0, -1},    {4, 1, 0, 0},
                 {7, 0, 3, 7000}, {0, 38, 0, 0},     {999, 2, 1, 100}};
    gy_decimal made = 0;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_true(gy_decimal_rescale(cases[i].value, cases[i].from, cases[i].to, &made));
        assert_true(made == cases[i].made);
    }
    assert_false(gy_decimal_rescale(gy_decimal_power(37), 0, 1, &made));
    assert_true(gy_decimal_digits(0) == 1 && gy_decimal_digits(-999) == 3);
}

static gy_text_view view(const char *text)
{
    return (gy_text_view){text, strlen(text)};
}

GY_TEST(decimals_are_read)
{
    static const struct {
        const char *text;
        int scale, made_scale, made;
    } cases[] = {{"1.50", -1, 2, 150}, {" -1.5 ", 0, 0, -2}, {"1e3", -1, 0, 1000},
                 {"15e-3", -1, 3, 15}, {".5", -1, 1, 5},     {"5.", -1, 0, 5},
                 {"0e99999", 2, 2, 0}, {"0.004", 2, 2, 0},   {"0.005", 2, 2, 1},
                 {"9e-99999", 2, 2, 0}};
    static const char *const wrong[] = {"", ".", "e5", "1e", "1x", "1 2", "--1", "NaN"};
    gy_decimal made = 0;
    bool is_number = false;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        int scale = cases[i].scale;
        assert_true(gy_decimal_read(view(cases[i].text), &scale, &made, &is_number));
        assert_int_equal(scale, cases[i].made_scale);
        assert_true(made == cases[i].made);
    }
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        int scale = -1;
        assert_false(gy_decimal_read(view(wrong[i]), &scale, &made, &is_number));
        assert_false(is_number);
    }
    int scale = 0;
    assert_false(gy_decimal_read(view("1e38"), &scale, &made, &is_number));
    assert_true(is_number);
}

GY_TEST(intervals_that_are_none)
{
    static const char *const wrong[] = {"",
                                        "day",
                                        "1 dy",
                                        "1:99",
                                        "1-13",
                                        "1 2 3",
                                        "ago",
                                        "1 day ago 2",
                                        "999999999999 years",
                                        "1e5",
                                        "-",
                                        "1 day 2 days", /* a unit stands there once */
                                        "1 hour 2:00",
                                        "0.5 second 1 us",
                                        "1-2 3 mons",
                                        "P",
                                        "PT",
                                        "P1",
                                        "P1H",
                                        "P1D2D",
                                        "P0001-02",
                                        "1P1D"};
    gy_interval made;
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        if (gy_interval_read(view(wrong[i]), 0, &made)) {
            fail_msg("'%s' is an interval", wrong[i]);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
