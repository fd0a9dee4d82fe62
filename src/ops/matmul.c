/*
 * c = op(a) op(b) over the last two dimensions, op transposing or not, the dimensions before
 * them broadcast; bias and relu are put there by the compiler's fusion alone. 16-bit operands
 * give float32: their products are exact there, and so are the sums' terms.
 *
 * Placements of one mesh axis (idea A): rows of a stay rows of c, columns of b stay columns of
 * c, and where the summed dimension is sharded on both sides the products are partial.
 */
#include "ops/ops_priv.h"

#include <string.h>

/* The dimensions of a matmul's operands: m, k of a, k, n of b. */
typedef struct layout {
    int a_m, a_k, b_k, b_n;
} layout;

static layout layout_of(const gy_attributes *attributes, int a_rank, int b_rank)
{
    layout dims = {a_rank - 2, a_rank - 1, b_rank - 2, b_rank - 1};
    if (attributes->matmul.transpose_a) {
        dims.a_m = a_rank - 1;
        dims.a_k = a_rank - 2;
    }
    if (attributes->matmul.transpose_b) {
        dims.b_k = b_rank - 1;
        dims.b_n = b_rank - 2;
    }
    return dims;
}

static gy_status matmul_check(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count)
{
    char texts[2][GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_ops_need_operands("matmul", inputs));
    if (input_count > 2) {
        gy_type result = inputs[0];
        result.dtype = gy_ops_product_dtype(&inputs[0]);
        GY_TRY(gy_need_same_dtype("matmul", &result, &inputs[2]));
    }
    (void)gy_type_text(&inputs[0], texts[0]);
    (void)gy_type_text(&inputs[1], texts[1]);
    if (inputs[0].rank < 2 || inputs[1].rank < 2) {
        return gy_fail(GY_SHAPE, "matmul: %s times %s, expected at least two dimensions each",
                       texts[0], texts[1]);
    }
    const layout dims = layout_of(attributes, inputs[0].rank, inputs[1].rank);
    const int64_t left = inputs[0].sizes[dims.a_k], right = inputs[1].sizes[dims.b_k];
    if (left != right) {
        char sizes[2][32];
        return gy_fail(GY_SHAPE, "matmul: inner sizes differ: %s%s times %s%s (%s against %s)",
                       texts[0], attributes->matmul.transpose_a ? " transposed" : "", texts[1],
                       attributes->matmul.transpose_b ? " transposed" : "",
                       gy_size_text(left, sizes[0]), gy_size_text(right, sizes[1]));
    }
    return GY_OK;
}

static gy_status matmul_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    const bool has_bias = attributes->matmul.has_bias;
    char texts[2][GY_TYPE_TEXT_BYTES];
    if (input_count != (has_bias ? 3 : 2)) {
        return gy_fail(GY_ARG, "matmul: %d inputs, expected %d", input_count, has_bias ? 3 : 2);
    }
    GY_TRY(matmul_check(attributes, inputs, input_count));
    const layout dims = layout_of(attributes, inputs[0].rank, inputs[1].rank);
    gy_type a = inputs[0], b = inputs[1], batch;
    a.rank -= 2;
    b.rank -= 2;
    if (gy_broadcast_sizes("matmul", &a, &b, &batch) != GY_OK) {
        return gy_fail(GY_SHAPE, "matmul: leading sizes differ: %s times %s",
                       gy_type_text(&inputs[0], texts[0]), gy_type_text(&inputs[1], texts[1]));
    }
    batch.sizes[batch.rank++] = inputs[0].sizes[dims.a_m];
    batch.sizes[batch.rank++] = inputs[1].sizes[dims.b_n];
    if (has_bias && (inputs[2].rank != 1 || inputs[2].sizes[0] != inputs[1].sizes[dims.b_n])) {
        return gy_fail(GY_SHAPE, "matmul: bias %s does not fit result %s",
                       gy_type_text(&inputs[2], texts[0]), gy_type_text(&batch, texts[1]));
    }
    batch.dtype = gy_ops_product_dtype(&inputs[0]);
    *outputs = batch;
    return GY_OK;
}

static void matmul_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                        const gy_type *outputs, gy_cost *cost)
{
    const layout dims = layout_of(attributes, inputs[0].rank, inputs[1].rank);
    const gy_type inner = {.rank = 1, .sizes = {inputs[0].sizes[dims.a_k]}};
    double flops = 2 * gy_type_elements(outputs) * gy_type_elements(&inner);
    gy_cost_of(inputs, input_count, outputs, flops, cost);
}

/* One element of the product, accumulated in double, in order of k. */
static double inner_product(const gy_view *a, const gy_view *b, const layout *dims,
                            const gy_ops_index *at, int rank)
{
    gy_ops_index left = *at, right = *at;
    const int a_shift = rank - a->rank, b_shift = rank - b->rank;
    left.at[a_shift + dims->a_m] = at->at[rank - 2];
    right.at[b_shift + dims->b_n] = at->at[rank - 1];
    double sum = 0;
    for (int64_t k = 0; k < a->sizes[dims->a_k]; k++) {
        left.at[a_shift + dims->a_k] = k;
        right.at[b_shift + dims->b_k] = k;
        sum += gy_real_at(a, &left, rank) * gy_real_at(b, &right, rank);
    }
    return sum;
}

static gy_status matmul_reference(const gy_kernel_call *call)
{
    const gy_view *a = &call->inputs[0], *b = &call->inputs[1], *c = &call->outputs[0];
    const layout dims = layout_of(call->attributes, a->rank, b->rank);
    gy_ops_index at = {{0}};
    if (gy_view_count(c) == 0) {
        return GY_OK;
    }
    do {
        double sum = inner_product(a, b, &dims, &at, c->rank);
        if (call->attributes->matmul.has_bias) {
            sum += gy_real_at(&call->inputs[2], &at, c->rank);
        }
        bool is_cut = call->attributes->matmul.activation == GY_ACTIVATION_RELU && sum < 0;
        gy_real_put(c, &at, is_cut ? 0 : sum);
    } while (gy_ops_index_next(&at, c->sizes, c->rank));
    return GY_OK;
}

/* The gradient of a matrix that rows of any number of leading dimensions are multiplied by. */
static gy_value product_over_rows(gy_builder *builder, gy_value a, gy_value b)
{
    return gy_build2(builder, &gy_ops_row_matmul_over_rows, a, b);
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

/* da = dc op(b)' and db = op(a)' dc, in the layout in which a and b are stored. */
static gy_status matmul_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    const gy_value a = node->inputs[0], b = node->inputs[1];
    const gy_value dc = gy_ops_build_as(builder, dy[0], a);
    const bool ta = node->attributes->matmul.transpose_a;
    const bool tb = node->attributes->matmul.transpose_b;
    if (node->attributes->matmul.has_bias || node->attributes->matmul.activation != 0) {
        return gy_fail(GY_UNSUPPORTED, "matmul: the gradient is taken before bias and "
                                       "activation are fused in");
    }
    gy_value da = ta ? product(builder, b, tb, dc, true) : product(builder, dc, false, b, !tb);
    dx[0] = gy_ops_build_as(builder, gy_build_sum_to(builder, da, a), a);
    if (!ta && builder->ops->type(builder, a)->rank > 2 &&
        builder->ops->type(builder, b)->rank == 2) {
        dx[1] = tb ? product_over_rows(builder, dc, a) : product_over_rows(builder, a, dc);
        dx[1] = gy_ops_build_as(builder, dx[1], b);
        return GY_OK;
    }
    gy_value db = tb ? product(builder, dc, true, a, ta) : product(builder, a, !ta, dc, false);
    dx[1] = gy_ops_build_as(builder, gy_build_sum_to(builder, db, b), b);
    return GY_OK;
}

/* One leading dimension of c (counted from the front) sharded wherever it is not broadcast. */
static void leading_signature(gy_signatures *made, const gy_type *inputs, const gy_type *c,
                              int dim)
{
    gy_signature *signature = gy_signatures_add(made);
    signature->outputs[0] = gy_shard(dim);
    for (int i = 0; i < 2; i++) {
        int own = dim - (c->rank - inputs[i].rank);
        if (own >= 0 && inputs[i].sizes[own] != 1) {
            signature->inputs[i] = gy_shard(own);
        }
    }
}

static int matmul_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    gy_signatures made = {.list = signatures};
    const layout dims = layout_of(attributes, inputs[0].rank, inputs[1].rank);
    const int rank = outputs[0].rank;
    const bool is_linear = !attributes->matmul.has_bias && attributes->matmul.activation == 0;
    gy_signature *rows = gy_signatures_add(&made);
    rows->inputs[0] = gy_shard(dims.a_m);
    rows->outputs[0] = gy_shard(rank - 2);
    gy_signature *columns = gy_signatures_add(&made);
    columns->inputs[1] = gy_shard(dims.b_n);
    columns->outputs[0] = gy_shard(rank - 1);
    if (attributes->matmul.has_bias) {
        columns->inputs[2] = gy_shard(0);
    }
    if (is_linear) {
        gy_signature *inner = gy_signatures_add(&made);
        inner->inputs[0] = gy_shard(dims.a_k);
        inner->inputs[1] = gy_shard(dims.b_k);
        inner->outputs[0] = gy_partial(GY_SUM);
        gy_signatures_partial(&made, 0);
        gy_signatures_partial(&made, 1);
    }
    for (int dim = 0; dim < rank - 2; dim++) {
        if (outputs[0].sizes[dim] != 1) {
            leading_signature(&made, inputs, &outputs[0], dim);
        }
    }
    return made.count;
}

static const gy_ops_sample matmul_samples[] = {
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 5, 3), GY_IN(-1, 1, 3, 4)}, .differentiable = 3},
    {.attributes.matmul = {.transpose_a = true},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 5), GY_IN(-1, 1, 3, 4)},
     .differentiable = 3},
    {.attributes.matmul = {.transpose_b = true},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 5, 3), GY_IN(-1, 1, 4, 3)},
     .differentiable = 3},
    {.attributes.matmul = {.transpose_a = true, .transpose_b = true},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 5), GY_IN(-1, 1, 4, 3)},
     .differentiable = 3},
    {.input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 3, 4), GY_IN(-1, 1, 2, 4, 2)},
     .differentiable = 3},
    {.attributes.matmul = {.transpose_b = true},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 1, 2, 4), GY_IN(-1, 1, 2, 3, 4)},
     .differentiable = 3},
    {.attributes.matmul = {.transpose_a = true},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 3, 4, 2), GY_IN(-1, 1, 4, 3)},
     .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 1, 1), GY_IN(-1, 1, 1, 4)}, .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 0, 3), GY_IN(-1, 1, 3, 4)}, .differentiable = 3},
    {.attributes.matmul = {.has_bias = true, .activation = GY_ACTIVATION_RELU},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 5, 3), GY_IN(-1, 1, 3, 4), GY_IN(-1, 1, 4)}},
    {.attributes.matmul = {.transpose_b = true, .has_bias = true},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 2, 2, 3), GY_IN(-1, 1, 4, 3), GY_IN(-1, 1, 4)}},
};

const gy_op gy_ops_row_matmul = {
    .name = "matmul",
    .input_count = -1,
    .output_count = 1,
    .infer = matmul_infer,
    .cost = matmul_cost,
    .gradient = matmul_gradient,
    .placements = matmul_placements,
    .reference = matmul_reference,
    GY_SAMPLES(matmul_samples),
};

/* ---- matmul_over_rows: t(a) b, all leading dimensions taken as one ---- */

static gy_status over_rows_infer(const gy_attributes *attributes, const gy_type *inputs,
                                 int input_count, gy_type *outputs)
{
    (void)attributes;
    (void)input_count;
    char texts[2][GY_TYPE_TEXT_BYTES];
    const int rank = inputs[0].rank;
    GY_TRY(gy_ops_need_operands("matmul_over_rows", inputs));
    if (rank < 2 || inputs[1].rank != rank ||
        memcmp(inputs[0].sizes, inputs[1].sizes,
               (size_t)(rank - 1) * sizeof(inputs[0].sizes[0])) != 0) {
        return gy_fail(GY_SHAPE, "matmul_over_rows: %s and %s, expected (..., m) and (..., n)",
                       gy_type_text(&inputs[0], texts[0]), gy_type_text(&inputs[1], texts[1]));
    }
    *outputs = gy_type_plain(gy_ops_product_dtype(&inputs[0]), 2);
    outputs->sizes[0] = inputs[0].sizes[rank - 1];
    outputs->sizes[1] = inputs[1].sizes[rank - 1];
    return GY_OK;
}

static void over_rows_cost(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    const gy_type columns = {.rank = 1, .sizes = {outputs[0].sizes[1]}};
    gy_cost_of(inputs, input_count, outputs,
               2 * gy_type_elements(&inputs[0]) * gy_type_elements(&columns), cost);
}

static gy_status over_rows_reference(const gy_kernel_call *call)
{
    const gy_view *a = &call->inputs[0], *b = &call->inputs[1], *c = &call->outputs[0];
    const int last = a->rank - 1;
    gy_ops_index to = {{0}};
    if (gy_view_count(c) == 0) {
        return GY_OK;
    }
    do {
        gy_ops_index at = {{0}};
        double sum = 0;
        bool is_more = gy_place_count(a->sizes, last) > 0;
        for (; is_more; is_more = gy_ops_index_next(&at, a->sizes, last)) {
            gy_ops_index left = at, right = at;
            left.at[last] = to.at[0];
            right.at[last] = to.at[1];
            sum += gy_real_at(a, &left, a->rank) * gy_real_at(b, &right, b->rank);
        }
        gy_real_put(c, &to, sum);
    } while (gy_ops_index_next(&to, c->sizes, 2));
    return GY_OK;
}

/* da = b t(dc), db = a dc */
static gy_status over_rows_gradient(gy_builder *builder, const gy_applied *node,
                                    const gy_value *dy, gy_value *dx)
{
    const gy_value a = node->inputs[0], b = node->inputs[1];
    const gy_value dc = gy_ops_build_as(builder, dy[0], a);
    dx[0] = gy_ops_build_as(builder, product(builder, b, false, dc, true), a);
    dx[1] = gy_ops_build_as(builder, product(builder, a, false, dc, false), b);
    return GY_OK;
}

/* Rows of any leading dimension give partial sums; columns stay columns. */
static int over_rows_placements(const gy_attributes *attributes, const gy_type *inputs,
                                int input_count, const gy_type *outputs,
                                gy_signature *signatures)
{
    (void)attributes;
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    const int last = inputs[0].rank - 1;
    for (int dim = 0; dim < last; dim++) {
        gy_signature *rows = gy_signatures_add(&made);
        rows->inputs[0] = rows->inputs[1] = gy_shard(dim);
        rows->outputs[0] = gy_partial(GY_SUM);
    }
    gy_signatures_shard(&made, last, 0);
    gy_signature *columns = gy_signatures_add(&made);
    columns->inputs[1] = gy_shard(last);
    columns->outputs[0] = gy_shard(1);
    gy_signatures_partial(&made, 0);
    gy_signatures_partial(&made, 1);
    return made.count;
}

static const gy_ops_sample over_rows_samples[] = {
    {.input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 4, 3), GY_IN(-1, 1, 2, 4, 2)},
     .differentiable = 3},
    {.input_count = 2, .inputs = {GY_IN(-1, 1, 5, 2), GY_IN(-1, 1, 5, 4)}, .differentiable = 3},
    {.input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 0, 3), GY_IN(-1, 1, 2, 0, 2)},
     .differentiable = 3},
    {.input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 3, 2, 2), GY_IN(-1, 1, 2, 3, 2, 1)},
     .differentiable = 3},
};

const gy_op gy_ops_row_matmul_over_rows = {
    .name = "matmul_over_rows",
    .input_count = 2,
    .output_count = 1,
    .infer = over_rows_infer,
    .cost = over_rows_cost,
    .gradient = over_rows_gradient,
    .placements = over_rows_placements,
    .reference = over_rows_reference,
    GY_SAMPLES(over_rows_samples),
};

/* ---- matmul_update: a step of gradient descent without storing the gradient ---- */

static gy_status update_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    gy_type product;
    char texts[2][GY_TYPE_TEXT_BYTES];
    (void)input_count;
    GY_TRY(matmul_infer(attributes, &inputs[1], 2, &product));
    GY_TRY(gy_need_same_shape("matmul_update", &inputs[0], &product));
    if (product.rank != 2 || inputs[3].rank != 0 || inputs[3].dtype != product.dtype) {
        return gy_fail(GY_SHAPE, "matmul_update: product %s by %s, expected a matrix, a scalar",
                       gy_type_text(&product, texts[0]), gy_type_text(&inputs[3], texts[1]));
    }
    *outputs = product;
    return GY_OK;
}

static void update_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                        const gy_type *outputs, gy_cost *cost)
{
    (void)input_count;
    matmul_cost(attributes, &inputs[1], 2, outputs, cost);
    cost->bytes_read += gy_type_elements(&inputs[0]) * (double)gy_dtype_bytes(inputs[0].dtype);
}

static gy_status update_reference(const gy_kernel_call *call)
{
    const gy_view *a = &call->inputs[1], *b = &call->inputs[2], *c = &call->outputs[0];
    const layout dims = layout_of(call->attributes, 2, 2);
    const double scale = gy_real_at(&call->inputs[3], &(gy_ops_index){{0}}, 0);
    gy_ops_index at = {{0}};
    if (gy_view_count(c) == 0) {
        return GY_OK;
    }
    do {
        double sum = inner_product(a, b, &dims, &at, 2);
        gy_real_put(c, &at, gy_real_at(&call->inputs[0], &at, 2) - scale * sum);
    } while (gy_ops_index_next(&at, c->sizes, 2));
    return GY_OK;
}

static const gy_ops_sample update_samples[] = {
    {.input_count = 4,
     .inputs = {GY_IN(-1, 1, 5, 4), GY_IN(-1, 1, 5, 3), GY_IN(-1, 1, 3, 4),
                GY_IN_SCALAR(-1, 1)}},
    {.attributes.matmul = {.transpose_a = true},
     .input_count = 4,
     .inputs = {GY_IN(-1, 1, 5, 4), GY_IN(-1, 1, 3, 5), GY_IN(-1, 1, 3, 4),
                GY_IN_SCALAR(-1, 1)}},
    {.attributes.matmul = {.transpose_b = true},
     .input_count = 4,
     .inputs = {GY_IN(-1, 1, 5, 4), GY_IN(-1, 1, 5, 0), GY_IN(-1, 1, 4, 0),
                GY_IN_SCALAR(-1, 1)}},
};

const gy_op gy_ops_row_matmul_update = {
    .name = "matmul_update",
    .input_count = 4,
    .output_count = 1,
    .infer = update_infer,
    .cost = update_cost,
    .no_gradient = "made by the compiler after differentiation",
    .no_placements = "made by the compiler after placement",
    .reference = update_reference,
    GY_SAMPLES(update_samples),
};
