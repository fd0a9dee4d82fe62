/* Goal: every way finds the fields that a plain walk over the bytes finds. */
#include "mapreduce/fields.h"

#include "base/base.h"

#include "gy_test.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t find_slowly(const char *text, size_t size, unsigned number, uint32_t *edges,
                          size_t *lines)
{
    size_t count = 0;
    *lines = 0;
    for (size_t line = 0; line < size;) {
        unsigned fields = 0;
        size_t at = line;
        for (; at < size && text[at] != '\n'; at++) {
            fields += !is_blank(text[at]) && (at == line || is_blank(text[at - 1]));
            if (fields == number && !is_blank(text[at])) {
                if (at == line || is_blank(text[at - 1])) {
                    edges[2 * count++] = (uint32_t)at;
                }
                edges[2 * count - 1] = (uint32_t)at + 1;
            }
        }
        line = at + 1;
        ++*lines;
    }
    return count;
}

static void check(const char *text, size_t size, unsigned number)
{
    uint32_t *expected = gy_alloc("test", sizeof(*expected) * GY_FIELDS_EDGES);
    uint32_t *found = gy_alloc("test", sizeof(*found) * GY_FIELDS_EDGES);
    char *exact = gy_alloc("test", size); /* a byte read beyond it is found by the sanitizer */
    assert_true(expected != NULL && found != NULL && exact != NULL);
    memcpy(exact, text, size);
    size_t all = 0, lines = 0;
    const size_t count = find_slowly(exact, size, number, expected, &all);
    for (gy_way way = GY_WAY_PLAIN; way <= gy_way_best(); way++) {
        assert_true(gy_way_is_here(way));
        assert_int_equal(gy_mapreduce_fields_find_by(way, exact, size, number, found, &lines),
                         count);
        assert_memory_equal(found, expected, 2 * count * sizeof(*found));
        assert_int_equal(lines, all);
    }
    assert_int_equal(gy_mapreduce_fields_find(exact, size, number, found, &lines), count);
    gy_free(expected);
    gy_free(found);
    gy_free(exact);
}

GY_TEST(lines_of_a_log)
{
    const char *text =
        "1.2.3.4 - - [01/Oct/2025:00:00:00 +0000] \"GET /a/b.html HTTP/1.1\" 200 1\n"
        "short line\n\n   \n"
        "5.6.7.8 - -  [01/Oct/2025:00:00:00\t+0000] \"GET /c HTTP/1.1\" 200 1";
    uint32_t edges[20];
    size_t lines = 0;
    for (gy_way way = GY_WAY_PLAIN; way <= gy_way_best(); way++) {
        assert_true(gy_way_is_here(way));
        assert_int_equal(gy_mapreduce_fields_find_by(way, text, strlen(text), 7, edges, &lines),
                         2);
        assert_int_equal(lines, 5);
        assert_int_equal(edges[1] - edges[0], 9);
        assert_memory_equal(text + edges[0], "/a/b.html", 9);
        assert_int_equal(edges[3] - edges[2], 2);
        assert_memory_equal(text + edges[2], "/c", 2);
    }
}

GY_TEST(random_texts)
{
    gy_random random = {gy_test_seed(), 0};
    static char text[4000];
    for (long round = 0; round < gy_test_cases(2000); round++) {
        const size_t size = gy_random_below(&random, round % 50 == 0 ? sizeof(text) : 300);
        const char *bytes = round % 3 == 0   ? "a \n"
                            : round % 3 == 1 ? "abcdef gh\t\n"
                                             : "ab cdefghijklmno\r\np";
        for (size_t i = 0; i < size; i++) {
            text[i] = bytes[gy_random_below(&random, strlen(bytes))];
        }
        check(text, size, 1 + (unsigned)gy_random_below(&random, 12));
    }
}

GY_TEST(whole_texts)
{
    char *text = gy_alloc("test", GY_FIELDS_TEXT_BYTES);
    assert_non_null(text);
    memset(text, 'a', GY_FIELDS_TEXT_BYTES);
    check(text, GY_FIELDS_TEXT_BYTES, 1);
    check(text, GY_FIELDS_TEXT_BYTES, 2);
    for (size_t i = 1; i < GY_FIELDS_TEXT_BYTES; i += 2) {
        text[i] = '\n'; /* as many edges as there can be */
    }
    check(text, GY_FIELDS_TEXT_BYTES, 1);
    gy_free(text);
}

GY_TEST_MAIN(NULL, NULL)
