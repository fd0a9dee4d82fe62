/*
 * Proves lists of pipelines. Each list is read once from its begin: an action must be on the
 * rank of its stage, once, behind what it needs, which is an action of the same rank or a
 * receive. Then each receive must have its send and no action may be missing. What is left is
 * whether ranks wait for each other in a circle, which playing the lists shows: a rank goes on
 * whenever it can, and what it waits for does not depend on who goes on first.
 */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

/* What a (stage, micro-batch) has seen, a bit for each kind of action. */
typedef uint16_t seen_bits;
_Static_assert(GY_PIPE_KIND_COUNT <= 16, "a bit for each kind");

typedef struct checker {
    const gy_pipe_schedule *schedule;
    const gy_pipe_limits *limits;
    seen_bits *seen;  /* (stages, micros) */
    int32_t *weights; /* (stages) micro-batches whose weight gradients are added */
    int32_t *last;    /* (stages) the last of them; -1: none */
    bool *is_updated; /* (stages) */
    gy_pipe_facts facts;
    int rank, alive; /* whose list is read */
    size_t index;    /* and where */
} checker;

void gy_pipe_print_action(gy_text *out, const gy_pipe_action *action)
{
    static const char *const words[] = {
#define GY_X(name, text) text,
        GY_PIPE_ACTION_LIST(GY_X)
#undef GY_X
    };
    bool is_known = action->kind >= 0 && action->kind < GY_PIPE_KIND_COUNT;
    gy_text_add(out, "%d%s", action->stage, is_known ? words[action->kind] : "?");
    if (action->micro >= 0) {
        gy_text_add(out, "%d", action->micro);
    }
}

gy_status gy_pipe_refuse(const gy_pipe_schedule *schedule, int rank, size_t index,
                         const char *format, ...)
{
    char cause[256];
    va_list args;
    va_start(args, format);
    gy_print_list(cause, sizeof(cause), format, args);
    va_end(args);
    gy_text action = {.data = NULL};
    gy_pipe_print_action(&action, &schedule->lists[rank].actions[index]);
    gy_status status = gy_fail(GY_STATE, "rank %d action %zu (%s): %s", rank, index,
                               gy_text_get(&action), cause);
    gy_text_free(&action);
    return status;
}

#define REFUSE(at, ...) gy_pipe_refuse((at)->schedule, (at)->rank, (at)->index, __VA_ARGS__)

static seen_bits bit(int kind)
{
    return (seen_bits)(1U << (unsigned)kind);
}

enum { BACKWARDS = (1 << GY_PIPE_BACKWARD) | (1 << GY_PIPE_BACKWARD_INPUT) };

static seen_bits *seen_of(const checker *at, int stage, int micro)
{
    return &at->seen[(size_t)stage * (size_t)at->schedule->micros + (size_t)micro];
}

static bool is_here(const checker *at, int stage)
{
    return at->schedule->rank_of[stage] == at->rank;
}

static gy_status check_numbers(const checker *at, const gy_pipe_action *action)
{
    const gy_pipe_schedule *schedule = at->schedule;
    if (action->kind < 0 || action->kind >= GY_PIPE_KIND_COUNT) {
        return REFUSE(at, "no action is of kind %d", action->kind);
    }
    if (action->stage < 0 || action->stage >= schedule->stages) {
        return REFUSE(at, "there are stages 0 to %d", schedule->stages - 1);
    }
    if (!is_here(at, action->stage)) {
        return REFUSE(at, "stage %d is on rank %d", action->stage,
                      schedule->rank_of[action->stage]);
    }
    bool is_update = action->kind == GY_PIPE_UPDATE;
    if (is_update ? action->micro != -1
                  : action->micro < 0 || action->micro >= schedule->micros) {
        return is_update ? REFUSE(at, "an update is of no micro-batch")
                         : REFUSE(at, "there are micro-batches 0 to %d", schedule->micros - 1);
    }
    if (!gy_pipe_is_transfer(action->kind)) {
        return action->peer == -1 ? GY_OK : REFUSE(at, "rank %d has no part", action->peer);
    }
    int other = gy_pipe_neighbour((gy_pipe_kind)action->kind, action->stage);
    if (other < 0 || other >= schedule->stages || is_here(at, other)) {
        return REFUSE(at, "stage %d has nothing to %s there", action->stage,
                      gy_pipe_is_send(action->kind) ? "send" : "receive");
    }
    return action->peer == schedule->rank_of[other]
               ? GY_OK
               : REFUSE(at, "stage %d is on rank %d, not on rank %d", other,
                        schedule->rank_of[other], action->peer);
}

/* What comes from another stage: its own action on this rank, or a receive. */
static gy_status check_input(const checker *at, const gy_pipe_action *action, int other,
                             int made_by, int receive)
{
    if (other < 0 || other >= at->schedule->stages) {
        return GY_OK;
    }
    bool is_local = is_here(at, other);
    seen_bits have = is_local ? *seen_of(at, other, action->micro) & (seen_bits)made_by
                              : *seen_of(at, action->stage, action->micro) & bit(receive);
    return have != 0 ? GY_OK
                     : REFUSE(at, "nothing of micro-batch %d has come from stage %d",
                              action->micro, other);
}

/* An update of a stage whose gradients are not whole; names the first action that is missing.
 */
static gy_status refuse_update(const checker *at, const gy_pipe_action *action)
{
    int micro = 0;
    GY_ASSERT(at->weights[action->stage] < at->schedule->micros);
    while (micro + 1 < at->schedule->micros &&
           (*seen_of(at, action->stage, micro) &
            (bit(GY_PIPE_BACKWARD) | bit(GY_PIPE_BACKWARD_WEIGHT))) != 0) {
        micro++;
    }
    const bool is_split =
        (*seen_of(at, action->stage, micro) & bit(GY_PIPE_BACKWARD_INPUT)) != 0;
    return REFUSE(at,
                  "%d of %d micro-batches have added gradients of stage %d: %d%c%d is missing",
                  at->weights[action->stage], at->schedule->micros, action->stage,
                  action->stage, is_split ? 'W' : 'B', micro);
}

/* What an action needs before it. */
static gy_status check_needs(const checker *at, const gy_pipe_action *action)
{
    if (action->kind == GY_PIPE_UPDATE) {
        return at->weights[action->stage] == at->schedule->micros ? GY_OK
                                                                  : refuse_update(at, action);
    }
    seen_bits seen = *seen_of(at, action->stage, action->micro);
    bool is_forward = (seen & bit(GY_PIPE_FORWARD)) != 0;
    switch ((gy_pipe_kind)action->kind) {
    case GY_PIPE_FORWARD:
        return check_input(at, action, action->stage - 1, (int)bit(GY_PIPE_FORWARD),
                           GY_PIPE_RECV_F);
    case GY_PIPE_BACKWARD:
    case GY_PIPE_BACKWARD_INPUT:
        if (!is_forward) {
            return REFUSE(at, "the stage has not gone forward with micro-batch %d",
                          action->micro);
        }
        if ((seen & BACKWARDS) != 0) {
            return REFUSE(at, "the stage has gone backward with micro-batch %d", action->micro);
        }
        return check_input(at, action, action->stage + 1, BACKWARDS, GY_PIPE_RECV_B);
    case GY_PIPE_BACKWARD_WEIGHT:
        return (seen & bit(GY_PIPE_BACKWARD_INPUT)) != 0
                   ? GY_OK
                   : REFUSE(at, "no %dI%d stands before it", action->stage, action->micro);
    case GY_PIPE_SEND_F:
        return is_forward
                   ? GY_OK
                   : REFUSE(at, "no %dF%d stands before it", action->stage, action->micro);
    case GY_PIPE_SEND_B:
        return (seen & BACKWARDS) != 0
                   ? GY_OK
                   : REFUSE(at, "no %dI%d or %dB%d stands before it", action->stage,
                            action->micro, action->stage, action->micro);
    case GY_PIPE_RECV_F:
    case GY_PIPE_RECV_B:
    case GY_PIPE_UPDATE:
    case GY_PIPE_KIND_COUNT:
    default:
        return GY_OK;
    }
}

/* A receive behind the action that needs it is found there; here: whether it comes once. */
static gy_status check_once(checker *at, const gy_pipe_action *action)
{
    if (action->kind == GY_PIPE_UPDATE) {
        if (at->is_updated[action->stage]) {
            return REFUSE(at, "it stands there twice");
        }
        at->is_updated[action->stage] = true;
        return GY_OK;
    }
    seen_bits *seen = seen_of(at, action->stage, action->micro);
    if ((*seen & bit(action->kind)) != 0) {
        return REFUSE(at, "it stands there twice");
    }
    *seen |= bit(action->kind);
    return GY_OK;
}

/* Micro-batches alive, and the order in which gradients are added. */
static gy_status count(checker *at, const gy_pipe_action *action)
{
    if (action->kind == GY_PIPE_FORWARD) {
        at->alive++;
        at->facts.alive_max = GY_MAX(at->facts.alive_max, at->alive);
        if (at->limits->alive_max > 0 && at->alive > at->limits->alive_max) {
            return REFUSE(at, "%d micro-batches are alive on the rank, at most %d may be",
                          at->alive, at->limits->alive_max);
        }
    }
    if (action->kind == GY_PIPE_BACKWARD || action->kind == GY_PIPE_BACKWARD_WEIGHT) {
        at->alive--;
        at->weights[action->stage]++;
        bool is_later = action->micro > at->last[action->stage];
        at->facts.is_ordered = at->facts.is_ordered && is_later;
        if (at->limits->is_ordered && !is_later) {
            return REFUSE(at,
                          "its gradients are added behind those of micro-batch %d, expected "
                          "the order of micro-batches",
                          at->last[action->stage]);
        }
        at->last[action->stage] = action->micro;
    }
    return GY_OK;
}

static gy_status read_list(checker *at, int rank)
{
    const gy_pipe_list *list = &at->schedule->lists[rank];
    at->rank = rank;
    at->alive = 0;
    for (at->index = 0; at->index < list->count; at->index++) {
        const gy_pipe_action *action = &list->actions[at->index];
        GY_TRY(check_numbers(at, action));
        GY_TRY(check_needs(at, action));
        GY_TRY(check_once(at, action));
        GY_TRY(count(at, action));
    }
    return GY_OK;
}

static gy_status missing(const checker *at, int kind, int stage, int micro)
{
    gy_text text = {.data = NULL};
    gy_pipe_print_action(&text,
                         &(gy_pipe_action){.kind = kind, .stage = stage, .micro = micro});
    gy_status status = gy_fail(GY_STATE, "rank %d: %s is missing", at->schedule->rank_of[stage],
                               gy_text_get(&text));
    gy_text_free(&text);
    return status;
}

/* All that must be there for a stage and micro-batch; what it sends must be taken, too. */
static gy_status check_whole(const checker *at, int stage, int micro)
{
    const gy_pipe_schedule *schedule = at->schedule;
    seen_bits seen = *seen_of(at, stage, micro);
    int rank = schedule->rank_of[stage];
    bool has_below = stage > 0 && schedule->rank_of[stage - 1] != rank;
    bool has_above = stage + 1 < schedule->stages && schedule->rank_of[stage + 1] != rank;
    const struct {
        bool is_needed;
        int kind, kinds;
    } needed[] = {
        {true, GY_PIPE_FORWARD, bit(GY_PIPE_FORWARD)},
        {true, GY_PIPE_BACKWARD, BACKWARDS},
        {(seen & bit(GY_PIPE_BACKWARD_INPUT)) != 0, GY_PIPE_BACKWARD_WEIGHT,
         bit(GY_PIPE_BACKWARD_WEIGHT)},
        {has_below, GY_PIPE_RECV_F, bit(GY_PIPE_RECV_F)},
        {has_below, GY_PIPE_SEND_B, bit(GY_PIPE_SEND_B)},
        {has_above, GY_PIPE_SEND_F, bit(GY_PIPE_SEND_F)},
        {has_above, GY_PIPE_RECV_B, bit(GY_PIPE_RECV_B)},
    };
    for (size_t i = 0; i < GY_COUNT(needed); i++) {
        if (needed[i].is_needed && (seen & (seen_bits)needed[i].kinds) == 0) {
            return missing(at, needed[i].kind, stage, micro);
        }
    }
    return GY_OK;
}

/* Whether all ranks come to their ends; *play says who does not. */
static gy_status play_lists(const checker *at, int buffers, gy_pipe_play *play)
{
    static const gy_pipe_cost nothing = {.forward = 0};
    *play = (gy_pipe_play){
        .schedule = at->schedule, .costs = &nothing, .cost_count = 1, .buffers = buffers};
    return gy_pipe_run(play);
}

static gy_status check_waits(const checker *at)
{
    gy_pipe_play play;
    GY_TRY(play_lists(at, at->limits->buffers, &play));
    if (play.stuck_rank < 0) {
        return GY_OK;
    }
    const gy_pipe_action *action =
        &at->schedule->lists[play.stuck_rank].actions[play.stuck_index];
    return gy_pipe_refuse(at->schedule, play.stuck_rank, play.stuck_index,
                          gy_pipe_is_send(action->kind)
                              ? "waits for ever for a free buffer to rank %d, of %d"
                              : "waits for ever for its message from rank %d (buffers: %d)",
                          action->peer, at->limits->buffers);
}

/* The fewest buffers that do: with more no rank waits that did not. */
static gy_status count_buffers(checker *at)
{
    gy_pipe_play play;
    int low = 1, high = 1;
    GY_TRY(play_lists(at, high, &play));
    while (play.stuck_rank >= 0) {
        GY_ASSERT(high <= GY_PIPE_PAIRS_MAX);
        low = high + 1;
        high *= 2;
        GY_TRY(play_lists(at, high, &play));
    }
    while (low < high) {
        int middle = low + (high - low) / 2;
        GY_TRY(play_lists(at, middle, &play));
        low = play.stuck_rank >= 0 ? middle + 1 : low;
        high = play.stuck_rank >= 0 ? high : middle;
    }
    at->facts.buffers_min = low;
    return GY_OK;
}

static gy_status check_lists(checker *at)
{
    const gy_pipe_schedule *schedule = at->schedule;
    for (int stage = 0; stage < schedule->stages; stage++) {
        at->last[stage] = -1;
    }
    for (int rank = 0; rank < schedule->ranks; rank++) {
        GY_TRY(read_list(at, rank));
    }
    for (int stage = 0; stage < schedule->stages; stage++) {
        for (int micro = 0; micro < schedule->micros; micro++) {
            GY_TRY(check_whole(at, stage, micro));
        }
        if (!at->is_updated[stage]) {
            return missing(at, GY_PIPE_UPDATE, stage, -1);
        }
    }
    return check_waits(at);
}

static gy_status check_sizes(const gy_pipe_schedule *schedule)
{
    int64_t pairs = schedule->stages;
    bool is_small = schedule->ranks <= GY_PIPE_RANKS_MAX && pairs <= GY_PIPE_PAIRS_MAX;
    if (!is_small || pairs * schedule->micros > GY_PIPE_PAIRS_MAX) {
        return gy_fail(GY_LIMIT,
                       "%d ranks, %d stages, %d micro-batches: at most %d ranks, and %d stages "
                       "times micro-batches, can be checked",
                       schedule->ranks, schedule->stages, schedule->micros, GY_PIPE_RANKS_MAX,
                       GY_PIPE_PAIRS_MAX);
    }
    for (int stage = 0; stage < schedule->stages; stage++) {
        int rank = schedule->rank_of[stage];
        if (rank < 0 || rank >= schedule->ranks) {
            return gy_fail(GY_STATE, "stage %d is on rank %d of %d", stage, rank,
                           schedule->ranks);
        }
    }
    return GY_OK;
}

gy_status gy_pipe_check(const gy_pipe_schedule *schedule, const gy_pipe_limits *limits,
                        gy_pipe_facts *facts)
{
    static const gy_pipe_limits none = {.alive_max = 0};
    GY_ASSERT(schedule->ranks >= 1 && schedule->stages >= 1 && schedule->micros >= 1);
    GY_TRY(check_sizes(schedule));
    checker at = {.schedule = schedule,
                  .limits = limits != NULL ? limits : &none,
                  .facts = {.is_ordered = true}};
    size_t stages = (size_t)schedule->stages, micros = (size_t)schedule->micros;
    at.seen = gy_alloc_zero("pipe.seen", stages * micros, sizeof(*at.seen));
    at.weights = gy_alloc_zero("pipe.weights", stages, sizeof(*at.weights));
    at.last = gy_alloc_zero("pipe.last", stages, sizeof(*at.last));
    at.is_updated = gy_alloc_zero("pipe.updated", stages, sizeof(*at.is_updated));
    bool is_whole =
        at.seen != NULL && at.weights != NULL && at.last != NULL && at.is_updated != NULL;
    gy_status status = is_whole ? check_lists(&at) : GY_NOMEM;
    if (status == GY_OK && facts != NULL) {
        status = count_buffers(&at);
    }
    gy_free(at.seen);
    gy_free(at.weights);
    gy_free(at.last);
    gy_free(at.is_updated);
    if (status == GY_OK && facts != NULL) {
        *facts = at.facts;
    }
    return status;
}
