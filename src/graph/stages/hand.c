/* Stages by hand: of nodes, and places where the graph is cut. */
#include "graph/stages/stages.h"

#include <stdlib.h>
#include <string.h>

gy_status gy_stage(gy_node node, int stage)
{
    GY_TRY(gy_graph_status(node.graph));
    if (node.index < 0 || stage < 0 || stage >= GY_STAGES_MAX) {
        return gy_fail(GY_ARG, "stage %d of node %d: expected 0 to %d and a node", stage,
                       (int)node.index, GY_STAGES_MAX - 1);
    }
    GY_ASSERT(node.index < node.graph->node_count);
    node.graph->nodes[node.index].mark.by_hand = (uint8_t)(stage + 1);
    return GY_OK;
}

/* The first node through which gradients pass and that is called so, or reads what is; -1. */
static int32_t find_place(const gy_graph *graph, const char *name, bool *is_known)
{
    GY_ASSERT(!*is_known);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        bool is_meant = strcmp(node->name, name) == 0;
        *is_known = *is_known || is_meant;
        for (int k = 0; k < node->input_count; k++) {
            const gy_graph_node *input = &graph->nodes[node->inputs[k].node];
            is_meant = is_meant ||
                       ((input->op->flags & GY_OP_LEAF) != 0 && strcmp(input->name, name) == 0);
        }
        if (is_meant && node->mark.is_differentiated && (node->op->flags & GY_OP_LEAF) == 0) {
            return node->mark.source;
        }
    }
    return -1;
}

/* The names of places that are most like one that is none, for a message. */
static void name_nearest(const gy_graph *graph, const char *name, gy_text *text)
{
    enum { SHOWN = 3 };
    const char *best[SHOWN] = {NULL};
    int least[SHOWN] = {0};
    GY_ASSERT(name != NULL && text != NULL);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const char *other = graph->nodes[i].name;
        const int far = gy_text_distance(name, other, false);
        int at = 0;
        while (at < SHOWN && best[at] != NULL &&
               (least[at] <= far && strcmp(best[at], other) != 0)) {
            at++;
        }
        bool ignored = false;
        if (at == SHOWN || (best[at] != NULL && strcmp(best[at], other) == 0) ||
            find_place(graph, other, &ignored) < 0) {
            continue;
        }
        for (int k = SHOWN - 1; k > at; k--) {
            best[k] = best[k - 1];
            least[k] = least[k - 1];
        }
        best[at] = other;
        least[at] = far;
    }
    for (int i = 0; i < SHOWN && best[i] != NULL; i++) {
        gy_text_add(text, "%s%.60s", i == 0 ? "" : ", ", best[i]);
    }
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

gy_status gy_graph_cut(gy_graph *graph, const char *const *names, int count)
{
    GY_TRY(gy_graph_status(graph));
    if (count < 0 || count >= GY_STAGES_MAX) {
        return gy_fail(GY_ARG, "cut: %d names, expected 0 to %d", count, GY_STAGES_MAX - 1);
    }
    gy_stage_cuts cuts = {.count = count};
    for (int i = 0; i < count; i++) {
        bool is_known = false;
        cuts.first[i] = find_place(graph, names[i], &is_known);
        if (cuts.first[i] >= 0) {
            continue;
        }
        if (is_known) {
            return gy_fail(GY_ARG, "cut: no gradient passes through node '%.60s'", names[i]);
        }
        gy_text text = {.data = NULL};
        name_nearest(graph, names[i], &text);
        const gy_status status =
            gy_fail(GY_ARG,
                    "cut: no node or parameter '%.60s'; the nearest names where a "
                    "stage may begin: %s",
                    names[i], gy_text_get(&text));
        gy_text_free(&text);
        return status;
    }
    qsort(cuts.first, (size_t)count, sizeof(cuts.first[0]), by_number);
    for (int i = 0; i + 1 < count; i++) {
        GY_ASSERT(cuts.first[i] <= cuts.first[i + 1]);
        if (cuts.first[i] == cuts.first[i + 1]) {
            return gy_fail(GY_ARG, "cut: two stages begin at node '%.60s'",
                           graph->nodes[cuts.first[i]].name);
        }
    }
    graph->cuts = cuts;
    return GY_OK;
}
