/*
 * Jobs of a simulated cluster whose managers are the machine: what each run read and wrote,
 * where that lies, what is saved and published, over all managers of a job.
 */
#ifndef GY_TESTS_WHOLE_RUNS_H
#define GY_TESTS_WHOLE_RUNS_H

#include "cluster_managers.h"
#include "manager_plan.h"

enum { WHOLE_SLOTS = 8 };

/* A run of a task. */
typedef struct run {
    gy_attempt id;
    uint32_t next;                     /* an earlier one of the task, + 1 */
    uint32_t epoch;                    /* of its manager */
    uint32_t width, input_count, done; /* done: bits of members */
    gy_attempt bound[PLAN_INPUTS];
    plan_value read[PLAN_INPUTS], value;
    int node;
    uint64_t incarnation;
    uint32_t files;                                 /* of its job there, when it was written */
    bool has_file, is_held, is_discarded, is_loose; /* is_loose: another run may differ */
    bool is_exact;
    uint64_t excused;       /* bits of epochs that know it to be lost */
    uint32_t copies[HOSTS]; /* the host's life + 1 in which it was fetched there */
    uint32_t looked;        /* when is_undermined was found */
    bool is_undermined;
} run;

/* A job: what outlives its managers. */
typedef struct book {
    plan first;
    run *runs;
    size_t count, capacity;
    uint32_t last[PLAN_TASKS];  /* run + 1 */
    uint64_t nonce[PLAN_TASKS]; /* + 1, of the task of that number that was started */
    gy_attempt synced[PLAN_TASKS];
    bool is_raised[PLAN_TASKS]; /* since then */
    uint32_t claimed;           /* the highest epoch with a journal */
    uint32_t saved_by, published_by;
    plan_value saved[PLAN_TASKS], published[PLAN_TASKS];
    uint32_t failures_left[PLAN_TASKS], failures[PLAN_TASKS];
} book;

static book books[JOBS];
static uint32_t files_of[HOSTS][JOBS]; /* counts what was discarded */
static int64_t bad_until_ns[HOSTS];
static bool called_bad[JOBS][HOSTS]; /* by a manager of the job, at any time */
static uint32_t whole_stamp;
static uint64_t whole_reruns, whole_losses, whole_resumes, whole_tasks, whole_cohorts;

static inline run *run_find(uint32_t job, const gy_attempt *id)
{
    book *own = &books[job];
    for (uint32_t at = own->last[id->task]; at != 0; at = own->runs[at - 1].next) {
        if (own->runs[at - 1].id.epoch == id->epoch &&
            own->runs[at - 1].id.attempt == id->attempt) {
            return &own->runs[at - 1];
        }
    }
    return NULL;
}

static inline run *run_add(uint32_t job, const gy_attempt *id)
{
    book *own = &books[job];
    if (GY_GROW("world.runs", own->runs, own->capacity, own->count + 1) < 0) {
        gy_panic("no memory for a simulated world");
    }
    own->runs[own->count] = (run){.id = *id, .next = own->last[id->task]};
    own->last[id->task] = (uint32_t)++own->count;
    return &own->runs[own->count - 1];
}

static inline uint32_t run_number(uint32_t job, const run *one)
{
    return (uint32_t)(one - books[job].runs);
}

/* ---- Where files are ---- */

/* Do they stand at all, on a host that may be away? */
static inline bool is_standing(const world *at, uint32_t job, const run *one)
{
    if (one == NULL || !one->has_file || one->is_discarded || !one->is_held) {
        return one != NULL && one->has_file && !one->is_discarded;
    }
    const host *own = &at->hosts[one->node - SERVERS];
    return !own->is_gone && own->incarnation == one->incarnation &&
           files_of[one->node - SERVERS][job] == one->files;
}

/* May `from` read what lies at `to` now? */
static inline bool is_reached(const world *at, int from, int to)
{
    return from == to ||
           (at->hosts[to - SERVERS].is_up && !at->is_cut[from][to] && !at->is_cut[to][from]);
}

/* Can a process at `node` read it? */
static inline bool is_here(const world *at, uint32_t job, const run *one, int node)
{
    const host *own = &at->hosts[node - SERVERS];
    return one != NULL && (one->copies[node - SERVERS] == own->life + 1 ||
                           (is_standing(at, job, one) && (!one->is_held || one->node == node)));
}

static inline void files_go(world *at, int node, uint32_t job, bool is_wiped)
{
    if (job < JOBS) {
        files_of[node - SERVERS][job]++;
        return;
    }
    for (uint32_t i = 0; i < at->job_count; i++) {
        files_of[node - SERVERS][i] += is_wiped;
        for (size_t k = 0; k < books[i].count && !is_wiped; k++) {
            run *one = &books[i].runs[k];
            if (one->node == node && one->is_held && world_below(at, 16) == 0) {
                one->has_file = false; /* it was not synced */
            }
        }
    }
}

static inline void run_discarded(world *at, int node, const letter *what)
{
    run *one = &books[what->job].runs[what->words[0].run];
    (void)at;
    if (one->node == node) {
        one->is_discarded = true;
    }
    one->copies[node - SERVERS] = 0;
}

static inline gy_status fetch_result(world *at, int node, const outstanding *what, int peer,
                                     uint64_t incarnation)
{
    const host *own = world_host(at, node);
    const uint32_t job = (uint32_t)what->content.low - 1; /* the low half of a job's key */
    run *one = &books[job].runs[(what->content.high & UINT32_MAX) - 1];
    const host *from = world_host(at, peer);
    if (!is_reached(at, node, peer) || from->stopped_until_ns > world_now(at) ||
        (own->fails_fetch && world_below(at, 4) == 0)) {
        return GY_PEER;
    }
    if (own->fails_fetch && world_below(at, 4) == 0) {
        return GY_MISMATCH;
    }
    if (own->is_full) {
        return GY_LIMIT;
    }
    if (from->incarnation != incarnation || !is_standing(at, job, one)) {
        return GY_NOTFOUND;
    }
    one->copies[node - SERVERS] = own->life + 1;
    return GY_OK;
}

/* ---- Processes ---- */

/* Is it in a slot of the manager of that epoch? */
static inline bool is_rented(const world *at, uint32_t epoch, const process *one);

static inline bool fails_now(world *at, int node, book *own, uint32_t task)
{
    const bool is_bad = bad_until_ns[node - SERVERS] > world_now(at) && world_below(at, 4) > 0;
    if (own->failures[task] >= 40 || (!is_bad && own->failures_left[task] == 0)) {
        return false;
    }
    own->failures_left[task] -= own->failures_left[task] > 0;
    own->failures[task]++;
    return true;
}

/* A greedy job's tasks are at it while shares are looked at. */
static inline bool work_ends(world *at, int node, process *one, word *result)
{
    book *own = &books[one->job];
    run *own_run = &own->runs[result->run];
    if (!one->is_cancelled && result->cause != GY_CAUSE_CANCELLED && at->is_healed &&
        !at->is_released && at->jobs[one->job].is_greedy) {
        return false;
    }
    result->token = 0;
    result->kind = WORD_FAILED;
    if (one->is_cancelled || result->cause == GY_CAUSE_CANCELLED) {
        result->cause = GY_CAUSE_CANCELLED;
        return true;
    }
    for (uint32_t i = 0; i < own_run->input_count; i++) {
        if (!is_here(at, one->job, run_find(one->job, &own_run->bound[i]), node)) {
            result->cause = GY_CAUSE_LOST_INPUT;
            result->input = (uint16_t)i;
            return true;
        }
    }
    if (fails_now(at, node, own, own_run->id.task)) {
        result->cause = GY_CAUSE_OWN;
        return true;
    }
    /* One whose lease is over may write what goes with the job. */
    if (own_run->is_discarded && is_rented(at, own_run->epoch, one)) {
        world_wrong(at, "files are written after their DISCARD", own_run->id.task);
    }
    own_run->done |= 1u << result->member;
    own_run->files = files_of[node - SERVERS][one->job];
    own_run->has_file = own_run->done == (1u << own_run->width) - 1;
    own_run->is_held = own_run->is_held || world_below(at, 3) > 0;
    result->is_held = own_run->is_held;
    result->kind = WORD_DONE;
    return true;
}

/* ---- Faults ---- */

static inline void task_fault(world *at, const fault *what)
{
    const uint32_t job = what->which % at->job_count;
    book *own = &books[job];
    if (what->kind != FAULT_OUTPUT_LOST && !at->is_failing) {
        return;
    }
    if (what->kind == FAULT_HOST_BAD) {
        bad_until_ns[what->which % at->host_count] = world_now(at) + what->span_ns;
    } else if (what->kind == FAULT_TASK_FAILS) {
        own->failures_left[what->which / 8 % own->first.count] += 1 + what->which % 5;
    } else if (own->count > 0) { /* every third that is held */
        for (size_t i = what->which % 3; i < own->count; i += 3) {
            own->runs[i].has_file = own->runs[i].has_file && !own->runs[i].is_held;
        }
    }
}

/* ---- May it run again? ---- */

/* Did it read, over others too, what another run would write otherwise, and is that gone? */
static inline bool is_undermined(world *at, uint32_t job, const gy_attempt *stands, run *one)
{
    if (one->looked == whole_stamp) {
        return one->is_undermined;
    }
    one->looked = whole_stamp;
    one->is_undermined = false;
    for (uint32_t i = 0; i < one->input_count && !one->is_undermined; i++) {
        const gy_attempt *bound = &one->bound[i];
        run *input = run_find(job, bound);
        bool is_gone = !is_standing(at, job, input) ||
                       memcmp(bound, &stands[bound->task], sizeof(*bound)) != 0;
        one->is_undermined =
            (input->is_loose && is_gone) || is_undermined(at, job, stands, input);
    }
    return one->is_undermined;
}

static inline bool is_justified(world *at, uint32_t job, uint32_t epoch,
                                const gy_attempt *stands, uint32_t task)
{
    run *one = run_find(job, &stands[task]);
    whole_stamp++;
    return !is_standing(at, job, one) || (one->excused >> epoch % 64 & 1) != 0 ||
           is_undermined(at, job, stands, one);
}

#endif
