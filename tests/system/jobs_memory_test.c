/*
 * Goal: a job whose data are ten times its memory, 30 % of them one key, keeps to that memory:
 * what all its processes hold at any moment, shared memory too, is at most a tenth above.
 */
#include "jobs_kit.h"

enum { WORDS_A_LINE = 16, WORDS_A_KEY = 10, FILES = 4, PROCESSES = 2 };

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

/* Words of 9 letters, three of ten "hotkey---", the others nearly all different: 16 a line, or
 * ten times the same, so that whole lines are so. */
static void write_words(const char *path, int64_t size_bytes, bool is_line)
{
    static uint64_t state = 0;
    state = state == 0 ? gy_test_seed() : state;
    const int64_t a_line = is_line ? WORDS_A_KEY : WORDS_A_LINE;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    char word[16] = "";
    for (int64_t count = 0; count < size_bytes / 10; count++) {
        if (!is_line || count % a_line == 0) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            snprintf(word, sizeof(word), (state >> 33) % 10 < 3 ? "hotkey---" : "w%08u",
                     (unsigned)(state >> 36) % 100000000u);
        }
        fputs(word, file);
        fputc((count + 1) % a_line == 0 ? '\n' : ' ', file);
    }
    assert_int_equal(fclose(file), 0);
}

/* The most that all processes of `gyre mr JOB` held, each of which may have so much. */
static long peak_of(const char *job, const char *input, int mebibytes)
{
    char output[128], log[128], memory[32];
    snprintf(output, sizeof(output), "%s/out", kit_top);
    snprintf(log, sizeof(log), "%s/said", kit_top);
    snprintf(memory, sizeof(memory), "%dMiB", mebibytes);
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

GY_TEST(memory_is_kept)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    printf("skipped: sanitizers take memory of their own\n");
    skip();
#endif
    const int mebibytes = getenv("GYRE_SOAK") != NULL ? 32 : 8;
    const long budget_kib = (long)PROCESSES * mebibytes * 1024;
    char words[128], path[160], lines[128];
    snprintf(words, sizeof(words), "%s/words", kit_top);
    snprintf(lines, sizeof(lines), "%s/lines", kit_top);
    assert_int_equal(mkdir(words, 0700), 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "%s/%d", words, i);
        write_words(path, (int64_t)budget_kib * 1024 * 10 / FILES, false);
    }
    write_words(lines, (int64_t)budget_kib * 1024 * 10, true);
    const char *const jobs[][2] = {{"wordcount", words}, {"sort", lines}, {"index", words}};
    for (size_t i = 0; i < GY_COUNT(jobs); i++) {
        long peak = peak_of(jobs[i][0], jobs[i][1], mebibytes);
        printf("soak: %s of ten times its memory: %ld KiB of %ld at most\n", jobs[i][0], peak,
               budget_kib);
        if (peak > budget_kib + budget_kib / 10) {
            fail_msg("%s held %ld KiB, its memory is %ld", jobs[i][0], peak, budget_kib);
        }
        assert_true(peak > budget_kib / 4); /* else it was not looked at */
    }
    kit_alone();
}

GY_TEST_MAIN(kit_begin, kit_end)
