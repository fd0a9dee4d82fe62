/** What the files of room graph share among themselves. */
#ifndef GY_GRAPH_GRAPH_PRIV_H
#define GY_GRAPH_GRAPH_PRIV_H

#include "graph/graph.h"

/** A failed node. */
static inline gy_node gy_node_failed(gy_graph *graph)
{
    return (gy_node){graph, -1, 0};
}

/** Apply `op` to public nodes of one graph (inputs[0]'s). */
gy_node gy_node_apply(const gy_op *op, const gy_attributes *attributes, const gy_node *inputs,
                      int count);

/** A copy that is never freed; one of each text. @threads any */
const char *gy_name_keep(const char *name);

/** The name of the hidden input i64[2] that sessions feed with (seed, step). */
#define GY_SEED_NAME "session seed"

#endif
