/**
 * Timers in a binary heap, earliest first, equal times in the order set. Zero-initialise; the
 * caller locks. Both environments stand on it.
 */
#ifndef GY_BASE_TIMER_H
#define GY_BASE_TIMER_H

#include "base/env.h"

typedef struct gy_timer {
    int64_t at_ns;
    uint64_t order; /* of setting */
    gy_env_fire fire;
    void *arg;
} gy_timer;

typedef struct gy_timers {
    gy_timer *items;
    size_t count, capacity;
    uint64_t set_count;
} gy_timers;

/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_timers_set(gy_timers *timers, int64_t at_ns, gy_env_fire fire,
                                      void *arg);
/** The time of the earliest, INT64_MAX when none. */
int64_t gy_timers_next_ns(const gy_timers *timers);
/** Take the earliest out if it is due at now_ns. */
bool gy_timers_take(gy_timers *timers, int64_t now_ns, gy_timer *timer);
/** Drop all. */
void gy_timers_free(gy_timers *timers);

/** The real environment's: one heap a process, under a lock. */
gy_status gy_real_timer(gy_env *env, int64_t at_ns, gy_env_fire fire, void *arg);
int gy_real_poll(gy_env *env, gy_deadline deadline);

#endif
