/**
 * A test program that is a job of a cluster, which runs one: its manager runs the one test that
 * GYRE_TEST_ONLY names, and says how it went in the file GYRE_TEST_SAID.
 */
#ifndef GY_TESTS_SUBMITTED_KIT_H
#define GY_TESTS_SUBMITTED_KIT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

static inline bool submitted_is(void)
{
    return getenv("GYRE_TICKET") != NULL;
}

/* Before the tests; nothing where nobody asked for it. */
static inline void submitted_begin(void)
{
    const char *only = getenv("GYRE_TEST_ONLY"), *path = getenv("GYRE_TEST_SAID");
    if (only != NULL) {
        cmocka_set_test_filter(only);
    }
    if (path != NULL && (freopen(path, "a", stdout) == NULL || dup2(1, 2) < 0)) {
        exit(3);
    }
}

/* Files of the job that lie at daemons, as a pattern; else those in its own folder. */
static inline const char *submitted_data(char out[300], const char *folder)
{
    const char *at_daemons = getenv("GYRE_TEST_DATA");
    snprintf(out, 300, "%.290s%s", at_daemons != NULL ? at_daemons : folder,
             at_daemons != NULL ? "" : "/data/*");
    return out;
}

/* This process is at the host that is to be slow: its program lies in that daemon's folder. */
static inline bool submitted_is_at_slow_host(void)
{
    char path[4096];
    const char *slow = getenv("GYRE_TEST_SLOW");
    const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[size > 0 ? size : 0] = '\0';
    return slow != NULL && strstr(path, slow) != NULL;
}

#endif
