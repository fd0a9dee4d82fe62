/*
 * What an exchange costs: the seconds that the plan model gives the best algorithm of the
 * operation. A plan's time is made of straight pieces in the bytes, so it is priced at powers
 * of four, each once, and read off between them.
 */
#include "graph/place/place_priv.h"

#include "coll/coll.h"
#include "plan/plan.h"

#include <math.h>

/* Ranks of one host: an estimate, not measured through the graph. It follows the figures for
 * allreduce over shared memory in the design: 64 KiB over two ranks took 7 to 15 us there, and
 * take 2 alpha + 64 KiB (beta + gamma / 2) = 12 us here. Fixed, because all ranks must decide
 * alike. */
static const gy_links host_links = {.alpha = 1e-6, .beta = 1e-10, .gamma = 1e-10};

enum {
    SMALLEST_BYTES = 64,
    RANKS_PRICED = 32 /* a ring has ranks^2 steps; with more, bytes a rank hardly change */
};

void gy_prices_init(gy_prices *prices, int ranks, const gy_links *links)
{
    GY_ASSERT(ranks >= 1);
    bool is_given = links->alpha > 0 || links->beta > 0 || links->gamma > 0;
    *prices = (gy_prices){.ranks = GY_MIN(ranks, RANKS_PRICED),
                          .links = is_given ? *links : host_links};
}

/* The cheapest plan of `operation` over a vector of `bytes` that nobody has to force. */
static gy_status price(gy_prices *prices, gy_operation operation, int64_t bytes, double *best)
{
    GY_ASSERT(bytes > 0 && prices->ranks > 1);
    *best = INFINITY;
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_plan_request request = {.operation = operation, .ranks = prices->ranks};
        gy_plan *plan = NULL;
        gy_plan_costs priced;
        if (gy_algorithms[i].operation != operation || !gy_coll_is_usual(&gy_algorithms[i])) {
            continue;
        }
        GY_TRY(gy_plan_new(&gy_algorithms[i], &request, &plan));
        gy_status status = gy_plan_cost_of(
            plan, &(gy_volume){.count = bytes, .element_bytes = 1}, &prices->links, &priced);
        gy_plan_free(plan);
        GY_TRY(status);
        GY_ASSERT(priced.time_s >= 0);
        *best = fmin(*best, priced.time_s);
    }
    return GY_OK;
}

static double at_point(gy_prices *prices, gy_operation operation, int point)
{
    GY_ASSERT(point >= 0 && point < GY_PRICE_POINTS);
    GY_ASSERT((int)operation >= 0 && operation < GY_OPERATION_COUNT);
    double *seconds = &prices->seconds[operation][point];
    if (*seconds == 0) { /* an exchange takes time */
        gy_status status =
            price(prices, operation, (int64_t)SMALLEST_BYTES << (2 * point), seconds);
        if (status < 0) {
            prices->status = status;
            *seconds = INFINITY;
        }
    }
    return *seconds;
}

double gy_price_exchange(gy_prices *prices, gy_operation operation, double bytes)
{
    int point = 0;
    double from = SMALLEST_BYTES;
    while (point < GY_PRICE_POINTS - 2 && from * 4 < bytes) {
        from *= 4;
        point++;
    }
    double low = at_point(prices, operation, point);
    double high = at_point(prices, operation, point + 1);
    GY_ASSERT(low >= 0 && high >= 0);
    if (prices->status < 0) {
        return INFINITY;
    }
    double share = fmax(0, (bytes - from) / (3 * from)); /* past the last point: on its line */
    return low + share * (high - low);
}

double gy_price_copy(const gy_prices *prices, double bytes)
{
    GY_ASSERT(prices->ranks >= 1);
    return bytes * prices->links.gamma;
}

double gy_place_price_step(gy_prices *prices, gy_placement from, gy_placement to, double bytes,
                           int ranks)
{
    GY_ASSERT(to.kind != GY_PARTIAL && ranks > 1);
    if (from.kind == GY_REPLICATE) {
        return gy_price_copy(prices, bytes / ranks);
    }
    if (from.kind == GY_PARTIAL) {
        return gy_price_exchange(prices,
                                 to.kind == GY_REPLICATE ? GY_OPERATION_ALLREDUCE
                                                         : GY_OPERATION_REDUCE_SCATTER,
                                 bytes);
    }
    return to.kind == GY_SHARD /* packed, exchanged, unpacked */
               ? gy_price_exchange(prices, GY_OPERATION_ALLTOALL, bytes / ranks) +
                     gy_price_copy(prices, 2 * bytes / ranks)
               : gy_price_exchange(prices, GY_OPERATION_ALLGATHER, bytes);
}
