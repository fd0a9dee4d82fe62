/* Goal: a manager that is killed at any write of its journal, or whose disk fails, leaves no
 * process and a journal from which the next one resumes; no committed task runs twice. */
#include "driver/job_test.h"

enum { TASKS = 12 };

/* The real disk, until the journal's byte, write or sync number `at`. */
typedef struct broken_env {
    gy_env env; /* must be first */
    gy_env_ops ops;
    gy_disk_ops disk;
    int64_t count, at; /* bytes if the process is killed at a write, else calls */
    int error;         /* the errno of the failure; 0: the process is killed */
    bool is_sync;
} broken_env;

static broken_env *of(gy_env *env)
{
    return (broken_env *)env;
}

static int64_t broken_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    broken_env *broken = of(env);
    if (broken->is_sync) {
        return gy_disk_real.write(env, file, data, size_bytes);
    }
    if (broken->error != 0) {
        return broken->count++ == broken->at ? -broken->error
                                             : gy_disk_real.write(env, file, data, size_bytes);
    }
    int64_t left = broken->at - broken->count;
    broken->count += (int64_t)size_bytes;
    if (left < (int64_t)size_bytes) {
        /* Within a record or between two. */
        (void)gy_disk_real.write(env, file, data, (size_t)left);
        raise(SIGKILL);
    }
    return gy_disk_real.write(env, file, data, size_bytes);
}

static int broken_sync(gy_env *env, int file)
{
    broken_env *broken = of(env);
    if (broken->is_sync && broken->count++ == broken->at) {
        if (broken->error != 0) {
            return -broken->error;
        }
        raise(SIGKILL);
    }
    return gy_disk_real.sync(env, file);
}

static void break_disk(broken_env *broken, int64_t at, int error, bool is_sync)
{
    *broken = (broken_env){.ops = *gy_env_real()->ops,
                           .disk = gy_disk_real,
                           .at = at,
                           .error = error,
                           .is_sync = is_sync};
    broken->disk.write = broken_write;
    broken->disk.sync = broken_sync;
    broken->ops.disk = &broken->disk;
    broken->env.ops = &broken->ops;
}

/* Count the committed tasks in the folder's journal, and mark them (`is_committed` may be
 * NULL). */
static uint32_t count_committed(const gy_test_job *job, bool *is_committed)
{
    char path[96];
    static uint8_t bytes[1 << 20];
    gy_manager *manager = gy_test_manager(job);
    snprintf(path, sizeof(path), "%s/journal", job->folder);
    int file = open(path, O_RDONLY);
    ssize_t size = file >= 0 ? read(file, bytes, sizeof(bytes)) : 0;
    size_t used = 0;
    gy_stage_state state;
    if (file >= 0) {
        close(file);
    }
    assert_true(size < (ssize_t)sizeof(bytes));
    if (size > 0) {
        assert_ok(gy_manager_replay(manager, bytes, (size_t)size, &used));
    }
    gy_manager_stage(manager, 0, &state);
    for (uint32_t i = 0; is_committed != NULL && i < job->task_count; i++) {
        gy_sched_task_state task;
        gy_manager_task(manager, i, &task);
        is_committed[i] = task.committed.attempt != 0;
    }
    gy_manager_free(manager);
    return state.committed;
}

static off_t count_runs(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? status.st_size / (off_t)sizeof(uint32_t) : 0;
}

/* In a child: run until byte or sync number `at`, which kills it. True: it was killed. */
static bool run_broken(gy_test_job *job, int64_t at, bool is_sync)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        broken_env broken;
        break_disk(&broken, at, 0, is_sync);
        job->env = &broken.env;
        _exit(gy_test_job_run(job) == GY_OK ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    gy_test_job_alone();
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return false;
    }
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return true;
}

/* Kill at 0, step, 2 step ... until the job survives. Returns how many were killed. */
static int kill_everywhere(bool is_sync, int64_t step)
{
    int kills = 0;
    for (bool was_killed = true; was_killed && kills < 400; kills += was_killed) {
        char runs[96];
        gy_test_job job = {.task_count = TASKS, .chain = 1, .processes = 2};
        gy_test_job_folder(&job);
        snprintf(runs, sizeof(runs), "%s/runs", job.folder);
        assert_int_equal(setenv("GYRE_TEST_RUNS", runs, 1), 0);
        was_killed = run_broken(&job, kills * step, is_sync);
        uint32_t committed = count_committed(&job, NULL);
        off_t before = count_runs(runs);
        assert_true(before >= committed);
        assert_true(was_killed || committed == TASKS);
        assert_ok(gy_test_job_run(&job));
        assert_int_equal(job.committed, TASKS - committed);
        assert_int_equal(count_runs(runs) - before, TASKS - committed);
        assert_int_equal(count_committed(&job, NULL), TASKS);
        gy_test_job_alone();
        gy_test_job_remove(&job);
    }
    assert_int_equal(unsetenv("GYRE_TEST_RUNS"), 0);
    return kills;
}

GY_TEST(test_killed_at_every_write)
{
    int kills = kill_everywhere(false, 8000 / gy_test_cases(200));
    printf("killed at %d places of the journal\n", kills);
    assert_in_range(kills, 3, 300);
}

enum { MANY = 3000 };

/* No run in the file from the `first` on is of a committed task. */
static void assert_no_run_again(const char *path, off_t first, const bool *is_committed)
{
    static uint32_t runs[64 * MANY];
    int file = open(path, O_RDONLY);
    ssize_t size =
        file < 0 ? 0 : pread(file, runs, sizeof(runs), first * (off_t)sizeof(uint32_t));
    if (file >= 0) {
        close(file);
    }
    assert_true(size >= 0 && size < (ssize_t)sizeof(runs));
    for (size_t i = 0; i < (size_t)size / sizeof(uint32_t); i++) {
        assert_true(runs[i] < MANY && !is_committed[runs[i]]);
    }
}

/* A larger job, killed repeatedly at random places until it ends. */
GY_TEST(test_killed_at_random)
{
    static bool is_committed[MANY];
    gy_random random = {.key = gy_test_seed()};
    char runs[96];
    gy_test_job job = {.task_count = MANY, .chain = 2, .processes = 2};
    gy_test_job_folder(&job);
    snprintf(runs, sizeof(runs), "%s/runs", job.folder);
    assert_int_equal(setenv("GYRE_TEST_RUNS", runs, 1), 0);
    int kills = 0;
    bool was_killed = true;
    memset(is_committed, 0, sizeof(is_committed));
    while (was_killed) { /* the whole journal has about 200 kB */
        off_t before = count_runs(runs);
        was_killed = run_broken(&job, (int64_t)gy_random_below(&random, 40000), false);
        assert_no_run_again(runs, before, is_committed);
        (void)count_committed(&job, is_committed);
        kills += was_killed;
        assert_true(kills < 1000);
    }
    assert_int_equal(count_committed(&job, NULL), MANY);
    printf("killed %d times\n", kills);
    assert_true(kills >= 3);
    gy_test_job_remove(&job);
    assert_int_equal(unsetenv("GYRE_TEST_RUNS"), 0);
}

GY_TEST(test_killed_at_every_sync)
{
    int kills = kill_everywhere(true, 1);
    printf("killed at %d syncs\n", kills);
    assert_in_range(kills, 2, 50);
}

GY_TEST(test_a_disk_that_fails)
{
    static const int errors[] = {ENOSPC, EIO};
    for (int i = 0; i < 4; i++) {
        broken_env broken;
        bool is_sync = i >= 2;
        break_disk(&broken, i % 2, errors[i % 2], is_sync);
        gy_test_job job = {.task_count = TASKS, .chain = 1, .processes = 2, .env = &broken.env};
        assert_status(gy_test_job_run(&job), GY_IO);
        assert_non_null(strstr(gy_error_text(), strerror(errors[i % 2])));
        assert_non_null(strstr(gy_error_text(), is_sync ? "cannot sync" : "cannot write"));
        gy_test_job_alone();
        job.env = NULL; /* the disk works again */
        assert_ok(gy_test_job_run(&job));
        gy_test_job_alone();
        gy_test_job_remove(&job);
    }
}

static void kill_itself(gy_test_job *job)
{
    (void)job;
    raise(SIGKILL);
}

/* Processes that wait or are stopped, daemons and a gang: all end with their manager. */
GY_TEST(test_a_killed_manager_leaves_nobody)
{
    gy_test_job job = {
        .words = (const char *const[]){"wait!", "stop!", "daemon, stop!", "gang sleep 1000!"},
        .word_count = 4,
        .task_count = 20,
        .processes = 4,
        .on_tick = kill_itself};
    gy_test_job_folder(&job);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(gy_test_job_run(&job) == GY_OK ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    gy_test_job_alone();
    job.word_count = 0;
    job.on_tick = NULL;
    assert_ok(gy_test_job_run(&job));
    gy_test_job_alone();
    gy_test_job_remove(&job);
}

/* Control groups of another job, which was killed with all processes that would have removed
 * them, are removed. */
GY_TEST(test_groups_that_are_left_go)
{
    gy_limits left;
    gy_test_job job = {.task_count = TASKS, .processes = 1};
    if (!gy_test_leave_groups(&left)) {
        skip();
    }
    assert_ok(gy_test_job_run(&job));
    assert_false(gy_test_has_groups(&left));
    gy_test_job_alone();
    gy_test_job_remove(&job);
}

GY_JOB_TEST_MAIN(NULL, NULL)
