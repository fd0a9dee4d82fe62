/*
 * Constant folding: what depends on literals and fills alone is computed now, by the reference;
 * a result whose elements are equal becomes a fill, a small one a literal. `count` is known
 * once the sizes are.
 */
#include "graph/graph.h"

#include <string.h>

enum { FOLD_ELEMENTS_MAX = 4096 };

static bool is_constant(const gy_graph *graph, gy_value value)
{
    const gy_op *op = gy_graph_at(graph, value)->op;
    return op == &gy_ops_row_literal || op == &gy_ops_row_fill;
}

static bool is_uniform_rule(const gy_op *op)
{
    return (op->flags & GY_OP_ELEMENTWISE) != 0 || op == &gy_ops_row_broadcast_to ||
           op == &gy_ops_row_reshape || op == &gy_ops_row_transpose;
}

static gy_value add_fill(gy_pass *pass, const gy_type *type, double value, const char *name)
{
    GY_ASSERT(type->rank == 0 || type->sizes[0] >= 0);
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.shape.rank = type->rank;
    attributes.shape.dtype = type->dtype;
    memcpy(attributes.shape.sizes, type->sizes, (size_t)type->rank * sizeof(type->sizes[0]));
    attributes.shape.value = value;
    return gy_graph_apply(pass->out, &gy_ops_row_fill, &attributes, NULL, 0, name);
}

/* A constant as a tensor of `type`'s sizes, or of one element. */
static gy_status materialise(const gy_graph *graph, gy_value value, bool is_scalar,
                             gy_tensor **tensor)
{
    GY_ASSERT(is_constant(graph, value));
    const gy_graph_node *node = gy_graph_at(graph, value);
    if (node->op == &gy_ops_row_literal) {
        *tensor = gy_tensor_hold(node->attributes.literal.tensor);
        return GY_OK;
    }
    const gy_type *type = &node->types[0];
    GY_TRY(gy_tensor_new(NULL, type->dtype, type->sizes, is_scalar ? 0 : type->rank, tensor));
    for (int64_t i = 0; i < gy_tensor_count(*tensor); i++) {
        gy_tensor_set(*tensor, i, node->attributes.shape.value);
    }
    return GY_OK;
}

static bool is_uniform(gy_tensor *tensor)
{
    gy_view view = gy_tensor_pin(tensor);
    size_t size = gy_dtype_bytes(view.dtype);
    const unsigned char *bytes = view.data;
    bool same = gy_view_count(&view) > 0;
    for (int64_t i = 1; same && i < gy_view_count(&view); i++) {
        same = memcmp(bytes, bytes + (size_t)i * size, size) == 0;
    }
    gy_tensor_unpin(tensor);
    double value = same ? gy_tensor_get(tensor, 0) : 0;
    return same && value > -0x1p53 && value < 0x1p53;
}

static gy_status compute(const gy_graph_node *node, gy_tensor *const *inputs, gy_tensor *result)
{
    GY_ASSERT(node->op->reference != NULL);
    GY_ASSERT(node->output_count == 1);
    gy_view views[GY_OP_INPUTS_MAX], output = gy_tensor_pin(result);
    for (int i = 0; i < node->input_count; i++) {
        views[i] = gy_tensor_pin(inputs[i]);
    }
    const gy_kernel_call call = {.op = node->op,
                                 .attributes = &node->attributes,
                                 .inputs = views,
                                 .input_count = node->input_count,
                                 .outputs = &output,
                                 .output_count = 1};
    gy_status status = node->op->reference(&call);
    for (int i = 0; i < node->input_count; i++) {
        gy_tensor_unpin(inputs[i]);
    }
    gy_tensor_unpin(result);
    return status;
}

static gy_value keep(gy_pass *pass, const gy_graph_node *node, gy_tensor *result)
{
    GY_ASSERT(gy_tensor_dtype(result) == node->types[0].dtype);
    if (is_uniform(result)) {
        return add_fill(pass, &node->types[0], gy_tensor_get(result, 0), node->name);
    }
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.literal.tensor = result;
    return gy_graph_apply(pass->out, &gy_ops_row_literal, &attributes, NULL, 0, node->name);
}

/* Compute the node, on single elements when all inputs are fills and the row is uniform. */
static gy_status fold(gy_pass *pass, const gy_graph_node *node, bool as_scalars,
                      gy_value *value)
{
    GY_ASSERT(node->input_count >= 1 && node->output_count == 1);
    gy_tensor *inputs[GY_OP_INPUTS_MAX] = {NULL}, *result = NULL;
    const gy_type *type = &node->types[0];
    gy_status status = GY_OK;
    for (int i = 0; status >= 0 && i < node->input_count; i++) {
        status =
            materialise(pass->out, gy_pass_get(pass, node->inputs[i]), as_scalars, &inputs[i]);
    }
    if (status >= 0) {
        status =
            gy_tensor_new(NULL, type->dtype, type->sizes, as_scalars ? 0 : type->rank, &result);
    }
    if (status >= 0) {
        status = compute(node, inputs, result);
    }
    if (status >= 0 && (!as_scalars || is_uniform(result))) {
        *value = keep(pass, node, result);
    }
    for (int i = 0; i < node->input_count; i++) {
        gy_tensor_drop(inputs[i]);
    }
    gy_tensor_drop(result);
    return status;
}

/* The elements that the axes of a count hold. */
static gy_value fold_count(gy_pass *pass, const gy_graph_node *node)
{
    GY_ASSERT(node->op == &gy_ops_row_count);
    const gy_type *type = gy_graph_type(pass->in, node->inputs[0]);
    uint32_t axes = gy_reduce_axes(node->attributes.reduce.axes, type->rank);
    double count = 1;
    for (int i = 0; i < type->rank; i++) {
        count *= (axes >> i & 1) != 0 ? (double)type->sizes[i] : 1;
    }
    GY_ASSERT(count >= 0);
    return add_fill(pass, &node->types[0], count, node->name);
}

/* The folded value of node `index`, or GY_NO_VALUE. */
static gy_status try_fold(gy_pass *pass, int32_t index, gy_value *value)
{
    GY_ASSERT(index >= 0 && index < pass->in->node_count);
    GY_ASSERT(gy_value_is_none(*value));
    const gy_graph_node *node = &pass->in->nodes[index];
    const uint32_t kept = GY_OP_RANDOM | GY_OP_EFFECT | GY_OP_LEAF | GY_OP_COLLECTIVE;
    if (node->op == &gy_ops_row_count) {
        *value = fold_count(pass, node);
        return GY_OK;
    }
    if ((node->op->flags & kept) != 0 || node->op == &gy_ops_row_fill ||
        node->input_count == 0 || node->output_count != 1) {
        return GY_OK;
    }
    bool fills = true, small = gy_type_count(&node->types[0]) <= FOLD_ELEMENTS_MAX;
    for (int i = 0; i < node->input_count; i++) {
        gy_value input = gy_pass_get(pass, node->inputs[i]);
        if (!is_constant(pass->out, input)) {
            return GY_OK;
        }
        fills = fills && gy_graph_at(pass->out, input)->op == &gy_ops_row_fill;
        small = small && gy_type_count(gy_graph_type(pass->out, input)) <= FOLD_ELEMENTS_MAX;
    }
    if (fills && node->input_count == 1 && is_uniform_rule(node->op) &&
        (node->op->flags & GY_OP_ELEMENTWISE) == 0) {
        const gy_graph_node *from = gy_graph_at(pass->out, gy_pass_get(pass, node->inputs[0]));
        *value = add_fill(pass, &node->types[0], from->attributes.shape.value, node->name);
        return GY_OK;
    }
    if (node->op->reference == NULL) {
        return GY_OK;
    }
    if (fills && is_uniform_rule(node->op)) {
        return fold(pass, node, true, value);
    }
    return small ? fold(pass, node, false, value) : GY_OK;
}

gy_status gy_rewrite_constants(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->batch > 0 && !in->is_placed);
    gy_pass pass;
    GY_TRY(gy_pass_begin(&pass, in));
    gy_status status = GY_OK;
    for (int32_t i = 0; status >= 0 && i < in->node_count; i++) {
        gy_value value = GY_NO_VALUE;
        status = try_fold(&pass, i, &value);
        if (status >= 0 && !gy_value_is_none(value)) {
            gy_pass_set(&pass, (gy_value){i, 0}, value);
        } else if (status >= 0) {
            gy_pass_copy(&pass, i);
            status = gy_graph_status(pass.out);
        }
    }
    return gy_pass_end(&pass, status, out);
}
