/* DLPack: exports and imports tensors without a copy. */
#include "tensor/tensor_priv.h"

#include "base/base.h"

#include <gyre/dlpack.h>

#include <string.h>

_Static_assert(sizeof(gy_dlpack_tensor) == 48, "the layout of DLTensor");
_Static_assert(offsetof(gy_dlpack, tensor) == 32, "the layout of DLManagedTensorVersioned");
_Static_assert(offsetof(gy_dlpack_unversioned, context) == 48, "the layout of DLManagedTensor");

static const gy_dlpack_dtype types[GY_DTYPE_COUNT] = {
    [GY_F64] = {GY_DLPACK_FLOAT, 64, 1}, [GY_F32] = {GY_DLPACK_FLOAT, 32, 1},
    [GY_F16] = {GY_DLPACK_FLOAT, 16, 1}, [GY_BF16] = {GY_DLPACK_BFLOAT, 16, 1},
    [GY_I64] = {GY_DLPACK_INT, 64, 1},   [GY_I32] = {GY_DLPACK_INT, 32, 1},
    [GY_I16] = {GY_DLPACK_INT, 16, 1},   [GY_I8] = {GY_DLPACK_INT, 8, 1},
    [GY_U64] = {GY_DLPACK_UINT, 64, 1},  [GY_U32] = {GY_DLPACK_UINT, 32, 1},
    [GY_U16] = {GY_DLPACK_UINT, 16, 1},  [GY_U8] = {GY_DLPACK_UINT, 8, 1},
};

/* ---- export ---- */

/* An exported tensor: one of DLPack's two forms, and the sizes and strides that it points
 * at. */
typedef struct handed {
    union {
        gy_dlpack versioned;
        gy_dlpack_unversioned unversioned;
    } form;
    gy_tensor *tensor; /* one hold and one pin, released by the importer's deleter call */
    int64_t sizes[GY_TENSOR_RANK_MAX], strides[GY_TENSOR_RANK_MAX];
} handed;

static void take_back(handed *out)
{
    gy_tensor_unpin(out->tensor);
    gy_tensor_drop(out->tensor);
    gy_free(out);
}

static void delete_versioned(gy_dlpack *self)
{
    take_back(self->context);
}

static void delete_unversioned(gy_dlpack_unversioned *self)
{
    take_back(self->context);
}

static gy_status hand_out(gy_tensor *tensor, handed **made)
{
    GY_ASSERT(tensor != NULL);
    if (tensor->view.format != GY_FORMAT_DENSE) {
        return gy_fail(GY_UNSUPPORTED,
                       "a blocked tensor cannot be handed out, expected a dense "
                       "one: copy it first");
    }
    handed *out = gy_alloc_zero("tensor.dlpack", 1, sizeof(*out));
    if (out == NULL) {
        return GY_NOMEM;
    }
    out->tensor = gy_tensor_hold(tensor);
    *made = out;
    return GY_OK;
}

static gy_dlpack_tensor shape_of(handed *out)
{
    const gy_view view = gy_tensor_pin(out->tensor);
    memcpy(out->sizes, view.sizes, sizeof(out->sizes));
    memcpy(out->strides, view.strides, sizeof(out->strides));
    return (gy_dlpack_tensor){.data = view.data,
                              .device = {.type = GY_DLPACK_CPU},
                              .rank = view.rank,
                              .dtype = types[view.dtype],
                              .sizes = out->sizes,
                              .strides = out->strides};
}

gy_status gy_tensor_to_dlpack(gy_tensor *tensor, gy_dlpack **managed)
{
    GY_ASSERT(managed != NULL);
    handed *out = NULL;
    GY_TRY(hand_out(tensor, &out));
    out->form.versioned = (gy_dlpack){.major = GY_DLPACK_MAJOR,
                                      .minor = GY_DLPACK_MINOR,
                                      .context = out,
                                      .deleter = delete_versioned,
                                      .tensor = shape_of(out)};
    *managed = &out->form.versioned;
    return GY_OK;
}

gy_status gy_tensor_to_dlpack_unversioned(gy_tensor *tensor, gy_dlpack_unversioned **managed)
{
    GY_ASSERT(managed != NULL);
    handed *out = NULL;
    GY_TRY(hand_out(tensor, &out));
    out->form.unversioned = (gy_dlpack_unversioned){
        .context = out, .deleter = delete_unversioned, .tensor = shape_of(out)};
    *managed = &out->form.unversioned;
    return GY_OK;
}

/* ---- import ---- */

static gy_status take_dtype(gy_dlpack_dtype from, gy_dtype *dtype)
{
    if (from.code == GY_DLPACK_BOOL && from.bits == 8 && from.lanes == 1) {
        *dtype = GY_U8; /* 0 and 1, as Gyre's comparisons produce them */
        return GY_OK;
    }
    for (int i = GY_DTYPE_NONE + 1; i < GY_DTYPE_COUNT; i++) {
        if (types[i].code == from.code && types[i].bits == from.bits &&
            types[i].lanes == from.lanes) {
            *dtype = (gy_dtype)i;
            return GY_OK;
        }
    }
    return gy_fail(GY_UNSUPPORTED,
                   "dlpack: elements of kind %d, %d bits, %d lanes: expected floating point "
                   "numbers or integers of Gyre's element types",
                   from.code, from.bits, from.lanes);
}

/* The strides may have any order and may repeat elements, but every element must lie within
 * 2^62 bytes of the first. */
static gy_status take_strides(const gy_dlpack_tensor *from, gy_view *view)
{
    const int64_t limit = (INT64_C(1) << 62) / (int64_t)gy_dtype_bytes(view->dtype);
    int64_t reach = 0;
    for (int dim = 0; from->strides != NULL && dim < from->rank; dim++) {
        const int64_t stride = from->strides[dim], size = from->sizes[dim];
        int64_t far = 0;
        view->strides[dim] = size > 1 ? stride : 1;
        if (size > 1 &&
            (stride < -limit || stride > limit ||
             __builtin_mul_overflow(stride < 0 ? -stride : stride, size - 1, &far) ||
             far > limit - reach)) {
            return gy_fail(GY_ARG,
                           "dlpack: stride %lld of dimension %d of size %lld leads out "
                           "of memory",
                           (long long)stride, dim, (long long)size);
        }
        reach += far;
    }
    return GY_OK;
}

static gy_status take_place(const gy_dlpack_tensor *from, gy_view *view)
{
    const size_t bytes = gy_dtype_bytes(view->dtype);
    const int64_t count = gy_view_count(view);
    if (from->data == NULL && count > 0) {
        return gy_fail(GY_ARG, "dlpack: %lld elements over no memory", (long long)count);
    }
    if (from->data != NULL) {
        view->data = (char *)from->data + from->byte_offset;
    }
    if ((uintptr_t)view->data % bytes != 0) {
        return gy_fail(GY_ARG, "dlpack: the elements lie at %zu bytes behind a multiple of %zu",
                       (size_t)((uintptr_t)view->data % bytes), bytes);
    }
    return GY_OK;
}

static gy_status view_of(const gy_dlpack_tensor *from, gy_view *view)
{
    if (from->device.type != GY_DLPACK_CPU && from->device.type != GY_DLPACK_CUDA_HOST) {
        return gy_fail(
            GY_UNSUPPORTED,
            "dlpack: memory of device type %d, expected the processor's (1, or 3 for "
            "pinned memory): copy the tensor to the host first",
            from->device.type);
    }
    if (from->rank < 0 || from->rank > GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_ARG, "dlpack: %d dimensions, expected 0 to %d", from->rank,
                       GY_TENSOR_RANK_MAX);
    }
    if (from->rank > 0 && from->sizes == NULL) {
        return gy_fail(GY_ARG, "dlpack: %d dimensions without sizes", from->rank);
    }
    gy_dtype dtype = GY_DTYPE_NONE;
    int64_t count = 0;
    GY_TRY(take_dtype(from->dtype, &dtype));
    GY_TRY(gy_shape_count(from->sizes, from->rank, gy_dtype_bytes(dtype), &count));
    *view = gy_view_of(NULL, dtype, from->sizes, from->rank);
    GY_TRY(take_strides(from, view));
    return take_place(from, view);
}

static void release_versioned(void *arg)
{
    gy_dlpack *managed = arg;
    if (managed->deleter != NULL) {
        managed->deleter(managed);
    }
}

static void release_unversioned(void *arg)
{
    gy_dlpack_unversioned *managed = arg;
    if (managed->deleter != NULL) {
        managed->deleter(managed);
    }
}

gy_status gy_tensor_from_dlpack(gy_dlpack *managed, gy_tensor **tensor)
{
    GY_ASSERT(managed != NULL && tensor != NULL);
    if (managed->major != GY_DLPACK_MAJOR) {
        return gy_fail(GY_UNSUPPORTED, "dlpack: version %u.%u, expected %d", managed->major,
                       managed->minor, GY_DLPACK_MAJOR);
    }
    if ((managed->flags & GY_DLPACK_READ_ONLY) != 0) {
        return gy_fail(GY_UNSUPPORTED, "dlpack: the memory is read-only, and a tensor may be "
                                       "written: copy it first");
    }
    gy_view view;
    GY_TRY(view_of(&managed->tensor, &view));
    return gy_tensor_wrap(&view, release_versioned, managed, tensor);
}

gy_status gy_tensor_from_dlpack_unversioned(gy_dlpack_unversioned *managed, gy_tensor **tensor)
{
    GY_ASSERT(managed != NULL && tensor != NULL);
    gy_view view;
    GY_TRY(view_of(&managed->tensor, &view));
    return gy_tensor_wrap(&view, release_unversioned, managed, tensor);
}
