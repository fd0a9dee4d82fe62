/*
 * The model's choice: it prices every possible algorithm on the site's links and takes the
 * cheapest. Prices are computed at 1.5 times a power of two bytes, up to one leg. They are
 * cached for all communicators of the process, as the results of a pure function.
 */
#include "coll/coll_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The share of alpha for which a message occupies its sender and its receiver. */
#define OVERHEAD 0.25

enum { STEPS_PRICED = 1 << 16, CANDIDATES = 48, CACHED = 256 };

typedef struct cached_pick {
    uint64_t key; /* 0: free */
    gy_pick pick;
} cached_pick;

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static cached_pick cache[CACHED];

static bool is_weighted(const gy_algorithm *row)
{
    return strncmp(row->name, "weighted", strlen("weighted")) == 0;
}

/* Adds hierarchies: the tree or the flat algorithm inside hosts, any algorithm across them. */
static int add_hierarchies(const gy_site *site, const gy_algorithm *row, gy_pick *picks,
                           int most)
{
    GY_ASSERT(most >= 0);
    static const char *const inside[] = {"tree", "flat"};
    int count = 0;
    if (site->hosts.hosts == site->ranks) {
        return 0; /* every host has one rank */
    }
    if (row->operation == GY_OPERATION_BARRIER) {
        picks[0] = (gy_pick){.row = row};
        return most > 0;
    }
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *outer = &gy_algorithms[i];
        bool is_fit = outer->operation == row->operation && outer->need == GY_NEED_MESSAGES &&
                      outer->parameter == GY_PARAMETER_NONE && !is_weighted(outer);
        for (size_t k = 0; k < GY_COUNT(inside) && is_fit && count < most; k++) {
            picks[count] = (gy_pick){.row = row};
            snprintf(picks[count++].parameter, GY_PLAN_PARAMETER, "%s+%s", inside[k],
                     outer->name);
        }
    }
    GY_ASSERT(count <= most);
    return count;
}

int gy_site_candidates(const gy_site *site, const gy_need_of *need, gy_pick *picks, int most)
{
    int count = 0;
    for (size_t i = 0; i < gy_algorithm_count && count < most; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        bool is_for_hosts = row->parameter == GY_PARAMETER_PAIR || is_weighted(row);
        if (!gy_site_allows(site, need, row) || (is_for_hosts && site->hosts.hosts == 1) ||
            (site->has_shared && !gy_row_keeps_bits(row))) {
            continue;
        }
        if (row->parameter == GY_PARAMETER_PAIR) {
            count += add_hierarchies(site, row, &picks[count], most - count);
        } else {
            picks[count++] = (gy_pick){.row = row};
        }
    }
    GY_ASSERT(count <= most);
    return count;
}

static gy_status never_take(gy_plan_sink *sink, const gy_step *step)
{
    (void)sink;
    (void)step;
    return GY_OK;
}

/* Tests whether the plan has more steps than pricing it is worth. */
static gy_status is_too_long(const gy_algorithm *row, const gy_plan_request *request,
                             bool *is_long)
{
    GY_ASSERT(request->ranks > 0 && is_long != NULL);
    const int some[] = {0, request->ranks - 1};
    uint32_t steps = 0;
    for (size_t i = 0; i < GY_COUNT(some); i++) {
        gy_plan_sink sink = {.take = never_take, .first = UINT32_MAX};
        GY_TRY(gy_plan_rank(row, request, some[i], &sink));
        steps = GY_MAX(steps, sink.count);
    }
    *is_long = (int64_t)steps * request->ranks > STEPS_PRICED;
    return GY_OK;
}

/* Adds what a plan's price leaves out: independent messages occupy their rank for some time
 * each, and the ranks of a host share its link. */
static double with_crowds(const gy_site *site, const gy_links *links,
                          const gy_plan_costs *price)
{
    GY_ASSERT(price->time_s >= 0 && links->alpha >= 0);
    bool is_across = site->hosts.hosts > 1;
    double alpha = is_across ? GY_MAX(links->alpha, links->alpha_across) : links->alpha;
    double crowd = GY_MAX(price->rounds - price->depth, 0) * alpha * OVERHEAD;
    double shared =
        is_across ? alpha + (double)price->across_max * links->beta * site->hosts.across : 0;
    return fmax(price->time_s, shared) + crowd;
}

gy_status gy_site_price(gy_site *site, const gy_need_of *need, const gy_pick *pick,
                        double *seconds)
{
    GY_ASSERT(pick->row != NULL && need->bytes >= 0);
    bool has_parts = gy_operation_has_parts(need->operation), is_long = false;
    gy_links links = gy_site_links(site, pick->row->need, need->type);
    gy_plan_request request = {
        .operation = need->operation, .ranks = site->ranks, .topology = gy_site_topology(site)};
    int64_t parts = has_parts ? site->ranks : 1;
    gy_pieces pieces;
    gy_plan *plan = NULL;
    gy_plan_costs price;
    *seconds = INFINITY;
    GY_TRY(gy_site_cut(site, pick, need->bytes / parts, 1, &pieces));
    GY_ASSERT(pieces.legs >= 1 && pieces.chunks >= 1);
    memcpy(request.parameter, pick->parameter, sizeof(request.parameter));
    request.chunks = pieces.chunks;
    GY_TRY(is_too_long(pick->row, &request, &is_long));
    if (is_long) {
        return GY_OK;
    }
    GY_TRY(gy_plan_new(pick->row, &request, &plan));
    bool is_square = pick->row->cut == GY_CUT_PAIRS; /* a part for each pair of ranks */
    int64_t count = need->bytes / pieces.legs * (is_square ? site->ranks : 1);
    gy_status status =
        gy_plan_cost_of(plan, &(gy_volume){.count = count, .element_bytes = 1}, &links, &price);
    gy_plan_free(plan);
    if (status == GY_OK) {
        *seconds = with_crowds(site, &links, &price) * (double)pieces.legs;
    }
    return status;
}

static gy_status price_all(gy_site *site, const gy_need_of *need, gy_pick *best)
{
    gy_pick picks[CANDIDATES];
    int count = gy_site_candidates(site, need, picks, CANDIDATES);
    double least = INFINITY;
    GY_ASSERT(count >= 0 && count <= CANDIDATES);
    *best = (gy_pick){.reason = GY_REASON_NONE};
    for (int i = 0; i < count; i++) {
        double seconds = 0;
        GY_TRY(gy_site_price(site, need, &picks[i], &seconds));
        if (seconds < least) {
            least = seconds;
            *best = picks[i];
            best->reason = GY_REASON_MODEL;
            best->seconds = seconds;
        }
    }
    return GY_OK;
}

/* Rounds to 1.5 times a power of two, up to a leg. */
static int64_t priced_bytes(int64_t bytes)
{
    GY_ASSERT(bytes >= 0);
    int64_t power = 1;
    while (power * 2 <= GY_MIN(bytes, (int64_t)GY_LEG_BYTES)) {
        power *= 2;
    }
    return bytes == 0 ? 0 : power + power / 2;
}

/* Hashes all that the pick depends on; never 0. */
static uint64_t key_of(const gy_site *site, const gy_need_of *need)
{
    GY_ASSERT(site->host_of != NULL && site->ranks > 0);
    const int64_t facts[] = {site->ranks,
                             site->has_shared,
                             (int64_t)site->near,
                             (int64_t)site->region_bytes,
                             site->tuning != NULL ? (int64_t)site->tuning->hash : -1,
                             (int64_t)need->operation,
                             (int64_t)need->order,
                             (int64_t)need->type,
                             (int64_t)need->memory,
                             need->is_known,
                             need->is_longest_known,
                             need->bytes};
    uint64_t hosts = gy_hash(site->host_of, (size_t)site->ranks * sizeof(*site->host_of), 0);
    return gy_hash(facts, sizeof(facts), hosts) | 1;
}

gy_status gy_site_predict(gy_site *site, const gy_need_of *need, gy_pick *pick)
{
    gy_need_of priced = *need;
    priced.bytes = priced_bytes(need->bytes);
    uint64_t key = key_of(site, &priced);
    GY_ASSERT(key != 0);
    cached_pick *place = &cache[key / 2 % CACHED];
    pthread_mutex_lock(&cache_lock);
    bool is_cached = place->key == key;
    *pick = place->pick;
    pthread_mutex_unlock(&cache_lock);
    if (is_cached) {
        return GY_OK;
    }
    GY_TRY(price_all(site, &priced, pick));
    pthread_mutex_lock(&cache_lock);
    *place = (cached_pick){.key = key, .pick = *pick};
    pthread_mutex_unlock(&cache_lock);
    return GY_OK;
}
