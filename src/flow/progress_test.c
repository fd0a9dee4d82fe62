/* Bars say how far each stage is, within the columns of a terminal. */
#include "flow/progress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gy_test.h"

GY_TEST(bars_say_how_far)
{
    const gy_job_stage stages[] = {{.name = "map",
                                    .tasks = 4,
                                    .committed = 2,
                                    .running = 1,
                                    .bytes = 2048,
                                    .memoised = 1,
                                    .backups = 2},
                                   {.name = "a name that is longer than its place",
                                    .tasks = 1000000007,
                                    .committed = 1000000007,
                                    .failures = 3},
                                   {.name = "none"}};
    const gy_job_report report = {.stages = stages, .stage_count = 3};
    gy_text text = {0};
    assert_int_equal(gy_flow_progress_bars(&report, 200, &text), 3);
    assert_string_equal(
        gy_text_get(&text),
        "map              ############------...... 2/4 2.0 KiB, 1 memoised, 2 backups\n"
        "a name that is l ######################## 1000000007/1000000007 0 B, "
        "3 failed\n"
        "none             ........................ 0/0 0 B\n");
    gy_text_free(&text);
    assert_int_equal(gy_flow_progress_bars(&report, 10, &text), 3);
    assert_string_equal(gy_text_get(&text), "map       \na name tha\nnone      \n");
    gy_text_free(&text);
}

GY_TEST(of_many_stages_those_at_work_are_shown)
{
    gy_job_stage stages[30] = {0};
    for (int i = 0; i < 30; i++) {
        stages[i] = (gy_job_stage){.name = i == 20 ? "busy" : "idle",
                                   .tasks = 5,
                                   .committed = i < 20 ? 5 : 0,
                                   .running = i == 20};
    }
    const gy_job_report report = {.stages = stages, .stage_count = 30};
    gy_text text = {0};
    assert_int_equal(gy_flow_progress_bars(&report, 80, &text), 2);
    assert_non_null(strstr(gy_text_get(&text), "busy"));
    assert_null(strstr(gy_text_get(&text), "idle"));
    assert_non_null(strstr(gy_text_get(&text), "and 29 more stages\n"));
    gy_text_free(&text);
}

/* What a terminal has got since the last call. */
static const char *shown(int terminal)
{
    static char text[4096];
    const ssize_t size = read(terminal, text, sizeof(text) - 1);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

GY_TEST(bars_go_to_the_terminal_that_is_given)
{
    const gy_job_stage stage = {.name = "map", .tasks = 2, .committed = 1};
    const gy_job_report report = {.stages = &stage, .stage_count = 1};
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(terminal >= 0);
    assert_int_equal(grantpt(terminal) + unlockpt(terminal), 0);
    gy_flow_bars bars = {.file = open(ptsname(terminal), O_RDWR | O_NOCTTY)};
    assert_true(bars.file >= 0);
    const struct winsize size = {.ws_col = 12, .ws_row = 5};
    assert_int_equal(ioctl(bars.file, TIOCSWINSZ, &size), 0);
    gy_flow_bars_draw(&bars, &report);
    assert_string_equal(shown(terminal), "map        \r\n");
    assert_int_equal(bars.lines, 1);
    gy_flow_bars_draw(&bars, &report); /* over what stands there */
    assert_string_equal(shown(terminal), "\033[1A\033[Jmap        \r\n");
    close(bars.file);
    close(terminal);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bars = (gy_flow_bars){.file = ends[1]};
    gy_flow_bars_draw(&bars, &report);
    close(ends[1]);
    assert_string_equal(shown(ends[0]), "");
    close(ends[0]);
}

GY_TEST_MAIN(NULL, NULL)
