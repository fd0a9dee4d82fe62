/* Runs tasks: chooses the next one, calls its body, and releases its accesses at its end. */
#include "engine/engine_priv.h"

_Thread_local gy_self gy_own __attribute__((tls_model("initial-exec")));

/* ---- ready tasks ---- */

void gy_engine_ready(gy_engine *engine, gy_worker *self, gy_done *task)
{
    GY_CHECK_DEEP(task->engine == engine);
    GY_CHECK_DEEP(atomic_load_explicit(&task->state, memory_order_relaxed) == TASK_QUEUED);
    if (task->lane == GY_LANE_BLOCKING) {
        gy_blocking_push(engine, task);
        return;
    }
    bool is_plain = task->lane == GY_LANE_COMPUTE && task->priority == 0 && self != NULL;
    if (!is_plain || !gy_engine_ring_push(&self->ring, task)) {
        gy_engine_heap_push(&engine->heap, task);
    }
    gy_engine_call_one(engine);
}

void gy_engine_flush_hand(gy_engine *engine, gy_worker *self)
{
    GY_CHECK_DEEP(self == NULL || self->engine == engine);
    if (self != NULL && self->in_hand != NULL) {
        gy_done *task = self->in_hand;
        self->in_hand = NULL;
        gy_engine_ready(engine, self, task);
    }
}

bool gy_engine_has_work(gy_engine *engine)
{
    if (atomic_load_explicit(&engine->heap.top, memory_order_seq_cst) != KEY_NONE ||
        atomic_load_explicit(&engine->jobs, memory_order_seq_cst) != NULL) {
        return true;
    }
    for (int i = 0; i < engine->worker_count; i++) {
        if (!gy_engine_ring_is_empty(&engine->workers[i]->ring)) {
            return true;
        }
    }
    return false;
}

/*
 * Reads the counters of ended tasks before those of pushed tasks: if they are equal, no task
 * was alive between the two reads. Acquire pairs with the release in count_end and
 * gy_engine_push.
 */
int64_t gy_engine_alive(gy_engine *engine)
{
    uint64_t ended = atomic_load_explicit(&engine->outside_ended, memory_order_acquire);
    for (int i = 0; i < engine->worker_count; i++) {
        ended += atomic_load_explicit(&engine->workers[i]->ended, memory_order_acquire);
    }
    uint64_t pushed = atomic_load_explicit(&engine->outside_pushed, memory_order_acquire);
    for (int i = 0; i < engine->worker_count; i++) {
        pushed += atomic_load_explicit(&engine->workers[i]->pushed, memory_order_acquire);
    }
    GY_ASSERT(pushed >= ended);
    return (int64_t)(pushed - ended);
}

/* ---- what to run next ---- */

/* Sum of the other workers' counters of pushed and ended tasks. It changes whenever they make
 * progress. */
static uint64_t activity(const gy_engine *engine, const gy_worker *self)
{
    GY_CHECK_DEEP(self->engine == engine);
    GY_CHECK_DEEP(self->index < engine->worker_count);
    uint64_t sum = 0;
    for (int i = 0; i < engine->worker_count; i++) {
        if (i != self->index) {
            sum += atomic_load_explicit(&engine->workers[i]->ended, memory_order_relaxed);
            sum += atomic_load_explicit(&engine->workers[i]->pushed, memory_order_relaxed);
        }
    }
    return sum;
}

/*
 * May this worker take tasks from the queues of other workers? Moving a task to another core
 * costs about five cache misses, some 0.5 us. A worker whose last task was shorter than that
 * leaves the tasks in their queues while the owners make progress. It takes them once the
 * owners' counters stand still for QUIET_NS (the owners run long tasks or sleep), and it tries
 * again every PROBE_NS.
 */
static bool may_take(gy_engine *engine, gy_worker *self)
{
    GY_CHECK_DEEP(self == NULL || self->engine == engine);
    if (self == NULL || self->index == 0 || !self->is_reluctant) {
        return true;
    }
    int64_t now = gy_clock_ns();
    uint64_t seen = activity(engine, self);
    if (seen != self->seen) {
        self->seen = seen;
        self->seen_ns = now;
    }
    if (now - self->seen_ns < QUIET_NS && now - self->probe_ns < PROBE_NS) {
        self->was_held_off = true;
        return false;
    }
    GY_CHECK_DEEP(now >= self->probe_ns);
    self->probe_ns = now;
    return true;
}

static gy_done *steal(gy_engine *engine, const gy_worker *self)
{
    int first = self != NULL ? self->index + 1 : 0;
    GY_CHECK_DEEP(first >= 0);
    GY_CHECK_DEEP(first <= engine->worker_count);
    for (int i = 0; i < engine->worker_count; i++) {
        gy_worker *victim = engine->workers[(first + i) % engine->worker_count];
        if (victim != self) {
            gy_done *task = gy_engine_ring_pop(&victim->ring);
            if (task != NULL) {
                return task;
            }
        }
    }
    return NULL;
}

/* Find a task in this thread's own queue, or one of the network lane, which goes first. */
static gy_done *find_near(gy_engine *engine, gy_worker *self)
{
    gy_done *task = NULL;
    int64_t top = atomic_load_explicit(&engine->heap.top, memory_order_relaxed);
    if (top > 0 && (top == KEY_NETWORK || may_take(engine, self))) {
        task = gy_engine_heap_pop(&engine->heap, 1);
        if (task != NULL) {
            return task;
        }
    }
    if (self != NULL) {
        task = self->in_hand;
        self->in_hand = NULL;
        GY_CHECK_DEEP(task == NULL || task->lane == GY_LANE_COMPUTE);
        if (task == NULL) {
            task = gy_engine_ring_pop(&self->ring);
        }
    }
    if (task == NULL && top >= 0 && may_take(engine, self)) {
        task = gy_engine_heap_pop(&engine->heap, 0);
    }
    return task;
}

static gy_done *find_far(gy_engine *engine, gy_worker *self)
{
    if (!gy_engine_has_work(engine) || !may_take(engine, self)) {
        return NULL;
    }
    gy_done *task = steal(engine, self);
    return task != NULL ? task : gy_engine_heap_pop(&engine->heap, KEY_NONE);
}

bool gy_engine_run_near(gy_engine *engine, gy_worker *self)
{
    GY_CHECK_DEEP(self == NULL || self->engine == engine);
    gy_done *task = find_near(engine, self);
    if (task == NULL) {
        return false;
    }
    gy_engine_task_run(engine, self, task);
    return true;
}

bool gy_engine_run_one(gy_engine *engine, gy_worker *self)
{
    if (gy_engine_run_near(engine, self) || gy_engine_loop_help(engine)) {
        return true;
    }
    gy_done *task = find_far(engine, self);
    if (task == NULL) {
        return false;
    }
    gy_engine_task_run(engine, self, task);
    return true;
}

/* ---- the end of a task ---- */

static void count_end(gy_engine *engine, gy_worker *self)
{
    if (self != NULL) {
        uint64_t ended = atomic_load_explicit(&self->ended, memory_order_relaxed);
        atomic_store_explicit(&self->ended, ended + 1, memory_order_release);
    } else {
        atomic_fetch_add_explicit(&engine->outside_ended, 1, memory_order_release);
    }
    /* A thread that waits for all tasks sleeps only for short naps, so a missed wake-up here
     * costs one nap. */
    if (atomic_load_explicit(&engine->waiters_asleep.sleepers, memory_order_relaxed) > 0 &&
        gy_engine_alive(engine) == 0) {
        gy_engine_call_waiters(engine);
    }
}

static void leave_scope(gy_scope *scope, gy_failure *failure)
{
    gy_engine *engine = scope->engine;
    if (failure != NULL) {
        gy_failure *none = NULL;
        (void)gy_failure_hold(failure);
        if (!atomic_compare_exchange_strong_explicit(
                &scope->failure, &none, failure, memory_order_acq_rel, memory_order_relaxed)) {
            gy_failure_drop(failure);
        }
    }
    /* The owner may free the scope after this decrement. Seq_cst: the read of `sleepers` in
     * gy_engine_call_waiters must not move before it. */
    int64_t before = atomic_fetch_sub_explicit(&scope->alive, 1, memory_order_seq_cst);
    GY_CHECK_DEEP(before > 0);
    if (before == 1) {
        gy_engine_call_waiters(engine);
    }
}

/* Queue tasks that became ready (listed last first). The first ordinary one stays in hand, so
 * that it runs next on this core. */
static void hand_on(gy_engine *engine, gy_worker *self, gy_done *ready, bool may_keep)
{
    GY_CHECK_DEEP(ready != NULL);
    GY_CHECK_DEEP(!may_keep || self != NULL);
    gy_done *in_order = NULL;
    while (ready != NULL) {
        gy_done *next = ready->next;
        ready->next = in_order;
        in_order = ready;
        ready = next;
    }
    while (in_order != NULL) {
        gy_done *task = in_order;
        in_order = task->next;
        if (may_keep && self->in_hand == NULL && task->lane == GY_LANE_COMPUTE &&
            task->priority == 0) {
            self->in_hand = task;
        } else {
            gy_engine_ready(engine, self, task);
        }
    }
}

/* Takes `failure`. `is_runner`: the caller is the loop that ran the body and that looks for
 * work afterwards. */
static void finish(gy_engine *engine, gy_worker *self, gy_done *task, gy_failure *failure,
                   bool is_runner)
{
    GY_CHECK_DEEP(task->engine == engine);
    GY_CHECK_DEEP(failure == NULL || failure->error.status < 0);
    gy_done *ready = NULL;
    for (uint32_t i = 0; i < task->access_count; i++) {
        ready = gy_access_release(&task->accesses[i], failure, ready);
    }
    if (task->bytes != 0) {
        int64_t used = atomic_fetch_sub_explicit(&engine->bytes_used, (int64_t)task->bytes,
                                                 memory_order_release);
        GY_ASSERT(used >= (int64_t)task->bytes);
    }
    gy_failure_drop(task->cause);
    gy_scope *scope = task->scope;
    gy_engine_task_free(engine, self, task);
    if (ready != NULL) {
        hand_on(engine, self, ready, is_runner && self != NULL);
    }
    if (scope != NULL) {
        leave_scope(scope, failure);
    }
    gy_failure_drop(failure);
    count_end(engine, self);
}

/* ---- the body ---- */

/* The failure that keeps a task from running: that of the first failed input in the order of
 * accesses, else that of its scope. Returns a counted reference. */
static gy_failure *find_cause(const gy_done *task)
{
    for (uint32_t i = 0; i < task->access_count; i++) {
        if (task->accesses[i].is_poisoned) {
            return gy_failure_hold(task->accesses[i].var->failure);
        }
    }
    gy_scope *scope = task->scope;
    if (scope == NULL) {
        return NULL;
    }
    if (atomic_load_explicit(&scope->is_cancelled, memory_order_acquire)) {
        return gy_failure_new(GY_CANCELLED, task->name, "cancelled with its scope");
    }
    if (scope->deadline.at_ns != INT64_MAX && gy_clock_ns() >= scope->deadline.at_ns) {
        return gy_failure_new(GY_TIMEOUT, task->name, "deadline of its scope passed");
    }
    return NULL;
}

/* True when the task has ended, with `failure` as its result. */
static bool call_body(gy_done *task, gy_failure **failure)
{
    GY_CHECK_DEEP(task->run != NULL);
    GY_CHECK_DEEP(gy_own.depth >= 0);
    gy_engine_frame frame = {.outer = gy_own.frame, .task = task};
    atomic_store_explicit(&task->state, TASK_RUNNING, memory_order_relaxed);
    gy_own.frame = &frame;
    gy_own.depth++;
    if (gy_trace_on()) {
        const char *name = task->name; /* the body may free the task before it returns */
        int64_t bytes = (int64_t)task->bytes;
        int64_t start_ns = gy_clock_ns();
        task->run(task->arg, task);
        gy_trace_span(name, start_ns, gy_clock_ns(), bytes);
    } else {
        task->run(task->arg, task);
    }
    GY_CHECK_DEEP(gy_own.frame == &frame);
    GY_CHECK_DEEP(gy_own.depth > 0);
    gy_own.depth--;
    gy_own.frame = frame.outer;
    if (frame.is_ended) {
        *failure = frame.failure;
        return true;
    }
    /* Pairs with the exchange in end_elsewhere: the second of the two finishes the task. */
    int before = atomic_exchange_explicit(&task->state, TASK_RETURNED, memory_order_acq_rel);
    if (before == TASK_ENDED) {
        *failure = task->result;
        return true;
    }
    GY_ASSERT(before == TASK_RUNNING);
    return false;
}

void gy_engine_task_run(gy_engine *engine, gy_worker *self, gy_done *task)
{
    GY_CHECK_DEEP(task->engine == engine);
    GY_ASSERT(atomic_load_explicit(&task->missing, memory_order_relaxed) <= 1);
    gy_failure *failure = NULL;
    task->cause = find_cause(task);
    if (task->cause != NULL && !task->runs_poisoned) {
        failure = gy_failure_hold(task->cause);
    } else if (!call_body(task, &failure)) {
        return;
    }
    finish(engine, self, task, failure, true);
}

static void end_elsewhere(gy_done *task, gy_failure *failure)
{
    GY_ASSERT(gy_own.frame == NULL || gy_own.frame->task != task);
    gy_engine *engine = task->engine;
    /* Keeps gy_engine_free waiting until this call has returned. */
    atomic_fetch_add_explicit(&engine->outside_calls, 1, memory_order_acq_rel);
    task->result = failure;
    int before = atomic_exchange_explicit(&task->state, TASK_ENDED, memory_order_acq_rel);
    if (before == TASK_RETURNED) {
        finish(engine, gy_own_worker(engine), task, failure, false);
    } else {
        GY_ASSERT(before == TASK_RUNNING); /* otherwise the task was ended twice */
    }
    int calls = atomic_fetch_sub_explicit(&engine->outside_calls, 1, memory_order_release);
    GY_ASSERT(calls > 0);
}

static void end(gy_done *task, gy_failure *failure)
{
    GY_CHECK_DEEP(atomic_load_explicit(&task->state, memory_order_relaxed) != TASK_QUEUED);
    for (gy_engine_frame *frame = gy_own.frame; frame != NULL; frame = frame->outer) {
        if (frame->task == task) {
            GY_ASSERT(!frame->is_ended);
            frame->is_ended = true;
            frame->failure = failure;
            return;
        }
    }
    end_elsewhere(task, failure);
}

void gy_done_ok(gy_done *done)
{
    GY_CHECK_DEEP(done != NULL);
    end(done, NULL);
}

void gy_done_fail(gy_done *done, gy_status status)
{
    GY_ASSERT(status < 0);
    end(done, gy_failure_new(status, done->name, gy_error_text()));
}

gy_status gy_done_cause(gy_done *done)
{
    return done->cause != NULL ? gy_error_raise(&done->cause->error) : GY_OK;
}
