/* Pushes a task: checks it, admits it, and queues its accesses on the variables. */
#include "engine/engine_priv.h"

enum { BURST = 128 };

static gy_status check(const gy_task *task)
{
    if (task->run == NULL) {
        return gy_fail(GY_ARG, "task %s has no function to run",
                       task->name != NULL ? task->name : "without a name");
    }
    const struct {
        gy_var *const *vars;
        size_t count;
        const char *what;
    } lists[2] = {{task->reads, task->read_count, "reads"},
                  {task->mutates, task->mutate_count, "mutates"}};
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < lists[k].count; i++) {
            if (lists[k].vars == NULL || lists[k].vars[i] == NULL) {
                return gy_fail(GY_ARG, "task %s %s %zu variables, but variable %zu is null",
                               task->name != NULL ? task->name : "without a name",
                               lists[k].what, lists[k].count, i);
            }
        }
    }
    return GY_OK;
}

/* Sort by address (Shell 1959, gaps 3k + 1), then merge duplicates. Returns the new count. */
static size_t sort_accesses(gy_access *accesses, size_t count)
{
    GY_CHECK_DEEP(count > 1);
    size_t gap = 1;
    while (gap < count / 3) {
        gap = 3 * gap + 1;
    }
    for (; gap > 0; gap /= 3) {
        for (size_t i = gap; i < count; i++) {
            gy_access moved = accesses[i];
            size_t at = i;
            for (; at >= gap && accesses[at - gap].var > moved.var; at -= gap) {
                accesses[at] = accesses[at - gap];
            }
            accesses[at] = moved;
        }
    }
    size_t kept = 1;
    for (size_t i = 1; i < count; i++) {
        if (accesses[i].var != accesses[kept - 1].var) {
            accesses[kept++] = accesses[i];
        } else if (accesses[i].kind == ACCESS_MUTATE) {
            accesses[kept - 1].kind = ACCESS_MUTATE;
        }
    }
    GY_CHECK_DEEP(kept <= count);
    return kept;
}

static void fill_accesses(gy_engine *engine, gy_done *done, const gy_task *task)
{
    GY_CHECK_DEEP(done->accesses != NULL);
    gy_access *accesses = done->accesses;
    size_t count = 0;
    for (size_t i = 0; i < task->read_count; i++) {
        accesses[count].var = task->reads[i];
        accesses[count].kind = ACCESS_READ;
        accesses[count++].owner = done;
    }
    for (size_t i = 0; i < task->mutate_count; i++) {
        accesses[count].var = task->mutates[i];
        accesses[count].kind = ACCESS_MUTATE;
        accesses[count++].owner = done;
    }
    GY_CHECK_DEEP(count == task->read_count + task->mutate_count);
    done->access_count = (uint32_t)(count > 1 ? sort_accesses(accesses, count) : count);
    for (uint32_t i = 0; i < done->access_count; i++) {
        GY_ASSERT(accesses[i].var->engine == engine);
    }
}

/* ---- admission ---- */

typedef struct admission {
    gy_engine *engine;
    int64_t bytes;
    bool is_taken;
} admission;

static bool is_under_limit(void *arg)
{
    GY_ASSERT(((gy_engine *)arg)->task_limit > 0);
    gy_engine *engine = arg;
    return gy_engine_alive(engine) < (int64_t)engine->task_limit;
}

/* Take the bytes if they fit into the budget, or if no other task holds any. */
static bool take_bytes(void *arg)
{
    admission *want = arg;
    if (want->is_taken) {
        return true;
    }
    GY_ASSERT(want->bytes > 0);
    int64_t used = atomic_load_explicit(&want->engine->bytes_used, memory_order_acquire);
    while (used == 0 || used + want->bytes <= want->engine->memory_budget) {
        if (atomic_compare_exchange_weak_explicit(&want->engine->bytes_used, &used,
                                                  used + want->bytes, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            want->is_taken = true;
            return true;
        }
    }
    return false;
}

/*
 * When the caller is far ahead of the workers, it runs some tasks itself, so that what it
 * pushes next stays in this core's cache. A small task_limit is checked at each push, a large
 * one every PUSH_CHECK pushes.
 */
static void keep_pace(gy_engine *engine, gy_worker *self)
{
    GY_CHECK_DEEP(gy_own.depth == 0);
    bool is_tight = engine->task_limit < TASK_LIMIT_DEFAULT;
    if (self != NULL && !is_tight) {
        if (++self->since_check < PUSH_CHECK) {
            return;
        }
        self->since_check = 0;
    }
    int64_t alive = gy_engine_alive(engine);
    if (self != NULL && alive > RUN_AHEAD) {
        for (int i = 0; i < BURST && gy_engine_run_near(engine, self); i++) {
            (void)gy_engine_progress_poll(engine); /* what is to be exchanged does not wait */
        }
        gy_engine_flush_hand(engine, self);
    }
    if (alive >= (int64_t)engine->task_limit) {
        gy_status status =
            gy_engine_help_until(engine, is_under_limit, engine, GY_NEVER, POLL_NS);
        GY_ASSERT(status == GY_OK);
    }
}

static void admit(gy_engine *engine, gy_worker *self, gy_done *done)
{
    /* A push inside a task never waits, because the condition may depend on this very task. */
    if (gy_own.depth == 0) {
        keep_pace(engine, self);
    }
    if (engine->memory_budget == 0) {
        done->bytes = 0;
    } else if (done->bytes != 0) {
        admission want = {.engine = engine, .bytes = (int64_t)done->bytes};
        if (gy_own.depth > 0) {
            int64_t before = atomic_fetch_add_explicit(&engine->bytes_used, want.bytes,
                                                       memory_order_acq_rel);
            GY_ASSERT(before >= 0);
        } else {
            gy_status status =
                gy_engine_help_until(engine, take_bytes, &want, GY_NEVER, POLL_NS);
            GY_ASSERT(status == GY_OK);
        }
    }
}

static void count_push(gy_engine *engine, gy_worker *self)
{
    GY_CHECK_DEEP(self == NULL || self->engine == engine);
    if (self != NULL) {
        uint64_t pushed = atomic_load_explicit(&self->pushed, memory_order_relaxed);
        atomic_store_explicit(&self->pushed, pushed + 1, memory_order_release);
    } else {
        atomic_fetch_add_explicit(&engine->outside_pushed, 1, memory_order_release);
    }
}

gy_status gy_engine_push(gy_engine *engine, const gy_task *task)
{
    GY_ASSERT(engine != NULL);
    GY_ASSERT(task != NULL);
    GY_ASSERT((unsigned)task->lane <= GY_LANE_NETWORK);
    GY_TRY(check(task));
    if (task->lane == GY_LANE_BLOCKING) {
        GY_TRY(gy_blocking_prepare(engine));
    }
    size_t most = 0;
    if (__builtin_add_overflow(task->read_count, task->mutate_count, &most) ||
        most > ACCESSES_MAX || task->bytes > INT64_MAX / 4) {
        return gy_fail(GY_ARG,
                       "task %s lists %zu reads, %zu mutations, %zu bytes; expected at most "
                       "%d accesses",
                       task->name != NULL ? task->name : "without a name", task->read_count,
                       task->mutate_count, task->bytes, ACCESSES_MAX);
    }
    gy_worker *self = gy_own_worker(engine);
    gy_done *done = gy_engine_task_new(engine, self, most);
    if (done == NULL) {
        return GY_NOMEM;
    }
    done->run = task->run;
    done->arg = task->arg;
    done->name = task->name != NULL ? task->name : "task";
    done->scope = task->scope;
    done->engine = engine;
    done->lane = (uint8_t)task->lane;
    done->priority = task->priority;
    done->bytes = task->bytes;
    done->runs_poisoned = task->runs_poisoned;
    atomic_store_explicit(&done->state, TASK_QUEUED, memory_order_relaxed);
    fill_accesses(engine, done, task);
    admit(engine, self, done);
    if (done->scope != NULL) {
        GY_ASSERT(done->scope->engine == engine);
        int64_t before =
            atomic_fetch_add_explicit(&done->scope->alive, 1, memory_order_relaxed);
        GY_ASSERT(before >= 0);
    }
    count_push(engine, self);
    if (gy_access_link(done->accesses, done->access_count, &done->missing) == 0) {
        gy_engine_ready(engine, self, done);
    }
    return GY_OK;
}
