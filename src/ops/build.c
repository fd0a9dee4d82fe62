/* Helpers over gy_builder for gradients and expansions. */
#include "ops/ops_priv.h"

#include <string.h>

gy_value gy_build(gy_builder *builder, const gy_op *op, const gy_attributes *attributes,
                  const gy_value *inputs, int input_count)
{
    gy_attributes none;
    memset(&none, 0, sizeof(none));
    for (int i = 0; i < input_count; i++) {
        if (inputs[i].node < 0) {
            return GY_NO_VALUE;
        }
    }
    return builder->ops->apply(builder, op, attributes != NULL ? attributes : &none, inputs,
                               input_count);
}

gy_value gy_build1(gy_builder *builder, const gy_op *op, gy_value a)
{
    return gy_build(builder, op, NULL, &a, 1);
}

gy_value gy_build2(gy_builder *builder, const gy_op *op, gy_value a, gy_value b)
{
    return gy_build(builder, op, NULL, (gy_value[]){a, b}, 2);
}

gy_value gy_build3(gy_builder *builder, const gy_op *op, gy_value a, gy_value b, gy_value c)
{
    return gy_build(builder, op, NULL, (gy_value[]){a, b, c}, 3);
}

gy_value gy_build_scalar_like(gy_builder *builder, gy_value like, double value)
{
    if (like.node < 0) {
        return GY_NO_VALUE;
    }
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.shape.dtype = builder->ops->type(builder, like)->dtype;
    attributes.shape.value = value;
    return gy_build(builder, &gy_ops_row_fill, &attributes, NULL, 0);
}

gy_value gy_build_reduce(gy_builder *builder, const gy_op *op, gy_value value, uint32_t axes,
                         bool keep)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.reduce.axes = axes;
    attributes.reduce.keep = keep;
    return gy_build(builder, op, &attributes, &value, 1);
}

gy_value gy_build_reshape(gy_builder *builder, gy_value value, const int64_t *sizes, int rank)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.shape.rank = rank;
    memcpy(attributes.shape.sizes, sizes, (size_t)rank * sizeof(sizes[0]));
    return gy_build(builder, &gy_ops_row_reshape, &attributes, &value, 1);
}

gy_value gy_build_cast_like(gy_builder *builder, gy_value value, gy_value like)
{
    if (value.node < 0 || like.node < 0) {
        return GY_NO_VALUE;
    }
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.cast.dtype = builder->ops->type(builder, like)->dtype;
    return gy_build(builder, &gy_ops_row_cast, &attributes, &value, 1);
}

gy_value gy_ops_build_as(gy_builder *builder, gy_value value, gy_value like)
{
    if (value.node < 0 || like.node < 0 ||
        builder->ops->type(builder, value)->dtype == builder->ops->type(builder, like)->dtype) {
        return value;
    }
    return gy_build_cast_like(builder, value, like);
}

gy_value gy_build_sum_to(gy_builder *builder, gy_value value, gy_value like)
{
    if (value.node < 0 || like.node < 0) {
        return GY_NO_VALUE;
    }
    const gy_type from = *builder->ops->type(builder, value);
    const gy_type to = *builder->ops->type(builder, like);
    const int shift = from.rank - to.rank;
    GY_ASSERT(shift >= 0);
    uint32_t axes = 0;
    for (int dim = 0; dim < from.rank; dim++) {
        if (dim < shift || (to.sizes[dim - shift] == 1 && from.sizes[dim] != 1)) {
            axes |= 1u << dim;
        }
    }
    if (axes != 0) {
        /* Leading dimensions alone go without `keep`, so that no reshape is needed. */
        bool is_leading = axes == (1u << shift) - 1u;
        value = gy_build_reduce(builder, &gy_ops_row_sum, value, axes, !is_leading);
        if (shift > 0 && !is_leading) {
            value = gy_build_reshape(builder, value, to.sizes, to.rank);
        }
    }
    return value;
}

gy_value gy_build_broadcast_like(gy_builder *builder, gy_value value, gy_value like)
{
    if (value.node < 0 || like.node < 0) {
        return GY_NO_VALUE;
    }
    const gy_type from = *builder->ops->type(builder, value);
    const gy_type to = *builder->ops->type(builder, like);
    if (from.rank == to.rank &&
        memcmp(from.sizes, to.sizes, (size_t)to.rank * sizeof(to.sizes[0])) == 0) {
        return value;
    }
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.shape.rank = to.rank;
    memcpy(attributes.shape.sizes, to.sizes, (size_t)to.rank * sizeof(to.sizes[0]));
    return gy_build(builder, &gy_ops_row_broadcast_to, &attributes, &value, 1);
}

gy_value gy_build_total(gy_builder *builder, gy_value a, gy_value b)
{
    if (a.node < 0 || b.node < 0) {
        return a.node < 0 ? b : a;
    }
    return gy_build2(builder, &gy_ops_row_add, a, b);
}

/* ---- the gradient of a row by its expansion ---- */

enum { TAPE_MAX = 64 };

/* A node of an expansion, and what has reached its result so far. */
typedef struct taped {
    const gy_op *op;
    gy_attributes attributes;
    gy_value inputs[GY_OP_INPUTS_MAX], value, slope;
    int input_count;
} taped;

/* A builder that keeps what it hands on to another one. */
typedef struct tape {
    gy_builder builder; /* first: the builder is the tape */
    gy_builder *real;
    const gy_applied *node; /* that is differentiated */
    gy_value *slopes;       /* (node->input_count) */
    taped list[TAPE_MAX];
    int count;
} tape;

static gy_value tape_apply(gy_builder *builder, const gy_op *op,
                           const gy_attributes *attributes, const gy_value *inputs,
                           int input_count)
{
    tape *t = (tape *)builder;
    GY_ASSERT(t->count < TAPE_MAX && op->output_count == 1);
    taped *entry = &t->list[t->count];
    entry->value = t->real->ops->apply(t->real, op, attributes, inputs, input_count);
    if (entry->value.node < 0) {
        return GY_NO_VALUE;
    }
    entry->op = op;
    entry->attributes = *attributes;
    entry->slope = GY_NO_VALUE;
    entry->input_count = input_count;
    for (int k = 0; k < input_count; k++) {
        entry->inputs[k] = inputs[k];
    }
    t->count++;
    return entry->value;
}

static const gy_type *tape_type(gy_builder *builder, gy_value value)
{
    tape *t = (tape *)builder;
    return t->real->ops->type(t->real, value);
}

/* What has reached a value that the expansion made or began with; NULL: of neither. */
static gy_value *tape_slope(tape *t, gy_value value)
{
    for (int k = 0; k < t->node->input_count; k++) {
        const gy_value input = t->node->inputs[k];
        if (input.node == value.node && input.output == value.output) {
            return &t->slopes[k];
        }
    }
    for (int i = 0; i < t->count; i++) {
        const gy_value made = t->list[i].value;
        if (made.node == value.node && made.output == value.output) {
            return &t->list[i].slope;
        }
    }
    return NULL;
}

static gy_status tape_back(tape *t)
{
    for (int i = t->count - 1; i >= 0; i--) {
        const taped *entry = &t->list[i];
        gy_value to[GY_OP_INPUTS_MAX];
        if (entry->slope.node < 0 || entry->input_count == 0) {
            continue;
        }
        const gy_applied applied = {&entry->attributes, entry->inputs, entry->input_count,
                                    &entry->value};
        GY_ASSERT(entry->op->gradient != NULL);
        GY_TRY(entry->op->gradient(t->real, &applied, &entry->slope, to));
        for (int k = 0; k < entry->input_count; k++) {
            gy_value *sum = tape_slope(t, entry->inputs[k]);
            if (sum != NULL && to[k].node >= 0) {
                *sum = gy_build_total(t->real, *sum, to[k]);
            }
        }
    }
    return GY_OK;
}

gy_status gy_ops_expanded_gradient(gy_builder *builder, const gy_op *op, const gy_applied *node,
                                   const gy_value *dy, gy_value *dx)
{
    static const gy_builder_ops ops = {.apply = tape_apply, .type = tape_type};
    gy_value outputs[GY_OP_OUTPUTS_MAX];
    GY_ASSERT(op->expand != NULL && op->output_count <= GY_OP_OUTPUTS_MAX);
    tape *t = gy_alloc_zero("ops.tape", 1, sizeof(*t));
    if (t == NULL) {
        return GY_NOMEM;
    }
    *t = (tape){.builder = {&ops}, .real = builder, .node = node, .slopes = dx};
    for (int k = 0; k < node->input_count; k++) {
        dx[k] = GY_NO_VALUE;
    }
    gy_status status = op->expand(&t->builder, node, outputs);
    for (int k = 0; status >= 0 && k < op->output_count; k++) {
        gy_value *slope = tape_slope(t, outputs[k]);
        if (slope != NULL && dy[k].node >= 0) {
            *slope = gy_build_total(builder, *slope, dy[k]);
        }
    }
    if (status >= 0) {
        status = tape_back(t);
    }
    gy_free(t);
    return status;
}

gy_status gy_gradient_zero(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                           gy_value *dx)
{
    (void)builder;
    (void)dy;
    for (int i = 0; i < node->input_count; i++) {
        dx[i] = GY_NO_VALUE;
    }
    return GY_OK;
}
