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

#include <gyre/operation.h>
#include <gyre/plan.h>

/** What a block lies in. */
typedef enum gy_buffer {
    GY_BUFFER_IN,    /* the caller's input: never written, unless in place */
    GY_BUFFER_OUT,   /* the caller's output */
    GY_BUFFER_STAGE, /* memory of a rank that its peers can read, cut into slots of one block */
    GY_BUFFER_SCRATCH, /* private memory of a rank, cut into slots of one block */
    GY_BUFFER_WORK,    /* a private copy of the whole vector, its blocks one after another; slot
                          says    which copy */
    GY_BUFFER_WIRE,    /* what arrives from step.peer */
    GY_BUFFER_COUNT
} gy_buffer;

enum {
    GY_EVERY = -1, /* as a rank: that of every rank (only written to), or all peers (WAIT) */
    GY_WHOLE = -1, /* as gy_blocks.first: slots as they are */
    GY_PLAN_RANKS = 65536, /* ranks that a plan can have */
    GY_PLAN_PARAMETER = 40 /* bytes of an algorithm's parameter with its end */
};

/**
 * `run` consecutive blocks from `first` on. Blocks are numbered through the whole vector, also
 * where a buffer holds only some of it (the input of allgather: the rank's own part; see
 * gy_plan_block_is_held). In STAGE and SCRATCH a block lies in slot `slot`, which may hold a
 * block of any length; there run is 1, unless first is GY_WHOLE: that moves `run` slots from
 * `slot` on as they are, each slot_bytes long whatever it holds (also nothing), in one message.
 */
typedef struct gy_blocks {
    int32_t first, run, slot;
    int32_t rank; /* whose buffer: the planning rank's own, or one that it reads or writes
                     directly */
    int32_t buffer;
} gy_blocks;

typedef enum gy_step_kind {
    GY_STEP_SEND,        /* a to peer */
    GY_STEP_RECV,        /* to from peer */
    GY_STEP_RECV_REDUCE, /* to = a op b; one of a and b is WIRE */
    GY_STEP_COPY,   /* to = a: local, a get (a of another rank) or a put (to of another rank) */
    GY_STEP_REDUCE, /* to = a op b, in this order: operations need not commute */
    GY_STEP_POST,  /* tell all ranks: this rank reached `mark`, what it did before is visible */
    GY_STEP_WAIT,  /* until peer (GY_EVERY: all others) posted `mark` or more */
    GY_STEP_CLAIM, /* what follows, up to the next CLAIM or CLAIMED, is claim `mark`: the rank
                      that takes it first carries it out, the others leave it out */
    GY_STEP_CLAIMED, /* until claims 1 to `mark` have been carried out */
    GY_STEP_COUNT
} gy_step_kind;

typedef struct gy_step {
    gy_step_kind kind;
    int32_t peer;
    gy_blocks a, b, to;
    uint32_t after[2]; /* 1 + index of a send of this rank that must have ended; 0: none */
    uint32_t mark;     /* POST, WAIT, CLAIM, CLAIMED: counts up from 1 */
    uint16_t chunk;    /* tag of a message; both sides must name the same */
} gy_step;

/** In which order a reduction combines the ranks' contributions; whatever it is, all ranks get
 * one result. */
typedef enum gy_plan_order {
    GY_ORDER_ANY,  /* each exactly once, the same way on all ranks and in every run */
    GY_ORDER_RANK, /* from rank 0 to the last, bracketed in some fixed way: what operations that
                      do not commute need */
    GY_ORDER_FOLD, /* ((x0 op x1) op x2) op ...: the same bits from every algorithm that
                      guarantees it; also of f16 and bf16, but for scans: their sums travel,
                      each rank rounds them */
} gy_plan_order;

/** Where the ranks are. Borrowed by requests; a request without one means one host. */
typedef struct gy_topology {
    const int32_t *host_of; /* (ranks) in [0, hosts) */
    int32_t hosts;
    double within, across; /* relative cost of a byte between two ranks of a host, and of two
                              hosts */
    const double *between; /* (hosts, hosts) from, to: instead of `across`; NULL: all alike */
} gy_topology;

/** What the plans of all ranks have in common (gy_plan_share). */
typedef struct gy_plan_shared gy_plan_shared;

/** Who carries out the claims of a plan (GY_HAS_CLAIMS). */
enum {
    GY_CLAIMS_FREE = -1, /* whoever comes first: CLAIM and CLAIMED steps, for runners alone */
    GY_CLAIMS_USUAL = 0, /* the rank whose part it is; */
    /* 1 and more: ranks drawn from that number. Such plans have POST and WAIT instead, where
     * nobody waits for a rank that has no claim: what every reader can read. */
};

/** What a planner is asked for: a value, but for topology and what is shared. */
typedef struct gy_plan_request {
    gy_operation operation;
    int ranks;
    int root;      /* broadcast, reduce, gather, scatter */
    int chunks;    /* pieces that follow each other through the algorithm; 0 is 1 */
    bool in_place; /* input and output are one (their common blocks); broadcast always is;
                      all-to-all: part s of the output lies where part s of the input lay */
    gy_plan_order order;
    int claims;                   /* GY_CLAIMS_FREE, GY_CLAIMS_USUAL, or drawn */
    const gy_topology *topology;  /* NULL: all on one host */
    const gy_plan_shared *shared; /* of this request; NULL: each rank finds out for itself */
    char parameter[GY_PLAN_PARAMETER]; /* of the algorithm: what follows its name and a colon;
                                          "": its default */
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

/** How a planner cuts the vector; blocks = parts * chunks, numbered part by part. */
typedef enum gy_cut {
    GY_CUT_CHUNKS,   /* 1 part of `chunks` */
    GY_CUT_RANKS,    /* one part a rank, each of `chunks` */
    GY_CUT_WINDOWS,  /* `chunks` parts (windows), each of one chunk a rank */
    GY_CUT_PAIRS,    /* all-to-all: part s * ranks + d goes from s to d, each of `chunks` */
    GY_CUT_HALVES,   /* 2 parts, each of `chunks` */
    GY_CUT_POWER,    /* as many parts as the largest power of two that is not above `ranks` */
    GY_CUT_SEGMENTS, /* one part a rank, each of `chunks` * segments (request.parameter) */
    GY_CUT_SERVERS,  /* one part a server (request.parameter) */
    GY_CUT_OUTER,    /* as the outer algorithm of a hierarchy cuts it for the hosts */
} gy_cut;

/**
 * Takes a rank's steps in order. The first member of whatever a reader of plans needs. A reader
 * that has enough returns GY_CANCELLED, which the planner passes on.
 */
typedef struct gy_plan_sink {
    gy_status (*take)(struct gy_plan_sink *sink, const gy_step *step);
    uint32_t count; /* steps emitted so far */
    uint32_t first; /* steps before it are counted, not taken: planners may leave them out
                       (gy_sink_skip) */
} gy_plan_sink;

typedef gy_status (*gy_planner)(const gy_plan_request *request, int rank, gy_plan_sink *sink);

/** What an algorithm needs of the transport under it. */
typedef enum gy_need {
    GY_NEED_MESSAGES, /* send and receive */
    GY_NEED_STAGE,    /* posts and staging memory that peers read */
    GY_NEED_DIRECT,   /* posts and input and output that peers read and write (registered) */
    GY_NEED_LIBRARY,  /* no plan at all: another library's own collective (room coll) */
} gy_need;

/** What an algorithm cannot do, and what it is planned from beside the request. */
enum {
    GY_LIMIT_APART = 1,  /* input and output must be apart: not in place */
    GY_LIMIT_KNOWN = 2,  /* counts that differ must be known to all ranks (slots of the longest
                            block) */
    GY_LIMIT_SINGLE = 4, /* keeps blocks in slots that it sends: as a part of a larger plan its
                            messages are of one block */
    GY_FROM_HOSTS = 8,   /* which ranks a host has */
    GY_FROM_TOUR = 16,   /* a way through all ranks */
    GY_FROM_TREE = 32,   /* a tree over all ranks */
    GY_HAS_CLAIMS = 64,  /* who sums a block is the request's to say (claims) */
    GY_LIMIT_WINDOW = 128, /* stages the whole vector at once: long ones go in legs */
};

/** What may follow an algorithm's name and a colon. */
typedef enum gy_parameter_kind {
    GY_PARAMETER_NONE,
    GY_PARAMETER_NUMBER, /* "servers:4" */
    GY_PARAMETER_PAIR,   /* "hierarchy:flat+ring": inside hosts, across them */
} gy_parameter_kind;

/** A row of planners.def. */
typedef struct gy_algorithm {
    const char *name;
    gy_operation operation;
    gy_planner plan;
    gy_cut cut;
    gy_need need;
    gy_plan_order order; /* guaranteed */
    unsigned limits;
    gy_parameter_kind parameter;
} gy_algorithm;

extern const gy_algorithm gy_algorithms[];
extern const size_t gy_algorithm_count;

/** "exclusive scan" or "exclusive-scan". GY_ARG lists the names there are. */
GY_MUST_CHECK gy_status gy_plan_operation_find(const char *name, gy_operation *operation);
/** The row of an operation with that name, up to its end or a colon; NULL: there is none. */
const gy_algorithm *gy_algorithm_find(gy_operation operation, const char *name);
/**
 * Read "name" or "name:parameter", as a person or the tuner's file says it.
 * @return GY_OK; GY_ARG no such algorithm (the text lists those there are), or a parameter that
 * it does not take
 */
GY_MUST_CHECK gy_status gy_algorithm_parse(gy_operation operation, const char *text,
                                           const gy_algorithm **algorithm,
                                           char parameter[GY_PLAN_PARAMETER]);

/** Parts and chunks of a request's vector under a cut. */
int gy_cut_parts(gy_cut cut, const gy_plan_request *request);
int gy_cut_chunks(gy_cut cut, const gy_plan_request *request);

/**
 * Does the input or output (`buffer`: IN, OUT) of `rank` have that block? `chunks` of a part.
 *
 *   broadcast, allreduce, scans       all blocks, in and out
 *   reduce, gather                    out: the root alone
 *   reduce-scatter, scatter           out: part r; scatter's input: the root alone
 *   allgather, gather                 in: part r
 *   all-to-all                        in: parts r*p .. r*p + p-1 (a row), out: parts s*p + r
 * for all s (a column)
 */
bool gy_plan_block_is_held(const gy_plan_request *request, int chunks, int rank, int buffer,
                           int32_t block);
/** The how-manieth block of that buffer it is, where the buffer holds it. */
int32_t gy_plan_block_local(const gy_plan_request *request, int chunks, int buffer,
                            int32_t block);

/**
 * Which elements a block holds: `count` elements in `parts` parts of equal length (rounded up
 * to part_unit; the last ones may be shorter or empty), each part likewise in `chunks` chunks.
 *
 * The v-forms give each part its own count, and where parts begin in this rank's buffers. A
 * rank of all-to-all knows its row and its column only; the model knows all pairs.
 *
 * How a runner finds a block of IN or OUT: element gy_layout_start(..) of that buffer, for
 * gy_layout_length(.., block, 1) elements. So block (s * p + r) of all-to-all's output begins
 * at out_displacements[s]. Blocks of one part follow each other; those of several parts do as
 * well unless starts or a stride leave gaps (gy_layout_is_dense): then a run is moved block by
 * block, and a message of it packed. STAGE and SCRATCH: slot * slot_bytes, with slot_bytes
 * alike on all ranks and no less than gy_layout_longest elements.
 */
typedef struct gy_layout {
    int64_t count;
    int32_t parts, chunks;
    int64_t part_unit, chunk_unit; /* in elements, >= 1 */
    int64_t stride; /* from part to part in IN and OUT; 0: parts follow each other */
    const int64_t
        *counts; /* (parts) v-forms: elements of each part; NULL: equal, or all-to-all */
    const int64_t *in_counts, *out_counts; /* (ranks) v-form of all-to-all: of the parts of this
                                              rank's input and output; NULL: `counts` */
    const int64_t *in_displacements,
        *out_displacements; /* v-forms: where each part that the buffer holds
                        begins, in elements; NULL: only one part is held */
    int32_t ranks, rank;    /* v-form of all-to-all */
} gy_layout;

/** First element of block `block` in [0, parts * chunks] in a vector of equal parts without
 * gaps; the end of the vector for the last. */
int64_t gy_layout_at(const gy_layout *layout, int64_t block);
/** Elements of `run` blocks. */
int64_t gy_layout_length(const gy_layout *layout, int64_t first, int64_t run);
/** Elements of the longest block that this rank knows of. */
int64_t gy_layout_longest(const gy_layout *layout);
/** First element of a block that the buffer (IN, OUT) holds, within that buffer. */
int64_t gy_layout_start(const gy_layout *layout, const gy_plan_request *request, int buffer,
                        int32_t block);
/** Do the elements of `run` blocks of that buffer follow each other without a gap? */
bool gy_layout_is_dense(const gy_layout *layout, const gy_plan_request *request, int buffer,
                        int32_t first, int32_t run);

/** One rank's steps, stored: all, or a window of them (gy_plan_window). Zero-initialise the
 * sink's storage with gy_steps_init. */
typedef struct gy_steps {
    gy_plan_sink sink;
    gy_step *items; /* (count) steps sink.first .. */
    size_t count, capacity;
    size_t most;                        /* stop the planner there; 0: take all */
    int32_t stage_slots, scratch_slots; /* how many the steps use */
    int32_t work_planes;                /* private copies of the vector that they use */
    int32_t wire_run; /* blocks of the longest message that is combined as it comes */
    uint32_t last_mark;
    bool has_end; /* the plan's last step is among them */
} gy_steps;

void gy_steps_init(gy_steps *steps);
void gy_steps_free(gy_steps *steps);
/**
 * The steps before the first POST, and that POST, where all that they do is to lay the rank's
 * own input out in its own staging; 0 where they do more, or nothing is posted. They can be
 * carried out before the ranks have compared their calls.
 */
size_t gy_steps_opening(const gy_steps *steps, int rank);

/**
 * Plan for one rank. Checks the request (GY_ARG), then calls the algorithm's planner.
 * @return GY_OK; GY_ARG the request names no possible collective, a stronger order than
 * guaranteed, or what the algorithm cannot do; GY_LIMIT more blocks than can be numbered;
 * whatever the sink returns
 */
GY_MUST_CHECK gy_status gy_plan_rank(const gy_algorithm *algorithm,
                                     const gy_plan_request *request, int rank,
                                     gy_plan_sink *sink);

/**
 * Replace what `steps` holds by at most `count` steps of a rank's plan from step `first` on: so
 * that thousands of ranks can be simulated with a few steps each in memory. Storage is kept.
 * @cost as planning steps 0 .. first + count; planners of long plans leave out what comes
 * before
 */
GY_MUST_CHECK gy_status gy_plan_window(const gy_algorithm *algorithm,
                                       const gy_plan_request *request, int rank, uint32_t first,
                                       size_t count, gy_steps *steps);

/**
 * Check a request, and find out once what the plans of all its ranks have in common: for the
 * request's `shared`, while request and topology stay as they are.
 * @return as gy_plan_rank; GY_NOMEM
 * @cost O(ranks log ranks), and O(hosts^2) where pairs of hosts cost differently
 */
GY_MUST_CHECK gy_status gy_plan_share(const gy_algorithm *algorithm,
                                      const gy_plan_request *request, gy_plan_shared **shared);
void gy_plan_shared_free(gy_plan_shared *shared);

/** All ranks' steps: what the checker, the model and the drawer read. */
typedef struct gy_plan {
    const gy_algorithm *algorithm;
    gy_plan_request request;
    gy_steps *ranks; /* request.ranks of them */
    gy_plan_shared *shared;
    size_t window; /* each holds at most so many steps, read on as they are used; 0: all */
} gy_plan;

GY_MUST_CHECK gy_status gy_plan_new(const gy_algorithm *algorithm,
                                    const gy_plan_request *request, gy_plan **plan);
/** A plan of many ranks that holds `window` steps of each at a time: for gy_plan_cost_of alone.
 */
GY_MUST_CHECK gy_status gy_plan_new_lazy(const gy_algorithm *algorithm,
                                         const gy_plan_request *request, size_t window,
                                         gy_plan **plan);
void gy_plan_free(gy_plan *plan);

/**
 * Prove a plan by running it on symbols: every result holds each contribution exactly once, in
 * the guaranteed order and alike on all ranks; sends and receives match; no deadlock even when
 * a send ends only with its receive; no rank writes what another may be reading, or reads what
 * may not be written yet; every access lies inside its buffer; nobody returns while a peer
 * still uses its buffers.
 * @return GY_OK; GY_STATE with rank, step and cause in the text; GY_NOMEM
 * @cost O(steps * ranks)
 */
GY_MUST_CHECK gy_status gy_plan_check(gy_plan *plan);

/** How much a plan moves. */
typedef struct gy_volume {
    int64_t count; /* elements of the vector that blocks are numbered through */
    int64_t element_bytes;
    const int64_t *counts; /* (parts) of each part, whose sum is count; NULL: equal */
} gy_volume;

/**
 * Price a plan without running it. Each rank has one link in each direction.
 * @return GY_OK; GY_STATE the plan does not run to its end; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_plan_cost_of(gy_plan *plan, const gy_volume *volume,
                                        const gy_links *links, gy_plan_costs *price);

/** A simulation of an algorithm's plans; all borrowed for the call. */
typedef struct gy_simulation {
    const gy_algorithm *algorithm;
    const gy_plan_request *request;
    const gy_volume *volume;
    const gy_links *links;
    const gy_fault_model *faults;
} gy_simulation;

/** As gy_plan_simulate, of a request. Steps are read through windows, never all stored. */
GY_MUST_CHECK gy_status gy_plan_run_simulated(const gy_simulation *simulation,
                                              gy_simulation_result *result);

/** Consecutive blocks of the vector. */
typedef struct gy_block_run {
    int32_t first, run;
} gy_block_run;

/**
 * A plan for a group of ranks inside a larger plan. The inner plan numbers the ranks of the
 * group from 0 and has blocks, slots and marks of its own; here stands what each of these
 * is outside.
 */
typedef struct gy_plan_group {
    const gy_algorithm *algorithm;
    gy_plan_request request;  /* of the group */
    const int32_t *ranks;     /* (request.ranks) the group, each once */
    int32_t at;               /* 1 + the planned rank's place in it; 0: it is looked for */
    const gy_block_run *runs; /* parts outside: inner part i is runs[begins[i]] to */
    const int32_t *begins;    /* runs[begins[i + 1]]; NULL: runs[i] alone */
    int32_t inner_chunks,
        outer_chunks;  /* blocks of a part; inner ones of several are as many
                          outside; 0: 1. Without runs blocks keep their numbers */
    int32_t width;     /* blocks outside of the longest inner block; 0: 1 */
    gy_blocks in, out; /* .buffer: what the inner IN and OUT are: IN, OUT, or WORK (.slot: which
                          copy) */
    int32_t stage_slot, scratch_slot; /* inner slot s becomes the `width` slots from s * width
                                         + this on */
    int32_t *scratch_end; /* NULL, or becomes the end of the scratch slots that this rank uses,
                             if that is more */
    int32_t work_plane;   /* added to the number of private copies */
    uint32_t mark;        /* added to marks; what the group posted before lies below */
    bool is_single_step;  /* each inner step becomes one outside: those before the sink's window
                             are left out */
} gy_plan_group;

/**
 * Emit the steps of `rank` (as numbered outside) in the part; none where it is not in the
 * group. A step on an inner block that is several runs outside becomes several steps.
 * @return as gy_plan_rank; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_plan_part(const gy_plan_group *part, int rank, gy_plan_sink *sink);

/** One step in words, "send block 3 to rank 1". */
void gy_step_print(gy_text *out, const gy_step *step, int rank);
/** The whole plan as text, a paragraph a rank. */
void gy_plan_draw(gy_text *out, const gy_plan *plan);

#endif
