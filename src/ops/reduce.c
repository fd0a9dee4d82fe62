/*
 * Reductions over any axes, mean, count and argmax. Sums run in double whatever the element
 * type; where a dimension is sharded the result is partial, the mean divided by the global
 * number.
 */
#include "ops/ops_priv.h"
#include "tensor/extreme.h"

#include <math.h>
#include <string.h>

/* ---- types ---- */

static gy_status reduced_infer(const char *name, const gy_attributes *attributes,
                               const gy_type *input, gy_type *output)
{
    char text[GY_TYPE_TEXT_BYTES];
    if (attributes->reduce.axes >> input->rank != 0) {
        return gy_fail(GY_SHAPE, "%s: axes 0x%x of %s, which has %d dimensions", name,
                       attributes->reduce.axes, gy_type_text(input, text), input->rank);
    }
    const uint32_t axes = gy_reduce_axes(attributes->reduce.axes, input->rank);
    gy_type type = gy_type_plain(input->dtype, 0);
    for (int dim = 0; dim < input->rank; dim++) {
        bool is_reduced = (axes >> dim & 1) != 0;
        if (!is_reduced || attributes->reduce.keep) {
            type.sizes[type.rank++] = is_reduced ? 1 : input->sizes[dim];
        }
    }
    *output = type;
    return GY_OK;
}

static gy_status number_infer(const char *name, const gy_attributes *attributes,
                              const gy_type *inputs, gy_type *outputs)
{
    if (!gy_dtype_is_whole(inputs[0].dtype)) {
        GY_TRY(gy_need_real(name, inputs, 0));
    }
    return reduced_infer(name, attributes, &inputs[0], outputs);
}

/* The largest of nothing does not exist. */
static gy_status extreme_infer(const char *name, const gy_attributes *attributes,
                               const gy_type *inputs, gy_type *outputs)
{
    const uint32_t axes = gy_reduce_axes(attributes->reduce.axes, inputs[0].rank);
    char text[GY_TYPE_TEXT_BYTES];
    for (int dim = 0; dim < inputs[0].rank; dim++) {
        if ((axes >> dim & 1) != 0 && inputs[0].sizes[dim] == 0) {
            return gy_fail(GY_SHAPE, "%s: no elements along dimension %d of %s", name, dim,
                           gy_type_text(&inputs[0], text));
        }
    }
    return number_infer(name, attributes, inputs, outputs);
}

static gy_status real_infer(const char *name, const gy_attributes *attributes,
                            const gy_type *inputs, gy_type *outputs)
{
    GY_TRY(gy_need_real(name, inputs, 0));
    return reduced_infer(name, attributes, &inputs[0], outputs);
}

static void reduce_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                        const gy_type *outputs, gy_cost *cost)
{
    (void)attributes;
    gy_cost_of(inputs, input_count, outputs, gy_type_elements(&inputs[0]), cost);
}

/* ---- plain definitions ---- */

typedef struct fold {
    double real_start;
    int64_t whole_start;  /* cut to the element type when nothing is reduced */
    gy_real_formula real; /* of (so far, next) */
    gy_whole_formula whole;
} fold;

/* Split the sizes of x into those that are kept and those that are reduced (1 elsewhere). */
static void split_sizes(const gy_view *x, uint32_t axes, gy_ops_index *kept,
                        gy_ops_index *reduced)
{
    for (int dim = 0; dim < x->rank; dim++) {
        bool is_reduced = (axes >> dim & 1) != 0;
        kept->at[dim] = is_reduced ? 1 : x->sizes[dim];
        reduced->at[dim] = is_reduced ? x->sizes[dim] : 1;
    }
}

/* The place in the output of a place with reduced dimensions 0. */
static gy_ops_index output_place(const gy_ops_index *kept, uint32_t axes, int rank, bool keep)
{
    gy_ops_index place = {{0}};
    int to = 0;
    for (int dim = 0; dim < rank; dim++) {
        if ((axes >> dim & 1) == 0 || keep) {
            place.at[to++] = kept->at[dim];
        }
    }
    return place;
}

static gy_ops_index places_sum(const gy_ops_index *a, const gy_ops_index *b)
{
    gy_ops_index sum;
    for (int dim = 0; dim < GY_TENSOR_RANK_MAX; dim++) {
        sum.at[dim] = a->at[dim] + b->at[dim];
    }
    return sum;
}

static void fold_real(const gy_view *x, const gy_ops_index *base, const gy_ops_index *reduced,
                      const fold *how, double *result)
{
    double pair[2] = {how->real_start, 0};
    gy_ops_index place = {{0}};
    if (gy_place_count(reduced->at, x->rank) > 0) {
        do {
            gy_ops_index at = places_sum(base, &place);
            pair[1] = gy_real_at(x, &at, x->rank);
            pair[0] = how->real(pair);
        } while (gy_ops_index_next(&place, reduced->at, x->rank));
    }
    *result = pair[0];
}

static void fold_whole(const gy_view *x, const gy_ops_index *base, const gy_ops_index *reduced,
                       const fold *how, int64_t *result)
{
    int64_t pair[2] = {how->whole_start, 0};
    gy_ops_index place = {{0}};
    if (gy_place_count(reduced->at, x->rank) > 0) {
        do {
            gy_ops_index at = places_sum(base, &place);
            pair[1] = gy_whole_at(x, &at, x->rank);
            pair[0] = how->whole(pair);
        } while (gy_ops_index_next(&place, reduced->at, x->rank));
    }
    *result = pair[0];
}

/* Each output element is folded from its own elements, then divided (1: not at all). */
static gy_status reduce(const gy_kernel_call *call, const fold *how, double divisor)
{
    const gy_view *x = &call->inputs[0];
    const bool keep = call->attributes->reduce.keep;
    const uint32_t axes = gy_reduce_axes(call->attributes->reduce.axes, x->rank);
    gy_ops_index kept = {{0}}, reduced = {{0}}, base = {{0}};
    split_sizes(x, axes, &kept, &reduced);
    if (gy_place_count(kept.at, x->rank) == 0) {
        return GY_OK;
    }
    do {
        gy_ops_index to = output_place(&base, axes, x->rank, keep);
        if (gy_dtype_is_real(x->dtype)) {
            double value = 0;
            fold_real(x, &base, &reduced, how, &value);
            gy_real_put(&call->outputs[0], &to, value / divisor);
        } else {
            int64_t value = 0;
            fold_whole(x, &base, &reduced, how, &value);
            gy_whole_put(&call->outputs[0], &to, value);
        }
    } while (gy_ops_index_next(&base, kept.at, x->rank));
    return GY_OK;
}

static double add_real(const double *x)
{
    return x[0] + x[1];
}
static int64_t add_whole(const int64_t *x)
{
    return (int64_t)((uint64_t)x[0] + (uint64_t)x[1]);
}
static double mul_real(const double *x)
{
    return x[0] * x[1];
}
static int64_t mul_whole(const int64_t *x)
{
    return (int64_t)((uint64_t)x[0] * (uint64_t)x[1]);
}
static double max_real(const double *x)
{
    return gy_maximum_f64(x[0], x[1]);
}
static int64_t max_whole(const int64_t *x)
{
    return GY_MAX(x[0], x[1]);
}
static double min_real(const double *x)
{
    return gy_minimum_f64(x[0], x[1]);
}
static int64_t min_whole(const int64_t *x)
{
    return GY_MIN(x[0], x[1]);
}

static gy_status sum_reference(const gy_kernel_call *call)
{
    return reduce(call, &(fold){0, 0, add_real, add_whole}, 1);
}

static gy_status prod_reference(const gy_kernel_call *call)
{
    return reduce(call, &(fold){1, 1, mul_real, mul_whole}, 1);
}

/* The extremes of an integer type, where an empty part of a shard begins. */
static int64_t lowest(gy_dtype dtype)
{
    bool is_signed = dtype == GY_I64 || dtype == GY_I32 || dtype == GY_I16 || dtype == GY_I8;
    int bits = (int)gy_dtype_bytes(dtype) * 8;
    return is_signed ? -1 - (int64_t)(UINT64_MAX >> (65 - bits)) : 0;
}

static int64_t highest(gy_dtype dtype)
{
    bool is_signed = dtype == GY_I64 || dtype == GY_I32 || dtype == GY_I16 || dtype == GY_I8;
    int bits = (int)gy_dtype_bytes(dtype) * 8;
    return (int64_t)(UINT64_MAX >> ((is_signed ? 65 : 64) - bits));
}

static gy_status max_reference(const gy_kernel_call *call)
{
    int64_t start = gy_dtype_is_real(call->inputs[0].dtype) ? 0 : lowest(call->inputs[0].dtype);
    return reduce(call, &(fold){-INFINITY, start, max_real, max_whole}, 1);
}

static gy_status min_reference(const gy_kernel_call *call)
{
    int64_t start =
        gy_dtype_is_real(call->inputs[0].dtype) ? 0 : highest(call->inputs[0].dtype);
    return reduce(call, &(fold){INFINITY, start, min_real, min_whole}, 1);
}

/* How many elements the reduced axes hold on all ranks together. */
static double global_count(const gy_kernel_call *call)
{
    const int rank = call->inputs[0].rank;
    const uint32_t axes = gy_reduce_axes(call->attributes->reduce.axes, rank);
    double count = 1;
    for (int dim = 0; dim < rank; dim++) {
        count *= (axes >> dim & 1) != 0 ? (double)gy_call_size(call, 0, dim) : 1;
    }
    return count;
}

static gy_status mean_reference(const gy_kernel_call *call)
{
    return reduce(call, &(fold){0, 0, add_real, add_whole}, global_count(call));
}

static gy_status count_reference(const gy_kernel_call *call)
{
    gy_real_put(&call->outputs[0], &(gy_ops_index){{0}}, global_count(call));
    return GY_OK;
}

/* ---- gradients ---- */

/* A reduced value with its reduced dimensions back, as size 1. */
static gy_value kept_value(gy_builder *builder, const gy_applied *node, gy_value value)
{
    if (value.node < 0 || node->attributes->reduce.keep) {
        return value;
    }
    const gy_type x = *builder->ops->type(builder, node->inputs[0]);
    const uint32_t axes = gy_reduce_axes(node->attributes->reduce.axes, x.rank);
    int64_t sizes[GY_TENSOR_RANK_MAX];
    for (int dim = 0; dim < x.rank; dim++) {
        sizes[dim] = (axes >> dim & 1) != 0 ? 1 : x.sizes[dim];
    }
    return x.rank == 0 ? value : gy_build_reshape(builder, value, sizes, x.rank);
}

static gy_status sum_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                              gy_value *dx)
{
    dx[0] = gy_build_broadcast_like(builder, kept_value(builder, node, dy[0]), node->inputs[0]);
    return GY_OK;
}

static gy_status mean_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                               gy_value *dx)
{
    const gy_value x = node->inputs[0];
    gy_value count =
        gy_build_reduce(builder, &gy_ops_row_count, x, node->attributes->reduce.axes, false);
    gy_value share =
        gy_build2(builder, &gy_ops_row_div, kept_value(builder, node, dy[0]), count);
    dx[0] = gy_build_broadcast_like(builder, share, x);
    return GY_OK;
}

/* Shared equally among those that are equal to the extreme. */
static gy_status extreme_gradient(gy_builder *builder, const gy_applied *node,
                                  const gy_value *dy, gy_value *dx)
{
    const gy_value x = node->inputs[0];
    gy_value y = kept_value(builder, node, node->outputs[0]);
    gy_value is_extreme = gy_build2(builder, &gy_ops_row_equal, x, y);
    gy_value mask = gy_build_cast_like(builder, is_extreme, x);
    const int rank = builder->ops->type(builder, x)->rank;
    gy_value ties = gy_build_reduce(builder, &gy_ops_row_sum, mask,
                                    gy_reduce_axes(node->attributes->reduce.axes, rank), true);
    gy_value share =
        gy_build2(builder, &gy_ops_row_div, kept_value(builder, node, dy[0]), ties);
    dx[0] = gy_build2(builder, &gy_ops_row_mul, mask, share);
    return GY_OK;
}

/* The product of all others by division. With p the product of the elements that are not zero:
 * p / x_i without zeros, p at the only zero, 0 elsewhere. Its own derivative is 0 at zeros. */
static gy_value others_divided(gy_builder *builder, gy_value x, uint32_t axes)
{
    gy_value zero = gy_build_scalar_like(builder, x, 0);
    gy_value one = gy_build_scalar_like(builder, x, 1);
    gy_value is_zero = gy_build2(builder, &gy_ops_row_equal, x, zero);
    gy_value safe = gy_build3(builder, &gy_ops_row_select, is_zero, one, x);
    gy_value product = gy_build_reduce(builder, &gy_ops_row_prod, safe, axes, true);
    gy_value zeros = gy_build_reduce(builder, &gy_ops_row_sum,
                                     gy_build_cast_like(builder, is_zero, x), axes, true);
    gy_value is_none =
        gy_build_cast_like(builder, gy_build2(builder, &gy_ops_row_equal, zeros, zero), x);
    gy_value is_single =
        gy_build_cast_like(builder, gy_build2(builder, &gy_ops_row_equal, zeros, one), x);
    gy_value weight = gy_build3(builder, &gy_ops_row_select, is_zero, is_single, is_none);
    gy_value others = gy_build2(builder, &gy_ops_row_div, product, safe);
    return gy_build2(builder, &gy_ops_row_mul, others, weight);
}

static gy_value cut_last(gy_builder *builder, gy_value x, int dim, int64_t begin, int64_t end)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.slice.dim = dim;
    attributes.slice.begin = begin;
    attributes.slice.end = end;
    attributes.slice.step = 1;
    return gy_build(builder, &gy_ops_row_slice, &attributes, &x, 1);
}

static gy_value join_last(gy_builder *builder, int dim, const gy_value *parts, int count)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.axis.dim = dim;
    return count == 1 ? parts[0]
                      : gy_build(builder, &gy_ops_row_concat, &attributes, parts, count);
}

enum { HALVINGS_MAX = 62 };

/*
 * The product of all others along the last dimension of x: (..., n), n >= 1, without a
 * division: the halves a and b are multiplied until one element is left, whose others are 1;
 * back up, the others of a are those of a b, times b. An odd last element goes along. O(n)
 * products.
 */
static gy_value others_halved(gy_builder *builder, gy_value x, int dim, int64_t n)
{
    gy_value halves[HALVINGS_MAX][2];
    int64_t sizes[HALVINGS_MAX];
    int levels = 0;
    for (; n > 1; n = n / 2 + n % 2) {
        const int64_t half = n / 2;
        gy_value a = cut_last(builder, x, dim, 0, half);
        gy_value b = cut_last(builder, x, dim, half, 2 * half);
        gy_value both[2] = {gy_build2(builder, &gy_ops_row_mul, a, b), GY_NO_VALUE};
        if (n % 2 != 0) {
            both[1] = cut_last(builder, x, dim, n - 1, n);
        }
        halves[levels][0] = a;
        halves[levels][1] = b;
        sizes[levels++] = n;
        x = join_last(builder, dim, both, 1 + (int)(n % 2));
    }
    gy_value others = gy_build_broadcast_like(builder, gy_build_scalar_like(builder, x, 1), x);
    while (levels-- > 0) {
        const int64_t half = sizes[levels] / 2;
        gy_value of_both = cut_last(builder, others, dim, 0, half);
        gy_value parts[3] = {gy_build2(builder, &gy_ops_row_mul, of_both, halves[levels][1]),
                             gy_build2(builder, &gy_ops_row_mul, of_both, halves[levels][0]),
                             GY_NO_VALUE};
        if (sizes[levels] % 2 != 0) {
            parts[2] = cut_last(builder, others, dim, half, half + 1);
        }
        others = join_last(builder, dim, parts, 2 + (int)(sizes[levels] % 2));
    }
    return others;
}

/* The reduced dimensions are brought to the end as one, and back. */
static gy_value others_of(gy_builder *builder, gy_value x, uint32_t axes)
{
    const gy_type type = *builder->ops->type(builder, x);
    int64_t sizes[GY_TENSOR_RANK_MAX], n = 1;
    gy_attributes there, back;
    memset(&there, 0, sizeof(there));
    memset(&back, 0, sizeof(back));
    int kept = 0, to = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int dim = 0; dim < type.rank; dim++) {
            if ((axes >> dim & 1) == (uint32_t)pass) {
                there.permute.dims[to] = dim;
                back.permute.dims[dim] = to++;
                kept += pass == 0;
            }
        }
    }
    int64_t turned_sizes[GY_TENSOR_RANK_MAX];
    for (int i = 0; i < type.rank; i++) {
        turned_sizes[i] = sizes[i] = type.sizes[there.permute.dims[i]];
        n *= i < kept ? 1 : sizes[i];
    }
    sizes[kept] = n;
    gy_value turned = gy_build(builder, &gy_ops_row_transpose, &there, &x, 1);
    gy_value flat = gy_build_reshape(builder, turned, sizes, kept + 1);
    gy_value others = others_halved(builder, flat, kept, n);
    others = gy_build_reshape(builder, others, turned_sizes, type.rank);
    return gy_build(builder, &gy_ops_row_transpose, &back, &others, 1);
}

/*
 * dx_i = dy times the product of all others, exact with zeros and in every derivative. Over a
 * symbolic size, which cannot be halved, by division: second derivatives at exact zeros are
 * then taken as 0.
 */
static gy_status prod_gradient(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                               gy_value *dx)
{
    const gy_value x = node->inputs[0];
    const gy_type type = *builder->ops->type(builder, x);
    const uint32_t axes = gy_reduce_axes(node->attributes->reduce.axes, type.rank);
    bool is_known = type.rank > 0;
    for (int dim = 0; dim < type.rank; dim++) {
        is_known = is_known && ((axes >> dim & 1) == 0 || type.sizes[dim] > 0);
    }
    gy_value slope = is_known ? others_of(builder, x, axes) : others_divided(builder, x, axes);
    dx[0] = gy_build2(builder, &gy_ops_row_mul, kept_value(builder, node, dy[0]), slope);
    return GY_OK;
}

/* ---- placements ---- */

/* A kept dimension stays sharded; a reduced one gives parts to be combined by `reduction`. */
static gy_signatures reduce_signatures(const gy_attributes *attributes, const gy_type *x,
                                       gy_reduction reduction, gy_signature *signatures)
{
    gy_signatures made = {.list = signatures};
    const uint32_t axes = gy_reduce_axes(attributes->reduce.axes, x->rank);
    int to = 0;
    for (int dim = 0; dim < x->rank; dim++) {
        bool is_reduced = (axes >> dim & 1) != 0;
        if (x->sizes[dim] != 1) {
            gy_signature *signature = gy_signatures_add(&made);
            signature->inputs[0] = gy_shard(dim);
            signature->outputs[0] = is_reduced ? gy_partial(reduction) : gy_shard(to);
        }
        to += !is_reduced || attributes->reduce.keep;
    }
    gy_signature *partial = gy_signatures_add(&made);
    partial->inputs[0] = partial->outputs[0] = gy_partial(reduction);
    return made;
}

#define REDUCTION(name, infer_rule, reduction)                                                 \
    static gy_status name##_infer(const gy_attributes *attributes, const gy_type *inputs,      \
                                  int input_count, gy_type *outputs)                           \
    {                                                                                          \
        (void)input_count;                                                                     \
        return infer_rule(#name, attributes, inputs, outputs);                                 \
    }                                                                                          \
    static int name##_placements(const gy_attributes *attributes, const gy_type *inputs,       \
                                 int input_count, const gy_type *outputs,                      \
                                 gy_signature *signatures)                                     \
    {                                                                                          \
        (void)input_count;                                                                     \
        (void)outputs;                                                                         \
        return reduce_signatures(attributes, &inputs[0], reduction, signatures).count;         \
    }

REDUCTION(sum, number_infer, GY_SUM)
REDUCTION(prod, number_infer, GY_PROD)
REDUCTION(max, extreme_infer, GY_MAX)
REDUCTION(min, extreme_infer, GY_MIN)
REDUCTION(mean, real_infer, GY_SUM)

static gy_status count_infer(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, gy_type *outputs)
{
    (void)input_count;
    gy_type reduced;
    GY_TRY(real_infer("count", attributes, inputs, &reduced));
    *outputs = gy_type_plain(inputs[0].dtype, 0);
    return GY_OK;
}

static int count_placements(const gy_attributes *attributes, const gy_type *inputs,
                            int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)attributes;
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    for (int dim = 0; dim < inputs[0].rank; dim++) {
        gy_signatures_add(&made)->inputs[0] = gy_shard(dim);
    }
    gy_signatures_add(&made)->inputs[0] = gy_partial(GY_SUM);
    return made.count;
}

/* ---- argmax ---- */

/* Sizes are known: nothing is read. */
static void count_cost(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                       const gy_type *outputs, gy_cost *cost)
{
    (void)input_count;
    gy_cost_move(attributes, inputs, 0, outputs, cost);
}

static gy_status argmax_infer(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, gy_type *outputs)
{
    (void)input_count;
    const int dim = attributes->axis.dim;
    char text[GY_TYPE_TEXT_BYTES];
    if (dim < 0 || dim >= inputs[0].rank || inputs[0].sizes[dim] == 0) {
        return gy_fail(GY_SHAPE, "argmax: dimension %d of %s is missing or empty", dim,
                       gy_type_text(&inputs[0], text));
    }
    const gy_attributes reduced = {.reduce = {.axes = 1u << dim}};
    GY_TRY(number_infer("argmax", &reduced, inputs, outputs));
    outputs->dtype = GY_I64;
    return GY_OK;
}

/* NaN is more than any number, as in max. */
static bool is_more(const gy_view *x, const gy_ops_index *next, const gy_ops_index *best)
{
    if (!gy_dtype_is_real(x->dtype)) {
        return gy_whole_at(x, next, x->rank) > gy_whole_at(x, best, x->rank);
    }
    double a = gy_real_at(x, next, x->rank), b = gy_real_at(x, best, x->rank);
    return a > b || (isnan(a) && !isnan(b));
}

static gy_status argmax_reference(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0];
    const int dim = call->attributes->axis.dim;
    gy_ops_index kept = {{0}}, reduced = {{0}}, at = {{0}};
    split_sizes(x, 1u << dim, &kept, &reduced);
    if (gy_place_count(kept.at, x->rank) == 0) {
        return GY_OK;
    }
    do {
        gy_ops_index best = at, next = at;
        for (next.at[dim] = 1; next.at[dim] < x->sizes[dim]; next.at[dim]++) {
            best = is_more(x, &next, &best) ? next : best;
        }
        gy_ops_index to = output_place(&at, 1u << dim, x->rank, false);
        gy_whole_put(&call->outputs[0], &to, best.at[dim]);
    } while (gy_ops_index_next(&at, kept.at, x->rank));
    return GY_OK;
}

/* Where the dimension is cut: the maximum of all ranks, then the first place that has it. */
static gy_status argmax_expand(gy_builder *builder, const gy_applied *node, gy_value *outputs)
{
    const gy_value x = node->inputs[0];
    gy_value best =
        gy_build_reduce(builder, &gy_ops_row_max, x, 1u << node->attributes->axis.dim, false);
    outputs[0] =
        gy_build(builder, &gy_ops_row_find, node->attributes, (gy_value[]){x, best}, 2);
    return GY_OK;
}

static int argmax_placements(const gy_attributes *attributes, const gy_type *inputs,
                             int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)input_count;
    (void)outputs;
    gy_signatures made = {.list = signatures};
    const int gone = attributes->axis.dim;
    for (int dim = 0; dim < inputs[0].rank; dim++) {
        if (dim != gone && inputs[0].sizes[dim] != 1) {
            gy_signatures_shard(&made, dim, dim - (dim > gone));
        }
    }
    return made.count;
}

/* ---- rows ---- */

static const gy_ops_sample sum_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(-1, 1, 3, 4, 5)}, .differentiable = 1},
    {.attributes.reduce = {.axes = 2},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 4, 5)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 5, .keep = true},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 4, 5)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 2},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 4, 1)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 1},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 0, 3)},
     .differentiable = 1},
    {.input_count = 1, .inputs = {GY_IN_SCALAR(-1, 1)}, .differentiable = 1},
    {.attributes.reduce = {.axes = 1},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I32, -9, 9, 5, 3)}},
};

static const gy_ops_sample prod_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(0.5, 1.5, 2, 3)}, .differentiable = 1},
    {.attributes.reduce = {.axes = 2},
     .input_count = 1,
     .inputs = {GY_IN(-1.5, -0.5, 3, 4)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 5},
     .input_count = 1,
     .inputs = {GY_IN(0.5, 1.5, 3, 2, 2)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 1},
     .input_count = 1,
     .inputs = {GY_IN(0, 0, 2, 3)}, /* zeros: the gradient and its gradient are exact there */
     .differentiable = 1},
    {.attributes.reduce = {.axes = 1, .keep = true},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I64, -4, 4, 5, 3)}},
};

static const gy_ops_sample extreme_samples[] = {
    {.input_count = 1, .inputs = {GY_IN_DISTINCT(-1, 1, 3, 4)}, .differentiable = 1},
    {.attributes.reduce = {.axes = 2, .keep = true},
     .input_count = 1,
     .inputs = {GY_IN_DISTINCT(-1, 1, 3, 4, 2)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 5},
     .input_count = 1,
     .inputs = {GY_IN_DISTINCT(-9, -5, 3, 4, 2)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 1},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I32, -9, -1, 2, 3)}}, /* on 4 ranks some parts are empty */
    {.attributes.reduce = {.axes = 1},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_U8, 1, 9, 2, 3)}},
};

static const gy_ops_sample mean_samples[] = {
    {.input_count = 1, .inputs = {GY_IN(-1, 1, 3, 4, 5)}, .differentiable = 1},
    {.attributes.reduce = {.axes = 1},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 7, 4)},
     .differentiable = 1},
    {.attributes.reduce = {.axes = 6, .keep = true},
     .input_count = 1,
     .inputs = {GY_IN(-1, 1, 3, 4, 5)},
     .differentiable = 1},
};

static const gy_ops_sample argmax_samples[] = {
    {.attributes.axis = {.dim = 1}, .input_count = 1, .inputs = {GY_IN(-1, 1, 5, 4)}},
    {.attributes.axis = {.dim = 0}, .input_count = 1, .inputs = {GY_IN(-1, 1, 5, 4, 3)}},
    {.attributes.axis = {.dim = 1},
     .input_count = 1,
     .inputs = {GY_IN_OF(GY_I32, 0, 2, 4, 9)}}, /* with ties: the first */
};

#define ROW(row_name, row_flags, row_cost, row_gradient, row_samples)                          \
    const gy_op gy_ops_row_##row_name = {                                                      \
        .name = #row_name,                                                                     \
        .input_count = 1,                                                                      \
        .output_count = 1,                                                                     \
        .flags = (row_flags),                                                                  \
        .infer = row_name##_infer,                                                             \
        .cost = (row_cost),                                                                    \
        .gradient = (row_gradient),                                                            \
        .placements = row_name##_placements,                                                   \
        .reference = row_name##_reference,                                                     \
        GY_SAMPLES(row_samples),                                                               \
    }

ROW(sum, GY_OP_REDUCTION, reduce_cost, sum_gradient, sum_samples);
ROW(prod, GY_OP_REDUCTION, reduce_cost, prod_gradient, prod_samples);
ROW(max, GY_OP_REDUCTION, reduce_cost, extreme_gradient, extreme_samples);
ROW(min, GY_OP_REDUCTION, reduce_cost, extreme_gradient, extreme_samples);
ROW(mean, 0, reduce_cost, mean_gradient, mean_samples);
ROW(count, 0, count_cost, gy_gradient_zero, mean_samples);

const gy_op gy_ops_row_argmax = {
    .name = "argmax",
    .input_count = 1,
    .output_count = 1,
    .infer = argmax_infer,
    .cost = reduce_cost,
    .gradient = gy_gradient_zero,
    .expand = argmax_expand,
    .placements = argmax_placements,
    .reference = argmax_reference,
    GY_SAMPLES(argmax_samples),
};
