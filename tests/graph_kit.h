/**
 * Made or the test fails: graphs.
 */
#ifndef GY_TESTS_GRAPH_KIT_H
#define GY_TESTS_GRAPH_KIT_H

#include <gyre/graph.h>

#include "gy_test.h"

static inline gy_graph *kit_graph(void)
{
    gy_graph *graph = NULL;
    assert_ok(gy_graph_new(&graph));
    return graph;
}

#endif
