/*
 * What a message between two stages costs, over shared memory of this host: two ranks, one
 * worker each.
 *
 *   bench_messages [ROUNDS]
 *
 * latency: half a round trip, by the transport alone, and by send and receive rows of an
 * engine. wave: rank 0 computes T values, each in a few tasks from the one before, and sends
 * each; rank 1 computes as much with each as it comes. Best is (T + 1) / 2 T of one rank's
 * time; told is how much longer it took. Real-time priority (chrt -f 1) keeps others' load out.
 */
#include "ops/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20, TIMES = 64, TASKS_MAX = 32, WARM = 20 };

typedef struct rank_state {
    int rank;
    gy_comm *comm;
    gy_transport *transport;
    gy_engine *engine;
    gy_var *vars[2 * TIMES];
    uint8_t *memory; /* (2 TIMES, BYTES_MAX / 8), or (2, BYTES_MAX) */
    gy_collective rows[2 * TIMES];
    gy_attributes attributes[2 * TIMES];
} rank_state;

static void check(gy_status status)
{
    if (status < 0) {
        fprintf(stderr, "bench_messages: %s\n", gy_error_text());
        exit(1);
    }
}

static int64_t now(void)
{
    return gy_now_ns(gy_env_real());
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return values[count / 2];
}

/* ---- latency ---- */

static void bounce_raw(rank_state *me, size_t size_bytes)
{
    gy_transfer transfer;
    for (int half = 0; half < 2; half++) {
        check((half == 0) == (me->rank == 0)
                  ? gy_transport_send(me->transport, 1 - me->rank, 7, me->memory, size_bytes,
                                      &transfer)
                  : gy_transport_recv(me->transport, 1 - me->rank, 7, me->memory, size_bytes,
                                      &transfer));
        while (transfer.status == GY_AGAIN) {
            (void)gy_transport_progress(me->transport);
        }
        check(transfer.status);
    }
}

/* Row `index` moves `size_bytes` of variable `index`. */
static void push_row(rank_state *me, int index, bool sends, int tag, size_t size_bytes,
                     uint8_t *at)
{
    gy_collective *row = &me->rows[index];
    const int64_t sizes[] = {(int64_t)size_bytes};
    const gy_view view = gy_view_of(at, GY_U8, sizes, 1);
    memset(&me->attributes[index], 0, sizeof(me->attributes[index]));
    me->attributes[index].message.peer = 1 - me->rank;
    me->attributes[index].message.tag = tag;
    *row = (gy_collective){.comm = me->comm,
                           .op = sends ? &gy_ops_row_send : &gy_ops_row_receive,
                           .attributes = &me->attributes[index]};
    *(sends ? &row->input : &row->output) = view;
    gy_task task = {.name = sends ? "send" : "receive", .priority = 1};
    if (sends) {
        task.reads = &me->vars[index];
        task.read_count = 1;
    } else {
        task.mutates = &me->vars[index];
        task.mutate_count = 1;
    }
    check(gy_collective_push(me->engine, row, &task));
}

static void bounce_rows(rank_state *me, size_t size_bytes)
{
    for (int half = 0; half < 2; half++) {
        push_row(me, 0, (half == 0) == (me->rank == 0), 7, size_bytes, me->memory);
        check(gy_engine_wait_all(me->engine, GY_NEVER));
    }
}

static double bounce(rank_state *me, size_t size_bytes, bool has_rows, int rounds)
{
    double *times = gy_alloc_zero("bench", (size_t)rounds, sizeof(*times));
    for (int i = -WARM; i < rounds; i++) {
        const int64_t begun = now();
        if (has_rows) {
            bounce_rows(me, size_bytes);
        } else {
            bounce_raw(me, size_bytes);
        }
        if (i >= 0) {
            times[i] = (double)(now() - begun) / 2e3;
        }
    }
    const double found = median(times, rounds);
    gy_free(times);
    return found;
}

/* ---- wave ---- */

static int64_t task_ns;

static void compute(void *arg, gy_done *done)
{
    const int64_t end = now() + task_ns;
    (void)arg;
    while (now() < end) {
        gy_spin();
    }
    gy_done_ok(done);
}

/* One rank's part: with `is_alone` both ranks' work, without messages. */
static double wave(rank_state *me, size_t size_bytes, int tasks, bool is_alone)
{
    if (!is_alone) {
        check(gy_barrier(me->comm));
    }
    const int64_t begun = now();
    for (int t = 0; t < TIMES && !is_alone && me->rank == 1; t++) {
        push_row(me, t, false, t, size_bytes, me->memory + (size_t)t * (BYTES_MAX / 8));
    }
    for (int t = 0; t < TIMES * (is_alone ? 2 : 1); t++) {
        for (int k = 0; k < tasks; k++) {
            gy_var *both[2] = {me->vars[TIMES], me->vars[t % TIMES]};
            const bool is_first = me->rank == 1 && !is_alone;
            gy_task task = {.name = "compute",
                            .run = compute,
                            .priority = 1,
                            .reads = &both[1],
                            .read_count = is_first ? 1 : 0,
                            .mutates = both,
                            .mutate_count = is_first ? 1 : 2};
            check(gy_engine_push(me->engine, &task));
        }
        if (me->rank == 0 && !is_alone) {
            push_row(me, t, true, t, size_bytes, me->memory + (size_t)t * (BYTES_MAX / 8));
        }
    }
    check(gy_engine_wait_all(me->engine, GY_NEVER));
    if (!is_alone) {
        check(gy_barrier(me->comm));
    }
    return (double)(now() - begun) / 1e3;
}

static double best_wave(rank_state *me, size_t size_bytes, int tasks, bool is_alone)
{
    enum { ROUNDS = 9 };
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        times[i] = wave(me, size_bytes, tasks, is_alone);
    }
    return median(times, ROUNDS);
}

static void run(rank_state *me, int rounds)
{
    static const size_t sizes[] = {4, 4096, 32768, 131072, 1048576};
    static const int64_t costs[] = {5000, 20000, 100000};
    check(gy_engine_new(&(gy_engine_options){.workers = 1, .ranks_on_host = 2}, &me->engine));
    check(gy_collective_attach(me->engine, me->comm));
    me->memory = gy_alloc_zero("bench", (size_t)2 * TIMES, BYTES_MAX / 8);
    for (int i = 0; i < 2 * TIMES; i++) {
        check(gy_var_new(me->engine, &me->vars[i]));
    }
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        check(gy_barrier(me->comm));
        const double raw = bounce(me, sizes[i], false, rounds);
        check(gy_barrier(me->comm));
        const double rows = bounce(me, sizes[i], true, rounds);
        if (me->rank == 0) {
            printf("latency %8zu B: transport %8.2f us, rows %8.2f us\n", sizes[i], raw, rows);
        }
    }
    for (size_t i = 0; i < GY_COUNT(costs); i++) {
        enum { TASKS = 8 };
        task_ns = costs[i];
        const double alone = best_wave(me, 32768, TASKS, true);
        const double both = best_wave(me, 32768, TASKS, false);
        if (me->rank == 0) {
            const double best = alone * (TIMES + 1) / (2 * TIMES);
            printf(
                "wave of %d times, %d tasks of %lld us, 32 KiB: alone %.0f us, two ranks %.0f "
                "us: %.2f x, %.2f us a time over the best\n",
                TIMES, TASKS, (long long)(task_ns / 1000), alone, both, alone / both,
                (both - best) / TIMES);
        }
    }
    check(gy_barrier(me->comm));
    gy_collective_detach(me->engine, me->comm);
    for (int i = 0; i < 2 * TIMES; i++) {
        gy_var_free(me->vars[i]);
    }
    gy_engine_free(me->engine);
    gy_free(me->memory);
    gy_comm_free(me->comm);
}

int main(int argc, char **argv)
{
    int fd = -1, status = 0;
    static rank_state me;
    const int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    if (rounds < 1) {
        fprintf(stderr, "usage: bench_messages [ROUNDS]\n");
        return 2;
    }
    check(gy_transport_segment_make(&(gy_transport_segment_options){.ranks = 2}, &fd));
    const pid_t child = fork();
    me.rank = child == 0 ? 1 : 0;
    check(gy_transport_shm_open(fd, me.rank, gy_env_real(), &me.transport));
    check(gy_transport_meet(me.transport, gy_deadline_after(10)));
    check(gy_comm_new(me.transport, &(gy_comm_options){.timeout_s = 60}, &me.comm));
    run(&me, rounds);
    if (child > 0 && waitpid(child, &status, 0) == child && status != 0) {
        return 1;
    }
    return 0;
}
