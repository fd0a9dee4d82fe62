/*
 * Common subexpressions: two nodes of one operator with equal attributes and inputs are one,
 * unless they draw random numbers or have an effect. Hash consing, one walk.
 */
#include "base/index.h"
#include "graph/graph.h"

#include <string.h>

static bool may_merge(const gy_graph_node *node)
{
    return (node->op->flags & (GY_OP_RANDOM | GY_OP_EFFECT | GY_OP_COLLECTIVE)) == 0 &&
           node->op != &gy_ops_row_input && node->op != &gy_ops_row_parameter;
}

static bool same_literal(gy_tensor *a, gy_tensor *b)
{
    GY_ASSERT(a != NULL && b != NULL);
    if (a == b) {
        return true;
    }
    if (gy_tensor_dtype(a) != gy_tensor_dtype(b) || gy_tensor_rank(a) != gy_tensor_rank(b)) {
        return false;
    }
    for (int i = 0; i < gy_tensor_rank(a); i++) {
        if (gy_tensor_size(a, i) != gy_tensor_size(b, i)) {
            return false;
        }
    }
    gy_view left = gy_tensor_pin(a), right = gy_tensor_pin(b);
    bool same = memcmp(left.data, right.data,
                       (size_t)gy_view_count(&left) * gy_dtype_bytes(left.dtype)) == 0;
    gy_tensor_unpin(a);
    gy_tensor_unpin(b);
    return same;
}

static bool is_before(gy_value a, gy_value b)
{
    return a.node != b.node ? a.node < b.node : a.output < b.output;
}

/* The mapped inputs; of two that may be swapped the earlier first. */
static void canonical_inputs(const gy_pass *pass, const gy_graph_node *node, gy_value *inputs)
{
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    for (int i = 0; i < node->input_count; i++) {
        inputs[i] = gy_pass_get(pass, node->inputs[i]);
    }
    const bool may_swap = (node->op->flags & GY_OP_COMMUTES) != 0;
    GY_ASSERT(!may_swap || node->input_count == 2);
    if (may_swap && is_before(inputs[1], inputs[0])) {
        gy_value first = inputs[0];
        inputs[0] = inputs[1];
        inputs[1] = first;
    }
}

static bool is_equal(const gy_graph_node *made, const gy_graph_node *node,
                     const gy_value *inputs)
{
    GY_ASSERT(may_merge(made) && may_merge(node));
    if (made->op != node->op || made->input_count != node->input_count ||
        made->mark.precision != node->mark.precision) {
        return false;
    }
    gy_value theirs[GY_OP_INPUTS_MAX];
    memcpy(theirs, made->inputs, (size_t)made->input_count * sizeof(*theirs));
    const bool may_swap = (made->op->flags & GY_OP_COMMUTES) != 0;
    GY_ASSERT(!may_swap || made->input_count == 2);
    if (may_swap && is_before(theirs[1], theirs[0])) {
        theirs[0] = made->inputs[1];
        theirs[1] = made->inputs[0];
    }
    for (int i = 0; i < node->input_count; i++) {
        if (!gy_value_is(theirs[i], inputs[i])) {
            return false;
        }
    }
    if (node->op == &gy_ops_row_literal) {
        return same_literal(made->attributes.literal.tensor, node->attributes.literal.tensor);
    }
    return memcmp(made->attributes.bytes, node->attributes.bytes,
                  sizeof(node->attributes.bytes)) == 0;
}

static uint64_t hash_of(const gy_graph_node *node, const gy_value *inputs)
{
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    uint64_t hash = gy_hash(&node->op, sizeof(node->op), 0);
    if (node->input_count > 0) {
        hash = gy_hash(inputs, (size_t)node->input_count * sizeof(*inputs), hash);
    }
    return node->op == &gy_ops_row_literal
               ? hash
               : gy_hash(&node->attributes, sizeof(node->attributes), hash);
}

/* Views cost nothing, a message between stages does: each stage may have its own. */
static bool is_apart(const gy_pass *pass, const gy_graph_node *made, const gy_graph_node *node)
{
    GY_ASSERT(pass->in->mesh.stages >= 0);
    return pass->in->mesh.stages > 1 && (node->op->flags & GY_OP_VIEW) != 0 &&
           made->mark.source != node->mark.source;
}

/* Nodes of one hash that differ follow each other by the high half of their keys. */
static gy_status merge_or_copy(gy_pass *pass, gy_index *seen, int32_t index)
{
    GY_ASSERT(may_merge(&pass->in->nodes[index]));
    const gy_graph_node *node = &pass->in->nodes[index];
    gy_value inputs[GY_OP_INPUTS_MAX];
    canonical_inputs(pass, node, inputs);
    gy_key key = {.low = hash_of(node, inputs)};
    uint32_t made = gy_index_find(seen, key);
    while (made != GY_NONE && (!is_equal(&pass->out->nodes[made], node, inputs) ||
                               is_apart(pass, &pass->out->nodes[made], node))) {
        key.high++;
        made = gy_index_find(seen, key);
    }
    if (made == GY_NONE) {
        const gy_value copy = gy_pass_copy(pass, index);
        GY_TRY(gy_graph_status(pass->out));
        return gy_index_put(seen, key, (uint32_t)copy.node);
    }
    GY_ASSERT(pass->out->nodes[made].output_count == node->output_count);
    for (int32_t k = 0; k < node->output_count; k++) {
        gy_pass_set(pass, (gy_value){index, k}, (gy_value){(int32_t)made, k});
    }
    return GY_OK;
}

gy_status gy_rewrite_common(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(!in->is_placed);
    gy_pass pass;
    GY_TRY(gy_pass_begin(&pass, in));
    gy_index seen = {.cells = NULL};
    gy_status status = GY_OK;
    for (int32_t i = 0; status >= 0 && i < in->node_count; i++) {
        if (may_merge(&in->nodes[i])) {
            status = merge_or_copy(&pass, &seen, i);
        } else {
            gy_pass_copy(&pass, i);
        }
        status = status < 0 ? status : gy_graph_status(pass.out);
    }
    gy_index_free(&seen);
    return gy_pass_end(&pass, status, out);
}
