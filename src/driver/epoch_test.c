/* Goal: a manager of a newer epoch resumes the job after older ones were killed, stopped or
 * partitioned; it repeats no committed task, and an older manager that wakes up ends without
 * any effect. */
#include "driver/job_test.h"

#include "persist/journal/journal.h"

enum { TASKS = 40 };

/* The real disk until so many bytes are written. */
typedef struct deadly_env {
    gy_env env; /* must be first */
    gy_env_ops ops;
    gy_disk_ops disk;
    int64_t left;
} deadly_env;

static int64_t deadly_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    deadly_env *deadly = (deadly_env *)env;
    int64_t left = deadly->left;
    deadly->left -= (int64_t)size_bytes;
    if (deadly->left < 0) {
        (void)gy_disk_real.write(env, file, data, (size_t)left);
        raise(SIGKILL);
    }
    return gy_disk_real.write(env, file, data, size_bytes);
}

/* In a child that is killed after so many bytes. True: it was killed. */
static bool run_deadly(gy_test_job *job, int64_t bytes)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        deadly_env deadly = {.ops = *gy_env_real()->ops, .disk = gy_disk_real, .left = bytes};
        deadly.disk.write = deadly_write;
        deadly.ops.disk = &deadly.disk;
        deadly.env.ops = &deadly.ops;
        job->env = &deadly.env;
        _exit(gy_test_job_run(job) == GY_OK ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    gy_test_job_alone();
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static gy_status replay(void *arg, const void *records, size_t size_bytes, size_t *used)
{
    return gy_manager_replay(arg, records, size_bytes, used);
}

/* The commits that a next manager would find, read from a copy of the folder. */
static uint32_t count_committed(const gy_test_job *job, bool is_committed[TASKS])
{
    char copy[80], line[200], said[200];
    snprintf(copy, sizeof(copy), "%s.copy", job->folder);
    snprintf(line, sizeof(line), "cp -r %s %s", job->folder, copy);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    gy_manager *manager = gy_test_manager(job);
    gy_journal *journal = NULL;
    const gy_journal_options options = {.folder = copy,
                                        .epoch = job->epoch + 1,
                                        .take = replay,
                                        .measure = gy_manager_measure,
                                        .arg = manager};
    assert_ok(gy_journal_open(gy_env_real(), &options, &journal));
    gy_journal_close(journal);
    gy_stage_state state;
    gy_manager_stage(manager, 0, &state);
    for (uint32_t i = 0; i < TASKS; i++) {
        gy_sched_task_state task;
        gy_manager_task(manager, i, &task);
        is_committed[i] = task.committed.attempt != 0;
    }
    gy_manager_free(manager);
    snprintf(line, sizeof(line), "rm -rf %s", copy);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    return state.committed;
}

static size_t read_runs(const char *path, uint32_t runs[1024])
{
    FILE *file = fopen(path, "r");
    size_t count = file != NULL ? fread(runs, sizeof(uint32_t), 1024, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

GY_TEST(test_each_epoch_goes_on)
{
    gy_random random = {.key = gy_test_seed()};
    int kills = 0;
    for (long round = 0; round < gy_test_cases(1); round++) {
        char path[96];
        static uint32_t runs[1024];
        bool is_committed[TASKS] = {false};
        gy_test_job job = {.task_count = TASKS, .chain = 1, .processes = 2, .epoch = 1};
        gy_test_job_folder(&job);
        snprintf(path, sizeof(path), "%s/runs", job.folder);
        assert_int_equal(setenv("GYRE_TEST_RUNS", path, 1), 0);
        for (;; job.epoch++) {
            size_t before = read_runs(path, runs);
            bool was_killed = run_deadly(&job, 60 + (int64_t)gy_random_below(&random, 1500));
            size_t after = read_runs(path, runs);
            for (size_t i = before; i < after; i++) {
                assert_false(is_committed[runs[i]]);
            }
            uint32_t committed = count_committed(&job, is_committed);
            kills += was_killed;
            assert_true(job.epoch < 300);
            if (!was_killed) {
                assert_int_equal(committed, TASKS);
                break;
            }
        }
        assert_int_equal(unsetenv("GYRE_TEST_RUNS"), 0);
        gy_test_job_remove(&job);
    }
    printf("killed %d times\n", kills);
    assert_true(kills >= 1);
}

static void stop_once(gy_test_job *job)
{
    if (job->committed == 3) {
        raise(SIGSTOP);
    }
}

/* The journal is in the folder, or as objects beside it. */
static void wake_up_late(bool is_place)
{
    char uri[96];
    gy_test_job job = {
        .task_count = TASKS, .chain = 1, .processes = 1, .epoch = 1, .on_commit = stop_once};
    gy_test_job_folder(&job);
    snprintf(uri, sizeof(uri), "file:%s", job.folder);
    job.journal = is_place ? uri : NULL;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gy_status status = gy_test_job_run(&job);
        bool is_told =
            strstr(gy_error_text(), "epoch 1 has ended: epoch 2 continues (") != NULL;
        _exit(status == GY_STATE && is_told && job.is_over ? 7 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    gy_test_job next = {
        .task_count = TASKS, .chain = 1, .processes = 1, .epoch = 2, .journal = job.journal};
    memcpy(next.folder, job.folder, sizeof(next.folder));
    assert_ok(gy_test_job_run(&next)); /* although the other manager holds the lock */
    assert_false(next.is_over);
    assert_true(next.committed > 0 && next.committed <= TASKS);
    char object[96];
    snprintf(object, sizeof(object), "%s/journal.1.0", job.folder);
    assert_int_equal(access(object, F_OK) == 0, is_place);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    gy_test_job_alone();
    gy_test_job_remove(&job);
}

GY_TEST(test_who_wakes_up_late_ends)
{
    wake_up_late(false);
    wake_up_late(true);
}

/* Stop this process as soon as the job runs. */
static void stop_at_once(gy_test_job *job)
{
    if (job->on_tick != NULL) {
        job->on_tick = NULL;
        raise(SIGSTOP);
    }
}

static pid_t start(gy_test_job *job)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(gy_test_job_run(job) == GY_OK ? 0 : 1);
    }
    return child;
}

/* Wait until the holder of the folder's lock has written its process id. */
static void await_holder(const char *folder, pid_t process)
{
    char path[96], text[32] = "";
    gy_deadline last = gy_env_deadline(gy_env_real(), 20);
    snprintf(path, sizeof(path), "%s/lock", folder);
    while (strtol(text, NULL, 10) != process) {
        FILE *file = fopen(path, "r");
        if (file == NULL || fgets(text, sizeof(text), file) == NULL) {
            text[0] = '\0'; /* it is being written */
        }
        if (file != NULL) {
            fclose(file);
        }
        assert_true(gy_now_ns(gy_env_real()) < last.at_ns);
        (void)poll(NULL, 0, 1);
    }
}

/* Commands that list and kill jobs go by the lock, so the manager that goes on takes it. */
GY_TEST(test_the_lock_follows)
{
    static const char *const words[] = {"wait!"};
    gy_test_job job = {.words = words,
                       .word_count = 1,
                       .task_count = 2,
                       .processes = 1,
                       .epoch = 1,
                       .on_tick = stop_at_once};
    gy_test_job_folder(&job);
    pid_t old = start(&job);
    int status = 0;
    assert_int_equal(waitpid(old, &status, WUNTRACED), old);
    assert_true(WIFSTOPPED(status));
    job.on_tick = NULL;
    job.epoch = 2;
    pid_t next = start(&job);
    await_holder(job.folder, old);
    assert_int_equal(kill(old, SIGKILL), 0);
    assert_int_equal(waitpid(old, &status, 0), old);
    await_holder(job.folder, next);
    assert_int_equal(kill(next, SIGTERM), 0);
    assert_int_equal(waitpid(next, &status, 0), next);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    gy_test_job_alone();
    gy_test_job_remove(&job);
}

static void assert_refused(gy_test_job *job, uint64_t epoch, const char *why)
{
    job->epoch = epoch;
    job->is_over = false;
    assert_status(gy_test_job_run(job), GY_STATE);
    if (strstr(gy_error_text(), why) == NULL) {
        fail_msg("nothing says \"%s\" in: %s", why, gy_error_text());
    }
    assert_true(job->is_over);
}

GY_TEST(test_an_epoch_is_used_once)
{
    gy_test_job job = {.task_count = 5, .processes = 1, .epoch = 5};
    assert_ok(gy_test_job_run(&job));
    assert_int_equal(job.committed, 5);
    assert_refused(&job, 5, "epoch 5 was used before by ");
    assert_refused(&job, 4, "epoch 4 has ended: epoch 5 continues (");
    job.epoch = 6;
    assert_ok(gy_test_job_run(&job)); /* the job has ended: no task runs */
    job.epoch = 0;
    assert_ok(gy_test_job_run(&job)); /* the next epoch is 7 */
    assert_int_equal(job.committed, 5);
    assert_refused(&job, 7, "epoch 7 was used before by ");
    gy_test_job_alone();
    gy_test_job_remove(&job);
}

GY_TEST(test_a_job_of_one_machine_has_no_epochs)
{
    gy_test_job job = {.task_count = 5, .processes = 1};
    assert_ok(gy_test_job_run(&job));
    assert_refused(&job, 1, "holds the journal of a job of one machine");
    gy_test_job_alone();
    gy_test_job_remove(&job);
}

GY_JOB_TEST_MAIN(NULL, NULL)
