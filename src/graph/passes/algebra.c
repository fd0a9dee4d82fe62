/*
 * Algebraic rewrites of one node over its (already rewritten) inputs. Only identities that
 * leave the value as it is, or nearer to the exact one (log softmax), or add the same numbers
 * in another order; x * 0 stays, for it may be a NaN.
 */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

/* A node of `in` with its inputs in `out`. */
typedef struct site {
    gy_graph *out;
    const gy_graph_node *node;
    gy_value inputs[GY_OP_INPUTS_MAX];
} site;

typedef gy_value (*rule)(const site *at);

static const gy_graph_node *input_node(const site *at, int k)
{
    GY_ASSERT(k >= 0 && k < at->node->input_count);
    return gy_graph_at(at->out, at->inputs[k]);
}

static const gy_type *input_type(const site *at, int k)
{
    GY_ASSERT(k >= 0 && k < at->node->input_count);
    return gy_graph_type(at->out, at->inputs[k]);
}

static gy_value apply(const site *at, const gy_op *op, const gy_attributes *attributes,
                      const gy_value *inputs, int count)
{
    GY_ASSERT(count >= 0 && count <= GY_OP_INPUTS_MAX);
    at->out->mark = at->node->mark;
    const gy_value made =
        gy_graph_apply(at->out, op, attributes, inputs, count, at->node->name);
    at->out->mark = (gy_stage_mark){.source = -1};
    return made;
}

/* Input k is everywhere `wanted`; integers and floats alike. */
static bool is_fill_of(const site *at, int k, double wanted)
{
    const gy_graph_node *node = input_node(at, k);
    return node->op == &gy_ops_row_fill && node->attributes.shape.value == wanted;
}

/* Input k as the result, when it has the result's sizes. */
static gy_value input_if_same(const site *at, int k)
{
    return gy_type_is_same_shape(input_type(at, k), &at->node->types[0]) ? at->inputs[k]
                                                                         : GY_NO_VALUE;
}

static bool is_float(const gy_type *type)
{
    return type->dtype == GY_F64 || type->dtype == GY_F32;
}

static gy_value simplify_identity(const site *at)
{
    GY_ASSERT(at->node->input_count == 1);
    return at->inputs[0];
}

static gy_value simplify_add(const site *at)
{
    for (int k = 0; k < 2; k++) {
        if (is_fill_of(at, 1 - k, 0)) {
            return input_if_same(at, k);
        }
        if (input_node(at, 1 - k)->op == &gy_ops_row_neg) {
            const gy_value pair[2] = {at->inputs[k], input_node(at, 1 - k)->inputs[0]};
            return apply(at, &gy_ops_row_sub, NULL, pair, 2);
        }
    }
    return GY_NO_VALUE;
}

static gy_value simplify_sub(const site *at)
{
    if (is_fill_of(at, 1, 0)) {
        return input_if_same(at, 0);
    }
    if (input_node(at, 1)->op == &gy_ops_row_neg) {
        const gy_value pair[2] = {at->inputs[0], input_node(at, 1)->inputs[0]};
        return apply(at, &gy_ops_row_add, NULL, pair, 2);
    }
    return GY_NO_VALUE;
}

static gy_value simplify_mul(const site *at)
{
    for (int k = 0; k < 2; k++) {
        if (is_fill_of(at, 1 - k, 1)) {
            return input_if_same(at, k);
        }
        if (is_fill_of(at, 1 - k, -1) && is_float(&at->node->types[0]) &&
            !gy_value_is_none(input_if_same(at, k))) {
            return apply(at, &gy_ops_row_neg, NULL, &at->inputs[k], 1);
        }
    }
    if (gy_value_is(at->inputs[0], at->inputs[1])) {
        return apply(at, &gy_ops_row_square, NULL, at->inputs, 1);
    }
    return GY_NO_VALUE;
}

/* A power of two divides exactly, and so does its inverse multiply. */
static gy_value simplify_div(const site *at)
{
    if (is_fill_of(at, 1, 1)) {
        return input_if_same(at, 0);
    }
    const gy_graph_node *below = input_node(at, 1);
    if (below->op != &gy_ops_row_fill || !is_float(&at->node->types[0])) {
        return GY_NO_VALUE;
    }
    int exponent;
    double value = below->attributes.shape.value;
    if (fabs(frexp(value, &exponent)) != 0.5 || exponent < -60 || exponent > 60) {
        return GY_NO_VALUE;
    }
    gy_attributes attributes = below->attributes;
    GY_ASSERT(value != 0);
    attributes.shape.value = 1 / value;
    const gy_value pair[2] = {at->inputs[0], apply(at, &gy_ops_row_fill, &attributes, NULL, 0)};
    return apply(at, &gy_ops_row_mul, NULL, pair, 2);
}

static gy_value simplify_pow(const site *at)
{
    if (is_fill_of(at, 1, 1)) {
        return input_if_same(at, 0);
    }
    if (is_fill_of(at, 1, 2) && !gy_value_is_none(input_if_same(at, 0))) {
        return apply(at, &gy_ops_row_square, NULL, at->inputs, 1);
    }
    return GY_NO_VALUE;
}

static gy_value simplify_neg(const site *at)
{
    return input_node(at, 0)->op == &gy_ops_row_neg ? input_node(at, 0)->inputs[0]
                                                    : GY_NO_VALUE;
}

static gy_value simplify_relu(const site *at)
{
    return input_node(at, 0)->op == &gy_ops_row_relu ? at->inputs[0] : GY_NO_VALUE;
}

static gy_value simplify_log(const site *at)
{
    const gy_graph_node *below = input_node(at, 0);
    return below->op == &gy_ops_row_softmax
               ? apply(at, &gy_ops_row_log_softmax, &below->attributes, below->inputs, 1)
               : GY_NO_VALUE;
}

static gy_value simplify_cast(const site *at)
{
    return input_if_same(at, 0); /* equal sizes and element type */
}

/*
 * The gradient through relu and then max pooling: where(y <= 0, 0, spread(y, dy))
 * is spread(y, where(pool(y) <= 0, 0, dy)), for dy goes to where y is what pool(y) is. The mask
 * is then as small as the pooled value.
 */
static gy_value simplify_masked_pool(const site *at)
{
    const gy_graph_node mask = *input_node(at, 0), spread = *input_node(at, 2);
    if (mask.op != &gy_ops_row_less_equal || spread.op != &gy_ops_row_max_pool_gradient ||
        !is_fill_of(at, 1, 0) || !gy_value_is(mask.inputs[0], spread.inputs[0])) {
        return GY_NO_VALUE;
    }
    const gy_graph_node *zero = gy_graph_at(at->out, mask.inputs[1]);
    if (zero->op != &gy_ops_row_fill || zero->attributes.shape.value != 0 ||
        zero->types[0].rank != 0 || input_type(at, 1)->rank != 0) {
        return GY_NO_VALUE;
    }
    gy_builder *builder = &at->out->builder;
    gy_value pooled = apply(at, &gy_ops_row_max_pool, &spread.attributes, mask.inputs, 1);
    gy_value is_closed = gy_build2(builder, &gy_ops_row_less_equal, pooled, mask.inputs[1]);
    const gy_value choice[3] = {is_closed, at->inputs[1], spread.inputs[1]};
    gy_value masked = gy_build(builder, &gy_ops_row_select, NULL, choice, 3);
    const gy_value pair[2] = {spread.inputs[0], masked};
    return apply(at, &gy_ops_row_max_pool_gradient, &spread.attributes, pair, 2);
}

static gy_value simplify_select(const site *at)
{
    GY_ASSERT(at->node->input_count == 3);
    return gy_value_is(at->inputs[1], at->inputs[2]) ? input_if_same(at, 1)
                                                     : simplify_masked_pool(at);
}

static gy_value simplify_reshape(const site *at)
{
    gy_value same = input_if_same(at, 0);
    if (gy_value_is_none(same) && input_node(at, 0)->op == &gy_ops_row_reshape) {
        return apply(at, &gy_ops_row_reshape, &at->node->attributes, input_node(at, 0)->inputs,
                     1);
    }
    return same;
}

static gy_value simplify_broadcast(const site *at)
{
    return input_if_same(at, 0);
}

static gy_value simplify_transpose(const site *at)
{
    const gy_graph_node *below = input_node(at, 0);
    int rank = at->node->types[0].rank;
    GY_ASSERT(input_type(at, 0)->rank == rank);
    gy_attributes attributes = at->node->attributes;
    gy_value source = at->inputs[0];
    if (below->op == &gy_ops_row_transpose) {
        for (int i = 0; i < rank; i++) {
            attributes.permute.dims[i] =
                below->attributes.permute.dims[at->node->attributes.permute.dims[i]];
        }
        source = below->inputs[0];
    }
    bool is_identity = true;
    for (int i = 0; i < rank; i++) {
        is_identity = is_identity && attributes.permute.dims[i] == i;
    }
    if (is_identity) {
        return source;
    }
    return gy_value_is(source, at->inputs[0])
               ? GY_NO_VALUE
               : apply(at, &gy_ops_row_transpose, &attributes, &source, 1);
}

/* Swaps the last two dimensions and nothing else. */
static bool is_matrix_transpose(const gy_graph_node *node)
{
    int rank = node->op == &gy_ops_row_transpose ? node->types[0].rank : 0;
    if (rank < 2) {
        return false;
    }
    const int32_t *dims = node->attributes.permute.dims;
    for (int i = 0; i < rank - 2; i++) {
        if (dims[i] != i) {
            return false;
        }
    }
    return dims[rank - 2] == rank - 1 && dims[rank - 1] == rank - 2;
}

static gy_value simplify_matmul(const site *at)
{
    GY_ASSERT(at->node->input_count == 2 || at->node->input_count == 3);
    gy_attributes attributes = at->node->attributes;
    gy_value inputs[3];
    memcpy(inputs, at->inputs, (size_t)at->node->input_count * sizeof(*inputs));
    bool any = false;
    for (int k = 0; k < 2; k++) {
        if (is_matrix_transpose(input_node(at, k))) {
            bool *flag =
                k == 0 ? &attributes.matmul.transpose_a : &attributes.matmul.transpose_b;
            *flag = !*flag;
            inputs[k] = input_node(at, k)->inputs[0];
            any = true;
        }
    }
    return any ? apply(at, &gy_ops_row_matmul, &attributes, inputs, at->node->input_count)
               : GY_NO_VALUE;
}

static gy_value reshape_to(const site *at, gy_value value, const gy_type *type)
{
    GY_ASSERT(gy_type_count(gy_graph_type(at->out, value)) == gy_type_count(type));
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.shape.rank = type->rank;
    memcpy(attributes.shape.sizes, type->sizes, (size_t)type->rank * sizeof(type->sizes[0]));
    return apply(at, &gy_ops_row_reshape, &attributes, &value, 1);
}

/* Max pooling's gradient puts each element of dy into one place of its image. */
static bool is_sharded_over(const gy_graph_node *node, uint32_t axes)
{
    GY_ASSERT(node->op != &gy_ops_row_max_pool_gradient || node->input_count == 2);
    return node->op == &gy_ops_row_max_pool_gradient && (axes & 12) == 12 &&
           node->attributes.pool.pad[0] < node->attributes.pool.window[0] &&
           node->attributes.pool.pad[1] < node->attributes.pool.window[1];
}

/* Sum over dimensions of size 1 is a reshape; over broadcast ones a multiple. */
static gy_value simplify_sum(const site *at)
{
    const gy_type *type = input_type(at, 0);
    uint32_t axes = gy_reduce_axes(at->node->attributes.reduce.axes, type->rank);
    const gy_graph_node *below = input_node(at, 0);
    if (is_sharded_over(below, axes)) {
        return apply(at, &gy_ops_row_sum, &at->node->attributes, &below->inputs[1], 1);
    }
    const gy_type *source =
        below->op == &gy_ops_row_broadcast_to ? gy_graph_type(at->out, below->inputs[0]) : type;
    int missing = type->rank - source->rank;
    GY_ASSERT(missing >= 0);
    double times = 1;
    for (int i = 0; i < type->rank; i++) {
        int64_t size = i < missing ? 1 : source->sizes[i - missing];
        bool is_reduced = (axes >> i & 1) != 0;
        if (is_reduced ? size != 1 : size != type->sizes[i]) {
            return GY_NO_VALUE;
        }
        times *= is_reduced ? (double)type->sizes[i] : 1;
    }
    const gy_type *result = &at->node->types[0];
    gy_value value = reshape_to(at, source == type ? at->inputs[0] : below->inputs[0], result);
    return times == 1 ? value
                      : gy_build2(&at->out->builder, &gy_ops_row_mul, value,
                                  gy_build_scalar_like(&at->out->builder, value, times));
}

static const struct {
    const gy_op *op;
    rule simplify;
} rules[] = {
    {&gy_ops_row_identity, simplify_identity},
    {&gy_ops_row_add, simplify_add},
    {&gy_ops_row_sub, simplify_sub},
    {&gy_ops_row_mul, simplify_mul},
    {&gy_ops_row_div, simplify_div},
    {&gy_ops_row_pow, simplify_pow},
    {&gy_ops_row_neg, simplify_neg},
    {&gy_ops_row_relu, simplify_relu},
    {&gy_ops_row_log, simplify_log},
    {&gy_ops_row_cast, simplify_cast},
    {&gy_ops_row_select, simplify_select},
    {&gy_ops_row_reshape, simplify_reshape},
    {&gy_ops_row_broadcast_to, simplify_broadcast},
    {&gy_ops_row_transpose, simplify_transpose},
    {&gy_ops_row_matmul, simplify_matmul},
    {&gy_ops_row_sum, simplify_sum},
};

static gy_value simplify(gy_pass *pass, int32_t index)
{
    GY_ASSERT(index >= 0 && index < pass->in->node_count);
    site at = {.out = pass->out, .node = &pass->in->nodes[index]};
    for (int k = 0; k < at.node->input_count; k++) {
        at.inputs[k] = gy_pass_get(pass, at.node->inputs[k]);
    }
    for (size_t i = 0; i < GY_COUNT(rules); i++) {
        if (rules[i].op == at.node->op) {
            gy_value value = rules[i].simplify(&at);
            GY_ASSERT(
                gy_value_is_none(value) ||
                gy_type_is_same_shape(gy_graph_type(pass->out, value), &at.node->types[0]));
            return value;
        }
    }
    return GY_NO_VALUE;
}

gy_status gy_rewrite_algebra(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(!in->is_placed);
    gy_pass pass;
    GY_TRY(gy_pass_begin(&pass, in));
    gy_status status = GY_OK;
    for (int32_t i = 0; status >= 0 && i < in->node_count; i++) {
        gy_value value = simplify(&pass, i);
        if (!gy_value_is_none(value)) {
            gy_pass_set(&pass, (gy_value){i, 0}, value);
        } else {
            gy_pass_copy(&pass, i);
        }
        status = gy_graph_status(pass.out);
    }
    return gy_pass_end(&pass, status, out);
}
