/*
 * Runs the steps of all ranks against each other, without data: which step can follow which. A
 * send is matched by the first receive from its rank; it ends only then, the hardest case for
 * deadlocks.
 */
#include "plan/plan_priv.h"

#include "base/base.h"

#include <string.h>

/* What one rank has sent to one other and what of it was taken, as indexes of steps. */
typedef struct pair_state {
    uint32_t *sends;
    size_t count, capacity, taken;
} pair_state;

typedef struct walk_run {
    const gy_plan *plan;
    gy_visitor *visitor;
    int ranks;
    uint32_t *next;       /* (p) the step each rank is at */
    uint32_t *mark;       /* (p) last posted */
    pair_state *channels; /* (p, p) from, to */
    bool **is_sent;       /* (p, steps) the send there has ended */
} walk_run;

static pair_state *channel_between(walk_run *walk, int from, int to)
{
    return &walk->channels[(size_t)from * (size_t)walk->ranks + (size_t)to];
}

static void walk_fini(walk_run *walk)
{
    size_t pairs = (size_t)walk->ranks * (size_t)walk->ranks;
    for (size_t i = 0; walk->channels != NULL && i < pairs; i++) {
        gy_free(walk->channels[i].sends);
    }
    for (int rank = 0; walk->is_sent != NULL && rank < walk->ranks; rank++) {
        gy_free(walk->is_sent[rank]);
    }
    gy_free(walk->channels);
    gy_free(walk->is_sent);
    gy_free(walk->next);
    gy_free(walk->mark);
}

static gy_status walk_init(walk_run *walk)
{
    size_t ranks = (size_t)walk->ranks;
    walk->next = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->next));
    walk->mark = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->mark));
    walk->channels = gy_alloc_zero("plan.walk", ranks * ranks, sizeof(*walk->channels));
    walk->is_sent = gy_alloc_zero("plan.walk", ranks, sizeof(*walk->is_sent));
    if (walk->next == NULL || walk->mark == NULL || walk->channels == NULL ||
        walk->is_sent == NULL) {
        return GY_NOMEM;
    }
    for (int rank = 0; rank < walk->ranks; rank++) {
        walk->is_sent[rank] = gy_alloc_zero("plan.walk", walk->plan->ranks[rank].count + 1, 1);
        if (walk->is_sent[rank] == NULL) {
            return GY_NOMEM;
        }
    }
    return GY_OK;
}

/* GY_OK: the step's sends have ended; GY_AGAIN: not yet. */
static gy_status look_after(const walk_run *walk, int rank, uint32_t index)
{
    const gy_steps *steps = &walk->plan->ranks[rank];
    const gy_step *step = &steps->items[index];
    for (int i = 0; i < 2; i++) {
        uint32_t after = step->after[i];
        if (after == 0) {
            continue;
        }
        if (after - 1 >= index || steps->items[after - 1].kind != GY_STEP_SEND) {
            return gy_plan_wrong(walk->plan, rank, index, "step %u is no send before it",
                                 after - 1);
        }
        if (!walk->is_sent[rank][after - 1]) {
            return GY_AGAIN;
        }
    }
    return GY_OK;
}

static gy_status take_message(walk_run *walk, int rank, uint32_t index, uint32_t *send)
{
    const gy_step *step = &walk->plan->ranks[rank].items[index];
    pair_state *from = channel_between(walk, step->peer, rank);
    if (from->taken == from->count) {
        return GY_AGAIN;
    }
    *send = from->sends[from->taken++];
    walk->is_sent[step->peer][*send] = true;
    const gy_step *sent = &walk->plan->ranks[step->peer].items[*send];
    const gy_blocks *got = &step->to;
    if (sent->a.first != got->first || sent->a.run != got->run || sent->chunk != step->chunk) {
        return gy_plan_wrong(walk->plan, rank, index,
                             "rank %d step %u sends %d blocks from %d with tag %u, expected %d "
                             "from %d with tag %u",
                             step->peer, *send, sent->a.run, sent->a.first, sent->chunk,
                             got->run, got->first, step->chunk);
    }
    return GY_OK;
}

static gy_status try_send(walk_run *walk, int rank, uint32_t index)
{
    pair_state *to = channel_between(walk, rank, walk->plan->ranks[rank].items[index].peer);
    void *sends = to->sends;
    GY_TRY(gy_reserve("plan.walk", &sends, &to->capacity, to->count + 1, sizeof(*to->sends)));
    to->sends = sends;
    to->sends[to->count++] = index;
    return GY_OK;
}

static gy_status try_wait(const walk_run *walk, int rank, const gy_step *step)
{
    for (int peer = 0; peer < walk->ranks; peer++) {
        bool is_meant = step->peer == GY_EVERY ? peer != rank : peer == step->peer;
        if (is_meant && walk->mark[peer] < step->mark) {
            return GY_AGAIN;
        }
    }
    return GY_OK;
}

static gy_status check_peer(const walk_run *walk, int rank, uint32_t index)
{
    const gy_step *step = &walk->plan->ranks[rank].items[index];
    if (step->kind == GY_STEP_WAIT && step->peer == GY_EVERY) {
        return GY_OK;
    }
    if (step->peer < 0 || step->peer >= walk->ranks || step->peer == rank) {
        return gy_plan_wrong(walk->plan, rank, index, "no such peer, ranks are 0 to %d",
                             walk->ranks - 1);
    }
    return GY_OK;
}

/* GY_OK: the step was taken; GY_AGAIN: it must wait. */
static gy_status try_step(walk_run *walk, int rank)
{
    uint32_t index = walk->next[rank], send = 0;
    const gy_step *step = &walk->plan->ranks[rank].items[index];
    gy_status status = look_after(walk, rank, index);
    if (status != GY_OK) {
        return status;
    }
    switch (step->kind) {
    case GY_STEP_SEND:
        GY_TRY(check_peer(walk, rank, index));
        status = try_send(walk, rank, index);
        break;
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        GY_TRY(check_peer(walk, rank, index));
        status = take_message(walk, rank, index, &send);
        break;
    case GY_STEP_POST:
        if (step->mark <= walk->mark[rank]) {
            return gy_plan_wrong(walk->plan, rank, index, "mark %u was posted before",
                                 walk->mark[rank]);
        }
        walk->mark[rank] = step->mark;
        break;
    case GY_STEP_WAIT:
        GY_TRY(check_peer(walk, rank, index));
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
    walk->next[rank]++;
    return walk->visitor->visit(walk->visitor, rank, index, send);
}

static gy_status check_end(walk_run *walk)
{
    for (int rank = 0; rank < walk->ranks; rank++) {
        if (walk->next[rank] < walk->plan->ranks[rank].count) {
            return gy_plan_wrong(walk->plan, rank, walk->next[rank],
                                 "deadlock: what it waits for never comes");
        }
    }
    for (int from = 0; from < walk->ranks; from++) {
        for (int to = 0; to < walk->ranks; to++) {
            pair_state *channel = channel_between(walk, from, to);
            if (channel->taken < channel->count) {
                return gy_plan_wrong(walk->plan, from, channel->sends[channel->taken],
                                     "nobody receives it");
            }
        }
    }
    return GY_OK;
}

static gy_status walk_all(walk_run *walk)
{
    bool has_moved = true;
    while (has_moved) {
        has_moved = false;
        for (int rank = 0; rank < walk->ranks; rank++) {
            while (walk->next[rank] < walk->plan->ranks[rank].count) {
                gy_status status = try_step(walk, rank);
                GY_TRY(status);
                if (status == GY_AGAIN) {
                    break;
                }
                has_moved = true;
            }
        }
    }
    return check_end(walk);
}

gy_status gy_plan_walk(const gy_plan *plan, gy_visitor *visitor)
{
    walk_run walk = {.plan = plan, .visitor = visitor, .ranks = plan->request.ranks};
    gy_status status = walk_init(&walk);
    if (status == GY_OK) {
        status = walk_all(&walk);
    }
    walk_fini(&walk);
    return status;
}
