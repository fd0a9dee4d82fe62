/*
 * Goal: what bad_records_test.c and flow_faults_test.c demand of jobs locally holds over three
 * hosts: these programs are submitted, and their own assertions say so. Ten bad records of each
 * kind are skipped, and no others; what is lost three stages up, or above an indeterminate
 * vertex, runs again, exactly that; a slow host costs little.
 */
#include "cluster_work.h"

/* The program at `variable` is a job, of its tests the one `only`; what it said. */
static char *submit(const char *variable, const char *only, const char *more)
{
    char line[1024], path[160];
    const char *program = getenv(variable);
    assert_non_null(program);
    (void)unlink(cluster_path(path, "said"));
    snprintf(line, sizeof(line),
             "$GYRE job submit $N --wait-timeout 100 %s -e GYRE_TEST_ONLY=%s -e "
             "GYRE_TEST_SAID=%s -- "
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

GY_TEST(bad_records_are_skipped)
{
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

GY_TEST(what_is_lost_runs_again_and_nothing_else)
{
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
                       data_pattern(more, "--slots-max 3")));
    }
}

/* What the program said of its job. */
typedef struct pieces {
    double seconds;
    int copies, won, cancelled;
} pieces;

/* pace: milliseconds of a piece, how much slower the slow host is, and before which age in
 * milliseconds nothing is copied. slow: the option that says which host is, or "". */
static pieces run_pieces(const char *pace, const char *slow)
{
    char more[256];
    pieces out = {0};
    snprintf(more, sizeof(more), "%s -e GYRE_TEST_PACE=%s", slow, pace);
    char *text = submit("GYRE_TEST_FLOW_FAULTS", "pieces_over_hosts", more);
    const char *line = strstr(text, "soak: ");
    assert_non_null(line);
    line = strstr(line, slow[0] != '\0' ? "a slow host: " : "healthy: ");
    assert_non_null(line);
    assert_int_equal(sscanf(strchr(line, ':'), ": %lf s, %d copies, %d won, %d cancelled",
                            &out.seconds, &out.copies, &out.won, &out.cancelled),
                     4);
    gy_free(text);
    return out;
}

/* A quarter of the slots are at a host that takes ten times as long, as locally one of four
 * workers does; copies elsewhere make it at most half as long again. */
GY_TEST(a_slow_host_costs_little)
{
    char slow[160];
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    const pieces healthy = run_pieces("2000,10,1000", "");
    snprintf(slow, sizeof(slow), "-e GYRE_TEST_SLOW=%s/d0/", kit_top);
    const pieces disturbed = run_pieces("2000,10,1000", slow);
    printf("soak: a host at a tenth, 2 of 8 slots: %.2f s, healthy %.2f s: %.2f times, %d "
           "copies, %d won\n",
           disturbed.seconds, healthy.seconds, disturbed.seconds / healthy.seconds,
           disturbed.copies, disturbed.won);
    assert_int_equal(healthy.copies, 0);
    assert_true(disturbed.won >= 1 && disturbed.cancelled >= 1);
    assert_true(disturbed.seconds <= 1.5 * healthy.seconds);
}

/* All slots but those of the slow host have been released when its pieces are late: they are
 * rented again, for copies. Both may win in the same moment, and the job ends before a loser
 * can say that it was told. */
GY_TEST(slots_are_rented_again_for_copies)
{
    char slow[160];
    bool is_right = false;
#if defined(GYRE_ASAN) || defined(GYRE_TSAN) /* as above */
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
#endif
    snprintf(slow, sizeof(slow), "-e GYRE_TEST_SLOW=%s/d0/", kit_top);
    for (int i = 0; i < 3 && !is_right; i++) { /* a piece there takes 3 s */
        const pieces disturbed = run_pieces("30,100,1600", slow);
        printf("soak: copies after 1.6 s: %.2f s, %d copies, %d won\n", disturbed.seconds,
               disturbed.copies, disturbed.won);
        is_right = disturbed.won >= 1 && disturbed.seconds < 2.9;
    }
    assert_true(is_right);
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

GY_TEST_MAIN(begin, end)
