/**
 * The CUDA driver, opened at run time and never linked: one binary runs on machines with and
 * without a device. The declarations are our own; the lists of functions stand in driver.def
 * and compiler.def.
 *
 * Libraries are found by name (libcuda.so.1, libnvrtc.so.13, .12 or .11.2, as the driver can
 * take what they make). Where GYRE_CUDA_LIBRARIES lists folders, separated by colons, they are
 * found there alone.
 *
 * @source NVIDIA: "CUDA Driver API" and "NVRTC", the public references
 */
#ifndef GY_OPS_CUDA_DRIVER_H
#define GY_OPS_CUDA_DRIVER_H

#include "base/base.h"
#include "ops/cuda/images.h"

/** Device memory is an address that the host cannot read. 0: none. */
typedef uint64_t gy_cuda_address;
/* Handles of the driver and of NVRTC; what they point to is not ours. */
typedef struct gy_cuda_context gy_cuda_context;
typedef struct gy_cuda_pool gy_cuda_pool;
typedef struct gy_cuda_stream gy_cuda_stream;
typedef struct gy_cuda_event gy_cuda_event;
typedef struct gy_cuda_module gy_cuda_module;
typedef struct gy_cuda_function gy_cuda_function;
typedef struct gy_cuda_program gy_cuda_program;
typedef struct gy_cuda_graph gy_cuda_graph;
typedef struct gy_cuda_graph_exec gy_cuda_graph_exec; /* that can be launched */

/** Results of the driver that are told apart (CUresult). */
enum {
    GY_CUDA_SUCCESS = 0,
    GY_CUDA_INVALID_VALUE = 1,
    GY_CUDA_OUT_OF_MEMORY = 2,
    GY_CUDA_NOT_INITIALIZED = 3,
    GY_CUDA_DEINITIALIZED = 4,
    GY_CUDA_STUB_LIBRARY = 34,
    GY_CUDA_DEVICE_UNAVAILABLE = 46,
    GY_CUDA_NO_DEVICE = 100,
    GY_CUDA_INVALID_DEVICE = 101,
    GY_CUDA_INVALID_IMAGE = 200,
    GY_CUDA_INVALID_CONTEXT = 201,
    GY_CUDA_NO_BINARY = 209, /* none for this device in the image */
    GY_CUDA_ECC_UNCORRECTABLE = 214,
    GY_CUDA_INVALID_PTX = 218,
    GY_CUDA_UNSUPPORTED_PTX = 222,
    GY_CUDA_INVALID_HANDLE = 400,
    GY_CUDA_NOT_FOUND = 500,
    GY_CUDA_NOT_READY = 600,
    GY_CUDA_ILLEGAL_ADDRESS = 700,
    GY_CUDA_OUT_OF_RESOURCES = 701, /* a launch with more threads or registers than there are */
    GY_CUDA_LAUNCH_TIMEOUT = 702,
    GY_CUDA_CONTEXT_DESTROYED = 709,
    GY_CUDA_LAUNCH_FAILED = 719,
    GY_CUDA_NOT_SUPPORTED = 801,
    GY_CUDA_CAPTURE_UNSUPPORTED = 900, /* what was called cannot be captured */
    GY_CUDA_CAPTURE_INVALIDATED = 901, /* a call failed since the capture began */
    GY_CUDA_UNKNOWN = 999
};

/** Attributes of devices, pools and functions; flags; options of module_load. */
enum {
    GY_CUDA_DEVICE_CLOCK_KHZ = 13,
    GY_CUDA_DEVICE_MULTIPROCESSORS = 16,
    GY_CUDA_DEVICE_MEMORY_CLOCK_KHZ = 36,
    GY_CUDA_DEVICE_MEMORY_BUS_BITS = 37,
    GY_CUDA_DEVICE_CAPABILITY_MAJOR = 75,
    GY_CUDA_DEVICE_CAPABILITY_MINOR = 76,
    GY_CUDA_DEVICE_SHARED_BYTES_MAX = 97, /* of a block that asks for it */
    GY_CUDA_DEVICE_HAS_POOLS = 115,
    GY_CUDA_POOL_KEPT_BYTES = 4, /* what stays with the pool when it is free: uint64_t */
    GY_CUDA_POOL_RESERVED_BYTES = 5,
    GY_CUDA_POOL_USED_BYTES = 7,
    GY_CUDA_HOST_PORTABLE = 1,
    GY_CUDA_STREAM_NON_BLOCKING = 1,
    GY_CUDA_EVENT_UNTIMED = 2,
    GY_CUDA_CAPTURE_THREAD = 1, /* other threads may call what a capture forbids */
    GY_CUDA_JIT_LOG = 5,        /* char *, where the reason of a refused image is written */
    GY_CUDA_JIT_LOG_BYTES = 6   /* its size, as a pointer */
};

typedef struct gy_cuda_driver {
#define GY_X(member, symbol, parameters) int(*member) parameters;
#include "ops/cuda/driver.def"
#undef GY_X
    int version; /* 1000 * major + 10 * minor of the newest CUDA that the driver can run */
} gy_cuda_driver;

/** The symbol of each function of gy_cuda_driver, under its member's name. */
typedef struct gy_cuda_symbols {
#define GY_X(member, symbol, parameters) const char *member;
#include "ops/cuda/driver.def"
#undef GY_X
} gy_cuda_symbols;
extern const gy_cuda_symbols gy_cuda_symbol;

enum { GY_CUDA_VERSION_MIN = 11040 };

/**
 * The driver, opened by the first call and initialised.
 * @return GY_NOTFOUND it is missing, or has no device: names library and package;
 * GY_UNSUPPORTED it is older than GY_CUDA_VERSION_MIN: says both versions; whatever
 * gy_cuda_check makes of a failed initialisation
 * @threads any @cost the first call 0.1 to 1 s where a device is, 0.1 ms where there is no
 * driver
 */
GY_MUST_CHECK gy_status gy_cuda_driver_get(const gy_cuda_driver **driver);

/**
 * GY_OK for 0, else the failure "SYMBOL: NAME (code): text of the driver", by the code:
 * GY_NOMEM; GY_NOTFOUND no such device or name; GY_UNSUPPORTED; GY_PEER the device is gone, or
 * its context is (all later calls fail alike); GY_STATE any other.
 * @param symbol a member of gy_cuda_symbol
 */
GY_MUST_CHECK gy_status gy_cuda_check(const gy_cuda_driver *driver, int code,
                                      const char *symbol);
/** Is the code one after which the context is lost? */
bool gy_cuda_is_lost(int code);

/** Call a function of `driver` and pass its failure up. */
#define GY_CUDA_TRY(driver, member, ...)                                                       \
    GY_TRY(gy_cuda_check((driver), (driver)->member(__VA_ARGS__), gy_cuda_symbol.member))

typedef struct gy_cuda_compiler {
#define GY_X(result, member, symbol, parameters) result(*member) parameters;
#include "ops/cuda/compiler.def"
#undef GY_X
    const char *file; /* the library's name */
    int major, minor;
    uint64_t build; /* tells updates of one version apart */
} gy_cuda_compiler;

/**
 * NVRTC, opened by the first call.
 * @return GY_NOTFOUND it is missing: names library and package; GY_UNSUPPORTED it is of a newer
 *     CUDA than the driver can run: says both versions; failures of gy_cuda_driver_get
 * @threads any
 */
GY_MUST_CHECK gy_status gy_cuda_compiler_get(const gy_cuda_compiler **compiler);

/**
 * Compile a kernel text for a device of the given compute capability. Where the compiler knows
 * no such device, the image is PTX of the newest that it knows, which the driver translates.
 *
 * @param name    of what the text is, as failures shall say it
 * @param images  where images are kept on disk; NULL: nowhere
 * @param image   what gy_cuda_module_load takes; caller owns it (gy_text_free)
 * @return GY_OK; GY_FORMAT the text does not compile: `name` and the first error of the log;
 *     GY_NOMEM; failures of gy_cuda_compiler_get
 * @threads any; with `images` one at a time @cost about 50 ms a text; one that is kept 0.1 ms
 */
GY_MUST_CHECK gy_status gy_cuda_compile(const char *text, const char *name, int capability,
                                        gy_cuda_images *images, gy_text *image);

#endif
