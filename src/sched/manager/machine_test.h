/* Runs a manager in a test: the test sends events and inspects the effects of the last one. */
#ifndef GY_SCHED_MANAGER_MACHINE_TEST_H
#define GY_SCHED_MANAGER_MACHINE_TEST_H

#include "sched/manager/manager_priv.h"

#include <string.h>

#include "gy_test.h"

enum { MACHINE_TASKS = 64, MACHINE_EDGES = 256, MACHINE_STAGES = 4 };

/* A job that is put together task by task. */
typedef struct machine_job {
    gy_sched_task tasks[MACHINE_TASKS];
    gy_edge edges[MACHINE_EDGES];
    gy_growth growth;
} machine_job;

typedef struct machine {
    gy_manager *manager;
    gy_effects said;
    int64_t now_ns;
    uint8_t journal[1 << 16]; /* as a disk would hold it */
    size_t journal_bytes;
} machine;

static const gy_stage machine_stages[MACHINE_STAGES] = {
    {.name = "map"}, {.name = "reduce"}, {.name = "gate", .is_gate = true}, {.name = "last"}};

/* Add a task that reads output 0 of `inputs` tasks; fields not given are 1 or 0. */
static inline uint32_t machine_task(machine_job *job, gy_sched_task task,
                                    const uint32_t *inputs)
{
    uint32_t at = job->growth.task_count++;
    job->growth.tasks = job->tasks;
    job->growth.edges = job->edges;
    task.key = (gy_key){.high = 77, .low = at};
    task.width = task.width == 0 ? 1 : task.width;
    task.output_count = 1;
    for (uint32_t i = 0; i < task.input_count; i++) {
        job->edges[job->growth.edge_count++] = (gy_edge){.from = inputs[i]};
    }
    job->tasks[at] = task;
    return at;
}

/* So many tasks alike, which read nothing. */
static inline void machine_tasks(machine_job *job, uint32_t count, gy_sched_task task)
{
    for (uint32_t i = 0; i < count; i++) {
        machine_task(job, task, NULL);
    }
}

/* n tasks of stage 0, each read by one task of stage 1. */
static inline void machine_fan(machine_job *job, uint32_t n, gy_determinism determinism)
{
    uint32_t all[MACHINE_TASKS];
    *job = (machine_job){0};
    for (uint32_t i = 0; i < n; i++) {
        all[i] = machine_task(job, (gy_sched_task){.determinism = (uint8_t)determinism}, NULL);
    }
    machine_task(job, (gy_sched_task){.stage = 1, .input_count = n}, all);
}

static inline void machine_new(machine *at, const machine_job *job, gy_manager_options options)
{
    *at = (machine){.now_ns = 1};
    options.stages = machine_stages;
    options.stage_count = MACHINE_STAGES;
    options.process_max = options.process_max == 0 ? 2 : options.process_max;
    assert_ok(gy_manager_new(&options, &job->growth, &at->manager));
}

static inline void machine_free(machine *at)
{
    gy_manager_free(at->manager);
    gy_free(at->said.items);
    assert_int_equal(gy_alloc_live(), 0);
}

static inline void machine_tell(machine *at, gy_sched_event event)
{
    event.now_ns = at->now_ns;
    assert_ok(gy_manager_step(at->manager, &event, &at->said));
    for (size_t i = 0; i < at->said.count; i++) {
        const gy_effect *effect = &at->said.items[i];
        if (effect->kind == GY_EFFECT_APPEND) {
            assert_true(at->journal_bytes + effect->size_bytes <= sizeof(at->journal));
            memcpy(at->journal + at->journal_bytes, effect->data, effect->size_bytes);
            at->journal_bytes += effect->size_bytes;
            assert_int_equal(effect->position, at->journal_bytes);
        }
    }
}

/* The n-th effect of a kind in the last step; NULL: none. */
static inline const gy_effect *machine_reported(const machine *at, gy_effect_kind kind, int n)
{
    for (size_t i = 0; i < at->said.count; i++) {
        if (at->said.items[i].kind == kind && n-- == 0) {
            return &at->said.items[i];
        }
    }
    return NULL;
}

static inline int machine_count(const machine *at, gy_effect_kind kind)
{
    int count = 0;
    while (machine_reported(at, kind, count) != NULL) {
        count++;
    }
    return count;
}

static inline bool machine_noted(const machine *at, const char *words)
{
    const gy_effect *note = NULL;
    for (int n = 0; (note = machine_reported(at, GY_EFFECT_NOTE, n)) != NULL; n++) {
        if (strstr(note->reason, words) != NULL) {
            return true;
        }
    }
    return false;
}

static inline void machine_synced(machine *at)
{
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_SYNCED, .position = at->journal_bytes});
}

static inline void machine_up(machine *at, uint32_t process)
{
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_PROCESS_UP,
                                      .process = process,
                                      .generation = at->manager->slots[process].generation});
}

/* BEGIN, sync, and report all requested processes as up. */
static inline void machine_begin(machine *at)
{
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_BEGIN});
    machine_synced(at);
    for (uint32_t process = 0; process < at->manager->options.process_max; process++) {
        if (at->manager->slots[process].state == SLOT_STARTING) {
            machine_up(at, process);
        }
    }
}

/* A new manager of the job that has begun. */
static inline void machine_start(machine *at, const machine_job *job,
                                 gy_manager_options options)
{
    machine_new(at, job, options);
    machine_begin(at);
}

/* An event from the process that runs member `member` of the task's newest run. */
static inline gy_sched_event machine_event(const machine *at, uint32_t task, uint32_t member)
{
    uint32_t run_index = at->manager->rows[task].run;
    assert_true(run_index != GY_NONE);
    const run *newest = &at->manager->runs[run_index];
    uint32_t placement_index = gy_manager_run_placement(at->manager, run_index, member);
    assert_true(placement_index != GY_NONE);
    uint32_t process = at->manager->placements[placement_index].process;
    return (gy_sched_event){.id = {task, newest->epoch, newest->attempt},
                            .member = member,
                            .process = process,
                            .generation = at->manager->slots[process].generation};
}

static inline gy_sched_event machine_done_event(const machine *at, uint32_t task,
                                                uint64_t content)
{
    gy_sched_event event = machine_event(at, task, 0);
    event.kind = GY_EVENT_DONE;
    event.content = (gy_key){.low = content};
    event.run_ns = 1000;
    event.report = "report";
    event.report_bytes = 7;
    return event;
}

static inline void machine_done(machine *at, uint32_t task, uint64_t content)
{
    machine_tell(at, machine_done_event(at, task, content));
}

static inline void machine_fail(machine *at, uint32_t task, gy_cause cause, uint32_t input)
{
    gy_sched_event event = machine_event(at, task, 0);
    event.kind = GY_EVENT_FAILED;
    event.cause = cause;
    event.input = input;
    event.reason = "as the test wants it";
    machine_tell(at, event);
}

static inline task_state machine_state(const machine *at, uint32_t task)
{
    return (task_state)at->manager->rows[task].state;
}

#endif
