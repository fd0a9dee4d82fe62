/**
 * Where time, chance and bytes come from: one table, two implementations (the real one here,
 * the simulated one in room sim). Rooms that a simulator must be able to drive take a gy_env
 * and never call a clock, a random device or a file themselves.
 */
#ifndef GY_BASE_ENV_H
#define GY_BASE_ENV_H

#include <gyre/base.h>

typedef struct gy_env gy_env;
typedef void (*gy_env_fire)(void *arg);
struct gy_disk_ops;

/** One stream of chance per concern, so that shrinking one does not shift the others. */
typedef enum gy_chance {
    GY_CHANCE_NETWORK,
    GY_CHANCE_DISK,
    GY_CHANCE_CRASH,
    GY_CHANCE_WORK
} gy_chance;

typedef struct gy_env_ops {
    const char *name;
    int64_t (*now_ns)(gy_env *env);  /* monotonic */
    int64_t (*wall_ns)(gy_env *env); /* since 1970 */
    uint64_t (*random)(gy_env *env, gy_chance concern);
    /* One round of a wait loop; `round` counts from 0 and decides spin, yield or sleep. */
    void (*pause)(gy_env *env, uint64_t round);
    /* Call fire(arg) once now_ns reaches at_ns, from gy_env_poll. @threads any */
    gy_status (*timer)(gy_env *env, int64_t at_ns, gy_env_fire fire, void *arg);
    int (*poll)(gy_env *env, gy_deadline deadline); /* gy_env_poll */
    const struct gy_disk_ops *disk;                 /* base/disk.h; NULL: the real files */
} gy_env_ops;

struct gy_env {
    const gy_env_ops *ops;
};

/** The operating system's environment; one per process, never freed. @threads any */
gy_env *gy_env_real(void);

static inline int64_t gy_now_ns(gy_env *env)
{
    return env->ops->now_ns(env);
}

/** The deadline `seconds` from now on env's clock; from about 290 years on: never. @threads any
 */
static inline gy_deadline gy_env_deadline(gy_env *env, double seconds)
{
    return seconds < 9e9 ? (gy_deadline){env->ops->now_ns(env) + (int64_t)(seconds * 1e9)}
                         : GY_NEVER;
}

/**
 * Fire the timers that are due, in the order of their times (of equal times: as set). When none
 * is, sleep until one fires or the deadline passes; a deadline in the past never sleeps.
 *
 * @return how many fired
 * @threads any; a timer fires once, on the thread that polled
 */
static inline int gy_env_poll(gy_env *env, gy_deadline deadline)
{
    return env->ops->poll(env, deadline);
}

#endif
