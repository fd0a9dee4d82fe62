/* The public constructors: attributes, then apply. */
#include "graph/graph_priv.h"

#include "tensor/tensor.h"

#include <string.h>

enum { NODES_MAX = GY_OP_INPUTS_MAX };

static gy_node apply_named(gy_graph *graph, const gy_op *op, const gy_attributes *attributes,
                           const gy_node *inputs, int count, const char *name)
{
    GY_ASSERT(op != NULL);
    GY_ASSERT(count >= 0 && count <= NODES_MAX);
    gy_value values[NODES_MAX] = {{0}};
    if (graph == NULL) {
        return gy_node_failed(NULL);
    }
    for (int i = 0; i < count; i++) {
        if (inputs[i].graph != graph) {
            gy_fail(GY_ARG, "input %d of %s belongs to another graph", i, op->name);
            gy_graph_fail(graph, GY_ARG, name);
            return gy_node_failed(graph);
        }
        if (inputs[i].index < 0) {
            return gy_node_failed(graph);
        }
        values[i] = (gy_value){inputs[i].index, inputs[i].output};
    }
    gy_value value = gy_graph_apply(graph, op, attributes, values, count, name);
    return (gy_node){graph, value.node, value.output};
}

gy_node gy_node_apply(const gy_op *op, const gy_attributes *attributes, const gy_node *inputs,
                      int count)
{
    GY_ASSERT(inputs != NULL && count > 0);
    return apply_named(inputs[0].graph, op, attributes, inputs, count, NULL);
}

static gy_node unary(const gy_op *op, gy_node a)
{
    GY_ASSERT(op->input_count == 1);
    return gy_node_apply(op, NULL, &a, 1);
}

static gy_node binary(const gy_op *op, gy_node a, gy_node b)
{
    GY_ASSERT(op->input_count == 2);
    return gy_node_apply(op, NULL, (gy_node[]){a, b}, 2);
}

static gy_attributes no_attributes(void)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    return attributes;
}

static bool fill_shape(gy_graph *graph, const char *name, gy_dtype dtype, const int64_t *sizes,
                       int rank, gy_attributes *attributes)
{
    GY_ASSERT(name != NULL && attributes != NULL);
    *attributes = no_attributes();
    if (rank < 0 || rank > GY_TENSOR_RANK_MAX || (rank > 0 && sizes == NULL) ||
        !gy_dtype_is_element(dtype)) {
        gy_fail(GY_ARG, "rank %d (0 to %d) or element type %d is out of range", rank,
                GY_TENSOR_RANK_MAX, (int)dtype);
        gy_graph_fail(graph, GY_ARG, name);
        return false;
    }
    attributes->shape.rank = rank;
    attributes->shape.dtype = dtype;
    for (int i = 0; i < rank; i++) {
        attributes->shape.sizes[i] = sizes[i];
    }
    return true;
}

static bool is_free_name(gy_graph *graph, const gy_op *op, const char *name)
{
    if (name == NULL || name[0] == '\0') {
        gy_fail(GY_ARG, "an %s needs a name", op->name);
        gy_graph_fail(graph, GY_ARG, NULL);
        return false;
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].op == op && strcmp(graph->nodes[i].name, name) == 0) {
            gy_fail(GY_EXISTS, "there is an %s of that name", op->name);
            gy_graph_fail(graph, GY_EXISTS, name);
            return false;
        }
    }
    return true;
}

gy_node gy_graph_input(gy_graph *graph, const char *name, gy_dtype dtype, const int64_t *sizes,
                       int rank)
{
    gy_attributes attributes;
    if (graph == NULL || !is_free_name(graph, &gy_ops_row_input, name) ||
        !fill_shape(graph, name, dtype, sizes, rank, &attributes)) {
        return gy_node_failed(graph);
    }
    for (int i = 1; i < rank; i++) {
        if (sizes[i] < 0) {
            gy_fail(GY_SHAPE, "size %d is %lld: only the first size of an input is symbolic", i,
                    (long long)sizes[i]);
            gy_graph_fail(graph, GY_SHAPE, name);
            return gy_node_failed(graph);
        }
    }
    return apply_named(graph, &gy_ops_row_input, &attributes, NULL, 0, name);
}

static bool keep_init(gy_graph *graph, gy_graph_node *node, gy_init init)
{
    GY_ASSERT(node->op == &gy_ops_row_parameter && node->init == NULL);
    gy_init *copy = gy_arena_alloc(&graph->arena, sizeof(*copy));
    if (copy == NULL) {
        gy_graph_fail(graph, GY_NOMEM, node->name);
        return false;
    }
    *copy = init;
    if (init.kind == GY_INIT_TENSOR) {
        gy_tensor_hold(init.tensor);
    }
    node->init = copy;
    return true;
}

gy_node gy_graph_parameter(gy_graph *graph, const char *name, gy_dtype dtype,
                           const int64_t *sizes, int rank, gy_init init)
{
    gy_attributes attributes;
    if (graph == NULL || !is_free_name(graph, &gy_ops_row_parameter, name) ||
        !fill_shape(graph, name, dtype, sizes, rank, &attributes)) {
        return gy_node_failed(graph);
    }
    bool fits = init.kind != GY_INIT_TENSOR ||
                (init.tensor != NULL && gy_tensor_rank(init.tensor) == rank);
    for (int i = 0; i < rank; i++) {
        if (sizes[i] < 0) {
            gy_fail(GY_SHAPE, "size %d of a parameter is %lld, expected a number", i,
                    (long long)sizes[i]);
            gy_graph_fail(graph, GY_SHAPE, name);
            return gy_node_failed(graph);
        }
        fits =
            fits && (init.kind != GY_INIT_TENSOR || gy_tensor_size(init.tensor, i) == sizes[i]);
    }
    if (!fits) {
        gy_fail(GY_SHAPE, "the tensor it begins with has other sizes");
        gy_graph_fail(graph, GY_SHAPE, name);
        return gy_node_failed(graph);
    }
    gy_node node = apply_named(graph, &gy_ops_row_parameter, &attributes, NULL, 0, name);
    if (node.index >= 0 && !keep_init(graph, &graph->nodes[node.index], init)) {
        return gy_node_failed(graph);
    }
    return node;
}

gy_node gy_graph_rows_parameter(gy_graph *graph, const char *name, gy_dtype dtype,
                                const int64_t *sizes, int rank)
{
    GY_ASSERT(rank >= 1 && sizes[0] >= 1);
    const gy_node node = gy_graph_parameter(graph, name, dtype, sizes, rank, gy_init_zeros());
    if (node.index >= 0) {
        gy_graph_node *made = &graph->nodes[node.index];
        made->attributes.shape.rows = sizes[0];
        made->attributes.shape.sizes[0] = made->types[0].sizes[0] = GY_BATCH;
    }
    return node;
}

gy_node gy_node_named(gy_node node, const char *name)
{
    if (node.index < 0 || name == NULL) {
        return node;
    }
    gy_graph_node *target = &node.graph->nodes[node.index];
    if ((target->op->flags & GY_OP_LEAF) != 0 && target->op != &gy_ops_row_literal) {
        gy_fail(GY_ARG, "inputs and parameters keep the name they were made with");
        gy_graph_fail(node.graph, GY_ARG, target->name);
        return gy_node_failed(node.graph);
    }
    size_t size = strlen(name) + 1;
    char *copy = gy_arena_alloc(&node.graph->arena, size);
    if (copy == NULL) {
        gy_graph_fail(node.graph, GY_NOMEM, name);
        return gy_node_failed(node.graph);
    }
    memcpy(copy, name, size);
    target->name = copy;
    return node;
}

gy_node gy_graph_literal(gy_graph *graph, gy_tensor *tensor)
{
    if (graph == NULL) {
        return gy_node_failed(NULL);
    }
    gy_attributes attributes = no_attributes();
    gy_tensor *copy = NULL;
    int64_t sizes[GY_TENSOR_RANK_MAX];
    int rank = tensor == NULL ? 0 : gy_tensor_rank(tensor);
    for (int i = 0; i < rank; i++) {
        sizes[i] = gy_tensor_size(tensor, i);
    }
    gy_status status = tensor == NULL
                           ? gy_fail(GY_ARG, "a literal needs a tensor")
                           : gy_tensor_new(NULL, gy_tensor_dtype(tensor), sizes, rank, &copy);
    if (status >= 0) {
        status = gy_tensor_copy(copy, tensor);
    }
    if (status < 0) {
        gy_tensor_drop(copy);
        gy_graph_fail(graph, status, "literal");
        return gy_node_failed(graph);
    }
    attributes.literal.tensor = copy;
    gy_node node = apply_named(graph, &gy_ops_row_literal, &attributes, NULL, 0, NULL);
    gy_tensor_drop(copy); /* the graph holds it */
    return node;
}

gy_node gy_graph_scalar(gy_graph *graph, gy_dtype dtype, double value)
{
    gy_attributes attributes;
    if (graph == NULL || !fill_shape(graph, "scalar", dtype, NULL, 0, &attributes)) {
        return gy_node_failed(graph);
    }
    attributes.shape.value = value;
    return apply_named(graph, &gy_ops_row_fill, &attributes, NULL, 0, NULL);
}

gy_node gy_graph_fill(gy_graph *graph, gy_dtype dtype, const int64_t *sizes, int rank,
                      double value)
{
    gy_attributes attributes;
    if (graph == NULL || !fill_shape(graph, "fill", dtype, sizes, rank, &attributes)) {
        return gy_node_failed(graph);
    }
    attributes.shape.value = value;
    return apply_named(graph, &gy_ops_row_fill, &attributes, NULL, 0, NULL);
}

/* A fill where a double holds the element, for a fill's value is one; else a literal. */
gy_node gy_graph_scalar_int64(gy_graph *graph, gy_dtype dtype, int64_t value)
{
    gy_attributes attributes;
    gy_tensor *tensor = NULL;
    if (graph == NULL || !fill_shape(graph, "scalar", dtype, NULL, 0, &attributes)) {
        return gy_node_failed(graph);
    }
    gy_status status = gy_tensor_new(NULL, dtype, NULL, 0, &tensor);
    if (status < 0) {
        gy_graph_fail(graph, status, "scalar");
        return gy_node_failed(graph);
    }
    gy_tensor_set_int64(tensor, 0, value);
    double element = gy_tensor_get(tensor, 0);
    bool is_exact = element > -0x1p53 && element < 0x1p53;
    gy_node node =
        is_exact ? gy_graph_scalar(graph, dtype, element) : gy_graph_literal(graph, tensor);
    gy_tensor_drop(tensor);
    return node;
}

gy_node gy_op_matmul_transposed(gy_node a, bool transpose_a, gy_node b, bool transpose_b)
{
    gy_attributes attributes = no_attributes();
    attributes.matmul.transpose_a = transpose_a;
    attributes.matmul.transpose_b = transpose_b;
    return gy_node_apply(&gy_ops_row_matmul, &attributes, (gy_node[]){a, b}, 2);
}

gy_node gy_op_matmul(gy_node a, gy_node b)
{
    return gy_op_matmul_transposed(a, false, b, false);
}

#define BINARY(name)                                                                           \
    gy_node gy_op_##name(gy_node a, gy_node b)                                                 \
    {                                                                                          \
        return binary(&gy_ops_row_##name, a, b);                                               \
    }
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(pow)
BINARY(minimum)
BINARY(maximum)
BINARY(equal)
BINARY(not_equal)
BINARY(less)
BINARY(less_equal)
BINARY(greater)
BINARY(greater_equal)
#undef BINARY

#define UNARY(name)                                                                            \
    gy_node gy_op_##name(gy_node a)                                                            \
    {                                                                                          \
        return unary(&gy_ops_row_##name, a);                                                   \
    }
UNARY(neg)
UNARY(abs)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(tanh)
UNARY(sigmoid)
UNARY(relu)
UNARY(gelu)
UNARY(sign)
UNARY(square)
UNARY(erf)
UNARY(sin)
UNARY(cos)
UNARY(log1p)
UNARY(floor)
UNARY(ceil)
UNARY(round)
#undef UNARY

gy_node gy_op_select(gy_node condition, gy_node a, gy_node b)
{
    return gy_node_apply(&gy_ops_row_select, NULL, (gy_node[]){condition, a, b}, 3);
}

gy_node gy_op_cast(gy_node a, gy_dtype dtype)
{
    gy_attributes attributes = no_attributes();
    attributes.cast.dtype = dtype;
    return gy_node_apply(&gy_ops_row_cast, &attributes, &a, 1);
}

gy_node gy_graph_exchange_as(gy_node a, gy_dtype dtype)
{
    gy_attributes attributes = no_attributes();
    if (gy_graph_status(a.graph) < 0) {
        return a;
    }
    const gy_value value = {a.index, a.output};
    const gy_dtype own = gy_graph_type(a.graph, value)->dtype;
    GY_ASSERT(gy_dtype_is_element(dtype));
    attributes.cast.dtype = dtype;
    attributes.cast.takes_parts = true;
    return gy_op_cast(gy_node_apply(&gy_ops_row_cast, &attributes, &a, 1), own);
}

gy_node gy_op_cross_entropy(gy_node logits, gy_node labels)
{
    return binary(&gy_ops_row_cross_entropy, logits, labels);
}
