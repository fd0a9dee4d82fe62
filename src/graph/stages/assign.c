/*
 * Which stage makes which node. A node by hand is where the hand says. Where gradients pass, a
 * node and those of its gradient are told apart by their source: the sources of the user's
 * graph are cut into runs. All others follow what they read: a parameter's home, else the
 * largest input. What is fed or constant is everywhere, and so is cheap work on it alone.
 *
 * Any answer gives the same values: what is asked of this file is a good one, and the same one
 * on all ranks.
 */
#include "graph/stages/stages.h"

#include <string.h>

typedef struct finder {
    const gy_graph *graph;
    gy_stages *to;
    bool *is_told;      /* node -> its stage follows from its source */
    int32_t *of_source; /* source -> stage of what was found first; -1 */
    int32_t source_count;
} finder;

static bool is_part(const gy_op *op)
{
    GY_ASSERT(op != NULL);
    return (op->flags & GY_OP_VIEW) != 0 || op == &gy_ops_row_take_shard ||
           op == &gy_ops_row_allgather || op == &gy_ops_row_alltoall;
}

/* Scalars of what is everywhere: rates, corrections. */
static bool is_cheap(const gy_graph_node *node)
{
    GY_ASSERT(node->input_count > 0 && node->output_count > 0);
    return is_part(node->op) ||
           ((node->op->flags & (GY_OP_ELEMENTWISE | GY_OP_RANDOM)) == GY_OP_ELEMENTWISE &&
            node->types[0].rank == 0);
}

static void find_kind(finder *f, int32_t index)
{
    const gy_graph_node *node = &f->graph->nodes[index];
    gy_stages *to = f->to;
    GY_ASSERT(index >= 0 && index < f->graph->node_count);
    to->leaf[index] = -1;
    to->of[index] = -1;
    to->kind[index] = GY_STAGE_ONE;
    if (node->op == &gy_ops_row_parameter) {
        to->kind[index] = GY_STAGE_KEPT;
        to->leaf[index] = index;
        to->home[index] = node->homes;
    } else if (node->input_count == 0) {
        to->kind[index] = GY_STAGE_ANYWHERE;
    } else if (node->mark.by_hand == 0 && is_part(node->op) && node->input_count == 1 &&
               to->kind[node->inputs[0].node] == GY_STAGE_KEPT) {
        to->kind[index] = GY_STAGE_KEPT;
        to->leaf[index] = to->leaf[node->inputs[0].node];
    } else if (node->mark.by_hand == 0 && is_cheap(node)) {
        bool is_anywhere = true;
        for (int k = 0; k < node->input_count; k++) {
            is_anywhere = is_anywhere && to->kind[node->inputs[k].node] == GY_STAGE_ANYWHERE;
        }
        to->kind[index] = is_anywhere ? GY_STAGE_ANYWHERE : GY_STAGE_ONE;
    }
}

/* An assignment runs where the parameter is kept. */
static bool is_open(const finder *f, int32_t index)
{
    GY_ASSERT(index >= 0 && index < f->graph->node_count);
    GY_ASSERT(f->to->of[index] < gy_mesh_stages(&f->graph->mesh));
    return f->to->kind[index] == GY_STAGE_ONE && f->to->of[index] < 0 &&
           f->graph->nodes[index].op != &gy_ops_row_assign;
}

static gy_status take_hand(finder *f, int32_t index)
{
    const gy_graph_node *node = &f->graph->nodes[index];
    GY_ASSERT(f->graph->mesh.stages > 1);
    if (node->mark.by_hand == 0 || f->to->kind[index] != GY_STAGE_ONE) {
        return GY_OK;
    }
    if (node->mark.by_hand > gy_mesh_stages(&f->graph->mesh)) {
        return gy_fail(GY_ARG, "node %s is of stage %d, the mesh has stages 0 to %d",
                       node->name, node->mark.by_hand - 1, gy_mesh_stages(&f->graph->mesh) - 1);
    }
    f->to->of[index] = node->mark.by_hand - 1;
    return GY_OK;
}

/* ---- by sources ---- */

/* Which nodes their sources tell apart; false: none. */
static bool mark_told(finder *f)
{
    const gy_graph *graph = f->graph;
    bool any = false, is_decided = false;
    GY_ASSERT(graph->node_count >= 0 && f->is_told != NULL);
    for (int pass = 0; pass < 2 && !any && !is_decided; pass++) {
        for (int32_t i = 0; i < graph->node_count; i++) {
            const gy_stage_mark *mark = &graph->nodes[i].mark;
            f->is_told[i] =
                is_open(f, i) && mark->source >= 0 && (mark->is_differentiated || pass == 1);
            any = any || f->is_told[i];
            is_decided = is_decided || f->to->home[i] != 0;
        }
    }
    return any;
}

static int stage_of_source(const gy_stage_cuts *cuts, int32_t source)
{
    int stage = 0;
    GY_ASSERT(source >= 0 && cuts->count < GY_STAGES_MAX);
    while (stage < cuts->count && cuts->first[stage] <= source) {
        stage++;
    }
    return stage;
}

static gy_status tell_by_sources(finder *f)
{
    const gy_graph *graph = f->graph;
    gy_stages *to = f->to;
    bool has_hand = false;
    GY_ASSERT(graph->mesh.stages > 1 && to->cuts.count == 0);
    for (int32_t i = 0; i < graph->node_count; i++) {
        has_hand = has_hand || graph->nodes[i].mark.by_hand != 0;
    }
    if (!mark_told(f) || (has_hand && graph->cuts.count == 0)) {
        return GY_OK;
    }
    to->cuts = graph->cuts;
    if (to->cuts.count == 0) {
        GY_TRY(gy_stages_balance(graph, f->is_told, &to->cuts));
    }
    if (to->cuts.count >= gy_mesh_stages(&graph->mesh)) {
        return gy_fail(GY_ARG, "the graph is cut into %d stages, the mesh has %d",
                       to->cuts.count + 1, gy_mesh_stages(&graph->mesh));
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (f->is_told[i]) {
            to->of[i] = stage_of_source(&to->cuts, graph->nodes[i].mark.source);
            GY_ASSERT(to->of[i] < gy_mesh_stages(&graph->mesh));
        }
    }
    return GY_OK;
}

/* ---- parameters ---- */

/* Parameters that have no home yet get those of all that read them and have a stage. */
static gy_status find_homes(finder *f)
{
    const gy_graph *graph = f->graph;
    gy_stages *to = f->to;
    gy_stage_set *found =
        gy_alloc_zero("graph.stages", (size_t)graph->node_count + 1, sizeof(*found));
    if (found == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        for (int k = 0; k < node->input_count && to->kind[i] == GY_STAGE_ONE; k++) {
            const int32_t leaf = to->leaf[node->inputs[k].node];
            GY_ASSERT(leaf < i && to->of[i] < gy_mesh_stages(&graph->mesh));
            if (leaf >= 0 && to->of[i] >= 0) {
                found[leaf] |= gy_stage_bit(to->of[i]);
            }
        }
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (to->leaf[i] == i && to->home[i] == 0) {
            to->home[i] = found[i];
        }
    }
    gy_free(found);
    return GY_OK;
}

/* ---- the others ---- */

/* The home that is next to where the rest of the node's inputs are. */
static int near_home(gy_stage_set homes, int stage)
{
    GY_ASSERT(homes != 0);
    GY_ASSERT(stage < GY_STAGES_MAX);
    if (stage < 0) {
        return gy_stage_lowest(homes);
    }
    const gy_stage_set later = homes >> stage << stage;
    return later != 0 ? gy_stage_lowest(later) : gy_stage_highest(homes);
}

/* By what it reads; -1: that says nothing. */
static int follow(const finder *f, const gy_graph_node *node)
{
    const gy_stages *to = f->to;
    double largest = -1, largest_home = -1;
    gy_stage_set homes = 0;
    int stage = -1;
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    for (int k = 0; k < node->input_count; k++) {
        const int32_t maker = node->inputs[k].node;
        const double bytes = gy_stages_bytes(f->graph, node->inputs[k]);
        GY_ASSERT(bytes >= 0 && maker < f->graph->node_count);
        const int32_t leaf = to->leaf[maker];
        if (leaf >= 0 && to->home[leaf] != 0 && bytes > largest_home) {
            largest_home = bytes;
            homes = to->home[leaf];
        } else if (leaf < 0 && to->of[maker] >= 0 &&
                   (bytes > largest || (bytes == largest && to->of[maker] > stage))) {
            largest = bytes;
            stage = to->of[maker];
        }
    }
    return homes != 0 ? near_home(homes, stage) : stage;
}

static void tell_others(finder *f)
{
    const gy_graph *graph = f->graph;
    int32_t *of = f->to->of;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        const int32_t source = node->mark.source;
        GY_ASSERT(source < f->source_count);
        const bool is_known =
            source >= 0 && node->mark.is_differentiated && f->of_source[source] >= 0;
        if (is_open(f, i)) {
            of[i] = is_known ? f->of_source[source] : follow(f, node);
        }
        if (source >= 0 && of[i] >= 0 && f->of_source[source] < 0) {
            f->of_source[source] = of[i];
        }
    }
    /* What nothing told follows its readers. */
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const gy_graph_node *node = &graph->nodes[i];
        if (is_open(f, i)) {
            of[i] = 0;
        }
        for (int k = 0; k < node->input_count && of[i] >= 0; k++) {
            const int32_t maker = node->inputs[k].node;
            GY_ASSERT(maker < i);
            of[maker] = is_open(f, maker) ? of[i] : of[maker];
        }
    }
}

/* ---- who runs what ---- */

/* All stages of the ranks that have one of these. */
static gy_stage_set spread(const gy_mesh *mesh, gy_stage_set stages)
{
    gy_stage_set all = 0;
    for (int rank = 0; rank < mesh->stages; rank++) {
        const gy_stage_set there = gy_mesh_stages_of(mesh, rank);
        all |= (there & stages) != 0 ? there : 0;
    }
    GY_ASSERT((stages & ~all) == 0);
    return all;
}

/* Behind its users: the stages that want a node's values are known. */
static void find_made(finder *f, int32_t index)
{
    const gy_graph_node *node = &f->graph->nodes[index];
    gy_stages *to = f->to;
    gy_stage_set made = 0;
    GY_ASSERT(to->made[index] == 0);
    for (int32_t k = 0; k < node->output_count; k++) {
        made |= to->need[node->first_value + k];
    }
    if (node->op == &gy_ops_row_assign) {
        GY_ASSERT(to->leaf[node->inputs[0].node] >= 0);
        made = to->home[to->leaf[node->inputs[0].node]];
    } else if (to->kind[index] == GY_STAGE_ONE) {
        GY_ASSERT(to->of[index] >= 0 && to->of[index] < gy_mesh_stages(&f->graph->mesh));
        made = gy_stage_bit(to->of[index]);
    } else if (to->kind[index] == GY_STAGE_KEPT && made != 0) {
        GY_ASSERT(to->leaf[index] >= 0 && to->leaf[index] <= index);
        const gy_stage_set home = spread(&f->graph->mesh, to->home[to->leaf[index]]);
        const bool is_sent = (made & ~home) != 0;
        made = (made & home) | (is_sent ? gy_stage_bit(gy_stage_lowest(home)) : 0);
    }
    to->made[index] = made;
    for (int k = 0; k < node->input_count; k++) {
        to->need[gy_graph_value(f->graph, node->inputs[k])] |= made;
    }
}

static gy_status find(finder *f)
{
    const gy_graph *graph = f->graph;
    gy_stages *to = f->to;
    const gy_stage_set all = ~(gy_stage_set)0 >> (GY_STAGES_MAX - gy_mesh_stages(&graph->mesh));
    for (int32_t i = 0; i < f->source_count; i++) {
        f->of_source[i] = -1;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        find_kind(f, i);
        GY_TRY(take_hand(f, i));
    }
    GY_TRY(tell_by_sources(f));
    GY_TRY(find_homes(f));
    tell_others(f);
    GY_TRY(find_homes(f));
    for (int32_t i = 0; i < graph->node_count; i++) { /* nobody reads it: each has its own */
        to->home[i] = to->leaf[i] == i && to->home[i] == 0 ? all : to->home[i];
    }
    for (int32_t i = 0; i < graph->root_count; i++) {
        const gy_value root = graph->roots[i].value;
        if (gy_graph_at(graph, root)->op != &gy_ops_row_assign) {
            to->need[gy_graph_value(graph, root)] = all;
        }
    }
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        find_made(f, i);
    }
    return GY_OK;
}

gy_status gy_stages_find(const gy_graph *graph, gy_stages *stages)
{
    GY_ASSERT(graph->is_placed && graph->mesh.stages > 1);
    const size_t nodes = (size_t)graph->node_count + 1, values = (size_t)graph->value_count + 1;
    memset(stages, 0, sizeof(*stages));
    gy_arena arena = {0};
    finder f = {.graph = graph, .to = stages};
    for (int32_t i = 0; i < graph->node_count; i++) {
        f.source_count = GY_MAX(f.source_count, graph->nodes[i].mark.source + 1);
    }
    f.is_told = gy_arena_alloc(&arena, nodes * sizeof(bool));
    f.of_source = gy_arena_alloc(&arena, ((size_t)f.source_count + 1) * sizeof(int32_t));
    stages->kind = gy_arena_alloc(&stages->arena, nodes * sizeof(*stages->kind));
    stages->of = gy_arena_alloc(&stages->arena, nodes * sizeof(int32_t));
    stages->leaf = gy_arena_alloc(&stages->arena, nodes * sizeof(int32_t));
    stages->home = gy_arena_alloc(&stages->arena, nodes * sizeof(gy_stage_set));
    stages->made = gy_arena_alloc(&stages->arena, nodes * sizeof(gy_stage_set));
    stages->need = gy_arena_alloc(&stages->arena, values * sizeof(gy_stage_set));
    const bool is_there = f.is_told != NULL && f.of_source != NULL && stages->kind != NULL &&
                          stages->of != NULL && stages->leaf != NULL && stages->home != NULL &&
                          stages->made != NULL && stages->need != NULL;
    const gy_status status = is_there ? find(&f) : GY_NOMEM;
    gy_arena_free(&arena);
    return status;
}

void gy_stages_free(gy_stages *stages)
{
    GY_ASSERT(stages != NULL);
    gy_arena_free(&stages->arena);
    memset(stages, 0, sizeof(*stages));
}
