/**
 * Operators that move elements without computing: transpose, slice, pad, concat, broadcast,
 * gather and its adjoint, one-hot, fill, the change between plain and blocked layout, and
 * 16-bit operands as float32.
 */
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/tiles.h"

#include <string.h>

static bool any_dense(const gy_kernel_query *query)
{
    (void)query;
    return true;
}

/* ---- transpose ---- */

enum { SQUARE = 16 };

/* y: (columns,rows) from x: (rows,columns), in squares that stay in the first-level cache. */
#define TRANSPOSE(type)                                                                        \
    static void transpose_##type(const void *from, void *to, int64_t rows, int64_t columns)    \
    {                                                                                          \
        const type *x = from;                                                                  \
        type *y = to;                                                                          \
        for (int64_t r0 = 0; r0 < rows; r0 += SQUARE) {                                        \
            int64_t r1 = GY_MIN(r0 + SQUARE, rows);                                            \
            for (int64_t c0 = 0; c0 < columns; c0 += SQUARE) {                                 \
                int64_t c1 = GY_MIN(c0 + SQUARE, columns);                                     \
                for (int64_t c = c0; c < c1; c++) {                                            \
                    for (int64_t r = r0; r < r1; r++) {                                        \
                        y[c * rows + r] = x[r * columns + c];                                  \
                    }                                                                          \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }
TRANSPOSE(uint16_t)
TRANSPOSE(uint32_t)
TRANSPOSE(uint64_t)

/* Is it (b,m,n) -> (b,n,m) once dimensions that stay together are one? */
static bool is_batch_of_two(const gy_view *x, const int32_t *dims, int64_t sizes[3])
{
    int fixed = 0, split = 0;
    while (fixed < x->rank && dims[fixed] == fixed) {
        fixed++;
    }
    split = fixed < x->rank ? dims[fixed] : x->rank;
    for (int i = fixed; i < x->rank; i++) {
        int turned = i - fixed < x->rank - split ? split + i - fixed
                                                 : fixed + (i - fixed) - (x->rank - split);
        if (dims[i] != turned) {
            return false;
        }
    }
    sizes[0] = sizes[1] = sizes[2] = 1;
    for (int i = 0; i < x->rank; i++) {
        sizes[i < fixed ? 0 : i < split ? 1 : 2] *= x->sizes[i];
    }
    return true;
}

static gy_status transpose_run(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0];
    gy_view *y = &call->outputs[0];
    const int32_t *dims = call->attributes->permute.dims;
    size_t bytes = gy_dtype_bytes(x->dtype);
    int64_t sizes[3];
    if ((bytes == 4 || bytes == 8) && gy_view_is_contiguous(x) &&
        is_batch_of_two(x, dims, sizes)) {
        for (int64_t b = 0; b < sizes[0]; b++) {
            size_t at = (size_t)(b * sizes[1] * sizes[2]) * bytes;
            (bytes == 4 ? transpose_uint32_t : transpose_uint64_t)(
                (const char *)x->data + at, (char *)y->data + at, sizes[1], sizes[2]);
        }
        return GY_OK;
    }
    const gy_view turned = gy_view_permute(x, dims);
    return gy_view_copy(y, &turned);
}

const gy_kernel gy_kernel_transpose = {
    .name = "squares",
    .accepts = any_dense,
    .run = transpose_run,
    .takes_strides = true,
};

/* ---- slice, pad, concat, broadcast_to ---- */

static gy_status slice_run(const gy_kernel_call *call)
{
    const gy_attributes *a = call->attributes;
    int dim = a->slice.dim;
    int64_t count = call->outputs[0].sizes[dim];
    gy_view part = gy_view_cut(&call->inputs[0], dim, a->slice.begin, count, a->slice.step);
    return gy_view_copy(&call->outputs[0], &part);
}

static gy_status pad_run(const gy_kernel_call *call)
{
    const gy_attributes *a = call->attributes;
    int dim = a->slice.dim;
    int64_t count = call->inputs[0].sizes[dim];
    gy_view part = gy_view_cut(&call->outputs[0], dim, a->slice.begin, count, a->slice.step);
    gy_view_zero(&call->outputs[0]);
    return gy_view_copy(&part, &call->inputs[0]);
}

static gy_status concat_run(const gy_kernel_call *call)
{
    int dim = call->attributes->axis.dim;
    int64_t at = 0;
    for (int i = 0; i < call->input_count; i++) {
        int64_t count = call->inputs[i].sizes[dim];
        gy_view part = gy_view_cut(&call->outputs[0], dim, at, count, 1);
        GY_TRY(gy_view_copy(&part, &call->inputs[i]));
        at += count;
    }
    return GY_OK;
}

static gy_status broadcast_run(const gy_kernel_call *call)
{
    gy_view *y = &call->outputs[0];
    const gy_view spread = gy_view_spread(&call->inputs[0], y->sizes, y->rank);
    return gy_view_copy(y, &spread);
}

#define COPYING(what, kernel_name)                                                             \
    const gy_kernel gy_kernel_##what = {                                                       \
        .name = kernel_name,                                                                   \
        .accepts = any_dense,                                                                  \
        .run = what##_run,                                                                     \
        .takes_strides = true,                                                                 \
    };
COPYING(slice, "copy slice")
COPYING(pad, "copy pad")
COPYING(concat, "copy concat")
COPYING(broadcast, "copy broadcast")

/* ---- gather, scatter_add ---- */

/* Around the dimension: a is (outer,size,inner) elements. */
typedef struct around {
    int64_t outer, size, inner, indices;
} around;

static around around_of(const gy_view *a, int dim, const gy_view *indices)
{
    around w = {1, a->sizes[dim], 1, gy_view_count(indices)};
    for (int i = 0; i < a->rank; i++) {
        if (i != dim) {
            *(i < dim ? &w.outer : &w.inner) *= a->sizes[i];
        }
    }
    return w;
}

/* All or nothing: indices are checked before anything is written. */
static gy_status check_indices(const gy_kernel_call *call, int input, const char *what,
                               int64_t size)
{
    int64_t count = gy_view_count(&call->inputs[input]), index;
    for (int64_t i = 0; i < count; i++) {
        GY_TRY(gy_kernel_index(call, input, i, what, size, &index));
    }
    return GY_OK;
}

static bool gather_accepts(const gy_kernel_query *query)
{
    return query->inputs[1].dtype == GY_I32 || query->inputs[1].dtype == GY_I64;
}

static int64_t row_at(const gy_view *indices, int64_t i)
{
    return indices->dtype == GY_I32 ? ((const int32_t *)indices->data)[i]
                                    : ((const int64_t *)indices->data)[i];
}

static gy_status gather_run(const gy_kernel_call *call)
{
    const gy_view *a = &call->inputs[0], *indices = &call->inputs[1];
    around w = around_of(a, call->attributes->axis.dim, indices);
    size_t row = (size_t)w.inner * gy_dtype_bytes(a->dtype);
    char *to = call->outputs[0].data;
    const gy_ops_rows table = gy_call_rows(call);
    GY_TRY(check_indices(call, 1, "index", table.all));
    for (int64_t o = 0; o < w.outer; o++) {
        const char *from = (const char *)a->data + (size_t)(o * w.size) * row;
        for (int64_t i = 0; i < w.indices; i++) {
            int64_t index = row_at(indices, i) - table.begin;
            if (index >= 0 && index < table.count) {
                memcpy(to, from + (size_t)index * row, row);
            } else {
                memset(to, 0, row); /* another rank's */
            }
            to += row;
        }
    }
    return GY_OK;
}

static bool scatter_accepts(const gy_kernel_query *query)
{
    return gather_accepts(query) &&
           (query->inputs[0].dtype == GY_F32 || query->inputs[0].dtype == GY_F64);
}

/* y += x */
#define ADD(type)                                                                              \
    static void add_##type(type *restrict y, const type *restrict x, int64_t count)            \
    {                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                  \
            y[i] += x[i];                                                                      \
        }                                                                                      \
    }
ADD(float)
ADD(double)

/* Rows that meet are added in the order of the indices. */
static gy_status scatter_run(const gy_kernel_call *call)
{
    const gy_view *a = &call->inputs[0], *indices = &call->inputs[1];
    gy_view *y = &call->outputs[0];
    around w = around_of(y, call->attributes->axis.dim, indices);
    const gy_ops_rows table = gy_call_rows(call);
    GY_TRY(check_indices(call, 1, "index", table.all));
    gy_view_zero(y);
    for (int64_t o = 0; o < w.outer; o++) {
        for (int64_t i = 0; i < w.indices; i++) {
            int64_t index = row_at(indices, i) - table.begin;
            if (index < 0 || index >= table.count) {
                continue; /* another rank's */
            }
            int64_t from = (o * w.indices + i) * w.inner, to = (o * w.size + index) * w.inner;
            if (a->dtype == GY_F32) {
                add_float((float *)y->data + to, (const float *)a->data + from, w.inner);
            } else {
                add_double((double *)y->data + to, (const double *)a->data + from, w.inner);
            }
        }
    }
    return GY_OK;
}

const gy_kernel gy_kernel_gather = {
    .name = "copy gather",
    .accepts = gather_accepts,
    .run = gather_run,
};

const gy_kernel gy_kernel_scatter_add = {
    .name = "rows scatter_add",
    .accepts = scatter_accepts,
    .run = scatter_run,
};

/* ---- pick, its gradient, find ---- */

static bool pick_accepts(const gy_kernel_query *query)
{
    const size_t bytes = gy_dtype_bytes(query->inputs[0].dtype);
    return gather_accepts(query) && (bytes == 4 || bytes == 8);
}

/* One element of each line, in the lines or alone. */
static gy_status pick_run(const gy_kernel_call *call)
{
    const bool is_pick = call->op == &gy_ops_row_pick;
    const gy_view *lines = is_pick ? &call->inputs[0] : &call->outputs[0];
    const gy_view *indices = &call->inputs[1];
    const size_t bytes = gy_dtype_bytes(lines->dtype);
    around w = around_of(lines, call->attributes->axis.dim, indices);
    const gy_ops_rows line = gy_call_rows(call);
    GY_TRY(check_indices(call, 1, "index", line.all));
    gy_view_zero(&call->outputs[0]);
    for (int64_t i = 0; i < w.indices; i++) {
        const int64_t index = row_at(indices, i) - line.begin;
        if (index < 0 || index >= line.count) {
            continue; /* another rank's */
        }
        const int64_t at = (i / w.inner * w.size + index) * w.inner + i % w.inner;
        const size_t own = (size_t)i * bytes, far = (size_t)at * bytes;
        const char *from = (const char *)call->inputs[0].data + (is_pick ? far : own);
        char *to = (char *)call->outputs[0].data + (is_pick ? own : far);
        memcpy(to, from, bytes);
    }
    return GY_OK;
}

const gy_kernel gy_kernel_pick = {
    .name = "copy pick",
    .accepts = pick_accepts,
    .run = pick_run,
};

static bool find_accepts(const gy_kernel_query *query)
{
    const gy_view *x = &query->inputs[0];
    return gy_dtype_is_real(x->dtype) && query->attributes->axis.dim == x->rank - 1;
}

/* The first that equals it, or the first NaN where it is one; count: none does. */
#define FIND(type)                                                                             \
    static int64_t find_##type(const void *line, const void *value, int64_t i, int64_t count)  \
    {                                                                                          \
        const type *x = (const type *)line + i * count, v = ((const type *)value)[i];          \
        int64_t at = 0;                                                                        \
        while (at < count && !(x[at] == v || (v != v && x[at] != x[at]))) {                    \
            at++;                                                                              \
        }                                                                                      \
        return at;                                                                             \
    }
FIND(float)
FIND(double)

static gy_status find_run(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0], *value = &call->inputs[1];
    const int dim = x->rank - 1;
    const int64_t size = x->sizes[dim], count = gy_view_count(value);
    const int64_t all = call->input_types != NULL ? call->input_types[0].sizes[dim] : size;
    const int64_t begin = call->input_offsets != NULL ? call->input_offsets[0][dim] : 0;
    int64_t *to = call->outputs[0].data;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at =
            (x->dtype == GY_F32 ? find_float : find_double)(x->data, value->data, i, size);
        to[i] = at < size ? begin + at : all;
    }
    return GY_OK;
}

const gy_kernel gy_kernel_find = {
    .name = "rows find",
    .accepts = find_accepts,
    .run = find_run,
};

/* ---- one-hot ---- */

static bool one_hot_accepts(const gy_kernel_query *query)
{
    return query->attributes->axis.dim == query->inputs[0].rank &&
           query->inputs[0].dtype != GY_U64;
}

static gy_status one_hot_run(const gy_kernel_call *call)
{
    const gy_view *labels = &call->inputs[0];
    gy_view *y = &call->outputs[0];
    const int64_t depth = call->attributes->axis.depth, count = gy_view_count(labels);
    const int64_t own = y->sizes[y->rank - 1];
    const int64_t begin =
        call->output_offsets != NULL ? call->output_offsets[0][y->rank - 1] : 0;
    int64_t label = 0;
    GY_TRY(check_indices(call, 0, "label", depth));
    gy_view_zero(y);
    for (int64_t i = 0; i < count; i++) {
        GY_TRY(gy_kernel_index(call, 0, i, "label", depth, &label));
        label -= begin;
        if (label < 0 || label >= own) {
            continue; /* another rank's */
        }
        if (y->dtype == GY_F32) {
            ((float *)y->data)[i * own + label] = 1;
        } else {
            gy_element_set(y->dtype, y->data, i * own + label, 1);
        }
    }
    return GY_OK;
}

const gy_kernel gy_kernel_one_hot = {
    .name = "rows one_hot",
    .accepts = one_hot_accepts,
    .run = one_hot_run,
};

/* ---- fill ---- */

static gy_status fill_run(const gy_kernel_call *call)
{
    gy_view *y = &call->outputs[0];
    double value = call->attributes->shape.value;
    int64_t count = gy_view_count(y);
    if (y->dtype == GY_F32) {
        for (int64_t i = 0; i < count; i++) {
            ((float *)y->data)[i] = (float)value;
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            gy_element_set(y->dtype, y->data, i, value);
        }
    }
    return GY_OK;
}

const gy_kernel gy_kernel_fill = {
    .name = "fill",
    .accepts = any_dense,
    .run = fill_run,
};

/* ---- plain and blocked ---- */

static bool reorder_accepts(const gy_kernel_query *query)
{
    return query->outputs[0].format == query->attributes->reorder.format;
}

static void reorder_formats(const gy_kernel_query *query, gy_format *inputs, gy_format *outputs)
{
    inputs[0] = query->inputs[0].format;
    outputs[0] = query->attributes->reorder.format;
}

typedef struct reorder_call {
    const char *from;
    char *to;
    size_t bytes; /* of an element: 2 or 4 */
    int64_t area; /* H W */
    bool is_blocking;
} reorder_call;

static void reorder_planes(void *arg, int64_t begin, int64_t end)
{
    const reorder_call *r = arg;
    for (int64_t plane = begin; plane < end; plane++) {
        const size_t at = (size_t)(plane * r->area * 16) * r->bytes;
        (r->bytes == 2 ? transpose_uint16_t : transpose_uint32_t)(
            r->from + at, r->to + at, r->is_blocking ? 16 : r->area,
            r->is_blocking ? r->area : 16);
    }
}

static gy_status reorder_run(const gy_kernel_call *call)
{
    const gy_view *x = &call->inputs[0];
    gy_view *y = &call->outputs[0];
    const size_t bytes = gy_dtype_bytes(x->dtype);
    bool is_change = x->format != y->format;
    if ((bytes != 2 && bytes != 4) || !is_change || x->sizes[1] % 16 != 0 ||
        (x->format == GY_FORMAT_DENSE && !gy_view_is_contiguous(x))) {
        return gy_view_copy(y, x);
    }
    reorder_call r = {.from = x->data,
                      .to = y->data,
                      .bytes = bytes,
                      .area = x->sizes[2] * x->sizes[3],
                      .is_blocking = y->format == GY_FORMAT_BLOCKED};
    int64_t planes = x->sizes[0] * x->sizes[1] / 16;
    gy_parallel_for(call->engine, planes, GY_MAX(4096 / GY_MAX(r.area, (int64_t)1), (int64_t)1),
                    reorder_planes, &r);
    return GY_OK;
}

const gy_kernel gy_kernel_reorder = {
    .name = "squares reorder",
    .accepts = reorder_accepts,
    .formats = reorder_formats,
    .run = reorder_run,
    .takes_strides = true,
};
