/* Goal: each type reads the texts that are its own, strictly and as casts, and a value that is
 * written is read again as it was. */
#include "frame/frame.h"

#include "gy_test.h"

#include <math.h>

static gy_text_view view(const char *text)
{
    return (gy_text_view){text, strlen(text)};
}

GY_TEST(whole_numbers)
{
    static const struct {
        const char *text;
        bool is_strict, is_cast;
        int64_t value;
    } rows[] = {
        {"0", true, true, 0},
        {"-7", true, true, -7},
        {"9223372036854775807", true, true, INT64_MAX},
        {"-9223372036854775808", true, true, INT64_MIN},
        {"9223372036854775808", false, false, 0},
        {"-9223372036854775809", false, false, 0},
        {"99999999999999999999", false, false, 0},
        {"007", false, true, 7},
        {"00000000000000000000007", false, true, 7},
        {"-0", false, true, 0},
        {"+5", false, true, 5},
        {" 5\t", false, true, 5},
        {"5 5", false, false, 0},
        {"", false, false, 0},
        {"-", false, false, 0},
        {"--5", false, false, 0},
        {"1.0", false, false, 0},
        {"1e3", false, false, 0},
        {"0x10", false, false, 0},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        int64_t value = 0;
        assert_int_equal(gy_frame_read_int64(view(rows[i].text), GY_READING_STRICT, &value),
                         rows[i].is_strict);
        assert_int_equal(gy_frame_read_int64(view(rows[i].text), GY_READING_CAST, &value),
                         rows[i].is_cast);
        assert_true(!rows[i].is_cast || value == rows[i].value);
    }
}

GY_TEST(decimals)
{
    static const struct {
        const char *text;
        int precision, scale;
        bool is_strict, is_cast;
        int64_t value;
    } rows[] = {
        {"1.50", 5, 2, true, true, 150},     {"-0.05", 5, 2, true, true, -5},
        {".5", 5, 2, true, true, 50},        {"5.", 5, 2, false, true, 500},
        {"7", 5, 2, true, true, 700},        {"999.99", 5, 2, true, true, 99999},
        {"1000", 5, 2, false, false, 0},     {"1.005", 5, 2, false, true, 101},
        {"-1.005", 5, 2, false, true, -101}, {"1.0049", 5, 2, false, true, 100},
        {"999.995", 5, 2, false, false, 0},  {"01.5", 5, 2, false, true, 150},
        {"-0.00", 5, 2, false, true, 0},     {"1e2", 5, 2, false, false, 0},
        {"", 5, 2, false, false, 0},         {".", 5, 2, false, false, 0},
        {"1.2.3", 5, 2, false, false, 0},    {"NaN", 5, 2, false, false, 0},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        const gy_field field = {"x", GY_FIELD_DECIMAL, rows[i].precision, rows[i].scale};
        gy_int128 value = 0;
        const gy_text_view text = view(rows[i].text);
        assert_int_equal(gy_frame_read_decimal(text, GY_READING_STRICT, &field, &value),
                         rows[i].is_strict);
        assert_int_equal(gy_frame_read_decimal(text, GY_READING_CAST, &field, &value),
                         rows[i].is_cast);
        assert_true(!rows[i].is_cast || value == rows[i].value);
    }
    const gy_field widest = {"x", GY_FIELD_DECIMAL, 38, 0};
    gy_int128 value = 0;
    assert_true(gy_frame_read_decimal(view("99999999999999999999999999999999999999"),
                                      GY_READING_STRICT, &widest, &value));
    assert_false(gy_frame_read_decimal(view("100000000000000000000000000000000000000"),
                                       GY_READING_CAST, &widest, &value));
    assert_false(gy_frame_read_decimal(view("99999999999999999999999999999999999999.5"),
                                       GY_READING_CAST, &widest, &value));
}

GY_TEST(doubles_are_the_nearest)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = gy_test_serial_cases(20000); i > 0; i--) {
        char text[64];
        const uint64_t digits = gy_random_u64(&random) >> gy_random_below(&random, 64);
        const int power = (int)gy_random_below(&random, 60) - 30;
        if (gy_random_below(&random, 2) == 0) {
            (void)gy_print(text, sizeof(text), "%llue%d", (unsigned long long)digits, power);
        } else {
            (void)gy_print(text, sizeof(text), "-%llu.%llu", (unsigned long long)digits / 1000,
                           (unsigned long long)digits % 977);
        }
        double value = 0;
        assert_true(gy_frame_read_double(view(text), GY_READING_STRICT, &value));
        assert_true(value == strtod(text, NULL));
    }
    double value = 0;
    static const char *const none[] = {"1e999", "-1e999", "1e-999", "",    "e5",  "1e",
                                       "0x1p3", "1,5",    "nanx",   "--1", "1e5x"};
    for (size_t i = 0; i < GY_COUNT(none); i++) {
        assert_false(gy_frame_read_double(view(none[i]), GY_READING_CAST, &value));
    }
    assert_true(gy_frame_read_double(view("0e-999"), GY_READING_STRICT, &value) && value == 0);
    assert_true(gy_frame_read_double(view("NaN"), GY_READING_STRICT, &value) && isnan(value));
    assert_false(gy_frame_read_double(view("nan"), GY_READING_STRICT, &value));
    assert_true(gy_frame_read_double(view(" -inf "), GY_READING_CAST, &value) && isinf(value));
    assert_false(gy_frame_read_double(view("00.5"), GY_READING_STRICT, &value));
}

GY_TEST(times)
{
    static const struct {
        const char *text;
        bool is_strict, is_cast;
        const char *written; /* "": a date is none */
    } rows[] = {
        {"2024-02-29", true, true, "2024-02-29 00:00:00"},
        {"2023-02-29", false, false, NULL},
        {"1900-02-29", false, false, NULL},
        {"2000-02-29T23:59:59Z", true, true, "2000-02-29 23:59:59"},
        {"0001-01-01 00:00", true, true, "0001-01-01 00:00:00"},
        {"0001-01-01 00:00+01", false, false, NULL},
        {"9999-12-31 23:59:59.999999", true, true, "9999-12-31 23:59:59.999999"},
        {"9999-12-31 23:59:59-00:01", false, false, NULL},
        {"2024-03-01 00:30:00+01:00", true, true, "2024-02-29 23:30:00"},
        {"2024-03-01T00:30:00-0530", true, true, "2024-03-01 06:00:00"},
        {"2024-03-01 01:02:03.5", true, true, "2024-03-01 01:02:03.5"},
        {"2024-03-01 01:02:03.1234567", false, true, "2024-03-01 01:02:03.123457"},
        {"2024-03-01 23:59:59.9999995", false, true, "2024-03-02 00:00:00"},
        {" 2024-03-01 01:02 ", false, true, "2024-03-01 01:02:00"},
        {"2024-03-01 24:00", false, false, NULL},
        {"2024-03-01 23:60", false, false, NULL},
        {"2024-03-01 23:00:60", false, false, NULL},
        {"2024-03-01 23:00:00.", false, false, NULL},
        {"2024-03-01 23:00:00+16", false, false, NULL},
        {"2024-03-01 23:00:00+1", false, false, NULL},
        {"2024-3-1", false, false, NULL},
        {"0000-01-01", false, false, NULL},
        {"2024-13-01", false, false, NULL},
        {"2024-00-01", false, false, NULL},
        {"2024-01-00", false, false, NULL},
        {"2024-01-32", false, false, NULL},
        {"", false, false, NULL},
    };
    const gy_field field = {"x", GY_FIELD_TIMESTAMP, 0, 0};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        int64_t micros = 0;
        const gy_text_view text = view(rows[i].text);
        assert_int_equal(gy_frame_read_timestamp(text, GY_READING_STRICT, &micros),
                         rows[i].is_strict);
        assert_int_equal(gy_frame_read_timestamp(text, GY_READING_CAST, &micros),
                         rows[i].is_cast);
        if (rows[i].is_cast) {
            char out[GY_FRAME_VALUE_BYTES];
            const gy_column column = {.field = &field, .rows = 1, .values = &micros};
            (void)gy_frame_write(&column, 0, out);
            assert_string_equal(out, rows[i].written);
        }
    }
    int32_t days = 0;
    assert_true(gy_frame_read_date(view("1970-01-02"), GY_READING_STRICT, &days) && days == 1);
    assert_false(gy_frame_read_date(view("1970-01-02 00:00"), GY_READING_CAST, &days));
}

GY_TEST(days_follow_each_other)
{
    const gy_field field = {"x", GY_FIELD_DATE, 0, 0};
    int64_t step = gy_test_serial_cases(8) == 8 ? 1 : 37;
    for (int64_t day = GY_DAYS_MIN; day < GY_DAYS_END; day += step) {
        char out[GY_FRAME_VALUE_BYTES];
        int32_t stored = (int32_t)day, days = 0;
        const gy_column column = {.field = &field, .rows = 1, .values = &stored};
        (void)gy_frame_write(&column, 0, out);
        if (!gy_frame_read_date(view(out), GY_READING_STRICT, &days) || days != stored) {
            fail_msg("day %d is written as %s, read as %d", stored, out, days);
        }
    }
}

GY_TEST(words_of_truth)
{
    bool value = false;
    assert_true(gy_frame_read_bool(view("TRUE"), GY_READING_STRICT, &value) && value);
    assert_true(gy_frame_read_bool(view("false"), GY_READING_STRICT, &value) && !value);
    assert_false(gy_frame_read_bool(view("t"), GY_READING_STRICT, &value));
    assert_true(gy_frame_read_bool(view(" on "), GY_READING_CAST, &value) && value);
    assert_true(gy_frame_read_bool(view("0"), GY_READING_CAST, &value) && !value);
    assert_false(gy_frame_read_bool(view("tru"), GY_READING_CAST, &value));
    assert_false(gy_frame_read_bool(view(""), GY_READING_CAST, &value));
}

GY_TEST(numbers_are_written_as_they_are_read)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = gy_test_serial_cases(20000); i > 0; i--) {
        char out[GY_FRAME_VALUE_BYTES];
        const uint64_t bits = gy_random_u64(&random);
        double number, again = 0;
        memcpy(&number, &bits, sizeof(number));
        const gy_field fields[] = {{"d", GY_FIELD_DOUBLE, 0, 0},
                                   {"m", GY_FIELD_DECIMAL, 38, (int)(bits % 39)}};
        gy_column column = {.field = &fields[0], .rows = 1, .values = &number};
        (void)gy_frame_write(&column, 0, out);
        if (!isnan(number)) {
            assert_true(gy_frame_read_double(view(out), GY_READING_STRICT, &again));
            assert_true(memcmp(&again, &number, sizeof(again)) == 0);
        }
        gy_int128 decimal = (gy_int128)(int64_t)gy_random_u64(&random) * (INT64_C(1) << 62) >>
                            gy_random_below(&random, 126);
        gy_int128 back = 0;
        column.field = &fields[1];
        column.values = &decimal;
        (void)gy_frame_write(&column, 0, out);
        assert_true(gy_frame_read_decimal(view(out), GY_READING_STRICT, &fields[1], &back));
        assert_true(back == decimal);
    }
}

/* By the ranges of RFC 3629, byte by byte. */
static bool is_utf8_plainly(const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code = at[i];
        size_t more = code < 0x80 ? 0 : code < 0xe0 ? 1 : code < 0xf0 ? 2 : 3;
        if (code == 0 || (code >= 0x80 && code < 0xc0) || code > 0xf7 || more >= size - i) {
            return false;
        }
        code &= more == 0 ? 0x7f : 0x3fu >> more;
        for (size_t k = 1; k <= more; k++) {
            if ((at[i + k] & 0xc0) != 0x80) {
                return false;
            }
            code = code << 6 | (at[i + k] & 0x3f);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
            return false;
        }
        i += more + 1;
    }
    return true;
}

GY_TEST(utf8_is_told_from_other_bytes)
{
    gy_random random = {.key = gy_test_seed()};
    static const unsigned char bytes[] = {'a',  'b',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
                                          0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef,
                                          0xf0, 0xf1, 0xf4, 0xf5, 0xff, 0};
    long good = 0;
    for (long i = gy_test_serial_cases(200000); i > 0; i--) {
        unsigned char text[24];
        const size_t prefix = gy_random_below(&random, 12),
                     size = prefix + gy_random_below(&random, 5);
        memset(text, 'x', sizeof(text));
        for (size_t k = prefix; k < size; k++) {
            text[k] = bytes[gy_random_below(&random, sizeof(bytes))];
        }
        size_t wrong = 0;
        const bool is = gy_frame_is_utf8((const char *)text, size, &wrong);
        assert_int_equal(is, is_utf8_plainly(text, size));
        assert_true(is || (wrong < size && is_utf8_plainly(text, wrong)));
        good += is;
    }
    assert_true(good > 0);
}

GY_TEST_MAIN(NULL, NULL)
