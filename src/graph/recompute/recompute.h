/** Folder recompute: what a chunk of the forward pass holds for the way back is made again. */
#ifndef GY_GRAPH_RECOMPUTE_RECOMPUTE_H
#define GY_GRAPH_RECOMPUTE_RECOMPUTE_H

#include "graph/graph.h"

/** What a node is for. */
typedef enum gy_recompute_phase {
    GY_PHASE_FIXED,    /* leaves, and what is made of parameters and constants alone */
    GY_PHASE_FORWARD,  /* gradients pass through it, or it comes before such a node */
    GY_PHASE_BACKWARD, /* made for gradients, depends on one, or is read by such nodes alone */
    GY_PHASE_OTHER     /* of the forward pass, and no loss depends on it: a metric */
} gy_recompute_phase;

/**
 * The forward pass of a placed graph as a line of nodes, and what may be dropped of it. A pure
 * function of the graph, alike on all ranks.
 */
typedef struct gy_recompute_line {
    gy_recompute_phase *phase; /* node */
    int32_t *nodes;            /* (count) forward nodes in order */
    int32_t *place;            /* node -> its index in `nodes`; -1: not forward */
    int32_t count;
    int32_t *base;      /* value number -> the value whose memory it is, through views */
    int32_t *last;      /* base value -> place of its last forward reader, at least its own */
    bool *is_held;      /* base value: kept whatever is made again */
    bool *is_read;      /* base value: the way back reads it */
    double *bytes;      /* base value: of one rank's part; else 0 */
    int32_t *stage;     /* node -> its stage; NULL: the mesh has none */
    gy_arena arena;     /* of the arrays */
    gy_stage_cuts cuts; /* that the stages came from */
} gy_recompute_line;

/** GY_NOMEM, or what finding stages fails with. gy_recompute_line_free in any case. */
GY_MUST_CHECK gy_status gy_recompute_line_find(const gy_graph *graph, gy_recompute_line *line);
void gy_recompute_line_free(gy_recompute_line *line);

/**
 * Cut a line of `count` places into chunks so that what is held at their borders and the
 * largest chunk together are smallest; of equals the fewest chunks. Pure.
 *
 * @param cross   (count) bytes that are made up to a place and read behind it
 * @param inside  (count) bytes that the way back reads of what is made at a place
 * @param may     (count) may a chunk end here? The last place may
 * @param ends    (count) out: the last places of the chunks, ascending
 * @return GY_OK; GY_NOMEM
 * @threads any
 * @cost 64 walks over the line
 * @source Chen, Xu, Zhang & Guestrin, "Training deep nets with sublinear memory cost", 2016
 */
GY_MUST_CHECK gy_status gy_recompute_cut(const double *cross, const double *inside,
                                         const bool *may, int32_t count, int32_t *ends,
                                         int32_t *end_count);

#endif
