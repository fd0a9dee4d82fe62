/* Goal: names come out on one line, as UTF-8, and no two alike; strings of JSON are JSON. */
#include "base/escape.h"

#include <string.h>

#include "gy_test.h"

static void expect(void (*add)(gy_text *text, const char *value), const char *value,
                   const char *expected)
{
    gy_text text = {0};
    add(&text, value);
    assert_int_equal(text.status, GY_OK);
    assert_string_equal(gy_text_get(&text), expected);
    gy_text_free(&text);
}

GY_TEST(names_stay_on_their_lines)
{
    expect(gy_text_add_name, "", "");
    expect(gy_text_add_name, "a b/c.txt", "a b/c.txt");
    expect(gy_text_add_name, "a\nb\tc\rd", "a\\nb\\tc\\rd");
    expect(gy_text_add_name, "a\\nb", "a\\\\nb"); /* another name than the one before */
    expect(gy_text_add_name, "\x1b[2J\x7f\x01", "\\x1b[2J\\x7f\\x01");
    expect(gy_text_add_name, "n\xc3\xa4h\xe2\x82\xac\xf0\x9f\x98\x80", "näh€😀");
    expect(gy_text_add_name, "\xe4.txt\xff", "\\xe4.txt\\xff");
    expect(gy_text_add_name, "\xc3", "\\xc3"); /* cut */
    expect(gy_text_add_name, "\xc2\x85\xe2\x80\xa8", "\\xc2\\x85\\xe2\\x80\\xa8");
    expect(gy_text_add_name, "\xed\xa0\x80\xc0\xaf\xf5\x80",
           "\\xed\\xa0\\x80\\xc0\\xaf\\xf5\\x80");
}

GY_TEST(strings_are_json)
{
    expect(gy_text_add_json, "a\"b\\c\nd\x01", "\"a\\\"b\\\\c\\u000ad\\u0001\"");
    expect(gy_text_add_json, "n\xc3\xa4h\xff", "\"näh\\\\xff\"");
}

GY_TEST_MAIN(NULL, NULL)
