/** What the files of schedules of pipelines share. */
#ifndef GY_PLAN_PIPE_PIPE_PRIV_H
#define GY_PLAN_PIPE_PIPE_PRIV_H

#include "base/text.h"

#include <gyre/pipe.h>

/** An empty schedule; stage s on rank s % ranks. GY_NOMEM */
GY_MUST_CHECK gy_status gy_pipe_new(int ranks, int stages, int micros,
                                    gy_pipe_schedule **schedule);

/** Add an action to the end of a rank's list; its peer follows from rank_of. GY_NOMEM */
GY_MUST_CHECK gy_status gy_pipe_add(gy_pipe_schedule *schedule, int rank, gy_pipe_kind kind,
                                    int stage, int micro);

/** Add transfers around what computes, where a neighbouring stage is on another rank. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_pipe_add_transfers(gy_pipe_schedule *schedule);

/** Add an update for each stage to the end of its rank's list. GY_NOMEM */
GY_MUST_CHECK gy_status gy_pipe_add_updates(gy_pipe_schedule *schedule);

/** The stage that a transfer of `stage` goes to or comes from. */
int gy_pipe_neighbour(gy_pipe_kind kind, int stage);

static inline bool gy_pipe_is_transfer(int kind)
{
    return kind >= GY_PIPE_SEND_F && kind <= GY_PIPE_RECV_B;
}

static inline bool gy_pipe_is_send(int kind)
{
    return kind == GY_PIPE_SEND_F || kind == GY_PIPE_SEND_B;
}

static inline bool gy_pipe_is_computing(int kind)
{
    return kind >= GY_PIPE_FORWARD && kind <= GY_PIPE_BACKWARD;
}

/** "3F1" of an action, whatever it holds. */
void gy_pipe_print_action(gy_text *out, const gy_pipe_action *action);

/** gy_fail(GY_STATE, "rank 2 action 5 (1F3): cause"). */
gy_status gy_pipe_refuse(const gy_pipe_schedule *schedule, int rank, size_t index,
                         const char *format, ...) GY_PRINTF(4, 5);

/** How far ranks come with a list, on a virtual clock. The list must have been checked action
 * by action (gy_pipe_check does, before it plays). */
typedef struct gy_pipe_play {
    const gy_pipe_schedule *schedule;
    const gy_pipe_cost *costs; /* (cost_count) */
    int cost_count;            /* 1: of all stages */
    int buffers;               /* 0: no limit */
    gy_pipe_span *spans;       /* (actions) NULL: not wanted */
    int stuck_rank;            /* becomes the first rank that waits for ever; -1: none */
    size_t stuck_index;        /* and where in its list */
} gy_pipe_play;

/** How long an action of a stage computes; transfers and updates do not. */
double gy_pipe_seconds(const gy_pipe_cost *cost, int kind);

/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_pipe_run(gy_pipe_play *play);

#endif
