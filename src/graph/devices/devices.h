/** Folder devices: which nodes of a scheduled graph a rank's device runs, and which its CPU. */
#ifndef GY_GRAPH_DEVICES_DEVICES_H
#define GY_GRAPH_DEVICES_DEVICES_H

#include "graph/graph.h"

/** Capacities between vertices. Zero it; gy_devices_network_free in any case. */
typedef struct gy_devices_network {
    int32_t vertices;
    struct gy_devices_network_edge *edges; /* edge 2 i + 1 is the way back of edge 2 i */
    size_t edge_count, edge_capacity;
    int32_t *first; /* (vertices) the edges of each; -1: none */
} gy_devices_network;

/** More than any sum of capacities that count. */
#define GY_DEVICES_NEVER_CUT (INT64_MAX / 4)

/** GY_NOMEM. */
GY_MUST_CHECK gy_status gy_devices_network_begin(gy_devices_network *flow, int32_t vertices);
/** An edge of `capacity` >= 0 (GY_DEVICES_NEVER_CUT: it is never cut). GY_NOMEM. */
GY_MUST_CHECK gy_status gy_devices_network_add(gy_devices_network *flow, int32_t from,
                                               int32_t to, int64_t capacity);
/**
 * The cheapest set of edges between vertices 0 and 1: which vertices stay on the side of 0.
 * Of several the one with the fewest there. Uses the capacities up.
 * @param stays  (vertices) out
 * @return GY_OK; GY_NOMEM; GY_STATE every set has an edge that is never cut
 * @cost O(vertices^2 edges), in practice near linear
 * @source Dinitz, "Algorithm for solution of a problem of maximum flow in networks with power
 * estimation", 1970
 */
GY_MUST_CHECK gy_status gy_devices_network_cut(gy_devices_network *flow, bool *stays);
void gy_devices_network_free(gy_devices_network *flow);

/**
 * Decide for each node of a scheduled graph whether its device runs it. The sum of what nodes
 * take where they run and of what copies between take is the least there is, of choices whose
 * values fit in the device's memory.
 * @param is_there     (nodes) out
 * @param short_bytes  where they do not fit, what the cheapest of all choices would take; 0: it
 *                     is the choice
 * @return GY_OK; GY_NOMEM; GY_LIMIT what must lie there does not fit
 * @cost some minimal cuts of a network with two vertices a value
 * @source Stone, "Multiprocessor scheduling with the aid of network flow algorithms", 1977
 */
GY_MUST_CHECK gy_status gy_devices_choose(const gy_graph *graph, bool *is_there,
                                          uint64_t *short_bytes);

/** Is the value of this node made on the other side as well, where that reads it, instead of
 * copied? One value in all elements, which nothing feeds. */
bool gy_devices_makes_again(const gy_graph *graph, int32_t index);
/** Seconds that a node takes on the device, or on the CPU; of a copy from or to the device, or
 * of what is made again instead, either. By the rates of graph->device. */
double gy_devices_seconds(const gy_graph *graph, int32_t index, bool is_there);
double gy_devices_copy_seconds(const gy_graph *graph, gy_value value);
/** How much of the graph its device runs; what copies is not counted. graph->share has its
 * short_bytes already. */
gy_device_share gy_devices_share(const gy_graph *graph);
/** May the device run it? Else why not: static. */
bool gy_devices_can(const gy_graph *graph, int32_t index, const char **why);
/** The most that values and the work of kernels take there at a time, in bytes; parameters lie
 * there all the time. */
uint64_t gy_devices_bytes(const gy_graph *graph, const bool *is_there);

#endif
