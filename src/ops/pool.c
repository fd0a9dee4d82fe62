/*
 * Pooling of (N,C,H,W). The gradient of max pooling goes to the first maximum of each window
 * (row-major); max_pool_pick, its adjoint, takes what stands there, so that gradients of
 * gradients close. A window lies at least partly inside the image: pad < window.
 */
#include "ops/ops_priv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static gy_status window_count(const char *name, const gy_attributes *attributes, int axis,
                              const gy_type *x, int64_t *count)
{
    char text[GY_TYPE_TEXT_BYTES];
    const int64_t window = attributes->pool.window[axis];
    const int64_t stride = attributes->pool.stride[axis], pad = attributes->pool.pad[axis];
    const int64_t size = x->sizes[2 + axis];
    if (window < 1 || stride < 1 || pad < 0 || pad >= window) {
        return gy_fail(GY_ARG,
                       "%s: window %" PRId64 ", stride %" PRId64 ", pad %" PRId64
                       ", expected window >= 1, stride >= 1, 0 <= pad < window",
                       name, window, stride, pad);
    }
    if (size < 1 || size + 2 * pad < window) { /* a window of padding alone has no maximum */
        return gy_fail(GY_SHAPE, "%s: window %" PRId64 " does not fit %s with pad %" PRId64,
                       name, window, gy_type_text(x, text), pad);
    }
    *count = (size + 2 * pad - window) / stride + 1;
    return GY_OK;
}

/* The type of the pooled x. */
static gy_status pooled_type(const char *name, const gy_attributes *attributes,
                             const gy_type *x, gy_type *y)
{
    char text[GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_need_real(name, x, 0));
    if (x->rank != 4) {
        return gy_fail(GY_SHAPE, "%s: %s, expected (N,C,H,W)", name, gy_type_text(x, text));
    }
    gy_type type = gy_type_plain(x->dtype, 4);
    type.sizes[0] = x->sizes[0];
    type.sizes[1] = x->sizes[1];
    GY_TRY(window_count(name, attributes, 0, x, &type.sizes[2]));
    GY_TRY(window_count(name, attributes, 1, x, &type.sizes[3]));
    *y = type;
    return GY_OK;
}

static gy_status max_pool_infer(const gy_attributes *attributes, const gy_type *inputs,
                                int input_count, gy_type *outputs)
{
    (void)input_count;
    return pooled_type("max_pool", attributes, &inputs[0], outputs);
}

static gy_status average_pool_infer(const gy_attributes *attributes, const gy_type *inputs,
                                    int input_count, gy_type *outputs)
{
    (void)input_count;
    return pooled_type("average_pool", attributes, &inputs[0], outputs);
}

static gy_status max_gradient_infer(const gy_attributes *attributes, const gy_type *inputs,
                                    int input_count, gy_type *outputs)
{
    (void)input_count;
    gy_type y;
    GY_TRY(pooled_type("max_pool_gradient", attributes, &inputs[0], &y));
    GY_TRY(gy_need_same_shape("max_pool_gradient", &y, &inputs[1]));
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

static gy_status pick_infer(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, gy_type *outputs)
{
    (void)input_count;
    GY_TRY(gy_need_same_shape("max_pool_pick", &inputs[0], &inputs[1]));
    return pooled_type("max_pool_pick", attributes, &inputs[0], outputs);
}

static gy_status average_gradient_infer(const gy_attributes *attributes, const gy_type *inputs,
                                        int input_count, gy_type *outputs)
{
    (void)input_count;
    gy_type x = gy_type_plain(inputs[0].dtype, 4), y;
    memcpy(x.sizes, attributes->pool.input_sizes, sizeof(attributes->pool.input_sizes));
    GY_TRY(pooled_type("average_pool_gradient", attributes, &x, &y));
    GY_TRY(gy_need_same_shape("average_pool_gradient", &y, &inputs[0]));
    *outputs = x;
    return GY_OK;
}

static void pool_bind(gy_attributes *attributes, int64_t batch)
{
    gy_bind_sizes(attributes->pool.input_sizes, 4, batch);
}

/* One operation an element of a window: of the output, or in gradients of the last input. */
static void pool_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                      const gy_type *outputs, gy_cost *cost)
{
    double window = (double)attributes->pool.window[0] * (double)attributes->pool.window[1];
    gy_cost_of(inputs, input_count, outputs, gy_type_elements(outputs) * window, cost);
}

static void pool_gradient_cost(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, const gy_type *outputs, gy_cost *cost)
{
    pool_cost(attributes, inputs, input_count, &inputs[input_count - 1], cost);
    cost->bytes_written = gy_type_elements(outputs) * (double)gy_dtype_bytes(outputs[0].dtype);
}

/* ---- plain definitions ---- */

/* Rows and columns [begin, end) of x that window (h, w) of `to` covers. */
typedef struct window {
    int64_t begin[2], end[2];
} window;

static window window_at(const gy_attributes *attributes, const int64_t *x_sizes,
                        const gy_ops_index *to)
{
    window seen;
    for (int axis = 0; axis < 2; axis++) {
        int64_t begin =
            to->at[2 + axis] * attributes->pool.stride[axis] - attributes->pool.pad[axis];
        seen.begin[axis] = GY_MAX(begin, 0);
        seen.end[axis] = GY_MIN(begin + attributes->pool.window[axis], x_sizes[2 + axis]);
    }
    return seen;
}

/* The first maximum in the window of `to`; a NaN counts as the maximum. */
static gy_ops_index first_maximum(const gy_attributes *attributes, const gy_view *x,
                                  const gy_ops_index *to)
{
    const window seen = window_at(attributes, x->sizes, to);
    gy_ops_index best = {{to->at[0], to->at[1], seen.begin[0], seen.begin[1]}};
    gy_ops_index at = best;
    for (at.at[2] = seen.begin[0]; at.at[2] < seen.end[0]; at.at[2]++) {
        for (at.at[3] = seen.begin[1]; at.at[3] < seen.end[1]; at.at[3]++) {
            double old = gy_real_at(x, &best, 4), next = gy_real_at(x, &at, 4);
            if (next > old || (isnan(next) && !isnan(old))) {
                best = at;
            }
        }
    }
    return best;
}

/* max_pool: x at its own maxima; max_pool_pick: the second input there. */
static gy_status pick_from(const gy_kernel_call *call, const gy_view *values)
{
    const gy_view *y = &call->outputs[0];
    gy_ops_index to = {{0}};
    bool is_more = gy_view_count(y) > 0;
    for (; is_more; is_more = gy_ops_index_next(&to, y->sizes, 4)) {
        gy_ops_index from = first_maximum(call->attributes, &call->inputs[0], &to);
        gy_real_put(y, &to, gy_real_at(values, &from, 4));
    }
    return GY_OK;
}

static gy_status max_pool_reference(const gy_kernel_call *call)
{
    return pick_from(call, &call->inputs[0]);
}

static gy_status pick_reference(const gy_kernel_call *call)
{
    return pick_from(call, &call->inputs[1]);
}

static gy_status max_gradient_reference(const gy_kernel_call *call)
{
    gy_view *dx = &call->outputs[0];
    const gy_view *dy = &call->inputs[1];
    gy_ops_index to = {{0}};
    gy_view_zero(dx);
    bool is_more = gy_view_count(dy) > 0;
    for (; is_more; is_more = gy_ops_index_next(&to, dy->sizes, 4)) {
        gy_ops_index from = first_maximum(call->attributes, &call->inputs[0], &to);
        gy_real_put(dx, &from, gy_real_at(dx, &from, 4) + gy_real_at(dy, &to, 4));
    }
    return GY_OK;
}

/* By how many elements a window's sum is divided. */
static double divisor(const gy_attributes *attributes, const window *seen)
{
    if (attributes->pool.count_pad) {
        return (double)attributes->pool.window[0] * (double)attributes->pool.window[1];
    }
    return (double)((seen->end[0] - seen->begin[0]) * (seen->end[1] - seen->begin[1]));
}

static gy_status average_pool_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0], *y = &call->outputs[0];
    gy_ops_index to = {{0}};
    bool is_more = gy_view_count(y) > 0;
    for (; is_more; is_more = gy_ops_index_next(&to, y->sizes, 4)) {
        const window seen = window_at(call->attributes, x->sizes, &to);
        gy_ops_index at = to;
        double sum = 0;
        for (at.at[2] = seen.begin[0]; at.at[2] < seen.end[0]; at.at[2]++) {
            for (at.at[3] = seen.begin[1]; at.at[3] < seen.end[1]; at.at[3]++) {
                sum += gy_real_at(x, &at, 4);
            }
        }
        gy_real_put(y, &to, sum / divisor(call->attributes, &seen));
    }
    return GY_OK;
}

static gy_status average_gradient_reference(const gy_kernel_call *call)
{
    gy_view *dx = &call->outputs[0];
    const gy_view *dy = &call->inputs[0];
    gy_ops_index to = {{0}};
    gy_view_zero(dx);
    bool is_more = gy_view_count(dy) > 0;
    for (; is_more; is_more = gy_ops_index_next(&to, dy->sizes, 4)) {
        const window seen = window_at(call->attributes, dx->sizes, &to);
        double share = gy_real_at(dy, &to, 4) / divisor(call->attributes, &seen);
        gy_ops_index at = to;
        for (at.at[2] = seen.begin[0]; at.at[2] < seen.end[0]; at.at[2]++) {
            for (at.at[3] = seen.begin[1]; at.at[3] < seen.end[1]; at.at[3]++) {
                gy_real_put(dx, &at, gy_real_at(dx, &at, 4) + share);
            }
        }
    }
    return GY_OK;
}

/* ---- gradients ---- */

/* One of the operators with this node's window; `like`: whose sizes the result has. */
static gy_value pool_build(gy_builder *builder, const gy_op *op, const gy_applied *node,
                           const gy_value *inputs, gy_value like)
{
    gy_attributes attributes = *node->attributes;
    memset(attributes.pool.input_sizes, 0, sizeof(attributes.pool.input_sizes));
    if (like.node >= 0) {
        memcpy(attributes.pool.input_sizes, builder->ops->type(builder, like)->sizes,
               sizeof(attributes.pool.input_sizes));
    }
    return gy_build(builder, op, &attributes, inputs, op->input_count);
}

static gy_status pull_max_pool(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                               gy_value *dx)
{
    const gy_value inputs[2] = {node->inputs[0], dy[0]};
    dx[0] = pool_build(builder, &gy_ops_row_max_pool_gradient, node, inputs, GY_NO_VALUE);
    return GY_OK;
}

/* Linear in dy; constant in x almost everywhere. */
static gy_status max_gradient_gradient(gy_builder *builder, const gy_applied *node,
                                       const gy_value *v, gy_value *dx)
{
    const gy_value inputs[2] = {node->inputs[0], v[0]};
    dx[0] = GY_NO_VALUE;
    dx[1] = pool_build(builder, &gy_ops_row_max_pool_pick, node, inputs, GY_NO_VALUE);
    return GY_OK;
}

static gy_status pick_gradient(gy_builder *builder, const gy_applied *node, const gy_value *v,
                               gy_value *dx)
{
    const gy_value inputs[2] = {node->inputs[0], v[0]};
    dx[0] = GY_NO_VALUE;
    dx[1] = pool_build(builder, &gy_ops_row_max_pool_gradient, node, inputs, GY_NO_VALUE);
    return GY_OK;
}

static gy_status pull_average_pool(gy_builder *builder, const gy_applied *node,
                                   const gy_value *dy, gy_value *dx)
{
    dx[0] = pool_build(builder, &gy_ops_row_average_pool_gradient, node, dy, node->inputs[0]);
    return GY_OK;
}

static gy_status average_gradient_gradient(gy_builder *builder, const gy_applied *node,
                                           const gy_value *v, gy_value *dx)
{
    dx[0] = pool_build(builder, &gy_ops_row_average_pool, node, v, GY_NO_VALUE);
    return GY_OK;
}

/* ---- placements: images and channels are independent ---- */

static int pool_placements(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)attributes;
    (void)inputs;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < 2; dim++) {
        gy_signature *signature = gy_signatures_add(&made);
        for (int i = 0; i < input_count; i++) {
            signature->inputs[i] = gy_shard(dim);
        }
        signature->outputs[0] = gy_shard(dim);
    }
    return made.count;
}

/* Linear in the last input as well. */
static int linear_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    gy_signatures made = {.list = signatures};
    made.count = pool_placements(attributes, inputs, input_count, outputs, signatures);
    gy_signatures_partial(&made, input_count - 1);
    return made.count;
}

/* ---- rows ---- */

#define TWO   .window = {2, 2}, .stride = {2, 2}, .pad = {0, 0}
#define THREE .window = {3, 2}, .stride = {2, 1}, .pad = {1, 1}

static const gy_ops_sample max_pool_samples[] = {
    {.attributes.pool = {TWO},
     .input_count = 1,
     .inputs = {GY_IN_DISTINCT(-1, 1, 3, 2, 4, 5)},
     .differentiable = 1},
    {.attributes.pool = {THREE},
     .input_count = 1,
     .inputs = {GY_IN_DISTINCT(-5, -1, 2, 1, 5, 3)},
     .differentiable = 1},
    {.attributes.pool = {TWO},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 0, 2, 4, 4)},
     .differentiable = 1},
};

static const gy_ops_sample max_gradient_samples[] = {
    {.attributes.pool = {TWO},
     .input_count = 2,
     .inputs = {GY_IN_DISTINCT(-1, 1, 3, 2, 4, 5), GY_IN(-1, 1, 3, 2, 2, 2)},
     .differentiable = 3},
    {.attributes.pool = {THREE},
     .input_count = 2,
     .inputs = {GY_IN_DISTINCT(-1, 1, 2, 1, 5, 3), GY_IN(-1, 1, 2, 1, 3, 4)},
     .differentiable = 3},
};

static const gy_ops_sample pick_samples[] = {
    {.attributes.pool = {TWO},
     .input_count = 2,
     .inputs = {GY_IN_DISTINCT(-1, 1, 3, 2, 4, 5), GY_IN(-1, 1, 3, 2, 4, 5)},
     .differentiable = 3},
    {.attributes.pool = {THREE},
     .input_count = 2,
     .inputs = {GY_IN_DISTINCT(-1, 1, 2, 1, 5, 3), GY_IN(-1, 1, 2, 1, 5, 3)},
     .differentiable = 3},
};

static const gy_ops_sample average_pool_samples[] = {
    {.attributes.pool = {TWO},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 2, 4, 5)},
     .differentiable = 1},
    {.attributes.pool = {THREE},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 2, 1, 5, 3)},
     .differentiable = 1},
    {.attributes.pool = {THREE, .count_pad = true},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 2, 1, 5, 3)},
     .differentiable = 1},
};

static const gy_ops_sample average_gradient_samples[] = {
    {.attributes.pool = {TWO, .input_sizes = {3, 2, 4, 5}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 2, 2, 2)},
     .differentiable = 1},
    {.attributes.pool = {THREE, .count_pad = true, .input_sizes = {2, 1, 5, 3}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 2, 1, 3, 4)},
     .differentiable = 1},
};

#define ROW(row_name, row_inputs, stem, row_cost, row_gradient, row_placements)                \
    const gy_op gy_ops_row_##row_name = {                                                      \
        .name = #row_name,                                                                     \
        .input_count = (row_inputs),                                                           \
        .output_count = 1,                                                                     \
        .infer = stem##_infer,                                                                 \
        .cost = (row_cost),                                                                    \
        .gradient = (row_gradient),                                                            \
        .placements = (row_placements),                                                        \
        .bind = pool_bind,                                                                     \
        .reference = stem##_reference,                                                         \
        GY_SAMPLES(stem##_samples),                                                            \
    }

ROW(max_pool, 1, max_pool, pool_cost, pull_max_pool, pool_placements);
ROW(max_pool_gradient, 2, max_gradient, pool_gradient_cost, max_gradient_gradient,
    linear_placements);
ROW(max_pool_pick, 2, pick, pool_cost, pick_gradient, linear_placements);
ROW(average_pool, 1, average_pool, pool_cost, pull_average_pool, linear_placements);
ROW(average_pool_gradient, 1, average_gradient, pool_gradient_cost, average_gradient_gradient,
    linear_placements);
