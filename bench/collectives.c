/*
 * A collective of Gyre beside the MPI library's, in one process, call by call in turn:
 *
 *     mpirun -np 2 bench_collectives_openmpi [--operation allreduce|reduce_scatter] [--csv
 * FILE]
 *                                            [--rounds N] [--seconds S] [--only BYTES]
 *                                            [--name TEXT]
 *
 * The library is called as PMPI_; Gyre by its own function, over private and over registered
 * buffers, and as MPI_ where it is loaded in front (LD_PRELOAD). Buffers are rewritten before
 * and read after each call, outside the clocks: all meet before the first one starts and after
 * the last one has stopped. Times are medians of the slowest rank's; minor page faults are the
 * most of a rank, a call. malloc is tuned for MPI's sake (thresholds raised), or its scratch
 * would be unmapped after each call. The bound of a size is what memory must move at least
 * (allreduce 2 p n bytes, reduce-scatter (p + 1) n), at the rate of a streaming triad on all
 * ranks in this run. The hop is a cache line's round trip between the cores of ranks 0 and 1
 * before each size: it tells whether they share a cache at that time. The CSV is appended to.
 *
 * Where ranks share cores, a rank that reads its output keeps the next one from ending its
 * call: without the meeting after the clock each size's time would hold the others' reading.
 * And a library that spins leaves those that it kept from their core with a claim on it, which
 * whoever comes next would pay for: each way makes some calls of its own
 * before the clock starts. MPICH 4 as Debian builds it never yields
 * (MPIR_CVAR_POLLS_BEFORE_YIELD does nothing over UCX): its calls then take as many of the
 * kernel's slices as ranks wait for each other. A size takes --seconds, or as long as three
 * rounds need.
 */
#include "coll/coll.h"
#include "coll/kernels.h"

#include <dlfcn.h>
#include <malloc.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS_MAX = 2000, TRIAD_BYTES = 64 << 20 };
/* Each channel's memory is touched once before it counts. */
enum { WARM_ROUNDS = 12, LEAST_ROUNDS = 3, SETTLING_CALLS = 3, MEETINGS = 3 };
enum { REPEATS_MAX = 400, REPEATS_CROWDED = 20 };
#define BATCH_SECONDS 60e-6 /* shorter calls are repeated; */
#define CROWDED_SECONDS                                                                        \
    2e-3 /* crowded ones so often, since one of a batch waits for a core                       \
          */
enum { LIBRARY, GYRE, GYRE_REGISTERED, PRELOADED, WAYS };

typedef struct bench_run {
    gy_comm *comm;
    int rank, size, rounds;
    bool is_scatter, is_preloaded;
    const char *name; /* of the library, for the table */
    double seconds;   /* of a size */
    int repeats[WAYS];
    double faults[WAYS];
    const gy_shared *areas;
    _Atomic int *line; /* in rank 0's pool, for the hop */
    float *in, *out, *shared_in, *shared_out;
    double times[WAYS][ROUNDS_MAX];
    double triad; /* bytes/s of all ranks together */
    double sink;
} bench_run;

static void die(const char *what)
{
    fprintf(stderr, "collectives: %s: %s\n", what, gy_error_text());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now(void)
{
    return (double)gy_now_ns(gy_env_real()) * 1e-9;
}

/* `count` elements of the whole vector. */
static void call_mpi(const bench_run *bench, int way, const float *in, float *out, size_t count)
{
    int whole = (int)count, part = whole / bench->size;
    if (bench->is_scatter) {
        (way == LIBRARY ? PMPI_Reduce_scatter_block : MPI_Reduce_scatter_block)(
            in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else {
        (way == LIBRARY ? PMPI_Allreduce : MPI_Allreduce)(in, out, whole, MPI_FLOAT, MPI_SUM,
                                                          MPI_COMM_WORLD);
    }
}

static void call(const bench_run *bench, int way, const float *in, float *out, size_t count)
{
    if (way == LIBRARY || way == PRELOADED) {
        call_mpi(bench, way, in, out, count);
        return;
    }
    size_t part = count / (size_t)bench->size;
    gy_status status = bench->is_scatter
                           ? gy_reduce_scatter(bench->comm, in, out, part, GY_F32, GY_SUM)
                           : gy_allreduce(bench->comm, in, out, count, GY_F32, GY_SUM);
    if (status != GY_OK) {
        die("gyre's call");
    }
}

static long minor_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static void rewrite(const bench_run *bench, float *in, size_t count, int round)
{
    for (size_t i = 0; i < count; i++) {
        in[i] = (float)((i + (size_t)round) % 64 + (size_t)bench->rank);
    }
}

static void look_at(bench_run *bench, const float *out, size_t count, int round)
{
    float sum = 0;
    size_t part = count / (size_t)bench->size, first = 0, got = count;
    if (bench->is_scatter) {
        first = part * (size_t)bench->rank;
        got = part;
    }
    size_t last = first + got - 1;
    for (size_t i = 0; i < got; i++) {
        sum += out[i];
    }
    float offset = (float)(bench->size * (bench->size - 1) / 2);
    float expected = (float)(((last + (size_t)round) % 64) * (size_t)bench->size) + offset;
    if (out[got - 1] != expected) {
        fprintf(stderr, "collectives: wrong answer %g, expected %g\n", (double)out[got - 1],
                (double)expected);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    bench->sink += (double)sum;
}

static bool is_crowded(const bench_run *bench)
{
    return bench->size > (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Crowded ranks that slept are awake after the first meeting, and together after the last. */
static void meet(bench_run *bench, int times)
{
    for (int i = 0; i < times; i++) {
        if (gy_barrier(bench->comm) != GY_OK) {
            die("gy_barrier");
        }
    }
}

/* One time of one way: a call, or the mean of many where one is shorter than reading the clock.
 */
static double measure(bench_run *bench, int way, size_t count, int round)
{
    const float *in = way == GYRE_REGISTERED ? bench->shared_in : bench->in;
    float *out = way == GYRE_REGISTERED ? bench->shared_out : bench->out;
    float *writable = way == GYRE_REGISTERED ? bench->shared_in : bench->in;
    int repeats = bench->repeats[way];
    for (int i = 0; i < SETTLING_CALLS && is_crowded(bench); i++) {
        call(bench, way, in, out, count);
    }
    rewrite(bench, writable, count, round);
    long before = minor_faults();
    meet(bench, is_crowded(bench) ? MEETINGS : 1);
    double start = now();
    for (int i = 0; i < repeats; i++) {
        call(bench, way, in, out, count);
        if (repeats > 1) {
            writable[0] = out[0] * 0 + in[0]; /* each needs the one before */
        }
    }
    double took = (now() - start) / repeats;
    meet(bench, 1); /* who reads keeps a rank that still calls from its core */
    bench->faults[way] += (double)(minor_faults() - before) / repeats;
    look_at(bench, out, count, round);
    return took;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int count)
{
    qsort(times, (size_t)count, sizeof(*times), compare);
    return times[count / 2];
}

/* Nanoseconds, of the best of some batches; 0 where the ranks have no core each. */
static double measure_hop(bench_run *bench)
{
    enum { BATCHES = 10, TRIPS = 200 };
    double best = INFINITY;
    if (is_crowded(bench)) {
        return 0;
    }
    *bench->line = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        meet(bench, 1);
        double start = now();
        for (int trip = batch * TRIPS; trip < (batch + 1) * TRIPS && bench->rank < 2; trip++) {
            int mine = 2 * trip + bench->rank;
            while (*bench->line != mine) {
            }
            *bench->line = mine + 1;
        }
        best = fmin(best, (now() - start) / TRIPS * 1e9);
    }
    meet(bench, 1);
    return best;
}

static int ways_of(const bench_run *bench)
{
    return bench->is_preloaded ? WAYS : PRELOADED;
}

static void print_row(const bench_run *bench, size_t bytes, const double *us, double hop_ns,
                      FILE *csv)
{
    double moved = bench->is_scatter ? bench->size + 1.0 : 2.0 * bench->size;
    double bound = moved * (double)bytes / bench->triad * 1e6;
    printf("%10zu  %6.0f ", bytes, hop_ns);
    for (int way = 0; way < ways_of(bench); way++) {
        printf(" %10.2f", us[way]);
    }
    for (int way = GYRE; way < ways_of(bench); way++) {
        printf(" %6.2f", us[LIBRARY] / us[way]);
    }
    printf(" %10.2f %6.1f %6.1f\n", bound, bench->faults[LIBRARY], bench->faults[GYRE]);
    fflush(stdout);
    if (csv != NULL) {
        fprintf(csv, "%s,%s,%d,%zu,%.0f", bench->name,
                bench->is_scatter ? "reduce_scatter" : "allreduce", bench->size, bytes, hop_ns);
        for (int way = 0; way < WAYS; way++) {
            fprintf(csv, way < ways_of(bench) ? ",%.3f" : ",", us[way]);
        }
        fprintf(csv, ",%.3f,%.2f,%.2f\n", bound, bench->faults[LIBRARY], bench->faults[GYRE]);
    }
}

/* The largest of all ranks. */
static double slowest(double seconds)
{
    PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static int repeats_of(const bench_run *bench, size_t count, double took)
{
    bool is_shared = is_crowded(bench);
    double fit = (is_shared ? CROWDED_SECONDS : BATCH_SECONDS) / fmax(took, 1e-9);
    return count > 2048 ? 1
                        : (int)fmax(is_shared ? REPEATS_CROWDED : 1, fmin(fit, REPEATS_MAX));
}

/* Finds out how often each way's call is to be repeated, and returns for how many rounds there
 * is time: alike on all ranks. */
static int warm_up(bench_run *bench, size_t count, int wanted)
{
    int ways = ways_of(bench), done = 0;
    double start = now(), last = 0, spent = 0;
    for (int way = 0; way < WAYS; way++) {
        bench->repeats[way] = repeats_of(bench, count, 1);
    }
    while (done < WARM_ROUNDS && (done < LEAST_ROUNDS || spent < bench->seconds / 2)) {
        double round_start = now();
        for (int way = 0; way < ways; way++) {
            double took = slowest(measure(bench, way, count, done));
            bench->repeats[way] = repeats_of(bench, count, took);
        }
        done++;
        last = slowest(now() - round_start);
        spent = slowest(now() - start);
    }
    double fit = bench->seconds / fmax(last, 1e-9);
    return fit < LEAST_ROUNDS ? LEAST_ROUNDS : fit < wanted ? (int)fit : wanted;
}

static void measure_size(bench_run *bench, size_t bytes, FILE *csv)
{
    double hop_ns = measure_hop(bench);
    int ways = ways_of(bench);
    size_t count = bytes / sizeof(float);
    int rounds =
        warm_up(bench, count, bytes >= 16 << 20 ? bench->rounds / 4 + 1 : bench->rounds);
    memset(bench->faults, 0, sizeof(bench->faults));
    for (int round = 0; round < rounds; round++) {
        for (int turn = 0; turn < ways; turn++) {
            int way = (turn + round) % ways; /* each comes first in turn */
            bench->times[way][round] = measure(bench, way, count, round);
        }
    }
    double us[WAYS] = {0};
    for (int way = 0; way < ways; way++) {
        PMPI_Allreduce(MPI_IN_PLACE, bench->times[way], rounds, MPI_DOUBLE, MPI_MAX,
                       MPI_COMM_WORLD);
        us[way] = median(bench->times[way], rounds) * 1e6;
    }
    PMPI_Allreduce(MPI_IN_PLACE, bench->faults, WAYS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int way = 0; way < ways; way++) {
        bench->faults[way] /= rounds;
    }
    if (bench->rank == 0) {
        print_row(bench, bytes, us, hop_ns, csv);
    }
}

/* The smallest of all ranks. */
static double earliest(double seconds)
{
    PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    return seconds;
}

/* a = b + c past the cache, all ranks at once: 3 bytes moved a byte of vector. From the first
 * one's start to the last one's end: those that share a core come one after another. */
static void measure_triad(bench_run *bench)
{
    enum { TIMES = 15 };
    double times[TIMES];
    uint8_t *targets[1] = {(uint8_t *)bench->out};
    const gy_targets to = {.to = targets, .count = 1, .is_streamed = true};
    const gy_coll_fold sum = gy_coll_fold_of(GY_F32, GY_SUM, NULL, 2);
    for (int i = 0; i < TIMES; i++) {
        meet(bench, 1);
        double start = now();
        gy_coll_combine_into(&to, &sum, bench->in, bench->shared_in,
                             TRIAD_BYTES / sizeof(float));
        gy_stream_end();
        double end = now();
        times[i] = slowest(end) - earliest(start);
    }
    bench->triad = 3.0 * TRIAD_BYTES * bench->size / median(times, TIMES);
}

static void open_comm(bench_run *bench)
{
    int place[2] = {(int)getpid(), -1};
    /* mpirun binds each rank to a core; all ranks together have the machine's. */
    gy_transport_segment_options options = {.ranks = bench->size,
                                            .pool_bytes = 256u << 20,
                                            .host_cores = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    if (bench->rank == 0 && gy_transport_segment_make(&options, &place[1]) != GY_OK) {
        die("segment");
    }
    PMPI_Bcast(place, 2, MPI_INT, 0, MPI_COMM_WORLD);
    gy_transport *transport = NULL;
    if (gy_transport_shm_open_process(place[0], place[1], bench->rank, gy_env_real(),
                                      &transport) != GY_OK) {
        die("joining the segment");
    }
    PMPI_Barrier(MPI_COMM_WORLD);
    if (bench->rank == 0) {
        close(place[1]);
    }
    bench->areas = transport->shared;
    if (gy_comm_new(transport, NULL, &bench->comm) != GY_OK) {
        die("communicator");
    }
}

static void take_buffers(bench_run *bench)
{
    gy_pool *pool = gy_comm_pool(bench->comm);
    bench->in = gy_alloc("bench", TRIAD_BYTES);
    bench->out = gy_alloc("bench", TRIAD_BYTES);
    bench->shared_in = gy_pool_take(pool, TRIAD_BYTES);
    bench->shared_out = gy_pool_take(pool, TRIAD_BYTES);
    if (bench->in == NULL || bench->out == NULL || bench->shared_in == NULL ||
        bench->shared_out == NULL) {
        die("buffers");
    }
    /* All pools are taken from alike. */
    ptrdiff_t at = (uint8_t *)bench->shared_out - gy_shared_pool(bench->areas, bench->rank);
    bench->line = (_Atomic int *)(void *)(gy_shared_pool(bench->areas, 0) + at);
    memset(bench->in, 0, TRIAD_BYTES);
    memset(bench->out, 0, TRIAD_BYTES);
    memset(bench->shared_in, 0, TRIAD_BYTES);
    memset(bench->shared_out, 0, TRIAD_BYTES);
}

typedef struct arguments {
    const char *csv;
    size_t only; /* bytes; 0: all sizes */
} arguments;

static void explain(const char *unknown)
{
    fprintf(
        stderr,
        "bench_collectives: '%s' is unknown or lacks its value\n"
        "usage: mpirun -n RANKS bench_collectives [--csv FILE] [--only BYTES] [--name LIBRARY]"
        " [--operation allreduce|reduce_scatter] [--seconds S] [--rounds N]\n",
        unknown);
    exit(2);
}

static arguments read_arguments(bench_run *bench, int argc, char **argv)
{
    arguments read = {.csv = NULL};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            explain(argv[i]);
        } else if (strcmp(argv[i], "--csv") == 0) {
            read.csv = argv[i + 1];
        } else if (strcmp(argv[i], "--only") == 0) {
            read.only = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--name") == 0) {
            bench->name = argv[i + 1];
        } else if (strcmp(argv[i], "--operation") == 0) {
            bench->is_scatter = strcmp(argv[i + 1], "reduce_scatter") == 0;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            bench->seconds = fmax(0.1, fmin(strtod(argv[i + 1], NULL), 60));
        } else if (strcmp(argv[i], "--rounds") == 0) {
            bench->rounds = GY_MAX(3, GY_MIN((int)strtol(argv[i + 1], NULL, 10), ROUNDS_MAX));
        } else {
            explain(argv[i]);
        }
    }
    return read;
}

/* The table goes on; a new one begins with the names of its columns. */
static FILE *open_csv(const char *name)
{
    FILE *csv = fopen(name, "a");
    if (csv == NULL) {
        die(name);
    } else if (ftell(csv) == 0) {
        fprintf(csv, "library,operation,ranks,bytes,hop_ns,mpi_us,gyre_us,gyre_registered_us,"
                     "preloaded_us,bound_us,mpi_faults,gyre_faults\n");
    }
    return csv;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8,       1024,    8192,     65536,    262144,
                                   1 << 20, 4 << 20, 16 << 20, 64u << 20};
    static bench_run bench = {.rounds = 101, .seconds = 2, .name = "mpi"};
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 0x7fffffff);
    mallopt(M_TOP_PAD, 256 << 20);
    arguments read = read_arguments(&bench, argc, argv);
    MPI_Init(&argc, &argv);
    bench.is_preloaded =
        dlsym(RTLD_DEFAULT, "MPI_Allreduce") != dlsym(RTLD_DEFAULT, "PMPI_Allreduce");
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.size);
    open_comm(&bench);
    take_buffers(&bench);
    measure_triad(&bench);
    FILE *csv = read.csv != NULL && bench.rank == 0 ? open_csv(read.csv) : NULL;
    if (bench.rank == 0) {
        const char *more = bench.is_preloaded ? "  preloaded" : "";
        printf("%s, %s, %d ranks, triad %.1f GB/s, times in us\n", bench.name,
               bench.is_scatter ? "reduce-scatter" : "allreduce", bench.size,
               bench.triad * 1e-9);
        printf("%10s  %6s  %10s %10s %10s%s  mpi's time over each  %s\n", "bytes", "hop ns",
               "mpi", "gyre", "registered", more, "bound, faults of mpi and gyre");
    }
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        if ((read.only == 0 || read.only == sizes[i]) &&
            (!bench.is_scatter || sizes[i] / sizeof(float) >= (size_t)bench.size)) {
            measure_size(&bench, sizes[i], csv);
        }
    }
    if (csv != NULL) {
        fclose(csv);
    }
    gy_pool_give(gy_comm_pool(bench.comm), bench.shared_in);
    gy_pool_give(gy_comm_pool(bench.comm), bench.shared_out);
    gy_free(bench.in);
    gy_free(bench.out);
    gy_comm_free(bench.comm);
    MPI_Finalize();
    return bench.sink == 0.123 ? 1 : 0;
}
