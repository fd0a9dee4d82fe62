/**
 * What the tests of passes share: a graph bound to a mesh, a graph as text. Includes gy_test.h,
 * so it comes last after a blank line.
 */
#ifndef GY_GRAPH_PASSES_PASS_TEST_H
#define GY_GRAPH_PASSES_PASS_TEST_H

#include "graph/session.h"

#include <string.h>

#include "gy_test.h"

typedef gy_status (*pass_function)(const gy_graph *in, gy_graph **out);

static inline gy_graph *bind_mesh(gy_graph *graph, const gy_mesh *mesh, int64_t batch,
                                  const gy_node *fetches, int count)
{
    gy_value values[8];
    gy_graph *bound = NULL;
    for (int i = 0; i < count; i++) {
        values[i] = (gy_value){fetches[i].index, fetches[i].output};
    }
    assert_ok(gy_graph_status(graph));
    assert_ok(gy_bind(graph, mesh, batch, values, count, &bound));
    return bound;
}

static inline gy_graph *bind(gy_graph *graph, int ranks, int64_t batch, const gy_node *fetches,
                             int count)
{
    const gy_mesh mesh = {.axes = 1, .sizes = {ranks}};
    return bind_mesh(graph, &mesh, batch, fetches, count);
}

/* The graph as text, its costs and placements of one rank cut off. */
static inline void assert_prints(const gy_graph *graph, const char *wanted)
{
    gy_text text = {.data = NULL}, brief = {.data = NULL};
    gy_graph_print(graph, &text);
    for (const char *line = gy_text_get(&text); *line != '\0';) {
        const char *end = strchr(line, '\n'), *cost = strstr(line, "  #");
        const char *cut = cost != NULL && cost < end ? cost : end;
        gy_text_add_bytes(&brief, line, (size_t)(cut - line));
        gy_text_add(&brief, "\n");
        line = end + 1;
    }
    if (strcmp(gy_text_get(&brief), wanted) != 0) {
        printf("expected\n%sgot\n%s", wanted, gy_text_get(&brief));
        fail();
    }
    gy_text_free(&text);
    gy_text_free(&brief);
}

static inline void check(pass_function pass, gy_graph *graph, const gy_node *fetches, int count,
                         const char *before, const char *after)
{
    gy_graph *bound = bind(graph, 1, 4, fetches, count), *out = NULL;
    assert_prints(bound, before);
    assert_ok(pass(bound, &out));
    assert_prints(out, after);
    gy_graph_free(out);
    gy_graph_free(bound);
    gy_graph_free(graph);
}

static inline gy_node matrix(gy_graph *g, const char *name)
{
    return gy_graph_input(g, name, GY_F64, (int64_t[]){GY_BATCH, 3}, 2);
}

#endif
