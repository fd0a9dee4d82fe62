/* Public constructors, second half: shapes, normalisation, dropout, assignment. */
#include "graph/graph_priv.h"

#include <string.h>

static gy_attributes no_attributes(void)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    return attributes;
}

static gy_node fail_node(gy_node a, gy_status status, const char *name)
{
    gy_graph_fail(a.graph, status, name);
    return gy_node_failed(a.graph);
}

static const gy_type *type_of(gy_node node)
{
    return gy_graph_type(node.graph, (gy_value){node.index, node.output});
}

/* The hidden input that every dropout reads; one a graph. */
static gy_node seed_node(gy_graph *graph)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].op == &gy_op_input &&
            strcmp(graph->nodes[i].name, GY_SEED_NAME) == 0) {
            return (gy_node){graph, i, 0};
        }
    }
    return gy_input(graph, GY_SEED_NAME, GY_I64, (int64_t[]){2}, 1);
}

gy_node gy_dropout(gy_node x, double rate)
{
    if (x.index < 0) {
        return x;
    }
    if (!(rate >= 0 && rate < 1)) {
        gy_fail(GY_ARG, "dropout rate is %g, expected 0 <= rate < 1", rate);
        return fail_node(x, GY_ARG, "dropout");
    }
    gy_attributes attributes = no_attributes();
    attributes.dropout.rate = rate;
    attributes.dropout.stream = (uint64_t)x.graph->node_count;
    return gy_node_apply(&gy_op_dropout, &attributes, (gy_node[]){x, seed_node(x.graph)}, 2);
}

gy_node gy_embedding(gy_node table, gy_node indices)
{
    return gy_gather(table, indices, 0);
}

gy_node gy_layer_norm(gy_node x, gy_node gain, gy_node bias, int axis_count, double epsilon)
{
    gy_attributes attributes = no_attributes();
    attributes.norm.epsilon = epsilon;
    attributes.norm.axis_count = axis_count;
    return gy_node_apply(&gy_op_layer_norm, &attributes, (gy_node[]){x, gain, bias}, 3);
}

gy_node gy_batch_norm(gy_node x, gy_node gain, gy_node bias, double epsilon)
{
    gy_attributes attributes = no_attributes();
    attributes.norm.epsilon = epsilon;
    return gy_node_apply(&gy_op_batch_norm, &attributes, (gy_node[]){x, gain, bias}, 3);
}

/* A count as number and power of batch: -12 is 12 and 1. */
typedef struct symbolic {
    int64_t number;
    int power;
} symbolic;

static symbolic symbolic_of(int64_t size)
{
    return size < 0 ? (symbolic){-size, 1} : (symbolic){size, 0};
}

/* What GY_ANY stands for; false when nothing fits. */
static bool resolve_any(const gy_type *type, int64_t *sizes, int rank)
{
    int64_t total = gy_type_count(type);
    if (total == INT64_MIN) {
        return false;
    }
    symbolic whole = symbolic_of(total), rest = {1, 0};
    int any = -1;
    for (int i = 0; i < rank; i++) {
        if (sizes[i] == GY_ANY) {
            if (any >= 0) {
                return false;
            }
            any = i;
        } else {
            symbolic size = symbolic_of(sizes[i]);
            if (__builtin_mul_overflow(rest.number, size.number, &rest.number)) {
                return false;
            }
            rest.power += size.power;
        }
    }
    if (any < 0) {
        return true; /* infer compares the counts */
    }
    int power = whole.power - rest.power;
    if (rest.number == 0 || whole.number % rest.number != 0 || power < 0 || power > 1) {
        return false;
    }
    int64_t size = whole.number / rest.number;
    sizes[any] = power == 1 ? -size : size;
    return true;
}

static bool fill_sizes(gy_node a, const char *what, const int64_t *sizes, int rank,
                       gy_attributes *attributes)
{
    *attributes = no_attributes();
    if (rank < 0 || rank > GY_MAX_RANK || (rank > 0 && sizes == NULL)) {
        gy_fail(GY_ARG, "rank is %d, expected 0 to %d", rank, GY_MAX_RANK);
        gy_graph_fail(a.graph, GY_ARG, what);
        return false;
    }
    attributes->shape.rank = rank;
    for (int i = 0; i < rank; i++) {
        attributes->shape.sizes[i] = sizes[i];
    }
    return true;
}

gy_node gy_reshape(gy_node a, const int64_t *sizes, int rank)
{
    gy_attributes attributes;
    if (a.index < 0 || !fill_sizes(a, "reshape", sizes, rank, &attributes)) {
        return gy_node_failed(a.graph);
    }
    if (!resolve_any(type_of(a), attributes.shape.sizes, rank)) {
        gy_type wanted = {.dtype = type_of(a)->dtype, .rank = rank};
        char from[160], to[160];
        memcpy(wanted.sizes, attributes.shape.sizes, sizeof(wanted.sizes));
        for (int i = 0; i < rank; i++) {
            wanted.sizes[i] = wanted.sizes[i] == GY_ANY ? 0 : wanted.sizes[i];
        }
        gy_fail(GY_SHAPE, "%s does not reshape to %s (0: what remains)",
                gy_type_text(type_of(a), from), gy_type_text(&wanted, to));
        return fail_node(a, GY_SHAPE, "reshape");
    }
    return gy_node_apply(&gy_op_reshape, &attributes, &a, 1);
}

gy_node gy_broadcast_to(gy_node a, const int64_t *sizes, int rank)
{
    gy_attributes attributes;
    if (a.index < 0 || !fill_sizes(a, "broadcast_to", sizes, rank, &attributes)) {
        return gy_node_failed(a.graph);
    }
    return gy_node_apply(&gy_op_broadcast_to, &attributes, &a, 1);
}

gy_node gy_transpose(gy_node a, const int *dims)
{
    if (a.index < 0) {
        return a;
    }
    gy_attributes attributes = no_attributes();
    for (int i = 0; i < type_of(a)->rank; i++) {
        attributes.permute.dims[i] = dims[i];
    }
    return gy_node_apply(&gy_op_transpose, &attributes, &a, 1);
}

gy_node gy_slice(gy_node a, int dim, int64_t begin, int64_t end, int64_t step)
{
    gy_attributes attributes = no_attributes();
    attributes.slice.dim = dim;
    attributes.slice.begin = begin;
    attributes.slice.end = end;
    attributes.slice.step = step;
    return gy_node_apply(&gy_op_slice, &attributes, &a, 1);
}

gy_node gy_concat(const gy_node *parts, int count, int dim)
{
    GY_ASSERT(parts != NULL && count >= 1);
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim;
    if (count <= GY_MAX_INPUTS) {
        return gy_node_apply(&gy_op_concat, &attributes, parts, count);
    }
    /* More than one node takes: halves of halves. */
    gy_node halves[2] = {gy_concat(parts, count / 2, dim),
                         gy_concat(parts + count / 2, count - count / 2, dim)};
    return gy_node_apply(&gy_op_concat, &attributes, halves, 2);
}

gy_node gy_gather(gy_node a, gy_node indices, int dim)
{
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim;
    return gy_node_apply(&gy_op_gather, &attributes, (gy_node[]){a, indices}, 2);
}

gy_node gy_scatter_add(gy_node a, gy_node indices, int dim, int64_t size)
{
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim;
    attributes.axis.depth = size;
    return gy_node_apply(&gy_op_scatter_add, &attributes, (gy_node[]){a, indices}, 2);
}

gy_node gy_assign(gy_node parameter, gy_node value)
{
    if (parameter.index >= 0 &&
        parameter.graph->nodes[parameter.index].op != &gy_op_parameter) {
        gy_fail(GY_ARG, "assign needs a parameter, %s is not one",
                parameter.graph->nodes[parameter.index].name);
        return fail_node(parameter, GY_ARG, "assign");
    }
    return gy_node_apply(&gy_op_assign, NULL, (gy_node[]){parameter, value}, 2);
}
