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
    {"dead", gy_rewrite_dead}, /* moves that nobody uses: no number is theirs */
    {"reshard", gy_memory_reshard},
    {"schedule", gy_schedule}, /* numbers the collectives: what follows is this rank's own */
    {"epilogues", gy_fuse_epilogues},
    {"layout", gy_lay_out},
    {"fuse", gy_fuse},
    {"schedule", gy_schedule},
};
const int gy_compile_pass_count = (int)GY_COUNT(gy_compile_passes);

static void show(const gy_graph *graph, const char *stage, gy_text *before, gy_text *text)
{
    GY_ASSERT(graph != NULL && stage != NULL);
    if (text != NULL) {
        gy_graph_print_stage(graph, stage, before, text);
    }
}

static gy_status run_passes(const gy_graph *bound, uint32_t skip, gy_text *before,
                            gy_text *text, gy_graph **out)
{
    GY_ASSERT(!bound->is_placed);
    GY_ASSERT(gy_compile_pass_count < 31);
    show(bound, "bind", before, text);
    gy_graph *last = NULL;
    for (int i = 0; i < gy_compile_pass_count; i++) {
        if ((skip >> i & 1) != 0) {
            continue;
        }
        gy_graph *next = NULL;
        gy_status status = gy_compile_passes[i].run(last != NULL ? last : bound, &next);
        gy_graph_free(last);
        GY_TRY(status);
        GY_ASSERT(next != NULL && next->batch == bound->batch);
        GY_ASSERT(next->root_count == bound->root_count);
        last = next;
        show(last, gy_compile_passes[i].name, before, text);
    }
    GY_ASSERT(last != NULL); /* place and schedule are never skipped */
    GY_ASSERT(last->is_placed);
    *out = last;
    return GY_OK;
}

gy_status gy_compile(const gy_graph *bound, uint32_t skip, gy_text *text, gy_graph **out)
{
    GY_ASSERT(bound->batch > 0 && bound->mesh.axes > 0);
    GY_ASSERT(out != NULL);
    gy_text before = {.data = NULL};
    gy_status status = run_passes(bound, skip, &before, text, out);
    gy_text_free(&before);
    return status;
}
