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
    {"join", gy_pass_join},
    {"common", gy_rewrite_common},
    {"dead", gy_rewrite_dead},
    {"precision", gy_pass_precision},
    {"place", gy_place},
    {"dead", gy_rewrite_dead}, /* moves that nobody uses: no number is theirs */
    {"recompute", gy_recompute_chunks},
    {"reshard", gy_memory_reshard},
    {"schedule", gy_schedule}, /* numbers the collectives: what follows is this rank's own */
    {"cut", gy_stages_cut},
    {"epilogues", gy_fuse_epilogues},
    {"layout", gy_lay_out},
    {"fuse", gy_fuse},
    {"schedule", gy_schedule},
    {"devices", gy_pass_devices},
    {"layout", gy_graph_lay_out_rest}, /* devices take dense values: only now it is known what
                                          is theirs */
};
const int gy_compile_pass_count = (int)GY_COUNT(gy_compile_passes);

static void show(const gy_graph *graph, const char *stage, gy_text *before, gy_text *text)
{
    GY_ASSERT(graph != NULL && stage != NULL);
    if (text != NULL) {
        gy_graph_print_stage(graph, stage, before, text);
    }
}

/* Run the passes until one that says `is_last`; NULL: all of them. */
typedef bool (*stop)(const gy_compile_pass *pass, const gy_graph *made);

static bool places(const gy_compile_pass *pass, const gy_graph *made)
{
    GY_ASSERT(pass->run != gy_schedule || made->is_placed);
    return pass->run == gy_place && made->is_placed;
}

static bool schedules(const gy_compile_pass *pass, const gy_graph *made)
{
    return pass->run == gy_schedule && made->is_placed;
}

static bool has_stages(const gy_graph *graph)
{
    GY_ASSERT(graph->mesh.stages >= 0 && graph->mesh.stages <= GY_STAGES_MAX);
    return graph->mesh.stages > 1;
}

static bool cuts(const gy_compile_pass *pass, const gy_graph *made)
{
    return has_stages(made) ? pass->run == gy_stages_cut : schedules(pass, made);
}

/* The text of all stages, of which a stage shows how it differs from the one before. */
typedef struct stages {
    gy_text *text; /* NULL: nobody reads it */
    gy_text before, precision, placement, again, devices;
} stages;

static gy_status show_pass(const gy_compile_pass *pass, const gy_graph *made, stages *shown)
{
    show(made, pass->name, &shown->before, shown->text);
    if (shown->text != NULL && pass->run == gy_pass_precision) {
        GY_TRY(gy_graph_explain_precision(made, &shown->precision));
    }
    if (shown->text != NULL && pass->run == gy_recompute_chunks) {
        GY_TRY(gy_graph_explain_recompute(made, &shown->again));
    }
    if (shown->text != NULL && pass->run == gy_pass_devices) {
        GY_TRY(gy_graph_explain_devices(made, &shown->devices));
    }
    const bool is_first = schedules(pass, made) && shown->placement.size_bytes == 0;
    if (shown->text == NULL || !is_first) {
        return GY_OK;
    }
    GY_TRY(gy_graph_explain_placement(made, &shown->placement));
    return has_stages(made) ? gy_graph_explain_stages(made, &shown->placement) : GY_OK;
}

/* Behind bind, or, of a graph that is placed and scheduled, what follows that. */
static int first_pass(const gy_graph *graph)
{
    int first = 0;
    GY_ASSERT(gy_compile_pass_count > 0);
    while (graph->is_placed && gy_compile_passes[first].run != gy_schedule) {
        first++;
    }
    return graph->is_placed ? first + 1 : 0;
}

static bool is_idle(const gy_compile_pass *pass, const gy_graph *bound)
{
    GY_ASSERT(bound->recompute_max >= 0 && pass->run != NULL);
    return (pass->run == gy_stages_cut && !has_stages(bound)) ||
           (pass->run == gy_pass_precision && bound->precision == GY_DTYPE_NONE) ||
           (pass->run == gy_recompute_chunks && bound->recompute_max == 0) ||
           (pass->run == gy_lay_out && bound->device != NULL) ||
           ((pass->run == gy_pass_devices || pass->run == gy_graph_lay_out_rest) &&
            bound->device == NULL);
}

static gy_status run_passes(const gy_graph *bound, uint32_t skip, stop is_last, stages *shown,
                            gy_graph **out)
{
    GY_ASSERT(gy_compile_pass_count < 31);
    show(bound, "bind", &shown->before, shown->text);
    gy_graph *last = NULL;
    for (int i = first_pass(bound); i < gy_compile_pass_count; i++) {
        if ((skip >> i & 1) != 0 || is_idle(&gy_compile_passes[i], bound)) {
            continue;
        }
        gy_graph *next = NULL;
        gy_status status = gy_compile_passes[i].run(last != NULL ? last : bound, &next);
        gy_graph_free(last);
        GY_TRY(status);
        GY_ASSERT(next != NULL && next->batch == bound->batch);
        GY_ASSERT(next->root_count == bound->root_count);
        last = next;
        status = show_pass(&gy_compile_passes[i], last, shown);
        if (status < 0) {
            gy_graph_free(last);
            return status;
        }
        if (is_last != NULL && is_last(&gy_compile_passes[i], last)) {
            break;
        }
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
    stages shown = {.text = text};
    gy_status status = run_passes(bound, skip, NULL, &shown, out);
    const gy_text *const reports[] = {&shown.precision, &shown.placement, &shown.again,
                                      &shown.devices};
    for (size_t i = 0; status >= 0 && text != NULL && i < GY_COUNT(reports); i++) {
        gy_text_add_bytes(text, gy_text_get(reports[i]), reports[i]->size_bytes);
    }
    gy_text_free(&shown.precision);
    gy_text_free(&shown.placement);
    gy_text_free(&shown.again);
    gy_text_free(&shown.devices);
    gy_text_free(&shown.before);
    return status;
}

gy_status gy_graph_compile_placed(const gy_graph *bound, uint32_t skip, gy_compile_end end,
                                  gy_graph **out)
{
    static const stop ends[] = {[GY_COMPILE_PLACED] = places,
                                [GY_COMPILE_SCHEDULED] = schedules,
                                [GY_COMPILE_CUT] = cuts};
    GY_ASSERT(bound->batch > 0 && out != NULL);
    stages shown = {.text = NULL};
    GY_ASSERT((size_t)end < GY_COUNT(ends));
    return run_passes(bound, skip, ends[end], &shown, out);
}

gy_status gy_graph_compile_rest(const gy_graph *scheduled, uint32_t skip, gy_graph **out)
{
    GY_ASSERT(scheduled->is_placed && out != NULL);
    stages shown = {.text = NULL};
    return run_passes(scheduled, skip, NULL, &shown, out);
}
