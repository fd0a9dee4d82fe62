/* Public constructors: reductions, what goes along one dimension, windows of images. */
#include "graph/graph_priv.h"

#include <string.h>

static gy_attributes no_attributes(void)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    return attributes;
}

static const gy_type *type_of(gy_node node)
{
    GY_ASSERT(node.graph != NULL && node.index >= 0);
    return gy_graph_type(node.graph, (gy_value){node.index, node.output});
}

static gy_node reduce(const gy_op *op, gy_node a, uint32_t axes, bool keep)
{
    if (a.index < 0) {
        return a;
    }
    gy_attributes attributes = no_attributes();
    attributes.reduce.axes = gy_reduce_axes(axes, type_of(a)->rank);
    attributes.reduce.keep = keep;
    return gy_node_apply(op, &attributes, &a, 1);
}

gy_node gy_op_sum(gy_node a, uint32_t axes, bool keep)
{
    return reduce(&gy_ops_row_sum, a, axes, keep);
}

gy_node gy_op_mean(gy_node a, uint32_t axes, bool keep)
{
    return reduce(&gy_ops_row_mean, a, axes, keep);
}

gy_node gy_op_max(gy_node a, uint32_t axes, bool keep)
{
    return reduce(&gy_ops_row_max, a, axes, keep);
}

gy_node gy_op_min(gy_node a, uint32_t axes, bool keep)
{
    return reduce(&gy_ops_row_min, a, axes, keep);
}

gy_node gy_op_prod(gy_node a, uint32_t axes, bool keep)
{
    return reduce(&gy_ops_row_prod, a, axes, keep);
}

gy_node gy_op_variance(gy_node a, uint32_t axes, bool keep)
{
    return reduce(&gy_ops_row_variance, a, axes, keep);
}

gy_node gy_op_count(gy_node a, uint32_t axes)
{
    return reduce(&gy_ops_row_count, a, axes, false);
}

static gy_node along(const gy_op *op, const gy_node *inputs, int count, int dim, int64_t depth)
{
    GY_ASSERT(count >= 1 && op->input_count == count);
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim;
    attributes.axis.depth = depth;
    if (inputs[0].index >= 0 && dim < 0) { /* from the end */
        attributes.axis.dim = dim + type_of(inputs[0])->rank;
    }
    return gy_node_apply(op, &attributes, inputs, count);
}

gy_node gy_op_argmax(gy_node a, int dim)
{
    return along(&gy_ops_row_argmax, &a, 1, dim, 0);
}

gy_node gy_op_pick(gy_node a, gy_node indices, int dim)
{
    return along(&gy_ops_row_pick, (gy_node[]){a, indices}, 2, dim, 0);
}

gy_node gy_op_find(gy_node a, gy_node values, int dim)
{
    return along(&gy_ops_row_find, (gy_node[]){a, values}, 2, dim, 0);
}

gy_node gy_op_softmax(gy_node a, int dim)
{
    return along(&gy_ops_row_softmax, &a, 1, dim, 0);
}

gy_node gy_op_log_softmax(gy_node a, int dim)
{
    return along(&gy_ops_row_log_softmax, &a, 1, dim, 0);
}

/* The first maximum of what orders the elements the other way round: -a, or of integers -1 - a,
 * which no integer's end wraps. */
gy_node gy_op_argmin(gy_node a, int dim)
{
    if (a.index < 0) {
        return a;
    }
    const gy_dtype dtype = type_of(a)->dtype;
    return gy_op_argmax(gy_dtype_is_real(dtype)
                            ? gy_op_neg(a)
                            : gy_op_sub(gy_graph_scalar_int64(a.graph, dtype, -1), a),
                        dim);
}

gy_node gy_op_cumsum(gy_node a, int dim, bool is_reverse)
{
    if (a.index < 0) {
        return a;
    }
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim < 0 ? dim + type_of(a)->rank : dim;
    attributes.axis.is_reverse = is_reverse;
    return gy_node_apply(&gy_ops_row_cumsum, &attributes, &a, 1);
}

gy_node gy_op_one_hot(gy_node labels, int64_t classes, int dim, gy_dtype dtype)
{
    if (labels.index < 0) {
        return labels;
    }
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim < 0 ? dim + type_of(labels)->rank + 1 : dim;
    attributes.axis.depth = classes;
    attributes.axis.dtype = dtype == GY_DTYPE_NONE ? GY_F32 : dtype;
    return gy_node_apply(&gy_ops_row_one_hot, &attributes, &labels, 1);
}

static gy_node apply_attention(const gy_op *row, const gy_node *inputs, int count,
                               const gy_attention_options *options)
{
    GY_ASSERT(count == row->input_count);
    GY_ASSERT(row->output_count == 2 && inputs[0].graph != NULL);
    gy_attention_options known;
    gy_status status = gy_options_take(gy_attention_options, &known, options);
    if (status < 0) {
        gy_graph_fail(inputs[0].graph, status, "attention");
        return gy_node_failed(inputs[0].graph);
    }
    gy_attributes attributes = no_attributes();
    attributes.attention.is_causal = known.is_causal;
    attributes.attention.scale = known.scale;
    GY_ASSERT(row == &gy_ops_row_attention || row == &gy_ops_row_attention_packed);
    return gy_node_apply(row, &attributes, inputs, count);
}

gy_node gy_op_attention(gy_node q, gy_node k, gy_node v, const gy_attention_options *options)
{
    return apply_attention(&gy_ops_row_attention, (gy_node[]){q, k, v}, 3, options);
}

gy_node gy_op_attention_packed(gy_node qkv, const gy_attention_options *options)
{
    return apply_attention(&gy_ops_row_attention_packed, &qkv, 1, options);
}

/* ---- windows of images ---- */

gy_node gy_op_conv2d(gy_node x, gy_node filters, const gy_conv_options *options)
{
    gy_conv_options known;
    gy_status status = gy_options_take(gy_conv_options, &known, options);
    if (status < 0) {
        gy_graph_fail(x.graph, status, "conv2d");
        return gy_node_failed(x.graph);
    }
    gy_attributes attributes = no_attributes();
    for (int i = 0; i < 2; i++) {
        attributes.conv.stride[i] = known.stride[i] == 0 ? 1 : known.stride[i];
        attributes.conv.pad[i] = known.pad[i];
    }
    return gy_node_apply(&gy_ops_row_conv2d, &attributes, (gy_node[]){x, filters}, 2);
}

static gy_node pool(const gy_op *op, gy_node x, const gy_window_options *options)
{
    GY_ASSERT(op == &gy_ops_row_max_pool || op == &gy_ops_row_average_pool);
    gy_window_options known;
    gy_status status = gy_options_take(gy_window_options, &known, options);
    if (status < 0) {
        gy_graph_fail(x.graph, status, op->name);
        return gy_node_failed(x.graph);
    }
    gy_attributes attributes = no_attributes();
    for (int i = 0; i < 2; i++) {
        attributes.pool.window[i] = known.window[i];
        attributes.pool.stride[i] = known.stride[i] == 0 ? known.window[i] : known.stride[i];
        attributes.pool.pad[i] = known.pad[i];
    }
    attributes.pool.count_pad = known.counts_padding && op == &gy_ops_row_average_pool;
    return gy_node_apply(op, &attributes, &x, 1);
}

gy_node gy_op_max_pool(gy_node x, const gy_window_options *options)
{
    return pool(&gy_ops_row_max_pool, x, options);
}

gy_node gy_op_average_pool(gy_node x, const gy_window_options *options)
{
    return pool(&gy_ops_row_average_pool, x, options);
}
