/*
 * Executes the steps of all ranks against each other without data, to find which step can
 * follow which. The first receive from a message's rank takes the message, and its send ends
 * only then, the hardest case for deadlocks. A rank that must wait sleeps until the condition
 * may hold.
 */
#include "plan/agenda_priv.h"
#include "plan/plan_priv.h"

#include "base/base.h"

#include <string.h>

typedef struct open_send {
    uint32_t index;
    bool has_ended;
} open_send;

typedef struct rank_walk {
    uint32_t next;      /* index of its current step */
    uint32_t mark;      /* last posted mark */
    int32_t awaited;    /* sleeps until a message from that rank arrives; -1: no message */
    int32_t next_ready; /* next rank queued for the same time; -1: the last */
    bool is_queued, waits_for_post, waits_for_send;
    /* (open_capacity) ascending; those from open_first on may not have ended */
    open_send *open;
    size_t open_first, open_count, open_capacity;
    int32_t came_from; /* the sender of the message stored here; -1: none */
    uint32_t held;     /* further messages to this rank, which are in the table */
    gy_plan_message came;
} rank_walk;

enum { RECENT = 4 };

/* Ranks that may continue at one time, in the order of queueing; the first time is the one
 * with the lowest (at, order). Ranks of regular plans often share one. */
typedef struct ready_time {
    double at;
    uint64_t order;
    int32_t first, last; /* ranks, linked by next_ready; first -1: the entry is free */
} ready_time;

typedef struct walk_run {
    gy_plan *plan;
    gy_visitor *visitor;
    int ranks;
    rank_walk *all;
    gy_plan_unexpected_table
        under_way; /* gy_plan_message: those beyond the one stored with a rank */
    /* (p) a ring buffer of ranks that may continue at once, before all that have a time */
    int32_t *woken;
    int woken_first, woken_count;
    ready_time *times;           /* (p) */
    int32_t *free_times, *ready; /* (p) free entries; a binary heap of the others */
    int32_t recent[RECENT];
    int ready_count, posts_awaited;
    uint64_t orders;
} walk_run;

static void walk_fini(walk_run *walk)
{
    for (int rank = 0; walk->all != NULL && rank < walk->ranks; rank++) {
        gy_free(walk->all[rank].open);
    }
    gy_plan_unexpected_fini(&walk->under_way);
    gy_free(walk->all);
    gy_free(walk->woken);
    gy_free(walk->ready);
    gy_free(walk->free_times);
    gy_free(walk->times);
}

static bool is_before(const walk_run *walk, int32_t left, int32_t right)
{
    const ready_time *a = &walk->times[left], *b = &walk->times[right];
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

/* Find a recent entry for that time; -1: none. */
static int32_t find_recent(const walk_run *walk, double at)
{
    for (int i = 0; i < RECENT; i++) {
        const ready_time *time = &walk->times[walk->recent[i]];
        if (time->first >= 0 && time->at == at) {
            return walk->recent[i];
        }
    }
    return -1;
}

static void queue_rank(walk_run *walk, int rank, double at)
{
    int32_t index = find_recent(walk, at);
    walk->all[rank].is_queued = true;
    walk->all[rank].next_ready = -1;
    if (index >= 0) {
        walk->all[walk->times[index].last].next_ready = rank;
        walk->times[index].last = rank;
        return;
    }
    int place = walk->ready_count++;
    index = walk->free_times[place];
    walk->times[index] =
        (ready_time){.at = at, .order = walk->orders, .first = rank, .last = rank};
    walk->recent[walk->orders++ % RECENT] = index;
    while (place > 0 && is_before(walk, index, walk->ready[(place - 1) / 2])) {
        walk->ready[place] = walk->ready[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    walk->ready[place] = index;
}

static void drop_first_time(walk_run *walk)
{
    int place = 0;
    walk->free_times[--walk->ready_count] = walk->ready[0];
    const int32_t last = walk->ready[walk->ready_count];
    for (;;) {
        int child = 2 * place + 1;
        if (child + 1 < walk->ready_count &&
            is_before(walk, walk->ready[child + 1], walk->ready[child])) {
            child++;
        }
        if (child >= walk->ready_count || !is_before(walk, walk->ready[child], last)) {
            break;
        }
        walk->ready[place] = walk->ready[child];
        place = child;
    }
    walk->ready[place] = last;
}

static int next_timed(walk_run *walk)
{
    ready_time *time = &walk->times[walk->ready[0]];
    int rank = time->first;
    time->first = walk->all[rank].next_ready;
    if (time->first < 0) {
        drop_first_time(walk);
    }
    return rank;
}

static int next_rank(walk_run *walk)
{
    int rank = 0;
    if (walk->woken_count > 0) {
        rank = walk->woken[walk->woken_first];
        walk->woken_first = walk->woken_first + 1 == walk->ranks ? 0 : walk->woken_first + 1;
        walk->woken_count--;
    } else {
        rank = next_timed(walk);
    }
    rank_walk *here = &walk->all[rank];
    here->is_queued = here->waits_for_send = false;
    here->awaited = -1;
    return rank;
}

static void wake(walk_run *walk, int rank)
{
    if (!walk->all[rank].is_queued) {
        int place = walk->woken_first + walk->woken_count++;
        walk->woken[place < walk->ranks ? place : place - walk->ranks] = rank;
        walk->all[rank].is_queued = true;
    }
}

static gy_status walk_init(walk_run *walk)
{
    size_t ranks = (size_t)walk->ranks;
    walk->all = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->all));
    walk->ready = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->ready));
    walk->free_times = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->free_times));
    walk->times = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->times));
    walk->woken = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->woken));
    if (walk->all == NULL || walk->ready == NULL || walk->woken == NULL ||
        walk->free_times == NULL || walk->times == NULL) {
        return GY_NOMEM;
    }
    for (int rank = 0; rank < walk->ranks; rank++) {
        walk->all[rank].came_from = -1;
        walk->free_times[rank] = rank;
        walk->times[rank].first = -1;
        wake(walk, rank);
    }
    return GY_OK;
}

/* The current step of a rank; NULL: it has ended. */
static gy_status step_at(walk_run *walk, int rank, const gy_step **step)
{
    gy_plan *plan = walk->plan;
    gy_steps *steps = &plan->ranks[rank];
    uint32_t index = walk->all[rank].next;
    bool is_past = index >= steps->sink.first + steps->count;
    if (plan->window > 0 && (index < steps->sink.first || (is_past && !steps->has_end))) {
        GY_TRY(
            gy_plan_window(plan->algorithm, &plan->request, rank, index, plan->window, steps));
    }
    bool is_there = index < steps->sink.first + steps->count;
    *step = is_there ? &steps->items[index - steps->sink.first] : NULL;
    return GY_OK;
}

/* Find a send that has not ended; NULL: it has. */
static open_send *find_open(const rank_walk *here, uint32_t send)
{
    size_t low = here->open_first, high = here->open_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (here->open[middle].index < send) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_there = low < here->open_count && here->open[low].index == send;
    return is_there && !here->open[low].has_ended ? &here->open[low] : NULL;
}

/* GY_OK: the sends that the step waits for have ended; GY_AGAIN: not yet. */
static gy_status look_after(walk_run *walk, int rank, const gy_step *step)
{
    const gy_steps *steps = &walk->plan->ranks[rank];
    rank_walk *here = &walk->all[rank];
    for (int i = 0; i < 2; i++) {
        uint32_t after = step->after[i], first = steps->sink.first;
        if (after == 0) {
            continue;
        }
        bool is_right = after - 1 < here->next;
        /* otherwise the step is no longer in the window */
        if (is_right && after - 1 >= first) {
            is_right = steps->items[after - 1 - first].kind == GY_STEP_SEND;
        }
        if (!is_right) {
            return gy_plan_wrong(walk->plan, rank, here->next, "step %u is no send before it",
                                 after - 1);
        }
        if (find_open(here, after - 1) != NULL) {
            here->waits_for_send = true;
            return GY_AGAIN;
        }
    }
    return GY_OK;
}

static void end_send(walk_run *walk, int rank, uint32_t send)
{
    rank_walk *here = &walk->all[rank];
    open_send *open = find_open(here, send);
    if (open != NULL) {
        open->has_ended = true;
    }
    while (here->open_first < here->open_count && here->open[here->open_first].has_ended) {
        here->open_first++;
    }
    if (here->waits_for_send) {
        wake(walk, rank);
    }
}

/* One message to a rank is stored with the rank, as most plans need no more; others are in the
 * table. Returns the oldest one from `from`; NULL: there is none. */
static const gy_plan_message *find_message(const walk_run *walk, int from, int to)
{
    const rank_walk *here = &walk->all[to];
    if (here->came_from == from) {
        return &here->came;
    }
    return here->held == 0 ? NULL : gy_plan_unexpected_find(&walk->under_way, from, to);
}

static bool remove_message(walk_run *walk, int from, int to, gy_plan_message *message)
{
    rank_walk *here = &walk->all[to];
    if (here->came_from == from) {
        *message = here->came;
        here->came_from = -1;
        return true;
    }
    bool is_there =
        here->held > 0 && gy_plan_unexpected_take(&walk->under_way, from, to, message);
    here->held -= is_there;
    return is_there;
}

/* Messages in the table are older than one that is stored with the rank later. */
static gy_status add_message(walk_run *walk, int from, int to, const gy_plan_message *message)
{
    rank_walk *there = &walk->all[to];
    if (there->held == 0 && there->came_from < 0) {
        there->came_from = from;
        there->came = *message;
        return GY_OK;
    }
    GY_TRY(gy_plan_unexpected_add(&walk->under_way, from, to, message));
    there->held++;
    return GY_OK;
}

static gy_status take_message(walk_run *walk, int rank, const gy_step *step,
                              gy_plan_message *message)
{
    if (!remove_message(walk, step->peer, rank, message)) {
        walk->all[rank].awaited = step->peer;
        return GY_AGAIN;
    }
    end_send(walk, step->peer, message->index);
    const gy_blocks *got = &step->to;
    if (message->first != got->first || message->run != got->run ||
        message->chunk != step->chunk) {
        return gy_plan_wrong(walk->plan, rank, walk->all[rank].next,
                             "rank %d step %u sends %d blocks from %d with tag %u, expected %d "
                             "from %d with tag %u",
                             step->peer, message->index, message->run, message->first,
                             message->chunk, got->run, got->first, step->chunk);
    }
    return GY_OK;
}

/* Called after the visit, which may have changed the message. */
static gy_status put_message(walk_run *walk, int rank, int peer, const gy_plan_message *message)
{
    rank_walk *here = &walk->all[rank];
    GY_TRY(add_message(walk, rank, peer, message));
    if (here->open_first > here->open_count / 2) { /* at least half of the entries are free */
        here->open_count -= here->open_first;
        memmove(here->open, &here->open[here->open_first],
                here->open_count * sizeof(*here->open));
        here->open_first = 0;
    }
    GY_TRY(GY_GROW("plan.walk", here->open, here->open_capacity, here->open_count + 1));
    here->open[here->open_count++] = (open_send){.index = message->index};
    if (walk->all[peer].awaited == rank) {
        wake(walk, peer);
    }
    return GY_OK;
}

static gy_status try_wait(walk_run *walk, int rank, const gy_step *step)
{
    int first = step->peer == GY_EVERY ? 0 : step->peer;
    int end = step->peer == GY_EVERY ? walk->ranks : step->peer + 1;
    for (int peer = first; peer < end; peer++) {
        if (peer != rank && walk->all[peer].mark < step->mark) {
            walk->posts_awaited += !walk->all[rank].waits_for_post;
            walk->all[rank].waits_for_post = true;
            return GY_AGAIN;
        }
    }
    return GY_OK;
}

static gy_status do_post(walk_run *walk, int rank, uint32_t mark)
{
    if (mark <= walk->all[rank].mark) {
        return gy_plan_wrong(walk->plan, rank, walk->all[rank].next,
                             "mark %u was posted before", walk->all[rank].mark);
    }
    walk->all[rank].mark = mark;
    for (int peer = 0; walk->posts_awaited > 0 && peer < walk->ranks; peer++) {
        if (walk->all[peer].waits_for_post) {
            walk->all[peer].waits_for_post = false;
            walk->posts_awaited--;
            wake(walk, peer);
        }
    }
    return GY_OK;
}

static gy_status check_peer(const walk_run *walk, int rank, const gy_step *step)
{
    if (step->kind == GY_STEP_WAIT && step->peer == GY_EVERY) {
        return GY_OK;
    }
    if (step->peer < 0 || step->peer >= walk->ranks || step->peer == rank) {
        return gy_plan_wrong(walk->plan, rank, walk->all[rank].next,
                             "no such peer, ranks are 0 to %d", walk->ranks - 1);
    }
    return GY_OK;
}

/* GY_OK: the step was executed; GY_AGAIN: it must wait. */
static gy_status try_step(walk_run *walk, int rank, const gy_step *step)
{
    uint32_t index = walk->all[rank].next;
    gy_plan_message message = {.index = index};
    gy_status status = look_after(walk, rank, step);
    if (status != GY_OK) {
        return status;
    }
    switch (step->kind) {
    case GY_STEP_SEND:
        GY_TRY(check_peer(walk, rank, step));
        message.first = step->a.first;
        message.run = step->a.run;
        message.chunk = step->chunk;
        break;
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        GY_TRY(check_peer(walk, rank, step));
        status = take_message(walk, rank, step, &message);
        break;
    case GY_STEP_POST:
        status = do_post(walk, rank, step->mark);
        break;
    case GY_STEP_WAIT:
        GY_TRY(check_peer(walk, rank, step));
        status = try_wait(walk, rank, step);
        break;
    case GY_STEP_COPY:
    case GY_STEP_REDUCE:
        break;
    case GY_STEP_CLAIM:
    case GY_STEP_CLAIMED:
    case GY_STEP_COUNT:
    default:
        return gy_plan_wrong(walk->plan, rank, index, "only runners take steps of that kind");
    }
    if (status != GY_OK) {
        return status;
    }
    walk->visitor->index = index;
    GY_TRY(walk->visitor->visit(walk->visitor, rank, step, &message));
    if (step->kind == GY_STEP_SEND) {
        GY_TRY(put_message(walk, rank, step->peer, &message));
    }
    walk->all[rank].next++;
    return GY_OK;
}

static gy_status check_end(walk_run *walk)
{
    for (int rank = 0; rank < walk->ranks; rank++) {
        const gy_step *step = NULL;
        GY_TRY(step_at(walk, rank, &step));
        if (step != NULL) {
            return gy_plan_wrong(walk->plan, rank, walk->all[rank].next,
                                 "deadlock: what it waits for never comes");
        }
    }
    for (int rank = 0; rank < walk->ranks; rank++) {
        const rank_walk *here = &walk->all[rank];
        if (here->came_from >= 0) {
            return gy_plan_wrong(walk->plan, here->came_from, here->came.index,
                                 "no rank receives it");
        }
    }
    const gy_plan_unexpected *left = gy_plan_unexpected_any(&walk->under_way);
    if (left == NULL) {
        return GY_OK;
    }
    const gy_plan_message *message =
        gy_plan_unexpected_find(&walk->under_way, left->from, left->to);
    return gy_plan_wrong(walk->plan, left->from, message->index, "no rank receives it");
}

/* Is the step a receive that ends later than another rank can act? Then queue the rank for
 * that time. */
static bool is_too_early(walk_run *walk, int rank, const gy_step *step)
{
    bool is_receive = step->kind == GY_STEP_RECV || step->kind == GY_STEP_RECV_REDUCE;
    if (walk->visitor->when == NULL || !is_receive) {
        return false;
    }
    const gy_plan_message *first =
        walk->all[rank].is_queued ? NULL : find_message(walk, step->peer, rank);
    if (first == NULL || (walk->woken_count == 0 && walk->ready_count == 0)) {
        return false;
    }
    double at = walk->visitor->when(walk->visitor, rank, first);
    double earliest = walk->woken_count > 0 ? 0 : walk->times[walk->ready[0]].at;
    if (earliest >= at) {
        return false;
    }
    queue_rank(walk, rank, at);
    return true;
}

static gy_status walk_rank(walk_run *walk, int rank)
{
    gy_status status = GY_OK;
    while (status == GY_OK) {
        const gy_step *step = NULL;
        GY_TRY(step_at(walk, rank, &step));
        if (step == NULL || is_too_early(walk, rank, step)) {
            return GY_OK;
        }
        status = try_step(walk, rank, step);
    }
    return status == GY_AGAIN ? GY_OK : status;
}

static gy_status walk_all(walk_run *walk)
{
    while (walk->woken_count > 0 || walk->ready_count > 0) {
        GY_TRY(walk_rank(walk, next_rank(walk)));
    }
    return check_end(walk);
}

gy_status gy_plan_walk(gy_plan *plan, gy_visitor *visitor)
{
    walk_run walk = {.plan = plan,
                     .visitor = visitor,
                     .ranks = plan->request.ranks,
                     .under_way = {.bytes = sizeof(gy_plan_message)}};
    gy_status status = walk_init(&walk);
    if (status == GY_OK) {
        status = walk_all(&walk);
    }
    walk_fini(&walk);
    return status;
}
