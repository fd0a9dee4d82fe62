/**
 * What planners and readers of plans share inside the room.
 */
#ifndef GY_PLAN_PLAN_PRIV_H
#define GY_PLAN_PLAN_PRIV_H

#include "base/alloc.h"
#include "plan/plan.h"

#define GY_PLANNER(name, operation, planner, cut, need, order, limits, parameter)              \
    gy_status planner(const gy_plan_request *request, int rank, gy_plan_sink *sink);
#include "plan/planners.def"
#undef GY_PLANNER

/** Blocks of a caller's buffer. */
static inline gy_blocks gy_in(int rank, int first, int run)
{
    return (gy_blocks){.buffer = GY_BUFFER_IN, .rank = rank, .first = first, .run = run};
}

static inline gy_blocks gy_out(int rank, int first, int run)
{
    return (gy_blocks){.buffer = GY_BUFFER_OUT, .rank = rank, .first = first, .run = run};
}

/** One block in a slot of a rank's staging or scratch. */
static inline gy_blocks gy_stage(int rank, int slot, int first)
{
    return (gy_blocks){
        .buffer = GY_BUFFER_STAGE, .rank = rank, .slot = slot, .first = first, .run = 1};
}

static inline gy_blocks gy_scratch(int rank, int slot, int first)
{
    return (gy_blocks){
        .buffer = GY_BUFFER_SCRATCH, .rank = rank, .slot = slot, .first = first, .run = 1};
}

/** Blocks of a rank's private copy of the vector. */
static inline gy_blocks gy_work(int rank, int first, int run)
{
    return (gy_blocks){.buffer = GY_BUFFER_WORK, .rank = rank, .first = first, .run = run};
}

static inline gy_blocks gy_wire(int first, int run)
{
    return (gy_blocks){.buffer = GY_BUFFER_WIRE, .first = first, .run = run};
}

/** `run` whole slots of a rank's scratch. */
static inline gy_blocks gy_scratch_whole(int rank, int slot, int run)
{
    return (gy_blocks){
        .buffer = GY_BUFFER_SCRATCH, .rank = rank, .slot = slot, .first = GY_WHOLE, .run = run};
}

/** Count a step, and pass it to the sink if the sink wants it. */
gy_status gy_plan_emit(gy_plan_sink *sink, const gy_step *step);
gy_status gy_plan_emit_copy(gy_plan_sink *sink, gy_blocks a, gy_blocks to);
gy_status gy_plan_emit_reduce(gy_plan_sink *sink, gy_blocks a, gy_blocks b, gy_blocks to);
gy_status gy_plan_emit_post(gy_plan_sink *sink, uint32_t mark);
gy_status gy_plan_emit_wait(gy_plan_sink *sink, int peer, uint32_t mark);

gy_status gy_plan_emit_send(gy_plan_sink *sink, int peer, gy_blocks a, int tag);
/** `after`: 1 + index of the send that must have ended; 0: none. */
gy_status gy_plan_emit_recv(gy_plan_sink *sink, int peer, gy_blocks to, int tag,
                            uint32_t after);

/**
 * A loop body emits `each` steps, `times` times: skip the iterations that lie completely
 * before the sink's window. Returns how many were skipped.
 */
static inline int gy_sink_skip(gy_plan_sink *sink, int64_t each, int times)
{
    if (sink->first <= sink->count || each <= 0 || times <= 0) {
        return 0;
    }
    int64_t fit = (int64_t)(sink->first - sink->count) / each;
    int left_out = fit < times ? (int)fit : times;
    sink->count += (uint32_t)(left_out * each);
    return left_out;
}

/** Blocks that a claiming rank sums over all ranks, in order. */
typedef struct gy_claims {
    const gy_plan_request *request;
    int rank, chunks; /* the planned rank; there are ranks * chunks blocks */
    uint32_t mark;    /* posted by ranks that have executed their claims */
    gy_blocks (*operand)(const gy_plan_request *request, int of, int block);
    gy_blocks (*result)(const gy_plan_request *request, int block);
} gy_claims;

/* planners/claims.c */
/** Emit the claims, and the wait until all have been executed. */
gy_status gy_plan_emit_claims(const gy_claims *claims, gy_plan_sink *sink);

enum { GY_SERVERS = 2, GY_SEGMENTS = 4 }; /* defaults */

/* plan.c */
/** GY_ARG, GY_LIMIT: the algorithm cannot do that. */
GY_MUST_CHECK gy_status gy_plan_request_check(const gy_algorithm *algorithm,
                                              const gy_plan_request *request);

/** From gy_plan_share: the inputs of the algorithm (GY_FROM_HOSTS, ...), otherwise NULL. */
struct gy_plan_shared {
    gy_arena arena;
    int hosts, widest;       /* widest: ranks of the largest host */
    int32_t *ranks;          /* (p) sorted by host, ascending within each */
    int32_t *begins;         /* (hosts + 1) where each host's ranks begin in `ranks` */
    int32_t *places;         /* (p) index of a rank within its host */
    int32_t *leaders;        /* (hosts) the root of broadcast and reduce, or the lowest rank */
    gy_block_run *singles;   /* (p) `ranks` as ranges of one */
    gy_block_run *runs;      /* the ranks of each host as ranges, host by host */
    int32_t *run_begins;     /* (hosts + 1) */
    int32_t *tour;           /* (p) all ranks, in the order of the ring */
    int32_t *tour_places;    /* (p) position of a rank in the tour */
    gy_block_run *tour_runs; /* (p) `tour` as ranges of one */
    int32_t *parents;        /* (p) parents in the tree; the root has its own number */
    int32_t *depths;         /* (p) depths in the tree */
    int deepest;
    int32_t *child_begins; /* (p + 1) begins of a rank's children in `children`, */
    int32_t *children;     /* (p - 1) the child served last comes first */
};

/* planners/hosts.c */
/** Call `planner` with the request's `shared`, which is computed for the call if there is none;
 * `from` selects its contents: GY_FROM_HOSTS, ... */
gy_status gy_plan_with_shared(const gy_plan_request *request, int rank, gy_plan_sink *sink,
                              unsigned from, gy_planner planner);
/* planners/weighted.c */
gy_status gy_plan_find_tour(const gy_plan_request *request, gy_plan_shared *shared);
gy_status gy_plan_grow_tree(const gy_plan_request *request, gy_plan_shared *shared);

/* parameter.c */
/** The number in the request's parameter; `otherwise` if there is none. */
int gy_plan_request_number(const gy_plan_request *request, int otherwise);
/** GY_ARG unless the request's parameter is one that the algorithm takes. */
GY_MUST_CHECK gy_status gy_plan_request_check_parameter(const gy_algorithm *algorithm,
                                                        const gy_plan_request *request);
/** A hierarchy's algorithm for an operation inside a host; NULL: there is none. */
const gy_algorithm *gy_plan_request_inner(const gy_plan_request *request,
                                          gy_operation operation);
/** A hierarchy's algorithm across hosts, and its operation; NULL: there is none. */
const gy_algorithm *gy_plan_request_outer(const gy_plan_request *request,
                                          gy_plan_request *outer);

static inline int gy_request_chunks(const gy_plan_request *request)
{
    return request->chunks > 0 ? request->chunks : 1;
}

enum { GY_TREES = 2 }; /* most trees used at once */

/** A rank's place in a tree. */
typedef struct gy_tree_spot {
    int parent, child_count; /* parent -1: the root */
    /* in the order in which their sums are added; a broadcast serves them in reverse */
    const int32_t *children;
    int depth; /* below the top */
} gy_tree_spot;

/** One rank's part in trees, each of which carries a part of the vector. */
typedef struct gy_tree_plan {
    const gy_plan_request *request;
    gy_plan_sink *sink;
    int rank, trees;
    /* the root of all trees; reduce sends the sum on if the request's root is another rank */
    int top;
    int deepest; /* largest depth of a rank in any of the trees */
    gy_tree_spot spots[GY_TREES];
} gy_tree_plan;

/* planners/tree.c */
gy_status gy_plan_trees_broadcast(const gy_tree_plan *plan);
gy_status gy_plan_trees_reduce(const gy_tree_plan *plan);
gy_status gy_plan_trees_allreduce(const gy_tree_plan *plan);

/** The largest power of two of the ranks (the core), and the relation of the others to it: the
 * first 2 * extra ranks are pairs in which the odd rank is outside the core, represented by
 * the even one. */
typedef struct gy_core {
    int size, extra;
    int id; /* number within the core of this rank, or of its representative */
    bool is_out, has_guest;
} gy_core;

/* planners/doubling.c */
gy_core gy_core_of(int ranks, int rank);
int gy_core_rank(const gy_core *core, int id);

/** A message under way: what its receive must match, and the visitor's notes. */
typedef struct gy_plan_message {
    uint32_t index; /* of the send */
    int32_t first, run;
    uint16_t chunk;
    int round, chain; /* the visitor's: */
    uint32_t number;
    double at;
} gy_plan_message;

/** Called for each step in an order that a real run could have. `message`: for SEND, to be
 * filled in; for RECV and RECV_REDUCE, as the send filled it in. */
typedef struct gy_visitor {
    gy_status (*visit)(struct gy_visitor *visitor, int rank, const gy_step *step,
                       gy_plan_message *message);
    /* When the receive of that message ends, as far as known: earlier receives are visited
     * earlier. NULL: any order. */
    double (*when)(const struct gy_visitor *visitor, int rank, const gy_plan_message *message);
    uint32_t index; /* index of the visited step within its rank */
} gy_visitor;

/**
 * Visit all ranks' steps to the end. A send ends when its receive has been visited.
 * @return GY_OK; GY_STATE malformed, unmatched or deadlocked steps, or what the visitor returns
 * @cost O(steps), and O(ranks) for each WAIT on all ranks
 */
GY_MUST_CHECK gy_status gy_plan_walk(gy_plan *plan, gy_visitor *visitor);

/** The communication depth of a rank. */
typedef struct gy_depth {
    int round;   /* in a model where a rank sends and receives one message a round */
    int chain;   /* length of the longest chain of messages and posts */
    int out, in; /* rounds of its last send and its last receive */
} gy_depth;

static inline void gy_depth_send(gy_depth *here, gy_plan_message *message)
{
    here->out = (here->round > here->out ? here->round : here->out) + 1;
    message->round = here->out;
    message->chain = here->chain + 1;
}

static inline void gy_depth_recv(gy_depth *here, const gy_plan_message *came)
{
    here->in = came->round > here->in + 1 ? came->round : here->in + 1;
    here->round = here->in > here->round ? here->in : here->round;
    here->chain = came->chain > here->chain ? came->chain : here->chain;
}

/** `posted`: the other rank's depth at its post. */
static inline void gy_depth_wait(gy_depth *here, const gy_depth *posted)
{
    here->round = posted->round + 1 > here->round ? posted->round + 1 : here->round;
    here->chain = posted->chain + 1 > here->chain ? posted->chain + 1 : here->chain;
}

/* links.c: the cost of links, for cost model and simulator */

/** Seconds before the first byte, and for each byte, from rank to rank. */
double gy_plan_links_alpha(const gy_links *links, const gy_topology *topology, int from,
                           int to);
double gy_plan_links_beta(const gy_links *links, const gy_topology *topology, int from, int to);

/** A rank's sends that may not have ended, oldest first. Zero-initialise; free items. */
typedef struct gy_open_sends {
    struct gy_open_send {
        uint32_t index;
        double end;
    } * items; /* (capacity) a ring buffer */
    size_t first, count, capacity;
} gy_open_sends;

/** Add the send that is step `index`; forgets sends that ended by `now`. GY_NOMEM */
gy_status gy_open_sends_add(gy_open_sends *open, uint32_t index, double end, double now);
/** When the send named in gy_step.after ends; 0: it has ended. */
double gy_open_sends_end(const gy_open_sends *open, uint32_t after);

/** Messages that arrive over one link, which serves them in the order of their heads. For a
 * reader that does not proceed in the order of time. Zero-initialise; free items. */
typedef struct gy_arrivals {
    struct gy_arrival {
        double head, busy, end;
        uint32_t number;
        bool is_taken;
    } * items;                            /* [first, first + count) by head */
    size_t first, count, known, capacity; /* the end of the first `known` messages is known */
    uint32_t numbers;
    double before; /* when the removed messages had passed */
} gy_arrivals;

/** Add a message whose head arrives at `head` and that occupies the link for `busy` seconds;
 * stores its number in the message. GY_NOMEM */
gy_status gy_arrivals_add(gy_arrivals *arrivals, double head, double busy,
                          gy_plan_message *message);
/** When the message has passed, after all messages added so far whose heads came earlier. */
double gy_arrivals_end(gy_arrivals *arrivals, const gy_plan_message *message);
/** The same, and removes the message. */
double gy_arrivals_take(gy_arrivals *arrivals, const gy_plan_message *message);

/** The posts of a rank, by ascending marks. Zero-initialise; free items. */
typedef struct gy_posts {
    struct gy_post {
        uint32_t mark;
        double at; /* when others see it */
        gy_depth depth;
    } * items;
    size_t count, capacity;
} gy_posts;

/** Add a post. GY_NOMEM */
gy_status gy_posts_add(gy_posts *posts, uint32_t mark, double at, const gy_depth *depth);
/** The first post with that mark or more; NULL: none yet. */
const struct gy_post *gy_posts_find(const gy_posts *posts, uint32_t mark);

/* picture.c, picture_svg.c */
GY_MUST_CHECK gy_status gy_picture_text(gy_plan *plan, int width, gy_text *out);
GY_MUST_CHECK gy_status gy_picture_svg(gy_plan *plan, gy_text *svg);

/** Record a failure that names rank and step: "rank 2 step 7 (send block 3 to rank 1):
 * cause". */
gy_status gy_plan_wrong(const gy_plan *plan, int rank, uint32_t index, const char *format, ...)
    GY_PRINTF(4, 5);

#endif
