/**
 * DLPack: tensors handed between libraries of one process without a copy (NumPy, PyTorch, JAX,
 * CuPy and others take and give them).
 *
 * The structs have the layout of DLPack 1.0 (dlpack.h of the DLPack project); they carry names
 * of Gyre, so that a program may include both. A pointer to one of them is a pointer to the
 * other: `(DLManagedTensorVersioned *)managed`. In Python they travel in a capsule named
 * "dltensor_versioned" (gy_dlpack) or "dltensor" (gy_dlpack_unversioned).
 *
 * Ownership. Whoever makes a managed tensor fills in its deleter; whoever has it calls the
 * deleter once, when the last use of the memory has ended, from any thread. The memory stays
 * where it is until then.
 *
 * @source DLPack 1.0, https://dmlc.github.io/dlpack/latest/c_api.html
 */
#ifndef GYRE_DLPACK_H
#define GYRE_DLPACK_H

#include <gyre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GY_DLPACK_MAJOR = 1, GY_DLPACK_MINOR = 0 };

/** Kinds of memory that Gyre takes: what the processor reads. Numbers of DLPack. */
enum { GY_DLPACK_CPU = 1, GY_DLPACK_CUDA_HOST = 3 };

/** Kinds of elements. Numbers of DLPack. */
enum {
    GY_DLPACK_INT = 0,
    GY_DLPACK_UINT = 1,
    GY_DLPACK_FLOAT = 2,
    GY_DLPACK_BFLOAT = 4,
    GY_DLPACK_BOOL = 6
};

/** Bits of gy_dlpack.flags. */
#define GY_DLPACK_READ_ONLY UINT64_C(1) /* nobody may write the memory */
#define GY_DLPACK_IS_COPIED UINT64_C(2) /* the memory belongs to this tensor alone */

/** DLDevice. */
typedef struct gy_dlpack_device {
    int32_t type; /* GY_DLPACK_CPU … */
    int32_t id;
} gy_dlpack_device;

/** DLDataType: `lanes` numbers of `bits` bits an element. */
typedef struct gy_dlpack_dtype {
    uint8_t code; /* GY_DLPACK_INT … */
    uint8_t bits;
    uint16_t lanes;
} gy_dlpack_dtype;

/** DLTensor. */
typedef struct gy_dlpack_tensor {
    void *data;
    gy_dlpack_device device;
    int32_t rank;
    gy_dlpack_dtype dtype;
    int64_t *sizes;       /* (rank) */
    int64_t *strides;     /* (rank) in elements; NULL: row-major without gaps */
    uint64_t byte_offset; /* of the first element, from `data` */
} gy_dlpack_tensor;

/** DLManagedTensorVersioned. */
typedef struct gy_dlpack gy_dlpack;
struct gy_dlpack {
    uint32_t major, minor; /* of DLPack; another major number means another layout below */
    void *context;         /* the maker's */
    void (*deleter)(gy_dlpack *self); /* NULL: nothing is to be freed */
    uint64_t flags;
    gy_dlpack_tensor tensor;
};

/** DLManagedTensor, the form before DLPack 1.0. */
typedef struct gy_dlpack_unversioned gy_dlpack_unversioned;
struct gy_dlpack_unversioned {
    gy_dlpack_tensor tensor;
    void *context;
    void (*deleter)(gy_dlpack_unversioned *self);
};

/**
 * Hand a tensor out. The managed tensor holds and pins `tensor`: its memory stays in place, and
 * what one side writes the other reads. Its deleter drops both.
 *
 * @param managed  takes the managed tensor; whoever has it last calls its deleter
 * @return GY_OK; GY_UNSUPPORTED the tensor is blocked (copy it into a dense one); GY_NOMEM
 * @threads any
 * @cost no copy
 */
GY_API GY_MUST_CHECK gy_status gy_tensor_to_dlpack(gy_tensor *tensor, gy_dlpack **managed);
/** The same for those who know DLPack before 1.0. */
GY_API GY_MUST_CHECK gy_status gy_tensor_to_dlpack_unversioned(gy_tensor *tensor,
                                                               gy_dlpack_unversioned **managed);

/**
 * Take a tensor in. `tensor` is over the memory of `managed` and owns `managed` from now on:
 * with the last hold of it (or of a view of it) the deleter is called.
 *
 * @param managed  consumed when the call succeeds; on failure it stays the caller's
 * @param tensor   held once by the caller
 * @return GY_OK; GY_UNSUPPORTED another major version, memory that the processor does not read
 *         (names the device), memory that is read-only, an element type that Gyre lacks
 *         (complex, several lanes, parts of a byte); GY_ARG more than 8 dimensions, negative
 *         sizes, no memory, elements that do not lie at a multiple of their size; GY_NOMEM
 * @threads any
 * @cost no copy
 */
GY_API GY_MUST_CHECK gy_status gy_tensor_from_dlpack(gy_dlpack *managed, gy_tensor **tensor);
/** The same from those who know DLPack before 1.0, which cannot say that memory is read-only.
 */
GY_API GY_MUST_CHECK gy_status gy_tensor_from_dlpack_unversioned(gy_dlpack_unversioned *managed,
                                                                 gy_tensor **tensor);

#ifdef __cplusplus
}
#endif
#endif
