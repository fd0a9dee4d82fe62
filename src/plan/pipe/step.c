/* A step of a pipeline in virtual time: what each rank does, and how long none of it computes.
 */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include <math.h>

static gy_status check_costs(const gy_pipe_schedule *schedule, const gy_pipe_cost *costs,
                             int cost_count)
{
    if (cost_count != 1 && cost_count != schedule->stages) {
        return gy_fail(GY_ARG, "costs of %d stages, expected 1 or %d", cost_count,
                       schedule->stages);
    }
    for (int i = 0; i < cost_count; i++) {
        const double given[] = {costs[i].forward, costs[i].input, costs[i].weight,
                                costs[i].send};
        for (size_t k = 0; k < GY_COUNT(given); k++) {
            if (!(given[k] >= 0) || !isfinite(given[k])) {
                return gy_fail(GY_ARG, "stage %d costs %g, expected 0 or more", i, given[k]);
            }
        }
        if (costs[i].send_bytes < 0 || costs[i].held_bytes < 0) {
            return gy_fail(GY_ARG, "stage %d has %lld and %lld bytes, expected 0 or more", i,
                           (long long)costs[i].send_bytes, (long long)costs[i].held_bytes);
        }
    }
    return GY_OK;
}

/* What a rank holds and sends, by its list alone; its times by the spans. */
static gy_pipe_rank read_rank(const gy_pipe_play *play, int rank, const gy_pipe_span *spans)
{
    const gy_pipe_list *list = &play->schedule->lists[rank];
    gy_pipe_rank read = {.busy_s = 0};
    int alive = 0;
    int64_t held = 0;
    for (size_t i = 0; i < list->count; i++) {
        const gy_pipe_action *action = &list->actions[i];
        const gy_pipe_cost *cost = &play->costs[play->cost_count == 1 ? 0 : action->stage];
        read.end_s = spans[i].end_s;
        read.busy_s += gy_pipe_seconds(cost, action->kind);
        read.sent_bytes += gy_pipe_is_send(action->kind) ? cost->send_bytes : 0;
        bool is_freed =
            action->kind == GY_PIPE_BACKWARD || action->kind == GY_PIPE_BACKWARD_WEIGHT;
        int change = action->kind == GY_PIPE_FORWARD ? 1 : is_freed ? -1 : 0;
        alive += change;
        held += change * cost->held_bytes;
        read.alive_max = GY_MAX(read.alive_max, alive);
        read.held_max = GY_MAX(read.held_max, held);
    }
    GY_ASSERT(alive == 0 && held == 0);
    return read;
}

static void sum_ranks(const gy_pipe_play *play, gy_pipe_step *step)
{
    double busy = 0;
    size_t offset = 0;
    step->time_s = 0;
    for (int rank = 0; rank < play->schedule->ranks; rank++) {
        gy_pipe_rank read = read_rank(play, rank, play->spans + offset);
        offset += play->schedule->lists[rank].count;
        busy += read.busy_s;
        step->time_s = fmax(step->time_s, read.end_s);
        if (step->ranks != NULL) {
            step->ranks[rank] = read;
        }
    }
    double all = step->time_s * play->schedule->ranks;
    step->bubble = all > 0 ? fmax(0, all - busy) / all : 0;
}

gy_status gy_pipe_simulate(const gy_pipe_schedule *schedule, const gy_pipe_cost *costs,
                           int cost_count, gy_pipe_step *step)
{
    GY_TRY(check_costs(schedule, costs, cost_count));
    GY_TRY(gy_pipe_check(schedule, NULL, NULL));
    gy_pipe_span *spans = step->spans;
    if (spans == NULL) {
        spans = gy_alloc("pipe.spans", gy_pipe_length(schedule) * sizeof(*spans));
    }
    if (spans == NULL) {
        return GY_NOMEM;
    }
    gy_pipe_play play = {
        .schedule = schedule, .costs = costs, .cost_count = cost_count, .spans = spans};
    gy_status status = gy_pipe_run(&play);
    if (status == GY_OK) {
        GY_ASSERT(play.stuck_rank < 0); /* it was checked */
        sum_ranks(&play, step);
    }
    if (spans != step->spans) {
        gy_free(spans);
    }
    return status;
}
