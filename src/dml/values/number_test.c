/* Goal: a text gives the double that the C library's strtod gives, bit by bit, and what is no
 * number gives none. */
#include "dml/values/frame.h"

#include <float.h>
#include <math.h>

#include "gy_test.h"

static void expect_same(const char *text)
{
    double got = 0;
    const double wanted = strtod(text, NULL);
    if (!gy_dml_parse_real(text, strlen(text), &got) ||
        memcmp(&got, &wanted, sizeof(got)) != 0) {
        fail_msg("%s: got %.17g, expected %.17g", text, got, wanted);
    }
}

/* Digits of every length, the point anywhere, exponents in and beyond the fast path. */
static void test_random_digits(void **state)
{
    gy_random random = {.key = gy_test_seed()};
    (void)state;
    for (int n = 0; n < 200000; n++) {
        char text[64];
        size_t size = 0;
        const int digits = 1 + (int)gy_random_below(&random, 20);
        const int point = (int)gy_random_below(&random, 24);
        text[size] = '-';
        size += gy_random_below(&random, 2) == 0;
        for (int i = 0; i < digits; i++) {
            if (i == point) {
                text[size++] = '.';
            }
            text[size++] = (char)('0' + gy_random_below(&random, 10));
        }
        text[size] = '\0';
        if (gy_random_below(&random, 2) == 0) {
            gy_print(text + size, sizeof(text) - size, "e%d",
                     (int)gy_random_below(&random, n % 2 == 0 ? 60 : 700) -
                         (n % 2 == 0 ? 30 : 350));
        }
        expect_same(text);
    }
}

/* Decimals at and beside the middle of two doubles, where a second rounding would err. */
static void test_midpoints(void **state)
{
    gy_random random = {.key = gy_test_seed() + 1};
    (void)state;
    for (int n = 0; n < 50000; n++) {
        char text[64];
        const uint64_t odd = (gy_random_u64(&random) >> 10) | (uint64_t)1 << 53 | 1;
        gy_print(text, sizeof(text), "%llu", (unsigned long long)odd); /* 54 bits: a midpoint */
        expect_same(text);
        gy_print(text, sizeof(text), "%llu.%d", (unsigned long long)odd,
                 (int)gy_random_below(&random, 10));
        expect_same(text);
        gy_print(text, sizeof(text), "%llue-%d", (unsigned long long)odd,
                 (int)gy_random_below(&random, 27));
        expect_same(text);
    }
}

/* What is printed is read back, with the fewest digits: none fewer gives the same double. */
static void test_printed(void **state)
{
    gy_random random = {.key = gy_test_seed() + 2};
    (void)state;
    for (int n = 0; n < 20000; n++) {
        gy_text text = {.data = NULL};
        double real = 0, again = 0;
        uint64_t bits = gy_random_u64(&random);
        memcpy(&real, &bits, sizeof(real));
        if (n % 3 == 0) {
            real = rint(gy_random_normal(&random) * 1e6) / 1e3;
        }
        if (!isfinite(real)) {
            continue;
        }
        gy_dml_add_real(&text, real);
        const char *shown = gy_text_get(&text);
        assert_true(gy_dml_parse_real(shown, text.size_bytes, &again));
        assert_memory_equal(&real, &again, sizeof(real));
        int digits = 0, zeros = 0;
        for (const char *at = shown; *at != '\0' && *at != 'E'; at++) {
            if (*at >= '0' && *at <= '9' && (digits > 0 || *at != '0')) {
                digits++;
                zeros = *at == '0' ? zeros + 1 : 0;
            }
        }
        char fewer[64];
        if (digits - zeros > 1) {
            gy_print(fewer, sizeof(fewer), "%.*e", digits - zeros - 2, real);
            if (strtod(fewer, NULL) == real) {
                fail_msg("%s is not the shortest of %.17g", shown, real);
            }
        }
        gy_text_free(&text);
    }
}

static void test_single(void **state)
{
    gy_random random = {.key = gy_test_seed() + 3};
    (void)state;
    for (int n = 0; n < 20000; n++) {
        gy_text text = {.data = NULL};
        const float single = (float)gy_random_normal(&random) * 100;
        gy_dml_add_single(&text, single);
        assert_true(strtof(gy_text_get(&text), NULL) == single);
        gy_text_free(&text);
    }
}

static void test_words(void **state)
{
    static const char *const numbers[] = {"0",
                                          "-0",
                                          "00012",
                                          ".5",
                                          "5.",
                                          "+7",
                                          "1e0",
                                          "1E+5",
                                          "inf",
                                          "-Infinity",
                                          "4.9e-324",
                                          "1e400",
                                          "123456789012345678901234567890",
                                          "1e-400"};
    static const char *const others[] = {"",      "-",   ".",      "e5",   "1e",  "1e+",
                                         "1.2.3", "1,2", "0x10",   "12 ",  " 12", "1-2",
                                         "12a",   "--1", "nan(2)", "1e5.0"};
    double value = 0;
    (void)state;
    for (size_t i = 0; i < GY_COUNT(numbers); i++) {
        expect_same(numbers[i]);
    }
    assert_true(gy_dml_parse_real("NaN", 3, &value) && isnan(value));
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        if (gy_dml_parse_real(others[i], strlen(others[i]), &value)) {
            fail_msg("\"%s\" is a number: %g", others[i], value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),     cmocka_unit_test(test_random_digits),
        cmocka_unit_test(test_midpoints), cmocka_unit_test(test_printed),
        cmocka_unit_test(test_single),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
