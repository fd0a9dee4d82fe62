/* Goal: the history returns what managers wrote, and acts on jobs from outside the job's
 * process; each test has its own state folder. */
#include "persist/history/history.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/env.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "gy_test.h"

static char home[64];

static int enter(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/gyre-history-XXXXXX");
    return mkdtemp(home) == NULL || setenv("XDG_STATE_HOME", home, 1) != 0;
}

static int leave(void **state)
{
    (void)state;
    return gy_disk_remove_tree(home);
}

static const char *const arguments[] = {"/bin/sh", "-c", "", "a b", NULL};

/* A job of this test with an existing folder. */
static gy_job make(const char *id, int64_t started_ns)
{
    static char folder[8][128];
    static int next;
    char *path = folder[next++ % 8];
    snprintf(path, 128, "%s/gyre/jobs/%s/x", home, id);
    assert_int_equal(gy_disk_make_folders(path), 0);
    *strrchr(path, '/') = '\0';
    return (gy_job){.id = id,
                    .report.name = "words",
                    .report.folder = path,
                    .output = "/out",
                    .directory = "/",
                    .reason = "",
                    .arguments = arguments,
                    .pid = 77,
                    .started_ns = started_ns};
}

static void begin_and_end(const gy_job *job, gy_job_state state_, const char *reason)
{
    gy_history *history;
    assert_int_equal(gy_history_open(&history), GY_OK);
    assert_int_equal(gy_history_begin(history, job), GY_OK);
    gy_job ended = *job;
    ended.state = state_;
    ended.ended_ns = job->started_ns + 5;
    ended.reason = reason;
    assert_int_equal(gy_history_save(history, &ended), GY_OK);
    gy_history_close(history);
}

GY_TEST(what_was_told_is_read)
{
    gy_job job = make("a1", 100);
    gy_history *history;
    assert_int_equal(gy_history_open(&history), GY_OK);
    assert_int_equal(gy_history_begin(history, &job), GY_OK);
    for (int i = 0; i < GY_JOB_NOTES_MAX + 3; i++) {
        char text[32];
        snprintf(text, sizeof(text), "note %d", i);
        assert_int_equal(gy_history_note(history, i, text), GY_OK);
        if (i == 7) {
            assert_int_equal(gy_history_save(history, &job), GY_OK);
        }
    }
    const gy_job_stage stages[] = {{.name = "map",
                                    .tasks = 9,
                                    .committed = 8,
                                    .attempts = 10,
                                    .failures = 1,
                                    .backups = 2,
                                    .backups_won = 1,
                                    .memoised = 3,
                                    .run_s = 1.5},
                                   {.name = "reduce", .tasks = 2}};
    const gy_job_counter counters[] = {{"words", INT64_MAX}};
    const gy_job_bad_record bad[] = {{"in.txt", UINT64_MAX, "SIGFPE", "f\ng"}};
    job.state = GY_JOB_FAILED;
    job.ended_ns = 200;
    job.reason = "a 'reason'";
    job.report.stages = stages;
    job.report.stage_count = 2;
    job.report.counters = counters;
    job.report.counter_count = 1;
    job.report.bad_records = bad;
    job.report.bad_record_count = 1;
    assert_int_equal(gy_history_save(history, &job), GY_OK);
    assert_int_equal(gy_history_save(history, &job), GY_OK); /* a second save adds nothing */
    gy_history_close(history);

    gy_job *read;
    assert_int_equal(gy_job_read("a", &read), GY_OK);
    assert_string_equal(read->id, "a1");
    assert_string_equal(read->output, "/out");
    assert_string_equal(read->reason, "a 'reason'");
    assert_int_equal(read->state, GY_JOB_FAILED);
    assert_int_equal(read->started_ns, 100);
    assert_int_equal(read->ended_ns, 200);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(read->arguments[i], arguments[i]);
    }
    assert_null(read->arguments[4]);
    assert_int_equal(read->report.stage_count, 2);
    assert_string_equal(read->report.stages[1].name, "reduce");
    assert_memory_equal(&read->report.stages[0].tasks, &stages[0].tasks,
                        sizeof(stages[0]) - sizeof(stages[0].name));
    assert_int_equal(read->report.counter_count, 1);
    assert_true(read->report.counters[0].value == INT64_MAX);
    assert_int_equal(read->report.note_count, GY_JOB_NOTES_MAX);
    assert_int_equal(read->report.notes_dropped, 3);
    assert_string_equal(read->report.notes[8].text, "note 8");
    assert_int_equal(read->report.bad_record_count, 1);
    assert_true(read->report.bad_records[0].offset == UINT64_MAX);
    assert_string_equal(read->report.bad_records[0].backtrace, "f\ng");
    gy_job_free(read);
}

/* A manager counts only its own runs and starts a new list of bad records. */
GY_TEST(managers_add_up)
{
    gy_job job = make("a2", 150);
    const gy_job_stage stages[] = {{.name = "map", .tasks = 9, .attempts = 5, .failures = 2},
                                   {.name = "reduce", .tasks = 2}};
    const gy_job_bad_record bad[] = {{"in.txt", 7, "SIGFPE", ""}, {"in.txt", 9, "SIGILL", ""}};
    job.report.stages = stages;
    job.report.stage_count = 2;
    job.report.bad_records = bad;
    for (int manager = 0; manager < 3; manager++) {
        gy_history *history;
        assert_int_equal(gy_history_open(&history), GY_OK);
        assert_int_equal(gy_history_begin(history, &job), GY_OK);
        job.report.bad_records =
            manager == 1 ? &bad[1] : bad; /* the last manager meets both records again */
        job.report.bad_record_count = manager == 2 ? 2 : 1;
        assert_int_equal(gy_history_save(history, &job), GY_OK);
        assert_int_equal(gy_history_save(history, &job), GY_OK);
        gy_history_close(history);
    }
    gy_job *read;
    assert_int_equal(gy_job_read("a2", &read), GY_OK);
    assert_int_equal(read->report.stage_count, 2);
    assert_int_equal(read->report.stages[0].attempts, 15);
    assert_int_equal(read->report.stages[0].failures, 6);
    assert_int_equal(read->report.stages[0].tasks, 9);
    assert_int_equal(read->report.bad_record_count, 2);
    assert_int_equal(read->report.bad_records[0].offset, 7);
    assert_int_equal(read->report.bad_records[1].offset, 9);
    gy_job_free(read);
}

static gy_status gather(void *arg, const gy_job *job)
{
    gy_text_add(arg, "%s%s ", job->id, job->state == GY_JOB_DONE ? "+" : "-");
    return GY_OK;
}

GY_TEST(jobs_are_listed_newest_first)
{
    gy_job jobs[] = {make("b1", 300), make("b2", 500), make("b3", 400)};
    for (int i = 0; i < 3; i++) {
        begin_and_end(&jobs[i], GY_JOB_DONE, "");
    }
    gy_text text = {0};
    assert_int_equal(gy_job_list(3, gather, &text), GY_OK);
    assert_string_equal(gy_text_get(&text), "b2+ b3+ b1+ ");
    gy_text_free(&text);
}

GY_TEST(ids_are_unique_beginnings)
{
    gy_job jobs[] = {make("c", 1), make("c1", 2), make("c2x", 3)};
    for (int i = 0; i < 3; i++) {
        begin_and_end(&jobs[i], GY_JOB_DONE, "");
    }
    gy_job *job = NULL;
    assert_int_equal(gy_job_read("zz", &job), GY_NOTFOUND);
    assert_int_equal(gy_job_read("", &job), GY_NOTFOUND);
    /* An exact id is not taken as the prefix of another. */
    assert_int_equal(gy_job_read("c", &job), GY_OK);
    assert_string_equal(job->id, "c");
    gy_job_free(job);
    begin_and_end(&(gy_job){.id = "c22", .report.folder = "/tmp/none", .arguments = arguments},
                  GY_JOB_DONE, "");
    assert_int_equal(gy_job_read("c2", &job), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "several jobs"));
}

/* Hold the folder's lock as a manager does, with a process id in the file. */
static int hold(const gy_job *job, pid_t process)
{
    char path[256], text[16];
    snprintf(path, sizeof(path), "%s/lock", job->report.folder);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
    size_t size = gy_print(text, sizeof(text), "%d\n", (int)process);
    assert_int_equal(write(file, text, size), size);
    return file;
}

GY_TEST(a_running_job_is_ended)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    gy_job job = make("d1", 600);
    gy_history *history;
    assert_int_equal(gy_history_open(&history), GY_OK);
    assert_int_equal(gy_history_begin(history, &job), GY_OK);
    gy_history_close(history);
    gy_job *read;
    assert_int_equal(gy_job_read("d1", &read), GY_OK);
    assert_int_equal(read->state, GY_JOB_INTERRUPTED); /* no process holds the lock */
    gy_job_free(read);
    assert_int_equal(gy_job_kill("d1"), GY_STATE);

    int lock = hold(&job, child);
    assert_int_equal(gy_job_read("d1", &read), GY_OK);
    assert_int_equal(read->state, GY_JOB_RUNNING);
    gy_job_free(read);
    assert_int_equal(gy_job_resume("d1"), GY_STATE);
    assert_int_equal(gy_job_kill("d1"), GY_OK);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    close(lock);
}

/* The exit status of the restarted command; 2: no command was restarted. */
static int resume_in_child(const char *id)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(gy_job_resume(id) == GY_OK ? 1 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

GY_TEST(an_interrupted_job_goes_on)
{
    gy_job job = make("e1", 700);
    char line[256];
    snprintf(line, sizeof(line),
             "[ \"$GYRE_JOB_RESUME\" = '%s' ] && [ \"$PWD\" = '%s' ] && exit 7",
             job.report.folder, home);
    const char *const command[] = {"/bin/sh", "-c", line, NULL};
    job.arguments = command;
    job.directory = home;
    gy_history *history;
    assert_int_equal(gy_history_open(&history), GY_OK);
    assert_int_equal(gy_history_begin(history, &job), GY_OK);
    gy_history_close(history);
    assert_int_equal(resume_in_child("e1"), 7);

    begin_and_end(&job, GY_JOB_DONE, "");
    assert_int_equal(gy_job_resume("e1"), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "finished successfully"));
    /* A job with a journal that outlived its manager can be resumed; a seal alone is not
     * enough. */
    static const char *const left[] = {"seal.3", "journal", "journal.3"};
    for (size_t i = 0; i < GY_COUNT(left); i++) {
        snprintf(line, sizeof(line), "%s/%s", job.report.folder, left[i]);
        FILE *file = fopen(line, "w");
        assert_non_null(file);
        fclose(file);
        snprintf(line, sizeof(line),
                 "[ \"$GYRE_JOB_RESUME\" = '%s' ] && [ \"$PWD\" = '%s' ] && exit 7",
                 job.report.folder, home);
        assert_int_equal(resume_in_child("e1"), i == 0 ? 2 : 7);
        if (i == 1) {
            snprintf(line, sizeof(line), "%s/journal", job.report.folder);
            assert_int_equal(unlink(line), 0);
        }
    }
}

static void fill(const gy_job *job, size_t size_bytes)
{
    char path[256], block[4096] = {1};
    snprintf(path, sizeof(path), "%s/data", job->report.folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < size_bytes; i += sizeof(block)) {
        assert_int_equal(fwrite(block, 1, sizeof(block), file), sizeof(block));
    }
    assert_int_equal(fclose(file), 0);
}

GY_TEST(old_jobs_are_collected)
{
    int removed;
    uint64_t freed;
    /* Remove the jobs of other tests. */
    assert_int_equal(gy_job_collect(0, 0, &removed, &freed), GY_OK);
    gy_job jobs[] = {make("f1", 10), make("f2", 20), make("f3", 30), make("f4", 40)};
    for (int i = 0; i < 4; i++) {
        begin_and_end(&jobs[i], GY_JOB_DONE, "");
        fill(&jobs[i], 65536);
    }
    char link[256];
    snprintf(link, sizeof(link), "%s/link", jobs[0].report.folder);
    /* The symbolic link is not followed. */
    assert_int_equal(symlink(jobs[1].report.folder, link), 0);
    int lock = hold(&jobs[1], 1);
    gy_history *history;
    assert_int_equal(gy_history_open(&history), GY_OK);
    assert_int_equal(gy_history_begin(history, &jobs[1]), GY_OK); /* the job runs again */
    gy_history_close(history);
    assert_int_equal(gy_job_collect(70000, 0, &removed, &freed), GY_OK);
    assert_int_equal(removed, 2); /* f1 and f3 */
    assert_true(freed >= 2 * 65536);
    static const bool stays[] = {false, true, false, true};
    for (int i = 0; i < 4; i++) {
        gy_job *job = NULL;
        assert_int_equal(gy_job_read(jobs[i].id, &job), stays[i] ? GY_OK : GY_NOTFOUND);
        gy_job_free(job);
        assert_int_equal(access(jobs[i].report.folder, F_OK), stays[i] ? 0 : -1);
    }
    close(lock);
}

/* A file in a folder below the test's, or a hard link to the file `other`. */
static void put(const char *name, const char *other, const char *text)
{
    char path[256], from[256];
    snprintf(path, sizeof(path), "%s/%s", home, name);
    snprintf(from, sizeof(from), "%s/%s", home, other);
    assert_int_equal(gy_disk_make_folders(path), 0);
    if (other[0] != '\0') {
        assert_int_equal(link(from, path), 0);
        return;
    }
    FILE *file = fopen(path, "w");
    assert_true(file != NULL && fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static bool is_there(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", home, name);
    return access(path, F_OK) == 0;
}

/* The job's hidden folders are removed, and the final names of their files; other files stay.
 */
GY_TEST(what_is_left_in_an_output_goes)
{
    static const char *const stays[] = {"out/part-00001", "out/.gyre-left9/1.0",
                                        "out/.gyre-left-x/1.0"};
    char output[128];
    gy_job job = make("left", 10);
    snprintf(output, sizeof(output), "%s/out", home);
    job.output = output;
    begin_and_end(&job, GY_JOB_FAILED, "");
    put("out/.gyre-left/0.0", "", "words");
    put("out/.gyre-left-12/0.0", "", "words");
    put("out/part-00000", "out/.gyre-left/0.0", "");
    put("out/part-00002", "out/.gyre-left-12/0.0", "");
    for (size_t i = 0; i < sizeof(stays) / sizeof(stays[0]); i++) {
        put(stays[i], "", "other words");
    }
    assert_int_equal(gy_job_collect(0, 0, NULL, NULL), GY_OK);
    assert_false(is_there("out/.gyre-left") || is_there("out/.gyre-left-12"));
    assert_false(is_there("out/part-00000") || is_there("out/part-00002"));
    for (size_t i = 0; i < sizeof(stays) / sizeof(stays[0]); i++) {
        assert_true(is_there(stays[i]));
    }
    /* With its manifest the output is published, so its names stay. */
    gy_job done = make("done", 10);
    snprintf(output, sizeof(output), "%s/out2", home);
    done.output = output;
    begin_and_end(&done, GY_JOB_DONE, "");
    put("out2/.gyre-done/0.0", "", "words");
    put("out2/part-00000", "out2/.gyre-done/0.0", "");
    put("out2/MANIFEST.json", "", "{\"format\": \"gyre output 1\", \"job\": \"done\", ");
    assert_int_equal(gy_job_forget("done"), GY_OK);
    assert_true(is_there("out2/part-00000") && is_there("out2/MANIFEST.json"));
    assert_false(is_there("out2/.gyre-done"));
}

/* A resumable job loses its logs, and nothing that a resume needs. */
GY_TEST(logs_of_young_jobs_go_alone)
{
    int removed = -1;
    gy_job job = make("young", gy_env_real()->ops->wall_ns(gy_env_real()));
    begin_and_end(&job, GY_JOB_FAILED, "");
    put("gyre/jobs/young/log/0-1", "", "much");
    put("gyre/jobs/young/journal", "", "what is done");
    assert_int_equal(setenv("GYRE_JOB_QUOTA", "3", 1), 0);
    gy_history_tidy(job.report.folder);
    assert_int_equal(unsetenv("GYRE_JOB_QUOTA"), 0);
    assert_true(!is_there("gyre/jobs/young/log/0-1") && is_there("gyre/jobs/young/journal"));
    assert_int_equal(gy_job_collect(0, 3600, &removed, NULL), GY_OK);
    assert_int_equal(removed, 0);
    /* An explicitly named job is removed at any age. */
    assert_int_equal(gy_job_forget("young"), GY_OK);
    assert_false(is_there("gyre/jobs/young"));
    assert_int_equal(gy_job_forget("young"), GY_NOTFOUND);
    gy_job running = make("running", 10);
    int lock = hold(&running, 1);
    gy_history *history;
    assert_int_equal(gy_history_open(&history), GY_OK);
    assert_int_equal(gy_history_begin(history, &running), GY_OK);
    gy_history_close(history);
    assert_int_equal(gy_job_forget("running"), GY_STATE);
    close(lock);
    assert_int_equal(gy_job_forget("running"), GY_OK);
}

/* Folders without row, manager or journal are removed, except recent ones. */
GY_TEST(folders_that_no_job_has_are_collected)
{
    enum { LEFT, YOUNG, HELD, JOURNAL, KNOWN, CASES };
    gy_job jobs[CASES] = {make("u-left", 10), make("u-young", 20), make("u-held", 30),
                          make("u-journal", 40), make("u-known", 50)};
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    int lock = -1, removed = 0;
    begin_and_end(&jobs[KNOWN], GY_JOB_DONE, "");
    for (int i = 0; i < CASES; i++) {
        fill(&jobs[i], 4096);
        if (i == HELD) {
            lock = hold(&jobs[i], 1);
        }
        if (i == JOURNAL) {
            char path[256];
            snprintf(path, sizeof(path), "%s/journal", jobs[i].report.folder);
            assert_int_equal(mknod(path, S_IFREG | 0600, 0), 0);
        }
        if (i != YOUNG) {
            assert_int_equal(utimensat(AT_FDCWD, jobs[i].report.folder, old, 0), 0);
        }
    }
    uint64_t freed = 0;
    assert_int_equal(gy_job_collect(UINT64_MAX, 0, &removed, &freed), GY_OK);
    assert_int_equal(removed, 1);
    assert_true(freed >= 4096);
    for (int i = 0; i < CASES; i++) {
        assert_int_equal(access(jobs[i].report.folder, F_OK), i == LEFT ? -1 : 0);
    }
    close(lock);
}

GY_TEST(a_newer_history_is_refused)
{
    char line[256];
    snprintf(line, sizeof(line), "%s/new/gyre/history.db", home);
    assert_int_equal(gy_disk_make_folders(line), 0);
    sqlite3 *base;
    assert_int_equal(
        sqlite3_open_v2(line, &base, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_exec(base, "PRAGMA user_version = 9", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(base), SQLITE_OK);
    snprintf(line, sizeof(line), "%s/new", home);
    assert_int_equal(setenv("XDG_STATE_HOME", line, 1), 0);
    gy_history *history;
    assert_int_equal(gy_history_open(&history), GY_FORMAT);
    assert_int_equal(setenv("XDG_STATE_HOME", "/proc/none", 1), 0);
    assert_int_equal(gy_history_open(&history), GY_IO);
    assert_int_equal(setenv("XDG_STATE_HOME", home, 1), 0);
}

GY_TEST(memory_that_ends_is_a_failure)
{
    gy_job job = make("g1", 900);
    begin_and_end(&job, GY_JOB_DONE, "");
    int64_t live = gy_alloc_live();
    int failed = 0;
    for (int n = 1;; n++) {
        gy_job *read = NULL;
        gy_alloc_fail_after(n);
        gy_status status = gy_job_read("g1", &read);
        gy_alloc_fail_after(0);
        gy_job_free(read);
        assert_int_equal(gy_alloc_live(), live);
        if (status == GY_OK) {
            break;
        }
        assert_int_equal(status, GY_NOMEM);
        failed++;
    }
    assert_true(failed >= 3);
}

GY_TEST_MAIN(enter, leave)
