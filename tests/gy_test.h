/**
 * What every test includes: cmocka, seeds that replay, and the data folder.
 */
#ifndef GY_TEST_H
#define GY_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The seed of a property test: GYRE_SEED replays one, else a fixed one; printed in any case. */
static inline uint64_t gy_test_seed(void)
{
    const char *wanted = getenv("GYRE_SEED");
    uint64_t seed = wanted != NULL ? strtoull(wanted, NULL, 0) : 20260101u;
    printf("seed %llu (GYRE_SEED replays it)\n", (unsigned long long)seed);
    return seed;
}

/*
 * How many of `cases` random or enumerated cases to run: all of them plainly, an eighth (at
 * least one) under a sanitizer, twenty times as many with GYRE_SOAK.
 */
static inline long gy_test_cases(long cases)
{
    if (getenv("GYRE_SOAK") != NULL) {
        return cases * 20;
    }
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    return cases < 8 ? 1 : cases / 8;
#else
    return cases;
#endif
}

/* The same for cases whose code runs on one thread: under TSan, which looks for races between
 * threads and slows most, another quarter of them (at least one). */
static inline long gy_test_serial_cases(long cases)
{
    long count = gy_test_cases(cases);
#if defined(GYRE_TSAN)
    count = count < 4 ? 1 : count / 4;
#endif
    return count;
}

/* Rows [begin, end) of so many: GYRE_TEST_ROWS=BEGIN-END runs a piece of a soak. */
static inline void gy_test_rows(int rows, int *begin, int *end)
{
    const char *wanted = getenv("GYRE_TEST_ROWS");
    char *rest = NULL;
    *begin = 0;
    *end = rows;
    if (wanted != NULL) {
        const long first = strtol(wanted, &rest, 10);
        const long last = *rest == '-' ? strtol(rest + 1, &rest, 10) : -1;
        if (*rest != '\0' || first < 0 || last <= first) {
            fail_msg("GYRE_TEST_ROWS is '%s', expected BEGIN-END", wanted);
        }
        *begin = (int)(first < rows ? first : rows);
        *end = (int)(last < rows ? last : rows);
    }
}

/* Whether row `i` of a table of commands is run. Rows differ in what they ask for, little in
 * the lines that serve them, and a start is what a sanitizer makes dear: ASan takes each second
 * row, TSan each fourth of the others; all are run plainly and with GYRE_SOAK. */
static inline bool gy_test_takes(size_t i)
{
#if defined(GYRE_ASAN)
    return i % 2 == 0 || getenv("GYRE_SOAK") != NULL;
#elif defined(GYRE_TSAN)
    return i % 4 == 1 || getenv("GYRE_SOAK") != NULL;
#else
    (void)i;
    return true;
#endif
}

/* What is left out so, into the result of the suite. */
static inline void gy_test_left_out(const char *what, size_t left, size_t of)
{
    if (left > 0) {
        printf("skipped: %zu of %zu %s, under a sanitizer\n", left, of, what);
    }
}

/* Seconds in which survivors name a killed rank: half a second is promised without a sanitizer.
 */
static inline double gy_test_named_s(void)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    return 2;
#else
    return 0.5;
#endif
}

/* Run a line of shell to its end; its exit status, -1 by a signal. `out` gets what it says, cut
 * to what fits. */
static inline int gy_test_shell(const char *line, char *out, size_t size)
{
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    out[fread(out, 1, size - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Say it in one write, so that lines of two ranks do not mix. */
__attribute__((format(printf, 1, 2))) static inline void gy_test_say(const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    size = size < (int)sizeof(line) ? size : (int)sizeof(line) - 1;
    (void)!write(STDOUT_FILENO, line, (size_t)size);
}

/* A file of the shared test data, or NULL (the caller prints why it skips, then skip()s). */
static inline const char *gy_test_data(char out[1024], const char *name)
{
    const char *root = getenv("GYRE_DATA");
    snprintf(out, 1024, "%s/%s", root != NULL ? root : "../shared/data", name);
    FILE *file = fopen(out, "rb");
    if (file == NULL) {
        printf("no test data at %s\n", out);
        return NULL;
    }
    fclose(file);
    return out;
}

/* ---- the tests of a file ---- */

typedef struct gy_test_row {
    struct CMUnitTest test;
    const char *file;
    int line;
} gy_test_row;

/*
 * Define a test and list it: GY_TEST(test_it_works) { ... }. Its parameter is cmocka's `state`.
 * GY_TEST_WITH takes more members of its row: GY_TEST_WITH(test_it_works, .setup_func = begin).
 */
#define GY_TEST(name_) GY_TEST_WITH(name_, .initial_state = NULL)
#define GY_TEST_WITH(name_, ...)                                                               \
    static void name_(void **state);                                                           \
    static const gy_test_row name_##_row = {                                                   \
        {.name = #name_, .test_func = name_, __VA_ARGS__}, __BASE_FILE__, __LINE__};           \
    __attribute__((section("gy_tests"), used)) static const gy_test_row *const name_##_at =    \
        &name_##_row;                                                                          \
    static void name_(__attribute__((unused)) void **state)

/* The linker's names for the begin and end of that section. */
// NOLINTBEGIN(bugprone-reserved-identifier)
extern const gy_test_row *const __start_gy_tests[], *const __stop_gy_tests[];
// NOLINTEND(bugprone-reserved-identifier)

/* Run the tests of that file in the order of their lines; the count of those that failed. */
static inline int gy_tests_run(const char *file, CMFixtureFunction begin, CMFixtureFunction end)
{
    const size_t all = (size_t)(__stop_gy_tests - __start_gy_tests);
    struct CMUnitTest tests[512];
    size_t count = 0;
    assert_true(all <= sizeof(tests) / sizeof(tests[0]));
    for (int line = 0, next = 0; next != INT32_MAX; line = next) {
        next = INT32_MAX;
        const gy_test_row *found = NULL;
        for (size_t i = 0; i < all; i++) {
            const gy_test_row *row = __start_gy_tests[i];
            if (row->line > line && row->line < next && strcmp(row->file, file) == 0) {
                found = row;
                next = row->line;
            }
        }
        if (found != NULL) {
            tests[count++] = found->test;
        }
    }
    const char *name = strrchr(file, '/');
    return _cmocka_run_group_tests(name != NULL ? name + 1 : file, tests, count, begin, end);
}

/* The tests of this file, between what is done before the first and after the last; either may
 * be NULL. */
#define GY_TESTS_RUN(begin, end) gy_tests_run(__BASE_FILE__, begin, end)

/* A main that does nothing else. */
#define GY_TEST_MAIN(begin, end)                                                               \
    int main(void)                                                                             \
    {                                                                                          \
        return GY_TESTS_RUN(begin, end);                                                       \
    }

#define assert_ok(expr)                                                                        \
    do {                                                                                       \
        gy_status gy_got_ = (expr);                                                            \
        if (gy_got_ != GY_OK) {                                                                \
            fail_msg("%s gave %s: %s", #expr, gy_status_text(gy_got_), gy_error_text());       \
        }                                                                                      \
    } while (0)

#define assert_status(expr, expected)                                                          \
    do {                                                                                       \
        gy_status gy_got_ = (expr);                                                            \
        if (gy_got_ != (expected)) {                                                           \
            fail_msg("%s gave %s (%s), expected %s", #expr, gy_status_text(gy_got_),           \
                     gy_error_text(), gy_status_text(expected));                               \
        }                                                                                      \
    } while (0)

#endif
