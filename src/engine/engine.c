/* Starts and stops an engine, and holds the main loop of a worker. */
#include "engine/engine_priv.h"

static bool is_stopping(void *arg)
{
    gy_engine *engine = arg;
    return atomic_load_explicit(&engine->is_stopping, memory_order_seq_cst);
}

/* Pause for about a microsecond. A reluctant worker does this while it leaves queued work to
 * other workers. */
static void rest(const gy_engine *engine)
{
    if (!engine->may_spin) {
        sched_yield();
        return;
    }
    for (int i = 0; i < 64; i++) {
        gy_spin();
    }
}

/* Decide after a task whether moving tasks to this worker pays. The worker becomes reluctant
 * when search (begun at start_ns) and task together took less than SHORT_TASK_NS. Returns the
 * time now. */
static int64_t judge(gy_engine *engine, gy_worker *self, int64_t start_ns)
{
    int64_t now = gy_clock_ns();
    GY_CHECK_DEEP(self == gy_own.worker);
    GY_CHECK_DEEP(now >= start_ns);
    self->is_reluctant = now - start_ns < SHORT_TASK_NS;
    if (self->is_reluctant && self->in_hand != NULL) {
        gy_engine_heap_push(&engine->heap, self->in_hand);
        self->in_hand = NULL;
        gy_engine_call_one(engine);
    }
    return now;
}

static void *worker_main(void *arg)
{
    gy_worker *self = arg;
    gy_engine *engine = self->engine;
    GY_ASSERT(self->index > 0);
    GY_ASSERT(self->index < engine->worker_count);
    gy_own = (gy_self){.engine = engine, .id = engine->id, .worker = self};
    gy_idle idle = {.is_worker = true};
    int64_t start_ns = gy_clock_ns();
    while (!is_stopping(engine)) {
        bool has_moved = gy_engine_progress_poll(engine);
        self->was_held_off = false;
        if (gy_engine_run_one(engine, self)) {
            idle.since_ns = 0;
            start_ns = judge(engine, self, start_ns);
            continue;
        }
        if (self->was_held_off) {
            rest(engine);
        } else if (has_moved) {
            idle.since_ns = 0;
        } else {
            gy_idle_round(engine, &idle, is_stopping, engine, GY_NEVER);
        }
        start_ns = gy_clock_ns();
    }
    GY_ASSERT(gy_own.depth == 0);
    GY_ASSERT(gy_own.frame == NULL);
    GY_ASSERT(self->in_hand == NULL); /* all tasks have ended */
    return NULL;
}

/* The index-th core of the set. */
static void pin(pthread_t thread, const cpu_set_t *cores, int index)
{
    GY_ASSERT(index >= 0);
    GY_ASSERT(CPU_COUNT(cores) > 0);
    int wanted = index % CPU_COUNT(cores);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, cores) && wanted-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            /* The worker runs unpinned when the system refuses. */
            (void)pthread_setaffinity_np(thread, sizeof(one), &one);
            return;
        }
    }
}

static void take_down(gy_engine *engine)
{
    GY_ASSERT(atomic_load_explicit(&engine->jobs, memory_order_relaxed) == NULL);
    gy_cond_fini(&engine->workers_asleep.cond);
    gy_cond_fini(&engine->waiters_asleep.cond);
    gy_mutex_fini(&engine->sleep_lock);
    for (int i = 0; engine->workers != NULL && i < engine->worker_count; i++) {
        gy_free(engine->workers[i]);
    }
    gy_free(engine->workers);
    gy_engine_pool_fini(engine);
    gy_free(engine);
}

static gy_status add_workers(gy_engine *engine)
{
    GY_ASSERT(engine->workers == NULL);
    GY_ASSERT(engine->worker_count > 0);
    engine->workers =
        gy_alloc_zero("engine.workers", (size_t)engine->worker_count, sizeof(gy_worker *));
    if (engine->workers == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < engine->worker_count; i++) {
        gy_worker *worker = gy_alloc_zero("engine.worker", 1, sizeof(gy_worker));
        if (worker == NULL) {
            return GY_NOMEM;
        }
        worker->engine = engine;
        worker->index = i;
        engine->workers[i] = worker;
    }
    return GY_OK;
}

static void stop_workers(gy_engine *engine)
{
    bool was_stopping =
        atomic_exchange_explicit(&engine->is_stopping, true, memory_order_seq_cst);
    GY_ASSERT(!was_stopping);
    gy_engine_call_workers(engine);
    for (int i = 1; i < engine->worker_count; i++) {
        gy_thread_join(&engine->workers[i]->thread);
    }
}

static gy_status start_workers(gy_engine *engine, const cpu_set_t *cores, bool bind)
{
    GY_ASSERT(engine->workers != NULL);
    GY_ASSERT(!engine->was_bound);
    for (int i = 1; i < engine->worker_count; i++) {
        gy_worker *worker = engine->workers[i];
        gy_status status = gy_thread_start(&worker->thread, "gyre-worker", worker_main, worker);
        if (status < 0) {
            stop_workers(engine);
            return status;
        }
        if (bind) {
            pin(worker->thread.thread, cores, i);
        }
    }
    if (bind) {
        engine->home_cpus = *cores;
        engine->was_bound = true;
        pin(pthread_self(), cores, 0);
    }
    return GY_OK;
}

/* Make the calling thread worker 0, unless it already is a permanent worker of another
 * engine. */
static void settle(gy_engine *engine)
{
    GY_ASSERT(engine->workers[0]->index == 0);
    if (gy_own.worker == NULL || gy_own.is_home) {
        gy_own.engine = engine;
        gy_own.id = engine->id;
        gy_own.worker = engine->workers[0];
        gy_own.is_home = true;
    }
}

gy_status gy_engine_new(const gy_engine_options *options, gy_engine **engine)
{
    GY_ASSERT(engine != NULL);
    gy_engine_options known;
    GY_TRY(gy_options_take(gy_engine_options, &known, options));
    options = &known;
    static _Atomic uint64_t next_id = 1;
    if (options->workers < 0 || options->workers > 4096 || options->ranks_on_host < 0) {
        return gy_fail(GY_ARG, "%d workers for %d ranks, expected 0 to 4096 for at least 0",
                       options->workers, options->ranks_on_host);
    }
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0) {
        CPU_ZERO(&cores);
        CPU_SET(0, &cores);
    }
    int ranks = GY_MAX(options->ranks_on_host, 1);
    gy_engine *made = gy_alloc_zero("engine.engine", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->worker_count =
        options->workers > 0 ? options->workers : GY_MAX(CPU_COUNT(&cores) / ranks, 1);
    made->may_spin = (int64_t)made->worker_count * ranks <= CPU_COUNT(&cores);
    GY_ASSERT(made->worker_count > 0);
    made->id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
    made->task_limit = options->task_limit > 0 ? options->task_limit : TASK_LIMIT_DEFAULT;
    made->memory_budget = (int64_t)GY_MIN(options->memory_budget, (size_t)INT64_MAX / 4);
    atomic_init(&made->heap.top, KEY_NONE);
    gy_mutex_init(&made->sleep_lock, LOCK_RANK);
    gy_cond_init(&made->workers_asleep.cond);
    gy_cond_init(&made->waiters_asleep.cond);
    gy_blocking_init(&made->blocking);
    gy_status status = add_workers(made);
    if (status == GY_OK) {
        status = start_workers(made, &cores, options->bind);
    }
    if (status < 0) {
        gy_blocking_fini(&made->blocking);
        take_down(made);
        return status;
    }
    settle(made);
    *engine = made;
    return GY_OK;
}

void gy_engine_free(gy_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    GY_ASSERT(gy_own.depth == 0);
    gy_status status = gy_engine_wait_all(engine, GY_NEVER);
    GY_ASSERT(status == GY_OK);
    stop_workers(engine);
    gy_blocking_fini(&engine->blocking);
    GY_ASSERT(gy_engine_alive(engine) == 0); /* no task was pushed during shutdown */
    GY_ASSERT(atomic_load_explicit(&engine->bytes_used, memory_order_relaxed) == 0);
    /* Pairs with the release in end_elsewhere. */
    while (atomic_load_explicit(&engine->outside_calls, memory_order_acquire) > 0) {
        sched_yield();
    }
    if (gy_own_worker(engine) != NULL) {
        if (engine->was_bound) {
            (void)pthread_setaffinity_np(pthread_self(), sizeof(engine->home_cpus),
                                         &engine->home_cpus);
        }
        gy_own = (gy_self){.engine = NULL};
    }
    take_down(engine);
}

gy_engine_counts gy_engine_count(const gy_engine *engine)
{
    GY_ASSERT(engine->workers != NULL);
    gy_engine_counts counts = {
        .tasks = atomic_load_explicit(&engine->outside_ended, memory_order_acquire),
        .idle_ns = atomic_load_explicit(&engine->workers[0]->idle_ns, memory_order_relaxed)};
    for (int i = 0; i < engine->worker_count; i++) {
        counts.tasks += atomic_load_explicit(&engine->workers[i]->ended, memory_order_acquire);
    }
    return counts;
}

int gy_engine_workers(const gy_engine *engine)
{
    GY_ASSERT(engine->worker_count > 0);
    return engine->worker_count;
}
