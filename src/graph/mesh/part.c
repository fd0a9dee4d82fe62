/* This rank's part of a value, and what a kernel is asked for it. */
#include "graph/graph.h"

#include <string.h>

gy_type gy_graph_whole_type(const gy_graph_node *parameter)
{
    GY_ASSERT(parameter->op == &gy_ops_row_parameter);
    gy_type type = parameter->types[0];
    if (gy_graph_has_rows(parameter)) {
        GY_ASSERT(type.rank >= 1);
        type.sizes[0] = parameter->attributes.shape.rows;
    }
    return type;
}

gy_type gy_graph_parameter_type(const gy_mesh *mesh, const gy_graph_node *parameter)
{
    gy_type type = gy_graph_whole_type(parameter);
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->sizes[axis] > 1) {
            type.placement[axis] = parameter->pins[mesh->kinds[axis]];
        }
    }
    return type;
}

void gy_local_part(const gy_mesh *mesh, const gy_type *type, int64_t sizes[GY_TENSOR_RANK_MAX],
                   int64_t offsets[GY_TENSOR_RANK_MAX])
{
    GY_ASSERT(type->rank >= 0 && type->rank <= GY_TENSOR_RANK_MAX);
    GY_ASSERT(mesh->axes <= GY_MESH_MAX);
    memset(offsets, 0, GY_TENSOR_RANK_MAX * sizeof(*offsets));
    memmove(sizes, type->sizes,
            GY_TENSOR_RANK_MAX * sizeof(*sizes));   /* may be the type's own */
    for (int axis = 0; axis < mesh->axes; axis++) { /* the leftmost axis is the outer one */
        const gy_placement *placement = &type->placement[axis];
        if (placement->kind != GY_SHARD) {
            continue;
        }
        GY_ASSERT(placement->dim < type->rank);
        GY_ASSERT(placement->bounds == GY_BOUNDS_EVEN);
        int64_t whole = sizes[placement->dim];
        int rank = mesh->coordinates[axis], ranks = mesh->sizes[axis];
        GY_ASSERT(rank >= 0 && rank < ranks);
        GY_ASSERT(whole >= 0);
        int64_t begin = gy_part_begin(whole, rank, ranks);
        offsets[placement->dim] += begin;
        sizes[placement->dim] = gy_part_begin(whole, rank + 1, ranks) - begin;
        GY_ASSERT(sizes[placement->dim] >= 0 && begin + sizes[placement->dim] <= whole);
    }
}

gy_type gy_mesh_local_type(const gy_mesh *mesh, const gy_type *type)
{
    gy_type local = *type;
    int64_t offsets[GY_TENSOR_RANK_MAX];
    gy_local_part(mesh, type, local.sizes, offsets);
    return local;
}

gy_type gy_axis_type(const gy_mesh *mesh, const gy_type *type, int axis)
{
    GY_ASSERT(axis >= 0 && axis < mesh->axes);
    gy_type whole = *type;
    int64_t offsets[GY_TENSOR_RANK_MAX];
    whole.placement[axis] = (gy_placement){.kind = GY_REPLICATE};
    gy_local_part(mesh, &whole, whole.sizes, offsets);
    return whole;
}

gy_view gy_local_view(const gy_mesh *mesh, const gy_type *type, void *data)
{
    int64_t sizes[GY_TENSOR_RANK_MAX], offsets[GY_TENSOR_RANK_MAX];
    gy_local_part(mesh, type, sizes, offsets);
    gy_view view = gy_view_of(data, type->dtype, sizes, type->rank);
    view.format = type->format;
    return view;
}

size_t gy_local_bytes(const gy_mesh *mesh, const gy_type *type)
{
    GY_ASSERT(type->format != GY_FORMAT_BLOCKED || type->rank >= 2);
    gy_view view = gy_local_view(mesh, type, NULL);
    if (type->format == GY_FORMAT_BLOCKED) {
        view.sizes[1] = (view.sizes[1] + 15) / 16 * 16;
    }
    return (size_t)gy_view_count(&view) * gy_dtype_bytes(type->dtype);
}

gy_kernel_query gy_graph_query(const gy_graph *graph, int32_t index, int workers,
                               gy_view *views)
{
    GY_ASSERT(index >= 0 && index < graph->node_count);
    GY_ASSERT(graph->batch > 0 && workers >= 1);
    const gy_graph_node *node = &graph->nodes[index];
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    GY_ASSERT(node->output_count <= GY_OP_OUTPUTS_MAX);
    for (int i = 0; i < node->input_count; i++) {
        views[i] = gy_local_view(&graph->mesh, gy_graph_type(graph, node->inputs[i]), NULL);
    }
    for (int32_t i = 0; i < node->output_count; i++) {
        views[node->input_count + i] = gy_local_view(&graph->mesh, &node->types[i], NULL);
    }
    return (gy_kernel_query){.op = node->op,
                             .attributes = &node->attributes,
                             .inputs = views,
                             .input_count = node->input_count,
                             .outputs = views + node->input_count,
                             .output_count = node->output_count,
                             .workers = workers};
}

uint64_t gy_mesh_stages_of(const gy_mesh *mesh, int rank)
{
    uint64_t set = 0;
    GY_ASSERT(rank >= 0 && rank < mesh->stages && gy_mesh_stages(mesh) <= GY_STAGES_MAX);
    for (int stage = rank; stage < gy_mesh_stages(mesh); stage += mesh->stages) {
        set |= (uint64_t)1 << stage;
    }
    return set;
}

void gy_graph_cost(const gy_graph *graph, const gy_mesh *mesh, int32_t index, gy_cost *cost)
{
    const gy_graph_node *node = &graph->nodes[index];
    gy_type inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    GY_ASSERT(graph->is_placed && index >= 0 && index < graph->node_count);
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    GY_ASSERT(node->output_count <= GY_OP_OUTPUTS_MAX);
    *cost = (gy_cost){.flops = 0};
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = gy_mesh_local_type(mesh, gy_graph_type(graph, node->inputs[k]));
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        outputs[k] = gy_mesh_local_type(mesh, &node->types[k]);
    }
    if (node->op->cost != NULL) {
        node->op->cost(&node->attributes, inputs, node->input_count, outputs, cost);
    }
}
