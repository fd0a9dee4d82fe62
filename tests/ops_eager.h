/**
 * For tests of rows and kernels: a gy_builder that computes at once, reverse differentiation
 * over what it has built, and random inputs by a row's samples.
 *
 *     ops_eager eager;
 *     ops_eager_open(&eager);
 *     gy_value x = ops_eager_input(&eager, sample, 0, GY_F64, &random);
 *     gy_value y = gy_build1(&eager.builder, &gy_ops_row_relu, x);
 *     double first = ops_eager_get(&eager, y, 0);
 *     ops_eager_close(&eager);
 *
 * The first failure is kept in eager.status with its text; values made from it are GY_NO_VALUE.
 */
#ifndef GY_TESTS_OPS_EAGER_H
#define GY_TESTS_OPS_EAGER_H

#include "ops/ops.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { OPS_EAGER_NODES = 1024, OPS_EAGER_OUTPUTS = 3 };

typedef struct ops_eager_node {
    const gy_op *op; /* NULL: a leaf */
    gy_attributes attributes;
    gy_value inputs[GY_OP_INPUTS_MAX];
    int input_count, output_count;
    gy_type types[OPS_EAGER_OUTPUTS];
    gy_view views[OPS_EAGER_OUTPUTS]; /* row-major, owned */
} ops_eager_node;

typedef struct ops_eager {
    gy_builder builder; /* first: the builder is the eager one */
    ops_eager_node *nodes;
    int count;
    gy_status status;
    char text[512];
    /* What computes a node; NULL: its row's reference. */
    gy_status (*run)(const gy_kernel_call *call);
} ops_eager;

/* A dense, replicated type of a view. */
static inline gy_type ops_eager_type_of(const gy_view *view)
{
    gy_type type = {.dtype = view->dtype, .format = view->format, .rank = view->rank};
    memcpy(type.sizes, view->sizes, (size_t)view->rank * sizeof(type.sizes[0]));
    return type;
}

/* New row-major memory for a concrete type; free view.data with gy_free. */
static inline gy_view ops_eager_view(const gy_type *type)
{
    gy_view view = gy_view_of(NULL, type->dtype, type->sizes, type->rank);
    if (type->format == GY_FORMAT_BLOCKED) {
        view = gy_view_blocked(NULL, type->dtype, type->sizes);
    }
    view.data = gy_alloc_zero("test.view", 1, gy_view_bytes(&view) + 1);
    GY_ASSERT(view.data != NULL);
    return view;
}

static inline gy_value ops_eager_failed(ops_eager *eager, gy_status status, const char *name)
{
    if (eager->status == GY_OK) {
        eager->status = status;
        snprintf(eager->text, sizeof(eager->text), "%s: %.400s", name, gy_error_text());
    }
    return GY_NO_VALUE;
}

static inline void ops_eager_drop(ops_eager_node *node)
{
    for (int k = 0; k < node->output_count; k++) {
        gy_free(node->views[k].data);
    }
}

static inline gy_value ops_eager_apply(gy_builder *builder, const gy_op *op,
                                       const gy_attributes *attributes, const gy_value *inputs,
                                       int input_count)
{
    ops_eager *eager = (ops_eager *)builder;
    GY_ASSERT(eager->count < OPS_EAGER_NODES);
    ops_eager_node *node = &eager->nodes[eager->count];
    gy_view views[GY_OP_INPUTS_MAX];
    gy_type types[GY_OP_INPUTS_MAX];
    memset(node, 0, sizeof(*node));
    for (int i = 0; i < input_count; i++) {
        GY_ASSERT(inputs[i].node >= 0 && inputs[i].node < eager->count);
        node->inputs[i] = inputs[i];
        views[i] = eager->nodes[inputs[i].node].views[inputs[i].output];
        types[i] = eager->nodes[inputs[i].node].types[inputs[i].output];
    }
    node->op = op;
    node->attributes = *attributes;
    node->input_count = input_count;
    GY_ASSERT(op->output_count >= 1 && op->output_count <= OPS_EAGER_OUTPUTS);
    gy_status status = op->infer(attributes, types, input_count, node->types);
    if (status != GY_OK) {
        return ops_eager_failed(eager, status, op->name);
    }
    node->output_count = op->output_count;
    for (int k = 0; k < node->output_count; k++) {
        node->views[k] = ops_eager_view(&node->types[k]);
    }
    const gy_kernel_call call = {.op = op,
                                 .attributes = &node->attributes,
                                 .inputs = views,
                                 .input_count = input_count,
                                 .outputs = node->views,
                                 .output_count = node->output_count};
    status = eager->run != NULL ? eager->run(&call) : op->reference(&call);
    if (status != GY_OK) {
        ops_eager_drop(node);
        return ops_eager_failed(eager, status, op->name);
    }
    return (gy_value){eager->count++, 0};
}

static inline const gy_type *ops_eager_type(gy_builder *builder, gy_value value)
{
    const ops_eager *eager = (const ops_eager *)builder;
    GY_ASSERT(value.node >= 0 && value.node < eager->count);
    GY_ASSERT(value.output < eager->nodes[value.node].output_count);
    return &eager->nodes[value.node].types[value.output];
}

static inline void ops_eager_open(ops_eager *eager)
{
    static const gy_builder_ops ops = {.apply = ops_eager_apply, .type = ops_eager_type};
    memset(eager, 0, sizeof(*eager));
    eager->builder.ops = &ops;
    eager->nodes = gy_alloc_zero("test.eager", OPS_EAGER_NODES, sizeof(ops_eager_node));
    GY_ASSERT(eager->nodes != NULL);
}

/* Forget all nodes, to build again without new memory for them. */
static inline void ops_eager_reset(ops_eager *eager)
{
    for (int i = 0; i < eager->count; i++) {
        ops_eager_drop(&eager->nodes[i]);
    }
    eager->count = 0;
    eager->status = GY_OK;
}

static inline void ops_eager_close(ops_eager *eager)
{
    ops_eager_reset(eager);
    gy_free(eager->nodes);
}

/* A leaf with a copy of the view's elements, converted to `dtype`. */
static inline gy_value ops_eager_leaf(ops_eager *eager, const gy_view *from, gy_dtype dtype)
{
    GY_ASSERT(eager->count < OPS_EAGER_NODES);
    ops_eager_node *node = &eager->nodes[eager->count];
    memset(node, 0, sizeof(*node));
    node->output_count = 1;
    node->types[0] = ops_eager_type_of(from);
    node->types[0].dtype = dtype;
    node->types[0].format = GY_FORMAT_DENSE;
    node->views[0] = ops_eager_view(&node->types[0]);
    gy_status status = gy_view_copy(&node->views[0], from);
    GY_ASSERT(status == GY_OK);
    return (gy_value){eager->count++, 0};
}

static inline gy_view ops_eager_of(const ops_eager *eager, gy_value value)
{
    GY_ASSERT(value.node >= 0 && value.node < eager->count);
    return eager->nodes[value.node].views[value.output];
}

/* Element by row-major index. */
static inline double ops_eager_get(const ops_eager *eager, gy_value value, int64_t index)
{
    gy_view view = ops_eager_of(eager, value);
    return gy_element_get(view.dtype, view.data, index);
}

/* Random elements as sample input `index` says, F64 standing for `real`. */
static inline gy_view ops_eager_draw(const gy_ops_sample *sample, int index, gy_dtype real,
                                     gy_random *random)
{
    const gy_dtype kind = sample->inputs[index].dtype;
    gy_type type = {.dtype = kind == GY_F64 ? real : kind, .rank = sample->inputs[index].rank};
    memcpy(type.sizes, sample->inputs[index].sizes, sizeof(type.sizes));
    gy_view view = ops_eager_view(&type);
    const int64_t count = gy_view_count(&view);
    const double low = sample->inputs[index].low, high = sample->inputs[index].high;
    const bool is_whole = type.dtype != GY_F64 && type.dtype != GY_F32 &&
                          type.dtype != GY_F16 && type.dtype != GY_BF16;
    for (int64_t i = 0; i < count; i++) {
        double value = low + (high - low) * gy_random_unit(random);
        if (is_whole) {
            value = low + (double)gy_random_below(random, (uint64_t)(high - low));
        } else if (sample->inputs[index].is_distinct) {
            double step = (high - low) / (double)count;
            value = low + (double)i * (step < 1e-2 ? 1e-2 : step);
        }
        gy_element_set(view.dtype, view.data, i, value);
    }
    for (int64_t i = count - 1; i > 0 && sample->inputs[index].is_distinct; i--) {
        int64_t k = (int64_t)gy_random_below(random, (uint64_t)i + 1);
        double a = gy_element_get(view.dtype, view.data, i);
        gy_element_set(view.dtype, view.data, i, gy_element_get(view.dtype, view.data, k));
        gy_element_set(view.dtype, view.data, k, a);
    }
    return view;
}

/* The same as a leaf. */
static inline gy_value ops_eager_input(ops_eager *eager, const gy_ops_sample *sample, int index,
                                       gy_dtype real, gy_random *random)
{
    gy_view view = ops_eager_draw(sample, index, real, random);
    gy_value value = ops_eager_leaf(eager, &view, view.dtype);
    gy_free(view.data);
    return value;
}

/* Hand what has reached node i on to its inputs. */
static inline gy_status ops_eager_back(ops_eager *eager, int i, gy_value *slopes,
                                       const bool *depends)
{
    const ops_eager_node *node = &eager->nodes[i];
    gy_value to[GY_OP_INPUTS_MAX], outputs[OPS_EAGER_OUTPUTS];
    const gy_value *own = &slopes[i * OPS_EAGER_OUTPUTS];
    bool is_reached = false;
    for (int k = 0; k < node->output_count; k++) {
        outputs[k] = (gy_value){i, k};
        is_reached = is_reached || own[k].node >= 0;
    }
    if (!is_reached || node->op == NULL) {
        return GY_OK;
    }
    if (node->op->gradient == NULL) {
        return gy_fail(GY_UNSUPPORTED, "%s has no gradient: %s", node->op->name,
                       node->op->no_gradient);
    }
    const gy_applied applied = {&node->attributes, node->inputs, node->input_count, outputs};
    GY_TRY(node->op->gradient(&eager->builder, &applied, own, to));
    for (int k = 0; k < node->input_count; k++) {
        const gy_value input = node->inputs[k];
        gy_value *sum = &slopes[input.node * OPS_EAGER_OUTPUTS + input.output];
        if (to[k].node >= 0 && depends[input.node]) {
            *sum = sum->node < 0 ? to[k]
                                 : gy_build2(&eager->builder, &gy_ops_row_add, *sum, to[k]);
        }
    }
    return GY_OK;
}

/*
 * d sum(y dy) / d wrt[i], GY_NO_VALUE where y does not depend on it. dy has the shape of y.
 */
static inline gy_status ops_eager_gradients(ops_eager *eager, gy_value y, gy_value dy,
                                            const gy_value *wrt, int count, gy_value *gradients)
{
    const int last = y.node + 1;
    const size_t values = (size_t)last * OPS_EAGER_OUTPUTS;
    gy_value *slopes = gy_alloc_zero("test.slopes", values, sizeof(*slopes));
    bool *depends = gy_alloc_zero("test.depends", (size_t)last, sizeof(*depends));
    GY_ASSERT(slopes != NULL && depends != NULL);
    gy_status status = GY_OK;
    for (size_t v = 0; v < values; v++) {
        slopes[v] = GY_NO_VALUE;
    }
    for (int i = 0; i < last; i++) {
        for (int k = 0; k < count; k++) {
            depends[i] |= wrt[k].node == i;
        }
        for (int k = 0; k < eager->nodes[i].input_count; k++) {
            depends[i] |= depends[eager->nodes[i].inputs[k].node];
        }
    }
    slopes[y.node * OPS_EAGER_OUTPUTS + y.output] = dy;
    for (int i = y.node; i >= 0 && status == GY_OK; i--) {
        status = depends[i] ? ops_eager_back(eager, i, slopes, depends) : GY_OK;
    }
    for (int k = 0; k < count; k++) {
        gradients[k] = wrt[k].node < last
                           ? slopes[wrt[k].node * OPS_EAGER_OUTPUTS + wrt[k].output]
                           : GY_NO_VALUE;
    }
    gy_free(slopes);
    gy_free(depends);
    return status == GY_OK ? eager->status : status;
}

#endif
