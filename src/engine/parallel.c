/* Splits one loop into chunks for idle workers and the caller. The chunk boundaries do not
 * depend on which thread runs a chunk, so results are reproducible. */
#include "engine/engine_priv.h"

static void run_piece(const gy_engine_loop *job, int64_t piece)
{
    GY_CHECK_DEEP(piece >= 0);
    GY_CHECK_DEEP(piece < job->pieces);
    int64_t begin = piece * job->grain;
    int64_t left = job->count - begin;
    GY_CHECK_DEEP(left > 0);
    job->fn(job->arg, begin, begin + GY_MIN(left, job->grain));
}

static bool run_pieces(gy_engine_loop *job)
{
    GY_ASSERT(job->pieces > 0);
    GY_ASSERT(gy_own.depth >= 0);
    bool has_run = false;
    gy_own.depth++;
    for (;;) {
        int64_t piece = atomic_fetch_add_explicit(&job->taken, 1, memory_order_relaxed);
        if (piece >= job->pieces) {
            break;
        }
        run_piece(job, piece);
        has_run = true;
    }
    gy_own.depth--;
    return has_run;
}

/* Join the first loop that has chunks left; NULL if there is none. */
static gy_engine_loop *join_job(gy_engine *engine)
{
    gy_spin_lock(&engine->jobs_lock);
    gy_engine_loop *job = atomic_load_explicit(&engine->jobs, memory_order_relaxed);
    while (job != NULL &&
           atomic_load_explicit(&job->taken, memory_order_relaxed) >= job->pieces) {
        job = job->next;
    }
    if (job != NULL) {
        int before = atomic_fetch_add_explicit(&job->helpers, 1, memory_order_relaxed);
        GY_ASSERT(before >= 0);
    }
    gy_spin_unlock(&engine->jobs_lock);
    return job;
}

bool gy_engine_loop_help(gy_engine *engine)
{
    if (atomic_load_explicit(&engine->jobs, memory_order_acquire) == NULL) {
        return false;
    }
    gy_engine_loop *job = join_job(engine);
    if (job == NULL) {
        return false;
    }
    bool has_run = run_pieces(job);
    /* The owner may free the job after this decrement. Seq_cst: the following read of
     * `sleepers` must not move before it. */
    int before = atomic_fetch_sub_explicit(&job->helpers, 1, memory_order_seq_cst);
    GY_ASSERT(before > 0);
    if (before == 1) {
        gy_engine_call_waiters(engine);
    }
    return has_run;
}

static void list_job(gy_engine *engine, gy_engine_loop *job)
{
    GY_ASSERT(job->next == NULL);
    GY_ASSERT(job->pieces > 1);
    gy_spin_lock(&engine->jobs_lock);
    job->next = atomic_load_explicit(&engine->jobs, memory_order_relaxed);
    (void)atomic_exchange_explicit(&engine->jobs, job, memory_order_seq_cst);
    gy_spin_unlock(&engine->jobs_lock);
}

static void unlist_job(gy_engine *engine, gy_engine_loop *job)
{
    gy_spin_lock(&engine->jobs_lock);
    gy_engine_loop *at = atomic_load_explicit(&engine->jobs, memory_order_relaxed);
    if (at == job) {
        atomic_store_explicit(&engine->jobs, job->next, memory_order_release);
    } else {
        while (at != NULL && at->next != job) {
            at = at->next;
        }
        GY_ASSERT(at != NULL); /* the loop stays listed until this point */
        at->next = job->next;
    }
    gy_spin_unlock(&engine->jobs_lock);
}

static bool has_no_helpers(void *arg)
{
    gy_engine_loop *job = arg;
    int helpers = atomic_load_explicit(&job->helpers, memory_order_seq_cst);
    GY_ASSERT(helpers >= 0);
    return helpers == 0;
}

void gy_parallel_for(gy_engine *engine, int64_t count, int64_t grain,
                     void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    GY_ASSERT(fn != NULL);
    GY_ASSERT(grain > 0);
    if (count <= 0) {
        return;
    }
    gy_engine_loop job = {.fn = fn, .arg = arg, .count = count, .grain = grain};
    job.pieces = count / grain + (count % grain != 0);
    if (engine == NULL || engine->worker_count == 1 || job.pieces == 1) {
        gy_own.depth++;
        for (int64_t piece = 0; piece < job.pieces; piece++) {
            run_piece(&job, piece);
        }
        gy_own.depth--;
        return;
    }
    GY_ASSERT(job.pieces > 1);
    GY_ASSERT(engine->worker_count > 1);
    list_job(engine, &job);
    for (int64_t i = 1; i < GY_MIN(job.pieces, (int64_t)engine->worker_count); i++) {
        gy_engine_call_one(engine);
    }
    (void)run_pieces(&job);
    unlist_job(engine, &job);
    /* Other workers run the last chunks. They take about as long as our own last chunk did, so
     * spinning pays. */
    gy_idle idle = {.since_ns = 0};
    while (!has_no_helpers(&job)) {
        gy_idle_round(engine, &idle, has_no_helpers, &job, GY_NEVER);
    }
}
