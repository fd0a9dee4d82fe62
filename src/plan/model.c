/*
 * The model: a plan's costs from its steps. Time: each rank runs its steps one after another; a
 * message leaves when the rank's outgoing link is free, takes alpha + bytes * beta, and the
 * links at both ends are busy for bytes * beta; what peers read directly costs bytes * beta on
 * the reader, a post is seen alpha later.
 *
 * source: lecture C, the cost of reduce operations; Hockney's alpha-beta model; Thakur et al.
 * 2005
 */
#include "plan/plan_priv.h"

#include "base/base.h"

typedef struct moment {
    double at;
    int depth;
} moment;

typedef struct post {
    uint32_t mark;
    moment seen;
} post;

typedef struct rank_price {
    moment now, last; /* after its last step; when its last send has ended */
    double out_free, in_free;
    int out_depth, in_depth; /* a rank sends one message and takes one message a round */
    int64_t sent, received;
    uint8_t *gives;  /* (p) it got data from that rank */
    moment *arrives; /* (steps) of a send */
    post *posts;
    size_t post_count, post_capacity;
} rank_price;

typedef struct price_run {
    gy_visitor visitor;
    const gy_plan *plan;
    const gy_links *links;
    gy_layout layout;
    int64_t element_bytes;
    gy_arena arena;
    rank_price *ranks;
} price_run;

static int64_t bytes_of(const price_run *pricing, const gy_blocks *at)
{
    if (at->run <= 0) {
        return 0;
    }
    int64_t from = gy_layout_at(&pricing->layout, at->first);
    return (gy_layout_at(&pricing->layout, at->first + at->run) - from) *
           pricing->element_bytes;
}

static void visit_send(price_run *pricing, int rank, uint32_t index)
{
    rank_price *here = &pricing->ranks[rank];
    const gy_step *step = &pricing->plan->ranks[rank].items[index];
    double bytes = (double)bytes_of(pricing, &step->a);
    double start = GY_MAX(here->now.at, here->out_free);
    here->out_free = start + bytes * pricing->links->beta;
    here->sent += bytes_of(pricing, &step->a);
    here->out_depth = GY_MAX(here->now.depth, here->out_depth) + 1;
    here->arrives[index] =
        (moment){.at = here->out_free + pricing->links->alpha, .depth = here->out_depth};
    here->last.at = GY_MAX(here->last.at, here->out_free);
}

static void visit_recv(price_run *pricing, int rank, const gy_step *step, uint32_t send)
{
    rank_price *here = &pricing->ranks[rank];
    double bytes = (double)bytes_of(pricing, &step->to);
    moment came = pricing->ranks[step->peer].arrives[send];
    /* Messages of several ranks share the incoming link: each needs it for its bytes. */
    double end = GY_MAX(came.at, here->in_free + bytes * pricing->links->beta);
    here->in_free = end;
    here->received += bytes_of(pricing, &step->to);
    here->gives[step->peer] = bytes > 0;
    here->now.at = GY_MAX(here->now.at, end);
    here->in_depth = GY_MAX(came.depth, here->in_depth + 1);
    here->now.depth = GY_MAX(here->now.depth, here->in_depth);
    if (step->kind == GY_STEP_RECV_REDUCE) {
        here->now.at += bytes * pricing->links->gamma;
    }
}

/* Count what the step moves between ranks; returns the bytes it reads or writes elsewhere. */
static double move_direct(price_run *pricing, int rank, const gy_blocks *at, bool is_write)
{
    int ranks = pricing->plan->request.ranks;
    int64_t bytes = bytes_of(pricing, at), sum = 0;
    for (int other = 0; other < ranks && at->buffer != GY_BUFFER_WIRE; other++) {
        if (other == rank || (at->rank != GY_EVERY && at->rank != other)) {
            continue;
        }
        int from = is_write ? rank : other, to = is_write ? other : rank;
        pricing->ranks[from].sent += bytes;
        pricing->ranks[to].received += bytes;
        pricing->ranks[to].gives[from] = bytes > 0;
        sum += bytes;
    }
    return (double)sum;
}

static void visit_local(price_run *pricing, int rank, const gy_step *step)
{
    rank_price *here = &pricing->ranks[rank];
    double moved = move_direct(pricing, rank, &step->a, false);
    if (step->kind == GY_STEP_REDUCE) {
        moved += move_direct(pricing, rank, &step->b, false);
    }
    moved += move_direct(pricing, rank, &step->to, true);
    double bytes = (double)bytes_of(pricing, &step->to);
    here->now.at += moved * pricing->links->beta + bytes * pricing->links->gamma;
}

static gy_status visit_post(price_run *pricing, int rank, uint32_t mark)
{
    rank_price *here = &pricing->ranks[rank];
    void *posts = here->posts;
    GY_TRY(gy_reserve("plan.price", &posts, &here->post_capacity, here->post_count + 1,
                      sizeof(*here->posts)));
    here->posts = posts;
    here->posts[here->post_count++] = (post){
        .mark = mark,
        .seen = {.at = here->now.at + pricing->links->alpha, .depth = here->now.depth + 1}};
    return GY_OK;
}

static void visit_wait(price_run *pricing, int rank, const gy_step *step)
{
    rank_price *here = &pricing->ranks[rank];
    for (int peer = 0; peer < pricing->plan->request.ranks; peer++) {
        const rank_price *there = &pricing->ranks[peer];
        size_t i = 0;
        if (peer == rank || (step->peer != GY_EVERY && step->peer != peer)) {
            continue;
        }
        while (i < there->post_count && there->posts[i].mark < step->mark) {
            i++;
        }
        if (i < there->post_count) {
            here->now.at = GY_MAX(here->now.at, there->posts[i].seen.at);
            here->now.depth = GY_MAX(here->now.depth, there->posts[i].seen.depth);
        }
    }
}

static gy_status visit(gy_visitor *visitor, int rank, uint32_t index, uint32_t send)
{
    price_run *pricing = (struct price_run *)visitor; /* its first member */
    const gy_step *step = &pricing->plan->ranks[rank].items[index];
    switch (step->kind) {
    case GY_STEP_SEND:
        visit_send(pricing, rank, index);
        return GY_OK;
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        visit_recv(pricing, rank, step, send);
        return GY_OK;
    case GY_STEP_COPY:
    case GY_STEP_REDUCE:
        visit_local(pricing, rank, step);
        return GY_OK;
    case GY_STEP_POST:
        return visit_post(pricing, rank, step->mark);
    case GY_STEP_WAIT:
        visit_wait(pricing, rank, step);
        return GY_OK;
    case GY_STEP_COUNT:
    default:
        return GY_OK;
    }
}

static gy_status init_rank(price_run *pricing, int rank)
{
    rank_price *here = &pricing->ranks[rank];
    size_t steps = pricing->plan->ranks[rank].count;
    here->gives = gy_arena_alloc(&pricing->arena, (size_t)pricing->plan->request.ranks);
    here->arrives = gy_arena_alloc(&pricing->arena, (steps + 1) * sizeof(*here->arrives));
    return here->gives == NULL || here->arrives == NULL ? GY_NOMEM : GY_OK;
}

static gy_price sum_up(const price_run *pricing)
{
    gy_price price = {.rounds = 0};
    int ranks = pricing->plan->request.ranks;
    for (int rank = 0; rank < ranks; rank++) {
        const rank_price *here = &pricing->ranks[rank];
        int fan_in = 0;
        for (int other = 0; other < ranks; other++) {
            fan_in += here->gives[other];
        }
        price.rounds = GY_MAX(price.rounds, here->now.depth);
        price.sent_max = GY_MAX(price.sent_max, here->sent);
        price.received_max = GY_MAX(price.received_max, here->received);
        price.sent_sum += here->sent;
        price.fan_in_max = GY_MAX(price.fan_in_max, fan_in);
        price.seconds = GY_MAX(price.seconds, GY_MAX(here->now.at, here->last.at));
    }
    return price;
}

gy_status gy_plan_price(const gy_plan *plan, int64_t count, int64_t element_bytes,
                        const gy_links *links, gy_price *price)
{
    gy_cut cut = plan->algorithm->cut;
    int ranks = plan->request.ranks;
    price_run pricing = {
        .visitor = {.visit = visit},
        .plan = plan,
        .links = links,
        .element_bytes = element_bytes,
        .layout = {.count = count,
                   .parts = gy_cut_parts(cut, &plan->request),
                   .chunks = gy_cut_chunks(cut, &plan->request),
                   .part_unit = 1,
                   .chunk_unit = 1},
        .ranks = gy_alloc_zero("plan.price", (size_t)ranks, sizeof(rank_price)),
    };
    gy_status status = pricing.ranks == NULL ? GY_NOMEM : GY_OK;
    for (int rank = 0; rank < ranks && status == GY_OK; rank++) {
        status = init_rank(&pricing, rank);
    }
    if (status == GY_OK) {
        status = gy_plan_walk(plan, &pricing.visitor);
    }
    if (status == GY_OK) {
        *price = sum_up(&pricing);
    }
    for (int rank = 0; pricing.ranks != NULL && rank < ranks; rank++) {
        gy_free(pricing.ranks[rank].posts);
    }
    gy_free(pricing.ranks);
    gy_arena_free(&pricing.arena);
    return status;
}
