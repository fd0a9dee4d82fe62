/*
 * Memory: one buffer a value; a view has its input's. Values that collectives read or write
 * live where peers can read them.
 */
#include "graph/graph.h"

#include <string.h>

static bool is_leaf(const gy_graph_node *node)
{
    return (node->op->flags & GY_OP_LEAF) != 0 && node->op != &gy_op_fill;
}

static gy_storage_kind leaf_kind(const gy_graph_node *node)
{
    if (node->op == &gy_op_input) {
        return GY_STORAGE_INPUT;
    }
    return node->op == &gy_op_parameter ? GY_STORAGE_PARAMETER : GY_STORAGE_LITERAL;
}

static int32_t add_buffer(gy_memory_plan *plan, gy_storage_kind kind, int32_t leaf,
                          size_t size_bytes)
{
    plan->buffers[plan->buffer_count] =
        (gy_storage){.kind = kind, .leaf = leaf, .size_bytes = size_bytes};
    return plan->buffer_count++;
}

static void plan_node(const gy_graph *graph, const gy_choice *choices, int32_t index,
                      gy_memory_plan *plan)
{
    const gy_graph_node *node = &graph->nodes[index];
    const bool is_collective = (node->op->flags & GY_OP_COLLECTIVE) != 0;
    plan->of_workspace[index] = -1;
    for (int32_t k = 0; k < node->output_count; k++) {
        int32_t *buffer = &plan->of_value[node->first_value + k];
        size_t size_bytes = gy_local_bytes(&graph->mesh, &node->types[k]);
        if (node->op == &gy_op_assign) {
            *buffer = plan->of_value[gy_graph_value(graph, node->inputs[0])];
        } else if ((node->op->flags & GY_OP_VIEW) != 0) {
            *buffer = plan->of_value[gy_graph_value(graph, node->inputs[0])];
        } else if (is_leaf(node)) {
            *buffer = add_buffer(plan, leaf_kind(node), index, size_bytes);
        } else {
            *buffer = add_buffer(plan, is_collective ? GY_STORAGE_SHARED : GY_STORAGE_OWN, -1,
                                 size_bytes);
        }
    }
    if (is_collective) {
        gy_storage *input =
            &plan->buffers[plan->of_value[gy_graph_value(graph, node->inputs[0])]];
        input->kind = input->kind == GY_STORAGE_OWN ? GY_STORAGE_SHARED : input->kind;
    }
    if (choices[index].workspace_bytes > 0) {
        plan->of_workspace[index] =
            add_buffer(plan, GY_STORAGE_OWN, -1, choices[index].workspace_bytes);
    }
}

gy_status gy_plan_memory(const gy_graph *graph, const gy_choice *choices, gy_memory_plan *plan)
{
    const size_t nodes = (size_t)graph->node_count, values = (size_t)graph->value_count;
    memset(plan, 0, sizeof(*plan));
    plan->buffers = gy_arena_alloc(&plan->arena, (nodes + values + 1) * sizeof(gy_storage));
    plan->of_value = gy_arena_alloc(&plan->arena, (values + 1) * sizeof(int32_t));
    plan->of_workspace = gy_arena_alloc(&plan->arena, (nodes + 1) * sizeof(int32_t));
    if (plan->buffers == NULL || plan->of_value == NULL || plan->of_workspace == NULL) {
        gy_memory_plan_free(plan);
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        plan_node(graph, choices, i, plan);
    }
    return GY_OK;
}

void gy_memory_plan_free(gy_memory_plan *plan)
{
    gy_arena_free(&plan->arena);
    memset(plan, 0, sizeof(*plan));
}
