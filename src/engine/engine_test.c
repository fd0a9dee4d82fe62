/* Goal: order, failures, scopes, limits and ends from elsewhere keep what gyre/engine.h
 * guarantees. */
#include "engine/engine_priv.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "engine_kit.h"
#include "gy_test.h"

enum { WORKERS_MAX = 3 };

static gy_engine *start(int workers)
{
    gy_engine *engine = NULL;
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = workers}, &engine));
    return engine;
}

/* ---- bodies ---- */

static void append(void *arg, gy_done *done)
{
    char **at = arg;
    *(*at)++ = 'x';
    gy_done_ok(done);
}

static void count_up(void *arg, gy_done *done)
{
    atomic_fetch_add_explicit((_Atomic int *)arg, 1, memory_order_relaxed);
    gy_done_ok(done);
}

static void break_down(void *arg, gy_done *done)
{
    (void)arg;
    gy_done_fail(done, gy_fail(GY_NUMERIC, "loss is not a number"));
}

typedef struct cause_seen {
    gy_status status;
    char text[256];
} cause_seen;

static void tell_cause(void *arg, gy_done *done)
{
    cause_seen *seen = arg;
    seen->status = gy_done_cause(done);
    snprintf(seen->text, sizeof(seen->text), "%s", gy_error_text());
    if (seen->status < 0) {
        gy_done_fail(done, seen->status);
    } else {
        gy_done_ok(done);
    }
}

typedef struct kept {
    _Atomic(gy_done *) done;
    pthread_t runner;
} kept;

static void keep(void *arg, gy_done *done)
{
    kept *to = arg;
    to->runner = pthread_self();
    atomic_store_explicit(&to->done, done, memory_order_release);
}

static gy_done *await_kept(kept *from)
{
    gy_done *done = NULL;
    while ((done = atomic_load_explicit(&from->done, memory_order_acquire)) == NULL) {
        sched_yield();
    }
    return done;
}

static void push_on(gy_engine *engine, gy_work run, void *arg, gy_var *read, gy_var *mutate)
{
    assert_ok(gy_engine_push(engine, &(gy_task){.name = "step",
                                                .run = run,
                                                .arg = arg,
                                                .reads = &read,
                                                .read_count = read != NULL,
                                                .mutates = &mutate,
                                                .mutate_count = mutate != NULL}));
}

/* ---- order ---- */

GY_TEST(one_worker_runs_in_the_waiting_thread)
{
    gy_engine *engine = start(1);
    gy_var *var = kit_var(engine);
    kept seen = {.done = NULL};
    push_on(engine, keep, &seen, NULL, var);
    assert_status(gy_engine_wait(engine, var, gy_deadline_after(0.01)), GY_TIMEOUT);
    assert_non_null(strstr(gy_error_text(), "step"));
    assert_true(pthread_equal(seen.runner, pthread_self()));
    gy_done_ok(await_kept(&seen));
    assert_ok(gy_engine_wait(engine, var, GY_NEVER));
    gy_engine_free(engine);
}

GY_TEST(a_variable_read_and_mutated_counts_once)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        gy_engine *engine = start(workers);
        gy_var *var = kit_var(engine);
        char text[100] = "";
        char *at = text;
        gy_var *twice[3] = {var, var, var};
        for (int i = 0; i < 20; i++) {
            assert_ok(gy_engine_push(engine, &(gy_task){.run = append,
                                                        .arg = &at,
                                                        .reads = twice,
                                                        .read_count = 3,
                                                        .mutates = twice,
                                                        .mutate_count = 2}));
        }
        assert_ok(gy_engine_wait(engine, var, gy_deadline_after(60)));
        assert_int_equal(strlen(text), 20);
        gy_engine_free(engine);
    }
}

typedef struct ordered {
    int *out;
    int *at;
    int value;
} ordered;

static void note(void *arg, gy_done *done)
{
    const ordered *item = arg;
    item->out[(*item->at)++] = item->value;
    gy_done_ok(done);
}

GY_TEST(higher_priority_and_network_run_first)
{
    gy_engine *engine = start(1);
    static const int priorities[] = {0, -3, 5, 0, 7, 5, -3};
    static const int expected[] = {7, 4, 2, 5, 0, 3, 1, 6};
    int out[8];
    int at = 0;
    ordered items[8];
    for (int i = 0; i < 8; i++) {
        items[i] = (ordered){.out = out, .at = &at, .value = i};
        assert_ok(gy_engine_push(
            engine, &(gy_task){.run = note,
                               .arg = &items[i],
                               .priority = i < 7 ? priorities[i] : -9,
                               .lane = i < 7 ? GY_LANE_COMPUTE : GY_LANE_NETWORK}));
    }
    assert_ok(gy_engine_wait_all(engine, GY_NEVER));
    assert_memory_equal(out, expected, sizeof(out));
    gy_engine_free(engine);
}

GY_TEST(free_drains_what_nobody_waited_for)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        _Atomic int count = 0;
        gy_engine *engine = start(workers);
        gy_var *var = kit_var(engine);
        for (int i = 0; i < 3000; i++) {
            push_on(engine, count_up, &count, i % 3 == 0 ? var : NULL, i % 3 == 1 ? var : NULL);
        }
        gy_var_free(var);
        gy_engine_free(engine);
        assert_int_equal(atomic_load(&count), 3000);
    }
}

/* ---- failures ---- */

GY_TEST(failures_poison_readers_and_heal)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        gy_engine *engine = start(workers);
        gy_var *a = kit_var(engine);
        gy_var *b = kit_var(engine);
        gy_var *c = kit_var(engine);
        _Atomic int count = 0;
        cause_seen seen = {.status = GY_OK};
        push_on(engine, break_down, NULL, NULL, a);
        push_on(engine, count_up, &count, a, b);
        push_on(engine, count_up, &count, NULL, a);
        assert_ok(gy_engine_push(engine, &(gy_task){.name = "allreduce",
                                                    .run = tell_cause,
                                                    .arg = &seen,
                                                    .reads = &b,
                                                    .read_count = 1,
                                                    .mutates = &c,
                                                    .mutate_count = 1,
                                                    .runs_poisoned = true}));
        assert_status(gy_engine_wait(engine, b, GY_NEVER), GY_NUMERIC);
        assert_string_equal(gy_error_text(), "task step: loss is not a number");
        assert_status(gy_engine_wait(engine, c, GY_NEVER), GY_NUMERIC);
        assert_string_equal(seen.text, "task step: loss is not a number");
        assert_int_equal(seen.status, GY_NUMERIC);
        assert_status(gy_engine_wait(engine, a, GY_NEVER), GY_NUMERIC);
        assert_int_equal(atomic_load(&count), 0);
        gy_var_heal(a);
        push_on(engine, count_up, &count, a, NULL);
        assert_ok(gy_engine_wait(engine, a, GY_NEVER));
        assert_int_equal(atomic_load(&count), 1);
        gy_engine_free(engine);
    }
}

GY_TEST(scopes_cancel_and_keep_the_first_error)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        gy_engine *engine = start(workers);
        gy_var *var = kit_var(engine);
        gy_scope *scope = kit_scope(engine, GY_NEVER);
        _Atomic int count = 0;
        kept first = {.done = NULL};
        gy_task task = {.name = "held",
                        .run = keep,
                        .arg = &first,
                        .scope = scope,
                        .mutates = &var,
                        .mutate_count = 1};
        assert_ok(gy_engine_push(engine, &task));
        task.run = count_up;
        task.arg = &count;
        assert_ok(gy_engine_push(engine, &task));
        assert_status(gy_scope_wait(scope, gy_deadline_after(0.01)), GY_TIMEOUT);
        gy_scope_cancel(scope);
        gy_done_ok(await_kept(&first));
        assert_status(gy_scope_wait(scope, GY_NEVER), GY_CANCELLED);
        assert_status(gy_engine_wait(engine, var, GY_NEVER), GY_CANCELLED);
        assert_status(gy_scope_wait(scope, GY_NEVER), GY_CANCELLED);
        assert_int_equal(atomic_load(&count), 0);
        gy_scope_free(scope);
        gy_engine_free(engine);
    }
}

GY_TEST(scopes_end_at_their_deadline)
{
    gy_engine *engine = start(2);
    gy_scope *scope = kit_scope(engine, gy_deadline_after(0.01));
    kept first = {.done = NULL};
    _Atomic int count = 0;
    gy_var *var = kit_var(engine);
    gy_task task = {
        .run = keep, .arg = &first, .scope = scope, .mutates = &var, .mutate_count = 1};
    assert_ok(gy_engine_push(engine, &task));
    task.run = count_up;
    task.arg = &count;
    assert_ok(gy_engine_push(engine, &task));
    assert_status(gy_scope_wait(scope, GY_NEVER), GY_TIMEOUT);
    gy_done_ok(await_kept(&first));
    gy_status late = gy_engine_wait(engine, var, GY_NEVER);
    assert_status(late, GY_TIMEOUT);
    assert_int_equal(atomic_load(&count), 0);
    gy_scope_free(scope);
    gy_engine_free(engine);
}

/* ---- ends from elsewhere, lanes, limits ---- */

static void *end_later(void *arg)
{
    gy_done_ok(await_kept(arg));
    return NULL;
}

GY_TEST(another_thread_ends_a_task_and_wakes_the_waiter)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        gy_engine *engine = start(workers);
        gy_var *var = kit_var(engine);
        for (int i = 0; i < 50; i++) {
            kept first = {.done = NULL};
            _Atomic int count = 0;
            gy_thread other = {.is_started = false};
            assert_ok(gy_thread_start(&other, "other", end_later, &first));
            push_on(engine, keep, &first, NULL, var);
            push_on(engine, count_up, &count, var, NULL);
            assert_ok(gy_engine_wait(engine, var, GY_NEVER));
            assert_int_equal(atomic_load(&count), 1);
            gy_thread_join(&other);
        }
        gy_engine_free(engine);
    }
}

typedef struct late_end {
    kept first;
    gy_engine *engine;
    _Atomic bool has_ended;
} late_end;

/* Ends the task when all that wait have gone to sleep in the kernel. */
static void *end_when_asleep(void *arg)
{
    late_end *late = arg;
    gy_done *done = await_kept(&late->first);
    while (atomic_load(&late->engine->waiters_asleep.sleepers) == 0) {
        sched_yield();
    }
    gy_done_ok(done);
    return NULL;
}

GY_TEST(sleepers_are_woken_by_the_last_end)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        for (int what = 0; what < 3; what++) {
            late_end late = {.engine = start(workers)};
            gy_var *var = kit_var(late.engine);
            gy_scope *scope = kit_scope(late.engine, GY_NEVER);
            gy_thread other = {.is_started = false};
            assert_ok(gy_thread_start(&other, "other", end_when_asleep, &late));
            assert_ok(gy_engine_push(late.engine, &(gy_task){.run = keep,
                                                             .arg = &late.first,
                                                             .scope = scope,
                                                             .mutates = &var,
                                                             .mutate_count = 1}));
            assert_ok(what == 0   ? gy_engine_wait(late.engine, var, gy_deadline_after(60))
                      : what == 1 ? gy_scope_wait(scope, gy_deadline_after(60))
                                  : gy_engine_wait_all(late.engine, gy_deadline_after(60)));
            gy_thread_join(&other);
            gy_engine_counts counts = gy_engine_count(late.engine);
            assert_int_equal(counts.tasks, 1);
            assert_true(workers > 1 || counts.idle_ns > SPIN_NS / 2);
            gy_scope_free(scope);
            gy_engine_free(late.engine);
        }
    }
}

GY_TEST(sleeping_workers_run_what_nobody_waits_for)
{
    gy_engine *engine = start(2);
    for (int i = 0; i < 20; i++) {
        _Atomic int count = 0;
        while (atomic_load(&engine->workers_asleep.sleepers) == 0) {
            sched_yield();
        }
        push_on(engine, count_up, &count, NULL, NULL);
        while (atomic_load(&count) == 0) {
            sched_yield();
        }
        assert_ok(gy_engine_wait_all(engine, GY_NEVER));
    }
    gy_engine_free(engine);
}

static void look_at_cores(void *arg, gy_done *done)
{
    CPU_ZERO((cpu_set_t *)arg);
    assert_int_equal(sched_getaffinity(0, sizeof(cpu_set_t), arg), 0);
    gy_done_ok(done);
}

GY_TEST(bound_engines_give_the_cores_back)
{
    cpu_set_t before;
    cpu_set_t during;
    cpu_set_t blocking;
    cpu_set_t after;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    gy_engine *engine = NULL;
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = 1, .bind = true}, &engine));
    gy_task task = {.run = look_at_cores, .arg = &during};
    assert_ok(gy_engine_push(engine, &task));
    assert_ok(gy_engine_wait_all(engine, GY_NEVER));
    assert_int_equal(CPU_COUNT(&during), 1);
    task.arg = &blocking;
    task.lane = GY_LANE_BLOCKING;
    /* The first one may look before its thread is set free. */
    for (int i = 0; i < 100000; i++) {
        assert_ok(gy_engine_push(engine, &task));
        assert_ok(gy_engine_wait_all(engine, GY_NEVER));
        if (CPU_EQUAL(&blocking, &before)) {
            break;
        }
    }
    assert_true(CPU_EQUAL(&blocking, &before));
    gy_engine_free(engine);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &before));
}

static void *end_and_tell(void *arg)
{
    late_end *late = arg;
    gy_done_ok(await_kept(&late->first));
    atomic_store(&late->has_ended, true);
    return NULL;
}

/* Still in its body when another thread has ended it. */
static void outlive_the_end(void *arg, gy_done *done)
{
    late_end *late = arg;
    keep(&late->first, done);
    while (!atomic_load(&late->has_ended)) {
        sched_yield();
    }
}

GY_TEST(a_body_may_outlive_its_end)
{
    gy_engine *engine = start(1);
    gy_var *var = kit_var(engine);
    late_end late = {.engine = engine};
    gy_thread other = {.is_started = false};
    assert_ok(gy_thread_start(&other, "other", end_and_tell, &late));
    push_on(engine, outlive_the_end, &late, NULL, var);
    assert_ok(gy_engine_wait(engine, var, gy_deadline_after(60)));
    gy_thread_join(&other);
    gy_engine_free(engine);
}

/* A task that waits for another one runs it itself. */
static void wait_inside(void *arg, gy_done *done)
{
    void **pair = arg;
    gy_engine *engine = pair[0];
    gy_var *inner = kit_var(engine);
    push_on(engine, count_up, pair[1], NULL, inner);
    assert_ok(gy_engine_wait(engine, inner, gy_deadline_after(60)));
    assert_int_equal(atomic_load((_Atomic int *)pair[1]) > 0, 1);
    gy_var_free(inner);
    gy_done_ok(done);
}

GY_TEST(tasks_push_and_wait)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        gy_engine *engine = start(workers);
        _Atomic int count = 0;
        void *pair[2] = {engine, &count};
        for (int i = 0; i < 100; i++) {
            push_on(engine, wait_inside, pair, NULL, NULL);
        }
        assert_ok(gy_engine_wait_all(engine, gy_deadline_after(60)));
        assert_int_equal(atomic_load(&count), 100);
        gy_engine_free(engine);
    }
}

GY_TEST(bodies_leave_spans_in_the_trace)
{
    gy_trace_start(64);
    gy_engine *engine = start(1);
    _Atomic int count = 0;
    push_on(engine, count_up, &count, NULL, NULL);
    gy_engine_free(engine);
    atomic_store(&gy_trace_is_on, false);
    gy_text text = {.data = NULL};
    gy_trace_write(&text, 0, "test");
    assert_non_null(strstr(gy_text_get(&text), "\"name\":\"step\""));
    gy_text_free(&text);
}

typedef struct pipe_ends {
    _Atomic int met;
    int wanted;
} pipe_ends;

/* Sleeps until all of its kind have come: needs as many threads. */
static void meet(void *arg, gy_done *done)
{
    pipe_ends *ends = arg;
    atomic_fetch_add_explicit(&ends->met, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&ends->met, memory_order_acquire) < ends->wanted) {
        sched_yield();
    }
    gy_done_ok(done);
}

GY_TEST(blocking_tasks_get_a_thread_each)
{
    gy_engine *engine = start(1);
    pipe_ends ends = {.wanted = 5};
    for (int round = 0; round < 3; round++) {
        atomic_store(&ends.met, 0);
        for (int i = 0; i < ends.wanted; i++) {
            assert_ok(gy_engine_push(
                engine, &(gy_task){.run = meet, .arg = &ends, .lane = GY_LANE_BLOCKING}));
        }
        assert_ok(gy_engine_wait_all(engine, GY_NEVER));
    }
    gy_engine_free(engine);
}

typedef struct load {
    _Atomic int64_t now, most;
    int64_t bytes;
    kept slots[64];
    _Atomic int begun;
} load;

static void weigh(void *arg, gy_done *done)
{
    load *sum = arg;
    int64_t now = atomic_fetch_add_explicit(&sum->now, sum->bytes, memory_order_acq_rel);
    int64_t most = atomic_load_explicit(&sum->most, memory_order_acquire);
    while (now + sum->bytes > most &&
           !atomic_compare_exchange_weak(&sum->most, &most, now + sum->bytes)) {
    }
    int slot = atomic_fetch_add_explicit(&sum->begun, 1, memory_order_acq_rel);
    atomic_store_explicit(&sum->slots[slot].done, done, memory_order_release);
}

static void *unload(void *arg)
{
    load *sum = arg;
    for (int i = 0; i < 64; i++) {
        gy_done *done = await_kept(&sum->slots[i]);
        atomic_fetch_sub_explicit(&sum->now, sum->bytes, memory_order_acq_rel);
        gy_done_ok(done);
    }
    return NULL;
}

GY_TEST(budget_and_limit_hold_back_pushes)
{
    for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
        gy_engine *engine = NULL;
        assert_ok(gy_engine_new(&(gy_engine_options){.workers = 2,
                                                     .memory_budget = by_bytes ? 1000 : 0,
                                                     .task_limit = by_bytes ? 0 : 3},
                                &engine));
        static load sum;
        memset(&sum, 0, sizeof(sum));
        sum.bytes = 300;
        gy_thread other = {.is_started = false};
        assert_ok(gy_thread_start(&other, "unload", unload, &sum));
        for (int i = 0; i < 64; i++) {
            assert_ok(gy_engine_push(
                engine, &(gy_task){.run = weigh, .arg = &sum, .bytes = (size_t)sum.bytes}));
        }
        assert_ok(gy_engine_wait_all(engine, GY_NEVER));
        gy_thread_join(&other);
        assert_in_range(atomic_load(&sum.most), 300, 900);
        _Atomic int count = 0;
        assert_ok(
            gy_engine_push(engine, &(gy_task){.run = count_up, .arg = &count, .bytes = 5000}));
        assert_ok(gy_engine_wait_all(engine, GY_NEVER));
        assert_int_equal(atomic_load(&count), 1);
        gy_engine_free(engine);
    }
}

typedef struct wire {
    kept waiting;
    _Atomic int inside, calls;
} wire;

static bool drive(void *arg)
{
    wire *net = arg;
    assert_int_equal(atomic_fetch_add(&net->inside, 1), 0);
    int calls = atomic_fetch_add(&net->calls, 1);
    gy_done *done = NULL;
    if (calls % 7 == 6) {
        done = atomic_exchange(&net->waiting.done, NULL);
        if (done != NULL) {
            gy_done_ok(done);
        }
    }
    atomic_fetch_sub(&net->inside, 1);
    return done != NULL;
}

GY_TEST(waiters_drive_progress)
{
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        gy_engine *engine = start(workers);
        gy_var *var = kit_var(engine);
        wire net = {.calls = 0};
        assert_ok(gy_engine_add_progress(engine, drive, &net));
        for (int i = 0; i < 20; i++) {
            gy_var *mutates[1] = {var};
            assert_ok(gy_engine_push(engine, &(gy_task){.name = "receive",
                                                        .run = keep,
                                                        .arg = &net.waiting,
                                                        .lane = GY_LANE_NETWORK,
                                                        .mutates = mutates,
                                                        .mutate_count = 1}));
        }
        assert_ok(gy_engine_wait(engine, var, GY_NEVER));
        gy_engine_remove_progress(engine, drive, &net);
        assert_int_equal(atomic_load(&net.inside), 0);
        gy_engine_free(engine);
    }
}

/* Who pushes more than it may be ahead runs some of it, and drives progress meanwhile. */
GY_TEST(pushers_drive_progress)
{
    enum { MANY = 4096 };
    gy_engine *engine = start(1);
    wire net = {.calls = 0};
    _Atomic int count = 0;
    assert_ok(gy_engine_add_progress(engine, drive, &net));
    for (int i = 0; i < MANY; i++) {
        assert_ok(gy_engine_push(engine, &(gy_task){.run = count_up, .arg = &count}));
    }
    const int ran = atomic_load(&count);
    assert_true(ran > 0 && ran < MANY);
    assert_true(atomic_load(&net.calls) >= ran / 2);
    assert_ok(gy_engine_wait_all(engine, GY_NEVER));
    gy_engine_remove_progress(engine, drive, &net);
    gy_engine_free(engine);
}

/* ---- misuse and memory ---- */

GY_TEST(bad_arguments_are_named)
{
    gy_engine *engine = NULL;
    assert_status(gy_engine_new(&(gy_engine_options){.workers = -1}, &engine), GY_ARG);
    assert_null(engine);
    engine = start(1);
    assert_int_equal(gy_engine_workers(engine), 1);
    assert_status(gy_engine_push(engine, &(gy_task){.name = "idle"}), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "idle"));
    gy_var *none = NULL;
    assert_status(gy_engine_push(engine, &(gy_task){.run = count_up, .read_count = 2}), GY_ARG);
    assert_status(gy_engine_push(
                      engine, &(gy_task){.run = count_up, .mutates = &none, .mutate_count = 1}),
                  GY_ARG);
    enum { MANY = (1 << 20) + 1 };
    gy_var *var = kit_var(engine);
    gy_var **list = gy_alloc("test.list", MANY * sizeof(gy_var *));
    assert_true(var != NULL && list != NULL);
    for (int i = 0; i < MANY; i++) {
        list[i] = var;
    }
    const gy_task wide = {.run = count_up, .reads = list, .read_count = MANY};
    assert_status(gy_engine_push(engine, &wide), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "expected at most 1048576 accesses"));
    gy_free(list);
    gy_var_free(var);
    gy_engine_free(engine);
    gy_engine_free(NULL);
    gy_var_free(NULL);
    gy_scope_free(NULL);
}

/* One small program; false when an allocation failed, then nothing of it may have been lost. */
static bool try_program(int workers, int *ran)
{
    gy_engine *engine = NULL;
    if (gy_engine_new(&(gy_engine_options){.workers = workers}, &engine) != GY_OK) {
        assert_null(engine);
        return false;
    }
    gy_var *vars[40] = {NULL};
    bool is_whole = true;
    for (int i = 0; i < 40 && is_whole; i++) {
        is_whole = gy_var_new(engine, &vars[i]) == GY_OK;
    }
    _Atomic int count = 0;
    int pushed = 0;
    for (int i = 0; i < 70 && is_whole; i++) {
        is_whole = gy_engine_push(
                       engine, &(gy_task){.run = i == 60 ? break_down : count_up,
                                          .arg = &count,
                                          .lane = i == 5 ? GY_LANE_BLOCKING : GY_LANE_COMPUTE,
                                          .reads = vars,
                                          .read_count = (size_t)i % 20,
                                          .mutates = vars + 20,
                                          .mutate_count = (size_t)i % 17}) == GY_OK;
        pushed += is_whole;
    }
    assert_ok(gy_engine_wait_all(engine, GY_NEVER));
    if (is_whole) {
        assert_status(gy_engine_wait(engine, vars[20], GY_NEVER), GY_NUMERIC);
    } else {
        /* Task 60 fails and poisons what comes after, but for task 68, which touches none of
         * it. */
        assert_int_equal(atomic_load(&count), GY_MIN(pushed, 60) + (pushed > 68));
    }
    gy_engine_free(engine);
    *ran = pushed;
    return is_whole;
}

GY_TEST(every_failed_allocation_is_survived)
{
    int64_t live = gy_alloc_live();
    for (int workers = 1; workers <= 2; workers++) {
        int failures = 0;
        for (int64_t n = 1;; n++) {
            int ran = 0;
            gy_alloc_fail_after(n);
            bool is_whole = try_program(workers, &ran);
            gy_alloc_fail_after(0);
            assert_int_equal(gy_alloc_live(), live);
            failures += !is_whole;
            if (n > 200) {
                assert_true(is_whole);
                break;
            }
        }
        assert_true(failures >= 5);
    }
}

/* 200 steps of 100 tasks after 20 that warm up; returns how many allocations stayed. */
static int64_t allocations_of_steps(int workers)
{
    gy_engine *engine = start(workers);
    gy_var *vars[8];
    for (int i = 0; i < 8; i++) {
        vars[i] = kit_var(engine);
    }
    _Atomic int count = 0;
    int64_t live = 0;
    for (int step = 0; step < 220; step++) {
        if (step == 20) {
            live = gy_alloc_live();
        }
        for (int i = 0; i < 100; i++) {
            assert_ok(gy_engine_push(engine, &(gy_task){.run = count_up,
                                                        .arg = &count,
                                                        .priority = i % 3,
                                                        .reads = vars,
                                                        .read_count = (size_t)i % 8,
                                                        .mutates = vars + i % 8,
                                                        .mutate_count = 1}));
        }
        gy_var *brief = kit_var(engine);
        push_on(engine, count_up, &count, NULL, brief);
        gy_var_free(brief);
        assert_ok(gy_engine_wait_all(engine, GY_NEVER));
    }
    int64_t stayed = gy_alloc_live() - live;
    gy_engine_free(engine);
    return stayed;
}

GY_TEST(steady_state_allocates_nothing)
{
    assert_int_equal(allocations_of_steps(1), 0);
    /* Two threads may share the tasks out in a new way and each fill its store of them once:
     * some slabs, where tasks that are not used again would be 600. */
    assert_in_range(allocations_of_steps(2), 0, 64);
}

GY_TEST_MAIN(NULL, NULL)
