/**
 * What the job manager itself costs: a million tasks with two edges each through its step,
 * answered at once, with the journal in memory; then another manager reads that journal.
 *
 * Usage: bench_manager [TASKS [PROCESSES [HOSTS]]]. Over hosts (at least 1) all outputs lie
 * where they were made. Prints one line of CSV.
 */
#include "sched/manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROW = 1000, REPORT_BYTES = 24 };
static uint32_t processes, hosts;

typedef struct job {
    gy_sched_task *tasks;
    gy_edge *edges;
    gy_growth growth;
} job;

typedef struct pending {
    gy_effect *items; /* a ring of STARTs and SPAWNs */
    size_t head, count, capacity;
} pending;

typedef struct bytes {
    char *data;
    size_t size, capacity;
} bytes;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void stop(const char *what)
{
    fprintf(stderr, "bench_manager: %s: %s\n", what, gy_error_text());
    exit(1);
}

/* Rows of a thousand; each task reads two of the row above. */
static void make_job(job *made, uint32_t count)
{
    made->tasks = calloc(count, sizeof(gy_sched_task));
    made->edges = calloc((size_t)count * 2, sizeof(gy_edge));
    if (made->tasks == NULL || made->edges == NULL) {
        stop("no memory");
    }
    size_t edge = 0;
    for (uint32_t task = 0; task < count; task++) {
        bool is_first = task < ROW;
        made->tasks[task] = (gy_sched_task){
            .key = {1, task}, .width = 1, .input_count = is_first ? 0 : 2, .output_count = 1};
        if (!is_first) {
            made->edges[edge++] = (gy_edge){.from = task - ROW};
            made->edges[edge++] =
                (gy_edge){.from = task % ROW == ROW - 1 ? task - 2 * ROW + 1 : task - ROW + 1};
        }
    }
    made->growth = (gy_growth){
        .tasks = made->tasks, .task_count = count, .edges = made->edges, .edge_count = edge};
}

static void keep(bytes *journal, const gy_effect *append)
{
    if (journal->size + append->size_bytes > journal->capacity) {
        stop("the journal is larger than thought");
    }
    memcpy(journal->data + journal->size, append->data, append->size_bytes);
    journal->size += append->size_bytes;
}

/* One event, and whatever follows from it at once. */
static bool tell(gy_manager *manager, const gy_sched_event *event, pending *ring,
                 bytes *journal)
{
    static gy_effects said;
    uint64_t position = 0;
    bool is_over = false;
    if (gy_manager_step(manager, event, &said) < 0) {
        stop("a step");
    }
    for (size_t i = 0; i < said.count; i++) {
        const gy_effect *effect = &said.items[i];
        if (effect->kind == GY_EFFECT_START || effect->kind == GY_EFFECT_SPAWN) {
            ring->items[(ring->head + ring->count++) % ring->capacity] = *effect;
        } else if (effect->kind == GY_EFFECT_APPEND) {
            keep(journal, effect);
        } else if (effect->kind == GY_EFFECT_SYNC) {
            position = effect->position;
        } else if (effect->kind == GY_EFFECT_END) {
            is_over = true;
        }
    }
    if (position > 0) {
        const gy_sched_event synced = {.kind = GY_EVENT_SYNCED, .position = position};
        return tell(manager, &synced, ring, journal) || is_over;
    }
    return is_over;
}

static void answer(const gy_effect *start, gy_sched_event *done)
{
    static const char report[REPORT_BYTES] = "sizes and hashes";
    if (start->kind == GY_EFFECT_SPAWN) {
        *done = (gy_sched_event){.kind = GY_EVENT_PROCESS_UP,
                                 .process = start->process,
                                 .generation = start->generation};
        return;
    }
    *done = (gy_sched_event){.kind = GY_EVENT_DONE,
                             .id = start->id,
                             .process = start->process,
                             .generation = start->generation,
                             .content = {start->key.low, start->key.high},
                             .run_ns = 1000,
                             .is_held = true, /* which locally says nothing */
                             .held_bytes = 1000,
                             .report = report,
                             .report_bytes = REPORT_BYTES};
}

/* Hosts, and a slot of one for each process. */
static void open_slots(gy_manager *manager, pending *ring, bytes *journal)
{
    for (uint32_t host = 0; host < hosts; host++) {
        const gy_sched_event up = {.kind = GY_EVENT_HOST_UP,
                                   .host = host,
                                   .host_id = {.high = host + 1},
                                   .address = "host:1"};
        (void)tell(manager, &up, ring, journal);
    }
    for (uint32_t process = 0; process < processes && hosts > 0; process++) {
        const gy_sched_event slot = {
            .kind = GY_EVENT_SLOT_OPEN, .process = process, .host = process % hosts};
        (void)tell(manager, &slot, ring, journal);
    }
}

static double run(gy_manager *manager, bytes *journal)
{
    pending ring = {.capacity = 1 << 16};
    ring.items = calloc(ring.capacity, sizeof(gy_effect));
    if (ring.items == NULL) {
        stop("no memory");
    }
    double begun = seconds();
    gy_sched_event event = {.kind = GY_EVENT_BEGIN};
    bool is_over = tell(manager, &event, &ring, journal);
    open_slots(manager, &ring, journal);
    while (!is_over && ring.count > 0) {
        const gy_effect next = ring.items[ring.head];
        ring.head = (ring.head + 1) % ring.capacity;
        ring.count--;
        answer(&next, &event);
        is_over = tell(manager, &event, &ring, journal);
    }
    if (!is_over) {
        stop("the job does not end");
    }
    double taken = seconds() - begun;
    free(ring.items);
    return taken;
}

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) {
        stop("/proc/self/statm");
    }
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    processes = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    hosts = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    const gy_stage stage = {.name = "empty"};
    const gy_manager_options options = {
        .stages = &stage, .stage_count = 1, .process_max = processes, .host_max = hosts};
    if (count < 2 * ROW || count > 100000000) {
        fprintf(stderr,
                "usage: bench_manager [TASKS [PROCESSES [HOSTS]]], 2000 tasks at least\n");
        return 2;
    }
    job made;
    gy_manager *manager = NULL, *next = NULL;
    make_job(&made, count);
    bytes journal = {.capacity = (size_t)count * 100 + 4096};
    journal.data = malloc(journal.capacity);
    if (journal.data == NULL) {
        stop("no memory");
    }
    memset(journal.data, 1, journal.capacity); /* its pages are no part of the measurement */
    long before = resident_kib();
    double begun = seconds();
    if (gy_manager_new(&options, &made.growth, &manager) < 0) {
        stop("new");
    }
    double made_s = seconds() - begun, run_s = run(manager, &journal);
    long resident = resident_kib() - before;
    size_t held = gy_manager_bytes(manager), used = 0;
    gy_manager_free(manager);
    begun = seconds();
    if (gy_manager_new(&options, &made.growth, &next) < 0 ||
        gy_manager_replay(next, journal.data, journal.size, &used) < 0 ||
        used != journal.size) {
        stop("replay");
    }
    double replay_s = seconds() - begun;
    gy_manager_free(next);
    printf(
        "tasks,processes,new_s,step_ns_a_task,resident_mib,bytes_a_task,journal_bytes_a_task,"
        "replay_s\n%u,%u,%.3f,%.0f,%.0f,%.0f,%.0f,%.3f\n",
        count, processes, made_s, run_s * 1e9 / count, (double)resident / 1024,
        (double)held / count, (double)journal.size / count, replay_s);
    free(made.tasks);
    free(made.edges);
    free(journal.data);
    return 0;
}
