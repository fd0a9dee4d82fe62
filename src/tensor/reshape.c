/* Views of a tensor that share its storage: slice, permute, reshape. */
#include "tensor/tensor_priv.h"

#include "base/base.h"

#include <string.h>

static gy_status need_dense(const gy_tensor *tensor, const char *verb)
{
    GY_ASSERT(verb != NULL);
    if (tensor->view.format != GY_FORMAT_DENSE) {
        char text[GY_SHAPE_TEXT_BYTES];
        return gy_fail(GY_UNSUPPORTED, "cannot %s %s: copy it to a dense tensor first", verb,
                       gy_view_text(&tensor->view, text));
    }
    return GY_OK;
}

gy_status gy_tensor_slice(gy_tensor *tensor, int dim, int64_t begin, int64_t end, int64_t step,
                          gy_tensor **out)
{
    GY_ASSERT(out != NULL);
    gy_view view = tensor->view;
    char text[GY_SHAPE_TEXT_BYTES];
    GY_TRY(need_dense(tensor, "slice"));
    if (dim < 0 || dim >= view.rank) {
        return gy_fail(GY_SHAPE, "slice of dimension %d of %s, expected 0 to %d", dim,
                       gy_view_text(&view, text), view.rank - 1);
    }
    if (step < 1) {
        return gy_fail(GY_ARG, "slice with step %lld, expected 1 or more", (long long)step);
    }
    if (begin < 0 || end < begin || end > view.sizes[dim]) {
        return gy_fail(GY_SHAPE, "slice [%lld,%lld) of dimension %d of %s, which has %lld",
                       (long long)begin, (long long)end, dim, gy_view_text(&view, text),
                       (long long)view.sizes[dim]);
    }
    view = gy_view_cut(&view, dim, begin, gy_slice_count(begin, end, step), step);
    return gy_tensor_share(tensor, &view, out);
}

gy_status gy_tensor_permute(gy_tensor *tensor, const int *dims, gy_tensor **out)
{
    GY_ASSERT(dims != NULL || tensor->view.rank == 0);
    GY_TRY(need_dense(tensor, "permute"));
    const int rank = tensor->view.rank;
    unsigned seen = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 || dims[i] >= rank || (seen >> dims[i] & 1) != 0) {
            char text[GY_SHAPE_TEXT_BYTES];
            return gy_fail(GY_SHAPE,
                           "permutation of %s names dimension %d at place %d: "
                           "expected each of 0 to %d once",
                           gy_view_text(&tensor->view, text), dims[i], i, rank - 1);
        }
        seen |= 1u << dims[i];
    }
    const gy_view view = gy_view_permute(&tensor->view, dims);
    return gy_tensor_share(tensor, &view, out);
}

/* Resolve a -1 in `sizes` and check that the product is `count`. */
static gy_status resolve_sizes(const gy_view *from, const int64_t *sizes, int rank,
                               int64_t resolved[GY_TENSOR_RANK_MAX])
{
    GY_ASSERT(sizes != NULL || rank == 0);
    char a[GY_SHAPE_TEXT_BYTES], b[GY_SHAPE_TEXT_BYTES];
    const int64_t count = gy_view_count(from);
    int open = -1;
    if (rank < 0 || rank > GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_ARG, "reshape of %s to rank %d, expected 0 to %d",
                       gy_view_text(from, a), rank, GY_TENSOR_RANK_MAX);
    }
    for (int dim = 0; dim < rank; dim++) {
        resolved[dim] = sizes[dim];
        if (sizes[dim] == -1) {
            if (open >= 0) {
                return gy_fail(GY_SHAPE, "reshape of %s to %s: more than one -1",
                               gy_view_text(from, a), gy_shape_text(sizes, rank, b));
            }
            open = dim;
            resolved[dim] = 1;
        }
    }
    int64_t product = 0;
    GY_TRY(gy_shape_count(resolved, rank, gy_dtype_bytes(from->dtype), &product));
    if (open >= 0 && product > 0 && count % product == 0) {
        resolved[open] = count / product;
        product = count;
    }
    if (product != count || (open >= 0 && count == 0 && resolved[open] != 0)) {
        return gy_fail(GY_SHAPE, "cannot reshape %s (%lld elements) to %s",
                       gy_view_text(from, a), (long long)count, gy_shape_text(sizes, rank, b));
    }
    return GY_OK;
}

/*
 * Strides under which the new sizes address the old storage in row-major order; false when
 * there are none. The old dimensions form gapless groups, and each group must be a product of
 * consecutive new sizes.
 */
static bool find_strides(const gy_view *from, gy_view *to)
{
    GY_ASSERT(from->format == GY_FORMAT_DENSE);
    int64_t run_size[GY_TENSOR_RANK_MAX], run_stride[GY_TENSOR_RANK_MAX];
    int runs = 0; /* innermost first */
    for (int dim = from->rank - 1; dim >= 0; dim--) {
        if (from->sizes[dim] == 1) {
            continue;
        }
        if (runs > 0 && from->strides[dim] == run_stride[runs - 1] * run_size[runs - 1]) {
            run_size[runs - 1] *= from->sizes[dim];
        } else {
            run_size[runs] = from->sizes[dim];
            run_stride[runs++] = from->strides[dim];
        }
    }
    int run = 0;
    int64_t rest = runs > 0 ? run_size[0] : 1, stride = runs > 0 ? run_stride[0] : 1;
    for (int dim = to->rank - 1; dim >= 0; dim--) {
        if (to->sizes[dim] != 1 && rest == 1) {
            run++;
            GY_ASSERT(run < runs); /* counts are equal */
            rest = run_size[run];
            stride = run_stride[run];
        }
        if (rest % to->sizes[dim] != 0) {
            return false;
        }
        to->strides[dim] = stride;
        stride *= to->sizes[dim];
        rest /= to->sizes[dim];
    }
    return true;
}

/* A row-major copy of `from` with the shape of `shape`. */
static gy_status reshape_by_copy(gy_tensor *from, const gy_view *shape, gy_tensor **out)
{
    GY_ASSERT(gy_view_count(&from->view) == gy_view_count(shape));
    gy_tensor *made = NULL;
    GY_TRY(gy_tensor_new(from->pool, shape->dtype, shape->sizes, shape->rank, &made));
    gy_view source = gy_tensor_pin(from);
    gy_view target = gy_view_of(made->view.data, source.dtype, source.sizes, source.rank);
    gy_status status = gy_view_copy(&target, &source);
    gy_tensor_unpin(from);
    GY_ASSERT(status == GY_OK);
    GY_ASSERT(gy_view_is_contiguous(&made->view));
    *out = made;
    return GY_OK;
}

gy_status gy_tensor_reshape(gy_tensor *tensor, const int64_t *sizes, int rank, gy_tensor **out)
{
    GY_ASSERT(out != NULL);
    int64_t resolved[GY_TENSOR_RANK_MAX];
    GY_TRY(resolve_sizes(&tensor->view, sizes, rank, resolved));
    gy_view view = gy_view_of(tensor->view.data, tensor->view.dtype, resolved, rank);
    if (tensor->view.format != GY_FORMAT_DENSE) {
        return reshape_by_copy(tensor, &view, out);
    }
    if (gy_view_count(&view) == 0 || find_strides(&tensor->view, &view)) {
        return gy_tensor_share(tensor, &view, out);
    }
    return reshape_by_copy(tensor, &view, out);
}
