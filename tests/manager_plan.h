/*
 * Jobs for a simulated manager, drawn from a seed: tasks of all promises, cohorts, gates; what
 * each task writes is a hash of what it read, so that a serial run says what must come out.
 */
#ifndef GY_TESTS_MANAGER_PLAN_H
#define GY_TESTS_MANAGER_PLAN_H

#include "sched/manager.h"

#include <string.h>

enum {
    PLAN_TASKS = 160,
    PLAN_INPUTS = 4,
    PLAN_STAGES =
        6, /* 0 to 2 at first, some of them gates; gates grow themselves, each other, s + 3 */
    PLAN_GATES = 3,
    PLAN_GROWTHS = 6, /* after them nothing is added */
    PLAN_HOME = 4,    /* processes without hosts */
    PLAN_HOSTS = 4,
    PLAN_PROCESSES = 8,
    PLAN_NUMBERS = 64, /* of hosts */
    PLAN_BYTES = 3000000
};

/* What a task wrote: the records as a set, and the bytes. */
typedef struct plan_value {
    uint64_t records, content;
} plan_value;

typedef struct plan {
    uint64_t seed;
    uint32_t count, edge_count, first_count, limit, drawn;
    gy_sched_task tasks[PLAN_TASKS];
    gy_edge edges[PLAN_TASKS * PLAN_INPUTS];
    uint32_t first_edge[PLAN_TASKS + 1];
    bool
        is_ordered[PLAN_TASKS]; /* deterministic, but its records depend on its inputs' order */
    bool is_liar[PLAN_TASKS];   /* says that it is deterministic */
    gy_stage stages[PLAN_STAGES];
    gy_manager_options options;
    bool has_final, is_exact; /* is_exact: a serial run's records are the only right ones */
    uint32_t growths;
    uint32_t hosts, executors;     /* machines, slots of each; 0: locally */
    uint32_t exact;                /* one task of so many is */
    uint32_t pinned, pinned_below; /* of 100 tasks with numbers below */
    const char *places[PLAN_TASKS];
    uint64_t nonces[PLAN_TASKS];                      /* what each of them decided */
    uint32_t unordered, indeterminate, ordered, wide; /* of 100 tasks */
    uint32_t liar;
} plan;

static inline uint64_t plan_mix(uint64_t a, uint64_t b)
{
    const uint64_t both[2] = {a, b};
    return gy_hash(both, sizeof(both), 0);
}

static inline uint32_t plan_inputs(const plan *job, uint32_t task)
{
    return job->first_edge[task + 1] - job->first_edge[task];
}

/* Some of the job's beginning run on one or two machines alone. */
static inline void plan_pin(plan *job, uint32_t at, gy_random *random)
{
    static const char *const one[PLAN_HOSTS] = {"m0", "m1", "m2", "m3"};
    static const char *const two[PLAN_HOSTS - 1] = {"m1 m0", "m2 m1", "m3 m2"};
    const uint32_t which = (uint32_t)gy_random_below(random, job->hosts);
    const bool is_two = gy_random_below(random, 2) == 0;
    if (gy_random_below(random, 100) < job->pinned && job->tasks[at].width == 1 &&
        at < job->pinned_below) {
        job->tasks[at].flags |= GY_TASK_PINNED;
        job->places[at] = is_two && which > 0 ? two[which - 1] : one[which];
    }
}

/* One more task, drawn from the seed, its number and what the gate decided. */
static inline void plan_task(plan *job, uint32_t stage, uint64_t nonce)
{
    uint32_t at = job->count++;
    gy_random random = {.key = plan_mix(plan_mix(job->seed, at), nonce)};
    gy_sched_task *task = &job->tasks[at];
    uint32_t inputs = at == 0 ? 0 : (uint32_t)gy_random_below(&random, PLAN_INPUTS);
    uint32_t percent = (uint32_t)gy_random_below(&random, 100);
    *task = (gy_sched_task){.key = {nonce, at + 1},
                            .stage = stage,
                            .width = 1,
                            .input_count = inputs,
                            .output_count = 1 + (uint32_t)gy_random_below(&random, 3)};
    if (percent < job->unordered) {
        task->determinism = GY_OUTPUT_UNORDERED;
    } else if (percent < job->unordered + job->indeterminate) {
        task->determinism = GY_OUTPUT_INDETERMINATE;
    }
    job->is_ordered[at] = gy_random_below(&random, 100) < job->ordered;
    job->is_liar[at] = at == job->liar && task->determinism == GY_OUTPUT_DETERMINISTIC;
    if (gy_random_below(&random, 100) < job->wide) {
        uint32_t most = job->hosts > 0 ? job->executors : job->options.process_max;
        task->width = (uint16_t)(1 + gy_random_below(&random, most));
    }
    if (job->has_final && gy_random_below(&random, 3) == 0) {
        task->flags = GY_TASK_FINAL;
    }
    if (gy_random_below(&random, job->exact) == 0) {
        task->flags |= GY_TASK_EXACT;
    }
    for (uint32_t i = 0; i < inputs; i++) {
        /* Mostly late ones, so that graphs are deep too. */
        uint64_t back = 1 + gy_random_below(&random, gy_random_below(&random, 2) == 0 ? 6 : at);
        uint32_t from = at - (uint32_t)GY_MIN(back, (uint64_t)at);
        job->edges[job->edge_count++] = (gy_edge){
            .from = from,
            .output = (uint32_t)gy_random_below(&random, job->tasks[from].output_count)};
    }
    if (job->hosts > 0) {
        static const char *const places[] = {NULL, "", "m0", " m3 m1 ", "nowhere m2"};
        job->places[at] = places[gy_random_below(&random, GY_COUNT(places))];
        plan_pin(job, at, &random);
    }
    task->input_bytes = (int64_t)gy_random_below(&random, PLAN_BYTES);
    job->first_edge[at + 1] = job->edge_count;
    job->is_exact = job->is_exact && task->determinism != GY_OUTPUT_INDETERMINATE &&
                    !(job->is_ordered[at] && task->determinism == GY_OUTPUT_DETERMINISTIC);
}

static inline uint32_t plan_pick(gy_random *random, const uint32_t *choices, uint32_t count)
{
    return choices[gy_random_below(random, count)];
}

/* A third of all jobs does. */
static inline bool plan_has_hosts(uint64_t seed)
{
    return plan_mix(seed, 5) % 3 == 0;
}

static inline void plan_hosts(plan *job)
{
    gy_random random = {.key = plan_mix(job->seed, 6)};
    if (plan_has_hosts(job->seed)) {
        job->hosts = 1 + (uint32_t)gy_random_below(&random, PLAN_HOSTS);
        job->executors = 1 + (uint32_t)gy_random_below(&random, job->hosts > 2 ? 2 : 3);
        job->options.process_max = job->hosts * job->executors;
        job->options.host_max = PLAN_NUMBERS;
        job->options.lease_ns = 300000000;
        job->exact = gy_random_below(&random, 3) == 0 ? 2 : 16;
        job->pinned = gy_random_below(&random, 3) == 0 ? 40 : 0;
    }
}

/* What there is to draw; `sizes`: of so many tasks at first. */
static inline void plan_draw(plan *job, const uint32_t *sizes, uint32_t size_count)
{
    static const char *const names[PLAN_STAGES] = {"one",      "two",      "three",
                                                   "more one", "more two", "more three"};
    static const uint32_t shares[] = {0, 0, 10, 40};
    gy_random random = {.key = plan_mix(job->seed, 1)};
    uint32_t count = plan_pick(&random, sizes, size_count);
    job->unordered = plan_pick(&random, shares, GY_COUNT(shares));
    job->indeterminate = plan_pick(&random, shares, GY_COUNT(shares));
    job->ordered = plan_pick(&random, shares, GY_COUNT(shares));
    job->wide = plan_pick(&random, shares, GY_COUNT(shares));
    job->has_final = gy_random_below(&random, 4) != 0;
    job->options = (gy_manager_options){
        .stages = job->stages,
        .stage_count = PLAN_STAGES,
        .process_max = 1 + (uint32_t)gy_random_below(&random, PLAN_HOME),
        .threads = 1 + (uint32_t)gy_random_below(&random, 2),
        .depth_max = 1 + (uint32_t)gy_random_below(&random, 4),
        .backup_floor_ns = gy_random_below(&random, 2) == 0 ? 30000000 : -1,
        .silence_ns = 200000000};
    if (gy_random_below(&random, 8) == 0) {
        job->liar = (uint32_t)gy_random_below(&random, count);
    }
    for (uint32_t stage = 0; stage < PLAN_STAGES; stage++) {
        job->stages[stage] =
            (gy_stage){.name = names[stage],
                       .is_gate = stage < PLAN_GATES && gy_random_below(&random, 2) == 0};
    }
    job->drawn = count;
}

/* Its first tasks, as it was drawn and changed since. */
static inline void plan_fill(plan *job)
{
    job->pinned_below = GY_MIN(job->drawn, job->limit);
    for (uint32_t task = 0; task < GY_MIN(job->drawn, job->limit); task++) {
        plan_task(job, task * 3 / job->drawn, 0);
    }
    job->first_count = job->count;
}

/* limit: no more tasks than this at first, to shrink a job. */
static inline void plan_new(plan *job, uint64_t seed, uint32_t limit)
{
    static const uint32_t sizes[] = {1, 4, 10, 25, 60};
    *job = (plan){
        .seed = seed, .limit = limit, .is_exact = true, .exact = 16, .liar = GY_TASK_NONE};
    plan_draw(job, sizes, GY_COUNT(sizes));
    plan_hosts(job);
    plan_fill(job);
}

/* What gate `stage` decided: more tasks, as the nonce says. */
static inline gy_growth plan_grow(plan *job, uint32_t stage, uint64_t nonce)
{
    uint32_t first = job->count, edge = job->edge_count, at = job->growths++;
    uint32_t count = at < PLAN_GROWTHS ? (uint32_t)(nonce % 8) : 0;
    const uint32_t targets[] = {stage, (stage + 1) % PLAN_GATES, stage + PLAN_GATES,
                                stage + PLAN_GATES};
    for (uint32_t i = 0; i < count && job->count < PLAN_TASKS; i++) {
        plan_task(job, targets[nonce / 8 % 4], nonce);
    }
    job->nonces[at] = nonce;
    return (gy_growth){.tasks = job->tasks + first,
                       .task_count = job->count - first,
                       .edges = job->edges + edge,
                       .edge_count = job->edge_count - edge,
                       .places = job->places + first,
                       .detail = &job->nonces[at],
                       .detail_bytes = sizeof(nonce)};
}

/* Back to what it began with. */
static inline void plan_forget(plan *job)
{
    job->count = job->first_count;
    job->edge_count = job->first_edge[job->count];
    job->growths = 0;
}

/* What a run of the task writes that read `inputs`. */
static inline plan_value plan_run(const plan *job, uint32_t task, const plan_value *inputs,
                                  uint64_t salt)
{
    gy_determinism determinism = (gy_determinism)job->tasks[task].determinism;
    bool is_ordered = job->is_ordered[task] && determinism == GY_OUTPUT_DETERMINISTIC;
    uint64_t base = plan_mix(job->seed, task + 1);
    for (uint32_t i = 0; i < plan_inputs(job, task); i++) {
        uint64_t read = is_ordered ? inputs[i].content : inputs[i].records;
        base = plan_mix(base, plan_mix(read, job->edges[job->first_edge[task] + i].output));
    }
    plan_value out = {.records = base, .content = plan_mix(base, 0)};
    if (determinism == GY_OUTPUT_UNORDERED || job->is_liar[task]) {
        out.content = plan_mix(base, salt);
    } else if (determinism == GY_OUTPUT_INDETERMINATE) {
        out.records = plan_mix(base, salt);
        out.content = plan_mix(out.records, 0);
    }
    return out;
}

/* May a reader keep what it read, now that another content stands? */
static inline bool plan_is_same(const plan *job, uint32_t from, plan_value read,
                                plan_value stands)
{
    bool is_loose = job->tasks[from].determinism == GY_OUTPUT_UNORDERED || job->is_liar[from];
    return read.records == stands.records && (is_loose || read.content == stands.content);
}

#endif
