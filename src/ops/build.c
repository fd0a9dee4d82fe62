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
