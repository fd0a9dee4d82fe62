/*
 * Plays lists on a virtual clock: each rank goes on until it waits for a message, then another
 * one does. Whoever waits is woken by the rank that it waits for, so each action is looked at
 * once for each time that it waits. In which order ranks go on changes no time: what a rank
 * does depends on its own list and on when messages came.
 */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include <math.h>

/* From one rank to another. */
typedef struct link_state {
    double free_s; /* when the last message has passed */
    int sent, taken;
} link_state;

typedef struct player {
    gy_pipe_play *play;
    const gy_pipe_schedule *schedule;
    link_state *links; /* (ranks, ranks) from, to */
    double *arrival_s; /* (2, stages, micros) of F and B messages to a stage; NAN: not sent */
    size_t *next;      /* (ranks) action */
    size_t *offsets;   /* (ranks) of the rank's first span */
    double *now_s;     /* (ranks) */
    int32_t *queue;    /* (ranks) that may go on, a circle */
    bool *is_queued;   /* (ranks) */
    int head, queued;
} player;

static const gy_pipe_cost *cost_of(const gy_pipe_play *play, int stage)
{
    return &play->costs[play->cost_count == 1 ? 0 : stage];
}

static void push(player *at, int rank)
{
    if (!at->is_queued[rank]) {
        GY_ASSERT(at->queued < at->schedule->ranks);
        at->is_queued[rank] = true;
        at->queue[(at->head + at->queued++) % at->schedule->ranks] = rank;
    }
}

static link_state *link_of(player *at, int from, int to)
{
    GY_ASSERT(to >= 0 && to < at->schedule->ranks);
    return &at->links[(size_t)from * (size_t)at->schedule->ranks + (size_t)to];
}

/* When the message to `stage` arrives. */
static double *arrival_of(player *at, bool is_forward, int stage, int micro)
{
    size_t stages = (size_t)at->schedule->stages, micros = (size_t)at->schedule->micros;
    return &at->arrival_s[((is_forward ? 0 : stages) + (size_t)stage) * micros + (size_t)micro];
}

/* Begin to send; false: no buffer is free. */
static bool send(player *at, int rank, const gy_pipe_action *action)
{
    link_state *link = link_of(at, rank, action->peer);
    int on_way = link->sent - link->taken;
    if (at->play->buffers > 0 && on_way >= at->play->buffers) {
        return false;
    }
    int to = gy_pipe_neighbour((gy_pipe_kind)action->kind, action->stage);
    double begin = fmax(at->now_s[rank], link->free_s);
    link->free_s = begin + cost_of(at->play, action->stage)->send;
    link->sent++;
    *arrival_of(at, action->kind == GY_PIPE_SEND_F, to, action->micro) = link->free_s;
    push(at, action->peer);
    return true;
}

/* Wait until the message has come; false: it has not been sent. */
static bool receive(player *at, int rank, const gy_pipe_action *action)
{
    double arrival =
        *arrival_of(at, action->kind == GY_PIPE_RECV_F, action->stage, action->micro);
    if (isnan(arrival)) {
        return false;
    }
    link_of(at, action->peer, rank)->taken++;
    at->now_s[rank] = fmax(at->now_s[rank], arrival);
    push(at, action->peer);
    return true;
}

double gy_pipe_seconds(const gy_pipe_cost *cost, int kind)
{
    return kind == GY_PIPE_FORWARD           ? cost->forward
           : kind == GY_PIPE_BACKWARD_INPUT  ? cost->input
           : kind == GY_PIPE_BACKWARD_WEIGHT ? cost->weight
           : kind == GY_PIPE_BACKWARD        ? cost->input + cost->weight
                                             : 0;
}

/* One action; false: the rank waits. */
static bool step(player *at, int rank, const gy_pipe_action *action)
{
    if (gy_pipe_is_transfer(action->kind)) {
        return gy_pipe_is_send(action->kind) ? send(at, rank, action)
                                             : receive(at, rank, action);
    }
    at->now_s[rank] += gy_pipe_seconds(cost_of(at->play, action->stage), action->kind);
    return true;
}

static void go_on(player *at, int rank)
{
    const gy_pipe_list *list = &at->schedule->lists[rank];
    while (at->next[rank] < list->count) {
        size_t i = at->next[rank];
        double begin = at->now_s[rank];
        if (!step(at, rank, &list->actions[i])) {
            return;
        }
        if (at->play->spans != NULL) {
            at->play->spans[at->offsets[rank] + i] = (gy_pipe_span){begin, at->now_s[rank]};
        }
        at->next[rank]++;
    }
}

/* The first rank that has not ended. */
static void find_stuck(player *at)
{
    at->play->stuck_rank = -1;
    for (int rank = at->schedule->ranks - 1; rank >= 0; rank--) {
        if (at->next[rank] < at->schedule->lists[rank].count) {
            at->play->stuck_rank = rank;
            at->play->stuck_index = at->next[rank];
        }
    }
}

static void run(player *at)
{
    size_t offset = 0;
    for (int rank = 0; rank < at->schedule->ranks; rank++) {
        at->offsets[rank] = offset;
        offset += at->schedule->lists[rank].count;
        push(at, rank);
    }
    size_t messages = 2 * (size_t)at->schedule->stages * (size_t)at->schedule->micros;
    for (size_t i = 0; i < messages; i++) {
        at->arrival_s[i] = NAN;
    }
    while (at->queued > 0) {
        int rank = at->queue[at->head];
        at->head = (at->head + 1) % at->schedule->ranks;
        at->queued--;
        at->is_queued[rank] = false;
        go_on(at, rank);
    }
    find_stuck(at);
}

gy_status gy_pipe_run(gy_pipe_play *play)
{
    const gy_pipe_schedule *schedule = play->schedule;
    size_t ranks = (size_t)schedule->ranks;
    size_t pairs = (size_t)schedule->stages * (size_t)schedule->micros;
    player at = {.play = play, .schedule = schedule};
    GY_ASSERT(play->cost_count == 1 || play->cost_count == schedule->stages);
    at.links = gy_alloc_zero("pipe.links", ranks * ranks, sizeof(*at.links));
    at.arrival_s = gy_alloc("pipe.arrivals", 2 * pairs * sizeof(*at.arrival_s));
    at.next = gy_alloc_zero("pipe.next", ranks, sizeof(*at.next));
    at.offsets = gy_alloc_zero("pipe.offsets", ranks, sizeof(*at.offsets));
    at.now_s = gy_alloc_zero("pipe.now", ranks, sizeof(*at.now_s));
    at.queue = gy_alloc_zero("pipe.queue", ranks, sizeof(*at.queue));
    at.is_queued = gy_alloc_zero("pipe.queued", ranks, sizeof(*at.is_queued));
    bool is_whole = at.links != NULL && at.arrival_s != NULL && at.next != NULL &&
                    at.offsets != NULL && at.now_s != NULL && at.queue != NULL &&
                    at.is_queued != NULL;
    if (is_whole) {
        run(&at);
    }
    gy_free(at.links);
    gy_free(at.arrival_s);
    gy_free(at.next);
    gy_free(at.offsets);
    gy_free(at.now_s);
    gy_free(at.queue);
    gy_free(at.is_queued);
    return is_whole ? GY_OK : GY_NOMEM;
}
