/**
 * Collectives as plans: for each rank a list of steps that any transport can execute, a
 * checker can prove and a cost model can evaluate. A planner is pure: no I/O, no clock, no
 * lock.
 *
 * A plan divides the vector into blocks (gy_layout says which elements a block has), so it
 * knows no sizes and no element types. A rank's steps run in the order emitted, with one
 * exception: a SEND only starts there and ends in the background, sends to one peer in order. A
 * step that must not run before a send has ended (because it overwrites the source) names that
 * send in `after`. A rank's plan ends when its last step and all its sends have ended.
 *
 * @source lecture B, "Allreduce" (tree, ring); Thakur, Rabenseifner, Gropp: "Optimization of
 *     collective communication operations in MPICH", IJHPCA 2005
 */
#ifndef GY_PLAN_PLAN_H
#define GY_PLAN_PLAN_H

#include "base/text.h"

#include <gyre/operation.h>
#include <gyre/plan.h>

/** The buffer that a block is in. */
typedef enum gy_buffer {
    GY_BUFFER_IN,  /* the caller's input: never written, unless in place */
    GY_BUFFER_OUT, /* the caller's output */
    /* a rank's memory that its peers can read, divided into slots of one block */
    GY_BUFFER_STAGE,
    GY_BUFFER_SCRATCH, /* a rank's private memory, divided into slots of one block */
    /* a private copy of the whole vector, its blocks in order; slot says which copy */
    GY_BUFFER_WORK,
    GY_BUFFER_WIRE, /* data arriving from step.peer */
    GY_BUFFER_COUNT
} gy_buffer;

enum {
    GY_EVERY = -1, /* as a rank: the buffers of every rank (writes only), or all peers (WAIT) */
    GY_WHOLE = -1, /* as gy_blocks.first: whole slots */
    GY_PLAN_RANKS = 65536, /* most ranks of a plan */
    GY_PLAN_PARAMETER = 40 /* bytes of an algorithm's parameter with its NUL */
};

/**
 * `run` consecutive blocks from `first` on. Blocks are numbered through the whole vector, also
 * where a buffer has only some of them (the input of allgather: the rank's own part; see
 * gy_plan_block_is_held). In STAGE and SCRATCH a block is in slot `slot`, which has room for a
 * block of any length; there run is 1, unless first is GY_WHOLE: then the step moves `run`
 * whole slots from `slot` on in one message, each slot_bytes long whatever it contains.
 */
typedef struct gy_blocks {
    int32_t first, run, slot;
    /* owner of the buffer: the planning rank, or a rank that it reads or writes directly */
    int32_t rank;
    int32_t buffer;
} gy_blocks;

typedef enum gy_step_kind {
    GY_STEP_SEND,        /* a to peer */
    GY_STEP_RECV,        /* to from peer */
    GY_STEP_RECV_REDUCE, /* to = a op b; one of a and b is WIRE */
    GY_STEP_COPY,   /* to = a: local, a get (a of another rank) or a put (to of another rank) */
    GY_STEP_REDUCE, /* to = a op b, in this order: operations need not be commutative */
    /* publish to all ranks that this rank has reached `mark`, and everything it did before */
    GY_STEP_POST,
    GY_STEP_WAIT, /* wait until peer (GY_EVERY: all others) has posted `mark` or more */
    /* the steps up to the next CLAIM or CLAIMED are claim `mark`: the rank that takes it first
     * executes them, the others skip them */
    GY_STEP_CLAIM,
    GY_STEP_CLAIMED, /* wait until claims 1 to `mark` have been executed */
    GY_STEP_COUNT
} gy_step_kind;

typedef struct gy_step {
    gy_step_kind kind;
    int32_t peer;
    gy_blocks a, b, to;
    uint32_t after[2]; /* 1 + index of a send of this rank that must have ended; 0: none */
    uint32_t mark;     /* POST, WAIT, CLAIM, CLAIMED: ascending from 1 */
    uint16_t chunk;    /* tag of a message; must be the same on both sides */
} gy_step;

/** The order in which a reduction combines the ranks' contributions. In each case all ranks get
 * the same result. */
typedef enum gy_plan_order {
    /* each contribution exactly once, in the same way on all ranks and in every run */
    GY_ORDER_ANY,
    /* from rank 0 to the last, with some fixed bracketing: for operations that are not
     * commutative */
    GY_ORDER_RANK,
    /* ((x0 op x1) op x2) op ...: every algorithm that guarantees it gives the same bits, also
     * for f16 and bf16, except for scans, whose intermediate sums each rank rounds */
    GY_ORDER_FOLD,
} gy_plan_order;

/** The hosts of the ranks. Borrowed by requests; a request without one means one host. */
typedef struct gy_topology {
    const int32_t *host_of; /* (ranks) in [0, hosts) */
    int32_t hosts;
    double within, across; /* relative cost of a byte between two ranks of a host, and of two
                              hosts */
    const double *between; /* (hosts, hosts) from, to: replaces `across`; NULL: all alike */
} gy_topology;

/** Data that the plans of all ranks share (gy_plan_share). */
typedef struct gy_plan_shared gy_plan_shared;

/** Which ranks execute the claims of a plan (GY_HAS_CLAIMS). */
enum {
    /* the first to come: CLAIM and CLAIMED steps, which only runners can read */
    GY_CLAIMS_FREE = -1,
    GY_CLAIMS_USUAL = 0, /* the rank to which the part belongs; */
    /* 1 and more: ranks drawn at random with that seed. Such plans have POST and WAIT instead,
     * without waits for ranks that have no claim, so every reader can read them. */
};

/** The input of a planner: a value, except for topology and shared data. */
typedef struct gy_plan_request {
    gy_operation operation;
    int ranks;
    int root;   /* broadcast, reduce, gather, scatter */
    int chunks; /* chunks that are pipelined through the algorithm; 0 is 1 */
    /* input and output are the same buffer (their common blocks); always so for broadcast;
     * all-to-all: part s of the output replaces part s of the input */
    bool in_place;
    gy_plan_order order;
    int claims;                  /* GY_CLAIMS_FREE, GY_CLAIMS_USUAL, or a seed */
    const gy_topology *topology; /* NULL: all on one host */
    /* for this request; NULL: each rank computes the data itself */
    const gy_plan_shared *shared;
    /* the text after the algorithm's name and a colon; "": its default */
    char parameter[GY_PLAN_PARAMETER];
} gy_plan_request;

/** Relative cost of a byte from a rank of host `from` to one of host `to`; 1 without a
 * topology. */
double gy_plan_host_cost(const gy_topology *topology, int from, int to);
/** The same from rank to rank. */
double gy_topology_cost(const gy_topology *topology, int from, int to);
/** The host of a rank; 0 without a topology. */
static inline int gy_host_of(const gy_topology *topology, int rank)
{
    return topology == NULL ? 0 : topology->host_of[rank];
}

/** How a planner divides the vector; blocks = parts * chunks, numbered part by part. */
typedef enum gy_cut {
    GY_CUT_CHUNKS,  /* 1 part of `chunks` */
    GY_CUT_RANKS,   /* one part a rank, each of `chunks` */
    GY_CUT_WINDOWS, /* `chunks` parts (windows), each of one chunk a rank */
    /* all-to-all: part s * ranks + d goes from rank s to rank d, each of `chunks` */
    GY_CUT_PAIRS,
    GY_CUT_HALVES,   /* 2 parts, each of `chunks` */
    GY_CUT_POWER,    /* as many parts as the largest power of two that is at most `ranks` */
    GY_CUT_SEGMENTS, /* one part a rank, each of `chunks` * segments (request.parameter) */
    GY_CUT_SERVERS,  /* one part a server (request.parameter) */
    GY_CUT_OUTER,    /* as the outer algorithm of a hierarchy divides it for the hosts */
} gy_cut;

/**
 * Takes a rank's steps in order; the first member of a plan reader's state. A reader that
 * needs no more steps returns GY_CANCELLED, which the planner passes on.
 */
typedef struct gy_plan_sink {
    gy_status (*take)(struct gy_plan_sink *sink, const gy_step *step);
    uint32_t count; /* steps emitted so far */
    uint32_t first; /* earlier steps are only counted: planners may skip them (gy_sink_skip) */
} gy_plan_sink;

typedef gy_status (*gy_planner)(const gy_plan_request *request, int rank, gy_plan_sink *sink);

/** What an algorithm needs from the transport. */
typedef enum gy_need {
    GY_NEED_MESSAGES, /* send and receive */
    GY_NEED_STAGE,    /* posts, and staging memory that peers can read */
    /* posts, and input and output that peers can read and write (registered memory) */
    GY_NEED_DIRECT,
    GY_NEED_LIBRARY, /* no plan: another library's own collective (room coll) */
} gy_need;

/** Restrictions of an algorithm, and further inputs of its planner. */
enum {
    GY_LIMIT_APART = 1, /* not in place: input and output must differ */
    /* different counts must be known to all ranks (slots have the size of the longest block) */
    GY_LIMIT_KNOWN = 2,
    /* sends blocks from slots: as a part of a larger plan, its messages have one block */
    GY_LIMIT_SINGLE = 4,
    GY_FROM_HOSTS = 8,  /* which ranks a host has */
    GY_FROM_TOUR = 16,  /* a tour through all ranks */
    GY_FROM_TREE = 32,  /* a tree over all ranks */
    GY_HAS_CLAIMS = 64, /* the request decides which rank sums a block (claims) */
    /* stages the whole vector at once: long vectors are processed in segments */
    GY_LIMIT_WINDOW = 128,
};

/** The kind of text after an algorithm's name and a colon. */
typedef enum gy_parameter_kind {
    GY_PARAMETER_NONE,
    GY_PARAMETER_NUMBER, /* "servers:4" */
    /* "hierarchy:flat+ring": the algorithms inside hosts and across hosts */
    GY_PARAMETER_PAIR,
} gy_parameter_kind;

/** A row of planners.def. */
typedef struct gy_algorithm {
    const char *name;
    gy_operation operation;
    gy_planner plan;
    gy_cut cut;
    gy_need need;
    gy_plan_order order; /* the guaranteed order */
    unsigned limits;
    gy_parameter_kind parameter;
} gy_algorithm;

extern const gy_algorithm gy_algorithms[];
extern const size_t gy_algorithm_count;

/** Parse "exclusive scan" or "exclusive-scan". GY_ARG lists the known names. */
GY_MUST_CHECK gy_status gy_plan_operation_find(const char *name, gy_operation *operation);
/** The row of an operation with that name, up to its end or a colon; NULL: there is none. */
const gy_algorithm *gy_algorithm_find(gy_operation operation, const char *name);
/**
 * Parse "name" or "name:parameter", from a person or the tuner's file.
 * @return GY_OK; GY_ARG unknown algorithm (the message lists the known ones), or a parameter
 *     that it does not take
 */
GY_MUST_CHECK gy_status gy_algorithm_parse(gy_operation operation, const char *text,
                                           const gy_algorithm **algorithm,
                                           char parameter[GY_PLAN_PARAMETER]);

/** Number of parts and chunks of a request's vector. */
int gy_cut_parts(gy_cut cut, const gy_plan_request *request);
int gy_cut_chunks(gy_cut cut, const gy_plan_request *request);

/**
 * Does the input or output (`buffer`: IN, OUT) of `rank` have that block? `chunks` of a part.
 *
 *   broadcast, allreduce, scans       all blocks, in and out
 *   reduce, gather                    out: the root only
 *   reduce-scatter, scatter           out: part r; scatter's input: the root only
 *   allgather, gather                 in: part r
 *   all-to-all                        in: parts r*p .. r*p + p-1 (a row), out: parts s*p + r
 *                                     for all s (a column)
 */
bool gy_plan_block_is_held(const gy_plan_request *request, int chunks, int rank, int buffer,
                           int32_t block);
/** The index of the block within that buffer, if the buffer has it. */
int32_t gy_plan_block_local(const gy_plan_request *request, int chunks, int buffer,
                            int32_t block);

/**
 * Which elements a block has: `count` elements in `parts` parts of equal length (rounded up to
 * part_unit; the last ones may be shorter or empty), each part likewise in `chunks` chunks.
 *
 * The vector variants (v-variants) give each part its own count and displacement in this rank's
 * buffers. A rank of all-to-all knows only its row and its column; the cost model knows all
 * pairs.
 *
 * A runner finds a block of IN or OUT at element gy_layout_start(..) of that buffer,
 * gy_layout_length(.., block, 1) elements long. So block (s * p + r) of all-to-all's output
 * begins at out_displacements[s]. Blocks of one part are contiguous; those of several parts are
 * too, unless displacements or a stride leave gaps (gy_layout_is_dense): then a range is moved
 * block by block, and a message of it is packed. STAGE and SCRATCH: offset slot * slot_bytes,
 * with slot_bytes the same on all ranks and at least gy_layout_longest elements.
 */
typedef struct gy_layout {
    int64_t count;
    int32_t parts, chunks;
    int64_t part_unit, chunk_unit; /* in elements, >= 1 */
    int64_t stride;                /* distance of parts in IN and OUT; 0: contiguous */
    const int64_t
        *counts; /* (parts) v-variants: elements of each part; NULL: equal, or all-to-all */
    /* (ranks) v-variant of all-to-all: for the parts of this rank's input and output; NULL:
     * `counts` */
    const int64_t *in_counts, *out_counts;
    const int64_t *in_displacements,
        /* v-variants: where each part of the buffer begins, in elements; NULL: the buffer has
         * one part */
        *out_displacements;
    int32_t ranks, rank; /* v-variant of all-to-all */
} gy_layout;

/** First element of block `block` in [0, parts * chunks] in a vector of equal parts without
 * gaps; the end of the vector for the last. */
int64_t gy_layout_at(const gy_layout *layout, int64_t block);
/** Number of elements of `run` blocks. */
int64_t gy_layout_length(const gy_layout *layout, int64_t first, int64_t run);
/** Number of elements of the longest block that this rank knows of. */
int64_t gy_layout_longest(const gy_layout *layout);
/** First element of a block within a buffer (IN, OUT) that has it. */
int64_t gy_layout_start(const gy_layout *layout, const gy_plan_request *request, int buffer,
                        int32_t block);
/** Are the elements of `run` blocks contiguous in that buffer? */
bool gy_layout_is_dense(const gy_layout *layout, const gy_plan_request *request, int buffer,
                        int32_t first, int32_t run);

/** One rank's stored steps: all of them, or a window (gy_plan_window). Initialise with
 * gy_steps_init. */
typedef struct gy_steps {
    gy_plan_sink sink;
    gy_step *items; /* (count) steps sink.first .. */
    size_t count, capacity;
    size_t most;                        /* stop the planner there; 0: store all */
    int32_t stage_slots, scratch_slots; /* number of slots that the steps use */
    /* number of private copies of the vector that they use */
    int32_t work_planes;
    int32_t wire_run; /* blocks of the longest message that is combined on arrival */
    uint32_t last_mark;
    bool has_end; /* the plan's last step is among them */
} gy_steps;

void gy_steps_init(gy_steps *steps);
void gy_steps_free(gy_steps *steps);
/**
 * The number of steps up to and including the first POST, if they only copy the rank's own
 * input to its own staging; 0 if they do more, or nothing is posted. They may run before the
 * ranks have compared their calls.
 */
size_t gy_steps_opening(const gy_steps *steps, int rank);

/**
 * Plan for one rank. Checks the request (GY_ARG), then calls the algorithm's planner.
 * @return GY_OK; GY_ARG the request is no possible collective, asks for a stronger order than
 *     guaranteed, or for something that the algorithm cannot do; GY_LIMIT too many blocks; what
 *     the sink returns
 */
GY_MUST_CHECK gy_status gy_plan_rank(const gy_algorithm *algorithm,
                                     const gy_plan_request *request, int rank,
                                     gy_plan_sink *sink);

/**
 * Replace the contents of `steps` by at most `count` steps of a rank's plan from step `first`
 * on, so that thousands of ranks can be simulated with a few steps each in memory. Reuses the
 * storage.
 * @cost as planning steps 0 .. first + count; planners of long plans skip earlier steps
 */
GY_MUST_CHECK gy_status gy_plan_window(const gy_algorithm *algorithm,
                                       const gy_plan_request *request, int rank, uint32_t first,
                                       size_t count, gy_steps *steps);

/**
 * Check a request, and compute once the data that the plans of all its ranks share: for the
 * request's `shared`, as long as request and topology stay the same.
 * @return as gy_plan_rank; GY_NOMEM
 * @cost O(ranks log ranks), and O(hosts^2) where costs differ between pairs of hosts
 */
GY_MUST_CHECK gy_status gy_plan_share(const gy_algorithm *algorithm,
                                      const gy_plan_request *request, gy_plan_shared **shared);
void gy_plan_shared_free(gy_plan_shared *shared);

/** All ranks' steps: the input of the checker, the cost model and the drawing. */
typedef struct gy_plan {
    const gy_algorithm *algorithm;
    gy_plan_request request;
    gy_steps *ranks; /* request.ranks of them */
    gy_plan_shared *shared;
    size_t window; /* each rank stores at most so many steps at a time; 0: all */
} gy_plan;

GY_MUST_CHECK gy_status gy_plan_new(const gy_algorithm *algorithm,
                                    const gy_plan_request *request, gy_plan **plan);
/** Make a plan of many ranks that stores `window` steps of each at a time: for gy_plan_cost_of
 * only. */
GY_MUST_CHECK gy_status gy_plan_new_lazy(const gy_algorithm *algorithm,
                                         const gy_plan_request *request, size_t window,
                                         gy_plan **plan);
void gy_plan_free(gy_plan *plan);

/**
 * Prove a plan by executing it on symbols: every result has each contribution exactly once, in
 * the guaranteed order and the same on all ranks; sends and receives match; there is no
 * deadlock even if a send ends only with its receive; no rank writes what another may be
 * reading, or reads what may not be written yet; every access is inside its buffer; no rank
 * returns while a peer still uses its buffers.
 * @return GY_OK; GY_STATE with rank, step and cause in the text; GY_NOMEM
 * @cost O(steps * ranks)
 */
GY_MUST_CHECK gy_status gy_plan_check(gy_plan *plan);

/** The size of the vector. */
typedef struct gy_volume {
    int64_t count; /* elements of the whole vector, over all blocks */
    int64_t element_bytes;
    const int64_t *counts; /* (parts) elements of each part, whose sum is count; NULL: equal */
} gy_volume;

/**
 * Compute a plan's cost without running it. Each rank has one link in each direction.
 * @return GY_OK; GY_STATE the plan does not run to its end; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_plan_cost_of(gy_plan *plan, const gy_volume *volume,
                                        const gy_links *links, gy_plan_costs *price);

/** Input of a simulation; all pointers are borrowed for the call. */
typedef struct gy_simulation {
    const gy_algorithm *algorithm;
    const gy_plan_request *request;
    const gy_volume *volume;
    const gy_links *links;
    const gy_fault_model *faults;
} gy_simulation;

/** gy_plan_simulate for a request. Reads steps through windows and never stores all of them. */
GY_MUST_CHECK gy_status gy_plan_run_simulated(const gy_simulation *simulation,
                                              gy_simulation_result *result);

/** Consecutive blocks of the vector. */
typedef struct gy_block_run {
    int32_t first, run;
} gy_block_run;

/**
 * A plan for a group of ranks inside a larger plan. The inner plan numbers the ranks of the
 * group from 0 and has blocks, slots and marks of its own; this structure translates them to
 * the outer plan.
 */
typedef struct gy_plan_group {
    const gy_algorithm *algorithm;
    gy_plan_request request;  /* of the group */
    const int32_t *ranks;     /* (request.ranks) the group, each once */
    int32_t at;               /* 1 + the planned rank's index in it; 0: to be searched */
    const gy_block_run *runs; /* outer parts: inner part i is runs[begins[i]] to */
    const int32_t *begins;    /* runs[begins[i + 1]], exclusive; NULL: runs[i] only */
    int32_t inner_chunks,
        /* chunks of an outer part; an inner block of several parts has as many outer chunks;
         * 0: 1. Without runs, blocks keep their numbers */
        outer_chunks;
    int32_t width; /* outer blocks of the longest inner block; 0: 1 */
    /* .buffer: what the inner IN and OUT are: IN, OUT, or WORK (.slot: which copy) */
    gy_blocks in, out;
    /* inner slot s becomes the `width` slots from s * width + this */
    int32_t stage_slot, scratch_slot;
    /* NULL, or raised to the end of the scratch slots that this rank uses */
    int32_t *scratch_end;
    int32_t work_plane; /* added to the numbers of private copies */
    uint32_t mark;      /* added to marks; earlier posts of the group have lower marks */
    /* each inner step becomes one outer step, so steps before the sink's window can be
     * skipped */
    bool is_single_step;
} gy_plan_group;

/**
 * Emit the part's steps for `rank` (an outer number); none if it is not in the group. A step
 * on an inner block that is several outer ranges becomes several steps.
 * @return as gy_plan_rank; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_plan_part(const gy_plan_group *part, int rank, gy_plan_sink *sink);

/** Print one step, "send block 3 to rank 1". */
void gy_step_print(gy_text *out, const gy_step *step, int rank);
/** Print the whole plan, a paragraph for each rank. */
void gy_plan_draw(gy_text *out, const gy_plan *plan);

#endif
