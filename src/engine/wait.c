/* Waits for a variable, a scope or all tasks, and runs ready tasks meanwhile. */
#include "engine/engine_priv.h"

/* Account for a period of waiting without work, and record it in the trace. */
static void end_idling(gy_worker *self, int64_t *begun_ns)
{
    if (*begun_ns == 0) {
        return;
    }
    int64_t now = gy_clock_ns();
    GY_ASSERT(now >= *begun_ns);
    gy_trace_span("wait", *begun_ns, now, 0);
    if (self != NULL) {
        int64_t before = atomic_load_explicit(&self->idle_ns, memory_order_relaxed);
        atomic_store_explicit(&self->idle_ns, before + now - *begun_ns, memory_order_relaxed);
    }
    *begun_ns = 0;
}

gy_status gy_engine_help_until(gy_engine *engine, bool (*is_done)(void *arg), void *arg,
                               gy_deadline deadline, int64_t nap_ns)
{
    GY_ASSERT(is_done != NULL);
    GY_ASSERT(nap_ns >= 0);
    gy_worker *self = gy_own_worker(engine);
    gy_idle idle = {.nap_ns = nap_ns};
    gy_status status = GY_OK;
    int64_t begun_ns = 0;
    while (!is_done(arg)) {
        if (deadline.at_ns != INT64_MAX && gy_clock_ns() >= deadline.at_ns) {
            status = GY_TIMEOUT;
            break;
        }
        bool has_moved = gy_engine_progress_poll(engine);
        if (begun_ns != 0 && gy_engine_has_work(engine)) {
            end_idling(self, &begun_ns);
        }
        if (gy_engine_run_one(engine, self) || has_moved) {
            idle.since_ns = 0;
            continue;
        }
        if (begun_ns == 0) {
            begun_ns = gy_clock_ns();
        }
        gy_idle_round(engine, &idle, is_done, arg, deadline);
    }
    end_idling(self, &begun_ns);
    gy_engine_flush_hand(engine, self);
    if (idle.has_slept && gy_engine_has_work(engine)) {
        /* a wake-up for new work may have reached this thread, which leaves: wake another
         * one */
        gy_engine_call_one(engine);
    }
    return status;
}

/* Record the failure's text as this thread's error, drop the reference, and return its
 * status. */
static gy_status raise_and_drop(gy_failure *failure)
{
    if (failure == NULL) {
        return GY_OK;
    }
    GY_ASSERT(failure->error.status < 0);
    gy_status status = gy_error_raise(&failure->error);
    gy_failure_drop(failure);
    return status;
}

static bool is_granted(void *arg)
{
    gy_waiter *waiter = arg;
    return atomic_load_explicit(&waiter->is_done, memory_order_seq_cst);
}

gy_status gy_engine_wait(gy_engine *engine, gy_var *var, gy_deadline deadline)
{
    GY_ASSERT(var->engine == engine);
    gy_waiter waiter = {.engine = engine};
    if (gy_waiter_link(&waiter, var)) {
        return raise_and_drop(waiter.failure);
    }
    if (gy_engine_help_until(engine, is_granted, &waiter, deadline, 0) == GY_TIMEOUT) {
        gy_spin_lock(&var->lock);
        const char *holder = var->holder;
        gy_spin_unlock(&var->lock);
        if (gy_waiter_unlink(&waiter)) {
            return gy_fail(GY_TIMEOUT,
                           "deadline passed waiting for a variable, last mutated by %s",
                           holder != NULL ? holder : "no task");
        }
        while (!is_granted(&waiter)) {
            /* the variable granted the access after the timeout, and the granting thread still
             * uses this stack frame */
            gy_spin();
        }
    }
    return raise_and_drop(waiter.failure);
}

static bool is_empty(void *arg)
{
    gy_scope *scope = arg;
    int64_t alive = atomic_load_explicit(&scope->alive, memory_order_seq_cst);
    GY_ASSERT(alive >= 0);
    return alive == 0;
}

gy_status gy_scope_wait(gy_scope *scope, gy_deadline deadline)
{
    GY_ASSERT(scope != NULL);
    if (scope->deadline.at_ns < deadline.at_ns) {
        deadline = scope->deadline;
    }
    if (gy_engine_help_until(scope->engine, is_empty, scope, deadline, 0) == GY_TIMEOUT) {
        int64_t alive = atomic_load_explicit(&scope->alive, memory_order_acquire);
        if (alive > 0) {
            return gy_fail(GY_TIMEOUT, "deadline passed waiting for %lld tasks of a scope",
                           (long long)alive);
        }
    }
    gy_failure *failure = atomic_load_explicit(&scope->failure, memory_order_acquire);
    return raise_and_drop(gy_failure_hold(failure));
}

static bool is_all_done(void *arg)
{
    return gy_engine_alive(arg) == 0;
}

gy_status gy_engine_wait_all(gy_engine *engine, gy_deadline deadline)
{
    GY_ASSERT(engine != NULL);
    if (gy_engine_help_until(engine, is_all_done, engine, deadline, POLL_NS) == GY_TIMEOUT) {
        return gy_fail(GY_TIMEOUT, "deadline passed waiting for %lld tasks",
                       (long long)gy_engine_alive(engine));
    }
    return GY_OK;
}

gy_status gy_scope_new(gy_engine *engine, gy_deadline deadline, gy_scope **scope)
{
    GY_ASSERT(engine != NULL);
    GY_ASSERT(scope != NULL);
    gy_scope *made = gy_alloc_zero("engine.scope", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->engine = engine;
    made->deadline = deadline;
    *scope = made;
    return GY_OK;
}

void gy_scope_free(gy_scope *scope)
{
    if (scope == NULL) {
        return;
    }
    gy_status status = gy_engine_help_until(scope->engine, is_empty, scope, GY_NEVER, 0);
    GY_ASSERT(status == GY_OK);
    gy_failure_drop(atomic_load_explicit(&scope->failure, memory_order_acquire));
    gy_free(scope);
}

void gy_scope_cancel(gy_scope *scope)
{
    GY_ASSERT(scope != NULL);
    atomic_store_explicit(&scope->is_cancelled, true, memory_order_release);
}
