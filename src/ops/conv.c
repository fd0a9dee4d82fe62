/*
 * Two-dimensional convolution (correlation) with zero padding, and the two operators of its
 * gradient. The three are the partial derivatives of one trilinear form, sum of dy x w, so the
 * gradient of each is made of the other two.
 */
#include "ops/ops_priv.h"

#include <inttypes.h>
#include <string.h>

/* (input + 2 pad - window) / stride + 1 */
static gy_status window_count(const char *name, const gy_attributes *attributes, int axis,
                              const gy_type *x, const gy_type *w, int64_t *count)
{
    char texts[2][GY_TYPE_TEXT_BYTES];
    const int64_t stride = attributes->conv.stride[axis], pad = attributes->conv.pad[axis];
    const int64_t size = x->sizes[2 + axis], window = w->sizes[2 + axis];
    if (stride < 1 || pad < 0) {
        return gy_fail(GY_ARG,
                       "%s: stride %" PRId64 " and pad %" PRId64 ", expected at least 1 and 0",
                       name, stride, pad);
    }
    if (size < 0 || window < 1 || size + 2 * pad < window) {
        return gy_fail(GY_SHAPE,
                       "%s: filters %s do not fit images %s with pad %" PRId64 " (%" PRId64
                       " against %" PRId64 ")",
                       name, gy_type_text(w, texts[1]), gy_type_text(x, texts[0]), pad, window,
                       size + 2 * pad);
    }
    *count = (size + 2 * pad - window) / stride + 1;
    return GY_OK;
}

/* The type of conv2d(x, w); x (N,C,H,W), w (K,C,R,S). */
static gy_status conv_type(const char *name, const gy_attributes *attributes, const gy_type *x,
                           const gy_type *w, gy_type *y)
{
    char texts[2][GY_TYPE_TEXT_BYTES];
    if (x->rank != 4 || w->rank != 4 || x->sizes[1] != w->sizes[1]) {
        return gy_fail(GY_SHAPE,
                       "%s: images %s and filters %s, expected (N,C,H,W) and (K,C,R,S) with "
                       "the same C",
                       name, gy_type_text(x, texts[0]), gy_type_text(w, texts[1]));
    }
    gy_type type = gy_type_plain(x->dtype, 4);
    type.sizes[0] = x->sizes[0];
    type.sizes[1] = w->sizes[0];
    GY_TRY(window_count(name, attributes, 0, x, w, &type.sizes[2]));
    GY_TRY(window_count(name, attributes, 1, x, w, &type.sizes[3]));
    *y = type;
    return GY_OK;
}

static gy_status conv2d_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    const bool has_bias = attributes->conv.has_bias;
    char texts[2][GY_TYPE_TEXT_BYTES];
    if (input_count != (has_bias ? 3 : 2)) {
        return gy_fail(GY_ARG, "conv2d: %d inputs, expected %d", input_count, has_bias ? 3 : 2);
    }
    GY_TRY(gy_ops_need_operands("conv2d", inputs));
    gy_type result = inputs[0];
    result.dtype = gy_ops_product_dtype(&inputs[0]);
    if (has_bias) {
        GY_TRY(gy_need_same_dtype("conv2d", &result, &inputs[2]));
    }
    if (has_bias && (inputs[2].rank != 1 || inputs[1].rank != 4 ||
                     inputs[2].sizes[0] != inputs[1].sizes[0])) {
        return gy_fail(GY_SHAPE, "conv2d: bias %s does not fit filters %s",
                       gy_type_text(&inputs[2], texts[0]), gy_type_text(&inputs[1], texts[1]));
    }
    GY_TRY(conv_type("conv2d", attributes, &inputs[0], &inputs[1], outputs));
    outputs->dtype = result.dtype;
    return GY_OK;
}

/* A type of the sizes in the attributes. */
static gy_type result_type(const gy_attributes *attributes, gy_dtype dtype)
{
    gy_type type = gy_type_plain(dtype, 4);
    memcpy(type.sizes, attributes->conv.input_sizes, sizeof(attributes->conv.input_sizes));
    return type;
}

/* dy must have the type of conv2d(x, w). */
static gy_status check_result(const char *name, const gy_attributes *attributes,
                              const gy_type *x, const gy_type *w, const gy_type *dy)
{
    gy_type y;
    GY_TRY(conv_type(name, attributes, x, w, &y));
    return gy_need_same_shape(name, &y, dy);
}

static gy_status input_gradient_infer(const gy_attributes *attributes, const gy_type *inputs,
                                      int input_count, gy_type *outputs)
{
    (void)input_count;
    const gy_type x = result_type(attributes, inputs[0].dtype);
    GY_TRY(gy_ops_need_operands("conv2d_input_gradient", inputs));
    GY_TRY(check_result("conv2d_input_gradient", attributes, &x, &inputs[1], &inputs[0]));
    *outputs = x;
    outputs->dtype = gy_ops_product_dtype(&inputs[0]);
    return GY_OK;
}

static gy_status filter_gradient_infer(const gy_attributes *attributes, const gy_type *inputs,
                                       int input_count, gy_type *outputs)
{
    (void)input_count;
    const gy_type w = result_type(attributes, inputs[0].dtype);
    GY_TRY(gy_ops_need_operands("conv2d_filter_gradient", inputs));
    GY_TRY(check_result("conv2d_filter_gradient", attributes, &inputs[0], &w, &inputs[1]));
    *outputs = w;
    outputs->dtype = gy_ops_product_dtype(&inputs[0]);
    return GY_OK;
}

static void conv_bind(gy_attributes *attributes, int64_t batch)
{
    gy_bind_sizes(attributes->conv.input_sizes, 4, batch);
}

/* 2 N K C H' W' R S for each of the three, from x or dy and the filters' sizes. */
static void conv_flops(const gy_type *y, const int64_t *w, const gy_type *inputs,
                       int input_count, const gy_type *output, gy_cost *cost)
{
    double per_result = 2.0 * (double)w[1] * (double)w[2] * (double)w[3];
    gy_cost_of(inputs, input_count, output, gy_type_elements(y) * per_result, cost);
}

static void conv2d_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                        const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    conv_flops(&outputs[0], inputs[1].sizes, inputs, input_count, outputs, cost);
}

static void input_gradient_cost(const gy_attributes *attributes, const gy_type *inputs,
                                int input_count, const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    conv_flops(&inputs[0], inputs[1].sizes, inputs, input_count, outputs, cost);
}

static void filter_gradient_cost(const gy_attributes *attributes, const gy_type *inputs,
                                 int input_count, const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    conv_flops(&inputs[1], outputs[0].sizes, inputs, input_count, outputs, cost);
}

/* ---- plain definitions ---- */

/* The image place under filter place (c, r, s) at result place (n, k, h, w); false: padding. */
static bool image_place(const gy_attributes *attributes, const gy_view *x,
                        const gy_ops_index *y, const gy_ops_index *w, gy_ops_index *at)
{
    *at = (gy_ops_index){{y->at[0], w->at[1], 0, 0}};
    for (int axis = 0; axis < 2; axis++) {
        int64_t place = y->at[2 + axis] * attributes->conv.stride[axis] -
                        attributes->conv.pad[axis] + w->at[2 + axis];
        if (place < 0 || place >= x->sizes[2 + axis]) {
            return false;
        }
        at->at[2 + axis] = place;
    }
    return true;
}

static gy_status conv2d_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    gy_ops_index to = {{0}};
    if (gy_view_count(y) == 0) {
        return GY_OK;
    }
    do {
        double sum = call->attributes->conv.has_bias
                         ? gy_real_at(&call->inputs[2], &(gy_ops_index){{to.at[1]}}, 1)
                         : 0;
        const int64_t sizes[4] = {1, w->sizes[1], w->sizes[2], w->sizes[3]};
        gy_ops_index tap = {{0}}, from;
        bool is_more = gy_place_count(sizes, 4) > 0;
        for (; is_more; is_more = gy_ops_index_next(&tap, sizes, 4)) {
            gy_ops_index filter = tap;
            filter.at[0] = to.at[1];
            if (image_place(call->attributes, x, &to, &tap, &from)) {
                sum += gy_real_at(x, &from, 4) * gy_real_at(w, &filter, 4);
            }
        }
        bool is_cut = call->attributes->conv.activation == GY_ACTIVATION_RELU && sum < 0;
        gy_real_put(y, &to, is_cut ? 0 : sum);
    } while (gy_ops_index_next(&to, y->sizes, 4));
    return GY_OK;
}

/* Sum of dy w over everything that reads the image place `at`. */
static double image_slope(const gy_kernel_call *call, const gy_view *x, const gy_ops_index *at)
{
    const gy_view *dy = &call->inputs[0], *w = &call->inputs[1];
    const int64_t sizes[4] = {dy->sizes[1], 1, w->sizes[2], w->sizes[3]};
    gy_ops_index tap = {{0}};
    double sum = 0;
    bool is_more = gy_place_count(sizes, 4) > 0;
    for (; is_more; is_more = gy_ops_index_next(&tap, sizes, 4)) {
        gy_ops_index filter = {{tap.at[0], at->at[1], tap.at[2], tap.at[3]}};
        gy_ops_index result = {{at->at[0], tap.at[0], 0, 0}};
        bool is_read = true;
        for (int axis = 0; axis < 2; axis++) {
            int64_t stride = call->attributes->conv.stride[axis];
            int64_t start =
                at->at[2 + axis] + call->attributes->conv.pad[axis] - tap.at[2 + axis];
            is_read &=
                start >= 0 && start % stride == 0 && start / stride < dy->sizes[2 + axis];
            result.at[2 + axis] = start / stride;
        }
        GY_CHECK_DEEP(at->at[2] < x->sizes[2] && at->at[3] < x->sizes[3]);
        sum += is_read ? gy_real_at(dy, &result, 4) * gy_real_at(w, &filter, 4) : 0;
    }
    return sum;
}

static gy_status input_gradient_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->outputs[0];
    gy_ops_index at = {{0}};
    bool is_more = gy_view_count(x) > 0;
    for (; is_more; is_more = gy_ops_index_next(&at, x->sizes, 4)) {
        gy_real_put(x, &at, image_slope(call, x, &at));
    }
    return GY_OK;
}

static gy_status filter_gradient_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0], *dy = &call->inputs[1], *w = &call->outputs[0];
    const int64_t sizes[4] = {dy->sizes[0], 1, dy->sizes[2], dy->sizes[3]};
    gy_ops_index filter = {{0}};
    bool is_more = gy_view_count(w) > 0;
    for (; is_more; is_more = gy_ops_index_next(&filter, w->sizes, 4)) {
        double sum = 0;
        gy_ops_index result = {{0}}, from;
        bool is_next = gy_place_count(sizes, 4) > 0;
        for (; is_next; is_next = gy_ops_index_next(&result, sizes, 4)) {
            gy_ops_index slope = result;
            slope.at[1] = filter.at[0];
            if (image_place(call->attributes, x, &result, &filter, &from)) {
                sum += gy_real_at(x, &from, 4) * gy_real_at(dy, &slope, 4);
            }
        }
        gy_real_put(w, &filter, sum);
    }
    return GY_OK;
}

/* ---- gradients ---- */

/* One of the three operators, with the sizes of `like` where it needs them; operands and result
 * in the type of the node's operands. */
static gy_value conv_build(gy_builder *builder, const gy_op *op, const gy_applied *node,
                           gy_value a, gy_value b, gy_value like)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    memcpy(attributes.conv.stride, node->attributes->conv.stride,
           sizeof(attributes.conv.stride));
    memcpy(attributes.conv.pad, node->attributes->conv.pad, sizeof(attributes.conv.pad));
    if (op != &gy_ops_row_conv2d && like.node >= 0) {
        memcpy(attributes.conv.input_sizes, builder->ops->type(builder, like)->sizes,
               sizeof(attributes.conv.input_sizes));
    }
    const gy_value operand = node->inputs[0];
    const gy_value both[2] = {gy_ops_build_as(builder, a, operand),
                              gy_ops_build_as(builder, b, operand)};
    return gy_ops_build_as(builder, gy_build(builder, op, &attributes, both, 2), operand);
}

static gy_status conv2d_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    const gy_value x = node->inputs[0], w = node->inputs[1];
    if (node->attributes->conv.has_bias || node->attributes->conv.activation != 0) {
        return gy_fail(GY_UNSUPPORTED, "conv2d: the gradient is taken before bias and "
                                       "activation are fused in");
    }
    dx[0] = conv_build(builder, &gy_ops_row_conv2d_input_gradient, node, dy[0], w, x);
    dx[1] = conv_build(builder, &gy_ops_row_conv2d_filter_gradient, node, x, dy[0], w);
    return GY_OK;
}

/* Of (dy, w) -> x, by v: conv2d(v, w) and filter_gradient(v, dy). */
static gy_status input_gradient_gradient(gy_builder *builder, const gy_applied *node,
                                         const gy_value *v, gy_value *dx)
{
    const gy_value dy = node->inputs[0], w = node->inputs[1];
    dx[0] = conv_build(builder, &gy_ops_row_conv2d, node, v[0], w, GY_NO_VALUE);
    dx[1] = conv_build(builder, &gy_ops_row_conv2d_filter_gradient, node, v[0], dy, w);
    return GY_OK;
}

/* Of (x, dy) -> w, by v: input_gradient(dy, v) and conv2d(x, v). */
static gy_status filter_gradient_gradient(gy_builder *builder, const gy_applied *node,
                                          const gy_value *v, gy_value *dx)
{
    const gy_value x = node->inputs[0], dy = node->inputs[1];
    dx[0] = conv_build(builder, &gy_ops_row_conv2d_input_gradient, node, dy, v[0], x);
    dx[1] = conv_build(builder, &gy_ops_row_conv2d, node, x, v[0], GY_NO_VALUE);
    return GY_OK;
}

/* ---- placements ---- */

static void signature_of(gy_signatures *made, gy_placement a, gy_placement b, gy_placement out)
{
    gy_signature *signature = gy_signatures_add(made);
    signature->inputs[0] = a;
    signature->inputs[1] = b;
    signature->outputs[0] = out;
}

static const gy_placement whole = {.kind = GY_REPLICATE};

static int conv2d_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)inputs;
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    signature_of(&made, gy_shard(0), whole, gy_shard(0)); /* images */
    signature_of(&made, whole, gy_shard(0), gy_shard(1)); /* filters */
    if (attributes->conv.has_bias) {
        signatures[made.count - 1].inputs[2] = gy_shard(0);
    } else if (attributes->conv.activation == 0) {
        signature_of(&made, gy_shard(1), gy_shard(1), gy_partial(GY_SUM)); /* channels */
        gy_signatures_partial(&made, 0);
        gy_signatures_partial(&made, 1);
    }
    return made.count;
}

/* Both gradients: the operands' three signatures, and linear in each. */
#define GRADIENT_PLACEMENTS(name, ...)                                                         \
    static int name##_placements(const gy_attributes *attributes, const gy_type *inputs,       \
                                 int input_count, const gy_type *outputs,                      \
                                 gy_signature *signatures)                                     \
    {                                                                                          \
        (void)attributes;                                                                      \
        (void)inputs;                                                                          \
        (void)input_count;                                                                     \
        (void)outputs;                                                                         \
        gy_signatures made = {.list = signatures};                                             \
        const gy_placement three[3][3] = {__VA_ARGS__};                                        \
        for (int i = 0; i < 3; i++) {                                                          \
            signature_of(&made, three[i][0], three[i][1], three[i][2]);                        \
        }                                                                                      \
        gy_signatures_partial(&made, 0);                                                       \
        gy_signatures_partial(&made, 1);                                                       \
        return made.count;                                                                     \
    }
GRADIENT_PLACEMENTS(input_gradient, {gy_shard(0), whole, gy_shard(0)},
                    {whole, gy_shard(1), gy_shard(1)},
                    {gy_shard(1), gy_shard(0), gy_partial(GY_SUM)})
GRADIENT_PLACEMENTS(filter_gradient, {gy_shard(0), gy_shard(0), gy_partial(GY_SUM)},
                    {gy_shard(1), whole, gy_shard(1)}, {whole, gy_shard(1), gy_shard(0)})

/* ---- rows ---- */

#define PLAIN   .stride = {1, 1}, .pad = {0, 0}
#define STRIDED .stride = {2, 1}, .pad = {1, 2}

static const gy_ops_sample conv2d_samples[] = {
    {.attributes.conv = {PLAIN},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 2, 4, 5), GY_IN(-1, 1, 4, 2, 3, 2)},
     .differentiable = 3},
    {.attributes.conv = {STRIDED},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 1, 5, 3), GY_IN(-1, 1, 2, 1, 2, 3)},
     .differentiable = 3},
    {.attributes.conv = {PLAIN},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 1, 3, 2, 2), GY_IN(-1, 1, 2, 3, 1, 1)},
     .differentiable = 3},
    {.attributes.conv = {PLAIN},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 0, 1, 3, 3), GY_IN(-1, 1, 2, 1, 2, 2)},
     .differentiable = 3},
    {.attributes.conv = {STRIDED, .has_bias = true, .activation = GY_ACTIVATION_RELU},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 2, 2, 5, 3), GY_IN(-1, 1, 3, 2, 2, 3), GY_IN(-1, 1, 3)}},
};

static const gy_ops_sample input_gradient_samples[] = {
    {.attributes.conv = {PLAIN, .input_sizes = {3, 2, 4, 5}},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 4, 2, 4), GY_IN(-1, 1, 4, 2, 3, 2)},
     .differentiable = 3},
    {.attributes.conv = {STRIDED, .input_sizes = {2, 1, 5, 3}},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 2, 3, 5), GY_IN(-1, 1, 2, 1, 2, 3)},
     .differentiable = 3},
};

static const gy_ops_sample filter_gradient_samples[] = {
    {.attributes.conv = {PLAIN, .input_sizes = {4, 2, 3, 2}},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 2, 4, 5), GY_IN(-1, 1, 3, 4, 2, 4)},
     .differentiable = 3},
    {.attributes.conv = {STRIDED, .input_sizes = {2, 1, 2, 3}},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 1, 5, 3), GY_IN(-1, 1, 2, 2, 3, 5)},
     .differentiable = 3},
};

const gy_op gy_ops_row_conv2d = {
    .name = "conv2d",
    .input_count = -1,
    .output_count = 1,
    .infer = conv2d_infer,
    .cost = conv2d_cost,
    .gradient = conv2d_gradient,
    .placements = conv2d_placements,
    .bind = conv_bind,
    .reference = conv2d_reference,
    GY_SAMPLES(conv2d_samples),
};

const gy_op gy_ops_row_conv2d_input_gradient = {
    .name = "conv2d_input_gradient",
    .input_count = 2,
    .output_count = 1,
    .infer = input_gradient_infer,
    .cost = input_gradient_cost,
    .gradient = input_gradient_gradient,
    .placements = input_gradient_placements,
    .bind = conv_bind,
    .reference = input_gradient_reference,
    GY_SAMPLES(input_gradient_samples),
};

const gy_op gy_ops_row_conv2d_filter_gradient = {
    .name = "conv2d_filter_gradient",
    .input_count = 2,
    .output_count = 1,
    .infer = filter_gradient_infer,
    .cost = filter_gradient_cost,
    .gradient = filter_gradient_gradient,
    .placements = filter_gradient_placements,
    .bind = conv_bind,
    .reference = filter_gradient_reference,
    GY_SAMPLES(filter_gradient_samples),
};
