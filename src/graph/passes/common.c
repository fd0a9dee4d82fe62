/*
 * Common subexpressions: two nodes of one operator with equal attributes and inputs are one,
 * unless they draw random numbers or have an effect. Hash consing, one walk.
 */
#include "graph/graph.h"

#include <string.h>

typedef struct table {
    int32_t *slots; /* node of `out` + 1; 0: free */
    size_t mask;
} table;

static bool may_merge(const gy_graph_node *node)
{
    return (node->op->flags & (GY_OP_RANDOM | GY_OP_EFFECT | GY_OP_COLLECTIVE)) == 0 &&
           node->op != &gy_ops_row_input && node->op != &gy_ops_row_parameter;
}

static bool same_literal(gy_tensor *a, gy_tensor *b)
{
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
    if (made->op != node->op || made->input_count != node->input_count) {
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
    uint64_t hash = gy_hash(&node->op, sizeof(node->op), 0);
    if (node->input_count > 0) {
        hash = gy_hash(inputs, (size_t)node->input_count * sizeof(*inputs), hash);
    }
    return node->op == &gy_ops_row_literal
               ? hash
               : gy_hash(&node->attributes, sizeof(node->attributes), hash);
}

static void merge_or_copy(gy_pass *pass, const table *seen, int32_t index)
{
    const gy_graph_node *node = &pass->in->nodes[index];
    gy_value inputs[GY_OP_INPUTS_MAX];
    canonical_inputs(pass, node, inputs);
    size_t slot = hash_of(node, inputs) & seen->mask;
    for (; seen->slots[slot] != 0; slot = (slot + 1) & seen->mask) {
        int32_t made = seen->slots[slot] - 1;
        if (is_equal(&pass->out->nodes[made], node, inputs)) {
            for (int32_t k = 0; k < node->output_count; k++) {
                gy_pass_set(pass, (gy_value){index, k}, (gy_value){made, k});
            }
            return;
        }
    }
    gy_value copy = gy_pass_copy(pass, index);
    seen->slots[slot] = copy.node + 1;
}

gy_status gy_rewrite_common(const gy_graph *in, gy_graph **out)
{
    gy_pass pass;
    GY_TRY(gy_pass_begin(&pass, in));
    size_t size = 16;
    while (size < 2 * (size_t)in->node_count) {
        size *= 2;
    }
    table seen = {.slots = gy_alloc_zero("graph.common", size, sizeof(int32_t)),
                  .mask = size - 1};
    gy_status status = seen.slots == NULL ? GY_NOMEM : GY_OK;
    for (int32_t i = 0; status >= 0 && i < in->node_count; i++) {
        if (may_merge(&in->nodes[i])) {
            merge_or_copy(&pass, &seen, i);
        } else {
            gy_pass_copy(&pass, i);
        }
        status = gy_graph_status(pass.out);
    }
    gy_free(seen.slots);
    return gy_pass_end(&pass, status, out);
}
