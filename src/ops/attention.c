/*
 * Scaled dot-product attention over heads, and its gradient.
 *
 * For each batch b and head h, with t a position of q and s one of k and v:
 *
 *     score[t,s] = scale q[t] . k[s]             s <= t + S - T alone where it is causal
 *     lse[t]     = log sum over s of exp(score[t,s])
 *     out[t]     = sum over s of exp(score[t,s] - lse[t]) v[s]
 *
 * lse is kept so that the gradient needs no scores of all heads at once: it makes the
 * probabilities p = exp(score - lse) again, a tile at a time. With dout the slope of out:
 *
 *     dv[s] = sum over t of p[t,s] dout[t]
 *     ds    = scale p (dout v' - sum over e of dout out)
 *     dq    = ds k, dk = ds' q
 *
 * q, k, v and dout of 16 bits give results of float32, in which out and lse are.
 *
 * The packed rows take q, k and v as the product that made them leaves them, head by head in
 * one value (B,T,H,3,d), and give its slope as one: nothing is copied apart and together again.
 *
 * @source Vaswani et al., "Attention is all you need", 2017; Dao et al., "FlashAttention", 2022
 */
#include "ops/ops_priv.h"

#include <math.h>
#include <string.h>

/* What the inputs are called in failures. */
static const char *const input_names[] = {"q", "k", "v", "out", "lse", "dout"};

/* The sizes of q (B,T,H,d), k (B,S,H,d), v (B,S,H,e). */
static gy_status check_heads(const char *name, const gy_attributes *attributes,
                             const gy_type *inputs)
{
    char texts[3][GY_TYPE_TEXT_BYTES];
    const int64_t *q = inputs[0].sizes, *k = inputs[1].sizes, *v = inputs[2].sizes;
    GY_TRY(gy_ops_need_operands(name, inputs));
    GY_TRY(gy_need_same_dtype(name, &inputs[0], &inputs[2]));
    bool fits = inputs[0].rank == 4 && inputs[1].rank == 4 && inputs[2].rank == 4;
    fits = fits && q[0] == k[0] && q[0] == v[0] && q[2] == k[2] && q[2] == v[2];
    if (!fits || k[1] != v[1] || q[3] != k[3] || k[1] == 0) {
        return gy_fail(GY_SHAPE,
                       "%s: q %s, k %s and v %s, expected (B,T,H,d), (B,S,H,d) and (B,S,H,e), "
                       "S at least 1",
                       name, gy_type_text(&inputs[0], texts[0]),
                       gy_type_text(&inputs[1], texts[1]), gy_type_text(&inputs[2], texts[2]));
    }
    const bool is_known = q[1] >= 0 && k[1] >= 0;
    if (attributes->attention.is_causal && (is_known ? q[1] > k[1] : q[1] != k[1])) {
        return gy_fail(
            GY_SHAPE, "%s: causal, with q %s and k %s: the first positions would see nothing",
            name, gy_type_text(&inputs[0], texts[0]), gy_type_text(&inputs[1], texts[1]));
    }
    if (!(attributes->attention.scale >= 0) || isinf(attributes->attention.scale)) {
        return gy_fail(GY_ARG, "%s: scale %g, expected 0 (1/sqrt(d)) or more", name,
                       attributes->attention.scale);
    }
    return GY_OK;
}

static gy_type out_type(const gy_type *inputs)
{
    gy_type type = gy_type_like(&inputs[0]);
    type.dtype = gy_ops_product_dtype(&inputs[0]);
    type.sizes[3] = inputs[2].sizes[3];
    return type;
}

/* (B,H,T) */
static gy_type lse_type(const gy_type *inputs)
{
    gy_type type = gy_type_plain(gy_ops_product_dtype(&inputs[0]), 3);
    type.sizes[0] = inputs[0].sizes[0];
    type.sizes[1] = inputs[0].sizes[2];
    type.sizes[2] = inputs[0].sizes[1];
    return type;
}

static gy_status attention_infer(const gy_attributes *attributes, const gy_type *inputs,
                                 int input_count, gy_type *outputs)
{
    (void)input_count;
    GY_TRY(check_heads("attention", attributes, inputs));
    outputs[0] = out_type(inputs);
    outputs[1] = lse_type(inputs);
    return GY_OK;
}

static gy_status slope_infer(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, gy_type *outputs)
{
    (void)input_count;
    char texts[2][GY_TYPE_TEXT_BYTES];
    GY_TRY(check_heads("attention_gradient", attributes, inputs));
    gy_type expected[3] = {out_type(inputs), lse_type(inputs), out_type(inputs)};
    expected[2].dtype = inputs[0].dtype; /* an operand of products, as q, k and v are */
    for (int i = 3; i < 6; i++) {
        if (!gy_type_is_same_shape(&inputs[i], &expected[i - 3])) {
            return gy_fail(GY_SHAPE, "attention_gradient: %s is %s, expected %s",
                           input_names[i], gy_type_text(&inputs[i], texts[0]),
                           gy_type_text(&expected[i - 3], texts[1]));
        }
        outputs[i - 3] = gy_type_like(&inputs[i - 3]);
        outputs[i - 3].dtype = gy_ops_product_dtype(&inputs[0]);
    }
    return GY_OK;
}

/* Products of `count` tall matrices: those that a causal mask leaves, half of them where T is
 * S. */
static void products_cost(const gy_attributes *attributes, const gy_type *inputs,
                          double per_score, gy_cost *cost)
{
    const gy_type heads = {
        .rank = 3, .sizes = {inputs[0].sizes[0], inputs[0].sizes[2], inputs[0].sizes[1]}};
    const gy_type keys = {.rank = 1, .sizes = {inputs[1].sizes[1]}};
    const double rows = gy_type_elements(&heads), visible = gy_type_elements(&keys);
    const gy_type queries = {.rank = 1, .sizes = {inputs[0].sizes[1]}};
    const double cut = attributes->attention.is_causal ? gy_type_elements(&queries) / 2 : 0;
    cost->flops = rows * (visible - cut) * per_score;
}

static void attention_cost(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, const gy_type *outputs, gy_cost *cost)
{
    const double d = (double)inputs[0].sizes[3], e = (double)inputs[2].sizes[3];
    gy_cost_of(inputs, input_count, &outputs[0], 0, cost);
    products_cost(attributes, inputs, 2 * (d + e) + 4, cost);
}

static void slope_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                       const gy_type *outputs, gy_cost *cost)
{
    const double d = (double)inputs[0].sizes[3], e = (double)inputs[2].sizes[3];
    gy_cost_of(inputs, input_count, &outputs[0], 0, cost);
    cost->bytes_written *= 3;
    products_cost(attributes, inputs, 2 * (3 * d + 2 * e) + 6, cost);
}

/* ---- the plain definitions ---- */

static double scale_of(const gy_attributes *attributes, int64_t width)
{
    return attributes->attention.scale > 0 ? attributes->attention.scale
                                           : 1 / sqrt((double)GY_MAX(width, (int64_t)1));
}

/* One (b,h): positions are inserted between. */
typedef struct head {
    const gy_kernel_call *call;
    int64_t b, h;
} head;

static bool is_packed(const gy_kernel_call *call)
{
    return call->inputs[0].rank == 5;
}

/* Input number `input` of the row that is not packed. */
static const gy_view *input_of(const gy_kernel_call *call, int input)
{
    return &call->inputs[!is_packed(call) ? input : input < 3 ? 0 : input - 2];
}

static int64_t width_of(const gy_kernel_call *call, int input)
{
    const gy_view *view = input_of(call, input);
    return view->sizes[view->rank - 1];
}

/* Element i of a position of q, k or v (`part` 0 to 2), or of a value (B,T,H,…). */
static gy_ops_index index4(const head *of, const gy_view *view, int part, int64_t position,
                           int64_t i)
{
    return view->rank == 5 ? (gy_ops_index){{of->b, position, of->h, part, i}}
                           : (gy_ops_index){{of->b, position, of->h, i}};
}

static double at4(const head *of, int input, int64_t position, int64_t i)
{
    const gy_view *view = input_of(of->call, input);
    const gy_ops_index at = index4(of, view, input, position, i);
    return gy_real_at(view, &at, view->rank);
}

static void add4(const head *of, int output, int64_t position, int64_t i, double value)
{
    const gy_view *view = &of->call->outputs[is_packed(of->call) ? 0 : output];
    const gy_ops_index at = index4(of, view, output, position, i);
    gy_real_put(view, &at, gy_real_at(view, &at, view->rank) + value);
}

/* Product over the last dimension of position t of one input and s of another. */
static double dot(const head *of, int a, int64_t t, int b, int64_t s)
{
    double sum = 0;
    for (int64_t i = 0; i < width_of(of->call, a); i++) {
        sum += at4(of, a, t, i) * at4(of, b, s, i);
    }
    return sum;
}

/* How many keys position t of q sees. */
static int64_t seen(const gy_kernel_call *call, int64_t t)
{
    const int64_t queries = input_of(call, 0)->sizes[1], keys = input_of(call, 1)->sizes[1];
    return call->attributes->attention.is_causal ? t + keys - queries + 1 : keys;
}

static double score(const head *of, int64_t t, int64_t s)
{
    return scale_of(of->call->attributes, width_of(of->call, 0)) * dot(of, 0, t, 1, s);
}

static void attend(const head *of, int64_t t)
{
    const int64_t count = seen(of->call, t), width = width_of(of->call, 2);
    double maximum = -INFINITY, sum = 0;
    for (int64_t s = 0; s < count; s++) {
        maximum = fmax(maximum, score(of, t, s));
    }
    for (int64_t s = 0; s < count; s++) {
        sum += exp(score(of, t, s) - maximum);
    }
    const gy_ops_index at = {{of->b, of->h, t}};
    gy_real_put(&of->call->outputs[1], &at, maximum + log(sum));
    for (int64_t i = 0; i < width; i++) {
        double mean = 0;
        for (int64_t s = 0; s < count; s++) {
            mean += exp(score(of, t, s) - maximum) / sum * at4(of, 2, s, i);
        }
        const gy_ops_index to = {{of->b, t, of->h, i}};
        gy_real_put(&of->call->outputs[0], &to, mean);
    }
}

static void attend_back(const head *of, int64_t t)
{
    enum { Q, K, V, OUT, LSE, DOUT };
    const gy_kernel_call *call = of->call;
    const int64_t d = width_of(call, Q), e = width_of(call, V);
    const gy_ops_index at = {{of->b, of->h, t}};
    const double lse = gy_real_at(input_of(call, LSE), &at, 3), mean = dot(of, DOUT, t, OUT, t);
    for (int64_t s = 0; s < seen(call, t); s++) {
        const double p = exp(score(of, t, s) - lse);
        const double ds = scale_of(call->attributes, d) * p * (dot(of, DOUT, t, V, s) - mean);
        for (int64_t i = 0; i < d; i++) {
            add4(of, 0, t, i, ds * at4(of, K, s, i));
            add4(of, 1, s, i, ds * at4(of, Q, t, i));
        }
        for (int64_t i = 0; i < e; i++) {
            add4(of, 2, s, i, p * at4(of, DOUT, t, i));
        }
    }
}

static void each_query(const gy_kernel_call *call, void (*fn)(const head *of, int64_t t))
{
    const int64_t *q = call->inputs[0].sizes;
    for (int64_t b = 0; b < q[0]; b++) {
        for (int64_t h = 0; h < q[2]; h++) {
            for (int64_t t = 0; t < q[1]; t++) {
                fn(&(head){call, b, h}, t);
            }
        }
    }
}

static gy_status attention_reference(const gy_kernel_call *call)
{
    each_query(call, attend);
    return GY_OK;
}

static gy_status slope_reference(const gy_kernel_call *call)
{
    for (int k = 0; k < call->output_count; k++) {
        gy_view_zero(&call->outputs[k]);
    }
    each_query(call, attend_back);
    return GY_OK;
}

/* ---- from other rows: all scores at once ---- */

/* Operands of 16 bits in float32, in which their products are exact. */
static gy_value swap_heads(gy_builder *builder, gy_value value)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    const gy_type *type = value.node < 0 ? NULL : builder->ops->type(builder, value);
    if (type != NULL && gy_ops_product_dtype(type) != type->dtype) {
        attributes.cast.dtype = gy_ops_product_dtype(type);
        value = gy_build(builder, &gy_ops_row_cast, &attributes, &value, 1);
        memset(&attributes, 0, sizeof(attributes));
    }
    memcpy(attributes.permute.dims, (const int32_t[]){0, 2, 1, 3}, 4 * sizeof(int32_t));
    return gy_build(builder, &gy_ops_row_transpose, &attributes, &value, 1);
}

static gy_value product(gy_builder *builder, gy_value a, bool transpose_a, gy_value b,
                        bool transpose_b)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.matmul.transpose_a = transpose_a;
    attributes.matmul.transpose_b = transpose_b;
    return gy_build(builder, &gy_ops_row_matmul, &attributes, (gy_value[]){a, b}, 2);
}

/* 1, 2, 3, … as (count,1) or (1,count). */
static gy_value positions(gy_builder *builder, gy_value like, int64_t count, bool is_column)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.shape.dtype = builder->ops->type(builder, like)->dtype;
    attributes.shape.rank = 2;
    attributes.shape.sizes[0] = is_column ? count : 1;
    attributes.shape.sizes[1] = is_column ? 1 : count;
    attributes.shape.value = 1;
    gy_value ones = gy_build(builder, &gy_ops_row_fill, &attributes, NULL, 0);
    memset(&attributes, 0, sizeof(attributes));
    attributes.axis.dim = is_column ? 0 : 1;
    return gy_build(builder, &gy_ops_row_cumsum, &attributes, &ones, 1);
}

/* What exp makes 0 of, and no infinity, so that nothing becomes NaN. */
static const double unseen = -1e30;

/* (T,S), whether the position of q sees that of k; none: all are seen. */
static gy_value seen_by(gy_builder *builder, const gy_applied *node, gy_value like)
{
    const int64_t queries = builder->ops->type(builder, node->inputs[0])->sizes[1];
    const int64_t keys = builder->ops->type(builder, node->inputs[1])->sizes[1];
    if (!node->attributes->attention.is_causal) {
        return GY_NO_VALUE;
    }
    gy_value last = positions(builder, like, queries, true);
    const double shift = queries == keys ? 0 : (double)(keys - queries);
    last =
        gy_build2(builder, &gy_ops_row_add, last, gy_build_scalar_like(builder, like, shift));
    return gy_build2(builder, &gy_ops_row_less_equal, positions(builder, like, keys, false),
                     last);
}

/* `value` (B,H,T,S) where it is seen, else `other`. */
static gy_value where_seen(gy_builder *builder, const gy_applied *node, gy_value value,
                           double other)
{
    gy_value is_seen = seen_by(builder, node, value);
    return is_seen.node < 0 ? value
                            : gy_build3(builder, &gy_ops_row_select, is_seen, value,
                                        gy_build_scalar_like(builder, value, other));
}

/* (B,H,T,S), those that are not seen at `unseen`. */
static gy_value all_scores(gy_builder *builder, const gy_applied *node, gy_value q, gy_value k)
{
    const int64_t width = builder->ops->type(builder, node->inputs[0])->sizes[3];
    gy_value scale = gy_build_scalar_like(builder, q, scale_of(node->attributes, width));
    gy_value scores =
        gy_build2(builder, &gy_ops_row_mul, product(builder, q, false, k, true), scale);
    return where_seen(builder, node, scores, unseen);
}

static gy_status attention_expand(gy_builder *builder, const gy_applied *node,
                                  gy_value *outputs)
{
    gy_value q = swap_heads(builder, node->inputs[0]);
    gy_value k = swap_heads(builder, node->inputs[1]);
    gy_value v = swap_heads(builder, node->inputs[2]);
    gy_value scores = all_scores(builder, node, q, k);
    gy_value maximum = gy_build_reduce(builder, &gy_ops_row_max, scores, 8, true);
    gy_value powers = gy_build1(builder, &gy_ops_row_exp,
                                gy_build2(builder, &gy_ops_row_sub, scores, maximum));
    gy_value sum = gy_build_reduce(builder, &gy_ops_row_sum, powers, 8, true);
    gy_value chance = gy_build2(builder, &gy_ops_row_div, powers, sum);
    outputs[0] = swap_heads(builder, product(builder, chance, false, v, false));
    gy_value lse =
        gy_build2(builder, &gy_ops_row_add, maximum, gy_build1(builder, &gy_ops_row_log, sum));
    outputs[1] = gy_build_reduce(builder, &gy_ops_row_sum, lse, 8, false);
    return GY_OK;
}

/* A value (B,H,T) as (B,H,T,1). */
static gy_value as_column(gy_builder *builder, gy_value value)
{
    gy_type type = *builder->ops->type(builder, value);
    type.sizes[type.rank] = 1;
    return gy_build_reshape(builder, value, type.sizes, type.rank + 1);
}

static gy_status slope_expand(gy_builder *builder, const gy_applied *node, gy_value *outputs)
{
    gy_value q = swap_heads(builder, node->inputs[0]);
    gy_value k = swap_heads(builder, node->inputs[1]);
    gy_value v = swap_heads(builder, node->inputs[2]);
    gy_value out = swap_heads(builder, node->inputs[3]);
    gy_value dout = swap_heads(builder, node->inputs[5]);
    gy_value scores = all_scores(builder, node, q, k);
    gy_value lse = as_column(builder, node->inputs[4]);
    gy_value chance =
        gy_build1(builder, &gy_ops_row_exp, gy_build2(builder, &gy_ops_row_sub, scores, lse));
    gy_value mean = gy_build_reduce(builder, &gy_ops_row_sum,
                                    gy_build2(builder, &gy_ops_row_mul, dout, out), 8, true);
    gy_value slope =
        gy_build2(builder, &gy_ops_row_sub, product(builder, dout, false, v, true), mean);
    const int64_t width = builder->ops->type(builder, q)->sizes[3];
    gy_value scale = gy_build_scalar_like(builder, q, scale_of(node->attributes, width));
    /* The slope of what is not seen may overflow: 0 times infinity is no number. */
    gy_value ds =
        where_seen(builder, node, gy_build2(builder, &gy_ops_row_mul, chance, slope), 0);
    ds = gy_build2(builder, &gy_ops_row_mul, scale, ds);
    outputs[0] = swap_heads(builder, product(builder, ds, false, k, false));
    outputs[1] = swap_heads(builder, product(builder, ds, true, q, false));
    outputs[2] = swap_heads(builder, product(builder, chance, true, dout, false));
    return GY_OK;
}

/* The slope of lse comes from second derivatives alone. */
static gy_status attention_gradient(gy_builder *builder, const gy_applied *node,
                                    const gy_value *dy, gy_value *dx)
{
    if (dy[0].node < 0 || dy[1].node >= 0) {
        return gy_ops_expanded_gradient(builder, &gy_ops_row_attention, node, dy, dx);
    }
    const gy_value q = node->inputs[0];
    const gy_value inputs[6] = {q,
                                node->inputs[1],
                                node->inputs[2],
                                node->outputs[0],
                                node->outputs[1],
                                gy_ops_build_as(builder, dy[0], q)};
    gy_value slopes =
        gy_build(builder, &gy_ops_row_attention_gradient, node->attributes, inputs, 6);
    for (int k = 0; k < 3; k++) {
        const gy_value slope = {slopes.node, slopes.output + k};
        dx[k] = slopes.node < 0 ? GY_NO_VALUE : gy_ops_build_as(builder, slope, q);
    }
    return GY_OK;
}

static gy_status slope_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                                gy_value *dx)
{
    return gy_ops_expanded_gradient(builder, &gy_ops_row_attention_gradient, node, dy, dx);
}

/* ---- placements: batches and heads are independent ---- */

/* Everything cut by batch (`dim` 0) or by heads (2; 1 of lse, which alone has rank 3). */
static void cut_signature(gy_signatures *made, int dim, const gy_type *inputs, int input_count,
                          const gy_type *outputs, int output_count)
{
    gy_signature *signature = gy_signatures_add(made);
    for (int i = 0; i < input_count; i++) {
        signature->inputs[i] = gy_shard(inputs[i].rank == 3 ? dim / 2 : dim);
    }
    for (int i = 0; i < output_count; i++) {
        signature->outputs[i] = gy_shard(outputs[i].rank == 3 ? dim / 2 : dim);
    }
}

static int attention_placements(const gy_attributes *attributes, const gy_type *inputs,
                                int input_count, const gy_type *outputs,
                                gy_signature *signatures)
{
    (void)attributes;
    gy_signatures made = {.list = signatures};
    /* Forward out and lse; back the slope of each input, packed of one. */
    const int output_count = input_count == 3 || input_count == 1 ? 2
                             : input_count == 6                   ? 3
                                                                  : 1;
    for (int dim = 0; dim <= 2; dim += 2) {
        cut_signature(&made, dim, inputs, input_count, outputs, output_count);
    }
    return made.count;
}

static const gy_ops_sample attention_samples[] = {
    {.input_count = 3,
     .inputs = {GY_IN(-1, 1, 1, 2, 2, 2), GY_IN(-1, 1, 1, 3, 2, 2), GY_IN(-1, 1, 1, 3, 2, 1)},
     .differentiable = 7},
    {.attributes.attention = {.is_causal = true},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 2, 3, 1, 2), GY_IN(-1, 1, 2, 3, 1, 2), GY_IN(-1, 1, 2, 3, 1, 2)},
     .differentiable = 7},
    {.attributes.attention = {.is_causal = true, .scale = 2},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 1, 2, 1, 3), GY_IN(-1, 1, 1, 4, 1, 3), GY_IN(-1, 1, 1, 4, 1, 2)},
     .differentiable = 7},
    {.attributes.attention = {.scale = 1},
     .input_count = 3,
     .inputs = {GY_IN(-30, 30, 1, 2, 1, 3), GY_IN(-30, 30, 1, 3, 1, 3),
                GY_IN(0, 1, 1, 3, 1, 2)}},
};

static const gy_ops_sample slope_samples[] = {
    {.input_count = 6,
     .inputs = {GY_IN(-1, 1, 1, 2, 2, 2), GY_IN(-1, 1, 1, 3, 2, 2), GY_IN(-1, 1, 1, 3, 2, 1),
                GY_IN(-1, 1, 1, 2, 2, 1), GY_IN(0, 1, 1, 2, 2), GY_IN(-1, 1, 1, 2, 2, 1)},
     .differentiable = 63},
    {.attributes.attention = {.is_causal = true, .scale = 0.7},
     .input_count = 6,
     .inputs = {GY_IN(-1, 1, 2, 2, 1, 1), GY_IN(-1, 1, 2, 3, 1, 1), GY_IN(-1, 1, 2, 3, 1, 2),
                GY_IN(-1, 1, 2, 2, 1, 2), GY_IN(0, 1, 2, 1, 2), GY_IN(-1, 1, 2, 2, 1, 2)},
     .differentiable = 63},
};

const gy_op gy_ops_row_attention = {
    .name = "attention",
    .input_count = 3,
    .output_count = 2,
    .infer = attention_infer,
    .cost = attention_cost,
    .gradient = attention_gradient,
    .expand = attention_expand,
    .placements = attention_placements,
    .reference = attention_reference,
    GY_SAMPLES(attention_samples),
};

const gy_op gy_ops_row_attention_gradient = {
    .name = "attention_gradient",
    .input_count = 6,
    .output_count = 3,
    .infer = slope_infer,
    .cost = slope_cost,
    .gradient = slope_gradient,
    .expand = slope_expand,
    .placements = attention_placements,
    .reference = slope_reference,
    GY_SAMPLES(slope_samples),
};

/* ---- packed: q, k and v in one value ---- */

/* The types of q, k and v, each (B,T,H,d). */
static gy_status packed_types(const char *name, const gy_type *qkv, gy_type parts[3])
{
    char text[GY_TYPE_TEXT_BYTES];
    if (qkv->rank != 5 || qkv->sizes[3] != 3) {
        return gy_fail(GY_SHAPE, "%s: qkv %s, expected (B,T,H,3,d)", name,
                       gy_type_text(qkv, text));
    }
    for (int k = 0; k < 3; k++) {
        parts[k] = gy_type_like(qkv);
        parts[k].rank = 4;
        parts[k].sizes[3] = qkv->sizes[4];
        parts[k].sizes[4] = 0;
    }
    return GY_OK;
}

static gy_status packed_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    (void)input_count;
    gy_type parts[3];
    GY_TRY(packed_types("attention_packed", inputs, parts));
    return attention_infer(attributes, parts, 3, outputs);
}

static gy_status packed_slope_infer(const gy_attributes *attributes, const gy_type *inputs,
                                    int input_count, gy_type *outputs)
{
    gy_type all[6], slopes[3];
    (void)input_count;
    GY_TRY(packed_types("attention_packed_gradient", inputs, all));
    memcpy(all + 3, inputs + 1, 3 * sizeof(gy_type));
    GY_TRY(slope_infer(attributes, all, 6, slopes));
    outputs[0] = gy_type_like(&inputs[0]);
    outputs[0].dtype = gy_ops_product_dtype(&inputs[0]);
    return GY_OK;
}

static void packed_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                        const gy_type *outputs, gy_cost *cost)
{
    gy_type parts[3];
    const bool is_forward = input_count == 1;
    const double d = (double)inputs[0].sizes[4];
    gy_cost_of(inputs, input_count, &outputs[0], 0, cost);
    if (packed_types("attention_packed", inputs, parts) == GY_OK) {
        products_cost(attributes, parts, is_forward ? 4 * d + 4 : 10 * d + 6, cost);
    }
}

/* q, k and v (B,T,H,d) of qkv. */
static void take_apart(gy_builder *builder, gy_value qkv, gy_value parts[3])
{
    const gy_type type = *builder->ops->type(builder, qkv);
    const int64_t sizes[4] = {type.sizes[0], type.sizes[1], type.sizes[2], type.sizes[4]};
    for (int k = 0; k < 3; k++) {
        gy_attributes attributes;
        memset(&attributes, 0, sizeof(attributes));
        attributes.slice.dim = 3;
        attributes.slice.begin = k;
        attributes.slice.end = k + 1;
        attributes.slice.step = 1;
        parts[k] = gy_build(builder, &gy_ops_row_slice, &attributes, &qkv, 1);
        parts[k] = gy_build_reshape(builder, parts[k], sizes, 4);
    }
}

static gy_status packed_expand(gy_builder *builder, const gy_applied *node, gy_value *outputs)
{
    gy_value parts[3];
    take_apart(builder, node->inputs[0], parts);
    const gy_applied plain = {.attributes = node->attributes,
                              .inputs = parts,
                              .input_count = 3,
                              .outputs = node->outputs};
    return attention_expand(builder, &plain, outputs);
}

static gy_status packed_slope_expand(gy_builder *builder, const gy_applied *node,
                                     gy_value *outputs)
{
    gy_value inputs[6], slopes[3];
    take_apart(builder, node->inputs[0], inputs);
    memcpy(inputs + 3, node->inputs + 1, 3 * sizeof(gy_value));
    const gy_applied plain = {.attributes = node->attributes,
                              .inputs = inputs,
                              .input_count = 6,
                              .outputs = node->outputs};
    GY_TRY(slope_expand(builder, &plain, slopes));
    for (int k = 0; k < 3; k++) {
        gy_type type = *builder->ops->type(builder, slopes[k]);
        const int64_t sizes[5] = {type.sizes[0], type.sizes[1], type.sizes[2], 1,
                                  type.sizes[3]};
        slopes[k] = gy_build_reshape(builder, slopes[k], sizes, 5);
    }
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.axis.dim = 3;
    outputs[0] = gy_build(builder, &gy_ops_row_concat, &attributes, slopes, 3);
    return GY_OK;
}

static gy_status packed_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    if (dy[0].node < 0 || dy[1].node >= 0) {
        return gy_ops_expanded_gradient(builder, &gy_ops_row_attention_packed, node, dy, dx);
    }
    const gy_value qkv = node->inputs[0];
    const gy_value inputs[4] = {qkv, node->outputs[0], node->outputs[1],
                                gy_ops_build_as(builder, dy[0], qkv)};
    const gy_value slope =
        gy_build(builder, &gy_ops_row_attention_packed_gradient, node->attributes, inputs, 4);
    dx[0] = gy_ops_build_as(builder, slope, qkv);
    return GY_OK;
}

static gy_status packed_slope_gradient(gy_builder *builder, const gy_applied *node,
                                       const gy_value *dy, gy_value *dx)
{
    return gy_ops_expanded_gradient(builder, &gy_ops_row_attention_packed_gradient, node, dy,
                                    dx);
}

static const gy_ops_sample packed_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(-1, 1, 1, 2, 2, 3, 2)}, .differentiable = 1},
    {.attributes.attention = {.is_causal = true, .scale = 2},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 2, 3, 1, 3, 2)},
     .differentiable = 1},
};

static const gy_ops_sample packed_slope_samples[] = {
    {.input_count = 4,
     .inputs = {GY_IN(-1, 1, 1, 2, 2, 3, 2), GY_IN(-1, 1, 1, 2, 2, 2), GY_IN(0, 1, 1, 2, 2),
                GY_IN(-1, 1, 1, 2, 2, 2)},
     .differentiable = 15},
    {.attributes.attention = {.is_causal = true, .scale = 0.7},
     .input_count = 4,
     .inputs = {GY_IN(-1, 1, 2, 3, 1, 3, 1), GY_IN(-1, 1, 2, 3, 1, 1), GY_IN(0, 1, 2, 1, 3),
                GY_IN(-1, 1, 2, 3, 1, 1)},
     .differentiable = 15},
};

const gy_op gy_ops_row_attention_packed = {
    .name = "attention_packed",
    .input_count = 1,
    .output_count = 2,
    .infer = packed_infer,
    .cost = packed_cost,
    .gradient = packed_gradient,
    .expand = packed_expand,
    .placements = attention_placements,
    .reference = attention_reference,
    GY_SAMPLES(packed_samples),
};

const gy_op gy_ops_row_attention_packed_gradient = {
    .name = "attention_packed_gradient",
    .input_count = 4,
    .output_count = 1,
    .infer = packed_slope_infer,
    .cost = packed_cost,
    .gradient = packed_slope_gradient,
    .expand = packed_slope_expand,
    .placements = attention_placements,
    .reference = slope_reference,
    GY_SAMPLES(packed_slope_samples),
};
