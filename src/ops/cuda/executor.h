/**
 * A device of the driver as graphs use one (ops/device.h): a stream in which kernels that were
 * printed as text and products by cuBLASLt run one behind another, and one for copies in each
 * direction, which run beside them where they touch other memory.
 *
 * What a row may run there is asked of ops/cuda/text; products need cuBLASLt, and without it
 * rows that multiply run on the CPU. A text is compiled once in a process.
 */
#ifndef GY_OPS_CUDA_EXECUTOR_H
#define GY_OPS_CUDA_EXECUTOR_H

#include "ops/device.h"

/**
 * Open device `index`, as the driver counts them. Rates are estimates by clock, width of the
 * memory's bus and compute capability.
 *
 * @param device  caller owns it: gy_cuda_executor_close
 * @return GY_OK; failures of gy_cuda_device_open; GY_NOTFOUND no NVRTC
 * @threads any
 */
GY_MUST_CHECK gy_status gy_cuda_executor_open(int index, gy_device **device);
/** So many processes, this one among them, have equal parts of it, of what is free of its
 * memory too: changes what it is reckoned with, and its name. Once, before it is used. */
void gy_cuda_executor_share(gy_device *device, int processes);
/** Waits for what is queued. Kernels are released, memory is given back. NULL is fine. */
void gy_cuda_executor_close(gy_device *device);

#endif
