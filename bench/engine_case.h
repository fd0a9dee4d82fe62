/**
 * The three shapes of empty tasks that both sides run, and the counters that prove they ran.
 */
#ifndef GY_BENCH_ENGINE_CASE_H
#define GY_BENCH_ENGINE_CASE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { CASE_VARS = 1024, CASE_FAN = 1024 };

/* One cache line each, so that neighbours do not disturb one another. */
typedef struct case_cell {
    _Alignas(64) int64_t count;
    uint64_t waste;
} case_cell;

/* One task: it reads two cells and adds one to a third. */
typedef struct case_task {
    int32_t reads[2], mutates;
    uint8_t ran; /* fans: how often this task ran */
} case_task;

typedef struct bench_case {
    const char *name;
    int count; /* tasks */
    case_task *tasks;
    case_cell *cells; /* CASE_VARS */
    int spins;        /* steps of arithmetic in a body, each about a nanosecond; 0: empty */
} bench_case;

/* Seconds on the clock that both sides are measured by: alone, a thread's own processor time.
 */
static inline double case_clock(int threads)
{
    struct timespec now;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Work that no compiler removes. */
static inline void case_work(case_cell *cell, int spins)
{
    uint64_t x = (uint64_t)spins;
    for (int i = 0; i < spins; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
    }
    cell->waste += x;
}

/* Seconds of one run under libgomp with `threads` threads. */
double openmp_chain(const bench_case *which, int threads);
double openmp_fan(const bench_case *which, int threads);
double openmp_random(const bench_case *which, int threads);

/* One of them with thread i bound to the i-th core; the caller is set free again afterwards. */
double openmp_run(double (*run)(const bench_case *which, int threads), const bench_case *which,
                  int threads);

#endif
