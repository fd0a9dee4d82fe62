/* Progress callbacks, which drive communication. One thread at a time calls them: a waiting
 * thread, a worker between two tasks, or who pushes far ahead and runs tasks meanwhile. */
#include "engine/engine_priv.h"

bool gy_engine_progress_poll(gy_engine *engine)
{
    if (atomic_load_explicit(&engine->progress_count, memory_order_acquire) == 0 ||
        gy_own.in_progress || !gy_spin_try(&engine->progress_lock)) {
        return false;
    }
    bool has_moved = false;
    gy_own.in_progress = true;
    gy_own.depth++;
    int count = atomic_load_explicit(&engine->progress_count, memory_order_relaxed);
    for (int i = 0; i < count; i++) {
        has_moved |= engine->progress[i].call(engine->progress[i].arg);
    }
    gy_own.depth--;
    gy_own.in_progress = false;
    gy_spin_unlock(&engine->progress_lock);
    return has_moved;
}

gy_status gy_engine_add_progress(gy_engine *engine, bool (*progress)(void *arg), void *arg)
{
    GY_ASSERT(!gy_own.in_progress);
    gy_status status = GY_OK;
    gy_spin_lock(&engine->progress_lock);
    int count = atomic_load_explicit(&engine->progress_count, memory_order_relaxed);
    if (count == PROGRESS_SLOTS) {
        status = gy_fail(GY_LIMIT, "the engine drives %d progress functions, no more",
                         PROGRESS_SLOTS);
    } else {
        engine->progress[count] = (gy_engine_poll){.call = progress, .arg = arg};
        atomic_store_explicit(&engine->progress_count, count + 1, memory_order_release);
    }
    gy_spin_unlock(&engine->progress_lock);
    gy_engine_call_waiters(engine); /* sleepers must wake and begin to poll */
    gy_engine_call_workers(engine);
    return status;
}

void gy_engine_remove_progress(gy_engine *engine, bool (*progress)(void *arg), void *arg)
{
    GY_ASSERT(!gy_own.in_progress);
    gy_spin_lock(&engine->progress_lock);
    int count = atomic_load_explicit(&engine->progress_count, memory_order_relaxed);
    int at = 0;
    while (at < count &&
           (engine->progress[at].call != progress || engine->progress[at].arg != arg)) {
        at++;
    }
    GY_ASSERT(at < count); /* otherwise the callback was never added */
    for (; at + 1 < count; at++) {
        engine->progress[at] = engine->progress[at + 1];
    }
    atomic_store_explicit(&engine->progress_count, count - 1, memory_order_release);
    gy_spin_unlock(&engine->progress_lock);
}
