/**
 * Steps of ranks that need not exist, on a virtual clock: what a program's nodes and exchanges
 * take, and in which order one representative of each stage does them.
 */
#ifndef GY_GRAPH_SIMULATE_SIMULATE_H
#define GY_GRAPH_SIMULATE_SIMULATE_H

#include "graph/graph.h"

#include <gyre/pipe.h>
#include <gyre/simulate.h>

/* ---- cluster ---- */

/** What does not depend on one setting alone. GY_ARG too many ranks, no speed between hosts */
GY_MUST_CHECK gy_status gy_simulate_cluster_check(const gy_virtual_cluster *cluster);

/* ---- links ---- */

enum { GY_VIRTUAL_POINTS = 16, GY_VIRTUAL_PLAYED = 16 };

/** The ranks along one axis of a mesh, with the links between them. */
typedef struct gy_virtual_line {
    int ranks;
    int hosts;                          /* that have some of them */
    int per_host;                       /* ranks of it on the host with most */
    int32_t host_of[GY_VIRTUAL_PLAYED]; /* of so few ranks */
    bool is_shared_memory;              /* what of it is inside a host */
    double near_latency_s, near_byte_s;
    double far_latency_s, far_byte_s; /* of this line's share of a host's link */
    double combine_byte_s;
    double seconds[GY_OPERATION_COUNT][GY_VIRTUAL_POINTS]; /* 0: not asked yet */
    gy_status status;                                      /* of playing: what failed costs 0 */
} gy_virtual_line;

/** The links along one axis: of the ranks `apart` from one another of which `last` is the
 * highest. `ranks`, `apart` >= 1. Pure. */
gy_virtual_line gy_virtual_line_of(const gy_virtual_cluster *cluster, int last, int ranks,
                                   int apart);
/** Seconds of the best plan over a whole vector of `bytes`; all-to-all: of what a rank has. */
double gy_virtual_line_seconds(gy_virtual_line *line, gy_operation operation, double bytes);
/** The same by formula, of any number of ranks. Pure. */
double gy_virtual_line_closed(const gy_virtual_line *line, gy_operation operation,
                              double bytes);
/** All axes of a mesh, and the way from a stage to the next. */
typedef struct gy_virtual_links {
    gy_virtual_line lines[GY_MESH_MAX], pipe;
} gy_virtual_links;
void gy_virtual_links_init(gy_virtual_links *links, const gy_virtual_cluster *cluster,
                           const gy_mesh *mesh);
/** Seconds of a message from stage to stage, while all ranks of a host send theirs. */
double gy_virtual_links_message(const gy_virtual_links *links, double bytes);

/* ---- rates ---- */

/** What operations and bytes take where nothing is measured: seconds at a nominal rate. */
double gy_simulate_nominal(const gy_cost *cost, double flops_s, double memory_bytes_s);
extern const double gy_simulate_nominal_flops_s, gy_simulate_nominal_bytes_s;
/** Bytes a second of a rank's memory, where its operations are known. */
double gy_simulate_memory_rate(const gy_virtual_cluster *cluster);

/** A measured node of an operator. */
typedef struct gy_kernel_point {
    const char *name; /* static */
    double nominal_s, measured_s;
} gy_kernel_point;
/**
 * Fit a line of nominal to measured seconds for each operator. `task_s`: what a node takes
 * beside its kernel. Points are sorted. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_kernel_rates_fit(gy_kernel_point *points, size_t count,
                                            double task_s, gy_kernel_rates **rates);
/** Seconds of a node, with all that belongs to it. */
double gy_kernel_rates_seconds(const gy_kernel_rates *rates, const char *name,
                               double nominal_s);

/* ---- tasks ---- */

typedef enum gy_virtual_lane {
    GY_VIRTUAL_NOTHING, /* takes no time */
    GY_VIRTUAL_WORK,
    GY_VIRTUAL_NEAR,    /* an exchange inside hosts, or a message there */
    GY_VIRTUAL_FAR,     /* one that leaves hosts */
    GY_VIRTUAL_ARRIVAL, /* ends when its message is there */
    GY_VIRTUAL_LANES
} gy_virtual_lane;

/** A node of a compiled program. */
typedef struct gy_virtual_task {
    gy_virtual_lane lane;
    double seconds;
    double sent_bytes;
    double made_bytes; /* of values that are kept for later nodes */
    int32_t priority;  /* larger: first */
    int32_t peer, tag; /* of messages; peer -1: none */
    bool is_send;
    bool is_forward; /* the loss depends on it */
    bool is_input;   /* of the others: a message to another stage depends on it */
} gy_virtual_task;

/** What the rank of one stage, or of several, runs. */
typedef struct gy_virtual_program {
    const gy_graph *graph; /* borrowed, its nodes are the tasks */
    gy_virtual_task *tasks;
    int32_t count;
    const int32_t *segments; /* borrowed: (count) of each task, ascending; NULL: none */
} gy_virtual_program;

/** How nodes are costed. */
typedef struct gy_virtual_rates {
    double flops_s, memory_bytes_s; /* where `rates` is NULL */
    const gy_kernel_rates *rates;
} gy_virtual_rates;

/** The tasks of a compiled graph. @return GY_OK; GY_NOMEM; as playing a plan. */
GY_MUST_CHECK gy_status gy_virtual_program_new(const gy_graph *graph, gy_virtual_links *links,
                                               const gy_virtual_rates *rates,
                                               gy_virtual_program *program);
void gy_virtual_program_free(gy_virtual_program *program);
/** Tell the tasks of all stages apart: is_forward, is_input. GY_NOMEM */
GY_MUST_CHECK gy_status gy_virtual_program_mark(gy_virtual_program *programs, int stages);
/** Bytes that one batch holds from its forward pass until the other one has used them. */
double gy_virtual_program_held(const gy_virtual_program *program);
/** Bytes that the stage sends in a run. */
double gy_virtual_program_sent(const gy_virtual_program *program);

/* ---- clock ---- */

/** What is played. */
typedef enum gy_virtual_part {
    GY_PART_TOGETHER, /* all stages, with their messages */
    GY_PART_ALONE     /* each as if what it receives were there */
} gy_virtual_part;

/** Segments [first, last) alone, as if what others make were there; last 0: all. */
typedef struct gy_virtual_range {
    int32_t first, last;
} gy_virtual_range;

/** What one stage did. */
typedef struct gy_virtual_span {
    double end_s; /* of its last task */
    double work_s, exposed_s;
} gy_virtual_span;

/**
 * Play programs, one a stage, from time 0: of ready work the one of highest priority is done
 * first, one task a lane at a time.
 * @param spans (stages)
 * @return GY_OK; GY_STATE a message that is never sent; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_virtual_program_play(const gy_virtual_program *programs, int stages,
                                                gy_virtual_part part, gy_virtual_span *spans);
/** The same of some segments of programs that have them, each alone. */
GY_MUST_CHECK gy_status gy_virtual_program_play_range(const gy_virtual_program *programs,
                                                      int stages, gy_virtual_range range,
                                                      gy_virtual_span *spans);

/* ---- step ---- */

/** The programs of one update, as gy_session_foresee compiled them. */
typedef struct gy_virtual_update {
    const gy_mesh *mesh;
    gy_graph **graphs; /* (stages, run_count): of a batch that accumulates, where there is one,
                          then of the one that updates */
    int run_count;     /* 1 or 2 */
    const gy_footprint *footprints; /* (stages) */
    int before; /* runs of the first program, before the last; of lists: of all their parts */
    const gy_pipe_schedule *lists; /* of micro-batches in stages, of which the last program is
                                      the update; NULL: one after the other */
} gy_virtual_update;

/** Play an update. @return as gy_train_simulate_step */
GY_MUST_CHECK gy_status gy_virtual_update_play(const gy_virtual_update *update,
                                               const gy_virtual_cluster *cluster,
                                               const gy_kernel_rates *rates,
                                               gy_virtual_step *step);

#endif
