/*
 * Stories that are told from a seed. One that goes wrong is shrunk to what it needs for that.
 * The hunt for planted bugs: seeds are tried until one finds it, in a process of its own, since
 * an assertion of what is tested may find it too.
 */
#ifndef GY_TESTS_HUNT_KIT_H
#define GY_TESTS_HUNT_KIT_H

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "gy_test.h"

/* How a story is told: a bit of `mask` for each of its faults, and how large it is at most. */
typedef struct telling {
    uint64_t seed;
    uint32_t mask, limit;
} telling;

/* Tells it in the world `at`; true: it goes wrong. */
typedef bool (*hunt_wrong)(void *at, const telling *how);

/* Fewer of the faults, until each that is left is needed. */
static inline void hunt_fewer_faults(hunt_wrong is_wrong, void *at, telling *how,
                                     uint32_t faults)
{
    how->mask &= UINT32_MAX >> (32 - faults);
    for (uint32_t before = 0; how->mask != before;) {
        before = how->mask;
        for (uint32_t bit = 0; bit < faults; bit++) {
            telling fewer = *how;
            fewer.mask &= ~(1u << bit);
            *how = fewer.mask != how->mask && is_wrong(at, &fewer) ? fewer : *how;
        }
    }
}

/* Smaller than `size`, as long as it goes wrong. */
static inline void hunt_smaller(hunt_wrong is_wrong, void *at, telling *how, uint32_t size)
{
    telling smaller = *how;
    for (smaller.limit = size; smaller.limit > 1;) {
        smaller.limit--;
        if (!is_wrong(at, &smaller)) {
            return;
        }
        *how = smaller;
    }
}

typedef struct hunt {
    uint64_t seeds;
    char wrong[256]; /* "": nothing was found */
} hunt;

/* Tells one seed's story with bug number `bug` planted; `wrong` gets what went wrong. */
typedef void (*hunt_story)(int bug, uint64_t seed, char wrong[256]);

static inline void hunt_one(hunt_story story, int bug, uint64_t first, uint64_t seeds_max,
                            hunt *found)
{
    fflush(NULL); /* else it may be said twice */
    pid_t hunter = fork();
    assert_true(hunter >= 0);
    if (hunter == 0) {
        (void)freopen("/dev/null", "w", stderr);
        while (found->wrong[0] == '\0' && found->seeds < seeds_max) {
            story(bug, first + found->seeds++, found->wrong);
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(hunter, &status, 0), hunter);
    if (WIFSIGNALED(status)) {
        snprintf(found->wrong, sizeof(found->wrong), "an assertion fails");
    }
}

/* Hunts bugs 1 .. count - 1, says how each was found; how many were not. */
static inline int hunt_all(hunt_story story, const char *const *names, int count,
                           uint64_t first, uint64_t seeds_max)
{
    int missed = 0;
    uint64_t hardest = 0;
    hunt *found =
        mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(found != MAP_FAILED);
    for (int bug = 1; bug < count; bug++) {
        *found = (hunt){0};
        hunt_one(story, bug, first, seeds_max, found);
        printf("%-20s %5llu seeds: %s\n", names[bug], (unsigned long long)found->seeds,
               found->wrong[0] != '\0' ? found->wrong : "NOT FOUND");
        missed += found->wrong[0] == '\0';
        hardest = found->seeds > hardest ? found->seeds : hardest;
    }
    printf("soak: %d of %d planted bugs found, the last after %llu seeds\n", count - 1 - missed,
           count - 1, (unsigned long long)hardest);
    munmap(found, sizeof(*found));
    return missed;
}

#endif
