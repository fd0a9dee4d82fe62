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
    GY_ASSERT(status < 0);
    gy_graph_fail(a.graph, status, name);
    return gy_node_failed(a.graph);
}

static const gy_type *type_of(gy_node node)
{
    GY_ASSERT(node.graph != NULL && node.index >= 0);
    return gy_graph_type(node.graph, (gy_value){node.index, node.output});
}

/* The hidden input that every dropout reads; one a graph. */
static gy_node seed_node(gy_graph *graph)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].op == &gy_ops_row_input &&
            strcmp(graph->nodes[i].name, GY_SEED_NAME) == 0) {
            return (gy_node){graph, i, 0};
        }
    }
    return gy_graph_input(graph, GY_SEED_NAME, GY_I64, (int64_t[]){3}, 1);
}

gy_node gy_op_dropout(gy_node x, double rate)
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
    return gy_node_apply(&gy_ops_row_dropout, &attributes, (gy_node[]){x, seed_node(x.graph)},
                         2);
}

gy_node gy_op_embedding(gy_node table, gy_node indices)
{
    return gy_op_gather(table, indices, 0);
}

gy_node gy_op_layer_norm(gy_node x, gy_node gain, gy_node bias, int axis_count, double epsilon)
{
    gy_attributes attributes = no_attributes();
    attributes.norm.epsilon = epsilon;
    attributes.norm.axis_count = axis_count;
    return gy_node_apply(&gy_ops_row_layer_norm, &attributes, (gy_node[]){x, gain, bias}, 3);
}

gy_node gy_op_batch_norm(gy_node x, gy_node gain, gy_node bias, double epsilon)
{
    gy_attributes attributes = no_attributes();
    attributes.norm.epsilon = epsilon;
    return gy_node_apply(&gy_ops_row_batch_norm, &attributes, (gy_node[]){x, gain, bias}, 3);
}

/* One value for each channel of x, in a shape that broadcasts against it. */
static gy_node against_channels(gy_node x, gy_node value)
{
    GY_ASSERT(type_of(x)->rank >= 2);
    const gy_type *type = type_of(x);
    if (value.index < 0 || type->rank == 2) {
        return value;
    }
    int64_t sizes[GY_TENSOR_RANK_MAX];
    for (int dim = 0; dim < type->rank; dim++) {
        sizes[dim] = dim == 1 ? type->sizes[1] : 1;
    }
    return gy_op_reshape(value, sizes + 1, type->rank - 1);
}

/* Channels in dimension 1 of x, and each of the values one number a channel. */
static bool are_channels(gy_node x, const char *what, const gy_node *values,
                         const char *const *names, int count)
{
    GY_ASSERT(count >= 1);
    char texts[2][160];
    if (x.index < 0) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (values[i].index < 0) {
            return false;
        }
        if (values[i].graph != x.graph) {
            gy_fail(GY_ARG, "%s belongs to another graph", names[i]);
            gy_graph_fail(x.graph, GY_ARG, what);
            return false;
        }
    }
    const gy_type *type = type_of(x);
    if (type->rank < 2) {
        gy_fail(GY_SHAPE, "x is %s, expected channels in dimension 1",
                gy_type_text(type, texts[0]));
        gy_graph_fail(x.graph, GY_SHAPE, what);
        return false;
    }
    gy_type expected = {.dtype = type->dtype, .rank = 1, .sizes = {type->sizes[1]}};
    for (int i = 0; i < count; i++) {
        if (!gy_type_is_same_shape(type_of(values[i]), &expected)) {
            gy_fail(GY_SHAPE, "%s is %s, expected %s: one number a channel", names[i],
                    gy_type_text(type_of(values[i]), texts[0]),
                    gy_type_text(&expected, texts[1]));
            gy_graph_fail(x.graph, GY_SHAPE, what);
            return false;
        }
    }
    return true;
}

gy_node gy_op_batch_norm_inference(gy_node x, gy_node gain, gy_node bias, gy_node mean,
                                   gy_node variance, double epsilon)
{
    static const char what[] = "batch_norm_inference";
    static const char *const names[] = {"gain", "bias", "mean", "variance"};
    if (!are_channels(x, what, (gy_node[]){gain, bias, mean, variance}, names, 4)) {
        return gy_node_failed(x.graph);
    }
    if (!(epsilon >= 0)) {
        gy_fail(GY_ARG, "epsilon is %g, expected 0 or more", epsilon);
        return fail_node(x, GY_ARG, what);
    }
    const gy_dtype dtype = type_of(x)->dtype;
    gy_node deviation =
        gy_op_sqrt(gy_op_add(variance, gy_graph_scalar(x.graph, dtype, epsilon)));
    gy_node inverse = gy_op_div(gy_graph_scalar(x.graph, dtype, 1), deviation);
    gy_node centred = gy_op_sub(x, against_channels(x, mean));
    gy_node value = gy_op_mul(centred, against_channels(x, inverse));
    return gy_op_add(gy_op_mul(value, against_channels(x, gain)), against_channels(x, bias));
}

void gy_op_batch_norm_updates(gy_node x, gy_node mean, gy_node variance, double momentum,
                              gy_node updates[2])
{
    static const char what[] = "batch_norm_updates";
    static const char *const names[] = {"mean", "variance"};
    const gy_node running[] = {mean, variance};
    updates[0] = updates[1] = gy_node_failed(x.graph);
    if (!are_channels(x, what, running, names, 2)) {
        return;
    }
    if (!(momentum > 0 && momentum <= 1)) {
        gy_fail(GY_ARG, "momentum is %g, expected above 0, up to 1", momentum);
        gy_graph_fail(x.graph, GY_ARG, what);
        return;
    }
    gy_attributes attributes = no_attributes();
    attributes.reduce.axes = ((1u << type_of(x)->rank) - 1u) & ~2u;
    const gy_dtype dtype = type_of(x)->dtype;
    const gy_node of_batch[] = {
        gy_node_apply(&gy_ops_row_mean, &attributes, &x, 1),
        gy_node_named(gy_node_apply(&gy_ops_row_variance, &attributes, &x, 1),
                      "batch_norm's running variance")};
    for (int i = 0; i < 2; i++) {
        gy_node kept = gy_op_mul(running[i], gy_graph_scalar(x.graph, dtype, 1 - momentum));
        gy_node added = gy_op_mul(of_batch[i], gy_graph_scalar(x.graph, dtype, momentum));
        updates[i] = gy_op_assign(running[i], gy_op_add(kept, added));
    }
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
    GY_ASSERT(rank >= 0 && rank <= GY_TENSOR_RANK_MAX);
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
    if (rank < 0 || rank > GY_TENSOR_RANK_MAX || (rank > 0 && sizes == NULL)) {
        gy_fail(GY_ARG, "rank is %d, expected 0 to %d", rank, GY_TENSOR_RANK_MAX);
        gy_graph_fail(a.graph, GY_ARG, what);
        return false;
    }
    attributes->shape.rank = rank;
    for (int i = 0; i < rank; i++) {
        attributes->shape.sizes[i] = sizes[i];
    }
    return true;
}

gy_node gy_op_reshape(gy_node a, const int64_t *sizes, int rank)
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
    return gy_node_apply(&gy_ops_row_reshape, &attributes, &a, 1);
}

gy_node gy_op_broadcast_to(gy_node a, const int64_t *sizes, int rank)
{
    gy_attributes attributes;
    if (a.index < 0 || !fill_sizes(a, "broadcast_to", sizes, rank, &attributes)) {
        return gy_node_failed(a.graph);
    }
    return gy_node_apply(&gy_ops_row_broadcast_to, &attributes, &a, 1);
}

gy_node gy_op_transpose(gy_node a, const int *dims)
{
    if (a.index < 0) {
        return a;
    }
    gy_attributes attributes = no_attributes();
    for (int i = 0; i < type_of(a)->rank; i++) {
        attributes.permute.dims[i] = dims[i];
    }
    return gy_node_apply(&gy_ops_row_transpose, &attributes, &a, 1);
}

gy_node gy_op_slice(gy_node a, int dim, int64_t begin, int64_t end, int64_t step)
{
    gy_attributes attributes = no_attributes();
    attributes.slice.dim = dim;
    attributes.slice.begin = begin;
    attributes.slice.end = end;
    attributes.slice.step = step;
    return gy_node_apply(&gy_ops_row_slice, &attributes, &a, 1);
}

gy_node gy_op_pad(gy_node a, int dim, int64_t before, int64_t after)
{
    if (a.index < 0) {
        return a;
    }
    const gy_type *type = type_of(a);
    if (dim < 0 || dim >= type->rank || before < 0 || after < 0) {
        gy_fail(GY_ARG, "pad: %lld before and %lld behind dimension %d of %d dimensions",
                (long long)before, (long long)after, dim, type->rank);
        return fail_node(a, GY_ARG, "pad");
    }
    gy_attributes attributes = no_attributes();
    const int64_t size = type->sizes[dim];
    attributes.slice.dim = dim;
    attributes.slice.begin = before;
    attributes.slice.end = before + size;
    attributes.slice.step = 1;
    attributes.slice.size = before + size + after;
    return gy_node_apply(&gy_ops_row_pad, &attributes, &a, 1);
}

gy_node gy_op_concat(const gy_node *parts, int count, int dim)
{
    GY_ASSERT(parts != NULL && count >= 1);
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim;
    if (count <= GY_OP_INPUTS_MAX) {
        return gy_node_apply(&gy_ops_row_concat, &attributes, parts, count);
    }
    /* More than one node takes: halves of halves. */
    gy_node halves[2] = {gy_op_concat(parts, count / 2, dim),
                         gy_op_concat(parts + count / 2, count - count / 2, dim)};
    return gy_node_apply(&gy_ops_row_concat, &attributes, halves, 2);
}

gy_node gy_op_gather(gy_node a, gy_node indices, int dim)
{
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim;
    return gy_node_apply(&gy_ops_row_gather, &attributes, (gy_node[]){a, indices}, 2);
}

gy_node gy_op_scatter_add(gy_node a, gy_node indices, int dim, int64_t size)
{
    gy_attributes attributes = no_attributes();
    attributes.axis.dim = dim;
    attributes.axis.depth = size;
    return gy_node_apply(&gy_ops_row_scatter_add, &attributes, (gy_node[]){a, indices}, 2);
}

gy_node gy_op_assign(gy_node parameter, gy_node value)
{
    if (parameter.index >= 0 &&
        parameter.graph->nodes[parameter.index].op != &gy_ops_row_parameter) {
        gy_fail(GY_ARG, "assign needs a parameter, %s is not one",
                parameter.graph->nodes[parameter.index].name);
        return fail_node(parameter, GY_ARG, "assign");
    }
    return gy_node_apply(&gy_ops_row_assign, NULL, (gy_node[]){parameter, value}, 2);
}
