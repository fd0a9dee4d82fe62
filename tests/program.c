/*
 * The program of all tests of a folder. It has a hard link for each test, and runs the one
 * whose name it was started by: the path of its execution, then that of its file (which was
 * started as /proc/self/exe), then what it is told to be called (a copy has another name).
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "program.h"
#undef main

/* Some take no arguments, and ignore these. */
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#define GYRE_TEST(name) extern int gyre_main_##name();
#include GYRE_TESTS_FILE
#undef GYRE_TEST

typedef struct test_row {
    const char *name;
    int (*run)();
} test_row;

static const test_row tests[] = {
#define GYRE_TEST(name) {#name, gyre_main_##name},
#include GYRE_TESTS_FILE
#undef GYRE_TEST
};

enum { TESTS = sizeof(tests) / sizeof(tests[0]) };

static const test_row *find(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : path;
    for (int i = 0; name != NULL && i < TESTS; i++) {
        if (strcmp(tests[i].name, name) == 0) {
            return &tests[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    char file[4096];
    const ssize_t size = readlink("/proc/self/exe", file, sizeof(file) - 1);
    file[size > 0 ? size : 0] = '\0';
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's */
    const test_row *test = find((const char *)getauxval(AT_EXECFN));
    test = test != NULL ? test : find(file);
    test = test != NULL ? test : find(argc > 0 ? argv[0] : NULL);
    if (test != NULL) {
        return test->run(argc, argv);
    }
    fprintf(stderr, "this program holds %d tests, and is started by the name of one:\n", TESTS);
    for (int i = 0; i < TESTS; i++) {
        fprintf(stderr, "    %s\n", tests[i].name);
    }
    return 2;
}
