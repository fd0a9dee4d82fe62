/*
 * Fetching threads, each with one request at a time, take the next input that is not fetched:
 *
 *   inputs   0    1    2    3    4    5    6    7    8  ...
 *            read, taken    ready     on their way   not begun: the budget is full
 *
 * Two threads begin, and each one that got an answer adds another, so that a server does not
 * see sixteen new connections at once.
 */
#include "flow/objects/prefetch.h"

#include "base/base.h"
#include "base/thread.h"
#include "store/remote/remote.h"

#include <stdatomic.h>

enum { LOCK_RANK = 45 /* rank above a place's own lock */, SMALL_SHARE = 4, HANDS_FIRST = 2 };
static const double look_s = 0.1; /* how soon a cancelled reader notices it */

typedef enum prefetch_state {
    AHEAD_NONE,  /* not prefetched: too large, no object, or the reader came first */
    AHEAD_LATER, /* not begun */
    AHEAD_ASKED, /* on its way */
    AHEAD_READY,
    AHEAD_FAILED,
} prefetch_state;

typedef struct prefetch_input {
    prefetch_state state; /* guarded by the lock, as are the members that follow */
    char *data;
    size_t size_bytes;
} prefetch_input;

typedef struct prefetch_hand {
    gy_objects_prefetch *all;
    gy_thread thread;
    gy_place *place; /* place of the current request; guarded by the lock */
} prefetch_hand;

struct gy_objects_prefetch {
    gy_env *env;
    const gy_flow_task *order;
    const _Atomic bool *is_cancelled;
    size_t budget_bytes;
    gy_mutex lock; /* guards the members that follow */
    gy_cond moves;
    bool is_stopped;
    int hand_count;
    uint32_t next;          /* first input that may be AHEAD_LATER */
    size_t held_bytes;      /* bytes of inputs that are requested or ready */
    gy_error error;         /* the failure; after it no request begins */
    prefetch_input *inputs; /* (order->input_count) */
    prefetch_hand hands[GY_OBJECTS_AT_ONCE];
};

/* Bytes of an input's range; SIZE_MAX: not an object. */
static size_t range_bytes(const gy_flow_task_input *from)
{
    if (from->kind != GY_INPUT_OBJECT) {
        return SIZE_MAX;
    }
    const uint64_t most = from->total_bytes - from->offset;
    return (size_t)GY_MIN(from->size_bytes, most);
}

/* Get the next input for a thread, and count its bytes against the budget; false: there is
 * none. */
static bool take_next(gy_objects_prefetch *all, uint32_t *input)
{
    bool has = false;
    gy_mutex_lock(&all->lock);
    while (!has && !all->is_stopped && all->error.status >= 0) {
        while (all->next < all->order->input_count &&
               all->inputs[all->next].state != AHEAD_LATER) {
            all->next++;
        }
        if (all->next == all->order->input_count) {
            break;
        }
        const size_t size = all->inputs[all->next].size_bytes;
        has = all->held_bytes == 0 || all->held_bytes + size <= all->budget_bytes;
        if (has) {
            *input = all->next++;
            all->inputs[*input].state = AHEAD_ASKED;
            all->held_bytes += size;
        } else { /* the reader takes an input, or gy_objects_prefetch_end */
            (void)gy_cond_wait(&all->moves, &all->lock, GY_NEVER);
        }
    }
    gy_mutex_unlock(&all->lock);
    return has;
}

/* Register the place of a request, so that the end can cancel it; false: the end came first. */
static bool show_place(prefetch_hand *hand, gy_place *place)
{
    gy_mutex_lock(&hand->all->lock);
    hand->place = place;
    const bool is_wanted = !hand->all->is_stopped;
    gy_mutex_unlock(&hand->all->lock);
    return is_wanted;
}

static gy_status fetch(prefetch_hand *hand, const gy_flow_task_input *from, char *data,
                       size_t size)
{
    size_t got = 0;
    gy_place *place = NULL;
    GY_TRY(gy_place_open(hand->all->env, from->path, NULL, &place));
    gy_status status = GY_CANCELLED;
    if (show_place(hand, place)) {
        status = gy_place_read(place, from->version, from->offset, data, size, &got);
    }
    (void)show_place(hand, NULL);
    gy_place_close(place);
    return status == GY_OK && got != size
               ? gy_fail(GY_STATE, "%s: it ends at byte %llu, expected %llu", from->path,
                         (unsigned long long)(from->offset + got),
                         (unsigned long long)(from->offset + size))
               : status;
}

static void *run(void *arg);

/* Add a thread, with the lock held; when that fails, the existing ones do the work. */
static void add_hand(gy_objects_prefetch *all)
{
    if (!all->is_stopped && all->hand_count < GY_OBJECTS_AT_ONCE) {
        prefetch_hand *hand = &all->hands[all->hand_count];
        hand->all = all;
        all->hand_count += gy_thread_start(&hand->thread, "gyre-ahead", run, hand) == GY_OK;
    }
}

static void *run(void *arg)
{
    prefetch_hand *hand = arg;
    gy_objects_prefetch *all = hand->all;
    uint32_t input = 0;
    for (int done = 0; take_next(all, &input); done++) {
        prefetch_input *of = &all->inputs[input];
        char *data = gy_alloc("flow.ahead", of->size_bytes + 1);
        gy_status status = data != NULL ? GY_OK : GY_NOMEM;
        if (status == GY_OK) {
            status = fetch(hand, &all->order->inputs[input], data, of->size_bytes);
        }
        gy_mutex_lock(&all->lock);
        of->state = status == GY_OK ? AHEAD_READY : AHEAD_FAILED;
        of->data = status == GY_OK ? data : NULL;
        if (status < 0 && all->error.status >= 0) {
            gy_error_take(&all->error, status);
        }
        gy_cond_broadcast(&all->moves);
        if (done == 0 && status == GY_OK && all->next < all->order->input_count) {
            add_hand(all);
        }
        gy_mutex_unlock(&all->lock);
        if (status < 0) {
            gy_free(data);
        }
    }
    return NULL;
}

/* Count the small inputs, and record their sizes. */
static uint32_t mark_small(gy_objects_prefetch *all, uint32_t first)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < all->order->input_count; i++) {
        const size_t size = range_bytes(&all->order->inputs[i]);
        if (size > 0 && size <= all->budget_bytes / SMALL_SHARE) {
            all->inputs[i] = (prefetch_input){.state = AHEAD_LATER, .size_bytes = size};
            count++;
        }
    }
    return count;
}

gy_status gy_objects_prefetch_begin(gy_env *env, const gy_flow_task *order, uint32_t first,
                                    size_t budget_bytes, const _Atomic bool *is_cancelled,
                                    gy_objects_prefetch **ahead)
{
    *ahead = NULL;
    gy_objects_prefetch *all = gy_alloc_zero("flow.ahead", 1, sizeof(*all));
    prefetch_input *inputs =
        gy_alloc_zero("flow.ahead", (size_t)order->input_count + 1, sizeof(*inputs));
    if (all == NULL || inputs == NULL) {
        gy_free(all);
        gy_free(inputs);
        return GY_NOMEM;
    }
    *all = (gy_objects_prefetch){.env = env,
                                 .order = order,
                                 .is_cancelled = is_cancelled,
                                 .budget_bytes = budget_bytes,
                                 .next = first,
                                 .inputs = inputs};
    gy_mutex_init(&all->lock, LOCK_RANK);
    gy_cond_init(&all->moves);
    const uint32_t count = mark_small(all, first);
    gy_mutex_lock(&all->lock);
    for (uint32_t i = 0; count > 1 && i < GY_MIN(count, (uint32_t)HANDS_FIRST); i++) {
        add_hand(all);
    }
    const bool has_one = all->hand_count > 0;
    gy_mutex_unlock(&all->lock);
    if (!has_one) {
        gy_objects_prefetch_end(all);
        return GY_OK;
    }
    *ahead = all;
    return GY_OK;
}

void gy_objects_prefetch_end(gy_objects_prefetch *ahead)
{
    if (ahead == NULL) {
        return;
    }
    gy_mutex_lock(&ahead->lock);
    ahead->is_stopped = true;
    for (int i = 0; i < GY_OBJECTS_AT_ONCE; i++) {
        if (ahead->hands[i].place != NULL) {
            gy_place_cancel(ahead->hands[i].place);
        }
    }
    gy_cond_broadcast(&ahead->moves);
    gy_mutex_unlock(&ahead->lock);
    for (int i = 0; i < GY_OBJECTS_AT_ONCE; i++) {
        if (ahead->hands[i].thread.is_started) {
            gy_thread_join(&ahead->hands[i].thread);
        }
    }
    for (uint32_t i = 0; i < ahead->order->input_count; i++) {
        gy_free(ahead->inputs[i].data);
    }
    gy_cond_fini(&ahead->moves);
    gy_mutex_fini(&ahead->lock);
    gy_free(ahead->inputs);
    gy_free(ahead);
}

static bool is_unwanted(const gy_objects_prefetch *ahead)
{
    return ahead->is_cancelled != NULL &&
           atomic_load_explicit(ahead->is_cancelled, memory_order_relaxed);
}

gy_status gy_objects_prefetch_take(gy_objects_prefetch *ahead, uint32_t input, char **data,
                                   size_t *size_bytes)
{
    GY_ASSERT(input < ahead->order->input_count);
    prefetch_input *of = &ahead->inputs[input];
    bool is_cancelled = false;
    *data = NULL;
    gy_mutex_lock(&ahead->lock);
    /* ends, since a request has a time limit */
    while (of->state == AHEAD_ASKED && !is_cancelled) {
        (void)gy_cond_wait(&ahead->moves, &ahead->lock, gy_env_deadline(gy_env_real(), look_s));
        is_cancelled = is_unwanted(ahead);
    }
    const bool is_failed = of->state == AHEAD_FAILED && !is_cancelled;
    if (of->state == AHEAD_READY) {
        *data = of->data;
        *size_bytes = of->size_bytes;
        ahead->held_bytes -= of->size_bytes;
        of->data = NULL;
        gy_cond_broadcast(&ahead->moves);
    }
    of->state = of->state == AHEAD_ASKED ? AHEAD_ASKED : AHEAD_NONE;
    gy_mutex_unlock(&ahead->lock);
    if (is_failed) {
        return gy_error_raise(&ahead->error);
    }
    return is_cancelled
               ? gy_fail(GY_CANCELLED, "%s: no longer needed", ahead->order->inputs[input].path)
               : GY_OK;
}
