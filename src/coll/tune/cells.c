/*
 * Measures which algorithm is the fastest. For each kind of call (operation, type, memory) and
 * each size, all candidates run in turn, round by round, so that a slow phase of the machine
 * affects all of them; the result is the median of the slowest rank. Candidates whose modelled
 * price is far above the cheapest are left out.
 */
#include "coll/tune/tune_priv.h"

#include <math.h>
#include <string.h>

enum {
    SIZES = 8,
    PRICED = 5,
    TRIED = PRICED + 1,
    CANDIDATES = 48,
    ROUNDS_MOST = 25,
    SURE_BYTES = 1 << 20
};

#define WIN     0.95  /* a new winner takes at most this share of the old one's time */
#define BATCH_S 30e-6 /* calls up to this time are timed together */
#define HOPE    8.0   /* a candidate above this many times the cheapest price is not tried */

/* The candidates that were measured at one size. */
typedef struct cell {
    int64_t bytes;
    gy_pick picks[TRIED];
    double seconds[TRIED];
    int count, won;
} cell;

static double price_of(gy_tuner *tuner, const gy_need_of *need, const gy_pick *pick)
{
    GY_ASSERT(pick->row != NULL);
    double seconds = INFINITY;
    gy_status status = gy_site_price(&tuner->comm->site, need, pick, &seconds);
    return status == GY_OK ? seconds : INFINITY;
}

/* The library that started the ranks has no price, so it is always a candidate. */
static void add_library(const gy_tuner *tuner, const gy_need_of *need, cell *at)
{
    const gy_site *site = &tuner->comm->site;
    const gy_algorithm *row = gy_library_row(need->operation);
    bool keeps = row != NULL && (!site->has_shared || gy_row_keeps_bits(row));
    if (keeps && gy_site_allows(site, need, row)) {
        GY_ASSERT(at->count < TRIED);
        at->picks[at->count++] = (gy_pick){.row = row};
    }
}

/* Selects the candidates with the best prices. */
static void select_picks(gy_tuner *tuner, const gy_need_of *need, cell *at)
{
    gy_pick all[CANDIDATES];
    int count = gy_site_candidates(&tuner->comm->site, need, all, CANDIDATES);
    at->count = 0;
    GY_ASSERT(count >= 0 && count <= CANDIDATES);
    for (int i = 0; i < count; i++) {
        all[i].seconds = price_of(tuner, need, &all[i]);
    }
    for (double least = INFINITY; at->count < PRICED; at->count++) {
        int best = -1;
        for (int i = 0; i < count; i++) {
            bool is_less = best < 0 || all[i].seconds < all[best].seconds;
            best = isfinite(all[i].seconds) && is_less ? i : best;
        }
        least = at->count == 0 && best >= 0 ? all[best].seconds : least;
        if (best < 0 || all[best].seconds > HOPE * least) {
            break;
        }
        at->picks[at->count] = all[best];
        all[best].seconds = INFINITY;
    }
    GY_ASSERT(at->count <= PRICED);
    add_library(tuner, need, at);
}

static gy_coll_call call_of(const gy_tuner *tuner, const gy_need_of *need)
{
    GY_ASSERT(need->bytes >= 0 && need->bytes <= GY_TUNE_LARGEST);
    bool is_registered = need->memory == GY_MEMORY_REGISTERED;
    GY_ASSERT(!is_registered || tuner->shared_in != NULL);
    gy_dtype dtype = need->type == GY_TYPE_HALF ? GY_BF16 : GY_F32;
    size_t parts = gy_operation_has_parts(need->operation) ? (size_t)tuner->comm->size : 1;
    return (gy_coll_call){
        .operation = need->operation,
        .dtype = dtype,
        .reduction = GY_SUM, /* the most frequent reduction, which every library knows */
        .count = (size_t)need->bytes / parts / gy_dtype_bytes(dtype),
        .in = is_registered ? tuner->shared_in : tuner->in,
        .out = is_registered ? tuner->shared_out : tuner->out};
}

static bool fits_library(const gy_tuner *tuner, const gy_need_of *kind)
{
    const gy_coll_call call = call_of(tuner, kind);
    return gy_library_fits(tuner->comm, &call);
}

/* Measures all candidates within about `budget` seconds; *spent is the time of one round. */
static gy_status measure(gy_tuner *tuner, const gy_need_of *need, double budget, cell *at,
                         double *spent)
{
    GY_ASSERT(at->count > 0 && at->count <= TRIED);
    static double samples[TRIED][ROUNDS_MOST];
    const gy_coll_call call = call_of(tuner, need);
    char name[64];
    *spent = 0;
    for (int i = 0; i < at->count; i++) {
        gy_pick_name(&at->picks[i], name);
        GY_TRY(gy_tune_time(tuner, &call, name, 1, &at->seconds[i]));
    }
    GY_TRY(gy_tune_agree(tuner, at->seconds, (size_t)at->count));
    int calls[TRIED];
    for (int i = 0; i < at->count; i++) {
        calls[i] = (int)fmin(fmax(BATCH_S / at->seconds[i], 1), 8);
        *spent += calls[i] * at->seconds[i];
    }
    int rounds = (int)fmin(fmax(budget / *spent, 1), ROUNDS_MOST);
    GY_ASSERT(rounds >= 1 && rounds <= ROUNDS_MOST);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < at->count; i++) {
            gy_pick_name(&at->picks[i], name);
            GY_TRY(gy_tune_time(tuner, &call, name, calls[i], &samples[i][round]));
        }
    }
    for (int i = 0; i < at->count; i++) {
        at->seconds[i] = gy_tune_median(samples[i], (size_t)rounds);
    }
    GY_TRY(gy_tune_agree(tuner, at->seconds, (size_t)at->count));
    for (int i = 0; i < at->count && tuner->comm->rank == 0; i++) {
        char size[32];
        gy_debug("%s of %s by %s: %.3g us", gy_operation_name(need->operation),
                 gy_text_bytes(size, (uint64_t)need->bytes), gy_pick_name(&at->picks[i], name),
                 at->seconds[i] * 1e6);
    }
    return GY_OK;
}

/* Returns the time of a pick at a size; NAN: it was not measured at that size. */
static double time_of(const cell *at, const gy_pick *pick)
{
    GY_ASSERT(at->count > 0 && pick->row != NULL);
    for (int i = 0; i < at->count; i++) {
        if (at->picks[i].row == pick->row &&
            strcmp(at->picks[i].parameter, pick->parameter) == 0) {
            return at->seconds[i];
        }
    }
    return NAN;
}

static void find_winner(cell *at, const cell *before)
{
    GY_ASSERT(at->count > 0);
    GY_ASSERT(before == NULL || (before->won >= 0 && before->won < before->count));
    at->won = 0;
    for (int i = 1; i < at->count; i++) {
        at->won = at->seconds[i] < at->seconds[at->won] ? i : at->won;
    }
    if (before == NULL) {
        return;
    }
    const gy_pick *held = &before->picks[before->won];
    for (int i = 0; i < at->count; i++) {
        bool is_held = at->picks[i].row == held->row &&
                       strcmp(at->picks[i].parameter, held->parameter) == 0;
        if (is_held && at->seconds[at->won] > WIN * at->seconds[i]) {
            at->won = i;
        }
    }
}

/* Returns the size from which the later winner is faster than the earlier one: the crossing of
 * the lines through the logarithms of their times, or the middle. */
static int64_t border(const cell *before, const cell *after)
{
    GY_ASSERT(before->bytes > 0 && before->bytes < after->bytes);
    const gy_pick *old = &before->picks[before->won], *new = &after->picks[after->won];
    double ahead = log(time_of(before, new) / time_of(before, old));
    double behind = log(time_of(after, old) / time_of(after, new));
    double share = ahead / (ahead + behind);
    if (!(share >= 0 && share <= 1)) {
        share = 0.5;
    }
    double ratio = (double)after->bytes / (double)before->bytes;
    return (int64_t)((double)before->bytes * pow(ratio, share));
}

static gy_status add_rules(gy_tuner *tuner, const gy_need_of *kind, const cell *cells,
                           int count)
{
    GY_ASSERT(count >= 0 && count <= SIZES);
    for (int i = 0; i < count; i++) {
        GY_ASSERT(cells[i].won >= 0 && cells[i].won < cells[i].count);
        const gy_pick *won = &cells[i].picks[cells[i].won];
        bool is_new = i == 0 || !(time_of(&cells[i], &cells[i - 1].picks[cells[i - 1].won]) ==
                                  cells[i].seconds[cells[i].won]);
        gy_rule rule = {.operation = kind->operation,
                        .type = kind->type,
                        .memory = kind->memory,
                        .ranks = tuner->comm->size,
                        .hosts = tuner->comm->site.hosts.hosts,
                        .from_bytes = i == 0 ? 0 : border(&cells[i - 1], &cells[i]),
                        .row = won->row,
                        .seconds = cells[i].seconds[cells[i].won]};
        memcpy(rule.parameter, won->parameter, sizeof(rule.parameter));
        if (is_new) {
            GY_TRY(gy_tuning_add(tuner->tuning, &rule));
        }
    }
    return GY_OK;
}

/* Measures all sizes of one kind of call. */
static gy_status measure_kind(gy_tuner *tuner, const gy_need_of *kind, double budget)
{
    GY_ASSERT(budget >= 0);
    static const int64_t sizes[SIZES] = {256,      2048,      8192,    16 << 10,
                                         64 << 10, 256 << 10, 1 << 20, GY_TUNE_LARGEST};
    cell cells[SIZES];
    int count = 0;
    double spent = 0;
    for (int i = 0; i < SIZES; i++) {
        gy_need_of need = *kind;
        need.bytes = sizes[i];
        need.fits_library = fits_library(tuner, kind);
        bool is_tiny = kind->memory != GY_MEMORY_MESSAGES && sizes[i] <= GY_TINY_BYTES;
        bool is_dear = sizes[i] > SURE_BYTES && 8 * spent > budget;
        if (is_tiny || is_dear) {
            continue;
        }
        cell *at = &cells[count];
        *at = (cell){.bytes = sizes[i]};
        select_picks(tuner, &need, at);
        if (at->count == 0) {
            break;
        }
        GY_TRY(measure(tuner, &need, budget / SIZES, at, &spent));
        find_winner(at, count > 0 ? at - 1 : NULL);
        count++;
    }
    GY_ASSERT(count <= SIZES);
    return add_rules(tuner, kind, cells, count);
}

/* Broadcasts, by rank 0's clock, how much time each of the `left` kinds has; 0: no time is
 * left. */
static gy_status share_time(gy_tuner *tuner, int left, double *budget)
{
    GY_ASSERT(left > 0);
    int64_t now_ns = gy_now_ns(tuner->comm->transport->env);
    *budget = fmax((double)(tuner->end_ns - now_ns) * 1e-9 / left, 0);
    return gy_broadcast(tuner->comm, budget, 1, GY_F64, 0);
}

gy_status gy_tune_cells(gy_tuner *tuner)
{
    static const gy_operation by_use[] = {
        GY_OPERATION_ALLREDUCE,     GY_OPERATION_BROADCAST, GY_OPERATION_REDUCE_SCATTER,
        GY_OPERATION_ALLGATHER,     GY_OPERATION_REDUCE,    GY_OPERATION_ALLTOALL,
        GY_OPERATION_GATHER,        GY_OPERATION_SCATTER,   GY_OPERATION_SCAN,
        GY_OPERATION_EXCLUSIVE_SCAN};
    enum { KINDS = GY_COUNT(by_use) * GY_TYPE_CLASSES * GY_MEMORY_COUNT };
    bool has_shared = tuner->comm->shared != NULL;
    for (int i = 0; i < KINDS; i++) {
        int pair = i / GY_MEMORY_COUNT;
        gy_operation operation = by_use[pair % (int)GY_COUNT(by_use)];
        bool reduces = gy_call_reduces(&(gy_coll_call){.operation = operation});
        gy_need_of kind = {.operation = operation,
                           .type = (gy_type_class)(pair / (int)GY_COUNT(by_use)),
                           .memory = (gy_memory)(i % GY_MEMORY_COUNT),
                           .is_known = true};
        bool is_here =
            has_shared ? kind.memory == GY_MEMORY_PRIVATE ||
                             (kind.memory == GY_MEMORY_REGISTERED && tuner->shared_in != NULL)
                       : kind.memory == GY_MEMORY_MESSAGES;
        double budget = 0;
        if (!is_here || (!reduces && kind.type != GY_TYPE_PLAIN)) {
            continue;
        }
        GY_TRY(share_time(tuner, (KINDS - i) / 2 + 1, &budget));
        if (budget == 0 && i >= GY_MEMORY_COUNT) {
            break; /* the model serves the remaining kinds; the first operation is always
                      measured */
        }
        GY_TRY(measure_kind(tuner, &kind, budget));
    }
    return GY_OK;
}
