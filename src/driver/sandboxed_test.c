/* Goal: jobs run in a sandbox as they do without one, whatever goes wrong in them, and nothing
 * escapes from it. */
#include "driver/job_test.h"

static gy_sandbox sandbox;

/* Print which parts are missing, and run without them. */
static int make_sandbox(void **state)
{
    (void)state;
    gy_text missing = {.data = NULL};
    assert_ok(gy_sandbox_parse("available", &sandbox));
    assert_ok(gy_sandbox_settle(&sandbox, &missing));
    printf("walls of parts %u here%s%s\n", sandbox.parts,
           missing.size_bytes > 0 ? ", without " : "", gy_text_get(&missing));
    gy_text_free(&missing);
    return 0;
}

static int free_sandbox(void **state)
{
    (void)state;
    gy_sandbox_fini(&sandbox);
    return 0;
}

/* Faults, exits, daemons: each as without a sandbox. */
GY_TEST(test_bad_tasks)
{
    static const char *const words[] = {
        "", "segv", "exit", "fail", "daemon", "daemon, segv", "garbage", "gang exit 0", "kill",
    };
    gy_test_job job = {.words = words,
                       .word_count = GY_COUNT(words),
                       .task_count = 40,
                       .chain = 1,
                       .processes = 2,
                       .threads = 2,
                       .memory_bytes = (size_t)512 << 20,
                       .sandbox = &sandbox};
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.committed, 40);
    gy_test_job_noted(&job, "killed by SIGSEGV");
    gy_test_job_noted(&job, "its log ends: a last line");
    gy_test_job_noted(&job, "as it was told");
    gy_test_job_end(&job);
}

/* The program's open descriptors are not inherited. */
GY_TEST(test_open_files)
{
    if (sandbox.parts == 0) {
        printf("no walls here\n");
        skip();
    }
    int left[2];
    assert_int_equal(pipe(left), 0); /* without close-on-exec, as a careless program does */
    gy_test_job job = {.words = (const char *const[]){"files!", "files!"},
                       .word_count = 2,
                       .task_count = 2,
                       .processes = 2,
                       .memory_bytes = (size_t)512 << 20,
                       .sandbox = &sandbox};
    assert_ok(gy_test_job_run(&job));
    close(left[0]);
    close(left[1]);
    gy_test_job_end(&job);
}

GY_TEST(test_outside)
{
    char secret[] = "/tmp/gyre-secret-XXXXXX";
    int file = mkstemp(secret);
    assert_true(file >= 0 && setenv("GYRE_TEST_SECRET", secret, 1) == 0);
    close(file);
    gy_test_job job = {.words = (const char *const[]){"secret!"},
                       .word_count = 1,
                       .task_count = 2,
                       .processes = 1};
    assert_ok(gy_test_job_run(&job));
    gy_test_job_end(&job);
    if ((sandbox.parts & GY_SANDBOX_FILES) == 0) {
        printf("no walls around files here\n");
    } else {
        job = (gy_test_job){.words = job.words,
                            .word_count = 1,
                            .task_count = 2,
                            .processes = 1,
                            .sandbox = &sandbox};
        assert_true(gy_test_job_run(&job) < 0);
        gy_test_job_noted(&job, "cannot read what is outside: Permission denied");
        gy_test_job_end(&job);
    }
    assert_int_equal(unlink(secret), 0);
    assert_int_equal(unsetenv("GYRE_TEST_SECRET"), 0);
}

/* The manager cannot be reached, nor the parent if it is the first process of a PID namespace.
 */
GY_TEST(test_killers)
{
    if ((sandbox.parts & GY_SANDBOX_PROCESSES) == 0) {
        printf("no walls around processes here\n");
        skip();
    }
    char number[16];
    snprintf(number, sizeof(number), "%d", (int)getpid());
    assert_int_equal(setenv("GYRE_TEST_MANAGER", number, 1), 0);
    gy_test_job job = {.words = (const char *const[]){"kill all!", "kill all!"},
                       .word_count = 2,
                       .task_count = 20,
                       .chain = 1,
                       .processes = 2,
                       .sandbox = &sandbox};
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.failed, 0);
    assert_null(strstr(job.notes, "SIGKILL"));
    gy_test_job_end(&job);
    assert_int_equal(unsetenv("GYRE_TEST_MANAGER"), 0);
}

/* The job ends by that, not by the driver's timeout of ten seconds. */
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
enum { KILLED_SECONDS = 60 };
#else
enum { KILLED_SECONDS = 9 };
#endif

/* Kill the reaper (1) or the fork server (2) after a daemon was left. */
static int depth;

static void kill_parent(gy_test_job *job)
{
    gy_test_kill_below(job, depth);
}

GY_TEST(test_killed_parents)
{
    for (depth = 1; depth <= 2; depth++) {
        gy_test_job job = {.words = (const char *const[]){"daemon, stop"},
                           .word_count = 1,
                           .task_count = 100,
                           .processes = 2,
                           .sandbox = &sandbox,
                           .seconds = KILLED_SECONDS,
                           .on_tick = kill_parent};
        assert_ok(gy_test_job_run(&job));
        assert_int_equal(job.committed, 100);
        gy_test_job_end(&job);
    }
}

/* If a part of the agreed sandbox is no longer available, the job does not run without it. */
GY_TEST(test_no_sandbox_no_job)
{
    const uint32_t parts = GY_SANDBOX_PROCESSES | GY_SANDBOX_CALLS;
    if ((sandbox.parts & parts) != parts) {
        printf("no walls around processes and calls here\n");
        skip();
    }
    fflush(NULL);
    pid_t child = fork(); /* whose processes cannot create namespaces */
    assert_true(child >= 0);
    if (child == 0) {
        gy_test_job job = {.task_count = 2, .processes = 1, .sandbox = &sandbox, .seconds = 20};
        const gy_sandbox_paths own = {.parts = GY_SANDBOX_CALLS};
        gy_status entered = gy_sandbox_enter(&own);
        (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        gy_status status = entered == GY_OK ? gy_test_job_run(&job) : entered;
        gy_test_job_remove(&job);
        _exit(entered == GY_OK && status == GY_STATE &&
                      strstr(gy_error_text(), "cannot sandbox the job") != NULL
                  ? 0
                  : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

GY_JOB_TEST_MAIN(make_sandbox, free_sandbox)
