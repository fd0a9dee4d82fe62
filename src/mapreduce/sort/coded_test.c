/* Goal: codes of keys order as numbers, fields and downward orders say; parts by them, one
 * after the other, are a plain stable sort. */
#include "mapreduce/sort/told.h"

#include "base/base.h"

#include "gy_test.h"

typedef gy_sort_coded_key coded;

static coded code(const gy_sort_coding *coding, const char *line, size_t size)
{
    static const gy_sort_layout layout = {.kind = GY_LAYOUT_LINES};
    const gy_sort_item item = {
        .data = line, .key = line, .size_bytes = size, .key_bytes = size};
    coded out = {0};
    assert_int_equal(gy_sort_code(&layout, coding, &item, &out), GY_OK);
    return out;
}

static int compare(const gy_sort_coding *coding, const char *a, const char *b)
{
    coded x = code(coding, a, strlen(a)), y = code(coding, b, strlen(b));
    const int order = gy_sort_bytes_compare(x.bytes, x.size, y.bytes, y.size);
    gy_free(x.bytes);
    gy_free(y.bytes);
    return (order > 0) - (order < 0);
}

GY_TEST(numbers_order_as_numbers)
{
    /* Each line of the list is below the next one; what stands in one line is equal. */
    static const char *const rising[][4] = {
        {"-123456789012345678901234567890", "-123456789012345678901234567890.0"},
        {"-1000"},
        {"-12.50", "  -12.5", "-0012.5x"},
        {"-12.05"},
        {"-12", "-12.", "-12.0", "-12 13"},
        {"-0.5", "-.5"},
        {"-0.05"},
        {"0", "", "-0", "word"},
        {"0.000", "+5", "-", "."},
        {".05", "0.05"},
        {".5"},
        {"1", "01", "1.000", "\t1e5"},
        {"1.0001"},
        {"9"},
        {"10"},
        {"99999999999999999999"},
        {"100000000000000000000"},
        {"100000000000000000000.5"},
    };
    const gy_sort_coding up = {.is_on = true, .is_number = true};
    const gy_sort_coding down = {.is_on = true, .is_number = true, .is_descending = true};
    for (size_t i = 0; i < GY_COUNT(rising); i++) {
        for (size_t k = 1; k < 4 && rising[i][k] != NULL; k++) {
            assert_int_equal(compare(&up, rising[i][0], rising[i][k]), 0);
            assert_int_equal(compare(&down, rising[i][0], rising[i][k]), 0);
        }
        for (size_t j = i + 1; j < GY_COUNT(rising); j++) {
            const int wanted = i == 7 && j == 8 ? 0 : -1; /* two lines of zeros */
            assert_int_equal(compare(&up, rising[i][0], rising[j][0]), wanted);
            assert_int_equal(compare(&down, rising[i][0], rising[j][0]), -wanted);
        }
    }
    char long_one[400], longer[400];
    memset(long_one, '7', sizeof(long_one));
    memset(longer, '7', sizeof(longer));
    long_one[254] = '\0'; /* one less than what a byte counts, and as many and more */
    for (int digits = 255; digits < 258; digits++) {
        longer[digits] = '\0';
        assert_int_equal(compare(&up, long_one, longer), -1);
        assert_int_equal(compare(&down, long_one, longer), 1);
        longer[digits] = '7';
    }
}

GY_TEST(downward_turns_the_order_of_bytes)
{
    gy_random random = {gy_test_seed(), 0};
    const gy_sort_coding down = {.is_on = true, .is_descending = true};
    for (long round = 0; round < gy_test_cases(20000); round++) {
        char text[2][8];
        size_t size[2];
        for (int i = 0; i < 2; i++) {
            size[i] = gy_random_below(&random, 8);
            for (size_t k = 0; k < size[i]; k++) { /* ends of the order often */
                text[i][k] = "\0\0\001\377\376a"[gy_random_below(&random, 6)];
            }
        }
        coded x = code(&down, text[0], size[0]), y = code(&down, text[1], size[1]);
        const int turned = gy_sort_bytes_compare(x.bytes, x.size, y.bytes, y.size);
        const int plain = gy_sort_bytes_compare(text[0], size[0], text[1], size[1]);
        assert_int_equal((turned > 0) - (turned < 0), (plain < 0) - (plain > 0));
        gy_free(x.bytes);
        gy_free(y.bytes);
    }
}

GY_TEST(fields_are_keys)
{
    static const struct {
        const char *line, *field;
        int number;
        char separator;
    } cases[] = {
        {"a b c", "b", 2, 0},       {"  a \t b  ", "b", 2, 0},
        {"a b", "", 3, 0},          {"", "", 1, 0},
        {"a,,c", "", 2, ','},       {"a,,c", "c", 3, ','},
        {"a b,c d", "c d", 2, ','}, {"a,b,", "", 3, ','},
        {"a", "a", 1, ','},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const gy_sort_coding by = {
            .is_on = true, .field = cases[i].number, .separator = cases[i].separator};
        coded out = code(&by, cases[i].line, strlen(cases[i].line));
        assert_int_equal(out.size, strlen(cases[i].field));
        assert_memory_equal(out.bytes, cases[i].field, out.size);
        gy_free(out.bytes);
    }
}

GY_TEST_MAIN(NULL, NULL)
