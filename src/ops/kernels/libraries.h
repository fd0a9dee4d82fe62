/**
 * Libraries that kernels stand on, opened when first needed and never linked: OpenBLAS for
 * float64 products, oneDNN for float32 products, convolutions and pooling. A linked OpenBLAS
 * chooses its kernels before main can tell it which CPU this is.
 */
#ifndef GY_OPS_KERNELS_LIBRARIES_H
#define GY_OPS_KERNELS_LIBRARIES_H

#include "base/base.h"

#include <dnnl.h>

/** Instruction sets that kernels exist for, each containing those before it. */
typedef enum gy_tile_isa {
    GY_TILE_ISA_BASELINE,
    GY_TILE_ISA_AVX2,
    GY_TILE_ISA_AVX512
} gy_tile_isa;

/** What GYRE_ISA may be, in the order of gy_tile_isa; what GYRE_KERNEL may be. */
#define GY_TILE_ISA_CHOICES "baseline|avx2|avx512"
#define GY_KERNEL_CHOICES   "fast|reference"

/**
 * The best this CPU has, or less when GYRE_ISA (baseline, avx2, avx512) says so; read once.
 * @threads any
 */
gy_tile_isa gy_tile_isa_level(void);
const char *gy_tile_isa_name(gy_tile_isa isa);
/**
 * Has the CPU a unit for products of bf16 that are summed in float32 (AVX512-BF16)? Not below
 * level avx512. @threads any
 */
bool gy_kernel_has_bf16(void);

/** What is used of oneDNN's C interface. */
#define GY_DNNL_LIST(X)                                                                        \
    X(engine_create)                                                                           \
    X(stream_create)                                                                           \
    X(stream_destroy)                                                                          \
    X(memory_create)                                                                           \
    X(memory_destroy)                                                                          \
    X(memory_set_data_handle)                                                                  \
    X(memory_desc_init_by_strides)                                                             \
    X(memory_desc_init_by_tag)                                                                 \
    X(memory_desc_get_size)                                                                    \
    X(memory_desc_equal)                                                                       \
    X(primitive_attr_create)                                                                   \
    X(primitive_attr_destroy)                                                                  \
    X(primitive_attr_set_scratchpad_mode)                                                      \
    X(primitive_desc_create)                                                                   \
    X(primitive_desc_destroy)                                                                  \
    X(primitive_desc_query)                                                                    \
    X(primitive_desc_query_md)                                                                 \
    X(primitive_create)                                                                        \
    X(primitive_execute)                                                                       \
    X(primitive_destroy)                                                                       \
    X(reorder_primitive_desc_create)                                                           \
    X(matmul_desc_init)                                                                        \
    X(convolution_forward_desc_init)                                                           \
    X(convolution_backward_data_desc_init)                                                     \
    X(convolution_backward_weights_desc_init)                                                  \
    X(pooling_forward_desc_init)                                                               \
    X(pooling_backward_desc_init)                                                              \
    X(sgemm)                                                                                   \
    X(set_max_cpu_isa)                                                                         \
    X(get_effective_cpu_isa)                                                                   \
    X(version)

typedef struct gy_dnnl {
#define GY_X(name) __typeof__(dnnl_##name) *name;
    GY_DNNL_LIST(GY_X)
#undef GY_X
    dnnl_engine_t engine;
    void (*omp_set_num_threads)(int count);
} gy_dnnl;

/**
 * oneDNN, opened by the first call (1 ms with a warm page cache); this thread will run it
 * without helpers.
 * @return GY_NOTFOUND naming the Debian package when it is not there
 * @threads any
 */
GY_MUST_CHECK gy_status gy_dnnl_get(const gy_dnnl **dnnl);
/** GY_UNSUPPORTED with oneDNN's code and `what` in the text, unless it succeeded. */
GY_MUST_CHECK gy_status gy_dnnl_check(dnnl_status_t status, const char *what);

/** Attributes of a primitive whose scratch the caller gives. Caller destroys them. */
GY_MUST_CHECK gy_status gy_kernel_dnnl_attributes(const gy_dnnl *dnnl,
                                                  dnnl_primitive_attr_t *attr);

typedef struct gy_blas {
    void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                  double alpha, const double *a, int lda, const double *b, int ldb, double beta,
                  double *c, int ldc);
    void (*dgemv)(int order, int transpose, int m, int n, double alpha, const double *a,
                  int lda, const double *x, int incx, double beta, double *y, int incy);
    char *(*config)(void);
    char *(*core_name)(void);
    bool takes_turns; /* the library cannot be called by two threads at once */
} gy_blas;
enum { GY_BLAS_ROW_MAJOR = 101, GY_BLAS_PLAIN = 111, GY_BLAS_TRANSPOSED = 112 };

/**
 * OpenBLAS for this CPU, single-threaded, opened by the first call.
 * @return GY_NOTFOUND naming the Debian package when it is not there
 * @threads any
 */
GY_MUST_CHECK gy_status gy_blas_get(const gy_blas **blas);

/** What is used of LAPACK's Fortran interface, which the same OpenBLAS has: matrices by
 * columns, arguments by address, `info` 0 when all went well. */
typedef struct gy_lapack {
    void (*dgesv)(const int *n, const int *right_sides, double *a, const int *lda, int *pivots,
                  double *b, const int *ldb, int *info);
    void (*dgetrf)(const int *m, const int *n, double *a, const int *lda, int *pivots,
                   int *info);
    void (*dpotrf)(const char *triangle, const int *n, double *a, const int *lda, int *info);
    void (*dsyev)(const char *job, const char *triangle, const int *n, double *a,
                  const int *lda, double *values, double *work, const int *work_size,
                  int *info);
    void (*dgels)(const char *transpose, const int *m, const int *n, const int *right_sides,
                  double *a, const int *lda, double *b, const int *ldb, double *work,
                  const int *work_size, int *info);
    void (*dgesdd)(const char *job, const int *m, const int *n, double *a, const int *lda,
                   double *values, double *u, const int *ldu, double *vt, const int *ldvt,
                   double *work, const int *work_size, int *whole_work, int *info);
} gy_lapack;

/**
 * LAPACK, opened by the first call. Calls to it stand between gy_lapack_begin and
 * gy_lapack_end, as some builds of OpenBLAS cannot be called by two threads at once.
 * @return GY_NOTFOUND naming the Debian package when it is not there
 * @threads any
 */
GY_MUST_CHECK gy_status gy_lapack_get(const gy_lapack **lapack);
void gy_lapack_begin(void);
void gy_lapack_end(void);

#endif
