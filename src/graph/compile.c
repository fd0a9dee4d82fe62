/* The passes in order, and the text of every stage. */
#include "graph/graph.h"

#include <string.h>

const gy_compile_pass gy_compile_passes[] = {
    {"constants", gy_rewrite_constants},
    {"algebra", gy_rewrite_algebra},
    {"common", gy_rewrite_common},
    {"expand", gy_expand},
    {"constants", gy_rewrite_constants},
    {"algebra", gy_rewrite_algebra},
    {"common", gy_rewrite_common},
    {"dead", gy_rewrite_dead},
    {"place", gy_place},
    {"schedule", gy_schedule}, /* numbers the collectives: what follows is this rank's own */
    {"epilogues", gy_fuse_epilogues},
    {"layout", gy_lay_out},
    {"fuse", gy_fuse},
    {"schedule", gy_schedule},
};
const int gy_compile_pass_count = (int)GY_COUNT(gy_compile_passes);

static void show(const gy_graph *graph, const char *stage, gy_text *text)
{
    if (text != NULL) {
        gy_text_add(text, "== %s: %d nodes\n", stage, (int)graph->node_count);
        gy_graph_print(graph, text);
    }
}

gy_status gy_compile(const gy_graph *bound, uint32_t skip, gy_text *text, gy_graph **out)
{
    show(bound, "bind", text);
    gy_graph *last = NULL;
    for (int i = 0; i < gy_compile_pass_count; i++) {
        if ((skip >> i & 1) != 0) {
            continue;
        }
        gy_graph *next = NULL;
        gy_status status = gy_compile_passes[i].run(last != NULL ? last : bound, &next);
        gy_graph_free(last);
        GY_TRY(status);
        last = next;
        show(last, gy_compile_passes[i].name, text);
    }
    GY_ASSERT(last != NULL); /* place and schedule are never skipped */
    *out = last;
    return GY_OK;
}
