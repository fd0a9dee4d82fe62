/*
 * Empty tasks: the engine against libgomp's `task depend`, in one process, alternating,
 * medians.
 *
 * usage: bench_engine [--csv FILE] [--tasks N] [--rounds N]
 *
 * chain: each task mutates one variable. fan: one mutation, then 1,024 readers of it, again and
 * again. random: each task reads two and mutates one of 1,024 variables. Two threads: the
 * pusher is one of the two workers on both sides, both bound, by the wall clock; one thread:
 * its own processor time. Each body adds one to a counter that is checked.
 */
#include "engine_case.h"

#include "base/base.h"
#include <gyre/engine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 101 };

/* The spins of all tasks of a case; the bodies read it. */
static int spins_now;

typedef struct side {
    gy_engine *engine;
    gy_var *vars[CASE_VARS];
} side;

static void add_one(void *arg, gy_done *done)
{
    case_cell *cell = arg;
    cell->count++;
    gy_done_ok(done);
}

static void add_one_and_work(void *arg, gy_done *done)
{
    case_cell *cell = arg;
    cell->count++;
    case_work(cell, spins_now);
    gy_done_ok(done);
}

static void mark(void *arg, gy_done *done)
{
    case_task *task = arg;
    task->ran++;
    gy_done_ok(done);
}

static void must(gy_status status)
{
    if (status != GY_OK) {
        gy_panic("%s: %s", gy_status_text(status), gy_error_text());
    }
}

static void push_chain(const bench_case *which, side *ours)
{
    const gy_task task = {
        .run = add_one, .arg = &which->cells[0], .mutates = ours->vars, .mutate_count = 1};
    for (int i = 0; i < which->count; i++) {
        must(gy_engine_push(ours->engine, &task));
    }
}

static void push_fan(const bench_case *which, side *ours)
{
    for (int i = 0; i < which->count; i++) {
        if (i % (CASE_FAN + 1) == 0) {
            must(gy_engine_push(ours->engine, &(gy_task){.run = add_one,
                                                         .arg = &which->cells[0],
                                                         .mutates = ours->vars,
                                                         .mutate_count = 1}));
        } else {
            must(gy_engine_push(ours->engine, &(gy_task){.run = mark,
                                                         .arg = &which->tasks[i],
                                                         .reads = ours->vars,
                                                         .read_count = 1}));
        }
    }
}

static void push_random(const bench_case *which, side *ours)
{
    spins_now = which->spins;
    gy_work run = which->spins > 0 ? add_one_and_work : add_one;
    for (int i = 0; i < which->count; i++) {
        const case_task *task = &which->tasks[i];
        gy_var *reads[2] = {ours->vars[task->reads[0]], ours->vars[task->reads[1]]};
        must(gy_engine_push(ours->engine, &(gy_task){.run = run,
                                                     .arg = &which->cells[task->mutates],
                                                     .reads = reads,
                                                     .read_count = 2,
                                                     .mutates = &ours->vars[task->mutates],
                                                     .mutate_count = 1}));
    }
}

typedef struct shape {
    const char *name;
    int spins, part; /* of the body; one in `part` of the tasks */
    void (*push)(const bench_case *which, side *ours);
    double (*peer)(const bench_case *which, int threads);
} shape;

static const shape shapes[] = {
    {.name = "chain", .part = 1, .push = push_chain, .peer = openmp_chain},
    {.name = "fan", .part = 1, .push = push_fan, .peer = openmp_fan},
    {.name = "random", .part = 1, .push = push_random, .peer = openmp_random},
    {.name = "random_1us",
     .spins = 1000,
     .part = 8,
     .push = push_random,
     .peer = openmp_random},
    {.name = "random_10us",
     .spins = 10000,
     .part = 40,
     .push = push_random,
     .peer = openmp_random},
};

static double run_ours(const shape *form, const bench_case *which, side *ours, int threads)
{
    double start = case_clock(threads);
    form->push(which, ours);
    must(gy_engine_wait_all(ours->engine, GY_NEVER));
    return case_clock(threads) - start;
}

/* Every task has run exactly once; the counters are cleared. */
static void check(const shape *form, const bench_case *which, const char *who)
{
    int64_t expected[CASE_VARS] = {0};
    for (int i = 0; i < which->count; i++) {
        bool is_reader = form->push == push_fan && i % (CASE_FAN + 1) != 0;
        if (is_reader && which->tasks[i].ran != 1) {
            gy_panic("%s %s: task %d ran %d times", who, form->name, i, which->tasks[i].ran);
        }
        which->tasks[i].ran = 0;
        if (!is_reader) {
            expected[form->push == push_random ? which->tasks[i].mutates : 0]++;
        }
    }
    for (int v = 0; v < CASE_VARS; v++) {
        if (which->cells[v].count != expected[v]) {
            gy_panic("%s %s: variable %d counts %lld, expected %lld", who, form->name, v,
                     (long long)which->cells[v].count, (long long)expected[v]);
        }
        which->cells[v].count = 0;
    }
}

static int is_less(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(values[0]), is_less);
    return values[count / 2];
}

/* libgomp's threads spin for some milliseconds after a parallel region: let them go to sleep.
 * Both sides begin asleep then, which also is alike before the kernel's scheduler. */
static void settle(void)
{
    const struct timespec pause = {.tv_nsec = 30000000};
    nanosleep(&pause, NULL);
}

/* A new engine in every round, and nothing else of ours while the peer runs. */
static void compare(const shape *form, const bench_case *which, int threads, int rounds,
                    FILE *csv)
{
    double ours_s[ROUNDS_MAX];
    double peer_s[ROUNDS_MAX];
    for (int round = -1; round < rounds; round++) {
        side ours = {.engine = NULL};
        must(gy_engine_new(&(gy_engine_options){.workers = threads, .bind = true},
                           &ours.engine));
        for (int v = 0; v < CASE_VARS; v++) {
            must(gy_var_new(ours.engine, &ours.vars[v]));
        }
        (void)run_ours(form, which, &ours, threads);
        check(form, which, "gyre");
        settle();
        double mine = run_ours(form, which, &ours, threads);
        check(form, which, "gyre");
        gy_engine_free(ours.engine);
        settle();
        double theirs = openmp_run(form->peer, which, threads);
        check(form, which, "libgomp");
        if (round >= 0) { /* the first pair warms up */
            ours_s[round] = mine;
            peer_s[round] = theirs;
        }
    }
    double ours_ns = median(ours_s, rounds) * 1e9 / which->count;
    double peer_ns = median(peer_s, rounds) * 1e9 / which->count;
    printf("%-12s %d  %10.1f %12.1f %8.2f\n", form->name, threads, ours_ns, peer_ns,
           peer_ns / ours_ns);
    if (csv != NULL) {
        fprintf(csv, "engine_%s_%d,%.1f,%.1f,%.3f\n", form->name, threads, ours_ns, peer_ns,
                peer_ns / ours_ns);
    }
}

static bench_case make_case(int count)
{
    bench_case made = {.count = count};
    made.tasks = gy_alloc_zero("bench.tasks", (size_t)count, sizeof(case_task));
    made.cells = gy_alloc_zero("bench.cells", CASE_VARS, sizeof(case_cell));
    GY_ASSERT(made.tasks != NULL && made.cells != NULL);
    gy_random random = {.key = 7};
    for (int i = 0; i < count; i++) {
        made.tasks[i].reads[0] = (int32_t)gy_random_below(&random, CASE_VARS);
        made.tasks[i].reads[1] = (int32_t)gy_random_below(&random, CASE_VARS);
        made.tasks[i].mutates = (int32_t)gy_random_below(&random, CASE_VARS);
    }
    return made;
}

int main(int count, char **words)
{
    const char *csv_name = NULL;
    int tasks = 102500;
    int rounds = 15;
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(words[i], "--csv") == 0) {
            csv_name = words[i + 1];
        } else if (strcmp(words[i], "--tasks") == 0) {
            tasks = GY_MAX(atoi(words[i + 1]), 1);
        } else if (strcmp(words[i], "--rounds") == 0) {
            rounds = GY_MIN(GY_MAX(atoi(words[i + 1]), 1), ROUNDS_MAX);
        } else {
            fprintf(stderr, "bench_engine: unknown option %s\n", words[i]);
            return 2;
        }
    }
    FILE *csv = csv_name != NULL ? fopen(csv_name, "a") : NULL;
    if (csv_name != NULL && csv == NULL) {
        fprintf(stderr, "bench_engine: cannot write %s\n", csv_name);
        return 1;
    }
    bench_case all = make_case(tasks);
    printf("%-12s %s  %10s %12s %8s\n", "case", "n", "gyre ns", "libgomp ns", "ratio");
    for (int threads = 2; threads >= 1; threads--) {
        for (size_t i = 0; i < GY_COUNT(shapes); i++) {
            bench_case which = all;
            which.spins = shapes[i].spins;
            which.count = GY_MAX(tasks / shapes[i].part, 1);
            if (threads == 1 && shapes[i].push == push_fan) {
                /* One thread's fan is quadratic in libgomp: 124 us a task of 100,000. */
                which.count = GY_MIN(which.count, CASE_FAN + 1);
            }
            compare(&shapes[i], &which, threads, rounds, csv);
        }
    }
    gy_free(all.tasks);
    gy_free(all.cells);
    if (csv != NULL && fclose(csv) != 0) {
        fprintf(stderr, "bench_engine: cannot write %s\n", csv_name);
        return 1;
    }
    return 0;
}
