/**
 * Random samples of rows: attributes and sizes that fit, drawn from a seed. Value ranges are
 * those of the row's first sample.
 *
 *     gy_ops_sample sample;
 *     if (ops_random_sample(&gy_ops_row_matmul, &random, &sample)) { … }
 *
 * ops_random_any makes one of every row that has samples, with sizes 0 and 1 and primes beyond
 * what fits a block of threads, and integers of all types.
 */
#ifndef GY_TESTS_OPS_RANDOM_H
#define GY_TESTS_OPS_RANDOM_H

#include "ops/ops.h"

#include <string.h>

static inline int64_t ops_random_in(gy_random *random, int64_t low, int64_t high)
{
    return low + (int64_t)gy_random_below(random, (uint64_t)(high - low + 1));
}

static inline bool ops_random_chance(gy_random *random, int one_in)
{
    return gy_random_below(random, (uint64_t)one_in) == 0;
}

/* Sizes of input `index`: rank of them, each in [1, limit]. */
static inline void ops_random_sizes(gy_ops_sample *sample, int index, int rank, int64_t limit,
                                    gy_random *random)
{
    sample->inputs[index].rank = rank;
    for (int dim = 0; dim < rank; dim++) {
        sample->inputs[index].sizes[dim] = ops_random_in(random, 1, limit);
    }
}

static inline void ops_random_copy_sizes(gy_ops_sample *sample, int to, const int64_t *sizes,
                                         int rank)
{
    sample->inputs[to].rank = rank;
    memset(sample->inputs[to].sizes, 0, sizeof(sample->inputs[to].sizes));
    memcpy(sample->inputs[to].sizes, sizes, (size_t)rank * sizeof(sizes[0]));
}

/* A shape that broadcasts to the given one: fewer dimensions, some of size 1. */
static inline void ops_random_narrow(gy_ops_sample *sample, int index, const int64_t *sizes,
                                     int rank, gy_random *random)
{
    int cut = ops_random_chance(random, 3) ? (int)ops_random_in(random, 0, rank) : 0;
    ops_random_copy_sizes(sample, index, sizes + cut, rank - cut);
    for (int dim = 0; dim < rank - cut; dim++) {
        if (ops_random_chance(random, 4)) {
            sample->inputs[index].sizes[dim] = 1;
        }
    }
}

static inline void ops_random_elementwise(gy_ops_sample *sample, gy_random *random)
{
    int64_t sizes[4];
    int rank = (int)ops_random_in(random, 0, 4);
    for (int dim = 0; dim < rank; dim++) {
        sizes[dim] = ops_random_in(random, ops_random_chance(random, 20) ? 0 : 1, 5);
    }
    for (int i = 0; i < sample->input_count; i++) {
        ops_random_narrow(sample, i, sizes, rank, random);
    }
}

static inline void ops_random_reduce(gy_ops_sample *sample, gy_random *random)
{
    ops_random_sizes(sample, 0, (int)ops_random_in(random, 1, 4), 5, random);
    sample->attributes.reduce.axes =
        (uint32_t)gy_random_below(random, 1u << sample->inputs[0].rank);
    sample->attributes.reduce.keep = ops_random_chance(random, 2);
}

static inline void ops_random_along(gy_ops_sample *sample, gy_random *random)
{
    ops_random_sizes(sample, 0, (int)ops_random_in(random, 1, 4), 5, random);
    sample->attributes.axis.dim = (int32_t)ops_random_in(random, 0, sample->inputs[0].rank - 1);
}

static inline void ops_random_matmul(gy_ops_sample *sample, gy_random *random)
{
    int64_t batch[2], m = ops_random_in(random, 1, 6), k = ops_random_in(random, 1, 6);
    int64_t n = ops_random_in(random, 1, 6);
    int rank = (int)ops_random_in(random, 0, 2);
    for (int dim = 0; dim < rank; dim++) {
        batch[dim] = ops_random_in(random, 1, 4);
    }
    bool ta = ops_random_chance(random, 2), tb = ops_random_chance(random, 2);
    sample->attributes.matmul.transpose_a = ta;
    sample->attributes.matmul.transpose_b = tb;
    for (int i = 0; i < 2; i++) {
        ops_random_narrow(sample, i, batch, rank, random);
        int64_t *end = sample->inputs[i].sizes + sample->inputs[i].rank;
        bool turned = i == 0 ? ta : tb;
        end[turned ? 1 : 0] = i == 0 ? m : k;
        end[turned ? 0 : 1] = i == 0 ? k : n;
        sample->inputs[i].rank += 2;
    }
}

static inline void ops_random_conv(const gy_op *op, gy_ops_sample *sample, gy_random *random)
{
    int64_t x[4], w[4], y[4];
    for (int dim = 0; dim < 4; dim++) {
        w[dim] = ops_random_in(random, 1, 3);
        x[dim] = ops_random_in(random, dim < 2 ? 1 : w[dim], dim < 2 ? 3 : 6);
    }
    x[1] = w[1];
    y[0] = x[0];
    y[1] = w[0];
    for (int axis = 0; axis < 2; axis++) {
        int32_t stride = (int32_t)ops_random_in(random, 1, 3);
        int32_t pad = (int32_t)ops_random_in(random, 0, 2);
        sample->attributes.conv.stride[axis] = stride;
        sample->attributes.conv.pad[axis] = pad;
        y[2 + axis] = (x[2 + axis] + 2 * pad - w[2 + axis]) / stride + 1;
    }
    const bool is_input = op == &gy_ops_row_conv2d_input_gradient;
    const bool is_filter = op == &gy_ops_row_conv2d_filter_gradient;
    ops_random_copy_sizes(sample, 0, is_input ? y : x, 4);
    ops_random_copy_sizes(sample, 1, is_filter ? y : w, 4);
    if (is_input || is_filter) {
        memcpy(sample->attributes.conv.input_sizes, is_input ? x : w, sizeof(x));
    }
}

static inline void ops_random_pool(const gy_op *op, gy_ops_sample *sample, gy_random *random)
{
    int64_t x[4], y[4];
    for (int dim = 0; dim < 2; dim++) {
        x[dim] = y[dim] = ops_random_in(random, 1, 4);
    }
    for (int axis = 0; axis < 2; axis++) {
        int32_t window = (int32_t)ops_random_in(random, 1, 3);
        int32_t stride = (int32_t)ops_random_in(random, 1, 3);
        int32_t pad = (int32_t)ops_random_in(random, 0, window - 1);
        sample->attributes.pool.window[axis] = window;
        sample->attributes.pool.stride[axis] = stride;
        sample->attributes.pool.pad[axis] = pad;
        x[2 + axis] = ops_random_in(random, window, 6);
        y[2 + axis] = (x[2 + axis] + 2 * pad - window) / stride + 1;
    }
    sample->attributes.pool.count_pad = ops_random_chance(random, 2);
    if (op == &gy_ops_row_average_pool_gradient) {
        memcpy(sample->attributes.pool.input_sizes, x, sizeof(x));
        ops_random_copy_sizes(sample, 0, y, 4);
        return;
    }
    ops_random_copy_sizes(sample, 0, x, 4);
    if (sample->input_count == 2) {
        ops_random_copy_sizes(sample, 1, op == &gy_ops_row_max_pool_gradient ? y : x, 4);
    }
}

/* Merge two neighbours, or put a dimension of size 1 in. */
static inline void ops_random_reshape(gy_ops_sample *sample, gy_random *random)
{
    ops_random_sizes(sample, 0, (int)ops_random_in(random, 1, 4), 5, random);
    const int64_t *from = sample->inputs[0].sizes;
    const int rank = sample->inputs[0].rank;
    int at = (int)ops_random_in(random, 0, rank - 1), to = 0;
    const bool merge = at + 1 < rank && ops_random_chance(random, 2);
    int64_t *sizes = sample->attributes.shape.sizes;
    memset(sizes, 0, sizeof(sample->attributes.shape.sizes));
    for (int dim = 0; dim < rank; dim++) {
        if (dim == at && !merge) {
            sizes[to++] = 1;
        }
        if (dim == at + 1 && merge) {
            sizes[to - 1] *= from[dim];
        } else {
            sizes[to++] = from[dim];
        }
    }
    sample->attributes.shape.rank = to;
}

static inline void ops_random_slice(const gy_op *op, gy_ops_sample *sample, gy_random *random)
{
    ops_random_sizes(sample, 0, (int)ops_random_in(random, 1, 4), 6, random);
    const int dim = (int)ops_random_in(random, 0, sample->inputs[0].rank - 1);
    int64_t size = ops_random_in(random, 1, 7), step = ops_random_in(random, 1, 3);
    int64_t begin = ops_random_in(random, 0, size), end = ops_random_in(random, begin, size);
    sample->attributes.slice.dim = dim;
    sample->attributes.slice.begin = begin;
    sample->attributes.slice.end = end;
    sample->attributes.slice.step = step;
    sample->attributes.slice.size = op == &gy_ops_row_pad ? size : 0;
    sample->inputs[0].sizes[dim] =
        op == &gy_ops_row_pad ? (end - begin + step - 1) / step : size;
}

static inline void ops_random_index(const gy_op *op, gy_ops_sample *sample, gy_random *random)
{
    const int rank = (int)ops_random_in(random, 1, 3), some = (int)ops_random_in(random, 0, 2);
    const int dim = (int)ops_random_in(random, 0, rank - 1);
    const int64_t rows = ops_random_in(random, 1, 5);
    ops_random_sizes(sample, 0, rank, 4, random);
    ops_random_sizes(sample, 1, some, 4, random);
    sample->inputs[1].low = 0;
    sample->inputs[1].high = (double)rows;
    sample->attributes.axis.dim = dim;
    int64_t *sizes = sample->inputs[0].sizes;
    if (op == &gy_ops_row_gather) {
        sizes[dim] = rows;
        return;
    }
    sample->attributes.axis.depth = rows;
    memmove(sizes + dim + some, sizes + dim + 1, (size_t)(rank - dim - 1) * sizeof(sizes[0]));
    memcpy(sizes + dim, sample->inputs[1].sizes, (size_t)some * sizeof(sizes[0]));
    sample->inputs[0].rank = rank - 1 + some;
}

static inline void ops_random_norm(const gy_op *op, gy_ops_sample *sample, gy_random *random)
{
    ops_random_sizes(sample, 0, (int)ops_random_in(random, 2, 4), 4, random);
    const int rank = sample->inputs[0].rank;
    const bool is_batch = op == &gy_ops_row_batch_norm;
    const int count = is_batch ? 1 : (int)ops_random_in(random, 1, rank);
    sample->attributes.norm.epsilon = 0.1; /* lines of one element have no variance */
    sample->attributes.norm.axis_count = is_batch ? 0 : count;
    const int64_t *from = sample->inputs[0].sizes + (is_batch ? 1 : rank - count);
    ops_random_copy_sizes(sample, 1, from, count);
    ops_random_copy_sizes(sample, 2, from, count);
    if (op == &gy_ops_row_layer_norm_gradient) {
        ops_random_copy_sizes(sample, 2, sample->inputs[0].sizes, rank); /* dy */
    }
}

static inline void ops_random_concat(gy_ops_sample *sample, gy_random *random)
{
    ops_random_along(sample, random);
    sample->input_count = (int)ops_random_in(random, 1, 3);
    for (int i = 1; i < sample->input_count; i++) {
        sample->inputs[i] = sample->inputs[0];
        sample->inputs[i].sizes[sample->attributes.axis.dim] = ops_random_in(random, 1, 4);
    }
    sample->differentiable = (1u << sample->input_count) - 1u;
}

static inline void ops_random_transpose(gy_ops_sample *sample, gy_random *random)
{
    ops_random_sizes(sample, 0, (int)ops_random_in(random, 1, 4), 5, random);
    int32_t *dims = sample->attributes.permute.dims;
    memset(dims, 0, sizeof(sample->attributes.permute.dims));
    for (int i = 0; i < sample->inputs[0].rank; i++) {
        int k = (int)ops_random_in(random, 0, i);
        dims[i] = dims[k];
        dims[k] = i;
    }
}

static inline void ops_random_broadcast(gy_ops_sample *sample, gy_random *random)
{
    gy_ops_sample wide = *sample;
    ops_random_sizes(&wide, 0, (int)ops_random_in(random, 0, 4), 4, random);
    ops_random_narrow(sample, 0, wide.inputs[0].sizes, wide.inputs[0].rank, random);
    sample->attributes.shape.rank = wide.inputs[0].rank;
    memset(sample->attributes.shape.sizes, 0, sizeof(sample->attributes.shape.sizes));
    memcpy(sample->attributes.shape.sizes, wide.inputs[0].sizes,
           (size_t)wide.inputs[0].rank * sizeof(int64_t));
}

static inline void ops_random_cross_entropy(gy_ops_sample *sample, gy_random *random)
{
    const int rank = (int)ops_random_in(random, 1, 4);
    ops_random_sizes(sample, 0, rank, 4, random);
    ops_random_copy_sizes(sample, 1, sample->inputs[0].sizes, rank - 1);
    sample->inputs[1].high = (double)sample->inputs[0].sizes[rank - 1];
}

static inline void ops_random_pick(const gy_op *op, gy_ops_sample *sample, gy_random *random)
{
    const bool is_pick = op == &gy_ops_row_pick;
    ops_random_along(sample, random);
    const int dim = sample->attributes.axis.dim, rank = sample->inputs[0].rank;
    const int64_t depth = sample->inputs[0].sizes[dim];
    int64_t sizes[GY_TENSOR_RANK_MAX];
    for (int d = 0; d < rank - 1; d++) {
        sizes[d] = sample->inputs[0].sizes[d + (d >= dim)];
    }
    ops_random_copy_sizes(sample, is_pick ? 1 : 0, sizes, rank - 1);
    ops_random_copy_sizes(sample, 1, sizes, rank - 1);
    sample->inputs[1].high = (double)depth;
    sample->attributes.axis.depth = is_pick ? 0 : depth;
}

/* q, k, v and, of the gradient, out, lse and dout. */
static inline void ops_random_attention(gy_ops_sample *sample, gy_random *random)
{
    const int64_t b = ops_random_in(random, 1, 2), h = ops_random_in(random, 1, 2);
    const int64_t s = ops_random_in(random, 1, 3), t = ops_random_in(random, 1, s);
    const int64_t d = ops_random_in(random, 1, 2), e = ops_random_in(random, 1, 2);
    sample->attributes.attention.is_causal = ops_random_chance(random, 2);
    sample->attributes.attention.scale = ops_random_chance(random, 2) ? 0.5 : 0;
    ops_random_copy_sizes(sample, 0, (const int64_t[]){b, t, h, d}, 4);
    ops_random_copy_sizes(sample, 1, (const int64_t[]){b, s, h, d}, 4);
    ops_random_copy_sizes(sample, 2, (const int64_t[]){b, s, h, e}, 4);
    if (sample->input_count == 6) {
        ops_random_copy_sizes(sample, 3, (const int64_t[]){b, t, h, e}, 4);
        ops_random_copy_sizes(sample, 4, (const int64_t[]){b, h, t}, 3);
        ops_random_copy_sizes(sample, 5, (const int64_t[]){b, t, h, e}, 4);
    }
}

/**
 * A sample of the row, inputs F64 (and integers where it takes labels, indices or conditions).
 *
 * @return false: this row has none (leaves, integer casts, what the compiler makes)
 */
static inline bool ops_random_sample(const gy_op *op, gy_random *random, gy_ops_sample *sample)
{
    if (op->sample_count == 0 || op->placements == NULL || op->gradient == NULL) {
        return false;
    }
    *sample = op->samples[0];
    if ((op->flags & GY_OP_ELEMENTWISE) != 0) {
        ops_random_elementwise(sample, random);
    } else if ((op->flags & GY_OP_REDUCTION) != 0 || op == &gy_ops_row_mean ||
               op == &gy_ops_row_count) {
        ops_random_reduce(sample, random);
    } else if (op == &gy_ops_row_softmax || op == &gy_ops_row_log_softmax ||
               op == &gy_ops_row_argmax) {
        ops_random_along(sample, random);
    } else if (op == &gy_ops_row_matmul) {
        ops_random_matmul(sample, random);
    } else if (strncmp(op->name, "conv2d", 6) == 0) {
        ops_random_conv(op, sample, random);
    } else if (strstr(op->name, "_pool") != NULL) {
        ops_random_pool(op, sample, random);
    } else if (op == &gy_ops_row_reshape) {
        ops_random_reshape(sample, random);
    } else if (op == &gy_ops_row_broadcast_to) {
        ops_random_broadcast(sample, random);
    } else if (op == &gy_ops_row_transpose) {
        ops_random_transpose(sample, random);
    } else if (op == &gy_ops_row_slice || op == &gy_ops_row_pad) {
        ops_random_slice(op, sample, random);
    } else if (op == &gy_ops_row_concat) {
        ops_random_concat(sample, random);
    } else if (op == &gy_ops_row_gather || op == &gy_ops_row_scatter_add) {
        ops_random_index(op, sample, random);
    } else if (op == &gy_ops_row_layer_norm || op == &gy_ops_row_layer_norm_gradient ||
               op == &gy_ops_row_batch_norm) {
        ops_random_norm(op, sample, random);
    } else if (op == &gy_ops_row_dropout || op == &gy_ops_row_identity) {
        ops_random_sizes(sample, 0, (int)ops_random_in(random, 0, 4), 5, random);
    } else if (op == &gy_ops_row_cross_entropy || op == &gy_ops_row_cross_entropy_gradient) {
        ops_random_cross_entropy(sample, random);
    } else if (op == &gy_ops_row_pick || op == &gy_ops_row_pick_gradient) {
        ops_random_pick(op, sample, random);
    } else if (op == &gy_ops_row_attention || op == &gy_ops_row_attention_gradient) {
        ops_random_attention(sample, random);
    } else {
        return false;
    }
    return true;
}

/* ---- of every row ---- */

/* Where its attributes hold sizes that its values have too; how many. */
static inline int ops_random_own_sizes(const gy_op *op, gy_attributes *attributes,
                                       int64_t *sizes[GY_TENSOR_RANK_MAX])
{
    int64_t *from = NULL;
    int count = 4;
    if (op == &gy_ops_row_reshape || op == &gy_ops_row_broadcast_to || op == &gy_ops_row_fill) {
        from = attributes->shape.sizes;
        count = attributes->shape.rank;
    } else if (op == &gy_ops_row_conv2d_input_gradient ||
               op == &gy_ops_row_conv2d_filter_gradient) {
        from = attributes->conv.input_sizes;
    } else if (op == &gy_ops_row_average_pool_gradient) {
        from = attributes->pool.input_sizes;
    } else if (op == &gy_ops_row_one_hot || op == &gy_ops_row_scatter_add ||
               op == &gy_ops_row_pick_gradient) {
        from = &attributes->axis.depth;
        count = 1;
    }
    count = from != NULL ? count : 0;
    for (int i = 0; i < count; i++) {
        sizes[i] = &from[i];
    }
    return count;
}

/* Does the row take it, and may it be walked through by its plain definition? */
static inline bool ops_random_fits(const gy_op *op, const gy_ops_sample *sample)
{
    enum { ELEMENTS_MAX = 2000 };
    gy_type types[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    gy_cost cost;
    for (int i = 0; i < sample->input_count; i++) {
        types[i] = (gy_type){.dtype = sample->inputs[i].dtype, .rank = sample->inputs[i].rank};
        memcpy(types[i].sizes, sample->inputs[i].sizes, sizeof(types[i].sizes));
        const bool is_index = types[i].dtype != GY_F64;
        if (is_index && gy_type_count(&types[i]) > 0 &&
            sample->inputs[i].high <= sample->inputs[i].low) {
            return false; /* no integer is in an empty range */
        }
    }
    if (gy_ops_infer(op, &sample->attributes, types, sample->input_count, outputs) < 0) {
        return false;
    }
    op->cost(&sample->attributes, types, sample->input_count, outputs, &cost);
    bool is_small = cost.flops <= 20 * ELEMENTS_MAX;
    for (int i = 0; i < sample->input_count; i++) {
        is_small &= gy_type_count(&types[i]) <= ELEMENTS_MAX;
    }
    for (int o = 0; o < op->output_count; o++) {
        is_small &= gy_type_count(&outputs[o]) <= ELEMENTS_MAX;
    }
    return is_small;
}

/* One of the sizes becomes another wherever it stands, if the row takes that. */
static inline void ops_random_resize(const gy_op *op, gy_ops_sample *sample, gy_random *random)
{
    static const int64_t sizes[] = {0, 1, 1, 2, 3, 5, 7, 13, 17, 31, 67, 127, 257, 1031};
    gy_ops_sample tried = *sample;
    int64_t *all[7 * GY_TENSOR_RANK_MAX];
    int count = ops_random_own_sizes(op, &tried.attributes, all);
    for (int i = 0; i < tried.input_count; i++) {
        for (int dim = 0; dim < tried.inputs[i].rank; dim++) {
            all[count++] = &tried.inputs[i].sizes[dim];
        }
    }
    if (count == 0 || op == &gy_ops_row_fused) { /* a program has sizes of its own */
        return;
    }
    const int64_t from = *all[gy_random_below(random, (uint64_t)count)];
    const int64_t to = sizes[gy_random_below(random, GY_COUNT(sizes))];
    for (int k = 0; k < count; k++) {
        *all[k] = *all[k] == from ? to : *all[k];
    }
    for (int i = 0; i < tried.input_count; i++) {
        if (tried.inputs[i].dtype != GY_F64 && tried.inputs[i].high == (double)from) {
            tried.inputs[i].high = (double)to; /* indices of so many */
        }
    }
    if (ops_random_fits(op, &tried)) {
        *sample = tried;
    }
}

static inline gy_dtype ops_random_dtype(gy_random *random)
{
    return (gy_dtype)ops_random_in(random, GY_DTYPE_NONE + 1, GY_DTYPE_COUNT - 1);
}

/* Its integers, and the type that it is told to make, are of any type that the row takes. */
static inline void ops_random_retype(const gy_op *op, gy_ops_sample *sample, gy_random *random)
{
    for (int i = 0; i < sample->input_count; i++) {
        const gy_dtype dtype = ops_random_dtype(random), had = sample->inputs[i].dtype;
        const bool is_signed = dtype >= GY_I64 && dtype <= GY_I8;
        if (had != GY_F64 && dtype >= GY_I64 && sample->inputs[i].high <= 127 &&
            (is_signed || sample->inputs[i].low >= 0)) {
            sample->inputs[i].dtype = dtype;
            sample->inputs[i].dtype = ops_random_fits(op, sample) ? dtype : had;
        }
    }
    gy_dtype *own = op == &gy_ops_row_cast      ? &sample->attributes.cast.dtype
                    : op == &gy_ops_row_one_hot ? &sample->attributes.axis.dtype
                    : op == &gy_ops_row_fill    ? &sample->attributes.shape.dtype
                                                : NULL;
    if (own != NULL) {
        const gy_dtype had = *own;
        *own = ops_random_dtype(random);
        *own = ops_random_fits(op, sample) ? *own : had;
    }
}

/**
 * A sample of any row that has some. F64 stands for a type that is chosen later
 * (ops_example_make).
 *
 * @return false: it has none
 */
static inline bool ops_random_any(const gy_op *op, gy_random *random, gy_ops_sample *sample)
{
    if (op->sample_count == 0) {
        return false;
    }
    if (ops_random_chance(random, 2) || !ops_random_sample(op, random, sample)) {
        *sample = op->samples[gy_random_below(random, (uint64_t)op->sample_count)];
    }
    for (int64_t i = ops_random_in(random, 0, 3); i > 0; i--) {
        ops_random_resize(op, sample, random);
    }
    ops_random_retype(op, sample, random);
    return true;
}

#endif
