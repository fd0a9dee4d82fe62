/*
 * gather takes rows of `a` along a dimension by integer indices; scatter_add, its adjoint, sums
 * rows into their places. Indices out of range are a failure that names the place.
 *
 * A table that is sharded along the gathered dimension stays where it is: each rank gives the
 * rows that it has and zeros for the others, so that the result is Partial(sum); scatter_add
 * likewise gives each rank its own rows of the sum (vocabulary-parallel embedding; Shoeybi et
 * al., "Megatron-LM", 2019).
 */
#include "ops/ops_priv.h"

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

/* Reads the rows that it takes, not the whole table. */
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
    const bool is_gather = call->op == &gy_ops_row_gather;
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

static gy_status gather_gradient(gy_builder *builder, const gy_applied *node,
                                 const gy_value *dy, gy_value *dx)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.axis.dim = node->attributes->axis.dim;
    attributes.axis.depth =
        builder->ops->type(builder, node->inputs[0])->sizes[attributes.axis.dim];
    dx[0] = gy_build(builder, &gy_ops_row_scatter_add, &attributes,
                     (gy_value[]){dy[0], node->inputs[1]}, 2);
    dx[1] = GY_NO_VALUE;
    return GY_OK;
}

static gy_status scatter_gradient(gy_builder *builder, const gy_applied *node,
                                  const gy_value *dy, gy_value *dx)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.axis.dim = node->attributes->axis.dim;
    dx[0] = gy_build(builder, &gy_ops_row_gather, &attributes,
                     (gy_value[]){dy[0], node->inputs[1]}, 2);
    dx[1] = GY_NO_VALUE;
    return GY_OK;
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
