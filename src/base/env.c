#include "base/env.h"

#include "base/fail.h"
#include "base/thread.h"
#include "base/timer.h"

#include <sched.h>
#include <sys/random.h>
#include <time.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    GY_ASSERT(clock_gettime(clock, &now) == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t real_now_ns(gy_env *env)
{
    (void)env;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t real_wall_ns(gy_env *env)
{
    (void)env;
    return read_clock(CLOCK_REALTIME);
}

static uint64_t real_random(gy_env *env, gy_chance concern)
{
    (void)env;
    (void)concern;
    uint64_t value = 0;
    GY_ASSERT(getrandom(&value, sizeof(value), 0) == (ssize_t)sizeof(value));
    return value;
}

static void real_pause(gy_env *env, uint64_t round)
{
    (void)env;
    if (round < 256) {
        gy_spin();
    } else {
        sched_yield();
    }
}

static const gy_env_ops real_ops = {
    .name = "real",
    .now_ns = real_now_ns,
    .wall_ns = real_wall_ns,
    .random = real_random,
    .pause = real_pause,
    .timer = gy_real_timer,
    .poll = gy_real_poll,
};

gy_env *gy_env_real(void)
{
    static gy_env real = {.ops = &real_ops};
    return &real;
}

gy_deadline gy_deadline_after(double seconds)
{
    if (!(seconds < 9e9)) {
        return GY_NEVER;
    }
    return (gy_deadline){real_now_ns(NULL) + (int64_t)(seconds * 1e9)};
}
