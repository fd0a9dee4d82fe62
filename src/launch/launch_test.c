/* Goal: shares of cores cover the cpuset without overlap; bad requests are refused before any
 * process starts. */
#include "launch/launch_priv.h"

#include <string.h>
#include <unistd.h>

#include "gy_test.h"

GY_TEST(shares_are_a_partition)
{
    cpu_set_t all, share, seen;
    CPU_ZERO(&all);
    for (size_t core = 3; core < 40; core += 2) {
        CPU_SET(core, &all);
    }
    int cores = CPU_COUNT(&all);
    for (int ranks = 1; ranks <= cores; ranks++) {
        CPU_ZERO(&seen);
        for (int rank = 0; rank < ranks; rank++) {
            gy_launch_share_of_cores(&all, rank, ranks, &share);
            assert_in_range(CPU_COUNT(&share), cores / ranks, (cores + ranks - 1) / ranks);
            cpu_set_t both;
            CPU_AND(&both, &seen, &share);
            assert_int_equal(CPU_COUNT(&both), 0);
            CPU_OR(&seen, &seen, &share);
        }
        assert_true(CPU_EQUAL(&seen, &all));
    }
    gy_launch_share_of_cores(&all, 3, cores + 1, &share);
    assert_true(CPU_EQUAL(&share, &all));
}

GY_TEST(lines_are_whole)
{
    int in[2], out[2];
    static char got[4 * GY_LINE_BYTES];
    static char longer[GY_LINE_BYTES + 5];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    static gy_launch_lines lines;
    lines = (gy_launch_lines){.from = in[0], .to = out[1], .rank = 12};
    assert_int_equal(write(in[1], "one\n\nbeg", 8), 8);
    memset(longer, 'x', sizeof(longer));
    assert_int_equal(write(in[1], "un\n", 3), 3);
    assert_int_equal(write(in[1], longer, sizeof(longer)), sizeof(longer));
    close(in[1]);
    gy_launch_lines_pass(&lines);
    assert_int_equal(lines.from, -1);
    close(out[1]);
    size_t size = 0;
    for (ssize_t more = 1; more > 0; size += (size_t)more) {
        more = read(out[0], got + size, sizeof(got) - 1 - size);
        assert_true(more >= 0);
    }
    close(out[0]);
    const char *start = "[12] one\n[12] \n[12] begun\n[12] xxxx";
    assert_memory_equal(got, start, strlen(start));
    assert_string_equal(got + size - 17, "xxxxx\n[12] xxxxx\n");
    assert_string_equal(lines.last, "xxxxx");
}

GY_TEST(bad_requests_are_refused)
{
    char name[] = "true", *argv[] = {name, NULL}, *none[] = {NULL};
    static const int wrong[] = {0, -1, GY_RUN_RANKS_MAX + 1};
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        gy_run_options options = {.ranks = wrong[i]};
        assert_status(gy_run(&options, argv, NULL), GY_ARG);
    }
    gy_run_report report;
    gy_run_options options = {.ranks = 1};
    assert_status(gy_run(&options, none, &report), GY_ARG);
    assert_string_equal(gy_error_text(), "no program is given");
    assert_int_equal(report.exit_status, 2);
    assert_false(report.is_started);
    options.timeout_s = -1;
    assert_status(gy_run(&options, argv, NULL), GY_ARG);
    options = (gy_run_options){.struct_size = 3};
    assert_status(gy_run(&options, argv, NULL), GY_ARG);
}

/* The lines of the log, in the process that called gy_run. */
static char log_lines[4096];
static pid_t log_process;
static void take_line(void *arg, gy_log_level level, const char *line)
{
    (void)arg;
    const size_t used = strlen(log_lines);
    assert_int_equal(level, GY_LOG_ERROR);
    assert_int_equal(getpid(), log_process);
    snprintf(log_lines + used, sizeof(log_lines) - used, "%s\n", line);
}

GY_TEST(a_launch_reports_to_its_caller)
{
    char shell[] = "sh", option[] = "-c", script[] = "exit 7", missing[] = "/nowhere/at/all";
    char *const fails[] = {shell, option, script, NULL}, *const lacks[] = {missing, NULL};
    gy_run_report report;
    log_process = getpid();
    gy_log_set_handler(take_line, NULL);
    const gy_run_options two = {.ranks = 2, .timeout_s = 60};
    assert_status(gy_run(&two, fails, &report), GY_PEER);
    assert_int_equal(report.exit_status, 7);
    assert_true(report.is_started);
    assert_non_null(strstr(report.cause, " ended with status 7"));
    assert_string_equal(gy_error_text(), report.cause);
    assert_non_null(strstr(log_lines, report.cause));
    assert_status(gy_run(&two, lacks, &report), GY_PEER);
    assert_int_equal(report.exit_status, 127);
    assert_non_null(strstr(report.cause, "cannot run /nowhere/at/all"));
    script[5] = '0';
    log_lines[0] = '\0';
    assert_ok(gy_run(&two, fails, &report));
    assert_int_equal(report.exit_status, 0);
    assert_string_equal(report.cause, "");
    assert_string_equal(log_lines, "");
    gy_log_set_handler(NULL, NULL);
}

GY_TEST_MAIN(NULL, NULL)
