/**
 * What tests of MPI programs share: a command line to its end, what a rank says at its end, and
 * a training run. GYRE_BUILD is the build folder, GYRE_SANITIZE the sanitizer or "".
 */
#ifndef GY_MPI_KIT_H
#define GY_MPI_KIT_H

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "digits_kit.h"
#include "gy_test.h"

#ifndef GYRE_HAS_OPENMPI
#define GYRE_HAS_OPENMPI 0
#endif
#ifndef GYRE_HAS_MPICH
#define GYRE_HAS_MPICH 0
#endif

/*
 * The MPI libraries keep memory to the end and are not instrumented. UCX patches madvise, which
 * a thread that ends calls after TSan has let go of it: even an empty MPI program dies of that.
 * Threads of MPI's that are there at exit make TSan wait, a second if it were not told.
 */
static inline const char *sanitizers(void)
{
    return strlen(GYRE_SANITIZE) > 0
               ? "ASAN_OPTIONS=detect_leaks=0 "
                 "TSAN_OPTIONS=ignore_noninstrumented_modules=1:atexit_sleep_ms=50 "
                 "UCX_MEM_EVENTS=no"
               : "";
}

typedef struct outcome {
    int status; /* of the launcher; 124: it was ended by the time limit */
    char said[8192];
} outcome;

static inline void run_command(const char *command, outcome *result)
{
    FILE *pipe = popen(command, "r");
    size_t used = 0;
    assert_non_null(pipe);
    for (;;) {
        char rest[512];
        bool is_full = used + 1 >= sizeof(result->said);
        size_t got = is_full
                         ? fread(rest, 1, sizeof(rest), pipe)
                         : fread(result->said + used, 1, sizeof(result->said) - 1 - used, pipe);
        if (got == 0) {
            break;
        }
        used += is_full ? 0 : got;
    }
    result->said[used] = '\0';
    int status = pclose(pipe);
    result->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static inline long taken_over(const char *said)
{
    const char *at = strstr(said, " collectives taken over");
    while (at != NULL && at > said && at[-1] != ' ') {
        at--;
    }
    return at != NULL ? strtol(at, NULL, 10) : -1;
}

/* Trains on the digits in `top`, with `how` in front of the command, into top/name; out: 0 or
 * what failed. The first time the digits are made. */
static inline int train(const char *how, const char *top, const char *name)
{
    char command[4096], digits[256];
    outcome result;
    snprintf(digits, sizeof(digits), "%s/digits", top);
    if (mkdir(digits, 0700) == 0) {
        kit_write_digits(digits, 640, 16);
    }
    snprintf(command, sizeof(command),
             "%s timeout -k 5 60 %s %s/gyre train softmax --data %s "
             "--steps-max 20 --output %s/%s 2>&1",
             sanitizers(), how, GYRE_BUILD, digits, top, name);
    run_command(command, &result);
    if (result.status != 0) {
        fprintf(stderr, "%s\nended with %d:\n%s\n", command, result.status, result.said);
    }
    return result.status;
}

#endif
