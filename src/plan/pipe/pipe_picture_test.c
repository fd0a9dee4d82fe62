/* Drawings of lists are right to the character, cut to the width that is asked for, and refused
 * where they would be too large. */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include "gy_test.h"

static const gy_pipe_cost equal = {.forward = 1, .input = 1, .weight = 1};

static void expect(const gy_pipe_query *query, int width, const char *expected)
{
    gy_pipe_schedule *schedule = NULL;
    char *text = NULL;
    assert_ok(gy_pipe_plan(query, &schedule));
    assert_ok(gy_pipe_picture(schedule, &equal, 1, "title", width, &text));
    if (width > 0) {
        assert_string_equal(text, expected);
    } else {
        assert_non_null(strstr(text, expected));
        assert_non_null(strstr(text, "</svg>"));
    }
    gy_string_free(text);
    gy_pipe_free(schedule);
}

GY_TEST(drawings_are_right_to_the_character)
{
    expect(&(gy_pipe_query){"1f1b", 2, 2, 1}, 80,
           "rank 0   F0 F1 ......B0    ...B1    \n"
           "rank 1   ...F0 B0    F1 B1    ......\n");
    expect(&(gy_pipe_query){"zb-h1", 2, 2, 1}, 21,
           "rank 0   F0 F1 ...I0 \n"
           "rank 1   ...F0 I0 F1 \n"
           "\n"
           "rank 0   W0 I1 W1 \n"
           "rank 1   I1 W0 W1 \n");
    expect(&(gy_pipe_query){"interleaved", 1, 1, 2}, 80, "rank 0   0F0 1F0 1B0     0B0     \n");
    expect(&(gy_pipe_query){"1f1b", 2, 2, 1}, 0, ">title</text>");
    expect(&(gy_pipe_query){"1f1b", 2, 2, 1}, 0,
           "<rect x=\"96.00\" y=\"94\" width=\"24.00\" height=\"26\" fill=\"#1f6feb\"");
}

GY_TEST(drawings_that_are_too_large_are_refused)
{
    gy_pipe_schedule *schedule = NULL;
    char *text = NULL;
    assert_ok(gy_pipe_plan(&(gy_pipe_query){"1f1b", 65, 1, 1}, &schedule));
    assert_status(gy_pipe_picture(schedule, &equal, 1, "", 80, &text), GY_LIMIT);
    gy_pipe_free(schedule);
    assert_ok(gy_pipe_plan(&(gy_pipe_query){"1f1b", 2, 2, 1}, &schedule));
    assert_status(gy_pipe_picture(schedule, &(gy_pipe_cost){.forward = 1e-6, .input = 1}, 1, "",
                                  80, &text),
                  GY_LIMIT);
    assert_status(gy_pipe_picture(schedule, &(gy_pipe_cost){.forward = 0}, 1, "", 80, &text),
                  GY_ARG);
    assert_null(text);
    gy_pipe_free(schedule);
}

GY_TEST_MAIN(NULL, NULL)
