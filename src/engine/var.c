/*
 * Variables: which tasks access one now, and which wait, first in first out.
 *
 * A push locks all its variables in the order of their addresses before it queues on any of
 * them. Two pushes that share variables are therefore in the same order on each of them, and no
 * cycle can arise. An end locks one variable at a time. Consecutive readers at the front of the
 * queue are granted together, a mutation alone.
 *
 * @source Chen et al., "MXNet", 2015 (queues of a variable); Bernstein et al., "Concurrency
 *     Control and Recovery in Database Systems", 1987, chapter 3 (ordered locking)
 */
#include "engine/engine_priv.h"

/* The task that owns a queued access; not for accesses of a waiter. */
static gy_done *task_of(const gy_access *access)
{
    GY_CHECK_DEEP(access->kind != ACCESS_WAIT);
    return access->owner;
}

static void hold(gy_var *var, gy_access *access) GY_REQUIRES(var->lock)
{
    GY_CHECK_DEEP(access->kind == ACCESS_MUTATE ? var->active == 0 : var->active >= 0);
    access->is_poisoned = var->failure != NULL;
    if (access->kind == ACCESS_MUTATE) {
        var->active = -1;
        var->holder = task_of(access)->name;
    } else {
        var->active++;
    }
}

static void append(gy_var *var, gy_access *access) GY_REQUIRES(var->lock)
{
    GY_CHECK_DEEP(access->var == var);
    GY_CHECK_DEEP(var->head == NULL || var->tail->next == NULL);
    access->next = NULL;
    if (var->head == NULL) {
        var->head = access;
    } else {
        var->tail->next = access;
    }
    var->tail = access;
}

int gy_access_link(gy_access *accesses, size_t count, _Atomic int32_t *missing)
{
    for (size_t i = 0; i < count; i++) {
        GY_ASSERT(i == 0 || accesses[i - 1].var < accesses[i].var);
        gy_spin_lock(&accesses[i].var->lock);
        GY_ASSERT(!accesses[i].var->is_closing);
    }
    int waiting = 0;
    for (size_t i = 0; i < count; i++) {
        gy_var *var = accesses[i].var;
        bool is_free = accesses[i].kind == ACCESS_MUTATE ? var->active == 0 : var->active >= 0;
        if (var->head == NULL && is_free) {
            hold(var, &accesses[i]);
        } else {
            append(var, &accesses[i]);
            waiting++;
        }
    }
    GY_CHECK_DEEP(waiting >= 0);
    GY_CHECK_DEEP((size_t)waiting <= count);
    /* No other thread can grant an access before the locks are released, so a relaxed store
     * suffices. */
    atomic_store_explicit(missing, waiting, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        gy_spin_unlock(&accesses[i].var->lock);
    }
    return waiting;
}

/* Dequeue all accesses that may start now, and return them as a list in order. */
static gy_access *advance(gy_var *var) GY_REQUIRES(var->lock)
{
    gy_access *first = NULL;
    gy_access **end = &first;
    while (var->head != NULL) {
        gy_access *access = var->head;
        bool is_free = access->kind == ACCESS_READ ? var->active >= 0 : var->active == 0;
        if (!is_free) {
            break;
        }
        GY_CHECK_DEEP(access->var == var);
        var->head = access->next;
        if (access->kind == ACCESS_WAIT) {
            gy_waiter *waiter = access->owner;
            waiter->failure = gy_failure_hold(var->failure);
        } else {
            hold(var, access);
        }
        *end = access;
        end = &access->next;
    }
    *end = NULL;
    return first;
}

/* Notify the owners of granted accesses. Tasks that are now ready are linked in front of
 * `ready`. */
static gy_done *grant(gy_access *granted, gy_done *ready)
{
    while (granted != NULL) {
        gy_access *next = granted->next;
        if (granted->kind == ACCESS_WAIT) {
            gy_waiter *waiter = granted->owner;
            gy_engine *engine = waiter->engine;
            /* The waiting thread may leave its stack frame after this store. Pairs with its
             * loads of is_done. */
            (void)atomic_exchange_explicit(&waiter->is_done, true, memory_order_seq_cst);
            gy_engine_call_waiters(engine);
        } else {
            gy_done *task = task_of(granted);
            GY_CHECK_DEEP(atomic_load_explicit(&task->missing, memory_order_relaxed) > 0);
            /* Only this access is missing, so no other thread touches the count. Acquire pairs
             * with the release of the threads that granted the others. */
            if (atomic_load_explicit(&task->missing, memory_order_acquire) == 1 ||
                atomic_fetch_sub_explicit(&task->missing, 1, memory_order_acq_rel) == 1) {
                task->next = ready;
                ready = task;
            }
        }
        granted = next;
    }
    return ready;
}

gy_done *gy_access_release(gy_access *access, gy_failure *failure, gy_done *ready)
{
    GY_CHECK_DEEP(access->kind != ACCESS_WAIT);
    gy_var *var = access->var;
    bool is_over = false;
    gy_spin_lock(&var->lock);
    if (access->kind == ACCESS_READ) {
        GY_ASSERT(var->active > 0);
        var->active--;
    } else {
        GY_ASSERT(var->active == -1);
        var->active = 0;
        if (failure != NULL && var->failure == NULL) {
            var->failure = gy_failure_hold(failure);
        }
    }
    gy_access *granted = NULL;
    if (var->active == 0) {
        granted = advance(var);
        is_over = var->is_closing && var->active == 0;
    }
    gy_spin_unlock(&var->lock);
    if (is_over) {
        gy_engine_pool_return_var(var->engine, var);
    }
    return granted != NULL ? grant(granted, ready) : ready;
}

bool gy_waiter_link(gy_waiter *waiter, gy_var *var)
{
    GY_ASSERT(waiter->engine == var->engine);
    gy_access *access = &waiter->access;
    *access = (gy_access){.var = var, .owner = waiter, .kind = ACCESS_WAIT};
    gy_spin_lock(&var->lock);
    bool is_idle = var->head == NULL && var->active == 0;
    if (is_idle) {
        waiter->failure = gy_failure_hold(var->failure);
    } else {
        append(var, access);
    }
    gy_spin_unlock(&var->lock);
    return is_idle;
}

bool gy_waiter_unlink(gy_waiter *waiter)
{
    GY_ASSERT(waiter->access.kind == ACCESS_WAIT);
    GY_ASSERT(waiter->access.owner == waiter);
    gy_var *var = waiter->access.var;
    gy_spin_lock(&var->lock);
    gy_access *before = NULL;
    gy_access *at = var->head;
    while (at != NULL && at != &waiter->access) {
        before = at;
        at = at->next;
    }
    gy_access *granted = NULL;
    if (at != NULL) {
        if (before == NULL) {
            var->head = at->next;
        } else {
            before->next = at->next;
        }
        if (var->tail == at) {
            var->tail = before;
        }
        granted = advance(var); /* readers queued behind this waiter */
    }
    gy_spin_unlock(&var->lock);
    gy_done *ready = grant(granted, NULL);
    while (ready != NULL) {
        gy_done *next = ready->next;
        gy_engine_ready(waiter->engine, gy_own_worker(waiter->engine), ready);
        ready = next;
    }
    return at != NULL;
}

gy_status gy_var_new(gy_engine *engine, gy_var **var)
{
    GY_ASSERT(engine != NULL);
    GY_ASSERT(var != NULL);
    gy_var *made = gy_engine_pool_var(engine);
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_var){.engine = engine};
    *var = made;
    return GY_OK;
}

void gy_var_free(gy_var *var)
{
    if (var == NULL) {
        return;
    }
    gy_spin_lock(&var->lock);
    GY_ASSERT(!var->is_closing);
    var->is_closing = true;
    bool is_idle = var->head == NULL && var->active == 0;
    gy_spin_unlock(&var->lock);
    if (is_idle) {
        gy_engine_pool_return_var(var->engine, var);
    }
}

void gy_var_heal(gy_var *var)
{
    GY_ASSERT(var != NULL);
    gy_status past = gy_engine_wait(var->engine, var, GY_NEVER);
    if (past == GY_OK) {
        return;
    }
    gy_spin_lock(&var->lock);
    gy_failure *failure = var->failure;
    var->failure = NULL;
    gy_spin_unlock(&var->lock);
    gy_failure_drop(failure);
}
