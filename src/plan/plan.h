/**
 * Collectives as plans: for each rank a list of steps that any transport can run, a checker can
 * prove and a model can price. A planner is pure: no I/O, no clock, no lock.
 *
 * A plan cuts the vector it works on into blocks (gy_layout says which elements a block holds),
 * so it knows no sizes and no element types. Steps of a rank run in the order emitted, with one
 * exception: a SEND only starts there and ends in the background, sends to one peer in order.
 * What must not happen before a send has ended (overwriting its source) names that send in
 * `after`; a rank's plan ends when its last step and all its sends have ended.
 *
 * @source lecture B, "Allreduce" (tree, ring); Thakur, Rabenseifner, Gropp: "Optimization of
 *         collective communication operations in MPICH", IJHPCA 2005
 */
#ifndef GY_PLAN_PLAN_H
#define GY_PLAN_PLAN_H

#include "base/text.h"

#include <gyre/base.h>

typedef enum gy_operation {
    GY_OPERATION_ALLREDUCE,
    GY_OPERATION_REDUCE_SCATTER,
    GY_OPERATION_ALLGATHER,
    GY_OPERATION_BROADCAST,
    GY_OPERATION_REDUCE,
    GY_OPERATION_BARRIER,
    GY_OPERATION_COUNT
} gy_operation;

/** "allreduce"; static. */
const char *gy_operation_name(gy_operation operation);

/** What a block lies in. */
typedef enum gy_buffer {
    GY_BUFFER_IN,    /* the caller's input: never written, unless in place */
    GY_BUFFER_OUT,   /* the caller's output */
    GY_BUFFER_STAGE, /* memory of a rank that its peers can read, cut into slots of one block */
    GY_BUFFER_SCRATCH, /* private memory of a rank, cut into slots of one block */
    GY_BUFFER_WIRE,    /* what arrives from step.peer */
    GY_BUFFER_COUNT
} gy_buffer;

enum {
    GY_EVERY = -1, /* as a rank: that of every rank (only written to), or all peers (WAIT) */
    GY_PLAN_RANKS = 4096 /* ranks that a plan can have */
};

/**
 * `run` consecutive blocks from `first` on. Blocks are numbered through the whole vector, also
 * where a buffer holds only some of it (the input of allgather: the rank's own part). In STAGE
 * and SCRATCH they lie in the slots from `slot` on; `first` then says whose size they have.
 */
typedef struct gy_blocks {
    int32_t first, run, slot;
    int16_t rank; /* whose buffer: the planning rank's own, or one that it reads or writes
                     directly */
    int16_t buffer;
} gy_blocks;

typedef enum gy_step_kind {
    GY_STEP_SEND,        /* a to peer */
    GY_STEP_RECV,        /* to from peer */
    GY_STEP_RECV_REDUCE, /* to = a op b; one of a and b is WIRE */
    GY_STEP_COPY,   /* to = a: local, a get (a of another rank) or a put (to of another rank) */
    GY_STEP_REDUCE, /* to = a op b, in this order: operations need not commute */
    GY_STEP_POST, /* tell all ranks: this rank reached `mark`, what it did before is visible */
    GY_STEP_WAIT, /* until peer (GY_EVERY: all others) posted `mark` or more */
    GY_STEP_COUNT
} gy_step_kind;

typedef struct gy_step {
    gy_step_kind kind;
    int32_t peer;
    gy_blocks a, b, to;
    uint32_t after[2]; /* 1 + index of a send of this rank that must have ended; 0: none */
    uint32_t mark;     /* POST, WAIT: counts up from 1 */
    uint16_t chunk;    /* tag of a message; both sides must name the same */
} gy_step;

/** In which order a reduction combines the ranks' contributions; whatever it is, all ranks get
 * one result. */
typedef enum gy_order {
    GY_ORDER_ANY,  /* each exactly once, the same way on all ranks and in every run */
    GY_ORDER_RANK, /* from rank 0 to the last, bracketed in some fixed way */
    GY_ORDER_FOLD, /* ((x0 op x1) op x2) op ...: the same bits from every algorithm that
                      promises it */
} gy_order;

/** What a planner is asked for. */
typedef struct gy_plan_request {
    gy_operation operation;
    int ranks;
    int root;      /* broadcast, reduce */
    int chunks;    /* pieces that follow each other through the algorithm; 0 is 1 */
    bool in_place; /* input and output are one (their common blocks); broadcast always is */
    gy_order order;
} gy_plan_request;

/** How a planner cuts the vector; blocks = parts * chunks, numbered part by part. */
typedef enum gy_cut {
    GY_CUT_CHUNKS,  /* 1 part of `chunks` */
    GY_CUT_RANKS,   /* one part a rank, each of `chunks` */
    GY_CUT_WINDOWS, /* `chunks` parts (windows), each of one chunk a rank */
} gy_cut;

/** Takes a rank's steps in order. The first member of whatever a reader of plans needs. */
typedef struct gy_plan_sink {
    gy_status (*take)(struct gy_plan_sink *sink, const gy_step *step);
    uint32_t count; /* steps taken so far */
} gy_plan_sink;

typedef gy_status (*gy_planner)(const gy_plan_request *request, int rank, gy_plan_sink *sink);

/** What an algorithm needs of the transport under it. */
typedef enum gy_need {
    GY_NEED_MESSAGES, /* send and receive */
    GY_NEED_STAGE,    /* posts and staging memory that peers read */
    GY_NEED_DIRECT,   /* posts and input and output that peers read and write (registered) */
} gy_need;

/** A row of planners.def. */
typedef struct gy_algorithm {
    const char *name;
    gy_operation operation;
    gy_planner plan;
    gy_cut cut;
    gy_need need;
    gy_order order; /* promised */
} gy_algorithm;

extern const gy_algorithm gy_algorithms[];
extern const size_t gy_algorithm_count;

/** The row of an operation with that name; NULL: there is none. */
const gy_algorithm *gy_algorithm_find(gy_operation operation, const char *name);

/** Parts and chunks of a request's vector under a cut. */
int gy_cut_parts(gy_cut cut, const gy_plan_request *request);
int gy_cut_chunks(gy_cut cut, const gy_plan_request *request);

/**
 * Which elements a block holds: `count` elements in `parts` parts of equal length (rounded up
 * to part_unit; the last ones may be shorter or empty), each part likewise in `chunks` chunks.
 */
typedef struct gy_layout {
    int64_t count;
    int32_t parts, chunks;
    int64_t part_unit, chunk_unit; /* in elements, >= 1 */
} gy_layout;

/** First element of block `block` in [0, parts * chunks]; the end of the vector for the last.
 */
int64_t gy_layout_at(const gy_layout *layout, int64_t block);
/** Elements of the longest block. */
int64_t gy_layout_longest(const gy_layout *layout);

/** One rank's steps, stored. Zero-initialise the sink's storage with gy_steps_init. */
typedef struct gy_steps {
    gy_plan_sink sink;
    gy_step *items;
    size_t count, capacity;
    int32_t stage_slots, scratch_slots; /* how many the steps use */
    uint32_t last_mark;
} gy_steps;

void gy_steps_init(gy_steps *steps);
void gy_steps_free(gy_steps *steps);

/**
 * Plan for one rank. Checks the request (GY_ARG), then calls the algorithm's planner.
 * @return GY_OK; GY_ARG the request names no possible collective, or a stronger order than
 * promised; whatever the sink returns
 */
GY_MUST_CHECK gy_status gy_plan_rank(const gy_algorithm *algorithm,
                                     const gy_plan_request *request, int rank,
                                     gy_plan_sink *sink);

/** All ranks' steps: what the checker, the model and the drawer read. */
typedef struct gy_plan {
    const gy_algorithm *algorithm;
    gy_plan_request request;
    gy_steps *ranks; /* request.ranks of them */
} gy_plan;

GY_MUST_CHECK gy_status gy_plan_new(const gy_algorithm *algorithm,
                                    const gy_plan_request *request, gy_plan **plan);
void gy_plan_free(gy_plan *plan);

/**
 * Prove a plan by running it on symbols: every result holds each contribution exactly once, in
 * the promised order and alike on all ranks; sends and receives match; no deadlock even when a
 * send ends only with its receive; no rank writes what another may be reading, or reads what
 * may not be written yet; every access lies inside its buffer; nobody returns while a peer
 * still uses its buffers.
 * @return GY_OK; GY_STATE with rank, step and cause in the text; GY_NOMEM
 * @cost O(steps * ranks)
 */
GY_MUST_CHECK gy_status gy_plan_check(const gy_plan *plan);

/** Links and arithmetic of the model: one message costs alpha + bytes * beta, combining bytes *
 * gamma. */
typedef struct gy_links {
    double alpha, beta, gamma; /* s, s per byte, s per byte combined or copied */
} gy_links;

typedef struct gy_price {
    int rounds;       /* communication depth: messages or posts that must follow each other */
    int64_t sent_max; /* bytes a rank sends (or others read from it), the most of any rank */
    int64_t received_max; /* likewise received */
    int64_t sent_sum;     /* over all ranks */
    int fan_in_max;       /* ranks that one rank gets data from */
    double seconds;
} gy_price;

/**
 * Price a plan without running it. Each rank has one link in each direction.
 * @return GY_OK; GY_STATE the plan does not run to its end; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_plan_price(const gy_plan *plan, int64_t count, int64_t element_bytes,
                                      const gy_links *links, gy_price *price);

/** One step in words, "send block 3 to rank 1". */
void gy_step_print(gy_text *out, const gy_step *step, int rank);
/** The whole plan as text, a paragraph a rank. */
void gy_plan_draw(gy_text *out, const gy_plan *plan);

#endif
