/*
 * Goal: ten queries of TPC-H, unmodified, have the answers that DuckDB has, and the same bytes
 * as jobs. Data, texts and answers come from DuckDB's extension when the test runs; GYRE_DUCKDB
 * names a python that has it.
 */
#include "command_kit.h"

#include "gy_test.h"

static const char *const queries[] = {"1", "3", "4", "6", "9", "12", "13", "14", "16", "18"};

static const char *python(void)
{
    const char *named = getenv("GYRE_DUCKDB");
    return named != NULL ? named : "python3";
}

/* Whether there is a DuckDB with the extension; says why not. */
static bool has_tpch(void)
{
    char line[1024];
    snprintf(line, sizeof(line),
             "%s -c 'import duckdb; duckdb.connect().execute(\"load tpch\")'", python());
    if (shell(line) == 0) {
        return true;
    }
    printf(
        "skipped: %s has no DuckDB with tpch built in (pip install duckdb==1.1.3; GYRE_DUCKDB "
        "names a python that has it)\n",
        python());
    return false;
}

static void check_at(const char *scale)
{
    char line[2048];
    snprintf(line, sizeof(line),
             "mkdir -p data && %s " GYRE_SOURCE
             "/tests/system/tpch.py make data %s 1 3 4 6 9 12 13 "
             "14 16 18",
             python(), scale);
    if (shell(line) != 0) {
        fail_msg("%s: %s", line, output);
    }
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        snprintf(
            line, sizeof(line),
            "export XDG_STATE_HOME=$PWD/state; gyre query --tables data -f data/%s.sql -w 2 "
            "-o answer.csv && %s " GYRE_SOURCE
            "/tests/system/tpch.py same data/%s.expected answer.csv && gyre query --tables "
            "data -f data/%s.sql -p 2 --split 256KiB -o job.csv && cmp answer.csv job.csv",
            queries[i], python(), queries[i], queries[i]);
        if (shell(line) != 0) {
            fail_msg("query %s at scale %s: %s", queries[i], scale, output);
        }
    }
}

GY_TEST(ten_queries_have_duckdbs_answers)
{
    if (has_tpch()) {
        check_at("0.01");
    }
}

GY_TEST(and_at_a_larger_scale)
{
    if (getenv("GYRE_SOAK") == NULL) {
        printf("skipped: scale 0.1 is for the soak\n");
    } else if (has_tpch()) {
        check_at("0.1");
    }
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
