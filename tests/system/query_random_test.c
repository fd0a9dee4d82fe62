/*
 * Goal: random queries over random tables have PostgreSQL 15's answers, and the same bytes with
 * 1, 2 and 4 workers, within little memory and as jobs.
 */
#include "command_kit.h"

#include "gy_test.h"

GY_TEST(random_queries_have_postgresqls_answers)
{
    enum { NONE = 77 }; /* the script's: there is no PostgreSQL */
    char line[1024];
    const char *binary = getenv("GYRE_BIN");
    snprintf(line, sizeof(line),
             "python3 " GYRE_SOURCE "/tests/system/random_wide.py %s $PWD %llu %ld",
             binary != NULL ? binary : "build/dev/gyre", (unsigned long long)gy_test_seed(),
             gy_test_cases(8));
    const int status = shell(line);
    printf("%s", output);
    if (status != 0 && status != NONE) {
        fail_msg("'%s' ended with %d", line, status);
    }
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
