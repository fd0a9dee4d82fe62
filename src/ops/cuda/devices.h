/**
 * Which devices this machine has, and which of them a rank takes.
 */
#ifndef GY_OPS_CUDA_DEVICES_H
#define GY_OPS_CUDA_DEVICES_H

#include "ops/cuda/driver.h"

typedef struct gy_cuda_properties {
    int index;      /* as the driver counts devices */
    int handle;     /* as its functions take them */
    char name[128]; /* printable */
    size_t memory_bytes;
    int capability; /* compute capability 9.0 is 90 */
    int multiprocessors;
    int clock_khz;                  /* of the multiprocessors; 0: not told */
    int shared_bytes_max;           /* of a block */
    double memory_bytes_per_second; /* by clock and width of the bus; 0: not told */
} gy_cuda_properties;

/** Devices that the driver shows (CUDA_VISIBLE_DEVICES bounds them); >= 0.
 * @return GY_OK; failures of gy_cuda_driver_get @threads any */
GY_MUST_CHECK gy_status gy_cuda_device_count(int *count);

/**
 * Describe device `index`.
 * @return GY_OK; GY_NOTFOUND there is no such device: says how many there are; failures of the
 *     driver
 * @threads any
 */
GY_MUST_CHECK gy_status gy_cuda_device_describe(int index, gy_cuda_properties *properties);

#endif
