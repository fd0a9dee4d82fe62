/* Requests of which none needs another's answer, several at once. */
#include "store/remote/remote_priv.h"

enum { LOCK_RANK = 40 /* above whatever is asked for */, HANDS = 8 };

typedef struct working {
    gy_status (*work)(void *arg, size_t index);
    void *arg;
    size_t count;
    gy_mutex lock;       /* of what follows */
    size_t next, failed; /* failed: the lowest; count: none */
    gy_error error;      /* of that */
} working;

static bool take_next(working *all, size_t *index)
{
    gy_mutex_lock(&all->lock);
    const bool is_more = all->failed == all->count && all->next < all->count;
    *index = all->next;
    all->next += is_more;
    gy_mutex_unlock(&all->lock);
    return is_more;
}

static void *run(void *arg)
{
    working *all = arg;
    size_t index = 0;
    while (take_next(all, &index)) {
        const gy_status status = all->work(all->arg, index);
        if (status < 0) {
            gy_mutex_lock(&all->lock);
            if (index < all->failed) {
                all->failed = index;
                gy_error_take(&all->error, status);
            }
            gy_mutex_unlock(&all->lock);
        }
    }
    return NULL;
}

gy_status gy_remote_each(size_t count, gy_status (*work)(void *arg, size_t index), void *arg)
{
    working all = {.work = work, .arg = arg, .count = count, .failed = count};
    gy_thread helpers[HANDS - 1] = {{.is_started = false}};
    gy_mutex_init(&all.lock, LOCK_RANK);
    for (size_t i = 0; i < HANDS - 1 && i + 1 < count; i++) {
        if (gy_thread_start(&helpers[i], "gyre-asking", run, &all) < 0) {
            break; /* fewer do it, too */
        }
    }
    (void)run(&all);
    for (size_t i = 0; i < HANDS - 1; i++) {
        if (helpers[i].is_started) {
            gy_thread_join(&helpers[i]);
        }
    }
    gy_mutex_fini(&all.lock);
    return all.failed < count ? gy_error_raise(&all.error) : GY_OK;
}
