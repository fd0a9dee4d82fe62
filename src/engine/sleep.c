/*
 * How a thread waits: it spins while there is a core for each worker, yields where there is
 * not, and sleeps in the kernel when the wait exceeds the cost of a wake-up.
 *
 * A sleeper increments the sleeper count and then searches for work once more; a thread that
 * makes work reads the count afterwards. Both are sequentially consistent, so at least one of
 * them sees the other.
 */
#include "engine/engine_priv.h"

enum { SPINS = 16 };

static void park(gy_engine *engine, gy_idle *idle, bool (*is_done)(void *arg), void *arg,
                 gy_deadline deadline)
{
    gy_dormitory *bed = idle->is_worker ? &engine->workers_asleep : &engine->waiters_asleep;
    gy_mutex_lock(&engine->sleep_lock);
    atomic_fetch_add_explicit(&bed->sleepers, 1, memory_order_seq_cst);
    if (!is_done(arg) && !gy_engine_has_work(engine)) {
        idle->has_slept = true;
        gy_status status = GY_OK;
        /* Another thread that parks meanwhile may consume the wake-up meant for this one, so
         * this thread also checks its own condition. */
        while (bed->calls == 0 && status == GY_OK && !is_done(arg)) {
            status = gy_cond_wait(&bed->cond, &engine->sleep_lock, deadline);
        }
        GY_ASSERT(bed->calls >= 0);
        if (bed->calls > 0) {
            bed->calls--;
            gy_mutex_unlock(&engine->sleep_lock);
            idle->since_ns = 0;
            return;
        }
    } else {
        idle->since_ns = 0;
    }
    int before = atomic_fetch_sub_explicit(&bed->sleepers, 1, memory_order_seq_cst);
    GY_ASSERT(before > 0);
    gy_mutex_unlock(&engine->sleep_lock);
}

void gy_idle_round(gy_engine *engine, gy_idle *idle, bool (*is_done)(void *arg), void *arg,
                   gy_deadline deadline)
{
    GY_ASSERT(is_done != NULL);
    GY_ASSERT(idle->nap_ns >= 0);
    int64_t now = gy_clock_ns();
    if (idle->since_ns == 0) {
        idle->since_ns = now;
    }
    GY_ASSERT(now >= idle->since_ns);
    bool must_poll = atomic_load_explicit(&engine->progress_count, memory_order_relaxed) > 0;
    if (now - idle->since_ns >= (must_poll ? POLL_NS : SPIN_NS)) {
        int64_t nap_ns = !must_poll ? idle->nap_ns : idle->is_worker ? POLL_NS : NAP_NS;
        if (nap_ns != 0 && deadline.at_ns > now + nap_ns) {
            deadline.at_ns = now + nap_ns;
        }
        park(engine, idle, is_done, arg, deadline);
    } else if (engine->may_spin) {
        for (int i = 0; i < SPINS; i++) {
            gy_spin();
        }
    } else {
        sched_yield();
    }
}

static bool wake_one(gy_engine *engine, gy_dormitory *bed)
{
    if (atomic_load_explicit(&bed->sleepers, memory_order_seq_cst) == 0) {
        return false;
    }
    bool was_called = false;
    gy_mutex_lock(&engine->sleep_lock);
    if (atomic_load_explicit(&bed->sleepers, memory_order_relaxed) > 0) {
        atomic_fetch_sub_explicit(&bed->sleepers, 1, memory_order_seq_cst);
        GY_ASSERT(bed->calls >= 0);
        bed->calls++;
        gy_cond_signal(&bed->cond);
        was_called = true;
    }
    gy_mutex_unlock(&engine->sleep_lock);
    return was_called;
}

static void wake_all(gy_engine *engine, gy_dormitory *bed)
{
    if (atomic_load_explicit(&bed->sleepers, memory_order_seq_cst) == 0) {
        return;
    }
    gy_mutex_lock(&engine->sleep_lock);
    bed->calls += atomic_exchange_explicit(&bed->sleepers, 0, memory_order_seq_cst);
    GY_ASSERT(bed->calls >= 0);
    gy_cond_broadcast(&bed->cond);
    gy_mutex_unlock(&engine->sleep_lock);
}

void gy_engine_call_one(gy_engine *engine)
{
    if (!wake_one(engine, &engine->workers_asleep)) {
        (void)wake_one(engine, &engine->waiters_asleep);
    }
}

void gy_engine_call_waiters(gy_engine *engine)
{
    wake_all(engine, &engine->waiters_asleep);
}

void gy_engine_call_workers(gy_engine *engine)
{
    wake_all(engine, &engine->workers_asleep);
}
