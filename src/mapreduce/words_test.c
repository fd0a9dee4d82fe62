/* Goal: words are what a plain loop finds, by every way, wherever text and words end. */
#include "base/base.h"
#include "mapreduce/words.h"

#include <string.h>

#include "gy_test.h"

enum { TEXT_MAX = 4096 };

/* One byte after the other. */
static size_t find_naively(const char *text, size_t size, uint32_t *edges)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        if (!gy_is_blank(text[i]) && (i == 0 || gy_is_blank(text[i - 1]))) {
            edges[2 * count] = (uint32_t)i;
        }
        if (!gy_is_blank(text[i]) && (i + 1 == size || gy_is_blank(text[i + 1]))) {
            edges[2 * count++ + 1] = (uint32_t)i + 1;
        }
    }
    return count;
}

static void check(const char *text, size_t size)
{
    static uint32_t expected[GY_WORDS_EDGES], found[GY_WORDS_EDGES];
    const size_t count = find_naively(text, size, expected);
    for (gy_way way = GY_WAY_PLAIN; way <= gy_way_best(); way++) {
        assert_true(gy_way_is_here(way));
        memset(found, 255, sizeof(found[0]) * (2 * count + 2));
        assert_int_equal(gy_mapreduce_words_find_by(way, text, size, found), count);
        assert_memory_equal(found, expected, sizeof(found[0]) * 2 * count);
    }
    assert_int_equal(gy_mapreduce_words_find(text, size, found), count);
}

GY_TEST(random_texts_by_every_way)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(4000); i++) {
        const size_t size = gy_random_below(&random, i % 8 == 0 ? TEXT_MAX : 200);
        char *text = gy_alloc("test", size); /* exact, for the sanitizer */
        const uint64_t whitespace = 1 + gy_random_below(&random, 12);
        for (size_t j = 0; j < size; j++) {
            static const char bytes[] = " \t\nabc\r\v\f\0\xff\x20\xa0\x1f!\n";
            text[j] = gy_random_below(&random, 12) < whitespace
                          ? bytes[gy_random_below(&random, sizeof(bytes) - 1)]
                          : (char)('a' + gy_random_below(&random, 26));
        }
        check(text, size);
        gy_free(text);
    }
}

GY_TEST(the_largest_texts)
{
    char *text = gy_alloc("test", GY_WORDS_TEXT_BYTES);
    for (size_t i = 0; i < GY_WORDS_TEXT_BYTES; i++) {
        text[i] = i % 2 == 0 ? 'x' : ' ';
    }
    check(text, GY_WORDS_TEXT_BYTES); /* as many edges as there can be */
    check(text, GY_WORDS_TEXT_BYTES - 1);
    memset(text, 'x', GY_WORDS_TEXT_BYTES);
    check(text, GY_WORDS_TEXT_BYTES);
    memset(text, '\n', GY_WORDS_TEXT_BYTES);
    check(text, GY_WORDS_TEXT_BYTES);
    gy_free(text);
}

GY_TEST_MAIN(NULL, NULL)
