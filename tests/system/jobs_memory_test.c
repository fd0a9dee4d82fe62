/*
 * Goal: a job whose data are ten times its memory, 30 % of them one key, keeps to that memory:
 * what all its processes hold at any moment, shared memory too, is at most a tenth above.
 */
#include "jobs_kit.h"

enum { MEBIBYTE = 1 << 20, WORDS_A_LINE = 16, PROCESSES = 2, PROCESS_MEBIBYTES = 8 };

/* Memory of a process that no file backs, in KiB. */
static long held_kib(pid_t process)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "r");
    long sum = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        long kib = 0;
        if (sscanf(line, "RssAnon: %ld", &kib) == 1 ||
            sscanf(line, "RssShmem: %ld", &kib) == 1) {
            sum += kib;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return sum;
}

static long held_by_all_kib(pid_t process)
{
    pid_t children[32];
    int count = kit_children(process, children, 32);
    long sum = held_kib(process);
    for (int i = 0; i < count; i++) {
        sum += held_by_all_kib(children[i]);
    }
    return sum;
}

/* Lines of words of 9 letters, three of ten "hotkey---", the others nearly all different. */
static void write_words(const char *path, int64_t size_bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    uint64_t state = gy_test_seed();
    for (int64_t written = 0; written < size_bytes;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        written += (state >> 33) % 10 < 3
                       ? fprintf(file, "hotkey---")
                       : fprintf(file, "w%08u", (unsigned)(state >> 36) % 100000000u);
        fputc((written / 10) % WORDS_A_LINE == 0 ? '\n' : ' ', file);
        written++;
    }
    assert_int_equal(fclose(file), 0);
}

/* The most that all processes of `gyre mr JOB` held. */
static long peak_of(const char *job, const char *input)
{
    char output[128], log[128], memory[32];
    snprintf(output, sizeof(output), "%s/out", kit_top);
    snprintf(log, sizeof(log), "%s/said", kit_top);
    snprintf(memory, sizeof(memory), "%dMiB", PROCESS_MEBIBYTES);
    char *const arguments[] = {getenv("GYRE_BIN"),
                               "mr",
                               (char *)(uintptr_t)job,
                               (char *)(uintptr_t)input,
                               "-o",
                               output,
                               "-m",
                               memory,
                               "-p",
                               "2",
                               "-q",
                               NULL};
    pid_t manager = kit_start(arguments, log);
    long peak = 0;
    int status = 0;
    for (const double last = kit_now() + KIT_WAIT_SECONDS; !kit_has_ended(manager, &status);) {
        long now = held_by_all_kib(manager);
        peak = now > peak ? now : peak;
        if (kit_now() > last) {
            (void)kill(manager, SIGKILL);
        }
        kit_pause();
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        size_t size;
        fail_msg("gyre mr %s ended with %d: %s", job, status, kit_read(log, &size));
    }
    char line[256];
    snprintf(line, sizeof(line), "rm -r %s", output);
    assert_int_equal(gy_test_shell(line, line, sizeof(line)), 0);
    return peak;
}

static void memory_is_kept(void **state)
{
    (void)state;
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    printf("skipped: sanitizers take memory of their own\n");
    skip();
#endif
    const long budget_kib = (long)PROCESSES * PROCESS_MEBIBYTES * 1024;
    char input[128];
    snprintf(input, sizeof(input), "%s/words", kit_top);
    write_words(input, (int64_t)budget_kib * 1024 * 10);
    static const char *const jobs[] = {"wordcount", "sort"};
    for (size_t i = 0; i < 2; i++) {
        long peak = peak_of(jobs[i], input);
        printf("%s: %ld KiB of %ld at most\n", jobs[i], peak, budget_kib);
        if (peak > budget_kib + budget_kib / 10) {
            fail_msg("%s held %ld KiB, its memory is %ld", jobs[i], peak, budget_kib);
        }
        assert_true(peak > budget_kib / 4); /* else it was not looked at */
    }
    kit_alone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_kept)};
    return cmocka_run_group_tests(tests, kit_begin, kit_end);
}
