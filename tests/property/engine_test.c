/*
 * Goal: random programs give the values and the failures of running their tasks one after
 * another.
 */
#include "base/base.h"
#include "engine/engine.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "engine_kit.h"
#include "gy_test.h"

enum { VARS = 12, TASKS = 150, LISTED = 5, CHILDREN = 3, PROGRAMS = 150, PUSHERS = 3 };

typedef enum how { END_NOW, END_ELSEWHERE, FAIL_NOW, FAIL_ELSEWHERE, PUSH_MORE } how;

struct program;

typedef struct step {
    struct program *program;
    uint64_t id;
    how end;
    gy_lane lane;
    int priority;
    bool runs_poisoned;
    int reads[LISTED], mutates[LISTED];
    int read_count, mutate_count;
    gy_status cause; /* seen by the body */
    gy_done *done;   /* waits for the other thread */
    struct step *next;
    gy_var *own; /* children mutate this one in turn */
    uint64_t own_cell;
} step;

typedef struct program {
    gy_engine *engine;
    gy_var *vars[VARS];
    uint64_t cells[VARS];
    uint64_t serial[VARS];
    gy_status poison[VARS]; /* by the serial run */
    step steps[TASKS];
    uint64_t serial_own[TASKS];
    gy_status serial_cause[TASKS];
    bool serial_ran[TASKS];
    _Atomic(step *) handed; /* to the other thread */
    _Atomic bool is_over;
} program;

static uint64_t mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * 0x9E3779B97F4A7C15u;
    return a ^ (a >> 29);
}

/* What a body does to the values, here and in the serial run. */
static void transform(const step *what, uint64_t *cells)
{
    uint64_t sum = what->id;
    for (int i = 0; i < what->read_count; i++) {
        sum = mix(sum, cells[what->reads[i]]);
    }
    for (int i = 0; i < what->mutate_count; i++) {
        sum = mix(sum, cells[what->mutates[i]]);
    }
    for (int i = 0; i < what->mutate_count; i++) {
        cells[what->mutates[i]] = mix(sum, (uint64_t)what->mutates[i]);
    }
}

static gy_status own_failure(const step *what)
{
    return what->id % 2 == 0 ? GY_NUMERIC : GY_IO;
}

static void end_step(step *what, gy_done *done)
{
    bool is_failing = what->end == FAIL_NOW || what->end == FAIL_ELSEWHERE;
    if (what->cause < 0) {
        gy_done_fail(done, what->cause);
    } else if (is_failing) {
        gy_done_fail(done,
                     gy_fail(own_failure(what), "step %llu", (unsigned long long)what->id));
    } else {
        gy_done_ok(done);
    }
}

static void run_child(void *arg, gy_done *done)
{
    step *parent = arg;
    parent->own_cell = mix(parent->own_cell, parent->id);
    gy_done_ok(done);
}

static void run_step(void *arg, gy_done *done)
{
    step *what = arg;
    program *all = what->program;
    what->cause = gy_done_cause(done);
    if (what->cause == GY_OK) {
        transform(what, all->cells);
    }
    if (what->end == PUSH_MORE) {
        for (int i = 0; i < CHILDREN; i++) {
            assert_ok(gy_engine_push(all->engine, &(gy_task){.run = run_child,
                                                             .arg = what,
                                                             .priority = i,
                                                             .mutates = &what->own,
                                                             .mutate_count = 1}));
        }
    }
    if (what->end == END_ELSEWHERE || what->end == FAIL_ELSEWHERE) {
        what->done = done;
        step *head = atomic_load_explicit(&all->handed, memory_order_relaxed);
        do {
            what->next = head;
        } while (!atomic_compare_exchange_weak_explicit(
            &all->handed, &head, what, memory_order_release, memory_order_relaxed));
        return;
    }
    end_step(what, done);
}

/* The other thread: ends what it is handed, last first. */
static void *end_handed(void *arg)
{
    program *all = arg;
    while (!atomic_load_explicit(&all->is_over, memory_order_acquire)) {
        step *first = atomic_exchange_explicit(&all->handed, NULL, memory_order_acquire);
        while (first != NULL) {
            step *next = first->next;
            end_step(first, first->done);
            first = next;
        }
        sched_yield();
    }
    return NULL;
}

/* The failure of the listed variable with the lowest address, as the engine picks it. */
static gy_status find_cause(const program *all, const step *what)
{
    gy_status cause = GY_OK;
    const gy_var *lowest = NULL;
    for (int k = 0; k < 2; k++) {
        int count = k == 0 ? what->read_count : what->mutate_count;
        for (int i = 0; i < count; i++) {
            int v = k == 0 ? what->reads[i] : what->mutates[i];
            bool is_lower = lowest == NULL || (uintptr_t)all->vars[v] < (uintptr_t)lowest;
            if (all->poison[v] != GY_OK && is_lower) {
                cause = all->poison[v];
                lowest = all->vars[v];
            }
        }
    }
    return cause;
}

static void run_serially(program *all, int at)
{
    const step *what = &all->steps[at];
    gy_status cause = find_cause(all, what);
    all->serial_cause[at] = cause;
    all->serial_ran[at] = cause == GY_OK || what->runs_poisoned;
    if (cause == GY_OK) {
        transform(what, all->serial);
    }
    if (all->serial_ran[at] && what->end == PUSH_MORE) {
        for (int i = 0; i < CHILDREN; i++) {
            all->serial_own[at] = mix(all->serial_own[at], what->id);
        }
    }
    bool is_failing = what->end == FAIL_NOW || what->end == FAIL_ELSEWHERE;
    gy_status result = cause != GY_OK ? cause : is_failing ? own_failure(what) : GY_OK;
    for (int i = 0; i < what->mutate_count; i++) {
        if (all->poison[what->mutates[i]] == GY_OK) {
            all->poison[what->mutates[i]] = result;
        }
    }
}

static void draw_step(program *all, int at, gy_random *random)
{
    step *what = &all->steps[at];
    *what = (step){.program = all, .id = (uint64_t)at + 1, .own = kit_var(all->engine)};
    uint64_t kind = gy_random_below(random, 40);
    what->end = kind < 6    ? END_ELSEWHERE
                : kind == 6 ? FAIL_NOW
                : kind == 7 ? FAIL_ELSEWHERE
                : kind < 11 ? PUSH_MORE
                            : END_NOW;
    uint64_t lane = gy_random_below(random, 20);
    what->lane = lane == 0 ? GY_LANE_BLOCKING : lane == 1 ? GY_LANE_NETWORK : GY_LANE_COMPUTE;
    what->priority = gy_random_below(random, 3) == 0 ? (int)gy_random_below(random, 7) - 3 : 0;
    what->runs_poisoned = gy_random_below(random, 4) == 0;
    what->read_count = (int)gy_random_below(random, LISTED + 1);
    what->mutate_count = (int)gy_random_below(random, 3);
    for (int i = 0; i < LISTED; i++) {
        what->reads[i] = (int)gy_random_below(random, VARS);
        what->mutates[i] = (int)gy_random_below(random, VARS);
    }
}

static void push_step(program *all, step *what)
{
    gy_var *reads[LISTED];
    gy_var *mutates[LISTED];
    for (int i = 0; i < LISTED; i++) {
        reads[i] = all->vars[what->reads[i]];
        mutates[i] = all->vars[what->mutates[i]];
    }
    assert_ok(gy_engine_push(all->engine, &(gy_task){.name = "random step",
                                                     .run = run_step,
                                                     .arg = what,
                                                     .lane = what->lane,
                                                     .reads = reads,
                                                     .read_count = (size_t)what->read_count,
                                                     .mutates = mutates,
                                                     .mutate_count = (size_t)what->mutate_count,
                                                     .priority = what->priority,
                                                     .bytes = what->id % 5 * 100,
                                                     .runs_poisoned = what->runs_poisoned}));
}

/* After a wait nothing pushed is left on the variable, so its value is the serial one. */
static void check_var(program *all, int v)
{
    assert_status(gy_engine_wait(all->engine, all->vars[v], gy_deadline_after(100)),
                  all->poison[v]);
    assert_true(all->cells[v] == all->serial[v]);
}

static void run_program(program *all, gy_random *random)
{
    memset(all, 0, sizeof(*all));
    gy_engine_options options = {.workers = 1 + (int)gy_random_below(random, 4),
                                 .ranks_on_host = (int)gy_random_below(random, 3)};
    if (gy_random_below(random, 3) == 0) {
        options.memory_budget = 700;
    }
    if (gy_random_below(random, 3) == 0) {
        options.task_limit = 1 + (size_t)gy_random_below(random, 20);
    }
    assert_ok(gy_engine_new(&options, &all->engine));
    for (int v = 0; v < VARS; v++) {
        all->vars[v] = kit_var(all->engine);
    }
    gy_thread other = {.is_started = false};
    assert_ok(gy_thread_start(&other, "other", end_handed, all));
    for (int at = 0; at < TASKS; at++) {
        draw_step(all, at, random);
        push_step(all, &all->steps[at]);
        run_serially(all, at);
        uint64_t dice = gy_random_below(random, 40);
        int v = (int)gy_random_below(random, VARS);
        if (dice == 0) {
            check_var(all, v);
        } else if (dice < 4) {
            gy_var_heal(all->vars[v]);
            all->poison[v] = GY_OK;
        }
    }
    for (int v = 0; v < VARS; v++) {
        check_var(all, v);
    }
    assert_ok(gy_engine_wait_all(all->engine, gy_deadline_after(100)));
    for (int at = 0; at < TASKS; at++) {
        assert_true(all->steps[at].own_cell == all->serial_own[at]);
        if (all->serial_ran[at]) {
            assert_int_equal(all->steps[at].cause, all->serial_cause[at]);
        }
    }
    atomic_store_explicit(&all->is_over, true, memory_order_release);
    gy_thread_join(&other);
    gy_engine_free(all->engine);
}

GY_TEST(random_programs_give_the_serial_result)
{
    gy_random random = {.key = gy_test_seed()};
    static program all;
    int64_t live = gy_alloc_live();
    for (int i = 0; i < PROGRAMS; i++) {
        run_program(&all, &random);
        assert_int_equal(gy_alloc_live(), live);
    }
}

/* ---- several pushers ---- */

typedef struct pusher {
    program *all;
    uint64_t key;
    uint64_t expected[VARS];
    gy_thread thread;
} pusher;

typedef struct bump {
    uint64_t *cells;
    int at[2];
} bump;

static void run_bump(void *arg, gy_done *done)
{
    const bump *what = arg;
    what->cells[what->at[0]]++;
    if (what->at[0] != what->at[1]) {
        what->cells[what->at[1]]++;
    }
    gy_done_ok(done);
}

static void *push_bumps(void *arg)
{
    pusher *self = arg;
    program *all = self->all;
    enum { BUMPS = 400 };
    bump *bumps = gy_alloc("test.bumps", sizeof(bump) * BUMPS);
    assert_non_null(bumps);
    gy_scope *scope = kit_scope(all->engine, GY_NEVER);
    gy_random random = {.key = self->key};
    for (int i = 0; i < BUMPS; i++) {
        bumps[i] = (bump){
            .cells = all->cells,
            .at = {(int)gy_random_below(&random, VARS), (int)gy_random_below(&random, VARS)}};
        gy_var *mutates[2] = {all->vars[bumps[i].at[0]], all->vars[bumps[i].at[1]]};
        assert_ok(gy_engine_push(all->engine, &(gy_task){.run = run_bump,
                                                         .arg = &bumps[i],
                                                         .scope = scope,
                                                         .mutates = mutates,
                                                         .mutate_count = 2}));
        self->expected[bumps[i].at[0]]++;
        self->expected[bumps[i].at[1]] += bumps[i].at[0] != bumps[i].at[1];
    }
    assert_ok(gy_scope_wait(scope, gy_deadline_after(100)));
    gy_scope_free(scope);
    gy_free(bumps);
    return NULL;
}

GY_TEST(pushers_that_share_variables_never_lock_up)
{
    gy_random random = {.key = gy_test_seed()};
    static program all;
    for (int workers = 1; workers <= 3; workers++) {
        memset(&all, 0, sizeof(all));
        assert_ok(gy_engine_new(&(gy_engine_options){.workers = workers}, &all.engine));
        for (int v = 0; v < VARS; v++) {
            all.vars[v] = kit_var(all.engine);
        }
        pusher pushers[PUSHERS];
        for (int i = 0; i < PUSHERS; i++) {
            pushers[i] = (pusher){.all = &all, .key = gy_random_u64(&random)};
            assert_ok(gy_thread_start(&pushers[i].thread, "pusher", push_bumps, &pushers[i]));
        }
        uint64_t expected[VARS] = {0};
        for (int i = 0; i < PUSHERS; i++) {
            gy_thread_join(&pushers[i].thread);
            for (int v = 0; v < VARS; v++) {
                expected[v] += pushers[i].expected[v];
            }
        }
        assert_ok(gy_engine_wait_all(all.engine, gy_deadline_after(100)));
        assert_memory_equal(all.cells, expected, sizeof(expected));
        gy_engine_free(all.engine);
    }
}

GY_TEST_MAIN(NULL, NULL)
