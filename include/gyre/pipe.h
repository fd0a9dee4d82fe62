/**
 * Schedules of pipelines as plans: for each rank the list of what it computes and sends for one
 * batch that is cut into micro-batches, planned, checked, costed and drawn without running it.
 *
 * The model is cut into `stages`, 0 first; each is on one rank, a rank may have several. A
 * micro-batch passes the stages upwards (forward) and downwards (backward). A rank does what
 * its list says one after the other; sends only start there and end in the background.
 *
 * @source Huang et al. 2019 (GPipe); Narayanan et al. 2019 and 2021 (1F1B, interleaved); Qi et
 *     al. 2024 (zero bubble); the notation is that of torch.distributed.pipelining
 */
#ifndef GYRE_PIPE_H
#define GYRE_PIPE_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an action does; X(name, the words of the notation). */
#define GY_PIPE_ACTION_LIST(X)                                                                 \
    X(FORWARD, "F")          /* the stage's outputs, of the micro-batch */                     \
    X(BACKWARD_INPUT, "I")   /* gradients of the stage's inputs, of its outputs' gradients */  \
    X(BACKWARD_WEIGHT, "W")  /* gradients of its parameters, added to their sums */            \
    X(BACKWARD, "B")         /* I and W as one */                                              \
    X(SEND_F, "SEND_F")      /* the stage's outputs to stage + 1 */                            \
    X(RECV_F, "RECV_F")      /* the stage's inputs from stage - 1 */                           \
    X(SEND_B, "SEND_B")      /* gradients of the stage's inputs to stage - 1 */                \
    X(RECV_B, "RECV_B")      /* gradients of its outputs from stage + 1 */                     \
    X(UPDATE, "REDUCE_GRAD") /* the sums of the stage's gradients are whole: its update */

typedef enum gy_pipe_kind {
#define GY_X(name, text) GY_PIPE_##name,
    GY_PIPE_ACTION_LIST(GY_X)
#undef GY_X
        GY_PIPE_KIND_COUNT
} gy_pipe_kind;

enum {
    GY_PIPE_RANKS_MAX = 1024,
    GY_PIPE_PAIRS_MAX = 1 << 20 /* stages times micro-batches */
};

/** One action of a rank. */
typedef struct gy_pipe_action {
    int32_t kind;  /* gy_pipe_kind */
    int32_t stage; /* whose action it is, in [0, stages); on this rank */
    int32_t micro; /* micro-batch, in [0, micros); -1: UPDATE */
    int32_t peer;  /* the other rank of a SEND or RECV; -1: none */
} gy_pipe_action;

typedef struct gy_pipe_list {
    gy_pipe_action *actions; /* (count) */
    size_t count, capacity;
} gy_pipe_list;

/**
 * The lists of all ranks. Between stages of one rank nothing is sent: the next stage reads what
 * the stage before it made. What an action's message is called follows from kind, stage and
 * micro-batch: SEND_F of (stage, micro) is taken by RECV_F of (stage + 1, micro), SEND_B of
 * (stage, micro) by RECV_B of (stage - 1, micro).
 */
typedef struct gy_pipe_schedule {
    int ranks, stages, micros;
    int32_t *rank_of;    /* (stages) */
    gy_pipe_list *lists; /* (ranks) */
} gy_pipe_schedule;

/** Which schedule; `schedule` is one of gy_pipe_name. */
typedef struct gy_pipe_query {
    const char *schedule; /* "gpipe", "1f1b", "interleaved", "zb-h1" */
    int ranks, micros;    /* both >= 1 */
    int chunks;           /* stages of a rank: s is on rank s % ranks; 0: 1 */
} gy_pipe_query;

/** Name of schedule `index` = 0, 1, ...; NULL: the list has ended. @threads any */
GY_API const char *gy_pipe_name(int index);

/**
 * Plan a schedule. Pure.
 *
 * gpipe: all forward, then all backward. 1f1b: a rank goes backward as soon as it can, so rank
 * i holds min(m, p - i) micro-batches. interleaved: 1f1b over several chunks a rank; it takes m
 * micro-batches in max(1, m / p) equal rounds, and refuses an m that these do not divide.
 * zb-h1: weights' gradients wait for what would be a bubble, with no more alive than p.
 *
 * @param schedule caller owns; gy_pipe_free
 * @return GY_OK; GY_ARG an unknown name (the text lists them), sizes out of bounds, an m or a
 *     number of chunks that the schedule does not allow; GY_NOMEM
 * @threads any
 * @cost O(actions)
 */
GY_API GY_MUST_CHECK gy_status gy_pipe_plan(const gy_pipe_query *query,
                                            gy_pipe_schedule **schedule);
/** NULL is fine. */
GY_API void gy_pipe_free(gy_pipe_schedule *schedule);

/** What a list may take; zero: no limit. */
typedef struct gy_pipe_limits {
    int alive_max; /* micro-batches on a rank, each counted once for each of its stages, from F
                      until W or B */
    int buffers;   /* messages from one rank to another that are sent and not received: who
                      sends the next one waits */
    bool is_ordered; /* gradients of a stage must be added in the order of micro-batches */
} gy_pipe_limits;

/** What a list takes, from its check. */
typedef struct gy_pipe_facts {
    int alive_max;   /* of the rank with most */
    int buffers_min; /* the smallest gy_pipe_limits.buffers that it passes with */
    bool is_ordered; /* gradients of each stage are added in the order of micro-batches */
} gy_pipe_facts;

/**
 * Prove a list: each stage is on one rank; each action once, after what it needs and on its
 * rank; sends and receives match; no rank waits for ever; updates come last.
 *
 * @param limits NULL: none
 * @param facts  set on success; NULL: not wanted
 * @return GY_OK; GY_STATE names rank, action and cause; GY_LIMIT more ranks, stages or
 *     micro-batches than can be checked; GY_NOMEM
 * @threads any
 * @cost O(actions)
 */
GY_API GY_MUST_CHECK gy_status gy_pipe_check(const gy_pipe_schedule *schedule,
                                             const gy_pipe_limits *limits,
                                             gy_pipe_facts *facts);

/** What one stage costs, of one micro-batch. */
typedef struct gy_pipe_cost {
    double forward, input, weight; /* s: F, I, W; B takes input + weight */
    double send;                   /* s: a transfer from this stage, upwards or downwards */
    int64_t send_bytes;            /* of such a transfer */
    int64_t held_bytes;            /* from F until W or B */
} gy_pipe_cost;

/** When an action runs: computing takes its time, a receive ends when its message has come. */
typedef struct gy_pipe_span {
    double begin_s, end_s;
} gy_pipe_span;

/** What a rank does in a step. */
typedef struct gy_pipe_rank {
    double busy_s, end_s; /* computing; until its last action has ended */
    int alive_max;        /* as gy_pipe_limits counts */
    int64_t held_max;     /* bytes */
    int64_t sent_bytes;
} gy_pipe_rank;

/** A step in virtual time. */
typedef struct gy_pipe_step {
    double time_s;       /* until the last action of all ranks has ended */
    double bubble;       /* share of the ranks' time in which they do not compute */
    gy_pipe_rank *ranks; /* (ranks) the caller's, may be NULL */
    gy_pipe_span *spans; /* (actions of rank 0, of rank 1, ...) the caller's, may be NULL */
} gy_pipe_step;

/** Actions of all ranks: the size of gy_pipe_step.spans. @threads any */
GY_API size_t gy_pipe_length(const gy_pipe_schedule *schedule);

/**
 * Play a list on a virtual clock. A rank computes one action at a time; messages from one rank
 * to another follow each other and disturb no computing; an update takes no time.
 *
 * @param costs (cost_count) of the stages, or one that all stages have
 * @param step  its pointers are read, all else is set
 * @return GY_OK; GY_ARG costs below 0 or of another number of stages; GY_STATE, GY_LIMIT the
 *     list is refused by gy_pipe_check; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_pipe_simulate(const gy_pipe_schedule *schedule,
                                                const gy_pipe_cost *costs, int cost_count,
                                                gy_pipe_step *step);

/** What gy_pipe_print prints. */
typedef enum gy_pipe_form {
    GY_PIPE_COMPUTING, /* F, I, W and B: what PyTorch calls compute_only */
    GY_PIPE_ALL,       /* transfers and REDUCE_GRAD as well: compute_comms */
} gy_pipe_form;

/**
 * Print lists in PyTorch's notation: a line a rank, `0F0,0F1,0B0` (stage, action, micro-batch).
 *
 * @param text becomes the lists; free it with gy_string_free
 * @return GY_OK; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_pipe_print(const gy_pipe_schedule *schedule,
                                             gy_pipe_form form, char **text);

/**
 * Parse lists in that notation. Numbers of stages and micro-batches follow from the forward
 * actions. Cells without an action are bubbles that PyTorch draws, and have no effect here; nor
 * have UNSHARD, RESHARD, WAIT_REDUCE_GRAD and WAIT_SEND. `(0F1;7B0)OVERLAP_F_B` is its parts.
 * Lists without transfers (or updates) get them: a receive before who needs it, a send behind
 * who makes it, updates at the end. The lists are not checked.
 *
 * @param path     for messages
 * @param schedule caller owns; gy_pipe_free
 * @return GY_OK; GY_FORMAT names path, line and action; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_pipe_parse(const char *text, size_t size_bytes,
                                             const char *path, gy_pipe_schedule **schedule);

/**
 * Draw a list in virtual time as text, with ranks as rows and time to the right, in panels that
 * fit `width` characters; with width 0 as a self-contained SVG file.
 *
 * @param title of the drawing
 * @param text  becomes the drawing; free it with gy_string_free
 * @return as gy_pipe_simulate; GY_LIMIT too many ranks or actions to draw
 */
GY_API GY_MUST_CHECK gy_status gy_pipe_picture(const gy_pipe_schedule *schedule,
                                               const gy_pipe_cost *costs, int cost_count,
                                               const char *title, int width, char **text);

#ifdef __cplusplus
}
#endif
#endif
