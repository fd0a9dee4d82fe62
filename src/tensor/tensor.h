/**
 * Room tensor: what higher rooms see beyond <gyre/tensor.h>: checked shapes, texts for error
 * messages, copies between views, element conversion.
 */
#ifndef GY_TENSOR_TENSOR_H
#define GY_TENSOR_TENSOR_H

#include <gyre/tensor.h>

/** True for the types that elements have; false for GY_DTYPE_NONE and for numbers outside the
 * enum. */
static inline bool gy_dtype_is_element(gy_dtype dtype)
{
    return dtype > GY_DTYPE_NONE && dtype < GY_DTYPE_COUNT;
}

/** Channels of one block of GY_FORMAT_BLOCKED. */
enum { GY_BLOCK_CHANNELS = 16, GY_SHAPE_TEXT_BYTES = 128 };

/**
 * The elements of a shape, checked.
 *
 * @param sizes       (rank); rank 0 is a scalar
 * @param item_bytes  bytes an element, >= 1
 * @param count       takes the product; 0 when a size is 0
 * @return GY_OK; GY_ARG rank outside [0, GY_TENSOR_RANK_MAX], a negative size, or a product of
 * the sizes (those of 0 left out, so that strides stay in range too) over 2^62 bytes
 */
GY_MUST_CHECK gy_status gy_shape_count(const int64_t *sizes, int rank, size_t item_bytes,
                                       int64_t *count);

/** "[64,784]", truncated with "..." when it does not fit; returns `out`. */
const char *gy_shape_text(const int64_t *sizes, int rank, char out[GY_SHAPE_TEXT_BYTES]);

/** "f32[64,784]"; blocked: "f32[8,3,5,5]:blocked"; returns `out`. */
const char *gy_view_text(const gy_view *view, char out[GY_SHAPE_TEXT_BYTES]);

/** True when rank and all sizes are equal. */
bool gy_view_same_shape(const gy_view *a, const gy_view *b);

/**
 * Bytes from the first to the last element: count * size when contiguous,
 * N * roundup(C,16) * H * W * size when blocked, 0 without elements.
 */
size_t gy_view_bytes(const gy_view *view);

/** A blocked view (N,C,H,W) of `data`, which has room for gy_view_bytes(). Sizes as in
 * gy_view_of. */
gy_view gy_view_blocked(void *data, gy_dtype dtype, const int64_t sizes[4]);

/** The number of elements that a slice [begin, end) with a step selects. 0 <= begin <= end,
 * step >= 1. */
static inline int64_t gy_slice_count(int64_t begin, int64_t end, int64_t step)
{
    return end == begin ? 0 : (end - begin - 1) / step + 1;
}

/** The view of `count` elements begin, begin + step, ... along dimension `dim` of a dense
 * view. */
gy_view gy_view_cut(const gy_view *view, int dim, int64_t begin, int64_t count, int64_t step);

/** The view with its dimensions permuted: dimension i is dims[i] of `view`, which is dense. */
gy_view gy_view_permute(const gy_view *view, const int *dims);

/** A dense view broadcast from the right to `sizes`: stride 0 where it repeats. */
gy_view gy_view_spread(const gy_view *view, const int64_t *sizes, int rank);

/** Offset of an element from view->data, in elements, by its row-major index in [0, count). */
int64_t gy_view_offset(const gy_view *view, int64_t index);

/**
 * Copy between equal shapes, converting the element type and the format. Channels that pad a
 * blocked `to` become zero.
 *
 * Conversion: integer to integer keeps the low bits; to a floating type rounds to nearest even;
 * floating to integer truncates toward zero, saturates at the range's ends, and gives 0 for
 * NaN.
 *
 * @param to    may be strided; no two of its elements may share memory, none with `from`
 * @param from  may repeat elements (stride 0)
 * @return GY_OK; GY_SHAPE with both shapes
 * @threads any, on different memory
 * @cost one pass; contiguous sequences of one type are memcpy
 */
GY_MUST_CHECK gy_status gy_view_copy(gy_view *to, const gy_view *from);

/** Set all elements (and the padding of a blocked view) to zero. */
void gy_view_zero(gy_view *view);

/** An element as double, and back, with the conversions of gy_view_copy. */
double gy_element_get(gy_dtype dtype, const void *data, int64_t offset);
void gy_element_set(gy_dtype dtype, void *data, int64_t offset, double value);
/** The same with 64-bit integers, which preserve every bit of an integer element (u64: as
 * bits). */
int64_t gy_element_get_whole(gy_dtype dtype, const void *data, int64_t offset);
void gy_element_set_whole(gy_dtype dtype, void *data, int64_t offset, int64_t value);

/** A new tensor in the blocked format nChw16c, contents undefined (padding too). Errors as
 * gy_tensor_new. */
GY_MUST_CHECK gy_status gy_tensor_new_blocked(gy_pool *pool, gy_dtype dtype,
                                              const int64_t sizes[4], gy_tensor **tensor);

/** The tensor's pool, NULL for wrapped memory. */
gy_pool *gy_tensor_pool(const gy_tensor *tensor);

/** Bytes of a pool in use, and the number of blocks; 0 for the heap, which does not count
 * them. */
size_t gy_pool_used_bytes(gy_pool *pool);
size_t gy_pool_piece_count(gy_pool *pool);

#endif
