/* The lane of tasks that block in the kernel. The lane starts a thread when all its threads
 * are busy, and keeps idle threads for later tasks. */
#include "engine/engine_priv.h"

void gy_blocking_init(gy_blocking *blocking)
{
    GY_ASSERT(blocking->thread_count == 0);
    GY_ASSERT(!blocking->is_stopping);
    gy_mutex_init(&blocking->lock, LOCK_RANK);
    gy_cond_init(&blocking->cond);
    atomic_init(&blocking->ready.top, KEY_NONE);
}

static void *blocking_main(void *arg)
{
    gy_engine *engine = arg;
    gy_blocking *blocking = &engine->blocking;
    gy_mutex_lock(&blocking->lock);
    for (;;) {
        gy_done *task = gy_engine_heap_pop(&blocking->ready, KEY_NONE);
        if (task != NULL) {
            GY_ASSERT(task->lane == GY_LANE_BLOCKING);
            GY_ASSERT(blocking->queued_count > 0);
            blocking->queued_count--;
            gy_mutex_unlock(&blocking->lock);
            gy_engine_task_run(engine, NULL, task);
            gy_mutex_lock(&blocking->lock);
        } else if (blocking->is_stopping) {
            GY_ASSERT(blocking->queued_count == 0);
            break;
        } else {
            blocking->idle_count++;
            (void)gy_cond_wait(&blocking->cond, &blocking->lock, GY_NEVER);
            blocking->idle_count--;
        }
    }
    gy_mutex_unlock(&blocking->lock);
    return NULL;
}

static gy_status add_thread(gy_engine *engine) GY_REQUIRES(blocking->lock)
{
    gy_blocking *blocking = &engine->blocking;
    GY_ASSERT(blocking->thread_count < BLOCKING_THREADS);
    GY_ASSERT(!blocking->is_stopping);
    GY_TRY(gy_thread_start(&blocking->threads[blocking->thread_count], "gyre-block",
                           blocking_main, engine));
    if (engine->was_bound) {
        /* The new thread inherits the affinity of its creator, which may be pinned to one
         * core. */
        (void)pthread_setaffinity_np(blocking->threads[blocking->thread_count].thread,
                                     sizeof(engine->home_cpus), &engine->home_cpus);
    }
    blocking->thread_count++;
    return GY_OK;
}

gy_status gy_blocking_prepare(gy_engine *engine)
{
    gy_blocking *blocking = &engine->blocking;
    gy_mutex_lock(&blocking->lock);
    GY_ASSERT(!blocking->is_stopping); /* gy_engine_free has not stopped this lane */
    gy_status status = blocking->thread_count == 0 ? add_thread(engine) : GY_OK;
    gy_mutex_unlock(&blocking->lock);
    return status;
}

void gy_blocking_push(gy_engine *engine, gy_done *task)
{
    gy_blocking *blocking = &engine->blocking;
    gy_mutex_lock(&blocking->lock);
    GY_ASSERT(task->lane == GY_LANE_BLOCKING);
    GY_ASSERT(blocking->thread_count > 0);
    GY_ASSERT(blocking->idle_count <= blocking->thread_count);
    gy_engine_heap_push(&blocking->ready, task);
    blocking->queued_count++;
    if (blocking->queued_count > blocking->idle_count &&
        blocking->thread_count < BLOCKING_THREADS) {
        /* a failure is harmless: the existing thread runs the task later */
        (void)add_thread(engine);
    }
    gy_cond_signal(&blocking->cond);
    gy_mutex_unlock(&blocking->lock);
}

void gy_blocking_fini(gy_blocking *blocking)
{
    gy_mutex_lock(&blocking->lock);
    GY_ASSERT(!blocking->is_stopping);
    blocking->is_stopping = true;
    gy_cond_broadcast(&blocking->cond);
    gy_mutex_unlock(&blocking->lock);
    for (int i = 0; i < blocking->thread_count; i++) {
        gy_thread_join(&blocking->threads[i]);
    }
    GY_ASSERT(blocking->queued_count == 0);
    GY_ASSERT(blocking->idle_count == 0);
    gy_cond_fini(&blocking->cond);
    gy_mutex_fini(&blocking->lock);
}
