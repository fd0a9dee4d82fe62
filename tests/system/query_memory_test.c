/*
 * Goal: a query over ten times its memory keeps to it: what no file backs is at most a tenth
 * above the budget and a base that does not grow with the data, and no row is lost. Rows are
 * grouped by 25 columns, joined and sorted; every answer has as many rows as the table.
 */
#include "jobs_kit.h"

/* What a process of two workers holds whatever it reads: code's data, stacks, cuts of a file
 * that are read at once with their frames, and what the allocator keeps between. */
#define BASE_KIB (24L << 10)

enum { KEYS = 25, ROW_BYTES = KEYS * 8 };

static long anonymous_kib(pid_t process)
{
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "RssAnon: %ld", &kib) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

/* Rows of 25 numbers, no two alike. */
static void write_rows(const char *path, long rows)
{
    uint64_t state = gy_test_seed();
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int k = 0; k < KEYS; k++) {
        fprintf(file, "%sk%d", k > 0 ? "," : "", k);
    }
    for (long row = 0; row < rows; row++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        fprintf(file, "\n%ld", row);
        for (int k = 1; k < KEYS; k++) {
            fprintf(file, ",%u", (unsigned)(state >> (20 + k)) % 100000u);
        }
    }
    fputc('\n', file);
    assert_int_equal(fclose(file), 0);
}

/* Run a query into a file; budget 0: without one. The most that it held. */
static long peak_of(const char *sql, long budget_kib, const char *answer)
{
    char log[128], memory[32];
    snprintf(log, sizeof(log), "%s/said", kit_top);
    snprintf(memory, sizeof(memory), "%ldKiB", budget_kib);
    assert_int_equal(setenv("TMPDIR", kit_top, 1), 0);
    char *const arguments[] = {getenv("GYRE_BIN"),
                               "query",
                               "--tables",
                               kit_top,
                               "-o",
                               (char *)(uintptr_t)answer,
                               "-w",
                               "2",
                               (char *)(uintptr_t)sql,
                               budget_kib > 0 ? "--memory" : NULL,
                               memory,
                               NULL};
    const pid_t process = kit_start(arguments, log);
    long peak = 0;
    int status = 0;
    for (const double last = kit_now() + KIT_WAIT_SECONDS; !kit_has_ended(process, &status);) {
        const long now = anonymous_kib(process);
        peak = now > peak ? now : peak;
        if (kit_now() > last) {
            (void)kill(process, SIGKILL);
        }
        kit_pause();
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        size_t size;
        fail_msg("gyre query ended with %d: %s", status, kit_read(log, &size));
    }
    return peak;
}

/* Lines of an answer, which has the same bytes as another one; both go. */
static long compare(const char *one, const char *other)
{
    FILE *a = fopen(one, "r"), *b = fopen(other, "r");
    long lines = 0;
    assert_true(a != NULL && b != NULL);
    for (int c = 0; c != EOF;) {
        c = getc(a);
        if (c != getc(b)) {
            fail_msg("line %ld differs", lines + 1);
        }
        lines += c == '\n';
    }
    fclose(a);
    fclose(b);
    assert_int_equal(unlink(one), 0);
    assert_int_equal(unlink(other), 0);
    return lines;
}

static void check_query(const char *sql, long budget_kib, long rows)
{
    char all[128], little[128];
    snprintf(all, sizeof(all), "%s/all.csv", kit_top);
    snprintf(little, sizeof(little), "%s/little.csv", kit_top);
    (void)peak_of(sql, 0, all);
    const long peak = peak_of(sql, budget_kib, little);
    printf("soak: %ld rows with %ld KiB: %ld KiB: %.40s\n", rows, budget_kib, peak, sql);
    assert_int_equal(compare(all, little), rows + 1);
    if (peak > budget_kib + budget_kib / 10 + BASE_KIB) {
        fail_msg("%s: %ld KiB were held, the budget is %ld KiB", sql, peak, budget_kib);
    }
}

GY_TEST(memory_is_kept)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    printf("skipped: sanitizers take memory of their own\n");
    skip();
#endif
    const long rows = getenv("GYRE_SOAK") != NULL ? 3000000 : 300000;
    const long budget_kib = rows * ROW_BYTES / 10 / 1024;
    char path[128], keys[256] = "k0", group[640], joined[256];
    snprintf(path, sizeof(path), "%s/t.csv", kit_top);
    write_rows(path, rows);
    for (int k = 1; k < KEYS; k++) {
        const size_t size = strlen(keys);
        snprintf(keys + size, sizeof(keys) - size, ", k%d", k);
    }
    snprintf(group, sizeof(group), "select %s, count(*) from t group by %s", keys, keys);
    snprintf(joined, sizeof(joined),
             "select a.k0, b.k1, a.k2 from t a join t b on a.k0 = b.k0");
    check_query(group, budget_kib, rows);
    check_query(joined, budget_kib, rows);
    check_query("select * from t order by k24, k0", budget_kib, rows);
    kit_alone();
    assert_int_equal(unlink(path), 0);
}

GY_TEST_MAIN(kit_begin, kit_end)
