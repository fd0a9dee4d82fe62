/* Runs independent requests concurrently. */
#include "store/remote/remote_priv.h"

enum {
    LOCK_RANK = 40 /* rank above the locks that requests take */,
    HANDS = 16,
    HANDS_FIRST = 8
};

typedef struct working {
    gy_status (*work)(void *arg, size_t index);
    void *arg;
    size_t count;
    gy_mutex lock; /* guards the members that follow */
    gy_thread helpers[HANDS - 1];
    size_t helper_count;
    size_t next, failed; /* failed: the lowest failed index; count: none */
    gy_error error;      /* of the failed index */
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

static void *run(void *arg);

/* Start another helper if there is work; without more threads, the existing ones do it. */
static void add_helper(working *all)
{
    gy_mutex_lock(&all->lock);
    if (all->helper_count < HANDS - 1 && all->next < all->count && all->failed == all->count) {
        gy_thread *helper = &all->helpers[all->helper_count];
        all->helper_count += gy_thread_start(helper, "gyre-asking", run, all) == GY_OK;
    }
    gy_mutex_unlock(&all->lock);
}

static void *run(void *arg)
{
    working *all = arg;
    size_t index = 0;
    for (int done = 0; take_next(all, &index); done++) {
        const gy_status status = all->work(all->arg, index);
        if (status < 0) {
            gy_mutex_lock(&all->lock);
            if (index < all->failed) {
                all->failed = index;
                gy_error_take(&all->error, status);
            }
            gy_mutex_unlock(&all->lock);
            /* start gradually, so that a server does not get all connections at once */
        } else if (done == 0) {
            add_helper(all);
        }
    }
    return NULL;
}

gy_status gy_remote_each(size_t count, gy_status (*work)(void *arg, size_t index), void *arg)
{
    working all = {.work = work, .arg = arg, .count = count, .failed = count};
    gy_mutex_init(&all.lock, LOCK_RANK);
    for (size_t i = 0; i < HANDS_FIRST - 1 && i + 1 < count; i++) {
        add_helper(&all);
    }
    (void)run(&all);
    for (size_t i = 0;; i++) { /* each helper that ends may have started another */
        gy_mutex_lock(&all.lock);
        const bool is_more = i < all.helper_count;
        gy_mutex_unlock(&all.lock);
        if (!is_more) {
            break;
        }
        gy_thread_join(&all.helpers[i]);
    }
    gy_mutex_fini(&all.lock);
    return all.failed < count ? gy_error_raise(&all.error) : GY_OK;
}
