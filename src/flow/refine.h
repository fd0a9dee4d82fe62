/**
 * Rewriting at run time: refinements, and the pure functions from sizes and samples to a shape.
 */
#ifndef GY_FLOW_GROW_H
#define GY_FLOW_GROW_H

#include "flow/dag.h"

/** What a vertex told. */
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

/** How many vertices shall share a key of so much, where `fair` (>= 1) is a vertex's. */
static inline int gy_key_ways(int64_t weight, int64_t fair)
{
    return weight > fair ? (int)((weight + fair - 1) / fair) : 1;
}

/** The part of a refinement's free outputs, for its growth function. */
gy_part gy_refinement_part(gy_dag *dag, const gy_dag_refinement *refinement);

/**
 * Neighbours into groups of at most bytes_max together, `least` (>= 1) of them at least in all
 * but the last.
 *
 * @param group (count) number of each one's group, from 0
 * @return how many groups
 */
uint32_t gy_shape_groups(const int64_t *bytes, uint32_t count, int64_t bytes_max,
                         uint32_t least, uint32_t *group);

enum { GY_TREE_LEVELS = 32 };

/**
 * An aggregation tree over `count` >= 1 leaves: groups of neighbours by size, then levels of
 * the same fan-in until one is left.
 *
 * @param parent (2 * count + GY_TREE_LEVELS) of leaf or inner node, numbered on from `count`
 * level by level
 * @return nodes in all; the last is the root
 */
uint32_t gy_shape_tree(const int64_t *bytes, uint32_t count, int64_t bytes_max,
                       uint32_t *parent);

#endif
