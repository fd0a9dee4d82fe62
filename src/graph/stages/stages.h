/** The cut: which stage makes which node, and the part of the graph that one stage has. */
#ifndef GY_GRAPH_STAGES_STAGES_H
#define GY_GRAPH_STAGES_STAGES_H

#include "graph/graph.h"

typedef uint64_t gy_stage_set; /* bit s: stage s */

static inline gy_stage_set gy_stage_bit(int stage)
{
    GY_ASSERT(stage >= 0 && stage < GY_STAGES_MAX);
    return (gy_stage_set)1 << stage;
}
static inline int gy_stage_lowest(gy_stage_set set)
{
    GY_ASSERT(set != 0);
    return __builtin_ctzll(set);
}
static inline int gy_stage_highest(gy_stage_set set)
{
    GY_ASSERT(set != 0);
    return 63 - __builtin_clzll(set);
}

/** Where a node runs. */
typedef enum gy_stage_kind {
    GY_STAGE_ONE,      /* in one stage */
    GY_STAGE_ANYWHERE, /* in each that wants it: what is fed or constant, and cheap work on it
                        */
    GY_STAGE_KEPT, /* in each that wants it and keeps the parameter: that, or a part of it */
} gy_stage_kind;

/** All of it is a pure function of a placed graph, on whatever rank. */
typedef struct gy_stages {
    gy_stage_kind *kind;
    int32_t *of;        /* node -> its stage, where it has one; -1: not known yet */
    int32_t *leaf;      /* node -> the parameter, of those in homes; else -1 */
    gy_stage_set *home; /* node -> the stages that keep it, of a parameter; else 0 */
    gy_stage_set *made; /* node -> the stages that run it */
    gy_stage_set *need; /* value number -> the stages that want it */
    gy_stage_cuts cuts; /* where nodes are told apart by their sources; count 0: they are not */
    gy_arena arena;     /* of the arrays */
} gy_stages;

/**
 * Find the stages of a placed graph whose mesh has some: by hand, by the graph's cuts, else by
 * cost.
 * @return GY_OK; GY_ARG more stages than nodes, or a stage that the mesh has not; GY_NOMEM.
 * gy_stages_free in any case
 */
GY_MUST_CHECK gy_status gy_stages_find(const gy_graph *graph, gy_stages *stages);
void gy_stages_free(gy_stages *stages);

/** Seconds of a node's work in the largest part that a rank has of it: on all ranks alike. */
double gy_stages_work(const gy_graph *graph, int32_t index);

/**
 * Cut the nodes that `is_told` marks into as many runs of sources as there are stages, so that
 * the longest stage with its transfers is as short as can be.
 * @return GY_OK; GY_ARG there are fewer sources; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_stages_balance(const gy_graph *graph, const bool *is_told,
                                          gy_stage_cuts *cuts);

/** What one stage does in a run. */
typedef struct gy_stage_load {
    int nodes;
    double work_s;
    int sends, receives;
    double sent_bytes, received_bytes, transfer_s;
} gy_stage_load;
/** (stages of the mesh) loads. */
void gy_stages_load(const gy_graph *graph, const gy_stages *stages, gy_stage_load *loads);

#endif
