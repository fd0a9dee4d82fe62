/* The peer: the same tasks as `omp task depend` of libgomp. */
#include "engine_case.h"

#include <omp.h>
#include <sched.h>

/* The index-th core of the set. */
static void bind_to(const cpu_set_t *cores, int index)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, cores) && index-- == 0) {
            CPU_SET(core, &one);
            (void)sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

double openmp_run(double (*run)(const bench_case *which, int threads), const bench_case *which,
                  int threads)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    (void)sched_getaffinity(0, sizeof(cores), &cores);
#pragma omp parallel num_threads(threads)
    bind_to(&cores, omp_get_thread_num() % CPU_COUNT(&cores));
    double seconds = run(which, threads);
    (void)sched_setaffinity(0, sizeof(cores), &cores);
    return seconds;
}

double openmp_chain(const bench_case *which, int threads)
{
    case_cell *cells = which->cells;
    double start = 0;
    double end = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
        start = case_clock(threads);
        for (int i = 0; i < which->count; i++) {
#pragma omp task depend(inout : cells[0])
            cells[0].count++;
        }
#pragma omp taskwait
        end = case_clock(threads);
    }
    return end - start;
}

double openmp_fan(const bench_case *which, int threads)
{
    case_cell *cells = which->cells;
    case_task *tasks = which->tasks;
    double start = 0;
    double end = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
        start = case_clock(threads);
        for (int i = 0; i < which->count; i++) {
            if (i % (CASE_FAN + 1) == 0) {
#pragma omp task depend(inout : cells[0])
                cells[0].count++;
            } else {
#pragma omp task depend(in : cells[0]) firstprivate(i)
                tasks[i].ran++;
            }
        }
#pragma omp taskwait
        end = case_clock(threads);
    }
    return end - start;
}

double openmp_random(const bench_case *which, int threads)
{
    case_cell *cells = which->cells;
    const case_task *tasks = which->tasks;
    double start = 0;
    double end = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
        start = case_clock(threads);
        for (int i = 0; i < which->count; i++) {
            int32_t a = tasks[i].reads[0];
            int32_t b = tasks[i].reads[1];
            int32_t c = tasks[i].mutates;
#pragma omp task depend(in : cells[a], cells[b]) depend(inout : cells[c]) firstprivate(c)
            {
                cells[c].count++;
                case_work(&cells[c], which->spins);
            }
        }
#pragma omp taskwait
        end = case_clock(threads);
    }
    return end - start;
}
