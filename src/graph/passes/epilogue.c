/*
 * Bias and relu become what a product or a convolution does to its result before it stores it,
 * where nothing else reads what lies between; so does the update of what it is the gradient of.
 */
#include "graph/graph.h"

#include <string.h>

typedef struct epilogue {
    gy_pass pass;
    int32_t *uses; /* value number of `in` -> readers and roots */
} epilogue;

/* Where a row keeps what follows its result; false: it has none. */
static bool has_bias(const gy_graph_node *node)
{
    GY_ASSERT(node->op == &gy_ops_row_matmul || node->op == &gy_ops_row_conv2d);
    return node->op == &gy_ops_row_matmul ? node->attributes.matmul.has_bias
                                          : node->attributes.conv.has_bias;
}

static bool has_activation(const gy_graph_node *node)
{
    GY_ASSERT(node->op == &gy_ops_row_matmul || node->op == &gy_ops_row_conv2d);
    return (node->op == &gy_ops_row_matmul
                ? node->attributes.matmul.activation
                : node->attributes.conv.activation) != GY_ACTIVATION_NONE;
}

/* The product that made `in` (a node of the new graph), if only one node reads it. */
static const gy_graph_node *product_of(const epilogue *state, gy_value in)
{
    const gy_graph_node *node = gy_graph_at(state->pass.out, gy_pass_get(&state->pass, in));
    bool is_product = node->op == &gy_ops_row_matmul || node->op == &gy_ops_row_conv2d;
    bool is_alone = state->uses[gy_graph_value(state->pass.in, in)] == 1;
    return is_product && is_alone && !has_activation(node) ? node : NULL;
}

/* `bias` as a vector along the product's columns or channels; GY_NO_VALUE: it is none. */
static gy_value bias_of(epilogue *state, const gy_graph_node *product, gy_value bias)
{
    gy_graph *out = state->pass.out;
    const gy_type *result = &product->types[0];
    const bool is_matmul = product->op == &gy_ops_row_matmul;
    GY_ASSERT(is_matmul ? result->rank >= 2 : result->rank == 4);
    const int64_t size = result->sizes[is_matmul ? result->rank - 1 : 1];
    gy_type type = *gy_graph_type(out, bias);
    if (type.dtype != result->dtype) {
        return GY_NO_VALUE;
    }
    if (is_matmul) {
        return type.rank == 1 && type.sizes[0] == size ? bias : GY_NO_VALUE;
    }
    const gy_graph_node *view = gy_graph_at(out, bias);
    if (type.rank != 3 || type.sizes[0] != size || type.sizes[1] != 1 || type.sizes[2] != 1) {
        return GY_NO_VALUE;
    }
    if (view->op == &gy_ops_row_reshape && gy_graph_type(out, view->inputs[0])->rank == 1) {
        return view->inputs[0];
    }
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.shape.rank = 1;
    attributes.shape.sizes[0] = size;
    type.rank = 1;
    return gy_graph_apply_typed(out, &gy_ops_row_reshape, &attributes, &bias, 1, &type, 1,
                                NULL);
}

/* add(product, bias) as the product itself. */
static gy_value take_bias(epilogue *state, const gy_graph_node *node)
{
    GY_ASSERT(node->op == &gy_ops_row_add && node->input_count == 2);
    for (int k = 0; k < 2; k++) {
        const gy_graph_node *found = product_of(state, node->inputs[k]);
        if (found == NULL || has_bias(found) ||
            !gy_type_is_same_shape(&found->types[0], &node->types[0])) {
            continue;
        }
        const gy_graph_node product = *found; /* the array of nodes may move */
        gy_value bias =
            bias_of(state, &product, gy_pass_get(&state->pass, node->inputs[1 - k]));
        if (gy_value_is_none(bias)) {
            continue;
        }
        const gy_value inputs[3] = {product.inputs[0], product.inputs[1], bias};
        gy_attributes attributes = product.attributes;
        if (product.op == &gy_ops_row_matmul) {
            attributes.matmul.has_bias = true;
        } else {
            attributes.conv.has_bias = true;
        }
        return gy_graph_apply_typed(state->pass.out, product.op, &attributes, inputs, 3,
                                    node->types, 1, node->name);
    }
    return GY_NO_VALUE;
}

static gy_value take_relu(epilogue *state, const gy_graph_node *node)
{
    GY_ASSERT(node->op == &gy_ops_row_relu && node->input_count == 1);
    const gy_graph_node *found = product_of(state, node->inputs[0]);
    if (found == NULL) {
        return GY_NO_VALUE;
    }
    const gy_graph_node product = *found;
    gy_attributes attributes = product.attributes;
    if (product.op == &gy_ops_row_matmul) {
        attributes.matmul.activation = GY_ACTIVATION_RELU;
    } else {
        attributes.conv.activation = GY_ACTIVATION_RELU;
    }
    return gy_graph_apply_typed(state->pass.out, product.op, &attributes, product.inputs,
                                product.input_count, node->types, 1, node->name);
}

static bool is_whole(const gy_graph *graph, const gy_type *type)
{
    GY_ASSERT(graph->mesh.axes > 0);
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        if (type->placement[axis].kind != GY_REPLICATE) {
            return false;
        }
    }
    return true;
}

/*
 * w - a b * rate, where nothing else reads a b: the product subtracts from w itself and the
 * gradient is never stored. With several ranks its sum stands between, and nothing is done.
 */
static gy_value take_update(epilogue *state, const gy_graph_node *node)
{
    GY_ASSERT(node->op == &gy_ops_row_sub && node->input_count == 2);
    const gy_graph *in = state->pass.in;
    const gy_graph_node *step = gy_graph_at(in, node->inputs[1]);
    if (step->op != &gy_ops_row_mul || state->uses[step->first_value] != 1 ||
        gy_graph_at(in, node->inputs[0])->op != &gy_ops_row_parameter) {
        return GY_NO_VALUE;
    }
    for (int k = 0; k < 2; k++) {
        const gy_graph_node *found = product_of(state, step->inputs[k]);
        gy_value rate = gy_pass_get(&state->pass, step->inputs[1 - k]);
        if (found == NULL || found->op != &gy_ops_row_matmul || has_bias(found) ||
            found->types[0].rank != 2 || gy_graph_type(state->pass.out, rate)->rank != 0 ||
            gy_graph_type(state->pass.out, found->inputs[0])->dtype != found->types[0].dtype ||
            !gy_type_is_same_shape(&found->types[0], &node->types[0]) ||
            !is_whole(in, &found->types[0])) {
            continue;
        }
        const gy_attributes attributes = found->attributes;
        const gy_value inputs[4] = {gy_pass_get(&state->pass, node->inputs[0]),
                                    found->inputs[0], found->inputs[1], rate};
        return gy_graph_apply_typed(state->pass.out, &gy_ops_row_matmul_update, &attributes,
                                    inputs, 4, node->types, 1, node->name);
    }
    return GY_NO_VALUE;
}

static gy_status rewrite(epilogue *state)
{
    GY_ASSERT(state->uses != NULL);
    const gy_graph *in = state->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        gy_value value = GY_NO_VALUE;
        if (node->op == &gy_ops_row_add) {
            value = take_bias(state, node);
        } else if (node->op == &gy_ops_row_sub) {
            value = take_update(state, node);
        } else if (node->op == &gy_ops_row_relu) {
            value = take_relu(state, node);
        }
        if (gy_value_is_none(value)) {
            gy_pass_copy(&state->pass, i);
        } else {
            state->pass.out->nodes[value.node].mark = node->mark;
            gy_pass_set(&state->pass, (gy_value){i, 0}, value);
        }
        GY_TRY(gy_graph_status(state->pass.out));
    }
    return GY_OK;
}

gy_status gy_fuse_epilogues(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->batch > 0);
    epilogue state = {.uses = NULL};
    gy_graph *whole = NULL;
    GY_TRY(gy_pass_begin(&state.pass, in));
    state.uses = gy_alloc("graph.epilogue", ((size_t)in->value_count + 1) * sizeof(int32_t));
    gy_status status = GY_NOMEM;
    if (state.uses != NULL) {
        gy_graph_count_uses(in, state.uses);
        status = rewrite(&state);
    }
    gy_free(state.uses);
    GY_TRY(gy_pass_end(&state.pass, status, &whole));
    status = gy_rewrite_dead(whole, out); /* what was taken in */
    GY_ASSERT(status < 0 || (*out)->root_count == in->root_count);
    gy_graph_free(whole);
    return status;
}
