/**
 * Tensors: an element type, sizes, strides and counted storage taken from a pool.
 */
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
    GY_DTYPE_NONE, /* not said: the default where an option has one, else refused */
#define GY_X(name, bytes, type) GY_##name,
    GY_DTYPE_LIST(GY_X)
#undef GY_X
        GY_DTYPE_COUNT
} gy_dtype;

/** Bytes of one element. GY_DTYPE_NONE and numbers outside the enum panic. @threads any */
GY_API size_t gy_dtype_bytes(gy_dtype dtype);
/** "f32"; "none" for GY_DTYPE_NONE; static. @threads any */
GY_API const char *gy_dtype_name(gy_dtype dtype);
/** The element type of a name. @return false when there is none of that name; `dtype` is then
 * untouched. @threads any */
GY_API bool gy_dtype_parse(const char *name, gy_dtype *dtype);

/** How the elements lie in memory. */
typedef enum gy_format {
    GY_FORMAT_DENSE,   /* by strides */
    GY_FORMAT_BLOCKED, /* 4-D (N,C,H,W) kept as nChw16c: C padded to a multiple of 16 */
} gy_format;

/**
 * What kernels work on: plain memory with sizes and strides (in elements). A value, owns
 * nothing. For GY_FORMAT_BLOCKED the sizes are the logical (N,C,H,W) and the strides are not
 * used.
 */
typedef struct gy_view {
    void *data;
    gy_dtype dtype;
    gy_format format;
    int rank; /* 0: a scalar, one element */
    int64_t sizes[GY_TENSOR_RANK_MAX];
    int64_t strides[GY_TENSOR_RANK_MAX];
} gy_view;

/** Elements of a view (1 for a scalar). */
GY_API int64_t gy_view_count(const gy_view *view);
/** True when the elements stand row-major without gaps. */
GY_API bool gy_view_is_contiguous(const gy_view *view);
/** A row-major view of `data`. rank in [0, GY_TENSOR_RANK_MAX], sizes >= 0, product below 2^62
 * (asserted). */
GY_API gy_view gy_view_of(void *data, gy_dtype dtype, const int64_t *sizes, int rank);

/** Where storage comes from: the heap, or a segment that the ranks of one host share. */
typedef struct gy_pool gy_pool;

/** The process's heap pool; never freed. */
GY_API gy_pool *gy_pool_heap(void);
/**
 * A pool over a given range (a shared segment), first fit with coalescing, 64-byte aligned
 * pieces. Borrows the memory, which must outlive it. GY_ARG size too small. @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_pool_new(void *memory, size_t size_bytes, gy_pool **pool);
/** All pieces must have been given back (asserted). NULL is fine. */
GY_API void gy_pool_free(gy_pool *pool);
/** 64-byte aligned memory, not cleared; NULL and a failure when exhausted. @threads any */
GY_API GY_MUST_CHECK void *gy_pool_take(gy_pool *pool, size_t size_bytes);
GY_API void gy_pool_give(gy_pool *pool, void *memory);

typedef struct gy_tensor gy_tensor; /* a counted handle */

/**
 * New row-major tensor, contents undefined. Caller holds it once.
 * @param pool NULL: the heap
 * @return GY_OK; GY_ARG rank, a negative size or a product over 2^62 bytes; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_tensor_new(gy_pool *pool, gy_dtype dtype,
                                             const int64_t *sizes, int rank,
                                             gy_tensor **tensor);
/** The same, zeroed. */
GY_API GY_MUST_CHECK gy_status gy_tensor_zeros(gy_pool *pool, gy_dtype dtype,
                                               const int64_t *sizes, int rank,
                                               gy_tensor **tensor);
/** The same, copied from row-major `data`. */
GY_API GY_MUST_CHECK gy_status gy_tensor_from(gy_pool *pool, gy_dtype dtype,
                                              const int64_t *sizes, int rank, const void *data,
                                              gy_tensor **tensor);
/** A tensor over memory of the caller, which must outlive it; `release(arg)` runs at the end
 * (may be NULL). */
GY_API GY_MUST_CHECK gy_status gy_tensor_wrap(const gy_view *view, void (*release)(void *arg),
                                              void *arg, gy_tensor **tensor);
GY_API gy_tensor *gy_tensor_hold(gy_tensor *tensor);
/** NULL is fine. */
GY_API void gy_tensor_drop(gy_tensor *tensor);

GY_API gy_dtype gy_tensor_dtype(const gy_tensor *tensor);
GY_API int gy_tensor_rank(const gy_tensor *tensor);
GY_API int64_t gy_tensor_size(const gy_tensor *tensor, int dim);
GY_API int64_t gy_tensor_count(const gy_tensor *tensor);

/** Memory for the elements, valid until the unpin; pins nest. A buffer pool may move what is
 * not pinned. */
GY_API gy_view gy_tensor_pin(gy_tensor *tensor);
GY_API void gy_tensor_unpin(gy_tensor *tensor);

/** Views that share storage; each is a tensor of its own, held once. GY_SHAPE with both shapes
 * in the text. */
GY_API GY_MUST_CHECK gy_status gy_tensor_slice(gy_tensor *tensor, int dim, int64_t begin,
                                               int64_t end, int64_t step, gy_tensor **out);
GY_API GY_MUST_CHECK gy_status gy_tensor_permute(gy_tensor *tensor, const int *dims,
                                                 gy_tensor **out);
/** One size may be -1. Copies when strides do not allow a view. */
GY_API GY_MUST_CHECK gy_status gy_tensor_reshape(gy_tensor *tensor, const int64_t *sizes,
                                                 int rank, gy_tensor **out);
/** Copy between equal shapes, converting the element type. */
GY_API GY_MUST_CHECK gy_status gy_tensor_copy(gy_tensor *to, gy_tensor *from);
/**
 * Element as double, by row-major index; for tests and printing. Whole numbers beyond 2^53 are
 * rounded: gy_tensor_get_int64 and gy_tensor_set_int64 keep each of their bits. To an integer
 * element a double is cut towards 0, to the ends of the range where it lies beyond, and 0 for
 * NaN.
 */
GY_API double gy_tensor_get(gy_tensor *tensor, int64_t index);
GY_API void gy_tensor_set(gy_tensor *tensor, int64_t index, double value);
/**
 * The same with whole numbers. Of a u64 element they are the bits: cast to uint64_t. A floating
 * element is cut towards 0 (the ends of the range for what lies beyond, 0 for NaN); a smaller
 * integer element keeps the low bits, a floating one is rounded to the nearest.
 */
GY_API int64_t gy_tensor_get_int64(gy_tensor *tensor, int64_t index);
GY_API void gy_tensor_set_int64(gy_tensor *tensor, int64_t index, int64_t value);

#ifdef __cplusplus
}
#endif
#endif
