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
        assert_int_equal(gy_run(&options, argv), 2);
    }
    gy_run_options options = {.ranks = 1};
    assert_int_equal(gy_run(&options, none), 2);
    options.timeout_s = -1;
    assert_int_equal(gy_run(&options, argv), 2);
}

GY_TEST_MAIN(NULL, NULL)
