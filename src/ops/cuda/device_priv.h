/**
 * What the files of a rank's device share.
 */
#ifndef GY_OPS_CUDA_DEVICE_PRIV_H
#define GY_OPS_CUDA_DEVICE_PRIV_H

#include "ops/cuda/device.h"

#include <stdatomic.h>

/** Pinned memory that copies go through, in turns. */
typedef struct gy_cuda_half {
    char *memory;
    gy_cuda_event *event; /* of the last copy from or to it; NULL: it is free */
} gy_cuda_half;

struct gy_cuda_device {
    const gy_cuda_driver *driver;
    gy_cuda_properties properties;
    uint64_t id; /* unique in this process */
    gy_cuda_context *context;
    gy_cuda_pool *pool;
    _Atomic int live; /* what was made and not given back, but for the kept events */
    _Atomic bool is_lost;
    gy_mutex lock;
    gy_error lost;        /* GUARDED(lock) */
    gy_cuda_event **kept; /* GUARDED(lock): events to use again */
    size_t kept_count, kept_capacity;
    gy_mutex staging_lock; /* held through a copy */
    size_t staging_bytes;
    gy_cuda_half halves[2]; /* GUARDED(staging_lock) */
};

/** Make this thread's calls go to the device. GY_PEER it is lost */
GY_MUST_CHECK gy_status gy_cuda_device_enter(gy_cuda_device *device);
/** The same of a device that is lost, which still takes back what was made of it. */
GY_MUST_CHECK gy_status gy_cuda_device_enter_anyway(gy_cuda_device *device);
/** So many things more (or less) were made of it. */
void gy_cuda_device_count_live(gy_cuda_device *device, int change);
/** gy_cuda_check, "device N (NAME): " before the text; a lost device is remembered. */
GY_MUST_CHECK gy_status gy_cuda_device_check(gy_cuda_device *device, int code,
                                             const char *symbol);
/** A warning unless it is GY_OK or the device is lost: for what gives something back. */
void gy_cuda_device_warn(gy_cuda_device *device, gy_status status);

/** Call the driver in the device's context and pass a failure up. */
#define GY_CUDA_DEVICE_TRY(device, member, ...)                                                \
    GY_TRY(gy_cuda_device_check((device), (device)->driver->member(__VA_ARGS__),               \
                                gy_cuda_symbol.member))
/** The same for what gives something back. */
#define GY_CUDA_DEVICE_RELEASE(device, member, ...)                                            \
    gy_cuda_device_warn((device),                                                              \
                        gy_cuda_device_check((device), (device)->driver->member(__VA_ARGS__),  \
                                             gy_cuda_symbol.member))

#endif
