/*
 * Runs the steps of all ranks against each other, without data: which step can follow which. A
 * message is taken by the first receive from its rank; its send ends only then, the hardest
 * case for deadlocks. A rank that cannot go on sleeps until something happens that it may wait
 * for.
 */
#include "plan/agenda_priv.h"
#include "plan/plan_priv.h"

#include "base/base.h"

#include <string.h>

typedef struct rank_walk {
    uint32_t next; /* the step it is at */
    uint32_t mark; /* last posted */
    bool is_queued, waits_for_post;
    uint32_t *open; /* sends that have not ended */
    size_t open_count, open_capacity;
} rank_walk;

/* A rank that may go on; the first of them is the one with the lowest (at, order). */
typedef struct ready_rank {
    double at;
    uint64_t order;
    int32_t rank;
} ready_rank;

typedef struct walk_run {
    gy_plan *plan;
    gy_visitor *visitor;
    int ranks;
    rank_walk *all;
    gy_held_table under_way; /* gy_message */
    ready_rank *ready;       /* (p) a binary heap */
    int ready_count, posts_awaited;
    uint64_t orders;
} walk_run;

static void walk_fini(walk_run *walk)
{
    for (int rank = 0; walk->all != NULL && rank < walk->ranks; rank++) {
        gy_free(walk->all[rank].open);
    }
    gy_held_fini(&walk->under_way);
    gy_free(walk->all);
    gy_free(walk->ready);
}

static bool is_before(const ready_rank *a, const ready_rank *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void queue_rank(walk_run *walk, int rank, double at)
{
    const ready_rank added = {.at = at, .order = walk->orders++, .rank = rank};
    int place = walk->ready_count++;
    while (place > 0 && is_before(&added, &walk->ready[(place - 1) / 2])) {
        walk->ready[place] = walk->ready[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    walk->ready[place] = added;
    walk->all[rank].is_queued = true;
}

static int next_rank(walk_run *walk)
{
    int rank = walk->ready[0].rank, place = 0;
    const ready_rank last = walk->ready[--walk->ready_count];
    for (;;) {
        int child = 2 * place + 1;
        if (child + 1 < walk->ready_count &&
            is_before(&walk->ready[child + 1], &walk->ready[child])) {
            child++;
        }
        if (child >= walk->ready_count || !is_before(&walk->ready[child], &last)) {
            break;
        }
        walk->ready[place] = walk->ready[child];
        place = child;
    }
    walk->ready[place] = last;
    walk->all[rank].is_queued = false;
    return rank;
}

static void wake(walk_run *walk, int rank)
{
    if (!walk->all[rank].is_queued) {
        queue_rank(walk, rank, 0);
    }
}

static gy_status walk_init(walk_run *walk)
{
    size_t ranks = (size_t)walk->ranks;
    walk->all = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->all));
    walk->ready = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->ready));
    if (walk->all == NULL || walk->ready == NULL) {
        return GY_NOMEM;
    }
    for (int rank = 0; rank < walk->ranks; rank++) {
        wake(walk, rank);
    }
    return GY_OK;
}

/* The step a rank is at; NULL: it has ended. */
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

static bool is_open(const rank_walk *here, uint32_t send)
{
    for (size_t i = 0; i < here->open_count; i++) {
        if (here->open[i] == send) {
            return true;
        }
    }
    return false;
}

/* GY_OK: the step's sends have ended; GY_AGAIN: not yet. */
static gy_status look_after(const walk_run *walk, int rank, const gy_step *step)
{
    const gy_steps *steps = &walk->plan->ranks[rank];
    const rank_walk *here = &walk->all[rank];
    for (int i = 0; i < 2; i++) {
        uint32_t after = step->after[i], first = steps->sink.first;
        if (after == 0) {
            continue;
        }
        bool is_right = after - 1 < here->next;
        if (is_right && after - 1 >= first) { /* else no longer in the window */
            is_right = steps->items[after - 1 - first].kind == GY_STEP_SEND;
        }
        if (!is_right) {
            return gy_plan_wrong(walk->plan, rank, here->next, "step %u is no send before it",
                                 after - 1);
        }
        if (is_open(here, after - 1)) {
            return GY_AGAIN;
        }
    }
    return GY_OK;
}

static void end_send(walk_run *walk, int rank, uint32_t send)
{
    rank_walk *here = &walk->all[rank];
    for (size_t i = 0; i < here->open_count; i++) {
        if (here->open[i] == send) {
            here->open[i] = here->open[--here->open_count];
            break;
        }
    }
    wake(walk, rank);
}

static gy_status take_message(walk_run *walk, int rank, const gy_step *step,
                              gy_message *message)
{
    if (!gy_held_take(&walk->under_way, step->peer, rank, message)) {
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

/* After the visit, which noted something in the message. */
static gy_status put_message(walk_run *walk, int rank, int peer, const gy_message *message)
{
    rank_walk *here = &walk->all[rank];
    void *open = here->open;
    GY_TRY(gy_held_add(&walk->under_way, rank, peer, message));
    GY_TRY(gy_reserve("plan.walk", &open, &here->open_capacity, here->open_count + 1,
                      sizeof(*here->open)));
    here->open = open;
    here->open[here->open_count++] = message->index;
    wake(walk, peer);
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

/* GY_OK: the step was taken; GY_AGAIN: it must wait. */
static gy_status try_step(walk_run *walk, int rank, const gy_step *step)
{
    uint32_t index = walk->all[rank].next;
    gy_message message = {.index = index};
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
    case GY_STEP_COUNT:
    default:
        return gy_plan_wrong(walk->plan, rank, index, "unknown kind");
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
    const gy_held *left = gy_held_any(&walk->under_way);
    if (left == NULL) {
        return GY_OK;
    }
    const gy_message *message = gy_held_find(&walk->under_way, left->from, left->to);
    return gy_plan_wrong(walk->plan, left->from, message->index, "nobody receives it");
}

/* Is the step a receive that ends later than another rank may act? Then the rank is queued for
 * that time. */
static bool is_too_early(walk_run *walk, int rank, const gy_step *step)
{
    bool is_receive = step->kind == GY_STEP_RECV || step->kind == GY_STEP_RECV_REDUCE;
    if (walk->visitor->when == NULL || !is_receive) {
        return false;
    }
    const gy_message *first =
        walk->all[rank].is_queued ? NULL : gy_held_find(&walk->under_way, step->peer, rank);
    if (first == NULL || walk->ready_count == 0) {
        return false;
    }
    double at = walk->visitor->when(walk->visitor, rank, first);
    if (walk->ready[0].at >= at) {
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
    while (walk->ready_count > 0) {
        GY_TRY(walk_rank(walk, next_rank(walk)));
    }
    return check_end(walk);
}

gy_status gy_plan_walk(gy_plan *plan, gy_visitor *visitor)
{
    walk_run walk = {.plan = plan,
                     .visitor = visitor,
                     .ranks = plan->request.ranks,
                     .under_way = {.bytes = sizeof(gy_message)}};
    gy_status status = walk_init(&walk);
    if (status == GY_OK) {
        status = walk_all(&walk);
    }
    walk_fini(&walk);
    return status;
}
