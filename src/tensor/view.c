/* Shapes and views: counts with overflow checks, offsets of elements, texts. */
#include "tensor/tensor.h"

#include "base/base.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static const int64_t max_bytes = INT64_C(1) << 62;

gy_status gy_shape_count(const int64_t *sizes, int rank, size_t item_bytes, int64_t *count)
{
    GY_ASSERT(item_bytes >= 1);
    GY_ASSERT(item_bytes <= 64);
    if (rank < 0 || rank > GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_ARG, "rank %d, expected 0 to %d", rank, GY_TENSOR_RANK_MAX);
    }
    int64_t product =
        (int64_t)item_bytes; /* without sizes of 0, so that the bound covers the strides too */
    bool is_empty = false;
    char text[GY_SHAPE_TEXT_BYTES];
    for (int dim = 0; dim < rank; dim++) {
        if (sizes[dim] < 0) {
            return gy_fail(GY_ARG, "size %lld in dimension %d of %s, expected 0 or more",
                           (long long)sizes[dim], dim, gy_shape_text(sizes, rank, text));
        }
        if (sizes[dim] == 0) {
            is_empty = true;
        } else if (__builtin_mul_overflow(product, sizes[dim], &product) ||
                   product > max_bytes) {
            return gy_fail(GY_ARG, "shape %s has more than 2^62 bytes",
                           gy_shape_text(sizes, rank, text));
        }
    }
    *count = is_empty ? 0 : product / (int64_t)item_bytes;
    return GY_OK;
}

const char *gy_shape_text(const int64_t *sizes, int rank, char out[GY_SHAPE_TEXT_BYTES])
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank <= GY_TENSOR_RANK_MAX);
    size_t used = 0;
    out[used++] = '[';
    for (int dim = 0; dim < rank; dim++) {
        char number[24];
        size_t size = gy_print(number, sizeof(number), "%s%lld", dim == 0 ? "" : ",",
                               (long long)sizes[dim]);
        if (used + size + sizeof("...]") > GY_SHAPE_TEXT_BYTES) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        memcpy(out + used, number, size);
        used += size;
    }
    out[used++] = ']';
    out[used] = '\0';
    return out;
}

const char *gy_view_text(const gy_view *view, char out[GY_SHAPE_TEXT_BYTES])
{
    GY_ASSERT(view != NULL);
    char shape[GY_SHAPE_TEXT_BYTES];
    snprintf(out, GY_SHAPE_TEXT_BYTES, "%s%.115s%s", gy_dtype_name(view->dtype),
             gy_shape_text(view->sizes, view->rank, shape),
             view->format == GY_FORMAT_BLOCKED ? ":blocked" : "");
    return out;
}

bool gy_view_same_shape(const gy_view *a, const gy_view *b)
{
    GY_ASSERT(a->rank <= GY_TENSOR_RANK_MAX);
    return a->rank == b->rank &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof(a->sizes[0])) == 0;
}

int64_t gy_view_count(const gy_view *view)
{
    GY_ASSERT(view->rank >= 0);
    GY_ASSERT(view->rank <= GY_TENSOR_RANK_MAX);
    int64_t count = 1;
    for (int dim = 0; dim < view->rank; dim++) {
        count *= view->sizes[dim];
    }
    return count;
}

bool gy_view_is_contiguous(const gy_view *view)
{
    GY_ASSERT(view->rank >= 0);
    GY_ASSERT(view->rank <= GY_TENSOR_RANK_MAX);
    if (view->format != GY_FORMAT_DENSE) {
        return false;
    }
    int64_t expected = 1;
    bool is_contiguous = true;
    for (int dim = view->rank - 1; dim >= 0; dim--) {
        if (view->sizes[dim] == 0) {
            return true;
        }
        if (view->sizes[dim] != 1 && view->strides[dim] != expected) {
            is_contiguous = false;
        }
        expected *= view->sizes[dim];
    }
    return is_contiguous;
}

gy_view gy_view_of(void *data, gy_dtype dtype, const int64_t *sizes, int rank)
{
    int64_t count = 0;
    GY_ASSERT(gy_shape_count(sizes, rank, gy_dtype_bytes(dtype), &count) == GY_OK);
    gy_view view = {.data = data, .dtype = dtype, .format = GY_FORMAT_DENSE, .rank = rank};
    int64_t stride = 1;
    for (int dim = rank - 1; dim >= 0; dim--) {
        view.sizes[dim] = sizes[dim];
        view.strides[dim] = stride;
        stride *= GY_MAX(sizes[dim], 1);
    }
    return view;
}

gy_view gy_view_cut(const gy_view *view, int dim, int64_t begin, int64_t count, int64_t step)
{
    GY_ASSERT(count >= 0);
    GY_ASSERT(count == 0 || begin >= 0);
    GY_ASSERT(view->format == GY_FORMAT_DENSE);
    GY_ASSERT(dim >= 0);
    GY_ASSERT(dim < view->rank);
    gy_view part = *view;
    if (count > 0) {
        part.data = (char *)view->data +
                    begin * view->strides[dim] * (int64_t)gy_dtype_bytes(view->dtype);
    }
    part.sizes[dim] = count;
    /* a stride of a dimension of size 1 is unused, and the product might overflow */
    if (count > 1) {
        part.strides[dim] *= step;
    }
    return part;
}

gy_view gy_view_permute(const gy_view *view, const int *dims)
{
    GY_ASSERT(dims != NULL || view->rank == 0);
    GY_ASSERT(view->format == GY_FORMAT_DENSE);
    gy_view turned = *view;
    for (int i = 0; i < view->rank; i++) {
        turned.sizes[i] = view->sizes[dims[i]];
        turned.strides[i] = view->strides[dims[i]];
    }
    return turned;
}

gy_view gy_view_spread(const gy_view *view, const int64_t *sizes, int rank)
{
    GY_ASSERT(view->format == GY_FORMAT_DENSE);
    GY_ASSERT(rank >= view->rank);
    GY_ASSERT(rank <= GY_TENSOR_RANK_MAX);
    gy_view spread = *view;
    spread.rank = rank;
    for (int dim = 0; dim < rank; dim++) {
        int own = dim - (rank - view->rank);
        bool repeats = own < 0 || view->sizes[own] == 1;
        spread.sizes[dim] = sizes[dim];
        spread.strides[dim] = repeats ? 0 : view->strides[own];
    }
    return spread;
}

gy_view gy_view_blocked(void *data, gy_dtype dtype, const int64_t sizes[4])
{
    GY_ASSERT(sizes != NULL);
    gy_view view = gy_view_of(data, dtype, sizes, 4);
    view.format = GY_FORMAT_BLOCKED;
    memset(view.strides, 0, sizeof(view.strides));
    return view;
}

size_t gy_view_bytes(const gy_view *view)
{
    GY_ASSERT(view->format == GY_FORMAT_DENSE || view->format == GY_FORMAT_BLOCKED);
    const size_t item = gy_dtype_bytes(view->dtype);
    if (gy_view_count(view) == 0) {
        return 0;
    }
    if (view->format == GY_FORMAT_BLOCKED) {
        GY_ASSERT(view->rank == 4);
        return (size_t)view->sizes[0] * gy_round_up((size_t)view->sizes[1], GY_BLOCK_CHANNELS) *
               (size_t)view->sizes[2] * (size_t)view->sizes[3] * item;
    }
    int64_t last = 0;
    for (int dim = 0; dim < view->rank; dim++) {
        last += (view->sizes[dim] - 1) * view->strides[dim];
    }
    return ((size_t)last + 1) * item;
}

int64_t gy_view_offset(const gy_view *view, int64_t index)
{
    GY_ASSERT(index >= 0);
    int64_t place[GY_TENSOR_RANK_MAX];
    for (int dim = view->rank - 1; dim >= 0; dim--) {
        place[dim] = index % view->sizes[dim];
        index /= view->sizes[dim];
    }
    GY_ASSERT(index == 0);
    if (view->format == GY_FORMAT_BLOCKED) { /* nChw16c: (n, c/16, h, w, c%16) */
        GY_ASSERT(view->rank == 4);
        const int64_t unit = GY_BLOCK_CHANNELS;
        const int64_t blocks = (view->sizes[1] + unit - 1) / unit;
        int64_t at = place[0] * blocks + place[1] / unit;
        at = (at * view->sizes[2] + place[2]) * view->sizes[3] + place[3];
        return at * unit + place[1] % unit;
    }
    int64_t offset = 0;
    for (int dim = 0; dim < view->rank; dim++) {
        offset += place[dim] * view->strides[dim];
    }
    return offset;
}
