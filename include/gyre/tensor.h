/** Tensors: an element type, sizes, strides and reference-counted storage from a pool. */
#ifndef GYRE_TENSOR_H
#define GYRE_TENSOR_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GY_TENSOR_RANK_MAX = 8 };

/** Element types: name, bytes, C type (bf16 and f16 are stored as their bits). */
#define GY_DTYPE_LIST(X)                                                                       \
    X(F64, 8, double)                                                                          \
    X(F32, 4, float)                                                                           \
    X(F16, 2, uint16_t)                                                                        \
    X(BF16, 2, uint16_t)                                                                       \
    X(I64, 8, int64_t)                                                                         \
    X(I32, 4, int32_t)                                                                         \
    X(I16, 2, int16_t)                                                                         \
    X(I8, 1, int8_t)                                                                           \
    X(U64, 8, uint64_t)                                                                        \
    X(U32, 4, uint32_t)                                                                        \
    X(U16, 2, uint16_t)                                                                        \
    X(U8, 1, uint8_t)

typedef enum gy_dtype {
    GY_DTYPE_NONE, /* unset: the default where an option has one, otherwise an error */
#define GY_X(name, bytes, type) GY_##name,
    GY_DTYPE_LIST(GY_X)
#undef GY_X
        GY_DTYPE_COUNT
} gy_dtype;

/** Size of one element in bytes, O(1). Panics for GY_DTYPE_NONE and numbers outside the enum.
 * @threads any */
GY_API size_t gy_dtype_bytes(gy_dtype dtype);
/** The type's name, such as "f32"; "none" for GY_DTYPE_NONE. The string is static.
 * @threads any */
GY_API const char *gy_dtype_name(gy_dtype dtype);
/** Look up an element type by its name. @return false for an unknown name, which leaves `dtype`
 * untouched. @threads any */
GY_API bool gy_dtype_parse(const char *name, gy_dtype *dtype);

/** Layout of the elements in memory. */
typedef enum gy_format {
    GY_FORMAT_DENSE,   /* addressed by strides */
    GY_FORMAT_BLOCKED, /* 4-D (N,C,H,W) stored as nChw16c: C padded to a multiple of 16 */
} gy_format;

/**
 * The operand of kernels: plain memory with sizes and strides, both in elements. A value that
 * owns nothing. For GY_FORMAT_BLOCKED the sizes are the logical (N,C,H,W), and the strides are
 * unused.
 */
typedef struct gy_view {
    void *data;
    gy_dtype dtype;
    gy_format format;
    int rank; /* 0: a scalar, one element */
    int64_t sizes[GY_TENSOR_RANK_MAX];
    int64_t strides[GY_TENSOR_RANK_MAX];
} gy_view;

/** Number of elements of a view (1 for a scalar). @threads any */
GY_API int64_t gy_view_count(const gy_view *view);
/** True when the elements lie in row-major order without gaps. @threads any */
GY_API bool gy_view_is_contiguous(const gy_view *view);
/** Make a row-major view of `data`, which it borrows. rank in [0, GY_TENSOR_RANK_MAX], sizes
 * >= 0, product below 2^62 (asserted). @threads any */
GY_API gy_view gy_view_of(void *data, gy_dtype dtype, const int64_t *sizes, int rank);

/** A source of tensor storage: the heap, or a segment that the ranks of one host share. */
typedef struct gy_pool gy_pool;

/** The pool of the process's heap; never freed. @threads any */
GY_API gy_pool *gy_pool_heap(void);
/**
 * Make a pool over a memory range such as a shared segment. It allocates first fit with
 * coalescing, in 64-byte aligned blocks. The pool borrows the memory, which must outlive it.
 * Caller owns the pool.
 * @return GY_OK; GY_ARG size too small; GY_NOMEM
 * @threads any
 * @cost O(blocks) an allocation
 */
GY_API GY_MUST_CHECK gy_status gy_pool_new(void *memory, size_t size_bytes, gy_pool **pool);
/** Free the pool. All its blocks must have been freed (asserted). NULL is fine. */
GY_API void gy_pool_free(gy_pool *pool);
/** Allocate 64-byte aligned memory, not cleared. @return NULL when the pool is exhausted, with
 * the failure recorded. @threads any */
GY_API GY_MUST_CHECK void *gy_pool_take(gy_pool *pool, size_t size_bytes);
GY_API void gy_pool_give(gy_pool *pool, void *memory);

typedef struct gy_tensor gy_tensor; /* a reference-counted tensor */

/**
 * Make a row-major tensor with undefined contents. The caller owns one hold.
 * @param pool NULL: the heap
 * @return GY_OK; GY_ARG rank, a negative size or a product over 2^62 bytes; GY_NOMEM
 *     @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_tensor_new(gy_pool *pool, gy_dtype dtype,
                                             const int64_t *sizes, int rank,
                                             gy_tensor **tensor);
/** The same, filled with zeros. */
GY_API GY_MUST_CHECK gy_status gy_tensor_zeros(gy_pool *pool, gy_dtype dtype,
                                               const int64_t *sizes, int rank,
                                               gy_tensor **tensor);
/** The same, filled with a copy of `data`, which is row-major with the same sizes and type. */
GY_API GY_MUST_CHECK gy_status gy_tensor_from(gy_pool *pool, gy_dtype dtype,
                                              const int64_t *sizes, int rank, const void *data,
                                              gy_tensor **tensor);
/** Make a tensor over the caller's memory, which must outlive it. `release(arg)` runs after the
 * last hold is dropped (may be NULL). The caller owns one hold. @return GY_OK; GY_NOMEM
 * @threads any */
GY_API GY_MUST_CHECK gy_status gy_tensor_wrap(const gy_view *view, void (*release)(void *arg),
                                              void *arg, gy_tensor **tensor);
GY_API gy_tensor *gy_tensor_hold(gy_tensor *tensor);
/** Drop one hold; the last drop frees the tensor. NULL is fine. @threads any */
GY_API void gy_tensor_drop(gy_tensor *tensor);

GY_API gy_dtype gy_tensor_dtype(const gy_tensor *tensor);
GY_API int gy_tensor_rank(const gy_tensor *tensor);
GY_API int64_t gy_tensor_size(const gy_tensor *tensor, int dim);
GY_API int64_t gy_tensor_count(const gy_tensor *tensor);

/** Get the memory of the elements, valid until the matching unpin; pins nest. A buffer pool may
 * move unpinned tensors. @threads any */
GY_API gy_view gy_tensor_pin(gy_tensor *tensor);
GY_API void gy_tensor_unpin(gy_tensor *tensor);

/** The functions below make views that share storage. Each view is a tensor of its own, and the
 * caller owns one hold. @return GY_OK; GY_SHAPE with both shapes in the text; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_tensor_slice(gy_tensor *tensor, int dim, int64_t begin,
                                               int64_t end, int64_t step, gy_tensor **out);
GY_API GY_MUST_CHECK gy_status gy_tensor_permute(gy_tensor *tensor, const int *dims,
                                                 gy_tensor **out);
/** Change the sizes; one of them may be -1 and is computed. Copies the elements when no strides
 * allow a view. */
GY_API GY_MUST_CHECK gy_status gy_tensor_reshape(gy_tensor *tensor, const int64_t *sizes,
                                                 int rank, gy_tensor **out);
/** Copy between equal shapes, converting the element type. @return GY_OK; GY_SHAPE @cost one
 * pass */
GY_API GY_MUST_CHECK gy_status gy_tensor_copy(gy_tensor *to, gy_tensor *from);
/**
 * Read or write one element as a double, by row-major index; for tests and printing. Integers
 * beyond 2^53 are rounded; gy_tensor_get_int64 and gy_tensor_set_int64 preserve every bit.
 * Storing into an integer element truncates toward 0, saturates at the range's ends, and gives
 * 0 for NaN.
 */
GY_API double gy_tensor_get(gy_tensor *tensor, int64_t index);
GY_API void gy_tensor_set(gy_tensor *tensor, int64_t index, double value);
/**
 * The same with integers. A u64 element is returned as its bits: cast to uint64_t. Reading a
 * floating element truncates toward 0 (saturates at the range's ends, 0 for NaN). Storing into
 * a smaller integer element keeps the low bits; storing into a floating one rounds to nearest.
 */
GY_API int64_t gy_tensor_get_int64(gy_tensor *tensor, int64_t index);
GY_API void gy_tensor_set_int64(gy_tensor *tensor, int64_t index, int64_t value);

#ifdef __cplusplus
}
#endif
#endif
