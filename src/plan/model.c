/*
 * The cost model: computes a plan's costs from its steps. Time: each rank executes its steps
 * one after another. A message leaves when the rank's outgoing link is free, takes alpha +
 * bytes * beta, and occupies the links at both ends for bytes * beta. A direct read of a
 * peer's memory costs the reader bytes * beta, and a post is visible alpha later.
 *
 * source: lecture C, the cost of reduce operations; Hockney's alpha-beta model; Thakur et al.
 * 2005
 */
#include "plan/plan_priv.h"

#include "base/base.h"

#include <string.h>

typedef struct rank_price {
    double now, out_free;
    gy_arrivals in; /* its incoming link */
    gy_depth depth;
    gy_open_sends open;
    int64_t sent, received;
    int32_t *givers; /* ranks from which it received data, sorted */
    size_t giver_count, giver_capacity;
    gy_posts posts;
} rank_price;

enum { LENGTHS_KEPT = 64 };

/* A cache of block lengths, because computing one takes divisions and most steps repeat one. */
typedef struct kept_length {
    int32_t first, run; /* run 0: empty */
    int64_t bytes;
} kept_length;

typedef struct price_run {
    gy_visitor visitor;
    const gy_plan *plan;
    const gy_links *links;
    gy_layout layout;
    int64_t element_bytes, slot_bytes;
    rank_price *ranks;
    int64_t *leaves, *enters; /* (hosts) bytes to and from other hosts */
    kept_length kept[LENGTHS_KEPT];
} price_run;

static int64_t bytes_of(price_run *pricing, const gy_blocks *at)
{
    if (at->run <= 0) {
        return 0;
    }
    if (at->first == GY_WHOLE) {
        return at->run * pricing->slot_bytes;
    }
    kept_length *kept =
        &pricing->kept[((uint32_t)at->first + (uint32_t)at->run * 7) % LENGTHS_KEPT];
    if (kept->first != at->first || kept->run != at->run) {
        int64_t length = gy_layout_length(&pricing->layout, at->first, at->run);
        *kept = (kept_length){
            .first = at->first, .run = at->run, .bytes = length * pricing->element_bytes};
    }
    return kept->bytes;
}

/* Seconds for a byte from rank to rank. */
static double beta_of(const price_run *pricing, int from, int to)
{
    return gy_plan_links_beta(pricing->links, pricing->plan->request.topology, from, to);
}

/* Count bytes that a rank sends to another. */
static void count_bytes(price_run *pricing, int from, int to, int64_t bytes)
{
    const gy_topology *topology = pricing->plan->request.topology;
    int left = gy_host_of(topology, from), entered = gy_host_of(topology, to);
    pricing->ranks[from].sent += bytes;
    pricing->ranks[to].received += bytes;
    if (left != entered) {
        pricing->leaves[left] += bytes;
        pricing->enters[entered] += bytes;
    }
}

/* Record that a rank received data from another. */
static gy_status note_giver(rank_price *here, int from)
{
    size_t low = 0, high = here->giver_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (here->givers[middle] < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < here->giver_count && here->givers[low] == from) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("plan.price", here->givers, here->giver_capacity, here->giver_count + 1));
    memmove(&here->givers[low + 1], &here->givers[low],
            (here->giver_count - low) * sizeof(*here->givers));
    here->givers[low] = from;
    here->giver_count++;
    return GY_OK;
}

static gy_status visit_send(price_run *pricing, int rank, const gy_step *step,
                            gy_plan_message *message)
{
    const gy_topology *topology = pricing->plan->request.topology;
    rank_price *here = &pricing->ranks[rank];
    double bytes = (double)bytes_of(pricing, &step->a);
    double start = GY_MAX(here->now, here->out_free);
    double busy = bytes * beta_of(pricing, rank, step->peer);
    double head = start + gy_plan_links_alpha(pricing->links, topology, rank, step->peer);
    here->out_free = start + busy;
    count_bytes(pricing, rank, step->peer, bytes_of(pricing, &step->a));
    gy_depth_send(&here->depth, message);
    /* Messages of several ranks share the incoming link, and each occupies it for its bytes. */
    GY_TRY(gy_arrivals_add(&pricing->ranks[step->peer].in, head, busy, message));
    return gy_open_sends_add(&here->open, pricing->visitor.index, here->out_free, here->now);
}

static gy_status visit_recv(price_run *pricing, int rank, const gy_step *step,
                            const gy_plan_message *came)
{
    rank_price *here = &pricing->ranks[rank];
    double bytes = (double)bytes_of(pricing, &step->to);
    double end = gy_arrivals_take(&here->in, came);
    here->now = GY_MAX(here->now, end);
    gy_depth_recv(&here->depth, came);
    if (step->kind == GY_STEP_RECV_REDUCE) {
        here->now += bytes * pricing->links->gamma;
    }
    return bytes > 0 ? note_giver(here, step->peer) : GY_OK;
}

/* Count the bytes that a step moves between ranks directly, and add the seconds for its remote
 * reads and writes. */
static gy_status move_direct(price_run *pricing, int rank, const gy_blocks *at, bool is_write,
                             double *seconds)
{
    int64_t bytes = bytes_of(pricing, at);
    int first = at->rank == GY_EVERY ? 0 : at->rank;
    int end = at->rank == GY_EVERY ? pricing->plan->request.ranks : at->rank + 1;
    for (int other = first; other < end && at->buffer != GY_BUFFER_WIRE && bytes > 0; other++) {
        if (other == rank) {
            continue;
        }
        int from = is_write ? rank : other, to = is_write ? other : rank;
        count_bytes(pricing, from, to, bytes);
        GY_TRY(note_giver(&pricing->ranks[to], from));
        *seconds += (double)bytes * beta_of(pricing, from, to);
    }
    return GY_OK;
}

static gy_status visit_local(price_run *pricing, int rank, const gy_step *step)
{
    rank_price *here = &pricing->ranks[rank];
    double seconds = 0;
    GY_TRY(move_direct(pricing, rank, &step->a, false, &seconds));
    if (step->kind == GY_STEP_REDUCE) {
        GY_TRY(move_direct(pricing, rank, &step->b, false, &seconds));
    }
    GY_TRY(move_direct(pricing, rank, &step->to, true, &seconds));
    double bytes = (double)bytes_of(pricing, &step->to);
    here->now += seconds + bytes * pricing->links->gamma;
    return GY_OK;
}

static gy_status visit_post(price_run *pricing, int rank, uint32_t mark)
{
    rank_price *here = &pricing->ranks[rank];
    return gy_posts_add(&here->posts, mark, here->now + pricing->links->alpha, &here->depth);
}

static void visit_wait(price_run *pricing, int rank, const gy_step *step)
{
    rank_price *here = &pricing->ranks[rank];
    int first = step->peer == GY_EVERY ? 0 : step->peer;
    int end = step->peer == GY_EVERY ? pricing->plan->request.ranks : step->peer + 1;
    for (int peer = first; peer < end; peer++) {
        const struct gy_post *post =
            peer == rank ? NULL : gy_posts_find(&pricing->ranks[peer].posts, step->mark);
        if (post != NULL) {
            here->now = GY_MAX(here->now, post->at);
            gy_depth_wait(&here->depth, &post->depth);
        }
    }
}

static gy_status visit(gy_visitor *visitor, int rank, const gy_step *step,
                       gy_plan_message *message)
{
    price_run *pricing = (struct price_run *)visitor; /* its first member */
    rank_price *here = &pricing->ranks[rank];
    for (int i = 0; i < 2; i++) {
        here->now = GY_MAX(here->now, gy_open_sends_end(&here->open, step->after[i]));
    }
    switch (step->kind) {
    case GY_STEP_SEND:
        return visit_send(pricing, rank, step, message);
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        return visit_recv(pricing, rank, step, message);
    case GY_STEP_COPY:
    case GY_STEP_REDUCE:
        return visit_local(pricing, rank, step);
    case GY_STEP_POST:
        return visit_post(pricing, rank, step->mark);
    case GY_STEP_WAIT:
        visit_wait(pricing, rank, step);
        return GY_OK;
    case GY_STEP_CLAIM:
    case GY_STEP_CLAIMED:
    case GY_STEP_COUNT:
    default:
        return GY_OK;
    }
}

static double when(const gy_visitor *visitor, int rank, const gy_plan_message *message)
{
    const price_run *pricing = (const struct price_run *)visitor; /* its first member */
    return gy_arrivals_end(&pricing->ranks[rank].in, message);
}

static gy_plan_costs sum_up(const price_run *pricing)
{
    gy_plan_costs price = {.rounds = 0};
    for (int rank = 0; rank < pricing->plan->request.ranks; rank++) {
        const rank_price *here = &pricing->ranks[rank];
        price.rounds = GY_MAX(price.rounds, here->depth.round);
        price.depth = GY_MAX(price.depth, here->depth.chain);
        price.sent_max = GY_MAX(price.sent_max, here->sent);
        price.received_max = GY_MAX(price.received_max, here->received);
        price.sent_sum += here->sent;
        price.fan_in_max = GY_MAX(price.fan_in_max, (int)here->giver_count);
        price.time_s = GY_MAX(price.time_s, GY_MAX(here->now, here->out_free));
    }
    const gy_topology *topology = pricing->plan->request.topology;
    for (int host = 0; topology != NULL && host < topology->hosts; host++) {
        price.across_sum += pricing->leaves[host];
        price.across_max =
            GY_MAX(price.across_max, GY_MAX(pricing->leaves[host], pricing->enters[host]));
    }
    return price;
}

gy_status gy_plan_cost_of(gy_plan *plan, const gy_volume *volume, const gy_links *links,
                          gy_plan_costs *price)
{
    gy_cut cut = plan->algorithm->cut;
    int ranks = plan->request.ranks;
    price_run pricing = {
        .visitor = {.visit = visit, .when = when},
        .plan = plan,
        .links = links,
        .element_bytes = volume->element_bytes,
        .layout = {.count = volume->count,
                   .parts = gy_cut_parts(cut, &plan->request),
                   .chunks = gy_cut_chunks(cut, &plan->request),
                   .part_unit = 1,
                   .chunk_unit = 1,
                   .counts = volume->counts},
        .ranks = gy_alloc_zero("plan.price", (size_t)ranks, sizeof(rank_price)),
    };
    const gy_topology *topology = plan->request.topology;
    size_t hosts = topology == NULL ? 1 : (size_t)topology->hosts;
    pricing.leaves = gy_alloc_zero("plan.price", 2 * hosts, sizeof(*pricing.leaves));
    pricing.enters = pricing.leaves + hosts;
    pricing.slot_bytes = gy_layout_longest(&pricing.layout) * volume->element_bytes;
    bool has_room = pricing.ranks != NULL && pricing.leaves != NULL;
    gy_status status = has_room ? GY_OK : GY_NOMEM;
    if (status == GY_OK) {
        status = gy_plan_walk(plan, &pricing.visitor);
    }
    if (status == GY_OK) {
        *price = sum_up(&pricing);
    }
    for (int rank = 0; pricing.ranks != NULL && rank < ranks; rank++) {
        gy_free(pricing.ranks[rank].posts.items);
        gy_free(pricing.ranks[rank].givers);
        gy_free(pricing.ranks[rank].open.items);
        gy_free(pricing.ranks[rank].in.items);
    }
    gy_free(pricing.ranks);
    gy_free(pricing.leaves);
    return status;
}
