#include "ops/cuda/blas.h"

#include "ops/cuda/library_priv.h"

#include <string.h>

const gy_cuda_blas_symbols gy_cuda_blas_symbol = {
#define GY_X(member, symbol, parameters) .member = symbol,
#include "ops/cuda/blas.def"
#undef GY_X
};

static gy_cuda_library blas_library = {
    .what = "cuBLASLt",
    .package = "NVIDIA package libcublas (Debian package libcublaslt11)",
    .names = {{.file = "libcublasLt.so.13", .major = 13},
              {.file = "libcublasLt.so.12", .major = 12},
              {.file = "libcublasLt.so.11", .major = 11}},
};
static gy_cuda_blas blas_table;
static gy_error blas_error;
static pthread_once_t blas_once = PTHREAD_ONCE_INIT;

static gy_status open_checked(void)
{
    const gy_cuda_driver *driver = NULL;
    GY_TRY(gy_cuda_driver_get(&driver));
    gy_cuda_library_open(&blas_library, driver->version / 1000);
#define GY_X(member, symbol, parameters) GY_CUDA_FIND(blas_table.member, &blas_library, symbol);
#include "ops/cuda/blas.def"
#undef GY_X
    GY_TRY(gy_cuda_library_check(&blas_library));
    blas_table.file = blas_library.file;
    return gy_cuda_library_check_version(&blas_library, blas_library.major, 0, driver->version);
}

static void open_blas(void)
{
    blas_error.status = GY_OK;
    (void)gy_error_keep(&blas_error, open_checked());
}

gy_status gy_cuda_blas_get(const gy_cuda_blas **blas)
{
    pthread_once(&blas_once, open_blas);
    if (blas_error.status < 0) {
        return gy_error_raise(&blas_error);
    }
    *blas = &blas_table;
    return GY_OK;
}

/* The name of a status, which the library tells from CUDA 11.4 on only by another function.
 * @source NVIDIA, "cuBLAS", cublasStatus_t */
static const char *name_of(int code)
{
    static const char *const names[] = {
        [1] = "NOT_INITIALIZED", [3] = "ALLOC_FAILED",   [7] = "INVALID_VALUE",
        [8] = "ARCH_MISMATCH",   [11] = "MAPPING_ERROR", [13] = "EXECUTION_FAILED",
        [14] = "INTERNAL_ERROR", [15] = "NOT_SUPPORTED", [16] = "LICENSE_ERROR"};
    const bool is_known = code > 0 && code < (int)GY_COUNT(names) && names[code] != NULL;
    return is_known ? names[code] : "unknown";
}

gy_status gy_cuda_blas_check(int code, const char *symbol)
{
    if (code == 0) {
        return GY_OK;
    }
    return gy_fail(code == GY_CUDA_BLAS_OUT_OF_MEMORY   ? GY_NOMEM
                   : code == GY_CUDA_BLAS_NOT_SUPPORTED ? GY_UNSUPPORTED
                                                        : GY_STATE,
                   "%s: CUBLAS_STATUS_%s (%d)", symbol, name_of(code), code);
}
