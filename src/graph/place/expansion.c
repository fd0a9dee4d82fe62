/*
 * What a node could do that no signature of its row says: its expansion, placed alone, with one
 * dimension of its first input cut along one axis. So the classes of a cross entropy stay cut,
 * for a maximum, a sum and a logit a line (Shoeybi et al., "Megatron-LM", 2019). The search
 * takes it as one more signature, which costs what the expansion does; where it is chosen, the
 * node gives way to its expansion and the search begins again (place.c).
 *
 * Equal nodes expand alike, so a kind of nodes is tried once. An expansion that holds a larger
 * value than the node itself is none: memory is what the node was to save.
 */
#include "graph/place/place_priv.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

static const gy_type *input_type(const gy_graph *in, const gy_graph_node *node, int k)
{
    GY_ASSERT(k >= 0 && k < node->input_count);
    return gy_graph_type(in, node->inputs[k]);
}

static bool has_rows(const gy_placer *placer, const gy_graph_node *node, int k)
{
    const int32_t value = gy_graph_value(placer->pass.in, node->inputs[k]);
    GY_ASSERT(value >= 0 && value < placer->pass.in->value_count);
    return (placer->rows[value] & 1) != 0;
}

static bool is_alike(const gy_placer *placer, const gy_graph_node *a, const gy_graph_node *b)
{
    const gy_graph *in = placer->pass.in;
    if (a->op != b->op || a->input_count != b->input_count ||
        memcmp(a->attributes.bytes, b->attributes.bytes, sizeof(a->attributes.bytes)) != 0) {
        return false;
    }
    GY_ASSERT(a->output_count == b->output_count);
    for (int k = 0; k < a->input_count; k++) {
        if (!gy_type_is_same_shape(input_type(in, a, k), input_type(in, b, k)) ||
            has_rows(placer, a, k) != has_rows(placer, b, k)) {
            return false;
        }
    }
    return true;
}

/* ---- the expansion as a graph of its own ---- */

static bool is_as_large(const gy_type *a, const gy_type *b)
{
    return a->rank == b->rank &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof(a->sizes[0])) == 0;
}

/* A leaf for input k: what has the sizes of the first input is cut as that is, what else has
 * rows is whole, all others may be cut as they like. */
static gy_status add_leaf(const gy_placer *placer, gy_graph *graph, const gy_graph_node *node,
                          int k, int dim)
{
    gy_type type = *input_type(placer->pass.in, node, k);
    const bool is_cut = is_as_large(&type, input_type(placer->pass.in, node, 0));
    const bool is_fixed = is_cut || has_rows(placer, node, k);
    gy_attributes attributes = {.bytes = {0}};
    GY_ASSERT(dim >= 0 && dim < GY_TENSOR_RANK_MAX);
    memset(type.placement, 0, sizeof(type.placement));
    if (is_cut) {
        type.placement[0] = (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)dim};
    }
    attributes.shape.is_batched = has_rows(placer, node, k);
    attributes.shape.free_axes = is_fixed ? 0 : 1;
    const gy_value leaf =
        gy_graph_apply_typed(graph, is_fixed ? &gy_ops_row_input : &gy_ops_row_parameter,
                             &attributes, NULL, 0, &type, 1, "leaf");
    GY_TRY(gy_graph_status(graph));
    GY_ASSERT(leaf.node == k);
    graph->nodes[leaf.node].origin = k;
    return GY_OK;
}

static gy_status build(const gy_placer *placer, const gy_graph_node *node, int axis, int dim,
                       gy_graph *graph)
{
    const gy_mesh *mesh = &placer->pass.in->mesh;
    gy_value inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX], made[GY_OP_OUTPUTS_MAX];
    GY_ASSERT(node->op->expand != NULL);
    GY_ASSERT(axis >= 0 && axis < mesh->axes);
    graph->mesh = (gy_mesh){.axes = 1,
                            .kinds = {mesh->kinds[axis]},
                            .sizes = {mesh->sizes[axis]},
                            .links = {mesh->links[axis]}};
    for (int k = 0; k < node->input_count; k++) {
        GY_TRY(add_leaf(placer, graph, node, k, dim));
        inputs[k] = (gy_value){k, 0};
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        outputs[k] = made[k] = GY_NO_VALUE;
    }
    const gy_applied applied = {.attributes = &node->attributes,
                                .inputs = inputs,
                                .input_count = node->input_count,
                                .outputs = outputs};
    GY_TRY(node->op->expand(&graph->builder, &applied, made));
    GY_TRY(gy_graph_status(graph));
    for (int32_t k = 0; k < node->output_count; k++) {
        GY_TRY(gy_graph_add_root(graph, &(gy_root){.value = made[k]}));
    }
    return GY_OK;
}

/* Does it hold a value larger than all that the node reads and makes? */
static bool is_larger(const gy_graph *expansion, const gy_placer *placer,
                      const gy_graph_node *node)
{
    int64_t most = 0;
    for (int k = 0; k < node->input_count; k++) {
        most = GY_MAX(most, gy_type_count(input_type(placer->pass.in, node, k)));
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        most = GY_MAX(most, gy_type_count(&node->types[k]));
    }
    GY_ASSERT(most >= 0);
    for (int32_t i = 0; i < expansion->node_count; i++) {
        for (int32_t k = 0; k < expansion->nodes[i].output_count; k++) {
            if (gy_type_count(&expansion->nodes[i].types[k]) > most) {
                return true;
            }
        }
    }
    return false;
}

/* What the placement of the expansion says of the node. */
static void take_signature(const gy_placer *alone, const gy_value *outputs, int output_count,
                           gy_expansion *found)
{
    const gy_graph *in = alone->pass.in;
    GY_ASSERT(output_count <= GY_OP_OUTPUTS_MAX);
    GY_ASSERT(in->mesh.axes == 1);
    for (int32_t i = 0; i < in->node_count; i++) {
        if (in->nodes[i].origin >= 0) {
            GY_ASSERT(in->nodes[i].origin < GY_OP_INPUTS_MAX);
            found->signature.inputs[in->nodes[i].origin] =
                alone->kept[in->nodes[i].first_value].along[0];
        }
    }
    for (int k = 0; k < output_count; k++) {
        found->signature.outputs[k] = alone->kept[gy_graph_value(in, outputs[k])].along[0];
    }
    found->seconds = alone->cost_s;
    found->is_possible = alone->cost_s < INFINITY;
}

/* Search a placement of the expansion whose results may be anywhere. */
static gy_status place_alone(gy_placer *placer, gy_graph *expansion, gy_expansion *found)
{
    gy_value outputs[GY_OP_OUTPUTS_MAX];
    const int output_count = (int)expansion->root_count;
    GY_ASSERT(output_count <= GY_OP_OUTPUTS_MAX);
    for (int k = 0; k < output_count; k++) {
        outputs[k] = expansion->roots[k].value;
    }
    expansion->root_count = 0;
    gy_placer alone = {.kins = NULL};
    gy_graph *ended = NULL;
    alone.prices[0] = placer->prices[found->axis];
    GY_TRY(gy_pass_begin(&alone.pass, expansion));
    const gy_status status = gy_placer_decide(&alone);
    placer->prices[found->axis] = alone.prices[0];
    if (status >= 0) {
        take_signature(&alone, outputs, output_count, found);
    }
    const gy_status end = gy_pass_end(&alone.pass, GY_STATE, &ended);
    GY_ASSERT(end == GY_STATE && ended == NULL); /* the choices alone are wanted */
    gy_placer_free(&alone);
    return status;
}

static gy_status try_expansion(gy_placer *placer, const gy_graph_node *node,
                               gy_expansion *found)
{
    GY_ASSERT(!found->is_possible);
    gy_graph *graph = gy_graph_new_like(placer->pass.in), *expansion = NULL;
    if (graph == NULL) {
        return GY_NOMEM;
    }
    gy_status status = build(placer, node, found->axis, found->dim, graph);
    status = status < 0 ? status : gy_rewrite_dead(graph, &expansion);
    gy_graph_free(graph);
    GY_TRY(status);
    if (!is_larger(expansion, placer, node)) {
        status = place_alone(placer, expansion, found);
    }
    gy_graph_free(expansion);
    return status;
}

gy_status gy_expansion_find(gy_placer *placer, int32_t index, int axis, int dim,
                            gy_expansion *found)
{
    GY_ASSERT(index >= 0 && index < placer->pass.in->node_count);
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    for (int32_t i = 0; i < placer->expansion_count; i++) {
        const gy_expansion *known = &placer->expansions[i];
        if (known->axis == axis && known->dim == dim &&
            is_alike(placer, &placer->pass.in->nodes[known->node], node)) {
            *found = *known;
            return GY_OK;
        }
    }
    *found = (gy_expansion){.node = index, .axis = axis, .dim = dim};
    GY_TRY(try_expansion(placer, node, found));
    GY_TRY(GY_GROW("graph.place", placer->expansions, placer->expansion_capacity,
                   (size_t)placer->expansion_count + 1));
    placer->expansions[placer->expansion_count++] = *found;
    return GY_OK;
}
