/* Reference-counted tensors: storage from a pool or from the caller, holds and pins. */
#include "tensor/tensor_priv.h"

#include "base/base.h"

#include <string.h>

/* A tensor object without storage. */
static gy_tensor *new_handle(const gy_view *view)
{
    GY_ASSERT(view->rank >= 0);
    GY_ASSERT(view->rank <= GY_TENSOR_RANK_MAX);
    gy_tensor *tensor = gy_alloc_zero("tensor.handle", 1, sizeof(*tensor));
    if (tensor != NULL) {
        atomic_init(&tensor->holds, 1);
        atomic_init(&tensor->pins, 0);
        tensor->view = *view;
    }
    return tensor;
}

/* A tensor with storage of gy_view_bytes(view); view->data is ignored. */
static gy_status new_with_storage(gy_pool *pool, const gy_view *view, gy_tensor **tensor)
{
    GY_ASSERT(tensor != NULL);
    gy_tensor *made = new_handle(view);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->pool = pool == NULL ? gy_pool_heap() : pool;
    made->view.data = gy_pool_take(made->pool, gy_view_bytes(view));
    if (made->view.data == NULL) {
        gy_free(made);
        char text[GY_SHAPE_TEXT_BYTES];
        return gy_fail_within(GY_NOMEM, "tensor %s", gy_view_text(view, text));
    }
    *tensor = made;
    return GY_OK;
}

gy_status gy_tensor_new(gy_pool *pool, gy_dtype dtype, const int64_t *sizes, int rank,
                        gy_tensor **tensor)
{
    GY_ASSERT(tensor != NULL);
    int64_t count = 0;
    if (!gy_dtype_is_element(dtype)) {
        return gy_fail(GY_ARG, "tensor: element type %d does not exist", (int)dtype);
    }
    GY_TRY(gy_shape_count(sizes, rank, gy_dtype_bytes(dtype), &count));
    gy_view view = gy_view_of(NULL, dtype, sizes, rank);
    return new_with_storage(pool, &view, tensor);
}

gy_status gy_tensor_new_blocked(gy_pool *pool, gy_dtype dtype, const int64_t sizes[4],
                                gy_tensor **tensor)
{
    GY_ASSERT(tensor != NULL);
    int64_t count = 0;
    /* padding multiplies the elements by at most 16 */
    GY_TRY(gy_shape_count(sizes, 4, gy_dtype_bytes(dtype) * GY_BLOCK_CHANNELS / 2, &count));
    gy_view view = gy_view_blocked(NULL, dtype, sizes);
    return new_with_storage(pool, &view, tensor);
}

gy_status gy_tensor_zeros(gy_pool *pool, gy_dtype dtype, const int64_t *sizes, int rank,
                          gy_tensor **tensor)
{
    GY_ASSERT(tensor != NULL);
    gy_tensor *made = NULL;
    GY_TRY(gy_tensor_new(pool, dtype, sizes, rank, &made));
    memset(made->view.data, 0, gy_view_bytes(&made->view));
    *tensor = made;
    return GY_OK;
}

gy_status gy_tensor_from(gy_pool *pool, gy_dtype dtype, const int64_t *sizes, int rank,
                         const void *data, gy_tensor **tensor)
{
    GY_ASSERT(tensor != NULL);
    gy_tensor *made = NULL;
    GY_TRY(gy_tensor_new(pool, dtype, sizes, rank, &made));
    if (gy_view_count(&made->view) > 0) {
        memcpy(made->view.data, data, gy_view_bytes(&made->view));
    }
    *tensor = made;
    return GY_OK;
}

gy_status gy_tensor_wrap(const gy_view *view, void (*release)(void *arg), void *arg,
                         gy_tensor **tensor)
{
    GY_ASSERT(view != NULL);
    GY_ASSERT(tensor != NULL);
    int64_t count = 0;
    if (!gy_dtype_is_element(view->dtype)) {
        return gy_fail(GY_ARG, "tensor: element type %d does not exist", (int)view->dtype);
    }
    GY_TRY(gy_shape_count(view->sizes, view->rank, gy_dtype_bytes(view->dtype), &count));
    if (view->data == NULL && count > 0) {
        return gy_fail(GY_ARG, "a tensor of %lld elements over no memory", (long long)count);
    }
    if (view->format == GY_FORMAT_BLOCKED && view->rank != 4) {
        return gy_fail(GY_ARG, "a blocked tensor of rank %d, expected 4", view->rank);
    }
    gy_tensor *made = new_handle(view);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->release = release;
    made->release_arg = arg;
    *tensor = made;
    return GY_OK;
}

gy_status gy_tensor_share(gy_tensor *source, const gy_view *view, gy_tensor **out)
{
    GY_ASSERT(source != NULL);
    GY_ASSERT(out != NULL);
    gy_tensor *made = new_handle(view);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->root = gy_tensor_hold(source->root != NULL ? source->root : source);
    made->pool = source->pool;
    *out = made;
    return GY_OK;
}

gy_tensor *gy_tensor_hold(gy_tensor *tensor)
{
    GY_ASSERT(tensor != NULL);
    /* relaxed: a holder may add another hold without ordering other memory */
    int64_t before = atomic_fetch_add_explicit(&tensor->holds, 1, memory_order_relaxed);
    GY_ASSERT(before > 0);
    return tensor;
}

void gy_tensor_drop(gy_tensor *tensor)
{
    while (tensor != NULL) {
        /* acq_rel: the last drop sees all writes made before the other drops */
        int64_t before = atomic_fetch_sub_explicit(&tensor->holds, 1, memory_order_acq_rel);
        GY_ASSERT(before > 0);
        if (before > 1) {
            return;
        }
        gy_tensor *root = tensor->root;
        if (root == NULL) {
            /* relaxed: the drop above orders this read */
            GY_ASSERT(atomic_load_explicit(&tensor->pins, memory_order_relaxed) == 0);
            if (tensor->pool != NULL) {
                gy_pool_give(tensor->pool, tensor->view.data);
            } else if (tensor->release != NULL) {
                tensor->release(tensor->release_arg);
            }
        }
        /* a view refers to the owner of the storage directly */
        GY_ASSERT(root == NULL || root->root == NULL);
        gy_free(tensor);
        tensor = root; /* the view's hold on it */
    }
}

gy_dtype gy_tensor_dtype(const gy_tensor *tensor)
{
    GY_ASSERT(tensor != NULL);
    return tensor->view.dtype;
}

int gy_tensor_rank(const gy_tensor *tensor)
{
    GY_ASSERT(tensor != NULL);
    return tensor->view.rank;
}

int64_t gy_tensor_size(const gy_tensor *tensor, int dim)
{
    GY_ASSERT(dim >= 0);
    GY_ASSERT(dim < tensor->view.rank);
    return tensor->view.sizes[dim];
}

int64_t gy_tensor_count(const gy_tensor *tensor)
{
    GY_ASSERT(tensor != NULL);
    return gy_view_count(&tensor->view);
}

gy_pool *gy_tensor_pool(const gy_tensor *tensor)
{
    GY_ASSERT(tensor->pool == NULL || tensor->release == NULL);
    return tensor->pool;
}

gy_view gy_tensor_pin(gy_tensor *tensor)
{
    GY_ASSERT(tensor != NULL);
    gy_tensor *root = tensor->root != NULL ? tensor->root : tensor;
    /* acquire: pairs with the release in unpin, for a buffer pool that evicts once no pins are
     * left */
    int64_t before = atomic_fetch_add_explicit(&root->pins, 1, memory_order_acquire);
    GY_ASSERT(before >= 0);
    return tensor->view;
}

void gy_tensor_unpin(gy_tensor *tensor)
{
    gy_tensor *root = tensor->root != NULL ? tensor->root : tensor;
    /* release: pairs with the acquire in pin */
    int64_t before = atomic_fetch_sub_explicit(&root->pins, 1, memory_order_release);
    GY_ASSERT(before > 0);
}

gy_status gy_tensor_copy(gy_tensor *to, gy_tensor *from)
{
    GY_ASSERT(to != NULL);
    GY_ASSERT(from != NULL);
    gy_view target = gy_tensor_pin(to);
    gy_view source = gy_tensor_pin(from);
    gy_status status = gy_view_copy(&target, &source);
    gy_tensor_unpin(from);
    gy_tensor_unpin(to);
    return status;
}

double gy_tensor_get(gy_tensor *tensor, int64_t index)
{
    GY_ASSERT(index >= 0);
    GY_ASSERT(index < gy_tensor_count(tensor));
    gy_view view = gy_tensor_pin(tensor);
    double value = gy_element_get(view.dtype, view.data, gy_view_offset(&view, index));
    gy_tensor_unpin(tensor);
    return value;
}

void gy_tensor_set(gy_tensor *tensor, int64_t index, double value)
{
    GY_ASSERT(index >= 0);
    GY_ASSERT(index < gy_tensor_count(tensor));
    gy_view view = gy_tensor_pin(tensor);
    gy_element_set(view.dtype, view.data, gy_view_offset(&view, index), value);
    gy_tensor_unpin(tensor);
}

int64_t gy_tensor_get_int64(gy_tensor *tensor, int64_t index)
{
    GY_ASSERT(index >= 0);
    GY_ASSERT(index < gy_tensor_count(tensor));
    gy_view view = gy_tensor_pin(tensor);
    int64_t value = gy_element_get_whole(view.dtype, view.data, gy_view_offset(&view, index));
    gy_tensor_unpin(tensor);
    return value;
}

void gy_tensor_set_int64(gy_tensor *tensor, int64_t index, int64_t value)
{
    GY_ASSERT(index >= 0);
    GY_ASSERT(index < gy_tensor_count(tensor));
    gy_view view = gy_tensor_pin(tensor);
    gy_element_set_whole(view.dtype, view.data, gy_view_offset(&view, index), value);
    gy_tensor_unpin(tensor);
}
