/*
 * Allreduce over TCP: Gyre (plain and under TLS) beside the MPI library and gloo, in one
 * process, batch by batch in turn. bench/wires.py starts it with the library's settings.
 *
 *     mpirun -np 2 bench_wires_openmpi [--csv FILE] [--name TEXT] [--seconds S]
 *                                      [--least BYTES] [--most BYTES] [--algorithm NAME]
 *
 * The library is called as PMPI_. Buffers are rewritten before and all of the output compared
 * after each batch, outside the clock; batches begin after a meeting in shared memory. Where
 * ranks are more than cores, rank r (and all threads that gloo starts) stays on core r modulo
 * their number: else a way measures where the threads of the one before it left the ranks.
 * Every round has an order of its own, for the same reason. Times are medians of the slowest
 * rank's; CPU is user and system time of a rank and call, gloo's threads too; faults are minor
 * page faults of Gyre, the most of a rank, a call. The floor is what bare sockets take in the
 * same run: log2 p exchanges of a few bytes, or 2 (p-1)/p n bytes each way. malloc's thresholds
 * are raised for the peers' sake. The CSV is appended to.
 */
#include "wires.h"

#include "coll/coll.h"
#include "transport/tcp.h"

#include <malloc.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS_MAX = 201, ROUNDS_MIN = 5, WARM_ROUNDS = 4, MOST_BYTES = 64 << 20, HOPS = 2000 };
/* No batch that runs takes so long; long vectors of gloo's crowded ranks stop for 14 s at
 * times. */
static const double stall_s = 1;
enum { GYRE, GYRE_TLS, LIBRARY, GLOO, WAYS = GLOO + GLOO_WAYS };

static const char *const way_names[WAYS] = {
    "gyre", "tls", "mpi", "gloo ring", "gloo chunked", "gloo halving", "gloo busy"};

typedef struct way_result {
    bool is_tried;
    int rounds; /* that were timed */
    double us, cpu_us, faults;
} way_result;

typedef struct bench_run {
    gy_comm *host;          /* of the ranks' shared memory, for meetings */
    gy_transport *wires[2]; /* plain, TLS */
    gy_comm *comms[2];
    int rank, size;
    bool has_gloo;
    const char *name;      /* of the library and its settings */
    double seconds;        /* about so long for each size */
    const char *algorithm; /* of Gyre; NULL: its choice */
    float *in, *out;
    double hop_s, rate;    /* the floor */
    bool is_stalled[WAYS]; /* left out from then on */
    way_result results[WAYS];
    double times[WAYS][ROUNDS_MAX];
} bench_run;

static void die(const char *what)
{
    fprintf(stderr, "wires: %s: %s\n", what, gy_error_text());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void need(gy_status status, const char *what)
{
    if (status != GY_OK) {
        die(what);
    }
}

static double now(void)
{
    return (double)gy_now_ns(gy_env_real()) * 1e-9;
}

static void exchange(const void *mine, size_t size_bytes, void *all)
{
    PMPI_Allgather(mine, (int)size_bytes, MPI_BYTE, all, (int)size_bytes, MPI_BYTE,
                   MPI_COMM_WORLD);
}

/* More ranks than cores: who polls without giving way is not worth measuring. */
static bool is_crowded(const bench_run *bench)
{
    return bench->size > sysconf(_SC_NPROCESSORS_ONLN);
}

static void call(bench_run *bench, int way, size_t count)
{
    if (way == LIBRARY) {
        PMPI_Allreduce(bench->in, bench->out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (way >= GLOO) {
        bench->has_gloo = bench->has_gloo && wires_gloo_run(way - GLOO) != 0;
    } else {
        need(gy_allreduce(bench->comms[way], bench->in, bench->out, count, GY_F32, GY_SUM),
             "allreduce");
    }
}

static void rewrite(const bench_run *bench, size_t count, int round)
{
    for (size_t i = 0; i < count; i++) {
        bench->in[i] = (float)((i + (size_t)round) % 64 + (size_t)bench->rank);
        bench->out[i] = bench->in[i]; /* gloo works in place */
    }
}

/* Sums of small integers are exact in any order. */
static void check(const bench_run *bench, int way, size_t count, int round)
{
    if (way >= GLOO && !bench->has_gloo) {
        return; /* it has failed */
    }
    float ranks = (float)bench->size, offset = ranks * (ranks - 1) / 2;
    for (size_t i = 0; i < count; i++) {
        if (bench->out[i] != (float)((i + (size_t)round) % 64) * ranks + offset) {
            fprintf(stderr, "wires: %s: element %zu of %zu is %g\n", way_names[way], i, count,
                    (double)bench->out[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static double cpu_seconds(const struct rusage *usage)
{
    return (double)usage->ru_utime.tv_sec + (double)usage->ru_stime.tv_sec +
           1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

/* One batch: calls on the same input (gloo's, in place, first sums what the others sum). */
static double measure(bench_run *bench, int way, size_t count, int round)
{
    int repeats = count <= 2048 ? 50 : count <= 16384 ? 10 : 1;
    if (is_crowded(bench) && repeats > 1) {
        repeats = 25; /* ranks leave the meeting up to 0.2 ms apart */
    }
    way_result *result = &bench->results[way];
    struct rusage before, after;
    rewrite(bench, count, round);
    for (int i = 0; i < repeats / 5; i++) {
        call(bench, way, count);
    }
    rewrite(bench, count, round);
    call(bench, way, count);
    check(bench, way, count, round);
    rewrite(bench, count, round);
    need(gy_barrier(bench->host), "meeting");
    getrusage(RUSAGE_SELF, &before);
    double start = now();
    for (int i = 0; i < repeats; i++) {
        call(bench, way, count);
    }
    double took = now() - start;
    getrusage(RUSAGE_SELF, &after);
    result->cpu_us += (cpu_seconds(&after) - cpu_seconds(&before)) / repeats * 1e6;
    result->faults += (double)(after.ru_minflt - before.ru_minflt) / repeats;
    if (way < GLOO || repeats == 1) {
        check(bench, way, count, round);
    }
    return took / repeats;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ns of a line's way from rank 0 to rank 1 and back: is the machine in its fast or slow mode?
 */
static double line_hop_ns(const bench_run *bench, gy_transport *host)
{
    static uint64_t turn = 0;
    const gy_shared *shared = gy_transport_shared(host);
    double best = 1e9;
    for (int batch = 0; batch < 5 && bench->rank < 2; batch++) {
        _Atomic uint64_t *mine =
            &gy_shared_words(shared, bench->rank)[GY_SHARED_WORDS - 1].value;
        _Atomic uint64_t *other =
            &gy_shared_words(shared, 1 - bench->rank)[GY_SHARED_WORDS - 1].value;
        double start = now();
        for (int i = 0; i < HOPS; i++) {
            turn++;
            if (bench->rank == 0) {
                atomic_store(mine, turn);
            }
            for (int spins = 0; atomic_load(other) < turn; spins++) {
                if (spins > 10000) {
                    sched_yield(); /* the other rank has no core */
                }
            }
            if (bench->rank == 1) {
                atomic_store(mine, turn);
            }
        }
        best = fmin(best, (now() - start) / HOPS * 1e9);
    }
    need(gy_barrier(bench->host), "meeting");
    return best;
}

/* The ways in an order that depends on the round alone. */
static void shuffle(int round, int order[WAYS])
{
    uint64_t state = (uint64_t)(round + WARM_ROUNDS) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < WAYS; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int other = (int)((state >> 33) % (uint64_t)(i + 1));
        order[i] = order[other];
        order[other] = i;
    }
}

/* Rounds that take about the time there is; the same number everywhere. */
static int choose_rounds(const bench_run *bench, double round_s)
{
    int rounds = (int)(bench->seconds / round_s);
    rounds = GY_MAX(ROUNDS_MIN, GY_MIN(rounds, ROUNDS_MAX));
    PMPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return rounds;
}

/* Leave a way of gloo out if it stalls, all of them if a call failed, on all ranks alike. */
static void leave_out(bench_run *bench, int way, double took_s, size_t count)
{
    double worst[2] = {took_s, bench->has_gloo ? 0 : 1};
    PMPI_Allreduce(MPI_IN_PLACE, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (worst[0] <= stall_s && worst[1] == 0) {
        return;
    }
    bench->has_gloo = worst[1] == 0;
    if (bench->rank == 0) {
        printf("%s is left out from here on: a batch of %zu bytes %s %.1f s\n",
               bench->has_gloo ? way_names[way] : "gloo", count * sizeof(float),
               bench->has_gloo ? "took" : "failed after", worst[0]);
    }
    for (int other = GLOO; other < WAYS; other++) {
        if (other == way || !bench->has_gloo) {
            bench->is_stalled[other] = true;
            bench->results[other].is_tried = false;
        }
    }
}

static void summarise(bench_run *bench, int way)
{
    way_result *result = &bench->results[way];
    const int rounds = result->rounds;
    double cpu = result->cpu_us / rounds, faults = result->faults / rounds;
    PMPI_Allreduce(MPI_IN_PLACE, bench->times[way], rounds, MPI_DOUBLE, MPI_MAX,
                   MPI_COMM_WORLD);
    PMPI_Allreduce(&cpu, &result->cpu_us, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    PMPI_Allreduce(&faults, &result->faults, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    result->cpu_us /= bench->size;
    qsort(bench->times[way], (size_t)rounds, sizeof(double), compare);
    result->us = bench->times[way][rounds / 2] * 1e6;
}

static double floor_us(const bench_run *bench, size_t bytes)
{
    double share = 2.0 * (bench->size - 1) / bench->size;
    double moved = share * (double)bytes / bench->rate;
    return 1e6 * fmax(moved, ceil(log2(bench->size)) * bench->hop_s);
}

static void print_row(const bench_run *bench, size_t bytes, double hop_ns, FILE *csv)
{
    const way_result *all = bench->results, *gyre = &all[GYRE];
    static const way_result none = {.rounds = 0};
    int best = -1;
    for (int way = GLOO; way < WAYS; way++) {
        best = all[way].rounds > 0 && (best < 0 || all[way].us < all[best].us) ? way : best;
    }
    const way_result *gloo = best < 0 ? &none : &all[best];
    double peer = best < 0 ? all[LIBRARY].us : fmin(all[LIBRARY].us, gloo->us);
    double floor = floor_us(bench, bytes);
    printf(
        "%9zu %10.1f %10.1f %10.1f %10.1f %-12s %5.2f %10.1f %9.1f %9.1f %9.1f %6.2f %5.0f\n",
        bytes, gyre->us, all[GYRE_TLS].us, all[LIBRARY].us, gloo->us,
        best < 0 ? "-" : way_names[best], peer / gyre->us, floor, gyre->cpu_us,
        all[LIBRARY].cpu_us, gloo->cpu_us, gyre->faults, hop_ns);
    if (csv != NULL) {
        fprintf(csv, "%s,%d,%zu,%.2f,%.2f,%.2f,%.2f,%s,%.2f,%.1f,%.1f,%.1f,%.1f,%.3f,%.0f\n",
                bench->name, bench->size, bytes, gyre->us, all[GYRE_TLS].us, all[LIBRARY].us,
                gloo->us, best < 0 ? "" : way_names[best], floor, gyre->cpu_us,
                all[GYRE_TLS].cpu_us, all[LIBRARY].cpu_us, gloo->cpu_us, gyre->faults, hop_ns);
    }
    fflush(stdout);
}

static void measure_size(bench_run *bench, size_t bytes, double hop_ns, FILE *csv)
{
    size_t count = bytes / sizeof(float);
    int rounds = 1;
    double start = now();
    memset(bench->results, 0, sizeof(bench->results));
    for (int way = 0; way < WAYS; way++) {
        bench->results[way].is_tried =
            way < GLOO || (bench->has_gloo && !bench->is_stalled[way] &&
                           !(is_crowded(bench) && way == GLOO + GLOO_BUSY) &&
                           wires_gloo_prepare(way - GLOO, bench->out, count) != 0);
    }
    for (int round = -WARM_ROUNDS; round < rounds; round++) {
        if (round == -1) {
            start = now();
        }
        if (round == 0) {
            rounds = choose_rounds(bench, now() - start);
        }
        int order[WAYS];
        shuffle(round, order);
        for (int turn = 0; turn < WAYS; turn++) {
            int way = order[turn];
            way_result *result = &bench->results[way];
            if (!result->is_tried) {
                continue;
            }
            double begin = now(), took = measure(bench, way, count, round + WARM_ROUNDS);
            if (round < 0) {
                *result = (way_result){.is_tried = true};
            } else {
                bench->times[way][result->rounds++] = took;
            }
            if (way >= GLOO) {
                leave_out(bench, way, now() - begin, count);
            }
        }
    }
    for (int way = 0; way < WAYS; way++) {
        if (bench->results[way].rounds > 0) {
            summarise(bench, way);
        }
    }
    if (bench->rank == 0) {
        print_row(bench, bytes, hop_ns, csv);
    }
}

static void stay_on_a_core(const bench_run *bench)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)bench->rank % (size_t)sysconf(_SC_NPROCESSORS_ONLN), &one);
    if (is_crowded(bench) && sched_setaffinity(0, sizeof(one), &one) != 0) {
        perror("wires: a core for a rank");
        exit(1);
    }
}

static gy_transport *open_host(bench_run *bench)
{
    int place[2] = {(int)getpid(), -1};
    gy_transport_segment_options options = {.ranks = bench->size,
                                            .pool_bytes = 1u << 20,
                                            .host_cores = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    gy_transport *host = NULL;
    if (bench->rank == 0) {
        need(gy_transport_segment_make(&options, &place[1]), "segment");
    }
    PMPI_Bcast(place, 2, MPI_INT, 0, MPI_COMM_WORLD);
    need(gy_transport_shm_open_process(place[0], place[1], bench->rank, gy_env_real(), &host),
         "joining the segment");
    PMPI_Barrier(MPI_COMM_WORLD);
    if (bench->rank == 0) {
        close(place[1]);
    }
    need(gy_comm_new(host, NULL, &bench->host), "communicator");
    return host;
}

static void open_wires(bench_run *bench, bool is_secret)
{
    static const gy_transport_key key = {.bytes = {7, 7, 7}};
    gy_address mine, *all = gy_alloc_zero("bench", (size_t)bench->size, sizeof(*all));
    int listener = -1;
    need(gy_address_find("127.0.0.1:1", &mine), "address");
    gy_address_set_port(&mine, 0);
    need(gy_address_listen(&mine, &listener), "listening");
    exchange(&mine, sizeof(mine), all);
    gy_tcp_options options = {.rank = bench->rank,
                              .size = bench->size,
                              .addresses = all,
                              .listener = listener,
                              .key = is_secret ? &key : NULL,
                              .host_ranks = bench->size,
                              .host_cores = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    gy_transport *wire = NULL;
    need(gy_tcp_open(&options, gy_env_real(), &wire), "tcp");
    need(gy_transport_meet(wire, gy_env_deadline(gy_env_real(), 30)), "meeting over tcp");
    bench->wires[is_secret] = wire;
    need(gy_comm_new(wire, &(gy_comm_options){.algorithm = bench->algorithm},
                     &bench->comms[is_secret]),
         "communicator");
    gy_free(all);
}

typedef struct arguments {
    const char *csv;
    size_t least, most;
} arguments;

static arguments read_arguments(bench_run *bench, int argc, char **argv)
{
    arguments read = {.most = MOST_BYTES};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--csv") == 0) {
            read.csv = value;
        } else if (strcmp(name, "--least") == 0) {
            read.least = strtoull(value, NULL, 10);
        } else if (strcmp(name, "--most") == 0) {
            read.most = strtoull(value, NULL, 10);
        } else if (strcmp(name, "--name") == 0) {
            bench->name = value;
        } else if (strcmp(name, "--algorithm") == 0) {
            bench->algorithm = value;
        } else if (strcmp(name, "--seconds") == 0) {
            bench->seconds = strtod(value, NULL);
        } else {
            fprintf(stderr, "wires: unknown option %s\n", name);
            exit(2);
        }
    }
    return read;
}

static FILE *open_csv(const bench_run *bench, const char *name)
{
    FILE *csv = bench->rank == 0 && name != NULL ? fopen(name, "a") : NULL;
    if (csv == NULL && bench->rank == 0 && name != NULL) {
        perror(name);
        exit(1);
    }
    if (csv != NULL && ftell(csv) == 0) {
        fprintf(csv, "library,ranks,bytes,gyre_us,gyre_tls_us,mpi_us,gloo_us,gloo_way,floor_us,"
                     "gyre_cpu_us,gyre_tls_cpu_us,mpi_cpu_us,gloo_cpu_us,gyre_faults,hop_ns\n");
    }
    return csv;
}

static void measure_floor(bench_run *bench)
{
    wires_floor_open(bench->rank, bench->size, exchange);
    bench->hop_s = wires_floor_hop();
    bench->rate = wires_floor_rate();
    wires_floor_close();
    PMPI_Bcast(&bench->hop_s, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    PMPI_Bcast(&bench->rate, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void close_all(bench_run *bench)
{
    wires_gloo_close();
    gy_comm_free(bench->comms[0]);
    gy_comm_free(bench->comms[1]);
    gy_comm_free(bench->host);
    gy_free(bench->in);
    gy_free(bench->out);
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 1024, 65536, 1 << 20, 16 << 20, MOST_BYTES};
    static bench_run bench = {.name = "mpi", .seconds = 2};
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 0x7fffffff);
    mallopt(M_TOP_PAD, 256 << 20);
    MPI_Init(&argc, &argv);
    arguments read = read_arguments(&bench, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.size);
    stay_on_a_core(&bench);
    gy_transport *host = open_host(&bench);
    open_wires(&bench, false);
    open_wires(&bench, true);
    bench.has_gloo = wires_gloo_open(bench.rank, bench.size, exchange) != 0;
    bench.in = gy_alloc_zero("bench", MOST_BYTES, 1);
    bench.out = gy_alloc_zero("bench", MOST_BYTES, 1);
    if (bench.in == NULL || bench.out == NULL || bench.size < 2) {
        die("two ranks and memory");
    }
    measure_floor(&bench);
    FILE *csv = open_csv(&bench, read.csv);
    if (bench.rank == 0) {
        printf("%s, %d ranks; bare sockets: %.1f us an exchange, %.2f GB/s each way\n",
               bench.name, bench.size, bench.hop_s * 1e6, bench.rate * 1e-9);
        printf("%9s %10s %10s %10s %10s %-12s %5s %10s %9s %9s %9s %6s %5s\n", "bytes",
               "gyre us", "tls us", "mpi us", "gloo us", "", "ratio", "floor us", "cpu us",
               "mpi", "gloo", "faults", "hop");
    }
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        if (sizes[i] >= read.least && sizes[i] <= read.most) {
            measure_size(&bench, sizes[i], line_hop_ns(&bench, host), csv);
        }
    }
    if (csv != NULL) {
        fclose(csv);
    }
    close_all(&bench);
    return 0;
}
