/*
 * gather takes rows of `a` along a dimension by integer indices; scatter_add, its adjoint, sums
 * rows into their places. pick takes one element of each line along a dimension, its gradient
 * puts one there; find says where a line has a value. Indices out of range are a failure that
 * names the place.
 *
 * A table that is sharded along the gathered dimension stays where it is: each rank gives the
 * rows that it has and zeros for the others, so that the result is Partial(sum); scatter_add
 * likewise gives each rank its own rows of the sum (vocabulary-parallel embedding; Shoeybi et
 * al., "Megatron-LM", 2019). So with pick: the rank that has the element gives it, the others
 * give 0; every rank sees all indices, so that one out of range fails on each.
 */
#include "ops/ops_priv.h"

#include <math.h>
#include <string.h>

/* dim below `room`, and a result of `rank` dimensions. */
static gy_status index_check(const char *name, int dim, const gy_type *inputs, int room,
                             int rank)
{
    char texts[2][GY_TYPE_TEXT_BYTES];
    GY_TRY(gy_need_whole(name, inputs, 1));
    if (!gy_dtype_is_whole(inputs[0].dtype)) {
        GY_TRY(gy_need_real(name, inputs, 0));
    }
    if (dim < 0 || dim >= room || rank > GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_SHAPE, "%s: dimension %d of %s by %s", name, dim,
                       gy_type_text(&inputs[0], texts[0]), gy_type_text(&inputs[1], texts[1]));
    }
    return GY_OK;
}

/* a (left…, rows, right…), indices (some…) -> (left…, some…, right…) */
static gy_status gather_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    (void)input_count;
    const int dim = attributes->axis.dim, some = inputs[1].rank;
    GY_TRY(index_check("gather", dim, inputs, inputs[0].rank, inputs[0].rank - 1 + some));
    gy_type type = gy_type_plain(inputs[0].dtype, inputs[0].rank - 1 + some);
    for (int to = 0; to < type.rank; to++) {
        bool is_index = to >= dim && to < dim + some;
        type.sizes[to] = to < dim   ? inputs[0].sizes[to]
                         : is_index ? inputs[1].sizes[to - dim]
                                    : inputs[0].sizes[to - some + 1];
    }
    *outputs = type;
    return GY_OK;
}

/* a (left…, some…, right…), indices (some…) -> (left…, depth, right…) */
static gy_status scatter_infer(const gy_attributes *attributes, const gy_type *inputs,
                               int input_count, gy_type *outputs)
{
    (void)input_count;
    const int dim = attributes->axis.dim, some = inputs[1].rank;
    char texts[2][GY_TYPE_TEXT_BYTES];
    const int rank = inputs[0].rank - some + 1;
    bool fits = true;
    GY_TRY(index_check("scatter_add", dim, inputs, rank, rank));
    for (int i = 0; fits && i < some; i++) {
        fits = inputs[0].sizes[dim + i] == inputs[1].sizes[i];
    }
    if (!fits || attributes->axis.depth == INT64_MIN) {
        return gy_fail(
            GY_SHAPE, "scatter_add: values %s and indices %s do not fit at dimension %d",
            gy_type_text(&inputs[0], texts[0]), gy_type_text(&inputs[1], texts[1]), dim);
    }
    gy_type type = gy_type_plain(inputs[0].dtype, rank);
    for (int to = 0; to < type.rank; to++) {
        type.sizes[to] = to == dim  ? attributes->axis.depth
                         : to < dim ? inputs[0].sizes[to]
                                    : inputs[0].sizes[to + some - 1];
    }
    *outputs = type;
    return GY_OK;
}

static void scatter_bind(gy_attributes *attributes, int64_t batch)
{
    gy_bind_size(&attributes->axis.depth, batch);
}

/* Reads the rows or elements that it takes, not all. */
static void gather_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                        const gy_type *outputs, gy_cost *cost)
{
    gy_cost_move(attributes, &inputs[1], input_count - 1, outputs, cost);
    cost->bytes_read += cost->bytes_written;
}

static void scatter_cost(const gy_attributes *attributes, const gy_type *inputs,
                         int input_count, const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    gy_cost_of(inputs, input_count, outputs, gy_type_elements(&inputs[0]), cost);
}

gy_ops_rows gy_call_rows(const gy_kernel_call *call)
{
    const int dim = call->attributes->axis.dim;
    const bool is_gather = call->op == &gy_ops_row_gather || call->op == &gy_ops_row_pick;
    const gy_view *table = is_gather ? &call->inputs[0] : &call->outputs[0];
    const gy_type *type = is_gather ? call->input_types : call->output_types;
    const int64_t(*offsets)[GY_TENSOR_RANK_MAX] =
        is_gather ? call->input_offsets : call->output_offsets;
    return (gy_ops_rows){.all = type != NULL ? type[0].sizes[dim] : table->sizes[dim],
                         .begin = offsets != NULL ? offsets[0][dim] : 0,
                         .count = table->sizes[dim]};
}

/*
 * From a place among the long sizes (left…, some…, right…) to the place among the short ones
 * (left…, rows, right…), through the index that stands there; *is_here: this rank has that row.
 */
static gy_status short_place(const gy_kernel_call *call, const gy_ops_index *at, int long_rank,
                             gy_ops_index *place, bool *is_here)
{
    const gy_ops_rows table = gy_call_rows(call);
    const gy_view *indices = &call->inputs[1];
    const int dim = call->attributes->axis.dim, some = indices->rank;
    int64_t local = 0, index = 0;
    for (int i = 0; i < some; i++) {
        local = local * indices->sizes[i] + at->at[dim + i];
    }
    GY_TRY(gy_call_index(call, 1, local, "index", table.all, &index));
    index -= table.begin;
    *is_here = index >= 0 && index < table.count;
    *place = (gy_ops_index){{0}};
    for (int to = 0; to < long_rank - some + 1; to++) {
        place->at[to] = to == dim ? index : to < dim ? at->at[to] : at->at[to + some - 1];
    }
    return GY_OK;
}

static gy_status gather_reference(const gy_kernel_call *call)
{
    const gy_view *a = &call->inputs[0], *y = &call->outputs[0];
    gy_ops_index at = {{0}}, from;
    bool is_here = false, is_more = gy_view_count(y) > 0;
    for (; is_more; is_more = gy_ops_index_next(&at, y->sizes, y->rank)) {
        GY_TRY(short_place(call, &at, y->rank, &from, &is_here));
        if (gy_dtype_is_real(a->dtype)) {
            gy_real_put(y, &at, is_here ? gy_real_at(a, &from, a->rank) : 0);
        } else {
            gy_whole_put(y, &at, is_here ? gy_whole_at(a, &from, a->rank) : 0);
        }
    }
    return GY_OK;
}

/* In row-major order of the values, so that the rounding is fixed. */
static gy_status scatter_reference(const gy_kernel_call *call)
{
    const gy_view *a = &call->inputs[0];
    gy_view *y = &call->outputs[0];
    gy_ops_index at = {{0}}, to;
    gy_view_zero(y);
    bool is_here = false, is_more = gy_view_count(a) > 0;
    for (; is_more; is_more = gy_ops_index_next(&at, a->sizes, a->rank)) {
        GY_TRY(short_place(call, &at, a->rank, &to, &is_here));
        if (!is_here) {
            continue;
        }
        if (gy_dtype_is_real(a->dtype)) {
            gy_real_put(y, &to, gy_real_at(y, &to, y->rank) + gy_real_at(a, &at, a->rank));
        } else {
            uint64_t sum =
                (uint64_t)gy_whole_at(y, &to, y->rank) + (uint64_t)gy_whole_at(a, &at, a->rank);
            gy_whole_put(y, &to, (int64_t)sum);
        }
    }
    return GY_OK;
}

/* The gradient of an indexed row is another one by the same indices: `op` of dy. */
static gy_status same_indices(gy_builder *builder, const gy_op *op, const gy_applied *node,
                              const gy_value *dy, gy_value *dx)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.axis.dim = node->attributes->axis.dim;
    if (op == &gy_ops_row_scatter_add || op == &gy_ops_row_pick_gradient) {
        attributes.axis.depth =
            builder->ops->type(builder, node->inputs[0])->sizes[attributes.axis.dim];
    }
    dx[0] = gy_build(builder, op, &attributes, (gy_value[]){dy[0], node->inputs[1]}, 2);
    dx[1] = GY_NO_VALUE;
    return GY_OK;
}

static gy_status gather_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    return same_indices(builder, &gy_ops_row_scatter_add, node, dy, dx);
}

static gy_status scatter_gradient(gy_builder *builder, const gy_applied *node,
                                  const gy_value *dy, gy_value *dx)
{
    return same_indices(builder, &gy_ops_row_gather, node, dy, dx);
}

static int gather_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    const int dim = attributes->axis.dim, some = inputs[1].rank;
    for (int i = 0; i < some; i++) {
        gy_signature *signature = gy_signatures_add(&made);
        signature->inputs[1] = gy_shard(i);
        signature->outputs[0] = gy_shard(dim + i);
    }
    for (int d = 0; d < inputs[0].rank; d++) {
        if (d != dim) {
            gy_signatures_shard(&made, d, d < dim ? d : d + some - 1);
        }
    }
    gy_signature *rows = gy_signatures_add(&made);
    rows->inputs[0] = gy_shard(dim);
    rows->outputs[0] = gy_partial(GY_SUM);
    gy_signatures_partial(&made, 0);
    return made.count;
}

/* Each rank adds the values that it has, a partial result; or into the rows that it has. */
static int scatter_placements(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    const int dim = attributes->axis.dim, some = inputs[1].rank;
    for (int i = 0; i < some; i++) {
        gy_signature *signature = gy_signatures_add(&made);
        signature->inputs[0] = gy_shard(dim + i);
        signature->inputs[1] = gy_shard(i);
        signature->outputs[0] = gy_partial(GY_SUM);
    }
    for (int d = 0; d < inputs[0].rank; d++) {
        if (d < dim || d >= dim + some) {
            gy_signatures_shard(&made, d, d < dim ? d : d - some + 1);
        }
    }
    gy_signatures_add(&made)->outputs[0] = gy_shard(dim);
    gy_signatures_partial(&made, 0);
    return made.count;
}

static const gy_ops_sample gather_samples[] = {
    {.attributes.axis = {.dim = 0},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 5, 3), GY_IN_OF(GY_I32, 0, 5, 7)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 1},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 4, 3), GY_IN_OF(GY_I64, 0, 4, 2, 3)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 0},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 5, 3), GY_IN_OF(GY_U8, 0, 5, 0)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 0},
     .input_count = 2,
     .inputs = {GY_IN_OF(GY_I32, -9, 9, 5), GY_IN_OF(GY_I32, 0, 5, 3)}},
};

static const gy_ops_sample scatter_samples[] = {
    {.attributes.axis = {.dim = 0, .depth = 4},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 7, 3), GY_IN_OF(GY_I32, 0, 4, 7)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 1, .depth = 3},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 2, 3, 2), GY_IN_OF(GY_I64, 0, 3, 2, 3)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 0, .depth = 3},
     .input_count = 2,
     .inputs = {GY_IN_OF(GY_I32, -9, 9, 5), GY_IN_OF(GY_I32, 0, 3, 5)}},
};

const gy_op gy_ops_row_gather = {
    .name = "gather",
    .input_count = 2,
    .output_count = 1,
    .infer = gather_infer,
    .cost = gather_cost,
    .gradient = gather_gradient,
    .placements = gather_placements,
    .reference = gather_reference,
    GY_SAMPLES(gather_samples),
};

const gy_op gy_ops_row_scatter_add = {
    .name = "scatter_add",
    .input_count = 2,
    .output_count = 1,
    .infer = scatter_infer,
    .cost = scatter_cost,
    .gradient = scatter_gradient,
    .placements = scatter_placements,
    .bind = scatter_bind,
    .reference = scatter_reference,
    GY_SAMPLES(scatter_samples),
};

/* ---- pick, its gradient, find ---- */

/* The sizes of a line's results: those of `type` without `dim`. */
static gy_type without_dim(const gy_type *type, int dim)
{
    gy_type rest = gy_type_plain(type->dtype, type->rank - 1);
    for (int to = 0; to < rest.rank; to++) {
        rest.sizes[to] = type->sizes[to < dim ? to : to + 1];
    }
    return rest;
}

static gy_status check_line(const char *name, int dim, const gy_type *x, const gy_type *other)
{
    char texts[2][GY_TYPE_TEXT_BYTES];
    gy_type rest;
    if (dim >= 0 && dim < x->rank) {
        rest = without_dim(x, dim);
        rest.dtype = other->dtype;
        if (gy_type_is_same_shape(&rest, other)) {
            return GY_OK;
        }
    }
    return gy_fail(GY_SHAPE, "%s: %s and %s do not fit at dimension %d", name,
                   gy_type_text(x, texts[0]), gy_type_text(other, texts[1]), dim);
}

static gy_status pick_infer(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, gy_type *outputs)
{
    (void)input_count;
    GY_TRY(index_check("pick", attributes->axis.dim, inputs, inputs[0].rank, inputs[1].rank));
    GY_TRY(check_line("pick", attributes->axis.dim, &inputs[0], &inputs[1]));
    *outputs = without_dim(&inputs[0], attributes->axis.dim);
    return GY_OK;
}

/* (…) and (…) -> (…, depth, …) */
static gy_status unpick_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    (void)input_count;
    char texts[2][GY_TYPE_TEXT_BYTES];
    const int dim = attributes->axis.dim, rank = inputs[0].rank + 1;
    GY_TRY(index_check("pick_gradient", dim, inputs, rank, rank));
    gy_type slopes = gy_type_like(&inputs[0]);
    slopes.dtype = inputs[1].dtype;
    if (!gy_type_is_same_shape(&slopes, &inputs[1]) || attributes->axis.depth == INT64_MIN) {
        return gy_fail(GY_SHAPE,
                       "pick_gradient: values %s and indices %s, expected one of each",
                       gy_type_text(&inputs[0], texts[0]), gy_type_text(&inputs[1], texts[1]));
    }
    gy_type type = gy_type_plain(inputs[0].dtype, rank);
    for (int to = 0; to < rank; to++) {
        type.sizes[to] = to == dim ? attributes->axis.depth : inputs[0].sizes[to - (to > dim)];
    }
    *outputs = type;
    return GY_OK;
}

static gy_status find_infer(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, gy_type *outputs)
{
    (void)input_count;
    if (!gy_dtype_is_whole(inputs[0].dtype)) {
        GY_TRY(gy_need_real("find", inputs, 0));
    }
    GY_TRY(gy_need_same_dtype("find", &inputs[0], &inputs[1]));
    GY_TRY(check_line("find", attributes->axis.dim, &inputs[0], &inputs[1]));
    *outputs = without_dim(&inputs[0], attributes->axis.dim);
    outputs->dtype = GY_I64;
    return GY_OK;
}

/* The place `at` of a result, in the whole line's value: `index` put in at dim. */
static gy_ops_index line_place(const gy_ops_index *at, int dim, int rank, int64_t index)
{
    gy_ops_index place = {{0}};
    for (int to = 0; to < rank; to++) {
        place.at[to] = to == dim ? index : at->at[to - (to > dim)];
    }
    return place;
}

/* Line by line, copy from `from` to `to`: pick has the lines in its input, the gradient in its
 * output, which is 0 elsewhere. */
static gy_status pick_reference(const gy_kernel_call *call)
{
    const bool is_pick = call->op == &gy_ops_row_pick;
    const gy_view *lines = is_pick ? &call->inputs[0] : &call->outputs[0];
    const gy_view *ones = is_pick ? &call->outputs[0] : &call->inputs[0];
    const int dim = call->attributes->axis.dim;
    const gy_ops_rows line = gy_call_rows(call);
    const int64_t count = gy_view_count(ones);
    gy_ops_index at = {{0}};
    gy_view_zero(&call->outputs[0]);
    for (int64_t i = 0; i < count; i++) {
        int64_t index = 0;
        GY_TRY(gy_call_index(call, 1, i, "index", line.all, &index));
        index -= line.begin;
        if (index >= 0 && index < line.count) {
            const gy_ops_index place = line_place(&at, dim, lines->rank, index);
            const gy_view *from = is_pick ? lines : ones, *to = is_pick ? ones : lines;
            const gy_ops_index *read = is_pick ? &place : &at, *write = is_pick ? &at : &place;
            if (gy_dtype_is_real(from->dtype)) {
                gy_real_put(to, write, gy_real_at(from, read, from->rank));
            } else {
                gy_whole_put(to, write, gy_whole_at(from, read, from->rank));
            }
        }
        (void)gy_ops_index_next(&at, ones->sizes, ones->rank);
    }
    return GY_OK;
}

/* Equal, or neither a number. */
static bool is_same(const gy_view *x, const gy_ops_index *place, const gy_view *value,
                    const gy_ops_index *at)
{
    if (!gy_dtype_is_real(x->dtype)) {
        return gy_whole_at(x, place, x->rank) == gy_whole_at(value, at, value->rank);
    }
    const double a = gy_real_at(x, place, x->rank), b = gy_real_at(value, at, value->rank);
    return a == b || (isnan(a) && isnan(b));
}

static gy_status find_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0], *value = &call->inputs[1];
    const int dim = call->attributes->axis.dim;
    const int64_t all = gy_call_size(call, 0, dim), count = gy_view_count(value);
    const int64_t begin = call->input_offsets != NULL ? call->input_offsets[0][dim] : 0;
    gy_ops_index at = {{0}};
    for (int64_t i = 0; i < count; i++) {
        int64_t found = all;
        for (int64_t k = x->sizes[dim] - 1; k >= 0; k--) {
            const gy_ops_index place = line_place(&at, dim, x->rank, k);
            found = is_same(x, &place, value, &at) ? begin + k : found;
        }
        gy_whole_put(&call->outputs[0], &at, found);
        (void)gy_ops_index_next(&at, value->sizes, value->rank);
    }
    return GY_OK;
}

static gy_status pick_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                               gy_value *dx)
{
    return same_indices(builder, &gy_ops_row_pick_gradient, node, dy, dx);
}

static gy_status unpick_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    return same_indices(builder, &gy_ops_row_pick, node, dy, dx);
}

/* Lines cut along dim: each rank gives its part of the result, to be reduced so. */
static gy_signatures line_signatures(int dim, const gy_type *x, gy_reduction reduction,
                                     gy_signature *signatures)
{
    gy_signatures made = {.list = signatures};
    for (int d = 0; d < x->rank; d++) {
        gy_signature *signature = gy_signatures_add(&made);
        signature->inputs[0] = gy_shard(d);
        if (d != dim) {
            signature->inputs[1] = signature->outputs[0] = gy_shard(d - (d > dim));
        } else {
            signature->outputs[0] = gy_partial(reduction);
        }
    }
    return made;
}

static int pick_placements(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = line_signatures(attributes->axis.dim, &inputs[0], GY_SUM, signatures);
    gy_signatures_partial(&made, 0);
    return made.count;
}

static int find_placements(const gy_attributes *attributes, const gy_type *inputs,
                           int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    return line_signatures(attributes->axis.dim, &inputs[0], GY_MIN, signatures).count;
}

static int unpick_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    const int dim = attributes->axis.dim;
    for (int d = 0; d < inputs[0].rank; d++) {
        gy_signature *signature = gy_signatures_add(&made);
        signature->inputs[0] = signature->inputs[1] = gy_shard(d);
        signature->outputs[0] = gy_shard(d + (d >= dim));
    }
    gy_signatures_add(&made)->outputs[0] = gy_shard(dim);
    gy_signatures_partial(&made, 0);
    return made.count;
}

static const gy_ops_sample pick_samples[] = {
    {.attributes.axis = {.dim = 1},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 5, 4), GY_IN_OF(GY_I32, 0, 4, 5)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 1},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 5, 3), GY_IN_OF(GY_I64, 0, 5, 2, 3)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 0},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 6), {.dtype = GY_U8, .low = 0, .high = 6}},
     .differentiable = 1},
    {.attributes.axis = {.dim = 2},
     .input_count = 2,
     .inputs = {GY_IN_OF(GY_I32, -9, 9, 2, 3, 4), GY_IN_OF(GY_I32, 0, 4, 2, 3)}},
};

static const gy_ops_sample unpick_samples[] = {
    {.attributes.axis = {.dim = 1, .depth = 4},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 5), GY_IN_OF(GY_I32, 0, 4, 5)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 1, .depth = 5},
     .input_count = 2,
     .inputs = {GY_IN(-1, 1, 2, 3), GY_IN_OF(GY_I64, 0, 5, 2, 3)},
     .differentiable = 1},
    {.attributes.axis = {.dim = 0, .depth = 3},
     .input_count = 2,
     .inputs = {GY_IN_OF(GY_I32, -9, 9, 2), GY_IN_OF(GY_U8, 0, 3, 2)}},
};

static const gy_ops_sample find_samples[] = {
    {.attributes.axis = {.dim = 1},
     .input_count = 2,
     .inputs = {GY_IN_OF(GY_I32, 0, 4, 6, 5), GY_IN_OF(GY_I32, 0, 4, 6)}},
    {.attributes.axis = {.dim = 1},
     .input_count = 2,
     .inputs = {GY_IN(0, 0, 2, 3, 2), GY_IN(0, 0, 2, 2)}},
    {.attributes.axis = {.dim = 0},
     .input_count = 2,
     .inputs = {GY_IN(0, 1, 3, 2), GY_IN(0, 1, 2)}}, /* in none */
};

const gy_op gy_ops_row_pick = {
    .name = "pick",
    .input_count = 2,
    .output_count = 1,
    .infer = pick_infer,
    .cost = gather_cost,
    .gradient = pick_gradient,
    .placements = pick_placements,
    .reference = pick_reference,
    GY_SAMPLES(pick_samples),
};

const gy_op gy_ops_row_pick_gradient = {
    .name = "pick_gradient",
    .input_count = 2,
    .output_count = 1,
    .infer = unpick_infer,
    .cost = gy_cost_move,
    .gradient = unpick_gradient,
    .placements = unpick_placements,
    .bind = scatter_bind,
    .reference = pick_reference,
    GY_SAMPLES(unpick_samples),
};

const gy_op gy_ops_row_find = {
    .name = "find",
    .input_count = 2,
    .output_count = 1,
    .infer = find_infer,
    .cost = gy_cost_elementwise,
    .gradient = gy_gradient_zero,
    .placements = find_placements,
    .reference = find_reference,
    GY_SAMPLES(find_samples),
};
