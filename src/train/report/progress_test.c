/* Goal: a progress line fits its terminal at any width, a bar that is no terminal writes plain
 * lines, an epoch's end always shows. */
#include "train/report/progress.h"

#include "base/base.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

GY_TEST(lines_fit_any_width)
{
    const gy_progress cases[] = {
        {.epoch = 0, .step = 0, .steps = 0, .loss = NAN},
        {.epoch = 2, .step = 50, .steps = 100, .loss = 0.5, .samples_per_s = 81234},
        {.epoch = 999, .step = 100, .steps = 100, .loss = 1e30, .samples_per_s = 1e12},
        {.epoch = 1, .step = 200, .steps = 100, .loss = -1, .samples_per_s = INFINITY},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        for (int columns = 0; columns < 300; columns++) {
            char line[GY_PROGRESS_BYTES];
            gy_train_progress_line(line, &cases[i], 12.5, columns);
            assert_true(strlen(line) <= (size_t)columns);
            assert_null(strchr(line, '\n'));
        }
    }
}

GY_TEST(a_line_says_where_the_training_is)
{
    gy_progress half = {
        .epoch = 1, .step = 50, .steps = 100, .loss = 0.25, .samples_per_s = 8000};
    char line[GY_PROGRESS_BYTES];
    gy_train_progress_line(line, &half, 65, 100);
    assert_non_null(strstr(line, "epoch 2  50%"));
    assert_non_null(strstr(line, "loss 0.2500"));
    assert_non_null(strstr(line, "8000 samples/s"));
    assert_non_null(strstr(line, "1:05 to go"));
    assert_non_null(strstr(line, "=>"));
}

GY_TEST(a_pipe_gets_plain_lines)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    gy_progress_bar *bar = NULL;
    assert_ok(gy_progress_bar_new(ends[1], &bar));
    assert_non_null(bar);
    gy_progress now = {.step = 1, .steps = 2, .loss = 0.5};
    gy_progress_bar_show(bar, &now); /* too soon for a line */
    now.is_epoch_end = true;
    now.test_loss = 0.75;
    now.test_accuracy = 0.5;
    gy_progress_bar_show(bar, &now);
    gy_progress_bar_free(bar);
    close(ends[1]);
    char text[512];
    ssize_t size = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    assert_true(size > 0);
    text[size] = '\0';
    assert_string_equal(text,
                        "epoch 1: loss 0.5000, test loss 0.7500, test accuracy 50.00 %\n");
}

/* A float64 loss of 300 digits before it turns infinite. */
GY_TEST(a_huge_loss_is_cut_to_the_line)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    gy_progress_bar *bar = NULL;
    assert_ok(gy_progress_bar_new(ends[1], &bar));
    assert_non_null(bar);
    gy_progress_bar_show(
        bar, &(gy_progress){.loss = 1e300, .test_loss = 1e300, .is_epoch_end = true});
    gy_progress_bar_free(bar);
    close(ends[1]);
    char text[2 * GY_PROGRESS_BYTES];
    ssize_t size = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    assert_int_equal(size, GY_PROGRESS_BYTES); /* a newline, too */
    text[size] = '\0';
    assert_memory_equal(text, "epoch 1: loss 10000", 19);
    assert_int_equal(strchr(text, '\n') - text, size - 1);
}

GY_TEST_MAIN(NULL, NULL)
