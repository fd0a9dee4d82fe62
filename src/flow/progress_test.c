/* Bars say how far each stage is, within the columns of a terminal. */
#include "flow/progress.h"

#include <string.h>

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

GY_TEST_MAIN(NULL, NULL)
