#include "transport/transport.h"

enum {
    LOOKS_BEFORE_CLOCK = 32, /* spins between two reads of the clock */
    /* waking a sleeper costs 40-70 us, so shorter waits do not sleep */
    SLEEP_AFTER_NS = 100000,
    NAP_NS = 1000000,          /* cost of a lost wake-up at most */
    CHECK_EVERY_NS = 20000000, /* liveness check: some system calls a peer */
    /* ranks that wait give a core back sooner; another process uses up its time slice */
    LONG_YIELD_NS = 500000,
    CROWDED_NS = 250000000, /* until yields are tried again */
};

/*
 * Who yields beside another process waits for the end of its time slice, milliseconds; who
 * sleeps and is woken does not. So yields are measured, and after a long one all ranks of the
 * process sleep instead, until then. By the real clock: the simulator learns nothing.
 * relaxed everywhere: a hint, which publishes nothing.
 */
static _Atomic int64_t crowd_end_ns;

static void end_yield(gy_wait *wait, int64_t now_ns)
{
    GY_ASSERT(wait->yield_ns <= now_ns);
    if (wait->yield_ns > 0 && now_ns - wait->yield_ns > LONG_YIELD_NS) {
        atomic_store_explicit(&crowd_end_ns, now_ns + CROWDED_NS, memory_order_relaxed);
    }
    wait->yield_ns = 0;
}

/* Spins, or yields on a host with more ranks than cores; false: it is time to sleep. */
static bool stay_awake(gy_wait *wait, int64_t now_ns)
{
    GY_ASSERT(now_ns >= wait->start_ns);
    gy_env *env = wait->transport->env;
    const bool yields = wait->transport->is_oversubscribed;
    const bool is_real = env->ops->now_ns == gy_env_real()->ops->now_ns;
    if (now_ns - wait->start_ns >= SLEEP_AFTER_NS ||
        (yields && is_real &&
         now_ns < atomic_load_explicit(&crowd_end_ns, memory_order_relaxed))) {
        return false;
    }
    wait->yield_ns = yields && is_real ? now_ns : 0;
    env->ops->pause(env, yields ? UINT64_MAX : 0);
    return true;
}

static gy_status time_is_over(const gy_wait *wait, int64_t now_ns)
{
    GY_ASSERT(now_ns >= wait->deadline.at_ns);
    double waited = (double)(now_ns - wait->start_ns) * 1e-9;
    if (wait->peer >= 0) {
        (void)gy_fail(GY_TIMEOUT, "rank %d waited %.3f s for rank %d: %s",
                      wait->transport->rank, waited, wait->peer, wait->what);
    } else {
        (void)gy_fail(GY_TIMEOUT, "rank %d waited %.3f s: %s", wait->transport->rank, waited,
                      wait->what);
    }
    return wait->is_blind ? GY_TIMEOUT : gy_transport_blame(wait->transport, GY_TIMEOUT);
}

/* A peer may have published the awaited word just before it ended, so check once more. The
 * same holds for the next peer when that check showed that the wait now depends on another
 * one. */
static gy_status look_after_peers(gy_wait *wait, int64_t now_ns)
{
    GY_ASSERT(!wait->is_blind);
    GY_ASSERT(wait->peer < wait->transport->size);
    wait->check_ns = now_ns + CHECK_EVERY_NS;
    gy_status status = gy_transport_check(wait->transport, wait->peer);
    if (status >= 0 && wait->peer >= 0) {
        /* Another rank's death ends the launch as well, whichever rank this wait depends on. */
        status = gy_transport_check(wait->transport, -1);
    }
    if (status < 0 && !(wait->is_doomed && wait->doomed_peer == wait->peer)) {
        wait->is_doomed = true;
        wait->doomed_peer = wait->peer;
        wait->check_ns = now_ns;
        return GY_OK;
    }
    wait->is_doomed = status < 0;
    return status < 0 ? gy_fail_within(status, "%s", wait->what) : GY_OK;
}

gy_status gy_wait_round(gy_wait *wait)
{
    GY_ASSERT(wait->peer >= -1);
    GY_ASSERT(wait->what != NULL);
    gy_transport *transport = wait->transport;
    uint64_t round = wait->round++;
    bool may_spin = !transport->is_oversubscribed;
    bool is_clock_due = wait->is_napping || wait->is_doomed ||
                        round % LOOKS_BEFORE_CLOCK == LOOKS_BEFORE_CLOCK - 1;
    if (may_spin && !is_clock_due) {
        transport->env->ops->pause(transport->env, 0);
        return GY_OK;
    }
    int64_t now_ns = gy_now_ns(transport->env);
    end_yield(wait, now_ns);
    if (wait->start_ns == 0) {
        wait->start_ns = now_ns;
        wait->check_ns = now_ns + CHECK_EVERY_NS;
    }
    if (now_ns >= wait->check_ns && !wait->is_blind) {
        GY_TRY(look_after_peers(wait, now_ns));
    }
    if (now_ns >= wait->deadline.at_ns) {
        return time_is_over(wait, now_ns);
    }
    if (!wait->is_driven && transport->ops->progress(transport) == GY_OK) {
        return GY_OK;
    }
    if (stay_awake(wait, now_ns)) {
        return GY_OK;
    }
    /* The first nap only announces itself (0 ns), so that words published from now on cause a
     * wake-up. */
    int64_t nap_ns = GY_MIN(wait->deadline.at_ns - now_ns, (int64_t)NAP_NS);
    transport->ops->nap(transport, wait->is_napping ? nap_ns : 0);
    wait->is_napping = true;
    return GY_OK;
}
