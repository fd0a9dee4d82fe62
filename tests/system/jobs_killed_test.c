/*
 * Goal: whenever the manager of word count, sort or index dies, at every write of a small job's
 * journal, at every other change that it makes to its files, at random points of a large job,
 * another one goes on without running anything twice, and the end is that of an undisturbed
 * job. How it is made to die exactly there: mortal.c.
 */
#include "jobs_work.h"

enum {
    LARGE_LINES = 40000,
    LARGE_RECORDS = 60000,
    SOAK = 20, /* times as large, and as many tasks */
    SMALL_LINES = 3000,
    SMALL_RECORDS = 5000,
    CALLS_MAX = 1000
};

/* ---- what each killed job must show in the end ---- */

/* The one that goes on ran what was left and nothing else; each task was committed once. */
static void expect_no_run_again(const running *at, const work *job, int before, int kills)
{
    static kit_journal seen;
    const int spans = count_spans(), left = job->tasks - before;
    if (spans != left) {
        fail_msg("%s: after %d managers that were killed %d tasks ran, %d were left", job->verb,
                 kills, spans, left);
    }
    kit_journal_read(at->journal, &seen);
    assert_int_equal(seen.committed, job->tasks);
    assert_int_equal(seen.raised, 0);
    assert_in_range(seen.managers, 1, kills + 1); /* some were killed before they said so */
    for (int i = 0; i < KIT_TASKS_MAX; i++) {
        assert_true(seen.commits[i] <= 1);
    }
}

static bool is_there(const char *top, const char *name)
{
    char path[192];
    snprintf(path, sizeof(path), "%s/%s", top, name);
    return access(path, F_OK) == 0;
}

/* A job whose manager was killed when all was done: nothing is left to go on with. */
static bool is_over(void)
{
    return !is_there(folder, "journal");
}

/* Its killed manager had done all: what it had to print is in the history. */
static void expect_over(const work *job)
{
    kit_folder_is_clean(folder);
    assert_true(kit_output_hash(output, PARTS) == job->hash);
    assert_true(history_says("done"));
}

/* ---- at every call ---- */

/* The manager dies at that call of the kind; the next goes on. True: it died. */
static bool die_at(int job, char kind, int call)
{
    static kit_journal seen;
    char how[64];
    snprintf(how, sizeof(how), "%c%d", kind, call);
    mortal = how;
    running at = start(job);
    mortal = "";
    for (const double last = kit_now() + KIT_WAIT_SECONDS; !look(&at); kit_pause()) {
        assert_true(kit_now() < last);
    }
    const bool was_killed = WIFSIGNALED(at.status) && WTERMSIG(at.status) == SIGKILL;
    kit_alone();
    if (was_killed && is_over()) {
        if (is_there(output, "MANIFEST.json")) { /* else it had not begun */
            expect_over(&jobs[job]);
        }
    } else if (was_killed) {
        (void)look(&at); /* opens a journal that it may not have seen */
        kit_journal_read(at.journal, &seen);
        resume(&at);
        finish(&at);
        check_same(&jobs[job]);
        expect_no_run_again(&at, &jobs[job], seen.committed, 1);
    } else {
        finish(&at);
        check_same(&jobs[job]);
    }
    if (at.journal >= 0) {
        close(at.journal);
    }
    return was_killed;
}

/* With a sanitizer, where each start is slow, of one job. */
static void die_everywhere(char kind, const char *what, int step, int only)
{
    const bool is_slow = gy_test_cases(8) < 8;
    for (int job = is_slow ? only : 0; job < (is_slow ? only + 1 : JOBS); job++) {
        int kills = 0;
        for (int call = 0; call < CALLS_MAX && die_at(job, kind, call); call += step) {
            kills++;
        }
        printf("soak: %s: the manager killed at %d %s\n", jobs[job].verb, kills, what);
        assert_in_range(kills, 2, CALLS_MAX / step - 1);
    }
}

static void killed_at_every_write_of_the_journal(void **state)
{
    (void)state;
    die_everywhere('j', "writes of the journal, before each and in its middle",
                   gy_test_cases(8) < 8 ? 6 : 1, WORDCOUNT);
}

/* Syncs, links, names that come and go: up to the last file of a job that is done. */
static void killed_at_every_change_of_its_files(void **state)
{
    (void)state;
    die_everywhere('f', "changes of files",
                   gy_test_cases(8) > 8   ? 1
                   : gy_test_cases(8) < 8 ? 24
                                          : 12,
                   INDEX);
}

/* ---- at random points ---- */

/* Managers are killed one after the other; the last one's trace has only what was left. */
static int kill_managers(int job, int most)
{
    static kit_journal seen;
    int kills = 0;
    running at = start(job);
    double share = 0;
    while (kills < most) {
        share += (1 - share) * (double)gy_random_below(&chance, 1000) / 1500;
        if (!reach(&at, &jobs[job],
                   kills + 1 < most ? ANY : (phase)(1 + gy_random_below(&chance, 3)), share)) {
            break;
        }
        assert_int_equal(kill(at.manager, SIGKILL), 0);
        at.status = kit_wait(at.manager);
        if (!WIFSIGNALED(at.status)) { /* it was done */
            at.has_ended = true;
            break;
        }
        kit_alone();
        kills++;
        if (is_over()) {
            expect_over(&jobs[job]);
            close(at.journal);
            return kills;
        }
        kit_journal_read(at.journal, &seen);
        resume(&at);
    }
    finish(&at);
    check_same(&jobs[job]);
    expect_no_run_again(&at, &jobs[job], kills > 0 ? seen.committed : 0, kills);
    close(at.journal);
    return kills;
}

static void killed_at_random(void **state)
{
    (void)state;
    const int wanted = (int)(gy_test_cases(20) >= 20 ? 20 : gy_test_cases(20));
    for (int job = 0; job < JOBS; job++) {
        int kills = 0;
        const int share = (wanted + JOBS - 1) / JOBS, of_job = getenv("GYRE_SOAK") ? 20 : share;
        for (int i = 0; i < 3 * of_job && kills < of_job; i++) {
            const int left = of_job - kills;
            kills += kill_managers(job, left < 4 ? left : 4);
        }
        printf("soak: %s of %d tasks: %d managers killed at random points\n", jobs[job].verb,
               jobs[job].tasks, kills);
        assert_true(kills >= of_job);
    }
}

/* ---- groups: a size each ---- */

static int begin_jobs(void **state, int lines, int records_count)
{
    work_lines = lines;
    work_records = records_count;
    mortal = "";
    if (work_begin(state) != 0) {
        return 1;
    }
    for (int job = 0; job < JOBS; job++) {
        run_undisturbed(job);
    }
    return 0;
}

static int begin_small(void **state)
{
    return begin_jobs(state, SMALL_LINES, SMALL_RECORDS);
}

static int begin_large(void **state)
{
    const int times = getenv("GYRE_SOAK") != NULL ? SOAK : 1,
              part = gy_test_cases(8) < 8 ? 2 : 1;
    return begin_jobs(state, LARGE_LINES * times / part, LARGE_RECORDS * times / part);
}

int main(void)
{
    const struct CMUnitTest small[] = {
        cmocka_unit_test(killed_at_every_write_of_the_journal),
        cmocka_unit_test(killed_at_every_change_of_its_files),
    };
    const struct CMUnitTest large[] = {cmocka_unit_test(killed_at_random)};
    const int failed = cmocka_run_group_tests(small, begin_small, work_end);
    return failed + cmocka_run_group_tests(large, begin_large, work_end);
}
