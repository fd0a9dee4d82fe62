#include "base/timer.h"
#include "base/fail.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/thread.h"

static bool is_before(const gy_timer *a, const gy_timer *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

gy_status gy_timers_set(gy_timers *timers, int64_t at_ns, gy_env_fire fire, void *arg)
{
    GY_TRY(GY_GROW("base.timers", timers->items, timers->capacity, timers->count + 1));
    gy_timer timer = {.at_ns = at_ns, .order = timers->set_count++, .fire = fire, .arg = arg};
    size_t at = timers->count++;
    while (at > 0 && is_before(&timer, &timers->items[(at - 1) / 2])) {
        timers->items[at] = timers->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    timers->items[at] = timer;
    return GY_OK;
}

int64_t gy_timers_next_ns(const gy_timers *timers)
{
    return timers->count > 0 ? timers->items[0].at_ns : INT64_MAX;
}

bool gy_timers_take(gy_timers *timers, int64_t now_ns, gy_timer *timer)
{
    if (timers->count == 0 || timers->items[0].at_ns > now_ns) {
        return false;
    }
    *timer = timers->items[0];
    gy_timer last = timers->items[--timers->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= timers->count) {
            break;
        }
        if (child + 1 < timers->count &&
            is_before(&timers->items[child + 1], &timers->items[child])) {
            child++;
        }
        if (!is_before(&timers->items[child], &last)) {
            break;
        }
        timers->items[at] = timers->items[child];
        at = child;
    }
    if (timers->count > 0) {
        timers->items[at] = last;
    } else {
        gy_timers_free(timers);
    }
    return true;
}

void gy_timers_free(gy_timers *timers)
{
    gy_free(timers->items);
    timers->items = NULL;
    timers->count = 0;
    timers->capacity = 0;
}

/* The process's timers. */
static gy_mutex lock;
static gy_cond is_earlier; /* a timer was set that comes before all others */
static gy_timers real_timers;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_lock(void)
{
    gy_mutex_init(&lock, 2);
    gy_cond_init(&is_earlier);
}

gy_status gy_real_timer(gy_env *env, int64_t at_ns, gy_env_fire fire, void *arg)
{
    (void)env;
    GY_ASSERT(pthread_once(&once, make_lock) == 0);
    gy_mutex_lock(&lock);
    gy_status status = gy_timers_set(&real_timers, at_ns, fire, arg);
    gy_cond_broadcast(&is_earlier);
    gy_mutex_unlock(&lock);
    return status;
}

int gy_real_poll(gy_env *env, gy_deadline deadline)
{
    GY_ASSERT(pthread_once(&once, make_lock) == 0);
    int fired = 0;
    gy_mutex_lock(&lock);
    for (;;) {
        gy_timer timer;
        int64_t now_ns = gy_now_ns(env);
        if (gy_timers_take(&real_timers, now_ns, &timer)) {
            /* Without the lock: it may set another. */
            gy_mutex_unlock(&lock);
            timer.fire(timer.arg);
            gy_mutex_lock(&lock);
            fired++;
            continue;
        }
        if (fired > 0 || now_ns >= deadline.at_ns) {
            break;
        }
        int64_t next_ns = gy_timers_next_ns(&real_timers);
        int64_t until_ns = next_ns < deadline.at_ns ? next_ns : deadline.at_ns;
        (void)gy_cond_wait(&is_earlier, &lock, (gy_deadline){until_ns});
    }
    gy_mutex_unlock(&lock);
    return fired;
}
