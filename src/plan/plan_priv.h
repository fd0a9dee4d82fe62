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

/** `run` slots of a rank's scratch as they are. */
static inline gy_blocks gy_scratch_whole(int rank, int slot, int run)
{
    return (gy_blocks){
        .buffer = GY_BUFFER_SCRATCH, .rank = rank, .slot = slot, .first = GY_WHOLE, .run = run};
}

/** Count a step, and hand it to the sink where it wants it. */
gy_status gy_plan_emit(gy_plan_sink *sink, const gy_step *step);
gy_status gy_plan_emit_copy(gy_plan_sink *sink, gy_blocks a, gy_blocks to);
gy_status gy_plan_emit_reduce(gy_plan_sink *sink, gy_blocks a, gy_blocks b, gy_blocks to);
gy_status gy_plan_emit_post(gy_plan_sink *sink, uint32_t mark);
gy_status gy_plan_emit_wait(gy_plan_sink *sink, int peer, uint32_t mark);

gy_status gy_plan_emit_send(gy_plan_sink *sink, int peer, gy_blocks a, int tag);
/** `after`: 1 + index of the send that must have ended, 0 none. */
gy_status gy_plan_emit_recv(gy_plan_sink *sink, int peer, gy_blocks to, int tag,
                            uint32_t after);

/**
 * Where the next `times` repetitions of a loop body emit `each` steps: leave out the whole ones
 * that lie before the sink's window. Returns how many were left out.
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

/** Blocks that whoever claims them sums over all ranks, in order. */
typedef struct gy_claims {
    const gy_plan_request *request;
    int rank, chunks; /* the planned one; blocks are ranks * chunks */
    uint32_t mark;    /* of who has carried out its claims */
    gy_blocks (*operand)(const gy_plan_request *request, int of, int block);
    gy_blocks (*result)(const gy_plan_request *request, int block);
} gy_claims;

/* planners/claims.c */
/** The claims, and the wait until all have been carried out. */
gy_status gy_plan_emit_claims(const gy_claims *claims, gy_plan_sink *sink);

enum { GY_SERVERS = 2, GY_SEGMENTS = 4 }; /* where no number is given */

/* plan.c */
/** GY_ARG, GY_LIMIT: the algorithm cannot do that. */
GY_MUST_CHECK gy_status gy_plan_request_check(const gy_algorithm *algorithm,
                                              const gy_plan_request *request);

/** Made by gy_plan_share: what the algorithm is planned from (GY_FROM_HOSTS, ...), else NULL.
 */
struct gy_plan_shared {
    gy_arena arena;
    int hosts, widest;       /* widest: ranks of the largest host */
    int32_t *ranks;          /* (p) host after host, rising in each */
    int32_t *begins;         /* (hosts + 1) where each host's begin in `ranks` */
    int32_t *places;         /* (p) of a rank in its host */
    int32_t *leaders;        /* (hosts) the root of broadcast and reduce, or the lowest */
    gy_block_run *singles;   /* (p) `ranks` as runs of one */
    gy_block_run *runs;      /* the ranks of each host as runs, host after host */
    int32_t *run_begins;     /* (hosts + 1) */
    int32_t *tour;           /* (p) all ranks, the neighbours on a ring after each other */
    int32_t *tour_places;    /* (p) of a rank in the tour */
    gy_block_run *tour_runs; /* (p) `tour` as runs of one */
    int32_t *parents;        /* (p) in the tree; the top's own number */
    int32_t *depths;         /* (p) in the tree */
    int deepest;
    int32_t *child_begins; /* (p + 1) in `children`, */
    int32_t *children;     /* (p - 1) the last told first */
};

/* planners/hosts.c */
/** Call `planner` with the request's `shared`, which is made for the call if there is none;
 * `from` says what of it: GY_FROM_HOSTS, ... */
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
/** A hierarchy's algorithm across hosts, and what it is asked for; NULL: there is none. */
const gy_algorithm *gy_plan_request_outer(const gy_plan_request *request,
                                          gy_plan_request *outer);

static inline int gy_request_chunks(const gy_plan_request *request)
{
    return request->chunks > 0 ? request->chunks : 1;
}

enum { GY_TREES = 2 }; /* at once */

/** A rank's place in a tree. */
typedef struct gy_tree_spot {
    int parent, child_count; /* parent -1: on top */
    const int32_t *children; /* in the order in which their sums are added; told backwards */
    int depth;               /* below the top */
} gy_tree_spot;

/** One rank's part in trees that carry a part of the vector each. */
typedef struct gy_tree_plan {
    const gy_plan_request *request;
    gy_plan_sink *sink;
    int rank, trees;
    int top; /* the rank over all trees; reduce sends its sum on where the root is another */
    int deepest; /* no rank is deeper in any of the trees */
    gy_tree_spot spots[GY_TREES];
} gy_tree_plan;

/* planners/tree.c */
gy_status gy_plan_trees_broadcast(const gy_tree_plan *plan);
gy_status gy_plan_trees_reduce(const gy_tree_plan *plan);
gy_status gy_plan_trees_allreduce(const gy_tree_plan *plan);

/** A power of two of the ranks, the core, and how the others stand beside it: the first 2 *
 * extra ranks are pairs of which the odd one is out, the even one's guest. */
typedef struct gy_core {
    int size, extra;
    int id; /* of this rank, or its host, in the core */
    bool is_out, has_guest;
} gy_core;

/* planners/doubling.c */
gy_core gy_core_of(int ranks, int rank);
int gy_core_rank(const gy_core *core, int id);

/** A message on its way: what its receive must name, and what the visitor notes. */
typedef struct gy_plan_message {
    uint32_t index; /* of the send */
    int32_t first, run;
    uint16_t chunk;
    int round, chain; /* the visitor's: */
    uint32_t number;
    double at;
} gy_plan_message;

/** Called with each step in an order that a real run could have. `message`: of SEND, to be
 * noted in; of RECV and RECV_REDUCE, what the send noted. */
typedef struct gy_visitor {
    gy_status (*visit)(struct gy_visitor *visitor, int rank, const gy_step *step,
                       gy_plan_message *message);
    /* When the receive of that message ends, as far as one knows: what happens earlier is then
     * visited earlier. NULL: in any order. */
    double (*when)(const struct gy_visitor *visitor, int rank, const gy_plan_message *message);
    uint32_t index; /* of the step visited, among its rank's */
} gy_visitor;

/**
 * Walk all ranks' steps to the end. A send ends when its receive has been visited.
 * @return GY_OK; GY_STATE malformed, unmatched or deadlocked steps, or what the visitor returns
 * @cost O(steps), and O(ranks) for each WAIT on all
 */
GY_MUST_CHECK gy_status gy_plan_walk(gy_plan *plan, gy_visitor *visitor);

/** How deep in communication a rank is. */
typedef struct gy_depth {
    int round;   /* where a rank sends one message and takes one message a round */
    int chain;   /* messages and posts that had to follow each other */
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

/** `posted`: how deep the other rank was when it posted. */
static inline void gy_depth_wait(gy_depth *here, const gy_depth *posted)
{
    here->round = posted->round + 1 > here->round ? posted->round + 1 : here->round;
    here->chain = posted->chain + 1 > here->chain ? posted->chain + 1 : here->chain;
}

/* links.c: the cost of links, for model and simulator */

/** Seconds before the first byte, and of each byte, from rank to rank. */
double gy_plan_links_alpha(const gy_links *links, const gy_topology *topology, int from,
                           int to);
double gy_plan_links_beta(const gy_links *links, const gy_topology *topology, int from, int to);

/** A rank's sends that may not have ended, oldest first. Zero-initialise; free items. */
typedef struct gy_open_sends {
    struct gy_open_send {
        uint32_t index;
        double end;
    } * items; /* (capacity) a ring */
    size_t first, count, capacity;
} gy_open_sends;

/** Note the send that is step `index`; those that ended by `now` are forgotten. GY_NOMEM */
gy_status gy_open_sends_add(gy_open_sends *open, uint32_t index, double end, double now);
/** When the send named in gy_step.after ends; 0: it has. */
double gy_open_sends_end(const gy_open_sends *open, uint32_t after);

/** Messages that come in over one link, which serves them in the order of their heads. For a
 * reader that does not go by time. Zero-initialise; free items. */
typedef struct gy_arrivals {
    struct gy_arrival {
        double head, busy, end;
        uint32_t number;
        bool is_taken;
    } * items;                            /* [first, first + count) by head */
    size_t first, count, known, capacity; /* the first `known` have their end */
    uint32_t numbers;
    double before; /* when those that are gone had passed */
} gy_arrivals;

/** A message whose head comes at `head` needs the link for `busy` seconds; notes its number in
 * the message. GY_NOMEM */
gy_status gy_arrivals_add(gy_arrivals *arrivals, double head, double busy,
                          gy_plan_message *message);
/** When the message has passed, after all whose heads came before it, as far as they were
 * added. */
double gy_arrivals_end(gy_arrivals *arrivals, const gy_plan_message *message);
/** The same; it is taken out. */
double gy_arrivals_take(gy_arrivals *arrivals, const gy_plan_message *message);

/** What a rank has posted, by rising marks. Zero-initialise; free items. */
typedef struct gy_posts {
    struct gy_post {
        uint32_t mark;
        double at; /* when others see it */
        gy_depth depth;
    } * items;
    size_t count, capacity;
} gy_posts;

/** GY_NOMEM */
gy_status gy_posts_add(gy_posts *posts, uint32_t mark, double at, const gy_depth *depth);
/** The first post of that mark or more; NULL: not yet. */
const struct gy_post *gy_posts_find(const gy_posts *posts, uint32_t mark);

/* picture.c, picture_svg.c */
GY_MUST_CHECK gy_status gy_picture_text(gy_plan *plan, int width, gy_text *out);
GY_MUST_CHECK gy_status gy_picture_svg(gy_plan *plan, gy_text *svg);

/** A failure that names rank and step: "rank 2 step 7 (send block 3 to rank 1): cause". */
gy_status gy_plan_wrong(const gy_plan *plan, int rank, uint32_t index, const char *format, ...)
    GY_PRINTF(4, 5);

#endif
