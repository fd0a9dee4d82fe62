/*
 * Formats: a node whose kernel wants blocks of channels gets and gives them; what follows stays
 * blocked as long as its kernel can, and `reorder` nodes stand at the borders alone. What a
 * device runs is dense, and so is what is copied there.
 */
#include "graph/graph.h"

#include <string.h>

/* What the kernel that will run a node wants. */
typedef struct node_formats {
    gy_format inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
} node_formats;

typedef struct layout {
    gy_pass pass;
    gy_value *other; /* value number of `in` -> the same value in the other format */
} layout;

/* The formats that `kernel` asks for, if it then is the one that is chosen. */
static bool ask(const gy_kernel *kernel, const gy_kernel_query *query, node_formats *wanted)
{
    GY_ASSERT(kernel->formats != NULL);
    gy_view inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    GY_ASSERT(query->input_count <= GY_OP_INPUTS_MAX);
    GY_ASSERT(query->output_count <= GY_OP_OUTPUTS_MAX);
    memset(wanted, 0, sizeof(*wanted));
    kernel->formats(query, wanted->inputs, wanted->outputs);
    gy_kernel_query asked = *query;
    asked.inputs = inputs;
    asked.outputs = outputs;
    for (int i = 0; i < query->input_count; i++) {
        inputs[i] = query->inputs[i];
        inputs[i].format = wanted->inputs[i];
    }
    for (int i = 0; i < query->output_count; i++) {
        outputs[i] = query->outputs[i];
        outputs[i].format = wanted->outputs[i];
    }
    return gy_kernel_choose(&asked) == kernel;
}

/* Dense throughout, unless a kernel says otherwise. */
static void find_formats(const gy_graph_node *node, gy_kernel_query *query, gy_view *views,
                         const layout *state, node_formats *wanted)
{
    GY_ASSERT(query->op == node->op);
    memset(wanted, 0, sizeof(*wanted));
    if (node->is_on_device ||
        (node->op->flags & (GY_OP_LEAF | GY_OP_VIEW | GY_OP_COLLECTIVE | GY_OP_EFFECT)) != 0) {
        return;
    }
    for (int i = 0; i < node->input_count; i++) {
        gy_value input = gy_pass_get(&state->pass, node->inputs[i]);
        views[i].format = gy_graph_type(state->pass.out, input)->format;
    }
    for (const gy_kernel *const *kernel = gy_ops_kernels(node->op); *kernel != NULL; kernel++) {
        if ((*kernel)->formats != NULL && ask(*kernel, query, wanted)) {
            return;
        }
    }
    memset(wanted, 0, sizeof(*wanted));
}

/* The value of `in` in a format: as it is, reordered before, or by a new node. */
static gy_value in_format(layout *state, gy_value in, gy_format format)
{
    gy_graph *out = state->pass.out;
    gy_value value = gy_pass_get(&state->pass, in);
    gy_type type = *gy_graph_type(out, value);
    GY_ASSERT(format != GY_FORMAT_BLOCKED || type.rank >= 2);
    if (type.format == format) {
        return value;
    }
    gy_value *other = &state->other[gy_graph_value(state->pass.in, in)];
    if (gy_value_is_none(*other)) {
        gy_attributes attributes;
        memset(&attributes, 0, sizeof(attributes));
        attributes.reorder.format = format;
        type.format = format;
        *other = gy_graph_apply_typed(out, &gy_ops_row_reorder, &attributes, &value, 1, &type,
                                      1, NULL);
    }
    GY_ASSERT(gy_value_is_none(*other) || gy_graph_type(out, *other)->format == format);
    return *other;
}

static gy_status lay_node(layout *state, int32_t index)
{
    GY_ASSERT(index >= 0 && index < state->pass.in->node_count);
    const gy_graph *in = state->pass.in;
    const gy_graph_node *node = &in->nodes[index];
    gy_view views[GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX];
    gy_kernel_query query = gy_graph_query(in, index, 1, views);
    gy_value inputs[GY_OP_INPUTS_MAX];
    gy_type types[GY_OP_OUTPUTS_MAX];
    node_formats wanted;
    find_formats(node, &query, views, state, &wanted);
    for (int i = 0; i < node->input_count; i++) {
        inputs[i] = in_format(state, node->inputs[i], wanted.inputs[i]);
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        types[k] = node->types[k];
        types[k].format = wanted.outputs[k];
    }
    gy_value value =
        gy_graph_apply_typed(state->pass.out, node->op, &node->attributes, inputs,
                             node->input_count, types, node->output_count, node->name);
    GY_TRY(gy_graph_status(state->pass.out));
    gy_graph_inherit(&state->pass.out->nodes[value.node], node);
    GY_ASSERT(state->pass.out->nodes[value.node].output_count == node->output_count);
    for (int32_t k = 0; k < node->output_count; k++) {
        gy_pass_set(&state->pass, (gy_value){index, k}, (gy_value){value.node, k});
    }
    return GY_OK;
}

static gy_status lay_all(layout *state)
{
    GY_ASSERT(state->other != NULL);
    const gy_graph *in = state->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        GY_TRY(lay_node(state, i));
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        gy_root root = in->roots[i];
        root.value = in_format(state, root.value, GY_FORMAT_DENSE);
        GY_TRY(gy_graph_status(state->pass.out));
        GY_ASSERT(gy_graph_type(state->pass.out, root.value)->format == GY_FORMAT_DENSE);
        GY_TRY(gy_graph_add_root(state->pass.out, &root));
    }
    return GY_OK;
}

gy_status gy_graph_lay_out_rest(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->device != NULL);
    return gy_lay_out(in, out);
}

gy_status gy_lay_out(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->is_placed);
    layout state = {.other = NULL};
    GY_TRY(gy_pass_begin(&state.pass, in));
    state.other = gy_alloc("graph.layout", ((size_t)in->value_count + 1) * sizeof(gy_value));
    for (int32_t i = 0; state.other != NULL && i < in->value_count; i++) {
        state.other[i] = GY_NO_VALUE;
    }
    gy_status status = state.other == NULL ? GY_NOMEM : lay_all(&state);
    gy_free(state.other);
    return gy_pass_end(&state.pass, status, out);
}
