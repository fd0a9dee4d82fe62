/* Reads the kernel's state of a process. */
#ifndef GY_CLUSTER_HOST_PROCESS_TEST_H
#define GY_CLUSTER_HOST_PROCESS_TEST_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

/* The fields of /proc/PID/stat from the state on; NULL: no such process. */
static inline const char *kit_stat(pid_t process, char text[512])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, text, 511) : 0;
    if (file >= 0) {
        close(file);
    }
    text[GY_MAX(size, 0)] = '\0';
    const char *end = strrchr(text, ')');
    return end != NULL ? end + 2 : NULL;
}

static inline pid_t kit_parent_of(pid_t process)
{
    char text[512];
    const char *at = kit_stat(process, text);
    assert_non_null(at);
    return (pid_t)strtol(at + 2, NULL, 10);
}

/* Has it ended, and been reaped or at least become a zombie? */
static inline bool kit_is_gone(pid_t process)
{
    char text[512];
    const char *at = kit_stat(process, text);
    return at == NULL || at[0] == 'Z' || at[0] == 'X';
}

#endif
