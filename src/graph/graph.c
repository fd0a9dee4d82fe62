/* Nodes in one array per graph: appending, failures, names, and the builder that rows see. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

static const gy_builder_ops builder_ops;

static gy_value builder_apply(gy_builder *builder, const gy_op *op,
                              const gy_attributes *attributes, const gy_value *inputs,
                              int input_count)
{
    GY_ASSERT(builder->ops == &builder_ops);
    gy_graph *graph = (gy_graph *)builder; /* the builder is its first member */
    return gy_graph_apply(graph, op, attributes, inputs, input_count, NULL);
}

static const gy_type *builder_type(gy_builder *builder, gy_value value)
{
    GY_ASSERT(builder->ops == &builder_ops);
    GY_ASSERT(!gy_value_is_none(value));
    return gy_graph_type((gy_graph *)builder, value);
}

static const gy_builder_ops builder_ops = {.apply = builder_apply, .type = builder_type};

gy_graph *gy_graph_new_like(const gy_graph *like)
{
    gy_graph *graph = gy_alloc_zero("graph", 1, sizeof(*graph));
    if (graph == NULL) {
        return NULL;
    }
    graph->builder.ops = &builder_ops;
    GY_ASSERT(graph->failure.status == GY_OK && graph->value_count == 0);
    if (like != NULL) {
        GY_ASSERT(like->mesh.axes >= 0 && like->mesh.axes <= GY_MESH_MAX);
        GY_ASSERT(like->batch >= 0);
        graph->mesh = like->mesh;
        graph->batch = like->batch;
        graph->is_placed = like->is_placed;
        graph->predicted_s = like->predicted_s;
        graph->cuts = like->cuts;
        graph->precision = like->precision;
        graph->device = like->device;
        graph->share = like->share;
        graph->narrowed = like->narrowed;
        graph->recompute_max = like->recompute_max;
        graph->recomputed = like->recomputed;
        graph->loss = like->loss;
    }
    graph->mark.source = -1;
    return graph;
}

gy_status gy_graph_new(gy_graph **graph)
{
    GY_ASSERT(graph != NULL);
    gy_graph *made = gy_graph_new_like(NULL);
    if (made == NULL) {
        return GY_NOMEM;
    }
    *graph = made;
    return GY_OK;
}

void gy_graph_free(gy_graph *graph)
{
    if (graph == NULL) {
        return;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        if (node->op == &gy_ops_row_literal) {
            gy_tensor_drop(node->attributes.literal.tensor);
        }
        if (node->init != NULL && node->init->kind == GY_INIT_TENSOR) {
            gy_tensor_drop(node->init->tensor);
        }
    }
    gy_free(graph->nodes);
    gy_free(graph->roots);
    gy_arena_free(&graph->arena);
    gy_free(graph);
}

gy_status gy_graph_fail(gy_graph *graph, gy_status status, const char *name)
{
    GY_ASSERT(status < 0);
    if (graph->failure.status == GY_OK) {
        if (name != NULL) {
            gy_fail_within(status, "%s", name);
        }
        gy_error_take(&graph->failure, status);
        GY_ASSERT(graph->failure.status == status);
    }
    return status;
}

gy_status gy_graph_status(const gy_graph *graph)
{
    if (graph == NULL) {
        return gy_fail(GY_NOMEM, "no graph: out of memory when it was made");
    }
    return graph->failure.status == GY_OK ? GY_OK : gy_error_raise(&graph->failure);
}

static const char *copy_name(gy_graph *graph, const char *name)
{
    GY_ASSERT(name != NULL);
    size_t size = strlen(name) + 1;
    char *copy = gy_arena_alloc(&graph->arena, size);
    if (copy != NULL) {
        memcpy(copy, name, size);
    }
    return copy;
}

/* "matmul_12 (of x, w)": for failures of a node that is not there. */
static void describe(const gy_graph *graph, const gy_op *op, const gy_value *inputs,
                     int input_count, const char *name, gy_text *text)
{
    GY_ASSERT(op != NULL && input_count <= GY_OP_INPUTS_MAX);
    if (name != NULL) {
        gy_text_add(text, "node %s", name);
    } else {
        gy_text_add(text, "node %s_%d", op->name, graph->node_count);
    }
    for (int i = 0; i < input_count; i++) {
        gy_text_add(text, "%s%s", i == 0 ? " (of " : ", ", graph->nodes[inputs[i].node].name);
    }
    gy_text_add(text, "%s", input_count > 0 ? ")" : "");
}

static gy_value fail_apply(gy_graph *graph, gy_status status, const gy_op *op,
                           const gy_value *inputs, int input_count, const char *name)
{
    GY_ASSERT(status < 0);
    if (graph->failure.status == GY_OK) {
        gy_error error;
        gy_error_take(&error, status);
        gy_text text = {.data = NULL};
        describe(graph, op, inputs, input_count, name, &text);
        gy_error_raise(&error);
        gy_graph_fail(graph, status, gy_text_get(&text));
        gy_text_free(&text);
    }
    return GY_NO_VALUE;
}

/* Everything of a node but its types; NULL when out of memory, with nothing appended. */
static gy_graph_node *prepare(gy_graph *graph, const gy_op *op, const gy_attributes *attributes,
                              const gy_value *inputs, int input_count, const char *name)
{
    GY_ASSERT(attributes != NULL);
    GY_ASSERT(input_count == 0 || inputs != NULL);
    if (GY_GROW("graph.nodes", graph->nodes, graph->node_capacity,
                (size_t)graph->node_count + 1) < 0) {
        return NULL;
    }
    gy_graph_node *node = &graph->nodes[graph->node_count];
    memset(node, 0, sizeof(*node));
    char automatic[96];
    if (name == NULL) {
        snprintf(automatic, sizeof(automatic), "%s_%d", op->name, graph->node_count);
        name = automatic;
    }
    gy_value *copy =
        gy_arena_alloc(&graph->arena, (size_t)GY_MAX(input_count, 1) * sizeof(*copy));
    node->name = copy_name(graph, name);
    if (copy == NULL || node->name == NULL) {
        return NULL;
    }
    if (input_count > 0) {
        memcpy(copy, inputs, (size_t)input_count * sizeof(*copy));
    }
    node->inputs = copy;
    node->input_count = input_count;
    node->op = op;
    node->first_value = graph->value_count;
    node->origin = -1;
    node->mark = graph->mark;
    if (graph->batch == 0 && graph->mark.source < 0) { /* the user's own */
        node->mark.source = graph->node_count;
    }
    memcpy(&node->attributes, attributes, sizeof(node->attributes));
    return node;
}

/* The program of a fused node belongs to its graph. */
static bool own_program(gy_graph *graph, gy_graph_node *node)
{
    GY_ASSERT(node->op != &gy_ops_row_fused || node->attributes.fused.program != NULL);
    if (node->op != &gy_ops_row_fused) {
        return true;
    }
    gy_fused *program = gy_arena_alloc(&graph->arena, sizeof(*program));
    if (program != NULL) {
        *program = *node->attributes.fused.program;
        node->attributes.fused.program = program;
    }
    return program != NULL;
}

static gy_value append(gy_graph *graph, gy_graph_node *node)
{
    GY_ASSERT(node == &graph->nodes[graph->node_count]);
    GY_ASSERT(node->first_value == graph->value_count);
    GY_ASSERT(node->types != NULL && node->name != NULL);
    if (node->op == &gy_ops_row_literal) {
        gy_tensor_hold(node->attributes.literal.tensor);
    }
    graph->value_count += node->output_count;
    return (gy_value){graph->node_count++, 0};
}

gy_value gy_graph_apply_typed(gy_graph *graph, const gy_op *op, const gy_attributes *attributes,
                              const gy_value *inputs, int input_count, const gy_type *types,
                              int output_count, const char *name)
{
    GY_ASSERT(op != NULL && input_count >= 0 && output_count >= 0);
    GY_ASSERT(input_count <= GY_OP_INPUTS_MAX && output_count <= GY_OP_OUTPUTS_MAX);
    GY_ASSERT(output_count == 0 || types != NULL);
    for (int i = 0; i < input_count; i++) {
        if (gy_value_is_none(inputs[i])) {
            return GY_NO_VALUE;
        }
        GY_ASSERT(inputs[i].node < graph->node_count);
        GY_ASSERT(inputs[i].output >= 0);
        GY_ASSERT(inputs[i].output < graph->nodes[inputs[i].node].output_count);
    }
    gy_attributes own = {.bytes = {0}}; /* those given may stand in the array, which moves */
    if (attributes != NULL) {
        memcpy(&own, attributes, sizeof(own));
    }
    gy_graph_node *node = prepare(graph, op, &own, inputs, input_count, name);
    gy_type *copy =
        node == NULL
            ? NULL
            : gy_arena_alloc(&graph->arena, (size_t)GY_MAX(output_count, 1) * sizeof(*copy));
    if (copy == NULL || !own_program(graph, node)) {
        return fail_apply(graph, GY_NOMEM, op, inputs, input_count, name);
    }
    memcpy(copy, types, (size_t)output_count * sizeof(*copy));
    node->types = copy;
    node->output_count = output_count;
    return append(graph, node);
}

gy_value gy_graph_apply(gy_graph *graph, const gy_op *op, const gy_attributes *attributes,
                        const gy_value *inputs, int input_count, const char *name)
{
    GY_ASSERT(op != NULL && op->infer != NULL);
    GY_ASSERT(input_count >= 0 && op->output_count <= GY_OP_OUTPUTS_MAX);
    gy_type types[GY_OP_OUTPUTS_MAX];
    const gy_attributes none = {.bytes = {0}};
    if (attributes == NULL) {
        attributes = &none;
    }
    gy_type in[GY_OP_INPUTS_MAX];
    for (int i = 0; i < input_count; i++) {
        if (gy_value_is_none(inputs[i])) {
            return GY_NO_VALUE;
        }
    }
    if (input_count > GY_OP_INPUTS_MAX) {
        gy_fail(GY_LIMIT, "%d inputs, at most %d", input_count, GY_OP_INPUTS_MAX);
        return fail_apply(graph, GY_LIMIT, op, inputs, GY_OP_INPUTS_MAX, name);
    }
    for (int i = 0; i < input_count; i++) {
        in[i] = *gy_graph_type(graph, inputs[i]);
        memset(in[i].placement, 0, sizeof(in[i].placement));
    }
    memset(types, 0, sizeof(types));
    gy_status status = gy_ops_infer(op, attributes, in, input_count, types);
    if (status < 0) {
        return fail_apply(graph, status, op, inputs, input_count, name);
    }
    return gy_graph_apply_typed(graph, op, attributes, inputs, input_count, types,
                                op->output_count, name);
}

gy_status gy_graph_add_root(gy_graph *graph, const gy_root *root)
{
    GY_ASSERT(gy_graph_at(graph, root->value)->output_count > root->value.output);
    gy_root *roots = gy_resize("graph.roots", graph->roots,
                               ((size_t)graph->root_count + 1) * sizeof(*roots));
    if (roots == NULL) {
        return GY_NOMEM;
    }
    graph->roots = roots;
    graph->roots[graph->root_count++] = *root;
    return GY_OK;
}

void gy_graph_count_uses(const gy_graph *graph, int32_t *counts)
{
    GY_ASSERT(counts != NULL);
    memset(counts, 0, (size_t)graph->value_count * sizeof(*counts));
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            counts[gy_graph_value(graph, node->inputs[k])]++;
        }
    }
    for (int32_t i = 0; i < graph->root_count; i++) {
        counts[gy_graph_value(graph, graph->roots[i].value)]++;
    }
}
