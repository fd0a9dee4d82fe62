/*
 * Goal: what bad_records_test.c and flow_faults_test.c demand of jobs at home holds over three
 * hosts: these programs are submitted, and their own assertions say so. Ten bad records of each
 * kind are skipped, and no others; what is lost three stages up, or above an indeterminate
 * vertex, runs again, exactly that.
 */
#include "cluster_work.h"

/* The program at `variable` is a job, of its tests the one `only`; what it said. */
static char *submit(const char *variable, const char *only, const char *more)
{
    char line[1024], path[160];
    const char *program = getenv(variable);
    assert_non_null(program);
    (void)unlink(cluster_path(path, "said"));
    snprintf(
        line, sizeof(line),
        "$GYRE job submit $N --timeout 100 %s -e GYRE_TEST_ONLY=%s -e GYRE_TEST_SAID=%s -- "
        "%s",
        more, only, path, program);
    const int status = cluster_shell(&at, said, sizeof(said), line);
    char *text = kit_read(path, NULL);
    if (status != 0 || text == NULL || strstr(text, "[  PASSED  ] 1 test(s)") == NULL) {
        printf("%s\n%s\n", said, text != NULL ? text : "it said nothing");
        (void)cluster_shell(&at, said, sizeof(said), "tail -n 20 names.log d?.log");
        fail_msg("%s ended with %d: %s", only, status, said);
    }
    work_calm();
    return text;
}

static void bad_records_are_skipped(void **state)
{
    (void)state;
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
    const double begin_s = kit_now();
    gy_free(submit("GYRE_TEST_BAD_RECORDS", "ten_of_each_kind_are_skipped",
                   is_soak ? "-e GYRE_TEST_EACH=10" : "-e GYRE_TEST_EACH=1"));
    printf("soak: %d bad records of each kind over three hosts: %.1f s\n", is_soak ? 10 : 1,
           kit_now() - begin_s);
    if (is_soak) {
        gy_free(submit("GYRE_TEST_BAD_RECORDS", "the_same_without_datagrams",
                       "-e GYRE_TEST_EACH=10"));
        gy_free(submit("GYRE_TEST_BAD_RECORDS", "one_too_many_ends_the_job", ""));
    }
}

/* All copies of a file: its own, and what other daemons fetched. */
static const char *data_pattern(char out[256], const char *slots)
{
    snprintf(out, 256, "%s -e 'GYRE_TEST_DATA=%s/d?/jobs/*/{data,fetched}/*'", slots, kit_top);
    return out;
}

static void what_is_lost_runs_again_and_nothing_else(void **state)
{
    (void)state;
    char more[256];
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
#if defined(GYRE_ASAN) || defined(GYRE_TSAN) /* another program of a hundred megabytes */
    if (!is_soak) {
        skip();
    }
#endif
    for (int i = 0; i < (is_soak ? 10 : 1); i++) {
        gy_free(submit("GYRE_TEST_FLOW_FAULTS", "a_bit_turned_three_stages_up",
                       data_pattern(more, "")));
        gy_free(submit("GYRE_TEST_FLOW_FAULTS", "readers_of_what_was_drawn_run_again",
                       data_pattern(more, "--slots 3")));
    }
}

static int begin(void **state)
{
    if (kit_begin(state) != 0) {
        return 1;
    }
    work_open((const char *const[]){"2", "3", "3"});
    return 0;
}

static int end(void **state)
{
    work_close();
    return kit_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_records_are_skipped),
        cmocka_unit_test(what_is_lost_runs_again_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
