/**
 * Dynamic graph refinement: refinement points, and the pure functions from sizes and samples to
 * the shape of the new vertices.
 */
#ifndef GY_FLOW_REFINE_H
#define GY_FLOW_REFINE_H

#include "flow/dag.h"

/** The sample of a vertex (gy_vertex_set_sample). */
typedef struct gy_refinement_sample_row {
    const void *data;
    size_t size_bytes;
} gy_refinement_sample_row;

struct gy_refinement {
    const gy_dag_refinement *row;
    int64_t *bytes;                    /* (row->port_count) */
    gy_refinement_sample_row *samples; /* (row->port_count) */
    int processes;
};

/** How many vertices should share a key of this weight, when `fair` (>= 1) is one vertex's
 * share.
 */
static inline int gy_key_ways(int64_t weight, int64_t fair)
{
    return weight > fair ? (int)((weight + fair - 1) / fair) : 1;
}

/** Make the part of a refinement point's free outputs, for its refinement function. */
gy_part gy_refinement_part(gy_dag *dag, const gy_dag_refinement *refinement);

/**
 * Group neighbours so that a group has at most bytes_max, but at least count_min (>= 1)
 * members, except the last group.
 *
 * @param group (count) becomes the group number of each, from 0
 * @return how many groups
 */
uint32_t gy_flow_shape_groups(const int64_t *bytes, uint32_t count, int64_t bytes_max,
                              uint32_t count_min, uint32_t *group);

enum { GY_TREE_LEVELS = 32 };

/**
 * Plan an aggregation tree over `count` >= 1 leaves: groups of neighbours by size, then levels
 * of the same fan-in until one node is left.
 *
 * @param parent (2 * count + GY_TREE_LEVELS) becomes the parent of each leaf and inner node;
 * inner nodes are numbered from `count` on, level by level
 * @return how many nodes there are; the last is the root
 */
uint32_t gy_flow_shape_tree(const int64_t *bytes, uint32_t count, int64_t bytes_max,
                            uint32_t *parent);

#endif
