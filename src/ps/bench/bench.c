/*
 * What pushes and pulls cost, beside what the same bytes cost over the same kind of wire
 * without parameter servers. Server and reference run in processes of their own; figures are
 * medians, and their ratio is what counts.
 */
#include "ps/bench/bench_priv.h"

#include "base/base.h"

#include <gyre/ps.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SAMPLES_MAX = 20000,
    SAMPLES_MIN = 5,
    BYTES_MAX = 16 << 20,
    SPARSE_KEYS = 100000,
    WARM = 12
};
enum { CHILD_SERVER, CHILD_ECHO, CHILD_ADDER, CHILDREN };

typedef struct bench {
    gy_ps_bench_options options;
    gy_status (*visit)(void *arg, const gy_ps_figure *figure);
    void *arg;
    gy_transport_key key; /* of the reference's TLS */
    gy_tls *tls;
    int gate[2]; /* a byte begins the adding */
    int hold[2]; /* the children end when its writing end is closed */
    pid_t children[CHILDREN];
    char address[64];
    ps_bench_wire wire;
    ps_bench_ring *ring;
    gy_ps *ps, *shared;    /* over a socket; through shared memory */
    uint8_t *bytes, *more; /* (BYTES_MAX) each */
    uint64_t *keys;        /* (SPARSE_KEYS) */
    double byte_s;         /* of a stream */
    double faults;         /* of the last measurement, a step */
} bench;

static double now_s(void)
{
    return (double)gy_now_ns(gy_env_real()) / 1e9;
}

/* ---- The reference's other end ---- */

/* Each request: how many bytes follow, and how many go back. */
typedef struct echo_head {
    uint64_t there, back;
} echo_head;

static gy_status serve_echo(const bench *at, int tell)
{
    ps_bench_wire wire;
    echo_head head;
    int listener = -1;
    uint16_t port = 0;
    GY_TRY(gy_ps_bench_listen(&listener, &port));
    if (write(tell, &port, sizeof(port)) != (ssize_t)sizeof(port)) {
        return gy_fail(GY_IO, "nobody listens");
    }
    close(tell);
    GY_TRY(gy_ps_bench_accept(listener, at->tls, &wire));
    while (gy_ps_bench_read(&wire, &head, sizeof(head)) && head.there <= BYTES_MAX &&
           head.back <= BYTES_MAX && gy_ps_bench_read(&wire, at->bytes, head.there) &&
           gy_ps_bench_write(&wire, at->bytes, head.back)) {
    }
    gy_ps_bench_close(&wire);
    close(listener);
    return GY_OK;
}

/* ---- Processes ---- */

static gy_status serve(const bench *at, int tell)
{
    gy_ps_server *server = NULL;
    const gy_ps_server_options options = {.key_file = at->options.key_file,
                                          .is_plaintext = at->options.key_file == NULL};
    GY_TRY(gy_ps_server_open(&options, &server));
    const char *address = gy_ps_server_address(server);
    bool is_told = write(tell, address, strlen(address)) > 0;
    close(tell);
    gy_status status = is_told ? gy_ps_server_run(server, at->hold[0]) : GY_OK;
    gy_ps_server_close(server);
    return status;
}

static gy_status serve_ring(const bench *at, int tell)
{
    char begins = 0;
    bool is_told = write(tell, "1", 1) > 0;
    close(tell);
    close(at->gate[1]);
    /* it is awake while it adds, so it sleeps until then */
    bool is_wanted = is_told && read(at->gate[0], &begins, 1) == 1;
    return is_wanted ? gy_ps_bench_ring_add(at->ring, BYTES_MAX) : GY_OK;
}

/* Fork a child, and read what it tells first. */
static gy_status start_child(bench *at, int which, void *told, size_t size_bytes)
{
    int tell[2];
    if (pipe(tell) != 0) {
        return gy_fail(GY_IO, "no pipe: %s", strerror(errno));
    }
    fflush(NULL);
    at->children[which] = fork();
    if (at->children[which] == 0) {
        close(at->hold[1]);
        close(tell[0]);
        gy_status status = which == CHILD_SERVER ? serve(at, tell[1])
                           : which == CHILD_ECHO ? serve_echo(at, tell[1])
                                                 : serve_ring(at, tell[1]);
        if (status < 0) {
            gy_warn("%s", gy_error_text());
        }
        _exit(status < 0 ? 1 : 0);
    }
    close(tell[1]);
    ssize_t got = at->children[which] > 0 ? read(tell[0], told, size_bytes) : -1;
    close(tell[0]);
    return got > 0 ? GY_OK : gy_fail(GY_IO, "a process of the measurement does not start");
}

static gy_status start(bench *at)
{
    uint16_t port = 0;
    char told = 0;
    if (pipe(at->hold) != 0) {
        at->hold[0] = at->hold[1] = -1;
        return gy_fail(GY_IO, "no pipe: %s", strerror(errno));
    }
    if (at->options.key_file != NULL) {
        uint8_t id[GY_RUN_ID_BYTES];
        GY_TRY(gy_transport_run_id_make(id));
        GY_TRY(gy_transport_key_derive(id, sizeof(id), id, "gyre bench", &at->key));
        GY_TRY(gy_tls_new(&at->key, "gyre bench", &at->tls));
    }
    GY_TRY(start_child(at, CHILD_ECHO, &port, sizeof(port)));
    GY_TRY(start_child(at, CHILD_SERVER, at->address, sizeof(at->address) - 1));
    GY_TRY(gy_ps_bench_ring_make(&at->ring));
    if (pipe(at->gate) != 0) {
        at->gate[0] = at->gate[1] = -1;
        return gy_fail(GY_IO, "no pipe: %s", strerror(errno));
    }
    GY_TRY(start_child(at, CHILD_ADDER, &told, sizeof(told)));
    GY_TRY(gy_ps_bench_connect(port, at->tls, &at->wire));
    gy_ps_options worker = {.servers = at->address,
                            .key_file = at->options.key_file,
                            .is_plaintext = at->options.key_file == NULL,
                            .workers = 2};
    GY_TRY(gy_ps_open(&worker, &at->shared));
    worker.worker = 1;
    worker.without_shared_memory = true;
    return gy_ps_open(&worker, &at->ps);
}

static void stop(bench *at)
{
    gy_ps_close(at->ps);
    gy_ps_close(at->shared);
    gy_ps_bench_ring_end(at->ring); /* its child ends, too */
    gy_ps_bench_close(&at->wire);
    for (int i = 0; i < 2; i++) { /* the writing ends first */
        if (at->hold[1 - i] >= 0) {
            close(at->hold[1 - i]);
        }
        if (at->gate[1 - i] >= 0) {
            close(at->gate[1 - i]);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        if (at->children[i] > 0) {
            (void)waitpid(at->children[i], NULL, 0); /* they end by themselves */
        }
    }
    gy_tls_free(at->tls);
    gy_free(at->bytes);
    gy_free(at->more);
    gy_free(at->keys);
}

/* ---- Measuring ---- */

typedef struct step {
    bench *at;
    gy_ps_table *table;
    const uint64_t *keys;
    size_t rows, size_bytes, back_bytes;
    uint64_t turn;
} step;

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b ? 1 : 0;
}

/* Minor page faults of the server so far; 0 if the system does not say. */
static uint64_t server_faults(const bench *at)
{
    char path[64], text[1024];
    unsigned long long faults = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)at->children[CHILD_SERVER]);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    size_t got = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[got] = '\0';
    const char *behind = strrchr(text, ')'); /* the command's name may have anything in it */
    if (behind == NULL ||
        sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %*u %llu", &faults) != 1) {
        return 0;
    }
    return faults;
}

static uint64_t all_faults(const bench *at)
{
    struct rusage usage;
    return server_faults(at) +
           (getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_minflt : 0);
}

/* Median seconds of a step, after some that are not counted. */
static gy_status measure(gy_status (*run)(step *of), step *of, double *median_s)
{
    static double times[SAMPLES_MAX];
    bench *at = of->at;
    int count = 0;
    memset(times, 0, sizeof(times)); /* its page faults are not the step's */
    for (int i = 0; i < WARM; i++) {
        GY_TRY(run(of));
    }
    uint64_t faults = all_faults(at);
    for (double end = now_s() + at->options.duration_s;
         count < SAMPLES_MIN || (count < SAMPLES_MAX && now_s() < end); count++) {
        double begun = now_s();
        GY_TRY(run(of));
        times[count] = now_s() - begun;
    }
    at->faults = (double)(all_faults(at) - faults) / count;
    qsort(times, (size_t)count, sizeof(times[0]), compare);
    *median_s = times[count / 2];
    return GY_OK;
}

static gy_status push(step *of)
{
    return gy_ps_push(of->table, of->keys, of->rows, of->at->bytes, NULL);
}

static gy_status pull(step *of)
{
    return gy_ps_pull(of->table, of->keys, of->rows, of->at->more, NULL);
}

static gy_status push_pull(step *of)
{
    return gy_ps_push_pull(of->table, of->keys, of->rows, of->at->bytes, of->at->more, NULL);
}

/* The same rows under keys that were not sent before. */
static gy_status push_new(step *of)
{
    uint64_t *first = &of->at->keys[0];
    *first = of->turn++ % 64; /* more lists than are kept */
    return push(of);
}

static gy_status exchange(step *of)
{
    const ps_bench_wire *wire = &of->at->wire;
    const echo_head head = {of->size_bytes, of->back_bytes};
    bool is_done = gy_ps_bench_write(wire, &head, sizeof(head)) &&
                   gy_ps_bench_write(wire, of->at->bytes, of->size_bytes) &&
                   gy_ps_bench_read(wire, of->at->bytes, of->back_bytes);
    return is_done ? GY_OK : gy_fail(GY_IO, "the wire to compare with has ended");
}

/* ---- Figures ---- */

static gy_status report(bench *at, gy_ps_figure figure)
{
    figure.floor_s = (double)figure.size_bytes * at->byte_s; /* p = k = 1 */
    figure.workers = figure.servers = 1;
    return at->visit(at->arg, &figure);
}

static gy_status open_dense(bench *at, gy_ps *ps, size_t size_bytes, step *of)
{
    char name[32];
    *of = (step){.at = at,
                 .rows = size_bytes / sizeof(float),
                 .size_bytes = size_bytes,
                 .back_bytes = 1};
    snprintf(name, sizeof(name), "dense-%zu", size_bytes);
    return gy_ps_table_open(
        ps, name, &(gy_ps_table_options){.rows = of->rows, .sync = gy_ps_asp()}, &of->table);
}

typedef struct way {
    const char *name;
    gy_status (*run)(step *of);
} way;

/* Dense pushes and pulls of one size beside an echo, or beside a stream. */
static gy_status measure_dense(bench *at, size_t size_bytes, bool is_echo)
{
    static const way ways[] = {{"push", push}, {"pull", pull}, {"push and pull", push_pull}};
    step of;
    double reference_s = 0;
    GY_TRY(open_dense(at, at->ps, size_bytes, &of));
    of.back_bytes = is_echo ? size_bytes : 1;
    GY_TRY(measure(exchange, &of, &reference_s));
    for (size_t i = 0; i < GY_COUNT(ways) - !is_echo; i++) {
        gy_ps_figure figure = {.name = ways[i].name,
                               .reference = is_echo ? "echo" : "stream",
                               .size_bytes = size_bytes,
                               .reference_s = reference_s};
        GY_TRY(measure(ways[i].run, &of, &figure.time_s));
        figure.faults = at->faults;
        GY_TRY(report(at, figure));
    }
    return GY_OK;
}

static gy_status measure_sparse(bench *at)
{
    static const way ways[] = {{"sparse push, new keys", push_new},
                               {"sparse push, known keys", push}};
    const size_t size = SPARSE_KEYS * (sizeof(uint64_t) + sizeof(float));
    step dense, sparse = {.at = at, .keys = at->keys, .rows = SPARSE_KEYS, .turn = 0};
    double reference_s = 0;
    for (uint64_t i = 0; i < SPARSE_KEYS; i++) {
        at->keys[i] = 64 + i * 7919;
    }
    GY_TRY(open_dense(at, at->ps, size, &dense));
    GY_TRY(gy_ps_table_open(at->ps, "sparse",
                            &(gy_ps_table_options){.is_sparse = true, .sync = gy_ps_asp()},
                            &sparse.table));
    GY_TRY(measure(push, &dense, &reference_s));
    for (size_t i = 0; i < GY_COUNT(ways); i++) {
        gy_ps_figure figure = {.name = ways[i].name,
                               .reference = "dense push",
                               .size_bytes = size,
                               .reference_s = reference_s};
        GY_TRY(measure(ways[i].run, &sparse, &figure.time_s));
        figure.faults = at->faults;
        GY_TRY(report(at, figure));
    }
    return GY_OK;
}

static gy_status copy_and_add(step *of)
{
    return gy_ps_bench_ring_put(of->at->ring, of->at->bytes, of->size_bytes)
               ? GY_OK
               : gy_fail(GY_IO, "the process that adds has ended");
}

static gy_status measure_shared_size(bench *at, size_t size_bytes, double reference_s)
{
    static const way ways[] = {{"push, shared memory", push}, {"pull, shared memory", pull}};
    step of;
    GY_TRY(open_dense(at, at->shared, size_bytes, &of));
    for (size_t i = 0; i < GY_COUNT(ways); i++) {
        gy_ps_figure figure = {.name = ways[i].name,
                               .reference = "copy, add",
                               .size_bytes = size_bytes,
                               .reference_s = reference_s};
        GY_TRY(measure(ways[i].run, &of, &figure.time_s));
        figure.faults = at->faults;
        GY_TRY(report(at, figure));
    }
    return GY_OK;
}

/* Through shared memory, beside no more than copying into a ring and adding from it, which is
 * measured first: who adds is awake all the time. */
static gy_status measure_shared(bench *at)
{
    static const size_t sizes[] = {1 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
    double references_s[GY_COUNT(sizes)];
    if (write(at->gate[1], "1", 1) != 1) {
        return gy_fail(GY_IO, "the process that adds has ended");
    }
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        step of = {.at = at, .size_bytes = sizes[i]};
        GY_TRY(measure(copy_and_add, &of, &references_s[i]));
    }
    gy_ps_bench_ring_end(at->ring);
    at->ring = NULL;
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        GY_TRY(measure_shared_size(at, sizes[i], references_s[i]));
    }
    return GY_OK;
}

static gy_status measure_all(bench *at)
{
    static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
    step stream = {.at = at, .size_bytes = BYTES_MAX, .back_bytes = 1};
    GY_TRY(measure(exchange, &stream, &at->byte_s));
    at->byte_s /= BYTES_MAX;
    GY_TRY(measure_dense(at, 1 << 10, true));
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        GY_TRY(measure_dense(at, sizes[i], false));
    }
    GY_TRY(measure_sparse(at));
    return measure_shared(at);
}

gy_status gy_ps_bench(const gy_ps_bench_options *options,
                      gy_status (*visit)(void *arg, const gy_ps_figure *figure), void *arg,
                      gy_ps_stats *stats)
{
    bench at = {
        .visit = visit, .arg = arg, .hold = {-1, -1}, .gate = {-1, -1}, .wire = {.socket = -1}};
    GY_TRY(gy_options_take(gy_ps_bench_options, &at.options, options));
    at.options.duration_s = at.options.duration_s > 0 ? at.options.duration_s : 0.3;
    at.bytes = gy_alloc_zero("ps.bench", 1, BYTES_MAX);
    at.more = gy_alloc_zero("ps.bench", 1, BYTES_MAX);
    at.keys = gy_alloc_zero("ps.bench", SPARSE_KEYS, sizeof(*at.keys));
    gy_status status =
        at.bytes != NULL && at.more != NULL && at.keys != NULL ? GY_OK : GY_NOMEM;
    if (status == GY_OK) {
        status = start(&at);
    }
    if (status == GY_OK) {
        status = measure_all(&at);
    }
    if (stats != NULL && at.ps != NULL) { /* of the sockets' */
        gy_ps_stats_read(at.ps, stats);
    }
    gy_error why;
    gy_error_take(&why, status);
    stop(&at);
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}
