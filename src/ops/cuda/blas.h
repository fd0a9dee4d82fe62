/**
 * cuBLASLt, opened at run time as the driver is: our own declarations of what is used of it.
 */
#ifndef GY_OPS_CUDA_BLAS_H
#define GY_OPS_CUDA_BLAS_H

#include "ops/cuda/driver.h"

/* Handles of the library; what they point to is not ours. */
typedef struct gy_cuda_blas_handle gy_cuda_blas_handle;
typedef struct gy_cuda_blas_desc gy_cuda_blas_desc;
typedef struct gy_cuda_blas_layout gy_cuda_blas_layout;
typedef struct gy_cuda_blas_preference gy_cuda_blas_preference;

/** cublasLtMatmulAlgo_t, which says nothing of its contents. */
typedef struct gy_cuda_blas_algorithm {
    uint64_t data[8];
} gy_cuda_blas_algorithm;

/** cublasLtMatmulHeuristicResult_t */
typedef struct gy_cuda_blas_choice {
    gy_cuda_blas_algorithm algorithm;
    size_t workspace_bytes;
    int state; /* 0: it can be used */
    float waves;
    int reserved[4];
} gy_cuda_blas_choice;

enum {
    GY_CUDA_BLAS_OUT_OF_MEMORY = 3,
    GY_CUDA_BLAS_NOT_SUPPORTED = 15,
    GY_CUDA_REAL_32 = 0, /* cudaDataType_t */
    GY_CUDA_REAL_64 = 1,
    GY_CUDA_REAL_16 = 2,
    GY_CUDA_BRAIN_16 = 14,
    GY_CUDA_COMPUTE_32 = 68, /* cublasComputeType_t */
    GY_CUDA_COMPUTE_64 = 70,
    GY_CUDA_COMPUTE_TF32 = 77,
    GY_CUDA_DESC_SCALARS = 2, /* int32_t: where both factors are; 0 the host, 1 the device */
    GY_CUDA_DESC_TRANSPOSE_A = 3, /* int32_t: 0 as it is, 1 transposed */
    GY_CUDA_DESC_TRANSPOSE_B = 4,
    GY_CUDA_DESC_EPILOGUE = 7, /* int32_t */
    GY_CUDA_DESC_BIAS = 8,     /* an address */
    GY_CUDA_EPILOGUE_RELU = 2, /* epilogues; both: their sum */
    GY_CUDA_EPILOGUE_BIAS = 4,
    GY_CUDA_LAYOUT_BATCH = 5,           /* int32_t */
    GY_CUDA_LAYOUT_BATCH_STRIDE = 6,    /* int64_t, in elements */
    GY_CUDA_PREFERENCE_WORKSPACE = 1,   /* uint64_t */
    GY_CUDA_PREFERENCE_ALIGNMENT_A = 5, /* uint32_t; of b, c and d: the next ones */
};

typedef struct gy_cuda_blas {
#define GY_X(member, symbol, parameters) int(*member) parameters;
#include "ops/cuda/blas.def"
#undef GY_X
    const char *file; /* the library's name */
} gy_cuda_blas;

/** The symbol of each function of gy_cuda_blas, under its member's name. */
typedef struct gy_cuda_blas_symbols {
#define GY_X(member, symbol, parameters) const char *member;
#include "ops/cuda/blas.def"
#undef GY_X
} gy_cuda_blas_symbols;
extern const gy_cuda_blas_symbols gy_cuda_blas_symbol;

/**
 * cuBLASLt, opened by the first call.
 * @return GY_OK; GY_NOTFOUND it is missing: names library and package; failures of
 *     gy_cuda_driver_get
 * @threads any @cost the first call up to a second: the library has 500 MB
 */
GY_MUST_CHECK gy_status gy_cuda_blas_get(const gy_cuda_blas **blas);
/** GY_OK for 0, else the failure "SYMBOL: status N": GY_NOMEM; GY_UNSUPPORTED; GY_STATE. */
GY_MUST_CHECK gy_status gy_cuda_blas_check(int code, const char *symbol);

#endif
