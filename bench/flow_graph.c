/*
 * What a vertex costs through the public interface: a graph of empty vertices, each with two
 * inputs from the layer before, built, checked, run by processes of this program, journalled;
 * and an empty job from exec to exit.
 *
 * usage: bench_flow_graph [LAYERS [WIDTH [PROCESSES]]]      (1000 1000 2)
 *        bench_flow_graph empty [RUNS]                      (21)
 */
#include <gyre/flow.h>

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static gy_status nothing(gy_vertex *vertex)
{
    (void)vertex;
    return GY_OK;
}

static int fail(const char *what)
{
    fprintf(stderr, "bench_flow_graph: %s: %s\n", what, gy_error_text());
    return 1;
}

static int run_graph(gy_flow *flow, int layers, int width, int processes)
{
    const double begin = now();
    gy_dag *dag = gy_dag_new(flow, "empty vertices");
    gy_part all = {dag, -1};
    for (int i = 0; i < layers; i++) {
        const gy_vertex_options options = {
            .function = "nothing", .inputs = i > 0 ? 2 : 0, .outputs = i + 1 < layers ? 2 : 0};
        gy_part layer = gy_part_clone(gy_dag_vertex(dag, &options), width);
        all = i > 0 ? gy_part_pointwise(all, layer, GY_CHANNEL_FILE) : layer;
    }
    const double built = now();
    gy_flow_report *report = NULL;
    const gy_flow_options options = {.processes = processes, .copy_floor_seconds = -1};
    if (gy_flow_run(flow, dag, &options, &report) < 0) {
        return fail("the job");
    }
    const double end = now(), count = (double)layers * width;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (layers > 1) {
        printf("%.0f vertices, %d processes: built in %.3f s, run in %.3f s: %.2f us a vertex "
               "in all, "
               "peak %.0f MB\n",
               count, processes, built - begin, end - built, (end - begin) * 1e6 / count,
               (double)usage.ru_maxrss / 1024);
    }
    gy_flow_report_free(report);
    gy_dag_free(dag);
    return 0;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int run_empty(int runs)
{
    double *all = calloc((size_t)runs, sizeof(*all));
    for (int i = 0; i < runs; i++) {
        char self[] = "/proc/self/exe", one[] = "1";
        char *const argv[] = {self, one, one, one, NULL};
        pid_t child = 0;
        int status = 0;
        const double begin = now();
        if (posix_spawn(&child, self, NULL, NULL, argv, environ) != 0 ||
            waitpid(child, &status, 0) != child || status != 0) {
            return fail("an empty job");
        }
        all[i] = (now() - begin) * 1e3;
    }
    qsort(all, (size_t)runs, sizeof(*all), compare);
    printf("empty job, exec to exit: median %.1f ms, least %.1f, most %.1f of %d runs\n",
           all[runs / 2], all[0], all[runs - 1], runs);
    free(all);
    return 0;
}

int main(int argc, char **argv)
{
    const gy_function functions[] = {GY_VERTEX("nothing", nothing)};
    gy_flow *flow = gy_flow_start(&argc, &argv, functions, 1);
    if (flow == NULL) {
        return 1;
    }
    int status = 0;
    if (argc > 1 && strcmp(argv[1], "empty") == 0) {
        status = run_empty(argc > 2 ? (int)strtol(argv[2], NULL, 10) : 21);
    } else {
        status = run_graph(flow, argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000,
                           argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000,
                           argc > 3 ? (int)strtol(argv[3], NULL, 10) : 2);
    }
    gy_flow_end(flow);
    return status;
}
