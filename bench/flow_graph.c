/*
 * What a vertex costs through the public interface: a graph of empty vertices, each with two
 * inputs from the layer before, built, checked, run by processes of this program, journalled,
 * then resumed from that journal; and an empty job from exec to exit, beside its floor: as many
 * processes that do nothing, one file synced.
 *
 * usage: bench_flow_graph graph FOLDER [LAYERS [WIDTH [PROCESSES]]]      (1000 1000 2)
 *        bench_flow_graph empty FOLDER [RUNS]                            (21)
 */
#include <gyre/flow.h>

#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

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

/* The vertex behind all others: fails until the file is there that its parameter names. */
static gy_status last(gy_vertex *vertex)
{
    size_t size = 0;
    return access(gy_vertex_parameter(vertex, &size), F_OK) == 0 ? GY_OK : GY_STATE;
}

static int fail(const char *what)
{
    (void)fprintf(stderr, "bench_flow_graph: %s: %s\n", what, gy_error_text());
    return 1;
}

typedef struct shape {
    int layers, width, processes;
} shape;

/* Rows of vertices, each with two inputs from the row before, and one behind the last row. */
static gy_dag *make_graph(gy_flow *flow, const shape *of, const char *gate)
{
    gy_dag *dag = NULL;
    if (gy_dag_new(flow, "empty vertices", &dag) < 0) {
        return NULL; /* which gy_flow_run refuses */
    }
    gy_part all = {dag, -1};
    for (int i = 0; i < of->layers; i++) {
        const gy_vertex_options options = {.function = "nothing",
                                           .inputs = i > 0 ? 2 : 0,
                                           .outputs = i + 1 < of->layers ? 2 : 1};
        gy_part layer = gy_part_clone(gy_dag_vertex(dag, &options), of->width);
        all = i > 0 ? gy_part_pointwise(all, layer, GY_CHANNEL_FILE) : layer;
    }
    const gy_vertex_options behind = {.function = "last",
                                      .inputs = GY_PORTS_ANY,
                                      .parameter = gate,
                                      .parameter_bytes = strlen(gate) + 1};
    gy_part_bipartite(all, gy_dag_vertex(dag, &behind), GY_CHANNEL_FILE);
    return dag;
}

/* Build the graph and run it, or go on with what ran in the folder. Seconds. */
static double run_graph(gy_flow *flow, const shape *of, const char *folder, bool is_resume,
                        gy_status *status)
{
    char gate[PATH_BYTES];
    (void)snprintf(gate, sizeof(gate), "%s-gate", folder);
    const double begin = now();
    gy_dag *dag = make_graph(flow, of, gate);
    const gy_flow_options options = {.folder = folder,
                                     .processes = of->processes,
                                     .failures_max = 1,
                                     .backup_floor_s = -1,
                                     .is_resume = is_resume};
    *status = gy_flow_run(flow, dag, &options, NULL);
    gy_dag_free(dag);
    return now() - begin;
}

/* The last vertex lets the job fail; with the gate open only that one has to run again. */
static int measure_graph(gy_flow *flow, const shape *of, const char *folder)
{
    char own[PATH_BYTES], gate[PATH_BYTES + 8];
    (void)snprintf(own, sizeof(own), "%s/graph", folder);
    (void)snprintf(gate, sizeof(gate), "%s-gate", own);
    gy_status status = GY_OK;
    const double seconds = run_graph(flow, of, own, false, &status);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const int file = open(gate, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (status != GY_STATE || file < 0 || close(file) != 0) {
        return fail("the job did not end at its last vertex");
    }
    const double again = run_graph(flow, of, own, true, &status);
    if (status < 0) {
        return fail("the job cannot go on");
    }
    const double count = (double)of->layers * of->width;
    printf(
        "%.0f vertices, %d processes: %.3f us a vertex, peak %.1f MB, read again in %.3f s\n",
        count, of->processes, seconds * 1e6 / count, (double)usage.ru_maxrss / 1024, again);
    return 0;
}

/* ---- the empty job ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds from exec to exit of this program with a verb; < 0: it failed. */
static double spawn(char *verb, char *folder)
{
    char self[] = "/proc/self/exe";
    char *const argv[] = {self, verb, folder, NULL};
    pid_t child = 0;
    int status = 0;
    const double begin = now();
    if (posix_spawn(&child, self, NULL, NULL, argv, environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0) {
        return -1;
    }
    return (now() - begin) * 1e3;
}

/* What no job does without: a second process, a byte that is safe. */
static int do_least(char *folder)
{
    char verb[] = "nothing", path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/least", folder);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return spawn(verb, folder) < 0 || file < 0 || write(file, "", 1) != 1 || fsync(file) != 0;
}

/* A job of one vertex. */
static gy_status run_empty(gy_flow *flow)
{
    gy_dag *dag = NULL;
    if (gy_dag_new(flow, "empty", &dag) < 0) {
        return GY_NOMEM;
    }
    (void)gy_dag_vertex(dag, &(gy_vertex_options){.function = "nothing"});
    const gy_flow_options options = {.processes = 1};
    const gy_status status = gy_flow_run(flow, dag, &options, NULL);
    gy_dag_free(dag);
    return status;
}

static int measure_empty(char *folder, int runs)
{
    char one[] = "one", least[] = "least";
    double *times = calloc(2 * (size_t)runs, sizeof(*times)), *floors = times + runs;
    for (int i = 0; i < runs; i++) {
        floors[i] = spawn(least, folder);
        times[i] = spawn(one, folder);
        if (floors[i] < 0 || times[i] < 0) {
            return fail("an empty job");
        }
    }
    qsort(times, (size_t)runs, sizeof(*times), compare);
    qsort(floors, (size_t)runs, sizeof(*floors), compare);
    printf("empty job, exec to exit: median %.2f ms, least %.2f, most %.2f of %d runs, floor "
           "%.2f\n",
           times[runs / 2], times[0], times[runs - 1], runs, floors[runs / 2]);
    free(times);
    return 0;
}

static int number(char **argv, int argc, int index, int otherwise)
{
    return index < argc ? (int)strtol(argv[index], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[1] : "";
    if (strcmp(verb, "nothing") == 0) {
        return 0;
    }
    if (strcmp(verb, "least") == 0) {
        return do_least(argv[2]);
    }
    const gy_function functions[] = {GY_VERTEX("nothing", nothing), GY_VERTEX("last", last)};
    gy_flow *flow = NULL;
    const gy_status started = gy_flow_start(&argc, &argv, functions, 2, &flow);
    if (started != GY_OK) {
        return started < 0;
    }
    const shape of = {number(argv, argc, 3, 1000), number(argv, argc, 4, 1000),
                      number(argv, argc, 5, 2)};
    int status = 2;
    if (strcmp(verb, "one") == 0) {
        status = run_empty(flow) < 0;
    } else if (strcmp(verb, "empty") == 0) {
        status = measure_empty(argv[2], number(argv, argc, 3, 21));
    } else if (strcmp(verb, "graph") == 0 && of.layers > 0 && of.width > 0) {
        status = measure_graph(flow, &of, argv[2]);
    } else {
        (void)fprintf(stderr,
                      "usage: bench_flow_graph graph FOLDER [LAYERS [WIDTH [PROCESSES]]]\n"
                      "       bench_flow_graph empty FOLDER [RUNS]\n");
    }
    gy_flow_end(flow);
    return status;
}
