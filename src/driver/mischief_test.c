/* Goal: with any mixture of deaths, kills from outside and threads a job ends with each task
 * committed once, and leaves nothing behind. A property over seeds. */
#include "driver/job_test.h"

static gy_random chance;

/* A random child of `of`, *count of which exist; 0: none. */
static long child_of(long of, int *count)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", of, of);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, text, sizeof(text) - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    text[size > 0 ? size : 0] = '\0';
    char *at = text, *end = NULL;
    long found = 0, one = strtol(at, &end, 10);
    for (*count = 0; end != at; one = strtol(at, &end, 10)) {
        found = found == 0 || gy_random_below(&chance, 2) == 0 ? one : found;
        at = end;
        ++*count;
    }
    return found;
}

/* Kill a random vertex process; rarely the fork server or the reaper, but not both, since no
 * process would know their daemons then. */
static void kill_somebody(gy_test_job *job)
{
    (void)job;
    if (gy_random_below(&chance, 40) != 0) {
        return;
    }
    bool is_parent_meant = gy_random_below(&chance, 8) == 0;
    int deepest = is_parent_meant ? 1 + (int)gy_random_below(&chance, 2) : 3, count = 0;
    long victim = getpid();
    for (int depth = 0; depth < deepest; depth++) {
        victim = child_of(victim, &count);
        if (victim == 0 || (depth == 0 && count > 1)) { /* an earlier one has not ended yet */
            return;
        }
    }
    (void)kill((pid_t)victim, SIGKILL);
}

static void run_seed(uint64_t seed)
{
    static const char *const deeds[] = {"",       "",        "segv", "kill",
                                        "exit",   "fail",    "fail", "",
                                        "daemon", "garbage", "",     "daemon, segv"};
    enum { TASKS = 300 };
    const char *words[TASKS];
    chance = (gy_random){.key = seed};
    uint32_t every = 2 + (uint32_t)gy_random_below(&chance, 60);
    for (uint32_t i = 0; i < TASKS; i++) {
        bool is_bad = gy_random_below(&chance, every) == 0;
        words[i] = is_bad ? deeds[gy_random_below(&chance, GY_COUNT(deeds))] : "";
    }
    gy_test_job job = {.words = words,
                       .word_count = TASKS,
                       .task_count = 1 + (uint32_t)gy_random_below(&chance, TASKS),
                       .chain = (uint32_t)gy_random_below(&chance, 3),
                       .processes = 1 + (int)gy_random_below(&chance, 4),
                       .threads = 1 + (int)gy_random_below(&chance, 3),
                       .on_commit = kill_somebody};
    gy_status status = gy_test_job_run(&job);
    if (status != GY_OK || job.committed != job.task_count) {
        fail_msg("seed %llu: %s, %u of %u committed: %s\n%s", (unsigned long long)seed,
                 gy_status_text(status), job.committed, job.task_count, gy_error_text(),
                 job.notes);
    }
    gy_test_job_alone();
    gy_test_job_remove(&job);
}

GY_TEST(test_mischief)
{
    uint64_t seed = gy_test_seed();
    for (long i = 0; i < gy_test_cases(24); i++) {
        run_seed(seed + (uint64_t)i);
    }
}

GY_JOB_TEST_MAIN(NULL, NULL)
