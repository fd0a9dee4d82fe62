/*
 * Goal: whenever the manager of word count, sort or index over three hosts dies, at every write
 * of a small job's journal, at every other change that it makes to shared files, at random
 * points of a larger job, the next epoch's goes on and runs nothing again that its journal has:
 * all hosts live. The end is that of the job locally. How it dies exactly there: mortal.c.
 */
#include "cluster_work.h"

enum {
    SMALL_LINES = 3000,
    SMALL_RECORDS = 5000,
    LARGE_LINES = 40000,
    LARGE_RECORDS = 60000,
    CALLS_MAX = 1000,
    RANDOM_KILLS = 20
};

static char runs_path[96];

/* ---- what must not run again ---- */

/* How often vertices of a task began to write a file at a daemon. */
static int runs_of(int task)
{
    char *text = kit_read(runs_path, NULL);
    int count = 0;
    for (char *line = text; line != NULL && *line != '\0';) {
        count += strtol(line, NULL, 10) == task;
        line = strchr(line, '\n');
        line += line != NULL;
    }
    gy_free(text);
    return count;
}

/* All is committed once; what `before` has was not run again. */
static void expect_no_run_again(const remote_job *job, const kit_journal *before)
{
    static kit_journal seen;
    int checked = 0;
    remote_journals(job, &seen);
    assert_int_equal(seen.committed, jobs[job->job].tasks);
    assert_int_equal(seen.raised, 0);
    for (int i = 0; i < KIT_TASKS_MAX; i++) {
        assert_true(seen.commits[i] <= 1);
        const int runs = before->commits[i] > 0 ? runs_of(i) : 0;
        if (runs > 1) {
            fail_msg("task %d of %s was committed and ran %d times", i, jobs[job->job].verb,
                     runs);
        }
        checked += runs;
    }
    assert_true(checked <= before->committed);
}

/* ---- at every call ---- */

static void start_mortal(remote_job *job, int which, const char *how)
{
    char preload[320], runs[128], dies[64];
    (void)unlink(runs_path);
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", getenv("GYRE_TEST_PRELOAD"));
    snprintf(runs, sizeof(runs), "GYRE_TEST_RUNS=%s", runs_path);
    snprintf(dies, sizeof(dies), "GYRE_TEST_MORTAL=%s", how);
    remote_start_with(job, which,
                      (const char *const[]){"-e", preload, "-e", runs, "-e", dies, "-e",
                                            "GYRE_TEST_EPOCH=1", "-e", "ASAN_OPTIONS", NULL});
}

/* The first manager dies at that call of the kind; true: it did. */
static bool die_at(int which, char kind, int call)
{
    static kit_journal before, seen;
    char how[64];
    remote_job job;
    memset(&before, 0, sizeof(before));
    snprintf(how, sizeof(how), "%c%d", kind, call);
    start_mortal(&job, which, how);
    for (const double last = kit_now() + KIT_WAIT_SECONDS; !remote_look(&job); kit_pause()) {
        if (kit_now() > last) {
            break; /* remote_finish says so */
        }
        if (job.segments[1] >= 0 && before.committed == 0) {
            kit_journal_read(job.segments[0], &before); /* which nobody writes any more */
        }
    }
    const bool has_next = job.segments[1] >= 0;
    remote_finish(&job);
    assert_int_equal(cluster_shell(&at, said, sizeof(said), "$GYRE job list $N"), 0);
    char *id = kit_read(log_path, NULL);
    id[strcspn(id, "\n")] = '\0';
    const char *row = strstr(said, id);
    unsigned epoch = 0;
    assert_true(row != NULL && sscanf(row, "%*s %*s %*s %u", &epoch) == 1);
    gy_free(id);
    if (has_next) {
        expect_no_run_again(&job, &before);
    } else {
        remote_journals(&job, &seen); /* it was killed when it had no journal or needed none */
        assert_true(seen.raised == 0);
    }
    remote_forget(&job);
    return epoch > 1;
}

static void die_everywhere(char kind, const char *what)
{
    for (int job = 0; job <= INDEX; job++) {
        int kills = 0;
        const double begin_s = kit_now();
        while (kills < CALLS_MAX && die_at(job, kind, kills)) {
            kills++;
        }
        printf("soak: %s: the manager killed at %d %s, %.1f s\n", jobs[job].verb, kills, what,
               kit_now() - begin_s);
        assert_in_range(kills, 2, CALLS_MAX - 1);
    }
}

static void killed_at_every_write_of_the_journal(void **state)
{
    (void)state;
    if (gy_test_cases(8) < 8) {
        skip(); /* under a sanitizer each manager takes seconds to follow another */
    }
    if (getenv("GYRE_SOAK") == NULL) { /* one of the first, which every job has */
        assert_true(die_at(WORDCOUNT, 'j', 2 + (int)gy_random_below(&chance, 4)));
        return;
    }
    die_everywhere('j', "writes of the journal, before each and in its middle");
}

static void killed_at_every_change_of_its_files(void **state)
{
    (void)state;
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    die_everywhere('f', "changes of files");
}

/* ---- at random points ---- */

/* Managers are killed one after the other, each some time after it began; how many. */
static int kill_managers(int which, int most)
{
    static kit_journal seen;
    remote_job job;
    int kills = 0;
    start_mortal(&job, which, "");
    while (!remote_look(&job) && kills < most) {
        int host = 0;
        remote_journals(&job, &seen);
        const int wanted =
            seen.committed + (int)gy_random_below(&chance, (uint64_t)jobs[which].tasks);
        while (!remote_look(&job) && seen.committed < wanted &&
               seen.committed < jobs[which].tasks) {
            remote_journals(&job, &seen);
        }
        const pid_t manager = cluster_manager(&at, &host);
        if (manager > 0 && kill(manager, SIGKILL) == 0) {
            kills++;
            for (const double last = kit_now() + 20; !remote_look(&job) && kit_now() < last;) {
                const pid_t next = cluster_manager(&at, &host);
                if (next > 0 && next != manager) {
                    break;
                }
                kit_pause();
            }
        }
    }
    remote_finish(&job);
    remote_journals(&job, &seen);
    if (job.segments[kills] >= 0) { /* else the last one was killed when all was done */
        expect_no_run_again(&job, &(kit_journal){.committed = 0});
    }
    remote_forget(&job);
    return kills;
}

static void killed_at_random(void **state)
{
    (void)state;
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    for (int job = 0; job <= INDEX; job++) {
        int kills = 0;
        const double begin_s = kit_now();
        for (int i = 0; i < 3 * RANDOM_KILLS && kills < RANDOM_KILLS; i++) {
            const int left = RANDOM_KILLS - kills;
            kills += kill_managers(job, left < 4 ? left : 4);
        }
        printf("soak: %s of %d tasks: %d managers killed at random points, %.1f s\n",
               jobs[job].verb, jobs[job].tasks, kills, kit_now() - begin_s);
        assert_true(kills >= RANDOM_KILLS);
    }
}

/* ---- groups: a size each ---- */

static int begin_jobs(void **state, int lines, int record_count)
{
    assert_non_null(getenv("GYRE_TEST_PRELOAD"));
#if defined(GYRE_ASAN) /* which wants to be loaded before all else */
    char options[512];
    const char *was = getenv("ASAN_OPTIONS");
    snprintf(options, sizeof(options), "%s%sverify_asan_link_order=0", was ? was : "",
             was ? ":" : "");
    assert_int_equal(setenv("ASAN_OPTIONS", options, 1), 0);
#else
    assert_int_equal(setenv("ASAN_OPTIONS", "", 0), 0);
#endif
    const int failed = work_begin_jobs(state, lines, record_count);
    snprintf(runs_path, sizeof(runs_path), "%s/runs", kit_top);
    return failed;
}

static int begin_small(void **state)
{
    return gy_test_cases(8) < 8 ? 0 : begin_jobs(state, SMALL_LINES, SMALL_RECORDS);
}

static int end_small(void **state)
{
    return gy_test_cases(8) < 8 ? 0 : work_end_jobs(state);
}

static int begin_large(void **state)
{
    return getenv("GYRE_SOAK") == NULL ? 0 : begin_jobs(state, LARGE_LINES, LARGE_RECORDS);
}

static int end_large(void **state)
{
    return getenv("GYRE_SOAK") == NULL ? 0 : work_end_jobs(state);
}

int main(void)
{
    const struct CMUnitTest small[] = {
        cmocka_unit_test(killed_at_every_write_of_the_journal),
        cmocka_unit_test(killed_at_every_change_of_its_files),
    };
    const struct CMUnitTest large[] = {cmocka_unit_test(killed_at_random)};
    const int failed = cmocka_run_group_tests(small, begin_small, end_small);
    return failed + cmocka_run_group_tests(large, begin_large, end_large);
}
