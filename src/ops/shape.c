/*
 * Operators that move elements without computing: reshape, broadcast_to, transpose, slice, its
 * adjoint pad, concat. All are linear: sums that are still partial pass through.
 */
#include "ops/ops_priv.h"

#include <string.h>

/* The sizes in the attributes as a type. */
static gy_status target_type(const char *name, const gy_attributes *attributes,
                             const gy_type *input, gy_type *type)
{
    char text[GY_TYPE_TEXT_BYTES];
    const int rank = attributes->shape.rank;
    if (rank < 0 || rank > GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_SHAPE, "%s: %s to %d dimensions, expected 0 to %d", name,
                       gy_type_text(input, text), rank, GY_TENSOR_RANK_MAX);
    }
    *type = gy_type_plain(input->dtype, rank);
    memcpy(type->sizes, attributes->shape.sizes, (size_t)rank * sizeof(type->sizes[0]));
    return GY_OK;
}

/* ---- reshape ---- */

static gy_status reshape_failure(const gy_type *from, const gy_type *to)
{
    char texts[2][GY_TYPE_TEXT_BYTES], counts[2][32];
    int64_t n = gy_type_count(from), m = gy_type_count(to);
    return gy_fail(GY_SHAPE, "reshape: %s to %s: %s elements against %s",
                   gy_type_text(from, texts[0]), gy_type_text(to, texts[1]),
                   n == INT64_MIN ? "unknown" : gy_size_text(n, counts[0]),
                   m == INT64_MIN ? "unknown" : gy_size_text(m, counts[1]));
}

/* The size that INT64_MAX stands for: what remains of `count`; both may be symbolic. */
static bool remaining(int64_t count, int64_t others, int64_t *size)
{
    if (others == 0 || others == INT64_MIN || count == INT64_MIN || count % others != 0 ||
        (others < 0 && count > 0)) {
        return false;
    }
    *size = count / others;
    return true;
}

/* The batch and a number of rows, in one dimension: before the batch is bound nobody knows
 * whether they are the same, afterwards they must be. */
static bool is_batch_of_rows(const gy_type *a, const gy_type *b)
{
    bool fits = a->rank == b->rank && a->rank > 0;
    for (int dim = 1; fits && dim < a->rank; dim++) {
        fits = a->sizes[dim] == b->sizes[dim] && a->sizes[dim] >= 0;
    }
    return fits && ((a->sizes[0] == GY_BATCH && b->sizes[0] >= 0) ||
                    (b->sizes[0] == GY_BATCH && a->sizes[0] >= 0));
}

static gy_status reshape_infer(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, gy_type *outputs)
{
    (void)input_count;
    gy_type type;
    int open = -1;
    GY_TRY(target_type("reshape", attributes, &inputs[0], &type));
    const gy_type wanted = type;
    for (int dim = 0; dim < type.rank; dim++) {
        if (type.sizes[dim] == INT64_MAX) {
            if (open >= 0) {
                return gy_fail(GY_SHAPE, "reshape: dimensions %d and %d are both left open",
                               open, dim);
            }
            open = dim;
            type.sizes[dim] = 1;
        }
    }
    const int64_t count = gy_type_count(&inputs[0]);
    if (open >= 0 && !remaining(count, gy_type_count(&type), &type.sizes[open])) {
        gy_type shown = wanted;
        shown.sizes[open] = 1;
        return reshape_failure(&inputs[0], &shown);
    }
    if (gy_type_count(&type) != count && !is_batch_of_rows(&inputs[0], &type)) {
        return reshape_failure(&inputs[0], &type);
    }
    if (count == INT64_MIN && !gy_type_is_same_shape(&type, &inputs[0])) {
        return reshape_failure(&inputs[0], &type);
    }
    *outputs = type;
    return GY_OK;
}

/* Row-major order is kept: both sides are walked together. */
static gy_status reshape_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0], *y = &call->outputs[0];
    gy_ops_index from = {{0}}, to = {{0}};
    bool is_more = gy_view_count(y) > 0;
    GY_ASSERT(gy_view_count(x) == gy_view_count(y));
    while (is_more) {
        if (gy_dtype_is_whole(x->dtype) || x->dtype == GY_U64) {
            gy_whole_put(y, &to, gy_whole_at(x, &from, x->rank));
        } else {
            gy_real_put(y, &to, gy_real_at(x, &from, x->rank));
        }
        (void)gy_ops_index_next(&from, x->sizes, x->rank);
        is_more = gy_ops_index_next(&to, y->sizes, y->rank);
    }
    return GY_OK;
}

static gy_status reshape_gradient(gy_builder *builder, const gy_applied *node,
                                  const gy_value *dy, gy_value *dx)
{
    const gy_type x = *builder->ops->type(builder, node->inputs[0]);
    dx[0] = gy_build_reshape(builder, dy[0], x.sizes, x.rank);
    return GY_OK;
}

/*
 * A sharded dimension passes to one that has as many elements before it: then both sides' parts
 * lie alike in memory, if they are equally large. Those of a dimension that keeps its size
 * always are; of one that is merged with those after it, or split, only when the ranks divide:
 * even parts of (batch, 16) are those of 16 batch when they divide batch. Whoever knows the
 * ranks must ask (the placement pass does, for rows with GY_OP_VIEW).
 */
static int reshape_placements(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)attributes;
    (void)input_count;
    gy_signatures made = {.list = signatures};
    const gy_type *x = &inputs[0], *y = &outputs[0];
    for (int from = 0; from < x->rank; from++) {
        for (int to = 0; to < y->rank; to++) {
            const int64_t before = gy_sizes_product(x->sizes, 0, from);
            if (x->sizes[from] != 1 && y->sizes[to] != 1 && before != 0 &&
                before != INT64_MIN && before == gy_sizes_product(y->sizes, 0, to)) {
                gy_signatures_shard(&made, from, to);
            }
        }
    }
    gy_signatures_partial(&made, 0);
    return made.count;
}

static const gy_ops_sample reshape_samples[] = {
    {.attributes.shape = {.rank = 2, .sizes = {5, 12}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 5, 3, 4)},
     .differentiable = 1},
    {.attributes.shape = {.rank = 3, .sizes = {2, 3, INT64_MAX}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 6, 4)},
     .differentiable = 1},
    {.attributes.shape = {.rank = 2, .sizes = {12, 3}}, /* the first 3 is not the last */
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 4, 3)},
     .differentiable = 1},
    {.attributes.shape = {.rank = 0},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 1, 1)},
     .differentiable = 1},
    {.attributes.shape = {.rank = 2, .sizes = {0, 7}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 0)},
     .differentiable = 1},
    {.attributes.shape = {.rank = 2, .sizes = {4, 3}},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I64, -9, 9, 12)}},
};

const gy_op gy_ops_row_reshape = {
    .name = "reshape",
    .input_count = 1,
    .output_count = 1,
    .flags = GY_OP_VIEW,
    .infer = reshape_infer,
    .cost = gy_cost_move,
    .gradient = reshape_gradient,
    .placements = reshape_placements,
    .bind = gy_bind_shape,
    .reference = reshape_reference,
    GY_SAMPLES(reshape_samples),
};

/* ---- broadcast_to ---- */

static gy_status broadcast_infer(const gy_attributes *attributes, const gy_type *inputs,
                                 int input_count, gy_type *outputs)
{
    (void)input_count;
    char texts[2][GY_TYPE_TEXT_BYTES];
    const gy_type *x = &inputs[0];
    gy_type type;
    GY_TRY(target_type("broadcast_to", attributes, x, &type));
    bool fits = x->rank <= type.rank;
    for (int back = 1; fits && back <= x->rank; back++) {
        int64_t size = x->sizes[x->rank - back];
        fits = size == 1 || size == type.sizes[type.rank - back];
    }
    if (!fits) {
        return gy_fail(GY_SHAPE, "broadcast_to: %s does not broadcast to %s",
                       gy_type_text(x, texts[0]), gy_type_text(&type, texts[1]));
    }
    *outputs = type;
    return GY_OK;
}

static gy_status broadcast_reference(const gy_kernel_call *call)
{
    const gy_view spread =
        gy_view_spread(&call->inputs[0], call->outputs[0].sizes, call->outputs[0].rank);
    return gy_view_copy(&call->outputs[0], &spread);
}

static gy_status broadcast_gradient(gy_builder *builder, const gy_applied *node,
                                    const gy_value *dy, gy_value *dx)
{
    dx[0] = gy_build_sum_to(builder, dy[0], node->inputs[0]);
    return GY_OK;
}

static const gy_ops_sample broadcast_samples[] = {
    {.attributes.shape = {.rank = 3, .sizes = {2, 3, 4}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 1)},
     .differentiable = 1},
    {.attributes.shape = {.rank = 2, .sizes = {5, 4}},
     .input_count = 1,
     .inputs = {GY_IN_SCALAR(-1, 1)},
     .differentiable = 1},
    {.attributes.shape = {.rank = 2, .sizes = {3, 4}},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_U8, 0, 9, 1, 4)}},
    {.attributes.shape = {.rank = 2, .sizes = {0, 4}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 1, 4)},
     .differentiable = 1},
};

const gy_op gy_ops_row_broadcast_to = {
    .name = "broadcast_to",
    .input_count = 1,
    .output_count = 1,
    .infer = broadcast_infer,
    .cost = gy_cost_move,
    .gradient = broadcast_gradient,
    .placements = gy_placements_linear,
    .bind = gy_bind_shape,
    .reference = broadcast_reference,
    GY_SAMPLES(broadcast_samples),
};

/* ---- transpose: dimension i of the result is dimension dims[i] of x ---- */

static gy_status transpose_infer(const gy_attributes *attributes, const gy_type *inputs,
                                 int input_count, gy_type *outputs)
{
    (void)input_count;
    char text[GY_TYPE_TEXT_BYTES];
    const gy_type *x = &inputs[0];
    gy_type type = gy_type_plain(x->dtype, x->rank);
    uint32_t seen = 0;
    for (int dim = 0; dim < x->rank; dim++) {
        int from = attributes->permute.dims[dim];
        if (from < 0 || from >= x->rank || (seen >> from & 1) != 0) {
            return gy_fail(GY_SHAPE,
                           "transpose: %s by a list whose entry %d is %d, expected a "
                           "permutation of 0 to %d",
                           gy_type_text(x, text), dim, from, x->rank - 1);
        }
        seen |= 1u << from;
        type.sizes[dim] = x->sizes[from];
    }
    *outputs = type;
    return GY_OK;
}

static gy_status transpose_reference(const gy_kernel_call *call)
{
    const gy_view turned = gy_view_permute(&call->inputs[0], call->attributes->permute.dims);
    return gy_view_copy(&call->outputs[0], &turned);
}

static gy_status transpose_gradient(gy_builder *builder, const gy_applied *node,
                                    const gy_value *dy, gy_value *dx)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    const int rank = builder->ops->type(builder, node->inputs[0])->rank;
    for (int dim = 0; dim < rank; dim++) {
        attributes.permute.dims[node->attributes->permute.dims[dim]] = dim;
    }
    dx[0] = gy_build(builder, &gy_ops_row_transpose, &attributes, dy, 1);
    return GY_OK;
}

static int transpose_placements(const gy_attributes *attributes, const gy_type *inputs,
                                int input_count, const gy_type *outputs,
                                gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < inputs[0].rank; dim++) {
        gy_signatures_shard(&made, attributes->permute.dims[dim], dim);
    }
    gy_signatures_partial(&made, 0);
    return made.count;
}

static const gy_ops_sample transpose_samples[] = {
    {.attributes.permute = {{1, 0}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 5)},
     .differentiable = 1},
    {.attributes.permute = {{2, 0, 1}},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 2, 3, 4)},
     .differentiable = 1},
    {.attributes.permute = {{0, 2, 1, 3}},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I32, -9, 9, 2, 3, 1, 2)}},
};

const gy_op gy_ops_row_transpose = {
    .name = "transpose",
    .input_count = 1,
    .output_count = 1,
    .infer = transpose_infer,
    .cost = gy_cost_move,
    .gradient = transpose_gradient,
    .placements = transpose_placements,
    .reference = transpose_reference,
    GY_SAMPLES(transpose_samples),
};

/* ---- slice and pad ---- */

/*
 * How many elements [begin, end) by step takes from a dimension of `size`. In a symbolic
 * dimension the bounds are 0 or symbolic themselves, and are compared in units of batch.
 */
static gy_status slice_count(const char *name, const gy_attributes *attributes, int64_t size,
                             const gy_type *shown, int64_t *count)
{
    char text[GY_TYPE_TEXT_BYTES], bounds[2][32];
    int64_t begin = attributes->slice.begin, end = attributes->slice.end;
    const int64_t step = attributes->slice.step;
    bool fits = step >= 1;
    if (size < 0) {
        fits = fits && step == 1 && begin <= 0 && end <= 0 && begin >= end && end >= size;
    } else {
        fits = fits && begin >= 0 && begin <= end && end <= size;
    }
    if (!fits) {
        return gy_fail(GY_SHAPE, "%s: [%s, %s) by %lld of dimension %d of %s", name,
                       gy_size_text(begin, bounds[0]), gy_size_text(end, bounds[1]),
                       (long long)step, attributes->slice.dim, gy_type_text(shown, text));
    }
    *count = size < 0 ? end - begin : gy_slice_count(begin, end, step);
    return GY_OK;
}

static gy_status slice_infer(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, gy_type *outputs)
{
    (void)input_count;
    char text[GY_TYPE_TEXT_BYTES];
    const int dim = attributes->slice.dim;
    if (dim < 0 || dim >= inputs[0].rank) {
        return gy_fail(GY_SHAPE, "slice: dimension %d of %s", dim,
                       gy_type_text(&inputs[0], text));
    }
    gy_type type = gy_type_like(&inputs[0]);
    GY_TRY(
        slice_count("slice", attributes, inputs[0].sizes[dim], &inputs[0], &type.sizes[dim]));
    *outputs = type;
    return GY_OK;
}

static gy_status pad_infer(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, gy_type *outputs)
{
    (void)input_count;
    char texts[2][GY_TYPE_TEXT_BYTES];
    const int dim = attributes->slice.dim;
    if (dim < 0 || dim >= inputs[0].rank || attributes->slice.size == INT64_MIN) {
        return gy_fail(GY_SHAPE, "pad: dimension %d of %s", dim,
                       gy_type_text(&inputs[0], texts[0]));
    }
    gy_type type = gy_type_like(&inputs[0]);
    int64_t count = 0;
    type.sizes[dim] = attributes->slice.size;
    GY_TRY(slice_count("pad", attributes, attributes->slice.size, &type, &count));
    if (count != inputs[0].sizes[dim]) {
        char number[32];
        return gy_fail(GY_SHAPE, "pad: %s to %s: %s places along dimension %d",
                       gy_type_text(&inputs[0], texts[0]), gy_type_text(&type, texts[1]),
                       gy_size_text(count, number), dim);
    }
    *outputs = type;
    return GY_OK;
}

static void slice_bind(gy_attributes *attributes, int64_t batch)
{
    gy_bind_size(&attributes->slice.begin, batch);
    gy_bind_size(&attributes->slice.end, batch);
    gy_bind_size(&attributes->slice.size, batch);
}

/* The elements of `view` that the slice takes, as a view. */
static gy_view slice_view(const gy_view *view, const gy_attributes *attributes, int64_t count)
{
    return gy_view_cut(view, attributes->slice.dim, attributes->slice.begin, count,
                       attributes->slice.step);
}

static gy_status slice_reference(const gy_kernel_call *call)
{
    const int64_t count = call->outputs[0].sizes[call->attributes->slice.dim];
    const gy_view from = slice_view(&call->inputs[0], call->attributes, count);
    return gy_view_copy(&call->outputs[0], &from);
}

static gy_status pad_reference(const gy_kernel_call *call)
{
    const int64_t count = call->inputs[0].sizes[call->attributes->slice.dim];
    gy_view to = slice_view(&call->outputs[0], call->attributes, count);
    gy_view_zero(&call->outputs[0]);
    return gy_view_copy(&to, &call->inputs[0]);
}

static gy_status slice_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                                gy_value *dx)
{
    gy_attributes attributes = *node->attributes;
    attributes.slice.size =
        builder->ops->type(builder, node->inputs[0])->sizes[attributes.slice.dim];
    dx[0] = gy_build(builder, &gy_ops_row_pad, &attributes, dy, 1);
    return GY_OK;
}

static gy_status pad_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                              gy_value *dx)
{
    gy_attributes attributes = *node->attributes;
    attributes.slice.size = 0;
    dx[0] = gy_build(builder, &gy_ops_row_slice, &attributes, dy, 1);
    return GY_OK;
}

static int slice_placements(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    gy_signatures_all_but(&made, &inputs[0], attributes->slice.dim);
    gy_signatures_partial(&made, 0);
    return made.count;
}

/* Reads what it takes. */
static void slice_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                       const gy_type *outputs, gy_cost *cost)
{
    (void)inputs;
    gy_cost_move(attributes, outputs, input_count, outputs, cost);
}

static const gy_ops_sample slice_samples[] = {
    {.attributes.slice = {.dim = 0, .begin = 1, .end = 4, .step = 1},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 5, 3)},
     .differentiable = 1},
    {.attributes.slice = {.dim = 1, .begin = 1, .end = 7, .step = 3},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 7, 2)},
     .differentiable = 1},
    {.attributes.slice = {.dim = 1, .begin = 2, .end = 2, .step = 1},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 4)},
     .differentiable = 1},
};

static const gy_ops_sample pad_samples[] = {
    {.attributes.slice = {.dim = 0, .begin = 1, .end = 4, .step = 1, .size = 6},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 2)},
     .differentiable = 1},
    {.attributes.slice = {.dim = 1, .begin = 1, .end = 7, .step = 3, .size = 8},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 2, 2)},
     .differentiable = 1},
};

const gy_op gy_ops_row_slice = {
    .name = "slice",
    .input_count = 1,
    .output_count = 1,
    .infer = slice_infer,
    .cost = slice_cost,
    .gradient = slice_gradient,
    .placements = slice_placements,
    .bind = slice_bind,
    .reference = slice_reference,
    GY_SAMPLES(slice_samples),
};

const gy_op gy_ops_row_pad = {
    .name = "pad",
    .input_count = 1,
    .output_count = 1,
    .infer = pad_infer,
    .cost = gy_cost_move,
    .gradient = pad_gradient,
    .placements = slice_placements,
    .bind = slice_bind,
    .reference = pad_reference,
    GY_SAMPLES(pad_samples),
};

/* ---- concat ---- */

/* Add a size to a total: both numbers or both symbolic; 0 adds to either. */
static bool add_size(int64_t *total, int64_t size)
{
    bool is_alike = *total == 0 || size == 0 || (*total < 0) == (size < 0);
    return is_alike && !__builtin_add_overflow(*total, size, total);
}

static gy_status concat_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    const int dim = attributes->axis.dim;
    char texts[2][GY_TYPE_TEXT_BYTES];
    if (dim < 0 || dim >= inputs[0].rank) {
        return gy_fail(GY_SHAPE, "concat: dimension %d of %s", dim,
                       gy_type_text(&inputs[0], texts[0]));
    }
    gy_type type = gy_type_like(&inputs[0]);
    for (int i = 1; i < input_count; i++) {
        gy_type other = inputs[i];
        GY_TRY(gy_need_same_dtype("concat", &inputs[0], &inputs[i]));
        bool fits = other.rank == type.rank && add_size(&type.sizes[dim], other.sizes[dim]);
        if (fits) {
            other.sizes[dim] = type.sizes[dim];
            fits = gy_type_is_same_shape(&other, &type);
        }
        if (!fits) {
            return gy_fail(GY_SHAPE, "concat: %s and %s along dimension %d",
                           gy_type_text(&inputs[0], texts[0]),
                           gy_type_text(&inputs[i], texts[1]), dim);
        }
    }
    *outputs = type;
    return GY_OK;
}

static gy_status concat_reference(const gy_kernel_call *call)
{
    const int dim = call->attributes->axis.dim;
    int64_t begin = 0;
    for (int i = 0; i < call->input_count; i++) {
        const int64_t count = call->inputs[i].sizes[dim];
        gy_view to = gy_view_cut(&call->outputs[0], dim, begin, count, 1);
        GY_TRY(gy_view_copy(&to, &call->inputs[i]));
        begin += count;
    }
    return GY_OK;
}

static gy_status concat_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.slice.dim = node->attributes->axis.dim;
    attributes.slice.step = 1;
    for (int i = 0; i < node->input_count; i++) {
        attributes.slice.end +=
            builder->ops->type(builder, node->inputs[i])->sizes[attributes.slice.dim];
        dx[i] = gy_build(builder, &gy_ops_row_slice, &attributes, dy, 1);
        attributes.slice.begin = attributes.slice.end;
    }
    return GY_OK;
}

static int concat_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < inputs[0].rank; dim++) {
        if (dim == attributes->axis.dim || inputs[0].sizes[dim] == 1) {
            continue;
        }
        gy_signature *signature = gy_signatures_add(&made);
        for (int i = 0; i < input_count; i++) {
            signature->inputs[i] = gy_shard(dim);
        }
        signature->outputs[0] = gy_shard(dim);
    }
    gy_signature *partial = gy_signatures_add(&made);
    for (int i = 0; i < input_count; i++) {
        partial->inputs[i] = gy_partial(GY_SUM);
    }
    partial->outputs[0] = gy_partial(GY_SUM);
    return made.count;
}

static const gy_ops_sample concat_samples[] = {
    {.attributes.axis = {.dim = 0},
     .input_count = 3,
     .inputs = {GY_IN(-1, 1, 2, 3), GY_IN(-1, 1, 1, 3), GY_IN(-1, 1, 3, 3)},
     .differentiable = 7},
    {.attributes.axis = {.dim = 1},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 4, 2, 2), GY_IN(-1, 1, 4, 0, 2)},
     .differentiable = 3},
    {.attributes.axis = {.dim = 1},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I16, -9, 9, 3, 2)}},
};

const gy_op gy_ops_row_concat = {
    .name = "concat",
    .input_count = -1,
    .output_count = 1,
    .infer = concat_infer,
    .cost = gy_cost_move,
    .gradient = concat_gradient,
    .placements = concat_placements,
    .reference = concat_reference,
    GY_SAMPLES(concat_samples),
};
