/* gyre bench: a quick measurement of this machine; bench/ has the comparisons. */
#include "cli/cli.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 64, FAN = 1024, SQUARE = 1024 };

static struct {
    long long ranks;
    double time;
} settings = {.time = 0.3};

#define PLACE(member) offsetof(__typeof__(settings), member)

static const gy_option options[] = {
    {&gy_option_ranks, GY_OPTION_INTEGER, "default: 1", PLACE(ranks), 1, GY_RUN_RANKS_MAX,
     NULL},
    {&gy_option_duration, GY_OPTION_REAL, "for each row; default: 0.3", PLACE(time), 0.001, 60,
     NULL},
};

static double now_s(void)
{
    return (double)gy_deadline_after(0).at_ns / 1e9;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b ? 1 : 0;
}

/*
 * Median seconds of one call of `step`. Rank 0's first call after a warm-up determines the
 * number of calls for all ranks.
 */
static gy_status measure(gy_comm *comm, gy_status (*step)(void *arg), void *arg, double *median)
{
    double times[SAMPLES], first = 0;
    GY_TRY(step(arg));
    double begin = now_s();
    GY_TRY(step(arg));
    first = now_s() - begin;
    GY_TRY(gy_broadcast(comm, &first, 1, GY_F64, 0));
    double wanted = settings.time / (first > 1e-9 ? first : 1e-9) / SAMPLES;
    int64_t calls = wanted < 1 ? 1 : wanted > 1e6 ? 1000000 : (int64_t)wanted;
    double samples_wanted = settings.time / (first > 1e-9 ? first : 1e-9);
    /* A call that takes longer than the whole duration is measured once. */
    int samples = samples_wanted < 1         ? 1
                  : samples_wanted < 3       ? 3
                  : samples_wanted > SAMPLES ? SAMPLES
                                             : (int)samples_wanted;
    for (int i = 0; i < samples; i++) {
        begin = now_s();
        for (int64_t k = 0; k < calls; k++) {
            GY_TRY(step(arg));
        }
        times[i] = (now_s() - begin) / (double)calls;
    }
    qsort(times, (size_t)samples, sizeof(times[0]), compare);
    *median = times[samples / 2];
    return GY_OK;
}

/* ---- engine ---- */

typedef struct engine_bench {
    gy_engine *engine;
    gy_var *source, *vars[FAN];
    bool is_chain;
} engine_bench;

static void do_nothing(void *arg, gy_done *done)
{
    (void)arg;
    gy_done_ok(done);
}

static gy_status push_all(void *arg)
{
    engine_bench *bench = arg;
    for (int i = 0; i < FAN; i++) {
        gy_task task = {.name = "empty", .run = do_nothing};
        if (bench->is_chain) {
            task.mutates = &bench->source;
            task.mutate_count = 1;
        } else {
            task.reads = &bench->source;
            task.read_count = 1;
            task.mutates = &bench->vars[i];
            task.mutate_count = 1;
        }
        GY_TRY(gy_engine_push(bench->engine, &task));
    }
    return gy_engine_wait_all(bench->engine, GY_NEVER);
}

static gy_status bench_engine(gy_comm *comm, bool is_first)
{
    engine_bench bench = {.engine = NULL};
    gy_engine_options chosen = {.ranks_on_host = gy_comm_size(comm)};
    GY_TRY(gy_engine_new(&chosen, &bench.engine));
    gy_status status = gy_var_new(bench.engine, &bench.source);
    for (int i = 0; i < FAN && status == GY_OK; i++) {
        status = gy_var_new(bench.engine, &bench.vars[i]);
    }
    for (int chain = 1; chain >= 0 && status == GY_OK; chain--) {
        double seconds = 0;
        bench.is_chain = chain == 1;
        status = measure(comm, push_all, &bench, &seconds);
        if (status == GY_OK && is_first) {
            printf("engine     %-22s %10.0f ns a task\n",
                   bench.is_chain ? "chain of empty tasks" : "fan of empty tasks",
                   seconds * 1e9 / FAN);
        }
    }
    for (int i = 0; i < FAN; i++) {
        gy_var_free(bench.vars[i]);
    }
    gy_var_free(bench.source);
    gy_engine_free(bench.engine);
    return status;
}

/* ---- matmul ---- */

typedef struct matmul_bench {
    gy_session *session;
    gy_node fetch;
} matmul_bench;

static gy_status multiply(void *arg)
{
    matmul_bench *bench = arg;
    gy_tensor *result = NULL;
    gy_status status = gy_session_run(bench->session, NULL, 0, 0, &bench->fetch, 1, &result);
    gy_tensor_drop(result);
    return status;
}

static gy_status bench_matmul(gy_comm *comm, bool is_first, gy_dtype dtype)
{
    const int64_t sizes[2] = {SQUARE, SQUARE};
    matmul_bench bench = {.session = NULL};
    gy_graph *graph = NULL;
    GY_TRY(gy_graph_new(&graph));
    gy_node a = gy_graph_parameter(graph, "a", dtype, sizes, 2, gy_init_glorot());
    gy_node b = gy_graph_parameter(graph, "b", dtype, sizes, 2, gy_init_glorot());
    bench.fetch = gy_op_max(gy_op_matmul(a, b), 0, false);
    gy_status status = gy_session_new(graph, &(gy_session_options){.workers = 1, .device = -1},
                                      &bench.session);
    double seconds = 0;
    if (status == GY_OK) {
        status = measure(comm, multiply, &bench, &seconds);
    }
    if (status == GY_OK && is_first) {
        printf("matmul     %s %d x %d x %d       %10.1f GFLOP/s a worker\n",
               gy_dtype_name(dtype), SQUARE, SQUARE, SQUARE,
               2.0 * SQUARE * SQUARE * SQUARE / seconds / 1e9);
    }
    gy_session_free(bench.session);
    gy_graph_free(graph);
    return status;
}

/* ---- allreduce ---- */

typedef struct reduce_bench {
    gy_comm *comm;
    void *data;
    size_t count;
} reduce_bench;

static gy_status reduce(void *arg)
{
    reduce_bench *bench = arg;
    return gy_allreduce(bench->comm, bench->data, bench->data, bench->count, GY_F32, GY_MAX);
}

static gy_status bench_allreduce(gy_comm *comm, bool is_first)
{
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"8 B", 8}, {"64 KiB", 65536}, {"1 MiB", 1 << 20}, {"16 MiB", 16 << 20}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        gy_tensor *tensor = NULL;
        int64_t count = (int64_t)(sizes[i].bytes / sizeof(float));
        GY_TRY(gy_tensor_zeros(gy_comm_pool(comm), GY_F32, &count, 1, &tensor));
        gy_view view = gy_tensor_pin(tensor);
        reduce_bench bench = {comm, view.data, (size_t)count};
        double seconds = 0;
        gy_status status = measure(comm, reduce, &bench, &seconds);
        gy_tensor_unpin(tensor);
        gy_tensor_drop(tensor);
        GY_TRY(status);
        char choice[GY_CHOICE_BYTES];
        const gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                                   .dtype = GY_F32,
                                   .reduction = GY_MAX,
                                   .count = (size_t)count};
        GY_TRY(gy_coll_choice(comm, &call, true, choice));
        if (is_first) {
            printf("allreduce  %-8s over %d rank%-2s  %10.1f us  %s\n", sizes[i].name,
                   gy_comm_size(comm), gy_comm_size(comm) == 1 ? "" : "s", seconds * 1e6,
                   choice);
        }
    }
    return GY_OK;
}

static bool is_wanted(const char *what, char **operands, int operand_count)
{
    for (int i = 0; i < operand_count; i++) {
        if (strcmp(operands[i], what) == 0) {
            return true;
        }
    }
    return operand_count == 0;
}

static gy_status measure_all(gy_comm *comm, char **operands, int operand_count)
{
    bool is_first = gy_comm_rank(comm) == 0;
    if (is_wanted("engine", operands, operand_count)) {
        GY_TRY(bench_engine(comm, is_first));
    }
    if (is_wanted("matmul", operands, operand_count)) {
        GY_TRY(bench_matmul(comm, is_first, GY_F32));
        GY_TRY(bench_matmul(comm, is_first, GY_F64));
    }
    if (is_wanted("allreduce", operands, operand_count)) {
        GY_TRY(bench_allreduce(comm, is_first));
    }
    return GY_OK;
}

static int run(char **operands, int operand_count)
{
    for (int i = 0; i < operand_count; i++) {
        if (gy_cli_options_choice("engine|matmul|allreduce", operands[i]) < 0) {
            return gy_cli_report_usage("gyre bench: '%s' cannot be measured: expected engine, "
                                       "matmul or allreduce",
                                       operands[i]);
        }
    }
    if (settings.ranks > 1 && getenv("GYRE_RANK") == NULL) {
        return gy_cli_start_ranks("bench", (int)settings.ranks);
    }
    gy_comm *comm = NULL;
    gy_status status = gy_comm_world(&comm);
    status = status == GY_OK ? measure_all(comm, operands, operand_count) : status;
    if (status != GY_OK) {
        return gy_cli_report_failure("bench", status);
    }
    gy_comm_world_close();
    return GY_EXIT_OK;
}

const gy_command gy_command_bench = {
    .name = "bench",
    .summary = "measure engine, matmul and allreduce on this machine",
    .operands = "[WHAT...]",
    .operands_most = -1,
    .description =
        "Measures WHAT (engine, matmul or allreduce; by default all of them) and prints "
        "medians.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
