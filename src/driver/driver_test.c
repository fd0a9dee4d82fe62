/* Goal: a job runs to its end through real processes, whatever one of them does, and leaves
 * nothing behind. */
#include "driver/job_test.h"

#include <sys/file.h>

GY_TEST(test_a_job_runs)
{
    gy_test_job job = {.task_count = 100, .chain = 2, .processes = 2};
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.committed, 100);
    gy_test_job_alone();
    /* According to the journal all tasks are committed: none runs again. */
    job.committed = 0;
    job.words = (const char *const[]){"segv!"};
    job.word_count = 1;
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.committed, 0);
    gy_test_job_end(&job);
}

GY_TEST(test_threads_of_one_process)
{
    gy_test_job job = {.task_count = 500, .chain = 1, .processes = 1, .threads = 4};
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.committed, 500);
    gy_test_job_end(&job);
}

/* One task misbehaves in its first attempt. */
typedef struct bad {
    const char *word, *said;
    uint32_t failures; /* the task's own */
    int64_t silence_ns;
} bad;

GY_TEST(test_one_bad_attempt)
{
    static const bad cases[] = {
        {"segv", "killed by SIGSEGV", 1, 0},
        {"exit", "exited with status 0; its log ends: a last line", 1, 0},
        {"garbage", "sent a malformed message: a message does not begin with the magic number",
         1, 0},
        {"close", "it closed its socket", 1, 0},
        {"no files", "closed or replaced a descriptor of Gyre", 1, 0},
        {"other files", "closed or replaced a descriptor of Gyre", 1, 0},
        {"no files, spin", "closed or replaced a descriptor of Gyre", 1, 0},
        {"shut", "closed or replaced a descriptor of Gyre", 1, 0},
        {"leave", "a function of the job ended its thread (pthread_exit)", 1, 0},
        {"kill", "killed by SIGKILL", 0, 0},
        {"stop", "has sent no heartbeat for", 0, 1000000000},
        {"fail", "as it was told", 1, 0},
        {"daemon, segv", "killed by SIGSEGV", 1, 0},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
#if defined(GYRE_TSAN)
        if (strstr(cases[i].word, "files") != NULL) { /* ThreadSanitizer ends it first */
            print_message("skipped: closing what other threads use is a race by itself\n");
            continue;
        }
#endif
        const char *const words[] = {"", "", cases[i].word};
        gy_test_job job = {.words = words,
                           .word_count = 3,
                           .task_count = 40,
                           .chain = i % 2,
                           .processes = 2,
                           .silence_ns = cases[i].silence_ns};
        assert_ok(gy_test_job_run(&job));
        assert_int_equal(job.committed, 40);
        gy_test_job_noted(&job, cases[i].said);
        assert_int_equal(job.failed, cases[i].failures);
        if (cases[i].failures > 0) {
            assert_string_equal(job.board, cases[i].word);
        }
        gy_test_job_end(&job);
    }
}

/* If a board names a culprit, the other tasks are not blamed; if none does, each is. */
GY_TEST(test_who_ran_beside_the_culprit)
{
    for (int is_known = 0; is_known < 2; is_known++) {
        gy_test_job job = {.words = (const char *const[]){"segv beside", "wait"},
                           .word_count = 2,
                           .task_count = 10,
                           .processes = 1,
                           .threads = 2,
                           .has_culprits = is_known != 0};
        assert_ok(gy_test_job_run(&job));
        assert_int_equal(job.committed, 10);
        assert_int_equal(job.failed, 2);
        assert_int_equal(job.blamed, is_known ? 1 : 2);
        gy_test_job_end(&job);
    }
}

GY_TEST(test_a_task_that_always_dies)
{
    gy_test_job job = {.words = (const char *const[]){"", "segv!"},
                       .word_count = 2,
                       .task_count = 10,
                       .processes = 2};
    assert_true(gy_test_job_run(&job) < 0);
    assert_non_null(strstr(gy_error_text(), "SIGSEGV"));
    assert_int_equal(job.failed, 6);
    gy_test_job_end(&job);
}

/* Kills from outside count against no task, but not for ever. */
GY_TEST(test_a_task_that_is_always_killed)
{
    gy_test_job job = {.words = (const char *const[]){"", "kill!"},
                       .word_count = 2,
                       .task_count = 10,
                       .processes = 2};
    assert_true(gy_test_job_run(&job) < 0);
    assert_non_null(strstr(gy_error_text(), "SIGKILL"));
    assert_int_equal(job.failed, 6);
    gy_test_job_end(&job);
}

GY_TEST(test_daemons_do_not_stay)
{
    gy_test_job job = {.words = (const char *const[]){"daemon", "daemon"},
                       .word_count = 2,
                       .task_count = 4,
                       .processes = 2};
    gy_env *env = gy_env_real();
    gy_deadline last = gy_env_deadline(env, 8);
    assert_ok(gy_test_job_run(&job));
    /* The fork server does it, which waits longest for a process that it cannot kill; no later
     * timeout does. */
    assert_true(gy_now_ns(env) < last.at_ns);
    gy_test_job_end(&job);
}

GY_TEST(test_memory_is_limited)
{
    gy_test_job job = {.words = (const char *const[]){"memory"},
                       .word_count = 1,
                       .task_count = 10,
                       .processes = 2,
                       .memory_bytes = (size_t)256 << 20};
    if (access("/sys/fs/cgroup/memory", W_OK) != 0) {
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
        printf("no control group of memory here, and a sanitizer needs more than a limit\n");
        skip();
#endif
    }
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.failed, 1);
    if (strstr(job.notes, "no more memory") == NULL) {
        gy_test_job_noted(&job, "killed by SIGKILL: over its memory limit of 256.0 MiB");
    }
    gy_test_job_end(&job);
}

GY_TEST(test_forks_are_bounded)
{
    if (access("/sys/fs/cgroup/pids", W_OK) != 0) {
        printf("no control group of processes here\n");
        skip();
    }
    gy_test_job job = {.words = (const char *const[]){"forks"},
                       .word_count = 1,
                       .task_count = 4,
                       .processes = 1,
                       .silence_ns = 100000000000}; /* two thousand forks take time */
    assert_ok(gy_test_job_run(&job));
    gy_test_job_noted(&job, "exited with status 9");
    gy_test_job_end(&job);
}

static void kill_reaper(gy_test_job *job)
{
    gy_test_kill_below(job, 1);
}

static void kill_fork_server(gy_test_job *job)
{
    gy_test_kill_below(job, 2);
}

/* If reaper or fork server is killed, the other one finds the daemons that are left, with and
 * without control groups. */
GY_TEST(test_the_fork_server_is_replaced)
{
    void (*const ways[])(gy_test_job * job) = {kill_reaper, kill_fork_server};
    for (size_t i = 0; i < GY_COUNT(ways); i++) {
        gy_test_job job = {.words =
                               /* The task waits for its end. */
                           (const char *const[]){"daemon, stop"},
                           .word_count = 1,
                           .task_count = 200,
                           .processes = 2,
                           .on_tick = ways[i]};
        assert_ok(gy_test_job_run(&job));
        assert_int_equal(job.committed, 200);
        gy_test_job_noted(&job, "killed by SIGKILL");
        gy_test_job_end(&job);
    }
}

static void send_signal(gy_test_job *job)
{
    (void)job;
    assert_int_equal(raise(SIGTERM), 0);
}

static void send_two(gy_test_job *job)
{
    send_signal(job);
    send_signal(job);
}

/* A task that stops its process each time: the job ends with the third. */
GY_TEST(test_silence_has_an_end)
{
    gy_test_job job = {.words = (const char *const[]){"", "stop!"},
                       .word_count = 2,
                       .task_count = 5,
                       .processes = 2,
                       .silence_ns = 400000000};
    assert_status(gy_test_job_run(&job), GY_TIMEOUT);
    assert_non_null(strstr(gy_error_text(), "3 processes that ran task 1 of stage"));
    gy_test_job_end(&job);
}

/* As if the terminal closed. */
static void send_hangup(gy_test_job *job)
{
    (void)job;
    assert_int_equal(raise(SIGHUP), 0);
}

/* A program started with nohup ignores the signal. */
GY_TEST(test_ignored_signals_do_not)
{
    gy_test_job job = {.task_count = 200, .processes = 2, .on_commit = send_hangup};
    void (*before)(int) = signal(SIGHUP, SIG_IGN);
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.committed, 200);
    assert_true(signal(SIGHUP, before) == SIG_IGN);
    gy_test_job_end(&job);
}

GY_TEST(test_signals_end_it)
{
    void (*const ways[])(gy_test_job * job) = {send_signal, send_two, send_hangup};
    for (size_t i = 0; i < GY_COUNT(ways); i++) {
        gy_test_job job = {.words = (const char *const[]){"wait!", "wait!"},
                           .word_count = 2,
                           .task_count = 5,
                           .processes = 2,
                           .on_tick = ways[i]};
        assert_status(gy_test_job_run(&job), GY_CANCELLED);
        gy_test_job_end(&job);
    }
}

GY_TEST(test_a_deadline_ends_it)
{
    gy_test_job job = {.words = (const char *const[]){"wait!"},
                       .word_count = 1,
                       .task_count = 5,
                       .processes = 2,
                       .seconds = 0.3};
    assert_status(gy_test_job_run(&job), GY_TIMEOUT);
    gy_test_job_end(&job);
}

GY_TEST(test_one_manager_a_job)
{
    gy_test_job job = {.task_count = 5, .processes = 1};
    char path[96], text[32] = "";
    gy_test_job_folder(&job);
    snprintf(path, sizeof(path), "%s/lock", job.folder);
    int lock = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_status(gy_test_job_run(&job), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "another manager"));
    close(lock);
    assert_ok(gy_test_job_run(&job));
    lock = open(path, O_RDONLY);
    assert_true(read(lock, text, sizeof(text) - 1) > 0);
    assert_int_equal(strtol(text, NULL, 10), getpid());
    close(lock);
    gy_test_job_end(&job);
}

GY_TEST(test_gangs)
{
    gy_test_job job = {.words =
                           (const char *const[]){"gang exit 0", "gang exit $((GYRE_RANK * 5))"},
                       .word_count = 2,
                       .task_count = 3,
                       .processes = 2};
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.failed, 1);
    gy_test_job_noted(&job, "2 ranks of /bin/sh ended with exit status 5");
    gy_test_job_end(&job);
}

GY_TEST(test_a_gang_ends_with_its_job)
{
    gy_test_job job = {.words = (const char *const[]){"gang sleep 1000!"},
                       .word_count = 1,
                       .task_count = 1,
                       .processes = 1,
                       .on_tick = send_signal};
    assert_status(gy_test_job_run(&job), GY_CANCELLED);
    gy_test_job_end(&job);
}

GY_JOB_TEST_MAIN(NULL, NULL)
