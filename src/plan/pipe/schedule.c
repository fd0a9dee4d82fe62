/*
 * Schedules of pipelines. Each rank goes forward `warmup` times, then forward and backward in
 * turn, then backward for the rest; what differs is how long it warms up, and where W goes.
 * With 4 ranks and 4 micro-batches 1f1b, time to the right and B twice as long as F:
 *
 *   rank 0  F0 F1 F2 F3                B0                B1    ...
 *   rank 1     F0 F1 F2          B0    F3    B1    ...
 *   rank 2        F0 F1    B0    F2    B1    F3    ...
 *   rank 3           F0 B0    F1 B1    F2 B2    ...
 *
 * Rank i of p warms up p - 1 - i times: until then its first micro-batch cannot have come back.
 */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include <string.h>

typedef struct schedule_row {
    const char *name;
    bool has_chunks; /* more than one stage a rank */
    bool is_split;   /* I and W apart */
    int (*warmup)(const gy_pipe_query *query, int round, int rank);
} schedule_row;

static int warm_all(const gy_pipe_query *query, int round, int rank)
{
    (void)round;
    (void)rank;
    return query->micros;
}

static int warm_depth(const gy_pipe_query *query, int round, int rank)
{
    (void)round;
    return query->ranks - 1 - rank;
}

/* Megatron-LM's: the first round passes all chunks but the last before any comes back, and a
 * rank is two steps ahead of its neighbour, since forward and backward take turns. */
static int warm_chunks(const gy_pipe_query *query, int round, int rank)
{
    return query->chunks > 1 ? (query->chunks - 1) * round + 2 * (query->ranks - 1 - rank)
                             : warm_depth(query, round, rank);
}

static const schedule_row rows[] = {
    {"gpipe", false, false, warm_all},
    {"1f1b", false, false, warm_depth},
    {"interleaved", true, false, warm_chunks},
    {"zb-h1", false, true, warm_depth},
};

const char *gy_pipe_name(int index)
{
    return index >= 0 && index < (int)GY_COUNT(rows) ? rows[index].name : NULL;
}

/* ---- Lists ---- */

gy_status gy_pipe_new(int ranks, int stages, int micros, gy_pipe_schedule **schedule)
{
    GY_ASSERT(ranks >= 1 && stages >= 1 && micros >= 1);
    gy_pipe_schedule *made = gy_alloc_zero("pipe", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_pipe_schedule){.ranks = ranks, .stages = stages, .micros = micros};
    made->rank_of = gy_alloc("pipe.rank_of", (size_t)stages * sizeof(*made->rank_of));
    made->lists = gy_alloc_zero("pipe.lists", (size_t)ranks, sizeof(*made->lists));
    if (made->rank_of == NULL || made->lists == NULL) {
        gy_pipe_free(made);
        return GY_NOMEM;
    }
    for (int stage = 0; stage < stages; stage++) {
        made->rank_of[stage] = stage % ranks;
    }
    *schedule = made;
    return GY_OK;
}

void gy_pipe_free(gy_pipe_schedule *schedule)
{
    if (schedule == NULL) {
        return;
    }
    for (int rank = 0; schedule->lists != NULL && rank < schedule->ranks; rank++) {
        gy_free(schedule->lists[rank].actions);
    }
    gy_free(schedule->lists);
    gy_free(schedule->rank_of);
    gy_free(schedule);
}

size_t gy_pipe_length(const gy_pipe_schedule *schedule)
{
    size_t length = 0;
    for (int rank = 0; rank < schedule->ranks; rank++) {
        length += schedule->lists[rank].count;
    }
    return length;
}

int gy_pipe_neighbour(gy_pipe_kind kind, int stage)
{
    GY_ASSERT(gy_pipe_is_transfer((int)kind));
    return kind == GY_PIPE_SEND_F || kind == GY_PIPE_RECV_B ? stage + 1 : stage - 1;
}

gy_status gy_pipe_add(gy_pipe_schedule *schedule, int rank, gy_pipe_kind kind, int stage,
                      int micro)
{
    GY_ASSERT(rank >= 0 && rank < schedule->ranks);
    gy_pipe_list *list = &schedule->lists[rank];
    int other = gy_pipe_is_transfer((int)kind) ? gy_pipe_neighbour(kind, stage) : -1;
    GY_TRY(GY_GROW("pipe.actions", list->actions, list->capacity, list->count + 1));
    list->actions[list->count++] = (gy_pipe_action){
        .kind = (int32_t)kind,
        .stage = stage,
        .micro = micro,
        .peer = other >= 0 && other < schedule->stages ? schedule->rank_of[other] : -1};
    return GY_OK;
}

/* Whether what passes between a stage and the one above or below it leaves the rank. */
static bool is_across(const gy_pipe_schedule *schedule, int rank, int stage)
{
    return stage >= 0 && stage < schedule->stages && schedule->rank_of[stage] != rank;
}

/* An action with the transfers around it. */
static gy_status add_with_transfers(gy_pipe_schedule *schedule, int rank,
                                    const gy_pipe_action *action)
{
    int stage = action->stage, micro = action->micro;
    bool is_forward = action->kind == GY_PIPE_FORWARD;
    bool is_backward =
        action->kind == GY_PIPE_BACKWARD || action->kind == GY_PIPE_BACKWARD_INPUT;
    bool has_below = is_across(schedule, rank, stage - 1);
    bool has_above = is_across(schedule, rank, stage + 1);
    if (is_forward && has_below) {
        GY_TRY(gy_pipe_add(schedule, rank, GY_PIPE_RECV_F, stage, micro));
    }
    if (is_backward && has_above) {
        GY_TRY(gy_pipe_add(schedule, rank, GY_PIPE_RECV_B, stage, micro));
    }
    GY_TRY(gy_pipe_add(schedule, rank, (gy_pipe_kind)action->kind, stage, micro));
    if (is_forward && has_above) {
        GY_TRY(gy_pipe_add(schedule, rank, GY_PIPE_SEND_F, stage, micro));
    }
    if (is_backward && has_below) {
        GY_TRY(gy_pipe_add(schedule, rank, GY_PIPE_SEND_B, stage, micro));
    }
    return GY_OK;
}

gy_status gy_pipe_add_transfers(gy_pipe_schedule *schedule)
{
    gy_status status = GY_OK;
    for (int rank = 0; status == GY_OK && rank < schedule->ranks; rank++) {
        gy_pipe_list before = schedule->lists[rank];
        schedule->lists[rank] = (gy_pipe_list){.actions = NULL};
        for (size_t i = 0; status == GY_OK && i < before.count; i++) {
            status = add_with_transfers(schedule, rank, &before.actions[i]);
        }
        gy_free(before.actions);
    }
    return status;
}

gy_status gy_pipe_add_updates(gy_pipe_schedule *schedule)
{
    for (int stage = 0; stage < schedule->stages; stage++) {
        GY_TRY(gy_pipe_add(schedule, schedule->rank_of[stage], GY_PIPE_UPDATE, stage, -1));
    }
    return GY_OK;
}

/* ---- The planner ---- */

/* A rank's way through its list: how often it went forward and backward and made weights'
 * gradients. Over a round of micro-batches it passes its chunks one after the other. */
typedef struct walker {
    gy_pipe_schedule *schedule;
    int rank, chunks, round;
    int forward, backward, weight;
} walker;

/* The n-th action of a kind: which chunk (from the last one, going backward), which
 * micro-batch. */
static gy_status add_nth(const walker *at, gy_pipe_kind kind, int n)
{
    int chunk = n / at->round % at->chunks;
    int micro = n / (at->round * at->chunks) * at->round + n % at->round;
    chunk = kind == GY_PIPE_FORWARD ? chunk : at->chunks - 1 - chunk;
    return gy_pipe_add(at->schedule, at->rank, kind, chunk * at->schedule->ranks + at->rank,
                       micro);
}

/* A backward action; split in two, W follows `delay` micro-batches later, where the ranks
 * above, which are ahead, would let this one wait. */
static gy_status add_backward(walker *at, bool is_split, int delay)
{
    if (!is_split) {
        return add_nth(at, GY_PIPE_BACKWARD, at->backward++);
    }
    GY_TRY(add_nth(at, GY_PIPE_BACKWARD_INPUT, at->backward++));
    return at->backward > delay ? add_nth(at, GY_PIPE_BACKWARD_WEIGHT, at->weight++) : GY_OK;
}

static gy_status plan_rank(const schedule_row *row, const gy_pipe_query *query, walker *at)
{
    int all = query->micros * query->chunks;
    int warmup = GY_MIN(all, row->warmup(query, at->round, at->rank));
    GY_ASSERT(warmup >= 0 && all >= 1);
    while (at->forward < warmup) {
        GY_TRY(add_nth(at, GY_PIPE_FORWARD, at->forward++));
    }
    while (at->forward < all) {
        GY_TRY(add_nth(at, GY_PIPE_FORWARD, at->forward++));
        GY_TRY(add_backward(at, row->is_split, at->rank));
    }
    while (at->backward < all) {
        GY_TRY(add_backward(at, row->is_split, at->rank));
    }
    while (row->is_split && at->weight < all) {
        GY_TRY(add_nth(at, GY_PIPE_BACKWARD_WEIGHT, at->weight++));
    }
    return GY_OK;
}

static gy_status find_row(const char *name, const schedule_row **row)
{
    char names[64] = "";
    size_t size = 0;
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        if (name != NULL && strcmp(rows[i].name, name) == 0) {
            *row = &rows[i];
            return GY_OK;
        }
        size += gy_print(names + size, sizeof(names) - size, "%s%s", i == 0 ? "" : ", ",
                         rows[i].name);
    }
    return gy_fail(GY_ARG, "no schedule is called \"%s\"; there are %s",
                   name != NULL ? name : "", names);
}

/* Sizes that the schedule allows; `round`: micro-batches that pass all chunks before the next
 * ones begin. */
/* In how many rounds the ranks take so many micro-batches. */
static int rounds_of(const gy_pipe_query *query, int micros)
{
    GY_ASSERT(query->ranks >= 1 && query->chunks >= 1);
    GY_ASSERT(micros >= 1);
    return query->chunks > 1 ? GY_MAX(1, micros / query->ranks) : 1;
}

/* The nearest number of micro-batches that rounds divide, by steps of 1 or -1: at the latest a
 * multiple of the ranks, or as many as there are. */
static int nearest_of(const gy_pipe_query *query, int step)
{
    int micros = query->micros;
    while (micros % rounds_of(query, micros) != 0) {
        micros += step;
    }
    GY_ASSERT(micros >= 1);
    return micros;
}

static gy_status check_query(const schedule_row *row, const gy_pipe_query *query, int *round)
{
    if (query->ranks < 1 || query->ranks > GY_PIPE_RANKS_MAX) {
        return gy_fail(GY_ARG, "%d stages, expected 1 to %d", query->ranks, GY_PIPE_RANKS_MAX);
    }
    if (query->micros < 1) {
        return gy_fail(GY_ARG, "%d micro-batches, expected 1 or more", query->micros);
    }
    if (query->chunks < 1 || (query->chunks > 1 && !row->has_chunks)) {
        return gy_fail(GY_ARG, "%s takes 1 chunk a rank, not %d (interleaved takes more)",
                       row->name, query->chunks);
    }
    int64_t pairs = (int64_t)query->ranks * query->chunks;
    if (pairs * query->micros > GY_PIPE_PAIRS_MAX || pairs > GY_PIPE_PAIRS_MAX) {
        return gy_fail(GY_ARG, "%lld stages of %d micro-batches, expected a product up to %d",
                       (long long)pairs, query->micros, GY_PIPE_PAIRS_MAX);
    }
    const int rounds = rounds_of(query, query->micros);
    if (query->micros % rounds != 0) {
        return gy_fail(GY_ARG,
                       "%s over %d stages takes %d micro-batches in %d rounds, which they do "
                       "not divide into: expected %d or %d micro-batches",
                       row->name, query->ranks, query->micros, rounds, nearest_of(query, -1),
                       nearest_of(query, 1));
    }
    *round = query->micros / rounds;
    return GY_OK;
}

gy_status gy_pipe_plan(const gy_pipe_query *query, gy_pipe_schedule **schedule)
{
    const schedule_row *row = NULL;
    gy_pipe_query asked = *query;
    gy_pipe_schedule *made = NULL;
    int round = 0;
    asked.chunks = query->chunks == 0 ? 1 : query->chunks;
    GY_TRY(find_row(query->schedule, &row));
    GY_TRY(check_query(row, &asked, &round));
    GY_TRY(gy_pipe_new(asked.ranks, asked.ranks * asked.chunks, asked.micros, &made));
    gy_status status = GY_OK;
    for (int rank = 0; status == GY_OK && rank < asked.ranks; rank++) {
        walker at = {.schedule = made, .rank = rank, .chunks = asked.chunks, .round = round};
        status = plan_rank(row, &asked, &at);
    }
    if (status == GY_OK) {
        status = gy_pipe_add_transfers(made);
    }
    if (status == GY_OK) {
        status = gy_pipe_add_updates(made);
    }
    if (status != GY_OK) {
        gy_pipe_free(made);
        return status;
    }
    *schedule = made;
    return GY_OK;
}
