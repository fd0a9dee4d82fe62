/* Rows without arithmetic: what is fed or constant, what changes a variable, identity and pins.
 */
#include "ops/ops_priv.h"

static gy_status shape_infer(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, gy_type *outputs)
{
    (void)inputs;
    (void)input_count;
    const int rank = attributes->shape.rank;
    if (rank < 0 || rank > GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_SHAPE, "rank %d, expected 0 to %d", rank, GY_TENSOR_RANK_MAX);
    }
    if (!gy_dtype_is_element(attributes->shape.dtype)) {
        return gy_fail(GY_TYPE, "element type %d, expected one from 1 to %d",
                       (int)attributes->shape.dtype, GY_DTYPE_COUNT - 1);
    }
    gy_type type = gy_type_plain(attributes->shape.dtype, rank);
    for (int dim = 0; dim < rank; dim++) {
        type.sizes[dim] = attributes->shape.sizes[dim];
        if (type.sizes[dim] == INT64_MAX || type.sizes[dim] == INT64_MIN) {
            return gy_fail(GY_SHAPE, "dimension %d is left open, expected a size", dim);
        }
    }
    *outputs = type;
    return GY_OK;
}

static const char fed_reason[] = "a leaf: its value is fed, not computed";
static const char leaf_placed[] = "a leaf: the placement pass decides where its parts live";

const gy_op gy_ops_row_input = {
    .name = "input",
    .input_count = 0,
    .output_count = 1,
    .flags = GY_OP_LEAF,
    .infer = shape_infer,
    .cost = gy_cost_move,
    .gradient = gy_gradient_zero,
    .no_placements = leaf_placed,
    .bind = gy_bind_shape,
    .no_reference = fed_reason,
};

const gy_op gy_ops_row_parameter = {
    .name = "parameter",
    .input_count = 0,
    .output_count = 1,
    .flags = GY_OP_LEAF,
    .infer = shape_infer,
    .cost = gy_cost_move,
    .gradient = gy_gradient_zero,
    .no_placements = leaf_placed,
    .bind = gy_bind_shape,
    .no_reference = fed_reason,
};

static gy_status literal_infer(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, gy_type *outputs)
{
    (void)inputs;
    (void)input_count;
    const gy_tensor *tensor = attributes->literal.tensor;
    if (tensor == NULL) {
        return gy_fail(GY_ARG, "literal: no tensor");
    }
    *outputs = gy_type_plain(gy_tensor_dtype(tensor), gy_tensor_rank(tensor));
    for (int dim = 0; dim < outputs->rank; dim++) {
        outputs->sizes[dim] = gy_tensor_size(tensor, dim);
    }
    return GY_OK;
}

const gy_op gy_ops_row_literal = {
    .name = "literal",
    .input_count = 0,
    .output_count = 1,
    .flags = GY_OP_LEAF,
    .infer = literal_infer,
    .cost = gy_cost_move,
    .gradient = gy_gradient_zero,
    .no_placements = leaf_placed,
    .no_reference = fed_reason,
};

static gy_status fill_reference(const gy_kernel_call *call)
{
    const gy_view *out = &call->outputs[0];
    gy_ops_index place = {{0}};
    if (gy_view_count(out) == 0) {
        return GY_OK;
    }
    do {
        gy_real_put(out, &place, call->attributes->shape.value);
    } while (gy_ops_index_next(&place, out->sizes, out->rank));
    return GY_OK;
}

static const gy_ops_sample fill_samples[] = {
    {.attributes.shape = {.rank = 2, .dtype = GY_F64, .sizes = {3, 5}, .value = -2.5}},
    {.attributes.shape = {.rank = 0, .dtype = GY_F64, .value = 7}},
    {.attributes.shape = {.rank = 1, .dtype = GY_I32, .sizes = {4}, .value = -3}},
    {.attributes.shape = {.rank = 2, .dtype = GY_F32, .sizes = {0, 2}, .value = 1}},
};

const gy_op gy_ops_row_fill = {
    .name = "fill",
    .input_count = 0,
    .output_count = 1,
    .infer = shape_infer,
    .cost = gy_cost_move,
    .gradient = gy_gradient_zero,
    .placements = gy_placements_elementwise,
    .bind = gy_bind_shape,
    .reference = fill_reference,
    GY_SAMPLES(fill_samples),
};

static gy_status assign_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    (void)attributes;
    (void)input_count;
    GY_TRY(gy_need_same_shape("assign", &inputs[0], &inputs[1]));
    *outputs = gy_type_like(&inputs[1]);
    return GY_OK;
}

static gy_status assign_reference(const gy_kernel_call *call)
{
    return gy_view_copy(&call->outputs[0], &call->inputs[1]);
}

static const gy_ops_sample assign_samples[] = {
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 3, 4), GY_IN(-1, 1, 3, 4)}},
    {.input_count = 2, .inputs = {GY_IN_SCALAR(-1, 1), GY_IN_SCALAR(-1, 1)}},
};

const gy_op gy_ops_row_assign = {
    .name = "assign",
    .input_count = 2,
    .output_count = 1,
    .flags = GY_OP_EFFECT,
    .infer = assign_infer,
    .cost = gy_cost_move,
    .no_gradient = "an effect: the parameter changes after all reads of the run",
    .placements = gy_placements_elementwise,
    .reference = assign_reference,
    GY_SAMPLES(assign_samples),
};

static gy_status identity_infer(const gy_attributes *attributes, const gy_type *inputs,
                                int input_count, gy_type *outputs)
{
    (void)attributes;
    (void)input_count;
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

static gy_status identity_gradient(gy_builder *builder, const gy_applied *node,
                                   const gy_value *dy, gy_value *dx)
{
    (void)builder;
    (void)node;
    dx[0] = dy[0];
    return GY_OK;
}

static const gy_ops_sample identity_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(-1, 1, 3, 4)}, .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN_OF(GY_I16, -5, 5, 7)}},
};

const gy_op gy_ops_row_identity = {
    .name = "identity",
    .input_count = 1,
    .output_count = 1,
    .flags = GY_OP_LINEAR,
    .infer = identity_infer,
    .cost = gy_cost_move,
    .gradient = identity_gradient,
    .placements = gy_placements_linear,
    .reference = gy_reference_copy,
    GY_SAMPLES(identity_samples),
};

static void pin_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                     const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    (void)inputs;
    (void)input_count;
    (void)outputs;
    *cost = (gy_cost){.flops = 0}; /* it never runs */
}

const gy_op gy_ops_row_pin = {
    .name = "pin",
    .input_count = 1,
    .output_count = 1,
    .infer = identity_infer,
    .cost = pin_cost,
    .gradient = identity_gradient,
    .placements = gy_placements_linear,
    .reference = gy_reference_copy,
    GY_SAMPLES(identity_samples),
};
