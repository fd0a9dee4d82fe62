/**
 * Random graphs for the property tests: two batched inputs, a few parameters, then operators
 * drawn from a seed over what there is. Values stay of moderate size.
 */
#ifndef GY_GRAPH_RANDOM_GRAPH_H
#define GY_GRAPH_RANDOM_GRAPH_H

#include "graph/graph.h"

enum { RANDOM_VALUES = 64, RANDOM_PARAMETERS = 4, RANDOM_FEATURES = 4 };

typedef struct random_graph {
    gy_graph *graph;
    gy_dtype dtype; /* of all values */
    gy_random random;
    bool is_smooth; /* nothing with kinks: finite differences hold everywhere */
    gy_node x, y, parameters[RANDOM_PARAMETERS];
    gy_node values[RANDOM_VALUES];
    int count;
    gy_node loss; /* a scalar that depends on all */
} random_graph;

static inline int random_below(random_graph *r, int bound)
{
    return (int)gy_random_below(&r->random, (uint64_t)bound);
}

static inline const gy_type *random_type(gy_node node)
{
    return gy_graph_type(node.graph, (gy_value){node.index, node.output});
}

static inline gy_node random_pick(random_graph *r)
{
    return r->values[random_below(r, r->count)];
}

/* Another value of the same sizes; the same one when there is none. */
static inline gy_node random_twin(random_graph *r, gy_node like)
{
    int first = random_below(r, r->count);
    for (int i = 0; i < r->count; i++) {
        gy_node node = r->values[(first + i) % r->count];
        if (node.index != like.index &&
            gy_type_is_same_shape(random_type(node), random_type(like))) {
            return node;
        }
    }
    return like;
}

static inline gy_node random_unary(random_graph *r)
{
    gy_node a = random_pick(r);
    switch (random_below(r, r->is_smooth ? 6 : 9)) {
    case 0:
        return gy_op_tanh(a);
    case 1:
        return gy_op_sigmoid(a);
    case 2:
        return gy_op_exp(gy_op_tanh(a));
    case 3:
        return gy_op_neg(a);
    case 4:
        return gy_op_gelu(a);
    case 5:
        return gy_op_mul(a, gy_graph_scalar(r->graph, r->dtype, 0.5 * random_below(r, 4)));
    case 6:
        return gy_op_relu(a);
    case 7:
        return gy_op_abs(a);
    default:
        return gy_op_neg(gy_op_neg(a));
    }
}

static inline gy_node random_binary(random_graph *r)
{
    gy_node a = random_pick(r), b = random_twin(r, a);
    switch (random_below(r, r->is_smooth ? 4 : 6)) {
    case 0:
        return gy_op_add(a, b);
    case 1:
        return gy_op_sub(a, gy_op_neg(b));
    case 2:
        return gy_op_tanh(gy_op_mul(a, b));
    case 3:
        return gy_op_div(
            a, gy_op_add(gy_graph_scalar(r->graph, r->dtype, 1), gy_op_exp(gy_op_tanh(b))));
    case 4:
        return gy_op_maximum(a, b);
    default:
        return gy_op_select(gy_op_less(a, b), a, gy_graph_scalar(r->graph, r->dtype, 0.25));
    }
}

/* A product of two matrices whose inner sizes agree, in one of its four transpositions. */
static inline gy_node random_product(random_graph *r)
{
    int first = random_below(r, r->count), second = random_below(r, r->count);
    for (int i = 0; i < r->count * r->count; i++) {
        gy_node a = r->values[(first + i / r->count) % r->count];
        gy_node b = r->values[(second + i) % r->count];
        const gy_type *s = random_type(a), *t = random_type(b);
        if (s->rank != 2 || t->rank != 2) {
            continue;
        }
        for (int flags = 0; flags < 4; flags++) {
            int64_t inner = s->sizes[(flags & 1) != 0 ? 0 : 1];
            int64_t rows = s->sizes[(flags & 1) != 0 ? 1 : 0];
            int64_t columns = t->sizes[(flags & 2) != 0 ? 0 : 1];
            if (inner == t->sizes[(flags & 2) != 0 ? 1 : 0] && (rows > 0 || columns > 0)) {
                return gy_op_tanh(
                    gy_op_matmul_transposed(a, (flags & 1) != 0, b, (flags & 2) != 0));
            }
        }
    }
    return random_unary(r);
}

static inline gy_node random_shape(random_graph *r)
{
    gy_node a = random_pick(r);
    const gy_type *type = random_type(a);
    if (type->rank != 2) {
        return gy_op_broadcast_to(a, (int64_t[]){3, type->rank == 1 ? type->sizes[0] : 2}, 2);
    }
    switch (random_below(r, 6)) {
    case 0:
        return gy_op_transpose(a, (int[]){1, 0});
    case 1:
        return gy_op_softmax(a, 1);
    case 2:
        return gy_op_log_softmax(a, 1);
    case 3:
        return type->sizes[1] > 1 ? gy_op_slice(a, 1, 0, type->sizes[1] - 1, 1) : a;
    case 4:
        return type->sizes[1] > 0 && type->sizes[1] < 6
                   ? gy_op_concat((gy_node[]){a, random_twin(r, a)}, 2, 1)
                   : a;
    default:
        return type->sizes[1] > 0
                   ? gy_op_reshape(gy_op_reshape(a, (int64_t[]){GY_ANY, type->sizes[1], 1}, 3),
                                   type->sizes, 2)
                   : a;
    }
}

static inline gy_node random_reduction(random_graph *r)
{
    gy_node a = random_pick(r);
    const gy_type *type = random_type(a);
    if (type->rank == 0) {
        return gy_op_tanh(a);
    }
    uint32_t axes = 1 + (uint32_t)random_below(r, (1 << type->rank) - 1);
    bool keep = random_below(r, 2) == 0;
    switch (random_below(r, r->is_smooth ? 2 : 4)) {
    case 0:
        return gy_op_tanh(gy_op_sum(a, axes, keep));
    case 1:
        return gy_op_mean(a, axes, keep);
    case 2:
        return gy_op_max(a, axes, keep);
    default:
        return gy_op_min(a, axes, keep);
    }
}

/* With broadcasting from the right: a row of parameters over a matrix. */
static inline gy_node random_broadcast(random_graph *r)
{
    gy_node a = random_pick(r), row = r->parameters[3];
    const gy_type *type = random_type(a);
    if (type->rank == 0 || type->sizes[type->rank - 1] != RANDOM_FEATURES) {
        return gy_op_mul(a, gy_op_sum(row, 0, false));
    }
    return random_below(r, 2) == 0 ? gy_op_add(a, row) : gy_op_mul(a, row);
}

static inline void random_graph_make_of(random_graph *r, gy_dtype dtype, uint64_t seed,
                                        bool is_smooth, int steps)
{
    static const int64_t sizes[RANDOM_PARAMETERS][2] = {{RANDOM_FEATURES, 3},
                                                        {3, RANDOM_FEATURES},
                                                        {RANDOM_FEATURES, RANDOM_FEATURES},
                                                        {RANDOM_FEATURES, 0}};
    static const char *const names[RANDOM_PARAMETERS] = {"u", "v", "w", "row"};
    gy_graph *graph = NULL;
    GY_ASSERT(gy_graph_new(&graph) == GY_OK);
    *r = (random_graph){
        .graph = graph, .dtype = dtype, .random = {.key = seed}, .is_smooth = is_smooth};
    const int64_t batch[] = {GY_BATCH, RANDOM_FEATURES};
    const gy_init init = {GY_INIT_UNIFORM, 1, NULL};
    r->x = r->values[r->count++] = gy_graph_input(r->graph, "x", r->dtype, batch, 2);
    r->y = r->values[r->count++] = gy_graph_input(r->graph, "y", r->dtype, batch, 2);
    for (int i = 0; i < RANDOM_PARAMETERS; i++) {
        r->parameters[i] = r->values[r->count++] =
            gy_graph_parameter(r->graph, names[i], r->dtype, sizes[i], i == 3 ? 1 : 2, init);
    }
    gy_node (*const makers[])(random_graph *) = {
        random_unary, random_binary,    random_product,   random_product,
        random_shape, random_reduction, random_broadcast, random_binary};
    for (int i = 0; i < steps && r->count < RANDOM_VALUES; i++) {
        gy_node made = makers[random_below(r, (int)GY_COUNT(makers))](r);
        r->values[r->count++] = made;
    }
    r->loss = gy_graph_scalar(r->graph, r->dtype, 0);
    for (int i = 0; i < r->count; i++) {
        gy_node part = gy_op_tanh(r->values[i]);
        r->loss = gy_op_add(r->loss, gy_op_mean(gy_op_mul(part, part), 0, false));
    }
}

static inline void random_graph_make(random_graph *r, uint64_t seed, bool is_smooth, int steps)
{
    random_graph_make_of(r, GY_F64, seed, is_smooth, steps);
}

#endif
