/* What every pass does: walk a graph, append to a new one, map the values, hand it out. */
#include "graph/graph.h"

#include <string.h>

gy_status gy_pass_begin(gy_pass *pass, const gy_graph *in)
{
    GY_ASSERT(in->failure.status == GY_OK);
    gy_graph *out = gy_graph_new_like(in);
    gy_value *map = gy_alloc("graph.map", (size_t)in->value_count * sizeof(*map));
    if (out == NULL || map == NULL) {
        gy_graph_free(out);
        gy_free(map);
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < in->value_count; i++) {
        map[i] = GY_NO_VALUE;
    }
    *pass = (gy_pass){.in = in, .out = out, .map = map};
    GY_ASSERT(out->node_count == 0 && out->root_count == 0);
    return GY_OK;
}

gy_value gy_pass_get(const gy_pass *pass, gy_value in)
{
    GY_ASSERT(pass->map != NULL);
    return pass->map[gy_graph_value(pass->in, in)];
}

void gy_pass_set(gy_pass *pass, gy_value in, gy_value out)
{
    GY_ASSERT(pass->map != NULL);
    GY_ASSERT(gy_value_is_none(out) || out.node < pass->out->node_count);
    pass->map[gy_graph_value(pass->in, in)] = out;
}

gy_value gy_pass_copy(gy_pass *pass, int32_t index)
{
    GY_ASSERT(index >= 0 && index < pass->in->node_count);
    const gy_graph_node *node = &pass->in->nodes[index];
    gy_value inputs[GY_OP_INPUTS_MAX];
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    for (int i = 0; i < node->input_count; i++) {
        inputs[i] = gy_pass_get(pass, node->inputs[i]);
        GY_ASSERT(pass->out->failure.status < 0 || !gy_value_is_none(inputs[i]));
    }
    gy_value value =
        gy_graph_apply_typed(pass->out, node->op, &node->attributes, inputs, node->input_count,
                             node->types, node->output_count, node->name);
    if (gy_value_is_none(value)) {
        return value;
    }
    GY_ASSERT(pass->out->nodes[value.node].output_count == node->output_count);
    gy_graph_inherit(&pass->out->nodes[value.node], node);
    for (int32_t k = 0; k < node->output_count; k++) {
        gy_pass_set(pass, (gy_value){index, k}, (gy_value){value.node, k});
    }
    return value;
}

static gy_status map_roots(gy_pass *pass)
{
    GY_ASSERT(pass->out->root_count == 0);
    for (int32_t i = 0; i < pass->in->root_count; i++) {
        gy_root root = pass->in->roots[i];
        root.value = gy_pass_get(pass, root.value);
        GY_ASSERT(!gy_value_is_none(root.value));
        GY_TRY(gy_graph_add_root(pass->out, &root));
    }
    return GY_OK;
}

gy_status gy_pass_end(gy_pass *pass, gy_status status, gy_graph **out)
{
    GY_ASSERT(pass->in != NULL && pass->out != NULL && pass->map != NULL);
    GY_ASSERT(pass->in != pass->out);
    if (status >= 0) {
        status = gy_graph_status(pass->out);
    }
    if (status >= 0 && pass->out->root_count == 0) {
        status = map_roots(pass);
    }
    gy_free(pass->map);
    pass->map = NULL;
    if (status < 0) {
        gy_graph_free(pass->out);
        return status;
    }
    GY_ASSERT(pass->out->root_count == pass->in->root_count || pass->in->batch == 0);
    GY_ASSERT(pass->out->batch > 0);
    *out = pass->out;
    return GY_OK;
}
