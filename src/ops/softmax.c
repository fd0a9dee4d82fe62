/*
 * Along one dimension: softmax, log-softmax, running sums, one-hot, and the cross entropy of
 * logits against labels. All subtract the maximum first, so that large logits do not overflow.
 *
 * Where the dimension itself is cut, expansions do the work on the parts: a maximum and a sum
 * over the ranks for each line, and the logit of the label from the rank that has it, so that
 * the lines are never gathered (Shoeybi et al., "Megatron-LM", 2019).
 */
#include "ops/ops_priv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- softmax and log-softmax ---- */

static gy_status along_infer(const char *name, const gy_attributes *attributes,
                             const gy_type *inputs, gy_type *outputs)
{
    char text[GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_need_real(name, inputs, 0));
    if (attributes->axis.dim < 0 || attributes->axis.dim >= inputs[0].rank) {
        return gy_fail(GY_SHAPE, "%s: dimension %d of %s, which has %d", name,
                       attributes->axis.dim, gy_type_text(&inputs[0], text), inputs[0].rank);
    }
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

static gy_status softmax_infer(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, gy_type *outputs)
{
    (void)input_count;
    return along_infer("softmax", attributes, inputs, outputs);
}

static gy_status log_softmax_infer(const gy_attributes *attributes, const gy_type *inputs,
                                   int input_count, gy_type *outputs)
{
    (void)input_count;
    return along_infer("log_softmax", attributes, inputs, outputs);
}

static void softmax_cost(const gy_attributes *attributes, const gy_type *inputs,
                         int input_count, const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    gy_cost_of(inputs, input_count, outputs, 4 * gy_type_elements(&inputs[0]), cost);
}

/* The maximum along `dim` through `at`, and the sum of exp(x - maximum). */
static double line_sum(const gy_view *x, gy_ops_index at, int dim, double *maximum)
{
    *maximum = -INFINITY;
    for (at.at[dim] = 0; at.at[dim] < x->sizes[dim]; at.at[dim]++) {
        *maximum = fmax(*maximum, gy_real_at(x, &at, x->rank));
    }
    double sum = 0;
    for (at.at[dim] = 0; at.at[dim] < x->sizes[dim]; at.at[dim]++) {
        sum += exp(gy_real_at(x, &at, x->rank) - *maximum);
    }
    return sum;
}

static gy_status along(const gy_kernel_call *call, bool is_log)
{
    const gy_view *x = &call->inputs[0];
    const int dim = call->attributes->axis.dim;
    gy_ops_index at = {{0}};
    if (gy_view_count(x) == 0) {
        return GY_OK;
    }
    do {
        if (at.at[dim] > 0) {
            continue; /* its line is done */
        }
        double maximum = 0;
        double sum = line_sum(x, at, dim, &maximum);
        for (gy_ops_index on = at; on.at[dim] < x->sizes[dim]; on.at[dim]++) {
            double centred = gy_real_at(x, &on, x->rank) - maximum;
            gy_real_put(&call->outputs[0], &on,
                        is_log ? centred - log(sum) : exp(centred) / sum);
        }
    } while (gy_ops_index_next(&at, x->sizes, x->rank));
    return GY_OK;
}

static gy_status softmax_reference(const gy_kernel_call *call)
{
    return along(call, false);
}

static gy_status log_softmax_reference(const gy_kernel_call *call)
{
    return along(call, true);
}

static gy_value sum_along(gy_builder *builder, gy_value value, int dim)
{
    return gy_build_reduce(builder, &gy_ops_row_sum, value, 1u << dim, true);
}

/* dx = y (dy - sum(dy y)) */
static gy_status softmax_gradient(gy_builder *builder, const gy_applied *node,
                                  const gy_value *dy, gy_value *dx)
{
    const gy_value y = node->outputs[0];
    gy_value product = gy_build2(builder, &gy_ops_row_mul, dy[0], y);
    gy_value total = sum_along(builder, product, node->attributes->axis.dim);
    gy_value shifted = gy_build2(builder, &gy_ops_row_sub, dy[0], total);
    dx[0] = gy_build2(builder, &gy_ops_row_mul, y, shifted);
    return GY_OK;
}

/* dx = dy - exp(y) sum(dy) */
static gy_status log_softmax_gradient(gy_builder *builder, const gy_applied *node,
                                      const gy_value *dy, gy_value *dx)
{
    gy_value total = sum_along(builder, dy[0], node->attributes->axis.dim);
    gy_value chance = gy_build1(builder, &gy_ops_row_exp, node->outputs[0]);
    gy_value back = gy_build2(builder, &gy_ops_row_mul, chance, total);
    dx[0] = gy_build2(builder, &gy_ops_row_sub, dy[0], back);
    return GY_OK;
}

/* The maximum along `dim`, x - maximum, exp of it, and the sum of that. */
typedef struct line {
    gy_value maximum, centred, powers, sum;
} line;

static line expand_line(gy_builder *builder, gy_value x, int dim)
{
    line made;
    made.maximum = gy_build_reduce(builder, &gy_ops_row_max, x, 1u << dim, true);
    made.centred = gy_build2(builder, &gy_ops_row_sub, x, made.maximum);
    made.powers = gy_build1(builder, &gy_ops_row_exp, made.centred);
    made.sum = sum_along(builder, made.powers, dim);
    return made;
}

static gy_status softmax_expand(gy_builder *builder, const gy_applied *node, gy_value *outputs)
{
    const line made = expand_line(builder, node->inputs[0], node->attributes->axis.dim);
    outputs[0] = gy_build2(builder, &gy_ops_row_div, made.powers, made.sum);
    return GY_OK;
}

static gy_status log_softmax_expand(gy_builder *builder, const gy_applied *node,
                                    gy_value *outputs)
{
    const line made = expand_line(builder, node->inputs[0], node->attributes->axis.dim);
    outputs[0] = gy_build2(builder, &gy_ops_row_sub, made.centred,
                           gy_build1(builder, &gy_ops_row_log, made.sum));
    return GY_OK;
}

static int along_placements(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    gy_signatures_all_but(&made, &inputs[0], attributes->axis.dim);
    return made.count;
}

static const gy_ops_sample along_samples[] = {
    {.attributes.axis = {.dim = 1},
     .input_count = 1,
     .inputs = {GY_IN(-2, 2, 3, 5)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 0},
     .input_count = 1,
     .inputs = {GY_IN(-2, 2, 4, 2, 3)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 1},
     .input_count = 1,
     .inputs = {GY_IN(700, 710, 2, 4)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 1},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 1)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 1},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 0, 4)},
     .differentiable = 1},
};

const gy_op gy_ops_row_softmax = {
    .name = "softmax",
    .input_count = 1,
    .output_count = 1,
    .infer = softmax_infer,
    .cost = softmax_cost,
    .gradient = softmax_gradient,
    .expand = softmax_expand,
    .placements = along_placements,
    .reference = softmax_reference,
    GY_SAMPLES(along_samples),
};

const gy_op gy_ops_row_log_softmax = {
    .name = "log_softmax",
    .input_count = 1,
    .output_count = 1,
    .infer = log_softmax_infer,
    .cost = softmax_cost,
    .gradient = log_softmax_gradient,
    .expand = log_softmax_expand,
    .placements = along_placements,
    .reference = log_softmax_reference,
    GY_SAMPLES(along_samples),
};

/* ---- one-hot ---- */

static gy_status one_hot_infer(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, gy_type *outputs)
{
    (void)input_count;
    const int dim = attributes->axis.dim;
    char text[GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_need_whole("one_hot", inputs, 0));
    if (dim < 0 || dim > inputs[0].rank || inputs[0].rank == GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_SHAPE,
                       "one_hot: new dimension %d of %s, expected 0 to %d (at most %d)", dim,
                       gy_type_text(&inputs[0], text), inputs[0].rank, GY_TENSOR_RANK_MAX);
    }
    if (attributes->axis.depth < 0 || !gy_dtype_is_element(attributes->axis.dtype)) {
        return gy_fail(GY_ARG, "one_hot: %" PRId64 " classes of element type %d",
                       attributes->axis.depth, (int)attributes->axis.dtype);
    }
    gy_type type = gy_type_plain(attributes->axis.dtype, inputs[0].rank + 1);
    for (int to = 0, from = 0; to < type.rank; to++) {
        type.sizes[to] = to == dim ? attributes->axis.depth : inputs[0].sizes[from++];
    }
    *outputs = type;
    return GY_OK;
}

static gy_status one_hot_reference(const gy_kernel_call *call)
{
    const gy_view *labels = &call->inputs[0], *out = &call->outputs[0];
    const int dim = call->attributes->axis.dim;
    const int64_t count = gy_view_count(labels), depth = call->attributes->axis.depth;
    const int64_t begin = call->output_offsets != NULL ? call->output_offsets[0][dim] : 0;
    gy_ops_index at = {{0}};
    for (int64_t i = 0; i < count; i++) {
        int64_t label = 0;
        GY_TRY(gy_call_index(call, 0, i, "label", depth, &label));
        gy_ops_index to = {{0}};
        for (int d = 0, from = 0; d < out->rank; d++) {
            to.at[d] = d == dim ? 0 : at.at[from++];
        }
        for (; to.at[dim] < out->sizes[dim]; to.at[dim]++) {
            gy_real_put(out, &to, begin + to.at[dim] == label);
        }
        (void)gy_ops_index_next(&at, labels->sizes, labels->rank);
    }
    return GY_OK;
}

static int one_hot_placements(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < inputs[0].rank; dim++) {
        gy_signatures_shard(&made, dim, dim + (dim >= attributes->axis.dim));
    }
    gy_signatures_add(&made)->outputs[0] = gy_shard(attributes->axis.dim);
    return made.count;
}

static const gy_ops_sample one_hot_samples[] = {
    {.attributes.axis = {.dim = 1, .depth = 4, .dtype = GY_F64},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I32, 0, 4, 7)}},
    {.attributes.axis = {.dim = 0, .depth = 3, .dtype = GY_U8},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I64, 0, 3, 2, 5)}},
    {.attributes.axis = {.dim = 1, .depth = 3, .dtype = GY_F32},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_U8, 0, 3, 0)}},
};

const gy_op gy_ops_row_one_hot = {
    .name = "one_hot",
    .input_count = 1,
    .output_count = 1,
    .infer = one_hot_infer,
    .cost = gy_cost_move,
    .gradient = gy_gradient_zero,
    .placements = one_hot_placements,
    .reference = one_hot_reference,
    GY_SAMPLES(one_hot_samples),
};

/* ---- cross entropy ---- */

/* logits (…, classes) and labels (…). */
static gy_status check_labels(const char *name, const gy_type *inputs)
{
    char texts[2][GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_need_real(name, inputs, 0));
    GY_TRY(gy_need_whole(name, inputs, 1));
    const int rank = inputs[1].rank;
    if (inputs[0].rank != rank + 1 || memcmp(inputs[0].sizes, inputs[1].sizes,
                                             (size_t)rank * sizeof(inputs[0].sizes[0])) != 0) {
        return gy_fail(GY_SHAPE,
                       "%s: logits %s and labels %s, expected (..., classes) and (...)", name,
                       gy_type_text(&inputs[0], texts[0]), gy_type_text(&inputs[1], texts[1]));
    }
    return GY_OK;
}

static gy_status cross_entropy_infer(const gy_attributes *attributes, const gy_type *inputs,
                                     int input_count, gy_type *outputs)
{
    (void)attributes;
    (void)input_count;
    GY_TRY(check_labels("cross_entropy", inputs));
    *outputs = gy_type_plain(inputs[0].dtype, 0);
    return GY_OK;
}

/* Walks the rows of logits: the label of each, the maximum and the sum of exp(x - maximum). */
typedef struct row_walk {
    const gy_kernel_call *call;
    gy_ops_index at; /* of the row's first class */
    int64_t row, label;
    double maximum, sum;
} row_walk;

static gy_status row_look(row_walk *walk)
{
    const gy_view *logits = &walk->call->inputs[0];
    const int dim = logits->rank - 1;
    GY_TRY(gy_call_index(walk->call, 1, walk->row, "label", logits->sizes[dim], &walk->label));
    walk->sum = line_sum(logits, walk->at, dim, &walk->maximum);
    return GY_OK;
}

static void row_next(row_walk *walk)
{
    const gy_view *logits = &walk->call->inputs[0];
    (void)gy_ops_index_next(&walk->at, logits->sizes, logits->rank - 1);
    walk->row++;
}

/* Of all ranks. */
static double row_count(const gy_kernel_call *call)
{
    double rows = 1;
    for (int dim = 0; dim < call->inputs[1].rank; dim++) {
        rows *= (double)gy_call_size(call, 1, dim);
    }
    return rows;
}

static gy_status cross_entropy_reference(const gy_kernel_call *call)
{
    const gy_view *logits = &call->inputs[0];
    const int64_t rows = gy_view_count(&call->inputs[1]);
    row_walk walk = {.call = call};
    double total = 0;
    for (; walk.row < rows; row_next(&walk)) {
        GY_TRY(row_look(&walk));
        gy_ops_index truth = walk.at;
        truth.at[logits->rank - 1] = walk.label;
        total += log(walk.sum) + walk.maximum - gy_real_at(logits, &truth, logits->rank);
    }
    gy_real_put(&call->outputs[0], &(gy_ops_index){{0}}, total / row_count(call));
    return GY_OK;
}

static gy_value one_hot_like(gy_builder *builder, gy_value labels, gy_value logits)
{
    const gy_type *type = builder->ops->type(builder, logits);
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.axis.dim = type->rank - 1;
    attributes.axis.depth = type->sizes[type->rank - 1];
    attributes.axis.dtype = type->dtype;
    return gy_build(builder, &gy_ops_row_one_hot, &attributes, &labels, 1);
}

/* `value` divided by the number of rows of all ranks. */
static gy_value over_rows(gy_builder *builder, gy_value value, gy_value logits)
{
    const int rank = builder->ops->type(builder, logits)->rank;
    if (rank == 1) {
        return value;
    }
    gy_value rows =
        gy_build_reduce(builder, &gy_ops_row_count, logits, (1u << (rank - 1)) - 1u, false);
    return gy_build2(builder, &gy_ops_row_div, value, rows);
}

static gy_status cross_entropy_gradient(gy_builder *builder, const gy_applied *node,
                                        const gy_value *dy, gy_value *dx)
{
    dx[0] = gy_build3(builder, &gy_ops_row_cross_entropy_gradient, node->inputs[0],
                      node->inputs[1], dy[0]);
    dx[1] = GY_NO_VALUE;
    return GY_OK;
}

/* The lines' sums and maxima (…,1) are small, so that of the values as large as the logits none
 * is read twice. */
static gy_status cross_entropy_expand(gy_builder *builder, const gy_applied *node,
                                      gy_value *outputs)
{
    const gy_value logits = node->inputs[0];
    const gy_type lines = *builder->ops->type(builder, node->inputs[1]);
    const line made = expand_line(builder, logits, lines.rank);
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.axis.dim = lines.rank;
    gy_value truth = gy_build(builder, &gy_ops_row_pick, &attributes,
                              (gy_value[]){logits, node->inputs[1]}, 2);
    gy_value maximum = gy_build_reshape(builder, made.maximum, lines.sizes, lines.rank);
    gy_value sum = gy_build_reshape(builder, made.sum, lines.sizes, lines.rank);
    gy_value loss =
        gy_build2(builder, &gy_ops_row_sub, gy_build1(builder, &gy_ops_row_log, sum),
                  gy_build2(builder, &gy_ops_row_sub, truth, maximum));
    outputs[0] = over_rows(builder, gy_build1(builder, &gy_ops_row_sum, loss), logits);
    return GY_OK;
}

/* Each rank sums its rows and divides by the global number of rows. */
static int cross_entropy_placements(const gy_attributes *attributes, const gy_type *inputs,
                                    int input_count, const gy_type *outputs,
                                    gy_signature *signatures)
{
    (void)attributes;
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < inputs[1].rank; dim++) {
        gy_signature *rows = gy_signatures_add(&made);
        rows->inputs[0] = rows->inputs[1] = gy_shard(dim);
        rows->outputs[0] = gy_partial(GY_SUM);
    }
    return made.count;
}

static const gy_ops_sample cross_entropy_samples[] = {
    {.input_count = 2,
     .inputs = {GY_IN(-2, 2, 5, 4), GY_IN_OF(GY_I32, 0, 4, 5)},
     .differentiable = 1},
    {.input_count = 2,
     .inputs = {GY_IN(500, 510, 3, 2), GY_IN_OF(GY_U8, 0, 2, 3)},
     .differentiable = 1},
    {.input_count = 2,
     .inputs = {GY_IN(-2, 2, 1, 6), GY_IN_OF(GY_I64, 0, 6, 1)},
     .differentiable = 1},
    {.input_count = 2,
     .inputs = {GY_IN(-2, 2, 3, 5, 4), GY_IN_OF(GY_I32, 0, 4, 3, 5)},
     .differentiable = 1},
    {.input_count = 2,
     .inputs = {GY_IN(-2, 2, 7), {.dtype = GY_I32, .low = 0, .high = 7}},
     .differentiable = 1},
};

const gy_op gy_ops_row_cross_entropy = {
    .name = "cross_entropy",
    .input_count = 2,
    .output_count = 1,
    .infer = cross_entropy_infer,
    .cost = softmax_cost,
    .gradient = cross_entropy_gradient,
    .expand = cross_entropy_expand,
    .placements = cross_entropy_placements,
    .reference = cross_entropy_reference,
    GY_SAMPLES(cross_entropy_samples),
};

/* ---- its gradient: d logits = (softmax - one-hot) dy / rows ---- */

static gy_status loss_gradient_infer(const gy_attributes *attributes, const gy_type *inputs,
                                     int input_count, gy_type *outputs)
{
    (void)attributes;
    (void)input_count;
    char text[GY_TYPE_TEXT_BYTES];
    GY_TRY(check_labels("cross_entropy_gradient", inputs));
    GY_TRY(gy_need_same_dtype("cross_entropy_gradient", &inputs[0], &inputs[2]));
    if (inputs[2].rank != 0) {
        return gy_fail(GY_SHAPE, "cross_entropy_gradient: dy is %s, expected a scalar",
                       gy_type_text(&inputs[2], text));
    }
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

static gy_status loss_gradient_reference(const gy_kernel_call *call)
{
    const gy_view *logits = &call->inputs[0];
    const int dim = logits->rank - 1;
    const int64_t rows = gy_view_count(&call->inputs[1]);
    const double share =
        gy_real_at(&call->inputs[2], &(gy_ops_index){{0}}, 0) / row_count(call);
    row_walk walk = {.call = call};
    for (; walk.row < rows; row_next(&walk)) {
        GY_TRY(row_look(&walk));
        gy_ops_index at = walk.at;
        for (; at.at[dim] < logits->sizes[dim]; at.at[dim]++) {
            double chance = exp(gy_real_at(logits, &at, dim + 1) - walk.maximum) / walk.sum;
            gy_real_put(&call->outputs[0], &at, (chance - (at.at[dim] == walk.label)) * share);
        }
    }
    return GY_OK;
}

static gy_status loss_gradient_expand(gy_builder *builder, const gy_applied *node,
                                      gy_value *outputs)
{
    const gy_value logits = node->inputs[0];
    const line made =
        expand_line(builder, logits, builder->ops->type(builder, logits)->rank - 1);
    gy_value chance = gy_build2(builder, &gy_ops_row_div, made.powers, made.sum);
    gy_value truth = one_hot_like(builder, node->inputs[1], logits);
    gy_value share = over_rows(builder, node->inputs[2], logits);
    outputs[0] = gy_build2(builder, &gy_ops_row_mul,
                           gy_build2(builder, &gy_ops_row_sub, chance, truth), share);
    return GY_OK;
}

static gy_status loss_gradient_gradient(gy_builder *builder, const gy_applied *node,
                                        const gy_value *dy, gy_value *dx)
{
    return gy_ops_expanded_gradient(builder, &gy_ops_row_cross_entropy_gradient, node, dy, dx);
}

static int loss_gradient_placements(const gy_attributes *attributes, const gy_type *inputs,
                                    int input_count, const gy_type *outputs,
                                    gy_signature *signatures)
{
    (void)attributes;
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < inputs[1].rank; dim++) {
        gy_signature *rows = gy_signatures_add(&made);
        rows->inputs[0] = rows->inputs[1] = rows->outputs[0] = gy_shard(dim);
    }
    gy_signatures_partial(&made, 2);
    return made.count;
}

static const gy_ops_sample loss_gradient_samples[] = {
    {.input_count = 3,
     .inputs = {GY_IN(-2, 2, 5, 4), GY_IN_OF(GY_I32, 0, 4, 5), GY_IN_SCALAR(-2, 2)},
     .differentiable = 5},
    {.input_count = 3,
     .inputs = {GY_IN(-2, 2, 2, 3, 4), GY_IN_OF(GY_I64, 0, 4, 2, 3), GY_IN_SCALAR(1, 2)},
     .differentiable = 5},
    {.input_count = 3,
     .inputs = {GY_IN(500, 510, 7), {.dtype = GY_U8, .low = 0, .high = 7}, GY_IN_SCALAR(1, 2)},
     .differentiable = 5},
};

const gy_op gy_ops_row_cross_entropy_gradient = {
    .name = "cross_entropy_gradient",
    .input_count = 3,
    .output_count = 1,
    .infer = loss_gradient_infer,
    .cost = softmax_cost,
    .gradient = loss_gradient_gradient,
    .expand = loss_gradient_expand,
    .placements = loss_gradient_placements,
    .reference = loss_gradient_reference,
    GY_SAMPLES(loss_gradient_samples),
};

/* ---- running sums: y[i] = x[0] + … + x[i], or from the end ---- */

static gy_status cumsum_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    (void)input_count;
    char text[GY_TYPE_TEXT_BYTES];
    if (!gy_dtype_is_whole(inputs[0].dtype)) {
        GY_TRY(gy_need_real("cumsum", inputs, 0));
    }
    if (attributes->axis.dim < 0 || attributes->axis.dim >= inputs[0].rank) {
        return gy_fail(GY_SHAPE, "cumsum: dimension %d of %s, which has %d",
                       attributes->axis.dim, gy_type_text(&inputs[0], text), inputs[0].rank);
    }
    *outputs = gy_type_like(&inputs[0]);
    return GY_OK;
}

/* The sums of the line along `dim` that begins at `at`. Sums of floats are kept in double,
 * those of integers wrap. */
static void sum_line(const gy_kernel_call *call, gy_ops_index at)
{
    const gy_view *x = &call->inputs[0];
    const int dim = call->attributes->axis.dim;
    const bool is_real = gy_dtype_is_real(x->dtype),
               is_reverse = call->attributes->axis.is_reverse;
    const int64_t size = x->sizes[dim];
    double real = 0;
    uint64_t whole = 0;
    for (int64_t i = 0; i < size; i++) {
        at.at[dim] = is_reverse ? size - 1 - i : i;
        if (is_real) {
            real += gy_real_at(x, &at, x->rank);
            gy_real_put(&call->outputs[0], &at, real);
        } else {
            whole += (uint64_t)gy_whole_at(x, &at, x->rank);
            gy_whole_put(&call->outputs[0], &at, (int64_t)whole);
        }
    }
}

static gy_status cumsum_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0];
    gy_ops_index at = {{0}};
    if (gy_view_count(x) == 0) {
        return GY_OK;
    }
    do {
        if (at.at[call->attributes->axis.dim] == 0) {
            sum_line(call, at);
        }
    } while (gy_ops_index_next(&at, x->sizes, x->rank));
    return GY_OK;
}

/* Element i of x is in the sums from i on: dx is the running sum of dy from the other end. */
static gy_status cumsum_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    gy_attributes attributes = *node->attributes;
    attributes.axis.is_reverse = !attributes.axis.is_reverse;
    dx[0] = gy_build(builder, &gy_ops_row_cumsum, &attributes, dy, 1);
    return GY_OK;
}

static int cumsum_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    gy_signatures_all_but(&made, &inputs[0], attributes->axis.dim);
    gy_signatures_partial(&made, 0);
    return made.count;
}

static const gy_ops_sample cumsum_samples[] = {
    {.attributes.axis = {.dim = 1},
     .input_count = 1,
     .inputs = {GY_IN(-2, 2, 3, 5)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 0, .is_reverse = true},
     .input_count = 1,
     .inputs = {GY_IN(-2, 2, 4, 2, 3)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 0},
     .input_count = 1,
     .inputs = {GY_IN(-2, 2, 0, 3)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 1},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I32, -99, 99, 2, 7)}},
};

const gy_op gy_ops_row_cumsum = {
    .name = "cumsum",
    .input_count = 1,
    .output_count = 1,
    .infer = cumsum_infer,
    .cost = gy_cost_elementwise,
    .gradient = cumsum_gradient,
    .placements = cumsum_placements,
    .reference = cumsum_reference,
    GY_SAMPLES(cumsum_samples),
};
