#include "ops/cuda/driver.h"

#include "ops/cuda/library_priv.h"

#include <string.h>

const gy_cuda_symbols gy_cuda_symbol = {
#define GY_X(member, symbol, parameters) .member = symbol,
#include "ops/cuda/driver.def"
#undef GY_X
};

static gy_cuda_library driver_library = {
    .what = "CUDA driver",
    .package = "NVIDIA driver (Debian package libcuda1)",
    .names = {{.file = "libcuda.so.1"}},
};
static gy_cuda_driver driver_table;
static gy_error driver_error;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

bool gy_cuda_is_lost(int code)
{
    switch (code) {
    case GY_CUDA_DEINITIALIZED:
    case GY_CUDA_DEVICE_UNAVAILABLE:
    case GY_CUDA_ECC_UNCORRECTABLE:
    case GY_CUDA_LAUNCH_TIMEOUT:
    case GY_CUDA_UNKNOWN:
        return true;
    default: /* from the destroyed context to the failed launch all of them end a context */
        return code == GY_CUDA_ILLEGAL_ADDRESS ||
               (code >= GY_CUDA_CONTEXT_DESTROYED && code <= GY_CUDA_LAUNCH_FAILED);
    }
}

static gy_status status_of(int code)
{
    if (gy_cuda_is_lost(code)) {
        return GY_PEER;
    }
    switch (code) {
    case GY_CUDA_OUT_OF_MEMORY:
        return GY_NOMEM;
    case GY_CUDA_NO_DEVICE:
    case GY_CUDA_INVALID_DEVICE:
    case GY_CUDA_NOT_FOUND:
        return GY_NOTFOUND;
    case GY_CUDA_STUB_LIBRARY:
    case GY_CUDA_NO_BINARY:
    case GY_CUDA_UNSUPPORTED_PTX:
    case GY_CUDA_NOT_SUPPORTED:
    case GY_CUDA_CAPTURE_UNSUPPORTED:
    case GY_CUDA_CAPTURE_INVALIDATED:
        return GY_UNSUPPORTED;
    default:
        return GY_STATE;
    }
}

gy_status gy_cuda_check(const gy_cuda_driver *driver, int code, const char *symbol)
{
    if (code == GY_CUDA_SUCCESS) {
        return GY_OK;
    }
    GY_ASSERT(code != GY_CUDA_NOT_READY); /* that is no failure: the caller takes it */
    const char *name = NULL, *text = NULL;
    if (driver->error_name(code, &name) != GY_CUDA_SUCCESS || name == NULL) {
        name = "unknown error";
    }
    if (driver->error_string(code, &text) != GY_CUDA_SUCCESS || text == NULL) {
        text = "the driver has no text for it";
    }
    return gy_fail(status_of(code), "%s: %s (%d): %s", symbol, name, code, text);
}

static gy_status open_checked(void)
{
    gy_cuda_driver *driver = &driver_table;
    gy_cuda_library_open(&driver_library, 0);
#define GY_X(member, symbol, parameters) GY_CUDA_FIND(driver->member, &driver_library, symbol);
#include "ops/cuda/driver.def"
#undef GY_X
    /* A driver that is too old lacks functions: its version is the better reason. */
    if (driver->driver_version != NULL && driver->driver_version(&driver->version) == 0 &&
        driver->version < GY_CUDA_VERSION_MIN) {
        return gy_fail(GY_UNSUPPORTED,
                       "the CUDA driver is of CUDA %d.%d, and %d.%d or newer is needed: "
                       "install a newer %s",
                       driver->version / 1000, driver->version % 1000 / 10,
                       GY_CUDA_VERSION_MIN / 1000, GY_CUDA_VERSION_MIN % 1000 / 10,
                       driver_library.package);
    }
    GY_TRY(gy_cuda_library_check(&driver_library));
    GY_CUDA_TRY(driver, init, 0);
    GY_CUDA_TRY(driver, driver_version, &driver->version);
    return GY_OK;
}

static void open_driver(void)
{
    driver_error.status = GY_OK;
    (void)gy_error_keep(&driver_error, open_checked());
}

gy_status gy_cuda_driver_get(const gy_cuda_driver **driver)
{
    pthread_once(&driver_once, open_driver);
    if (driver_error.status < 0) {
        return gy_error_raise(&driver_error);
    }
    *driver = &driver_table;
    return GY_OK;
}
