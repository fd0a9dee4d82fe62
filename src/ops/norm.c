/*
 * Normalisation and dropout.
 *
 * Both normalisations compute y = gain (x - mean) / sqrt(variance + epsilon) + bias, with mean
 * and (biased) variance over a set of axes: layer norm over the last ones, batch norm over all
 * but dimension 1. Their gradients and expansions are one, written over those axes. Batch norm
 * has no signature for a sharded batch: its expansion does, so that the statistics become sums
 * over all ranks. The unbiased variance, which running statistics keep, expands into the same
 * nodes, so that a training step computes them once.
 *
 * @source Ba, Kiros, Hinton, "Layer normalization", 2016; Ioffe and Szegedy, "Batch
 * normalization", 2015; Srivastava et al., "Dropout", 2014
 */
#include "ops/ops_priv.h"

#include <math.h>
#include <string.h>

/* ---- both normalisations ---- */

static uint32_t norm_axes(const gy_op *op, const gy_attributes *attributes, int rank)
{
    const uint32_t all = (1u << rank) - 1u;
    if (op == &gy_ops_row_batch_norm) {
        return all & ~2u;
    }
    return all & ~((1u << (rank - attributes->norm.axis_count)) - 1u);
}

static gy_status norm_check(const char *name, const gy_attributes *attributes,
                            const gy_type *inputs, const gy_type *expected)
{
    char texts[2][GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_need_real(name, inputs, 0));
    for (int i = 1; i < 3; i++) {
        if (!gy_type_is_same_shape(&inputs[i], expected)) {
            return gy_fail(GY_SHAPE,
                           "%s: %s is %s for x %s, expected one element for each "
                           "normalised position",
                           name, i == 1 ? "gain" : "bias", gy_type_text(&inputs[i], texts[1]),
                           gy_type_text(&inputs[0], texts[0]));
        }
    }
    if (!(attributes->norm.epsilon >= 0)) {
        return gy_fail(GY_ARG, "%s: epsilon %g, expected 0 or more", name,
                       attributes->norm.epsilon);
    }
    return GY_OK;
}

static gy_status layer_norm_infer(const gy_attributes *attributes, const gy_type *inputs,
                                  int input_count, gy_type *outputs)
{
    (void)input_count;
    const int count = attributes->norm.axis_count, rank = inputs[0].rank;
    char text[GY_TYPE_TEXT_BYTES];
    if (count < 1 || count > rank) {
        return gy_fail(GY_SHAPE, "layer_norm: the last %d dimensions of %s, which has %d",
                       count, gy_type_text(&inputs[0], text), rank);
    }
    gy_type expected = gy_type_plain(inputs[0].dtype, count);
    memcpy(expected.sizes, inputs[0].sizes + rank - count,
           (size_t)count * sizeof(expected.sizes[0]));
    GY_TRY(norm_check("layer_norm", attributes, inputs, &expected));
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

static gy_status batch_norm_infer(const gy_attributes *attributes, const gy_type *inputs,
                                  int input_count, gy_type *outputs)
{
    (void)input_count;
    char text[GY_TYPE_TEXT_BYTES];
    if (inputs[0].rank < 2) {
        return gy_fail(GY_SHAPE, "batch_norm: %s, expected channels in dimension 1",
                       gy_type_text(&inputs[0], text));
    }
    gy_type expected = gy_type_plain(inputs[0].dtype, 1);
    expected.sizes[0] = inputs[0].sizes[1];
    GY_TRY(norm_check("batch_norm", attributes, inputs, &expected));
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

static void norm_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                      const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    gy_cost_of(inputs, input_count, outputs, 7 * gy_type_elements(&inputs[0]), cost);
}

/* Mean and variance over the places base + [0, reduced). */
static void moments(const gy_view *x, const gy_ops_index *base, const int64_t *reduced,
                    double result[2])
{
    const double count = (double)gy_place_count(reduced, x->rank);
    result[0] = result[1] = 0;
    for (int pass = 0; pass < 2; pass++) {
        gy_ops_index step = {{0}};
        double sum = 0;
        do {
            gy_ops_index at = *base;
            for (int dim = 0; dim < x->rank; dim++) {
                at.at[dim] += step.at[dim];
            }
            double value = gy_real_at(x, &at, x->rank) - result[0];
            sum += pass == 0 ? value : value * value;
        } while (gy_ops_index_next(&step, reduced, x->rank));
        result[pass] = sum / count;
    }
}

static gy_status norm_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0];
    const uint32_t axes = norm_axes(call->op, call->attributes, x->rank);
    gy_ops_index at = {{0}};
    int64_t reduced[GY_TENSOR_RANK_MAX];
    if (gy_view_count(x) == 0) {
        return GY_OK;
    }
    for (int dim = 0; dim < x->rank; dim++) {
        reduced[dim] = (axes >> dim & 1) != 0 ? x->sizes[dim] : 1;
    }
    do {
        gy_ops_index base = at, position = at;
        for (int dim = 0; dim < x->rank; dim++) {
            base.at[dim] = (axes >> dim & 1) != 0 ? 0 : at.at[dim];
        }
        double m[2];
        moments(x, &base, reduced, m);
        int rank = x->rank;
        if (call->op == &gy_ops_row_batch_norm) {
            position = (gy_ops_index){{at.at[1]}};
            rank = 1;
        }
        double centred = gy_real_at(x, &at, x->rank) - m[0];
        double y = centred / sqrt(m[1] + call->attributes->norm.epsilon);
        gy_real_put(&call->outputs[0], &at,
                    y * gy_real_at(&call->inputs[1], &position, rank) +
                        gy_real_at(&call->inputs[2], &position, rank));
    } while (gy_ops_index_next(&at, x->sizes, x->rank));
    return GY_OK;
}

typedef struct normal {
    gy_builder *builder;
    const gy_applied *node;
    gy_type x_type;
    uint32_t axes;
    gy_value inverse; /* 1 / sqrt(variance + epsilon), reduced dimensions kept */
    gy_value value;   /* (x - mean) * inverse */
} normal;

static gy_value mean_of(const normal *n, gy_value value)
{
    return gy_build_reduce(n->builder, &gy_ops_row_mean, value, n->axes, true);
}

static gy_value times(const normal *n, gy_value a, gy_value b)
{
    return gy_build2(n->builder, &gy_ops_row_mul, a, b);
}

static normal normal_of(gy_builder *builder, const gy_op *op, const gy_applied *node)
{
    normal n = {.builder = builder, .node = node};
    const gy_value x = node->inputs[0];
    n.x_type = *builder->ops->type(builder, x);
    n.axes = norm_axes(op, node->attributes, n.x_type.rank);
    gy_value centred = gy_build2(builder, &gy_ops_row_sub, x, mean_of(&n, x));
    gy_value variance = mean_of(&n, gy_build1(builder, &gy_ops_row_square, centred));
    gy_value shifted =
        gy_build2(builder, &gy_ops_row_add, variance,
                  gy_build_scalar_like(builder, variance, node->attributes->norm.epsilon));
    n.inverse = gy_build2(builder, &gy_ops_row_div, gy_build_scalar_like(builder, x, 1),
                          gy_build1(builder, &gy_ops_row_sqrt, shifted));
    n.value = times(&n, centred, n.inverse);
    return n;
}

/* Gain or bias in a shape that broadcasts against x. */
static gy_value against_x(const normal *n, const gy_op *op, gy_value position)
{
    if (op != &gy_ops_row_batch_norm || n->x_type.rank == 2) {
        return position;
    }
    int64_t sizes[GY_TENSOR_RANK_MAX];
    for (int dim = 0; dim < n->x_type.rank; dim++) {
        sizes[dim] = dim == 1 ? n->x_type.sizes[1] : 1;
    }
    return gy_build_reshape(n->builder, position, sizes, n->x_type.rank);
}

/* The sum over everything that shares an element of gain or bias. */
static gy_value to_position(const normal *n, const gy_op *op, gy_value value)
{
    const uint32_t all = (1u << n->x_type.rank) - 1u;
    const uint32_t axes = op == &gy_ops_row_batch_norm ? n->axes : all & ~n->axes;
    return axes == 0 ? value : gy_build_reduce(n->builder, &gy_ops_row_sum, value, axes, false);
}

/*
 * With h = dy gain: dx = inverse (h - mean h - xhat mean(h xhat)), dgain = sum dy xhat,
 * dbias = sum dy.
 */
static void gradient_of(const normal *n, const gy_op *op, gy_value dy, gy_value *dx)
{
    gy_builder *builder = n->builder;
    gy_value h = times(n, dy, against_x(n, op, n->node->inputs[1]));
    gy_value along = times(n, n->value, mean_of(n, times(n, h, n->value)));
    gy_value rest = gy_build2(builder, &gy_ops_row_sub, h, mean_of(n, h));
    dx[0] = times(n, gy_build2(builder, &gy_ops_row_sub, rest, along), n->inverse);
    dx[1] = to_position(n, op, times(n, dy, n->value));
    dx[2] = to_position(n, op, dy);
}

static void expansion_of(const normal *n, const gy_op *op, gy_value *outputs)
{
    gy_value scaled = times(n, n->value, against_x(n, op, n->node->inputs[1]));
    gy_value bias = against_x(n, op, n->node->inputs[2]);
    outputs[0] = gy_build2(n->builder, &gy_ops_row_add, scaled, bias);
}

static gy_status layer_norm_gradient(gy_builder *builder, const gy_applied *node,
                                     const gy_value *dy, gy_value *dx)
{
    gy_value slopes = gy_build(builder, &gy_ops_row_layer_norm_gradient, node->attributes,
                               (gy_value[]){node->inputs[0], node->inputs[1], dy[0]}, 3);
    for (int k = 0; k < 3; k++) {
        dx[k] = slopes.node < 0 ? GY_NO_VALUE : (gy_value){slopes.node, slopes.output + k};
    }
    return GY_OK;
}

static gy_status batch_norm_gradient(gy_builder *builder, const gy_applied *node,
                                     const gy_value *dy, gy_value *dx)
{
    const normal n = normal_of(builder, &gy_ops_row_batch_norm, node);
    gradient_of(&n, &gy_ops_row_batch_norm, dy[0], dx);
    return GY_OK;
}

static gy_status layer_norm_expand(gy_builder *builder, const gy_applied *node,
                                   gy_value *outputs)
{
    const normal n = normal_of(builder, &gy_ops_row_layer_norm, node);
    expansion_of(&n, &gy_ops_row_layer_norm, outputs);
    return GY_OK;
}

static gy_status batch_norm_expand(gy_builder *builder, const gy_applied *node,
                                   gy_value *outputs)
{
    const normal n = normal_of(builder, &gy_ops_row_batch_norm, node);
    expansion_of(&n, &gy_ops_row_batch_norm, outputs);
    return GY_OK;
}

static int layer_norm_placements(const gy_attributes *attributes, const gy_type *inputs,
                                 int input_count, const gy_type *outputs,
                                 gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < inputs[0].rank - attributes->norm.axis_count; dim++) {
        gy_signatures_shard(&made, dim, dim);
    }
    return made.count;
}

/* Channels are independent. */
static int batch_norm_placements(const gy_attributes *attributes, const gy_type *inputs,
                                 int input_count, const gy_type *outputs,
                                 gy_signature *signatures)
{
    (void)attributes;
    (void)inputs;
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    gy_signature *channels = gy_signatures_add(&made);
    channels->inputs[0] = channels->outputs[0] = gy_shard(1);
    channels->inputs[1] = channels->inputs[2] = gy_shard(0);
    return made.count;
}

static const gy_ops_sample layer_norm_samples[] = {
    {.attributes.norm = {.epsilon = 1e-5, .axis_count = 1},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 3, 5), GY_IN(0.5, 1.5, 5), GY_IN(-1, 1, 5)},
     .differentiable = 7},
    {.attributes.norm = {.epsilon = 1e-2, .axis_count = 2},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 4, 2, 3), GY_IN(0.5, 1.5, 2, 3), GY_IN(-1, 1, 2, 3)},
     .differentiable = 7},
    {.attributes.norm = {.epsilon = 1e-5, .axis_count = 2},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 2, 3), GY_IN(0.5, 1.5, 2, 3), GY_IN(-1, 1, 2, 3)},
     .differentiable = 7},
};

static const gy_ops_sample batch_norm_samples[] = {
    {.attributes.norm = {.epsilon = 1e-5},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 5, 3), GY_IN(0.5, 1.5, 3), GY_IN(-1, 1, 3)},
     .differentiable = 7},
    {.attributes.norm = {.epsilon = 1e-3},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 3, 2, 2, 2), GY_IN(0.5, 1.5, 2), GY_IN(-1, 1, 2)},
     .differentiable = 7},
};

const gy_op gy_ops_row_layer_norm = {
    .name = "layer_norm",
    .input_count = 3,
    .output_count = 1,
    .infer = layer_norm_infer,
    .cost = norm_cost,
    .gradient = layer_norm_gradient,
    .expand = layer_norm_expand,
    .placements = layer_norm_placements,
    .reference = norm_reference,
    GY_SAMPLES(layer_norm_samples),
};

const gy_op gy_ops_row_batch_norm = {
    .name = "batch_norm",
    .input_count = 3,
    .output_count = 1,
    .infer = batch_norm_infer,
    .cost = norm_cost,
    .gradient = batch_norm_gradient,
    .expand = batch_norm_expand,
    .placements = batch_norm_placements,
    .reference = norm_reference,
    GY_SAMPLES(batch_norm_samples),
};

/* ---- the gradient of layer norm: (x, gain, dy) -> dx, dgain, dbias ---- */

static gy_status slope_infer(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, gy_type *outputs)
{
    gy_type known[3] = {inputs[0], inputs[1], inputs[1]}, result;
    GY_TRY(layer_norm_infer(attributes, known, input_count, &result));
    GY_TRY(gy_need_same_shape("layer_norm_gradient", &result, &inputs[2]));
    outputs[0] = result;
    outputs[1] = outputs[2] = gy_type_like(&inputs[1]);
    return GY_OK;
}

static void slope_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                       const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    gy_cost_of(inputs, input_count, outputs, 14 * gy_type_elements(&inputs[0]), cost);
}

static void add_at(const gy_view *view, const gy_ops_index *at, double value)
{
    gy_real_put(view, at, gy_real_at(view, at, view->rank) + value);
}

/* The line that begins at `base` and has `line` places. */
static void slope_line(const gy_kernel_call *call, const gy_ops_index *base,
                       const int64_t *line)
{
    const gy_view *x = &call->inputs[0], *gain = &call->inputs[1], *dy = &call->inputs[2];
    const int rank = x->rank, shift = rank - gain->rank;
    const double count = (double)gy_place_count(line, rank);
    double m[2], sums[2] = {0};
    moments(x, base, line, m);
    const double inverse = 1 / sqrt(m[1] + call->attributes->norm.epsilon);
    for (int pass = 0; pass < 2; pass++) {
        gy_ops_index step = {{0}};
        do {
            gy_ops_index at = *base, own = {{0}};
            for (int dim = shift; dim < rank; dim++) {
                at.at[dim] = own.at[dim - shift] = step.at[dim];
            }
            const double xhat = (gy_real_at(x, &at, rank) - m[0]) * inverse;
            const double slope = gy_real_at(dy, &at, rank);
            const double h = slope * gy_real_at(gain, &own, gain->rank);
            if (pass == 0) {
                sums[0] += h;
                sums[1] += h * xhat;
                add_at(&call->outputs[1], &own, slope * xhat);
                add_at(&call->outputs[2], &own, slope);
            } else {
                gy_real_put(&call->outputs[0], &at,
                            inverse * (h - sums[0] / count - xhat * sums[1] / count));
            }
        } while (gy_ops_index_next(&step, line, rank));
    }
}

static gy_status slope_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0];
    const int shift = x->rank - call->inputs[1].rank;
    int64_t kept[GY_TENSOR_RANK_MAX], line[GY_TENSOR_RANK_MAX];
    for (int dim = 0; dim < x->rank; dim++) {
        kept[dim] = dim < shift ? x->sizes[dim] : 1;
        line[dim] = dim < shift ? 1 : x->sizes[dim];
    }
    gy_view_zero(&call->outputs[1]);
    gy_view_zero(&call->outputs[2]);
    gy_ops_index at = {{0}};
    bool is_more = gy_view_count(x) > 0;
    for (; is_more; is_more = gy_ops_index_next(&at, kept, x->rank)) {
        slope_line(call, &at, line);
    }
    return GY_OK;
}

static gy_status slope_expand(gy_builder *builder, const gy_applied *node, gy_value *outputs)
{
    const normal n = normal_of(builder, &gy_ops_row_layer_norm, node);
    gradient_of(&n, &gy_ops_row_layer_norm, node->inputs[2], outputs);
    return GY_OK;
}

static gy_status slope_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                                gy_value *dx)
{
    return gy_ops_expanded_gradient(builder, &gy_ops_row_layer_norm_gradient, node, dy, dx);
}

/* Rows are independent, those of gain and bias are summed up; all is linear in dy. */
static int slope_placements(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < inputs[0].rank - attributes->norm.axis_count; dim++) {
        gy_signature *rows = gy_signatures_add(&made);
        rows->inputs[0] = rows->inputs[2] = rows->outputs[0] = gy_shard(dim);
        rows->outputs[1] = rows->outputs[2] = gy_partial(GY_SUM);
    }
    gy_signature *partial = gy_signatures_add(&made);
    partial->inputs[2] = partial->outputs[0] = gy_partial(GY_SUM);
    partial->outputs[1] = partial->outputs[2] = gy_partial(GY_SUM);
    return made.count;
}

static const gy_ops_sample slope_samples[] = {
    {.attributes.norm = {.epsilon = 1e-2, .axis_count = 1},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 3, 4), GY_IN(0.5, 1.5, 4), GY_IN(-1, 1, 3, 4)},
     .differentiable = 7},
    {.attributes.norm = {.epsilon = 1e-2, .axis_count = 2},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 2, 2, 3), GY_IN(0.5, 1.5, 2, 3), GY_IN(-1, 1, 2, 2, 3)},
     .differentiable = 7},
    {.attributes.norm = {.epsilon = 1e-2, .axis_count = 2},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 2, 3), GY_IN(0.5, 1.5, 2, 3), GY_IN(-1, 1, 2, 3)},
     .differentiable = 7},
    {.attributes.norm = {.epsilon = 1e-2, .axis_count = 1},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 0, 3), GY_IN(0.5, 1.5, 3), GY_IN(-1, 1, 0, 3)},
     .differentiable = 7},
};

const gy_op gy_ops_row_layer_norm_gradient = {
    .name = "layer_norm_gradient",
    .input_count = 3,
    .output_count = 3,
    .infer = slope_infer,
    .cost = slope_cost,
    .gradient = slope_gradient,
    .expand = slope_expand,
    .placements = slope_placements,
    .reference = slope_reference,
    GY_SAMPLES(slope_samples),
};

/* ---- unbiased variance ---- */

static gy_status variance_infer(const gy_attributes *attributes, const gy_type *inputs,
                                int input_count, gy_type *outputs)
{
    char text[GY_TYPE_TEXT_BYTES];
    gy_type reduced;
    GY_TRY(gy_need_real("variance", inputs, 0));
    GY_TRY(gy_ops_row_mean.infer(attributes, inputs, input_count, &reduced));
    const uint32_t axes = gy_reduce_axes(attributes->reduce.axes, inputs[0].rank);
    int64_t count = 1;
    for (int dim = 0; dim < inputs[0].rank; dim++) {
        /* A symbolic size is unknown until the batch is. */
        if ((axes >> dim & 1) != 0) {
            count = inputs[0].sizes[dim] < 0 || count < 0 ? -1 : count * inputs[0].sizes[dim];
        }
    }
    if (count == 0 || count == 1) {
        return gy_fail(GY_SHAPE,
                       "variance: %lld value%s for each result of %s, expected at least 2 (a "
                       "larger batch)",
                       (long long)count, count == 1 ? "" : "s", gy_type_text(&inputs[0], text));
    }
    *outputs = reduced;
    return GY_OK;
}

static gy_status variance_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0];
    const uint32_t axes = gy_reduce_axes(call->attributes->reduce.axes, x->rank);
    int64_t kept[GY_TENSOR_RANK_MAX], reduced[GY_TENSOR_RANK_MAX];
    for (int dim = 0; dim < x->rank; dim++) {
        const bool is_reduced = (axes >> dim & 1) != 0;
        kept[dim] = is_reduced ? 1 : x->sizes[dim];
        reduced[dim] = is_reduced ? x->sizes[dim] : 1;
    }
    const double count = (double)gy_place_count(reduced, x->rank);
    gy_ops_index at = {{0}};
    bool is_more = gy_place_count(kept, x->rank) > 0;
    for (; is_more; is_more = gy_ops_index_next(&at, kept, x->rank)) {
        gy_ops_index to = {{0}};
        int rank = 0;
        for (int dim = 0; dim < x->rank; dim++) {
            if ((axes >> dim & 1) == 0 || call->attributes->reduce.keep) {
                to.at[rank++] = at.at[dim];
            }
        }
        double m[2];
        moments(x, &at, reduced, m);
        gy_real_put(&call->outputs[0], &to, m[1] * count / (count - 1));
    }
    return GY_OK;
}

/* A value with the reduced dimensions of x put back, of size 1. */
static gy_value with_reduced(gy_builder *builder, const gy_applied *node, gy_value value)
{
    const gy_type x = *builder->ops->type(builder, node->inputs[0]);
    const uint32_t axes = gy_reduce_axes(node->attributes->reduce.axes, x.rank);
    int64_t sizes[GY_TENSOR_RANK_MAX];
    for (int dim = 0; dim < x.rank; dim++) {
        sizes[dim] = (axes >> dim & 1) != 0 ? 1 : x.sizes[dim];
    }
    return node->attributes->reduce.keep ? value
                                         : gy_build_reshape(builder, value, sizes, x.rank);
}

/* x - mean, and the number of values of each variance less one. */
static gy_value centred_of(gy_builder *builder, const gy_applied *node, gy_value *freedom)
{
    const gy_value x = node->inputs[0];
    const uint32_t axes =
        gy_reduce_axes(node->attributes->reduce.axes, builder->ops->type(builder, x)->rank);
    gy_value count = gy_build_reduce(builder, &gy_ops_row_count, x, axes, false);
    *freedom = gy_build2(builder, &gy_ops_row_sub, count, gy_build_scalar_like(builder, x, 1));
    return gy_build2(builder, &gy_ops_row_sub, x,
                     gy_build_reduce(builder, &gy_ops_row_mean, x, axes, true));
}

/* dx = 2 (x - mean) dy / (n - 1): the mean's own share is 0, as deviations add up to 0. */
static gy_status variance_gradient(gy_builder *builder, const gy_applied *node,
                                   const gy_value *dy, gy_value *dx)
{
    gy_value freedom;
    gy_value centred = centred_of(builder, node, &freedom);
    gy_value twice =
        gy_build2(builder, &gy_ops_row_mul, centred, gy_build_scalar_like(builder, centred, 2));
    gy_value share =
        gy_build2(builder, &gy_ops_row_div, with_reduced(builder, node, dy[0]), freedom);
    dx[0] = gy_build2(builder, &gy_ops_row_mul, twice, share);
    return GY_OK;
}

/* Batch norm's biased variance times n / (n - 1). */
static gy_status variance_expand(gy_builder *builder, const gy_applied *node, gy_value *outputs)
{
    const gy_value x = node->inputs[0];
    const gy_type type = *builder->ops->type(builder, x);
    const uint32_t axes = gy_reduce_axes(node->attributes->reduce.axes, type.rank);
    gy_value freedom;
    gy_value centred = centred_of(builder, node, &freedom);
    gy_value biased = gy_build_reduce(
        builder, &gy_ops_row_mean, gy_build1(builder, &gy_ops_row_square, centred), axes, true);
    gy_value factor =
        gy_build2(builder, &gy_ops_row_div,
                  gy_build_reduce(builder, &gy_ops_row_count, x, axes, false), freedom);
    gy_value variance = gy_build2(builder, &gy_ops_row_mul, biased, factor);
    gy_type reduced;
    GY_TRY(gy_ops_row_mean.infer(node->attributes, &type, 1, &reduced));
    outputs[0] = node->attributes->reduce.keep
                     ? variance
                     : gy_build_reshape(builder, variance, reduced.sizes, reduced.rank);
    return GY_OK;
}

static const gy_ops_sample variance_samples[] = {
    {.attributes.reduce = {.axes = 1},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 5, 3)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 13, .keep = true},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 2, 2, 2)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 0},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 2, 1)},
     .differentiable = 1},
};

const gy_op gy_ops_row_variance = {
    .name = "variance",
    .input_count = 1,
    .output_count = 1,
    .infer = variance_infer,
    .cost = norm_cost,
    .gradient = variance_gradient,
    .expand = variance_expand,
    .no_placements = "expanded before placement",
    .reference = variance_reference,
    GY_SAMPLES(variance_samples),
};

/* ---- dropout ---- */

static gy_status dropout_infer(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, gy_type *outputs)
{
    (void)input_count;
    char texts[2][GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_need_real("dropout", inputs, 0));
    if (!(attributes->dropout.rate >= 0 && attributes->dropout.rate < 1)) {
        return gy_fail(GY_ARG, "dropout: rate %g, expected 0 to below 1",
                       attributes->dropout.rate);
    }
    const bool has_row = inputs[1].rank == 1 && inputs[1].sizes[0] == 3;
    if (inputs[1].dtype != GY_I64 || inputs[1].rank != 1 ||
        (inputs[1].sizes[0] != 2 && !has_row) || (attributes->dropout.row > 0 && !has_row)) {
        return gy_fail(GY_SHAPE, "dropout: seed %s for x %s, expected i64[2] or i64[3]",
                       gy_type_text(&inputs[1], texts[1]), gy_type_text(&inputs[0], texts[0]));
    }
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

static gy_status dropout_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0], *seeds = &call->inputs[1];
    int64_t seed[3] = {0};
    for (int64_t i = 0; i < GY_MIN(seeds->sizes[0], 3); i++) {
        seed[i] = gy_whole_at(seeds, &(gy_ops_index){{i}}, 1);
    }
    const uint64_t first = (uint64_t)gy_dropout_begin(call->attributes, seed);
    const uint64_t threshold = gy_dropout_threshold(call->attributes->dropout.rate);
    const double scale = 1 / (1 - call->attributes->dropout.rate);
    gy_ops_index at = {{0}};
    bool is_more = gy_view_count(x) > 0;
    for (; is_more; is_more = gy_ops_index_next(&at, x->sizes, x->rank)) {
        uint64_t index = 0; /* row-major in the global tensor: every shard draws its own part */
        for (int dim = 0; dim < x->rank; dim++) {
            int64_t begin = call->input_offsets != NULL ? call->input_offsets[0][dim] : 0;
            index =
                index * (uint64_t)gy_call_size(call, 0, dim) + (uint64_t)(begin + at.at[dim]);
        }
        index += first;
        uint32_t numbers[4];
        gy_dropout_block(seed, call->attributes->dropout.stream, index / 4, numbers);
        bool is_dropped = numbers[index % 4] < threshold;
        gy_real_put(&call->outputs[0], &at,
                    is_dropped ? 0 : gy_real_at(x, &at, x->rank) * scale);
    }
    return GY_OK;
}

/* The same draw applied to dy. */
static gy_status dropout_gradient(gy_builder *builder, const gy_applied *node,
                                  const gy_value *dy, gy_value *dx)
{
    const gy_value inputs[2] = {dy[0], node->inputs[1]};
    dx[0] = gy_build(builder, &gy_ops_row_dropout, node->attributes, inputs, 2);
    dx[1] = GY_NO_VALUE;
    return GY_OK;
}

static const gy_ops_sample dropout_samples[] = {
    {.attributes.dropout = {.rate = 0.5, .stream = 3},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 5, 7), GY_IN_OF(GY_I64, 0, 1000, 2)},
     .differentiable = 1},
    {.attributes.dropout = {.rate = 0.2, .stream = 0},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 1, 2, 4), GY_IN_OF(GY_I64, 0, 1000, 2)},
     .differentiable = 1},
    {.attributes.dropout = {.rate = 0, .stream = 9},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 6), GY_IN_OF(GY_I64, 0, 1000, 2)},
     .differentiable = 1},
};

const gy_op gy_ops_row_dropout = {
    .name = "dropout",
    .input_count = 2,
    .output_count = 1,
    .flags = GY_OP_RANDOM,
    .infer = dropout_infer,
    .cost = gy_cost_elementwise,
    .gradient = dropout_gradient,
    .placements = gy_placements_linear,
    .reference = dropout_reference,
    GY_SAMPLES(dropout_samples),
};
