/* Variables take the place of options, and wrong ones are named. */
#include "base/base.h"
#include "base/fail.h"

#include <gyre/flow.h>

#include <string.h>

#include "gy_test.h"

GY_TEST(variables_take_the_place_of_options)
{
    static const char *const values[][2] = {
        {"GYRE_JOB_PROCESSES", "3"},       {"GYRE_JOB_THREADS", "2"},
        {"GYRE_JOB_MEMORY", "1073741824"}, {"GYRE_JOB_TIMEOUT", "1.5"},
        {"GYRE_JOB_FOLDER", "/f"},         {"GYRE_JOB_MEMO", "/m"},
        {"GYRE_JOB_TRACE", "/t"},          {"GYRE_JOB_HEARTBEAT_TIMEOUT", "0.25"},
        {"GYRE_JOB_SANDBOX", "strict"},    {"GYRE_JOB_MEMO_BYTES", "4096"}};
    gy_flow_options options = {.processes = 9, .folder = "/own", .failures_max = 4};
    assert_int_equal(gy_flow_options_override(&options), GY_OK);
    assert_int_equal(options.processes, 9);
    assert_string_equal(options.folder, "/own");
    assert_null(options.progress); /* who wants bars asks for them */
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        assert_int_equal(setenv(values[i][0], values[i][1], 1), 0);
    }
    assert_int_equal(gy_flow_options_override(&options), GY_OK);
    assert_int_equal(options.processes, 3);
    assert_int_equal(options.threads, 2);
    assert_int_equal(options.memory_bytes, 1 << 30);
    assert_true(options.timeout_s == 1.5);
    assert_true(options.heartbeat_timeout_s == 0.25);
    assert_string_equal(options.folder, "/f");
    assert_string_equal(options.memo, "/m");
    assert_int_equal(options.memo_bytes_max, 4096);
    assert_string_equal(options.trace, "/t");
    assert_string_equal(options.sandbox, "strict");
    assert_int_equal(options.failures_max, 4);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        assert_int_equal(unsetenv(values[i][0]), 0);
    }
}

GY_TEST(wrong_values_are_named)
{
    static const char *const wrong[][2] = {{"GYRE_JOB_PROCESSES", "0"},
                                           {"GYRE_JOB_PROCESSES", "5000"},
                                           {"GYRE_JOB_THREADS", "two"},
                                           {"GYRE_JOB_MEMORY", "1GiB"},
                                           {"GYRE_JOB_MEMORY", "8388607"},
                                           {"GYRE_JOB_TIMEOUT", "-1"},
                                           {"GYRE_JOB_TIMEOUT", "inf"},
                                           {"GYRE_JOB_TIMEOUT", " 1"},
                                           {"GYRE_JOB_HEARTBEAT_TIMEOUT", "0"},
                                           {"GYRE_JOB_MEMO_BYTES", "0"},
                                           {"GYRE_JOB_MEMO_BYTES", "10G"},
                                           {"GYRE_JOB_HEARTBEAT_TIMEOUT", "soon"},
                                           {"GYRE_JOB_QUOTA", "1GiB"},
                                           {"GYRE_JOB_QUOTA", "-1"},
                                           {"GYRE_JOB_PROCESSES", "99999999999999999999"}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        gy_flow_options options = {0};
        assert_int_equal(setenv(wrong[i][0], wrong[i][1], 1), 0);
        assert_int_equal(gy_flow_options_override(&options), GY_ARG);
        assert_non_null(strstr(gy_error_text(), wrong[i][0]));
        assert_non_null(strstr(gy_error_text(), wrong[i][1]));
        assert_int_equal(unsetenv(wrong[i][0]), 0);
    }
}

GY_TEST_MAIN(NULL, NULL)
