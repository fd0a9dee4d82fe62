/* Goal: the features of a line equal those of a plain count over all its 3-grams. */
#include "train/language/ngrams.h"

#include "base/base.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

/* Plain: a set of buckets as flags, each 3-gram of "\2" line "\3" looked up on its own. */
static void reference(const char *text, size_t size, int width, float *row)
{
    char framed[1024];
    size = GY_MIN(size, (size_t)GY_NGRAM_LINE_BYTES);
    int length = (int)gy_print(framed, sizeof(framed), "\2%.*s\3", (int)size, text);
    int different = 0;
    for (int b = 0; b < width; b++) {
        row[b] = 0;
        for (int i = 0; i + 2 < length; i++) {
            const unsigned char *gram = (const unsigned char *)framed + i;
            if (gy_ngram_bucket(gram[0], gram[1], gram[2], width) == (uint32_t)b) {
                row[b] = 1;
            }
        }
        different += row[b] == 1 ? 1 : 0;
    }
    for (int b = 0; b < width; b++) {
        row[b] = row[b] == 1 ? 1 / sqrtf((float)different) : 0;
    }
}

GY_TEST(rows_equal_the_reference)
{
    gy_random random = {.key = gy_test_seed()};
    static float fast[4096], plain[4096];
    for (int round = 0; round < 60; round++) {
        char line[300];
        size_t size = (size_t)gy_random_below(&random, sizeof(line));
        int width = 2 << gy_random_below(&random, 11);
        for (size_t i = 0; i < size; i++) {
            line[i] = (char)(1 + gy_random_below(&random, 255));
        }
        for (int b = 0; b < width; b++) {
            fast[b] = 7; /* old contents must go */
        }
        gy_train_ngrams_row(line, size, width, fast);
        reference(line, size, width, plain);
        assert_memory_equal(fast, plain, (size_t)width * sizeof(float));
    }
}

GY_TEST(rows_have_norm_one_and_keep_their_bits)
{
    static float row[GY_NGRAM_WIDTH];
    const char *line = "static int answer(void);";
    gy_train_ngrams_row(line, strlen(line), GY_NGRAM_WIDTH, row);
    double sum = 0;
    for (int i = 0; i < GY_NGRAM_WIDTH; i++) {
        sum += (double)row[i] * (double)row[i];
    }
    assert_float_equal(sum, 1, 1e-5);
    /* A saved model depends on these: changing the hash makes old files useless. */
    assert_int_equal(gy_ngram_bucket('i', 'n', 't', 8192), 4358);
    assert_int_equal(gy_ngram_bucket(2, '#', '!', 8192), 3627);
    gy_train_ngrams_row("", 0, GY_NGRAM_WIDTH, row);
    for (int i = 0; i < GY_NGRAM_WIDTH; i++) {
        assert_true(row[i] == 0);
    }
}

GY_TEST_MAIN(NULL, NULL)
